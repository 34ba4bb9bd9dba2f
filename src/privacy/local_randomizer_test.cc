#include "privacy/local_randomizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tacit {
namespace {

constexpr double kSix = 4.892;  // two-sided normal quantile of 1e-6, the false-alarm rate of each statistic
constexpr StreamId kId = {.seed = 77, .purpose = Purpose::kNoise, .who = 5, .round = 1};

LocalRandomizer Make(std::size_t d, CapSampler s = CapSampler::kLattice) {
  const auto direction = PrivUnit::Optimal(Epsilon{4.0}, d, s);
  const auto length = ScalarDp::Make(Epsilon{2.0}, L2Bound{1.0});
  EXPECT_TRUE(direction.ok() && length.ok());
  return {*direction, *length};
}

struct Setting {
  explicit Setting(Vec x) : value(std::move(x)) {}
  Private<Vec> value;
  NoiseRng rng = NoiseRng::Replayable(kId);
  PrivUnitSpace space;
  Released<std::uint32_t> level;
  Released<GridVec> v;
  Released<Vec> c;
  Status Release(const LocalRandomizer& r, Ledger& ledger) {
    return r.Release(Bounded::Clip(value, L2Bound{1.0}), ledger, rng, space, level, v);
  }
};

TEST(LocalRandomizer, PaysBothEventsOnceUnderEveryAdjacency) {
  const LocalRandomizer r = Make(10);
  const MuSquared cost = Cost(r.direction().event()) + Cost(r.length().event());
  // 2Φ⁻¹(e^ε/(1 + e^ε)) for ε = 4 and ε = 2.
  EXPECT_NEAR(cost.value(), std::pow(4.19447808556034, 2) + std::pow(2.3579614856472495, 2), 1e-8);
  for (const Adjacency a : {Adjacency::kReplaceOne, Adjacency::kAddOrRemove, Adjacency::kZeroOut}) {
    Setting s(Vec(10, 0.1));
    Ledger ledger(cost, a);
    ASSERT_TRUE(s.Release(r, ledger).ok());  // the budget is enough to the last bit,
    EXPECT_EQ(ledger.spent(), cost);
    EXPECT_EQ(ledger.charges(), 2u);
    EXPECT_FALSE(s.Release(r, ledger).ok());  // and for one release
  }
}

TEST(LocalRandomizer, RefusalDrawsNothingAndChangesNothing) {
  const LocalRandomizer r = Make(10);
  Setting s(Vec(10, 0.1));
  Ledger open(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
  ASSERT_TRUE(s.Release(r, open).ok());
  const GridVec before = *s.v;
  const std::uint32_t level = *s.level;
  s.rng.Rekey(kId);
  Ledger direction_only(Cost(r.direction().event()), Adjacency::kReplaceOne);
  const Status refused = s.Release(r, direction_only);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kBudget);
  EXPECT_EQ(direction_only.spent().value(), 0);
  EXPECT_EQ(direction_only.charges(), 0u);
  EXPECT_EQ(*s.v, before);
  EXPECT_EQ(*s.level, level);
  EXPECT_EQ(s.rng.Bits(), NoiseRng::Replayable(kId).Bits());
}

TEST(LocalRandomizer, TheEstimateIsUnbiasedWithTheStatedSecondMoment) {
  // Eleven statistics for each sampler.
  for (const CapSampler sampler : {CapSampler::kLattice, CapSampler::kInverse}) {
    const LocalRandomizer r = Make(5, sampler);
    const Vec x = {0.3, -0.2, 0, 0.5, 0.1};
    const double length = Norm(x);
    Setting s(x);
    Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
    const int n = 40000;
    Vec mean(5), square(5);
    double norm = 0, norm_square = 0, estimate = 0, estimate_square = 0;
    for (int i = 0; i < n; ++i) {
      ASSERT_TRUE(s.Release(r, ledger).ok());
      r.Estimate(s.level, s.v, s.c);
      for (std::size_t j = 0; j < 5; ++j) mean[j] += (*s.c)[j] / n, square[j] += (*s.c)[j] * (*s.c)[j] / n;
      const double ns = NormSquared(*s.c), es = r.SquareEstimate(s.level);
      norm += ns / n, norm_square += ns * ns / n, estimate += es / n, estimate_square += es * es / n;
    }
    for (std::size_t j = 0; j < 5; ++j)
      EXPECT_LT(std::abs(mean[j] - x[j]), kSix * std::sqrt((square[j] - mean[j] * mean[j]) / n)) << j;
    EXPECT_LT(std::abs(norm - r.SecondMoment(length)), kSix * std::sqrt((norm_square - norm * norm) / n));
    const double f = 2 * length - 1, expected = length * length - 0.25 * (0.25 - f * (1 - f));
    EXPECT_LT(std::abs(estimate - expected), kSix * std::sqrt((estimate_square - estimate * estimate) / n));
  }
}

TEST(LocalRandomizer, BadInputHasDefinedValues) {
  const LocalRandomizer r = Make(3);
  const auto release = [&](Vec x) {
    Setting s(std::move(x));
    Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
    EXPECT_TRUE(s.Release(r, ledger).ok());
    return std::pair(*s.level, *s.v);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto zero = release({0, 0, 0});
  EXPECT_EQ(release({nan, 1, 1}), zero);
  EXPECT_EQ(release({kInf, 1, 1}), zero);
  EXPECT_EQ(release({1e200, 0, 0}), zero);  // its square is ∞: what the clip cannot measure is 0
  EXPECT_EQ(release({1e100, 0, 0}).second, release({1, 0, 0}).second);
}

TEST(LocalRandomizer, SizeOnTheWire) {
  const LocalRandomizer r = Make(100);
  EXPECT_EQ(r.bits(), 3202u);
  EXPECT_EQ(r.caveat(), "");
  EXPECT_NE(Make(100, CapSampler::kInverse).caveat(), "");
}

}  // namespace
}  // namespace tacit
