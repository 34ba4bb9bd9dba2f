#pragma once

// How a budget is spread over rounds: shares w_t ≥ 0, Σ w_t = 1, with μ_t² = w_t μ². Everything is
// computed in log space from public constants.
#include <optional>
#include <vector>

#include "core/result.h"
#include "core/units.h"
#include "core/vec.h"

namespace tacit {

// Shares below it are skipped: the round sends nothing and touches no data.
inline constexpr double kSkipShare = 1e-6;

struct Shares {
  Vec log_share;               // log w_t, one per round; −∞ for a skipped round
  std::size_t rounds() const { return log_share.size(); }
  bool skipped(std::size_t t) const;
  double share(std::size_t t) const;
};

Shares UniformShares(std::size_t rounds);

// σ_t² ∝ ratio^t (t = 0, 1, …): shares ∝ Δ_t²/σ_t².
Shares GeometricShares(std::size_t rounds, double ratio);

// Minimise Σ q_t σ_t² subject to Σ Δ_t²/σ_t² ≤ μ²: w_t ∝ Δ_t √q_t. Rounds whose share would be below
// skip_below are skipped and the rest re-normalised.
Shares WaterFillingShares(View log_q, View log_sensitivity, double skip_below = kSkipShare);

// The same under a cap σ_t² ≤ variance_cap. Refuses when even the cap overspends. Exact optimum of
// the capped problem: σ_t² = min(cap, λ Δ_t/√q_t).
Result<Shares> CappedWaterFilling(View log_q, View log_sensitivity, Mu budget, double variance_cap,
                                  double skip_below = kSkipShare);

// Σ_t q_t σ_t² for shares and Δ_t at total budget μ (∞ if a round with q_t > 0 is skipped is not an
// error: a skipped round adds no noise).
double NoiseCost(const Shares&, View log_q, View log_sensitivity, Mu budget);

// Nominal μ_t for each round such that what is charged, Σ (μ_t·(1 + relative) + absolute)², does not
// exceed μ² in real arithmetic. relative pays for floating-point sums, absolute for the lattice.
Result<Vec> Calibrate(const Shares&, Mu budget, double relative, double absolute);

}  // namespace tacit
