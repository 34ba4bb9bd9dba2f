#pragma once

// The way there through a stage that ends with a maximum, for processors with AVX-512: eight places of a row
// side by side. Every sum has the terms of convolution.h in the same order, so the bits are the same.
#include "models/convolution.h"

namespace tacit::internal {

// ConvolveAndPool for a stage with wide = true.
void WideConvolveAndPool(const Stage&, const double* in, const double* packed, const BitWord* nonzero,
                         double* out, Place* place);
// NonZeroBits.
std::size_t WideNonZeroBits(const double* in, std::size_t size, BitWord* nonzero);

}  // namespace tacit::internal
