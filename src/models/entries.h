#pragma once

// The non-zeros of a few rows, and the products that need nothing else of them.
//
// Every element is summed in one fixed order by fused multiply-adds, whatever the tiles: those of dense.h, so
// a product here has the bits of the one there.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/vec.h"
#include "data/dataset.h"

namespace tacit {

// Row r has value[k] in column[k] for k from row_begin[r] to row_begin[r + 1]; column j has column_value[k]
// in row[k] for k from column_begin[j] to column_begin[j + 1]; both ascending. The vectors may be longer than
// that: they are reused.
struct Entries {
  std::size_t rows = 0, columns = 0;
  std::vector<std::uint32_t> row_begin, column, column_begin, row;
  Vec value, column_value;
  // The columns that have an entry, ascending: that of entry k is used[rank[k]].
  std::vector<std::uint32_t> used, rank, column_rank;
  Vec room;  // of SparseProduct, as is `cut`
  std::vector<std::uint32_t> cut;
};

// Gathers these rows. False, with no rows in `out`: a third or more of the entries are not zero, and dense
// products are faster.
bool GatherEntries(const Row* row, std::size_t rows, std::size_t columns, Entries& out);

// The columns that have an entry as rows, one after the other: t[rank·x.rows + r] = x[r][column].
void TurnEntries(const Entries& x, Vec& t);

// z[r·out + o] = start[o] + Σ_j x[r][j] w[j·out + o], j ascending, for all rows and o < out; start ==
// nullptr: 0.
void SparseProduct(Entries& x, const double* w, const double* start, std::size_t out, double* z);
// The same with a w that has the used columns only, w[rank·stride + o], for the rows from `first` to
// first + count − 1 (z begins with the first of them) and o < out ≤ stride; z[r·stride + o].
void UsedProduct(const Entries& x, std::size_t first, std::size_t count, const double* w, const double* start,
                 std::size_t out, std::size_t stride, double* z);

// g[j·out + o] = Σ_r x[r][j] d[r·out + o], r ascending, for all columns j: what was in g is overwritten.
void SparseOuter(const Entries& x, const double* d, std::size_t out, double* g);
// g[j·out + o] += the same, starting from what was there.
void AddSparseOuter(const Entries& x, const double* d, std::size_t out, double* g);

// A long vector kept as what it is made of. Coordinate j·out + o, j < columns, is Σ_r x[r][j] d[r·out + o],
// the element of SparseOuter; the coordinates after these are `tail`. columns = 0: it is the tail alone.
struct FactoredVec {
  std::size_t columns = 0, out = 0;
  std::vector<std::uint32_t> column_begin, row;  // as in Entries, of x
  Vec column_value, factors, tail;  // d begins with the first cache line of `factors`
  // At least the length of the vector (of the computed coordinates, in real arithmetic); not finite if it has
  // none. Whoever sets the columns sets it; it says nothing where they are 0.
  double length = 0;
  std::size_t size() const { return columns * out + tail.size(); }
};
// Sets all but tail and length.
void KeepFactors(const Entries& x, const double* d, std::size_t out, FactoredVec& v);
// total ← total + t·v. Coordinates are formed, multiplied and added, with a rounding each: the same bits as
// if v had been formed first, but for signs of zeros.
void AddTimes(double t, const FactoredVec& v, Span total);
// The vector, formed.
void Form(const FactoredVec& v, Vec& out);

}  // namespace tacit
