// EXPECT: Map: pass inputs by value or const&
// A closure holds references: calling it is a way out.
#include "core/private.h"

using tacit::Private;

void Use(const Private<double>& p) {
  double out = 0;
#if MUST_FAIL
  const auto leak = [&out](auto v) { out = v; };
#else
  const auto leak = [](auto v) { static_cast<void>(v); };
#endif
  static_cast<void>(p.Map<[](double v, const auto& f) { return f(v), v; }>(leak));
  static_cast<void>(out);
}
