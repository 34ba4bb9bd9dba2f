#include "models/fours.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "models/lanes.h"
#include "models/rows.h"

namespace tacit {
namespace {

constexpr std::size_t kGroup = 10;    // outputs at a time, whose sums stay in registers
constexpr std::size_t kFewest = 8;    // rows for which it pays to lay x out
constexpr std::size_t kRows = 64;     // rows whose fours stay in the second-level cache
constexpr std::size_t kBytes = 20480;  // of x or g, which stay in the first-level cache while these pass

template <std::size_t G, class F>
void WithSize(std::size_t size, F f) {
  if constexpr (G == 1) {
    f(std::integral_constant<std::size_t, 1>{});
  } else {
    if (size == G) return f(std::integral_constant<std::size_t, G>{});
    WithSize<G - 1>(size, f);
  }
}
// Calls f(first output, size constant) over 0 … outputs, in groups of nearly equal size.
template <class F>
void ForGroups(std::size_t outputs, F f) {
  const std::size_t groups = (outputs + kGroup - 1) / kGroup;
  for (std::size_t k = 0, c = 0; k < groups; ++k) {
    const std::size_t size = outputs / groups + (k < outputs % groups ? 1 : 0);
    WithSize<kGroup>(size, [&](auto of) { f(c, of); });
    c += size;
  }
}

// t[(q·G + c)·4 + i] = x[c·features + 4q + i] for all fours q. Returns whether they are finite.
template <std::size_t G>
bool Pack(const double* x, std::size_t features, double* t) {
  Lanes zero = {};  // x − x is 0, or NaN
  for (std::size_t q = 0; q < features / 4; ++q)
    for (std::size_t c = 0; c < G; ++c) {
      const Lanes v = Load(x + c * features + 4 * q);
      zero += v - v;
      Store(t + (q * G + c) * 4, v);
    }
  return Everywhere(LaneMask(zero == Lanes{}));
}
template <std::size_t G>
void Unpack(const double* t, std::size_t features, double* x) {
  for (std::size_t q = 0; q < features / 4; ++q)
    for (std::size_t c = 0; c < G; ++c) Store(x + c * features + 4 * q, Load(t + (q * G + c) * 4));
}

// Calls f(r, k, last, end) for the rows row[r] of the data set, one block of columns after the other: of r
// the fours from k on and before `last` come next, those before column 4·end are in this block, and f returns
// the first that is not.
template <std::size_t G, class F>
void ForBlocks(const RowFours& fours, const std::size_t* row, std::size_t rows, std::size_t features, F f) {
  constexpr std::size_t kMost = std::max<std::size_t>(1, kBytes / (4 * G * sizeof(double)));
  const std::size_t all = features / 4, blocks = (all + kMost - 1) / kMost;
  std::uint32_t next[kRows];
  for (std::size_t r = 0; r < rows; ++r) next[r] = fours.begin[row[r]];
  for (std::size_t b = 1; b <= blocks; ++b) {
    const std::size_t end = all * b / blocks;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::uint32_t from = next[r], last = fours.begin[row[r] + 1];
      next[r] = f(r, from, last, end);
    }
  }
}

template <std::size_t G>
void AddMargins(const RowFours& fours, const std::size_t* row, std::size_t rows, std::size_t features,
                const double* t, double* sums) {
  std::fill_n(sums, rows * 4 * G, 0.0);
  const double* value = fours.value.data();
  const std::uint32_t* at = fours.at.data();
  ForBlocks<G>(fours, row, rows, features,
               [&](std::size_t r, std::uint32_t k, std::uint32_t last, std::size_t end)
                   __attribute__((always_inline)) {
                     Lanes sum[G];
                     double* to = sums + r * 4 * G;
                     for (std::size_t c = 0; c < G; ++c) sum[c] = Load(to + 4 * c);
                     for (; k < last && at[k] < end; ++k) {
                       const Lanes v = Load(value + 4 * std::size_t{k});
                       const double* x = t + at[k] * 4 * G;
                       for (std::size_t c = 0; c < G; ++c) sum[c] = MulAdd(v, Load(x + 4 * c), sum[c]);
                     }
                     for (std::size_t c = 0; c < G; ++c) Store(to + 4 * c, sum[c]);
                     return k;
                   });
}

template <std::size_t G>
void AddFours(const RowFours& fours, const std::size_t* row, std::size_t rows, std::size_t features,
              const double* d, double* t) {
  const double* value = fours.value.data();
  const std::uint32_t* at = fours.at.data();
  ForBlocks<G>(fours, row, rows, features,
               [&](std::size_t r, std::uint32_t k, std::uint32_t last, std::size_t end)
                   __attribute__((always_inline)) {
                     Lanes w[G];
                     for (std::size_t c = 0; c < G; ++c) w[c] = All(d[r * G + c]);
                     for (; k < last && at[k] < end; ++k) {
                       const Lanes v = Load(value + 4 * std::size_t{k});
                       double* g = t + at[k] * 4 * G;
                       for (std::size_t c = 0; c < G; ++c) Store(g + 4 * c, MulAdd(w[c], v, Load(g + 4 * c)));
                     }
                     return k;
                   });
}

}  // namespace

bool MarginsByFours(const Shard& shard, View x, std::size_t outputs, std::size_t first, std::size_t count,
                    Vec& scratch, Span out) {
  const RowFours* fours = shard.fours();
  if (fours == nullptr || count < kFewest) return false;
  const std::size_t features = shard.features(), full = features / 4 * 4;
  TACIT_CHECK(x.size() == outputs * features && out.size() >= count * outputs);
  Grow(scratch, kGroup * (full + 4 * kRows) + 8);
  double* const packed = scratch.data() + ToLine(scratch.data());
  double* const sums = packed + kGroup * full;
  bool finite = true;
  ForGroups(outputs, [&](std::size_t c0, auto size) {
    constexpr std::size_t kOf = decltype(size)::value;
    const double* of = x.data() + c0 * features;
    if (!finite || !Pack<kOf>(of, features, packed)) {
      finite = false;
      return;
    }
    std::size_t row[kRows];
    for (std::size_t l = 0; l < count; l += kRows) {
      const std::size_t rows = std::min(kRows, count - l);
      for (std::size_t r = 0; r < rows; ++r) row[r] = shard.At(first + l + r);
      AddMargins<kOf>(*fours, row, rows, features, packed, sums);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < kOf; ++c) {
          const double* s = sums + (r * kOf + c) * 4;
          double total = (s[0] + s[2]) + (s[1] + s[3]);
          if (full < features) {
            const double* a = shard.row(first + l + r).value;
            for (std::size_t j = full; j < features; ++j) total = std::fma(a[j], of[c * features + j], total);
          }
          out[(l + r) * outputs + c0 + c] = total;
        }
    }
  });
  return finite;
}

bool AddRowsByFours(const Shard& shard, View coefficient, std::size_t outputs, View weight, bool fresh,
                    Vec& scratch, Span g) {
  const RowFours* fours = shard.fours();
  const std::size_t m = weight.size(), features = shard.features(), full = features / 4 * 4;
  if (fours == nullptr || m < kFewest) return false;
  TACIT_CHECK(m <= shard.size() && coefficient.size() >= m * outputs && g.size() == outputs * features);
  double zero = 0;  // or NaN
  for (std::size_t l = 0; l < m; ++l) {
    if (weight[l] == 0) continue;
    for (std::size_t c = 0; c < outputs; ++c) {
      const double d = weight[l] * coefficient[l * outputs + c];
      zero += d - d;
    }
  }
  if (zero != 0 || std::isnan(zero)) return false;
  Grow(scratch, kGroup * full + 8);
  double* const packed = scratch.data() + ToLine(scratch.data());
  ForGroups(outputs, [&](std::size_t c0, auto size) {
    constexpr std::size_t kOf = decltype(size)::value;
    double* to = g.data() + c0 * features;
    if (fresh) {
      std::fill_n(packed, kOf * full, 0.0);
      for (std::size_t c = 0; c < kOf; ++c) std::fill(to + c * features + full, to + (c + 1) * features, 0.0);
    } else {
      (void)Pack<kOf>(to, features, packed);
    }
    std::size_t row[kRows];
    double d[kRows * kOf];
    for (std::size_t l = 0; l < m;) {
      std::size_t rows = 0;
      for (; l < m && rows < kRows; ++l) {
        if (weight[l] == 0) continue;
        for (std::size_t c = 0; c < kOf; ++c)
          d[rows * kOf + c] = weight[l] * coefficient[l * outputs + c0 + c];
        row[rows++] = shard.At(l);
      }
      AddFours<kOf>(*fours, row, rows, features, d, packed);
      for (std::size_t r = 0; r < rows && full < features; ++r) {
        const double* a = shard.dataset().row(row[r]).value;
        for (std::size_t c = 0; c < kOf; ++c)
          for (std::size_t j = full; j < features; ++j)
            to[c * features + j] = std::fma(d[r * kOf + c], a[j], to[c * features + j]);
      }
    }
    Unpack<kOf>(packed, features, to);
  });
  return true;
}

std::shared_ptr<const RowFours> KeepFours(const Dataset& data, const std::vector<std::size_t>& begin,
                                          const std::vector<std::uint8_t>& keep, std::size_t most) {
  if (data.sparse() || data.maker || data.mapped) return nullptr;
  constexpr std::size_t kFour = 4 * sizeof(double) + sizeof(std::uint32_t);
  const std::size_t all = data.features / 4;
  const auto any = [](const double* v) { return NonZeros(Load(v)) != 0; };  // NaN is not 0
  const auto kept = std::make_shared<RowFours>();
  kept->has.assign(keep.size(), 0);
  kept->begin.assign(data.rows() + 1, 0);
  std::size_t total = 0;
  for (std::size_t c = 0; c < keep.size(); ++c) {
    if (keep[c] == 0) continue;
    const std::size_t most_of = (begin[c + 1] - begin[c]) * all / 2;
    std::size_t count = 0;
    for (std::size_t i = begin[c]; i < begin[c + 1] && count < most_of; ++i)
      for (std::size_t q = 0; q < all; ++q) count += any(data.row(i).value + 4 * q);
    if (count >= most_of) continue;
    kept->has[c] = 1;
    total += count;
  }
  if (std::find(kept->has.begin(), kept->has.end(), 1) == kept->has.end() ||
      total > std::min<std::size_t>(most / kFour, std::numeric_limits<std::uint32_t>::max()))
    return nullptr;
  kept->value.resize(4 * total);
  kept->at.resize(total);
  std::uint32_t k = 0;
  for (std::size_t c = 0, i = 0; i < data.rows(); ++i) {
    kept->begin[i] = k;
    while (c < keep.size() && i >= begin[c + 1]) ++c;
    if (c == keep.size() || i < begin[c] || kept->has[c] == 0) continue;
    const double* row = data.row(i).value;
    for (std::size_t q = 0; q < all; ++q) {
      if (!any(row + 4 * q)) continue;
      Store(kept->value.data() + 4 * std::size_t{k}, Load(row + 4 * q));
      kept->at[k++] = static_cast<std::uint32_t>(q);
    }
  }
  kept->begin.back() = k;
  return kept;
}

}  // namespace tacit
