#pragma once

// The two sweeps over rows that every linear model consists of, and the bound that makes them safe to
// clip. x and g hold `outputs` blocks of `features` numbers (outputs × features, row-major).
#include <cstddef>
#include <limits>

#include "core/vec.h"
#include "data/dataset.h"

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
// |computed − exact| ≤ γ_{m+1} Σ|terms|, but for underflow, which adds at most 2⁻¹⁰⁷⁴ a row.
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

inline void Grow(Vec& v, std::size_t size) {
  if (v.size() < size) v.resize(size);
}

}  // namespace tacit
