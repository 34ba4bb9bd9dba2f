// EXPECT: kAllMayTravel<.* evaluated to '?false
// Nor can such a number: a field says that it is public, or that it was paid for.
#include <tuple>

#include "core/private.h"
#include "core/vec.h"
#include "wire/message.h"

struct Up {
#if MUST_FAIL
  double g = 0;
#else
  tacit::Released<tacit::Vec> g;
#endif
  auto Fields() { return std::tie(g); }
};

std::size_t Use(Up& up) { return tacit::WireSize(up); }
