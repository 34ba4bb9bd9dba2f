#pragma once

// ISRL-DP noisy gradient descent: every client releases a noisy gradient of its records.
//   A. Lowy, M. Razaviyayn: Private federated learning without a trusted server: optimal algorithms for
//   convex losses (ICLR 2023).
//
//   client i   g̃_i = (1/m)( Σ_l clip_C(∇f_il(w)) + N(0, σ²I) )
//   server     w_{r+1} = prox_{η_r g}( w_r − η_r (mean g̃_i + θ w_r) )
// With strong convexity μ > 0: η_r = 2/(μ(r + 1)), and the model is Σ_r 2r/(R(R + 1)) w_r; without: η_r = η
// and the plain mean. For g the indicator of a ball or box the prox is the projection of the paper.
#include "algorithms/algorithm.h"

namespace tacit {

struct IsrlDp {
  struct Options {
    double rate = 0.1;  // η, where there is no strong convexity
    double strong_convexity = 0;  // μ
    double l2 = 0;  // θ
    L2Bound clip{1.0};  // C
    bool certified = true;  // false: as printed, where a bound on gradients is assumed and nothing is clipped
    Claim claim{"", Epsilon{0.0}, Delta{0.0}};
    std::vector<std::uint32_t> rounds;  // those that run, ascending, from 1
  };

  struct Down {
    Public<std::uint32_t> t;  // index into Options::rounds
    Released<Vec> w;  // empty in the first round: the public start
    auto Fields() { return std::tie(t, w); }
  };
  struct Up {
    Released<Vec> gradient;
    auto Fields() { return std::tie(gradient); }
  };

  class Client : public NoisyClient<Options> {
   public:
    using NoisyClient::NoisyClient;
    Status Round(const Down& in, Up& up, Scratch& s) const {
      const View w = in.w->empty() ? View(problem_->start) : View(*in.w);
      TACIT_OK(ReleaseSum(own_, *problem_, *mechanism_, *o_, w, (*sigma_)[*in.t], s));
      s.released.Into<[](const Vec& from, Vec& to, const double& m) {
        to = from;
        Scale(1 / m, to);
      }>(up.gradient, static_cast<double>(own_.records));
      return Ok{};
    }
  };

  struct Sum : ReleasedSum {
    void Add(const Up& up) { Take(up.gradient, 1); }
    void Merge(const Sum& other) { Take(other); }
  };

  class Server {
   public:
    Server(const Problem& problem, const Options& o)
        : problem_(&problem), o_(&o), w_(problem.start), model_(problem.start) {}
    bool Start(Down& down) {
      down = Down{};
      return t_ < o_->rounds.size();
    }
    Result<bool> Round(Sum& sum, Down& down, Scratch&) {
      answered_ = sum.count;
      const double r = t_ + 1, mu = o_->strong_convexity;
      step_ = mu > 0 ? 2 / (mu * (r + 1)) : o_->rate;
      if (answered_ > 0) {
        sum.total.Into<[](const Vec& total, Vec& next, const Vec& w, const double& n, const double& rate,
                          const double& l2, const Regularizer& g) {
          next.resize(w.size());
          for (std::size_t j = 0; j < w.size(); ++j) next[j] = w[j] - rate * (total[j] / n + l2 * w[j]);
          g.Prox(rate, next);
        }>(down.w, w_, static_cast<double>(answered_), step_, o_->l2, *problem_->g);
        w_ = *down.w;
      }
      // Σ_r 2r/(R(R + 1)) w_r, or (1/R) Σ w_r, as a running mean: the weight of the newest is 2/(r + 1) or
      // 1/r.
      const double newest = mu > 0 ? 2 / (r + 1) : 1 / r;
      for (std::size_t j = 0; j < w_.size(); ++j) model_[j] += newest * (w_[j] - model_[j]);
      down.t.Mutable() = ++t_;
      return t_ < o_->rounds.size();
    }
    std::uint32_t round() const { return t_ < o_->rounds.size() ? o_->rounds[t_] : o_->rounds.back(); }
    std::array<std::size_t, 1> lengths() const { return {problem_->dim}; }
    View model() const { return model_; }
    double step_size() const { return step_; }
    std::uint32_t answered() const { return answered_; }
    auto State() { return std::tie(t_, w_, model_); }

   private:
    const Problem* problem_;
    const Options* o_;
    Vec w_, model_;
    std::uint32_t t_ = 0, answered_ = 0;
    double step_ = 0;
  };
};
static_assert(Stateless<IsrlDp>);

}  // namespace tacit
