// EXPECT: no matching function for call to 'tacit::Released<.*>::Released|no matching conversion .* to 'Released<Vec>'
// Only a Mechanism (which charges the ledger) and the decoder of a frame make a Released that holds
// something.
#include <utility>

#include "core/private.h"
#include "core/vec.h"

using tacit::Released, tacit::Vec;

Released<Vec> Use(Vec v) {
#if MUST_FAIL
  return Released<Vec>(std::move(v));
#else
  static_cast<void>(v);
  return Released<Vec>();  // empty: holds nothing of anyone's
#endif
}
