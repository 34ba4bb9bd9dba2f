// EXPECT: no match for 'operator<<'|invalid operands to binary expression
// The same for streams.
#include <ostream>

#include "core/private.h"

void Use(std::ostream& out, const tacit::Private<double>& secret, const tacit::Public<double>& open) {
#if MUST_FAIL
  static_cast<void>(open);
  out << secret;
#else
  static_cast<void>(secret);
  out << *open;
#endif
}
