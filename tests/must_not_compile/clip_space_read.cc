// EXPECT: ::sum_' is private within this context|'sum_' is a private member
// The scratch of clipping holds sums that nobody has paid for.
#include "privacy/bounded.h"

using namespace tacit;

std::size_t Use(ClipSpace& space) {
#if MUST_FAIL
  return space.sum_.size();
#else
  static_cast<void>(space);
  return sizeof(ClipSpace);
#endif
}
