#include "runtime/graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "algorithms/grad_nfl.h"
#include "algorithms/nfl.h"
#include "models/test_data.h"

namespace tacit {
namespace {

Watcher Quiet() {
  return {.before = [](std::uint32_t) -> Status { return Ok{}; },
          .after = [](const RoundReport&) -> Status { return Ok{}; }};
}

class By final : public RollCall {
 public:
  explicit By(std::function<Presence(std::uint32_t, std::uint32_t)> f) : f_(std::move(f)) {}
  Presence At(std::uint32_t round, std::uint32_t peer) const override { return f_(round, peer); }

 private:
  std::function<Presence(std::uint32_t, std::uint32_t)> f_;
};

std::vector<std::uint32_t> Rounds(std::uint32_t count) {
  std::vector<std::uint32_t> r(count);
  for (std::uint32_t t = 0; t < count; ++t) r[t] = t + 1;
  return r;
}

// A peer that sends a number of its own, its round and its noise, and writes down what it hears. In some
// rounds it sends too much, or what is no number.
struct Probe {
  struct Note {
    Public<std::vector<double>> value;
    auto Fields() { return std::tie(value); }
  };
  struct Peer {
    std::uint32_t id = 0;
    std::uint32_t refuses_in = ~0u, long_in = ~0u, nan_in = ~0u, silent_in = ~0u;
    std::uint32_t rounds = 0, hears = 0;
    double sum = 0;
    std::vector<double> last = {0};
    std::vector<std::string> log = {};
    Status Round(std::uint32_t t, Note& note, Scratch& s) {
      if (t == refuses_in) return Fail(Code::kBudget, "peer {} refuses", id);
      ++rounds;
      EXPECT_TRUE(note.value->empty());
      const double noise = static_cast<double>(s.rng->Bits() >> 11) * 0x1p-53;
      if (t == silent_in) return Ok{};
      note.value.Mutable() = {t == nan_in ? std::nan("") : 1000.0 * id + t + 0.5 * noise + 1e-3 * sum};
      if (t == long_in) note.value.Mutable().push_back(1);
      return Ok{};
    }
    void Hear(const Heard<Note>& heard) {
      ++hears;
      std::string line = heard.taken() ? "+" : "-";
      if (heard.taken()) last = *heard.own().value;
      for (std::size_t i = 0; i < heard.size(); ++i) {
        line += heard.gone(i) ? 'g' : heard.note(i).value->empty() ? 'e' : heard.fresh(i) ? 'f' : 'o';
        if (!heard.note(i).value->empty()) sum = 0.5 * sum + (*heard.note(i).value)[0];  // feels the order
      }
      line += std::to_string(heard.degree());
      log.push_back(line);
    }
    View latest() const { return last; }
    View iterate() const { return last; }
    std::array<std::size_t, 1> lengths() const { return {1}; }
    auto State() { return std::tie(rounds, hears, sum, last); }
  };
};
static_assert(Networked<Probe>);

std::vector<Probe::Peer> Probes(std::uint32_t n) {
  std::vector<Probe::Peer> peers(n);
  for (std::uint32_t k = 0; k < n; ++k) peers[k].id = k;
  return peers;
}

TEST(GraphRuntime, SameBitsForAnyNumberOfThreads) {
  for (const std::uint32_t n : {2u, 3u, 64u, 1000u}) {
    const Graph graph = n < 4 ? Ring(n) : Regular(n, 4, 1);
    std::vector<double> want;
    for (const unsigned threads : {1u, 2u, 3u, 8u}) {
      SCOPED_TRACE(testing::Message() << n << " peers, " << threads << " threads");
      GraphRuntime<Probe> runtime(threads, {.replay_seed = 5});
      EXPECT_EQ(runtime.threads(), threads);
      auto peers = Probes(n);
      ASSERT_TRUE(runtime.Run(graph, peers, Rounds(6), AlwaysHere(), Quiet()).ok());
      std::vector<double> sums;
      for (const auto& p : peers) {
        EXPECT_EQ(p.rounds, 6u);
        EXPECT_EQ(p.hears, 6u);
        sums.push_back(p.sum);
      }
      if (want.empty()) want = sums;
      EXPECT_EQ(sums, want);
    }
  }
}

TEST(GraphRuntime, AbsentNotesAreOldOnesAndFaultsCountAsAbsent) {
  // A path 0 – 1 – 2 – 3. Rounds: 1 all; 2 peer 0 away, peer 2's note too long; 3 peer 3 gone, peer 2 silent;
  // 4 peer 0 sends no number.
  const Graph path = *ParseEdges("0 1\n1 2\n2 3\n", "path", 4);
  auto peers = Probes(4);
  peers[2].long_in = 1;
  peers[2].silent_in = 2;
  peers[0].nan_in = 3;
  const By who([](std::uint32_t round, std::uint32_t peer) {
    return peer == 0 && round == 2   ? Presence::kAway
           : peer == 3 && round >= 3 ? Presence::kGone
                                     : Presence::kHere;
  });
  std::vector<RoundReport> reports;
  Watcher watcher = Quiet();
  watcher.after = [&](const RoundReport& r) -> Status { return reports.push_back(r), Ok{}; };
  GraphRuntime<Probe> runtime(2, {.replay_seed = 1});
  ASSERT_TRUE(runtime.Run(path, peers, Rounds(5), who, watcher).ok());
  using Log = std::vector<std::string>;
  EXPECT_EQ(peers[0].log, (Log{"+f1", "+f1", "-f1", "+f1"}));
  EXPECT_EQ(peers[1].log, (Log{"+ff2", "+oo2", "+fo2", "+of2", "+ff2"}));
  EXPECT_EQ(peers[2].log, (Log{"+ff2", "-ff2", "-fg1", "+fg1", "+fg1"}));
  EXPECT_EQ(peers[3].log, (Log{"+f1", "+o1"}));
  ASSERT_EQ(reports.size(), 5u);
  const auto expect = [&](std::size_t t, Answers a) {
    EXPECT_EQ(reports[t].answers.taken, a.taken) << t;
    EXPECT_EQ(reports[t].answers.absent, a.absent) << t;
    EXPECT_EQ(reports[t].answers.wrong_length, a.wrong_length) << t;
    EXPECT_EQ(reports[t].answers.not_finite, a.not_finite) << t;
    EXPECT_EQ(reports[t].last, t == 4);
    EXPECT_EQ(reports[t].round, t + 1);
  };
  expect(0, {.taken = 4});
  expect(1, {.taken = 2, .absent = 1, .wrong_length = 1});
  expect(2, {.taken = 2, .absent = 1});
  expect(3, {.taken = 2, .not_finite = 1});
  expect(4, {.taken = 3});
  EXPECT_TRUE(runtime.standing()[3].gone);
  EXPECT_EQ(runtime.standing()[2].degree, 1u);
  // One broadcast each, received by every neighbour that is left.
  const std::size_t note = kFrameHeader + 8 + 8;
  EXPECT_EQ(reports[0].bytes_up, 4 * note);
  EXPECT_EQ(reports[0].bytes_down, 6 * note);
  EXPECT_EQ(reports[4].bytes_down, 4 * note);
}

TEST(GraphRuntime, ARefusalEndsTheRun) {
  for (const unsigned threads : {1u, 3u}) {
    GraphRuntime<Probe> runtime(threads, {.replay_seed = 5});
    auto peers = Probes(500);
    peers[77].refuses_in = 2;
    peers[400].refuses_in = 2;
    std::vector<std::uint32_t> before, after;
    const Watcher w{.before = [&](std::uint32_t t) -> Status { return before.push_back(t), Ok{}; },
                    .after = [&](const RoundReport& r) -> Status { return after.push_back(r.round), Ok{}; }};
    const Status s = runtime.Run(Ring(500), peers, Rounds(10), AlwaysHere(), w);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, Code::kBudget);
    if (threads == 1) {
      EXPECT_EQ(s.error().message, "peer 77 refuses");
    }
    EXPECT_EQ(before, (std::vector<std::uint32_t>{1, 2, 3}));
    EXPECT_EQ(after, (std::vector<std::uint32_t>{1, 2}));
    for (const auto& p : peers) EXPECT_EQ(p.hears, 2u);
  }
}

TEST(GraphRuntime, AWatcherCanStopARun) {
  GraphRuntime<Probe> runtime(1, {});
  auto peers = Probes(4);
  Watcher w = Quiet();
  w.before = [](std::uint32_t round) -> Status {
    return round == 3 ? Status(Fail(Code::kInterrupted, "stop")) : Status(Ok{});
  };
  EXPECT_EQ(runtime.Run(Ring(4), peers, Rounds(9), AlwaysHere(), w).error().code, Code::kInterrupted);
  EXPECT_EQ(peers[0].rounds, 2u);
}

// Private learning on a graph, with late and leaving peers.
struct World {
  explicit World(unsigned threads) : runtime(threads, {.replay_seed = 9}) {
    data = test::RandomData(Loss::kAbsoluteDeviation, 2, 40 * 6, 5, 1.0, 4);
    problem = {.f = f.get(), .g = g.get(), .l2 = 0.05, .dim = 5, .clients = 40};
    options.clip = L2Bound{1.0};
    options.output = PeerOutput::kMean;
    options.rounds = {1, 2, 4, 5, 6, 9, 10, 11, 12, 15};
    ledgers.assign(40, Ledger(MuSquared{1e6}, Adjacency::kReplaceOne));
    const auto sigma = std::make_shared<const NoisePlan>(10, NoiseStd{3.0});
    for (std::uint32_t k = 0; k < 40; ++k)
      peers.emplace_back(Holding{k, 6, Private<Shard>(Shard(data, 6 * k, 6)), &ledgers[k]}, graph.degree(k),
                         problem, lattice, options, sigma);
  }
  static Presence Who(std::uint32_t round, std::uint32_t peer) {
    if (peer == 8 && round >= 6) return Presence::kGone;
    return (round * 7 + peer) % 5 == 0 ? Presence::kAway : Presence::kHere;
  }
  std::vector<Vec> Iterates() const {
    std::vector<Vec> out;
    for (const auto& p : peers) {
      out.emplace_back(p.iterate().begin(), p.iterate().end());
      out.emplace_back(p.latest().begin(), p.latest().end());
    }
    return out;
  }

  Graph graph = Regular(40, 3, 2);
  Dataset data;
  std::unique_ptr<Objective> f = MakeObjective(Loss::kAbsoluteDeviation, 2);
  std::unique_ptr<Regularizer> g = *MakeRegularizer({.name = Penalty::kL1, .weight = 0.01});
  LatticeGaussian lattice;
  Problem problem;
  Nfl::Options options;
  std::vector<Ledger> ledgers;
  std::vector<Nfl::Peer> peers;
  GraphRuntime<Nfl> runtime;
};

TEST(GraphRuntime, PrivateRunsHaveTheSameBitsForAnyNumberOfThreads) {
  std::vector<Vec> want;
  for (const unsigned threads : {1u, 2u, 3u, 8u}) {
    World w(threads);
    ASSERT_TRUE(w.runtime.Run(w.graph, w.peers, w.options.rounds, By(World::Who), Quiet()).ok());
    if (want.empty()) want = w.Iterates();
    EXPECT_EQ(w.Iterates(), want) << threads;
    // Whoever was away paid nothing.
    for (std::uint32_t k = 0; k < 40; ++k) {
      std::uint64_t there = 0;
      for (const std::uint32_t r : w.options.rounds) there += World::Who(r, k) == Presence::kHere;
      EXPECT_EQ(w.ledgers[k].charges(), there);
    }
  }
}

TEST(GraphRuntime, AStoppedRunGoesOnFromStateAndNotes) {
  World whole(2);
  ASSERT_TRUE(
      whole.runtime.Run(whole.graph, whole.peers, whole.options.rounds, By(World::Who), Quiet()).ok());
  for (const std::size_t at : {1u, 4u, 7u}) {
    World first(1), second(3);
    Watcher stop = Quiet();
    stop.before = [&](std::uint32_t round) -> Status {
      return round == first.options.rounds[at] ? Status(Fail(Code::kInterrupted, "stop")) : Status(Ok{});
    };
    ASSERT_FALSE(
        first.runtime.Run(first.graph, first.peers, first.options.rounds, By(World::Who), stop).ok());
    second.runtime.notes() = first.runtime.notes();
    for (std::size_t k = 0; k < 40; ++k) second.peers[k].State() = first.peers[k].State();
    ASSERT_TRUE(
        second.runtime.Resume(second.graph, second.peers, second.options.rounds, at, By(World::Who), Quiet())
            .ok());
    EXPECT_EQ(second.Iterates(), whole.Iterates()) << at;
  }
}

TEST(Residuals, AreThoseOfTheNotes) {
  const Graph path = *ParseEdges("0 1\n1 2\n2 3\n", "path", 4);
  const std::vector<Vec> now = {{1}, {3}, {2}, {100}}, before = {{0}, {3}, {0}, {0}};
  const NetworkResiduals r = ResidualsOf(
      path, 0.5, [&](std::size_t k) { return View(now[k]); }, [&](std::size_t k) { return View(before[k]); },
      [](std::size_t k) { return k == 3; });
  EXPECT_NEAR(r.primal, std::sqrt(4.0 + 1.0), 1e-15);
  EXPECT_NEAR(r.dual, 0.5 * std::sqrt(2 * (0.5 * 0.5 + 1.0)), 1e-15);  // z moves by ½ and 1
  EXPECT_NEAR(r.consensus, (1.0 + 1.0 + 0.0) / 3, 1e-15);
}

}  // namespace
}  // namespace tacit
