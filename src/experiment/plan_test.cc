#include "experiment/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace tacit {
namespace {

constexpr const char* kBase = R"(
[data]
source = "synthetic-logistic"
rows = 2000
features = 22
clients = 20
row_norm = "clip"
density = 1.0
[model]
l2 = 0.1
penalty = "l1box"
weight = 0.01
[privacy]
epsilon = 1
delta = 1e-4
[algorithm]
rounds = 200
)";

Result<Plan> Planned(std::vector<Assignment> sets, const char* base = kBase) {
  TACIT_TRY(const Config c, ParseConfig(base, "plan.toml", sets));
  TACIT_TRY(const PublicFacts facts, FactsWithoutData(c));
  return MakePlan(c, facts);
}

Plan Good(std::vector<Assignment> sets) {
  auto p = Planned(std::move(sets));
  EXPECT_TRUE(p.ok()) << p.error().message;
  return p.ok() ? *std::move(p) : Plan{};
}

std::string Why(std::vector<Assignment> sets) {
  const auto p = Planned(std::move(sets));
  return p.ok() ? "" : p.error().message;
}

TEST(Plan, NeedsNoData) {
  const char* before = std::getenv("TACIT_DATA");
  const std::string kept = before ? before : "";
  unsetenv("TACIT_DATA");
  const auto p = Planned(
      {{"data.source", "a6a"}, {"data.rows", "0"}, {"data.features", "0"}, {"data.rows_per_client", "561"}});
  if (before) setenv("TACIT_DATA", kept.c_str(), 1);
  ASSERT_TRUE(p.ok()) << p.error().message;
  EXPECT_EQ(p->clients, 20u);
  EXPECT_EQ(p->rows, 20u * 561);
  EXPECT_GE(p->dim, 122u);
  EXPECT_NEAR(p->sensitivity / 2 - 1, 3.5e-11, 0.1e-11);      // 561 records: γ_k·m
}

TEST(Plan, CertifiesAtMostWhatWasAskedAndNearlyAllOfIt) {
  for (const char* mechanism : {"lattice_gaussian", "gaussian"})
    for (const char* allocation : {"dynamic", "static"})
      for (const char* epsilon : {"0.01", "1", "8"}) {
        const Plan p = Good({{"privacy.mechanism", mechanism},
                             {"algorithm.allocation", allocation},
                             {"privacy.epsilon", epsilon}});
        EXPECT_LE(p.certified_epsilon, std::stod(epsilon));
        EXPECT_GT(p.certified_epsilon, std::stod(epsilon) * (1 - 1e-5)) << mechanism << ' ' << epsilon;
        EXPECT_FALSE(p.claimed_epsilon);
        ASSERT_FALSE(p.schedule.empty());
        EXPECT_EQ(p.schedule.size() + p.skipped, p.rounds);
        EXPECT_NEAR(p.EpsilonAfter(p.schedule.size() - 1) / p.certified_epsilon, 1, 1e-12);
        EXPECT_LE(p.EpsilonAfter(0), p.EpsilonAfter(p.schedule.size() - 1));
        for (MuSquared b : p.budgets) EXPECT_LE(GdpEpsilon(Root(b), Delta{1e-4}).lower, std::stod(epsilon));
      }
}

TEST(Plan, CertifiedNoiseIsSevenTenthsOfThePapersAndThePaperIsCertifiedAt0694) {
  const Plan certified = Good({{"algorithm.allocation", "static"}});
  const Plan paper = Good({{"algorithm.allocation", "static"}, {"algorithm.mode", "paper"}});
  EXPECT_NEAR(certified.schedule[0].sigma / paper.schedule[0].sigma, 0.723131, 1e-6);
  EXPECT_EQ(paper.claimed_epsilon, 1.0);
  EXPECT_NEAR(paper.certified_epsilon, 0.693681, 1e-5);
  EXPECT_FALSE(paper.claim_source.empty());
}

TEST(Plan, ThePapersNumbers) {
  // ξ_t, the noise on (1/n)∇f_i, with n = 20, m = 100, B = 1, γ = 1/4, μ_f = 0.1, T = 1000.
  const Plan p = Good({{"algorithm.mode", "paper"},
                       {"algorithm.rounds", "1000"},
                       {"algorithm.gamma", "0.25"},
                       {"algorithm.strong_convexity", "0.1"}});
  const auto xi2 = [&](std::size_t k) { return std::pow(p.schedule[k].noise_on_mean / 20, 2); };
  EXPECT_EQ(p.skipped, 0u);
  EXPECT_NEAR(xi2(0) / 479.202650034, 1, 1e-8);
  EXPECT_NEAR(xi2(999) / 0.00154285372182, 1, 1e-8);
  EXPECT_NEAR(p.static_over_dynamic / 6.3294077, 1, 1e-7);
  ASSERT_TRUE(p.bound_printed);
  EXPECT_NEAR(*p.bound_printed / 8.5394317, 1, 1e-7);
}

TEST(Plan, ZeroOutHalvesTheNoise) {
  const Plan replace = Good({}), zero = Good({{"privacy.adjacency", "zero-out"}});
  EXPECT_NEAR(replace.schedule[0].sigma / zero.schedule[0].sigma, 2, 1e-8);
  EXPECT_NEAR(replace.sensitivity / zero.sensitivity, 2, 1e-8);
}

TEST(Plan, SkippedRoundsAreNeitherChargedNorListed) {
  const Plan p = Good(
      {{"algorithm.rounds", "3000"}, {"algorithm.strong_convexity", "0.1"}, {"algorithm.gamma", "0.25"}});
  EXPECT_GT(p.skipped, 1000u);
  EXPECT_EQ(p.schedule.size(), 3000 - p.skipped);
  EXPECT_EQ(p.schedule.back().round, 3000u);
  EXPECT_EQ(p.schedule.front().round, p.skipped + 1);      // the early ones
  EXPECT_EQ(p.noise[0]->size(), p.schedule.size());
}

TEST(Plan, EveryClientHasItsOwnBudget) {
  const auto sets = [](const char* budgets) {
    return std::vector<Assignment>{
        {"data.clients", "4"}, {"privacy.budgets", budgets}, {"algorithm.allocation", "static"}};
  };
  const Plan p = Good(sets("[0.5, 1, 4, 0.5]"));
  ASSERT_EQ(p.noise_of.size(), 4u);
  EXPECT_EQ(p.noise_of[0], p.noise_of[3]);
  EXPECT_EQ(p.noise.size(), 3u);
  for (std::size_t i = 0; i < 4; ++i) {
    const double e = i == 1 ? 1 : i == 2 ? 4 : 0.5;
    const double mu = GdpMu(Epsilon::Proven(e), Delta{1e-4}).value();
    EXPECT_NEAR(std::sqrt(p.budgets[i].value()), mu, 1e-12);
    const double sigma = (*p.noise[p.noise_of[i]])[0].value();
    EXPECT_NEAR(sigma * mu / (2 * std::sqrt(200.0)), 1, 1e-5);      // σ = Δ/(μ_i/√T)
  }
  // The plan speaks for the client that is protected least.
  EXPECT_NEAR(p.certified_epsilon, 4, 1e-4);
  EXPECT_LE(p.certified_epsilon, 4);
  EXPECT_NEAR(Good(sets("[0.5, 0.5, 0.5, 0.5]")).certified_epsilon, 0.5, 1e-5);      // nobody has ε = 1
  EXPECT_NE(Why(sets("[1, 2]")).find("privacy.budgets has 2 values for 4 clients"), std::string::npos);
}

TEST(Plan, NamesKeysThatTheMethodDoesNotRead) {
  EXPECT_TRUE(Good({}).ignored.empty());
  EXPECT_TRUE(Good({{"algorithm.gamma", "0.1"}, {"algorithm.scaling", "times_n"}}).ignored.empty());
  EXPECT_EQ(Good({{"algorithm.beta", "0.3"}, {"algorithm.rho", "2"}}).ignored,
            (std::vector<std::string>{
                "algorithm.beta = 0.3: primal-dual does not read it; it is for clip21-sgd2m",
                "algorithm.rho = 2.0: primal-dual does not read it; it is for zcdp-nfl, dp-nfl, p-admm"}));
  const std::vector<std::pair<const char*, const char*>> read = {
      {"primal-dual", "gamma"},     {"isrl-dp", "local_rate"}, {"fedexp", "local_rate"},
      {"dp-fedavg", "local_rate"},  {"dpd-ef21", "gamma"},     {"clip21-sgd2m", "gamma"},
      {"zcdp-nfl", "eta"},          {"zcdp-grad-nfl", "eta"},  {"p-admm", "rho"},
      {"dp-fed-sgd", "local_rate"}, {"fcrn", "cubic"},
  };
  for (const auto& [method, key] : read) {
    Config c;
    c.algorithm.name = method;
    c.algorithm.gamma = c.algorithm.local_rate = c.algorithm.eta = c.algorithm.cubic = 0.3;
    c.algorithm.rho = 3;
    const std::vector<std::string> ignored = IgnoredKeys(c);
    EXPECT_EQ(ignored.size(), std::string_view(method) == "zcdp-nfl" ? 3u : 4u) << method;
    for (const std::string& text : ignored)
      EXPECT_FALSE(text.starts_with(std::string("algorithm.") + key + " ")) << method << ": " << text;
  }
}

TEST(Plan, WhatNothingBoundsIsCertifiedAtInfinity) {
  const Plan squares = Good(
      {{"data.source", "synthetic-linear"}, {"model.name", "least-squares"}, {"algorithm.mode", "paper"}});
  EXPECT_TRUE(std::isinf(squares.certified_epsilon));
  EXPECT_EQ(squares.claimed_epsilon, 1.0);
  EXPECT_FALSE(squares.warnings.empty());
  const Plan rows = Good({{"data.row_norm", "none"}, {"algorithm.mode", "paper"}});
  EXPECT_TRUE(std::isinf(rows.certified_epsilon));
  const Plan exposed = Good({{"privacy.mechanism", "expose"}});
  EXPECT_TRUE(std::isinf(exposed.certified_epsilon));
  EXPECT_TRUE(std::isinf(exposed.EpsilonAfter(0)));
  const Plan long_rows = Good({{"data.row_bound", "3"}, {"algorithm.mode", "paper"}});  // B = 1 is not true
  EXPECT_GT(long_rows.certified_epsilon, 2);
  const Plan clipped = Good({{"data.source", "synthetic-linear"}, {"model.name", "least-squares"}});
  EXPECT_LE(clipped.certified_epsilon, 1);
}

TEST(Plan, BadConfigsAreSentences) {
  const struct {
    const char* why;
    std::vector<Assignment> sets;
    const char* message;
  } kCases[] = {
      {"more clients than rows",
       {{"data.clients", "3000"}},
       "data.clients = 3000: more clients than the 2000 rows; lower it"},
      {"too many rows each",
       {{"data.rows_per_client", "101"}},
       "data.rows_per_client = 101: 20 clients would need 2020 rows and there are 2000"},
      {"no source", {{"data.source", "\"\""}}, "data.source is not set: give a name"},
      {"a file of unknown shape",
       {{"data.source", "some.csv"}, {"data.rows", "0"}},
       "set data.rows and data.features"},
      {"nothing left",
       {{"data.source", "a6a"}, {"data.skip", "1000000000"}, {"data.rows", "0"}},
       "data.skip = 1000000000: leaves nothing"},
      {"softmax of one class",
       {{"model.name", "softmax"}, {"model.classes", "1"}},
       "model.classes = 1: softmax needs"},
      {"a step that cannot contract",
       {{"algorithm.gamma", "50"}, {"algorithm.scaling", "times_n"}, {"algorithm.factor", "printed"}},
       "algorithm.gamma = 50: with strong convexity 0.1 the method does not contract"},
      {"a huge step", {{"algorithm.gamma", "1e300"}}, "does not contract"},
      {"a factor of zero",
       {{"algorithm.gamma", "1"}, {"algorithm.strong_convexity", "1"}},
       "does not contract"},
      {"a cap below the static noise",
       {{"algorithm.allocation", "static"}, {"algorithm.variance_cap", "1"}},
       "algorithm.variance_cap = 1: a static allocation needs variance"},
      {"a cap below the dynamic noise", {{"algorithm.variance_cap", "1"}}, "algorithm.variance_cap = 1"},
      {"sums beside tiny noise", {{"privacy.epsilon", "1e20"}}, "lower privacy.clip or privacy.epsilon"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    EXPECT_NE(Why(c.sets).find(c.message), std::string::npos) << Why(c.sets);
  }
}

TEST(Plan, ExtremesOfTheOptionsNeverAbort) {
  for (const char* epsilon : {"1e-300", "1e-6", "1e4", "1e100"})
    for (const char* clip : {"1e-100", "1", "1e100"})
      for (const char* mode : {"certified", "paper"})
        for (const char* rounds : {"1", "200000"})
          static_cast<void>(Planned({{"privacy.epsilon", epsilon},
                                     {"privacy.clip", clip},
                                     {"algorithm.mode", mode},
                                     {"algorithm.rounds", rounds},
                                     {"algorithm.gamma", "0.25"},
                                     {"algorithm.strong_convexity", "0.1"}})
                                .ok());
  for (const char* delta : {"1e-300", "0.999999"})
    static_cast<void>(Planned({{"privacy.delta", delta}}).ok());
  for (const char* bound : {"1e-100", "1e100"})
    static_cast<void>(Planned({{"data.row_bound", bound}, {"algorithm.mode", "paper"}}).ok());
  static_cast<void>(Planned({{"model.l2", "1e300"}}).ok());
}

TEST(Plan, CapHoldsForTheRoundsThatRun) {  // but for what the lattice costs
  const Plan p = Good({{"algorithm.variance_cap", "2e5"},
                       {"algorithm.strong_convexity", "0.1"},
                       {"algorithm.gamma", "0.25"}});
  for (const PlannedRound& r : p.schedule) EXPECT_LE(r.sigma * r.sigma, 2e5 * (1 + 1e-5));
}

}  // namespace
}  // namespace tacit
