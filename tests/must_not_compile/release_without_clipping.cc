// EXPECT: no known conversion for argument 1 from 'tacit::Private<.*' to 'const tacit::Bounded&'|no known conversion from 'Private<Vec>' .*to 'const Bounded'
// The certified door takes only what was bounded by construction.
#include "core/private.h"
#include "privacy/mechanism.h"

using namespace tacit;

Status Use(const Mechanism& m, Private<Vec>& v, Ledger& ledger, NoiseRng& rng, NoiseBuffer& buffer,
           Released<Vec>& out) {
#if MUST_FAIL
  return m.Release(v, NoiseStd{1.0}, ledger, rng, buffer, out);
#else
  return m.Release(Bounded::Clip(v, L2Bound{1.0}), NoiseStd{1.0}, ledger, rng, buffer, out);
#endif
}
