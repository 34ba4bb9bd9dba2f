#pragma once

// A server and its clients as processes of their own that are killed (SIGKILL) at random instants and started
// again by whoever watches them. Shared by a test with a few dozen kills and one with 200.
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
#include <thread>

#include "core/rng.h"
#include "core/sha256.h"
#include "experiment/files.h"
#include "experiment/job.h"
#include "net/ca.h"
#include "privacy/data_ledger.h"

namespace tacit {

class KilledFederation {
 public:
  static constexpr std::size_t kClients = 3, kRounds = 60, kMaskedRounds = 12;
  static constexpr std::uint64_t kNoiseSeed = 12345;

  // trust "masked": sums open only as a whole, in rounds of five steps, any two of which a kill may come
  // between. "central": the server noises, and must not do so twice where anybody can see it.
  explicit KilledFederation(std::filesystem::path home, const std::string& trust = "local")
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
        "privacy = {{ epsilon = 2.0, noise = \"replayable\"{} }}\n"
        "algorithm = {{ {}, rounds = {} }}\n"
        "serve = {{ clients = [\"c0\", \"c1\", \"c2\"], noise_seed = {}, deadline = 30 }}\n",
        (home_ / "all.csv").string(), 8 * kClients, kClients,
        trust == "masked"
            ? ", unit = \"client\", trust = \"masked\", mechanism = \"discrete_gaussian\", colluding = 1"
        : trust == "central" ? ", unit = \"client\", trust = \"central\""
                             : "",
        trust == "local" ? "name = \"primal-dual\"" : "name = \"dp-scaffold\", allocation = \"static\"",
        trust == "masked" ? kMaskedRounds : kRounds, kNoiseSeed);
  }
  ~KilledFederation() { std::filesystem::remove_all(home_); }
  KilledFederation(const KilledFederation&) = delete;
  KilledFederation& operator=(const KilledFederation&) = delete;

  // Runs the job again and again until so many kills have been made, and looks at every end.
  void Run(std::size_t kills, std::uint64_t seed) {
    const auto job = LoadJob(home_ / "job.toml", {});
    ASSERT_TRUE(job.ok()) << job.error().message;
    TrainHooks hooks;
    hooks.noise_seed = kNoiseSeed;
    hooks.write_folder = false;
    const auto alone = Train(job->config, hooks);
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    Stream coins({seed, Purpose::kTest, 0, 0});
    for (std::size_t run = 0, made = 0; made < kills; ++run) {
      ASSERT_LT(run, kills + 2) << "the runs end before anything is killed";
      const std::filesystem::path at = home_ / fmt::format("run{}", run);
      made += One(at, kills - made, coins);
      const auto model = ReadWhole(at / "server/model.npy");
      ASSERT_TRUE(model.ok()) << model.error().message;
      EXPECT_EQ(Sha256::Hex(*model), alone->model_sha256);
      for (std::size_t c = 0; c < kClients; ++c)
        CheckLedger(at / fmt::format("state{}", c), alone->certified_epsilon);
    }
  }

 private:
  void Certify(const std::string& name, const std::vector<std::string>& hosts) {
    EXPECT_TRUE(Issue({.authority = home_ / "ca",
                       .folder = home_ / "keys",
                       .name = name,
                       .party = hosts.empty() ? Party::kClient : Party::kServer,
                       .hosts = hosts})
                    .ok());
  }

  // A client has paid for every round once, durably, and no more than was planned.
  static void CheckLedger(const std::filesystem::path& state, double epsilon) {
    const auto sets = DataLedger::Read(state / "ledger.db");
    ASSERT_TRUE(sets.ok()) << sets.error().message;
    ASSERT_EQ(sets->size(), 1u);
    ASSERT_EQ(sets->front().runs.size(), 1u);
    EXPECT_EQ(sets->front().runs[0].state, "settled");
    EXPECT_LE(Totals(sets->front())[0].EpsilonAt(1e-5), epsilon * (1 + 1e-12));
    EXPECT_GE(Totals(sets->front())[0].EpsilonAt(1e-5), epsilon * 0.99);
  }

  static int FreePort() {
    const int s = ::socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0) return 0;
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof a;
    EXPECT_EQ(::bind(s, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
    EXPECT_EQ(::getsockname(s, reinterpret_cast<sockaddr*>(&a), &size), 0);
    ::close(s);
    return ntohs(a.sin_port);
  }

  pid_t Start(const std::filesystem::path& at, std::size_t who, int port) const {
    const std::string name = who == kClients ? "server" : fmt::format("c{}", who);
    const std::string keys = (home_ / "keys").string();
    const char* program = std::getenv("TACIT_PROGRAM");  // NOLINT(concurrency-mt-unsafe)
    std::vector<std::string> words = {program != nullptr ? program : "tacit"};
    const auto add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
    if (who == kClients)
      add({"serve", (home_ / "job.toml").string(), "--listen", fmt::format("127.0.0.1:{}", port), "--folder",
           (at / "server").string()});
    else
      add({"join", "--server", fmt::format("127.0.0.1:{}", port), "--data",
           (home_ / (name + ".csv")).string(), "--state", (at / fmt::format("state{}", who)).string(),
           "--max-epsilon", "2", "--allow-replayable", "--allow-masked", "--trust-server", "server"});
    add({"--ca", (home_ / "ca/ca.pem").string(), "--cert", keys + "/" + name + ".pem", "--key",
         keys + "/" + name + ".key"});
    std::vector<char*> arguments;
    for (std::string& w : words) arguments.push_back(w.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    const std::string log = (at / (name + ".log")).string();
    for (const int fd : {1, 2})
      posix_spawn_file_actions_addopen(&files, fd, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, arguments[0], &files, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    return pid;
  }

  // One run of the job; how often something was killed in it.
  std::size_t One(const std::filesystem::path& at, std::size_t kills, Stream& coins) {
    std::filesystem::create_directories(at);
    const int port = FreePort();
    std::vector<pid_t> pid(kClients + 1, -1);
    std::vector<bool> done(kClients);
    std::size_t made = 0;
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
      for (std::size_t who = 0; who <= kClients; ++who) {
        int state = 0;
        if (pid[who] > 0 && ::waitpid(pid[who], &state, WNOHANG) == pid[who]) {
          pid[who] = -1;
          if (who < kClients && WIFEXITED(state) && WEXITSTATUS(state) == 0) done[who] = true;
          const bool fine = WIFSIGNALED(state) ? WTERMSIG(state) == SIGKILL : WEXITSTATUS(state) == 0;
          if (!fine) {
            const std::string name = who == kClients ? "server" : fmt::format("c{}", who);
            ADD_FAILURE() << name << " ended by itself with status " << state << ":\n"
                          << ReadWhole(at / (name + ".log")).operator*();
            for (const pid_t p : pid)
              if (p > 0) ::kill(p, SIGKILL), ::waitpid(p, nullptr, 0);
            return kills;
          }
        }
        if (pid[who] < 0 && (who == kClients ? !all_done() : !done[who])) pid[who] = Start(at, who, port);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(coins() % 400));
      const std::size_t victim = coins() % (kClients + 1);
      if (made < kills && pid[victim] > 0 && ::kill(pid[victim], SIGKILL) == 0) ++made;
    }
    if (pid[kClients] > 0) ::kill(pid[kClients], SIGINT), ::waitpid(pid[kClients], nullptr, 0);
    return made;
  }

  std::filesystem::path home_;
};

}  // namespace tacit
