#include <fstream>
#include <nlohmann/json.hpp>

#include "privacy/accountant_cases.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

// ---- Values from elsewhere.

double Text(const nlohmann::json& j) {
  return j.is_string() ? std::stod(j.get<std::string>()) : j.get<double>();
}

TEST(Accountant, AgreesWithValuesComputedIndependently) {
  std::ifstream file(TACIT_SOURCE_DIR "/tests/golden/accounting.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  int seen = 0;
  for (const auto& c : golden["cases"]) {
    SCOPED_TRACE(c["id"].get<std::string>());
    const auto& spec = c["spec"];
    const bool replace = spec.value("adjacency", "") == "replace_one";
    Accountant account(replace ? Adjacency::kReplaceOne : Adjacency::kAddOrRemove);
    if (spec.contains("zcdp_rho")) {
      ASSERT_TRUE(account.Compose(ZcdpEvent{Of<Rho>(Text(spec["zcdp_rho"]))}).ok());
    }
    for (const auto& m : spec.value("composition", nlohmann::json::array())) {
      const auto count = m.value("count", std::uint64_t{1});
      const std::string mech = m["mech"], sampling = m.value("sampling", "");
      PrivacyEvent event = NonPrivateEvent{};
      if (mech == "gaussian" && sampling == "without_replacement") {
        event = Fixed(Text(m["m"]) / Text(m["n"]), 1 / Text(m["sd_over_replace_one_sensitivity"]));
      } else if (mech == "gaussian" && sampling == "poisson") {
        event = Poisson(Text(m["q"]), 1 / Text(m["noise_multiplier"]));
      } else if (mech == "gaussian") {
        event = Gaussian(m.contains("mu") ? Text(m["mu"]) : 1 / Text(m["noise_multiplier"]));
      } else if (mech == "laplace") {
        event = LaplaceEvent{Of<Epsilon>(1 / Text(m["noise_multiplier"]))};
      } else if (mech == "pure_dp_worst_case") {
        event = Pure(Text(m["epsilon"]));
      } else if (mech == "approx_dp_worst_case") {
        event = ApproximateEvent{Of<Epsilon>(Text(m["epsilon"])), Of<Delta>(Text(m["delta"]))};
      } else if (mech == "discrete_gaussian_scalar") {
        event = DiscreteGaussianEvent{.sigma = Of<NoiseStd>(std::sqrt(Text(m["sigma2"])))};
      }
      ASSERT_TRUE(account.Compose(event, count).ok());
    }
    const std::string kind = c["kind"];
    const Bracket got = kind == "delta" ? DeltaOf(account, Text(c["given"]["epsilon"]))
                                        : EpsilonOf(account, Text(c["given"]["delta"]));
    const double value = Text(c["value"]);
    if (kind == "eps_rdp") {             // a looser method: an upper bound of the truth
      EXPECT_LE(got.upper, value);
    } else {
      // The grid is coarser than the contour.
      const bool grid = got.method.find("grid") != std::string::npos;
      double error = (grid ? 1e-3 : 1e-8) * value + 1e-10;
      const std::string stated = c["abs_err"];
      if (stated.find("rel") == std::string::npos) error += 2 * std::stod(stated);
      EXPECT_NEAR(got.upper, value, error) << got.method;
      EXPECT_GE(got.upper, value - 3e-11 - (stated.find("rel") == std::string::npos ? std::stod(stated) : 0));
      if (!replace && !spec.contains("zcdp_rho")) {
        EXPECT_NEAR(got.lower, value, error + (got.method.find("smoothed") != std::string::npos ? 1e-6 : 0))
            << got.method;
      }
    }
    ++seen;
  }
  EXPECT_GE(seen, 50);
}

// ---- Facts.

TEST(Accountant, PrivUnitAndScalarDp) {
  const Result<PrivUnitEvent> unit = OptimalPrivUnit(Of<Epsilon>(4), 100);
  ASSERT_TRUE(unit.ok());
  EXPECT_NEAR(unit->p.value(), 0.79357070, 1e-8);
  EXPECT_NEAR(unit->q.value(), 0.06577882, 1e-8);
  EXPECT_NEAR(EpsilonOf(*unit), 4, 1e-12);
  // d = 3: γ = tanh(ε/4), q = (1 − γ)/2.
  const Result<PrivUnitEvent> three = OptimalPrivUnit(Of<Epsilon>(4), 3);
  ASSERT_TRUE(three.ok());
  EXPECT_NEAR(three->q.value(), (1 - 0.7615941559558) / 2, 1e-12);

  // ε₀ = ε₁ = 2, the cap at e^{ε₁} = (1 − q)/q exactly: 50 rounds with a scalar of 2.
  const double e2 = std::exp(2.0), p = e2 / (1 + e2), q = 1 / (1 + e2);
  Accountant account(Adjacency::kReplaceOne);
  ASSERT_TRUE(account.Compose(PrivUnitEvent{Of<Probability>(p), Of<Probability>(q)}, 50).ok());
  ASSERT_TRUE(account.Compose(ScalarDpEvent{Of<Epsilon>(2)}, 50).ok());
  const Bracket run = EpsilonOf(account, 1e-5);
  EXPECT_NEAR(run.upper, 289.6705666, 1e-6);
  EXPECT_NEAR(run.lower, run.upper, 1e-9);
  EXPECT_NEAR(EpsilonOf(account, 0).upper, 300, 1e-9);
  EXPECT_FALSE(OptimalPrivUnit(Of<Epsilon>(0), 100).ok());
  EXPECT_FALSE(OptimalPrivUnit(Of<Epsilon>(1), 1).ok());
}

TEST(Accountant, ClosedFormsOfOneRelease) {
  EXPECT_NEAR(DeltaOf(Account(Adjacency::kReplaceOne, LaplaceEvent{Of<Epsilon>(1)}), 0.25).upper,
              1 - std::exp(-0.375), 1e-14);
  EXPECT_NEAR(DeltaOf(Account(Adjacency::kReplaceOne, Pure(1)), 0.25).upper,
              (std::exp(1.0) - std::exp(0.25)) / (1 + std::exp(1.0)), 1e-14);
  // Discrete Laplace with sensitivity 1 is randomised response.
  const Bracket discrete = DeltaOf(
      Account(Adjacency::kReplaceOne, DiscreteLaplaceEvent{.epsilon_per_step = Of<Epsilon>(1)}), 0.25);
  EXPECT_NEAR(discrete.upper, (std::exp(1.0) - std::exp(0.25)) / (1 + std::exp(1.0)), 1e-14);
  // On a fine lattice it nears Laplace noise.
  const DiscreteLaplaceEvent fine{.epsilon_per_step = Of<Epsilon>(1e-3), .sensitivity = 1000};
  EXPECT_NEAR(DeltaOf(Account(Adjacency::kReplaceOne, fine), 0.25).upper, 1 - std::exp(-0.375), 1e-3);
  const RandomizedResponseEvent three{.epsilon = Of<Epsilon>(1), .categories = 3};
  EXPECT_NEAR(DeltaOf(Account(Adjacency::kReplaceOne, three), 0.25).upper,
              (std::exp(1.0) - std::exp(0.25)) / (2 + std::exp(1.0)), 1e-14);
}

// ---- Laws.

TEST(Accountant, OrderAndGroupingDoNotMatter) {
  Accountant a(Adjacency::kAddOrRemove), b(Adjacency::kAddOrRemove);
  ASSERT_TRUE(a.Compose(Poisson(0.01, 1), 100).ok());
  ASSERT_TRUE(a.Compose(Pure(0.1), 3).ok());
  ASSERT_TRUE(a.Compose(Gaussian(0.3), 2).ok());
  ASSERT_TRUE(a.Compose(Poisson(0.02, 0.5), 50).ok());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(b.Compose(Poisson(0.02, 0.5)).ok());
  ASSERT_TRUE(b.Compose(Gaussian(0.3)).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(b.Compose(Pure(0.1)).ok());
  ASSERT_TRUE(b.Compose(Poisson(0.01, 1), 60).ok());
  Accountant c(Adjacency::kAddOrRemove);
  ASSERT_TRUE(c.Compose(Poisson(0.01, 1), 40).ok());
  ASSERT_TRUE(c.Compose(Gaussian(0.3)).ok());
  ASSERT_TRUE(b.Compose(c).ok());
  const Bracket x = EpsilonOf(a, 1e-6), y = EpsilonOf(b, 1e-6);
  EXPECT_EQ(x.upper, y.upper);
  EXPECT_EQ(x.lower, y.lower);
}

TEST(Accountant, IsMonotone) {
  const auto at = [](double q, double mu, std::uint64_t t, double delta) {
    return EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(q, mu), t), delta);
  };
  const Bracket base = at(0.01, 1, 300, 1e-6);
  EXPECT_LT(base.upper, at(0.01, 1.01, 300, 1e-6).lower);
  EXPECT_LT(base.upper, at(0.0101, 1, 300, 1e-6).lower);
  EXPECT_LT(base.upper, at(0.01, 1, 303, 1e-6).lower);
  EXPECT_LT(base.upper, at(0.01, 1, 300, 0.99e-6).lower);
}

TEST(Accountant, DeltaAndEpsilonAreInverse) {
  for (const double delta : {1e-3, 1e-6, 1e-15}) {
    const Accountant a = Account(Adjacency::kAddOrRemove, Poisson(0.02, 0.8), 5000);
    const Bracket e = EpsilonOf(a, delta);
    EXPECT_LE(DeltaOf(a, e.upper).lower, delta);
    EXPECT_GE(DeltaOf(a, e.lower).upper, delta);
    EXPECT_NEAR(DeltaOf(a, e.upper).upper / delta, 1, 1e-6);
  }
}

TEST(Accountant, SamplingEverybodyIsTheGaussian) {
  const double exact = GdpEpsilon(Of<Mu>(std::sqrt(100.0) * 0.1), Of<Delta>(1e-5)).upper;
  EXPECT_NEAR(EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(1, 0.1), 100), 1e-5).upper, exact, 1e-12);
  EXPECT_NEAR(EpsilonOf(Account(Adjacency::kReplaceOne, Fixed(1, 0.1), 100), 1e-5).upper, exact, 1e-12);
  // And nearly everybody nearly so.
  EXPECT_NEAR(EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(1 - 1e-9, 0.1), 100), 1e-5).upper, exact,
              1e-6);
}

TEST(Accountant, MoreEffortNarrowsTheBracket) {
  double last = kInf;
  for (const std::size_t nodes : {1U << 10, 1U << 13, 1U << 16}) {
    Accountant a(Adjacency::kAddOrRemove, {.nodes = nodes});
    ASSERT_TRUE(a.Compose(Poisson(0.01, 1), 8).ok());
    const Bracket e = EpsilonOf(a, 1e-5);
    EXPECT_LE(e.upper - e.lower, last);
    last = e.upper - e.lower;
  }
  EXPECT_LT(last, 1e-3);
}

// ---- What other accountants got wrong.

TEST(Accountant, CountsEveryReleaseOfEveryMechanism) {
  for (const PrivacyEvent& event :
       {PrivacyEvent(RandomizedResponseEvent{.epsilon = Of<Epsilon>(0.5), .categories = 4}),
        PrivacyEvent(Pure(0.5)), PrivacyEvent(LaplaceEvent{Of<Epsilon>(0.5)}),
        PrivacyEvent(ZcdpEvent{Of<Rho>(0.1)}), PrivacyEvent(DiscreteGaussianEvent{.sigma = Of<NoiseStd>(3)}),
        PrivacyEvent(Poisson(0.1, 1)), PrivacyEvent(ScalarDpEvent{Of<Epsilon>(0.5)}),
        PrivacyEvent(Gaussian(0.5)), PrivacyEvent(ApproximateEvent{Of<Epsilon>(0.5), Of<Delta>(1e-9)})}) {
    SCOPED_TRACE(event.index());
    const double one = EpsilonOf(Account(Adjacency::kAddOrRemove, event), 1e-6).upper;
    const double ten = EpsilonOf(Account(Adjacency::kAddOrRemove, event, 10), 1e-6).upper;
    EXPECT_GT(ten, 1.5 * one);
  }
}

TEST(Accountant, TakesTheWorseDirection) {
  // Removal is the worse one here; together they are an upper bound of both.
  const Bracket e = EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(0.01, 1), 1000), 1e-5);
  EXPECT_GT(e.lower, 1.8282);
  EXPECT_GT(e.lower, 1.4167);
}

// ---- Bad input, in words.

TEST(Accountant, RefusesInWords) {
  Accountant a(Adjacency::kAddOrRemove);
  const Status fixed = a.Compose(Fixed(0.1, 1));
  ASSERT_FALSE(fixed.ok());
  EXPECT_NE(fixed.error().message.find("replace-one"), std::string::npos);
  const Accountant other(Adjacency::kReplaceOne);
  const Status mixed = a.Compose(other);
  ASSERT_FALSE(mixed.ok());
  EXPECT_NE(mixed.error().message.find("add-remove"), std::string::npos);
  EXPECT_FALSE(a.Compose(Gaussian(1), 1000000000000001).ok());
  EXPECT_FALSE(a.Compose(RandomizedResponseEvent{.epsilon = Of<Epsilon>(1), .categories = 1}).ok());
  EXPECT_FALSE(a.Compose(PrivUnitEvent{Of<Probability>(0.2), Of<Probability>(0.6)}).ok());
  EXPECT_TRUE(a.lines().empty());
  for (const double bad : {-1.0, 1.0, 2.0, std::nan("")}) EXPECT_FALSE(Delta::Of(bad).ok());
  for (const double bad : {-0.1, 1.1, std::nan("")}) EXPECT_FALSE(Probability::Of(bad).ok());
  EXPECT_FALSE(Mu::Of(std::nan("")).ok());
  EXPECT_FALSE(Epsilon::Of(-1).ok());
}

TEST(Accountant, EdgesAreDefined) {
  EXPECT_EQ(EpsilonOf(Accountant(Adjacency::kReplaceOne), 1e-5).upper, 0);
  EXPECT_EQ(DeltaOf(Accountant(Adjacency::kReplaceOne), 0).upper, 0);
  EXPECT_EQ(EpsilonOf(Account(Adjacency::kAddOrRemove, NonPrivateEvent{}), 0.5).upper, kInf);
  EXPECT_EQ(EpsilonOf(Account(Adjacency::kAddOrRemove, Gaussian(0)), 0.5).upper, 0);
  EXPECT_EQ(EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(0, 1), 10), 0).upper, 0);
  EXPECT_EQ(EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(0.1, 1), 10), 0).upper, kInf);
  EXPECT_EQ(EpsilonOf(Account(Adjacency::kAddOrRemove, Gaussian(kInf)), 0.1).upper, kInf);
  EXPECT_EQ(EpsilonOf(Account(Adjacency::kAddOrRemove, Pure(kInf)), 0.1).upper, kInf);
  // Everybody who is sampled is seen.
  EXPECT_NEAR(DeltaOf(Account(Adjacency::kAddOrRemove, Poisson(0.01, kInf), 2), 3).upper, 1 - 0.99 * 0.99,
              1e-12);
  // δ already above what is released.
  EXPECT_EQ(EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(0.001, 0.1), 3), 0.5).upper, 0);
  // 10¹² rounds: an answer, wide if need be.
  const Bracket many = EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(1e-6, 0.1), 1000000000000), 1e-6);
  EXPECT_GT(many.upper, 0);
  EXPECT_LT(many.upper, 1);
  const Bracket pure = EpsilonOf(Account(Adjacency::kAddOrRemove, Pure(1e-5), 1000000), 1e-6);
  EXPECT_LT(pure.upper, 0.06);
  EXPECT_GE(pure.lower, 0.99 * pure.upper);
}

}  // namespace
}  // namespace tacit
