#include "privacy/pld.h"

#include <gtest/gtest.h>

#include <cmath>

#include "privacy/gdp.h"

namespace tacit {
namespace {

double OneRound(double epsilon, double q, double mu) {
  return SubsampledDelta(epsilon, Probability::Proven(q), Mu::Proven(mu));
}

double Rounds(double q, double mu, std::size_t rounds, double delta, PldOptions options = {}) {
  const auto e =
      SubsampledEpsilon(Probability::Proven(q), Mu::Proven(mu), rounds, Delta::Proven(delta), options);
  EXPECT_TRUE(e.ok()) << e.error().message;
  return e.ok() ? *e : NAN;
}

TEST(SubsampledDelta, OneRoundHasAClosedForm) {
  const double inner = std::log1p(std::expm1(0.1) / 0.01);
  EXPECT_NEAR(inner, 2.443832176, 1e-9);
  EXPECT_NEAR(OneRound(0.1, 0.01, 1), 7.29003770e-5, 1e-8 * 7.29003770e-5);
}

TEST(SubsampledDelta, IsAboveTheExactCurveAndCloseToIt) {
  for (const double mu : {1e-3, 0.1, 1.0, 2.0, 10.0}) {
    for (const double q : {1.0, 0.5, 1e-4}) {
      for (const double t : {0.0, 0.5, 1.0, 4.0, 8.0, 16.0, 30.0}) {
        const double epsilon = std::log1p(q * std::expm1(std::min(t * mu + mu * mu / 2, 600.0)));
        SCOPED_TRACE(testing::Message() << "mu " << mu << " q " << q << " epsilon " << epsilon);
        // The inner ε is taken a little high and low for the bounds from either side.
        const double inner = epsilon < 30 ? std::log1p(std::expm1(epsilon) / q)
                                          : epsilon + std::log((1 - (1 - q) * std::exp(-epsilon)) / q);
        const double got = OneRound(epsilon, q, mu);
        EXPECT_GE(got,
                  q * GdpDelta(Epsilon::Proven(inner * (1 + 4e-16)), Mu::Proven(mu)).lower * (1 - 4e-16));
        const double above = q * GdpDelta(Epsilon::Proven(inner * (1 - 3e-15)), Mu::Proven(mu)).upper;
        EXPECT_LE(got, above * (1 + 2e-14 * std::pow(1 + t + mu, 3) * (1 + 1 / mu)));
      }
    }
  }
}

TEST(SubsampledDelta, ContinuesBelowZeroBySymmetry) {
  const double d = OneRound(0.3, 0.1, 1);
  EXPECT_NEAR(OneRound(-0.3, 0.1, 1), 1 - std::exp(-0.3) * (1 - d), 1e-13);
  EXPECT_EQ(OneRound(-kInf, 0.1, 1), 1);
}

TEST(SubsampledDelta, HasItsLimits) {
  EXPECT_EQ(OneRound(1, 0, 1), 0);
  EXPECT_EQ(OneRound(1, 0.1, 0), 0);
  EXPECT_EQ(OneRound(kInf, 0.1, 1), 0);
  EXPECT_EQ(OneRound(1, 0.1, kInf), 0.1);
  EXPECT_EQ(OneRound(NAN, 0.1, 1), 1);
  EXPECT_LE(OneRound(0, 0.25, 1e3), 0.25);
  EXPECT_LT(OneRound(1e-3, 1e-300, 1), 1e-280);
}

// Values of an independent implementation with another grid.
TEST(SubsampledEpsilon, AgreesWithValuesComputedElsewhere) {
  struct Case {
    const char* name;
    double q, mu;
    std::size_t rounds;
    double epsilon, tolerance;
  };
  const Case cases[] = {
      {"one per cent", 0.01, 1, 1000, 2.1989, 2e-4},
      {"one per mille, strong", 1e-3, 2, 1000, 3.2860, 2e-4},
      {"one record of ten thousand, four passes", 1e-4, 2.03524763, 40000, 1.8992, 2e-4},
      {"the same, twice as strong", 1e-4, 4.07049525, 40000, 40.623, 5e-3},
      {"ten gradients on one sample", 1e-3, std::sqrt(10.0), 100, 9.6396, 2e-3},
      {"ten gradients on a sample each", 1e-3, 1, 1000, 0.1798, 2e-3},
      {"nine gradients on one sample", 1e-3, 3, 100, 8.3831, 2e-3},
      {"nine gradients on a sample each", 1e-3, 1, 900, 0.1702, 2e-3},
      {"the noise that 0.8 needs, to 1e-3 of μ", 1e-4, 1.7923, 40000, 0.8, 3e-3},
      {"the noise that 1 needs, to 1e-3 of μ", 1e-4, 1.8482, 40000, 1.0, 3e-3},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const PldOptions grid{std::size_t{1} << (c.tolerance < 1e-3 ? 18 : 16)};
    EXPECT_NEAR(Rounds(c.q, c.mu, c.rounds, 1e-5, grid), c.epsilon, c.tolerance);
  }
}

TEST(SubsampledEpsilon, WithoutSamplingIsTheGaussianCurveFromAbove) {
  EXPECT_NEAR(Rounds(1, 0.1, 100, 1e-5), 4.37718, 1e-5);
  struct Case {
    double mu;
    std::size_t rounds;
    double delta, width;
  };
  // The last two are wider: many rounds on a loss of few cells, and tails that weigh against 1 − δ.
  for (const Case& c : {Case{0.1, 100, 1e-5, 1e-5}, Case{1, 1, 1e-5, 1e-5}, Case{1, 2, 1e-8, 1e-5},
                        Case{0.01, 10000, 1e-5, 1e-5}, Case{3, 20, 1e-5, 1e-5}, Case{0.5, 4, 0.3, 1e-5},
                        Case{1e-3, 100000, 1e-6, 1e-4}, Case{5, 3, 0.999, 1e-4}}) {
    SCOPED_TRACE(testing::Message() << "mu " << c.mu << " rounds " << c.rounds << " delta " << c.delta);
    // √T μ rounded down and up, so that the comparison is with the truth.
    const double total = std::sqrt(static_cast<double>(c.rounds)) * c.mu;
    const double low = GdpEpsilon(Mu::Proven(total * (1 - 4e-16)), Delta::Proven(c.delta)).lower;
    for (const std::size_t cells : {std::size_t{1} << 10, std::size_t{1} << 14, std::size_t{1} << 18}) {
      const double got = Rounds(1, c.mu, c.rounds, c.delta, {cells});
      EXPECT_GE(got, low);
      if (cells == std::size_t{1} << 18) {
        EXPECT_LE(got, low + c.width * std::max(1.0, low));
      }
    }
  }
}

TEST(SubsampledEpsilon, OneRoundInvertsItsCurve) {
  const double d = OneRound(0.1, 0.01, 1);
  const double e = Rounds(0.01, 1, 1, d);
  EXPECT_GE(e, 0.1 * (1 - 1e-12));
  EXPECT_LE(e, 0.1 + 1e-5);
}

// δ₂(ε) = E δ_round(ε − L) over one round's loss L, whose distribution is P(L > l) = δ_round(l) −
// δ_round′(l).
TEST(SubsampledEpsilon, TwoRoundsAreAnIntegral) {
  constexpr double kQ = 0.1, kMu = 1, kAt = 1, kReach = 8, kStep = 4e-4, kDifference = 1e-6;
  const auto above = [&](double l) {
    const double slope = OneRound(l + kDifference, kQ, kMu) - OneRound(l - kDifference, kQ, kMu);
    return OneRound(l, kQ, kMu) - slope / (2 * kDifference);
  };
  double delta = 0, last = above(-kReach);
  for (double l = -kReach; l < kReach; l += kStep) {
    const double next = above(l + kStep);
    delta += (last - next) * OneRound(kAt - (l + kStep / 2), kQ, kMu);
    last = next;
  }
  EXPECT_NEAR(Rounds(kQ, kMu, 2, delta), kAt, 1e-5);
}

TEST(SubsampledEpsilon, AFinerGridIsTighter) {
  double last = kInf;
  for (int bits = 10; bits <= 18; bits += 2) {
    const double e = Rounds(0.01, 1, 200, 1e-5, {std::size_t{1} << bits});
    EXPECT_LT(e, last) << bits;
    last = e;
  }
}

TEST(SubsampledEpsilon, IsMonotone) {
  const PldOptions quick{std::size_t{1} << 15};
  const double base = Rounds(0.01, 1, 200, 1e-5, quick);
  EXPECT_GT(Rounds(0.011, 1, 200, 1e-5, quick), base);
  EXPECT_GT(Rounds(0.01, 1.05, 200, 1e-5, quick), base);
  EXPECT_GT(Rounds(0.01, 1, 220, 1e-5, quick), base);
  EXPECT_LT(Rounds(0.01, 1, 200, 1.1e-5, quick), base);
  EXPECT_LT(base, GdpEpsilon(Mu::Proven(std::sqrt(200.0)), Delta{1e-5}).lower);  // sampling helps
}

TEST(SubsampledEpsilon, HasItsLimits) {
  EXPECT_EQ(Rounds(0, 1, 10, 1e-5), 0);
  EXPECT_EQ(Rounds(0.1, 0, 10, 1e-5), 0);
  EXPECT_EQ(Rounds(0.1, 1, 0, 1e-5), 0);
  EXPECT_EQ(Rounds(1e-9, 1, 10, 1e-5), 0);  // nobody is sampled, but for a probability below δ
  EXPECT_EQ(Rounds(0.1, 1, 10, 0), kInf);
  EXPECT_EQ(Rounds(0.1, kInf, 10, 1e-5), kInf);
  EXPECT_EQ(Rounds(1e-9, kInf, 10, 1e-5), 0);
}

TEST(SubsampledEpsilon, RefusesWhatItCannotResolve) {
  const auto fine = SubsampledEpsilon(Probability{0.01}, Mu{1}, 1000, Delta{1e-40});
  ASSERT_FALSE(fine.ok());
  EXPECT_EQ(fine.error().code, Code::kUnsupported);
  EXPECT_NE(fine.error().message.find("larger delta"), std::string::npos) << fine.error().message;
  for (const std::size_t cells :
       {std::size_t{0}, std::size_t{512}, std::size_t{3000}, std::size_t{1} << 23}) {
    const auto grid = SubsampledEpsilon(Probability{0.01}, Mu{1}, 1000, Delta{1e-5}, {cells});
    ASSERT_FALSE(grid.ok());
    EXPECT_EQ(grid.error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tacit
