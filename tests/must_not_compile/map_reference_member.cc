// EXPECT: Map: pass inputs by value or const&
// A struct with a reference in it is a reference.
#include "core/private.h"

using tacit::Private;

struct ByReference {
  double& out;
};
struct ByValue {
  double out;
};

void Use(const Private<double>& p) {
  double place = 0;
#if MUST_FAIL
  static_cast<void>(p.Map<[](double v, const ByReference& o) { return o.out = v; }>(ByReference{place}));
#else
  static_cast<void>(p.Map<[](double v, const ByValue& o) { return o.out + v; }>(ByValue{place}));
#endif
}
