#pragma once

// A mean and the mean of the squared norms, released together.
#include <cstdint>

#include "core/units.h"

namespace tacit {

// M vectors v_i with ‖v_i‖ ≤ C; (1/M)Σ v_i is released with noise of std `mean` in every coordinate and
// (1/M)Σ‖v_i‖² with noise of std `squares`. μ of the pair when one vector is replaced, rounded up.
//
// With a = ‖v‖, b = ‖v′‖ ≤ C the squared Mahalanobis distance is at most
//   (a + b)²/(M s₁)² + (a² − b²)²/(M s₂)²,
// which grows in the larger of the two: a = C. With β = b/C and κ = C² s₁²/s₂² it is (2C/(M s₁))² g(β),
//   g(β) = (1 + β)²(1 + κ(1 − β)²)/4,   g′(β) ∝ 1 − 2κβ(1 − β).
// So g is largest at β = 1, where it is 1, or at β = (1 − √(1 − 2/κ))/2 if κ > 2. The latter passes 1 only
// for κ > (11 + 5√5)/8 = φ⁵/4: up to there, that is for s₂ ≥ 2φ^{−5/2} C s₁ = 0.60057 C s₁, the squares cost
// nothing at all. Antipodal vectors, the worst for the mean, have equal norms.
// Holds for replace-one only: a vector that is zeroed moves both.
Mu MeanAndSquaresMu(L2Bound clip, NoiseStd mean, NoiseStd squares, std::uint64_t vectors);

// √(max g) for √κ = root, rounded up; 1 exactly where the squares cost nothing. The same with one noise for
// all coordinates: (v, λ‖v‖²) and (v′, λ‖v′‖²) differ by at most 2C·SquareFactor(λC).
double SquareFactor(double root);
double FreeSquare(L2Bound clip);  // a λ with SquareFactor(λC) = 1, next to the largest

}  // namespace tacit
