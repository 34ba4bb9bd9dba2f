// EXPECT: no match for 'operator\+'|invalid operands to binary expression
// Bounds do not compose by adding; neither does μ, whose squares do.
#include "core/units.h"

double Use(tacit::L2Bound a, tacit::L2Bound b) {
#if MUST_FAIL
  return (a + b).value();
#else
  return a < b ? a.value() : b.value();
#endif
}
