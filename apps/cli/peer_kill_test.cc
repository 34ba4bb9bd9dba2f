// Peers without a server, each a process that is killed (SIGKILL) at random instants and started again.
#include "core/vec.h"
#include "data/npy.h"
#include "federation_processes.h"

namespace tacit {
namespace {

class KilledPeers : public ProcessFederation {
 public:
  static constexpr std::size_t kPeers = 4, kPeerRounds = 60;
  explicit KilledPeers(std::filesystem::path home) : ProcessFederation(std::move(home)) {
    std::string names, addresses;
    for (std::size_t k = 0; k < kPeers; ++k) {
      EXPECT_TRUE(Issue({.authority = home_ / "ca",
                         .folder = home_ / "keys",
                         .name = PeerName(k),
                         .party = Party::kPeer,
                         .hosts = {}})
                      .ok());
      names += fmt::format("{}\"{}\"", k == 0 ? "" : ", ", PeerName(k));
      addresses += fmt::format("{}\"127.0.0.1:{}\"", k == 0 ? "" : ", ", FreePort());
      std::ofstream rows(home_ / (PeerName(k) + ".csv"));
      std::ifstream all(home_ / "all.csv");
      std::string row;
      for (std::size_t i = 0; std::getline(all, row); ++i)
        if (i / 6 == k) rows << row << "\n";
    }
    std::ofstream(home_ / "peers.toml") << fmt::format(
        "data = {{ source = \"{}\", rows = 24, features = 2, clients = {}, row_norm = \"clip\" }}\n"
        "model = {{ l2 = 0.1 }}\n"
        "privacy = {{ epsilon = 2.0, noise = \"replayable\" }}\n"
        "algorithm = {{ name = \"zcdp-nfl\", rounds = {} }}\n"
        "network = {{ topology = \"ring\" }}\n"
        "serve = {{ clients = [{}], addresses = [{}], noise_seed = {} }}\n",
        (home_ / "all.csv").string(), kPeers, kPeerRounds, names, addresses, kNoiseSeed);
  }

  void Run(std::size_t kills, std::uint64_t seed) {
    const auto job = LoadJob(home_ / "peers.toml", {});
    ASSERT_TRUE(job.ok()) << job.error().message;
    TrainHooks hooks;
    hooks.noise_seed = kNoiseSeed;
    hooks.write_folder = false;
    const auto alone = Train(job->config, hooks);
    ASSERT_TRUE(alone.ok()) << alone.error().message;

    Stream coins({seed, Purpose::kTest, 0, 0});
    std::vector<pid_t> pid(kPeers, -1);
    std::vector<bool> done(kPeers);
    std::size_t made = 0;
    while (std::find(done.begin(), done.end(), false) != done.end() && !testing::Test::HasFailure()) {
      for (std::size_t k = 0; k < kPeers; ++k) {
        int state = 0;
        if (pid[k] > 0 && ::waitpid(pid[k], &state, WNOHANG) == pid[k]) {
          pid[k] = -1;
          done[k] = WIFEXITED(state) && WEXITSTATUS(state) == 0;
          const bool killed = WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL;
          made += killed ? 1 : 0;  // not who had ended before it was hit
          EXPECT_TRUE(done[k] || killed) << ReadWhole(home_ / (PeerName(k) + ".log")).operator*();
        }
        if (pid[k] < 0 && !done[k]) pid[k] = StartPeer(k);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + coins() % 300));
      const std::size_t victim = coins() % kPeers;
      if (made < kills && pid[victim] > 0) ::kill(pid[victim], SIGKILL);
    }
    for (const pid_t p : pid)
      if (p > 0) ::kill(p, SIGKILL), ::waitpid(p, nullptr, 0);
    ASSERT_FALSE(testing::Test::HasFailure());
    Vec mean;
    for (std::size_t k = 0; k < kPeers; ++k) {
      const std::filesystem::path state = home_ / ("state-" + PeerName(k));
      for (const auto& one : std::filesystem::directory_iterator(state)) {
        if (!one.is_directory()) continue;
        const auto model = ReadNpy(one.path() / "model.npy");
        ASSERT_TRUE(model.ok()) << model.error().message;
        if (mean.empty()) mean.resize(model->values.size());
        Axpy(1.0, model->values, mean);
      }
      CheckLedger(state, alone->certified_epsilon, kPeerRounds);
    }
    Scale(1 / static_cast<double>(kPeers), mean);
    EXPECT_EQ(mean, alone->model);
    EXPECT_GT(made, kills / 2) << "the run ends before anybody is killed";
    std::cout << fmt::format("survived: {} kills of peers\n", made);
  }

 private:
  static std::string PeerName(std::size_t k) { return fmt::format("p{}", k); }
  pid_t StartPeer(std::size_t k) const {
    const char* program = std::getenv("TACIT_PROGRAM");  // NOLINT(concurrency-mt-unsafe)
    const std::string name = PeerName(k), keys = (home_ / "keys").string();
    return Spawn({program != nullptr ? program : "tacit", "peer", (home_ / "peers.toml").string(), "--data",
                  (home_ / (name + ".csv")).string(), "--state", (home_ / ("state-" + name)).string(),
                  "--max-epsilon", "2", "--allow-replayable", "--ca", (home_ / "ca/ca.pem").string(),
                  "--cert", keys + "/" + name + ".pem", "--key", keys + "/" + name + ".key"},
                 home_ / (name + ".log"));
  }
};

TEST(PeerKill, TenKillsChangeNothing) {
  KilledPeers(std::filesystem::temp_directory_path() / fmt::format("tacit_kill_peers_{}", ::getpid()))
      .Run(10, 11);
}

}  // namespace
}  // namespace tacit
