#include <gtest/gtest.h>

#include <cmath>

#include "models/test_data.h"
#include "privacy/mechanism.h"

namespace tacit {
namespace {

template <class V>
Vec Opened(const V& v) {
  Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
  NoiseRng rng = NoiseRng::Replayable({});
  NoiseBuffer noise;
  Released<Vec> out;
  if constexpr (std::is_same_v<V, Bounded>)
    EXPECT_TRUE(Expose().Release(v, NoiseStd{1.0}, ledger, rng, noise, out).ok());
  else
    EXPECT_TRUE(
        Expose()
            .ReleaseAsClaimed(v, NoiseStd{1.0}, {"", Epsilon{1.0}, Delta{0.0}}, ledger, rng, noise, out)
            .ok());
  return *out;
}

struct Setting {
  Dataset data;
  std::unique_ptr<Objective> f;
  Vec linear, start;
  StrongProblem problem;
  ClipSpace space;

  Setting(Loss loss, std::size_t m, std::size_t d, double kappa, std::uint64_t seed)
      : data(test::RandomData(loss, 2, m, d, 1.0, seed)),
        f(MakeObjective(loss, 2)),
        linear(test::RandomVec(d, 1.0, seed + 1)),
        start(test::RandomVec(d, 1.0, seed + 2)) {
    test::FillNorms(data);
    double longest = 0;
    for (const double n : data.norm) longest = std::max(longest, n);
    problem = {.records = static_cast<double>(m),
               .curvature = kappa,
               .linear = linear,
               .start = start,
               .row_bound = longest};
    problem.steps = StrongProblem::StepsFor(kappa, problem.Smoothness(*f));
  }
  Bounded Solve(L2Bound c) {
    return Bounded::Argmin(Private<Shard>(Shard(data, 0, data.rows())), *f, problem, c, space);
  }
};

const Loss kSmooth[] = {Loss::kLeastSquares, Loss::kLogistic, Loss::kHuber, Loss::kSmoothedHinge};

TEST(Argmin, IsWhereTheClippedGradientVanishes) {
  for (const Loss loss : kSmooth)
    for (const double clip : {0.2, 1.0, 50.0}) {
      Setting s(loss, 40, 5, 0.7, 3);
      const Vec w = Opened(s.Solve(L2Bound::Proven(clip)));
      Workspace ws;
      Vec norm(40), g(5);
      const Shard all(s.data, 0, 40);
      s.f->RecordNorms(all, w, ws, norm);
      for (double& n : norm) n = std::min(1.0, clip / n);
      s.f->WeightedSum(all, w, ws, norm, g);
      for (std::size_t j = 0; j < 5; ++j) EXPECT_NEAR(g[j] / 40 + 0.7 * w[j] - s.linear[j], 0, 1e-11);
    }
}

TEST(Argmin, OneRecordMovesItByAtMostTheSensitivityAfterAnyNumberOfSteps) {
  for (const Loss loss : kSmooth)
    for (const std::size_t steps : {1u, 2u, 7u, 500u})
      for (std::uint64_t seed = 0; seed < 12; ++seed) {
        Setting s(loss, 6, 3, 0.3, seed);
        s.problem.row_bound = 3;
        s.problem.steps = steps;
        const L2Bound c{0.5};
        const Bounded first = s.Solve(c);
        const double bound = first.Sensitivity(Adjacency::kReplaceOne).value();
        EXPECT_NEAR(bound / (2 * 0.5 / (6 * 0.3)), 1, 2e-6);
        EXPECT_NEAR(first.Sensitivity(Adjacency::kZeroOut).value() / (0.5 / (6 * 0.3)), 1, 2e-6);
        const Vec before = Opened(first);
        const Dataset other = test::RandomData(loss, 2, 1, 3, 1.0, seed + 100);
        for (const double scale : {1.0, -1.0, 3.0}) {
          for (std::size_t j = 0; j < 3; ++j) s.data.value[j] = scale * other.value[j] / 2;
          s.data.label[0] = loss == Loss::kLogistic || loss == Loss::kSmoothedHinge ? scale : 50 * scale;
          test::FillNorms(s.data);
          EXPECT_LE(std::sqrt(DistanceSquared(before, Opened(s.Solve(c)))), bound);
        }
        s.data.value[0] = std::nan("");      // the null record
        test::FillNorms(s.data);
        EXPECT_LE(std::sqrt(DistanceSquared(before, Opened(s.Solve(c)))), bound / 2);
      }
}

TEST(Argmin, TheSensitivityIsMet) {
  Setting s(Loss::kLeastSquares, 5, 1, 0.5, 1);
  s.data.value = {1, 0, 0, 0, 0};
  test::FillNorms(s.data);
  s.problem.row_bound = 1.5;
  s.problem.steps = 500;
  Vec at[2];
  for (const int k : {0, 1}) {
    s.data.label[0] = k == 0 ? 1e30 : -1e30;
    at[k] = Opened(s.Solve(L2Bound{1.0}));
  }
  EXPECT_NEAR(std::abs(at[0][0] - at[1][0]), 2 * 1.0 / (5 * 0.5), 1e-12);
}

TEST(Argmin, WhatHasNoMeasureContributesNothing) {
  const struct {
    const char* why;
    double value, label;
  } kCases[] = {{"a row that is no number", std::nan(""), 1},
                {"an infinite row", kInf, 1},
                {"a row beyond the bound", 4, 1},
                {"a label that is no number", 1, std::nan("")},
                {"an infinite label", 1, kInf},
                {"a label beyond all measure", 1, 1e300}};
  Setting none(Loss::kLeastSquares, 4, 2, 0.5, 9);
  none.problem.row_bound = 3.9;
  none.data.value[0] = none.data.value[1] = 0;
  test::FillNorms(none.data);
  const Vec want = Opened(none.Solve(L2Bound{1.0}));
  for (const auto& c : kCases) {
    Setting s(Loss::kLeastSquares, 4, 2, 0.5, 9);
    s.problem.row_bound = 3.9;
    s.problem.steps = none.problem.steps;
    s.data.value[0] = c.value;
    s.data.value[1] = 0;
    s.data.label[0] = c.label;
    test::FillNorms(s.data);
    EXPECT_EQ(Opened(s.Solve(L2Bound{1.0})), want) << c.why;
  }
}

TEST(Argmin, WhereRoundingCouldTellItStaysAtTheStart) {
  Setting s(Loss::kLogistic, 4, 2, 0.5, 9);
  s.linear = {1e30, 0};  // public: the minimiser is at 2e30, and a double there has no digit for a record
  s.problem.linear = s.linear;
  EXPECT_EQ(Opened(s.Solve(L2Bound{1.0})), s.start);
}

// The proof stands on slopes that never fall and rise by at most c per unit of margin.
TEST(Argmin, SlopesRiseAndNoFasterThanStated) {
  for (const Loss loss : kSmooth) {
    const auto f = MakeObjective(loss, 2);
    const double c = *f->Smoothness(1.0);
    Dataset one = test::RandomData(loss, 2, 1, 1, 1.0, 1);
    one.value = {1};
    test::FillNorms(one);
    const Shard shard(one, 0, 1);
    Workspace ws;
    const auto slope = [&](double x) {
      Vec at{x}, norm(1), g(1);
      f->RecordNorms(shard, at, ws, norm);
      f->WeightedSum(shard, at, ws, Vec{1.0}, g);
      return g[0];
    };
    Stream random({.seed = 7, .purpose = Purpose::kTest, .who = 0, .round = 0});
    for (int i = 0; i < 20000; ++i) {
      const double x = 12 * random.Uniform() - 6, width = std::exp2(-20 * random.Uniform());
      const double rise = (slope(x + width) - slope(x)) / width;
      ASSERT_GE(rise, -1e-9) << static_cast<int>(loss) << " at " << x;
      ASSERT_LE(rise, c * (1 + 1e-9) + 1e-9) << static_cast<int>(loss) << " at " << x;
    }
  }
}

// A comparison that only neighbours of one size pass; the size itself must not show anywhere.
TEST(Argmin, IsForNeighboursWithEquallyManyRecords) {
  Setting s(Loss::kLogistic, 6, 3, 0.5, 3);
  const Bounded w = s.Solve(L2Bound{1.0});
  EXPECT_DEATH((void)w.Sensitivity(Adjacency::kAddOrRemove), "");
  Entrusted out;
  EXPECT_DEATH(w.Entrust(out), "");
  s.data.person_bound = PersonBound::kRecords;
  EXPECT_DEATH((void)s.Solve(L2Bound{1.0}), "");
}

TEST(Argmin, StepsFollowFromTheCondition) {
  EXPECT_EQ(StrongProblem::StepsFor(1, 1), 2u);
  // (3 − 1)/(3 + 1) = ½: fifty halvings.
  EXPECT_NEAR(static_cast<double>(StrongProblem::StepsFor(1, 3)), 52, 1);
  EXPECT_GT(StrongProblem::StepsFor(1, 1000), 10000u);
}

TEST(Argmin, UnclippedItIsTheRidgeSolutionAndCostsEverything) {
  Setting s(Loss::kLeastSquares, 30, 2, 0.5, 5);
  const Unbounded v = Unbounded::Argmin(Private<Shard>(Shard(s.data, 0, 30)), *s.f, s.problem, s.space);
  EXPECT_FALSE(v.Sensitivity(Adjacency::kReplaceOne).has_value());
  const Vec w = Opened(v);
  Vec g(2);
  for (std::size_t i = 0; i < 30; ++i) {
    const View a = View(s.data.value).subspan(2 * i, 2);
    Axpy((Dot(a, w) - s.data.label[i]) / 30, a, g);
  }
  for (std::size_t j = 0; j < 2; ++j) EXPECT_NEAR(g[j] + 0.5 * w[j] - s.linear[j], 0, 1e-12);
}

}  // namespace
}  // namespace tacit
