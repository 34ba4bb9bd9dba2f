#pragma once

// Shamir's secret sharing (1979): any t holders can put a secret together, and what t − 1 of them hold is
// independent of it.
//
// A secret of 32 bytes is five numbers of 56 bits (the last of 32) in the field of p = 2⁶¹ − 1; each is the
// value at 0 of its own polynomial of degree t − 1, whose other coefficients are uniform. Holder i has the
// values at i + 1. Arithmetic takes the same time whatever the secret is.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "privacy/mask_keys.h"

namespace tacit {

inline constexpr std::size_t kShareWords = 5;
struct SecretShare {
  std::array<std::uint64_t, kShareWords> at{};
  SecretShare() = default;
  SecretShare(const SecretShare&) = default;
  SecretShare& operator=(const SecretShare&) = default;
  ~SecretShare() { Wipe(std::as_writable_bytes(std::span(at))); }
  bool operator==(const SecretShare&) const = default;
};
struct HeldShare {
  std::uint32_t holder = 0;
  SecretShare share;
};

// One for each holder, of whom no two are the same; 1 ≤ threshold ≤ their number.
std::vector<SecretShare> Split(const Secret&, std::uint32_t threshold,
                               std::span<const std::uint32_t> holders);
// From the first `threshold` shares. kMalformed where there are fewer, where holders are not distinct, or
// where what comes out is no secret: then one of them is not what it was. Shares that are wrong may also make
// another secret; whoever knows a commitment to it sees that.
Result<Secret> Combine(std::span<const HeldShare>, std::uint32_t threshold);

namespace internal {
inline constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
// Of numbers below p.
std::uint64_t FieldAdd(std::uint64_t, std::uint64_t);
std::uint64_t FieldMultiply(std::uint64_t, std::uint64_t);
std::uint64_t FieldInverse(std::uint64_t);  // not of 0
}  // namespace internal

}  // namespace tacit
