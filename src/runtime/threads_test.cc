#include "runtime/threads.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "algorithms/primal_dual.h"
#include "models/test_data.h"

namespace tacit {
namespace {

// An algorithm that shows what the runtime does: a client sends a number that depends on its noise, and
// the sum is one that feels the order and the grouping of every addition.
struct Probe {
  struct Down {
    Public<std::uint32_t> t;
    auto Fields() { return std::tie(t); }
  };
  struct Up {
    Public<double> value;
    auto Fields() { return std::tie(value); }
  };
  struct Sum {
    double total = 0;
    std::uint32_t count = 0, first = ~0u;
    bool in_order = true;
    void Reset() { *this = Sum{}; }
    void Add(const Up& up) {
      total = 0.5 * total + *up.value;      // neither commutes nor associates
      const auto id = static_cast<std::uint32_t>(std::floor(*up.value));
      if (count == 0) first = id;
      in_order = in_order && id == first + count;
      ++count;
    }
    void Merge(const Sum& other) {
      if (other.count == 0) return;
      in_order = in_order && other.in_order && other.first == (count == 0 ? other.first : first + count);
      if (count == 0) first = other.first;
      total = 0.25 * total + other.total;
      count += other.count;
    }
  };
  struct Client {
    std::uint32_t id = 0, refuses_in = 0;
    std::uint32_t rounds = 0, finished = 0;
    Status Round(const Down& in, Up& up, Scratch& s) {
      if (*in.t == refuses_in) return Fail(Code::kBudget, "client {} refuses", id);
      ++rounds;
      up.value = Public<double>(id + 0.5 * static_cast<double>(s.rng->Bits() >> 11) * 0x1p-53);
      return Ok{};
    }
    void Finish(const Down&) { ++finished; }
    View iterate() const { return {}; }
    auto State() { return std::tie(rounds, finished); }
  };
  struct Server {
    std::uint32_t rounds = 1, t = 0;
    std::vector<double> totals = {};
    std::vector<std::uint32_t> counts = {};
    bool in_order = true;
    bool Start(Down& down) {
      down.t = Public<std::uint32_t>(t = 1);
      return rounds != 0;
    }
    Result<bool> Round(Sum& sum, Down& down, Scratch&) {
      totals.push_back(sum.total);
      counts.push_back(sum.count);
      in_order = in_order && sum.in_order && sum.first == 0;
      down.t = Public<std::uint32_t>(++t);
      return t <= rounds;
    }
    std::uint32_t round() const { return t; }
    std::array<std::size_t, 1> lengths() const { return {}; }
    auto State() { return std::tie(t, totals, counts); }
  };
};
static_assert(Algorithm<Probe>);

Watcher Quiet() {
  return {.before = [](std::uint32_t) -> Status { return Ok{}; },
          .after = [](const RoundReport&) -> Status { return Ok{}; }};
}

std::vector<Probe::Client> ProbeClients(std::uint32_t n) {
  std::vector<Probe::Client> clients(n);
  for (std::uint32_t i = 0; i < n; ++i) clients[i].id = i;
  return clients;
}

TEST(Threads, FoldsInClientOrderWhateverTheThreads) {
  for (const std::uint32_t n : {1u, 2u, 7u, 63u, 64u, 65u, 127u, 129u, 1000u, 4097u}) {
    std::vector<double> want;
    for (const unsigned threads : {1u, 2u, 3u, 8u}) {
      SCOPED_TRACE(testing::Message() << n << " clients, " << threads << " threads");
      ThreadRuntime<Probe> runtime(threads, {.replay_seed = 5});
      EXPECT_EQ(runtime.threads(), threads);
      auto clients = ProbeClients(n);
      Probe::Server server{.rounds = 5};
      ASSERT_TRUE(runtime.Run(server, clients, Quiet()).ok());
      EXPECT_TRUE(server.in_order);
      EXPECT_EQ(server.counts, std::vector<std::uint32_t>(5, n));
      for (const auto& c : clients) {
        EXPECT_EQ(c.rounds, 5u);
        EXPECT_EQ(c.finished, 1u);
      }
      if (want.empty()) want = server.totals;
      EXPECT_EQ(server.totals, want);      // bit for bit
    }
  }
}

TEST(Threads, NoiseIsTheClientsAndTheRoundsOwn) {
  ThreadRuntime<Probe> runtime(2, {.replay_seed = 5}), other(2, {.replay_seed = 6}), fresh(2, {}),
      again(2, {});
  const auto totals = [](ThreadRuntime<Probe>& r) {
    auto clients = ProbeClients(3);
    Probe::Server server{.rounds = 3};
    EXPECT_TRUE(r.Run(server, clients, Quiet()).ok());
    return server.totals;
  };
  const auto a = totals(runtime);
  EXPECT_EQ(totals(runtime), a);      // the same run again, from a used runtime
  EXPECT_NE(totals(other), a);
  EXPECT_NE(a[0], a[1]);
  EXPECT_NE(totals(fresh), totals(again));
}

TEST(Threads, ARefusalEndsTheRunAndNothingMoreIsSent) {
  for (const unsigned threads : {1u, 3u}) {
    ThreadRuntime<Probe> runtime(threads, {.replay_seed = 5});
    auto clients = ProbeClients(500);
    clients[77].refuses_in = 3;
    clients[400].refuses_in = 3;
    Probe::Server server{.rounds = 10};
    std::vector<std::uint32_t> before, after;
    Watcher w{.before = [&](std::uint32_t t) -> Status { return before.push_back(t), Ok{}; },
              .after = [&](const RoundReport& r) -> Status { return after.push_back(r.round), Ok{}; }};
    const Status s = runtime.Run(server, clients, w);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, Code::kBudget);
    if (threads == 1) {
      EXPECT_EQ(s.error().message, "client 77 refuses");
      EXPECT_EQ(clients[78].rounds, 2u);      // it was not asked after the refusal
    }
    EXPECT_EQ(server.totals.size(), 2u);      // the server saw no part of round 3
    EXPECT_EQ(before, (std::vector<std::uint32_t>{1, 2, 3}));
    EXPECT_EQ(after, (std::vector<std::uint32_t>{1, 2}));
    for (const auto& c : clients) EXPECT_EQ(c.finished, 0u);
    // The runtime is fit for another run.
    auto fine = ProbeClients(500);
    Probe::Server next{.rounds = 2};
    EXPECT_TRUE(runtime.Run(next, fine, Quiet()).ok());
    EXPECT_TRUE(next.in_order);
  }
}

TEST(Threads, AnErrorOfTheWatcherEndsTheRun) {
  ThreadRuntime<Probe> runtime(2, {.replay_seed = 5});
  auto clients = ProbeClients(5);
  Probe::Server server{.rounds = 10};
  Watcher w = Quiet();
  w.before = [](std::uint32_t t) -> Status {
    if (t == 2) return Fail(Code::kIo, "the ledger's disk is full");
    return Ok{};
  };
  const Status s = runtime.Run(server, clients, w);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Code::kIo);
  EXPECT_EQ(clients[0].rounds, 1u);      // nothing was sent once the reservation failed
}

TEST(Threads, CountsTheBytesOfTheWire) {
  ThreadRuntime<Probe> runtime(2, {.replay_seed = 5});
  auto clients = ProbeClients(5);
  Probe::Server server{.rounds = 2};
  std::vector<RoundReport> reports;
  Watcher w = Quiet();
  w.after = [&](const RoundReport& r) -> Status { return reports.push_back(r), Ok{}; };
  ASSERT_TRUE(runtime.Run(server, clients, w).ok());
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].bytes_up, 5 * (kFrameHeader + 8));
  EXPECT_EQ(reports[0].bytes_down, 5 * (kFrameHeader + 4));
  EXPECT_EQ(reports[1].bytes_down, 2 * 5 * (kFrameHeader + 4));      // the last model goes out too
  EXPECT_FALSE(reports[0].last);
  EXPECT_TRUE(reports[1].last);
}

struct PrimalDualRun {
  PrimalDualRun(std::size_t n, std::size_t m, double mu_budget)
      : data(test::RandomData(Loss::kLogistic, 2, n * m, 4, 1.0, 9)),
        f(MakeObjective(Loss::kLogistic, 2)),
        g(*MakeRegularizer({.name = Penalty::kL1Box, .weight = 0.01, .radius = 10.0})) {
    problem = {.f = f.get(), .g = g.get(), .l2 = 0.1, .dim = 4, .clients = static_cast<std::uint32_t>(n)};
    options.l2 = 0.1;
    for (std::uint32_t t = 1; t <= 10; ++t) options.rounds.push_back(t);
    const auto sigma = std::make_shared<const NoisePlan>(10, NoiseStd{2.0});
    ledgers.assign(n, Ledger(Squared(Mu::Proven(mu_budget)), Adjacency::kReplaceOne));
    for (std::uint32_t i = 0; i < n; ++i)
      clients.emplace_back(Holding{i, m, Private<Shard>(Shard(data, i * m, m)), &ledgers[i]}, problem,
                           mechanism, options, sigma);
  }
  Status Run(unsigned threads) {
    ThreadRuntime<PrimalDual> runtime(threads, {.replay_seed = 17});
    PrimalDual::Server server(problem, options);
    return runtime.Run(server, clients, Quiet());
  }
  Vec Models() const {
    Vec all;
    for (const auto& c : clients) all.insert(all.end(), c.iterate().begin(), c.iterate().end());
    return all;
  }
  Dataset data;
  std::unique_ptr<Objective> f;
  std::unique_ptr<Regularizer> g;
  LatticeGaussian mechanism;
  Problem problem;
  PrimalDual::Options options;
  std::vector<Ledger> ledgers;
  std::vector<PrimalDual::Client> clients;
};

TEST(Threads, ModelsAreBitwiseEqualForAnyNumberOfThreads) {
  for (const std::size_t n : {20u, 1000u}) {
    PrimalDualRun one(n, 3, 100);
    ASSERT_TRUE(one.Run(1).ok());
    EXPECT_GT(Norm(one.Models()), 0.0);
    for (const unsigned threads : {2u, 3u, 8u}) {
      PrimalDualRun many(n, 3, 100);
      ASSERT_TRUE(many.Run(threads).ok());
      EXPECT_EQ(many.Models(), one.Models()) << n << ' ' << threads;
    }
  }
}

TEST(Threads, ALedgersRefusalReachesTheCaller) {
  PrimalDualRun run(50, 3, 2.5);      // μ = 1 a round: six of ten fit
  const Status s = run.Run(3);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Code::kBudget);
  for (const Ledger& l : run.ledgers) EXPECT_LE(l.spent(), l.budget());
  EXPECT_EQ(run.ledgers[0].charges(), 6u);
}

// Federated gradient descent without memory: a client clips, pays, releases its sum and is forgotten.
struct FederatedSgd {
  struct Common {  // what all clients share
    const Objective* f = nullptr;
    const Dataset* data = nullptr;
    const Mechanism* mechanism = nullptr;
    LedgerBook* book = nullptr;
    NoiseStd sigma{4.0};
  };
  struct Down {
    Public<std::uint32_t> t;
    Released<Vec> step;  // minus the sum of all steps so far is the model
    auto Fields() { return std::tie(t, step); }
  };
  struct Up {
    Released<Vec> sum;
    auto Fields() { return std::tie(sum); }
  };
  class Client {
   public:
    Client(const Common& common, std::uint32_t id, std::size_t records)
        : common_(&common), id_(id), records_(records) {}
    Status Round(const Down& in, Up& up, Scratch& s) const {
      const Common& c = *common_;
      const Private<Shard> own(Shard(*c.data, id_ * records_ % c.data->rows(), records_));
      const Bounded h = Bounded::ClippedSum(own, *c.f, *in.step, L2Bound{1.0}, s.clip);
      return c.mechanism->Release(h, c.sigma, c.book->account(id_), *s.rng, s.noise, up.sum);
    }

   private:
    const Common* common_;
    std::uint32_t id_;
    std::size_t records_;
  };
  struct Sum : ReleasedSum {
    void Add(const Up& up) { Take(up.sum, 1); }
    void Merge(const Sum& other) { Take(other); }
  };
  struct Server {
    std::size_t dim = 0;
    std::uint32_t rounds = 0, t = 0;
    std::vector<std::uint32_t> counts = {};
    Vec w = {};
    bool Start(Down& down) {
      t = 1;
      Released<Vec>().Into<[](const Vec&, Vec& out, const std::size_t& d) { out.assign(d, 0.0); }>(down.step,
                                                                                                   dim);
      down.t = Public<std::uint32_t>(t);
      return rounds != 0;
    }
    Result<bool> Round(Sum& sum, Down& down, Scratch&) {
      counts.push_back(sum.count);
      sum.total.Into<[](const Vec& total, Vec& x, const double& n) { Axpy(-0.5 / n, total, x); }>(
          down.step, static_cast<double>(sum.count));
      w = *down.step;
      down.t = Public<std::uint32_t>(++t);
      return t <= rounds;
    }
    std::uint32_t round() const { return t; }
    View model() const { return w; }
    std::array<std::size_t, 1> lengths() const { return {dim}; }
    auto State() { return std::tie(t, counts, w); }
  };
};
static_assert(Stateless<FederatedSgd> && !Algorithm<FederatedSgd>);
static_assert(!Stateless<PrimalDual>);      // its clients remember: Round is not const

struct StatelessRun {
  explicit StatelessRun(std::size_t n)
      : data(test::RandomData(Loss::kLogistic, 2, 3000, 4, 1.0, 9)),
        f(MakeObjective(Loss::kLogistic, 2)),
        book(std::vector<MuSquared>(n, MuSquared{10.0}), Adjacency::kReplaceOne),
        common{.f = f.get(), .data = &data, .mechanism = &mechanism, .book = &book} {}
  auto All() {
    return EveryClient(book.size(), [this](std::uint32_t id) { return FederatedSgd::Client(common, id, 3); });
  }
  Dataset data;
  std::unique_ptr<Objective> f;
  LatticeGaussian mechanism;
  LedgerBook book;
  FederatedSgd::Common common;
};

TEST(Stateless, ModelsAreBitwiseEqualForAnyNumberOfThreads) {
  for (const std::size_t n : {1u, 20u, 5000u}) {
    Vec want;
    for (const unsigned threads : {1u, 2u, 3u, 8u}) {
      StatelessRun run(n);
      ThreadRuntime<FederatedSgd> runtime(threads, {.replay_seed = 17});
      FederatedSgd::Server server{.dim = 4, .rounds = 3};
      auto source = run.All();
      ASSERT_TRUE(runtime.Run(server, source, Quiet()).ok());
      EXPECT_EQ(server.counts, std::vector<std::uint32_t>(3, static_cast<std::uint32_t>(n)));
      if (want.empty()) want = server.w;
      EXPECT_EQ(server.w, want) << n << ' ' << threads;
      for (std::uint32_t i = 0; i < n; ++i) ASSERT_EQ(run.book.account(i).charges(), 3u);
    }
    EXPECT_GT(Norm(want), 0.0);
  }
}

// A cohort: every third client in odd rounds, client 7 alone in even ones.
struct Cohorts {
  StatelessRun* run;
  std::uint32_t round = 0;
  std::size_t Begin(std::uint32_t t) {
    round = t;
    return t % 2 == 0 ? 1 : (run->book.size() + 2) / 3;
  }
  std::uint32_t Id(std::size_t i) const { return round % 2 == 0 ? 7 : static_cast<std::uint32_t>(3 * i); }
  FederatedSgd::Client Make(std::size_t i) const { return {run->common, Id(i), 3}; }
};
static_assert(ClientSource<Cohorts, FederatedSgd>);

TEST(Stateless, ASourceChoosesWhoTakesPart) {
  StatelessRun run(100);
  Cohorts source{&run};
  ThreadRuntime<FederatedSgd> runtime(2, {.replay_seed = 17});
  FederatedSgd::Server server{.dim = 4, .rounds = 4};
  std::vector<std::size_t> down;
  Watcher w = Quiet();
  w.after = [&](const RoundReport& r) -> Status { return down.push_back(r.bytes_down), Ok{}; };
  ASSERT_TRUE(runtime.Run(server, source, w).ok());
  EXPECT_EQ(server.counts, (std::vector<std::uint32_t>{34, 1, 34, 1}));
  EXPECT_EQ(down[0], 34 * down[1]);
  EXPECT_EQ(down[3], down[1]);      // nobody waits for the last model
  for (std::uint32_t i = 0; i < 100; ++i)
    EXPECT_EQ(run.book.account(i).charges(), i == 7 ? 2u : i % 3 == 0 ? 2u : 0u) << i;
}

TEST(Stateless, ARefusalEndsTheRun) {
  StatelessRun run(50);      // μ = ½ a round: forty rounds fit
  ThreadRuntime<FederatedSgd> runtime(3, {.replay_seed = 17});
  FederatedSgd::Server server{.dim = 4, .rounds = 100};
  auto source = run.All();
  const Status s = runtime.Run(server, source, Quiet());
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Code::kBudget);
  EXPECT_EQ(server.counts.size(), 39u);      // the lattice costs a little more than ½
}

// Resident memory of this process, in bytes.
std::size_t Resident() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Stateless, AMillionClientsNeedNoMoreMemoryThanTenThousand) {
  const auto growth = [](std::size_t n) {      // over what was there with the accounts made and touched
    StatelessRun run(n);
    ThreadRuntime<FederatedSgd> runtime(2, {});
    FederatedSgd::Server server{.dim = 4, .rounds = 1};
    auto source = run.All();
    const std::size_t before = Resident();
    EXPECT_TRUE(runtime.Run(server, source, Quiet()).ok());
    EXPECT_EQ(server.counts, std::vector<std::uint32_t>{static_cast<std::uint32_t>(n)});
    const std::size_t after = Resident();
    return after > before ? after - before : 0;
  };
  const std::size_t few = growth(10'000), many = growth(1'000'000);
  EXPECT_LE(many, few + (4u << 20)) << few;      // four bytes a client would already show
}

TEST(Pool, DoesAllWorkOnceAndWaitsForIt) {
  for (const unsigned threads : {0u, 1u, 2u, 5u}) {
    Pool pool(threads);
    ASSERT_EQ(pool.size(), std::max(1u, threads));
    std::vector<int> done(1000);      // plain ints: Run is a barrier
    for (int round = 1; round <= 200; ++round) {
      std::atomic<std::size_t> next{0};
      pool.Run([&](unsigned k) {
        ASSERT_LT(k, pool.size());
        for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < done.size();) ++done[i];
      });
      ASSERT_EQ(done, std::vector<int>(1000, round));
    }
  }
}

TEST(Pool, ManyTinyRounds) {
  const struct {
    unsigned threads;
    std::uint64_t rounds;
  } kCases[] = {{2, 20000}, {3, 3000}, {16, 300}};  // with cores for all, and without
  for (const auto& c : kCases) {
    Pool pool(c.threads);
    std::vector<std::uint64_t> calls(c.threads);
    std::uint64_t sum = 0, total = 0;
    for (std::uint64_t i = 0; i < c.rounds; ++i) {
      std::atomic<bool> taken{false};
      pool.Run([&](unsigned k) {
        ++calls[k];
        if (!taken.exchange(true)) sum += i;
      });
      total += i;
      ASSERT_EQ(sum, total) << c.threads << " threads, round " << i;
    }
    EXPECT_EQ(calls[0], c.rounds);      // the caller always takes part
  }
}

TEST(Pool, MayBeMadeAndUnmadeIdle) {
  for (int i = 0; i < 200; ++i) Pool pool(4);
}

}  // namespace
}  // namespace tacit
