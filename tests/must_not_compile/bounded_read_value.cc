// EXPECT: ::value_' is private within this context|'value_' is a private member
// A bounded value is still private.
#include "privacy/bounded.h"

double Use(const tacit::Bounded& v) {
#if MUST_FAIL
  return v.value_[0];
#else
  return v.bound().value();
#endif
}
