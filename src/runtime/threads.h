#pragma once

// The in-process runtime: every client of a simulation on a few threads. Messages travel as values.
// The model is the same bit for bit for any number of threads.
#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "algorithms/algorithm.h"
#include "core/rng.h"
#include "runtime/pool.h"

namespace tacit {

// Where clients' noise comes from. Replayable noise is addressed by (seed, client, round), so it does
// not depend on threads and a resumed run needs no generator state.
struct NoiseSource {
  std::optional<std::uint64_t> replay_seed;      // nullopt: the operating system's entropy
};

// What the driver tells whoever watches, after every round. Returning false stops the run.
struct RoundReport {
  std::uint32_t round = 0;                       // from 1; skipped rounds are not reported
  std::size_t bytes_up = 0, bytes_down = 0;      // of this round, over all clients
  bool last = false;
};
struct Watcher {
  std::function<Status(std::uint32_t round)> before;  // e.g. reserve budget; an error ends the run
  std::function<Status(const RoundReport&)> after;
};

template <Algorithm A>
class ThreadRuntime {
 public:
  ThreadRuntime(unsigned threads, NoiseSource noise) : pool_(threads), noise_(noise) {
    for (unsigned k = 0; k < pool_.size(); ++k) {
      rngs_.push_back(noise.replay_seed ? NoiseRng::Replayable({*noise.replay_seed, Purpose::kNoise, 0, 0})
                                        : NoiseRng::FromEntropy());
    }
    lanes_ = std::vector<Lane>(pool_.size());
    for (unsigned k = 0; k < pool_.size(); ++k) lanes_[k].scratch.rng = &rngs_[k];
  }
  unsigned threads() const { return pool_.size(); }

  // The only loop. A client's refusal ends the run before anything more is sent.
  Status Run(typename A::Server& server, std::vector<typename A::Client>& clients, const Watcher& watcher) {
    typename A::Down down;
    for (bool more = server.Start(down); more;) {
      RoundReport report{.round = server.round()};
      TACIT_OK(watcher.before(report.round));
      TACIT_OK(Round(down, clients, report));
      more = server.Round(total_, down);
      report.last = !more;
      if (report.last) {
        ForEach(clients, [&](typename A::Client& c) { c.Finish(down); });
        report.bytes_down += WireSize(down) * clients.size();
      }
      TACIT_OK(watcher.after(report));
    }
    return Ok{};
  }

 private:
  struct Lane {  // one thread's reusable state
    Scratch scratch;
    typename A::Up up;
    std::size_t bytes_up = 0;
  };
  struct Slot {
    typename A::Sum sum;
    bool done = false;
  };

  // Clients per chunk: a function of the cohort alone, so that sums are too.
  static std::size_t ChunkOf(std::size_t clients) { return std::clamp<std::size_t>(clients / 64, 1, 1024); }

  Status Round(typename A::Down& down, std::vector<typename A::Client>& clients, RoundReport& report) {
    const std::size_t chunk = ChunkOf(clients.size()), chunks = (clients.size() + chunk - 1) / chunk;
    slots_.resize(std::min<std::size_t>(chunks, 4 * pool_.size()));
    for (Slot& s : slots_) s.done = false;
    total_.Reset();
    std::atomic<std::size_t> next{0}, merged{0};
    std::atomic<bool> failed{false};
    std::optional<Error> error;
    std::size_t error_client = clients.size();
    std::mutex mutex;  // guards merging and the error
    pool_.Run([&](unsigned k) {
      Lane& lane = lanes_[k];
      for (;;) {
        const std::size_t c = next.fetch_add(1, std::memory_order_relaxed);
        if (c >= chunks) return;
        // A slot is free once the chunk that used it is merged.
        while (c >= merged.load(std::memory_order_acquire) + slots_.size()) std::this_thread::yield();
        Slot& slot = slots_[c % slots_.size()];
        slot.sum.Reset();
        for (std::size_t i = c * chunk; i < std::min(clients.size(), (c + 1) * chunk); ++i) {
          if (failed.load(std::memory_order_relaxed)) break;
          if (noise_.replay_seed)
            lane.scratch.rng->Rekey(
                {*noise_.replay_seed, Purpose::kNoise, static_cast<std::uint32_t>(i), report.round});
          if (Status s = clients[i].Round(down, lane.up, lane.scratch); !s.ok()) {
            const std::lock_guard lock(mutex);
            if (i < error_client) error = s.error(), error_client = i;
            failed.store(true, std::memory_order_relaxed);
            break;
          }
          slot.sum.Add(lane.up);
          lane.bytes_up += WireSize(lane.up);
        }
        const std::lock_guard lock(mutex);
        slot.done = true;
        for (std::size_t m = merged.load(std::memory_order_relaxed); m < chunks; ++m) {
          Slot& s = slots_[m % slots_.size()];
          if (!s.done) break;
          total_.Merge(s.sum);
          s.done = false;
          merged.store(m + 1, std::memory_order_release);
        }
      }
    });
    for (Lane& lane : lanes_) report.bytes_up += std::exchange(lane.bytes_up, 0);
    report.bytes_down = WireSize(down) * clients.size();
    if (error) return *error;
    return Ok{};
  }

  template <class F>
  void ForEach(std::vector<typename A::Client>& clients, F f) {
    std::atomic<std::size_t> next{0};
    pool_.Run([&](unsigned) {
      for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < clients.size();) f(clients[i]);
    });
  }

  Pool pool_;
  NoiseSource noise_;
  std::vector<NoiseRng> rngs_;
  std::vector<Lane> lanes_;
  std::vector<Slot> slots_;
  typename A::Sum total_;
};

}  // namespace tacit
