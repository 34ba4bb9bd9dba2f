#include "algorithms/ef21_theory.h"

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>

namespace tacit {

double Ef21Theory::Theta() const {
  const double below = 2 * m - 2 * alpha - 2 * m * growth + m * alpha * growth;
  return below > 0 ? m / below : kInf;
}

double Ef21Theory::LargestStep() const {
  const double theta = Theta();
  if (!(theta < kInf)) return 0;
  const double smooth = 1 / (smoothness * (2 + std::sqrt(2 * theta * growth * (2 + 4 / alpha))));
  return mu > 0 ? std::min(smooth, 2 * alpha / (m * mu)) : smooth;
}

Vec Ef21Theory::Steps(std::size_t rounds, double first, double last) const {
  Vec steps(rounds);
  double now = std::min(first, last);
  for (double& s : steps) {
    s = now;
    now = std::min(now * growth, last);
  }
  return steps;
}

double Ef21Theory::WarmUp(double first, double last) const {
  if (first >= last) return 0;
  return growth > 1 ? std::ceil(std::log(last / first) / std::log(growth)) : kInf;
}

double Ef21Theory::Rounds(double first, double last, double initial, double target) const {
  if (!(mu > 0)) return kInf;
  const double warm = WarmUp(first, last);
  return (warm == 0 ? 0 : warm * (1 - first / last)) +
         4 / (last * mu) * std::log(std::max(1.0, initial / target));
}

namespace {

double PrintedA(const Ef21Theory& t, double clients) {
  const double c = 1 + std::sqrt(1 - t.alpha);
  return 4 * (clients + 1) / t.Theta() * c * c;
}

// Ad/(2n) · m(γ)/(1 − γμ/2), what both conditions have.
double Common(const Ef21Theory& t, double gamma, const Ef21Theory::Privacy& p) {
  const double c3 = t.growth * t.Theta() * t.smoothness * t.smoothness * (2 + 4 / t.alpha);
  const double of_step = 1 + t.smoothness * gamma + c3 * gamma * gamma;
  return PrintedA(t, p.clients) * p.dim / (2 * p.clients) * of_step / (1 - gamma * t.mu / 2);
}

double PrintedBeta(const Ef21Theory::Privacy& p) { return 4 / p.dim * std::log1p(1 / p.failure); }

double PrintedC1(const Ef21Theory::Privacy& p) { return p.epsilon * p.epsilon / (4 * std::log(1 / p.delta)); }

}  // namespace

double Ef21Theory::PrintedRounds(View steps, const Privacy& p) const {
  if (!(mu > 0)) return kInf;
  const double y = steps.back() * mu;
  const double sums = 8 * (1 - y / 4) / y + 16 * PrintedBeta(p) * (1 - y / 2) * (1 - y / 4) / (y * y);
  double most = 0;
  for (std::size_t k = 0; k < steps.size(); ++k)
    most = std::max(most,
                    Common(*this, steps[k], p) * std::exp(-static_cast<double>(k + 1) * steps[k] * mu / 4));
  return std::max(1.0, PrintedC1(p) * sums * most - 1);
}

double Ef21Theory::PrintedRoundsByLevels(double gamma, double q, const Privacy& p) const {
  if (!(mu > 0)) return kInf;
  const double y = gamma * mu, rest = 1 - q;
  const double sums = (1 - 1 / (H(y) * q)) * (2 / rest + PrintedBeta(p) * q / (rest * rest));
  const double func = 1 + PrintedC1(p) * Common(*this, gamma, p) * sums;
  return std::max(1.0, 4 / y * std::log(func / 2) - 1);
}

double Ef21Theory::LeastEpsilon(double gamma, const Privacy& p) const {
  if (!(mu > 0)) return kInf;
  const double root = std::sqrt(H(gamma * mu)) - 1;
  const double a = PrintedA(*this, p.clients) * p.dim / (2 * p.clients);
  return std::sqrt(a * 4 * std::log(1 / p.delta) / 2) / root;
}

Vec Radii(double first, double ratio, std::size_t rounds) {
  Vec out(rounds);
  for (std::size_t t = 0; t < rounds; ++t)
    out[t] = first * std::exp(static_cast<double>(t) * std::log(ratio));
  return out;
}

double SumOfRadii(double first, double ratio, std::size_t rounds) {
  const auto n = static_cast<double>(rounds);
  if (ratio == 1) return first * n;
  return first * std::expm1(n * std::log(ratio)) / std::expm1(std::log(ratio));
}

RadiusNoise NoiseOfRadii(double first, double ratio, std::size_t rounds, Mu mu) {
  const double square = mu.value() * mu.value(), n = static_cast<double>(rounds);
  RadiusNoise r;
  r.sum = SumOfRadii(first, ratio, rounds);
  r.first = 4 * first * r.sum / square;
  r.last = r.first * std::exp((n - 1) * std::log(ratio));
  r.total = 4 * r.sum * r.sum / square;
  r.equal_split = 4 * n * SumOfRadii(first * first, ratio * ratio, rounds) / square;
  return r;
}

Vec PrintedRadii(View steps, double mu) {
  Vec out(steps.size());
  double log_square = 0;
  for (std::size_t t = 0; t < steps.size(); ++t) {
    out[t] = std::exp(log_square / 2);
    log_square += std::log1p(-steps[t] * mu / 4);
  }
  return out;
}

Vec PrintedLogLevels(Ef21Noise noise, View steps, double mu, double q) {
  Vec out(steps.size());
  double log_nu = 0;
  for (std::size_t t = 0; t < steps.size(); ++t) {
    out[t] = log_nu;
    const double log_h = std::log(Ef21Theory::H(steps[t] * mu));
    if (noise == Ef21Noise::kTheorem) log_nu += log_h;
    if (noise == Ef21Noise::kLevels) log_nu -= log_h + std::log(q);
  }
  return out;
}

double MirroredFloor(double sensitivity, double dim, double clients, double mu_f, Mu mu) {
  const double x = sensitivity / (mu_f * mu.value());
  return x * x * dim / clients;
}

double PrivateFloor(double sum_of_radii, double dim, double clients, double mu_f, Mu mu) {
  return MirroredFloor(2 * sum_of_radii, dim, clients, mu_f, mu);
}

double AccumulatedFloor(double sum_of_variances, double dim, double clients, double mu_f) {
  return dim * sum_of_variances / (clients * mu_f * mu_f);
}

double VarianceLeak(double dim, double ratio, double epsilon) {
  // S = ‖z‖² is sufficient. With v = ratio > 1: log of N(0, vI) over N(0, I) is −(d/2) ln v + (S/2)(1 − 1/v),
  // rising in S, so both directions have a threshold s and
  //   δ = Q(S > s) − e^ε P(S > s),  or  δ = P(S < s′) − e^ε Q(S < s′).
  if (ratio == 1) return 0;
  const double v = std::max(ratio, 1 / ratio), half = dim / 2, log_v = std::log(v);
  const auto upper = [&](double s, double variance) {
    return boost::math::gamma_q(half, s / (2 * variance));
  };
  const auto lower = [&](double s, double variance) {
    return boost::math::gamma_p(half, s / (2 * variance));
  };
  const double above = 2 * (epsilon + half * log_v) / (1 - 1 / v);
  const double below = 2 * (half * log_v - epsilon) / (1 - 1 / v);
  const double wide = upper(above, v) - std::exp(epsilon) * upper(above, 1);
  const double narrow = below > 0 ? lower(below, 1) - std::exp(epsilon) * lower(below, v) : 0;
  return std::max({0.0, wide, narrow});
}

}  // namespace tacit
