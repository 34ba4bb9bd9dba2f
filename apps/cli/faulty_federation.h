#pragma once

// Disks that are full and clocks that jump, under a server and clients that are processes of their own: by a
// library that stands before the system's (fault_shim.cc) and, where a file system may be mounted, by a small
// one. Shared by a short test and a long one.
#include <sched.h>
#include <sys/mount.h>

#include "federation_processes.h"

namespace tacit {

// A folder for the test that runs.
inline std::filesystem::path Home() {
  return std::filesystem::temp_directory_path() /
         fmt::format("tacit_{}_{}", testing::UnitTest::GetInstance()->current_test_info()->name(),
                     ::getpid());
}

class FaultyFederation : public ProcessFederation {
 public:
  using ProcessFederation::ProcessFederation;

  // Processes find their disk full after some bytes, at server and clients, until that has happened so often.
  void FullDisks(std::size_t faults, std::uint64_t seed) {
    const auto alone = Alone();
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    Stream coins({seed, Purpose::kTest, 0, 0});
    std::size_t at_server = 0, at_clients = 0;
    for (std::size_t run = 0; at_server + at_clients < faults && !testing::Test::HasFailure(); ++run) {
      ASSERT_LT(run, faults + 2) << "the runs end before a disk is full";
      const std::filesystem::path at = home_ / fmt::format("disk{}", run);
      const auto environment = [&](std::size_t who) -> Environment {
        // Most faults are early, when ledgers and folders are made; a whole run writes about a megabyte.
        const std::uint64_t bytes = coins.Below(coins() % 2 == 0 ? 20'000 : 200'000);
        if (at_server + at_clients >= faults) return {};
        return {{"LD_PRELOAD", Shim()},
                {"TACIT_FAULT_DISK", fmt::format("{}:{}", bytes, StateOf(at, who).string())}};
      };
      One(at, {.environment = environment, .survives = [&](std::size_t who, int state) {
                 if (!SaysDiskFull(at, who, state)) return false;
                 ++(who == kServer ? at_server : at_clients);
                 return true;
               }});
      CheckEnd(at, *alone);
    }
    std::cout << fmt::format("survived: {} full disks at clients, {} at the server\n", at_clients, at_server);
  }

  // The same with real file systems, which are made larger whenever they are full.
  void SmallFileSystems() {
    const auto alone = Alone();
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    const std::filesystem::path at = home_ / "small";
    // Gone with this process, whatever becomes of it.
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      GTEST_SKIP() << "a file system of a few kB cannot be mounted here (" << std::strerror(errno) << ")";
    std::vector<std::size_t> kilobytes(kClients + 1, 4);
    for (std::size_t who = 0; who <= kClients; ++who) {
      std::filesystem::create_directories(StateOf(at, who));
      if (::mount("tmpfs", StateOf(at, who).c_str(), "tmpfs", 0, "size=4k") != 0)
        GTEST_SKIP() << "a file system of 4 kB cannot be mounted here (" << std::strerror(errno) << ")";
    }
    std::size_t full = 0;
    One(at, {.survives = [&](std::size_t who, int state) {
          if (!SaysDiskFull(at, who, state)) return false;
          ++full;
          kilobytes[who] += kilobytes[who] + 16;
          const std::string size = fmt::format("size={}k", kilobytes[who]);
          return ::mount("tmpfs", StateOf(at, who).c_str(), "tmpfs", MS_REMOUNT, size.c_str()) == 0;
        }});
    CheckEnd(at, *alone);
    for (std::size_t who = 0; who <= kClients; ++who) {
      EXPECT_GT(kilobytes[who], 4u) << NameOf(who);
      ::umount2(StateOf(at, who).c_str(), MNT_DETACH);
    }
    std::cout << fmt::format("survived: {} times a file system was full\n", full);
  }

  // Everybody's time of day jumps by up to two days, twice a second, and rounds end by the answers: a
  // deadline of half an hour by such a clock would be over at once.
  void JumpingClocks(std::uint64_t seed) {
    const auto alone = Alone();
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    const std::filesystem::path at = home_ / "clock";
    One(at, {.environment = [&](std::size_t who) -> Environment {
          return {{"LD_PRELOAD", Shim()}, {"TACIT_FAULT_CLOCK", fmt::format("jump:{}", seed + who)}};
        }});
    CheckEnd(at, *alone);
    const auto result = ReadWhole(at / "server/result.json");
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->find("\"absent\""), std::string::npos) << *result;
    std::cout << fmt::format("survived: clocks of {} processes that jump by hours, in {} rounds\n",
                             kClients + 1, kRounds);
  }
  // Everybody's clock is set back by half a day in mid-run.
  void ClocksSetBack() {
    const auto alone = Alone();
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    const std::filesystem::path at = home_ / "back";
    One(at, {.environment = [&](std::size_t who) -> Environment {
          return {{"LD_PRELOAD", Shim()}, {"TACIT_FAULT_CLOCK", fmt::format("back:{}", 300 + 200 * who)}};
        }});
    CheckEnd(at, *alone);
    std::cout << fmt::format("survived: clocks of {} processes set back by half a day\n", kClients + 1);
  }
  // With one client missing in every round the deadline comes, however the clock jumps.
  void DeadlinesComeAllTheSame(std::uint64_t seed, std::size_t rounds) {
    const std::filesystem::path at = home_ / "absent";
    One(at, {.environment = [&](std::size_t who) -> Environment {
               return {{"LD_PRELOAD", Shim()}, {"TACIT_FAULT_CLOCK", fmt::format("jump:{}", seed + who)}};
             },
             .who = {0, 1, kServer}});
    const auto result = ReadWhole(at / "server/result.json");
    ASSERT_TRUE(result.ok());
    EXPECT_NE(result->find(fmt::format("\"absent\": {}", rounds)), std::string::npos) << *result;
    std::cout << fmt::format("survived: {} deadlines under clocks that jump\n", rounds);
  }
  // A certificate is good between its two dates by the clock of whoever checks it.
  void CertificatesHaveTheirTime() {
    const std::filesystem::path at = home_ / "time";
    std::filesystem::create_directories(at);
    struct Case {
      const char* why;
      long server, client;  // seconds ahead
      bool good;
    };
    constexpr long kDay = 86400;
    for (const Case& c : {Case{"now", 0, 0, true}, Case{"in a month", 30 * kDay, 30 * kDay, true},
                          Case{"the client's has expired for the server", 400 * kDay, 0, false},
                          Case{"the server's has expired for the client", 0, 400 * kDay, false},
                          Case{"the client's is not yet valid for the server", -2 * kDay, 0, false},
                          Case{"the server's is not yet valid for the client", 0, -2 * kDay, false}}) {
      SCOPED_TRACE(c.why);
      const int port = FreePort();
      const auto shifted = [&](long by) -> Environment {
        return {{"LD_PRELOAD", Shim()}, {"TACIT_FAULT_CLOCK", std::to_string(by)}};
      };
      std::filesystem::remove_all(StateOf(at, kServer));
      const pid_t server = Start(at, kServer, port, shifted(c.server));
      while (!std::filesystem::exists(StateOf(at, kServer) / "address") &&
             ::waitpid(server, nullptr, WNOHANG) == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const pid_t client = Start(at, 0, port, shifted(c.client), {"--review", "--patience", "0"});
      int state = -1;
      ::waitpid(client, &state, 0);
      EXPECT_EQ(WIFEXITED(state) && WEXITSTATUS(state) == 0, c.good) << ReadWhole(at / "c0.log").operator*();
      EXPECT_FALSE(std::filesystem::exists(StateOf(at, 0)));
      ::kill(server, SIGINT), ::waitpid(server, nullptr, 0);
    }
  }

 private:
  static std::string Shim() {
    const char* file = std::getenv("TACIT_FAULT_SHIM");  // NOLINT(concurrency-mt-unsafe)
    return file != nullptr ? file : "";
  }
  // Whether a process ended because its disk was full, and said so.
  static bool SaysDiskFull(const std::filesystem::path& at, std::size_t who, int state) {
    if (!WIFEXITED(state) || WEXITSTATUS(state) != static_cast<int>(Code::kIo)) return false;
    const std::string log = ReadWhole(at / (NameOf(who) + ".log")).operator*();
    const std::string last = log.substr(log.find_last_of('\n', log.size() - 2) + 1);
    return last.find("check the disk") != std::string::npos;
  }
};

}  // namespace tacit
