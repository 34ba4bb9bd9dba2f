#include "models/objective.h"

#include <algorithm>
#include <cmath>

#include "data/partition.h"
#include "models/fours.h"
#include "models/losses.h"
#include "models/network.h"

namespace tacit {

Result<std::unique_ptr<Objective>> MakeObjective(const ModelSpec& spec) {
  if (!(spec.threshold > 0) || !std::isfinite(spec.threshold))
    return Fail(Code::kInvalidArgument, "threshold = {}: must be positive and finite", spec.threshold);
  switch (spec.loss) {
    case Loss::kLogistic: return MakeLogistic();
    case Loss::kSoftmax:
      if (spec.classes < 2)
        return Fail(Code::kInvalidArgument, "classes = {}: must be at least 2", spec.classes);
      return MakeSoftmax(spec.classes);
    case Loss::kLeastSquares: return MakeLeastSquares();
    case Loss::kAbsoluteDeviation: return MakeAbsoluteDeviation();
    case Loss::kHuber: return MakeHuber(spec.threshold);
    case Loss::kHinge: return MakeHinge();
    case Loss::kSmoothedHinge: return MakeSmoothedHinge(spec.threshold);
    case Loss::kMlp:
    case Loss::kCnn: return MakeNetwork(spec);
  }
  return Fail(Code::kInvalidArgument, "loss {}: unknown", static_cast<int>(spec.loss));
}

std::unique_ptr<Objective> MakeObjective(Loss loss, std::size_t classes) {
  auto made = MakeObjective(ModelSpec{.loss = loss, .classes = classes});
  TACIT_CHECK(made.ok());
  return *std::move(made);
}

ModelSpec FedExpCentralCnn() {
  return {.loss = Loss::kCnn, .classes = 10, .hidden = {32}, .convolutions = {{4, 4}, {8, 4}}};
}

ModelSpec FedExpLocalCnn() { return {.loss = Loss::kCnn, .classes = 10, .convolutions = {{2, 4}, {1, 4}}}; }

void KeepEntriesFor(const Objective& f, Partition& p) {
  constexpr std::size_t kMost = std::size_t{512} << 20;
  std::vector<std::uint8_t> entries, fours;
  for (std::size_t c = 0; c < p.clients(); ++c) {
    entries.push_back(f.KeepsEntries(p.size(c), p.data.features));
    fours.push_back(f.KeepsFours(p.size(c), p.data.features));
  }
  if (std::find(entries.begin(), entries.end(), 1) != entries.end())
    p.entries = KeepEntries(p.data, p.begin, entries, kMost);
  if (std::find(fours.begin(), fours.end(), 1) != fours.end())
    p.fours = KeepFours(p.data, p.begin, fours, kMost);
}

}  // namespace tacit
