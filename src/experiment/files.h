#pragma once

// Files that are there whole or not at all.
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"

namespace tacit {

// Writes beside `file` and takes its place when committed: after a crash at any instant, `file` is the old
// one or the new one. Durable when Commit returns.
class AtomicFile {
 public:
  enum class Access { kUsual, kOwnerOnly };
  static Result<AtomicFile> Create(const std::filesystem::path& file, Access = Access::kUsual);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();                                     // not committed: leaves nothing behind
  Status Write(std::string_view bytes);              // buffered
  Status Commit();

 private:
  AtomicFile(std::filesystem::path file, std::filesystem::path draft, int fd, Access);
  Status Flush();
  Error Trouble() const;
  std::filesystem::path file_, draft_;
  int fd_ = -1;
  Access access_;
  std::string buffer_;  // wiped where the file is the owner's alone
};

// A folder is one process's at a time; a process that is gone holds nothing.
class FolderLock {
 public:
  FolderLock() = default;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();
  Status Take(const std::filesystem::path& folder);
  bool busy() const { return busy_; }  // why it was not taken: another process has it

 private:
  int fd_ = -1;
  bool busy_ = false;
};

// A folder for its owner alone, and those above it that are missing; one that is there stays as it is.
Status MakeOwnFolder(const std::filesystem::path& folder);
Status WriteWhole(const std::filesystem::path& file, std::string_view bytes);
// At most `limit` bytes; more is an error that says so.
Result<std::string> ReadWhole(const std::filesystem::path& file,
                              std::uintmax_t limit = std::uintmax_t{1} << 40);

}  // namespace tacit
