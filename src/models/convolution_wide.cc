#include "models/convolution_wide.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 of its own intrinsics (bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <utility>

// As in entries.cc: an attribute per function, and the upper halves of the registers are cleaned at the end.
#define TACIT_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl")))

namespace tacit::internal {
namespace {

constexpr std::size_t kEight = 8;
constexpr std::size_t kSums = 24;  // vectors of sums that fit the registers beside their operands

// A tile: R rows and V vectors of places from row y, column x on, of F filters. R and x are even.
struct TileOf {
  const Stage* stage;
  const double* in;
  const double* weight;  // [c][i][j][kLanes], then the biases
  const BitWord* nonzero;
  std::size_t y, x;
  std::size_t filters;  // of the F: those that there are
  double* out;  // of the first filter
  Place* place;
};

// The places' maxima: four windows of two vectors of places each. `above` and `below` are two rows.
struct Maxima {
  __m512d best;
  __m512i at;
};
TACIT_AVX512 __attribute__((always_inline)) inline Maxima MaximaOf(__m512d above0, __m512d below0,
                                                                   __m512d above1, __m512d below1,
                                                                   __m512i corner, __m512i width, bool relu) {
  if (relu) {  // the second operand where it is NaN or −0
    const __m512d zero = _mm512_setzero_pd();
    above0 = _mm512_max_pd(zero, above0), below0 = _mm512_max_pd(zero, below0);
    above1 = _mm512_max_pd(zero, above1), below1 = _mm512_max_pd(zero, below1);
  }
  const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
  const __m512i odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
  __m512d best = _mm512_permutex2var_pd(above0, even, above1);
  __m512i at = corner;
  const auto next = [&](__m512d v, __m512i from) TACIT_AVX512 __attribute__((always_inline)) {
    const auto take = static_cast<__mmask8>(_mm512_cmp_pd_mask(v, best, _CMP_GT_OQ) |
                                            _mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q));
    best = _mm512_mask_mov_pd(best, take, v);
    at = _mm512_mask_mov_epi64(at, take, from);
  };
  const __m512i one = _mm512_set1_epi64(1), low = _mm512_add_epi64(corner, width);
  next(_mm512_permutex2var_pd(above0, odd, above1), _mm512_add_epi64(corner, one));
  next(_mm512_permutex2var_pd(below0, even, below1), low);
  next(_mm512_permutex2var_pd(below0, odd, below1), _mm512_add_epi64(low, one));
  if (relu)
    at = _mm512_mask_mov_epi64(_mm512_set1_epi64(-1),
                               _mm512_cmp_pd_mask(best, _mm512_setzero_pd(), _CMP_GT_OQ), at);
  return {best, at};
}

// Whether R rows of so many bits have one that is set; R·width ≤ 128.
template <std::size_t R>
inline bool AnyRow(const BitWord* bits, std::size_t first, std::size_t width) {
  const std::size_t count = R * width;
  return count <= 64 ? AnyBit(bits, first, count)
                     : BitsFrom(bits, first) != 0 || AnyBit(bits, first + 64, count - 64);
}

template <std::size_t R, std::size_t V, std::size_t F>
TACIT_AVX512 void Tile(const TileOf& t) {
  const Stage& s = *t.stage;
  const std::size_t width = s.in.width, plane = s.in.height * width, kernel = s.kernel;
  const std::size_t channels = s.in.channels;
  const double* weight = t.weight;
  const double* start = weight + channels * kernel * kernel * kLanes;
  __m512d sum[F][R][V];
#pragma GCC unroll 8
  for (std::size_t f = 0; f < F; ++f) {
    const __m512d b = _mm512_set1_pd(start[f]);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (std::size_t v = 0; v < V; ++v) sum[f][r][v] = b;
  }
  for (std::size_t c = 0; c < channels; ++c) {
    std::size_t first = c * plane + t.y * width;
    for (std::size_t i = 0; i < kernel; ++i, first += width) {
      if (t.nonzero != nullptr && !AnyRow<R>(t.nonzero, first, width)) {
        weight += kernel * kLanes;
        continue;
      }
      const double* line = t.in + first + t.x;
      for (std::size_t j = 0; j < kernel; ++j, ++line, weight += kLanes) {
        __m512d w[F];  // with the sums and one value they fit the registers
#pragma GCC unroll 8
        for (std::size_t f = 0; f < F; ++f) w[f] = _mm512_set1_pd(weight[f]);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 8
          for (std::size_t v = 0; v < V; ++v) {
            __m512d value = _mm512_loadu_pd(line + r * width + v * kEight);
            if (F > 1) asm("" : "+v"(value));  // or GCC loads it for every filter, across cache lines
#pragma GCC unroll 8
            for (std::size_t f = 0; f < F; ++f) sum[f][r][v] = _mm512_fmadd_pd(w[f], value, sum[f][r][v]);
          }
      }
    }
  }
  const std::size_t columns = s.out.width, size = s.places(), left = columns - t.x / 2;
  const auto row = static_cast<long long>(width);
  const __m512i rows = _mm512_set1_epi64(row);
  const bool relu = s.relu;
  const auto mask = [](std::size_t count) {
    return static_cast<__mmask8>((1u << std::min(count, kEight)) - 1);
  };
  const auto corner_of = [&](std::size_t r, std::size_t v) {
    return static_cast<long long>((t.y + r) * width + t.x + v * kEight);
  };
  // Two neighbours of a row at a time.
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; r += 2)
#pragma GCC unroll 8
    for (std::size_t v = 0; v + 1 < V; v += 2) {
      const __m512i corner =
          _mm512_add_epi64(_mm512_set1_epi64(corner_of(r, v)), _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14));
      const std::size_t to = (t.y + r) / 2 * columns + t.x / 2 + v * kEight / 2;
      const __mmask8 there = mask(left - v * kEight / 2);
#pragma GCC unroll 8
      for (std::size_t f = 0; f < F; ++f) {
        if (f >= t.filters) break;
        const Maxima m = MaximaOf(sum[f][r][v], sum[f][r + 1][v], sum[f][r][v + 1], sum[f][r + 1][v + 1],
                                  corner, rows, relu);
        _mm512_mask_storeu_pd(t.out + f * size + to, there, m.best);
        _mm512_mask_storeu_epi64(t.place + f * size + to, there, m.at);
      }
    }
  // The last one of an odd number, of two pairs of rows where there are two.
  if constexpr (V % 2 == 1) {
    constexpr std::size_t v = V - 1;
    const auto low = static_cast<__mmask8>(mask(left - v * kEight / 2) & 0xf);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; r += 4) {
      const std::size_t q = r + 2 < R ? r + 2 : r;
      const __m512i corner = _mm512_add_epi64(
          _mm512_mask_mov_epi64(_mm512_set1_epi64(corner_of(r, v)), 0xf0, _mm512_set1_epi64(corner_of(q, v))),
          _mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6));
      const std::size_t to = (t.y + r) / 2 * columns + t.x / 2 + v * kEight / 2;
#pragma GCC unroll 8
      for (std::size_t f = 0; f < F; ++f) {
        if (f >= t.filters) break;
        const Maxima m =
            MaximaOf(sum[f][r][v], sum[f][r + 1][v], sum[f][q][v], sum[f][q + 1][v], corner, rows, relu);
        double* into = t.out + f * size + to;
        Place* where = t.place + f * size + to;
        _mm512_mask_storeu_pd(into, low, m.best);
        _mm512_mask_storeu_epi64(where, low, m.at);
        if (q == r) continue;
        _mm256_mask_storeu_pd(into + columns, low, _mm512_extractf64x4_pd(m.best, 1));
        _mm256_mask_storeu_epi64(where + columns, low, _mm512_extracti64x4_epi64(m.at, 1));
      }
    }
  }
  _mm256_zeroupper();
}

// Rows of tiles: as many rows at a time as fit, then fewer.
template <std::size_t V, std::size_t F, std::size_t R>
void Rows(TileOf& t) {
  const std::size_t rows = 2 * t.stage->out.height;
  const BitWord* nonzero = t.nonzero;
  t.nonzero = R * t.stage->in.width <= 128 ? nonzero : nullptr;
  for (; t.y + R <= rows; t.y += R) Tile<R, V, F>(t);
  t.nonzero = nonzero;
  if constexpr (R > 2)
    if (t.y < rows) Rows<V, F, R / 2>(t);
}
template <std::size_t V, std::size_t F>
void Columns(TileOf& t) {
  constexpr std::size_t kRows = kSums / (V * F) >= 8 ? 8 : kSums / (V * F) >= 4 ? 4 : 2;
  t.y = 0;
  Rows<V, F, kRows>(t);
}
template <std::size_t F>
void Filters(TileOf& t) {
  constexpr std::size_t kMost = 3;  // vectors in a row of a tile
  const std::size_t vectors = (2 * t.stage->out.width + kEight - 1) / kEight;
  const std::size_t tiles = (vectors + kMost - 1) / kMost;
  t.x = 0;
  for (std::size_t k = 0; k < tiles; ++k) {
    const std::size_t count = vectors / tiles + (k < vectors % tiles ? 1 : 0);
    if (count == 3)
      Columns<3, F>(t);
    else if (count == 2)
      Columns<2, F>(t);
    else
      Columns<1, F>(t);
    t.x += count * kEight;
  }
}

}  // namespace

void WideConvolveAndPool(const Stage& s, const double* in, const double* packed, const BitWord* nonzero,
                         double* out, Place* place) {
  const std::size_t side = s.side();
  TileOf t{&s, in, packed, nonzero, 0, 0, 0, out, place};
  for (std::size_t g = 0; g < s.groups(); ++g) {
    t.filters = std::min(side, s.filters - g * side);
    switch (side) {
      case 1: Filters<1>(t); break;
      case 2: Filters<2>(t); break;
      default: Filters<kLanes>(t);
    }
    t.weight += (s.weights() / s.filters + 1) * kLanes;
    t.out += side * s.places();
    t.place += side * s.places();
  }
}

TACIT_AVX512 std::size_t WideNonZeroBits(const double* in, std::size_t size, BitWord* nonzero) {
  std::size_t count = 0;
  for (std::size_t k = 0; k < size; k += 64) {
    std::uint64_t word = 0;
    const std::size_t end = std::min<std::size_t>(64, size - k);
    for (std::size_t b = 0; b < end; b += kEight) {
      const auto here = static_cast<__mmask8>(end - b >= kEight ? 0xff : (1u << (end - b)) - 1);
      const __m512d v = _mm512_maskz_loadu_pd(here, in + k + b);
      word |= static_cast<std::uint64_t>(_mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_NEQ_UQ)) << b;
    }
    nonzero[k / 64] = word;
    count += static_cast<std::size_t>(__builtin_popcountll(word));
  }
  nonzero[(size + 63) / 64] = 0;
  _mm256_zeroupper();
  return count;
}

}  // namespace tacit::internal
