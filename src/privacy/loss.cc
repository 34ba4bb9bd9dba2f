#include "privacy/loss.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace tacit {
namespace {

constexpr double kU = 0x1p-53;           // rounding to nearest
constexpr double kMargin = 46;           // quadratures are resolved to 2e^{−46}
constexpr double kPruned = -60;          // log of the weight, relative to the largest, that is left out
constexpr std::size_t kMostNodes = std::size_t{1} << 18;
constexpr std::size_t kLanes = 8;        // partial sums: rounding grows with n/8 only
constexpr std::size_t kRestart = 16;     // rotations between two exact evaluations

double SumError(std::size_t n) { return (static_cast<double>(n) / kLanes + kLanes + 4) * kU; }

// At least |ψ| on [s, ∞), by steps: |ψ(s + d)| ≤ |ψ(s)| + d·spread, up to the point where floor + variation/s
// is small enough; before it, |ψ|² = E cos s(L − L′) ≤ 1 − s²σ² + s⁴ E(L − L′)⁴/24, which falls up to
// √(12σ²/E(L − L′)⁴). psi(s) returns a bound of |ψ(s)|.
struct Walk {
  double floor, variation;
  double spread;  // at least the standard deviation
  double variance_lower, fourth;  // at most σ²; at least E(L − L′)⁴
  int steps;
};
double WalkBeyond(const Walk& w, double s, double aim, const std::function<double(double)>& psi) {
  const double direct = std::min(1.0, (w.floor + w.variation / s) * (1 + 1e-12));
  if (direct <= aim || !(aim > w.floor)) return direct;
  const double end = w.variation / (aim - w.floor) * (1 + 1e-12);
  const double turn = std::sqrt(12 * w.variance_lower / w.fourth);
  if (s < turn) {
    const double square = 1 - s * s * w.variance_lower + s * s * s * s * w.fourth / 24;
    if (std::sqrt(square) * (1 + 1e-15) <= aim) s = turn;
  }
  for (int i = 0; i < w.steps; ++i) {
    if (s >= end) return aim;
    const double at = psi(s);
    if (!(at < aim)) break;
    s += (aim - at) / w.spread * (1 - 1e-12);
  }
  return direct;
}

// A quadrature of the tilted measure: losses L_j − centre with weights of sum 1.
struct Table {
  std::vector<double> loss, weight;
  double log_moment = 0;
  double mean = 0, variance = 0, fourth = 0;  // of L − centre; the fourth moment is central
  double missing = 0;  // what was left out
  double relative = 0;  // Σ of the errors of the weights, what was left out included
  double phase = 0;  // Σ weight·|error of L|
  double spread = 0;  // Σ weight·|L − centre|
  double step = 0;

  // From log weights. `missing` is the mass left out, in units of e^{scale}.
  void Normalise(double scale, double left_out, double log_factor) {
    double error = 0, shift = 0, lane[kLanes] = {};
    const std::size_t n = weight.size();
    for (std::size_t j = 0; j < n; ++j) lane[j % kLanes] += weight[j];
    const double total = std::accumulate(lane, lane + kLanes, 0.0);
    for (std::size_t j = 0; j < n; ++j) error += weight[j] * weight_error[j];
    for (std::size_t j = 0; j < n; ++j) shift += weight[j] * loss_error[j];
    missing = left_out / total * (1 + 1e-9);
    relative = error / total * (1 + 1e-9) + missing + SumError(n) + 4 * kU;
    phase = shift / total * (1 + 1e-9);
    log_moment = scale + std::log(total) + log_factor;
    for (double& w : weight) w /= total;
    for (std::size_t j = 0; j < n; ++j) mean += weight[j] * loss[j];
    for (std::size_t j = 0; j < n; ++j) {
      const double d = loss[j] - mean, d2 = d * d;
      variance += weight[j] * d2;
      fourth += weight[j] * d2 * d2;
    }
  }
  void Centre(double centre) {
    for (double& l : loss) l -= centre;
    mean -= centre;
    spread = 0;
    for (std::size_t j = 0; j < loss.size(); ++j) spread += weight[j] * std::abs(loss[j]);
  }
  double Error() const { return std::min(near_one, relative + kU * (4 + 3 * std::abs(log_moment))); }
  Cumulants AtCentre() const { return {log_moment, Error(), mean, variance}; }

  // log M(c) from M(c) − 1, where that is small.
  void NearOne(double less_1, double error) {
    if (!(std::abs(less_1) < 0.1)) return;
    log_moment = std::log1p(less_1);
    near_one = error * 1.2 + 4 * kU * std::abs(log_moment);
  }
  double near_one = kInf;
  std::vector<double> weight_error, loss_error;
};

// A quadrature on a path where e^{isL} falls as s grows: losses L_j − centre with Im L_j ≥ 0, and complex
// weights. It holds for all s ≥ 0 at once.
struct Line {
  struct Node {
    double re, im;  // L − centre
    double weight_re, weight_im, modulus;
    double loss_error, weight_error;  // the latter relative
    bool atom;  // L = 0 exactly
  };
  std::vector<Node> at;
  double error = 0;  // of the rule, and what was left out; for every s
};

// |ψ| ≤ rest + variation/s: the losses below some value have at most the probability `rest`, and those above
// it a density that varies by at most `variation`.
struct Split {
  double rest, variation;
};

// A family of quadratures, one for each tilt and each length of the line that it must resolve.
class Quadrature : public Loss {
 public:
  // The distance of the best path from the real line; 0 if there is none.
  virtual double BestLine(double /*c*/) const { return 0; }
  // The path at distance b, resolved to e^{−margin}, for M(c) as given.
  virtual bool FillLine(double /*c*/, const Cumulants& /*at*/, double /*b*/, double /*margin*/,
                        Line& /*out*/) const {
    return false;
  }
  virtual std::size_t NodesFor(double /*c*/, double /*s*/) const { return 0; }  // of Fill
  virtual std::vector<Split> Splits(double /*c*/, const Cumulants& /*at*/) const { return {}; }
  virtual bool Fill(double c, double s_max, Table&) const = 0;
  // Of the trapezoid rule with this step, relative to M(c), anywhere on [c, c + is].
  virtual double RuleError(double c, double step, double s) const = 0;
  // Sets floor, variation and atom.
  virtual void Decay(double c, double log_moment, TiltedLoss&) const = 0;
  Cumulants At(double t) const override {
    Table table;
    if (!Fill(t, 0, table)) return {kInf, kInf, 0, 0};
    Cumulants out = table.AtCentre();
    out.error += RuleError(t, table.step, 0);
    return out;
  }
  std::unique_ptr<TiltedLoss> Tilt(double c) const override;
};

class Tilted final : public TiltedLoss {
 public:
  Tilted(const Quadrature& family, double c) : family_(family), c_(c) {
    if (!family_.Fill(c, 0, table_)) {
      cumulants = {kInf, kInf, 0, 0};
      return;
    }
    cumulants = table_.AtCentre();
    cumulants.error += family_.RuleError(c, table_.step, 0);
    centre = table_.mean;
    table_.Centre(centre);
    family_.Decay(c, table_.log_moment - cumulants.error, *this);
  }
  double Characteristic(double h, std::size_t first, std::span<std::complex<double>> psi) override {
    const double start = h * static_cast<double>(first), end = h * static_cast<double>(first + psi.size());
    live_.clear();
    base_ = 0;
    double error = 0, size = 0, turns = 0;  // Σ of bounds of |weight·(e^{isL} − 1)|, and at s = h
    if (const Line* line = PreferredLine(end)) {
      error = 2 * line->error;
      for (const Line::Node& n : line->at) {
        const double left = n.modulus * std::exp(-start * n.im), loss = std::hypot(n.re, n.im);
        const double most = std::min(2.0, end * loss) * n.modulus;
        size += most, turns += std::min(2.0, h * loss) * n.modulus;
        error += most * n.weight_error + end * (n.loss_error + 4 * kU * loss) * left;
        if (left < 1e-22) {
          error += left * 1.01;
          base_ -= std::complex<double>(n.weight_re, n.weight_im);
        } else {
          live_.push_back({n.re, n.im, n.weight_re, n.weight_im});
        }
      }
      error += size * SumError(line->at.size());
    } else {
      if (!Resolve(end)) return kInf;
      const std::size_t n = table_.loss.size();
      for (std::size_t j = 0; j < n; ++j) {
        const double most = std::min(2.0, end * std::abs(table_.loss[j])) * table_.weight[j];
        size += most, turns += std::min(2.0, h * std::abs(table_.loss[j])) * table_.weight[j];
        error += most * table_.weight_error[j];
        live_.push_back({table_.loss[j], 0, table_.weight[j], 0});
      }
      // M(c) is off by `relative`, and so are all weights together; the rule enters twice, for M(c + is) and
      // M(c).
      error += size * (table_.relative + SumError(n)) + 2 * table_.missing + end * table_.phase +
               family_.RuleError(c_, table_.step, end) + family_.RuleError(c_, table_.step, 0) +
               4 * kU * end * (table_.spread + std::abs(centre));
    }
    Evaluate(h, first, psi);
    // A start is off by 12u of itself, the factor e^{ihL} − 1 likewise; a step adds 12u of the result, and
    // 51u of the factor, which enters with its own error and that of its product with the weight.
    return (error + kU * (size * (12 * kRestart + 16) + turns * 52 * kRestart)) * (1 + 1e-9);
  }
  double Smooth(double s) override {
    double best = variation / s;
    if (!split_) split_ = family_.Splits(c_, cumulants);
    for (const Split& at : *split_) best = std::min(best, at.rest + at.variation / s);
    // The nearer the path, the less is lost to its weights and the less falls: the best is between.
    double last = kInf;
    for (std::size_t k = 0; k < kMostLines; ++k) {
      const Line* line = LineNumber(k);
      if (line == nullptr) break;
      double sum = line->error;
      for (const Line::Node& n : line->at) {
        if (n.atom) continue;
        const double fall = std::max(0.0, n.im * (1 - 1e-9) - n.loss_error);
        sum += n.modulus * std::exp(-s * fall) * (1 + n.weight_error);
      }
      sum *= 1 + 1e-9;
      if (!(sum < last) || line->at.size() > (1U << 12)) break;
      last = sum;
      best = std::min(best, sum);
    }
    return best;
  }
  double Beyond(double s, double aim) override {
    const double direct = std::min(1.0, (floor + Smooth(s)) * (1 + 1e-12));
    // A small aim is reached by the plain bound a little further on; the walk would be long.
    if (direct <= aim || !(aim > floor + 0.3 * (1 - floor))) return direct;
    const double end = variation / (aim - floor) * 1.01;
    if (family_.RuleError(c_, walk_.step, end) > 4 * std::exp(-kMargin) || walk_.loss.empty()) {
      walk_ = Table();
      // Where there are paths they do better than a long walk.
      if (family_.NodesFor(c_, end) > (1U << (LineNumber(0) != nullptr ? 13 : 16))) return direct;
      if (!family_.Fill(c_, end, walk_) || walk_.loss.size() > (1U << 16)) return direct;
      walk_.Centre(centre);
    }
    // All of it for the measure of the table itself, whose moments are sums; then the error is added.
    const double error = RoundOff(walk_, end);
    const double sigma2 = walk_.variance;
    const Walk walk{.floor = floor,
                    .variation = variation,
                    .spread = std::sqrt(sigma2) * (1 + 1e-9),
                    .variance_lower = sigma2 * (1 - 1e-9),
                    .fourth = (2 * walk_.fourth + 6 * sigma2 * sigma2) * (1 + 1e-9),
                    .steps = 2000000 / static_cast<int>(walk_.loss.size() + 1000)};
    const double reached = WalkBeyond(walk, s, aim - error, [&](double at) {
      double r = 0, i = 0;
      for (std::size_t j = 0; j < walk_.loss.size(); ++j) {
        r += walk_.weight[j] * std::cos(at * walk_.loss[j]);
        i += walk_.weight[j] * std::sin(at * walk_.loss[j]);
      }
      return std::sqrt(r * r + i * i) + error;
    });
    return std::min(1.0, reached + error);
  }
  std::size_t size() const override { return active_ > 0 ? active_ : table_.loss.size(); }

 private:
  static constexpr std::size_t kMostLines = 4;
  // Paths at distance b, b/2, b/4, …
  const Line* LineNumber(std::size_t k) {
    while (lines_.size() <= k) {
      const double b = std::ldexp(family_.BestLine(c_), -static_cast<int>(lines_.size()));
      Line line;
      if (!(b > 0) || !family_.FillLine(c_, cumulants, b, lines_.empty() ? kMargin : 30, line))
        return nullptr;
      for (Line::Node& n : line.at) {
        n.loss_error += 2 * kU * (std::abs(n.re) + std::abs(centre));
        n.re -= centre;
      }
      lines_.push_back(std::move(line));
    }
    return &lines_[k];
  }
  // The path, where the real line would take more nodes.
  const Line* PreferredLine(double s) {
    if (family_.RuleError(c_, table_.step, s) <= 4 * std::exp(-kMargin)) return nullptr;
    const Line* line = LineNumber(0);
    return line != nullptr && family_.NodesFor(c_, s) > 2 * line->at.size() ? line : nullptr;
  }
  // Σ weight·(e^{isL} − 1) over `live_`: with d = e^{ihL} − 1, e^{i(s+h)L} − 1 = (e^{isL} − 1) + d + (e^{isL}
  // − 1)d.
  void Evaluate(double h, std::size_t first, std::span<std::complex<double>> psi) {
    const std::size_t n = live_.size(), padded = (n + kLanes - 1) / kLanes * kLanes;
    active_ = n;
    for (auto* v : {&re_, &im_, &turn_re_, &turn_im_, &add_re_, &add_im_}) v->assign(padded, 0);
    const auto less_1 = [](const Entry& e, double s) {
      const double half = std::sin(s * e.re / 2), sin = std::sin(s * e.re);
      if (e.im == 0) return std::complex<double>(-2 * half * half, sin);
      const double fall = std::expm1(-s * e.im);
      return std::complex<double>(fall * (1 - 2 * half * half) - 2 * half * half, (1 + fall) * sin);
    };
    const auto weighted = [](const Entry& e, std::complex<double> z) {
      return std::complex<double>(e.weight_re * z.real() - e.weight_im * z.imag(),
                                  e.weight_re * z.imag() + e.weight_im * z.real());
    };
    for (std::size_t j = 0; j < n; ++j) {
      const std::complex<double> d = less_1(live_[j], h), add = weighted(live_[j], d);
      turn_re_[j] = d.real(), turn_im_[j] = d.imag();
      add_re_[j] = add.real(), add_im_[j] = add.imag();
    }
    for (std::size_t k = 0; k < psi.size(); ++k) {
      if (k % kRestart == 0)
        for (std::size_t j = 0; j < n; ++j) {
          const std::complex<double> z =
              weighted(live_[j], less_1(live_[j], h * static_cast<double>(first + k)));
          re_[j] = z.real(), im_[j] = z.imag();
        }
      double sum_re[kLanes] = {}, sum_im[kLanes] = {};
      for (std::size_t j = 0; j < padded; j += kLanes)
        for (std::size_t l = 0; l < kLanes; ++l) {
          const double r = re_[j + l], i = im_[j + l], dr = turn_re_[j + l], di = turn_im_[j + l];
          sum_re[l] += r;
          sum_im[l] += i;
          re_[j + l] = r + (add_re_[j + l] + (r * dr - i * di));
          im_[j + l] = i + (add_im_[j + l] + (r * di + i * dr));
        }
      double r = 0, i = 0;
      for (std::size_t l = 0; l < kLanes; ++l) r += sum_re[l], i += sum_im[l];
      psi[k] = base_ + std::complex<double>(r, i);
    }
  }
  bool Resolve(double s) {
    if (family_.RuleError(c_, table_.step, s) <= 4 * std::exp(-kMargin)) return true;
    Table finer;
    if (!family_.Fill(c_, s * 1.25, finer)) return false;
    table_ = std::move(finer);
    table_.Centre(centre);
    return true;
  }
  double RoundOff(const Table& table, double s) const {
    return 2 * table.relative + s * table.phase + family_.RuleError(c_, table.step, s) +
           4 * kU * s * (table.spread + std::abs(centre)) + SumError(table.loss.size()) + 8 * kU;
  }
  const Quadrature& family_;
  double c_;
  Table table_, walk_;
  std::vector<Line> lines_;
  std::optional<std::vector<Split>> split_;
  struct Entry {
    double re, im, weight_re, weight_im;
  };
  std::vector<Entry> live_;
  std::complex<double> base_;  // of the nodes that are gone
  std::size_t active_ = 0;
  std::vector<double> re_, im_, turn_re_, turn_im_, add_re_, add_im_;
};

std::unique_ptr<TiltedLoss> Quadrature::Tilt(double c) const { return std::make_unique<Tilted>(*this, c); }

// ℓ(x) = log(1 − q + q e^y), y = μx − μ²/2, with a bound on its error, and p = dℓ/dy.
struct LogRatio {
  double value, error, p;
};
LogRatio Ratio(double q, double y) {
  LogRatio out{};
  const double t = q * std::expm1(y);
  if (y > 30) {
    out.value = y + std::log(q + (1 - q) * std::exp(-y));
  } else if (t > -0.5) {
    out.value = std::log1p(t);
  } else {
    out.value = std::log((1 - q) + q * std::exp(y));
  }
  out.p = y > 0 ? 1 / (1 + (1 - q) / q * std::exp(-y)) : q * std::exp(y) / ((1 - q) + q * std::exp(y));
  out.error = kU * (16 * std::abs(out.value) + (y > 30 ? 8 : 0) + 3 * out.p * std::abs(y));
  return out;
}

// ℓ(x + ib) = log(1 − q + q e^{y + iθ}), θ = μb < π/2; `error` of its modulus.
struct LogRatioOnLine {
  double re, im, error;
};
LogRatioOnLine RatioOnLine(double q, double y, double theta) {
  LogRatioOnLine out{};
  const double cos = std::cos(theta), sin = std::sin(theta);
  double p = 0, modulus = 1, charge = 0;  // |dℓ/dy|, |1 − q + q e^{y + iθ}|
  if (y > 30) {
    const double fall = (1 - q) * std::exp(-y), re = q + fall * cos, im = fall * sin;
    out.re = y + 0.5 * std::log(re * re + im * im);
    out.im = theta - std::atan2(im, re);
    p = q / std::sqrt(re * re + im * im);
    charge = 12;
  } else {
    const double grown = q * std::exp(y), half = std::sin(theta / 2);
    const double t = q * std::expm1(y) * cos - 2 * q * half * half, u = grown * sin;
    double square = t * (2 + t) + u * u;
    if (square > -0.5) {
      out.re = 0.5 * std::log1p(square);
      modulus = std::sqrt(1 + square);
      out.im = std::atan2(u, 1 + t);
    } else {
      const double re = (1 - q) + grown * cos;  // no cancellation
      square = re * re + u * u;
      out.re = 0.5 * std::log(square);
      modulus = std::sqrt(square);
      out.im = std::atan2(u, re);
      charge = 12;
    }
    p = grown / modulus;
    charge += 20 * q / modulus;
  }
  // t and u are off by (2|y| + 8)u of q e^y and 4u of q, 2t + t² + u² by 3u of its terms.
  out.error = kU * (16 * (std::abs(out.re) + out.im) + (24 + 4 * std::abs(y)) * p + charge);
  return out;
}

// Few bits, so that multiples are exact; not above x.
double Coarse(double x) {
  int e = 0;
  const double m = std::frexp(x, &e);
  return std::ldexp(std::floor(m * 1024) / 1024, e);
}

// ---- Rounding to a grid.

// The masses under Q = N(0, 1) and P = e^ℓ Q of an interval of x, and ∫ (e^ℓ − e^low) dQ without
// cancellation, by Gauss and Legendre's rule of 8 points on pieces so short that it is good to 1e-13.
struct CellMass {
  double p = 0, q = 0, excess = 0;
  void operator+=(const CellMass& o) { p += o.p, q += o.q, excess += o.excess; }
};
CellMass Integrate(double rate, double mu, double from, double to, double low) {
  static constexpr double kNode[4] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267,
                                      0.9602898564975363};
  static constexpr double kWeight[4] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745,
                                        0.1012285362903763};
  CellMass out;
  const double longest = std::min(0.25, 0.2 / mu);
  const double pieces = std::max(1.0, std::ceil((to - from) / longest)), half = (to - from) / pieces / 2;
  for (double i = 0; i < pieces; ++i) {
    const double centre = from + half * (2 * i + 1);
    for (int k = 0; k < 8; ++k) {
      const double x = centre + (k < 4 ? half : -half) * kNode[k % 4];
      // In logarithms: for a large μ the density under Q underflows where P has its mass.
      const double w = kWeight[k % 4] * half * 0.3989422804014327;
      const double l = Ratio(rate, mu * (x - mu / 2)).value;
      out.q += w * std::exp(-x * x / 2);
      out.p += w * std::exp(l - x * x / 2);
      out.excess += w * std::exp(low - x * x / 2) * std::expm1(l - low);
    }
  }
  return out;
}

// Where ℓ reaches a value, and the x beyond which nothing is counted.
constexpr double kFarthest = 13;  // Φ(−13) < 7e-39
double Inverse(double q, double mu, double l) {
  // e^l − 1 = q (e^y − 1); the second form where e^l would overflow.
  const double e = std::expm1(std::min(l, 30.0));
  if (!(e > -q)) return -kFarthest;
  const double y = l < 30 ? std::log1p(e / q) : l - std::log(q) + std::log1p(-(1 - q) * std::exp(-l));
  return std::clamp(y / mu + mu / 2, -kFarthest, kFarthest + mu);
}

// At least Q(x > end) and P(x > end).
double Tail(double end) { return 0.5 * std::erfc(end * M_SQRT1_2) * (1 + 1e-9); }
double TailP(double q, double mu, double end) { return (1 - q) * Tail(end) + q * Tail(end - mu); }

constexpr double kMostCells = 1 << 22;

// The losses ±ℓ(x) of x in [start, end]: `forward` gives ℓ under P, `mirrored` −ℓ under Q; with an atom at 0.
// Beyond `end` nothing is counted; above, its probability counts as that of an infinite loss.
std::optional<GridMass> RoundToGrid(double q, double mu, double start, double end, bool forward,
                                    bool mirrored, double atom, double step, bool upper) {
  const double l_low = Ratio(q, mu * (start - mu / 2)).value, l_high = Ratio(q, mu * (end - mu / 2)).value;
  const double most = std::max(std::abs(l_low), std::abs(l_high));
  if (!(most / step < kMostCells)) return std::nullopt;
  const auto n = static_cast<std::ptrdiff_t>(std::ceil(most / step)) + 2;
  GridMass out;
  out.first = -n;
  out.mass.assign(static_cast<std::size_t>(2 * n + 1), 0.0);
  out.error = 1e-12;
  if (upper) out.infinite = 1e-37 + (forward ? TailP(q, mu, end) : 0) + (mirrored ? Tail(end) : 0);
  const auto at = [&](std::ptrdiff_t j) -> double& { return out.mass[static_cast<std::size_t>(n + j)]; };
  if (upper) {
    // Cells [j, j + 1): to the upper end what keeps Q, with a little more for rounding.
    const double unit = -std::expm1(-step);
    for (auto j = static_cast<std::ptrdiff_t>(std::floor(l_low / step));; ++j) {
      const double low = step * static_cast<double>(j), high = low + step;
      const double from = std::max(start, Inverse(q, mu, low)), to = std::min(end, Inverse(q, mu, high));
      if (low > l_high) break;
      if (!(to > from)) continue;
      const CellMass m = Integrate(q, mu, from, to, low);
      if (forward) {
        const double above = std::clamp(m.excess / unit * (1 + 1e-8), 0.0, m.p);
        at(j + 1) += above;
        at(j) += m.p - above;
      }
      if (mirrored) {
        // Losses −high … −low under Q: to −low what keeps P, (Q − P e^{−high})/(1 − e^{−step}).
        const double below = std::clamp(m.excess * std::exp(-low) / std::expm1(step) * (1 - 1e-8), 0.0, m.q);
        at(-j - 1) += below;
        at(-j) += m.q - below;
      }
    }
    at(0) += atom;
    // Mass that got lost would make the bound too low.
    const double total = std::accumulate(out.mass.begin(), out.mass.end(), 0.0);
    if (!(std::abs(total + out.infinite - 1) < 1e-9)) return std::nullopt;
    return out;
  }
  // Two bounds from below, of which the one with the larger mean is kept.
  GridMass centred = out;
  // Cells around j: the point log(P/Q), or log(Q/P), keeps both; it is at most `shift` below j, else the mass
  // goes to j − 1.
  struct Piece {
    std::ptrdiff_t j;
    double mass, gap;
  };
  std::vector<Piece> pieces;
  for (auto j = static_cast<std::ptrdiff_t>(std::floor(l_low / step)) - 1;; ++j) {
    const double low = step * (static_cast<double>(j) - 0.5), high = low + step;
    if (low > l_high) break;
    const double from = std::max(start, Inverse(q, mu, low)), to = std::min(end, Inverse(q, mu, high));
    if (!(to > from)) continue;
    const CellMass m = Integrate(q, mu, from, to, low);
    if (!(m.q > 1e-300 && m.p > 1e-300)) continue;
    const double point = low + std::log1p(m.excess * std::exp(-low) / m.q),
                 slack = 1e-9 * step + 8 * kU * std::abs(low);
    if (forward) pieces.push_back({j, m.p, step * static_cast<double>(j) - point + slack});
    if (mirrored) pieces.push_back({-j, m.q, point - step * static_cast<double>(j) + slack});
  }
  if (atom > 0) pieces.push_back({0, atom, 0});
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.gap > b.gap; });
  double moved = 0, best = kInf;
  for (const Piece& p : pieces) {
    const double gap = std::max(0.0, p.gap);
    if (const double cost = gap + step * moved; cost < best) best = cost, centred.shift = gap;
    moved += p.mass;
    if (p.gap < 0) break;
  }
  centred.mass.assign(out.mass.size(), 0.0);
  for (const Piece& p : pieces)
    centred.mass[static_cast<std::size_t>(n + (p.gap <= centred.shift ? p.j : p.j - 1))] += p.mass;
  // Cells [j, j + 1) again, with their excess P − e^{low} Q over the loss of the lower end, and what they
  // lack to that of the upper, e^{high} Q − P. A share of the cell goes to the upper end and the rest to the
  // lower; a point is good if what came from above it makes up for what came from below. What cannot be made
  // up for goes to the lower end instead.
  struct Cell {
    double mass = 0, excess = 0, lack = 0;
  };
  std::vector<Cell> cells(out.mass.size());
  for (auto j = static_cast<std::ptrdiff_t>(std::floor(l_low / step));; ++j) {
    const double low = step * static_cast<double>(j), high = low + step;
    if (low > l_high) break;
    const double from = std::max(start, Inverse(q, mu, low)), to = std::min(end, Inverse(q, mu, high));
    if (!(to > from)) continue;
    const CellMass m = Integrate(q, mu, from, to, low);
    const auto add = [&](std::ptrdiff_t at_cell, double mass, double excess, double lack) {
      const double slack = 1e-8 * (std::abs(excess) + std::abs(lack));  // for rounding
      Cell& cell = cells[static_cast<std::size_t>(n + at_cell)];
      cell.mass += mass;
      cell.excess += std::max(0.0, excess - slack);
      cell.lack += std::max(0.0, lack) + slack;
    };
    if (forward) add(j, m.p, m.excess, std::exp(low) * std::expm1(step) * m.q - m.excess);
    if (mirrored)
      add(-j - 1, m.q, -std::expm1(-step) * m.q - std::exp(-high) * m.excess, std::exp(-low) * m.excess);
  }
  double lack = 0, share = 0;  // of the cell before: all that it lacks, and the share that went up
  std::size_t before = 0;
  for (std::size_t i = 1; i + 1 < cells.size(); ++i) {
    const Cell& cell = cells[i];
    const double down = share * lack <= cell.excess ? (cell.excess > 0 ? share * lack / cell.excess : 0) : 1;
    const double up = share * lack <= cell.excess ? share : cell.excess / lack;
    out.mass[before] += (1 - up) * cells[before].mass;
    out.mass[before + 1] += up * cells[before].mass;
    before = i, lack = cell.lack, share = 1 - down;
  }
  out.mass[before] += cells[before].mass;
  at(0) += atom;
  const auto mean = [&](const GridMass& m) {
    double sum = 0;
    for (std::size_t i = 0; i < m.mass.size(); ++i)
      sum += m.mass[i] * (step * static_cast<double>(m.first + static_cast<std::ptrdiff_t>(i)) - m.shift);
    return sum;
  };
  return mean(centred) > mean(out) ? centred : out;
}

// The sampled Gaussian's loss without its rare large values; see Loss::Capped. `start`, `forward`, `mirrored`
// and `atom` as in RoundToGrid. For a unit that is added these are far below 0, and only make the grid long.
class CappedLoss final : public Loss {
 public:
  CappedLoss(double q, double mu, double start, double end, bool forward, bool mirrored, double atom)
      : q_(q), mu_(mu), start_(start), end_(end), forward_(forward), mirrored_(mirrored), atom_(atom) {}
  // nullptr if the end is that of the whole.
  static std::shared_ptr<const Loss> Make(double q, double mu, double start, bool forward, bool mirrored,
                                          double atom, double probability) {
    double low = std::max(start, 0.0), high = kFarthest + mu;
    const auto beyond = [&](double x) { return (forward ? TailP(q, mu, x) : 0) + (mirrored ? Tail(x) : 0); };
    if (!(probability > beyond(high)) || !(low < high)) return nullptr;
    for (int i = 0; i < 40; ++i) {
      const double middle = (low + high) / 2;
      (beyond(middle) > probability ? low : high) = middle;
    }
    return std::make_shared<CappedLoss>(q, mu, start, high, forward, mirrored, atom);
  }
  std::optional<GridMass> OnGrid(double step, bool upper) const override {
    return RoundToGrid(q_, mu_, start_, end_, forward_, mirrored_, atom_, step, upper);
  }
  Cumulants At(double t) const override {
    struct Part {
      double log_weight, loss;
    };
    std::vector<Part> parts;
    const double n = std::ceil((end_ - start_) / 0.02), step = (end_ - start_) / n;
    double scale = atom_ > 0 ? std::log(atom_) : -kInf;
    if (atom_ > 0) parts.push_back({scale, 0});
    const auto add = [&](double log_weight, double loss) {
      parts.push_back({log_weight, loss});
      scale = std::max(scale, log_weight);
    };
    for (double j = 0; j < n; ++j) {
      const double x = start_ + step * (j + 0.5), l = Ratio(q_, mu_ * (x - mu_ / 2)).value;
      const double base = -x * x / 2 + std::log(step * 0.3989422804014327);
      if (forward_) add(base + (1 + t) * l, l);
      if (mirrored_) add(base - t * l, -l);
    }
    double sum = 0, mean = 0, variance = 0;
    for (Part& p : parts) sum += p.log_weight = std::exp(p.log_weight - scale);
    for (const Part& p : parts) mean += p.log_weight / sum * p.loss;
    for (const Part& p : parts) variance += p.log_weight / sum * (p.loss - mean) * (p.loss - mean);
    return {scale + std::log(sum), kInf, mean, variance};
  }
  std::unique_ptr<TiltedLoss> Tilt(double) const override { return std::make_unique<None>(); }

 private:
  struct None final : TiltedLoss {
    None() { cumulants = {kInf, kInf, 0, 0}; }
    double Characteristic(double, std::size_t, std::span<std::complex<double>>) override { return kInf; }
    double Beyond(double, double) override { return 1; }
  };
  double q_, mu_, start_, end_;
  bool forward_, mirrored_;
  double atom_;
};

// An integrand that is analytic in a strip around the real line, |Im x| < MostB().
class StripQuadrature : public Quadrature {
 public:
  double RuleError(double c, double step, double s) const override {
    double best = 0;
    for (double b = MostB(), i = 0; i < 14; b *= M_SQRT1_2, ++i)
      best = std::max(best, 2 * M_PI * b / step - Growth(c, s, b));
    return best < 1 ? kInf : 4 * std::exp(-best);
  }
  // Between the real line and the line at 2b the integrand grows by no more than Growth(c, 0, 2b), however
  // large s is; the weights by Growth(c, 0, b), which is kept small for the sake of round-off.
  double BestLine(double c) const override {
    double best = 0, at = 0;
    for (double b = MostB() / 2, i = 0; i < 24; b *= M_SQRT1_2, ++i)
      if (const double step = LineStep(c, b, kMargin); Growth(c, 0, b) <= 1 && step > best)
        best = step, at = b;
    return at;
  }

 protected:
  double LineStep(double c, double b, double margin) const {
    return 2 * M_PI * b / (margin + Growth(c, 0, 2 * b));
  }
  double LineError(double c, double b, double step) const {
    return 4 * std::exp(Growth(c, 0, 2 * b) - 2 * M_PI * b / step);
  }
  double BestStep(double c, double s) const {
    double best = 0;
    for (double b = MostB(), i = 0; i < 14; b *= M_SQRT1_2, ++i)
      best = std::max(best, 2 * M_PI * b / (kMargin + Growth(c, s, b)));
    return best;
  }

  // ∫|integrand(x + ib)| ≤ e^{growth} M(c).
  virtual double Growth(double c, double s, double b) const = 0;
  virtual double MostB() const = 0;
};

// The two directions of Poisson sampling: M(z) = ∫ φ(x) e^{aℓ(x)} dx with a = 1 + z or a = −z.
class PoissonLoss final : public StripQuadrature {
 public:
  PoissonLoss(double q, double mu, bool remove) : q_(q), mu_(mu), remove_(remove) {}
  bool Fill(double c, double s_max, Table& out) const override {
    const double a = remove_ ? 1 + c : -c;
    const double step = Coarse(BestStep(c, s_max));
    const auto [low, high] = Ends(c);
    if (!((high - low) / step < static_cast<double>(kMostNodes))) return false;
    const auto first = static_cast<std::ptrdiff_t>(std::floor(low / step)) - 1;
    const auto last = static_cast<std::ptrdiff_t>(std::ceil(high / step)) + 1;
    const auto n = static_cast<std::size_t>(last - first + 1);
    std::vector<double> log_weight(n);
    std::vector<LogRatio> ratio(n);
    double scale = -kInf;
    for (std::size_t j = 0; j < n; ++j) {
      const double x = static_cast<double>(first + static_cast<std::ptrdiff_t>(j)) * step;
      ratio[j] = Ratio(q_, mu_ * (x - mu_ / 2));
      log_weight[j] = -x * x / 2 + a * ratio[j].value;
      scale = std::max(scale, log_weight[j]);
    }
    double pruned = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const double x = static_cast<double>(first + static_cast<std::ptrdiff_t>(j)) * step;
      const double l = log_weight[j] - scale;
      if (l < kPruned) {
        pruned += std::exp(l);
        continue;
      }
      const LogRatio& r = ratio[j];
      out.weight.push_back(std::exp(l));
      out.loss.push_back(remove_ ? r.value : -r.value);
      out.weight_error.push_back(std::abs(a) * r.error +
                                 kU * (2 * x * x + 3 * std::abs(a * r.value) + std::abs(l) + 6));
      out.loss_error.push_back(r.error);
    }
    // M − 1 = ∫ φ (e^{aℓ} − 1): relative to what is summed, the rule's error for φ and for φe^{aℓ} apart.
    double less_1 = 0, less_1_error = 0;
    if (std::abs(scale) < 0.1) {
      for (std::size_t j = 0; j < n; ++j) {
        const double x = static_cast<double>(first + static_cast<std::ptrdiff_t>(j)) * step;
        const double w = std::exp(-x * x / 2) * step * 0.3989422804014327, e = std::expm1(a * ratio[j].value);
        // φ may underflow where e^{aℓ} overflows.
        const double large = std::exp(log_weight[j]) * step * 0.3989422804014327;
        const double size = e < 1e15 ? w * std::abs(e) : large;
        less_1 += e < 1e15 ? w * e : large;
        less_1_error += size * kU * (2 * x * x + 16 + static_cast<double>(n)) +
                        (w + size) * std::abs(a) * (ratio[j].error + 4 * kU * std::abs(ratio[j].value));
      }
      // Beyond the ends φ is below 1e-32 and the integrand below its own bound.
      less_1_error +=
          4 * std::exp(-kMargin) + 1e-31 + (std::exp(log_weight.front()) + std::exp(log_weight.back())) / 6;
    }
    // Outside the nodes: w(end)/12 as an integral, hence divided by the step.
    const double ends = (std::exp(log_weight.front() - scale) + std::exp(log_weight.back() - scale)) / 12;
    out.step = step;
    out.Normalise(scale, 1.01 * (pruned + 2 * ends / step), std::log(step) - 0.5 * std::log(2 * M_PI));
    if (std::abs(scale) < 0.1) out.NearOne(less_1, less_1_error);
    return true;
  }
  bool FillLine(double c, const Cumulants& moment, double b, double margin, Line& out) const override {
    const double a = remove_ ? 1 + c : -c, theta = mu_ * b;
    const double step = Coarse(LineStep(c, b, margin));
    const auto [low, high] = Ends(c);
    if (!((high - low) / step < 1 << 15)) return false;
    const auto first = static_cast<std::ptrdiff_t>(std::floor(low / step)) - 1;
    const auto last = static_cast<std::ptrdiff_t>(std::ceil(high / step)) + 1;
    const double constant = std::log(step) - 0.5 * std::log(2 * M_PI) - moment.value;
    double missing = 0;
    for (std::ptrdiff_t j = first; j <= last; ++j) {
      const double x = static_cast<double>(j) * step;
      const LogRatioOnLine r = RatioOnLine(q_, mu_ * (x - mu_ / 2), theta);
      const double log_modulus = (b * b - x * x) / 2 + a * r.re + constant;
      const double modulus = std::exp(log_modulus);
      if (log_modulus < kPruned) {
        missing += modulus;
        continue;
      }
      // The other direction takes the conjugate path, and L = −ℓ.
      const double phase = (remove_ ? 1 : -1) * (a * r.im - x * b);
      out.at.push_back(
          {.re = remove_ ? r.re : -r.re,
           .im = r.im,
           .weight_re = modulus * std::cos(phase),
           .weight_im = modulus * std::sin(phase),
           .modulus = modulus,
           .loss_error = r.error,
           .weight_error = std::abs(a) * r.error + moment.error +
                           kU * (3 * (x * x + b * b + std::abs(a * r.re) + std::abs(constant)) +
                                 3 * (std::abs(a * r.im) + std::abs(x * b)) + std::abs(log_modulus) + 16),
           .atom = false});
    }
    // Outside the nodes as in Fill, and on the path more by the growth of the weights.
    const auto end = [&](std::ptrdiff_t j) {
      const double x = static_cast<double>(j) * step;
      return std::exp(-x * x / 2 + a * Ratio(q_, mu_ * (x - mu_ / 2)).value + constant - std::log(step)) / 12;
    };
    missing += 2 * (end(first) + end(last)) * std::exp(Growth(c, 0, b));
    out.error = LineError(c, b, step) * (1 + moment.error) + 1.01 * missing;
    return true;
  }
  std::size_t NodesFor(double c, double s) const override {
    const auto [low, high] = Ends(c);
    return static_cast<std::size_t>(std::min(1e9, (high - low) / BestStep(c, s)));
  }
  std::optional<GridMass> OnGrid(double step, bool upper) const override {
    return RoundToGrid(q_, mu_, -kFarthest, kFarthest + mu_, remove_, !remove_, 0, step, upper);
  }
  std::shared_ptr<const Loss> Capped(double probability) const override {
    return CappedLoss::Make(q_, mu_, -kFarthest, remove_, !remove_, 0, probability);
  }
  // The density of the tilted loss is f = φ e^{aℓ}/ℓ′ with (log f)′ = −x − μ + (a + 1) μ p(x): zero at most
  // three times, between −μ and aμ, so that f has at most two peaks and varies by 4 sup f at most.
  void Decay(double c, double log_moment, TiltedLoss& out) const override {
    const double a = remove_ ? 1 + c : -c;
    out.floor = 0;
    out.variation =
        4 * std::exp(LogPeak(q_, mu_, a, std::min(-mu_, a * mu_), std::max(-mu_, a * mu_)) - log_moment) *
        (1 + 1e-9);
  }
  // With little noise and a small rate most losses are tiny and their density is huge, and those of the
  // rounds with the unit are far above. The latter have at least the mass of e^ℓ ≥ q e^y, a Gaussian's.
  std::vector<Split> Splits(double c, const Cumulants& moment) const override {
    std::vector<Split> out;
    if (!remove_) return out;
    const double a = 1 + c, constant = a * std::log(q_) + a * c / 2 * mu_ * mu_ - moment.value;
    const double size = a * std::abs(std::log(q_)) + a * a * mu_ * mu_ + std::abs(moment.value);
    const double slack = std::expm1(moment.error + 16 * kU * size) + 1e-9;
    for (const double k : {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0}) {
      const double x = a * mu_ - k;  // losses above ℓ(x); beyond aμ the density falls
      const double above = 0.5 * std::erfc(-k * M_SQRT1_2) * std::exp(constant) * (1 - slack);
      const double peak = 4 * std::exp(LogPeak(q_, mu_, a, std::max(x, -mu_), a * mu_) - moment.value);
      if (above > 0 && above < 1) out.push_back({1 - above + 8 * kU, peak * (1 + slack)});
    }
    return out;
  }
  // At least sup log f on [low, high], log f = −x²/2 + (a + 1)ℓ − y + constants. For a ≤ −1 it is concave: at
  // most its tangent at the last point before the top. Otherwise (log f)″ ≥ −1, so that a chord is passed by
  // d²/8.
  static double LogPeak(double q, double mu, double a, double low, double high) {
    const auto at = [&](double x) {
      const double y = mu * (x - mu / 2);
      return -x * x / 2 + (a + 1) * Ratio(q, y).value - y;
    };
    const double constant = -std::log(q) - std::log(mu) - 0.5 * std::log(2 * M_PI);
    if (a <= -1) {
      const auto slope = [&](double x) { return -x - mu + (a + 1) * mu * Ratio(q, mu * (x - mu / 2)).p; };
      if (slope(low) <= 0) return at(low) + constant;
      for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        (slope(middle) > 0 ? low : high) = middle;
      }
      return at(low) + std::abs(slope(low)) * (high - low) + constant;
    }
    const double n = std::ceil(std::min(5000.0, (high - low) * 10 + 1)), d = (high - low) / n;
    double best = -kInf;
    for (double j = 0; j <= n; ++j) best = std::max(best, at(low + d * j));
    return best + d * d / 8 + constant;
  }

 private:
  // Beyond these ends the integrand falls at least like a Gaussian's tail at distance 12.
  std::pair<double, double> Ends(double c) const {
    double low = -12, high = 12;
    if (remove_) {
      high += (1 + c) * mu_;
    } else {
      while (-low - c * mu_ * Ratio(q_, mu_ * (low - mu_ / 2)).p < 12) low -= 6 + 0.25 * -low;
    }
    return {low, high};
  }
  double Growth(double c, double s, double b) const override {
    return b * b / 2 + s * mu_ * b + (remove_ ? 0 : -c * std::log(std::cos(mu_ * b / 2)));
  }
  double MostB() const override { return std::min(0.95 * M_PI / mu_, 9.2); }
  double q_, mu_;
  bool remove_;
};

// Substitution: x = μ/2 + u, u = log(1 + e^t), and the trapezoid rule in t.
//   M(z) = p₀ + ∫₀^∞ φ(μ/2 + u) (e^{(1+z)ℓ} + e^{−zℓ}) du,  p₀ = (1 − q)(2Φ(μ/2) − 1).
class SubstitutedLoss final : public StripQuadrature {
 public:
  SubstitutedLoss(double q, double mu) : q_(q), mu_(mu), atom_((1 - q) * std::erf(mu / 2 * M_SQRT1_2)) {}
  bool Fill(double c, double s_max, Table& out) const override {
    const double step = Coarse(BestStep(c, s_max));
    const double low = -48, high = (1 + c) * mu_ + 12;
    if (!((high - low) / step < static_cast<double>(kMostNodes) / 2)) return false;
    const auto first = static_cast<std::ptrdiff_t>(std::floor(low / step)) - 1;
    const auto last = static_cast<std::ptrdiff_t>(std::ceil(high / step)) + 1;
    const auto n = static_cast<std::size_t>(last - first + 1);
    struct Node {
      double base, u, plus, minus;
      LogRatio r;
    };
    std::vector<Node> nodes(n);
    const double log_atom = std::log(atom_) - std::log(step) + 0.5 * std::log(2 * M_PI);
    double scale = log_atom;
    for (std::size_t j = 0; j < n; ++j) {
      const double t = static_cast<double>(first + static_cast<std::ptrdiff_t>(j)) * step;
      Node& at = nodes[j];
      at.u = t > 0 ? t + std::log1p(std::exp(-t)) : std::log1p(std::exp(t));
      const double x = mu_ / 2 + at.u;
      at.r = Ratio(q_, mu_ * at.u);
      at.base = -x * x / 2 + (t > 0 ? -std::log1p(std::exp(-t)) : t - std::log1p(std::exp(t)));
      at.plus = at.base + (1 + c) * at.r.value;
      at.minus = at.base - c * at.r.value;
      scale = std::max({scale, at.plus, at.minus});
    }
    double missing = 0;
    const auto add = [&](double log_weight, double loss, double loss_error, double weight_error) {
      const double l = log_weight - scale;
      if (l < kPruned) {
        missing += std::exp(l);
        return;
      }
      out.weight.push_back(std::exp(l));
      out.loss.push_back(loss);
      out.weight_error.push_back(weight_error + kU * (std::abs(l) + 6));
      out.loss_error.push_back(loss_error);
    };
    if (atom_ > 0) add(log_atom, 0, 0, kU * (16 + 2 * std::abs(log_atom)));
    for (const Node& at : nodes) {
      const double x = mu_ / 2 + at.u;
      // u has 4u of itself: x²/2 moves by x·u, ℓ by ℓ′u.
      const double error = at.r.error + 4 * kU * at.r.p * mu_ * at.u;
      const double common = kU * (3 * x * x + 4 * x * at.u + 2 * std::abs(at.base) + 8);
      add(at.plus, at.r.value, error, common + (1 + c) * (error + 3 * kU * at.r.value));
      add(at.minus, -at.r.value, error, common + c * (error + 3 * kU * at.r.value));
    }
    // Beyond the ends: 2w/12 at the top as in Poisson sampling, at the bottom a geometric sum of e^t.
    const double top = std::exp(nodes.back().plus - scale) + std::exp(nodes.back().minus - scale);
    const double bottom = std::exp(nodes.front().plus - scale) + std::exp(nodes.front().minus - scale);
    missing += top / 6 / step * 1.01 + bottom * 2 * (1 + 1 / step);
    out.step = step;
    out.Normalise(scale, 1.01 * missing, std::log(step) - 0.5 * std::log(2 * M_PI));
    return true;
  }
  std::optional<GridMass> OnGrid(double step, bool upper) const override {
    return RoundToGrid(q_, mu_, mu_ / 2, kFarthest + mu_, true, true, atom_, step, upper);
  }
  std::shared_ptr<const Loss> Capped(double probability) const override {
    return CappedLoss::Make(q_, mu_, mu_ / 2, true, true, atom_, probability);
  }
  std::size_t NodesFor(double c, double s) const override {
    return static_cast<std::size_t>(std::min(1e9, 2 * ((1 + c) * mu_ + 60) / BestStep(c, s)));
  }
  void Decay(double c, double log_moment, TiltedLoss& out) const override {
    out.atom = atom_ * std::exp(-out.cumulants.value);
    out.atom_error = out.cumulants.error + 24 * kU;
    out.floor = out.atom * (1 + out.atom_error) * (1 + 4 * kU);
    const auto peak = [&](double a) {
      return 4 * std::exp(PoissonLoss::LogPeak(q_, mu_, a, mu_ / 2, std::max(mu_ / 2, a * mu_)) - log_moment);
    };
    out.variation = (peak(1 + c) + peak(-c)) * (1 + 1e-9);
  }

 private:
  double Growth(double c, double s, double b) const override {
    return b * b / 2 + s * mu_ * b - c * std::log(std::cos(mu_ * b / 2)) - std::log(std::cos(b));
  }
  double MostB() const override { return std::min(0.95 * M_PI / mu_, 1.5); }
  double q_, mu_, atom_;
};

class LatticeQuadrature final : public Quadrature {
 public:
  explicit LatticeQuadrature(LatticeLoss lattice) : lattice_(std::move(lattice)) {}
  bool Fill(double c, double, Table& out) const override {
    double scale = -kInf;
    const auto loss = [&](std::size_t k) {
      return lattice_.step * (lattice_.first + static_cast<double>(k));
    };
    for (std::size_t k = 0; k < lattice_.mass.size(); ++k)
      if (lattice_.mass[k] > 0) scale = std::max(scale, std::log(lattice_.mass[k]) + c * loss(k));
    double missing = 0;
    for (std::size_t k = 0; k < lattice_.mass.size(); ++k) {
      if (!(lattice_.mass[k] > 0)) continue;
      const double log_mass = std::log(lattice_.mass[k]), l = log_mass + c * loss(k) - scale;
      if (l < kPruned) {
        missing += std::exp(l);
        continue;
      }
      const double error = 0x1p-51 * std::abs(loss(k)) * 1.5;
      out.weight.push_back(std::exp(l));
      out.loss.push_back(loss(k));
      out.loss_error.push_back(error);
      out.weight_error.push_back(lattice_.mass_error + c * error +
                                 kU * (2 * std::abs(log_mass) + 3 * std::abs(c * loss(k)) + std::abs(l) + 6));
    }
    out.Normalise(scale, 1.01 * missing, 0);
    return true;
  }
  double RuleError(double, double, double) const override { return 0; }
  void Decay(double, double, TiltedLoss&) const override {}

 private:
  LatticeLoss lattice_;
};

// M(z) = ½e^{zε} + ½e^{−(1+z)ε} + e^{−ε/2} (ε/2) sinh(w)/w,  w = (z + ½)ε.
class LaplaceTilted final : public TiltedLoss {
 public:
  LaplaceTilted(double epsilon, double c) : epsilon_(epsilon), a_((c + 0.5) * epsilon) {
    const double at_zero = Scaled(0).real();
    scaled_ = at_zero;
    cumulants.value = c * epsilon + std::log(at_zero);
    cumulants.error = kU * (24 + 4 * c * epsilon);
    floor = (0.5 + 0.5 * std::exp(-2 * a_)) / at_zero * (1 + 1e-12);
    variation = 0.5 / at_zero * (1 + 1e-12);
    // Moments of L/ε by Simpson's rule over the density e^{a(x − 1)}ε/4 on (−1, 1), for steering and, with
    // slack, for the walk.
    const int n = 64 + 8 * static_cast<int>(std::min(a_, 500.0));
    const auto moments = [&](double about, int power) {
      double sum = 0.5 * std::pow(1 - about, power) + 0.5 * std::exp(-2 * a_) * std::pow(-1 - about, power);
      for (int i = 0; i <= 2 * n; ++i) {
        const double x = -1 + static_cast<double>(i) / n;
        const double simpson = (i == 0 || i == 2 * n ? 1 : i % 2 == 1 ? 4 : 2) / (3.0 * n);
        sum += simpson * std::pow(x - about, power) * std::exp(a_ * (x - 1)) * epsilon / 4;
      }
      return sum / at_zero;
    };
    const double mean = moments(0, 1);
    centre = mean * epsilon;
    cumulants.first = centre;
    cumulants.second = moments(mean, 2) * epsilon * epsilon;
    fourth_ = moments(mean, 4) * epsilon * epsilon * epsilon * epsilon;
  }
  double Characteristic(double h, std::size_t first, std::span<std::complex<double>> psi) override {
    for (std::size_t k = 0; k < psi.size(); ++k) psi[k] = Psi(h * static_cast<double>(first + k)) - 1.0;
    return Error(h * static_cast<double>(first + psi.size()));
  }
  double Beyond(double s, double aim) override {
    const double v = cumulants.second;
    const Walk walk{.floor = floor,
                    .variation = variation,
                    .spread = std::sqrt(v) * 1.01,
                    .variance_lower = v * 0.99,
                    .fourth = (2 * fourth_ + 6 * v * v) * 1.01,
                    .steps = 4000};
    return WalkBeyond(walk, s, aim, [&](double at) { return std::abs(Psi(at)) + Error(at); });
  }

 private:
  std::complex<double> Scaled(double s) const {  // M(z) e^{−cε}
    const double b = s * epsilon_, fall = std::exp(-2 * a_);
    const std::complex<double> sinh(-std::expm1(-2 * a_) / 2 * std::cos(b), (1 + fall) / 2 * std::sin(b));
    return 0.5 * std::polar(1.0, b) + 0.5 * fall * std::polar(1.0, -b) +
           epsilon_ / 2 * sinh / std::complex<double>(a_, b);
  }
  std::complex<double> Psi(double s) const { return Scaled(s) / scaled_ * std::polar(1.0, -s * centre); }
  double Error(double s) const { return kU * (48 + 8 * s * epsilon_ + 8 * a_); }
  double epsilon_, a_, scaled_ = 1, fourth_ = 0;
};
class LaplaceMechanismLoss final : public Loss {
 public:
  explicit LaplaceMechanismLoss(double epsilon) : epsilon_(epsilon) {}
  Cumulants At(double t) const override { return LaplaceTilted(epsilon_, t).cumulants; }
  std::unique_ptr<TiltedLoss> Tilt(double c) const override {
    return std::make_unique<LaplaceTilted>(epsilon_, c);
  }

 private:
  double epsilon_;
};

}  // namespace

std::unique_ptr<Loss> PoissonRemoveLoss(double q, double mu) {
  return std::make_unique<PoissonLoss>(q, mu, true);
}
std::unique_ptr<Loss> PoissonAddLoss(double q, double mu) {
  return std::make_unique<PoissonLoss>(q, mu, false);
}
std::unique_ptr<Loss> SubstitutionLoss(double q, double mu) {
  return std::make_unique<SubstitutedLoss>(q, mu);
}
std::unique_ptr<Loss> LaplaceLoss(double epsilon) { return std::make_unique<LaplaceMechanismLoss>(epsilon); }
std::unique_ptr<Loss> AtomsLoss(LatticeLoss lattice) {
  return std::make_unique<LatticeQuadrature>(std::move(lattice));
}

LatticeLoss ResponseLattice(double epsilon, double plus, double zero, double minus) {
  return {.step = epsilon, .first = -1, .mass = {minus, zero, plus}};
}

LatticeLoss ApproximateLattice(double epsilon, double delta) {
  const double plus = 1 / (1 + std::exp(-epsilon)), minus = std::exp(-epsilon) / (1 + std::exp(-epsilon));
  LatticeLoss out{.step = 2 * epsilon, .first = -0.5, .mass = {(1 - delta) * minus, (1 - delta) * plus}};
  out.infinite = out.infinite_lower = delta;
  return out;
}

// Noise k has P(k) = (1 − r)/(1 + r) r^|k|, r = e^{−a}; L = a(|k + Δ| − |k|), from −aΔ to aΔ.
LatticeLoss DiscreteLaplaceLattice(double a, std::uint32_t sensitivity) {
  const std::size_t d = sensitivity;
  LatticeLoss out{.step = 2 * a, .first = -0.5 * static_cast<double>(d), .mass = std::vector<double>(d + 1)};
  const double r = std::exp(-a), one = -std::expm1(-a);
  for (std::size_t k = 1; k < d; ++k)  // −k: L = a(Δ − 2k)
    out.mass[d - k] = one / (1 + r) * std::exp(-a * static_cast<double>(k));
  out.mass.back() = 1 / (1 + r);  // k ≥ 0
  out.mass.front() = std::exp(-a * static_cast<double>(d)) / (1 + r);  // k ≤ −Δ
  out.mass_error = 0x1p-48 + 4 * kU * a * static_cast<double>(d);
  return out;
}

// X discrete Gaussian, L = Δ(2X + Δ)/(2σ²).
LatticeLoss DiscreteGaussianLattice(double sigma, std::uint32_t sensitivity) {
  const double d = sensitivity;
  const auto n = static_cast<std::ptrdiff_t>(std::ceil(16 * sigma)) + 2;
  LatticeLoss out{.step = d / sigma / sigma, .first = d / 2 - static_cast<double>(n), .mass = {}};
  const auto weight = [&](std::ptrdiff_t x) {
    const double z = static_cast<double>(x) / sigma;
    return std::exp(-z * z / 2);
  };
  double total = 0;
  for (std::ptrdiff_t x = n; x > 0; --x) total += 2 * weight(x);
  total += 1;
  for (std::ptrdiff_t x = -n; x <= n; ++x) out.mass.push_back(weight(x) / total);
  const double z = static_cast<double>(n) / sigma;
  out.infinite = 1e-55;  // P(|X| > 16σ) < 4e-56
  out.mass_error = (4 * z * z + 2 * static_cast<double>(n) + 16) * kU;
  return out;
}

}  // namespace tacit
