#pragma once

// Small data sets for the tests of this folder.
#include <cmath>

#include "core/rng.h"
#include "core/round.h"
#include "data/dataset.h"
#include "models/objective.h"

namespace tacit::test {

inline void FillNorms(Dataset& data) {
  data.norm.clear();
  for (std::size_t i = 0; i < data.rows(); ++i) {
    const Row row = data.row(i);
    long double sum = 0;
    for (std::size_t k = 0; k < row.size; ++k) sum += static_cast<long double>(row.value[k]) * row.value[k];
    data.norm.push_back(NextUp(static_cast<double>(std::sqrt(sum))));
  }
}

inline double RandomLabel(Loss loss, std::size_t classes, Stream& rng) {
  switch (loss) {
    case Loss::kLogistic:
    case Loss::kHinge:
    case Loss::kSmoothedHinge: return rng.Below(2) == 0 ? -1.0 : 1.0;
    case Loss::kSoftmax:
    case Loss::kMlp:
    case Loss::kCnn: return static_cast<double>(rng.Below(classes));
    case Loss::kLeastSquares:
    case Loss::kAbsoluteDeviation:
    case Loss::kHuber: return rng.Normal();
  }
  return 0;
}

// Dense storage, about `density` of the entries not zero.
inline Dataset RandomData(Loss loss, std::size_t classes, std::size_t rows, std::size_t features,
                          double density, std::uint64_t seed) {
  Stream rng(StreamId{seed, Purpose::kTest, 0, 0});
  Dataset data;
  data.features = features;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < features; ++j)
      data.value.push_back(rng.Uniform() < density ? rng.Normal() : 0.0);
    data.label.push_back(RandomLabel(loss, classes, rng));
  }
  FillNorms(data);
  return data;
}

inline Dataset Sparse(const Dataset& dense) {
  Dataset out;
  out.features = dense.features;
  out.label = dense.label;
  out.norm = dense.norm;
  out.row_begin.push_back(0);
  for (std::size_t i = 0; i < dense.rows(); ++i) {
    for (std::size_t j = 0; j < dense.features; ++j) {
      const double v = dense.value[i * dense.features + j];
      if (v == 0) continue;
      out.value.push_back(v);
      out.column.push_back(static_cast<std::uint32_t>(j));
    }
    out.row_begin.push_back(out.value.size());
  }
  return out;
}

// Rows of 14 ones among `features`, one from each of 14 bands, as in the binarised Adult sets; the
// labels follow a linear rule with noise.
inline Dataset AdultLike(std::size_t rows, std::size_t features, std::uint64_t seed) {
  Stream rng(StreamId{seed, Purpose::kTest, 1, 0});
  Vec rule(features);
  for (double& v : rule) v = rng.Normal();
  Dataset data;
  data.features = features;
  data.row_begin.push_back(0);
  constexpr std::size_t kOnes = 14;
  for (std::size_t i = 0; i < rows; ++i) {
    double margin = -1;
    for (std::size_t b = 0; b < kOnes; ++b) {
      const std::size_t from = b * features / kOnes, to = (b + 1) * features / kOnes;
      const std::size_t j = from + std::min(rng.Below(to - from), rng.Below(to - from));
      data.column.push_back(static_cast<std::uint32_t>(j));
      data.value.push_back(1.0);
      margin += rule[j];
    }
    data.row_begin.push_back(data.value.size());
    data.label.push_back(margin + rng.Normal() > 0 ? 1.0 : -1.0);
  }
  FillNorms(data);
  return data;
}

inline Vec RandomVec(std::size_t size, double scale, std::uint64_t seed) {
  Stream rng(StreamId{seed, Purpose::kTest, 2, 0});
  Vec x(size);
  for (double& v : x) v = scale * rng.Normal();
  return x;
}

}  // namespace tacit::test
