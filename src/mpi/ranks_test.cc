// Runs that are divided between processes: started by itself under mpirun, with 2 and with 3 of them. Every
// process makes the same calls; rank 0 compares with what one process gets.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "audit/conformance.h"
#include "experiment/run.h"
#include "privacy/ledger.h"
#include "runtime/threads.h"

extern "C" const tacit::RankWire tacit_rank_wire;

namespace tacit {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> ending = false;
std::unique_ptr<Ranks> ranks;  // of this test
bool First() { return ranks->first(); }

std::string Slurp(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}
fs::path FolderIn(const fs::path& output) {
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(output, ec))
    if (e.is_directory()) return e.path();
  return {};
}
// The same at all ranks, and gone at the end.
const fs::path& Home() {
  static const fs::path home = std::getenv("TACIT_RANKS_TEST");  // NOLINT(concurrency-mt-unsafe)
  return home;
}

// Beside the small cases that clients on other machines have too: what many clients show.
std::vector<ConformanceCase> Cases() {
  std::vector<ConformanceCase> all = ConformanceCases();
  const auto add = [&](const char* name, const std::string& data, const std::string& model,
                       const std::string& privacy, const std::string& algorithm,
                       const std::string& more = "") {
    all.push_back({.name = name,
                   .text = fmt::format("[data]\nsource = \"synthetic-linear\"\n{}\n[model]\n{}\n[privacy]\n"
                                       "delta = 1e-5\n{}\n[algorithm]\n{}\n{}",
                                       data, model, privacy, algorithm, more),
                   .generated = true});
  };
  const std::string squares = "name = \"least-squares\"\nl2 = 0.1";
  const std::string many = "rows = 600\nfeatures = 4\nclients = 300";      // chunks of four
  const std::string local = "epsilon = 8.0\nunit = \"client\"", central = local + "\ntrust = \"central\"";
  add("many, primal-dual", many, squares, "epsilon = 4.0", "rounds = 4");
  add("many, budgets", "rows = 600\nfeatures = 4\nclients = 6", squares,
      "budgets = [1.0, 2.0, 4.0, 1.0, 2.0, 4.0]", "rounds = 4");
  add("many, fedavg by records", many + "\nsplit = \"dirichlet\"", "name = \"logistic\"\nl2 = 0.1", local,
      "name = \"dp-fedavg\"\nweights = \"records\"\nrounds = 4");
  add("many, central by records", many + "\nsplit = \"dirichlet\"", "name = \"logistic\"\nl2 = 0.1", central,
      "name = \"fedexp\"\nweights = \"records\"\nrounds = 4");
  add("many, secret coins", many, squares, central,
      "name = \"dp-fedavg\"\nsampling = \"poisson\"\nsample_rate = 0.7\nallocation = \"static\"\nrounds = 4");
  // A chunk of a sample is divided between the ranks that hold its clients.
  add("many, secret samples of clients that remember", many, squares, central,
      "name = \"dp-scaffold\"\nsampling = \"poisson\"\nsample_rate = 0.7\nallocation = \"static\"\nrounds = "
      "5");
  add("many, public samples of clients that remember", many, squares, local,
      "name = \"dp-scaffold\"\nsampling = \"fixed\"\nsample_clients = 199\nparticipations = 3\nallocation = "
      "\"static\"\nrounds = 5");
  add("many, public samples", many, squares, local,
      "name = \"fedexp\"\nsampling = \"poisson\"\nsample_rate = 0.6\nparticipations = 3\nallocation = "
      "\"static\"\nrounds = 5");
  add("many, PrivUnit", many, squares, "epsilon = 6.0\nunit = \"client\"\nmechanism = \"priv-unit\"",
      "name = \"fedexp\"\nrounds = 2\nallocation = \"static\"");
  add("many, error feedback with Top-K", many + "\nrow_norm = \"clip\"", squares, local,
      "name = \"dpd-ef21\"\ncompressor = \"top:0.25\"\nrounds = 4");
  add("many, error feedback on samples", many + "\nrow_norm = \"clip\"", squares, local,
      "name = \"dpd-ef21-2\"\nsampling = \"fixed\"\nsample_clients = 199\nparticipations = 3\nallocation = "
      "\"static\"\nrounds = 5");
  add("many, Newton steps", "rows = 1200\nfeatures = 4\nclients = 300\nrow_norm = \"clip\"",
      squares + "\npenalty = \"box\"\nradius = 10.0", "epsilon = 8.0",
      "name = \"fcrn\"\nrounds = 2\nsolver_steps = 2");
  add("graph, peers away and gone", "rows = 160\nfeatures = 4\nclients = 40", squares, "epsilon = 8.0",
      "name = \"zcdp-nfl\"\nrounds = 8",
      "[network]\ntopology = \"erdos-renyi\"\ndegree = 5.0\nattempts = 100\naway = [\"3: 2-4\", \"20: 3-3\", "
      "\"39: 1-2\"]\nleave = [\"13: 4\", \"30: 6\"]\n");
  add("graph, a star", "rows = 160\nfeatures = 4\nclients = 40\nrow_norm = \"clip\"", squares,
      "epsilon = 8.0", "name = \"p-admm\"\nrounds = 4", "[network]\ntopology = \"star\"\n");
  add("graph, means of notes", "rows = 160\nfeatures = 4\nclients = 40", squares, "epsilon = 8.0",
      "name = \"zcdp-grad-nfl\"\noutput = \"mean\"\nrounds = 4", "[network]\ntopology = \"torus\"\n");
  // Sums of 420,000 numbers: a rank has no room for all of its chunks at once.
  add("long, several passes", "rows = 127\nfeatures = 4\nclients = 127",
      "name = \"mlp\"\nhidden = [60000]\nclasses = 2", central, "name = \"dp-fedavg\"\nrounds = 1");
  return all;
}

fs::path RowsOf(const ConformanceCase& of) { return Home() / ("rows-" + PlainName(of.name)); }
Result<Config> ConfigOf(const ConformanceCase& of, const fs::path& output,
                        const std::vector<Assignment>& more = {}) {
  std::vector<Assignment> sets = {{"privacy.noise", "replayable"},
                                  {"experiment.output", output.string()},
                                  {"experiment.name", "run"},
                                  {"experiment.trace_every", "1"},
                                  {"experiment.reserve", "2"}};
  if (!of.generated)
    for (const Assignment& a : ConformanceSettings(RowsOf(of))) sets.push_back(a);
  sets.insert(sets.end(), more.begin(), more.end());
  return ParseConfig(of.text, "case.toml", sets);
}

// What a run leaves behind, but for times and names.
void ExpectSame(const RunResult& one, const RunResult& other) {
  EXPECT_EQ(one.model, other.model);
  EXPECT_EQ(one.model_sha256, other.model_sha256);
  EXPECT_EQ(one.certified_epsilon, other.certified_epsilon);
  EXPECT_EQ(one.rounds_done, other.rounds_done);
  EXPECT_EQ(one.bytes_up, other.bytes_up);
  EXPECT_EQ(one.bytes_down, other.bytes_down);
  EXPECT_EQ(one.answers.taken, other.answers.taken);
  EXPECT_EQ(one.answers.absent, other.answers.absent);
  EXPECT_EQ(Slurp(one.folder / "trace.jsonl"), Slurp(other.folder / "trace.jsonl"));
  const auto a = SqliteVault::Read(one.folder / "ledger.db"),
             b = SqliteVault::Read(other.folder / "ledger.db");
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->front().state, "settled");
  EXPECT_EQ(a->front().spent, b->front().spent);
}

class RankConformance : public testing::TestWithParam<ConformanceCase> {};

TEST_P(RankConformance, ModelsAreBitwiseEqualToThreads) {
  const fs::path home = Home() / PlainName(GetParam().name);
  const auto config = ConfigOf(GetParam(), home / "ranks");
  ASSERT_TRUE(config.ok()) << config.error().message;      // at all ranks alike
  TrainHooks hooks;
  hooks.ranks = ranks.get();
  hooks.threads = 1 + ranks->rank() % 2;      // not the same at all ranks
  hooks.noise_seed = kConformanceNoise;
  const auto together = Train(*config, hooks);
  ASSERT_TRUE(together.ok()) << together.error().message;
  if (!First()) return;
  EXPECT_EQ(together->ranks, ranks->size());
  TrainHooks alone;
  alone.threads = 1;
  alone.noise_seed = kConformanceNoise;
  const auto one = Train(*ConfigOf(GetParam(), home / "alone"), alone);
  ASSERT_TRUE(one.ok()) << one.error().message;
  RecordProperty("model_sha256", one->model_sha256);
  ExpectSame(*together, *one);
  alone.threads = 3;
  alone.write_folder = false;
  const auto three = Train(*ConfigOf(GetParam(), home / "alone"), alone);
  ASSERT_TRUE(three.ok()) << three.error().message;
  EXPECT_EQ(three->model, one->model);
  fs::remove_all(home);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, RankConformance, testing::ValuesIn(Cases()),
                         [](const auto& of) { return PlainName(of.param.name); });

// Ranks stay in step: where one has failed, all have. What rank 0 has written is there for all.
testing::AssertionResult AllWell(const Result<RunResult>& mine) {
  const Status all = ranks->Agree(mine.ok() ? Status(Ok{}) : Status(mine.error()), {}, "");
  return all.ok() ? testing::AssertionSuccess() : testing::AssertionFailure() << all.error().message;
}

// A run that was stopped goes on with or without the others.
class RankResume : public testing::TestWithParam<std::tuple<const char*, bool, bool>> {};

TEST_P(RankResume, GoesOnBitForBit) {
  const auto [name, begins, ends] = GetParam();      // together, or alone
  ConformanceCase subject;
  for (const ConformanceCase& s : Cases())
    if (s.name == name) subject = s;
  const fs::path home = Home() / fmt::format("resume-{}{}{}", PlainName(name), begins, ends);
  const auto config = ConfigOf(subject, home / "ranks", {{"algorithm.rounds", "9"}});
  ASSERT_TRUE(config.ok()) << config.error().message;
  std::atomic<bool> stop = false;
  TrainHooks hooks;
  hooks.interrupt = &stop;
  hooks.threads = 2;
  hooks.progress = [&](const Progress& p) { stop = p.round >= 4; };
  const auto train = [&](bool together, auto run) {      // the others are needed only if together
    hooks.ranks = together ? ranks.get() : nullptr;
    return together || First() ? run() : Result<RunResult>(RunResult{});
  };
  const auto stopped = train(begins, [&] { return Train(*config, hooks); });
  ASSERT_TRUE(AllWell(stopped));
  if (First()) {
    EXPECT_TRUE(stopped->interrupted);
    EXPECT_EQ(stopped->rounds_done, 4u);
  }
  hooks.interrupt = nullptr;
  const auto done = train(ends, [&] { return Resume(FolderIn(home / "ranks"), {}, hooks); });
  ASSERT_TRUE(AllWell(done));
  if (!First()) return;
  const auto expected = Train(*ConfigOf(subject, home / "alone", {{"algorithm.rounds", "9"}}));
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  ExpectSame(*done, *expected);
  fs::remove_all(home);
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, RankResume,
    testing::Combine(testing::Values("primal-dual", "many, primal-dual", "dp-fedavg, central",
                                     "many, secret samples of clients that remember", "many, public samples",
                                     "dpd-ef21-2, batches", "dp-fed-sgd", "graph, peers away and gone"),
                     testing::Bool(), testing::Bool()),
    [](const auto& of) {
      return fmt::format("{}{}{}", PlainName(std::get<0>(of.param)),
                         std::get<1>(of.param) ? "Together" : "Alone",
                         std::get<2>(of.param) ? "Together" : "Alone");
    });

TEST(Ranks, NoiseFromEntropyIsPaidForAlike) {
  const ConformanceCase subject = Cases().front();
  const auto config = ConfigOf(subject, Home() / "entropy", {{"privacy.noise", "entropy"}});
  ASSERT_TRUE(config.ok()) << config.error().message;
  TrainHooks hooks;
  hooks.ranks = ranks.get();
  const auto together = Train(*config, hooks);
  ASSERT_TRUE(together.ok()) << together.error().message;
  if (!First()) return;
  const auto alone = Train(*ConfigOf(subject, Home() / "replayed"));
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(together->certified_epsilon, alone->certified_epsilon);
  EXPECT_EQ(together->answers.taken, alone->answers.taken);
  EXPECT_NE(together->model, alone->model);
}

TEST(Ranks, RunsOfDifferentExperimentsAreRefused) {
  const auto config =
      ConfigOf(Cases().front(), Home() / "other", {{"privacy.epsilon", ranks->rank() == 1 ? "3.0" : "2.0"}});
  ASSERT_TRUE(config.ok());
  TrainHooks hooks;
  hooks.ranks = ranks.get();
  const auto run = Train(*config, hooks);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, Code::kInvalidArgument);
  EXPECT_NE(run.error().message.find("rank 1 of"), std::string::npos) << run.error().message;
  EXPECT_NE(run.error().message.find("another experiment"), std::string::npos) << run.error().message;
  if (First()) {
    EXPECT_FALSE(fs::exists(Home() / "other"));      // nothing was begun
  }
}

// A file that is another one at one rank.
TEST(Ranks, OtherRowsAreRefused) {
  const fs::path file = Home() / fmt::format("rows{}.csv", ranks->rank());
  std::ofstream(file) << "1,0.5,0.25\n-1,0.25,0.5\n1,0.75,0.5\n"
                      << (ranks->rank() == 1 ? "-1,0.5,0.75\n" : "-1,0.5,0.5\n");
  // Named alike, as on machines that do not share their disks.
  const fs::path own = Home() / fmt::format("machine{}", ranks->rank());
  fs::create_directories(own);
  fs::copy_file(file, own / "rows.csv", fs::copy_options::overwrite_existing);
  const fs::path back = fs::current_path();
  fs::current_path(own);
  const auto config = ParseConfig(
      "[data]\nsource = \"rows.csv\"\nformat = \"csv\"\nlabel_column = \"0\"\nrows = 4\nfeatures = "
      "2\nclients = "
      "2\n[privacy]\nnoise = \"replayable\"\n[algorithm]\nrounds = 2\n",
      "x.toml", {{"experiment.output", (Home() / "rows").string()}});
  ASSERT_TRUE(config.ok()) << config.error().message;
  TrainHooks hooks;
  hooks.ranks = ranks.get();
  const auto run = Train(*config, hooks);
  fs::current_path(back);
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.error().message.find("has found other data"), std::string::npos) << run.error().message;
}

TEST(Ranks, ARankThatCannotBeginEndsTheRunForAll) {
  const auto config = ConfigOf(Cases().front(), Home() / "late",
                               {{"data.source", ranks->rank() == 1 ? "nowhere.csv" : "synthetic-linear"}});
  ASSERT_TRUE(config.ok());
  // Its complaint comes where the others agree.
  Status mine = Ok{};
  if (ranks->rank() == 1) mine = Fail(Code::kNotFound, "nowhere.csv: no such file");
  const Status all = ranks->Agree(mine, {}, "");
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().code, Code::kNotFound);
  EXPECT_EQ(all.error().message, fmt::format("rank 1 of {}: nowhere.csv: no such file", ranks->size()));
}

// No rank pays with what rank 0 has not made durable.
TEST(Ranks, AccountsLendWhatIsDurable) {
  struct Paper final : Vault {
    std::vector<MuSquared> up_to = std::vector<MuSquared>(5, MuSquared{0.0});
    Status Reserve(std::uint32_t first, std::span<const MuSquared> more) override {
      for (std::size_t i = 0; i < more.size(); ++i) up_to[first + i] = more[i];
      return Ok{};
    }
    std::vector<MuSquared> reserved() const override { return up_to; }
  } paper;
  LedgerBook book(std::vector<MuSquared>(5, MuSquared{1.0}), Adjacency::kReplaceOne);
  RankAccounts accounts(book, *ranks, true);
  const PrivacyEvent event = GaussianEvent{Mu{0.5}, L2Bound{1.0}, NoiseStd{2.0}};      // μ² = 1/4
  if (First()) {
    book.Attach(&paper);
    ASSERT_TRUE(book.Reserve(std::vector<MuSquared>(5, MuSquared{0.25})).ok());
    for (std::uint32_t r = 1; r < ranks->size(); ++r) {
      Parcel p;
      accounts.PutDurable(p);
      if (r > 1) p = Parcel(), p.Put(false);      // told once, and not what they do not need
      ASSERT_TRUE(ranks->Send(r, Ranks::About::kCommand, p).ok());
    }
    auto reply = ranks->Receive(1, Ranks::About::kReply);
    ASSERT_TRUE(reply.ok());
    ASSERT_TRUE(accounts.TakeCharged(2, 4, *reply).ok());
    EXPECT_EQ(book.account(2).spent().value(), 0.25);
    EXPECT_EQ(book.account(3).spent().value(), 0.0);
    return;
  }
  const Status early = book.account(2).Charge(event);
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, Code::kBudget);
  auto told = ranks->Receive(0, Ranks::About::kCommand);
  ASSERT_TRUE(told.ok());
  ASSERT_TRUE(accounts.TakeDurable(*told).ok());
  if (ranks->rank() != 1) return;
  EXPECT_TRUE(book.account(2).Charge(event).ok());
  EXPECT_FALSE(book.account(2).Charge(event).ok());
  Parcel reply;
  accounts.PutCharged(2, 4, reply);
  ASSERT_TRUE(ranks->Send(0, Ranks::About::kReply, reply).ok());
}

// Clients that count, and one that refuses.
struct Counting {
  struct Down {
    Public<std::uint32_t> t;
    auto Fields() { return std::tie(t); }
  };
  struct Up {
    Public<Vec> x;
    auto Fields() { return std::tie(x); }
  };
  struct Sum {
    Vec total = Vec(1);
    void Reset() { total.assign(1, 0.0); }
    void Add(const Up& up) { total[0] += (*up.x)[0]; }
    void Merge(const Sum& other) { total[0] += other.total[0]; }
    auto State() { return std::tie(total); }
  };
  struct Client {
    std::uint32_t id = 0, refuses = 1000;
    Status Round(const Down& in, Up& up, Scratch&) const {
      if (*in.t == 2 && id >= refuses) return Fail(Code::kBudget, "client {} refuses", id);
      up.x.Mutable().assign(1, id);
      return Ok{};
    }
  };
  struct Server {
    std::uint32_t t = 0;
    Vec w = Vec(1);
    bool Start(Down&) { return true; }
    Result<bool> Round(Sum& sum, Down& down, Scratch&) {
      w[0] += sum.total[0];
      down.t.Mutable() = ++t;
      return t < 4;
    }
    std::uint32_t round() const { return t + 1; }
    std::array<std::size_t, 1> lengths() const { return {1}; }
    View model() const { return w; }
    auto State() { return std::tie(t, w); }
  };
};

TEST(Ranks, TheFirstClientThatRefusesIsHeard) {
  LedgerBook book(std::vector<MuSquared>(10, MuSquared{1.0}), Adjacency::kReplaceOne);
  for (const std::uint32_t refuses : {1000u, 9u, 4u, 0u}) {
    const auto make = [&](std::uint32_t id) { return Counting::Client{id, refuses}; };
    RankAccounts accounts(book, *ranks, false);
    ThreadRuntime<Counting> runtime(2, {.replay_seed = 1});
    runtime.Split(*ranks, accounts, 0);
    if (!First()) {
      ASSERT_TRUE(runtime.Attend(make).ok());
      continue;
    }
    Counting::Server server;
    EveryClient source(10, make);
    const Status done = runtime.Run(server, source,
                                    {.before = [](std::uint32_t) -> Status { return Ok{}; },
                                     .after = [](const RoundReport&) -> Status { return Ok{}; }});
    ASSERT_TRUE(runtime.Dismiss().ok());
    EXPECT_EQ(done.ok(), refuses == 1000);
    EXPECT_EQ(server.w[0], refuses == 1000 ? 180 : 90);
    if (!done.ok()) {
      EXPECT_EQ(done.error().message, fmt::format("client {} refuses", refuses));
    }
  }
}

// A client that does not remember is served now here, now there: its account follows it.
struct Paying : Counting {
  struct Client {
    std::uint32_t id = 0;
    Ledger* ledger = nullptr;
    Status Round(const Down&, Up& up, Scratch&) const {
      TACIT_OK(ledger->Charge(GaussianEvent{Mu{0.5}, L2Bound{1.0}, NoiseStd{2.0}}));  // μ² = 1/4
      up.x.Mutable().assign(1, id);
      return Ok{};
    }
  };
};

TEST(Ranks, AccountsFollowTheirClients) {
  LedgerBook book(std::vector<MuSquared>(10, MuSquared{0.75}), Adjacency::kReplaceOne);
  RankAccounts accounts(book, *ranks, false);
  ThreadRuntime<Paying> runtime(2, {.replay_seed = 1});
  runtime.Split(*ranks, accounts, 0);
  const auto make = [&](std::uint32_t id) { return Paying::Client{id, &book.account(id)}; };
  if (!First()) {
    ASSERT_TRUE(runtime.Attend(make).ok());
    return;
  }
  struct Some final : Participants {
    std::uint32_t round = 0;
    std::size_t Begin(std::uint32_t now) override { return (round = now) % 2 == 1 ? 10 : 1; }
    std::uint32_t Id(std::size_t i) const override { return static_cast<std::uint32_t>(i); }
  } who;      // client 0 is at the first rank in odd rounds and at the last one in even ones
  Paying::Server server;
  TheseClients source(who, make);
  const Status done = runtime.Run(server, source,
                                  {.before = [](std::uint32_t) -> Status { return Ok{}; },
                                   .after = [](const RoundReport&) -> Status { return Ok{}; }});
  ASSERT_TRUE(runtime.Dismiss().ok());
  ASSERT_FALSE(done.ok());      // its fourth release is one too many
  EXPECT_EQ(done.error().code, Code::kBudget);
  EXPECT_EQ(book.account(0).spent().value(), 0.75);
  EXPECT_EQ(book.account(9).spent().value(), 0.5);
}

// What was private comes out of a parcel as that and as nothing else.
TEST(Parcel, KeepsWhatIsPrivate) {
  Parcel p;
  p.Put(Private<Vec>(Vec{1, 2}));
  p.Put(Public<Vec>(Vec{3}));
  Parcel q = p, s = p;
  Public<Vec> open;
  Vec plain;
  Released<Vec> released;
  Private<Vec> own;
  EXPECT_FALSE(p.Get(open));
  EXPECT_FALSE(q.Get(plain));
  EXPECT_FALSE(q.Get(own));      // from then on
  EXPECT_FALSE(s.Get(released));
  Parcel t;
  t.Put(Private<Vec>(Vec{1, 2}));
  t.Put(Public<Vec>(Vec{3}));
  EXPECT_TRUE(t.Get(own));
  EXPECT_TRUE(t.Get(open));
  EXPECT_EQ(*open, Vec{3});
  EXPECT_TRUE(t.done());
  EXPECT_FALSE(t.Get(open));
}

// Before there are ranks, which all read them.
Status WriteRows() {
  for (const ConformanceCase& of : Cases()) {
    if (of.generated) continue;
    TACIT_TRY(const Config config, ParseConfig(of.text, "case.toml", ConformanceSettings(RowsOf(of))));
    fs::create_directories(RowsOf(of));
    WriteConformanceRows(of, config, RowsOf(of));
  }
  return Ok{};
}

int Alone(int argc, char** argv) {
  const fs::path home = fs::temp_directory_path() / fmt::format("tacit_ranks_{}", ::getpid());
  // Root may, more processes than cores may, and none is bound to a core.
  for (const auto& [key, value] : {std::pair<const char*, std::string>{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                   {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                   {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                   {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                   {"TACIT_LEDGER", ""},
                                   {"TACIT_RANKS_TEST", home.string()}})
    ::setenv(key, value.c_str(), 1);      // NOLINT(concurrency-mt-unsafe)
  int worst = 0;
  for (const int n : {2, 3}) {
    fs::remove_all(home);
    fs::create_directories(home);
    if (const Status rows = WriteRows(); !rows.ok()) {
      fmt::print(stderr, "{}\n", rows.error().message);
      return 1;
    }
    std::string command = fmt::format("mpirun -n {} {}", n, fs::read_symlink("/proc/self/exe").string());
    for (int i = 1; i < argc; ++i) command += fmt::format(" '{}'", argv[i]);
    const int code = std::system(command.c_str());      // NOLINT(concurrency-mt-unsafe,cert-env33-c)
    if (code != 0) worst = 1;
  }
  fs::remove_all(home);
  return worst;
}

}  // namespace
}  // namespace tacit

int main(int argc, char** argv) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return tacit::Alone(argc, argv);      // NOLINT
  testing::InitGoogleTest(&argc, argv);
  auto started = tacit::Ranks::Start(tacit_rank_wire, tacit::ending);
  if (!started.ok()) {
    fmt::print(stderr, "{}\n", started.error().message);
    return 1;
  }
  tacit::ranks = *std::move(started);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (!tacit::First()) delete listeners.Release(listeners.default_result_printer());      // NOLINT
  const int code = RUN_ALL_TESTS();
  if (code != 0 && !tacit::First()) fmt::print(stderr, "rank {}: failed\n", tacit::ranks->rank());
  tacit::ranks->Leave(tacit::Ok{});
  return code;
}
