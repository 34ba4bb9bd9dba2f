// EXPECT: could not convert 'p' from .* to 'bool'|not contextually convertible to 'bool'
// Control flow must not depend on a private value outside Map: the branch taken would be visible.
#include "core/private.h"

tacit::Private<int> Use(const tacit::Private<bool>& p) {
#if MUST_FAIL
  if (p) return tacit::Private<int>(1);
  return tacit::Private<int>(2);
#else
  return p.Map<[](bool b) { return b ? 1 : 2; }>();
#endif
}
