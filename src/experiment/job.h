#pragma once

// A run over several machines: an experiment file with a table [serve], which `tacit train` passes over. The
// server has the job and no rows; every client has its own rows, reads the job, and makes the same plan of
// it.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiment/config.h"
#include "experiment/run.h"

namespace tacit {

class Link;
class Notary;
class PeerSite;
class Site;

// Up to 64 letters, digits, -, _ and dots, with a letter, digit or _ first.
bool IsPartyName(const std::string&);

struct Job {
  Config config;
  std::vector<std::string> clients;              // certificate names, in the order of client ids
  std::vector<double> records;  // how many each has: public; empty: data.rows, split evenly
  std::vector<std::string> addresses;  // host:port of each, where they are peers on a graph; empty: a server
  double deadline = 3600;  // seconds a round waits for answers
  std::size_t minimum = 0;  // answers without which a round goes on waiting; 0: all
  std::size_t noise_seed = 0;  // of replayable noise; 0: none
};
Section DescribeServe(Job&);  // [serve]
Result<Job> LoadJob(const std::filesystem::path&, const std::vector<Assignment>& sets);
Result<Job> ParseJob(std::string_view toml, const std::string& name, const std::vector<Assignment>& sets);
std::string ToToml(const Job&);  // resolved: what clients read
Result<PublicFacts> FactsOf(const Job&);
Result<Plan> PlanOf(const Job&);  // from public constants, as every party computes it
// The place of a certificate name among the clients; kNotFound with a sentence for whom it is not there.
Result<std::uint32_t> ClientOf(const Job&, const std::string& name);

// The server's part: trains with clients that the link reaches, in this folder; a folder that holds a part of
// the run goes on with it. Every round is durable before the next is asked for.
Result<RunResult> Coordinate(const Job&, Link&, const std::filesystem::path& folder, const TrainHooks& = {});

// One client's part. Its ledgers are its own: that of the job in `folder`, and the cumulative one of its
// data.
struct Enrolment {
  std::string name;  // of its certificate
  std::string data;  // its rows: a file
  std::filesystem::path folder, ledger;
  const Notary* notary = nullptr;  // for jobs with masked sums: by what it knows the others, and they it
  std::optional<ServerTrust> server_trust = {};  // for jobs that trust their server: which one may be trusted
};
struct SiteResult {
  std::size_t rounds = 0;  // answered
  double epsilon = 0, delta = 0;  // spent on this job, upper bound
};
// plan: PlanOf the job. serve(site) answers the server until the job is over; kInterrupted leaves it to be
// gone on with.
Result<SiteResult> TakePart(const Job&, Plan, const Enrolment&, const std::function<Status(Site&)>& serve);

// The part of a peer on a graph, where there is no server. attend(site) makes the rounds; true: neighbours
// need nothing more from this peer. Model, certificate and result are written to the folder.
Result<SiteResult> TakePlace(const Job&, Plan, const Enrolment&,
                             const std::function<Result<bool>(PeerSite&)>& attend);
// What peers know a job by: 64 hexadecimal digits of all that shapes it, without the names of anybody's
// files.
std::string NameOf(const Job&, const Plan&);

}  // namespace tacit
