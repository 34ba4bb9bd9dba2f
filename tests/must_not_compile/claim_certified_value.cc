// EXPECT: cannot convert 'const tacit::Bounded' to 'const tacit::Unbounded&'|no viable conversion from 'const Bounded' to 'const Unbounded'
// What is clipped leaves by the certified door: nobody mixes the two.
#include "privacy/mechanism.h"

using namespace tacit;

Status Use(const Mechanism& m, const Bounded& certified, const Unbounded& v, const Claim& claim,
           Ledger& ledger, NoiseRng& rng, NoiseBuffer& buffer, Released<Vec>& out) {
#if MUST_FAIL
  static_cast<void>(v);
  return m.ReleaseAsClaimed(certified, NoiseStd{1.0}, claim, ledger, rng, buffer, out);
#else
  static_cast<void>(certified);
  return m.ReleaseAsClaimed(v, NoiseStd{1.0}, claim, ledger, rng, buffer, out);
#endif
}
