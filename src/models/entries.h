#pragma once

// The non-zeros of a few rows, and the products that need nothing else of them.
//
// Every element is summed in one fixed order by fused multiply-adds, whatever the tiles: those of dense.h, so
// a product here has the bits of the one there.
//
// Rows and columns go two by two: what is read for one serves the other, where both have an entry. Where one
// of the two has none, its sum is given a term 0·v, which changes nothing as long as v is finite (but for the
// sign of a zero). So who is paired with whom decides about time and not about values.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/vec.h"
#include "data/dataset.h"

namespace tacit {

// The memory of ColumnEntries.
struct ColumnPairs {
  std::vector<std::uint32_t> used;  // the columns that have an entry, ascending
  std::vector<std::uint32_t> begin, row;
  Vec first, second;
  ColumnEntries view() const {
    return {used.size(), used.data(), begin.data(), row.data(), first.data(), second.data()};
  }
};

// The memory of RowEntries, and scratch. Vectors may be longer than what is in them: they are reused.
struct Entries {
  std::size_t rows = 0, columns = 0;
  std::size_t count = 0;  // entries that are not zero
  // Paired are rows that have many columns in common.
  std::vector<std::uint32_t> pair, begin, rank;
  Vec first, second;
  // Of TurnEntries; GatherEntries sets the used columns alone.
  ColumnPairs by_column;
  Vec turned;  // from its first cache line on: row rank·Stride() + r
  std::size_t Stride() const { return (rows + 7) / 8 * 8; }
  // Without products. The entries of columns are there after TurnEntries.
  RowEntries view() const;
  // Scratch.
  std::vector<std::uint64_t> bits, taken;
  std::vector<std::uint32_t> column_rank, cut;
  Vec room;
};

// Gathers these rows. False, with no rows in `out`: a third or more of the entries are not zero, and dense
// products are faster.
bool GatherEntries(const Row* row, std::size_t rows, std::size_t columns, Entries& out);
// Their columns, from the same rows: the pairs, and the used ones as rows that are filled up with zeros.
void TurnEntries(const Row* row, Entries& x);

// z[r·out + o] = start[o] + Σ_j x[r][j] w[j·out + o], j ascending, for all rows and o < out; start ==
// nullptr: 0. ahead: `size` numbers that are likely read next and are fetched meanwhile.
void SparseProduct(const RowEntries& x, Entries& scratch, const double* w, const double* start,
                   std::size_t out, double* z, const double* ahead = nullptr, std::size_t size = 0);
inline void SparseProduct(Entries& x, const double* w, const double* start, std::size_t out, double* z) {
  SparseProduct(x.view(), x, w, start, out, z);
}
// z[r·rows + s] = 1 + Σ_j x[r][j] x[s][j], j ascending, for s < end[r] ≤ rows, of finite rows that were
// turned; what is beyond may be written too.
void ProductsWithin(const Entries& x, const std::uint32_t* end, double* z);

// g[j·out + o] = Σ_r x[r][j] d[r·out + o], r ascending, for all columns j: what was in g is overwritten. The
// rows were turned, and d is finite.
void SparseOuter(const RowEntries& x, const double* d, std::size_t out, double* g);
inline void SparseOuter(const Entries& x, const double* d, std::size_t out, double* g) {
  SparseOuter(x.view(), d, out, g);
}
// g[j·out + o] += the same, starting from what was there.
void AddSparseOuter(const RowEntries& x, const double* d, std::size_t out, double* g);
inline void AddSparseOuter(const Entries& x, const double* d, std::size_t out, double* g) {
  AddSparseOuter(x.view(), d, out, g);
}

// The entries of shards and the products within them, so that they need not be found again in every round:
// shard c has the rows from begin[c] to begin[c + 1]. Of a shard for which keep[c] is 0, or whose rows are
// not mostly zeros, there are none. nullptr: there are none at all, or they would take more than
// `most` bytes or more than the rows do, or the rows are not dense rows in memory.
std::shared_ptr<const KeptEntries> KeepEntries(const Dataset&, const std::vector<std::size_t>& begin,
                                               const std::vector<std::uint8_t>& keep, std::size_t most);

// A long vector kept as what it is made of. Coordinate j·out + o, j < columns, is Σ_r x[r][j] d[r·out + o],
// the element of SparseOuter; the coordinates after these are `tail`. columns = 0: it is the tail alone.
struct FactoredVec {
  FactoredVec() = default;
  FactoredVec(FactoredVec&&) noexcept = default;  // no copies: where d begins depends on the address
  FactoredVec& operator=(FactoredVec&&) noexcept = default;

  std::size_t columns = 0, out = 0;
  ColumnPairs x;
  ColumnEntries kept = {};  // instead of x, if there are any: of rows that outlive the vector
  Vec factors, tail;  // d begins with the first cache line of `factors`
  // At least the length of the vector (of the computed coordinates, in real arithmetic); not finite if it has
  // none. Whoever sets the columns sets it; it says nothing where they are 0.
  double length = 0;
  std::size_t size() const { return columns * out + tail.size(); }
  ColumnEntries entries() const { return kept.used != nullptr ? kept : x.view(); }
};
// total ← total + t·v. Coordinates are formed, multiplied and added, with a rounding each: the same bits as
// if v had been formed first, but for signs of zeros.
void AddTimes(double t, const FactoredVec& v, Span total);
// The vector, formed.
void Form(const FactoredVec& v, Vec& out);

}  // namespace tacit
