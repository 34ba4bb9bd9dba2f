#pragma once

// Dense rows in a file instead of memory, for sets larger than it.
//
// Rows are written once, in order, after preprocessing, to a scratch file that has no name (nobody else can
// open it, and it is gone with the process), and then mapped. Pages come in when they are read; whoever is
// done with rows says so (Shard::Done) and their pages leave the process again. So what is resident is what
// is in use: a block of rows a thread for linear models, the rows of a client a thread for networks. The
// kernel may keep the file in its cache as long as nobody needs that memory.
#include <cstddef>
#include <filesystem>
#include <memory>

#include "core/result.h"
#include "data/dataset.h"

namespace tacit {

// A read-only view of the file. Thread-safe.
class MappedRows {
 public:
  MappedRows(const double* base, std::size_t bytes, std::filesystem::path folder)
      : base_(base), bytes_(bytes), folder_(std::move(folder)) {}
  ~MappedRows();
  MappedRows(const MappedRows&) = delete;
  MappedRows& operator=(const MappedRows&) = delete;

  const double* data() const { return base_; }
  const std::filesystem::path& folder() const { return folder_; }
  // Lets the pages of these numbers go; reading them again brings them back.
  void Drop(std::size_t first, std::size_t count) const;

 private:
  const double* base_;
  std::size_t bytes_;
  std::filesystem::path folder_;
};

// Where scratch files go if nothing else is said: $TMPDIR, or /var/tmp, since /tmp may be memory.
std::filesystem::path DefaultScratch();

class RowWriter {
 public:
  // A scratch file in this folder.
  static Result<RowWriter> Open(const std::filesystem::path& folder);
  RowWriter(RowWriter&&) noexcept;
  RowWriter& operator=(RowWriter&&) = delete;
  ~RowWriter();

  // The rows of a batch, in dense form. Labels, norms, groups and persons are kept in memory.
  Status Append(const Dataset& batch);
  // The rows pick[0], pick[1], … of a mapped set.
  Status AppendRows(const Dataset& from, const std::vector<std::size_t>& pick);
  // Everything appended, as one data set.
  Result<Dataset> Finish();

 private:
  explicit RowWriter(int fd, std::filesystem::path folder) : fd_(fd), folder_(std::move(folder)) {}
  Status Write(const double* values, std::size_t count);
  void Keep(const Dataset& from, std::size_t row);
  void KeepShape(const Dataset& from);
  int fd_;
  std::filesystem::path folder_;
  Dataset kept_;
  std::size_t values_ = 0;
};

}  // namespace tacit
