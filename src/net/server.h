#pragma once

// The server's end of the wire: gRPC over mutual TLS. It lets in whom the authority vouches for and the job
// names, takes one answer a round from each, and refuses everything else without hurting the round.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "experiment/job.h"
#include "net/ca.h"
#include "net/log_event.h"
#include "net/metrics.h"
#include "runtime/link.h"

namespace tacit {

// Metadata of Next and Answer: the caller's session, as it was enrolled; and of the server's word that it is
// ready for an answer, without which none is sent.
inline constexpr char kSessionKey[] = "tacit-session", kReadyKey[] = "tacit-ready";
// A session names the folder a client answers from and the process that does: as many hexadecimal digits
// each, of the latter the first eight how many processes there were in the folder before.
inline constexpr std::size_t kSessionPart = 32, kStartDigits = 8;
std::string NewName();  // of a run, a folder or a process: 32 digits at random
inline bool IsHex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}
inline constexpr std::uint32_t kProtocol = 3;
inline constexpr std::size_t kLargestJob = 1 << 24;  // bytes of its text: what LoadJob reads
// Seconds a message may take, and on top a second for so many bytes: a link that is slower is none. Of both
// ends.
inline constexpr double kTransfer = 60, kSlowestLink = 1e5;

struct ServeOptions {
  std::string address = "127.0.0.1:0";           // port 0: any that is free
  Identity identity;
  std::filesystem::path revocations;             // crl.pem; empty: none
  const std::atomic<bool>* stop = nullptr;       // set: a question that waits ends, kInterrupted
  double drain = 0;  // but has so many seconds more for those who are not there yet
  // File: the last round that each client has sent an answer to, counted or not, kept before it hears so:
  // survives a kill at once, and a power cut when the round is over. Empty: none.
  std::filesystem::path answered = {};
  std::function<Status()> before = {};  // called before the first question, when the folder is locked
  // What an answer may take, as a client gives up by its own.
  double upload = kTransfer, link = kSlowestLink;
  EventLog log;
};

class FederationServer : public Link {
 public:
  // id: of the run, kept beside it, so that clients know it again after a restart.
  static Result<std::unique_ptr<FederationServer>> Start(const Job&, std::string id, const ServeOptions&);
  virtual int port() const = 0;
  virtual const ServerCounts& counts() const = 0;
  // Counts what shows only where one looks: that it is to stop, and whether the list of revoked certificates
  // can be read. From any thread.
  virtual void Look() = 0;
  // The result is durable: clients may settle and go. Waits so long for those that have called, or for all.
  virtual void Over(double seconds = 5, bool everybody = false) = 0;
};

}  // namespace tacit
