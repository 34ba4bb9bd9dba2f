// EXPECT: a Private value owns what it holds
// A pointer labelled Private would be opened for the function, which writes through it.
#include "core/private.h"

using tacit::Private;

void Use(const Private<double>& p) {
#if MUST_FAIL
  double out = 0;
  static_cast<void>(p.Map<[](double v, double* o) { return *o = v; }>(Private<double*>(&out)));
#else
  static_cast<void>(p.Map<[](double v, double o) { return v + o; }>(Private<double>(1)));
#endif
}
