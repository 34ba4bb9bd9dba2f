#pragma once

// The ledger: adds events, refuses past the budget, and is durable before a release is made.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "privacy/event.h"
#include "privacy/filter.h"
#include "privacy/sampling.h"

namespace tacit {

// Where reservations become durable. An account's durable figure never falls, and a ledger never
// spends beyond it, so after any crash the file shows at least what was released.
class Vault {
 public:
  virtual ~Vault() = default;
  // Durable when it returns. All or nothing over the given accounts (first, first + 1, …).
  virtual Status Reserve(std::uint32_t first, std::span<const MuSquared> up_to) = 0;
  // The durable figure of every account.
  virtual std::vector<MuSquared> reserved() const = 0;
};

class PlannedReleases;

// A Gaussian release with what it costs an account, worked out once.
class PricedGaussian {
 public:
  explicit PricedGaussian(const GaussianEvent& event) : event_(event), cost_(Squared(event.mu)) {}
  const GaussianEvent& event() const { return event_; }
  MuSquared cost() const { return cost_; }

 private:
  GaussianEvent event_;
  MuSquared cost_;
};

// One holder's account: the releases made from one client's data. A Gaussian-DP filter (filter.h) that is
// durable: events may be chosen by what was released before, and the budget holds for all of them. In a book
// with a plan, a planned account instead: events are taken out of the plan, which was paid for as a whole.
// Not thread-safe; a client is served by one thread at a time.
class Ledger {
 public:
  Ledger(MuSquared budget, Adjacency adjacency) : budget_(budget), adjacency_(adjacency) {}
  // By a plan, which outlives the account. No μ² is known of it, so that spent() is ∞ from the start.
  Ledger(PlannedReleases& plan, std::uint32_t account);

  // Pays for one release, or refuses and leaves the ledger as it was. With a vault, what has been
  // spent is durable when Charge returns.
  Status Charge(const PrivacyEvent& event) {
    if (const auto* gaussian = std::get_if<GaussianEvent>(&event)) return Charge(*gaussian);
    return Charge(std::span<const PrivacyEvent>(&event, 1));
  }
  Status Charge(const GaussianEvent& event) { return Charge(PricedGaussian(event)); }
  // What nearly every release is, without a call: a Gaussian within the budget and what is durable.
  Status Charge(const PricedGaussian& priced) {
    if (plan_ == nullptr) {
      const MuSquared total = spent_ + priced.cost();
      if (total <= budget_ && (vault_ == nullptr || total <= reserved_)) [[likely]] {
        spent_ = total;
        ++charges_;
        return Ok{};
      }
    }
    return ChargeSlowly(priced.event());
  }
  // The same for values that are released together: all events or none.
  Status Charge(std::span<const PrivacyEvent>);
  // Records a paper's claim for what was charged last; costs nothing and proves nothing.
  void Record(const Claim&) { ++claims_; }

  MuSquared spent() const { return spent_; }
  MuSquared reserved() const { return reserved_; }
  MuSquared budget() const { return budget_; }
  Adjacency adjacency() const { return adjacency_; }
  std::uint64_t charges() const { return charges_; }
  std::uint64_t claims() const { return claims_; }

  void Attach(Vault* vault, std::uint32_t account) { vault_ = vault, account_ = account; }
  // Tells the ledger that so much is durable already (a block reserved ahead).
  void Reserved(MuSquared up_to) {
    if (up_to > reserved_) reserved_ = up_to;
  }
  // Restores what an earlier process had spent or reserved; never lowers the figure.
  void Restore(MuSquared spent) {
    if (spent > spent_) spent_ = spent;
  }

 private:      // ordered to be small: a run may have a million
  Status ChargeSlowly(const GaussianEvent&);
  MuSquared budget_;
  MuSquared spent_{0.0};
  MuSquared reserved_{0.0};
  Vault* vault_ = nullptr;
  PlannedReleases* plan_ = nullptr;
  std::uint32_t account_ = 0;
  std::uint32_t charges_ = 0, claims_ = 0;
  Adjacency adjacency_;
};

// What every account of a run may release, fixed before the first release: the tight account of the
// accountant (PlannedAccount), shared by all. The whole plan is paid for in advance, and nothing is refunded:
// when a run stops may depend on what it released.
//
// With a sampler every release is a noised sum over a secret sample of the accounts' holders, and costs what
// OnSecretSample says; each needs a sample of its own. Then all accounts are charged together and none alone:
// whatever a client released by itself would show that it took part.
class PlannedReleases {
 public:
  PlannedReleases(Accountant plan, std::size_t accounts, SecretSampler* sampler);
  Status Charge(std::uint32_t account, std::span<const PrivacyEvent>);  // all or none
  Status ChargeAll(const PrivacyEvent&);
  const Accountant& plan() const { return plan_; }
  bool sampled() const { return sampler_ != nullptr; }

  // Releases that are left: of line 0 for every account, of line 1 for every account, … A book with a sampler
  // keeps one account for all.
  std::span<const std::uint64_t> left() const { return left_; }
  // Goes on where an earlier process stood; refuses figures that are not of this plan.
  Status Restore(std::span<const std::uint64_t> left);
  // What another process of this run has charged an account with: so many releases are left of each line.
  // Never raises a figure. Not where all accounts are one.
  Status Follow(std::uint32_t account, std::span<const std::uint64_t> left);

 private:
  Status Take(std::size_t row, const PrivacyEvent&);
  Accountant plan_;
  std::size_t rows_;
  SecretSampler* sampler_;
  std::vector<std::uint64_t> left_;
};

// All accounts of a run. Reserve() makes the next block of rounds durable for everyone in one
// transaction, so that durability costs no speed.
class LedgerBook {
 public:
  LedgerBook(std::span<const MuSquared> budgets, Adjacency adjacency);
  // Accounts that pay by a plan. The vault must hold the plan before the first release
  // (SqliteVault::RunInfo). sampler: of a secret sample that each release is over; it outlives the book.
  LedgerBook(std::size_t accounts, Accountant plan, SecretSampler* sampler = nullptr);
  // What the vault holds already was spent by an earlier process: it counts as spent here.
  void Attach(Vault* vault);
  // Goes on where a checkpoint of the same run stood: `spent` is what was charged up to it, and no release
  // made after it was seen by anyone. What the vault holds stays reserved. Refuses figures that the vault
  // does not cover. left: as PlannedReleases::left() was, in a book with a plan.
  Status Resume(Vault* vault, std::span<const MuSquared> spent, std::span<const std::uint64_t> left = {});
  Ledger& account(std::uint32_t client) { return accounts_[client]; }
  const Ledger& account(std::uint32_t client) const { return accounts_[client]; }
  std::size_t size() const { return accounts_.size(); }
  // Pays for one release that every account's holder is part of: all of them, or none if one refuses.
  Status Charge(const PrivacyEvent&);
  void Record(const Claim&);  // in every account
  // Reserves `ahead[i]` more than account i has spent, but never beyond its budget.
  Status Reserve(std::span<const MuSquared> ahead);
  MuSquared largest_spent() const;
  Adjacency adjacency() const { return adjacency_; }
  const PlannedReleases* plan() const { return plan_.get(); }  // null: accounts are filters
  PlannedReleases* plan() { return plan_.get(); }
  // Changes whenever more has become durable for all.
  std::uint64_t reservations() const { return reservations_; }

 private:
  std::uint64_t reservations_ = 0;
  Adjacency adjacency_;
  std::unique_ptr<PlannedReleases> plan_;
  std::vector<Ledger> accounts_;
  std::vector<MuSquared> targets_;
  Vault* vault_ = nullptr;
};

// What a file knows of one run.
struct LedgerRecord {
  std::string run, data, unit, adjacency, mode, state;  // state: open, settled
  double delta = 0;
  std::vector<double> budget, spent;  // μ² per client; spent is the durable figure
  // Where all releases were planned: their events (event_json.h) and the ε of the whole plan at delta, for
  // every client. Then budget and spent are ∞, so that no reader who does not know of plans sees too little.
  std::string plan;
  double plan_epsilon = 0;
  std::uint64_t rounds_released = 0;  // rounds whose values may have left the process
};

// A Vault in an SQLite file (write-ahead log, full synchronisation). Safe to kill at any instant. A run
// belongs to the process that opened it last; from then on an earlier one is refused.
class SqliteVault final : public Vault {
 public:
  struct RunInfo {
    std::string run, data, unit, mode;
    Adjacency adjacency = Adjacency::kReplaceOne;
    double delta = 0;
    std::string plan = {};  // WriteEvents of a planned run; empty: none
    double plan_epsilon = 0;  // at delta
  };
  // Opens or creates the file and registers the run with its budgets. A run that is registered
  // already keeps its durable figures, which then come back from reserved(), and its plan. A plan is durable
  // when Open returns.
  static Result<std::unique_ptr<SqliteVault>> Open(const std::filesystem::path& file, const RunInfo&,
                                                   std::span<const MuSquared> budgets);
  ~SqliteVault() override;
  Status Reserve(std::uint32_t first, std::span<const MuSquared> up_to) override;
  std::vector<MuSquared> reserved() const override;
  // The run ended and the ledgers know exactly what was spent: unused reservations are given back.
  Status Settle(const LedgerBook&);

  // Notes that the values of so many first rounds leave now, durable when it returns; the figure never falls.
  // Whoever goes on with the run must stand at this round or later: earlier ones would be released again.
  Status CountReleased(std::uint64_t rounds);
  std::uint64_t rounds_released() const;

  static Result<std::vector<LedgerRecord>> Read(const std::filesystem::path& file);

 private:
  struct State;
  explicit SqliteVault(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace tacit
