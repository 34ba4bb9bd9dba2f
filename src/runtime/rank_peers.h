#pragma once

// The peers of a graph at several ranks (ranks.h): rank r of N has those from ⌊nr/N⌋ up to ⌊n(r+1)/N⌋. In a
// round, the note of a peer goes once to every rank that has a neighbour of it.
#include <cstdint>
#include <vector>

#include "algorithms/network.h"
#include "runtime/threads.h"

namespace tacit {

template <Networked A>
class RankPeers {
 public:
  RankPeers(Ranks& ranks, RankAccounts& accounts, const Graph& graph)
      : ranks_(ranks), accounts_(accounts), peers_(graph.size()), to_(ranks.size()), from_(ranks.size()) {
    std::vector<std::uint32_t> rank_of(peers_);
    for (std::uint32_t r = 0; r < ranks.size(); ++r)
      for (std::size_t k = First(r); k < First(r + 1); ++k) rank_of[k] = r;
    const std::uint32_t me = ranks.rank();
    for (std::uint32_t k = 0; k < peers_; ++k)
      for (const std::uint32_t l : graph.of(k)) {
        const auto add = [&](std::vector<std::uint32_t>& list) {
          if (list.empty() || list.back() != k) list.push_back(k);
        };
        if (rank_of[k] == me && rank_of[l] != me) add(to_[rank_of[l]]);
        if (rank_of[k] != me && rank_of[l] == me) add(from_[rank_of[k]]);
      }
  }

  // The peers of this rank.
  std::size_t begin() const { return First(ranks_.rank()); }
  std::size_t end() const { return First(ranks_.rank() + 1); }
  std::size_t size() const { return end() - begin(); }

  // Rank 0: round t of those that run begins; and what the others say after it.
  Status Tell(std::uint32_t t) {
    current_ = false;
    Parcel p;
    p.Put(static_cast<std::uint8_t>(Order::kRound));
    p.Put(t);
    accounts_.PutDurable(p);
    return ToAll(p);
  }
  Status Hear(RoundReport& report, Status& complaint) {
    for (std::uint32_t r = 1; r < ranks_.size(); ++r) {
      TACIT_TRY(Parcel p, ranks_.Receive(r, Ranks::About::kReply));
      Status theirs = Ok{};
      std::uint64_t up = 0, down = 0;
      Answers answers;
      if (!GetStatus(p, theirs) || !p.Get(up) || !p.Get(down) || !p.GetAll(answers.All()))
        return LostThread();
      TACIT_OK(accounts_.TakeCharged(Account(First(r)), Account(First(r + 1)), p));
      if (complaint.ok()) complaint = theirs;
      report.bytes_up += static_cast<std::size_t>(up);
      report.bytes_down += static_cast<std::size_t>(down);
      report.answers.Add(answers);
    }
    return Ok{};
  }
  Status Dismiss() {
    Parcel p;
    p.Put(static_cast<std::uint8_t>(Order::kDismiss));
    return ToAll(p);
  }

  // All ranks, in the middle of a round: the notes of neighbours elsewhere.
  Status Exchange(std::vector<typename A::Note>& notes, std::vector<PeerStanding>& standing) {
    std::vector<Parcel> out(ranks_.size());
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      for (const std::uint32_t k : to_[r]) {
        out[r].Put(standing[k].sent);
        if (standing[k].sent) out[r].PutAll(notes[k].Fields());
      }
    TACIT_OK(ranks_.Exchange(Ranks::About::kNotes, out, in_));
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      for (const std::uint32_t k : from_[r])
        if (!in_[r].Get(standing[k].sent) || (standing[k].sent && !in_[r].GetAll(notes[k].Fields())))
          return LostThread();
    return Ok{};
  }

  // Rank 0: all peers and notes as they are with the others; and the other way round, after a restart.
  Status Collect(std::vector<typename A::Peer>& peers, std::vector<typename A::Note>& notes) {
    if (current_) return Ok{};
    Parcel ask;
    ask.Put(static_cast<std::uint8_t>(Order::kCollect));
    TACIT_OK(ToAll(ask));
    for (std::uint32_t r = 1; r < ranks_.size(); ++r) {
      TACIT_TRY(Parcel p, ranks_.Receive(r, Ranks::About::kState));
      for (std::size_t k = First(r); k < First(r + 1); ++k)
        if (!p.GetAll(peers[k].State()) || !p.GetAll(notes[k].Fields())) return LostThread();
    }
    current_ = true;
    return Ok{};
  }
  Status Share(std::vector<typename A::Peer>& peers, std::vector<typename A::Note>& notes) {
    for (std::uint32_t r = 1; r < ranks_.size(); ++r) {
      Parcel p;
      p.Put(static_cast<std::uint8_t>(Order::kShare));
      accounts_.PutAllCharged(p);
      for (std::size_t k = First(r); k < First(r + 1); ++k) p.PutAll(peers[k].State());
      for (typename A::Note& n : notes) p.PutAll(n.Fields());
      TACIT_OK(ranks_.Send(r, Ranks::About::kCommand, p));
    }
    current_ = true;
    return Ok{};
  }

  // The others. round(t, report, complaint) makes this rank's part of a round.
  template <class Round>
  Status Attend(std::vector<typename A::Peer>& own, std::vector<typename A::Note>& notes, Round round) {
    for (;;) {
      TACIT_TRY(Parcel p, ranks_.Receive(0, Ranks::About::kCommand));
      std::uint8_t order = 0;
      if (!p.Get(order)) return LostThread();
      switch (static_cast<Order>(order)) {
        case Order::kRound: {
          std::uint32_t t = 0;
          if (!p.Get(t)) return LostThread();
          TACIT_OK(accounts_.TakeDurable(p));
          RoundReport report;
          Status complaint = Ok{};
          TACIT_OK(round(t, report, complaint));
          Parcel reply;
          PutStatus(reply, complaint);
          reply.Put(static_cast<std::uint64_t>(report.bytes_up));
          reply.Put(static_cast<std::uint64_t>(report.bytes_down));
          reply.PutAll(report.answers.All());
          accounts_.PutCharged(Account(begin()), Account(end()), reply);
          TACIT_OK(ranks_.Send(0, Ranks::About::kReply, reply));
          break;
        }
        case Order::kCollect: {
          Parcel states;
          for (std::size_t k = begin(); k < end(); ++k) {
            states.PutAll(own[k - begin()].State());
            states.PutAll(notes[k].Fields());
          }
          TACIT_OK(ranks_.Send(0, Ranks::About::kState, states));
          break;
        }
        case Order::kShare: {
          TACIT_OK(accounts_.TakeAllCharged(p));
          bool ok = true;
          for (typename A::Peer& peer : own) ok = ok && p.GetAll(peer.State());
          for (typename A::Note& n : notes) ok = ok && p.GetAll(n.Fields());
          if (!ok) return LostThread();
          break;
        }
        case Order::kDismiss: return Ok{};
        default: return LostThread();
      }
    }
  }

 private:
  enum class Order : std::uint8_t { kRound = 1, kCollect, kShare, kDismiss };
  std::size_t First(std::uint32_t r) const { return peers_ * r / ranks_.size(); }
  static std::uint32_t Account(std::size_t k) { return static_cast<std::uint32_t>(k); }
  Status ToAll(Parcel& p) {
    for (std::uint32_t r = 1; r < ranks_.size(); ++r) TACIT_OK(ranks_.Send(r, Ranks::About::kCommand, p));
    return Ok{};
  }

  Ranks& ranks_;
  RankAccounts& accounts_;
  std::size_t peers_;
  std::vector<std::vector<std::uint32_t>> to_,
      from_;  // by rank: this rank's peers it hears, and its peers we do
  std::vector<Parcel> in_;
  bool current_ = true;  // rank 0 knows the state of the others' peers
};

}  // namespace tacit
