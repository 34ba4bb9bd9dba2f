#pragma once

// Fourier transforms with a bound on their round-off, for the grids of pld.cc and grid.cc: pocketfft, at
// lengths that are powers of two.
#include <complex>
#include <cstddef>
#include <limits>
#include <vector>

namespace tacit {

// The transform's round-off is multiplied by T and has to stay below δ, so it is carried out in long double
// (64 bits of mantissa on x86, 113 on AArch64); where that is double, the bounds grow and still hold.
using Wide = long double;
inline constexpr Wide kEps = std::numeric_limits<Wide>::epsilon();

using Complex = std::complex<Wide>;

// X_f = Σ_j x_j e^{−2πi jf/N} of real x, for f = 0 … N/2: the rest are conjugates. N is a power of two, 4 or
// more.
class Transform {
 public:
  explicit Transform(std::size_t size) : size_(size) {}
  std::vector<Complex> Forward(const std::vector<Wide>&) const;
  // Σ over all N frequencies, without the factor 1/N.
  std::vector<Wide> Backward(const std::vector<Complex>&) const;

  // An entry of Forward is off by at most error()·‖x‖₁, one of Backward by at most error()·Σ|X_f| over all N
  // frequencies. With u = kEps/2: every value on the way is a sum of inputs with factors of modulus 1. A pass
  // of radix 4 adds twice (2u), may turn by 45° (3u) and multiplies by a twiddle (3u), itself a product of
  // two tabulated roots (11u: each 4u from its angle and the sine, the product 3u): 19u for two levels; the
  // one of radix 2 has 15u. So 15u a level are enough to first order, and 24u are charged.
  Wide error() const;

 private:
  std::size_t size_;
};

// zⁿ by squaring.
inline Complex Power(Complex z, std::size_t exponent) {
  // Plain products: std::complex's would look for infinities.
  const auto times = [](Complex a, Complex b) {
    return Complex{a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  };
  Complex out{1, 0};
  for (; exponent > 0; exponent /= 2, z = times(z, z))
    if (exponent % 2 == 1) out = times(out, z);
  return out;
}

}  // namespace tacit
