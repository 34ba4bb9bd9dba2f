#include "experiment/program_session.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiment/test_runs.h"
#include "experiment/verify.h"
#include "privacy/data_ledger.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Sessions : public testing::Test {
 protected:
  Sessions() {
    std::string name = (fs::temp_directory_path() / "tacit-session-XXXXXX").string();
    home_ = mkdtemp(name.data());
    folder_ = home_ / "session-1";
    fs::create_directory(folder_);
  }
  ~Sessions() override { fs::remove_all(home_); }

  std::unique_ptr<ProgramSession> Open(double epsilon = 1, std::size_t rounds = 4,
                                       const std::string& mechanism = "lattice_gaussian") const {
    auto s = ProgramSession::Open({.records = {5, 3},
                                   .dim = 2,
                                   .clip = 0.5,
                                   .epsilon = epsilon,
                                   .delta = 1e-5,
                                   .rounds = rounds,
                                   .mechanism = mechanism,
                                   .folder = folder_.string(),
                                   .ledger = (home_ / "ledger.db").string(),
                                   .data = "rows"});
    EXPECT_TRUE(s.ok()) << s.error().message;
    return s.ok() ? *std::move(s) : nullptr;
  }
  static Status Ask(ProgramSession& s, std::uint32_t client, std::optional<double> sigma = {}) {
    const Vec gradients(6, 0.25);
    auto sum = s.Release(client, gradients, 3, sigma);
    if (!sum.ok()) return sum.error();
    EXPECT_EQ(sum->size(), 2u);
    return Ok{};
  }
  json Document() const {
    std::ifstream in(folder_ / "releases.json");
    return json::parse(in);
  }
  void Write(const json& j) const { std::ofstream(folder_ / "releases.json") << j.dump(2); }
  fs::path home_, folder_;
};

TEST_F(Sessions, WhatIsPromisedIsTheBudgetFromTheFirstReleaseOn) {
  const auto s = Open(1, 4);
  EXPECT_EQ(s->Epsilon(), 0.0);
  EXPECT_EQ(s->Used(), 0.0);
  for (int k = 1; k <= 4; ++k) {
    ASSERT_TRUE(Ask(*s, 0).ok());
    EXPECT_NEAR(s->Used(), k / 4.0, 1e-6);
    // Who stops when the outputs tell most would pass any ε of a part: there is none (docs/accounting.md).
    EXPECT_LE(s->Epsilon(), 1.0);
    EXPECT_GT(s->Epsilon(), 1 - 1e-9);
  }
  const Status refused = Ask(*s, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kBudget);
  EXPECT_TRUE(Ask(*s, 1).ok());  // another account
  const json c = s->Certificate();
  EXPECT_EQ(c["clients"][0]["releases"], 4);
  EXPECT_EQ(c["clients"][0]["count"], json({4}));
  EXPECT_EQ(c["clients"][1]["count"], json({1}));
}

TEST_F(Sessions, SumsAreClippedAndNoised) {
  const auto s = Open(1e5, 1);
  const Vec gradients = {30, 0, 0, 40, std::nan(""), 1};  // what is no number counts as 0; then 0.5 each
  const auto sum = s->Release(0, gradients, 3, std::nullopt);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  EXPECT_LT(s->sigma(), 0.01);
  EXPECT_NEAR((*sum)[0], 0.5, 8 * s->sigma());
  EXPECT_NEAR((*sum)[1], 1.0, 8 * s->sigma());
  EXPECT_NE((*sum)[0], 0.5);
}

TEST_F(Sessions, WhatIsWrongCostsNothing) {
  const auto s = Open();
  const Vec g(12, 0.0);
  EXPECT_EQ(s->Release(2, g, 6, {}).error().code, Code::kInvalidArgument);  // no such client
  EXPECT_EQ(s->Release(0, g, 6, {}).error().code, Code::kInvalidArgument);  // six rows of five records
  EXPECT_EQ(s->Release(0, View(g).first(9), 3, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(s->Release(0, View(g).first(6), 3, -1.0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(s->Release(0, View(g).first(6), 3, 0.01).error().code, Code::kBudget);
  EXPECT_EQ(s->Used(), 0.0);
  for (const auto& bad : std::vector<std::function<void(SessionOptions&)>>{
           [](auto& o) { o.epsilon = 0; }, [](auto& o) { o.epsilon = kInf; }, [](auto& o) { o.delta = 0; },
           [](auto& o) { o.delta = 1; }, [](auto& o) { o.clip = 0; }, [](auto& o) { o.clip = kInf; },
           [](auto& o) { o.rounds = 0; }, [](auto& o) { o.rounds = 10'000'001; }, [](auto& o) { o.dim = 0; },
           [](auto& o) { o.records = {}; }, [](auto& o) { o.mechanism = "expose"; },
           [](auto& o) { o.mechanism = "none"; }}) {
    SessionOptions o{.records = {3}};
    bad(o);
    const auto refused = ProgramSession::Open(o);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument) << refused.error().message;
  }
}

// Parent and child would add the same noise to different sums, and pay for one.
TEST_F(Sessions, AForkReleasesNothing) {
  auto s = Open();
  ASSERT_TRUE(Ask(*s, 0).ok());
  const auto durable = [&] { return DataLedger::Read(home_ / "ledger.db")->front().runs.front().mu_squared; };
  const double before = durable();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = Ask(*s, 0).error().code == Code::kUnsupported &&
                         Ask(*s, 1).error().code == Code::kUnsupported &&
                         s->Close().error().code == Code::kUnsupported;
    s.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(durable(), before);
  EXPECT_FALSE(fs::exists(folder_ / "releases.json"));
  EXPECT_TRUE(Ask(*s, 0).ok());
  EXPECT_GT(durable(), before);
  EXPECT_TRUE(s->Close().ok());
  EXPECT_TRUE(VerifyFolder(folder_)->holds());
}

TEST_F(Sessions, ACloseThatFailedCanBeDoneAgain) {
  const auto s = Open();
  ASSERT_TRUE(Ask(*s, 0).ok());
  fs::create_directories(folder_ / "releases.json" / "in the way");
  EXPECT_FALSE(s->Close().ok());
  EXPECT_FALSE(s->Close().ok()) << "it has not been written yet";
  EXPECT_EQ(Ask(*s, 0).error().code, Code::kBudget);
  fs::remove_all(folder_ / "releases.json");
  ASSERT_TRUE(s->Close().ok());
  EXPECT_TRUE(VerifyFolder(folder_)->holds());
}

TEST_F(Sessions, VerifyIfTheyAreAsTheyWere) {
  for (const char* mechanism : {"lattice_gaussian", "gaussian"}) {
    for (const int releases : {0, 1, 4}) {
      SCOPED_TRACE(fmt::format("{}, {}", mechanism, releases));
      folder_ = home_ / fmt::format("{}-{}", mechanism, releases);
      fs::create_directory(folder_);
      const auto s = Open(1, 9, mechanism);
      for (int k = 0; k < releases; ++k)  // of several sizes
        ASSERT_TRUE(Ask(*s, 0, k % 2 == 0 ? std::optional<double>() : s->sigma() * 1.25).ok());
      const auto early = VerifyFolder(folder_);
      ASSERT_FALSE(early.ok());
      EXPECT_EQ(early.error().code, Code::kNotFound);
      EXPECT_NE(early.error().message.find("without being closed"), std::string::npos);
      const auto open = Verify(s->Certificate(), "memory");
      ASSERT_TRUE(open.ok()) << open.error().message;
      EXPECT_TRUE(open->holds()) << Findings(open);
      ASSERT_TRUE(s->Close().ok());
      ASSERT_TRUE(s->Close().ok());  // once is enough
      EXPECT_EQ(Ask(*s, 0).error().code, Code::kBudget);
      const auto v = VerifyFolder(folder_);
      ASSERT_TRUE(v.ok()) << v.error().message;
      EXPECT_TRUE(v->holds()) << Findings(v);
      EXPECT_EQ(v->epsilon, s->Epsilon());
      EXPECT_EQ(v->rounds, static_cast<std::size_t>(releases));
      EXPECT_FALSE(v->session.empty());
      EXPECT_EQ(v->compared.size(), 2u);
      EXPECT_NE(SessionText(Document()).find("epsilon = "), std::string::npos);
    }
  }
}

TEST_F(Sessions, ManyReleasesOfManySizesVerify) {
  const auto s = Open(3, 500);
  for (std::uint32_t k = 0; k < 400; ++k) ASSERT_TRUE(Ask(*s, k % 2, s->sigma() * (1 + k % 7 * 0.1)).ok());
  ASSERT_TRUE(s->Close().ok());
  const auto v = VerifyFolder(folder_);
  ASSERT_TRUE(v.ok()) << v.error().message;
  EXPECT_TRUE(v->holds()) << Findings(v);
}

TEST_F(Sessions, AChangedFigureIsNamed) {
  {
    const auto s = Open(1, 4);
    for (int k = 0; k < 3; ++k) ASSERT_TRUE(Ask(*s, 0).ok());
    ASSERT_TRUE(Ask(*s, 1, s->sigma() * 2).ok());
    ASSERT_TRUE(s->Close().ok());
  }
  const json honest = Document();
  const double mu = honest["privacy"]["budget_mu"], used = honest["clients"][0]["mu_used"];
  const struct {
    const char* pointer;
    json value;
    const char* figure;
  } kCases[] = {
      {"/privacy/certified_epsilon", 0.5, "privacy.certified_epsilon"},
      {"/privacy/certified_epsilon", 0, "privacy.certified_epsilon"},
      {"/privacy/delta", 1e-9, "privacy.certified_epsilon"},
      {"/privacy/budget_mu", mu / 2, "privacy.certified_epsilon"},
      {"/privacy/budget_epsilon", 0.5, "privacy.budget_mu"},
      {"/enforced/clip", 0.1, "enforced.sensitivity"},
      {"/enforced/sensitivity", 0.1, "enforced.sensitivity"},
      {"/enforced/most_records", 4, "enforced.most_records"},
      {"/enforced/roundings", 0, "enforced.roundings"},
      {"/enforced/dimension", std::size_t{1} << 50, "clients[0].mu_used"},
      {"/clients/0/mu_used", used / 2, "clients[0].mu_used"},
      {"/clients/0/sigma/0", 1.0, "clients[0].mu_used"},
      {"/clients/0/count/0", 4, "clients[0].releases"},
      {"/clients/0/releases", 2, "clients[0].releases"},
      {"/data", "others", "data"},  // by the ledger
      {"/session", "another", "session"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.pointer);
    json changed = honest;
    changed[json::json_pointer(c.pointer)] = c.value;
    Write(changed);
    const auto v = VerifyFolder(folder_);
    ASSERT_TRUE(v.ok()) << v.error().message;
    bool named = false;
    for (const Finding& f : v->findings) named = named || f.figure == c.figure;
    EXPECT_TRUE(named) << Findings(v);
  }
  // Consistently: less noise was never there, more releases were. The ledger knows.
  json fewer = honest;
  fewer["clients"][1] = {
      {"records", 3}, {"releases", 0}, {"sigma", json::array()}, {"count", json::array()}, {"mu_used", 0}};
  EXPECT_TRUE(Verify(fewer, "alone")->holds());
  Write(fewer);
  EXPECT_FALSE(VerifyFolder(folder_)->holds());
}

TEST_F(Sessions, WhatCannotBeCheckedIsSaid) {
  const auto s = Open();
  ASSERT_TRUE(Ask(*s, 0).ok());
  ASSERT_TRUE(s->Close().ok());
  const json honest = Document();
  json old = honest;
  old["format"] = "tacit-releases-1";
  EXPECT_EQ(Verify(old, "old").error().code, Code::kUnsupported);
  old["format"] = "tacit-releases-9";
  EXPECT_EQ(Verify(old, "new").error().code, Code::kUnsupported);
  for (const char* pointer :
       {"/privacy/delta", "/clients", "/clients/0/sigma", "/enforced", "/mechanism/name"}) {
    SCOPED_TRACE(pointer);
    for (const json& wrong : {json(nullptr), json("x"), json(-1), json::array({-1.0}), json::object()}) {
      json changed = honest;
      changed[json::json_pointer(pointer)] = wrong;
      const auto v = Verify(changed, "releases.json");
      ASSERT_FALSE(v.ok()) << wrong;
      EXPECT_EQ(v.error().code, Code::kMalformed) << v.error().message;
      EXPECT_NE(v.error().message.find("closed session"), std::string::npos) << v.error().message;
    }
  }
  std::ofstream(folder_ / "releases.json") << "{}";
  EXPECT_EQ(VerifyFolder(folder_).error().code, Code::kMalformed);
  fs::remove(folder_ / "ledger.db");
  Write(honest);
  const auto v = VerifyFolder(folder_);
  ASSERT_TRUE(v.ok());
  ASSERT_FALSE(v->holds());
  EXPECT_EQ(v->findings[0].figure, "ledger.db");
}

}  // namespace
}  // namespace tacit
