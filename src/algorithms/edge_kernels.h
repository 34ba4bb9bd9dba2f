#pragma once

// The loops of the consensus ADMM over coordinates: short, and made by every peer in every round. All
// arguments of a call have one length, and none that is written overlaps another.
#include <span>

#include "core/vec.h"

namespace tacit {

// An edge as one of its ends sees it: what the other end has sent, and the edge's multiplier.
struct EdgeEnd {
  const double* other;
  double* lambda;
  double step;
};
// λ_i ← λ_i + step_i·(own − other_i),  pull ← pull + ρ(own + other_i) − λ_i, edge after edge, with pull from
// 0 on if `begin`; and w ← own, which may be w itself.
void AddEdges(double rho, std::span<const EdgeEnd> edges, View own, bool begin, Span w, Span pull);
// out ← a·w + pull − b·sum
void Combine(double a, View w, View pull, double b, View sum, Span out);
// x ← a·x
void Times(double a, Span x);

}  // namespace tacit
