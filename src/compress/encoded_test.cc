#include "compress/encoded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compress/compressor.h"
#include "core/rng.h"

namespace tacit {
namespace {

using internal::Mini16;
using internal::Mini8;

Vec Normals(std::size_t n, std::uint32_t who) {
  Stream s({1, Purpose::kTest, who, 0});
  Vec x(n);
  for (double& v : x) v = s.Normal();
  return x;
}

// Every code is the nearest to its value, and to whatever lies within half a step of it.
template <class M> void CodesAreNearest(std::uint32_t codes, double u, double t) {
  for (std::uint32_t c = 0; c < codes; ++c) {
    const double v = M::Value(c);
    ASSERT_EQ(M::Code(v), c);
    if (c + 1 == codes) break;
    const double next = M::Value(c + 1), middle = (v + next) / 2;
    ASSERT_GT(next, v);
    ASSERT_EQ(M::Code(std::nextafter(middle, 0)), c);
    ASSERT_EQ(M::Code(std::nextafter(middle, 3)), c + 1);
    ASSERT_EQ(M::Code(middle), c % 2 == 0 ? c : c + 1);               // ties to even
    ASSERT_LE(middle - v, std::max(u * middle, t));                   // what the header promises
  }
  const double largest = M::Value(codes - 1);
  ASSERT_LT(largest, 2);
  ASSERT_EQ(M::Code(std::nextafter(2.0, 0)), codes - 1);
  ASSERT_LE(2 - largest, u * 2);
}

TEST(Mini, EveryCodeOfSixteenBitsIsTheNearest) { CodesAreNearest<Mini16>(1 << 15, 0x1p-11, 0x1p-41); }
TEST(Mini, EveryCodeOfEightBitsIsTheNearest) { CodesAreNearest<Mini8>(1 << 7, 0x1p-4, 0x1p-18); }

TEST(DrawPositions, AreDistinctAscendingAndTheStreamsAlone) {
  std::vector<std::uint64_t> bits;
  std::vector<std::uint32_t> a, b;
  for (const std::size_t d : {1u, 2u, 63u, 64u, 65u, 1000u})
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, d / 3, d / 2, d - 1, d}) {
      DrawPositions(7, d, n, bits, a);
      ASSERT_EQ(a.size(), n);
      ASSERT_TRUE(std::adjacent_find(a.begin(), a.end(), std::greater_equal<>()) == a.end());
      ASSERT_TRUE(a.empty() || a.back() < d);
      DrawPositions(7, d, n, bits, b);
      ASSERT_EQ(a, b);
    }
  DrawPositions(7, 1000, 100, bits, a);
  DrawPositions(8, 1000, 100, bits, b);
  EXPECT_NE(a, b);
}

// Each of the 10 (or 45) sets equally often: χ² with 9 (44) degrees of freedom below its 1e-9 quantile.
TEST(DrawPositions, EverySetIsEquallyLikely) {
  std::vector<std::uint64_t> bits;
  std::vector<std::uint32_t> at;
  for (const std::size_t n : {1u, 2u, 8u, 9u}) {
    std::vector<double> count(100);
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      DrawPositions(static_cast<std::uint64_t>(i), 10, n, bits, at);
      if (n == 1) ++count[at[0]];
      if (n == 2) ++count[at[0] * 10 + at[1]];
      if (n >= 8) {
        std::vector<std::uint32_t> out;
        for (std::uint32_t j = 0; j < 10; ++j)
          if (!std::binary_search(at.begin(), at.end(), j)) out.push_back(j);
        ++count[n == 9 ? out[0] : out[0] * 10 + out[1]];
      }
    }
    const double sets = n == 1 || n == 9 ? 10 : 45, expected = kDraws / sets;
    double chi = 0, seen = 0;
    for (const double c : count)
      if (c > 0) chi += (c - expected) * (c - expected) / expected, ++seen;
    EXPECT_EQ(seen, sets);
    EXPECT_LT(chi, sets == 10 ? 63.5 : 126.0);
  }
}

TEST(Encoded, WhateverIsNotExactlyAMessageIsRefusedAndChangesNothing) {
  CompressSpace space;
  Encoded e;
  std::size_t refused = 0;
  for (const char* name :
       {"identity", "identity/32", "identity/16", "identity/8", "top:0.05", "top:0.6/16", "top:0.1/8",
        "rand:0.2", "round:2", "top:0.1+round:2", "top:0.5+round:1.5", "rand:0.3+round:1.2"}) {
    SCOPED_TRACE(name);
    const auto c = ParseCompressor(name);
    ASSERT_TRUE(c.ok());
    const Vec x = Normals(200, 3);
    c->Compress(x, 11, e, space);
    ASSERT_TRUE(CheckEncoded(e, 200).ok());
    EXPECT_FALSE(CheckEncoded(e, 199).ok());
    EXPECT_FALSE(CheckEncoded(e, 201).ok());
    Vec y(200, 5.0);
    const auto refuse = [&](const Encoded& bad) {
      EXPECT_FALSE(CheckEncoded(bad, 200).ok());
      EXPECT_EQ(Decode(bad, y, space.decode).error().code, Code::kMalformed);
      EXPECT_FALSE(AddDecoded(1, bad, y, space.decode).ok());
      EXPECT_EQ(y, Vec(200, 5.0));
    };
    for (std::size_t size = 0; size < e.bytes(); ++size) {
      Encoded cut = e;
      cut.data.resize(size);
      refuse(cut);
    }
    Encoded longer = e;
    longer.data.push_back(0);
    refuse(longer);
    // A changed byte is refused, or is another vector of finite numbers.
    Stream s({4, Purpose::kTest, 0, 0});
    for (int i = 0; i < 2000; ++i) {
      Encoded other = e;
      other.data[s.Below(other.bytes())] ^= static_cast<std::uint8_t>(1 + s.Below(255));
      Vec out(200);
      const bool good = CheckEncoded(other, 200).ok();
      ASSERT_EQ(good, Decode(other, out, space.decode).ok());
      refused += good ? 0 : 1;
      for (const double v : out) ASSERT_TRUE(std::isfinite(v));
    }
  }
  EXPECT_GT(refused, 1000u);
}

TEST(Encoded, MessagesThatPromiseWhatCannotBe) {
  const struct {
    const char* why;
    std::vector<std::uint8_t> data;
  } cases[] = {
      {"nothing at all", {}},
      {"an unknown place", {5, 3}},
      {"an unknown number", {0x61, 3}},
      {"another length", {0, 4}},
      {"a length in too many bytes", {0, 0x83, 0}},
      {"a length without an end", {0, 0x83, 0x80, 0x80, 0x80, 0x80, 0x80}},
      {"zero with values after it", {0, 3, 1}},
      {"zero of another kind", {0x10, 3}},
      {"more positions than coordinates", {0x32, 3, 4, 7, 0, 0, 0, 0, 0, 0}},
      {"no positions", {0x32, 3, 0, 0, 0, 0}},
      {"a bitmap of too many", {0x32, 3, 1, 7, 0, 0, 1}},
      {"a bitmap beyond the end", {0x32, 3, 1, 8, 0, 0, 1}},
      {"a gap beyond the end", {0x33, 3, 1, 0, 0x0f, 0, 0, 1}},
      {"a gap without an end", {0x33, 3, 1, 0, 0xff, 0xff, 0xff}},
      {"bits after the gaps", {0x33, 3, 1, 0, 0x82, 0, 0, 1}},
      {"a parameter out of range", {0x33, 3, 1, 33, 0, 0, 0, 0, 0, 0, 1}},
      {"a scale out of range", {0x31, 3, 0, 4, 1, 1, 1}},
      {"a float of two", {0x11, 1, 0, 0, 0, 0, 0, 0x40}},
      {"a float that is not a number", {0x11, 1, 0, 0, 0, 0, 0xc0, 0x7f}},
      {"a double that is infinite", {0x01, 1, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f}},
      {"no levels", {0x41, 1, 0, 0, 0, 0, 0}},
      {"powers beyond the largest", {0x41, 1, 0xff, 3, 2, 0, 1}},
      {"a code beyond the levels", {0x41, 1, 0, 0, 1, 0, 3}},
      {"bits after the codes", {0x41, 1, 0, 0, 1, 0, 5}},
      {"a level that is zero", {0x51, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
  };
  DecodeSpace space;
  for (const auto& c : cases) {
    SCOPED_TRACE(c.why);
    Vec y(c.data.size() > 1 && c.data[1] == 1 ? 1 : 3, 5.0);
    EXPECT_FALSE(CheckEncoded(Encoded{c.data}, y.size()).ok());
    EXPECT_FALSE(Decode(Encoded{c.data}, y, space).ok());
    EXPECT_FALSE(AddDecoded(1, Encoded{c.data}, y, space).ok());
    for (const double v : y) EXPECT_EQ(v, 5.0);
  }
  Vec y(3);
  EXPECT_TRUE(Decode(Encoded{{0x33, 3, 1, 0, 0x03, 0, 0, 0xf8}}, y, space).ok());  // the third is −1
  EXPECT_EQ(y, (Vec{0, 0, -1}));
}

}  // namespace
}  // namespace tacit
