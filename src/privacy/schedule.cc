#include "privacy/schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tacit {
namespace {

// Neumaier's compensated sum: the error does not grow with the number of rounds.
class Sum {
 public:
  void Add(double x) {
    const double s = sum_ + x;
    rest_ += std::abs(sum_) >= std::abs(x) ? (sum_ - s) + x : (x - s) + sum_;
    sum_ = s;
  }
  double value() const { return sum_ + rest_; }

 private:
  double sum_ = 0, rest_ = 0;
};

// log Σ exp(l_t); −∞ for none.
double LogSumExp(View l) {
  double most = -kInf;
  for (double v : l) most = std::max(most, v);
  if (!std::isfinite(most)) return most;
  Sum sum;
  for (double v : l) sum.Add(std::exp(v - most));
  return most + std::log(sum.value());
}

double LogAddExp(double a, double b) {
  const double most = std::max(a, b);
  return most == -kInf ? most : most + std::log1p(std::exp(-std::abs(a - b)));
}

Shares Normalised(Vec log_weight) {
  TACIT_CHECK(!log_weight.empty());
  for (double l : log_weight) TACIT_CHECK(l < kInf);              // NaN fails too
  const double total = LogSumExp(log_weight);
  TACIT_CHECK(total > -kInf);
  for (double& l : log_weight) l -= total;
  return {std::move(log_weight)};
}

double SkipThreshold(std::size_t rounds, double skip_below) {
  return std::min(skip_below, 0.5 / static_cast<double>(rounds));
}

// log Δ_t √q_t.
Vec LogWeights(View log_q, View log_sensitivity) {
  TACIT_CHECK(log_q.size() == log_sensitivity.size());
  Vec out(log_q.size());
  for (std::size_t t = 0; t < out.size(); ++t) {
    TACIT_CHECK(log_q[t] < kInf && log_sensitivity[t] < kInf);
    out[t] = log_sensitivity[t] + log_q[t] / 2;
  }
  return out;
}

// Optimal log shares of the rounds with keep[t] under the cap. log_floor = log(Δ_t²/(cap μ²)) is the share
// at the cap, and Σ exp(log_floor) ≤ 1. A share is max(floor_t, weight_t/λ') for one λ'; the rounds at the
// cap are those with the smallest breakpoint weight_t/floor_t ∝ √q_t/Δ_t.
Vec SolveCapped(const Vec& log_weight, const Vec& log_floor, const std::vector<char>& keep) {
  const std::size_t rounds = log_weight.size();
  Vec log_share(rounds, -kInf), breakpoint(rounds);
  std::vector<std::size_t> order;
  for (std::size_t t = 0; t < rounds; ++t) {
    if (!keep[t]) continue;
    breakpoint[t] = log_weight[t] - log_floor[t];
    order.push_back(t);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return breakpoint[a] != breakpoint[b] ? breakpoint[a] < breakpoint[b] : a < b;
  });
  const std::size_t n = order.size();
  Vec log_rest(n + 1, -kInf);  // log Σ weight over order[k..]
  for (std::size_t k = n; k-- > 0;) log_rest[k] = LogAddExp(log_rest[k + 1], log_weight[order[k]]);
  // The first k whose λ' leaves order[k] below the cap; k = n − 1 always does, up to rounding.
  Sum at_cap;
  std::size_t k = 0;
  for (; k + 1 < n; ++k) {
    const double left = 1 - at_cap.value();
    if (left > 0 && log_rest[k] - std::log(left) <= breakpoint[order[k]]) break;
    at_cap.Add(std::exp(log_floor[order[k]]));
  }
  Vec free;
  for (std::size_t i = k; i < n; ++i) free.push_back(log_weight[order[i]]);
  // The running sums above chose the set; the level is computed afresh. Where no round with q > 0 is left,
  // less noise helps nobody and all stay at the cap.
  const double log_free = LogSumExp(free), log_left = std::log(std::max(1 - at_cap.value(), 0.0));
  const double level = log_free == -kInf ? kInf : log_free - log_left;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t t = order[i];
    log_share[t] = i < k ? log_floor[t] : std::max(log_weight[t] - level, log_floor[t]);
  }
  return log_share;
}

}  // namespace

bool Shares::skipped(std::size_t t) const {
  TACIT_CHECK(t < log_share.size());
  return log_share[t] == -kInf;
}

double Shares::share(std::size_t t) const {
  TACIT_CHECK(t < log_share.size());
  return std::exp(log_share[t]);
}

Shares UniformShares(std::size_t rounds) {
  TACIT_CHECK(rounds > 0);
  return {Vec(rounds, -std::log(static_cast<double>(rounds)))};
}

Shares GeometricShares(std::size_t rounds, double ratio) {
  TACIT_CHECK(ratio > 0 && ratio < kInf);
  Vec log_weight(rounds);
  const double step = std::log(ratio);
  for (std::size_t t = 0; t < rounds; ++t) log_weight[t] = -step * static_cast<double>(t);
  return Normalised(std::move(log_weight));
}

Shares WaterFillingShares(View log_q, View log_sensitivity, double skip_below) {
  Shares all = Normalised(LogWeights(log_q, log_sensitivity));
  const double threshold = std::log(SkipThreshold(all.rounds(), skip_below));
  bool any = false;
  for (double& l : all.log_share) {
    if (l >= threshold) continue;
    any = any || l > -kInf;
    l = -kInf;
  }
  // The shares that stay only grow, so one pass is a fixed point.
  return any ? Normalised(std::move(all.log_share)) : all;
}

Result<Shares> CappedWaterFilling(View log_q, View log_sensitivity, Mu budget, double variance_cap,
                                  double skip_below) {
  if (!(variance_cap > 0))
    return Fail(Code::kInvalidArgument, "variance cap = {}: must be positive; leave it out for none",
                variance_cap);
  const double mu = budget.value();
  if (!(mu > 0))
    return Fail(Code::kBudget, "mu = {}: no noise below a cap meets it; raise the budget or remove the cap",
                mu);
  const Vec log_weight = LogWeights(log_q, log_sensitivity);
  if (variance_cap == kInf || mu == kInf) return WaterFillingShares(log_q, log_sensitivity, skip_below);
  const std::size_t rounds = log_weight.size();
  TACIT_CHECK(rounds > 0);
  Vec log_floor(rounds);
  for (std::size_t t = 0; t < rounds; ++t)
    log_floor[t] = 2 * log_sensitivity[t] - std::log(variance_cap) - 2 * std::log(mu);
  const double least = LogSumExp(log_floor);
  if (least > 1e-12)  // rounding of the logarithms; Calibrate has the last word
    return Fail(Code::kBudget,
                "algorithm.variance_cap = {}: noise below it spends {:.6g} times the budget; raise it or "
                "privacy.epsilon, or lower algorithm.rounds",
                variance_cap, std::exp(least));
  std::vector<char> keep(rounds);
  bool any = false;
  for (std::size_t t = 0; t < rounds; ++t) {
    keep[t] = log_sensitivity[t] > -kInf;  // Δ = 0 needs no noise and no budget
    any = any || keep[t];
  }
  TACIT_CHECK(any);
  TACIT_CHECK(LogSumExp(log_weight) > -kInf);
  Vec log_share = SolveCapped(log_weight, log_floor, keep);
  const double threshold = std::log(SkipThreshold(rounds, skip_below));
  bool again = false;
  for (std::size_t t = 0; t < rounds; ++t) {
    if (!keep[t] || log_share[t] >= threshold) continue;
    keep[t] = false;
    again = true;
  }
  // What the skipped rounds leave lowers λ for the others: their shares only grow.
  if (again) log_share = SolveCapped(log_weight, log_floor, keep);
  return Shares{std::move(log_share)};
}

double NoiseCost(const Shares& shares, View log_q, View log_sensitivity, Mu budget) {
  TACIT_CHECK(log_q.size() == shares.rounds() && log_sensitivity.size() == shares.rounds());
  Vec terms;
  terms.reserve(shares.rounds());
  const double log_budget = 2 * std::log(budget.value());
  for (std::size_t t = 0; t < shares.rounds(); ++t) {
    if (!shares.skipped(t))
      terms.push_back(log_q[t] + 2 * log_sensitivity[t] - shares.log_share[t] - log_budget);
  }
  return std::exp(LogSumExp(terms));
}

Result<Vec> Calibrate(const Shares& shares, Mu budget, double relative, double absolute) {
  const double mu = budget.value();
  // μ² and the smallest charges must stay normal numbers.
  if (!(mu >= 1e-100 && mu <= 1e100))
    return Fail(Code::kBudget,
                "mu = {}: noise can be calibrated for 1e-100 to 1e100; choose another epsilon or delta", mu);
  if (!(relative >= 0 && relative < 1 && absolute >= 0 && absolute < kInf))
    return Fail(Code::kInvalidArgument,
                "rounding allowances {} and {}: must be at least 0, the first below 1", relative, absolute);
  const double target = NextDown(mu * mu) * (1 - kRoundingReserve);  // ≤ μ² in real arithmetic
  const double factor = AddUp(1, relative);
  Vec out(shares.rounds());
  double scale = 1;
  // Each pass composes what would be charged, upwards. An upward addition errs by at most 2⁻⁵² of the total,
  // so after a first pass that overspends, a scale which leaves T·2⁻⁵² fits in the second.
  const double slack = (static_cast<double>(out.size()) + 16) * 0x1p-52;
  for (int pass = 0; pass < 4; ++pass) {
    MuSquared total{0.0};
    for (std::size_t t = 0; t < out.size(); ++t) {
      out[t] = 0;
      if (shares.skipped(t)) continue;
      const double affordable = std::exp(shares.log_share[t] / 2) * mu * scale;
      const double nominal = (affordable - absolute) / factor;
      if (!(nominal > 0))
        return Fail(Code::kBudget,
                    "round {}: its share {:.3g} of the budget does not pay for the lattice, which takes "
                    "{:.3g} of mu; lower algorithm.rounds or raise privacy.epsilon",
                    t + 1, shares.share(t), absolute);
      out[t] = nominal;
      total = total + Squared(Mu::Proven(AddUp(MulUp(nominal, factor), absolute)));
    }
    if (total.value() <= target) return out;
    scale *= std::sqrt(target / total.value()) * (1 - slack);
  }
  return Fail(Code::kInternal, "the charges of {} rounds do not settle within the budget", out.size());
}

}  // namespace tacit
