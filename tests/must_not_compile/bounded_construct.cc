// EXPECT: tacit::Bounded::Bounded\(.*is private within this context|calling a private constructor of class 'tacit::Bounded'
// Nobody can assert a bound: clipping proves it.
#include "privacy/bounded.h"

using namespace tacit;

Bounded Use(Private<Vec>& v, Span raw) {
#if MUST_FAIL
  static_cast<void>(v);
  return Bounded(raw, L2Bound{1.0}, 1, 1);
#else
  static_cast<void>(raw);
  return Bounded::Clip(v, L2Bound{1.0});
#endif
}
