#pragma once

// A server and its clients that are killed (SIGKILL) at random instants and started again by whoever watches
// them. Shared by a test with a few dozen kills and one with 200.
#include <mutex>

#include "federation_processes.h"
#include "net/server.h"

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
                     if (made < kills && pid[victim] > 0) ::kill(pid[victim], SIGKILL);
                   },
               .survives = [&](std::size_t, int state) {  // not of who had ended before it was hit
                 const bool killed = WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL;
                 made += killed ? 1 : 0;
                 return killed;
               }});
      CheckEnd(at, *alone);
    }
    std::cout << fmt::format("survived: {} kills\n", made);
  }

  // With noise from the system's entropy, which a client that noises again cannot draw again: clients are
  // killed at random, and when an answer has come that the server then does not count. What a client sends to
  // a round is the same whenever it is sent, and when it arrives both ledgers of the client have its price.
  void RunWithEntropy(std::size_t kills, std::uint64_t seed) {
    const std::filesystem::path at = home_ / "entropy";
    std::filesystem::create_directories(at);
    const auto job = LoadJob(home_ / "job.toml", {});
    const auto own = ReadIdentity(home_ / "ca/ca.pem", home_ / "keys/server.pem", home_ / "keys/server.key");
    ASSERT_TRUE(job.ok() && own.ok());
    const auto plan = PlanOf(*job);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const std::string id(32, 'a');
    std::atomic<bool> stop = false;
    const auto server = FederationServer::Start(
        *job, id, {.address = "127.0.0.1:0", .identity = *own, .revocations = {}, .stop = &stop, .log = {}});
    ASSERT_TRUE(server.ok()) << server.error().message;

    std::mutex mutex;  // of all that follows
    Stream coins({seed, Purpose::kTest, 0, 0});
    std::vector<pid_t> pid(kClients, -1);
    std::vector<bool> hit(kClients);  // and not seen to have died of it
    std::size_t made = 0, again = 0;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> sent;  // by client and round
    const auto kill = [&](std::size_t who) {
      const auto coming = static_cast<std::size_t>(std::count(hit.begin(), hit.end(), true));
      if (made + coming >= kills || pid[who] < 0 || hit[who]) return false;
      ::kill(pid[who], SIGKILL);
      return hit[who] = true, true;
    };
    Tap tap(**server);
    tap.arrives = [&](std::uint32_t client, const Question& q, std::span<const std::byte> bytes) -> Status {
      const std::lock_guard lock(mutex);
      ExpectPaid(StateOf(at, client), id, *plan, q.round);
      const std::string answer(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const auto [first, fresh] = sent.try_emplace({client, q.round}, Sha256::Hex(answer));
      EXPECT_EQ(first->second, Sha256::Hex(answer)) << "client " << client << ", round " << q.round;
      again += fresh ? 0 : 1;
      if (coins() % 3 != 0 || !kill(client)) return Ok{};
      return Fail(Code::kIo, "not counted");
    };
    std::optional<Result<RunResult>> run;
    std::jthread coordinator([&] {
      run = Coordinate(*job, tap, at / "server");
      (*server)->Over(60, /*everybody=*/true);
    });
    std::vector<bool> done(kClients);
    while (std::find(done.begin(), done.end(), false) != done.end() && !testing::Test::HasFailure()) {
      {
        const std::lock_guard lock(mutex);
        for (std::size_t who = 0; who < kClients; ++who) {
          int state = 0;
          if (pid[who] > 0 && ::waitpid(pid[who], &state, WNOHANG) == pid[who]) {
            pid[who] = -1;
            done[who] = WIFEXITED(state) && WEXITSTATUS(state) == 0;
            const bool killed = WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL;
            made += killed ? 1 : 0;  // not who had ended before it was hit
            hit[who] = false;
            EXPECT_TRUE(done[who] || killed) << ReadWhole(at / (NameOf(who) + ".log")).operator*();
          }
          if (pid[who] < 0 && !done[who]) pid[who] = Start(at, who, (*server)->port());
        }
        if (coins() % 20 == 0) kill(coins() % kClients);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    stop = testing::Test::HasFailure();
    for (const pid_t p : pid)
      if (p > 0) ::kill(p, SIGKILL), ::waitpid(p, nullptr, 0);
    coordinator.join();
    ASSERT_TRUE(run && run->ok()) << run->error().message;
    EXPECT_EQ(made, kills);
    EXPECT_EQ(sent.size(), kClients * kRounds);
    EXPECT_GT(again, 0u);
    for (std::size_t c = 0; c < kClients; ++c)
      CheckLedger(StateOf(at, c), (*run)->certified_epsilon, kRounds);
    std::cout << fmt::format(
        "survived: {} kills, {} answers sent again, of {}; each was paid for when it came\n", made, again,
        sent.size());
  }

 private:
  // Both ledgers of a client have durably what it costs to have answered up to this round, while it may be
  // alive.
  static void ExpectPaid(const std::filesystem::path& state, const std::string& job, const Plan& plan,
                         std::uint32_t round) {
    double owed = 0;  // μ²
    std::uint64_t rounds = 0;
    for (const PlannedRound& r : plan.schedule)
      if (r.round <= round) owed += r.mu * r.mu, ++rounds;
    const auto own = SqliteVault::Read(state / job / "ledger.db");
    const auto all = DataLedger::Read(state / "ledger.db");
    ASSERT_TRUE(own.ok() && all.ok() && own->size() == 1 && all->size() == 1) << state;
    EXPECT_GT(owed, 0);
    EXPECT_GE(own->front().rounds_released, rounds) << state;
    EXPECT_GE(own->front().spent.at(0), owed * (1 - 1e-9)) << state;
    EXPECT_GE(all->front().runs.at(0).mu_squared, owed * (1 - 1e-9)) << state;
  }

  // Tells of every answer that has come whole, before it is counted.
  class Tap final : public Link {
   public:
    std::function<Status(std::uint32_t, const Question&, std::span<const std::byte>)> arrives;
    explicit Tap(Link& inner) : inner_(inner) {}
    Status Ask(const Question& q, std::vector<Bytes>& answers) override {
      Question tapped = q;
      if (!q.last)
        tapped.check_from = [&](std::uint32_t client, std::span<const std::byte> bytes) -> Status {
          if (q.check_from) TACIT_OK(q.check_from(client, bytes));
          return arrives(client, q, bytes);
        };
      return inner_.Ask(tapped, answers);
    }

   private:
    Link& inner_;
  };
};

}  // namespace tacit
