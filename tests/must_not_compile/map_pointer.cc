// EXPECT: Map: pass inputs by value or const&
// A pointer is a place outside the result.
#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Vec;

void Use(const Private<Vec>& p) {
#if MUST_FAIL
  Vec out;
  static_cast<void>(p.Map<[](const Vec& v, Vec* o) { return *o = v, 0; }>(&out));
#else
  static_cast<void>(p.Map<[](const Vec& v, const Vec& w) { return tacit::Dot(v, w); }>(Vec{1, 2}));
#endif
}
