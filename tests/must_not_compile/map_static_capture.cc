// EXPECT: Map: the function must be a constant without state
// A capture of something static is a constant, so the language alone would let it pass.
#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Vec;

inline double leak = 0;
struct Writer {
  double* out;
  constexpr double operator()(double x) const { return *out = x; }
};

Private<double> Use(const Private<double>& p) {
#if MUST_FAIL
  return p.Map<Writer{&leak}>();
#else
  return p.Map<[](double x) { return 2 * x; }>();
#endif
}
