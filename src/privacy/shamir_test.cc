#include "privacy/shamir.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/rng.h"

namespace tacit {
namespace {

using internal::FieldAdd;
using internal::FieldInverse;
using internal::FieldMultiply;
using internal::kPrime;

TEST(Shamir, TheFieldIsOne) {
  Stream coins({1, Purpose::kTest, 0, 0});
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t edge[] = {0, 1, 2, kPrime - 2, kPrime - 1};
    const auto draw = [&] { return i < 25 ? edge[coins.Below(5)] : coins.Below(kPrime); };
    const std::uint64_t a = draw(), b = draw(), c = draw();
    __extension__ using Wide = unsigned __int128;
    EXPECT_EQ(FieldAdd(a, b), (a + b) % kPrime);
    EXPECT_EQ(FieldMultiply(a, b), static_cast<std::uint64_t>(static_cast<Wide>(a) * b % kPrime));
    EXPECT_EQ(FieldMultiply(a, FieldAdd(b, c)), FieldAdd(FieldMultiply(a, b), FieldMultiply(a, c)));
    EXPECT_EQ(FieldMultiply(a, FieldInverse(a)), a == 0 ? 0u : 1u);
  }
}

std::vector<HeldShare> Held(const std::vector<SecretShare>& shares,
                            const std::vector<std::uint32_t>& holders) {
  std::vector<HeldShare> out;
  for (std::size_t i = 0; i < shares.size(); ++i) out.push_back({holders[i], shares[i]});
  return out;
}

// Every set of five holders, for every threshold.
TEST(Shamir, AnyThresholdOfTheHoldersHasTheSecret) {
  const std::vector<std::uint32_t> holders = {0, 3, 4, 17, 1000000};
  for (std::uint32_t t = 1; t <= 5; ++t) {
    const Secret secret = Secret::Random();
    const auto all = Held(Split(secret, t, holders), holders);
    for (unsigned set = 0; set < 32; ++set) {
      std::vector<HeldShare> some;
      for (std::size_t i = 0; i < 5; ++i)
        if ((set >> i & 1) != 0) some.push_back(all[i]);
      const auto back = Combine(some, t);
      ASSERT_EQ(back.ok(), some.size() >= t);
      if (!back.ok()) continue;
      EXPECT_TRUE(*back == secret);
      std::reverse(some.begin(), some.end());
      EXPECT_TRUE(*Combine(some, t) == secret);
    }
  }
}

TEST(Shamir, SecretsOfAllBitPatternsComeBack) {
  const std::vector<std::uint32_t> holders = {1, 2, 3};
  for (int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
    Secret secret;
    secret.at.fill(static_cast<std::byte>(value));
    EXPECT_TRUE(*Combine(Held(Split(secret, 2, holders), holders), 2) == secret);
  }
}

// For every value of a secret there is a polynomial through any t − 1 shares: of two secrets, the shares of
// t − 1 holders have the same distribution. Here by counts of one share's low bit, 20,000 draws each: the
// difference exceeds 5 standard deviations once in 1.7 million runs.
TEST(Shamir, FewerSharesSayNothing) {
  const std::vector<std::uint32_t> holders = {0, 1, 2};
  Secret zeros, ones;
  ones.at.fill(std::byte{0xff});
  double count[2] = {0, 0};
  for (int i = 0; i < 20000; ++i) {
    count[0] += static_cast<double>(Split(zeros, 2, holders)[1].at[0] & 1);
    count[1] += static_cast<double>(Split(ones, 2, holders)[1].at[0] & 1);
  }
  EXPECT_LT(std::abs(count[0] - count[1]), 5 * std::sqrt(20000 * 0.25 * 2));
}

TEST(Shamir, SharesThatWereChangedAreNotTaken) {
  const std::vector<std::uint32_t> holders = {0, 1, 2, 3};
  const Secret secret = Secret::Random();
  auto held = Held(Split(secret, 3, holders), holders);
  held[1].share.at[2] ^= 4;
  const auto other = Combine(held, 3);
  EXPECT_TRUE(!other.ok() || !(*other == secret));
  held = Held(Split(secret, 3, holders), holders);
  held[0].share.at[0] = kPrime;
  EXPECT_FALSE(Combine(held, 3).ok());
  held = Held(Split(secret, 3, holders), holders);
  held[2].holder = held[0].holder;
  EXPECT_FALSE(Combine(held, 3).ok());
}

}  // namespace
}  // namespace tacit
