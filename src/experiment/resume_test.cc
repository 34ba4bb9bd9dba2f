#include <atomic>

#include "core/sha256.h"
#include "experiment/checkpoint.h"
#include "experiment/kill_runs.h"
#include "privacy/mechanism.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ResumeTest : public testing::Test {
 protected:
  void SetUp() override {
    home_ = fs::temp_directory_path() / fmt::format("tacit_resume_{}", ::getpid());
    fs::remove_all(home_);
    fs::create_directories(home_);
  }
  void TearDown() override { fs::remove_all(home_); }
  // Trains and is interrupted before round `stop` + 1.
  RunResult Stopped(const Config& config, std::size_t stop) {
    std::atomic<bool> interrupt{false};
    TrainHooks hooks;
    hooks.interrupt = &interrupt;
    hooks.progress = [&](const Progress& p) {
      if (p.round >= stop) interrupt = true;
    };
    auto r = Train(config, hooks);
    EXPECT_TRUE(r.ok()) << r.error().message;
    return r.ok() ? *std::move(r) : RunResult{};
  }
  fs::path home_;
};

TEST_F(ResumeTest, KilledRunsEndAsIfTheyHadLived) { KillRuns(home_ / "kills", 12); }

TEST_F(ResumeTest, AnInterruptedRunGoesOnBitForBit) {
  for (const char* mechanism : {"lattice_gaussian", "gaussian"}) {
    for (const char* threads : {"1", "3"}) {
      const std::vector<Assignment> sets = {{"privacy.mechanism", mechanism}};
      const auto whole = Train(ResumeConfig(home_ / "whole", sets));
      ASSERT_TRUE(whole.ok()) << whole.error().message;
      const RunResult part = Stopped(ResumeConfig(home_ / "part", sets), 13);
      EXPECT_TRUE(part.interrupted);
      EXPECT_EQ(part.rounds_done, 13u);
      EXPECT_EQ(part.certified_epsilon, whole->certified_epsilon);  // when it stopped may tell something
      const json partial = json::parse(ReadFile(part.folder / "certificate.json"));
      EXPECT_EQ(partial["rounds"]["done"], 13);
      const auto rest = Resume(part.folder, {{"runtime.threads", threads}});
      ASSERT_TRUE(rest.ok()) << rest.error().message;
      EXPECT_EQ(rest->model, whole->model);
      EXPECT_EQ(rest->model_sha256, whole->model_sha256);
      EXPECT_EQ(rest->mu, whole->mu);
      EXPECT_EQ(rest->bytes_up, whole->bytes_up);
      EXPECT_EQ(rest->bytes_down, whole->bytes_down);
      EXPECT_FALSE(rest->interrupted);
      EXPECT_EQ(ReadFile(part.folder / "trace.jsonl"), ReadFile(whole->folder / "trace.jsonl"));
      const auto again = Resume(part.folder);
      ASSERT_FALSE(again.ok());
      EXPECT_NE(again.error().message.find("is finished"), std::string::npos);
      fs::remove_all(home_ / "part");
      fs::remove_all(home_ / "whole");
    }
  }
}

// Whoever takes away or brings back a checkpoint would get rounds a second time with other noise, and pay
// once.
TEST_F(ResumeTest, NoRoundIsReleasedTwice) {
  const auto refused = [](const fs::path& folder, const char* why) {
    const auto r = Resume(folder);
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.error().message.find(why), std::string::npos) << r.error().message;
  };
  const RunResult part = Stopped(ResumeConfig(home_ / "runs", {}), 11);
  const fs::path checkpoint = part.folder / "checkpoint", kept = home_ / "kept";
  fs::rename(checkpoint, kept);
  refused(part.folder, "was stopped, and its checkpoint is gone");
  fs::remove(part.folder / "result.json");
  refused(part.folder, "checkpoint is gone");
  fs::remove(part.folder / "trace.jsonl");
  refused(part.folder, "checkpoint is gone");  // the ledger knows that it had ended
  const RunResult other = Stopped(ResumeConfig(home_ / "others", {}), 11);
  fs::copy_file(other.folder / "checkpoint", kept, fs::copy_options::overwrite_existing);
  const auto rest = Resume(other.folder);
  ASSERT_TRUE(rest.ok()) << rest.error().message;
  refused(other.folder, "is finished");
  fs::remove(other.folder / "result.json");
  refused(other.folder, "checkpoint is gone");
  fs::copy_file(kept, other.folder / "checkpoint");
  refused(other.folder, "older one");

  // Both checkpoint and trace as they were: the ledger knows how many rounds have left.
  for (const bool planned : {false, true}) {
    const std::vector<Assignment> sampled = {
        {"algorithm.name", "dp-fedavg"},  {"privacy.unit", "client"},
        {"privacy.trust", "central"},     {"algorithm.sampling", "poisson"},
        {"algorithm.sample_rate", "0.5"}, {"algorithm.allocation", "static"}};
    const RunResult early = Stopped(
        ResumeConfig(home_ / (planned ? "planned" : "plain"), planned ? sampled : std::vector<Assignment>{}),
        11);
    const fs::path old = home_ / "old";
    fs::create_directories(old);
    for (const char* name : {"checkpoint", "trace.jsonl"})
      fs::copy_file(early.folder / name, old / name, fs::copy_options::overwrite_existing);
    ASSERT_TRUE(Resume(early.folder).ok());
    EXPECT_EQ(SqliteVault::Read(early.folder / "ledger.db")->front().rounds_released, 30u);
    for (const char* name : {"checkpoint", "trace.jsonl"})
      fs::copy_file(old / name, early.folder / name, fs::copy_options::overwrite_existing);
    refused(early.folder, "older one, of round 11");
    fs::remove(early.folder / "checkpoint");
    fs::remove(early.folder / "trace.jsonl");
    fs::remove(early.folder / "result.json");
    refused(early.folder, "checkpoint is gone");
  }
}

// A folder put back as it was, its own ledger too: the cumulative ledger, which is not in it, knows.
TEST_F(ResumeTest, AFolderThatWasPutBackFromACopyDoesNotGoOn) {
  const auto put_back = [&](const fs::path& copy, const fs::path& folder) {
    fs::remove_all(folder);
    fs::copy(copy, folder, fs::copy_options::recursive);
    const auto r = Resume(folder);
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.error().message.find("older one, of round 11"), std::string::npos) << r.error().message;
    EXPECT_NE(r.error().message.find("values of 30 rounds"), std::string::npos) << r.error().message;
  };
  const RunResult early = Stopped(ResumeConfig(home_ / "runs", {}), 11);
  const fs::path copy = home_ / "copy";
  fs::copy(early.folder, copy, fs::copy_options::recursive);
  ASSERT_TRUE(Resume(early.folder).ok());
  put_back(copy, early.folder);      // after it had ended
  put_back(copy, early.folder);      // to be refused changes nothing
}

// Rows that took the place of others would be released, and the others charged.
TEST_F(ResumeTest, ARunWhoseFileWasReplacedDoesNotGoOn) {
  const auto rows = [](int sign) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += fmt::format("{} 1:{} 2:{}\n", i % 2 * 2 - 1, 0.01 * i * sign, i % 3);
    return text;
  };
  const fs::path file = home_ / "rows.svm";
  std::ofstream(file) << rows(1);
  const RunResult part = Stopped(ResumeConfig(home_ / "runs", {{"data.source", file.string()},
                                                               {"data.rows", "40"},
                                                               {"data.features", "2"},
                                                               {"data.clients", "4"},
                                                               {"privacy.noise", "entropy"}}),
                                 11);
  ASSERT_FALSE(part.folder.empty());
  std::ofstream(file) << rows(-1);
  const auto refused = Resume(part.folder);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("began with other data"), std::string::npos)
      << refused.error().message;
  std::ofstream(file) << rows(1);
  const auto rest = Resume(part.folder);
  EXPECT_TRUE(rest.ok()) << rest.error().message;
}

// A process that dies while its ledger is being made leaves an empty one.
TEST_F(ResumeTest, ARunThatDiedAtItsFirstWriteBeginsAnew) {
  const auto whole = Train(ResumeConfig(home_ / "runs", {}));
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  const fs::path folder = home_ / "runs" / "died";
  fs::create_directories(folder);
  fs::copy_file(whole->folder / "config.toml", folder / "config.toml");
  std::ofstream(folder / "ledger.db").close();
  const auto r = Resume(folder);
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->model, whole->model);
}

TEST_F(ResumeTest, EntropyRunsResumeWithinTheirBudget) {
  const RunResult part = Stopped(ResumeConfig(home_ / "runs", {{"privacy.noise", "entropy"}}), 11);
  const auto rest = Resume(part.folder);
  ASSERT_TRUE(rest.ok()) << rest.error().message;
  EXPECT_EQ(rest->rounds_done, 30u);
  EXPECT_LE(rest->certified_epsilon, 1.0);
  EXPECT_GT(rest->certified_epsilon, 1 - 1e-5);
}

TEST_F(ResumeTest, WhatIsNotThisRunIsRefused) {
  const RunResult part = Stopped(ResumeConfig(home_ / "runs"), 10);
  const auto why = [&](const std::vector<Assignment>& sets = {}) {
    const auto r = Resume(part.folder, sets);
    return r.ok() ? std::string() : r.error().message;
  };
  EXPECT_NE(why({{"privacy.epsilon", "9"}}).find("only runtime.* may change"), std::string::npos);
  EXPECT_NE(Resume(home_ / "nowhere").error().message.find("no such run folder"), std::string::npos);
  fs::create_directories(home_ / "empty");
  EXPECT_NE(Resume(home_ / "empty").error().message.find("nothing was released"), std::string::npos);

  const std::string config = ReadFile(part.folder / "config.toml");
  std::string changed = config;
  changed.replace(changed.find("epsilon = 1"), 11, "epsilon = 2");
  std::ofstream(part.folder / "config.toml") << changed;
  EXPECT_NE(why().find("belongs to another config"), std::string::npos);
  std::ofstream(part.folder / "config.toml") << config;

  const std::string kept = ReadFile(part.folder / "checkpoint");
  for (const std::size_t at : {std::size_t{0}, std::size_t{9}, kept.size() / 2, kept.size() - 1}) {
    std::string bad = kept;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    std::ofstream(part.folder / "checkpoint", std::ios::binary) << bad;
    EXPECT_NE(why().find("is not a whole checkpoint"), std::string::npos) << at;
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{40}, kept.size() - 1}) {
    std::ofstream(part.folder / "checkpoint", std::ios::binary) << kept.substr(0, size);
    EXPECT_NE(why().find("is not a whole checkpoint"), std::string::npos) << size;
  }
  std::ofstream(part.folder / "checkpoint", std::ios::binary) << kept;
  const std::string trace = ReadFile(part.folder / "trace.jsonl");
  std::ofstream(part.folder / "trace.jsonl") << trace.substr(0, 20);
  EXPECT_NE(why().find("has 20 bytes and the checkpoint knows of"), std::string::npos);
  std::ofstream(part.folder / "trace.jsonl") << trace << "{\"half\":";
  EXPECT_NE(why().find("older one"), std::string::npos);  // a line leaves after its checkpoint, never before
  std::ofstream(part.folder / "trace.jsonl") << trace;
  EXPECT_EQ(why(), "");
}

TEST_F(ResumeTest, ChangedDataIsNoticedWhereNoiseIsReplayed) {
  const auto write = [&](const char* first) {
    std::ofstream out(home_ / "data.csv");
    out << first << ",0.2,1\n";
    for (int i = 0; i < 39; ++i) out << 0.01 * i << "," << 0.3 - 0.01 * i << "," << i % 2 << "\n";
  };
  write("0.1");
  const std::vector<Assignment> sets = {{"data.source", (home_ / "data.csv").string()},
                                        {"data.features", "2"},
                                        {"data.rows", "40"},
                                        {"data.label_column", "2"}};
  const RunResult part = Stopped(ResumeConfig(home_ / "runs", sets), 10);
  write("0.9");
  // Where the cumulative ledger knows nothing of the run, as after a move to another machine.
  for (const char* name : {"ledger.db", "ledger.db-wal", "ledger.db-shm"}) fs::remove(home_ / "runs" / name);
  const auto r = Resume(part.folder);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message.find("has changed since the run began"), std::string::npos)
      << r.error().message;
}

TEST_F(ResumeTest, OneProcessAtATime) {
  const RunResult part = Stopped(ResumeConfig(home_ / "runs"), 10);
  TrainHooks hooks;
  std::string second;
  hooks.progress = [&](const Progress&) {
    if (second.empty()) {
      const auto r = Resume(part.folder);
      second = r.ok() ? "went on" : r.error().message;
    }
  };
  ASSERT_TRUE(Resume(part.folder, {}, hooks).ok());
  EXPECT_NE(second.find("another process is working on this run"), std::string::npos) << second;
}

// State of every kind, the private kind included, comes back; sizes that code may index by are kept.
struct Everything {
  struct Down {
    Public<std::uint32_t> t;
    Released<Vec> x;
    auto Fields() { return std::tie(t, x); }
  };
  struct Up {
    Public<double> v;
    auto Fields() { return std::tie(v); }
  };
  struct Sum {
    void Reset() {}
    void Add(const Up&) {}
    void Merge(const Sum&) {}
  };
  struct Client {
    Private<Vec> own;
    std::vector<std::uint32_t> chosen;
    double number = 0;
    Vec fixed = Vec(3);
    Status Round(const Down&, Up&, Scratch&) { return Ok{}; }
    void Finish(const Down&) {}
    View iterate() const { return fixed; }
    auto State() { return std::tie(own, chosen, number, fixed); }
  };
  struct Server {
    std::uint32_t t = 0;
    bool Start(Down&) { return false; }
    Result<bool> Round(Sum&, Down&, Scratch&) { return false; }
    std::uint32_t round() const { return t; }
    std::array<std::size_t, 1> lengths() const { return {}; }
    auto State() { return std::tie(t); }
  };
};
static_assert(Algorithm<Everything>);

bool Holds(const Private<Vec>& p, const Vec& expected) {
  // A bounded release without noise is the only way to see it.
  bool same = false;
  Private<bool> equal = p.Map<[](const Vec& v, const Vec& e) { return v == e; }>(expected);
  static_assert(sizeof equal == sizeof(bool));
  std::memcpy(&same, &equal, sizeof same);
  return same;
}

TEST_F(ResumeTest, StateOfEveryKindComesBack) {
  const Sha256::Digest config{};
  Everything::Server server{.t = 7};
  Everything::Down down;
  down.t.Mutable() = 9;
  std::vector<Everything::Client> clients(2);
  clients[0].own = Private<Vec>(Vec{1, 2});
  clients[1].chosen = {4, 5, 6};
  clients[1].number = -0.0;
  clients[0].fixed = {1, 2, 3};
  const Standing at{.rounds_done = 3,
                    .bytes_up = 4,
                    .bytes_down = 5,
                    .answers = {.taken = 11, .absent = 12, .wrong_length = 13, .not_finite = 14},
                    .trace_bytes = 6,
                    .replay_seed = 7,
                    .seconds = 0.5,
                    .finished = true,
                    .held = "line\n",
                    .spent = {MuSquared{0.25}, MuSquared{0.5}},
                    .left = {17, 17}};
  const fs::path file = home_ / "checkpoint";
  ASSERT_TRUE(Checkpoint::Save<Everything>(file, config, at, server, down, clients).ok());
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  Everything::Server server2;
  Everything::Down down2;
  std::vector<Everything::Client> clients2(2);
  const auto back = Checkpoint::Load<Everything>(file, config, clients2.size(), 2, server2, down2, clients2);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->rounds_done, 3u);
  EXPECT_EQ(back->answers.taken, 11u);
  EXPECT_EQ(back->answers.absent, 12u);
  EXPECT_EQ(Missed(back->answers).dump(), R"({"absent":12,"not_finite":14,"wrong_length":13})");
  EXPECT_EQ(back->trace_bytes, 6u);
  EXPECT_EQ(back->replay_seed, 7u);
  EXPECT_EQ(back->held, "line\n");
  EXPECT_TRUE(back->finished);
  EXPECT_EQ(back->spent, at.spent);
  EXPECT_EQ(back->left, at.left);
  EXPECT_EQ(server2.t, 7u);
  EXPECT_EQ(*down2.t, 9u);
  EXPECT_TRUE(Holds(clients2[0].own, {1, 2}));
  EXPECT_EQ(clients2[1].chosen, (std::vector<std::uint32_t>{4, 5, 6}));
  EXPECT_TRUE(std::signbit(clients2[1].number));
  EXPECT_EQ(clients2[0].fixed, (Vec{1, 2, 3}));

  std::vector<Everything::Client> longer(2);
  longer[0].fixed.resize(4);
  EXPECT_FALSE(Checkpoint::Load<Everything>(file, config, longer.size(), 2, server2, down2, longer).ok());
  std::vector<Everything::Client> more(3);
  EXPECT_FALSE(Checkpoint::Load<Everything>(file, config, more.size(), 2, server2, down2, more).ok());
}

}  // namespace
}  // namespace tacit
