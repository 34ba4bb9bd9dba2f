#include "net/peers.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include <federation.grpc.pb.h>
#include "experiment/files.h"
#include "experiment/peer_site.h"
#include "net/deadline.h"
#include "net/server.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr auto kPoll = 50ms;                     // how late a stop or a hang-up is noticed
constexpr auto kWait = 10s;                      // of one call for a note that is not there yet
constexpr auto kSoon = 1s;  // a neighbour that says sooner that it is not so far is asked again after a pause
constexpr int kOpen = 2;  // calls that a neighbour may have open at once: one may be about to be noticed
constexpr char kHeard[] = "heard";  // a file beside the checkpoint
constexpr std::size_t kPart = 256 << 10;

std::string NameBehind(const grpc::AuthContext& peer) {
  const auto shown = peer.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (!peer.IsPeerAuthenticated() || shown.size() != 1) return "";
  return NameIn(std::string(shown[0].data(), shown[0].size()));
}
// Issued for a peer: a client may have the same name, and be somebody else.
bool IsPeers(const grpc::AuthContext& peer, const std::string& name) {
  const auto hosts = peer.FindPropertyValues(GRPC_X509_SAN_PROPERTY_NAME);
  return std::find(hosts.begin(), hosts.end(), PeerHost(name)) != hosts.end();
}

class PostOffice final : public Post, public v1::Peers::Service {
 public:
  PostOffice(const PeerSettings& o, std::string name, std::span<const std::uint32_t> neighbours,
             std::size_t rounds, std::size_t most_bytes, fs::path folder)
      : o_(o),
        name_(std::move(name)),
        rounds_(static_cast<std::uint32_t>(rounds)),
        most_bytes_(most_bytes),
        folder_(std::move(folder)),
        revoked_(o.revocations, o.identity.authority),
        counts_(o.counts != nullptr ? *o.counts : nobody_) {
    for (const std::uint32_t l : neighbours) neighbours_[l];
    counts_.rounds = rounds;
    counts_.neighbours = neighbours.size();
  }
  ~PostOffice() override {
    if (server_ == nullptr) return;
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    server_->Shutdown(In(2s));
  }

  Status Listen(const std::string& address) {
    grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = o_.identity.authority;
    tls.pem_key_cert_pairs.push_back({o_.identity.key, o_.identity.certificate});
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::SslServerCredentials(tls), &port);
    builder.RegisterService(static_cast<v1::Peers::Service*>(this));
    builder.SetMaxReceiveMessageSize(1 << 16);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 4);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000);  // as in server.cc
    grpc::ResourceQuota quota;
    quota.SetMaxThreads(static_cast<int>(8 * neighbours_.size() + 64));
    builder.SetResourceQuota(quota);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0)
      return Fail(Code::kIo,
                  "{}: cannot be listened at; is the address one of this machine and the port free, and is "
                  "the certificate a peer's (`tacit keys issue NAME --peer`)?",
                  address);
    if (o_.listening) o_.listening(port);
    return Ok{};
  }

  Status Publish(std::uint32_t place, Bytes note) override {
    const std::lock_guard lock(mutex_);
    notes_[place] = std::move(note);
    while (notes_.size() > 2) notes_.erase(notes_.begin());
    made_ = notes_.rbegin()->first;
    // It was made when everybody's notes of the rounds before were here, and its checkpoint says so.
    unkept_ = false;
    for (auto& [l, one] : neighbours_) one.has = std::max(one.has, place - 1);
    changed_.notify_all();
    return Ok{};
  }

  Status Fetch(std::uint32_t place, std::span<const std::uint32_t> from,
               const std::function<Status(std::span<const std::byte>)>& check,
               std::vector<Bytes>& notes) override {
    notes.assign(from.size(), {});
    counts_.round = place;
    counts_.heard = 0;
    std::vector<Status> done(from.size(), Ok{});
    std::atomic<std::size_t> left = from.size();
    std::atomic<bool> give_up = false;
    Status kept = Ok{};
    {
      std::vector<std::jthread> each;
      for (std::size_t i = 0; i < from.size(); ++i)
        each.emplace_back([&, i] {
          done[i] = FetchOne(place, from[i], check, give_up, notes[i]);
          if (!done[i].ok()) give_up = true;
          --left;
          changed_.notify_all();
        });
      const auto begin = steady_clock::now();
      std::unique_lock lock(mutex_);
      while (left > 0) {
        if (unkept_ && steady_clock::now() - begin > kSoon && kept.ok()) {
          const std::string text = HeardText();
          unkept_ = false;
          lock.unlock();
          kept = WriteWhole(folder_ / kHeard, text);
          if (!kept.ok()) give_up = true;
          lock.lock();
        }
        if (stopped() || give_up)  // nobody waits for an answer that is of no use
          for (grpc::ClientContext* call : calls_) call->TryCancel();
        changed_.wait_for(lock, kPoll);
      }
    }
    if (!kept.ok()) return kept;
    for (const Status& s : done)
      if (!s.ok() && s.error().code != Code::kInterrupted) return s;
    for (const Status& s : done) TACIT_OK(s);
    Log(place > 0 ? fmt::format("round {} of {}: heard {}", place, rounds_, from.size()) : "");
    return Ok{};
  }

  // What an earlier process here had of others' notes.
  Status Remember() {
    const auto text = ReadWhole(folder_ / kHeard, 1 << 26);
    if (!text.ok()) return text.error().code == Code::kNotFound ? Status(Ok{}) : Status(text.error());
    const std::lock_guard lock(mutex_);
    std::istringstream lines(*text);
    std::string who;
    for (std::uint32_t place = 0; lines >> who >> place;)
      for (auto& [l, one] : neighbours_)
        if (NameOfPeer(l) == who) one.has = std::max(one.has, place);
    return Ok{};
  }
  // This peer has made nothing yet.
  void Begin() {
    const std::lock_guard lock(mutex_);
    made_ = 0;
    changed_.notify_all();
  }
  // Waits until all neighbours are there with the same job, before anything is paid for.
  Status Meet() {
    std::vector<std::uint32_t> all;
    for (const auto& one : neighbours_) all.push_back(one.first);
    std::vector<Bytes> none;
    return Fetch(0, all, [](std::span<const std::byte>) -> Status { return Ok{}; }, none);
  }

  // Tells the neighbours that this peer is done, and waits for them; true: all are.
  bool Finish(double seconds) {
    if (!made_) Begin();  // it has left before its first round
    const auto until = steady_clock::now() + std::chrono::duration<double>(seconds);
    std::vector<std::jthread> each;
    for (const auto& [l, standing] : neighbours_)
      each.emplace_back([this, l = l, until] {
        while (!stopped() && steady_clock::now() < until) {
          Reply reply;
          if (Call(l, rounds_ + 1, reply, 5s).ok()) return;
          std::this_thread::sleep_for(200ms);
        }
      });
    std::unique_lock lock(mutex_);
    const auto all = [&] {
      return std::all_of(neighbours_.begin(), neighbours_.end(),
                         [&](const auto& one) { return one.second.asked > rounds_; });
    };
    while (!all() && !stopped() && steady_clock::now() < until) changed_.wait_for(lock, kPoll);
    const bool free = all();
    if (stopped())
      for (grpc::ClientContext* call : calls_) call->TryCancel();
    lock.unlock();
    each.clear();
    return free;
  }

 private:
  struct Neighbour {
    std::uint32_t asked = 0;  // the last place it asked for: it has all before
    std::uint32_t has = 0;  // the last place of a note of its own that is known of
    bool heard = false;  // it has given this process a note
    int open = 0;  // its calls
    std::shared_ptr<grpc::Channel> channel = {};
  };
  struct Reply {
    v1::NotePart::Kind kind = v1::NotePart::WAIT;
    std::uint32_t place = 0;
    Bytes note;
  };
  // One of the calls that a neighbour has open.
  class Open {
   public:
    Open(std::mutex& mutex, Neighbour& who) : mutex_(mutex), who_(who) {
      const std::lock_guard lock(mutex_);
      allowed_ = ++who_.open <= kOpen;
    }
    ~Open() {
      const std::lock_guard lock(mutex_);
      --who_.open;
    }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    bool allowed() const { return allowed_; }

   private:
    std::mutex& mutex_;
    Neighbour& who_;
    bool allowed_ = false;
  };
  // A call of this peer's, for as long as it lasts.
  class InCalls {
   public:
    InCalls(PostOffice& of, grpc::ClientContext& call) : of_(of), call_(call) {
      const std::lock_guard lock(of_.mutex_);
      of_.calls_.insert(&call_);
    }
    ~InCalls() {
      const std::lock_guard lock(of_.mutex_);
      of_.calls_.erase(&call_);
    }
    InCalls(const InCalls&) = delete;
    InCalls& operator=(const InCalls&) = delete;

   private:
    PostOffice& of_;
    grpc::ClientContext& call_;
  };
  bool stopped() const { return o_.stop != nullptr && o_.stop->load(); }
  void Log(const std::string& line) const {
    if (o_.log && !line.empty()) o_.log(line);
  }
  const std::string& NameOfPeer(std::uint32_t l) const { return o_.job.clients[l]; }

  // A neighbour's side of Fetch.
  grpc::Status Fetch(grpc::ServerContext* call, const v1::FetchRequest* in,
                     grpc::ServerWriter<v1::NotePart>* out) override {
    const auto refuse = [&](grpc::StatusCode code, const std::string& who, const std::string& why) {
      ++counts_.turned_away;
      Log(fmt::format("refused {}: {}", IsPartyName(who) ? who : "a caller", why));
      return grpc::Status(code, why);
    };
    const std::string who = NameBehind(*call->auth_context());
    const auto certificates = call->auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (who.empty() || certificates.size() != 1)
      return refuse(grpc::StatusCode::UNAUTHENTICATED, who, "a certificate with one common name is needed");
    if (!IsPeers(*call->auth_context(), who))
      return refuse(grpc::StatusCode::UNAUTHENTICATED, who,
                    "the certificate is not a peer's (`tacit keys issue NAME --peer`)");
    if (const Status s = revoked_.Check(std::string(certificates[0].data(), certificates[0].size())); !s.ok())
      return refuse(
          s.error().code == Code::kIo ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::UNAUTHENTICATED,
          who, s.error().message);
    const auto place = ClientOf(o_.job, who);
    const auto found = place.ok() ? neighbours_.find(*place) : neighbours_.end();
    if (found == neighbours_.end())
      return refuse(grpc::StatusCode::PERMISSION_DENIED, who, "not a neighbour in this job");
    if (in->protocol() != kProtocol || in->job() != name_)
      return refuse(grpc::StatusCode::FAILED_PRECONDITION, who,
                    "another version or another job: both peers need the same file, and the same tacit");
    const Open open(mutex_, found->second);
    if (!open.allowed())
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "this peer has calls open already; try again");
    Neighbour& caller = found->second;
    const std::uint32_t asks = in->place();
    v1::NotePart part;
    Bytes note;
    {
      std::unique_lock lock(mutex_);
      const auto until = steady_clock::now() + kWait;
      const auto wait = [&](const auto& ready) {
        while (!ready() && !closing_ && steady_clock::now() < until && !call->IsCancelled())
          changed_.wait_for(lock, kPoll);
      };
      const auto made = [&] { return made_.value_or(0); };
      if (asks <= rounds_) wait([&] { return made_.has_value(); });
      if (asks > rounds_) {
        caller.asked = rounds_ + 1;
        changed_.notify_all();
        part.set_kind(v1::NotePart::DONE);
      } else if (!made_) {  // and it cannot tell yet what the caller should have
        part.set_kind(v1::NotePart::WAIT);
      } else if (const std::uint32_t has = std::max(caller.asked, caller.has); asks < has) {
        // What it has made is kept there before it asks for it, or gives it away.
        lock.unlock();
        return refuse(grpc::StatusCode::DATA_LOSS, who,
                      fmt::format("it had come to round {} before, and is at {} now: its state was put back "
                                  "from a copy or is gone, and rounds would be released again",
                                  has, asks));
      } else if (asks > made() + 1) {
        const std::uint32_t own = made();
        lock.unlock();
        return refuse(grpc::StatusCode::OUT_OF_RANGE, who,
                      fmt::format("it asks for round {}, and this peer has made {}", asks, own));
      } else {
        caller.asked = asks;
        changed_.notify_all();
        if (asks == 0) part.set_kind(v1::NotePart::DONE);
        if (asks > 0) wait([&] { return made() >= asks; });
        if (const auto kept = notes_.find(asks); kept != notes_.end()) {
          part.set_kind(v1::NotePart::NOTE);
          part.set_place(asks);
          note = kept->second;
        }
      }
    }
    part.set_size(note.size());
    const bool is_note = part.kind() == v1::NotePart::NOTE;
    for (std::size_t at = 0; at == 0 || at < note.size(); at += kPart) {
      part.set_data(note.data() + at, std::min(kPart, note.size() - at));
      if (!out->Write(part)) return {grpc::StatusCode::UNAVAILABLE, "the call has ended"};
      part.Clear();
    }
    if (is_note) ++counts_.sent, counts_.bytes_out += note.size();
    return grpc::Status::OK;
  }

  // One call to a neighbour. kMalformed: it says what no peer says; kMismatch: it turns this one away, or is
  // another; kIo: anything else.
  Status Call(std::uint32_t l, std::uint32_t place, Reply& reply, std::chrono::seconds within) {
    std::shared_ptr<grpc::Channel> channel;
    {
      const std::lock_guard lock(mutex_);
      std::shared_ptr<grpc::Channel>& kept = neighbours_.at(l).channel;
      if (kept == nullptr) {
        grpc::ChannelArguments arguments;
        arguments.SetSslTargetNameOverride(PeerHost(NameOfPeer(l)));  // who it is, not where
        arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // it is where its address says
        arguments.SetMaxReceiveMessageSize(1 << 20);
        kept = grpc::CreateCustomChannel(
            o_.job.addresses[l],
            grpc::SslCredentials({o_.identity.authority, o_.identity.key, o_.identity.certificate}),
            arguments);
      }
      channel = kept;
    }
    grpc::ClientContext call;
    call.set_deadline(In(within));
    const InCalls cancelled_at_a_stop(*this, call);
    v1::FetchRequest request;
    request.set_protocol(kProtocol);
    request.set_job(name_);
    request.set_place(place);
    const auto stream = v1::Peers::NewStub(channel)->Fetch(&call, request);
    v1::NotePart part;
    std::uint64_t size = 0;
    bool sound = true;
    reply = {};
    for (bool first = true; sound && stream->Read(&part); first = false) {
      if (first) reply.kind = part.kind(), reply.place = part.place(), size = part.size();
      sound = size <= most_bytes_ && part.data().size() <= size - reply.note.size();
      if (!sound) break;
      const auto* data = reinterpret_cast<const std::byte*>(part.data().data());
      reply.note.insert(reply.note.end(), data, data + part.data().size());
    }
    if (!sound) call.TryCancel();
    const grpc::Status done = stream->Finish();
    const std::string& who = NameOfPeer(l);
    if (!sound) return Fail(Code::kMalformed, "{}: sent more than a note of this job can have", who);
    if (done.ok()) {
      if (NameBehind(*call.auth_context()) != who)  // TLS compares names without their case
        return Fail(Code::kMismatch, "{}: another peer answers at {}", who, o_.job.addresses[l]);
      const auto shown = call.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
      const Status valid = shown.size() == 1 ? revoked_.Check(std::string(shown[0].data(), shown[0].size()))
                                             : Status(Fail(Code::kMismatch, "it shows no certificate"));
      if (!valid.ok())  // kIo: the list cannot be read now
        return Fail(valid.error().code == Code::kIo ? Code::kIo : Code::kMismatch,
                    "{}: is not listened to: {}", who, valid.error().message);
    }
    if (done.ok() && reply.note.size() == size) return Ok{};
    {  // tried anew on a connection of its own: see join.cc
      const std::lock_guard lock(mutex_);
      neighbours_.at(l).channel = nullptr;
    }
    switch (done.error_code()) {
      case grpc::StatusCode::DATA_LOSS:
      case grpc::StatusCode::FAILED_PRECONDITION:
      case grpc::StatusCode::PERMISSION_DENIED:
      case grpc::StatusCode::UNAUTHENTICATED:
        return Fail(Code::kMismatch, "{}: turned this peer away: {}", who, done.error_message());
      default: return Fail(Code::kIo, "{}: {}", who, done.ok() ? "a note was cut" : done.error_message());
    }
  }

  // By neighbour, the last note that is here: what is in no checkpoint while a round waits for somebody. A
  // neighbour whose state is put back meanwhile must hear of it from a process that comes after this one,
  // too.
  std::string HeardText() const {
    std::string out;
    for (const auto& [l, one] : neighbours_) out += fmt::format("{} {}\n", NameOfPeer(l), one.has);
    return out;
  }
  // Why this is not what was asked for.
  Status Judge(std::uint32_t place, const Reply& reply,
               const std::function<Status(std::span<const std::byte>)>& check) const {
    if (reply.kind != (place == 0 ? v1::NotePart::DONE : v1::NotePart::NOTE))
      return Fail(Code::kMalformed, "it is an answer to another question");
    if (place > 0 && reply.place != place) return Fail(Code::kMalformed, "it is of round {}", reply.place);
    return place == 0 || reply.note.empty() ? Status(Ok{}) : check(reply.note);
  }

  // Asks until there is a note, or for so long as patience is.
  Status FetchOne(std::uint32_t place, std::uint32_t l,
                  const std::function<Status(std::span<const std::byte>)>& check,
                  const std::atomic<bool>& give_up, Bytes& note) {
    const std::string& who = NameOfPeer(l);
    const auto begin = steady_clock::now();
    std::chrono::milliseconds pause = 50ms;
    std::set<Code> said;
    for (;;) {
      if (stopped() || give_up) return Fail(Code::kInterrupted, "stopped");
      const auto called = steady_clock::now();
      Reply reply;
      Status s = Call(l, place, reply, 30s);
      if (s.ok() && reply.kind != v1::NotePart::WAIT) {
        if (const Status fits = Judge(place, reply, check); fits.ok()) {
          Take(place, l, reply);
          note = std::move(reply.note);
          return Ok{};
        } else {
          s = Fail(Code::kMalformed, "{}: its note of round {} is none of this job: {}", who, place,
                   fits.error().message);
        }
      }
      if (stopped() || give_up) continue;
      const Code code = s.ok() ? Code::kIo : s.error().code;
      if (code == Code::kMalformed) ++counts_.refused;
      if (code == Code::kMismatch && !Heard(l)) return s;
      const std::chrono::duration<double> waited = steady_clock::now() - begin;
      if (waited.count() > o_.patience)
        return Fail(code,
                    "{} at {}: no note of round {} in {:.0f} seconds ({}); is it running, and as it should? "
                    "Give the same command again to go on",
                    who, o_.job.addresses[l], place, waited.count(),
                    s.ok() ? "it is behind" : s.error().message);
      if (!s.ok() && said.insert(code).second)
        Log(code == Code::kMalformed ? fmt::format("refused {}; asking again", s.error().message)
            : code == Code::kMismatch
                ? fmt::format("{}; asking again", s.error().message)
                : fmt::format("{}: not reached ({}); trying again", who, s.error().message));
      if (s.ok() && steady_clock::now() - called >= kSoon) {  // it is there, and not so far
        pause = 50ms;
        continue;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(1000));
    }
  }
  void Take(std::uint32_t place, std::uint32_t l, const Reply& reply) {
    const std::lock_guard lock(mutex_);
    if (place == 0) return;
    Neighbour& from = neighbours_.at(l);
    from.has = std::max(from.has, place);
    from.heard = true;
    unkept_ = true;
    ++counts_.received, ++counts_.heard;
    counts_.bytes_in += reply.note.size();
  }
  bool Heard(std::uint32_t l) {
    const std::lock_guard lock(mutex_);
    return neighbours_.at(l).heard;
  }

  const PeerSettings& o_;
  const std::string name_;
  const std::uint32_t rounds_;
  const std::size_t most_bytes_;
  const fs::path folder_;
  Revocations revoked_;
  PeerCounts nobody_;  // watches
  PeerCounts& counts_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, Bytes> notes_;  // by place: the last two
  std::optional<std::uint32_t> made_;  // the last place of a note; none: not known yet
  std::map<std::uint32_t, Neighbour> neighbours_;
  std::set<grpc::ClientContext*> calls_;
  bool unkept_ = false;  // somebody's note is here, and no file says so
  bool closing_ = false;
};

}  // namespace

Result<Joined> TakePeersPart(const PeerSettings& o) {
  TACIT_TRY(Plan plan, PlanOf(o.job));
  if (!plan.network)
    return Fail(Code::kInvalidArgument,
                "algorithm.name = \"{}\": has a server; use `tacit serve` and `tacit join`",
                o.job.config.algorithm.name);
  TACIT_OK(CheckPolicy(o.policy, o.job, plan));
  TACIT_TRY(const std::uint32_t own, ClientOf(o.job, o.identity.name));
  const std::string name = NameOf(o.job, plan);
  Joined joined{
      .job = name.substr(0, 32), .folder = o.state / name.substr(0, 32), .result = {}, .over = false};
  const std::size_t lengths[] = {plan.dim};
  const Graph graph = plan.network->graph;
  PostOffice post(o, name, graph.of(own), plan.schedule.size(), MostBytes(lengths, 0), joined.folder);
  TACIT_OK(post.Listen(o.listen.empty() ? o.job.addresses[own] : o.listen));
  const Enrolment enrolment{.name = o.identity.name,
                            .data = o.data,
                            .folder = joined.folder,
                            .ledger = o.ledger.empty() ? o.state / "ledger.db" : o.ledger};
  const auto attend = [&](PeerSite& site) -> Result<bool> {
    if (o.log) o.log(fmt::format("job {}, {} neighbours", joined.job, graph.degree(own)));
    std::error_code ec;
    TACIT_OK(post.Remember());
    if (!fs::exists(joined.folder / "checkpoint", ec)) {
      post.Begin();
      TACIT_OK(post.Meet());
    }
    TACIT_OK(site.Attend(post));
    const bool free = post.Finish(o.linger);
    if (!free && o.stop != nullptr && o.stop->load())
      return Fail(Code::kInterrupted, "stopped while neighbours may need the last note");
    if (!free && o.log)
      o.log("some neighbours are not done; if one asks for this peer, give the same command again");
    joined.over = true;
    if (free) fs::remove(joined.folder / kHeard, ec);
    return free;
  };
  TACIT_TRY(joined.result, TakePlace(o.job, std::move(plan), enrolment, attend));
  if (joined.over && o.counts != nullptr) o.counts->over = true;
  return joined;
}

}  // namespace tacit
