#pragma once

// Preprocessing by public constants only: nothing here may depend on the data, or it would have to
// be charged.
#include <optional>
#include <string>

#include "core/result.h"
#include "data/dataset.h"

namespace tacit {

enum class RowNorm {
  kNone,      // rows stay as they are; no bound is enforced
  kClip,      // rows longer than the bound are scaled down to it
  kUnit,      // every non-zero row is scaled to the bound
};
enum class LabelKind { kBinary, kClass, kReal };

struct PreprocessOptions {
  double scale = 1.0;                 // every feature is multiplied by it
  bool intercept = false;             // append a constant feature 1 (after scale, before the row norm)
  RowNorm row_norm = RowNorm::kNone;
  double row_bound = 1.0;             // the public bound of kClip and kUnit
  LabelKind labels = LabelKind::kBinary;
  double positive = 1.0;              // kBinary: this label becomes +1, any other −1
  std::size_t classes = 0;            // kClass: labels are 0 … classes − 1; others become 0 (a defined value)
  double label_bound = std::numeric_limits<double>::infinity();   // kReal: labels are clamped to ± this
};

// In place. Afterwards norm[] is filled (rounded up), row_bound is set, and norm[i] ≤ row_bound holds
// for the stored doubles in real arithmetic. Non-finite features become 0.
Status Preprocess(const PreprocessOptions&, Dataset&);

}  // namespace tacit
