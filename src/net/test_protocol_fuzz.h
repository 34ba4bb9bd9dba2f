#pragma once

// Random and mutated messages to a live server, to a live peer, from a member of a masked sum, and from a
// server to a live client: see protocol_fuzz_test.cc.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <federation.grpc.pb.h>
#include <cmath>
#include <condition_variable>
#include <iostream>
#include <map>
#include <set>

#include "net/broadcast.h"
#include "net/deadline.h"
#include "net/test_faults.h"
#include "runtime/mask_round.h"

namespace tacit {

class ProtocolFuzz : public NetworkFaults {
 protected:
  static constexpr std::size_t kDim = 3;
  struct Numbers {
    Public<Vec> x;
    auto Fields() { return std::tie(x); }
  };
  // What callers were told, by status; what was sent raw, by itself.
  struct Tally {
    std::mutex mutex;
    std::map<int, std::size_t> status;
    std::size_t raw = 0;
    void Count(grpc::StatusCode code) {
      const std::lock_guard lock(mutex);
      ++status[code];
    }
    std::string text() const {
      static constexpr const char* kNames[] = {
          "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
          "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
          "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
          "DATA_LOSS", "UNAUTHENTICATED"};
      std::string out;
      for (const auto& [code, n] : status)
        out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, kNames[static_cast<std::size_t>(code)]);
      return out + fmt::format("; {} raw connections", raw);
    }
  };

  static std::shared_ptr<grpc::Channel> Channel(int port, const Identity& id, const std::string& host = "") {
    grpc::ChannelArguments apart;
    apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (!host.empty()) apart.SetSslTargetNameOverride(host);
    return grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", port),
                                     grpc::SslCredentials({id.authority, id.key, id.certificate}), apart);
  }
  static std::string Random(Stream& coins, std::size_t most) {
    std::string out(coins.Below(most + 1), '\0');
    for (char& c : out) c = static_cast<char>(coins());
    return out;
  }
  static std::string Letters(Stream& coins,
                             std::size_t most) {  // as text is sent: other bytes are no message
    std::string out = Random(coins, most);
    if (coins() % 16 != 0)
      for (char& c : out) c = static_cast<char>(c & 0x7f);
    return out;
  }
  static std::string Text(const Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static std::string Frame(Vec x) {
    Numbers n;
    n.x.Mutable() = std::move(x);
    return Text(Codec::Encode(n));
  }
  // A frame that is no answer: damaged, or sound and of another shape, or with numbers that are none.
  static std::string NoAnswer(Stream& coins) {
    Vec x(kDim);
    for (double& v : x) v = coins.Normal();
    switch (coins.Below(6)) {
      case 0: {
        std::string f = Frame(x);
        f[coins.Below(f.size())] ^= static_cast<char>(1 << coins.Below(8));
        return f;
      }
      case 1: return Frame(x).substr(0, coins.Below(Frame(x).size()));
      case 2: return Frame(x) + Random(coins, 64) + "x";
      case 3: x[coins.Below(kDim)] = coins() % 2 == 0 ? std::nan("") : HUGE_VAL; return Frame(x);
      case 4: x.resize(kDim + 1 + coins.Below(2000)); return Frame(x);
      default: {  // any payload of another length, under a header that is right
        std::string payload = Random(coins, 200);
        if (payload.size() == 8 + 8 * kDim) payload += "x";
        std::string f(16, '\0');
        const std::uint32_t crc = Crc32(std::as_bytes(std::span(payload)));
        const std::uint64_t size = payload.size();
        std::memcpy(f.data(), "TCT1", 4), std::memcpy(f.data() + 4, &crc, 4);
        std::memcpy(f.data() + 8, &size, 8);
        return f + payload;
      }
    }
  }

  // One party that does not keep to the protocol.
  class Fuzzer {
   public:
    Fuzzer(int port, const Identity& id, std::uint64_t seed, Tally& tally)
        : channel_(Channel(port, id)),
          stub_(v1::Federation::NewStub(channel_)),
          generic_(channel_),
          coins_({seed, Purpose::kTest, 0, 2}),
          tally_(tally) {}
    void Send() {
      if (std::exchange(stale_, false)) return Next();
      switch (coins_.Below(8)) {
        case 0: return Enrol();
        case 1: return Next();
        case 2: return Raw();
        default: return Answer();
      }
    }

   private:
    std::string Session() {  // now and then of another folder or process, or none that could be
      switch (coins_.Below(64)) {
        case 0: return fmt::format("{:0{}x}", coins_(), 1 + coins_.Below(100));
        case 1: return SessionFrom(kElsewhere);
        case 2: return SessionFrom(kHome).replace(kSessionPart + kStartDigits, 1, "b");
        default: return SessionFrom(kHome);
      }
    }
    void AddSession(grpc::ClientContext& call) {
      if (coins_.Below(32) != 0) call.AddMetadata(kSessionKey, Session());
    }
    void Enrol() {
      grpc::ClientContext call;
      call.set_deadline(In(std::chrono::seconds(20)));
      v1::EnrolRequest request;
      request.set_protocol(coins_() % 2 == 0 ? kProtocol : static_cast<std::uint32_t>(coins_()));
      if (coins_() % 2 != 0) request.set_session(coins_() % 8 != 0 ? Session() : Letters(coins_, 100));
      v1::EnrolReply reply;
      tally_.Count(stub_->Enrol(&call, request, &reply).error_code());
    }
    void Next() {
      grpc::ClientContext call;
      call.set_deadline(In(std::chrono::milliseconds(coins_.Below(400))));
      v1::NextRequest request;
      AddSession(call);
      request.set_job(coins_() % 8 != 0 ? kId : Letters(coins_, 1 << 16));
      const auto stream = stub_->Next(&call, request);
      v1::WorkPart part;
      while (stream->Read(&part))
        if (part.kind() == v1::WorkPart::ROUND) round_ = part.round(), question_ = part.question();
      tally_.Count(stream->Finish().error_code());
    }
    void Answer() {
      grpc::ClientContext call;
      call.set_deadline(In(std::chrono::seconds(20)));
      v1::AnswerReply reply;
      AddSession(call);
      const auto stream = stub_->Answer(&call, &reply);
      const std::string bytes = NoAnswer(coins_);
      v1::AnswerPart part;
      part.set_job(kId);
      part.set_round(round_);
      part.set_question(question_);
      part.set_size(bytes.size());
      // Now and then one of the fields is something else.
      switch (coins_.Below(16)) {
        case 0: part.set_job(Letters(coins_, 100)); break;
        case 1: part.set_round(static_cast<std::uint32_t>(coins_())); break;
        case 2: part.set_question(Random(coins_, 40)); break;
        case 3: part.set_size(coins_() >> coins_.Below(64)); break;
        case 4: part.set_step(static_cast<std::uint32_t>(coins_())); break;
        case 5: part.set_round(round_ - 1); break;
        default: break;
      }
      std::size_t at = 0;
      const std::size_t parts = 1 + coins_.Below(4);
      for (std::size_t k = 0; k < parts; ++k) {
        const std::size_t size = k + 1 == parts ? bytes.size() - at : coins_.Below(bytes.size() - at + 1);
        part.set_data(bytes.substr(at, size));
        at += size;
        if (!stream->Write(part)) break;
        if (coins_() % 4 != 0) part.Clear();  // a later part may repeat the first one's fields
        if (coins_() % 4 == 0) part.set_round(static_cast<std::uint32_t>(coins_()));
        if (coins_() % 32 == 0) call.TryCancel();
      }
      if (coins_() % 8 != 0)
        stream->WritesDone();
      else
        call.TryCancel();  // in mid-message
      const grpc::StatusCode told = stream->Finish().error_code();
      stale_ = told == grpc::StatusCode::ABORTED;
      tally_.Count(told);
    }
    // Bytes that are no message at all, to methods that are there and to others.
    void Raw() {
      static constexpr const char* kMethods[] = {"/tacit.v1.Federation/Enrol", "/tacit.v1.Federation/Next",
                                                 "/tacit.v1.Federation/Answer", "/tacit.v1.Peers/Fetch",
                                                 "/tacit.v1.Federation/Other"};
      grpc::ClientContext call;
      call.set_deadline(In(std::chrono::seconds(20)));
      const std::string bytes = Random(coins_, coins_() % 64 == 0 ? 3 << 20 : 300);
      grpc::Slice slice(bytes);
      grpc::ByteBuffer request(&slice, 1), reply;
      std::mutex mutex;
      std::condition_variable changed;
      std::optional<grpc::Status> done;
      generic_.UnaryCall(&call, kMethods[coins_.Below(5)], grpc::StubOptions(), &request, &reply,
                         [&](const grpc::Status& s) {
                           const std::lock_guard lock(mutex);
                           done = s;
                           changed.notify_one();
                         });
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return done.has_value(); });
      tally_.Count(done->error_code());
    }

    std::shared_ptr<grpc::Channel> channel_;
    std::unique_ptr<v1::Federation::Stub> stub_;
    grpc::GenericStub generic_;
    Stream coins_;
    Tally& tally_;
    std::uint32_t round_ = 1;
    std::string question_;
    bool stale_ = false;
  };

  // Bytes that are no TLS, or begin like it.
  static void Garbage(int port, Stream& coins, Tally& tally) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(static_cast<std::uint16_t>(port));
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0) {
      static const std::string kStarts[] = {"", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
                                            std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
                                            std::string("\x16\x03\x03\xff\xff", 5)};
      const std::string bytes = kStarts[coins.Below(5)] + Random(coins, 2000);
      [[maybe_unused]] const auto n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      char answer[512];
      if (coins() % 4 == 0) {
        ::shutdown(fd, SHUT_WR);
        while (::recv(fd, answer, sizeof answer, 0) > 0) {
        }
      }
    }
    ::close(fd);
    const std::lock_guard lock(tally.mutex);
    ++tally.raw;
  }
  static std::size_t Resident() {  // bytes of this process in memory
    std::ifstream in("/proc/self/statm");
    std::size_t all = 0, resident = 0;
    in >> all >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }
  static constexpr std::size_t kGrowth = 256 << 20;  // what allocators and gRPC keep, far below what was sent

  // A client of the job that answers nothing but garbage, somebody who is no client, and noise at the port,
  // while three honest clients train.
  void Attack(std::size_t rounds, std::size_t messages, std::uint64_t seed) {
    const auto files = WriteRows(24, kDim, 4);
    const std::string toml = fmt::format(
        "data = {{ rows = 24, features = {}, row_norm = \"clip\" }}\n"
        "model = {{ l2 = 0.1 }}\n"
        "privacy = {{ epsilon = 2.0, unit = \"client\" }}\n"
        "algorithm = {{ name = \"dp-fedavg\", rounds = {} }}\n"
        "serve = {{ clients = [\"c0\", \"c1\", \"c2\", \"m0\"], deadline = 0.2, minimum = 3 }}\n",
        kDim, rounds);
    std::string models[2];
    Tally tally;
    std::atomic<std::size_t> sent = 0;
    std::size_t early = 0, late = 0;
    const std::filesystem::path base = here_;
    for (const bool attacked : {false, true}) {
      const Job job = MakeJob(toml, {{"data.source", (base / "all.csv").string()},
                                     {"serve.deadline", attacked ? "1.5" : "600"},
                                     {"serve.minimum", attacked ? "3" : "0"}});
      here_ = base / (attacked ? "attacked" : "alone");
      std::filesystem::create_directories(here_);
      auto server = Start(job);
      ASSERT_TRUE(server.ok()) << server.error().message;
      const int port = (*server)->port();
      WatchedLink link(**server);
      link.before = [&](const Question& q) {  // the attack lasts for the whole run
        while (attacked && !q.last && !failed_ && sent < messages * (q.round - 1) / rounds)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (attacked && q.round == 2) early = Resident();
      };
      link.after = [&](const Question& q, std::vector<Bytes>& answers) {  // as if the fourth were not there
        if (!q.last && !attacked) answers[3].clear();
        EXPECT_TRUE(q.last || answers[3].empty()) << "garbage was taken for an answer";
      };
      std::vector<std::jthread> threads;
      std::vector<std::optional<Result<Joined>>> joined(attacked ? 3 : 4);
      for (std::size_t c = 0; c < joined.size(); ++c)
        threads.emplace_back([&, c] {
          JoinOptions o = Joining(job.clients[c], port, files[c]);
          o.patience = 600;
          o.stop = &failed_;
          joined[c] = Join(o);
          if (!joined[c]->ok()) failed_ = true;
        });
      for (const char* name : {"m0", "stranger"})
        if (attacked)
          threads.emplace_back([&, name] {
            Fuzzer fuzzer(port, Who(name), seed + (name[0] == 'm' ? 0 : 1), tally);
            while (sent++ < messages && !failed_) fuzzer.Send();
          });
      if (attacked)
        threads.emplace_back([&] {
          Stream coins({seed, Purpose::kTest, 0, 3});
          while (sent < messages && !failed_) {
            Garbage(port, coins, tally);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        });
      const auto run = Coordinate(job, link, here_ / "server");
      if (!run.ok()) failed_ = true;
      (*server)->Over(0);
      threads.clear();
      late = Resident();
      ASSERT_TRUE(run.ok()) << run.error().message << "\n" << log_;
      models[attacked ? 1 : 0] = run->model_sha256;
      for (std::size_t c = 0; c < joined.size(); ++c) {
        ASSERT_TRUE(joined[c]->ok()) << joined[c]->error().message;
        CheckPaid(job.clients[c], rounds, rounds, run->certified_epsilon);
      }
      log_.clear();
    }
    EXPECT_EQ(models[0], models[1]);
    EXPECT_LT(late, early + kGrowth);
    std::cout << fmt::format(
        "{} messages in {} rounds: {}; memory {} MB after the first round, {} MB at the end\n", messages,
        rounds, tally.text(), early >> 20, late >> 20);
  }

  // The same for a peer: callers of all kinds, before its neighbours are there and while they train.
  void AttackPeer(std::size_t messages, std::uint64_t seed) {
    constexpr std::size_t kPeers = 5;
    const auto files = WriteRows(30, kDim, kPeers);
    const Job job = MakeJob(
        fmt::format("data = {{ rows = 30, features = {}, row_norm = \"clip\" }}\n"
                    "model = {{ l2 = 0.1 }}\n"
                    "privacy = {{ epsilon = 2.0 }}\n"
                    "algorithm = {{ name = \"zcdp-nfl\", rounds = 12 }}\n"
                    "network = {{ topology = \"ring\" }}\n"
                    "serve = {{ clients = [\"p0\", \"p1\", \"p2\", \"p3\", \"p4\"], addresses = {} }}\n",
                    kDim, FreeAddresses(kPeers)));
    const auto plan = PlanOf(job);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const std::string name = NameOf(job, *plan);
    const auto alone = Alone(job);
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    Tally tally;
    std::atomic<std::size_t> sent = 0;
    std::atomic<int> port = 0;
    std::atomic<bool> gone = false;
    std::vector<std::optional<Result<Joined>>> joined(kPeers);
    const std::size_t early = Resident();
    {
      std::vector<std::jthread> threads;
      for (std::size_t k = 0; k < kPeers; ++k)
        threads.emplace_back([&, k] {
          while (k > 0 && sent < messages / 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          PeerSettings o = Settings(job, k, files[k]);
          o.patience = 600;
          if (k == 0) o.listening = [&](int p) { port = p; };
          joined[k] = TakePeersPart(o);
          if (!joined[k]->ok()) failed_ = true;
          if (k == 0) gone = true;
        });
      while (port == 0 && !failed_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      // p1 is a neighbour, and believed where it names the job: so it does not, or asks for nothing.
      for (const std::string who : {"p1", "p2", "stranger"})
        threads.emplace_back([&, who] {
          const auto channel = Channel(port, Who(who), PeerHost("p0"));
          const auto stub = v1::Peers::NewStub(channel);
          Stream coins({seed, Purpose::kTest, static_cast<std::uint32_t>(who.back()), 4});
          while (!gone && sent++ < messages && !failed_) {
            grpc::ClientContext call;
            call.set_deadline(In(std::chrono::seconds(20)));
            v1::FetchRequest request;
            const bool same = coins() % 2 == 0;
            request.set_protocol(same || coins() % 2 == 0 ? kProtocol : static_cast<std::uint32_t>(coins()));
            request.set_job(same ? name : Letters(coins, coins() % 16 == 0 ? 80'000 : 100));
            request.set_place(same && who == "p1" ? 0
                                                  : static_cast<std::uint32_t>(coins() >> coins.Below(64)));
            const auto stream = stub->Fetch(&call, request);
            v1::NotePart part;
            while (stream->Read(&part)) EXPECT_EQ(part.data().size(), 0u) << "a note was given away";
            tally.Count(stream->Finish().error_code());
          }
        });
      threads.emplace_back([&] {
        Stream coins({seed, Purpose::kTest, 0, 5});
        while (!gone && sent < messages && !failed_) {
          Garbage(port, coins, tally);
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
    }
    std::vector<Result<Joined>> out;
    for (auto& one : joined) {
      ASSERT_TRUE(one->ok()) << one->error().message;
      out.push_back(std::move(*one));
    }
    EXPECT_EQ(MeanOf(out, {0, 1, 2, 3, 4}), alone->model);
    EXPECT_LT(Resident(), early + kGrowth);
    std::cout << fmt::format("{} calls of a peer: {}; memory {} MB before, {} MB after\n",
                             std::min(messages, sent.load()), tally.text(), early >> 20, Resident() >> 20);
  }

  // A server's certificate, and behind it whatever the service does.
  struct Listening {
    int port = 0;
    std::unique_ptr<grpc::Server> server;
  };
  static Listening Listen(grpc::Service& service, const Identity& id) {
    grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = id.authority;
    tls.pem_key_cert_pairs.push_back({id.key, id.certificate});
    grpc::ServerBuilder builder;
    Listening out;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &out.port);
    builder.RegisterService(&service);
    out.server = builder.BuildAndStart();
    EXPECT_TRUE(out.server != nullptr && out.port != 0);
    return out;
  }
  static std::string SessionIn(const grpc::ServerContext& call) {
    const auto said = call.client_metadata().find(kSessionKey);
    return said == call.client_metadata().end() ? "" : std::string(said->second.data(), said->second.size());
  }
  static void Say(const Work& work, v1::WorkPart& part) {  // all but the frame
    part.Clear();
    part.set_kind(work.kind);
    part.set_round(work.round);
    part.set_step(work.step);
    part.set_question(work.question);
    part.set_counted(work.counted);
    part.set_answered(work.answered);
  }
  // A whole answer, as it comes in parts; the server has said before that it is ready.
  static bool Receive(grpc::ServerReader<v1::AnswerPart>& in, v1::AnswerPart& head, std::string& bytes) {
    v1::AnswerPart part;
    for (bool first = true; in.Read(&part); first = false) {
      if (first) head = part;
      bytes += part.data();
    }
    head.clear_data();
    return bytes.size() == head.size();
  }
  // The header of a frame made right again, whatever is in it.
  static void Reseal(std::string& frame) {
    if (frame.size() < kFrameHeader) frame.resize(kFrameHeader);
    const std::uint32_t crc = Crc32(std::as_bytes(std::span(frame)).subspan(kFrameHeader));
    const std::uint64_t size = frame.size() - kFrameHeader;
    std::memcpy(frame.data(), "TCT1", 4), std::memcpy(frame.data() + 4, &crc, 4);
    std::memcpy(frame.data() + 8, &size, 8);
  }
  static void Flip(Stream& coins, std::string& text, std::size_t from = 0) {
    for (std::size_t k = 1 + coins.Below(8); k > 0 && text.size() > from; --k)
      text[from + coins.Below(text.size() - from)] ^= static_cast<char>(1 << coins.Below(8));
  }

  // A broadcast, or a question of another kind, that is not quite what a true server says.
  static void Change(Stream& coins, Bytes& bytes) {
    std::string f = Text(bytes);
    switch (coins.Below(7)) {
      case 0: Flip(coins, f); break;
      case 1: f.resize(coins.Below(f.size() + 1)); break;
      case 2: f += Random(coins, 200); break;
      case 3: f.resize(kFrameHeader + coins.Below(f.size())), Reseal(f); break;
      case 4: f = f.substr(0, kFrameHeader) + Random(coins, 200), Reseal(f); break;
      case 5: {  // a number in the place of another
        static const double kNumbers[] = {std::nan(""), HUGE_VAL, -HUGE_VAL, 0x1p250,  0x1p251,
                                          -0x1p1000,    5e-324,   -0.0,      1.0 / 3.0};
        if (f.size() < kFrameHeader + 8) break;
        const double v = kNumbers[coins.Below(std::size(kNumbers))];
        std::memcpy(f.data() + kFrameHeader + coins.Below(f.size() - kFrameHeader - 7), &v, sizeof v);
        Reseal(f);
        break;
      }
      default: Flip(coins, f, kFrameHeader), Reseal(f);
    }
    const auto raw = std::as_bytes(std::span(f));
    bytes.assign(raw.begin(), raw.end());
  }

  // Between one client and its server, with the certificates of both: hands everything on, and is told of it.
  class Middle final : public v1::Federation::Service {
   public:
    std::function<void(const v1::EnrolReply&)> enrolled = [](const v1::EnrolReply&) {};
    std::function<void(Work&)> asked = [](Work&) {};  // before the client is
    // What becomes of an answer.
    std::function<grpc::Status(const std::string& session, v1::AnswerPart head, const std::string& bytes)>
        answered = [this](const std::string& session, v1::AnswerPart head, const std::string& bytes) {
          return Send(session, std::move(head), bytes);
        };
    Middle(int port, const Identity& client) : to_(v1::Federation::NewStub(Channel(port, client))) {}
    grpc::Status Send(const std::string& session, v1::AnswerPart head, const std::string& bytes) const {
      grpc::ClientContext call;
      call.set_deadline(In(std::chrono::seconds(20)));
      call.AddMetadata(kSessionKey, session);
      v1::AnswerReply reply;
      const auto stream = to_->Answer(&call, &reply);
      stream->WaitForInitialMetadata();
      if (call.GetServerInitialMetadata().count(kReadyKey) != 0) {
        head.set_size(bytes.size());
        head.set_data(bytes);
        stream->Write(head);
      }
      stream->WritesDone();
      return stream->Finish();
    }

   private:
    grpc::Status Enrol(grpc::ServerContext* from, const v1::EnrolRequest* in, v1::EnrolReply* out) override {
      const auto call = grpc::ClientContext::FromServerContext(*from);
      const grpc::Status done = to_->Enrol(call.get(), *in, out);
      if (done.ok()) enrolled(*out);
      return done;
    }
    grpc::Status Next(grpc::ServerContext* from, const v1::NextRequest* in,
                      grpc::ServerWriter<v1::WorkPart>* out) override {
      const auto call = grpc::ClientContext::FromServerContext(*from);
      call->AddMetadata(kSessionKey, SessionIn(*from));
      const auto stream = to_->Next(call.get(), *in);
      v1::WorkPart part;
      WorkParts all(std::size_t{1} << 30);
      while (stream->Read(&part)) EXPECT_TRUE(all.Take(part));
      const grpc::Status done = stream->Finish();
      if (!done.ok()) return done;
      Work& work = all.work();
      asked(work);
      Say(work, part);
      part.set_size(work.frame.size());
      part.set_data(Text(work.frame));
      out->Write(part);
      return done;
    }
    grpc::Status Answer(grpc::ServerContext* from, grpc::ServerReader<v1::AnswerPart>* in,
                        v1::AnswerReply*) override {
      from->AddInitialMetadata(kReadyKey, "1");
      in->SendInitialMetadata();
      v1::AnswerPart head;
      std::string bytes;
      if (!Receive(*in, head, bytes)) return {grpc::StatusCode::CANCELLED, "cut"};
      return answered(SessionIn(*from), head, bytes);
    }
    std::unique_ptr<v1::Federation::Stub> to_;
  };

  // What a member of a masked sum sends in place of its true answer to a step, where the round of the others
  // goes on. Letters and numbers that are others' to judge, or nobody's, it leaves as they are: with those it
  // can stop a round or spoil a sum (docs/deployment.md).
  static std::string Spoiled(Stream& coins, const std::string& answer, std::uint32_t step) {
    const bool judged = step == 1 || step >= 4;  // by signatures, or with the others' shares
    std::string f = answer;
    switch (coins.Below(judged ? 6 : 4)) {
      case 0: Flip(coins, f); return f;
      case 1: return f.substr(0, coins.Below(f.size()));
      case 2: f += "x" + Random(coins, 64); break;
      case 3: f.resize(kFrameHeader + coins.Below(f.size() - kFrameHeader)); break;
      default: Flip(coins, f, kFrameHeader);
    }
    Reseal(f);
    return f;
  }

  // One of six members of masked sums answers every step with so many frames that are none of the protocol
  // before its true one, which may by then be one answer too many. The model is that of one process.
  void AttackMasks(std::size_t rounds, std::size_t messages, std::uint64_t seed) {
    constexpr std::uint32_t kMembers = 6, kRogue = 5;
    const auto files = WriteRows(24, kDim, kMembers);
    const Job job = MakeJob(fmt::format(
        "data = {{ rows = 24, features = {}, row_norm = \"clip\" }}\n"
        "model = {{ l2 = 0.1 }}\n"
        "privacy = {{ epsilon = 2.0, unit = \"client\", trust = \"masked\", mechanism = "
        "\"discrete_gaussian\" }}\n"
        "algorithm = {{ name = \"dp-fedavg\", allocation = \"static\", rounds = {} }}\n"
        "serve = {{ clients = [\"m0\", \"m1\", \"m2\", \"m3\", \"m4\", \"m5\"], deadline = 600 }}\n",
        kDim, rounds));
    const auto alone = Alone(job);
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    auto server = Start(job);
    ASSERT_TRUE(server.ok()) << server.error().message;
    Stream coins({seed, Purpose::kTest, 0, 6});
    Tally tally;
    std::mutex mutex;
    std::set<std::string> true_ones;  // the rogue's own answers, of all steps
    std::size_t steps[kMaskSteps] = {}, left_out = 0;
    Middle middle((*server)->port(), Who("m5"));
    middle.answered = [&](const std::string& session, v1::AnswerPart head, const std::string& bytes) {
      if (!head.last() && head.step() >= 1 && head.step() <= kMaskSteps) {
        {
          const std::lock_guard lock(mutex);
          true_ones.insert(bytes);
        }
        for (std::size_t k = 0; k < messages && !failed_; ++k) {
          v1::AnswerPart other = head;
          // Not a word of a round that it has not computed: the server would believe that it has.
          switch (coins.Below(16)) {
            case 0: other.set_step(1 + static_cast<std::uint32_t>(coins.Below(head.step()))); break;
            case 1: other.set_question(Random(coins, 40)); break;
            case 2: other.set_round(head.round() - 1); break;
            default: break;
          }
          // In every other round its shares are its own.
          const std::uint32_t step = head.step() == 5 && head.round() % 2 == 0 ? 2 : head.step();
          tally.Count(middle.Send(session, other, Spoiled(coins, bytes, step)).error_code());
          ++steps[head.step() - 1];
        }
      }
      const grpc::Status done = middle.Send(session, head, bytes);
      tally.Count(done.error_code());
      return done.error_code() == grpc::StatusCode::ALREADY_EXISTS ? grpc::Status::OK : done;
    };
    const Listening listening = Listen(middle, Who("server"));
    WatchedLink link(**server);
    link.after = [&](const Question& q, std::vector<Bytes>& answers) {
      const auto place = std::find(q.who.begin(), q.who.end(), kRogue);
      if (q.last || place == q.who.end()) return;
      const Bytes& taken = answers[static_cast<std::size_t>(place - q.who.begin())];
      const std::lock_guard lock(mutex);
      if (taken.empty() || true_ones.count(Text(taken)) != 0) return;
      // A share is judged when there are others to put it together with.
      EXPECT_EQ(q.step, 5u) << "garbage was taken for an answer";
      ++left_out;
    };
    std::vector<std::optional<Result<Joined>>> joined(kMembers);
    std::vector<std::jthread> members;
    for (std::uint32_t c = 0; c < kMembers; ++c)
      members.emplace_back([&, c] {
        JoinOptions o = Joining(job.clients[c], c == kRogue ? listening.port : (*server)->port(), files[c]);
        o.patience = 600;
        o.stop = &failed_;
        joined[c] = Join(o);
        if (!joined[c]->ok()) failed_ = true;
      });
    const auto run = Coordinate(job, link, here_ / "server");
    if (!run.ok()) failed_ = true;
    (*server)->Over(0);
    members.clear();
    ASSERT_TRUE(run.ok()) << run.error().message << "\n" << log_;
    EXPECT_EQ(run->model_sha256, alone->model_sha256);
    EXPECT_EQ(run->answers.taken, kMembers * rounds);
    for (std::uint32_t c = 0; c < kMembers; ++c) {
      ASSERT_TRUE(joined[c]->ok()) << joined[c]->error().message;
      EXPECT_TRUE((**joined[c]).over);
      CheckPaid(job.clients[c], rounds, rounds, alone->certified_epsilon);
    }
    for (const std::size_t n : steps) EXPECT_GE(n, rounds * messages);
    EXPECT_GT(left_out, 0u);
    std::cout << fmt::format(
        "{} spoiled answers to the steps of {} masked rounds: {}; wrong shares left out in {} rounds\n",
        rounds * messages * kMaskSteps, rounds, tally.text(), left_out);
  }

  // The questions of masked rounds come to one member through somebody who changes half of them, keeps what
  // is answered to those, and then asks what the server has asked. However it is asked, the member signs one
  // set and opens for one, and the round of the others goes on.
  void AttackMember(std::size_t rounds, std::uint64_t seed) {
    constexpr std::uint32_t kMembers = 6;
    const auto files = WriteRows(24, kDim, kMembers);
    const Job job =
        MakeJob(fmt::format("data = {{ rows = 24, features = {}, row_norm = \"clip\" }}\n"
                            "model = {{ l2 = 0.1 }}\n"
                            "privacy = {{ epsilon = 2.0, unit = \"client\", trust = \"masked\", mechanism = "
                            "\"discrete_gaussian\" }}\n"
                            "algorithm = {{ name = \"dp-fedavg\", allocation = \"static\", rounds = {} }}\n"
                            "serve = {{ clients = [\"m0\", \"m1\", \"m2\", \"m3\", \"m4\", \"m5\"], deadline "
                            "= 4, minimum = 5 }}\n",
                            kDim, rounds));
    auto server = Start(job);
    ASSERT_TRUE(server.ok()) << server.error().message;
    Stream coins({seed, Purpose::kTest, 0, 8});
    std::mutex mutex;
    std::set<std::string> changed;  // names of questions
    std::size_t told = 0, answered = 0;
    std::atomic<std::size_t> left_off = 0;
    // What was answered, by round and step.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::set<std::string>> sent;
    Middle middle((*server)->port(), Who("m0"));
    std::string last;  // the question that was changed last: the next time it is asked as it is
    middle.asked = [&](Work& work) {
      const std::lock_guard lock(mutex);
      if (work.kind != v1::WorkPart::ROUND || work.question == last || coins() % 2 == 0) return;
      last = work.question;
      if (coins() % 8 == 0)
        work.step = static_cast<std::uint32_t>(coins.Below(kMaskSteps + 2));
      else
        Change(coins, work.frame);
      work.question = fmt::format("changed {}", ++told);
      changed.insert(work.question);
    };
    middle.answered = [&](const std::string& session, v1::AnswerPart head, const std::string& bytes) {
      {
        const std::lock_guard lock(mutex);
        sent[{head.round(), head.step()}].insert(bytes);
        if (changed.count(head.question()) != 0) {
          ++answered;
          return grpc::Status::OK;
        }
      }
      return middle.Send(session, std::move(head), bytes);
    };
    const Listening listening = Listen(middle, Who("server"));
    std::vector<std::optional<Result<Joined>>> joined(kMembers);
    std::vector<std::jthread> members;
    for (std::uint32_t c = 0; c < kMembers; ++c)
      members.emplace_back([&, c] {
        JoinOptions o = Joining(job.clients[c], c == 0 ? listening.port : (*server)->port(), files[c]);
        o.patience = 600;
        o.stop = &failed_;
        do {  // m0 may refuse to go on: it is started again
          joined[c] = Join(o);
          if (c != 0 && !joined[c]->ok()) failed_ = true;
          if (!joined[c]->ok()) left_off += joined[c]->error().message.empty() ? 1000 : 1;
        } while (c == 0 && !failed_ && !joined[c]->ok());
      });
    const auto run = Coordinate(job, **server, here_ / "server");
    if (!run.ok()) failed_ = true;
    (*server)->Over(0);
    const bool failed =
        failed_.exchange(true);  // m0 may have left, or be asked what the server does not know of
    members.clear();
    ASSERT_TRUE(run.ok() && !failed) << log_;
    EXPECT_EQ(run->rounds_done, rounds);
    EXPECT_GE(run->answers.taken, (kMembers - 1) * rounds);
    for (std::uint32_t c = 1; c < kMembers; ++c) {
      ASSERT_TRUE(joined[c]->ok()) << joined[c]->error().message;
      CheckPaid(job.clients[c], rounds, rounds, run->certified_epsilon);
    }
    EXPECT_LT(left_off, 1000u);
    std::set<std::uint32_t> left;  // rounds whose update has
    for (const auto& [at, bytes] : sent) {
      if (at.second == 3) left.insert(at.first);
      EXPECT_TRUE(at.second < 4 || bytes.size() == 1)
          << "round " << at.first << ", step " << at.second << ": " << bytes.size() << " answers";
    }
    const auto own = SqliteVault::Read(here_ / "state-m0" / kId / "ledger.db");
    ASSERT_TRUE(own.ok()) << own.error().message;
    EXPECT_GE(own->front().rounds_released, left.size());
    EXPECT_LE(own->front().rounds_released, rounds);
    EXPECT_GT(told, 0u);
    std::cout << fmt::format(
        "{} questions of {} masked rounds were changed on their way to a member: {} were answered; {}\n",
        told, rounds, answered, joined[0]->ok() ? "it stayed" : "it left: " + joined[0]->error().message);
  }

  // What a server has said to one client in a run: its job, and its questions in their order.
  struct Script {
    v1::EnrolReply offer;
    std::vector<Work> questions;
  };
  Script Record(const Job& job, const std::vector<std::string>& files) {
    Script script;
    auto server = Start(job);
    EXPECT_TRUE(server.ok());
    std::mutex mutex;
    Middle middle((*server)->port(), Who(job.clients[0]));
    middle.enrolled = [&](const v1::EnrolReply& reply) {
      const std::lock_guard lock(mutex);
      if (script.offer.toml().empty()) script.offer = reply;
    };
    middle.asked = [&](Work& work) {
      if (work.kind != v1::WorkPart::ROUND && work.kind != v1::WorkPart::LAST) return;
      const std::lock_guard lock(mutex);
      if (script.questions.empty() || script.questions.back().question != work.question)
        script.questions.push_back(work);
    };
    {
      const Listening listening = Listen(middle, Who("server"));
      std::vector<std::jthread> clients;
      for (std::size_t c = 0; c < files.size(); ++c)
        clients.emplace_back([&, c] {
          const auto joined =
              Join(Joining(job.clients[c], c == 0 ? listening.port : (*server)->port(), files[c]));
          EXPECT_TRUE(joined.ok()) << joined.error().message;
          if (!joined.ok()) failed_ = true;
        });
      const auto run = Coordinate(job, **server, here_ / "server");
      EXPECT_TRUE(run.ok()) << run.error().message;
      (*server)->Over();
    }
    return script;
  }

  // A server with a certificate of the authority that says what it likes: what a true one has said, changed,
  // out of order, or made up.
  class Rogue final : public v1::Federation::Service {
   public:
    // most: calls of a process, before it is told that the job is over.
    Rogue(const Script& script, std::size_t most, std::uint64_t seed)
        : script_(script), most_(most), coins_({seed, Purpose::kTest, 0, 7}), rounds_(0) {
      for (const Work& w : script.questions) rounds_ = std::max(rounds_, w.round);
    }
    void Begin() {  // of a process of the client
      const std::lock_guard lock(mutex_);
      calls_ = 0;
      other_ = coins_.Below(6) == 0 ? Name(coins_) : "";
    }
    void Forget() {  // the client begins from nothing
      const std::lock_guard lock(mutex_);
      sent_.clear();
      at_ = 0;
    }
    // By job: what came as an answer to a round, by the round and the step (0: the round is one).
    using Sent =
        std::map<std::string, std::map<std::pair<std::uint32_t, std::uint32_t>, std::set<std::string>>>;
    Sent sent() const {
      const std::lock_guard lock(mutex_);
      return sent_;
    }
    std::size_t messages() const { return messages_; }
    bool done() const {  // all questions were answered
      const std::lock_guard lock(mutex_);
      return at_ >= script_.questions.size();
    }

   private:
    static std::string Name(Stream& coins) { return fmt::format("{:016x}{:016x}", coins(), coins()); }
    grpc::Status Trouble() {
      static constexpr grpc::StatusCode kCodes[] = {
          grpc::StatusCode::UNAVAILABLE,       grpc::StatusCode::CANCELLED,     grpc::StatusCode::INTERNAL,
          grpc::StatusCode::PERMISSION_DENIED, grpc::StatusCode::NOT_FOUND,     grpc::StatusCode::ABORTED,
          grpc::StatusCode::UNAUTHENTICATED,   grpc::StatusCode::UNIMPLEMENTED, grpc::StatusCode::DATA_LOSS};
      return {kCodes[coins_.Below(std::size(kCodes))], Letters(coins_, 300)};
    }
    grpc::Status Enrol(grpc::ServerContext*, const v1::EnrolRequest*, v1::EnrolReply* out) override {
      const std::lock_guard lock(mutex_);
      ++messages_;
      *out = script_.offer;
      out->set_answered(0);
      if (!other_.empty()) {  // a job that is nearly that one, under a name of its own
        std::string toml = out->toml();
        switch (coins_.Below(4)) {
          case 0: Flip(coins_, toml); break;
          case 1: toml.resize(coins_.Below(toml.size())); break;
          case 2: toml.insert(coins_.Below(toml.size()), Letters(coins_, 40)); break;
          default: {  // another digit
            const auto digit = toml.find_first_of("0123456789", coins_.Below(toml.size()));
            if (digit != toml.npos) toml[digit] = static_cast<char>('0' + coins_.Below(10));
          }
        }
        out->set_toml(toml);
        out->set_job(other_);
      }
      switch (coins_.Below(64)) {
        case 0: out->set_protocol(static_cast<std::uint32_t>(coins_())); break;
        case 1: out->set_job(Letters(coins_, 80)); break;
        case 2: out->set_job("../../" + out->job().substr(6)); break;
        case 3: out->set_answered(static_cast<std::uint32_t>(coins_())); break;
        case 4: out->set_toml(Random(coins_, 4000)); break;
        case 5: return Trouble();
        default: break;
      }
      return grpc::Status::OK;
    }
    // A question, changed in one thing or nothing.
    Work Ask() {
      Work w = at_ < script_.questions.size() ? script_.questions[at_] : script_.questions.back();
      if (coins_.Below(3) == 0) return w;
      const auto number = [&]() -> std::uint32_t {
        switch (coins_.Below(4)) {
          case 0: return static_cast<std::uint32_t>(coins_());
          case 1: return w.round - 1;
          case 2: return w.round + 1;
          default: return static_cast<std::uint32_t>(coins_.Below(rounds_ + 2));
        }
      };
      switch (coins_.Below(14)) {
        case 0: w = script_.questions[coins_.Below(script_.questions.size())]; break;  // out of order
        case 1: w.round = number(); break;
        case 2: w.step = static_cast<std::uint32_t>(coins_.Below(8)); break;
        case 3: w.counted = number(); break;
        case 4: w.answered = number(); break;
        case 5: w.question = Random(coins_, 100); break;
        case 6: w.kind = static_cast<v1::WorkPart::Kind>(coins_.Below(6)); break;
        case 7: w.frame = script_.questions[coins_.Below(script_.questions.size())].frame; break;
        default: Change(coins_, w.frame);
      }
      return w;
    }
    grpc::Status Next(grpc::ServerContext*, const v1::NextRequest*,
                      grpc::ServerWriter<v1::WorkPart>* out) override {
      const std::lock_guard lock(mutex_);
      ++messages_;
      v1::WorkPart part;
      if (++calls_ > most_) {  // enough of this process
        part.set_kind(v1::WorkPart::OVER);
        out->Write(part);
        return grpc::Status::OK;
      }
      if (coins_.Below(64) == 0) return Trouble();
      const Work w = Ask();
      const std::string bytes = Text(w.frame);
      Say(w, part);
      part.set_size(bytes.size());
      if (coins_.Below(16) == 0) part.set_size(coins_() >> coins_.Below(64));
      const std::size_t parts = coins_.Below(8) == 0 ? 1 + coins_.Below(6) : 1;
      std::size_t at = 0;
      for (std::size_t k = 0; k < parts; ++k) {
        const std::size_t size = k + 1 == parts ? bytes.size() - at : coins_.Below(bytes.size() - at + 1);
        part.set_data(bytes.substr(at, size));
        at += size;
        if (!out->Write(part)) break;
        if (coins_.Below(2) == 0) part.Clear();  // a later part may say other things than the first
        if (coins_.Below(4) == 0) part.set_round(static_cast<std::uint32_t>(coins_()));
      }
      if (coins_.Below(32) == 0) {
        part.set_data(Random(coins_, 1 << 16));
        out->Write(part);
      }
      return grpc::Status::OK;
    }
    grpc::Status Answer(grpc::ServerContext* from, grpc::ServerReader<v1::AnswerPart>* in,
                        v1::AnswerReply*) override {
      bool ready = false;
      {
        const std::lock_guard lock(mutex_);
        ++messages_;
        ready = ++calls_ > most_ || coins_.Below(16) != 0;
      }
      if (ready) from->AddInitialMetadata(kReadyKey, "1");
      in->SendInitialMetadata();
      v1::AnswerPart head;
      std::string bytes;
      const bool whole = Receive(*in, head, bytes);
      const std::lock_guard lock(mutex_);
      EXPECT_TRUE(ready || bytes.empty()) << "an answer left before the server was ready for it";
      if (!ready || !whole) return Trouble();
      if (!head.last()) sent_[head.job()][{head.round(), head.step()}].insert(bytes);
      if (at_ < script_.questions.size() && script_.questions[at_].round == head.round() &&
          script_.questions[at_].step == head.step())
        ++at_;
      switch (coins_.Below(24)) {
        case 0: return {grpc::StatusCode::ABORTED, "too late"};
        case 1: return Trouble();
        default: return grpc::Status::OK;
      }
    }

    const Script& script_;
    const std::size_t most_;
    mutable std::mutex mutex_;
    Stream coins_;
    std::uint32_t rounds_;
    std::size_t at_ = 0;  // of the questions
    std::size_t calls_ = 0;
    std::atomic<std::size_t> messages_ = 0;
    std::string other_;  // the id of another job that is offered; empty: the true one
    Sent sent_;
  };

  // A client that joins such a server again and again: it ends in words, it answers a round with one answer
  // however it is asked, and its ledgers know of every round that has left and of no more than was agreed.
  void AttackClient(const std::string& algorithm, const std::string& privacy, std::size_t processes,
                    std::uint64_t seed) {
    constexpr std::uint32_t kRounds = 5;
    const bool masked = privacy.find("masked") != privacy.npos;
    const std::size_t n = masked ? 6 : 2;
    const auto files = WriteRows(24, kDim, n);
    std::string names;
    for (std::size_t c = 0; c < n; ++c)
      names += fmt::format("{}\"{}{}\"", c == 0 ? "" : ", ", masked ? "m" : "c", c);
    const Job job =
        MakeJob(fmt::format("data = {{ rows = 24, features = {}, row_norm = \"clip\" }}\n"
                            "model = {{ l2 = 0.1 }}\n"
                            "privacy = {{ epsilon = 2.0{} }}\n"
                            "algorithm = {{ {}, rounds = {} }}\n"
                            "serve = {{ clients = [{}], deadline = 600 }}\n",
                            kDim, privacy, algorithm, kRounds, names));
    const Script script = Record(job, files);
    ASSERT_FALSE(failed_) << log_;
    ASSERT_GE(script.questions.size(), kRounds);
    // A step of a masked round is refused by silence, for a second: the others' keys are not of this round.
    Rogue rogue(script, masked ? 3 : 60, seed);
    const Listening listening = Listen(rogue, Who("server"));
    const std::size_t early = Resident();
    std::map<std::string, std::size_t> ends;
    std::size_t states = 0, finished = 0, released = 0;
    for (std::size_t k = 0; k < processes; ++k) {
      JoinOptions o = Joining(job.clients[0], listening.port, files[0]);
      o.state = here_ / fmt::format("rogue-{}", states);
      o.patience = 2;
      o.policy.max_epsilon = 2.0;  // no more than the true job asks for
      rogue.Begin();
      const auto joined = Join(o);
      if (joined.ok()) {
        ++finished;
      } else {
        EXPECT_FALSE(joined.error().message.empty());
        EXPECT_NE(joined.error().code, Code::kInternal) << joined.error().message;
        ++ends[joined.error().message.substr(0, 160)];
      }
      for (const auto& [id, answers] : rogue.sent()) {
        std::set<std::uint32_t> rounds;  // whose update has left
        for (const auto& [at, bytes] : answers) {
          // Under masks a step is answered anew where it is asked anew, with new keys; its third is the
          // update.
          const bool update = !masked || at.second == 3;
          if (update) rounds.insert(at.first);
          EXPECT_TRUE(masked || bytes.size() == 1) << "two answers to round " << at.first;
        }
        const auto own = SqliteVault::Read(o.state / id / "ledger.db");
        ASSERT_TRUE(own.ok()) << own.error().message;
        ASSERT_EQ(own->size(), 1u);
        EXPECT_GE(own->front().rounds_released, rounds.size()) << id;
        EXPECT_LE(own->front().plan_epsilon, 2.0) << id;
        if (id != kId) continue;
        EXPECT_LE(own->front().rounds_released, kRounds);
        released = std::max<std::size_t>(released, rounds.size());
      }
      if (rogue.done() || k % 40 == 39) ++states, rogue.Forget();  // and from the beginning, elsewhere
    }
    EXPECT_EQ(released > 0, !masked);
    EXPECT_LT(Resident(), early + kGrowth);
    std::cout << fmt::format(
        "{}: a client was joined {} times to a server that sent {} messages: {} ended well, the others for "
        "{} "
        "reasons; up to {} of {} rounds were released\n",
        algorithm, processes, rogue.messages(), finished, ends.size(), released, kRounds);
  }
};

}  // namespace tacit
