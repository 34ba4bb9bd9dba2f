#pragma once

// A peer on a graph: it serves its notes to its neighbours and fetches theirs, over mutual TLS, and there is
// no server. Everybody has the job as a file of its own; those of neighbours must be the same, files' names
// apart. Certificates are a peer's (ca.h): a neighbour is known by its name, wherever it is.
//
// What is no note, or one of another round, is not heard: its sender is asked again, within `patience`. So is
// a neighbour that turns this peer away, once it has given this process a note; before that its word ends the
// call with an error, for then the job, the certificates or this peer's state are not what they should be,
// and a state that was put back from a copy would release rounds again. A neighbour that lies or is silent
// until patience ends stops this peer, and nothing else: no note is made before all of the last are here.
#include "net/join.h"
#include "net/metrics.h"

namespace tacit {

struct PeerSettings {
  Job job;  // with serve.addresses
  std::string listen;  // HOST:PORT; empty: as serve.addresses says
  Identity identity;
  std::filesystem::path revocations;  // crl.pem; empty: none
  std::string data;  // file
  std::filesystem::path state, ledger;  // as JoinOptions
  Policy policy;
  double patience = 3600;  // seconds to wait for a neighbour's note before giving up
  double linger = 60;  // and for those that still need the last note, at the end
  const std::atomic<bool>* stop = nullptr;
  PeerCounts* counts = nullptr;  // for whoever watches; outlives the call
  std::function<void(const std::string&)> log;  // from any thread
  std::function<void(int port)> listening;  // for tests
};
// Takes this peer's part in the job, from wherever its folder stands, until the last round. Joined::over:
// false if it was stopped; the same call goes on.
Result<Joined> TakePeersPart(const PeerSettings&);

}  // namespace tacit
