#include "algorithms/nfl_theory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "privacy/claims.h"
#include "privacy/gdp.h"
#include "privacy/schedule.h"

namespace tacit {
namespace {

TEST(NflTheory, LemmaOne) { EXPECT_NEAR(NflTheory::Sensitivity(1, 50, 1, 3, 0.1), 0.0025, 1e-18); }

TEST(NflTheory, TheCorollarysSumHasTTerms) {
  EXPECT_NEAR(NflTheory::InversePowers(0.99, 200) / 639.918049361, 1, 1e-11);
  EXPECT_NEAR(NflTheory::InversePowers(0.99, 199) / 632.528868867, 1, 1e-11);
  EXPECT_NEAR(NflTheory::InversePowers(0.99, 1000) / 2293093.94526, 1, 1e-11);
  EXPECT_EQ(NflTheory::InversePowers(1, 200), 200);
  const double closed = (1 - std::pow(0.99, 200)) / (std::pow(0.99, 199) - std::pow(0.99, 200));
  EXPECT_NEAR(NflTheory::InversePowers(0.99, 200) / closed, 1, 1e-12);
  // The last round costs 7.4 times what the first does, and 1.155 % of the run.
  EXPECT_NEAR(std::pow(0.99, -199), 7.38918049, 1e-8);
  EXPECT_NEAR(std::pow(0.99, -199) / NflTheory::InversePowers(0.99, 200), 0.01155, 5e-6);
}

TEST(NflTheory, TheCorollaryAndWhatTheRunReallyCosts) {
  const double rho = 1e-4 * NflTheory::InversePowers(0.99, 200);
  EXPECT_NEAR(rho / 0.0639918049361, 1, 1e-11);
  EXPECT_NEAR(NflTheory::CorollaryEpsilon(1e-4, 0.99, 200, 1e-5), 1.7806547079, 1e-9);
  EXPECT_NEAR(NflTheory::CorollaryFirst(1.7806547079, 0.99, 200, 1e-5) / 1e-4, 1, 1e-9);
  EXPECT_NEAR(GdpEpsilon(Mu::Proven(std::sqrt(2 * rho)), Delta{1e-5}).upper, 1.374259486, 1e-8);
}

TEST(NflTheory, PenaltyOfGeometricNoise) {
  EXPECT_NEAR(NflTheory::GeometricPenalty(0.99, 200), 1.38545509, 1e-8);
  EXPECT_NEAR(NflTheory::GeometricPenalty(0.95, 50), 1.68313327, 1e-8);
  EXPECT_NEAR(NflTheory::GeometricPenalty(1, 50), 1, 1e-15);
  // By the schedules themselves: equal weights, constant sensitivity.
  const Vec one(200, 0.0);
  EXPECT_NEAR(NoiseCost(GeometricShares(200, 0.99), one, one, Mu{1.0}) /
                  NoiseCost(UniformShares(200), one, one, Mu{1.0}),
              1.38545509, 1e-8);
}

TEST(NflTheory, WaterFillingIsBestForTheLastIterateAndUniformForTheMean) {
  const Vec q = NflTheory::LogWeights(200, 0.97), one(200, 0.0);
  EXPECT_EQ(q.back(), 0.0);
  EXPECT_NEAR(q.front(), 2 * 199 * std::log(0.97), 1e-12);
  const auto cost = [&](const Shares& s, const Vec& weights) { return NoiseCost(s, weights, one, Mu{1.0}); };
  const Shares filled = WaterFillingShares(q, one, 0);
  for (const Shares& other : {UniformShares(200), GeometricShares(200, 0.99), GeometricShares(200, 0.95)}) {
    EXPECT_LT(cost(filled, q), cost(other, q));
    EXPECT_LE(cost(UniformShares(200), one), cost(other, one) * (1 + 1e-12));
  }
  // Water-filling for c^{2(T−n)} is the geometric schedule τ = c.
  EXPECT_NEAR(cost(GeometricShares(200, 0.97), q) / cost(filled, q), 1, 1e-9);
}

TEST(NflTheory, MultipliersOfTheCompositionTheorems) {
  const Epsilon one{1.0};
  const Delta five{1e-5};
  EXPECT_NEAR(BasicMultiplier(one, five, 200) / 1167.36923, 1, 1e-8);
  EXPECT_NEAR(AdvancedMultiplier(one, five, 200) / 432.567314, 1, 1e-8);
  EXPECT_NEAR(std::sqrt(200 / (2 * ZcdpRho(one, five).value())) / 69.3043158, 1, 1e-8);
  EXPECT_NEAR(std::sqrt(200.0) / GdpMu(one, five).value() / 52.7590985, 1, 1e-8);
}

TEST(NflTheory, TheNoiseTermAndTheThreeBoundsAgree) {
  NflTheory theory{.rho = 0.5, .graph = SpectrumOf(Ring(10)), .dim = 8};
  const double least = 2 - 2 * std::cos(std::acos(-1.0) / 5);
  EXPECT_NEAR(theory.NoiseConstant(), 4 * 0.5 * 8 * (16 + 16) / least, 1e-9);
  Vec delta(10), phi(10, 1e-4), variance(10);
  for (std::size_t k = 0; k < 10; ++k) {
    delta[k] = NflTheory::Sensitivity(1, 40 + static_cast<double>(k), 0.5, 2, 0.1);
    variance[k] = delta[k] * delta[k] / (2 * phi[k]);
  }
  const double bound = theory.Bound22(variance, 0.99, 200);
  EXPECT_NEAR(theory.Bound23(delta, phi, 0.99, 200) / bound, 1, 1e-12);
  // (23) with nothing of theirs: α_ξ = 512/Φ_min and Δ_k = 2/(M_k(2·0.5·2 + 10)); and with unequal φ_k.
  double alike = 0, apart = 0;
  Vec unequal(10);
  for (std::size_t k = 0; k < 10; ++k) {
    const double m = 40 + static_cast<double>(k), square = 4 / (144 * m * m);
    unequal[k] = 1e-4 * (1 + static_cast<double>(k));
    alike += square / 2e-4, apart += square / (2 * unequal[k]);
  }
  EXPECT_NEAR(bound / (512 / least / 200 * alike / 0.01), 1, 1e-9);
  EXPECT_NEAR(theory.Bound23(delta, unequal, 0.99, 200) / (512 / least / 200 * apart / 0.01), 1, 1e-9);
  EXPECT_NEAR(theory.Bound24(delta, 1e-4, 0.99, 200) / bound, 1, 1e-12);
  double sum = 0;      // of 200 rounds, below the sum to infinity
  for (int n = 0; n < 200; ++n)
    for (const double v : variance) sum += v * std::pow(0.99, n);
  EXPECT_NEAR(theory.NoiseTerm(sum, 200) / bound, 1 - std::pow(0.99, 200), 1e-9);
}

// Quadratics with one second derivative on a ring: errors shrink by the factor, in the end.
TEST(NflTheory, TheFactorIsThatOfQuadraticsOnARegularGraph) {
  const Graph ring = Ring(8);
  NflTheory theory{.rho = 0.3, .graph = SpectrumOf(ring), .dim = 1};
  for (const double curvature : {0.05, 0.6}) {
    const double eta = 0.5, b = NflTheory::Denominator(0.3, 2, eta);
    Vec w(8), gamma(8), next(8);
    for (std::size_t k = 0; k < 8; ++k) w[k] = k == 0 ? 3.0 : 0.1 * static_cast<double>(k);
    const auto steps = [&](int count) {
      for (int n = 0; n < count; ++n) {
        for (std::size_t k = 0; k < 8; ++k) {
          next[k] = w[k] / eta - gamma[k] - curvature * w[k];
          for (const std::uint32_t l : ring.of(k)) next[k] += 0.3 * (w[k] + w[l]);
          next[k] /= b;
        }
        w = next;
        for (std::size_t k = 0; k < 8; ++k)
          for (const std::uint32_t l : ring.of(k)) gamma[k] += 0.3 * (w[k] - w[l]);
      }
      return std::log(std::sqrt(NormSquared(w) + NormSquared(gamma)));
    };
    const double from = steps(60), to = steps(100);
    EXPECT_NEAR((to - from) / 100, std::log(theory.Factor(curvature, 2, eta)), 0.01);
  }
}

}  // namespace
}  // namespace tacit
