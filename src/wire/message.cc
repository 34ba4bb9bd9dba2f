#include "wire/message.h"

#include "models/lanes.h"

namespace tacit {

bool AllFiniteLong(View v) {
  // x − x is 0, or NaN where x is not finite; NaN stays in a sum.
  Lanes sum[4] = {};
  std::size_t i = 0;
  for (; i + 4 * kLanes <= v.size(); i += 4 * kLanes)
    for (std::size_t k = 0; k < 4; ++k) {
      const Lanes x = Load(v.data() + i + k * kLanes);
      sum[k] += x - x;
    }
  Lanes all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  for (; i + kLanes <= v.size(); i += kLanes) {
    const Lanes x = Load(v.data() + i);
    all += x - x;
  }
  if (i < v.size()) {
    const Lanes x = LoadPart(v.data() + i, v.size() - i);
    all += x - x;
  }
  return Everywhere(LaneMask(all == Lanes{}));
}

}  // namespace tacit
