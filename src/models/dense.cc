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

}  // namespace

void DenseForward(const double* const* row, std::size_t records, std::size_t in, const double* w,
                  const double* start, std::size_t out, double* z) {
  for (std::size_t r = 0; r < records; ++r)
    for (std::size_t o = 0; o < out; ++o) z[r * out + o] = start ? start[o] : 0.0;
  AddDenseForward(row, records, in, w, out, z);
}

void AddDenseForward(const double* const* row, std::size_t records, std::size_t in, const double* w,
                     std::size_t out, double* z) {
  TACIT_CHECK(records <= kRecordBlock);
  const double* full[kRecordBlock];
  double* sum[kRecordBlock];
  std::size_t count = 0;
  for (std::size_t r = 0; r < records; ++r) {
    double* y = z + r * out;
    if (!Few(NonZeros(row[r], in), in)) {   // decided by the record alone
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
  if (count < 3) {   // w is read once or twice: stream it
    for (std::size_t r = 0; r < count; ++r)
      StreamRows(
          in, out, sum[r], [&](std::size_t j) { return full[r][j]; },
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

void AddSparseOuter(const Row* row, const double* const* d, std::size_t records, std::size_t in,
                    std::size_t out, double* g) {
  TACIT_CHECK(records <= kRecordBlock);
  std::size_t nonzeros = 0;
  for (std::size_t r = 0; r < records; ++r) nonzeros += row[r].size;
  if (nonzeros < records * (in / 16)) {   // too few to look for who shares a feature
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
