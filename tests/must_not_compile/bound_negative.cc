// EXPECT: call to non-'constexpr' function 'void tacit::OutOfRange|non-constexpr function 'OutOfRange' cannot be used
// A literal out of range is refused by the compiler.
#include "core/units.h"

double Use() {
#if MUST_FAIL
  return tacit::L2Bound{-1.0}.value();
#else
  return tacit::L2Bound{1.0}.value();
#endif
}
