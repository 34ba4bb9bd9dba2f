#include "privacy/secure_sum.h"

#include <gtest/gtest.h>

#include <cmath>

#include "privacy/mechanism.h"

namespace tacit {
namespace {

constexpr double kClip = 1.5;

Accountant PlanOf(const SecureSum& sum, std::size_t dim, std::size_t rounds, bool plain = true) {
  Accountant plan(Adjacency::kReplaceOne);
  EXPECT_TRUE(plan.Compose(sum.EventFor(L2Bound{2 * kClip}, plain, dim), rounds).ok());
  return plan;
}
SecureSum Make(std::uint32_t clients, std::uint32_t minimum, double sigma = 0.7,
               std::uint32_t colluding = 0) {
  return *SecureSum::Make({clients, minimum, colluding}, NoiseStd::Proven(sigma), L2Bound{kClip});
}

// What client `who` seals of x, with noise that is the same in every call.
Masked Sealed(const SecureSum& sum, Vec x, std::uint32_t who) {
  const std::size_t dim = x.size();
  LedgerBook book(1, PlanOf(sum, dim, 1));
  Private<Vec> v(std::move(x));
  NoiseRng rng = NoiseRng::Replayable({5, Purpose::kNoise, who, 1});
  NoiseBuffer noise;
  Masked out;
  EXPECT_TRUE(sum.Seal(Bounded::Clip(v, L2Bound{kClip}), book.account(0), rng, noise, out).ok());
  return out;
}
Vec Opened(const SecureSum& sum, const std::vector<Masked>& all) {
  MaskedTotal total;
  for (const Masked& m : all) total.Add(m);
  Released<Vec> out;
  EXPECT_TRUE(sum.Open(total, out).ok());
  return *out;
}
Vec Random(std::size_t dim, std::uint32_t who, double length) {
  Stream coins({7, Purpose::kTest, who, 0});
  Vec x(dim);
  for (double& v : x) v = coins.Normal();
  const double by = length / Norm(x);
  for (double& v : x) v *= by;
  return x;
}

TEST(SecureSum, MasksCancelInTheSum) {
  const SecureSum sum = Make(3, 3);
  std::vector<Masked> plain, covered;
  const Secret ab = Secret::Random(), ac = Secret::Random(), bc = Secret::Random();
  const std::vector<std::vector<Mask>> masks = {
      {{ab, false}, {ac, false}}, {{ab, true}, {bc, false}}, {{ac, true}, {bc, true}}};
  for (std::uint32_t i = 0; i < 3; ++i) {
    plain.push_back(Sealed(sum, Random(5000, i, 1), i));
    covered.push_back(plain.back());
    covered.back().Cover(masks[i]);
  }
  EXPECT_EQ(Opened(sum, covered), Opened(sum, plain));
  const Secret own = Secret::Random();
  const Mask self[] = {{own, false}};
  covered[0].Cover(self);
  EXPECT_NE(Opened(sum, covered), Opened(sum, plain));
  covered[2].Uncover(self);
  EXPECT_EQ(Opened(sum, covered), Opened(sum, plain));
}

// The same noise on x and on 0: the difference is x on the grid, towards 0.
TEST(SecureSum, RoundingNeverLengthens) {
  const SecureSum sum = Make(1, 1);
  for (std::uint32_t trial = 0; trial < 50; ++trial) {
    const Vec x = Random(37, trial, 3.0);
    const Vec with = Opened(sum, {Sealed(sum, x, trial)}),
              without = Opened(sum, {Sealed(sum, Vec(37), trial)});
    long double squares = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double q = with[j] - without[j];
      squares += static_cast<long double>(q) * q;
      EXPECT_NEAR(q, x[j] * kClip / 3.0, sum.grid() * 1.001);
      EXPECT_EQ(std::fmod(q, sum.grid()), 0.0);
    }
    EXPECT_LE(squares, static_cast<long double>(kClip) * kClip);
  }
}

TEST(SecureSum, NoiseIsChargedForTheFewestWhoDoNotCollude) {
  const SecureSum sum = Make(10, 7, 0.7, 2);
  const auto e = std::get<DistributedDiscreteGaussianEvent>(sum.EventFor(L2Bound{2 * kClip}, true, 100));
  EXPECT_EQ(e.clients, 5u);
  EXPECT_EQ(e.sigma.value() * sum.grid(), 0.7);
  EXPECT_GE(e.sigma.value(), 0x1p20);
  EXPECT_LT(e.sigma.value(), 0x1p21);
  EXPECT_EQ(e.sensitivity.value() * sum.grid(), 2 * kClip);
  EXPECT_EQ(e.dimension, 100u);
  // ρ = Δ²/(2nσ²): at so many steps the distance to one Gaussian is nothing.
  EXPECT_NEAR(ZcdpCost(e).value(), 4 * kClip * kClip / (2 * 5 * 0.7 * 0.7), 1e-9);
  const auto more = std::get<DistributedDiscreteGaussianEvent>(sum.EventFor(L2Bound{2 * kClip}, false, 100));
  EXPECT_NEAR(more.sensitivity.value() - e.sensitivity.value(), 10, 1e-6);  // √100 steps
}

TEST(SecureSum, QuorumsThatProveNothingAreRefused) {
  const auto why = [](std::uint32_t clients, std::uint32_t minimum, std::uint32_t colluding) {
    const Status s = Quorum{clients, minimum, colluding}.Check();
    return s.ok() ? std::string() : s.error().message;
  };
  EXPECT_EQ(why(6, 4, 0), "");
  EXPECT_EQ(why(6, 5, 2), "");
  EXPECT_NE(why(6, 3, 0).find("4 at least"), std::string::npos) << why(6, 3, 0);
  EXPECT_NE(why(6, 7, 0).find("6 clients"), std::string::npos);
  EXPECT_NE(why(6, 4, 2).find("5 at least"), std::string::npos) << why(6, 4, 2);
  EXPECT_NE(why(6, 6, 6).find("colluding"), std::string::npos);
  // Two sets of t clients have more than c in common.
  for (std::uint32_t n = 1; n < 40; ++n)
    for (std::uint32_t c = 0; c < n; ++c) {
      const Quorum quorum{n, n, c};
      EXPECT_GT(2 * quorum.threshold(), n + c);
    }
}

TEST(SecureSum, SumsDoNotWrapAndAreAsShortAsThatAllows) {
  for (const std::uint32_t n : {1u, 3u, 100u, 100000u})
    for (const double sigma : {1e-6, 0.01, 0.7, 300.0, 1e9}) {
      const auto sum = SecureSum::Make({n, n, 0}, NoiseStd::Proven(sigma), L2Bound{kClip});
      const double most = n * (kClip / std::ldexp(1.0, std::ilogb(sigma) - 20) + 1) +
                          14 * std::sqrt(n) * sigma / std::ldexp(1.0, std::ilogb(sigma) - 20);
      if (!sum.ok()) {
        EXPECT_GT(most, 0x1p61);
        continue;
      }
      EXPECT_EQ(sum->grid(), std::ldexp(1.0, std::ilogb(sigma) - 20));
      EXPECT_LT(most, std::ldexp(1.0, static_cast<int>(sum->bits()) - 1));
      EXPECT_GE(most * (1 + 2e-9), std::ldexp(1.0, static_cast<int>(sum->bits()) - 9));
    }
}

TEST(SecureSum, LongestUpdatesOfAllClientsComeThrough) {
  const SecureSum sum = Make(40, 40, 0.05);
  for (const double sign : {-1.0, 1.0}) {
    std::vector<Masked> all;
    for (std::uint32_t i = 0; i < 40; ++i) all.push_back(Sealed(sum, {sign * 2 * kClip}, i));
    EXPECT_NEAR(Opened(sum, all)[0], sign * 40 * kClip, 14 * std::sqrt(40) * 0.05);
  }
}

TEST(SecureSum, ASumOfTooFewStaysClosedAndWithoutBudgetNothingIsSealed) {
  const SecureSum sum = Make(4, 3);
  MaskedTotal total;
  for (std::uint32_t i = 0; i < 2; ++i) total.Add(Sealed(sum, {1, 2}, i));
  Released<Vec> out;
  EXPECT_EQ(sum.Open(total, out).error().code, Code::kBudget);
  total.Add(Sealed(sum, {1, 2}, 2));
  EXPECT_TRUE(sum.Open(total, out).ok());

  LedgerBook book(1, PlanOf(sum, 2, 1));
  Private<Vec> v(Vec{1, 2});
  NoiseRng rng = NoiseRng::Replayable({5, Purpose::kNoise, 0, 1});
  NoiseBuffer noise;
  Masked sealed;
  EXPECT_TRUE(sum.Seal(Bounded::Clip(v, L2Bound{kClip}), book.account(0), rng, noise, sealed).ok());
  sealed.Clear();
  EXPECT_EQ(sum.Seal(Bounded::Clip(v, L2Bound{kClip}), book.account(0), rng, noise, sealed).error().code,
            Code::kBudget);
  EXPECT_EQ(sealed.dim(), 0u);
}

// The noise of the fewest clients, fixed seeds: Σ z²/(mσ²) over 20,000 coordinates is χ² with as many
// degrees, up to the grid. 5 standard deviations: a wrong alarm once in 1.7 million seeds; here there is one
// seed.
TEST(SecureSum, TheSumOfTheFewestHasThePlannedNoise) {
  const SecureSum sum = Make(5, 3, 0.7);
  std::vector<Masked> all;
  for (std::uint32_t i = 0; i < 3; ++i) all.push_back(Sealed(sum, Vec(20000), i));
  const double chi = NormSquared(Opened(sum, all)) / (3 * 0.7 * 0.7);
  EXPECT_GT(chi, 20000 - 5 * std::sqrt(2 * 20000.0));
  EXPECT_LT(chi, 20000 + 5 * std::sqrt(2 * 20000.0));
  all.push_back(Sealed(sum, Vec(20000), 3));
  EXPECT_GT(NormSquared(Opened(sum, all)) / (3 * 0.7 * 0.7), 20000 * 1.2);  // more clients, more noise
}

}  // namespace
}  // namespace tacit
