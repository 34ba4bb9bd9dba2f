// EXPECT: no matching function for call to 'tacit::Public<double>::Public|no matching conversion .* from 'const tacit::Private<double>'|no matching conversion .* from 'const Private<double>'
// There is no conversion from Private to Public either.
#include "core/private.h"

tacit::Public<double> Use(const tacit::Private<double>& p) {
#if MUST_FAIL
  return tacit::Public<double>(p);
#else
  static_cast<void>(p);
  return tacit::Public<double>(0.5);
#endif
}
