#include "privacy/joint_release.h"

#include <algorithm>
#include <cmath>

namespace tacit {

double SquareFactor(double root) {
  // 1.665095… = φ^{5/2}/2; below it nothing is to be paid, with room for the roundings of the root.
  if (root < 1.6650953383) return 1.0;
  const double kappa = root * root;
  const double beta = (1 - std::sqrt(1 - 2 / kappa)) / 2;
  // g is flat around its maximum, so an error of β does not count; a dozen roundings of what is left do.
  const double g = (1 + beta) * (1 + beta) * (1 + kappa * (1 - beta) * (1 - beta)) / 4 * (1 + 0x1p-48);
  return SqrtUp(std::max(1.0, g));
}

double FreeSquare(L2Bound clip) { return 1.665095338 / clip.value(); }

Mu MeanAndSquaresMu(L2Bound clip, NoiseStd mean, NoiseStd squares, std::uint64_t vectors) {
  TACIT_CHECK(vectors > 0 && vectors <= (std::uint64_t{1} << 53));
  const double alone = DivUp(2 * clip.value(), static_cast<double>(vectors) * mean.value());
  const double root = clip.value() * mean.value() / squares.value();       // √κ
  return Mu::Proven(MulUp(NextUp(alone), SquareFactor(root)));
}

}  // namespace tacit
