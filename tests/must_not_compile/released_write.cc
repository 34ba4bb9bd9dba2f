// EXPECT: assignment of read-only location|'operator\*' returns a const value
// What was released cannot be overwritten with something that was not.
#include "core/private.h"

double Use(tacit::Released<double>& r) {
#if MUST_FAIL
  *r = 1.0;
#endif
  return *r;
}
