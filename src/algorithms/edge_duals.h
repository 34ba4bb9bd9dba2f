#pragma once

// What the consensus ADMM keeps at a peer k: its last note w̃_k and a multiplier for every edge,
//   λ_kl ← λ_kl + ρ(w̃_k − w̃_l),   γ_k = Σ_l λ_kl
// (G. Mateos, J. A. Bazerque, G. B. Giannakis: Distributed sparse linear regression, IEEE Trans. Signal
// Processing 2010). Notes are perturbed, and stand on both sides, so all this is a function of notes.
//
// An edge's multiplier moves in the rounds in which both of its ends sent, and is dropped at both when one
// leaves for good. So λ_kl = −λ_lk always, bit for bit, and Σ_k γ_k = 0 whoever is late or leaves.
#include <algorithm>
#include <utility>

#include "algorithms/edge_kernels.h"
#include "algorithms/network.h"

namespace tacit {

class EdgeDuals {
 public:
  EdgeDuals(const Problem& problem, std::size_t degree, double rho)
      : problem_(&problem),
        rho_(rho),
        w_(problem.start.empty() ? Vec(problem.dim) : problem.start),
        lambda_(degree * problem.dim),
        pull_(problem.dim),
        degree_(static_cast<std::uint32_t>(degree)) {
    Axpy(2 * rho * static_cast<double>(degree), w_, pull_);
  }

  template <class Note>
  void Hear(const Heard<Note>& heard) {
    if (heard.whole() && heard.size() <= kRun) [[likely]]
      return HearAll(heard);
    HearSome(heard);
  }

  const Vec& w() const { return w_; }              // w̃_k, as its neighbours have it
  const Vec& pull() const { return pull_; }        // ρ Σ_l (w̃_k + w̃_l) − γ_k
  double degree() const { return degree_; }        // |N_k|, those that are gone left out
  View lambda() const { return lambda_; }          // of the neighbours, one after the other

  auto State() { return std::tie(w_, lambda_, pull_, degree_); }

 private:
  static constexpr std::size_t kRun = 8;
  template <class Note>
  __attribute__((noinline)) void HearSome(const Heard<Note>& heard) {
    const std::size_t d = w_.size();
    const bool taken = heard.taken();
    const double* const own = taken ? heard.own().w->data() : w_.data();
    TACIT_CHECK(!taken || heard.own().w->size() == d);
    std::uint32_t degree = 0;
    bool begin = true;  // w_ and pull_ are of the round before
    EdgeEnd run[kRun];  // edges that are added at once
    std::size_t length = 0;
    const auto add = [&] {
      AddEdges(rho_, std::span(run, std::exchange(length, 0)), std::exchange(begin, false), d, own, w_.data(),
               pull_.data());
    };
    double* lambda = lambda_.data();
    for (std::size_t i = 0; i < heard.size(); ++i, lambda += d) {
      if (heard.gone(i)) {
        Fill(Span(lambda, d), 0.0);
        continue;
      }
      ++degree;
      const Vec& note = *heard.note(i).w;
      if (note.size() != d)
          [[unlikely]] {  // empty: it has sent nothing: it is where all begin, and λ_kl is still 0
        TACIT_CHECK(note.empty());
        add();
        Axpy(rho_, w_, pull_);
        if (!problem_->start.empty()) Axpy(rho_, problem_->start, pull_);
        continue;
      }
      run[length++] = {note.data(), lambda, taken && heard.fresh(i) ? rho_ : 0.0};
      if (length == kRun) add();
    }
    if (length > 0 || begin) add();
    degree_ = degree;
  }
  // The usual round: everybody has sent, and nobody is gone.
  template <class Note>
  void HearAll(const Heard<Note>& heard) {
    const std::size_t d = w_.size(), size = heard.size();
    const Vec& own = *heard.own().w;
    bool fit = own.size() == d;
    EdgeEnd run[kRun];
    for (std::size_t i = 0; i < size; ++i) {
      const Vec& note = *heard.note(i).w;
      fit &= note.size() == d;
      run[i] = {note.data(), lambda_.data() + i * d, rho_};
    }
    TACIT_CHECK(fit);
    AddEdges(rho_, std::span(run, size), true, d, own.data(), w_.data(), pull_.data());
    degree_ = static_cast<std::uint32_t>(size);
  }
  const Problem* problem_;
  double rho_;
  Vec w_, lambda_, pull_;
  std::uint32_t degree_;
};

// What peers of the consensus ADMM have in common: all but how they come to a note.
class AdmmPeer {
 public:
  void Hear(const Heard<PeerNote>& heard) {
    edges_.Hear(heard);
    if (output_ == PeerOutput::kMean && heard.taken()) mean_.Add(edges_.w());
  }
  View latest() const { return edges_.w(); }
  View iterate() const { return mean_.count > 0 ? View(mean_.value) : latest(); }
  std::array<std::size_t, 1> lengths() const { return {problem_->dim}; }
  const EdgeDuals& edges() const { return edges_; }
  auto State() { return std::tuple_cat(edges_.State(), std::tie(mean_.value, mean_.count)); }

 protected:
  AdmmPeer(Holding own, std::size_t degree, const Problem& problem, const Mechanism& mechanism, double rho,
           PeerOutput output, std::shared_ptr<const NoisePlan> sigma)
      : own_(std::move(own)),
        problem_(&problem),
        mechanism_(&mechanism),
        sigma_(std::move(sigma)),
        edges_(problem, degree, rho),
        per_record_(1 / static_cast<double>(own_.records)),
        output_(output) {}

  Holding own_;
  const Problem* problem_;
  const Mechanism* mechanism_;
  std::shared_ptr<const NoisePlan> sigma_;      // one per round that runs
  EdgeDuals edges_;                             // functions of notes: not private
  double per_record_;                           // 1/M_k

 private:
  PeerOutput output_;
  RunningMean mean_;
};

}  // namespace tacit
