// Attacks on the low bits of noise, which no audit of whole runs can see: they succeed on a textbook sampler,
// kept here alone, and fail on the engine's. After Mironov (CCS 2012) and Jin, McMurtry, Rubinstein,
// Ohrimenko (S&P 2022).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "privacy/lattice_sampler.h"
#include "privacy/mechanism.h"
#include "privacy/priv_unit.h"
#include "privacy/scalar_dp.h"
#include "privacy/secure_sum.h"

namespace tacit {
namespace {

// Box–Muller from 32-bit uniforms, added in double precision: as a textbook has it.
class Textbook final : public Mechanism {
 public:
  std::string_view name() const override { return "textbook"; }
  PrivacyEvent EventFor(L2Bound sensitivity, NoiseStd sigma, std::size_t) const override {
    return GaussianEvent{Mu::Proven(sensitivity.value() / sigma.value()), sensitivity, sigma};
  }
  Status CheckRange(double, NoiseStd) const override { return Ok{}; }
  double OverheadMu(std::size_t) const override { return 0; }

 private:
  void Draw(NoiseStd, std::size_t dim, NoiseRng& rng, NoiseBuffer& noise) const override {
    noise.real.resize(dim);
    for (std::size_t j = 0; j + 1 < dim; j += 2) {
      const double u = (static_cast<double>(rng.Bits() >> 32) + 1) * 0x1p-32;
      const double v = static_cast<double>(rng.Bits() >> 32) * 0x1p-32;
      const double r = std::sqrt(-2 * std::log(u));
      noise.real[j] = r * std::cos(2 * std::numbers::pi * v);
      noise.real[j + 1] = r * std::sin(2 * std::numbers::pi * v);
    }
  }
  void Add(NoiseStd sigma, const NoiseBuffer& noise, View value, Span out) const override {
    for (std::size_t j = 0; j < value.size(); ++j) out[j] = value[j] + sigma.value() * noise.real[j];
  }
};

const Textbook kTextbook;
const LatticeGaussian kLattice;
const FloatGaussian kFloat;

// Releases of (x, 0) with noise of σ = 1, as anyone sees them.
using Releases = std::function<std::vector<Vec>(double x, int count, std::uint32_t seed)>;
NoiseRng Seeded(std::uint32_t seed) { return NoiseRng::Replayable({seed, Purpose::kNoise, 0, 0}); }
Ledger Unlimited() { return Ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne); }

Releases Of(const Mechanism& m) {
  return [&m](double x, int count, std::uint32_t seed) {
    NoiseRng rng = Seeded(seed);
    Ledger ledger = Unlimited();
    NoiseBuffer noise;
    std::vector<Vec> out;
    for (int i = 0; i < count; ++i) {
      Private<Vec> value{Vec{x, 0.0}};
      Released<Vec> released;
      EXPECT_TRUE(
          m.Release(Bounded::Clip(value, L2Bound{4.0}), NoiseStd::Proven(1), ledger, rng, noise, released)
              .ok());
      out.push_back(*released);
    }
    return out;
  };
}
// A masked sum of one client, opened: discrete Gaussian noise.
SecureSum SumOfOne() {
  auto sum = SecureSum::Make({.clients = 1, .minimum = 1, .colluding = 0}, NoiseStd{1.0}, L2Bound{4.0});
  EXPECT_TRUE(sum.ok()) << sum.error().message;
  return *std::move(sum);
}
Releases Of(const SecureSum& sum) {
  return [&sum](double x, int count, std::uint32_t seed) {
    NoiseRng rng = Seeded(seed);
    Ledger ledger = Unlimited();
    NoiseBuffer noise;
    std::vector<Vec> out;
    for (int i = 0; i < count; ++i) {
      Private<Vec> value{Vec{x, 0.0}};
      Masked masked;
      EXPECT_TRUE(sum.Seal(Bounded::Clip(value, L2Bound{4.0}), ledger, rng, noise, masked).ok());
      MaskedTotal total;
      total.Add(masked);
      Released<Vec> released;
      EXPECT_TRUE(sum.Open(total, released).ok());
      out.push_back(*released);
    }
    return out;
  };
}

// Support: if x was the value, then exp(−‖noise‖²/2) is one of the 2³² values that u can have.
bool InSupport(const Vec& out, double x) {
  const double a = out[0] - x, b = out[1];
  const double u = std::exp(-(a * a + b * b) / 2) * 0x1p32;
  return std::abs(u - std::round(u)) < 1e-3;
}
// How many of 2,000 guesses between two values are right; where the support allows both or neither, a guess
// is wrong half of the time. `in`: whether a release can be of the second value, or of the first.
template <class In>
double Right(const std::vector<Vec>& zero, const std::vector<Vec>& one, In in) {
  double right = 0;
  for (const bool truth : {false, true})
    for (const Vec& out : truth ? one : zero) {
      const bool first = in(out, false), second = in(out, true);
      right += first == second ? 0.5 : second == truth ? 1.0 : 0.0;
    }
  return right / static_cast<double>(zero.size() + one.size());
}
double RightBySupport(const Releases& of) {
  return Right(of(0, 1000, 1), of(1, 1000, 2),
               [](const Vec& out, bool one) { return InSupport(out, one ? 1 : 0); });
}

TEST(Support, GivesTheTextbookSamplerAway) { EXPECT_GT(RightBySupport(Of(kTextbook)), 0.99); }

// The test is right by chance only: 0.004 of the guesses are decided at all, so that it is off by 0.01 with a
// probability below 1e-9.
TEST(Support, TellsNothingOfTheLattice) { EXPECT_NEAR(RightBySupport(Of(kLattice)), 0.5, 0.01); }
TEST(Support, TellsNothingOfTheDiscreteGaussian) {
  const SecureSum sum = SumOfOne();
  EXPECT_NEAR(RightBySupport(Of(sum)), 0.5, 0.01);
}
// Inversion of 64 bits reaches all doubles near 1: what gives it away is precision, below.
TEST(Support, OfBoxMullerIsNotThatOfFloatNoise) { EXPECT_NEAR(RightBySupport(Of(kFloat)), 0.5, 0.01); }

// Precision: a sum of doubles is a multiple of the last place of its larger part. Near 0, where 1 + noise is
// a multiple of 2⁻⁵³ and 0 + noise is not, one release tells.
double DecidedByPrecision(const Releases& of, double x) {
  int decided = 0;
  const auto all = of(x, 4000, 3);
  for (const Vec& out : all) decided += std::fmod(out[0], 0x1p-53) != 0;
  return static_cast<double>(decided) / static_cast<double>(all.size());
}
// Whether all lie on one public grid, whatever the value.
void ExpectGrid(const std::vector<Vec>& all, double grid) {
  for (const Vec& out : all)
    for (const double v : out) EXPECT_EQ(std::fmod(v, grid), 0);
}
// The last eight bits of the first number, in steps of the grid, are fair coins whatever the value: each
// within 4.5 standard deviations, so that one of eight fails with a probability of 6e-5.
void ExpectFairBits(const std::vector<Vec>& all, double grid) {
  const auto n = static_cast<double>(all.size());
  for (int bit = 0; bit < 8; ++bit) {
    double ones = 0;
    for (const Vec& out : all)
      ones += static_cast<double>(static_cast<std::int64_t>(out[0] / grid) >> bit & 1);
    EXPECT_NEAR(ones / n, 0.5, 4.5 * 0.5 / std::sqrt(n)) << bit;
  }
}

TEST(Precision, GivesTheTextbookSamplerAway) {
  EXPECT_GT(DecidedByPrecision(Of(kTextbook), 0), 0.05);
  EXPECT_EQ(DecidedByPrecision(Of(kTextbook), 1),
            0);  // never: every such release has the value 0 for certain
}

// Why privacy.mechanism = "gaussian" is an explicit choice with a caveat in the certificate.
TEST(Precision, GivesFloatNoiseAwayAsItsCaveatSays) {
  EXPECT_GT(DecidedByPrecision(Of(kFloat), 0), 0.05);
  EXPECT_EQ(DecidedByPrecision(Of(kFloat), 1), 0);
  EXPECT_FALSE(kFloat.caveat().empty());
}

TEST(Precision, TellsNothingOfTheLattice) {
  for (const double x : {0.0, 1.0, 0.3}) {
    EXPECT_EQ(DecidedByPrecision(Of(kLattice), x), 0);
    ExpectGrid(Of(kLattice)(x, 500, 4), 0x1p-30);
    ExpectFairBits(Of(kLattice)(x, 20000, 5), 0x1p-30);
  }
}

TEST(Precision, TellsNothingOfTheDiscreteGaussian) {
  const SecureSum sum = SumOfOne();
  for (const double x : {0.0, 1.0, 0.3}) {
    EXPECT_EQ(DecidedByPrecision(Of(sum), x), 0);
    ExpectGrid(Of(sum)(x, 500, 4), sum.grid());
    ExpectFairBits(Of(sum)(x, 20000, 5), sum.grid());
  }
}

// Directions. A textbook's PrivUnit in three dimensions, where the height t over a cap is uniform
// (Archimedes): t of 32 bits, an angle of 32 bits, t·u + √(1 − t²)·(cos, sin) in doubles.
constexpr double kGamma = 0.5, kInCap = 0.75;
struct Frame {
  Vec u, r, s;  // orthonormal
};
const Frame kAlong = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, kOblique = {{0.6, 0.8, 0}, {-0.8, 0.6, 0}, {0, 0, 1}};

std::vector<Vec> TextbookUnits(const Frame& f, int count, std::uint32_t seed) {
  NoiseRng rng = Seeded(seed);
  const auto uniform = [&] { return static_cast<double>(rng.Bits() >> 32) * 0x1p-32; };
  std::vector<Vec> out;
  for (int i = 0; i < count; ++i) {
    const bool inside = uniform() < kInCap;
    const double h = uniform(), t = inside ? kGamma + (1 - kGamma) * h : -1 + (1 + kGamma) * h;
    const double angle = 2 * std::numbers::pi * uniform(), across = std::sqrt((1 - t) * (1 + t));
    Vec v(3);
    Axpy(t, f.u, v);
    Axpy(across * std::cos(angle), f.r, v);
    Axpy(across * std::sin(angle), f.s, v);
    out.push_back(v);
  }
  return out;
}
std::vector<Vec> Units(const Frame& f, int count, std::uint32_t seed) {
  const auto unit = PrivUnit::Optimal(Epsilon{2.0}, 3);
  EXPECT_TRUE(unit.ok()) << unit.error().message;
  NoiseRng rng = Seeded(seed);
  PrivUnitSpace space;
  std::vector<std::int32_t> v(3);
  std::vector<Vec> out;
  for (int i = 0; i < count; ++i) {
    unit->Sample(f.u, rng, space, v);
    out.push_back({});
    for (const std::int32_t k : v) out.back().push_back(std::ldexp(k, -PrivUnit::kGridBits));
  }
  return out;
}
// If u was the direction, then ⟨v, u⟩ is one of 2³² heights inside of the cap, or outside.
double RightByHeight(std::vector<Vec> (*of)(const Frame&, int, std::uint32_t), double gamma) {
  return Right(of(kAlong, 1000, 1), of(kOblique, 1000, 2), [&](const Vec& out, bool oblique) {
    const double t = Dot(out, oblique ? kOblique.u : kAlong.u);
    const double h = (t >= gamma ? (t - gamma) / (1 - gamma) : (t + 1) / (1 + gamma)) * 0x1p32;
    return std::abs(h - std::round(h)) < 1e-3;
  });
}

TEST(Support, GivesATextbookPrivUnitAwayAndNotOurs) {
  EXPECT_GT(RightByHeight(&TextbookUnits, kGamma), 0.99);
  EXPECT_NEAR(RightByHeight(&Units, PrivUnit::Optimal(Epsilon{2.0}, 3)->gamma()), 0.5, 0.01);
}

TEST(Precision, GivesATextbookPrivUnitAwayAndNotOurs) {
  // Along the first axis the first number is the height itself, a multiple of 2⁻³³, and otherwise hardly
  // ever.
  const auto decided = [](const std::vector<Vec>& all) {
    double n = 0;
    for (const Vec& out : all) n += std::fmod(out[0], 0x1p-33) != 0;
    return n / static_cast<double>(all.size());
  };
  EXPECT_EQ(decided(TextbookUnits(kAlong, 1000, 6)), 0);
  EXPECT_GT(decided(TextbookUnits(kOblique, 1000, 6)), 0.99);
  for (const Frame& f : {kAlong, kOblique}) {
    EXPECT_EQ(decided(Units(f, 1000, 6)), 0);
    ExpectGrid(Units(f, 500, 7), 0x1p-30);
    ExpectFairBits(Units(f, 20000, 8), 0x1p-30);
  }
}

// Time. What a sampler draws from its generator, and so how much work it does, must not depend on the value.
// Noise of sums and of lengths: exactly as much, whatever the value.
TEST(Draws, OfDiscreteNoiseAndOfLengthsAreTheSameForAllValues) {
  const SecureSum sum = SumOfOne();
  const auto length = ScalarDp::Make(Epsilon{2.0}, L2Bound{1.0});
  ASSERT_TRUE(length.ok());
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    std::set<std::uint64_t> after, after_length;
    for (const double x : {0.0, 1.0, 3.9, 1e-300}) {
      NoiseRng rng = Seeded(seed);
      Ledger ledger = Unlimited();
      NoiseBuffer noise;
      Masked masked;
      Private<Vec> value{Vec{x, 0.0}};
      ASSERT_TRUE(sum.Seal(Bounded::Clip(value, L2Bound{4.0}), ledger, rng, noise, masked).ok());
      after.insert(rng.Bits());
      NoiseRng other = Seeded(seed);
      length->Sample(x, other);
      after_length.insert(other.Bits());
    }
    EXPECT_EQ(after.size(), 1u) << seed;
    EXPECT_EQ(after_length.size(), 1u) << seed;
  }
}

// PrivUnit draws until a vector is accepted: how often has the same geometric law for all directions, zero
// included. The mean of 5,000 within 4 standard deviations: one of four fails with a probability of 3e-4.
TEST(Draws, OfDirectionsHaveOneLawForAllValues) {
  const auto unit = PrivUnit::Optimal(Epsilon{2.0}, 3);
  ASSERT_TRUE(unit.ok());
  const double mean = unit->expected_draws();
  // The generator after so many draws of a vector and a coin, as priv_unit.cc makes them.
  const auto after = [](std::uint32_t seed, int draws) {
    NoiseRng rng = Seeded(seed);
    std::vector<std::int64_t> w(3);
    for (int i = 0; i < draws; ++i) LatticeNormals(0x1p34, rng, w), rng.Bits();
    return rng.Bits();
  };
  constexpr int kReleases = 5000;
  for (const Vec& x : {Vec{1, 0, 0}, Vec{-0.6, 0.8, 0}, Vec{0, 0, 0}, Vec{1e-310, 1e-310, -1e-310}}) {
    double sum = 0;
    for (std::uint32_t seed = 0; seed < kReleases; ++seed) {
      NoiseRng rng = Seeded(seed);
      PrivUnitSpace space;
      std::vector<std::int32_t> v(3);
      unit->Sample(x, rng, space, v);
      const std::uint64_t here = rng.Bits();
      int draws = 1;
      while (draws < 200 && after(seed, draws) != here) ++draws;
      ASSERT_LT(draws, 200);
      sum += draws;
    }
    EXPECT_NEAR(sum / kReleases, mean, 4 * std::sqrt(mean * (mean - 1) / kReleases));
  }
}

// What releases took is reported, by value and by noise, and not judged: clocks are not tests.
class Times {
 public:
  template <class F>
  void Measure(const std::string& name, F release) {
    const auto begin = std::chrono::steady_clock::now();
    release();
    last_ = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    Add(name);
  }
  void Add(const std::string& name) { took_[name].push_back(last_); }  // what was measured last
  // Medians, and the time within which 99 % are, also over those of the first name.
  void Print(std::string_view what) {
    double median = 0, most = 0;
    for (auto& [name, times] : took_) {
      std::sort(times.begin(), times.end());
      const auto at = [&](double part) {
        return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
      };
      if (median == 0) median = at(0.5), most = at(0.99);
      fmt::print("{}, {}: median {:.0f} ns ({:.3f}), 99 % within {:.0f} ns ({:.3f}), {} releases\n", what,
                 name, at(0.5), at(0.5) / median, at(0.99), at(0.99) / most, times.size());
    }
  }

 private:
  std::map<std::string, std::vector<double>> took_;
  double last_ = 0;
};
constexpr int kTimed = 100000, kWarm = 1000;  // releases, and those until the processor is warm

// Noise is drawn before the value is opened, by a function that does not get it.
TEST(Time, OfReleasesByValueAndByNoise) {
  constexpr std::array<double, 3> kValues = {0.0, 1.0, 3.9};
  const SecureSum sum = SumOfOne();
  using Release = std::function<double(const Bounded&, NoiseRng&, Times&, const std::string&)>;
  Ledger ledger = Unlimited();
  NoiseBuffer noise;
  Released<Vec> released;
  Masked masked;
  const auto by = [&](const Mechanism& m) {
    return [&](const Bounded& v, NoiseRng& rng, Times& times, const std::string& name) {
      times.Measure(
          name, [&] { EXPECT_TRUE(m.Release(v, NoiseStd::Proven(1.0), ledger, rng, noise, released).ok()); });
      return std::abs((*released)[1]);
    };
  };
  const Release sealed = [&](const Bounded& v, NoiseRng& rng, Times& times, const std::string& name) {
    times.Measure(name, [&] { EXPECT_TRUE(sum.Seal(v, ledger, rng, noise, masked).ok()); });
    return std::abs(static_cast<double>(noise.lattice[1])) * sum.grid();
  };
  for (const auto& [what, release] : {std::pair<const char*, Release>{"lattice", by(kLattice)},
                                      {"float", by(kFloat)},
                                      {"discrete", sealed}}) {
    NoiseRng rng = Seeded(5);
    Stream order({5, Purpose::kTest, 0, 0});
    Times times, warm;
    for (int i = 0; i < kTimed; ++i) {
      const double x = kValues[order.Below(kValues.size())];
      Private<Vec> value{Vec{x, 0.0}};
      const Bounded bounded = Bounded::Clip(value, L2Bound{4.0});
      Times& to = i < kWarm ? warm : times;
      const double z = release(bounded, rng, to, fmt::format("value {:.1f}", x));
      to.Add(z < 0.5 ? "|noise| < 0.5" : z < 1 ? "|noise| < 1" : z < 2 ? "|noise| < 2" : "|noise| >= 2");
    }
    times.Print(what);
  }
}

// These get the value: PrivUnit compares it with what it draws, ScalarDP rounds it.
TEST(Time, OfDirectionsAndLengthsByValue) {
  constexpr std::size_t kDim = 20;
  const auto unit = PrivUnit::Optimal(Epsilon{4.0}, kDim);
  const auto length = ScalarDp::Make(Epsilon{2.0}, L2Bound{1.0});
  ASSERT_TRUE(unit.ok() && length.ok());
  Vec axis(kDim), opposite(kDim), dense(kDim, 0.1), tiny(kDim, 1e-310);
  axis[0] = 1, opposite[0] = -1;
  const std::vector<std::pair<std::string, Vec>> directions = {{"1 an axis", axis},
                                                               {"2 its opposite", opposite},
                                                               {"3 all alike", dense},
                                                               {"4 all subnormal", tiny},
                                                               {"5 zero", Vec(kDim)}};
  NoiseRng rng = Seeded(5);
  Stream order({6, Purpose::kTest, 0, 0});
  PrivUnitSpace space;
  std::vector<std::int32_t> v(kDim);
  Times times, lengths, warm;
  std::uint64_t levels = 0;
  for (int i = 0; i < kTimed; ++i) {
    const auto& [name, x] = directions[order.Below(directions.size())];
    (i < kWarm ? warm : times).Measure(name, [&] { unit->Sample(x, rng, space, v); });
    const double r = std::array{0.0, 0.3, 1.0, 5e-324}[order.Below(4)];
    (i < kWarm ? warm : lengths).Measure(fmt::format("length {:g}", r), [&] {
      levels += length->Sample(r, rng);
    });
  }
  EXPECT_GT(levels, 0u);
  times.Print("PrivUnit");
  lengths.Print("ScalarDP");
}

}  // namespace
}  // namespace tacit
