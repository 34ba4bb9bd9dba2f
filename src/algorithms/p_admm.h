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
  struct Options {
    double rho = 1;                 // ρ
    L2Bound clip{1.0};              // c₁
    double row_bound = 1;           // public, on every row's length: steps of descent depend on it
    bool certified = true;
    Claim claim{"", Epsilon{0.0}, Delta{0.0}};
    PeerOutput output = PeerOutput::kLast;
    std::vector<std::uint32_t> rounds;                      // the rounds that run, ascending, from 1
  };

  struct Note {
    Released<Vec> w;                // w̃_k
    auto Fields() { return std::tie(w); }
  };

  // Whether the method applies; to be asked before a run is planned.
  static Status Fits(const Problem& p, double row_bound) {
    if (!p.f->clips_to_smooth())
      return Fail(Code::kUnsupported,
                  "p-admm: needs a smooth loss of a linear model (logistic, least-squares, huber, "
                  "smoothed-hinge); choose one, or nfl");
    if (p.g->Ridge() != 0.0)
      return Fail(Code::kUnsupported,
                  "p-admm: needs a smooth penalty; set penalty = \"none\" and use l2, or choose nfl");
    if (!(row_bound > 0) || !std::isfinite(row_bound))
      return Fail(Code::kInvalidArgument,
                  "p-admm: the rows have no public bound on their length; normalise or clip them");
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

  class Peer {
   public:
    Peer(Holding own, std::size_t degree, const Problem& problem, const Mechanism& mechanism,
         const Options& o,
         std::shared_ptr<const NoisePlan> sigma)            // noise on w_k, one per round that runs
        : own_(std::move(own)),
          problem_(&problem),
          mechanism_(&mechanism),
          o_(&o),
          sigma_(std::move(sigma)),
          edges_(problem, degree, o.rho),
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
      // The plan is for all neighbours: with fewer, w_k moves further and has as much more noise.
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

    void Hear(const Heard<Note>& heard) {
      edges_.Hear(heard);
      if (o_->output == PeerOutput::kMean && heard.taken()) mean_.Add(edges_.w());
    }

    View latest() const { return edges_.w(); }
    View iterate() const { return mean_.count > 0 ? View(mean_.value) : latest(); }
    std::array<std::size_t, 1> lengths() const { return {problem_->dim}; }
    const EdgeDuals& edges() const { return edges_; }
    auto State() { return std::tuple_cat(edges_.State(), std::tie(mean_.value, mean_.count)); }

   private:
    Holding own_;
    const Problem* problem_;
    const Mechanism* mechanism_;
    const Options* o_;
    std::shared_ptr<const NoisePlan> sigma_;
    EdgeDuals edges_;               // functions of notes: not private
    RunningMean mean_;
    double planned_;                // κ with all neighbours
  };
};
static_assert(Networked<PAdmm>);

}  // namespace tacit
