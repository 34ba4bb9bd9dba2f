#pragma once

// Kills runs at random instants of their whole life, resumes them, and compares with one that was let live.
// Shared by resume_test (a few kills) and resume_slow_test (200).
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/rng.h"
#include "experiment/run.h"
#include "privacy/data_ledger.h"
#include "privacy/gdp.h"

namespace tacit {

inline std::string ReadFile(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline Config ResumeConfig(const std::filesystem::path& output, const std::vector<Assignment>& more = {}) {
  std::vector<Assignment> sets = {{"data.source", "synthetic-logistic"},
                                  {"data.rows", "120"},
                                  {"data.features", "6"},
                                  {"data.clients", "5"},
                                  {"model.l2", "0.1"},
                                  {"algorithm.rounds", "30"},
                                  {"privacy.noise", "replayable"},
                                  {"experiment.oracle", "true"},
                                  {"experiment.trace_every", "1"},
                                  {"experiment.checkpoint", "0"},
                                  {"experiment.reserve", "8"},
                                  {"runtime.threads", "1"},
                                  {"experiment.output", output.string()}};
  sets.insert(sets.end(), more.begin(), more.end());
  auto config = LoadConfig({}, sets);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return *config;
}

// The run folder in `output`, or an empty path.
inline std::filesystem::path FolderIn(const std::filesystem::path& output) {
  std::error_code ec;
  for (const auto& e : std::filesystem::directory_iterator(output, ec))
    if (e.is_directory()) return e.path();
  return {};
}

// When a run is killed: after some time, or when it has sent so many numbers, after which it waits for it.
struct Death {
  std::uint64_t microseconds = 0, numbers = 0;      // both 0: never
};

// Runs `work` in a child; the largest number that it sent comes back.
struct Killed {
  bool killed = false;
  double largest = 0;
};
template <class Work>
Killed KillAt(Death death, Work work) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    ::_exit(work(ends[1]) ? 0 : 1);
  }
  ::close(ends[1]);
  Killed out;
  auto next = [&, v = 0.0]() mutable {
    if (::read(ends[0], &v, sizeof v) != sizeof v) return false;
    out.largest = std::max(out.largest, v);
    return true;
  };
  if (death.microseconds != 0) ::usleep(static_cast<useconds_t>(death.microseconds));
  for (std::uint64_t i = 0; i < death.numbers && next(); ++i) {
  }
  if (death.microseconds != 0 || death.numbers != 0) ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  out.killed = WIFSIGNALED(status);
  EXPECT_TRUE(out.killed || WEXITSTATUS(status) == 0) << "the run failed by itself";
  while (next()) {
  }
  ::close(ends[0]);
  return out;
}

inline void KillRuns(const std::filesystem::path& where, std::size_t kills,
                     const std::vector<Assignment>& more = {}) {
  namespace fs = std::filesystem;
  fs::remove_all(where);
  const auto reference = Train(ResumeConfig(where / "reference", more));
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  const std::string model = ReadFile(reference->folder / "model.npy");
  const std::string trace = ReadFile(reference->folder / "trace.jsonl");
  const double delta = reference->plan.delta;

  Stream random({.seed = 5, .purpose = Purpose::kTest, .who = 0, .round = 0});
  std::size_t killed = 0, resumed = 0, runs = 0;
  // Long enough that some runs get to their last file, short enough that most do not.
  const auto window = static_cast<std::uint64_t>(1e6 * (0.03 + 1.1 * reference->seconds));
  while (killed < kills) {
    const fs::path output = where / fmt::format("run{}", runs++);
    const Config config = ResumeConfig(output, more);
    for (bool done = false; !done;) {
      const fs::path folder = FolderIn(output);
      const bool begun = !folder.empty() && fs::exists(folder / "config.toml");
      const bool last = killed >= kills;
      // The last one dies with a round released, however slow the machine: something is left to resume.
      const Death death = last                  ? Death{}
                          : killed + 1 == kills ? Death{.numbers = 1}
                                                : Death{.microseconds = 1 + random.Below(window)};
      const Killed k = KillAt(death, [&](int to) {
        TrainHooks hooks;
        hooks.progress = [&, sent = std::uint64_t{0}](const Progress& p) mutable {
          if (p.metrics == nullptr) return;  // only what left with a checkpoint was released
          [[maybe_unused]] const auto n = ::write(to, &p.epsilon, sizeof p.epsilon);
          while (++sent == death.numbers) ::pause();
        };
        if (begun && !ConfigToResume(folder, {}).ok()) return true;
        return begun ? Resume(folder, {}, hooks).ok() : Train(config, hooks).ok();
      });
      killed += k.killed && !last ? 1 : 0;
      resumed += begun && !k.killed ? 1 : 0;
      done = !k.killed;
      const fs::path now = FolderIn(output);
      if (!begun && !now.empty() && !fs::exists(now / "config.toml")) fs::remove_all(now);  // not begun yet
      double released = k.largest;
      std::istringstream lines(ReadFile(now / "trace.jsonl"));
      for (std::string line; std::getline(lines, line);) {
        const auto point = nlohmann::json::parse(line, nullptr, false);
        if (!point.is_discarded()) released = std::max(released, point["epsilon"].get<double>());
      }
      if (released == 0) continue;
      // Both ledgers know at least as much as anyone has seen.
      const auto run = SqliteVault::Read(now / "ledger.db");
      ASSERT_TRUE(run.ok()) << run.error().message;
      for (const double spent : run->front().spent)
        EXPECT_GE(GdpEpsilon(Root(MuSquared::Proven(spent)), Delta::Proven(delta)).upper, released);
      const auto data = DataLedger::Read(output / "ledger.db");
      ASSERT_TRUE(data.ok()) << data.error().message;
      ASSERT_EQ(data->size(), 1u);
      EXPECT_GE(Totals(data->front()).front().EpsilonAt(delta), released);
    }
    const fs::path folder = FolderIn(output);
    EXPECT_EQ(ReadFile(folder / "model.npy"), model) << "run " << runs;
    EXPECT_EQ(ReadFile(folder / "trace.jsonl"), trace) << "run " << runs;
    EXPECT_FALSE(fs::exists(folder / "checkpoint"));
    const auto ledger = SqliteVault::Read(folder / "ledger.db");
    ASSERT_TRUE(ledger.ok());
    EXPECT_EQ(ledger->front().state, "settled");
    EXPECT_LE(ledger->front().spent.front(), reference->mu * reference->mu * (1 + 1e-12));
    fs::remove_all(output);
  }
  EXPECT_GT(resumed, 0u) << "no run was ever resumed to its end";
  fs::remove_all(where);
}

}  // namespace tacit
