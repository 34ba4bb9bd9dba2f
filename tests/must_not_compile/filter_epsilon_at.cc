// EXPECT: has no member named 'EpsilonAt'|no member named 'EpsilonAt'
// Under a filter parameters may depend on outputs: only the budget has an ε, and no tight account is offered.
#include "privacy/filter.h"

using namespace tacit;

double Use(const GdpFilter& filter, Delta delta) {
#if MUST_FAIL
  return filter.EpsilonAt(delta)->upper;
#else
  return filter.EpsilonOfBudget(delta);
#endif
}
