#pragma once

// zCDP-grad-NFL: the subgradient method on a graph with noisy notes, what zCDP-NFL is compared with.
//   A. Nedić, A. Ozdaglar: Distributed subgradient methods for multi-agent optimization, IEEE Trans.
//   Automatic Control 2009; noise as in Gauthier et al. (nfl.h).
//
//   w_k  = Σ_l a_kl w̃_l − α_n ( f_k'(w̃_k) + (λ/K) R'(w̃_k) ),  a the Metropolis weights, a_kk included
//   w̃_k = w_k + N(0, σ_k²(n) I),  send w̃_k to all neighbours
//
// What is released is the noisy sum of clipped subgradients, with noise σ_k(n)·M_k/α_n: a round costs
// μ = 2c₁/(that), as 2α_n c₁/M_k is the sensitivity of w_k. A fixed α_n stops at a distance of order α_n
// from the optimum.
#include "algorithms/network.h"

namespace tacit {

struct GradNfl {
  struct Options : PeerOptions {
    StepSize alpha{.c = 0.1, .falling = true};              // α_n
  };

  using Note = PeerNote;

  struct Factors {
    double alpha, records;          // α_n, M_k
  };
  static void Step(const Vec& sum, Vec& out, const Vec& w, const Vec& mix, const Problem& p,
                   const Factors& s) {
    out.resize(w.size());
    const double part = s.alpha / s.records, ridge = s.alpha * p.l2;
    for (std::size_t j = 0; j < w.size(); ++j) out[j] = mix[j] - part * sum[j] - ridge * w[j];
    p.g->AddSubgradient(-s.alpha, w, out);
  }

  class Peer {
   public:
    Peer(Holding own, const Problem& problem, const Mechanism& mechanism, const Options& o,
         std::shared_ptr<const NoisePlan> sigma)            // noise on the sum, one per round that runs
        : own_(std::move(own)),
          problem_(&problem),
          mechanism_(&mechanism),
          o_(&o),
          sigma_(std::move(sigma)),
          start_(problem.start.empty() ? Vec(problem.dim) : problem.start),
          w_(start_),
          mix_(start_) {}

    Status Round(std::uint32_t t, Note& note, Scratch& s) {
      TACIT_OK(ReleaseSum(own_, *problem_, *mechanism_, *o_, w_, (*sigma_)[t], s));
      const Factors factors{o_->alpha.At(o_->rounds[t]), static_cast<double>(own_.records)};
      s.released.Into<&Step>(note.w, w_, mix_, *problem_, factors);
      return Ok{};
    }

    void Hear(const Heard<Note>& heard) {
      if (heard.taken()) Copy(*heard.own().w, w_);
      mix_ = w_;
      for (std::size_t i = 0; i < heard.size(); ++i) {  // Σ_l a_kl w̃_l = w̃_k + Σ_{l≠k} a_kl (w̃_l − w̃_k)
        if (heard.gone(i)) continue;
        const Vec& note = *heard.note(i).w;
        const Vec& other = note.empty() ? start_ : note;
        const double a = 1 / static_cast<double>(1 + std::max(heard.degree(), heard.degree(i)));
        for (std::size_t j = 0; j < mix_.size(); ++j) mix_[j] += a * (other[j] - w_[j]);
      }
      if (o_->output == PeerOutput::kMean && heard.taken()) mean_.Add(w_);
    }

    View latest() const { return w_; }
    View iterate() const { return mean_.count > 0 ? View(mean_.value) : latest(); }
    std::array<std::size_t, 1> lengths() const { return {problem_->dim}; }
    auto State() { return std::tie(w_, mix_, mean_.value, mean_.count); }

   private:
    Holding own_;
    const Problem* problem_;
    const Mechanism* mechanism_;
    const Options* o_;
    std::shared_ptr<const NoisePlan> sigma_;
    Vec start_, w_, mix_;  // functions of notes: not private
    RunningMean mean_;
  };
};
static_assert(Networked<GradNfl>);

}  // namespace tacit
