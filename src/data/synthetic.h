#pragma once

// Data made on the spot: a public generator for when no file can be had. Row i depends on the options
// and i alone (not on rows), so any range of rows can be made anywhere, and more rows extend fewer.
//
// Model, with d features, density q, heterogeneity h and client c = i mod clients (after the
// synthetic(α, β) data of Li et al., MLSys 2020):
//   w, u_c, m_c ∈ ℝᵈ with independent N(0, 1) entries
//   w_c = (w + h u_c) / √(1 + h²)                  the client's true model: h = 0 is the same for all
//   x_j = (N(0, 1) + h m_cj) / √(q d (1 + h²)) with probability q, otherwise 0
//   logistic: y = +1 with probability 1 / (1 + exp(−3 w_c·x)), otherwise −1; then flipped with
//             probability label_noise
//   linear:   y = w_c·x + label_noise · N(0, 1)
//
// fedexp, the linear regression of Takakura, Liew and Hasegawa (2025) after Jhunjhunwala et al. (2023):
// clients differ in their rows and share the minimiser. It has no density, label noise or heterogeneity to
// choose:
//   w ∈ ℝᵈ with N(0, 1) entries;  μ_c ~ N(0, 0.1), a number;  m_cj ~ N(μ_c, 1);  x_j ~ N(m_cj, 1);  y = w·x
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/result.h"
#include "data/dataset.h"

namespace tacit {

enum class SyntheticKind { kLogistic, kLinear, kFedexp };

struct SyntheticOptions {
  SyntheticKind kind = SyntheticKind::kLogistic;
  std::size_t rows = 10000;
  std::size_t features = 50;
  double density = 1.0;                // (0, 1]; below 1 the data set is sparse
  double label_noise = 0.0;  // logistic: flip probability in [0, 0.5]; linear: standard deviation
  std::size_t clients = 1;  // groups; the group column of the result
  double heterogeneity = 0.0;  // h ≥ 0
  std::uint64_t seed = 42;
};

// The name of a kind as a data source, synthetic-logistic, synthetic-linear or synthetic-fedexp, and back.
std::string_view Name(SyntheticKind);
std::optional<SyntheticKind> SyntheticKindOf(std::string_view name);

// Rows first … first + rows − 1, under the name of their kind, with a group column.
// space: what is in it is lost; values are put there, so that batches can share it.
Result<Dataset> MakeSynthetic(const SyntheticOptions&, std::size_t first = 0, LineVec space = {});

// The generator with what its rows share, for whoever wants them one by one.
class SyntheticRows {
 public:
  static Result<SyntheticRows> Of(const SyntheticOptions&, std::size_t first = 0);
  Dataset Nothing(bool names = true) const;  // a set without rows, to append to; names: of the groups
  void Meet(std::size_t i);  // makes what row i shares with other rows of its client; before Append
  void Append(std::size_t i, Dataset&) const;  // row i with its label and group

 private:
  explicit SyntheticRows(const SyntheticOptions& o);
  bool sparse() const { return o_.density < 1 && o_.kind != SyntheticKind::kFedexp; }
  SyntheticOptions o_;
  Vec w_;
  std::vector<Vec> model_, mean_;  // of clients that were met, where they have their own
};

}  // namespace tacit
