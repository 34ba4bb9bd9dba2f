// EXPECT: no match for 'operator<'|invalid operands to binary expression
// A comparison is a branch in waiting.
#include "core/private.h"

tacit::Private<bool> Use(const tacit::Private<double>& a, const tacit::Private<double>& b) {
#if MUST_FAIL
  return tacit::Private<bool>(a < b);
#else
  return a.Map<[](double x, double y) { return x < y; }>(b);
#endif
}
