// Runs without a server, from a config to a certificate that verifies.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "algorithms/nfl_theory.h"
#include "experiment/kill_runs.h"
#include "experiment/network_plan.h"
#include "experiment/test_runs.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Sets = std::vector<Assignment>;

class NetworkRuns : public TestRuns {
 protected:
  NetworkRuns()
      : TestRuns(R"(
[data]
source = "synthetic-linear"
rows = 241
features = 4
density = 1.0
clients = 12
row_norm = "clip"
row_bound = 2.0
[model]
name = "huber"
l2 = 0.1
[privacy]
epsilon = 2
delta = 1e-4
noise = "replayable"
[algorithm]
name = "zcdp-nfl"
rounds = 30
[network]
topology = "regular"
degree = 3
)") {}
};

struct Kind {
  const char* why;
  Sets sets;
};
const Kind kKinds[] = {
    {"zcdp-nfl", {}},
    {"zcdp-nfl, the mean of all notes", {{"algorithm.output", "mean"}}},
    {"zcdp-nfl, falling steps", {{"algorithm.eta_rule", "sqrt"}}},
    {"zcdp-nfl, geometric", {{"algorithm.allocation", "geometric"}, {"algorithm.ratio", "0.9"}}},
    {"zcdp-nfl, equal rounds", {{"algorithm.allocation", "static"}}},
    {"zcdp-nfl, zero-out", {{"privacy.adjacency", "zero-out"}}},
    {"zcdp-nfl, add-remove", {{"privacy.adjacency", "add-remove"}}},
    {"zcdp-nfl, peers of unknown sizes", {{"data.split", "dirichlet"}}},
    {"zcdp-nfl, double-precision noise", {{"privacy.mechanism", "gaussian"}}},
    {"zcdp-nfl, no noise", {{"privacy.mechanism", "expose"}}},
    {"zcdp-nfl, a budget each", {{"privacy.budgets", "[1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 0.5]"}}},
    {"zcdp-nfl, absences",
     {{"network.away", R"(["3: 5-9", "4: 30-30"])"}, {"network.leave", R"(["7: 12"])"}}},
    {"zcdp-nfl, everyone is away once",
     {{"data.clients", "5"},
      {"network.topology", "complete"},
      {"network.away", R"(["0: 1-2", "1: 2-3", "2: 3-4", "3: 4-5", "4: 5-6"])"}}},
    {"zcdp-nfl, the paper's mode, bounded", {{"algorithm.mode", "paper"}}},
    {"zcdp-nfl, the paper's mode, a falling variance",
     {{"algorithm.mode", "paper"}, {"algorithm.allocation", "geometric"}, {"algorithm.ratio", "0.95"}}},
    {"zcdp-nfl, the paper's mode, absences",
     {{"algorithm.mode", "paper"}, {"network.away", R"(["3: 5-9"])"}}},
    {"zcdp-nfl, the paper's mode, nothing bounds a record",
     {{"algorithm.mode", "paper"}, {"model.name", "least-squares"}}},
    {"zcdp-nfl, the paper's mode, a penalty from the data",
     {{"algorithm.mode", "paper"}, {"model.penalty", "l1"}, {"model.weight_rule", "data"}}},
    {"zcdp-nfl, absolute deviation with an l1 norm",
     {{"model.name", "absolute-deviation"}, {"model.penalty", "l1"}, {"model.weight", "0.01"}}},
    {"zcdp-nfl, traced in every round", {{"experiment.trace_every", "1"}, {"experiment.oracle", "true"}}},
    {"dp-nfl", {{"algorithm.name", "dp-nfl"}}},
    {"dp-nfl, basic", {{"algorithm.name", "dp-nfl"}, {"algorithm.composition", "basic"}}},
    {"dp-nfl, the paper's mode", {{"algorithm.name", "dp-nfl"}, {"algorithm.mode", "paper"}}},
    {"dp-nfl, the paper's mode, basic",
     {{"algorithm.name", "dp-nfl"}, {"algorithm.mode", "paper"}, {"algorithm.composition", "basic"}}},
    {"dp-nfl, a huge budget",
     {{"algorithm.name", "dp-nfl"}, {"privacy.epsilon", "200"}, {"algorithm.rounds", "2"}}},
    {"zcdp-grad-nfl", {{"algorithm.name", "zcdp-grad-nfl"}}},
    {"zcdp-grad-nfl, falling steps", {{"algorithm.name", "zcdp-grad-nfl"}, {"algorithm.eta_rule", "sqrt"}}},
    {"zcdp-grad-nfl, the paper's mode", {{"algorithm.name", "zcdp-grad-nfl"}, {"algorithm.mode", "paper"}}},
    {"p-admm", {{"algorithm.name", "p-admm"}}},
    {"p-admm, peers with unlike numbers of neighbours",
     {{"algorithm.name", "p-admm"}, {"network.topology", "star"}, {"algorithm.output", "mean"}}},
    {"p-admm, zero-out", {{"algorithm.name", "p-admm"}, {"privacy.adjacency", "zero-out"}}},
    {"p-admm, absences", {{"algorithm.name", "p-admm"}, {"network.away", R"(["3: 5-9"])"}}},
    {"p-admm, a budget each",
     {{"algorithm.name", "p-admm"}, {"privacy.budgets", "[1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 0.5]"}}},
    {"p-admm, the paper's mode", {{"algorithm.name", "p-admm"}, {"algorithm.mode", "paper"}}},
};

TEST_F(NetworkRuns, EveryKindRunsAsPlannedAndVerifies) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.why);
    const Plan plan = Planned(kind.sets);
    const RunResult r = Good(Make(kind.sets));
    ASSERT_FALSE(r.folder.empty());
    // The plan allows for the most records that a peer can have; in most of these runs one has as many.
    EXPECT_LE(r.certified_epsilon, plan.certified_epsilon);
    if (plan.noise.size() == 1) {
      EXPECT_GE(r.certified_epsilon, plan.certified_epsilon * (1 - 1e-9));
    }
    EXPECT_EQ(r.bytes_up, plan.bytes_up);
    EXPECT_EQ(r.bytes_down, plan.bytes_down);
    if (r.plan.mode == "certified" && r.plan.mechanism != "expose") {
      EXPECT_LE(r.certified_epsilon, 200.0);
      EXPECT_LE(r.certified_epsilon, r.plan.epsilon);
    }
    const auto v = VerifyFolder(r.folder);
    ASSERT_TRUE(v.ok()) << v.error().message;
    EXPECT_TRUE(v->holds()) << Findings(v);
    EXPECT_EQ(v->compared.size(), 7u);      // the graph with the others
    std::ifstream trace(r.folder / "trace.jsonl");
    for (std::string line; std::getline(trace, line);) {
      const auto point = nlohmann::json::parse(line);
      const auto a = Make(kind.sets).algorithm;
      ASSERT_EQ(point.contains("step_size"), a.name != "p-admm");
      if (a.name == "p-admm") continue;
      ASSERT_EQ(point["step_size"].get<double>(),
                a.eta_rule == "sqrt" ? a.eta / std::sqrt(point["round"].get<double>()) : a.eta);
    }
  }
}

// The promise is used up, but for rounding; dp-nfl keeps most of it back, which is what its theorems lose.
TEST_F(NetworkRuns, WhatIsCertifiedIsWhatWasAskedFor) {
  for (const char* name : {"zcdp-nfl", "zcdp-grad-nfl", "p-admm"})
    EXPECT_GT(Planned({{"algorithm.name", name}}).certified_epsilon, 2 * (1 - 1e-6)) << name;
  const double advanced = Planned({{"algorithm.name", "dp-nfl"}}).certified_epsilon,
               basic = Planned({{"algorithm.name", "dp-nfl"}, {"algorithm.composition", "basic"}})
                           .certified_epsilon;
  EXPECT_LT(advanced, 0.5);
  EXPECT_LT(basic, advanced);
  // The classic Gaussian is proved for small ε₀ alone.
  const Plan large =
      Planned({{"algorithm.name", "dp-nfl"}, {"privacy.epsilon", "200"}, {"algorithm.rounds", "2"}});
  EXPECT_LE(large.certified_epsilon, 200);
}

TEST_F(NetworkRuns, TheSameBitsForAnyNumberOfThreads) {
  for (const char* name : {"zcdp-nfl", "zcdp-grad-nfl", "p-admm"}) {
    Vec model;
    for (const char* threads : {"1", "2", "3", "8"}) {
      const RunResult r = Good(Make({{"algorithm.name", name}, {"runtime.threads", threads}}));
      if (model.empty()) model = r.model;
      EXPECT_EQ(r.model, model) << name << " " << threads;
    }
  }
}

TEST_F(NetworkRuns, AnInterruptedRunGoesOnBitForBit) {
  const Sets kSets[] = {
      {},
      {{"algorithm.output", "mean"}, {"network.away", R"(["3: 5-20"])"}, {"network.leave", R"(["7: 12"])"}},
      {{"algorithm.name", "zcdp-grad-nfl"}, {"experiment.oracle", "true"}},
      {{"algorithm.name", "p-admm"}}};
  for (const Sets& sets : kSets) {
    const RunResult whole = Good(Make(sets, "whole"));
    for (const std::size_t stop : {std::size_t{1}, std::size_t{13}, std::size_t{29}}) {
      std::atomic<bool> interrupt{false};
      TrainHooks hooks;
      hooks.interrupt = &interrupt;
      hooks.progress = [&](const Progress& p) { interrupt = p.round >= stop; };
      const RunResult part = Good(Make(sets, "part"), hooks);
      EXPECT_TRUE(part.interrupted);
      EXPECT_EQ(part.certified_epsilon, whole.certified_epsilon);  // when it stopped may tell something
      const auto stopped = VerifyFolder(part.folder);
      ASSERT_TRUE(stopped.ok()) << stopped.error().message;
      EXPECT_TRUE(stopped->holds()) << Findings(stopped);
      const auto rest = Resume(part.folder, {{"runtime.threads", "3"}});
      ASSERT_TRUE(rest.ok()) << rest.error().message;
      EXPECT_EQ(rest->model, whole.model);
      EXPECT_EQ(rest->mu, whole.mu);
      EXPECT_EQ(rest->bytes_down, whole.bytes_down);
      EXPECT_EQ(ReadFile(part.folder / "trace.jsonl"), ReadFile(whole.folder / "trace.jsonl"));
      const auto v = VerifyFolder(part.folder);
      ASSERT_TRUE(v.ok()) << v.error().message;
      EXPECT_TRUE(v->holds()) << Findings(v);
      fs::remove_all(home_ / "part");
    }
    fs::remove_all(home_ / "whole");
  }
}

TEST_F(NetworkRuns, KilledRunsEndAsIfTheyHadLived) {
  KillRuns(home_ / "kills", 6, {{"algorithm.name", "zcdp-nfl"}, {"algorithm.output", "mean"}});
}

TEST_F(NetworkRuns, AGraphThatChangedIsNotGoneOnWith) {
  std::ofstream(home_ / "edges.txt") << "# a path\n0 1\n1 2\n2, 3\n";
  const Sets sets = {
      {"data.clients", "4"}, {"network.topology", "file"}, {"network.file", (home_ / "edges.txt").string()}};
  std::atomic<bool> interrupt{true};
  TrainHooks hooks;
  hooks.interrupt = &interrupt;
  const RunResult part = Good(Make(sets), hooks);
  std::ofstream(home_ / "edges.txt") << "0 1\n1 2\n2 3\n0 3\n";
  const auto rest = Resume(part.folder);
  ASSERT_FALSE(rest.ok());
  EXPECT_NE(rest.error().message.find("the network has changed"), std::string::npos) << rest.error().message;
}

TEST_F(NetworkRuns, WhatCannotBeIsSaidClearly) {
  std::ofstream(home_ / "two.txt") << "0 1\n1 2\n3 4\n";
  std::ofstream(home_ / "bad.txt") << "0 1\n1 x\n";
  const struct {
    Sets sets;
    const char* says;
  } kCases[] = {
      {{{"network.topology", "file"}, {"network.file", (home_ / "two.txt").string()}, {"data.clients", "5"}},
       "falls into 2 components, {0, 1, 2}, {3, 4}"},
      {{{"network.topology", "file"}, {"network.file", (home_ / "bad.txt").string()}, {"data.clients", "5"}},
       "bad.txt"},
      {{{"network.topology", "file"}}, "needs a list of edges"},
      {{{"network.topology", "file"}, {"network.file", "nowhere.txt"}}, "cannot be read"},
      {{{"network.file", "some.txt"}}, "is for network.topology = \"file\""},
      {{{"network.topology", "erdos-renyi"}, {"network.degree", "0.5"}}, "components"},
      {{{"network.degree", "20"}}, "must be above 0 and at most 11"},
      {{{"network.away", R"(["12: 1-2"])"}}, "a peer from 0 to 11"},
      {{{"network.away", R"(["1: 3"])"}}, "must look like \"3: 10-20\""},
      {{{"network.away", R"(["1: 5-4"])"}}, "must look like"},
      {{{"network.leave", R"(["1: 0"])"}}, "must look like \"3: 50\""},
      {{{"network.topology", "star"}, {"network.leave", R"(["0: 5"])"}},
       "those who stay fall into 11 components"},
      {{{"data.clients", "2"}, {"network.topology", "ring"}, {"network.leave", R"(["0: 5"])"}},
       "at least two must stay"},
      {{{"privacy.trust", "central"}}, "has no server that could be trusted"},
      {{{"privacy.unit", "client"}}, "set privacy.unit = \"record\""},
      {{{"privacy.mechanism", "priv-unit"}}, "has Gaussian noise"},
      {{{"algorithm.sampling", "poisson"}}, "network.away"},
      {{{"model.penalty", "box"}}, "has no projection"},
      {{{"model.weight_rule", "data"}, {"model.penalty", "l1"}}, "no finite epsilon"},
      {{{"model.weight_rule", "data"}, {"algorithm.mode", "paper"}}, "is a weight of the l1 norm"},
      {{{"algorithm.name", "dp-nfl"}, {"algorithm.allocation", "geometric"}}, "rounds of equal noise"},
      {{{"algorithm.name", "p-admm"}, {"model.name", "absolute-deviation"}},
       "model.name = \"absolute-deviation\""},
      {{{"algorithm.name", "p-admm"}, {"model.penalty", "l1"}, {"model.weight", "0.1"}},
       "model.penalty = \"l1\""},
      {{{"algorithm.name", "p-admm"}, {"data.row_norm", "none"}}, "data.row_norm = \"none\""},
      {{{"algorithm.name", "p-admm"}, {"network.leave", R"(["1: 5"])"}}, "network.leave"},
      {{{"algorithm.name", "p-admm"}, {"algorithm.rho", "1e-9"}, {"model.l2", "0"}},
       "gradient steps a round"},
      {{{"algorithm.clip_quantile", "0.5"}}, "algorithm.clip_quantile"},
      {{{"algorithm.noise_multiplier", "2"}}, "algorithm.noise_multiplier"},
      {{{"algorithm.participations", "3"}}, "algorithm.participations"},
      {{{"algorithm.name", "primal-dual"}, {"network.topology", "star"}}, "methods without a server"},
      {{{"algorithm.name", "p-admm"}, {"privacy.adjacency", "add-remove"}}, "replace-one or zero-out"},
      {{{"algorithm.name", "p-admm"}, {"data.split", "dirichlet"}}, "number of records"},
      {{{"algorithm.name", "primal-dual"}, {"network.away", R"(["1: 2-3"])"}}, "methods without a server"},
      {{{"algorithm.name", "primal-dual"}, {"model.weight_rule", "data"}}, "methods without a server"},
  };
  for (const auto& c : kCases) {
    const std::string why = Why(c.sets);
    EXPECT_NE(why.find(c.says), std::string::npos) << c.says << "\n  but says: " << why;
  }
}

// Without noise the peers reach the optimum that an exact solver finds: the error and the residuals vanish.
TEST_F(NetworkRuns, WithoutNoiseTheErrorVanishes) {
  for (const char* name : {"zcdp-nfl", "p-admm"}) {
    const RunResult r = Good(Make({{"algorithm.name", name},
                                   {"privacy.mechanism", "expose"},
                                   {"privacy.clip", "100"},
                                   {"algorithm.rounds", "3000"},
                                   {"algorithm.eta", "0.5"},
                                   {"experiment.oracle", "true"}}));
    ASSERT_TRUE(r.metrics.error && r.metrics.consensus && r.metrics.primal_residual &&
                r.metrics.dual_residual);
    EXPECT_LT(*r.metrics.error, 1e-10) << name;
    EXPECT_LT(*r.metrics.consensus, 1e-10) << name;
    EXPECT_LT(*r.metrics.primal_residual, 1e-5) << name;
    EXPECT_LT(*r.metrics.dual_residual, 1e-5) << name;
    EXPECT_TRUE(std::isinf(r.certified_epsilon));
    EXPECT_NE(std::find(r.oracle_metrics.begin(), r.oracle_metrics.end(), "error"), r.oracle_metrics.end());
  }
}

// A peer pays for the rounds it is there for, and who left has no part in the model.
TEST_F(NetworkRuns, AbsentPeersPayNothing) {
  const RunResult r = Good(Make({{"network.away", R"(["3: 5-9", "3: 8-12"])"},
                                 {"network.leave", R"(["7: 12"])"},
                                 {"algorithm.allocation", "static"}}));
  const auto records = SqliteVault::Read(r.folder / "ledger.db");
  ASSERT_TRUE(records.ok());
  const std::vector<double>& spent = records->front().spent;
  EXPECT_NEAR(spent[3] / spent[1], 22.0 / 30, 1e-6);
  EXPECT_NEAR(spent[7] / spent[1], 11.0 / 30, 1e-6);
  const json certificate = json::parse(ReadFile(r.folder / "certificate.json"));
  EXPECT_EQ(certificate["releases"].size(), 3u);
  EXPECT_EQ(r.answers.absent, 8u);
}

TEST_F(NetworkRuns, PapersAreChargedByWhatHolds) {
  // Rows within 2 and a Huber loss with slopes within 1: the paper assumes 1, and 2 holds.
  const RunResult bounded = Good(Make({{"algorithm.mode", "paper"}}));
  EXPECT_EQ(bounded.claimed_epsilon, 2.0);
  EXPECT_TRUE(std::isfinite(bounded.certified_epsilon));
  EXPECT_GT(bounded.certified_epsilon, 2.0);
  const Sets kInfinite[] = {
      {{"algorithm.mode", "paper"}, {"model.name", "least-squares"}},
      {{"algorithm.mode", "paper"}, {"algorithm.name", "p-admm"}},
      {{"algorithm.mode", "paper"}, {"model.penalty", "l1"}, {"model.weight_rule", "data"}},
  };
  for (const Sets& sets : kInfinite) {
    const RunResult r = Good(Make(sets));
    EXPECT_TRUE(std::isinf(r.certified_epsilon));
    EXPECT_EQ(r.claimed_epsilon, 2.0);
    EXPECT_NE(ReadFile(r.folder / "certificate.txt").find("infinite"), std::string::npos);
    const auto records = SqliteVault::Read(r.folder / "ledger.db");
    ASSERT_TRUE(records.ok());
    for (const double spent : records->front().spent) EXPECT_TRUE(std::isinf(spent));
  }
}

TEST_F(NetworkRuns, ThePlanKnowsItsTheory) {
  const Sets geometric = {{"algorithm.rounds", "200"},
                          {"algorithm.allocation", "geometric"},
                          {"algorithm.ratio", "0.99"},
                          {"algorithm.output", "mean"},
                          {"network.topology", "ring"}};
  const Plan p = Planned(geometric);
  const NetworkPlan& n = *p.network;
  EXPECT_EQ(n.graph.edges(), 12u);
  EXPECT_NEAR(n.spectrum.phi_min, 2 - 2 * std::cos(2 * M_PI / 12), 1e-9);
  EXPECT_NEAR(n.spectrum.phi_max, 4, 1e-9);
  // The penalty of falling noise for the averaged output, and (22) to (24), which agree for equal budgets.
  EXPECT_NEAR(1 / p.static_over_dynamic, 1.38545509, 1e-6);
  ASSERT_TRUE(n.bound22 && n.bound23 && n.bound24 && n.noise_term);
  EXPECT_NEAR(*n.bound23 / *n.bound22, 1, 1e-9);
  // (23) by hand: one peer has 21 records and eleven have 20, and φ is half of the μ² of the first round.
  const double spent = p.schedule.front().mu * p.schedule.front().mu / 2;
  double sum = 0;
  for (std::size_t k = 0; k < 12; ++k) {
    const double moved = NflTheory::Sensitivity(1, k == 0 ? 21 : 20, 1, 2, 0.1);
    sum += moved * moved / (2 * spent * 0.01);
  }
  EXPECT_NEAR(*n.bound23 / (4 * 4 * (16 + 16) / n.spectrum.phi_min / 200 * sum), 1, 1e-6);
  EXPECT_NEAR(*n.bound24 / *n.bound22, 1, 1e-6);
  EXPECT_LT(*n.noise_term, *n.bound22);  // 200 rounds, not all
  EXPECT_NEAR(*n.noise_term / *n.bound22, 1 - std::pow(0.99, 200), 1e-6);
  // Equal noise is best for the mean, and less budget to early rounds for the last notes.
  Sets even = geometric;
  even.push_back({"algorithm.allocation", "dynamic"});
  const Plan mean = Planned(even);
  EXPECT_NEAR(mean.schedule.front().sigma / mean.schedule.back().sigma, 1, 1e-9);
  even.push_back({"algorithm.output", "last"});
  const Plan last = Planned(even);
  EXPECT_GT(last.schedule.front().sigma, last.schedule.back().sigma);
  EXPECT_GT(last.static_over_dynamic, 1);
  // A hub hears more, so its note has less noise; it has a record more, too.
  const Plan star = Planned({{"network.topology", "star"}});
  EXPECT_NEAR(star.network->most_noise / star.network->least_noise,
              (2 * 11 + 10.0) / (2 * 1 + 10.0) * 21 / 20, 1e-9);
}

// A star forgets slowly, and forgets: what the factor of its mean degree, which is 1, does not show.
TEST_F(NetworkRuns, ThePlanWeighsRoundsByTheGraph) {
  const Sets star = {{"network.topology", "star"}, {"algorithm.rounds", "200"}, {"algorithm.eta", "1"}};
  const auto with = [&](Sets more) {
    more.insert(more.begin(), star.begin(), star.end());
    return Planned(more);
  };
  const Plan dynamic = with({}), equal = with({{"algorithm.allocation", "static"}});
  EXPECT_EQ(dynamic.factor, 1);
  EXPECT_FALSE(dynamic.network->by_factor);
  for (const Plan* p : {&dynamic, &equal}) {
    ASSERT_EQ(p->allocations.size(), 2u);
    EXPECT_EQ(p->allocations[0].last, 1);
    EXPECT_LT(p->allocations[1].last, 0.8);
    EXPECT_GT(p->allocations[1].mean, 1);
  }
  EXPECT_GT(dynamic.schedule.front().sigma, 1.2 * dynamic.schedule.back().sigma);
  EXPECT_NEAR(dynamic.static_over_dynamic * dynamic.allocations[1].last, 1, 1e-3);  // but for skipped rounds
  EXPECT_EQ(equal.static_over_dynamic, 1);
  // What is best for the mean of all notes is not about the last ones.
  const Plan mean = with({{"algorithm.output", "mean"}});
  EXPECT_NEAR(mean.schedule.front().sigma / mean.schedule.back().sigma, 1, 1e-9);
  // Noise that falls faster or slower than it should is worse than what the plan finds, for every method.
  for (const char* name : {"zcdp-nfl", "zcdp-grad-nfl", "p-admm"})
    for (const char* ratio : {"0.97", "0.99", "1.01"}) {
      const Plan p = with({{"algorithm.name", name},
                           {"algorithm.allocation", "geometric"},
                           {"algorithm.ratio", ratio},
                           {"algorithm.eta_rule", "sqrt"}});
      EXPECT_LT(p.allocations[1].last, 0.99) << name;
      EXPECT_LT(p.allocations[1].last, p.allocations.back().last) << name << " " << ratio;
    }
  // A peer with a smaller budget has more noise, and the weights know.
  const Plan own = with({{"privacy.budgets", "[0.1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]"}});
  EXPECT_GT(std::abs(own.allocations[1].last / dynamic.allocations[1].last - 1), 1e-3);
}

// What is not for a method is not said of it.
TEST_F(NetworkRuns, ThePlanSaysOnlyWhatItsMethodHas) {
  const Plan equal = Planned({{"algorithm.name", "dp-nfl"}});
  ASSERT_EQ(equal.allocations.size(), 1u);
  EXPECT_EQ(equal.allocations[0].name, "static");
  EXPECT_TRUE(equal.network->noise_term && !equal.network->bound22);
  const Sets falls = {{"algorithm.allocation", "geometric"}, {"algorithm.ratio", "0.9"}};
  for (const char* name : {"p-admm", "zcdp-grad-nfl"}) {
    Sets sets = falls;
    sets.push_back({"algorithm.name", name});
    const NetworkPlan& n = *Planned(sets).network;
    EXPECT_FALSE(n.noise_term || n.bound22 || n.bound23 || n.bound24) << name;
  }
  // A geometric allocation refuses a cap, so no warning asks for one.
  const Plan steep = Planned({{"algorithm.allocation", "geometric"}, {"algorithm.ratio", "0.5"}});
  ASSERT_FALSE(steep.warnings.empty());
  EXPECT_NE(steep.warnings[0].find("algorithm.ratio nearer to 1"), std::string::npos) << steep.warnings[0];
  EXPECT_EQ(steep.warnings[0].find("variance_cap"), std::string::npos);
  const json shown = NetworkJson(Planned({{"network.topology", "ring"}}));
  EXPECT_EQ(shown["signless_phi_min"], 0.0);
  EXPECT_EQ(shown["last_notes_by"], "graph");
}

TEST_F(NetworkRuns, ForgedCertificatesAreFound) {
  const Sets absent = {{"network.away", R"(["3: 5-9"])"}, {"network.leave", R"(["7: 12"])"}};
  const RunResult admm = Good(Make({{"algorithm.name", "p-admm"}, {"network.topology", "star"}}, "admm")),
                  nfl = Good(Make(absent, "nfl")),
                  paper = Good(Make({{"algorithm.name", "dp-nfl"}, {"algorithm.mode", "paper"}}, "paper"));
  const auto forged = [](const RunResult& r, const std::function<void(json&)>& forge) {
    json j = json::parse(ReadFile(r.folder / "certificate.json"));
    forge(j);
    return Verify(j, "certificate.json");
  };
  const struct {
    const char* why;
    const RunResult& run;
    std::function<void(json&)> forge;
  } kCases[] = {
      {"a smaller bound of a minimiser", admm, [](json& j) { j["releases"][0]["bound"] = 1e-6; }},
      {"more records behind it", admm, [](json& j) { j["releases"][0]["records"] = 1000; }},
      {"a steeper subproblem", admm, [](json& j) { j["releases"][0]["curvature"] = 1e3; }},
      {"neighbours that nobody has", admm, [](json& j) { j["releases"][0]["degree"] = 99; }},
      {"absences that were not", nfl, [](json& j) { j["releases"][0]["rounds_away"] = 7; }},
      {"rounds of fewer peers", nfl, [](json& j) { j["releases"][0]["clients"] = 1; }},
      {"other absences", nfl, [](json& j) { j["network"]["away"] = {"3: 5-20"}; }},
      {"no absences", nfl, [](json& j) { j["network"]["leave"] = json::array(); }},
      {"absences that make no sense", nfl, [](json& j) { j["network"]["away"] = {"what"}; }},
      {"another number of peers", nfl, [](json& j) { j["network"]["peers"] = 11; }},
      {"more noise", nfl, [](json& j) { j["releases"][0]["sigma"][0] = 1e6; }},
      {"a composition theorem for everyone", nfl, [](json& j) { j["network"]["composition"] = "basic"; }},
      {"a smaller claim", paper, [](json& j) { j["privacy"]["claimed_epsilon"] = 1.0; }},
      {"the other theorem", paper, [](json& j) { j["network"]["composition"] = "basic"; }},
  };
  for (const auto& c : kCases) {
    const auto v = forged(c.run, c.forge);
    ASSERT_TRUE(v.ok()) << c.why << ": " << v.error().message;
    EXPECT_FALSE(v->holds()) << c.why;
  }
  for (const char* gone : {"network", "releases"}) {
    const auto v = forged(nfl, [&](json& j) { j[gone] = nullptr; });
    EXPECT_FALSE(v.ok()) << gone;
  }
  // Beside the other files of the folder.
  const auto beside = [](const RunResult& r, const char* what) {
    const auto v = VerifyFolder(r.folder);
    ASSERT_TRUE(v.ok()) << v.error().message;
    EXPECT_FALSE(v->holds()) << what;
  };
  std::ofstream(nfl.folder / "graph.txt", std::ios::app) << "0 5\n";
  beside(nfl, "an edge more");
  json j = json::parse(ReadFile(admm.folder / "certificate.json"));
  json& first = j["releases"][0];
  first["degree"] = 2;  // no peer of a star has two neighbours
  std::ofstream(admm.folder / "certificate.json") << CertificateJson(j);
  beside(admm, "other neighbours");
}

}  // namespace
}  // namespace tacit
