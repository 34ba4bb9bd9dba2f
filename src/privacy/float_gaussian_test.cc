#include "privacy/float_gaussian.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <vector>

#include "privacy/float_gaussian_internal.h"
#include "privacy/lattice_attack.h"

namespace tacit {
namespace {

constexpr double kNormalLimit = 4.892;  // |N(0, 1)| exceeds it with probability 1e-6

std::vector<double> Sample(std::uint64_t seed, std::size_t n) {
  NoiseRng rng = NoiseRng::Replayable({seed, Purpose::kNoise, 0, 0});
  std::vector<double> out(n);
  FloatNormals(rng, out);
  return out;
}

TEST(FloatNormals, IsWithinItsBoundOfTheQuantile) {
  Stream stream({1, Purpose::kTest, 0, 0});
  double worst = 0;
  for (int i = 0; i < 1500; ++i) {
    const std::uint64_t word = stream() >> stream.Below(64), next = stream() | 1;
    double z;
    std::uint32_t left;
    if (internal::RealNormals(internal::SimdInUse(), {&word, 1}, &z, &left) != 0)
      z = internal::TailNormal(word, next);
    const Real want = word >> 63 ? Real(-ReferenceQuantile({word, next})) : ReferenceQuantile({word, next});
    worst = std::max(worst, std::abs(Real(want - z).convert_to<double>()));
  }
  EXPECT_LT(worst, 0x1p-42);
}

TEST(FloatNormals, IsWithinItsBoundAtTheEnds) {
  const std::uint64_t ones = ~std::uint64_t{0}, sign = std::uint64_t{1} << 63, first = std::uint64_t{1} << 44;
  const struct {
    const char* why;
    std::uint64_t word, next;
    bool tail;
  } kCases[] = {
      {"p nearest to one half", sign - 1, 0, false},
      {"the last word of the table", first, 0, false},
      {"the first word of the tail", first - 1, ones, true},
      {"one", 1, 0, true},
      {"zero: 64 further bits", 0, 12345, true},
      {"zero, and the fewest further bits", 0, 1, true},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    for (std::uint64_t s : {std::uint64_t{0}, sign}) {
      const std::uint64_t word = c.word | s;
      double z;
      std::uint32_t left;
      const bool tail = internal::RealNormals(internal::SimdInUse(), {&word, 1}, &z, &left) != 0;
      EXPECT_EQ(tail, c.tail);
      if (tail) z = internal::TailNormal(word, c.next);
      EXPECT_EQ(std::signbit(z), s != 0);
      EXPECT_NEAR(std::abs(z), ReferenceQuantile({c.word, c.next}).convert_to<double>(), 0x1p-42);
    }
  }
}

TEST(FloatNormals, FollowsTheNormalLaw) {
  auto z = Sample(2, 2'000'000);
  const double n = static_cast<double>(z.size());
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, lag = 0, far = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double v = z[i], v2 = v * v;
    m1 += v;
    m2 += v2 - 1;
    m3 += v2 * v;
    m4 += v2 * v2 - 3;
    lag += i > 0 ? v * z[i - 1] : 0;
    far += std::abs(v) > 4.7577;  // p < 2^-20 on each side: the second word
  }
  // Variances of z, z² − 1, z³, z⁴ − 3, z·z': 1, 2, 15, 96, 1. Each false alarm 1e-6.
  EXPECT_LT(std::abs(m1) / std::sqrt(n), kNormalLimit);
  EXPECT_LT(std::abs(m2) / std::sqrt(2 * n), kNormalLimit);
  EXPECT_LT(std::abs(m3) / std::sqrt(15 * n), kNormalLimit);
  EXPECT_LT(std::abs(m4) / std::sqrt(96 * n), kNormalLimit);
  EXPECT_LT(std::abs(lag) / std::sqrt(n), kNormalLimit);
  // Poisson with mean 3.9: none or more than 19 has probability 2e-2 or 1e-8; only the latter alarms.
  EXPECT_LE(far, 19);
  std::sort(z.begin(), z.end());
  double d = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double cdf = 0.5 * std::erfc(-z[i] / std::sqrt(2.0)), at = static_cast<double>(i);
    d = std::max({d, cdf - at / n, (at + 1) / n - cdf});
  }
  EXPECT_LT(d * std::sqrt(n), 2.694);  // Kolmogorov: 2 exp(−2 d² n) = 1e-6
}

TEST(FloatNormals, IsTheSameByEveryKernelAndReplayable) {
  const auto want = Sample(3, 3'000'001);  // some of them take a second word
  for (internal::Simd simd : internal::kEverySimd) {
    if (simd > internal::BestSimd()) continue;
    NoiseRng rng = NoiseRng::Replayable({3, Purpose::kNoise, 0, 0});
    std::vector<double> out(want.size());
    internal::FloatNormalsBy(simd, rng, out);
    EXPECT_TRUE(out == want) << internal::Name(simd);
  }
  EXPECT_NE(Sample(4, 10), Sample(5, 10));
  EXPECT_TRUE(Sample(4, 0).empty());
}

TEST(FloatNormalsDeathTest, StopsInAnotherRoundingMode) {
  EXPECT_DEATH(
      {
        std::fesetround(FE_UPWARD);
        Sample(6, 1);
      },
      "broken invariant");
}

}  // namespace
}  // namespace tacit
