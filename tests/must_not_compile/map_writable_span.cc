// EXPECT: Map: pass inputs by value or const&
// A writable span is a place outside the result; a view is not.
#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Span, tacit::Vec, tacit::View;

void Use(const Private<Vec>& p, Span out) {
#if MUST_FAIL
  static_cast<void>(p.Map<[](const Vec& v, Span o) { return o[0] = v[0]; }>(out));
#else
  static_cast<void>(p.Map<[](const Vec& v, View o) { return o[0] * v[0]; }>(View(out)));
#endif
}
