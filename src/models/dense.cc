#include "models/dense.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 of its own intrinsics (bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/simd.h"
#include "models/lanes.h"

// As in entries.cc: an attribute per function, and the upper halves of the registers are cleaned at the end.
#define TACIT_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl")))

namespace tacit {
namespace {

// y[0 … size) += Σ_{k<N} a[k] b[k][0 … size), k ascending: streams the b.
template <std::size_t N>
inline void AxpyRows(const double* a, const double* const* b, std::size_t size, double* y) {
  Lanes c[N];
  for (std::size_t k = 0; k < N; ++k) c[k] = All(a[k]);
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    Lanes sum = Load(y + i);
    for (std::size_t k = 0; k < N; ++k) sum = MulAdd(c[k], Load(b[k] + i), sum);
    Store(y + i, sum);
  }
  if (i < size) {
    Lanes sum = LoadPart(y + i, size - i);
    for (std::size_t k = 0; k < N; ++k) sum = MulAdd(c[k], LoadPart(b[k] + i, size - i), sum);
    StorePart(y + i, sum, size - i);
  }
}

// y += Σ_{from ≤ k < count} coefficient(k) row(k), N at a time, the rest by fewer.
template <std::size_t N, class Coefficient, class RowOf>
inline void StreamRows(std::size_t from, std::size_t count, std::size_t size, double* y,
                       Coefficient coefficient, RowOf row) {
  std::size_t k = from;
  for (; k + N <= count; k += N) {
    double a[N];
    const double* b[N];
    for (std::size_t i = 0; i < N; ++i) {
      a[i] = coefficient(k + i);
      b[i] = row(k + i);
    }
    AxpyRows<N>(a, b, size, y);
  }
  if constexpr (N > 1) {
    if (k < count) StreamRows<N / 2>(k, count, size, y, coefficient, row);
  }
}
template <class Coefficient, class RowOf>
inline void StreamRows(std::size_t count, std::size_t size, double* y, Coefficient coefficient, RowOf row) {
  StreamRows<8>(0, count, size, y, coefficient, row);
}

// Passing over zeros pays where two thirds of the entries are: sums skip them and keep their bits.
std::size_t NonZeros(const double* row, std::size_t size) {
  std::size_t count = 0;
  for (std::size_t j = 0; j < size; ++j) count += row[j] != 0;
  return count;
}
bool Few(std::size_t nonzeros, std::size_t size) { return nonzeros < size / 3; }

// A register tile: y[p][0 … 4L) += Σ_k a(p, k) b(k)[0 … 4L) for p < P. With `part` the last lanes hold
// that many outputs only.
template <std::size_t P, std::size_t L, bool Part, class A, class B>
__attribute__((always_inline)) inline void Tile(std::size_t count, double* const* y, std::size_t part, A a,
                                                B b) {
  const auto load = [part](const double* p, std::size_t i) __attribute__((always_inline)) {
    return Part && i + 1 == L ? LoadPart(p + kLanes * i, part) : Load(p + kLanes * i);
  };
  Lanes sum[P][L];
  for (std::size_t p = 0; p < P; ++p)
    for (std::size_t i = 0; i < L; ++i) sum[p][i] = load(y[p], i);
  for (std::size_t k = 0; k < count; ++k) {
    const double* row = b(k);
    Lanes v[L];
    for (std::size_t i = 0; i < L; ++i) v[i] = load(row, i);
    for (std::size_t p = 0; p < P; ++p) {
      const Lanes c = All(a(p, k));
      for (std::size_t i = 0; i < L; ++i) sum[p][i] = MulAdd(c, v[i], sum[p][i]);
    }
  }
  for (std::size_t p = 0; p < P; ++p)
    for (std::size_t i = 0; i < L; ++i) {
      if (Part && i + 1 == L)
        StorePart(y[p] + kLanes * i, sum[p][i], part);
      else
        Store(y[p] + kLanes * i, sum[p][i]);
    }
}

constexpr std::size_t kWide = 3;      // lanes of a tile: 4 × 3 sums, 3 + 1 operands fill 16 registers
constexpr std::size_t kDepth = 128;   // rows of w whose tile stays in the first-level cache

// Calls tile(first output, lanes constant, partial constant, part) over 0 … out.
template <class F>
inline void ForColumns(std::size_t out, F f) {
  std::size_t o = 0;
  for (; o + kWide * kLanes <= out; o += kWide * kLanes)
    f(o, std::integral_constant<std::size_t, kWide>{}, std::false_type{}, std::size_t{0});
  const std::size_t rest = out - o;
  using One = std::integral_constant<std::size_t, 1>;
  using Two = std::integral_constant<std::size_t, 2>;
  using Three = std::integral_constant<std::size_t, 3>;
  if (rest > 8) return f(o, Three{}, std::true_type{}, rest - 8);
  if (rest == 8) return f(o, Two{}, std::false_type{}, std::size_t{0});
  if (rest > 4) return f(o, Two{}, std::true_type{}, rest - 4);
  if (rest == 4) return f(o, One{}, std::false_type{}, std::size_t{0});
  if (rest > 0) return f(o, One{}, std::true_type{}, rest);
}

// The same tile for 8·(L − 1) outputs and those of `last`. Without kRows (a layer's sums) a(p, k) = a[p][k]
// and b(k) = b + k·b_step; with kRows (an outer product) a(p, k) = a_rows[k][first + p], b(k) = b_rows[k] +
// shift.
struct WideOperands {
  const double* const* a;
  const double* const* a_rows;
  std::size_t first;
  const double* b;
  std::size_t b_step;
  const double* const* b_rows;
  std::size_t shift;
};
template <std::size_t P, std::size_t L, bool kRows>
TACIT_AVX512 void WideTile(const WideOperands& t, std::size_t count, double* const* y, __mmask8 last) {
  __m512d sum[P][L];
#pragma GCC unroll 8
  for (std::size_t p = 0; p < P; ++p)
#pragma GCC unroll 8
    for (std::size_t i = 0; i < L; ++i)
      sum[p][i] = i + 1 < L ? _mm512_loadu_pd(y[p] + 8 * i) : _mm512_maskz_loadu_pd(last, y[p] + 8 * i);
  const double* from[P];
#pragma GCC unroll 8
  for (std::size_t p = 0; p < P; ++p) from[p] = kRows ? nullptr : t.a[p];
  const double* at = t.b;
  for (std::size_t k = 0; k < count; ++k) {
    const double* row = kRows ? t.b_rows[k] + t.shift : at;
    const double* scalars = kRows ? t.a_rows[k] + t.first : nullptr;
    at += kRows ? 0 : t.b_step;
    __m512d v[L];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < L; ++i)
      v[i] = i + 1 < L ? _mm512_loadu_pd(row + 8 * i) : _mm512_maskz_loadu_pd(last, row + 8 * i);
#pragma GCC unroll 8
    for (std::size_t p = 0; p < P; ++p) {
      const __m512d c = _mm512_set1_pd(kRows ? scalars[p] : from[p][k]);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < L; ++i) sum[p][i] = _mm512_fmadd_pd(c, v[i], sum[p][i]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t p = 0; p < P; ++p)
#pragma GCC unroll 8
    for (std::size_t i = 0; i < L; ++i)
      _mm512_mask_storeu_pd(y[p] + 8 * i, i + 1 < L ? 0xff : last, sum[p][i]);
  _mm256_zeroupper();
}

// The tile for p < rows and these lanes.
constexpr std::size_t kWideRows = 4, kWideLanes = 5;  // 4 × 5 sums, 5 + 1 operands fill 32 registers
using WideFunction = void (*)(const WideOperands&, std::size_t, double* const*, __mmask8);
template <bool kRows, std::size_t... N>
constexpr std::array<WideFunction, sizeof...(N)> WideTiles(std::index_sequence<N...>) {
  return {&WideTile<N / kWideLanes + 1, N % kWideLanes + 1, kRows>...};
}
// Calls f(first output, lanes, mask of the last) over 0 … out, in strips of nearly equal width.
template <class F>
inline void ForWideColumns(std::size_t out, F f) {
  const std::size_t lanes = (out + 7) / 8, strips = (lanes + kWideLanes - 1) / kWideLanes;
  if (out == 0) return;
  for (std::size_t k = 0, at = 0; k < strips; ++k) {
    const std::size_t here = lanes / strips + (k < lanes % strips ? 1 : 0);
    const std::size_t part = at + here == lanes ? out % 8 : 0;
    f(at * 8, here, static_cast<__mmask8>(part == 0 ? 0xff : (1u << part) - 1));
    at += here;
  }
}
bool Wide() { return internal::SimdInUse() == internal::Simd::kAvx512; }

// The lanes of ProductsOfRows, the two rows side by side: sum[i] is that of a0, then that of a1.
TACIT_AVX512 void WideProductsOfRows(const double* a0, const double* a1, const double* const b[4],
                                     std::size_t size, double (&sum)[4][8]) {
  const double *b0 = b[0], *b1 = b[1], *b2 = b[2], *b3 = b[3];
  __m512d p0 = _mm512_setzero_pd(), p1 = p0, p2 = p0, p3 = p0;
  const auto add = [&](__m256d v0, __m256d v1, __m256d w0, __m256d w1, __m256d w2, __m256d w3) TACIT_AVX512
      __attribute__((always_inline)) {
        const __m512d v = _mm512_insertf64x4(_mm512_castpd256_pd512(v0), v1, 1);
        p0 = _mm512_fmadd_pd(v, _mm512_broadcast_f64x4(w0), p0);
        p1 = _mm512_fmadd_pd(v, _mm512_broadcast_f64x4(w1), p1);
        p2 = _mm512_fmadd_pd(v, _mm512_broadcast_f64x4(w2), p2);
        p3 = _mm512_fmadd_pd(v, _mm512_broadcast_f64x4(w3), p3);
      };
  std::size_t o = 0;
  for (; o + kLanes <= size; o += kLanes)
    add(_mm256_loadu_pd(a0 + o), _mm256_loadu_pd(a1 + o), _mm256_loadu_pd(b0 + o), _mm256_loadu_pd(b1 + o),
        _mm256_loadu_pd(b2 + o), _mm256_loadu_pd(b3 + o));
  if (o < size) {
    const auto part = static_cast<__mmask8>((1u << (size - o)) - 1);
    add(_mm256_maskz_loadu_pd(part, a0 + o), _mm256_maskz_loadu_pd(part, a1 + o),
        _mm256_maskz_loadu_pd(part, b0 + o), _mm256_maskz_loadu_pd(part, b1 + o),
        _mm256_maskz_loadu_pd(part, b2 + o), _mm256_maskz_loadu_pd(part, b3 + o));
  }
  _mm512_storeu_pd(sum[0], p0), _mm512_storeu_pd(sum[1], p1);
  _mm512_storeu_pd(sum[2], p2), _mm512_storeu_pd(sum[3], p3);
  _mm256_zeroupper();
}

}  // namespace

void ProductsOfRows(const double* a0, const double* a1, const double* const b[4], std::size_t size,
                    double of[2][4]) {
  if (Wide()) {
    double sum[4][8];
    WideProductsOfRows(a0, a1, b, size, sum);
    for (std::size_t k = 0; k < 2; ++k)
      Store(of[k],
            SumsOf(Load(sum[0] + 4 * k), Load(sum[1] + 4 * k), Load(sum[2] + 4 * k), Load(sum[3] + 4 * k)));
    return;
  }
  Lanes p[4] = {}, q[4] = {};
  const auto add = [&](Lanes v, Lanes w, auto load) __attribute__((always_inline)) {
    for (std::size_t i = 0; i < 4; ++i) {
      const Lanes u = load(b[i]);
      p[i] = MulAdd(v, u, p[i]);
      q[i] = MulAdd(w, u, q[i]);
    }
  };
  std::size_t o = 0;
  for (; o + kLanes <= size; o += kLanes)
    add(Load(a0 + o), Load(a1 + o), [o](const double* v) { return Load(v + o); });
  if (const std::size_t part = size - o; part != 0)
    add(LoadPart(a0 + o, part), LoadPart(a1 + o, part),
        [o, part](const double* v) { return LoadPart(v + o, part); });
  Store(of[0], SumsOf(p[0], p[1], p[2], p[3]));
  Store(of[1], SumsOf(q[0], q[1], q[2], q[3]));
}

void DenseForward(const double* const* row, std::size_t records, std::size_t in, const double* w,
                  const double* start, std::size_t out, double* z) {
  for (std::size_t r = 0; r < records; ++r)
    for (std::size_t o = 0; o < out; ++o) z[r * out + o] = start ? start[o] : 0.0;
  AddDenseForward(row, records, in, w, out, z);
  // 0·∞ is NaN, and whether zeros are passed over is decided for many records at once (GatherEntries): where
  // it matters they never count, or a record's sum would depend on the others.
  for (std::size_t r = 0; r < records; ++r) {
    double* const y = z + r * out;
    if (SumOf(out, [y](std::size_t o) { return y[o] == y[o] ? 0.0 : 1.0; }) == 0) continue;
    for (std::size_t o = 0; o < out; ++o) {
      double sum = start ? start[o] : 0.0;
      for (std::size_t j = 0; j < in; ++j)
        if (row[r][j] != 0) sum = std::fma(row[r][j], w[j * out + o], sum);
      y[o] = sum;
    }
  }
}

void AddDenseForward(const double* const* row, std::size_t records, std::size_t in, const double* w,
                     std::size_t out, double* z) {
  TACIT_CHECK(records <= kRecordBlock);
  const double* full[kRecordBlock];
  double* sum[kRecordBlock];
  std::size_t count = 0;
  for (std::size_t r = 0; r < records; ++r) {
    double* y = z + r * out;
    if (!Few(NonZeros(row[r], in), in)) {  // decided by the record alone
      full[count] = row[r];
      sum[count++] = y;
      continue;
    }
    std::uint16_t place[512];
    for (std::size_t at = 0; at < in; at += std::size(place)) {
      const std::size_t end = std::min(in - at, std::size(place));
      std::size_t found = 0;
      for (std::size_t j = 0; j < end; ++j) {
        place[found] = static_cast<std::uint16_t>(j);
        found += row[r][at + j] != 0;
      }
      StreamRows(
          found, out, y, [&](std::size_t k) { return row[r][at + place[k]]; },
          [&](std::size_t k) { return w + (at + place[k]) * out; });
    }
  }
  if (count < 3) {  // w is read once or twice: stream it
    for (std::size_t r = 0; r < count; ++r)
      StreamRows(
          in, out, sum[r], [&](std::size_t j) { return full[r][j]; },
          [&](std::size_t j) { return w + j * out; });
    return;
  }
  if (Wide()) {
    static constexpr auto kTiles = WideTiles<false>(std::make_index_sequence<kWideRows * kWideLanes>{});
    for (std::size_t at = 0; at < in; at += kDepth)
      ForWideColumns(out, [&](std::size_t o, std::size_t lanes, __mmask8 last) {
        for (std::size_t r = 0; r < count; r += kWideRows) {
          const std::size_t n = std::min(kWideRows, count - r);
          double* y[kWideRows];
          const double* a[kWideRows];
          for (std::size_t p = 0; p < n; ++p) {
            y[p] = sum[r + p] + o;
            a[p] = full[r + p] + at;
          }
          kTiles[(n - 1) * kWideLanes + lanes - 1]({a, nullptr, 0, w + at * out + o, out, nullptr, 0},
                                                   std::min(kDepth, in - at), y, last);
        }
      });
    return;
  }
  for (std::size_t at = 0; at < in; at += kDepth) {
    const std::size_t depth = std::min(kDepth, in - at);
    ForColumns(out, [&](std::size_t o, auto lanes, auto partial, std::size_t part) {
      const double* column = w + at * out + o;
      const auto b = [&](std::size_t k) { return column + k * out; };
      std::size_t r = 0;
      const auto tile = [&](auto records_of_tile) {
        constexpr std::size_t kRecords = decltype(records_of_tile)::value;
        double* y[kRecords];
        const double* a[kRecords];
        for (std::size_t p = 0; p < kRecords; ++p) {
          y[p] = sum[r + p] + o;
          a[p] = full[r + p] + at;
        }
        Tile<kRecords, lanes(), partial()>(
            depth, y, part, [&](std::size_t p, std::size_t k) { return a[p][k]; }, b);
        r += kRecords;
      };
      while (r + 4 <= count) tile(std::integral_constant<std::size_t, 4>{});
      if (count - r == 3) tile(std::integral_constant<std::size_t, 3>{});
      if (count - r == 2) tile(std::integral_constant<std::size_t, 2>{});
      if (count - r == 1) tile(std::integral_constant<std::size_t, 1>{});
    });
  }
}

void SparseForward(const Row& row, const double* w, const double* start, std::size_t out, double* z) {
  for (std::size_t o = 0; o < out; ++o) z[o] = start ? start[o] : 0.0;
  StreamRows(
      row.size, out, z, [&](std::size_t k) { return row.value[k]; },
      [&](std::size_t k) { return w + row.index[k] * out; });
}

void AddOuter(const double* const* row, const double* const* d, std::size_t records, std::size_t in,
              std::size_t out, double* g) {
  TACIT_CHECK(records <= kRecordBlock);
  std::size_t nonzeros = 0;
  for (std::size_t r = 0; r < records; ++r) nonzeros += NonZeros(row[r], in);
  if (Few(nonzeros, records * in)) {
    for (std::size_t j = 0; j < in; ++j) {
      std::uint8_t who[kRecordBlock] = {};
      std::size_t found = 0;
      for (std::size_t r = 0; r < records; ++r) {
        who[found] = static_cast<std::uint8_t>(r);
        found += row[r][j] != 0;
      }
      StreamRows(
          found, out, g + j * out, [&](std::size_t k) { return row[who[k]][j]; },
          [&](std::size_t k) { return d[who[k]]; });
    }
    return;
  }
  if (records < 6) {  // g is passed once: stream it
    for (std::size_t j = 0; j < in; ++j)
      StreamRows(
          records, out, g + j * out, [&](std::size_t r) { return row[r][j]; },
          [&](std::size_t r) { return d[r]; });
    return;
  }
  if (Wide()) {
    static constexpr auto kTiles = WideTiles<true>(std::make_index_sequence<kWideRows * kWideLanes>{});
    for (std::size_t at = 0; at < in; at += kDepth / 2)
      ForWideColumns(out, [&](std::size_t o, std::size_t lanes, __mmask8 last) {
        const std::size_t end = std::min(at + kDepth / 2, in);
        for (std::size_t j = at; j < end; j += kWideRows) {
          const std::size_t n = std::min(kWideRows, end - j);
          double* y[kWideRows];
          for (std::size_t p = 0; p < n; ++p) y[p] = g + (j + p) * out + o;
          kTiles[(n - 1) * kWideLanes + lanes - 1]({nullptr, row, j, nullptr, 0, d, o}, records, y, last);
        }
      });
    return;
  }
  for (std::size_t at = 0; at < in; at += kDepth / 2) {  // the rows' part stays in the first-level cache
    const std::size_t end = std::min(at + kDepth / 2, in);
    ForColumns(out, [&](std::size_t o, auto lanes, auto partial, std::size_t part) {
      const auto b = [&](std::size_t r) { return d[r] + o; };
      std::size_t j = at;
      for (; j + 4 <= end; j += 4) {
        double* y[4];
        for (std::size_t p = 0; p < 4; ++p) y[p] = g + (j + p) * out + o;
        Tile<4, lanes(), partial()>(
            records, y, part, [&](std::size_t p, std::size_t r) { return row[r][j + p]; }, b);
      }
      for (; j < end; ++j) {
        double* y = g + j * out + o;
        Tile<1, lanes(), partial()>(
            records, &y, part, [&](std::size_t, std::size_t r) { return row[r][j]; }, b);
      }
    });
  }
}

void AddSparseOuter(const Row* row, const double* const* d, std::size_t records, std::size_t in,
                    std::size_t out, double* g) {
  TACIT_CHECK(records <= kRecordBlock);
  std::size_t nonzeros = 0;
  for (std::size_t r = 0; r < records; ++r) nonzeros += row[r].size;
  if (nonzeros < records * (in / 16)) {  // too few to look for who shares a feature
    for (std::size_t r = 0; r < records; ++r)
      for (std::size_t k = 0; k < row[r].size; ++k)
        AxpyRows<1>(&row[r].value[k], &d[r], out, g + row[r].index[k] * out);
    return;
  }
  // Feature by feature, so that g is passed once; at[r] is how far record r has been read.
  std::size_t at[kRecordBlock] = {};
  for (std::size_t j = 0; j < in; ++j) {
    double a[kRecordBlock];
    std::uint8_t who[kRecordBlock];
    std::size_t found = 0;
    for (std::size_t r = 0; r < records; ++r) {
      if (at[r] == row[r].size || row[r].index[at[r]] != j) continue;
      a[found] = row[r].value[at[r]++];
      who[found++] = static_cast<std::uint8_t>(r);
    }
    StreamRows(
        found, out, g + j * out, [&](std::size_t k) { return a[k]; },
        [&](std::size_t k) { return d[who[k]]; });
  }
}

void AddWeighted(const double* weight, const double* const* d, std::size_t records, std::size_t size,
                 double* g) {
  StreamRows(records, size, g, [&](std::size_t r) { return weight[r]; }, [&](std::size_t r) { return d[r]; });
}

void Transpose(const double* w, std::size_t in, std::size_t out, double* t) {
  constexpr std::size_t kTile = 8;
  for (std::size_t j0 = 0; j0 < in; j0 += kTile)
    for (std::size_t o0 = 0; o0 < out; o0 += kTile)
      for (std::size_t o = o0; o < std::min(o0 + kTile, out); ++o)
        for (std::size_t j = j0; j < std::min(j0 + kTile, in); ++j) t[o * in + j] = w[j * out + o];
}

}  // namespace tacit
