#pragma once

// The decisions of the discrete Gaussian that its tests attack.
#include <cstdint>
#include <vector>

#include "privacy/lattice_sampler_internal.h"

namespace tacit::internal {

inline constexpr double kLargestTableSigma = 16;

struct DiscreteDraw {
  std::int64_t k;
  bool exact;  // MPFR was asked
};

// at[j − 1] = ⌊2^63·P(|K| ≥ j)⌋ for j = 1, 2, …; the last entry is 0. With U = (m + f)/2^63, m the 63 bits
// after the sign and f ∈ [0, 1) those not yet drawn, |K| = #{j : U < P(|K| ≥ j)} needs f only if m is
// in the table.
struct TailTable {
  explicit TailTable(double sigma);
  DiscreteDraw Draw(std::uint64_t word, MoreBits&) const;

  double sigma;
  std::vector<std::uint64_t> at;
  std::vector<std::uint16_t> first;  // by the leading 8 bits of m: how many entries exceed all such m
};

// Accepts a rounded normal deviate k with probability
//   a(k) = P(rounded = 0)·e^{−k²/2σ²} / P(rounded = k);
// V = (coin + f)/2^64 uniform rejects if V < 1 − a(k).
class Acceptance {
 public:
  // A factor below 1 loosens the proven bound, which makes the sampler wrong: for tests.
  explicit Acceptance(double sigma, double factor = 1);
  // Certainly accepted, by 1 − a(k) ≤ k²/(24σ⁴).
  bool Fast(std::int64_t k, std::uint64_t coin) const {
    const auto x = static_cast<double>(k);
    return static_cast<double>(static_cast<std::int64_t>(coin >> 11)) >= x * x * scale_;
  }
  bool Exact(std::int64_t k, std::uint64_t coin, MoreBits&) const;

 private:
  double sigma_, scale_;
};

}  // namespace tacit::internal
