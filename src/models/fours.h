#pragma once

// The two sweeps of rows.h over dense rows that are mostly zeros, by the fours that have an entry (RowFours).
//
// The bits are those of Margins and AddRows: a margin is the same four sums of every fourth term, and a
// coordinate is summed over the rows in their order. What is left out are terms 0·v with v finite, which
// change nothing but the sign of a zero. Every row is read alone: nothing depends on its neighbours.
#include <cstddef>
#include <memory>
#include <vector>

#include "core/vec.h"
#include "data/dataset.h"

namespace tacit {

// Margins of several outputs. False: the shard has no fours, x is not finite (0·v would count), or so few
// rows are faster without; then `out` has no meaning.
bool MarginsByFours(const Shard&, View x, std::size_t outputs, std::size_t first, std::size_t count,
                    Vec& scratch, Span out);
// AddRows of several outputs; fresh: what was in g does not count. False, with g untouched: the
// shard has no fours, some weight·coefficient is not finite, or the rows are few.
bool AddRowsByFours(const Shard&, View coefficient, std::size_t outputs, View weight, bool fresh,
                    Vec& scratch, Span g);

// The fours of shards, of which c has the rows from begin[c] to begin[c + 1]. Of a shard for which keep[c] is
// 0, or of whose fours half or more have an entry, there are none. nullptr: there are none at all, or they
// would take more than `most` bytes, or the rows are not dense rows in memory.
std::shared_ptr<const RowFours> KeepFours(const Dataset&, const std::vector<std::size_t>& begin,
                                          const std::vector<std::uint8_t>& keep, std::size_t most);

}  // namespace tacit
