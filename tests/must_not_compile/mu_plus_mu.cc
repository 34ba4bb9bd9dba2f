// EXPECT: no match for 'operator\+'|invalid operands to binary expression
// Gaussian DP composes as the root of the sum of squares.
#include "core/units.h"

tacit::Mu Use(tacit::Mu a, tacit::Mu b) {
#if MUST_FAIL
  return a + b;
#else
  return tacit::Root(tacit::Squared(a) + tacit::Squared(b));
#endif
}
