#pragma once

// zCDP-NFL: private learning on a graph by linearised ADMM, for losses and penalties with kinks.
//   F. Gauthier, C. Gratton, N. K. D. Venkategowda, S. Werner: Private networked federated learning for
//   nonsmooth objectives, eqs. (3), (5), (6).
//
// minimise Σ_k f_k(w) + (λ/K) R(w), f_k the mean over the M_k records of peer k and (λ/K) R = (l2/2)‖·‖² + g.
// Every peer, from w̃_k = start and γ_k = 0, in round n:
//   w_k  = [ w̃_k/η_n + ρ Σ_l (w̃_k + w̃_l) − γ_k − f_k'(w̃_k) − (λ/K) R'(w̃_k) ] / (2ρ|N_k| + 1/η_n)
//   w̃_k = w_k + N(0, σ_k²(n) I),  send w̃_k to all neighbours
//   γ_k += ρ Σ_l (w̃_k − w̃_l)
// the minimiser of the linearised augmented Lagrangian; (A.1) of the paper prints another, which diverges.
//
// What is released is the noisy sum of per-record subgradients, clipped to c₁ in certified mode; w̃_k is
// post-processing of it, since all else is a function of earlier notes. With σ_k(n)·M_k(2ρ|N_k| + 1/η_n) on
// the sum, w̃_k has the paper's noise, and a round costs μ = 2c₁/(that): Lemma I. w_k itself is never formed.
// (ε, δ)-DP-NFL is this method with noise by another composition theorem: nfl_theory.h.
#include "algorithms/edge_duals.h"

namespace tacit {

struct Nfl {
  struct Options : PeerOptions {
    double rho = 1;  // ρ
    StepSize eta;  // η_n
  };

  using Note = PeerNote;

  struct Factors {
    double inverse_eta, per_record, scale;  // 1/η_n, 1/M_k, 1/(2ρ|N_k| + 1/η_n)
  };
  static void Step(const Vec& sum, Vec& out, const Vec& w, const Vec& pull, const Problem& p,
                   const Factors& s) {
    Combine(s.inverse_eta - p.l2, w, pull, s.per_record, sum, out);
    p.g->AddSubgradient(-1.0, w, out);
    Scale(s.scale, out);
  }

  class Peer : public AdmmPeer {
   public:
    Peer(Holding own, std::size_t degree, const Problem& problem, const Mechanism& mechanism,
         const Options& o,
         std::shared_ptr<const NoisePlan> sigma)  // noise on the sum, one per round that runs
        : AdmmPeer(std::move(own), degree, problem, mechanism, o.rho, o.output, std::move(sigma)), o_(&o) {}

    Status Round(std::uint32_t t, Note& note, Scratch& s) {
      const Vec& w = edges_.w();
      const double inverse_eta = o_->eta.InverseAt(o_->rounds[t], s);
      const Factors factors{inverse_eta, per_record_, 1 / (2 * o_->rho * edges_.degree() + inverse_eta)};
      TACIT_OK(ReleaseSum(own_, *problem_, *mechanism_, *o_, w, (*sigma_)[t], s));
      s.released.Into<&Step>(s.released, w, edges_.pull(), *problem_, factors);
      note.w.Swap(s.released);
      return Ok{};
    }

   private:
    const Options* o_;
  };
};
static_assert(Networked<Nfl>);

}  // namespace tacit
