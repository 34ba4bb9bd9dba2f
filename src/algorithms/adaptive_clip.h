#pragma once

// Federated averaging whose clip follows a quantile of the updates' lengths.
//   G. Andrew, O. Thakkar, H. B. McMahan, S. Ramaswamy: Differentially private learning with adaptive
//   clipping (NeurIPS 2021), Algorithm 1.
//
//   client i   trains locally from w; Δ_i = (y − w)/s;  b_i = 1 if ‖Δ_i‖ ≤ C, else 0;
//              sends (clip_C(Δ_i), κ(b_i − 1)), noised or to a trusted server
//   server     (c̄, κ(b̄ − 1)) = the released mean;  w ← w + η_g s c̄;  s ← s·exp(−η_C (b̄ − γ))
//
// The clip in force is sC. It is the update that is divided by s and not the noise that is multiplied by it,
// so what is clipped, noised and charged has the public bound C in every round, whatever s is; s is a
// function of releases. Update and indicator are one release: two of them differ by at most √(4C² + κ²), and
// one is at most √(C² + κ²) long, so the count takes the share κ²/(4C² + κ²) of μ² under replace-one and
// κ²/(C² + κ²) otherwise. b̄ is held to [0, 1] and s to [1e-6, 1e6], which is post-processing.
#include <algorithm>
#include <cmath>

#include "algorithms/fed_avg.h"

namespace tacit {

struct ClipRule {
  double quantile = 0.5;  // γ: the share of updates that are to be left as they are
  double rate = 0.2;      // η_C
  double Next(double scale, double inside) const {
    return std::clamp(scale * std::exp(-rate * (std::clamp(inside, 0.0, 1.0) - quantile)), 1e-6, 1e6);
  }
  // κ for this share of μ², in (0, 1).
  static double Indicator(L2Bound clip, double share, Adjacency adjacency) {
    return (adjacency == Adjacency::kReplaceOne ? 2 : 1) * clip.value() * std::sqrt(share / (1 - share));
  }
};

template <class Trust>
struct AdaptiveFedAvg {
  struct Options {
    LocalTraining local;
    UpdateNoise noise;  // with an indicator
    FixedStep step;
    ClipRule clip;
    ServerOptimizer server;
    std::size_t last = 1;
    std::vector<std::uint32_t> rounds;  // those that run, ascending, from 1
  };

  struct Down {
    Public<std::uint32_t> t;  // from 0
    Released<Vec> w;          // empty in the first round: the public start
    Released<double> scale;   // s; 0 in the first round: 1
    auto Fields() { return std::tie(t, w, scale); }
  };
  using Up = typename Trust::Up;
  using Sum = typename Trust::Sum;

  class Client {
   public:
    Client(Holding own, const Problem& problem, const Options& o)
        : own_(std::move(own)), problem_(&problem), o_(&o) {}
    Status Round(const Down& in, Up& up, Scratch& s) const {
      const View w = in.w->empty() ? View(problem_->start) : View(*in.w);
      TrainLocally(own_, *problem_, w, View(), o_->local, *in.t, s);
      s.local.Into<&Shrink>(s.update, *in.scale > 0 ? *in.scale : 1.0);
      return Trust::Send(o_->noise, *in.t, own_, up, s);
    }

   private:
    static void Shrink(const LocalSpace&, Vec& update, const double& scale) {  // (y − w)/s
      for (double& v : update) v /= scale;
    }
    Holding own_;
    const Problem* problem_;
    const Options* o_;
  };

  class Server : public FederatedServer {
   public:
    Server(const Problem& problem, const Options& o, LedgerBook& book)
        : FederatedServer(problem, o.rounds, o.last, o.server), o_(&o), book_(&book) {}
    Result<bool> Round(Sum& sum, Down& down, Scratch& s) {
      answered_ = Trust::Count(sum);
      if (o_->noise.HasRelease(Trust::Weight(sum))) {
        TACIT_OK(Trust::Mean(o_->noise, t_, sum, *book_, mean_, s));
        MoveBy(mean_.value, 1 / scale_, o_->step.rate, down.w);
        scale_ = o_->clip.Next(scale_, mean_.inside);
        mean_.value.template Into<[](const Vec&, double& out, const double& scale) { out = scale; }>(
            down.scale, scale_);
      }
      return Advance(down);
    }
    auto lengths() const { return Trust::UpLengths(o_->noise, dim_); }
    bool Accept(Private<Vec>& sent, double weight, Up& up) const requires IsEntrusted<Up> {
      return Trust::Accept(o_->noise, sent, weight, up);
    }
    double clip_scale() const { return scale_; }  // s of the next round
    double step_size() const { return o_->step.rate; }  // η_g of every round
    auto State() { return std::tuple_cat(FederatedServer::State(), std::tie(scale_)); }

   private:
    const Options* o_;
    LedgerBook* book_;
    MeanUpdate mean_;
    double scale_ = 1;
  };
};
static_assert(Stateless<AdaptiveFedAvg<LocalNoise>> && Stateless<AdaptiveFedAvg<WeightedNoise>> &&
              Stateless<AdaptiveFedAvg<MaskedSums>> && Stateless<AdaptiveFedAvg<TrustedServer>>);

}  // namespace tacit
