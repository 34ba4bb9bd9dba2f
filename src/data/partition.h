#pragma once

// Who holds which rows. The partition is public; it reorders the data set so that each client's
// rows lie together.
#include <cstdint>
#include <vector>

#include "core/result.h"
#include "core/rng.h"
#include "data/dataset.h"

namespace tacit {

enum class Split {
  kBlocks,      // contiguous blocks in file order
  kIid,         // a seeded shuffle, then blocks
  kByLabel,     // sorted by label, then blocks
  kDirichlet,   // each class spread over the clients by Dirichlet(alpha)
  kColumn,      // the file's own group column
};

struct PartitionOptions {
  Split split = Split::kBlocks;
  std::size_t clients = 1;             // ignored by kColumn
  std::size_t rows_per_client = 0;     // 0: as equal as possible over all rows; otherwise exactly so many
  double alpha = 0.3;
  std::uint64_t seed = 42;
};

struct Partition {
  Dataset data;                        // reordered
  std::vector<std::size_t> begin;      // clients + 1 entries
  std::size_t clients() const { return begin.size() - 1; }
  std::size_t size(std::size_t client) const { return begin[client + 1] - begin[client]; }
  Private<Shard> shard(std::size_t client) const { return Private<Shard>(Shard(data, begin[client], size(client))); }
};

// More clients than rows, an empty client or a missing group column is an error.
Result<Partition> MakePartition(const PartitionOptions&, Dataset);

}  // namespace tacit
