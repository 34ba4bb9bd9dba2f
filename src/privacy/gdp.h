#pragma once

// Gaussian differential privacy (Dong, Roth, Su 2022), exactly.
//   δ(ε; μ) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2)
// and its inverses. Every end point is on its safe side for all arguments: "lower" is never above the
// truth, "upper" never below. For ε in [1e-6, 1e4] and δ down to 1e-300 the inverses are two neighbouring
// doubles and GdpDelta is at most 1e-13 wide, relatively.
//
// The inverses decide every comparison in multiple precision with directed rounding, in a few tenths of a
// millisecond. GdpDelta takes a double estimate where its proven margin is narrow enough (μ above about 1,
// under a microsecond) and multiple precision elsewhere (some 50 µs).
#include "core/units.h"

namespace tacit {

struct Interval {
  double lower, upper;
};

Interval GdpDelta(Epsilon, Mu);                 // encloses δ(ε; μ); [0, 1] where both are infinite
Interval GdpEpsilon(Mu, Delta);  // encloses the smallest ε ≥ 0 with δ(ε; μ) ≤ δ; ∞ if δ = 0 < μ
Mu GdpMu(Epsilon, Delta);  // the largest μ (rounded down) with δ(ε; μ) ≤ δ

// zero-concentrated DP, as papers convert it: ε = ρ + 2√(ρ ln(1/δ)), rounded up. Loose; shown beside the
// exact value.
double ZcdpEpsilon(Rho, Delta);
Rho ZcdpRho(Epsilon, Delta);  // (√(ε + ln 1/δ) − √ln 1/δ)², rounded down

}  // namespace tacit
