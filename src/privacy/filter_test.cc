#include "privacy/filter.h"

#include <functional>

#include "privacy/accountant_cases.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

// ---- Plans.

Accountant Plan() {
  Accountant plan(Adjacency::kAddOrRemove);
  EXPECT_TRUE(plan.Compose(Gaussian(0.5), 2).ok());
  EXPECT_TRUE(plan.Compose(Gaussian(1)).ok());
  EXPECT_TRUE(plan.Compose(Pure(0.1), 3).ok());
  EXPECT_TRUE(plan.Compose(Poisson(0.01, 1), 5).ok());
  return plan;
}

TEST(PlannedAccount, TakesWhatThePlanHoldsInAnyOrder) {
  PlannedAccount account(Plan());
  const Bracket whole = EpsilonOf(Plan(), 1e-5);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(account.Charge(Pure(0.1)).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(account.Charge(Poisson(0.01, 1)).ok());
  ASSERT_TRUE(account.Charge(Gaussian(1)).ok());
  ASSERT_TRUE(account.Charge(Gaussian(0.5)).ok());
  EXPECT_EQ(account.EpsilonAt(Of<Delta>(1e-5))->upper, whole.upper);  // that of the plan, early or late
  ASSERT_TRUE(account.Charge(Gaussian(0.5)).ok());
  EXPECT_EQ(account.EpsilonAt(Of<Delta>(1e-5))->upper, whole.upper);
  EXPECT_EQ(account.DeltaAt(Of<Epsilon>(2))->upper, DeltaOf(Plan(), 2).upper);
  const Status over = account.Charge(Gaussian(0.5));
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().code, Code::kBudget);
  EXPECT_NE(over.error().message.find("after 11 of 11"), std::string::npos) << over.error().message;
  EXPECT_EQ(account.charges(), 11U);
}

TEST(PlannedAccount, RefusesWhatWasNotPlanned) {
  PlannedAccount account(Plan());
  for (const PrivacyEvent& event :
       {PrivacyEvent(Gaussian(1.0001)), PrivacyEvent(Poisson(0.02, 1)), PrivacyEvent(Poisson(0.01, 1.1)),
        PrivacyEvent(NonPrivateEvent{}), PrivacyEvent(ZcdpEvent{Of<Rho>(1e-9)}), PrivacyEvent(Pure(3)),
        PrivacyEvent(Fixed(0.01, 1)), PrivacyEvent(RenyiEvent{})}) {
    EXPECT_FALSE(account.Charge(event).ok()) << event.index();
  }
  EXPECT_EQ(account.charges(), 0U);
}

TEST(PlannedAccount, TakesALargerReleaseForASmallerOne) {
  PlannedAccount account(Plan());
  ASSERT_TRUE(account.Charge(Gaussian(0.4)).ok());  // for 0.5
  ASSERT_TRUE(account.Charge(Gaussian(0.4)).ok());
  ASSERT_TRUE(account.Charge(LaplaceEvent{Of<Epsilon>(0.05)}).ok());  // 0.05-DP is 0.063-GDP: for 1
  ASSERT_FALSE(account.Charge(Gaussian(0.4)).ok());
  ASSERT_TRUE(account.Charge(Pure(0.05)).ok());  // for 0.1
  EXPECT_EQ(account.charges(), 4U);
  Accountant zcdp(Adjacency::kReplaceOne);
  ASSERT_TRUE(zcdp.Compose(ZcdpEvent{Of<Rho>(0.5)}, 2).ok());
  PlannedAccount other(std::move(zcdp));
  EXPECT_TRUE(other.Charge(Gaussian(1)).ok());
  EXPECT_FALSE(other.Charge(Gaussian(1.01)).ok());
  EXPECT_TRUE(other.Charge(Fixed(0.1, 0.5)).ok());
}

// The largest E_P[(1 − e^{ε_T − L_T})₊] over all rules T of when to stop, for rounds of randomised response:
// by induction from the last round.
double WorstStop(double response, int rounds, const std::function<double(int)>& epsilon) {
  const double plus = 1 / (1 + std::exp(-response));
  std::vector<double> value(2 * static_cast<std::size_t>(rounds) + 1, 0.0);
  for (int t = rounds; t >= 0; --t) {
    std::vector<double> now(value.size(), 0.0);
    const double claimed = epsilon(t);
    for (int k = -t; k <= t; k += 2) {
      const auto at = static_cast<std::size_t>(k + rounds);
      const double stop = -std::expm1(std::min(0.0, claimed - k * response));
      const double go = t < rounds ? plus * value[at + 1] + (1 - plus) * value[at - 1] : 0;
      now[at] = std::max(stop, go);
    }
    value = now;
  }
  return value[static_cast<std::size_t>(rounds)];
}

TEST(PlannedAccount, ThePrefixWouldNotHoldAtAMomentChosenByTheOutputs) {
  const double delta = 1e-2;
  const auto prefix = [&](int t) {
    return t == 0
               ? 0
               : EpsilonOf(Account(Adjacency::kReplaceOne, Pure(0.25), static_cast<std::uint64_t>(t)), delta)
                     .upper;
  };
  EXPECT_GT(WorstStop(0.25, 20, prefix), 2 * delta);
  EXPECT_GT(WorstStop(0.25, 100, prefix), 4 * delta);
  EXPECT_GT(WorstStop(0.25, 400, prefix), 5 * delta);
  // That of the whole plan holds.
  const double whole = prefix(400);
  EXPECT_LE(WorstStop(0.25, 400, [&](int) { return whole; }), delta * (1 + 1e-9));
}

// ---- Filters.

TEST(Filter, RefusesPastTheBudgetAndStaysAsItWas) {
  GdpFilter gdp(Of<MuSquared>(1), Adjacency::kReplaceOne);
  ASSERT_TRUE(gdp.Charge(Gaussian(0.6)).ok());
  const MuSquared before = gdp.spent();
  const Status over = gdp.Charge(Gaussian(0.81));
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().code, Code::kBudget);
  EXPECT_EQ(gdp.spent(), before);
  EXPECT_EQ(gdp.charges(), 1U);
  ASSERT_TRUE(gdp.Charge(Gaussian(0.79)).ok());
  EXPECT_EQ(gdp.EpsilonOfBudget(Of<Delta>(1e-5)), GdpEpsilon(Of<Mu>(1), Of<Delta>(1e-5)).upper);

  ZcdpFilter zcdp(Of<Rho>(0.5), Adjacency::kReplaceOne);
  ASSERT_TRUE(zcdp.Charge(Pure(0.5)).ok());
  ASSERT_TRUE(zcdp.Charge(Fixed(0.1, 0.5)).ok());  // as if all were sampled
  EXPECT_NEAR(zcdp.spent().value(), 0.5 * std::tanh(0.25) + 0.125, 1e-12);
  EXPECT_FALSE(zcdp.Charge(Gaussian(0.8)).ok());
  ASSERT_TRUE(zcdp.Charge(ZcdpEvent{Of<Rho>(0.25)}).ok());
  EXPECT_EQ(zcdp.EpsilonOfBudget(Of<Delta>(1e-5)),
            EpsilonOf(Account(Adjacency::kReplaceOne, ZcdpEvent{Of<Rho>(0.5)}), 1e-5).upper);
}

TEST(Filter, EventsWithoutABoundAreRefusedByEveryFiniteBudget) {
  for (const PrivacyEvent& event : {PrivacyEvent(NonPrivateEvent{}), PrivacyEvent(Gaussian(kInf)),
                                    PrivacyEvent(ApproximateEvent{Of<Epsilon>(1), Of<Delta>(1e-9)})}) {
    GdpFilter gdp(Of<MuSquared>(1e300), Adjacency::kReplaceOne);
    ZcdpFilter zcdp(Of<Rho>(1e300), Adjacency::kReplaceOne);
    EXPECT_FALSE(gdp.Charge(event).ok()) << event.index();
    EXPECT_FALSE(zcdp.Charge(event).ok()) << event.index();
  }
  GdpFilter open(Of<MuSquared>(kInf), Adjacency::kReplaceOne);
  EXPECT_TRUE(open.Charge(NonPrivateEvent{}).ok());
  EXPECT_EQ(open.EpsilonOfBudget(Of<Delta>(1e-5)), kInf);
  ZcdpFilter meaning(Of<Rho>(1), Adjacency::kAddOrRemove);
  EXPECT_FALSE(meaning.Charge(Fixed(0.1, 0.1)).ok());  // no meaning under add-remove
}

TEST(Filter, SumsAreRoundedUp) {
  GdpFilter gdp(Of<MuSquared>(0.01 * 1000), Adjacency::kReplaceOne);
  int passed = 0;
  while (gdp.Charge(Gaussian(0.1)).ok()) ++passed;
  EXPECT_LE(passed, 1000);
  EXPECT_GE(passed, 999);
  ZcdpFilter zero(Of<Rho>(0), Adjacency::kReplaceOne);
  EXPECT_TRUE(zero.Charge(Gaussian(0)).ok());
  EXPECT_FALSE(zero.Charge(Gaussian(1e-200)).ok());
  EXPECT_EQ(zero.EpsilonOfBudget(Of<Delta>(0)), 0);
}

// δ of the Gaussian curve for any real ε.
double Real(double epsilon, double mu) {
  if (mu == 0) return -std::expm1(std::min(0.0, epsilon));
  const auto phi = [](double x) { return 0.5 * std::erfc(-x / M_SQRT2); };
  return phi(-epsilon / mu + mu / 2) - std::exp(epsilon) * phi(-epsilon / mu - mu / 2);
}

// E_P[(1 − e^{ε(x) − L})₊] of a Gaussian release of μ and then one of second(x), x being the first output.
double TwoSteps(double mu, const std::function<double(double)>& second,
                const std::function<double(double)>& epsilon) {
  double sum = 0;
  const double step = 1e-3;
  for (double x = mu - 9; x < mu + 9; x += step) {
    const double density = std::exp(-(x - mu) * (x - mu) / 2) / std::sqrt(2 * M_PI);
    sum += step * density * Real(epsilon(x) - (mu * x - mu * mu / 2), second(x));
  }
  return sum;
}

TEST(Filter, HoldsWhateverTheFirstOutputDecides) {
  const double rest = std::sqrt(1 - 0.64);  // budget 1
  for (double at = -3; at <= 3; at += 0.25)
    for (const bool above : {false, true})
      for (const double epsilon : {0.0, 0.5, 1.0, 3.0}) {
        const auto second = [&](double x) { return (x > at) == above ? rest : 0.0; };
        EXPECT_LE(TwoSteps(0.8, second, [&](double) { return epsilon; }),
                  GdpDelta(Of<Epsilon>(epsilon), Of<Mu>(1)).upper * (1 + 1e-6) + 1e-9);
      }
}

TEST(Filter, WhatWasSpentHasNoEpsilonOfItsOwn) {
  // Go on where the first output told little, stop where it told much: then what was spent says too little.
  const double delta = 1e-3, rest = 0.6;
  const double first = GdpEpsilon(Of<Mu>(0.8), Of<Delta>(delta)).upper;
  const double both = GdpEpsilon(Of<Mu>(1), Of<Delta>(delta)).upper;
  double worst = 0;
  for (double at = 0; at <= 5; at += 0.1)
    worst = std::max(worst, TwoSteps(
                                0.8, [&](double x) { return x > at ? 0 : rest; },
                                [&](double x) { return x > at ? first : both; }));
  EXPECT_GT(worst, 1.2 * delta);
}

// ---- Odometers.

template <class O, class Unit>
void HoldsWheneverOneStops(Unit first) {
  const double delta = 1e-2, response = 0.25;
  const int rounds = 400;
  for (const double ratio : {1.1, 1.5, 4.0}) {
    Result<O> odometer = O::Make(first, ratio, Of<Delta>(delta), Adjacency::kReplaceOne);
    ASSERT_TRUE(odometer.ok());
    std::vector<double> epsilon{odometer->epsilon()};
    EXPECT_EQ(epsilon[0], 0);
    for (int t = 1; t <= rounds; ++t) {
      ASSERT_TRUE(odometer->Charge(Pure(response)).ok());
      EXPECT_GE(odometer->epsilon(), epsilon.back());
      epsilon.push_back(odometer->epsilon());
    }
    EXPECT_LE(WorstStop(response, rounds, [&](int t) { return epsilon[static_cast<std::size_t>(t)]; }),
              delta);
    // And it is not idle: within a factor of what the last round costs if planned.
    const double planned = EpsilonOf(Account(Adjacency::kReplaceOne, Pure(response), rounds), delta).upper;
    EXPECT_LT(epsilon.back(), 4 * planned);
  }
}
TEST(Odometer, HoldsWheneverOneStops) {
  HoldsWheneverOneStops<GdpOdometer>(Of<MuSquared>(0.05));
  HoldsWheneverOneStops<ZcdpOdometer>(Of<Rho>(0.025));
}

TEST(Odometer, IsThatOfItsLevel) {
  Result<GdpOdometer> odometer =
      GdpOdometer::Make(Of<MuSquared>(1), 2, Of<Delta>(1e-5), Adjacency::kReplaceOne);
  ASSERT_TRUE(odometer.ok());
  ASSERT_TRUE(odometer->Charge(Gaussian(0)).ok());
  EXPECT_EQ(odometer->epsilon(), 0);
  ASSERT_TRUE(odometer->Charge(Gaussian(1)).ok());  // level 0, reached exactly
  const double zero = GdpEpsilon(Of<Mu>(1), Of<Delta>(1e-5 * 6 / (M_PI * M_PI))).upper;
  EXPECT_NEAR(odometer->epsilon(), zero, 1e-6);
  EXPECT_GE(odometer->epsilon(), zero);
  ASSERT_TRUE(odometer->Charge(Gaussian(1.5)).ok());  // 3.25: level 2, of 4
  EXPECT_NEAR(odometer->epsilon(), GdpEpsilon(Of<Mu>(2), Of<Delta>(1e-5 * 6 / (9 * M_PI * M_PI))).upper,
              1e-6);
  ASSERT_TRUE(odometer->Charge(NonPrivateEvent{}).ok());
  EXPECT_EQ(odometer->epsilon(), kInf);
  EXPECT_EQ(odometer->charges(), 4U);
}

TEST(Odometer, RefusesInWords) {
  EXPECT_FALSE(GdpOdometer::Make(Of<MuSquared>(0), 2, Of<Delta>(1e-5), Adjacency::kReplaceOne).ok());
  EXPECT_FALSE(GdpOdometer::Make(Of<MuSquared>(kInf), 2, Of<Delta>(1e-5), Adjacency::kReplaceOne).ok());
  for (const double ratio : {1.0, 0.5, kInf, std::nan("")})
    EXPECT_FALSE(ZcdpOdometer::Make(Of<Rho>(1), ratio, Of<Delta>(1e-5), Adjacency::kReplaceOne).ok());
}

// ---- Individual accounts.

TEST(IndividualEpsilons, CountTheRoundsThatAClientTookPartIn) {
  const std::vector<Attendance> rounds{{Gaussian(1), {0, 1}}, {Gaussian(1), {1, 2}}, {Gaussian(2), {2}}};
  const auto got = IndividualEpsilons(Adjacency::kReplaceOne, 5, rounds, Of<Delta>(1e-5));
  ASSERT_TRUE(got.ok());
  const auto epsilon = [](double mu) { return GdpEpsilon(Of<Mu>(mu), Of<Delta>(1e-5)).upper; };
  EXPECT_NEAR(got->of(0).upper, epsilon(1), 1e-12);
  EXPECT_NEAR(got->of(1).upper, epsilon(std::sqrt(2.0)), 1e-12);
  EXPECT_NEAR(got->of(2).upper, epsilon(std::sqrt(5.0)), 1e-12);
  EXPECT_EQ(got->of(3).upper, 0);
  EXPECT_EQ(got->history[3], got->history[4]);  // computed once
  EXPECT_EQ(got->epsilon.size(), 4U);
}

TEST(IndividualEpsilons, RefuseInWords) {
  const Delta delta = Of<Delta>(1e-5);
  const auto message = [&](const Attendance& round) {
    const auto got = IndividualEpsilons(Adjacency::kAddOrRemove, 2, std::span(&round, 1), delta);
    return got.ok() ? std::string() : got.error().message;
  };
  EXPECT_NE(message({Gaussian(1), {2}}).find("there are 2 clients"), std::string::npos);
  EXPECT_NE(message({Gaussian(1), {1, 1}}).find("twice"), std::string::npos);
  EXPECT_NE(message({Fixed(0.1, 1), {1}}).find("replace-one"), std::string::npos);
  EXPECT_EQ(message({Gaussian(1), {0, 1}}), "");
}

}  // namespace
}  // namespace tacit
