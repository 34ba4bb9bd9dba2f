#pragma once

// SCAFFOLD under client-level privacy: local steps corrected for what a client's data differ in.
//   Karimireddy et al. (ICML 2020); DP-SCAFFOLD: Noble, Bellet, Dieuleveut (AISTATS 2022).
//
//   client i   K times  y ← y − η_l (∇f_i(y) − c_i + c),  Δ_i = clip_C(y − w), sends it;
//              c_i ← c_i − c − Δ̃_i/(Kη_l)
//   server     w ← w + η_g c̄;  c ← −c̄/(Kη_l), the mean of the new c_i; where a share s of the clients takes
//   part,
//              c ← (1 − s) c − s c̄/(Kη_l), and the others keep their c_i
//
// Δ̃_i is what client i knows was counted: its released message (or what the server makes of it) with local
// trust, its own clipped update with a trusted server or masks. c is a function of releases. c_i never leaves
// client i; what it does to later updates is inside their clipping.
#include "algorithms/fed_avg.h"

namespace tacit {

template <class Trust>
struct Scaffold {
  struct Options {
    LocalTraining local;
    UpdateNoise noise;
    double rate = 1.0;  // η_g
    ServerOptimizer server;
    bool control = true;  // false: all control variates stay 0, federated averaging
    std::size_t last = 1;
    std::vector<std::uint32_t> rounds;  // those that run, ascending, from 1
  };

  struct Down {
    Public<std::uint32_t> t;
    Released<Vec> w, c;  // empty in the first round: the public start, and 0
    auto Fields() { return std::tie(t, w, c); }
  };
  using Up = typename Trust::Up;
  using Sum = typename Trust::Sum;

  class Client {
   public:
    Client(Holding own, const Problem& problem, const Options& o)
        : own_(std::move(own)), problem_(&problem), o_(&o), control_(Vec(o.control ? problem.dim : 0)) {}
    Status Round(const Down& in, Up& up, Scratch& s) {
      const View w = in.w->empty() ? View(problem_->start) : View(*in.w);
      control_.Into<&Drift>(drift_, View(*in.c));
      TrainLocally(own_, *problem_, w, drift_, o_->local, *in.t, s);
      TACIT_OK(Trust::Send(o_->noise, *in.t, own_, up, s));
      if (!o_->control) return Ok{};
      const double unit = 1.0 / (o_->local.rate * static_cast<double>(o_->local.steps));
      drift_.Into<&NextControl>(control_, Trust::Counted(o_->noise, up, s), unit);
      return Ok{};
    }
    void Finish(const Down&) {}
    auto State() { return std::tie(control_); }

   private:
    static void Drift(const Vec& own, Vec& drift, const View& c) {  // c − c_i
      drift.resize(own.size());
      for (std::size_t j = 0; j < own.size(); ++j) drift[j] = (c.empty() ? 0.0 : c[j]) - own[j];
    }
    // c_i ← c_i − c − Δ̃_i/(Kη_l)
    static void NextControl(const Vec& drift, Vec& own, const View& update, const double& unit) {
      for (std::size_t j = 0; j < own.size(); ++j) own[j] = -drift[j] - unit * update[j];
    }
    Holding own_;
    const Problem* problem_;
    const Options* o_;
    Private<Vec> control_, drift_;
  };

  class Server : public FederatedServer {
   public:
    Server(const Problem& problem, const Options& o, LedgerBook& book)
        : FederatedServer(problem, o.rounds, o.last, o.server), o_(&o), book_(&book) {}
    Result<bool> Round(Sum& sum, Down& down, Scratch& s) {
      answered_ = Trust::Count(sum);
      if (o_->noise.HasRelease(Trust::Weight(sum))) {
        TACIT_OK(Trust::Mean(o_->noise, t_, sum, *book_, mean_, s));
        MoveBy(mean_.value, 1, o_->rate, down.w);
        const double unit = 1.0 / (o_->local.rate * static_cast<double>(o_->local.steps));
        const double took_part = o_->noise.expected > 0 ? o_->noise.expected : Trust::Weight(sum);
        const double share = o_->noise.sampled ? took_part / o_->noise.everyone : 1.0;
        if (o_->control) mean_.value.template Into<&Control>(down.c, unit, share);
      }
      return Advance(down);
    }
    auto lengths() const { return Trust::UpLengths(o_->noise, dim_); }
    bool Accept(Private<Vec>& sent, double weight, Up& up) const requires IsEntrusted<Up> {
      return Trust::Accept(o_->noise, sent, weight, up);
    }
    double step_size() const { return o_->rate; }  // η_g of every round

   private:
    // (1 − s) c − s c̄/(Kη_l), s the share of clients that took part: c + (s/|S|) Σ (c_i⁺ − c_i).
    static void Control(const Vec& mean, Vec& c, const double& unit, const double& share) {
      c.resize(mean.size());
      for (std::size_t j = 0; j < c.size(); ++j)
        c[j] = share == 1 ? -unit * mean[j] : (1 - share) * c[j] - share * unit * mean[j];
    }
    const Options* o_;
    LedgerBook* book_;
    MeanUpdate mean_;
  };
};
static_assert(Algorithm<Scaffold<LocalNoise>> && Algorithm<Scaffold<WeightedNoise>> &&
              Algorithm<Scaffold<LocalUnit>> && Algorithm<Scaffold<MaskedSums>> &&
              Algorithm<Scaffold<TrustedServer>>);

}  // namespace tacit
