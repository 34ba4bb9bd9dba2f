#pragma once

// The loop around the runtime of a network: what is measured and kept where there is no server.
#include "experiment/drive.h"
#include "runtime/graph.h"

namespace tacit {

template <Networked A>
class DriveNetwork final : public DriveLoop {
 public:
  // rounds: those that run, ascending. All outlive the loop.
  DriveNetwork(Session& s, RunResult& r, std::vector<typename A::Peer>& peers,
               const std::vector<std::uint32_t>& rounds, const RollCall& who)
      : DriveLoop(s, r),
        net_(*s.plan.network),
        peers_(peers),
        rounds_(rounds),
        who_(who),
        runtime_(ThreadsOf(s), noise_) {
    if (s.ranks() == nullptr) return;
    accounts_.emplace(*s.book, *s.ranks(), s.vault != nullptr);
    runtime_.Split(*s.ranks(), *accounts_, net_.graph);
  }

 private:
  unsigned threads() const override { return runtime_.threads(); }
  Status Go(std::size_t done, const Watcher& watcher) override {
    // A penalty from private data shapes every note.
    if (s_.config.model.weight_rule == "data") TACIT_OK(s_.book->Charge(PrivacyEvent(NonPrivateEvent{})));
    return done == 0 ? runtime_.Run(net_.graph, peers_, rounds_, who_, watcher)
                     : runtime_.Resume(net_.graph, peers_, rounds_, done, who_, watcher);
  }
  Status Collect() override { return runtime_.Collect(peers_); }
  Status Dismiss() override { return runtime_.Dismiss(); }
  Status Save(const Standing& at) override {
    return Checkpoint::SaveNetwork<A>(File("checkpoint"), ConfigDigest(s_.config), at, runtime_.notes(),
                                      peers_);
  }
  Result<Standing> Load(std::size_t) override {
    runtime_.notes().assign(peers_.size(), {});
    return Checkpoint::LoadNetwork<A>(File("checkpoint"), ConfigDigest(s_.config), runtime_.notes(), peers_);
  }

  // What the notes were before the round: the dual residual is about how far they move.
  Status Expect() override {
    TACIT_OK(Collect());
    before_.resize(peers_.size() * s_.plan.dim);
    for (std::size_t k = 0; k < peers_.size(); ++k) Copy(peers_[k].latest(), Before(k));
    expected_ = r_.rounds_done + 1;
    return Ok{};
  }
  Span Before(std::size_t k) { return Span(before_).subspan(k * s_.plan.dim, s_.plan.dim); }

  Metrics Measured() override {
    const std::uint32_t round = r_.rounds_done == 0 ? 0 : rounds_[r_.rounds_done - 1];
    const auto gone = [&](std::size_t k) {
      return who_.At(round, static_cast<std::uint32_t>(k)) == Presence::kGone;
    };
    Fill(mean_, 0.0);
    double count = 0, consensus = 0;
    for (std::size_t k = 0; k < peers_.size(); ++k)
      if (!gone(k)) Axpy(1.0, peers_[k].iterate(), mean_), ++count;
    Scale(1 / count, mean_);
    for (std::size_t k = 0; k < peers_.size(); ++k)
      if (!gone(k)) consensus += DistanceSquared(peers_[k].iterate(), mean_) / count;
    Metrics m = Measure(s_, mean_, std::nullopt);
    m.consensus = consensus;
    if (s_.oracle) s_.oracle->MeasurePeers(consensus, m);
    if (r_.rounds_done > 0 && expected_ == r_.rounds_done) {
      const NetworkResiduals of = ResidualsOf(
          net_.graph, net_.rho > 0 ? net_.rho : 1.0, [&](std::size_t k) { return peers_[k].latest(); },
          [&](std::size_t k) { return View(Before(k)); }, gone);
      m.primal_residual = of.primal;
      m.dual_residual = of.dual;
    } else if (made_ == 0 && !r_.trace.empty()) {      // resumed at its end: as the trace has them
      m.primal_residual = r_.trace.back().second.primal_residual;
      m.dual_residual = r_.trace.back().second.dual_residual;
    }
    return m;
  }

  void Describe(nlohmann::json& line) const override {
    if (net_.eta > 0)      // p-admm minimises and has none
      line["step_size"] = Number(StepSize{net_.eta, net_.falling}.At(rounds_[r_.rounds_done - 1]));
  }

  const NetworkPlan& net_;
  std::vector<typename A::Peer>& peers_;
  const std::vector<std::uint32_t>& rounds_;
  const RollCall& who_;
  GraphRuntime<A> runtime_;
  std::optional<RankAccounts> accounts_;
  Vec before_;
  std::size_t expected_ = 0;      // the round, counted among those that run, that before_ is of
};

// At a rank other than 0: `make` makes the peers that are here.
template <Networked A, class Make>
Status AssistNetwork(Session& s, Make make, const std::vector<std::uint32_t>& rounds, const RollCall& who) {
  GraphRuntime<A> runtime(ThreadsOf(s), NoiseOf(s));
  RankAccounts accounts(*s.book, *s.ranks(), s.hooks.write_folder);
  runtime.Split(*s.ranks(), accounts, s.plan.network->graph);
  return runtime.Attend(s.plan.network->graph, make, rounds, who);
}

}  // namespace tacit
