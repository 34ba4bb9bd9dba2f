#pragma once

// What an algorithm without a server is: peers on a graph that hear their neighbours' notes and nothing else.
#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/algorithm.h"
#include "algorithms/topology.h"

namespace tacit {

// Whether a peer takes part in a round. Who is late or has left is seen by everyone: it is public, and must
// not depend on anyone's data.
enum class Presence : std::uint8_t {
  kHere,
  kAway,  // for this round: it computes, releases and pays nothing, and hears nobody
  kGone,  // for good: it is removed with its edges
};
// Called by several threads at once; a function of its arguments. Who is gone stays gone.
class RollCall {
 public:
  virtual ~RollCall() = default;
  virtual Presence At(std::uint32_t round, std::uint32_t peer) const = 0;
  virtual bool always() const { return false; }  // At is kHere for everyone in every round: nobody asks
};
class AlwaysHere final : public RollCall {
 public:
  Presence At(std::uint32_t, std::uint32_t) const override { return Presence::kHere; }
  bool always() const override { return true; }
};

// What a runtime knows of a peer after its part of a round.
struct PeerStanding {
  std::uint32_t degree = 0;  // neighbours that are not gone
  bool sent = false;  // its note of this round was taken
  bool gone = false;
};

// What a peer hears at the end of a round: of every neighbour, in ascending order, its last note. A neighbour
// that was away, or whose note was turned away, is heard by the note before, which everyone still has; one
// that has sent nothing yet has an empty note.
template <class Note>
class Heard {
 public:
  // whole: everybody sent in this round, and nobody is gone; false where that is not known.
  Heard(std::uint32_t me, std::span<const std::uint32_t> neighbours, const std::vector<Note>& notes,
        const std::vector<PeerStanding>& standing, bool whole = false)
      : me_(me), whole_(whole), neighbours_(neighbours), notes_(&notes), standing_(&standing) {}

  bool whole() const { return whole_; }
  std::size_t size() const { return neighbours_.size(); }  // those that are gone included
  const Note& note(std::size_t i) const { return (*notes_)[neighbours_[i]]; }
  bool fresh(std::size_t i) const { return whole_ || of(i).sent; }  // it is of this round
  bool gone(std::size_t i) const { return !whole_ && of(i).gone; }
  std::uint32_t degree(std::size_t i) const { return of(i).degree; }

  const Note& own() const { return (*notes_)[me_]; }
  bool taken() const {
    return whole_ || (*standing_)[me_].sent;
  }  // the others have this peer's note of this round
  std::uint32_t degree() const { return (*standing_)[me_].degree; }

 private:
  const PeerStanding& of(std::size_t i) const { return (*standing_)[neighbours_[i]]; }
  std::uint32_t me_;
  bool whole_;
  std::span<const std::uint32_t> neighbours_;
  const std::vector<Note>* notes_;
  const std::vector<PeerStanding>* standing_;
};

// Per round, t counting the rounds that run from 0:
//   every peer that is here   Round(t, note, scratch)   computes, pays, releases into `note`, which is empty
//                             before; left empty: it sends nothing
//   the runtime               turns away what is not of peer.lengths() or not finite: the peer then counts as
//                             away, though it has paid
//   every peer that is here   Hear(heard)               the notes of all, after all are written
// Round sees data and Hear does not: all that a peer keeps is a function of notes. iterate() is what it
// would have as the model, a function of notes too. An error that Round returns ends the run.
template <class A>
concept Networked =
    Message<typename A::Note> && Resumable<typename A::Peer> && HasIterate<typename A::Peer> &&
    requires(typename A::Peer peer, const typename A::Peer same, typename A::Note& note,
             const Heard<typename A::Note>& heard, std::uint32_t t, Scratch& scratch) {
      { peer.Round(t, note, scratch) } -> std::same_as<Status>;
      { peer.Hear(heard) };
      { same.lengths() } -> std::same_as<Lengths<typename A::Note>>;
      { same.latest() } -> std::same_as<View>;  // the last note that was taken; where it starts, before
    };

// Whether a method by subgradients applies; to be asked before a run is planned.
inline Status CheckSubgradients(const Problem& p, std::string_view method) {
  Vec x(p.dim), out(p.dim);
  if (p.g->AddSubgradient(1.0, x, out)) return Ok{};
  return Fail(Code::kUnsupported,
              "{} takes subgradients and has no projection, and the penalty is infinite somewhere; use none, "
              "l1, elastic-net or group-lasso, or model.l2",
              method);
}

// A step size that is fixed or falls as 1/√n, n the round from 1.
struct StepSize {
  double c = 0.1;
  bool falling = false;
  double At(std::uint32_t n) const { return falling ? c / std::sqrt(static_cast<double>(n)) : c; }
  // 1/At(n), which is the same for all peers of a round.
  double InverseAt(std::uint32_t n, Scratch& s) const {
    if (!falling) return 1 / c;
    if (n != s.step_round || c != s.step) [[unlikely]]
      s.inverse_step = 1 / At(n), s.step_round = n, s.step = c;
    return s.inverse_step;
  }
};

enum class PeerOutput {
  kLast,  // the last note
  kMean,  // the mean of all notes of the peer (ergodic average)
};

// What every method on a graph is told.
struct PeerOptions {
  L2Bound clip{1.0};  // c₁
  bool certified = true;
  Claim claim{"", Epsilon{0.0}, Delta{0.0}};  // paper mode: what the paper says of the run
  PeerOutput output = PeerOutput::kLast;
  std::vector<std::uint32_t> rounds;  // the rounds that run, ascending, from 1
};

struct PeerNote {
  Released<Vec> w;  // w̃_k
  auto Fields() { return std::tie(w); }
};

// The mean of a sequence, kept while it goes on.
struct RunningMean {
  Vec value;
  std::uint64_t count = 0;
  void Add(View x) {
    value.resize(x.size());
    const double weight = 1 / static_cast<double>(++count);
    for (std::size_t j = 0; j < x.size(); ++j) value[j] += weight * (x[j] - value[j]);
  }
};

// How far a network is from agreement, by what was released.
//   primal     √ Σ_{edges} ‖w̃_k − w̃_l‖²
//   dual       ρ √ Σ_{edges} ‖z_kl − z_kl before‖²,  z_kl = (w̃_k + w̃_l)/2, over edges in both directions
//   consensus  (1/K) Σ_k ‖w̃_k − their mean‖²
// now(k) and before(k) give the notes; gone(k): left out.
struct NetworkResiduals {
  double primal = 0, dual = 0, consensus = 0;
};
template <class Now, class Before, class Gone>
NetworkResiduals ResidualsOf(const Graph& g, double rho, Now now, Before before, Gone gone) {
  NetworkResiduals r;
  Vec mean;
  double count = 0;
  for (std::size_t k = 0; k < g.size(); ++k) {
    if (gone(k)) continue;
    const View w = now(k), old = before(k);
    mean.resize(w.size());
    Axpy(1.0, w, mean);
    ++count;
    for (const std::uint32_t l : g.of(k)) {
      if (l <= k || gone(l)) continue;
      const View v = now(l), was = before(l);
      r.primal += DistanceSquared(w, v);
      for (std::size_t j = 0; j < w.size(); ++j) {
        const double moved = (w[j] + v[j] - old[j] - was[j]) / 2;
        r.dual += 2 * moved * moved;
      }
    }
  }
  if (count == 0) return r;
  Scale(1 / count, mean);
  for (std::size_t k = 0; k < g.size(); ++k)
    if (!gone(k)) r.consensus += DistanceSquared(now(k), mean) / count;
  r.primal = std::sqrt(r.primal);
  r.dual = rho * std::sqrt(r.dual);
  return r;
}

}  // namespace tacit
