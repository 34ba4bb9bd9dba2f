#pragma once

// A LocalRandomizer for a whole run: T vectors of one client under one (ε, δ), or as a paper states it.
#include <cstdint>

#include "privacy/accountant.h"
#include "privacy/local_randomizer.h"

namespace tacit {

// All releases of one client, two events a vector: PrivUnit and ScalarDP.
Result<Accountant> AccountOf(const LocalRandomizer&, Adjacency, std::uint64_t vectors);

// The randomizer with the largest ε a vector whose T-fold account keeps (ε, δ), of which the part
// length_share goes to the length (in [0.01, 0.99]) and the rest to the direction, with the best cap for it.
// length_share = 0: whichever of 1/16 … 15/16 makes E‖c‖² smallest for a vector as long as the clip, judged
// by the larger of two simple bounds on what a vector may cost: ε/T, and its Gaussian-DP cost.
Result<LocalRandomizer> CalibrateRandomizer(Epsilon, Delta, Adjacency, std::uint64_t vectors,
                                            std::size_t dimension, L2Bound clip, double length_share);

// ε₀ and ε₁ for the direction, ε₂ for the length; the cap by the printed rule for γ, or the best one with the
// same ε₀ + ε₁ (priv_unit.h).
struct RandomizerSplit {
  Epsilon probability, cap, length;
};
Result<LocalRandomizer> StatedRandomizer(const RandomizerSplit&, bool printed_cap, std::size_t dimension,
                                         L2Bound clip);

}  // namespace tacit
