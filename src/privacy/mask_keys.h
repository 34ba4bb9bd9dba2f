#pragma once

// What masks are made of, by OpenSSL: X25519 (RFC 7748), HKDF-SHA256 (RFC 5869), AES-256-GCM for what only
// one other client may read, and AES-256-CTR, which turns a key into a mask as long as a message. Keys come
// from the operating system, whatever noise a run has.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tacit {

void RandomBytes(std::span<std::byte>);  // stops the process where there are none
void Wipe(std::span<std::byte>);  // whether or not anybody reads it after

// 32 bytes that are wiped when they are no longer needed.
class Secret {
 public:
  static constexpr std::size_t kSize = 32;
  Secret() = default;
  explicit Secret(std::span<const std::byte, kSize> bytes) {
    std::copy(bytes.begin(), bytes.end(), at.begin());
  }
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();
  static Secret Random();
  bool operator==(const Secret& other) const;  // in constant time
  std::array<std::byte, kSize> at{};
};

using OpenKey = std::array<std::byte, 32>;
struct KeyPair {
  Secret secret;
  OpenKey open{};
  static KeyPair Make();
};
OpenKey PublicOf(const Secret&);
// The secret that two have in common. Refuses a key of small order, with which there would be none.
Result<Secret> Agree(const Secret& own, const OpenKey& other);

// HKDF-SHA256.
std::vector<std::byte> Hkdf(std::span<const std::byte> key, std::span<const std::byte> salt,
                            std::span<const std::byte> info, std::size_t size);
// A key for one purpose, which the text and the context name.
Secret Derive(const Secret& key, std::string_view purpose, std::span<const std::byte> context);

// AES-256-GCM: cipher text and 16 bytes more. A key is for one message, so the nonce is 0.
inline constexpr std::size_t kSealBytes = 16;
std::vector<std::byte> Encrypt(const Secret& key, std::span<const std::byte> plain,
                               std::span<const std::byte> context);
// kMalformed where a byte of it, or of the context, is not what it was.
Result<std::vector<std::byte>> Decrypt(const Secret& key, std::span<const std::byte> sealed,
                                       std::span<const std::byte> context);

// The key's stream (AES-256-CTR from 0), piece by piece.
class KeyStream {
 public:
  explicit KeyStream(const Secret& key);
  KeyStream(const KeyStream&) = delete;
  KeyStream& operator=(const KeyStream&) = delete;
  ~KeyStream();
  void Next(std::span<std::byte> out);

 private:
  void* context_;
};

}  // namespace tacit
