#include "privacy/ledger.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

#include "core/rng.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

PrivacyEvent Gaussian(double mu) { return GaussianEvent{Mu::Proven(mu), L2Bound{1.0}, NoiseStd{1.0}}; }
MuSquared Limit(double v) { return MuSquared::Proven(v); }

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "tacit-ledger-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

SqliteVault::RunInfo Info(const char* run = "r", Adjacency a = Adjacency::kReplaceOne) {
  return {.run = run, .data = "d", .unit = "record", .mode = "certified", .adjacency = a, .delta = 1e-5};
}

// A run may have a million accounts: 56 bytes each in the book, and in the file one row per run of equal ones
// (the test of the vault).
static_assert(sizeof(Ledger) <= 56);

TEST(Ledger, ARefusedChargeChangesNothing) {
  Ledger ledger(Limit(1.0), Adjacency::kReplaceOne);
  ASSERT_TRUE(ledger.Charge(Gaussian(0.8)).ok());
  const MuSquared spent = ledger.spent();
  const Status refused = ledger.Charge(Gaussian(0.7));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kBudget);
  EXPECT_NE(refused.error().message.find("raise privacy.epsilon"), std::string::npos);
  EXPECT_EQ(ledger.spent(), spent);
  EXPECT_EQ(ledger.charges(), 1u);
  EXPECT_TRUE(ledger.Charge(Gaussian(0.5)).ok());  // what still fits is still paid
}

TEST(Ledger, TheBudgetItselfMayBeSpentAndNotOneUlpMore) {
  Ledger ledger(Limit(1.0), Adjacency::kReplaceOne);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(ledger.Charge(Gaussian(0.5)).ok());
  EXPECT_EQ(ledger.spent().value(), 1.0);
  EXPECT_FALSE(ledger.Charge(Gaussian(1e-30)).ok());
  EXPECT_TRUE(ledger.Charge(Gaussian(0)).ok());
}

TEST(Ledger, OrderOfChargesDoesNotMatterAndNothingRoundsDown) {
  Stream rng({.seed = 1, .purpose = Purpose::kTest});
  std::vector<double> mu(1000);
  for (double& m : mu) m = std::exp(8 * rng.Uniform() - 8);
  double lowest = kInf, highest = 0;
  for (int order = 0; order < 20; ++order) {
    long double exact = 0;
    Ledger ledger(Limit(kInf), Adjacency::kReplaceOne);
    for (const double m : mu) {
      ASSERT_TRUE(ledger.Charge(Gaussian(m)).ok());
      exact += static_cast<long double>(m) * m;
      ASSERT_GE(ledger.spent().value() * (1 + 1e-18L), exact);
    }
    lowest = std::min(lowest, ledger.spent().value()), highest = std::max(highest, ledger.spent().value());
    for (std::size_t i = mu.size(); i-- > 1;) std::swap(mu[i], mu[rng.Below(i + 1)]);
  }
  EXPECT_LE(highest / lowest - 1, 1000 * 0x1p-52);
  Ledger ledger(Limit(kInf), Adjacency::kReplaceOne);
  ASSERT_TRUE(ledger.Charge(Gaussian(1.0)).ok());
  ASSERT_TRUE(ledger.Charge(Gaussian(1e-30)).ok());
  EXPECT_GT(ledger.spent().value(), 1.0);
}

TEST(Ledger, WhatIsNotPrivateCostsInfinity) {
  EXPECT_EQ(Cost(NonPrivateEvent{}).value(), kInf);
  Ledger finite(Limit(1.7e308), Adjacency::kReplaceOne), open(Limit(kInf), Adjacency::kReplaceOne);
  EXPECT_FALSE(finite.Charge(NonPrivateEvent{}).ok());
  ASSERT_TRUE(open.Charge(NonPrivateEvent{}).ok());
  EXPECT_EQ(open.spent().value(), kInf);
  EXPECT_TRUE(open.Charge(Gaussian(1)).ok());
}

Accountant PlanOf(const PrivacyEvent& event, std::uint64_t count, Adjacency a = Adjacency::kReplaceOne) {
  Accountant plan(a);
  EXPECT_TRUE(plan.Compose(event, count).ok());
  return plan;
}

TEST(PlannedBook, TakesWhatWasPlannedForEachAccountAndNothingElse) {
  Accountant plan = PlanOf(PureEvent{Epsilon{0.5}}, 2);
  ASSERT_TRUE(plan.Compose(ScalarDpEvent{Epsilon{2.0}}, 3).ok());
  LedgerBook book(2, plan);
  EXPECT_TRUE(std::isinf(book.largest_spent().value()));  // no figure that a reader could take for all
  const std::vector<PrivacyEvent> both = {PureEvent{Epsilon{0.5}}, ScalarDpEvent{Epsilon{2.0}}};
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(book.account(0).Charge(both).ok());
  const std::vector<std::uint64_t> left(book.plan()->left().begin(), book.plan()->left().end());
  const Status refused = book.account(0).Charge(both);  // the first is used up: neither is taken
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kBudget);
  EXPECT_TRUE(std::equal(left.begin(), left.end(), book.plan()->left().begin()));
  EXPECT_TRUE(book.account(1).Charge(both).ok());  // the other account has its own
  EXPECT_FALSE(book.account(1).Charge(Gaussian(0.1)).ok());
  EXPECT_FALSE(book.account(1).Charge(NonPrivateEvent{}).ok());
  EXPECT_FALSE(book.Charge(PureEvent{Epsilon{0.5}}).ok());  // one of the two has none left: nobody pays
  EXPECT_TRUE(book.account(1).Charge(PureEvent{Epsilon{0.5}}).ok());
}

TEST(PlannedBook, GoesOnWhereItStoodAndRefusesFiguresOfAnotherPlan) {
  const PrivacyEvent event = PureEvent{Epsilon{0.5}};
  LedgerBook first(3, PlanOf(event, 4)), second(3, PlanOf(event, 4)), other(3, PlanOf(event, 2));
  ASSERT_TRUE(first.account(1).Charge(event).ok());
  ASSERT_TRUE(second.Resume(nullptr, {}, first.plan()->left()).ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(second.account(1).Charge(event).ok());
  EXPECT_FALSE(second.account(1).Charge(event).ok());
  EXPECT_FALSE(other.Resume(nullptr, {}, first.plan()->left()).ok());
  EXPECT_FALSE(other.Resume(nullptr, {}, first.plan()->left().subspan(1)).ok());
}

TEST(PlannedBook, EveryReleaseOfASecretSampleNeedsASampleOfItsOwn) {
  const Sampling poisson{.kind = SampleKind::kPoisson, .rate = Probability{0.1}, .size = 0};
  SecretSampler sampler(poisson, 50, 7);
  LedgerBook book(50, PlanOf(PoissonGaussianEvent{Probability{0.1}, Mu{0.5}}, 3, Adjacency::kAddOrRemove),
                  &sampler);
  EXPECT_FALSE(book.Charge(Gaussian(0.5)).ok()) << "no sample was drawn";
  sampler.Draw(1);
  EXPECT_TRUE(book.Charge(Gaussian(0.5)).ok());
  EXPECT_FALSE(book.Charge(Gaussian(0.5)).ok()) << "the same sample twice";
  sampler.Draw(2);
  EXPECT_FALSE(book.account(3).Charge(Gaussian(0.5)).ok()) << "one client alone";
  EXPECT_FALSE(book.account(3).Charge(PoissonGaussianEvent{Probability{0.1}, Mu{0.5}}).ok());
  EXPECT_TRUE(book.Charge(Gaussian(0.4)).ok()) << "more noise than planned";
  sampler.Draw(3);
  EXPECT_FALSE(book.Charge(Gaussian(0.6)).ok()) << "less noise than planned";
  sampler.Draw(3);
  EXPECT_FALSE(book.Charge(PoissonGaussianEvent{Probability{0.1}, Mu{0.5}}).ok()) << "sampled twice over";
  EXPECT_EQ(book.plan()->left()[0], 1u);
}

TEST(SqliteVault, APlanIsDurableAsAWholeAndIsKept) {
  const Folder folder;
  SqliteVault::RunInfo info = Info();
  info.plan = "{\"events\": []}";
  info.plan_epsilon = 1.5;
  const std::vector<MuSquared> budgets(3, Limit(kInf));
  {
    ASSERT_TRUE(SqliteVault::Open(folder / "l.db", info, budgets).ok());
  }  // killed before any release
  auto read = SqliteVault::Read(folder / "l.db");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->front().plan, info.plan);
  EXPECT_EQ(read->front().plan_epsilon, 1.5);
  EXPECT_TRUE(std::isinf(read->front().spent.front()));
  {
    auto again = SqliteVault::Open(folder / "l.db", info, budgets);
    ASSERT_TRUE(again.ok()) << again.error().message;
    LedgerBook book(3, PlanOf(PureEvent{Epsilon{0.5}}, 4));
    book.Attach(again->get());
    ASSERT_TRUE((*again)->Settle(book).ok());  // no refund
  }
  read = SqliteVault::Read(folder / "l.db");
  EXPECT_EQ(read->front().plan_epsilon, 1.5);
  EXPECT_TRUE(std::isinf(read->front().spent.front()));
  info.plan = "{\"events\": [1]}";
  EXPECT_FALSE(SqliteVault::Open(folder / "l.db", info, budgets).ok());
  info.plan.clear();
  EXPECT_FALSE(SqliteVault::Open(folder / "l.db", info, budgets).ok());
}

TEST(SqliteVault, AFileWithoutPlansStillOpens) {
  const Folder folder;
  const std::vector<MuSquared> budgets(2, Limit(1.0));
  {
    ASSERT_TRUE(SqliteVault::Open(folder / "l.db", Info(), budgets).ok());
  }
  {
    SQLite::Database(folder / "l.db", SQLite::OPEN_READWRITE).exec("DROP TABLE plans");
  }  // as earlier
  const auto read = SqliteVault::Read(folder / "l.db");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(read->front().plan.empty());
  EXPECT_TRUE(SqliteVault::Open(folder / "l.db", Info(), budgets).ok());
}

TEST(SqliteVault, ReservesSettlesAndComesBack) {
  const Folder folder;
  const fs::path file = folder / "a/b/ledger.db";
  const std::vector<MuSquared> budgets = {Limit(1), Limit(1), Limit(4)};
  {
    auto vault = SqliteVault::Open(file, Info(), budgets);
    ASSERT_TRUE(vault.ok()) << vault.error().message;
    LedgerBook book(budgets, Adjacency::kReplaceOne);
    book.Attach(vault->get());
    ASSERT_TRUE(book.Reserve(std::vector{Limit(0.5), Limit(5), Limit(0.25)}).ok());
    const auto reserved = (*vault)->reserved();
    EXPECT_EQ(reserved, (std::vector{Limit(0.5), Limit(1), Limit(0.25)}));  // never beyond the budget
    ASSERT_TRUE(book.account(0).Charge(Gaussian(0.5)).ok());
    ASSERT_TRUE(book.account(2).Charge(Gaussian(1)).ok());  // beyond its reservation
    EXPECT_EQ((*vault)->reserved()[2].value(), 1.0);
    EXPECT_EQ(book.largest_spent().value(), 1.0);
  }  // killed here: reservations count as spent
  const auto read = SqliteVault::Read(file);
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(read->front().spent, (std::vector<double>{0.5, 1, 1}));
  EXPECT_EQ(read->front().budget, (std::vector<double>{1, 1, 4}));
  EXPECT_EQ(read->front().state, "open");
  EXPECT_EQ(read->front().adjacency, "replace-one");
  EXPECT_EQ(read->front().delta, 1e-5);
  {
    auto vault = SqliteVault::Open(file, Info(), budgets);
    ASSERT_TRUE(vault.ok());
    LedgerBook book(budgets, Adjacency::kReplaceOne);
    book.Attach(vault->get());  // the earlier process's spending is this one's
    EXPECT_EQ(book.account(0).spent().value(), 0.5);
    EXPECT_EQ(book.account(1).spent().value(), 1.0);
    EXPECT_FALSE(book.account(1).Charge(Gaussian(0.1)).ok());
    EXPECT_TRUE(book.account(0).Charge(Gaussian(0.5)).ok());
    ASSERT_TRUE((*vault)->Settle(book).ok());
  }
  EXPECT_EQ(SqliteVault::Read(file)->front().state, "settled");
  EXPECT_EQ(SqliteVault::Read(file)->front().spent, (std::vector<double>{0.75, 1, 1}));
}

TEST(SqliteVault, RoundsThatHaveLeftAreKeptAndNeverFewer) {
  const Folder folder;
  const std::vector<MuSquared> budgets(2, Limit(1.0));
  {
    auto vault = SqliteVault::Open(folder / "l.db", Info(), budgets);
    ASSERT_TRUE(vault.ok()) << vault.error().message;
    EXPECT_EQ((*vault)->rounds_released(), 0u);
    ASSERT_TRUE((*vault)->CountReleased(7).ok());
    ASSERT_TRUE((*vault)->CountReleased(5).ok());
    EXPECT_EQ((*vault)->rounds_released(), 7u);
  }
  EXPECT_EQ(SqliteVault::Read(folder / "l.db")->front().rounds_released, 7u);
  auto first = SqliteVault::Open(folder / "l.db", Info(), budgets);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*first)->rounds_released(), 7u);
  auto second = SqliteVault::Open(folder / "l.db", Info(), budgets);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE((*first)->CountReleased(9).ok());  // the run is another process's now
  EXPECT_EQ((*first)->rounds_released(), 7u);
  ASSERT_TRUE((*second)->CountReleased(8).ok());

  // A file of an earlier version, and one that was changed.
  {
    SQLite::Database db((folder / "l.db").string(), SQLite::OPEN_READWRITE);
    db.exec("UPDATE rounds_released SET rounds = -1");
  }
  EXPECT_FALSE(SqliteVault::Open(folder / "l.db", Info(), budgets).ok());
  {
    SQLite::Database db((folder / "l.db").string(), SQLite::OPEN_READWRITE);
    db.exec("DROP TABLE rounds_released");
  }
  EXPECT_EQ(SqliteVault::Read(folder / "l.db")->front().rounds_released, 0u);
  auto old = SqliteVault::Open(folder / "l.db", Info(), budgets);
  ASSERT_TRUE(old.ok()) << old.error().message;
  EXPECT_TRUE((*old)->CountReleased(1).ok());
}

TEST(SqliteVault, SettlingGivesBackWhatWasNotSpent) {
  const Folder folder;
  const std::vector<MuSquared> budgets(10, Limit(1));
  auto vault = SqliteVault::Open(folder / "l.db", Info(), budgets);
  ASSERT_TRUE(vault.ok());
  LedgerBook book(budgets, Adjacency::kReplaceOne);
  book.Attach(vault->get());
  ASSERT_TRUE(book.Reserve(std::vector<MuSquared>(10, Limit(0.9))).ok());
  ASSERT_TRUE(book.account(3).Charge(Gaussian(0.5)).ok());
  ASSERT_TRUE((*vault)->Settle(book).ok());
  std::vector<double> want(10, 0.0);
  want[3] = 0.25;
  EXPECT_EQ(SqliteVault::Read(folder / "l.db")->front().spent, want);
}

TEST(SqliteVault, InfiniteFiguresSurvive) {
  const Folder folder;
  const std::vector<MuSquared> budgets(2, Limit(kInf));
  {
    auto vault = SqliteVault::Open(folder / "l.db", Info(), budgets);
    ASSERT_TRUE(vault.ok());
    LedgerBook book(budgets, Adjacency::kReplaceOne);
    book.Attach(vault->get());
    ASSERT_TRUE(book.account(1).Charge(NonPrivateEvent{}).ok());
  }
  EXPECT_EQ(SqliteVault::Read(folder / "l.db")->front().spent, (std::vector<double>{0, kInf}));
  EXPECT_EQ(SqliteVault::Read(folder / "l.db")->front().budget, (std::vector<double>{kInf, kInf}));
}

TEST(SqliteVault, AMillionEqualAccountsAreOneRow) {
  const Folder folder;
  const std::vector<MuSquared> budgets(1000000, Limit(1));
  auto vault = SqliteVault::Open(folder / "l.db", Info(), budgets);
  ASSERT_TRUE(vault.ok());
  LedgerBook book(budgets, Adjacency::kReplaceOne);
  book.Attach(vault->get());
  for (int block = 1; block <= 5; ++block)
    ASSERT_TRUE(book.Reserve(std::vector<MuSquared>(1000000, Limit(0.1 * block))).ok());
  SQLite::Database db((folder / "l.db").string());
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM accounts").getInt(), 1);
  ASSERT_TRUE((*vault)->Reserve(500000, std::vector{Limit(0.75)}).ok());  // one differs: three rows
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM accounts").getInt(), 3);
  const auto read = SqliteVault::Read(folder / "l.db");
  EXPECT_EQ(read->front().spent.size(), 1000000u);
  EXPECT_EQ(read->front().spent[500000], 0.75);
  EXPECT_EQ(read->front().spent[500001], 0.5);
}

TEST(SqliteVault, AdjacenciesAndOtherClientsAreNotMixedInOneRun) {
  const Folder folder;
  const std::vector<MuSquared> budgets(3, Limit(1));
  ASSERT_TRUE(SqliteVault::Open(folder / "l.db", Info(), budgets).ok());
  const auto other = SqliteVault::Open(folder / "l.db", Info("r", Adjacency::kZeroOut), budgets);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("adjacency replace-one, not zero-out"), std::string::npos);
  for (const std::size_t n : {2u, 4u}) {
    const auto wrong = SqliteVault::Open(folder / "l.db", Info(), std::vector<MuSquared>(n, Limit(1)));
    ASSERT_FALSE(wrong.ok()) << n;
    EXPECT_NE(wrong.error().message.find("other clients"), std::string::npos);
  }
  EXPECT_TRUE(
      SqliteVault::Open(folder / "l.db", Info("s", Adjacency::kZeroOut), budgets).ok());  // another run
  EXPECT_EQ(SqliteVault::Read(folder / "l.db")->size(), 2u);
  EXPECT_TRUE(SqliteVault::Open(folder / "l.db", Info(), budgets).ok());
}

TEST(SqliteVault, TwoProcessesCannotSpendFromOneRun) {
  const Folder folder;
  const std::vector<MuSquared> budgets(1, Limit(10));
  auto first = SqliteVault::Open(folder / "l.db", Info(), budgets);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE((*first)->Reserve(0, std::vector{Limit(5)}).ok());
  auto second = SqliteVault::Open(folder / "l.db", Info(), budgets);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->reserved()[0].value(), 5.0);
  const Status stale = (*first)->Reserve(0, std::vector{Limit(6)});
  ASSERT_FALSE(stale.ok());
  EXPECT_NE(stale.error().message.find("another process"), std::string::npos) << stale.error().message;
  ASSERT_TRUE((*second)->Reserve(0, std::vector{Limit(7)}).ok());
  LedgerBook book(budgets, Adjacency::kReplaceOne);
  EXPECT_FALSE((*first)->Settle(book).ok());
  EXPECT_EQ(SqliteVault::Read(folder / "l.db")->front().spent[0], 7.0);  // never falls
}

TEST(SqliteVault, UnusableFilesAreErrorsThatNameThem) {
  const Folder folder;
  const std::vector<MuSquared> budgets(1, Limit(1));
  const auto garbage = folder / "garbage.db";
  std::ofstream(garbage) << std::string(5000, 'x');
  for (const fs::path& file : {garbage, fs::path("/proc/none/ledger.db"), folder / "."}) {
    const auto vault = SqliteVault::Open(file, Info(), budgets);
    ASSERT_FALSE(vault.ok()) << file;
    EXPECT_EQ(vault.error().code, file == garbage ? Code::kMalformed : Code::kIo);
    EXPECT_NE(vault.error().message.find(file.string()), std::string::npos);
  }
  EXPECT_EQ(SqliteVault::Read(garbage).error().code, Code::kMalformed);
  EXPECT_EQ(SqliteVault::Read(folder / "none.db").error().code, Code::kNotFound);
  if (geteuid() != 0) {  // root writes everywhere
    ASSERT_TRUE(SqliteVault::Open(folder / "ro.db", Info(), budgets).ok());
    fs::permissions(folder / "ro.db", fs::perms::owner_read);
    EXPECT_FALSE(SqliteVault::Open(folder / "ro.db", Info(), budgets).ok());
    // Reading needs no permission to write.
    const fs::path parent = (folder / "ro.db").parent_path();
    fs::permissions(parent, fs::perms::owner_read | fs::perms::owner_exec);
    EXPECT_TRUE(SqliteVault::Read(folder / "ro.db").ok());
    fs::permissions(parent, fs::perms::owner_all);
  }
}

TEST(SqliteVault, ATamperedFileIsAnErrorAndNoCrash) {
  const struct {
    const char* why;
    const char* sql;
  } kCases[] = {
      {"too many accounts", "UPDATE accounts SET count = 1000000000000"},
      {"a negative count", "UPDATE accounts SET count = -1"},
      {"a negative first", "UPDATE accounts SET first = -1"},
      {"missing accounts", "DELETE FROM accounts"},
      {"a negative figure", "UPDATE accounts SET spent = -1"},
      {"text for a figure", "UPDATE accounts SET spent = 'none'"},
      {"another table", "DROP TABLE accounts; CREATE TABLE accounts (x)"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const Folder folder;
    const std::vector<MuSquared> budgets(3, Limit(1));
    {
      auto vault = SqliteVault::Open(folder / "l.db", Info(), budgets);
      ASSERT_TRUE(vault.ok());
      ASSERT_TRUE((*vault)->Reserve(0, budgets).ok());
      SQLite::Database((folder / "l.db").string(), SQLite::OPEN_READWRITE).exec(c.sql);
    }
    EXPECT_FALSE(SqliteVault::Open(folder / "l.db", Info(), budgets).ok());
    static_cast<void>(SqliteVault::Read(folder / "l.db").ok());  // an answer or an error, no crash
  }
}

TEST(SqliteVault, ThreadsMayReserveAtOnce) {
  const Folder folder;
  constexpr std::size_t kThreads = 4, kEach = 25;
  const std::vector<MuSquared> budgets(kThreads, Limit(kInf));
  auto vault = SqliteVault::Open(folder / "l.db", Info(), budgets);
  ASSERT_TRUE(vault.ok());
  LedgerBook book(budgets, Adjacency::kReplaceOne);
  book.Attach(vault->get());
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (std::uint32_t k = 0; k < kThreads; ++k)
    threads.emplace_back([&, k] {
      for (std::size_t i = 0; i < kEach; ++i)
        if (!book.account(k).Charge(Gaussian(1)).ok()) ++failures;
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(SqliteVault::Read(folder / "l.db")->front().spent, std::vector<double>(kThreads, kEach));
}

// A child charges and releases in a loop (a release is a byte appended to a file once Charge has
// returned) until it is killed at some instant; its successor goes on from the file. The seed fixes the
// delays, not the instants; the property holds at every instant.
void KillLoop(std::size_t block) {
  const Folder folder;
  const fs::path ledger = folder / "l.db", releases = folder / "releases";
  constexpr double kCost = 0x1p-10;  // μ² of a release, exact in sums
  const std::vector<MuSquared> budgets(2, Limit(1e6));
  Stream rng({.seed = 99, .purpose = Purpose::kTest});
  std::size_t last = 0;
  for (int kill_number = 0; kill_number < 40; ++kill_number) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto vault = SqliteVault::Open(ledger, Info(), budgets);
      if (!vault.ok()) _exit(3);
      LedgerBook book(budgets, Adjacency::kReplaceOne);
      book.Attach(vault->get());
      const int out = open(releases.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      for (std::size_t i = 0;; ++i) {
        if (block != 0 && i % block == 0 &&
            !book.Reserve(std::vector<MuSquared>(2, Limit(kCost * static_cast<double>(block)))).ok())
          _exit(4);
        if (!book.account(1).Charge(Gaussian(0x1p-5)).ok()) _exit(5);
        if (write(out, "r", 1) != 1) _exit(6);
      }
    }
    usleep(static_cast<useconds_t>(rng.Below(25000)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed with " << WEXITSTATUS(status);
    const std::size_t released = fs::exists(releases) ? fs::file_size(releases) : 0;
    if (released == 0) continue;  // killed before its first release
    const auto read = SqliteVault::Read(ledger);
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_GE(read->front().spent[1], kCost * static_cast<double>(released));
    last = released;
  }
  EXPECT_GT(last, 0u);
}
TEST(SqliteVault, KilledAnywhereItNeverShowsLessThanWasReleased) { KillLoop(0); }
TEST(SqliteVault, KilledAnywhereWithABlockReservedItNeverShowsLess) { KillLoop(16); }

}  // namespace
}  // namespace tacit
