// EXPECT: Map: pass inputs by value or const&
// A const shared_ptr still points at something that can be written.
#include <memory>

#include "core/private.h"

using tacit::Private;

void Use(const Private<double>& p) {
#if MUST_FAIL
  const auto out = std::make_shared<double>();
#else
  const auto out = std::make_shared<const double>();
#endif
  static_cast<void>(p.Map<[](double v, const auto& o) {
    if constexpr (requires { *o = v; }) *o = v;
    return v + *o;
  }>(out));
}
