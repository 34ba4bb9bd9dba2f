// EXPECT: Map: post-processing may not read a Private value
// Post-processing of a release is free only as long as no data enters again.
#include "core/private.h"

using tacit::Private, tacit::Public, tacit::Released;

Released<double> Use(const Released<double>& r, const Private<double>& secret, const Public<double>& step) {
#if MUST_FAIL
  static_cast<void>(step);
  return r.Map<[](double x, const Private<double>&) { return x; }>(secret);
#else
  static_cast<void>(secret);
  return r.Map<[](double x, double s) { return s * x; }>(*step);
#endif
}
