// One client of a run whose server is elsewhere, asked by hand.
#include "experiment/job.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <cmath>

#include <fstream>

#include "experiment/files.h"
#include "experiment/site.h"
#include "privacy/data_ledger.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJob = R"(
[data]
source = "hospitals"
features = 3
row_norm = "clip"
[model]
l2 = 0.1
[privacy]
epsilon = 2.0
[algorithm]
rounds = 5
[serve]
clients = ["north", "south"]
records = [6, 4]
)";

// The broadcast of primal-dual, of anybody's making.
struct Broadcast {
  Public<std::uint32_t> t;
  Public<Vec> x;
  auto Fields() { return std::tie(t, x); }
};
Bytes Say(std::uint32_t t, Vec x) {
  Broadcast b;
  b.t.Mutable() = t;
  b.x.Mutable() = std::move(x);
  return Codec::Encode(b);
}

class JobTest : public testing::Test {
 protected:
  void SetUp() override {
    home_ = fs::temp_directory_path() / fmt::format("tacit_job_{}", ::getpid());
    fs::remove_all(home_);
    fs::create_directories(home_);
    std::ofstream rows(home_ / "rows.csv");
    for (int i = 0; i < 6; ++i)
      rows << fmt::format("{},{},{},{}\n", 0.1 * i, 0.3, -0.1 * i, i % 2 == 0 ? 1 : -1);
  }
  void TearDown() override { fs::remove_all(home_); }

  static Job Make(const std::vector<Assignment>& sets = {}) {
    auto job = ParseJob(kJob, "job.toml", sets);
    EXPECT_TRUE(job.ok()) << job.error().message;
    return job.ok() ? *job : Job{};
  }
  Enrolment Own() const {
    return {.name = "north",
            .data = (home_ / "rows.csv").string(),
            .folder = home_ / "site",
            .ledger = home_ / "ledger.db"};
  }
  Result<SiteResult> With(const Job& job, const std::function<void(Site&)>& f, bool over = false) const {
    TACIT_TRY(Plan plan, PlanOf(job));
    return TakePart(job, std::move(plan), Own(), [&](Site& site) -> Status {
      f(site);
      if (over) return Ok{};
      return Fail(Code::kInterrupted, "left");
    });
  }
  fs::path home_;
};

TEST_F(JobTest, ARoundIsAnsweredOnceAndThenWithTheSameBytes) {
  const Job job = Make();
  Bytes first, second;
  const Bytes start = Say(0, {}), next = Say(1, {0.1, 0.2, 0.3});
  const auto ran = With(job, [&](Site& site) {
    first = *site.Answer(1, start, 0);
    EXPECT_EQ(*site.Answer(1, start, 0), first);
    const auto other = site.Answer(1, Say(0, {1, 1, 1}), 0);
    ASSERT_FALSE(other.ok());
    EXPECT_EQ(other.error().code, Code::kBudget);
    second = *site.Answer(2, next, 1);
    EXPECT_NE(second, first);
    EXPECT_EQ(site.Answer(1, start, 0).error().code, Code::kBudget);
  });
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(ran->rounds, 2u);
  // Another process: the noise is from entropy, so the bytes are those that were kept.
  const auto again = With(job, [&](Site& site) {
    EXPECT_EQ(site.round(), 2u);
    EXPECT_EQ(*site.Answer(2, next, 1), second);
    EXPECT_EQ(site.Answer(1, start, 0).error().code, Code::kBudget);
    EXPECT_TRUE(site.Answer(3, Say(2, {0, 0, 0}), 2).ok());
  });
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->rounds, 3u);
  EXPECT_GT(again->epsilon, ran->epsilon);
}

// The broadcast of error feedback.
struct FeedbackSaid {
  Public<std::uint32_t> t;
  Public<Vec> x;
  Public<double> radius;
  auto Fields() { return std::tie(t, x, radius); }
};
Bytes SayFeedback(std::uint32_t t, Vec x) {
  FeedbackSaid b;
  b.t.Mutable() = t;
  b.x.Mutable() = std::move(x);
  return Codec::Encode(b);
}

// Where messages add up at the server, a client whose message was lost is as one that was not asked, but for
// what it has paid: in the same process, and in another.
TEST_F(JobTest, AnAnswerThatWasNotCountedIsTakenBackByWhoSendsDifferences) {
  const Bytes start = SayFeedback(0, {}), next = SayFeedback(1, {0.1, 0.2, 0.3}),
              third = SayFeedback(2, {0.2, 0.1, 0.4});
  const std::vector<std::vector<Assignment>> methods = {
      {{"algorithm.name", "dpd-ef21-2"}, {"algorithm.compressor", "top:0.4"}},
      {{"algorithm.name", "dpd-ef21"}, {"privacy.unit", "client"}, {"algorithm.compressor", "identity/32"}},
      {{"algorithm.name", "dp-clip21"}, {"privacy.unit", "client"}, {"algorithm.state", "mirrored"}},
      {{"algorithm.name", "dp-clip21"}, {"privacy.unit", "client"}},
      {{"algorithm.name", "clip21-sgd2m"}, {"privacy.unit", "client"}, {"algorithm.beta", "0.3"}},
      {{"algorithm.name", "dpd-ef21"}, {"algorithm.mode", "paper"}, {"algorithm.schedule", "lyapunov"}},
      {{"algorithm.name", "dpd-ef21-2"}, {"algorithm.mode", "paper"}, {"algorithm.schedule", "lyapunov"}}};
  for (auto sets : methods) {
    SCOPED_TRACE(sets[0].value + sets[1].value);
    for (const Assignment& a :
         std::vector<Assignment>{{"privacy.noise", "replayable"},
                                 {"serve.noise_seed", "7"},
                                 {"algorithm.gamma", "0.5"},
                                 {"privacy.epsilon", "2000"},
                                 {"privacy.clip", "3"}})  // so that what is sent shows the state
      sets.push_back(a);
    const Job job = Make(sets);
    const auto fresh = [&] {
      fs::remove_all(home_ / "site");
      fs::remove(home_ / "ledger.db");
    };
    const auto with = [&](const std::function<void(Site&)>& f) {
      const auto ran = With(job, f);
      ASSERT_TRUE(ran.ok()) << ran.error().message;
    };
    Bytes second, last;  // of a client that was not asked in the first round
    auto reseeded = sets;
    for (Assignment& a : reseeded)
      if (a.key == "serve.noise_seed") a.value = "8";
    fresh();
    ASSERT_TRUE(With(Make(reseeded), [&](Site& site) { last = *site.Answer(2, next, 0); }).ok());
    fresh();
    with([&](Site& site) {
      second = *site.Answer(2, next, 0);
      EXPECT_NE(second, last);  // there is noise in it, also where σ_t is relative to a first message
      last = *site.Answer(3, third, 2);
    });
    for (const bool restart : {false, true}) {
      fresh();
      const auto go_on = [&](Site& site) {
        EXPECT_EQ(*site.Answer(2, next, 0), second);
        EXPECT_EQ(*site.Answer(2, next, 0), second);
        EXPECT_EQ(*site.Answer(3, third, 2), last);
        EXPECT_EQ(site.rounds(), 3u);  // paid
      };
      with([&](Site& site) {
        ASSERT_TRUE(site.Answer(1, start, 0).ok());
        if (!restart) go_on(site);
      });
      if (restart) with(go_on);
    }
    fresh();
    with([&](Site& site) {
      ASSERT_TRUE(site.Answer(1, start, 0).ok());
      EXPECT_NE(*site.Answer(2, next, 1), second);  // it was counted
      // Two that were lost, one after the other, as one.
      EXPECT_NE(*site.Answer(3, third, 1), last);
    });
  }
  // Elsewhere a client's state follows what is broadcast, and it keeps it.
  const Job job = Make({{"privacy.noise", "replayable"}, {"serve.noise_seed", "7"}});
  Bytes answer[2];
  for (const std::uint32_t counted : {0u, 1u}) {
    fs::remove_all(home_ / "site");
    fs::remove(home_ / "ledger.db");
    ASSERT_TRUE(With(job, [&](Site& site) {
                  ASSERT_TRUE(site.Answer(1, Say(0, {}), 0).ok());
                  answer[counted] = *site.Answer(2, Say(1, {0.1, 0.2, 0.3}), counted);
                }).ok());
  }
  EXPECT_EQ(answer[0], answer[1]);
}

TEST_F(JobTest, RoundsThatWereMissedAreNotPaid) {
  const Job job = Make({{"algorithm.allocation", "static"}});
  const auto all = With(
      job,
      [&](Site& site) {
        for (std::uint32_t t = 0; t < 5; ++t)
          ASSERT_TRUE(site.Answer(t + 1, Say(t, t == 0 ? Vec() : Vec(3)), t).ok());
        EXPECT_TRUE(site.Leave(Say(5, Vec(3))).ok());
      },
      /*over=*/true);
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_LE(all->epsilon, 2.0);
  fs::remove_all(home_ / "site");
  fs::remove(home_ / "ledger.db");
  const auto some = With(job, [&](Site& site) { ASSERT_TRUE(site.Answer(4, Say(3, Vec(3)), 3).ok()); }, true);
  ASSERT_TRUE(some.ok()) << some.error().message;
  EXPECT_LT(some->epsilon, all->epsilon);
}

TEST_F(JobTest, BroadcastsThatAreNoneOfTheJobAreRefusedAndCostNothing) {
  const Job job = Make();
  const auto ran = With(job, [&](Site& site) {
    for (const auto& [round, bytes] : std::vector<std::pair<std::uint32_t, Bytes>>{
             {1, {}},
             {1, Bytes(100)},
             {1, Say(1, {})},  // of another place in the schedule
             {1, Say(0xffffffff, {})},
             {1, Say(0, Vec(2))},  // another model
             {1, Say(0, Vec(4))},
             {1, Say(0, {0, std::nan(""), 0})},  // what no square is of
             {1, Say(0, {0, -kInf, 0})},
             {1, Say(0, {0, 0, 1e200})},
             {0, Say(0, {})},
             {6, Say(5, {})}}) {
      const auto answer = site.Answer(round, bytes, 0);
      ASSERT_FALSE(answer.ok());
    }
    EXPECT_EQ(site.rounds(), 0u);
  });
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(ran->epsilon, 0.0);
}

TEST_F(JobTest, AFolderThatWasPutBackIsRefused) {
  const Job job = Make();
  ASSERT_TRUE(With(job, [&](Site& site) { ASSERT_TRUE(site.Answer(1, Say(0, {}), 0).ok()); }).ok());
  fs::copy(home_ / "site", home_ / "copy", fs::copy_options::recursive);
  ASSERT_TRUE(With(job, [&](Site& site) { ASSERT_TRUE(site.Answer(2, Say(1, Vec(3)), 1).ok()); }).ok());
  fs::remove_all(home_ / "site");
  fs::copy(home_ / "copy", home_ / "site", fs::copy_options::recursive);
  const auto back = With(job, [](Site&) { ADD_FAILURE() << "went on"; });
  ASSERT_FALSE(back.ok());
  EXPECT_NE(back.error().message.find("older"), std::string::npos) << back.error().message;
  fs::remove(home_ / "site/checkpoint");
  EXPECT_FALSE(With(job, [](Site&) { ADD_FAILURE() << "began anew"; }).ok());
}

TEST_F(JobTest, TheLimitOfTheDataHoldsOverJobs) {
  ASSERT_TRUE(DataLedger::SetLimit(home_ / "ledger.db", fs::canonical(home_ / "rows.csv").string(),
                                   Epsilon{1.0}, Delta{1e-5})
                  .ok());
  const auto refused = With(Make(), [](Site&) { ADD_FAILURE() << "joined"; });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kBudget) << refused.error().message;
}

TEST_F(JobTest, AServerChoosesNoFilesOfItsClients) {
  EXPECT_TRUE(
      With(Make({{"data.labels_file", "/etc/passwd"}, {"data.test", "/etc/passwd"}}), [](Site&) {}).ok());
  EXPECT_FALSE(ParseJob(std::string(kJob) + "[network]\nfile = \"/etc/passwd\"\n", "job.toml", {}).ok());
}

TEST_F(JobTest, WhatAJobCannotBeIsSaid) {
  const auto why = [](const std::vector<Assignment>& sets) -> std::string {
    const auto job = ParseJob(kJob, "job.toml", sets);
    if (!job.ok()) return job.error().message;
    const auto plan = PlanOf(*job);
    return plan.ok() ? "" : plan.error().message;
  };
  EXPECT_EQ(why({}), "");
  for (const auto& [sets, part] : std::vector<std::pair<std::vector<Assignment>, const char*>>{
           {{{"serve.clients", "[]"}}, "serve.clients"},
           {{{"serve.clients", R"(["a", "a"])"}}, "twice"},
           {{{"serve.clients", R"(["a", "../b"])"}}, "../b"},
           {{{"serve.records", "[6]"}}, "serve.records"},
           {{{"serve.records", "[6, 1.5]"}}, "1.5"},
           {{{"data.rows", "11"}}, "data.rows"},
           {{{"serve.minimum", "3"}}, "serve.minimum"},
           {{{"serve.minimun", "1"}}, "minimum"},
           {{{"data.source", "a\x1b[31mb"}}, "data.source: holds a control character"},
           {{{"data.columns", "[\"a\", \"b\nc\"]"}}, "data.columns: holds a control character"},
           {{{"data.source", "a\xc2\x9b b"}}, "control character"},
           {{{"serve.clients", "[\"a\", \"b\r\"]"}}, "serve.clients: holds a control character"},
           {{{"serve.noise_seed", "7"}}, "noise_seed"},
           {{{"privacy.noise", "replayable"}}, "noise_seed"},
           {{{"experiment.oracle", "true"}}, "oracle"},
           {{{"privacy.unit", "client"},
             {"privacy.trust", "central"},
             {"algorithm.name", "dp-fedavg"},
             {"algorithm.allocation", "static"},
             {"algorithm.sampling", "poisson"},
             {"algorithm.sample_rate", "0.5"}},
            "nobody knowing who takes part"},
           {{{"algorithm.name", "zcdp-nfl"},
             {"serve.clients", R"(["a", "b", "c"])"},
             {"serve.records", "[4, 3, 3]"}},
            "no server"}})
    EXPECT_NE(why(sets).find(part), std::string::npos) << part << " is not in: " << why(sets);
}

// Updates without noise leave for a server that has a name and is trusted by it, and are paid for before.
TEST_F(JobTest, ATrustedServerIsNamedOrThereIsNone) {
  const Job job =
      Make({{"privacy.unit", "client"}, {"privacy.trust", "central"}, {"algorithm.name", "dp-fedavg"}});
  const auto refused = With(job, [](Site&) { FAIL() << "joined"; });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_FALSE(fs::exists(home_ / "site"));
  EXPECT_FALSE(fs::exists(home_ / "ledger.db"));
  class Nameless : public Link {
    Status Ask(const Question&, std::vector<Bytes>&) override { return Fail(Code::kIo, "asked"); }
  } link;
  const auto run = Coordinate(job, link, home_ / "server");
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, Code::kUnsupported) << run.error().message;

  Enrolment own = Own();
  own.server_trust = ServerTrust::Declared("coordinator");
  auto plan = PlanOf(job);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const double planned = plan->certified_epsilon;
  const auto joined = TakePart(job, *std::move(plan), own, [&](Site& site) -> Status {
    for (std::uint32_t t = 0; t < 5; ++t) {
      const auto first = site.Answer(t + 1, Say(t, {}), t);
      EXPECT_TRUE(first.ok()) << first.error().message;
      EXPECT_TRUE(Codec::DecodeEntrusted(*first).ok());
      const auto again = site.Answer(t + 1, Say(t, {}), t);
      EXPECT_TRUE(again.ok() && *again == *first);
      EXPECT_EQ(site.Answer(t + 1, Say(t, {1, 2, 3}), t).error().code, Code::kBudget);
      const auto sets = DataLedger::Read(home_ / "ledger.db");
      EXPECT_TRUE(sets.ok() && Totals(sets->front())[0].EpsilonAt(1e-5) > 0);
    }
    return Ok{};
  });
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_LE(joined->epsilon, planned);
  EXPECT_GT(joined->epsilon, 0.99 * planned);
}

TEST_F(JobTest, TheMinimumOfAMaskedJobIsWhatItsPlanChargesFor) {
  const std::vector<Assignment> masked = {{"privacy.unit", "client"},
                                          {"privacy.trust", "masked"},
                                          {"privacy.mechanism", "discrete_gaussian"},
                                          {"algorithm.name", "dp-fedavg"},
                                          {"algorithm.allocation", "static"},
                                          {"serve.clients", R"(["north", "south", "east", "west", "mid"])"},
                                          {"serve.records", "[6, 4, 4, 4, 4]"}};
  const auto with = [&](std::vector<Assignment> more) {
    more.insert(more.begin(), masked.begin(), masked.end());
    return ParseJob(kJob, "job.toml", more);
  };
  const auto job = with({{"serve.minimum", "3"}});
  ASSERT_TRUE(job.ok()) << job.error().message;
  const auto plan = PlanOf(*job), all = PlanOf(*with({}));
  ASSERT_TRUE(plan.ok() && all.ok());
  EXPECT_EQ(plan->secure->quorum().minimum, 3u);
  EXPECT_EQ(all->secure->quorum().minimum, 5u);
  EXPECT_GT(plan->secure->share(), all->secure->share());
  EXPECT_EQ(PlanOf(*ParseJob(ToToml(*job), "offer.toml", {}))->secure->share(), plan->secure->share());
  EXPECT_NE(PlanOf(*with({{"serve.minimum", "2"}})).error().message.find("3 at least"), std::string::npos);
  EXPECT_FALSE(with({{"serve.minimum", "4"}, {"privacy.survivors", "3"}}).ok());
  // Without certificates nobody knows whose keys are whose, and nothing is joined.
  const auto alone = With(*job, [](Site&) { ADD_FAILURE() << "joined"; });
  ASSERT_FALSE(alone.ok());
  EXPECT_NE(alone.error().message.find("certificates"), std::string::npos) << alone.error().message;
}

TEST_F(JobTest, WhatClientsReadIsTheJob) {
  const Job job = Make({{"serve.deadline", "12.5"}, {"privacy.epsilon", "1.5"}});
  const auto back = ParseJob(ToToml(job), "offer.toml", {});
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(ToToml(*back), ToToml(job));
  EXPECT_EQ(back->clients, job.clients);
  EXPECT_EQ(back->config.data.rows, 10u);
  EXPECT_EQ(PlanOf(*back)->certified_epsilon, PlanOf(job)->certified_epsilon);
}

}  // namespace
}  // namespace tacit
