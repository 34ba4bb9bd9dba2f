// What a masked vector is on the wire.
#include <gtest/gtest.h>

#include "privacy/mechanism.h"
#include "privacy/secure_sum.h"
#include "wire/frame.h"

namespace tacit {
namespace {

struct Sent {
  Masked update;
  auto Fields() { return std::tie(update); }
};
static_assert(Message<Sent> && Framed<Sent> && IsMasked<Sent>);

SecureSum Make() { return *SecureSum::Make({4, 4, 0}, NoiseStd::Proven(0.7), L2Bound{1.5}); }

// What a client seals of x, with fixed noise.
Masked Sealed(const SecureSum& sum, Vec x) {
  Accountant plan(Adjacency::kReplaceOne);
  EXPECT_TRUE(plan.Compose(sum.EventFor(L2Bound{3.0}, true, x.size()), 1).ok());
  LedgerBook book(1, plan);
  Private<Vec> v(std::move(x));
  NoiseRng rng = NoiseRng::Replayable({5, Purpose::kNoise, 0, 1});
  NoiseBuffer noise;
  Masked out;
  EXPECT_TRUE(sum.Seal(Bounded::Clip(v, L2Bound{1.5}), book.account(0), rng, noise, out).ok());
  return out;
}
Mask FixedMask() {
  Secret key;
  key.at.fill(std::byte{42});
  return {key, false};
}

TEST(MaskedFrame, ComesBackAndIsRefusedWhereItIsNone) {
  Sent m{Sealed(Make(), {0.5, -0.25, 0})};
  const Mask masks[] = {FixedMask()};
  m.update.Cover(masks);
  const auto frame = Codec::Encode(m);
  EXPECT_EQ(frame.size(), WireSize(m));
  auto back = Codec::Decode<Sent>(frame);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(Codec::Encode(*back), frame);
  EXPECT_EQ(FaultOf(*back, {3}), Fault::kNone);
  EXPECT_EQ(FaultOf(*back, {4}), Fault::kLength);
  struct Parts {
    Public<std::uint32_t> bits;
    Public<std::uint64_t> count;
    Public<std::uint64_t> value;
    auto Fields() { return std::tie(bits, count, value); }
  } parts;
  for (const auto& [bits, count] :
       std::vector<std::pair<std::uint32_t, std::uint64_t>>{{0, 1},
                                                            {7, 1},
                                                            {72, 1},
                                                            {64, 2},
                                                            {32, 3},
                                                            {32, 1},
                                                            {64, ~std::uint64_t{0}},
                                                            {8, ~std::uint64_t{0}}}) {
    parts.bits.Mutable() = bits;
    parts.count.Mutable() = count;
    EXPECT_FALSE(Codec::Decode<Sent>(Codec::Encode(parts)).ok()) << bits << " " << count;
  }
  parts.bits.Mutable() = 32;
  parts.count.Mutable() = 2;
  EXPECT_TRUE(Codec::Decode<Sent>(Codec::Encode(parts)).ok());
}

// One message is uniform, whatever it hides. 65,536 numbers by each of their bytes: χ² with 255 degrees of
// freedom is above 377.3 once in a million; the keys are fixed, so this is decided once and for all.
TEST(MaskedFrame, OneMaskedMessageIsUniform) {
  Sent m{Sealed(Make(), Vec(65536, 0.001))};
  const Mask masks[] = {FixedMask()};
  m.update.Cover(masks);
  const auto frame = Codec::Encode(m);
  const std::size_t width = m.update.bits() / 8;
  ASSERT_EQ(frame.size(), kFrameHeader + 12 + 65536 * width);
  for (std::size_t byte = 0; byte < width; ++byte) {
    double count[256] = {}, chi = 0;
    for (std::size_t j = 0; j < 65536; ++j)
      ++count[static_cast<unsigned>(frame[kFrameHeader + 12 + j * width + byte])];
    for (const double c : count) chi += (c - 256) * (c - 256) / 256;
    EXPECT_LT(chi, 377.3) << "byte " << byte;
  }
  const auto back = Codec::Decode<Sent>(frame);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->update.dim(), 65536u);
  EXPECT_EQ(back->update.bits(), m.update.bits());
}

TEST(MaskedFrameDeathTest, WhatNoMaskCoversIsNotEncoded) {
  Sent m{Sealed(Make(), {1.0})};
  EXPECT_DEATH(static_cast<void>(Codec::Encode(m)), "covered");
}

}  // namespace
}  // namespace tacit
