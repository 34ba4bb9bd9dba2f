// EXPECT: pass inputs by value or const&
// A span is a door: what it points at could be written to.
#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Vec;

void Use(Private<Vec>& p, tacit::Span door) {
  Private<Vec> out;
#if MUST_FAIL
  p.MoveInto<[](Vec& v, Vec& o, const tacit::Span& to) { o.swap(v), to[0] = o[0]; }>(out, door);
#else
  p.MoveInto<[](Vec& v, Vec& o, const tacit::View& from) { o.swap(v), o[0] = from[0]; }>(out,
                                                                                         tacit::View(door));
#endif
}
