// Peers without a server, each a process, whose disks are full and whose clocks jump (fault_shim.cc), and who
// are told to stop.
#include "net/metrics.h"
#include "peer_processes.h"

namespace tacit {
namespace {

class FaultyPeers : public PeerProcesses {
 public:
  explicit FaultyPeers(std::size_t rounds)
      : PeerProcesses(
            std::filesystem::temp_directory_path() /
                fmt::format("tacit_{}_{}", testing::UnitTest::GetInstance()->current_test_info()->name(),
                            ::getpid()),
            rounds) {}

  // Peers find their disk full after some bytes, until that has happened so often.
  void FullDisks(std::size_t faults, std::uint64_t seed) {
    const auto alone = PeersAlone();
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    Stream coins({seed, Purpose::kTest, 0, 0});
    std::size_t full = 0, runs = 0;
    for (; full < faults && !testing::Test::HasFailure(); ++runs) {
      ASSERT_LT(runs, faults + 2) << "the runs end before a disk is full";
      const std::filesystem::path at = home_ / fmt::format("disk{}", runs);
      AllPeers(at, {.environment = [&](std::size_t k) -> Environment {
                      // Most faults are early, when ledgers and folders are made.
                      const std::uint64_t bytes = coins.Below(coins() % 2 == 0 ? 20'000 : 200'000);
                      if (full >= faults) return {};
                      return {{"LD_PRELOAD", Shim()},
                              {"TACIT_FAULT_DISK", fmt::format("{}:{}", bytes, StateOfPeer(at, k).string())}};
                    },
                    .survives =
                        [&](std::size_t k, int state) {
                          const std::string log = Said(at, k);
                          const std::string last = log.substr(log.find_last_of('\n', log.size() - 2) + 1);
                          const bool said = WIFEXITED(state) &&
                                            WEXITSTATUS(state) == static_cast<int>(Code::kIo) &&
                                            last.find("check the disk") != std::string::npos;
                          full += said ? 1 : 0;
                          return said;
                        }});
      CheckPeers(at, *alone);
    }
    std::cout << fmt::format("survived: {} full disks at peers in {} runs\n", full, runs);
  }

  // clock: what TACIT_FAULT_CLOCK says for peer k.
  void Clocks(const std::function<std::string(std::size_t)>& clock) {
    const auto alone = PeersAlone();
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    const std::filesystem::path at = home_ / "clock";
    AllPeers(at, {.environment = [&](std::size_t k) -> Environment {
               return {{"LD_PRELOAD", Shim()}, {"TACIT_FAULT_CLOCK", clock(k)}};
             }});
    CheckPeers(at, *alone);
    std::size_t jumps = 0;
    for (std::size_t k = 0; k < kPeers; ++k) jumps += JumpsIn(Said(at, k));
    EXPECT_GT(jumps, 0u) << "the run ends before a clock jumps";
    std::cout << fmt::format("survived: {} jumps of the clocks of {} peers, in {} rounds\n", jumps, kPeers,
                             rounds_);
  }

  // SIGTERM, as of a service's manager: to one that waits for neighbours who are not there, and to one in a
  // round. Everything is kept, and neighbours wait.
  void Terminated() {
    const auto alone = PeersAlone();
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    const std::filesystem::path at = home_ / "stop";
    std::filesystem::create_directories(at);
    const std::string page = fmt::format("127.0.0.1:{}", FreePort());
    const auto of = [&](const char* name) {
      const auto counts = ReadMetrics(page);
      return counts.ok() ? counts->at(name) : 0;
    };
    std::vector<pid_t> pid(kPeers, -1);
    const auto end = [&](std::size_t k) {
      const pid_t p = std::exchange(pid[k], -1);
      int state = 0;
      for (int i = 0; i < 12000; ++i) {
        if (::waitpid(p, &state, WNOHANG) == p) return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      ::kill(p, SIGKILL), ::waitpid(p, nullptr, 0);
      return -1;
    };
    const auto soon = [](const auto& ready) {
      for (int i = 0; i < 12000 && !ready(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return ready();
    };
    const auto begin = [&](std::size_t k) {
      pid[k] = StartPeer(at, k, {},
                         k == 1 ? std::vector<std::string>{"--metrics", page} : std::vector<std::string>{});
    };
    begin(1);
    EXPECT_TRUE(soon([&] { return Said(at, 1).find("2 neighbours") != std::string::npos; })) << Said(at, 1);
    ::kill(pid[1], SIGTERM);
    EXPECT_EQ(end(1), 130) << Said(at, 1);
    for (std::size_t k = 0; k < kPeers; ++k) begin(k);
    // p3 stands still, and the others come to where they wait for it.
    EXPECT_TRUE(soon([&] { return of("round") >= 3; })) << Said(at, 1);
    ::kill(pid[3], SIGSTOP);
    EXPECT_EQ(of("rounds_planned"), rounds_);
    EXPECT_EQ(of("neighbours"), 2u);
    EXPECT_GE(of("notes_received_total"), 4u);
    EXPECT_GE(of("notes_sent_total"), 2u);
    EXPECT_GT(of("bytes_received_total"), 0u);
    EXPECT_EQ(of("notes_refused_total"), 0u);
    ::kill(pid[1], SIGTERM);
    EXPECT_EQ(end(1), 130) << Said(at, 1);
    EXPECT_NE(Said(at, 1).find("Stopped"), std::string::npos) << Said(at, 1);
    for (const std::size_t k : {0, 2}) EXPECT_EQ(::waitpid(pid[k], nullptr, WNOHANG), 0) << Said(at, k);
    ::kill(pid[3], SIGCONT);
    begin(1);
    for (std::size_t k = 0; k < kPeers; ++k) EXPECT_EQ(end(k), 0) << Said(at, k);
    CheckPeers(at, *alone);
  }

 private:
  // Lines of a log whose hour is another than that of the line before.
  static std::size_t JumpsIn(const std::string& log) {
    constexpr std::string_view kHour = "2026-01-01T00";
    std::size_t jumps = 0;
    std::string before;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("Z  round ") == std::string::npos) continue;
      const std::string hour = line.substr(0, kHour.size());
      jumps += before.empty() || hour == before ? 0 : 1;
      before = hour;
    }
    return jumps;
  }
  static std::string Shim() {
    const char* file = std::getenv("TACIT_FAULT_SHIM");  // NOLINT(concurrency-mt-unsafe)
    return file != nullptr ? file : "";
  }
};

TEST(PeerFaults, AFullDiskLosesNothing) { FaultyPeers(60).FullDisks(8, 1); }
TEST(PeerFaults, ClocksMayJump) {
  FaultyPeers(300).Clocks([](std::size_t k) { return fmt::format("jump:{}", 7 + k); });
}
TEST(PeerFaults, AndMayBeSetBack) {
  FaultyPeers(300).Clocks([](std::size_t k) { return fmt::format("back:{}", 1000 * (1 + k)); });
}
TEST(PeerFaults, OneThatIsTerminatedGoesOn) { FaultyPeers(300).Terminated(); }

}  // namespace
}  // namespace tacit
