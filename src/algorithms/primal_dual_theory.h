#pragma once

// The theory that plans a primal-dual run: the factor of Lemma 4.4, the weights of the allocation,
// the bound (12) and the lower bound on T. Public constants only.
#include <algorithm>
#include <cmath>

#include "core/vec.h"

namespace tacit {

struct PrimalDualTheory {
  double gamma = 0, mu_f = 0, l_f = 0;          // of f on R^{nd}: strong convexity and smoothness times s
  bool sharp = true;

  // E[Φ^{t+1}] ≤ c·E[Φ^t] + (5/2)·n·d·γ²ξ_t². Printed: c = 1 − γ·min{μ_f, 1}. Sharp, by
  // ‖w − w*‖ ≤ (1 − γμ_f)‖x − x*‖ for a gradient step with γ ≤ 1/L_f: c = max{(1 − γμ_f)², 1 − γ}.
  double Factor() const {
    if (!sharp) return 1 - gamma * std::min(mu_f, 1.0);
    return std::max((1 - gamma * mu_f) * (1 - gamma * mu_f), 1 - gamma);
  }

  // log q_t for t = 1 … T: q_t = c^{T−t} weighs the noise of round t in the error after round T.
  Vec LogWeights(std::size_t rounds) const {
    const double log_c = std::log(Factor());
    Vec q(rounds);
    for (std::size_t t = 1; t <= rounds; ++t) q[t - 1] = static_cast<double>(rounds - t) * log_c;
    return q;
  }

  double LargestStep() const { return std::min(0.25, 1 / l_f); }       // (10)

  // The noise term of the bound for Σ_t q_t ξ_t² = cost: C₂ γ² cost with C₂ = (5/2)·n·d.
  double NoiseTerm(double clients, double dim, double cost) const {
    return 2.5 * clients * dim * gamma * gamma * cost;
  }
  // (12) as printed, for sensitivity 2·s·B/m of one message, s = 1/n: 20B²d/(ρ·n·m²·min{μ_f², 1}).
  static double PrintedNoiseTerm(double b, double dim, double rho, double clients, double records,
                                 double mu_f) {
    const double c1 = std::min(mu_f, 1.0);
    return 20 * b * b * dim / (rho * clients * records * records * c1 * c1);
  }
  // Rounds after which c^T·E[Φ¹] is below the noise term, for a public guess of E[Φ¹].
  double RoundsNeeded(double phi1, double noise_term) const {
    if (!(phi1 > noise_term)) return 1;
    return std::ceil(std::log(noise_term / phi1) / std::log(Factor()));
  }
};

}  // namespace tacit
