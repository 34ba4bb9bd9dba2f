#pragma once

// exp for arguments ≤ 0, without branches or calls, so that a loop over margins vectorises; the
// exponential would otherwise dominate a round.
#include <bit>
#include <cmath>
#include <cstdint>

namespace tacit {

// exp(x) for x ≤ 0, within one ulp for −708 ≤ x; 0 below −708 (where exp is < 3.4e−308); NaN for NaN.
// Never above 1, and exactly 1 at 0. The same bits whether the compiler vectorises or not.
__attribute__((always_inline)) inline double ExpNonPositive(double x) {
  constexpr double kLowest = -708.0;
  constexpr double kShift = 0x1.8p52;                   // adding it rounds to an integer in the low bits
  constexpr double kLog2E = 0x1.71547652b82fep0;
  constexpr double kLn2Hi = 0x1.62e42fefa39efp-1;       // ln 2 = hi + lo to 2⁻¹⁰⁹
  constexpr double kLn2Lo = 0x1.abc9e3b39803fp-56;
  const double z = x < kLowest ? kLowest : x;           // NaN stays
  const double shifted = std::fma(z, kLog2E, kShift);
  const double n = shifted - kShift;
  const double r = std::fma(n, -kLn2Lo, std::fma(n, -kLn2Hi, z));   // |r| ≤ 0.347
  // Taylor to degree 13: the remainder is below 5e−18 on |r| ≤ 0.347.
  // Two half-length chains of the inner terms, so that latency does not rule; the last steps decide accuracy.
  const double r2 = r * r;
  double odd = 1.0 / 6227020800.0, even = 1.0 / 479001600.0;  // 1/13!, 1/12!
  odd = std::fma(odd, r2, 1.0 / 39916800.0);
  even = std::fma(even, r2, 1.0 / 3628800.0);
  odd = std::fma(odd, r2, 1.0 / 362880.0);
  even = std::fma(even, r2, 1.0 / 40320.0);
  odd = std::fma(odd, r2, 1.0 / 5040.0);
  even = std::fma(even, r2, 1.0 / 720.0);
  odd = std::fma(odd, r2, 1.0 / 120.0);
  even = std::fma(even, r2, 1.0 / 24.0);
  double p = std::fma(odd, r, even);  // Σ rⁿ⁻⁴/n!, n = 4 … 13
  p = std::fma(p, r, 1.0 / 6.0);
  p = std::fma(p, r, 0.5);
  p = std::fma(p, r, 1.0);
  p = std::fma(p, r, 1.0);
  const double scale = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52);  // 2ⁿ
  const double e = p * scale;
  const double capped = e > 1.0 ? 1.0 : e;
  return x < kLowest ? 0.0 : capped;
}

}  // namespace tacit
