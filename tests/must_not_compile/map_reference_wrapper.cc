// EXPECT: Map: pass inputs by value or const&
// So is a std::reference_wrapper.
#include <functional>

#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Vec;

void Use(const Private<Vec>& p) {
  Vec out;
#if MUST_FAIL
  static_cast<void>(p.Map<[](const Vec& v, Vec& o) { return o = v, 0; }>(std::ref(out)));
#else
  static_cast<void>(p.Map<[](const Vec& v, const Vec& o) { return tacit::Dot(v, o); }>(out));
#endif
}
