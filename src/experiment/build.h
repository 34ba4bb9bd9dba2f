#pragma once

// From a config's words to the engine's objects.
#include <memory>
#include <string_view>

#include "data/dataset.h"
#include "data/load.h"
#include "data/partition.h"
#include "data/preprocess.h"
#include "experiment/config.h"
#include "experiment/plan.h"
#include "models/objective.h"
#include "models/regularizer.h"
#include "privacy/bounded.h"

namespace tacit {

inline constexpr std::size_t kSyntheticRows = 10000, kSyntheticFeatures = 50;
bool IsSynthetic(std::string_view source);

Result<std::unique_ptr<Objective>> BuildObjective(const Config&, const PublicFacts&);
Result<std::unique_ptr<Regularizer>> BuildRegularizer(const Config&);
// How many features a row has if the model has `size` parameters; 0 if none fits.
Result<std::size_t> FeaturesOf(const Config&, const PublicFacts&, std::size_t size);

// How the columns of a CSV are read, from the texts of the config.
Result<CsvLayout> LayoutOf(const Config&);
// What one unit of privacy is in a client's sum.
SumUnit UnitOf(const Config&);

enum class Role { kTrain, kTest };
// Loads and preprocesses one source. A known set's test part is asked for by its own name.
Result<Dataset> LoadSource(const Config&, const std::string& source, Role, const PublicFacts&);
Result<Partition> LoadPartition(const Config&, const PublicFacts&);
// The same for rows that somebody made and that come from no source: treated like those of a file.
Result<Partition> PartitionRows(const Config&, const PublicFacts&, Dataset rows);
// The same facts, from the data itself: what plan and training must agree on.
PublicFacts FactsOf(const Partition&, std::size_t classes);

}  // namespace tacit
