// EXPECT: kAllMayTravel<.* evaluated to '?false
// A private value cannot travel.
#include <tuple>

#include "core/private.h"
#include "core/vec.h"
#include "wire/message.h"

struct Up {
#if MUST_FAIL
  tacit::Private<tacit::Vec> g;
#else
  tacit::Released<tacit::Vec> g;
#endif
  auto Fields() { return std::tie(g); }
};

std::size_t Use(Up& up) { return tacit::WireSize(up); }
