// EXPECT: Cannot format an argument
// No log line, error message or report can contain a private value; a public one can.
#include <fmt/format.h>

#include <string>

#include "core/private.h"

std::string Use(const tacit::Private<double>& secret, const tacit::Public<double>& open) {
#if MUST_FAIL
  static_cast<void>(open);
  return fmt::format("{}", secret);
#else
  static_cast<void>(secret);
  return fmt::format("{}", *open);
#endif
}
