// EXPECT: Map: pass inputs by value or const&
// A container of pointers is as good as a pointer.
#include <vector>

#include "core/private.h"

using tacit::Private;

void Use(const Private<double>& p) {
#if MUST_FAIL
  double out = 0;
  const std::vector<double*> places = {&out};
  static_cast<void>(p.Map<[](double v, const std::vector<double*>& o) { return *o[0] = v; }>(places));
#else
  const std::vector<std::vector<double> > places = {{1}};
  static_cast<void>(
      p.Map<[](double v, const std::vector<std::vector<double> >& o) { return o[0][0] * v; }>(places));
#endif
}
