// EXPECT: no matching function for call to|no matching conversion|no matching constructor
// A plan does not become a filter: what was fixed in advance is not what was chosen by the outputs.
#include "privacy/filter.h"

using namespace tacit;

GdpFilter Use(PlannedAccount plan, MuSquared budget) {
#if MUST_FAIL
  return GdpFilter(std::move(plan));
#else
  return GdpFilter(budget, plan.plan().adjacency());
#endif
}
