// EXPECT: use of deleted function 'tacit::NoiseRng::NoiseRng\(const|copy constructor\) has been implicitly deleted
// Two copies of a generator would draw the same noise twice, and two releases would cancel it.
#include <utility>

#include "core/rng.h"

tacit::NoiseRng Use(tacit::NoiseRng& rng) {
#if MUST_FAIL
  return tacit::NoiseRng(rng);
#else
  return tacit::NoiseRng(std::move(rng));
#endif
}
