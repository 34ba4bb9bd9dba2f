#include "privacy/scalar_dp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tacit {
namespace {

constexpr double kRare = 5.5;  // two-sided normal quantile of 4e-8
constexpr StreamId kId = {.seed = 31, .purpose = Purpose::kNoise, .who = 2, .round = 9};

ScalarDp Make(double epsilon, double c = 1) {
  const auto s = ScalarDp::Make(Epsilon::Proven(epsilon), L2Bound::Proven(c));
  EXPECT_TRUE(s.ok());
  return *s;
}

// P(Ĵ = j | J), exactly as the sampler's integers have it.
long double Law(const ScalarDp& s, std::uint32_t j, std::uint32_t level) {
  const long double keep = std::ldexp(static_cast<long double>(s.keep()), -64);
  return (1 - keep) / (s.k() + 1.0L) + (j == level ? keep : 0);
}
// P(Ĵ = j) for the length r.
long double Law(const ScalarDp& s, std::uint32_t j, double r) {
  const long double x = static_cast<long double>(s.k()) * r / s.largest().value(), low = std::floor(x);
  const auto level = static_cast<std::uint32_t>(low);
  return (1 - (x - low)) * Law(s, j, level) + (x > low ? (x - low) * Law(s, j, level + 1) : 0);
}
template <class F>
double Expect(const ScalarDp& s, double r, F f) {
  long double sum = 0;
  for (std::uint32_t j = 0; j <= s.k(); ++j) sum += Law(s, j, r) * static_cast<long double>(f(j));
  return static_cast<double>(sum);
}

TEST(ScalarDp, ConstantsForTwoAndSix) {
  const ScalarDp s = Make(2);
  EXPECT_EQ(s.k(), 2u);
  EXPECT_NEAR(s.a(), 0.734776464124, 1e-11);
  EXPECT_NEAR(s.b(), 0.319520936758, 1e-11);
  EXPECT_NEAR(s.Estimate(0), -0.234776464, 1e-9);
  EXPECT_NEAR(s.Estimate(1), 0.5, 1e-9);
  EXPECT_NEAR(s.Estimate(2), 1.234776464, 1e-9);
  EXPECT_NEAR(static_cast<double>(Law(s, 1, std::uint32_t{1})), 0.786986042162, 1e-11);
  EXPECT_EQ(s.bits(), 2u);
  const ScalarDp six = Make(6);
  EXPECT_EQ(six.k(), 8u);
  EXPECT_NEAR(six.a(), 0.127795525614, 1e-11);
  EXPECT_NEAR(six.b(), 0.0874999527728, 1e-12);
  EXPECT_EQ(six.bits(), 4u);
}

TEST(ScalarDp, VarianceAndSquareInClosedForm) {
  const ScalarDp s = Make(2);
  EXPECT_NEAR(s.Variance(0), 0.232393712175, 1e-11);
  EXPECT_NEAR(s.Variance(0.25), 0.236199596144, 1e-11);
  EXPECT_NEAR(s.Variance(0.5), 0.115005480113, 1e-11);
  EXPECT_NEAR(s.Variance(1), 0.232393712175, 1e-11);
  const double r[] = {0, 0.25, 0.5, 0.75, 1}, square[] = {-0.0625, 0.0625, 0.1875, 0.5625, 0.9375};
  // fedexp's Algorithm 5 has s = (r̂² − c₂ r̂ − c₃)/(1 + c₁).
  const double c1 = 0.469552928249, c2 = -c1, c3 = 0.324240770191;
  for (int i = 0; i < 5; ++i)
    EXPECT_NEAR(Expect(s, r[i], [&](std::uint32_t j) { return s.SquareEstimate(j); }), square[i], 1e-12);
  for (std::uint32_t j = 0; j <= 2; ++j) {
    const double e = s.Estimate(j);
    EXPECT_NEAR(s.SquareEstimate(j), (e * e - c2 * e - c3) / (1 + c1), 1e-11);
  }
}

TEST(ScalarDp, UnbiasedWithTheStatedVarianceSummedOverAllLevels) {
  for (const double epsilon : {0.01, 0.7, 2.0, 6.0, 12.0, 20.0}) {
    for (const double c : {1e-3, 1.0, 250.0}) {
      const ScalarDp s = Make(epsilon, c);
      for (const double share : {0.0, 0.1, 0.25, 0.5, 0.777, 0.99, 1.0}) {
        const double r = share * c;
        const double mean = Expect(s, r, [&](std::uint32_t j) { return s.Estimate(j); });
        EXPECT_NEAR(mean, r, 1e-12 * c * (1 + 1 / epsilon)) << epsilon;
        const double spread = Expect(s, r, [&](std::uint32_t j) { return std::pow(s.Estimate(j) - r, 2); });
        EXPECT_NEAR(s.Variance(r), spread, 1e-9 * spread) << epsilon;
        const double x = s.k() * share, f = x - std::floor(x), step = c / s.k();
        const double square = Expect(s, r, [&](std::uint32_t j) { return s.SquareEstimate(j); });
        EXPECT_NEAR(square, r * r - step * step * (0.25 - f * (1 - f)), 1e-11 * c * c * (1 + 1 / epsilon));
        EXPECT_LE(square, r * r + 1e-11 * c * c * (1 + 1 / epsilon));
      }
    }
  }
}

TEST(ScalarDp, NoRatioOfTwoAtomsIsAboveEpsilon) {
  for (const double epsilon : {1e-6, 1e-3, 0.1, 1.0, 2.0, 3 * std::log(2.0), 6.0, 10.0, 16.0}) {
    const ScalarDp s = Make(epsilon);
    const long double limit = std::exp(static_cast<long double>(epsilon));
    long double most = 0;
    const std::uint32_t step = std::max(1u, s.k() / 20);
    for (std::uint32_t j = 0; j <= s.k(); j += step)
      for (std::uint32_t a = 0; a <= s.k(); a += step)
        for (std::uint32_t b = 0; b <= s.k(); b += step) most = std::max(most, Law(s, j, a) / Law(s, j, b));
    EXPECT_LE(most, limit) << epsilon;      // every level behaves as every other: a step tries all cases
    EXPECT_GE(most, limit * (1 - 1e-12L)) << epsilon;
    // Lengths between levels give mixtures of these laws.
    for (const double r : {0.0, 0.3, 0.5, 1.0})
      for (const double other : {0.0, 0.2, 0.9, 1.0})
        for (std::uint32_t j = 0; j <= s.k(); j += step) EXPECT_LE(Law(s, j, r) / Law(s, j, other), limit);
  }
  // The largest: e^ε no longer fits, its logarithm does.
  const ScalarDp s = Make(60);
  EXPECT_LE(std::log(Law(s, 3, std::uint32_t{3})) - std::log(Law(s, 3, std::uint32_t{4})), 60.0L);
}

TEST(ScalarDp, SamplesItsLaw) {
  // 34 frequencies, each with a false-alarm rate of 4e-8.
  for (const double epsilon : {0.5, 2.0, 6.0}) {
    const ScalarDp s = Make(epsilon, 3);
    NoiseRng rng = NoiseRng::Replayable(kId);
    for (const double r : {0.4, 3.0}) {
      const int n = 100000;
      std::vector<int> count(s.k() + 1);
      for (int i = 0; i < n; ++i) ++count.at(s.Sample(r, rng));
      for (std::uint32_t j = 0; j <= s.k(); ++j) {
        const auto p = static_cast<double>(Law(s, j, r));
        EXPECT_LT(std::abs(count[j] - n * p), kRare * std::sqrt(n * p * (1 - p)))
            << epsilon << " " << r << " " << j;
      }
    }
  }
}

TEST(ScalarDp, AnyNumberIsALength) {
  const ScalarDp s = Make(4, 2);
  const auto sample = [&](double r) {
    NoiseRng rng = NoiseRng::Replayable(kId);
    std::vector<std::uint32_t> out;
    for (int i = 0; i < 200; ++i) out.push_back(s.Sample(r, rng));
    return out;
  };
  const auto none = sample(0), all = sample(2);
  for (const double r : {std::numeric_limits<double>::quiet_NaN(), -1.0, -kInf, -0.0})
    EXPECT_EQ(sample(r), none);
  for (const double r : {2.0000001, 1e308, kInf}) EXPECT_EQ(sample(r), all);
  EXPECT_EQ(sample(5e-324), none);
  EXPECT_NE(none, all);
  EXPECT_EQ(s.Estimate(4000000000u), s.Estimate(s.k()));      // a sender's claim
  const ScalarDp tiny = Make(4, 5e-324);
  NoiseRng rng = NoiseRng::Replayable(kId);
  EXPECT_LE(tiny.Sample(1, rng), tiny.k());
}

TEST(ScalarDp, RefusesWhatItCannotDo) {
  for (const double e : {0.0, 1e-7, 61.0, kInf})
    EXPECT_FALSE(ScalarDp::Make(Epsilon::Proven(e), L2Bound{1.0}).ok());
}

}  // namespace
}  // namespace tacit
