// Peers on a graph whose bytes go through proxies that do to them what networks do.
#include <iostream>

#include "net/test_peers.h"
#include "net/test_proxy.h"
#include "privacy/data_ledger.h"
#include "privacy/ledger.h"

namespace tacit {
namespace {

class PeerFaults : public Peers {
 protected:
  // Everybody is called through a proxy of its own, with so many faults each: the models are those of a
  // simulation, and everybody has paid for every round once.
  void Disturb(std::size_t rounds, std::size_t faults, std::uint64_t seed) {
    const auto files = WriteRows(30, 3, kPeers);
    std::vector<std::string> own;
    std::vector<std::unique_ptr<FaultProxy>> proxies;
    std::string addresses;
    for (std::size_t k = 0; k < kPeers; ++k) {
      const int port = FreePort();
      own.push_back(fmt::format("127.0.0.1:{}", port));
      proxies.push_back(std::make_unique<FaultProxy>(
          FaultProxy::Options{.port = port, .seed = seed + k, .most = faults, .apart = 3000}));
      addresses += fmt::format("{}\"127.0.0.1:{}\"", k == 0 ? "" : ", ", proxies[k]->port());
    }
    const Job job = MakeJob(
        kJob, {{"serve.addresses", "[" + addresses + "]"}, {"algorithm.rounds", std::to_string(rounds)}});
    const RunResult alone = Alone(job);
    std::vector<PeerCounts> counts(kPeers);
    const auto joined = TrainPeersBy([&](std::size_t k) {
      PeerSettings o = Settings(job, k, files[k]);
      o.listen = own[k];
      o.patience = 600;
      o.linger = 60;
      o.counts = &counts[k];
      return o;
    });
    for (const auto& one : joined) ASSERT_TRUE(one.ok()) << one.error().message;
    EXPECT_EQ(MeanOf(joined, {0, 1, 2, 3, 4}), alone.model);
    for (std::size_t k = 0; k < kPeers; ++k) {
      EXPECT_TRUE(joined[k]->over);
      EXPECT_EQ(counts[k].received, 2 * rounds);  // each note is taken once
      EXPECT_EQ(counts[k].refused, 0u);  // what is changed on the way is no answer at all
      const auto ledger = SqliteVault::Read(joined[k]->folder / "ledger.db");
      ASSERT_TRUE(ledger.ok()) << ledger.error().message;
      EXPECT_EQ(ledger->front().rounds_released, rounds);
      const auto all = DataLedger::Read(here_ / ("state-" + job.clients[k]) / "ledger.db");
      ASSERT_TRUE(all.ok()) << all.error().message;
      ASSERT_EQ(all->size(), 1u);
      ASSERT_EQ(all->front().runs.size(), 1u);
      EXPECT_EQ(all->front().runs[0].state, "settled");
      EXPECT_LE(Totals(all->front())[0].EpsilonAt(1e-5), alone.certified_epsilon * (1 + 1e-12));
      EXPECT_GE(Totals(all->front())[0].EpsilonAt(1e-5), alone.certified_epsilon * (1 - 1e-9));
    }
    std::string text;
    std::size_t connections = 0;
    for (int kind = 0; kind < FaultProxy::kKinds; ++kind) {
      std::size_t n = 0;
      for (const auto& proxy : proxies) n += proxy->count(static_cast<FaultProxy::Kind>(kind));
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n,
                          FaultProxy::kNames[static_cast<std::size_t>(kind)]);
      EXPECT_GT(n, 0u) << FaultProxy::kNames[static_cast<std::size_t>(kind)];
    }
    for (const auto& proxy : proxies) connections += proxy->connections();
    std::cout << fmt::format("survived: {}; {} connections in {} rounds of {} peers\n", text, connections,
                             rounds, kPeers);
  }
};

TEST_F(PeerFaults, OfTheNetworkChangeNothing) { Disturb(40, 10, 21); }

}  // namespace
}  // namespace tacit
