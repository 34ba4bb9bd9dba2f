#pragma once

// Rows that the calling program has in memory, as a data source: while an OfferedRows lives, its thread finds
// them as data.source (or data.test) = "memory:NAME". Nothing is copied before a run reads them, and a run
// treats them like the rows of a file: NaN means missing, infinities are an error.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "data/dataset.h"

namespace tacit {

// A view: whoever offers rows keeps them as they are.
struct MemoryRows {
  std::size_t rows = 0, features = 0;
  std::span<const double> value = {};  // dense: rows × features, row-major; sparse: the non-zeros
  std::span<const std::int32_t> column = {};  // sparse only, ascending in a row
  std::span<const std::int64_t> row_begin = {};  // sparse only, rows + 1 entries; empty: dense
  std::span<const double> label = {};
  std::span<const std::uint32_t> group = {}, person = {};  // empty, or one number a row
  std::vector<std::string> group_name = {};  // of group 0, 1, …
};

class OfferedRows {
 public:
  // `source` is "memory:NAME". An error if it has no name, or this thread offers other rows under it.
  static Result<OfferedRows> Offer(std::string source, MemoryRows);
  OfferedRows(OfferedRows&&) noexcept;
  OfferedRows& operator=(OfferedRows&&) = delete;
  ~OfferedRows();

 private:
  explicit OfferedRows(std::string source) : source_(std::move(source)) {}
  std::string source_;
};

bool IsMemory(std::string_view source);
bool IsOffered(std::string_view source);

// The rows as a Dataset: `rows` of them from `skip` on, 0 for all. missing: what stands for NaN.
struct MemoryOptions {
  std::size_t rows = 0, skip = 0;
  double missing = 0;
};
Result<Dataset> LoadMemory(const std::string& source, const MemoryOptions&);
// SHA-256 of all that is offered but who holds it, in hex; empty if nothing is. Read off the data: never
// shown.
std::string MemoryDigest(std::string_view source);

}  // namespace tacit
