#pragma once

// A Rényi curve that was computed elsewhere, as a bound of K(t) = t·D_{1+t}(P‖Q), t = order − 1 ≥ 0.
//
// K is convex with K(0) ≤ 0, so what is known at some orders bounds it between them: by the lower convex
// hull of the origin and the points (t_i, t_i ε_i). Beyond the largest order nothing is known.
#include <vector>

#include "privacy/event.h"

namespace tacit {

class RenyiCurve {
 public:
  explicit RenyiCurve(const RenyiEvent&);  // the event must pass Check()
  double At(double t) const;  // at least K(t), for t ≥ 0; ∞ beyond the largest order
  const std::vector<double>& corners() const { return t_; }  // rising; the first is 0

 private:
  std::vector<double> t_, k_;
};

// Whether the orders rise, are above 1 and finite, and there is one at least.
Status Check(const RenyiEvent&);

}  // namespace tacit
