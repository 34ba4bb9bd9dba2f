#include "models/dense.h"

#include <algorithm>

#include "models/lanes.h"

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

// y += Σ_k coefficient(k) row(k): four at a time.
template <class Coefficient, class RowOf>
inline void StreamRows(std::size_t count, std::size_t size, double* y, Coefficient coefficient, RowOf row) {
  std::size_t k = 0;
  for (; k + 4 <= count; k += 4) {
    const double a[4] = {coefficient(k), coefficient(k + 1), coefficient(k + 2), coefficient(k + 3)};
    const double* b[4] = {row(k), row(k + 1), row(k + 2), row(k + 3)};
    AxpyRows<4>(a, b, size, y);
  }
  for (; k < count; ++k) {
    const double a = coefficient(k);
    const double* b = row(k);
    AxpyRows<1>(&a, &b, size, y);
  }
}

// A register tile: y[p][0 … 4L) += Σ_k a(p, k) b(k)[0 … 4L) for p < P. With `part` the last lanes hold
// that many outputs only.
template <std::size_t P, std::size_t L, bool kPart, class A, class B>
__attribute__((always_inline)) inline void Tile(std::size_t count, double* const* y, std::size_t part, A a,
                                                B b) {
  const auto load = [part](const double* p, std::size_t i) __attribute__((always_inline)) {
    return kPart && i + 1 == L ? LoadPart(p + kLanes * i, part) : Load(p + kLanes * i);
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
      if (kPart && i + 1 == L)
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

}  // namespace

void DenseForward(const double* const* row, std::size_t records, std::size_t in, const double* w,
                  const double* start, std::size_t out, double* z) {
  TACIT_CHECK(records <= kRecordBlock);
  for (std::size_t r = 0; r < records; ++r)
    for (std::size_t o = 0; o < out; ++o) z[r * out + o] = start ? start[o] : 0.0;
  if (records < 3) {   // w is read once or twice: stream it
    for (std::size_t r = 0; r < records; ++r)
      StreamRows(
          in, out, z + r * out, [&](std::size_t j) { return row[r][j]; },
          [&](std::size_t j) { return w + j * out; });
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
          y[p] = z + (r + p) * out + o;
          a[p] = row[r + p] + at;
        }
        Tile<kRecords, lanes(), partial()>(
            depth, y, part, [&](std::size_t p, std::size_t k) { return a[p][k]; }, b);
        r += kRecords;
      };
      while (r + 4 <= records) tile(std::integral_constant<std::size_t, 4>{});
      if (records - r == 3) tile(std::integral_constant<std::size_t, 3>{});
      if (records - r == 2) tile(std::integral_constant<std::size_t, 2>{});
      if (records - r == 1) tile(std::integral_constant<std::size_t, 1>{});
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
  if (records < 6) {   // g is passed once: stream it
    for (std::size_t j = 0; j < in; ++j)
      StreamRows(
          records, out, g + j * out, [&](std::size_t r) { return row[r][j]; },
          [&](std::size_t r) { return d[r]; });
    return;
  }
  for (std::size_t at = 0; at < in; at += kDepth / 2) {   // the rows' part stays in the first-level cache
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

void AddSparseOuter(const Row& row, const double* d, std::size_t out, double* g) {
  for (std::size_t k = 0; k < row.size; ++k) AxpyRows<1>(&row.value[k], &d, out, g + row.index[k] * out);
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
