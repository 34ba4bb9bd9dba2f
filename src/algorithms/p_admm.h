#pragma once

// P-ADMM: consensus ADMM whose peers solve their subproblem instead of linearising it; smooth objectives
// only.
//   J. Ding, Y. Gong, M. Pan, Z. Han: Optimal differentially private ADMM for distributed machine learning,
//   2019; what zCDP-NFL (nfl.h) is compared with on ridge regression.
//
//   w_k  = argmin_w f_k(w) + (l2/2)‖w‖² + γ_kᵀw + ρ Σ_l ‖w − (w̃_k + w̃_l)/2‖²
//   w̃_k = w_k + N(0, σ_k²(n) I),  send w̃_k to all neighbours
//   γ_k += ρ Σ_l (w̃_k − w̃_l)
//
// The subproblem is κ-strongly convex, κ = 2ρ|N_k| + l2. With every record's gradient clipped to c₁ (for a
// linear model that is the gradient of a Huberised loss) the minimiser moves by at most 2c₁/(M_k κ) when a
// record is replaced. What is released is the minimiser, by gradient descent of a public number of steps:
// Bounded::Argmin, with the proof that its last point has the same sensitivity.
#include "algorithms/edge_duals.h"

namespace tacit {

struct PAdmm {
  struct Options : PeerOptions {
    double rho = 1;                 // ρ
    double row_bound = 1;           // public, on every row's length: steps of descent depend on it
  };

  using Note = PeerNote;

  // Whether the method applies; to be asked before a run is planned.
  static Status Fits(const Problem& p, double row_bound) {
    if (!p.f->clips_to_smooth())
      return Fail(Code::kUnsupported,
                  "p-admm minimises exactly and needs a smooth loss of a linear model; use logistic, "
                  "least-squares, huber or smoothed-hinge, or algorithm.name = \"zcdp-nfl\"");
    if (p.g->Ridge() != 0.0)
      return Fail(Code::kUnsupported,
                  "p-admm needs a smooth objective; use no penalty but model.l2, or algorithm.name = "
                  "\"zcdp-nfl\"");
    if (!(row_bound > 0) || !std::isfinite(row_bound))
      return Fail(Code::kInvalidArgument,
                  "the steps of p-admm depend on a public bound on the rows; set data.row_norm to clip or "
                  "unit, with data.row_bound");
    return Ok{};
  }
  // κ, and the sensitivity of w_k: noise σ in a round costs μ = that/σ.
  static double Curvature(const Options& o, double l2, double degree) { return 2 * o.rho * degree + l2; }
  static L2Bound Sensitivity(Adjacency a, const Options& o, double l2, std::size_t records,
                             std::size_t degree) {
    const double kappa = Curvature(o, l2, static_cast<double>(degree));
    TACIT_CHECK(a != Adjacency::kAddOrRemove);      // proven for neighbours of one size
    const auto m = static_cast<double>(std::max<std::size_t>(1, records));
    return Bounded::Sensitivity(a, Bounded::ArgminBound(o.clip, m, kappa), 1, 0);
  }

  class Peer : public AdmmPeer {
   public:
    Peer(Holding own, std::size_t degree, const Problem& problem, const Mechanism& mechanism,
         const Options& o,
         std::shared_ptr<const NoisePlan> sigma)            // noise on w_k, one per round that runs
        : AdmmPeer(std::move(own), degree, problem, mechanism, o.rho, o.output, std::move(sigma)),
          o_(&o),
          planned_(Curvature(o, problem.l2, static_cast<double>(degree))) {}

    Status Round(std::uint32_t t, Note& note, Scratch& s) {
      const double kappa = Curvature(*o_, problem_->l2, edges_.degree());
      if (!(kappa > 0)) return Ok{};      // no neighbour is left and there is no l2: nothing to send
      StrongProblem p{.records = static_cast<double>(std::max<std::size_t>(1, own_.records)),
                      .curvature = kappa,
                      .linear = edges_.pull(),
                      .start = edges_.w(),
                      .row_bound = o_->row_bound};
      p.steps = StrongProblem::StepsFor(kappa, p.Smoothness(*problem_->f));
      if (o_->certified && !Bounded::ArgminHolds(*problem_->f, p, o_->clip))
        return Fail(
            Code::kInvalidArgument,
            "round {}: the numbers of p-admm have become so large ({:.3g}) that floating point does not "
            "keep what one record changes within its bound; raise privacy.clip, lower data.row_bound, "
            "or raise model.l2",
            o_->rounds[t], Norm(p.start));
      // The plan is for all neighbours: with fewer, w_k moves further and has as much more noise, so that a
      // round costs what was planned.
      const double more = kappa == planned_ ? 1.0 : planned_ / kappa * (1 + 0x1p-40);
      const NoiseStd sigma = NoiseStd::Proven((*sigma_)[t].value() * more);
      if (o_->certified) {
        const Bounded w = Bounded::Argmin(own_.data, *problem_->f, p, o_->clip, s.clip);
        TACIT_OK(mechanism_->Release(w, sigma, *own_.ledger, *s.rng, s.noise, s.released));
      } else {
        const Unbounded w = Unbounded::Argmin(own_.data, *problem_->f, p, s.clip);
        TACIT_OK(
            mechanism_->ReleaseAsClaimed(w, sigma, o_->claim, *own_.ledger, *s.rng, s.noise, s.released));
      }
      s.released.Into<[](const Vec& from, Vec& to) { to = from; }>(note.w);
      return Ok{};
    }

   private:
    const Options* o_;
    double planned_;  // κ with all neighbours
  };
};
static_assert(Networked<PAdmm>);

}  // namespace tacit
