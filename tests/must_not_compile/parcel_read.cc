// EXPECT: is private within this context|is a private member
// What passes between the processes of a simulation may be private: nobody but the transport sees the bytes.
#include "runtime/parcel.h"

std::size_t Use(const tacit::Private<tacit::Vec>& own) {
  tacit::Parcel parcel;
  parcel.Put(own);
#if MUST_FAIL
  return parcel.bytes_.size();
#else
  return parcel.size();
#endif
}
