#include "net/join.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "experiment/files.h"
#include "experiment/site.h"
#include "net/broadcast.h"
#include "net/deadline.h"
#include "net/notary.h"
#include "net/server.h"
#include "net/state_files.h"
#include "privacy/mask_keys.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr std::size_t kPart = 256 << 10;
constexpr auto kSoon = std::chrono::milliseconds(500);

// What to look at where TLS itself says why there is no connection; empty: it does not.
std::string Advice(const std::string& why, const std::string& server) {
  if (why.find("not in peer certificate") != std::string::npos)
    return fmt::format(
        "the certificate there is for another host or server: check {} and --trust-server, or have the "
        "server's issued with --host {}",
        server, server.substr(0, server.rfind(':')));
  if (why.find("certificate verify failed") != std::string::npos ||
      why.find("CERTIFICATE_VERIFY_FAILED") != std::string::npos)  // OpenSSL, and BoringSSL
    return "the certificate there is not of the authority in --ca, or not valid now: check --ca and the "
           "clock";
  return "";
}

// Under the folder's lock. File `name`: the folder's name, and the starts.
Result<Place> PlaceOf(const fs::path& folder) {
  const fs::path file = folder / "name";
  std::error_code ec;
  Place place;
  if (fs::exists(file, ec)) {
    TACIT_TRY(const std::string kept, ReadWhole(file, 1 << 10));
    const std::optional<Place> found = ParsePlace(kept);
    if (!found)
      return Fail(Code::kMalformed,
                  "{}: is not the name of a folder, 32 hexadecimal digits and a number; put it back",
                  file.string());
    place = *found;
  } else if (fs::exists(folder / "checkpoint", ec)) {
    return Fail(Code::kNotFound,
                "{}: is gone, and the server knows the answers in this folder by it; put it back",
                file.string());
  } else {
    place.name = NewName();
  }
  ++place.starts;
  TACIT_OK(WriteWhole(file, PlaceLine(place)));
  return place;
}

// Calls to one server. A call that the network loses is made again, after a while that grows; one that the
// server refuses is an error.
class Line {
 public:
  // trusted: the name in the certificate that the server must have; empty: any of the authority's that is for
  // its host.
  explicit Line(const JoinOptions& o, std::string trusted = {})
      : o_(o), trusted_(std::move(trusted)), revoked_(o.revocations, o.identity.authority) {
    Connect();
  }

  // place: without a name to read the job alone, beside a process of this client that may take part.
  Result<v1::EnrolReply> Enrol(const Place& place = {}) {
    v1::EnrolReply reply;
    if (!place.name.empty())
      session_ = fmt::format("{}{:08x}{}", place.name, place.starts, process_.substr(kStartDigits));
    // Whoever takes a connection and says nothing is waited for no longer than patience lasts.
    const std::chrono::milliseconds within(static_cast<long>(1000 * std::clamp(o_.patience, 5.0, 60.0)));
    TACIT_OK(Again(
        [&](grpc::ClientContext& call, Status& believed) {
          v1::EnrolRequest request;
          request.set_protocol(kProtocol);
          if (!place.name.empty()) request.set_session(session_);
          const grpc::Status done = stub_->Enrol(&call, request, &reply);
          names_.clear();
          if (const auto server = call.auth_context(); done.ok() && server != nullptr)
            for (const auto& name : server->FindPropertyValues(GRPC_X509_SAN_PROPERTY_NAME))
              names_.emplace_back(name.data(), name.size());
          if (done.ok()) believed = Believed(call);
          return done;
        },
        within));
    return reply;
  }
  // Hosts that the certificate is for that the server enrolled by.
  const std::vector<std::string>& names() const { return names_; }

  Result<Work> Next(const std::string& job, std::size_t most) {
    Work work;
    bool sound = true;
    TACIT_OK(Again(
        [&](grpc::ClientContext& call, Status& believed) {
          sound = true;
          v1::NextRequest request;
          request.set_job(job);
          call.AddMetadata(kSessionKey, session_);
          const auto stream = stub_->Next(&call, request);
          v1::WorkPart part;
          WorkParts parts(most);
          while (sound && stream->Read(&part)) sound = parts.Take(part);
          if (!sound) call.TryCancel();
          const grpc::Status done = stream->Finish();
          if (sound && done.ok() && !parts.whole())
            return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the broadcast was cut");
          if (done.ok()) believed = Believed(call);
          work = std::move(parts.work());
          return sound ? done : grpc::Status::OK;
        },
        TimeFor(kTransfer, most, kSlowestLink)));
    if (!sound)
      return Fail(Code::kMalformed, "{}: sent more than a broadcast of this job can have", o_.server);
    return work;
  }

  // false: the round ended without this answer. Not a byte of it leaves before the server is ready for it
  // (this is the process that enrolled last), nor before the certificate at the other end of this very call
  // is believed: the connection may be another than that of the question.
  Result<bool> Answer(const std::string& job, const Work& work, const Bytes& bytes) {
    bool counted = true;
    TACIT_OK(Again(
        [&](grpc::ClientContext& call, Status& believed) {
          v1::AnswerReply reply;
          call.AddMetadata(kSessionKey, session_);
          const auto stream = stub_->Answer(&call, &reply);
          stream->WaitForInitialMetadata();
          const bool ready = call.GetServerInitialMetadata().count(kReadyKey) != 0;
          // A call that failed before there was a certificate is tried again.
          if (ready || !Shown(call).empty()) believed = Believed(call);
          if (!ready || !believed.ok()) {
            if (!believed.ok())
              call.TryCancel();
            else
              stream->WritesDone();
            const grpc::Status ended =
                stream->Finish();  // why the server refuses, or that the call has failed
            return ended.ok() ? grpc::Status::CANCELLED : ended;
          }
          v1::AnswerPart part;
          part.set_job(job);
          part.set_round(work.round);
          part.set_last(work.kind == v1::WorkPart::LAST);
          part.set_step(work.step);
          part.set_question(work.question);
          part.set_size(bytes.size());
          for (std::size_t at = 0; at == 0 || at < bytes.size(); at += kPart) {
            part.set_data(bytes.data() + at, std::min(kPart, bytes.size() - at));
            if (!stream->Write(part)) break;
            part.Clear();
          }
          stream->WritesDone();
          grpc::Status done = stream->Finish();
          counted = done.error_code() != grpc::StatusCode::ABORTED;
          return counted ? done : grpc::Status::OK;
        },
        TimeFor(kTransfer, bytes.size(), kSlowestLink)));
    return counted;
  }

  // The server has said that it runs another job now.
  bool other_job() const { return other_job_; }
  bool stopped() const { return o_.stop != nullptr && o_.stop->load(); }

 private:
  // A new connection. gRPC's own timers wait by the time of day (absl, before 2023), so that one who waits
  // for it to connect again waits for hours where the clock was set back by hours; a new channel tries at
  // once.
  void Connect() {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = o_.identity.authority;
    tls.pem_private_key = o_.identity.key;
    tls.pem_cert_chain = o_.identity.certificate;
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(static_cast<int>(kLargestJob + kPart));  // a job, and its envelope
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // Not by a proxy that the environment names for the web: a server is where --server says.
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    if (!trusted_.empty()) arguments.SetSslTargetNameOverride(ServerHost(trusted_));
    stub_ =
        v1::Federation::NewStub(grpc::CreateCustomChannel(o_.server, grpc::SslCredentials(tls), arguments));
  }
  // The certificate at the other end of a call; empty: there is none.
  static std::string Shown(const grpc::ClientContext& call) {
    const auto server = call.auth_context();
    if (server == nullptr) return "";
    const auto shown = server->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    return shown.size() == 1 ? std::string(shown[0].data(), shown[0].size()) : "";
  }
  // Whether the server's certificate is not revoked. kIo: the list cannot be read now, and nobody is believed
  // until it can.
  Status Believed(const grpc::ClientContext& call) {
    if (o_.revocations.empty()) return Ok{};
    const std::string shown = Shown(call);
    const Status valid =
        !shown.empty() ? revoked_.Check(shown) : Status(Fail(Code::kMismatch, "it shows no certificate"));
    if (revoked_.Outdated() && !outdated_) {
      outdated_ = true;
      if (o_.log) o_.log(ListIsOutdated(o_.revocations.string()));
    }
    if (valid.ok()) return Ok{};
    return Fail(valid.error().code == Code::kIo ? Code::kIo : Code::kInvalidArgument,
                "{}: is not listened to: {}", o_.server, valid.error().message);
  }
  // make(call, believed): the call, and whether the server that it reached is believed. within: what one call
  // may take; a server waits ten seconds before it says that there is nothing to do.
  template <class Call>
  Status Again(Call make, std::chrono::milliseconds within) {
    using namespace std::chrono_literals;
    const auto begin = steady_clock::now();
    std::chrono::milliseconds pause = 50ms;
    for (bool said = false;;) {
      if (stopped()) return Fail(Code::kInterrupted, "stopped");
      grpc::ClientContext call;
      call.set_deadline(In(within));
      const auto called = steady_clock::now();
      Status believed = Ok{};
      const grpc::Status done = make(call, believed);
      if (!believed.ok() && believed.error().code != Code::kIo) return believed;
      if (believed.ok() && done.ok()) return Ok{};
      const std::string why = believed.ok() ? done.error_message() : believed.error().message;
      switch (believed.ok() ? done.error_code() : grpc::StatusCode::UNAVAILABLE) {
        case grpc::StatusCode::UNAVAILABLE:
        case grpc::StatusCode::DEADLINE_EXCEEDED:
        case grpc::StatusCode::CANCELLED:
        case grpc::StatusCode::RESOURCE_EXHAUSTED:  // the server has too many calls open
        case grpc::StatusCode::UNKNOWN:
        case grpc::StatusCode::INTERNAL: break;
        case grpc::StatusCode::UNAUTHENTICATED:
        case grpc::StatusCode::PERMISSION_DENIED:
          return Fail(Code::kInvalidArgument, "{}: turned this client away: {}", o_.server,
                      done.error_message());
        case grpc::StatusCode::FAILED_PRECONDITION: other_job_ = true; [[fallthrough]];
        default: return Fail(Code::kIo, "{}: {}", o_.server, done.error_message());
      }
      const std::string advice = Advice(why, o_.server);
      if (steady_clock::now() - begin > std::chrono::duration<double>(o_.patience))
        return Fail(Code::kIo, "{}: cannot be reached ({}); {}", o_.server, why,
                    !advice.empty() ? advice
                                    : "check the address, that the server runs, and that its authority is "
                                      "that of --ca");
      const std::chrono::duration<double> took = steady_clock::now() - called;
      if (!said && !advice.empty() && o_.log)
        o_.log(
            {Event::kServerCertificate, fmt::format("{}: {}", o_.server, advice), {{"server", o_.server}}});
      if ((!said || took > 5s) && o_.log)
        o_.log(
            {Event::kServerNotReached,
             fmt::format("{}: not reached ({}, after {:.1f} s); trying again", o_.server, why, took.count()),
             {{"server", o_.server}, {"seconds", std::round(10 * took.count()) / 10}}});
      said = true;
      std::uint64_t bits = 0;
      RandomBytes(std::as_writable_bytes(std::span(&bits, 1)));
      std::this_thread::sleep_for(Spread(pause, bits));
      pause = std::min(pause * 2, std::chrono::milliseconds(1000));
      // A server that was reached and cannot help now may have no file left for another connection.
      const bool reached =
          !Shown(call).empty() && (done.ok() || done.error_code() == grpc::StatusCode::UNAVAILABLE);
      if (!reached) Connect();
    }
  }
  const JoinOptions& o_;
  const std::string trusted_;
  const Revocations revoked_;
  std::vector<std::string> names_;
  bool other_job_ = false, outdated_ = false;  // outdated_: it was said that the list is
  const std::string process_ = NewName();
  std::string session_;
  std::unique_ptr<v1::Federation::Stub> stub_;
};

Result<Offer> Read(Line& line, const JoinOptions& o) {
  TACIT_TRY(const v1::EnrolReply reply, line.Enrol());
  if (reply.protocol() != kProtocol || !IsHex(reply.job(), kSessionPart))
    return Fail(Code::kMalformed, "{}: does not speak this protocol; use one version of tacit", o.server);
  Offer offer{.id = reply.job(), .toml = reply.toml(), .job = {}, .answered = reply.answered()};
  TACIT_TRY(offer.job, ParseJob(offer.toml, "the job of " + o.server, {}));
  return offer;
}

std::vector<LogField> FieldsOf(const Work& work, std::vector<LogField> more = {}) {
  std::vector<LogField> all = {{"round", std::uint64_t{work.round}}};
  if (work.step != 0) all.push_back({"step", std::uint64_t{work.step}});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Answers until the job is over. known: whether this folder knows of all rounds that the server has an answer
// to.
Status Serve(Line& line, const std::string& job, Site& site, const JoinOptions& o,
             const std::function<Status(std::uint32_t answered)>& known) {
  std::string passed;  // the question that was passed over last
  for (;;) {
    if (line.stopped()) return Fail(Code::kInterrupted, "stopped");
    const auto asked = steady_clock::now();
    TACIT_TRY(const Work work, line.Next(job, site.most_bytes()));
    switch (work.kind) {
      case v1::WorkPart::ROUND: {
        TACIT_OK(known(work.answered));
        const bool again = work.round == site.round();
        const Result<Bytes> made = site.Answer(work.round, work.step, work.frame, work.counted);
        // Another client's keys or shares are no reason to leave the job: without this one the round ends.
        if (!made.ok() && work.step != 0 &&
            (made.error().code == Code::kMalformed || made.error().code == Code::kMismatch)) {
          if (o.log && work.question != passed)
            o.log({Event::kRoundNotAnswered,
                   fmt::format("round {}, step {}: not answered: {}", work.round, work.step,
                               made.error().message),
                   FieldsOf(work)});
          passed = work.question;
          std::this_thread::sleep_for(std::chrono::seconds(1));
          break;
        }
        TACIT_TRY(const Bytes answer, made);
        TACIT_TRY(const bool counted, line.Answer(job, work, answer));
        if (o.log)
          o.log({Event::kRoundAnswered,
                 fmt::format("round {}{}: {}{}", work.round,
                             work.step == 0 ? "" : fmt::format(", step {} of {}", work.step, kMaskSteps),
                             again && work.step == 0 ? "sent again" : "answered",
                             counted ? "" : ", too late to be counted"),
                 FieldsOf(work, {{"again", again && work.step == 0}, {"counted", counted}})});
        break;
      }
      case v1::WorkPart::LAST: {
        TACIT_TRY(const Bytes answer, site.Leave(work.frame));
        TACIT_TRY([[maybe_unused]] const bool counted, line.Answer(job, work, answer));
        break;
      }
      case v1::WorkPart::OVER: return Ok{};
      default:  // a server waits before it says so, and one that does not shall not keep this machine busy
        if (steady_clock::now() - asked < kSoon) std::this_thread::sleep_for(kSoon);
        break;
    }
  }
}

// Whom the policy trusts of those that the server is by its certificate.
Result<ServerTrust> Trusted(const Line& line, const JoinOptions& o) {
  for (const std::string& name : o.policy.trusted_servers)
    if (std::find(line.names().begin(), line.names().end(), ServerHost(name)) != line.names().end())
      return ServerTrust::Declared(name);
  return Fail(Code::kBudget,
              "{}: the job sends updates without noise to this server, and its certificate is of none that "
              "this client's policy trusts (trusted_servers); refused",
              o.server);
}
}  // namespace

Result<Offer> ReadOffer(const JoinOptions& o) {
  Line line(o);
  TACIT_TRY(const Offer offer, Read(line, o));
  if (offer.job.config.privacy.trust == "central" && !o.policy.trusted_servers.empty()) {
    TACIT_TRY([[maybe_unused]] const ServerTrust trust, Trusted(line, o));
  }
  return offer;
}

Result<Joined> Join(const JoinOptions& o) {
  Line first(o);
  TACIT_TRY(const Offer offer, Read(first, o));
  TACIT_OK(CheckPinned(o.job, offer.toml));
  TACIT_OK(CheckOffer(o.policy, offer.job));
  std::optional<ServerTrust> trust;
  std::optional<Line> named;
  if (offer.job.config.privacy.trust == "central") {
    TACIT_TRY(trust, Trusted(first, o));
    named.emplace(o, trust->server());  // every connection from here on is to that certificate, or none
  }
  Line& line = named ? *named : first;
  TACIT_TRY(Plan plan, PlanOf(offer.job));
  TACIT_OK(CheckPolicy(o.policy, offer.job, plan));
  Joined joined{.job = offer.id, .folder = o.state / offer.id, .result = {}, .over = false};
  std::error_code ec;
  const fs::path place = fs::absolute(joined.folder, ec).lexically_normal();
  // Rounds that were answered from another folder would be released and paid anew. What the server says can
  // only make this client refuse.
  const auto elsewhere = [&](std::uint32_t known, std::uint32_t answered) -> Status {
    if (known >= answered) return Ok{};
    return Fail(Code::kBudget,
                "{}: has the answer of {} to round {} of job {}, and {} knows of {}: the job was joined with "
                "another --state, whose rounds would be released and paid anew; give that folder, or leave "
                "this job",
                o.server, o.identity.name, answered, offer.id, place.string(),
                known == 0 ? "none" : fmt::format("round {} at most", known));
  };
  if (!fs::exists(place / "checkpoint", ec)) TACIT_OK(elsewhere(0, offer.answered));
  TACIT_OK(MakeOwnFolder(joined.folder));
  // A job keeps its text under its id: a server cannot change what was agreed to.
  const fs::path kept = joined.folder / "job.toml";
  if (fs::exists(kept, ec)) {
    TACIT_TRY(const std::string before, ReadWhole(kept, kLargestJob));
    if (before != offer.toml)
      return Fail(Code::kMismatch, "{}: the server offers another job under the same id; refused",
                  kept.string());
  } else {
    TACIT_OK(WriteWhole(kept, offer.toml));
  }
  const CertificateNotary notary(o.identity, offer.job.clients, offer.id, o.revocations);
  const Enrolment own{.name = o.identity.name,
                      .data = o.data,
                      .folder = joined.folder,
                      .ledger = o.ledger.empty() ? o.state / "ledger.db" : o.ledger,
                      .notary = &notary,
                      .server_trust = trust};
  const auto serve = [&](Site& site) -> Status {
    const auto known = [&](std::uint32_t answered) { return elsewhere(site.round(), answered); };
    TACIT_OK(known(offer.answered));
    // From here on another process of this client is not heard any more.
    TACIT_TRY(const Place at, PlaceOf(joined.folder));
    TACIT_TRY(const v1::EnrolReply begun, line.Enrol(at));
    TACIT_OK(CheckPinned(o.job, begun.toml()));
    if (begun.job() != offer.id)
      return Fail(Code::kInterrupted, "{}: has begun another job meanwhile; join again", o.server);
    TACIT_OK(known(begun.answered()));
    if (o.log)
      o.log({Event::kJoined,
             fmt::format("joined job {}, kept in {}: {}", offer.id, place.string(),
                         site.round() == 0 ? "nothing answered so far"
                                           : fmt::format("round {} answered", site.round())),
             {{"job", offer.id}, {"round", std::uint64_t{site.round()}}}});
    const Status done = Serve(line, offer.id, site, o, known);
    joined.over = done.ok();
    return done;
  };
  Result<SiteResult> done = TakePart(offer.job, std::move(plan), own, serve);
  if (!done.ok() && line.other_job() && !o.job.empty()) {  // which may be the same again, or not be agreed to
    TACIT_TRY(const Offer now, Read(line, o));
    TACIT_OK(CheckPinned(o.job, now.toml));
  }
  TACIT_TRY(joined.result, std::move(done));
  return joined;
}

}  // namespace tacit
