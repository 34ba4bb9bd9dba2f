#pragma once

// A few threads that run the same function at once and then wait for the next. Small on purpose:
// what is computed never depends on how many there are.
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace tacit {

class Pool {
 public:
  explicit Pool(unsigned threads);             // the caller is one of them; 0 counts as 1
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  unsigned size() const { return static_cast<unsigned>(workers_.size()) + 1; }

  // Calls job(0) on this thread and job(k) on the others, and returns when no call is running any more. A job
  // takes its work from a common queue until none is left, so nobody is waited for that has not begun: a
  // thread that comes late, because the machine is busy, is left out. It may also be called twice, one after
  // the other.
  template <class Job>
  void Run(Job&& job) {
    Start([](void* j, unsigned k) { (*static_cast<std::remove_reference_t<Job>*>(j))(k); }, &job);
  }

 private:
  using Call = void (*)(void*, unsigned);
  void Start(Call call, void* job);
  void Work(unsigned k);

  const int spins_;  // before waiting in the kernel
  Call call_ = nullptr;
  void* job_ = nullptr;
  std::atomic<std::uint64_t> generation_{0};
  static constexpr unsigned kOpen = 1u << 31;
  std::atomic<unsigned> door_{0};  // how many workers are inside; with kOpen, more may come in
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace tacit
