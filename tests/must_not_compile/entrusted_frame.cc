// EXPECT: no match for .operator\*|indirection requires pointer operand
// What clients entrust to a server does not travel in a message: it needs a ServerTrust of its own.
#include "wire/frame.h"

struct Sent {
  tacit::Entrusted update;
  tacit::Public<double> plain;
  auto Fields() {
#if MUST_FAIL
    return std::tie(update);
#else
    return std::tie(plain);
#endif
  }
};

std::size_t Use(Sent& m) { return tacit::Codec::Encode(m).size(); }
