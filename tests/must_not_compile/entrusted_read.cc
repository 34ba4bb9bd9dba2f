// EXPECT: ::value_' is private within this context|'value_' is a private member
// What clients entrust to a server can be added up, and nothing else.
#include "privacy/bounded.h"

double Use(const tacit::Entrusted& v) {
#if MUST_FAIL
  return v.value_[0];
#else
  return static_cast<double>(v.dim());
#endif
}
