// EXPECT: could not convert '1.0e\+0' from 'double' to 'tacit::L2Bound'|no known conversion from 'double' to 'tacit::L2Bound'
// A number becomes a bound only where it is called one.
#include "core/units.h"

double Use(tacit::L2Bound bound) { return bound.value(); }

double Call() {
#if MUST_FAIL
  return Use(1.0);
#else
  return Use(tacit::L2Bound{1.0});
#endif
}
