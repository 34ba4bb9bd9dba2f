#include "algorithms/fed_avg.h"

#include <gtest/gtest.h>

#include <cmath>

#include "algorithms/adaptive_clip.h"
#include "algorithms/fed_exp.h"
#include "algorithms/scaffold.h"
#include "models/test_data.h"
#include "privacy/joint_release.h"

namespace tacit {
namespace {

constexpr double kSix = 4.892;  // two-sided normal quantile of 1e-6, the false-alarm rate of each statistic

const Expose kExpose{};
const LatticeGaussian kLattice{};

// n clients with m records each.
struct World {
  World(std::size_t n, std::size_t m, std::size_t d, Loss loss = Loss::kLogistic, std::uint64_t seed = 3)
      : data(test::RandomData(loss, 2, n * m, d, 1.0, seed)), f(MakeObjective(loss, 2)) {
    test::FillNorms(data);
    for (std::size_t i = 0; i < n; ++i) shards.emplace_back(data, i * m, m);
    problem = {.f = f.get(), .g = nullptr, .l2 = 0, .dim = d, .clients = static_cast<std::uint32_t>(n)};
    problem.start.assign(d, 0.0);
    Budget(kInf);
  }
  void Budget(double mu_squared, Adjacency adjacency = Adjacency::kReplaceOne) {
    book = std::make_unique<LedgerBook>(std::vector<MuSquared>(shards.size(), MuSquared::Proven(mu_squared)),
                                        adjacency);
  }
  template <class A>
  typename A::Client Make(std::uint32_t i, const typename A::Options& o) {
    return
        typename A::Client({i, shards[i].size(), Private<Shard>(shards[i]), &book->account(i)}, problem, o);
  }

  // The protocol, one client after the other; returns the model, and the step sizes if there are any.
  template <class A>
  Result<Vec> Run(const typename A::Options& o, std::vector<double>* steps = nullptr) {
    typename A::Server server(problem, o, *book);
    typename A::Down down;
    Scratch scratch;
    NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
    scratch.rng = &rng;
    std::vector<typename A::Client> clients;
    for (std::uint32_t i = 0; i < shards.size(); ++i) clients.push_back(Make<A>(i, o));
    for (bool more = server.Start(down); more;) {
      rng.Rekey({.seed = 1, .purpose = Purpose::kNoise, .who = 0, .round = server.round()});
      typename A::Sum sum;
      sum.Reset();
      for (auto& c : clients) {
        typename A::Up up;
        TACIT_OK(c.Round(down, up, scratch));
        sum.Add(up);
      }
      TACIT_TRY(more, server.Round(sum, down, scratch));
      if constexpr (requires { server.step_size(); })
        if (steps != nullptr) steps->push_back(server.step_size());
    }
    return Vec(server.model().begin(), server.model().end());
  }

  Dataset data;
  std::unique_ptr<Objective> f;
  std::vector<Shard> shards;
  Problem problem;
  std::unique_ptr<LedgerBook> book;
};

template <class A>
typename A::Options Make(const Mechanism& mechanism, double clip, double sigma, std::uint32_t rounds) {
  typename A::Options o;
  for (std::uint32_t t = 1; t <= rounds; ++t) o.rounds.push_back(t);
  o.local = {.rate = 0.2, .steps = 3};
  o.noise.clip = L2Bound::Proven(clip);
  o.noise.mechanism = &mechanism;
  o.noise.sigma = std::make_shared<const NoisePlan>(rounds, NoiseStd::Proven(sigma));
  o.noise.variance = std::make_shared<const Vec>(rounds, sigma * sigma);
  return o;
}

Vec Gradient(const World& w, View x) {  // of (1/n) Σ f_i
  Vec g(x.size());
  for (const Shard& s : w.shards) {
    Workspace ws;
    Vec norm(s.size()), part(x.size());
    w.f->RecordNorms(s, x, ws, norm);
    w.f->WeightedSum(s, x, ws, Vec(s.size(), 1.0), part);
    Axpy(1.0 / static_cast<double>(s.size() * w.shards.size()), part, g);
  }
  return g;
}

TEST(FedAvg, OneLocalStepWithoutNoiseIsGradientDescent) {
  World w(5, 8, 4);
  Vec x(4);
  for (int t = 0; t < 20; ++t) Axpy(-0.2, Gradient(w, x), x);
  const auto check = [&](const Vec& got) {
    for (std::size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(got[j], x[j], 1e-13);
  };
  auto local = Make<FedAvg<LocalNoise>>(kExpose, 1e6, 1, 20);
  local.local.steps = 1;
  check(*w.Run<FedAvg<LocalNoise>>(local));
  auto central = Make<FedAvg<TrustedServer>>(kExpose, 1e6, 1, 20);
  central.local.steps = 1;
  check(*w.Run<FedAvg<TrustedServer>>(central));
}

TEST(FedAvg, AStepSizeOfOneIsFedAvgBitForBit) {
  World w(5, 8, 4);
  const Vec average = *w.Run<FedAvg<LocalNoise>>(Make<FedAvg<LocalNoise>>(kLattice, 0.5, 0.3, 10));
  // σ so large that the estimate of the squared lengths is below ‖c̄‖² would be luck; a model with one client
  // has S = ‖c_1‖² − dσ² < ‖c̄‖² always.
  World one(1, 8, 4);
  const Vec a = *one.Run<FedAvg<LocalNoise>>(Make<FedAvg<LocalNoise>>(kLattice, 0.5, 0.3, 10));
  std::vector<double> steps;
  const Vec b = *one.Run<FedExp<LocalNoise>>(Make<FedExp<LocalNoise>>(kLattice, 0.5, 0.3, 10), &steps);
  EXPECT_EQ(a, b);
  for (const double s : steps) EXPECT_EQ(s, 1.0);
  EXPECT_EQ(average.size(), 4u);
}

TEST(FedAvg, ZeroControlVariatesMakeScaffoldFedAvgBitForBit) {
  World w(5, 8, 4);
  const auto same = [&]<class Trust>(Trust) {
    auto o = Make<Scaffold<Trust>>(kLattice, 0.5, 0.3, 10);
    o.control = false;
    EXPECT_EQ(*w.Run<Scaffold<Trust>>(o), *w.Run<FedAvg<Trust>>(Make<FedAvg<Trust>>(kLattice, 0.5, 0.3, 10)));
    o.control = true;
    EXPECT_NE(*w.Run<Scaffold<Trust>>(o), *w.Run<FedAvg<Trust>>(Make<FedAvg<Trust>>(kLattice, 0.5, 0.3, 10)));
  };
  same(LocalNoise{});
  same(TrustedServer{});
}

TEST(FedAvg, WithoutNoiseScaffoldRemovesTheDriftThatFedAvgKeeps) {
  World w(4, 6, 3, Loss::kLeastSquares);
  const auto residual = [&]<class A>(A) {
    auto o = Make<A>(kExpose, 1e6, 1, 400);
    o.local = {.rate = 0.05, .steps = 10};
    return Norm(Gradient(w, *w.Run<A>(o)));
  };
  EXPECT_LT(residual(Scaffold<LocalNoise>{}), 1e-10);
  EXPECT_LT(residual(Scaffold<TrustedServer>{}), 1e-10);
  EXPECT_GT(residual(FedAvg<LocalNoise>{}), 1e-3);
}

TEST(FedExp, TheStepOfTwoKnownMessages) {  // c = (3, 0), (0, 4), σ = 1: S = 12.5 − 2, ‖c̄‖² = 6.25
  // One record each, least squares: Δ_i = η_l·y·a with x = 0, so these updates can be made without noise.
  World w(2, 1, 2, Loss::kLeastSquares);
  w.data.value = {3, 0, 0, 4};
  w.data.label = {1, 1};
  test::FillNorms(w.data);
  const auto step = [&](bool naive, const Mechanism& mechanism, double sigma) {
    auto o = Make<FedExp<LocalNoise>>(mechanism, 1e6, sigma, 1);
    o.local = {.rate = 1, .steps = 1};
    o.step.naive = naive;
    std::vector<double> steps;
    EXPECT_TRUE(w.Run<FedExp<LocalNoise>>(o, &steps).ok());
    return steps[0];
  };
  EXPECT_DOUBLE_EQ(step(true, kExpose, 1), 2.0);
  EXPECT_DOUBLE_EQ(step(false, kExpose, 1), 2.0);  // without noise nothing is subtracted
  MeanUpdate known;
  EXPECT_EQ(ExtrapolatedStep{}(known), 1.0);  // ‖c̄‖ = 0
  // The same messages as if they carried noise of σ = 1.
  auto o = Make<FedExp<LocalNoise>>(kExpose, 1e6, 1, 1);
  o.local = {.rate = 1, .steps = 1};
  LocalNoise::Sum sum;
  Scratch scratch;
  NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
  scratch.rng = &rng;
  for (std::uint32_t i = 0; i < 2; ++i) {
    LocalNoise::Up up;
    ASSERT_TRUE(w.Make<FedExp<LocalNoise>>(i, o).Round({}, up, scratch).ok());
    sum.Add(up);
  }
  o.noise.mechanism = &kLattice;
  ASSERT_TRUE(LocalNoise::Mean(o.noise, 0, sum, *w.book, known, scratch).ok());
  EXPECT_DOUBLE_EQ(ExtrapolatedStep{}(known), 1.68);
  EXPECT_DOUBLE_EQ(ExtrapolatedStep{.naive = true}(known), 2.0);
}

TEST(FedExp, TheEstimateOfSquaredLengthsIsUnbiased) {
  // 64 clients, 5 coordinates, σ = 0.5: the estimate's variance is (4σ²·mean‖Δ‖² + 2dσ⁴)/64 per round.
  World w(64, 2, 5);
  const double sigma = 0.5;
  double truth = 0;
  {
    auto o = Make<FedExp<LocalNoise>>(kExpose, 0.3, sigma, 1);
    std::vector<double> steps;
    const Vec x = *w.Run<FedExp<LocalNoise>>(o, &steps);
    // Without noise η_g·c̄ = x and η_g = S/‖c̄‖², so S = ‖x‖²/η_g.
    truth = NormSquared(x) / steps[0];
  }
  ASSERT_GT(truth, 0);
  const std::uint32_t rounds = 400;
  auto o = Make<FedExp<LocalNoise>>(kLattice, 0.3, sigma, rounds);
  FedExp<LocalNoise>::Server server(w.problem, o, *w.book);
  Scratch scratch;
  NoiseRng rng = NoiseRng::Replayable({.seed = 5, .purpose = Purpose::kNoise});
  scratch.rng = &rng;
  double mean = 0;
  for (std::uint32_t t = 0; t < rounds; ++t) {
    FedExp<LocalNoise>::Down down;
    LocalNoise::Sum sum;
    sum.Reset();
    for (std::uint32_t i = 0; i < 64; ++i) {
      LocalNoise::Up up;
      ASSERT_TRUE(w.Make<FedExp<LocalNoise>>(i, o).Round(down, up, scratch).ok());
      sum.Add(up);
    }
    MeanUpdate got;
    ASSERT_TRUE(LocalNoise::Mean(o.noise, t, sum, *w.book, got, scratch).ok());
    mean += got.square / rounds;
  }
  const double sd = std::sqrt((4 * sigma * sigma * truth + 2 * 5 * std::pow(sigma, 4)) / 64 / rounds);
  EXPECT_NEAR(mean, truth, kSix * sd);
}

TEST(FedExp, WithATrustedServerTheStepSizeIsFree) {
  const std::uint32_t rounds = 50;
  const L2Bound clip{0.7};
  // The same noise and charges with and without the squared lengths.
  const auto spent = [&]<class A>(A, double square) {
    World w(40, 2, 6);
    auto o = Make<A>(kLattice, clip.value(), 2.0, rounds);
    o.noise.square = square;
    EXPECT_TRUE(w.Run<A>(o).ok());
    return std::sqrt(w.book->largest_spent().value());
  };
  const double plain = spent(FedAvg<TrustedServer>{}, 0);
  EXPECT_NEAR(plain, 2 * 0.7 / 2.0 * std::sqrt(50.0), 1e-7);
  EXPECT_NEAR(spent(FedExp<TrustedServer>{}, FreeSquare(clip)), plain, 1e-7);
  EXPECT_GT(spent(FedExp<TrustedServer>{}, 1.01 * FreeSquare(clip)), plain * 1.0005);
}

TEST(FedExp, TheSquareFactorIsTheLargestDistanceFoundBySearch) {
  EXPECT_NEAR(FreeSquare(L2Bound{1.0}), std::sqrt((11 + 5 * std::sqrt(5.0)) / 8), 1e-9);
  EXPECT_NEAR(1 / FreeSquare(L2Bound{1.0}), 0.600566212002, 1e-9);  // s2/(C·s1) at least
  for (const double x : {0.1, 1.0, 1.6650, 1.6651, 1.7, 2.0, 3.0, 10.0, 100.0}) {
    // ‖(u, xa²) − (v, xb²)‖/2 over all lengths a, b ≤ 1; antipodal directions are the worst.
    double most = 0;
    for (int i = 0; i <= 1000; ++i)
      for (int k = 0; k <= 1000; ++k) {
        const double a = i / 1000.0, b = k / 1000.0;
        most = std::max(most, std::hypot(a + b, x * (a * a - b * b)) / 2);
      }
    EXPECT_GE(SquareFactor(x), most) << x;
    EXPECT_NEAR(SquareFactor(x), most, 1e-5 * most) << x;
  }
  // d = 500, M = 1000, noise as printed: s1 = 5C/M, s2 = 25dC²/M², so λC = s1·C/s2 = M/(5d).
  EXPECT_EQ(SquareFactor(1000.0 / (5 * 500)), 1.0);
  EXPECT_EQ(SquareFactor(1000.0 / (5 * 121)), 1.0);
  EXPECT_GT(SquareFactor(1000.0 / (5 * 120)), 1.0);
  EXPECT_NEAR(0.16 * std::pow(SquareFactor(1000.0 / (5 * 100)), 2), 0.20578427, 1e-8);
}

TEST(FedAvg, EveryClientPaysForATrustedServersSumAndNobodyPastTheBudget) {
  World w(10, 3, 4);
  const auto o = Make<FedAvg<TrustedServer>>(kLattice, 1.0, 4.0, 6);
  w.Budget(4 * 0.25 * (1 + 1e-6));  // μ = 2C/σ = ½ a round: enough for four
  const auto refused = w.Run<FedAvg<TrustedServer>>(o);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kBudget);
  for (std::uint32_t i = 0; i < 10; ++i) {
    EXPECT_EQ(w.book->account(i).charges(), 4u);
    EXPECT_NEAR(w.book->account(i).spent().value(), 1.0, 1e-6);
  }
}

TEST(FedAvg, AClientsWholeContributionMovesTheSumByTwiceTheClipAtMost) {
  // The least favourable client: its data blow up. Its update is clipped, or 0 where it cannot be measured.
  World w(3, 2, 2, Loss::kLeastSquares);
  w.data.value.assign(w.data.value.size(), 1.0);
  for (const double bad : {1e200, -1e200, std::numeric_limits<double>::infinity(), std::nan("")}) {
    w.data.value[0] = w.data.value[1] = w.data.value[2] = w.data.value[3] = bad;
    test::FillNorms(w.data);
    auto o = Make<FedAvg<TrustedServer>>(kExpose, 0.5, 1, 3);
    const auto model = w.Run<FedAvg<TrustedServer>>(o);
    ASSERT_TRUE(model.ok());
    for (const double v : *model) {
      EXPECT_TRUE(std::isfinite(v));
      EXPECT_LE(std::abs(v), 3 * 0.5);
    }
  }
}

TEST(FedAvg, TheModelIsTheMeanOfTheLastIterates) {
  World w(3, 5, 3);
  const auto run = [&](std::uint32_t rounds, std::size_t last) {
    auto o = Make<FedAvg<LocalNoise>>(kExpose, 1e6, 1, rounds);
    o.last = last;
    return *w.Run<FedAvg<LocalNoise>>(o);
  };
  const Vec a = run(9, 1), b = run(10, 1), mean = run(10, 2), early = run(1, 5), first = run(1, 1);
  for (std::size_t j = 0; j < a.size(); ++j) EXPECT_NEAR(mean[j], (a[j] + b[j]) / 2, 1e-15);
  EXPECT_EQ(early, first);
}

// PrivUnit for the direction with all of ε, ScalarDP for the length.
LocalRandomizer Randomizer(std::size_t d, double direction, double length, double clip) {
  const auto unit = PrivUnit::Optimal(Epsilon::Proven(direction), d);
  const auto scalar = ScalarDp::Make(Epsilon::Proven(length), L2Bound::Proven(clip));
  EXPECT_TRUE(unit.ok() && scalar.ok());
  return {*unit, *scalar};
}

TEST(LocalUnit, TheServerAddsUpWhatEveryClientEstimates) {
  World w(7, 3, 5);
  const LocalRandomizer r = Randomizer(5, 3, 2, 0.5);
  auto o = Make<FedAvg<LocalUnit>>(kExpose, 0.5, 1, 1);
  o.noise.randomizer = &r;
  Scratch s;
  NoiseRng rng = NoiseRng::Replayable({.seed = 4, .purpose = Purpose::kNoise});
  s.rng = &rng;
  LocalUnit::Sum all, first, second;
  for (LocalUnit::Sum* sum : {&all, &first, &second}) sum->Reset();
  Vec mean(5);
  double square = 0, noisy = 0;
  for (std::uint32_t i = 0; i < 7; ++i) {
    LocalUnit::Up up;
    ASSERT_TRUE(w.Make<FedAvg<LocalUnit>>(i, o).Round({}, up, s).ok());
    all.Add(up);
    (i < 3 ? first : second).Add(up);
    const View c = LocalUnit::Counted(o.noise, up, s);
    Axpy(1.0 / 7, c, mean);
    noisy += NormSquared(c) / 7;
    square += r.SquareEstimate(up.level) / 7;
    EXPECT_LE(*up.level, r.length().k());
    // 4 bytes a coordinate and a level instead of 8 bytes a coordinate.
    EXPECT_EQ(WireSize(up), kFrameHeader + 4 + 8 + 4 * 5);
  }
  LocalUnit::Sum none;
  none.Reset();
  first.Merge(none);
  first.Merge(second);
  for (LocalUnit::Sum* sum : {&all, &first}) {
    MeanUpdate got;
    ASSERT_TRUE(LocalUnit::Mean(o.noise, 0, *sum, *w.book, got, s).ok());
    EXPECT_EQ(LocalUnit::Count(*sum), 7u);
    for (std::size_t j = 0; j < 5; ++j) EXPECT_NEAR((*got.value)[j], mean[j], 1e-12);
    EXPECT_NEAR(got.square, square, 1e-13);
    EXPECT_NEAR(got.noisy_square, noisy, 1e-8 * noisy);  // V is a unit vector up to its grid
  }
}

TEST(LocalUnit, TheMeanIsUnbiasedAndTheSquaredLengthNotTooLarge) {
  // 64 clients, 400 rounds from the same model: 7 statistics.
  World w(64, 2, 5);
  const double clip = 0.3;
  const LocalRandomizer r = Randomizer(5, 4, 3, clip);
  auto exact = Make<FedAvg<LocalNoise>>(kExpose, clip, 1, 1);
  auto o = Make<FedAvg<LocalUnit>>(kExpose, clip, 1, 400);
  o.noise.randomizer = &r;
  Scratch s;
  NoiseRng rng = NoiseRng::Replayable({.seed = 6, .purpose = Purpose::kNoise});
  s.rng = &rng;
  Vec truth(5);
  double square = 0, variance = 0;  // of Δ̄, mean ‖Δ_i‖², Σ E‖c_i − Δ_i‖²/64²
  for (std::uint32_t i = 0; i < 64; ++i) {
    LocalNoise::Up up;
    ASSERT_TRUE(w.Make<FedAvg<LocalNoise>>(i, exact).Round({}, up, s).ok());
    Axpy(1.0 / 64, *up.update, truth);
    square += NormSquared(*up.update) / 64;
    variance += r.SecondMoment(Norm(*up.update)) / (64.0 * 64.0);
  }
  const std::uint32_t rounds = 400;
  Vec mean(5);
  double estimate = 0, spread = 0;
  for (std::uint32_t t = 0; t < rounds; ++t) {
    LocalUnit::Sum sum;
    sum.Reset();
    for (std::uint32_t i = 0; i < 64; ++i) {
      LocalUnit::Up up;
      ASSERT_TRUE(w.Make<FedAvg<LocalUnit>>(i, o).Round({}, up, s).ok());
      sum.Add(up);
    }
    MeanUpdate got;
    ASSERT_TRUE(LocalUnit::Mean(o.noise, t, sum, *w.book, got, s).ok());
    Axpy(1.0 / rounds, *got.value, mean);
    estimate += got.square / rounds;
    spread += got.square * got.square / rounds;
  }
  // A coordinate has at most the variance of the whole vector.
  for (std::size_t j = 0; j < 5; ++j)
    EXPECT_NEAR(mean[j], truth[j], kSix * std::sqrt(variance / rounds)) << j;
  const double sd = std::sqrt((spread - estimate * estimate) / rounds), k = r.length().k();
  EXPECT_LT(estimate, square + kSix * sd);
  EXPECT_GT(estimate, square - clip * clip / (4 * k * k) - kSix * sd);
}

TEST(LocalUnit, EveryClientPaysForDirectionAndLengthAndNobodyPastTheBudget) {
  const LocalRandomizer r = Randomizer(4, 1, 1, 0.5);
  const double each = Cost(r.direction().event()).value() + Cost(r.length().event()).value();
  const auto check = [&]<class A>(A) {
    World w(5, 3, 4);
    auto o = Make<A>(kExpose, 0.5, 1, 6);
    o.noise.randomizer = &r;
    w.Budget(4 * each * (1 + 1e-6));  // enough for four rounds
    const auto refused = w.Run<A>(o);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kBudget);
    EXPECT_EQ(w.book->account(0).charges(), 8u);
    for (std::uint32_t i = 0; i < 5; ++i) EXPECT_NEAR(w.book->account(i).spent().value(), 4 * each, 1e-9);
    w.Budget(6 * each * (1 + 1e-6));
    EXPECT_TRUE(w.Run<A>(o).ok());
  };
  check(FedAvg<LocalUnit>{});
  check(FedExp<LocalUnit>{});
  check(Scaffold<LocalUnit>{});
}

TEST(LocalUnit, ZeroControlVariatesMakeScaffoldFedAvgBitForBit) {
  World w(5, 8, 4);
  const LocalRandomizer r = Randomizer(4, 3, 2, 0.5);
  auto scaffold = Make<Scaffold<LocalUnit>>(kExpose, 0.5, 1, 10);
  auto average = Make<FedAvg<LocalUnit>>(kExpose, 0.5, 1, 10);
  scaffold.noise.randomizer = average.noise.randomizer = &r;
  scaffold.control = false;
  EXPECT_EQ(*w.Run<Scaffold<LocalUnit>>(scaffold), *w.Run<FedAvg<LocalUnit>>(average));
  scaffold.control = true;
  EXPECT_NE(*w.Run<Scaffold<LocalUnit>>(scaffold), *w.Run<FedAvg<LocalUnit>>(average));
}

TEST(LocalUnit, LittleNoiseMakesItFederatedAveraging) {
  // ε = 12 for a direction in the plane and 24 for the length: m is near 1, and so is the randomised mean.
  World w(200, 4, 2);
  const LocalRandomizer r = Randomizer(2, 12, 24, 0.5);
  EXPECT_GT(r.direction().m(), 0.99);
  auto o = Make<FedAvg<LocalUnit>>(kExpose, 0.5, 1, 20);
  o.noise.randomizer = &r;
  const Vec exact = *w.Run<FedAvg<LocalNoise>>(Make<FedAvg<LocalNoise>>(kExpose, 0.5, 1, 20));
  const Vec noisy = *w.Run<FedAvg<LocalUnit>>(o);
  EXPECT_LT(std::sqrt(DistanceSquared(exact, noisy)), 0.05 * Norm(exact));
}

TEST(ServerOptimizer, MomentumAndAdamAreTheirRecursions) {
  const Vec updates[] = {{1, -2}, {0.5, 0}, {-3, 1e-9}};
  ServerDirection momentum({.kind = ServerOptimizer::Kind::kMomentum, .momentum = 0.5});
  ServerDirection adam({.kind = ServerOptimizer::Kind::kAdam, .momentum = 0.5, .second = 0.75, .floor = 0.1});
  Vec m(2), first(2), second(2, 0.01);
  for (const Vec& u : updates) {
    const View a = momentum(u, 1), b = adam(u, 1);
    for (std::size_t j = 0; j < 2; ++j) {
      m[j] = 0.5 * m[j] + u[j];
      EXPECT_DOUBLE_EQ(a[j], m[j]);
      first[j] = 0.5 * first[j] + 0.5 * u[j];
      second[j] = 0.75 * second[j] + 0.25 * u[j] * u[j];
      EXPECT_DOUBLE_EQ(b[j], first[j] / (std::sqrt(second[j]) + 0.1));
    }
  }
  ServerDirection sums({.kind = ServerOptimizer::Kind::kMomentum, .momentum = 0.5});
  EXPECT_EQ(sums(Vec{4, 8}, 4)[1], 2);  // a sum over four clients
}

TEST(ServerOptimizer, NoMomentumIsAPlainStepAndItCostsNothing) {
  const auto run = [&]<class A>(A, ServerOptimizer server) {
    World w(5, 8, 4);
    auto o = Make<A>(kLattice, 0.5, 0.3, 10);
    o.server = server;
    Vec model = *w.Run<A>(o);
    return std::pair(std::move(model), w.book->largest_spent().value());
  };
  using Kind = ServerOptimizer::Kind;
  const auto check = [&]<class A>(A a) {
    const auto plain = run(a, {}), still = run(a, {.kind = Kind::kMomentum, .momentum = 0});
    const auto momentum = run(a, {.kind = Kind::kMomentum}), adam = run(a, {.kind = Kind::kAdam});
    for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(plain.first[j], still.first[j], 1e-14);
    EXPECT_NE(plain.first, momentum.first);
    EXPECT_NE(momentum.first, adam.first);
    EXPECT_EQ(plain.second, momentum.second);
    EXPECT_EQ(plain.second, adam.second);
  };
  check(FedAvg<LocalNoise>{});
  check(FedAvg<TrustedServer>{});
  check(Scaffold<LocalNoise>{});
  check(AdaptiveFedAvg<LocalNoise>{});
}

// Updates (4, 0), (0, 8), (−2, 2) with weights 1, 1/2 and 1/4, 7/4 in all: Σ w_i Δ_i = (7/2, 9/2) and
// Σ w_i‖Δ_i‖² = 16 + 32 + 2.
TEST(Weights, AMeanOfThreeByHand) {
  World world(3, 1, 2);
  const auto mean = [&]<class Trust>(Trust, double square, double expected) {
    UpdateNoise n;
    n.clip = L2Bound{100.0};
    n.square = square;
    n.sigma = std::make_shared<const NoisePlan>(1, NoiseStd{1.0});
    n.variance = std::make_shared<const Vec>(1, 1.0);
    n.mechanism = &kExpose;
    n.expected = expected, n.most = 3, n.dim = 2;
    NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
    Scratch s;
    s.rng = &rng;
    typename Trust::Sum sum, rest;
    sum.Reset(), rest.Reset();
    const Vec updates[] = {{4, 0}, {0, 8}, {-2, 2}};
    for (std::uint32_t i = 0; i < 3; ++i) {
      s.update = Private<Vec>(updates[i]);
      const Holding own{i, 1, Private<Shard>(world.shards[i]), &world.book->account(i),
                        std::ldexp(1.0, -static_cast<int>(i))};
      typename Trust::Up up;
      EXPECT_TRUE(Trust::Send(n, 0, own, up, s).ok());
      (i == 0 ? sum : rest).Add(up);
    }
    sum.Merge(rest);
    EXPECT_EQ(Trust::Weight(sum), 1.75);
    EXPECT_EQ(Trust::Count(sum), 3u);
    MeanUpdate out;
    EXPECT_TRUE(Trust::Mean(n, 0, sum, *world.book, out, s).ok());
    return out;
  };
  const MeanUpdate local = mean(WeightedNoise{}, 0, 0);
  EXPECT_EQ(*local.value, (Vec{2, 4.5 / 1.75}));
  EXPECT_EQ(local.square, 50 / 1.75);
  EXPECT_EQ(local.noisy_square, 50 / 1.75);
  const MeanUpdate central = mean(TrustedServer{}, 0.25, 0);
  EXPECT_EQ(*central.value, (Vec{2, 4.5 / 1.75}));
  EXPECT_DOUBLE_EQ(central.square, 50 / 1.75);
  const MeanUpdate sampled = mean(TrustedServer{}, 0.25, 3.5);  // a secret sample: by what is expected
  EXPECT_EQ(*sampled.value, (Vec{1, 4.5 / 3.5}));
  EXPECT_DOUBLE_EQ(sampled.square, 50 / 3.5);
}

// Whatever the weight, a client moves the sum by no more than the bound, which is that of weight 1.
TEST(Weights, NoWeightMovesTheSumFurtherThanItsBound) {
  const L2Bound clip{0.7};
  Stream random({.seed = 5, .purpose = Purpose::kData});
  const auto entrusted = [&](const Vec& v, double weight, double square, double indicator) {
    UpdateNoise n;
    n.clip = clip, n.square = square, n.indicator = indicator;
    Private<Vec> x(v);
    Entrusted one;
    ClippedUpdate(n, x).Entrust(one, weight);
    EntrustedSum sum;
    sum.Reset();
    sum.Add(one);
    EXPECT_EQ(sum.weight(), weight);
    const Bounded total = sum.Total();
    LedgerBook book(std::vector<MuSquared>(1, MuSquared::Proven(kInf)), Adjacency::kReplaceOne);
    NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
    NoiseBuffer buffer;
    Released<Vec> out;
    EXPECT_TRUE(kExpose.ReleaseForAll(total, NoiseStd{1.0}, book, rng, buffer, out).ok());
    return std::tuple(*out, total.Sensitivity(Adjacency::kReplaceOne),
                      total.Sensitivity(Adjacency::kZeroOut));
  };
  const auto apart = [](const Vec& x, const Vec& y) {
    long double sum = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const long double d = static_cast<long double>(x[j]) - y[j];
      sum += d * d;
    }
    return std::sqrt(sum);
  };
  const double square = FreeSquare(clip);
  for (const double weight : {1.0, 1 - 0x1p-50, 1 - 0x1p-40, 2.0 / 3, 1e-3, 0x1p-1000, 0.0})
    for (int kind = 0; kind < 3; ++kind)
      for (int k = 0; k < 50; ++k) {
        Vec v(5), opposite(5);
        for (std::size_t j = 0; j < v.size(); ++j) v[j] = random.Normal();
        const double other = -random.Uniform() * 3;
        for (std::size_t j = 0; j < v.size(); ++j) opposite[j] = other * v[j];
        const double s = kind == 1 ? square : 0, i = kind == 2 ? 0.3 : 0;
        const auto [x, bound, length] = entrusted(v, weight, s, i);
        const auto [y, same, as_long] = entrusted(opposite, weight, s, i);
        EXPECT_LE(apart(x, y), bound.value());
        EXPECT_LE(apart(x, Vec(x.size())), length.value());
        EXPECT_EQ(bound, std::get<1>(entrusted(v, 1, s, i)));
        EXPECT_EQ(bound, same);
        EXPECT_EQ(length, as_long);
      }
  for (const double weight : {1 + 0x1p-52, 2.0, 1 - 0x1p-53, -0.5, kInf, std::nan("")})
    EXPECT_DEATH(entrusted({1, 0}, weight, 0, 0), "broken invariant") << weight;
}

TEST(AdaptiveClip, TheBoundHoldsForEveryPairOfUpdatesAndIsAttained) {
  const L2Bound clip{0.5};
  const double kappa = ClipRule::Indicator(clip, 0.1, Adjacency::kReplaceOne);
  EXPECT_NEAR(kappa * kappa / (4 * 0.25 + kappa * kappa), 0.1, 1e-15);
  const double weak = ClipRule::Indicator(clip, 0.1, Adjacency::kZeroOut);
  EXPECT_NEAR(weak * weak / (0.25 + weak * weak), 0.1, 1e-15);
  const auto entrusted = [&](Vec v) {
    EntrustedSum sum;
    Private<Vec> x(std::move(v));
    Entrusted one;
    Bounded::ClipWithIndicator(x, clip, kappa).Entrust(one);
    sum.Reset();
    sum.Add(one);
    const Bounded total = sum.Total();
    // Through the door without noise, to see it.
    LedgerBook book(std::vector<MuSquared>(1, MuSquared::Proven(kInf)), Adjacency::kReplaceOne);
    NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
    NoiseBuffer buffer;
    Released<Vec> out;
    EXPECT_TRUE(kExpose.ReleaseForAll(total, NoiseStd{1.0}, book, rng, buffer, out).ok());
    struct Seen {
      Vec value;
      double replaced, left_out;  // sensitivities
    };
    EXPECT_LE(total.Sensitivity(Adjacency::kZeroOut), total.Sensitivity(Adjacency::kAddOrRemove));
    return Seen{*out, total.Sensitivity(Adjacency::kReplaceOne).value(),
                total.Sensitivity(Adjacency::kZeroOut).value()};
  };
  double most = 0, bound = 0, longest = 0, length = 0;
  const double lengths[] = {0, 0.1, 0.4999, 0.5, 0.5001, 3, 1e200, kInf, std::nan("")};
  for (const double a : lengths)
    for (const double b : lengths)
      for (const double sign : {1.0, -1.0}) {
        const auto [x, sx, zx] = entrusted({a, 0});
        const auto [y, sy, zy] = entrusted({sign * b, 0});
        ASSERT_EQ(x.size(), 3u);
        bound = sx, length = zx;
        EXPECT_EQ(sx, sy);
        EXPECT_EQ(zx, zy);
        EXPECT_EQ(x[2], a <= 0.5 ? 0 : -kappa) << a;
        most = std::max(most, std::sqrt(DistanceSquared(x, y)));
        // A client that is not there, and one without records, which sends the update 0.
        longest = std::max(longest, Norm(x));
        if (b == 0) longest = std::max(longest, std::sqrt(DistanceSquared(x, y)));
      }
  EXPECT_EQ(entrusted({0, 0}).value, Vec(3));
  EXPECT_LE(longest, length);
  EXPECT_NEAR(longest, length, 1e-9);
  EXPECT_NEAR(length, std::sqrt(0.25 + kappa * kappa), 1e-9);
  EXPECT_LE(most, bound);
  EXPECT_NEAR(most, bound, 1e-9);
  EXPECT_NEAR(bound, std::sqrt(4 * 0.25 + kappa * kappa), 1e-9);
}

TEST(AdaptiveClip, TheClipFindsTheQuantileOfTheLengths) {
  // One record each, least squares from 0 with a step so small that the model stays: ‖y − w‖ is proportional
  // to the label, 1 … 20, so the quantile γ is that of the labels.
  World w(20, 1, 2, Loss::kLeastSquares);
  for (std::size_t i = 0; i < 20; ++i) {
    w.data.value[2 * i] = 1, w.data.value[2 * i + 1] = 0;
    w.data.label[i] = static_cast<double>(i + 1);
  }
  test::FillNorms(w.data);
  const auto clip_after = [&]<class A>(A, double quantile, double clip) {
    auto o = Make<A>(kExpose, clip, 1, 400);
    o.local = {.rate = 1e-6, .steps = 1};
    o.step.rate = 1e-6;
    o.noise.indicator = ClipRule::Indicator(o.noise.clip, 0.1, Adjacency::kReplaceOne);
    o.clip = {.quantile = quantile, .rate = 0.05};
    typename A::Server server(w.problem, o, *w.book);
    typename A::Down down;
    Scratch s;
    NoiseRng rng = NoiseRng::Replayable({.seed = 1, .purpose = Purpose::kNoise});
    s.rng = &rng;
    for (bool more = server.Start(down); more;) {
      typename A::Sum sum;
      sum.Reset();
      for (std::uint32_t i = 0; i < 20; ++i) {
        typename A::Up up;
        EXPECT_TRUE(w.Make<A>(i, o).Round(down, up, s).ok());
        sum.Add(up);
      }
      more = *server.Round(sum, down, s);
    }
    return server.clip_scale() * clip / 1e-6;  // in labels
  };
  EXPECT_NEAR(clip_after(AdaptiveFedAvg<LocalNoise>{}, 0.5, 1e-7), 10.5, 1);
  EXPECT_NEAR(clip_after(AdaptiveFedAvg<TrustedServer>{}, 0.5, 1e-4), 10.5, 1);
  EXPECT_NEAR(clip_after(AdaptiveFedAvg<TrustedServer>{}, 0.9, 1e-6), 18.5, 1);
  EXPECT_EQ((ClipRule{.quantile = 0.5, .rate = 10}.Next(1e-6, 1e300)), 1e-6);
  EXPECT_EQ((ClipRule{.quantile = 0.5, .rate = 10}.Next(1e6, -5)), 1e6);
}

TEST(AdaptiveClip, AFixedScaleIsFederatedAveragingWithTheIndicatorsShareOfTheBudget) {
  World w(5, 8, 4);
  auto o = Make<AdaptiveFedAvg<TrustedServer>>(kExpose, 0.2, 1, 10);
  o.noise.indicator = ClipRule::Indicator(o.noise.clip, 0.2, Adjacency::kReplaceOne);
  o.clip = {.quantile = 0.5, .rate = 1e-300};
  const Vec plain = *w.Run<FedAvg<TrustedServer>>(Make<FedAvg<TrustedServer>>(kExpose, 0.2, 1, 10));
  const Vec same = *w.Run<AdaptiveFedAvg<TrustedServer>>(o);
  for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(plain[j], same[j], 1e-14);
  o.noise.mechanism = &kLattice;
  w.Budget(kInf);
  ASSERT_TRUE(w.Run<AdaptiveFedAvg<TrustedServer>>(o).ok());
  EXPECT_NEAR(w.book->largest_spent().value(), 10 * 4 * 0.04 / (1 - 0.2), 1e-6);
}

// One record: the steps stay on its line, and the short way along it is the long one up to rounding.
TEST(LocalTraining, StepsOnOneRecordAreThoseMadeOneByOne) {
  for (const Loss loss : {Loss::kLeastSquares, Loss::kLogistic, Loss::kHuber, Loss::kAbsoluteDeviation})
    for (const bool sparse : {false, true}) {
      Dataset data = test::RandomData(loss, 2, 3, 12, sparse ? 0.4 : 1.0, 7);
      test::FillNorms(data);
      if (sparse) data = test::Sparse(data);
      const auto f = MakeObjective(loss, 2);
      const Shard shard(data, 1, 1);
      LocalSpace slow;
      const Vec w = test::RandomVec(12, 0.5, 8);
      slow.y = w;
      Vec fast = w;
      const LocalTraining o{.rate = 0.05, .steps = 21};
      for (int k = 0; k < 21; ++k) LocalStep(shard, slow, *f, w, View(), o);
      ASSERT_TRUE(f->StepsOnRecord(shard, 0, o.rate, o.steps, fast));
      EXPECT_NE(fast, w);
      for (std::size_t j = 0; j < w.size(); ++j) EXPECT_NEAR(fast[j], slow.y[j], 1e-13);
    }
}

TEST(LocalTraining, AStepThatCannotBeMeasuredIsNotMade) {
  Dataset data = test::RandomData(Loss::kLeastSquares, 2, 1, 3, 1.0, 7);
  data.value[1] = kInf;
  data.norm.Set(0, kInf);
  const auto f = MakeObjective(Loss::kLeastSquares, 2);
  Vec y = {1, 2, 3};
  ASSERT_TRUE(f->StepsOnRecord(Shard(data, 0, 1), 0, 0.1, 5, y));
  EXPECT_EQ(y[0], 1.0);
  EXPECT_EQ(y[2], 3.0);
}

// A network's steps by factors (few records) and one by one (a proximal term too small to count) are one
// update.
TEST(LocalTraining, TheWayOfTheStepsDoesNotShowInTheModel) {
  World w(4, 12, 160);
  w.f = *MakeObjective(ModelSpec{.loss = Loss::kMlp, .classes = 2, .hidden = {9}});
  w.problem.f = w.f.get();
  w.problem.dim = w.f->dim(160);
  w.problem.start.resize(w.problem.dim);
  w.f->Initialise(5, 160, w.problem.start);
  const auto check = [&]<class A>(A) {
    auto o = Make<A>(kExpose, 0.1, 1, 3);
    o.local = {.rate = 0.2, .steps = 2, .batch = 5};
    if constexpr (requires { o.clip; }) {
      o.noise.indicator = 0.1;
      o.clip = {.quantile = 0.5, .rate = 0.3};
    }
    const Vec factors = *w.Run<A>(o);
    o.local.proximal = 1e-300;
    const Vec steps = *w.Run<A>(o);
    EXPECT_NE(factors, w.problem.start);
    for (std::size_t j = 0; j < factors.size(); ++j) ASSERT_NEAR(factors[j], steps[j], 1e-14);
  };
  check(FedAvg<TrustedServer>{});
  check(FedAvg<LocalNoise>{});
  check(AdaptiveFedAvg<TrustedServer>{});
  LocalSpace s;
  const LocalTraining o{.rate = 0.2, .steps = 2, .batch = 5};
  LocalSteps(w.shards[0], s, *w.f, w.problem.start, View(), o, 0, 0);
  EXPECT_TRUE(s.factored);
  LocalSteps(w.shards[0], s, *w.f, w.problem.start, w.problem.start, o, 0, 0);  // a drift
  EXPECT_FALSE(s.factored);
}

TEST(LocalTraining, ManySmallBatchesAreAPassOverAllRecordsWhateverTheirOrder) {
  World w(1, 12, 3, Loss::kLeastSquares);
  auto whole = Make<FedAvg<LocalNoise>>(kExpose, 1e6, 1, 1);
  whole.local = {.rate = 1e-7, .steps = 4};  // so small a rate that the order does not matter
  auto batches = whole;
  batches.local = {.rate = 1e-7, .steps = 1, .batch = 3};
  const Vec a = *w.Run<FedAvg<LocalNoise>>(whole), b = *w.Run<FedAvg<LocalNoise>>(batches);
  for (std::size_t j = 0; j < a.size(); ++j) EXPECT_NEAR(a[j], b[j], 1e-5 * std::abs(a[j]));
  batches.local.seed = 7;
  batches.local.rate = whole.local.rate = 0.1;
  EXPECT_NE(*w.Run<FedAvg<LocalNoise>>(batches), *w.Run<FedAvg<LocalNoise>>(whole));
}

}  // namespace
}  // namespace tacit
