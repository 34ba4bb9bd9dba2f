#pragma once

// The public part of the objective: a smooth ridge (l2/2)‖x‖² that goes with the gradient, and a
// possibly nonsmooth g that goes with its prox.
//
//   none     g = 0
//   l1       g(x) = Σ_j ω_j |x_j|
//   l1_box   the same on [−α, α]^d, ∞ elsewhere
//   box      0 on [−α, α]^d, ∞ elsewhere
//   l2_ball  0 on ‖x‖ ≤ α, ∞ elsewhere
#include <limits>
#include <memory>
#include <optional>
#include <string>

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
  // outside the domain. (For the ball: of −gradient from its Euclidean projection. A point within
  // rounding of the sphere counts as on it.)
  virtual double Residual(View x, View gradient) const = 0;
  virtual std::optional<SeparableForm> Separable() const { return std::nullopt; }
};

enum class Penalty { kNone, kL1, kL1Box, kBox, kL2Ball };
struct PenaltyOptions {
  Penalty name = Penalty::kNone;
  double weight = 0.0;         // ω of l1
  double radius = 10.0;        // α of a box [−α, α]^d, or the radius of the ball
  Vec weights = {};      // one ω per coordinate, as many as x has; empty: weight everywhere
};
// Every number is checked, used by the penalty or not.
Result<std::unique_ptr<Regularizer>> MakeRegularizer(const PenaltyOptions&);

}  // namespace tacit
