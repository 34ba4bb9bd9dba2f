// EXPECT: no matching function for call to|no matching conversion|no matching constructor
// What passed a filter does not become a plan afterwards.
#include "privacy/filter.h"

using namespace tacit;

PlannedAccount Use([[maybe_unused]] GdpFilter filter, [[maybe_unused]] Accountant plan) {
#if MUST_FAIL
  return PlannedAccount(std::move(filter));
#else
  return PlannedAccount(std::move(plan));
#endif
}
