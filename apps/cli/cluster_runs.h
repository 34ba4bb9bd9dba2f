#pragma once

// Starts the built program under mpirun, as a person does, and kills its processes.
#include <thread>

#include "core/rng.h"
#include "program_test.h"

namespace tacit {

class ClusterTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    tacit_ = program_;
    // Root may, more processes than cores may, none is bound to a core, and who is told to end has time to.
    for (const auto& [key, value] : {std::pair{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                     {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                     {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                     {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                     {"OMPI_MCA_odls_base_sigkill_timeout", "5"}})
      ::setenv(key, value, 1);  // NOLINT(concurrency-mt-unsafe)
  }

  // n of them with the same arguments; 0: one without mpirun.
  pid_t Begin(int n, const std::vector<std::string>& arguments) {
    if (n == 0) {
      program_ = tacit_;
      return Start(arguments);
    }
    std::vector<std::string> all = {"-n", std::to_string(n), tacit_};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return BeginBy(all);
  }
  pid_t BeginBy(const std::vector<std::string>& mpirun) {
    program_ = TACIT_MPIRUN;
    return Start(mpirun);
  }
  Outcome Together(int n, const std::vector<std::string>& arguments) { return Wait(Begin(n, arguments)); }

  // The processes that mpirun has started, by rank; 0 where there is none (yet).
  static std::vector<pid_t> RanksOf(pid_t mpirun, int n) {
    std::vector<pid_t> ranks(static_cast<std::size_t>(n));
    std::istringstream children(Slurp(fmt::format("/proc/{}/task/{}/children", mpirun, mpirun)));
    for (pid_t child = 0; children >> child;) {
      const std::string environment = Slurp(fmt::format("/proc/{}/environ", child));
      const std::string key = std::string("\0OMPI_COMM_WORLD_RANK=", 22);
      const std::size_t at = environment.find(key);
      if (at == std::string::npos) continue;
      const int rank = std::atoi(environment.c_str() + at + key.size());
      if (rank >= 0 && rank < n) ranks[static_cast<std::size_t>(rank)] = child;
    }
    return ranks;
  }
  static bool Ended(pid_t child) {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  }
  fs::path Folder(const std::string& output) const {
    std::error_code ec;
    for (const auto& e : fs::directory_iterator(home_ / output, ec))
      if (e.is_directory()) return e.path();
    return {};
  }
  // A run of some hundred rounds, each with its checkpoint.
  std::string Long() {
    return Write("long.toml",
                 "data = { source = \"synthetic-logistic\", rows = 400, features = 12, clients = 7 }\n"
                 "model = { name = \"logistic\", l2 = 0.1 }\n"
                 "privacy = { epsilon = 4, delta = 1e-5, noise = \"replayable\" }\n"
                 "algorithm = { rounds = 150 }\n"
                 "experiment = { trace_every = 1, checkpoint = 0, reserve = 8, name = \"run\" }\n");
  }

  // Kills a random rank at a random instant, until so many have died, and lets the runs end: with and without
  // mpirun. Their files are those of a run that nobody killed.
  void KillRanks(std::size_t kills) {
    const std::string file = Long();
    const auto train = [&](const std::string& output) {
      return std::vector<std::string>{
          "train", file, "--quiet", "--threads", "1", "--set", "experiment.output=" + output};
    };
    ASSERT_EQ(Together(0, train("reference")).code, 0);
    const std::string model = Slurp(Folder("reference") / "model.npy");
    const std::string trace = Slurp(Folder("reference") / "trace.jsonl");
    Stream random({.seed = 11, .purpose = Purpose::kTest, .who = 0, .round = 0});
    std::size_t killed = 0, resumed = 0;
    for (std::size_t run = 0; killed < kills; ++run) {
      const std::string output = fmt::format("run{}", run);
      for (bool done = false; !done;) {
        const fs::path folder = Folder(output);
        const bool begun = !folder.empty() && fs::exists(folder / "config.toml");
        if (begun && fs::exists(folder / "result.json") && !fs::exists(folder / "checkpoint"))
          break;  // after its end
        if (!begun && !folder.empty()) fs::remove_all(folder);  // killed before it began
        const auto arguments =
            begun ? std::vector<std::string>{"resume", folder.string(), "--quiet", "--threads", "1"}
                  : train(output);
        const bool alone = begun && random.Below(3) == 0;
        const int n = alone ? 0 : 2 + static_cast<int>(random.Below(2));
        const pid_t child = Begin(n, arguments);
        // A while after they are all there, and after some rounds.
        const std::size_t victim = alone ? 0 : random.Below(static_cast<std::uint64_t>(n));
        const std::size_t lines = random.Below(60);
        const std::uint64_t more = random.Below(20'000);
        const std::size_t from = LinesOf(Folder(output) / "trace.jsonl");
        while (!alone && !Ended(child) && LinesOf(Folder(output) / "trace.jsonl") < from + lines)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::this_thread::sleep_for(std::chrono::microseconds(more));
        const bool kill = !alone && killed < kills;
        if (kill && !Ended(child))
          if (const pid_t pid = RanksOf(child, n)[victim]; pid != 0) ::kill(pid, SIGKILL);
        const Outcome o = Wait(child);
        done = o.code == 0;
        ASSERT_TRUE(done || kill) << o.code << o.out << o.err;
        if (!done) ++killed;
        if (done && begun) ++resumed;
        // Whole, or not there: a run that was killed can always go on.
        if (!done) {
          ASSERT_TRUE(ConsistentAfterDeath(Folder(output))) << o.err;
        }
      }
      const fs::path folder = Folder(output);
      EXPECT_EQ(Slurp(folder / "model.npy"), model) << "run " << run;
      EXPECT_EQ(Slurp(folder / "trace.jsonl"), trace) << "run " << run;
      EXPECT_FALSE(fs::exists(folder / "checkpoint"));
    }
    EXPECT_GT(resumed, 0u);
  }

  std::string tacit_;

 private:
  static std::size_t LinesOf(const fs::path& file) {
    const std::string text = Slurp(file);
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  static bool ConsistentAfterDeath(const fs::path& folder) {
    return folder.empty() || !fs::exists(folder / "trace.jsonl") ||
           fs::file_size(folder / "trace.jsonl") == 0 || fs::exists(folder / "checkpoint") ||
           fs::exists(folder / "result.json");
  }
};

}  // namespace tacit
