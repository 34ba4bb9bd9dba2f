#pragma once

// The two sweeps over rows that every linear model consists of, and the bound that makes them safe to
// clip. x and g hold `outputs` blocks of `features` numbers (outputs × features, row-major).
#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

#include "core/simd.h"
#include "core/vec.h"
#include "data/dataset.h"
#include "models/clip_weight.h"
#include "models/wide_rows.h"

namespace tacit {

// out[l·outputs + c] = ⟨row first + l, x_c⟩ for l < count. The value of a row does not depend on its
// neighbours, its address or its place in the shard. (Rows of one value are summed before the product; that
// is decided row by row.)
void Margins(const Shard&, View x, std::size_t outputs, std::size_t first, std::size_t count, Span out);

// The same for one output and all rows of the shard, by its tokens where it has them: the same bits.
void Margins(const Shard&, View x, Vec& scratch, Span out);

// g_c ← g_c + Σ_l fl(weight[l]·coefficient[l·outputs + c]) row_l, in the order of the rows, each
// addition fused with its product. A row of weight 0 is not read.
//
// A coordinate thus sees one rounding for weight·coefficient and one per row: with m rows
// |computed − exact| ≤ γ_{m+1} Σ|terms|, but for underflow, which adds at most 2⁻¹⁰⁷⁴ a row. Dense rows of
// 4, 8, 12 or 16 features and one output are added in four sums, of the rows l mod 4, for at most 256 rows at
// a time, and these to g: at most m additions of numbers that are not 0 where g is 0, and m + 1 where it is
// not, so γ_{m+1} and γ_{m+2}.
void AddRows(const Shard&, View coefficient, std::size_t outputs, View weight, Span g);

// The same for one output and all rows of the shard, by its Columns where it has them. A coordinate then sees
// the roundings of weight·coefficient and of its product with the row's value, and its at most m terms and g
// are added in some order: at most m additions of numbers that are not 0, through lists and pairs of lists,
// since every row is in one list of the coordinate. So |computed − exact| ≤ γ_{m+2} Σ|terms|.
void AddRows(const Shard&, View coefficient, View weight, Vec& scratch, Span g);

// A double ≥ s·a for a length s ≥ 0 of the coefficients and a ≥ ‖row‖, not finite if s or a is not.
//
// What is clipped is the vector WeightedSum really adds, coefficient·row with the coefficient as
// computed: how well that double approximates the mathematical derivative is a matter of accuracy, not
// of sensitivity. ‖coefficient·row‖ ≤ s·a in real arithmetic, so the only roundings to cover are those
// of this product; the rest of the inflation (16 units of 2⁻⁵³, of which 2 are needed here) pays for
// the quotient C/norm and for weight·coefficient·row, so that one record of weight C/norm has length
// at most C even as rounded. The additive term covers underflow.
__attribute__((always_inline)) inline double NormBound(double s, double a) {
  const double product = s * a;
  const double up = product * (1.0 + 0x1p-49) + std::numeric_limits<double>::min();
  return ((s == 0) | (a == 0)) ? product : up;
}

// Rows of 4, 8, 12 or 16 features, one after the other: what the kernels for narrow rows take.
struct NarrowRows {
  const double *value, *label, *reach;
  std::size_t features, count;
};
inline std::optional<NarrowRows> NarrowRowsOf(const Shard& shard) {
  const std::size_t n = shard.features();
  if (shard.sparse() || !shard.laid_out() || n % 4 != 0 || n - 4 > 12 || shard.size() > shard.block())
    return std::nullopt;
  const Dataset& d = shard.dataset();
  return NarrowRows{d.dense() + shard.begin() * n, d.label.data() + shard.begin(),
                    d.norm.reach() + shard.begin(), n, shard.size()};
}

// The kernels for rows of 4·B features that lie one after the other, four rows at a time.
template <std::size_t B>
struct Narrow {
  // ⟨row_l, x⟩ of four rows, or of 1 … 3 and something finite.
  struct Point {
    Lanes x[B];
    explicit Point(const double* at) {
      for (std::size_t i = 0; i < B; ++i) x[i] = Load(at + 4 * i);
    }
    __attribute__((always_inline)) Lanes Products(const double* row) const {
      Lanes s = {};
      for (std::size_t i = 0; i < B; ++i) s = MulAdd(Load(row + 4 * i), x[i], s);
      return s;
    }
    __attribute__((always_inline)) Lanes Margins(const double* rows) const {
      return SumsOf(Products(rows), Products(rows + 4 * B), Products(rows + 8 * B), Products(rows + 12 * B));
    }
    __attribute__((always_inline)) Lanes Margins(const double* rows, std::size_t count) const {
      const std::size_t one = count > 1 ? 4 * B : 0, two = count > 2 ? 8 * B : one;
      return SumsOf(Products(rows), Products(rows + one), Products(rows + two), Lanes{});
    }
  };

  // Σ_l w[l] row_l over the coordinates up to 4W: four sums side by side, of the rows l mod 4, for one would
  // wait for the addition before. A row with w[l] = 0 is not read if kSkip.
  template <std::size_t W, bool kSkip>
  struct Sum {
    Lanes s[4][W] = {};
    __attribute__((always_inline)) void AddOne(const double* row, double w, Lanes (&sum)[W]) {
      if (kSkip && w == 0) return;
      for (std::size_t i = 0; i < W; ++i) sum[i] = MulAdd(All(w), Load(row + 4 * i), sum[i]);
    }
    __attribute__((always_inline)) void Add(const double* rows, const double* w) {
      AddOne(rows, w[0], s[0]);
      AddOne(rows + 4 * B, w[1], s[1]);
      AddOne(rows + 8 * B, w[2], s[2]);
      AddOne(rows + 12 * B, w[3], s[3]);
    }
    __attribute__((always_inline)) void Add(const double* rows, std::size_t count, const double* w) {
      if (count >= 1) AddOne(rows, w[0], s[0]);
      if (count >= 2) AddOne(rows + 4 * B, w[1], s[1]);
      if (count >= 3) AddOne(rows + 8 * B, w[2], s[2]);
    }
    __attribute__((always_inline)) Lanes total(std::size_t i) const {
      return (s[0][i] + s[2][i]) + (s[1][i] + s[3][i]);
    }
    __attribute__((always_inline)) bool finite() const {
      Lanes zero = {};  // x − x is 0, or NaN
      for (std::size_t i = 0; i < W; ++i) zero += total(i) - total(i);
      return Everywhere(LaneMask(zero == Lanes{}));
    }
    __attribute__((always_inline)) void To(double* g) const {
      for (std::size_t i = 0; i < W; ++i) Store(g + 4 * i, Load(g + 4 * i) + total(i));
    }
  };
  template <std::size_t W, bool kSkip>
  static void AddPart(const double* rows, const double* w, std::size_t count, double* g) {
    Sum<W, kSkip> sum;
    std::size_t l = 0;
    for (; l + 4 <= count; l += 4) sum.Add(rows + l * 4 * B, w + l);
    sum.Add(rows + l * 4 * B, count - l, w + l);
    sum.To(g);
  }
  // g ← g + Σ_l w[l] row_l; a row with w[l] = 0 is not read.
  static void Add(const double* rows, const double* w, std::size_t count, double* g) {
    if constexpr (B >= 2) AddPart<2, true>(rows, w, count, g);
    if constexpr (B >= 4) AddPart<2, true>(rows + 8, w, count, g + 8);
    if constexpr (B % 2 == 1) AddPart<1, true>(rows + 4 * (B - 1), w, count, g + 4 * (B - 1));
  }

  static constexpr std::size_t kPiece = 256;  // rows that are added at once; more come in pieces

  // g ← g + Σ_l d_l row_l in one pass, d_l the clipped slope (clip_weight.h) of slope(⟨row_l, x⟩, label_l):
  // the same bits as Margins, ClipSlope and AddRows one after the other. slope(Lanes, Lanes) → Lanes, in each
  // lane alone.
  //
  // Whether all rows count is asked of the sum: a slope that is no number, and a row that is not finite
  // beside a slope of 0, leave a coordinate that is none. Then the others are added again.
  //
  // A row's way from margin to sum is one long chain, and a processor looks ahead over a few of them only: so
  // while slopes of some rows are under way others are added. What lies behind the rows is likely the next
  // client's: it is fetched meanwhile.
  template <class Slope>
  static void AddClipped(const NarrowRows& rows, const double* x, double clip, Slope slope, double* g) {
    constexpr std::size_t kApart = 8, kSums = B <= 2 ? B : 0;
    double d[kPiece + 8];
    const bool wide = B % 2 == 0 && internal::SimdInUse() == internal::Simd::kAvx512;
    const Point point(x);
    const Lanes c = All(clip);
    for (std::size_t first = 0; first < rows.count; first += kPiece) {
      const std::size_t count = std::min(rows.count - first, kPiece), full = count & ~std::size_t{3};
      const double *value = rows.value + first * 4 * B, *label = rows.label + first,
                   *reach = rows.reach + first;
      if (wide) {
        if constexpr (B % 2 == 0)
          if (Wide<B>::AddClipped(value, label, reach, count, x, clip, slope, d, g)) continue;
      } else {
        const auto four = [&](std::size_t l) __attribute__((always_inline)) {
          const double* next = value + (count + l) * 4 * B;
          for (std::size_t i = 0; i < 2 * B; ++i) __builtin_prefetch(next + 8 * i);
          const Lanes s = slope(point.Margins(value + l * 4 * B), Load(label + l));
          Store(d + l, WithinReach(s, Load(reach + l), c));
        };
        Sum<kSums, false> sum;
        std::size_t l = 0;
        for (; l < (kSums > 0 ? std::min(full, kApart) : full); l += 4) four(l);
        if constexpr (kSums > 0)
          for (; l < full; l += 4) {
            four(l);
            sum.Add(value + (l - kApart) * 4 * B, d + (l - kApart));
          }
        const std::size_t rest = count - full;
        if (rest > 0) {
          const Lanes s = slope(point.Margins(value + full * 4 * B, rest), LoadPart(label + full, rest));
          Store(d + full, WithinReach(s, LoadPart(reach + full, rest), c));
        }
        if constexpr (kSums > 0) {
          for (l = full - std::min(full, kApart); l < full; l += 4) sum.Add(value + l * 4 * B, d + l);
          sum.Add(value + full * 4 * B, rest, d + full);
          if (sum.finite()) [[likely]] {
            sum.To(g);
            continue;
          }
        }
      }
      for (std::size_t l = 0; l < count; ++l) d[l] = d[l] - d[l] == 0 ? d[l] : 0.0;
      Add(value, d, count, g);  // a row with d = 0 is not read
    }
  }
};

template <class Slope>
void AddClipped(const NarrowRows& rows, View x, double clip, Slope slope, Span g) {
  TACIT_CHECK(x.size() == rows.features && g.size() == rows.features && clip >= kLeastLaneClip);
  switch (rows.features) {
    case 4: return Narrow<1>::AddClipped(rows, x.data(), clip, slope, g.data());
    case 8: return Narrow<2>::AddClipped(rows, x.data(), clip, slope, g.data());
    case 12: return Narrow<3>::AddClipped(rows, x.data(), clip, slope, g.data());
    case 16: return Narrow<4>::AddClipped(rows, x.data(), clip, slope, g.data());
    default: TACIT_CHECK(false);
  }
}

// The same by a shard's tiles (dataset.h), which have the rows' bits: a margin is made of the same four
// partial sums, and a coordinate of the same sums of the rows l mod 4; they lie in lanes, and meet at the
// end.
template <std::size_t B>
struct Tiled {
  static constexpr std::size_t kFeatures = 4 * B, kSize = Tiles::SizeOfOne(kFeatures);

  // g ← g + Σ_l d_l row_l, g from 0 on if `begin`, over the rows of `count` tiles, at most Narrow<B>::kPiece.
  // False: not all of them count, and nothing was written.
  template <class Slope>
  static bool AddPiece(const double* tiles, std::size_t count, const double* at, double clip, Slope slope,
                       bool begin, double* g) {
    Lanes x[kFeatures], sum[kFeatures] = {};
    for (std::size_t j = 0; j < kFeatures; ++j) x[j] = All(at[j]);
    const Lanes c = All(clip);
    for (const double *tile = tiles, *end = tiles + count * kSize; tile != end; tile += kSize) {
      const double* column = tile + 8;
      Lanes s[4] = {};
      for (std::size_t j = 0; j < kFeatures; ++j) s[j % 4] = MulAdd(Load(column + 4 * j), x[j], s[j % 4]);
      const Lanes d = WithinReach(slope((s[0] + s[2]) + (s[1] + s[3]), Load(tile)), Load(tile + 4), c);
      for (std::size_t j = 0; j < kFeatures; ++j) sum[j] = MulAdd(d, Load(column + 4 * j), sum[j]);
    }
    Lanes total[B], zero = {};  // x − x is 0, or NaN
    for (std::size_t i = 0; i < B; ++i) {
      total[i] = SumsOf(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
      zero += total[i] - total[i];
    }
    if (!Everywhere(LaneMask(zero == Lanes{}))) return false;
    for (std::size_t i = 0; i < B; ++i) Store(g + 4 * i, (begin ? Lanes{} : Load(g + 4 * i)) + total[i]);
    return true;
  }

  // g ← the sum over all rows, piece by piece; a piece in which not all rows count is left to the rows.
  template <class Slope>
  __attribute__((always_inline)) static void FormClipped(const Shard& shard, const double* x, double clip,
                                                         Slope slope, double* g) {
    const std::size_t m = shard.size();
    if (m <= Narrow<B>::kPiece && internal::SimdInUse() == internal::Simd::kAvx512 &&
        WideTiles<B>::AddPiece(shard.tiles(), Tiles::Count(m), x, clip, slope, true, g)) [[likely]]
      return;
    FormByPieces(shard, x, clip, slope, g);
  }
  template <class Slope>
  __attribute__((noinline)) static void FormByPieces(const Shard& shard, const double* x, double clip,
                                                     Slope slope, double* g) {
    constexpr std::size_t kPiece = Narrow<B>::kPiece;
    const bool wide = internal::SimdInUse() == internal::Simd::kAvx512;
    std::size_t first = 0, left = shard.size();
    do {
      const std::size_t count = std::min(left, kPiece), tiles = Tiles::Count(count);
      const double* from = shard.tiles() + first / Tiles::kRows * kSize;
      if (!(wide ? WideTiles<B>::AddPiece(from, tiles, x, clip, slope, first == 0, g)
                 : AddPiece(from, tiles, x, clip, slope, first == 0, g))) [[unlikely]] {
        if (first == 0) std::fill_n(g, kFeatures, 0.0);
        Narrow<B>::AddClipped(*NarrowRowsOf(shard.Slice(first, count)), x, clip, slope, g);
      }
      first += count;
      left -= count;
    } while (left > 0);
  }
};

// g ← Σ_l d_l row_l for a shard with tiles.
template <class Slope>
__attribute__((always_inline)) inline void FormClipped(const Shard& shard, View x, double clip, Slope slope,
                                                       Vec& g) {
  const std::size_t n = shard.features();
  TACIT_CHECK(x.size() == n && Tiles::Fit(n) && clip >= kLeastLaneClip);
  static constexpr double kZeros[8] = {};
  if (g.size() != n) g.assign(kZeros, kZeros + n);  // no loop, and no call
  if (n == 8)
    Tiled<2>::FormClipped(shard, x.data(), clip, slope, g.data());
  else
    Tiled<1>::FormClipped(shard, x.data(), clip, slope, g.data());
}

inline void Grow(Vec& v, std::size_t size) {
  if (v.size() < size) v.resize(size);
}

}  // namespace tacit
