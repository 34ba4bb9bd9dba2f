#pragma once

// The loops of the consensus ADMM over coordinates: short, and made by every peer in every round. All
// arguments of a call have one length, and none that is written overlaps another.
#include <span>

#include "core/lanes.h"
#include "core/simd.h"
#include "core/vec.h"

namespace tacit {

// An edge as one of its ends sees it: what the other end has sent, and the edge's multiplier.
struct EdgeEnd {
  const double* other;
  double* lambda;
  double step;
};
namespace internal {
// Four coordinates at a time, and eight: the same bits.
void AddEdges4(double rho, std::span<const EdgeEnd> edges, bool begin, std::size_t d, const double* own,
               double* w, double* pull);
void AddEdges8(double rho, std::span<const EdgeEnd> edges, bool begin, std::size_t d, const double* own,
               double* w, double* pull);
}  // namespace internal
// λ_i ← λ_i + step_i·(own − other_i),  pull ← pull + ρ(own + other_i) − λ_i, edge after edge, with pull from
// 0 on if `begin`; and w ← own, which may be w itself.
inline void AddEdges(double rho, std::span<const EdgeEnd> edges, bool begin, std::size_t d, const double* own,
                     double* w, double* pull) {
  if (internal::SimdInUse() == internal::Simd::kAvx512)
    internal::AddEdges8(rho, edges, begin, d, own, w, pull);
  else
    internal::AddEdges4(rho, edges, begin, d, own, w, pull);
}
// out ← a·w + pull − b·sum, which may be out itself
inline void Combine(double a, View w, View pull, double b, View sum, Span out) {
  const std::size_t d = out.size();
  TACIT_CHECK(w.size() == d && pull.size() == d && sum.size() == d);
  std::size_t j = 0;
  for (; j + kLanes <= d; j += kLanes)
    Store(out.data() + j, a * Load(w.data() + j) + Load(pull.data() + j) - b * Load(sum.data() + j));
  for (; j < d; ++j) out[j] = a * w[j] + pull[j] - b * sum[j];
}

}  // namespace tacit
