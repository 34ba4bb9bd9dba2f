#include "privacy/calibrate.h"

#include <gtest/gtest.h>

#include "privacy/accountant_cases.h"
#include "privacy/compare.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

Calibration Found(const Result<Calibration>& r) {
  EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().message);
  return r.ok() ? *r : Calibration{};
}
double UpperOf(const ReleasePlan& r, double delta) {
  const Result<Accountant> account = AccountOf(r);
  EXPECT_TRUE(account.ok()) << (account.ok() ? "" : account.error().message);
  return account.ok() ? EpsilonOf(*account, delta).upper : kInf;
}

// Keeps the budget, and 1e-9 on the other side does not.
void ExpectTight(ReleasePlan r, double epsilon, double delta, const char* what) {
  SCOPED_TRACE(fmt::format("{} {}: epsilon {}, delta {}", Name(r.mechanism), what, epsilon, delta));
  const Epsilon e = Of<Epsilon>(epsilon);
  const Delta d = Of<Delta>(delta);
  const std::string_view field = what;
  const Calibration c = Found(field == "noise"    ? CalibrateNoise(r, e, d)
                              : field == "rounds" ? CalibrateRounds(r, e, d)
                                                  : CalibrateRate(r, e, d));
  EXPECT_LE(c.epsilon.upper, epsilon);
  EXPECT_LE(c.evaluations, 20);
  EXPECT_FALSE(c.at_end);
  const auto with = [&](double x) {
    if (field == "noise") r.noise = x;
    if (field == "rounds") r.rounds = x;
    if (field == "rate") r.rate = x;
    return UpperOf(r, delta);
  };
  EXPECT_EQ(with(c.value), c.epsilon.upper);
  if (field == "rounds") {
    EXPECT_GT(with(c.value + 1), epsilon);
  } else {
    const bool falls = field == "noise" && NoiseFalls(r.mechanism);
    EXPECT_GT(with(c.value * (falls ? 1 - 1.1e-9 : 1 + 1.1e-9)), epsilon);
  }
}

TEST(Calibrate, GaussiansAreTheClosedForm) {
  for (const double epsilon : {0.01, 1.0, 8.0, 300.0})
    for (const double delta : {1e-3, 1e-5, 1e-12})
      for (const double rounds : {1.0, 100.0, 1e9}) {
        const Calibration c =
            Found(CalibrateNoise({.rounds = rounds}, Of<Epsilon>(epsilon), Of<Delta>(delta)));
        const double exact = std::sqrt(rounds) / GdpMu(Of<Epsilon>(epsilon), Of<Delta>(delta)).value();
        EXPECT_NEAR(c.value / exact, 1, 1e-9) << epsilon << " " << delta << " " << rounds;
        EXPECT_LE(c.epsilon.upper, epsilon);
        EXPECT_LE(c.evaluations, 4);
      }
  // μ = √T/z ≤ μ₀.
  const Calibration rounds = Found(CalibrateRounds({.noise = 10}, Epsilon(1.0), Delta(1e-5)));
  const double mu = GdpMu(Epsilon(1.0), Delta(1e-5)).value();
  EXPECT_EQ(rounds.value, std::floor(100 * mu * mu));
}

TEST(Calibrate, EveryFamilyIsTightToOneInABillion) {
  const ReleasePlan sampled{.adjacency = Adjacency::kAddOrRemove, .rounds = 1000, .rate = 0.01};
  ExpectTight(sampled, 2, 1e-5, "noise");
  ExpectTight(sampled, 0.2, 1e-8, "noise");
  ExpectTight(sampled, 2, 1e-5, "rounds");
  ExpectTight(sampled, 2, 1e-5, "rate");
  ExpectTight({.rounds = 300, .rate = 0.02, .fixed_size = true}, 3, 1e-6, "noise");
  ExpectTight({.noise = 2}, 3, 1e-6, "rounds");
  for (const ReleaseKind m : {ReleaseKind::kLaplace, ReleaseKind::kDiscreteLaplace, ReleaseKind::kPure,
                              ReleaseKind::kRandomizedResponse, ReleaseKind::kScalarDp}) {
    ExpectTight({.mechanism = m, .rounds = 50, .sensitivity = 2, .categories = 4}, 2, 1e-6, "noise");
    ExpectTight({.mechanism = m, .noise = 0.1, .sensitivity = 2, .categories = 4}, 2, 1e-6, "rounds");
  }
  ExpectTight({.mechanism = ReleaseKind::kDiscreteGaussian, .rounds = 10, .sensitivity = 2}, 1, 1e-6,
              "noise");
  ExpectTight({.mechanism = ReleaseKind::kDiscreteGaussian, .rounds = 10, .dimension = 5}, 1, 1e-6, "noise");
  ExpectTight({.mechanism = ReleaseKind::kPrivUnit, .rounds = 50, .dimension = 100}, 100, 1e-5, "noise");
  ExpectTight({.mechanism = ReleaseKind::kPrivUnit, .noise = 6, .dimension = 100}, 100, 1e-5, "rounds");
}

TEST(Calibrate, PureReleasesWithoutDeltaShareTheBudget) {
  for (const ReleaseKind m : {ReleaseKind::kLaplace, ReleaseKind::kPure, ReleaseKind::kRandomizedResponse}) {
    const Calibration c = Found(CalibrateNoise({.mechanism = m, .rounds = 10}, Epsilon(1.0), Delta(0.0)));
    EXPECT_NEAR(c.value, 0.1, 1e-10);
    EXPECT_LE(c.epsilon.upper, 1.0);
  }
  EXPECT_EQ(
      Found(CalibrateRounds({.mechanism = ReleaseKind::kPure, .noise = 0.25}, Epsilon(1.01), Delta(0.0)))
          .value,
      4);
}

// A value of another accountant: multiplier 1 costs 1.8282366665 (tests/golden/accounting.json).
TEST(Calibrate, FindsTheGoldenNoise) {
  const ReleasePlan r{.adjacency = Adjacency::kAddOrRemove, .rounds = 1000, .rate = 0.01};
  EXPECT_NEAR(Found(CalibrateNoise(r, Epsilon(1.8282366666), Delta(1e-5))).value, 1, 1e-8);
  ReleasePlan one = r;
  one.noise = 1;
  EXPECT_EQ(Found(CalibrateRounds(one, Epsilon(1.8282366666), Delta(1e-5))).value, 1000);
  EXPECT_NEAR(Found(CalibrateRate(one, Epsilon(1.8282366666), Delta(1e-5))).value, 0.01, 1e-10);
}

TEST(Calibrate, IsMonotone) {
  ReleasePlan r{.adjacency = Adjacency::kAddOrRemove, .rounds = 100, .rate = 0.05};
  double before = kInf;
  for (const double epsilon : {0.1, 0.3, 1.0, 3.0, 10.0}) {
    const double noise = Found(CalibrateNoise(r, Of<Epsilon>(epsilon), Delta(1e-6))).value;
    EXPECT_LT(noise, before);
    before = noise;
  }
  before = 0;
  for (const double rounds : {10.0, 100.0, 1000.0}) {
    r.rounds = rounds;
    const double noise = Found(CalibrateNoise(r, Epsilon(1.0), Delta(1e-6))).value;
    EXPECT_GT(noise, before);
    before = noise;
  }
}

TEST(Calibrate, TheEndsOfTheRange) {
  // Noise enough for everybody: all may be sampled.
  const Calibration all = Found(CalibrateRate({.noise = 100, .rounds = 10}, Epsilon(1.0), Delta(1e-5)));
  EXPECT_EQ(all.value, 1);
  EXPECT_TRUE(all.at_end);
  // No noise is enough.
  const auto none = CalibrateNoise({.rounds = 10}, Epsilon(1.0), Delta(0.0));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::kBudget);
  const auto round = CalibrateRounds({.noise = 0.1}, Epsilon(1.0), Delta(1e-5));
  ASSERT_FALSE(round.ok());
  EXPECT_EQ(round.error().code, Code::kBudget);
  const auto nothing = CalibrateNoise({.rounds = 10}, Epsilon(0.0), Delta(1e-5));
  EXPECT_TRUE(nothing.ok());  // δ leaves room: TV(N(0, 1), N(μ, 1)) ≤ δ
  EXPECT_EQ(Found(nothing).epsilon.upper, 0);
  for (const ReleasePlan& r :
       {ReleasePlan{.rounds = 0}, ReleasePlan{.rounds = 1.5}, ReleasePlan{.rate = 2.0},
        ReleasePlan{.rate = 0.0}, ReleasePlan{.mechanism = ReleaseKind::kPure, .rate = 0.5},
        ReleasePlan{.rounds = std::nan("")},
        ReleasePlan{.mechanism = ReleaseKind::kPrivUnit, .scalar_share = 1},
        ReleasePlan{.mechanism = ReleaseKind::kPrivUnit, .dimension = 1}})
    EXPECT_FALSE(CalibrateNoise(r, Epsilon(1.0), Delta(1e-5)).ok());
  EXPECT_FALSE(CalibrateNoise({}, Of<Epsilon>(kInf), Delta(1e-5)).ok());
}

TEST(Calibrate, AllNoiseOfAList) {
  Accountant account(Adjacency::kAddOrRemove);
  ASSERT_TRUE(account.Compose(Poisson(0.01, 1), 1000).ok());
  ASSERT_TRUE(account.Compose(LaplaceEvent{Epsilon(0.1)}, 3).ok());
  ASSERT_TRUE(account.Compose(Pure(0.2)).ok());
  EXPECT_EQ(UnscaledKinds(account), 1u);
  for (const double epsilon : {1.0}) {
    const Calibration c = Found(CalibrateScale(account, Of<Epsilon>(epsilon), Delta(1e-5)));
    EXPECT_LE(c.epsilon.upper, epsilon);
    const auto less = WithNoiseScaled(account, c.value * (1 - 1.1e-9));
    ASSERT_TRUE(less.ok());
    EXPECT_GT(EpsilonOf(*less, 1e-5).upper, epsilon);
  }
  // The ε-DP release alone is over this.
  const auto too_little = CalibrateScale(account, Epsilon(0.1), Delta(1e-5));
  ASSERT_FALSE(too_little.ok());
  EXPECT_NE(too_little.error().message.find("no noise to scale"), std::string::npos);
  Accountant pure(Adjacency::kReplaceOne);
  ASSERT_TRUE(pure.Compose(Pure(0.2)).ok());
  EXPECT_FALSE(CalibrateScale(pure, Epsilon(0.1), Delta(1e-5)).ok());
  EXPECT_EQ(Found(CalibrateRepeats(pure, Epsilon(1.0), Delta(0.0))).value, 4);  // 5·0.2 is rounded up
}

TEST(Calibrate, ScalingOneGaussianIsScalingItsMultiplier) {
  Accountant account(Adjacency::kReplaceOne);
  ASSERT_TRUE(account.Compose(Gaussian(1), 100).ok());
  const double scale = Found(CalibrateScale(account, Epsilon(1.0), Delta(1e-5))).value;
  EXPECT_NEAR(scale * GdpMu(Epsilon(1.0), Delta(1e-5)).value() / 10, 1, 1e-9);
}

double Of(const std::vector<Comparison>& all, const std::string& name) {
  for (const Comparison& c : all)
    if (c.name == name) return c.epsilon;
  ADD_FAILURE() << name;
  return 0;
}
std::vector<Comparison> Compared(const Accountant& account, double delta) {
  const auto r = Compare(account, tacit::Of<Delta>(delta), EpsilonOf(account, delta));
  EXPECT_TRUE(r.ok());
  return r.ok() ? *r : std::vector<Comparison>{};
}

TEST(Compare, TheTheoremsAndTheirOrder) {
  const std::vector<Accountant> accounts = {Account(Adjacency::kAddOrRemove, Poisson(0.01, 1), 1000),
                                            Account(Adjacency::kReplaceOne, Gaussian(0.1), 100),
                                            Account(Adjacency::kReplaceOne, Pure(0.1), 100),
                                            Account(Adjacency::kReplaceOne, LaplaceEvent{Epsilon(0.1)}, 200)};
  for (const Accountant& account : accounts) {
    const auto all = Compared(account, 1e-6);
    const double exact = Of(all, "exact");
    for (const Comparison& c : all) EXPECT_GE(c.epsilon, exact * (1 - 1e-9)) << c.name;
    EXPECT_LE(Of(all, "optimal"), Of(all, "advanced"));
  }
}

TEST(Compare, NoTheoremIsBetterThanTheAccountant) {
  // Mostly ε-DP releases and a little zCDP, of which nothing but Rényi divergences is known: those of
  // everything are worse than the optimal composition.
  Accountant mixed(Adjacency::kReplaceOne);
  ASSERT_TRUE(mixed.Compose(LaplaceEvent{Epsilon(1e-6)}, 1000000).ok());
  ASSERT_TRUE(mixed.Compose(DiscreteLaplaceEvent{Epsilon(0.001), 3}, 1000).ok());
  ASSERT_TRUE(mixed.Compose(ScalarDpEvent{Epsilon(0.01)}, 10).ok());
  ASSERT_TRUE(mixed.Compose(ApproximateEvent{Epsilon(0.01), Delta(1e-9)}, 10).ok());
  Accountant without = mixed;
  ASSERT_TRUE(mixed.Compose(ZcdpEvent{Rho(1e-6)}).ok());
  const double ours = EpsilonOf(mixed, 1e-6).upper;
  EXPECT_LT(ours, 0.4333);
  EXPECT_GE(ours, EpsilonOf(without, 1e-6).lower);
  const auto renyi = RenyiEpsilon(mixed, Delta(1e-6));
  ASSERT_TRUE(renyi.ok());
  EXPECT_GT(*renyi, 0.44);

  std::vector<Accountant> accounts = {mixed};
  const std::vector<PrivacyEvent> kinds = {ZcdpEvent{Rho(0.01)},
                                           RenyiEvent{{{4, Epsilon(0.01)}, {32, Epsilon(0.2)}}},
                                           DiscreteGaussianEvent{.sigma = NoiseStd(20.0), .dimension = 10},
                                           Pure(0.1),
                                           LaplaceEvent{Epsilon(0.05)},
                                           Gaussian(0.1),
                                           ApproximateEvent{Epsilon(0.1), Delta(1e-8)}};
  for (std::size_t i = 0; i < kinds.size(); ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      Accountant two = Account(Adjacency::kReplaceOne, kinds[i], 1 + 9 * i);
      ASSERT_TRUE(two.Compose(kinds[j], 3).ok());
      accounts.push_back(std::move(two));
    }
  accounts.push_back(Account(Adjacency::kReplaceOne, Fixed(0.001, 1), 3));
  accounts.push_back(Account(Adjacency::kAddOrRemove, Poisson(1e-5, 0.5), 10));
  for (const Accountant& account : accounts) {
    const Bracket own = EpsilonOf(account, 1e-6);
    const auto all = Compare(account, Delta(1e-6), own);
    ASSERT_TRUE(all.ok());
    for (const Comparison& c : *all) {
      const double epsilon = c.applies ? c.epsilon : kInf;
      EXPECT_GE(epsilon, own.upper * (1 - 1e-3)) << c.name;
      EXPECT_GE(epsilon, own.lower) << c.name;
      EXPECT_LE(Of(*all, "exact"), epsilon) << c.name;
    }
  }
}

TEST(Compare, ClosedFormsForPureReleases) {
  const auto all = Compared(Account(Adjacency::kReplaceOne, Pure(0.1), 100), 1e-6);
  EXPECT_NEAR(Of(all, "basic"), 10, 1e-12);
  EXPECT_NEAR(Of(all, "advanced"), std::sqrt(200 * std::log(1e6)) * 0.1 + 10 * std::expm1(0.1), 1e-9);
  const double rho = 10 * std::tanh(0.05);  // Σ ε tanh(ε/2)
  EXPECT_NEAR(Of(all, "zcdp"), rho + 2 * std::sqrt(rho * std::log(1e6)), 1e-9);
  EXPECT_NEAR(Of(all, "optimal"), Of(all, "exact"), 1e-9);
}

TEST(Compare, WhatATheoremDoesNotSay) {
  const auto all = Compared(Account(Adjacency::kAddOrRemove, Poisson(0.01, 1), 10), 1e-6);
  for (const Comparison& c : all) EXPECT_EQ(c.applies, c.name != "zcdp");
  const auto open = Compared(Account(Adjacency::kReplaceOne, NonPrivateEvent{}), 1e-6);
  for (const Comparison& c : open) EXPECT_EQ(c.epsilon, kInf) << c.name;
}

}  // namespace
}  // namespace tacit
