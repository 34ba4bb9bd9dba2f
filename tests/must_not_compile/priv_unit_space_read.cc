// EXPECT: ::u_' is private within this context|'u_' is a private member
// The scratch of PrivUnit holds the direction that nobody has paid for, and draws that were rejected for it.
#include "privacy/priv_unit.h"

using namespace tacit;

std::size_t Use(PrivUnitSpace& space) {
#if MUST_FAIL
  return space.u_.size();
#else
  static_cast<void>(space);
  return sizeof(PrivUnitSpace);
#endif
}
