#include "privacy/conversions.h"

#include <algorithm>
#include <array>
#include <functional>
#include <random>

#include "privacy/accountant_cases.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

PrivacyCurve CurveOf(const Accountant& account, std::uint32_t size = 1) {
  Result<PrivacyCurve> out = PrivacyCurve::Of(account, size);
  EXPECT_TRUE(out.ok());
  return *out;
}
PrivacyCurve CurveOf(const PrivacyEvent& event, std::uint64_t count = 1, std::uint32_t size = 1) {
  return CurveOf(Account(Adjacency::kReplaceOne, event, count), size);
}
Bracket EpsilonOf(const PrivacyCurve& c, double delta) {
  const Result<Bracket> r = c.EpsilonAt(Of<Delta>(delta));
  EXPECT_TRUE(r.ok());
  EXPECT_LE(r->lower, r->upper);
  return *r;
}
double DeltaUpper(const PrivacyCurve& c, double epsilon) {
  const Result<Bracket> r = c.DeltaAt(Of<Epsilon>(epsilon));
  EXPECT_TRUE(r.ok());
  EXPECT_LE(r->lower, r->upper);
  return r->upper;
}
double Phi(double x) { return 0.5 * std::erfc(-x / M_SQRT2); }

// Pairs of distributions on finitely many outcomes.
struct Pair {
  std::vector<double> p, q;
  double Delta(double epsilon) const {
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i) sum += std::max(0.0, p[i] - std::exp(epsilon) * q[i]);
    return sum;
  }
  Pair Reversed() const { return {q, p}; }
};
// Rounds of randomised response, by the number of true answers.
Pair Responses(double epsilon, int rounds) {
  Pair out;
  for (int k = 0; k <= rounds; ++k) {
    const double choose =
        std::exp(std::lgamma(rounds + 1) - std::lgamma(k + 1) - std::lgamma(rounds - k + 1));
    const double yes = 1 / (1 + std::exp(-epsilon));
    out.p.push_back(choose * std::pow(yes, k) * std::pow(1 - yes, rounds - k));
    out.q.push_back(choose * std::pow(1 - yes, k) * std::pow(yes, rounds - k));
  }
  return out;
}
// The least type-II error at the level α: by Neyman and Pearson, outcomes by falling p/q.
double Beta(const Pair& pair, double alpha) {
  std::vector<std::size_t> order(pair.p.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return pair.p[a] * pair.q[b] > pair.p[b] * pair.q[a]; });
  double power = 0;
  for (const std::size_t i : order) {
    const double part = pair.q[i] > 0 ? std::min(1.0, alpha / pair.q[i]) : 1;
    power += part * pair.p[i];
    alpha -= part * pair.q[i];
    if (alpha <= 0) break;
  }
  return 1 - power;
}

const std::vector<double> kAlphas{0, 1e-6, 1e-3, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1};

// ---- Trade-off curves.

TEST(TradeOff, OfGaussiansIsTheClosedForm) {
  for (const double mu : {0.0, 0.3, 1.0, 4.0, 20.0}) {
    const auto beta = TradeOff(CurveOf(Gaussian(mu)), kAlphas);
    ASSERT_TRUE(beta.ok());
    for (std::size_t i = 0; i < kAlphas.size(); ++i) {
      if (kAlphas[i] == 0 || kAlphas[i] == 1) {
        EXPECT_EQ((*beta)[i], 1 - kAlphas[i]);
        continue;
      }
      // Φ(Φ⁻¹(1 − α) − μ), the inverse by bisection
      double low = -40, high = 40;
      for (int k = 0; k < 200; ++k) (Phi(-(low + high) / 2) > kAlphas[i] ? low : high) = (low + high) / 2;
      const double expected = Phi(low - mu);
      EXPECT_NEAR((*beta)[i], expected, 1e-12 * expected) << mu << " " << kAlphas[i];
      EXPECT_LE((*beta)[i], expected * (1 + 4e-14));
    }
  }
}

TEST(TradeOff, FromTheCurveAloneAgreesWithTheGaussian) {
  const auto exact = TradeOff(CurveOf(Gaussian(0.2), 25), kAlphas);
  // Everybody sampled: the same releases, by the general way.
  const auto general = TradeOff(CurveOf(Poisson(1, 0.2), 25), kAlphas);
  ASSERT_TRUE(exact.ok() && general.ok());
  for (std::size_t i = 0; i < kAlphas.size(); ++i) {
    EXPECT_LE((*general)[i], (*exact)[i] + 1e-13) << kAlphas[i];
    EXPECT_NEAR((*general)[i], (*exact)[i], 1e-6) << kAlphas[i];
  }
}

TEST(TradeOff, OfOnePureRelease) {
  const auto beta = TradeOff(CurveOf(Pure(1)), kAlphas);
  ASSERT_TRUE(beta.ok());
  for (std::size_t i = 0; i < kAlphas.size(); ++i)
    EXPECT_NEAR((*beta)[i], std::max(1 - std::exp(1.0) * kAlphas[i], std::exp(-1.0) * (1 - kAlphas[i])),
                1e-9);
}

TEST(TradeOff, OfLaplaceNoise) {
  const double epsilon = 1.5;
  const auto beta = TradeOff(CurveOf(LaplaceEvent{Of<Epsilon>(epsilon)}), kAlphas);
  ASSERT_TRUE(beta.ok());
  for (std::size_t i = 0; i < kAlphas.size(); ++i) {
    const double a = kAlphas[i];
    const double expected = a < std::exp(-epsilon) / 2 ? 1 - std::exp(epsilon) * a
                            : a <= 0.5                 ? std::exp(-epsilon) / (4 * a)
                                                       : std::exp(-epsilon) * (1 - a);
    EXPECT_LE((*beta)[i], expected + 1e-12) << a;
    EXPECT_NEAR((*beta)[i], expected, 1e-6) << a;
  }
}

TEST(TradeOff, OfComposedResponsesIsNeymanAndPearsons) {
  for (const int rounds : {1, 4, 30}) {
    const Pair pair = Responses(0.4, rounds);
    const auto beta = TradeOff(CurveOf(Pure(0.4), static_cast<std::uint64_t>(rounds)), kAlphas);
    ASSERT_TRUE(beta.ok());
    for (std::size_t i = 0; i < kAlphas.size(); ++i) {
      EXPECT_LE((*beta)[i], Beta(pair, kAlphas[i]) + 1e-12) << rounds << " " << kAlphas[i];
      EXPECT_NEAR((*beta)[i], Beta(pair, kAlphas[i]), 1e-3) << rounds << " " << kAlphas[i];
      if (i > 0) {
        EXPECT_LE((*beta)[i], (*beta)[i - 1]);
      }
    }
  }
}

TEST(TradeOff, OfASampledRoundIsBelowTheTestOfARemoval) {
  const double q = 0.2, mu = 1.5;
  const auto beta = TradeOff(CurveOf(Account(Adjacency::kAddOrRemove, Poisson(q, mu))), kAlphas);
  ASSERT_TRUE(beta.ok());
  for (std::size_t i = 1; i + 1 < kAlphas.size(); ++i) {
    double low = -40, high = 40;
    for (int k = 0; k < 200; ++k) (Phi(-(low + high) / 2) > kAlphas[i] ? low : high) = (low + high) / 2;
    const double truth = 1 - (1 - q) * Phi(-low) - q * Phi(mu - low);
    EXPECT_LE((*beta)[i], truth + 1e-12) << kAlphas[i];
    if (kAlphas[i] <= 0.1) {  // there it is the worse of the two directions
      EXPECT_NEAR((*beta)[i], truth, 1e-6) << kAlphas[i];
    }
  }
}

TEST(CurveNear, HoldsEverywhereAndIsNarrowWhereItWasMadeFor) {
  for (const PrivacyEvent& event :
       {PrivacyEvent(Poisson(0.01, 1)), PrivacyEvent(Pure(0.05)), PrivacyEvent(Gaussian(0.05)),
        PrivacyEvent(ZcdpEvent{Of<Rho>(1e-3)}), PrivacyEvent(LaplaceEvent{Of<Epsilon>(0.05)}),
        PrivacyEvent(ApproximateEvent{Of<Epsilon>(0.05), Of<Delta>(1e-12)})}) {
    SCOPED_TRACE(event.index());
    const Accountant account = Account(Adjacency::kAddOrRemove, event, 300);
    const auto curve = account.CurveNear(Of<Delta>(1e-5));
    const double epsilon = tacit::EpsilonOf(account, 1e-5).upper;
    EXPECT_NEAR(curve(epsilon) / 1e-5, 1, 1e-6);
    for (const double at : {0.0, 0.5 * epsilon, 2 * epsilon, 100 * epsilon})
      EXPECT_GE(curve(at), DeltaOf(account, at).lower * (1 - 1e-12)) << at;
  }
}

TEST(TradeOff, EdgesAndWords) {
  const auto nothing = TradeOff(CurveOf(Accountant(Adjacency::kReplaceOne)), kAlphas);
  const auto all = TradeOff(CurveOf(NonPrivateEvent{}), kAlphas);
  ASSERT_TRUE(nothing.ok() && all.ok());
  for (std::size_t i = 0; i < kAlphas.size(); ++i) {
    EXPECT_NEAR((*nothing)[i], 1 - kAlphas[i], 1e-12);
    EXPECT_EQ((*all)[i], 0);
  }
  for (const double bad : {-0.1, 1.1, std::nan("")}) {
    const auto refused = TradeOff(CurveOf(Gaussian(1)), std::array{bad});
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("alpha"), std::string::npos);
  }
}

// ---- Groups.

TEST(Groups, OfEventsWithASensitivity) {
  EXPECT_EQ(EpsilonOf(CurveOf(Gaussian(0.25), 4, 3), 1e-5).upper,
            GdpEpsilon(Of<Mu>(1.5), Of<Delta>(1e-5)).upper);
  EXPECT_NEAR(EpsilonOf(CurveOf(Gaussian(0.25), 4, 3), 1e-5).lower,
              GdpEpsilon(Of<Mu>(1.5), Of<Delta>(1e-5)).lower, 1e-9);
  EXPECT_NEAR(EpsilonOf(CurveOf(Pure(0.5), 1, 4), 0).upper, 2, 1e-9);
  EXPECT_NEAR(EpsilonOf(CurveOf(LaplaceEvent{Of<Epsilon>(0.5)}, 1, 4), 0).upper, 2, 1e-9);
  EXPECT_EQ(EpsilonOf(CurveOf(ZcdpEvent{Of<Rho>(0.1)}, 5, 4), 1e-6).upper,
            tacit::EpsilonOf(Account(Adjacency::kReplaceOne, ZcdpEvent{Of<Rho>(1.6)}, 5), 1e-6).upper);
  const DiscreteGaussianEvent noise{.sigma = Of<NoiseStd>(5)},
      twice{.sigma = Of<NoiseStd>(5), .sensitivity = 2};
  EXPECT_EQ(EpsilonOf(CurveOf(noise, 5, 2), 1e-6).upper, EpsilonOf(CurveOf(twice, 5), 1e-6).upper);
  // (ε, δ): δ (e^{2ε} − 1)/(e^ε − 1) = δ (1 + e^ε).
  const ApproximateEvent leaky{Of<Epsilon>(1), Of<Delta>(1e-6)};
  const double leak = 1e-6 * (1 + std::exp(1.0));
  EXPECT_EQ(EpsilonOf(CurveOf(leaky, 1, 2), leak * (1 - 1e-9)).upper, kInf);
  EXPECT_NEAR(EpsilonOf(CurveOf(leaky, 1, 2), leak * (1 + 1e-9)).upper, 2, 1e-3);
  EXPECT_EQ(EpsilonOf(CurveOf(ApproximateEvent{Of<Epsilon>(1), Of<Delta>(0.5)}, 1, 3), 0.9).upper, kInf);
  // Sensitivities beyond 32 bits.
  const DiscreteGaussianEvent wide{.sigma = Of<NoiseStd>(1e10), .sensitivity = 3000000000U};
  EXPECT_LT(EpsilonOf(CurveOf(wide, 1, 2), 1e-6).upper, 5);
}

TEST(Groups, OfOneAreTheAccount) {
  const Accountant account = Account(Adjacency::kAddOrRemove, Poisson(0.01, 1), 100);
  EXPECT_EQ(EpsilonOf(CurveOf(account), 1e-5).upper, tacit::EpsilonOf(account, 1e-5).upper);
  EXPECT_EQ(EpsilonOf(CurveOf(account), 1e-5).lower, tacit::EpsilonOf(account, 1e-5).lower);
  EXPECT_FALSE(PrivacyCurve::Of(account, 0).ok());
  EXPECT_FALSE(PrivacyCurve::Of(account, 1000001).ok());
}

TEST(Groups, GrowWithTheirSize) {
  for (const PrivacyEvent& event :
       {PrivacyEvent(Gaussian(0.1)), PrivacyEvent(Pure(0.05)), PrivacyEvent(Poisson(0.01, 1)),
        PrivacyEvent(RenyiEvent{{{8, Of<Epsilon>(1e-3)}, {64, Of<Epsilon>(0.01)}}})}) {
    double last = 0;
    for (const std::uint32_t size : {1U, 2U, 3U, 8U}) {
      const PrivacyCurve curve = CurveOf(Account(Adjacency::kAddOrRemove, event, 300), size);
      const Bracket e = EpsilonOf(curve, 1e-5);
      EXPECT_GE(e.upper, last) << event.index() << " " << size;
      if (std::isfinite(e.upper)) {
        EXPECT_LE(DeltaUpper(curve, e.upper), 1e-5 * (1 + 1e-6)) << event.index() << " " << size;
      }
      last = e.upper;
    }
  }
}

TEST(Groups, WhereTheFactorOfTheRuleOverflows) {
  // e^{gε} is beyond the doubles in all of these; the account without sampling, or none, is what remains.
  const auto check = [](const Accountant& account, std::uint32_t size, double delta) {
    const PrivacyCurve curve = CurveOf(account, size);
    const Bracket one = tacit::EpsilonOf(account, delta), e = EpsilonOf(curve, delta);
    EXPECT_GE(e.upper, one.upper);
    EXPECT_GE(e.lower, 0);
    for (const double epsilon : {0.0, 1.0, one.upper, 1e3, 1e5}) {
      const double d = DeltaUpper(curve, epsilon);
      EXPECT_TRUE(d >= 0 && d <= 1) << epsilon;
      const double near = curve.CurveNear(Of<Delta>(delta))(epsilon);
      EXPECT_TRUE(near >= 0 && near <= 1) << epsilon;
    }
    return e.upper;
  };
  const double without = GdpEpsilon(Of<Mu>(2 / 0.4 * std::sqrt(1000)), Of<Delta>(1e-5)).upper;
  EXPECT_LE(check(Account(Adjacency::kAddOrRemove, Poisson(0.1, 1 / 0.4), 1000), 2, 1e-5),
            without * (1 + 1e-12));
  check(Account(Adjacency::kAddOrRemove, Poisson(0.001, 1 / 0.3), 1000000), 5, 1e-5);
  check(Account(Adjacency::kAddOrRemove, Poisson(0.01, 1), 1000000000000), 2, 1e-5);
  check(Account(Adjacency::kReplaceOne, RenyiEvent{{{2, Of<Epsilon>(1e4)}, {64, Of<Epsilon>(1e6)}}}, 3), 3,
        1e-5);
  // A curve that has underflowed is not multiplied: a group's δ never falls below that of one unit.
  const Accountant tiny = Account(Adjacency::kAddOrRemove, Poisson(0.5, 1), 1);
  EXPECT_GE(DeltaUpper(CurveOf(tiny, 40), 60), DeltaUpper(CurveOf(tiny), 60));
  EXPECT_GT(DeltaUpper(CurveOf(tiny, 40), 2000), 0);
}

TEST(Groups, OfSampledUnitsCoverTheTruePair) {
  // g units with one value each, sampled apart: Σ_j Bin(g, q)(j) N(jμ, 1) against N(0, 1), one round.
  for (const double q : {0.01, 0.3})
    for (const std::uint32_t size : {2U, 4U}) {
      const double mu = 1;
      const PrivacyCurve curve = CurveOf(Account(Adjacency::kAddOrRemove, Poisson(q, mu)), size);
      const double g = size;
      for (const double epsilon : {0.2, 1.0, 3.0}) {
        double add = 0, remove = 0;
        for (double x = -10; x < g * mu + 10; x += 1e-3) {
          const auto normal = [](double y) { return std::exp(-y * y / 2) / std::sqrt(2 * M_PI); };
          double p = 0;
          for (std::uint32_t j = 0; j <= size; ++j)
            p += std::exp(std::lgamma(g + 1) - std::lgamma(j + 1.0) - std::lgamma(g - j + 1)) *
                 std::pow(q, j) * std::pow(1 - q, g - j) * normal(x - j * mu);
          remove += 1e-3 * std::max(0.0, p - std::exp(epsilon) * normal(x));
          add += 1e-3 * std::max(0.0, normal(x) - std::exp(epsilon) * p);
        }
        const double bound = DeltaUpper(curve, epsilon);
        EXPECT_GE(bound, std::max(add, remove) - 1e-9) << q << " " << size << " " << epsilon;
        EXPECT_LE(bound, GdpDelta(Of<Epsilon>(epsilon), Of<Mu>(g * mu)).upper * (1 + 1e-9));
      }
    }
}

TEST(Groups, TheRuleForCurvesHoldsForRandomChains) {
  // D₀ – D₁ – D₂, three outcomes: the (ε, δ) of the steps, and the pair of the ends.
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0.02, 1);
  double tightest = kInf;
  for (int trial = 0; trial < 20000; ++trial) {
    std::array<std::vector<double>, 3> d;
    for (auto& v : d) {
      double sum = 0;
      for (int i = 0; i < 3; ++i) v.push_back(uniform(random)), sum += v.back();
      for (double& x : v) x /= sum;
    }
    const double epsilon = 0.5 * uniform(random);
    double delta = 0;
    for (const Pair& step : {Pair{d[0], d[1]}, Pair{d[1], d[2]}, Pair{d[1], d[0]}, Pair{d[2], d[1]}})
      delta = std::max(delta, step.Delta(epsilon));
    if (!(delta < 0.4)) continue;
    const ApproximateEvent event{Of<Epsilon>(epsilon), Of<Delta>(delta)};
    const double bound = DeltaUpper(CurveOf(event, 1, 2), 2 * epsilon);
    const double truth = std::max(Pair{d[0], d[2]}.Delta(2 * epsilon), Pair{d[2], d[0]}.Delta(2 * epsilon));
    ASSERT_LE(truth, bound + 1e-12);
    if (truth > 1e-3) tightest = std::min(tightest, bound / truth);
  }
  EXPECT_LT(tightest, 1.6);
}

// ---- Beliefs.

Belief BeliefOf(const PrivacyCurve& curve, double prior, double delta) {
  const Result<Belief> out = BeliefAfter(curve, Of<Probability>(prior), Of<Delta>(delta));
  EXPECT_TRUE(out.ok());
  return *out;
}

TEST(Beliefs, OfPureDpAreTheClosedForm) {
  for (const double prior : {0.001, 0.5, 0.9}) {
    const Belief b = BeliefOf(CurveOf(Pure(1.5)), prior, 0);
    EXPECT_NEAR(b.posterior, 1 / (1 + std::exp(-1.5) * (1 - prior) / prior), 1e-12);
  }
  const Belief even = BeliefOf(CurveOf(Pure(1.5)), 0.5, 0);
  EXPECT_NEAR(even.success, 1 / (1 + std::exp(-1.5)), 1e-12);          // guess what the answer says
  EXPECT_NEAR(even.advantage, std::tanh(0.75), 1e-12);
}

TEST(Beliefs, OfGaussiansAreTheClosedForm) {
  const double mu = 1.2, delta = 1e-3;
  const Belief b = BeliefOf(CurveOf(Gaussian(mu)), 0.3, delta);
  const double z = 3.0902323061678132;                       // Φ(−z) = 1e-3
  EXPECT_NEAR(b.posterior, 1 / (1 + std::exp(-(mu * mu / 2 + mu * z)) * 0.7 / 0.3), 1e-12);
  EXPECT_NEAR(BeliefOf(CurveOf(Gaussian(mu)), 0.5, delta).success, Phi(mu / 2), 1e-12);
  EXPECT_NEAR(b.advantage, 2 * Phi(mu / 2) - 1, 1e-12);
  EXPECT_EQ(BeliefOf(CurveOf(Gaussian(mu)), 0.3, 0).posterior, 1);
}

TEST(Beliefs, HoldForComposedResponses) {
  for (const int rounds : {1, 5, 60}) {
    const Pair pair = Responses(0.3, rounds);
    const PrivacyCurve curve = CurveOf(Pure(0.3), static_cast<std::uint64_t>(rounds));
    for (const double prior : {0.01, 0.3, 0.5, 0.8})
      for (const double delta : {0.3, 0.01, 1e-5}) {
        SCOPED_TRACE(testing::Message() << rounds << " " << prior << " " << delta);
        const Belief b = BeliefOf(curve, prior, delta);
        double in = 0, out = 0, guess = 0;
        for (std::size_t i = 0; i < pair.p.size(); ++i) {
          const double yes = prior * pair.p[i], no = (1 - prior) * pair.q[i];
          if (yes / (yes + no) > b.posterior * (1 + 1e-12)) in += pair.p[i], out += pair.q[i];
          guess += std::max(yes, no);
        }
        EXPECT_LE(in, delta);
        EXPECT_LE(out, delta);
        EXPECT_NEAR(b.success, guess, 1e-9);
        EXPECT_GE(b.success, guess - 1e-12);
        EXPECT_GE(b.posterior, prior);
      }
  }
}

TEST(Beliefs, FromTheCurveAloneAreNotFarFromTheGaussian) {
  const double delta = 1e-5;
  const Belief exact = BeliefOf(CurveOf(Gaussian(0.1), 50), 0.1, delta);
  const Belief general = BeliefOf(CurveOf(Poisson(1, 0.1), 50), 0.1, delta);
  EXPECT_GE(general.posterior, exact.posterior);
  EXPECT_LT(general.posterior, exact.posterior + 0.03);
  EXPECT_NEAR(general.success, exact.success, 1e-9);
}

TEST(Beliefs, OfWhatIsKnownByRenyiDivergencesAlone) {
  // ρ-zCDP covers the Gaussian of that ρ; and losses far beyond every belief take no time.
  const double rho = 0.05;
  const Belief gaussian = BeliefOf(CurveOf(Gaussian(std::sqrt(2 * rho))), 0.1, 1e-5);
  const Belief zcdp = BeliefOf(CurveOf(ZcdpEvent{Of<Rho>(rho)}), 0.1, 1e-5);
  EXPECT_GE(zcdp.posterior, gaussian.posterior);
  EXPECT_GE(zcdp.success, gaussian.success);
  EXPECT_LT(zcdp.posterior, 2 * gaussian.posterior);
  EXPECT_EQ(BeliefOf(CurveOf(ZcdpEvent{Of<Rho>(1e7)}), 0.1, 1e-5).posterior, 1);
}

TEST(Beliefs, Edges) {
  const PrivacyCurve curve = CurveOf(Gaussian(1));
  EXPECT_EQ(BeliefOf(curve, 0, 1e-5).posterior, 0);
  EXPECT_EQ(BeliefOf(curve, 1, 1e-5).posterior, 1);
  EXPECT_GT(BeliefOf(curve, 1e-310, 1e-5).posterior, 0);
  EXPECT_EQ(BeliefOf(CurveOf(NonPrivateEvent{}), 0.1, 1e-5).posterior, 1);
  EXPECT_EQ(BeliefOf(CurveOf(NonPrivateEvent{}), 0.1, 1e-5).success, 1);
  const Belief nothing = BeliefOf(CurveOf(Accountant(Adjacency::kReplaceOne)), 0.1, 1e-5);
  EXPECT_NEAR(nothing.posterior, 0.1, 1e-12);
  EXPECT_NEAR(nothing.success, 0.9, 1e-12);
}

}  // namespace
}  // namespace tacit
