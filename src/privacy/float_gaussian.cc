#include "privacy/float_gaussian.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "privacy/float_gaussian_internal.h"
#include "privacy/lattice_sampler_internal.h"

namespace tacit {
namespace internal {

// Tier 1 of the lattice sampler, unrounded. Its table ends at m = 2^44, p = 2^-20; what lies further
// out takes a second word, so that the tail has the resolution of a double too.
void FloatNormalsBy(Simd simd, NoiseRng& rng, std::span<double> out) {
  RequireRoundingToNearest();
  while (!out.empty()) {
    const std::span<double> block = out.first(std::min(out.size(), kKernelBlock));
    std::uint64_t words[kKernelBlock];
    std::uint32_t undecided[kKernelBlock];
    rng.Fill({words, block.size()});
    const std::size_t n = RealNormals(simd, {words, block.size()}, block.data(), undecided);
    for (std::size_t j = 0; j < n; ++j) block[undecided[j]] = TailNormal(words[undecided[j]], rng.Bits());
    out = out.subspan(block.size());
  }
}

}  // namespace internal

void FloatNormals(NoiseRng& rng, std::span<double> out) {
  internal::FloatNormalsBy(internal::SimdInUse(), rng, out);
}

}  // namespace tacit
