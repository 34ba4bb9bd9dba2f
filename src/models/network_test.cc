// Dense and convolutional networks against a plain long double model of them, written once more here.
#include "models/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <thread>

#include "data/partition.h"
#include "data/preprocess.h"
#include "models/test_data.h"

namespace tacit {
namespace {

using test::RandomData;
using test::RandomVec;
using test::Sparse;
using Long = long double;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  const char* name;
  ModelSpec spec;
  std::size_t features;
  bool sparse;
};
const ModelSpec kSigmoid{.loss = Loss::kMlp, .classes = 3, .hidden = {5}, .activation = Activation::kSigmoid};
const ModelSpec kDeep{.loss = Loss::kMlp, .classes = 4, .hidden = {6, 9}, .activation = Activation::kRelu};
const ModelSpec kBare{.loss = Loss::kMlp, .classes = 3};
const ModelSpec kWide{.loss = Loss::kMlp, .classes = 10, .hidden = {31}, .activation = Activation::kSigmoid};
const ModelSpec kMax{.loss = Loss::kCnn,
                     .classes = 3,
                     .hidden = {4},
                     .height = 9,
                     .width = 8,
                     .convolutions = {{2, 3}, {5, 2, false, Pooling::kNone}}};
const ModelSpec kMean{.loss = Loss::kCnn,
                      .classes = 2,
                      .channels = 2,
                      .height = 7,
                      .width = 7,
                      .convolutions = {{3, 2, true, Pooling::kMean}, {2, 2, true, Pooling::kMax}}};
// Four filters side by side, more than one vector of them, and a stage whose channels fill a vector.
const ModelSpec kFour{.loss = Loss::kCnn,
                      .classes = 3,
                      .height = 14,
                      .width = 13,
                      .convolutions = {{4, 4}, {6, 4, true, Pooling::kMax}}};
// Rows of filters longer than a vector; one filter; more channels than a vector holds.
const ModelSpec kLong{.loss = Loss::kCnn,
                      .classes = 2,
                      .channels = 5,
                      .height = 11,
                      .width = 12,
                      .convolutions = {{1, 5, false, Pooling::kMax}, {2, 2, true, Pooling::kNone}}};
const ModelSpec kLarge{.loss = Loss::kCnn,
                       .classes = 2,
                       .height = 10,
                       .width = 12,
                       .convolutions = {{3, 7, true, Pooling::kMax}}};
const Case kCases[] = {
    {"mlp_sigmoid_dense", kSigmoid, 7, false}, {"mlp_sigmoid_sparse", kSigmoid, 7, true},
    {"mlp_relu_deep_dense", kDeep, 6, false},  {"mlp_relu_deep_sparse", kDeep, 6, true},
    {"mlp_without_hidden", kBare, 5, false},   {"mlp_wide_dense", kWide, 11, false},
    {"mlp_wide_sparse", kWide, 11, true},      {"cnn_max_dense", kMax, 72, false},
    {"cnn_max_sparse", kMax, 72, true},        {"cnn_mean_relu", kMean, 98, false},
    {"cnn_four_dense", kFour, 182, false},     {"cnn_four_sparse", kFour, 182, true},
    {"cnn_long_rows", kLong, 660, false},      {"cnn_large_kernel", kLarge, 120, false},
};

class Networks : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Objective> Make() const { return *MakeObjective(GetParam().spec); }
  Dataset Data(std::size_t rows, std::uint64_t seed) const {
    const Case& c = GetParam();
    const Dataset dense = RandomData(c.spec.loss, c.spec.classes, rows, c.features, 0.5, seed);
    return c.sparse ? Sparse(dense) : dense;
  }
  Vec Point(const Objective& f, double scale, std::uint64_t seed) const {
    return RandomVec(f.dim(GetParam().features), scale, seed);
  }
};
INSTANTIATE_TEST_SUITE_P(, Networks, testing::ValuesIn(kCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

// The loss of one record, by the definition.
Long PlainLoss(const ModelSpec& spec, const Shard& shard, std::size_t l, const std::vector<Long>& x) {
  std::vector<Long> a(shard.features(), 0.0L);
  const Row row = shard.row(l);
  for (std::size_t k = 0; k < row.size; ++k) a[row.index ? row.index[k] : k] = row.value[k];
  std::size_t at = 0, channels = spec.channels, height = spec.height, width = spec.width;
  for (const Convolution& c : spec.convolutions) {
    const std::size_t rows = height - c.kernel + 1, columns = width - c.kernel + 1;
    const std::size_t bias = at + c.filters * channels * c.kernel * c.kernel;
    std::vector<Long> z;
    for (std::size_t f = 0; f < c.filters; ++f)
      for (std::size_t y = 0; y < rows; ++y)
        for (std::size_t v = 0; v < columns; ++v) {
          Long s = x[bias + f];
          for (std::size_t k = 0; k < channels; ++k)
            for (std::size_t i = 0; i < c.kernel; ++i)
              for (std::size_t j = 0; j < c.kernel; ++j)
                s += x[at + ((f * channels + k) * c.kernel + i) * c.kernel + j] *
                     a[(k * height + y + i) * width + v + j];
          z.push_back(c.relu ? std::max(0.0L, s) : s);
        }
    at = bias + c.filters;
    channels = c.filters, height = rows, width = columns;
    a = z;
    if (c.pool == Pooling::kNone) continue;
    a.clear();
    for (std::size_t f = 0; f < channels; ++f)
      for (std::size_t y = 0; y + 1 < height; y += 2)
        for (std::size_t v = 0; v + 1 < width; v += 2) {
          const Long* w = &z[(f * height + y) * width + v];
          a.push_back(c.pool == Pooling::kMax ? std::max({w[0], w[1], w[width], w[width + 1]})
                                              : (w[0] + w[1] + w[width] + w[width + 1]) / 4);
        }
    height /= 2, width /= 2;
  }
  std::vector<std::size_t> widths = spec.hidden;
  widths.push_back(spec.classes);
  for (std::size_t k = 0; k < widths.size(); ++k) {
    std::vector<Long> z(widths[k]);
    for (std::size_t o = 0; o < z.size(); ++o) {
      z[o] = x[at + a.size() * z.size() + o];
      for (std::size_t j = 0; j < a.size(); ++j) z[o] += a[j] * x[at + j * z.size() + o];
      if (k + 1 < widths.size())
        z[o] = spec.activation == Activation::kRelu ? std::max(0.0L, z[o]) : 1 / (1 + std::exp(-z[o]));
    }
    at += (a.size() + 1) * z.size();
    a = z;
  }
  EXPECT_EQ(at, x.size());
  Long total = 0;
  for (const Long v : a) total += std::exp(v);
  return std::log(total) - a[static_cast<std::size_t>(shard.label(l))];
}

Vec Gradient(const Objective& f, const Shard& shard, View x) {
  Workspace ws;
  Vec norm(shard.size()), weight(shard.size(), 1.0), g(x.size());
  f.RecordNorms(shard, x, ws, norm);
  f.WeightedSum(shard, x, ws, weight, g);
  return g;
}

Long LongNorm(const Vec& v) {
  Long sum = 0;
  for (const double t : v) sum += static_cast<Long>(t) * t;
  return std::sqrt(sum);
}

TEST_P(Networks, ValueAndGradientAreThoseOfThePlainModel) {
  const auto f = Make();
  for (const std::size_t rows : {1u, 3u, 6u, 37u}) {   // around the sizes of tiles and blocks
    SCOPED_TRACE(rows);
    const Dataset data = Data(rows, 11);
    const Shard shard(data, 0, rows);
    const Vec point = Point(*f, 0.5, 12);
    std::vector<Long> x(point.begin(), point.end());
    const auto value = [&] {
      Long sum = 0;
      for (std::size_t l = 0; l < rows; ++l) sum += PlainLoss(GetParam().spec, shard, l, x);
      return sum / static_cast<Long>(rows);
    };
    Workspace ws;
    EXPECT_NEAR(f->Value(shard, point, ws), static_cast<double>(value()), 1e-14 * 10);
    const Vec g = Gradient(*f, shard, point);
    for (std::size_t j = 0; j < x.size(); j += rows > 6 ? 7 : 1) {
      const Long at = x[j], h = 1e-6L;
      x[j] = at + h;
      const Long up = value();
      x[j] = at - h;
      const Long down = value();
      x[j] = at;
      ASSERT_NEAR(g[j] / static_cast<double>(rows), static_cast<double>((up - down) / (2 * h)), 1e-10) << j;
    }
  }
}

TEST_P(Networks, LayersAreThePartsOfAPoint) {
  const auto f = Make();
  const ModelSpec& spec = GetParam().spec;
  const std::vector<std::size_t> layers = f->layers(GetParam().features);
  EXPECT_EQ(layers.size(), spec.convolutions.size() + spec.hidden.size() + 1);
  std::size_t sum = 0;
  for (const std::size_t size : layers) sum += size;
  EXPECT_EQ(sum, f->dim(GetParam().features));
  const std::size_t last_inputs = spec.hidden.empty() ? 0 : spec.hidden.back();
  if (last_inputs > 0) {
    EXPECT_EQ(layers.back(), (last_inputs + 1) * spec.classes);
  }
}

TEST_P(Networks, NormsBoundWhatIsAddedAndAreTight) {
  const auto f = Make();
  for (const double scale : {1e-200, 0.3, 3.0, 1e4}) {
    const Dataset data = Data(39, 31);
    const Shard shard(data, 0, 39);
    const Vec x = Point(*f, scale, 32);
    Workspace ws;
    Vec norm(39);
    f->RecordNorms(shard, x, ws, norm);
    for (std::size_t l = 0; l < 39; ++l) {
      Vec one(39, 0.0), g(x.size(), 0.0);
      one[l] = 1.0;
      f->WeightedSum(shard, x, ws, one, g);
      EXPECT_LE(LongNorm(g), static_cast<Long>(norm[l]));
      EXPECT_LE(static_cast<Long>(norm[l]), LongNorm(g) * (1 + 1e-12L) + 1e-140L);
      for (const double bound : {1e-3, 1.0 / 3.0}) {
        if (!(norm[l] > bound)) continue;
        Fill(g, 0.0);
        one[l] = bound / norm[l];
        f->WeightedSum(shard, x, ws, one, g);
        EXPECT_LE(LongNorm(g), static_cast<Long>(bound));
      }
    }
  }
}

TEST_P(Networks, ARecordDoesNotDependOnItsNeighbours) {
  const auto f = Make();
  const Dataset data = Data(45, 41);
  const Shard shard(data, 2, 43);
  const Vec x = Point(*f, 0.7, 42);
  Workspace ws;
  Vec norm(43);
  f->RecordNorms(shard, x, ws, norm);
  Vec scores(43 * f->outputs());
  f->Predict(shard, x, scores);
  for (const std::uint32_t l : {0u, 1u, 7u, 31u, 32u, 42u}) {
    Vec one(43, 0.0), g(x.size(), 0.0), norm_alone(1), score(f->outputs());
    one[l] = 1.0;
    f->WeightedSum(shard, x, ws, one, g);
    const std::vector<std::uint32_t> pick = {l};
    const Shard alone = shard.Pick(pick);
    EXPECT_EQ(Gradient(*f, alone, x), g);   // bitwise
    Workspace other;
    f->RecordNorms(alone, x, other, norm_alone);
    EXPECT_EQ(norm_alone[0], norm[l]);
    f->Predict(alone, x, score);
    for (std::size_t c = 0; c < score.size(); ++c) EXPECT_EQ(score[c], scores[l * score.size() + c]);
  }
}

TEST_P(Networks, DenseAndSparseRowsGiveTheSameBits) {
  const auto f = Make();
  const Case& c = GetParam();
  const Dataset dense = RandomData(c.spec.loss, c.spec.classes, 45, c.features, 0.3, 51);
  const Dataset sparse = Sparse(dense);
  const Vec x = Point(*f, 0.7, 52);
  const Shard a(dense, 3, 40), b(sparse, 3, 40);
  Workspace ws;
  EXPECT_EQ(f->Value(a, x, ws), f->Value(b, x, ws));
  EXPECT_EQ(f->Accuracy(a, x), f->Accuracy(b, x));
  EXPECT_EQ(Gradient(*f, a, x), Gradient(*f, b, x));
}

TEST_P(Networks, TheBitsDependOnTheArgumentsAloneAndTheSecondUseDoesNotAllocate) {
  const auto f = Make();
  const Dataset data = Data(77, 61);
  const Shard shard(data, 0, 77);
  const Vec x = Point(*f, 0.7, 62);
  const Vec expected = Gradient(*f, shard, x);
  std::vector<Vec> got(3);
  std::vector<std::thread> threads;
  for (Vec& g : got) threads.emplace_back([&] { g = Gradient(*f, shard, x); });
  for (std::thread& t : threads) t.join();
  for (const Vec& g : got) EXPECT_EQ(g, expected);
  Workspace ws;
  Vec norm(77), weight(77, 1.0), g(x.size());
  f->RecordNorms(shard, Point(*f, 1e300, 63), ws, norm);
  const double* buffer[] = {ws.a.data(), ws.b.data(), ws.c.data(), ws.d.data()};
  const std::size_t size = ws.a.size() + ws.b.size() + ws.c.size() + ws.d.size();
  (void)f->Value(shard, x, ws);
  norm.resize(30);
  f->RecordNorms(Shard(data, 7, 30), x, ws, norm);
  f->WeightedSum(Shard(data, 7, 30), x, ws, View(weight).first(30), g);
  EXPECT_EQ(g, Gradient(*f, Shard(data, 7, 30), x));
  EXPECT_EQ(ws.a.size() + ws.b.size() + ws.c.size() + ws.d.size(), size);
  EXPECT_TRUE(ws.a.data() == buffer[0] && ws.b.data() == buffer[1] && ws.c.data() == buffer[2] &&
              ws.d.data() == buffer[3]);
}

TEST_P(Networks, AnEmptyShardIsZeroAndSumsAddToWhatIsThere) {
  const auto f = Make();
  const Dataset data = Data(9, 81);
  const Vec x = Point(*f, 0.7, 82);
  Workspace ws;
  EXPECT_EQ(f->Value(Shard(data, 1, 0), x, ws), 0.0);
  EXPECT_EQ(Gradient(*f, Shard(data, 1, 0), x), Vec(x.size(), 0.0));
  EXPECT_FALSE(f->Accuracy(Shard(data, 1, 0), x));
  const Shard shard(data, 0, 9);
  Vec norm(9), weight(9, 0.0), g(x.size(), 3.25);
  f->RecordNorms(shard, x, ws, norm);
  f->WeightedSum(shard, x, ws, weight, g);
  EXPECT_EQ(g, Vec(x.size(), 3.25));
  weight.assign(9, 1.0);
  f->WeightedSum(shard, x, ws, weight, g);
  const Vec alone = Gradient(*f, shard, x);
  for (std::size_t j = 0; j < g.size(); ++j) EXPECT_NEAR(g[j], 3.25 + alone[j], 1e-12 * (1 + std::abs(g[j])));
}

TEST_P(Networks, ASumThatIsFormedIsOneAddedToZeros) {
  const auto f = Make();
  const Vec x = Point(*f, 1.0, 93);
  const Dataset data = Data(80, 94);
  for (const std::size_t m : {0u, 1u, 9u, 64u, 80u})
    for (const bool without_one : {false, true}) {
      const Shard shard(data, 0, m);
      Workspace ws;
      Vec norm(m), weight(m, 0.75), formed(3, kNan), added(x.size(), 0.0);
      if (without_one && m > 2) weight[2] = 0;
      f->RecordNorms(shard, x, ws, norm);
      f->FormWeightedSum(shard, x, ws, weight, formed);
      f->RecordNorms(shard, x, ws, norm);
      f->WeightedSum(shard, x, ws, weight, added);
      EXPECT_EQ(formed, added);
    }
}

TEST_P(Networks, ARecordThatIsNotFiniteSaysSoAndWeightZeroRemovesIt) {
  const auto f = Make();
  const Vec x = Point(*f, 1.0, 102);
  for (const double bad : {kNan, kInfinity, -kInfinity, 1e308}) {
    Dataset data = Data(40, 101);
    const std::size_t first = GetParam().sparse ? data.row_begin[20] : 20 * data.features;
    const std::size_t last = GetParam().sparse ? data.row_begin[21] : 21 * data.features;
    ASSERT_LT(first, last);
    Workspace ws;
    Vec norm(40), weight(40, 1.0), g(x.size(), 0.0), expected(x.size(), 0.0);
    weight[20] = 0;
    f->RecordNorms(Shard(data, 0, 40), x, ws, norm);
    f->WeightedSum(Shard(data, 0, 40), x, ws, weight, expected);
    for (std::size_t k = first; k < last; ++k) data.value[k] = bad;
    data.norm.Set(20, std::isnan(bad) ? kNan : kInfinity);
    f->RecordNorms(Shard(data, 0, 40), x, ws, norm);
    EXPECT_FALSE(std::isfinite(norm[20]));
    f->WeightedSum(Shard(data, 0, 40), x, ws, weight, g);
    EXPECT_EQ(g, expected);
    for (std::size_t l = 0; l < 40; ++l) EXPECT_TRUE(l == 20 || std::isfinite(norm[l]));
    (void)f->Value(Shard(data, 0, 40), x, ws);
    (void)f->Accuracy(Shard(data, 0, 40), x);
  }
}

TEST_P(Networks, AModelThatIsNotFiniteYieldsNormsThatAreNotFiniteOrHold) {
  const auto f = Make();
  const Dataset data = Data(20, 111);
  const Shard shard(data, 0, 20);
  const std::size_t d = f->dim(GetParam().features);
  for (const double bad : {kNan, kInfinity, 1e308, -1e308}) {
    for (const std::size_t every : {std::size_t{1}, std::size_t{3}, d - 1}) {   // some weights, or all
      Vec x = Point(*f, 1.0, 112);
      for (std::size_t j = 0; j < d; j += every) x[j] = bad;
      Workspace ws;
      Vec norm(20);
      f->RecordNorms(shard, x, ws, norm);
      for (std::size_t l = 0; l < 20; ++l) {
        Vec weight(20, 0.0), g(d, 0.0);
        weight[l] = std::isfinite(norm[l]) ? 1.0 / std::max(1.0, norm[l]) : 0.0;
        f->WeightedSum(shard, x, ws, weight, g);
        EXPECT_LE(LongNorm(g), 1.0L);   // false for NaN
        if (std::isnan(bad) && every == 1) {
          EXPECT_FALSE(std::isfinite(norm[l]));
        }
      }
    }
  }
}

// The a-priori bound that the privacy analysis pays for.
TEST_P(Networks, RoundingStaysWithinGammaOfRoundings) {
  const auto f = Make();
  const std::size_t m = 300;
  const Dataset data = Data(m, 131);
  const Shard shard(data, 0, m);
  const Vec x = Point(*f, 0.5, 132);
  Workspace ws;
  Vec norm(m), weight(m), g(x.size(), 0.0);
  f->RecordNorms(shard, x, ws, norm);
  for (std::size_t l = 0; l < m; ++l) weight[l] = 1.0 / (3.0 + static_cast<double>(l % 7));
  f->WeightedSum(shard, x, ws, weight, g);
  std::vector<Long> exact(x.size()), size(x.size());
  for (std::size_t l = 0; l < m; ++l) {
    Vec one(m, 0.0), part(x.size(), 0.0);
    one[l] = 1.0;
    f->WeightedSum(shard, x, ws, one, part);   // rounded once more than the term in the sum
    for (std::size_t j = 0; j < x.size(); ++j) {
      exact[j] += static_cast<Long>(weight[l]) * part[j];
      size[j] += std::abs(static_cast<Long>(weight[l]) * part[j]);
    }
  }
  const Long ku = static_cast<Long>(f->Roundings(m) + 1) * 0x1p-53L, gamma = ku / (1 - ku);
  for (std::size_t j = 0; j < x.size(); ++j)
    EXPECT_LE(std::abs(g[j] - exact[j]), gamma * size[j] + static_cast<Long>(5e-324));
}

TEST_P(Networks, InitialiseIsAFunctionOfTheSeed) {
  const auto f = Make();
  const std::size_t features = GetParam().features, d = f->dim(features);
  Vec a(d), b(d), c(d);
  f->Initialise(1, features, a);
  f->Initialise(1, features, b);
  f->Initialise(2, features, c);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  double most = 0;
  for (const double v : a) most = std::max(most, std::abs(v));
  EXPECT_LE(most, 1.0);
  EXPECT_GT(most, 0.1);
}

TEST(Network, LearnsWhatNoLinearModelCan) {   // the exclusive or
  Dataset data;
  data.features = 2;
  data.value = {0, 0, 0, 1, 1, 0, 1, 1};
  data.label = {0, 1, 1, 0};
  test::FillNorms(data);
  const Shard shard(data, 0, 4);
  for (const Activation a : {Activation::kSigmoid, Activation::kRelu}) {
    const auto f =
        *MakeObjective(ModelSpec{.loss = Loss::kMlp, .classes = 2, .hidden = {8}, .activation = a});
    Vec x(f->dim(2));
    f->Initialise(5, 2, x);
    for (int k = 0; k < 4000; ++k) Axpy(-0.25, Gradient(*f, shard, x), x);
    Workspace ws;
    EXPECT_LT(f->Value(shard, x, ws), 0.05);
    EXPECT_EQ(f->Accuracy(shard, x), 1.0);
  }
}

TEST(Network, SizesAreThePublishedOnes) {
  EXPECT_EQ((*MakeObjective(FedExpCentralCnn()))->dim(784), 5046u);
  EXPECT_EQ((*MakeObjective(FedExpLocalCnn()))->dim(784), 237u);
  const auto mlp = *MakeObjective(ModelSpec{.loss = Loss::kMlp, .classes = 10, .hidden = {200}});
  EXPECT_EQ(mlp->dim(784), 159010u);
  EXPECT_EQ(mlp->outputs(), 10u);
  EXPECT_FALSE(mlp->RecordBound(1.0));
  EXPECT_FALSE(mlp->Smoothness(1.0));
}

TEST(Network, EqualMaximaPassTheGradientToTheFirst) {
  const ModelSpec spec{.loss = Loss::kCnn, .classes = 2, .height = 2, .width = 2, .convolutions = {{1, 1}}};
  const auto f = *MakeObjective(spec);
  Dataset data;
  data.features = 4;
  data.value = {1, 1, 1, 1};
  data.label = {0};
  test::FillNorms(data);
  const Vec x = {1, 0, 1, -1, 0, 0};   // w, b; 1 × 2, b
  const Vec g = Gradient(*f, Shard(data, 0, 1), x);
  const double p = 1 / (1 + std::exp(2.0));   // of class 1
  EXPECT_NEAR(g[0], -2 * p, 1e-15);
  EXPECT_NEAR(g[1], -2 * p, 1e-15);      // one place took it, not four
}

// Rows of zeros are passed over; one value far below the others keeps all of them in the sums.
TEST(Network, ZerosThatArePassedOverChangeNothing) {
  for (const ModelSpec& spec : {FedExpCentralCnn(), FedExpLocalCnn()}) {
    const auto f = *MakeObjective(spec);
    Dataset data = RandomData(spec.loss, spec.classes, 2, 784, 1.0, 141);
    for (std::size_t k = 0; k < 784; ++k) {
      const bool inside = k / 28 > 8 && k / 28 < 14 && k % 28 > 3 && k % 28 < 9;
      if (!inside) data.value[k] = 0.0, data.value[784 + k] = 1e-300;
      if (inside) data.value[784 + k] = data.value[k];
    }
    data.label[1] = data.label[0];
    test::FillNorms(data);
    const Vec x = RandomVec(f->dim(784), 0.3, 142);
    const Vec few = Gradient(*f, Shard(data, 0, 1), x), all = Gradient(*f, Shard(data, 1, 1), x);
    for (std::size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(few[j], all[j], 1e-290 + 1e-15 * std::abs(few[j]));
  }
}

// The steps one by one, as local training makes them.
Vec UpdateStepByStep(const Objective& f, const Shard& own, const BatchSteps& steps, const Vec& w) {
  Vec y = w;
  Workspace ws;
  for (const std::uint32_t b : steps.block) {
    const std::size_t first = b * steps.batch, count = std::min(steps.batch, own.size() - first);
    const Shard batch = own.Slice(first, count);
    Vec norm(count), weight(count);
    f.RecordNorms(batch, y, ws, norm);
    for (std::size_t l = 0; l < count; ++l)
      weight[l] = norm[l] < kInfinity ? -steps.rate / static_cast<double>(count) : 0.0;
    f.WeightedSum(batch, y, ws, weight, y);
  }
  for (std::size_t j = 0; j < y.size(); ++j) y[j] -= w[j];
  return y;
}

// More records than a block of them, most of whose entries are zeros: the first layer is then made for all at
// once, with the bits of a few at a time, and without the records of weight 0.
TEST(Network, RecordsTakenTogetherAreThoseTakenApart) {
  for (const ModelSpec& spec : {kSigmoid, kDeep, kWide})
    for (const std::size_t m : {33u, 64u, 128u, 129u}) {
      SCOPED_TRACE(m);
      const std::size_t features = 60;
      const auto f = *MakeObjective(spec);
      const Dataset data = RandomData(Loss::kMlp, spec.classes, m, features, 0.15, m);
      const Shard all(data, 0, m);
      const Vec x = RandomVec(f->dim(features), 0.5, 7);
      Vec weight = RandomVec(m, 1.0, 8), start = RandomVec(x.size(), 1.0, 9);
      for (const bool left_out : {false, true}) {
        if (left_out) weight[m / 2] = 0;
        Workspace ws;
        Vec norm(m), g = start, norms, apart = start;
        f->RecordNorms(all, x, ws, norm);
        f->WeightedSum(all, x, ws, weight, g);
        for (std::size_t at = 0; at < m; at += 10) {
          const std::size_t n = std::min<std::size_t>(10, m - at);
          Vec part(n);
          Workspace other;
          f->RecordNorms(all.Slice(at, n), x, other, part);
          f->WeightedSum(all.Slice(at, n), x, other, View(weight).subspan(at, n), apart);
          norms.insert(norms.end(), part.begin(), part.end());
        }
        EXPECT_EQ(norm, norms);
        EXPECT_EQ(g, apart);
      }
    }
}

// Rows are taken together with or without their zeros, by how many zeros all of them have. An infinite weight
// of an input that a record does not have shall not count for it, whatever the others are.
TEST(Network, AnInfiniteWeightCountsForThoseAloneWhoHaveItsInput) {
  const ModelSpec spec{.loss = Loss::kMlp, .classes = 3, .hidden = {7}, .activation = Activation::kSigmoid};
  constexpr std::size_t kColumns = 300, kHere = 100, kInput = 250, kUnits = 7;
  const auto f = *MakeObjective(spec);
  for (const std::size_t m : {std::size_t{32}, std::size_t{100}}) {
    // Every row has a third of the columns, and none but the last has kInput.
    Dataset few;
    few.features = kColumns;
    Stream rng({.seed = 9, .purpose = Purpose::kTest});
    for (std::size_t l = 0; l < m; ++l)
      for (std::size_t j = 0; j < kColumns; ++j) few.value.push_back(j < kHere ? rng.Uniform() + 0.1 : 0.0);
    few.label.assign(m, 1.0);
    Dataset more = few;
    more.value[(m - 1) * kColumns + kInput] = 1;
    ASSERT_TRUE(Preprocess({}, few).ok() && Preprocess({}, more).ok());
    for (const double bad : {kInfinity, -kInfinity, kNan}) {
      Vec x = RandomVec(f->dim(kColumns), 0.1, 4);
      std::fill_n(x.begin() + kInput * kUnits, kUnits, bad);
      Workspace ws;
      Vec one(m), two(m);
      f->RecordNorms(Shard(few, 0, m), x, ws, one);
      f->RecordNorms(Shard(more, 0, m), x, ws, two);
      for (std::size_t l = 0; l + 1 < m; ++l) {
        ASSERT_TRUE(std::isfinite(one[l])) << m;
        ASSERT_EQ(one[l], two[l]) << m;
      }
    }
  }
}

TEST(Factors, GiveTheUpdateOfTheStepsOneByOne) {
  const std::vector<std::uint32_t> once = {2, 0, 3, 1}, twice = {2, 0, 3, 1, 1, 3, 2, 0}, whole = {0, 0, 0};
  const ModelSpec relu{.loss = Loss::kMlp, .classes = 4, .hidden = {37}, .activation = Activation::kRelu};
  const ModelSpec deep{
      .loss = Loss::kMlp, .classes = 3, .hidden = {30, 7}, .activation = Activation::kSigmoid};
  const struct {
    const char* why;
    const ModelSpec& spec;
    std::size_t records, batch;
    const std::vector<std::uint32_t>& block;
  } cases[] = {
      {"one pass, the last batch short", relu, 38, 10, once},
      {"two passes in different orders", relu, 38, 10, twice},
      {"batches longer than a block of records", deep, 60, 35, once},
      {"all records in every step", relu, 40, 40, whole},
      {"two hidden layers", deep, 38, 10, twice},
      {"batches of one", deep, 4, 1, once},
      {"one record", relu, 1, 1, whole},
  };
  Workspace ws;  // reused from case to case, as by a thread
  Vec update;
  FactoredVec factored;
  for (const auto& c : cases)
    for (const double density : {0.2, 1.0})
      for (const bool sparse : {false, true}) {
        SCOPED_TRACE(testing::Message() << c.why << ", density " << density << (sparse ? ", sparse" : ""));
        const auto f = *MakeObjective(c.spec);
        const std::size_t features = 490;
        Dataset data = RandomData(Loss::kMlp, c.spec.classes, c.records + 3, features, density, 151);
        for (double& v : data.value) v *= 0.2;
        test::FillNorms(data);
        if (sparse) data = Sparse(data);
        const Shard own(data, 3, c.records);
        std::vector<std::uint32_t> block = c.block;
        const std::size_t blocks = (c.records + c.batch - 1) / c.batch;
        std::erase_if(block, [&](std::uint32_t b) { return b >= blocks; });
        const BatchSteps steps{0.3, c.batch, block};
        const Vec w = RandomVec(f->dim(features), 0.1, 152);
        ASSERT_TRUE(f->StepsByFactors(own, steps, w, ws));
        f->UpdateByFactors(own, w, ws, update);
        const Vec plain = UpdateStepByStep(*f, own, steps, w);
        ASSERT_EQ(update.size(), plain.size());
        // y − w has lost 53 bits of the weights, about 0.1.
        const double length = Norm(plain);
        EXPECT_GT(length, 0.01);
        EXPECT_LT(std::sqrt(DistanceSquared(update, plain)), 1e-12 * length);
        Workspace fresh;
        Vec again;
        ASSERT_TRUE(f->StepsByFactors(own, steps, w, fresh));
        f->UpdateByFactors(own, w, fresh, again);
        EXPECT_EQ(update, again);
        // By its factors it is the same vector, and its length a bound that is close.
        f->FactorsOfUpdate(own, w, fresh, factored);
        EXPECT_EQ(factored.columns > 0, sparse || density < 0.3);
        Form(factored, again);
        EXPECT_EQ(update, again);
        if (factored.columns > 0) {
          long double square = 0;
          for (const double v : update) square += static_cast<long double>(v) * v;
          EXPECT_GE(static_cast<long double>(factored.length), std::sqrt(square));
          EXPECT_LT(factored.length, length * (1 + 1e-9));
        }
      }
}

// Entries that are kept with the rows change no bit: of norms and sums, and of steps by factors.
TEST(Network, EntriesThatAreKeptChangeNothing) {
  for (const ModelSpec& spec : {kSigmoid, kDeep, kWide})
    for (const std::size_t m : {64u, 20u}) {
      SCOPED_TRACE(m);
      const std::size_t features = 520;
      ModelSpec wide = spec;
      wide.hidden[0] = 37;
      const auto f = *MakeObjective(wide);
      Dataset data = RandomData(Loss::kMlp, spec.classes, 3 * m, features, 0.1, m);
      for (double& v : data.value) v *= 0.2;
      test::FillNorms(data);
      Partition p = *MakePartition({.clients = 3}, data);
      KeepEntriesFor(*f, p);
      ASSERT_NE(p.entries, nullptr);
      const Shard plain(p.data, m, m), kept(p.data, m, m, nullptr, nullptr, &p.entries->shard[1]);
      ASSERT_EQ(kept.entries()->rows, m);
      EXPECT_EQ(kept.Slice(0, m).entries(), nullptr);
      const Vec x = RandomVec(f->dim(features), 0.1, 7);
      Vec weight = RandomVec(m, 1.0, 8);
      for (const bool left_out : {false, true}) {
        if (left_out) weight[m / 2] = 0;
        Workspace a, b;
        Vec norm_a(m), norm_b(m), g_a = x, g_b = x;
        f->RecordNorms(plain, x, a, norm_a);
        f->RecordNorms(kept, x, b, norm_b);
        EXPECT_EQ(norm_a, norm_b);
        f->WeightedSum(plain, x, a, weight, g_a);
        f->WeightedSum(kept, x, b, weight, g_b);
        EXPECT_EQ(g_a, g_b);
        f->FormWeightedSum(plain, x, a, weight, g_a);
        f->FormWeightedSum(kept, x, b, weight, g_b);
        EXPECT_EQ(g_a, g_b);
      }
      const std::vector<std::uint32_t> block = {1, 3, 0, 2};
      Workspace a, b;
      Vec update_a, update_b;
      FactoredVec by_a, by_b;
      ASSERT_TRUE(f->StepsByFactors(plain, {0.3, m / 4, block}, x, a));
      ASSERT_TRUE(f->StepsByFactors(kept, {0.3, m / 4, block}, x, b));
      f->UpdateByFactors(plain, x, a, update_a);
      f->UpdateByFactors(kept, x, b, update_b);
      EXPECT_EQ(update_a, update_b);
      f->FactorsOfUpdate(plain, x, a, by_a);
      f->FactorsOfUpdate(kept, x, b, by_b);
      ASSERT_GT(by_b.columns, 0u);
      EXPECT_EQ(by_a.length, by_b.length);
      Form(by_b, update_b);
      EXPECT_EQ(update_a, update_b);
      AddTimes(0.7, by_a, update_a);
      AddTimes(0.7, by_b, update_b);
      EXPECT_EQ(update_a, update_b);
    }
}

// Rows and slopes that all but cancel: the length that is computed from products of rows is still a bound.
TEST(Factors, ALengthIsABoundHoweverMuchCancels) {
  const auto f = *MakeObjective(ModelSpec{.loss = Loss::kMlp, .classes = 2, .hidden = {20}});
  const std::size_t features = 200, m = 20;
  FactoredVec factored;
  Vec update;
  for (const double scale : {1e-3, 1.0, 1e6, 1e100})
    for (const double apart : {1.0, 1e-8, 1e-15, 0.0}) {
      SCOPED_TRACE(testing::Message() << scale << ", " << apart);
      Dataset data = RandomData(Loss::kMlp, 2, m, features, 0.2, 181);
      for (std::size_t l = 1; l < m; l += 2) {  // pairs of nearly equal rows with opposite labels
        for (std::size_t j = 0; j < features; ++j)
          data.value[l * features + j] = data.value[(l - 1) * features + j] * (1 + apart);
        data.label[l] = 1 - data.label[l - 1];
      }
      for (double& v : data.value) v *= scale;
      test::FillNorms(data);
      const Shard own(data, 0, m);
      Workspace ws;
      Vec w = RandomVec(f->dim(features), 0.1 / scale, 182);
      const std::vector<std::uint32_t> block = {1, 0};
      ASSERT_TRUE(f->StepsByFactors(own, {0.1, 10, block}, w, ws));
      f->FactorsOfUpdate(own, w, ws, factored);
      ASSERT_GT(factored.columns, 0u);
      Form(factored, update);
      long double square = 0;
      for (const double v : update) square += static_cast<long double>(v) * v;
      EXPECT_GE(static_cast<long double>(factored.length), std::sqrt(square));
    }
}

TEST(Factors, AreLeftAloneWhereTheyDoNotPayOrCouldOverflow) {
  const std::vector<std::uint32_t> block = {0};
  const ModelSpec mlp{.loss = Loss::kMlp, .classes = 3, .hidden = {20}};
  const auto uses = [&](const ModelSpec& spec, std::size_t records, std::size_t features, double value) {
    const auto f = *MakeObjective(spec);
    Dataset data = RandomData(Loss::kMlp, 3, records, features, 0.2, 161);
    data.value[0] = value;
    test::FillNorms(data);
    if (!(std::abs(value) < kInfinity)) data.norm.Set(0, kInfinity);
    Workspace ws;
    return f->StepsByFactors(Shard(data, 0, records), {0.1, records, block},
                             RandomVec(f->dim(features), 0.1, 1), ws);
  };
  EXPECT_TRUE(uses(mlp, 20, 200, 1.0));
  EXPECT_TRUE(uses(mlp, 20, 200, 1e100));
  EXPECT_FALSE(uses(mlp, 20, 200, 1e160)) << "products of rows might overflow";
  EXPECT_FALSE(uses(mlp, 20, 200, kInfinity)) << "a row that cannot be measured";
  EXPECT_FALSE(uses(mlp, 20, 200, kNan)) << "a row that cannot be measured";
  EXPECT_FALSE(uses(mlp, 26, 200, 1.0)) << "too many records for so few features";
  EXPECT_FALSE(uses(mlp, 41, 400, 1.0)) << "too many records for so narrow a layer";
  EXPECT_FALSE(uses({.loss = Loss::kMlp, .classes = 30}, 20, 200, 1.0)) << "one layer";
  EXPECT_FALSE(uses(FedExpLocalCnn(), 20, 784, 1.0)) << "convolutions";
  EXPECT_FALSE(MakeObjective(Loss::kSoftmax, 3)->StepsByFactors({}, {}, {}, *std::make_unique<Workspace>()));
}

// A record whose slopes are not finite at some step contributes nothing in that step.
TEST(Factors, ARecordThatCannotBeMeasuredContributesNothing) {
  const ModelSpec spec{.loss = Loss::kMlp, .classes = 3, .hidden = {20}};
  const auto f = *MakeObjective(spec);
  Dataset data = RandomData(Loss::kMlp, 3, 12, 200, 0.2, 171);
  for (std::size_t l = 0; l < 12; ++l) data.value[l * 200] = l == 2 ? 1e140 : 0.0;
  test::FillNorms(data);
  Vec w = RandomVec(f->dim(200), 0.1, 172);
  for (std::size_t o = 0; o < 20; ++o) w[o] = 1e200;  // the sums of record 2 overflow
  const std::vector<std::uint32_t> block = {1, 0, 2};
  const BatchSteps steps{0.1, 4, block};
  Workspace ws;
  Vec update;
  const Shard own(data, 0, 12);
  ASSERT_TRUE(f->StepsByFactors(own, steps, w, ws));
  f->UpdateByFactors(own, w, ws, update);
  for (const double v : update) ASSERT_TRUE(std::isfinite(v));
  const Vec plain = UpdateStepByStep(*f, own, steps, w);
  for (std::size_t j = 0; j < plain.size(); ++j) ASSERT_NEAR(update[j], plain[j], 1e-12);
}

TEST(Network, BadSpecsAreRefusedByName) {
  const Convolution four{4, 4};
  const struct {
    const char* why;
    ModelSpec spec;
    const char* says;
  } cases[] = {
      {"one class", {.loss = Loss::kMlp, .classes = 1}, "classes = 1"},
      {"softmax of one class", {.loss = Loss::kSoftmax, .classes = 1}, "classes = 1"},
      {"a width of zero", {.loss = Loss::kMlp, .classes = 2, .hidden = {3, 0}}, "hidden width = 0"},
      {"no convolution", {.loss = Loss::kCnn, .classes = 2}, "without a convolution"},
      {"kernel larger than the image",
       {.loss = Loss::kCnn, .classes = 2, .height = 3, .width = 8, .convolutions = {four}},
       "kernel = 4: must be in [1, 3]"},
      {"kernel of zero", {.loss = Loss::kCnn, .classes = 2, .convolutions = {{1, 0}}}, "kernel = 0"},
      {"no filter", {.loss = Loss::kCnn, .classes = 2, .convolutions = {{0, 2}}}, "filters = 0"},
      {"no pixel",
       {.loss = Loss::kCnn, .classes = 2, .height = 0, .convolutions = {four}},
       "image of 0 x 28"},
      {"overflowing image",
       {.loss = Loss::kCnn, .classes = 2, .height = SIZE_MAX, .width = SIZE_MAX, .convolutions = {four}},
       "image of"},
      {"too many filters",
       {.loss = Loss::kCnn, .classes = 2, .convolutions = {{SIZE_MAX, 4}}},
       "filters = 18446744073709551615"},
      {"nothing left to pool",
       {.loss = Loss::kCnn, .classes = 2, .height = 4, .width = 4, .convolutions = {four}},
       "pooling of 1 x 1"},
      {"no threshold", {.loss = Loss::kHuber, .threshold = 0}, "threshold = 0"},
      {"NaN threshold", {.loss = Loss::kSmoothedHinge, .threshold = kNan}, "threshold = nan"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.why);
    const auto made = MakeObjective(c.spec);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, Code::kInvalidArgument);
    EXPECT_NE(made.error().message.find(c.says), std::string::npos) << made.error().message;
  }
}

}  // namespace
}  // namespace tacit
