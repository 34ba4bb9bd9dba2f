#pragma once

// One peer of a network whose neighbours are elsewhere (runtime/post.h). It computes from its own copy of the
// plan, pays from its own ledgers, and a note is paid for and durable before a neighbour gets it.
#include "experiment/own_rounds.h"
#include "runtime/graph.h"
#include "runtime/post.h"

namespace tacit {

class PeerSite : public OwnRounds {
 public:
  // All rounds, from wherever the folder's checkpoint stands; returns after the last one is durable.
  virtual Status Attend(Post&) = 0;
  virtual View model() const = 0;  // this peer's, after that: a function of notes
  std::uint64_t bytes_up() const { return at_.bytes_up; }
  std::uint64_t bytes_down() const { return at_.bytes_down; }

 protected:
  using OwnRounds::OwnRounds;
  // What Standing::held is made of: this peer's notes of the last two places, empty where it was silent.
  struct Held {
    Bytes before, last;
  };
  static std::string Pack(const Held&);
  static Result<Held> Unpack(const std::string&);
};

template <Networked A>
class PeerSiteOf final : public PeerSite {
 public:
  // rounds: those that run, ascending. All outlive it.
  PeerSiteOf(Session& s, typename A::Peer& peer, std::span<const std::uint32_t> rounds, const RollCall& who)
      : PeerSite(s), graph_(s.plan.network->graph), peer_(peer), rounds_(rounds), who_(who) {
    rng_ = noise_.replay_seed ? NoiseRng::Replayable({*noise_.replay_seed, Purpose::kNoise, s.site, 0})
                              : NoiseRng::FromEntropy();
    scratch_.rng = &*rng_;
    notes_.assign(graph_.size(), {});
    Stand(graph_, standing_);
  }
  View model() const override { return peer_.iterate(); }

  Status Attend(Post& post) override {
    auto found = Checkpoint::LoadNetwork<A>(File(), ConfigDigest(s_.config), notes_, {&peer_, 1});
    if (found.ok()) {
      TACIT_TRY(held_, Unpack(found->held));
    }
    TACIT_OK(GoOn(std::move(found)));
    auto place = static_cast<std::uint32_t>(rounds());
    if (place > 0) TACIT_OK(post.Publish(place, held_.last));  // first: how far this peer is
    if (place > 1) TACIT_OK(post.Publish(place - 1, held_.before));
    if (place > 0 && !at_.finished) TACIT_OK(Hear(post, place));
    while (!at_.finished && place < rounds_.size()) {
      Leave(graph_, who_, rounds_[place], standing_);
      if (standing_[s_.site].gone) break;
      TACIT_OK(Make(++place));
      TACIT_OK(post.Publish(place, held_.last));
      TACIT_OK(Hear(post, place));
    }
    if (at_.finished) return Ok{};
    at_.finished = true;
    return Save(at_);
  }

 private:
  bool Here(std::uint32_t k, std::uint32_t place) const {
    return !standing_[k].gone && who_.At(rounds_[place - 1], k) == Presence::kHere;
  }
  Status Save(const Standing& at) {
    return Checkpoint::SaveNetwork<A>(File(), ConfigDigest(s_.config), at, notes_, {&peer_, 1});
  }

  // This peer's note of a round, or its silence, paid for and kept.
  Status Make(std::uint32_t place) {
    Held next{std::move(held_.last), {}};
    if (Here(s_.site, place)) {
      TACIT_OK(Reserve());
      if (noise_.replay_seed)
        rng_->Rekey({*noise_.replay_seed, Purpose::kNoise, s_.site, rounds_[place - 1]});
      Clear(note_);
      TACIT_OK(peer_.Round(place - 1, note_, scratch_));
      if (FaultOf(note_, peer_.lengths()) == Fault::kNone) {
        next.last = Codec::Encode(note_);
        std::swap(notes_[s_.site], note_);
      }
    }
    held_ = std::move(next);
    const std::size_t size = held_.last.size();
    return Keep(Pack(held_), size * standing_[s_.site].degree, 0,
                [&](const Standing& at) { return Save(at); });
  }

  // The neighbours' notes of a round.
  Status Hear(Post& post, std::uint32_t place) {
    Leave(graph_, who_, rounds_[place - 1], standing_);
    standing_[s_.site].sent = !held_.last.empty();
    // Who leaves needs nobody's note any more, and nobody waits for it.
    const bool leaving = place < rounds_.size() && who_.At(rounds_[place], s_.site) == Presence::kGone;
    std::vector<std::uint32_t> from;
    for (const std::uint32_t l : graph_.of(s_.site)) {
      standing_[l].sent = false;
      if (!standing_[l].gone && !leaving) from.push_back(l);
    }
    std::vector<Bytes> bytes;
    TACIT_OK(post.Fetch(
        place, from,
        [&](std::span<const std::byte> one) -> Status {
          TACIT_TRY(auto note, Codec::Decode<typename A::Note>(one));
          if (FaultOf(note, peer_.lengths()) == Fault::kNone && Within(kLargestSent, note)) return Ok{};
          return Fail(Code::kMalformed, "it has another length, or holds what is no number or beyond 2^100");
        },
        bytes));
    for (std::size_t i = 0; i < from.size(); ++i) {
      at_.bytes_down += bytes[i].size();
      standing_[from[i]].sent = !bytes[i].empty() && Here(from[i], place);
      if (!standing_[from[i]].sent) continue;
      TACIT_TRY(notes_[from[i]], Codec::Decode<typename A::Note>(bytes[i]));
    }
    if (Here(s_.site, place))
      peer_.Hear(Heard<typename A::Note>(s_.site, graph_.of(s_.site), notes_, standing_));
    return Ok{};
  }

  const Graph& graph_;
  typename A::Peer& peer_;
  std::span<const std::uint32_t> rounds_;
  const RollCall& who_;
  std::vector<typename A::Note> notes_;  // of this peer and its neighbours; empty elsewhere
  std::vector<PeerStanding> standing_;
  Held held_;
  typename A::Note note_;
  std::optional<NoiseRng> rng_;
  Scratch scratch_;
};

}  // namespace tacit
