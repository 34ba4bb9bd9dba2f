#pragma once

// The losses behind MakeObjective, one file each.
#include <memory>

#include "models/objective.h"

namespace tacit {

std::unique_ptr<Objective> MakeLogistic();
std::unique_ptr<Objective> MakeSoftmax(std::size_t classes);
std::unique_ptr<Objective> MakeLeastSquares();

}  // namespace tacit
