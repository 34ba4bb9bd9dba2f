#pragma once

// The in-process runtime of a network: every peer of a simulation on a few threads, in synchronous rounds.
// Notes travel as values, and a peer sees those of its neighbours alone. The same bits for any number of
// threads; rounds do not allocate; memory is that of the peers and one note each.
//
// Over several ranks (ranks.h) each has a stretch of the peers, and notes go to the ranks where a neighbour
// is.
#include <span>

#include "algorithms/network.h"
#include "runtime/rank_peers.h"
#include "runtime/threads.h"

namespace tacit {

// Everybody's standing before the first round.
inline void Stand(const Graph& graph, std::vector<PeerStanding>& standing) {
  standing.assign(graph.size(), {});
  for (std::size_t k = 0; k < graph.size(); ++k)
    standing[k].degree = static_cast<std::uint32_t>(graph.degree(k));
}
// Without whoever is gone by this round, and their edges.
inline void Leave(const Graph& graph, const RollCall& who, std::uint32_t round,
                  std::vector<PeerStanding>& standing) {
  for (std::uint32_t k = 0; k < graph.size() && !who.always(); ++k) {
    if (standing[k].gone || who.At(round, k) != Presence::kGone) continue;
    standing[k].gone = true;
    for (const std::uint32_t l : graph.of(k)) --standing[l].degree;
  }
}

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

  // The peers are at several ranks. At rank 0, before it runs or resumes; the others Attend. Both outlive the
  // runtime.
  void Split(Ranks& ranks, RankAccounts& accounts, const Graph& graph) {
    ranks_.emplace(ranks, accounts, graph);
  }
  // At rank 0: brings the peers and notes up to date that are at other ranks.
  Status Collect(std::vector<typename A::Peer>& peers) {
    return ranks_ ? ranks_->Collect(peers, notes_) : Status(Ok{});
  }
  // At rank 0: the run is over, however it ended.
  Status Dismiss() { return ranks_ ? ranks_->Dismiss() : Status(Ok{}); }
  // At the others: takes part until rank 0 says that it is over. make(k) makes peer k.
  template <class Make>
  Status Attend(const Graph& graph, Make make, std::span<const std::uint32_t> rounds, const RollCall& who) {
    notes_.assign(graph.size(), {});
    Stand(graph, standing_);
    std::vector<typename A::Peer> own;
    own.reserve(ranks_->size());
    for (std::size_t k = ranks_->begin(); k < ranks_->end(); ++k)
      own.push_back(make(static_cast<std::uint32_t>(k)));
    return ranks_->Attend(own, notes_,
                          [&](std::uint32_t t, RoundReport& report, Status& complaint) -> Status {
                            report.round = rounds[t];
                            Leave(graph, who, report.round, standing_);
                            return Round(graph, own, t, who, report, complaint);
                          });
  }

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
    Stand(graph, standing_);
    if (ranks_ && first > 0) TACIT_OK(ranks_->Share(peers, notes_));
    for (std::size_t t = first; t < rounds.size(); ++t) {
      RoundReport report{.round = rounds[t], .last = t + 1 == rounds.size()};
      TACIT_OK(watcher.before(report.round));
      if (ranks_) TACIT_OK(ranks_->Tell(static_cast<std::uint32_t>(t)));
      Leave(graph, who, report.round, standing_);
      Status complaint = Ok{};
      TACIT_OK(Round(graph, peers, static_cast<std::uint32_t>(t), who, report, complaint));
      if (ranks_) TACIT_OK(ranks_->Hear(report, complaint));
      if (!complaint.ok()) return complaint.error();
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

  // f(k, lane) for every peer of this rank, in chunks that threads take from a queue. Nothing is summed over
  // a chunk, so that it may depend on the number of threads.
  template <class F>
  void ForEach(std::size_t peers, F f) {
    const std::size_t begin = ranks_ ? ranks_->begin() : 0, end = ranks_ ? ranks_->end() : peers;
    if (pool_.size() == 1) {
      for (std::size_t k = begin; k < end; ++k) f(k, lanes_[0]);
      return;
    }
    const std::size_t chunk = std::clamp<std::size_t>((end - begin) / 64, 1, 64);
    std::atomic<std::size_t> next{0};
    pool_.Run([&](unsigned lane) {
      for (std::size_t c; (c = begin + chunk * next.fetch_add(1, std::memory_order_relaxed)) < end;)
        for (std::size_t k = c; k < std::min(end, c + chunk); ++k) f(k, lanes_[lane]);
    });
  }

  // complaint: the first of this rank's peers'. An error: a rank is out of reach.
  Status Round(const Graph& graph, std::vector<typename A::Peer>& all, std::uint32_t t, const RollCall& who,
               RoundReport& report, Status& complaint) {
    // Of all peers, or of those at this rank.
    const std::span<typename A::Peer> peers = all;
    const std::size_t skip = all.size() == graph.size() ? 0 : ranks_->begin();
    std::atomic<bool> failed{false};
    std::optional<Error> error;
    std::size_t error_peer = graph.size();
    std::mutex mutex;  // guards the error
    const bool always = who.always();
    const auto here = [&](std::size_t k) {
      return always ||
             (!standing_[k].gone && who.At(report.round, static_cast<std::uint32_t>(k)) == Presence::kHere);
    };
    ForEach(graph.size(), [&](std::size_t k, Lane& lane) __attribute__((always_inline)) {
      PeerStanding& own = standing_[k];
      own.sent = false;
      if (own.gone || failed.load(std::memory_order_relaxed)) return;
      if (!here(k)) return lane.answers.Count(Fault::kAbsent);
      if (noise_.replay_seed)
        lane.scratch.rng->Rekey(
            {*noise_.replay_seed, Purpose::kNoise, static_cast<std::uint32_t>(k), report.round});
      Clear(lane.note);
      if (Status s = peers[k - skip].Round(t, lane.note, lane.scratch); !s.ok()) {
        const std::lock_guard lock(mutex);
        if (k < error_peer) error = s.error(), error_peer = k;
        failed.store(true, std::memory_order_relaxed);
        return;
      }
      const Fault fault = FaultOf(lane.note, peers[k - skip].lengths());
      if (fault != Fault::kNone) [[unlikely]] {
        lane.answers.Count(fault);
        if (fault != Fault::kAbsent) lane.bytes_up += WireSize(lane.note);
        return;
      }
      lane.answers.Count(Fault::kNone);
      own.sent = true;
      const std::size_t bytes = WireSize(lane.note);
      lane.bytes_up += bytes;
      lane.bytes_down += bytes * own.degree;
      Swap(notes_[k], lane.note);
    });
    if (error) complaint = *error;
    if (error && !ranks_) return Ok{};
    if (ranks_) TACIT_OK(ranks_->Exchange(notes_, standing_));
    std::uint64_t taken = 0;
    for (const Lane& lane : lanes_) taken += lane.answers.taken;
    const bool whole = taken == graph.size();
    ForEach(graph.size(), [&](std::size_t k, Lane&) {
      if (here(k))
        peers[k - skip].Hear(
            Heard<typename A::Note>(static_cast<std::uint32_t>(k), graph.of(k), notes_, standing_, whole));
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
  std::optional<RankPeers<A>> ranks_;
};

}  // namespace tacit
