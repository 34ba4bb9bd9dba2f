#pragma once

// For tests: five peers on a graph, each in a thread with a server of its own, and neighbours that are made
// by hand.
#include <grpcpp/grpcpp.h>

#include <federation.grpc.pb.h>
#include "net/deadline.h"
#include "net/test_federation.h"
#include "wire/frame.h"

namespace tacit {

using Sets = std::vector<Assignment>;

inline constexpr const char* kJob = R"(
[data]
rows = 30
features = 3
row_norm = "clip"
[model]
name = "logistic"
l2 = 0.1
[privacy]
epsilon = 2.0
[algorithm]
name = "zcdp-nfl"
rounds = 12
[network]
topology = "ring"
[serve]
clients = ["p0", "p1", "p2", "p3", "p4"]
)";
inline constexpr std::size_t kPeers = 5, kPeerRounds = 12;

class Peers : public Federation {
 protected:
  static void SetUpTestSuite() {
    Federation::SetUpTestSuite();
    Certify("other", "p1", Party::kPeer);
  }

  Job Addressed(const Sets& more = {}) {
    Sets sets = {{"serve.addresses", FreeAddresses(kPeers)}};
    sets.insert(sets.end(), more.begin(), more.end());
    return MakeJob(kJob, sets);
  }
  static RunResult Alone(const Job& job) {
    auto run = Federation::Alone(job);
    EXPECT_TRUE(run.ok()) << run.error().message;
    return run.ok() ? *std::move(run) : RunResult{};
  }
  static std::string NameOfJob(const Job& job) {
    const auto plan = PlanOf(job);
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    return plan.ok() ? NameOf(job, *plan) : "";
  }
  // All peers, each as `settings` says.
  std::vector<Result<Joined>> TrainPeersBy(const std::function<PeerSettings(std::size_t)>& settings) {
    std::vector<std::optional<Result<Joined>>> joined(kPeers);
    {
      std::vector<std::jthread> peers;
      for (std::size_t k = 0; k < kPeers; ++k)
        peers.emplace_back([&, k] {
          joined[k] = TakePeersPart(settings(k));
          if (!joined[k]->ok()) failed_ = true;
        });
    }
    std::vector<Result<Joined>> out;
    for (auto& one : joined) out.push_back(std::move(*one));
    return out;
  }
  // Waits for it, a minute at most.
  static bool Soon(const std::function<bool()>& true_now) {
    for (int i = 0; i < 6000 && !true_now(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return true_now();
  }
  static std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address, const Identity& as,
                                                  const std::string& peer) {
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride(PeerHost(peer));
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::SslCredentials({as.authority, as.key, as.certificate}),
                                     arguments);
  }
  static v1::FetchRequest Question(const std::string& job, std::uint32_t place) {
    v1::FetchRequest request;
    request.set_protocol(kProtocol);
    request.set_job(job);
    request.set_place(place);
    return request;
  }

  // A neighbour made by hand: with anybody's certificate, it does what it likes.
  class Puppet final : public v1::Peers::Service {
   public:
    using Writer = grpc::ServerWriter<v1::NotePart>;
    using Says = std::function<grpc::Status(const v1::FetchRequest&, Writer&)>;
    Puppet(const std::string& address, const Identity& id, Says says) : says_(std::move(says)) {
      grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
      tls.pem_root_certs = id.authority;
      tls.pem_key_cert_pairs.push_back({id.key, id.certificate});
      grpc::ServerBuilder builder;
      builder.AddListeningPort(address, grpc::SslServerCredentials(tls));
      builder.RegisterService(this);
      builder.SetMaxSendMessageSize(-1);
      server_ = builder.BuildAndStart();
      EXPECT_NE(server_, nullptr) << address;
    }
    ~Puppet() override {
      if (server_ != nullptr) server_->Shutdown(In(std::chrono::seconds(1)));
    }
    Puppet(const Puppet&) = delete;
    Puppet& operator=(const Puppet&) = delete;

   private:
    grpc::Status Fetch(grpc::ServerContext*, const v1::FetchRequest* in, Writer* out) override {
      return says_(*in, *out);
    }
    const Says says_;
    std::unique_ptr<grpc::Server> server_;
  };
  static v1::NotePart Part(v1::NotePart::Kind kind, std::uint32_t place = 0, const std::string& note = "") {
    v1::NotePart part;
    part.set_kind(kind);
    part.set_place(place);
    part.set_size(note.size());
    part.set_data(note);
    return part;
  }
  static std::string Frame(Vec w) {  // as a note is sent
    struct Message {
      Public<Vec> w;
      auto Fields() { return std::tie(w); }
    } m;
    m.w.Mutable() = std::move(w);
    const Bytes bytes = Codec::Encode(m);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

}  // namespace tacit
