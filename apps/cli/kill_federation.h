#pragma once

// A server and its clients that are killed (SIGKILL) at random instants and started again by whoever watches
// them. Shared by a test with a few dozen kills and one with 200.
#include "federation_processes.h"

namespace tacit {

class KilledFederation : public ProcessFederation {
 public:
  using ProcessFederation::ProcessFederation;

  // Runs the job again and again until so many kills have been made, and looks at every end.
  void Run(std::size_t kills, std::uint64_t seed) {
    const auto alone = Alone();
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    Stream coins({seed, Purpose::kTest, 0, 0});
    std::size_t made = 0;
    for (std::size_t run = 0; made < kills && !testing::Test::HasFailure(); ++run) {
      ASSERT_LT(run, kills + 2) << "the runs end before anything is killed";
      const std::filesystem::path at = home_ / fmt::format("run{}", run);
      One(at, {.meddle =
                   [&](const std::vector<pid_t>& pid) {
                     std::this_thread::sleep_for(std::chrono::milliseconds(coins() % 400));
                     const std::size_t victim = coins() % (kClients + 1);
                     if (made < kills && pid[victim] > 0 && ::kill(pid[victim], SIGKILL) == 0) ++made;
                   },
               .survives = [](std::size_t,
                              int state) { return WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL; }});
      CheckEnd(at, *alone);
    }
    std::cout << fmt::format("survived: {} kills\n", made);
  }
};

}  // namespace tacit
