#include "privacy/pld.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "privacy/transform.h"

namespace tacit {
namespace {

// At least δ(ε; μ) for 0 ≤ ε < ∞, 0 < μ < ∞:
//   A − B,  A = Φ(−t₁),  B = e^ε Φ(−t₂) = φ(t₁) M(t₂),  t = ε/μ ∓ μ/2,  M Mills' ratio.
// u = 2⁻⁵³. t is off by at most 4u·s, s = ε/μ + μ/2, with the division by √2; |d log Φ(−t)/dt| ≤ max(t, 0) +
// 1 and |d log φ/dt| = |t|. erfc and exp (documented to 5 and 1 ulp by glibc) are charged with 12 and 4 ulp,
// and twelve terms of M's enveloping series leave less than u from t₂ = 14 on.
double GaussianDeltaUp(double epsilon, double mu) {
  const double ratio = epsilon / mu, t1 = ratio - mu / 2, t2 = ratio + mu / 2;
  if (!(t1 > -8)) return 1;
  if (t1 > 36) return 1e-283;  // Φ(−36) < 5e-284, and beyond it a term nears underflow
  const double a = std::erfc(t1 * M_SQRT1_2) / 2;
  double b = 0, b_slope = 0;
  if (t2 < 14) {
    b = std::exp(epsilon) * std::erfc(t2 * M_SQRT1_2) / 2;
    b_slope = t2 + 1;
  } else {
    const double y = 1 / (t2 * t2);
    double series = 1;
    for (int n = 12; n > 0; --n) series = 1 - (2 * n - 1) * y * series;
    b = std::exp(-t1 * t1 / 2) * 0x1.9884533d43651p-2 * series / t2;  // 1/√(2π)
    b_slope = 2 * std::abs(t1) + 1;
  }
  const double shift = 4 * t2;  // of t, in u
  const double error = 0x1p-53 * ((40 + shift * (std::max(t1, 0.0) + 1)) * a + (64 + shift * b_slope) * b);
  return std::clamp(NextUp(a - b + error), 0.0, 1.0);
}

// Losses under the first of two dominating distributions, on the grid j·h: at[n + j] for j = −n … n, and the
// mass at infinity.
//
// Any masses p(L) ≥ 0 for L > 0, with p(−L) ≥ e^{−L} p(L) and total at least 1, have a curve
//   D(ε) = p(∞) + Σ_{L>ε} p(L)(1 − e^{ε−L})
// that is piecewise linear in e^ε. δ_round is convex in e^ε, so D is at least δ_round everywhere once it is
// at the grid points ε ≥ 0; by the symmetry then also for ε < 0. Composition is monotone in D and in the
// total mass. So rounding may only push masses up.
struct Loss {
  double h = 0;
  std::ptrdiff_t n = 0;
  std::vector<Wide> at;
  double infinite = 0;
};

// h has few digits, so j·h is exact.
Loss Discretize(double q, double mu, double h, double range) {
  Loss out;
  out.h = h;
  out.n = static_cast<std::ptrdiff_t>(std::ceil(range / h)) + 1;
  const std::ptrdiff_t n = out.n;
  out.at.assign(static_cast<std::size_t>(2 * n + 1), 0);
  const auto p = [&](std::ptrdiff_t j) -> Wide& { return out.at[static_cast<std::size_t>(n + j)]; };
  const Probability prob = Probability::Proven(q);
  const Mu unit = Mu::Proven(mu);
  const auto curve = [&](std::ptrdiff_t j) {
    return SubsampledDelta(static_cast<double>(j) * h, prob, unit);
  };
  out.infinite = curve(n);

  // From the top down, with tail = Σ_{L>ε} p(L) and w = D(ε) − p(∞):
  //   w(ε − h) = (1 − e^{−h}) tail(ε − h) + e^{−h} w(ε),
  // the smallest p that lifts D to the curve is chosen. All terms are positive, hence w is known to a few
  // kEps per step, and the inflation makes up for them.
  const Wide step = -std::expm1(-static_cast<Wide>(h)), keep = 1 - step;
  const Wide inflate = 1 + 16 * kEps * static_cast<Wide>(n + 1);
  Wide tail = 0, w = 0, total = out.infinite;
  for (std::ptrdiff_t j = n; j > 0; --j) {
    const Wide want = static_cast<Wide>(curve(j - 1)) * inflate - out.infinite;
    const Wide mass = std::max<Wide>(0, (want - keep * w) / step - tail);
    tail += mass;
    w = step * tail + keep * w;
    const Wide mirrored = mass * std::exp(-static_cast<Wide>(j) * h) * (1 + 8 * kEps);
    p(j) = mass;
    p(-j) = mirrored;
    total += mass + mirrored;
  }
  p(0) = std::max<Wide>(0, 1 - total) + 16 * kEps * static_cast<Wide>(n + 1);
  return out;
}

// At least log Σ p(L) e^{λL}; for |λ L| up to 600 the terms are good to 1e-16 each.
double LogMoment(const Loss& loss, double lambda) {
  Wide sum = 0;
  for (std::ptrdiff_t j = -loss.n; j <= loss.n; ++j)
    sum += loss.at[static_cast<std::size_t>(loss.n + j)] *
           std::exp(static_cast<Wide>(lambda) * loss.h * static_cast<Wide>(j));
  const Wide rounding = 1e-15L + 2000 * kEps + kEps * static_cast<Wide>(loss.at.size());
  return NextUp(static_cast<double>(std::log(sum) + rounding));
}

// Where the sum of T losses ends, but for a probability of η: the least x with e^{T K(λ) − λx} ≤ η, over λ
// (Chernoff); for sign = −1 the lower end. Any λ is valid, so the search need not be exact.
struct Edge {
  double at, lambda;
};
Edge FindEdge(const Loss& loss, double rounds, double eta, double sign) {
  const auto at = [&](double log_lambda) {
    const double lambda = std::exp(log_lambda);
    return (rounds * LogMoment(loss, sign * lambda) - std::log(eta)) / lambda;
  };
  constexpr double kGolden = 0.6180339887498949;
  double hi = std::log(600 / (loss.h * static_cast<double>(loss.n))), lo = hi - 20;
  double left = hi - kGolden * (hi - lo), right = lo + kGolden * (hi - lo);
  double at_left = at(left), at_right = at(right);
  for (int i = 0; i < 24; ++i) {
    if (at_left < at_right) {
      hi = std::exchange(right, left);
      at_right = at_left;
      at_left = at(left = hi - kGolden * (hi - lo));
    } else {
      lo = std::exchange(left, right);
      at_left = at_right;
      at_right = at(right = lo + kGolden * (hi - lo));
    }
  }
  return at_left < at_right ? Edge{sign * at_left, std::exp(left)} : Edge{sign * at_right, std::exp(right)};
}

// The sum of T losses modulo the window of N cells, entry j mod N, and a bound on the ℓ₁ norm of its error.
//
// A frequency's value z is off by e; its power by T e (|z| + e)^{T−1} and by 6 kEps T of itself for the
// products; the way back adds its own. An error E_k at frequency k changes each of N cells by at most
// |E_k|/N.
struct Sum {
  std::vector<Wide> at;
  Wide error = 0;
};
Sum Convolve(const Loss& loss, std::size_t rounds, std::size_t cells) {
  Sum out;
  std::vector<Wide> folded(cells);
  const Transform transform(cells);
  Wide mass = 0;
  for (std::ptrdiff_t j = -loss.n; j <= loss.n; ++j) {
    const Wide p = loss.at[static_cast<std::size_t>(loss.n + j)];
    folded[static_cast<std::size_t>(j) & (cells - 1)] += p;
    mass += p;
  }
  std::vector<Complex> transformed = transform.Forward(folded);
  // The folding above rounds too: fewer than 2n/N + 1 times per cell.
  const Wide fold = kEps * (static_cast<Wide>(loss.at.size()) / static_cast<Wide>(cells) + 1);
  const Wide e = (transform.error() + fold) * mass * (1 + static_cast<Wide>(cells) * kEps);
  const auto t = static_cast<Wide>(rounds);
  Wide powers = 0;
  for (std::size_t f = 0; f < transformed.size(); ++f) {
    Complex& z = transformed[f];
    const Wide modulus = std::sqrt(std::norm(z)) * (1 + 4 * kEps) + e;
    const Wide twice = f == 0 || f == cells / 2 ? 1 : 2;  // the conjugates
    powers += twice * std::pow(modulus, t - 1) * std::max<Wide>(modulus, 1);
    z = Power(z, rounds);
  }
  out.at = transform.Backward(transformed);
  for (Wide& x : out.at) x /= static_cast<Wide>(cells);
  out.error = 1.01L * (t * e + 6 * kEps * t + transform.error() + kEps) * powers;
  return out;
}

constexpr std::size_t kMostRounds = std::size_t{1} << 30;  // the margins for rounding are made for these

// Few digits, upward.
double Coarse(double x) { return static_cast<double>(std::nextafter(static_cast<float>(x), HUGE_VALF)); }

}  // namespace

double SubsampledDelta(double epsilon, Probability q_unit, Mu mu_unit) {
  const double q = q_unit.value(), mu = mu_unit.value();
  if (std::isnan(epsilon)) return 1;
  if (epsilon < 0) {
    const double positive = SubsampledDelta(-epsilon, q_unit, mu_unit);
    // 1 − e^ε(1 − δ): two terms that are not negative, each good to a few ulp.
    return std::min(1.0, (-std::expm1(epsilon) + std::exp(epsilon) * positive) * (1 + 0x1p-48));
  }
  if (q == 0 || mu == 0) return 0;
  if (mu == kInf) return q;
  if (epsilon == kInf) return 0;
  // log(1 + (e^ε − 1)/q), the second form where e^ε would overflow; a little lower, as the curve falls.
  const double inner = epsilon < 30 ? std::log1p(std::expm1(epsilon) / q)
                                    : epsilon + std::log((1 - (1 - q) * std::exp(-epsilon)) / q);
  return std::min(q, MulUp(q, GaussianDeltaUp(inner * (1 - 0x1p-49), mu)));
}

Result<double> SubsampledEpsilon(Probability q, Mu mu, std::size_t rounds, Delta delta, PldOptions options) {
  const std::size_t cells = options.cells;
  if (!std::has_single_bit(cells) || cells < (1U << 10) || cells > (1U << 22))
    return Fail(Code::kInvalidArgument, "cells = {}: must be a power of two from 1024 to 4194304", cells);
  if (rounds > kMostRounds)
    return Fail(Code::kUnsupported, "rounds = {}: at most {} are composed; plan fewer", rounds, kMostRounds);
  if (q.value() == 0 || mu.value() == 0 || rounds == 0) return 0.0;
  const auto t = static_cast<double>(rounds);
  if (MulUp(t, SubsampledDelta(0, q, mu)) <= delta.value()) return 0.0;  // T rounds of (0, δ/T)
  if (delta.value() == 0 || mu.value() == kInf) return kInf;
  const double eta = delta.value() * 1e-7;  // allowed to each of the three tails

  // One round's losses beyond the range count as infinite.
  double low = 0, range = 1e-6;
  while (range < 1e30 && t * SubsampledDelta(range, q, mu) > eta) low = std::exchange(range, 2 * range);
  if (range >= 1e30) return kInf;
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + range) / 2;
    (t * SubsampledDelta(middle, q, mu) > eta ? low : range) = middle;
  }

  // The window, from grids no finer than the final one: its losses then spread no further than theirs.
  double h = 0, width = range;
  Edge top{0, 0};
  for (int pass = 0; pass < 16; ++pass) {
    const std::size_t coarse = std::min(cells, std::size_t{1} << (pass == 0 ? 10 : 12));
    const double search = Coarse(1.1 * width / static_cast<double>(coarse));
    const Loss trial = Discretize(q.value(), mu.value(), search, range);
    top = FindEdge(trial, t, eta, +1);
    width = std::max(top.at - FindEdge(trial, t, eta, -1).at, range);
    if (!(width < 1e30)) return kInf;
    h = Coarse(width * (1 + 1e-6) / static_cast<double>(cells - 4));
    if (pass > 0 && h <= search) break;
  }
  const Loss loss = Discretize(q.value(), mu.value(), h, range);
  const auto last = static_cast<std::ptrdiff_t>(std::ceil(top.at / h)) + 1;  // the window is [first, last)
  const std::ptrdiff_t first = last - static_cast<std::ptrdiff_t>(cells);
  const Sum sum = Convolve(loss, rounds, cells);

  // What lies above the window reappears inside, where it may count for less: its probability is added.
  // What lies below reappears at the top and counts for more than it should.
  const double log_mass = t * LogMoment(loss, 0);  // of T rounds, 0 but for roundings upward
  const double above = std::exp(t * LogMoment(loss, top.lambda) - top.lambda * h * static_cast<double>(last));
  const double infinite = t * loss.infinite * std::exp(std::max(0.0, log_mass));
  const Wide lost = (static_cast<Wide>(above) + infinite) * (1 + 1e-6L) + sum.error;
  const Wide target = delta.value() - lost;
  if (!(target > 0))
    return Fail(Code::kUnsupported,
                "delta = {}: {} rounds on {} cells are resolved to {:.1e} only; ask for a larger delta, "
                "fewer rounds or more cells",
                delta.value(), rounds, cells, static_cast<double>(lost));

  // D(ε) − lost from the top down, as in Discretize, to the cell that crosses the target; there it is linear
  // in e^ε. The inflation pays for the recursion's rounding.
  const Wide step = -std::expm1(-static_cast<Wide>(h)), keep = 1 - step;
  const Wide goal = target * (1 - 16 * kEps * static_cast<Wide>(cells));
  Wide tail = 0, w = 0;
  for (std::ptrdiff_t j = last - 1; j > first && j > 0; --j) {
    tail += sum.at[static_cast<std::size_t>(j) & (cells - 1)];
    const Wide next = step * tail + keep * w;
    if (next > goal) {
      const Wide part = std::clamp<Wide>((goal - w) / (next - w), 0, 1);
      const Wide epsilon = static_cast<Wide>(j) * h + std::log1p(-part * step);
      return std::max(0.0, static_cast<double>(epsilon * (1 + 1e-14L)));
    }
    w = next;
  }
  return std::max(0.0, static_cast<double>(first + 1) * h);
}

}  // namespace tacit
