#include "models/objective.h"

#include "models/losses.h"

namespace tacit {

std::unique_ptr<Objective> MakeObjective(Loss loss, std::size_t classes) {
  switch (loss) {
    case Loss::kLogistic: return MakeLogistic();
    case Loss::kSoftmax: return MakeSoftmax(classes);
    case Loss::kLeastSquares: return MakeLeastSquares();
  }
  TACIT_CHECK(false);
  return nullptr;
}

}  // namespace tacit
