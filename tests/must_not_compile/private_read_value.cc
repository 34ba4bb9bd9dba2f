// EXPECT: ::value_' is private within this context|'value_' is a private member
// What is computed from someone's data cannot be read, only computed with.
#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Vec;

Private<double> Use(const Private<Vec>& p) {
#if MUST_FAIL
  return Private<double>(p.value_[0]);
#else
  return p.Map<[](const Vec& v) { return v[0]; }>();
#endif
}
