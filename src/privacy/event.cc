#include "privacy/event.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <type_traits>

#include "privacy/cap_law.h"

namespace tacit {
namespace {

// Boost must not throw: out of range it returns NaN or ∞, which the callers check.
using Quiet = boost::math::policies::policy<
    boost::math::policies::domain_error<boost::math::policies::ignore_error>,
    boost::math::policies::pole_error<boost::math::policies::ignore_error>,
    boost::math::policies::overflow_error<boost::math::policies::ignore_error>,
    boost::math::policies::evaluation_error<boost::math::policies::ignore_error>>;

// The curve of ε-DP has its corner on that of μ-GDP, and lies above it elsewhere because the latter is
// convex: Φ(−μ/2) = 1/(1 + e^ε).
MuSquared OfPure(double epsilon) {
  if (epsilon == 0) return MuSquared::Proven(0);
  const double tail = 1 / (1 + std::exp(epsilon));
  if (!(tail > 1e-300)) return MuSquared::Proven(kInf);
  const double mu = 2 * M_SQRT2 * boost::math::erfc_inv(2 * tail, Quiet()) * (1 + 1e-12);
  return std::isfinite(mu) && mu >= 0 ? MuSquared::Proven(MulUp(mu, mu)) : MuSquared::Proven(kInf);
}

double Tau(double sigma, std::uint64_t clients) {
  double sum = 0;
  const auto term = [&](double k) { return std::exp(-2 * M_PI * M_PI * sigma * sigma * k / (k + 1)); };
  const std::uint64_t n = std::min<std::uint64_t>(clients, 1000);
  for (std::uint64_t k = 1; k < n; ++k) sum += term(static_cast<double>(k));
  // Terms fall with k.
  if (clients > n) sum += static_cast<double>(clients - n) * term(static_cast<double>(n));
  return 10 * sum * (1 + 1e-12);
}

double Half(double mu) { return MulUp(0.5, MulUp(mu, mu)); }

}  // namespace

MuSquared Cost(const PrivacyEvent& event) {
  if (const auto* e = std::get_if<GaussianEvent>(&event)) return Squared(e->mu);
  if (const auto* e = std::get_if<JointGaussianEvent>(&event)) return Squared(e->mu);
  const Epsilon pure = PureCost(event);
  return pure.value() < kInf ? OfPure(pure.value()) : MuSquared::Proven(kInf);
}

Epsilon PureCost(const PrivacyEvent& event) {
  return std::visit(
      [](const auto& e) {
        using E = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<E, LaplaceEvent> || std::is_same_v<E, RandomizedResponseEvent> ||
                      std::is_same_v<E, ScalarDpEvent> || std::is_same_v<E, PureEvent>) {
          return e.epsilon;
        } else if constexpr (std::is_same_v<E, ApproximateEvent>) {
          return e.delta.value() == 0 ? e.epsilon : Epsilon::Proven(kInf);
        } else if constexpr (std::is_same_v<E, DiscreteLaplaceEvent>) {
          return Epsilon::Proven(MulUp(e.epsilon_per_step.value(), e.sensitivity));
        } else if constexpr (std::is_same_v<E, PrivUnitEvent>) {
          return Epsilon::Proven(EpsilonOf(e));
        } else {
          return Epsilon::Proven(kInf);
        }
      },
      event);
}

Rho ZcdpCost(const PrivacyEvent& event) {
  const double rho = std::visit(
      [&](const auto& e) {
        using E = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<E, GaussianEvent> || std::is_same_v<E, JointGaussianEvent>) {
          return Half(e.mu.value());
        } else if constexpr (std::is_same_v<E, PoissonGaussianEvent> ||
                             std::is_same_v<E, FixedSizeGaussianEvent>) {
          return e.rate.value() > 0 ? Half(e.mu.value()) : 0.0;
        } else if constexpr (std::is_same_v<E, DiscreteGaussianEvent>) {
          return Half(DivUp(static_cast<double>(e.sensitivity), e.sigma.value()));
        } else if constexpr (std::is_same_v<E, DistributedDiscreteGaussianEvent>) {
          if (!(e.sigma.value() >= 0.5) || e.clients < 1) return kInf;      // beyond the theorem
          const double n = static_cast<double>(e.clients), d = static_cast<double>(e.dimension);
          const double root = e.sensitivity.value() / (std::sqrt(n) * e.sigma.value()) +
                              Tau(e.sigma.value(), e.clients) * std::sqrt(d);
          return root * root / 2 * (1 + 1e-12);
        } else if constexpr (std::is_same_v<E, ZcdpEvent>) {
          return e.rho.value();
        } else {
          const double epsilon = PureCost(event).value();
          return epsilon < kInf ? epsilon * std::tanh(epsilon / 2) * (1 + 1e-14) + 0x1p-1074 * (epsilon > 0)
                                : kInf;
        }
      },
      event);
  return Rho::Proven(rho);
}

double ScalarDpSteps(Epsilon epsilon) { return std::ceil(std::exp(epsilon.value() / 3)); }

double EpsilonOf(const PrivUnitEvent& e) {
  const double p = e.p.value(), q = e.q.value();
  if (!(p < 1 && q > 0)) return kInf;
  const double epsilon = std::log(p / (1 - p)) + std::log((1 - q) / q);
  return epsilon > 0 ? epsilon * (1 + 0x1p-48) + 0x1p-48 : 0;
}

Result<PrivUnitEvent> OptimalPrivUnit(Epsilon direction, std::uint64_t dimension) {
  const double epsilon = direction.value();
  TACIT_TRY(const double gamma, OptimalGamma(epsilon, dimension));
  const double q = CapLaw(dimension, gamma).measure();
  // 1 − p = (1 − q)/(1 + (e^ε − 1) q); p a little lower, so that the ε of the event is not above the one
  // asked for.
  const double p = std::exp(epsilon) * q / (1 + std::expm1(epsilon) * q) * (1 - 0x1p-50);
  if (!(q > 0 && q <= 0.5 && p > 0 && p < 1))
    return Fail(Code::kUnsupported,
                "epsilon of the direction = {}, dimension = {}: no cap in double precision", epsilon,
                dimension);
  TACIT_TRY(const Probability up, Probability::Of(p));
  TACIT_TRY(const Probability uq, Probability::Of(q));
  return PrivUnitEvent{.p = up, .q = uq};
}

}  // namespace tacit
