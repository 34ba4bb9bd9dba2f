#pragma once

// What a record's gradient is multiplied by so that it is no longer than C: min(1, C/norm), rounded down.
// norm is at least the gradient's length in real arithmetic, so the product is in the ball. Here, and not
// in privacy/, because objectives that clip in one pass (Objective::ClippedSum) use the same function.
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

}  // namespace tacit
