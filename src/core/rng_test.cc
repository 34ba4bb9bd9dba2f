#include "core/rng.h"

#include <gtest/gtest.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <set>
#include <vector>

namespace {

std::atomic<long> allocations{0};

void* CountingMalloc(std::size_t n, const char*, int) {
  ++allocations;
  return std::malloc(n);
}
void* CountingRealloc(void* p, std::size_t n, const char*, int) {
  ++allocations;
  return std::realloc(p, n);
}
void CountingFree(void* p, const char*, int) { std::free(p); }
// Before main, hence before OpenSSL's first allocation, after which it would refuse.
const bool counting = CRYPTO_set_mem_functions(CountingMalloc, CountingRealloc, CountingFree) == 1;

}  // namespace

namespace tacit {
namespace {

constexpr double kNormalLimit = 4.892;  // |N(0, 1)| exceeds it with probability 1e-6: the false-alarm rate

TEST(Philox, MatchesTheKnownAnswersOfRandom123) {
  const std::uint64_t ones = ~std::uint64_t{0};
  const struct {
    const char* why;
    std::array<std::uint64_t, 4> counter;
    std::array<std::uint64_t, 2> key;
    std::array<std::uint64_t, 4> block;
  } kCases[] = {
      {"zeros",
       {0, 0, 0, 0},
       {0, 0},
       {0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b, 0x7e68b68aec7ba23b}},
      {"ones",
       {ones, ones, ones, ones},
       {ones, ones},
       {0x87b092c3013fe90b, 0x438c3c67be8d0224, 0x9cc7d7c69cd777b6, 0xa09caebf594f0ba0}},
      {"digits of pi",
       {0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89},
       {0x452821e638d01377, 0xbe5466cf34e90c6c},
       {0xa528f45403e61d95, 0x38c72dbd566e9788, 0xa5a1610e72fd18b5, 0x57bd43b5e52b7fe6}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    EXPECT_EQ(internal::Philox4x64(c.counter, c.key), c.block);
  }
}

TEST(Stream, EachNumberOfTheIdNamesAnotherStream) {
  const StreamId base{7, Purpose::kTest, 3, 5};
  std::set<std::uint64_t> first;
  for (StreamId id : {base, StreamId{8, Purpose::kTest, 3, 5}, StreamId{7, Purpose::kData, 3, 5},
                      StreamId{7, Purpose::kTest, 4, 5}, StreamId{7, Purpose::kTest, 3, 6}})
    first.insert(Stream(id)());
  EXPECT_EQ(first.size(), 5u);
  Stream a(base), b(base);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a(), b());
}

TEST(Stream, BlocksFollowTheCounter) {
  Stream s({7, Purpose::kTest, 3, 5});
  for (std::uint64_t block = 0; block < 3; ++block) {
    const auto want =
        internal::Philox4x64({block, 0, 0, 5}, {7, static_cast<std::uint64_t>(Purpose::kTest) << 32 | 3});
    for (std::uint64_t w : want) EXPECT_EQ(s(), w);
  }
}

TEST(Stream, UniformIsInTheHalfOpenIntervalWithTheRightMean) {
  Stream s({1, Purpose::kTest, 0, 0});
  const int n = 100'000;
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    const double u = s.Uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_LT(std::abs(sum / n - 0.5) * std::sqrt(12.0 * n), kNormalLimit);
}

TEST(Stream, NormalFollowsTheNormalLaw) {
  Stream s({2, Purpose::kTest, 0, 0});
  std::vector<double> z(200'000);
  for (double& v : z) v = s.Normal();
  std::sort(z.begin(), z.end());
  const double n = static_cast<double>(z.size());
  double d = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double cdf = 0.5 * std::erfc(-z[i] / std::sqrt(2.0)), at = static_cast<double>(i);
    d = std::max({d, cdf - at / n, (at + 1) / n - cdf});
  }
  EXPECT_LT(d * std::sqrt(n), 2.694);  // Kolmogorov: 2 exp(−2 d² n) = 1e-6
}

TEST(Stream, NormalInvertsTheDistributionFunction) {
  Stream s({3, Purpose::kTest, 0, 0}), same({3, Purpose::kTest, 0, 0});
  for (int i = 0; i < 100'000; ++i) {
    const double q = (static_cast<double>(same() >> 12) + 0.5) * 0x1p-52 - 0.5, z = s.Normal();
    const double tail = 0.5 * std::erfc(std::abs(z) / std::sqrt(2.0));
    EXPECT_NEAR(tail / (0.5 - std::abs(q)), 1, 2e-14) << z;
    EXPECT_EQ(q < 0, z < 0);
  }
}

TEST(Stream, NormalIsTheSameOnEveryMachine) {
  // Made by this code: guards against a change of method or of compiler flags only.
  Stream s({42, Purpose::kTest, 1, 2});
  double sum = 0;
  for (int i = 0; i < 1000; ++i) sum += s.Normal();
  EXPECT_EQ(sum, 0x1.96c6645c7a97dp+5);
}

TEST(Stream, BelowHasNoModuloBias) {
  Stream s({4, Purpose::kTest, 0, 0});
  EXPECT_EQ(s.Below(1), 0u);
  // n = 3·2^62: a plain remainder would make the first third twice as likely as the others.
  const std::uint64_t third = std::uint64_t{1} << 62;
  const int n = 90'000;
  int count[3] = {};
  for (int i = 0; i < n; ++i) ++count[s.Below(3 * third) / third];
  double chi2 = 0;
  for (int c : count) chi2 += (c - n / 3.0) * (c - n / 3.0) / (n / 3.0);
  EXPECT_LT(chi2, 27.63);  // two degrees of freedom: exp(−x/2) = 1e-6
}

TEST(NoiseRng, ReplayableIsAesCtrUnderTheHashOfTheId) {
  const StreamId id{0x0123456789abcdef, Purpose::kNoise, 17, 99};
  const unsigned char message[36] = {'t', 'a', 'c', 'i', 't',  ' ',  'n',  'o',  'i',  's',  'e',  ' ',
                                     'v', '1', 0,   0,   0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
                                     6,   0,   0,   0,   17,   0,    0,    0,    99,   0,    0,    0};
  unsigned char key[32];
  SHA256(message, sizeof(message), key);
  std::vector<std::uint64_t> want(15000), got(15000);  // several refills
  const unsigned char iv[16] = {};
  EVP_CIPHER_CTX* ctx = EVP_CIPHER_CTX_new();
  ASSERT_EQ(EVP_EncryptInit_ex(ctx, EVP_aes_256_ctr(), nullptr, key, iv), 1);
  int n = 0;
  auto* bytes = reinterpret_cast<unsigned char*>(want.data());
  ASSERT_EQ(EVP_EncryptUpdate(ctx, bytes, &n, bytes, static_cast<int>(want.size() * 8)), 1);
  EVP_CIPHER_CTX_free(ctx);

  NoiseRng rng = NoiseRng::Replayable(id);
  EXPECT_TRUE(rng.replayable());
  rng.Fill(std::span(got).first(3));
  for (std::size_t i = 3; i < 10; ++i) got[i] = rng.Bits();
  rng.Fill(std::span(got).subspan(10));
  EXPECT_EQ(got, want);
}

TEST(NoiseRng, RekeyStartsTheOtherStreamFromItsBeginning) {
  const StreamId a{1, Purpose::kNoise, 2, 3}, b{1, Purpose::kNoise, 2, 4};
  NoiseRng rng = NoiseRng::Replayable(a);
  for (int used : {0, 1, 64, 65, 3000}) {
    SCOPED_TRACE(used);
    rng.Rekey(a);
    for (int i = 0; i < used; ++i) rng.Bits();
    rng.Rekey(b);
    NoiseRng fresh = NoiseRng::Replayable(b);
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(rng.Bits(), fresh.Bits());
  }
}

TEST(NoiseRng, RekeyAndRefillDoNotAllocate) {
  ASSERT_TRUE(counting);
  NoiseRng rng = NoiseRng::Replayable({1, Purpose::kNoise, 0, 0});
  NoiseRng entropy = NoiseRng::FromEntropy();
  std::vector<std::uint64_t> out(10'000);
  rng.Rekey({1, Purpose::kNoise, 0, 1});
  rng.Fill(out);
  entropy.Fill(out);
  const long before = allocations;
  for (std::uint32_t round = 0; round < 100; ++round) {
    rng.Rekey({1, Purpose::kNoise, 0, round});
    rng.Fill(out);
    entropy.Fill(out);
  }
  EXPECT_EQ(allocations, before);
}

TEST(NoiseRng, EntropyNeverRepeats) {
  NoiseRng a = NoiseRng::FromEntropy(), b = NoiseRng::FromEntropy();
  EXPECT_FALSE(a.replayable());
  std::vector<std::uint64_t> words(40'000);
  a.Fill(std::span(words).first(20'000));
  b.Fill(std::span(words).last(20'000));
  std::sort(words.begin(), words.end());
  EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());  // by chance: 4e-11
  long ones = 0;
  for (std::uint64_t w : words) ones += std::popcount(w);
  const double n = 64.0 * static_cast<double>(words.size());
  EXPECT_LT(std::abs(static_cast<double>(ones) - n / 2) / std::sqrt(n / 4), kNormalLimit);
}

TEST(NoiseRng, MovingKeepsTheStream) {
  NoiseRng a = NoiseRng::Replayable({5, Purpose::kNoise, 0, 0}),
           b = NoiseRng::Replayable({5, Purpose::kNoise, 0, 0});
  a.Bits();
  NoiseRng c = std::move(a);
  b.Bits();
  EXPECT_EQ(c.Bits(), b.Bits());
}

// What a child sees after fork(), through a pipe.
template <class Draw>
std::vector<std::uint64_t> InChild(Draw draw) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::vector<std::uint64_t> words = draw();
    const auto size = static_cast<ssize_t>(words.size() * 8);
    _exit(write(pipe_ends[1], words.data(), words.size() * 8) == size ? 0 : 1);
  }
  close(pipe_ends[1]);
  std::vector<std::uint64_t> words(4096);
  std::size_t got = 0;
  for (ssize_t n;
       (n = read(pipe_ends[0], reinterpret_cast<char*>(words.data()) + got, words.size() * 8 - got)) > 0;)
    got += static_cast<std::size_t>(n);
  close(pipe_ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  words.resize(got / 8);
  return words;
}

TEST(NoiseRng, AChildOfForkNeverRepeatsItsParent) {
  const struct {
    const char* why;
    std::size_t before;
    bool one_by_one;
  } kCases[] = {
      {"with a full buffer, word by word", 1, true},
      {"with a full buffer, in bulk", 1, false},
      {"at the end of the buffer", 60, true},
      {"before the first word", 0, false},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    NoiseRng rng = NoiseRng::FromEntropy();
    for (std::size_t i = 0; i < c.before; ++i) rng.Bits();
    const auto draw = [&] {
      std::vector<std::uint64_t> words(2000);
      if (c.one_by_one)
        for (auto& w : words) w = rng.Bits();
      else
        rng.Fill(words);
      return words;
    };
    std::vector<std::uint64_t> all = InChild(draw);
    ASSERT_EQ(all.size(), 2000u);
    for (const auto& words : {InChild(draw), draw()}) all.insert(all.end(), words.begin(), words.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
  }
}

TEST(NoiseRngDeathTest, MisuseStopsTheProcess) {
  NoiseRng entropy = NoiseRng::FromEntropy();
  EXPECT_DEATH(entropy.Rekey({}), "broken invariant");
  NoiseRng taken = std::move(entropy);
  EXPECT_DEATH(entropy.Bits(), "broken invariant");  // NOLINT: the use after move is the test
}

}  // namespace
}  // namespace tacit
