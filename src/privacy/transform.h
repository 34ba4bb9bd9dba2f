#pragma once

// Fourier transforms with a bound on their round-off, for the grids of pld.cc and grid.cc.
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace tacit {

// The transform's round-off is multiplied by T and has to stay below δ, so it is carried out in long double
// (64 bits of mantissa on x86, 113 on AArch64); where that is double, the bounds grow and still hold.
using Wide = long double;
inline constexpr Wide kEps = std::numeric_limits<Wide>::epsilon();

struct Complex {
  Wide re = 0, im = 0;
};
inline Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
inline Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }

// Radix-2 transforms, forward to bit-reversed order and back, without the factor 1/N. Eigen's takes its
// twiddles in double for every scalar type, which would lose what long double gains.
//
// A level's rounding is at most 12u of the ℓ₁ norm (twiddle 8u, product 3u, sum u) in every entry, because
// each value on the way is a sum of inputs with factors of modulus 1; u = kEps/2. So an entry is off by at
// most 6 kEps·log₂N·‖x‖₁ to first order; twice that is charged.
class Transform {
 public:
  explicit Transform(std::size_t size) : root_(size / 2) {
    const Wide angle = -2 * std::acos(static_cast<Wide>(-1)) / static_cast<Wide>(size);
    for (std::size_t k = 0; k < root_.size(); ++k) {
      const Wide a = angle * static_cast<Wide>(k);
      root_[k] = {std::cos(a), std::sin(a)};
    }
  }
  Wide error() const { return 12 * kEps * static_cast<Wide>(std::bit_width(root_.size())); }
  void Forward(std::vector<Complex>& x) const {
    for (std::size_t half = root_.size(), stride = 1; half > 0; half /= 2, stride *= 2)
      for (std::size_t block = 0; block < x.size(); block += 2 * half)
        for (std::size_t k = 0; k < half; ++k) {
          Complex &a = x[block + k], &b = x[block + half + k];
          const Complex difference = a - b;
          a = a + b;
          b = difference * root_[k * stride];
        }
  }
  void Backward(std::vector<Complex>& x) const {
    for (std::size_t half = 1, stride = root_.size(); stride > 0; half *= 2, stride /= 2)
      for (std::size_t block = 0; block < x.size(); block += 2 * half)
        for (std::size_t k = 0; k < half; ++k) {
          const Complex w = root_[k * stride];
          Complex &a = x[block + k], &b = x[block + half + k];
          const Complex turned = b * Complex{w.re, -w.im};
          b = a - turned;
          a = a + turned;
        }
  }

 private:
  std::vector<Complex> root_;
};

inline Complex Power(Complex z, std::size_t exponent) {
  Complex out{1, 0};
  for (; exponent > 0; exponent /= 2, z = z * z)
    if (exponent % 2 == 1) out = out * z;
  return out;
}

}  // namespace tacit
