#include "privacy/mask_keys.h"

#include <gtest/gtest.h>

#include <string>

#include "core/sha256.h"

namespace tacit {
namespace {

std::vector<std::byte> FromHex(const std::string& text) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return out;
}
Secret SecretOf(const std::string& hex) {
  const auto bytes = FromHex(hex);
  return Secret(std::span<const std::byte, Secret::kSize>(bytes));
}

// RFC 7748, section 6.1.
TEST(MaskKeys, X25519IsThatOfItsRfc) {
  const Secret alice = SecretOf("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
  const Secret bob = SecretOf("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  EXPECT_EQ(Hex(PublicOf(alice)), "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
  EXPECT_EQ(Hex(PublicOf(bob)), "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  const auto one = Agree(alice, PublicOf(bob)), other = Agree(bob, PublicOf(alice));
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(Hex(one->at), "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
  EXPECT_TRUE(*one == *other);
}

TEST(MaskKeys, KeysOfSmallOrderAreRefused) {
  const Secret own = Secret::Random();
  OpenKey zero{}, unit{};
  unit[0] = std::byte{1};
  EXPECT_FALSE(Agree(own, zero).ok());
  EXPECT_FALSE(Agree(own, unit).ok());
}

// RFC 5869, test cases 1 and 3.
TEST(MaskKeys, HkdfIsThatOfItsRfc) {
  const std::vector<std::byte> key(22, std::byte{0x0b});
  EXPECT_EQ(Hex(Hkdf(key, FromHex("000102030405060708090a0b0c"), FromHex("f0f1f2f3f4f5f6f7f8f9"), 42)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  EXPECT_EQ(Hex(Hkdf(key, {}, {}, 42)),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

// The first block is AES-256 of a block of zeros; under a key of zeros, that of NIST's known-answer tests.
TEST(MaskKeys, StreamsAreAesInCounterMode) {
  std::vector<std::byte> out(16);
  KeyStream(Secret()).Next(out);
  EXPECT_EQ(Hex(out), "dc95c078a2408989ad48a21492842087");
  std::vector<std::byte> whole(100), parts(100);
  const Secret key = Secret::Random();
  KeyStream(key).Next(whole);
  KeyStream stream(key);
  stream.Next(std::span(parts).first(33));
  stream.Next(std::span(parts).subspan(33));
  EXPECT_EQ(whole, parts);
}

TEST(MaskKeys, WhatIsSealedOpensUnchangedOrNotAtAll) {
  const Secret key = Secret::Random();
  const auto plain = FromHex("00112233445566778899aabbccddeeff01"), context = FromHex("0102");
  const auto sealed = Encrypt(key, plain, context);
  ASSERT_EQ(sealed.size(), plain.size() + kSealBytes);
  const auto opened = Decrypt(key, sealed, context);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(*opened, plain);
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    auto other = sealed;
    other[i] ^= std::byte{1};
    EXPECT_FALSE(Decrypt(key, other, context).ok());
  }
  EXPECT_FALSE(Decrypt(key, sealed, FromHex("0103")).ok());
  EXPECT_FALSE(Decrypt(Secret::Random(), sealed, context).ok());
  EXPECT_FALSE(Decrypt(key, std::span(sealed).first(10), context).ok());
}

TEST(MaskKeys, PurposesAndContextsMakeDifferentKeys) {
  const Secret key = Secret::Random();
  const auto context = FromHex("61");
  EXPECT_TRUE(Derive(key, "x", context) == Derive(key, "x", context));
  EXPECT_FALSE(Derive(key, "x", context) == Derive(key, "y", context));
  EXPECT_FALSE(Derive(key, "xa", {}) == Derive(key, "x", context));
}

}  // namespace
}  // namespace tacit
