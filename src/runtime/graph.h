#pragma once

// The in-process runtime of a network: every peer of a simulation on a few threads, in synchronous rounds.
// Notes travel as values, and a peer sees those of its neighbours alone. The same bits for any number of
// threads; rounds do not allocate; memory is that of the peers and one note each.
#include <span>

#include "algorithms/network.h"
#include "runtime/threads.h"

namespace tacit {

template <Networked A>
class GraphRuntime {
 public:
  GraphRuntime(unsigned threads, NoiseSource noise) : pool_(threads), noise_(noise) {
    for (unsigned k = 0; k < pool_.size(); ++k)
      rngs_.push_back(noise.replay_seed ? NoiseRng::Replayable({*noise.replay_seed, Purpose::kNoise, 0, 0})
                                        : NoiseRng::FromEntropy());
    lanes_ = std::vector<Lane>(pool_.size());
    for (unsigned k = 0; k < pool_.size(); ++k) lanes_[k].scratch.rng = &rngs_[k];
  }
  unsigned threads() const { return pool_.size(); }

  // The last note of every peer, empty before its first. With the peers' State() it is all that a run is
  // between two rounds: save both while a watcher is called, restore them, and Resume.
  std::vector<typename A::Note>& notes() { return notes_; }
  const std::vector<PeerStanding>& standing() const { return standing_; }

  // All rounds; peer k is vertex k. A peer's refusal ends the run before anything more is sent.
  Status Run(const Graph& graph, std::vector<typename A::Peer>& peers, std::span<const std::uint32_t> rounds,
             const RollCall& who, const Watcher& watcher) {
    notes_.assign(peers.size(), {});
    return Resume(graph, peers, rounds, 0, who, watcher);
  }
  // From rounds[first] on, where notes() has one for every peer.
  Status Resume(const Graph& graph, std::vector<typename A::Peer>& peers,
                std::span<const std::uint32_t> rounds, std::size_t first, const RollCall& who,
                const Watcher& watcher) {
    TACIT_CHECK(graph.size() == peers.size() && notes_.size() == peers.size());
    standing_.assign(peers.size(), {});
    for (std::size_t k = 0; k < peers.size(); ++k)
      standing_[k].degree = static_cast<std::uint32_t>(graph.degree(k));
    for (std::size_t t = first; t < rounds.size(); ++t) {
      RoundReport report{.round = rounds[t], .last = t + 1 == rounds.size()};
      TACIT_OK(watcher.before(report.round));
      for (std::uint32_t k = 0; k < peers.size() && !who.always(); ++k)
        if (who.At(report.round, k) == Presence::kGone) Remove(graph, k);
      TACIT_OK(Round(graph, peers, static_cast<std::uint32_t>(t), who, report));
      TACIT_OK(watcher.after(report));
    }
    return Ok{};
  }

 private:
  struct Lane {  // one thread's reusable state
    Scratch scratch;
    typename A::Note note;
    std::size_t bytes_up = 0, bytes_down = 0;
    Answers answers;
  };

  void Remove(const Graph& graph, std::uint32_t k) {
    if (standing_[k].gone) return;
    standing_[k].gone = true;
    for (const std::uint32_t l : graph.of(k)) --standing_[l].degree;
  }

  // f(k, lane) for every peer, in chunks that threads take from a queue. Nothing is summed over a chunk, so
  // that it may depend on the number of threads.
  template <class F>
  void ForEach(std::size_t peers, F f) {
    if (pool_.size() == 1) {
      for (std::size_t k = 0; k < peers; ++k) f(k, lanes_[0]);
      return;
    }
    const std::size_t chunk = std::clamp<std::size_t>(peers / 64, 1, 64);
    std::atomic<std::size_t> next{0};
    pool_.Run([&](unsigned lane) {
      for (std::size_t c; (c = chunk * next.fetch_add(1, std::memory_order_relaxed)) < peers;)
        for (std::size_t k = c; k < std::min(peers, c + chunk); ++k) f(k, lanes_[lane]);
    });
  }

  Status Round(const Graph& graph, std::vector<typename A::Peer>& peers, std::uint32_t t, const RollCall& who,
               RoundReport& report) {
    std::atomic<bool> failed{false};
    std::optional<Error> error;
    std::size_t error_peer = peers.size();
    std::mutex mutex;  // guards the error
    const bool always = who.always();
    const auto here = [&](std::size_t k) {
      return always ||
             (!standing_[k].gone && who.At(report.round, static_cast<std::uint32_t>(k)) == Presence::kHere);
    };
    ForEach(peers.size(), [&](std::size_t k, Lane& lane) {
      PeerStanding& own = standing_[k];
      own.sent = false;
      if (own.gone || failed.load(std::memory_order_relaxed)) return;
      if (!here(k)) return lane.answers.Count(Fault::kAbsent);
      if (noise_.replay_seed)
        lane.scratch.rng->Rekey(
            {*noise_.replay_seed, Purpose::kNoise, static_cast<std::uint32_t>(k), report.round});
      Clear(lane.note);
      if (Status s = peers[k].Round(t, lane.note, lane.scratch); !s.ok()) {
        const std::lock_guard lock(mutex);
        if (k < error_peer) error = s.error(), error_peer = k;
        failed.store(true, std::memory_order_relaxed);
        return;
      }
      const Fault fault = FaultOf(lane.note, peers[k].lengths());
      lane.answers.Count(fault);
      if (fault != Fault::kAbsent) lane.bytes_up += WireSize(lane.note);
      if (fault != Fault::kNone) return;
      own.sent = true;
      lane.bytes_down += WireSize(lane.note) * own.degree;
      std::swap(notes_[k], lane.note);
    });
    if (error) return *error;
    ForEach(peers.size(), [&](std::size_t k, Lane&) {
      if (here(k))
        peers[k].Hear(Heard<typename A::Note>(static_cast<std::uint32_t>(k), graph.of(k), notes_, standing_));
    });
    for (Lane& lane : lanes_) {
      report.bytes_up += std::exchange(lane.bytes_up, 0);
      report.bytes_down += std::exchange(lane.bytes_down, 0);
      report.answers.Add(std::exchange(lane.answers, {}));
    }
    return Ok{};
  }

  Pool pool_;
  NoiseSource noise_;
  std::vector<NoiseRng> rngs_;
  std::vector<Lane> lanes_;
  std::vector<typename A::Note> notes_;
  std::vector<PeerStanding> standing_;
};

}  // namespace tacit
