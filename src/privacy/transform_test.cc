#include "privacy/transform.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>

namespace tacit {
namespace {

// The same angle from the remainder of jf, in the first octant where it matters: good to a few kEps.
Complex Root(std::size_t index, std::size_t size, int sign) {
  const Wide a = 2 * std::numbers::pi_v<Wide> * static_cast<Wide>(index % size) / static_cast<Wide>(size);
  return {std::cos(a), static_cast<Wide>(sign) * std::sin(a)};
}
Wide Random(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return static_cast<Wide>(state >> 11) * 0x1p-53L - 0.5L;
}

TEST(Transform, AgreesWithTheSumWithinItsBound) {
  for (const std::size_t n : {4U, 8U, 16U, 32U, 128U, 1024U, 1U << 14, 1U << 17}) {
    SCOPED_TRACE(n);
    const Transform transform(n);
    std::uint64_t state = n;
    std::vector<Wide> x(n);
    Wide norm = 0;
    for (Wide& v : x) v = Random(state), norm += std::abs(v);
    const std::vector<Complex> got = transform.Forward(x);
    ASSERT_EQ(got.size(), n / 2 + 1);
    const std::size_t stride = std::max<std::size_t>(1, n / 2 / 8);
    for (std::size_t f = 0; f <= n / 2; f += stride) {
      Complex sum = 0;
      for (std::size_t j = 0; j < n; ++j) sum += x[j] * Root(j * f, n, -1);
      // The direct sum is off by its own n·kEps.
      EXPECT_LE(std::abs(got[f] - sum), (transform.error() + (static_cast<Wide>(n) / 100 + 8) * kEps) * norm);
    }
    const std::vector<Wide> back = transform.Backward(got);
    Wide size = 0, worst = 0;
    for (std::size_t f = 0; f <= n / 2; ++f) size += (f == 0 || f == n / 2 ? 1 : 2) * std::abs(got[f]);
    for (std::size_t j = 0; j < n; ++j)
      worst = std::max(worst, std::abs(back[j] - x[j] * static_cast<Wide>(n)));
    // Forward's error enters every one of n terms.
    EXPECT_LE(worst, transform.error() * (size + static_cast<Wide>(n) * norm));
    EXPECT_LE(worst, 100 * kEps * size);  // and it is long double throughout
  }
}

TEST(Transform, KnowsExactCases) {
  const Transform transform(64);
  std::vector<Wide> x(64, 0);
  x[0] = 1;
  for (const Complex& z : transform.Forward(x)) EXPECT_EQ(z, Complex(1, 0));
  x[0] = 0, x[5] = 1;
  const std::vector<Complex> z = transform.Forward(x);
  for (std::size_t f = 0; f < z.size(); ++f)
    EXPECT_LE(std::abs(z[f] - Root(5 * f, 64, -1)), transform.error());
  EXPECT_EQ(Power({0, 1}, 4), Complex(1, 0));
  EXPECT_EQ(Power({3, 0}, 0), Complex(1, 0));
}

}  // namespace
}  // namespace tacit
