// What accountants in use have got wrong, as tests. Values: tests/accounting/precise.py (mpmath, 32 digits),
// which shares nothing with the code here.
#include "privacy/accountant_cases.h"
#include "privacy/conversions.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

constexpr auto kAddRemove = Adjacency::kAddOrRemove;
constexpr auto kReplace = Adjacency::kReplaceOne;

// Expects value within the bracket, and the bracket to be narrow. Inputs are doubles, which 1e-12 allows for.
void ExpectHolds(const Bracket& b, double value, double width) {
  EXPECT_GE(b.upper, value * (1 - 1e-12)) << b.method;
  EXPECT_LE(b.lower, value * (1 + 1e-12)) << b.method;
  EXPECT_LE(b.upper - b.lower, width * value) << b.method;
}

// dp-accounting 0.6's grid of losses says 36.85 here though it means to be pessimistic: round-off of its
// Fourier transform is above δ. prv-accountant's bounds do not hold there either.
TEST(AccountantPeers, SmallDelta) {
  ExpectHolds(EpsilonOf(Account(kAddRemove, Poisson(0.01, 1), 100000), 1e-12), 37.541094160866665598, 1e-8);
  ExpectHolds(EpsilonOf(Account(kAddRemove, Poisson(0.01, 1), 10000), 1e-12), 10.346689837673995011, 1e-8);
  ExpectHolds(EpsilonOf(Account(kAddRemove, Poisson(0.01, 1), 100000), 1e-5), 25.573106986521504322, 1e-8);
  ExpectHolds(EpsilonOf(Account(kAddRemove, Gaussian(0.01), 10000), 1e-12), 7.2384944201788583599, 1e-12);
}

// prv-accountant composes removal only. Removal is the worse one for these; addition must be covered too.
TEST(AccountantPeers, BothDirectionsOfASample) {
  struct Case {
    std::uint64_t rounds;
    double delta, addition;
  };
  for (const Case& c : {Case{100000, 1e-12, 35.242796423714096175}, Case{10000, 1e-12, 8.9038892125628686071},
                        Case{100000, 1e-5, 24.39172223984877519}})
    EXPECT_GE(EpsilonOf(Account(kAddRemove, Poisson(0.01, 1), c.rounds), c.delta).upper, c.addition);
}

// dp-accounting 0.6 composes one randomised response, whatever the count (PLD).
TEST(AccountantPeers, EveryReleaseCounts) {
  const RandomizedResponseEvent response{.epsilon = Of<Epsilon>(0.5), .categories = 4};
  ExpectHolds(EpsilonOf(Account(kReplace, response, 1), 1e-6), 0.49999718040404580516, 1e-12);
  ExpectHolds(EpsilonOf(Account(kReplace, response, 20), 1e-6), 8.0676763926056228781, 1e-11);
  // An exponential mechanism of ε is ε-DP; its count was ignored by Rényi accountants.
  ExpectHolds(EpsilonOf(Account(kReplace, Pure(0.5), 20), 1e-6), 9.986797869640164056, 1e-11);
}

// In dp-accounting 0.6 Gaussians under replace-one cost twice as much μ by PLD and what they cost under
// add-remove by RDP. A noise multiplier says nothing without an adjacency: with clip C and std σ, μ = C/σ for
// adding or removing one unit, 2C/σ for replacing it.
TEST(AccountantPeers, ReplacingMovesASumTwice) {
  const double once = EpsilonOf(Account(kAddRemove, Gaussian(1), 10), 1e-6).lower;
  const double twice = EpsilonOf(Account(kReplace, Gaussian(2), 10), 1e-6).lower;
  EXPECT_NEAR(once, 19.4236564771, 1e-6);
  EXPECT_NEAR(twice, 49.3192766615, 1e-6);
  // One round on a sample of rate ½: 0.0799 when one unit comes or goes. When one is replaced by its
  // opposite, N(0)/2 + N(1)/2 against N(0)/2 + N(−1)/2, it is 0.1940 already.
  const Bracket comes = DeltaOf(Account(kAddRemove, Poisson(0.5, 1)), 0.5);
  const Bracket replaced = DeltaOf(Account(kReplace, Poisson(0.5, 2)), 0.5);
  ExpectHolds(comes, 0.07994462460138234727, 1e-9);
  EXPECT_GE(replaced.upper, 0.19400168569433396);
  EXPECT_LE(replaced.upper, 0.27014924538007675271 * (1 + 1e-9));  // the curve of amplification
}

// Ten thousand Gaussians took another accountant 152 s and 4.6 GB. They are one Gaussian.
TEST(AccountantPeers, ManyGaussiansAreOne) {
  ExpectHolds(EpsilonOf(Account(kAddRemove, Gaussian(1), 10000), 1e-5), 5425.5098461474295646, 1e-12);
  const Bracket one = EpsilonOf(Account(kAddRemove, Gaussian(100)), 1e-5);
  const Bracket many = EpsilonOf(Account(kAddRemove, Gaussian(1), 10000), 1e-5);
  EXPECT_NEAR(one.upper, many.upper, 1e-9);
}

// The central limit as an accountant, μ = q √(T (e^{1/σ²} − 1)), is no bound: the truth is above it.
TEST(AccountantPeers, TheCentralLimitIsNoBound) {
  struct Case {
    double q, sigma;
    std::uint64_t rounds;
    double limit;
  };
  for (const Case& c :
       {Case{0.01, 0.5, 1000, 11.98963669142543254}, Case{0.01, 1, 1000, 1.6177118087467213091},
        Case{0.001, 0.4, 10000, 11.722374380027343692}}) {
    SCOPED_TRACE(c.sigma);
    const double mu = c.q * std::sqrt(static_cast<double>(c.rounds) * std::expm1(1 / (c.sigma * c.sigma)));
    EXPECT_NEAR(GdpEpsilon(Of<Mu>(mu), Of<Delta>(1e-5)).upper, c.limit, 1e-9);
    EXPECT_GT(EpsilonOf(Account(kAddRemove, Poisson(c.q, 1 / c.sigma), c.rounds), 1e-5).lower,
              1.08 * c.limit);
  }
}

// Rényi accounting is a bound and loses: 2.10, 6.71 and 27.2 at these rounds by dp-accounting 0.6.
TEST(AccountantPeers, RenyiIsLooser) {
  struct Case {
    std::uint64_t rounds;
    double exact, renyi;
  };
  for (const Case& c :
       {Case{1000, 1.8282366666, 2.10}, Case{10000, 6.1877123900, 6.71}, Case{100000, 25.5731069865, 27.2}}) {
    const Accountant account = Account(kAddRemove, Poisson(0.01, 1), c.rounds);
    EXPECT_NEAR(EpsilonOf(account, 1e-5).upper, c.exact, 1e-6);
    const Result<double> renyi = RenyiEpsilon(account, Of<Delta>(1e-5));
    ASSERT_TRUE(renyi.ok());
    EXPECT_GT(*renyi, 1.02 * EpsilonOf(account, 1e-5).upper);
    EXPECT_LE(*renyi, c.renyi * 1.01);
  }
}

// The noise for a budget, in closed form (mpmath, 50 digits, bisection of Balle and Wang 2018, Theorem 8).
TEST(AccountantPeers, NoiseForABudget) {
  struct Case {
    double epsilon, delta, sigma;
  };
  for (const Case& c : {Case{0.1, 1e-6, 36.304690426195785}, Case{15.258, 1e-5, 0.35712558984365199},
                        Case{0.5, 1e-10, 11.436239995092029}})
    EXPECT_NEAR(1 / GdpMu(Of<Epsilon>(c.epsilon), Of<Delta>(c.delta)).value() / c.sigma, 1, 1e-14);
}

// Four records of one person, each sampled for itself: 2.89338434 by the mixture of Gaussians (contour
// integral in long double, and dp-accounting 2.89339). Groups of four of a record's account cover it.
TEST(AccountantPeers, GroupsCoverTheRecordsOfAPerson) {
  const Accountant account = Account(kAddRemove, Poisson(0.01, 0.5), 1000);
  const Result<PrivacyCurve> four = PrivacyCurve::Of(account, 4);
  ASSERT_TRUE(four.ok());
  const Result<Bracket> e = four->EpsilonAt(Of<Delta>(1e-5));
  ASSERT_TRUE(e.ok());
  EXPECT_GE(e->upper, 2.8933843406954127798);
}

}  // namespace
}  // namespace tacit
