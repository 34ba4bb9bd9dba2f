#include "experiment/sweep.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "experiment/reproduce.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

// A folder with one experiment file, gone at the end.
class SweepTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("tacit_sweep_{}", ::getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path Write(const std::string& text) {
    const fs::path file = folder_ / "grid.toml";
    std::ofstream(file) << text
                        << fmt::format("\n[experiment]\nseed = 5\noutput = \"{}\"\n",
                                       (folder_ / "out").string());
    return file;
  }
  Result<Sweep> Load(const std::string& text, const std::vector<Assignment>& sets = {}, bool quick = false) {
    return LoadSweep(Write(text), sets, quick);
  }
  // A run that costs nothing: optimality = rounds · epsilon + seed / 100. Counts its calls.
  SweepHooks Fake() {
    SweepHooks hooks;
    hooks.jobs = 3;
    hooks.run = [this](const Config& c, const TrainHooks& t) -> Result<RunResult> {
      const std::lock_guard lock(mutex_);
      ++calls_;
      EXPECT_FALSE(t.write_folder);
      EXPECT_EQ(c.runtime.threads, 1u);
      RunResult r;
      r.plan.delta = c.privacy.delta;
      r.rounds_done = c.algorithm.rounds;
      r.metrics.optimality = static_cast<double>(c.algorithm.rounds) * c.privacy.epsilon +
                             static_cast<double>(c.experiment.seed) / 100;
      return r;
    };
    return hooks;
  }
  std::string Results() {
    std::ifstream in(folder_ / "out/grid/results.jsonl", std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

  fs::path folder_;
  std::mutex mutex_;
  std::size_t calls_ = 0;
};

constexpr const char* kGrid = R"(
[sweep]
seeds = 2
grid = { algorithm.rounds = [10, 20, 40], privacy.epsilon = [1, 2.5] }
[quick]
seeds = [9]
algorithm.gamma = 0.125
grid = { algorithm.rounds = [10] }
)";

TEST_F(SweepTest, TheCellsAreTheProduct) {
  const auto sweep = Load(kGrid);
  ASSERT_TRUE(sweep.ok()) << sweep.error().message;
  EXPECT_EQ(sweep->name, "grid");
  EXPECT_EQ(sweep->seeds, (std::vector<std::size_t>{5, 6}));
  ASSERT_EQ(sweep->axes.size(), 2u);
  EXPECT_EQ(sweep->axes[0].key, "algorithm.rounds");         // the order of the file
  const auto cells = Cells(*sweep);
  ASSERT_TRUE(cells.ok());
  ASSERT_EQ(cells->size(), 12u);
  EXPECT_EQ((*cells)[0].config.algorithm.rounds, 10u);
  EXPECT_EQ((*cells)[0].config.privacy.epsilon, 1.0);
  EXPECT_EQ((*cells)[3].config.privacy.epsilon, 2.5);
  EXPECT_EQ((*cells)[3].config.experiment.seed, 6u);
  std::set<std::string> ids;
  for (const Cell& c : *cells) ids.insert(c.id);
  EXPECT_EQ(ids.size(), 12u);
}

TEST_F(SweepTest, QuickOverridesAndSetPins) {
  const auto quick = Load(kGrid, {}, true);
  ASSERT_TRUE(quick.ok()) << quick.error().message;
  EXPECT_EQ(quick->seeds, std::vector<std::size_t>{9});
  EXPECT_EQ(quick->base.algorithm.gamma, 0.125);
  EXPECT_EQ(Cells(*quick)->size(), 2u);
  EXPECT_EQ(quick->folder.filename(), "grid-quick");

  const auto pinned = Load(kGrid, {{"algorithm.rounds", "7"}});
  ASSERT_TRUE(pinned.ok());
  EXPECT_EQ(Cells(*pinned)->size(), 4u);
  EXPECT_EQ(Cells(*pinned)->front().config.algorithm.rounds, 7u);
  EXPECT_EQ(pinned->base.algorithm.gamma, 0.0);
}

TEST_F(SweepTest, TheIdIgnoresWhatChangesNoResult) {
  Config a, b;
  b.runtime.threads = 7;
  b.experiment.output = "elsewhere";
  b.experiment.name = "other";
  EXPECT_EQ(CellId(a), CellId(b));
  b.experiment.seed = 43;
  EXPECT_NE(CellId(a), CellId(b));
}

TEST_F(SweepTest, MeanAndSpreadAreThoseOfTheSeeds) {
  const auto sweep = Load(kGrid);
  const auto result = RunSweep(*sweep, Fake());
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(calls_, 12u);
  EXPECT_EQ(result->ran, 12u);
  ASSERT_EQ(result->points.size(), 6u);
  const Summary& s = result->points[1].metrics.at("optimality");       // T = 10, ε = 2.5, seeds 5 and 6
  EXPECT_EQ(s.count, 2u);
  EXPECT_NEAR(s.mean, 25.055, 1e-12);
  EXPECT_NEAR(s.std, 0.01 / std::sqrt(2.0), 1e-12);
}

TEST_F(SweepTest, SeedsThatAgreeHaveNoSpread) {
  const auto sweep = Load("[sweep]\nseeds = 5\n");
  ASSERT_TRUE(sweep.ok()) << sweep.error().message;
  SweepHooks hooks = Fake();
  hooks.run = [](const Config&, const TrainHooks&) -> Result<RunResult> {
    RunResult r;
    r.certified_epsilon = 1.7;  // five fifths of it add up to less
    return r;
  };
  const auto result = RunSweep(*sweep, hooks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const Summary& s = result->points.at(0).metrics.at("certified_epsilon");
  EXPECT_EQ(s.count, 5u);
  EXPECT_EQ(s.mean, 1.7);
  EXPECT_EQ(s.std, 0);
  EXPECT_EQ(CertifiedAt(result->points[0]), 1.7);
}

TEST_F(SweepTest, ASecondCallRunsNothing) {
  const auto sweep = Load(kGrid);
  ASSERT_TRUE(RunSweep(*sweep, Fake()).ok());
  const auto again = RunSweep(*sweep, Fake());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(calls_, 12u);
  EXPECT_EQ(again->resumed, 12u);
  EXPECT_EQ(again->points.size(), 6u);
  SweepHooks fresh = Fake();
  fresh.fresh = true;
  ASSERT_TRUE(RunSweep(*sweep, fresh).ok());
  EXPECT_EQ(calls_, 24u);
}

TEST_F(SweepTest, AnInterruptedSweepGoesOnWhereItStopped) {
  const auto sweep = Load(kGrid);
  std::atomic<bool> interrupt = false;
  SweepHooks hooks = Fake();
  hooks.jobs = 1;
  hooks.interrupt = &interrupt;
  hooks.progress = [&](const SweepProgress& p) { interrupt = p.done >= 5; };
  const auto first = RunSweep(*sweep, hooks);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->interrupted);
  EXPECT_EQ(first->ran, 5u);
  const auto second = RunSweep(*sweep, Fake());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->resumed, 5u);
  EXPECT_EQ(second->ran, 7u);
  EXPECT_EQ(calls_, 12u);
}

TEST_F(SweepTest, ARunThatWasCutShortIsNoResult) {
  const auto sweep = Load(kGrid);
  SweepHooks hooks = Fake();
  hooks.jobs = 1;
  const Runner whole = hooks.run;
  hooks.run = [&](const Config& c, const TrainHooks& t) {
    auto r = whole(c, t);
    r->interrupted = true;
    return r;
  };
  const auto result = RunSweep(*sweep, hooks);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->ran, 0u);
  EXPECT_EQ(Results(), "");
}

TEST_F(SweepTest, ARunThatAnotherSweepHasMadeIsCopied) {
  MadeResults made;
  SweepHooks hooks = Fake();
  hooks.made = &made;
  ASSERT_TRUE(RunSweep(*Load(kGrid), hooks).ok());
  EXPECT_EQ(made.size(), 12u);
  const fs::path file = folder_ / "out/grid/results.jsonl", there = folder_ / "there.jsonl";
  fs::rename(file, there);
  // Of the six points four are there, with both seeds; the last axis has another place in the other sweep.
  calls_ = 0;
  const std::string grid =
      "[sweep]\nseeds = 2\ngrid = { privacy.epsilon = [1, 2.5], algorithm.rounds = [20, 40, 80] }";
  const auto taken = RunSweep(*Load(grid), hooks);
  ASSERT_TRUE(taken.ok()) << taken.error().message;
  EXPECT_EQ(calls_, 4u);
  EXPECT_EQ(taken->resumed, 8u);
  EXPECT_EQ(made.size(), 16u);
  ASSERT_EQ(taken->points.size(), 6u);
  EXPECT_DOUBLE_EQ(taken->points[1].metrics.at("optimality").mean, 40 * 1 + 0.055);
  std::istringstream lines(Results());
  std::size_t copies = 0;
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text);
    const double rounds = line["at"]["algorithm.rounds"], epsilon = line["at"]["privacy.epsilon"];
    EXPECT_DOUBLE_EQ(line["result"]["metrics"]["optimality"].get<double>(),
                     rounds * epsilon + line["seed"].get<double>() / 100);
    copies += line.value("from", "") == file.string();
  }
  EXPECT_EQ(copies, 8u);
}

// What a file holds from before may be of another build, or of other data: no other sweep takes it.
TEST_F(SweepTest, WhatASweepOnlyFoundIsNotCopied) {
  ASSERT_TRUE(RunSweep(*Load(kGrid), Fake()).ok());
  MadeResults made;
  SweepHooks hooks = Fake();
  hooks.made = &made;
  calls_ = 0;
  ASSERT_TRUE(RunSweep(*Load(kGrid), hooks).ok());
  EXPECT_EQ(calls_, 0u);
  EXPECT_TRUE(made.empty());
}

TEST_F(SweepTest, ARunThatDoesNotHaveWhatIsAskedOfTheTraceIsMadeAgain) {
  MadeResults made;
  SweepHooks hooks = Fake();
  hooks.made = &made;
  ASSERT_TRUE(RunSweep(*Load(kGrid), hooks).ok());
  fs::remove(folder_ / "out/grid/results.jsonl");
  calls_ = 0;
  Sweep sweep = *Load(kGrid);
  sweep.metrics = {"optimality", "optimality@5"};
  ASSERT_TRUE(RunSweep(sweep, hooks).ok());
  EXPECT_EQ(calls_, 12u);
}

TEST_F(SweepTest, ALineTornByACrashIsRunAgain) {
  const auto sweep = Load(kGrid);
  ASSERT_TRUE(RunSweep(*sweep, Fake()).ok());
  const std::string whole = Results();
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t cut : {last + 1, last + 20, whole.size() - 1}) {
    fs::resize_file(folder_ / "out/grid/results.jsonl", cut);
    calls_ = 0;
    const auto result = RunSweep(*sweep, Fake());
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(calls_, 1u);
    EXPECT_EQ(Results().size(), whole.size());
  }
}

TEST_F(SweepTest, AForeignLineIsRefused) {
  const auto sweep = Load(kGrid);
  fs::create_directories(folder_ / "out/grid");
  std::ofstream(folder_ / "out/grid/results.jsonl") << "{\"id\": 3}\n";
  const auto result = RunSweep(*sweep, Fake());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kMalformed);
  EXPECT_NE(result.error().message.find("results.jsonl:1"), std::string::npos);
}

TEST_F(SweepTest, AFailingRunStopsTheSweepAndSaysWhere) {
  const auto sweep = Load(kGrid);
  SweepHooks hooks = Fake();
  hooks.jobs = 1;
  const Runner whole = hooks.run;
  hooks.run = [&](const Config& c, const TrainHooks& t) -> Result<RunResult> {
    if (c.algorithm.rounds == 20) return Fail(Code::kNotFound, "no data");
    return whole(c, t);
  };
  const auto result = RunSweep(*sweep, hooks);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kNotFound);
  EXPECT_EQ(result.error().message, "at algorithm.rounds = 20, privacy.epsilon = 1, seed 5: no data");
  EXPECT_EQ(RunSweep(*sweep, Fake())->resumed, 4u);          // what was finished before is kept
}

TEST_F(SweepTest, MistakesAreNamed) {
  const struct {
    const char* why;
    const char* text;
    const char* message;
  } kCases[] = {
      {"nothing to sweep", "", "nothing to sweep over"},
      {"unknown key of [sweep]", "[sweep]\nseed = 3", "did you mean sweep.seeds"},
      {"unknown axis", "[sweep]\ngrid = { algorithm.round = [1] }", "algorithm.rounds"},
      {"value out of range", "[sweep]\ngrid = { privacy.delta = [1e-5, 2] }", "privacy.delta = 2"},
      {"axis that is no list", "[sweep]\ngrid = { algorithm.rounds = 3 }", "must be a list"},
      {"empty axis", "[sweep]\ngrid = { algorithm.rounds = [] }", "must be a list"},
      {"a value twice", "[sweep]\ngrid = { privacy.epsilon = [1, 1.0] }", "twice"},
      {"seeds of zero", "[sweep]\nseeds = 0", "seeds = 0"},
      {"a seed twice", "[sweep]\nseeds = [1, 1]", "twice"},
      {"a negative seed", "[sweep]\nseeds = [-1]", "at least 0"},
      {"seed as axis", "[sweep]\ngrid = { experiment.seed = [1, 2] }", "sweep.seeds"},
      {"a case without a name", "[[sweep.case]]\nalgorithm.rounds = 3", "needs a name"},
      {"a case twice", "[[sweep.case]]\nname = \"a\"\n[[sweep.case]]\nname = \"a\"", "twice"},
      {"a case with an unknown key", "[[sweep.case]]\nname = \"a\"\nalgorithm.round = 3", "algorithm.rounds"},
      {"quick with an unknown case", "[[sweep.case]]\nname = \"a\"\n[quick]\ncase = [\"b\"]", "no case"},
      {"unknown key of [quick]", "[sweep]\nseeds = 2\n[quick]\nalgorithm.round = 3", "algorithm.rounds"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const auto sweep = Load(c.text);
    ASSERT_FALSE(sweep.ok());
    EXPECT_EQ(sweep.error().code, Code::kInvalidArgument);
    EXPECT_NE(sweep.error().message.find(c.message), std::string::npos) << sweep.error().message;
    EXPECT_NE(sweep.error().message.find("grid.toml"), std::string::npos) << sweep.error().message;
  }
}

TEST_F(SweepTest, ClaimsAreDecidedByTheMeans) {
  // m = rounds · epsilon + 0.055 on average: slope 1 in the rounds, ratio 2 from 20 to 40.
  const char* const kClaims = R"(
[about]
title = "a title"
[[claim]]
text = "below"
check = { kind = "below", metric = "optimality", at = { algorithm.rounds = 10, privacy.epsilon = 1 }, limit = 10.1 }
[[claim]]
text = "above everywhere"
check = { kind = "above", metric = "optimality", limit = 10.1 }
[[claim]]
text = "ratio"
published = "twice"
check = { kind = "ratio_at_most", metric = "optimality", limit = 2, numerator = { algorithm.rounds = 40, privacy.epsilon = 1 }, denominator = { algorithm.rounds = 20, privacy.epsilon = 1 } }
[[claim]]
text = "growth"
check = { kind = "grows_like", metric = "optimality", over = "algorithm.rounds", exponent = 1, tolerance = 0.01, at = { privacy.epsilon = 2.5 } }
[[claim]]
text = "a point outside the grid"
check = { kind = "below", metric = "optimality", at = { algorithm.rounds = 11 }, limit = 1 }
[[claim]]
text = "two points for one"
check = { kind = "ratio_at_least", metric = "optimality", limit = 2, numerator = { algorithm.rounds = 40 }, denominator = { algorithm.rounds = 20 } }
)";
  const fs::path file = Write(std::string(kGrid) + kClaims);
  const auto figure = LoadFigure(file, "paper/grid");
  ASSERT_TRUE(figure.ok()) << figure.error().message;
  EXPECT_EQ(figure->title, "a title");
  const auto sweep = LoadSweep(file, {});
  ASSERT_TRUE(sweep.ok());
  const auto result = RunSweep(*sweep, Fake());
  ASSERT_TRUE(result.ok());
  using Kind = Verdict::Kind;
  const Kind kExpected[] = {Kind::kHolds, Kind::kFails,    Kind::kHolds,
                            Kind::kHolds, Kind::kUntested, Kind::kUntested};
  ASSERT_EQ(figure->claims.size(), std::size(kExpected));
  for (std::size_t i = 0; i < figure->claims.size(); ++i) {
    const Verdict v = Check(figure->claims[i], *result);
    EXPECT_EQ(v.kind, kExpected[i]) << figure->claims[i].text << ": " << v.numbers;
  }
}

TEST(Claims, SayWhetherOtherSeedsMayDecideOtherwise) {
  SweepResult sweep;
  sweep.axes = {{"case", {Value(std::string("a")), Value(std::string("b"))}}};
  sweep.points = {{{Value(std::string("a"))}, 4, {{"loss", {1, 0.2, 4}}, {"certified_epsilon", {1, 0, 4}}}},
                  {{Value(std::string("b"))}, 4, {{"loss", {2, 0.4, 4}}, {"certified_epsilon", {2, 1, 4}}}}};
  PublishedClaim claim;
  claim.metric = "loss";
  claim.kind = PublishedClaim::Kind::kRatioAtMost;
  claim.numerator = {{"case", Value(std::string("a"))}};
  claim.denominator = {{"case", Value(std::string("b"))}};
  claim.limit = 0.55;
  // Standard errors 0.1 and 0.2: the ratio's is √(0.05² + 0.05²).
  Verdict v = Check(claim, sweep);
  EXPECT_EQ(v.numbers, "1 ± 0.2 / 2 ± 0.4 = 0.5, limit 0.55");
  EXPECT_NEAR(*v.errors, 0.05 / (0.05 * std::sqrt(2.0)), 1e-12);
  EXPECT_TRUE(v.within_error());
  EXPECT_EQ(v.certified, (std::vector<double>{1, 3.5})) << "the most that one of four seeds can have";
  claim.limit = 0.8;
  v = Check(claim, sweep);
  EXPECT_NEAR(*v.errors, 0.3 / (0.05 * std::sqrt(2.0)), 1e-12);
  EXPECT_FALSE(v.within_error());

  claim.kind = PublishedClaim::Kind::kBelow;
  claim.limit = 2.3;
  v = Check(claim, sweep);  // everywhere: b is the worst
  EXPECT_EQ(v.numbers, "largest loss is 2 ± 0.4, limit 2.3");
  EXPECT_NEAR(*v.errors, 1.5, 1e-12);
  claim.at = {{"case", Value(std::string("b"))}};
  sweep.points[1].metrics["loss"] = {15.6466, 0, 1};
  claim.limit = 15.6475;
  v = Check(claim, sweep);
  EXPECT_EQ(v.numbers, "loss is 15.647, limit 15.6475") << "digits that tell on which side it is";
  EXPECT_FALSE(v.errors.has_value()) << "one seed";
  EXPECT_FALSE(v.within_error());
  claim.metric = "claimed_epsilon";
  sweep.points[1].metrics["claimed_epsilon"] = {15, 0, 1};
  EXPECT_TRUE(std::isinf(*Check(claim, sweep).errors)) << "follows from public constants";
  claim.metric = "loss";
  sweep.points[1].metrics["loss"] = {NAN, NAN, 1};
  EXPECT_EQ(Check(claim, sweep).kind, Verdict::Kind::kFails) << "what is no number is not below a limit";

  sweep.axes = {{"algorithm.rounds", {Value(std::int64_t{10}), Value(std::int64_t{100})}}};
  sweep.points = {{{Value(std::int64_t{10})}, 4, {{"loss", {1, 0.2, 4}}}},
                  {{Value(std::int64_t{100})}, 4, {{"loss", {10, 2, 4}}}}};
  claim = {};
  claim.metric = "loss";
  claim.kind = PublishedClaim::Kind::kGrowsLike;
  claim.over = "algorithm.rounds";
  claim.tolerance = 0.25;
  v = Check(claim, sweep);  // two logarithms with an error of 0.1 each, ln 10 apart
  EXPECT_NEAR(*v.errors, 0.25 / (0.1 * std::sqrt(2.0) / std::log(10.0)), 1e-9) << v.numbers;
}

TEST_F(SweepTest, WhatIsNotReproducedHasAReason) {
  const auto all =
      ReadNotReproduced(Write("[[missing]]\npaper = \"p\"\nwhat = \"Fig. 9\"\nbecause = \"no data\"\n"));
  ASSERT_TRUE(all.ok()) << all.error().message;
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ((*all)[0].because, "no data");
  for (const char* bad : {"[[missing]]\npaper = \"p\"\nwhat = \"Fig. 9\"\n", "missing = 3\n", "[[missing\n"})
    EXPECT_FALSE(ReadNotReproduced(Write(bad)).ok()) << bad;
  const auto none = ReadNotReproduced("/nowhere/not_reproduced.toml");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

TEST_F(SweepTest, CasesChangeSeveralKeysAtOnce) {
  const char* const kCases = R"(
[sweep]
grid = { algorithm.gamma = [0.125, 0.25] }
[[sweep.case]]
name = "short"
algorithm.rounds = 10
privacy.epsilon = 2
[[sweep.case]]
name = "long"
algorithm.rounds = 30
[quick]
case = ["long"]
[[claim]]
text = "the gain of the shorter, each at its best step"
check = { kind = "ratio_at_most", metric = "optimality", limit = 0.7, tuned = ["algorithm.gamma"], numerator = { case = "short" }, denominator = { case = "long" } }
[[claim]]
text = "the best of all cases that begin so"
check = { kind = "above", metric = "optimality", limit = 30, tuned = ["algorithm.gamma", "case"], at = { case = "lo*" } }
[[claim]]
text = "not tuned, so two points"
check = { kind = "ratio_at_most", metric = "optimality", limit = 0.7, numerator = { case = "short" }, denominator = { case = "long" } }
)";
  const fs::path file = Write(kCases);
  const auto sweep = LoadSweep(file, {});
  ASSERT_TRUE(sweep.ok()) << sweep.error().message;
  const auto cells = Cells(*sweep);
  ASSERT_TRUE(cells.ok());
  ASSERT_EQ(cells->size(), 4u);
  EXPECT_EQ((*cells)[0].config.algorithm.rounds, 10u);
  EXPECT_EQ((*cells)[0].config.privacy.epsilon, 2);
  EXPECT_EQ((*cells)[0].config.algorithm.gamma, 0.125);
  EXPECT_EQ((*cells)[3].config.algorithm.rounds, 30u);
  EXPECT_EQ((*cells)[3].config.privacy.epsilon, sweep->base.privacy.epsilon);

  const auto figure = LoadFigure(file, "paper/cases");
  ASSERT_TRUE(figure.ok()) << figure.error().message;
  const auto result = RunSweep(*sweep, Fake());
  ASSERT_TRUE(result.ok());
  // 20.05 against 30.05: a ratio of 0.667.
  EXPECT_EQ(Check(figure->claims[0], *result).kind, Verdict::Kind::kHolds);
  EXPECT_EQ(Check(figure->claims[1], *result).kind, Verdict::Kind::kHolds);
  EXPECT_EQ(Check(figure->claims[2], *result).kind, Verdict::Kind::kUntested);

  EXPECT_EQ(Cells(*LoadSweep(file, {}, /*quick=*/true))->size(), 2u);
  EXPECT_EQ(Cells(*LoadSweep(file, {{"case", "short"}}))->size(), 2u);
  // A key that is set on the command line is set in every case.
  EXPECT_EQ((*Cells(*LoadSweep(file, {{"privacy.epsilon", "7"}})))[0].config.privacy.epsilon, 7);
  const auto none = LoadSweep(file, {{"case", "tiny"}});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("tiny"), std::string::npos);
}

TEST_F(SweepTest, ACaseMayHaveFewerSeeds) {
  const std::string text = R"(
[sweep]
seeds = 3
grid = { algorithm.gamma = [0.125, 0.25] }
[[sweep.case]]
name = "cheap"
[[sweep.case]]
name = "costly"
seeds = 1
algorithm.rounds = 30
)";
  const auto sweep = Load(text);
  ASSERT_TRUE(sweep.ok()) << sweep.error().message;
  EXPECT_EQ(Cells(*sweep)->size(), 8u);
  const auto result = RunSweep(*sweep, Fake());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(calls_, 8u);
  ASSERT_EQ(result->points.size(), 4u);
  EXPECT_EQ(result->points[1].seeds, 3u);
  EXPECT_EQ(result->points[2].seeds, 1u);
  EXPECT_EQ(result->points[3].seeds, 1u);
  EXPECT_DOUBLE_EQ(result->points[3].metrics.at("optimality").mean, 30 * sweep->base.privacy.epsilon + 0.05);

  const auto none = Load("[[sweep.case]]\nname = \"a\"\nseeds = 0\n");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("at least 1"), std::string::npos);
}

TEST_F(SweepTest, AClaimThatSaysNothingIsRefused) {
  const char* kBad[] = {
      "[[claim]]\ntext = \"x\"",
      "[[claim]]\ntext = \"x\"\ncheck = { kind = \"under\", metric = \"loss\", limit = 1 }",
      "[[claim]]\ntext = \"x\"\ncheck = { kind = \"below\", metric = \"loss\" }",
      "[[claim]]\ntext = \"x\"\ncheck = { kind = \"ratio_at_most\", metric = \"loss\", limit = 1 }",
      "[[claim]]\ntext = \"x\"\ncheck = { kind = \"grows_like\", metric = \"loss\" }",
      "[[claim]]\ntext = \"x\"\ncheck = { kind = \"below\", metric = \"loss\", limit = 1, at = { a.b = 1 } }",
      "[[claim]]\ntext = \"x\"\ncheck = { kind = \"below\", metric = \"loss\", limits = 1 }",
      "claim = 3",
  };
  for (const char* text : kBad) {
    const auto figure = LoadFigure(Write(text), "x");
    ASSERT_FALSE(figure.ok()) << text;
    EXPECT_EQ(figure.error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tacit
