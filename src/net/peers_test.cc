// Peers on a graph, each in a thread with a server of its own, over real channels: the model of a simulation
// bit for bit, and nobody is let in who is no neighbour.
#include "net/peers.h"

#include <grpcpp/grpcpp.h>

#include <federation.grpc.pb.h>
#include "experiment/verify.h"
#include "net/test_peers.h"
#include "privacy/data_ledger.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

struct Kind {
  const char* why;
  Sets sets;
};
const Kind kKinds[] = {
    {"zcdp-nfl", {}},
    {"zcdp-nfl, mean of all notes", {{"algorithm.output", "mean"}, {"network.topology", "star"}}},
    {"zcdp-nfl, a budget each", {{"privacy.budgets", "[1, 2, 1, 2, 0.5]"}}},
    {"zcdp-nfl, away for some rounds", {{"network.away", R"(["3: 5-9", "1: 2-3", "4: 12-12"])"}}},
    {"zcdp-nfl, hidden numbers of records", {{"privacy.adjacency", "add-remove"}}},
    {"dp-nfl", {{"algorithm.name", "dp-nfl"}}},
    {"zcdp-grad-nfl", {{"algorithm.name", "zcdp-grad-nfl"}, {"network.topology", "complete"}}},
    {"p-admm", {{"algorithm.name", "p-admm"}}},
    {"zcdp-nfl, as printed", {{"algorithm.mode", "paper"}}},
};

class Conformance : public Peers, public testing::WithParamInterface<Kind> {};

TEST_P(Conformance, PeersApartHaveTheModelOfASimulation) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed(GetParam().sets);
  const RunResult alone = Alone(job);
  const auto joined = TrainPeers(job, files);
  for (const auto& one : joined) ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_EQ(MeanOf(joined, {0, 1, 2, 3, 4}), alone.model);
  for (const auto& one : joined) {
    EXPECT_TRUE(one->over);
    EXPECT_EQ(one->result.rounds, 12u);
    EXPECT_LE(one->result.epsilon, alone.certified_epsilon * (1 + 1e-12));
    EXPECT_FALSE(fs::exists(one->folder / "checkpoint"));  // all have all they need
    EXPECT_TRUE(fs::exists(one->folder / "certificate.json"));
  }
}
INSTANTIATE_TEST_SUITE_P(Algorithms, Conformance, testing::ValuesIn(kKinds), [](const auto& kind) {
  std::string name;
  for (const char c : std::string_view(kind.param.why))
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
  return name;
});

// One whose neighbours may need its last note keeps it, and is done all the same.
TEST_F(Peers, WhoDoesNotWaitForNeighboursIsVerifiedToo) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed({{"network.topology", "complete"}, {"network.leave", R"(["2: 6"])"}});
  linger_ = 0;
  const auto joined = TrainPeers(job, files);
  ASSERT_TRUE(joined[2].ok()) << joined[2].error().message;
  EXPECT_TRUE(fs::exists(joined[2]->folder / "checkpoint"));
  const auto verified = VerifyFolder(joined[2]->folder);
  ASSERT_TRUE(verified.ok()) << verified.error().message;
  EXPECT_TRUE(verified->holds()) << verified->findings.front().sentence;
}

// A peer whose state and ledgers were put back from a copy is found out by who has heard more of it.
TEST_F(Peers, WhoWasPutBackIsFoundOut) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed();
  std::atomic<bool> stop = false;
  std::vector<std::optional<Result<Joined>>> joined(kPeers);
  const auto run = [&](std::size_t k, std::size_t rounds, std::atomic<bool>& end) {
    PeerSettings o = Settings(job, k, files[k]);
    std::size_t seen = 0;
    o.stop = &end;
    o.log = [&end, &seen, rounds](const std::string& line) {
      if (line.starts_with("round") && ++seen == rounds) end = true;
    };
    joined[k] = TakePeersPart(o);
  };
  const fs::path own = here_ / "state-p0", copy = here_ / "copy";
  {
    std::vector<std::jthread> peers;
    for (std::size_t k = 1; k < kPeers; ++k) peers.emplace_back([&, k] { run(k, 100, stop); });
    std::atomic<bool> early = false, later = false;
    run(0, 3, early);
    fs::copy(own, copy, fs::copy_options::recursive);
    run(0, 3, later);
    fs::remove_all(own);
    fs::rename(copy, own);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // neighbours ask for what comes next
    std::atomic<bool> never = false;
    run(0, 100, never);
    stop = true;
  }
  ASSERT_FALSE(joined[0]->ok());
  EXPECT_EQ(joined[0]->error().code, Code::kMismatch) << joined[0]->error().message;
}

// One who leaves for good is not waited for, and what it has learned until then is its own.
TEST_F(Peers, GoOnWithoutWhoHasLeft) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed({{"network.topology", "complete"}, {"network.leave", R"(["2: 6"])"}});
  linger_ = 3;  // of the one who has left: the others come to the end later
  const RunResult alone = Alone(job);
  const auto joined = TrainPeers(job, files);
  for (const auto& one : joined) ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_EQ(MeanOf(joined, {0, 1, 3, 4}), alone.model);
  EXPECT_EQ(joined[2]->result.rounds, 5u);
}

// Every peer is stopped again and again, at other rounds than its neighbours, and goes on.
TEST_F(Peers, GoOnAfterStopsBitForBit) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed();
  linger_ = 3;  // who asked is forgotten by a restart
  const RunResult alone = Alone(job);
  std::vector<std::optional<Result<Joined>>> joined(kPeers);
  std::vector<std::size_t> stops(kPeers);
  {
    std::vector<std::jthread> peers;
    for (std::size_t k = 0; k < kPeers; ++k)
      peers.emplace_back([&, k] {
        for (bool over = false; !over && !failed_;) {
          std::atomic<bool> pause = false;
          std::size_t seen = 0;
          PeerSettings o = Settings(job, k, files[k]);
          o.stop = &pause;
          o.log = [&](const std::string& line) {
            if (line.starts_with("round") && ++seen == 2 + k) pause = true;
          };
          joined[k] = TakePeersPart(o);
          if (!joined[k]->ok()) failed_ = true;
          over = joined[k]->ok() && (**joined[k]).over;
          stops[k] += over ? 0 : 1;
        }
      });
  }
  std::vector<Result<Joined>> out;
  for (auto& one : joined) {
    ASSERT_TRUE(one->ok()) << one->error().message;
    out.push_back(std::move(*one));
  }
  EXPECT_EQ(MeanOf(out, {0, 1, 2, 3, 4}), alone.model);
  for (const std::size_t n : stops) EXPECT_GE(n, 1u);
}

// Each has paid from its own ledger, once, and leaves a certificate that is recomputed from it.
TEST_F(Peers, LeaveARunThatIsVerified) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed({{"privacy.budgets", "[1, 2, 1, 2, 0.5]"}});
  const auto joined = TrainPeers(job, files);
  for (const auto& one : joined) {
    ASSERT_TRUE(one.ok()) << one.error().message;
    const auto verified = VerifyFolder(one->folder);
    ASSERT_TRUE(verified.ok()) << verified.error().message;
    EXPECT_TRUE(verified->holds()) << verified->findings.front().sentence;
  }
  const auto ledger = DataLedger::Read(here_ / "state-p0" / "ledger.db");
  ASSERT_TRUE(ledger.ok());
  ASSERT_EQ(ledger->size(), 1u);
  EXPECT_EQ(ledger->front().runs.at(0).state, "settled");
}

class Caller : public Peers {
 protected:
  // One call to p0, which waits for neighbours that never come.
  grpc::Status Call(const Identity& as, const std::string& job, std::uint32_t protocol = kProtocol,
                    std::uint32_t place = 1) {
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride(PeerHost("p0"));
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel =
        grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", port_.load()),
                                  grpc::SslCredentials({as.authority, as.key, as.certificate}), arguments);
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::FetchRequest request;
    request.set_protocol(protocol);
    request.set_job(job);
    request.set_place(place);
    const auto stream = v1::Peers::NewStub(channel)->Fetch(&call, request);
    v1::NotePart part;
    while (stream->Read(&part)) kind_ = part.kind();
    return stream->Finish();
  }
  std::atomic<int> port_ = 0;
  std::atomic<v1::NotePart::Kind> kind_ = v1::NotePart::WAIT;
};

TEST_F(Caller, IsTurnedAwayUnlessANeighbourInTheSameJob) {
  using grpc::StatusCode;
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed();  // a ring: p0 has p1 and p4
  const auto plan = PlanOf(job);
  ASSERT_TRUE(plan.ok());
  const std::string name = NameOf(job, *plan);
  std::atomic<bool> stop = false;
  std::optional<Result<Joined>> done;
  std::jthread peer([&] {
    PeerSettings o = Settings(job, 0, files[0]);
    o.stop = &stop;
    o.listening = [&](int port) { port_ = port; };
    done = TakePeersPart(o);
  });
  while (port_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(Call(Who("p1"), name, kProtocol, 0).ok());  // to meet: nothing is made before all are there
  EXPECT_EQ(kind_, v1::NotePart::DONE);
  EXPECT_FALSE(fs::exists(here_ / "state-p0" / name.substr(0, 32) / "checkpoint"));
  EXPECT_EQ(Call(Who("p2"), name).error_code(), StatusCode::PERMISSION_DENIED);  // no neighbour
  EXPECT_EQ(Call(Who("stranger"), name).error_code(), StatusCode::UNAUTHENTICATED);  // a client's certificate
  EXPECT_EQ(Call(Who("p1"), std::string(64, '0')).error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Call(Who("p1"), name, kProtocol + 1).error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Call(Who("server"), name).error_code(), StatusCode::UNAVAILABLE);  // a server calls nobody
  Identity forged = Who("p1", "other");
  forged.authority = Who("p1").authority;
  EXPECT_EQ(Call(forged, name).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Call(Who("p4"), name, kProtocol, 13).ok());  // it is done, it says
  EXPECT_EQ(kind_, v1::NotePart::DONE);
  stop = true;
  peer.join();
  ASSERT_TRUE(done->ok()) << done->error().message;
  EXPECT_FALSE((**done).over);
}

TEST_F(Caller, HasTwoCallsOpenAtMost) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed();
  const auto plan = PlanOf(job);
  ASSERT_TRUE(plan.ok());
  const std::string name = NameOf(job, *plan);
  std::atomic<bool> stop = false;
  std::jthread peer([&] {
    PeerSettings o = Settings(job, 0, files[0]);
    o.stop = &stop;
    o.listening = [&](int port) { port_ = port; };
    EXPECT_TRUE(TakePeersPart(o).ok());
  });
  while (port_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::atomic<int> turned_away = 0;
  {
    std::vector<std::jthread> calls;  // for a note that is not there yet: each waits
    for (int i = 0; i < 6; ++i)
      calls.emplace_back([&] {
        if (Call(Who("p1"), name).error_code() == grpc::StatusCode::UNAVAILABLE) ++turned_away;
      });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(8);
    while (turned_away < 4 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(Call(Who("p4"), name, kProtocol, 0).ok());  // another neighbour is not concerned
    EXPECT_EQ(turned_away, 4);
    stop = true;  // and the two that wait are let go
  }
}

// Nobody is let in while the list cannot be read, and nobody is sent away for good.
TEST_F(Peers, WaitForAListThatCannotBeReadNow) {
  const auto files = WriteRows(30, 3, kPeers);
  const Job job = Addressed();
  const RunResult alone = Alone(job);
  const auto good = ReadWhole(home() / "ca/crl.pem");
  ASSERT_TRUE(good.ok());
  list_ = here_ / "crl.pem";
  ASSERT_TRUE(WriteWhole(list_, good->substr(0, good->size() / 2)).ok());
  std::vector<Result<Joined>> joined;
  {
    std::jthread mend([&] {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      EXPECT_TRUE(WriteWhole(list_, *good).ok());
    });
    joined = TrainPeers(job, files);
  }
  for (const auto& one : joined) {
    ASSERT_TRUE(one.ok()) << one.error().message;
    EXPECT_TRUE(one->over);
  }
  EXPECT_EQ(MeanOf(joined, {0, 1, 2, 3, 4}), alone.model);
}

TEST_F(Peers, BelieveNobodyElseAtANeighboursAddress) {
  const auto files = WriteRows(30, 3, kPeers);
  Job job = Addressed();
  Job crossed = job;  // p0 looks for p1 where p2 is
  crossed.addresses[1] = job.addresses[2];
  std::atomic<bool> stop = false;
  std::jthread other([&] {
    PeerSettings o = Settings(job, 2, files[2]);
    o.stop = &stop;
    EXPECT_TRUE(TakePeersPart(o).ok());
  });
  PeerSettings o = Settings(crossed, 0, files[0]);
  o.patience = 3;
  o.stop = nullptr;
  const auto refused = TakePeersPart(o);
  stop = true;
  ASSERT_FALSE(refused.ok());
}

TEST_F(Peers, AJobWithoutAddressesOrWithAServerIsAClearError) {
  const auto no = PlanOf(MakeJob(kJob));
  ASSERT_FALSE(no.ok());
  EXPECT_NE(no.error().message.find("serve.addresses"), std::string::npos) << no.error().message;
  const auto served = PlanOf(Addressed({{"algorithm.name", "primal-dual"}}));
  ASSERT_FALSE(served.ok());
  EXPECT_NE(served.error().message.find("serve.addresses"), std::string::npos) << served.error().message;
  PeerSettings o = Settings(Addressed(), 0, "nowhere.csv");
  o.policy.max_epsilon = 1;
  const auto refused = TakePeersPart(o);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kBudget);
}

}  // namespace
}  // namespace tacit
