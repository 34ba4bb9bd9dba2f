// EXPECT: ::value_' is private within this context|'value_' is a private member
// A client's share of a masked sum can be added to others, and nobody sees it alone.
#include "privacy/secure_sum.h"

double Use(const tacit::Masked& v) {
#if MUST_FAIL
  return static_cast<double>(v.value_[0]);
#else
  return static_cast<double>(v.dim());
#endif
}
