#pragma once

// Federated averaging and SCAFFOLD under privacy of single records: the noise is in every local step.
//   Noble, Bellet, Dieuleveut: Differentially private federated learning on heterogeneous data (AISTATS
//   2022).
//
//   client i   y = w; K times  g̃ = (1/m)( Σ_l clip_C(∇f_il(y)) + N(0, σ²I) ),  y ← y − η_l (g̃ + θy − c_i +
//   c);
//              sends y − w;  c_i ← mean of the K noisy gradients of this round
//   server     w ← w + η_g·mean(y − w);  c ← mean of the c_i
//
// K releases a round; everything else is a function of them: y, what is sent, and the control variates, which
// stay 0 in federated averaging. Since c_i = c_i − c + (w − y)/(Kη_l) − θ·mean(y), the server gets c_i beside
// y − w.
#include "algorithms/fed_avg.h"

namespace tacit {

struct RecordFedAvg {
  struct Options {
    LocalTraining local;  // batch and proximal are not used
    L2Bound clip{1.0};  // C, of one record's gradient
    bool certified = true;  // false: the noise of a paper, whose claim is recorded
    Claim claim{"", Epsilon{0.0}, Delta{0.0}};
    double rate = 1.0;  // η_g
    ServerOptimizer server;
    bool control = false;  // SCAFFOLD
    std::size_t last = 1;
    std::vector<std::uint32_t> rounds;  // those that run, ascending, from 1
  };

  struct Down {
    Public<std::uint32_t> t;  // index into Options::rounds
    Released<Vec> w, c;  // empty in the first round: the public start, and 0
    auto Fields() { return std::tie(t, w, c); }
  };
  struct Up {
    Released<Vec> update, control;  // y − w, and the new c_i; the latter empty without SCAFFOLD
    auto Fields() { return std::tie(update, control); }
  };

  class Client : public NoisyClient<Options> {
   public:
    Client(Holding own, const Problem& problem, const Mechanism& mechanism, const Options& o,
           std::shared_ptr<const NoisePlan> sigma)
        : NoisyClient(std::move(own), problem, mechanism, o, std::move(sigma)),
          control_(o.control ? problem.dim : 0) {}

    Status Round(const Down& in, Up& up, Scratch& s) {
      const View w = in.w->empty() ? View(problem_->start) : View(*in.w);
      const auto m = static_cast<double>(own_.records);
      for (std::uint32_t k = 0; k < o_->local.steps; ++k) {
        const View y = k == 0 ? w : View(*y_);
        const Bounded sum = Bounded::ClippedSum(own_.data, *problem_->f, y, o_->clip, s.clip);
        TACIT_OK(mechanism_->Release(sum, (*sigma_)[*in.t], *own_.ledger, *s.rng, s.noise, s.released));
        if (!o_->certified) own_.ledger->Record(o_->claim);
        s.released.Into<&Step>(y_, Vec(y.begin(), y.end()), control_, *in.c, o_->local, m);
        if (o_->control) s.released.Into<&Gather>(up.control, k, 1 / (m * o_->local.steps));
      }
      y_.Into<[](const Vec& y, Vec& update, const View& from) {
        update.resize(y.size());
        for (std::size_t j = 0; j < y.size(); ++j) update[j] = y[j] - from[j];
      }>(up.update, w);
      if (o_->control) control_ = *up.control;
      return Ok{};
    }
    void Finish(const Down&) {}
    auto State() { return std::tie(control_); }

   private:
    // y ← y − η_l (g̃ + θy − c_i + c)
    static void Step(const Vec& sum, Vec& y, const Vec& from, const Vec& own, const Vec& c,
                     const LocalTraining& o, const double& m) {
      y.resize(from.size());
      for (std::size_t j = 0; j < y.size(); ++j) {
        const double drift = own.empty() ? 0.0 : (c.empty() ? 0.0 : c[j]) - own[j];
        y[j] = from[j] - o.rate * (sum[j] / m + o.l2 * from[j] + drift);
      }
    }
    static void Gather(const Vec& sum, Vec& mean, const std::uint32_t& k, const double& weight) {
      if (k == 0) mean.assign(sum.size(), 0.0);
      Axpy(weight, sum, mean);
    }
    Vec control_;  // c_i: a function of releases
    Released<Vec> y_;
  };

  struct Sum {
    ReleasedSum update, control;
    void Reset() { update.Reset(), control.Reset(); }
    void Add(const Up& up) { update.Take(up.update, 1), control.Take(up.control, 1); }
    void Merge(const Sum& other) { update.Take(other.update), control.Take(other.control); }
    auto State() { return std::tuple_cat(update.State(), control.State()); }
  };

  class Server : public FederatedServer {
   public:
    Server(const Problem& problem, const Options& o)
        : FederatedServer(problem, o.rounds, o.last, o.server), o_(&o) {}
    Result<bool> Round(Sum& sum, Down& down, Scratch&) {
      answered_ = sum.update.count;
      if (answered_ > 0) {
        MoveBy(sum.update.total, answered_, o_->rate, down.w);
        const std::size_t dim = down.w->size();
        const double count = answered_;
        if (o_->control) sum.control.total.Into<&MeanOf>(down.c, dim, count);
      }
      return Advance(down);
    }
    std::array<std::size_t, 2> lengths() const { return {dim_, o_->control ? dim_ : 0}; }
    double step_size() const { return o_->rate; }  // η_g of every round

   private:
    const Options* o_;
  };
};
static_assert(Algorithm<RecordFedAvg>);

}  // namespace tacit
