#include "wire/frame.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/sha256.h"
#include "privacy/mechanism.h"

namespace tacit {
namespace {

struct Message1 {
  Public<std::uint32_t> t;
  Public<Vec> x;
  Released<Vec> g;
  Public<std::vector<std::uint16_t>> at;
  Public<double> last;
  auto Fields() { return std::tie(t, x, g, at, last); }
};
struct Empty {
  auto Fields() { return std::tie(); }
};
struct BareVec {
  Vec x;
  auto Fields() { return std::tie(x); }
};
struct BareDouble {
  Public<Vec> x;
  double y;
  auto Fields() { return std::tie(x, y); }
};
struct PrivateField {
  Private<Vec> x;
  auto Fields() { return std::tie(x); }
};
struct HiddenPrivate {
  Public<std::vector<Private<double>>> x;
  auto Fields() { return std::tie(x); }
};
struct PointerField {
  Public<const double*> x;
  auto Fields() { return std::tie(x); }
};
struct NoFields {
  Public<Vec> x;
};
static_assert(Message<Message1> && Message<Empty>);
static_assert(!Message<BareVec> && !Message<BareDouble> && !Message<PrivateField> && !Message<NoFields>);
static_assert(!Message<HiddenPrivate> && !Message<PointerField>);

Released<Vec> Release(Vec v) {
  Private<Vec> p(std::move(v));
  Ledger ledger(MuSquared::Proven(kInf), Adjacency::kReplaceOne);
  NoiseRng rng = NoiseRng::Replayable({});
  NoiseBuffer noise;
  Released<Vec> out;
  EXPECT_TRUE(Expose()
                  .Release(Bounded::Clip(p, L2Bound::Proven(1e100)), NoiseStd{1.0}, ledger, rng, noise, out)
                  .ok());
  return out;
}

Message1 Sample() {
  return {Public<std::uint32_t>(7), Public<Vec>(Vec{1.5, -0.0, std::numeric_limits<double>::infinity()}),
          Release({0.25, 5e-324}), Public<std::vector<std::uint16_t>>({1, 2, 65535}), Public<double>(1e-300)};
}

TEST(Frame, DecodeOfEncodeIsIdentity) {
  Message1 m = Sample();
  const auto frame = Codec::Encode(m);
  auto back = Codec::Decode<Message1>(frame);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back->t, *m.t);
  EXPECT_EQ(*back->x, *m.x);
  EXPECT_EQ(*back->g, *m.g);
  EXPECT_EQ(*back->at, *m.at);
  EXPECT_EQ(*back->last, *m.last);
  EXPECT_EQ(Codec::Encode(*back), frame);
  Message1 nan = Sample();
  nan.x.Mutable()[0] = std::numeric_limits<double>::quiet_NaN();      // bits, not values, travel
  auto nan_back = Codec::Decode<Message1>(Codec::Encode(nan));
  ASSERT_TRUE(nan_back.ok());
  EXPECT_TRUE(std::isnan((*nan_back->x)[0]));
}

// By Python: b"TCT1" + struct.pack("<IQ", zlib.crc32(payload), len(payload)) + payload.
TEST(Frame, IsTheseBytes) {
  Message1 m = Sample();
  EXPECT_EQ(Hex(Codec::Encode(m)),
            "54435431e9ef43be5200000000000000"                                  // magic, CRC-32, length
            "07000000"                                                          // a number, u32
            "0300000000000000000000000000f83f0000000000000080000000000000f07f"  // 1.5, −0, ∞
            "0200000000000000000000000000d03f0100000000000000"                  // 0.25, 2⁻¹⁰⁷⁴
            "030000000000000001000200ffff"                                      // u16
            "59f3f8c21f6ea501");                                                // 1e-300
  Empty empty;
  EXPECT_EQ(Hex(Codec::Encode(empty)), "54435431000000000000000000000000");
}

TEST(Frame, WireSizeIsTheEncodedSize) {
  Message1 m = Sample(), none;
  Empty empty;
  EXPECT_EQ(WireSize(m), Codec::Encode(m).size());
  EXPECT_EQ(WireSize(m), kFrameHeader + 4 + (8 + 24) + (8 + 16) + (8 + 6) + 8);
  EXPECT_EQ(WireSize(none), Codec::Encode(none).size());
  EXPECT_EQ(WireSize(empty), kFrameHeader);
  EXPECT_TRUE(Codec::Decode<Empty>(Codec::Encode(empty)).ok());
}

TEST(Frame, EveryTruncationIsAnError) {
  Message1 m = Sample();
  const auto frame = Codec::Encode(m);
  for (std::size_t n = 0; n < frame.size(); ++n)
    EXPECT_FALSE(Codec::Decode<Message1>(std::span(frame).first(n)).ok()) << n;
  auto longer = frame;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(Codec::Decode<Message1>(longer).ok());
}

TEST(Frame, EveryFlippedBitIsAnError) {
  Message1 m = Sample();
  auto frame = Codec::Encode(m);
  for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    frame[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto got = Codec::Decode<Message1>(frame);
    EXPECT_FALSE(got.ok()) << bit;
    if (!got.ok()) {
      EXPECT_EQ(got.error().code, Code::kMalformed);
    }
    frame[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_TRUE(Codec::Decode<Message1>(frame).ok());
}

// A frame whose checksum is right and whose announced counts are lies.
std::vector<std::byte> Forged(std::vector<std::uint64_t> words, std::size_t extra = 0) {
  std::vector<std::byte> payload(words.size() * 8 + extra);
  std::memcpy(payload.data(), words.data(), words.size() * 8);
  std::vector<std::byte> frame(kFrameHeader);
  const std::uint32_t crc = Crc32(payload);
  const std::uint64_t length = payload.size();
  std::memcpy(frame.data(), "TCT1", 4);
  std::memcpy(frame.data() + 4, &crc, 4);
  std::memcpy(frame.data() + 8, &length, 8);
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

struct OneVec {
  Public<Vec> x;
  auto Fields() { return std::tie(x); }
};

TEST(Frame, HugeAnnouncedLengthsAreRefusedBeforeAllocating) {
  EXPECT_TRUE(Codec::Decode<OneVec>(Forged({1, 0})).ok());
  for (const std::uint64_t n :
       {~std::uint64_t{0}, std::uint64_t{1} << 61, std::uint64_t{1} << 40, std::uint64_t{3}})
    EXPECT_FALSE(Codec::Decode<OneVec>(Forged({n, 0, 0})).ok()) << n;      // 2⁶¹ · 8 wraps to 0
  EXPECT_FALSE(Codec::Decode<OneVec>(Forged({1, 0, 0})).ok());             // bytes left over
  EXPECT_FALSE(Codec::Decode<OneVec>(Forged({2, 0}, 7)).ok());             // half a number
}

TEST(Frame, OfAnotherMessageIsAnError) {
  Message1 m = Sample();
  EXPECT_FALSE(Codec::Decode<OneVec>(Codec::Encode(m)).ok());
  OneVec v{Public<Vec>(Vec{1.0})};
  EXPECT_FALSE(Codec::Decode<Message1>(Codec::Encode(v)).ok());
}

// To a server that is trusted, what is entrusted travels as the term that would be added here, bit for bit.
TEST(Frame, OfWhatIsEntrustedIsItsTerm) {
  const ServerTrust trust = ServerTrust::Declared("coordinator");
  const auto opened = [](const Entrusted& e) {
    EntrustedSum sum;
    sum.Reset();
    sum.Add(e);
    LedgerBook book(std::vector<MuSquared>(1, MuSquared::Proven(kInf)), Adjacency::kReplaceOne);
    NoiseRng rng = NoiseRng::Replayable({});
    NoiseBuffer noise;
    Released<Vec> out;
    EXPECT_TRUE(Expose().ReleaseForAll(sum.Total(), NoiseStd{1.0}, book, rng, noise, out).ok());
    return *out;
  };
  for (const Vec& v : {Vec{3, 4, 1e-9}, Vec{0.1, 0.2, 0.3}, Vec{1e300, -1e300, 7}}) {
    Private<Vec> p(v), zero{Vec(3)};
    Entrusted sent, taken;
    Bounded::ClipAndEntrust(p, L2Bound{0.7}, sent);
    const auto frame = Codec::Encode(sent, trust);
    auto back = Codec::DecodeEntrusted(frame);
    ASSERT_TRUE(back.ok());
    ASSERT_TRUE(Bounded::Clip(zero, L2Bound{0.7}).Accept(*back, 1, taken));
    EXPECT_EQ(opened(taken), opened(sent));
    for (std::size_t n = 0; n < frame.size(); ++n)
      EXPECT_FALSE(Codec::DecodeEntrusted(std::span(frame).first(n)).ok());
  }
  Message1 other = Sample();
  EXPECT_FALSE(Codec::DecodeEntrusted(Codec::Encode(other)).ok());
}

TEST(Crc32, IsTheStandardOne) {
  const char* text = "123456789";
  EXPECT_EQ(Crc32(std::as_bytes(std::span(text, 9))), 0xCBF43926u);
}

}  // namespace
}  // namespace tacit
