// Federated averages from a config to a certificate: what is planned is charged and sent, certificates are
// verified by other code, runs resume bit for bit, and paper mode shows the claim beside the proof.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "experiment/client_runs.h"
#include "experiment/kill_runs.h"
#include "privacy/data_ledger.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Federated : public ClientRuns {};

constexpr const char* kNames[] = {"fedexp", "dp-fedavg", "dp-scaffold"};
constexpr const char* kTrusts[] = {"local", "central"};

TEST_F(Federated, ThePlanIsWhatIsChargedAndSentAndTheCertificateHolds) {
  for (const char* name : kNames)
    for (const char* trust : kTrusts)
      for (const char* adjacency : {"replace-one", "zero-out"})
        for (const char* mechanism : {"lattice_gaussian", "gaussian"}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", name, trust, adjacency, mechanism));
          const RunResult r = Good(Make({{"algorithm.name", name},
                                         {"privacy.trust", trust},
                                         {"privacy.adjacency", adjacency},
                                         {"privacy.mechanism", mechanism}}));
          EXPECT_LE(r.certified_epsilon, 2.0);
          EXPECT_GT(r.certified_epsilon, 2 * (1 - 1e-5));
          EXPECT_GE(r.plan.certified_epsilon, r.certified_epsilon);
          EXPECT_EQ(r.rounds_done, 30u);
          EXPECT_EQ(r.bytes_up, r.plan.bytes_up);
          EXPECT_EQ(r.bytes_down, r.plan.bytes_down);
          const auto checked = VerifyFolder(r.folder);
          ASSERT_TRUE(checked.ok()) << checked.error().message;
          for (const auto& finding : checked->findings) ADD_FAILURE() << finding.sentence;
        }
}

TEST_F(Federated, TheSameWithAServerOptimizerAndWithAClipThatMoves) {
  for (const char* trust : kTrusts)
    for (const char* adjacency : {"replace-one", "zero-out"})
      for (const char* optimizer : {"plain", "momentum", "adam"})
        for (const char* quantile : {"0", "0.7"}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", trust, adjacency, optimizer, quantile));
          const std::vector<Assignment> sets = {
              {"algorithm.name", "dp-fedavg"},  {"privacy.trust", trust},
              {"privacy.adjacency", adjacency}, {"algorithm.server_optimizer", optimizer},
              {"algorithm.server_rate", "0.1"}, {"algorithm.clip_quantile", quantile}};
          const RunResult r = Good(Make(sets));
          EXPECT_LE(r.certified_epsilon, 2.0);
          EXPECT_GT(r.certified_epsilon, 2 * (1 - 1e-5));
          EXPECT_EQ(r.bytes_up, r.plan.bytes_up);
          EXPECT_EQ(r.bytes_down, r.plan.bytes_down);
          const auto checked = VerifyFolder(r.folder);
          ASSERT_TRUE(checked.ok()) << checked.error().message;
          for (const auto& finding : checked->findings) ADD_FAILURE() << finding.sentence;
          std::atomic<bool> interrupt{false};
          TrainHooks hooks;
          hooks.interrupt = &interrupt;
          hooks.threads = 3;
          hooks.progress = [&](const Progress& p) { interrupt = p.round >= 11; };
          const RunResult part = Good(Make(sets, "part"), hooks);
          const auto rest = Resume(part.folder, {{"runtime.threads", "2"}});
          ASSERT_TRUE(rest.ok()) << rest.error().message;
          EXPECT_EQ(rest->model, r.model);
        }
  // The counts take their share of the budget: noise on the mean is larger by 1/√(1 − share).
  const auto sigma = [&](const char* quantile) {
    return Good(Make({{"algorithm.name", "dp-fedavg"},
                      {"algorithm.clip_quantile", quantile},
                      {"algorithm.clip_share", "0.25"}}))
        .plan.schedule[0]
        .sigma;
  };
  EXPECT_NEAR(sigma("0.5") / sigma("0"), 1 / std::sqrt(0.75), 1e-6);
}

TEST_F(Federated, AClipThatMovesIsInTheTraceAndForgedOnesAreFound) {
  const RunResult r = Good(Make({{"algorithm.name", "dp-fedavg"},
                                 {"algorithm.clip_quantile", "0.5"},
                                 {"privacy.trust", "central"},
                                 {"privacy.epsilon", "50"}}));
  std::istringstream lines(ReadFile(r.folder / "trace.jsonl"));
  double clip = 0;
  for (std::string line; std::getline(lines, line);) {
    const json point = json::parse(line);
    EXPECT_NE(point["clip"].get<double>(), clip);
    clip = point["clip"];
  }
  const json honest = json::parse(ReadFile(r.folder / "certificate.json"));
  ASSERT_TRUE(Verify(honest, "honest")->findings.empty());
  EXPECT_NE(CertificateText(honest).find("times a factor"), std::string::npos);
  json forged = honest;      // the counts for nothing
  forged["enforced"]["indicator"] = nullptr;
  EXPECT_FALSE(Verify(forged, "forged")->findings.empty());
  forged = honest;
  forged["enforced"]["indicator"] = honest["enforced"]["indicator"].get<double>() / 2;
  EXPECT_FALSE(Verify(forged, "forged")->findings.empty());
}

TEST_F(Federated, AClipThatMovesIsChargedItsLengthUnderZeroOut) {
  for (const char* trust : kTrusts) {
    const RunResult r = Good(Make({{"algorithm.name", "dp-fedavg"},
                                   {"algorithm.clip_quantile", "0.5"},
                                   {"algorithm.clip_share", "0.25"},
                                   {"privacy.adjacency", "zero-out"},
                                   {"privacy.trust", trust}}));
    const double clip = r.plan.clip, kappa = r.plan.indicator;
    EXPECT_NEAR(kappa * kappa / (clip * clip + kappa * kappa), 0.25, 1e-12);
    EXPECT_GE(r.plan.sensitivity, std::sqrt(clip * clip + kappa * kappa));
    EXPECT_NEAR(r.plan.sensitivity, std::sqrt(clip * clip + kappa * kappa), 1e-9);
    json forged = json::parse(ReadFile(r.folder / "certificate.json"));
    ASSERT_TRUE(Verify(forged, "honest")->holds());
    EXPECT_NE(CertificateText(forged).find("left out"), std::string::npos);
    forged["enforced"]["record_bound"] = std::sqrt(clip * clip + kappa * kappa / 4);  // of ±κ/2
    bool found = false;
    const auto v = Verify(forged, "forged");
    for (const Finding& one : v->findings) found = found || one.figure == "enforced.record_bound";
    EXPECT_TRUE(found);
  }
}

TEST_F(Federated, ASquaredLengthThatTheConfigDoesNotMakeIsFound) {
  for (const char* mode : {"certified", "paper"}) {
    SCOPED_TRACE(mode);
    std::vector<Assignment> sets = {{"algorithm.name", "fedexp"}, {"privacy.trust", "central"}};
    if (mode == std::string("paper")) {
      sets.emplace_back("algorithm.mode", "paper");
      sets.emplace_back("algorithm.noise_multiplier", "5");
    }
    const RunResult r = Good(Make(sets));
    const json honest = json::parse(ReadFile(r.folder / "certificate.json"));
    const auto found = [&](const std::string& figure, auto forge) {
      json forged = honest;
      forge(forged["enforced"]);
      std::ofstream(r.folder / "certificate.json", std::ios::binary) << CertificateJson(forged);
      const auto v = VerifyFolder(r.folder);
      if (!v.ok()) return false;
      if (figure.empty()) return !v->holds();
      for (const Finding& one : v->findings)
        if (one.figure == figure) return true;
      return false;
    };
    EXPECT_FALSE(found("", [](json&) {}));
    // Where squares are free any smaller weight has the same bound, and none at all.
    EXPECT_TRUE(found("enforced.square", [](json& e) { e["square"] = e["square"].get<double>() / 2; }));
    EXPECT_TRUE(found("enforced.square", [](json& e) { e["square"] = nullptr; }));
    EXPECT_TRUE(found("enforced.indicator", [](json& e) { e["indicator"] = 1e-9; }));
  }
}

TEST_F(Federated, ThePlanComparesWaysToSpreadTheNoise) {
  const auto plan = [&](const Sets& sets) {
    const Config c = Make(sets);
    return *MakePlan(c, *FactsWithoutData(c));
  };
  // Without strong convexity every round counts alike: dynamic is static.
  for (const auto& a : plan({}).allocations) {
    EXPECT_NEAR(a.last, 1, 1e-12) << a.name;
    EXPECT_NEAR(a.mean, 1, 1e-12) << a.name;
  }
  // A factor of c a round, q_t = c^{2(T−t)}: (Σ√q)²/(TΣq) is left; each optimum is the other's loss.
  const Plan p = plan({{"model.l2", "0.1"}, {"algorithm.allocation", "static"}});
  const double c = std::pow(1 - 0.5 * 0.1, 4);
  double root = 0, sum = 0, inverse = 0;
  for (int t = 0; t < 30; ++t) root += std::pow(c, t), sum += std::pow(c, 2 * t), inverse += std::pow(c, -t);
  ASSERT_EQ(p.allocations.size(), 2u);
  EXPECT_EQ(p.allocations[1].name, "dynamic");
  EXPECT_NEAR(p.allocations[1].last, root * root / (30 * sum), 1e-9);
  EXPECT_NEAR(p.allocations[1].mean, root * inverse / (30.0 * 30.0), 1e-6);
  EXPECT_EQ(plan({{"algorithm.allocation", "geometric"}}).allocations.back().name, "this plan");
}

TEST_F(Federated, TheTraceHasTheStepOfEveryRound) {
  for (const auto& sets : std::vector<std::vector<Assignment>>{
           {{"algorithm.name", "dp-fedavg"}},
           {{"algorithm.name", "dp-fedavg"}, {"algorithm.clip_quantile", "0.7"}},
           {{"algorithm.name", "dp-fedavg"}, {"privacy.unit", "record"}},
           {{"algorithm.name", "dp-scaffold"}},
           {{"algorithm.name", "dp-scaffold"}, {"privacy.trust", "central"}},
           {{"algorithm.name", "dp-scaffold"}, {"privacy.unit", "record"}}}) {
    auto all = sets;
    all.push_back({"algorithm.server_rate", "0.75"});
    SCOPED_TRACE(all[0].value + " " + all[1].value);
    std::ifstream trace(Good(Make(all)).folder / "trace.jsonl");
    std::size_t lines = 0;
    for (std::string line; std::getline(trace, line); ++lines)
      EXPECT_EQ(json::parse(line)["step_size"], 0.75) << line;
    EXPECT_GT(lines, 0u);
  }
}

TEST_F(Federated, TheSameForRecordsAsTheUnit) {
  for (const char* name : {"dp-fedavg", "dp-scaffold", "isrl-dp"})
    for (const char* adjacency : {"replace-one", "zero-out", "add-remove"})
      for (const char* allocation : {"static", "dynamic"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name, adjacency, allocation));
        const RunResult r = Good(Make({{"algorithm.name", name},
                                       {"privacy.unit", "record"},
                                       {"privacy.adjacency", adjacency},
                                       {"algorithm.allocation", allocation},
                                       {"model.l2", "0.1"}}));
        EXPECT_LE(r.certified_epsilon, 2.0);
        EXPECT_GT(r.certified_epsilon, 2 * (1 - 1e-5));
        EXPECT_GE(r.plan.certified_epsilon, r.certified_epsilon);
        EXPECT_EQ(r.plan.each, name == std::string("isrl-dp") ? 1u : 4u);      // local steps
        EXPECT_EQ(r.bytes_up, r.plan.bytes_up);
        EXPECT_EQ(r.bytes_down, r.plan.bytes_down);
        const auto checked = VerifyFolder(r.folder);
        ASSERT_TRUE(checked.ok()) << checked.error().message;
        for (const auto& finding : checked->findings) ADD_FAILURE() << finding.sentence;
      }
}

TEST_F(Federated, ResumesBitForBitForAnyNumberOfThreads) {
  const std::vector<std::pair<const char*, const char*>> record = {
      {"dp-fedavg", "record"}, {"dp-scaffold", "record"}, {"isrl-dp", "record"}};
  auto all = record;
  for (const char* name : kNames)
    for (const char* trust : kTrusts) all.emplace_back(name, trust);
  for (const auto& [name, trust] : all) {
    SCOPED_TRACE(fmt::format("{} {}", name, trust));
    const bool by_record = trust == std::string("record");
    const std::vector<Assignment> sets = {{"algorithm.name", name},
                                          {"privacy.trust", by_record ? "local" : trust},
                                          {"privacy.unit", by_record ? "record" : "client"}};
    const RunResult whole = Good(Make(sets, "whole"));
    std::atomic<bool> interrupt{false};
    TrainHooks hooks;
    hooks.interrupt = &interrupt;
    hooks.threads = 3;
    hooks.progress = [&](const Progress& p) { interrupt = p.round >= 11; };
    const RunResult part = Good(Make(sets, "part"), hooks);
    EXPECT_EQ(part.rounds_done, 11u);
    EXPECT_EQ(part.certified_epsilon, whole.certified_epsilon);
    const auto rest = Resume(part.folder, {{"runtime.threads", "2"}});
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    EXPECT_EQ(rest->model, whole.model);
    EXPECT_EQ(rest->mu, whole.mu);
    EXPECT_EQ(ReadFile(part.folder / "trace.jsonl"), ReadFile(whole.folder / "trace.jsonl"));
  }
}

TEST_F(Federated, PaperModeShowsTheClaimBesideTheWholeRun) {
  // Noise as in the experiments of DP-FedEXP: 0.7 C at every client, 5 C on a trusted server's sum.
  const auto run = [&](const char* trust, const char* z, const char* rounds) {
    const RunResult r = Good(Make({{"algorithm.mode", "paper"},
                                   {"privacy.trust", trust},
                                   {"privacy.delta", "1e-5"},
                                   {"algorithm.noise_multiplier", z},
                                   {"algorithm.rounds", rounds}}));
    const auto checked = VerifyFolder(r.folder);
    EXPECT_TRUE(checked.ok());
    if (checked.ok())
      for (const auto& finding : checked->findings) ADD_FAILURE() << finding.sentence;
    return r;
  };
  const RunResult local = run("local", "0.7", "50");
  EXPECT_NEAR(*local.claimed_epsilon, 15.658124050, 1e-6);      // of one message
  EXPECT_NEAR(local.certified_epsilon, 289.33863705, 1e-3);     // of all fifty; the lattice adds a little
  const RunResult central = run("central", "5", "50");
  // 20 clients, 6 numbers: λC = M/(zd) = 2/3, well within what is free.
  EXPECT_NEAR(central.certified_epsilon, 15.456155823, 1e-3);
  EXPECT_GT(*central.claimed_epsilon, central.certified_epsilon);
}

TEST_F(Federated, PaperModeForRecordsHasThePrintedNoise) {
  const auto run = [&](const char* name, std::vector<Assignment> more = {}) {
    std::vector<Assignment> sets = {{"algorithm.name", name},   {"algorithm.mode", "paper"},
                                    {"privacy.unit", "record"}, {"privacy.epsilon", "1"},
                                    {"privacy.delta", "1e-5"},  {"algorithm.rounds", "20"}};
    sets.insert(sets.end(), more.begin(), more.end());
    const RunResult r = Good(Make(sets));
    const auto checked = VerifyFolder(r.folder);
    EXPECT_TRUE(checked.ok());
    if (checked.ok())
      for (const auto& finding : checked->findings) ADD_FAILURE() << finding.sentence;
    EXPECT_EQ(*r.claimed_epsilon, 1.0);
    return r;
  };
  // 16 C √(R ln(2.5R/δ) ln(2/δ))/ε on the sum, whatever the number of records.
  const double sigma = 16 * 0.5 * std::sqrt(20 * std::log(2.5 * 20 / 1e-5) * std::log(2 / 1e-5));
  const RunResult unclipped = run("isrl-dp");
  EXPECT_NEAR(unclipped.plan.schedule[7].sigma, sigma, 1e-9 * sigma);
  EXPECT_TRUE(std::isinf(unclipped.certified_epsilon));      // nothing bounds a row
  // Logistic gradients are no longer than rows: here at most the bound that the paper assumes.
  const RunResult bounded = run("isrl-dp", {{"data.row_norm", "unit"}, {"data.row_bound", "0.5"}});
  EXPECT_NEAR(bounded.plan.schedule[0].sigma, sigma, 1e-9 * sigma);
  const double mu = 2 * 0.5 / sigma * std::sqrt(20.0);
  EXPECT_NEAR(bounded.mu, mu, 1e-6 * mu);
  EXPECT_LT(bounded.certified_epsilon, 0.03);
  // Rényi composition over T·K = 80 steps; the exact curve is below it, by 0.7416 at (1, 1e-5).
  for (const char* name : {"dp-fedavg", "dp-scaffold"}) {
    const RunResult r = run(name);
    EXPECT_EQ(r.plan.each, 4u);
    EXPECT_NEAR(r.certified_epsilon, 0.741637, 1e-5);
    EXPECT_NEAR(r.plan.schedule[3].sigma, 2 * 0.5 * std::sqrt(80.0) / 0.2040585129, 1e-6);
  }
}

TEST_F(Federated, AForgedClaimOfRecordsIsFound) {
  const RunResult r = Good(Make({{"algorithm.name", "isrl-dp"},
                                 {"algorithm.mode", "paper"},
                                 {"privacy.unit", "record"},
                                 {"data.row_norm", "unit"},
                                 {"data.row_bound", "0.5"}}));
  const json honest = json::parse(ReadFile(r.folder / "certificate.json"));
  ASSERT_TRUE(Verify(honest, "honest")->findings.empty());
  json lower = honest;
  lower["privacy"]["claimed_epsilon"] = 0.5;
  EXPECT_FALSE(Verify(lower, "forged")->findings.empty());
  json clipped = honest;      // isrl-dp as printed clips nothing
  clipped["enforced"]["clip"] = 0.5;
  EXPECT_FALSE(Verify(clipped, "forged")->findings.empty());
  json other = honest;      // another method, whose claim would be another
  other["algorithm"] = "dp-fedavg";
  EXPECT_FALSE(Verify(other, "forged")->findings.empty());
}

TEST_F(Federated, TheTraceShowsStepSizesAndWhoAnswered) {
  const RunResult r = Good(Make({{"privacy.trust", "central"}}));
  std::istringstream lines(ReadFile(r.folder / "trace.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json point = json::parse(line);
    EXPECT_GE(point["step_size"].get<double>(), 1.0);
    EXPECT_EQ(point["answered"], 20);
    EXPECT_FALSE(point.contains("missed"));
  }
  const json certificate = json::parse(ReadFile(r.folder / "certificate.json"));
  EXPECT_EQ(certificate["privacy"]["trust"], "central");
  const std::string against = certificate["privacy"]["against"];
  EXPECT_NE(against.find("not the server"), std::string::npos);
}

TEST_F(Federated, ClientsMayHaveTheirOwnBudgetsWhereTheyAddTheirOwnNoise) {
  std::string budgets = "[";
  for (int i = 0; i < 20; ++i) budgets += fmt::format("{}{}", i == 0 ? "" : ", ", i % 2 == 0 ? 0.5 : 4.0);
  const RunResult r = Good(Make({{"privacy.budgets", budgets + "]"}}));
  ASSERT_EQ(r.releases.size(), 2u);
  EXPECT_LE(r.certified_epsilon, 4.0);
  EXPECT_GT(r.certified_epsilon, 3.999);
}

TEST_F(Federated, MistakesAreSentencesThatNameThingValueAndRemedy) {
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(Why({{"privacy.unit", "record"}}), "privacy.unit = \"client\"");
  has(Why({{"algorithm.name", "primal-dual"}}), "protects one record or person");
  has(Why({{"privacy.adjacency", "add-remove"}}), "who takes part is public");
  has(Why({{"algorithm.mode", "paper"}}), "algorithm.noise_multiplier");
  has(Why({{"algorithm.mode", "paper"}, {"algorithm.noise_multiplier", "1e-160"}}), "[1e-6, 1e6]");
  has(Why({{"algorithm.noise_multiplier", "2"}}), "certified mode takes the noise from privacy.epsilon");
  has(Why({{"algorithm.server_rate", "2"}}), "its own global step");
  has(Why({{"algorithm.name", "dp-fedavg"}, {"algorithm.step", "naive"}}), "is for fedexp");
  has(Why({{"privacy.trust", "central"},
           {"privacy.adjacency", "zero-out"},
           {"algorithm.rounds", "3"},
           {"algorithm.allocation", "static"},
           {"algorithm.variance_cap", "0.5"}}),
      "a static allocation needs variance");
  has(Why({{"algorithm.step", "naive"}, {"privacy.trust", "central"}}), "use corrected");
  has(Why({{"model.penalty", "l1box"}}), "model.penalty");
  has(Why({{"algorithm.name", "isrl-dp"}}), "protects one record");
  has(Why({{"algorithm.name", "dp-fedavg"}, {"privacy.unit", "record"}, {"algorithm.batch", "5"}}),
      "all records");
  has(Why({{"algorithm.name", "dp-fedavg"}, {"privacy.unit", "record"}, {"privacy.trust", "central"}}),
      "at the clients");
  has(Why({{"algorithm.name", "dp-scaffold"}, {"algorithm.batch", "5"}}), "control variates");
  has(Why({{"algorithm.server_optimizer", "adam"}}), "its own global step");
  has(Why({{"algorithm.clip_quantile", "0.5"}}), "is for dp-fedavg");
  has(Why({{"algorithm.name", "dp-fedavg"},
           {"algorithm.clip_quantile", "0.5"},
           {"algorithm.mode", "paper"},
           {"algorithm.noise_multiplier", "1"}}),
      "certified mode");
}

TEST_F(Federated, RunsOnOtherClientsAreNotAddedInTheLedger) {
  const auto unit = [&](std::vector<Assignment> sets) {
    sets.push_back({"experiment.ledger", (home_ / "together.db").string()});
    sets.push_back({"data.id", "the data"});
    Good(Make(sets));
  };
  unit({});
  unit({});
  unit({{"privacy.trust", "central"}});
  unit({{"data.clients", "10"}});
  unit({{"data.split", "iid"}});
  unit({{"data.split", "iid"}, {"experiment.seed", "7"}});
  const auto ledger = DataLedger::Read(home_ / "together.db");
  ASSERT_TRUE(ledger.ok());
  std::map<std::string, int> units;
  for (const DataRun& run : ledger->front().runs) ++units[run.unit];
  EXPECT_EQ(units.size(), 5u);
  EXPECT_EQ(units["client (local; blocks into 20, of 400 rows)"], 2);
  EXPECT_EQ(units["client (central; blocks into 20, of 400 rows)"], 1);
}

TEST_F(Federated, ARunIsTheSameWithASlashAtTheEnd) {
  std::atomic<bool> interrupt{false};
  TrainHooks hooks;
  hooks.interrupt = &interrupt;
  hooks.progress = [&](const Progress& p) { interrupt = p.round >= 5; };
  const RunResult part = Good(Make({}), hooks);
  const auto rest = Resume(part.folder / "");
  ASSERT_TRUE(rest.ok()) << rest.error().message;
  EXPECT_EQ(rest->run, part.run);
  const auto ledger = SqliteVault::Read(part.folder / "ledger.db");
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(ledger->size(), 1u);
}

TEST_F(Federated, AForgedCertificateIsFound) {
  const RunResult r = Good(Make({{"privacy.mechanism", "gaussian"}}));
  const json honest = json::parse(ReadFile(r.folder / "certificate.json"));
  ASSERT_TRUE(Verify(honest, "honest")->findings.empty());
  const auto found = [&](auto forge) {
    json forged = honest;
    forge(forged);
    const auto v = Verify(forged, "forged");
    return !v.ok() || !v->findings.empty();
  };
  // Half the sensitivity, as if nothing were added up, with all that follows from it.
  EXPECT_TRUE(found([&](json& c) {
    const double mu = c["privacy"]["mu"].get<double>() / 2, delta = c["privacy"]["delta"];
    const double epsilon = GdpEpsilon(Mu::Proven(mu), Delta::Proven(delta)).upper;
    c["releases"][0]["units"] = 0;
    c["releases"][0]["sensitivity"] = c["enforced"]["sensitivity"] = 0.5;
    c["releases"][0]["mu"] = c["privacy"]["mu"] = mu;
    c["releases"][0]["epsilon"] = c["privacy"]["certified_epsilon"] = epsilon;
    c["privacy"]["certified_epsilon_lower"] = 0;
    c["privacy"]["zcdp_epsilon"] = mu * mu / 2 + 2 * std::sqrt(mu * mu / 2 * std::log(1 / delta));
  }));
  EXPECT_TRUE(found([](json& c) { c["privacy"]["trust"] = "central"; }));
  EXPECT_TRUE(found([](json& c) { c["enforced"]["record_bound"] = 0.4; }));
}

TEST_F(Federated, WithoutNoiseFedAvgLearnsAndMinibatchesDoToo) {
  for (const char* batch : {"0", "5"}) {
    const RunResult r = Good(Make({{"algorithm.name", "dp-fedavg"},
                                   {"privacy.mechanism", "expose"},
                                   {"privacy.clip", "100"},
                                   {"algorithm.batch", batch},
                                   {"experiment.oracle", "true"}}));
    EXPECT_GT(*r.metrics.train_accuracy, 0.8) << batch;      // 5 % of the labels are wrong
    EXPECT_TRUE(std::isinf(r.certified_epsilon));
    EXPECT_FALSE(r.metrics.consensus);
  }
}

}  // namespace
}  // namespace tacit
