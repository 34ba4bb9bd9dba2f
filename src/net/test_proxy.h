#pragma once

// For tests: a TCP proxy that stands between clients and a server and does to their bytes what networks do.
// Which fault hits a connection after how many bytes is drawn from a seed; after `most` faults it only
// forwards, so that every run ends.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/rng.h"

namespace tacit {

class FaultProxy {
 public:
  enum Kind { kDelay, kCut, kTruncate, kRepeat, kFlip, kReplay, kKinds };
  static constexpr std::array<const char*, kKinds> kNames = {
      "delays",           "connections reset", "streams cut in a message",
      "bytes sent twice", "bytes changed",     "connections replayed"};
  struct Options {
    int port = 0;               // of the server, on this machine
    std::uint64_t seed = 0;
    std::size_t most = 0;       // faults
    std::size_t apart = 20000;  // bytes of a connection between two of them, at most
    bool capture = false;       // keep all bytes that clients and server send
  };

  explicit FaultProxy(const Options& o) : o_(o), coins_({o.seed, Purpose::kTest, 0, 1}) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in a = Loopback(0);
    socklen_t size = sizeof a;
    TACIT_CHECK(listener_ >= 0 && ::bind(listener_, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0);
    TACIT_CHECK(::listen(listener_, 512) == 0);
    TACIT_CHECK(::getsockname(listener_, reinterpret_cast<sockaddr*>(&a), &size) == 0);
    port_ = ntohs(a.sin_port);
    TACIT_CHECK(::pipe2(bell_, O_CLOEXEC | O_NONBLOCK) == 0);
    thread_ = std::jthread([this] { Run(); });
  }
  ~FaultProxy() {
    end_ = true;
    Ring();
    thread_.join();
    for (const int fd : {listener_, bell_[0], bell_[1]}) ::close(fd);
  }
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  int port() const { return port_; }
  void Retarget(int port) { server_port_ = port; }
  std::size_t count(Kind kind) const { return counts_[kind]; }
  std::size_t total() const {
    std::size_t all = 0;
    for (const auto& n : counts_) all += n;
    return all;
  }
  std::size_t connections() const { return connections_; }

  // While on: connections are reset, and new ones too. Returns when it is so.
  void Cut(bool on) { Set(cut_, on); }
  // While on: what clients say is not forwarded, what the server says is.
  void Hold(bool on) { Set(hold_, on); }

  // Everything that went either way, one text a connection and direction.
  std::vector<std::string> Captured() const {
    const std::lock_guard lock(mutex_);
    return captured_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kBuffer = 64 << 10, kRecord = 1 << 20;
  struct Pipe {
    std::string pending;
    bool ended = false, told = false;
    std::size_t captured = 0;  // place among the texts
  };
  struct Connection {
    int client = -1, server = -1;  // client -1: a ghost, which says what another once said
    Pipe up, down;
    std::string said;  // by the client, to be repeated by a ghost
    std::size_t passed = 0, next = 0;
    Kind kind = kDelay;
    bool done = false;
    Clock::time_point resume{}, until = Clock::time_point::max();
  };

  static sockaddr_in Loopback(int port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(static_cast<std::uint16_t>(port));
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
  }
  void Ring() const {
    const char one = 1;
    [[maybe_unused]] const auto n = ::write(bell_[1], &one, 1);
  }
  void Set(std::atomic<bool>& flag, bool on) {
    flag = on;
    const std::size_t before = turns_;
    while (turns_ < before + 2 && !end_) {
      Ring();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  int Connect() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in a = Loopback(server_port_ != 0 ? server_port_.load() : o_.port);
    if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0) {
      if (fd >= 0) ::close(fd);
      return -1;
    }
    Prepare(fd);
    return fd;
  }
  static void Prepare(int fd) {
    const int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  static void Reset(int fd) {
    if (fd < 0) return;
    const linger now{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(fd);
  }
  void Draw(Connection& c) {
    c.next = c.passed + 1 + coins_.Below(o_.apart);
    if (deck_.empty())  // all kinds come, in an order that is drawn
      for (int k = 0; k < kKinds; ++k) deck_.push_back(static_cast<Kind>(k));
    const auto at = deck_.begin() + static_cast<std::ptrdiff_t>(coins_.Below(deck_.size()));
    c.kind = *at;
    deck_.erase(at);
  }
  void Accept() {
    for (;;) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      const int server = cut_ ? -1 : Connect();
      if (server < 0) {
        Reset(client);
        continue;
      }
      ++connections_;
      Prepare(client);
      Connection& c = all_.emplace_back();
      c.client = client, c.server = server;
      Draw(c);
      if (o_.capture) {
        const std::lock_guard lock(mutex_);
        c.up.captured = captured_.size(), c.down.captured = captured_.size() + 1;
        captured_.resize(captured_.size() + 2);
      }
    }
  }
  void End(Connection& c, bool reset) {
    for (const int fd : {c.client, c.server}) reset ? Reset(fd) : static_cast<void>(fd >= 0 && ::close(fd));
    c.done = true;
  }
  // Bytes of one direction as they came. A fault may change them, or end the connection.
  void Pass(Connection& c, Pipe& pipe, std::string bytes) {
    if (&pipe == &c.up && c.said.size() < kRecord) c.said += bytes;
    if (o_.capture) {
      const std::lock_guard lock(mutex_);
      captured_[pipe.captured] += bytes;
    }
    c.passed += bytes.size();
    if (c.client < 0 || c.passed < c.next || total() >= o_.most) {
      pipe.pending += bytes;
      return;
    }
    ++counts_[c.kind];
    switch (c.kind) {
      case kDelay: c.resume = Clock::now() + std::chrono::milliseconds(10 + coins_.Below(300)); break;
      case kCut: End(c, true); return;
      case kTruncate:
        pipe.pending += bytes.substr(0, bytes.size() / 2);
        Flush(c, pipe);
        End(c, false);
        return;
      case kRepeat: bytes += bytes; break;
      case kFlip: bytes[coins_.Below(bytes.size())] ^= 1; break;
      case kReplay: {
        const int server = Connect();
        if (server < 0) break;
        Connection& ghost = all_.emplace_back();
        ghost.server = server;
        ghost.up.pending = c.said;
        ghost.until = Clock::now() + std::chrono::seconds(2);
        break;
      }
      default: break;
    }
    pipe.pending += bytes;
    Draw(c);
  }
  void Flush(Connection& c, Pipe& pipe) {
    const int to = &pipe == &c.up ? c.server : c.client;
    while (!pipe.pending.empty() && to >= 0) {
      const auto n = ::send(to, pipe.pending.data(), pipe.pending.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno != EAGAIN && errno != EINTR) pipe.pending.clear(), pipe.ended = true;
      if (n <= 0) break;
      pipe.pending.erase(0, static_cast<std::size_t>(n));
    }
    if (to < 0) pipe.pending.clear();
    if (pipe.ended && pipe.pending.empty() && !pipe.told && to >= 0)
      ::shutdown(to, SHUT_WR), pipe.told = true;
  }
  void Take(Connection& c, Pipe& pipe) {
    char buffer[16 << 10];
    const int from = &pipe == &c.up ? c.client : c.server;
    const auto n = ::recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) return Pass(c, pipe, {buffer, static_cast<std::size_t>(n)});
    if (n == 0) pipe.ended = true;
    if (n < 0 && errno != EAGAIN && errno != EINTR) End(c, true);
  }

  void Run() {
    while (!end_) {
      const auto now = Clock::now();
      std::vector<pollfd> fds = {{listener_, POLLIN, 0}, {bell_[0], POLLIN, 0}};
      struct Place {
        Connection* c;
        bool up;  // the client's socket
      };
      std::vector<Place> places;
      int wait = 1000;
      for (Connection& c : all_) {
        if (cut_ && c.client >= 0) End(c, true);
        if (c.done) continue;
        if (now >= c.until) {
          End(c, true);
          continue;
        }
        const bool stalled = now < c.resume;
        if (stalled || c.until != Clock::time_point::max()) wait = 10;
        const auto wants = [&](const Pipe& in, const Pipe& out, bool held) {
          short events = 0;
          if (!stalled && !held && !in.ended && in.pending.size() < kBuffer) events |= POLLIN;
          if (!stalled && (!out.pending.empty() || (out.ended && !out.told))) events |= POLLOUT;
          return events;
        };
        if (c.client >= 0)
          if (const short e = wants(c.up, c.down, hold_); e != 0)
            fds.push_back({c.client, e, 0}), places.push_back({&c, true});
        if (const short e = wants(c.down, c.up, false); e != 0)
          fds.push_back({c.server, e, 0}), places.push_back({&c, false});
      }
      ++turns_;
      ::poll(fds.data(), fds.size(), wait);
      if (fds[1].revents != 0) {
        char many[64];
        while (::read(bell_[0], many, sizeof many) > 0) {
        }
      }
      for (std::size_t i = 0; i < places.size(); ++i) {
        const auto [c, up] = places[i];
        const short seen = fds[i + 2].revents;
        if (seen == 0 || c->done) continue;
        if ((seen & POLLOUT) != 0) Flush(*c, up ? c->down : c->up);
        if (!c->done && (seen & (POLLIN | POLLHUP | POLLERR)) != 0 && (fds[i + 2].events & POLLIN) != 0)
          Take(*c, up ? c->up : c->down);
        else if ((seen & POLLERR) != 0)
          End(*c, true);
        if (!c->done && Clock::now() >= c->resume) Flush(*c, c->up), Flush(*c, c->down);
        if (!c->done && c->up.told && c->down.told) End(*c, false);
        if (!c->done && c->client < 0 && c->down.ended) End(*c, false);
      }
      if (fds[0].revents != 0) Accept();
      all_.remove_if([](const Connection& c) { return c.done; });
    }
    for (Connection& c : all_)
      if (!c.done) End(c, true);
  }

  const Options o_;
  Stream coins_;
  std::vector<Kind> deck_;
  int listener_ = -1, port_ = 0, bell_[2] = {-1, -1};
  std::atomic<int> server_port_ = 0;
  std::atomic<bool> end_ = false, cut_ = false, hold_ = false;
  std::atomic<std::size_t> turns_ = 0, connections_ = 0;
  std::array<std::atomic<std::size_t>, kKinds> counts_ = {};
  std::list<Connection> all_;
  mutable std::mutex mutex_;
  std::vector<std::string> captured_;
  std::jthread thread_;
};

}  // namespace tacit
