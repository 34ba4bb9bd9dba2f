// EXPECT: use of deleted function|call to implicitly-deleted copy constructor
// A copy of a plan would make every release of it twice.
#include "privacy/filter.h"

using namespace tacit;

PlannedAccount Use(PlannedAccount& plan) {
#if MUST_FAIL
  return plan;
#else
  return std::move(plan);
#endif
}
