#include "net/peers.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
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
constexpr int kOpen = 2;  // calls that a neighbour may have open at once: one may be about to be noticed
constexpr std::size_t kPart = 256 << 10;

std::string NameBehind(const grpc::AuthContext& peer) {
  const auto shown = peer.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (!peer.IsPeerAuthenticated() || shown.size() != 1) return "";
  return NameIn(std::string(shown[0].data(), shown[0].size()));
}

class PostOffice final : public Post, public v1::Peers::Service {
 public:
  PostOffice(const PeerSettings& o, std::string name, std::span<const std::uint32_t> neighbours,
             std::size_t rounds, std::size_t most_bytes)
      : o_(o),
        name_(std::move(name)),
        rounds_(static_cast<std::uint32_t>(rounds)),
        most_bytes_(most_bytes),
        revoked_(o.revocations, o.identity.authority) {
    for (const std::uint32_t l : neighbours) neighbours_[l];
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
    changed_.notify_all();
    return Ok{};
  }

  Status Fetch(std::uint32_t place, std::span<const std::uint32_t> from,
               const std::function<Status(std::span<const std::byte>)>& check,
               std::vector<Bytes>& notes) override {
    notes.assign(from.size(), {});
    {
      // Who asks for a round has heard the one before; and of this peer nobody can have heard more than it
      // has.
      const std::lock_guard lock(mutex_);
      for (const auto& [l, one] : neighbours_)
        if (one.asked > place + 1 && one.asked <= rounds_)
          return Fail(
              Code::kMismatch,
              "{} has heard round {} of this peer, which knows of {} rounds: its state was put back from a "
              "copy, and rounds would be released again; put the newest back, or leave this job",
              NameOfPeer(l), one.asked - 1, place);
    }
    std::vector<Status> done(from.size(), Ok{});
    {
      std::vector<std::jthread> each;
      for (std::size_t i = 0; i < from.size(); ++i)
        each.emplace_back([&, i] { done[i] = FetchOne(place, from[i], check, notes[i]); });
    }
    for (const Status& s : done) TACIT_OK(s);
    if (o_.log && place > 0) o_.log(fmt::format("round {} of {}: heard {}", place, rounds_, from.size()));
    return Ok{};
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
    lock.unlock();
    each.clear();
    return free;
  }

 private:
  struct Neighbour {
    std::uint32_t asked = 0;  // the last place it asked for: it has all before
    int open = 0;  // its calls
    std::shared_ptr<grpc::Channel> channel = {};
  };
  struct Reply {
    v1::NotePart::Kind kind = v1::NotePart::WAIT;
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
  bool stopped() const { return o_.stop != nullptr && o_.stop->load(); }
  void Log(const std::string& line) const {
    if (o_.log) o_.log(line);
  }
  const std::string& NameOfPeer(std::uint32_t l) const { return o_.job.clients[l]; }

  // A neighbour's side of Fetch.
  grpc::Status Fetch(grpc::ServerContext* call, const v1::FetchRequest* in,
                     grpc::ServerWriter<v1::NotePart>* out) override {
    const auto refuse = [&](grpc::StatusCode code, const std::string& who, const std::string& why) {
      Log(fmt::format("refused {}: {}", IsPartyName(who) ? who : "a caller", why));
      return grpc::Status(code, why);
    };
    const std::string who = NameBehind(*call->auth_context());
    const auto certificates = call->auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (who.empty() || certificates.size() != 1)
      return refuse(grpc::StatusCode::UNAUTHENTICATED, who, "a certificate with one common name is needed");
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
    v1::NotePart part;
    Bytes note;
    {
      std::unique_lock lock(mutex_);
      if (in->place() != 0 && in->place() < found->second.asked) {
        lock.unlock();
        return refuse(grpc::StatusCode::OUT_OF_RANGE, who,
                      "it has asked for a later round before: its state was put back from a copy");
      }
      found->second.asked = std::max(found->second.asked, in->place());
      changed_.notify_all();
      const auto until = steady_clock::now() + kWait;
      if (in->place() == 0 || in->place() > rounds_) {
        part.set_kind(v1::NotePart::DONE);
      } else {
        while (!closing_ && (notes_.empty() || notes_.rbegin()->first < in->place()) &&
               steady_clock::now() < until && !call->IsCancelled())
          changed_.wait_for(lock, kPoll);
        if (const auto kept = notes_.find(in->place()); kept != notes_.end()) {
          part.set_kind(v1::NotePart::NOTE);
          note = kept->second;
        } else if (!notes_.empty() && notes_.rbegin()->first > in->place()) {
          lock.unlock();
          return refuse(grpc::StatusCode::OUT_OF_RANGE, who,
                        "the note of that round is not kept any more: one of the two was put back to an "
                        "earlier state");
        }
      }
    }
    part.set_size(note.size());
    for (std::size_t at = 0; at == 0 || at < note.size(); at += kPart) {
      part.set_data(note.data() + at, std::min(kPart, note.size() - at));
      if (!out->Write(part)) break;
      part.Clear();
    }
    return grpc::Status::OK;
  }

  // One call to a neighbour. kIo: try again; anything else is for good.
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
      if (first) reply.kind = part.kind(), size = part.size();
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
      case grpc::StatusCode::FAILED_PRECONDITION:
      case grpc::StatusCode::OUT_OF_RANGE:
      case grpc::StatusCode::PERMISSION_DENIED:
      case grpc::StatusCode::UNAUTHENTICATED:
        return Fail(Code::kMismatch, "{}: turned this peer away: {}", who, done.error_message());
      default: return Fail(Code::kIo, "{}: {}", who, done.ok() ? "a note was cut" : done.error_message());
    }
  }

  Status FetchOne(std::uint32_t place, std::uint32_t l,
                  const std::function<Status(std::span<const std::byte>)>& check, Bytes& note) {
    const auto begin = steady_clock::now();
    std::chrono::milliseconds pause = 50ms;
    for (bool said = false;;) {
      if (stopped()) return Fail(Code::kInterrupted, "stopped");
      Reply reply;
      Status s = Call(l, place, reply, 30s);
      if (!s.ok() && s.error().code != Code::kIo) return s;
      if (s.ok() && place == 0) return Ok{};
      if (s.ok() && reply.kind == v1::NotePart::NOTE) {
        if (!reply.note.empty())
          if (const Status fits = check(reply.note); !fits.ok())
            return Fail(Code::kMalformed, "{}: its note of round {} is none of this job: {}", NameOfPeer(l),
                        place, fits.error().message);
        note = std::move(reply.note);
        return Ok{};
      }
      const std::chrono::duration<double> waited = steady_clock::now() - begin;
      if (waited.count() > o_.patience)
        return Fail(Code::kIo,
                    "{} at {}: no note of round {} in {:.0f} seconds ({}); is it running? Give the same "
                    "command again to go on",
                    NameOfPeer(l), o_.job.addresses[l], place, waited.count(),
                    s.ok() ? "it is behind" : s.error().message);
      if (s.ok()) continue;  // it is there, and not so far
      if (!said) Log(fmt::format("{}: not reached ({}); trying again", NameOfPeer(l), s.error().message));
      said = true;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(1000));
    }
  }

  const PeerSettings& o_;
  const std::string name_;
  const std::uint32_t rounds_;
  const std::size_t most_bytes_;
  Revocations revoked_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, Bytes> notes_;  // by place: the last two
  std::map<std::uint32_t, Neighbour> neighbours_;
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
  PostOffice post(o, name, graph.of(own), plan.schedule.size(), MostBytes(lengths, 0));
  TACIT_OK(post.Listen(o.listen.empty() ? o.job.addresses[own] : o.listen));
  const Enrolment enrolment{.name = o.identity.name,
                            .data = o.data,
                            .folder = joined.folder,
                            .ledger = o.ledger.empty() ? o.state / "ledger.db" : o.ledger};
  const auto attend = [&](PeerSite& site) -> Result<bool> {
    if (o.log) o.log(fmt::format("job {}, {} neighbours", joined.job, graph.degree(own)));
    std::error_code ec;
    if (!fs::exists(joined.folder / "checkpoint", ec)) TACIT_OK(post.Meet());
    TACIT_OK(site.Attend(post));
    const bool free = post.Finish(o.linger);
    if (!free && o.stop != nullptr && o.stop->load())
      return Fail(Code::kInterrupted, "stopped while neighbours may need the last note");
    if (!free && o.log)
      o.log("some neighbours are not done; if one asks for this peer, give the same command again");
    joined.over = true;
    return free;
  };
  TACIT_TRY(joined.result, TakePlace(o.job, std::move(plan), enrolment, attend));
  return joined;
}

}  // namespace tacit
