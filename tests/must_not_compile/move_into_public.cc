// EXPECT: no matching function for call to 'tacit::Private<.*>::MoveInto|no matching member function for call to 'MoveInto'
// What is taken from a Private goes to a Private and to nothing else.
#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Public, tacit::Vec;

void Use(Private<Vec>& p) {
#if MUST_FAIL
  Public<Vec> out;
#else
  Private<Vec> out;
#endif
  p.MoveInto<[](Vec& v, Vec& o) { o.swap(v); }>(out);
}
