// EXPECT: cannot convert 'tacit::Private<.*' to 'const tacit::Bounded&'|no viable conversion from 'Private<Vec>' .* to 'const Bounded'
// The door of PrivUnit and ScalarDP takes only what was bounded by construction.
#include "core/private.h"
#include "privacy/local_randomizer.h"

using namespace tacit;

Status Use(const LocalRandomizer& r, Private<Vec>& v, Ledger& ledger, NoiseRng& rng, PrivUnitSpace& space,
           Released<std::uint32_t>& level, Released<GridVec>& out) {
#if MUST_FAIL
  return r.Release(v, ledger, rng, space, level, out);
#else
  return r.Release(Bounded::Clip(v, L2Bound{1.0}), ledger, rng, space, level, out);
#endif
}
