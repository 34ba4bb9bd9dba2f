// EXPECT: <lambda\(const tacit::Vec&\)>\{out\}' is not a constant expression|invalid explicitly-specified argument for template parameter 'F'
// A capture is a place outside the result where a function could put what it sees.
#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Vec;

void Use(const Private<Vec>& p) {
#if MUST_FAIL
  Vec out;
  static_cast<void>(p.Map<[&out](const Vec& v) { return out = v, 0; }>());
#else
  static_cast<void>(p.Map<[](const Vec& v) { return tacit::Norm(v); }>());
#endif
}
