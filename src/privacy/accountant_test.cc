#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "privacy/accountant_cases.h"
#include "privacy/gdp.h"
#include "privacy/saddle_point.h"

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

TEST(Accountant, OrderDoesNotMatterForAnyEvents) {
  const PrivacyEvent kinds[] = {Poisson(0.05, 0.7),
                                Poisson(0.2, 0.3),
                                Gaussian(0.2),
                                Pure(0.05),
                                LaplaceEvent{Of<Epsilon>(0.1)},
                                RandomizedResponseEvent{.epsilon = Of<Epsilon>(0.2), .categories = 3}};
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 30; ++trial) {
    SCOPED_TRACE(trial);
    std::vector<std::pair<PrivacyEvent, std::uint64_t>> parts;
    for (int i = 0; i < 3; ++i) parts.emplace_back(kinds[random() % 6], 1 + random() % 40);
    Accountant forwards(Adjacency::kAddOrRemove), backwards(Adjacency::kAddOrRemove),
        singly(Adjacency::kAddOrRemove);
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(forwards.Compose(parts[i].first, parts[i].second).ok());
      ASSERT_TRUE(backwards.Compose(parts[2 - i].first, parts[2 - i].second).ok());
    }
    for (std::uint64_t round = 0; round < 40; ++round)
      for (const auto& [event, count] : parts) {
        const bool left = round < count;
        ASSERT_TRUE(singly.Compose(event, left ? 1 : 0).ok());
      }
    const Bracket a = EpsilonOf(forwards, 1e-6), b = EpsilonOf(backwards, 1e-6), c = EpsilonOf(singly, 1e-6);
    EXPECT_EQ(a.upper, b.upper);
    EXPECT_EQ(a.lower, b.lower);
    EXPECT_EQ(a.upper, c.upper);
    EXPECT_EQ(a.lower, c.lower);
  }
}

// δ of one round at any real ε, and of two as an integral over it: no transform, no tilt.
long double Tail(long double x) { return std::erfc(x / std::sqrt(2.0L)) / 2; }
long double OneRound(long double q, long double mu, long double epsilon, bool remove) {
  const long double rest = remove ? std::expm1(epsilon) + q : std::expm1(-epsilon) + q;  // q e^{y}
  if (rest <= 0) return remove ? -std::expm1(epsilon) : 0;
  const long double x = std::log(rest / q) / mu + mu / 2;
  if (remove) return q * Tail(x - mu) - rest * Tail(x);
  return Tail(-x) - std::exp(epsilon) * ((1 - q) * Tail(-x) + q * Tail(mu - x));
}
long double TwoRounds(long double q, long double mu, long double epsilon, bool remove) {
  const auto integrand = [&](long double x) {
    const long double l = std::log1p(q * std::expm1(mu * x - mu * mu / 2));
    return remove ? std::exp(-x * x / 2 + l) * OneRound(q, mu, epsilon - l, true)
                  : std::exp(-x * x / 2) * OneRound(q, mu, epsilon + l, false);
  };
  // Takahashi and Mori's rule on both sides of the loss at which the other round's curve ends.
  const auto piece = [&](long double from, long double to) {
    constexpr int kHalf = 4000;
    const long double step = 4.0L / kHalf, half_pi = std::acos(0.0L), length = (to - from) / 2;
    long double sum = 0;
    for (int j = -kHalf; j <= kHalf; ++j) {
      const long double t = j * step, u = half_pi * std::sinh(t), c = std::cosh(u);
      sum += integrand((from + to) / 2 + length * std::tanh(u)) * half_pi * std::cosh(t) / (c * c);
    }
    return sum * step * length;
  };
  const long double low = -15, high = 15 + mu;
  const long double loss = remove ? epsilon - std::log1p(-q) : -std::log1p(-q) - epsilon;  // ℓ there
  const long double rest = std::expm1(loss) + q;
  const long double middle = rest > 0 ? std::log(rest / q) / mu + mu / 2 : low;
  const bool split = middle > low && middle < high;
  const long double sum = split ? piece(low, middle) + piece(middle, high) : piece(low, high);
  return sum / std::sqrt(2 * std::acos(-1.0L));
}
TEST(Accountant, TwoRoundsAreAnIntegralOverTheClosedForm) {
  struct Case {
    double q, mu, epsilon, width;
  };
  for (const Case& c :
       {Case{0.01, 1, 0.25, 1e-7}, Case{0.01, 1, 1.2, 1e-5}, Case{0.5, 1, 5, 1e-9}, Case{0.1, 0.3, 0.2, 1e-9},
        Case{0.1, 2, 6, 1e-6}, Case{0.01, 2, 3.5, 1e-4}, Case{1e-3, 2, 0.5, 1e-2}, Case{0.9, 0.05, 0.2, 1e-9},
        Case{1e-5, 0.4, 3e-5, 1e-4}, Case{1e-6, 1, 1e-5, 1e-3}, Case{1e-4, 5, 10, 1e-3}}) {
    SCOPED_TRACE(testing::Message() << c.q << ' ' << c.mu << ' ' << c.epsilon);
    const Bracket d = DeltaOf(Account(Adjacency::kAddOrRemove, Poisson(c.q, c.mu), 2), c.epsilon);
    const auto truth = static_cast<double>(TwoRounds(c.q, c.mu, c.epsilon, true));
    EXPECT_LE(d.lower, truth * (1 + 1e-12));
    EXPECT_GE(d.upper, truth * (1 - 1e-12));
    EXPECT_LE(d.upper - d.lower, c.width * truth) << d.method;
  }
}

TEST(Contour, EnclosesTwoRoundsInBothDirections) {
  struct Case {
    double q, mu, epsilon;
  };
  for (const Case& c : {Case{0.01, 1, 0.01}, Case{0.1, 1, 0.12}, Case{0.1, 3, 0.15}, Case{0.5, 1, 0.9},
                        Case{0.5, 0.3, 0.4}, Case{0.9, 2, 3.5}})
    for (const bool remove : {true, false}) {
      SCOPED_TRACE(testing::Message() << c.q << ' ' << c.mu << ' ' << c.epsilon << ' ' << remove);
      Composition all;
      all.terms.push_back({remove ? PoissonRemoveLoss(c.q, c.mu) : PoissonAddLoss(c.q, c.mu), 2});
      const Interval d =
          Contour::Make(all, TiltForEpsilon(all, c.epsilon), c.epsilon, 1U << 16).DeltaAt(c.epsilon);
      const auto truth = static_cast<double>(TwoRounds(c.q, c.mu, c.epsilon, remove));
      EXPECT_LE(d.lower, truth * (1 + 1e-12));
      EXPECT_GE(d.upper, truth * (1 - 1e-12));
      EXPECT_LE(d.upper - d.lower, 1e-3 * truth);
    }
}

TEST(Accountant, WhoeverIsSampledIsSeenWithLittleNoise) {
  // δ(ε) is at least that of one round, and nearly 1 − (1 − q)^T for ε well below μ²/2.
  for (const double mu : {30.0, 66.0}) {
    SCOPED_TRACE(mu);
    const double q = 1e-4, floor = -std::expm1(3 * std::log1p(-q));
    const Accountant a = Account(Adjacency::kAddOrRemove, Poisson(q, mu), 3);
    const Bracket d = DeltaOf(a, mu);
    EXPECT_GE(d.upper, floor * (1 - 1e-9)) << d.method;
    EXPECT_LE(d.lower, floor * (1 + 1e-9)) << d.method;
    EXPECT_GT(EpsilonOf(a, 1e-6).upper, mu);
    EXPECT_GE(EpsilonOf(a, 1e-6).upper,
              EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(q, mu)), 1e-6).lower);
    const Accountant fixed = Account(Adjacency::kReplaceOne, Fixed(q, mu), 3);
    EXPECT_GE(DeltaOf(fixed, mu).upper, floor * (1 - 1e-9));
  }
}

TEST(Accountant, SamplesUnderReplaceOneNeedTheNormsToo) {
  // Values in [c, c + 1], σ = 1: two are a distance of 1 apart, and yet (1 − q)N(0, 1) + qN(c + 1, 1) against
  // the same with c has δ(ε) = q δ₁(ε), since whoever is sampled is seen.
  const double q = 0.01, c = 20;
  const auto normal = [](double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); };
  const auto truth = [&](double epsilon) {
    double sum = 0;
    for (double x = -10; x < c + 12; x += 1e-3) {
      const double p = (1 - q) * normal(x) + q * normal(x - c - 1),
                   r = (1 - q) * normal(x) + q * normal(x - c);
      sum += 1e-3 * std::max(0.0, p - std::exp(epsilon) * r);
    }
    return sum;
  };
  const Accountant distance = Account(Adjacency::kReplaceOne, Poisson(q, 1)),
                   both = Account(Adjacency::kReplaceOne, Poisson(q, c + 1));
  for (const double epsilon : {0.5, 1.0, 2.0}) {
    EXPECT_NEAR(truth(epsilon) / (q * GdpDelta(Of<Epsilon>(epsilon), Of<Mu>(1)).upper), 1, 1e-6);
    EXPECT_GT(truth(epsilon), 2 * DeltaOf(distance, epsilon).upper);  // so the distance is no Δ
    EXPECT_LE(truth(epsilon), DeltaOf(both, epsilon).upper);
  }
  // Norms of at most C, distances of at most 2C: with Δ = 2C it holds, also for opposite values.
  const Accountant clipped = Account(Adjacency::kReplaceOne, Poisson(q, 2));
  for (const double epsilon : {0.01, 0.1, 0.5, 1.0}) {
    double sum = 0;
    for (double x = -12; x < 12; x += 1e-3) {
      const double p = (1 - q) * normal(x) + q * normal(x - 1), r = (1 - q) * normal(x) + q * normal(x + 1);
      sum += 1e-3 * std::max(0.0, p - std::exp(epsilon) * r);
    }
    EXPECT_LE(sum, DeltaOf(clipped, epsilon).upper) << epsilon;
  }
}

TEST(Accountant, LittleNoiseShowsTheNumberOfSampledRounds) {
  // A round with the unit has the loss N(μ²/2 + log q, μ²), one without it log(1 − q), the more nearly the
  // larger μ is: δ is a sum over the binomial number of the former. Values of that sum, with its distance.
  struct Case {
    double z, q;
    std::uint64_t rounds;
    double delta, epsilon, off;
  };
  for (const Case& c : {Case{0.05, 0.001, 1000000, 1e-6, 221957.554675, 1e-10},
                        Case{0.1, 0.001, 1000000, 1e-6, 48907.0109, 2e-6},
                        Case{0.1156, 0.000565, 100000, 5.8e-7, 2897.16688, 5e-5}}) {
    SCOPED_TRACE(c.z);
    const Bracket e = EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(c.q, 1 / c.z), c.rounds), c.delta);
    EXPECT_NEAR(e.upper, c.epsilon, c.off * c.epsilon);
    EXPECT_NEAR(e.lower, c.epsilon, c.off * c.epsilon);
    EXPECT_LE(e.upper - e.lower, 1e-9 * e.upper) << e.method;
  }
}

TEST(Accountant, RareLargeLossesInFewRounds) {
  // Neighbouring noises and rounds that different methods are best for: ends are where they must be.
  struct Case {
    double z, q;
    std::uint64_t rounds;
    double delta, width;
  };
  const auto at = [](const Case& c) {
    return EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(c.q, 1 / c.z), c.rounds), c.delta);
  };
  const double q = 1.9535217667322888e-06, d = 2.3742895368030686e-07, z = 6.794964395623942;
  const std::vector<std::vector<Case>> falling = {
      {{2.442, 1e-5, 10, 1e-9, 1e-5}, {2.4421, 1e-5, 10, 1e-9, 1e-5}, {2.5, 1e-5, 10, 1e-9, 1e-5}},
      {{12.957, q, 19, d, 1e-6}, {13, q, 19, d, 1e-3}},
      {{z, 1.855060707577986e-05, 9, 1.3247465582557804e-10, 1e-6},
       {z, 1.855060707577986e-05, 8, 1.3247465582557804e-10, 1e-5}}};
  for (const auto& line : falling) {
    double last = kInf;
    for (const Case& c : line) {
      SCOPED_TRACE(testing::Message() << c.z << ' ' << c.rounds);
      const Bracket e = at(c);
      EXPECT_LT(e.upper, last);
      EXPECT_LE(e.upper - e.lower, c.width * e.upper) << e.method;
      last = e.upper;
    }
  }
  // Here δ(0) is within δ.
  EXPECT_EQ(EpsilonOf(Account(Adjacency::kReplaceOne, Fixed(1.54e-6, 1 / 3.73), 11205), 2.78e-5).upper, 0);
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
  struct Case {
    const char* why;
    double q, mu;
    std::uint64_t rounds;
  };
  for (const Case& c : {Case{"a long contour", 0.01, 1, 2}, Case{"little noise, two rounds", 0.01, 4, 2},
                        Case{"rare large losses", 1e-3, 2, 3}}) {
    SCOPED_TRACE(c.why);
    double last = kInf, low = 0, high = kInf;
    for (const std::size_t nodes : {1U << 11, 1U << 14, 1U << 17}) {
      Accountant a(Adjacency::kAddOrRemove, {.nodes = nodes});
      ASSERT_TRUE(a.Compose(Poisson(c.q, c.mu), c.rounds).ok());
      const Bracket e = EpsilonOf(a, 1e-5);
      EXPECT_LT(e.upper - e.lower, last) << nodes;
      last = e.upper - e.lower;
      low = std::max(low, e.lower), high = std::min(high, e.upper);
    }
    EXPECT_LE(low, high);  // all of them hold
  }
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

TEST(CurveNear, HoldsWhereOneDirectionIsLeftOut) {
  EXPECT_EQ(Account(Adjacency::kAddOrRemove, Poisson(0, 1), 10).CurveNear(Of<Delta>(1e-6))(0), 0);
  EXPECT_EQ(Account(Adjacency::kAddOrRemove, Gaussian(0), 10).CurveNear(Of<Delta>(1e-6))(0), 0);
  // What is lost when a unit is added is at most 10, far below the ε of a removal.
  const Accountant a = Account(Adjacency::kAddOrRemove, Poisson(0.001, 10), 10000);
  const auto curve = a.CurveNear(Of<Delta>(1e-6));
  const double epsilon = EpsilonOf(a, 1e-6).upper;
  EXPECT_GT(epsilon, 100);
  EXPECT_NEAR(curve(epsilon) / 1e-6, 1, 1e-6);
  for (const double at : {0.0, 5.0, 9.99, 10.1, 0.5 * epsilon, 1.1 * epsilon, 2 * epsilon})
    EXPECT_GE(curve(at), DeltaOf(a, at).lower * (1 - 1e-12)) << at;
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
  // 10¹² rounds: nearly a Gaussian with μ = q√(T(e^{μ²} − 1)).
  const Bracket many = EpsilonOf(Account(Adjacency::kAddOrRemove, Poisson(1e-6, 0.1), 1000000000000), 1e-6);
  const double limit = GdpEpsilon(Of<Mu>(std::sqrt(std::expm1(0.01))), Of<Delta>(1e-6)).upper;
  EXPECT_NEAR(many.lower, limit, 1e-3 * limit);
  EXPECT_NEAR(many.upper, limit, 1e-3 * limit);
  const Bracket pure = EpsilonOf(Account(Adjacency::kAddOrRemove, Pure(1e-5), 1000000), 1e-6);
  EXPECT_LT(pure.upper, 0.06);
  EXPECT_GE(pure.lower, 0.99 * pure.upper);
}

}  // namespace
}  // namespace tacit
