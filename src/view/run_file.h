#pragma once

// The files of a run, read and written as what they are: files in its folder. Whoever may write into a folder
// of runs could otherwise put a link there to any file that its reader can open, and have it shown on a page,
// or a pipe that no reader ever sees the end of. So nothing here follows a link, neither the file's nor the
// folder's own, and nothing but a regular file is read.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/result.h"

namespace tacit {

class RunFile {
 public:
  // kNotFound if it is not there; an error, too, if it is anything but a file.
  static Result<RunFile> Open(const std::filesystem::path& folder, const char* name);
  RunFile(RunFile&& other) noexcept;
  RunFile& operator=(RunFile&&) = delete;
  ~RunFile();
  std::uint64_t size() const { return size_; }  // when it was opened
  // As many bytes as there are from the offset on, at most `bytes`.
  Result<std::size_t> ReadAt(std::uint64_t offset, char* into, std::size_t bytes) const;

 private:
  RunFile(std::filesystem::path file, int fd, std::uint64_t size);
  std::filesystem::path file_;
  int fd_;
  std::uint64_t size_;
};

bool HasRunFile(const std::filesystem::path& folder, const char* name);
// The whole of it; more than `limit` bytes is an error that says so.
Result<std::string> ReadRunFile(const std::filesystem::path& folder, const char* name, std::size_t limit);
// In place of what was there: afterwards the file is the old one or the new one. For one process at a time.
Status WriteRunFile(const std::filesystem::path& folder, const char* name, std::string_view text);

// An exclusive lock between processes that is held by a file of the run, until it is destroyed.
class RunLock {
 public:
  // Waits for at most `seconds`; then an error.
  static Result<RunLock> Take(const std::filesystem::path& folder, const char* name, double seconds);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  explicit RunLock(int fd) : fd_(fd) {}
  int fd_;
};

// Where a folder that somebody named lies, if that name is a link: who names a link means what it leads to.
std::filesystem::path ResolvedFolder(const std::filesystem::path& folder);

}  // namespace tacit
