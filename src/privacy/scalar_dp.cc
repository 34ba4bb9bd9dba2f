#include "privacy/scalar_dp.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tacit {
namespace {

// Uniform on 0 … n − 1, exactly: numbers from the incomplete last block are drawn again.
std::uint64_t Below(std::uint64_t n, NoiseRng& rng) {
  const std::uint64_t rest = (~std::uint64_t{0} % n + 1) % n;      // 2^64 mod n
  std::uint64_t bits = rng.Bits();
  while (bits > ~std::uint64_t{0} - rest) bits = rng.Bits();
  return bits % n;
}

}  // namespace

Result<ScalarDp> ScalarDp::Make(Epsilon epsilon, L2Bound largest) {
  const double e = epsilon.value();
  if (!(e >= 1e-6 && e <= 60))
    return Fail(Code::kInvalidArgument, "ScalarDP: epsilon of the length = {}: must be in [1e-6, 60]", e);
  ScalarDp s(epsilon, largest);
  const double k = ScalarDpSteps(epsilon);
  s.k_ = static_cast<std::uint32_t>(k);
  // 1 − κ = (k + 1)/(e^ε + k), rounded up by more than the exponential may be wrong; at least 1 and below
  // 2^64.
  const double blurred = std::ceil(std::ldexp((k + 1) / (std::exp(e) + k) * (1 + 0x1p-45), 64));
  if (!(blurred >= 1 && blurred < 0x1p64))
    return Fail(Code::kUnsupported, "ScalarDP: epsilon of the length = {}: not possible with 64 bits", e);
  const auto blur = static_cast<std::uint64_t>(blurred);
  s.keep_ = ~blur + 1;  // 2^64 − blur
  s.blur_ = std::ldexp(blurred, -64);
  s.kappa_ = std::ldexp(static_cast<double>(s.keep_), -64);
  s.a_ = largest.value() / (k * s.kappa_);
  s.b_ = s.blur_ * k / 2;
  return s;
}

double ScalarDp::Scaled(double r) const {
  const double share = r > 0 ? std::min(r / largest_.value(), 1.0) : 0;  // NaN is not above 0
  return std::min(static_cast<double>(k_) * share, static_cast<double>(k_));
}

std::uint32_t ScalarDp::Sample(double r, NoiseRng& rng) const {
  // All bits are drawn whatever the input, so the time says nothing about it.
  const std::uint64_t up = rng.Bits(), keep = rng.Bits(), any = Below(std::uint64_t{k_} + 1, rng);
  const double x = Scaled(r), floor = std::floor(x);
  const auto fraction = static_cast<std::uint64_t>(std::ldexp(x - floor, 64));  // below 2^64
  const std::uint32_t level = static_cast<std::uint32_t>(floor) + (up < fraction ? 1u : 0u);
  return keep < keep_ ? level : static_cast<std::uint32_t>(any);
}

double ScalarDp::Estimate(std::uint32_t level) const {
  return a_ * (static_cast<double>(std::min(level, k_)) - b_);
}

double ScalarDp::SquareEstimate(std::uint32_t level) const {
  const double j = std::min(level, k_);
  return MeanSquareEstimate(j * j);
}

double ScalarDp::MeanSquareEstimate(double mean_squared_level) const {
  const double k = k_, step = largest_.value() / k;
  return step * step * ((mean_squared_level - blur_ * k * (2 * k + 1) / 6) / kappa_ - 0.25);
}

double ScalarDp::Variance(double r) const {
  const double x = Scaled(r), k = k_, f = x - std::floor(x);
  const double mean = kappa_ * x + blur_ * k / 2;
  const double square = kappa_ * (x * x + f * (1 - f)) + blur_ * k * (2 * k + 1) / 6;
  return a_ * a_ * (square - mean * mean);
}

std::uint64_t ScalarDp::bits() const { return static_cast<std::uint64_t>(std::bit_width(k_)); }

}  // namespace tacit
