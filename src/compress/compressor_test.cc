#include "compress/compressor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <numeric>

#include "core/rng.h"

namespace {
std::size_t allocations = 0;
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace tacit {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Compressor Parsed(const char* text) {
  auto c = ParseCompressor(text);
  EXPECT_TRUE(c.ok()) << text << (c.ok() ? "" : ": " + c.error().message);
  return c.ok() ? *c : Compressor();
}

Vec Applied(const Compressor& c, const Vec& x, std::uint64_t stream = 1) {
  CompressSpace space;
  Vec out(x.size());
  c.Apply(x, stream, out, space);
  return out;
}
Vec Applied(const char* text, const Vec& x, std::uint64_t stream = 1) {
  return Applied(Parsed(text), x, stream);
}

Vec Normals(std::size_t n, std::uint32_t who) {
  Stream s({1, Purpose::kTest, who, 0});
  Vec x(n);
  for (double& v : x) v = s.Normal();
  return x;
}

// Vectors of many kinds, length 600.
std::vector<std::pair<const char*, Vec>> Vectors() {
  std::vector<std::pair<const char*, Vec>> out;
  const Vec normal = Normals(600, 7);
  out.emplace_back("normal", normal);
  out.emplace_back("equal magnitudes", Vec(600, -3.0));
  Vec v(600, 1.5);
  out.emplace_back("midpoints of powers of two", v);
  for (double& a : v) a = 1.25;
  out.emplace_back("midpoints of powers of 1.5", v);
  v = normal;
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::ldexp(v[i], static_cast<int>(i % 60) - 30);
  out.emplace_back("many scales", v);
  v.assign(600, 0.0);
  v[17] = -1e-9;
  out.emplace_back("a single one", v);
  v = normal;
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = i % 3 == 0 ? v[i] : 0;
  out.emplace_back("zeros between", v);
  v = normal;
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = std::pow(0.9, static_cast<double>(i)) * (i % 2 == 0 ? 1 : -1);
  out.emplace_back("falling", v);
  for (double& a : v) a = 1 + 1e-12;
  v[3] = 1.999999999999;
  out.emplace_back("just below two", v);
  v = normal;
  Scale(1e-250, v);
  out.emplace_back("small", v);
  Scale(1e290, v);
  Scale(1e290 / 1e80, v);
  out.emplace_back("large", v);
  return out;
}

const char* const kRandom[] = {
    "rand:0.1",          "rand:0.3/64",      "rand:k=7/16",
    "rand:0.4/8",        "rand:1",           "unbiased-rand:0.25",
    "unbiased-rand:k=1", "rand:0.2+round:2", "rand:0.5+round:1,1.5,2",
};
const char* const kContractions[] = {
    "identity",
    "identity/32",
    "identity/16",
    "identity/8",
    "top:0.1",
    "top:0.1/64",
    "top:k=7/16",
    "top:0.4/8",
    "top:1",
    "layers:0.1/64",
    "layers:0.5,k=3,1",
    "round:2",
    "round:1.5",
    "round:1.1",
    "round:7",
    "round:1,1.5,2",
    "round:3,3.1,4,5.5,6",
    "top:0.1+round:2",
    "top:0.3+round:1.5",
    "layers:0.2+round:1,1.25,2",
};
Compressor WithLayers(const char* text) {
  Compressor c = Parsed(text);
  EXPECT_TRUE(c.SetLayers({100, 480, 20}).ok());
  return c;
}

TEST(Compressor, ContractsEveryVectorByAtLeastAlpha) {
  for (const char* text : kContractions)
    for (const auto& [why, x] : Vectors()) {
      SCOPED_TRACE(std::string(text) + " of " + why);
      const Compressor c = WithLayers(text);
      const double alpha = c.alpha(x.size());
      ASSERT_GT(alpha, 0);
      ASSERT_LE(alpha, 1);
      const double most =
          *std::max_element(x.begin(), x.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
      Vec unit = x, image = Applied(c, x);  // so that squares neither vanish nor overflow
      Scale(1 / std::abs(most), unit);
      Scale(1 / std::abs(most), image);
      const double whole = NormSquared(unit);
      EXPECT_LE(DistanceSquared(image, unit), (1 - alpha) * whole + 1e-13 * whole);
      EXPECT_LE(std::sqrt(NormSquared(image)), (1 + std::sqrt(1 - alpha)) * std::sqrt(whole) * (1 + 1e-13));
    }
}

TEST(Compressor, TopIsSharpForEqualMagnitudes) {
  Vec x(50, 2.0);
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] = -2;
  for (const std::size_t k : {1u, 5u, 49u, 50u}) {
    const Compressor c = Parsed(("top:k=" + std::to_string(k) + "/64").c_str());
    EXPECT_DOUBLE_EQ(c.alpha(50), static_cast<double>(k) / 50);
    const Vec y = Applied(c, x);
    EXPECT_DOUBLE_EQ(DistanceSquared(x, y), (1 - c.alpha(50)) * NormSquared(x));
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], i < k ? x[i] : 0);  // the lowest positions
  }
}

TEST(Compressor, RoundingIsSharpAtMidpoints) {
  EXPECT_NEAR(Parsed("round:2").alpha(1), 8.0 / 9, 1e-14);
  EXPECT_NEAR(Parsed("round:1.5").alpha(1), 0.96, 1e-14);
  EXPECT_NEAR(Parsed("round:1,1.5,2").alpha(1), 0.96, 1e-14);  // the wider step
  EXPECT_NEAR(Parsed("top:0.1+round:2").alpha(100), 8.0 / 90, 1e-14);
  const Vec two = Applied("round:2", {1.5});
  EXPECT_EQ(two[0], 2);  // longer by 4/3 = 1 + √(1 − α)
  EXPECT_NEAR((1.5 - two[0]) * (1.5 - two[0]) / 2.25, 1.0 / 9, 1e-15);
  EXPECT_NEAR(two[0] / 1.5, 1 + std::sqrt(1 - 8.0 / 9), 1e-15);
  const Vec half = Applied("round:1.5", {1.25});
  EXPECT_EQ(half[0], 1.5);
  EXPECT_NEAR(0.25 * 0.25 / (1.25 * 1.25), 1 - 0.96, 1e-15);
}

TEST(Compressor, RoundsToTheNearestOfTheSequence) {
  const Vec x = {1, 1.49, 1.5, -1.51, 2.99, 3, 3.01, -0.7499, 0.75, 1e-5, 5e-301, -1e299, 0, 1e-320, 1e308};
  const Vec y = Applied("round:2", x);
  EXPECT_EQ(Vec(y.begin(), y.begin() + 10), (Vec{1, 1, 2, -2, 2, 4, 4, -0.5, 1, 0x1p-17}));
  EXPECT_EQ(y[10], std::ldexp(1.0, static_cast<int>(std::lround(std::log2(5e-301)))));
  EXPECT_EQ(y[12], 0);
  EXPECT_EQ(y[13], 0);
  EXPECT_EQ(y[14], 0x1p1000);
  for (const std::vector<double>& period :
       {std::vector<double>{1, 2}, {1, 1.2, 1.7, 2.5}, {1, 1.05}, {0.25, 0.5}}) {
    const auto r = Rounding::Of(period);
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->powers_of_two(), period[1] == 2 * period[0]);
    const auto& levels = r->levels();
    ASSERT_TRUE(std::is_sorted(levels.begin(), levels.end()));
    EXPECT_EQ(r->LevelOf(levels[0]), 0);
    EXPECT_EQ(r->LevelOf(levels[0] * 0.51), 0);
    EXPECT_EQ(r->LevelOf(levels[0] * 0.49), -1);
    EXPECT_EQ(r->LevelOf(1e308), static_cast<int>(levels.size()) - 1);
    for (const double v : Normals(1000, 9)) {
      const double a = std::abs(v) * 7;
      const double chosen = levels[static_cast<std::size_t>(r->LevelOf(a))];
      const auto next = std::lower_bound(levels.begin(), levels.end(), a);
      ASSERT_EQ(std::abs(chosen - a), std::min(std::abs(*next - a), std::abs(*(next - 1) - a)));
    }
  }
}

// What both sides have is one vector, to the bit, whoever decodes; and a reference that knows no encoding.
TEST(Compressor, BothSidesHaveTheSameBits) {
  CompressSpace sender;
  DecodeSpace receiver;
  Encoded e;
  std::vector<const char*> all(std::begin(kContractions), std::end(kContractions));
  all.insert(all.end(), std::begin(kRandom), std::end(kRandom));
  for (const char* text : all)
    for (const auto& [why, x] : Vectors()) {
      SCOPED_TRACE(std::string(text) + " of " + why);
      const Compressor c = WithLayers(text);
      c.Compress(x, 5, e, sender);
      Vec decoded(x.size(), 1.0), added(x.size(), 0.0), applied = x;
      ASSERT_TRUE(Decode(e, decoded, receiver).ok());
      ASSERT_TRUE(AddDecoded(1.0, e, added, receiver).ok());
      c.Apply(applied, 5, applied, sender);  // in place
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(std::bit_cast<std::uint64_t>(decoded[i]), std::bit_cast<std::uint64_t>(applied[i]));
        ASSERT_EQ(decoded[i], added[i]);
      }
      Encoded again;
      c.Compress(x, 5, again, sender);
      ASSERT_EQ(e, again);
      if (c.identity()) {
        ASSERT_EQ(decoded, x);
      }
      if (std::string_view(text) == "top:0.1/64") {
        SelectSpace space;
        std::vector<std::uint32_t> index;
        SelectLargest(View(x), 60, space, index);
        Vec expected(x.size());
        for (const std::uint32_t i : index) expected[i] = x[i];
        ASSERT_EQ(decoded, expected);
      }
    }
}

TEST(Compressor, PositionsTravelInTheCheaperForm) {
  CompressSpace space;
  Encoded e;
  const Vec x = Normals(10000, 4);
  const auto where = [&](const char* text, const Vec& v) {
    Parsed(text).Compress(v, 1, e, space);
    return static_cast<int>(e.data[0] & 15);
  };
  EXPECT_EQ(where("top:0.01", x), 3);
  EXPECT_LT(e.bytes(), 100 * 4 + 100 * 8.4 / 8 + 10);  // the entropy of a gap is 8.08 bits
  EXPECT_EQ(where("top:0.1/8", x), 3);
  EXPECT_LT(e.bytes(), 1000 * 1 + 1000 * 4.9 / 8 + 10);  // 4.69 bits
  EXPECT_EQ(where("top:0.6/16", x), 2);
  EXPECT_EQ(e.bytes(), 1u + 2 + 2 + 1250 + 2 + 6000 * 2);
  EXPECT_EQ(where("identity", x), 1);
  EXPECT_EQ(e.bytes(), 1u + 2 + 80000);
  EXPECT_EQ(where("identity/32", x), 1);
  EXPECT_EQ(e.bytes(), 1u + 2 + 2 + 40000);
  EXPECT_EQ(where("rand:0.1", x), 4);
  EXPECT_EQ(e.bytes(), 1u + 2 + 2 + 8 + 2 + 4000);  // no positions, a stream
  Vec sparse(10000);
  for (std::size_t i = 0; i < sparse.size(); i += 1000) sparse[i] = x[i];
  EXPECT_EQ(where("identity", sparse), 3);  // zeros do not travel
  EXPECT_LT(e.bytes(), 110u);
  EXPECT_EQ(where("top:0.1", Vec(10000)), 0);
  EXPECT_EQ(e.bytes(), 3u);
  // A few levels of two: a sign and two or three bits.
  EXPECT_EQ(where("top:0.01+round:2", x), 3);
  EXPECT_LT(e.bytes(), 100 * 2.0 / 8 + 100 * 8.4 / 8 + 15);
  Vec clustered(10000);
  for (std::size_t i = 9000; i < 10000; ++i) clustered[i] = x[i];
  EXPECT_EQ(where("top:0.05", clustered), 3);
  Vec back(10000);
  ASSERT_TRUE(Decode(e, back, space.decode).ok());
  EXPECT_EQ(back, Applied("top:0.05", clustered));
}

TEST(Compressor, WhatIsNotFiniteCountsAsZero) {
  for (const char* text : {"identity", "identity/16", "top:0.5", "round:2", "rand:1", "unbiased-rand:1"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(Applied(text, {kNan, 1, -kInf, 4, kInf, -2}), (Vec{0, 1, 0, 4, 0, -2}));
    EXPECT_EQ(Applied(text, {kNan, kInf}), (Vec{0, 0}));
    EXPECT_EQ(Applied(text, {0, -0.0, 0}), (Vec{0, 0, 0}));
    EXPECT_EQ(Applied(text, {}), Vec());
  }
  const double largest = std::numeric_limits<double>::max();
  EXPECT_EQ(Applied("identity/32", {1e-310, 0}), (Vec{0, 0}));
  EXPECT_EQ(Applied("identity", {5e-324, 1e308}), (Vec{5e-324, 1e308}));
  EXPECT_EQ(Applied("identity/8", {largest})[0], 0x1.ep1023);
  for (const double v : Applied("unbiased-rand:k=1", {1e308, 1e308, 1e308}))
    EXPECT_TRUE(v == 0 || v == largest);
}

TEST(Compressor, NarrowNumbersFollowTheScaleOfTheMessage) {
  const Vec x = Normals(100, 12);
  for (const char* text : {"identity/32", "identity/16", "identity/8", "top:0.2/16"}) {
    const Vec y = Applied(text, x);
    for (const int e : {-900, -300, 1, 700}) {
      Vec scaled = x, expected = y;
      for (double& v : scaled) v = std::ldexp(v, e);
      for (double& v : expected) v = std::ldexp(v, e);
      EXPECT_EQ(Applied(text, scaled), expected) << text << " " << e;
    }
  }
}

TEST(Compressor, RandDrawsWhatTheStreamSays) {
  const Vec x = Normals(1000, 2);
  std::vector<std::uint64_t> bits;
  std::vector<std::uint32_t> at;
  DrawPositions(77, 1000, 100, bits, at);
  Vec expected(1000), scaled(1000);
  for (const std::uint32_t i : at) expected[i] = x[i], scaled[i] = 10 * x[i];
  EXPECT_EQ(Applied("rand:0.1/64", x, 77), expected);
  EXPECT_EQ(Applied("unbiased-rand:0.1", x, 77), scaled);
  EXPECT_NE(Applied("rand:0.1/64", x, 78), expected);
  EXPECT_NE(CompressStream(1, 2, 3), CompressStream(1, 3, 2));
  EXPECT_EQ(CompressStream(1, 2, 3), CompressStream(1, 2, 3));
}

// Over the streams: a contraction by exactly α, or unbiased with variance ω. Means of 4000 draws within six
// of their standard deviations: a false alarm below 1e-8 for each of the checks.
TEST(Compressor, RandHasItsConstantsWithEquality) {
  constexpr int kDraws = 4000;
  const Vec equal(60, -1.5);
  Vec x = Normals(60, 3);
  for (const char* text : {"rand:0.25/64", "unbiased-rand:0.25"}) {
    SCOPED_TRACE(text);
    const Compressor c = Parsed(text);
    const bool unbiased = c.omega(60).has_value();
    const double part = unbiased ? *c.omega(60) : 1 - c.alpha(60);
    EXPECT_DOUBLE_EQ(part, unbiased ? 3 : 0.75);
    if (!unbiased) {
      EXPECT_DOUBLE_EQ(DistanceSquared(Applied(c, equal), equal), part * NormSquared(equal));
    }
    double sum = 0, squares = 0;
    Vec mean(60);
    for (int i = 0; i < kDraws; ++i) {
      const Vec y = Applied(c, x, CompressStream(9, 0, static_cast<std::uint32_t>(i)));
      const double error = DistanceSquared(y, x);
      sum += error, squares += error * error;
      Axpy(1.0 / kDraws, y, mean);
    }
    const double average = sum / kDraws, sd = std::sqrt((squares / kDraws - average * average) / kDraws);
    EXPECT_NEAR(average, part * NormSquared(x), 6 * sd);
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double expected = unbiased ? x[j] : 0.25 * x[j];
      const double spread = std::abs(x[j]) * (unbiased ? 4 : 1) * std::sqrt(0.25 * 0.75 / kDraws);
      EXPECT_NEAR(mean[j], expected, 6 * spread);
    }
  }
  EXPECT_EQ(Parsed("unbiased-rand:0.25").alpha(60), 0);  // no contraction at all
  EXPECT_DOUBLE_EQ(Parsed("unbiased-rand:0.8").alpha(60), 0.75);
  EXPECT_FALSE(Parsed("top:0.1").omega(60).has_value());
  EXPECT_EQ(Parsed("identity").omega(60), 0.0);
}

// A rounding after rand is coordinatewise, so that E‖C(x) − x‖² over the draws is
// Σ_j (k/d)(V(x_j) − x_j)² + (1 − k/d)x_j²: at most (1 − α)‖x‖² with α = (k/d)β, with equality where every
// coordinate lies at the worst midpoint.
TEST(Compressor, ARoundingAfterRandHasTheProductAsItsConstant) {
  const struct {
    const char* rounding;
    double beta, worst;  // a midpoint where β is sharp
  } cases[] = {{"round:2", 8.0 / 9, 1.5}, {"round:1.5", 0.96, 1.25}, {"round:1,1.5,2", 0.96, 1.25}};
  for (const auto& [rounding, beta, worst] : cases)
    for (const auto& [name, part] : {std::pair{"0.1", 0.1}, {"0.25", 0.25}, {"1", 1.0}}) {
      const std::string text = std::string("rand:") + name + "+" + rounding;
      SCOPED_TRACE(text);
      const Compressor c = Parsed(text.c_str());
      const double alpha = c.alpha(600);
      EXPECT_NEAR(alpha, part * beta, 1e-14);
      std::vector<std::uint64_t> bits;
      std::vector<std::uint32_t> at;
      DrawPositions(77, 600, c.kept(600), bits, at);
      for (const auto& [why, x] : Vectors()) {
        SCOPED_TRACE(why);
        const Vec rounded = Applied(rounding, x);
        Vec drawn(600);
        for (const std::uint32_t i : at) drawn[i] = rounded[i];
        EXPECT_EQ(Applied(c, x, 77), drawn);
        double most = 0, whole = 0, error = 0;
        for (const double v : x) most = std::max(most, std::abs(v));
        for (std::size_t j = 0; j < 600; ++j) {
          const double v = x[j] / most, off = (rounded[j] - x[j]) / most;
          whole += v * v;
          error += part * off * off + (1 - part) * v * v;
        }
        EXPECT_LE(error, (1 - alpha) * whole + 1e-13 * whole);
      }
      const Vec midpoints(600, worst);
      for (const std::uint64_t stream : {1u, 2u, 3u})
        EXPECT_NEAR(DistanceSquared(Applied(c, midpoints, stream), midpoints) / (600 * worst * worst),
                    1 - alpha, 1e-13);
    }
  EXPECT_NEAR(Parsed("rand:k=30+round:2").alpha(600), 0.05 * 8 / 9, 1e-14);
}

TEST(Compressor, LayersKeepTheirOwnLargest) {
  Compressor c = Parsed("layers:k=2,0.5,k=1/64");
  EXPECT_EQ(c.alpha(8), 0);  // not told yet
  EXPECT_FALSE(c.SetLayers({4, 4}).ok());
  ASSERT_TRUE(c.SetLayers({3, 4, 1}).ok());
  EXPECT_DOUBLE_EQ(c.alpha(8), 0.5);  // the least of 2/3, 1/2 and 1
  EXPECT_EQ(c.kept(8), 5u);
  EXPECT_EQ(Applied(c, {9, 8, -7, 1, 2, -2, 3, 0.1}), (Vec{9, 8, 0, 0, 2, 0, 3, 0.1}));
  Compressor one = Parsed("layers:0.5/64");
  ASSERT_TRUE(one.SetLayers({2, 2}).ok());
  EXPECT_EQ(Applied(one, {1, 2, 4, 3}), (Vec{0, 2, 4, 0}));
  EXPECT_TRUE(Parsed("top:0.5").SetLayers({1, 2, 3}).ok());  // has none to be told of
}

TEST(Compressor, NothingIsAllocatedOnceSpaceHasGrown) {
  CompressSpace space;
  DecodeSpace other;
  Encoded e;
  const Vec x = Normals(600, 8);
  Vec y(600);
  for (const char* text : kContractions) {
    SCOPED_TRACE(text);
    const Compressor c = WithLayers(text);
    const auto all = [&] {
      c.Compress(x, 3, e, space);
      bool ok = Decode(e, y, other).ok() && AddDecoded(0.5, e, y, other).ok() && CheckEncoded(e, 600).ok();
      c.Apply(x, 3, y, space);
      return ok;
    };
    ASSERT_TRUE(all());
    const std::size_t before = allocations;
    const bool ok = all();
    const std::size_t after = allocations;
    EXPECT_TRUE(ok);
    EXPECT_EQ(after, before);
  }
}

TEST(ParseCompressor, ReadsWhatItWrites) {
  const struct {
    const char* text;
    const char* full;
    std::size_t kept;  // of 1000
  } cases[] = {
      {"identity", "identity/64", 1000},
      {"identity/32", "identity/32", 1000},
      {"top:0.1", "top:0.1/32", 100},
      {"top:k=500", "top:k=500/32", 500},
      {"top:k=5000", "top:k=5000/32", 1000},
      {"top:0.00001", "top:1e-05/32", 1},
      {"top:0.1/16", "top:0.1/16", 100},
      {"rand:0.1", "rand:0.1/32", 100},
      {"rand:k=3/8", "rand:k=3/8", 3},
      {"unbiased-rand:0.5", "unbiased-rand:0.5/64", 500},
      {"round:2", "round:2", 1000},
      {"round:1,2", "round:2", 1000},
      {"round:1.5", "round:1.5", 1000},
      {"round:1,1.5,2", "round:1,1.5,2", 1000},
      {"top:0.1+round:2", "top:0.1+round:2", 100},
      {"rand:0.1+round:1.5", "rand:0.1+round:1.5", 100},
      {"layers:0.1,k=7", "layers:0.1,k=7/32", 0},
      {"top:0.1+round:200000000000000000000", "top:0.1+round:2e+20", 100},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    const Compressor parsed = Parsed(c.text);
    EXPECT_EQ(parsed.text(), c.full);
    EXPECT_EQ(Parsed(c.full).text(), c.full);
    EXPECT_EQ(parsed.kept(1000), c.kept);
  }
}

TEST(ParseCompressor, SaysWhatIsWrong) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"", "known are"},
      {"top", "fraction"},
      {"top:", "fraction"},
      {"top:0", "fraction"},
      {"top:1.5", "fraction"},
      {"top:nan", "fraction"},
      {"top:-0.1", "fraction"},
      {"top:k=0", "fraction"},
      {"top:k=", "fraction"},
      {"top:k=1.5", "fraction"},
      {"top:0.1x", "fraction"},
      {"layers:0.1,", "fraction"},
      {"best:0.1", "known are"},
      {"identity:2", "known are"},
      {"top:0.1/12", "64, 32, 16 or 8"},
      {"top:0.1/", "64, 32, 16 or 8"},
      {"round:2/8", "code of its own"},
      {"round:1", "above 1"},
      {"round:", "base such as 2"},
      {"round:two", "base such as 2"},
      {"round:2,1", "increasing"},
      {"round:0,1", "increasing"},
      {"round:inf", "increasing"},
      {"round:1.001", "too many levels"},
      {"round:1,1.0000000000001,2", "too close"},
      {"round:2+top:0.1", "may follow"},
      {"top:0.1+rand:0.5", "may follow"},
      {"unbiased-rand:0.1/32", "unbiased"},
      {"unbiased-rand:0.1+round:2", "unbiased"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    const auto parsed = ParseCompressor(c.text);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find(c.says), std::string::npos) << parsed.error().message;
  }
}

TEST(Compressor, ADifferenceHasTheMessageOfTheVector) {
  const Vec a = Normals(40037, 8), b = Normals(40037, 9);
  for (const char* text : {"top:0.01", "top:0.1/16", "top:k=3+round:2", "identity/32", "rand:0.1", "round:2"})
    for (const double m : {1.0, 64.0, 561.0}) {
      Vec x(a.size());
      for (std::size_t j = 0; j < x.size(); ++j) x[j] = a[j] / m - b[j];
      CompressSpace space, other;
      Encoded expected, got;
      Parsed(text).Compress(x, 5, expected, space);
      double guess = 0;
      for (int turn = 0; turn < 3; ++turn) {
        Parsed(text).Compress(Difference{a, b, m}, 5, guess, got, other);
        EXPECT_EQ(got, expected) << text << " " << m;
      }
      EXPECT_EQ(guess > 0, text[0] == 't');
    }
}

}  // namespace
}  // namespace tacit
