#pragma once

// Federated averaging under client-level privacy, and what varies its global step.
//   McMahan, Ramage, Talwar, Zhang: Learning differentially private recurrent language models (ICLR 2018);
//   as the baseline of Takakura, Liew, Hasegawa: DP-FedEXP.
//
//   client i   trains locally from w, Δ_i = clip_C(w_i − w), sends it (noised, or to a trusted server)
//   server     c̄ = released mean of the Δ_i;  w ← w + η_g c̄
//
// Step: the rule for η_g. FixedStep is federated averaging; ExtrapolatedStep (fed_exp.h) is FedEXP.
// Proof and accounting: docs/algorithms/fedexp.md.
#include "algorithms/aggregate.h"
#include "algorithms/local_training.h"
#include "algorithms/server_optimizer.h"

namespace tacit {

struct FixedStep {
  double rate = 1.0;              // η_g
  double operator()(const MeanUpdate&) const { return rate; }
};

// The model that is given out: the mean of the last k iterates, which is free.
class LastIterates {
 public:
  LastIterates(std::size_t k, Vec start) : k_(k), mean_(std::move(start)) {}
  void Add(View w) {
    if (k_ > 1) {
      ring_.resize(k_ * w.size());
      Copy(w, Span(ring_).subspan(static_cast<std::size_t>(seen_ % k_) * w.size(), w.size()));
    }
    ++seen_;
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(seen_, k_));
    if (k_ <= 1) return Copy(w, mean_);
    Fill(mean_, 0.0);
    for (std::size_t i = 0; i < n; ++i) Axpy(1.0, View(ring_).subspan(i * w.size(), w.size()), mean_);
    Scale(1.0 / static_cast<double>(n), mean_);
  }
  View mean() const { return mean_; }
  auto State() { return std::tie(ring_, mean_, seen_); }

 private:
  std::size_t k_;
  Vec ring_, mean_;
  std::uint64_t seen_ = 0;
};

// What the servers of this family share: the model, and the mean of the last ones. All of it is a function of
// releases.
class FederatedServer {
 public:
  template <class Down>
  bool Start(Down& down) {
    down = Down{};
    return t_ < rounds_->size();
  }
  std::uint32_t round() const { return t_ < rounds_->size() ? (*rounds_)[t_] : rounds_->back(); }
  View model() const { return last_.mean(); }
  std::uint32_t answered() const { return answered_; }
  auto State() { return std::tuple_cat(std::tie(t_, w_), last_.State(), direction_.State()); }

 protected:
  FederatedServer(const Problem& problem, const std::vector<std::uint32_t>& rounds, std::size_t last,
                  const ServerOptimizer& optimizer = {})
      : dim_(problem.dim),
        rounds_(&rounds),
        w_(problem.start),
        last_(last, problem.start),
        direction_(optimizer) {}
  // w + rate·c̄ with c̄ = update/divisor, or what the optimizer makes of it.
  void MoveBy(const Released<Vec>& update, double divisor, double rate, Released<Vec>& w) {
    const bool plain = direction_.plain();
    const View by = plain ? View(*update) : direction_(*update, divisor);
    const double times = plain ? rate / divisor : rate;
    update.Into<[](const Vec&, Vec& next, const Vec& from, const View& step, const double& size) {
      next.resize(from.size());
      for (std::size_t j = 0; j < from.size(); ++j) next[j] = from[j] + size * step[j];
    }>(w, w_, by, times);
    w_ = *w;
  }
  template <class Down>
  bool Advance(Down& down) {  // ends the round; false: it was the last
    last_.Add(w_);
    down.t.Mutable() = ++t_;
    return t_ < rounds_->size();
  }
  std::uint32_t t_ = 0, answered_ = 0;
  std::size_t dim_;

 private:
  const std::vector<std::uint32_t>* rounds_;
  Vec w_;
  LastIterates last_;
  ServerDirection direction_;
};

template <class Trust, class Step = FixedStep>
struct FedAvg {
  struct Options {
    LocalTraining local;
    UpdateNoise noise;
    Step step;
    ServerOptimizer server;
    std::size_t last = 1;  // iterates that the model is the mean of
    std::vector<std::uint32_t> rounds;  // those that run, ascending, from 1
  };

  struct Down {
    Public<std::uint32_t> t;  // from 0
    Released<Vec> w;  // empty in the first round: the public start
    auto Fields() { return std::tie(t, w); }
  };
  using Up = typename Trust::Up;
  using Sum = typename Trust::Sum;

  class Client {
   public:
    Client(Holding own, const Problem& problem, const Options& o)
        : own_(std::move(own)), problem_(&problem), o_(&o) {}
    Status Round(const Down& in, Up& up, Scratch& s) const {
      const View w = in.w->empty() ? View(problem_->start) : View(*in.w);
      if constexpr (requires { Trust::SendFactored(o_->noise, 0u, own_, up, s); }) {
        if (Trust::Plain(o_->noise, own_)) {
          TrainFactored(own_, *problem_, w, o_->local, *in.t, s);
          return Trust::SendFactored(o_->noise, *in.t, own_, up, s);
        }
      }
      TrainLocally(own_, *problem_, w, View(), o_->local, *in.t, s);
      return Trust::Send(o_->noise, *in.t, own_, up, s);
    }

   private:
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
      step_ = 0;
      if (o_->noise.HasRelease(Trust::Weight(sum))) {
        TACIT_OK(Trust::Mean(o_->noise, t_, sum, *book_, mean_, s));
        step_ = o_->step(mean_);
        MoveBy(mean_.value, 1, step_, down.w);
      }
      return Advance(down);
    }
    auto lengths() const { return Trust::UpLengths(o_->noise, dim_); }
    bool Accept(Private<Vec>& sent, double weight, Up& up) const requires IsEntrusted<Up> {
      return Trust::Accept(o_->noise, sent, weight, up);
    }
    double step_size() const { return step_; }  // η_g of the last round
    double mean_square() const  // what it was found from
        requires requires(Step s, const MeanUpdate& m) { s.Square(m); } {
      return o_->step.Square(mean_);
    }

   private:
    const Options* o_;
    LedgerBook* book_;
    MeanUpdate mean_;
    double step_ = 0;
  };
};
static_assert(Stateless<FedAvg<LocalNoise>> && Stateless<FedAvg<WeightedNoise>> &&
              Stateless<FedAvg<LocalUnit>> && Stateless<FedAvg<MaskedSums>> &&
              Stateless<FedAvg<TrustedServer>>);

}  // namespace tacit
