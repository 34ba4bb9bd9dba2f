#pragma once

// Two ways to make a record's gradient no longer than C. Here, and not in privacy/, because objectives that
// clip by themselves (Objective::ClippedSum) use the same functions.
//
// By a weight: min(1, C/norm), rounded down. norm is at least the gradient's length in real arithmetic, so
// the product is in the ball.
//
// By the slope: where the gradient is slope·row, its length is |slope|·‖row‖, and min(|slope|, C/‖row‖) with
// the slope's sign is the same vector without a quotient, since C/‖row‖ = C·(1/‖row‖) and rows do not change.
#include "models/lanes.h"

namespace tacit {

// Norms from here on count as not finite: C/norm stays far above the subnormals, where a product has no
// relative error bound.
inline constexpr double kLongestNorm = 0x1p500;
// For bounds from here on ClipFour is right.
inline constexpr double kLeastLaneClip = 0x1p-400;

// Four weights without branches or calls, for half the records are clipped or not as if by chance; 0 where
// `counts` is false: a record that cannot be measured is the zero vector. No weight is 0 elsewhere. c ≥
// 2⁻⁴⁰⁰: for c < n < 2⁵⁰⁰ the quotient is normal, its residual exact, and the double below it one unit of its
// bits. For n ≤ c it is c/c.
struct ClipLanes {
  Lanes weight;
  LaneMask counts;
};
__attribute__((always_inline)) inline ClipLanes ClipFour(Lanes norm, Lanes c) {
  const Lanes n = Max(norm, c);  // c where the norm is NaN, which does not count
  const Lanes q = c / n;
  const auto above = LaneMask(MulAdd(q, n, -c) > Lanes{});  // −1 where q is above c/n
  const auto counts = LaneMask(norm < All(kLongestNorm));
  return {Lanes((LaneMask(q) + above) & counts), counts};
}

// The slope in [−k, k], k = C·reach for the row's reach ≤ (1 − 2⁻⁵¹)/‖row‖ (RowNorms::Reach). For C ≥ 2⁻⁴⁰⁰
// the product is normal or 0, since reach ≥ 2⁻⁵⁰¹ or 0, so k ≤ C·reach·(1 + 2⁻⁵³) < C/‖row‖ and |slope|·‖row‖
// ≤ C in real arithmetic; where the product overflows, C/‖row‖ is above all doubles. NaN stays NaN.
__attribute__((always_inline)) inline double WithinReach(double slope, double reach, double c) {
  const double k = c * reach, below = k < slope ? k : slope;
  return -k > below ? -k : below;
}
__attribute__((always_inline)) inline Lanes WithinReach(Lanes slope, Lanes reach, Lanes c) {
  const Lanes k = c * reach;
  return Max(-k, Min(k, slope));
}

// The clipped slope, and whether the record counts: 0, and it does not, where the slope is no number or the
// row's norm is not below 2⁵⁰⁰.
struct ClippedSlope {
  double slope;
  bool counts;
};
__attribute__((always_inline)) inline ClippedSlope ClipSlope(double slope, double reach, double c) {
  const double within = WithinReach(slope, reach, c);
  const bool counts = (reach > 0) & (within - within == 0);
  return {counts ? within : 0.0, counts};
}

}  // namespace tacit
