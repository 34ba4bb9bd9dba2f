// EXPECT: 'T tacit::Private<T>::value_ .*is private within this context|::value_' is private within this context|'value_' is a private member
// Only the simulation's named Oracle reads private data; a class of another name does not.
#include "core/private.h"
#include "data/dataset.h"

namespace tacit {
class Meter {
 public:
#if MUST_FAIL
  static std::size_t Rows(const Private<Shard>& p) { return p.value_.size(); }
#else
  static Private<std::size_t> Rows(const Private<Shard>& p) {
    return p.Map<[](const Shard& s) { return s.size(); }>();
  }
#endif
};
}  // namespace tacit

void Use(const tacit::Private<tacit::Shard>& p) { static_cast<void>(tacit::Meter::Rows(p)); }
