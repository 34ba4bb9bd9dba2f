// EXPECT: kAllMayTravel<.* evaluated to '?false
// A pointer says nothing to the other side, and may point at anything.
#include <tuple>

#include "core/private.h"
#include "wire/message.h"

struct Up {
#if MUST_FAIL
  tacit::Public<const double*> g;
#else
  tacit::Public<double> g;
#endif
  auto Fields() { return std::tie(g); }
};

std::size_t Use(Up& up) { return tacit::WireSize(up); }
