#pragma once

// The privacy calculator of the page: the accountant asked by texts.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/result.h"

namespace tacit {

// find       epsilon | noise
// sampling   none | poisson | fixed
// rounds, delta, noise_multiplier (find epsilon) or epsilon (find noise), rate (with sampling)
// → {"epsilon", "epsilon_lower", "noise_multiplier", "method", "command"}; the command gives the same
// figures. At most 1e7 rounds, δ of at least 1e-30. Neighbours: replace-one, with Poisson samples add-remove.
Result<nlohmann::json> Calculate(const std::function<std::string(const char*)>& parameter);

}  // namespace tacit
