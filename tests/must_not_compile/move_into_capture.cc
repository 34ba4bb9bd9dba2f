// EXPECT: Map: the function must be a constant without state|no matching member function for call to .MoveInto
// A function with a reference of its own could put there what it takes.
#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Vec;

static Vec kept;

void Use(Private<Vec>& p) {
  Private<Vec> out;
#if MUST_FAIL
  static constexpr auto kTake = [&to = kept](Vec& v, Vec& o) { o = v, to.swap(v); };
  p.MoveInto<kTake>(out);
#else
  p.MoveInto<[](Vec& v, Vec& o) { o.swap(v); }>(out);
#endif
}
