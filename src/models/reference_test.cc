#include "models/reference.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>

#include "models/test_data.h"
#include "models/test_problem.h"

namespace tacit {
namespace {

using test::Make;
using test::ProximalGradient;
using test::SmoothGradient;

// Unequal clients: 1/6, 2/6, 3/6 of the rows.
std::vector<Shard> ThreeClients(const Dataset& data) {
  const std::size_t n = data.rows(), a = n / 6, b = n / 2;
  return {Shard(data, 0, a), Shard(data, a, b - a), Shard(data, b, n - b)};
}

double Objective0(const Objective& f, std::span<const Shard> clients, double l2, const Regularizer& g,
                  View x) {
  Workspace ws;
  double sum = 0;
  for (const Shard& s : clients) sum += f.Value(s, x, ws) / static_cast<double>(clients.size());
  return sum + 0.5 * l2 * NormSquared(x) + g.Value(x);
}

TEST(Reference, RidgeRegressionHasAClosedForm) {
  const std::size_t m = 120, d = 17;
  const Dataset data = test::RandomData(Loss::kLeastSquares, 0, m, d, 1.0, 1);
  const auto f = MakeObjective(Loss::kLeastSquares, 0);
  const std::vector<Shard> clients = ThreeClients(data);
  const auto s = SolveReference(*f, clients, 0.1, *Make({}));
  ASSERT_TRUE(s.ok());
  Eigen::MatrixXd h = 0.1 * Eigen::MatrixXd::Identity(d, d);
  Eigen::VectorXd b = Eigen::VectorXd::Zero(d);
  for (const Shard& c : clients)
    for (std::size_t l = 0; l < c.size(); ++l) {
      const Eigen::Map<const Eigen::VectorXd> a(c.row(l).value, d);
      const double w = 1.0 / static_cast<double>(clients.size() * c.size());
      h += w * a * a.transpose();
      b += w * c.label(l) * a;
    }
  const Eigen::VectorXd x = h.ldlt().solve(b);
  for (std::size_t j = 0; j < d; ++j) EXPECT_NEAR(s->x[j], x(static_cast<Eigen::Index>(j)), 1e-11);
  EXPECT_LE(s->residual, 1e-12);
}

TEST(Reference, UnregularisedLogisticAgreesWithNewton) {
  const std::size_t d = 9;
  const Dataset data = test::RandomData(Loss::kLogistic, 0, 90, d, 1.0, 2);
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const std::vector<Shard> clients = {Shard(data, 0, 90)};
  const auto s = SolveReference(*f, clients, 0.05, *Make({}));
  ASSERT_TRUE(s.ok());
  Eigen::VectorXd x = Eigen::VectorXd::Zero(d);
  for (int k = 0; k < 30; ++k) {
    Eigen::VectorXd g = 0.05 * x;
    Eigen::MatrixXd h = 0.05 * Eigen::MatrixXd::Identity(d, d);
    for (std::size_t l = 0; l < 90; ++l) {
      const Eigen::Map<const Eigen::VectorXd> a(clients[0].row(l).value, d);
      const double y = data.label[l], p = 1 / (1 + std::exp(y * a.dot(x)));
      g -= y * p / 90 * a;
      h += p * (1 - p) / 90 * a * a.transpose();
    }
    x -= h.ldlt().solve(g);
  }
  for (std::size_t j = 0; j < d; ++j) EXPECT_NEAR(s->x[j], x(static_cast<Eigen::Index>(j)), 1e-11);
}

TEST(Reference, AgreesWithPlainProximalGradient) {
  const struct {
    const char* why;
    Loss loss;
    std::size_t classes;
    PenaltyOptions penalty;
    bool sparse;
  } cases[] = {
      {"logistic, l1 box with active faces and zeros",
       Loss::kLogistic,
       0,
       {.name = Penalty::kL1Box, .weight = 0.03, .radius = 0.15},
       true},
      {"logistic, l1 with own weights, the first free",
       Loss::kLogistic,
       0,
       {.name = Penalty::kL1, .weights = {0, .01, .02, .03, .04, .05, .5, .6}},
       false},
      {"logistic, box", Loss::kLogistic, 0, {.name = Penalty::kBox, .radius = 0.1}, true},
      {"logistic, ball on its sphere", Loss::kLogistic, 0, {.name = Penalty::kL2Ball, .radius = 0.2}, false},
      {"logistic, ball around the optimum",
       Loss::kLogistic,
       0,
       {.name = Penalty::kL2Ball, .radius = 20},
       false},
      {"least squares, l1 box",
       Loss::kLeastSquares,
       0,
       {.name = Penalty::kL1Box, .weight = 0.05, .radius = 0.1},
       false},
      {"softmax, none", Loss::kSoftmax, 4, {}, false},
      {"softmax, l1 box", Loss::kSoftmax, 4, {.name = Penalty::kL1Box, .weight = 0.01, .radius = 0.2}, true},
      {"softmax, ball", Loss::kSoftmax, 4, {.name = Penalty::kL2Ball, .radius = 0.3}, true},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.why);
    const Dataset dense = test::RandomData(c.loss, c.classes, 96, 8, 0.6, 3);
    const Dataset data = c.sparse ? test::Sparse(dense) : dense;
    const auto f = MakeObjective(c.loss, c.classes);
    const auto g = Make(c.penalty);
    const std::vector<Shard> clients = ThreeClients(data);
    const auto s = SolveReference(*f, clients, 0.1, *g);
    ASSERT_TRUE(s.ok()) << s.error().message;
    EXPECT_LE(s->residual, 1e-12);
    EXPECT_LE(g->Residual(s->x, SmoothGradient(*f, clients, 0.1, s->x)), 2e-12);  // the optimality conditions
    const Vec x = ProximalGradient(*f, clients, 0.1, *g, 0.2, 2000);
    for (std::size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(s->x[j], x[j], 1e-10);
    EXPECT_NEAR(s->value, Objective0(*f, clients, 0.1, *g, s->x), 1e-14);
    EXPECT_LE(s->value, Objective0(*f, clients, 0.1, *g, x) + 1e-14);
  }
}

// Hides second derivatives and separability, so that the accelerated method runs alone.
class FirstOrder final : public Objective {
 public:
  explicit FirstOrder(const Objective& f) : f_(f) {}
  std::size_t dim(std::size_t features) const override { return f_.dim(features); }
  double Value(const Shard& s, View x, Workspace& w) const override { return f_.Value(s, x, w); }
  void RecordNorms(const Shard& s, View x, Workspace& w, Span n) const override {
    f_.RecordNorms(s, x, w, n);
  }
  void WeightedSum(const Shard& s, View x, Workspace& w, View weight, Span g) const override {
    f_.WeightedSum(s, x, w, weight, g);
  }
  std::optional<double> RecordBound(double b) const override { return f_.RecordBound(b); }
  std::optional<double> Smoothness(double b) const override { return f_.Smoothness(b); }
  std::size_t outputs() const override { return f_.outputs(); }
  void Predict(const Shard& s, View x, Span out) const override { f_.Predict(s, x, out); }
  std::optional<double> Accuracy(const Shard& s, View x) const override { return f_.Accuracy(s, x); }

 private:
  const Objective& f_;
};

TEST(Reference, BothMethodsFindTheSamePoint) {
  const Dataset data = test::AdultLike(1200, 123, 4);
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const auto g = Make({.name = Penalty::kL1Box, .weight = 0.005, .radius = 0.4});
  const std::vector<Shard> clients = ThreeClients(data);
  const auto second = SolveReference(*f, clients, 0.01, *g);
  const auto first = SolveReference(FirstOrder(*f), clients, 0.01, *g);
  ASSERT_TRUE(second.ok() && first.ok());
  for (std::size_t j = 0; j < 123; ++j) EXPECT_NEAR(first->x[j], second->x[j], 2e-10);
  EXPECT_NEAR(first->value, second->value, 1e-14);
  EXPECT_LT(second->iterations, 30);
}

TEST(Reference, ManyFeatures) {
  const Dataset data = test::AdultLike(600, 5000, 5);
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const auto g = Make({.name = Penalty::kL1, .weight = 0.001});
  const std::vector<Shard> clients = ThreeClients(data);
  const auto s = SolveReference(*f, clients, 0.01, *g);
  ASSERT_TRUE(s.ok()) << s.error().message;
  EXPECT_LE(g->Residual(s->x, SmoothGradient(*f, clients, 0.01, s->x)), 2e-12);
}

// The size of a6a, with 20 clients.
TEST(Reference, AdultLikeToTwelveDigits) {
  const Dataset data = test::AdultLike(11220, 122, 6);
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const auto g = Make({.name = Penalty::kL1Box, .weight = 0.01, .radius = 10});
  std::vector<Shard> clients;
  for (std::size_t i = 0; i < 20; ++i) clients.emplace_back(data, i * 561, 561);
  const auto s = SolveReference(*f, clients, 0.1, *g);
  ASSERT_TRUE(s.ok()) << s.error().message;
  EXPECT_LE(g->Residual(s->x, SmoothGradient(*f, clients, 0.1, s->x)), 2e-12);
  // No neighbour is better: 1e-4 away F is higher by at least (l2/2)·1e-8.
  for (std::size_t j = 0; j < 122; j += 11)
    for (const double h : {1e-4, -1e-4}) {
      Vec y = s->x;
      y[j] += h;
      EXPECT_GT(Objective0(*f, clients, 0.1, *g, y), s->value + 0.04 * h * h);
    }
}

TEST(Reference, EmptyClientsCountWithAZeroObjective) {
  const Dataset data = test::RandomData(Loss::kLogistic, 0, 30, 4, 1.0, 7);
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const std::vector<Shard> two = {Shard(data, 0, 30), Shard(data, 0, 0)}, one = {Shard(data, 0, 30)};
  const auto a = SolveReference(*f, two, 0.1, *Make({})), b = SolveReference(*f, one, 0.2, *Make({}));
  ASSERT_TRUE(a.ok() && b.ok());  // ½ f + (0.1/2)‖x‖² has the minimiser of f + (0.2/2)‖x‖²
  for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(a->x[j], b->x[j], 1e-11);
}

TEST(Reference, WhatItCannotSolveIsAnError) {
  Dataset data = test::RandomData(Loss::kLogistic, 0, 30, 4, 1.0, 8);
  const Dataset narrow = test::RandomData(Loss::kLogistic, 0, 30, 3, 1.0, 8);
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const auto g = Make({});
  const std::vector<Shard> clients = {Shard(data, 0, 30)}, none, empty = {Shard(data, 0, 0)},
                           mixed = {Shard(data, 0, 30), Shard(narrow, 0, 30)};
  EXPECT_EQ(SolveReference(*f, none, 0.1, *g).error().code, Code::kInvalidArgument);
  EXPECT_EQ(SolveReference(*f, empty, 0.1, *g).error().code, Code::kInvalidArgument);
  EXPECT_EQ(SolveReference(*f, mixed, 0.1, *g).error().code, Code::kInvalidArgument);
  for (const double l2 : {0.0, -1.0, std::nan("")})
    EXPECT_EQ(SolveReference(*f, clients, l2, *g).error().code, Code::kInvalidArgument);
  EXPECT_EQ(SolveReference(*f, clients, 0.1, *g, {.tolerance = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(SolveReference(*f, clients, 0.1, *g, {.tolerance = 1e-30, .max_iterations = 500}).error().code,
            Code::kInternal);
  data.value[3] = std::nan("");
  EXPECT_EQ(SolveReference(*f, clients, 0.1, *g).error().code, Code::kInternal);
}

}  // namespace
}  // namespace tacit
