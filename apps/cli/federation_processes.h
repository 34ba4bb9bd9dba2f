#pragma once

// A server and three clients as processes of their own, for tests of what may happen to processes.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>

#include "core/check.h"
#include "core/rng.h"
#include "core/sha256.h"
#include "experiment/files.h"
#include "experiment/job.h"
#include "net/ca.h"
#include "net/test_port.h"
#include "privacy/data_ledger.h"
#include "privacy/ledger.h"

namespace tacit {

class ProcessFederation {
 public:
  static constexpr std::size_t kClients = 3, kRounds = 60, kMaskedRounds = 12, kServer = kClients;
  static constexpr std::uint64_t kNoiseSeed = 12345;
  using Environment = std::map<std::string, std::string>;

  // trust "masked": sums open only as a whole, in rounds of five steps. "central": the server noises, and
  // must not do so twice where anybody can see it. serve: further keys of the table [serve]. entropy: noise
  // is the system's, otherwise replayable.
  explicit ProcessFederation(std::filesystem::path home, const std::string& trust = "local",
                             const std::string& serve = "deadline = 30", bool entropy = false)
      : home_(std::move(home)) {
    std::filesystem::remove_all(home_);
    std::filesystem::create_directories(home_);
    Stream coins({7, Purpose::kData, 0, 0});
    std::ofstream all(home_ / "all.csv");
    for (std::size_t c = 0; c < kClients; ++c) {
      std::ofstream own(home_ / fmt::format("c{}.csv", c));
      for (int i = 0; i < 8; ++i) {
        const std::string row =
            fmt::format("{},{},{}\n", static_cast<double>(coins() % 100) / 100,
                        static_cast<double>(coins() % 100) / 100, coins() % 2 == 0 ? "1" : "-1");
        own << row, all << row;
      }
    }
    EXPECT_TRUE(MakeAuthority({.folder = home_ / "ca"}).ok());
    Certify("server", {"127.0.0.1"});
    for (std::size_t c = 0; c < kClients; ++c) Certify(fmt::format("c{}", c), {});
    std::ofstream(home_ / "job.toml") << fmt::format(
        "data = {{ source = \"{}\", rows = {}, features = 2, clients = {}, row_norm = \"clip\" }}\n"
        "model = {{ l2 = 0.1 }}\n"
        "privacy = {{ epsilon = 2.0, noise = \"{}\"{} }}\n"
        "algorithm = {{ {}, rounds = {} }}\n"
        "serve = {{ clients = [\"c0\", \"c1\", \"c2\"], noise_seed = {}, {} }}\n",
        (home_ / "all.csv").string(), 8 * kClients, kClients, entropy ? "entropy" : "replayable",
        trust == "masked"
            ? ", unit = \"client\", trust = \"masked\", mechanism = \"discrete_gaussian\", colluding = 1"
        : trust == "central" ? ", unit = \"client\", trust = \"central\""
                             : "",
        trust == "local" ? "name = \"primal-dual\"" : "name = \"dp-scaffold\", allocation = \"static\"",
        trust == "masked" ? kMaskedRounds : kRounds, entropy ? 0 : kNoiseSeed, serve);
  }
  ~ProcessFederation() { std::filesystem::remove_all(home_); }
  ProcessFederation(const ProcessFederation&) = delete;
  ProcessFederation& operator=(const ProcessFederation&) = delete;

 protected:
  static std::string NameOf(std::size_t who) { return who == kServer ? "server" : fmt::format("c{}", who); }
  static std::filesystem::path StateOf(const std::filesystem::path& at, std::size_t who) {
    return at / (who == kServer ? "server" : fmt::format("state{}", who));
  }

  void Certify(const std::string& name, const std::vector<std::string>& hosts) {
    EXPECT_TRUE(Issue({.authority = home_ / "ca",
                       .folder = home_ / "keys",
                       .name = name,
                       .party = hosts.empty() ? Party::kClient : Party::kServer,
                       .hosts = hosts})
                    .ok());
  }

  // The same job in one process, undisturbed.
  Result<RunResult> Alone() const {
    TACIT_TRY(const Job job, LoadJob(home_ / "job.toml", {}));
    TrainHooks hooks;
    hooks.noise_seed = kNoiseSeed;
    hooks.write_folder = false;
    return Train(job.config, hooks);
  }

  // The model of the run at this place, and what every client has paid for it: every round once, durably, and
  // no more than was planned.
  static void CheckEnd(const std::filesystem::path& at, const RunResult& alone) {
    const auto model = ReadWhole(at / "server/model.npy");
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(Sha256::Hex(*model), alone.model_sha256);
    for (std::size_t c = 0; c < kClients; ++c)
      CheckLedger(StateOf(at, c), alone.certified_epsilon, alone.rounds_done);
  }
  static void CheckLedger(const std::filesystem::path& state, double epsilon, std::uint64_t rounds) {
    std::size_t jobs = 0;
    for (const auto& job : std::filesystem::directory_iterator(state)) {
      if (!job.is_directory()) continue;
      const auto own = SqliteVault::Read(job.path() / "ledger.db");
      ASSERT_TRUE(own.ok()) << own.error().message;
      EXPECT_EQ(own->front().rounds_released, rounds);
      ++jobs;
    }
    EXPECT_EQ(jobs, 1u);
    const auto sets = DataLedger::Read(state / "ledger.db");
    ASSERT_TRUE(sets.ok()) << sets.error().message;
    ASSERT_EQ(sets->size(), 1u);
    ASSERT_EQ(sets->front().runs.size(), 1u);
    EXPECT_EQ(sets->front().runs[0].state, "settled");
    EXPECT_LE(Totals(sets->front())[0].EpsilonAt(1e-5), epsilon * (1 + 1e-12));
    EXPECT_GE(Totals(sets->front())[0].EpsilonAt(1e-5), epsilon * (1 - 1e-9));
  }

  static std::string Program() {
    const char* program = std::getenv("TACIT_PROGRAM");  // NOLINT(concurrency-mt-unsafe)
    return program != nullptr ? program : "tacit";
  }
  // The command of who, at this place.
  std::vector<std::string> Words(const std::filesystem::path& at, std::size_t who, int port) const {
    const std::string name = NameOf(who), keys = (home_ / "keys").string();
    std::vector<std::string> words = {Program()};
    const auto add = [&](std::initializer_list<std::string> these) { words.insert(words.end(), these); };
    if (who == kServer)
      add({"serve", (home_ / "job.toml").string(), "--listen", fmt::format("127.0.0.1:{}", port), "--folder",
           StateOf(at, who).string()});
    else
      add({"join", "--server", fmt::format("127.0.0.1:{}", port), "--data",
           (home_ / (name + ".csv")).string(), "--state", StateOf(at, who).string(), "--max-epsilon", "2",
           "--allow-replayable", "--allow-masked", "--trust-server", "server"});
    add({"--ca", (home_ / "ca/ca.pem").string(), "--cert", keys + "/" + name + ".pem", "--key",
         keys + "/" + name + ".key"});
    return words;
  }
  pid_t Start(const std::filesystem::path& at, std::size_t who, int port, const Environment& more = {},
              const std::vector<std::string>& last = {}) const {
    const std::string name = NameOf(who);
    std::vector<std::string> words = Words(at, who, port);
    words.insert(words.end(), last.begin(), last.end());
    return Spawn(std::move(words), at / (name + ".log"), more, apart_ ? at / (name + ".err") : "");
  }
  // errors: where stderr goes; empty: to the log, too.
  static pid_t Spawn(std::vector<std::string> words, const std::filesystem::path& log,
                     const Environment& more = {}, const std::filesystem::path& errors = {}) {
    std::vector<std::string> settings;
    for (char** e = environ; *e != nullptr; ++e) settings.emplace_back(*e);
    for (const auto& [key, value] : more) settings.push_back(key + "=" + value);
    std::vector<char*> arguments, environment;
    for (std::string& w : words) arguments.push_back(w.data());
    for (std::string& s : settings) environment.push_back(s.data());
    arguments.push_back(nullptr), environment.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    for (const int fd : {1, 2})
      posix_spawn_file_actions_addopen(&files, fd, fd == 2 && !errors.empty() ? errors.c_str() : log.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    pid_t pid = -1;
    // Not a failure to go on after: to kill process -1 is to kill everybody.
    TACIT_CHECK(::posix_spawn(&pid, arguments[0], &files, nullptr, arguments.data(), environment.data()) ==
                0);
    posix_spawn_file_actions_destroy(&files);
    return pid;
  }

  struct Watch {
    // What happens to whom, again and again.
    std::function<void(const std::vector<pid_t>&)> meddle = {};
    std::function<Environment(std::size_t who)> environment = {};
    // Whether an end that is no success may be one; the process is started again then.
    std::function<bool(std::size_t who, int state)> survives = {};
    std::vector<std::size_t> who = {0, 1, 2, kServer};
  };
  // Runs the job until all clients are done, and starts whoever ended before that again.
  void One(const std::filesystem::path& at, const Watch& watch) const {
    std::filesystem::create_directories(at);
    const int port = FreePort();
    std::vector<pid_t> pid(kClients + 1, -1);
    std::vector<bool> done(kClients, true);
    for (const std::size_t who : watch.who)
      if (who != kServer) done[who] = false;
    const auto all_done = [&] { return std::find(done.begin(), done.end(), false) == done.end(); };
    const auto begin = std::chrono::steady_clock::now();
    bool said = false;
    while (!all_done()) {
      if (!said && std::chrono::steady_clock::now() - begin > std::chrono::minutes(1)) {
        said = true;  // no failure, but somebody may want to know who waits for whom
        for (const auto& e : std::filesystem::directory_iterator(at))
          if (e.path().extension() == ".log")
            std::cerr << "a minute and not done; " << e.path() << ":\n" << ReadWhole(e.path()).operator*();
      }
      for (const std::size_t who : watch.who) {
        int state = 0;
        if (pid[who] > 0 && ::waitpid(pid[who], &state, WNOHANG) == pid[who]) {
          pid[who] = -1;
          if (who < kClients && WIFEXITED(state) && WEXITSTATUS(state) == 0) done[who] = true;
          const bool fine = WIFEXITED(state) && WEXITSTATUS(state) == 0;
          if (!fine && !(watch.survives && watch.survives(who, state))) {
            ADD_FAILURE() << NameOf(who) << " ended by itself with status " << state << ":\n"
                          << ReadWhole(at / (NameOf(who) + ".log")).operator*();
            for (const pid_t p : pid)
              if (p > 0) ::kill(p, SIGKILL), ::waitpid(p, nullptr, 0);
            return;
          }
        }
        if (pid[who] < 0 && (who == kServer ? !all_done() : !done[who]))
          pid[who] = Start(at, who, port, watch.environment ? watch.environment(who) : Environment{});
      }
      if (watch.meddle)
        watch.meddle(pid);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (pid[kServer] > 0) ::kill(pid[kServer], SIGINT), ::waitpid(pid[kServer], nullptr, 0);
  }

  std::filesystem::path home_;
  bool apart_ = false;  // stderr goes to a file of its own, NAME.err
};

}  // namespace tacit
