#pragma once

// ScalarDP (Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018): a private length r ∈ [0, C].
//
// r is rounded at random to one of k + 1 levels, J ∈ {⌊kr/C⌋, ⌈kr/C⌉} with E[J] = kr/C, k = ⌈e^{ε/3}⌉; then
// randomised response: with probability κ the level Ĵ is J, otherwise uniform on {0, …, k}. With
// κ = (e^ε − 1)/(e^ε + k) that is P(Ĵ = J) = e^ε/(e^ε + k) and 1/(e^ε + k) for each other level. Ĵ is what is
// sent.
//
// Exactness. κ is rounded down to a multiple of 2⁻⁶⁴ and compared with 64 random bits; the uniform level is
// drawn without modulo bias. So each level has exactly its probability, and the ratio P(Ĵ = j | J)/P(Ĵ = j |
// J′) ≤ 1 + κ(k + 1)/(1 − κ) ≤ e^ε holds as it stands. The rounding of r to J is done with the data's side of
// that: its error (at most 2⁻⁵⁰ C) is one of accuracy only.
//
// Estimates, with the κ really used, so that they have no bias from it:
//   r̂ = (C/k)(Ĵ − (1 − κ)k/2)/κ = a(Ĵ − b),         E[r̂] = r,
//   ŝ = (C/k)² ((Ĵ² − (1 − κ)k(2k + 1)/6)/κ − ¼),   E[ŝ] = r² − (C/k)²(¼ − f(1 − f)), f the fraction of kr/C,
// so ŝ is in the mean between r² − C²/(4k²) and r². No function of Ĵ is unbiased for r²: every E[h(Ĵ)] is
// piecewise linear in r. ŝ equals Algorithm 5 of fedexp (Takakura, Liew, Hasegawa 2025) without its test
// whether a floating-point number is whole.
#include <cstdint>

#include "core/rng.h"
#include "privacy/event.h"

namespace tacit {

// Public numbers and a sampler; immutable, so thread-safe.
class ScalarDp {
 public:
  // An error unless 1e-6 ≤ ε ≤ 60.
  static Result<ScalarDp> Make(Epsilon, L2Bound largest);

  // Ĵ for the length r. NaN and negative numbers count as 0, what is longer than C as C.
  std::uint32_t Sample(double r, NoiseRng&) const;

  // Of a level; one above k (a sender may claim anything) counts as k.
  double Estimate(std::uint32_t level) const;  // r̂
  double SquareEstimate(std::uint32_t level) const;  // ŝ
  // The same of many senders at once: both are affine, r̂ in Ĵ and ŝ in Ĵ², so means of them suffice.
  double MeanSquareEstimate(double mean_squared_level) const;

  std::uint32_t k() const { return k_; }
  double a() const { return a_; }
  double b() const { return b_; }
  L2Bound largest() const { return largest_; }
  // The exact law: P(Ĵ = J by design) = keep()·2⁻⁶⁴, otherwise uniform on the k + 1 levels.
  std::uint64_t keep() const { return keep_; }
  // Var r̂ for the length r.
  double Variance(double r) const;
  std::uint64_t bits() const;  // ⌈log₂(k + 1)⌉
  ScalarDpEvent event() const { return {epsilon_}; }

 private:
  ScalarDp(Epsilon epsilon, L2Bound largest) : epsilon_(epsilon), largest_(largest) {}
  double Scaled(double r) const;  // kr/C, in [0, k]
  Epsilon epsilon_;
  L2Bound largest_;
  std::uint32_t k_ = 1;
  std::uint64_t keep_ = 0;
  double kappa_ = 0, blur_ = 0;  // κ and 1 − κ
  double a_ = 0, b_ = 0;
};

}  // namespace tacit
