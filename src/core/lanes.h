#pragma once

// Four doubles side by side: what short loops in headers need. Every operation is the same in each lane and
// has the same bits with and without vector instructions. Kernels find more in models/lanes.h.
#include <cstddef>
#if defined(__FMA__) && defined(__AVX2__)
#include <immintrin.h>
#define TACIT_LANES_AVX2
#endif

namespace tacit {

inline constexpr std::size_t kLanes = 4;
using Lanes = double __attribute__((vector_size(32), aligned(8), may_alias));   // unaligned on purpose

__attribute__((always_inline)) inline Lanes Load(const double* p) {
  return *reinterpret_cast<const Lanes*>(p);
}
__attribute__((always_inline)) inline void Store(double* p, Lanes v) { *reinterpret_cast<Lanes*>(p) = v; }

// What comparisons of Lanes give: all bits of a lane, or none.
using LaneMask = long long __attribute__((vector_size(32), aligned(8), may_alias));

// Whether all lanes of a mask are set.
__attribute__((always_inline)) inline bool Everywhere(LaneMask mask) {
#ifdef TACIT_LANES_AVX2
  return _mm256_movemask_pd(Lanes(mask)) == 0xf;
#else
  return (mask[0] & mask[1] & mask[2] & mask[3]) != 0;
#endif
}

}  // namespace tacit
