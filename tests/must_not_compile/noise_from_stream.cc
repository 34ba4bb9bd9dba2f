// EXPECT: invalid initialization of reference of type 'tacit::NoiseRng&'|no known conversion from 'tacit::Stream' to 'tacit::NoiseRng
// A reproducible stream, of minibatches say, can never be spent on privacy.
#include <cstdint>

#include "core/rng.h"

std::uint64_t Draw(tacit::NoiseRng& rng) { return rng.Bits(); }

std::uint64_t Use() {
#if MUST_FAIL
  tacit::Stream rng({.seed = 1});
#else
  tacit::NoiseRng rng = tacit::NoiseRng::Replayable({.seed = 1});
#endif
  return Draw(rng);
}
