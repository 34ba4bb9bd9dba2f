// EXPECT: no matching function for call to 'tacit::Mechanism::ReleaseAsClaimed|too few arguments to function call, expected 7
// The paper's door does not open without a claim.
#include "privacy/mechanism.h"

using namespace tacit;

Status Use(const Mechanism& m, const Unbounded& v, const Claim& claim, Ledger& ledger, NoiseRng& rng,
           NoiseBuffer& buffer, Released<Vec>& out) {
#if MUST_FAIL
  static_cast<void>(claim);
  return m.ReleaseAsClaimed(v, NoiseStd{1.0}, ledger, rng, buffer, out);
#else
  return m.ReleaseAsClaimed(v, NoiseStd{1.0}, claim, ledger, rng, buffer, out);
#endif
}
