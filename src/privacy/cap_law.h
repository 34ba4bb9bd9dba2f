#pragma once

// The cosine t = ⟨V, u⟩ of a uniform unit vector V ∈ ℝᵈ and a fixed one, inside and outside the cap {t ≥ γ}.
//
// With a = (d − 1)/2, (1 + t)/2 ~ Beta(a, a): t has the density c_d (1 − t²)^{a−1}, c_d = Γ(d/2)/(√π Γ(a)).
// Everything follows from two numbers, evaluated in logarithms (the Beta functions themselves underflow):
//   q = P(t ≥ γ) = I_{(1−γ)/2}(a, a)         and      K = E[t; t ≥ γ] = c_d (1 − γ²)^a / (d − 1).
#include <cstdint>

#include "core/result.h"

namespace tacit {

class CapLaw {
 public:
  // d ≥ 2, 0 ≤ γ < 1; anything else is a programmer's error.
  CapLaw(std::uint64_t dimension, double gamma);

  double gamma() const { return gamma_; }
  double measure() const { return q_; }  // q, in [0, ½]
  double moment() const { return moment_; }  // K
  double density_constant() const { return c_d_; }

  // Quantiles of t within the cap and outside of it, for 0 < u < 1; both fall with u.
  double Inside(double u) const;
  double Outside(double u) const;

 private:
  double a_, gamma_, c_d_, q_, moment_;
};

// The γ for which PrivUnit estimates best at ε for the direction (docs/privacy.md): the root of
//   γ = m(γ) = K(γ) (e^ε − 1)/(1 + (e^ε − 1) q(γ)),
// where m(γ) is the estimator's factor. An error unless 0 < ε ≤ 100 and 2 ≤ d ≤ 10⁹.
Result<double> OptimalGamma(double epsilon, std::uint64_t dimension);

}  // namespace tacit
