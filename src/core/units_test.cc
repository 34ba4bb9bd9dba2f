#include "core/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <type_traits>

namespace tacit {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

template <class U>
void ExpectRefused(double v, const std::string& name, const std::string& range) {
  const auto r = U::Of(v);
  ASSERT_FALSE(r.ok()) << name << " accepted " << v;
  EXPECT_EQ(r.error().code, Code::kInvalidArgument);
  EXPECT_EQ(r.error().message, fmt::format("{} = {}: must be {}", name, v, range));
}

TEST(Units, OfRefusesWhatIsOutOfRangeAndSaysSo) {
  for (const double v : {kNan, -1.0, -kInf, -5e-324}) {
    ExpectRefused<Epsilon>(v, "epsilon", "at least 0");
    ExpectRefused<Delta>(v, "delta", "in [0, 1)");
    ExpectRefused<Rho>(v, "rho", "at least 0");
    ExpectRefused<Mu>(v, "mu", "at least 0");
    ExpectRefused<MuSquared>(v, "mu squared", "at least 0");
    ExpectRefused<L2Bound>(v, "bound", "positive and finite");
    ExpectRefused<NoiseStd>(v, "noise std", "positive and finite");
    ExpectRefused<NoiseMultiplier>(v, "noise multiplier", "positive");
    ExpectRefused<Probability>(v, "probability", "in [0, 1]");
  }
  for (const double v : {1.0, 1.5, kInf}) ExpectRefused<Delta>(v, "delta", "in [0, 1)");
  for (const double v : {0.0, kInf}) ExpectRefused<L2Bound>(v, "bound", "positive and finite");
  for (const double v : {0.0, kInf}) ExpectRefused<NoiseStd>(v, "noise std", "positive and finite");
  ExpectRefused<NoiseMultiplier>(0, "noise multiplier", "positive");
  for (const double v : {NextUp(1.0), kInf}) ExpectRefused<Probability>(v, "probability", "in [0, 1]");
  EXPECT_EQ(Epsilon::Of(-1).error().message, "epsilon = -1: must be at least 0");
}

TEST(Units, OfAcceptsTheEdges) {
  for (const double v : {0.0, 5e-324, 1e300, kInf}) EXPECT_EQ(Epsilon::Of(v)->value(), v);
  for (const double v : {0.0, 5e-324, NextDown(1.0)}) EXPECT_EQ(Delta::Of(v)->value(), v);
  for (const double v : {5e-324, 1e308}) EXPECT_EQ(L2Bound::Of(v)->value(), v);
  for (const double v : {0.0, 1.0}) EXPECT_EQ(Probability::Of(v)->value(), v);
  EXPECT_EQ(NoiseMultiplier::Of(kInf)->value(), kInf);
}

TEST(Units, LiteralsAndOrder) {
  constexpr Epsilon one{1.0}, two{2.0};
  EXPECT_LT(one, two);
  EXPECT_EQ(one, Epsilon{1.0});
  EXPECT_STREQ(Name(Adjacency::kReplaceOne), "replace-one");
  EXPECT_STREQ(Name(Adjacency::kAddOrRemove), "add-remove");
  EXPECT_STREQ(Name(Adjacency::kZeroOut), "zero-out");
}

TEST(UnitsDeathTest, ProvenAbortsOnABrokenProof) {
  EXPECT_DEATH((void)Delta::Proven(1.0), "broken invariant");
  EXPECT_DEATH((void)Epsilon::Proven(kNan), "broken invariant");
}

template <class A, class B>
concept Adds = requires(A a, B b) { a + b; };
static_assert(Adds<Epsilon, Epsilon> && Adds<Delta, Delta> && Adds<Rho, Rho> && Adds<MuSquared, MuSquared>);
static_assert(!Adds<Mu, Mu>, "Gaussian DP adds squares");
static_assert(!Adds<Epsilon, Delta> && !Adds<Rho, MuSquared> && !Adds<L2Bound, L2Bound>);
static_assert(!std::is_convertible_v<double, Epsilon> && !std::is_convertible_v<Epsilon, double>);

TEST(Units, CompositionNeverRoundsDown) {
  EXPECT_GT(Rho{1.0} + Rho{1e-30}, Rho{1.0});
  EXPECT_EQ(Epsilon{1.0} + Epsilon{kInf}, Epsilon{kInf});
  std::mt19937_64 rng(21);
  std::uniform_real_distribution<double> u(0, 1);
  MuSquared total{0.0};
  __float128 real = 0;                                       // 113 bits: exact enough for 20,000 terms
  for (int i = 0; i < 20000; ++i) {
    const double term = std::exp(-20 * u(rng));
    total = total + MuSquared::Proven(term);
    real += term;
    ASSERT_GE(static_cast<__float128>(total.value()), real);
  }
  EXPECT_LE(total.value(), static_cast<double>(real) * (1 + 1e-11));
}

TEST(Units, SquareAndRootRoundUp) {
  std::mt19937_64 rng(22);
  std::uniform_real_distribution<double> u(-50, 50);
  for (int i = 0; i < 5000; ++i) {
    const Mu mu = Mu::Proven(std::exp(u(rng)));
    const MuSquared square = Squared(mu);
    EXPECT_GE(static_cast<__float128>(square.value()), static_cast<__float128>(mu.value()) * mu.value());
    EXPECT_GE(Root(square), mu);
    EXPECT_LE(Root(square).value(), NextUp(mu.value()));
    const __float128 root = Root(MuSquared::Proven(mu.value())).value();
    EXPECT_GE(root * root, static_cast<__float128>(mu.value()));
  }
  EXPECT_EQ(Squared(Mu{0.0}), MuSquared{0.0});
  EXPECT_EQ(Squared(Mu{kInf}), MuSquared{kInf});
  EXPECT_GT(Squared(Mu{1e-200}), MuSquared{0.0});
  EXPECT_EQ(Root(MuSquared{kInf}), Mu{kInf});
}

}  // namespace
}  // namespace tacit
