#pragma once

#include <filesystem>

#include "core/result.h"

namespace tacit {

// Whether the run in a folder is over. One that was stopped has a result, too, which says so; where its
// checkpoint is gone it is not over, and cannot be gone on with.
Result<bool> IsFinished(const std::filesystem::path& folder);

}  // namespace tacit
