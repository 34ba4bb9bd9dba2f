#pragma once

// Random and mutated messages to a live server, and to a live peer, while honest parties train: see
// protocol_fuzz_test.cc.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <federation.grpc.pb.h>
#include <cmath>
#include <condition_variable>
#include <iostream>
#include <map>

#include "net/deadline.h"
#include "net/test_faults.h"

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
};

}  // namespace tacit
