// EXPECT: 'input' is not a constant expression|call to consteval function .* is not a constant expression
// A value known only at run time enters through Of, which checks it.
#include "core/units.h"

tacit::Result<tacit::L2Bound> Use(double input) {
#if MUST_FAIL
  return tacit::L2Bound{input};
#else
  return tacit::L2Bound::Of(input);
#endif
}
