#include "models/objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include "data/partition.h"
#include "data/preprocess.h"
#include "models/exp.h"
#include "models/fours.h"
#include "models/rows.h"
#include "models/test_data.h"

namespace tacit {
namespace {

using test::RandomData;
using test::RandomVec;
using test::Sparse;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr double kThreshold = 0.6;   // of huber and smoothed hinge

struct Case {
  const char* name;
  Loss loss;
  std::size_t classes;
  bool sparse;
};
const Case kCases[] = {
    {"logistic_dense", Loss::kLogistic, 2, false},
    {"logistic_sparse", Loss::kLogistic, 2, true},
    {"softmax_dense", Loss::kSoftmax, 3, false},
    {"softmax_sparse", Loss::kSoftmax, 3, true},
    {"softmax_of_ten_dense", Loss::kSoftmax, 10, false},
    {"least_squares_dense", Loss::kLeastSquares, 0, false},
    {"least_squares_sparse", Loss::kLeastSquares, 0, true},
    {"absolute_deviation_dense", Loss::kAbsoluteDeviation, 0, false},
    {"absolute_deviation_sparse", Loss::kAbsoluteDeviation, 0, true},
    {"huber_dense", Loss::kHuber, 0, false},
    {"huber_sparse", Loss::kHuber, 0, true},
    {"hinge_dense", Loss::kHinge, 2, false},
    {"hinge_sparse", Loss::kHinge, 2, true},
    {"smoothed_hinge_dense", Loss::kSmoothedHinge, 2, false},
    {"smoothed_hinge_sparse", Loss::kSmoothedHinge, 2, true},
};

class Objectives : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Objective> Make() const {
    return *MakeObjective(
        ModelSpec{.loss = GetParam().loss, .classes = GetParam().classes, .threshold = kThreshold});
  }
  Dataset Data(std::size_t rows, std::size_t features, std::uint64_t seed) const {
    const Dataset dense = RandomData(GetParam().loss, GetParam().classes, rows, features, 0.4, seed);
    return GetParam().sparse ? Sparse(dense) : dense;
  }
};
INSTANTIATE_TEST_SUITE_P(, Objectives, testing::ValuesIn(kCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

Vec Gradient(const Objective& f, const Shard& shard, View x) {
  Workspace ws;
  Vec norm(shard.size()), weight(shard.size(), 1.0), g(x.size());
  f.RecordNorms(shard, x, ws, norm);
  f.WeightedSum(shard, x, ws, weight, g);
  return g;
}

TEST_P(Objectives, UnitWeightsGiveTheGradientByCentralDifferences) {
  const auto f = Make();
  // Sizes around the widths of the kernels (4, 8 and 32 features; 2, 4, 16 and 32 rows).
  for (const auto& [rows, features] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {3, 5}, {17, 7}, {70, 37}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(features));
    const Dataset data = Data(rows, features, 11);
    const Shard shard(data, 0, rows);
    Vec x = RandomVec(f->dim(features), 0.5, 12);
    const Vec g = Gradient(*f, shard, x);
    Workspace ws;
    const double m = static_cast<double>(rows), h = 1e-5;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double at = x[j];
      x[j] = at + h;
      const double up = f->Value(shard, x, ws);
      x[j] = at - h;
      const double down = f->Value(shard, x, ws);
      x[j] = at;
      EXPECT_NEAR(g[j] / m, (up - down) / (2 * h), 2e-9);
    }
  }
}

TEST_P(Objectives, HessianIsTheDerivativeOfTheGradient) {
  const auto f = Make();
  const Dataset data = Data(23, 5, 21);
  const Shard shard(data, 0, 23);
  Vec x = RandomVec(f->dim(5), 0.5, 22);
  const std::size_t n = x.size();
  Vec h(n * n, 0.0);
  Workspace ws;
  if (GetParam().loss == Loss::kAbsoluteDeviation || GetParam().loss == Loss::kHinge) {
    EXPECT_FALSE(f->AddHessian(shard, x, ws, 1.0, h));
    EXPECT_EQ(h, Vec(n * n, 0.0));
    EXPECT_FALSE(f->Smoothness(1.0));
    return;
  }
  ASSERT_TRUE(f->AddHessian(shard, x, ws, 1.0, h));
  const double step = 1e-5;
  for (std::size_t j = 0; j < n; ++j) {
    const double at = x[j];
    x[j] = at + step;
    const Vec up = Gradient(*f, shard, x);
    x[j] = at - step;
    const Vec down = Gradient(*f, shard, x);
    x[j] = at;
    for (std::size_t i = j; i < n; ++i) EXPECT_NEAR(h[i * n + j], (up[i] - down[i]) / (2 * step), 2e-8);
  }
}

// The gradient of one record, formed explicitly from the contract of the losses.
std::vector<long double> RecordGradient(const Case& c, const Shard& shard, std::size_t l, View x) {
  const std::size_t d = shard.features();
  std::vector<long double> a(d, 0.0L);
  const Row row = shard.row(l);
  for (std::size_t k = 0; k < row.size; ++k) a[row.index ? row.index[k] : k] = row.value[k];
  const std::size_t outputs = c.loss == Loss::kSoftmax ? c.classes : 1;
  std::vector<long double> z(outputs, 0.0L), g(outputs * d);
  for (std::size_t k = 0; k < outputs; ++k)
    for (std::size_t j = 0; j < d; ++j) z[k] += a[j] * x[k * d + j];
  const long double y = shard.label(l);
  std::vector<long double> s(outputs);
  if (c.loss == Loss::kLogistic) {
    s[0] = -y / (1 + std::exp(y * z[0]));
  } else if (c.loss == Loss::kLeastSquares) {
    s[0] = z[0] - y;
  } else if (c.loss == Loss::kAbsoluteDeviation) {
    s[0] = z[0] > y ? 1 : z[0] < y ? -1 : 0;
  } else if (c.loss == Loss::kHuber) {
    s[0] = std::clamp(z[0] - y, -static_cast<long double>(kThreshold), static_cast<long double>(kThreshold));
  } else if (c.loss == Loss::kHinge) {
    s[0] = y * z[0] < 1 ? -y : 0;
  } else if (c.loss == Loss::kSmoothedHinge) {
    s[0] = -y * std::clamp((1 - y * z[0]) / kThreshold, 0.0L, 1.0L);
  } else {
    long double total = 0;
    for (const long double v : z) total += std::exp(v);
    for (std::size_t k = 0; k < outputs; ++k)
      s[k] = std::exp(z[k]) / total - (static_cast<long double>(k) == y ? 1 : 0);
  }
  for (std::size_t k = 0; k < outputs; ++k)
    for (std::size_t j = 0; j < d; ++j) g[k * d + j] = s[k] * a[j];
  return g;
}

long double LongNorm(const auto& v) {
  long double sum = 0;
  for (const auto t : v) sum += static_cast<long double>(t) * t;
  return std::sqrt(sum);
}

TEST_P(Objectives, NormsBoundTheRecordsAndAreTight) {
  const auto f = Make();
  const Dataset data = Data(61, 13, 31);
  const Shard shard(data, 0, 61);
  const Vec x = RandomVec(f->dim(13), 1.0, 32);
  Workspace ws;
  Vec norm(61);
  f->RecordNorms(shard, x, ws, norm);
  for (std::size_t l = 0; l < shard.size(); ++l) {
    const long double exact = LongNorm(RecordGradient(GetParam(), shard, l, x));
    EXPECT_NEAR(norm[l], static_cast<double>(exact), 1e-12 * (1 + norm[l]));
    // The vector that is really added is bounded strictly, in more precision than it was computed with.
    Vec one(61, 0.0), g(x.size(), 0.0);
    one[l] = 1.0;
    f->WeightedSum(shard, x, ws, one, g);
    EXPECT_LE(LongNorm(g), static_cast<long double>(norm[l]));
  }
}

TEST_P(Objectives, ARecordClippedByItsNormStaysWithinTheBound) {
  const auto f = Make();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Dataset data = Data(40, 9, 100 + seed);
    const Shard shard(data, 0, 40);
    const Vec x = RandomVec(f->dim(9), seed % 2 ? 1.0 : 30.0, 200 + seed);
    Workspace ws;
    Vec norm(40);
    f->RecordNorms(shard, x, ws, norm);
    for (const double bound : {1e-3, 0.7, 1.0 / 3.0})
      for (std::size_t l = 0; l < shard.size(); ++l) {
        if (!(norm[l] > bound)) continue;
        Vec weight(40, 0.0), g(x.size(), 0.0);
        weight[l] = bound / norm[l];
        f->WeightedSum(shard, x, ws, weight, g);
        EXPECT_LE(LongNorm(g), static_cast<long double>(bound));
        EXPECT_GE(LongNorm(g), static_cast<long double>(bound) * (1 - 1e-12L));
      }
  }
}

TEST_P(Objectives, DenseAndSparseAgree) {
  const auto f = Make();
  const Dataset dense = RandomData(GetParam().loss, GetParam().classes, 45, 21, 0.3, 41);
  const Dataset sparse = Sparse(dense);
  const Vec x = RandomVec(f->dim(21), 0.7, 42);
  const Shard a(dense, 3, 40), b(sparse, 3, 40);
  Workspace ws;
  EXPECT_NEAR(f->Value(a, x, ws), f->Value(b, x, ws), 1e-12);
  EXPECT_EQ(f->Accuracy(a, x), f->Accuracy(b, x));
  const Vec ga = Gradient(*f, a, x), gb = Gradient(*f, b, x);
  for (std::size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(ga[j], gb[j], 1e-12);
  Vec pa(40 * f->outputs()), pb(40 * f->outputs());
  f->Predict(a, x, pa);
  f->Predict(b, x, pb);
  for (std::size_t k = 0; k < pa.size(); ++k) EXPECT_NEAR(pa[k], pb[k], 1e-12);
}

TEST_P(Objectives, APickIsTheShardOfThoseRows) {
  const auto f = Make();
  const Dataset data = Data(50, 11, 51);
  const Vec x = RandomVec(f->dim(11), 0.7, 52);
  const Shard whole(data, 5, 40);
  std::vector<std::uint32_t> all(40);
  for (std::uint32_t i = 0; i < 40; ++i) all[i] = i;
  EXPECT_EQ(Gradient(*f, whole.Pick(all), x), Gradient(*f, whole, x));   // bitwise
  const std::vector<std::uint32_t> one = {17};
  EXPECT_EQ(Gradient(*f, whole.Pick(one), x), Gradient(*f, Shard(data, 22, 1), x));
}

TEST_P(Objectives, TheBitsDependOnTheArgumentsAlone) {
  const auto f = Make();
  const Dataset data = Data(77, 19, 61);
  const Shard shard(data, 0, 77);
  const Vec x = RandomVec(f->dim(19), 0.7, 62);
  const Vec expected = Gradient(*f, shard, x);
  std::vector<Vec> got(4);
  std::vector<std::thread> threads;
  for (Vec& g : got) threads.emplace_back([&] { g = Gradient(*f, shard, x); });
  for (std::thread& t : threads) t.join();
  for (const Vec& g : got) EXPECT_EQ(g, expected);
  // Another alignment of the same rows, and a workspace that has seen other work.
  Dataset shifted = data;
  shifted.value.insert(shifted.value.begin(), GetParam().sparse ? 1 : 19, 1.0);
  shifted.label.insert(shifted.label.begin(), 0.0);
  shifted.norm = {1.0};
  shifted.norm.Append(data.norm);
  if (GetParam().sparse) {
    shifted.column.insert(shifted.column.begin(), 0);
    for (std::uint64_t& b : shifted.row_begin) ++b;
    shifted.row_begin.insert(shifted.row_begin.begin(), 0);
  }
  EXPECT_EQ(Gradient(*f, Shard(shifted, 1, 77), x), expected);
}

TEST_P(Objectives, SecondUseDoesNotAllocate) {
  const auto f = Make();
  const Dataset data = Data(77, 19, 71);
  const Vec x = RandomVec(f->dim(19), 0.7, 72);
  Workspace ws;
  Vec norm(77), weight(77, 1.0), g(x.size());
  f->RecordNorms(Shard(data, 0, 77), x, ws, norm);
  const double* buffer = ws.a.data();
  const std::size_t capacity = ws.a.capacity();
  norm.resize(30);
  f->RecordNorms(Shard(data, 7, 30), x, ws, norm);
  f->WeightedSum(Shard(data, 7, 30), x, ws, View(weight).first(30), g);
  EXPECT_EQ(ws.a.data(), buffer);
  EXPECT_EQ(ws.a.capacity(), capacity);
}

TEST_P(Objectives, AddsToWhatIsThere) {
  const auto f = Make();
  const Dataset data = Data(9, 6, 81);
  const Shard shard(data, 0, 9);
  const Vec x = RandomVec(f->dim(6), 0.7, 82);
  Workspace ws;
  Vec norm(9), weight(9, 0.0), g(x.size(), 3.25);
  f->RecordNorms(shard, x, ws, norm);
  f->WeightedSum(shard, x, ws, weight, g);
  EXPECT_EQ(g, Vec(x.size(), 3.25));
  weight.assign(9, 1.0);
  f->WeightedSum(shard, x, ws, weight, g);
  const Vec alone = Gradient(*f, shard, x);
  for (std::size_t j = 0; j < g.size(); ++j) EXPECT_NEAR(g[j], 3.25 + alone[j], 1e-13);
}

TEST_P(Objectives, AnEmptyShardIsZero) {
  const auto f = Make();
  const Dataset data = Data(3, 4, 91);
  const Shard none(data, 1, 0);
  Workspace ws;
  const Vec x(f->dim(4), 1.0);
  EXPECT_EQ(f->Value(none, x, ws), 0.0);
  EXPECT_EQ(Gradient(*f, none, x), Vec(x.size(), 0.0));
  EXPECT_FALSE(f->Accuracy(none, x));
}

TEST_P(Objectives, ARecordThatIsNotFiniteSaysSoAndWeightZeroRemovesIt) {
  const auto f = Make();
  for (const double bad : {kNan, kInfinity, -kInfinity, 1e308}) {
    Dataset data = Data(40, 9, 101);
    const Vec x = RandomVec(f->dim(9), 1e3, 102);
    Vec expected(x.size());
    {   // the same sum without record 20
      Workspace ws;
      Vec norm(40), weight(40, 1.0);
      weight[20] = 0;
      f->RecordNorms(Shard(data, 0, 40), x, ws, norm);
      f->WeightedSum(Shard(data, 0, 40), x, ws, weight, expected);
    }
    const std::size_t first = GetParam().sparse ? data.row_begin[20] : 20 * 9;
    const std::size_t last = GetParam().sparse ? data.row_begin[21] : 21 * 9;
    ASSERT_LT(first, last);
    for (std::size_t k = first; k < last; ++k) data.value[k] = bad;
    data.norm.Set(20, std::isnan(bad) ? kNan : kInfinity);
    Workspace ws;
    Vec norm(40), weight(40, 1.0), g(x.size(), 0.0);
    f->RecordNorms(Shard(data, 0, 40), x, ws, norm);
    EXPECT_FALSE(std::isfinite(norm[20]));
    weight[20] = 0;
    f->WeightedSum(Shard(data, 0, 40), x, ws, weight, g);
    EXPECT_EQ(g, expected);
    for (std::size_t l = 0; l < 40; ++l) EXPECT_TRUE(l == 20 || std::isfinite(norm[l]));
    (void)f->Value(Shard(data, 0, 40), x, ws);
    (void)f->Accuracy(Shard(data, 0, 40), x);
  }
}

TEST_P(Objectives, AModelThatIsNotFiniteYieldsNormsThatAreNotFiniteOrHold) {
  const auto f = Make();
  const Dataset data = Data(20, 5, 111);
  const Shard shard(data, 0, 20);
  for (const double bad : {kNan, kInfinity, 1e308, -1e308}) {
    const Vec x(f->dim(5), bad);
    Workspace ws;
    Vec norm(20);
    f->RecordNorms(shard, x, ws, norm);
    for (std::size_t l = 0; l < 20; ++l) {
      Vec weight(20, 0.0), g(x.size(), 0.0);
      weight[l] = std::isfinite(norm[l]) ? 1.0 / std::max(1.0, norm[l]) : 0.0;
      f->WeightedSum(shard, x, ws, weight, g);
      EXPECT_LE(LongNorm(g), 1.0L);   // false for NaN
    }
    if (!std::isnan(bad)) continue;
    for (std::size_t l = 0; l < 20; ++l) EXPECT_EQ(std::isfinite(norm[l]), shard.row(l).size == 0);
  }
}

TEST_P(Objectives, TheRecordBoundHoldsForWhatIsComputed) {
  const auto f = Make();
  if (GetParam().loss == Loss::kLeastSquares) {
    EXPECT_FALSE(f->RecordBound(1.0));
    return;
  }
  EXPECT_FALSE(f->RecordBound(kInfinity));
  EXPECT_FALSE(f->RecordBound(kNan));
  const Dataset data = Data(200, 6, 121);
  const Shard shard(data, 0, 200);
  for (const double scale : {0.0, 1e-3, 1.0, 1e3, 1e300}) {
    const Vec x = RandomVec(f->dim(6), scale, 122);
    Workspace ws;
    Vec norm(200);
    f->RecordNorms(shard, x, ws, norm);
    for (std::size_t l = 0; l < 200; ++l) {
      if (!std::isfinite(norm[l])) continue;
      Vec weight(200, 0.0), g(x.size(), 0.0);
      weight[l] = 1.0;
      f->WeightedSum(shard, x, ws, weight, g);
      EXPECT_LE(LongNorm(g), static_cast<long double>(*f->RecordBound(data.norm[l])));
    }
  }
}

TEST(Objective, ConstantsAreThePublishedOnes) {
  const auto logistic = MakeObjective(Loss::kLogistic, 0), softmax = MakeObjective(Loss::kSoftmax, 10),
             squares = MakeObjective(Loss::kLeastSquares, 0);
  EXPECT_EQ(logistic->RecordBound(3.0), 3.0);
  EXPECT_GE(*softmax->RecordBound(3.0), 3 * std::sqrt(2.0));
  EXPECT_NEAR(*softmax->RecordBound(3.0), 3 * std::sqrt(2.0), 1e-13);
  EXPECT_EQ(logistic->Smoothness(3.0), 2.25);
  EXPECT_EQ(softmax->Smoothness(3.0), 4.5);
  EXPECT_EQ(squares->Smoothness(3.0), 9.0);
  EXPECT_GE(*squares->Smoothness(0.1), 0.1 * 0.1);
  EXPECT_FALSE(squares->Smoothness(kInfinity));
  EXPECT_EQ(logistic->dim(7), 7u);
  EXPECT_EQ(softmax->dim(7), 70u);
  EXPECT_EQ(softmax->outputs(), 10u);
}

// The a-priori bound that the privacy analysis pays for, checked against long double sums.
TEST_P(Objectives, RoundingStaysWithinGammaOfRoundings) {
  const auto f = Make();
  const std::size_t m = 3000, d = 5;
  const Dataset data = Data(m, d, 131);
  const Shard shard(data, 0, m);
  const Vec x = RandomVec(f->dim(d), 0.5, 132);
  Workspace ws;
  Vec norm(m), weight(m), g(x.size(), 0.0);
  f->RecordNorms(shard, x, ws, norm);
  for (std::size_t l = 0; l < m; ++l) weight[l] = 1.0 / (3.0 + static_cast<double>(l % 7));
  f->WeightedSum(shard, x, ws, weight, g);
  const std::size_t outputs = f->outputs();
  std::vector<long double> exact(x.size()), size(x.size());
  for (std::size_t l = 0; l < m; ++l) {
    const Row row = shard.row(l);
    for (std::size_t c = 0; c < outputs; ++c)
      for (std::size_t k = 0; k < row.size; ++k) {
        const long double term = static_cast<long double>(weight[l]) * ws.a[l * outputs + c] * row.value[k];
        const std::size_t j = c * d + (row.index ? row.index[k] : k);
        exact[j] += term;
        size[j] += std::abs(term);
      }
  }
  const long double ku = static_cast<long double>(f->Roundings(m)) * 0x1p-53L, gamma = ku / (1 - ku);
  for (std::size_t j = 0; j < x.size(); ++j) EXPECT_LE(std::abs(g[j] - exact[j]), gamma * size[j]);
}

// Sums by columns: the same terms in another order, within the bound that is paid for; what a record adds
// does not depend on the layout.
TEST(Columns, SumsAreThoseOfTheRowsWithinGamma) {
  const auto f = MakeObjective(Loss::kLogistic, 2);
  for (const bool one_valued : {true, false}) {
    SCOPED_TRACE(one_valued);
    const std::size_t m = 1000, d = 40;
    Dataset data = test::AdultLike(m, d, 7);      // 14 bands of two or three columns: few pairs
    Stream rng({.seed = 3, .purpose = Purpose::kTest});
    for (std::size_t i = 0; i < m; ++i) {
      const double v = rng.Normal();
      for (std::size_t k = data.row_begin[i]; k < data.row_begin[i + 1]; ++k)
        data.value[k] = one_valued ? v : rng.Normal();
    }
    test::FillNorms(data);
    const auto part = MakePartition({.clients = 1}, data);
    ASSERT_TRUE(part.ok());
    ASSERT_EQ(part->columns[0].value.empty(), one_valued);
    ASSERT_EQ(part->columns[0].first.empty(), !one_valued);
    const Shard by_columns(part->data, 0, m, &part->columns[0]), by_rows(part->data, 0, m);
    const Vec x = RandomVec(d, 0.5, 8);
    Workspace ws, other;
    Vec norm(m), norm_by_rows(m), weight(m), g(d, 0.25), rows(d, 0.25);
    f->RecordNorms(by_columns, x, ws, norm);
    f->RecordNorms(by_rows, x, other, norm_by_rows);
    EXPECT_EQ(norm, norm_by_rows);      // bit for bit
    for (std::size_t l = 0; l < m; ++l) {
      const std::uint32_t pick[] = {static_cast<std::uint32_t>(l)};
      Vec alone(1);
      Workspace fresh;
      f->RecordNorms(by_rows.Pick(pick), x, fresh, alone);
      ASSERT_EQ(alone[0], norm[l]) << l;      // a record's term is its own, whatever is beside it
      weight[l] = l % 5 == 0 ? 0.0 : 1.0 / (3.0 + static_cast<double>(l % 7));
    }
    ws.a[5] = kNan;      // of weight 0
    f->WeightedSum(by_columns, x, ws, weight, g);
    f->WeightedSum(by_rows, x, other, weight, rows);
    std::vector<long double> exact(d, 0.25L), size(d, 0.25L);
    for (std::size_t l = 0; l < m; ++l) {
      if (weight[l] == 0) continue;
      const Row row = by_rows.row(l);
      for (std::size_t k = 0; k < row.size; ++k) {
        const long double term = static_cast<long double>(weight[l]) * other.a[l] * row.value[k];
        exact[row.index[k]] += term;
        size[row.index[k]] += std::abs(term);
      }
    }
    const long double ku = static_cast<long double>(f->Roundings(m)) * 0x1p-53L, gamma = ku / (1 - ku);
    for (std::size_t j = 0; j < d; ++j) {
      EXPECT_LE(std::abs(g[j] - exact[j]), gamma * size[j]);
      EXPECT_LE(std::abs(rows[j] - exact[j]), gamma * size[j]);
    }
  }
}

TEST(Logistic, ExtremeMarginsHaveTheirLimits) {
  Dataset data;
  data.features = 1;
  data.value = {1, 1, 1, 1};
  data.label = {1, 1, -1, -1};
  data.norm = {1, 1, 1, 1};
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const struct {
    const char* why;
    std::size_t row;
    double x, value, gradient;
  } cases[] = {
      {"far on the right side", 0, 1e308, 0, 0},
      {"far on the wrong side", 0, -1e308, 1e308, -1},
      {"the other label", 2, 1e308, 1e308, 1},
      {"zero", 0, 0, std::log(2.0), -0.5},
      {"one", 0, 1, std::log1p(std::exp(-1.0)), -1 / (1 + std::exp(1.0))},
      {"where exp(t) overflows", 0, -800, 800, -1},
      {"where 1 + exp(−t) is 1", 0, 40, std::exp(-40.0), -std::exp(-40.0)},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.why);
    const Shard shard(data, c.row, 1);
    Workspace ws;
    EXPECT_DOUBLE_EQ(f->Value(shard, Vec{c.x}, ws), c.value);
    EXPECT_DOUBLE_EQ(Gradient(*f, shard, Vec{c.x})[0], c.gradient);
  }
}

TEST(Logistic, OtherLabelsCountAsMinusOne) {
  Dataset data;
  data.features = 1;
  data.value = {1, 1, 1};
  data.norm = {1, 1, 1};
  data.label = {-1, 0, kNan};
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const double expected = Gradient(*f, Shard(data, 0, 1), Vec{0.3})[0];
  EXPECT_EQ(Gradient(*f, Shard(data, 1, 1), Vec{0.3})[0], expected);
  EXPECT_EQ(Gradient(*f, Shard(data, 2, 1), Vec{0.3})[0], expected);
}

TEST(Softmax, TwoClassesAreLogisticRegressionOnTheDifference) {
  const Dataset data = RandomData(Loss::kLogistic, 2, 30, 4, 1.0, 141);
  Dataset classes = data;
  for (double& y : classes.label) y = y > 0 ? 1 : 0;
  const Vec x = RandomVec(8, 1.0, 142);
  Vec difference(4);
  for (std::size_t j = 0; j < 4; ++j) difference[j] = x[4 + j] - x[j];
  const auto two = MakeObjective(Loss::kSoftmax, 2), binary = MakeObjective(Loss::kLogistic, 0);
  Workspace ws;
  EXPECT_NEAR(two->Value(Shard(classes, 0, 30), x, ws), binary->Value(Shard(data, 0, 30), difference, ws),
              1e-14);
  const Vec g2 = Gradient(*two, Shard(classes, 0, 30), x),
            g1 = Gradient(*binary, Shard(data, 0, 30), difference);
  for (std::size_t j = 0; j < 4; ++j) {
    EXPECT_NEAR(g2[4 + j], g1[j], 1e-13);
    EXPECT_NEAR(g2[j], -g1[j], 1e-13);
  }
}

TEST(Softmax, LabelsOutOfRangeCountAsClassZero) {
  Dataset data;
  data.features = 1;
  data.value = {1, 1, 1, 1, 1};
  data.norm = {1, 1, 1, 1, 1};
  data.label = {0, -1, 3, 1e300, kNan};
  const auto f = MakeObjective(Loss::kSoftmax, 3);
  const Vec x = {0.1, 0.2, 0.3};
  for (std::size_t l = 1; l < 5; ++l)
    EXPECT_EQ(Gradient(*f, Shard(data, l, 1), x), Gradient(*f, Shard(data, 0, 1), x));
}

// Fours that are kept with the rows change no bit, whatever rows and x hold, where no product underflows
// (then a zero may have another sign): of shards and of parts of them.
TEST(Softmax, FoursThatAreKeptChangeNothing) {
  const auto same = [](View a, View b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
  };
  const auto same_or_none = [](View a, View b) {  // of a NaN the bits may be any
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (std::bit_cast<std::uint64_t>(a[i]) != std::bit_cast<std::uint64_t>(b[i]) &&
          !(std::isnan(a[i]) && std::isnan(b[i])))
        return false;
    return true;
  };
  Workspace ws, plain_ws;  // reused: what another case left there is of no account
  for (const std::size_t classes : {2u, 3u, 10u, 11u, 23u})
    for (const std::size_t features : {35u, 64u, 510u})
      for (const std::size_t m : {8u, 63u, 64u, 65u, 150u})
        for (const bool strange : {false, true}) {
          SCOPED_TRACE(testing::Message() << classes << ", " << m << " x " << features << ", " << strange);
          Dataset data = RandomData(Loss::kSoftmax, classes, 3 * m, features, 0.06, m + features);
          double* second = data.value.data() + m * features;
          std::fill_n(second + 3 * features, features, 0.0);
          std::fill_n(second + 5 * features, features, -0.0);
          test::FillNorms(data);
          if (strange)
            for (const auto& [l, bad] :
                 {std::pair<std::size_t, double>{1, kNan}, {2, kInfinity}, {6, -kInfinity}, {7, 1e308}}) {
              for (std::size_t j = 2 * l; j < features; j += 11) second[l * features + j] = bad;
              data.norm.Set(m + l, std::isnan(bad) ? kNan : kInfinity);
            }
          const auto f = MakeObjective(Loss::kSoftmax, classes);
          Partition p = *MakePartition({.clients = 3}, data);
          KeepEntriesFor(*f, p);
          ASSERT_NE(p.fours, nullptr);
          EXPECT_EQ(p.entries, nullptr);
          const Shard whole(p.data, m, m, nullptr, nullptr, nullptr, p.fours.get());
          ASSERT_EQ(p.fours->has[1], 1);
          std::vector<std::uint32_t> pick;
          for (std::size_t l = m; l-- > 0;)
            if (l % 3 != 2) pick.push_back(static_cast<std::uint32_t>(l));
          for (const Shard& kept : {whole, whole.Slice(1, m - 1), whole.Pick(pick)}) {
            ASSERT_NE(kept.fours(), nullptr);
            const std::size_t n = kept.size();
            const Shard bare(p.data, kept.At(0), n);
            std::vector<std::uint32_t> order;
            for (std::size_t l = 0; l < n; ++l) order.push_back(static_cast<std::uint32_t>(kept.At(l)));
            const Shard plain = kept.contiguous() ? bare : Shard(p.data, 0, 3 * m).Pick(order);
            ASSERT_EQ(plain.fours(), nullptr);
            Vec x = RandomVec(f->dim(features), 0.3, 7);
            for (const double bad : {0.0, 1e308, kInfinity, kNan}) {
              if (bad != 0) x[(classes - 1) * features + 13] = bad;  // the others' terms are 0·bad
              Vec norm_a(n), norm_b(n), weight = RandomVec(n, 1.0, 8);
              f->RecordNorms(plain, x, plain_ws, norm_a);
              f->RecordNorms(kept, x, ws, norm_b);
              ASSERT_TRUE(same_or_none(norm_a, norm_b));
              ASSERT_TRUE(same_or_none(View(plain_ws.a).first(n * classes), View(ws.a).first(n * classes)));
              Vec g_a, g_b;
              f->FormWeightedSum(plain, x, plain_ws, weight, g_a);
              f->FormWeightedSum(kept, x, ws, weight, g_b);
              ASSERT_TRUE(same_or_none(g_a, g_b));
              for (std::size_t l = 0; l < n; ++l)
                if (!std::isfinite(norm_a[l]) || l == n / 2) weight[l] = 0;
              f->FormWeightedSum(plain, x, plain_ws, weight, g_a);
              f->FormWeightedSum(kept, x, ws, weight, g_b);
              ASSERT_TRUE(same(g_a, g_b));
              ASSERT_TRUE(std::isfinite(Norm(g_a)));
              g_a = g_b = RandomVec(x.size(), 1.0, 9);
              f->WeightedSum(plain, x, plain_ws, weight, g_a);
              f->WeightedSum(kept, x, ws, weight, g_b);
              ASSERT_TRUE(same(g_a, g_b));
              // Rows that are not finite, with weights: their fours are there.
              const Vec some = RandomVec(n * classes, 1.0, 10), all(n, 1.0);
              g_a.assign(x.size(), 0.0);
              AddRows(plain, some, classes, all, g_a);
              const bool by_fours = AddRowsByFours(kept, some, classes, all, true, ws.c, g_b);
              ASSERT_EQ(by_fours, n >= 8);  // fewer are faster without
              ASSERT_TRUE(!by_fours || same_or_none(g_a, g_b));
              const double a = f->Value(plain, x, plain_ws), b = f->Value(kept, x, ws);
              ASSERT_TRUE(same_or_none(View(&a, 1), View(&b, 1)));
              ASSERT_EQ(f->Accuracy(plain, x), f->Accuracy(kept, x));
            }
          }
        }
}

TEST(Softmax, FoursAreKeptOfRowsThatAreMostlyZeros) {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  Dataset data = RandomData(Loss::kSoftmax, 3, 40, 66, 0.05, 3);
  std::fill_n(data.value.begin() + 10 * 66, 10 * 66, 0.5);
  const std::vector<std::size_t> begin = {0, 10, 20, 20, 30, 40};
  const auto kept = KeepFours(data, begin, {1, 1, 1, 0, 1}, kMost);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->has, (std::vector<std::uint8_t>{1, 0, 0, 0, 1}));
  for (std::size_t i = 0; i < 40; ++i) {
    Vec row(64);
    for (std::uint32_t k = kept->begin[i]; k < kept->begin[i + 1]; ++k)
      std::copy_n(kept->value.data() + 4 * k, 4, row.data() + 4 * kept->at[k]);
    const bool here = i < 10 || i >= 30;
    EXPECT_EQ(row, here ? Vec(data.row(i).value, data.row(i).value + 64) : Vec(64));
  }
  EXPECT_EQ(KeepFours(data, begin, {0, 1, 0, 0, 0}, kMost), nullptr) << "none is mostly zeros";
  EXPECT_EQ(KeepFours(data, begin, {1, 1, 1, 1, 1}, 1024), nullptr) << "too much memory";
  EXPECT_EQ(KeepFours(Sparse(data), begin, {1, 1, 1, 1, 1}, kMost), nullptr) << "not dense";
}

TEST(Softmax, FoursNeedNoMemoryInASecondRound) {
  const Dataset data = RandomData(Loss::kSoftmax, 10, 90, 100, 0.05, 5);
  const auto f = MakeObjective(Loss::kSoftmax, 10);
  Partition p = *MakePartition({.clients = 1}, data);
  KeepEntriesFor(*f, p);
  ASSERT_NE(p.fours, nullptr);
  const Shard shard(p.data, 0, 90, nullptr, nullptr, nullptr, p.fours.get());
  const Vec x = RandomVec(f->dim(100), 1.0, 6);
  Workspace ws;
  Vec norm(90), weight(90, 1.0), g;
  f->RecordNorms(shard, x, ws, norm);
  f->FormWeightedSum(shard, x, ws, weight, g);
  const double *a = ws.a.data(), *c = ws.c.data(), *to = g.data();
  f->RecordNorms(shard.Slice(3, 60), x, ws, Span(norm).first(60));
  f->FormWeightedSum(shard.Slice(3, 60), x, ws, View(weight).first(60), g);
  EXPECT_TRUE(a == ws.a.data() && c == ws.c.data() && to == g.data());
}

TEST(Accuracy, TiesAreDecidedAsDocumented) {
  Dataset data;
  data.features = 1;
  data.value = {0, 1, -1, 0};
  data.norm = {0, 1, 1, 0};
  data.label = {1, 1, 1, -1};
  const auto f = MakeObjective(Loss::kLogistic, 0);
  EXPECT_EQ(f->Accuracy(Shard(data, 0, 4), Vec{2.0}), 0.5);   // 0 counts as +1
  data.label = {0, 2, 0, 1};
  const auto g = MakeObjective(Loss::kSoftmax, 3);
  EXPECT_EQ(g->Accuracy(Shard(data, 0, 4), (Vec{0, 0, 1})), 0.75);   // lowest class wins
  EXPECT_FALSE(MakeObjective(Loss::kLeastSquares, 0)->Accuracy(Shard(data, 0, 4), Vec{2.0}));
}

TEST(LeastSquares, ClosedForm) {
  Dataset data;
  data.features = 2;
  data.value = {1, 2, 3, 4};
  data.label = {1, -1};
  test::FillNorms(data);
  const auto f = MakeObjective(Loss::kLeastSquares, 0);
  Workspace ws;
  EXPECT_DOUBLE_EQ(f->Value(Shard(data, 0, 2), Vec{1, 1}, ws), 0.5 * (0.5 * 4 + 0.5 * 64));
  EXPECT_EQ(Gradient(*f, Shard(data, 0, 2), Vec{1, 1}), (Vec{2 + 24, 4 + 32}));
}

TEST(Losses, TheirValuesAndSubgradients) {
  Dataset data;
  data.features = 1;
  data.value = {1, 1};
  data.label = {1, -1};
  data.norm = {1, 1};
  const struct {
    const char* why;
    Loss loss;
    std::size_t row;
    double x, value, gradient;
  } cases[] = {
      {"absolute: above", Loss::kAbsoluteDeviation, 0, 3, 2, 1},
      {"absolute: below", Loss::kAbsoluteDeviation, 0, -1, 2, -1},
      {"absolute: sign(0) is 0", Loss::kAbsoluteDeviation, 0, 1, 0, 0},
      {"absolute: far", Loss::kAbsoluteDeviation, 0, 1e308, 1e308, 1},
      {"huber: inside", Loss::kHuber, 0, 1.5, 0.125, 0.5},
      {"huber: at the threshold", Loss::kHuber, 0, 3, 2, 2},
      {"huber: outside", Loss::kHuber, 0, 6, 8, 2},
      {"huber: outside below", Loss::kHuber, 1, -6, 8, -2},
      {"hinge: right and far", Loss::kHinge, 0, 2, 0, 0},
      {"hinge: the kink has slope 0", Loss::kHinge, 0, 1, 0, 0},
      {"hinge: within the margin", Loss::kHinge, 0, 0.5, 0.5, -1},
      {"hinge: wrong", Loss::kHinge, 1, 3, 4, 1},
      {"smoothed: right and far", Loss::kSmoothedHinge, 0, 1, 0, 0},
      {"smoothed: the parabola", Loss::kSmoothedHinge, 0, 0, 0.25, -0.5},
      {"smoothed: where it meets the line", Loss::kSmoothedHinge, 0, -1, 1, -1},
      {"smoothed: the line", Loss::kSmoothedHinge, 1, 4, 4, 1},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.why);
    const auto f = *MakeObjective(ModelSpec{.loss = c.loss, .threshold = 2});
    const Shard shard(data, c.row, 1);
    Workspace ws;
    EXPECT_DOUBLE_EQ(f->Value(shard, Vec{c.x}, ws), c.value);
    EXPECT_DOUBLE_EQ(Gradient(*f, shard, Vec{c.x})[0], c.gradient);
  }
  EXPECT_EQ((*MakeObjective(ModelSpec{.loss = Loss::kHuber, .threshold = 2}))->RecordBound(3), 6);
  EXPECT_EQ((*MakeObjective(ModelSpec{.loss = Loss::kHuber, .threshold = 2}))->Smoothness(3), 9);
  EXPECT_EQ((*MakeObjective(ModelSpec{.loss = Loss::kSmoothedHinge, .threshold = 2}))->Smoothness(2), 2);
  EXPECT_EQ(MakeObjective(Loss::kHinge, 0)->RecordBound(3), 3);
  EXPECT_EQ(MakeObjective(Loss::kHinge, 0)->Accuracy(Shard(data, 0, 2), Vec{1}), 0.5);
  EXPECT_FALSE(MakeObjective(Loss::kHuber, 0)->Accuracy(Shard(data, 0, 2), Vec{1}));
  Vec start(1, 5.0);
  MakeObjective(Loss::kHinge, 0)->Initialise(3, 1, start);
  EXPECT_EQ(start[0], 0.0);
}

TEST(NormBound, CoversTheProductAndItsUnderflow) {
  const struct {
    const char* why;
    double s, a;
  } cases[] = {
      {"ordinary", 0.1, 0.3}, {"subnormal product", 1e-200, 1e-120}, {"tiny", 5e-324, 0.5}, {"one", 1, 1}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.why);
    EXPECT_GT(static_cast<long double>(NormBound(c.s, c.a)), static_cast<long double>(c.s) * c.a);
  }
  EXPECT_EQ(NormBound(0.0, 3.0), 0.0);
  EXPECT_EQ(NormBound(3.0, 0.0), 0.0);
  for (const double bad : {kNan, kInfinity})
    for (const double other : {0.0, 5e-324, 1.0, kInfinity, kNan}) {
      EXPECT_FALSE(std::isfinite(NormBound(bad, other)));
      EXPECT_FALSE(std::isfinite(NormBound(other, bad)));
    }
  EXPECT_FALSE(std::isfinite(NormBound(1e200, 1e200)));
}

TEST(ExpNonPositive, IsWithinOneUlp) {
  Stream rng(StreamId{151, Purpose::kTest, 0, 0});
  double worst = 0;
  const auto check = [&](double x) {
    const long double exact = std::exp(static_cast<long double>(x));
    const double got = ExpNonPositive(x);
    const double ulp = NextUp(static_cast<double>(exact)) - static_cast<double>(exact);
    worst = std::max(worst, static_cast<double>(std::abs(got - exact)) / ulp);
    ASSERT_LE(got, 1.0);
  };
  for (int i = 0; i < 300000; ++i) {
    check(-708 * rng.Uniform());
    check(-40 * rng.Uniform());
    check(-rng.Uniform());
    check(-std::exp2(-60 * rng.Uniform()));
  }
  for (int n = 0; n < 1021; ++n)   // where the reduction changes interval
    for (const double x : {-(n + 0.5) * std::log(2.0)})
      for (const double y : {x, NextUp(x), NextDown(x)})
        if (y >= -708) check(y);
  EXPECT_LE(worst, 1.0);
}

TEST(ExpNonPositive, Edges) {
  EXPECT_EQ(ExpNonPositive(0.0), 1.0);
  EXPECT_EQ(ExpNonPositive(-0.0), 1.0);
  EXPECT_EQ(ExpNonPositive(-5e-324), 1.0);
  EXPECT_GT(ExpNonPositive(-708.0), 3e-308);
  EXPECT_EQ(ExpNonPositive(-708.1), 0.0);
  EXPECT_EQ(ExpNonPositive(-1e308), 0.0);
  EXPECT_EQ(ExpNonPositive(-kInfinity), 0.0);
  EXPECT_TRUE(std::isnan(ExpNonPositive(kNan)));
}

TEST(Rows, NarrowRowsHaveTheBitsOfAnyOther) {
  for (std::size_t d = 1; d <= 21; ++d) {
    Dataset data = test::RandomData(Loss::kLeastSquares, 0, 37, d, 0.9, d);
    data.value[5 * d] = std::numeric_limits<double>::quiet_NaN();      // weight 0 leaves it out
    std::vector<std::uint32_t> pick(30);
    for (std::uint32_t l = 0; l < 30; ++l) pick[l] = l;
    const Shard whole(data, 3, 30), picked = whole.Pick(pick);
    const Vec x = test::RandomVec(d, 1.0, 77);
    Vec a(30), b(30), g(d, 0.25), h(d, 0.25), weight(30, 0.75), slope = test::RandomVec(30, 1.0, 78);
    Margins(whole, x, 1, 0, 30, a);
    Margins(picked, x, 1, 0, 30, b);
    for (std::size_t l = 0; l < 30; ++l)
      EXPECT_EQ(std::bit_cast<std::uint64_t>(a[l]), std::bit_cast<std::uint64_t>(b[l]));
    weight[2] = weight[17] = 0;
    AddRows(whole, slope, 1, weight, g);
    AddRows(picked, slope, 1, weight, h);
    EXPECT_EQ(g, h);
    EXPECT_TRUE(std::isfinite(Norm(g)));
  }
}

// In one pass over rows that lie together, or by margins, slopes and rows that were picked: the same bits,
// around the pieces and groups that rows are taken in, with bounds that clip none, some and all of them, and
// with rows that cannot be measured. And the same as by weights, but for rounding.
TEST(Rows, ClippedSlopesHaveTheSameBitsHoweverRowsAreStored) {
  Workspace ws;
  for (const Loss loss : {Loss::kLeastSquares, Loss::kAbsoluteDeviation, Loss::kHuber, Loss::kHinge,
                          Loss::kSmoothedHinge, Loss::kLogistic})
    for (const std::size_t d : {3u, 4u, 8u, 12u, 16u})
      for (const std::size_t m :
           {0u, 1u, 2u, 3u, 4u, 7u, 8u, 9u, 15u, 16u, 18u, 23u, 50u, 255u, 256u, 259u, 600u})
        for (const bool strange : {false, true}) {
          SCOPED_TRACE(testing::Message() << static_cast<int>(loss) << ", " << m << " x " << d);
          Dataset data = test::RandomData(loss, 2, m + 5, d, 0.9, d + m);
          for (std::size_t i = 2; strange && i < data.rows(); i += 7) {
            const double worst[] = {kNan, kInfinity, 1e300, -1e160, 0.0};
            data.value[i * d + i % d] = worst[i % 5];
            data.norm.Set(i, i % 5 < 2 ? kInfinity : i % 5 == 4 ? data.norm[i] : std::abs(worst[i % 5]) * 2);
            if (i % 3 == 0) data.label[i] = kNan;
          }
          const auto f = *MakeObjective(ModelSpec{.loss = loss, .threshold = kThreshold});
          const Shard own(data, 3, m);
          const LineVec tiles = Tiles::Fit(d) ? TilesOf(data, 3, m) : LineVec{};
          std::vector<std::uint32_t> pick(m);
          for (std::uint32_t l = 0; l < m; ++l) pick[l] = l;
          const Vec x = test::RandomVec(d, 1.0, 7);
          for (const double clip : {0x1p-400, 1e-3, 1.0, 1e6}) {
            Vec one, picked, three(d), norm(m), weight(m);
            ASSERT_TRUE(f->ClippedSum(own, x, clip, ws, one));
            ASSERT_TRUE(f->ClippedSum(own.Pick(pick), x, clip, ws, picked));
            ASSERT_EQ(one, picked);
            if (Tiles::Fit(d)) {
              Vec tiled(3, 7.0);  // whatever was there
              ASSERT_TRUE(f->ClippedSum(Shard(data, 3, m, nullptr, tiles.data()), x, clip, ws, tiled));
              ASSERT_EQ(std::memcmp(one.data(), tiled.data(), d * sizeof(double)), 0);
            }
            ASSERT_TRUE(std::isfinite(Norm(one)));
            f->RecordNorms(own, x, ws, norm);
            for (std::size_t l = 0; l < m; ++l)
              if (norm[l] < 0x1p500) weight[l] = norm[l] <= clip ? 1.0 : clip / norm[l];
            f->WeightedSum(own, x, ws, weight, three);
            for (std::size_t j = 0; j < d; ++j)
              ASSERT_NEAR(one[j], three[j], 1e-13 * static_cast<double>(m) * std::max(clip, 1e-300));
          }
          Vec g;
          EXPECT_FALSE(f->ClippedSum(own, x, 0x1p-401, ws, g)) << "products may lose their digits";
        }
}

// Blocks of slopes are computed with whatever the processor has: the bits are those of one slope at a time.
TEST(Logistic, ABlockOfClippedSlopesHasTheBitsOfSingleOnes) {
  constexpr std::size_t kRecords = 61;  // a whole block, and part of one
  Stream rng({.seed = 22, .purpose = Purpose::kTest});
  const auto f = MakeObjective(Loss::kLogistic, 2);
  Workspace ws;
  for (int k = 0; k < 2000; ++k) {
    // All but one row are 0, so that the sum is that row's gradient.
    Dataset data;
    data.features = 1;
    data.value.assign(kRecords, 0.0);
    data.label.assign(kRecords, k % 2 == 0 ? 1.0 : -1.0);
    const std::size_t at = rng.Below(kRecords);
    data.value[at] = 1;
    ASSERT_TRUE(Preprocess({}, data).ok());
    const double margin = k < 4 ? (k < 2 ? 0.0 : 1e300) : 30 * rng.Normal(), clip = k % 3 == 0 ? 0.3 : 2.0;
    const double y = data.label[at], t = y * margin, e = ExpNonPositive(-std::abs(t));
    const double slope = -y * ((t >= 0 ? e : 1.0) / (1.0 + e));
    const double expected = ClipSlope(slope, RowNorms::Reach(data.norm[at]), clip).slope;
    Vec g;
    ASSERT_TRUE(f->ClippedSum(Shard(data, 0, kRecords), Vec{margin}, clip, ws, g));
    ASSERT_EQ(g[0], expected) << margin;
  }
}

// What a clipped slope stands on: reach·norm ≤ 1, and |slope|·norm ≤ C, both decided without rounding (the
// sign of a fused product and difference is exact).
TEST(ClipSlope, NeverPassesTheBound) {
  Stream rng({.seed = 21, .purpose = Purpose::kTest});
  const double edges[] = {0.0,     -0.0,     5e-324,  -5e-324,  0x1p-1022, 0x1p-1000,  1.0, 0x1p499,
                          0x1p500, 0x1p1000, 1.7e308, -1.7e308, kInfinity, -kInfinity, kNan};
  const auto any = [&](int k) {
    if (k % 3 == 0) return edges[rng.Below(std::size(edges))];
    const double v = std::exp2(600 * (2 * rng.Uniform() - 1)) * (1 + rng.Uniform());
    return k % 3 == 1 ? v : rng.Normal();
  };
  int clipped = 0, left = 0, out = 0;
  for (int k = 0; k < 400000; ++k) {
    const double norm = std::abs(any(k)), slope = any(k / 3), reach = RowNorms::Reach(norm);
    const double c = k % 5 == 0 ? 0x1p-400 : std::exp2(399 * (2 * rng.Uniform() - 1));
    ASSERT_TRUE(reach >= 0 && std::isfinite(reach));
    if (norm > 0x1p-1000 && norm < 0x1p500) {
      ASSERT_LE(std::fma(reach, norm, -1.0), 0);
      ASSERT_GE(reach * norm, 1 - 0x1p-49);
    }
    const ClippedSlope got = ClipSlope(slope, reach, c);
    const Lanes four = WithinReach(All(slope), All(reach), All(c));
    if (got.counts) {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(four[2]), std::bit_cast<std::uint64_t>(got.slope));
    } else {
      ASSERT_EQ(got.slope, 0);
      ++out;
      continue;
    }
    ASSERT_TRUE(std::isfinite(norm) && !std::isnan(slope));
    if (norm > 0) {
      ASSERT_LE(std::fma(std::abs(got.slope), norm, -c), 0);
    }
    ASSERT_EQ(std::signbit(got.slope), std::signbit(slope));
    got.slope == slope ? ++left : ++clipped;
  }
  EXPECT_GT(clipped, 10000);
  EXPECT_GT(left, 10000);
  EXPECT_GT(out, 10000);
  EXPECT_FALSE(ClipSlope(kNan, 1.0, 1.0).counts);
  EXPECT_EQ(ClipSlope(kInfinity, 1.0, 2.0).slope, 2);
  EXPECT_EQ(ClipSlope(-kInfinity, 1.0, 2.0).slope, -2);
  EXPECT_FALSE(ClipSlope(kInfinity, RowNorms::Reach(0.0), 1e300).counts) << "no row, and no number";
  for (const double bad : {kNan, kInfinity, 0x1p500}) EXPECT_EQ(RowNorms::Reach(bad), 0);
}

}  // namespace
}  // namespace tacit
