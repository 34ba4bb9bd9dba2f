#pragma once

// For tests: short runs in a folder of their own that is gone at the end.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "experiment/run.h"
#include "experiment/verify.h"

namespace tacit {

inline std::string Findings(const Result<Verification>& v) {
  if (!v.ok()) return "error: " + v.error().message;
  std::string all;
  for (const Finding& f : v->findings) all += f.sentence + "\n";
  return all;
}

class TestRuns : public testing::Test {
 protected:
  using Sets = std::vector<Assignment>;
  // text: a config without [experiment]; base: set in all of them, before what a test sets.
  explicit TestRuns(std::string text, Sets base = {}) : text_(std::move(text)), base_(std::move(base)) {}

  void SetUp() override {
    home_ = std::filesystem::temp_directory_path() / fmt::format("tacit_test_runs_{}", ::getpid());
    std::filesystem::remove_all(home_);
    std::filesystem::create_directories(home_);
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  Result<Config> Parse(const Sets& sets, const char* where = "runs") const {
    Sets all = base_;
    all.insert(all.end(), sets.begin(), sets.end());
    return ParseConfig(
        fmt::format("{}\n[experiment]\noutput = \"{}\"\nname = \"run\"\n", text_, (home_ / where).string()),
        "run.toml", all);
  }
  Config Make(const Sets& sets, const char* where = "runs") const {
    auto c = Parse(sets, where);
    EXPECT_TRUE(c.ok()) << c.error().message;
    return c.ok() ? *c : Config{};
  }
  Plan Planned(const Sets& sets) const {
    const Config c = Make(sets);
    const auto facts = FactsWithoutData(c);
    EXPECT_TRUE(facts.ok());
    auto p = MakePlan(c, *facts);
    EXPECT_TRUE(p.ok()) << p.error().message;
    return p.ok() ? *std::move(p) : Plan{};
  }
  static RunResult Good(const Config& c, const TrainHooks& hooks = {}) {
    auto r = Train(c, hooks);
    EXPECT_TRUE(r.ok()) << r.error().message;
    return r.ok() ? *std::move(r) : RunResult{};
  }
  // Why there is no such run; empty if there is.
  std::string Why(const Sets& sets) const {
    const auto c = Parse(sets);
    if (!c.ok()) return c.error().message;
    TrainHooks hooks;
    hooks.write_folder = false;
    const auto r = Train(*c, hooks);
    return r.ok() ? "" : r.error().message;
  }
  static void Holds(const std::filesystem::path& folder) {
    const auto checked = VerifyFolder(folder);
    ASSERT_TRUE(checked.ok()) << checked.error().message;
    for (const Finding& finding : checked->findings) ADD_FAILURE() << finding.sentence;
  }
  std::filesystem::path home_;

 private:
  std::string text_;
  Sets base_;
};

}  // namespace tacit
