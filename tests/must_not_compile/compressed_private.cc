// EXPECT: no matching (member )?function for call to|cannot convert|mismatched types
// A message is compressed from what was released: a client's private state has no way into it.
#include "compress/compressor.h"
#include "core/private.h"
#include "wire/message.h"

using namespace tacit;

void Pack(const Vec& from, Encoded& to) {
  CompressSpace space;
  Compressor().Compress(from, 0, to, space);
}

void Use(const Private<Vec>& state, const Released<Vec>& sum, Released<Encoded>& message) {
#if MUST_FAIL
  static_cast<void>(sum);
  state.Into<&Pack>(message);
#else
  static_cast<void>(state);
  sum.Into<&Pack>(message);
#endif
}
