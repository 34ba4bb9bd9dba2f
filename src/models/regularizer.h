#pragma once

// The public part of the objective: a smooth ridge (l2/2)‖x‖² that goes with the gradient, and a
// possibly nonsmooth g that goes with its prox.
#include <limits>
#include <memory>
#include <string>

#include "core/result.h"
#include "core/vec.h"

namespace tacit {

// g: closed, convex. Thread-safe.
class Regularizer {
 public:
  virtual ~Regularizer() = default;
  virtual double Value(View x) const = 0;                     // ∞ outside the domain
  virtual void Prox(double step, Span x) const = 0;           // x ← argmin_u step·g(u) + ½‖u − x‖²
  // sup ‖x‖ over the domain of g; ∞ if unbounded. Geometric noise needs a bounded domain.
  virtual double DomainRadius(std::size_t dim) const = 0;
  // Distance of −gradient from the subdifferential of g at x, in the max norm: 0 iff x is optimal.
  virtual double Residual(View x, View gradient) const = 0;
};

enum class Penalty { kNone, kL1, kL1Box, kBox, kL2Ball };
struct PenaltyOptions {
  Penalty name = Penalty::kNone;
  double weight = 0.0;         // ω of l1
  double radius = 10.0;        // α of a box [−α, α]^d, or the radius of the ball
  Vec weights;                 // one ω per coordinate; empty: weight everywhere
};
Result<std::unique_ptr<Regularizer>> MakeRegularizer(const PenaltyOptions&);

}  // namespace tacit
