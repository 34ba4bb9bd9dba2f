#include "privacy/shamir.h"

#include <algorithm>

#include "core/check.h"

namespace tacit {
namespace {

__extension__ using Wide = unsigned __int128;
using internal::FieldAdd;
using internal::FieldInverse;
using internal::FieldMultiply;
using internal::kPrime;

constexpr std::size_t kWordBytes = 7;

// x < 2⁶² to x mod p, without a branch.
std::uint64_t Reduce(std::uint64_t x) {
  x = (x & kPrime) + (x >> 61);
  const std::uint64_t less = x - kPrime;  // wraps if x < p
  const std::uint64_t keep = 0 - (less >> 63);
  return (x & keep) | (less & ~keep);
}

std::uint64_t Uniform() {
  for (;;) {
    std::array<std::byte, 8> bytes;
    RandomBytes(bytes);
    std::uint64_t x = 0;
    for (const std::byte b : bytes) x = x << 8 | static_cast<std::uint64_t>(b);
    x >>= 3;
    if (x != kPrime) return x;  // below p; once in 2⁶¹ another
  }
}

std::size_t BytesOf(std::size_t word) { return std::min(kWordBytes, Secret::kSize - word * kWordBytes); }

}  // namespace

namespace internal {

std::uint64_t FieldAdd(std::uint64_t a, std::uint64_t b) { return Reduce(a + b); }

std::uint64_t FieldMultiply(std::uint64_t a, std::uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;  // below 2¹²²
  return Reduce((static_cast<std::uint64_t>(product) & kPrime) + static_cast<std::uint64_t>(product >> 61));
}

std::uint64_t FieldInverse(std::uint64_t a) {  // a^(p − 2), Fermat
  std::uint64_t power = 1;
  for (int bit = 60; bit >= 0; --bit) {
    power = FieldMultiply(power, power);
    if (((kPrime - 2) >> bit & 1) != 0) power = FieldMultiply(power, a);
  }
  return power;
}

}  // namespace internal

std::vector<SecretShare> Split(const Secret& secret, std::uint32_t threshold,
                               std::span<const std::uint32_t> holders) {
  TACIT_CHECK(threshold >= 1 && threshold <= holders.size());
  std::vector<SecretShare> shares(holders.size());
  std::vector<std::uint64_t> coefficients(threshold);
  for (std::size_t word = 0; word < kShareWords; ++word) {
    std::uint64_t value = 0;
    for (std::size_t k = BytesOf(word); k-- > 0;)
      value = value << 8 | static_cast<std::uint64_t>(secret.at[word * kWordBytes + k]);
    coefficients[0] = value;
    for (std::size_t k = 1; k < threshold; ++k) coefficients[k] = Uniform();
    for (std::size_t i = 0; i < holders.size(); ++i) {
      const std::uint64_t x = std::uint64_t{holders[i]} + 1;
      std::uint64_t y = 0;
      for (std::size_t k = threshold; k-- > 0;) y = FieldAdd(FieldMultiply(y, x), coefficients[k]);
      shares[i].at[word] = y;
    }
  }
  Wipe(std::as_writable_bytes(std::span(coefficients)));
  return shares;
}

Result<Secret> Combine(std::span<const HeldShare> held, std::uint32_t threshold) {
  if (threshold < 1 || held.size() < threshold)
    return Fail(Code::kMalformed, "{} shares, and {} are needed", held.size(), threshold);
  held = held.first(threshold);
  for (std::size_t i = 0; i < held.size(); ++i) {
    for (const std::uint64_t v : held[i].share.at)
      if (v >= kPrime) return Fail(Code::kMalformed, "the share of client {} is none", held[i].holder);
    for (std::size_t j = 0; j < i; ++j)
      if (held[i].holder == held[j].holder)
        return Fail(Code::kMalformed, "client {} has two shares", held[i].holder);
  }
  // Lagrange at 0: Σ_i y_i Π_{j≠i} x_j/(x_j − x_i).
  std::array<std::uint64_t, kShareWords> sum{};
  for (const HeldShare& own : held) {
    const std::uint64_t x = std::uint64_t{own.holder} + 1;
    std::uint64_t above = 1, below = 1;
    for (const HeldShare& other : held) {
      if (other.holder == own.holder) continue;
      const std::uint64_t z = std::uint64_t{other.holder} + 1;
      above = FieldMultiply(above, z);
      below = FieldMultiply(below, FieldAdd(z, kPrime - x));
    }
    const std::uint64_t weight = FieldMultiply(above, FieldInverse(below));
    for (std::size_t word = 0; word < kShareWords; ++word)
      sum[word] = FieldAdd(sum[word], FieldMultiply(weight, own.share.at[word]));
  }
  Secret secret;
  for (std::size_t word = 0; word < kShareWords; ++word) {
    const std::size_t bytes = BytesOf(word);
    if (sum[word] >> (8 * bytes) != 0)
      return Fail(Code::kMalformed, "the shares do not fit each other: one is not what it was");
    for (std::size_t k = 0; k < bytes; ++k)
      secret.at[word * kWordBytes + k] = static_cast<std::byte>(sum[word] >> (8 * k) & 0xff);
  }
  Wipe(std::as_writable_bytes(std::span(sum)));
  return secret;
}

}  // namespace tacit
