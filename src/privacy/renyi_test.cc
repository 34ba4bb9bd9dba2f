// Accounting by Rényi divergences: for comparison, and for what is known only through them.
#include "privacy/accountant_cases.h"
#include "privacy/gdp.h"

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

TEST(RenyiEpsilonOf, Edges) {
  EXPECT_EQ(Renyi(Accountant(Adjacency::kReplaceOne), 1e-5), 0);
  EXPECT_EQ(Renyi(Account(Adjacency::kReplaceOne, NonPrivateEvent{}), 1e-5), kInf);
  EXPECT_EQ(Renyi(Account(Adjacency::kReplaceOne, Gaussian(1)), 0), kInf);
  // Order ∞: pure ε adds.
  EXPECT_NEAR(Renyi(Account(Adjacency::kReplaceOne, Pure(0.5), 4), 0), 2, 1e-9);
  const ApproximateEvent leaky{Of<Epsilon>(0.1), Of<Delta>(1e-3)};
  EXPECT_EQ(Renyi(Account(Adjacency::kReplaceOne, leaky, 10), 1e-3), kInf);
}

}  // namespace
}  // namespace tacit
