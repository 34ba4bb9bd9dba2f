#include "privacy/mechanism.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/test_data.h"
#include "privacy/lattice_sampler.h"

namespace tacit {
namespace {

constexpr double kSix = 4.892;  // two-sided normal quantile of 1e-6, the false-alarm rate of each statistic
constexpr StreamId kId = {.seed = 11, .purpose = Purpose::kNoise, .who = 3, .round = 5};

struct Setting {
  explicit Setting(Vec v) : value(std::move(v)) {}
  Private<Vec> value;
  NoiseRng rng = NoiseRng::Replayable(kId);
  NoiseBuffer noise;
  Released<Vec> out;
  Status Release(const Mechanism& m, NoiseStd sigma, Ledger& ledger, L2Bound clip = L2Bound{1.0}) {
    return m.Release(Bounded::Clip(value, clip), sigma, ledger, rng, noise, out);
  }
};

MuSquared Limit(double mu) { return Squared(Mu::Proven(mu)); }

TEST(Mechanism, RefusalDrawsNothingAndLeavesTheResultUntouched) {
  const LatticeGaussian lattice;
  const FloatGaussian real;
  const Expose expose;
  for (const Mechanism* m : {static_cast<const Mechanism*>(&lattice), static_cast<const Mechanism*>(&real),
                             static_cast<const Mechanism*>(&expose)}) {
    Setting s({0.5, 0.5});
    Ledger open(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
    ASSERT_TRUE(s.Release(*m, NoiseStd{1.0}, open).ok());
    const Vec before = *s.out;
    s.rng.Rekey(kId);
    Ledger ledger(Limit(0.1), Adjacency::kReplaceOne);
    const Status refused = s.Release(*m, NoiseStd{1.0}, ledger);  // needs μ = 2
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kBudget);
    EXPECT_EQ(*s.out, before);
    EXPECT_EQ(ledger.spent().value(), 0.0);
    EXPECT_EQ(ledger.charges(), 0u);
    EXPECT_EQ(s.rng.Bits(), NoiseRng::Replayable(kId).Bits()) << m->name();
  }
}

TEST(Mechanism, PaysWhatTheEventSays) {
  const LatticeGaussian lattice;
  Setting s({0.5, 0.5, 0.1});
  Ledger ledger(Limit(10), Adjacency::kReplaceOne);
  ASSERT_TRUE(s.Release(lattice, NoiseStd{1.0}, ledger).ok());
  EXPECT_EQ(ledger.spent(), Cost(lattice.EventFor(L2Bound{2.0}, NoiseStd{1.0}, 3)));
  Ledger zero_out(Limit(10), Adjacency::kZeroOut);
  ASSERT_TRUE(s.Release(lattice, NoiseStd{1.0}, zero_out).ok());
  EXPECT_EQ(zero_out.spent(), Cost(lattice.EventFor(L2Bound{1.0}, NoiseStd{1.0}, 3)));
}

// Threads remember the last sensitivity and the last event: what is charged must not be that of another
// release.
TEST(Mechanism, ChargesForThisReleaseAndNotForTheLast) {
  const LatticeGaussian lattice, other;
  const FloatGaussian real;
  const struct {
    const Mechanism& m;
    std::size_t dim;
    NoiseStd sigma;
    L2Bound clip;
    Adjacency adjacency;
  } cases[] = {
      {lattice, 3, NoiseStd{1.0}, L2Bound{1.0}, Adjacency::kReplaceOne},
      {lattice, 3, NoiseStd{1.0}, L2Bound{1.0}, Adjacency::kReplaceOne},
      {lattice, 3, NoiseStd{1.0}, L2Bound{1.0}, Adjacency::kZeroOut},
      {lattice, 3, NoiseStd{1.0}, L2Bound{2.0}, Adjacency::kZeroOut},
      {lattice, 3, NoiseStd{0.5}, L2Bound{2.0}, Adjacency::kZeroOut},
      {lattice, 4, NoiseStd{0.5}, L2Bound{2.0}, Adjacency::kZeroOut},
      {real, 4, NoiseStd{0.5}, L2Bound{2.0}, Adjacency::kZeroOut},
      {other, 4, NoiseStd{0.5}, L2Bound{2.0}, Adjacency::kZeroOut},
      {real, 4, NoiseStd{0.5}, L2Bound{2.0}, Adjacency::kReplaceOne},
  };
  for (const auto& c : cases) {
    Setting s(Vec(c.dim, 0.1));
    Ledger ledger(Limit(100), c.adjacency);
    ASSERT_TRUE(s.Release(c.m, c.sigma, ledger, c.clip).ok());
    const double factor = c.adjacency == Adjacency::kReplaceOne ? 2 : 1;
    EXPECT_EQ(ledger.spent(), Cost(c.m.EventFor(L2Bound::Proven(factor * c.clip.value()), c.sigma, c.dim)));
    EXPECT_EQ(ledger.charges(), 1u);
  }
  // A mechanism in the place of one that is gone is not taken for it.
  for (int k = 0; k < 4; ++k) {
    const auto m = *MakeMechanism(k % 2 == 0 ? "lattice_gaussian" : "gaussian");
    Setting s(Vec(3, 0.1));
    Ledger ledger(Limit(100), Adjacency::kReplaceOne);
    ASSERT_TRUE(s.Release(*m, NoiseStd{1.0}, ledger).ok());
    EXPECT_EQ(ledger.spent(), Cost(m->EventFor(L2Bound{2.0}, NoiseStd{1.0}, 3)));
  }
}

// A temporary sum gives its vector away: the release, the noise and the price are those of a copy, and a
// refusal leaves the sum where it was.
TEST(Mechanism, AReleasedTemporaryIsTheReleaseOfACopy) {
  const Dataset data = test::RandomData(Loss::kLogistic, 0, 20, 37, 1.0, 4);
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const Vec x = test::RandomVec(37, 1.0, 5);
  const Private<Shard> own(Shard(data, 0, 20));
  const LatticeGaussian lattice;
  const FloatGaussian real;
  const Expose expose;
  for (const Mechanism* m : {static_cast<const Mechanism*>(&lattice), static_cast<const Mechanism*>(&real),
                             static_cast<const Mechanism*>(&expose)}) {
    ClipSpace space;
    NoiseBuffer noise;
    Released<Vec> copied, taken;
    Ledger one(MuSquared::Proven(kInf), Adjacency::kReplaceOne), other = one,
                                                                 poor(Limit(1e-9), Adjacency::kReplaceOne);
    for (int turn = 0; turn < 3; ++turn) {
      NoiseRng rng = NoiseRng::Replayable(kId);
      const Bounded sum = Bounded::ClippedSum(own, *f, x, L2Bound{0.5}, space);
      ASSERT_TRUE(m->Release(sum, NoiseStd{0.7}, one, rng, noise, copied).ok());
      rng.Rekey(kId);
      const Vec before = *taken;
      ASSERT_FALSE(m->Release(Bounded(sum), NoiseStd{0.7}, poor, rng, noise, taken).ok());
      EXPECT_EQ(*taken, before);
      ASSERT_TRUE(m->Release(Bounded::ClippedSum(own, *f, x, L2Bound{0.5}, space), NoiseStd{0.7}, other, rng,
                             noise, taken)
                      .ok());
      EXPECT_EQ(*taken, *copied) << m->name();
      EXPECT_EQ(one.spent().value(), other.spent().value());
    }
  }
}

// The same for sums that are released where they lie: whatever of the public numbers changes, the price is
// that of this release. By noise from entropy, too, whose deviates come from a stock.
TEST(Mechanism, ASumIsChargedForItselfAndNotForTheLast) {
  Dataset data = test::RandomData(Loss::kLogistic, 0, 40, 37, 1.0, 4);
  data.person.assign(40, 0);
  const auto f = MakeObjective(Loss::kLogistic, 0);
  const Vec x = test::RandomVec(37, 1.0, 5);
  Dataset narrow = test::RandomData(Loss::kLogistic, 0, 40, 8, 1.0, 4);
  const LatticeGaussian lattice;
  struct Case {
    double sigma = 0.7, clip = 0.5;
    std::size_t records = 20, charged = 0, per_person = 0;
    Adjacency adjacency = Adjacency::kReplaceOne;
    bool narrow = false;
  };
  const Case cases[] = {{},
                        {},
                        {.sigma = 0.8},
                        {.clip = 0.25},
                        {.records = 21},
                        {.charged = 1000},
                        {.per_person = 2},
                        {.per_person = 3},
                        {.adjacency = Adjacency::kZeroOut},
                        {.adjacency = Adjacency::kAddOrRemove},
                        {.narrow = true}};
  ClipSpace space;
  NoiseBuffer noise;
  Released<Vec> out;
  for (const bool replayable : {true, false}) {
    NoiseRng rng = replayable ? NoiseRng::Replayable(kId) : NoiseRng::FromEntropy();
    for (std::size_t i = 0; i < std::size(cases); ++i)
      for (const std::size_t k : {i, std::size_t{0}, i}) {  // and back to the first in between
        const Case& c = cases[k];
        SCOPED_TRACE(testing::Message() << k << " after " << i << ", " << replayable);
        Dataset& rows = c.narrow ? narrow : data;
        rows.charged_terms = c.charged;
        rows.person_bound = c.per_person > 0 ? PersonBound::kRecords : PersonBound::kNone;
        rows.records_per_person = std::max<std::size_t>(1, c.per_person);
        const Private<Shard> own(Shard(rows, 0, c.records));
        const View at = View(x).first(rows.features);
        const L2Bound clip = L2Bound::Proven(c.clip);
        const NoiseStd sigma = NoiseStd::Proven(c.sigma);
        ClipSpace other;
        const L2Bound moves = Bounded::ClippedSum(own, *f, at, clip, other).Sensitivity(c.adjacency);
        Ledger ledger(Limit(100), c.adjacency), poor(Limit(1e-9), c.adjacency);
        const Vec before = *out;
        ASSERT_FALSE(
            lattice.Release(Bounded::ClippedSum(own, *f, at, clip, space), sigma, poor, rng, noise, out)
                .ok());
        EXPECT_EQ(*out, before);
        EXPECT_EQ(poor.spent().value(), 0.0);
        ASSERT_TRUE(
            lattice.Release(Bounded::ClippedSum(own, *f, at, clip, space), sigma, ledger, rng, noise, out)
                .ok());
        EXPECT_EQ(ledger.spent(), Cost(lattice.EventFor(moves, sigma, rows.features)));
        EXPECT_EQ(ledger.charges(), 1u);
        EXPECT_EQ(out->size(), rows.features);
      }
  }
  data.person_bound = PersonBound::kNone;
}

// Deviates that are lent by the stock of a thread, by noise from entropy: what lies on the sum has the mean
// and the variance that were paid for, also where σ changes from release to release, and none is there twice.
TEST(Mechanism, ASumThatIsReleasedWhereItLiesHasTheNoiseThatWasPaidFor) {
  const LatticeGaussian lattice;
  const auto f = MakeObjective(Loss::kLogistic, 0);
  NoiseRng rng = NoiseRng::FromEntropy();
  NoiseBuffer noise;
  ClipSpace space;
  Workspace ws;
  Released<Vec> out;
  Vec exact;
  struct Moments {
    double sigma, n = 0, sum = 0, squares = 0;
  };
  Moments seen[] = {{.sigma = 0.7}, {.sigma = 1.4}};  // one c, two grids
  std::vector<double> deviates;
  for (const std::size_t d : {1u, 3u, 8u, 37u, 64u, 100u}) {
    const Dataset data = test::RandomData(Loss::kLogistic, 0, 12, d, 1.0, d);
    const Private<Shard> own(Shard(data, 0, 12));
    const Vec x = test::RandomVec(d, 1.0, 5);
    ASSERT_TRUE(f->ClippedSum(Shard(data, 0, 12), x, 0.5, ws, exact));
    for (int i = 0; i < 1500; ++i) {
      Moments& m = seen[i % 3 == 0 ? 0 : 1];
      const NoiseStd sigma = NoiseStd::Proven(m.sigma);
      Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
      ASSERT_TRUE(
          lattice
              .Release(Bounded::ClippedSum(own, *f, x, L2Bound{0.5}, space), sigma, ledger, rng, noise, out)
              .ok());
      const double grid = std::ldexp(1.0, LatticeScale::For(m.sigma).grid_exponent);
      for (std::size_t j = 0; j < d; ++j) {
        const double k = (*out)[j] / grid - std::nearbyint(exact[j] / grid), z = k * grid / m.sigma;
        ++m.n, m.sum += z, m.squares += z * z;
        deviates.push_back(k);
      }
    }
  }
  for (const Moments& m : seen) {
    EXPECT_LE(std::abs(m.sum) / std::sqrt(m.n), kSix) << m.sigma;
    EXPECT_LE(std::abs(m.squares - m.n) / std::sqrt(2 * m.n), kSix) << m.sigma;
  }
  // Two of N(0, c²) on the integers are equal with probability 1/(2√π c).
  const double n = static_cast<double>(deviates.size());
  const double chance = n * n / 2 / (2 * std::sqrt(M_PI) * LatticeScale::For(0.7).c);
  std::ranges::sort(deviates);
  double twice = 0;
  for (std::size_t i = 1; i < deviates.size(); ++i) twice += deviates[i] == deviates[i - 1] ? 1 : 0;
  EXPECT_LE(twice, chance + 6 * std::sqrt(chance) + 6);  // less than 1e-6 of a Poisson law
  EXPECT_EQ(LatticeScale::For(0.7).c, LatticeScale::For(1.4).c);
}

// The value on the grid plus the noise, coordinate by coordinate: the kernel in use has the same bits.
TEST(LatticeGaussian, ReleasesTheRoundedValuePlusTheNoise) {
  const LatticeGaussian lattice;
  Stream rng({.seed = 9, .purpose = Purpose::kTest});
  for (std::size_t d = 1; d <= 70; ++d)
    for (const double sigma : {0.37, 1e-9, 4e12}) {
      Vec v(d);
      for (double& x : v) x = rng.Below(7) == 0 ? -0.0 : sigma * rng.Normal();
      Setting s(v);
      Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
      ASSERT_TRUE(s.Release(lattice, NoiseStd::Proven(sigma), ledger, L2Bound{1e300}).ok());
      const LatticeScale scale = LatticeScale::For(sigma);
      std::vector<std::int64_t> k(d);
      NoiseRng same = NoiseRng::Replayable(kId);
      LatticeNormals(scale.c, same, k);
      const double grid = std::ldexp(1.0, scale.grid_exponent);
      for (std::size_t j = 0; j < d; ++j)
        EXPECT_EQ((*s.out)[j], (std::nearbyint(v[j] / grid) + static_cast<double>(k[j])) * grid) << d;
    }
}

TEST(LatticeGaussian, MuIsSensitivityPlusTheGridOverSigmaRoundedUp) {
  const LatticeGaussian lattice;
  for (const double sigma : {0.3, 1.0, 7.25, 1e-6, 1e9}) {
    for (const std::size_t d : {1u, 50u, 123456u}) {
      const auto event = std::get<GaussianEvent>(lattice.EventFor(L2Bound{2.0}, NoiseStd::Proven(sigma), d));
      const LatticeScale scale = LatticeScale::For(sigma);
      const long double g = std::ldexp(1.0L, scale.grid_exponent);
      EXPECT_LE(g, sigma * 0x1p-30L);
      const long double mu = (2.0L + g * std::sqrt(static_cast<long double>(d))) / sigma;
      EXPECT_GE(event.mu.value(), mu);
      EXPECT_LE(event.mu.value(), mu * (1 + 1e-15L));
      EXPECT_LE(event.mu.value(), (2.0L / sigma + lattice.OverheadMu(d)) * (1 + 1e-15L));
    }
  }
}

TEST(LatticeGaussian, ReleasesTheQuantisedSumPlusIntegersExactly) {
  const LatticeGaussian lattice;
  const double sigma = 0.75;
  const Vec v = {0.1, -0.2, 1.0 / 3, 0, 1e-12, -0.7};
  Setting s(v);
  Ledger ledger(Limit(1e3), Adjacency::kReplaceOne);
  ASSERT_TRUE(s.Release(lattice, NoiseStd{0.75}, ledger).ok());
  const LatticeScale scale = LatticeScale::For(sigma);
  const double g = std::ldexp(1.0, scale.grid_exponent);
  NoiseRng rng = NoiseRng::Replayable(kId);
  std::vector<std::int64_t> noise(v.size());
  LatticeNormals(scale.c, rng, noise);
  for (std::size_t j = 0; j < v.size(); ++j) {
    const double k = (*s.out)[j] / g;
    EXPECT_EQ(k, std::nearbyint(k));
    EXPECT_EQ(static_cast<std::int64_t>(k), std::llrint(v[j] / g) + noise[j]);
  }
}

// Sums far beyond the 53 bits of a double: the integer that is released is the nearest double, as if it had
// been added exactly; beyond 2⁶¹ steps, and for what is no number, it is projected.
TEST(LatticeGaussian, LargeSumsAreIntegersThatRoundOnce) {
  const LatticeGaussian lattice;
  const double sigma = 0.75, g = std::ldexp(1.0, LatticeScale::For(sigma).grid_exponent);
  const Vec steps = {0x1p53 + 2, -0x1p53 - 4, 0x1.8p55, 0x1p60, -0x1p60, 0x1p61, 1e30, -1e30, 0.5, 1.5, -0.5};
  Vec v;
  for (const double k : steps) v.push_back(k * g);
  Setting s(v);
  Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
  ASSERT_TRUE(s.Release(lattice, NoiseStd{0.75}, ledger, L2Bound{1e40}).ok());
  NoiseRng rng = NoiseRng::Replayable(kId);
  std::vector<std::int64_t> noise(v.size());
  LatticeNormals(LatticeScale::For(sigma).c, rng, noise);
  for (std::size_t j = 0; j < v.size(); ++j) {
    const double k = std::clamp(steps[j], -0x1p61, 0x1p61);
    const auto exact = static_cast<std::int64_t>(std::nearbyint(k)) + noise[j];
    EXPECT_EQ((*s.out)[j], static_cast<double>(exact) * g);
  }
}

// Where noise is as small as can be, a value is still on the grid that was charged for: 2^-1020 here.
TEST(LatticeGaussian, TheSmallestNoiseHasAGrid) {
  const LatticeGaussian lattice;
  const NoiseStd sigma = NoiseStd::Proven(0x1p-990);
  ASSERT_TRUE(lattice.CheckRange(0x1p-991, sigma).ok());
  const Vec value = {0x1p-991, -0x1p-992, 0, 0x1p-990, -0x1p-1020};
  Setting with(value), without(Vec(5));
  Ledger open(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
  ASSERT_TRUE(with.Release(lattice, sigma, open, L2Bound::Proven(0x1p-985)).ok());
  ASSERT_TRUE(without.Release(lattice, sigma, open, L2Bound::Proven(0x1p-985)).ok());
  for (std::size_t j = 0; j < value.size(); ++j) EXPECT_EQ((*with.out)[j] - (*without.out)[j], value[j]) << j;
  const Mu mu = std::get<GaussianEvent>(lattice.EventFor(L2Bound::Proven(0x1p-990), sigma, 4)).mu;
  EXPECT_GE(mu.value(), 1 + 2 * 0x1p-30);
  EXPECT_LE(mu.value(), 1 + 3 * 0x1p-30);
}

TEST(LatticeGaussian, RangeIsCheckedFromPublicNumbers) {
  const LatticeGaussian lattice;
  EXPECT_TRUE(lattice.CheckRange(1e5, NoiseStd{1.0}).ok());
  EXPECT_TRUE(lattice.CheckRange(0x1p29, NoiseStd{1.0}).ok());
  EXPECT_FALSE(lattice.CheckRange(0x1p31, NoiseStd{1.0}).ok());  // 2^61 grid steps
  EXPECT_FALSE(lattice.CheckRange(kInf, NoiseStd{1.0}).ok());
  EXPECT_FALSE(lattice.CheckRange(std::nan(""), NoiseStd{1.0}).ok());
  const Status tiny = lattice.CheckRange(1e5, NoiseStd::Proven(1e-6));
  ASSERT_FALSE(tiny.ok());
  EXPECT_NE(tiny.error().message.find("lower privacy.clip"), std::string::npos);
  EXPECT_FALSE(lattice.CheckRange(1, NoiseStd::Proven(1e305)).ok());  // no grid there: an error, no abort
  EXPECT_FALSE(lattice.CheckRange(0, NoiseStd::Proven(1e-305)).ok());
  EXPECT_FALSE(lattice.CheckRange(0, NoiseStd::Proven(0x1p-995)).ok());  // 1/g is no double there
}

struct Moments {
  double mean = 0, variance = 0, kurtosis = 0;
};
Moments Of(View v, double sigma) {
  Moments m;
  const auto n = static_cast<double>(v.size());
  for (double x : v) m.mean += x / n;
  for (double x : v) {
    const double z = (x - m.mean) / sigma;
    m.variance += z * z / n, m.kurtosis += z * z * z * z / n;
  }
  return m;
}

TEST(Mechanism, NoiseIsGaussianOfTheStatedStd) {  // six statistics, each with false-alarm rate 1e-6
  const LatticeGaussian lattice;
  const FloatGaussian real;
  constexpr std::size_t kCount = 200001;  // odd: Box and Muller draw in pairs
  const double n = kCount;
  for (const Mechanism* m : {static_cast<const Mechanism*>(&lattice), static_cast<const Mechanism*>(&real)}) {
    Setting s(Vec(kCount, 0.0));
    Ledger ledger(Limit(1e9), Adjacency::kReplaceOne);
    ASSERT_TRUE(s.Release(*m, NoiseStd{3.5}, ledger).ok());
    const Moments got = Of(*s.out, 3.5);
    EXPECT_LT(std::abs(got.mean / 3.5) * std::sqrt(n), kSix) << m->name();
    EXPECT_LT(std::abs(got.variance - 1) * std::sqrt(n / 2), kSix) << m->name();
    EXPECT_LT(std::abs(got.kurtosis - 3) * std::sqrt(n / 96), kSix) << m->name();
  }
}

TEST(FloatGaussian, SaysItsCaveatAndChargesWithoutAGrid) {
  const FloatGaussian real;
  EXPECT_NE(real.caveat().find("Mironov"), std::string::npos);
  EXPECT_TRUE(LatticeGaussian().caveat().empty());
  const auto event = std::get<GaussianEvent>(real.EventFor(L2Bound{2.0}, NoiseStd{3.0}, 10));
  EXPECT_GE(static_cast<long double>(event.mu.value()), 2.0L / 3);
  EXPECT_EQ(event.mu.value(), DivUp(2.0, 3.0));
}

TEST(Expose, IsRefusedByEveryFiniteBudget) {
  for (const double budget : {0.0, 1.0, 1e300, 1.7e308}) {
    Setting s({0.5});
    Ledger ledger(MuSquared::Proven(budget), Adjacency::kReplaceOne);
    EXPECT_FALSE(s.Release(Expose(), NoiseStd{1.0}, ledger).ok());
    EXPECT_TRUE(s.out->empty());
  }
  Setting s({0.5});
  Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
  ASSERT_TRUE(s.Release(Expose(), NoiseStd{1.0}, ledger).ok());
  EXPECT_EQ(*s.out, Vec{0.5});
  EXPECT_EQ(ledger.spent().value(), kInf);
}

struct Paper {
  explicit Paper(Loss loss, double row_bound)
      : data(test::RandomData(loss, 2, 30, 4, 1.0, 7)), f(MakeObjective(loss, 2)) {
    data.row_bound = row_bound;
    for (std::size_t i = 0; i < data.rows(); ++i) {
      const double w = std::min(1.0, 0.999 * row_bound / data.norm[i]);
      for (std::size_t j = 0; j < 4; ++j) data.value[i * 4 + j] *= w;
    }
    test::FillNorms(data);
  }
  Status Release(const Mechanism& m, Ledger& ledger, Released<Vec>& out) {
    const Private<Shard> shard(Shard(data, 0, data.rows()));
    ClipSpace space;
    NoiseBuffer noise;
    NoiseRng rng = NoiseRng::Replayable(kId);
    return m.ReleaseAsClaimed(Unbounded::Sum(shard, *f, Vec(4), space), NoiseStd{4.0},
                              {"a paper, eq. (1)", Epsilon{1.0}, Delta{1e-5}}, ledger, rng, noise, out);
  }
  Dataset data;
  std::unique_ptr<Objective> f;
};

TEST(PaperDoor, ChargesInfinityWhereNothingBoundsARecord) {
  Paper squares(Loss::kLeastSquares, 1.0);
  Released<Vec> out;
  Ledger unlimited(MuSquared::Proven(kInf), Adjacency::kReplaceOne),
      finite(Limit(1e6), Adjacency::kReplaceOne);
  ASSERT_TRUE(squares.Release(LatticeGaussian(), unlimited, out).ok());
  EXPECT_EQ(unlimited.spent().value(), kInf);
  EXPECT_EQ(unlimited.claims(), 1u);
  EXPECT_EQ(out->size(), 4u);
  Released<Vec> nothing;
  EXPECT_FALSE(squares.Release(LatticeGaussian(), finite, nothing).ok());
  EXPECT_TRUE(nothing->empty());
  EXPECT_EQ(finite.spent().value(), 0.0);
  EXPECT_EQ(finite.claims(), 0u);  // nothing was released, so nothing is claimed of it
}

TEST(PaperDoor, ChargesByTheEnforcedBoundWhereThereIsOne) {
  for (const double bound : {1.0, 0.5}) {
    Paper logistic(Loss::kLogistic, bound);
    Released<Vec> out;
    Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
    ASSERT_TRUE(logistic.Release(LatticeGaussian(), ledger, out).ok());
    const double mu = 2 * bound / 4.0;
    EXPECT_NEAR(std::sqrt(ledger.spent().value()), mu, 1e-8);
    EXPECT_GT(ledger.spent().value(), mu * mu);
    EXPECT_EQ(ledger.claims(), 1u);
    EXPECT_EQ(ledger.charges(), 1u);
  }
}

TEST(MakeMechanism, KnowsItsNames) {
  for (const char* name : {"lattice_gaussian", "gaussian", "expose"}) {
    const auto m = MakeMechanism(name);
    ASSERT_TRUE(m.ok());
    EXPECT_EQ((*m)->name(), name);
  }
  const auto m = MakeMechanism("laplace");
  ASSERT_FALSE(m.ok());
  EXPECT_NE(m.error().message.find("\"laplace\": unknown; choose"), std::string::npos);
}

}  // namespace
}  // namespace tacit
