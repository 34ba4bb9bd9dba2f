#include "models/regularizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/test_data.h"

namespace tacit {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::unique_ptr<Regularizer> Make(const PenaltyOptions& o) {
  auto made = MakeRegularizer(o);
  EXPECT_TRUE(made.ok());
  return *std::move(made);
}

Vec Prox(const Regularizer& g, double step, Vec x) {
  g.Prox(step, x);
  return x;
}

double Length(const Vec& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

double Gap(Vec x, const Vec& y) {
  for (std::size_t j = 0; j < y.size(); ++j) x[j] -= y[j];
  return Length(x);
}

TEST(Prox, ThresholdIsStepTimesWeightThenTheBox) {
  const auto g = Make({.name = Penalty::kL1Box, .weight = 0.01, .radius = 10});
  const Vec u = Prox(*g, 0.0125, {0.5, -20});
  EXPECT_NEAR(u[0], 0.499875, 1e-15);
  EXPECT_EQ(u[1], -10);
}

TEST(Prox, Tables) {
  const Vec weights = {0.0, 1.0, 3.0};
  const struct {
    const char* why;
    PenaltyOptions o;
    double step;
    Vec in, out;
  } cases[] = {
      {"none leaves it", {.name = Penalty::kNone, .weight = 1}, 1, {1, -2}, {1, -2}},
      {"l1 shrinks", {.name = Penalty::kL1, .weight = 0.5}, 1, {2, -2, 0.25}, {1.5, -1.5, 0}},
      {"l1 at the threshold is zero", {.name = Penalty::kL1, .weight = 0.5}, 1, {0.5, -0.5}, {0, 0}},
      {"own weights", {.name = Penalty::kL1, .weights = weights}, 1, {2, 2, 2}, {2, 1, 0}},
      {"shrink before clamp",
       {.name = Penalty::kL1Box, .weight = 1, .radius = 1},
       1,
       {1.5, 3, -9},
       {0.5, 1, -1}},
      {"box ignores the weight", {.name = Penalty::kBox, .weight = 1, .radius = 1}, 1, {0.5, 3}, {0.5, 1}},
      {"inside the ball", {.name = Penalty::kL2Ball, .radius = 5}, 1, {3, 4}, {3, 4}},
      {"outside the ball", {.name = Penalty::kL2Ball, .radius = 5}, 1, {6, 8}, {3, 4}},
      {"infinity lands on the face",
       {.name = Penalty::kBox, .radius = 2},
       1,
       {kInfinity, -kInfinity},
       {2, -2}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.why);
    const Vec u = Prox(*Make(c.o), c.step, c.in);
    for (std::size_t j = 0; j < u.size(); ++j) EXPECT_NEAR(u[j], c.out[j], 1e-15);
  }
  const Vec far = Prox(*Make({.name = Penalty::kL2Ball, .radius = 1}), 1, {3e300, 4e300});
  EXPECT_NEAR(far[0], 0.6, 1e-15);
  EXPECT_NEAR(far[1], 0.8, 1e-15);
}

// step·g(u) + ½‖u − z‖² over a fine grid: no point of it beats the prox.
TEST(Prox, NoPointOfAGridIsBetter) {
  const PenaltyOptions all[] = {{.name = Penalty::kNone},
                                {.name = Penalty::kL1, .weights = {0.3, 0.9}},
                                {.name = Penalty::kL1Box, .radius = 0.8, .weights = {0.3, 0.9}},
                                {.name = Penalty::kBox, .radius = 0.8},
                                {.name = Penalty::kL2Ball, .radius = 0.8},
                                {.name = Penalty::kElasticNet, .weights = {0.3, 0.9}, .ridge = 0.7},
                                {.name = Penalty::kL1Ball, .radius = 0.8},
                                {.name = Penalty::kGroupLasso, .weight = 0.4, .group_size = 2},
                                {.name = Penalty::kGroupLasso, .weights = {0.3, 0.9}, .groups = {1, 0}}};
  for (const PenaltyOptions& o : all) {
    const auto g = Make(o);
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const Vec z = test::RandomVec(2, 1.0, 300 + seed);
      for (const double step : {0.1, 1.0}) {
        const Vec u = Prox(*g, step, z);
        const double best = step * g->Value(u) + 0.5 * DistanceSquared(u, z);
        ASSERT_TRUE(std::isfinite(best));
        for (int a = -120; a <= 120; ++a)
          for (int b = -120; b <= 120; ++b) {
            const Vec v = {a * 0.025, b * 0.025};
            ASSERT_GE(step * g->Value(v) + 0.5 * DistanceSquared(v, z), best - 1e-12);
          }
      }
    }
  }
}

// The same where a grid of the plane would miss the set.
TEST(Prox, NoPointOfTheSimplexIsBetter) {
  const auto g = Make({.name = Penalty::kSimplex, .radius = 1.5});
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Vec z = test::RandomVec(3, seed % 3 == 0 ? 5.0 : 0.7, 400 + seed);
    const Vec u = Prox(*g, 1.0, z);
    ASSERT_EQ(g->Value(u), 0);
    for (int a = 0; a <= 100; ++a)
      for (int b = 0; a + b <= 100; ++b) {
        const Vec v = {1.5 * a / 100, 1.5 * b / 100, 1.5 * (100 - a - b) / 100};
        ASSERT_GE(Gap(v, z), Gap(u, z) - 1e-12);
      }
  }
}

TEST(Prox, IsOptimalByTheResidual) {
  std::vector<std::uint32_t> groups(40);
  for (std::size_t j = 0; j < groups.size(); ++j) groups[j] = static_cast<std::uint32_t>(j * 7 % 40 / 6);
  const PenaltyOptions all[] = {
      {.name = Penalty::kNone},
      {.name = Penalty::kL1, .weight = 0.5},
      {.name = Penalty::kL1Box, .weight = 0.5, .radius = 1},
      {.name = Penalty::kL2Ball, .radius = 2},
      {.name = Penalty::kElasticNet, .weight = 0.5, .ridge = 3},
      {.name = Penalty::kL1Ball, .radius = 3},
      {.name = Penalty::kL1Ball, .radius = 1e-9},
      {.name = Penalty::kSimplex, .radius = 3},
      {.name = Penalty::kSimplex, .radius = 1e3},
      {.name = Penalty::kGroupLasso, .weight = 0.5, .group_size = 7},
      {.name = Penalty::kGroupLasso, .weight = 0.5, .groups = groups},
  };
  for (const PenaltyOptions& o : all) {
    SCOPED_TRACE(static_cast<int>(o.name));
    const auto g = Make(o);
    for (std::uint64_t seed = 0; seed < 20; ++seed)
      for (const double step : {0.25, 2.0}) {
        const Vec z = test::RandomVec(40, 2.0, 500 + seed);
        const Vec u = Prox(*g, step, z);
        Vec slope = u;   // the smooth part's gradient at u
        Axpy(-1.0, z, slope);
        Scale(1.0 / step, slope);
        EXPECT_LE(g->Residual(u, slope), 1e-12 * (1 + std::abs(u[0])));
        EXPECT_EQ(g->Value(u) < kInfinity, true);
        EXPECT_LE(Length(u), g->DomainRadius(40) * (1 + 1e-12));
        const Vec again = Prox(*g, 0.0, u);   // projections are idempotent
        EXPECT_LE(Gap(again, u), 1e-12 * (1 + Length(u)));
      }
  }
}

TEST(Prox, HugeAndInfiniteEntriesStillLandOnTheSet) {
  const auto ball = Make({.name = Penalty::kL1Ball, .radius = 2});
  EXPECT_EQ(Prox(*ball, 1, {1e308, -1e308, 1e308, 3}), (Vec{2.0 / 3, -2.0 / 3, 2.0 / 3, 0}));
  EXPECT_EQ(Prox(*ball, 1, {kInfinity, 1, -kInfinity}), (Vec{1, 0, -1}));
  EXPECT_EQ(Prox(*ball, 1, {0.5, -1.5}), (Vec{0.5, -1.5}));
  EXPECT_TRUE(std::isnan(Prox(*ball, 1, {kNan, 1})[0]));
  const auto simplex = Make({.name = Penalty::kSimplex, .radius = 2});
  EXPECT_EQ(Prox(*simplex, 1, {-1e308, 1e308, 0}), (Vec{0, 2, 0}));
  EXPECT_EQ(Prox(*simplex, 1, {-kInfinity, 1, 1}), (Vec{0, 1, 1}));
  EXPECT_EQ(Prox(*simplex, 1, {-7}), (Vec{2}));
  EXPECT_EQ(Prox(*simplex, 1, {}), (Vec{}));
}

// x is optimal for a linear function ⟨c, ·⟩ + g iff x = prox(x − c): Residual must agree.
TEST(Residual, IsZeroExactlyAtFixedPointsOfTheProxStep) {
  const struct {
    const char* why;
    PenaltyOptions o;
    Vec x, gradient;
    double residual;
  } cases[] = {
      {"none: the gradient itself", {.name = Penalty::kNone}, {1, 2}, {0.5, -3}, 3},
      {"l1: balanced by the sign", {.name = Penalty::kL1, .weight = 1}, {2, -2}, {-1, 1}, 0},
      {"l1: the wrong sign", {.name = Penalty::kL1, .weight = 1}, {2}, {1}, 2},
      {"l1: at zero the interval", {.name = Penalty::kL1, .weight = 1}, {0, 0}, {0.9, -1}, 0},
      {"l1: at zero beyond it", {.name = Penalty::kL1, .weight = 1}, {0}, {1.5}, 0.5},
      {"box: inside", {.name = Penalty::kBox, .radius = 1}, {0.5}, {0.25}, 0.25},
      {"box: the descent points outward", {.name = Penalty::kBox, .radius = 1}, {1, -1}, {-7, 7}, 0},
      {"box: the descent points inward", {.name = Penalty::kBox, .radius = 1}, {1, -1}, {0.25, -0.5}, 0.5},
      {"l1 box: face needs more than the weight",
       {.name = Penalty::kL1Box, .weight = 1, .radius = 1},
       {1},
       {-1.5},
       0},
      {"l1 box: face with less than the weight",
       {.name = Penalty::kL1Box, .weight = 1, .radius = 1},
       {1},
       {-0.75},
       0.25},
      {"ball: inside", {.name = Penalty::kL2Ball, .radius = 2}, {1, 1}, {0.5, -0.25}, 0.5},
      {"ball: outward normal", {.name = Penalty::kL2Ball, .radius = 5}, {3, 4}, {-6, -8}, 0},
      {"ball: inward", {.name = Penalty::kL2Ball, .radius = 5}, {3, 4}, {3, 4}, 4},
      {"ball: tangential part remains", {.name = Penalty::kL2Ball, .radius = 5}, {5, 0}, {-2, 1}, 1},
      {"elastic net: balanced",
       {.name = Penalty::kElasticNet, .weight = 1, .ridge = 2},
       {2, -1, 0},
       {-5, 3, 0.5},
       0},
      {"elastic net: at zero beyond",
       {.name = Penalty::kElasticNet, .weight = 1, .ridge = 2},
       {0},
       {1.5},
       0.5},
      {"l1 ball: inside", {.name = Penalty::kL1Ball, .radius = 4}, {1, 1}, {0.5, -0.25}, 0.5},
      {"l1 ball: outward", {.name = Penalty::kL1Ball, .radius = 4}, {1, -3, 0}, {-2, 2, 1.5}, 0},
      {"l1 ball: unequal pull", {.name = Penalty::kL1Ball, .radius = 4}, {1, -3}, {-2, 1}, 0.5},
      {"l1 ball: inward", {.name = Penalty::kL1Ball, .radius = 4}, {1, -3}, {2, -2}, 2},
      {"l1 ball: a zero wants in", {.name = Penalty::kL1Ball, .radius = 1}, {1, 0}, {-1, 3}, 1},
      {"l1 ball: outside", {.name = Penalty::kL1Ball, .radius = 1}, {1, 1}, {0, 0}, kInfinity},
      {"simplex: level", {.name = Penalty::kSimplex, .radius = 4}, {1, 3, 0}, {7, 7, 9}, 0},
      {"simplex: a zero wants in", {.name = Penalty::kSimplex, .radius = 4}, {4, 0}, {7, 5}, 1},
      {"simplex: not on it", {.name = Penalty::kSimplex, .radius = 4}, {1, 1}, {0, 0}, kInfinity},
      {"simplex: negative", {.name = Penalty::kSimplex, .radius = 4}, {5, -1}, {0, 0}, kInfinity},
      {"group: balanced",
       {.name = Penalty::kGroupLasso, .weights = {5}, .group_size = 2},
       {3, 4},
       {-3, -4},
       0},
      {"group: zeros hold",
       {.name = Penalty::kGroupLasso, .weights = {5}, .group_size = 2},
       {0, 0},
       {3, 4},
       0},
      {"group: zeros give",
       {.name = Penalty::kGroupLasso, .weights = {5}, .group_size = 2},
       {0, 0},
       {6, 8},
       4},
      {"group: NaN",
       {.name = Penalty::kGroupLasso, .weight = 1, .group_size = 2},
       {0, kNan},
       {0, 0},
       kInfinity},
      {"box: outside", {.name = Penalty::kBox, .radius = 1}, {1.5}, {0}, kInfinity},
      {"ball: outside", {.name = Penalty::kL2Ball, .radius = 1}, {1.5}, {0}, kInfinity},
      {"NaN gradient", {.name = Penalty::kL1, .weight = 1}, {0, 1}, {kNan, -1}, kInfinity},
      {"NaN point", {.name = Penalty::kBox, .radius = 1}, {kNan}, {0}, kInfinity},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.why);
    const auto g = Make(c.o);
    EXPECT_DOUBLE_EQ(g->Residual(c.x, c.gradient), c.residual);
    Vec moved = c.x;
    Axpy(-1.0, c.gradient, moved);
    g->Prox(1.0, moved);
    if (!std::isfinite(c.residual)) continue;
    EXPECT_EQ(DistanceSquared(moved, c.x) < 1e-28, c.residual == 0);
  }
}

TEST(Regularizer, ValueAndDomain) {
  const auto l1 = Make({.name = Penalty::kL1, .weights = {1, 2}});
  EXPECT_DOUBLE_EQ(l1->Value(Vec{3, -4}), 11);
  EXPECT_EQ(l1->DomainRadius(2), kInfinity);
  const auto box = Make({.name = Penalty::kL1Box, .weight = 0.5, .radius = 2});
  EXPECT_DOUBLE_EQ(box->Value(Vec{2, -2}), 2);
  EXPECT_EQ(box->Value(Vec{2.1, 0}), kInfinity);
  EXPECT_EQ(box->Value(Vec{kNan, 0}), kInfinity);
  EXPECT_EQ(box->DomainRadius(4), 4);
  EXPECT_GE(static_cast<long double>(box->DomainRadius(3)), 2 * std::sqrt(3.0L));
  EXPECT_EQ(Make({.name = Penalty::kNone})->DomainRadius(3), kInfinity);
  const auto ball = Make({.name = Penalty::kL2Ball, .radius = 3});
  EXPECT_EQ(ball->DomainRadius(100), 3);
  EXPECT_EQ(ball->Value(Vec{1, 1}), 0);
  EXPECT_EQ(ball->Value(Vec{3, 1}), kInfinity);
  EXPECT_FALSE(ball->Separable());
  const auto net = Make({.name = Penalty::kElasticNet, .weight = 2, .ridge = 3});
  EXPECT_DOUBLE_EQ(net->Value(Vec{1, -2}), 6 + 7.5);
  EXPECT_EQ(net->DomainRadius(2), kInfinity);
  const auto group = Make({.name = Penalty::kGroupLasso, .weight = 2, .group_size = 4});
  EXPECT_DOUBLE_EQ(group->Value(Vec{1, 1, 1, 1, -3}), 2 * 2 * 2 + 2 * 3);   // ω √|G| ‖x_G‖
  EXPECT_EQ(group->Value(Vec{kNan, 1, 1, 1, -3}), kInfinity);
  EXPECT_EQ(Make({.name = Penalty::kSimplex, .radius = 3})->DomainRadius(9), 3);
  EXPECT_EQ(Make({.name = Penalty::kL1Ball, .radius = 3})->DomainRadius(9), 3);
  EXPECT_EQ(box->Separable()->radius, 2);
}

TEST(Regularizer, BadNumbersAreRefusedByName) {
  const struct {
    const char* why;
    PenaltyOptions o;
    const char* says;
  } cases[] = {
      {"negative weight", {.name = Penalty::kL1, .weight = -1}, "penalty weight = -1"},
      {"NaN weight", {.name = Penalty::kL1, .weight = kNan}, "penalty weight = nan"},
      {"infinite weight", {.name = Penalty::kL1, .weight = kInfinity}, "penalty weight = inf"},
      {"one bad weight", {.name = Penalty::kL1, .weights = {1, -2}}, "penalty weights[1] = -2"},
      {"no radius", {.name = Penalty::kBox, .radius = 0}, "penalty radius = 0"},
      {"negative radius", {.name = Penalty::kL2Ball, .radius = -3}, "penalty radius = -3"},
      {"NaN radius", {.name = Penalty::kL1Box, .radius = kNan}, "penalty radius = nan"},
      {"infinite radius", {.name = Penalty::kBox, .radius = kInfinity}, "penalty radius = inf"},
      {"negative ridge", {.name = Penalty::kElasticNet, .ridge = -1}, "penalty ridge = -1"},
      {"NaN ridge", {.name = Penalty::kElasticNet, .ridge = kNan}, "penalty ridge = nan"},
      {"no group size", {.name = Penalty::kGroupLasso, .group_size = 0}, "penalty group_size = 0"},
      {"a group left out", {.name = Penalty::kGroupLasso, .groups = {0, 2, 0}}, "numbered to 2 but only 2"},
      {"a group out of range", {.name = Penalty::kGroupLasso, .groups = {0, 9}}, "penalty group 9"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.why);
    const auto made = MakeRegularizer(c.o);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, Code::kInvalidArgument);
    EXPECT_NE(made.error().message.find(c.says), std::string::npos) << made.error().message;
  }
}

TEST(Subgradient, SupportsTheFunctionAndIsZeroAtKinks) {
  const PenaltyOptions finite[] = {{},
                                   {.name = Penalty::kL1, .weight = 0.3},
                                   {.name = Penalty::kL1, .weights = {0, 1, 2, 3}},
                                   {.name = Penalty::kElasticNet, .weight = 0.2, .ridge = 0.7},
                                   {.name = Penalty::kGroupLasso, .weight = 0.5, .group_size = 2}};
  Stream rng(StreamId{8, Purpose::kTest, 0, 0});
  for (const PenaltyOptions& o : finite) {
    const auto g = *MakeRegularizer(o);
    for (int i = 0; i < 50; ++i) {
      Vec x(4), y(4), s = {1, 1, 1, 1};
      for (double& v : x) v = rng.Below(3) == 0 ? 0.0 : rng.Normal();
      for (double& v : y) v = rng.Normal();
      ASSERT_TRUE(g->AddSubgradient(2.0, x, s));
      double lower = g->Value(x);
      for (std::size_t j = 0; j < 4; ++j) {
        const double slope = (s[j] - 1) / 2;
        lower += slope * (y[j] - x[j]);
        if (o.name != Penalty::kGroupLasso && x[j] == 0) {
          EXPECT_EQ(slope, 0.0);
        }
      }
      EXPECT_GE(g->Value(y), lower - 1e-12);
    }
  }
  for (const Penalty name :
       {Penalty::kBox, Penalty::kL1Box, Penalty::kL2Ball, Penalty::kL1Ball, Penalty::kSimplex}) {
    Vec s = {5, 5};
    EXPECT_FALSE((*MakeRegularizer({.name = name, .weight = 1}))->AddSubgradient(1, Vec{0.1, 0.2}, s));
    EXPECT_EQ(s, (Vec{5, 5}));
  }
}

TEST(Ridge, IsKnownWhereThePenaltyIsSmooth) {
  EXPECT_EQ((*MakeRegularizer({}))->Ridge(), 0.0);
  EXPECT_EQ((*MakeRegularizer({.name = Penalty::kL1, .weights = {0, 0}}))->Ridge(), 0.0);
  EXPECT_EQ((*MakeRegularizer({.name = Penalty::kElasticNet, .ridge = 0.4}))->Ridge(), 0.4);
  for (const PenaltyOptions& o :
       {PenaltyOptions{.name = Penalty::kL1, .weight = 0.1},
        PenaltyOptions{.name = Penalty::kElasticNet, .weight = 0.1, .ridge = 0.4},
        PenaltyOptions{.name = Penalty::kBox}, PenaltyOptions{.name = Penalty::kL2Ball}})
    EXPECT_FALSE((*MakeRegularizer(o))->Ridge().has_value());
}

}  // namespace
}  // namespace tacit
