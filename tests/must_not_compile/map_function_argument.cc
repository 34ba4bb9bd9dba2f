// EXPECT: Map: pass inputs by value or const&
// std::function hides what it captured.
#include <functional>

#include "core/private.h"

using tacit::Private;

void Use(const Private<double>& p) {
#if MUST_FAIL
  double out = 0;
  const std::function<void(double)> leak = [&out](double v) { out = v; };
  static_cast<void>(p.Map<[](double v, const std::function<void(double)>& f) { return f(v), v; }>(leak));
#else
  static_cast<void>(p.Map<[](double v, const std::plus<>& f) { return f(v, v); }>(std::plus<>{}));
#endif
}
