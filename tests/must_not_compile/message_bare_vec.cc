// EXPECT: kAllMayTravel<.* evaluated to '?false
// Nor can a vector of which nobody knows where it came from.
#include <tuple>

#include "core/private.h"
#include "core/vec.h"
#include "wire/message.h"

struct Up {
#if MUST_FAIL
  tacit::Vec g;
#else
  tacit::Released<tacit::Vec> g;
#endif
  auto Fields() { return std::tie(g); }
};

std::size_t Use(Up& up) { return tacit::WireSize(up); }
