#pragma once

// Four doubles side by side (core/lanes.h), for the kernels of this folder. Every operation is the same in
// each lane and has the same bits with and without vector instructions.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/lanes.h"

namespace tacit {

__attribute__((always_inline)) inline Lanes All(double v) { return Lanes{v, v, v, v}; }

// a·b + c with one rounding.
__attribute__((always_inline)) inline Lanes MulAdd(Lanes a, Lanes b, Lanes c) {
#ifdef TACIT_LANES_AVX2
  return _mm256_fmadd_pd(a, b, c);
#else
  return Lanes{std::fma(a[0], b[0], c[0]), std::fma(a[1], b[1], c[1]), std::fma(a[2], b[2], c[2]),
               std::fma(a[3], b[3], c[3])};
#endif
}

// a where a > b, else b: b too where either is NaN.
__attribute__((always_inline)) inline Lanes Max(Lanes a, Lanes b) {
#ifdef TACIT_LANES_AVX2
  return _mm256_max_pd(a, b);
#else
  return a > b ? a : b;
#endif
}

// a where a < b, else b.
__attribute__((always_inline)) inline Lanes Min(Lanes a, Lanes b) {
#ifdef TACIT_LANES_AVX2
  return _mm256_min_pd(a, b);
#else
  return a < b ? a : b;
#endif
}

// The nearest integers, ties to even.
__attribute__((always_inline)) inline Lanes Nearest(Lanes v) {
#ifdef TACIT_LANES_AVX2
  return _mm256_round_pd(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  return Lanes{std::nearbyint(v[0]), std::nearbyint(v[1]), std::nearbyint(v[2]), std::nearbyint(v[3])};
#endif
}

__attribute__((always_inline)) inline Lanes Abs(Lanes v) {
  return Lanes(LaneMask(v) & ~LaneMask(Lanes{-0.0, -0.0, -0.0, -0.0}));
}

// v[I] in all lanes.
template <int I>
__attribute__((always_inline)) inline Lanes Spread(Lanes v) {
#ifdef TACIT_LANES_AVX2
  return _mm256_permute4x64_pd(v, I * 0x55);
#else
  return All(v[I]);
#endif
}

// (v0 + v2) + (v1 + v3) of each of four.
__attribute__((always_inline)) inline Lanes SumsOf(Lanes a, Lanes b, Lanes c, Lanes d) {
#ifdef TACIT_LANES_AVX2
  const __m256d ac = _mm256_add_pd(_mm256_permute2f128_pd(a, c, 0x20), _mm256_permute2f128_pd(a, c, 0x31));
  const __m256d bd = _mm256_add_pd(_mm256_permute2f128_pd(b, d, 0x20), _mm256_permute2f128_pd(b, d, 0x31));
  return _mm256_hadd_pd(ac, bd);
#else
  const auto sum = [](Lanes v) { return (v[0] + v[2]) + (v[1] + v[3]); };
  return Lanes{sum(a), sum(b), sum(c), sum(d)};
#endif
}

// Bit i says whether v[i] ≠ 0 (NaN is not 0).
__attribute__((always_inline)) inline std::uint64_t NonZeros(Lanes v) {
#ifdef TACIT_LANES_AVX2
  return static_cast<std::uint64_t>(_mm256_movemask_pd(_mm256_cmp_pd(v, Lanes{}, _CMP_NEQ_UQ)));
#else
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kLanes; ++i) bits |= static_cast<std::uint64_t>(v[i] != 0) << i;
  return bits;
#endif
}

// The first n < 4 doubles at p, zeros after; and their store. Nothing beyond them is touched.
__attribute__((always_inline)) inline Lanes LoadPart(const double* p, std::size_t n) {
#ifdef TACIT_LANES_AVX2
  const __m256i mask =
      _mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(n)), _mm256_setr_epi64x(0, 1, 2, 3));
  return _mm256_maskload_pd(p, mask);
#else
  Lanes v = {};
  for (std::size_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
#endif
}
__attribute__((always_inline)) inline void StorePart(double* p, Lanes v, std::size_t n) {
#ifdef TACIT_LANES_AVX2
  const __m256i mask =
      _mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(n)), _mm256_setr_epi64x(0, 1, 2, 3));
  _mm256_maskstore_pd(p, mask, v);
#else
  for (std::size_t i = 0; i < n; ++i) p[i] = v[i];
#endif
}

// How many doubles after p the next cache line begins; 0: at p.
inline std::size_t ToLine(const double* p) {
  constexpr std::size_t kLine = 64 / sizeof(double);
  return (kLine - reinterpret_cast<std::uintptr_t>(p) / sizeof(double) % kLine) % kLine;
}

}  // namespace tacit
