#include "privacy/grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "privacy/transform.h"

namespace tacit {
namespace {

constexpr double kU = 0x1p-53;

// log Σ mass·e^{t·loss}, to 1e-12.
double LogMoment(const GridMass& m, double step, double t) {
  double scale = -kInf, sum = 0;
  std::vector<double> log_weight(m.mass.size(), -kInf);
  for (std::size_t j = 0; j < m.mass.size(); ++j) {
    if (!(m.mass[j] > 0)) continue;
    log_weight[j] = std::log(m.mass[j]) +
                    t * (step * static_cast<double>(m.first + static_cast<std::ptrdiff_t>(j)) - m.shift);
    scale = std::max(scale, log_weight[j]);
  }
  for (const double l : log_weight) sum += std::exp(l - scale);
  return scale + std::log(sum);
}

}  // namespace

std::optional<GridCurve> GridCurve::Make(const Composition& all, double c, bool upper, std::size_t cells) {
  if (all.mu_squared > 0 || all.terms.empty()) return std::nullopt;
  // The window, from K: the tilted sum leaves it with a probability of 1e-15 or so. The masses on the grid
  // are asked again below.
  const Cumulants at = At(all, c);
  const double spread = std::sqrt(at.second);
  if (!std::isfinite(at.value) || !(spread > 0)) return std::nullopt;
  double above = kInf, below = -kInf;
  for (const double d :
       {0.05 * c, 0.1 * c, 0.25 * c, 0.6 * c, 1 / spread, 2 / spread, 4 / spread, 8 / spread}) {
    above = std::min(above, (At(all, c + d).value - at.value + 36) / d);
    if (d < c) below = std::max(below, (at.value - At(all, c - d).value - 36) / d);
  }
  if (!(above < 1e6) || !(below > -1e6)) return std::nullopt;
  const double width = (above - below) * 1.02;
  const double step = std::ldexp(std::ceil(std::ldexp(width / static_cast<double>(cells - 8), 60)), -60);
  GridCurve out;
  out.upper_ = upper, out.step_ = step, out.tilt_ = c;

  const auto n = cells;
  const Transform transform(n);
  const std::size_t half = n / 2 + 1;  // frequencies; the others are conjugates
  std::vector<Complex> product(half, Complex{1, 0});
  std::vector<Wide> log_modulus(half, 0), log_most(half, 0);
  double lost = 0, total_count = 0;
  std::vector<std::pair<GridMass, double>> terms;
  for (const auto& term : all.terms) {
    std::optional<GridMass> m = term.loss->OnGrid(step, upper);
    if (!m) return std::nullopt;
    const double k = LogMoment(*m, step, c);
    out.log_scale_ += term.count * k;
    out.offset_ -= term.count * m->shift;
    lost += term.count * m->infinite;
    out.relative_ += term.count * (m->error + 4e-12);
    total_count += term.count;

    std::vector<Wide> folded(n);
    Wide mass = 0;
    for (std::size_t j = 0; j < m->mass.size(); ++j) {
      if (!(m->mass[j] > 0)) continue;
      const auto index = m->first + static_cast<std::ptrdiff_t>(j);
      const double p =
          std::exp(std::log(m->mass[j]) + c * (step * static_cast<double>(index) - m->shift) - k);
      folded[static_cast<std::size_t>(index) & (n - 1)] += p;
      mass += p;
    }
    const std::vector<Complex> z = transform.Forward(folded);
    const Wide fold = kEps * (static_cast<Wide>(m->mass.size()) / static_cast<Wide>(n) + 1);
    const Wide e = (transform.error() + fold) * mass * (1 + static_cast<Wide>(n) * kEps);
    for (std::size_t f = 0; f < half; ++f) {
      const Wide modulus = std::max<Wide>(std::sqrt(std::norm(z[f])), std::numeric_limits<Wide>::min());
      log_modulus[f] += static_cast<Wide>(term.count) * std::log(modulus);
      log_most[f] += static_cast<Wide>(term.count) * (std::log(modulus + e) + 8 * kEps);
      product[f] = product[f] * Power(z[f], static_cast<std::size_t>(term.count));
    }
    terms.emplace_back(std::move(*m), term.count);
  }
  Wide error = 0, size = 0;
  for (std::size_t f = 0; f < half; ++f) {
    const Wide most = std::exp(log_most[f]), modulus = std::exp(log_modulus[f]);
    const Wide twice = f == 0 || f == n / 2 ? 1 : 2;
    error += twice * (std::max<Wide>(0, most - modulus) + most * 8 * kEps * (total_count + 4));
    size += twice * most;
  }
  const std::vector<Wide> sum = transform.Backward(product);
  out.entry_error_ =
      static_cast<double>((error + (transform.error() + kEps) * size) / static_cast<Wide>(n)) * (1 + 1e-9);

  // The window's place: cells first … first + n − 1.
  out.first_ = std::floor((below - out.offset_) / step);
  const double top = step * (out.first_ + static_cast<double>(n)) + out.offset_;
  const double bottom = step * out.first_ + out.offset_;
  out.mass_.resize(n);
  for (std::size_t j = 0; j < n; ++j) {
    const auto index = static_cast<std::ptrdiff_t>(out.first_) + static_cast<std::ptrdiff_t>(j);
    out.mass_[j] = static_cast<double>(sum[static_cast<std::size_t>(index) & (n - 1)] / static_cast<Wide>(n));
  }
  // Chernoff's bound for what lies outside: of probability above the window, and of tilted mass on both
  // sides.
  double log_above = kInf, log_wrapped_above = kInf, log_wrapped_below = kInf;
  for (const double d : {0.05 * c, 0.1 * c, 0.25 * c, 0.6 * c, 2 / spread, 4 / spread, 8 / spread}) {
    const auto moment = [&](double t) {
      double k = 0;
      for (const auto& [m, count] : terms) k += count * (LogMoment(m, step, t) + 1e-12);
      return k;
    };
    const double k = moment(c + d);
    log_above = std::min(log_above, k - (c + d) * top);
    log_wrapped_above = std::min(log_wrapped_above, k - out.log_scale_ - d * top);
    if (d < c) log_wrapped_below = std::min(log_wrapped_below, moment(c - d) - out.log_scale_ + d * bottom);
  }
  out.lost_ = (upper ? lost : 0) + std::exp(log_above);
  out.outside_ = (std::exp(log_wrapped_above) + std::exp(log_wrapped_below)) * (1 + 1e-6);
  return out;
}

double GridCurve::DeltaAt(double epsilon) const {
  // Σ of tilted mass·e^{K − cL}(1 − e^{ε−L}) over L > ε, in units of e^{K − cε}. A mass that came out
  // negative is 0. The two powers go on by multiplication, off by 2u a step; 1 − e^{−a} ≥ 1 − e^{−step} then
  // by 2u/step.
  const double cell = std::floor((epsilon - offset_) / step_ - first_) - 1;
  if (std::isnan(cell)) return upper_ ? 1 : 0;
  // ε may lie far outside the window.
  const auto start = static_cast<std::size_t>(std::clamp(cell, 0.0, static_cast<double>(mass_.size())));
  double sum = 0, errors = 0, fall = 0, power = 0;
  const double fall_ratio = std::exp(-step_), power_ratio = std::exp(-tilt_ * step_);
  bool begun = false;
  for (std::size_t j = start; j < mass_.size(); ++j) {
    double weight = 0;
    if (!begun) {
      const double above = step_ * (first_ + static_cast<double>(j)) + offset_ - epsilon;
      if (!(above > 0)) continue;
      weight = std::exp(-tilt_ * above) * -std::expm1(-above);
      fall = std::exp(-above), power = std::exp(-tilt_ * above);
      begun = true;
    } else {
      fall *= fall_ratio, power *= power_ratio;
      weight = power * (1 - fall);
    }
    sum += std::max(0.0, mass_[j]) * weight;
    errors += weight;
    if (power < 1e-300) break;
  }
  errors *= entry_error_ * (1 + 1e-9);
  const double relative = relative_ + 1e-13 + (8 * static_cast<double>(mass_.size()) + 64 + 8 / step_) * kU +
                          8 * kU * (std::abs(log_scale_) + tilt_ * epsilon);
  const double unit = std::exp(log_scale_ - tilt_ * epsilon);
  if (upper_) return std::min(1.0, (sum + errors) * unit * (1 + relative) + lost_ * (1 + 1e-9));
  return std::max(0.0, (sum - errors - outside_) * unit * (1 - relative));
}

}  // namespace tacit
