#include "models/rows.h"

#include <algorithm>
#include <cmath>

#include "models/lanes.h"

namespace tacit {
namespace {

// f(row) for rows first … first + count: the layout is decided once, not per row.
template <class F>
inline void ForSparseRows(const Shard& shard, std::size_t first, std::size_t count, F f) {
  if (!shard.contiguous()) {
    for (std::size_t l = 0; l < count; ++l) f(l, shard.row(first + l));
    return;
  }
  const Dataset& data = shard.dataset();
  const std::uint64_t* begin = data.row_begin.data() + shard.begin() + first;
  for (std::size_t l = 0; l < count; ++l)
    f(l, Row{data.value.data() + begin[l], data.column.data() + begin[l], begin[l + 1] - begin[l]});
}

inline double SparseDot(const Row& row, const double* x) {
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  std::size_t k = 0;
  for (; k + 4 <= row.size; k += 4) {
    s0 = std::fma(row.value[k], x[row.index[k]], s0);
    s1 = std::fma(row.value[k + 1], x[row.index[k + 1]], s1);
    s2 = std::fma(row.value[k + 2], x[row.index[k + 2]], s2);
    s3 = std::fma(row.value[k + 3], x[row.index[k + 3]], s3);
  }
  for (; k < row.size; ++k) s0 = std::fma(row.value[k], x[row.index[k]], s0);
  return (s0 + s2) + (s1 + s3);
}

// Σ x over the columns of a row, neighbours first: what the tokens of Columns give, bit for bit.
inline double SparseSum(const Row& row, const double* x) {
  double s = 0;
  std::size_t k = 0;
  for (; k + 2 <= row.size; k += 2) s += x[row.index[k]] + x[row.index[k + 1]];
  if (k < row.size) s += x[row.index[k]];
  return s;
}

// The same for all rows by tokens; a pair is added once and looked up after. table: features + 1 + pairs.
void TokenSums(const Columns& c, View x, double* table, std::size_t rows, double* out) {
  std::copy(x.begin(), x.end(), table);
  double* pairs = table + x.size() + 1;
  pairs[-1] = 0;      // nothing
  for (std::size_t p = 0; p < c.first.size(); ++p) pairs[p] = x[c.first[p]] + x[c.second[p]];
  const std::uint32_t* t = c.token.data();
  for (std::size_t q = 0; 4 * q < rows; ++q) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (const std::uint32_t* end = c.token.data() + c.token_begin[q + 1]; t != end; t += 4) {
      s0 += table[t[0]];
      s1 += table[t[1]];
      s2 += table[t[2]];
      s3 += table[t[3]];
    }
    double* to = out + 4 * q;
    const std::size_t left = rows - 4 * q;
    to[0] = s0;
    if (left > 1) to[1] = s1;
    if (left > 2) to[2] = s2;
    if (left > 3) to[3] = s3;
  }
}

// Σ c[row] (· value) over a column of 4k entries: four sums, then a fixed tree.
template <bool kValues>
inline double ColumnSum(const std::uint32_t* row, const double* value, std::size_t n, const double* c) {
  const auto add = [&](std::size_t k, double s) {
    return kValues ? std::fma(value[k], c[row[k]], s) : s + c[row[k]];
  };
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (std::size_t k = 0; k < n; k += 4) {
    s0 = add(k, s0);
    s1 = add(k + 1, s1);
    s2 = add(k + 2, s2);
    s3 = add(k + 3, s3);
  }
  return (s0 + s2) + (s1 + s3);
}

template <bool kValues>
void AddColumns(const Columns& columns, const double* c, Span g) {
  const std::uint32_t* begin = columns.list_begin.data();
  const auto sum = [&](std::size_t list) {
    return ColumnSum<kValues>(columns.row.data() + begin[list], columns.value.data() + begin[list],
                              begin[list + 1] - begin[list], c);
  };
  const std::size_t lists = columns.list_begin.size() - 1, features = g.size();
  for (std::size_t j = 0; j < features; ++j) g[j] += sum(j);
  for (std::size_t p = 0; features + p < lists; ++p) {
    const double both = sum(features + p);
    g[columns.first[p]] += both;
    g[columns.second[p]] += both;
  }
}

// Loops of their own, whose arguments do not overlap, so that they vectorise.
void Multiply(const double* __restrict by, std::size_t n, double* __restrict v) {
  for (std::size_t l = 0; l < n; ++l) v[l] *= by[l];
}
void Coefficients(const double* __restrict weight, const double* __restrict slope, std::size_t n,
                  double* __restrict c) {
  for (std::size_t l = 0; l < n; ++l) {
    const double scaled = weight[l] * slope[l];
    c[l] = weight[l] == 0 ? 0.0 : scaled;      // whatever the slope is; finite times 0 stays 0 after
  }
}

// R rows against G blocks of x: enough independent sums to hide the latency of the addition.
template <std::size_t R, std::size_t G>
void DenseMargins(const double* const* row, const double* x, std::size_t features, double* out,
                  std::size_t outputs) {
  Lanes sum[R][G] = {};
  std::size_t j = 0;
  for (; j + 4 <= features; j += 4) {
    Lanes a[R];
    for (std::size_t r = 0; r < R; ++r) a[r] = Load(row[r] + j);
    for (std::size_t c = 0; c < G; ++c) {
      const Lanes b = Load(x + c * features + j);
      for (std::size_t r = 0; r < R; ++r) sum[r][c] = MulAdd(a[r], b, sum[r][c]);
    }
  }
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t c = 0; c < G; ++c) {
      const Lanes s = sum[r][c];
      double total = (s[0] + s[2]) + (s[1] + s[3]);
      for (std::size_t k = j; k < features; ++k) total = std::fma(row[r][k], x[c * features + k], total);
      out[r * outputs + c] = total;
    }
}

template <std::size_t R>
void DenseMarginsOf(const double* const* row, const double* x, std::size_t features, double* out,
                    std::size_t outputs) {
  std::size_t c = 0;
  for (; c + 5 <= outputs; c += 5) DenseMargins<R, 5>(row, x + c * features, features, out + c, outputs);
  switch (outputs - c) {
    case 1: return DenseMargins<R, 1>(row, x + c * features, features, out + c, outputs);
    case 2: return DenseMargins<R, 2>(row, x + c * features, features, out + c, outputs);
    case 3: return DenseMargins<R, 3>(row, x + c * features, features, out + c, outputs);
    case 4: return DenseMargins<R, 4>(row, x + c * features, features, out + c, outputs);
    default: return;
  }
}

// Rows whose multiples are added together while their tile of g stays in registers: no more than a processor
// fetches ahead of.
constexpr std::size_t kChunk = 12;

// g_c[0 … 4L) += Σ_r coefficient[r·G + c] row_r[0 … 4L), in the order of r.
template <std::size_t G, std::size_t L>
inline void AddTile(const double* const* row, const double* coefficient, std::size_t rows, std::size_t at,
                    double* g, std::size_t features) {
  Lanes sum[G][L];
  for (std::size_t c = 0; c < G; ++c)
    for (std::size_t i = 0; i < L; ++i) sum[c][i] = Load(g + c * features + at + 4 * i);
  for (std::size_t r = 0; r < rows; ++r) {
    Lanes a[L];
    for (std::size_t i = 0; i < L; ++i) a[i] = Load(row[r] + at + 4 * i);
    for (std::size_t c = 0; c < G; ++c) {
      const double w = coefficient[r * G + c];
      const Lanes b = {w, w, w, w};
      for (std::size_t i = 0; i < L; ++i) sum[c][i] = MulAdd(b, a[i], sum[c][i]);
    }
  }
  for (std::size_t c = 0; c < G; ++c)
    for (std::size_t i = 0; i < L; ++i) Store(g + c * features + at + 4 * i, sum[c][i]);
}

template <std::size_t G>
void AddDenseChunk(const double* const* row, const double* coefficient, std::size_t rows, double* g,
                   std::size_t features) {
  constexpr std::size_t kWide = G == 1 ? 8 : G == 2 ? 4 : 2;
  std::size_t j = 0;
  for (; j + 4 * kWide <= features; j += 4 * kWide) AddTile<G, kWide>(row, coefficient, rows, j, g, features);
  // One sum waits for the one before: tiles side by side hide that.
  if constexpr (kWide > 4)
    for (; j + 16 <= features; j += 16) AddTile<G, 4>(row, coefficient, rows, j, g, features);
  if constexpr (kWide > 2)
    for (; j + 8 <= features; j += 8) AddTile<G, 2>(row, coefficient, rows, j, g, features);
  for (; j + 4 <= features; j += 4) AddTile<G, 1>(row, coefficient, rows, j, g, features);
  for (; j < features; ++j)
    for (std::size_t c = 0; c < G; ++c) {
      double total = g[c * features + j];
      for (std::size_t r = 0; r < rows; ++r) total = std::fma(coefficient[r * G + c], row[r][j], total);
      g[c * features + j] = total;
    }
}

// The same for rows of 4·B features, piece by piece; rows that do not lie one after the other are copied.
template <std::size_t B>
void AddNarrow(const Shard& shard, const double* dense, View weight, View coefficient, Span g) {
  constexpr std::size_t kPiece = Narrow<B>::kPiece;
  double w[kPiece], copy[kPiece * 4 * B];
  const std::size_t m = weight.size();
  for (std::size_t first = 0, done = 0; first < m; first += kPiece) {
    const std::size_t n = std::min(m - first, kPiece);
    const double* rows = dense != nullptr ? dense + first * 4 * B : copy;
    if (dense == nullptr)
      for (std::size_t l = 0; l < n; ++l) std::copy_n(shard.row(first + l).value, 4 * B, copy + l * 4 * B);
    Coefficients(weight.data() + first, coefficient.data() + first, n, w);
    Narrow<B>::Add(rows, w, n, g.data());
    if (first + n - done >= shard.block()) shard.Done(done, first + n - done), done = first + n;
  }
}
template <std::size_t B>
void NarrowMargins(const double* rows, const double* x, std::size_t count, double* out) {
  const typename Narrow<B>::Point point(x);
  std::size_t l = 0;
  for (; l + 4 <= count; l += 4) Store(out + l, point.Margins(rows + l * 4 * B));
  if (l == count) return;
  double last[4];
  Store(last, point.Margins(rows + l * 4 * B, count - l));
  std::copy_n(last, count - l, out + l);
}

template <std::size_t G>
void AddDenseGroup(const double* const* row, const double* weight, const std::size_t* at, std::size_t rows,
                   View coefficient, std::size_t outputs, std::size_t c, Span g, std::size_t features) {
  double scaled[kChunk * G];
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t k = 0; k < G; ++k) scaled[r * G + k] = weight[r] * coefficient[at[r] * outputs + c + k];
  AddDenseChunk<G>(row, scaled, rows, g.data() + c * features, features);
}

}  // namespace

void Margins(const Shard& shard, View x, std::size_t outputs, std::size_t first, std::size_t count,
             Span out) {
  if (count == 0) return;
  const std::size_t features = shard.features();
  TACIT_CHECK(x.size() == outputs * features && out.size() >= count * outputs);
  if (count > shard.block()) {      // rows in a file: block after block
    for (std::size_t at = 0; at < count; at += shard.block()) {
      const std::size_t n = std::min(shard.block(), count - at);
      Margins(shard, x, outputs, first + at, n, out.subspan(at * outputs));
      shard.Done(first + at, n);
    }
    return;
  }
  if (shard.sparse()) {
    const std::vector<double>& one = shard.dataset().row_value;
    if (outputs == 1 && !one.empty()) {
      ForSparseRows(shard, first, count, [&](std::size_t l, const Row& row) {
        const double v = shard.row_value(first + l);
        out[l] = std::isnan(v) ? SparseDot(row, x.data()) : v * SparseSum(row, x.data());
      });
    } else if (outputs == 1) {
      ForSparseRows(shard, first, count,
                    [&](std::size_t l, const Row& row) { out[l] = SparseDot(row, x.data()); });
    } else {
      ForSparseRows(shard, first, count, [&](std::size_t l, const Row& row) {
        for (std::size_t c = 0; c < outputs; ++c)
          out[l * outputs + c] = SparseDot(row, x.data() + c * features);
      });
    }
    return;
  }
  std::size_t l = 0;
  const double* const dense = shard.laid_out() ? shard.dataset().dense() + shard.begin() * features : nullptr;
  const auto pointer = [&](std::size_t i) {
    return dense != nullptr ? dense + (first + i) * features : shard.row(first + i).value;
  };
  if (outputs == 1 && dense != nullptr) {
    switch (features) {
      case 4: return NarrowMargins<1>(pointer(0), x.data(), count, out.data());
      case 8: return NarrowMargins<2>(pointer(0), x.data(), count, out.data());
      case 12: return NarrowMargins<3>(pointer(0), x.data(), count, out.data());
      case 16: return NarrowMargins<4>(pointer(0), x.data(), count, out.data());
      default: break;
    }
  }
  if (outputs == 1) {
    for (; l + 4 <= count; l += 4) {
      const double* row[4] = {pointer(l), pointer(l + 1), pointer(l + 2), pointer(l + 3)};
      DenseMargins<4, 1>(row, x.data(), features, out.data() + l, 1);
    }
  } else {
    for (; l + 2 <= count; l += 2) {
      const double* row[2] = {pointer(l), pointer(l + 1)};
      DenseMarginsOf<2>(row, x.data(), features, out.data() + l * outputs, outputs);
    }
  }
  for (; l < count; ++l) {
    const double* row[1] = {pointer(l)};
    DenseMarginsOf<1>(row, x.data(), features, out.data() + l * outputs, outputs);
  }
}

void Margins(const Shard& shard, View x, Vec& scratch, Span out) {
  const Columns* columns = shard.columns();
  const std::size_t m = shard.size();
  if (columns == nullptr || columns->first.empty()) return Margins(shard, x, 1, 0, m, out);
  TACIT_CHECK(x.size() == shard.features() && out.size() >= m);
  Grow(scratch, x.size() + 1 + columns->first.size());
  TokenSums(*columns, x, scratch.data(), m, out.data());
  const double* value = shard.dataset().row_value.data() + shard.begin();
  Multiply(value, m, out.data());
}

void AddRows(const Shard& shard, View coefficient, View weight, Vec& scratch, Span g) {
  const Columns* columns = shard.columns();
  if (columns == nullptr) return AddRows(shard, coefficient, 1, weight, g);
  const std::size_t m = shard.size();
  TACIT_CHECK(weight.size() == m && coefficient.size() >= m && g.size() == shard.features());
  Grow(scratch, m + 1);
  double* c = scratch.data();
  c[m] = 0;      // the row that fills columns up
  const bool one_valued = columns->value.empty();
  Coefficients(weight.data(), coefficient.data(), m, c);
  if (one_valued) Multiply(shard.dataset().row_value.data() + shard.begin(), m, c);
  if (one_valued)
    AddColumns<false>(*columns, c, g);
  else
    AddColumns<true>(*columns, c, g);
}

void AddRows(const Shard& shard, View coefficient, std::size_t outputs, View weight, Span g) {
  const std::size_t m = weight.size();
  if (m == 0) return;
  const std::size_t features = shard.features();
  TACIT_CHECK(m <= shard.size() && coefficient.size() >= m * outputs && g.size() == outputs * features);
  if (shard.sparse()) {
    ForSparseRows(shard, 0, m, [&](std::size_t l, const Row& row) {
      const double w = weight[l];
      if (w == 0) return;
      for (std::size_t c = 0; c < outputs; ++c) {
        const double scaled = w * coefficient[l * outputs + c];
        double* gc = g.data() + c * features;
        for (std::size_t k = 0; k < row.size; ++k)
          gc[row.index[k]] = std::fma(scaled, row.value[k], gc[row.index[k]]);
      }
    });
    return;
  }
  const double* const dense = shard.laid_out() ? shard.dataset().dense() + shard.begin() * features : nullptr;
  if (outputs == 1) {
    switch (features) {
      case 4: return AddNarrow<1>(shard, dense, weight, coefficient, g);
      case 8: return AddNarrow<2>(shard, dense, weight, coefficient, g);
      case 12: return AddNarrow<3>(shard, dense, weight, coefficient, g);
      case 16: return AddNarrow<4>(shard, dense, weight, coefficient, g);
      default: break;
    }
  }
  const double* row[kChunk];
  double w[kChunk];
  std::size_t at[kChunk];
  for (std::size_t l = 0, done = 0; l < m;) {
    if (l - done >= shard.block()) {
      shard.Done(done, l - done);
      done = l;
    }
    std::size_t rows = 0;
    for (; l < m && rows < kChunk; ++l) {
      if (weight[l] == 0) continue;
      row[rows] = dense != nullptr ? dense + l * features : shard.row(l).value;
      w[rows] = weight[l];
      at[rows] = l;
      ++rows;
    }
    std::size_t c = 0;
    for (; c + 5 <= outputs; c += 5) AddDenseGroup<5>(row, w, at, rows, coefficient, outputs, c, g, features);
    switch (outputs - c) {
      case 1: AddDenseGroup<1>(row, w, at, rows, coefficient, outputs, c, g, features); break;
      case 2: AddDenseGroup<2>(row, w, at, rows, coefficient, outputs, c, g, features); break;
      case 3: AddDenseGroup<3>(row, w, at, rows, coefficient, outputs, c, g, features); break;
      case 4: AddDenseGroup<4>(row, w, at, rows, coefficient, outputs, c, g, features); break;
      default: break;
    }
  }
}

}  // namespace tacit
