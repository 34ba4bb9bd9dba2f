#include "view/runs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "view/run_file.h"
#include "view/settings.h"
#include "view/text.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

class RunsTest : public testing::Test {
 protected:
  void SetUp() override {
    home_ = fs::temp_directory_path() / fmt::format("tacit_runs_{}", ::getpid());
    fs::remove_all(home_);
    fs::create_directories(home_);
  }
  void TearDown() override { fs::remove_all(home_); }
  fs::path Write(const std::string& run, const std::string& file, const std::string& text) {
    fs::create_directories(home_ / run);
    std::ofstream(home_ / run / file, std::ios::binary) << text;
    return home_ / run;
  }
  fs::path Finished(const std::string& run, bool interrupted = false, const std::string& epsilon = "1.5") {
    Write(run, "result.json",
          fmt::format(R"({{"algorithm":"fedexp","mode":"paper","rounds":7,"rounds_planned":9,"interrupted":{},
            "bytes_up":10,"bytes_down":20,"seconds":0.5,"metrics":{{"loss":0.25,"accuracy":0.5}},
            "privacy":{{"unit":"client","delta":1e-6,"certified_epsilon":{},"claimed_epsilon":null}}}})",
                      interrupted, epsilon));
    return Write(run, "config.toml", kConfig);
  }
  static constexpr const char* kConfig =
      "[data]\nsource = \"a9a\"\n[privacy]\nepsilon = 2.0\ndelta = 1e-05\nunit = \"record\"\n"
      "[algorithm]\nname = \"primal-dual\"\nmode = \"certified\"\nrounds = 100\n[experiment]\nseed = 7\n";
  fs::path home_;
};

TEST_F(RunsTest, AFinishedRunIsWhatItsResultSays) {
  const auto s = SummaryOf(Finished("mine-20260102T030405"));
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->state, RunState::kFinished);
  EXPECT_EQ(s->algorithm, "fedexp");
  EXPECT_EQ(s->unit, "client");
  EXPECT_EQ(s->data, "a9a");
  EXPECT_EQ(s->rounds, 7u);
  EXPECT_EQ(s->planned, 9u);
  EXPECT_EQ(s->epsilon, 1.5);
  EXPECT_EQ(s->budget, 2.0);
  EXPECT_FALSE(s->claimed.has_value());
  EXPECT_EQ(s->metrics.at("accuracy"), 0.5);
  EXPECT_EQ(s->started, "2026-01-02T03:04:05Z");
  EXPECT_EQ(s->seed, 7u);
}

TEST_F(RunsTest, NoFigureIsMadeUpForAResultWithoutOne) {
  const auto inf = SummaryOf(Finished("a", false, "\"inf\""));
  ASSERT_TRUE(inf.ok());
  EXPECT_TRUE(std::isinf(inf->epsilon));
  EXPECT_EQ(ToJson(*inf)["epsilon"], "inf");
  const auto none = SummaryOf(Finished("b", false, "null"));
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(std::isinf(none->epsilon));
}

TEST_F(RunsTest, WithoutAResultTheTraceCountsAndTheLockDecides) {
  Write("live", "config.toml", kConfig);
  const fs::path folder =
      Write("live", "trace.jsonl",
            "{\"round\":1,\"epsilon\":0.5,\"bytes_up\":3,\"metrics\":{\"loss\":1}}\n"
            "{\"round\":2,\"epsilon\":0.7,\"bytes_up\":6,\"metrics\":{\"loss\":0.5}}\n{\"round\":3,");
  auto s = SummaryOf(folder);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->state, RunState::kStopped);
  EXPECT_EQ(s->rounds, 2u);
  EXPECT_EQ(s->planned, 100u);
  EXPECT_EQ(s->epsilon, 2.0) << "killed: what it may have spent is its budget";
  EXPECT_EQ(s->bytes_up, 6u);
  EXPECT_EQ(s->metrics.at("loss"), 0.5);
  EXPECT_FALSE(s->certified.has_value());
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  if (std::ifstream("/proc/locks").good()) {
    s = SummaryOf(folder);
    ASSERT_TRUE(s.ok());
    EXPECT_EQ(s->state, RunState::kRunning);
    EXPECT_EQ(s->epsilon, 0.7) << "up to the last traced round";
    Write("live", "trace.jsonl", "");
    EXPECT_TRUE(std::isnan(SummaryOf(folder)->epsilon));
    EXPECT_TRUE(ToJson(*SummaryOf(folder))["epsilon"].is_null());
  }
  ::close(fd);
}

TEST_F(RunsTest, ARunThatWasKilledAfterItWentOnIsNotItsOldResult) {
  const fs::path folder = Finished("a", true);         // stopped in order at round 7
  Write("a", "trace.jsonl", "{\"round\":9,\"epsilon\":1.8,\"metrics\":{\"loss\":0.125}}\n");
  const auto s = SummaryOf(folder);
  EXPECT_EQ(s->state, RunState::kStopped);
  EXPECT_EQ(s->rounds, 9u);
  EXPECT_EQ(s->metrics.at("loss"), 0.125);
  EXPECT_FALSE(s->metrics.contains("accuracy"));
  EXPECT_FALSE(s->certified.has_value());
  EXPECT_TRUE(std::isnan(s->epsilon)) << "paper mode: no budget holds";
}

TEST_F(RunsTest, WhatAnOracleReadIsMarked) {
  Write("a", "config.toml", std::string(kConfig) + "oracle = true\n");
  const fs::path folder =
      Write("a", "trace.jsonl", "{\"round\":1,\"metrics\":{\"loss\":1,\"train_loss\":2}}\n");
  auto s = SummaryOf(folder);
  EXPECT_TRUE(s->oracle.contains("train_loss"));
  EXPECT_TRUE(s->oracle.contains("loss")) << "there is no test set";
  EXPECT_EQ(MetricLabel("train_loss", {*s}), "train_loss (oracle)");
  EXPECT_EQ(MetricLabel("step_size", {*s}), "step_size");
  Write("a", "result.json",
        R"({"rounds":1,"interrupted":false,"privacy":{"certified_epsilon":1,"oracle":["optimality"]}})");
  s = SummaryOf(folder);
  EXPECT_EQ(s->oracle, std::set<std::string>{"optimality"});
  EXPECT_EQ(ToJson(*s)["oracle"], nlohmann::json({"optimality"}));
}

TEST_F(RunsTest, AnInterruptedRunIsStopped) {
  const auto s = SummaryOf(Finished("a", true));
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->state, RunState::kStopped);
  EXPECT_EQ(s->epsilon, 1.5);
}

TEST_F(RunsTest, AListHasTheNewestFirstAndBrokenRunsToo) {
  Finished("x-20260101T000000");
  Finished("a-20260301T000000-2");
  Write("b-20260201T000000", "config.toml", kConfig);
  Write("b-20260201T000000", "result.json", "{\"rounds\":");
  Write("c-20250101T000000", "result.json", "{}");
  fs::create_directories(home_ / "a sweep");
  std::ofstream(home_ / "ledger.db") << "no run";
  const auto runs = ListRuns({home_});
  ASSERT_TRUE(runs.ok());
  ASSERT_EQ(runs->size(), 4u);
  EXPECT_EQ((*runs)[0].name, "a-20260301T000000-2");
  EXPECT_EQ((*runs)[1].state, RunState::kBroken);
  EXPECT_FALSE((*runs)[1].problem.empty());
  EXPECT_EQ((*runs)[2].name, "x-20260101T000000");
  EXPECT_EQ((*runs)[3].state, RunState::kBroken);
  EXPECT_FALSE(ListRuns({home_ / "nowhere"}).ok());
  EXPECT_FALSE(SummaryOf(home_).ok());
  const auto one = ListRuns({home_ / "x-20260101T000000" / ""});
  ASSERT_TRUE(one.ok());
  ASSERT_EQ(one->size(), 1u);
  EXPECT_EQ((*one)[0].name, "x-20260101T000000");
}

TEST_F(RunsTest, WrongTypesAreNoFigures) {
  Write("w", "config.toml", kConfig);
  const auto s = SummaryOf(Write(
      "w", "result.json", R"({"algorithm":3,"rounds":-1,"metrics":[1],"privacy":"x","interrupted":"no"})"));
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->state, RunState::kStopped);
  EXPECT_EQ(s->algorithm, "primal-dual");
}

TEST_F(RunsTest, TagsAreKeptAndChecked) {
  const fs::path folder = Finished("a");
  ASSERT_TRUE(ChangeTags(folder, {"paper", "best", "paper"}, {}).ok());
  EXPECT_EQ(SummaryOf(folder)->tags, (std::vector<std::string>{"best", "paper"}));
  EXPECT_EQ(*ChangeTags(folder, {"new"}, {"best", "none"}), (std::vector<std::string>{"new", "paper"}));
  EXPECT_FALSE(ChangeTags(folder, {"two words"}, {}).ok());
  EXPECT_FALSE(ChangeTags(folder, {""}, {}).ok());
  EXPECT_FALSE(ChangeTags(folder, {}, {"two words"}).ok());
  std::ofstream(folder / "tags") << "good\n\033[2J\n<script>\n";
  EXPECT_EQ(SummaryOf(folder)->tags, std::vector<std::string>{"good"});
}

TEST_F(RunsTest, NoTagIsLostWhenManyAreGivenAtOnce) {
  const fs::path folder = Finished("a");
  std::vector<pid_t> children;
  for (int k = 0; k < 20; ++k) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(ChangeTags(folder, {fmt::format("t{}", k)}, {}).ok() ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(SummaryOf(folder)->tags.size(), 20u);
}

TEST_F(RunsTest, TagsAreBoundedAndNothingElseIsOverwritten) {
  const fs::path folder = Finished("a");
  std::ofstream(home_ / "mine") << "mine";
  fs::create_symlink(home_ / "mine", folder / "tags.draft");
  ASSERT_TRUE(ChangeTags(folder, {"good"}, {}).ok());
  std::string kept;
  std::ifstream(home_ / "mine") >> kept;
  EXPECT_EQ(kept, "mine");
  EXPECT_EQ(SummaryOf(folder)->tags, std::vector<std::string>{"good"});
  std::vector<std::string> many;
  for (int k = 0; k < 1000; ++k) many.push_back(fmt::format("t{}", k));
  EXPECT_FALSE(ChangeTags(folder, many, {}).ok());
  Write("a", "tags", std::string(70000, 'x'));
  EXPECT_TRUE(SummaryOf(folder)->tags.empty());
  EXPECT_FALSE(ChangeTags(folder, {"good"}, {}).ok());  // not thrown away unseen
}

// What a stranger may leave in a folder of runs: none of it is read, and none of it holds a reader up.
TEST_F(RunsTest, LinksPipesAndDevicesAreNoFilesOfARun) {
  Write("secret", "config.toml", kConfig);
  std::ofstream(home_ / "secret" / "tags") << "secret\n";
  const auto make = [](const fs::path& file, const std::string& kind, const fs::path& target) {
    fs::remove(file);
    if (kind == "link") fs::create_symlink(target, file);
    if (kind == "pipe") {
      ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    }
    if (kind == "folder") fs::create_directories(file);
    if (kind == "zeros") fs::create_symlink("/dev/zero", file);
  };
  for (const char* kind : {"link", "pipe", "folder", "zeros"}) {
    for (const char* name : {"tags", "result.json", "trace.jsonl", "config.toml"}) {
      const std::string run = fmt::format("{}-{}", kind, name);
      const fs::path folder = Write(run, "config.toml", kConfig);
      if (std::string_view(name) == "config.toml") Write(run, "result.json", "{}");
      make(folder / name, kind, home_ / "secret" / name);
      const auto s = SummaryOf(folder);
      ASSERT_TRUE(s.ok()) << run;
      EXPECT_TRUE(s->tags.empty()) << run;
      EXPECT_EQ(s->state, std::string_view(name) == "tags" ? RunState::kStopped : RunState::kBroken) << run;
      EXPECT_FALSE(ReadRunFile(folder, name, 1000).ok()) << run;
      if (std::string_view(name) == "tags") {
        EXPECT_FALSE(ChangeTags(folder, {"t"}, {}).ok()) << run;
      }
    }
  }
  const auto all = ListRuns({home_});
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->size(), 17u);
}

TEST_F(RunsTest, ALinkToAFolderIsNoRunUnlessItIsNamed) {
  const fs::path folder = Finished("elsewhere/mine");
  fs::create_directories(home_ / "runs");
  fs::create_directory_symlink(folder, home_ / "runs" / "link");
  EXPECT_TRUE(ListRuns({home_ / "runs"})->empty());
  EXPECT_FALSE(ReadRunFile(home_ / "runs" / "link", "config.toml", 10000).ok());
  EXPECT_FALSE(ReadRunFile(home_ / "runs" / "link" / "", "config.toml", 10000).ok());
  const auto named = SummaryOf(home_ / "runs" / "link");
  ASSERT_TRUE(named.ok()) << named.error().message;
  EXPECT_EQ(named->name, "mine");
  EXPECT_EQ(ListRuns({home_ / "runs" / "link" / ""})->size(), 1u);
  ASSERT_TRUE(ChangeTags(home_ / "runs" / "link", {"t"}, {}).ok());
  EXPECT_EQ(SummaryOf(folder)->tags.size(), 1u);
}

TEST_F(RunsTest, AFileIsReadUpToItsLimit) {
  const fs::path folder = Write("a", "x", std::string(100000, 'y'));
  EXPECT_EQ(ReadRunFile(folder, "x", 100000)->size(), 100000u);
  EXPECT_EQ(ReadRunFile(folder, "x", 99999).error().code, Code::kMalformed);
  EXPECT_EQ(ReadRunFile(folder, "y", 9).error().code, Code::kNotFound);
  Write("a", "x", "");
  EXPECT_EQ(*ReadRunFile(folder, "x", 0), "");
}

TEST(Settings, AreFlatAndCompared) {
  const Settings a = ParseSettings("# c\n[a]\nx = 1\ny = \"q\\\"r\"\n[experiment]\nseed = 1\n");
  const Settings b =
      ParseSettings("[a]\r\nx = 2\r\ny = \"q\\\"r\"\n[experiment]\nseed = 2\n[runtime]\nthreads = 4\n");
  EXPECT_EQ(PlainValue(a, "a.y"), "q\"r");
  EXPECT_EQ(PlainValue(a, "a.none"), "");
  EXPECT_EQ(DifferingKeys({a, b}), std::vector<std::string>{"a.x"});
  EXPECT_FALSE(SameButSeed(a, b));
  EXPECT_TRUE(SameButSeed(a, a));
  EXPECT_TRUE(ParseSettings("nonsense\n[\n]\n=\n").size() <= 1);
}

TEST(Text, IsHarmlessWhereItStands) {
  EXPECT_EQ(Printable("a\033[2Jb\n\xff\xc2\x9b"
                      "é"),
            "a?[2Jb????é");
  EXPECT_EQ(Printable("\xe2\x80\xae"
                      "x"),
            "???x");      // right-to-left override
  EXPECT_EQ(HtmlEscaped("<script>\"&'"), "&lt;script&gt;&quot;&amp;&#39;");
  EXPECT_EQ(TexEscaped("a_b\\input{x}"), "a\\_b\\textbackslash{}input\\{x\\}");
  EXPECT_EQ(MarkdownEscaped("a|<b>`"), "a\\|&lt;b>\\`");
  EXPECT_EQ(CsvEscaped("a,\"b\""), "\"a,\"\"b\"\"\"");
}

}  // namespace
}  // namespace tacit
