#pragma once

// What happens to a server, a client or a peer, for whoever keeps it running: one of a closed list of events,
// what it is about in fields, and the same as a sentence. Names, counts and rounds; nothing private.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tacit {

enum class Level { kInfo, kWarning, kError };
const char* Name(Level);

enum class Event {
  // of a server
  kListening,
  kMetricsPage,
  kRunFinished,
  kJobRead,
  kClientJoined,
  kCallerRefused,
  kAnswerRefused,
  kAnswersNotKept,
  kRoundOverdue,
  kRoundIncomplete,
  kMaskedRound,
  kRoundDone,
  kDraining,
  // of a client
  kJoined,
  kRoundAnswered,
  kRoundNotAnswered,
  kServerNotReached,
  kServerCertificate,
  // of a peer
  kPeer,
  // of all of them
  kNoRevocations,
  kRevocationsOutdated,
  kGrpc,
  kFailed,
};

struct EventKind {
  Event event;
  const char* name;  // in logs
  Level level;
  std::vector<std::string> fields;  // that it may have
  const char* when;
};
std::span<const EventKind> EventKinds();  // all, in the order of Event
const EventKind& KindOf(Event);

struct LogField {
  const char* name;  // one of its kind's
  std::variant<bool, std::uint64_t, double, std::string> value;
};
struct LogEvent {
  Event event;
  std::string text;
  std::vector<LogField> fields = {};
  operator const std::string&() const { return text; }  // NOLINT: for whoever reads sentences alone
};
// That the list of revoked certificates in this file is older than it says it should be.
inline LogEvent ListIsOutdated(const std::string& file) {
  return {
      Event::kRevocationsOutdated,
      file +
          ": its authority meant to replace this list of revoked certificates by now; ask it for a new one"};
}
// One call an event; from any thread. Must not throw: whoever calls it may be in the midst of something.
using EventLog = std::function<void(const LogEvent&)>;

// Events that others can cause as often as they like: of one key one a second, which says how many of it were
// left out before. The caller's to guard.
class LogLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Whether to log it, with what was left out. Keys are as few as names in a job.
  bool Allows(const std::string& key, LogEvent&, Time now);

 private:
  struct Last {
    Time at;
    std::uint64_t left_out = 0;
  };
  std::map<std::string, Last> last_;
};

}  // namespace tacit
