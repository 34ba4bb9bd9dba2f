#include "algorithms/nfl.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "algorithms/grad_nfl.h"
#include "algorithms/nfl_theory.h"
#include "algorithms/p_admm.h"
#include "models/reference.h"
#include "models/test_data.h"

namespace tacit {
namespace {

constexpr double kSix = 4.892;  // two-sided normal quantile of 1e-6, the false-alarm rate of each statistic

const Expose kExpose{};
const LatticeGaussian kLattice{};

std::vector<std::uint32_t> Rounds(std::uint32_t count) {
  std::vector<std::uint32_t> r(count);
  for (std::uint32_t t = 0; t < count; ++t) r[t] = t + 1;
  return r;
}

std::shared_ptr<const NoisePlan> Noise(std::size_t rounds, NoiseStd sigma) {
  return std::make_shared<const NoisePlan>(rounds, sigma);
}

// Who is there, by a function of (round, peer).
class By final : public RollCall {
 public:
  explicit By(std::function<Presence(std::uint32_t, std::uint32_t)> f) : f_(std::move(f)) {}
  Presence At(std::uint32_t round, std::uint32_t peer) const override { return f_(round, peer); }

 private:
  std::function<Presence(std::uint32_t, std::uint32_t)> f_;
};

// K peers with m records each on a graph, and everything they share.
template <Networked A>
struct World {
  World(Graph on, std::size_t m, std::size_t d, Loss loss, PenaltyOptions penalty = {}, double l2 = 0,
        std::uint64_t seed = 3)
      : graph(std::move(on)),
        data(test::RandomData(loss, 2, graph.size() * m, d, 1.0, seed)),
        f(MakeObjective(loss, 2)),
        g(*MakeRegularizer(penalty)) {
    // Labels that a linear model explains, but for noise; rows within the unit ball.
    const Vec truth = test::RandomVec(d, 1.0, seed + 1);
    Stream rng(StreamId{seed, Purpose::kTest, 9, 0});
    for (std::size_t i = 0; i < data.rows(); ++i) {
      for (std::size_t j = 0; j < d; ++j) data.value[i * d + j] /= std::max(1.0, data.norm[i]);
      const double margin = Dot(View(data.value).subspan(i * d, d), truth) + 0.3 * rng.Normal();
      const bool classes = loss == Loss::kLogistic || loss == Loss::kHinge || loss == Loss::kSmoothedHinge;
      data.label[i] = !classes ? margin : margin > 0 ? 1.0 : -1.0;
    }
    test::FillNorms(data);
    data.row_bound = 1.0 + 1e-9;
    for (std::size_t k = 0; k < graph.size(); ++k) shards.emplace_back(data, k * m, m);
    problem = {
        .f = f.get(), .g = g.get(), .l2 = l2, .dim = d, .clients = static_cast<std::uint32_t>(graph.size())};
    options.clip = L2Bound{1e3};
  }

  void Start(const Mechanism& mechanism, std::shared_ptr<const NoisePlan> sigma,
             MuSquared budget = MuSquared::Proven(kInf)) {
    ledgers.assign(shards.size(), Ledger(budget, Adjacency::kReplaceOne));
    peers.clear();
    for (std::uint32_t k = 0; k < shards.size(); ++k) {
      Holding own{k, shards[k].size(), Private<Shard>(shards[k]), &ledgers[k]};
      if constexpr (std::is_same_v<A, GradNfl>)
        peers.emplace_back(std::move(own), problem, mechanism, options, sigma);
      else
        peers.emplace_back(std::move(own), graph.degree(k), problem, mechanism, options, sigma);
    }
  }

  // The protocol, one peer after the other; seen(t) after every round.
  Status Run(
      const RollCall& who = AlwaysHere(),
      const std::function<void(std::uint32_t)>& seen = [](std::uint32_t) {}) {
    notes.assign(peers.size(), {});
    standing.assign(peers.size(), {});
    for (std::size_t k = 0; k < peers.size(); ++k)
      standing[k].degree = static_cast<std::uint32_t>(graph.degree(k));
    Scratch scratch;
    NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
    scratch.rng = &rng;
    for (std::uint32_t t = 0; t < options.rounds.size(); ++t) {
      const std::uint32_t round = options.rounds[t];
      for (std::uint32_t k = 0; k < peers.size(); ++k) {
        if (who.At(round, k) != Presence::kGone || standing[k].gone) continue;
        standing[k].gone = true;
        for (const std::uint32_t l : graph.of(k)) --standing[l].degree;
      }
      for (std::uint32_t k = 0; k < peers.size(); ++k) {
        standing[k].sent = false;
        if (who.At(round, k) != Presence::kHere) continue;
        rng.Rekey({.seed = 1, .purpose = Purpose::kNoise, .who = k, .round = round});
        typename A::Note note;
        TACIT_OK(peers[k].Round(t, note, scratch));
        standing[k].sent = true;
        notes[k] = note;
      }
      for (std::uint32_t k = 0; k < peers.size(); ++k)
        if (who.At(round, k) == Presence::kHere)
          peers[k].Hear(Heard<typename A::Note>(k, graph.of(k), notes, standing));
      seen(t);
    }
    return Ok{};
  }

  Vec Best() const { return SolveReference(*f, shards, problem.l2, *g)->x; }
  // Σ_k ‖w_k − w‖²/‖w‖² over the peers that are not gone.
  double Error(View w) const {
    double sum = 0;
    for (std::size_t k = 0; k < peers.size(); ++k)
      if (!standing[k].gone) sum += DistanceSquared(peers[k].iterate(), w);
    return sum / NormSquared(w);
  }

  Graph graph;
  Dataset data;
  std::unique_ptr<Objective> f;
  std::unique_ptr<Regularizer> g;
  std::vector<Shard> shards;
  Problem problem;
  typename A::Options options;
  std::vector<Ledger> ledgers;
  std::vector<typename A::Peer> peers;
  std::vector<typename A::Note> notes;
  std::vector<PeerStanding> standing;
};

Vec SumOfGradients(const Objective& f, const Shard& shard, View x) {
  Workspace ws;
  Vec norm(shard.size()), weight(shard.size(), 1.0), g(x.size());
  f.RecordNorms(shard, x, ws, norm);
  f.WeightedSum(shard, x, ws, weight, g);
  return g;
}

struct Named {
  const char* name;
  Graph graph;
};
std::vector<Named> EveryTopology() {
  const auto made = [](TopologySpec spec) { return *MakeTopology(spec, 12); };
  return {{"ring", Ring(12)},
          {"torus", Torus(3, 4)},
          {"complete", Complete(12)},
          {"star", Star(12)},
          {"Erdős–Rényi", made({.name = Topology::kErdosRenyi, .degree = 3, .attempts = 500})},
          {"geometric", made({.name = Topology::kGeometric, .degree = 4, .attempts = 500})},
          {"regular", made({.name = Topology::kRegular, .degree = 3, .attempts = 50})},
          {"edges", made({.name = Topology::kEdges,
                          .edges = "0 1\n1 2\n2 3\n3 4\n4 5\n5 6\n6 7\n7 8\n8 9\n9 10\n10 11\n0 6\n",
                          .file = "a lasso"})}};
}

TEST(Nfl, WithoutNoiseReachesTheCentralOptimumOnEveryTopology) {
  const struct {
    const char* why;
    Loss loss;
    double l2;
    PenaltyOptions penalty;
  } kCases[] = {
      {"ridge", Loss::kLeastSquares, 0.1, {}},
      {"logistic", Loss::kLogistic, 0.1, {}},
      {"huber", Loss::kHuber, 0.1, {}},
      {"smoothed hinge", Loss::kSmoothedHinge, 0.1, {}},
      {"ridge as a penalty", Loss::kLeastSquares, 0.05, {.name = Penalty::kElasticNet, .ridge = 0.05}},
  };
  for (const auto& c : kCases)
    for (const auto& [name, graph] : EveryTopology()) {
      SCOPED_TRACE(std::string(c.why) + " on " + name);
      World<Nfl> w(graph, 10, 4, c.loss, c.penalty, c.l2);
      w.options.rho = 0.1;
      w.options.eta = {.c = 1.0};
      w.options.rounds = Rounds(3000);
      w.Start(kExpose, Noise(3000, NoiseStd{1.0}));
      ASSERT_TRUE(w.Run().ok());
      EXPECT_LT(w.Error(w.Best()), 1e-20);
    }
}

TEST(Nfl, WithoutNoiseReachesTheCentralOptimumOfLossesWithKinks) {
  for (const auto& [name, graph] : EveryTopology()) {
    SCOPED_TRACE(name);
    World<Nfl> w(graph, 10, 4, Loss::kAbsoluteDeviation);
    w.options.rho = 0.1;
    w.options.eta = {.c = 1.0, .falling = true};
    w.options.rounds = Rounds(20000);
    w.Start(kExpose, Noise(20000, NoiseStd{1.0}));
    ASSERT_TRUE(w.Run().ok());
    EXPECT_LT(w.Error(w.Best()), 1e-4);
  }
  const struct {
    const char* why;
    Loss loss;
    double l2;
    PenaltyOptions penalty;
  } kCases[] = {
      {"elastic net", Loss::kLeastSquares, 0.1, {.name = Penalty::kL1, .weight = 0.02}},
      {"hinge", Loss::kHinge, 0.05, {}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    World<Nfl> w(Regular(12, 3, 1), 10, 4, c.loss, c.penalty, c.l2);
    w.options.rho = 0.1;
    w.options.eta = {.c = 1.0, .falling = true};
    w.options.rounds = Rounds(20000);
    w.Start(kExpose, Noise(20000, NoiseStd{1.0}));
    ASSERT_TRUE(w.Run().ok());
    EXPECT_LT(w.Error(w.Best()), 1e-4);
  }
}

// The update against the minimum of what it minimises, by values of that function alone, from a state that
// noisy rounds left; and (A.1) as printed, which is not there.
TEST(Nfl, TheUpdateIsTheMinimiserAndTheAppendixIsNot) {
  World<Nfl> w(Regular(8, 3, 4), 15, 5, Loss::kAbsoluteDeviation, {.name = Penalty::kL1, .weight = 0.03},
               0.2);
  w.options.rho = 0.7;
  w.options.eta = {.c = 0.4, .falling = true};
  w.options.clip = L2Bound{2.0};
  w.options.rounds = Rounds(6);
  w.Start(kLattice, Noise(6, NoiseStd{5.0}));
  ASSERT_TRUE(w.Run().ok());
  std::vector<Vec> before(8), gamma(8, Vec(5));
  for (std::size_t k = 0; k < 8; ++k) {
    before[k] = *w.notes[k].w;
    const View lambda = w.peers[k].edges().lambda();
    for (std::size_t i = 0; i < lambda.size(); ++i) gamma[k][i % 5] += lambda[i];
  }
  // One more round, n = 7, without noise, by the same peers.
  w.options.rounds = Rounds(7);
  Scratch scratch;
  NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
  scratch.rng = &rng;
  const double eta = 0.4 / std::sqrt(7.0);
  for (std::uint32_t k = 0; k < 8; ++k) {
    Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
    Nfl::Peer peer(Holding{k, 15, Private<Shard>(w.shards[k]), &ledger}, 3, w.problem, kExpose, w.options,
                   Noise(7, NoiseStd{1.0}));
    peer.State() = w.peers[k].State();
    Nfl::Note note;
    ASSERT_TRUE(peer.Round(6, note, scratch).ok());
    const Vec& own = before[k];
    Vec g = SumOfGradients(*w.f, w.shards[k], own);  // rows within the unit ball: nothing is clipped
    for (std::size_t j = 0; j < 5; ++j) g[j] = g[j] / 15 + 0.2 * own[j] + 0.03 * (own[j] > 0 ? 1 : -1);
    const auto value = [&](std::size_t j, double v) {  // the function is a sum over coordinates
      double sum = g[j] * (v - own[j]) + (v - own[j]) * (v - own[j]) / (2 * eta) + gamma[k][j] * v;
      for (const std::uint32_t l : w.graph.of(k)) {
        const double gap = v - (own[j] + before[l][j]) / 2;
        sum += 0.7 * gap * gap;
      }
      return sum;
    };
    double off = 0;
    for (std::size_t j = 0; j < 5; ++j) {
      const double a = value(j, -1.0), b = value(j, 0.0), c = value(j, 1.0);  // a parabola by three values
      const double least = (a - c) / (2 * (a - 2 * b + c));
      EXPECT_NEAR((*note.w)[j], least, 1e-8);
      double printed = own[j] / eta + gamma[k][j] / 2 - g[j];
      for (const std::uint32_t l : w.graph.of(k)) printed += 0.7 / 2 * (own[j] - before[l][j]);
      off = std::max(off, std::abs(printed / (2 * 0.7 * 3 + 1 / eta) - least));
    }
    EXPECT_GT(off, 0.01);
  }
}

TEST(Nfl, TheAppendixAsPrintedDivergesAndTheMethodDoesNot) {
  // The misprints, here and nowhere else.
  World<Nfl> w(Ring(10), 20, 4, Loss::kLeastSquares, {}, 0.1);
  const double rho = 1, eta = 0.5;
  std::vector<Vec> at(10, Vec(4)), gamma(10, Vec(4)), next(10, Vec(4));
  double largest = 0;
  for (int n = 0; n < 2000 && largest < 1e6; ++n) {
    for (std::size_t k = 0; k < 10; ++k) {
      const Vec g = SumOfGradients(*w.f, w.shards[k], at[k]);
      for (std::size_t j = 0; j < 4; ++j) {
        double sum = at[k][j] / eta + gamma[k][j] / 2 - g[j] / 20 - 0.1 * at[k][j];
        for (const std::uint32_t l : w.graph.of(k)) sum += rho / 2 * (at[k][j] - at[l][j]);
        next[k][j] = sum / (2 * rho * 2 + 1 / eta);
        largest = std::max(largest, std::abs(next[k][j]));
      }
    }
    at = next;
    for (std::size_t k = 0; k < 10; ++k)
      for (const std::uint32_t l : w.graph.of(k))
        for (std::size_t j = 0; j < 4; ++j) gamma[k][j] += rho * (at[k][j] - at[l][j]);
  }
  EXPECT_GE(largest, 1e6);
  w.options.eta = {.c = eta};
  w.options.rounds = Rounds(3000);
  w.Start(kExpose, Noise(3000, NoiseStd{1.0}));
  ASSERT_TRUE(w.Run().ok());
  EXPECT_LT(w.Error(w.Best()), 1e-10);
}

TEST(Nfl, AStepThatFallsAsTheSquareFreezes) {
  // η = c/n² has a finite sum: the peers stop on their way. c/√n does not.
  World<Nfl> w(Ring(10), 20, 4, Loss::kLeastSquares, {}, 0.1);
  w.options.rounds.clear();
  for (std::uint32_t n = 1; n <= 250; ++n) w.options.rounds.push_back(n * n * n * n);  // 1/√(n⁴)
  w.options.eta = {.c = 1.0, .falling = true};
  w.Start(kExpose, Noise(250, NoiseStd{1.0}));
  ASSERT_TRUE(w.Run().ok());
  const Vec best = w.Best();
  EXPECT_GT(w.Error(best), 0.1);
  w.options.rounds = Rounds(2000);
  w.options.rho = 0.1;
  w.Start(kExpose, Noise(2000, NoiseStd{1.0}));
  ASSERT_TRUE(w.Run().ok());
  EXPECT_LT(w.Error(best), 1e-8);
}

TEST(Nfl, PeersWhoAreLateOrGoneForAWhileDoNotStopTheOthers) {
  World<Nfl> w(Regular(12, 4, 1), 10, 4, Loss::kLogistic, {}, 0.1);
  w.options.rho = 0.1;
  w.options.eta = {.c = 1.0};
  w.options.rounds = Rounds(4000);
  const By who([](std::uint32_t round, std::uint32_t peer) {
    if (peer == 3 && round > 20 && round <= 120) return Presence::kAway;
    if (peer == 0 && round <= 10) return Presence::kAway;  // comes late
    if (peer % 4 == 1 && (round + peer) % 3 == 0) return Presence::kAway;
    return Presence::kHere;
  });
  w.Start(kExpose, Noise(4000, NoiseStd{1.0}));
  ASSERT_TRUE(w.Run(who, [&](std::uint32_t t) {
                 if (t > 300) return;
                 Vec total(4);
                 for (std::size_t k = 0; k < 12; ++k) {
                   const View own = w.peers[k].edges().lambda();
                   for (std::size_t i = 0; i < own.size(); ++i) total[i % 4] += own[i];
                   for (std::size_t i = 0; i < 4; ++i) {  // λ_kl = −λ_lk, bit for bit
                     const std::uint32_t l = w.graph.of(k)[i];
                     const auto back = w.graph.of(l);
                     const auto at =
                         static_cast<std::size_t>(std::find(back.begin(), back.end(), k) - back.begin());
                     for (std::size_t j = 0; j < 4; ++j)
                       ASSERT_EQ(own[i * 4 + j], -w.peers[l].edges().lambda()[at * 4 + j]);
                   }
                 }
                 for (const double s : total) EXPECT_NEAR(s, 0, 1e-12);
               }).ok());
  EXPECT_LT(w.Error(w.Best()), 1e-20);
  EXPECT_EQ(w.ledgers[3].charges(), 3900u);
  EXPECT_EQ(w.ledgers[0].charges(), 3990u);
  EXPECT_EQ(w.ledgers[2].charges(), 4000u);
}

TEST(Nfl, AnAbsentPeerIsHeardByItsLastNote) {
  World<Nfl> w(Ring(3), 5, 2, Loss::kLeastSquares);
  w.options.rounds = Rounds(2);
  w.Start(kExpose, Noise(2, NoiseStd{1.0}));
  const By who([](std::uint32_t round, std::uint32_t peer) {
    return round == 2 && peer == 2 ? Presence::kAway : Presence::kHere;
  });
  Vec first;
  ASSERT_TRUE(w.Run(who, [&](std::uint32_t t) {
                 if (t == 0) first = *w.notes[2].w;
               }).ok());
  EXPECT_EQ(*w.notes[2].w, first);
  EXPECT_EQ(Vec(w.peers[2].latest().begin(), w.peers[2].latest().end()), first);
  // ρ Σ_l (w̃_0 + w̃_l) − γ_0 with the old note of peer 2, and its edge's multiplier as it was.
  const Vec& own = *w.notes[0].w;
  const View lambda = w.peers[0].edges().lambda();
  for (std::size_t j = 0; j < 2; ++j)
    EXPECT_NEAR(w.peers[0].edges().pull()[j],
                2 * own[j] + (*w.notes[1].w)[j] + first[j] - lambda[j] - lambda[2 + j], 1e-14);
}

TEST(Nfl, WhoeverLeavesForGoodTakesItsEdgesAlong) {
  const Graph graph = Regular(12, 4, 1);
  World<Nfl> w(graph, 10, 4, Loss::kLogistic, {}, 0.1);
  w.options.rho = 0.1;
  w.options.eta = {.c = 1.0};
  w.options.rounds = Rounds(3000);
  const By who([](std::uint32_t round, std::uint32_t peer) {
    if (peer == 2 && round > 40) return Presence::kGone;
    if (peer == 7 && round > 55) return Presence::kGone;
    if (peer == 5 && round > 38 && round < 60) return Presence::kAway;  // was not there when they left
    return Presence::kHere;
  });
  const std::vector<std::uint32_t> gone = {2, 7};
  w.Start(kExpose, Noise(3000, NoiseStd{1.0}));
  ASSERT_TRUE(w.Run(who).ok());
  EXPECT_EQ(w.ledgers[2].charges(), 40u);
  // The optimum of those who stayed.
  std::vector<Shard> stayed;
  for (std::size_t k = 0; k < 12; ++k)
    if (k != 2 && k != 7) stayed.push_back(w.shards[k]);
  const Vec best = SolveReference(*w.f, stayed, 0.1, *w.g)->x;
  EXPECT_LT(w.Error(best), 1e-20);
  const Graph left = Without(graph, gone);
  for (std::size_t k = 0; k < 12; ++k)
    if (!w.standing[k].gone) {
      EXPECT_EQ(w.peers[k].edges().degree(), static_cast<double>(left.degree(k)));
    }
}

TEST(Nfl, NoiseOnTheNoteIsThePapers) {  // two statistics at 1e-6 each
  constexpr std::size_t kDim = 60000;
  World<Nfl> w(Star(4), 7, 1, Loss::kLogistic);
  w.data = {};
  w.data.features = kDim;
  w.data.row_begin.assign(8, 0);  // seven empty sparse rows
  w.data.label.assign(7, 1.0);
  w.data.norm.assign(7, 0.0);
  w.shards.assign(4, Shard(w.data, 0, 7));
  w.problem.dim = kDim;
  w.options.rho = 0.5;
  w.options.eta = {.c = 0.2};
  w.options.rounds = Rounds(1);
  // σ_k on the note is σ·(sum)/(M(2ρ|N| + 1/η)): the hub has three neighbours, 2·0.5·3 + 5 = 8.
  w.Start(kLattice, Noise(1, NoiseStd{14.0}));
  ASSERT_TRUE(w.Run().ok());
  const double std = 14.0 / (7 * 8), n = kDim;
  double mean = 0, square = 0;
  for (const double v : *w.notes[0].w) mean += v / std / n, square += v * v / (std * std) / n;
  EXPECT_LT(std::abs(mean) * std::sqrt(n), kSix);
  EXPECT_LT(std::abs(square - 1) * std::sqrt(n / 2), kSix);
  // The same from Lemma I: σ = Δ/μ.
  const double delta = NflTheory::Sensitivity(1.0, 7, 0.5, 3, 0.2), mu = 2 * 1.0 / 14.0;
  EXPECT_NEAR(delta / mu, std, 1e-15);
}

TEST(Nfl, ARunChargesWhatTheProofSays) {
  World<Nfl> w(Ring(4), 10, 3, Loss::kLeastSquares);
  w.options.clip = L2Bound{0.5};
  w.options.rounds = Rounds(20);
  auto plan = std::make_shared<NoisePlan>();
  double want = 0;
  for (int n = 0; n < 20; ++n) {
    plan->push_back(NoiseStd::Proven(8.0 * std::pow(0.95, n)));
    want += std::pow(2 * 0.5 / plan->back().value(), 2);
  }
  w.Start(kLattice, plan);
  ASSERT_TRUE(w.Run().ok());
  for (const Ledger& l : w.ledgers) {
    EXPECT_EQ(l.charges(), 20u);
    EXPECT_GE(l.spent().value(), want);
    EXPECT_NEAR(l.spent().value() / want, 1, 1e-7);  // sums in floating point, and the lattice
  }
  const MuSquared exact = w.ledgers[0].spent();
  w.Start(kLattice, plan, exact);
  EXPECT_TRUE(w.Run().ok());
  // One charge too small: the last round is refused, and nothing of it leaves.
  w.Start(kLattice, plan, MuSquared::Proven(NextDown(exact.value())));
  std::uint32_t rounds = 0;
  const Status refused = w.Run(AlwaysHere(), [&](std::uint32_t) { ++rounds; });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kBudget);
  EXPECT_EQ(rounds, 19u);
  for (const Ledger& l : w.ledgers) EXPECT_LE(l.spent(), l.budget());
}

TEST(Nfl, OneRecordMovesAClippedNoteByLemmaOne) {
  World<Nfl> w(Ring(4), 10, 3, Loss::kLeastSquares);
  w.options.clip = L2Bound{0.3};
  w.options.eta = {.c = 0.25};
  w.options.rounds = Rounds(1);
  const auto first = [&] {
    w.Start(kExpose, Noise(1, NoiseStd{1.0}));
    EXPECT_TRUE(w.Run().ok());
    return *w.notes[1].w;
  };
  double most = 0;
  const double bound = NflTheory::Sensitivity(0.3, 10, 1.0, 2, 0.25);
  for (const double label : {1e6, 1e300, std::nan(""), 3.0}) {
    w.data.label[10] = -1e9;
    const Vec a = first();
    w.data.label[10] = label;
    const Vec b = first();
    most = std::max(most, std::sqrt(DistanceSquared(a, b)));
    EXPECT_LE(std::sqrt(DistanceSquared(a, b)), bound * (1 + 1e-12));
  }
  EXPECT_GT(most, bound * (1 - 1e-12));  // the bound is met
}

TEST(Nfl, TheMeanIsOfTheNotes) {
  World<Nfl> w(Ring(4), 10, 3, Loss::kLogistic);
  w.options.output = PeerOutput::kMean;
  w.options.rounds = Rounds(9);
  w.Start(kLattice, Noise(9, NoiseStd{3.0}));
  Vec sum(3);
  const By who([](std::uint32_t round, std::uint32_t peer) {
    return round == 4 && peer == 1 ? Presence::kAway : Presence::kHere;
  });
  ASSERT_TRUE(w.Run(who, [&](std::uint32_t t) {
                 if (t != 3) Axpy(1.0, *w.notes[1].w, sum);
               }).ok());
  for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(w.peers[1].iterate()[j], sum[j] / 8, 1e-14);
  EXPECT_EQ(Vec(w.peers[1].latest().begin(), w.peers[1].latest().end()), *w.notes[1].w);
}

TEST(Nfl, EveryoneStartsWhereTheProblemSays) {
  World<Nfl> w(Ring(4), 10, 3, Loss::kLogistic, {}, 0.1);
  w.problem.start = {1.0, -2.0, 3.0};
  w.options.rounds = Rounds(1);
  w.options.eta = {.c = 0.5};
  w.Start(kExpose, Noise(1, NoiseStd{1.0}));
  // A peer that has heard nobody yet: w̃_l = start for all, so the step is one of gradient descent.
  const By alone(
      [](std::uint32_t, std::uint32_t peer) { return peer == 0 ? Presence::kHere : Presence::kAway; });
  ASSERT_TRUE(w.Run(alone).ok());
  const Vec g = SumOfGradients(*w.f, w.shards[0], w.problem.start);
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR((*w.notes[0].w)[j], w.problem.start[j] - (g[j] / 10 + 0.1 * w.problem.start[j]) / (2 * 2 + 2),
                1e-14);
    EXPECT_NEAR(w.peers[0].edges().pull()[j], 2 * ((*w.notes[0].w)[j] + w.problem.start[j]), 1e-14);
    EXPECT_EQ(w.peers[1].iterate()[j], w.problem.start[j]);
  }
}

TEST(Nfl, PaperModeRecordsItsClaimAndClipsNothing) {
  World<Nfl> w(Ring(4), 10, 3, Loss::kLeastSquares);
  w.options.certified = false;
  w.options.clip = L2Bound::Proven(1e-9);  // assumed by the calibration, enforced by nobody
  w.options.claim = {"Corollary", Epsilon{1.0}, Delta{1e-5}};
  w.options.rounds = Rounds(3);
  const FloatGaussian real;
  w.Start(real, Noise(3, NoiseStd::Proven(1e-12)));
  ASSERT_TRUE(w.Run().ok());
  EXPECT_EQ(w.ledgers[0].spent().value(), kInf);
  EXPECT_EQ(w.ledgers[0].claims(), 3u);
  EXPECT_GT(Norm(w.peers[0].iterate()), 1e-3);
}

TEST(Nfl, PenaltiesWithoutSubgradientsAreRefused) {
  World<Nfl> box(Ring(3), 5, 2, Loss::kLogistic, {.name = Penalty::kBox});
  EXPECT_EQ(CheckSubgradients(box.problem, "nfl").error().code, Code::kUnsupported);
  World<Nfl> l1(Ring(3), 5, 2, Loss::kLogistic, {.name = Penalty::kL1, .weight = 0.1});
  EXPECT_TRUE(CheckSubgradients(l1.problem, "nfl").ok());
}

TEST(GradNfl, ARoundIsMetropolisMixingAndASubgradient) {
  World<GradNfl> w(Star(4), 10, 3, Loss::kAbsoluteDeviation, {.name = Penalty::kL1, .weight = 0.1}, 0.2);
  w.options.alpha = {.c = 0.5, .falling = true};
  w.options.rounds = Rounds(5);
  w.Start(kExpose, Noise(5, NoiseStd{1.0}));
  std::vector<Vec> x(4, Vec(3));
  ASSERT_TRUE(w.Run(AlwaysHere(), [&](std::uint32_t t) {
                 std::vector<Vec> next(4, Vec(3));
                 const double alpha = 0.5 / std::sqrt(t + 1.0);
                 for (std::size_t k = 0; k < 4; ++k) {
                   const Vec g = SumOfGradients(*w.f, w.shards[k], x[k]);
                   for (std::size_t j = 0; j < 3; ++j) {
                     // Every edge of the star has weight 1/4; the hub keeps 1/4, a leaf 3/4.
                     double mixed = (k == 0 ? 0.25 : 0.75) * x[k][j];
                     for (const std::uint32_t l : w.graph.of(k)) mixed += 0.25 * x[l][j];
                     const double sign = x[k][j] > 0 ? 1 : x[k][j] < 0 ? -1 : 0;
                     next[k][j] = mixed - alpha * (g[j] / 10 + 0.2 * x[k][j] + 0.1 * sign);
                     EXPECT_NEAR((*w.notes[k].w)[j], next[k][j], 1e-13);
                   }
                 }
                 x = next;
               }).ok());
}

TEST(GradNfl, WithoutNoiseApproachesTheOptimumAndAFixedStepDoesNot) {
  double error[2] = {1, 0};
  for (const bool falling : {true, false}) {
    World<GradNfl> w(Regular(12, 4, 1), 10, 4, Loss::kLogistic, {}, 0.1);
    w.options.alpha = {.c = 1.0, .falling = falling};
    w.options.rounds = Rounds(20000);
    const By who([](std::uint32_t round, std::uint32_t peer) {
      return peer == 3 && round % 5 == 0 && round < 2000 ? Presence::kAway : Presence::kHere;
    });
    w.Start(kExpose, Noise(20000, NoiseStd{1.0}));
    ASSERT_TRUE(w.Run(who).ok());
    error[falling ? 0 : 1] = w.Error(w.Best());
  }
  EXPECT_LT(error[0], 1e-4);
  EXPECT_GT(error[1], 1e-3);
}

TEST(GradNfl, ChargesAndRefusals) {
  World<GradNfl> w(Ring(4), 10, 3, Loss::kLogistic);
  w.options.clip = L2Bound{1.0};
  w.options.rounds = Rounds(10);
  w.Start(kLattice, Noise(10, NoiseStd{2.0}), Squared(Mu{1.5}));  // μ = 1 a round: two fit
  std::uint32_t rounds = 0;
  EXPECT_EQ(w.Run(AlwaysHere(), [&](std::uint32_t) { ++rounds; }).error().code, Code::kBudget);
  EXPECT_EQ(rounds, 2u);
  EXPECT_NEAR(w.ledgers[0].spent().value(), 2, 1e-7);
}

TEST(PAdmm, WithoutNoiseReachesTheCentralOptimumOnEveryTopology) {
  for (const Loss loss : {Loss::kLeastSquares, Loss::kLogistic, Loss::kHuber, Loss::kSmoothedHinge})
    for (const auto& [name, graph] : EveryTopology()) {
      SCOPED_TRACE(name);
      World<PAdmm> w(graph, 10, 4, loss, {}, 0.1);
      w.options.rho = 0.1;
      w.options.row_bound = 1.0 + 1e-6;
      w.options.clip = L2Bound{100.0};
      w.options.rounds = Rounds(1000);
      w.Start(kExpose, Noise(1000, NoiseStd{1.0}));
      ASSERT_TRUE(PAdmm::Fits(w.problem, w.options.row_bound).ok());
      ASSERT_TRUE(w.Run().ok());
      EXPECT_LT(w.Error(w.Best()), 1e-20);
    }
}

TEST(PAdmm, NonsmoothObjectivesAreRefused) {
  for (const Loss loss : {Loss::kAbsoluteDeviation, Loss::kHinge}) {
    World<PAdmm> w(Ring(3), 5, 2, loss);
    const Status s = PAdmm::Fits(w.problem, 1.0);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, Code::kUnsupported);
  }
  World<PAdmm> lasso(Ring(3), 5, 2, Loss::kLeastSquares, {.name = Penalty::kL1, .weight = 0.1});
  EXPECT_EQ(PAdmm::Fits(lasso.problem, 1.0).error().code, Code::kUnsupported);
  World<PAdmm> ridge(Ring(3), 5, 2, Loss::kLeastSquares, {}, 0.1);
  EXPECT_TRUE(PAdmm::Fits(ridge.problem, 1.0).ok());
  EXPECT_EQ(PAdmm::Fits(ridge.problem, kInf).error().code, Code::kInvalidArgument);
}

TEST(PAdmm, ARunChargesByTheStronglyConvexSubproblem) {
  World<PAdmm> w(Star(4), 10, 3, Loss::kLeastSquares, {}, 0.5);
  w.options.rho = 0.25;
  w.options.clip = L2Bound{0.4};
  w.options.rounds = Rounds(3);
  w.options.row_bound = 1.0 + 1e-6;
  w.Start(kLattice, Noise(3, NoiseStd{0.5}));
  const By who([](std::uint32_t round, std::uint32_t peer) {
    return peer == 3 && round == 3 ? Presence::kGone : Presence::kHere;
  });
  ASSERT_TRUE(w.Run(who).ok());
  const auto mu = [](double degree) { return 2 * 0.4 / (10 * (2 * 0.25 * degree + 0.5)) / 0.5; };
  EXPECT_NEAR(w.ledgers[0].spent().value() / (3 * mu(3) * mu(3)), 1, 1e-6);
  EXPECT_NEAR(w.ledgers[1].spent().value() / (3 * mu(1) * mu(1)), 1, 1e-6);
  EXPECT_EQ(w.ledgers[3].charges(), 2u);
  EXPECT_NEAR(PAdmm::Sensitivity(Adjacency::kReplaceOne, w.options, 0.5, 10, 3).value() / (mu(3) * 0.5), 1,
              1e-6);
}

TEST(PAdmm, ANeighbourThatLeavesChangesTheNoiseAndNotTheCharge) {
  World<PAdmm> w(Star(4), 10, 3, Loss::kLeastSquares, {}, 0.5);
  w.options.rho = 0.25;
  w.options.clip = L2Bound{0.4};
  w.options.rounds = Rounds(6);
  w.options.row_bound = 1.0 + 1e-6;
  w.Start(kLattice, Noise(6, NoiseStd{0.5}));
  const By who([](std::uint32_t round, std::uint32_t peer) {
    return peer == 3 && round >= 3 ? Presence::kGone : Presence::kHere;
  });
  ASSERT_TRUE(w.Run(who).ok());
  const double mu = 2 * 0.4 / (10 * (2 * 0.25 * 3 + 0.5)) / 0.5;
  EXPECT_NEAR(w.ledgers[0].spent().value() / (6 * mu * mu), 1, 1e-6);
  EXPECT_EQ(w.peers[0].edges().degree(), 2);
}

TEST(PAdmm, PaperModeCostsEverything) {
  World<PAdmm> w(Ring(3), 10, 3, Loss::kLeastSquares, {}, 0.1);
  w.options.certified = false;
  w.options.claim = {"", Epsilon{1.0}, Delta{1e-5}};
  w.options.rounds = Rounds(200);
  w.Start(kExpose, Noise(200, NoiseStd{1.0}));
  ASSERT_TRUE(w.Run().ok());
  EXPECT_EQ(w.ledgers[0].spent().value(), kInf);
  EXPECT_LT(w.Error(w.Best()), 1e-10);
}

// A round in which everybody sent has a way of its own: the same bits as by asking after each neighbour.
TEST(EdgeDuals, HearsTheSameWhetherOrNotItKnowsThatAllSent) {
  Problem problem;
  problem.dim = 5;
  for (const std::size_t degree : {1u, 3u, 8u, 9u}) {
    std::vector<PeerNote> notes(degree + 1);
    std::vector<PeerStanding> standing(degree + 1);
    std::vector<std::uint32_t> neighbours;
    for (std::uint32_t k = 0; k <= degree; ++k) {
      standing[k] = {.degree = static_cast<std::uint32_t>(degree), .sent = true, .gone = false};
      if (k > 0) neighbours.push_back(k);
    }
    EdgeDuals asks(problem, degree, 0.7), knows(problem, degree, 0.7);
    for (std::uint64_t round = 0; round < 3; ++round) {
      for (std::uint64_t k = 0; k <= degree; ++k)
        notes[k]
            .w.Into<[](const Vec&, Vec& out, std::uint64_t seed) { out = test::RandomVec(5, 1.0, seed); }>(
                notes[k].w, 100 * round + k);
      asks.Hear(Heard<PeerNote>(0, neighbours, notes, standing, false));
      knows.Hear(Heard<PeerNote>(0, neighbours, notes, standing, true));
      EXPECT_EQ(asks.State(), knows.State());
    }
  }
}

}  // namespace
}  // namespace tacit
