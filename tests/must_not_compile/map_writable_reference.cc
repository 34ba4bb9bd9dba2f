// EXPECT: no match for call to '\(const Use|no matching function for call to object of type 'const \(lambda
// An argument arrives as const&: a function that wants to write to it does not fit.
#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Vec;

void Use(const Private<Vec>& p) {
  Vec out;
#if MUST_FAIL
  static_cast<void>(p.Map<[](const Vec& v, Vec& o) { return o = v, 0; }>(out));
#else
  static_cast<void>(p.Map<[](const Vec& v, const Vec& o) { return tacit::Dot(v, o); }>(out));
#endif
}
