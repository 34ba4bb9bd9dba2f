// EXPECT: no matching function for call to 'tacit::Private<.*>::Into|no matching member function for call to 'Into'
// Into writes to a Private and to nothing else.
#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Public, tacit::Vec;

void Use(const Private<Vec>& p) {
#if MUST_FAIL
  Public<Vec> out;
#else
  Private<Vec> out;
#endif
  p.Into<[](const Vec& v, Vec& o) { o = v; }>(out);
}
