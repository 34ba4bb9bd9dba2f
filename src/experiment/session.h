#pragma once

// A run while it trains: what a launcher and the loop around the runtime share.
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "algorithms/algorithm.h"
#include "core/sha256.h"
#include "data/partition.h"
#include "experiment/build.h"
#include "experiment/json_number.h"
#include "experiment/oracle.h"
#include "experiment/run.h"
#include "privacy/data_ledger.h"
#include "privacy/mechanism.h"

namespace tacit {

class Link;
class Notary;
class PeerSite;
class Site;

struct Session {
  const Config& config;
  const TrainHooks& hooks;
  bool resuming = false;                         // go on from the folder's checkpoint, if it has one
  Plan plan = {};
  PublicFacts facts = {};
  Partition partition = {};
  std::optional<Dataset> test = {};
  std::unique_ptr<Objective> objective = {};
  std::unique_ptr<Regularizer> regularizer = {};
  std::unique_ptr<Mechanism> mechanism = {};
  std::unique_ptr<Oracle> oracle = {};
  std::unique_ptr<SecretSampler> sampler = {};   // null: no secret sample
  std::vector<std::uint32_t> attended = {};      // rounds of every client; empty: everyone in every round
  std::unique_ptr<LedgerBook> book = {};
  std::unique_ptr<SqliteVault> run_vault = {};
  std::unique_ptr<DataLedger> data_ledger = {};
  std::unique_ptr<Vault> vault = {};             // the two as one; null: a run without a folder
  Workspace work = {};
  std::optional<std::uint64_t> replay_seed = {};  // of a run that is made many times; none: ReplaySeed
  // A run over several processes. Its server has a link and no rows. Each client has at_site, which is called
  // with it; partition and book then hold its own rows and account alone.
  Link* link = nullptr;
  std::function<Status(Site&)> at_site = {};
  std::function<Status(PeerSite&)> at_peer = {};  // the same for a peer on a graph, which has no server
  std::uint32_t site = 0;  // which client or peer this is
  const Notary* notary = nullptr;  // what it signs with, where sums are masked
  std::optional<ServerTrust> server_trust = {};  // that it may send updates without noise, and to whom
  std::filesystem::path folder = {};  // where it keeps its checkpoint
  // A run that is divided between several processes, of which this is one; null: there is no other.
  Ranks* ranks() const { return hooks.ranks; }
  bool aside() const;  // this is not rank 0: clients, and nothing else
};

// Seed of replayable noise: named by everything that shapes the run, the data included. The same run again
// draws the same noise, and no other run does, so that two runs never share noise that could be cancelled.
std::uint64_t ReplaySeed(const Session&);
// How many threads this process has for the run: as asked, or one for each core that is this rank's.
unsigned ThreadsOf(const Session&);
// Of everything that shapes a run, the data apart.
Sha256::Digest ConfigDigest(const Config&);
Metrics Measure(Session&, View mean_model, std::optional<double> consensus);
// μ² that the plan will charge in its k-th round, per distinct budget: what is reserved ahead.
std::vector<std::vector<MuSquared>> PlannedCharges(const Session&);
// The largest sum of them: what the run will cost at most.
MuSquared PlannedCost(const Session&);

// What launchers hand to an algorithm.
Problem MakeProblem(const Session&);
Claim ClaimOf(const Plan&);
// What a client divides its sum by must not tell neighbours apart. Where a record may be there or not, or a
// person has any number of them, that is a public number of the plan; otherwise neighbours have equally many
// records.
Holding HoldingOf(Session&, std::uint32_t client);

// After the last round: what was released and what it costs, into r. records: of all clients; book: what they
// have paid.
void Certify(const Session&, RunResult&, std::vector<std::size_t> records, const LedgerBook& book);
// Settles the ledgers, and writes model, certificate and result where the run has a folder.
Status WriteResult(Session&, RunResult&, std::vector<std::size_t> records);
// The graph of a run beside its config. A run that goes on has the one it began with.
Status KeepGraph(const Graph&, const std::filesystem::path& folder);

// The data as the cumulative ledger knows it.
DataSetId IdOf(const Config&);

// The server's process of a run whose clients are elsewhere (job.h).
struct Apart {
  Link* link = nullptr;
  PublicFacts facts;  // of all clients' rows
  Plan plan;  // made of them
  std::filesystem::path folder;  // gone on with, if it holds a run
};
Result<RunResult> Execute(const Config&, const TrainHooks&, const Apart&);

// Builds the algorithm that the config names and trains it.
Status Launch(Session&, RunResult&);
Status LaunchNetwork(Session&, RunResult&);  // those without a server

}  // namespace tacit
