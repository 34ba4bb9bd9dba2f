#include "privacy/gdp.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace tacit {
namespace {

Epsilon Eps(double v) { return Epsilon::Proven(v); }
Delta Del(double v) { return Delta::Proven(v); }
Mu M(double v) { return Mu::Proven(v); }

void ExpectRelative(double got, double want, double tolerance) {
  EXPECT_NEAR(got, want, tolerance * std::abs(want));
}

class Big {
 public:
  static constexpr mpfr_prec_t kBits = 400;  // at least 300 remain of any difference below
  Big() { mpfr_init2(v, kBits); }
  Big(const Big&) = delete;
  Big& operator=(const Big&) = delete;
  ~Big() { mpfr_clear(v); }
  mpfr_t v;
};

// δ(ε; μ) through the normal distribution's error function, all to nearest: independent of the code under
// test in its arithmetic, its rounding and its precision.
void Reference(double epsilon, double mu, Big& out) {
  Big ratio, half, root2, first, second;
  mpfr_set_d(ratio.v, epsilon, MPFR_RNDN);
  mpfr_div_d(ratio.v, ratio.v, mu, MPFR_RNDN);
  mpfr_set_d(half.v, mu, MPFR_RNDN);
  mpfr_div_2ui(half.v, half.v, 1, MPFR_RNDN);
  mpfr_sqrt_ui(root2.v, 2, MPFR_RNDN);
  mpfr_sub(first.v, ratio.v, half.v, MPFR_RNDN);
  mpfr_add(second.v, ratio.v, half.v, MPFR_RNDN);
  mpfr_div(first.v, first.v, root2.v, MPFR_RNDN);
  mpfr_div(second.v, second.v, root2.v, MPFR_RNDN);
  mpfr_erfc(first.v, first.v, MPFR_RNDN);
  mpfr_erfc(second.v, second.v, MPFR_RNDN);
  mpfr_set_d(ratio.v, epsilon, MPFR_RNDN);
  mpfr_exp(ratio.v, ratio.v, MPFR_RNDN);
  mpfr_mul(second.v, second.v, ratio.v, MPFR_RNDN);
  mpfr_sub(out.v, first.v, second.v, MPFR_RNDN);
  mpfr_div_2ui(out.v, out.v, 1, MPFR_RNDN);
}

void ExpectEncloses(double epsilon, double mu, double width) {
  SCOPED_TRACE(testing::Message() << "epsilon " << epsilon << " mu " << mu);
  const Interval d = GdpDelta(Eps(epsilon), M(mu));
  Big truth;
  Reference(epsilon, mu, truth);
  EXPECT_GE(mpfr_cmp_d(truth.v, d.lower), 0);
  EXPECT_LE(mpfr_cmp_d(truth.v, d.upper), 0);
  if (d.upper > 1e-305) {
    EXPECT_LE(d.upper - d.lower, width * d.upper);
  }
}

TEST(Gdp, FactsAboutZcdp) {
  ExpectRelative(ZcdpRho(Eps(1), Del(1e-4)).value(), 0.0257628385184, 1e-11);
  ExpectRelative(ZcdpRho(Eps(0.5), Del(1e-5)).value(), 0.00531390423077, 1e-11);
  ExpectRelative(ZcdpRho(Eps(8), Del(1e-5)).value(), 1.04913620122, 1e-11);
  ExpectRelative(ZcdpRho(Eps(1), Del(1e-5)).value(), 0.0208199383395, 1e-11);
  ExpectRelative(ZcdpEpsilon(Rho::Proven(0.0639918049361), Del(1e-5)), 1.7806547079, 1e-10);
}

TEST(Gdp, FactsAboutMu) {
  ExpectRelative(GdpMu(Eps(1), Del(1e-4)).value(), 0.3139024583, 1e-9);
  ExpectRelative(GdpMu(Eps(0.5), Del(1e-5)).value(), 0.1422105587, 1e-9);
  ExpectRelative(GdpMu(Eps(8), Del(1e-5)).value(), 1.666030598, 1e-9);
  ExpectRelative(GdpMu(Eps(1), Del(1e-5)).value(), 0.2680511232, 1e-9);
  ExpectRelative(GdpMu(Eps(3), Del(1e-5)).value(), 0.7191174352, 1e-9);
}

TEST(Gdp, FactsAboutTheCurve) {
  ExpectRelative(GdpDelta(Eps(1), M(1)).upper, 0.126936737507, 1e-11);
  ExpectRelative(GdpDelta(Eps(0), M(1)).upper, 0.382924922548, 1e-11);
  ExpectRelative(GdpDelta(Eps(0), M(1)).upper, std::erf(0.5 / std::sqrt(2.0)), 5e-14);      // 2Φ(½) − 1
  ExpectRelative(GdpEpsilon(M(1), Del(1e-5)).upper, 4.377178095681, 1e-12);
  ExpectRelative(GdpEpsilon(M(0.5), Del(1e-6)).upper, 2.254084650, 1e-9);
}

TEST(Gdp, ARunCalibratedByZcdpIsMorePrivateThanItSays) {
  const struct {
    double epsilon, delta, exact;
  } kCases[] = {{1, 1e-4, 0.693681}, {0.5, 1e-5, 0.352156}, {8, 1e-5, 6.763461}, {1, 1e-5, 0.741637}};
  for (const auto& c : kCases) {
    const double rho = ZcdpRho(Eps(c.epsilon), Del(c.delta)).value();
    ExpectRelative(GdpEpsilon(M(std::sqrt(2 * rho)), Del(c.delta)).upper, c.exact, 1e-5);
  }
  // Noise standard deviation saved at the same (ε, δ).
  ExpectRelative(std::sqrt(2 * ZcdpRho(Eps(1), Del(1e-4)).value()) / GdpMu(Eps(1), Del(1e-4)).value(),
                 0.723131, 1e-6);
  ExpectRelative(std::sqrt(2 * ZcdpRho(Eps(8), Del(1e-5)).value()) / GdpMu(Eps(8), Del(1e-5)).value(),
                 0.869457, 1e-6);
}

TEST(Gdp, TheClassicMultiplierIsLoose) {
  ExpectRelative(std::sqrt(2 * std::log(1.25e5)), 4.844805263, 1e-9);
  ExpectRelative(1 / GdpMu(Eps(1), Del(1e-5)).value(), 3.730631635, 1e-9);
}

struct Golden {
  std::string id, kind;
  std::vector<std::pair<double, double>> composition;      // count, noise multiplier
  double epsilon = 0, delta = 0, value = 0;
};

std::vector<Golden> ReadGolden(const std::string& path) {
  std::ifstream in(path);
  std::vector<Golden> out;
  std::string line;
  bool header = true;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    if (header) {
      header = false;
      continue;
    }
    std::stringstream cells(line);
    std::string cell[6];
    for (auto& c : cell) std::getline(cells, c, ',');
    Golden g{cell[0],
             cell[1],
             {},
             cell[3].empty() ? 0 : std::stod(cell[3]),
             cell[4].empty() ? 0 : std::stod(cell[4]),
             std::stod(cell[5])};
    std::stringstream parts(cell[2]);
    for (std::string part; std::getline(parts, part, '+');)
      g.composition.emplace_back(std::stod(part), std::stod(part.substr(part.find('x') + 1)));
    out.push_back(g);
  }
  return out;
}

TEST(Gdp, GoldenValues) {
  const auto cases = ReadGolden(std::string(TACIT_SOURCE_DIR) + "/tests/golden/gaussian.csv");
  ASSERT_EQ(cases.size(), 16u);
  for (const Golden& g : cases) {
    SCOPED_TRACE(g.id);
    long double square = 0;
    for (const auto& [count, z] : g.composition) square += count / (static_cast<long double>(z) * z);
    const double mu = static_cast<double>(std::sqrt(square));
    if (g.kind == "eps") {
      const Interval e = GdpEpsilon(M(mu), Del(g.delta));
      ExpectRelative(e.upper, g.value, 1e-13);
      if (g.value == 0) {
        EXPECT_EQ(e.upper, 0);
      }
    } else if (g.kind == "delta") {
      ExpectRelative(GdpDelta(Eps(g.epsilon), M(mu)).upper, g.value, 1e-13);
    } else {
      ASSERT_EQ(g.kind, "sigma");
      ExpectRelative(1 / GdpMu(Eps(g.epsilon), Del(g.delta)).value(), g.value, 1e-13);
    }
  }
}

TEST(Gdp, Edges) {
  const double smallest = 5e-324;
  EXPECT_EQ(GdpDelta(Eps(1), M(0)).upper, 0);
  EXPECT_EQ(GdpDelta(Eps(0), M(0)).upper, 0);
  EXPECT_EQ(GdpDelta(Eps(kInf), M(3)).upper, 0);
  EXPECT_EQ(GdpDelta(Eps(7), M(kInf)).lower, 1);
  EXPECT_EQ(GdpDelta(Eps(kInf), M(kInf)).upper, 1);
  EXPECT_EQ(GdpDelta(Eps(1), M(1e-9)).lower, 0);
  EXPECT_EQ(GdpDelta(Eps(1), M(1e-9)).upper, smallest);              // positive in truth, so not 0
  EXPECT_GT(GdpDelta(Eps(1), M(100)).lower, 1 - 1e-15);
  EXPECT_LE(GdpDelta(Eps(1), M(100)).upper, 1);
  EXPECT_EQ(GdpEpsilon(M(0), Del(0)).upper, 0);
  EXPECT_EQ(GdpEpsilon(M(0), Del(1e-5)).upper, 0);
  EXPECT_EQ(GdpEpsilon(M(1), Del(0)).lower, kInf);
  EXPECT_EQ(GdpEpsilon(M(kInf), Del(0.5)).upper, kInf);
  EXPECT_EQ(GdpEpsilon(M(0.01), Del(0.01)).upper, 0);                // δ(0; μ) ≤ δ
  EXPECT_GT(GdpEpsilon(M(0.01), Del(0.003989)).upper, 0);            // δ(0; 0.01) = 0.00398941
  EXPECT_EQ(GdpEpsilon(M(1e200), Del(0.5)).upper, kInf);
  EXPECT_EQ(GdpMu(Eps(1), Del(0)).value(), 0);
  EXPECT_EQ(GdpMu(Eps(kInf), Del(1e-5)).value(), kInf);
  EXPECT_GT(GdpMu(Eps(0), Del(1e-5)).value(), 0);
  EXPECT_EQ(ZcdpEpsilon(Rho{0.0}, Del(0)), 0);
  EXPECT_EQ(ZcdpEpsilon(Rho{1.0}, Del(0)), kInf);
  EXPECT_EQ(ZcdpEpsilon(Rho{kInf}, Del(0.1)), kInf);
  EXPECT_EQ(ZcdpRho(Eps(0), Del(0.1)).value(), 0);
  EXPECT_EQ(ZcdpRho(Eps(1), Del(0)).value(), 0);
  EXPECT_EQ(ZcdpRho(Eps(kInf), Del(0.1)).value(), kInf);
}

// The stated domain: ε from 1e-6 to 1e4 and δ from 1e-300 to nearly 1, on the curve and beside it.
TEST(Gdp, EnclosesTheTruthOverTheWholeDomain) {
  const double kEpsilons[] = {1e-6, 3.7e-5, 1e-3, 0.1, 0.5, 1, 2.7, 8, 40, 999, 1e4};
  const double kDeltas[] = {1e-300, 3e-200, 1e-100, 1e-50, 1e-25, 1e-14,
                            1e-10,  1e-5,   1e-2,   0.3,   0.9,   0.999999};
  Big truth;
  for (const double epsilon : kEpsilons) {
    for (const double delta : kDeltas) {
      SCOPED_TRACE(testing::Message() << "epsilon " << epsilon << " delta " << delta);
      const double mu = GdpMu(Eps(epsilon), Del(delta)).value();
      // The largest double μ with δ(ε; μ) ≤ δ.
      Reference(epsilon, mu, truth);
      EXPECT_LE(mpfr_cmp_d(truth.v, delta), 0);
      Reference(epsilon, NextUp(mu), truth);
      EXPECT_GT(mpfr_cmp_d(truth.v, delta), 0);
      ExpectEncloses(epsilon, mu, 1e-13);
      ExpectEncloses(0, mu, 1e-13);
      // ε back from that μ: neighbours, on either side of δ.
      const Interval e = GdpEpsilon(M(mu), Del(delta));
      EXPECT_EQ(NextUp(e.lower), e.upper);
      EXPECT_LE(e.lower, epsilon);
      Reference(e.upper, mu, truth);
      EXPECT_LE(mpfr_cmp_d(truth.v, delta), 0);
      Reference(e.lower, mu, truth);
      EXPECT_GT(mpfr_cmp_d(truth.v, delta), 0);
    }
  }
}

TEST(Gdp, EnclosesTheTruthAtRandomPoints) {
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> t1(-12, 36), log_mu(std::log(1e-9), std::log(150.0));
  int tried = 0;
  for (int i = 0; i < 300; ++i) {
    const double mu = std::exp(log_mu(rng)), epsilon = mu * (t1(rng) + mu / 2);
    if (!(epsilon >= 0)) continue;
    ++tried;
    ExpectEncloses(epsilon, mu, 1e-13);
  }
  EXPECT_GT(tried, 150);
}

TEST(Gdp, FarOutsideTheDomainItStillEncloses) {
  for (const double mu : {1e3, 1e4, 1e6}) {
    for (const double t1 : {-6.0, 0.0, 7.0}) {
      const double epsilon = mu * (t1 + mu / 2);
      const Interval d = GdpDelta(Eps(epsilon), M(mu));
      // B = φ(t₁) M(t₂) is between 0 and φ(t₁)/t₂.
      const double a = std::erfc(t1 / std::sqrt(2.0)) / 2,
                   b = std::exp(-t1 * t1 / 2) / std::sqrt(2 * M_PI) / mu;
      EXPECT_LE(d.lower, a * (1 + 1e-7));
      EXPECT_GE(d.upper, (a - b) * (1 - 1e-7));
      EXPECT_LE(d.upper - d.lower, 1e-13 * d.upper);
    }
  }
}

// |ε − μ²/2| < 40 μ at the root, which no double shows: both inverses are μ²/2 rounded to their safe side.
TEST(Gdp, FarOutTheInversesAreTheParabola) {
  std::mt19937_64 rng(4);
  std::uniform_real_distribution<double> u(0, 1);
  for (int i = 0; i < 1000; ++i) {
    const double epsilon = std::pow(10, 38 + 250 * u(rng)), delta = std::pow(10, -300 * u(rng) - 1e-3);
    const Mu mu = GdpMu(Eps(epsilon), Del(delta));
    EXPECT_LE(mu.value(), 2 * std::sqrt(epsilon / 2));
    EXPECT_GT(mu.value(), 2 * std::sqrt(epsilon / 2) * (1 - 1e-14));
    const Interval back = GdpEpsilon(mu, Del(delta));
    EXPECT_LE(back.upper, epsilon);
    EXPECT_GT(back.lower, epsilon * (1 - 1e-14));
  }
  EXPECT_LE(GdpMu(Eps(1e300), Del(1e-5)).value(), 1e150 * std::sqrt(2.0));
}

TEST(Gdp, IsMonotone) {
  std::mt19937_64 rng(2);
  std::uniform_real_distribution<double> u(0, 1);
  for (int i = 0; i < 100; ++i) {
    const double mu = std::exp(8 * u(rng) - 5), delta = std::exp(-30 * u(rng) - 0.1),
                 epsilon = std::exp(10 * u(rng) - 6);
    const double more = 1 + 1e-12 + 0.1 * u(rng);
    EXPECT_LE(GdpDelta(Eps(epsilon * more), M(mu)).lower, GdpDelta(Eps(epsilon), M(mu)).upper);
    EXPECT_GE(GdpDelta(Eps(epsilon), M(mu * more)).upper, GdpDelta(Eps(epsilon), M(mu)).lower);
    EXPECT_LE(GdpEpsilon(M(mu), Del(delta)).upper, GdpEpsilon(M(mu * more), Del(delta)).upper);
    EXPECT_GE(GdpEpsilon(M(mu), Del(delta / more)).upper, GdpEpsilon(M(mu), Del(delta)).upper);
    EXPECT_LE(GdpMu(Eps(epsilon), Del(delta)), GdpMu(Eps(epsilon * more), Del(delta)));
    EXPECT_LE(GdpMu(Eps(epsilon), Del(delta / more)), GdpMu(Eps(epsilon), Del(delta)));
  }
}

// A plan calibrated for ε is certified for at most ε, and not for noticeably less.
TEST(Gdp, CalibrationAndCertificateAgree) {
  std::mt19937_64 rng(3);
  std::uniform_real_distribution<double> u(0, 1);
  for (int i = 0; i < 100; ++i) {
    const double epsilon = std::exp(20 * u(rng) - 11), delta = std::pow(10, -1 - 250 * u(rng) * u(rng));
    const Mu mu = GdpMu(Eps(epsilon), Del(delta));
    EXPECT_LE(GdpEpsilon(mu, Del(delta)).upper, epsilon);
    EXPECT_GE(GdpEpsilon(M(NextUp(mu.value())), Del(delta)).upper, epsilon);
    EXPECT_LE(GdpDelta(Eps(epsilon), mu).lower, delta);
  }
}

TEST(Gdp, ZcdpIsNeverBelowTheExactValueAndRoundsSafely) {
  std::mt19937_64 rng(4);
  std::uniform_real_distribution<double> u(0, 1);
  for (int i = 0; i < 100; ++i) {
    const double epsilon = std::exp(15 * u(rng) - 8), delta = std::pow(10, -1 - 50 * u(rng));
    const Rho rho = ZcdpRho(Eps(epsilon), Del(delta));
    const long double l = -std::log(static_cast<long double>(delta)), r = rho.value();
    EXPECT_LE(r + 2 * std::sqrt(r * l), epsilon * (1 + 1e-18L));
    EXPECT_GE(static_cast<long double>(ZcdpEpsilon(rho, Del(delta))),
              (r + 2 * std::sqrt(r * l)) * (1 - 1e-18L));
    ExpectRelative(ZcdpEpsilon(rho, Del(delta)), epsilon, 1e-14);
    EXPECT_LE(GdpEpsilon(M(std::sqrt(2 * rho.value())), Del(delta)).upper, epsilon);
  }
}

}  // namespace
}  // namespace tacit
