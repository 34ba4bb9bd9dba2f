#include "algorithms/nfl_response.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/check.h"
#include "core/rng.h"

namespace tacit {
namespace {

double LogSum(double a, double b) {
  const double most = std::max(a, b);
  return std::isinf(most) ? most : most + std::log1p(std::exp(std::min(a, b) - most));
}

double Mean(View x) { return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size()); }

// The last notes' derivatives by w̃_t and γ_t, carried back from T to 1: of zᵀw̃_T for a probe z.
class Backwards {
 public:
  Backwards(const Graph& g, const NoteDynamics& d, View noise)
      : g_(g), d_(d), noise_(noise), by_w_(g.size()), by_dual_(g.size()), at_(g.size()) {}

  Vec& probe() { return by_w_; }
  // Adds what the probe sees of each round to the sums log_q, times e^log_weight; the probe is used up.
  void Run(double log_weight, Span log_q) {
    std::fill(by_dual_.begin(), by_dual_.end(), 0.0);
    double scale = 0;  // by_w_ and by_dual_ times e^scale are the derivatives
    for (std::size_t t = log_q.size(); t > 0; --t) {
      const double eta = d_.step.At(static_cast<std::uint32_t>(t));
      const double sum = d_.kind == Kind::kSubgradient ? MixBack(eta) : SolveBack(eta);
      log_q[t - 1] = LogSum(log_q[t - 1], std::log(sum) + 2 * scale + log_weight);
      scale += Rescale();
    }
  }

 private:
  using Kind = NoteDynamics::Kind;

  // Both: from derivatives by what follows round t to those by what follows round t − 1; Σ_k (p_k s_k(t))².
  double MixBack(double eta) {
    double sum = 0;
    for (std::size_t k = 0; k < g_.size(); ++k) {
      const double p = by_w_[k], s = p * noise_[k] * eta;
      sum += s * s;
      double mixed = p;
      for (const std::uint32_t l : g_.of(k))
        mixed += (by_w_[l] - p) / static_cast<double>(1 + std::max(g_.degree(k), g_.degree(l)));
      at_[k] = mixed - eta * d_.curvature * p;
    }
    by_w_.swap(at_);
    return sum;
  }
  double SolveBack(double eta) {
    const bool exact = d_.kind == Kind::kExact;
    const double centre = exact ? 0 : 1 / eta - d_.curvature, base = exact ? d_.curvature : 1 / eta;
    double sum = 0;
    for (std::size_t k = 0; k < g_.size(); ++k) {
      double apart = 0;
      for (const std::uint32_t l : g_.of(k)) apart += by_dual_[k] - by_dual_[l];
      const double p = by_w_[k] + d_.rho * apart;
      const double b = 2 * d_.rho * static_cast<double>(g_.degree(k)) + base;
      const double s = p * noise_[k] / (exact ? 1.0 : b);
      sum += s * s;
      at_[k] = p / b;
    }
    for (std::size_t k = 0; k < g_.size(); ++k) {
      double both = 0;
      for (const std::uint32_t l : g_.of(k)) both += at_[k] + at_[l];
      by_w_[k] = centre * at_[k] + d_.rho * both;
      by_dual_[k] -= at_[k];
    }
    // L does not see a constant, which would stay where all else decays.
    const double mean = Mean(by_dual_);
    for (double& v : by_dual_) v -= mean;
    return sum;
  }
  // Keeps the numbers in range, over however many rounds; exact, by a power of two.
  double Rescale() {
    double peak = 0;
    for (std::size_t k = 0; k < g_.size(); ++k)
      peak = std::max({peak, std::abs(by_w_[k]), std::abs(by_dual_[k])});
    if (peak == 0 || (peak > 0x1p-100 && peak < 0x1p100)) return 0;
    const int exponent = std::ilogb(peak);
    for (double& v : by_w_) v = std::ldexp(v, -exponent);
    for (double& v : by_dual_) v = std::ldexp(v, -exponent);
    return exponent * std::log(2.0);
  }

  const Graph& g_;
  const NoteDynamics& d_;
  View noise_;
  Vec by_w_, by_dual_, at_;
};

}  // namespace

std::size_t ResponseProbes(const Graph& g, std::size_t rounds) {
  const double one = static_cast<double>(rounds) * static_cast<double>(g.neighbour.size() + g.size());
  if (one > 2e8) return 0;
  if (static_cast<double>(g.size()) * one <= 4e7) return g.size();
  return static_cast<std::size_t>(std::clamp(4e7 / one, 2.0, 16.0));
}

Vec LogResponse(const Graph& g, const NoteDynamics& d, std::size_t rounds, View noise, std::size_t probes) {
  const std::size_t n = g.size();
  TACIT_CHECK(n >= 2 && probes > 0 && noise.size() == n && d.curvature >= 0);
  Vec q(rounds, -std::numeric_limits<double>::infinity());
  Backwards back(g, d, noise);
  Vec& z = back.probe();
  if (probes >= n) {
    for (std::size_t k = 0; k < n; ++k) {
      std::fill(z.begin(), z.end(), 0.0);
      z[k] = 1;
      back.Run(0, q);
    }
  } else {
    std::fill(z.begin(), z.end(), 1 / std::sqrt(static_cast<double>(n)));
    back.Run(0, q);
    Stream rng({.seed = 1, .purpose = Purpose::kTopology, .who = 2});
    for (std::size_t i = 0; i < probes; ++i) {
      for (double& v : z) v = rng.Below(2) == 0 ? 1.0 : -1.0;
      const double mean = Mean(z);
      for (double& v : z) v -= mean;
      back.Run(-std::log(static_cast<double>(probes)), q);
    }
  }
  // A step that forgets all that was before leaves nothing: as little as a double can say, then.
  const double least = 2 * std::log(std::numeric_limits<double>::min());
  for (std::size_t t = rounds; t-- > 1;) q[t - 1] = std::max(q[t - 1], q[t] + least);
  return q;
}

}  // namespace tacit
