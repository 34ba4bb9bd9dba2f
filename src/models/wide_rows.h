#pragma once

// Narrow<B>::AddClipped of rows.h with AVX-512, for rows of 8 and 16 features: eight rows at a time, and the
// same bits. An attribute per function, so that nothing of a header is compiled for AVX-512 and then chosen
// for everybody; intrinsics with masks, because GCC 12 warns of the others (bug 105593).
#include <immintrin.h>

#include "data/dataset.h"
#include "models/clip_weight.h"

#define TACIT_AVX512_INLINE __attribute__((always_inline, target("avx2,fma,avx512f,avx512dq,avx512vl")))

namespace tacit {

// Rows of 4·B features, B = 2 or 4.
template <std::size_t B>
struct Wide {
  static constexpr std::size_t kFeatures = 4 * B, kHalves = B / 2;
  static constexpr __mmask8 kAll = 0xff;

  // a[0 … 4) and b[0 … 4) side by side.
  TACIT_AVX512_INLINE static __m512d Beside(const double* a, const double* b) {
    return _mm512_maskz_insertf64x4(kAll, _mm512_castpd256_pd512(_mm256_loadu_pd(a)), _mm256_loadu_pd(b), 1);
  }

  struct Point {
    __m512d x[B];      // four coordinates, twice
  };
  TACIT_AVX512_INLINE static Point At(const double* x) {
    Point p;
    for (std::size_t i = 0; i < B; ++i) p.x[i] = Beside(x + 4 * i, x + 4 * i);
    return p;
  }
  // ⟨row, x⟩ of two rows: four partial sums each.
  TACIT_AVX512_INLINE static __m512d Products(const Point& p, const double* a, const double* b) {
    __m512d s = _mm512_setzero_pd();
    for (std::size_t i = 0; i < B; ++i) s = _mm512_fmadd_pd(Beside(a + 4 * i, b + 4 * i), p.x[i], s);
    return s;
  }
  // ⟨row_l, x⟩ of eight rows; the last ones may be the same. Of each, (s0 + s2) + (s1 + s3).
  TACIT_AVX512_INLINE static __m512d Margins(const Point& p, const double* rows, std::size_t last = 7) {
    const auto row = [=](std::size_t l)
                         __attribute__((always_inline)) { return rows + (l < last ? l : last) * kFeatures; };
    const __m512d u = Products(p, row(0), row(2)), v = Products(p, row(4), row(6)),
                  s = Products(p, row(1), row(3)), t = Products(p, row(5), row(7));
    const __m512d even =
        _mm512_maskz_shuffle_f64x2(kAll, u, v, 0x88) + _mm512_maskz_shuffle_f64x2(kAll, u, v, 0xdd);
    const __m512d odd =
        _mm512_maskz_shuffle_f64x2(kAll, s, t, 0x88) + _mm512_maskz_shuffle_f64x2(kAll, s, t, 0xdd);
    return _mm512_maskz_unpacklo_pd(kAll, even, odd) + _mm512_maskz_unpackhi_pd(kAll, even, odd);
  }

  // As rows.h has it, for up to kPiece rows. d: room for eight more. False: not all rows count, and nothing
  // was added.
  template <class Slope>
  __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl"))) static bool AddClipped(
      const double* value, const double* label, const double* reach, std::size_t count, const double* x,
      double clip, Slope slope, double* d, double* g) {
    const Point point = At(x);
    const __m512d c = _mm512_set1_pd(clip);
    const auto clipped = [&](std::size_t l, __m512d margin, Lanes y0, Lanes y1,
                             __m512d r) TACIT_AVX512_INLINE {
      const Lanes s0 = slope(Lanes(_mm512_maskz_extractf64x4_pd(kAll, margin, 0)), y0),
                  s1 = slope(Lanes(_mm512_maskz_extractf64x4_pd(kAll, margin, 1)), y1);
      const __m512d s = _mm512_maskz_insertf64x4(kAll, _mm512_castpd256_pd512(__m256d(s0)), __m256d(s1), 1);
      const __m512d k = c * r;  // WithinReach: of two numbers and NaN the second stays
      _mm512_storeu_pd(d + l, _mm512_maskz_max_pd(kAll, -k, _mm512_maskz_min_pd(kAll, k, s)));
    };
    __m512d sum[4][kHalves];
    for (auto& s : sum)
      for (auto& h : s) h = _mm512_setzero_pd();
    // Row l, to the sum `to`, a constant: so the sums stay in registers.
    const auto add = [&](std::size_t l, std::size_t to) TACIT_AVX512_INLINE {
      const __m512d w = _mm512_set1_pd(d[l]);
      for (std::size_t h = 0; h < kHalves; ++h)
        sum[to][h] = _mm512_fmadd_pd(w, _mm512_loadu_pd(value + l * kFeatures + 8 * h), sum[to][h]);
    };
    const auto add_eight = [&](std::size_t l) TACIT_AVX512_INLINE {
      add(l, 0), add(l + 1, 1), add(l + 2, 2), add(l + 3, 3);
      add(l + 4, 0), add(l + 5, 1), add(l + 6, 2), add(l + 7, 3);
    };
    const std::size_t full = count & ~std::size_t{7}, rest = count - full;
    // Margins are a step ahead of the slopes, and these of the sums: what waits for the step before would
    // fill the queues of a processor.
    __m512d ahead = full > 0 ? Margins(point, value) : _mm512_setzero_pd();
    for (std::size_t l = 0; l < full; l += 8) {
      const double* next = value + (count + l) * kFeatures;  // likely the next client's
#pragma GCC unroll 16
      for (std::size_t i = 0; i < 8 * kHalves; ++i) __builtin_prefetch(next + 8 * i);
      const __m512d margin = ahead;
      if (l + 8 < full) ahead = Margins(point, value + (l + 8) * kFeatures);
      clipped(l, margin, Load(label + l), Load(label + l + 4), _mm512_loadu_pd(reach + l));
      if (l >= 8) add_eight(l - 8);
    }
    if (rest > 0) {
      const auto here = static_cast<__mmask8>((1u << rest) - 1);
      double y[8];
      _mm512_storeu_pd(y, _mm512_maskz_loadu_pd(here, label + full));
      clipped(full, Margins(point, value + full * kFeatures, rest - 1), Load(y), Load(y + 4),
              _mm512_maskz_loadu_pd(here, reach + full));
    }
    if (full > 0) add_eight(full - 8);
    if (rest > 0) add(full, 0);
    if (rest > 1) add(full + 1, 1);
    if (rest > 2) add(full + 2, 2);
    if (rest > 3) add(full + 3, 3);
    if (rest > 4) add(full + 4, 0);
    if (rest > 5) add(full + 5, 1);
    if (rest > 6) add(full + 6, 2);
    __m512d total[kHalves], zero = _mm512_setzero_pd();
    for (std::size_t h = 0; h < kHalves; ++h) {
      total[h] = (sum[0][h] + sum[2][h]) + (sum[1][h] + sum[3][h]);
      zero += total[h] - total[h];  // 0, or NaN
    }
    const bool finite = _mm512_cmp_pd_mask(zero, _mm512_setzero_pd(), _CMP_EQ_OQ) == kAll;
    if (finite)
      for (std::size_t h = 0; h < kHalves; ++h)
        _mm512_storeu_pd(g + 8 * h, _mm512_loadu_pd(g + 8 * h) + total[h]);
    _mm256_zeroupper();
    return finite;
  }
};

// Tiled<B>::AddPiece of rows.h: columns two at a time, and the same bits.
template <std::size_t B>
struct WideTiles {
  static constexpr std::size_t kPairs = 2 * B, kSize = Tiles::SizeOfOne(4 * B);
  static constexpr std::size_t kAhead = 4;  // how far tiles are fetched ahead: into the next client's
  static constexpr __mmask8 kAll = 0xff;

  // a in four lanes and b in the others.
  TACIT_AVX512_INLINE static __m512d Beside(__m256d a, __m256d b) {
    return _mm512_maskz_insertf64x4(kAll, _mm512_castpd256_pd512(a), b, 1);
  }

  template <class Slope>
  __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl"))) static bool AddPiece(const double* tiles,
                                                                                     std::size_t count,
                                                                                     const double* at,
                                                                                     double clip, Slope slope,
                                                                                     bool begin, double* g) {
    const Lanes c = All(clip);
    __m512d x[kPairs], sum[kPairs];
    for (std::size_t p = 0; p < kPairs; ++p) {
      x[p] = Beside(_mm256_broadcast_sd(at + 2 * p), _mm256_broadcast_sd(at + 2 * p + 1));
      sum[p] = _mm512_setzero_pd();
    }
    for (const double *tile = tiles, *end = tiles + count * kSize; tile != end; tile += kSize) {
      __m512d columns[kPairs], s01 = _mm512_setzero_pd(), s23 = _mm512_setzero_pd();
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kSize; i += 8) __builtin_prefetch(tile + kAhead * kSize + i);
#pragma GCC unroll 8
      for (std::size_t p = 0; p < kPairs; ++p) {
        columns[p] = _mm512_loadu_pd(tile + 8 + 8 * p);
        asm("" : "+v"(columns[p]));  // or GCC 12 reads them again below
      }
#pragma GCC unroll 8
      for (std::size_t p = 0; p < kPairs; p += 2) {
        s01 = _mm512_fmadd_pd(columns[p], x[p], s01);
        s23 = _mm512_fmadd_pd(columns[p + 1], x[p + 1], s23);
      }
      const __m512d both = s01 + s23;  // s0 + s2, s1 + s3
      const Lanes margin = Lanes(__builtin_shufflevector(both, both, 0, 1, 2, 3)) +
                           Lanes(_mm512_maskz_extractf64x4_pd(kAll, both, 1));
      const auto d = __m256d(WithinReach(slope(margin, Load(tile)), Load(tile + 4), c));
      const __m512d twice = Beside(d, d);
#pragma GCC unroll 8
      for (std::size_t p = 0; p < kPairs; ++p) sum[p] = _mm512_fmadd_pd(twice, columns[p], sum[p]);
    }
    // Of every coordinate s0 + s2 and s1 + s3 beside each other, of four coordinates; and then of eight.
    __m512d pairs[2];
    for (std::size_t i = 0; i < B; ++i)
      pairs[i] = _mm512_maskz_shuffle_f64x2(kAll, sum[2 * i], sum[2 * i + 1], 0x88) +
                 _mm512_maskz_shuffle_f64x2(kAll, sum[2 * i], sum[2 * i + 1], 0xdd);
    if constexpr (B == 1) pairs[1] = pairs[0];
    const __m512d mixed = _mm512_maskz_unpacklo_pd(kAll, pairs[0], pairs[1]) +
                          _mm512_maskz_unpackhi_pd(kAll, pairs[0], pairs[1]);
    const __m512d total = _mm512_maskz_permutexvar_pd(kAll, _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), mixed);
    const bool finite = _mm512_cmp_pd_mask(total - total, _mm512_setzero_pd(), _CMP_EQ_OQ) == kAll;
    const auto here = static_cast<__mmask8>((1u << (4 * B)) - 1);
    const auto old = static_cast<__mmask8>(begin ? 0 : here);
    if (finite) _mm512_mask_storeu_pd(g, here, _mm512_maskz_loadu_pd(old, g) + total);
    _mm256_zeroupper();
    return finite;
  }
};

}  // namespace tacit
