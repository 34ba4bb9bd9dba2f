// EXPECT: kAllMayTravel<.* evaluated to '?false
// A clipped update has no form on the wire; sealed and masked it has.
#include "wire/frame.h"

struct Sent {
#if MUST_FAIL
  tacit::Bounded update;
#else
  tacit::Masked update;
#endif
  auto Fields() { return std::tie(update); }
};

std::size_t Use(Sent& m) { return tacit::Codec::Encode(m).size(); }
