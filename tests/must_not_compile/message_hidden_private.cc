// EXPECT: kAllMayTravel<.* evaluated to '?false
// A container does not smuggle a private value: its bytes would be on the wire.
#include <tuple>
#include <vector>

#include "core/private.h"
#include "wire/message.h"

struct Up {
#if MUST_FAIL
  tacit::Public<std::vector<tacit::Private<double>>> g;
#else
  tacit::Public<std::vector<double>> g;
#endif
  auto Fields() { return std::tie(g); }
};

std::size_t Use(Up& up) { return tacit::WireSize(up); }
