#include "algorithms/primal_dual.h"

#include <gtest/gtest.h>

#include <cmath>

#include "algorithms/primal_dual_theory.h"
#include "models/reference.h"
#include "models/test_data.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

constexpr double kSix = 4.892;  // two-sided normal quantile of 1e-6, the false-alarm rate of each statistic

const Expose kExpose{};
const FloatGaussian kReal{};

// n workers with m records each, and everything they share.
struct World {
  World(std::size_t n, std::size_t m, std::size_t d, Loss loss, PenaltyOptions penalty,
        std::uint64_t seed = 3)
      : data(test::RandomData(loss, 2, n * m, d, 1.0, seed)),
        f(MakeObjective(loss, 2)),
        g(*MakeRegularizer(penalty)) {
    for (std::size_t i = 0; i < data.rows(); ++i)
      for (std::size_t j = 0; j < d; ++j) data.value[i * d + j] /= std::max(1.0, data.norm[i]);
    test::FillNorms(data);
    for (std::size_t i = 0; i < n; ++i) shards.emplace_back(data, i * m, m);
    problem = {.f = f.get(), .g = g.get(), .l2 = 0, .dim = d, .clients = static_cast<std::uint32_t>(n)};
    options.gamma = 0.25;
    options.clip = L2Bound{1e6};
  }

  void Start(const Mechanism& mechanism, std::shared_ptr<const NoisePlan> sigma,
             MuSquared budget = MuSquared::Proven(kInf), Adjacency adjacency = Adjacency::kReplaceOne) {
    ledgers.assign(shards.size(), Ledger(budget, adjacency));
    clients.clear();
    for (std::uint32_t i = 0; i < shards.size(); ++i)
      clients.emplace_back(Holding{i, shards[i].size(), Private<Shard>(shards[i]), &ledgers[i]}, problem,
                           mechanism, options, sigma);
  }

  // The protocol, one client after the other; `seen` sees every round's messages.
  template <class Seen>
  Status Run(Seen seen) {
    PrimalDual::Server server(problem, options);
    PrimalDual::Down down;
    Scratch scratch;
    NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
    scratch.rng = &rng;
    for (bool more = server.Start(down); more;) {
      rng.Rekey({.seed = 1, .purpose = Purpose::kNoise, .who = 0, .round = server.round()});
      PrimalDual::Sum sum;
      sum.Reset();
      std::vector<Vec> x_tilde;
      for (auto& c : clients) {
        PrimalDual::Up up;
        TACIT_OK(c.Round(down, up, scratch));
        sum.Add(up);
        x_tilde.push_back(*up.x_tilde);
      }
      TACIT_TRY(more, server.Round(sum, down, scratch));
      seen(x_tilde, *down.x_bar);
    }
    for (auto& c : clients) c.Finish(down);
    return Ok{};
  }
  Status Run() {
    return Run([](const auto&, const Vec&) {});
  }

  Dataset data;
  std::unique_ptr<Objective> f;
  std::unique_ptr<Regularizer> g;
  std::vector<Shard> shards;
  Problem problem;
  PrimalDual::Options options;
  std::vector<Ledger> ledgers;
  std::vector<PrimalDual::Client> clients;
};

std::vector<std::uint32_t> Rounds(std::uint32_t count) {
  std::vector<std::uint32_t> r(count);
  for (std::uint32_t t = 0; t < count; ++t) r[t] = t + 1;
  return r;
}

std::shared_ptr<const NoisePlan> Noise(std::size_t rounds, NoiseStd sigma) {
  return std::make_shared<const NoisePlan>(rounds, sigma);
}

Vec SumOfGradients(const Objective& f, const Shard& shard, View x) {
  Workspace ws;
  Vec norm(shard.size()), weight(shard.size(), 1.0), g(x.size());
  f.RecordNorms(shard, x, ws, norm);
  f.WeightedSum(shard, x, ws, weight, g);
  return g;
}

const PenaltyOptions kL1Box = {.name = Penalty::kL1Box, .weight = 0.01, .radius = 10.0};

TEST(PrimalDual, WithoutNoiseReachesTheOptimumOfTheReference) {
  for (const bool times_n : {true, false}) {
    World w(4, 30, 5, Loss::kLogistic, kL1Box);
    w.options.l2 = 0.1;
    w.options.scale = times_n ? 1.0 : 0.25;
    w.options.rounds = Rounds(times_n ? 1500 : 5000);
    w.Start(kExpose, Noise(w.options.rounds.size(), NoiseStd{1.0}));
    ASSERT_TRUE(w.Run().ok());
    const auto best = SolveReference(*w.f, w.shards, 0.1, *w.g);
    ASSERT_TRUE(best.ok());
    for (const auto& c : w.clients) EXPECT_LT(DistanceSquared(c.iterate(), best->x), 1e-20) << times_n;
  }
}

TEST(PrimalDual, MultipliersSumToZeroAndEveryMessageIsEquationSeven) {
  World w(5, 20, 4, Loss::kLogistic, kL1Box);
  w.options.l2 = 0.05;
  w.options.scale = 1.0 / 5;
  w.options.rounds = Rounds(200);
  w.Start(kExpose, Noise(200, NoiseStd{1.0}));
  // A second copy of the method in the paper's words, fed by nothing but its own state.
  std::vector<Vec> x(5, Vec(4)), lambda(5, Vec(4));
  const double gamma = 0.25;
  ASSERT_TRUE(w.Run([&](const std::vector<Vec>& sent, const Vec& x_bar) {
                 Vec total(4);
                 for (std::size_t i = 0; i < 5; ++i) {
                   const Vec g = SumOfGradients(*w.f, w.shards[i], x[i]);
                   for (std::size_t j = 0; j < 4; ++j) {
                     const double want = x[i][j] - gamma * ((g[j] / 20 + 0.05 * x[i][j]) / 5 + lambda[i][j]);
                     EXPECT_NEAR(sent[i][j], want, 1e-13);
                     lambda[i][j] += sent[i][j] - x_bar[j];
                     total[j] += lambda[i][j];
                     x[i][j] = sent[i][j] - gamma * (sent[i][j] - x_bar[j]);
                   }
                   w.g->Prox(gamma / 5, x[i]);
                 }
                 for (double s : total) EXPECT_NEAR(s, 0, 1e-13);
               }).ok());
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(w.clients[i].iterate()[j], x[i][j], 1e-12);
}

TEST(PrimalDual, TheBoxAsPrintedDivergesAndEquationSevenDoesNot) {
  // The misprint, here and nowhere else: x̃ = x − γ(1/n)∇f + ζ + Λ.
  World w(4, 30, 5, Loss::kLogistic, {});
  std::vector<Vec> x(4, Vec(5)), lambda(4, Vec(5)), x_tilde(4, Vec(5));
  double largest = 0;
  for (int t = 0; t < 300 && largest < 1e6; ++t) {
    Vec x_bar(5);
    for (std::size_t i = 0; i < 4; ++i) {
      const Vec g = SumOfGradients(*w.f, w.shards[i], x[i]);
      for (std::size_t j = 0; j < 5; ++j) {
        x_tilde[i][j] = x[i][j] - 0.25 / 4 * (g[j] / 30 + 0.1 * x[i][j]) + lambda[i][j];
        x_bar[j] += x_tilde[i][j] / 4;
      }
    }
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t j = 0; j < 5; ++j) {
        lambda[i][j] += x_tilde[i][j] - x_bar[j];
        x[i][j] = x_tilde[i][j] - 0.25 * (x_tilde[i][j] - x_bar[j]);
        largest = std::max(largest, std::abs(x_tilde[i][j]));
      }
  }
  EXPECT_GE(largest, 1e6);
  w.options.l2 = 0.1;
  w.options.scale = 0.25;
  w.options.rounds = Rounds(300);
  w.Start(kExpose, Noise(300, NoiseStd{1.0}));
  ASSERT_TRUE(w.Run([&](const std::vector<Vec>& sent, const Vec&) {
                 for (const Vec& v : sent)
                   for (double s : v) EXPECT_LT(std::abs(s), 100);
               }).ok());
}

TEST(PrimalDual, OneWorkerIsProximalGradientDescent) {  // bitwise: Λ stays 0
  World w(1, 40, 6, Loss::kLogistic, kL1Box);
  w.options.l2 = 0.1;
  w.options.rounds = Rounds(100);
  w.Start(kExpose, Noise(100, NoiseStd{1.0}));
  ASSERT_TRUE(w.Run().ok());
  Vec x(6);
  for (int t = 0; t < 100; ++t) {
    const Vec g = SumOfGradients(*w.f, w.shards[0], x);
    for (std::size_t j = 0; j < 6; ++j) x[j] = x[j] - 0.25 * (1.0 / 40 * g[j] + 0.1 * x[j] + 0.0);
    w.g->Prox(0.25, x);
  }
  EXPECT_EQ(Vec(w.clients[0].iterate().begin(), w.clients[0].iterate().end()), x);
}

TEST(PrimalDual, WorkersWithTheSameDataMoveAsOne) {
  World one(1, 40, 6, Loss::kLogistic, kL1Box), two(1, 40, 6, Loss::kLogistic, kL1Box);
  two.shards.push_back(two.shards[0]);
  two.problem.clients = 2;
  for (World* w : {&one, &two}) {
    w->options.l2 = 0.1;
    w->options.rounds = Rounds(50);
    w->Start(kExpose, Noise(50, NoiseStd{1.0}));
    ASSERT_TRUE(w->Run().ok());
  }
  for (const auto& c : two.clients)
    EXPECT_TRUE(std::equal(c.iterate().begin(), c.iterate().end(), one.clients[0].iterate().begin()));
}

TEST(PrimalDual, ProxUsesTheScaledStepAndTheBox) {
  // z = (0.5, −20), ω = 0.01, γ/n = 0.0125, α = 10 → (0.499875, −10).
  const auto g = MakeRegularizer({.name = Penalty::kL1Box, .weight = 0.01, .radius = 10.0});
  Vec z = {0.5, -20};
  (*g)->Prox(0.0125, z);
  EXPECT_NEAR(z[0], 0.499875, 1e-15);
  EXPECT_EQ(z[1], -10);
  // Through the method: one worker, no data (rows of zeros), x̃ = x − γ(0 + Λ) = 0 stays 0.
  World w(1, 3, 2, Loss::kLogistic, kL1Box);
  std::fill(w.data.value.begin(), w.data.value.end(), 0.0);
  test::FillNorms(w.data);
  w.options.rounds = Rounds(5);
  w.Start(kExpose, Noise(5, NoiseStd{1.0}));
  ASSERT_TRUE(w.Run().ok());
  EXPECT_EQ(w.clients[0].iterate()[0], 0.0);
}

TEST(PrimalDual, NoiseOnTheMessageHasStdGammaScaleSigmaOverRecords) {  // two statistics at 1e-6 each
  constexpr std::size_t kDim = 60000;
  World w(1, 7, 1, Loss::kLogistic, {});
  w.data = {};
  w.data.features = kDim;
  w.data.row_begin.assign(8, 0);  // seven empty sparse rows
  w.data.label.assign(7, 1.0);
  w.data.norm.assign(7, 0.0);
  w.shards = {Shard(w.data, 0, 7)};
  w.problem.dim = kDim;
  w.options.scale = 0.05;
  w.options.rounds = Rounds(1);
  const LatticeGaussian lattice;
  w.Start(lattice, Noise(1, NoiseStd{12.5}));
  const double std = 0.25 * 0.05 * 12.5 / 7, n = kDim;
  ASSERT_TRUE(w.Run([&](const std::vector<Vec>& sent, const Vec&) {
                 double mean = 0, square = 0;
                 for (double v : sent[0]) mean += v / std / n, square += v * v / (std * std) / n;
                 EXPECT_LT(std::abs(mean) * std::sqrt(n), kSix);
                 EXPECT_LT(std::abs(square - 1) * std::sqrt(n / 2), kSix);
               }).ok());
}

TEST(PrimalDual, SkippedRoundsTouchNothing) {
  // Rounds 1–3 against rounds 4, 6 and 9 of nine: the same three steps and charges, nothing in between.
  World all(3, 20, 4, Loss::kLogistic, kL1Box), some(3, 20, 4, Loss::kLogistic, kL1Box);
  all.options.rounds = {1, 2, 3};
  some.options.rounds = {4, 6, 9};
  std::size_t messages[2] = {0, 0};
  for (int k = 0; k < 2; ++k) {
    World& w = k == 0 ? all : some;
    w.Start(kExpose, Noise(3, NoiseStd{1.0}));
    ASSERT_TRUE(w.Run([&](const auto&, const Vec&) { ++messages[k]; }).ok());
    for (const Ledger& l : w.ledgers) EXPECT_EQ(l.charges(), 3u);
  }
  EXPECT_EQ(messages[0], messages[1]);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(std::equal(all.clients[i].iterate().begin(), all.clients[i].iterate().end(),
                           some.clients[i].iterate().begin()));
  PrimalDual::Options none;
  PrimalDual::Down down;
  EXPECT_FALSE(PrimalDual::Server(Problem{}, none).Start(down));
}

TEST(PrimalDual, ARefusedWorkerSendsNothing) {
  World w(2, 10, 3, Loss::kLogistic, kL1Box);
  w.options.clip = L2Bound{1.0};
  w.options.rounds = Rounds(10);
  const LatticeGaussian lattice;
  w.Start(lattice, Noise(10, NoiseStd{2.0}), Squared(Mu{1.5}));  // μ = 1 a round: two fit
  std::size_t rounds = 0;
  const Status s = w.Run([&](const auto&, const Vec&) { ++rounds; });
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Code::kBudget);
  EXPECT_EQ(rounds, 2u);
  EXPECT_LE(w.ledgers[0].spent(), w.ledgers[0].budget());
}

TEST(PrimalDual, PaperModeRecordsItsClaimAndClipsNothing) {
  World w(2, 10, 3, Loss::kLeastSquares, kL1Box);
  w.options.certified = false;
  w.options.clip = L2Bound::Proven(1e-9);  // assumed by the calibration, enforced by nobody
  w.options.claim = {"eq. (9)", Epsilon{1.0}, Delta{1e-4}};
  w.options.rounds = Rounds(3);
  w.Start(kReal, Noise(3, NoiseStd::Proven(1e-12)));
  ASSERT_TRUE(w.Run().ok());
  EXPECT_EQ(w.ledgers[0].spent().value(), kInf);
  EXPECT_EQ(w.ledgers[0].claims(), 3u);
  EXPECT_GT(Norm(w.clients[0].iterate()), 1e-3);
}

// n = 20, m = 100, B = 1, γ = 0.25, (ε, δ) = (1, 1e-4).
TEST(Theory, TheNoiseTermOfTheBoundAsPrinted) {
  const double rho = ZcdpRho(Epsilon{1.0}, Delta{1e-4}).value();
  EXPECT_NEAR(PrimalDualTheory::PrintedNoiseTerm(1, 22, rho, 20, 100, 0.1), 8.5394317, 1e-7);
}

TEST(Theory, WeightsAndAllocationOfThePaperSetting) {
  const struct {
    double mu_f;
    std::size_t rounds;
    double mu, sum_root_q, first, last, ratio;
  } kCases[] = {
      {0.1, 1000, 0.2269926806, 79.4965825857, 479.202650034, 0.00154285372182, 6.3294077},
      {0.1, 1000, 0.3139024583, 79.4965825857, 250.584084755, 0.000806787249125, 6.3294077},
      {0.005, 1000, 0.2269926806, 743.683919777, 0.0269585741968, 0.014433268276, 1.03238229},
      {0.1, 8000, 0.2269926806, 0, 1.46004300e41, 0, 0},
  };
  for (const auto& c : kCases) {
    const PrimalDualTheory theory{.gamma = 0.25, .mu_f = c.mu_f, .l_f = 1, .sharp = false};
    const Vec log_q = theory.LogWeights(c.rounds), log_delta(c.rounds, std::log(2.0 / (20 * 100)));
    EXPECT_EQ(log_q.back(), 0.0);
    double sum = 0;
    for (double q : log_q) sum += std::exp(q / 2);
    const Shares shares = WaterFillingShares(log_q, log_delta, 0);
    const auto variance = [&](std::size_t t) {
      return std::exp(2 * log_delta[t] - shares.log_share[t] - 2 * std::log(c.mu));
    };
    EXPECT_NEAR(variance(0) / c.first, 1, 1e-8);
    if (c.last == 0) continue;
    EXPECT_NEAR(sum / c.sum_root_q, 1, 1e-9);
    EXPECT_NEAR(variance(c.rounds - 1) / c.last, 1, 1e-8);
    EXPECT_NEAR(NoiseCost(UniformShares(c.rounds), log_q, log_delta, Mu{0.1}) /
                    NoiseCost(shares, log_q, log_delta, Mu{0.1}) / c.ratio,
                1, 1e-7);
  }
}

TEST(Theory, TheSharpFactorIsSmallerAndItsBoundAboutAQuarter) {
  const PrimalDualTheory printed{.gamma = 0.25, .mu_f = 0.1, .l_f = 1, .sharp = false};
  PrimalDualTheory sharp = printed;
  sharp.sharp = true;
  EXPECT_EQ(printed.Factor(), 1 - 0.25 * 0.1);
  EXPECT_NEAR(sharp.Factor(), 0.975 * 0.975, 1e-15);
  EXPECT_EQ((PrimalDualTheory{.gamma = 0.25, .mu_f = 4, .l_f = 4}.Factor()), 0.75);  // 1 − γ takes over
  EXPECT_EQ((PrimalDualTheory{.gamma = 0.25, .mu_f = 4, .l_f = 4, .sharp = false}.Factor()), 0.75);
  const Vec log_delta(1000, 0.0);
  const auto cost = [&](const PrimalDualTheory& t) {
    const Vec q = t.LogWeights(1000);
    return NoiseCost(WaterFillingShares(q, log_delta, 0), q, log_delta, Mu{1.0});
  };
  EXPECT_NEAR(cost(printed) / cost(sharp), 3.95, 0.005);
  EXPECT_EQ(printed.LargestStep(), 0.25);
  EXPECT_EQ((PrimalDualTheory{.gamma = 1, .mu_f = 1, .l_f = 10}.LargestStep()), 0.1);
}

TEST(Theory, CertifiedNoiseIsSevenTenthsOfThePapers) {
  const double paper = std::sqrt(2 * ZcdpRho(Epsilon{1.0}, Delta{1e-4}).value());
  EXPECT_NEAR(paper / GdpMu(Epsilon{1.0}, Delta{1e-4}).value(), 0.723131, 1e-6);
}

}  // namespace
}  // namespace tacit
