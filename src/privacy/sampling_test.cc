#include "privacy/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "privacy/accountant.h"

namespace tacit {
namespace {

Sampling Poisson(double rate) {
  return {.kind = SampleKind::kPoisson, .rate = Probability::Proven(rate), .size = 0};
}
Sampling Fixed(std::uint32_t size, double rate) {
  return {.kind = SampleKind::kFixed, .rate = Probability::Proven(rate), .size = size};
}

TEST(Sampling, OnlyGaussiansAreAmplifiedAndNothingIsByAFullSample) {
  const PrivacyEvent gaussian = GaussianEvent{Mu{0.5}, L2Bound{1.0}, NoiseStd{2.0}};
  const PrivacyEvent joint = JointGaussianEvent{Mu{0.5}}, pure = PureEvent{Epsilon{1.0}};
  EXPECT_TRUE(
      SameEvent(OnSecretSample(Poisson(0.1), gaussian), PoissonGaussianEvent{Probability{0.1}, Mu{0.5}}));
  EXPECT_TRUE(
      SameEvent(OnSecretSample(Fixed(3, 0.1), gaussian), FixedSizeGaussianEvent{Probability{0.1}, Mu{0.5}}));
  EXPECT_TRUE(SameEvent(OnSecretSample({}, gaussian), gaussian));
  EXPECT_TRUE(std::holds_alternative<NonPrivateEvent>(OnSecretSample(Poisson(0.1), joint)));
  EXPECT_TRUE(std::holds_alternative<NonPrivateEvent>(OnSecretSample(Poisson(0.1), pure)));
  EXPECT_TRUE(std::holds_alternative<NonPrivateEvent>(
      OnSecretSample(Poisson(0.1), PoissonGaussianEvent{Probability{0.1}, Mu{0.5}})));
}

// The bits decide exactly: U < rate for the U whose first 64 binary digits are drawn first.
TEST(Sampling, TheCoinIsExactToTheLastBitOfItsRate) {
  const auto coin = [](double rate, std::vector<std::uint64_t> bits) {
    std::size_t at = 0;
    const bool heads = Bernoulli(Probability::Proven(rate), [&] { return bits.at(at++); });
    EXPECT_EQ(at, bits.size());
    return heads;
  };
  const std::uint64_t half = std::uint64_t{1} << 63, last = ~std::uint64_t{0};
  EXPECT_TRUE(coin(0.5, {half - 1}));
  EXPECT_FALSE(coin(0.5, {half}));
  EXPECT_FALSE(coin(0.0, {0}));
  EXPECT_TRUE(coin(1.0, {}));
  EXPECT_FALSE(coin(1 - 0x1p-53, {last}));
  const double tiny = 0x1p-60 + 0x1p-100;      // = (16 + 2^-36)·2^-64
  EXPECT_TRUE(coin(tiny, {15}));
  EXPECT_FALSE(coin(tiny, {17}));
  EXPECT_TRUE(coin(tiny, {16, (std::uint64_t{1} << 28) - 1}));
  EXPECT_FALSE(coin(tiny, {16, std::uint64_t{1} << 28}));
  EXPECT_TRUE(
      coin(0x1p-1074, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, (std::uint64_t{1} << 14) - 1}));
}

// Each of the 3 × 40 counts within 5.2 standard deviations: a false alarm once in 4·10⁴ seeds; the seed is
// fixed.
TEST(Sampling, PoissonSamplesHaveTheirRateForEveryClientAndTheirVariance) {
  constexpr std::uint32_t kClients = 40, kRounds = 20000;
  for (const double rate : {0.01, 0.3, 0.9}) {
    SecretSampler sampler(Poisson(rate), kClients, 11);
    std::vector<double> count(kClients);
    double squares = 0;
    for (std::uint32_t t = 1; t <= kRounds; ++t) {
      const auto& sample = sampler.Draw(t);
      EXPECT_TRUE(std::is_sorted(sample.begin(), sample.end()));
      for (const std::uint32_t i : sample) ++count[i];
      squares += std::pow(static_cast<double>(sample.size()) - rate * kClients, 2);
    }
    const double std = std::sqrt(kRounds * rate * (1 - rate));
    for (const double n : count) EXPECT_NEAR(n, kRounds * rate, 5.2 * std) << rate;
    // The number of clients is binomial: independent coins. Var of the variance ≤ (2 + 1/(Mqp))·v²/T.
    const double v = kClients * rate * (1 - rate);
    EXPECT_NEAR(squares / kRounds, v, 5.2 * v * std::sqrt((2 + 1 / v) / kRounds)) << rate;
  }
}

// All 20 sets of 3 of 6 are equally likely: χ² with 19 degrees, above 60 with probability 4·10⁻⁶, for each of
// the two ways to draw them.
TEST(Sampling, SetsOfAFixedSizeAreEquallyLikely) {
  SecretSampler sampler(Fixed(3, 0.6), 6, 12);
  NoiseRng rng = NoiseRng::Replayable({.seed = 12});
  const auto bits = [&rng] { return rng.Bits(); };
  std::vector<std::uint32_t> drawn;
  const std::map<std::string, std::function<const std::vector<std::uint32_t>&(std::uint32_t)>> kWays = {
      {"as a round draws it",
       [&](std::uint32_t t) -> const std::vector<std::uint32_t>& { return sampler.Draw(t); }},
      {"few",
       [&](std::uint32_t) -> const std::vector<std::uint32_t>& {
         drawn.clear();
         DrawFew(3, 6, bits, drawn);
         return drawn;
       }},
      {"many", [&](std::uint32_t) -> const std::vector<std::uint32_t>& {
         drawn.clear();
         DrawMany(3, 6, bits, drawn);
         return drawn;
       }}};
  for (const auto& [name, draw] : kWays) {
    SCOPED_TRACE(name);
    std::map<std::vector<std::uint32_t>, double> count;
    constexpr int kDraws = 40000;
    for (std::uint32_t t = 1; t <= kDraws; ++t) {
      const auto& sample = draw(t);
      ASSERT_EQ(sample.size(), 3u);
      ASSERT_TRUE(std::is_sorted(sample.begin(), sample.end()));
      EXPECT_EQ(std::set<std::uint32_t>(sample.begin(), sample.end()).size(), 3u);
      ++count[sample];
    }
    EXPECT_EQ(count.size(), 20u);
    double chi = 0;
    for (const auto& [set, n] : count) chi += std::pow(n - kDraws / 20.0, 2) / (kDraws / 20.0);
    EXPECT_LT(chi, 60);
  }
}

TEST(Sampling, SamplesOfEverySizeAreThere) {
  NoiseRng rng = NoiseRng::Replayable({.seed = 13});
  std::vector<std::uint32_t> drawn;
  for (const std::uint32_t all : {1u, 2u, 40u, 1000u})
    for (const std::uint32_t size : {0u, 1u, 25u, 126u, 127u, 999u, 1000u, 2000u}) {
      DrawSample(Fixed(size, 1), all, [&rng] { return rng.Bits(); }, drawn);
      EXPECT_EQ(drawn.size(), std::min(size, all));
      EXPECT_EQ(std::adjacent_find(drawn.begin(), drawn.end(), std::greater_equal<>()), drawn.end());
      EXPECT_TRUE(drawn.empty() || drawn.back() < all);
    }
}

TEST(Sampling, AReplayedSampleIsAFunctionOfSeedAndRound) {
  SecretSampler a(Poisson(0.5), 64, 3), b(Poisson(0.5), 64, 3), c(Poisson(0.5), 64, 4);
  SecretSampler fresh(Poisson(0.5), 64, std::nullopt), other(Poisson(0.5), 64, std::nullopt);
  const auto first = a.Draw(1);
  EXPECT_NE(a.Draw(2), first);
  EXPECT_EQ(a.Draw(1), first);
  EXPECT_EQ(b.Draw(1), first);
  EXPECT_NE(c.Draw(1), first);
  EXPECT_NE(fresh.Draw(1), other.Draw(1));  // equal once in 2^64
}

}  // namespace
}  // namespace tacit
