#include "audit/statistics.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>

#include "privacy/gdp.h"

namespace tacit {
namespace {

// Errors of evaluation become values, not exceptions.
using Quiet = boost::math::policies::policy<
    boost::math::policies::domain_error<boost::math::policies::ignore_error>,
    boost::math::policies::overflow_error<boost::math::policies::ignore_error>,
    boost::math::policies::evaluation_error<boost::math::policies::ignore_error>>;

double Quantile(double p) {  // Φ⁻¹
  if (p <= 0) return -kInf;
  if (p >= 1) return kInf;
  return boost::math::quantile(boost::math::normal_distribution<double, Quiet>(), p);
}

// ln P[Bin(n, q) = k].
double LogBinomial(double n, double k, double q) {
  const double inside = (k > 0 ? k * std::log(q) : 0.0) + (n > k ? (n - k) * std::log1p(-q) : 0.0);
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + inside;
}

}  // namespace

double ClopperPearsonUpper(std::uint64_t k, std::uint64_t n, double alpha) {
  if (k >= n) return 1;
  return boost::math::ibetac_inv(static_cast<double>(k + 1), static_cast<double>(n - k), alpha, Quiet());
}

double ClopperPearsonLower(std::uint64_t k, std::uint64_t n, double alpha) {
  if (k == 0 || n == 0) return 0;
  return boost::math::ibeta_inv(static_cast<double>(k), static_cast<double>(n - k + 1), alpha, Quiet());
}

LowerBounds BoundsOf(const Counts& c, Delta delta, double alpha) {
  LowerBounds b;
  b.fpr = ClopperPearsonUpper(c.above0, c.runs0, alpha / 2);
  b.fnr = ClopperPearsonUpper(c.runs1 - c.above1, c.runs1, alpha / 2);
  const auto ratio = [&](double error, double other) {
    const double top = 1 - delta.value() - other;
    return top > 0 && error > 0 ? std::log(top / error) : 0.0;
  };
  b.epsilon = std::max({0.0, ratio(b.fpr, b.fnr), ratio(b.fnr, b.fpr)});
  const double mu = -Quantile(b.fpr) - Quantile(b.fnr);
  b.mu = mu > 0 ? mu : 0.0;
  return b;
}

double EpsilonIfGaussian(double mu, Delta delta) {
  return mu > 0 ? GdpEpsilon(Mu::Proven(mu), delta).lower : 0.0;
}

double ChanceOfSoLittle(const NoiseSums& n) {
  if (!(n.numbers > 0)) return 1;
  return boost::math::gamma_p(n.numbers / 2, n.squares / 2, Quiet());
}

double SharedNoise(const NoiseSums& n) { return n.pairs > 0 ? n.products / std::sqrt(n.pairs) : 0.0; }

double OneRunProbability(std::uint64_t m, std::uint64_t r, std::uint64_t v, double epsilon, double delta) {
  const double q = 1 / (1 + std::exp(-epsilon)), n = static_cast<double>(r);
  if (v == 0) return 1;
  if (v > r) return 0;
  const double tail =
      boost::math::ibeta(static_cast<double>(v), static_cast<double>(r - v + 1), q, Quiet());  // P[W ≥ v]
  if (delta == 0) return std::min(1.0, tail);
  double within = 0, worst = 0;
  for (std::uint64_t i = 1; i <= v; ++i) {
    within += std::exp(LogBinomial(n, static_cast<double>(v - i), q));
    const double mean = within / static_cast<double>(i);
    if (mean < worst && within > 0.999999) break;  // it only falls from here on
    worst = std::max(worst, mean);
  }
  return std::min(1.0, tail + 2 * static_cast<double>(m) * delta * worst);
}

double OneRunEpsilon(std::uint64_t m, std::uint64_t r, std::uint64_t v, Delta delta, double alpha) {
  double low = 0, high = 1;
  const auto rejected = [&](double e) { return OneRunProbability(m, r, v, e, delta.value()) <= alpha; };
  if (!rejected(0)) return 0;
  while (high < 64 && rejected(high)) low = high, high *= 2;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (rejected(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace tacit
