#pragma once

#include <span>

#include "core/rng.h"
#include "privacy/lattice_sampler_kernels.h"

namespace tacit::internal {

// FloatNormals by a kernel of choice, which the processor must have.
void FloatNormalsBy(Simd, NoiseRng&, std::span<double> out);

}  // namespace tacit::internal
