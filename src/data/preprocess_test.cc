#include "data/preprocess.h"

#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_int.hpp>

#include "core/rng.h"
#include "data/load.h"

namespace tacit {
namespace {

constexpr std::uint64_t kSeeds = 2000;      // random cases, the same every time

using boost::multiprecision::cpp_int;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// |v| · 2^1074, exactly.
cpp_int Exact(double v) {
  int e;
  const double m = std::frexp(std::abs(v), &e);                       // |v| = m 2^e
  return v == 0 ? cpp_int(0)
                : (cpp_int(static_cast<std::uint64_t>(std::ldexp(m, 53))) << (e - 53 + 1074 + 64)) >> 64;
}

bool NormAtMost(View x, double bound) {
  cpp_int sum = 0;
  for (const double v : x) sum += Exact(v) * Exact(v);
  return sum <= Exact(bound) * Exact(bound);
}

// Values over the whole range of double, or around 1, or integers.
Vec RandomRow(Stream& s) {
  Vec x(s.Below(30) + 1);
  const auto kind = s.Below(4);
  for (double& v : x) {
    v = s.Normal();
    if (kind == 1) v = std::ldexp(v, static_cast<int>(s.Below(2090)) - 1070);
    if (kind == 2) v = std::round(v * 3);
    if (kind == 3) v = std::ldexp(v, -1060);
    if (!std::isfinite(v)) v = 0;
  }
  return x;
}

Dataset Dense(std::size_t features, Vec value, Vec label = {}) {
  Dataset d;
  d.features = features;
  d.label = label.empty() ? Vec(value.size() / features, 1.0) : std::move(label);
  d.value.assign(value.begin(), value.end());
  return d;
}

TEST(NormUp, IsNeverBelowTheRealNormAndCloseToIt) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Stream s({.seed = seed, .purpose = Purpose::kTest});
    const Vec x = RandomRow(s);
    const double norm = NormUp(x);
    if (std::isinf(norm)) {
      ASSERT_TRUE(!NormAtMost(x, std::ldexp(1.0, 1022)));
      continue;
    }
    ASSERT_TRUE(NormAtMost(x, norm));
    double below = norm;
    for (int i = 0; i < 6; ++i) below = std::nextafter(below, 0.0);
    ASSERT_TRUE(norm == 0 || !NormAtMost(x, below));
  }
}

TEST(NormUp, Edges) {
  EXPECT_EQ(NormUp(Vec{}), 0);
  EXPECT_EQ(NormUp(Vec{0, -0.0}), 0);
  EXPECT_NEAR(NormUp(Vec{3, 4}), 5, 1e-14);
  EXPECT_GE(NormUp(Vec{5e-324}), 5e-324);
  EXPECT_NEAR(NormUp(Vec{3e200, 4e200}) / 5e200, 1, 1e-14);
  EXPECT_EQ(NormUp(Vec{1e308, 1.7e308}), kInf);
  EXPECT_EQ(NormUp(Vec{kNan, 1}), kInf);
  EXPECT_EQ(NormUp(Vec{kNan, 0}), kInf);
  EXPECT_EQ(NormUp(Vec{-kInf}), kInf);
}

TEST(Preprocess, EveryRowObeysTheBoundInRealArithmetic) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Stream s({.seed = seed, .purpose = Purpose::kTest});
    PreprocessOptions o;
    o.row_norm = s.Below(2) ? RowNorm::kUnit : RowNorm::kClip;
    const double bounds[] = {1, 0.1, 1e-100, 1e100, 3.7, 1.0 / 3};
    o.row_bound = bounds[s.Below(6)];
    o.intercept = s.Below(2);
    const Vec before = RandomRow(s);
    Dataset d = Dense(before.size(), before);
    ASSERT_TRUE(Preprocess(o, d).ok());
    const View row(d.value);
    ASSERT_TRUE(row.size() == before.size() + (o.intercept ? 1u : 0u));
    ASSERT_TRUE(d.norm[0] <= o.row_bound);
    ASSERT_TRUE(d.row_bound == o.row_bound);
    ASSERT_TRUE(NormAtMost(row, d.norm[0]));
    bool zero = true;
    for (const double v : row) zero = zero && v == 0;
    ASSERT_TRUE(o.row_norm == RowNorm::kClip || zero || d.norm[0] >= o.row_bound * (1 - 1e-13));
  }
}

TEST(Preprocess, RowNormCases) {
  const struct {
    const char* why;
    RowNorm kind;
    Vec in, out;
  } kCases[] = {
      {"none leaves rows alone", RowNorm::kNone, {30, 40}, {30, 40}},
      {"clip leaves short rows alone", RowNorm::kClip, {0.3, 0.4}, {0.3, 0.4}},
      {"clip brings long rows to the bound", RowNorm::kClip, {30, 40}, {0.6, 0.8}},
      {"clip survives an overflowing norm",
       RowNorm::kClip,
       {1.5e308, 1.5e308},
       {std::sqrt(0.5), std::sqrt(0.5)}},
      {"unit lengthens short rows", RowNorm::kUnit, {0.3, 0.4}, {0.6, 0.8}},
      {"unit leaves zero rows zero", RowNorm::kUnit, {0, 0}, {0, 0}},
      {"unit survives subnormals", RowNorm::kUnit, {5e-324, 0}, {1, 0}},
      {"NaN becomes 0", RowNorm::kUnit, {kNan, 3}, {0, 1}},
      {"infinity becomes 0", RowNorm::kClip, {-kInf, 0.5}, {0, 0.5}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    Dataset d = Dense(2, c.in);
    ASSERT_TRUE(Preprocess({.row_norm = c.kind}, d).ok());
    for (std::size_t j = 0; j < 2; ++j) EXPECT_NEAR(d.value[j], c.out[j], 1e-14);
    EXPECT_EQ(d.row_bound, c.kind == RowNorm::kNone ? kInf : 1.0);
    EXPECT_TRUE(NormAtMost(d.value, d.norm[0]));
  }
}

TEST(Preprocess, InterceptOfASparseSetIsOneMoreEntryPerRow) {
  Dataset d = *ParseLibsvm("1 1:2 3:4\n-1\n1 2:8\n");
  ASSERT_TRUE(Preprocess({.scale = 0.5, .intercept = true}, d).ok());
  EXPECT_EQ(d.features, 4u);
  EXPECT_EQ(d.value, (LineVec{1, 2, 1, 1, 4, 1}));
  EXPECT_EQ(d.column, (std::vector<std::uint32_t>{0, 2, 3, 3, 1, 3}));
  EXPECT_EQ(d.row_begin, (std::vector<std::uint64_t>{0, 3, 4, 6}));
}

TEST(Preprocess, ASparseSetAndItsDenseCopyAgree) {
  Dataset sparse = *ParseLibsvm("1 1:2 3:4\n-1\n1 2:8 3:1\n");
  Dataset dense = Dense(3, {2, 0, 4, 0, 0, 0, 0, 8, 1}, {1, -1, 1});
  const PreprocessOptions o{.scale = 0.7, .intercept = true, .row_norm = RowNorm::kClip, .row_bound = 2};
  ASSERT_TRUE(Preprocess(o, sparse).ok());
  ASSERT_TRUE(Preprocess(o, dense).ok());
  for (std::size_t i = 0; i < 3; ++i) {
    const Row r = sparse.row(i);
    for (std::size_t k = 0; k < r.size; ++k) EXPECT_NEAR(r.value[k], dense.value[i * 4 + r.index[k]], 1e-15);
    EXPECT_NEAR(sparse.norm[i], dense.norm[i], 1e-14);
  }
}

TEST(Preprocess, RangesClampAndMapByPublicConstants) {
  Dataset d = Dense(2, {5, 0, 20, 50, -3, 200, kNan, 100});
  ASSERT_TRUE(Preprocess({.lower = {0, 0}, .upper = {10, 100}}, d).ok());
  EXPECT_EQ(d.value, (LineVec{0, -1, 1, 0, -1, 1, -1, 1}));
  d = Dense(2, {5, 0, 20, 10});
  ASSERT_TRUE(
      Preprocess({.lower = {0}, .upper = {10}, .target = RangeTarget::kZeroToOne, .scale = 2}, d).ok());
  EXPECT_EQ(d.value, (LineVec{1, 0, 2, 2}));
}

TEST(Preprocess, RangesKeepASparseSetSparseOnlyIfZeroStaysZero) {
  Dataset d = *ParseLibsvm("1 1:2\n-1 2:-9\n");
  ASSERT_TRUE(Preprocess({.lower = {-4}, .upper = {4}}, d).ok());
  EXPECT_TRUE(d.sparse());
  EXPECT_EQ(d.value, (LineVec{0.5, -1}));
  d = *ParseLibsvm("1 1:2\n-1 2:-9\n");
  ASSERT_TRUE(Preprocess({.lower = {0}, .upper = {4}}, d).ok());
  EXPECT_FALSE(d.sparse());
  EXPECT_EQ(d.value, (LineVec{0, -1, -1, -1}));
}

TEST(Preprocess, Labels) {
  const struct {
    const char* why;
    PreprocessOptions options;
    double in, out;
  } kCases[] = {
      {"the positive label", {.positive = 2}, 2, 1},
      {"any other label", {.positive = 2}, 1, -1},
      {"a NaN label is not positive", {}, kNan, -1},
      {"a class", {.labels = LabelKind::kClass, .classes = 10}, 9, 9},
      {"a class out of range", {.labels = LabelKind::kClass, .classes = 10}, 10, 0},
      {"a negative class", {.labels = LabelKind::kClass, .classes = 10}, -1, 0},
      {"no whole number", {.labels = LabelKind::kClass, .classes = 10}, 2.5, 0},
      {"NaN class", {.labels = LabelKind::kClass, .classes = 10}, kNan, 0},
      {"real within", {.labels = LabelKind::kReal, .label_bound = 2}, -1.5, -1.5},
      {"real clamped", {.labels = LabelKind::kReal, .label_bound = 2}, -7, -2},
      {"infinity clamped", {.labels = LabelKind::kReal, .label_bound = 2}, kInf, 2},
      {"NaN is zero", {.labels = LabelKind::kReal, .label_bound = 2}, kNan, 0},
      {"unbounded infinity is zero", {.labels = LabelKind::kReal}, kInf, 0},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    Dataset d = Dense(1, {1}, {c.in});
    ASSERT_TRUE(Preprocess(c.options, d).ok());
    EXPECT_EQ(d.label[0], c.out);
  }
}

TEST(Preprocess, RefusesConstantsThatCannotWork) {
  const struct {
    PreprocessOptions options;
    const char* expected;
  } kCases[] = {
      {{.scale = kNan}, "scale = nan"},
      {{.scale = 0}, "scale = 0"},
      {{.row_norm = RowNorm::kClip, .row_bound = 0}, "row_bound = 0"},
      {{.row_norm = RowNorm::kUnit, .row_bound = kNan}, "row_bound = nan"},
      {{.row_norm = RowNorm::kUnit, .row_bound = kInf}, "row_bound = inf"},
      {{.positive = kNan}, "positive = nan"},
      {{.labels = LabelKind::kClass}, "classes = 0"},
      {{.labels = LabelKind::kReal, .label_bound = -1}, "label_bound = -1"},
      {{.lower = {0}}, "data.lower has 1 and data.upper 0 entries"},
      {{.lower = {0, 0, 0}, .upper = {1, 1, 1}}, "one for each of the 2 features"},
      {{.lower = {1}, .upper = {1}}, "lower below upper"},
      {{.lower = {-1e308}, .upper = {1e308}}, "must be finite"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.expected);
    Dataset d = Dense(2, {1, 2});
    const Status s = Preprocess(c.options, d);
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().message.find(c.expected), std::string::npos) << s.error().message;
    EXPECT_EQ(d.value, (LineVec{1, 2}));
  }
}

}  // namespace
}  // namespace tacit
