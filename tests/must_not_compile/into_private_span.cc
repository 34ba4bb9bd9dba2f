// EXPECT: a Private value owns what it holds
// A result that is only a view of something public would publish it.
#include "core/private.h"
#include "core/vec.h"

using tacit::Private, tacit::Span, tacit::Vec;

void Use(const Private<double>& p) {
  Vec public_result(1);
#if MUST_FAIL
  Private<Span> out{Span(public_result)};
  p.Into<[](double v, Span o) { o[0] = v; }>(out);
#else
  Private<Vec> out(public_result);
  p.Into<[](double v, Vec& o) { o[0] = v; }>(out);
#endif
}
