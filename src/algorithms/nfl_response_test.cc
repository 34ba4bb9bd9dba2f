#include "algorithms/nfl_response.h"

#include <gtest/gtest.h>

#include <cmath>

#include "algorithms/nfl_theory.h"

namespace tacit {
namespace {

using Kind = NoteDynamics::Kind;
constexpr Kind kAll[] = {Kind::kLinearised, Kind::kExact, Kind::kSubgradient};

// By the methods as their headers have them, forwards: unit noise on the release of one peer in one round,
// all notes that follow, for every peer and round.
Vec ByHand(const Graph& g, const NoteDynamics& d, std::size_t rounds, View noise) {
  const std::size_t n = g.size();
  Vec q(rounds);
  for (std::size_t from = 1; from <= rounds; ++from)
    for (std::size_t source = 0; source < n; ++source) {
      Vec w(n), gamma(n), next(n);
      for (std::size_t t = from; t <= rounds; ++t) {
        const double eta = d.step.At(static_cast<std::uint32_t>(t));
        for (std::size_t k = 0; k < n; ++k) {
          const auto degree = static_cast<double>(g.degree(k));
          double divisor = 1;
          if (d.kind == Kind::kSubgradient) {
            double mixed = w[k];
            for (const std::uint32_t l : g.of(k))
              mixed += (w[l] - w[k]) / static_cast<double>(1 + std::max(g.degree(k), g.degree(l)));
            next[k] = mixed - eta * d.curvature * w[k];
            divisor = 1 / eta;
          } else {
            double pull = -gamma[k];
            for (const std::uint32_t l : g.of(k)) pull += d.rho * (w[k] + w[l]);
            if (d.kind == Kind::kExact) {
              next[k] = pull / (2 * d.rho * degree + d.curvature);
            } else {
              divisor = 2 * d.rho * degree + 1 / eta;
              next[k] = (w[k] / eta - d.curvature * w[k] + pull) / divisor;
            }
          }
          if (t == from && k == source) next[k] += noise[k] / divisor;
        }
        w = next;
        for (std::size_t k = 0; k < n; ++k)
          for (const std::uint32_t l : g.of(k)) gamma[k] += d.rho * (w[k] - w[l]);
      }
      q[from - 1] += NormSquared(w);
    }
  return q;
}

std::vector<Graph> Graphs() {
  return {Star(7), Ring(6),
          *MakeTopology({.name = Topology::kErdosRenyi, .degree = 3, .seed = 2, .attempts = 99}, 9)};
}

TEST(NflResponse, IsThatOfTheMethodsForwards) {
  for (const Graph& g : Graphs())
    for (const Kind kind : kAll)
      for (const bool falling : {false, true})
        for (const double curvature : {0.0, 0.3}) {
          const NoteDynamics d{.kind = kind, .rho = 0.4, .curvature = curvature, .step = {0.7, falling}};
          Vec noise(g.size());
          for (std::size_t k = 0; k < noise.size(); ++k) noise[k] = 1 + 0.1 * static_cast<double>(k % 4);
          const Vec want = ByHand(g, d, 25, noise), all = LogResponse(g, d, 25, noise, g.size());
          for (std::size_t t = 0; t < 25; ++t)
            ASSERT_NEAR(std::exp(all[t]) / want[t], 1, 1e-9) << static_cast<int>(kind) << " " << t;
        }
}

// The mean over random vectors, from a fixed seed: within a factor of two by eight of them on nine vertices,
// within 5 % by sixteen on a thousand.
TEST(NflResponse, RandomVectorsComeToTheSame) {
  const Graph g = Graphs().back();
  const Vec noise(g.size(), 1.0);
  for (const Kind kind : kAll) {
    const NoteDynamics d{.kind = kind, .rho = 0.4, .curvature = 0.1, .step = {0.7, true}};
    const Vec all = LogResponse(g, d, 30, noise, g.size()), few = LogResponse(g, d, 30, noise, 8);
    EXPECT_EQ(few, LogResponse(g, d, 30, noise, 8));
    for (std::size_t t = 0; t < 30; ++t) EXPECT_NEAR(few[t], all[t], std::log(2.0)) << t;
  }
  const Graph large = Regular(1000, 4, 1);
  const Vec one(1000, 1.0);
  const NoteDynamics d{.rho = 0.4, .curvature = 0.1, .step = {0.7, false}};
  const Vec sixteen = LogResponse(large, d, 12, one, 16), exact = LogResponse(large, d, 12, one, 1000);
  for (std::size_t t = 0; t < 12; ++t) EXPECT_NEAR(sixteen[t], exact[t], 0.05) << t;
}

// On a complete graph L₋ has the eigenvalue 0 once and K else: two recursions of 2 × 2, and the factor of the
// theory in the end.
TEST(NflResponse, OnACompleteGraphItIsTheEigenvalues) {
  constexpr std::size_t kPeers = 8, kRounds = 300;
  const double rho = 0.3, eta = 0.5, h = 0.2, n = kPeers, b = NflTheory::Denominator(rho, n - 1, eta);
  const auto of = [&](double lambda) {  // w̃_T by unit noise in round t, for T − t = 0, 1, …
    const double a = 1 / eta - h + rho * (2 * (n - 1) - lambda);
    Vec out;
    for (double w = 1, gamma = 0; out.size() < kRounds;) {
      gamma += rho * lambda * w;
      out.push_back(w * w / (b * b));
      w = (a * w - gamma) / b;
    }
    return out;
  };
  const Vec same = of(0), apart = of(n), one(kPeers, 1.0);
  const Graph g = Complete(kPeers);
  const Vec q = LogResponse(g, {.rho = rho, .curvature = h, .step = {eta, false}}, kRounds, one, kPeers);
  for (std::size_t t = 0; t < kRounds; ++t) {
    const double want = same[kRounds - 1 - t] + (n - 1) * apart[kRounds - 1 - t];
    EXPECT_NEAR(std::exp(q[t]) / want, 1, 1e-8) << t;
  }
  const NflTheory theory{.rho = rho, .graph = SpectrumOf(g), .dim = 1};
  EXPECT_NEAR((q[100] - q[0]) / 200, -std::log(theory.Factor(h, n - 1, eta)), 1e-4);
}

// A star forgets slowly what its leaves disagree on, which a graph of the mean degree does not show: noise of
// early rounds counts less all the same.
TEST(NflResponse, AStarForgetsThoughItsMeanDegreeSaysNo) {
  const Graph star = Star(50);
  const Vec one(50, 1.0);
  const Vec q = LogResponse(star, {.rho = 1, .curvature = 0.04, .step = {1.0, false}}, 200, one, 50);
  EXPECT_LT(q.front(), q.back() - 1);
  const NflTheory theory{.rho = 1, .graph = SpectrumOf(star), .dim = 1};
  EXPECT_GE(theory.Factor(0.04, 2 * 49 / 50.0, 1.0), 1);
}

// Over so many rounds the numbers themselves would be 0, or infinite.
TEST(NflResponse, LogarithmsStayFinite) {
  const Vec one(5, 1.0);
  for (const double curvature : {0.0, 0.4, 10.0})
    for (const Kind kind : kAll) {
      const Vec q =
          LogResponse(Ring(5), {.kind = kind, .curvature = curvature, .step = {0.5, false}}, 20000, one, 5);
      for (const double v : q) ASSERT_TRUE(std::isfinite(v)) << curvature << " " << static_cast<int>(kind);
    }
}

TEST(NflResponse, ProbesFollowTheWorkThatTheyAre) {
  EXPECT_EQ(ResponseProbes(Ring(50), 200), 50u);  // all of them
  EXPECT_EQ(ResponseProbes(Ring(2000), 200), 16u);  // 1.2e6 each
  EXPECT_EQ(ResponseProbes(Ring(20000), 200), 3u);
  EXPECT_EQ(ResponseProbes(Ring(20000), 2000), 2u);
  EXPECT_EQ(ResponseProbes(Ring(20000), 4000), 0u);
}

}  // namespace
}  // namespace tacit
