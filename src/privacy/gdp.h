#pragma once

// Gaussian differential privacy (Dong, Roth, Su 2022), exactly.
//   δ(ε; μ) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2)
// and its inverses, to full double accuracy for ε ∈ [1e-6, 1e4] and δ down to 1e-300. "Up" values
// are never below the truth, "Down" values never above, by a proven rounding margin.
#include "core/units.h"

namespace tacit {

struct Interval {
  double lower, upper;
};

Interval GdpDelta(Epsilon, Mu);                 // encloses δ(ε; μ)
Interval GdpEpsilon(Mu, Delta);                 // encloses the smallest ε ≥ 0 with δ(ε; μ) ≤ δ; ∞ if δ = 0 < μ
Mu GdpMu(Epsilon, Delta);                       // the largest μ (rounded down) with δ(ε; μ) ≤ δ

// zero-concentrated DP, as papers convert it: ε = ρ + 2√(ρ ln(1/δ)). Loose; shown beside the exact.
double ZcdpEpsilon(Rho, Delta);
Rho ZcdpRho(Epsilon, Delta);                    // (√(ε + ln 1/δ) − √ln 1/δ)²

}  // namespace tacit
