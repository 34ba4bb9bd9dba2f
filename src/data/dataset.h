#pragma once

// Rows in memory: dense or sparse (CSR), with labels. A Dataset is plain memory owned by whoever
// loaded it; the engine hands out rows only as Private<Shard>.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/private.h"
#include "core/vec.h"

namespace tacit {

// One row. Dense: index == nullptr and value[0..size) are all features. Sparse: feature index[k]
// has value[k], indices ascending.
struct Row {
  const double* value;
  const std::uint32_t* index;
  std::size_t size;
};

// How the influence of one person with several records is bounded.
enum class PersonBound {
  kNone,        // records are the unit
  kRecords,     // nobody has more than records_per_person rows, wherever they are held
  kSum,  // the sum of a person's gradients is clipped: all rows of a person lie together at one client
};

// Lengths of rows, rounded up, and of each the reciprocal, rounded down, which clipping multiplies by: the
// two are set together and cannot differ.
class RowNorms {
 public:
  // At most (1 − 2⁻⁵¹)/norm: the quotient and the product round by 2⁻⁵³ of themselves each. 0 for rows from
  // 2⁵⁰⁰ on, which count as not finite, and where norm is not a number. Never ∞: rows below 2⁻¹⁰⁰⁰ count as
  // so long.
  static double Reach(double norm) {
    return norm < 0x1p500 ? 1 / std::max(norm, 0x1p-1000) * (1 - 0x1p-50) : 0.0;
  }

  double operator[](std::size_t i) const { return norm_[i]; }
  const double* data() const { return norm_.data(); }
  const double* reach() const { return reach_.data(); }  // Reach of each
  std::size_t size() const { return norm_.size(); }
  bool empty() const { return norm_.empty(); }
  auto begin() const { return norm_.begin(); }
  auto end() const { return norm_.end(); }

  RowNorms() = default;
  RowNorms(std::initializer_list<double> norms) {  // NOLINT: a list of numbers is one of norms
    for (const double v : norms) push_back(v);
  }
  void Set(std::size_t i, double norm) {
    norm_[i] = norm;
    reach_[i] = Reach(norm);
  }
  void push_back(double norm) {
    norm_.push_back(norm);
    reach_.push_back(Reach(norm));
  }
  void Append(const RowNorms& more) {
    norm_.insert(norm_.end(), more.norm_.begin(), more.norm_.end());
    reach_.insert(reach_.end(), more.reach_.begin(), more.reach_.end());
  }
  void assign(std::size_t n, double norm) {
    norm_.assign(n, norm);
    reach_.assign(n, Reach(norm));
  }
  void resize(std::size_t n) {  // new ones are 0
    norm_.resize(n);
    reach_.resize(n, Reach(0.0));
  }
  void reserve(std::size_t n) {
    norm_.reserve(n);
    reach_.reserve(n);
  }
  void clear() {
    norm_.clear();
    reach_.clear();
  }
  friend bool operator==(const RowNorms& a, const RowNorms& b) { return a.norm_ == b.norm_; }

 private:
  std::vector<double> norm_, reach_;
};

class MappedRows;  // row_store.h
const double* MappedData(const MappedRows&);

// Rows that are made when they are read (made_rows.h). Thread-safe.
class RowMaker {
 public:
  virtual ~RowMaker() = default;
  static constexpr std::size_t kKept = 64;
  // All features of row i, which stay until the same thread has asked for kKept − 1 others.
  virtual const double* Values(std::size_t i) const = 0;
  // The rows order[0], order[1], … of this one.
  virtual std::shared_ptr<const RowMaker> Reordered(const std::vector<std::size_t>& order) const = 0;
};

class Dataset {
 public:
  std::size_t rows() const { return label.size(); }
  bool sparse() const { return !row_begin.empty(); }
  Row row(std::size_t i) const {
    if (sparse())
      return {value.data() + row_begin[i], column.data() + row_begin[i], row_begin[i + 1] - row_begin[i]};
    if (maker) return {maker->Values(i), nullptr, features};
    return {dense() + i * features, nullptr, features};
  }
  const double* dense() const;  // rows × features, row-major; not for sparse sets or rows that are made

  std::string name;
  std::size_t features = 0;  // columns, public
  LineVec value;  // dense: rows × features; sparse: the non-zeros
  std::shared_ptr<const MappedRows> mapped;  // dense rows in a file instead of value (row_store.h)
  std::shared_ptr<const RowMaker> maker;  // dense rows that are kept nowhere instead of value (made_rows.h)
  std::vector<std::uint32_t> column;  // sparse only
  std::vector<std::uint64_t> row_begin;  // sparse only, rows + 1 entries
  std::vector<double> label;
  std::vector<std::uint32_t> group;  // optional: which client a row belongs to (a column of the file)
  std::vector<std::string> group_name;
  std::vector<std::uint32_t> person;  // optional: whose record a row is; equal numbers, one person
  // What a person may do to a sum over these rows, where persons are the unit of privacy; public.
  PersonBound person_bound = PersonBound::kNone;
  std::size_t records_per_person = 1;  // kRecords: nobody has more rows than that
  // Sums over rows are charged for the rounding errors of at least so many terms: public. Where the number of
  // rows is hidden, what is paid must not tell it.
  std::size_t charged_terms = 0;

  // Public ranges of the features, for Preprocess: empty, or one each, with ∓∞ where there is none.
  std::vector<double> lower, upper;

  // ‖row‖₂ of each row, rounded up. Filled by Preprocess.
  RowNorms norm;
  // Sparse only, filled by MakePartition: the one value that all entries of row i have, NaN if they differ.
  std::vector<double> row_value;
  // Public bound with norm[i] ≤ row_bound for every i, enforced by Preprocess; ∞ if none was asked.
  double row_bound = std::numeric_limits<double>::infinity();
};

// A sparse shard's entries a second time, laid out for sums over columns and over rows.
//
// List j < features holds the rows with column j, ascending: row[k] for k from list_begin[j] to
// list_begin[j + 1], filled up to a multiple of four with entries of value 0 in a row that does not exist,
// the one after the last.
//
// If every row has one value, neighbours in a row (its entries 0 and 1, 2 and 3, …) are paired: pair p is
// columns first[p] and second[p]. The pairs that occur in many rows come first and have a list each, after
// those of the columns; entries in such a pair are in no list of a column. Four rows side by side are then
// their tokens: token[4k], …, token[4k + 3] belong to rows 4q, …, 4q + 3, k from token_begin[q] / 4 on. A
// token t < features is a column, t = features nothing, and t > features the pair t − features − 1.
struct Columns {
  std::vector<std::uint32_t> list_begin;  // lists + 1 entries
  std::vector<std::uint32_t> row;  // counted from the start of the shard
  std::vector<double> value;  // empty if every row has one value: then it is row_value
  std::vector<std::uint32_t> first, second;  // pairs; none where they would not pay
  std::vector<std::uint32_t> token, token_begin;
};

// Dense rows of few features a second time, four of a shard side by side, so that one pass over them needs no
// sums across a row. Four rows are a tile, whole cache lines:
//   label[4], reach[4] (RowNorms), and of each feature in turn its four values
// The last tile is filled up with rows of zeros whose reach is 0: they contribute 0.
struct Tiles {
  static constexpr std::size_t kRows = 4;
  static constexpr bool Fit(std::size_t features) { return features == 4 || features == 8; }
  static constexpr std::size_t SizeOfOne(std::size_t features) { return kRows * (features + 2); }
  static constexpr std::size_t Count(std::size_t rows) { return (rows + kRows - 1) / kRows; }
};

// Dense rows of a shard that are mostly zeros, without the zeros: views of what entries.h in models makes and
// reads. Columns two by two, from the rows that have an entry in one of the two: pair p is used[2p] and
// used[2p + 1], which have first[k] and second[k] in row[k], for k from begin[p] to begin[p + 1], rows
// ascending. The last may be alone: its partner has zeros only.
struct ColumnEntries {
  std::size_t size = 0;
  const std::uint32_t *used = nullptr, *begin = nullptr, *row = nullptr;
  const double *first = nullptr, *second = nullptr;
};
// Rows two by two: pair q is rows pair[2q] and pair[2q + 1], which have first[k] and second[k] in the column
// by_column.used[rank[k]], for k from begin[q] to begin[q + 1], ascending. In the last pair `rows` stands for
// nobody, whose entries are 0.
struct RowEntries {
  std::size_t rows = 0, columns = 0, pairs = 0;  // rows = 0: there are none
  const std::uint32_t *pair = nullptr, *begin = nullptr, *rank = nullptr;
  const double *first = nullptr, *second = nullptr;
  ColumnEntries by_column;
  const double* products = nullptr;  // 1 + x_r·x_s at r(r + 1)/2 + s, s ≤ r
  const double* behind = nullptr;  // `ahead` numbers that lie behind these: likely those of the next shard
  std::size_t ahead = 0;
};
// Those of many shards, in memory of their own.
struct KeptEntries {
  LineVec memory;
  std::vector<RowEntries> shard;
};

// Dense rows without most of their zeros, four columns at a time: row i of the data set has value[4k … 4k +
// 3] in the columns from 4·at[k] on, for k from begin[i] to begin[i + 1], ascending, and zeros in the other
// columns up to the last multiple of four; those after it are not here.
struct RowFours {
  LineVec value;
  std::vector<std::uint32_t> begin, at;
  std::vector<std::uint8_t> has;  // of each shard: whether its rows are here
};

inline const double* Dataset::dense() const { return mapped ? MappedData(*mapped) : value.data(); }

// One client's rows: a contiguous range of a Dataset, or a selection from it (a minibatch).
// A view: the Dataset must outlive it.
class Shard {
 public:
  Shard() = default;
  Shard(const Dataset& data, std::size_t begin, std::size_t size, const Columns* columns = nullptr,
        const double* tiles = nullptr, const RowEntries* entries = nullptr, const RowFours* fours = nullptr)
      : data_(&data),
        begin_(begin),
        size_(size),
        columns_(columns),
        tiles_(tiles),
        entries_(entries),
        fours_(fours) {}
  // The rows pick[0], pick[1], … of this (contiguous) shard; pick must outlive the result.
  Shard Pick(std::span<const std::uint32_t> pick) const {
    Shard s = *this;
    s.pick_ = pick.data();
    s.size_ = pick.size();
    s.columns_ = nullptr;
    s.tiles_ = nullptr;
    s.entries_ = nullptr;
    return s;
  }
  std::size_t size() const { return size_; }
  std::size_t features() const { return data_->features; }
  bool sparse() const { return data_->sparse(); }
  double row_bound() const { return data_->row_bound; }
  Row row(std::size_t i) const { return data_->row(At(i)); }
  // Rows first … first + count − 1 of this (contiguous) shard.
  Shard Slice(std::size_t first, std::size_t count) const {
    return Shard(*data_, begin_ + first, count, nullptr, nullptr, nullptr, fours_);
  }
  std::uint32_t person(std::size_t i) const { return data_->person[At(i)]; }
  double label(std::size_t i) const { return data_->label[At(i)]; }
  double norm(std::size_t i) const { return data_->norm[At(i)]; }  // ≥ ‖row i‖₂
  double row_value(std::size_t i) const { return data_->row_value[At(i)]; }  // where row_value is filled
  const Dataset& dataset() const { return *data_; }
  // These rows were read and are not needed until the next pass. Says nothing about rows in memory; of rows
  // in a file the pages may go.
  void Done(std::size_t first, std::size_t count) const {
    if (data_->mapped) Forget(first, count);
  }
  // How many rows to read before saying Done: all, or a few megabytes of a file.
  std::size_t block() const {
    constexpr std::size_t kBytes = std::size_t{1} << 23;
    if (!data_->mapped) return std::numeric_limits<std::size_t>::max();
    return std::max<std::size_t>(1, kBytes / sizeof(double) / std::max<std::size_t>(1, features()));
  }
  std::size_t begin() const { return begin_; }
  std::size_t At(std::size_t i) const { return begin_ + (pick_ ? pick_[i] : i); }  // row i in the data set
  bool contiguous() const { return pick_ == nullptr; }
  // Whether dense rows follow each other, from dataset().dense() + begin()·features on.
  bool laid_out() const { return contiguous() && data_->maker == nullptr; }
  const Columns* columns() const { return columns_; }  // nullptr: rows only
  const double* tiles() const { return tiles_; }  // Tiles of all rows; nullptr: rows only
  const RowEntries* entries() const { return entries_; }  // of all rows; nullptr: rows only
  const RowFours* fours() const { return fours_; }  // with row At(i) of the data set; nullptr: rows only

 private:
  void Forget(std::size_t first, std::size_t count) const;
  const Dataset* data_ = nullptr;
  std::size_t begin_ = 0, size_ = 0;
  const std::uint32_t* pick_ = nullptr;
  const Columns* columns_ = nullptr;
  const double* tiles_ = nullptr;
  const RowEntries* entries_ = nullptr;
  const RowFours* fours_ = nullptr;
};

}  // namespace tacit
