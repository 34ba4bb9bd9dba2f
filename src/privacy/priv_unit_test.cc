#include "privacy/priv_unit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace tacit {
namespace {

constexpr double kSix = 4.892;  // two-sided normal quantile of 1e-6, the false-alarm rate of each statistic
constexpr double kKolmogorov = 2.6935;  // √(½ ln(2/1e-6)): P(√n·D above it) ≤ 1e-6 (Massart 1990)
constexpr StreamId kId = {.seed = 23, .purpose = Purpose::kNoise, .who = 1, .round = 2};

Epsilon Eps(double e) { return Epsilon::Proven(e); }
const double kHalf = std::exp(2.0) / (1 + std::exp(2.0));  // p for ε₀ = 2

// m for any p, by the formula of the header.
double Factor(const CapLaw& c, double p) {
  const double q = c.measure();
  return c.moment() * (p - q) / (q * (1 - q));
}
// The cap with ln((1 − q)/q) = ε₁ exactly.
double TightGamma(std::size_t d, double epsilon1) {
  return CapLaw(d, 0).Inside(2 / (1 + std::exp(epsilon1)));
}
// P(t ≥ x) for a uniform unit vector.
double Measure(std::size_t d, double x) {
  if (x >= 1) return 0;
  if (x <= -1) return 1;
  return x >= 0 ? CapLaw(d, x).measure() : 1 - CapLaw(d, -x).measure();
}

TEST(CapLaw, MeasureAndMomentAreThoseOfAnIntegral) {
  // t = sin θ: dt (1 − t²)^{(d−3)/2} = cos^{d−2} θ dθ, by Simpson's rule and without any special function.
  for (const std::size_t d : {2u, 3u, 4u, 10u, 101u, 5000u, 1000000u}) {
    const auto power = static_cast<long double>(d) - 2;
    const auto integral = [&](long double from, bool moment) {
      const int n = 20000;
      // From 14 deviations beyond the start on, nothing is left.
      const long double to =
          std::min(1.5707963267948966192L, from + 14 / std::sqrt(static_cast<long double>(d)));
      const long double h = (to - from) / n;
      long double sum = 0;
      for (int i = 0; i <= n; ++i) {
        const long double x = from + h * i, c = std::max(0.0L, std::cos(x));
        const long double f = (power == 0 ? 1 : std::pow(c, power)) * (moment ? std::sin(x) : 1);
        sum += f * (i == 0 || i == n ? 1 : i % 2 == 1 ? 4 : 2);
      }
      return sum * h / 3;
    };
    for (const double z : {0.0, 0.1, 1.0, 3.0, 6.0}) {
      const double gamma = z / std::sqrt(static_cast<double>(d) + 40);
      const CapLaw cap(d, gamma);
      const long double whole = 2 * integral(0, false), at = std::asin(static_cast<long double>(gamma));
      const auto q = static_cast<double>(integral(at, false) / whole);
      EXPECT_NEAR(cap.measure(), q, 1e-11 * q) << d << " " << z;
      const auto k = static_cast<double>(integral(at, true) / whole);
      EXPECT_NEAR(cap.moment(), k, 1e-10 * k) << d << " " << z;
      EXPECT_NEAR(cap.density_constant(), static_cast<double>(1 / whole), 1e-10 / static_cast<double>(whole));
    }
  }
}

TEST(CapLaw, QuantilesInvertTheMeasure) {
  for (const std::size_t d : {2u, 3u, 100u, 500u, 1000000u}) {
    for (const double z : {0.0, 0.5, 1.5, 4.0}) {
      const CapLaw cap(d, z / std::sqrt(static_cast<double>(d) + 40));
      double last = 1;
      for (const double u : {1e-300, 1e-30, 1e-9, 0.01, 0.5, 0.99, 1 - 1e-12}) {
        const double t = cap.Inside(u);
        EXPECT_GE(t, cap.gamma());
        EXPECT_LE(t, last);
        last = t;
        if (u >= (d > 3 ? 1e-9 : 0.01)) {  // a cosine next to 1 resolves no more
          EXPECT_NEAR(Measure(d, t) / cap.measure(), u, 1e-9 * u + 1e-12) << d << " " << z << " " << u;
        }
      }
      for (const double u : {1e-12, 0.01, 0.3, 0.5, 0.7, 0.99, 1 - 1e-9}) {
        const double t = cap.Outside(u);
        EXPECT_LE(t, cap.gamma());
        EXPECT_GE(t, -1);
        EXPECT_NEAR((Measure(d, t) - cap.measure()) / (1 - cap.measure()), u, 1e-9)
            << d << " " << z << " " << u;
      }
    }
  }
}

TEST(CapLaw, DimensionThreeIsUniform) {
  const CapLaw cap(3, 0.3);
  EXPECT_NEAR(cap.measure(), 0.35, 1e-15);
  EXPECT_NEAR(Factor(cap, 0.9), 0.55, 1e-14);
  EXPECT_NEAR(cap.Inside(0.25), 1 - 0.7 * 0.25, 1e-14);
  EXPECT_NEAR(cap.Outside(0.25), 0.3 - 1.3 * 0.25, 1e-14);
}

TEST(PrivUnit, PublishedRuleTightCapAndOptimum) {
  struct Row {
    std::size_t d;
    double paper, tight, optimal;  // m for ε₀ = ε₁ = 2, for the exact cap of ε₁ = 2, and for ε = 4
  };
  for (const Row& r : {Row{100, 0.127512795403, 0.144276793112, 0.151068213966},
                       Row{500, 0.057022144824, 0.064575357583, 0.067737342490}}) {
    for (const CapSampler s : {CapSampler::kInverse, CapSampler::kLattice}) {
      const auto paper = PrivUnit::Paper(Eps(2), Eps(2), r.d, s);
      ASSERT_TRUE(paper.ok());
      EXPECT_NEAR(paper->m(), r.paper, 1e-8 * r.paper);
      EXPECT_NEAR(paper->p(), kHalf, 1e-12);
      const auto best = PrivUnit::Optimal(Eps(4), r.d, s);
      ASSERT_TRUE(best.ok());
      EXPECT_NEAR(best->m(), r.optimal, 1e-8 * r.optimal);
      EXPECT_NEAR(best->gamma(), r.optimal, 1e-8 * r.optimal);
    }
    const CapLaw tight(r.d, TightGamma(r.d, 2));
    EXPECT_NEAR(Factor(tight, kHalf), r.tight, 1e-8 * r.tight);
  }
  const auto paper = PrivUnit::Paper(Eps(2), Eps(2), 100);
  ASSERT_TRUE(paper.ok());
  EXPECT_NEAR(paper->gamma(), 0.0959325401, 1e-10);
  EXPECT_NEAR(paper->q(), 0.1699626550, 1e-10);
  EXPECT_NEAR(1 / paper->m(), 7.84235023, 1e-7);
  EXPECT_NEAR(TightGamma(100, 2), 0.1183734165, 1e-10);
  const auto best = PrivUnit::Optimal(Eps(4), 100);
  ASSERT_TRUE(best.ok());
  EXPECT_NEAR(best->p(), 0.79357070, 1e-8);
  EXPECT_NEAR(best->q(), 0.06577882, 1e-8);
}

TEST(PrivUnit, OptimumInDimensionThreeIsTanh) {
  for (const double e : {0.01, 0.5, 1.0, 4.0, 9.0, 12.0}) {
    const auto unit = PrivUnit::Optimal(Eps(e), 3);
    ASSERT_TRUE(unit.ok());
    EXPECT_NEAR(unit->gamma(), std::tanh(e / 4), 1e-13 + 1e-12 / e);
    EXPECT_NEAR(unit->m(), std::tanh(e / 4), 1e-7);
  }
  EXPECT_NEAR(PrivUnit::Optimal(Eps(4), 3)->gamma(), 0.7615941559558, 1e-12);
}

TEST(PrivUnit, OptimumBeatsItsNeighboursAtTheSameEpsilon) {
  for (const std::size_t d : {2u, 3u, 20u, 500u, 100000u}) {
    for (const double e : {0.1, 1.0, 4.0, 8.0}) {
      const double odds = std::expm1(e), gamma = *OptimalGamma(e, d);
      const auto factor = [&](double g) {
        const CapLaw c(d, g);
        return c.moment() * odds / (1 + odds * c.measure());
      };
      for (const double by : {0.5, 0.9, 0.99, 1.01, 1.1, 1.5}) {
        const double other = std::min(gamma * by, 0.5 * (gamma + 1));
        if (other != gamma) {
          EXPECT_GT(factor(gamma), factor(other)) << d << " " << e << " " << by;
        }
      }
    }
  }
}

TEST(PrivUnit, EpsilonOfThePublishedRuleInClosedForm) {
  for (const CapSampler s : {CapSampler::kInverse, CapSampler::kLattice}) {
    const auto paper = PrivUnit::Paper(Eps(2), Eps(2), 100, s);
    ASSERT_TRUE(paper.ok());
    EXPECT_NEAR(EpsilonOf(paper->event()), 2 + 1.58589196, 2e-8);
  }
  // Its second rule: the largest γ it allows, and the true ε is below the sum, as the rule promises.
  for (const double e1 : {7.0, 10.0, 12.0}) {
    const double d = 100;
    const auto unit = PrivUnit::Paper(Eps(2), Eps(e1), 100, CapSampler::kInverse);
    ASSERT_TRUE(unit.ok());
    const double g = unit->gamma();
    EXPECT_GT(g, std::tanh(e1 / 2) * std::sqrt(M_PI / (2 * (d - 1))));
    EXPECT_NEAR(0.5 * std::log(d) + std::log(6) - (d - 1) / 2 * std::log1p(-g * g) + std::log(g), e1, 1e-12);
    EXPECT_LE(EpsilonOf(unit->event()), 2 + e1);
  }
}

TEST(PrivUnit, ChargesWhatWasAskedForAndHardlyLess) {
  for (const CapSampler s : {CapSampler::kInverse, CapSampler::kLattice}) {
    for (const std::size_t d : {2u, 3u, 10u, 100u, 10000u, 1000000u}) {
      for (const double e : {1e-6, 1e-3, 0.1, 1.0, 4.0, 10.0, 14.0}) {
        const auto unit = PrivUnit::Optimal(Eps(e), d, s);
        ASSERT_TRUE(unit.ok()) << unit.error().message;
        const PrivUnitEvent& event = unit->event();
        EXPECT_LE(EpsilonOf(event), e) << d << " " << e;
        EXPECT_GE(EpsilonOf(event), e * (1 - 1e-9) - 1e-12) << d << " " << e;
        EXPECT_GE(event.p.value(), unit->p());
        EXPECT_LE(event.q.value(), 0.5);
        EXPECT_LE(event.q.value(), event.p.value());
      }
    }
  }
  EXPECT_GT(EpsilonOf(PrivUnit::Paper(Eps(2), Eps(2), 100)->event()),
            EpsilonOf(PrivUnit::Paper(Eps(2), Eps(2), 100, CapSampler::kInverse)->event()));
}

// The curve of the event against two-input laws whose caps have any measure that the lattice allows.
TEST(PrivUnit, EventDominatesEveryPairOfInputs) {
  for (const std::size_t d : {3u, 100u, 10000u}) {
    for (const double e : {0.01, 1.0, 4.0, 10.0}) {
      const auto unit = PrivUnit::Optimal(Eps(e), d);
      ASSERT_TRUE(unit.ok());
      const double eta = 0x1p-34 * std::sqrt(static_cast<double>(d)) / std::sqrt(2 * M_PI) +
                         3 * (static_cast<double>(d) / 8 + 8) * 0x1p-53 * CapLaw(d, 0).density_constant();
      const double q = unit->q(), b = (1 - unit->p()) * q / (unit->p() * (1 - q));
      const double ep = EpsilonOf(unit->event()), p = unit->event().p.value();
      for (const double qu : {q - eta, q, q + eta}) {
        for (const double qv : {q - eta, q, q + eta}) {
          const double zu = qu + b * (1 - qu), zv = qv + b * (1 - qv);
          for (const double share : {0.0, 1e-12, 1e-9, 1e-6, 0.01, 0.5, 0.999}) {
            const double x = share * e, ex = std::exp(x);
            const auto excess = [&](double measure, double au, double av) {
              return std::max(0.0, measure * (au / zu - ex * av / zv));
            };
            // Caps apart, and one within the other.
            const double apart = excess(qu, 1, b) + excess(qv, b, 1) + excess(1 - qu - qv, b, b);
            const double both = std::min(qu, qv);
            const double nested = excess(both, 1, 1) + excess(qu - both, 1, b) + excess(qv - both, b, 1) +
                                  excess(1 - std::max(qu, qv), b, b);
            const double bound = -p * std::expm1(x - ep);
            EXPECT_LE(apart, bound + 1e-14) << d << " " << e << " " << x;
            EXPECT_LE(nested, bound + 1e-14) << d << " " << e << " " << x;
          }
        }
      }
    }
  }
}

struct Sampling {
  CapSampler sampler;
  std::size_t d;
  double epsilon;
  int n;
};
class PrivUnitSampling : public ::testing::TestWithParam<Sampling> {};

// The law of ⟨V, u⟩ in and out of the cap, of the rest of V, mean and length, against the exact laws. Five
// statistics with a false-alarm rate of 1e-6 each.
TEST_P(PrivUnitSampling, FollowsTheExactLaw) {
  const Sampling& c = GetParam();
  const auto unit = PrivUnit::Optimal(Eps(c.epsilon), c.d, c.sampler);
  ASSERT_TRUE(unit.ok()) << unit.error().message;
  Vec x(c.d), other(c.d);
  Stream stream({.seed = 5, .purpose = Purpose::kTest});
  for (double& a : x) a = stream.Normal() * 1e-170;  // so short that its square is 0
  for (double& a : other) a = stream.Normal();
  Vec u = x;
  Scale(1e170, u);
  Scale(1 / Norm(u), u);
  Axpy(-Dot(other, u), u, other);
  Axpy(-Dot(other, u), u, other);
  Scale(1 / Norm(other), other);

  NoiseRng rng = NoiseRng::Replayable(kId);
  PrivUnitSpace space;
  std::vector<std::int32_t> v(c.d);
  Vec value(c.d), uniform, side;
  const double q = unit->q(), p = unit->p(), n = c.n;
  double mean = 0, mean_square = 0, rest_mean = 0, inside = 0;
  for (int i = 0; i < c.n; ++i) {
    unit->Sample(x, rng, space, v);
    for (std::size_t j = 0; j < c.d; ++j) value[j] = std::ldexp(v[j], -PrivUnit::kGridBits);
    EXPECT_NEAR(Norm(value), 1, 0x1p-30 * std::sqrt(static_cast<double>(c.d)));
    const double t = std::clamp(Dot(value, u), -1.0, 1.0), s = Dot(value, other);
    const double above = Measure(c.d, t);
    // Upper-tail probability of t under the law of PrivUnit: uniform on (0, 1).
    uniform.push_back(t >= unit->gamma() ? p * above / q : p + (1 - p) * (above - q) / (1 - q));
    inside += t >= unit->gamma();
    mean += t / n, mean_square += t * t / n, rest_mean += s / n;
    if (c.d > 2)
      side.push_back(Measure(c.d - 1, std::clamp(s / std::sqrt((1 - t) * (1 + t)), -1.0, 1.0)));
    else
      side.push_back(s > 0);
  }
  const auto distance = [n](Vec& sample) {
    std::sort(sample.begin(), sample.end());
    double most = 0;
    for (std::size_t i = 0; i < sample.size(); ++i)
      most = std::max(
          {most, sample[i] - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - sample[i]});
    return most * std::sqrt(n);
  };
  EXPECT_LT(distance(uniform), kKolmogorov);
  if (c.d > 2) {
    EXPECT_LT(distance(side), kKolmogorov);
  } else {
    EXPECT_LT(std::abs(Norm(side) * Norm(side) - n / 2), kSix * std::sqrt(n) / 2);
  }
  EXPECT_LT(std::abs(inside - n * p), kSix * std::sqrt(n * p * (1 - p)) + 1);
  // Z = V/m is unbiased along u and across it.
  EXPECT_LT(std::abs(mean - unit->m()), kSix * std::sqrt((mean_square - mean * mean) / n));
  EXPECT_LT(std::abs(rest_mean), kSix * std::sqrt(1.0 / (n * static_cast<double>(c.d > 2 ? c.d - 1 : 1))));
}

INSTANTIATE_TEST_SUITE_P(
    Dimensions, PrivUnitSampling,
    ::testing::Values(
        Sampling{CapSampler::kLattice, 2, 2, 20000}, Sampling{CapSampler::kLattice, 3, 4, 20000},
        Sampling{CapSampler::kLattice, 100, 4, 10000}, Sampling{CapSampler::kLattice, 500, 1, 5000},
        Sampling{CapSampler::kLattice, 20, 9, 1000}, Sampling{CapSampler::kLattice, 1000000, 1, 8},
        Sampling{CapSampler::kInverse, 2, 2, 20000}, Sampling{CapSampler::kInverse, 3, 4, 20000},
        Sampling{CapSampler::kInverse, 100, 4, 20000}, Sampling{CapSampler::kInverse, 500, 1, 10000},
        Sampling{CapSampler::kInverse, 20, 30, 2000}, Sampling{CapSampler::kInverse, 1000000, 4, 10}),
    [](const auto& c) {
      return std::string(c.param.sampler == CapSampler::kLattice ? "lattice" : "inverse") +
             std::to_string(c.param.d) + "_" + std::to_string(static_cast<int>(c.param.epsilon));
    });

// "Uniform on the cap with probability γ", as printed, against p: the estimate then points away from u.
TEST(PrivUnit, TheCapWithProbabilityGammaPointsTheWrongWay) {
  for (const auto& [d, expected] :
       {std::tuple{std::size_t{100}, -0.10414537}, std::tuple{std::size_t{500}, -0.179}}) {
    const auto unit = PrivUnit::Paper(Eps(2), Eps(2), d);
    ASSERT_TRUE(unit.ok());
    const double gamma = unit->gamma(), q = unit->q(), p = unit->p();
    const CapLaw cap(d, gamma);
    const double closed = cap.moment() * (gamma / q - (1 - gamma) / (1 - q)) / unit->m();
    EXPECT_NEAR(closed, (gamma - q) / (p - q), 1e-9);
    EXPECT_NEAR(closed, expected, d == 100 ? 1e-8 : 1e-3);

    Stream stream({.seed = 9, .purpose = Purpose::kTest});
    const int n = 20000;
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) {
      const bool in = stream.Uniform() < gamma;
      const double w = stream.Uniform() + 0x1p-54, z = (in ? cap.Inside(w) : cap.Outside(w)) / unit->m();
      sum += z, squares += z * z;
    }
    const double mean = sum / n, error = std::sqrt((squares / n - mean * mean) / n);
    EXPECT_LT(std::abs(mean - closed), kSix * error);
    EXPECT_LT(mean, -kSix * error);
  }
}

TEST(PrivUnit, WhatHasNoDirectionIsTheFirstUnitVector) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kMost = std::numeric_limits<double>::max();
  for (const CapSampler s : {CapSampler::kLattice, CapSampler::kInverse}) {
    const auto unit = PrivUnit::Optimal(Eps(3), 4, s);
    ASSERT_TRUE(unit.ok());
    const auto sample = [&](const Vec& x) {
      NoiseRng rng = NoiseRng::Replayable(kId);
      PrivUnitSpace space;
      std::vector<std::int32_t> all;
      for (int i = 0; i < 50; ++i) {
        std::vector<std::int32_t> v(4);
        unit->Sample(x, rng, space, v);
        all.insert(all.end(), v.begin(), v.end());
      }
      return all;
    };
    const auto first = sample({1, 0, 0, 0});
    for (const Vec& x : {Vec{0, 0, 0, 0}, Vec{-0.0, 0, -0.0, 0}, Vec{kNan, 1, 2, 3}, Vec{0, kInf, 0, 0},
                         Vec{1, 1, 1, -kInf}, Vec{5e-324, 0, 0, 0}, Vec{kMost, 0, 0, 0}})
      EXPECT_EQ(sample(x), first);
    EXPECT_EQ(sample({kMost, -kMost, kMost, 0}),
              sample({1e-300, -1e-300, 1e-300, 0}));  // the length is not seen
    EXPECT_NE(sample({-1, 0, 0, 0}), first);
  }
}

TEST(PrivUnit, OnlyTheSamplerByInversionHasACaveat) {
  EXPECT_EQ(PrivUnit::Optimal(Eps(1), 5)->caveat(), "");
  const std::string caveat(PrivUnit::Optimal(Eps(1), 5, CapSampler::kInverse)->caveat());
  EXPECT_NE(caveat.find("real arithmetic"), std::string::npos);
  EXPECT_EQ(PrivUnit::Optimal(Eps(1), 5)->bits(), 160u);
}

TEST(PrivUnit, RefusesWhatItCannotDo) {
  EXPECT_FALSE(PrivUnit::Optimal(Eps(1), 1).ok());
  EXPECT_FALSE(PrivUnit::Optimal(Eps(0), 100).ok());
  EXPECT_FALSE(PrivUnit::Optimal(Eps(kInf), 100).ok());
  EXPECT_FALSE(PrivUnit::Optimal(Eps(41), 100).ok());
  const auto large = PrivUnit::Optimal(Eps(20), 100);
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.error().message.find("sampler by inversion"), std::string::npos);
  EXPECT_TRUE(PrivUnit::Optimal(Eps(20), 100, CapSampler::kInverse).ok());
  EXPECT_FALSE(PrivUnit::Paper(Eps(2), Eps(6), 2).ok()) << "the printed rule asks for a cosine of 1.25";
  EXPECT_FALSE(PrivUnit::Paper(Eps(2), Eps(kInf), 100).ok());
  EXPECT_FALSE(PrivUnit::Paper(Eps(0), Eps(2), 100).ok());
}

}  // namespace
}  // namespace tacit
