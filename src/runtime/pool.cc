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
  call_ = call;
  job_ = job;
  running_.store(static_cast<unsigned>(workers_.size()), std::memory_order_relaxed);
  if (!workers_.empty()) {
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  call(job, 0);
  for (unsigned left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire))
    AwaitChange(running_, left, spins_);
}

void Pool::Work(unsigned k) {
  for (std::uint64_t seen = 0;;) {
    AwaitChange(generation_, seen, spins_);
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    call_(job_, k);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace tacit
