#pragma once

// What an account means to others: to groups, to a test that tells neighbours apart, and to someone who holds
// beliefs. Every figure is on the safe side, rounding included. Proofs: docs/accounting.md.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/result.h"
#include "privacy/accountant.h"

namespace tacit {

// δ(ε) of groups of at most `size` units: data sets that `size` steps between neighbours connect.
//
// Events whose sensitivity is known are charged `size` times of it: Gaussian noise gμ, which is exact,
// Laplace and discrete noise likewise, ε-DP gε, ρ-zCDP g²ρ, (ε, δ)-DP (gε, δ(e^{gε} − 1)/(e^ε − 1)). With
// sampled releases or Rényi curves the same last rule is applied to the curve of the whole account, which is
// optimised over ε; for sampled ones the account without sampling is tried too, and the smaller one counts.
class PrivacyCurve {
 public:
  static Result<PrivacyCurve> Of(const Accountant&, std::uint32_t size = 1);

  // The lower ends are those of a single unit, unless everything is Gaussian.
  Result<Bracket> EpsilonAt(Delta) const;
  Result<Bracket> DeltaAt(Epsilon) const;
  std::function<double(double)> CurveNear(Delta) const;  // as the accountant's

  std::uint32_t size() const { return size_; }
  std::optional<Mu> gaussian() const {
    return gaussian_;
  }  // if all releases are Gaussian: their μ, rounded up

 private:
  explicit PrivacyCurve(const Accountant& single) : single_(single) {}
  // The curve of one unit near the ε that the group's δ asks for.
  std::function<double(double)> OneUnitNear(double delta) const;

  std::uint32_t size_ = 1;
  Accountant single_;
  std::optional<Accountant> grouped_;
  bool exact_ = false;  // grouped_ is all there is to say
  std::optional<Mu> gaussian_;
};

// The least β = 1 − power of any test at the level α that tells two neighbours apart: at least
//   sup_ε max(0, 1 − δ(ε) − e^ε α, e^{−ε}(1 − δ(ε) − α))
// (Wasserman, Zhou 2010; Dong, Roth, Su 2022), Φ(Φ⁻¹(1 − α) − μ) where everything is Gaussian. For each α in
// [0, 1], rounded down. An attacker's true-positive rate at the false-positive rate α is at most 1 − β.
Result<std::vector<double>> TradeOff(const PrivacyCurve&, std::span<const double> alphas);

// Someone who knows everything but which of two neighbours the data are, and believes in one with `prior`.
struct Belief {
  // With probability at least 1 − δ over the output, whichever of the two the data are, the belief after
  // seeing it is at most this.
  double posterior = 0;
  double success = 0;  // the probability that the best guess is right, at most
  double advantage = 0;  // true- less false-positive rate of any test, at most: δ(0)
};
Result<Belief> BeliefAfter(const PrivacyCurve&, Probability prior, Delta);

}  // namespace tacit
