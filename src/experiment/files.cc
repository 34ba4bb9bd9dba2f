#include "experiment/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "privacy/mask_keys.h"

namespace tacit {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

// The rename is durable once the folder is.
bool SyncFolder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = ::fsync(fd) == 0 || errno == EINVAL;      // some file systems cannot, and need not
  ::close(fd);
  return ok;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path file, std::filesystem::path draft, int fd, Access access)
    : file_(std::move(file)), draft_(std::move(draft)), fd_(fd), access_(access) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : file_(std::move(other.file_)),
      draft_(std::move(other.draft_)),
      fd_(std::exchange(other.fd_, -1)),
      access_(other.access_),
      buffer_(std::move(other.buffer_)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(draft_.c_str());
}

Result<AtomicFile> AtomicFile::Create(const std::filesystem::path& file, Access access) {
  std::filesystem::path draft = file;
  draft += ".draft";
  const int fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                        access == Access::kOwnerOnly ? 0600 : 0666);
  AtomicFile out(file, draft, fd, access);
  if (fd < 0) return out.Trouble();
  // A draft that a crash left behind keeps its mode when it is opened again.
  if (access == Access::kOwnerOnly && ::fchmod(fd, 0600) != 0) return out.Trouble();
  return out;
}

Error AtomicFile::Trouble() const {
  return Fail(Code::kIo, "{}: cannot be written ({}); check the disk, its permissions and experiment.output",
              file_.string(), std::strerror(errno));
}

Status AtomicFile::Write(std::string_view bytes) {
  buffer_.append(bytes);
  return buffer_.size() >= kBuffer ? Flush() : Status(Ok{});
}

Status AtomicFile::Flush() {
  for (std::string_view rest = buffer_; !rest.empty();) {
    const ::ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Trouble();
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  if (access_ == Access::kOwnerOnly) Wipe(std::as_writable_bytes(std::span(buffer_)));
  buffer_.clear();
  return Ok{};
}

Status AtomicFile::Commit() {
  TACIT_OK(Flush());
  if (::fsync(fd_) != 0) return Trouble();
  ::close(std::exchange(fd_, -1));
  if (::rename(draft_.c_str(), file_.c_str()) != 0 || !SyncFolder(file_.parent_path())) {
    const Error error = Trouble();
    ::unlink(draft_.c_str());
    return error;
  }
  return Ok{};
}

Status MakeOwnFolder(const std::filesystem::path& folder) {
  std::error_code ec;
  std::filesystem::path at;
  for (const std::filesystem::path& part : std::filesystem::absolute(folder, ec)) {
    at /= part;
    if (part.empty() || ::mkdir(at.c_str(), 0700) == 0 || errno == EEXIST) continue;
    if (std::filesystem::is_directory(at, ec)) continue;  // where no folder could be made in any case
    return Fail(Code::kIo, "{}: cannot be made: {}; check permissions", at.string(), std::strerror(errno));
  }
  return Ok{};
}

Status WriteWhole(const std::filesystem::path& file, std::string_view bytes) {
  TACIT_TRY(AtomicFile out, AtomicFile::Create(file));
  TACIT_OK(out.Write(bytes));
  return out.Commit();
}

Result<std::string> ReadWhole(const std::filesystem::path& file, std::uintmax_t limit) {
  std::error_code ec;
  if (!std::filesystem::exists(file, ec))
    return Fail(Code::kNotFound, "{}: no such file; check the path", file.string());
  if (std::filesystem::is_directory(file, ec))
    return Fail(Code::kInvalidArgument, "{}: is a folder; name a file", file.string());
  const std::uintmax_t size = std::filesystem::file_size(file, ec);
  if (!ec && size > limit)
    return Fail(Code::kMalformed, "{}: has {} bytes, more than the {} such a file may have", file.string(),
                size, limit);
  std::ifstream in(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in.good() && !in.eof())
    return Fail(Code::kIo, "{}: cannot be read ({}); check its permissions", file.string(),
                std::strerror(errno));
  if (!in.is_open()) return Fail(Code::kIo, "{}: cannot be opened; check its permissions", file.string());
  return bytes;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

Status FolderLock::Take(const std::filesystem::path& folder) {
  fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0) return Ok{};
  if (const int why = errno; why != EWOULDBLOCK)
    return Fail(Code::kIo, "{}: cannot be locked: {}; check that it is there and its permissions",
                folder.string(), std::strerror(why));
  busy_ = true;
  return Fail(Code::kIo, "{}: another process is working on this run; let it finish, or stop it first",
              folder.string());
}

}  // namespace tacit
