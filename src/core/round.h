#pragma once

// Directed rounding for numbers that state a loss: the result is never below the real one.
// Works by error-free transformations in round-to-nearest, so no global rounding mode is touched.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tacit {

// The next double towards ∞, and towards −∞: std::nextafter without the call, for every release pays one or
// two. Doubles of one sign are ordered as their bits are; NaN, and the ∞ in question, stay.
inline double NextUp(double x) {
  if (!(x < std::numeric_limits<double>::infinity())) return x;
  if (x == 0) return std::numeric_limits<double>::denorm_min();
  return std::bit_cast<double>(std::bit_cast<std::int64_t>(x) + (x > 0 ? 1 : -1));
}
inline double NextDown(double x) { return -NextUp(-x); }

// A result that left the finite doubles: −∞ is below the real one unless an operand was infinite.
inline double Overflowed(double result, double a, double b) {
  const bool fell = result < 0 && std::isfinite(a) && std::isfinite(b);
  return fell ? -std::numeric_limits<double>::max() : result;
}

// The smallest double ≥ a + b (TwoSum gives the rounding error exactly).
inline double AddUp(double a, double b) {
  const double s = a + b;
  if (!std::isfinite(s)) return Overflowed(s, a, b);
  const double bb = s - a;
  const double error = (a - (s - bb)) + (b - bb);
  return error > 0 ? NextUp(s) : s;
}

// A double ≥ a·b, at most one ulp above; underflow rounds up to the smallest subnormal.
inline double MulUp(double a, double b) {
  const double p = a * b;
  if (!std::isfinite(p)) return Overflowed(p, a, b);
  if (a == 0 || b == 0) return p;
  if (std::abs(p) < 1e-290) return NextUp(p);           // the residual may underflow: be safe
  return std::fma(a, b, -p) > 0 ? NextUp(p) : p;
}

// A double ≥ a / b for b > 0, at most one ulp above.
inline double DivUp(double a, double b) {
  const double q = a / b;
  if (!std::isfinite(q)) return Overflowed(q, a, b);
  if (a == 0) return q;
  if (std::abs(q) < 1e-290 || std::abs(a) < 1e-290) return NextUp(q);
  return std::fma(q, b, -a) < 0 ? NextUp(q) : q;
}

// A double ≥ √a, at most one ulp above.
inline double SqrtUp(double a) {
  const double r = std::sqrt(a);
  if (!(r > 0) || !std::isfinite(r)) return r;
  if (a < 1e-290) return NextUp(r);
  return std::fma(r, r, -a) < 0 ? NextUp(r) : r;
}

}  // namespace tacit
