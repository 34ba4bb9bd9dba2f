// EXPECT: cannot convert 'const tacit::Private<.*' to 'tacit::View'|no viable conversion from 'const Private<Vec>' .* to 'View'
// PrivUnit's sampler takes plain vectors: a private direction goes through LocalRandomizer, which pays first.
#include "core/private.h"
#include "privacy/priv_unit.h"

using namespace tacit;

void Use(const PrivUnit& unit, const Private<Vec>& direction, View known, NoiseRng& rng, PrivUnitSpace& space,
         std::vector<std::int32_t>& out) {
#if MUST_FAIL
  static_cast<void>(known);
  unit.Sample(direction, rng, space, out);
#else
  static_cast<void>(direction);
  unit.Sample(known, rng, space, out);
#endif
}
