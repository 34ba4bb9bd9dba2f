#include "privacy/bounded.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/rng.h"
#include "data/preprocess.h"
#include "models/lanes.h"
#include "models/test_data.h"
#include "privacy/mechanism.h"

namespace tacit {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Through the public door: Expose, paid by an unlimited ledger.
Vec Opened(const Bounded& v) {
  Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
  NoiseRng rng = NoiseRng::Replayable({});
  NoiseBuffer noise;
  Released<Vec> out;
  EXPECT_TRUE(Expose().Release(v, NoiseStd{1.0}, ledger, rng, noise, out).ok());
  return *out;
}

Vec Clipped(Vec v, L2Bound c) {
  Private<Vec> p(std::move(v));
  return Opened(Bounded::Clip(p, c));
}

long double Length(View v) {
  long double sum = 0;
  for (double x : v) sum += static_cast<long double>(x) * x;
  return std::sqrt(sum);
}

long double Distance(View a, View b) {
  long double sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) {
    const long double d = static_cast<long double>(a[j]) - b[j];
    sum += d * d;
  }
  return std::sqrt(sum);
}

TEST(Clip, ProjectsOnTheBallAndMakesNonsenseZero) {
  const struct {
    const char* why;
    Vec in;
    double norm;
  } kCases[] = {
      {"inside is untouched", {0.3, 0.4}, 0.5},
      {"on the sphere stays there", {0.6, 0.8}, 1.0},
      {"outside lands on the sphere", {30, 40}, 1.0},
      {"zero stays zero", {0, 0}, 0.0},
      {"denormals do not divide by zero", {5e-324, 0}, 0.0},
      {"an overflowing norm becomes zero", {1e200, 1e200}, 0.0},
      {"the largest double becomes zero", {1.7e308, 0}, 0.0},
      {"large but measurable is clipped", {1e150, 0}, 1.0},
      {"NaN becomes zero", {kNan, 1}, 0.0},
      {"infinity becomes zero", {kInf, 1}, 0.0},
      {"minus infinity too", {1, -kInf}, 0.0},
      {"both infinities too", {kInf, -kInf}, 0.0},
      {"no coordinates at all", {}, 0.0},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const Vec out = Clipped(c.in, L2Bound{1.0});
    EXPECT_NEAR(Norm(out), c.norm, 4e-15);      // the radius gives up γ_{d+8} ≈ 1e-15
    EXPECT_LE(Length(out), 1.0L);
    if (c.norm == 0.5) {
      EXPECT_EQ(out, c.in);
    }
  }
}

TEST(Clip, NeverLeavesTheBallInRealArithmetic) {
  Stream rng({.seed = 1, .purpose = Purpose::kTest});
  for (int trial = 0; trial < 3000; ++trial) {
    const std::size_t d = 1 + rng.Below(200);
    const double scale = std::exp(40 * (rng.Uniform() - 0.5)), c = std::exp(20 * (rng.Uniform() - 0.5));
    Vec v(d);
    for (double& x : v) x = scale * rng.Normal();
    EXPECT_LE(Length(Clipped(v, L2Bound::Proven(c))), static_cast<long double>(c)) << d << ' ' << c;
  }
}

// The length that a vector is clipped by is the one of core/vec.h, for every length around its eight sums.
TEST(Clip, ScalesByTheNorm) {
  Stream rng({.seed = 5, .purpose = Purpose::kTest});
  for (std::size_t d = 1; d < 70; ++d) {
    Vec v(d);
    for (double& x : v) x = 100 * rng.Normal();
    const Vec out = Clipped(v, L2Bound{1.0});
    const double radius = 1 - static_cast<double>(d + 8) * 0x1p-53, norm = Norm(v);
    for (std::size_t j = 0; j < d; ++j)
      EXPECT_NEAR(out[j], v[j] * (radius / norm), 1e-15 * std::abs(out[j]));  // 4 roundings each
  }
}

TEST(Clip, ATinyBallIsNotFooledByUnderflow) {
  // 1e-180 squared is zero in doubles, yet the vector is far outside.
  for (const double c : {1e-200, 1e-250, 1e-170}) {
    const Vec out = Clipped({1e-160, 2e-165, -3e-162}, L2Bound::Proven(c));
    EXPECT_LE(std::hypot(out[0], out[1], out[2]), c);
    EXPECT_GT(out[0], 0.999 * c);
  }
  EXPECT_EQ(Clipped({1e140, 0}, L2Bound::Proven(1e-200))[0] < 0, false);  // c/‖v‖ underflows: 0, not below
}

TEST(Clip, IsOneLipschitz) {
  Stream rng({.seed = 2, .purpose = Purpose::kTest});
  for (int trial = 0; trial < 3000; ++trial) {
    const std::size_t d = 1 + rng.Below(12);
    Vec a(d), b(d);
    const double near = std::exp(-10 * rng.Uniform());
    for (std::size_t j = 0; j < d; ++j) a[j] = 3 * rng.Normal(), b[j] = a[j] + near * rng.Normal();
    // Up to rounding: both results are moved by at most γ_{d+8}.
    EXPECT_LE(Distance(Clipped(a, L2Bound{1.0}), Clipped(b, L2Bound{1.0})), Distance(a, b) + 1e-14L);
  }
}

// Through the door of a trusted server: one client's term, as it is added up.
Vec EntrustedTerm(Vec v, L2Bound c, Entrusted& sent) {
  Private<Vec> p(std::move(v));
  Bounded::ClipAndEntrust(p, c, sent);
  EntrustedSum sum;
  sum.Reset();
  sum.Add(sent);
  const Bounded total = sum.Total();
  EXPECT_EQ(total.bound(), c);
  LedgerBook book(std::vector<MuSquared>(1, MuSquared::Proven(kInf)), Adjacency::kReplaceOne);
  NoiseRng rng = NoiseRng::Replayable({});
  NoiseBuffer noise;
  Released<Vec> out;
  EXPECT_TRUE(Expose().ReleaseForAll(total, NoiseStd{1.0}, book, rng, noise, out).ok());
  return *out;
}

TEST(Entrusted, ATermIsTheClippedVectorBitForBitWhoeverAppliesTheFactor) {
  Stream rng({.seed = 3, .purpose = Purpose::kTest});
  Entrusted sent;      // reused, as by a thread
  for (const double c : {1.0, 1e-3, 1e-200}) {
    const L2Bound clip = L2Bound::Proven(c);
    for (const Vec& v :
         {Vec{0.3, 0.4}, Vec{30, 40}, Vec{0, 0}, Vec{5e-324, 0}, Vec{1e200, 1e200}, Vec{kNan, 1},
          Vec{kInf, -kInf}, Vec{1, -kInf}, Vec{1e140, 0}, Vec{1e-160, -3e-162}, Vec{}})
      EXPECT_EQ(EntrustedTerm(v, clip, sent), Clipped(v, clip));
  }
  for (int trial = 0; trial < 1000; ++trial) {
    const double scale = std::exp(40 * (rng.Uniform() - 0.5)), c = std::exp(20 * (rng.Uniform() - 0.5));
    Vec v(1 + rng.Below(200));
    for (double& x : v) x = scale * rng.Normal();
    const Vec term = EntrustedTerm(v, L2Bound::Proven(c), sent);
    EXPECT_EQ(term, Clipped(v, L2Bound::Proven(c)));
    EXPECT_LE(Length(term), static_cast<long double>(c));
    Private<Vec> back;
    Bounded::Recall(sent, back);
    EXPECT_EQ(Opened(Bounded::Clip(back, L2Bound::Proven(2 * c))), term);
  }
}

// What a client elsewhere sent is taken if a client can send it, and is then its term bit for bit.
TEST(Entrusted, AcceptsWhatAClientCanSendAndNothingLonger) {
  const L2Bound clip{2.0};
  const auto taken = [&](const Vec& v, double weight) {
    Private<Vec> zero{Vec(2)}, sent{v};
    Entrusted out;
    const bool ok = Bounded::Clip(zero, clip).Accept(sent, weight, out);
    EXPECT_EQ(out.dim(), ok ? 2u : 0u);
    if (ok) {
      EntrustedSum sum;
      sum.Reset();
      sum.Add(out);
      EXPECT_EQ(Opened(sum.Total()), v);
      EXPECT_EQ(sum.Total().bound(), clip);
      EXPECT_EQ(sum.weight(), weight);
    }
    return ok;
  };
  EXPECT_TRUE(taken({0, 0}, 1));
  EXPECT_TRUE(taken({2, 0}, 1));
  EXPECT_TRUE(taken({std::nextafter(2, 3), 0}, 1));      // roundings
  EXPECT_FALSE(taken({2.0001, 0}, 1));
  EXPECT_TRUE(taken({1, 0}, 0.5));
  EXPECT_FALSE(taken({1.01, 0}, 0.5));
  EXPECT_FALSE(taken({1e200, 1e200}, 1));
  EXPECT_FALSE(taken({kNan, 0}, 1));
  EXPECT_FALSE(taken({kInf, 0}, 1));
  EXPECT_FALSE(taken({1}, 1));
  EXPECT_FALSE(taken({1, 0, 0}, 1));
  EXPECT_FALSE(taken({}, 1));
}

// A vector that comes by its factors: in the ball by the length that comes with it, and nothing without one.
TEST(Entrusted, AFactoredVectorIsClippedByItsLength) {
  const Vec d = {3, 4, 0, 1};      // two rows of factors, two outputs
  for (const double length : {5.5, 1e10, 0.5, kInf, kNan, 0x1p500}) {
    SCOPED_TRACE(length);
    FactoredVec v;
    v.columns = v.out = 2;
    v.x.used = {0, 1};
    v.x.begin = {0, 2};
    v.x.row = {0, 1};
    v.x.first = {1.0, 0.0};
    v.x.second = {0.0, -1.0};      // (3, 4) and −(0, 1)
    v.factors.resize(d.size() + 8);
    std::copy(d.begin(), d.end(), v.factors.begin() + static_cast<std::ptrdiff_t>(ToLine(v.factors.data())));
    v.tail = {0.5};
    v.length = length;
    const Vec whole = {3, 4, 0, -1, 0.5};
    Private<FactoredVec> p(std::move(v));
    Entrusted sent;
    Bounded::ClipAndEntrust(p, L2Bound{1.0}, sent);
    EXPECT_EQ(sent.dim(), 5u);
    EntrustedSum sum;
    sum.Reset();
    sum.Add(sent);
    const Vec once = Opened(sum.Total());
    EXPECT_EQ(sum.Total().bound(), L2Bound{1.0});
    const double t = !(length < 0x1p500) ? 0.0 : length > 1 ? 1 / length : 1.0;
    for (std::size_t j = 0; j < 5; ++j) EXPECT_NEAR(once[j], t * whole[j], 1e-14);
    if (length > 1) {
      EXPECT_LE(Length(once), 1.0L);
    }
    sum.Add(sent);      // the second term is added to the first
    const Vec twice = Opened(sum.Total());
    for (std::size_t j = 0; j < 5; ++j) EXPECT_EQ(twice[j], 2 * once[j]);
    Private<Vec> back;
    Bounded::Recall(sent, back);
    EXPECT_EQ(Opened(Bounded::Clip(back, L2Bound{1e9})), once);
  }
}

TEST(Entrusted, WhatWasClearedIsNotThere) {
  Entrusted sent;
  EXPECT_EQ(sent.dim(), 0u);
  Private<Vec> v(Vec{3, 4});
  Bounded::ClipAndEntrust(v, L2Bound{1.0}, sent);
  EXPECT_EQ(sent.dim(), 2u);
  sent.Clear();
  EXPECT_EQ(sent.dim(), 0u);
  EntrustedSum sum;
  EXPECT_DEATH(sum.Add(sent), "given_");
  EXPECT_DEATH(Bounded::Recall(sent, v), "given_");
}

// The exact sum of the terms in the ball and the computed one differ by what is charged, and no more.
TEST(Entrusted, ReplacingAClientMovesTheComputedSumByAtMostTheSensitivity) {
  Stream rng({.seed = 4, .purpose = Purpose::kTest});
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t d = 1 + rng.Below(20), clients = 1 + rng.Below(30), who = rng.Below(clients);
    const L2Bound clip{0.7};
    std::vector<Vec> v(clients, Vec(d));
    for (Vec& one : v)
      for (double& x : one) x = std::exp(8 * rng.Normal()) * rng.Normal();
    const auto total = [&](const std::vector<Vec>& all, double& bound) {
      EntrustedSum sum;
      sum.Reset();
      for (const Vec& one : all) {
        Entrusted sent;
        Private<Vec> p(one);
        Bounded::ClipAndEntrust(p, clip, sent);
        sum.Add(sent);
      }
      const Bounded b = sum.Total();
      bound = b.Sensitivity(Adjacency::kReplaceOne).value();
      return Opened(b);
    };
    double bound = 0;
    const Vec before = total(v, bound);
    for (double& x : v[who]) x = -x;      // the far side of the ball
    const Vec after = total(v, bound);
    EXPECT_LE(Distance(before, after), static_cast<long double>(bound));
    EXPECT_LT(bound, 1.4 * (1 + 1e-12));
  }
}

// Least squares at x = 0 with label −1: the gradient of a record is its row.
Dataset Rows(std::size_t features, Vec values) {
  Dataset data;
  data.features = features;
  data.value.assign(values.begin(), values.end());
  data.label.assign(data.value.size() / features, -1.0);
  for (std::size_t i = 0; i < data.rows(); ++i)
    data.norm.push_back(NormUp(View(data.value).subspan(i * features, features)));
  return data;
}

Vec SumOfRows(const Dataset& data, L2Bound c, ClipSpace& space) {
  const auto f = MakeObjective(Loss::kLeastSquares, 0);
  const Private<Shard> shard(Shard(data, 0, data.rows()));
  return Opened(Bounded::ClippedSum(shard, *f, Vec(data.features), c, space));
}

L2Bound SensitivityOf(const Dataset& data, L2Bound c, Adjacency adjacency) {
  const auto f = MakeObjective(Loss::kLeastSquares, 0);
  ClipSpace space;
  const Private<Shard> shard(Shard(data, 0, data.rows()));
  return Bounded::ClippedSum(shard, *f, Vec(data.features), c, space).Sensitivity(adjacency);
}

TEST(ClippedSum, ARecordThatCannotBeMeasuredContributesNothing) {
  ClipSpace space;
  for (const Vec& bad : {Vec{kNan, 1}, Vec{kInf, 0}, Vec{-kInf, kInf}, Vec{1.7e308, 1.7e308}}) {
    const Dataset data = Rows(2, {0.5, 0.25, bad[0], bad[1], -0.125, 0});
    const Vec sum = SumOfRows(data, L2Bound{1.0}, space);
    if (std::isfinite(data.norm[1])) continue;
    EXPECT_EQ(sum, (Vec{0.375, 0.25}));
  }
  const Dataset denormal = Rows(2, {5e-324, -5e-324});
  EXPECT_LE(Length(SumOfRows(denormal, L2Bound{1.0}, space)), 1e-300L);
  Dataset label = Rows(2, {0.5, 0.5});
  label.label[0] = kNan;
  EXPECT_EQ(SumOfRows(label, L2Bound{1.0}, space), (Vec{0, 0}));
}

TEST(ClippedSum, IsTheSumOfClippedGradients) {
  for (const Loss loss : {Loss::kLogistic, Loss::kSoftmax, Loss::kLeastSquares}) {
    const std::size_t m = 200, features = 7;
    const auto f = MakeObjective(loss, 3);
    const std::size_t d = f->dim(features);
    const Dataset data = test::RandomData(loss, 3, m, features, 0.7, 5);
    const Vec x = test::RandomVec(d, 1.0, 6);
    const double c = 0.8;
    std::vector<long double> want(d);
    for (std::size_t l = 0; l < m; ++l) {  // one record at a time, clipped in long double
      const Shard one(data, l, 1);
      Workspace ws;
      Vec norm(1), g(d);
      f->RecordNorms(one, x, ws, norm);
      f->WeightedSum(one, x, ws, Vec{1.0}, g);
      const long double w = std::min<long double>(1.0L, c / Length(g));
      for (std::size_t j = 0; j < d; ++j) want[j] += w * g[j];
    }
    ClipSpace space;
    const Private<Shard> shard(Shard(data, 0, m));
    const Bounded sum = Bounded::ClippedSum(shard, *f, x, L2Bound{0.8}, space);
    const Vec got = Opened(sum);
    for (std::size_t j = 0; j < d; ++j) EXPECT_NEAR(got[j], static_cast<double>(want[j]), 1e-12 * m);
  }
}

TEST(ClippedSum, OneRecordStaysInTheBallAsRounded) {
  Stream rng({.seed = 3, .purpose = Purpose::kTest});
  ClipSpace space;
  for (int trial = 0; trial < 2000; ++trial) {
    const std::size_t d = 1 + rng.Below(40);
    Vec row(d);
    for (double& v : row) v = 5 * rng.Normal();
    EXPECT_LE(Length(SumOfRows(Rows(d, row), L2Bound{1.0}, space)), 1.0L);
  }
}

// The law the privacy proof stands on.
TEST(ClippedSum, OneRecordMovesTheSumByAtMostTheSensitivity) {
  Stream rng({.seed = 4, .purpose = Purpose::kTest});
  ClipSpace space;
  double worst = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t m = 1 + rng.Below(300), d = 1 + rng.Below(6);
    Vec values(m * d);
    const double scale = std::exp(6 * (rng.Uniform() - 0.5));
    for (double& v : values) v = scale * rng.Normal();
    Dataset data = Rows(d, values);
    const Vec before = SumOfRows(data, L2Bound{1.0}, space);
    const std::size_t at = rng.Below(m);
    for (std::size_t j = 0; j < d; ++j) {
      // The worst neighbour is the antipode; others, and unmeasurable ones, must do no worse.
      const double v = values[at * d + j];
      values[at * d + j] = trial % 4 == 0 ? rng.Normal() * 1e3 : trial % 4 == 1 ? kNan : -v;
    }
    data = Rows(d, values);
    const Vec after = SumOfRows(data, L2Bound{1.0}, space);
    const double moved = static_cast<double>(Distance(before, after));
    EXPECT_LE(moved, SensitivityOf(data, L2Bound{1.0}, Adjacency::kReplaceOne).value());
    worst = std::max(worst, moved);
  }
  EXPECT_GT(worst, 1.999);  // the test reaches the bound it tests
}

TEST(ClippedSum, LongAdversarialShardsStayWithinTheSensitivity) {
  constexpr std::size_t kRecords = 100000, kDim = 2;
  const double angle = 0.7, u[2] = {std::cos(angle), std::sin(angle)};
  ClipSpace space;
  const struct {
    const char* why;
    int kind;
  } kCases[] = {{"all alike: the sum grows and every later addition rounds", 0},
                {"antipodal pairs: the sum stays small", 1},
                {"first half up, second half down", 2}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    Vec values(kRecords * kDim);
    for (std::size_t l = 0; l < kRecords; ++l) {
      const double sign = c.kind == 0 ? 1 : c.kind == 1 ? (l % 2 ? -1 : 1) : (l < kRecords / 2 ? 1 : -1);
      for (std::size_t j = 0; j < kDim; ++j) values[l * kDim + j] = 3 * sign * u[j];
    }
    Dataset data = Rows(kDim, values);
    const Vec before = SumOfRows(data, L2Bound{1.0}, space);
    const double replace = SensitivityOf(data, L2Bound{1.0}, Adjacency::kReplaceOne).value();
    const double zero = SensitivityOf(data, L2Bound{1.0}, Adjacency::kZeroOut).value();
    for (const std::size_t at : {std::size_t{0}, kRecords / 2, kRecords - 1}) {
      for (std::size_t j = 0; j < kDim; ++j) data.value[at * kDim + j] *= -1;
      EXPECT_LE(Distance(before, SumOfRows(data, L2Bound{1.0}, space)), replace);
      for (std::size_t j = 0; j < kDim; ++j) data.value[at * kDim + j] *= -1;
      const double label = std::exchange(data.label[at], 0.0);  // zero gradient: the null record
      EXPECT_LE(Distance(before, SumOfRows(data, L2Bound{1.0}, space)), zero);
      data.label[at] = label;
    }
  }
}

TEST(ClippedSum, RemovingARecordMovesTheSumByAtMostTheSensitivity) {
  Stream rng({.seed = 8, .purpose = Purpose::kTest});
  ClipSpace space;
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t m = 1 + rng.Below(100), d = 3;
    Vec values(m * d);
    for (double& v : values) v = 4 * rng.Normal();
    const Dataset with = Rows(d, values), without = Rows(d, Vec(values.begin() + d, values.end()));
    const double moved = static_cast<double>(
        Distance(SumOfRows(with, L2Bound{1.0}, space), SumOfRows(without, L2Bound{1.0}, space)));
    // Both neighbours must charge enough: the guarantee holds from either side.
    EXPECT_LE(moved, SensitivityOf(with, L2Bound{1.0}, Adjacency::kAddOrRemove).value());
    EXPECT_LE(moved, SensitivityOf(without, L2Bound{1.0}, Adjacency::kAddOrRemove).value());
  }
}

TEST(Sensitivity, IsTheFactorPlusTheFloatingPointSlack) {
  const long double u = 0x1p-53L;
  for (const std::size_t m : {1u, 100u, 561u, 100000u}) {
    const std::size_t k = m + 2;
    const long double gamma = k * u / (1 - k * u), slack = 2 * gamma * m * 1.5L;
    const auto at = [&](Adjacency a) {
      return static_cast<long double>(Bounded::Sensitivity(a, L2Bound{1.5}, m, k).value());
    };
    EXPECT_GE(at(Adjacency::kReplaceOne), 3.0L + slack) << m;
    EXPECT_NEAR(static_cast<double>((at(Adjacency::kReplaceOne) - 3.0L) / slack), 1.0,
                1e-3 + 1e-15 / static_cast<double>(slack))
        << m;
    EXPECT_GE(at(Adjacency::kZeroOut), 1.5L + slack) << m;
    EXPECT_LT(at(Adjacency::kZeroOut), 1.5L + slack * 1.001L + 1e-15L) << m;
    EXPECT_GE(at(Adjacency::kAddOrRemove), at(Adjacency::kZeroOut)) << m;  // the neighbour may be longer
  }
  // m = 561: γ_k alone is 6e-14, and the relative slack γ_k·m is 3.5e-11.
  const double relative =
      Bounded::Sensitivity(Adjacency::kReplaceOne, L2Bound{1.0}, 561, 563).value() / 2 - 1;
  EXPECT_NEAR(relative, 563 * 0x1p-53 * 561, 1e-15);
  EXPECT_NEAR(relative, 3.5e-11, 0.1e-11);
  EXPECT_EQ(Bounded::Sensitivity(Adjacency::kReplaceOne, L2Bound{1.0}, 1, 0).value(),
            2.0);  // one clipped vector
  EXPECT_EQ(Bounded::Sensitivity(Adjacency::kZeroOut, L2Bound{1.0}, 1, 0).value(), 1.0);
}

TEST(Unbounded, KnowsItsBoundOnlyWhereOneHolds) {
  Dataset data = Rows(2, {0.5, 0, 0, 0.5});
  const Private<Shard> shard(Shard(data, 0, 2));
  const Vec x(2);
  ClipSpace space;
  const auto squares = MakeObjective(Loss::kLeastSquares, 0), logistic = MakeObjective(Loss::kLogistic, 0);
  EXPECT_FALSE(Unbounded::Sum(shard, *squares, x, space).Sensitivity(Adjacency::kReplaceOne));
  EXPECT_FALSE(Unbounded::Sum(shard, *logistic, x, space).Sensitivity(Adjacency::kReplaceOne));
  data.row_bound = 0.5;
  EXPECT_FALSE(Unbounded::Sum(shard, *squares, x, space).Sensitivity(Adjacency::kReplaceOne));
  const auto s = Unbounded::Sum(shard, *logistic, x, space).Sensitivity(Adjacency::kReplaceOne);
  ASSERT_TRUE(s);
  EXPECT_NEAR(s->value(), 1.0, 1e-12);
  EXPECT_GE(s->value(), 1.0);
}

TEST(Unbounded, AnOverflowingIterateDoesNotBreakTheBound) {
  // Margins of ∞ − ∞ make a record's slope NaN; it must then contribute nothing, not spoil the sum.
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const Vec x = {1.7e308, 1.7e308};
  const auto sum = [&](Vec values) {
    Dataset data = Rows(2, std::move(values));
    data.row_bound = 2;
    const Private<Shard> shard(Shard(data, 0, data.rows()));
    ClipSpace space;
    const Unbounded v = Unbounded::Sum(shard, *f, x, space);
    Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
    NoiseRng rng = NoiseRng::Replayable({});
    NoiseBuffer noise;
    Released<Vec> out;
    EXPECT_TRUE(
        Expose()
            .ReleaseAsClaimed(v, NoiseStd{1.0}, {"", Epsilon{1.0}, Delta{0.1}}, ledger, rng, noise, out)
            .ok());
    return std::pair(*out, v.Sensitivity(Adjacency::kReplaceOne)->value());
  };
  Vec rows, other;
  for (int i = 0; i < 20; ++i) rows.insert(rows.end(), {0.1, 0.1});
  other = rows;
  other[0] = 1.4, other[1] = -1.4;  // ∞ − ∞
  const auto [a, sensitivity] = sum(rows);
  EXPECT_LE(Distance(a, sum(other).first), sensitivity);
}

// Persons: 1-d rows a with least squares at x = 0, where the gradient of a record is −y·a: any number.
Dataset PersonData(const std::vector<std::vector<double>>& gradients, PersonBound bound, std::size_t most) {
  Dataset d;
  d.features = 1;
  for (std::uint32_t p = 0; p < gradients.size(); ++p)
    for (const double g : gradients[p]) {
      d.value.push_back(1.0);
      d.norm.push_back(1.0);
      d.label.push_back(-g);
      d.person.push_back(p);
    }
  d.person_bound = bound;
  d.records_per_person = most;
  return d;
}

struct Summed {
  double value;
  L2Bound sensitivity;
};
Summed SumOfClient(const std::vector<std::vector<double>>& gradients, PersonBound bound, std::size_t most,
                   Adjacency adjacency) {
  const Dataset d = PersonData(gradients, bound, most);
  const auto f = MakeObjective(Loss::kLeastSquares, 0);
  ClipSpace space;
  const Private<Shard> shard(Shard(d, 0, d.rows()));
  const Vec x{0.0};
  const Bounded b = Bounded::ClippedSum(shard, *f, x, L2Bound{1.0}, space);
  const L2Bound s = b.Sensitivity(adjacency);
  return {Opened(b)[0], s};
}

// Every way in which one person's records can be, out of 0 to 3 records of these gradients.
std::vector<std::vector<double>> EveryPerson(std::size_t most) {
  const double kGradients[] = {-1e9, -1, -0.4, 0, 0.7, 1e9, 1e300};
  std::vector<std::vector<double>> all = {{}}, last = {{}};
  for (std::size_t n = 1; n <= most; ++n) {
    std::vector<std::vector<double>> next;
    for (const auto& p : last)
      for (const double g : kGradients) {
        next.push_back(p);
        next.back().push_back(g);
      }
    all.insert(all.end(), next.begin(), next.end());
    last = std::move(next);
  }
  return all;
}

TEST(Persons, BruteForceNoPersonMovesTheSumByMoreThanIsCharged) {
  for (const PersonBound bound : {PersonBound::kRecords, PersonBound::kSum})
    for (const Adjacency adjacency : {Adjacency::kReplaceOne, Adjacency::kAddOrRemove, Adjacency::kZeroOut}) {
      constexpr std::size_t kMost = 3;
      double widest = 0, charged = kInf;
      const auto persons = EveryPerson(kMost);
      std::vector<double> sums;
      for (const auto& p : persons) {
        const Summed s = SumOfClient({{0.3, 0.3}, p, {-0.9}}, bound, kMost, adjacency);
        sums.push_back(s.value);
        charged = std::min(charged, s.sensitivity.value());
      }
      // replace-one: any two; otherwise against the person who is not there (persons[0] has no records).
      for (std::size_t i = 0; i < sums.size(); ++i)
        for (std::size_t j = 0; j < (adjacency == Adjacency::kReplaceOne ? sums.size() : 1); ++j)
          widest = std::max(widest, std::abs(sums[i] - sums[j]));
      const double terms = bound == PersonBound::kRecords ? kMost : 1;
      const double real = (adjacency == Adjacency::kReplaceOne ? 2 : 1) * terms;
      EXPECT_LE(widest, charged);
      EXPECT_NEAR(widest, real, 1e-12);  // attained
      EXPECT_NEAR(charged, real, 1e-12);  // and not overpaid
      EXPECT_GT(charged, real);
    }
}

TEST(Persons, SpreadOverClientsTheStackedChangeIsCovered) {
  // A person with three records, held by one to three clients; everything each client sends, stacked.
  const std::vector<std::vector<double>> others = {{0.3, 0.3}, {-0.9}};
  for (const Adjacency adjacency : {Adjacency::kReplaceOne, Adjacency::kAddOrRemove}) {
    double widest = 0, charged = kInf;
    for (int before = 0; before < 27; ++before)  // which client has the k-th record, before and after
      for (int after = 0; after < (adjacency == Adjacency::kReplaceOne ? 27 : 1); ++after) {
        double squares = 0;
        for (int client = 0; client < 3; ++client) {
          auto a = others, b = others;
          a.emplace_back(), b.emplace_back();
          for (int k = 0, u = before, v = after; k < 3; ++k, u /= 3, v /= 3) {
            if (u % 3 == client) a.back().push_back(5.0);
            if (v % 3 == client && adjacency == Adjacency::kReplaceOne) b.back().push_back(-5.0);
          }
          const Summed one = SumOfClient(a, PersonBound::kRecords, 3, adjacency),
                       two = SumOfClient(b, PersonBound::kRecords, 3, adjacency);
          charged = std::min({charged, one.sensitivity.value(), two.sensitivity.value()});
          squares += (one.value - two.value) * (one.value - two.value);
        }
        widest = std::max(widest, std::sqrt(squares));
      }
    EXPECT_LE(widest, charged);
    EXPECT_NEAR(widest, adjacency == Adjacency::kReplaceOne ? 6.0 : 3.0, 1e-12);
  }
}

TEST(Persons, ThePriceOfSpreadingIsCoveredForEverySpread) {
  // √(Σ n_i²)·C + √A·e ≤ N·C + e for e ≤ C: every composition of N up to 9 (docs/privacy.md, Persons).
  for (int n = 1; n <= 9; ++n)
    for (int cut = 0; cut < 1 << (n - 1); ++cut) {
      double squares = 0, parts = 1, size = 1;
      for (int k = 0; k + 1 < n; ++k) {
        if ((cut >> k & 1) != 0) {
          squares += size * size;
          size = 0;
          ++parts;
        }
        ++size;
      }
      squares += size * size;
      for (const double e : {0.0, 1e-9, 0.5, 1.0})
        EXPECT_LE(std::sqrt(squares) + std::sqrt(parts) * e, n + e + 1e-12) << n << ' ' << cut;
    }
}

TEST(Persons, ASumIsClippedAsAWholeAndNonsenseIsNothing) {
  EXPECT_NEAR(SumOfClient({{0.3, 0.3}, {5, -4.5}}, PersonBound::kSum, 1, Adjacency::kReplaceOne).value, 1.1,
              1e-14);  // 0.6 + 0.5: neither is clipped, though records of the second are longer than 1
  EXPECT_NEAR(SumOfClient({{3, 3}, {-0.25}}, PersonBound::kSum, 1, Adjacency::kReplaceOne).value, 0.75,
              1e-14);
  EXPECT_EQ(SumOfClient({{kInf, 0.5}}, PersonBound::kSum, 1, Adjacency::kReplaceOne).value, 0.5);
  EXPECT_EQ(SumOfClient({{kNan}}, PersonBound::kSum, 1, Adjacency::kReplaceOne).value, 0.0);
}

TEST(Persons, OneRecordEachIsTheRecordUnit) {
  const auto by_record = SumOfClient({{0.3}, {5}, {-0.2}}, PersonBound::kNone, 1, Adjacency::kReplaceOne);
  const auto one = SumOfClient({{0.3}, {5}, {-0.2}}, PersonBound::kRecords, 1, Adjacency::kReplaceOne);
  EXPECT_EQ(one.value, by_record.value);
  EXPECT_NEAR(one.sensitivity.value(), by_record.sensitivity.value(), 1e-13);
  EXPECT_GE(one.sensitivity.value(), by_record.sensitivity.value());
}

}  // namespace
}  // namespace tacit
