#pragma once

// The public part of the objective: a smooth ridge (l2/2)‖x‖² that goes with the gradient, and a
// possibly nonsmooth g that goes with its prox.
//
//   none     g = 0
//   l1       g(x) = Σ_j ω_j |x_j|
//   l1_box   the same on [−α, α]^d, ∞ elsewhere
//   box      0 on [−α, α]^d, ∞ elsewhere
//   l2_ball  0 on ‖x‖ ≤ α, ∞ elsewhere
//   elastic_net  Σ_j ω_j |x_j| + (λ/2)‖x‖², λ the ridge
//   l1_ball  0 on ‖x‖₁ ≤ α, ∞ elsewhere
//   simplex  0 on {x ≥ 0, Σ x_j = α}, ∞ elsewhere
//   group_lasso  Σ_G ω √|G| ‖x_G‖₂ over groups of coordinates (Yuan & Lin, 2006), or Σ_G ω_G ‖x_G‖₂
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/vec.h"

namespace tacit {

// Σ_j ω_j |x_j| on the box [−radius, radius]^d: the form of every g that splits by coordinates.
struct SeparableForm {
  double weight = 0.0;
  View weights;                // one ω per coordinate; empty: weight everywhere
  double radius = std::numeric_limits<double>::infinity();
  double omega(std::size_t j) const { return weights.empty() ? weight : weights[j]; }
};

// g: closed, convex. Thread-safe.
class Regularizer {
 public:
  virtual ~Regularizer() = default;
  virtual double Value(View x) const = 0;             // ∞ outside the domain
  virtual void Prox(double step, Span x) const = 0;   // x ← argmin_u step·g(u) + ½‖u − x‖², step ≥ 0
  // sup ‖x‖ over the domain of g, rounded up; ∞ if unbounded. Geometric noise needs a bounded domain.
  virtual double DomainRadius(std::size_t dim) const = 0;
  // Distance of −gradient from the subdifferential of g at x, in the max norm: 0 iff x is optimal, ∞
  // outside the domain. (For the ball, and for a group of zeros: of −gradient from its Euclidean
  // projection. A point within rounding of the boundary counts as on it.)
  virtual double Residual(View x, View gradient) const = 0;
  virtual std::optional<SeparableForm> Separable() const { return std::nullopt; }
  // out ← out + a·g'(x), the subgradient of least norm where g has a kink: sign(0) = 0. False, with out
  // untouched: g is infinite somewhere, and has no subgradient there.
  virtual bool AddSubgradient(double /*a*/, View /*x*/, Span /*out*/) const { return false; }
  // Whether g is smooth everywhere: then it is (c/2)‖x‖², and this is c.
  virtual std::optional<double> Ridge() const { return std::nullopt; }
};

enum class Penalty { kNone, kL1, kL1Box, kBox, kL2Ball, kElasticNet, kL1Ball, kSimplex, kGroupLasso };
struct PenaltyOptions {
  Penalty name = Penalty::kNone;
  double weight = 0.0;         // ω of l1, of elastic_net and of group_lasso
  double radius = 10.0;        // α of a box [−α, α]^d, of a ball or of the simplex
  Vec weights = {};            // one ω per coordinate (group_lasso: per group); empty: weight everywhere
  double ridge = 0.0;          // λ of elastic_net
  std::size_t group_size = 1;  // group_lasso: groups of so many neighbours, the last may be shorter
  std::vector<std::uint32_t> groups = {};   // or the group of each coordinate, 0 … K − 1, none empty
};
// Every number is checked, used by the penalty or not.
Result<std::unique_ptr<Regularizer>> MakeRegularizer(const PenaltyOptions&);

}  // namespace tacit
