#include "models/second_order.h"

#include <Eigen/Dense>
#include <algorithm>

namespace tacit {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Block = Eigen::Map<RowMajor, 0, Eigen::OuterStride<>>;

void Add(const Shard& shard, View coefficient, Span h, std::size_t stride, bool full) {
  const std::size_t d = shard.features();
  if (shard.size() == 0 || d == 0) return;
  TACIT_CHECK(coefficient.size() >= shard.size() && h.size() >= (d - 1) * stride + d);
  if (shard.sparse()) {
    for (std::size_t l = 0; l < shard.size(); ++l) {
      const Row row = shard.row(l);
      for (std::size_t i = 0; i < row.size; ++i) {
        const double c = coefficient[l] * row.value[i];
        double* hi = h.data() + row.index[i] * stride;
        const std::size_t end = full ? row.size : i + 1;   // indices ascend
        for (std::size_t j = 0; j < end; ++j) hi[row.index[j]] += c * row.value[j];
      }
    }
    return;
  }
  constexpr std::size_t kRows = 256;
  const auto dim = static_cast<Eigen::Index>(d);
  Block out(h.data(), dim, dim, Eigen::OuterStride<>(static_cast<Eigen::Index>(stride)));
  RowMajor a(static_cast<Eigen::Index>(std::min(kRows, shard.size())), dim), scaled = a;
  for (std::size_t first = 0; first < shard.size(); first += kRows) {
    const auto count = static_cast<Eigen::Index>(std::min(kRows, shard.size() - first));
    for (Eigen::Index r = 0; r < count; ++r) {
      const std::size_t l = first + static_cast<std::size_t>(r);
      a.row(r) = Eigen::Map<const Eigen::RowVectorXd>(shard.row(l).value, dim);
      scaled.row(r) = coefficient[l] * a.row(r);
    }
    if (full)
      out.noalias() += scaled.topRows(count).transpose() * a.topRows(count);
    else
      out.triangularView<Eigen::Lower>() += scaled.topRows(count).transpose() * a.topRows(count);
  }
}

}  // namespace

void AddOuterProducts(const Shard& shard, View coefficient, Span h, std::size_t stride) {
  Add(shard, coefficient, h, stride, false);
}

void AddFullOuterProducts(const Shard& shard, View coefficient, Span h, std::size_t stride) {
  Add(shard, coefficient, h, stride, true);
}

}  // namespace tacit
