#include "privacy/saddle_point.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <utility>

#include "privacy/renyi.h"

namespace tacit {
namespace {

constexpr double kU = 0x1p-53;
constexpr double kAccuracy = 1e-13;  // aimed at for what is left out, relative to δ

// sup over L of (1 − e^{ε−L})₊ e^{−t(L−ε)}, attained at e^{L−ε} = 1 + 1/t.
double LogKappa(double t) { return t > 0 ? -t * std::log1p(1 / t) - std::log1p(t) : 0; }

double Up(const Cumulants& k) { return k.value + k.error; }

// The tilt where `next` is a Newton step in c, kept in a bracket; nothing depends on its quality.
template <class Step>
double SolveTilt(double c, Step step) {
  double low = 1e-12, high = 1e15;
  for (int i = 0; i < 80; ++i) {
    double next = step(c);               // what c should be
    (next > c ? low : high) = c;
    if (!(next > low && next < high)) next = std::sqrt(low * high);
    next = std::clamp(next, c / 8, c * 8);
    if (std::abs(next - c) < 1e-3 * c || high < low * 1.0001) return next;
    c = next;
  }
  return c;
}

// log of δ e^{cε − K}, roughly, where c is a saddle point.
double LogTypical(double c, const Cumulants& at) {
  return -std::log(c) - std::log1p(c) - 0.5 * std::log(at.second + 1 / (c * c)) - 1;
}

struct Chernoff {
  double t, log_bound;
};
struct Period {
  double length = kInf;
  Chernoff above{}, below{};
};
// The shortest period for which the images on both sides are small compared with δ(ε) at this tilt. Any t
// gives a valid bound.
Period FindPeriod(const Composition& all, double c, const Cumulants& at, double epsilon, double log_delta) {
  Period out;
  const double spread = std::sqrt(at.second), log_value = at.value - c * epsilon;
  const double need = std::log(1 / kAccuracy) - std::min(LogTypical(c, at), log_delta - log_value);
  double above = kInf, below = kInf;
  for (const double t :
       {c * 1.1, c * 1.25, c * 1.6, c * 3, c + 1 / spread, c + 2 / spread, c + 4 / spread, c + 8 / spread}) {
    if (t > 20 * c) continue;  // dear, and no better
    const double bound = Up(At(all, t)) + LogKappa(t);
    const double length = (bound - t * epsilon - log_value + need) / (t - c);
    if (length < above) above = length, out.above = {t, bound};
  }
  for (const double t : {0.0, c * 0.3, c * 0.6, c * 0.8, c - 4 / spread, c - 8 / spread}) {
    if (t < 0) continue;
    const double bound = t > 0 ? Up(At(all, t)) + LogKappa(t) : 0;
    const double length = (bound - t * epsilon - log_value + need) / (c - t);
    if (length < below) below = length, out.below = {t, bound};
  }
  out.length = std::max(above, below);
  return out;
}

}  // namespace

Cumulants At(const Composition& all, double t) {
  Cumulants out{};
  for (const auto& term : all.terms) {
    const Cumulants k = term.loss->At(t);
    out.value += term.count * k.value;
    out.error += term.count * (k.error + 4 * kU * std::abs(k.value));
    out.first += term.count * k.first;
    out.second += term.count * k.second;
  }
  const double gaussian = all.mu_squared / 2 * t * (t + 1);
  out.value += gaussian;
  out.error += 8 * kU * (gaussian + std::abs(out.value)) + kU * static_cast<double>(all.terms.size());
  out.first += all.mu_squared * (t + 0.5);
  out.second += all.mu_squared;
  return out;
}

double TiltForEpsilon(const Composition& all, double epsilon) {
  const auto k = At(all, 1.0);
  return SolveTilt(std::clamp(epsilon / std::max(k.second, 1e-300), 1e-3, 1e6), [&](double c) {
    const Cumulants at = At(all, c);
    if (!std::isfinite(at.value)) return c / 4;
    const double slope = at.first - epsilon - 1 / c - 1 / (1 + c);
    return c - slope / (at.second + 1 / (c * c) + 1 / ((1 + c) * (1 + c)));
  });
}

Start StartForDelta(const Composition& all, double log_delta) {
  const double tilt = SolveTilt(1.0, [&](double c) {
    const Cumulants at = At(all, c);
    if (!std::isfinite(at.value)) return c / 4;
    const double epsilon = at.first - 1 / c - 1 / (1 + c);
    const double second = at.second + 1 / (c * c) + 1 / ((1 + c) * (1 + c));
    const double log_value =
        at.value - c * epsilon - std::log(c) - std::log1p(c) - 0.5 * std::log(2 * M_PI * second);
    return c * std::exp(std::clamp((log_value - log_delta) / (c * c * second), -2.0, 2.0));
  });
  const auto chernoff = [&](double t) {
    const double v = (At(all, t).value + LogKappa(t) - log_delta) / t;
    return std::isnan(v) ? kInf : v;
  };
  const Cumulants at = At(all, tilt);
  const double epsilon = at.first - 1 / tilt - 1 / (1 + tilt);
  if (epsilon <= chernoff(tilt)) return {tilt, std::max(0.0, epsilon)};
  // K bends sharply, and the saddle point lies beyond the bend: the order that is best for Chernoff's bound
  // does not. The bound is a convex function over t, so it has one valley.
  Start best{tilt, chernoff(tilt)};
  for (double factor = 4; factor > 1.1; factor = std::sqrt(factor))
    for (const double by : {factor, 1 / factor})
      for (int i = 0; i < 12; ++i) {
        const double e = chernoff(best.tilt * by);
        if (!(e < best.epsilon)) break;
        best = {best.tilt * by, e};
      }
  best.epsilon = std::max(0.0, best.epsilon * 0.9);
  return best;
}

// Where losses have a heavy upper tail the saddle point sits at its edge, and images of the tail need a long
// period. A little to the left the integrand is larger by some powers of e, and the period much shorter.
static double ShortestTilt(const Composition& all, double c, double epsilon, double log_delta) {
  const Cumulants at = At(all, c);
  if (!std::isfinite(at.value)) return c;
  double best = FindPeriod(all, c, at, epsilon, log_delta).length, kept = c;
  if (best < 16 * std::sqrt(at.second)) return c;
  for (double t = c * 0.85; t > 0.02 * c; t *= 0.85) {
    const Cumulants k = At(all, t);
    if (k.value - t * epsilon > at.value - c * epsilon + 6) break;
    const double length = FindPeriod(all, t, k, epsilon, log_delta).length;
    if (length < best) best = length, kept = t;
  }
  return kept;
}

Contour Contour::Make(const Composition& all, double c, double epsilon, std::size_t nodes, double log_delta) {
  c = ShortestTilt(all, c, epsilon, log_delta);
  Contour out;
  out.c_ = c;
  std::vector<std::unique_ptr<TiltedLoss>> tilted;
  double atom = all.mu_squared > 0 ? 0 : 1, log_atom = 0, atom_error = 0;
  double scale = all.mu_squared / 2 * c * (c + 1), scale_error = 0;
  double centre = 0, centre_error = 0;  // Σ count·centre
  for (const auto& term : all.terms) {
    tilted.push_back(term.loss->Tilt(c));
    const TiltedLoss& t = *tilted.back();
    scale += term.count * t.cumulants.value;
    scale_error += term.count * (t.cumulants.error + 4 * kU * std::abs(t.cumulants.value));
    centre += term.count * t.centre;
    centre_error += 2 * kU * term.count * std::abs(t.centre);
    if (t.atom > 0) {
      log_atom += term.count * std::log(t.atom);
      atom_error += term.count * (t.atom_error + 4 * kU * std::abs(std::log(t.atom)));
    } else {
      atom = 0;
    }
  }
  atom = atom > 0 ? std::exp(log_atom) : 0;
  out.atom_ = atom;
  const double drift = all.mu_squared * (c + 0.5);
  centre += drift;
  centre_error += 4 * kU * (drift + static_cast<double>(all.terms.size()) * std::abs(centre));
  out.log_scale_ = scale;
  out.log_scale_error_ = scale_error + 8 * kU * std::abs(scale);
  if (!std::isfinite(scale)) {
    out.truncation_ = kInf;
    return out;
  }

  const Cumulants moments = At(all, c);
  const double log_typical =
      std::min(LogTypical(c, moments), log_delta - (moments.value - c * epsilon));  // of δ e^{cε − K}
  const Period found = FindPeriod(all, c, moments, epsilon, log_delta);
  out.above_ = {found.above.t, found.above.log_bound}, out.below_ = {found.below.t, found.below.log_bound};
  const double period = found.length;
  if (!(period > 0) || !std::isfinite(period)) {
    out.truncation_ = kInf;
    return out;
  }
  const double h = 2 * M_PI / period;
  out.h_ = h;

  // At least ∫_s^∞ of the integrand's modulus over π, with 1/|z(z + 1)| ≤ 1/s².
  // A long line is cut where it is good enough.
  double enough = std::exp(log_typical) * 1e-14;
  const auto cut = [&](double s, bool paths, bool walk) {
    double direct = -all.mu_squared * s * s / 2, walked = direct, beyond_atom = 0;
    for (std::size_t i = 0; i < tilted.size(); ++i) {
      TiltedLoss& t = *tilted[i];
      const double count = all.terms[i].count;
      const double smooth = paths ? t.Smooth(s) : t.variation / s;
      const double bound = std::min(1.0, t.floor + smooth);
      direct += count * std::log(bound);
      if (atom > 0) beyond_atom += count * std::log1p(smooth / t.atom);
      if (!walk) continue;
      std::complex<double> psi[1];
      const double error = t.Characteristic(s, 1, psi);
      const double modulus = std::abs(1.0 + psi[0]) + error;
      const double log_modulus = modulus < 1 ? std::log(modulus) : 0;
      // A term that is flat here is left as it is.
      if (count * log_modulus > -0.5) continue;
      walked += count * std::log(t.Beyond(s, std::exp(0.85 * log_modulus)));
    }
    double value = std::exp(direct) * (1 + 1e-9);
    if (walk) value = std::min(value, std::exp(walked) * (1 + 1e-9));
    value += atom;  // both are of the whole transform; this is without the atom:
    if (atom > 0) value = std::min(value, atom * std::expm1(beyond_atom + atom_error) * (1 + 1e-9));
    return (value + atom * 2 * atom_error) / (M_PI * s);
  };

  // What is known of the integrand at a node.
  struct Value {
    double log_modulus, phase, error;  // of ψ…; the error is relative
    std::complex<double> weight;  // 1/(z(z + 1))
  };
  constexpr std::size_t kBlock = 32;
  const double shift = centre - epsilon;
  const double shift_error = centre_error + 2 * kU * std::abs(shift);
  out.epsilon_ = epsilon;
  double last_modulus = 0;
  std::vector<std::complex<double>> psi(kBlock);
  double last_walk = 0, last_path = 0, work = 0;
  bool done = false;
  int walks = 0;
  while (!done && out.node_.size() < nodes && work < std::max(1e6, 100.0 * static_cast<double>(nodes))) {
    const std::size_t first = out.node_.size();
    Value block[kBlock];
    double most[kBlock];
    for (std::size_t k = 0; k < kBlock; ++k) {
      const double s = h * static_cast<double>(first + k);
      block[k] = {.log_modulus = -all.mu_squared * s * s / 2,
                  .phase = 0,
                  .error = 8 * kU * all.mu_squared * s * s,
                  .weight = 1.0 / (std::complex<double>(c, s) * std::complex<double>(1 + c, s))};
      most[k] = 0;  // log of a bound of the modulus, over the modulus
    }
    for (std::size_t i = 0; i < tilted.size(); ++i) {
      const double error = tilted[i]->Characteristic(h, first, psi);
      work += kBlock * static_cast<double>(tilted[i]->size());
      const double count = all.terms[i].count;
      for (std::size_t k = 0; k < kBlock; ++k) {
        if (first + k == 0) continue;  // ψ(0) = 1
        const double re = psi[k].real(), im = psi[k].imag(), square = re * (2 + re) + im * im;
        const double modulus = std::max(std::hypot(1 + re, im), 1e-300);
        const double log_modulus = std::abs(square) < 0.5 ? 0.5 * std::log1p(square) : std::log(modulus);
        const double angle = std::atan2(im, 1 + re);
        // |xⁿ − yⁿ| ≤ (|x| + e)ⁿ − |x|ⁿ for |x − y| ≤ e, and likewise for products.
        block[k].log_modulus += count * log_modulus;
        block[k].phase += count * angle;
        most[k] += count * std::log1p(error / modulus);
        // Relative to |ψ − 1| where that is small: the terms of log1p and the angle are.
        block[k].error +=
            count * 16 * kU *
            (std::abs(log_modulus) + std::abs(angle) + std::min(1.0, std::abs(re) + std::abs(im)));
      }
    }
    for (std::size_t k = 0; k < kBlock; ++k) {
      const Value& n = block[k];
      const double log_most = n.log_modulus + most[k];
      const double modulus = std::exp(n.log_modulus);
      double error = most[k] < 1 ? modulus * std::expm1(most[k]) : std::exp(log_most);
      error += std::exp(log_most) * (n.error + 4 * kU) + 1e-290;
      if (!(error <= 1e-3)) {
        done = true;  // no use going on: the tail is bounded from here
        break;
      }
      const double s = h * static_cast<double>(first + k), factor = first + k == 0 ? 1 : 2;
      const double weight = factor * std::abs(n.weight), angle = n.phase + s * shift;
      std::complex<double> value = factor * modulus * n.weight * std::polar(1.0, angle);
      // The atom sits at loss 0.
      if (atom > 0) value -= factor * atom * n.weight * std::polar(1.0, -s * epsilon);
      out.node_.push_back(value);
      last_modulus = modulus;
      out.size_ += weight * (modulus + atom);
      out.moment_ += weight * (modulus + atom) * s;
      out.error_ += weight * (error + modulus * (s * shift_error + 4 * kU * (std::abs(angle) + 2)) +
                              atom * 4 * kU * (s * epsilon + 2));
    }
    if (out.node_.empty()) break;
    // How far is it? The plain bound is cheap; the walk is tried when the integrand itself is small.
    const double s = h * static_cast<double>(out.node_.size() - 1);
    out.truncation_ = s > 0 ? cut(s, false, false) : kInf;
    if (out.truncation_ <= enough) break;
    const double tail = last_modulus / (M_PI * s);
    const std::size_t length = out.node_.size();
    enough = std::exp(log_typical) * (length < std::max<std::size_t>(nodes / 64, 2048) ? 1e-14
                                      : length < nodes / 16                            ? 1e-11
                                                                                       : 1e-9);
    if (s > 1.1 * last_path && tail < enough) {
      last_path = s;
      out.truncation_ = std::min(out.truncation_, cut(s, true, false));
      if (out.truncation_ <= enough) break;
    }
    if (s > 1.3 * last_walk && walks < 5 && tail < enough * enough * 1e6 + enough * 1e-2) {
      last_walk = s, ++walks;
      out.truncation_ = std::min(out.truncation_, cut(s, true, true));
      if (out.truncation_ <= enough) break;
    }
  }
  if (out.truncation_ > enough && out.node_.size() > 1) {
    const double s = h * static_cast<double>(out.node_.size() - 1);
    out.truncation_ = std::min(out.truncation_, cut(s, true, false));
  }
  out.complete_ = done || out.truncation_ <= std::exp(log_typical) * 1e-13;
  return out;
}

Interval Contour::DeltaAt(double epsilon) const {
  if (node_.empty() || !(truncation_ < kInf)) return {0, 1};
  // The nodes turned from the ε they were made for, by rotations that begin anew every 16 nodes: 6u each.
  constexpr std::size_t kRun = 16;
  const double by = epsilon_ - epsilon, cos = std::cos(h_ * by), sin = std::sin(h_ * by);
  double sum = 0;
  for (std::size_t k = 0; k < node_.size(); k += kRun) {
    const double angle = h_ * static_cast<double>(k) * by;
    double re = std::cos(angle), im = std::sin(angle), part = 0;
    for (std::size_t j = k; j < std::min(k + kRun, node_.size()); ++j) {
      part += node_[j].real() * re - node_[j].imag() * im;
      const double turned = re * cos - im * sin;
      im = re * sin + im * cos;
      re = turned;
    }
    sum += part;
  }
  double error = error_ + moment_ * 8 * kU * std::abs(by) +
                 size_ * kU * (7 * kRun + 24 + static_cast<double>(node_.size()) / kRun);
  const double unit = h_ / (2 * M_PI);
  const double log_unit = log_scale_ - c_ * epsilon;
  const double scale_error = log_scale_error_ + 4 * kU * (std::abs(log_scale_) + c_ * epsilon) + 8 * kU;
  const double slack = error * unit * (1 + 1e-9) + truncation_;
  const double period = 2 * M_PI / h_;
  const auto image = [&](const Chernoff& at) {
    const double gap = std::abs(at.t - c_) * period;
    return std::exp(at.log_bound - at.t * epsilon - (log_unit - scale_error) - gap) / -std::expm1(-gap);
  };
  const double images = (image(above_) + image(below_)) * (1 + 1e-9);
  const double upper = (sum * unit + slack) * std::exp(log_unit + scale_error) * (1 + 1e-14);
  const double lower = (sum * unit - slack - images) * std::exp(log_unit - scale_error) * (1 - 1e-14);
  Interval out{std::clamp(lower, 0.0, 1.0), std::clamp(upper, 0.0, 1.0)};
  if (!(upper >= 0)) out.upper = std::isnan(upper) ? 1 : 0;
  if (std::isnan(lower)) out.lower = 0;
  return out;
}

namespace {

// The smallest value of f(log t), by a scan and a golden section; any t is valid. `corners` are values of t
// at which f may have one, and which are worth a look.
template <class F>
double Smallest(const std::vector<double>& corners, F f) {
  std::vector<double> at;
  for (double x = -20; x <= 20; x += 0.5) at.push_back(x);
  // A little before the corner: beyond the last one f is ∞.
  for (const double t : corners) at.push_back(std::log(t) - 4 * kU * (1 + std::abs(std::log(t))));
  std::sort(at.begin(), at.end());
  std::size_t best_at = 0;
  double best = kInf;
  int rises = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double v = f(at[i]);
    // Without corners there is one valley, as both functions are convex in t, or that over t. Large t are
    // dear.
    rises = v < kInf && v >= best ? rises + 1 : 0;
    if (v < best) best = v, best_at = i;
    if (corners.empty() && rises == 4) break;
  }
  constexpr double kGolden = 0.6180339887498949;
  const auto between = [&](double low, double high) {
    double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
    double at_left = f(left), at_right = f(right);
    for (int i = 0; i < 40; ++i) {
      best = std::min({best, at_left, at_right});
      if (at_left < at_right) {
        high = std::exchange(right, left);
        at_right = at_left;
        at_left = f(left = high - kGolden * (high - low));
      } else {
        low = std::exchange(left, right);
        at_left = at_right;
        at_right = f(right = low + kGolden * (high - low));
      }
    }
  };
  const double low = best_at > 0 ? at[best_at - 1] : at[best_at] - 0.5;
  const double high = best_at + 1 < at.size() ? at[best_at + 1] : at[best_at] + 0.5;
  if (corners.empty()) {
    between(low, high);
  } else {
    between(low, at[best_at]);
    between(at[best_at], high);
  }
  return best;
}

std::vector<double> Corners(const Composition& all) {
  std::vector<double> out;
  for (const auto& i : all.imported)
    for (const double t : i.curve->corners())
      if (t > 0) out.push_back(t);
  return out;
}

double RenyiBound(const Composition& all, double rho, double t) {
  double zcdp = rho * t * (t + 1);
  for (const auto& i : all.imported) zcdp += i.count * i.curve->At(t) * (1 + 0x1p-45);
  return (Up(At(all, t)) + zcdp * (1 + 1e-15) + LogKappa(t)) + 1e-15 * (1 + t + zcdp);
}

}  // namespace

double LogChernoff(const Composition& all, double t, double epsilon) {
  return RenyiBound(all, 0, t) - t * epsilon + 4 * kU * t * epsilon;
}

double RenyiDelta(const Composition& all, double epsilon, double rho) {
  const double log_delta = Smallest(Corners(all), [&](double x) {
    const double t = std::exp(x);
    const double v = RenyiBound(all, rho, t) - t * epsilon + 4 * kU * t * epsilon;
    return std::isnan(v) ? kInf : v;
  });
  return std::min(1.0, std::exp(log_delta) * (1 + 1e-14));
}

double RenyiEpsilon(const Composition& all, double delta, double rho) {
  const double log_delta = std::log(delta);
  const double epsilon = Smallest(Corners(all), [&](double x) {
    const double t = std::exp(x);
    const double v = (RenyiBound(all, rho, t) - log_delta + 4 * kU * std::abs(log_delta)) / t;
    return std::isnan(v) ? kInf : v;
  });
  return std::max(0.0, epsilon * (1 + (epsilon > 0 ? 4 : -4) * kU));
}

}  // namespace tacit
