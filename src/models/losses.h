#pragma once

// The losses behind MakeObjective, by families.
#include <memory>

#include "models/objective.h"

namespace tacit {

std::unique_ptr<Objective> MakeLogistic();
std::unique_ptr<Objective> MakeSoftmax(std::size_t classes);
std::unique_ptr<Objective> MakeLeastSquares();
std::unique_ptr<Objective> MakeAbsoluteDeviation();
std::unique_ptr<Objective> MakeHuber(double threshold);
std::unique_ptr<Objective> MakeHinge();
std::unique_ptr<Objective> MakeSmoothedHinge(double width);

}  // namespace tacit
