// EXPECT: ignoring returned value of type 'tacit::Status'|ignoring return value of function declared with 'nodiscard'
// A refusal (of a budget, say) that nobody looks at is not a refusal.
#include "core/result.h"

tacit::Status Charge();

tacit::Status Use() {
#if MUST_FAIL
  Charge();
#else
  TACIT_OK(Charge());
#endif
  return tacit::Ok{};
}
