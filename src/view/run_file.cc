#include "view/run_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace tacit {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    const int kept = errno;  // a caller may still want to tell it
    if (fd_ >= 0) ::close(fd_);
    errno = kept;
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// The folder itself: with it open, nobody can put another one in its place between two steps.
int OpenFolder(const std::filesystem::path& folder) {
  // "runs/a/" would follow a link of that name.
  const std::filesystem::path plain = folder.has_filename() ? folder : folder.parent_path();
  return ::open(plain.empty() ? "." : plain.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

Error Trouble(const std::filesystem::path& file, const char* what) {
  return Fail(errno == ENOENT ? Code::kNotFound : Code::kIo, "{}: cannot be {} ({})", file.string(), what,
              std::strerror(errno));
}
Error NoFile(const std::filesystem::path& file) {
  return Fail(Code::kMalformed,
              "{}: is a link, a pipe or another thing that is no file, and no run has one; put a file there",
              file.string());
}

}  // namespace

RunFile::RunFile(std::filesystem::path file, int fd, std::uint64_t size)
    : file_(std::move(file)), fd_(fd), size_(size) {}

RunFile::RunFile(RunFile&& other) noexcept
    : file_(std::move(other.file_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

RunFile::~RunFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<RunFile> RunFile::Open(const std::filesystem::path& folder, const char* name) {
  const std::filesystem::path file = folder / name;
  const Descriptor at(OpenFolder(folder));
  if (at.get() < 0) return Trouble(file, "opened");
  // Looked at before it is opened, as opening a device may do something, and after, as it may be another one.
  struct stat s{};
  if (::fstatat(at.get(), name, &s, AT_SYMLINK_NOFOLLOW) != 0) return Trouble(file, "opened");
  if (!S_ISREG(s.st_mode)) return NoFile(file);
  Descriptor in(::openat(at.get(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (in.get() < 0) return Trouble(file, "opened");
  if (::fstat(in.get(), &s) != 0) return Trouble(file, "read");
  if (!S_ISREG(s.st_mode)) return NoFile(file);
  return RunFile(file, in.Release(), static_cast<std::uint64_t>(s.st_size));
}

Result<std::size_t> RunFile::ReadAt(std::uint64_t offset, char* into, std::size_t bytes) const {
  std::size_t have = 0;
  while (have < bytes) {
    const ::ssize_t n = ::pread(fd_, into + have, bytes - have, static_cast<::off_t>(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Trouble(file_, "read");
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  return have;
}

bool HasRunFile(const std::filesystem::path& folder, const char* name) {
  const Descriptor at(OpenFolder(folder));
  struct stat s{};
  return at.get() >= 0 && ::fstatat(at.get(), name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode);
}

Result<std::string> ReadRunFile(const std::filesystem::path& folder, const char* name, std::size_t limit) {
  TACIT_TRY(const RunFile in, RunFile::Open(folder, name));
  std::string text;
  constexpr std::size_t kBlock = std::size_t{1} << 16;
  // A file may have grown since it was opened, and some tell no size.
  for (;;) {
    const std::size_t have = text.size();
    text.resize(std::min(
        limit + 1, std::max<std::size_t>(have + kBlock, std::min<std::uint64_t>(in.size(), limit) + 1)));
    TACIT_TRY(const std::size_t more, in.ReadAt(have, text.data() + have, text.size() - have));
    const bool end = have + more < text.size();
    text.resize(have + more);
    if (text.size() > limit)
      return Fail(Code::kMalformed, "{}: has more than the {} bytes such a file may have",
                  (folder / name).string(), limit);
    if (end) return text;
  }
}

Status WriteRunFile(const std::filesystem::path& folder, const char* name, std::string_view text) {
  const std::filesystem::path file = folder / name;
  const std::string draft = std::string(name) + ".draft";
  const Descriptor at(OpenFolder(folder));
  if (at.get() < 0) return Trouble(file, "written");
  ::unlinkat(at.get(), draft.c_str(), 0);  // what a crash left, or a link that leads elsewhere
  const Descriptor out(
      ::openat(at.get(), draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (out.get() < 0) return Trouble(file, "written");
  bool good = true;
  for (std::string_view rest = text; good && !rest.empty();) {
    const ::ssize_t n = ::write(out.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    good = n > 0;
    if (good) rest.remove_prefix(static_cast<std::size_t>(n));
  }
  if (good && ::fsync(out.get()) == 0 && ::renameat(at.get(), draft.c_str(), at.get(), name) == 0) {
    (void)::fsync(at.get());  // some file systems cannot, and need not
    return Ok{};
  }
  const Error error = Trouble(file, "written");
  ::unlinkat(at.get(), draft.c_str(), 0);
  return error;
}

RunLock::RunLock(RunLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
RunLock::~RunLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<RunLock> RunLock::Take(const std::filesystem::path& folder, const char* name, double seconds) {
  const std::filesystem::path file = folder / name;
  const Descriptor at(OpenFolder(folder));
  if (at.get() < 0) return Trouble(file, "opened");
  Descriptor lock(::openat(at.get(), name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (lock.get() < 0) return Trouble(file, "opened");
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Trouble(file, "locked");
    if (std::chrono::steady_clock::now() >= until)
      return Fail(Code::kIo, "{}: another process has held this lock for {} s; end it, or try again",
                  file.string(), seconds);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return RunLock(lock.Release());
}

std::filesystem::path ResolvedFolder(const std::filesystem::path& folder) {
  std::filesystem::path plain = folder.has_filename() ? folder : folder.parent_path();
  std::error_code ec;
  if (!std::filesystem::is_symlink(plain, ec)) return plain;
  std::filesystem::path real = std::filesystem::canonical(plain, ec);
  return ec ? plain : real;
}

}  // namespace tacit
