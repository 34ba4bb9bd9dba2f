// EXPECT: no matching function|no match
// What clients entrust to a server leaves their machine only by their operator's word that it is trusted.
#include "wire/frame.h"

std::vector<std::byte> Use(const tacit::Entrusted& update, [[maybe_unused]] const tacit::ServerTrust& trust) {
#if MUST_FAIL
  return tacit::Codec::Encode(update, {});
#else
  return tacit::Codec::Encode(update, trust);
#endif
}
