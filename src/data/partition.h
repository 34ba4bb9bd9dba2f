#pragma once

// Who holds which rows. The partition is public; it reorders the data set so that each client's
// rows lie together. In a simulation it stands for how the data came to be where they are: the split
// itself is not charged. Where persons are the unit of privacy (Dataset::person_bound) no split cuts a person
// in two, but for kColumn, and a client's rows of one person lie together.
#include <cstdint>
#include <memory>
#include <vector>

#include "core/result.h"
#include "core/rng.h"
#include "data/dataset.h"

namespace tacit {

enum class Split {
  kBlocks,  // contiguous blocks in file order
  kIid,  // a seeded shuffle, then blocks
  kByLabel,  // sorted by label (file order among equals), then blocks
  kDirichlet,  // each class spread over the clients by Dirichlet(alpha) (Hsu, Qi & Brown 2019)
  kColumn,  // the file's own group column
  kMixed,  // some rows from a seeded shuffle of all, and the others of one class, the c-th for client c
};

struct PartitionOptions {
  Split split = Split::kBlocks;
  std::size_t clients = 1;  // ignored by kColumn
  // 0: as equal as possible over all rows (the first rows mod clients clients hold one row more);
  // otherwise exactly so many, and the rest is left out: the last rows of the file, for kIid a random
  // choice, for kColumn the last rows of each group. Not for kDirichlet, whose sizes are random.
  std::size_t rows_per_client = 0;
  std::size_t uniform = 0;  // kMixed: rows of the shuffle, of the rows_per_client
  double alpha = 0.3;
  std::uint64_t seed = 42;
};

struct Partition {
  Dataset data;  // reordered
  std::vector<std::size_t> begin;  // clients + 1 entries
  std::vector<Columns> columns = {};  // one per client, or none; empty ones where rows alone are faster
  LineVec tiles = {};  // Tiles of all clients, or none
  std::vector<std::size_t> tiles_begin = {};  // where those of a client begin
  // Of each client's dense rows without their zeros, or none (KeepEntries). They change the time alone.
  std::shared_ptr<const KeptEntries> entries = nullptr;
  std::shared_ptr<const RowFours> fours = nullptr;  // likewise (KeepFours), but for signs of zeros
  std::size_t clients() const { return begin.size() - 1; }
  std::size_t size(std::size_t client) const { return begin[client + 1] - begin[client]; }
  // A view of data: this Partition must outlive it and stay where it is.
  Private<Shard> shard(std::size_t client) const {
    const Columns* c = columns.empty() || columns[client].list_begin.empty() ? nullptr : &columns[client];
    const double* t = tiles.empty() ? nullptr : tiles.data() + tiles_begin[client];
    const RowEntries* e = entries == nullptr ? nullptr : &entries->shard[client];
    if (e != nullptr && e->rows == 0) e = nullptr;
    const RowFours* f = fours != nullptr && fours->has[client] != 0 ? fours.get() : nullptr;
    return Private<Shard>(Shard(data, begin[client], size(client), c, t, e, f));
  }
};

// Sparse rows are also laid out for sums: row_value is filled, and a client that holds at least one entry per
// feature, all finite, gets its Columns. Which clients have them changes the time of a sum and the order of
// its additions, not what a row contributes.
//
// Dense rows of 4 or 8 features whose norms are known are laid out in Tiles, all of them or none: up to 64
// MiB. They change the time alone.
//
// More clients than rows, an empty client or a missing group column is an error.
// kDirichlet: a client left without rows takes the last row of the client that holds most (the first
// such client), so every client ends with at least one.
// With persons: a person counts as one row with the label of their first one. More clients than persons,
// rows_per_client, and for kSum a person in two groups of kColumn, are errors.
Result<Partition> MakePartition(const PartitionOptions&, Dataset);

// The Tiles of so many rows: dense, of a number of features that fits, with norms.
LineVec TilesOf(const Dataset&, std::size_t begin, std::size_t rows);

// These rows, in this order.
Dataset Select(const Dataset&, const std::vector<std::size_t>& rows);

// Keeps the first `most` rows of every person, in the order in which rows are shown to it; the others are
// dropped without a word. What is kept of one person does not depend on the rows of others.
class PersonLimit {
 public:
  explicit PersonLimit(std::size_t most) : most_(most) {}
  void Apply(Dataset&);  // rows that follow those of earlier calls; persons numbered alike

 private:
  std::size_t most_;
  std::vector<std::size_t> seen_;
};

}  // namespace tacit
