// EXPECT: cannot convert 'tacit::Stream' to 'tacit::NoiseRng&'|'NoiseRng' cannot bind to a value of unrelated type 'Stream'
// A direction cannot be randomised from a reproducible stream.
#include "privacy/local_randomizer.h"

using namespace tacit;

Status Use(const LocalRandomizer& r, const Bounded& v, Ledger& ledger, Stream& stream, NoiseRng& rng,
           PrivUnitSpace& space, Released<std::uint32_t>& level, Released<GridVec>& out) {
#if MUST_FAIL
  static_cast<void>(rng);
  return r.Release(v, ledger, stream, space, level, out);
#else
  static_cast<void>(stream);
  return r.Release(v, ledger, rng, space, level, out);
#endif
}
