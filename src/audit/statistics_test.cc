#include "audit/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/rng.h"

namespace tacit {
namespace {

double Choose(int n, int k) {
  return std::round(std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)));
}
double Binomial(int n, int k, double p) { return Choose(n, k) * std::pow(p, k) * std::pow(1 - p, n - k); }
double AtMost(int n, int k, double p) {
  double sum = 0;
  for (int i = 0; i <= k; ++i) sum += Binomial(n, i, p);
  return sum;
}

TEST(ClopperPearson, SolvesItsEquations) {
  for (const int n : {1, 7, 30})
    for (int k = 0; k <= n; ++k)
      for (const double alpha : {0.5, 0.025, 1e-4}) {
        const double up =
            ClopperPearsonUpper(static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(n), alpha);
        const double low =
            ClopperPearsonLower(static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(n), alpha);
        EXPECT_NEAR(k < n ? AtMost(n, k, up) : alpha, alpha, 1e-9) << n << " " << k;
        EXPECT_NEAR(k > 0 ? 1 - AtMost(n, k - 1, low) : alpha, alpha, 1e-9) << n << " " << k;
        EXPECT_EQ(up == 1, k == n);
        EXPECT_EQ(low == 0, k == 0);
      }
}

TEST(ClopperPearson, NoErrorsInNRuns) {
  // P[Bin(n, p) = 0] = α at p = 1 − α^{1/n}.
  EXPECT_NEAR(ClopperPearsonUpper(0, 1000, 0.05), 1 - std::pow(0.05, 1e-3), 1e-12);
  EXPECT_EQ(ClopperPearsonUpper(0, 0, 0.05), 1);
}

TEST(Bounds, OfPerfectGuessesAreThoseOfTheNumberOfRuns) {
  const Counts c{1000, 0, 1000, 1000};
  const LowerBounds b = BoundsOf(c, Delta{1e-5}, 0.05);
  const double p = 1 - std::pow(0.025, 1e-3);
  EXPECT_NEAR(b.epsilon, std::log((1 - 1e-5 - p) / p), 1e-9);
  EXPECT_NEAR(b.mu, 2 * 2.679, 2e-3);  // −2 Φ⁻¹(0.0036821)
}

TEST(Bounds, OfCoinTossesAreZero) {
  const LowerBounds b = BoundsOf({1000, 500, 1000, 500}, Delta{1e-5}, 0.05);
  EXPECT_EQ(b.epsilon, 0);
  EXPECT_EQ(b.mu, 0);
  EXPECT_EQ(EpsilonIfGaussian(0, Delta{1e-5}), 0);
}

TEST(Bounds, AreTheSameForBothTails) {
  const LowerBounds a = BoundsOf({1000, 3, 1000, 400}, Delta{1e-5}, 0.05);
  const LowerBounds b = BoundsOf({1000, 600, 1000, 997}, Delta{1e-5}, 0.05);  // worlds and sides exchanged
  EXPECT_DOUBLE_EQ(a.epsilon, b.epsilon);
  EXPECT_DOUBLE_EQ(a.mu, b.mu);
}

// Two Gaussians that are μ apart, threshold in the middle: the bound of μ is below μ in at least 95 % of
// audits, and near it. With 400 audits a failure of more than 36 has probability below 1e-3 even if the
// coverage were exactly 95 %; it is larger, since both rates would have to be off at once.
TEST(Bounds, CoverTheTruth) {
  const double mu = 1;
  Stream coins({7, Purpose::kTest, 0, 0});
  int above = 0;
  double mean = 0;
  for (int audit = 0; audit < 400; ++audit) {
    Counts c{2000, 0, 2000, 0};
    for (int i = 0; i < 2000; ++i)
      c.above0 += coins.Normal() > mu / 2, c.above1 += coins.Normal() + mu > mu / 2;
    const double found = BoundsOf(c, Delta{1e-5}, 0.05).mu;
    above += found > mu;
    mean += found / 400;
  }
  EXPECT_LE(above, 36);
  EXPECT_GT(mean, 0.85);
}

TEST(Noise, IsJudgedByItsSquaresAndProducts) {
  Stream normal({9, Purpose::kTest, 0, 0});
  NoiseSums honest, small, shared;
  for (int i = 0; i < 4000; ++i) {
    const double a = normal.Normal(), b = normal.Normal();
    honest.Add({a * a + b * b, 2, a * b, 1});
    small.Add({0.81 * (a * a + b * b), 2, 0.81 * a * b, 1});
    shared.Add({a * a + b * b, 2, a * a, 1});
  }
  EXPECT_GT(ChanceOfSoLittle(honest), 1e-3);
  EXPECT_LT(ChanceOfSoLittle(small), 1e-9);
  EXPECT_LT(std::abs(SharedNoise(honest)), 4);
  EXPECT_GT(SharedNoise(shared), 50);
  EXPECT_NEAR(ChanceOfSoLittle({2, 2, 0, 0}), 1 - std::exp(-1.0), 1e-12);  // χ² of two
  EXPECT_EQ(ChanceOfSoLittle({}), 1);
  EXPECT_EQ(SharedNoise({}), 0);
}

// By definition, over all outcomes of W.
double ByDefinition(int m, int r, int v, double epsilon, double delta) {
  const double q = std::exp(epsilon) / (1 + std::exp(epsilon));
  double tail = 0, worst = 0;
  for (int w = v; w <= r; ++w) tail += Binomial(r, w, q);
  for (int i = 1; i <= v; ++i) {
    double within = 0;
    for (int w = v - i; w < v; ++w) within += Binomial(r, w, q);
    worst = std::max(worst, within / i);
  }
  return std::min(1.0, tail + 2 * m * delta * worst);
}

TEST(OneRun, ProbabilityIsTheFormula) {
  for (const int r : {1, 5, 20, 40})
    for (int v = 1; v <= r; v += 3)
      for (const double e : {0.0, 0.5, 2.0})
        for (const double delta : {0.0, 1e-5, 1e-3})
          EXPECT_NEAR(
              OneRunProbability(50, static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(v), e, delta),
              ByDefinition(50, r, v, e, delta), 1e-10)
              << r << " " << v << " " << e << " " << delta;
  EXPECT_EQ(OneRunProbability(50, 10, 0, 1, 1e-5), 1);
  EXPECT_EQ(OneRunProbability(50, 10, 11, 1, 1e-5), 0);
}

TEST(OneRun, AllGuessesRight) {
  // δ = 0: P[W = r] = q^r = α, so ε = ln(q/(1 − q)) with q = α^{1/r}.
  const double q = std::pow(0.05, 1.0 / 100);
  EXPECT_NEAR(OneRunEpsilon(100, 100, 100, Delta{0.0}, 0.05), std::log(q / (1 - q)), 1e-9);
  EXPECT_LT(OneRunEpsilon(100, 100, 100, Delta{1e-4}, 0.05), std::log(q / (1 - q)));
  EXPECT_EQ(OneRunEpsilon(100, 100, 50, Delta{1e-5}, 0.05), 0);
}

// Randomised response with ε on m coins is the tightest there is: P[v or more right] is the bound itself, and
// a brute-force average over all 2^m coins and answers agrees.
TEST(OneRun, IsTightForRandomisedResponse) {
  const int m = 8;
  const double e = 1.2, q = std::exp(e) / (1 + std::exp(e));
  for (int v = 1; v <= m; ++v) {
    double right = 0;
    for (unsigned coins = 0; coins < 256; ++coins)
      for (unsigned answer = 0; answer < 256; ++answer) {
        const int same = m - __builtin_popcount(coins ^ answer);
        if (same >= v) right += std::pow(q, same) * std::pow(1 - q, m - same) / 256;
      }
    EXPECT_NEAR(OneRunProbability(m, m, static_cast<std::uint64_t>(v), e, 0), right, 1e-12);
  }
}

// With δ: a release that tells everything of one coin with probability δ each, and is randomised response
// otherwise, is (ε, δ)-DP; the bound holds for it.
TEST(OneRun, HoldsForReleasesThatSometimesTell) {
  const int m = 12;
  const double e = 0.7, q = std::exp(e) / (1 + std::exp(e)), delta = 0.01;
  const double right = delta + (1 - delta) * q;  // per coin, independent
  for (int v = 1; v <= m; ++v)
    EXPECT_LE(1 - AtMost(m, v - 1, right),
              OneRunProbability(m, m, static_cast<std::uint64_t>(v), e, delta) + 1e-12)
        << v;
}

}  // namespace
}  // namespace tacit
