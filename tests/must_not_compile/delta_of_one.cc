// EXPECT: call to non-'constexpr' function 'void tacit::OutOfRange|non-constexpr function 'OutOfRange' cannot be used
// δ = 1 promises nothing, so it is no δ.
#include "core/units.h"

double Use() {
#if MUST_FAIL
  return tacit::Delta{1.0}.value();
#else
  return tacit::Delta{1e-5}.value();
#endif
}
