// EXPECT: ::value_' is private within this context|'value_' is a private member
// A sum of masked shares opens at a SecureSum, which refuses those of too few clients.
#include "privacy/secure_sum.h"

double Use(const tacit::SecureSum& sum, const tacit::MaskedTotal& total) {
#if MUST_FAIL
  return static_cast<double>(total.value_[0]) * sum.grid();
#else
  tacit::Released<tacit::Vec> out;
  return sum.Open(total, out).ok() ? (*out)[0] : 0;
#endif
}
