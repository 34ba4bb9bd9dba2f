#include "experiment/session.h"

#include <sched.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "experiment/network_plan.h"
#include "runtime/ranks.h"

namespace tacit {
namespace {

// Everything but where it runs, what it is called and what is kept. A key that has its default is left out,
// so that a version with more keys shapes the same run the same way.
std::string Shaping(Config c) {
  Config plain;
  const std::vector<Section> given = Describe(c), usual = Describe(plain);
  std::string text = fmt::format("seed = {}\n", c.experiment.seed);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].name() == "runtime" || given[i].name() == "experiment") continue;
    for (std::size_t k = 0; k < given[i].options().size(); ++k) {
      const Option& o = given[i].options()[k];
      if (given[i].name() == "data" && o.key == "id") continue;
      const std::string value = ToText(o.get());
      if (value != ToText(usual[i].options()[k].get()))
        text += fmt::format("{}.{} = {}\n", given[i].name(), o.key, value);
    }
  }
  return text;
}

}  // namespace

bool Session::aside() const { return ranks() != nullptr && !ranks()->first(); }

std::uint64_t ReplaySeed(const Session& s) {
  if (s.replay_seed) return *s.replay_seed;
  const Dataset& d = s.partition.data;
  // A file counts by its name and content: the same run in another folder replays the same noise.
  Config named = s.config;
  for (std::string* file : {&named.data.source, &named.data.test})
    *file = std::filesystem::path(*file).filename().string();
  Sha256 hash;
  hash.Add(Shaping(std::move(named)));
  hash.Add(std::span<const double>(d.value));
  const Shard all(d, 0, d.rows());
  for (std::size_t at = 0; d.mapped && at < d.rows(); at += all.block()) {
    const std::size_t n = std::min(all.block(), d.rows() - at);
    hash.Add(std::span<const double>(all.row(at).value, n * d.features));
    all.Done(at, n);
  }
  hash.Add(std::span<const std::uint32_t>(d.column));
  hash.Add(std::span<const std::uint64_t>(d.row_begin));
  hash.Add(std::span<const double>(d.label));
  if (s.plan.network) hash.Add(EdgeList(s.plan.network->graph));
  const Sha256::Digest digest = hash.Finish();
  std::uint64_t seed = 0;
  std::memcpy(&seed, digest.data(), sizeof seed);
  return seed;
}

unsigned ThreadsOf(const Session& s) {
  if (s.hooks.threads != 0) return s.hooks.threads;
  if (s.config.runtime.threads != 0) return static_cast<unsigned>(s.config.runtime.threads);
  unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  if (s.ranks() == nullptr) return cores;
  // Whoever starts several processes on a machine may have bound each to its cores; if not, they share.
  cpu_set_t mine;
  CPU_ZERO(&mine);
  unsigned bound =
      sched_getaffinity(0, sizeof mine, &mine) == 0 ? static_cast<unsigned>(CPU_COUNT(&mine)) : cores;
  cores = std::max(1u, cores / std::max(1u, s.ranks()->neighbours()));
  return bound < cores || bound == 0 ? std::max(1u, bound) : cores;
}

Sha256::Digest ConfigDigest(const Config& c) {
  Sha256 hash;
  hash.Add("tacit " TACIT_VERSION "\n");
  hash.Add(Shaping(c));
  return hash.Finish();
}

Metrics Measure(Session& s, View mean_model, std::optional<double> consensus) {
  Metrics m;
  if (s.test) {
    const Shard all(*s.test, 0, s.test->rows());
    m.loss = s.objective->Value(all, mean_model, s.work);
    m.accuracy = s.objective->Accuracy(all, mean_model);
    all.Done(0, all.size());
  }
  if (s.oracle) {
    s.oracle->Measure(mean_model, consensus, m);
    if (!m.loss) m.loss = m.train_loss;
    if (!s.test) m.accuracy = m.train_accuracy;
  }
  return m;
}

std::vector<std::vector<MuSquared>> PlannedCharges(const Session& s) {
  if (s.plan.network) return NetworkCharges(s.plan, *s.mechanism);
  std::vector<std::vector<MuSquared>> out;
  for (const auto& noise : s.plan.noise) {
    auto& costs = out.emplace_back();
    for (NoiseStd sigma : *noise)
      costs.push_back(MuSquared::Proven(
          std::isinf(s.plan.sensitivity) || s.mechanism == nullptr
              ? kInf
              : MulUp(
                    static_cast<double>(s.plan.each),
                    Cost(s.mechanism->EventFor(L2Bound::Proven(s.plan.sensitivity), sigma, s.plan.released()))
                        .value())));
  }
  return out;
}

MuSquared PlannedCost(const Session& s) {
  MuSquared most{0.0};
  for (const auto& charges : PlannedCharges(s)) {
    MuSquared sum{0.0};
    const std::size_t paid = s.plan.turns != 0 ? std::min(s.plan.turns, charges.size()) : charges.size();
    for (std::size_t k = 0; k < paid; ++k) sum = sum + charges[k];      // with turns all cost the same
    if (sum > most) most = sum;
  }
  return most;
}

Problem MakeProblem(const Session& s) {
  Problem problem{.f = s.objective.get(),
                  .g = s.regularizer.get(),
                  .l2 = s.config.model.l2,
                  .dim = s.plan.dim,
                  .clients = static_cast<std::uint32_t>(s.plan.clients),
                  .start = {}};
  problem.start.resize(s.plan.dim);
  s.objective->Initialise(s.config.experiment.seed, s.facts.features, problem.start);
  return problem;
}

Claim ClaimOf(const Plan& plan) {
  return {plan.claim_source, Epsilon::Proven(plan.epsilon), Delta::Proven(plan.delta)};
}

Holding HoldingOf(Session& s, std::uint32_t i) {
  const std::uint32_t at = s.at_site || s.at_peer ? 0 : i;
  return {i, s.plan.divisor != 0 ? s.plan.divisor : s.partition.size(at), s.partition.shard(at),
          &s.book->account(at), s.plan.weights.empty() ? 1.0 : s.plan.weights[i]};
}

}  // namespace tacit
