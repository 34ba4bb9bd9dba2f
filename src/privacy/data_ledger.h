#pragma once

// The cumulative ledger: what all runs on a data set have cost together. A record may be at any client of a
// run, so a run counts with its largest account; runs add up by μ². Costs under different units or
// adjacencies speak of different neighbours and are never added. Where clients are the unit, its text says
// how the data are split among them and whom they trust: other clients, or another trust, are another unit.
#include <optional>

#include "privacy/ledger.h"

namespace tacit {

// A data set is known by the name its operator gives it (data.id, a catalogue name, or the file's path) and,
// where there is one, by the digest of its file: a copy under another name is the same data.
struct DataSetId {
  std::string name;
  std::string digest;                       // SHA-256 in hex; empty: none. Read off the data: never shown
};

struct DataRun {
  std::string run, unit, adjacency, mode, state;      // run: the folder; state: open, settled
  double delta = 0;
  double mu_squared = 0;                    // the durable figure of the largest account
};
struct DataSetRecord {
  DataSetId id;
  std::optional<double> limit_epsilon, limit_delta;
  std::vector<DataRun> runs;                // in the order they were opened
};

// What a record's runs under one unit and adjacency cost together.
struct DataTotal {
  std::string unit, adjacency;
  std::size_t runs = 0;
  double mu_squared = 0;                    // rounded up
  double delta = 0;                         // the smallest of the runs'
};
std::vector<DataTotal> Totals(const DataSetRecord&);

class DataLedger {
 public:
  struct RunInfo {
    std::string run, unit, mode;
    Adjacency adjacency = Adjacency::kReplaceOne;
    double delta = 0;
  };
  // Registers a run that plans to cost `planned` at most. Refuses, before anything is spent, where the data
  // set's limit leaves less than that. A run that is registered already goes on with its figure.
  static Result<std::unique_ptr<DataLedger>> Open(const std::filesystem::path& file, const DataSetId&,
                                                  const RunInfo&, MuSquared planned);
  ~DataLedger();
  // Durable when it returns; never falls; refuses past the limit.
  Status Reserve(MuSquared up_to);
  // The run ended having spent exactly this.
  Status Settle(MuSquared spent);

  static Result<std::vector<DataSetRecord>> Read(const std::filesystem::path& file);
  // The most that runs on a data set may cost together; nullopt: no limit. The set need not be known yet.
  static Status SetLimit(const std::filesystem::path& file, const std::string& name, std::optional<Epsilon>,
                         Delta);

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
