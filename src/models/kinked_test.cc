#include "models/kinked.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/reference.h"
#include "models/test_data.h"
#include "models/test_problem.h"

namespace tacit {
namespace {

using test::Make;

TEST(Kinked, TheMedianIsTheLeastAbsoluteDeviation) {
  KinkedProblem p{.dim = 1};
  for (const double y : {3.0, -1.0, 7.5, 2.0, 100.0}) p.Add(Vec{1.0}, y, -1.0, 1.0);
  const auto s = SolveKinked(p);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->x[0], 3.0);
  EXPECT_EQ(s->residual, 0.0);
}

TEST(Kinked, AQuantileHasUnequalSlopes) {
  KinkedProblem p{.dim = 1};
  for (int i = 0; i <= 100; ++i) p.Add(Vec{1.0}, i, -0.905, 0.095);  // slopes τ − 1 and τ: the 90.5 % point
  const auto s = SolveKinked(p);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->x[0], 91.0);
}

TEST(Kinked, AMinimiserThatIsNotUniqueIsAnError) {
  KinkedProblem p{.dim = 1};
  p.Add(Vec{1.0}, 0, -1.0, 1.0);
  p.Add(Vec{1.0}, 1, -1.0, 1.0);
  EXPECT_FALSE(SolveKinked(p).ok());
  p.l2 = 0.1;  // now it is 0
  const auto s = SolveKinked(p);
  ASSERT_TRUE(s.ok());
  EXPECT_NEAR(s->x[0], 0.0, 1e-15);
  EXPECT_FALSE(SolveKinked({.dim = 2}).ok());
  p.rows[0] = std::nan("");
  EXPECT_FALSE(SolveKinked(p).ok());
}

double Value(const Objective& f, std::span<const Shard> clients, double l2, const Regularizer& g, View x) {
  Workspace ws;
  double sum = 0;
  for (const Shard& s : clients) sum += f.Value(s, x, ws) / static_cast<double>(clients.size());
  return sum + 0.5 * l2 * NormSquared(x) + g.Value(x);
}

// No point nearby is better, in random directions and along coordinates, at several distances; F is convex.
TEST(Kinked, TheReferenceSolverFindsTheMinimum) {
  const struct {
    const char* why;
    Loss loss;
    double l2, l1;
    std::size_t rows, features;
    bool sparse;
  } kCases[] = {
      {"absolute deviation", Loss::kAbsoluteDeviation, 0, 0, 300, 8, false},
      {"of the paper's size", Loss::kAbsoluteDeviation, 0, 0, 2500, 8, false},
      {"with l1", Loss::kAbsoluteDeviation, 0, 0.05, 300, 8, true},
      {"with l2", Loss::kAbsoluteDeviation, 0.1, 0, 300, 8, false},
      {"hinge with l2", Loss::kHinge, 0.1, 0, 300, 8, false},
      {"hinge with both", Loss::kHinge, 0.02, 0.01, 300, 12, true},
      {"hinge alone", Loss::kHinge, 0, 0.02, 600, 5, false},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const Dataset dense = test::RandomData(c.loss, 2, c.rows, c.features, c.sparse ? 0.5 : 1.0, 11);
    const Dataset data = c.sparse ? test::Sparse(dense) : dense;
    const std::vector<Shard> clients = {Shard(data, 0, c.rows / 3),
                                        Shard(data, c.rows / 3, c.rows - c.rows / 3)};
    const auto f = MakeObjective(c.loss, 2);
    const auto g = Make({.name = c.l1 > 0 ? Penalty::kL1 : Penalty::kNone, .weight = c.l1});
    const auto s = SolveReference(*f, clients, c.l2, *g);
    ASSERT_TRUE(s.ok()) << s.error().message;
    EXPECT_LE(s->residual, 1e-12);
    EXPECT_LT(s->iterations, 60);
    EXPECT_NEAR(s->value, Value(*f, clients, c.l2, *g, s->x), 1e-14);
    Stream rng(StreamId{5, Purpose::kTest, 0, 0});
    for (int i = 0; i < 200; ++i) {
      Vec y = s->x;
      const double h = std::pow(10.0, -1 - i % 6);
      for (double& v : y) v += h * rng.Normal();
      EXPECT_GE(Value(*f, clients, c.l2, *g, y), s->value - 1e-14);
    }
  }
}

TEST(Kinked, WhatTheReferenceSolverRefuses) {
  const Dataset data = test::RandomData(Loss::kHinge, 2, 30, 4, 1.0, 1);
  const std::vector<Shard> clients = {Shard(data, 0, 30)};
  const auto f = MakeObjective(Loss::kHinge, 2);
  EXPECT_EQ(SolveReference(*f, clients, -1, *Make({})).error().code, Code::kInvalidArgument);
  EXPECT_EQ(SolveReference(*f, clients, 0.1, *Make({.name = Penalty::kBox})).error().code,
            Code::kUnsupported);
  EXPECT_EQ(SolveReference(*f, clients, 0.1, *Make({.name = Penalty::kL2Ball})).error().code,
            Code::kUnsupported);
}

}  // namespace
}  // namespace tacit
