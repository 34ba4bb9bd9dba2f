#include "models/cubic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "core/rng.h"
#include "models/test_data.h"

namespace tacit {
namespace {

Vec RandomVector(std::size_t n, std::uint64_t seed, double scale = 1) {
  Stream rng({seed, Purpose::kTest, 0, 0});
  Vec v(n);
  for (double& x : v) x = scale * rng.Normal();
  return v;
}

// Q diag(eigen) Qᵀ with a random orthogonal Q (Gram–Schmidt), and Q's columns.
struct Spectral {
  Vec h, q;
  std::size_t k;
  Vec column(std::size_t j) const {
    Vec c(k);
    for (std::size_t i = 0; i < k; ++i) c[i] = q[i * k + j];
    return c;
  }
};
Spectral WithEigenvalues(const Vec& eigen, std::uint64_t seed) {
  const std::size_t k = eigen.size();
  Spectral out{Vec(k * k), Vec(k * k), k};
  std::vector<Vec> columns;
  for (std::size_t j = 0; j < k; ++j) {
    Vec c = RandomVector(k, seed + j);
    for (int again = 0; again < 2; ++again)
      for (const Vec& other : columns) Axpy(-Dot(other, c), other, c);
    Scale(1 / Norm(c), c);
    columns.push_back(c);
    for (std::size_t i = 0; i < k; ++i) out.q[i * k + j] = c[i];
  }
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t l = 0; l < k; ++l)
      for (std::size_t j = 0; j < k; ++j) out.h[i * k + l] += eigen[j] * columns[j][i] * columns[j][l];
  return out;
}

// The conditions that characterise a global minimiser.
void ExpectMinimum(View g, View h, double m, const CubicMinimum& found, double least_eigenvalue) {
  Vec gradient(g.size());
  CubicGradient(g, h, m, found.v, gradient);
  // H itself is known to a relative 2⁻⁵² only.
  const double scale = std::max({1e-3, Norm(g), found.lambda * Norm(found.v)}),
               rounding = Norm(h) * Norm(found.v);
  EXPECT_LE(Norm(gradient), 1e-10 * scale + 1e-13 * rounding);
  EXPECT_NEAR(found.lambda, m / 2 * Norm(found.v), 1e-9 * std::max(1e-12, found.lambda));
  EXPECT_GE(found.lambda + least_eigenvalue, -1e-9 * std::abs(least_eigenvalue));
  const double value = CubicValue(g, h, m, found.v);
  for (std::uint64_t i = 0; i < 50; ++i) {
    Vec other = RandomVector(g.size(), 1000 + i, Norm(found.v) * std::exp(0.2 * static_cast<double>(i) - 5));
    EXPECT_GE(CubicValue(g, h, m, other), value - 1e-9 * (1 + std::abs(value)));
    Axpy(1.0, found.v, other);
    EXPECT_GE(CubicValue(g, h, m, other), value - 1e-9 * (1 + std::abs(value)));
  }
}

TEST(Cubic, OneDimensionHasAClosedForm) {
  // g + hv + (M/2)|v|v = 0 with v of the sign of −g: |v| = (−h + √(h² + 2M|g|))/M.
  for (const double h : {2.0, 0.0, -1.5})
    for (const double g : {0.7, -0.7, 1e-9}) {
      const double m = 3;
      const CubicMinimum found = SolveCubic(Vec{g}, Vec{h}, m);
      const double root = std::sqrt(h * h + 2 * m * std::abs(g));
      const double length = h < 0 ? (-h + root) / m : 2 * std::abs(g) / (h + root);
      EXPECT_NEAR(found.v[0], g > 0 ? -length : length, 1e-12 * length) << h << " " << g;
    }
  EXPECT_EQ(SolveCubic(Vec{0.0}, Vec{2.0}, 1.0).v[0], 0.0);
  EXPECT_TRUE(SolveCubic(Vec{}, Vec{}, 1.0).v.empty());
}

TEST(Cubic, TheMinimiserMeetsItsConditions) {
  struct Case {
    const char* name;
    Vec eigen;
    double m;
  };
  const Case cases[] = {{"convex", {0.1, 0.5, 1, 3, 7}, 2},
                        {"indefinite", {-2, -1, 0.5, 1, 4}, 0.3},
                        {"singular", {0, 0, 0, 1, 2}, 1},
                        {"negative", {-5, -4, -3, -2, -1}, 10},
                        {"badly_scaled", {-1e-6, 1e-3, 1, 1e3, 1e6}, 1e-2},
                        {"one_value", {-1, -1, -1, -1, -1}, 1}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Spectral s = WithEigenvalues(c.eigen, 7);
    const Vec g = RandomVector(c.eigen.size(), 3);
    const CubicMinimum found = SolveCubic(g, s.h, c.m);
    EXPECT_FALSE(found.hard);
    ExpectMinimum(g, s.h, c.m, found, c.eigen[0]);
  }
}

TEST(Cubic, TheHardCase) {
  const Vec eigen = {-2, -1, 0.5, 1, 4};
  const Spectral s = WithEigenvalues(eigen, 11);
  const double m = 0.5;
  {  // g = 0: any direction of the least eigenvalue, ‖v‖ = 2·2/M
    const CubicMinimum found = SolveCubic(Vec(5), s.h, m);
    EXPECT_TRUE(found.hard);
    EXPECT_NEAR(Norm(found.v), 8.0, 1e-9);
    ExpectMinimum(Vec(5), s.h, m, found, -2);
  }
  {  // g along other eigenvectors, short: still hard
    Vec g(5);
    Axpy(0.3, s.column(2), g);
    Axpy(-0.2, s.column(4), g);
    const CubicMinimum found = SolveCubic(g, s.h, m);
    EXPECT_TRUE(found.hard);
    EXPECT_GE(found.v[0], 0.0);
    ExpectMinimum(g, s.h, m, found, -2);
  }
  {  // the same, long: a root beyond −λ_min, though nothing is along the least eigenvector
    Vec g(5);
    Axpy(200, s.column(2), g);
    const CubicMinimum found = SolveCubic(g, s.h, m);
    EXPECT_FALSE(found.hard);
    EXPECT_GT(found.lambda, 2.0);
    ExpectMinimum(g, s.h, m, found, -2);
  }
  {  // nearly hard: a part along the least eigenvector that is small, and not nothing
    Vec g(5);
    Axpy(1e-7, s.column(0), g);
    Axpy(0.3, s.column(2), g);
    ExpectMinimum(g, s.h, m, SolveCubic(g, s.h, m), -2);
  }
}

TEST(Gm, WeightsOfTheMeanAreThoseOfThePaper) {      // τ = 5: 1/15 … 5/15 on θ_0 … θ_4
  GmState state;
  state.Start(1);
  const Vec x = {0.0};
  std::vector<double> visited = {0.0};
  for (int s = 0; s < 4; ++s) {
    GmStep(Vec{1.0 - 3.0 * s}, x, {.curvature = 0.7}, state);
    visited.push_back(state.v[0]);
  }
  double mean = 0;
  for (std::size_t s = 0; s < 5; ++s) mean += (static_cast<double>(s) + 1) / 15 * visited[s];
  EXPECT_NEAR(state.mean[0], mean, 1e-14);
  // As printed, ρ_s = 2/(s + 1), the mean is another one: the weight of θ_1 wipes out that of θ_0.
  double printed = visited[0];
  for (std::size_t s = 1; s < 5; ++s) printed += 2.0 / (static_cast<double>(s) + 1) * (visited[s] - printed);
  EXPECT_GT(std::abs(printed - mean), 0.01);
}

TEST(Gm, OneIterationReturnsWhereItStarted) {      // τ = 1: no step enters the mean
  GmState state;
  GmSolveRecord(Vec{1, 2}, -0.5, 0.25, Vec{0.1, 0.2}, {.curvature = 0.1}, 1, state);
  EXPECT_EQ(state.mean, Vec(2));
}

TEST(Gm, ReachesTheExactMinimiser) {
  const Spectral s = WithEigenvalues({0.5, 0.8, 1, 2, 3}, 5);
  const Vec g = RandomVector(5, 9), x(5);
  const double m = 1.5;
  const CubicMinimum exact = SolveCubic(g, s.h, m);
  Vec r(5);
  double before = 1e9;
  for (const std::uint32_t steps : {100u, 1000u, 10000u}) {
    GmState state;
    state.Start(5);
    for (std::uint32_t k = 0; k < steps; ++k) {
      for (std::size_t i = 0; i < 5; ++i) {
        r[i] = g[i];
        for (std::size_t j = 0; j < 5; ++j) r[i] += s.h[i * 5 + j] * state.v[j];
      }
      GmStep(r, x, {.curvature = 0.5, .cubic = m, .box = 3}, state);      // first steps overshoot
    }
    const double error = std::sqrt(DistanceSquared(state.mean, exact.v));
    EXPECT_LT(error, 0.2 * before);      // at least 1/τ in distance here
    before = error;
  }
  EXPECT_LT(before, 1e-4);
}

TEST(Gm, TheBoxHolds) {
  GmState state;
  state.Start(2);
  const Vec x = {0.4, -0.5};
  GmStep(Vec{-100, -100}, x, {.curvature = 0.01, .box = 0.5}, state);
  EXPECT_DOUBLE_EQ(state.v[0], 0.1);
  EXPECT_DOUBLE_EQ(state.v[1], 1.0);
}

// Records that differ only where the mask is not, and what the cubic term makes of it where the mask is: the
// sensitivity that the paper derives for a sparsified solver does not hold.
TEST(Gm, TheCubicTermCarriesWhatIsNotSelected) {
  const double width = 1, h = 0.01, m = 10, a = 0.1 / std::sqrt(2.0);
  const Vec x = {-0.5, -0.5};
  const auto selected = [&](double other) {
    GmState state;
    state.Start(2);
    GmStep(Vec{-a, other}, x, {.curvature = h, .box = 0.5}, state);
    return -a + h * state.v[0] + m / 2 * Norm(state.v) * state.v[0];
  };
  EXPECT_NEAR(selected(a), 4.93928932, 1e-8);
  EXPECT_NEAR(selected(-a), 7.01035713, 1e-8);
  EXPECT_NEAR(selected(-a) - selected(a), 2.07106781, 1e-8);
  const double g2 = h * std::sqrt(2.0), diameter = width * std::sqrt(2.0);
  EXPECT_NEAR(2 * std::sqrt(0.5) * (0.1 + g2 * diameter), 0.169705627, 1e-9);      // (6)
}

TEST(Gm, ThePlaneHoldsTheIteratesOfOneRecord) {
  const std::size_t k = 37;
  const Vec a = RandomVector(k, 1, 0.3), x = RandomVector(k, 2, 0.02);
  for (const double box : {std::numeric_limits<double>::infinity(), 5.0, 0.05})
    for (const double l2 : {0.0, 0.01})
      for (const std::uint32_t tau : {2u, 3u, 50u}) {
        const GmOptions o{.curvature = 0.5, .cubic = 0.1, .l2 = l2, .box = box};
        GmState one, all;
        GmSolveRecord(a, -0.4, 0.24, x, o, tau, one);
        all.Start(k);
        Vec r(k);
        for (std::uint32_t s = 0; s + 1 < tau; ++s) {
          const double c = -0.4 + 0.24 * Dot(a, all.v);
          for (std::size_t j = 0; j < k; ++j) r[j] = c * a[j];
          GmStep(r, x, o, all);
        }
        EXPECT_EQ(one.s, all.s);
        EXPECT_LE(std::sqrt(DistanceSquared(one.mean, all.mean)), 1e-12 * (1 + Norm(all.mean)));
        EXPECT_LE(std::sqrt(DistanceSquared(one.v, all.v)), 1e-12 * (1 + Norm(all.v)));
      }
}

class QuadraticModels : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, QuadraticModels, testing::Values(false, true), [](const auto& instance) {
  return std::string(instance.param ? "sparse" : "dense");
});

TEST_P(QuadraticModels, AreTheModelsOfTheObjective) {
  const std::size_t rows = 40, d = 9;
  const Dataset dense = test::RandomData(Loss::kLogistic, 2, rows, d, 0.6, 4);
  const Dataset data = GetParam() ? test::Sparse(dense) : dense;
  const Shard shard(data, 5, 30);
  const auto f = MakeObjective(Loss::kLogistic, 2);
  const Vec x = RandomVector(d, 6), all_v = RandomVector(d, 8, 0.3);
  const std::vector<std::vector<std::uint32_t>> masks = {{}, {0, 3, 4, 8}, {7}};
  for (const auto& mask : masks) {
    const std::size_t k = mask.empty() ? d : mask.size();
    std::vector<std::uint32_t> sample = {0, 7, 8, 29};
    Quadratics q;
    MakeQuadratics(shard, q, sample, *f, x, mask);
    ASSERT_EQ(q.size(), 4u);
    Vec v(k);
    for (std::size_t j = 0; j < k; ++j) v[j] = all_v[mask.empty() ? j : mask[j]];
    // By the objective: gradient and Hessian of the picked rows.
    Workspace ws;
    const Shard picked = shard.Pick(sample);
    Vec norm(4), one(4, 1.0), g(d), h(d * d);
    f->RecordNorms(picked, x, ws, norm);
    f->WeightedSum(picked, x, ws, one, g);
    ASSERT_TRUE(f->AddHessian(picked, x, ws, 1.0, h));
    Vec coefficient(4), norms(4), sum(k), packed(PackedSize(k)), full(k * k);
    q.Gradients(v, coefficient, norms);
    q.AddGradients(one, coefficient, sum);
    q.AddHessians(one, packed);
    Unpack(packed, k, 1.0, full);
    for (std::size_t i = 0; i < k; ++i) {
      const std::size_t at = mask.empty() ? i : mask[i];
      double expected = g[at];
      for (std::size_t j = 0; j < k; ++j) {
        const std::size_t to = mask.empty() ? j : mask[j];
        const double entry = h[std::max(at, to) * d + std::min(at, to)];
        expected += entry * v[j];
        EXPECT_NEAR(full[i * k + j], entry, 1e-12);
      }
      EXPECT_NEAR(sum[i], expected, 1e-12);
    }
    // Bounds hold record by record, and are not far off.
    Vec hessian_norms(4);
    q.HessianNorms(hessian_norms);
    for (std::size_t l = 0; l < 4; ++l) {
      Vec weight(4), term(k), hessian(PackedSize(k));
      weight[l] = 1;
      q.AddGradients(weight, coefficient, term);
      q.AddHessians(weight, hessian);
      EXPECT_GE(norms[l], Norm(term) * (1 - 1e-14));
      EXPECT_LE(norms[l], Norm(term) * (1 + 1e-12) + 1e-100);
      EXPECT_GE(hessian_norms[l], Norm(hessian) * (1 - 1e-14));
      EXPECT_LE(hessian_norms[l], Norm(hessian) * (1 + 1e-12) + 1e-100);
    }
  }
}

TEST(QuadraticModel, RowsThatCannotBeMeasuredAreZero) {
  Dataset data = test::RandomData(Loss::kLeastSquares, 0, 4, 3, 1.0, 4);
  data.value[0] = std::numeric_limits<double>::infinity();
  data.value[4] = std::numeric_limits<double>::quiet_NaN();
  data.value[6] = 1e200;
  data.label[3] = std::numeric_limits<double>::infinity();
  const auto f = MakeObjective(Loss::kLeastSquares, 0);
  Quadratics q;
  MakeQuadratics(Shard(data, 0, 4), q, {0, 1, 2, 3}, *f, Vec(3, 0.1), {});
  Vec coefficient(4), norms(4), sum(3);
  q.Gradients(Vec(3, 1.0), coefficient, norms);
  EXPECT_EQ(norms, Vec(4));
  q.AddGradients(Vec(4, 1.0), coefficient, sum);
  EXPECT_EQ(sum, Vec(3));
}

// Rows with few entries take another way than the others, which go in blocks of 256.
TEST(QuadraticModel, HessiansOfRowsWithFewAndManyEntries) {
  const std::size_t m = 700, k = 12;
  Quadratics q;
  q.k = k;
  q.row.assign(m * k, 0.0);
  q.norm.assign(m, 1.0);
  Stream rng({.seed = 8, .purpose = Purpose::kData});
  Vec weight(m), expected(PackedSize(k));
  for (std::size_t l = 0; l < m; ++l) {
    q.slope.push_back(0);
    q.curvature.push_back(rng.Uniform());
    weight[l] = l % 7 == 0 ? 0.0 : rng.Uniform();
    for (std::size_t n = 0; n < l % (k + 1); ++n) q.row[l * k + (l + 5 * n) % k] = rng.Normal();
    std::size_t at = 0;
    for (std::size_t i = 0; i < k; ++i)
      for (std::size_t j = 0; j <= i; ++j, ++at)
        expected[at] +=
            (i == j ? 1 : std::sqrt(2.0)) * weight[l] * q.curvature[l] * q.row[l * k + i] * q.row[l * k + j];
  }
  Vec packed(PackedSize(k));
  q.AddHessians(weight, packed);
  for (std::size_t at = 0; at < packed.size(); ++at) EXPECT_NEAR(packed[at], expected[at], 1e-11);
}

TEST(QuadraticModel, OnlySmoothModelsOfOneMarginHaveThem) {
  for (const Loss loss : {Loss::kLogistic, Loss::kLeastSquares, Loss::kHuber, Loss::kSmoothedHinge})
    EXPECT_TRUE((*MakeObjective(ModelSpec{.loss = loss}))->has_curvatures());
  EXPECT_FALSE(MakeObjective(Loss::kSoftmax, 3)->has_curvatures());
  EXPECT_FALSE(MakeObjective(Loss::kHinge, 2)->has_curvatures());
  EXPECT_FALSE(MakeObjective(Loss::kSoftmax, 3)->HessianSmoothness(1.0).has_value());
  EXPECT_NEAR(*MakeObjective(Loss::kLogistic, 2)->HessianSmoothness(2.0), 8 / (6 * std::sqrt(3.0)), 1e-12);
  EXPECT_FALSE(MakeObjective(Loss::kLogistic, 2)->HessianSmoothness(std::numeric_limits<double>::infinity()));
}

// Newton's method with cubic regularisation on a strongly convex problem: the error falls by its square.
TEST(Cubic, NewtonConvergesQuadratically) {
  const std::size_t d = 6;
  const Dataset data = test::RandomData(Loss::kLogistic, 2, 300, d, 1.0, 12);
  const Shard shard(data, 0, 300);
  const auto f = MakeObjective(Loss::kLogistic, 2);
  std::vector<std::uint32_t> sample(300);
  std::iota(sample.begin(), sample.end(), 0u);
  const double l2 = 0.01, m = 0.1;
  Vec x(d), one(300, 1.0);
  double before = 1;
  int rounds = 0;
  for (; rounds < 15; ++rounds) {
    Quadratics q;
    MakeQuadratics(shard, q, sample, *f, x, {});
    Vec coefficient(300), norms(300), g(d), packed(PackedSize(d)), h(d * d);
    q.Gradients(Vec(d), coefficient, norms);
    q.AddGradients(one, coefficient, g);
    q.AddHessians(one, packed);
    Unpack(packed, d, 1.0 / 300, h);
    for (std::size_t j = 0; j < d; ++j) {
      g[j] = g[j] / 300 + l2 * x[j];
      h[j * d + j] += l2;
    }
    const double now = Norm(g);
    if (before < 1e-2 && now > 1e-14) {
      EXPECT_LE(now, 30 * before * before);
    }
    before = now;
    if (now < 1e-13) break;
    Axpy(1.0, SolveCubic(g, h, m).v, x);
  }
  EXPECT_LT(rounds, 12);
  EXPECT_LT(before, 1e-13);
}

}  // namespace
}  // namespace tacit
