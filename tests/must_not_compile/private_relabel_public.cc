// EXPECT: a Private value cannot be relabelled Public
// Public is for what never touched anyone's data; wrapping is not laundering.
#include "core/private.h"

using tacit::Private, tacit::Public;

void Use(const Private<double>& p) {
#if MUST_FAIL
  const Public<Private<double>> relabelled{p};
  static_cast<void>(relabelled);
#else
  const Public<double> constant{0.5};
  static_cast<void>(p.Map<[](double x, double c) { return c * x; }>(*constant));
#endif
}
