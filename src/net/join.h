#pragma once

// A client's end of the wire, and its right to refuse. It believes nothing that the server says of privacy:
// the plan is made here, from the job's public constants, and what is beyond the client's policy is refused
// before a row is read.
#include <atomic>
#include <string>

#include "experiment/job.h"
#include "net/ca.h"
#include "net/log_event.h"

namespace tacit {

// What a client agrees to, whatever a job says.
struct Policy {
  double max_epsilon = 0;                        // of one job; 0: nothing is agreed to
  double max_delta = 1e-5;
  bool replayable = false;                       // noise that others can take off: for tests
  bool float_noise = false;                      // noise whose guarantee is that of real numbers
  bool paper = false;                            // the algorithms as printed, which may have no guarantee
  bool masked = false;                           // a share of the noise alone, under masks
  std::size_t colluding = 1;                     // clients that masked sums must be safe from, at least
  std::vector<std::string> trusted_servers =
      {};  // certificate names of those who may see updates without noise
  std::string unit = {}, adjacency = {};  // what ε is to be about; empty: whatever the job says
  // "key=value" of the job's [data]: how the rows may be read; empty: however the job says. Rows that cannot
  // be read as a job wants end this client, and its server, who chose how, sees that they did.
  std::vector<std::string> layout = {};
};
Section DescribePolicy(Policy&);
Result<Policy> ReadPolicy(const std::filesystem::path&);  // TOML with the keys above
Result<Policy> ParsePolicy(std::string_view toml, const std::string& name);  // which errors say
// Why this job is refused by what it says of itself, before a plan is made of it: an offer may be large.
Status CheckOffer(const Policy&, const Job&);
// Why it is refused, with the figure and what would have to change.
Status CheckPolicy(const Policy&, const Job&, const Plan&);

// What a job is known by between those who review it: the SHA-256 of its text, in hexadecimal digits.
std::string DigestOf(const std::string& toml);
inline constexpr std::size_t kLeastPin = 16;  // digits: 64 bits, more than anybody finds another job for
// Whether it is such a digest, or how one begins, or empty: any job.
Status CheckPin(const std::string& pinned);
// Why a job is another than the one that is pinned.
Status CheckPinned(const std::string& pinned, const std::string& toml);

struct JoinOptions {
  std::string server;  // host:port
  Identity identity;
  std::filesystem::path revocations =
      {};  // crl.pem, of servers and of clients that sum with this one; empty: none
  std::string data;  // file
  std::filesystem::path state;  // folder: a subfolder a job, and the cumulative ledger
  std::filesystem::path ledger;  // empty: ledger.db in `state`
  Policy policy;
  std::string job = {};  // the digest of the one that was agreed to, or how it begins; empty: any
  double patience = 600;  // seconds without the server after which to give up
  const std::atomic<bool>* stop = nullptr;
  EventLog log;
};
struct Joined {
  std::string job;  // id
  std::filesystem::path folder;
  SiteResult result;
  bool over = false;  // false: stopped before the end; join again to go on
};
// The job a server offers, and its id.
struct Offer {
  std::string id, toml;
  Job job;
  std::uint32_t answered = 0;  // the last round that the server says it has this client's answer to
};
Result<Offer> ReadOffer(const JoinOptions&);
Result<Joined> Join(const JoinOptions&);

}  // namespace tacit
