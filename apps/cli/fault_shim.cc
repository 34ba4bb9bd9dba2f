// For tests, by LD_PRELOAD: a clock that jumps, and a disk that is full.
//
//   TACIT_FAULT_CLOCK=jump:SEED    the time of day is up to two days ahead, by another amount every half
//   second TACIT_FAULT_CLOCK=back:MS      it is half a day ahead, until it is set right after so many
//   milliseconds TACIT_FAULT_CLOCK=SECONDS      it is ahead by so much, always TACIT_FAULT_DISK=BYTES:FOLDER
//   after so many bytes in files below FOLDER nothing more can be written there
//
// Steady clocks are left alone, as a real jump leaves them; who waits for a time of day (gRPC does, by futex)
// waits for it by this clock, as the kernel would have it.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

namespace {

template <class F>
F* Next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

timespec Steady() {
  static auto* const next = Next<int(clockid_t, timespec*)>("clock_gettime");
  timespec t{};
  next(CLOCK_MONOTONIC, &t);
  return t;
}
std::uint64_t Milliseconds(const timespec& t) {
  return static_cast<std::uint64_t>(t.tv_sec) * 1000 + static_cast<std::uint64_t>(t.tv_nsec) / 1000000;
}

long Shift() {
  static const char* const text = std::getenv("TACIT_FAULT_CLOCK");
  if (text == nullptr) return 0;
  static const std::uint64_t begin = Milliseconds(Steady());
  if (std::strncmp(text, "back:", 5) == 0)
    return Milliseconds(Steady()) - begin < std::strtoull(text + 5, nullptr, 10) ? 12 * 3600 : 0;
  if (std::strncmp(text, "jump:", 5) != 0) return std::atol(text);
  static const std::uint64_t seed = std::strtoull(text + 5, nullptr, 10);
  std::uint64_t z = seed + 0x9e3779b97f4a7c15 * ((Milliseconds(Steady()) - begin) / 500);  // SplitMix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<long>((z ^ (z >> 31)) % (48 * 3600));
}

// How many of so many bytes still fit into the file.
std::size_t Room(int fd, std::size_t wanted) {
  static const char* const text = std::getenv("TACIT_FAULT_DISK");
  static const char* const folder = text != nullptr ? std::strchr(text, ':') : nullptr;
  if (folder == nullptr || wanted == 0) return wanted;
  static std::atomic<long> left{std::atol(text)};
  char link[64], name[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = ::readlink(link, name, sizeof name - 1);
  if (n <= 0) return wanted;
  name[n] = '\0';
  if (!std::string_view(name).starts_with(folder + 1)) return wanted;
  const long before = left.fetch_sub(static_cast<long>(wanted));
  return before <= 0 ? 0 : std::size_t(before) < wanted ? static_cast<std::size_t>(before) : wanted;
}
ssize_t Full() {
  errno = ENOSPC;
  return -1;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* to) noexcept {
  static auto* const next = Next<int(clockid_t, timespec*)>("clock_gettime");
  const int done = next(clock, to);
  if (done == 0 && clock == CLOCK_REALTIME) to->tv_sec += Shift();
  return done;
}
int gettimeofday(timeval* to, void* zone) noexcept {
  static auto* const next = Next<int(timeval*, void*)>("gettimeofday");
  const int done = next(to, zone);
  if (done == 0 && to != nullptr) to->tv_sec += Shift();
  return done;
}
time_t time(time_t* to) noexcept {
  static auto* const next = Next<time_t(time_t*)>("time");
  const time_t now = next(nullptr) + Shift();
  if (to != nullptr) *to = now;
  return now;
}

long syscall(long number, ...) noexcept {
  static auto* const next = Next<long(long, ...)>("syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& one : a) one = va_arg(list, long);
  va_end(list);
  const auto* until = reinterpret_cast<const timespec*>(a[3]);  // NOLINT(performance-no-int-to-ptr): as given
  static const bool shifted = std::getenv("TACIT_FAULT_CLOCK") != nullptr;
  if (!shifted || number != SYS_futex || (a[1] & FUTEX_CLOCK_REALTIME) == 0 || until == nullptr)
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  // In short waits by the steady clock, until the time has come by the clock that jumps.
  for (;;) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec)) {
      errno = ETIMEDOUT;
      return -1;
    }
    timespec soon = Steady();
    soon.tv_nsec += 10'000'000;
    if (soon.tv_nsec >= 1'000'000'000) soon.tv_nsec -= 1'000'000'000, ++soon.tv_sec;
    const long left = (until->tv_sec - now.tv_sec) * 1000 + (until->tv_nsec - now.tv_nsec) / 1'000'000;
    if (left < 10) {
      soon = Steady();
      soon.tv_nsec += 1'000'000;
      if (soon.tv_nsec >= 1'000'000'000) soon.tv_nsec -= 1'000'000'000, ++soon.tv_sec;
    }
    const long done =
        next(number, a[0], a[1] & ~FUTEX_CLOCK_REALTIME, a[2], reinterpret_cast<long>(&soon), a[4], a[5]);
    if (done == 0 || errno != ETIMEDOUT) return done;
  }
}

ssize_t write(int fd, const void* from, size_t size) {
  static auto* const next = Next<ssize_t(int, const void*, size_t)>("write");
  const std::size_t room = Room(fd, size);
  return room == 0 && size != 0 ? Full() : next(fd, from, room);
}
ssize_t pwrite64(int fd, const void* from, size_t size, off64_t at) {
  static auto* const next = Next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  const std::size_t room = Room(fd, size);
  return room == 0 && size != 0 ? Full() : next(fd, from, room, at);
}
ssize_t pwrite(int fd, const void* from, size_t size, off_t at) { return pwrite64(fd, from, size, at); }
ssize_t writev(int fd, const iovec* parts, int count) {
  static auto* const next = Next<ssize_t(int, const iovec*, int)>("writev");
  std::size_t size = 0;
  for (int i = 0; i < count; ++i) size += parts[i].iov_len;
  const std::size_t room = Room(fd, size);
  if (room == size) return next(fd, parts, count);
  if (room == 0) return Full();
  return next(fd, parts, 1);
}
int posix_fallocate(int fd, off_t at, off_t size) {
  static auto* const next = Next<int(int, off_t, off_t)>("posix_fallocate");
  return Room(fd, static_cast<std::size_t>(size)) < static_cast<std::size_t>(size) ? ENOSPC
                                                                                   : next(fd, at, size);
}

}  // extern "C"
