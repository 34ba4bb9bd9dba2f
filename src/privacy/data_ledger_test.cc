#include "privacy/data_ledger.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "privacy/gdp.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

class DataLedgerTest : public testing::Test {
 protected:
  void SetUp() override {
    home_ = fs::temp_directory_path() / fmt::format("tacit_data_ledger_{}", ::getpid());
    fs::remove_all(home_);
    file_ = home_ / "below" / "ledger.db";
  }
  void TearDown() override { fs::remove_all(home_); }
  Result<std::unique_ptr<DataLedger>> Open(const char* run, double planned, DataSetId id = {"heart", ""},
                                           Adjacency a = Adjacency::kReplaceOne) {
    return DataLedger::Open(
        file_, id, {.run = run, .unit = "record", .mode = "certified", .adjacency = a, .delta = 1e-5},
        MuSquared::Proven(planned));
  }
  // A whole run that costs so much.
  void Spend(const char* run, double mu_squared, DataSetId id = {"heart", ""},
             Adjacency a = Adjacency::kReplaceOne) {
    auto ledger = Open(run, mu_squared, std::move(id), a);
    ASSERT_TRUE(ledger.ok()) << ledger.error().message;
    ASSERT_TRUE((*ledger)->Reserve(MuSquared::Proven(mu_squared)).ok());
    ASSERT_TRUE((*ledger)->Settle(MuSquared::Proven(mu_squared)).ok());
  }
  std::vector<DataSetRecord> Read() {
    auto all = DataLedger::Read(file_);
    EXPECT_TRUE(all.ok()) << all.error().message;
    return all.ok() ? *std::move(all) : std::vector<DataSetRecord>{};
  }
  fs::path home_, file_;
};

TEST_F(DataLedgerTest, TrainingTwiceAddsUp) {
  Spend("a", 0.25);
  Spend("b", 0.5);
  Spend("c", 1.0, {"other", ""});
  const auto sets = Read();
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].id.name, "heart");
  ASSERT_EQ(sets[0].runs.size(), 2u);
  EXPECT_EQ(sets[0].runs[1].state, "settled");
  ASSERT_EQ(Totals(sets[0]).size(), 1u);
  EXPECT_EQ(Totals(sets[0])[0].mu_squared, 0.75);
  EXPECT_EQ(Totals(sets[0])[0].runs, 2u);
  EXPECT_EQ(Totals(sets[1])[0].mu_squared, 1.0);
}

TEST_F(DataLedgerTest, AReservationIsDurableAndNeverFallsUntilItIsSettled) {
  {
    auto ledger = Open("a", 1.0);
    ASSERT_TRUE(ledger.ok());
    ASSERT_TRUE((*ledger)->Reserve(MuSquared{0.5}).ok());
    ASSERT_TRUE((*ledger)->Reserve(MuSquared{0.25}).ok());
    EXPECT_EQ(Read()[0].runs[0].mu_squared, 0.5);
    EXPECT_EQ(Read()[0].runs[0].state, "open");
  }
  auto again = Open("a", 1.0);      // the process died; the same run goes on
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(Read()[0].runs[0].mu_squared, 0.5);
  ASSERT_TRUE((*again)->Settle(MuSquared{0.375}).ok());
  EXPECT_EQ(Read()[0].runs[0].mu_squared, 0.375);
  EXPECT_EQ(Read()[0].runs.size(), 1u);
}

TEST_F(DataLedgerTest, ACopyUnderAnotherNameIsTheSameData) {
  Spend("a", 0.25, {"heart.csv", "abc"});
  Spend("b", 0.25, {"copy.csv", "abc"});
  Spend("c", 0.25, {"heart.csv", "def"});      // the file got another row: still that data set
  Spend("d", 0.25, {"third.csv", "def"});
  const auto sets = Read();
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_EQ(sets[0].runs.size(), 4u);
}

// To charge other rows to the data it began with would leave these without a charge.
TEST_F(DataLedgerTest, ARunGoesOnWithTheDataItBeganWith) {
  const auto refused = [&](const char* run, DataSetId id) {
    const auto again = Open(run, 1.0, std::move(id));
    ASSERT_FALSE(again.ok());
    EXPECT_EQ(again.error().code, Code::kInvalidArgument);
    EXPECT_NE(again.error().message.find("began with other data"), std::string::npos)
        << again.error().message;
    EXPECT_EQ(again.error().message.find("def"), std::string::npos) << "a digest is never shown";
  };
  ASSERT_TRUE(Open("a", 1.0, {"heart.csv", "abc"}).ok());
  EXPECT_TRUE(Open("a", 1.0, {"heart.csv", "abc"}).ok());
  EXPECT_TRUE(Open("a", 1.0, {"moved.csv", "abc"}).ok()) << "the same rows by another name";
  refused("a", {"heart.csv", "def"});      // the file was replaced
  Spend("b", 0.25, {"lung.csv", "def"});
  refused("a", {"heart.csv", "def"});      // by another data set that is known
  Spend("c", 0.25, {"heart.csv", "ghi"});      // a new run on the file that was replaced
  refused("a", {"heart.csv", "ghi"});
  EXPECT_EQ(Read().size(), 2u) << "to be refused adds nothing";
  ASSERT_TRUE(Open("d", 1.0, {"synthetic", ""}).ok());
  EXPECT_TRUE(Open("d", 1.0, {"synthetic", ""}).ok());

  // Files of earlier versions know the digests of data sets only.
  SQLite::Database(file_.string(), SQLite::OPEN_READWRITE).exec("DROP TABLE run_digests");
  EXPECT_TRUE(Open("a", 1.0, {"heart.csv", "abc"}).ok());
  refused("a", {"heart.csv", "jkl"});
  refused("a", {"heart.csv", "def"});
}

// Two processes with the same run, as after a fork: neither takes back what the other has made durable.
TEST_F(DataLedgerTest, WhatAnotherProcessReservedNeverFalls) {
  auto first = Open("a", 1.0), second = Open("a", 1.0);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE((*first)->Reserve(MuSquared{0.5}).ok());
  ASSERT_TRUE((*second)->Reserve(MuSquared{0.25}).ok());
  EXPECT_EQ(Read()[0].runs[0].mu_squared, 0.5);
  ASSERT_TRUE((*second)->Settle(MuSquared{0.125}).ok());
  EXPECT_EQ(Read()[0].runs[0].mu_squared, 0.5);
  ASSERT_TRUE((*first)->Settle(MuSquared{0.375}).ok());
  EXPECT_EQ(Read()[0].runs[0].mu_squared, 0.375) << "its own reservation does";
}

TEST_F(DataLedgerTest, TheLimitIsKeptBeforeAndDuringARun) {
  const Delta delta = Delta::Proven(1e-5);
  const double mu2 = std::pow(GdpMu(Epsilon::Proven(1.0), delta).value(), 2);
  ASSERT_TRUE(DataLedger::SetLimit(file_, "heart", Epsilon::Proven(1.0), delta).ok());
  Spend("a", 0.6 * mu2);
  const auto refused = Open("b", 0.6 * mu2);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kBudget);
  EXPECT_NE(refused.error().message.find("past its limit of 1"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(Read()[0].runs.size(), 1u) << "a refused run leaves nothing";

  auto b = Open("b", 0.3 * mu2), c = Open("c", 0.3 * mu2);      // both fit alone
  ASSERT_TRUE(b.ok() && c.ok());
  EXPECT_TRUE((*b)->Reserve(MuSquared::Proven(0.3 * mu2)).ok());
  EXPECT_FALSE((*c)->Reserve(MuSquared::Proven(0.3 * mu2)).ok());
  EXPECT_TRUE((*c)->Reserve(MuSquared::Proven(0.05 * mu2)).ok());
  ASSERT_TRUE(DataLedger::SetLimit(file_, "heart", std::nullopt, delta).ok());
  EXPECT_TRUE((*c)->Reserve(MuSquared::Proven(0.3 * mu2)).ok());
  EXPECT_FALSE(Read()[0].limit_epsilon.has_value());
}

TEST_F(DataLedgerTest, ALimitThatIsHeldToOnlyFalls) {
  const Delta delta = Delta::Proven(1e-5);
  const auto hold = [&](double epsilon) {
    return DataLedger::HoldTo(file_, {"moved.csv", "abc"}, Epsilon::Proven(epsilon), delta).ok();
  };
  Spend("a", 0.01, {"heart.csv", "abc"});
  ASSERT_TRUE(hold(2.0));
  ASSERT_EQ(Read().size(), 1u) << "known by its digest";
  EXPECT_EQ(Read()[0].limit_epsilon, 2.0);
  ASSERT_TRUE(hold(3.0));
  EXPECT_EQ(Read()[0].limit_epsilon, 2.0);
  ASSERT_TRUE(hold(1.0));
  EXPECT_EQ(Read()[0].limit_epsilon, 1.0);
  // The same ε at a smaller δ allows less.
  ASSERT_TRUE(DataLedger::SetLimit(file_, "heart.csv", Epsilon::Proven(1.0), Delta::Proven(1e-9)).ok());
  ASSERT_TRUE(hold(1.0));
  EXPECT_EQ(Read()[0].limit_delta, 1e-9);
  EXPECT_FALSE(Open("b", 1.0, {"heart.csv", "abc"}).ok());
}

TEST_F(DataLedgerTest, AdjacenciesAreNeverAdded) {
  Spend("a", 0.25);
  Spend("b", 0.25, {"heart", ""}, Adjacency::kAddOrRemove);
  const auto totals = Totals(Read()[0]);
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].mu_squared, 0.25);
  ASSERT_TRUE(DataLedger::SetLimit(file_, "heart", Epsilon::Proven(10.0), Delta::Proven(1e-5)).ok());
  const auto mixed = Open("c", 0.1);
  ASSERT_FALSE(mixed.ok());
  EXPECT_NE(mixed.error().message.find("cannot be added"), std::string::npos);
  const auto same_run = Open("a", 0.1, {"heart", ""}, Adjacency::kAddOrRemove);
  ASSERT_FALSE(same_run.ok());
  EXPECT_NE(same_run.error().message.find("keeps both"), std::string::npos);
}

TEST_F(DataLedgerTest, ARunThatIsNotPrivateCountsAsInfinite) {
  Spend("a", kInf);
  Spend("b", 0.5);
  EXPECT_EQ(Totals(Read()[0])[0].mu_squared, kInf);
  ASSERT_TRUE(DataLedger::SetLimit(file_, "heart", Epsilon::Proven(100.0), Delta::Proven(1e-5)).ok());
  EXPECT_FALSE(Open("c", 0.1).ok());
}

TEST_F(DataLedgerTest, AFileThatIsNoneIsNamed) {
  const auto missing = DataLedger::Read(file_);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  fs::create_directories(file_.parent_path());
  std::ofstream(file_) << "not a database, but long enough to look at: " << std::string(500, 'x');
  EXPECT_EQ(DataLedger::Read(file_).error().code, Code::kMalformed);
  EXPECT_EQ(Open("a", 0.1).error().code, Code::kMalformed);
}

TEST_F(DataLedgerTest, PlansAreAddedOnTopByEpsilonAndDeltaAsAWhole) {
  const auto plan = [&](const char* run, double epsilon, double delta = 1e-6) {
    return DataLedger::Open(file_, {"heart", ""},
                            {.run = run,
                             .unit = "record",
                             .mode = "certified",
                             .adjacency = Adjacency::kReplaceOne,
                             .delta = delta,
                             .plan_epsilon = epsilon},
                            MuSquared{0.0});
  };
  Spend("a", 0.25);
  {
    ASSERT_TRUE(plan("b", 1.5).ok());
  }      // killed at once: it counts as a whole
  {
    auto c = plan("c", 0.5, 1e-7);
    ASSERT_TRUE(c.ok()) << c.error().message;
    ASSERT_TRUE((*c)->Reserve(MuSquared{3.0}).ok());
    ASSERT_TRUE((*c)->Settle(MuSquared{0.0}).ok());
  }
  const auto total = Totals(Read()[0])[0];
  EXPECT_EQ(total.runs, 3u);
  EXPECT_EQ(total.plans, 2u);
  EXPECT_EQ(total.mu_squared, 0.25);
  EXPECT_EQ(total.delta, 1e-5);
  EXPECT_NEAR(total.plan_epsilon, 2.0, 1e-12);
  EXPECT_NEAR(total.plan_delta, 1.1e-6, 1e-18);
  EXPECT_NEAR(total.EpsilonAt(1e-5), GdpEpsilon(Mu{0.5}, Delta{1e-5}).upper + 2.0, 1e-12);
  EXPECT_TRUE(std::isinf(Read()[0].runs[1].mu_squared)) << "programs that know no plans must not see nothing";
  EXPECT_TRUE(plan("b", 1.5).ok()) << "goes on";
  EXPECT_FALSE(plan("b", 1.0).ok()) << "another plan";
  EXPECT_FALSE(Open("b", 0.1).ok()) << "no plan";

  ASSERT_TRUE(DataLedger::SetLimit(file_, "heart", Epsilon{10.0}, Delta{1e-5}).ok());
  EXPECT_FALSE(plan("d", 0.1).ok()) << "a limit leaves nothing to plans unless it says so";
  EXPECT_TRUE(Open("e", 0.1).ok()) << "and plans take nothing from the others";
  ASSERT_TRUE(DataLedger::SetLimit(file_, "heart", Epsilon{10.0}, Delta{1e-5},
                                   DataLedger::PlanLimit{Epsilon{3.0}, Delta{1e-5}})
                  .ok());
  EXPECT_FALSE(plan("d", 1.1).ok());
  EXPECT_FALSE(plan("d", 0.1, 9.9e-6).ok()) << "the deltas add up too";
  EXPECT_TRUE(plan("d", 0.9).ok());
}

TEST_F(DataLedgerTest, TheRunsVaultStaysBehindTheCumulativeOne) {
  struct Inner final : Vault {
    Status Reserve(std::uint32_t, std::span<const MuSquared> up_to) override {
      last = up_to.back();
      return Ok{};
    }
    std::vector<MuSquared> reserved() const override { return {last}; }
    MuSquared last{0.0};
  } inner;
  auto data = Open("a", 1.0);
  ASSERT_TRUE(data.ok());
  CumulativeVault vault(inner, **data);
  const std::vector<MuSquared> up_to = {MuSquared{0.5}, MuSquared{0.25}};
  ASSERT_TRUE(vault.Reserve(0, up_to).ok());
  EXPECT_EQ(Read()[0].runs[0].mu_squared, 0.5) << "the largest account";
  EXPECT_EQ(inner.last.value(), 0.25);
}

}  // namespace
}  // namespace tacit
