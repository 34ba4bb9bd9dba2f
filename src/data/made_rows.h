#pragma once

// Rows of a generator that are made whenever they are read and kept nowhere: for sets larger than memory and
// disk, of which a round reads a few rows. A row is a function of the generator's options and its number, and
// what preprocessing makes of a row is a function of that row, so every reader sees the same bits as if the
// set had been made at once. Labels, groups and norms are: one pass over all rows makes them, in a few
// megabytes.
#include "core/result.h"
#include "data/preprocess.h"
#include "data/synthetic.h"

namespace tacit {

// Rows first … first + rows − 1, preprocessed.
Result<Dataset> MakeOnDemand(const SyntheticOptions&, std::size_t first, const PreprocessOptions&);

}  // namespace tacit
