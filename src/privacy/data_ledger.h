#pragma once

// The cumulative ledger: what all runs on a data set have cost together. A record may be at any client of a
// run, so a run counts with its largest account; runs add up by μ². Runs that pay by a plan (sampled
// releases, ε-DP) have no μ²: each counts with the (ε, δ) of its whole plan, and these are added on top, ε to
// ε and δ to δ. That is valid also where the parameters of a run were chosen by the results of others
// (Rogers, Roth, Ullman, Vadhan 2016; docs/privacy.md, The ledger). Costs under different units or
// adjacencies speak of different neighbours and are never added. Where clients are the unit, its text says
// how the data are split among them and whom they trust: other clients, or another trust, are another unit.
#include <optional>

#include "privacy/ledger.h"

namespace tacit {

// A data set is known by the name its operator gives it (data.id, a catalogue name, or the file's path) and,
// where there is one, by the digest of its file: a copy under another name is the same data.
struct DataSetId {
  std::string name;
  std::string digest;  // SHA-256 in hex; empty: none. Read off the data: never shown
};

struct DataRun {
  std::string run, unit, adjacency, mode, state;  // run: the folder; state: open, settled
  double delta = 0;
  double mu_squared = 0;  // the durable figure of the largest account; ∞ with a plan
  std::optional<double> plan_epsilon;  // of the whole plan, at delta; nullopt: a run without one
};
struct DataSetRecord {
  DataSetId id;
  std::optional<double> limit_epsilon, limit_delta;
  std::optional<double> plan_limit_epsilon, plan_limit_delta;  // on top, for runs with a plan
  std::vector<DataRun> runs;  // in the order they were opened
};

// What a record's runs under one unit and adjacency cost together.
struct DataTotal {
  std::string unit, adjacency;
  std::size_t runs = 0, plans = 0;  // plans: of these, runs with a plan
  double mu_squared = 0;  // of the others, rounded up
  double delta = 0;  // the smallest of the others'; 0 if there are none
  double plan_epsilon = 0, plan_delta = 0;  // sums over the plans, rounded up
  // ε of all together, at at + plan_delta; at: a δ for the runs without a plan.
  double EpsilonAt(double at) const;
};
std::vector<DataTotal> Totals(const DataSetRecord&);

class DataLedger {
 public:
  struct RunInfo {
    std::string run, unit, mode;
    Adjacency adjacency = Adjacency::kReplaceOne;
    double delta = 0;
    std::optional<double> plan_epsilon = std::nullopt;  // pays by a plan that costs this at delta
  };
  // Registers a run that plans to cost `planned` at most. Refuses, before anything is spent, where the data
  // set's limit leaves less than that. A run that is registered already goes on with its figure, and is
  // refused with data of another digest than it began with. A plan counts as a whole from here on, durably,
  // and `planned` is not looked at.
  static Result<std::unique_ptr<DataLedger>> Open(const std::filesystem::path& file, const DataSetId&,
                                                  const RunInfo&, MuSquared planned);
  ~DataLedger();
  // Durable when it returns; never falls, in the file either; refuses past the limit.
  Status Reserve(MuSquared up_to);
  // The run ended having spent exactly this; a figure above what was reserved here, another's, stays.
  Status Settle(MuSquared spent);

  // As SqliteVault's, and apart from the run's folder: a folder that was put back as it once was, with its
  // checkpoint and its own ledger, does not know what has left since.
  Status CountReleased(std::uint64_t rounds);
  std::uint64_t rounds_released() const;

  static Result<std::vector<DataSetRecord>> Read(const std::filesystem::path& file);
  // The most that runs on a data set may cost together; nullopt: no limit. The set need not be known yet.
  // plans: how much more runs with a plan may cost together; nullopt: none of them. The two parts are fixed
  // apart, because which of them to spend may be chosen by results: one limit for a sum of both would be
  // passed.
  struct PlanLimit {
    Epsilon epsilon;
    Delta delta;
  };
  static Status SetLimit(const std::filesystem::path& file, const std::string& name, std::optional<Epsilon>,
                         Delta, std::optional<PlanLimit> plans = std::nullopt);
  // The same for the data set that a run with this id would be on, and only downwards: a limit that allows
  // less stays.
  static Status HoldTo(const std::filesystem::path& file, const DataSetId&, Epsilon, Delta);

 private:
  struct State;
  explicit DataLedger(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

// A run's vault that keeps the cumulative ledger ahead of it.
class CumulativeVault final : public Vault {
 public:
  CumulativeVault(Vault& run, DataLedger& data) : run_(run), data_(data) {}
  Status Reserve(std::uint32_t first, std::span<const MuSquared> up_to) override;
  std::vector<MuSquared> reserved() const override { return run_.reserved(); }

 private:
  Vault& run_;
  DataLedger& data_;
};

}  // namespace tacit
