#pragma once

// Standard normal deviates in double precision.
#include <span>

#include "core/rng.h"

namespace tacit {

// Fills out with independent deviates, one 64-bit word each by inversion: out[i] is within 2^-42 of
// Φ⁻¹ of its uniform number. The result is a function of the generator's state and out.size(), the
// same on every processor.
//
// Two deviates this close to each other cannot be told from the ideal ones by their law, but their
// low bits are those of floating-point arithmetic and can betray what they are added to (Mironov,
// CCS 2012): for a guarantee on the bits released use LatticeNormals.
void FloatNormals(NoiseRng&, std::span<double> out);

}  // namespace tacit
