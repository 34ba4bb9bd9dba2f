#pragma once

// What a release costs, as a value: enough for an accountant to charge it correctly without knowing
// the code that made it. A change to what an event means is a new event, never an edited one.
//
// Sensitivities are those of the adjacency that the ledger or accountant is made for; an event cannot tell,
// so whoever makes one must. How each becomes a privacy loss is in docs/accounting.md.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/units.h"

namespace tacit {

// N(F(D), σ²I) with ‖F(D) − F(D′)‖ ≤ sensitivity for all neighbours: μ-Gaussian-DP with
// μ = sensitivity/σ, rounded up. The sensitivity already pays for floating-point sums and the lattice.
struct GaussianEvent {
  Mu mu;
  L2Bound sensitivity;
  NoiseStd sigma;
};

// Several values released together, with independent Gaussian noise of different sizes: μ is the largest
// Mahalanobis distance √(Σ_k ‖F_k(D) − F_k(D′)‖²/σ_k²) between neighbours, which may be less than the root of
// the sum of the largest terms.
struct JointGaussianEvent {
  Mu mu;
};

// Discrete Gaussian noise on the integers, parameter σ (in lattice steps), on `dimension` coordinates whose
// ℓ₂ sensitivity is a whole number of steps or less. Exact for one coordinate; for more the accountant knows
// ρ = sensitivity²/(2σ²)-zCDP (Canonne, Kamath, Steinke 2020).
struct DiscreteGaussianEvent {
  NoiseStd sigma;
  std::uint32_t sensitivity = 1;
  std::uint32_t dimension = 1;
};

// The sum of the discrete Gaussians of `clients` clients, each with parameter σ ≥ ½ (in lattice steps), on
// `dimension` coordinates of ℓ₂ sensitivity Δ: ρ-zCDP with ρ = ½(Δ/(√n σ) + τ√d)²,
// τ = 10 Σ_{k<n} exp(−2π²σ² k/(k + 1))  (Kairouz, Liu, Steinke 2021).
struct DistributedDiscreteGaussianEvent {
  NoiseStd sigma;
  std::uint64_t clients = 1;
  L2Bound sensitivity;
  std::uint64_t dimension = 1;
};

// Laplace noise of scale b on a number of sensitivity Δ; epsilon = Δ/b.
struct LaplaceEvent {
  Epsilon epsilon;
};

// Noise on the integers with P(k) ∝ e^{−|k|·epsilon_per_step}, on a number that moves by at most
// `sensitivity` steps.
struct DiscreteLaplaceEvent {
  Epsilon epsilon_per_step;
  std::uint32_t sensitivity = 1;
};

// One of `categories` values, the true one with probability e^ε/(e^ε + categories − 1), else any other.
struct RandomizedResponseEvent {
  Epsilon epsilon;
  std::uint64_t categories = 2;
};

// A unit vector, uniform on the cap of measure q around the true one with probability p, else on the rest
// (Bhowmick et al. 2018): e^ε = p(1 − q)/((1 − p) q), 0 < q ≤ ½. See OptimalPrivUnit.
struct PrivUnitEvent {
  Probability p, q;
};

// A number in [0, C], rounded at random to one of k + 1 = ⌈e^{ε/3}⌉ + 1 levels, then randomised response.
struct ScalarDpEvent {
  Epsilon epsilon;
};

struct PureEvent {  // anything that is ε-DP
  Epsilon epsilon;
};
struct ApproximateEvent {  // anything that is (ε, δ)-DP
  Epsilon epsilon;
  Delta delta;
};
struct ZcdpEvent {  // anything that is ρ-zCDP
  Rho rho;
};

// Anything with Rényi divergences of at most these between neighbours, in both directions: a curve that was
// computed elsewhere. Nothing is assumed of other orders but what follows: see renyi.h.
struct RenyiEvent {
  struct Point {
    double order;  // above 1, rising
    Epsilon epsilon;  // D_order(P‖Q) at most
  };
  std::vector<Point> curve;
};

// Gaussian noise on the sum over a secret sample that takes each unit with probability `rate`, anew in each
// round. μ = Δ/σ. Under add-remove and zero-out Δ bounds the norm of a unit's value. Under replace-one Δ must
// bound both the norm of a value and the distance of two, as 2C does for a sum clipped at C: a value is also
// told apart from its absence. The distance alone is not enough: of values in [c, c + 1] with a large c
// whoever is sampled is seen, and sampling gives nothing in ε (docs/accounting.md).
struct PoissonGaussianEvent {
  Probability rate;
  Mu mu;
};

// Gaussian noise on a secret sample of fixed size, `rate` of all units, drawn without replacement and anew in
// each round. μ is for substituting one sampled unit. Replace-one only.
struct FixedSizeGaussianEvent {
  Probability rate;
  Mu mu;
};

// Nothing is promised: costs ∞, and every finite budget refuses it.
struct NonPrivateEvent {};

using PrivacyEvent =
    std::variant<GaussianEvent, JointGaussianEvent, DiscreteGaussianEvent, DistributedDiscreteGaussianEvent,
                 LaplaceEvent, DiscreteLaplaceEvent, RandomizedResponseEvent, PrivUnitEvent, ScalarDpEvent,
                 PureEvent, ApproximateEvent, ZcdpEvent, PoissonGaussianEvent, FixedSizeGaussianEvent,
                 NonPrivateEvent, RenyiEvent>;

// μ² of a Gaussian-DP bound of the event, which adds up under adaptive composition: exact for the Gaussians;
// for ε-DP events μ = 2Φ⁻¹(e^ε/(1 + e^ε)); ∞ for events without one.
MuSquared Cost(const PrivacyEvent&);

// ρ of a zCDP bound of the event (D_α ≤ αρ for every α > 1), which adds up under adaptive composition: μ²/2
// for Gaussians, the same without regard to sampling for sampled ones, ε tanh(ε/2) for ε-DP, what the papers
// prove for discrete Gaussians; ∞ for events without one. Proofs: docs/accounting.md.
Rho ZcdpCost(const PrivacyEvent&);

// The ε of events that are ε-DP, rounded up; ∞ for the others.
Epsilon PureCost(const PrivacyEvent&);

// PrivUnit with the cap that estimates best at ε for the direction: with t = ⟨V, u⟩, (1 + t)/2 ~ Beta(a, a),
// a = (d − 1)/2, the cap {t ≥ γ} where γ equals the estimator's factor
//   m(γ) = c_d (1 − γ²)^a/(d − 1) · (e^ε − 1)/(1 + (e^ε − 1) q(γ)),   c_d = Γ(d/2)/(√π Γ(a)).
// An error unless d ≥ 2 and 0 < ε ≤ 100.
Result<PrivUnitEvent> OptimalPrivUnit(Epsilon direction, std::uint64_t dimension);
double ScalarDpSteps(Epsilon);  // k = ⌈e^{ε/3}⌉: the levels of ScalarDP are 0 … k
double EpsilonOf(const PrivUnitEvent&);  // ln p(1 − q)/((1 − p) q), rounded up

// What a paper says of a release, recorded beside what can be proved.
struct Claim {
  std::string source;  // paper and equation
  Epsilon epsilon;  // of the whole run
  Delta delta;
};

}  // namespace tacit
