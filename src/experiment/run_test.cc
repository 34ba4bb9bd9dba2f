#include "experiment/run.h"
#include "core/sha256.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/npy.h"
#include "privacy/ledger.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Runs : public testing::Test {
 protected:
  Runs() {
    std::string name = (fs::temp_directory_path() / "tacit-run-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Runs() override { fs::remove_all(folder_); }

  Config Make(std::vector<Assignment> sets) const {
    const std::string base = fmt::format(R"(
[data]
source = "synthetic-logistic"
rows = 400
features = 6
clients = 4
row_norm = "clip"
density = 1.0
[model]
l2 = 0.1
penalty = "l1box"
weight = 0.001
[privacy]
epsilon = 1
delta = 1e-4
noise = "replayable"
[algorithm]
rounds = 40
[runtime]
threads = 2
[experiment]
output = "{}"
name = "run"
)",
                                         folder_.string());
    auto c = ParseConfig(base, "run.toml", sets);
    EXPECT_TRUE(c.ok()) << c.error().message;
    return *c;
  }
  RunResult Good(std::vector<Assignment> sets, const TrainHooks& hooks = {}) const {
    auto r = Train(Make(std::move(sets)), hooks);
    EXPECT_TRUE(r.ok()) << r.error().message;
    return r.ok() ? *std::move(r) : RunResult{};
  }
  std::string Why(std::vector<Assignment> sets) const {
    const auto r = Train(Make(std::move(sets)), NoFolder());
    return r.ok() ? "" : r.error().message;
  }
  fs::path Write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  static TrainHooks NoFolder() {
    TrainHooks hooks;
    hooks.write_folder = false;
    return hooks;
  }
  static std::string Read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  fs::path folder_;
};

bool Mentions(const json& certificate, const char* what) {
  return certificate["caveats"].dump().find(what) != std::string::npos;
}

TEST_F(Runs, ThePlanIsWhatIsChargedAndSent) {
  for (const char* split : {"blocks", "dirichlet"})
    for (const char* mechanism : {"lattice_gaussian", "gaussian"}) {
      const RunResult r = Good({{"data.split", split}, {"privacy.mechanism", mechanism}});
      EXPECT_GE(r.plan.certified_epsilon, r.certified_epsilon);
      EXPECT_NEAR(r.certified_epsilon / r.plan.certified_epsilon, 1, 1e-6);
      EXPECT_LE(r.certified_epsilon, 1.0);
      EXPECT_GT(r.certified_epsilon, 1 - 1e-5);
      EXPECT_EQ(r.rounds_done, r.plan.schedule.size());
      EXPECT_EQ(r.bytes_up, r.plan.bytes_up);
      EXPECT_EQ(r.bytes_down, r.plan.bytes_down);
      EXPECT_EQ(r.model.size(), 6u);
    }
}

TEST_F(Runs, TheFolderHoldsTheWholeTruth) {
  const RunResult r = Good({});
  for (const char* file : {"config.toml", "trace.jsonl", "model.npy", "certificate.json", "certificate.txt",
                           "result.json", "ledger.db"})
    EXPECT_TRUE(fs::exists(r.folder / file)) << file;
  EXPECT_EQ(Sha256::Hex(Read(r.folder / "model.npy")), r.model_sha256);
  const auto model = ReadNpy(r.folder / "model.npy");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->values, r.model);
  EXPECT_EQ(model->shape, std::vector<std::size_t>{6});
  const auto again = LoadConfig(r.folder / "config.toml", {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(ToToml(*again), ToToml(Make({})));
  std::istringstream trace(Read(r.folder / "trace.jsonl"));
  std::size_t lines = 0;
  double epsilon = 0;
  for (std::string line; std::getline(trace, line); ++lines) {
    const json point = json::parse(line);
    EXPECT_GE(point["epsilon"].get<double>(), epsilon);
    epsilon = point["epsilon"];
    EXPECT_EQ(point["step_size"].get<double>(), r.plan.gamma);
  }
  EXPECT_EQ(lines, 40u);
  EXPECT_EQ(epsilon, r.certified_epsilon);
  const auto ledger = SqliteVault::Read(r.folder / "ledger.db");
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(ledger->front().state, "settled");
  for (double spent : ledger->front().spent) EXPECT_LE(std::sqrt(spent), r.mu);
  const json j = json::parse(Read(r.folder / "result.json"));
  for (const char* key : {"algorithm", "mode", "rounds", "metrics", "privacy", "bytes_up", "bytes_down",
                          "seconds", "threads", "model_sha256"})
    EXPECT_TRUE(j.contains(key)) << key;
  for (const char* key : {"unit", "adjacency", "delta", "certified_epsilon", "claimed_epsilon", "mu"})
    EXPECT_TRUE(j["privacy"].contains(key)) << key;
  EXPECT_TRUE(j["privacy"]["claimed_epsilon"].is_null());
  EXPECT_NE(Good({}).folder, r.folder);      // two runs never share one
}

TEST_F(Runs, PaperModesCertificateShowsTheClaimBesideTheProof) {
  const RunResult r = Good({{"algorithm.mode", "paper"}});
  const json c = json::parse(Read(r.folder / "certificate.json"));
  EXPECT_EQ(c["privacy"]["claimed_epsilon"], 1.0);
  EXPECT_NEAR(c["privacy"]["certified_epsilon"].get<double>(), 0.693681, 1e-5);
  EXPECT_TRUE(c["enforced"]["clip"].is_null());
  EXPECT_TRUE(Mentions(c, "paper mode"));
  const std::string text = Read(r.folder / "certificate.txt");
  EXPECT_NE(text.find("epsilon = 0.6937"), std::string::npos) << text;
  EXPECT_NE(text.find("epsilon = 1  by the paper"), std::string::npos) << text;
  const RunResult squares = Good(
      {{"data.source", "synthetic-linear"}, {"model.name", "least-squares"}, {"algorithm.mode", "paper"}});
  const json s = json::parse(Read(squares.folder / "certificate.json"));
  EXPECT_EQ(s["privacy"]["certified_epsilon"], "inf");
  EXPECT_EQ(s["privacy"]["claimed_epsilon"], 1.0);
  EXPECT_NE(Read(squares.folder / "certificate.txt").find("inf (not private)"), std::string::npos);
  const json certified = json::parse(Read(Good({}).folder / "certificate.json"));
  EXPECT_TRUE(certified["privacy"]["claimed_epsilon"].is_null());
  EXPECT_EQ(certified["enforced"]["clip"], 1.0);
}

TEST_F(Runs, TheCertificateNamesTheOracleOnlyIfItWasAsked) {
  const RunResult without = Good({}), with = Good({{"experiment.oracle", "true"}});
  EXPECT_TRUE(without.oracle_metrics.empty());
  EXPECT_FALSE(without.metrics.loss || without.metrics.accuracy || without.metrics.optimality ||
               without.metrics.train_loss);
  EXPECT_FALSE(Mentions(json::parse(Read(without.folder / "certificate.json")), "oracle"));
  const json c = json::parse(Read(with.folder / "certificate.json"));
  for (const char* name : {"oracle", "train_loss", "train_accuracy", "optimality", "consensus"})
    EXPECT_TRUE(Mentions(c, name)) << name;
  EXPECT_TRUE(with.metrics.optimality);
  EXPECT_EQ(with.model, without.model);      // looking changes nothing
  const RunResult test = Good({{"data.test", "synthetic-logistic"}});
  EXPECT_TRUE(test.metrics.loss && test.metrics.accuracy);
  EXPECT_FALSE(Mentions(json::parse(Read(test.folder / "certificate.json")), "oracle"));
}

TEST_F(Runs, CaveatsAreSaid) {
  const auto certificate = [&](std::vector<Assignment> sets) {
    return json::parse(Read(Good(std::move(sets)).folder / "certificate.json"));
  };
  EXPECT_TRUE(Mentions(certificate({}), "whoever holds seed 42"));
  EXPECT_FALSE(Mentions(certificate({{"privacy.noise", "entropy"}}), "replayable"));
  EXPECT_TRUE(Mentions(certificate({{"privacy.mechanism", "gaussian"}}), "Mironov"));
  const json exposed = certificate({{"privacy.mechanism", "expose"}});
  EXPECT_TRUE(Mentions(exposed, "non-private"));
  EXPECT_EQ(exposed["privacy"]["certified_epsilon"], "inf");
}

TEST_F(Runs, TheCertificateSpeaksForItsMode) {
  const auto certificate = [&](std::vector<Assignment> sets) {
    return json::parse(Read(Good(std::move(sets)).folder / "certificate.json"));
  };
  const json exposed = certificate({{"privacy.mechanism", "expose"}, {"algorithm.mode", "paper"}});
  EXPECT_TRUE(exposed["privacy"]["claimed_epsilon"].is_null());  // the paper claims nothing without noise
  EXPECT_EQ(exposed["privacy"]["against"], "nobody");
  EXPECT_EQ(exposed["mechanism"]["noise"], "none");
  const std::string zero_out = certificate({{"privacy.adjacency", "zero-out"}})["privacy"]["protects"];
  EXPECT_NE(zero_out.find("contributes nothing"), std::string::npos) << zero_out;
  const json budgets = certificate({{"privacy.budgets", "[0.5, 1, 2, 3]"}, {"algorithm.mode", "paper"}});
  EXPECT_EQ(budgets["privacy"]["claimed_epsilon"], 3.0);
  ASSERT_EQ(budgets["privacy"]["per_client_epsilon"].size(), 4u);
  EXPECT_NEAR(budgets["privacy"]["per_client_epsilon"][1].get<double>(), 0.693681,
              1e-5);  // proved, not asked
  const json test = certificate({{"data.test", "synthetic-logistic"}});
  EXPECT_EQ(test["data"]["test"], "synthetic-logistic");
  EXPECT_EQ(test["data"]["test_declared_public"], true);
}

TEST_F(Runs, PaperModeIsCalibratedAsPrintedWhateverTheAdjacency) {
  const RunResult replace = Good({{"algorithm.mode", "paper"}});
  const RunResult zero = Good({{"algorithm.mode", "paper"}, {"privacy.adjacency", "zero-out"}});
  EXPECT_EQ(replace.plan.schedule.back().sigma, zero.plan.schedule.back().sigma);
  EXPECT_LT(zero.certified_epsilon, replace.certified_epsilon);  // the weaker promise costs less
}

TEST_F(Runs, NeighboursDoNotShareReplayableNoise) {
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += fmt::format("{} 1:{} 2:1\n", i % 2 == 0 ? 1 : -1, i % 3);
  const auto train = [&](const std::string& text, const char* file = "same.svm") {
    return Good({{"data.source", Write(file, text).string()},
                 {"data.rows", "40"},
                 {"data.features", "2"},
                 {"algorithm.rounds", "1"},
                 {"model.penalty", "none"},
                 {"privacy.epsilon", "0.01"}});
  };
  const RunResult a = train(rows), again = train(rows), b = train("-1" + rows.substr(1));
  EXPECT_EQ(a.model, again.model);
  fs::create_directory(folder_ / "elsewhere");
  EXPECT_EQ(a.model, train(rows, "elsewhere/same.svm").model);  // a folder's name is not part of the run
  // One record moves the model by at most γ·2B/(n m) per client; the noise is thousands of times that.
  EXPECT_GT(std::abs(a.model[0] - b.model[0]), 0.25 * 2.0 / 40);
}

TEST_F(Runs, AnInterruptBeforeTheFirstRoundSpendsNothing) {
  const std::atomic<bool> stop{true};
  TrainHooks hooks;
  hooks.interrupt = &stop;
  const RunResult r = Good({}, hooks);
  EXPECT_TRUE(r.interrupted);
  EXPECT_EQ(r.rounds_done, 0u);
  EXPECT_EQ(r.certified_epsilon, 0.0);
}

TEST_F(Runs, ReplayableNoiseRepeatsAndEntropyDoesNot) {
  const RunResult a = Good({}), threads = Good({{"runtime.threads", "3"}}),
                  seed = Good({{"experiment.seed", "43"}});
  EXPECT_EQ(a.model_sha256, Good({}).model_sha256);
  EXPECT_EQ(a.model_sha256, threads.model_sha256);
  EXPECT_EQ(threads.threads, 3u);
  EXPECT_NE(a.model_sha256, seed.model_sha256);
  EXPECT_NE(Good({{"privacy.noise", "entropy"}}).model_sha256,
            Good({{"privacy.noise", "entropy"}}).model_sha256);
}

TEST_F(Runs, AnInterruptedRunHasAValidCertificate) {
  std::atomic<bool> stop{false};
  TrainHooks hooks;
  hooks.interrupt = &stop;
  hooks.progress = [&](const Progress& p) { stop = p.round >= 5; };
  const RunResult r = Good({{"experiment.reserve", "7"}}, hooks);
  EXPECT_TRUE(r.interrupted);
  EXPECT_EQ(r.rounds_done, 5u);
  // When it stopped may depend on what it released: the figure is the plan's, not that of five rounds.
  EXPECT_EQ(r.certified_epsilon, r.plan.certified_epsilon);
  EXPECT_LT(r.plan.EpsilonAfter(4), 0.9 * r.certified_epsilon);
  const json c = json::parse(Read(r.folder / "certificate.json"));
  EXPECT_TRUE(Mentions(c, "interrupted"));
  EXPECT_EQ(c["rounds"]["done"], 5);
  EXPECT_EQ(c["model"]["sha256"], Sha256::Hex(Read(r.folder / "model.npy")));
  const auto ledger = SqliteVault::Read(r.folder / "ledger.db");
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(ledger->front().state, "settled");
  EXPECT_LT(std::sqrt(ledger->front().spent[0]), r.mu);      // what is left of the budget is given back
}

TEST_F(Runs, EveryClientEndsWithinItsOwnBudget) {
  const RunResult r = Good({{"privacy.budgets", "[0.5, 1, 4, 0.5]"}});
  const auto ledger = SqliteVault::Read(r.folder / "ledger.db");
  ASSERT_TRUE(ledger.ok());
  const LedgerRecord& l = ledger->front();
  const double kEpsilon[] = {0.5, 1, 4, 0.5};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_LE(l.spent[i], l.budget[i]);
    EXPECT_GT(l.spent[i], l.budget[i] * (1 - 1e-5));
    const double epsilon = GdpEpsilon(Root(MuSquared::Proven(l.spent[i])), Delta{1e-4}).upper;
    EXPECT_LE(epsilon, kEpsilon[i]);
  }
  EXPECT_LE(r.certified_epsilon, 4);
  EXPECT_GE(r.plan.certified_epsilon, r.certified_epsilon);
  EXPECT_NEAR(r.plan.certified_epsilon, r.certified_epsilon, 1e-5);
}

TEST_F(Runs, SkippedRoundsAreNotRun) {
  const RunResult r = Good(
      {{"algorithm.rounds", "2000"}, {"algorithm.strong_convexity", "0.1"}, {"algorithm.gamma", "0.25"}});
  EXPECT_GT(r.plan.skipped, 100u);
  EXPECT_EQ(r.rounds_done, 2000 - r.plan.skipped);
  EXPECT_LE(r.certified_epsilon, 1.0);
  EXPECT_EQ(r.trace.back().first, 2000u);
}

TEST_F(Runs, WithoutNoiseReachesTheOptimum) {
  const RunResult r = Good({{"privacy.mechanism", "expose"},
                            {"experiment.oracle", "true"},
                            {"algorithm.rounds", "1500"},
                            {"algorithm.scaling", "times_n"},
                            {"privacy.clip", "100"},
                            {"data.heterogeneity", "1"}},
                           NoFolder());
  ASSERT_TRUE(r.metrics.optimality);
  EXPECT_LT(*r.metrics.optimality, 1e-18);
  EXPECT_TRUE(std::isinf(r.certified_epsilon));
  EXPECT_TRUE(r.folder.empty());
}

TEST_F(Runs, ASavedRunPredictsAndIsEvaluated) {
  const RunResult r = Good({{"data.test", "synthetic-logistic"}, {"privacy.epsilon", "100"}});
  const auto saved = OpenRun(r.folder);
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  EXPECT_EQ(saved->model, r.model);
  const auto e = Evaluate(*saved, "synthetic-logistic", {});
  ASSERT_TRUE(e.ok()) << e.error().message;
  EXPECT_EQ(e->rows, 400u);
  EXPECT_EQ(e->outputs, 1u);
  EXPECT_EQ(e->metrics.loss, r.metrics.loss);
  EXPECT_EQ(e->metrics.accuracy, r.metrics.accuracy);
  EXPECT_GT(*e->metrics.accuracy, 0.7);
  const auto file = Evaluate(*saved, Write("new.svm", "+1 1:1 6:0.5\n-1 2:1\n").string(), {});
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->rows, 2u);
  const double norm = std::sqrt(1.25);  // the run's own preprocessing: rows of norm ≤ 1
  EXPECT_NEAR(file->scores[0], (r.model[0] + 0.5 * r.model[5]) / norm, 1e-12);
  EXPECT_NEAR(file->scores[1], r.model[1], 1e-12);
  EXPECT_EQ(OpenRun(folder_ / "none").error().code, Code::kNotFound);
  EXPECT_FALSE(Evaluate(*saved, (folder_ / "none.svm").string(), {}).ok());
  const auto key = Evaluate(*saved, "synthetic-logistic", {{"data.rowz", "3"}});
  ASSERT_FALSE(key.ok());
  EXPECT_NE(key.error().message.find("did you mean data.rows?"), std::string::npos);
}

TEST_F(Runs, SoftmaxModelsHaveOneRowPerClass) {
  const RunResult r = Good({{"data.source", Write("three.svm",
                                                  [] {
                                                    std::string rows;
                                                    for (int i = 0; i < 90; ++i)
                                                      rows +=
                                                          fmt::format("{} {}:1 4:0.25\n", i % 3, 1 + i % 3);
                                                    return rows;
                                                  }())
                                                .string()},
                            {"data.rows", "90"},
                            {"data.features", "4"},
                            {"model.name", "softmax"},
                            {"model.classes", "3"},
                            {"privacy.epsilon", "50"}});
  const auto model = ReadNpy(r.folder / "model.npy");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->shape, (std::vector<std::size_t>{3, 4}));
  EXPECT_EQ(Sha256::Hex(Read(r.folder / "model.npy")), r.model_sha256);
}

TEST_F(Runs, MistakesAreSentencesThatNameThingValueAndRemedy) {
  const std::string good = "+1 1:1\n-1 2:1\n+1 1:0.5\n-1 2:0.5\n";
  const auto with = [&](const char* name, const std::string& text) -> std::vector<Assignment> {
    return {{"data.source", Write(name, text).string()},
            {"data.rows", "0"},
            {"data.features", "2"},
            {"data.clients", "2"}};
  };
  EXPECT_EQ(Why(with("good.svm", good)), "");  // the number of rows is read from a file
  const struct {
    const char* why;
    std::vector<Assignment> sets;
    std::vector<const char*> parts;
  } kCases[] = {
      {"missing file", {{"data.source", "/nowhere/a.svm"}, {"data.rows", "0"}}, {"/nowhere/a.svm"}},
      {"missing file of known shape", {{"data.source", "/nowhere/a.svm"}}, {"/nowhere/a.svm"}},
      {"malformed row", with("bad.svm", good + "+1 x:1\n"), {"bad.svm: line 5"}},
      {"NaN", with("nan.svm", good + "+1 1:nan\n"), {"nan.svm: line 5"}},
      {"infinity", with("inf.csv", "1,2,1\n3,inf,0\n"), {"inf.csv: line 2"}},
      {"more clients than rows", {{"data.clients", "401"}}, {"data.clients = 401", "400 rows", "lower it"}},
      {"the width of sparse rows is not read from them",
       {{"data.source", Write("sparse.svm", good).string()},
        {"data.rows", "0"},
        {"data.features", "0"},
        {"data.clients", "2"}},
       {"data.features is not set", "sparse.svm", "public constant"}},
      {"the training file as test data",
       {{"data.source", Write("both.svm", good).string()},
        {"data.test", (folder_ / "both.svm").string()},
        {"data.rows", "4"},
        {"data.features", "2"},
        {"data.clients", "2"}},
       {"data.test", "both.svm", "is the training data", "experiment.oracle"}},
      {"a copy of the training file as test data",
       {{"data.source", Write("original.svm", good).string()},
        {"data.test", Write("copy.svm", good).string()},
        {"data.rows", "4"},
        {"data.features", "2"},
        {"data.clients", "2"}},
       {"data.test", "copy.svm", "is the training data"}},
      {"a range upside down",
       {{"data.lower", "[1]"}, {"data.upper", "[0]"}},
       {"data.lower[0] = 1", "data.upper[0] = 0"}},
      {"more clients than a file has rows",
       {{"data.source", Write("few.svm", good).string()},
        {"data.rows", "0"},
        {"data.features", "2"},
        {"data.clients", "5"}},
       {"5", "4", "clients"}},
      {"fewer rows than said",
       {{"data.source", Write("short.svm", good).string()}, {"data.rows", "40"}, {"data.features", "2"}},
       {"short.svm", "40", "4"}},
      {"a test set of another width", {{"data.test", Write("wide.svm", "+1 9:1\n").string()}}, {"wide.svm"}},
      {"a folder that cannot be",
       {{"data.separator", "\";;\""}, {"data.source", Write("s.csv", "1;;2\n").string()}},
       {"data.separator = \";;\": must be one character"}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const std::string why = Why(c.sets);
    EXPECT_NE(why, "");
    for (const char* part : c.parts) EXPECT_NE(why.find(part), std::string::npos) << part << " in: " << why;
  }
  const auto r = Train(Make({{"experiment.output", "/proc/none"}}));
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Code::kIo);
  EXPECT_NE(r.error().message.find("set experiment.output"), std::string::npos);
}

TEST_F(Runs, ThePlanIsShownBeforeDataIsTouched) {
  bool planned = false;
  TrainHooks hooks;
  hooks.planned = [&](const Plan& p) { planned = p.rounds == 40; };
  const auto r = Train(Make({{"data.source", "/nowhere/a.svm"}}), hooks);
  EXPECT_FALSE(r.ok());
  EXPECT_TRUE(planned);
}

}  // namespace
}  // namespace tacit
