#pragma once

// What a release costs, as a value: enough for an accountant to charge it correctly without knowing
// the code that made it. A change to what an event means is a new event, never an edited one.
#include <string>
#include <variant>

#include "core/units.h"

namespace tacit {

// N(F(D), σ²I) with ‖F(D) − F(D′)‖ ≤ sensitivity for all neighbours: μ-Gaussian-DP with
// μ = sensitivity/σ, rounded up. The sensitivity already pays for floating-point sums and the lattice.
struct GaussianEvent {
  Mu mu;
  L2Bound sensitivity;
  NoiseStd sigma;
};

// Nothing is promised: costs ∞, and every finite budget refuses it.
struct NonPrivateEvent {};

using PrivacyEvent = std::variant<GaussianEvent, NonPrivateEvent>;

// μ² of the event; ∞ for NonPrivateEvent. Gaussian events compose exactly by adding it.
MuSquared Cost(const PrivacyEvent&);

// What a paper says of a release, recorded beside what can be proved.
struct Claim {
  std::string source;          // paper and equation
  Epsilon epsilon;             // of the whole run
  Delta delta;
};

}  // namespace tacit
