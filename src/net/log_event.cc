#include "net/log_event.h"

#include <fmt/core.h>

namespace tacit {

const char* Name(Level level) {
  return level == Level::kError ? "error" : level == Level::kWarning ? "warning" : "info";
}

std::span<const EventKind> EventKinds() {
  using enum Event;
  using enum Level;
  static const std::vector<EventKind> kinds = {
      {kListening,
       "listening",
       kInfo,
       {"job", "sha256", "clients", "address"},
       "the server can be called; sha256: of the job's text, as a client that reviews it sees it"},
      {kMetricsPage, "metrics_page", kInfo, {"port"}, "health and metrics can be asked for"},
      {kRunFinished, "run_finished", kInfo, {}, "the run is over already; clients that missed it are told"},
      {kJobRead, "job_read", kInfo, {"client", "left_out"}, "a client has read the job"},
      {kClientJoined, "client_joined", kInfo, {"client", "left_out"}, "a process of a client takes part"},
      {kCallerRefused,
       "caller_refused",
       kWarning,
       {"client", "reason", "left_out"},
       "a call was turned away; reason: certificate (revoked, or not valid now), no_list (the list of "
       "revoked certificates cannot be read), not_in_job, replaced (another process has joined since), "
       "other_folder (another --state than that of its answers); client: as its certificate says"},
      {kAnswerRefused,
       "answer_refused",
       kWarning,
       {"client", "round", "reason", "left_out"},
       "an answer was refused, and the round goes on; reason: stale (to a question that is not asked now), "
       "not_asked, too_long, malformed, differs (from the one before)"},
      {kAnswersNotKept,
       "answers_not_kept",
       kError,
       {},
       "the server cannot write down whose answers it has, and takes none until it can"},
      {kRoundOverdue,
       "round_overdue",
       kWarning,
       {"round", "step", "answers", "asked", "needed"},
       "the deadline has passed with too few answers; the round waits"},
      {kRoundIncomplete,
       "round_incomplete",
       kInfo,
       {"round", "step", "answers", "asked"},
       "a round, or a step of it, has ended without all answers"},
      {kMaskedRound,
       "masked_round",
       kWarning,
       {"round"},
       "a round under masks begins again, or leaves somebody out"},
      {kRoundDone, "round_done", kInfo, {"round", "rounds"}, "a round is durable and its metrics are known"},
      {kDraining,
       "draining",
       kInfo,
       {"round", "seconds"},
       "the server stops when the round is over, or after so many seconds"},
      {kJoined,
       "joined",
       kInfo,
       {"job", "round"},
       "the client takes part; round: the last that it has answered"},
      {kRoundAnswered,
       "round_answered",
       kInfo,
       {"round", "step", "again", "counted"},
       "an answer has left; again: the bytes of before; counted: it came in time"},
      {kRoundNotAnswered,
       "round_not_answered",
       kWarning,
       {"round", "step"},
       "a step under masks is not answered, for what others sent is none"},
      {kServerNotReached,
       "server_not_reached",
       kWarning,
       {"server", "seconds"},
       "a call failed and is made again; seconds: that it took"},
      {kServerCertificate,
       "server_certificate",
       kWarning,
       {"server"},
       "the certificate at the other end is not the one expected"},
      {kPeer, "peer", kInfo, {}, "whatever happens to a peer on a graph"},
      {kNoRevocations,
       "no_revocations",
       kWarning,
       {},
       "there is no --crl: revoked certificates are believed until they expire"},
      {kRevocationsOutdated,
       "revocations_outdated",
       kWarning,
       {},
       "there was to be a newer list of revoked certificates by now; this one is gone by all the same; once"},
      {kGrpc, "grpc", kWarning, {}, "an error of gRPC's own, one a second at most"},
      {kFailed, "failed", kError, {"code"}, "the process ends with this exit code"},
  };
  return kinds;
}

bool LogLimit::Allows(const std::string& key, LogEvent& event, Time now) {
  const auto [last, fresh] = last_.try_emplace(key, Last{now});
  if (!fresh && now - last->second.at < std::chrono::seconds(1)) {
    ++last->second.left_out;
    return false;
  }
  if (const std::uint64_t left_out = last->second.left_out; left_out > 0) {
    event.text += fmt::format(" ({} of this left out before)", left_out);
    const LogField field{"left_out", left_out};
    event.fields.push_back(field);
  }
  last->second = {now};
  return true;
}

const EventKind& KindOf(Event event) { return EventKinds()[static_cast<std::size_t>(event)]; }

}  // namespace tacit
