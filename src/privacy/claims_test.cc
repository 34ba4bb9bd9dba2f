#include "privacy/claims.h"

#include <gtest/gtest.h>

#include <cmath>

#include "privacy/gdp.h"
#include "privacy/joint_release.h"

namespace tacit {
namespace {

constexpr Delta kFive{1e-5};

PaperClaim Get(const Result<PaperClaim>& r) {
  EXPECT_TRUE(r.ok());
  EXPECT_LE(r->certified.lower, r->certified.upper);
  EXPECT_FALSE(r->why.empty());
  EXPECT_FALSE(r->reference.empty());
  EXPECT_FALSE(r->source.empty());
  return *r;
}

// ---- A mean and the mean of the squared norms together.

// The largest squared Mahalanobis distance, by trying norms.
double Searched(double clip, double s1, double s2, double m) {
  double most = 0;
  for (int i = 0; i <= 20000; ++i) {
    const double b = clip * i / 20000;
    const double squared = std::pow((clip + b) / (m * s1), 2) + std::pow((clip * clip - b * b) / (m * s2), 2);
    most = std::max(most, squared);
  }
  return std::sqrt(most);
}

TEST(JointRelease, TheSquaresAreFreeWithEnoughNoise) {
  // s₁ = 5C/M, s₂ = 25dC²/M², M = 1000: free from d = 121 on.
  const auto mu = [](double d) {
    return MeanAndSquaresMu(L2Bound(1.0), NoiseStd::Proven(0.005), NoiseStd::Proven(25e-6 * d), 1000).value();
  };
  EXPECT_NEAR(std::pow(mu(500), 2), 0.16, 1e-12);
  EXPECT_NEAR(std::pow(mu(121), 2), 0.16, 1e-12);
  EXPECT_NEAR(std::pow(mu(120), 2), 0.160187, 1e-6);
  EXPECT_NEAR(std::pow(mu(100), 2), 0.20578427, 1e-8);
}

TEST(JointRelease, IsTheLargestOverAllNorms) {
  for (const double clip : {0.1, 1.0, 7.0})
    for (const double s2 : {1e-6, 1e-4, 0.005, 0.3, 0.59, 0.6, 0.6005662, 0.601, 2.0, 1e6}) {
      SCOPED_TRACE(testing::Message() << clip << ' ' << s2);
      const double s1 = 0.01;
      const double mu =
          MeanAndSquaresMu(L2Bound::Proven(clip), NoiseStd::Proven(s1), NoiseStd::Proven(s2 * clip * s1), 10)
              .value();
      const double searched = Searched(clip, s1, s2 * clip * s1, 10);
      EXPECT_GE(mu, searched * (1 - 1e-15));
      EXPECT_NEAR(mu, searched, 1e-7 * searched);
    }
}

// ---- The papers.

TEST(Claims, PrimalDual) {
  const PaperClaim c = Get(PrimalDualClaim(Epsilon(1.0), Delta(1e-4), true));
  EXPECT_EQ(c.claimed, 1);
  EXPECT_NEAR(c.certified.upper, 0.693681, 1e-5);
  EXPECT_LT(c.certified.upper - c.certified.lower, 1e-12);
  EXPECT_NEAR(Get(PrimalDualClaim(Epsilon(0.5), kFive, true)).certified.upper, 0.352156, 1e-5);
  EXPECT_NEAR(Get(PrimalDualClaim(Epsilon(8.0), kFive, true)).certified.upper, 6.763461, 1e-5);
  EXPECT_EQ(Get(PrimalDualClaim(Epsilon(1.0), Delta(1e-4), false)).certified.lower, kInf);
}

TEST(Claims, Ef21HasNoFiniteValue) {
  for (const Ef21Schedule schedule : {Ef21Schedule::kGeometric, Ef21Schedule::kLyapunov}) {
    const PaperClaim c = Get(Ef21Claim(Epsilon(1.0), kFive, schedule));
    EXPECT_NEAR(c.claimed, 1.0217147241, 1e-9);        // its own conversion misses the ε it is for
    EXPECT_EQ(c.certified.upper, kInf);
    EXPECT_EQ(c.certified.lower, kInf);
  }
  EXPECT_NEAR(LeastFailureOfConvergence(Epsilon(1.0), kFive), 0.268938732, 1e-9);
  EXPECT_NEAR(LeastFailureOfConvergence(Epsilon(8.0), kFive), 3.3534678e-4, 1e-11);
  EXPECT_FALSE(Ef21Claim(Epsilon(1.0), Delta(0.0), Ef21Schedule::kGeometric).ok());
}

TEST(Claims, Nfl) {
  EXPECT_NEAR(NflRho(Rho(1e-4), 0.99, 200) / 0.0639918049361, 1, 1e-11);
  EXPECT_NEAR(NflRho(Rho(1.0), 0.99, 1000) / 2293093.94526, 1, 1e-11);
  EXPECT_NEAR(NflRho(Rho(1.0), 1, 200), 200, 1e-9);
  double sum = 0;                        // the T terms, n = 1 … T
  for (int n = 0; n < 200; ++n) sum += std::pow(0.99, -n);
  EXPECT_NEAR(NflRho(Rho(1.0), 0.99, 200) / sum, 1, 1e-12);
  const PaperClaim c = Get(NflClaim(Rho(1e-4), 0.99, 200, kFive, NflData::kClipped));
  EXPECT_NEAR(c.claimed, 1.7806547079, 1e-9);
  EXPECT_NEAR(c.certified.upper, 1.374259486, 1e-8);
  for (const NflData data : {NflData::kUnboundedLoss, NflData::kPenaltyFromData})
    EXPECT_EQ(Get(NflClaim(Rho(1e-4), 0.99, 200, kFive, data)).certified.lower, kInf);
  EXPECT_FALSE(NflClaim(Rho(1e-4), 0, 200, kFive, NflData::kClipped).ok());
  EXPECT_FALSE(NflClaim(Rho(1e-4), std::nan(""), 200, kFive, NflData::kClipped).ok());
  EXPECT_FALSE(NflClaim(Rho(1e-4), 0.99, 0, kFive, NflData::kClipped).ok());
}

TEST(Claims, FedExpLocal) {
  const PaperClaim c = Get(FedExpLocalClaim(0.7, 50, kFive));
  EXPECT_NEAR(c.claimed, 15.658124050, 1e-8);
  EXPECT_NEAR(c.certified.upper, 289.33863705, 1e-7);
  // With that figure for the run, σ = 4.9495 C; with 8, 8.4885 C.
  EXPECT_NEAR(Get(FedExpLocalClaim(4.9495, 50, kFive)).certified.upper, 15.659, 2e-3);
  EXPECT_NEAR(Get(FedExpLocalClaim(8.4885, 50, kFive)).certified.upper, 8, 1e-3);
  EXPECT_FALSE(FedExpLocalClaim(0, 50, kFive).ok());
}

TEST(Claims, FedExpPrivUnit) {
  const PrivUnitSplit two{Epsilon(2.0), Epsilon(2.0), Epsilon(2.0)};
  const PaperClaim pure = Get(FedExpPrivUnitClaim(two, 50, Delta(0.0), {}));
  EXPECT_EQ(pure.claimed, 6);
  EXPECT_NEAR(pure.certified.upper, 300, 1e-9);
  EXPECT_NEAR(Get(FedExpPrivUnitClaim(two, 50, kFive, {})).certified.upper, 289.6705666, 1e-6);
  // The paper's rule: γ = 0.0959325401, q = 0.1699626550; a round is 5.586-DP.
  EXPECT_NEAR(Get(FedExpPrivUnitClaim(two, 50, kFive, 100)).certified.upper, 269.14, 5e-3);
  EXPECT_NEAR(Get(FedExpPrivUnitClaim(two, 1, Delta(0.0), 100)).certified.upper, 4 + 1.58589196, 1e-8);
  EXPECT_FALSE(FedExpPrivUnitClaim(two, 50, kFive, 1).ok());
  EXPECT_FALSE(FedExpPrivUnitClaim({Epsilon(0.0), Epsilon(2.0), Epsilon(2.0)}, 50, kFive, {}).ok());
}

TEST(Claims, FedExpCentral) {
  struct Case {
    const char* why;
    std::optional<std::uint64_t> dimension;
    double published, counted, all;
  };
  const Case cases[] = {{"the synthetic run", 500, 15.647, 15.646200561, 15.850908807},
                        {"the network of 5,046 parameters", 5046, 15.261, 15.260896517, 15.460053852},
                        {"DP-FedAvg", {}, 15.258, 15.257053763, 15.456155823}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const PaperClaim got = Get(FedExpCentralClaim({.dimension = c.dimension}, kFive));
    EXPECT_NEAR(got.claimed, c.counted, 1e-8);
    EXPECT_EQ(std::ceil(got.claimed * 1000) / 1000, c.published);        // rounded up to what is printed
    EXPECT_NEAR(got.certified.upper, 15.456155823, 1e-8);      // T = 50, and no price for the step size
    const PaperClaim fifty = Get(FedExpCentralClaim({.dimension = c.dimension, .counted = 50}, kFive));
    EXPECT_NEAR(fifty.claimed, c.all, 1e-8);
    EXPECT_GE(fifty.claimed, fifty.certified.lower);
  }
  // With few coordinates the step size is not free, and still cheaper than apart.
  const PaperClaim few = Get(FedExpCentralClaim({.dimension = 100, .counted = 50}, kFive));
  EXPECT_NEAR(few.certified.upper, GdpEpsilon(Mu::Proven(std::sqrt(50 * 0.20578427)), kFive).upper, 1e-5);
  EXPECT_NEAR(few.claimed, GdpEpsilon(Mu::Proven(std::sqrt(50 * 0.32)), kFive).upper, 1e-9);
  EXPECT_FALSE(FedExpCentralClaim({.noise_ratio = 0, .dimension = {}}, kFive).ok());
  EXPECT_FALSE(FedExpCentralClaim({.clients = 0, .dimension = {}}, kFive).ok());
}

TEST(Claims, Fcrn) {
  EXPECT_NEAR(FcrnRoundMu(Epsilon(0.8), {}).value(), 4.07049525, 1e-8);
  EXPECT_NEAR(FcrnRoundMu(Epsilon(0.4), {}).value(), 2.03524763, 1e-8);
  EXPECT_NEAR(FcrnDelta(Epsilon(0.8), {}), 0.569501030, 1e-8);
  EXPECT_NEAR(FcrnDelta(Epsilon(0.8), {.steps = 50}), 0.913, 1e-3);
  const PaperClaim c = Get(FcrnClaim(Epsilon(0.8), {}, kFive));
  EXPECT_NEAR(c.certified.upper, 40.623, 5e-3);
  EXPECT_NEAR(c.claimed_delta, 0.5695, 1e-4);
  EXPECT_NEAR(Get(FcrnClaim(Epsilon(0.4), {}, kFive)).certified.upper, 1.8992, 5e-3);
  EXPECT_FALSE(FcrnClaim(Epsilon(0.8), {.delta0 = 0}, kFive).ok());
  EXPECT_FALSE(FcrnClaim(Epsilon(0.8), {.records = 0}, kFive).ok());
}

TEST(Claims, IsrlDp) {
  // σ on the mean of m = 50 gradients of length ≤ L = 3, R = 100, as printed.
  const double variance = 256 * 9 * 100 * std::log(250 / 1e-5) * std::log(2 / 1e-5) / (50.0 * 50.0);
  const double mu = 2 * 3 / (50 * std::sqrt(variance)) * std::sqrt(100.0);
  EXPECT_NEAR(IsrlDpMu(Epsilon(1.0), kFive, 100).value(), mu, 1e-12 * mu);
  const PaperClaim c = Get(IsrlDpClaim(Epsilon(1.0), kFive, 100, true));
  EXPECT_NEAR(c.certified.upper, GdpEpsilon(Mu::Proven(mu), kFive).upper, 1e-6);
  EXPECT_LT(c.certified.upper, c.claimed / 30);
  EXPECT_TRUE(std::isinf(Get(IsrlDpClaim(Epsilon(1.0), kFive, 100, false)).certified.upper));
  EXPECT_FALSE(IsrlDpClaim(Epsilon(1.0), Delta(0.0), 100, true).ok());
  EXPECT_FALSE(IsrlDpClaim(Epsilon(1.0), kFive, 0, true).ok());
}

TEST(Claims, ByPaper) {
  for (const std::string& paper : PaperNames()) {
    const Result<std::vector<PaperClaim>> claims = ClaimsOf(paper);
    ASSERT_TRUE(claims.ok());
    EXPECT_GE(claims->size(), 2);
    for (const PaperClaim& c : *claims) EXPECT_EQ(c.paper, paper);
  }
  EXPECT_FALSE(ClaimsOf("fedavg").ok());
}

}  // namespace
}  // namespace tacit
