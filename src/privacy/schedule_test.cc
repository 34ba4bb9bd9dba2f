#include "privacy/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "privacy/gdp.h"

namespace tacit {
namespace {

void ExpectRelative(double got, double want, double tolerance) {
  EXPECT_NEAR(got, want, tolerance * std::abs(want));
}

double Total(const Shares& s) {
  long double sum = 0;
  for (std::size_t t = 0; t < s.rounds(); ++t) sum += s.share(t);
  return static_cast<double>(sum);
}

// q_t = c^(T−t), t = 1..T: a strongly convex problem forgets noise at the rate c.
Vec LogDecay(std::size_t rounds, double c) {
  Vec out(rounds);
  for (std::size_t t = 0; t < rounds; ++t) out[t] = static_cast<double>(rounds - 1 - t) * std::log(c);
  return out;
}

// The variance ξ_t² = Δ²/(w_t μ²) of each round.
double LogVariance(const Shares& s, std::size_t t, double log_sensitivity, double mu) {
  return 2 * log_sensitivity - s.log_share[t] - 2 * std::log(mu);
}

// Locally private primal-dual method, n = 20 workers with m = 100 records, gradients bounded by B = 1,
// step γ = 1/4, (ε, δ) = (1, 1e-4): sensitivity 2B/(nm), q_t = (1 − γ μ_f)^(T−t).
struct PrimalDual {
  PrimalDual(std::size_t rounds, double mu_f)
      : log_q(LogDecay(rounds, 1 - 0.25 * mu_f)),
        log_delta(rounds, std::log(2.0 / 2000)),
        shares(WaterFillingShares(log_q, log_delta, 0)) {}
  double Xi2(std::size_t t, double mu) const { return std::exp(LogVariance(shares, t, log_delta[t], mu)); }
  double SumRootQ() const {
    double sum = 0;
    for (double l : log_q) sum += std::exp(l / 2);
    return sum;
  }
  double InverseVariances(double mu) const {
    double sum = 0;
    for (std::size_t t = 0; t < log_q.size(); ++t) sum += 1 / Xi2(t, mu);
    return sum;
  }
  double StaticOverDynamic() const {
    const Shares uniform = UniformShares(log_q.size());
    return NoiseCost(uniform, log_q, log_delta, Mu{1.0}) / NoiseCost(shares, log_q, log_delta, Mu{1.0});
  }
  Vec log_q, log_delta;
  Shares shares;
};

double PaperMu() { return std::sqrt(2 * ZcdpRho(Epsilon{1.0}, Delta{1e-4}).value()); }

TEST(Schedule, PrimalDualWithZcdp) {
  const PrimalDual p(1000, 0.1);
  const double mu = PaperMu();
  ExpectRelative(p.SumRootQ(), 79.4965825857, 1e-10);
  ExpectRelative(p.Xi2(999, mu), 0.00154285372182, 1e-10);
  ExpectRelative(p.Xi2(0, mu), 479.202650034, 1e-10);
  ExpectRelative(p.InverseVariances(mu), 51525.6770368, 1e-10);
  ExpectRelative(NoiseCost(p.shares, p.log_q, p.log_delta, Mu::Proven(mu)), 0.122651598315, 1e-10);
  ExpectRelative(std::exp(LogVariance(UniformShares(1000), 0, p.log_delta[0], mu)), 0.0194077993247, 1e-10);
  ExpectRelative(p.StaticOverDynamic(), 6.3294077, 1e-8);
}

TEST(Schedule, PrimalDualWithExactGaussianDp) {
  const PrimalDual p(1000, 0.1);
  const double mu = GdpMu(Epsilon{1.0}, Delta{1e-4}).value();
  ExpectRelative(p.Xi2(0, mu), 250.584084755, 1e-10);
  ExpectRelative(p.Xi2(999, mu), 0.000806787249125, 1e-10);
  ExpectRelative(p.InverseVariances(mu), 98534.7533342, 1e-10);
}

TEST(Schedule, PrimalDualWithThePaperOwnConditioning) {
  const PrimalDual p(1000, 0.005);
  const double mu = PaperMu();
  ExpectRelative(p.Xi2(0, mu), 0.0269585741968, 1e-10);
  ExpectRelative(p.Xi2(999, mu), 0.014433268276, 1e-10);
  ExpectRelative(p.SumRootQ(), 743.683919777, 1e-10);
  ExpectRelative(p.StaticOverDynamic(), 1.03238229, 1e-8);
}

TEST(Schedule, ALongRunDoesNotOverflow) {
  const PrimalDual p(8000, 0.1);
  const double mu = PaperMu();
  ExpectRelative(p.Xi2(0, mu), 1.46004300e41, 1e-8);
  ExpectRelative(NoiseCost(p.shares, p.log_q, p.log_delta, Mu::Proven(mu)), 0.122652378168, 1e-10);
  const PrimalDual longer(200000, 0.1);                                  // the first share is e^-2531
  EXPECT_TRUE(std::isfinite(longer.shares.log_share[0]));
  ExpectRelative(NoiseCost(longer.shares, longer.log_q, longer.log_delta, Mu::Proven(mu)), 0.122652378168,
                 1e-10);
}

TEST(Schedule, GainOverUniformNoise) {
  const struct {
    double c;
    std::size_t rounds;
    double gain;
  } kCases[] = {{0.9, 50, 1.520}, {0.975, 1000, 6.329}, {0.99, 200, 1.083}};
  for (const auto& k : kCases) {
    const Vec q = LogDecay(k.rounds, k.c), delta(k.rounds, 0.0);
    const double gain = NoiseCost(UniformShares(k.rounds), q, delta, Mu{1.0}) /
                        NoiseCost(WaterFillingShares(q, delta, 0), q, delta, Mu{1.0});
    EXPECT_NEAR(gain, k.gain, 5.1e-4);
    const double root = std::sqrt(k.c), n = static_cast<double>(k.rounds);
    const double sum = (1 - std::pow(root, n)) / (1 - root);
    ExpectRelative(gain, n * (1 - std::pow(k.c, n)) / (1 - k.c) / (sum * sum), 1e-11);
  }
}

TEST(Schedule, Geometric) {
  // σ_t² ∝ 0.99^t over 200 rounds: Σ 0.99^−t = 639.918…
  const Shares s = GeometricShares(200, 0.99);
  ExpectRelative(1 / s.share(0), 639.918049361, 1e-11);
  ExpectRelative(s.share(199) / s.share(0), std::pow(0.99, -199), 1e-11);
  ExpectRelative(s.share(199) / s.share(0), 7.38918049, 1e-9);  // shared/MATH.md, D8
  EXPECT_NEAR(Total(s), 1, 1e-12);
  EXPECT_EQ(GeometricShares(7, 1).log_share, UniformShares(7).log_share);
  const Shares steep = GeometricShares(100000, 0.5);                     // spans e^±69314
  EXPECT_FALSE(steep.skipped(0));
  ExpectRelative(steep.share(99999), 0.5, 1e-11);
  EXPECT_EQ(UniformShares(1).share(0), 1);
}

TEST(Schedule, WaterFillingIsTheOptimum) {
  std::mt19937_64 rng(31);
  std::uniform_real_distribution<double> u(-2, 2);
  for (int trial = 0; trial < 50; ++trial) {
    Vec q(6), delta(6);
    for (double& v : q) v = u(rng);
    for (double& v : delta) v = u(rng);
    const Shares best = WaterFillingShares(q, delta);
    double s = 0;
    for (std::size_t t = 0; t < q.size(); ++t) s += std::exp(delta[t] + q[t] / 2);
    const double optimum = NoiseCost(best, q, delta, Mu{0.7});
    ExpectRelative(optimum, s * s / 0.49, 1e-12);
    for (int k = 0; k < 20; ++k) {                                       // any other split costs more
      Shares other = best;
      for (double& l : other.log_share) l += 0.3 * u(rng);
      const double total = std::log(Total(other));
      for (double& l : other.log_share) l -= total;
      EXPECT_GE(NoiseCost(other, q, delta, Mu{0.7}), optimum * (1 - 1e-12));
    }
  }
}

TEST(Schedule, SmallSharesAreSkippedAndTheRestRenormalised) {
  const Vec q = LogDecay(8000, 0.975), delta(8000, -3.0);
  const Shares all = WaterFillingShares(q, delta, 0), kept = WaterFillingShares(q, delta);
  EXPECT_NEAR(Total(kept), 1, 1e-12);
  std::size_t sent = 0;
  for (std::size_t t = 0; t < 8000; ++t) {
    EXPECT_EQ(kept.skipped(t), all.share(t) < kSkipShare);
    if (kept.skipped(t)) {
      EXPECT_EQ(kept.share(t), 0);
      continue;
    }
    ++sent;
    EXPECT_GE(kept.share(t), all.share(t));
  }
  EXPECT_EQ(sent, 746u);  // 0.0125791 · 0.975^(k/2) ≥ 1e-6 for k ≤ 745
  // A skipped round saves its noise too.
  EXPECT_LT(NoiseCost(kept, q, delta, Mu{1.0}), NoiseCost(all, q, delta, Mu{1.0}));
}

TEST(Schedule, AMillionEqualRoundsAreAllKept) {
  for (const std::size_t rounds : {std::size_t{1000000}, std::size_t{3000000}}) {
    const Shares s = WaterFillingShares(Vec(rounds, 0.3), Vec(rounds, -9.0));
    EXPECT_FALSE(s.skipped(0));
    EXPECT_FALSE(s.skipped(rounds - 1));
    ExpectRelative(Total(s), 1, 1e-11);
  }
}

TEST(Schedule, ZeroWeightIsZeroShare) {
  const Shares s = WaterFillingShares(Vec{-kInf, 0.0, 0.0}, Vec{0.0, 0.0, -kInf});
  EXPECT_TRUE(s.skipped(0));
  EXPECT_EQ(s.share(1), 1);
  EXPECT_TRUE(s.skipped(2));
}

// σ_t² = min(V, λ Δ_t/√q_t) with Σ Δ²/σ² = μ², λ found by bisection.
Vec BisectedVariances(View q, View delta, double mu, double cap) {
  Vec variance(q.size());
  double lo = -200, hi = 200;  // log λ
  for (int i = 0; i < 200; ++i) {
    const double mid = (lo + hi) / 2;
    double spent = 0;
    for (std::size_t t = 0; t < q.size(); ++t) {
      variance[t] = std::min(cap, std::exp(mid + delta[t] - q[t] / 2));
      spent += std::exp(2 * delta[t]) / variance[t];
    }
    (spent > mu * mu ? lo : hi) = mid;
  }
  return variance;
}

TEST(Schedule, CappedWaterFillingSatisfiesItsOptimalityConditions) {
  std::mt19937_64 rng(32);
  std::uniform_real_distribution<double> u(0, 1);
  int some = 0, none = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t rounds = 1 + rng() % 30;
    Vec q(rounds), delta(rounds);
    for (double& v : q) v = 12 * u(rng) - 6;
    for (double& v : delta) v = 4 * u(rng) - 2;
    const double mu = std::exp(4 * u(rng) - 2);
    double least = 0;
    for (double d : delta) least += std::exp(2 * d) / (mu * mu);  // the cap at which all are capped
    const double cap = least * std::exp(8 * u(rng) * u(rng) + 1e-6);
    const auto s = CappedWaterFilling(q, delta, Mu::Proven(mu), cap, 0);
    ASSERT_TRUE(s.ok()) << s.error().message;
    EXPECT_NEAR(Total(*s), 1, 1e-10);
    const Vec want = BisectedVariances(q, delta, mu, cap);
    double log_lambda = -kInf;
    std::size_t capped = 0;
    for (std::size_t t = 0; t < rounds; ++t) {
      const double variance = std::exp(LogVariance(*s, t, delta[t], mu));
      EXPECT_LE(variance, cap * (1 + 1e-12));
      ExpectRelative(variance, want[t], 1e-8);
      if (variance > cap * (1 - 1e-9)) {
        ++capped;
      } else {  // one λ for all below the cap
        const double l = std::log(variance) - delta[t] + q[t] / 2;
        if (log_lambda > -kInf) {
          EXPECT_NEAR(l, log_lambda, 1e-8);
        }
        log_lambda = l;
      }
    }
    some += capped > 0 && capped < rounds;
    none += capped == 0;
  }
  EXPECT_GT(some, 100);
  EXPECT_GT(none, 10);
}

TEST(Schedule, CappedWaterFillingAgainstAFineSearch) {
  // Two rounds: minimise q₁x + q₂y over Δ₁²/x + Δ₂²/y = μ², x, y ≤ cap, along x.
  const Vec q{std::log(4.0), std::log(0.01)}, delta{0.0, std::log(0.5)};
  const double mu = 1.3, cap = 0.9;
  const auto s = CappedWaterFilling(q, delta, Mu::Proven(mu), cap);
  ASSERT_TRUE(s.ok());
  double best = kInf;
  for (int i = 1; i <= 1000000; ++i) {
    const double x = cap * i / 1e6, left = mu * mu - 1 / x;
    if (left <= 0) continue;
    const double y = 0.25 / left;
    if (y <= cap) best = std::min(best, 4 * x + 0.01 * y);
  }
  ExpectRelative(NoiseCost(*s, q, delta, Mu::Proven(mu)), best, 1e-5);
}

TEST(Schedule, CappedWaterFillingRefusesAndSkips) {
  const Vec q(4, 0.0), delta(4, 0.0);
  EXPECT_EQ(CappedWaterFilling(q, delta, Mu{1.0}, 3.9).error().code, Code::kBudget);
  EXPECT_TRUE(CappedWaterFilling(q, delta, Mu{1.0}, 4.0).ok());  // the cap spends all of it
  EXPECT_EQ(CappedWaterFilling(q, delta, Mu{0.0}, 4.0).error().code, Code::kBudget);
  EXPECT_EQ(CappedWaterFilling(q, delta, Mu{1.0}, 0.0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(CappedWaterFilling(q, delta, Mu{1.0}, std::nan("")).error().code, Code::kInvalidArgument);
  EXPECT_EQ(CappedWaterFilling(q, delta, Mu{1.0}, kInf)->log_share, WaterFillingShares(q, delta).log_share);

  // A decaying schedule whose early rounds sit at a cap too generous to keep them.
  const Vec decay = LogDecay(2000, 0.975), flat(2000, 0.0);
  const auto s = CappedWaterFilling(decay, flat, Mu{1.0}, 2e6);
  ASSERT_TRUE(s.ok());
  EXPECT_TRUE(s->skipped(0));
  EXPECT_FALSE(s->skipped(1999));
  EXPECT_NEAR(Total(*s), 1, 1e-12);
  for (std::size_t t = 0; t < 2000; ++t) EXPECT_TRUE(s->skipped(t) || s->share(t) >= 0.5e-6 * (1 - 1e-9));

  // q = 0 keeps to the cap, and zero sensitivity needs nothing.
  const auto z = CappedWaterFilling(Vec{-kInf, 0.0, 0.0}, Vec{0.0, 0.0, -kInf}, Mu{1.0}, 4.0);
  ASSERT_TRUE(z.ok());
  ExpectRelative(z->share(0), 0.25, 1e-12);
  ExpectRelative(z->share(1), 0.75, 1e-12);
  EXPECT_TRUE(z->skipped(2));
}

// Σ (μ_t (1 + r) + a)² ≤ μ², in 113 bits.
bool Affordable(const Vec& mu_t, const Shares& s, double mu, double relative, double absolute) {
  __float128 sum = 0;
  for (std::size_t t = 0; t < mu_t.size(); ++t) {
    if (s.skipped(t)) continue;
    const __float128 charge =
        static_cast<__float128>(mu_t[t]) * (1 + static_cast<__float128>(relative)) + absolute;
    sum += charge * charge;
  }
  return sum <= static_cast<__float128>(mu) * mu;
}

TEST(Schedule, CalibrationNeverOverspends) {
  std::mt19937_64 rng(33);
  std::uniform_real_distribution<double> u(0, 1);
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t rounds = 1 + rng() % 300;
    const double mu = std::exp(20 * u(rng) - 10);
    Vec q(rounds), delta(rounds);
    for (double& v : q) v = 6 * u(rng);
    for (double& v : delta) v = 2 * u(rng);
    const Shares s = trial % 3 == 0 ? UniformShares(rounds) : WaterFillingShares(q, delta);
    const double relative = trial % 2 ? 1e-9 * u(rng) : 0, absolute = trial % 5 ? mu * 1e-7 * u(rng) : 0;
    const auto mu_t = Calibrate(s, Mu::Proven(mu), relative, absolute);
    ASSERT_TRUE(mu_t.ok()) << mu_t.error().message;
    EXPECT_TRUE(Affordable(*mu_t, s, mu, relative, absolute));
    // A ledger that composes upwards agrees, and next to nothing is left over.
    MuSquared total{0.0};
    for (std::size_t t = 0; t < rounds; ++t) {
      if (s.skipped(t)) {
        EXPECT_EQ((*mu_t)[t], 0);
        continue;
      }
      EXPECT_GT((*mu_t)[t], 0);
      total = total + Squared(Mu::Proven(AddUp(MulUp((*mu_t)[t], AddUp(1, relative)), absolute)));
    }
    EXPECT_LE(total.value(), mu * mu * (1 - 0.99 * kRoundingReserve));
    EXPECT_GE(total.value(), mu * mu * (1 - 1e-11));
  }
}

TEST(Schedule, CalibrationOfAMillionRounds) {
  const Shares s = UniformShares(1000000);
  const auto mu_t = Calibrate(s, Mu{1.0}, 1e-13, 1e-9);
  ASSERT_TRUE(mu_t.ok());
  EXPECT_TRUE(Affordable(*mu_t, s, 1.0, 1e-13, 1e-9));
  ExpectRelative(mu_t->front(), 1e-3 - 1e-9, 1e-9);
}

TEST(Schedule, CalibrationShrinksSharesThatSumToMore) {
  Shares s = UniformShares(10);
  for (double& l : s.log_share) l += 1e-6;
  const auto mu_t = Calibrate(s, Mu{2.0}, 0, 0);
  ASSERT_TRUE(mu_t.ok());
  EXPECT_TRUE(Affordable(*mu_t, s, 2.0, 0, 0));
}

TEST(Schedule, CalibrationRefuses) {
  const Shares s = UniformShares(100);
  EXPECT_EQ(Calibrate(s, Mu{0.0}, 0, 0).error().code, Code::kBudget);
  EXPECT_EQ(Calibrate(s, Mu{kInf}, 0, 0).error().code, Code::kBudget);
  EXPECT_EQ(Calibrate(s, Mu{1.0}, 0, 0.1).error().code, Code::kBudget);  // each round has exactly 0.1
  EXPECT_TRUE(Calibrate(s, Mu{1.0}, 0, 0.0999).ok());
  EXPECT_EQ(Calibrate(s, Mu{1.0}, -1e-9, 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Calibrate(s, Mu{1.0}, 0, std::nan("")).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace tacit
