// Servers and clients over real channels with mutual TLS on this machine.
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <federation.grpc.pb.h>
#include <cmath>
#include <limits>
#include <thread>

#include "audit/conformance.h"
#include "core/sha256.h"
#include "net/deadline.h"
#include "net/notary.h"
#include "net/test_federation.h"
#include "net/test_list.h"
#include "net/wire_log.h"
#include "privacy/ledger.h"
#include "wire/frame.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

class Conformance : public Federation, public testing::WithParamInterface<ConformanceCase> {};

// The model of clients elsewhere is, bit for bit, that of one process.
TEST_P(Conformance, ModelsAreBitwiseEqualToThreads) {
  const ConformanceCase& of = GetParam();
  here_ = home() / fmt::format("conformance{}", Sha256::Hex(of.name).substr(0, 12));
  fs::create_directories(here_);
  const auto settings = ConformanceSettings(here_);
  const auto made = ParseConfig(of.text, "case.toml", settings);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const std::size_t n = made->data.clients;
  ASSERT_LE(n, kConformanceClients);
  const auto files = WriteConformanceRows(of, *made, here_);
  const bool graph = WithoutServer(*made);
  std::string names, records;
  for (std::size_t c = 0; c < n; ++c) names += fmt::format("\"{}{}\", ", graph ? "p" : "m", c);
  for (const std::size_t k : of.records) records += fmt::format("{}, ", k);
  const Job job =
      MakeJob(fmt::format("{}\n[serve]\nclients = [{}]\nrecords = [{}]\naddresses = {}\ndeadline = 60\n",
                          of.text, names, records, graph ? FreeAddresses(n) : "[]"),
              settings);
  if (!of.refused.empty()) {
    const auto plan = PlanOf(job);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, Code::kUnsupported);
    EXPECT_NE(plan.error().message.find(of.refused), std::string::npos) << plan.error().message;
    return;
  }
  const auto alone = Alone(job);
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  RecordProperty("model_sha256", alone->model_sha256);
  if (graph) {
    const auto joined = TrainPeers(job, files);
    std::vector<std::size_t> all;
    for (const auto& one : joined) {
      ASSERT_TRUE(one.ok()) << one.error().message;
      EXPECT_TRUE(one->over);
      EXPECT_EQ(one->result.rounds, alone->rounds_done);
      all.push_back(all.size());
    }
    EXPECT_EQ(MeanOf(joined, all), alone->model);
    return;
  }
  const Ran apart = Train(job, files);
  ASSERT_TRUE(apart.server.ok()) << apart.server.error().message;
  std::size_t answered = 0;
  for (const auto& one : apart.clients) {
    ASSERT_TRUE(one.ok()) << one.error().message;
    EXPECT_TRUE(one->over);
    EXPECT_LE(one->result.epsilon, alone->certified_epsilon);
    answered += one->result.rounds;
    if (made->algorithm.sampling == "full") {
      EXPECT_EQ(one->result.rounds, alone->rounds_done);
    }
  }
  EXPECT_EQ(apart.server->model_sha256, alone->model_sha256);
  EXPECT_EQ(apart.server->model, alone->model);
  EXPECT_EQ(apart.server->certified_epsilon, alone->certified_epsilon);
  EXPECT_EQ(apart.server->answers.taken, alone->answers.taken);
  EXPECT_EQ(apart.server->answers.taken, answered);
  EXPECT_EQ(apart.server->answers.absent, 0u);
  if (made->algorithm.sampling != "full") {
    EXPECT_LT(answered, n * alone->rounds_done) << "everybody was asked";
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Conformance, testing::ValuesIn(ConformanceCases()),
                         [](const auto& of) { return PlainName(of.param.name); });

constexpr const char* kSmall = R"(
[data]
rows = 12
features = 3
row_norm = "clip"
[model]
name = "logistic"
l2 = 0.1
[privacy]
epsilon = 2.0
[algorithm]
name = "primal-dual"
rounds = 6
[serve]
clients = ["c0", "c1"]
deadline = 60
)";

const std::vector<std::pair<const char*, const char*>> kCentral = {
    {"privacy.unit", "client"}, {"privacy.trust", "central"}, {"algorithm.name", "dp-fedavg"}};

using grpc::StatusCode;

// A message that calls are made with by hand.
struct Numbers {
  Public<Vec> x;
  auto Fields() { return std::tie(x); }
};

// A server that asks both clients one question, and stubs to call it with.
class Wire : public Federation {
 protected:
  void SetUp() override {
    Federation::SetUp();
    job_ = MakeJob(kSmall);
    auto started = Start(job_);
    ASSERT_TRUE(started.ok()) << started.error().message;
    server_ = *std::move(started);
    address_ = fmt::format("127.0.0.1:{}", server_->port());
  }
  void TearDown() override {
    asking_ = {};
    server_.reset();
    Federation::TearDown();
  }

  void Ask(std::uint32_t round) {
    asking_ = std::jthread([this, round] {
      const std::vector<std::uint32_t> who = {0, 1};
      const Bytes frame = Frame({1, 2, 3});
      asked_ = server_->Ask({.round = round,
                             .who = who,
                             .frame = frame,
                             .most_bytes = 4096,
                             .check = [](auto bytes) -> Status {
                               TACIT_TRY(const Numbers n, Codec::Decode<Numbers>(bytes));
                               if (n.x->size() == 3 && AllFinite(*n.x)) return Ok{};
                               return Fail(Code::kMalformed, "not three numbers");
                             }},
                            answers_);
    });
    // Asked for only once somebody sees it.
    const v1::WorkPart seen = Next(asked_name_);
    EXPECT_EQ(seen.kind(), v1::WorkPart::ROUND);
    asked_for_ = seen.question();
  }
  static Bytes Frame(Vec x) {
    Numbers n;
    n.x.Mutable() = std::move(x);
    return Codec::Encode(n);
  }
  static std::shared_ptr<grpc::ChannelCredentials> Credentials(const Identity& id) {
    return grpc::SslCredentials({id.authority, id.key, id.certificate});
  }
  std::unique_ptr<v1::Federation::Stub> Stub(const std::shared_ptr<grpc::ChannelCredentials>& with) const {
    grpc::ChannelArguments apart;      // no two stubs share a connection
    apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::Federation::NewStub(grpc::CreateCustomChannel(address_, with, apart));
  }
  grpc::StatusCode Enrol(const std::shared_ptr<grpc::ChannelCredentials>& with,
                         std::uint32_t protocol = kProtocol) const {
    return Enrol(*Stub(with), protocol);
  }
  static grpc::StatusCode Enrol(v1::Federation::Stub& stub, std::uint32_t protocol = kProtocol) {
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::EnrolRequest request;
    request.set_protocol(protocol);
    v1::EnrolReply reply;
    return stub.Enrol(&call, request, &reply).error_code();
  }
  StatusCode Enrol(const std::string& name, const std::string& session) const {
    grpc::ClientContext call;
    v1::EnrolRequest request;
    request.set_protocol(kProtocol);
    request.set_session(session);
    v1::EnrolReply reply;
    return Stub(Credentials(Who(name)))->Enrol(&call, request, &reply).error_code();
  }
  v1::WorkPart Next(const std::string& name) const {
    v1::WorkPart part;
    EXPECT_EQ(Next(name, SessionFrom(kHome), part), StatusCode::OK);
    return part;
  }
  StatusCode Next(const std::string& name, const std::string& session, v1::WorkPart& part) const {
    grpc::ClientContext call;
    v1::NextRequest request;
    request.set_job(kId);
    if (!session.empty()) call.AddMetadata(kSessionKey, session);
    const auto stub = Stub(Credentials(Who(name)));
    const auto stream = stub->Next(&call, request);
    v1::WorkPart rest;
    (void)stream->Read(&part);
    while (stream->Read(&rest)) {
    }
    return stream->Finish().error_code();
  }
  struct Parcel {
    std::string job = kId;
    std::uint32_t round = 1;
    bool last = false;
    std::optional<std::uint64_t> size = {};
    std::optional<std::string> question = {};  // otherwise that of `asked_for_`
    std::string session = SessionFrom(kHome);
  };
  StatusCode Answer(const std::string& name, const Bytes& bytes, const Parcel& p) const {
    grpc::ClientContext call;
    v1::AnswerReply reply;
    if (!p.session.empty()) call.AddMetadata(kSessionKey, p.session);
    const auto stub = Stub(Credentials(Who(name)));
    const auto stream = stub->Answer(&call, &reply);
    v1::AnswerPart part;
    part.set_job(p.job);
    part.set_round(p.round);
    part.set_last(p.last);
    part.set_question(p.question.value_or(asked_for_));
    part.set_size(p.size.value_or(bytes.size()));
    part.set_data(bytes.data(), bytes.size());
    stream->Write(part);
    stream->WritesDone();
    return stream->Finish().error_code();
  }

  struct Nothing {
    auto Fields() { return std::tie(); }
  } nothing_;
  Job job_;
  std::unique_ptr<FederationServer> server_;
  std::string address_;
  std::jthread asking_;
  std::vector<Bytes> answers_;
  Status asked_ = Ok{};
  std::string asked_for_, asked_name_ = "c0";
};

TEST_F(Wire, LetsInWhomTheAuthorityVouchesForAndTheJobNames) {
  EXPECT_EQ(Enrol(Credentials(Who("c0"))), StatusCode::OK);
  EXPECT_EQ(Enrol(Credentials(Who("stranger"))), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Enrol(Credentials(Who("c0")), kProtocol + 1), StatusCode::FAILED_PRECONDITION);
}

// Two processes of one client that are alive: only the one that enrolled last is asked and heard.
TEST_F(Wire, HearsTheProcessThatEnrolledLast) {
  const std::string first = SessionFrom(kHome, 'a'), second = SessionFrom(kElsewhere, 'b');
  v1::WorkPart part;
  for (const std::string& none : {std::string(), std::string(63, 'a'), std::string(65, 'a'),
                                  std::string(64, 'A'), std::string(63, 'a') + " "})
    EXPECT_EQ(Next("c0", none, part), StatusCode::INVALID_ARGUMENT) << none;
  EXPECT_EQ(Enrol("c0", "a"), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Enrol("c0", first), StatusCode::OK);
  EXPECT_EQ(Enrol("c0", first), StatusCode::OK);  // a call that was lost is made again
  {
    std::jthread waiting([&] {
      v1::WorkPart none;
      EXPECT_EQ(Next("c0", first, none), StatusCode::PERMISSION_DENIED);
    });
    while (server_->counts().seen == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(Enrol("c0", second), StatusCode::OK);
  }  // it does not wait until there is work
  EXPECT_EQ(Enrol("c0", ""), StatusCode::OK);  // who reviews the job takes nobody's place
  asked_name_ = "c1";
  Ask(1);
  EXPECT_EQ(Next("c0", first, part), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Next("c0", second, part), StatusCode::OK);
  EXPECT_EQ(part.answered(), 0u);
  const Bytes answer = Frame({4, 5, 6});
  EXPECT_EQ(Answer("c0", answer, {.session = first}), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Answer("c0", answer, {.session = ""}), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Next("c0", second, part), StatusCode::OK);
  EXPECT_EQ(part.answered(), 0u);  // what was refused is not noted
  EXPECT_EQ(Answer("c0", answer, {.session = second}), StatusCode::OK);
  // Its answers come from there; nothing is heard from elsewhere, whoever enrolls.
  EXPECT_EQ(Enrol("c0", first), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Answer("c0", answer, {.session = first}), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Enrol("c0", SessionFrom(kElsewhere, 'a')), StatusCode::PERMISSION_DENIED);  // of before
  EXPECT_EQ(Enrol("c0", SessionFrom(kElsewhere, 'c')), StatusCode::OK);
  EXPECT_EQ(Answer("c1", answer, {}), StatusCode::OK);
}

// An upload that was let in does not go on beside another process, which is not asked before it has ended.
TEST_F(Wire, AnUploadEndsWhenAnotherProcessTakesPart) {
  const std::string first = SessionFrom(kHome, 'a'), second = SessionFrom(kHome, 'b');
  Ask(1);
  EXPECT_EQ(Enrol("c0", first), StatusCode::OK);
  grpc::ClientContext call;
  call.AddMetadata(kSessionKey, first);
  v1::AnswerReply reply;
  const auto stub = Stub(Credentials(Who("c0")));
  const auto upload = stub->Answer(&call, &reply);
  upload->WaitForInitialMetadata();
  EXPECT_EQ(call.GetServerInitialMetadata().count(kReadyKey), 1u);
  EXPECT_EQ(Enrol("c0", second), StatusCode::OK);
  EXPECT_NE(upload->Finish().error_code(), StatusCode::OK);
  v1::WorkPart part;
  EXPECT_EQ(Next("c0", second, part), StatusCode::OK);
  EXPECT_EQ(part.kind(), v1::WorkPart::ROUND);
  EXPECT_EQ(part.answered(), 0u);
  const Bytes answer = Frame({4, 5, 6});
  EXPECT_EQ(Answer("c0", answer, {.session = second}), StatusCode::OK);
  EXPECT_EQ(Answer("c1", answer, {}), StatusCode::OK);
}

TEST(Deadlines, GrowWithTheBytes) {
  using std::chrono::milliseconds;
  EXPECT_EQ(TimeFor(60, 0, 1e5), milliseconds(60000));
  EXPECT_EQ(TimeFor(60, 100, 1e5), milliseconds(60001));
  EXPECT_EQ(TimeFor(60, 400'000'000, 1e5), milliseconds(4'060'000));  // a network of 50 million weights
  EXPECT_EQ(TimeFor(0, 0, 1e5), milliseconds(0));
  EXPECT_EQ(TimeFor(60, ~std::uint64_t{0}, 1e-9), milliseconds(1'000'000'000'000));
}

TEST(Deadlines, PausesAreSpreadOverTheirSecondHalf) {
  using std::chrono::milliseconds;
  EXPECT_EQ(Spread(milliseconds(50), 0), milliseconds(50));
  EXPECT_EQ(Spread(milliseconds(50), 25), milliseconds(25));
  EXPECT_EQ(Spread(milliseconds(50), 26), milliseconds(50));
  EXPECT_EQ(Spread(milliseconds(1), ~std::uint64_t{0}), milliseconds(1));
  EXPECT_EQ(Spread(milliseconds(0), 7), milliseconds(0));
  Stream coins({1, Purpose::kTest, 0, 0});
  for (int i = 0; i < 1000; ++i) {
    const auto pause = Spread(milliseconds(1000), coins());
    EXPECT_TRUE(pause >= milliseconds(500) && pause <= milliseconds(1000)) << pause.count();
  }
}

// What is too slow for a short answer is not for a long one; here a byte may take hours.
TEST_F(Wire, ALongAnswerHasLonger) {
  server_.reset();
  auto started = FederationServer::Start(job_, kId,
                                         {.address = "127.0.0.1:0",
                                          .identity = Who("server"),
                                          .revocations = {},
                                          .upload = 0.5,
                                          .link = 1e-4,
                                          .log = {}});
  ASSERT_TRUE(started.ok()) << started.error().message;
  server_ = *std::move(started);
  address_ = fmt::format("127.0.0.1:{}", server_->port());
  asked_name_ = "c1";
  Ask(1);
  const Bytes answer = Frame({4, 5, 6});
  grpc::ClientContext call;
  call.AddMetadata(kSessionKey, SessionFrom(kHome));
  v1::AnswerReply reply;
  const auto stub = Stub(Credentials(Who("c0")));
  const auto upload = stub->Answer(&call, &reply);
  v1::AnswerPart part;
  part.set_job(kId);
  part.set_round(1);
  part.set_question(asked_for_);
  part.set_size(answer.size());
  part.set_data(answer.data(), 1);
  EXPECT_TRUE(upload->Write(part));  // with the call: the server knows at once how long it is
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  part.Clear();
  part.set_data(answer.data() + 1, answer.size() - 1);
  EXPECT_TRUE(upload->Write(part));
  upload->WritesDone();
  const grpc::Status done = upload->Finish();
  EXPECT_TRUE(done.ok()) << done.error_message();
  EXPECT_EQ(Answer("c1", answer, {}), StatusCode::OK);
}

TEST_F(Wire, TurnsAwayCallersWithoutACertificate) {
  grpc::SslCredentialsOptions bare;
  bare.pem_root_certs = Who("c0").authority;
  EXPECT_EQ(Enrol(grpc::SslCredentials(bare)), StatusCode::UNAVAILABLE);
  EXPECT_EQ(Enrol(grpc::InsecureChannelCredentials()), StatusCode::UNAVAILABLE);      // plain text
}

TEST_F(Wire, TurnsAwayOtherAuthoritiesWhateverTheName) {
  Certify("other", "c0", Party::kClient);
  Identity forged = Who("c0", "other");
  forged.authority = Who("c0").authority;      // believes the server, and is not believed
  EXPECT_EQ(Enrol(Credentials(forged)), StatusCode::UNAVAILABLE);
}

TEST_F(Wire, TurnsAwayExpiredRevokedAndMisusedCertificates) {
  Certify("ca", "late", Party::kClient, -1);
  EXPECT_EQ(Enrol(Credentials(Who("late"))), StatusCode::UNAVAILABLE);
  EXPECT_EQ(Enrol(Credentials(Who("server"))), StatusCode::UNAVAILABLE);      // not a client's
  EXPECT_EQ(Enrol(Credentials(Who("c2"))), StatusCode::PERMISSION_DENIED);
  ASSERT_TRUE(Revoke(home() / "ca", "c2").ok());      // while the server runs
  EXPECT_EQ(Enrol(Credentials(Who("c2"))), StatusCode::UNAUTHENTICATED);
  fs::remove(home() / "ca/issued/c2.pem"), fs::remove(home() / "ca/issued/c2.key");
  Certify("ca", "c2", Party::kClient);
  EXPECT_EQ(Enrol(Credentials(Who("c2"))), StatusCode::PERMISSION_DENIED);
}

// Nobody is let in, and nobody is sent away for good: the list may be on its way.
TEST_F(Wire, AListThatCannotBeReadNowIsNoVerdict) {
  const fs::path list = home() / "ca/crl.pem";
  const auto good = ReadWhole(list);
  ASSERT_TRUE(good.ok());
  for (const std::string& bad : {std::string(), good->substr(0, good->size() / 2), std::string("garbage")}) {
    ASSERT_TRUE(WriteWhole(list, bad).ok());
    EXPECT_EQ(Enrol(Credentials(Who("c0"))), StatusCode::UNAVAILABLE);
  }
  fs::remove(list);
  EXPECT_EQ(Enrol(Credentials(Who("c0"))), StatusCode::UNAVAILABLE);
  // A client waits for the server's list, and for its own.
  ASSERT_TRUE(WriteWhole(here_ / "own.pem", "").ok());
  std::optional<Result<Offer>> offer;
  {
    std::jthread client([&] {
      JoinOptions o = Joining("c0", server_->port(), "");
      o.revocations = here_ / "own.pem";
      offer = ReadOffer(o);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ASSERT_TRUE(WriteWhole(list, *good).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ASSERT_TRUE(WriteWhole(here_ / "own.pem", *good).ok());
  }
  EXPECT_TRUE(offer->ok()) << offer->error().message;
}

// Files may run out by what others do, who need no certificate for that.
TEST_F(Wire, AServerOutOfFilesSendsNobodyAwayForGood) {
  const auto stub = Stub(Credentials(Who("c0")));
  ASSERT_EQ(Enrol(*stub), StatusCode::OK);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = std::min<rlim_t>(before.rlim_cur, 512);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> taken;
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.push_back(fd);
  const StatusCode out_of_files = Enrol(*stub);
  for (const int fd : taken) ::close(fd);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(taken.empty());
  EXPECT_EQ(out_of_files, StatusCode::UNAVAILABLE);
  EXPECT_EQ(Enrol(*stub), StatusCode::OK);
}

TEST_F(Wire, AClientBelievesOnlyAServersCertificateOfItsAuthority) {
  JoinOptions o = Joining("c0", server_->port(), "");
  o.patience = 0;
  o.identity.authority = Who("c0").authority;
  EXPECT_TRUE(ReadOffer(o).ok());
  o.server = fmt::format("127.0.0.2:{}", server_->port());      // not a host of the certificate
  EXPECT_FALSE(ReadOffer(o).ok());
  o = Joining("c0", server_->port(), "");
  o.patience = 0;
  Certify("other", "elsewhere", Party::kClient);
  o.identity.authority = Who("elsewhere", "other").authority;
  const auto refused = ReadOffer(o);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("--ca"), std::string::npos) << refused.error().message;
}

// It is said at once what may be wrong, and not after the last attempt.
TEST_F(Wire, AClientSaysWhatToCheck) {
  std::string log;
  JoinOptions o = Joining("c0", server_->port(), "");
  o.log = [&](const std::string& line) { log += line + "\n"; };
  o.patience = 0;
  const auto there = FederationServer::Start(job_, kId,
                                             {.address = "127.0.0.2:0",  // not a host of the certificate
                                              .identity = Who("server"),
                                              .revocations = {},
                                              .log = {}});
  ASSERT_TRUE(there.ok()) << there.error().message;
  o.server = fmt::format("127.0.0.2:{}", (*there)->port());
  const auto host = ReadOffer(o);
  ASSERT_FALSE(host.ok());
  EXPECT_NE(host.error().message.find("--host 127.0.0.2"), std::string::npos) << host.error().message;
  o = Joining("c0", server_->port(), "");
  o.log = [&](const std::string& line) { log += line + "\n"; };
  o.patience = 0.2;
  o.identity.authority = *ReadWhole(home() / "other/ca.pem");
  const auto authority = ReadOffer(o);
  ASSERT_FALSE(authority.ok());
  EXPECT_NE(authority.error().message.find("check --ca"), std::string::npos) << authority.error().message;
  EXPECT_NE(log.find("check --ca"), std::string::npos) << log;
}

TEST(WireLog, TakesGrpcsLinesOneASecond) {
  std::vector<std::string> lines;
  {
    const WireLog log([&](const std::string& line) { lines.push_back(line); });
    for (int i = 0; i < 5; ++i) gpr_log(GPR_ERROR, "line %d", i);
  }
  gpr_log(GPR_ERROR, "nobody hears this");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("line 0"), std::string::npos) << lines[0];
}

TEST_F(Wire, RefusesWhatIsNoAnswerWithoutHurtingTheRound) {
  Ask(1);
  const Bytes good = Frame({1, 2, 3});
  Bytes flipped = good;
  flipped.back() ^= std::byte{1};
  const Bytes cut(good.begin(), good.end() - 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Answer("c0", flipped, {}), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Answer("c0", cut, {}), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Answer("c0", {}, {}), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Answer("c0", Frame({1, 2}), {}), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Answer("c0", Frame({1, 2, nan}), {}), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Answer("c0", Frame(Vec(5000)), {}), StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(Answer("c0", good, {.size = good.size() - 1}), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Answer("c0", good, {.size = good.size() + 1}), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Answer("c0", good, {.size = ~std::uint64_t{0}}), StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(Answer("c0", good, {.round = 2}), StatusCode::ABORTED);
  EXPECT_EQ(Answer("c0", good, {.round = 0}), StatusCode::ABORTED);
  EXPECT_EQ(Answer("c0", good, {.last = true}), StatusCode::ABORTED);
  EXPECT_EQ(Answer("c0", good, {.question = std::string(16, 'x')}), StatusCode::ABORTED);
  EXPECT_EQ(Answer("c0", good, {.question = ""}), StatusCode::ABORTED);
  EXPECT_EQ(Answer("c0", good, {.job = "ffffffffffffffffffffffffffffffff"}), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Answer("stranger", good, {}), StatusCode::PERMISSION_DENIED);

  EXPECT_EQ(Answer("c0", good, {}), StatusCode::OK);
  EXPECT_EQ(Answer("c0", good, {}), StatusCode::OK);      // resent: the same, counted once
  EXPECT_EQ(Answer("c0", Frame({7, 8, 9}), {}), StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(Answer("c1", Frame({4, 5, 6}), {}), StatusCode::OK);      // a name counts for itself alone
  asking_.join();
  ASSERT_TRUE(asked_.ok());
  EXPECT_EQ(server_->counts().answers, 2u);
  EXPECT_EQ(server_->counts().turned_away, 1u);
  EXPECT_EQ(server_->counts().refused, 15u);
  EXPECT_EQ(answers_, (std::vector<Bytes>{good, Frame({4, 5, 6})}));
  EXPECT_EQ(Answer("c1", Frame({4, 5, 6}), {}), StatusCode::ABORTED);      // replayed after the round
}

// A client that does not clip is found out, and the round goes on with the others.
TEST_F(Wire, ATrustedServerRefusesUpdatesThatAreLongerThanTheClip) {
  const auto files = WriteRows(12, 3, 2);
  server_.reset();
  std::vector<Assignment> sets = {{"algorithm.rounds", "1"}, {"privacy.clip", "0.5"}};
  for (const auto& [key, value] : kCentral) sets.push_back({key, value});
  job_ = MakeJob(kSmall, sets);
  auto started = Start(job_);
  ASSERT_TRUE(started.ok()) << started.error().message;
  server_ = *std::move(started);
  address_ = fmt::format("127.0.0.1:{}", server_->port());
  std::optional<Result<RunResult>> run;
  {
    std::jthread coordinator([&] { run = Coordinate(job_, *server_, here_ / "server"); });
    const v1::WorkPart asked = Next("c1");
    const Parcel to{.question = asked.question()};
    const std::size_t d = 3;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(Answer("c1", Frame(Vec(d, 0.3)), to), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(Answer("c1", Frame(Vec(d, nan)), to), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(Answer("c1", Frame(Vec(d + 1)), to), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(Answer("c1", Frame(Vec(d, 0.28)), to), StatusCode::OK);
    EXPECT_EQ(Answer("c0", Frame(Vec(d, -0.28)), to), StatusCode::OK);
    for (const char* name : {"c0", "c1"}) {
      const v1::WorkPart last = Next(name);
      EXPECT_EQ(last.kind(), v1::WorkPart::LAST);
      EXPECT_EQ(Answer(name, Codec::Encode(nothing_), {.last = true, .question = last.question()}),
                StatusCode::OK);
    }
  }
  ASSERT_TRUE(run->ok()) << run->error().message;
  EXPECT_EQ((*run)->answers.taken, 2u);
  const auto certificate = ReadWhole(here_ / "server/certificate.json");
  ASSERT_TRUE(certificate.ok());
  EXPECT_NE(certificate->find("\"trusted_server\": \"server\""), std::string::npos);
}

TEST_F(Federation, GoesOnWithoutWhoIsAway) {
  const auto files = WriteRows(12, 3, 2);
  const Job job =
      MakeJob(kSmall, {{"serve.deadline", "1"}, {"serve.minimum", "1"}, {"algorithm.rounds", "2"}});
  auto server = Start(job);
  ASSERT_TRUE(server.ok());
  std::optional<Result<Joined>> joined;
  std::jthread client([&] { joined = Join(Joining("c0", (*server)->port(), files[0])); });
  const auto run = Coordinate(job, **server, here_ / "server");
  (*server)->Over();
  client.join();
  ASSERT_TRUE(run.ok()) << run.error().message;
  ASSERT_TRUE(joined->ok()) << joined->error().message;
  EXPECT_EQ(run->answers.taken, 2u);
  EXPECT_EQ(run->answers.absent, 2u);
}

// A network's update is kept by its factors in a process, and formed where it leaves: the same bits.
TEST_F(Federation, ATrustedServersNetworkIsThatOfTheSimulation) {
  const auto files = WriteRows(12, 3, 2);
  std::vector<Assignment> sets = {{"model.name", "mlp"},     {"model.classes", "2"},
                                  {"model.hidden", "[9]"},   {"model.penalty", "none"},
                                  {"model.l2", "0"},         {"algorithm.batch", "2"},
                                  {"algorithm.rounds", "3"}, {"algorithm.local_steps", "2"}};
  for (const auto& [key, value] : kCentral) sets.push_back({key, value});
  const Job job = MakeJob(kSmall, sets);
  const auto alone = Alone(job);
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  const Ran apart = Train(job, files);
  ASSERT_TRUE(apart.server.ok()) << apart.server.error().message;
  EXPECT_EQ(apart.server->model, alone->model);
  EXPECT_EQ(apart.server->trusted_server, "server");
  for (const auto& one : apart.clients) {
    ASSERT_TRUE(one.ok()) << one.error().message;
    EXPECT_LE(one->result.epsilon, alone->certified_epsilon);
    EXPECT_GT(one->result.epsilon, 0.99 * alone->certified_epsilon);
  }
}

// Stops server and clients after some rounds, in turn, and goes on with the same folders.
TEST_F(Federation, GoesOnAfterAStopBitForBit) {
  const auto files = WriteRows(12, 3, 2);
  const Job job = MakeJob(kSmall, {{"algorithm.rounds", "12"}});
  const auto alone = Alone(job);
  ASSERT_TRUE(alone.ok()) << alone.error().message;

  std::vector<std::jthread> clients;
  std::vector<std::size_t> rounds(2), stops(2);
  std::optional<Result<RunResult>> run;
  const int port = FreePort();
  std::atomic<bool> end = false;
  for (int part = 0; !run || run->ok() == false || (*run)->interrupted; ++part) {
    ASSERT_LT(part, 12);
    std::atomic<bool> stop = false;
    auto server = FederationServer::Start(job, kId,
                                          {.address = fmt::format("127.0.0.1:{}", port),
                                           .identity = Who("server"),
                                           .revocations = home() / "ca" / "crl.pem",
                                           .stop = &stop,
                                           .log = {}});
    ASSERT_TRUE(server.ok()) << server.error().message;
    for (std::size_t c = 0; part == 0 && c < 2; ++c)
      clients.emplace_back([&, c] {
        for (bool over = false; !over && !end;) {  // every client stops after three rounds and comes back
          std::atomic<bool> pause = false;
          JoinOptions o = Joining(job.clients[c], port, files[c]);
          o.stop = &pause;
          std::size_t seen = 0;
          o.log = [&](const std::string& line) {
            if (line.starts_with("round") && ++seen == 3 + c) pause = true;
          };
          const auto joined = Join(o);
          ASSERT_TRUE(joined.ok()) << joined.error().message;
          over = joined->over;
          rounds[c] = joined->result.rounds;
          ++stops[c];
        }
      });
    std::size_t made = 0;
    TrainHooks watch;
    watch.interrupt = &stop;
    watch.progress = [&](const Progress&) {
      if (++made == 4) stop = true;
    };
    run = Coordinate(job, **server, here_ / "server", watch);
    ASSERT_TRUE(run->ok()) << run->error().message;
    if (!(*run)->interrupted) (*server)->Over();
  }
  end = true;
  clients.clear();
  EXPECT_EQ((*run)->model_sha256, alone->model_sha256);
  EXPECT_EQ((*run)->rounds_done, 12u);
  for (std::size_t c = 0; c < 2; ++c) {
    EXPECT_EQ(rounds[c], 12u);
    EXPECT_GT(stops[c], 2u);
    // Paid once for every round, by the client's own ledger.
    const auto ledger = SqliteVault::Read(here_ / ("state-" + job.clients[c]) / kId / "ledger.db");
    ASSERT_TRUE(ledger.ok()) << ledger.error().message;
    EXPECT_EQ(ledger->front().rounds_released, 12u);
    EXPECT_LE(ledger->front().spent[0], ledger->front().budget[0]);
  }
}

// The same command from elsewhere finds no record of what was released, and would release it anew.
TEST_F(Federation, AClientThatHasAnsweredFromAnotherFolderIsStopped) {
  const auto files = WriteRows(12, 3, 2);
  const Job job = MakeJob(kSmall);
  const auto join = [&](const std::string& name, int port, std::size_t rounds, const char* state = "") {
    std::atomic<bool> pause = false;
    JoinOptions o = Joining(name, port, files[name == "c0" ? 0 : 1]);
    if (*state != 0) o.state = here_ / state;
    o.stop = &pause;
    std::size_t seen = 0;
    o.log = [&](const std::string& line) {
      if (line.starts_with("round") && ++seen == rounds) pause = true;
      if (*state != 0 && line.starts_with("joined")) pause = true;  // which must not be
    };
    return Join(o);
  };
  const auto refused = [&](const Result<Joined>& joined) {
    ASSERT_FALSE(joined.ok());
    EXPECT_EQ(joined.error().code, Code::kBudget);
    EXPECT_NE(joined.error().message.find("--state"), std::string::npos) << joined.error().message;
    EXPECT_FALSE(fs::exists(here_ / "elsewhere"));
  };
  {
    std::atomic<bool> stop = false;
    auto server = StartKeeping(job, &stop);
    ASSERT_TRUE(server.ok()) << server.error().message;
    std::jthread coordinator([&] { (void)Coordinate(job, **server, here_ / "server"); });
    {
      std::jthread other([&] { EXPECT_TRUE(join("c1", (*server)->port(), 2).ok()); });
      EXPECT_TRUE(join("c0", (*server)->port(), 2).ok());
    }
    refused(join("c0", (*server)->port(), 2, "elsewhere"));
    stop = true;
  }
  std::atomic<bool> stop = false;
  auto server = StartKeeping(job, &stop);  // and it knows after a restart
  ASSERT_TRUE(server.ok()) << server.error().message;
  refused(join("c0", (*server)->port(), 2, "elsewhere"));
  std::optional<Result<RunResult>> run;
  {
    std::jthread one([&] { EXPECT_TRUE(join("c0", (*server)->port(), 99).ok()); });
    std::jthread two([&] { EXPECT_TRUE(join("c1", (*server)->port(), 99).ok()); });
    run = Coordinate(job, **server, here_ / "server");
    (*server)->Over();
  }
  ASSERT_TRUE(run->ok()) << run->error().message;
  EXPECT_EQ((*run)->rounds_done, 6u);
}

// The first part of an answer to a round that is not asked for.
StatusCode SendLate(const char* job, int port, const Identity& who, std::uint32_t round, std::uint32_t step,
                    bool last, const std::string& session) {
  const auto channel = grpc::CreateChannel(fmt::format("127.0.0.1:{}", port),
                                           grpc::SslCredentials({who.authority, who.key, who.certificate}));
  grpc::ClientContext call;
  v1::AnswerReply reply;
  call.AddMetadata(kSessionKey, session);
  const auto stub = v1::Federation::NewStub(channel);
  const auto stream = stub->Answer(&call, &reply);
  v1::AnswerPart part;
  part.set_job(job);
  part.set_round(round);
  part.set_step(step);
  part.set_last(last);
  stream->Write(part);
  stream->WritesDone();
  return stream->Finish().error_code();
}

// A server that died within a line is followed by one that does not go on with that line.
TEST_F(Federation, ALineThatWasCutIsNotGoneOnWith) {
  const Job job = MakeJob(kSmall);
  const fs::path file = here_ / "answered";
  ASSERT_TRUE(WriteWhole(file, fmt::format("2 c0 {}\n1", kHome)).ok());
  const auto start = [&] { return StartKeeping(job); };
  {
    const auto server = start();
    ASSERT_TRUE(server.ok()) << server.error().message;
    const auto late = [&](std::uint32_t round) {
      return SendLate(kId, (*server)->port(), Who("c1"), round, 0, false, SessionFrom(kHome));
    };
    const std::string two = fmt::format("2 c0 {}\n0 c1 -\n3 c1 {}\n", kHome, kHome);
    EXPECT_EQ(late(3), StatusCode::ABORTED);
    EXPECT_EQ(*ReadWhole(file), two);
    EXPECT_EQ(late(4), StatusCode::ABORTED);
    EXPECT_EQ(*ReadWhole(file), fmt::format("{}4 c1 {}\n", two, kHome));
  }
  {  // and the next one knows where the answers came from
    const auto server = start();
    ASSERT_TRUE(server.ok()) << server.error().message;
    const auto from = [&](const std::string& folder, char process) {
      return SendLate(kId, (*server)->port(), Who("c1"), 4, 0, false, SessionFrom(folder, process));
    };
    EXPECT_EQ(from(kElsewhere, 'b'), StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(from(kHome, 'c'), StatusCode::ABORTED);  // who calls first
    EXPECT_EQ(from(kHome, 'a'), StatusCode::PERMISSION_DENIED);
  }
  {  // what cannot be written down is not taken, and whoever watches is told
    const auto server = start();
    ASSERT_TRUE(server.ok()) << server.error().message;
    const auto late = [&](std::uint32_t round) {
      return SendLate(kId, (*server)->port(), Who("c1"), round, 0, false, SessionFrom(kHome));
    };
    fs::remove(file);
    fs::create_directories(file / "in the way");
    EXPECT_EQ(late(5), StatusCode::UNAVAILABLE);
    EXPECT_TRUE((*server)->counts().unkept);
    fs::remove_all(file);
    EXPECT_EQ(late(5), StatusCode::ABORTED);
    EXPECT_FALSE((*server)->counts().unkept);
  }
  for (const char* bad : {"13 c1 11111111111111111111111111111111\n", "1 c1 -\n", "1 c1 x\n", "1 c1\n"}) {
    ASSERT_TRUE(WriteWhole(file, bad).ok());  // the job has six rounds
    EXPECT_EQ(start().error().code, Code::kMalformed) << bad;
  }
}

// What was sent is known before it is acknowledged, while the round still waits for others, and where it came
// too late to count: a server that is killed then must not forget it.
TEST_F(Federation, AnswersAreNotedBeforeTheyAreTaken) {
  const auto files = WriteRows(12, 3, 2);
  const Job job = MakeJob(kSmall);
  std::atomic<bool> stop = false, pause = false;
  auto server = StartKeeping(job, &stop);
  ASSERT_TRUE(server.ok()) << server.error().message;
  std::jthread coordinator([&] { (void)Coordinate(job, **server, here_ / "server"); });
  JoinOptions o = Joining("c0", (*server)->port(), files[0]);
  o.stop = &pause;
  o.log = [&](const std::string& line) { pause = pause || line.starts_with("round"); };
  EXPECT_TRUE(Join(o).ok());
  // A copy: the server goes on waiting for c1, as it would be when it is killed.
  fs::copy_file(here_ / "answered", here_ / "killed");
  EXPECT_NE(ReadWhole(here_ / "killed", 1000)->find("1 c0 "), std::string::npos);

  const Identity c1 = Who("c1");
  const auto late = [&](std::uint32_t round, std::uint32_t step, bool last) {
    return SendLate(kId, (*server)->port(), c1, round, step, last, SessionFrom(kHome));
  };
  const auto known = [&] { return *ReadWhole(here_ / "answered", 1000); };
  EXPECT_EQ(late(5, 1, false), grpc::StatusCode::ABORTED);  // keys alone
  EXPECT_EQ(late(5, 0, true), grpc::StatusCode::ABORTED);  // a farewell
  EXPECT_EQ(late(7, 0, false), grpc::StatusCode::ABORTED);  // the job has six rounds
  EXPECT_EQ(known().find("5 c1"), std::string::npos) << known();
  EXPECT_EQ(known().find("7 c1"), std::string::npos) << known();
  EXPECT_EQ(late(4, 0, false), grpc::StatusCode::ABORTED);
  EXPECT_NE(known().find("4 c1 "), std::string::npos) << known();
  JoinOptions other = Joining("c1", (*server)->port(), files[1]);
  const auto joined = Join(other);
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().code, Code::kBudget);
  stop = true;
}

// A copy of a folder, with ledger and all, beside the process that goes on with it: one of them is heard.
TEST_F(Federation, OfTwoProcessesWithCopiesOfAFolderTheLastIsHeard) {
  const auto files = WriteRows(12, 3, 2);
  const Job job = MakeJob(kSmall);
  auto server = Start(job);
  ASSERT_TRUE(server.ok()) << server.error().message;
  std::optional<Result<RunResult>> run;
  std::optional<Result<Joined>> before;
  std::atomic<bool> answered = false;
  {
    std::jthread coordinator([&] {
      run = Coordinate(job, **server, here_ / "server");
      (*server)->Over();
    });
    std::jthread first([&] {
      JoinOptions o = Joining("c0", (*server)->port(), files[0]);
      o.log = [&](const std::string& line) { answered = answered || line.starts_with("round"); };
      before = Join(o);
    });
    while (!answered) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fs::copy(here_ / "state-c0", here_ / "copy", fs::copy_options::recursive);
    std::jthread second([&] {
      JoinOptions o = Joining("c0", (*server)->port(), files[0]);
      o.state = here_ / "copy";
      const auto joined = Join(o);
      EXPECT_TRUE(joined.ok()) << joined.error().message;
    });
    first.join();  // though nothing is to be done before c1 is there
    EXPECT_TRUE(Join(Joining("c1", (*server)->port(), files[1])).ok());
  }
  ASSERT_FALSE(before->ok());
  EXPECT_NE(before->error().message.find("another process"), std::string::npos) << before->error().message;
  ASSERT_TRUE(run->ok()) << run->error().message;
  EXPECT_EQ((*run)->rounds_done, 6u);
  const auto rounds = [&](const char* state) {
    return SqliteVault::Read(here_ / state / kId / "ledger.db")->front().rounds_released;
  };
  EXPECT_EQ(rounds("state-c0"), 1u);
  EXPECT_EQ(rounds("copy"), 6u);
}

// Who is told to stop finishes its round, if those who are missing come in time.
TEST_F(Federation, AServerThatIsToStopEndsItsRound) {
  const auto files = WriteRows(12, 3, 2);
  const Job job = MakeJob(kSmall);
  std::atomic<bool> stop = false, pause = false;
  const auto start = [&](double drain) { return StartKeeping(job, &stop, drain); };
  TrainHooks hooks;
  hooks.interrupt = &stop;
  const auto answer = [&](const char* name, int port) {
    JoinOptions o = Joining(name, port, files[name[1] == '0' ? 0 : 1]);
    o.stop = &pause;
    o.log = [&](const std::string& line) { pause = pause || line.starts_with("round"); };
    EXPECT_TRUE(Join(o).ok());
    pause = false;
  };
  std::optional<Result<RunResult>> run;
  {
    auto server = start(60);
    ASSERT_TRUE(server.ok()) << server.error().message;
    std::jthread coordinator([&] { run = Coordinate(job, **server, here_ / "server", hooks); });
    answer("c0", (*server)->port());
    stop = true;
    answer("c1", (*server)->port());
  }
  ASSERT_TRUE(run->ok()) << run->error().message;
  EXPECT_TRUE((*run)->interrupted);
  EXPECT_EQ((*run)->rounds_done, 1u);
  stop = false;
  {  // and nobody is waited for beyond that
    auto server = start(0.2);
    ASSERT_TRUE(server.ok()) << server.error().message;
    std::jthread coordinator([&] { run = Coordinate(job, **server, here_ / "server", hooks); });
    answer("c0", (*server)->port());
    stop = true;
  }
  ASSERT_TRUE(run->ok()) << run->error().message;
  EXPECT_TRUE((*run)->interrupted);
  EXPECT_EQ((*run)->rounds_done, 1u);
}

// A process may die when its answer is durable and the ledger has not counted it yet. The next one sends that
// answer, and counts it before.
TEST_F(Federation, AnAnswerThatIsKeptIsCountedBeforeItLeaves) {
  const auto files = WriteRows(12, 3, 2);
  const Job job = MakeJob(kSmall);
  auto server = Start(job);
  ASSERT_TRUE(server.ok()) << server.error().message;
  std::jthread coordinator([&] { (void)Coordinate(job, **server, here_ / "server"); });
  const auto join = [&](const char* until) {
    std::atomic<bool> pause = false;
    JoinOptions o = Joining("c0", (*server)->port(), files[0]);
    o.stop = &pause;
    o.log = [&](const std::string& line) { pause = pause || line.starts_with(until); };
    EXPECT_TRUE(Join(o).ok());
  };
  const fs::path ledger = here_ / "state-c0" / kId / "ledger.db";
  join("round");
  EXPECT_EQ(SqliteVault::Read(ledger)->front().rounds_released, 1u);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(ledger.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, "UPDATE rounds_released SET rounds = 0", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  EXPECT_EQ(SqliteVault::Read(ledger)->front().rounds_released, 0u);
  join("joined");
  EXPECT_EQ(SqliteVault::Read(ledger)->front().rounds_released, 1u);
  failed_ = true;
}

// A server says every ten seconds that there is nothing to do yet: that is no reason to leave.
TEST_F(Federation, AClientWithLittlePatienceWaitsForOthers) {
  const auto files = WriteRows(12, 3, 2);
  const Job job = MakeJob(kSmall);
  auto server = Start(job);
  ASSERT_TRUE(server.ok()) << server.error().message;
  std::optional<Result<RunResult>> run;
  {
    std::jthread one([&] {
      JoinOptions o = Joining("c0", (*server)->port(), files[0]);
      o.patience = 2;
      const auto joined = Join(o);
      EXPECT_TRUE(joined.ok()) << joined.error().message;
    });
    std::jthread two([&] {
      std::this_thread::sleep_for(std::chrono::seconds(7));
      EXPECT_TRUE(Join(Joining("c1", (*server)->port(), files[1])).ok());
    });
    run = Coordinate(job, **server, here_ / "server");
    (*server)->Over();
  }
  ASSERT_TRUE(run->ok()) << run->error().message;
}

TEST_F(Federation, AClientRefusesWhatItsPolicyDoesNotCover) {
  const auto files = WriteRows(12, 3, 2);
  const auto why = [&](const Policy& policy, const std::vector<Assignment>& sets) -> std::string {
    const Job job = MakeJob(kSmall, sets);
    auto server = Start(job);
    EXPECT_TRUE(server.ok());
    JoinOptions o = Joining("c0", (*server)->port(), files[0]);
    o.policy = policy;
    const auto joined = Join(o);
    EXPECT_FALSE(joined.ok());
    EXPECT_EQ(joined.error().code, Code::kBudget);
    EXPECT_FALSE(fs::exists(o.state)) << "something was kept of a job that was refused";
    return joined.error().message;
  };
  const std::vector<Assignment> real = {{"privacy.noise", "entropy"}, {"serve.noise_seed", "0"}};
  std::vector<Assignment> loose = real, paper = real;
  loose.push_back({"privacy.delta", "0.01"});
  paper.push_back({"algorithm.mode", "paper"});
  std::vector<Assignment> floating = real;
  floating.push_back({"privacy.mechanism", "gaussian"});
  std::vector<Assignment> masked = real;
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, const char*>>{{"privacy.unit", "client"},
                                                        {"privacy.trust", "masked"},
                                                        {"privacy.mechanism", "discrete_gaussian"},
                                                        {"algorithm.name", "dp-fedavg"},
                                                        {"algorithm.allocation", "static"}})
    masked.push_back({key, value});
  EXPECT_NE(why({.max_epsilon = 3}, masked).find("masked = false"), std::string::npos);
  EXPECT_NE(why({.max_epsilon = 3, .masked = true}, masked).find("colluding"), std::string::npos);
  std::vector<Assignment> central = real;
  for (const auto& [key, value] : kCentral) central.push_back({key, value});
  EXPECT_NE(why({.max_epsilon = 3}, central).find("trusted_servers = []"), std::string::npos);
  // A certificate of the same authority, and not the one that is trusted.
  EXPECT_NE(why({.max_epsilon = 3, .trusted_servers = {"other", "c0", "127.0.0.1"}}, central).find("of none"),
            std::string::npos);
  EXPECT_NE(why({.max_epsilon = 3, .unit = "client"}, real).find("(unit)"), std::string::npos);
  EXPECT_NE(why({.max_epsilon = 3, .adjacency = "add-remove"}, real).find("(adjacency)"), std::string::npos);
  EXPECT_NE(why({.max_epsilon = 1.9}, real).find("1.9"), std::string::npos);
  EXPECT_NE(why({.max_epsilon = 3}, loose).find("0.01"), std::string::npos);
  EXPECT_NE(why({.max_epsilon = 3}, {}).find("replayable"), std::string::npos);
  EXPECT_NE(why({.max_epsilon = 3}, paper).find("paper"), std::string::npos);
  // Nor the noise: in floating point it hides less than its certificate says.
  EXPECT_NE(why({.max_epsilon = 3}, floating).find("float_noise = false"), std::string::npos);
  const Job agreed = MakeJob(kSmall, floating);
  const auto plan = PlanOf(agreed);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_TRUE(CheckPolicy({.max_epsilon = 3, .float_noise = true}, agreed, *plan).ok());
  // A server chooses no predicate of rows that are read or not: how they are read may be agreed before.
  const std::vector<std::string> layout = {"features=3", "row_norm=clip", "format=csv", "label_column=0"};
  std::vector<Assignment> other = real, more = real;
  other.push_back({"data.label_column", "secret"});
  EXPECT_NE(why({.max_epsilon = 3, .layout = layout}, other).find("data.label_column = \"secret\""),
            std::string::npos);
  more.push_back({"data.drop", "[\"first\"]"});
  EXPECT_NE(why({.max_epsilon = 3, .layout = layout}, more).find("data.drop"), std::string::npos);
  more.back() = {"data.rows", "24"};  // how many rows there are is no matter of layout
  EXPECT_TRUE(CheckOffer({.max_epsilon = 3, .layout = layout}, MakeJob(kSmall, more)).ok());
}

// What a server may offer a client can read, whatever its length.
TEST_F(Federation, AJobOfAnyLengthThatIsServedIsRead) {
  const auto start = [&](std::size_t bytes) {
    const Job job = MakeJob(kSmall, {{"data.source", std::string(bytes, 'a')}});
    return Start(job);
  };
  EXPECT_EQ(start(kLargestJob).error().code, Code::kInvalidArgument);
  const std::size_t rest = ToToml(MakeJob(kSmall, {{"data.source", "a"}})).size() - 1;
  const Job job = MakeJob(kSmall, {{"data.source", std::string(kLargestJob - rest, 'a')}});
  ASSERT_EQ(ToToml(job).size(), kLargestJob);
  const auto server = Start(job);
  ASSERT_TRUE(server.ok()) << server.error().message;
  const auto offer = ReadOffer(Joining("c0", (*server)->port(), ""));
  ASSERT_TRUE(offer.ok()) << offer.error().message;
  EXPECT_EQ(offer->toml.size(), kLargestJob);
}

// What was reviewed is joined and nothing else, whatever runs at that address by then.
TEST_F(Federation, AClientJoinsTheJobThatItNames) {
  const auto files = WriteRows(12, 3, 2);
  const Job job = MakeJob(kSmall), other = MakeJob(kSmall, {{"algorithm.rounds", "7"}});
  const int port = FreePort();
  std::unique_ptr<FederationServer> server;
  const auto begin = [&](const Job& runs, const std::string& id) {
    server.reset();
    auto started = FederationServer::Start(runs, id,
                                           {.address = fmt::format("127.0.0.1:{}", port),
                                            .identity = Who("server"),
                                            .revocations = {},
                                            .stop = &failed_,
                                            .log = {}});
    ASSERT_TRUE(started.ok()) << started.error().message;
    server = *std::move(started);
  };
  const std::string another(kSessionPart, 'f');
  begin(job, kId);
  JoinOptions o = Joining("c0", port, (here_ / "nowhere.csv").string());
  const auto offer = ReadOffer(o);
  ASSERT_TRUE(offer.ok()) << offer.error().message;
  const std::string digest = Sha256::Hex(offer->toml);
  EXPECT_EQ(DigestOf(offer->toml), digest);
  std::string wrong = digest;
  wrong[15] = wrong[15] == '0' ? '1' : '0';
  for (const std::string& none : {wrong, wrong.substr(0, 16), DigestOf(ToToml(other))}) {
    o.job = none;
    EXPECT_EQ(Join(o).error().code, Code::kBudget) << none;
    EXPECT_FALSE(fs::exists(o.state)) << "something was kept of a job that was refused";
  }
  for (const std::string& none : {digest.substr(0, 15), digest + "0", std::string(16, 'g')}) {
    o.job = none;
    EXPECT_EQ(Join(o).error().code, Code::kInvalidArgument) << none;
  }
  // Another job begins while the client waits to be asked; with the same text it is still to be joined anew.
  for (const auto& [next, code] : {std::pair(&other, Code::kBudget), std::pair(&job, Code::kIo)}) {
    begin(job, kId);
    std::atomic<bool> joined = false;
    JoinOptions pinned = Joining("c0", port, files[0]);
    pinned.job = digest.substr(0, kLeastPin);
    pinned.log = [&](const std::string& line) { joined = joined || line.starts_with("joined"); };
    std::optional<Result<Joined>> done;
    {
      std::jthread client([&] {
        done = Join(pinned);
        joined = true;
      });
      while (!joined) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      begin(*next, another);
    }
    ASSERT_FALSE(done->ok());
    EXPECT_EQ(done->error().code, code) << done->error().message;
  }
}

TEST(Policy, ALayoutIsOfKeysThatSayHowRowsAreRead) {
  EXPECT_TRUE(ParsePolicy("layout = [\"label_column=outcome\", \"lower=[0, 1]\"]", "policy.toml").ok());
  for (const char* bad : {"label_column", "label_colum=x", "rows=3", "source=file.csv", "test=x", "clip=1",
                          "privacy.clip=1", "features=many", ""}) {
    const auto policy = ParsePolicy(fmt::format("layout = [\"{}\"]", bad), "policy.toml");
    ASSERT_FALSE(policy.ok()) << bad;
    EXPECT_NE(policy.error().message.find("policy.toml"), std::string::npos) << policy.error().message;
  }
}

// What a client keeps, its cumulative ledger among it, is for its owner alone.
TEST_F(Federation, TheStateOfAClientIsItsOwnersAlone) {
  const auto files = WriteRows(12, 3, 2);
  const Ran ran = Train(MakeJob(kSmall), files);
  ASSERT_TRUE(ran.server.ok()) << ran.server.error().message;
  const auto perms = [](const fs::path& at) { return fs::status(at).permissions() & ~fs::perms::owner_all; };
  EXPECT_EQ(perms(here_ / "state-c0"), fs::perms::none);
  EXPECT_EQ(perms(here_ / "state-c0" / kId), fs::perms::none);
}

TEST_F(Federation, AClientListensToNobodyWhoIsRevoked) {
  Certify("ca", "former", Party::kServer);
  Certify("ca", "lost", Party::kClient);
  const Job job = MakeJob(kSmall);
  auto server = FederationServer::Start(
      job, kId,
      {.address = "127.0.0.1:0", .identity = Who("former"), .revocations = {}, .stop = &failed_, .log = {}});
  ASSERT_TRUE(server.ok()) << server.error().message;
  JoinOptions o = Joining("c0", (*server)->port(), "");
  o.revocations = home() / "ca/crl.pem";
  EXPECT_TRUE(ReadOffer(o).ok());
  // Another client, whose keys a masked sum would be made with.
  const std::vector<std::string> names = {"c0", "lost"};
  const CertificateNotary lost(Who("lost"), names, kId), own(Who("c0"), names, kId, o.revocations);
  const auto text = std::as_bytes(std::span("text"));
  const auto signature = lost.Sign(text);
  ASSERT_TRUE(signature.ok());
  EXPECT_TRUE(own.Verify(1, lost.certificate(), text, *signature).ok());
  ASSERT_TRUE(Revoke(home() / "ca", "former").ok() && Revoke(home() / "ca", "lost").ok());
  const auto refused = ReadOffer(o);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("revoked"), std::string::npos) << refused.error().message;
  EXPECT_FALSE(own.Verify(1, lost.certificate(), text, *signature).ok());
}

// It is said once, by each of them, and nobody is refused for it.
TEST_F(Federation, AListThatIsOutdatedIsSaidOnce) {
  const fs::path list = here_ / "old.pem";
  ASSERT_TRUE(WriteWhole(list, OutdatedList(home() / "ca")).ok());
  std::size_t at_server = 0, at_client = 0;
  const auto count = [&](std::size_t& warnings) -> EventLog {
    return [this, &warnings](const LogEvent& e) {
      const std::lock_guard lock(mutex_);
      if (e.event == Event::kRevocationsOutdated) ++warnings;
    };
  };
  const auto files = WriteRows(12, 3, 2);
  const Job job = MakeJob(kSmall);
  auto server = FederationServer::Start(job, kId,
                                        {.address = "127.0.0.1:0",
                                         .identity = Who("server"),
                                         .revocations = list,
                                         .stop = &failed_,
                                         .log = count(at_server)});
  ASSERT_TRUE(server.ok()) << server.error().message;
  std::optional<Result<RunResult>> run;
  {
    std::vector<std::jthread> clients;
    for (const std::size_t c : {0, 1})
      clients.emplace_back([&, c] {
        JoinOptions o = Joining(job.clients[c], (*server)->port(), files[c]);
        o.revocations = list;
        if (c == 0) o.log = count(at_client);
        const auto joined = Join(o);
        EXPECT_TRUE(joined.ok()) << joined.error().message;
      });
    run = Coordinate(job, **server, here_ / "server");
    (*server)->Over();
  }
  ASSERT_TRUE(run->ok()) << run->error().message;
  EXPECT_EQ(at_server, 1u);
  EXPECT_EQ(at_client, 1u);
}

// Hands everything on to a server, and is revoked when it is called with an answer.
class Between final : public v1::Federation::Service {
 public:
  std::unique_ptr<v1::Federation::Stub> to;
  std::function<void()> revoke;
  std::atomic<int> calls = 0, parts = 0;

 private:
  grpc::Status Enrol(grpc::ServerContext*, const v1::EnrolRequest* in, v1::EnrolReply* out) override {
    grpc::ClientContext call;
    return to->Enrol(&call, *in, out);
  }
  grpc::Status Next(grpc::ServerContext* from, const v1::NextRequest* in,
                    grpc::ServerWriter<v1::WorkPart>* out) override {
    grpc::ClientContext call;
    if (const auto said = from->client_metadata().find(kSessionKey); said != from->client_metadata().end())
      call.AddMetadata(kSessionKey, std::string(said->second.data(), said->second.size()));
    const auto stream = to->Next(&call, *in);
    v1::WorkPart part;
    while (stream->Read(&part)) out->Write(part);
    return stream->Finish();
  }
  grpc::Status Answer(grpc::ServerContext* from, grpc::ServerReader<v1::AnswerPart>* in,
                      v1::AnswerReply*) override {
    ++calls;
    revoke();
    from->AddInitialMetadata(kReadyKey, "1");
    in->SendInitialMetadata();
    v1::AnswerPart part;
    while (in->Read(&part)) ++parts;
    return grpc::Status::OK;
  }
};

// Between a question and its answer a server may be revoked, or another may be at the end of a new
// connection.
TEST_F(Federation, NothingOfAnAnswerLeavesForWhoIsRevoked) {
  Certify("ca", "spy", Party::kServer);
  const auto files = WriteRows(12, 3, 2);
  std::vector<Assignment> sets;
  for (const auto& [key, value] : kCentral) sets.push_back({key, value});
  const Job job = MakeJob(kSmall, sets);
  auto server = Start(job);
  ASSERT_TRUE(server.ok()) << server.error().message;
  std::jthread coordinator([&] { (void)Coordinate(job, **server, here_ / "server"); });
  Between between;
  const Identity own = Who("c0"), spy = Who("spy");
  between.to = v1::Federation::NewStub(
      grpc::CreateChannel(fmt::format("127.0.0.1:{}", (*server)->port()),
                          grpc::SslCredentials({own.authority, own.key, own.certificate})));
  between.revoke = [&] { EXPECT_TRUE(Revoke(home() / "ca", "spy").ok()); };
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = spy.authority;
  tls.pem_key_cert_pairs.push_back({spy.key, spy.certificate});
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port);
  builder.RegisterService(&between);
  const auto listening = builder.BuildAndStart();
  ASSERT_TRUE(listening != nullptr && port != 0);
  JoinOptions o = Joining("c0", port, files[0]);
  o.revocations = home() / "ca/crl.pem";
  o.policy.trusted_servers = {"spy"};
  const auto joined = Join(o);
  failed_ = true;  // the run ends
  ASSERT_FALSE(joined.ok());
  EXPECT_NE(joined.error().message.find("revoked"), std::string::npos) << joined.error().message;
  EXPECT_EQ(between.calls, 1);
  EXPECT_EQ(between.parts, 0);
}

TEST_F(Federation, AClientsRowsMustBeThoseTheJobStates) {
  const auto files = WriteRows(12, 3, 2);
  const Job job = MakeJob(kSmall, {{"data.rows", "14"}});
  auto server = Start(job);
  ASSERT_TRUE(server.ok());
  const auto joined = Join(Joining("c0", (*server)->port(), files[0]));
  ASSERT_FALSE(joined.ok());
  EXPECT_NE(joined.error().message.find("serve.records"), std::string::npos) << joined.error().message;
}

}  // namespace
}  // namespace tacit
