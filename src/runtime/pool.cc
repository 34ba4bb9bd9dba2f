#include "runtime/pool.h"

#include <immintrin.h>

namespace tacit {
namespace {

// Rounds take tens of microseconds: spin that long before asking the kernel to wait, unless there are
// more threads than cores, where spinning holds up the thread that is waited for.
constexpr int kSpins = 4000;

template <class T>
void AwaitChange(const std::atomic<T>& value, T old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

Pool::Pool(unsigned threads) : spins_(threads > std::thread::hardware_concurrency() ? 0 : kSpins) {
  for (unsigned k = 1; k < threads; ++k) workers_.emplace_back([this, k] { Work(k); });
}

Pool::~Pool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (auto& w : workers_) w.join();
}

void Pool::Start(Call call, void* job) {
  if (workers_.empty()) return call(job, 0);
  call_ = call;      // the door is shut and nobody is inside
  job_ = job;
  door_.store(kOpen, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  call(job, 0);
  for (unsigned left = door_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen; left != 0;
       left = door_.load(std::memory_order_acquire))
    AwaitChange(door_, left, spins_);
}

void Pool::Work(unsigned k) {
  for (std::uint64_t seen = 0;;) {
    AwaitChange(generation_, seen, spins_);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    unsigned door = door_.load(std::memory_order_relaxed);
    while ((door & kOpen) != 0 && !door_.compare_exchange_weak(door, door + 1, std::memory_order_acquire)) {
    }
    if ((door & kOpen) == 0) continue;      // too late
    call_(job_, k);
    if (door_.fetch_sub(1, std::memory_order_acq_rel) == 1) door_.notify_one();
  }
}

}  // namespace tacit
