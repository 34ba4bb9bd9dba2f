#include "privacy/lattice_sampler.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <boost/math/special_functions/gamma.hpp>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "privacy/lattice_attack.h"

namespace tacit {
namespace {

constexpr double kFalseAlarm = 1e-6;    // of each statistical test, over the choice of its fixed seed
constexpr double kNormalLimit = 4.892;  // |N(0, 1)| exceeds it with that probability
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::int64_t> Sample(double c, std::uint64_t seed, std::size_t n,
                                 LatticeCounters* counters = nullptr) {
  NoiseRng rng = NoiseRng::Replayable({seed, Purpose::kNoise, 0, 0});
  std::vector<std::int64_t> out(n);
  LatticeNormals(c, rng, out, counters);
  return out;
}

double Tail(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

TEST(LatticeScale, IsTheLargestGridBelowSigmaOver2To30) {
  const struct {
    const char* why;
    double sigma, c;
    int exponent;
  } kCases[] = {
      {"one", 1, 0x1p30, -30},
      {"just below one takes the finer grid", 0x1.fffffffffffffp-1, 0x1.fffffffffffffp30, -31},
      {"just above one", 0x1.0000000000001p0, 0x1.0000000000001p30, -30},
      {"three", 3, 0x1.8p31 / 2, -29},
      {"the grid may be subnormal", 0x1.8p-1000, 0x1.8p30, -1030},
      {"large", 0x1p1000, 0x1p30, 970},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    const LatticeScale scale = LatticeScale::For(c.sigma);
    EXPECT_EQ(scale.c, c.c);
    EXPECT_EQ(scale.grid_exponent, c.exponent);
  }
  for (double sigma : {1e-300, 3.7e-155, 0.1, 12.34, 1e300}) {
    const LatticeScale scale = LatticeScale::For(sigma);
    EXPECT_GE(scale.c, 0x1p30);
    EXPECT_LT(scale.c, 0x1p31);
    EXPECT_EQ(std::ldexp(scale.c, scale.grid_exponent), sigma) << "c·g = σ exactly";
  }
}

// Take, or Lend with a copy of what it lends.
void Draw(LatticeStock& stock, double c, NoiseRng& rng, std::span<std::int64_t> out, bool lend) {
  if (!lend) return stock.Take(c, rng, out);
  std::vector<std::int64_t> room(out.size());
  stock.Lend(c, rng, room, [&](const std::int64_t* drawn) { std::copy_n(drawn, out.size(), out.begin()); });
}

// Of a replayable generator a stock hands out what LatticeNormals draws, release by release.
TEST(LatticeStock, LeavesReplayableStreamsAsTheyAre) {
  for (const bool lend : {false, true}) {
    NoiseRng a = NoiseRng::Replayable({7, Purpose::kNoise, 1, 2}),
             b = NoiseRng::Replayable({7, Purpose::kNoise, 1, 2});
    LatticeStock stock;
    for (const std::size_t n : {8u, 1u, 64u, 65u, 300u, 3u}) {
      std::vector<std::int64_t> taken(n), drawn(n);
      Draw(stock, 0x1.3p30, a, taken, lend);
      LatticeNormals(0x1.3p30, b, drawn);
      EXPECT_EQ(taken, drawn);
    }
  }
}

// Two deviates of std 2³⁰ steps or more are of equal size with a probability of at most 1/(√π/2·2³⁰): of
// 40,000, fewer than 0.9 pairs are to be expected, and ten or more have a probability below 1e-7. A deviate
// that is handed out twice would make a pair again and again. (A stock works from entropy only: there is no
// seed.)
TEST(LatticeStock, HandsNoDeviateOutTwice) {
  NoiseRng rng = NoiseRng::FromEntropy();
  LatticeStock stock;
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; all.size() < 40000; ++i) {
    std::vector<std::int64_t> taken(i % 13 == 12 ? 100 : 1 + i % 9);
    Draw(stock, i / 1000 % 2 == 0 ? 0x1p30 : 0x1.8p30, rng, taken, i / 100 % 3 != 0);
    if (i % 500 == 0) {
      LatticeStock copy(stock);  // is empty
      std::vector<std::int64_t> other(5);
      copy.Take(0x1p30, rng, other);
      taken.insert(taken.end(), other.begin(), other.end());
    }
    for (const std::int64_t k : taken) all.push_back(k < 0 ? -k : k);
  }
  std::sort(all.begin(), all.end());
  std::size_t pairs = 0;
  for (std::size_t i = 1; i < all.size(); ++i) pairs += all[i] == all[i - 1];
  EXPECT_LT(pairs, 10u);
}

// Each |Z| > z occurs in 20,000 deviates as often as it should, with the false-alarm rate of the other tests.
TEST(LatticeStock, IsNormal) {
  NoiseRng rng = NoiseRng::FromEntropy();
  LatticeStock stock;
  constexpr std::size_t kDeviates = 20000;
  std::vector<std::int64_t> all(kDeviates);
  for (std::size_t at = 0; at < kDeviates; at += 8)
    Draw(stock, 0x1p30, rng, std::span(all).subspan(at, 8), at / 8 % 5 != 0);
  for (const double z : {0.25, 1.0, 2.0}) {
    const double p = 2 * Tail(z), n = kDeviates;
    double count = 0;
    for (const std::int64_t k : all) count += std::abs(static_cast<double>(k)) > z * 0x1p30;
    EXPECT_LT(std::abs(count - n * p), kNormalLimit * std::sqrt(n * p * (1 - p)));
  }
}

void ForkBesideAStock(bool lend) {
  NoiseRng rng = NoiseRng::FromEntropy();
  LatticeStock stock;
  std::vector<std::int64_t> warm(64), mine(8), other(8);
  for (int i = 0; i < 5; ++i) stock.Take(0x1p30, rng, warm);  // now there are deviates in it
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Draw(stock, 0x1p30, rng, mine, lend);
    const bool written = write(pipes[1], mine.data(), 64) == 64;
    _exit(written ? 0 : 1);
  }
  Draw(stock, 0x1p30, rng, mine, lend);
  ASSERT_EQ(read(pipes[0], other.data(), 64), 64);
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NE(mine[i], other[i]);
  close(pipes[0]), close(pipes[1]);
}
TEST(LatticeStock, AChildOfForkDropsWhatItsParentDrew) { ForkBesideAStock(false); }
TEST(LatticeStock, NorIsItLentTheSame) { ForkBesideAStock(true); }

// What was lent is gone from the stock.
TEST(LatticeStock, KeepsNothingOfWhatItLent) {
  NoiseRng rng = NoiseRng::FromEntropy();
  LatticeStock stock;
  std::vector<std::int64_t> room(37);
  std::size_t from_stock = 0;
  for (int i = 0; i < 100; ++i) {
    const std::int64_t* lent = nullptr;
    stock.Lend(0x1p30, rng, room, [&](const std::int64_t* drawn) {
      lent = drawn;
      EXPECT_NE(std::count(drawn, drawn + room.size(), 0), static_cast<std::ptrdiff_t>(room.size()));
    });
    if (lent == room.data()) continue;
    ++from_stock;  // the stock is alive, and where it lent from is its own
    EXPECT_EQ(std::count(lent, lent + room.size(), 0), static_cast<std::ptrdiff_t>(room.size()));
  }
  EXPECT_GT(from_stock, 50u);
}

// A request across the end of the stock, and one longer than it lends.
TEST(LatticeStock, LendsWhatItDoesNotHaveFromTheGenerator) {
  NoiseRng rng = NoiseRng::FromEntropy();
  LatticeStock stock;
  std::vector<std::int64_t> room(64), all;
  for (const std::size_t n : {3u, 64u, 64u, 61u, 64u, 7u, 64u, 64u, 64u, 300u, 5u}) {
    room.assign(n, 0);
    stock.Lend(0x1p30, rng, room,
               [&](const std::int64_t* drawn) { all.insert(all.end(), drawn, drawn + n); });
  }
  std::sort(all.begin(), all.end());
  std::size_t pairs = 0;  // of 760 deviates: two or more with a probability below 1e-8
  for (std::size_t i = 1; i < all.size(); ++i) pairs += all[i] == all[i - 1];
  EXPECT_LT(pairs, 2u);
  EXPECT_FALSE(std::binary_search(all.begin(), all.end(), 0));  // with one below 1e-6
}

TEST(LatticeScaleDeathTest, RefusesWhatHasNoGrid) {
  for (double sigma : {0.0, -1.0, 1e-302, 1e302, kInfinity, std::nan("")})
    EXPECT_DEATH(LatticeScale::For(sigma), "broken invariant") << sigma;
}

TEST(LatticeNormals, FallsThroughAsOftenAsPredicted) {
  const double c = 1.5 * 0x1p30, n = 4e6;
  LatticeCounters counters;
  const auto values = Sample(c, 1, static_cast<std::size_t>(n), &counters);
  EXPECT_EQ(counters.fast + counters.second + counters.exact, static_cast<std::uint64_t>(n));
  const internal::LatticeBounds bounds = internal::LatticeBounds::Certified();
  const double p = 2 * c * bounds.fast + 0x1p-19;  // near a boundary, or m < 2^44
  const double fell = static_cast<double>(counters.second + counters.exact);
  EXPECT_LT(std::abs(fell - n * p) / std::sqrt(n * p), kNormalLimit);
  EXPECT_LT(p, 1.0 / 1000);
  // Poisson with mean 2.9: more than 16 has probability 2e-9.
  EXPECT_LE(counters.exact, 16u);
  for (internal::Simd simd : internal::kEverySimd) {  // the same values by the same tiers
    if (simd > internal::BestSimd()) continue;
    SCOPED_TRACE(internal::Name(simd));
    NoiseRng rng = NoiseRng::Replayable({1, Purpose::kNoise, 0, 0});
    std::vector<std::int64_t> out(values.size());
    LatticeCounters count;
    internal::LatticeNormalsBy(simd, c, rng, out, &count);
    EXPECT_EQ(out, values);
    EXPECT_EQ(count.fast, counters.fast);
    EXPECT_EQ(count.second, counters.second);
    EXPECT_EQ(count.exact, counters.exact);
  }
}

TEST(LatticeNormals, FallsThroughAsOftenAsPredictedOnTheFinestGrids) {
  const struct {
    double c, n;
  } kCases[] = {{0x1p31, 1e6}, {0x1.8p35, 1e6}, {0x1p40, 1e6}};
  for (const auto& [c, n] : kCases) {
    SCOPED_TRACE(c);
    LatticeCounters counters;
    Sample(c, 21, static_cast<std::size_t>(n), &counters);
    const internal::LatticeBounds bounds = internal::LatticeBounds::Certified(c);
    const double p = 2 * c * bounds.fast + 0x1p-19, q = 2 * c * bounds.second;
    const double fell = static_cast<double>(counters.second + counters.exact),
                 exact = static_cast<double>(counters.exact);
    EXPECT_LT(std::abs(fell - n * p) / std::sqrt(n * p), kNormalLimit);
    EXPECT_LT(exact, n * q + 6 * std::sqrt(n * q) + 6);  // far beyond 1e-6 for means from 0.1 to 61
    if (n * q > 50) {
      EXPECT_GT(exact, n * q - 5 * std::sqrt(n * q));
    }
  }
}

TEST(LatticeNormals, HasTheProbabilitiesOfARoundedNormal) {
  for (double c : {1.0, 2.75, 40.0}) {  // any kernel: see TheKernelsAgree
    SCOPED_TRACE(c);
    const std::size_t n = 1'000'000;
    const auto k = Sample(c, 2, n);
    // Cells with at least 20 expected, the rest pooled at both ends.
    std::int64_t last = 0;
    while (static_cast<double>(n) * Tail((static_cast<double>(last) + 0.5) / c) >= 20) ++last;
    std::vector<double> count(static_cast<std::size_t>(2 * last + 1));
    for (std::int64_t v : k) ++count[static_cast<std::size_t>(std::clamp(v, -last, last) + last)];
    double chi2 = 0;
    for (std::int64_t v = -last; v <= last; ++v) {
      const double inner = Tail((static_cast<double>(std::abs(v)) - 0.5) / c),
                   outer = std::abs(v) == last ? 0 : Tail((static_cast<double>(std::abs(v)) + 0.5) / c);
      const double expected = static_cast<double>(n) * (inner - outer),
                   d = count[static_cast<std::size_t>(v + last)] - expected;
      chi2 += d * d / expected;
    }
    EXPECT_GT(boost::math::gamma_q(static_cast<double>(last), chi2 / 2), kFalseAlarm);  // 2·last degrees
  }
}

TEST(LatticeNormals, FollowsTheNormalLawOnTheFineGrid) {
  const double c = LatticeScale::For(0.7).c;
  auto k = Sample(c, 3, 500'000);
  const double n = static_cast<double>(k.size());
  double sum = 0, squares = 0, negative = 0;
  for (std::int64_t v : k) {
    const double z = static_cast<double>(v) / c;
    sum += z;
    squares += z * z;
    negative += v < 0;
    ASSERT_LT(std::abs(v), std::int64_t{1} << 36);
  }
  EXPECT_LT(std::abs(sum) / std::sqrt(n), kNormalLimit);
  EXPECT_LT(std::abs(squares - n) / std::sqrt(2 * n), kNormalLimit);
  EXPECT_LT(std::abs(negative - n / 2) / std::sqrt(n / 4), kNormalLimit);
  std::sort(k.begin(), k.end());
  double d = 0;
  for (std::size_t i = 0; i < k.size(); ++i) {
    const double cdf = Tail(-static_cast<double>(k[i]) / c), at = static_cast<double>(i);
    d = std::max({d, cdf - at / n, (at + 1) / n - cdf});
  }
  EXPECT_LT(d * std::sqrt(n), 2.694);  // Kolmogorov: 2 exp(−2 d² n) = 1e-6
  // The low bits are uniform: each is a fair coin at this fineness.
  for (int bit = 0; bit < 20; ++bit) {
    double ones = 0;
    for (std::int64_t v : k) ones += static_cast<double>(std::abs(v) >> bit & 1);
    EXPECT_LT(std::abs(ones - n / 2) / std::sqrt(n / 4), 5.5) << bit;  // 20 coins: 8e-7 together
  }
}

TEST(LatticeNormals, TheSignBitOnlyFlipsTheSign) {
  Stream stream({4, Purpose::kTest, 0, 0});
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::uint64_t> words{stream() >> 1, stream(), stream()};
    Script a(words), b(words);
    const auto bounds = internal::LatticeBounds::Certified();
    EXPECT_EQ(internal::DrawLattice(0x1.3p30, bounds, words[0], a).k,
              -internal::DrawLattice(0x1.3p30, bounds, words[0] | std::uint64_t{1} << 63, b).k);
  }
}

TEST(LatticeNormals, IsReplayableAndReadsOnlyTheGenerator) {
  EXPECT_EQ(Sample(0x1.7p30, 5, 5000), Sample(0x1.7p30, 5, 5000));
  EXPECT_NE(Sample(0x1.7p30, 5, 50), Sample(0x1.7p30, 6, 50));
  EXPECT_TRUE(Sample(0x1.7p30, 5, 0).empty());
}

TEST(LatticeNormalsDeathTest, StopsInAnotherRoundingMode) {
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    EXPECT_DEATH(
        {
          std::fesetround(mode);
          Sample(0x1p30, 7, 1);
        },
        "broken invariant");
  }
}

// Every tier alone and all together against the definition.
TEST(LatticeDraw, AgreesWithTheDefinitionOnRandomAndExtremeWords) {
  Stream stream({8, Purpose::kTest, 0, 0});
  const auto proven = internal::LatticeBounds::Certified();
  const internal::LatticeBounds kTiers[] = {proven, {kInfinity, proven.second}, {kInfinity, kInfinity}};
  const std::uint64_t top = std::uint64_t{1} << 63, ones = ~std::uint64_t{0};
  std::vector<std::vector<std::uint64_t>> inputs = {
      {top - 1, ones, ones},  // p nearest to ½: (double)m rounds up to 2^63
      {top - 1, 0, 0},
      {top - 512, 5, 5},
      {top - 513, 5, 5},
      {ones, 1, 1},
      {0, 1, 0},
      {0, 0, 1},
      {1, 0, 0},
      {1, ones, ones},
      {0, ones, ones},
      {2, 0, 0},
      {3, 9, 9},
      {(std::uint64_t{1} << 44) - 1, ones, 0},
      {std::uint64_t{1} << 44, 0, 0},
  };
  for (int octave = 0; octave <= 62; ++octave)  // both ends of every octave
    for (std::uint64_t m : {std::uint64_t{1} << octave, (std::uint64_t{2} << octave) - 1})
      inputs.push_back({m, stream(), stream()});
  for (int i = 0; i < 60; ++i) inputs.push_back({stream(), stream(), stream()});
  for (const auto& words : inputs) {
    for (double c : {1.0, 0x1p30, 0x1.fffffffffffffp30}) {
      const std::int64_t want = ReferenceCell(c, words);
      for (const auto& bounds : kTiers) {
        Script more(words);
        ASSERT_EQ(internal::DrawLattice(c, bounds, words[0], more).k, want) << words[0] << ' ' << c;
      }
    }
  }
}

TEST(LatticeDraw, CellBoundariesAreNeverCrossed) {
  Stream stream({9, Purpose::kTest, 0, 0});
  AttackReport report;
  for (double c : {0x1p30, 0x1.6a09e667f3bcdp30, 0x1.fffffffffffffp30, 3.0, 0x1.8p35, 0x1p40}) {
    Attack{.c = c}.Run(35, stream, report);
    Attack{.c = c, .lowest_octave = 44}.Run(100, stream, report);  // where tier 1 works
  }
  EXPECT_GE(report.tried, 20'000u);
  EXPECT_EQ(report.wrong, 0u);
  for (int tier : {1, 2, 3}) EXPECT_GT(report.by_tier[tier], 500u) << tier;
}

// What tier 1 makes of any words, by every kernel, in blocks of every size.
void ExpectTheKernelsAgree(double c, const std::vector<std::uint64_t>& words) {
  const double limit = 0.5 - c * internal::LatticeBounds::Certified(c).fast;
  std::size_t size = 1;
  for (std::size_t at = 0; at < words.size(); at += size, size = size % internal::kKernelBlock + 1) {
    const std::size_t n = std::min(size, words.size() - at);
    const std::vector<std::int64_t> block(words.begin() + static_cast<std::ptrdiff_t>(at),
                                          words.begin() + static_cast<std::ptrdiff_t>(at + n));
    std::vector<std::int64_t> want;
    std::vector<std::uint64_t> want_real;
    std::vector<std::uint32_t> want_left, want_real_left;
    for (internal::Simd simd : internal::kEverySimd) {
      if (simd > internal::BestSimd()) continue;
      std::vector<std::int64_t> got = block;
      std::vector<std::uint32_t> left(n), real_left(n);
      left.resize(internal::RoundedNormals(simd, c, limit, got, left.data()));
      std::vector<double> real(n);
      real_left.resize(internal::RealNormals(simd, {words.data() + at, n}, real.data(), real_left.data()));
      std::vector<std::uint64_t> bits(n);  // NaN is not equal to itself, its bits are
      for (std::size_t i = 0; i < n; ++i)
        bits[i] = std::isnan(real[i]) ? 0 : std::bit_cast<std::uint64_t>(real[i]);
      if (simd == internal::Simd::kScalar) {
        want = got, want_left = left, want_real = bits, want_real_left = real_left;
        for (std::uint32_t i : left) ASSERT_EQ(got[i], block[i]) << "undecided words stay";
        continue;
      }
      ASSERT_EQ(got, want) << internal::Name(simd);
      ASSERT_EQ(left, want_left) << internal::Name(simd);
      ASSERT_EQ(bits, want_real) << internal::Name(simd);
      ASSERT_EQ(real_left, want_real_left) << internal::Name(simd);
    }
  }
}

TEST(LatticeKernels, AgreeOnMillionsOfWords) {
  Stream stream({12, Purpose::kTest, 0, 0});
  for (double c : {1.0, 2.75, 0x1p30, 0x1.fffffffffffffp30, 0x1.23456789abcdep35, 0x1p40}) {
    SCOPED_TRACE(c);
    std::vector<std::uint64_t> words(500'000);
    for (std::uint64_t& w : words) w = stream();
    for (std::size_t i = 0; i < words.size(); i += 4) words[i] >>= stream.Below(64);  // the tail too
    ExpectTheKernelsAgree(c, words);
  }
}

TEST(LatticeKernels, AgreeAtTheEdgesOfEverySegment) {
  std::vector<std::uint64_t> words{0};
  for (int octave = 0; octave <= 62; ++octave) {
    for (std::uint64_t segment = 0; segment < 256; ++segment) {
      const std::uint64_t edge =
          octave >= 8 ? (256 + segment) << (octave - 8) : (256 + segment) >> (8 - octave);
      // Half an ulp of (double)m below the edge rounds up to it, one more does not.
      const std::uint64_t half = octave > 53 ? std::uint64_t{1} << (octave - 54) : 1;
      for (std::uint64_t m :
           {edge - 2 * half, edge - half - 1, edge - half, edge - 1, edge, edge + 1, edge + half})
        for (std::uint64_t sign : {std::uint64_t{0}, std::uint64_t{1} << 63})
          words.push_back((m & ~(std::uint64_t{1} << 63)) | sign);
    }
  }
  for (double c : {1.0, 0x1.6p30, 0x1p40}) ExpectTheKernelsAgree(c, words);
}

TEST(LatticeKernels, AgreeBesideCellBoundaries) {
  Stream stream({13, Purpose::kTest, 0, 0});
  for (double c : {0x1.2p30, 0x1.fffffffffffffp30, 0x1.8p35}) {
    std::vector<std::uint64_t> words;
    AttackReport report;
    Attack{.c = c, .lowest_octave = 44, .deep_one_in = 1000, .record = &words}.Run(400, stream, report);
    EXPECT_EQ(report.wrong, 0u);
    // And the neighbours: the decision flips within a few units of m.
    const std::size_t n = words.size();
    for (std::size_t i = 0; i < n; ++i)
      for (std::uint64_t d : {1u, 2u, 3u, 1000u}) words.insert(words.end(), {words[i] + d, words[i] - d});
    ExpectTheKernelsAgree(c, words);
  }
}

TEST(LatticeKernels, AreChosenByNameWithinWhatTheProcessorHas) {
  using internal::Simd;
  const struct {
    const char* why;
    const char* wish;
    Simd best, want;
  } kCases[] = {
      {"no wish: the best", nullptr, Simd::kAvx512, Simd::kAvx512},
      {"an empty wish is none", "", Simd::kAvx2, Simd::kAvx2},
      {"less than the best", "scalar", Simd::kAvx512, Simd::kScalar},
      {"less than the best", "avx2", Simd::kAvx512, Simd::kAvx2},
      {"the best", "avx512", Simd::kAvx512, Simd::kAvx512},
      {"more than the processor has", "avx512", Simd::kAvx2, Simd::kAvx2},
      {"more than the processor has", "avx2", Simd::kScalar, Simd::kScalar},
      {"an unknown name is ignored", "AVX2", Simd::kAvx512, Simd::kAvx512},
  };
  for (const auto& c : kCases) EXPECT_EQ(internal::ChooseSimd(c.wish, c.best), c.want) << c.why;
  EXPECT_EQ(SamplerKernel(),
            internal::Name(internal::ChooseSimd(std::getenv("TACIT_SIMD"), internal::BestSimd())));
}

TEST(LatticeDraw, TheAttackAgreesWithTheDefinition) {
  Stream stream({10, Purpose::kTest, 0, 0});
  AttackReport report;
  Attack{.c = 0x1.23456789abcdep30, .check_reference = true}.Run(20, stream, report);
  EXPECT_EQ(report.wrong, 0u);
}

TEST(LatticeDraw, TheAttackCatchesALoosenedBound) {
  const auto proven = internal::LatticeBounds::Certified(),
             far = internal::LatticeBounds::Certified(0x1.6p36);
  const struct {
    const char* why;
    internal::LatticeBounds bounds;
    int lowest_octave;
    std::uint64_t deep_one_in;
    double c = 0x1.6p30;
    std::uint64_t boundaries = 300;
  } kFrauds[] = {
      {"tier 1 accepts everything", {0, proven.second}, 44, 1000},
      {"tier 1 claims 7/10 of its error", {0.7 * proven.fast, proven.second}, 60, 1000},
      {"tier 2 accepts everything", {kInfinity, 0}, 0, 1},
      {"tier 2 claims 1/256 of its error", {kInfinity, proven.second / 256}, 0, 1},
      {"tier 2 on a finer grid claims 1/32 of its error", {kInfinity, far.second / 32}, 0, 1, 0x1.6p36, 60},
  };
  for (const auto& fraud : kFrauds) {
    SCOPED_TRACE(fraud.why);
    Stream stream({11, Purpose::kTest, 0, 0});
    AttackReport report;
    Attack{.c = fraud.c,
           .bounds = fraud.bounds,
           .lowest_octave = fraud.lowest_octave,
           .deep_one_in = fraud.deep_one_in}
        .Run(fraud.boundaries, stream, report);
    EXPECT_GT(report.wrong, 0u);
  }
}

}  // namespace
}  // namespace tacit
