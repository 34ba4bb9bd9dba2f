#include "privacy/cap_law.h"

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>

#include "core/check.h"

namespace tacit {
namespace {

// Boost must not throw: out of range it returns NaN or ∞, which the callers check.
using Quiet = boost::math::policies::policy<
    boost::math::policies::domain_error<boost::math::policies::ignore_error>,
    boost::math::policies::pole_error<boost::math::policies::ignore_error>,
    boost::math::policies::overflow_error<boost::math::policies::ignore_error>,
    boost::math::policies::evaluation_error<boost::math::policies::ignore_error>>;

// x with I_x(a, a) = u, as the cosine 1 − 2x.
double Cosine(double a, double u) {
  const double x = boost::math::ibeta_inv(a, a, u, Quiet());
  return std::clamp(1 - 2 * x, -1.0, 1.0);
}

}  // namespace

CapLaw::CapLaw(std::uint64_t dimension, double gamma)
    : a_((static_cast<double>(dimension) - 1) / 2), gamma_(gamma) {
  TACIT_CHECK(dimension >= 2 && gamma >= 0 && gamma < 1);
  c_d_ = 1 / (std::sqrt(M_PI) * boost::math::tgamma_delta_ratio(a_, 0.5, Quiet()));
  q_ = boost::math::ibeta(a_, a_, (1 - gamma) / 2, Quiet());
  moment_ = std::exp(std::log(c_d_) + a_ * std::log1p(-gamma * gamma)) / (2 * a_);
}

double CapLaw::Inside(double u) const { return std::max(gamma_, Cosine(a_, u * q_)); }

double CapLaw::Outside(double u) const {
  // The law of t is symmetric: −t ≥ −γ has the measure 1 − q, counted from the end where t = −1.
  return std::min(gamma_, -Cosine(a_, (1 - u) * (1 - q_)));
}

Result<double> OptimalGamma(double epsilon, std::uint64_t dimension) {
  if (!(epsilon > 0 && epsilon <= 100))
    return Fail(Code::kInvalidArgument, "epsilon of the direction = {}: must be in (0, 100]", epsilon);
  if (dimension < 2 || dimension > 1000000000)
    return Fail(Code::kInvalidArgument, "dimension = {}: a direction needs 2 to 10^9 of them", dimension);
  const double odds = std::expm1(epsilon);
  double low = 0, high = 1;              // m(γ) − γ falls
  for (int i = 0; i < 100 && high - low > 1e-17; ++i) {
    const double middle = (low + high) / 2;
    if (middle >= high || middle <= low) break;
    const CapLaw cap(dimension, middle);
    (cap.moment() * odds / (1 + odds * cap.measure()) > middle ? low : high) = middle;
  }
  if (!(high < 1))
    return Fail(Code::kUnsupported,
                "epsilon of the direction = {}, dimension = {}: no cap in double precision", epsilon,
                dimension);
  return high;
}

}  // namespace tacit
