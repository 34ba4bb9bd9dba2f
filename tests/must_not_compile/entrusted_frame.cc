// EXPECT: no match for .operator\*|indirection requires pointer operand
// What clients entrust to a server has no form on the wire: it stays in the process.
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
