// EXPECT: ignoring returned value of type 'tacit::Status'|ignoring return value of function declared with 'nodiscard'
// A charge may be refused; nobody can fail to notice.
#include "privacy/ledger.h"

using namespace tacit;

Status Use(Ledger& ledger, const PrivacyEvent& event) {
#if MUST_FAIL
  ledger.Charge(event);
#else
  TACIT_OK(ledger.Charge(event));
#endif
  return Ok{};
}
