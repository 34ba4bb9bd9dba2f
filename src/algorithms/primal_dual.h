#pragma once

// Locally private primal-dual proximal method with dynamic noise allocation.
//   J. Zhang, D. Fay, M. Johansson: Dynamic privacy allocation for locally differentially private
//   federated learning with composite objectives (ICASSP 2024), eq. (7).
//
// minimise (1/n) Σ_i f_i(x) + (θ/2)‖x‖² + g(x). With s = 1/n as printed (or 1, the objective times n):
//   worker i   x̃_i = x_i − γ( s·∇f_i(x_i) + ζ_i + Λ_i ),  ζ_i ~ N(0, ξ_t² I),  send x̃_i
//   server     x̄ = (1/n) Σ_i x̃_i,  broadcast
//   worker i   Λ_i += x̃_i − x̄;  x_i = prox_{γ s g}( x̃_i − γ(x̃_i − x̄) )
//
// What is released is the noisy sum of per-record gradients, clipped to B in certified mode; x̃_i is
// post-processing of it, since x_i and Λ_i are functions of earlier messages (x_i¹ public, Λ_i¹ = 0).
// A client whose message was not counted goes on as if it had been: Σ Λ_i is then off by its x̃_i − x̄, once.
// Proof, and where the printed algorithm differs: docs/algorithms/primal_dual.md.
#include <cmath>

#include "algorithms/algorithm.h"

namespace tacit {

struct PrimalDual {
  struct Options {
    double gamma = 0.25;            // γ
    double scale = 1.0;             // s
    double l2 = 0;                  // θ
    L2Bound clip{1.0};              // B
    bool certified = true;
    Claim claim{"", Epsilon{0.0}, Delta{0.0}};              // paper mode: what the paper says of the run
    std::vector<std::uint32_t> rounds;                      // the rounds that run, ascending, from 1
  };

  struct Down {
    Public<std::uint32_t> t;        // index into Options::rounds
    Released<Vec> x_bar;            // x̄ of the round before; empty in the first
    auto Fields() { return std::tie(t, x_bar); }
  };
  struct Up {
    Released<Vec> x_tilde;
    auto Fields() { return std::tie(x_tilde); }
  };

  // x̃ = x − γ( s·(∇̃f + θx) + Λ ), where ∇̃f = (released sum)/m carries the noise.
  static void Step(const Vec& sum, Vec& x_tilde, const Vec& x, const Vec& lambda, const Options& o,
                   const double& m) {
    x_tilde.resize(x.size());
    const double a = o.scale / m, b = o.scale * o.l2;
    for (std::size_t j = 0; j < x.size(); ++j)
      x_tilde[j] = x[j] - o.gamma * (a * sum[j] + b * x[j] + lambda[j]);
  }

  static void Mean(const Vec& total, Vec& x_bar, const double& count) {      // x̄ = (1/n) Σ_i x̃_i
    x_bar.resize(total.size());
    for (std::size_t j = 0; j < total.size(); ++j) x_bar[j] = total[j] / count;
  }

  class Client : public NoisyClient<Options> {
   public:
    Client(Holding own, const Problem& problem, const Mechanism& mechanism, const Options& o,
           std::shared_ptr<const NoisePlan> sigma)  // noise on the sum, one per round that runs
        : NoisyClient(std::move(own), problem, mechanism, o, std::move(sigma)),
          x_(problem.start.empty() ? Vec(problem.dim) : problem.start),
          lambda_(problem.dim),
          x_tilde_(problem.dim) {}

    Status Round(const Down& in, Up& up, Scratch& s) {
      if (!in.x_bar->empty()) Absorb(*in.x_bar);
      TACIT_OK(ReleaseSum(own_, *problem_, *mechanism_, *o_, x_, (*sigma_)[*in.t], s));
      s.released.Into<&Step>(up.x_tilde, x_, lambda_, *o_, static_cast<double>(own_.records));
      x_tilde_ = *up.x_tilde;
      return Ok{};
    }

    void Finish(const Down& in) {
      if (!in.x_bar->empty()) Absorb(*in.x_bar);
    }
    View iterate() const { return x_; }
    auto State() { return std::tie(x_, lambda_, x_tilde_); }

   private:
    void Absorb(const Vec& x_bar) {
      for (std::size_t j = 0; j < x_.size(); ++j) {
        const double gap = x_tilde_[j] - x_bar[j];
        lambda_[j] += gap;  // Λ_i ← Λ_i + x̃_i − x̄
        x_[j] = x_tilde_[j] - o_->gamma * gap;  // z_i = x̃_i − γ(x̃_i − x̄)
      }
      problem_->g->Prox(o_->gamma * o_->scale, x_);  // x_i = prox_{γ s g}(z_i)
    }

    Vec x_, lambda_, x_tilde_;  // functions of past messages: not private
  };

  struct Sum : ReleasedSum {  // Σ_i x̃_i of the clients that answered
    void Add(const Up& up) { Take(up.x_tilde, 1); }
    void Merge(const Sum& other) { Take(other); }
  };

  class Server {
   public:
    Server(const Problem& problem, const Options& o) : dim_(problem.dim), o_(&o) {}
    bool Start(Down& down) {
      t_ = 0;
      down = Down{Public<std::uint32_t>(0), Released<Vec>()};
      return !o_->rounds.empty();
    }
    Result<bool> Round(Sum& sum, Down& down, Scratch&) {
      answered_ = sum.count;
      if (answered_ > 0)
        sum.total.Into<&Mean>(down.x_bar, static_cast<double>(sum.count));
      else
        down.x_bar = Released<Vec>();                       // nobody answered: there is no step
      down.t.Mutable() = ++t_;
      return t_ < o_->rounds.size();
    }
    std::uint32_t round() const { return t_ < o_->rounds.size() ? o_->rounds[t_] : o_->rounds.back(); }
    std::array<std::size_t, 1> lengths() const { return {dim_}; }
    std::uint32_t answered() const { return answered_; }
    double step_size() const { return o_->gamma; }  // of the workers, in every round
    auto State() { return std::tie(t_); }

   private:
    std::size_t dim_;
    const Options* o_;
    std::uint32_t t_ = 0, answered_ = 0;
  };
};
static_assert(Algorithm<PrimalDual>);

}  // namespace tacit
