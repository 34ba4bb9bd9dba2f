// EXPECT: no known conversion for argument 4 from 'tacit::Stream' to 'tacit::NoiseRng&'|no known conversion from 'Stream' to 'NoiseRng'
// The noise of a release cannot come from a reproducible stream.
#include "privacy/mechanism.h"

using namespace tacit;

Status Use(const Mechanism& m, const Bounded& v, Ledger& ledger, Stream& stream, NoiseRng& rng,
           NoiseBuffer& buffer, Released<Vec>& out) {
#if MUST_FAIL
  static_cast<void>(rng);
  return m.Release(v, NoiseStd{1.0}, ledger, stream, buffer, out);
#else
  static_cast<void>(stream);
  return m.Release(v, NoiseStd{1.0}, ledger, rng, buffer, out);
#endif
}
