// A search and its bill: all candidates together keep the promise, the choice is by public data, and what is
// stated of it is checked by other code.
#include "experiment/tune.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "experiment/files.h"
#include "experiment/verify.h"
#include "privacy/data_ledger.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class TuneTest : public testing::Test {
 protected:
  void SetUp() override {
    home_ = fs::temp_directory_path() / fmt::format("tacit_tune_{}", ::getpid());
    fs::remove_all(home_);
    fs::create_directories(home_);
  }
  void TearDown() override { fs::remove_all(home_); }

  Sweep Make(const std::string& grid = "algorithm.local_rate = [0.01, 0.5, 1.0]\nprivacy.clip = [0.2, 1.0]",
             std::vector<Assignment> sets = {}) const {
    const fs::path file = home_ / "search.toml";
    EXPECT_TRUE(WriteWhole(file, fmt::format(R"(
[data]
source = "synthetic-logistic"
test = "synthetic-logistic"
rows = 400
features = 6
clients = 20
density = 1.0
[privacy]
epsilon = 3
delta = 1e-4
unit = "client"
trust = "central"
noise = "replayable"
[algorithm]
name = "dp-fedavg"
rounds = 5
local_steps = 4
[experiment]
output = "{}"
[sweep.grid]
{}
)",
                                             (home_ / "runs").string(), grid))
                    .ok());
    auto s = LoadSweep(file, sets);
    EXPECT_TRUE(s.ok()) << s.error().message;
    return *s;
  }
  std::string Why(const Sweep& s, const char* metric = "loss") const {
    const auto r = Tune(s, metric);
    return r.ok() ? "" : r.error().message;
  }
  fs::path home_;
};

TEST_F(TuneTest, AllCandidatesTogetherKeepThePromiseAndTheBestIsChosen) {
  const auto r = Tune(Make(), "loss");
  ASSERT_TRUE(r.ok()) << r.error().message;
  ASSERT_EQ(r->candidates.size(), 6u);
  double squared = 0;
  for (const Candidate& c : r->candidates) {
    squared += c.mu * c.mu;
    EXPECT_GE(c.score, r->candidates[r->chosen].score);
    EXPECT_LT(c.epsilon, 3 / std::sqrt(6.0) * 1.2);
    const auto v = VerifyFolder(c.folder);
    ASSERT_TRUE(v.ok()) << v.error().message;
    for (const Finding& f : v->findings) ADD_FAILURE() << f.sentence;
  }
  EXPECT_LE(r->epsilon, 3);
  EXPECT_GT(r->epsilon, 3 * (1 - 1e-4));
  EXPECT_NEAR(r->mu, std::sqrt(squared), 1e-12);
  // Everything is on the data set's bill.
  const auto ledger = DataLedger::Read(home_ / "runs" / "ledger.db");
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(ledger->front().runs.size(), 6u);
}

TEST_F(TuneTest, WhatIsStatedOfASearchIsChecked) {
  const auto r = Tune(Make("privacy.clip = [0.2, 1.0]"), "accuracy");
  ASSERT_TRUE(r.ok()) << r.error().message;
  const fs::path folder = r->candidates[r->chosen].folder, file = folder / "search.json";
  const auto bytes = ReadWhole(file, "the search");
  ASSERT_TRUE(bytes.ok());
  const json honest = json::parse(*bytes);
  const auto found = [&](auto forge) {
    json forged = honest;
    forge(forged);
    EXPECT_TRUE(WriteWhole(file, forged.dump()).ok());
    const auto v = VerifyFolder(folder);
    return !v.ok() || !v->findings.empty();
  };
  EXPECT_FALSE(found([](json&) {}));
  EXPECT_TRUE(found([](json& s) { s["candidates"].erase(0); }));
  EXPECT_TRUE(found([](json& s) { s["privacy"]["certified_epsilon"] = 1.0; }));
  EXPECT_TRUE(found([](json& s) { s["privacy"]["mu"] = 0.1; }));
  EXPECT_TRUE(found([](json& s) { s["privacy"]["delta"] = 1e-3; }));
  EXPECT_TRUE(found([](json& s) { s["candidates"][0]["mu"] = 0.0; }));
  EXPECT_TRUE(found([](json& s) { s["chosen"] = "another"; }));
  EXPECT_TRUE(found([](json& s) { s = json::array(); }));
  EXPECT_TRUE(found([](json& s) { s.erase("privacy"); }));
  EXPECT_TRUE(found([](json& s) { s["privacy"]["asked_epsilon"] = 0.5; }));
  // Another run that cost less than it did, and all that follows from it.
  const std::size_t other = 1 - r->chosen;
  const auto cheaper = [&](json& s) {
    const double mu = r->candidates[other].mu / 2, own = r->candidates[r->chosen].mu;
    const Mu all = Root(Squared(Mu::Proven(mu)) + Squared(Mu::Proven(own)));
    s["candidates"][other]["mu"] = mu;
    s["privacy"]["mu"] = all.value();
    s["privacy"]["certified_epsilon"] = GdpEpsilon(all, Delta::Proven(r->delta)).upper;
  };
  EXPECT_TRUE(found(cheaper));
  EXPECT_TRUE(found([&](json& s) { s["candidates"][other]["certificate_sha256"] = "00"; }));
  EXPECT_TRUE(found([&](json& s) { s["candidates"][other]["run"] = "../" + r->candidates[other].run; }));
  EXPECT_TRUE(found([&](json& s) { s["candidates"][other] = s["candidates"][r->chosen]; }));
  // Where its folder is not there, nobody can tell, and that is said.
  EXPECT_FALSE(found([](json&) {}));
  EXPECT_EQ(VerifyFolder(folder)->compared[5], "search.json");
  fs::remove_all(r->candidates[other].folder);
  EXPECT_FALSE(found(cheaper));
  EXPECT_NE(VerifyFolder(folder)->compared[5].find("unchecked: 1 of its other runs"), std::string::npos);
}

TEST_F(TuneTest, WhatTheBillWouldNotCoverIsRefused) {
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(Why(Make("privacy.epsilon = [1, 2]")), "changes the data or what is promised");
  has(Why(Make("data.clients = [10, 20]")), "changes the data or what is promised");
  has(Why(Make("algorithm.mode = [\"certified\", \"paper\"]")), "changes the data or what is promised");
  has(Why(Make("privacy.clip = [1, 2]\n[[sweep.case]]\nname = \"a\"\nprivacy.delta = 1e-3\n"
               "[[sweep.case]]\nname = \"b\"\nprivacy.delta = 1e-2")),
      "privacy.delta changes");
  has(Why(Make("privacy.clip = [1, 2]", {{"data.test", ""}})), "data.test is not set");
  has(Why(Make("privacy.clip = [1, 2]", {{"privacy.mechanism", "expose"}})), "with noise");
  has(Why(Make("privacy.clip = [1, 2]", {{"experiment.oracle", "true"}})), "must not guide");
  has(Why(Make("privacy.clip = [1, 2]"), "speed"), "must be loss or accuracy");
  // A candidate that cannot run is found before another has cost anything.
  has(Why(Make("algorithm.name = [\"dp-fedavg\", \"isrl-dp\"]")), "protects one record");
  EXPECT_FALSE(fs::exists(home_ / "runs" / "ledger.db"));
}

}  // namespace
}  // namespace tacit
