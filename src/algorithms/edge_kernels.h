#pragma once

// The loops of the consensus ADMM over coordinates: short, and made by every peer in every round. All
// arguments of a call have one length, and none that is written overlaps another.
#include "core/vec.h"

namespace tacit {

// λ ← λ + step·(w − other),  pull ← pull + ρ(w + other) − λ
void AddEdge(double rho, double step, View w, View other, Span lambda, Span pull);
// out ← a·w + pull − b·sum
void Combine(double a, View w, View pull, double b, View sum, Span out);
// x ← a·x
void Times(double a, Span x);

}  // namespace tacit
