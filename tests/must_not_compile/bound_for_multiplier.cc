// EXPECT: could not convert 'bound' from 'Unit<tacit::L2BoundTag>'|no known conversion from 'Unit<L2BoundTag>'
// Two units are two types: a bound is not a noise multiplier.
#include "core/units.h"

double Use(tacit::NoiseMultiplier z) { return z.value(); }

double Call(tacit::L2Bound bound, tacit::NoiseMultiplier z) {
#if MUST_FAIL
  static_cast<void>(z);
  return Use(bound);
#else
  static_cast<void>(bound);
  return Use(z);
#endif
}
