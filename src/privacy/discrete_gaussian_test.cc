#include "privacy/discrete_gaussian.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cfenv>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "privacy/discrete_gaussian_internal.h"
#include "privacy/lattice_attack.h"

namespace tacit {
namespace {

constexpr double kFalseAlarm = 1e-6;    // of each statistical test, over the choice of its fixed seed
constexpr double kNormalLimit = 4.892;  // |N(0, 1)| exceeds it with that probability

std::vector<std::int64_t> Sample(double sigma, std::uint64_t seed, std::size_t n,
                                 DiscreteCounters* counters = nullptr) {
  NoiseRng rng = NoiseRng::Replayable({seed, Purpose::kNoise, 0, 0});
  std::vector<std::int64_t> out(n);
  DiscreteGaussian(sigma).Fill(rng, out, counters);
  return out;
}

double Weight(double sigma, std::int64_t k) {
  const double z = static_cast<double>(k) / sigma;
  return std::exp(-0.5 * z * z);
}

TEST(DiscreteGaussian, HasTheProbabilitiesOfTheLaw) {
  // 16 is the last with a table.
  for (double sigma : {0.3, 0.5, 1.0, 1.7, 5.25, 15.9, 16.0, 16.0000001, 17.0, 40.0}) {
    SCOPED_TRACE(sigma);
    const std::size_t n = 1'000'000;
    const auto k = Sample(sigma, 1, n);
    const auto end = static_cast<std::int64_t>(40 * sigma) + 10;
    double total = 1;
    for (std::int64_t v = 1; v < end; ++v) total += 2 * Weight(sigma, v);
    // Cells with at least 20 expected, the rest pooled at both ends.
    std::int64_t last = 0;
    double beyond = (total - 1) / 2;  // Σ of weights > last
    while (static_cast<double>(n) * (beyond - Weight(sigma, last + 1)) / total >= 20)
      beyond -= Weight(sigma, ++last);
    ++last;  // the pool: |k| ≥ last
    std::vector<double> count(static_cast<std::size_t>(2 * last + 1));
    for (std::int64_t v : k) ++count[static_cast<std::size_t>(std::clamp(v, -last, last) + last)];
    double chi2 = 0;
    for (std::int64_t v = -last; v <= last; ++v) {
      const double expected =
                       static_cast<double>(n) * (std::abs(v) == last ? beyond : Weight(sigma, v)) / total,
                   d = count[static_cast<std::size_t>(v + last)] - expected;
      chi2 += d * d / expected;
    }
    EXPECT_GT(boost::math::gamma_q(static_cast<double>(last), chi2 / 2), kFalseAlarm);  // 2·last degrees
  }
}

TEST(DiscreteGaussian, NextToNothingIsNearlyAlwaysZero) {
  for (std::int64_t v : Sample(0x1p-6, 2, 10'000)) ASSERT_EQ(v, 0);  // P(K ≠ 0) = 2e^-2048
}

TEST(DiscreteGaussian, FollowsTheNormalLawWhereTheGridIsFine) {
  for (double sigma : {0x1.4p16, 0x1.8p30, 0x1.5p33, 0x1p40}) {
    SCOPED_TRACE(sigma);
    auto k = Sample(sigma, 3, 500'000);
    const double n = static_cast<double>(k.size());
    double sum = 0, squares = 0, fourth = 0;
    for (std::int64_t v : k) {
      const double z = static_cast<double>(v) / sigma, z2 = z * z;
      sum += z;
      squares += z2 - 1;
      fourth += z2 * z2 - 3;
    }
    EXPECT_LT(std::abs(sum) / std::sqrt(n), kNormalLimit);
    EXPECT_LT(std::abs(squares) / std::sqrt(2 * n), kNormalLimit);
    EXPECT_LT(std::abs(fourth) / std::sqrt(96 * n), kNormalLimit);
    for (int bit = 0; bit < 12; ++bit) {
      double ones = 0;
      for (std::int64_t v : k) ones += static_cast<double>(v >> bit & 1);
      EXPECT_LT(std::abs(ones - n / 2) / std::sqrt(n / 4), 5.4) << bit;  // 12 coins: 8e-7 together
    }
    std::sort(k.begin(), k.end());
    double d = 0;
    for (std::size_t i = 0; i < k.size(); ++i) {
      const double cdf = 0.5 * std::erfc(-static_cast<double>(k[i]) / sigma / std::sqrt(2.0)),
                   at = static_cast<double>(i);
      d = std::max({d, cdf - at / n, (at + 1) / n - cdf});
    }
    // Kolmogorov: 2 exp(−2 d² n) = 1e-6; the step of the discrete law, 0.4/σ, is below 1e-5.
    EXPECT_LT(d * std::sqrt(n), 2.694 + 0.01);
  }
}

TEST(DiscreteGaussian, RejectsAndAsksForDigitsAsOftenAsPredicted) {
  const double sigma = 17, n = 4e6;
  DiscreteCounters counters;
  Sample(sigma, 4, static_cast<std::size_t>(n), &counters);
  EXPECT_EQ(counters.fast + counters.exact - counters.rejected, static_cast<std::uint64_t>(n));
  // Per proposal: 1 − G(0), and E k²/(24σ⁴) with E k² = σ² + 1/12 for a rounded normal.
  const double refuse = 1 - std::sqrt(2 * std::numbers::pi) * sigma * std::erf(1 / (sigma * std::sqrt(8.0))),
               ask = (sigma * sigma + 1.0 / 12) / (24 * std::pow(sigma, 4));
  const double proposals = n + static_cast<double>(counters.rejected);
  EXPECT_LT(
      std::abs(static_cast<double>(counters.rejected) - proposals * refuse) / std::sqrt(proposals * refuse),
      kNormalLimit);
  EXPECT_LT(std::abs(static_cast<double>(counters.exact) - proposals * ask) / std::sqrt(proposals * ask),
            kNormalLimit);
  DiscreteCounters far, table;
  Sample(0x1p30, 4, 100'000, &far);
  EXPECT_EQ(far.fast, 100'000u);  // a question has probability 1e-15
  Sample(3, 4, 100'000, &table);
  EXPECT_EQ(table.fast, 100'000u);
  EXPECT_EQ(table.exact, 0u);
}

TEST(DiscreteGaussian, IsReplayableAndCopiesDrawTheSame) {
  for (double sigma : {2.5, 1000.0}) {
    EXPECT_EQ(Sample(sigma, 5, 3000), Sample(sigma, 5, 3000));
    EXPECT_NE(Sample(sigma, 5, 50), Sample(sigma, 6, 50));
    EXPECT_TRUE(Sample(sigma, 5, 0).empty());
    const DiscreteGaussian a(sigma), b(a);      // NOLINT: the copy is what is tested
    EXPECT_EQ(b.sigma(), sigma);
    NoiseRng rng = NoiseRng::Replayable({5, Purpose::kNoise, 0, 0});
    std::vector<std::int64_t> out(3000);
    b.Fill(rng, out);
    EXPECT_EQ(out, Sample(sigma, 5, 3000));
  }
}

TEST(DiscreteGaussianDeathTest, RefusesWhatItCannotDraw) {
  for (double sigma : {0.0, -1.0, 0.01, 0x1.8p40, std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_DEATH(DiscreteGaussian{sigma}, "broken invariant") << sigma;
  for (double sigma : {1.0, 100.0})
    EXPECT_DEATH(
        {
          std::fesetround(FE_DOWNWARD);
          Sample(sigma, 7, 1);
        },
        "broken invariant");
}

// P(|K| ≥ j) for j = 1.., by direct summation with 400 bits.
std::vector<Real> ReferenceTails(double sigma, int count) {
  const int last = count + static_cast<int>(30 * sigma) + 2;
  std::vector<Real> tails(static_cast<std::size_t>(last) + 2, Real(0));
  for (int j = last; j >= 1; --j)
    tails[static_cast<std::size_t>(j)] =
        tails[static_cast<std::size_t>(j) + 1] + 2 * exp(Real(-Real(j) * j / (2 * Real(sigma) * sigma)));
  const Real total = 1 + tails[1];
  for (Real& t : tails) t /= total;
  return {tails.begin() + 1, tails.begin() + 1 + count};
}

struct Tally {
  std::uint64_t tried = 0, wrong = 0, exact = 0;
};

// Uniform numbers on both sides of every entry of the table, from 2^-61 to 2^-300 away.
Tally AttackTable(const internal::TailTable& table, const std::vector<Real>& tails) {
  Tally tally;
  for (const Real& boundary : tails) {
    for (int exponent : {-61, -62, -63, -64, -65, -80, -127, -200, -300}) {
      for (int side : {-1, 1}) {
        const Real u = boundary + side * ldexp(Real(1), exponent);
        if (u <= 0 || u >= 1) continue;
        std::vector<std::uint64_t> words = Words(ldexp(u, 63));
        std::int64_t want = 0;
        for (const Real& t : tails) want += u < t;
        for (std::uint64_t sign : {std::uint64_t{0}, std::uint64_t{1} << 63}) {
          Script more(words);
          const internal::DiscreteDraw draw = table.Draw(words[0] | sign, more);
          ++tally.tried;
          tally.wrong += draw.k != (sign ? -want : want);
          tally.exact += draw.exact;
        }
      }
    }
  }
  return tally;
}

TEST(DiscreteTable, NoEntryIsEverCrossed) {
  for (double sigma : {0.1, 0.3, 1.0, 2.2}) {
    SCOPED_TRACE(sigma);
    const internal::TailTable table(sigma);
    const Tally tally = AttackTable(table, ReferenceTails(sigma, static_cast<int>(table.at.size()) + 3));
    EXPECT_GE(tally.tried, 10 * table.at.size());
    EXPECT_EQ(tally.wrong, 0u);
    EXPECT_GT(tally.exact, tally.tried / 3);
  }
}

TEST(DiscreteTable, IsExactToTheLastBit) {
  for (double sigma : {0x1p-6, 0.1, 1.0, 3.14159, 7.5, 16.0}) {
    SCOPED_TRACE(sigma);
    const internal::TailTable table(sigma);
    const auto tails = ReferenceTails(sigma, static_cast<int>(table.at.size()));
    for (std::size_t j = 0; j < tails.size(); ++j) {
      const Real whole = floor(ldexp(tails[j], 63));
      ASSERT_EQ(table.at[j], mpfr_get_ui(whole.backend().data(), MPFR_RNDN)) << j;
    }
    EXPECT_EQ(table.at.back(), 0u);
    EXPECT_TRUE(std::is_sorted(table.at.rbegin(), table.at.rend()));
  }
}

TEST(DiscreteTable, TheAttackCatchesAnEntryOffByOne) {
  for (std::uint64_t error : {std::uint64_t{1}, ~std::uint64_t{0}}) {
    internal::TailTable table(1);
    const auto tails = ReferenceTails(1, static_cast<int>(table.at.size()) + 3);
    table.at[2] += error;
    EXPECT_GT(AttackTable(table, tails).wrong, 0u);
  }
}

// 1 − a(k), from tails of the normal law with 400 bits.
Real ReferenceRefusal(double sigma, std::int64_t k) {
  const Real s = sigma, half = Real(0.5), x = Real(k);
  const Real zero = UpperTail(Real(-half / s)) - UpperTail(Real(half / s)),
             cell = UpperTail(Real((x - half) / s)) - UpperTail(Real((x + half) / s));
  return 1 - zero * exp(Real(-x * x / (2 * s * s))) / cell;
}

TEST(DiscreteAcceptance, TheReferenceIsTheIntegralOfTheProof) {
  for (double sigma : {16.5, 30.0, 1000.0}) {
    for (double z : {0.1, 1.0, 3.0, 8.0}) {
      const auto k = static_cast<std::int64_t>(std::ceil(z * sigma));
      const double kappa = static_cast<double>(k) / (sigma * sigma);
      const auto w = [&](double t) { return std::exp(-t * t / (2 * sigma * sigma)); };
      using Rule = boost::math::quadrature::gauss<double, 30>;
      const double base = Rule::integrate(w, 0, 0.5),
                   more = Rule::integrate(
                       [&](double t) { return w(t) * 2 * std::pow(std::sinh(kappa * t / 2), 2); }, 0, 0.5);
      const double want = more / (base + more);  // 1 − G(0)/G(k), cosh − 1 = 2 sinh²(·/2)
      EXPECT_NEAR(ReferenceRefusal(sigma, k).convert_to<double>() / want, 1, 1e-12) << sigma << ' ' << z;
      const double bound = static_cast<double>(k * k) / (24 * std::pow(sigma, 4));
      EXPECT_GE(bound, want);
      EXPECT_LT(bound, want * 1.01) << "the bound is nearly attained, so the attack has power";
    }
  }
}

// Coins on both sides of 1 − a(k), from far outside to far inside what 64 bits resolve.
Tally AttackAcceptance(double sigma, double factor, int deviates, Stream& stream) {
  const internal::Acceptance acceptance(sigma, factor);
  Tally tally;
  for (int i = 0; i < deviates; ++i) {
    const auto k = static_cast<std::int64_t>(std::ceil(6 * sigma * stream.Uniform())) + 1;
    const Real refusal = ReferenceRefusal(sigma, k);
    for (int exponent : {-3, -5, -8, -16, -30, -45, -60, -80, -150, -250}) {
      for (int side : {-1, 1}) {
        const Real v = refusal * (1 + side * ldexp(Real(1), exponent));
        const std::vector<std::uint64_t> words = Words(ldexp(v, 64));
        Script more(words);
        const std::int64_t signed_k = stream() & 1 ? -k : k;
        const bool fast = acceptance.Fast(signed_k, words[0]);
        const bool accept = fast || acceptance.Exact(signed_k, words[0], more);
        ++tally.tried;
        tally.exact += !fast;
        tally.wrong += accept != (side > 0);
      }
    }
  }
  return tally;
}

TEST(DiscreteAcceptance, NoCoinIsEverMisjudged) {
  Stream stream({8, Purpose::kTest, 0, 0});
  Tally sum;
  for (double sigma : {16.0000001, 17.0, 100.0, 0x1.23456789abcdep12, 0x1p20, 0x1.8p30, 0x1p40}) {
    SCOPED_TRACE(sigma);
    const Tally tally = AttackAcceptance(sigma, 1, 25, stream);
    EXPECT_EQ(tally.wrong, 0u);
    EXPECT_GE(tally.exact, tally.tried / 2);  // whatever must be rejected, and more
    sum.tried += tally.tried;
  }
  EXPECT_GE(sum.tried, 3500u);
  // Zero is always kept.
  const std::vector<std::uint64_t> no_words;
  Script none(no_words);
  EXPECT_TRUE(internal::Acceptance(17).Fast(0, 0));
  EXPECT_TRUE(internal::Acceptance(17).Exact(0, 0, none));
}

TEST(DiscreteAcceptance, TheAttackCatchesALoosenedBound) {
  Stream stream({9, Purpose::kTest, 0, 0});
  for (double sigma : {17.0, 0x1p12}) {
    SCOPED_TRACE(sigma);
    EXPECT_GT(AttackAcceptance(sigma, 0, 5, stream).wrong, 0u) << "accepts everything";
    EXPECT_GT(AttackAcceptance(sigma, 0.98, 20, stream).wrong, 0u) << "claims 98 % of its bound";
  }
}

}  // namespace
}  // namespace tacit
