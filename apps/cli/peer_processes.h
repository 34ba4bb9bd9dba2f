#pragma once

// Four peers on a ring as processes of their own, for tests of what may happen to processes.
#include "core/vec.h"
#include "data/npy.h"
#include "federation_processes.h"

namespace tacit {

class PeerProcesses : public ProcessFederation {
 public:
  static constexpr std::size_t kPeers = 4;
  explicit PeerProcesses(std::filesystem::path home, std::size_t rounds = 60)
      : ProcessFederation(std::move(home)), rounds_(rounds) {
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
        (home_ / "all.csv").string(), kPeers, rounds_, names, addresses, kNoiseSeed);
  }

 protected:
  static std::string PeerName(std::size_t k) { return fmt::format("p{}", k); }
  static std::filesystem::path StateOfPeer(const std::filesystem::path& at, std::size_t k) {
    return at / ("state-" + PeerName(k));
  }
  static std::string Said(const std::filesystem::path& at, std::size_t k) {
    const auto log = ReadWhole(at / (PeerName(k) + ".log"));
    return log.ok() ? *log : "";
  }

  // The same job in one process, undisturbed.
  Result<RunResult> PeersAlone() const {
    TACIT_TRY(const Job job, LoadJob(home_ / "peers.toml", {}));
    TrainHooks hooks;
    hooks.noise_seed = kNoiseSeed;
    hooks.write_folder = false;
    return Train(job.config, hooks);
  }
  // The mean of the models of the run at this place, and what every peer has paid for it: every round once,
  // durably, and no more than was planned.
  void CheckPeers(const std::filesystem::path& at, const RunResult& alone) const {
    Vec mean;
    for (std::size_t k = 0; k < kPeers; ++k) {
      const std::filesystem::path state = StateOfPeer(at, k);
      for (const auto& one : std::filesystem::directory_iterator(state)) {
        if (!one.is_directory()) continue;
        const auto model = ReadNpy(one.path() / "model.npy");
        ASSERT_TRUE(model.ok()) << model.error().message;
        if (mean.empty()) mean.resize(model->values.size());
        Axpy(1.0, model->values, mean);
      }
      CheckLedger(state, alone.certified_epsilon, rounds_);
    }
    Scale(1 / static_cast<double>(kPeers), mean);
    EXPECT_EQ(mean, alone.model);
  }

  pid_t StartPeer(const std::filesystem::path& at, std::size_t k, const Environment& more = {},
                  const std::vector<std::string>& last = {}) const {
    const char* program = std::getenv("TACIT_PROGRAM");  // NOLINT(concurrency-mt-unsafe)
    const std::string name = PeerName(k), keys = (home_ / "keys").string();
    std::vector<std::string> words = {program != nullptr ? program : "tacit",
                                      "peer",
                                      (home_ / "peers.toml").string(),
                                      "--data",
                                      (home_ / (name + ".csv")).string(),
                                      "--state",
                                      StateOfPeer(at, k).string(),
                                      "--max-epsilon",
                                      "2",
                                      "--allow-replayable",
                                      "--ca",
                                      (home_ / "ca/ca.pem").string(),
                                      "--cert",
                                      keys + "/" + name + ".pem",
                                      "--key",
                                      keys + "/" + name + ".key"};
    words.insert(words.end(), last.begin(), last.end());
    return Spawn(std::move(words), at / (name + ".log"), more);
  }
  // Runs the job until all peers are done, and starts whoever ended before that again. Watch::who is not
  // used.
  void AllPeers(const std::filesystem::path& at, const Watch& watch) const {
    std::filesystem::create_directories(at);
    std::vector<pid_t> pid(kPeers, -1);
    std::vector<bool> done(kPeers);
    while (std::find(done.begin(), done.end(), false) != done.end() && !testing::Test::HasFailure()) {
      for (std::size_t k = 0; k < kPeers; ++k) {
        int state = 0;
        if (pid[k] > 0 && ::waitpid(pid[k], &state, WNOHANG) == pid[k]) {
          pid[k] = -1;
          done[k] = WIFEXITED(state) && WEXITSTATUS(state) == 0;
          EXPECT_TRUE(done[k] || (watch.survives && watch.survives(k, state)))
              << PeerName(k) << " ended by itself with status " << state << ":\n"
              << Said(at, k);
        }
        if (pid[k] < 0 && !done[k])
          pid[k] = StartPeer(at, k, watch.environment ? watch.environment(k) : Environment{});
      }
      if (watch.meddle)
        watch.meddle(pid);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    for (const pid_t p : pid)
      if (p > 0) ::kill(p, SIGKILL), ::waitpid(p, nullptr, 0);
  }
  const std::size_t rounds_;
};

// Peers that are killed (SIGKILL) at random instants and started again.
class KilledPeers : public PeerProcesses {
 public:
  using PeerProcesses::PeerProcesses;
  // Runs the job again and again until so many have been killed, and looks at every end.
  void Run(std::size_t kills, std::uint64_t seed) {
    const auto alone = PeersAlone();
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    Stream coins({seed, Purpose::kTest, 0, 0});
    std::size_t made = 0, runs = 0;
    for (; made < kills && !testing::Test::HasFailure(); ++runs) {
      ASSERT_LT(runs, kills + 2) << "the runs end before anything is killed";
      const std::filesystem::path at = home_ / fmt::format("run{}", runs);
      AllPeers(at, {.meddle =
                        [&](const std::vector<pid_t>& pid) {
                          std::this_thread::sleep_for(std::chrono::milliseconds(20 + coins() % 300));
                          const std::size_t victim = coins() % kPeers;
                          if (made < kills && pid[victim] > 0) ::kill(pid[victim], SIGKILL);
                        },
                    .survives = [&](std::size_t, int state) {  // not of who had ended before it was hit
                      const bool killed = WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL;
                      made += killed ? 1 : 0;
                      return killed;
                    }});
      CheckPeers(at, *alone);
    }
    std::cout << fmt::format("survived: {} kills of peers in {} runs\n", made, runs);
  }
};

}  // namespace tacit
