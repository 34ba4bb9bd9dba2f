#pragma once

// Preprocessing by public constants only: nothing here may depend on the data, or it would have to
// be charged. Every row is treated alone, in this order:
//
//   non-finite features → 0;  clamp to [lower, upper] (the options', or the data set's own, by column) and
//   map to the target range;  × scale;
//   append the intercept;  row norm;  label
#include <limits>
#include <vector>

#include "core/result.h"
#include "data/dataset.h"

namespace tacit {

enum class RowNorm {
  kNone,      // rows stay as they are; no bound is enforced
  kClip,      // rows longer than the bound are scaled down to it
  kUnit,      // every non-zero row is scaled to the bound; a zero row stays zero
};
enum class LabelKind { kBinary, kClass, kReal };
enum class RangeTarget { kMinusOneToOne, kZeroToOne };

struct PreprocessOptions {
  // Public ranges of the features: empty (no clamping), one entry for all features, or one each.
  std::vector<double> lower = {}, upper = {};
  RangeTarget target = RangeTarget::kMinusOneToOne;
  double scale = 1.0;                 // every feature is multiplied by it
  bool intercept = false;             // append a constant feature 1 (after scale, before the row norm)
  RowNorm row_norm = RowNorm::kNone;
  double row_bound = 1.0;             // the public bound of kClip and kUnit, in [1e-100, 1e100]
  LabelKind labels = LabelKind::kBinary;
  double positive = 1.0;              // kBinary: this label becomes +1, any other −1
  std::size_t classes = 0;  // kClass: labels are 0 … classes − 1; others become 0 (a defined value)
  double label_bound =
      std::numeric_limits<double>::infinity();  // kReal: clamped to ± this; NaN and ±∞ may become 0
};

// In place. Afterwards norm[] is filled (rounded up), row_bound is set, and norm[i] ≤ row_bound holds
// for the stored doubles in real arithmetic. Non-finite features become 0. A sparse data set becomes
// dense if the ranges map 0 to something else.
// On an error the data set is unchanged.
Status Preprocess(const PreprocessOptions&, Dataset&);

// A double ≥ ‖x‖₂ of these doubles in real arithmetic, and within a few ulp of it; ∞ only if it
// exceeds the largest double or x is not finite.
double NormUp(View x);

}  // namespace tacit
