#pragma once

// The theory that plans a run with error feedback: the step of EF21, how it may grow, Corollary 1's number of
// rounds, the printed conditions on it, radii that shrink with the split of a budget that suits them, the
// printed schedules of noise, and what noise leaves behind. Public constants only.
//   Diminishing noise maintains differential privacy and enhances convergence (DPd-EF21, anonymous
//   submission); P. Richtárik, I. Sokolov, I. Fatkhullin: EF21 (NeurIPS 2021).
//
// Where the paper's constants do not follow from its proof they are derived again; each function says how.
// Proofs and the list of differences: docs/algorithms/ef21.md.
#include <cstddef>

#include "core/units.h"
#include "core/vec.h"

namespace tacit {

// A compressor contracts by α: ‖C(x) − x‖² ≤ (1 − α)‖x‖². L: smoothness of the f_i (root of the mean square);
// mu: PL constant, or strong convexity; 0: none is known.
struct Ef21Theory {
  double alpha = 1;
  double smoothness = 1;  // L
  double mu = 0;  // μ
  double growth = 1;  // c_up: a step is at most so many times the one before
  double m = 4;  // M of Lemma 10

  // θ = M/(2M − 2α − 2Mc_up + Mαc_up): the weight of the compression error for which
  //   γ_t/2 + θγ_{t+1}(1 − α/2) ≤ θγ_t(1 − α/M)   whenever γ_{t+1} ≤ c_up γ_t.
  // 2/α for M = 4 and constant steps. Printed: 2M − Mα − 2Mc_up + Mc_up below, and in Corollary 3
  // 8 − 2α − 4c_up α; neither makes the line above true for small α. ∞ where no θ does.
  double Theta() const;
  // c_up must stay below (2M − 2α)/(M(2 − α)), where θ is ∞. Theorem 1 chooses that very value.
  double LargestGrowth() const { return (2 * m - 2 * alpha) / (m * (2 - alpha)); }
  // γ_EF = min{1/(L(2 + √(2θc_up(2 + 4/α)))), 2α/(Mμ)}; Theorem 1 prints (2 + 4/α) outside of the root.
  double LargestStep() const;

  // γ_k = min(first·c_up^k, last), k = 0 … rounds − 1: γ_{k−1} ≤ γ_k ≤ c_up γ_{k−1}, γ_k ≤ last.
  Vec Steps(std::size_t rounds, double first, double last) const;
  // T₀: rounds until such steps have grown from first to last; ∞ if they never do.
  double WarmUp(double first, double last) const;
  // Corollary 1: T = T₀(1 − γ₀/γ) + (4/(γμ)) ln(V̄⁰/target), γ the last step. ∞ without μ.
  double Rounds(double first, double last, double initial, double target) const;

  // The conditions on T of Theorem 1 and Appendix D as printed:
  //   C₁C₂ m(γ_k)/(n(1 − γ_kμ/2)(T + 1)e^{(k+1)γ_kμ/4}) ≤ 1 for all k       ρ_k ∝ Π h(γ_iμ)^{−1}·h(γμ)^{−k}
  //   (1 + C₁C₂′ m(γ)/(n(1 − γμ/2))) e^{−(T+1)γμ/4} ≤ 2       ρ_k ∝ (hq)^{−k}, 1/h < q < 1
  // with C₁ = ε²/(4 ln 1/δ), m(γ) = 1 + Lγ + C₃γ², and A = 4((n + 1)/θ)(1 + √(1 − α))² in C₂ and C₂′. γ, the
  // last step, is where the proof has γ_EF, as in Rounds. They hold for what the paper writes and do not make
  // it true: ε² belongs into the denominator of C₁.
  struct Privacy {
    double epsilon = 1, delta = 1e-5, dim = 1, clients = 1, failure = 0.01;  // failure: p
  };
  // For the steps γ_0, γ_1, …, after which the last one stays; where all are alike, k = 0 decides.
  double PrintedRounds(View steps, const Privacy&) const;
  double PrintedRoundsByLevels(double gamma, double q, const Privacy&) const;
  // With ε² where it belongs and Z for 1/Z, the induction of Theorem 2 closes for all T only if
  // K ≤ 2(√h − 1)², K = (Ad/2n)·4 ln(1/δ)/ε²: from this ε on.
  double LeastEpsilon(double gamma, const Privacy&) const;

  // h(y) = (1 − y/4)/(1 − y/2), y = γμ: how much slower the theorem's rate is than that without noise.
  static double H(double y) { return (1 - y / 4) / (1 - y / 2); }
};

// ---- Noise over rounds.

// Radii C_t = C₀rᵗ, t = 0 … rounds − 1, and their sum by a closed form.
Vec Radii(double first, double ratio, std::size_t rounds);
double SumOfRadii(double first, double ratio, std::size_t rounds);

// Where noise adds up on the server, Σ_t σ_t² counts. With Δ_t = 2C_t and Σ (2C_t/σ_t)² = μ² it is least for
//   μ_t² = μ² C_t/ΣC,   σ_t² = 4C_t ΣC/μ²,   Σσ_t² = 4(ΣC)²/μ²:
// the variance falls like the radius. Noise in proportion to the radius, μ_t² = μ²/T, makes 4TΣC²/μ².
struct RadiusNoise {
  double sum = 0;  // ΣC
  double first = 0, last = 0;  // σ² of the first and the last round
  double total = 0, equal_split = 0;  // Σσ², and with an equal split
};
RadiusNoise NoiseOfRadii(double first, double ratio, std::size_t rounds, Mu);

// The printed schedules at steps γ_0, γ_1, …: the variance is Δ_t²/(2ρ_t) with Δ_t² = Δ_0² Π_{i<t} (1 −
// γ_iμ/4), said to bound the messages, and shares ρ_t ∝ ν_t of the budget.
enum class Ef21Noise {
  kGeometric,  // (i): ν = 1, σ_t² = σ_0² Π (1 − γ_iμ/4)
  kTheorem,  // ν_t = Π h(γ_iμ), so σ_t² ∝ Π (1 − γ_iμ/2), as Section 4 says of Theorem 1
  kLevels,  // Appendix D: ν_t = Π (q h(γ_iμ))^{−1}; the interval printed for q is empty, (1/h, 1) is meant
  kLyapunov,  // (ii): ν = 1, σ_t² = κV_t, by the private objective
};
Vec PrintedRadii(View steps, double mu);  // Δ_t/Δ_0
Vec PrintedLogLevels(Ef21Noise, View steps, double mu, double q);  // log ν_t

// ---- What noise leaves behind: E‖x − x*‖² in the end, on a quadratic with curvature mu_f of n clients.

// Mirrored state: the next difference takes the noise back, and only the last rounds count. With
// q_t = (1 − γμ_f)^{2(T−1−t)} and the split that suits it: Δ²d/(nμ_f²μ²).
double MirroredFloor(double sensitivity, double dim, double clients, double mu_f, Mu);
// Private state with radii: all noise stays on the server, 4d(ΣC)²/(nμ_f²μ²).
double PrivateFloor(double sum_of_radii, double dim, double clients, double mu_f, Mu);
// The same from the variances of a client's messages: dΣσ²/(nμ_f²). Of DPd-EF21 as printed too, and of
// DPd-EF21-2 as printed where C keeps every coordinate; a C that leaves coordinates out, their noise too.
double AccumulatedFloor(double sum_of_variances, double dim, double clients, double mu_f);

// ---- Why a variance must not depend on data: N(0, I_d) and N(0, ratio·I_d) are told apart by their lengths.
// The least δ at which the two are (ε, δ)-close, in the worse direction; at ε = 0 their total variation.
double VarianceLeak(double dim, double ratio, double epsilon);

}  // namespace tacit
