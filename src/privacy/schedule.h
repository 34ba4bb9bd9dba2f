#pragma once

// How a budget is spread over rounds: shares w_t ≥ 0, Σ w_t = 1, with μ_t² = w_t μ². Everything is
// computed in log space from public constants, in O(T) (O(T log T) with a cap).
#include <cstddef>

#include "core/result.h"
#include "core/units.h"
#include "core/vec.h"

namespace tacit {

// Shares below it are skipped: the round sends nothing and touches no data. A round with at least half of
// the average share is never skipped, so some always remain, however many there are.
inline constexpr double kSkipShare = 1e-6;

struct Shares {
  Vec log_share;               // log w_t, one per round; −∞ for a skipped round
  std::size_t rounds() const { return log_share.size(); }
  bool skipped(std::size_t t) const;
  double share(std::size_t t) const;
};

// rounds > 0 here and below.
Shares UniformShares(std::size_t rounds);

// σ_t² ∝ ratio^t (t = 0, 1, …) at constant Δ: shares ∝ ratio^−t. Nothing is skipped. 0 < ratio < ∞.
Shares GeometricShares(std::size_t rounds, double ratio);

// Minimise Σ q_t σ_t² subject to Σ Δ_t²/σ_t² ≤ μ²: w_t ∝ Δ_t √q_t, with equality in Cauchy–Schwarz.
// Rounds whose share would be below skip_below are skipped and the rest re-normalised. −∞ is the logarithm
// of 0; at least one Δ_t √q_t is positive, none is infinite.
Shares WaterFillingShares(View log_q, View log_sensitivity, double skip_below = kSkipShare);

// The same under a cap σ_t² ≤ variance_cap for the rounds that are kept. Refuses when even the cap
// overspends, Σ Δ_t²/cap > μ². Exact optimum of the capped problem: σ_t² = min(cap, λ Δ_t/√q_t).
Result<Shares> CappedWaterFilling(View log_q, View log_sensitivity, Mu budget, double variance_cap,
                                  double skip_below = kSkipShare);

// Σ_t q_t σ_t² with σ_t² = Δ_t²/(w_t μ²). A skipped round adds no noise, whatever its q_t.
double NoiseCost(const Shares&, View log_q, View log_sensitivity, Mu budget);

// Part of μ² left to those who recompute a charge with upward rounding (σ_t from μ_t, μ_t from σ_t, a sum
// over rounds), so that a calibrated plan is never refused for its last digit.
inline constexpr double kRoundingReserve = 0x1p-40;

// Nominal μ_t for each round such that what is charged, Σ (μ_t·(1 + relative) + absolute)², does not
// exceed μ² in real arithmetic, nor when composed in round order with MuSquared's upward addition.
// relative pays for floating-point sums, absolute for the lattice; a skipped round has μ_t = 0 and is not
// charged. Refuses when a round's share does not even pay for absolute.
Result<Vec> Calibrate(const Shares&, Mu budget, double relative, double absolute);

}  // namespace tacit
