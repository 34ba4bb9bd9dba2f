#include "algorithms/fcrn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "algorithms/fcrn_theory.h"
#include "algorithms/test_world.h"
#include "privacy/claims.h"

namespace tacit {
namespace {

using Design = DpFcrn::Design;
const Expose kExpose{};
const LatticeGaussian kLattice{};

struct World : test::World {
  World(std::size_t n, std::size_t m, std::size_t d, double box = 0)
      : test::World(
            test::RandomData(Loss::kLogistic, 2, n * m, d, 1.0, 3), n, Loss::kLogistic,
            box > 0 ? PenaltyOptions{.name = Penalty::kBox, .weight = 0, .radius = box} : PenaltyOptions{}) {}
  // The clients of a round in the given groups, merged in order, as a runtime does. away(i, t): client i does
  // not hear the broadcast with index t.
  Vec Run(
      const DpFcrn::Options& o, const Mechanism& mechanism, double sigma = 1, std::size_t group = 1000,
      bool (*away)(std::uint32_t, std::uint32_t) = [](std::uint32_t, std::uint32_t) { return false; }) {
    DpFcrn::Server server(problem, o);
    DpFcrn::Down down;
    Scratch scratch;
    NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
    scratch.rng = &rng;
    const auto noise = std::make_shared<const NoisePlan>(o.rounds.size(), NoiseStd::Proven(sigma));
    std::vector<DpFcrn::Client> clients;
    for (std::uint32_t i = 0; i < shards.size(); ++i)
      clients.emplace_back(Own(i), problem, mechanism, o, noise);
    sent.clear();
    answered.clear();
    for (bool more = server.Start(down); more;) {
      sent.push_back(down.x->size());
      DpFcrn::Sum sum, chunk;
      sum.Reset();
      chunk.Reset();
      for (std::uint32_t i = 0; i < shards.size(); ++i) {
        rng.Rekey({.seed = 1, .purpose = Purpose::kNoise, .who = i, .round = server.round()});
        DpFcrn::Up up;
        if (!away(i, *down.t)) {
          EXPECT_TRUE(clients[i].Round(down, up, scratch).ok());
        }
        const Fault fault = FaultOf(up, server.lengths());
        EXPECT_TRUE(fault == Fault::kNone || fault == Fault::kAbsent);
        if (fault == Fault::kNone) chunk.Add(up);
        if ((i + 1) % group == 0) sum.Merge(chunk), chunk.Reset();
      }
      if (chunk.count > 0) sum.Merge(chunk);
      more = *server.Round(sum, down, scratch);
      answered.push_back(server.answered());
    }
    return Vec(server.model().begin(), server.model().end());
  }

  std::vector<std::size_t> sent;  // numbers in the broadcast of every round
  std::vector<std::uint32_t> answered;  // in every round
};

DpFcrn::Options Options(Design design, std::uint32_t rounds) {
  DpFcrn::Options o;
  o.design = design;
  o.clip = L2Bound{1e6};
  o.clip_hessian = 1e6;
  o.solver = {.curvature = 0.05, .cubic = 0.1, .l2 = 0.05, .box = 50};
  o.l2 = 0.05;
  o.rounds = test::Rounds(rounds);
  o.round_mu.assign(rounds, std::nullopt);
  return o;
}
RecordSampling FixedSample(std::uint32_t b, std::size_t m) {
  const double rate = DivUp(b, static_cast<double>(m));
  return {.sample = {.kind = SampleKind::kFixed, .rate = Probability::Proven(rate), .size = b}, .size = b};
}

// The exact minimiser of the cubic model of all records at x.
Vec ExactStep(const World& w, View x, const DpFcrn::Options& o) {
  const std::size_t d = x.size();
  Vec g = w.Gradient(x, o.l2), h(d * d);
  for (const Shard& s : w.shards) {
    Workspace ws;
    EXPECT_TRUE(w.f->AddHessian(s, x, ws, 1.0 / static_cast<double>(s.size() * w.shards.size()), h));
  }
  for (std::size_t j = 0; j < d; ++j) h[j * d + j] += o.l2;
  return SolveCubic(g, h, o.solver.cubic).v;
}

TEST(Fcrn, WithoutNoiseOneRoundIsTheCubicNewtonStep) {
  World w(1, 60, 7);
  DpFcrn::Options o = Options(Design::kOnce, 1);
  const Vec exact = ExactStep(w, w.problem.start, o);
  for (const bool at_server : {true, false}) {
    o.at_server = at_server;
    EXPECT_LE(std::sqrt(DistanceSquared(w.Run(o, kExpose), exact)), 1e-12);
  }
  // By its steps the solver gets there too.
  o = Options(Design::kSubspace, 1);
  o.solver.curvature = 0.1;
  o.steps = 20000;
  EXPECT_LE(std::sqrt(DistanceSquared(w.Run(o, kExpose), exact)), 2e-3 * Norm(exact));
  // A solver of all coordinates of which all are sent is the same method as one on a mask of all.
  const Vec subspace = w.Run(o, kExpose);
  o.design = Design::kFull;
  EXPECT_EQ(w.Run(o, kExpose), subspace);
}

TEST(Fcrn, TheServersSolutionIsNewtonOfTheMeanAndConvergesQuadratically) {
  World w(5, 40, 6);
  DpFcrn::Options o = Options(Design::kOnce, 1);
  double before = 1;
  for (std::uint32_t rounds = 1; rounds <= 9; ++rounds) {
    o = Options(Design::kOnce, rounds);
    const double now = Norm(w.Gradient(w.Run(o, kExpose), o.l2));
    if (before < 1e-2 && now > 1e-14) {
      EXPECT_LE(now, 30 * before * before);
    }
    before = now;
  }
  EXPECT_LT(before, 1e-13);
}

TEST(Fcrn, FedSgdIsGradientDescentWithoutNoise) {
  World w(4, 30, 5);
  DpFcrn::Options o = Options(Design::kGradient, 3);
  o.rate = 0.7;
  Vec x(5);
  for (int t = 0; t < 3; ++t) {
    const Vec g = w.Gradient(x, o.l2);
    Axpy(-0.7, g, x);
  }
  EXPECT_LE(std::sqrt(DistanceSquared(w.Run(o, kExpose), x)), 1e-13);
}

TEST(Fcrn, OneIterationOfTheSolverMovesAndReleasesNothing) {
  World w(3, 20, 4, 0.5);
  for (const Design design : {Design::kFull, Design::kSubspace}) {
    DpFcrn::Options o = Options(design, 4);
    o.steps = 1;
    o.round_mu.assign(4, Mu{0.0});
    EXPECT_EQ(o.Releases(), 0u);
    EXPECT_EQ(w.Run(o, kLattice, 1e-3), Vec(4));
  }
  EXPECT_EQ(w.ledgers[0].spent().value(), 0.0);
}

TEST(Fcrn, MasksAreUniformAndTheServerStaysInTheBox) {
  // E[S(x)] = x and E‖S(x) − x‖² = (d/k − 1)‖x‖²: exact over all masks, so tested over many.
  const std::size_t d = 5, k = 2;
  const Vec x = {0.3, -1, 0.2, 2, 0.7};
  Vec mean(d);
  double square = 0;
  const int draws = 40000;
  std::vector<std::uint32_t> mask;
  for (int i = 0; i < draws; ++i) {
    DpFcrn::DrawMask(static_cast<std::uint64_t>(i), k, d, mask);
    ASSERT_EQ(mask.size(), k);
    Vec s(d);
    for (const std::uint32_t j : mask) s[j] = x[j] * static_cast<double>(d) / static_cast<double>(k);
    Axpy(1.0 / draws, s, mean);
    square += DistanceSquared(s, x) / draws;
  }
  // A coordinate's sum has a standard deviation of |x_j|·√(1.5·draws): 6 of them, seven statistics, < 1e-7.
  for (std::size_t j = 0; j < d; ++j) EXPECT_NEAR(mean[j], x[j], 6 * std::abs(x[j]) * std::sqrt(1.5 / draws));
  EXPECT_NEAR(square, 1.5 * NormSquared(x), 6 * 3 * NormSquared(x) / std::sqrt(draws));

  World w(3, 20, 40, 0.5);
  DpFcrn::Options o = Options(Design::kFull, 5);
  o.coordinates = 4;  // steps are scaled by ten
  o.solver.box = 0.5;
  o.steps = 4;
  for (const double v : w.Run(o, kLattice, 50)) EXPECT_LE(std::abs(v), 0.5);
}

TEST(Fcrn, OnASharedMaskOnlyItsCoordinatesMove) {
  World w(3, 20, 12, 0.5);
  for (const Design design : {Design::kSubspace, Design::kOnce, Design::kGradient}) {
    DpFcrn::Options o = Options(design, 1);
    o.coordinates = 3;
    o.solver.box = 0.5;
    const Vec x = w.Run(o, kExpose);
    std::vector<std::uint32_t> mask;
    DpFcrn::DrawMask(DpFcrn::MaskSeed(o, 0, 0), 3, 12, mask);
    for (std::uint32_t j = 0; j < 12; ++j)
      EXPECT_EQ(x[j] != 0, std::find(mask.begin(), mask.end(), j) != mask.end()) << j;
  }
}

TEST(Fcrn, OnASharedMaskTheServerSendsWhatChanged) {
  using Sizes = std::vector<std::size_t>;
  for (const Design design : {Design::kSubspace, Design::kOnce, Design::kGradient, Design::kFull}) {
    World w(4, 20, 12, 0.5);
    DpFcrn::Options o = Options(design, 5);
    o.coordinates = 3;
    o.solver.box = 0.5;
    o.sampling = FixedSample(4, 20);
    const Vec x = w.Run(o, kLattice, 0.5);
    EXPECT_EQ(w.sent, design == Design::kFull ? (Sizes{0, 12, 12, 12, 12}) : (Sizes{0, 3, 3, 3, 3}));
    // A fifth client that never answers: all of x in every round, and the same bits.
    w.problem.clients = 5;
    EXPECT_EQ(w.Run(o, kLattice, 0.5), x);
    EXPECT_EQ(w.sent, (Sizes{0, 12, 12, 12, 12}));
  }
  World w(4, 20, 12, 0.5);  // of all coordinates all are sent
  DpFcrn::Options o = Options(Design::kOnce, 2);
  w.Run(o, kExpose);
  EXPECT_EQ(w.sent, (Sizes{0, 12}));
}

TEST(Fcrn, WhoMissedABroadcastGetsAllOfX) {
  World w(3, 20, 12, 0.5);
  DpFcrn::Options o = Options(Design::kSubspace, 6);
  o.coordinates = 3;
  o.solver.box = 0.5;
  w.Run(o, kLattice, 0.5, 1000,
        [](std::uint32_t i, std::uint32_t t) { return i == 1 && (t == 0 || t == 3); });
  EXPECT_EQ(w.answered, (std::vector<std::uint32_t>{2, 3, 3, 2, 3, 3}));
  EXPECT_EQ(w.sent, (std::vector<std::size_t>{0, 12, 3, 3, 12, 3}));

  // What changed is no use to one who does not know the rest: nothing is sampled, paid for or answered.
  DpFcrn::Server server(w.problem, o);
  Scratch scratch;
  NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
  scratch.rng = &rng;
  const auto noise = std::make_shared<const NoisePlan>(6, NoiseStd{0.5});
  DpFcrn::Down down;
  ASSERT_TRUE(server.Start(down));
  DpFcrn::Sum sum;
  for (std::uint32_t i = 0; i < 3; ++i) {
    DpFcrn::Client client(Holding{i, 20, Private<Shard>(w.shards[i]), &w.ledgers[i]}, w.problem, kLattice, o,
                          noise);
    DpFcrn::Up up;
    ASSERT_TRUE(client.Round(down, up, scratch).ok());
    sum.Add(up);
  }
  ASSERT_TRUE(*server.Round(sum, down, scratch));
  ASSERT_EQ(down.x->size(), 3u);
  Ledger none(MuSquared{0.0}, Adjacency::kReplaceOne);  // refuses whatever costs something
  DpFcrn::Client late(Holding{0, 20, Private<Shard>(w.shards[0]), &none}, w.problem, kLattice, o, noise);
  DpFcrn::Up up;
  EXPECT_TRUE(late.Round(down, up, scratch).ok());
  EXPECT_EQ(FaultOf(up, server.lengths()), Fault::kAbsent);
}

TEST(Fcrn, MessagesThatCannotBeAddedAreLeftOut) {
  World w(1, 20, 12, 0.5);
  const auto message = [&](Design design, std::size_t coordinates, const Problem& problem) {
    DpFcrn::Options o = Options(design, 1);
    o.coordinates = coordinates;
    o.solver.box = 0.5;
    NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
    Scratch scratch;
    scratch.rng = &rng;
    DpFcrn::Client client(Holding{0, 20, Private<Shard>(w.shards[0]), &w.ledgers[0]}, problem, kExpose, o,
                          std::make_shared<const NoisePlan>(1, NoiseStd{1.0}));
    DpFcrn::Up up;
    EXPECT_TRUE(client.Round({}, up, scratch).ok());
    return up;
  };
  const DpFcrn::Up four = message(Design::kSubspace, 4, w.problem),
                   masked = message(Design::kFull, 4, w.problem);
  const auto added = [](const std::vector<DpFcrn::Up>& all) {
    DpFcrn::Sum sum;
    for (const DpFcrn::Up& up : all) sum.Add(up);
    return std::pair(sum.count, sum.count > 0 ? sum.total->size() : 0);
  };
  using Counted = std::pair<std::uint32_t, std::size_t>;
  EXPECT_EQ(added({four, four}), (Counted{2, 4}));
  EXPECT_EQ(added({four, message(Design::kSubspace, 5, w.problem), four}), (Counted{2, 4}))
      << "of another length";
  EXPECT_EQ(added({four, masked}), (Counted{1, 4})) << "on a mask of its own among others";
  EXPECT_EQ(added({masked, four, masked}), (Counted{2, 12}));
  DpFcrn::Up wrong = masked;
  wrong.dim.Mutable() = 13;
  EXPECT_EQ(added({masked, wrong}), (Counted{1, 12})) << "of a model of another size";
  wrong.dim.Mutable() = 3;
  EXPECT_EQ(added({wrong}), (Counted{0, 0})) << "more values than the model has";
  wrong.dim.Mutable() = 0xffffffff;
  EXPECT_EQ(added({wrong}), (Counted{0, 0})) << "a model that nobody has memory for";
  // A server whose round has no sum makes no step.
  DpFcrn::Options o = Options(Design::kSubspace, 2);
  o.coordinates = 5;
  DpFcrn::Server server(w.problem, o);
  DpFcrn::Down down;
  Scratch scratch;
  ASSERT_TRUE(server.Start(down));
  DpFcrn::Sum sum;
  sum.Add(four);
  EXPECT_TRUE(*server.Round(sum, down, scratch));
  EXPECT_EQ(server.answered(), 0u);
  EXPECT_EQ(Vec(server.model().begin(), server.model().end()), w.problem.start);
}

// What a round releases is what its plan says, to the last release: one fewer in the filter refuses.
TEST(Fcrn, ARoundChargesWhatTheProofSays) {
  const std::size_t m = 50;
  struct Case {
    const char* name;
    Design design;
    std::uint32_t steps;
  };
  for (const Case& c : {Case{"subspace", Design::kSubspace, 6}, Case{"full", Design::kFull, 6},
                        Case{"once", Design::kOnce, 2}, Case{"gradient", Design::kGradient, 2}}) {
    SCOPED_TRACE(c.name);
    World w(1, m, 8, 0.5);
    DpFcrn::Options o = Options(c.design, 1);
    o.steps = c.steps;
    o.solver.box = 0.5;
    o.clip = L2Bound{1.0};
    o.clip_hessian = c.design == Design::kFull ? 0.0 : 0.25;
    o.noise_hessian = 0.25;  // as R₂/R₁: both releases cost the same
    o.coordinates = 4;
    o.sampling = FixedSample(5, m);
    const double sigma = 3;
    const std::size_t dim = c.design == Design::kFull ? 8 : 4;
    const double one = AddUp(
        DivUp(Bounded::Sensitivity(Adjacency::kReplaceOne, L2Bound{1.0}, 5, Quadratics::Roundings(5)).value(),
              sigma),
        kLattice.OverheadMu(c.design == Design::kOnce ? PackedSize(dim) : dim));
    const double releases = c.design == Design::kOnce ? 2 : o.Releases();
    const Mu mu = Mu::Proven(std::sqrt(releases) * one * (1 + 1e-12));
    EXPECT_NEAR(mu.value(), std::sqrt(releases) * 2 / sigma, 1e-6);
    const FixedSizeGaussianEvent event{Probability{0.1}, mu};
    Accountant plan(Adjacency::kReplaceOne);
    ASSERT_TRUE(plan.Compose(event, 1).ok());
    LedgerBook book(1, plan);
    const auto noise = std::make_shared<const NoisePlan>(1, NoiseStd::Proven(sigma));
    NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
    Scratch scratch;
    scratch.rng = &rng;
    o.round_mu = {mu};
    DpFcrn::Client client(Holding{0, m, Private<Shard>(w.shards[0]), &book.account(0)}, w.problem, kLattice,
                          o, noise);
    DpFcrn::Up up;
    const DpFcrn::Down down;
    EXPECT_TRUE(client.Round(down, up, scratch).ok());
    EXPECT_EQ(book.plan()->left()[0], 0u);
    EXPECT_FALSE(client.Round(down, up, scratch).ok());  // the plan has one round

    LedgerBook again(1, plan);
    o.round_mu = {Mu::Proven(mu.value() * (1 - 1e-6))};  // the filter of the round is a bit too small
    DpFcrn::Client tight(Holding{0, m, Private<Shard>(w.shards[0]), &again.account(0)}, w.problem, kLattice,
                         o, noise);
    EXPECT_EQ(tight.Round(down, up, scratch).error().code, Code::kBudget);
  }
}

TEST(Fcrn, NoiseGrowsWithTheRadiusOnlyWhereItIsScaled) {  // and so the cost of a step is the same
  World w(1, 50, 8, 0.5);
  DpFcrn::Options o = Options(Design::kSubspace, 1);
  o.steps = 30;
  o.solver = {.curvature = 0.5, .cubic = 0.1, .l2 = 0.0, .box = 0.5};
  o.clip = L2Bound{1.0};
  o.clip_hessian = 5;  // ‖v‖ of up to √8/2 more than doubles R
  o.sampling = FixedSample(5, 50);
  const double one = 2 / 4.0 * (1 + 1e-6);
  o.round_mu = {Mu::Proven(std::sqrt(29.0) * one)};
  w.Run(o, kLattice, 4);  // expects no refusal
}

TEST(Fcrn, TheSameBitsHoweverClientsAreGrouped) {
  World w(9, 12, 10, 0.5);
  for (const Design design : {Design::kFull, Design::kSubspace, Design::kOnce, Design::kGradient}) {
    DpFcrn::Options o = Options(design, 3);
    o.coordinates = 4;
    o.solver.box = 0.5;
    o.sampling = FixedSample(2, 12);
    const Vec one = w.Run(o, kLattice, 0.5, 3);
    EXPECT_EQ(w.Run(o, kLattice, 0.5, 3), one);
    o.seed = 5;
    EXPECT_NE(w.Run(o, kLattice, 0.5, 3), one);
  }
}

TEST(FcrnTheory, Calibration) {
  FcrnTheory t{.g1 = 1,
               .g2 = 0,
               .diameter = 1,
               .delta0 = 0.01,
               .records = 1e4,
               .rounds = 100,
               .dim = 10,
               .coordinates = 1};
  EXPECT_NEAR(t.Variance(1, 10), 3.86265098984e-4, 1e-14);
  EXPECT_NEAR(2 * t.Variance(1, 10), 7.72530197968e-4, 1e-14);  // with the missing √2
  EXPECT_NEAR(t.Claimed(t.Variance(0.8, 10), 10), 0.8, 1e-14);
  // μ² of a round, τ steps and the paper's Δ, is ε²m²/(20 T ln(1.25/δ₀)) whatever τ and k.
  t.rounds = 40000;
  for (const double tau : {10.0, 137.0}) {
    const double delta = t.PrintedSensitivity();
    EXPECT_NEAR(std::sqrt(tau * delta * delta / t.Variance(0.8, tau)), FcrnRoundMu(Epsilon{0.8}, {}).value(),
                1e-9);
  }
}

TEST(FcrnTheory, TheCubicTermTakesTheGainOfSparsification) {
  const FcrnTheory t{.g1 = 1,
                     .g2 = 0.25,
                     .l2 = 0.0962250449,
                     .diameter = std::sqrt(2000.0),
                     .dim = 2000,
                     .coordinates = 200};
  EXPECT_NEAR(t.PrintedSensitivity(), 7.70, 0.01);
  EXPECT_NEAR(t.TrueSensitivity(), 24.36, 0.01);
  EXPECT_NEAR(2 * (1 + 0.25 * std::sqrt(2000.0)), 24.36, 0.01);
}

TEST(FcrnTheory, StepsOfThePaperMayBeNone) {
  FcrnTheory t{.diameter = 1, .delta0 = 0.01, .records = 1e4, .rounds = 4e4, .dim = 2000, .coordinates = 200};
  EXPECT_GT(t.Steps(0.8), 1);
  t.records = 100;
  EXPECT_LT(t.Steps(0.8), 1);
}

TEST(FcrnTheory, LateRoundsCountMost) {
  const Vec q = FcrnLogWeights(8, 1.0, 1e-4);
  EXPECT_EQ(q.back(), 0.0);
  for (std::size_t t = 1; t < 8; ++t) EXPECT_LT(q[t - 1], q[t]);
  EXPECT_NEAR(q[6], std::log(0.75 * 1e-2), 1e-12);  // at the floor
  EXPECT_NEAR(q[0] - q[1], std::log(0.75 * std::sqrt(0.5)), 1e-12);  // u_1 = ½
}

}  // namespace
}  // namespace tacit
