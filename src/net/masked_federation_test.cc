// Masked sums over real channels with mutual TLS on this machine: the sums of one process, and clients that
// are lost in any step.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <federation.grpc.pb.h>
#include "core/sha256.h"
#include "experiment/verify.h"
#include "net/test_federation.h"
#include "privacy/ledger.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using MaskedFederation = Federation;

constexpr const char* kMasked = R"(
[data]
rows = 24
features = 3
row_norm = "clip"
[model]
name = "logistic"
l2 = 0.1
[privacy]
epsilon = 2.0
unit = "client"
trust = "masked"
mechanism = "discrete_gaussian"
[algorithm]
name = "dp-fedavg"
allocation = "static"
local_steps = 3
rounds = 3
[serve]
clients = ["m0", "m1", "m2", "m3", "m4", "m5"]
deadline = 300
)";

// Sums of integers, with masks or without: the same model, for each algorithm whose sums can be masked.
TEST_F(MaskedFederation, MaskedSumsAreThoseOfOneProcessBitForBit) {
  for (const char* name : {"dp-fedavg", "fedexp", "dp-scaffold"}) {
    SCOPED_TRACE(name);
    here_ = home() / fmt::format("masked-{}", name);
    fs::create_directories(here_);
    const auto own = WriteRows(24, 3, 6);
    const Job job = MakeJob(kMasked, {{"algorithm.name", name}, {"privacy.colluding", "1"}});
    const auto alone = Alone(job);
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    const Ran apart = Train(job, own);
    ASSERT_TRUE(apart.server.ok()) << apart.server.error().message;
    for (const auto& one : apart.clients) {
      ASSERT_TRUE(one.ok()) << one.error().message;
      EXPECT_TRUE(one->over);
      EXPECT_EQ(one->result.rounds, 3u);
      EXPECT_EQ(one->result.epsilon, alone->certified_epsilon);
    }
    EXPECT_EQ(apart.server->model, alone->model);
    EXPECT_EQ(apart.server->model_sha256, alone->model_sha256);
    EXPECT_EQ(apart.server->answers.taken, 18u);
    const auto verified = VerifyFolder(here_ / "server");
    ASSERT_TRUE(verified.ok()) << verified.error().message;
    for (const Finding& f : verified->findings) ADD_FAILURE() << f.sentence;
    EXPECT_FALSE(fs::exists(here_ / "server/masks"));
  }
}

// In round r + 1 client r is lost before it answers step r + 1, and comes back when the round is over.
TEST_F(MaskedFederation, AMaskedRoundGoesOnWithoutWhoIsLostInAnyOfItsSteps) {
  const auto files = WriteRows(24, 3, 6);
  const Job job =
      MakeJob(kMasked, {{"algorithm.rounds", "6"}, {"serve.minimum", "4"}, {"serve.deadline", "10"}});
  auto server = Start(job);
  ASSERT_TRUE(server.ok());
  std::atomic<std::size_t> done = 0, losses = 0;
  std::vector<std::jthread> clients;
  std::vector<std::string> trouble(6);
  for (std::size_t c = 0; c < 6; ++c)
    clients.emplace_back([&, c] {
      bool lost = c == 5;  // the last one stays
      const std::size_t round = c + 2, last = c;  // the last step it answers in that round; 0: none
      const std::string sign = last == 0 ? fmt::format("round {}, step 5 of", round - 1)
                                         : fmt::format("round {}, step {} of", round, last);
      for (bool over = false; !over && !failed_;) {
        std::atomic<bool> pause = false;
        JoinOptions o = Joining(job.clients[c], (*server)->port(), files[c]);
        o.stop = &pause;
        o.log = [&](const std::string& line) {
          if (!lost && line.starts_with(sign)) pause = true;
        };
        const auto joined = Join(o);
        if (!joined.ok()) {
          trouble[c] = joined.error().message;
          return;
        }
        over = joined->over;
        if (over) return;
        lost = true;
        ++losses;
        while (done < round && !failed_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  TrainHooks hooks;
  hooks.progress = [&](const Progress& p) { done = p.round; };
  const auto run = Coordinate(job, **server, here_ / "server", hooks);
  if (!run.ok()) failed_ = true;
  (*server)->Over();
  clients.clear();
  ASSERT_TRUE(run.ok()) << run.error().message << "\n" << log_;
  for (const std::string& t : trouble) EXPECT_EQ(t, "") << log_;
  EXPECT_EQ(run->rounds_done, 6u);
  EXPECT_EQ(losses, 5u);
  EXPECT_EQ(run->answers.taken + run->answers.absent, 36u);
  EXPECT_GE(run->answers.taken, 24u);
  EXPECT_GE(run->answers.absent, 3u);  // those who were gone before their input; later they are counted
  for (std::size_t c = 0; c < 6; ++c) {
    const auto ledger = SqliteVault::Read(here_ / ("state-" + job.clients[c]) / kId / "ledger.db");
    ASSERT_TRUE(ledger.ok()) << ledger.error().message;
    EXPECT_LE(ledger->front().rounds_released, 6u);
    EXPECT_EQ(ledger->front().plan_epsilon, run->certified_epsilon);  // the whole plan, whoever was there
  }
}

// The link of a server, which loses the answers of two clients once: the inputs of the first round.
class LosesTwoInputs final : public Link {
 public:
  explicit LosesTwoInputs(Link& inner) : inner_(inner) {}
  Status Ask(const Question& q, std::vector<Bytes>& answers) override {
    TACIT_OK(inner_.Ask(q, answers));
    if (q.step != 3 || std::exchange(lost_, true)) return Ok{};
    for (std::size_t i = 0; i < q.who.size(); ++i)
      if (q.who[i] >= 4) answers[i].clear();
    return Ok{};
  }
  const Roster* roster() const override { return inner_.roster(); }
  void Note(const std::string& text) override { inner_.Note(text); }

 private:
  Link& inner_;
  bool lost_ = false;
};

// Four of six are counted in the first round, all of whom must sign, and one of them is gone when it has sent
// its input. The round is over after two deadlines without an answer that counts; the next ones have all who
// are there, and the lost one when it is back.
TEST_F(MaskedFederation, AMaskedRoundThatCannotBeOpenedIsAbandonedAndTheRunGoesOn) {
  const auto files = WriteRows(24, 3, 6);
  const Job job =
      MakeJob(kMasked, {{"algorithm.rounds", "4"}, {"serve.minimum", "4"}, {"serve.deadline", "5"}});
  auto server = Start(job);
  ASSERT_TRUE(server.ok());
  std::atomic<std::size_t> done = 0;
  std::vector<std::jthread> clients;
  std::vector<std::string> trouble(6);
  std::vector<std::size_t> rounds(6);
  for (std::size_t c = 0; c < 6; ++c)
    clients.emplace_back([&, c] {
      bool lost = c != 0;  // the first one is to be
      for (bool over = false; !over && !failed_;) {
        std::atomic<bool> pause = false;
        JoinOptions o = Joining(job.clients[c], (*server)->port(), files[c]);
        o.stop = &pause;
        o.log = [&](const std::string& line) {
          if (!lost && line.starts_with("round 1, step 3 of")) pause = true;
        };
        const auto joined = Join(o);
        if (!joined.ok()) {
          trouble[c] = joined.error().message;
          failed_ = true;
          return;
        }
        over = joined->over;
        rounds[c] = joined->result.rounds;
        lost = true;
        while (!over && done < 1 && !failed_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  LosesTwoInputs link(**server);
  TrainHooks hooks;
  hooks.progress = [&](const Progress& p) { done = p.round; };
  const auto run = Coordinate(job, link, here_ / "server", hooks);
  if (!run.ok()) failed_ = true;
  (*server)->Over();
  clients.clear();
  ASSERT_TRUE(run.ok()) << run.error().message << "\n" << log_;
  for (const std::string& t : trouble) EXPECT_EQ(t, "") << log_;
  EXPECT_EQ(run->rounds_done, 4u);
  EXPECT_NE(log_.find("round 1: 3 of 4 clients have signed who is counted, and 4 must"), std::string::npos)
      << log_;
  EXPECT_NE(log_.find("abandoned"), std::string::npos);
  EXPECT_EQ(run->answers.taken + run->answers.absent, 24u);
  EXPECT_GE(run->answers.absent, 6u);
  EXPECT_GE(run->answers.taken, 4u);
  EXPECT_FALSE(std::filesystem::exists(here_ / "server/masks"));
  // What was sealed in the round that was abandoned stays paid, and nothing is paid twice.
  for (std::size_t c = 0; c < 6; ++c) {
    EXPECT_GE(rounds[c], 2u);
    EXPECT_LE(rounds[c], 4u);
    const auto ledger = SqliteVault::Read(here_ / ("state-" + job.clients[c]) / kId / "ledger.db");
    ASSERT_TRUE(ledger.ok()) << ledger.error().message;
    EXPECT_EQ(ledger->front().rounds_released, rounds[c]);
    EXPECT_EQ(ledger->front().plan_epsilon, run->certified_epsilon);
  }
  const auto verified = VerifyFolder(here_ / "server");
  ASSERT_TRUE(verified.ok()) << verified.error().message;
  for (const Finding& f : verified->findings) ADD_FAILURE() << f.sentence;
}

// By Python: hashlib.sha256(hashlib.sha256(frame).digest() + personal).digest()[:16].
TEST_F(MaskedFederation, AQuestionIsNamedByItsFrameAndWhatOneClientAloneIsAsked) {
  const Job job = MakeJob(kMasked);
  auto server = Start(job);
  ASSERT_TRUE(server.ok());
  struct Down {
    Public<std::uint32_t> t{6};
    auto Fields() { return std::tie(t); }
  } down;
  const Bytes frame = Codec::Encode(down);
  const std::string letters = "letters";
  const auto raw = std::as_bytes(std::span(letters));
  const std::vector<Bytes> personal = {Bytes(raw.begin(), raw.end()), {}};
  const std::vector<std::uint32_t> who = {0, 1};
  std::jthread asking([&] {
    std::vector<Bytes> answers;
    EXPECT_FALSE((*server)
                     ->Ask({.round = 7,
                            .who = who,
                            .frame = frame,
                            .most_bytes = 4096,
                            .step = 3,
                            .personal = personal,
                            .check = [](auto) -> Status { return Ok{}; }},
                           answers)
                     .ok());
  });
  struct Stop {
    std::atomic<bool>& flag;
    ~Stop() { flag = true; }
  } const stop{failed_};  // ends the question
  const std::vector<std::string> names = {"e6fb51ec882c6d75361e6d78d233544a",
                                          "5158982e36fa10ee10bde7041d2f45ff"};
  for (std::size_t c = 0; c < 2; ++c) {
    const Identity id = Who(job.clients[c]);
    const auto stub = v1::Federation::NewStub(
        grpc::CreateChannel(fmt::format("127.0.0.1:{}", (*server)->port()),
                            grpc::SslCredentials({id.authority, id.key, id.certificate})));
    grpc::ClientContext call;
    call.AddMetadata(kSessionKey, SessionFrom(kHome));
    v1::NextRequest request;
    request.set_job(kId);
    const auto stream = stub->Next(&call, request);
    v1::WorkPart part;
    ASSERT_TRUE(stream->Read(&part));
    EXPECT_EQ(part.round(), 7u);
    EXPECT_EQ(part.step(), 3u);
    EXPECT_EQ(Hex(std::as_bytes(std::span(part.question()))), names[c]);
    EXPECT_EQ(part.data(), std::string(reinterpret_cast<const char*>(frame.data()), frame.size()) +
                               (c == 0 ? letters : ""));
    v1::WorkPart rest;
    while (stream->Read(&rest)) {
    }
    EXPECT_TRUE(stream->Finish().ok());
  }
}

// What a client has signed and opened is in its file; without it a sum of the same updates could be opened
// twice.
TEST_F(MaskedFederation, AClientWhoseFileOfMasksIsGoneDoesNotGoOn) {
  const auto files = WriteRows(24, 3, 6);
  const Job job = MakeJob(kMasked, {{"algorithm.rounds", "1"}});
  const Ran ran = Train(job, files);
  ASSERT_TRUE(ran.server.ok()) << ran.server.error().message;
  auto server = Start(job);
  ASSERT_TRUE(server.ok());
  const JoinOptions o = Joining("m0", (*server)->port(), files[0]);
  ASSERT_TRUE(fs::remove(o.state / kId / "masks"));
  const auto joined = Join(o);
  ASSERT_FALSE(joined.ok());
  EXPECT_NE(joined.error().message.find("opened twice"), std::string::npos) << joined.error().message;
}

TEST_F(MaskedFederation, WithTooFewClientsAMaskedRoundIsNotOpened) {
  const auto files = WriteRows(24, 3, 6);
  const Job job = MakeJob(kMasked, {{"serve.minimum", "5"}, {"serve.deadline", "0.2"}});
  auto server = Start(job);
  ASSERT_TRUE(server.ok());
  std::atomic<bool> pause = false;
  std::vector<std::optional<Result<Joined>>> joined(4);
  std::vector<std::jthread> clients;
  std::atomic<int> answered = 0;
  for (std::size_t c = 0; c < 4; ++c)
    clients.emplace_back([&, c] {
      JoinOptions o = Joining(job.clients[c], (*server)->port(), files[c]);
      o.stop = &pause;
      o.log = [&](const std::string& line) {
        if (line.find("step 1 of") != std::string::npos && ++answered == 4)
          failed_ = true;  // then stop the server
      };
      joined[c] = Join(o);
    });
  const auto run = Coordinate(job, **server, here_ / "server");
  pause = true;
  clients.clear();
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_TRUE(run->interrupted);
  EXPECT_EQ(run->rounds_done, 0u);
  for (const auto& one : joined) {
    ASSERT_TRUE(one->ok()) << one->error().message;
    EXPECT_EQ((*one)->result.rounds, 0u);  // nobody has sent an update
  }
}

}  // namespace
}  // namespace tacit
