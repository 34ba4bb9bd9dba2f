// EXPECT: no known conversion for argument 1 from 'const tacit::Unbounded' to 'const tacit::Bounded&'|no known conversion from 'const Unbounded' to 'const Bounded'
// What a paper sums without clipping leaves by the paper's door, which records the claim.
#include "privacy/mechanism.h"

using namespace tacit;

Status Use(const Mechanism& m, const Unbounded& v, const Claim& claim, Ledger& ledger, NoiseRng& rng,
           NoiseBuffer& buffer, Released<Vec>& out) {
#if MUST_FAIL
  static_cast<void>(claim);
  return m.Release(v, NoiseStd{1.0}, ledger, rng, buffer, out);
#else
  return m.ReleaseAsClaimed(v, NoiseStd{1.0}, claim, ledger, rng, buffer, out);
#endif
}
