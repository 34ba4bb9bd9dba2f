// EXPECT: ::witness_' is private within this context|'witness_' is a private member
// Only an audit, on rows that it made up, sees what a masked sum is made of.
#include "privacy/secure_sum.h"

bool Use(tacit::SecureSum& sum, [[maybe_unused]] tacit::SumWitness& mine) {
#if MUST_FAIL
  sum.witness_ = &mine;
#endif
  return sum.bits() > 0;
}
