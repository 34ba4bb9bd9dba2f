// Accounting by Rényi divergences: for comparison, and for what is known only through them.
#include "privacy/renyi.h"
#include "privacy/accountant_cases.h"
#include "privacy/gdp.h"
#include "privacy/loss.h"

namespace tacit {
namespace {

double Renyi(const Accountant& a, double delta) {
  const Result<double> r = RenyiEpsilon(a, Of<Delta>(delta));
  EXPECT_TRUE(r.ok());
  return *r;
}

// min over orders of D + (log(1/δ) + (α − 1) log(1 − 1/α) − log α)/(α − 1), on a fine list of orders.
template <class Divergence>
double ByList(Divergence divergence, double delta) {
  double best = kInf;
  for (double t = 1e-4; t < 1e6; t *= 1.0005) {
    const double alpha = 1 + t;
    best = std::min(best, divergence(alpha) + std::log1p(-1 / alpha) - std::log(delta * alpha) / t);
  }
  return std::max(best, 0.0);
}

TEST(RenyiEpsilonOf, GaussiansByTheClosedForm) {
  for (const double mu : {0.1, 1.0, 5.0})
    for (const double delta : {1e-3, 1e-6, 1e-12}) {
      SCOPED_TRACE(testing::Message() << mu << " at " << delta);
      const double expected = ByList([&](double alpha) { return alpha * mu * mu / 2; }, delta);
      const double got = Renyi(Account(Adjacency::kReplaceOne, Gaussian(mu / 10), 100), delta);
      EXPECT_LE(got, expected * (1 + 1e-12));
      EXPECT_NEAR(got, expected, 1e-6 * expected);
      EXPECT_GT(got, GdpEpsilon(Of<Mu>(mu), Of<Delta>(delta)).upper);
    }
}

TEST(RenyiEpsilonOf, SitsAboveTheExactAccount) {
  for (const PrivacyEvent& event :
       {PrivacyEvent(Poisson(0.01, 1)), PrivacyEvent(Pure(0.1)), PrivacyEvent(LaplaceEvent{Of<Epsilon>(0.1)}),
        PrivacyEvent(ApproximateEvent{Of<Epsilon>(0.1), Of<Delta>(1e-9)}),
        PrivacyEvent(DiscreteGaussianEvent{.sigma = Of<NoiseStd>(10)})}) {
    SCOPED_TRACE(event.index());
    const Accountant account = Account(Adjacency::kAddOrRemove, event, 200);
    const double renyi = Renyi(account, 1e-5);
    EXPECT_GE(renyi, EpsilonOf(account, 1e-5).lower);
    EXPECT_LT(renyi, 1.5 * EpsilonOf(account, 1e-5).upper + 0.1);
  }
}

// Exact binomial sums of Mironov, Talwar and Zhang (2019), section 3.3, by mpmath with 50 digits.
TEST(RenyiDivergence, SampledGaussiansAtWholeOrders) {
  const auto divergence = [](double q, double sigma, double alpha) {
    return PoissonRemoveLoss(q, 1 / sigma)->At(alpha - 1).value / (alpha - 1);
  };
  EXPECT_NEAR(divergence(0.01, 1, 2) / 0.00017181342207454793, 1, 1e-10);
  EXPECT_NEAR(divergence(0.1, 2, 8) / 0.013725430103219918, 1, 1e-10);
}

// Kinds of release that are not offered can be accounted for by what dominates them, and the result is above
// values for the kind itself: random allocation of k of 100 steps by k releases without sampling (the
// intervals are by Feldman and Shenfeld's accountant), messages that are shuffled by one that is not
// (Feldman, McMillan, Talwar 2021, Theorem 3.1).
TEST(RenyiEpsilonOf, WhatIsNotOfferedIsDominated) {
  EXPECT_GE(EpsilonOf(Account(Adjacency::kAddOrRemove, Gaussian(1)), 1e-5).upper, 0.6426947405923663);
  EXPECT_GE(EpsilonOf(Account(Adjacency::kAddOrRemove, Gaussian(0.5), 10), 1e-6).upper, 2.526884245613232);
  EXPECT_GE(EpsilonOf(Account(Adjacency::kReplaceOne, Pure(1)), 1e-6).upper, 0.072554924887004856);
}

TEST(RenyiEpsilonOf, Edges) {
  EXPECT_EQ(Renyi(Accountant(Adjacency::kReplaceOne), 1e-5), 0);
  EXPECT_EQ(Renyi(Account(Adjacency::kReplaceOne, NonPrivateEvent{}), 1e-5), kInf);
  EXPECT_EQ(Renyi(Account(Adjacency::kReplaceOne, Gaussian(1)), 0), kInf);
  // Order ∞: pure ε adds.
  EXPECT_NEAR(Renyi(Account(Adjacency::kReplaceOne, Pure(0.5), 4), 0), 2, 1e-9);
  const ApproximateEvent leaky{Of<Epsilon>(0.1), Of<Delta>(1e-3)};
  EXPECT_EQ(Renyi(Account(Adjacency::kReplaceOne, leaky, 10), 1e-3), kInf);
}

// ---- Curves from elsewhere.

template <class Divergence>
RenyiEvent Curve(const std::vector<double>& orders, Divergence divergence) {
  RenyiEvent out;
  for (const double order : orders)
    if (order > 1) out.curve.push_back({order, Of<Epsilon>(divergence(order))});
  return out;
}
std::vector<double> Orders(double from, double to, double factor) {
  std::vector<double> out;
  for (double t = from; t <= to; t *= factor) out.push_back(1 + t);
  return out;
}

TEST(ImportedCurve, OfAGaussianIsItsZcdp) {
  for (const double mu : {0.2, 1.0, 4.0})
    for (const double delta : {1e-3, 1e-9}) {
      SCOPED_TRACE(testing::Message() << mu << " at " << delta);
      const auto gaussian = [&](double alpha) { return alpha * mu * mu / 2; };
      const RenyiEvent curve = Curve(Orders(1e-3, 1e4, 1.01), gaussian);
      const double exact =
          EpsilonOf(Account(Adjacency::kReplaceOne, ZcdpEvent{Of<Rho>(mu * mu / 2)}), delta).upper;
      const Bracket got = EpsilonOf(Account(Adjacency::kReplaceOne, curve), delta);
      EXPECT_GE(got.upper, exact * (1 - 1e-12));
      EXPECT_NEAR(got.upper, exact, 1e-3 * exact);
      EXPECT_EQ(got.lower, 0);
      EXPECT_EQ(got.method, "Rényi divergences");
      // δ and ε are inverse.
      EXPECT_NEAR(DeltaOf(Account(Adjacency::kReplaceOne, curve), got.upper).upper / delta, 1, 1e-3);
    }
}

TEST(ImportedCurve, OneOrderGivesTheFormulaOfThatOrderOrLess) {
  for (const double order : {1.5, 2.0, 32.0, 1000.0}) {
    RenyiEvent event;
    event.curve.push_back({order, Of<Epsilon>(0.3)});
    const double delta = 1e-5;
    const double formula = 0.3 + std::log1p(-1 / order) - std::log(delta * order) / (order - 1);
    const double got = EpsilonOf(Account(Adjacency::kReplaceOne, event), delta).upper;
    EXPECT_LE(got, std::max(0.0, formula) * (1 + 1e-12)) << order;
    EXPECT_NEAR(got, formula, 1e-9 * formula) << order;
  }
}

TEST(ImportedCurve, AddsPerOrderAndMixesWithOtherEvents) {
  const auto orders = Orders(0.05, 500, 1.05);
  const auto square = [](double alpha) { return 0.02 * alpha; };
  const auto both = [](double alpha) { return 10 * 0.02 * alpha + alpha * 0.09 / 2; };
  Accountant mixed(Adjacency::kReplaceOne);
  ASSERT_TRUE(mixed.Compose(Curve(orders, square), 4).ok());
  ASSERT_TRUE(mixed.Compose(Gaussian(0.3)).ok());
  ASSERT_TRUE(mixed.Compose(Curve(orders, square), 6).ok());
  EXPECT_EQ(mixed.lines().size(), 2U);   // equal curves together
  const double sum = EpsilonOf(Account(Adjacency::kReplaceOne, Curve(orders, both)), 1e-6).upper;
  EXPECT_NEAR(EpsilonOf(mixed, 1e-6).upper, sum, 1e-4 * sum);
  // Two curves with no order in common.
  Accountant apart(Adjacency::kReplaceOne);
  ASSERT_TRUE(apart.Compose(Curve({2, 8, 32}, square)).ok());
  ASSERT_TRUE(apart.Compose(Curve({4, 16, 64}, square)).ok());
  const double two = EpsilonOf(apart, 1e-6).upper;
  EXPECT_LT(two, 1.3 * EpsilonOf(Account(Adjacency::kReplaceOne, ZcdpEvent{Of<Rho>(0.04)}), 1e-6).upper);
  EXPECT_GE(two, EpsilonOf(Account(Adjacency::kReplaceOne, ZcdpEvent{Of<Rho>(0.04)}), 1e-6).upper);
}

TEST(ImportedCurve, IsNeverBelowTheMechanismItCameFrom) {
  // Randomised response: K(t) = log cosh((t + ½)ε) − log cosh(ε/2).
  const double epsilon = 1.2;
  const auto response = [&](double alpha) {
    const double t = alpha - 1;
    return (std::log(std::cosh((t + 0.5) * epsilon)) - std::log(std::cosh(epsilon / 2))) / t * (1 + 1e-12);
  };
  for (const auto& orders : {Orders(0.1, 100, 1.3), std::vector<double>{2, 3}, std::vector<double>{50}})
    for (const std::uint64_t count : {1U, 7U, 40U})
      for (const double delta : {1e-2, 1e-6})
        EXPECT_GE(EpsilonOf(Account(Adjacency::kReplaceOne, Curve(orders, response), count), delta).upper,
                  EpsilonOf(Account(Adjacency::kReplaceOne, Pure(epsilon), count), delta).lower);
  const RenyiCurve curve(Curve(Orders(0.1, 100, 1.7), response));
  for (double t = 1e-3; t < curve.corners().back(); t *= 1.01)
    ASSERT_GE(curve.At(t), std::log(std::cosh((t + 0.5) * epsilon) / std::cosh(epsilon / 2)));
  EXPECT_EQ(curve.At(curve.corners().back() * (1 + 1e-9)), kInf);
}

TEST(ImportedCurve, RefusesInWords) {
  Accountant a(Adjacency::kReplaceOne);
  EXPECT_FALSE(a.Compose(RenyiEvent{}).ok());
  for (const auto& orders : {std::vector<double>{1}, std::vector<double>{3, 2}, std::vector<double>{2, 2},
                             std::vector<double>{kInf}, std::vector<double>{std::nan("")}}) {
    RenyiEvent event;
    for (const double order : orders) event.curve.push_back({order, Of<Epsilon>(1)});
    const Status status = a.Compose(event);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("orders are above 1"), std::string::npos);
  }
  EXPECT_TRUE(a.lines().empty());
  // A curve of nothing but ∞ promises nothing.
  RenyiEvent open;
  open.curve.push_back({2, Of<Epsilon>(kInf)});
  EXPECT_EQ(EpsilonOf(Account(Adjacency::kReplaceOne, open), 1e-5).upper, kInf);
  EXPECT_EQ(DeltaOf(Account(Adjacency::kReplaceOne, open), 3).upper, 1);
}

// ---- zCDP of single events.

TEST(ZcdpCost, OfPureDpIsTightAndNeverTooLow) {
  for (const double epsilon : {1e-6, 0.1, 1.0, 5.0, 50.0}) {
    const double rho = ZcdpCost(Pure(epsilon)).value();
    EXPECT_LE(rho, epsilon * epsilon / 2 * (1 + 1e-12));
    for (double t = 1e-4; t < 1e5; t *= 1.1) {
      const double x = (t + 0.5) * epsilon, y = epsilon / 2;
      // log cosh without overflow
      const double k = (x + std::log1p(std::exp(-2 * x))) - (y + std::log1p(std::exp(-2 * y)));
      ASSERT_LE(k, rho * t * (t + 1) * (1 + 1e-9) + 1e-13 * (1 + x)) << epsilon << " " << t;
    }
    EXPECT_NEAR(rho, epsilon * std::tanh(epsilon / 2), 1e-12 * rho);      // the divergence of order 1
  }
}

TEST(ZcdpCost, Table) {
  EXPECT_EQ(ZcdpCost(Gaussian(3)).value(), 4.5);
  EXPECT_EQ(ZcdpCost(Poisson(0.01, 3)).value(), 4.5);
  EXPECT_EQ(ZcdpCost(Poisson(0, 3)).value(), 0);
  EXPECT_EQ(ZcdpCost(Fixed(0.5, 1)).value(), 0.5);
  EXPECT_EQ(ZcdpCost(ZcdpEvent{Of<Rho>(0.3)}).value(), 0.3);
  EXPECT_NEAR(ZcdpCost(DiscreteGaussianEvent{.sigma = Of<NoiseStd>(4), .sensitivity = 2}).value(), 0.125,
              1e-15);
  EXPECT_EQ(ZcdpCost(NonPrivateEvent{}).value(), kInf);
  EXPECT_EQ(ZcdpCost(ApproximateEvent{Of<Epsilon>(1), Of<Delta>(1e-9)}).value(), kInf);
  EXPECT_EQ(ZcdpCost(RenyiEvent{}).value(), kInf);
  EXPECT_EQ(ZcdpCost(Pure(0)).value(), 0);
  EXPECT_EQ(ZcdpCost(ApproximateEvent{Of<Epsilon>(1), Of<Delta>(0)}).value(), ZcdpCost(Pure(1)).value());
}

}  // namespace
}  // namespace tacit
