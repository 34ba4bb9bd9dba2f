// Constants of error feedback with noise, against values computed apart in 30 digits.
#include "algorithms/ef21_theory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "privacy/claims.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

void Near(double got, double want, double relative = 1e-8) {
  EXPECT_NEAR(got, want, relative * std::abs(want));
}

TEST(Ef21Theory, ThetaIsTwoOverAlphaForConstantSteps) {
  for (const double alpha : {0.01, 0.1, 0.5, 8.0 / 9, 1.0})
    Near(Ef21Theory{.alpha = alpha}.Theta(), 2 / alpha, 1e-12);
}

TEST(Ef21Theory, ThetaSatisfiesTheConditionThatItIsFor) {
  for (const double alpha : {0.05, 0.3, 0.9})
    for (const double part : {0.0, 0.5, 0.99}) {
      Ef21Theory t{.alpha = alpha};
      t.growth = 1 + part * (t.LargestGrowth() - 1);
      const double theta = t.Theta(), gamma = 0.1;
      // with equality, the next step being as large as it may be
      EXPECT_NEAR(gamma / 2 + theta * t.growth * gamma * (1 - alpha / 2), theta * gamma * (1 - alpha / t.m),
                  1e-12 * theta);
      if (alpha > 0.5) continue;
      // with the printed one it is violated
      const double printed = t.m / (2 * t.m - t.m * alpha - 2 * t.m * t.growth + t.m * t.growth);
      EXPECT_FALSE(printed > 0 && gamma / 2 + printed * t.growth * gamma * (1 - alpha / 2) <=
                                      printed * gamma * (1 - alpha / t.m))
          << alpha << " " << t.growth;
    }
}

TEST(Ef21Theory, TheGrowthOfTheoremOneLeavesNoStepAtAll) {
  for (const double alpha : {0.1, 0.5, 1.0}) {
    Ef21Theory t{.alpha = alpha};
    t.growth = (4 - alpha) / (4 - 2 * alpha);
    Near(t.LargestGrowth(), t.growth, 1e-14);
    t.growth *= 1 + 1e-15;
    EXPECT_EQ(t.Theta(), kInf);
    EXPECT_EQ(t.LargestStep(), 0);
  }
}

TEST(Ef21Theory, LargestStep) {
  Near(Ef21Theory{.alpha = 0.1}.LargestStep(), 0.0232624123);
  Near(Ef21Theory{.alpha = 0.2}.LargestStep(), 0.0435233417);
  Near(Ef21Theory{.alpha = 0.5}.LargestStep(), 0.0913719988);
  Near(Ef21Theory{.alpha = 1.0}.LargestStep(), 0.1449489743);
  Near(Ef21Theory{.alpha = 1.0, .smoothness = 4}.LargestStep(), 0.1449489743 / 4);
  Near(Ef21Theory{.alpha = 0.1, .smoothness = 1, .mu = 50}.LargestStep(), 0.1 / 100);  // 2α/(4μ)
}

TEST(Ef21Theory, StepsGrowUntilTheLast) {
  Ef21Theory t{.alpha = 0.5, .smoothness = 1, .mu = 0.1, .growth = 1.1};
  const Vec steps = t.Steps(40, 0.01, 0.05);
  EXPECT_EQ(steps.front(), 0.01);
  EXPECT_EQ(steps.back(), 0.05);
  std::size_t first_full = 0;
  for (std::size_t k = 1; k < steps.size(); ++k) {
    EXPECT_GE(steps[k], steps[k - 1]);
    EXPECT_LE(steps[k], 1.1 * steps[k - 1] * (1 + 1e-15));
    if (first_full == 0 && steps[k] == 0.05) first_full = k;
  }
  EXPECT_EQ(t.WarmUp(0.01, 0.05), static_cast<double>(first_full));
  Near(t.Rounds(0.01, 0.05, 10, 1e-3), 17 * (1 - 0.2) + 4 / 0.005 * std::log(1e4), 1e-12);
  t.growth = 1;
  Near(t.Rounds(0.05, 0.05, 10, 1e-3), 800 * std::log(1e4), 1e-12);
  EXPECT_EQ(t.Rounds(0.01, 0.05, 10, 1e-3), kInf);
  t.mu = 0;
  EXPECT_EQ(t.Rounds(0.05, 0.05, 10, 1e-3), kInf);
}

TEST(Ef21Theory, PrintedConditionsOnTheRounds) {
  // At d = 1e4, n = 100, γμ = 0.01: by hand. A = 4·101/20·(1 + √0.9)², m(γ) = 1 + γ + 20·42γ².
  const Ef21Theory t{.alpha = 0.1, .smoothness = 1, .mu = 1};
  const double gamma = 0.01, y = 0.01;
  const Ef21Theory::Privacy p{.epsilon = 1, .delta = 1e-5, .dim = 1e4, .clients = 100};
  const double a = 4 * 101 / 20.0 * std::pow(1 + std::sqrt(0.9), 2), c1 = 1 / (4 * std::log(1e5));
  const double common = c1 * a * 1e4 / 200 * (1 + gamma + 20 * 42 * gamma * gamma) / (1 - y / 2);
  const double beta = 4e-4 * std::log(101.0);
  const double sums = 8 * (1 - y / 4) / y + 16 * beta * (1 - y / 2) * (1 - y / 4) / (y * y);
  Near(t.PrintedRounds(Vec{gamma}, p), common * sums / std::exp(y / 4) - 1, 1e-12);
  Near(t.PrintedRounds(Vec{gamma}, p), 99666.5135714258);
  Near(t.PrintedRounds(Vec(50, gamma), p), 99666.5135714258);  // the first of equal rounds decides
  const double h = (1 - y / 4) / (1 - y / 2), q = 1 / std::sqrt(h);
  const double func = 1 + common * (1 - 1 / (h * q)) * (2 / (1 - q) + beta * q / ((1 - q) * (1 - q)));
  Near(t.PrintedRoundsByLevels(gamma, q, p), 400 * std::log(func / 2) - 1, 1e-9);
  // More clients do not lower the printed bound: A grows with n (the paper says it falls like 1/n).
  Ef21Theory::Privacy many = p;
  many.clients = 1e6;
  EXPECT_GT(t.PrintedRounds(Vec{gamma}, many), 0.98 * t.PrintedRounds(Vec{gamma}, p));
  // With ε² where it belongs no ε of use is left: about √(d ln 1/δ)/(γμ).
  EXPECT_GT(t.LeastEpsilon(gamma, p), 1e4);
  // Steps that grow: the 36th of these decides; the first would ask 23,895 rounds and the last one 16.
  Ef21Theory growing = t;
  growing.growth = 1.02;
  Near(growing.PrintedRounds(growing.Steps(3000, 0.005, gamma), p), 27383.4880963304);
}

TEST(Ef21Theory, RadiiAndTheSplitThatSuitsThem) {
  const RadiusNoise r = NoiseOfRadii(1, 0.99, 1000, Mu(1.0));
  Near(r.sum, 99.9956828753, 1e-10);
  Near(r.first, 399.982731501, 1e-10);
  Near(r.last, 0.0174421752138, 1e-10);
  Near(r.total, 39996.5463748, 1e-10);
  Near(r.equal_split, 201005.024751, 1e-10);
  Near(r.equal_split / r.total, 5.02555952876, 1e-10);
  double sum = 0, cost = 0, variance = 0;
  for (const double c : Radii(1, 0.99, 1000)) {
    const double square = 4 * c * r.sum;
    sum += c, cost += 4 * c * c / square, variance += square;
  }
  Near(sum, r.sum, 1e-12);
  Near(cost, 1, 1e-12);
  Near(variance, r.total, 1e-12);
  Near(SumOfRadii(2, 1, 7), 14, 1e-15);
}

TEST(Ef21Theory, PrintedSchedules) {
  const Ef21Theory t{.alpha = 0.5, .smoothness = 1, .mu = 0.2};
  const Vec steps = t.Steps(50, 0.05, 0.05);
  const double y = 0.01, h = (1 - y / 4) / (1 - y / 2);
  const Vec radius = PrintedRadii(steps, 0.2);
  const auto variance = [&](Ef21Noise noise, double q, std::size_t k) {  // up to a factor
    return radius[k] * radius[k] / std::exp(PrintedLogLevels(noise, steps, 0.2, q)[k]);
  };
  for (const std::size_t k : {0u, 1u, 30u}) {
    const auto e = static_cast<double>(k);
    Near(variance(Ef21Noise::kGeometric, 1, k), std::pow(1 - y / 4, e), 1e-12);
    Near(variance(Ef21Noise::kTheorem, 1, k), std::pow(1 - y / 2, e), 1e-12);
    Near(variance(Ef21Noise::kLevels, 1 / h, k), std::pow(1 - y / 4, e), 1e-12);  // q = 1/h: equal levels
    Near(variance(Ef21Noise::kLevels, 0.999, k), std::pow((1 - y / 4) * h * 0.999, e), 1e-12);
  }
  // What is called stronger protection of later rounds is weaker: their share of the budget grows.
  EXPECT_GT(PrintedLogLevels(Ef21Noise::kTheorem, steps, 0.2, 1).back(), 0);
}

// γ = 0.05·1.1^t up to 0.1, μ = 0.2: products by hand. At γ_0 throughout the last radius would be 0.9753 and
// not 0.9566, the variance of Theorem 1 0.9046 and not 0.8369.
TEST(Ef21Theory, PrintedSchedulesFollowStepsThatGrow) {
  const Ef21Theory t{.alpha = 0.5, .smoothness = 1, .mu = 0.2, .growth = 1.1};
  const Vec steps = t.Steps(21, 0.05, 0.1);
  ASSERT_EQ(steps[20], 0.1);
  const Vec radius = PrintedRadii(steps, 0.2);
  const Vec theorem = PrintedLogLevels(Ef21Noise::kTheorem, steps, 0.2, 0);
  const Vec levels = PrintedLogLevels(Ef21Noise::kLevels, steps, 0.2, 0.999);
  const Vec equal = PrintedLogLevels(Ef21Noise::kGeometric, steps, 0.2, 0);
  double quarter = 1, half = 1, q = 1;  // Π (1 − γ_iμ/4), Π (1 − γ_iμ/2), qᵗ
  for (std::size_t k = 0; k < steps.size(); ++k) {
    SCOPED_TRACE(k);
    const double variance = radius[k] * radius[k];
    Near(variance, quarter, 1e-13);
    Near(variance / std::exp(equal[k]), quarter, 1e-13);
    Near(variance / std::exp(theorem[k]), half, 1e-13);
    Near(variance / std::exp(levels[k]), quarter * quarter / half * q, 1e-13);
    const double y = std::min(0.1, 0.05 * std::pow(1.1, static_cast<double>(k))) * 0.2;
    quarter *= 1 - y / 4, half *= 1 - y / 2, q *= 0.999;
  }
  Near(radius[20], 0.956574189865);
  Near(radius[20] * radius[20] / std::exp(theorem[20]), 0.83694361357);
  EXPECT_LT(radius[20] / PrintedRadii(Vec(21, 0.05), 0.2)[20], 0.99);
}

TEST(Ef21Theory, Floors) {
  // n = 50, d = 20: what the header says, and that private state costs (ΣC/(Δ/2))² times as much.
  const Mu mu(2.0);
  Near(MirroredFloor(0.02, 20, 50, 0.5, mu), 0.0004 * 20 / (50 * 0.25 * 4), 1e-14);
  Near(PrivateFloor(0.5, 20, 50, 0.5, mu), 20.0 / (50 * 0.25 * 4), 1e-14);
  const double variances = (1 - std::pow(0.99, 2 * 100000.0)) / (1 - 0.99 * 0.99);
  Near(AccumulatedFloor(variances, 50, 4, 1), 628.1407, 1e-7);
}

TEST(Ef21Theory, TheTailOfChiSquaredIsHeavierThanPrinted) {
  // P[χ²_100 ≥ 200] for an even number of degrees: e^{−100} Σ_{k<50} 100^k/k!.
  double term = std::exp(-100.0), sum = 0;
  for (int k = 0; k < 50; ++k) {
    sum += term;
    term *= 100.0 / (k + 1);
  }
  Near(sum, 1.17845007e-8, 1e-8);
  EXPECT_GT(sum, std::exp(-25.0));  // exp(−(d/4) min(e, e²)) as printed
  EXPECT_LT(sum, std::exp(-12.5));  // exp(−(d/8) min(e, e²))
}

TEST(Ef21Theory, ExactConvergenceAndPrivacyExcludeEachOther) {
  Near(LeastFailureOfConvergence(Epsilon(1.0), Delta(1e-5)), 0.268938732, 1e-8);
  Near(LeastFailureOfConvergence(Epsilon(8.0), Delta(1e-5)), 3.3534678e-4, 1e-7);
}

TEST(Ef21Theory, APrivateVarianceIsSeen) {
  EXPECT_NEAR(VarianceLeak(1e6, 1.01, 0), 0.999565, 1e-6);
  EXPECT_NEAR(VarianceLeak(1e6, 1.01, 1), 0.999290, 1e-6);
  EXPECT_NEAR(VarianceLeak(1e4, 1.05, 0), 0.915461, 1e-6);
  EXPECT_NEAR(VarianceLeak(1e4, 1.05, 1), 0.865, 1e-3);
  EXPECT_NEAR(VarianceLeak(1e4, 1 / 1.05, 0), 0.915461, 1e-6);
  EXPECT_EQ(VarianceLeak(1e4, 1, 0), 0);
}

TEST(Ef21Theory, TheConversionOfLemmaFour) {
  const double rho = 1 / (4 * std::log(1e5));
  Near(rho, 0.0217147240952, 1e-10);
  Near(rho + 2 * std::sqrt(rho * std::log(1e5)), 1.0217147241, 1e-9);
  Near(GdpEpsilon(Mu::Proven(std::sqrt(2 * rho)), Delta(1e-5)).upper, 0.7589036, 1e-6);
}

}  // namespace
}  // namespace tacit
