#include "algorithms/primal_dual.h"
#include "experiment/drive.h"

namespace tacit {
namespace {

Status LaunchPrimalDual(Session& s, RunResult& r) {
  const Config& c = s.config;
  const Plan& plan = s.plan;
  Problem problem{.f = s.objective.get(),
                  .g = s.regularizer.get(),
                  .l2 = c.model.l2,
                  .dim = plan.dim,
                  .clients = static_cast<std::uint32_t>(plan.clients),
                  .start = {}};
  problem.start.resize(plan.dim);
  s.objective->Initialise(c.experiment.seed, s.facts.features, problem.start);
  PrimalDual::Options o;
  o.gamma = plan.gamma;
  o.scale = c.algorithm.scaling == "printed" ? 1.0 / static_cast<double>(plan.clients) : 1.0;
  o.l2 = c.model.l2;
  o.clip = L2Bound::Proven(c.privacy.clip);
  o.certified = c.algorithm.mode == "certified";
  o.claim = {plan.claim_source, Epsilon::Proven(plan.epsilon), Delta::Proven(plan.delta)};
  for (const PlannedRound& p : plan.schedule) o.rounds.push_back(p.round);

  std::vector<PrimalDual::Client> clients;
  clients.reserve(plan.clients);
  // What a client divides its sum by must not tell neighbours apart. Where a record may be there or not,
  // or a person has any number of them, that is a public number of the plan; otherwise neighbours have
  // equally many records.
  for (std::uint32_t i = 0; i < plan.clients; ++i) {
    clients.emplace_back(Holding{i, plan.divisor != 0 ? plan.divisor : s.partition.size(i),
                                 s.partition.shard(i), &s.book->account(i)},
                         problem, *s.mechanism, o, plan.noise[plan.noise_of[i]]);
  }
  PrimalDual::Server server(o);
  return Drive<PrimalDual>(s, r, server, clients).Run();
}

}  // namespace

Status Launch(Session& s, RunResult& r) { return LaunchPrimalDual(s, r); }

}  // namespace tacit
