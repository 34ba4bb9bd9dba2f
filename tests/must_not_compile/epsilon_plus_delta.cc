// EXPECT: no match for 'operator\+'|invalid operands to binary expression
// Losses add to losses of their own kind.
#include "core/units.h"

tacit::Epsilon Use(tacit::Epsilon epsilon, tacit::Delta delta) {
#if MUST_FAIL
  return epsilon + delta;
#else
  static_cast<void>(delta);
  return epsilon + epsilon;
#endif
}
