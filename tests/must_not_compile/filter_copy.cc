// EXPECT: use of deleted function|call to implicitly-deleted copy constructor
// A copy of a filter would spend the same budget twice.
#include "privacy/filter.h"

using namespace tacit;

ZcdpFilter Use(ZcdpFilter& filter) {
#if MUST_FAIL
  return filter;
#else
  return std::move(filter);
#endif
}
