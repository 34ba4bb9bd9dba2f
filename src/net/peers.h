#pragma once

// A peer on a graph: it serves its notes to its neighbours and fetches theirs, over mutual TLS, and there is
// no server. Everybody has the job as a file of its own; those of neighbours must be the same, files' names
// apart. Certificates are a peer's (ca.h): a neighbour is known by its name, wherever it is.
#include "net/join.h"

namespace tacit {

struct PeerSettings {
  Job job;                                       // with serve.addresses
  std::string listen;                            // HOST:PORT; empty: as serve.addresses says
  Identity identity;
  std::filesystem::path revocations;             // crl.pem; empty: none
  std::string data;                              // file
  std::filesystem::path state, ledger;           // as JoinOptions
  Policy policy;
  double patience = 3600;                        // seconds to wait for a neighbour before giving up
  double linger = 60;                            // and for those that still need the last note, at the end
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const std::string&)> log;
  std::function<void(int port)> listening;       // for tests
};
// Takes this peer's part in the job, from wherever its folder stands, until the last round. Joined::over:
// false if it was stopped; the same call goes on.
Result<Joined> TakePeersPart(const PeerSettings&);

}  // namespace tacit
