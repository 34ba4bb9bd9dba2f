// EXPECT: ignoring returned value of type 'tacit::Status'|ignoring return value of function declared with 'nodiscard'
// A release that was refused leaves nothing to send; nobody can fail to notice.
#include "privacy/mechanism.h"

using namespace tacit;

Status Use(const Mechanism& m, const Bounded& v, Ledger& ledger, NoiseRng& rng, NoiseBuffer& buffer,
           Released<Vec>& out) {
#if MUST_FAIL
  m.Release(v, NoiseStd{1.0}, ledger, rng, buffer, out);
#else
  TACIT_OK(m.Release(v, NoiseStd{1.0}, ledger, rng, buffer, out));
#endif
  return Ok{};
}
