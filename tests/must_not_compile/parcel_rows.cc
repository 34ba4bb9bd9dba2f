// EXPECT: no matching function|constraints not satisfied
// State and sums go from process to process, and nothing else that is private: rows stay where they were
// read.
#include "runtime/parcel.h"

void Use(tacit::Parcel& parcel, const tacit::Private<tacit::Vec>& state,
         const tacit::Private<tacit::Shard>& rows) {
  parcel.Put(state);
#if MUST_FAIL
  parcel.Put(rows);
#else
  static_cast<void>(rows);
#endif
}
