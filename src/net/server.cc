#include "net/server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <list>
#include <map>
#include <mutex>

#include <federation.grpc.pb.h>
#include "core/sha256.h"
#include "experiment/files.h"
#include "net/deadline.h"
#include "net/notary.h"
#include "net/state_files.h"
#include "privacy/mask_keys.h"

namespace tacit {
namespace {

using grpc::ServerContext;
using std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(100);      // how late a stop or a hang-up is noticed
constexpr auto kNotice = std::chrono::seconds(1);  // the same for a client that waits: there may be many
constexpr auto kGrace = std::chrono::seconds(2);  // for more answers, where enough are there
constexpr int kOpen =
    2;  // calls of a kind that a client may have open at once: one may be about to be noticed
constexpr auto kWait = std::chrono::seconds(10);  // of one Next; a client that is gone holds no thread longer
constexpr int kHandshake = 10000;  // milliseconds
constexpr std::uint32_t kMaskInput = 3;  // the step of a round under masks whose answer is the update
constexpr std::size_t kPart = 256 << 10;
constexpr std::size_t kName = 16;

grpc::Status Refuse(grpc::StatusCode code, const std::string& why) { return {code, why}; }

class Server final : public FederationServer, public v1::Federation::Service {
 public:
  Server(const Job& job, std::string id, const ServeOptions& o)
      : job_(job),
        roster_(o.identity.authority, job.clients, id),
        toml_(ToToml(job)),
        id_(std::move(id)),
        o_(o),
        revoked_(o.revocations, o.identity.authority),
        told_(job.clients.size()),
        here_(job.clients.size()),
        waiting_(job.clients.size()),
        answering_(job.clients.size()),
        answered_(job.clients.size()),
        session_(job.clients.size()),
        folder_(job.clients.size()) {
    counts_.clients = job.clients.size();
    counts_.rounds = job.config.algorithm.rounds;
  }
  ~Server() override {
    if (server_ == nullptr) return;
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    asked_.notify_all();
    server_->Shutdown(In(std::chrono::seconds(2)));
  }

  Status Listen() {
    TACIT_OK(ReadAnswered());
    Look();
    if (revoked_.Outdated() && !outdated_.exchange(true)) Log(ListIsOutdated(o_.revocations.string()));
    grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = o_.identity.authority;
    tls.pem_key_cert_pairs.push_back({o_.identity.key, o_.identity.certificate});
    grpc::ServerBuilder builder;
    builder.AddListeningPort(o_.address, grpc::SslServerCredentials(tls), &port_);
    builder.RegisterService(static_cast<v1::Federation::Service*>(this));
    builder.SetMaxReceiveMessageSize(1 << 20);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 2 * kOpen);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
    // Whoever shows no certificate holds a file descriptor no longer than this.
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshake);
    grpc::ResourceQuota quota;
    quota.SetMaxThreads(static_cast<int>(2 * kOpen * job_.clients.size() + 64));
    builder.SetResourceQuota(quota);
    server_ = builder.BuildAndStart();
    if (server_ != nullptr && port_ != 0) return Ok{};
    return Fail(Code::kIo,
                "{}: cannot be listened at; is the address one of this machine and the port free, and are "
                "the certificate and its key those of a server?",
                o_.address);
  }
  int port() const override { return port_; }
  const ServerCounts& counts() const override { return counts_; }
  void Look() override {
    counts_.draining = o_.stop != nullptr && o_.stop->load();
    counts_.unlisted = !revoked_.Readable().ok();
  }
  const Roster* roster() const override { return &roster_; }
  std::string server() const override { return o_.identity.name; }
  void Note(const std::string& text) override {
    Log({Event::kMaskedRound, text, {{"round", counts_.round.load()}}});
  }

  Status Ask(const Question& q, std::vector<Bytes>& answers) override {
    if (number_ == 0) {
      if (o_.before) TACIT_OK(o_.before());
      TACIT_OK(ReadAnswered());  // again: whoever had the folder before may have written since
      TACIT_OK(KeepAnswered());
    }
    Sha256 broadcast;
    broadcast.Add(q.frame);
    const Sha256::Digest digest = broadcast.Finish();
    auto text =
        std::make_shared<const std::string>(reinterpret_cast<const char*>(q.frame.data()), q.frame.size());
    Status done = Ok{};
    {
      std::unique_lock lock(mutex_);
      const Asked asked(*this, lock, q, digest, std::move(text));
      done = Wait(q, lock);
      answers.assign(q.who.size(), {});
      for (std::size_t i = 0; i < q.who.size(); ++i)
        if (const auto found = answers_.find(q.who[i]); found != answers_.end())
          answers[i] = std::move(found->second);
      counts_.late += q.who.size() - answers_.size();
      if (done.ok() && answers_.size() < q.who.size())
        Log({Event::kRoundIncomplete,
             fmt::format("round {}: {} of {} answered", q.round, answers_.size(), q.who.size()), Fields(q)});
    }
    if (!Releases(q.last, q.step)) return done;
    const Status kept = KeepAnswered();
    return done.ok() ? kept : done;
  }

  void Over(double seconds, bool everybody) override {
    std::unique_lock lock(mutex_);
    over_ = true;
    counts_.over = true;
    asked_.notify_all();
    // A process that has asked nobody has not been called by anybody yet.
    if (number_ == 0) everybody = true, seconds = std::max(seconds, job_.deadline);
    const auto until = steady_clock::now() + std::chrono::duration<double>(seconds);
    const auto waiting = [&] {
      if (o_.stop != nullptr && o_.stop->load()) return false;
      for (std::size_t i = 0; i < told_.size(); ++i)
        if ((everybody || here_[i]) && !told_[i]) return true;
      return false;
    };
    while (waiting() && steady_clock::now() < until) {
      EndSlowUploads();
      changed_.wait_for(lock, kPoll);
    }
  }

 private:
  // A question, asked for as long as this lives; with the mutex. Nobody reads it any more afterwards,
  // whatever ended it.
  class Asked {
   public:
    Asked(Server& server, std::unique_lock<std::mutex>& lock, const Question& q, const Sha256::Digest& digest,
          std::shared_ptr<const std::string> frame)
        : server_(server), lock_(lock) {
      server_.answers_.clear();
      server_.broadcast_ = digest;
      server_.frame_ = std::move(frame);
      server_.question_ = &q;
      ++server_.number_;
      server_.counts_.round = q.round;
      server_.asked_.notify_all();
    }
    ~Asked() {
      server_.counts_.deadline = 0;
      server_.counts_.overdue = false;
      server_.question_ = nullptr;
      server_.frame_ = nullptr;
      while (server_.readers_ > 0) server_.changed_.wait_for(lock_, kPoll);
    }
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;

   private:
    Server& server_;
    std::unique_lock<std::mutex>& lock_;
  };
  // Until there are answers enough.
  Status Wait(const Question& q, std::unique_lock<std::mutex>& lock) {
    // Everybody is asked to say farewell, and nobody is waited for beyond the deadline then.
    const std::size_t minimum = q.last || !q.patient ? 0
                                : q.least != 0       ? std::min(q.who.size(), q.least)
                                : job_.minimum != 0  ? std::min(q.who.size(), job_.minimum)
                                                     : q.who.size();
    const std::chrono::duration<double> deadline(job_.deadline);
    const auto until = steady_clock::now() + deadline;
    counts_.deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(until.time_since_epoch()).count();
    bool late = false;
    std::optional<steady_clock::time_point> soon;
    while (answers_.size() < q.who.size()) {
      EndSlowUploads();
      if (o_.stop != nullptr && o_.stop->load() && Drained(q))
        return Fail(Code::kInterrupted, "interrupted in round {}", q.round);
      // One more than needed, where there is one: a wrong share can then be left out.
      if (q.enough && answers_.size() >= std::min(q.who.size(), q.least + 1)) {
        if (!soon) soon = steady_clock::now() + kGrace;
        if (steady_clock::now() >= *soon) break;
      }
      if (steady_clock::now() >= until) {
        if (answers_.size() >= minimum || (q.gives_up && steady_clock::now() >= until + deadline)) break;
        if (!late)
          Log({Event::kRoundOverdue,
               fmt::format("round {}: {} of {} answers by the deadline, {} needed; waiting{}", q.round,
                           answers_.size(), q.who.size(), minimum, q.gives_up ? " as long again" : ""),
               Fields(q, {{"needed", minimum}})});
        late = true;
        counts_.overdue = true;
      }
      changed_.wait_for(lock, kPoll);
    }
    return Ok{};
  }

  void Log(const LogEvent& event) const {
    if (o_.log) o_.log(event);
  }
  // What a caller causes. client: one of the job's, or empty.
  void LogOf(const std::string& client, const char* reason, LogEvent event) const {
    if (!o_.log) return;
    {
      const std::lock_guard lock(limit_mutex_);
      const std::string key = fmt::format("{} {} {}", KindOf(event.event).name, client, reason);
      if (!limit_.Allows(key, event, steady_clock::now())) return;
    }
    o_.log(event);
  }
  // How far a question is; with the mutex.
  std::vector<LogField> Fields(const Question& q, std::vector<LogField> more = {}) const {
    std::vector<LogField> all = {{"round", std::uint64_t{q.round}}};
    if (q.step != 0) all.push_back({"step", std::uint64_t{q.step}});
    all.push_back({"answers", answers_.size()});
    all.push_back({"asked", q.who.size()});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // client: as a certificate says, which may say anything.
  void LogRefused(const std::string& client, const char* reason, const std::string& why) const {
    const bool name = IsPartyName(client);
    std::vector<LogField> fields;
    if (name) fields.push_back({"client", client});
    fields.push_back({"reason", std::string(reason)});
    LogOf(name && ClientOf(job_, client).ok() ? client : "", reason,
          {Event::kCallerRefused, fmt::format("refused {}: {}", name ? client : "a caller", why),
           std::move(fields)});
  }
  // Whether a question is not waited for any longer, once the server is to stop.
  bool Drained(const Question& q) {
    const auto now = steady_clock::now();
    if (!drain_) {
      drain_ = now + std::chrono::milliseconds(static_cast<long>(1000 * o_.drain));
      if (o_.drain > 0)
        Log({Event::kDraining,
             fmt::format("stopping when round {} is over, or in {:g} s; again: at once", q.round, o_.drain),
             {{"round", std::uint64_t{q.round}}, {"seconds", o_.drain}}});
    }
    return now >= *drain_;
  }

  // Whether an answer is one that a client pays for and keeps under the round's number.
  static bool Releases(bool last, std::uint32_t step) { return !last && (step == 0 || step >= kMaskInput); }
  // A line a client: the round, its name, and the folder its answers come from, "-" before there are any;
  // durable when it returns.
  Status KeepAnswered() {
    const std::lock_guard one(file_mutex_);
    return WriteAnswered();
  }
  Status WriteAnswered() {  // under file_mutex_
    if (o_.answered.empty()) return Ok{};
    std::string text;
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < answered_.size(); ++i)
        text += AnsweredLine(answered_[i], job_.clients[i], folder_[i]);
    }
    Status written = WriteWhole(o_.answered, text);
    counts_.unkept = !written.ok();
    if (written.ok()) torn_ = false;
    return written;
  }
  // The file is written anew after every round; in between lines are added to it, of which the last one of a
  // client counts, and which survive the process (and, once the round is over, a power cut).
  Status ReadAnswered() {
    std::error_code ec;
    if (o_.answered.empty() || !std::filesystem::exists(o_.answered, ec)) return Ok{};
    const std::lock_guard one(file_mutex_);
    TACIT_TRY(const std::string text, ReadWhole(o_.answered, 1 << 26));
    torn_ = !text.empty() && text.back() != '\n';
    const std::lock_guard lock(mutex_);
    if (TakeAnswered(text, job_, answered_, folder_)) return Ok{};
    return Fail(Code::kMalformed, "{}: is not a list of the clients of this job; put it back, or remove it",
                o_.answered.string());
  }
  // That a client sends an answer to this round, and from where: it has paid for it, and it has left, whether
  // or not it is counted. A client that lies shuts out itself.
  Status NoteAnswer(std::uint32_t client, const std::string& session, const v1::AnswerPart& part) {
    if (!Releases(part.last(), part.step()) || part.round() > job_.config.algorithm.rounds) return Ok{};
    const std::lock_guard one(file_mutex_);
    const std::string folder = session.substr(0, kSessionPart);
    {
      const std::lock_guard lock(mutex_);
      if (answered_[client] >= part.round()) return Ok{};
    }
    if (!o_.answered.empty()) {
      if (torn_) TACIT_OK(WriteAnswered());  // a line that was cut is not gone on with
      std::ofstream file(o_.answered, std::ios::app);
      file << AnsweredLine(part.round(), job_.clients[client], folder) << std::flush;
      counts_.unkept = torn_ = !file.good();
      if (torn_) return Fail(Code::kIo, "{}: cannot be written", o_.answered.string());
    }
    const std::lock_guard lock(mutex_);
    answered_[client] = part.round();  // nobody else changes it meanwhile
    folder_[client] = folder;
    if (!session_[client].starts_with(folder)) session_[client] = session;  // who enrolled since is not heard
    return Ok{};
  }

  // The client behind a call, by its certificate alone.
  grpc::Status Who(const ServerContext& call, std::uint32_t& client) {
    const grpc::Status known = Known(call, client);
    if (!known.ok()) ++counts_.turned_away;
    return known;
  }
  grpc::Status Known(const ServerContext& call, std::uint32_t& client) const {
    const auto peer = call.auth_context();
    const auto certificates = peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    const std::string shown =
        certificates.size() == 1 ? std::string(certificates[0].data(), certificates[0].size()) : "";
    const std::string name = NameIn(shown);
    if (!peer->IsPeerAuthenticated() || name.empty())
      return Refuse(grpc::StatusCode::UNAUTHENTICATED, "a certificate with one common name is needed");
    const Status s = revoked_.Check(shown);
    if (revoked_.Outdated() && !outdated_.exchange(true)) Log(ListIsOutdated(o_.revocations.string()));
    if (!s.ok()) {
      LogRefused(name, s.error().code == Code::kIo ? "no_list" : "certificate", s.error().message);
      // A list that cannot be read now says nothing of this client: it is to come again.
      return Refuse(
          s.error().code == Code::kIo ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::UNAUTHENTICATED,
          s.error().message);
    }
    const auto found = ClientOf(job_, name);
    if (!found.ok()) {
      LogRefused(name, "not_in_job", "not a client of this job");
      return Refuse(grpc::StatusCode::PERMISSION_DENIED, found.error().message);
    }
    client = *found;
    return grpc::Status::OK;
  }
  // Two processes of one client would both release the rounds that they are asked for, if each has a folder
  // of its own or they have copies of one. So the process that enrolled last is heard alone; it is asked, and
  // let send, when no other one sends any more; and once an answer has come, nothing is heard but from the
  // folder it came from.
  static bool IsSession(const std::string& text) { return IsHex(text, 2 * kSessionPart); }
  grpc::Status SessionOf(const ServerContext& call, std::string& session) const {
    const auto said = call.client_metadata().find(kSessionKey);
    if (said != call.client_metadata().end()) session.assign(said->second.data(), said->second.size());
    if (IsSession(session)) return grpc::Status::OK;
    return Refuse(grpc::StatusCode::INVALID_ARGUMENT, "a call without a session; enrol first");
  }
  // With the mutex, as what follows.
  grpc::Status Current(std::uint32_t client, const std::string& session) {
    if (auto s = AtHome(client, session); !s.ok()) return s;
    if (session_[client].empty()) session_[client] = session;  // of before this server was started anew
    return session_[client] == session ? grpc::Status::OK : Replaced(client);
  }
  grpc::Status Replaced(std::uint32_t client) {
    ++counts_.turned_away;
    LogRefused(job_.clients[client], "replaced", "another process of it has enrolled since");
    return Refuse(grpc::StatusCode::PERMISSION_DENIED, "another process has joined as this client since");
  }
  // A call of a process that is gone may come after its successor's.
  static bool Before(const std::string& session, const std::string& other) {
    const auto folder = [](std::string_view s) { return s.substr(0, kSessionPart); };
    const auto start = [](std::string_view s) { return s.substr(kSessionPart, kStartDigits); };
    return !other.empty() && folder(session) == folder(other) && start(session) < start(other);
  }
  grpc::Status AtHome(std::uint32_t client, const std::string& session) {
    if (folder_[client].empty() || session.starts_with(folder_[client])) return grpc::Status::OK;
    ++counts_.turned_away;
    LogRefused(job_.clients[client], "other_folder", "it has another folder than that of its answers");
    return Refuse(grpc::StatusCode::PERMISSION_DENIED,
                  fmt::format("it has answers of this client up to round {} from another --state, and from "
                              "this one the rounds would be released and paid anew; give that folder, or "
                              "leave this job",
                              answered_[client]));
  }
  bool OthersSend(std::uint32_t client, const std::string& session) const {
    return std::any_of(uploads_.begin(), uploads_.end(),
                       [&](const Upload& u) { return u.client == client && u.session != session; });
  }
  struct Upload {
    ServerContext* call;
    std::uint32_t client;
    std::string session;
    steady_clock::time_point begun;
    std::uint64_t bytes = 0;  // as its first part says
  };
  // One of the calls of a client that are open, of a kind.
  class Open {
   public:
    // upload: ended if it takes too long, or another process of the client enrols; null: this call is none.
    Open(Server& server, std::vector<int>& counts, std::uint32_t client, const std::string& session,
         ServerContext* upload = nullptr)
        : server_(server), at_(counts[client]) {
      const std::lock_guard lock(server_.mutex_);
      if (at_ >= kOpen)
        allowed_ = Refuse(grpc::StatusCode::UNAVAILABLE, "this client has calls open already; try again");
      else if (allowed_ = server_.Current(client, session); allowed_.ok() && upload != nullptr)
        Begin(upload, client, session);
      ++at_;  // when nothing can throw any more: what is not made is not taken down
    }
    ~Open() {
      const std::lock_guard lock(server_.mutex_);
      --at_;
      if (place_) server_.uploads_.erase(*place_);
    }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    const grpc::Status& allowed() const { return allowed_; }
    void Says(std::uint64_t bytes) {
      const std::lock_guard lock(server_.mutex_);
      if (place_) (*place_)->bytes = bytes;
    }

   private:
    void Begin(ServerContext* upload, std::uint32_t client, const std::string& session) {
      if (server_.OthersSend(client, session))
        allowed_ = Refuse(grpc::StatusCode::UNAVAILABLE, "another process of this client sends; try again");
      else
        place_ = server_.uploads_.insert(server_.uploads_.end(),
                                         {upload, client, session, steady_clock::now(), 0});
    }
    Server& server_;
    int& at_;
    grpc::Status allowed_ = grpc::Status::OK;
    std::optional<std::list<Upload>::iterator> place_;
  };
  // Ends uploads that take too long; with the mutex.
  void EndSlowUploads() {
    const auto now = steady_clock::now();
    for (const Upload& u : uploads_)
      if (now - u.begun > TimeFor(o_.upload, u.bytes, o_.link)) u.call->TryCancel();
  }
  grpc::Status OtherJob() const {
    return Refuse(grpc::StatusCode::FAILED_PRECONDITION, "the server runs another job now; join again");
  }

  grpc::Status Enrol(ServerContext* call, const v1::EnrolRequest* in, v1::EnrolReply* out) override {
    std::uint32_t client = 0;
    if (auto s = Who(*call, client); !s.ok()) return s;
    if (in->protocol() != kProtocol)
      return Refuse(grpc::StatusCode::FAILED_PRECONDITION,
                    fmt::format("the server speaks protocol {} and the client {}; use one version of tacit",
                                kProtocol, in->protocol()));
    out->set_protocol(kProtocol);
    out->set_job(id_);
    out->set_toml(toml_);
    const bool review = in->session().empty();
    if (!review && !IsSession(in->session()))
      return Refuse(grpc::StatusCode::INVALID_ARGUMENT, "a session that is none");
    {
      const std::lock_guard lock(mutex_);
      out->set_answered(answered_[client]);
      if (!review) {
        if (auto s = AtHome(client, in->session()); !s.ok()) return s;
        if (Before(in->session(), session_[client])) return Replaced(client);
        session_[client] = in->session();
        for (const Upload& u : uploads_)
          if (u.client == client && u.session != in->session()) u.call->TryCancel();
      }
    }
    const std::string& name = job_.clients[client];
    LogOf(name, "",
          {review ? Event::kJobRead : Event::kClientJoined,
           fmt::format("{} {}", name, review ? "has read the job" : "takes part"),
           {{"client", name}}});
    return grpc::Status::OK;
  }

  grpc::Status Next(ServerContext* call, const v1::NextRequest* in,
                    grpc::ServerWriter<v1::WorkPart>* out) override {
    std::uint32_t client = 0;
    if (auto s = Who(*call, client); !s.ok()) return s;
    if (in->job() != id_) return OtherJob();
    std::string session;
    if (auto s = SessionOf(*call, session); !s.ok()) return s;
    const Open open(*this, waiting_, client, session);
    if (!open.allowed().ok()) return open.allowed();
    v1::WorkPart part;
    std::shared_ptr<const std::string> frame;  // one for all clients, unless a part of it is a client's own
    std::string own;
    {
      std::unique_lock lock(mutex_);
      if (!here_[client]) ++counts_.seen;
      here_[client] = true;
      const auto until = steady_clock::now() + kWait;
      const auto wanted = [&] { return Wanted(client) && !OthersSend(client, session); };
      while (!over_ && !closing_ && !wanted() && session_[client] == session && steady_clock::now() < until &&
             !call->IsCancelled())
        asked_.wait_for(lock, Wanted(client) ? kPoll : kNotice);
      if (auto s = Current(client, session); !s.ok()) return s;
      if (wanted()) {
        part.set_kind(question_->last ? v1::WorkPart::LAST : v1::WorkPart::ROUND);
        part.set_round(question_->round);
        part.set_step(question_->step);
        part.set_question(Name(client));
        if (!question_->counted.empty()) part.set_counted(question_->counted[PlaceOf(client)]);
        part.set_answered(answered_[client]);
        frame = frame_;
        const auto bytes = Personal(client);
        own.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      } else if (over_) {
        part.set_kind(v1::WorkPart::OVER);
      }
    }
    if (frame != nullptr)  // the list may have changed while it waited
      if (auto s = NotRevoked(*call, client); !s.ok()) return s;
    if (!own.empty()) frame = std::make_shared<const std::string>(*frame + own);
    const std::size_t size = frame != nullptr ? frame->size() : 0;
    part.set_size(size);
    counts_.bytes_out += size;
    const bool over = part.kind() == v1::WorkPart::OVER;
    bool sent = true;
    for (std::size_t at = 0; sent && (at == 0 || at < size); at += kPart) {
      if (size != 0) part.set_data(frame->data() + at, std::min(kPart, size - at));
      sent = out->Write(part);
      part.Clear();
    }
    if (over && sent) {
      const std::lock_guard lock(mutex_);
      told_[client] = true;
      changed_.notify_all();
    }
    return grpc::Status::OK;
  }
  // What this client alone is asked, after the frame.
  std::span<const std::byte> Personal(std::uint32_t client) const {
    if (question_->personal.empty()) return {};
    return question_->personal[PlaceOf(client)];
  }
  std::size_t PlaceOf(std::uint32_t client) const {  // among those who are asked, as it is
    const auto place = std::lower_bound(question_->who.begin(), question_->who.end(), client);
    return static_cast<std::size_t>(place - question_->who.begin());
  }
  // The question's name for a client, by its content: a server that is restarted and asks the same takes the
  // answers that were on their way, and none to what it does not ask any more.
  std::string Name(std::uint32_t client) const {
    Sha256 all;
    all.Add(std::span<const std::byte>(broadcast_));
    all.Add(Personal(client));
    const Sha256::Digest digest = all.Finish();
    return {reinterpret_cast<const char*>(digest.data()), kName};
  }
  bool Wanted(std::uint32_t client) const {
    return question_ != nullptr && answers_.find(client) == answers_.end() &&
           std::binary_search(question_->who.begin(), question_->who.end(), client);
  }

  grpc::Status Answer(ServerContext* call, grpc::ServerReader<v1::AnswerPart>* in,
                      v1::AnswerReply*) override {
    std::uint32_t client = 0;
    if (auto s = Who(*call, client); !s.ok()) return s;
    std::string session;
    if (auto s = SessionOf(*call, session); !s.ok()) return s;
    Open open(*this, answering_, client, session, call);
    if (!open.allowed().ok()) return open.allowed();
    call->AddInitialMetadata(kReadyKey, "1");
    in->SendInitialMetadata();  // before this a client sends nothing
    v1::AnswerPart part;
    if (!in->Read(&part)) return Refuse(grpc::StatusCode::INVALID_ARGUMENT, "an answer without a first part");
    if (part.job() != id_) return OtherJob();
    if (const Status kept = NoteAnswer(client, session, part); !kept.ok()) {
      Log({Event::kAnswersNotKept, kept.error().message});
      return Refuse(grpc::StatusCode::UNAVAILABLE, "the server cannot keep what it is sent; try again");
    }
    std::uint64_t number = 0, most = 0;
    {
      const std::lock_guard lock(mutex_);
      const Question* q = question_;
      number = number_;
      if (q == nullptr || q->round != part.round() || q->last != part.last() || q->step != part.step())
        return Refused(client, grpc::StatusCode::ABORTED, "the answer is to a round that is not asked for");
      if (!std::binary_search(q->who.begin(), q->who.end(), client))
        return Refused(client, grpc::StatusCode::PERMISSION_DENIED, "the client is not asked in this round");
      if (part.question() != Name(client))
        return Refused(client, grpc::StatusCode::ABORTED, "the answer is to a question that is not asked");
      most = q->most_bytes;
    }
    const std::uint64_t size = part.size();
    if (size > most)
      return Refused(client, grpc::StatusCode::OUT_OF_RANGE,
                     fmt::format("the answer has {} bytes, and {} is the most", size, most));
    open.Says(size);
    Bytes bytes;
    bytes.reserve(size);
    do {
      if (part.data().size() > size - bytes.size())
        return Refused(client, grpc::StatusCode::INVALID_ARGUMENT, "the answer is longer than it says");
      const auto* data = reinterpret_cast<const std::byte*>(part.data().data());
      bytes.insert(bytes.end(), data, data + part.data().size());
    } while (in->Read(&part));
    if (bytes.size() != size)
      return Refused(client, grpc::StatusCode::INVALID_ARGUMENT, "the answer is shorter than it says");
    if (auto s = NotRevoked(*call, client); !s.ok()) return s;
    return Take(client, number, std::move(bytes));
  }

  grpc::Status Take(std::uint32_t client, std::uint64_t number, Bytes bytes) {
    std::unique_lock lock(mutex_);
    if (question_ == nullptr || number_ != number)
      return Refused(client, grpc::StatusCode::ABORTED, "the round ended before the answer was whole");
    const Question& q = *question_;  // Ask waits for readers before it goes
    const Status fits = [&] {
      const Reading reading(*this, lock);
      const Status all = q.check(bytes);
      return all.ok() && q.check_from ? q.check_from(client, bytes) : all;
    }();
    if (!fits.ok()) return Refused(client, grpc::StatusCode::INVALID_ARGUMENT, fits.error().message);
    if (question_ == nullptr || number_ != number)
      return Refused(client, grpc::StatusCode::ABORTED, "the round ended before the answer was whole");
    const auto [at, fresh] = answers_.try_emplace(client, std::move(bytes));
    if (!fresh && at->second != bytes)  // not moved from where the place was taken
      return Refused(client, grpc::StatusCode::ALREADY_EXISTS, "the client has answered otherwise before");
    if (fresh) ++counts_.answers, counts_.bytes_in += at->second.size();
    changed_.notify_all();
    return grpc::Status::OK;
  }
  // The question is looked at without the mutex.
  class Reading {
   public:
    Reading(Server& server, std::unique_lock<std::mutex>& lock) : server_(server), lock_(lock) {
      ++server_.readers_;
      lock_.unlock();
    }
    ~Reading() {
      lock_.lock();
      --server_.readers_;
      server_.changed_.notify_all();
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    Server& server_;
    std::unique_lock<std::mutex>& lock_;
  };
  // Once more, for calls that have been open for a while.
  grpc::Status NotRevoked(const ServerContext& call, std::uint32_t client) {
    return o_.revocations.empty() ? grpc::Status::OK : Who(call, client);
  }
  grpc::Status Refused(std::uint32_t client, grpc::StatusCode code, const std::string& why) {
    ++counts_.refused;
    const char* reason = code == grpc::StatusCode::ABORTED             ? "stale"
                         : code == grpc::StatusCode::PERMISSION_DENIED ? "not_asked"
                         : code == grpc::StatusCode::OUT_OF_RANGE      ? "too_long"
                         : code == grpc::StatusCode::ALREADY_EXISTS    ? "differs"
                                                                       : "malformed";
    const std::string& name = job_.clients[client];
    LogOf(name, reason,
          {Event::kAnswerRefused,
           fmt::format("refused an answer of {}: {}", name, why),
           {{"client", name}, {"round", counts_.round.load()}, {"reason", std::string(reason)}}});
    return Refuse(code, why);
  }

  const Job& job_;
  const CertificateRoster roster_;
  const std::string toml_, id_;
  ServeOptions o_;
  Revocations revoked_;
  mutable std::atomic<bool> outdated_ = false;  // it was said that the list is
  ServerCounts counts_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;

  mutable std::mutex limit_mutex_;
  mutable LogLimit limit_;  // under it

  std::mutex file_mutex_;  // of the file of answers; taken before the other
  bool torn_ = false;  // that file may end with part of a line; under file_mutex_
  std::mutex mutex_;
  std::condition_variable changed_;  // for whoever asks: an answer more, or a reader less
  std::condition_variable asked_;  // for the many who wait to be asked, whom an answer need not wake
  const Question* question_ = nullptr;  // null: between rounds
  std::shared_ptr<const std::string> frame_;  // its frame
  Sha256::Digest broadcast_ = {};  // of its frame
  std::uint64_t number_ = 0;  // of questions so far
  std::size_t readers_ = 0;  // calls that look at the question without the mutex
  std::map<std::uint32_t, Bytes> answers_;
  bool over_ = false, closing_ = false;
  std::vector<bool> told_, here_;  // by client: that it is over; has called
  std::vector<int> waiting_, answering_;  // and its open calls
  std::vector<std::uint32_t> answered_;  // and the last round that it has sent an answer to
  std::vector<std::string> session_;  // and who enrolled last; empty: nobody has since the start
  std::vector<std::string> folder_;  // and where its answers come from; empty: there are none
  std::list<Upload> uploads_;
  std::optional<steady_clock::time_point> drain_;  // the end of the last question
};

}  // namespace

std::string NewName() {
  std::array<std::byte, kSessionPart / 2> bits{};
  RandomBytes(bits);
  return Hex(bits);
}

Result<std::unique_ptr<FederationServer>> FederationServer::Start(const Job& job, std::string id,
                                                                  const ServeOptions& o) {
  if (const std::size_t size = ToToml(job).size(); size > kLargestJob)
    return Fail(Code::kInvalidArgument,
                "the job has {} bytes with all its keys, and clients take {} at most; name fewer clients, or "
                "shorten its longest texts",
                size, kLargestJob);
  auto server = std::make_unique<Server>(job, std::move(id), o);
  TACIT_OK(server->Listen());
  return Result<std::unique_ptr<FederationServer>>(std::move(server));
}

}  // namespace tacit
