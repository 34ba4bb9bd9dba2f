#pragma once

// The theory that plans a run on a graph: the sensitivity of Lemma I, the Corollary's ε, noise over time, the
// noise term of Theorem II and (22)–(24), and what (ε, δ) rules would ask for. Public constants only.
//   F. Gauthier, C. Gratton, N. K. D. Venkategowda, S. Werner: Private networked federated learning for
//   nonsmooth objectives.
#include <algorithm>
#include <cmath>
#include <complex>

#include "algorithms/topology.h"
#include "core/units.h"
#include "core/vec.h"

namespace tacit {

struct NflTheory {
  double rho = 1;  // ρ
  Spectrum graph = {};
  double dim = 1;  // P

  // 2ρ|N_k| + 1/η: what a subgradient is divided by.
  static double Denominator(double rho, double degree, double eta) { return 2 * rho * degree + 1 / eta; }
  // Lemma I, (11): Δ_k(n) = 2c₁/(M_k(2ρ|N_k| + 1/η_n)), of w_k. On the sum of subgradients it is 2c₁.
  static double Sensitivity(double clip, double records, double rho, double degree, double eta) {
    return 2 * clip / (records * Denominator(rho, degree, eta));
  }

  // Σ_{n=1}^T τ^{−(n−1)} = (1 − τ^T)/(τ^{T−1} − τ^T), the Corollary's factor of φ⁽¹⁾. The sum as printed,
  // over 0 < n < T, has a term less; its closed form is right.
  static double InversePowers(double tau, double rounds) {
    if (tau == 1) return rounds;
    const double log_tau = std::log(tau);
    return std::expm1(-rounds * log_tau) / std::expm1(-log_tau);
  }
  // The Corollary: ε = φ + 2√(φ ln 1/δ) with φ = φ⁽¹⁾·InversePowers.
  static double CorollaryEpsilon(double first, double tau, double rounds, double delta) {
    const double phi = first * InversePowers(tau, rounds);
    return phi + 2 * std::sqrt(phi * std::log(1 / delta));
  }
  // The φ⁽¹⁾ for which the Corollary gives ε.
  static double CorollaryFirst(double epsilon, double tau, double rounds, double delta) {
    const double log = std::log(1 / delta), root = epsilon / (std::sqrt(log + epsilon) + std::sqrt(log));
    return root * root / InversePowers(tau, rounds);
  }

  // Σ_n σ²(n) of σ²(n + 1) = τσ²(n) relative to that of uniform noise of the same total privacy, at constant
  // sensitivity: (Σ τ^{n−1})(Σ τ^{−(n−1)})/T² ≥ 1. Theorem II weighs all rounds alike, so uniform noise is
  // best for the averaged output, and noise that falls is for the last iterate.
  static double GeometricPenalty(double tau, double rounds) {
    return InversePowers(1 / tau, rounds) * InversePowers(tau, rounds) / (rounds * rounds);
  }

  // log q_n, n = 1 … T: the noise of round n counts q_n = c^{2(T−n)} in the last iterate, where a round
  // shrinks errors by c. A graph has more than one such factor: nfl_response.h.
  static Vec LogWeights(std::size_t rounds, double c) {
    Vec q(rounds);
    for (std::size_t n = 1; n <= rounds; ++n) q[n - 1] = 2 * static_cast<double>(rounds - n) * std::log(c);
    return q;
  }

  // How an error shrinks in a round, for peers of one degree whose f_k have the second derivative `curvature`
  // (l2 included): per eigenvalue λ of L₋ the update is w ← (aw − γ)/b, γ ← γ + ρλw with a = 1/η − curvature
  // + ρ(2|N| − λ) and b = 2ρ|N| + 1/η, and the factor the spectral radius of that 2 × 2 matrix. For other
  // graphs with the mean degree it is a guide. At least for the consensus (λ = 0), Φ_min and Φ_max.
  double Factor(double curvature, double degree, double eta) const {
    const double b = Denominator(rho, degree, eta);
    double worst = std::abs(1 - curvature / b);
    for (const double lambda : {graph.phi_min, graph.phi_max}) {
      const double a = 1 / eta - curvature + rho * (2 * degree - lambda);
      // [a/b, −1/b; ρλa/b, 1 − ρλ/b]: trace and determinant.
      const double trace = a / b + 1 - rho * lambda / b, determinant = a / b;
      const std::complex<double> root = std::sqrt(std::complex<double>(trace * trace / 4 - determinant));
      worst = std::max({worst, std::abs(trace / 2 + root), std::abs(trace / 2 - root)});
    }
    return worst;
  }

  // α_ξ = 4ρP(Φ_max(L₋)² + Φ_max(L₊)²)/Φ_min(L₋).
  double NoiseConstant() const {
    return 4 * rho * dim * (graph.phi_max * graph.phi_max + graph.signless_max * graph.signless_max) /
           graph.phi_min;
  }
  // The noise term of Theorem II's bound on E[f(mean of w̃)] − f*: α_ξ/T · Σ_n Σ_k σ_k²(n).
  double NoiseTerm(double sum_of_variances, double rounds) const {
    return NoiseConstant() / rounds * sum_of_variances;
  }
  // The same for noise that falls by τ a round, with the sum over n taken to infinity.
  //   (22)  α_ξ/T · Σ_k σ_k²(1)/(1 − τ)
  //   (23)  σ_k² = Δ_k²/(2φ_k); printed without the square
  //   (24)  all φ_k equal; printed with a factor 1/K too many
  double Bound22(View variances, double tau, double rounds) const {
    double sum = 0;
    for (const double v : variances) sum += v;
    return NoiseTerm(sum / (1 - tau), rounds);
  }
  double Bound23(View sensitivities, View phi, double tau, double rounds) const {
    double sum = 0;
    for (std::size_t k = 0; k < phi.size(); ++k) sum += sensitivities[k] * sensitivities[k] / (2 * phi[k]);
    return NoiseTerm(sum / (1 - tau), rounds);
  }
  double Bound24(View sensitivities, double phi, double tau, double rounds) const {
    return NoiseTerm(NormSquared(sensitivities) / (2 * phi * (1 - tau)), rounds);
  }
};

// (ε, δ)-DP-NFL: noise by the classic Gaussian mechanism, σ = Δ√(2 ln(1.25/δ₀))/ε₀ a round, and a composition
// theorem for (ε, δ). The paper does not say which; both are here, as multiples of Δ.
//   basic      ε₀ = ε/T, δ₀ = δ/T
//   advanced   ε = ε₀√(2T ln(2/δ)) + Tε₀(e^{ε₀} − 1), δ₀ = δ/(2T)  (Dwork, Rothblum & Vadhan, 2010)
// Of either the account is that of its Gaussians, far below (ε, δ).
inline double BasicMultiplier(Epsilon epsilon, Delta delta, double rounds) {
  return rounds * std::sqrt(2 * std::log(1.25 * rounds / delta.value())) / epsilon.value();
}
inline double AdvancedMultiplier(Epsilon epsilon, Delta delta, double rounds) {
  const double root = std::sqrt(2 * rounds * std::log(2 / delta.value()));
  const auto total = [&](double e) { return e * root + rounds * e * std::expm1(e); };
  double low = 0, high = epsilon.value() / root;
  for (int i = 0; i < 200; ++i) {  // total grows, and is at least ε at the start
    const double middle = low + (high - low) / 2;
    (total(middle) <= epsilon.value() ? low : high) = middle;
  }
  return std::sqrt(2 * std::log(1.25 * 2 * rounds / delta.value())) / low;
}

}  // namespace tacit
