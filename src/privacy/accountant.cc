#include "privacy/accountant.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "privacy/compare.h"
#include "privacy/gdp.h"
#include "privacy/grid.h"
#include "privacy/renyi.h"
#include "privacy/saddle_point.h"

namespace tacit {
namespace {

constexpr double kU = 0x1p-53;
constexpr std::uint64_t kMostCount = 1000000000000000;
constexpr double kMu = 1e6;              // beyond, a release is taken as open

// ---- Order: events as tuples of numbers, equal ones together.

using Key = std::array<double, 4>;
Key KeyOf(const PrivacyEvent& event) {
  return std::visit(
      [](const auto& e) -> Key {
        using E = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<E, GaussianEvent>) return {e.mu.value()};
        if constexpr (std::is_same_v<E, JointGaussianEvent>) return {e.mu.value()};
        if constexpr (std::is_same_v<E, DiscreteGaussianEvent>)
          return {e.sigma.value(), static_cast<double>(e.sensitivity), static_cast<double>(e.dimension)};
        if constexpr (std::is_same_v<E, DistributedDiscreteGaussianEvent>)
          return {e.sigma.value(), static_cast<double>(e.clients), e.sensitivity.value(),
                  static_cast<double>(e.dimension)};
        if constexpr (std::is_same_v<E, LaplaceEvent>) return {e.epsilon.value()};
        if constexpr (std::is_same_v<E, DiscreteLaplaceEvent>)
          return {e.epsilon_per_step.value(), static_cast<double>(e.sensitivity)};
        if constexpr (std::is_same_v<E, RandomizedResponseEvent>)
          return {e.epsilon.value(), static_cast<double>(e.categories)};
        if constexpr (std::is_same_v<E, PrivUnitEvent>) return {e.p.value(), e.q.value()};
        if constexpr (std::is_same_v<E, ScalarDpEvent>) return {e.epsilon.value()};
        if constexpr (std::is_same_v<E, PureEvent>) return {e.epsilon.value()};
        if constexpr (std::is_same_v<E, ApproximateEvent>) return {e.epsilon.value(), e.delta.value()};
        if constexpr (std::is_same_v<E, ZcdpEvent>) return {e.rho.value()};
        if constexpr (std::is_same_v<E, PoissonGaussianEvent>) return {e.rate.value(), e.mu.value()};
        if constexpr (std::is_same_v<E, FixedSizeGaussianEvent>) return {e.rate.value(), e.mu.value()};
        return {};
      },
      event);
}
bool Before(const Accountant::Line& a, const Accountant::Line& b) {
  const auto* left = std::get_if<RenyiEvent>(&a.event);
  const auto* right = std::get_if<RenyiEvent>(&b.event);
  if (left != nullptr && right != nullptr) {
    const auto before = [](const RenyiEvent::Point& x, const RenyiEvent::Point& y) {
      return std::make_pair(x.order, x.epsilon.value()) < std::make_pair(y.order, y.epsilon.value());
    };
    return std::lexicographical_compare(left->curve.begin(), left->curve.end(), right->curve.begin(),
                                        right->curve.end(), before);
  }
  return std::make_pair(a.event.index(), KeyOf(a.event)) < std::make_pair(b.event.index(), KeyOf(b.event));
}

Status Check(const PrivacyEvent& event, Adjacency adjacency) {
  if (std::holds_alternative<FixedSizeGaussianEvent>(event) && adjacency != Adjacency::kReplaceOne)
    return Fail(Code::kInvalidArgument,
                "a sample of fixed size under {} adjacency: its size would change with the data; account for "
                "it under replace-one",
                Name(adjacency));
  if (const auto* e = std::get_if<RenyiEvent>(&event)) TACIT_OK(Check(*e));
  if (const auto* e = std::get_if<PrivUnitEvent>(&event))
    if (!(e->q.value() > 0 && e->q.value() <= 0.5 && e->p.value() >= e->q.value() && e->p.value() < 1))
      return Fail(
          Code::kInvalidArgument,
          "PrivUnit with p = {}, q = {}: the cap has at most half the sphere, 0 < q <= 1/2, and q <= p < 1",
          e->p.value(), e->q.value());
  if (const auto* e = std::get_if<RandomizedResponseEvent>(&event))
    if (e->categories < 2 || e->categories > (std::uint64_t{1} << 50))
      return Fail(Code::kInvalidArgument, "randomised response over {} categories: use 2 to 2^50",
                  e->categories);
  if (const auto* e = std::get_if<DistributedDiscreteGaussianEvent>(&event))
    if (!(e->sigma.value() >= 0.5) || e->clients < 1 || e->dimension < 1)
      return Fail(
          Code::kInvalidArgument,
          "distributed discrete Gaussian with sigma = {} steps, {} clients, dimension {}: the analysis "
          "needs sigma of at least 1/2, a client and a coordinate; use a finer lattice",
          e->sigma.value(), e->clients, e->dimension);
  if (const auto* e = std::get_if<DiscreteGaussianEvent>(&event))
    if (!(e->sigma.value() >= 0.05 && e->sigma.value() <= 1e12) || e->dimension < 1)
      return Fail(
          Code::kInvalidArgument,
          "discrete Gaussian with sigma = {} steps, dimension {}: sigma must be in [0.05, 1e12] steps",
          e->sigma.value(), e->dimension);
  return Ok{};
}

// ---- What the events become.

enum class Side { kRemove, kAdd, kDominating };      // of sampled releases; all others are symmetric

struct Model {
  Composition smooth;                    // terms with a transform that is not a lattice's
  std::vector<std::pair<LatticeLoss, double>> lattices;
  double log_finite_upper = 0, log_finite_lower = 0;   // log of Π(1 − p_i), p_i at most and at least
  double rho = 0;                        // zCDP that nothing finer is known of
  double mu_squared_lower = 0;           // at most the sum of μ²
  double total_variation = 0;            // Σ of δ(0), at most; ∞ where it was not added up
  bool sampled = true;                   // all of `smooth.terms` are sampled Gaussians
  double most_loss = 0;                  // Σ of the largest losses; ∞ if one is unbounded
  bool open = false;                     // something promises nothing
  // The closed form, if this is a single release: encloses δ(ε).
  std::function<Interval(double)> single;
  std::function<Interval(double)> one;   // the same of each of several equal releases
  const char* single_method = nullptr;
};

// δ of the sampled Gaussian in closed form. Rounding of ε′ and of the factors is paid for on both sides.
Interval Widened(double factor_low, double factor_high, double inner, double mu) {
  const Mu unit = Mu::Proven(mu);
  const double slack = 8 * kU * inner + 1e-300;
  const double down = std::max(0.0, inner - slack), up = inner + slack;
  return {factor_low * GdpDelta(Epsilon::Proven(up), unit).lower * (1 - 4 * kU),
          std::min(1.0, factor_high * GdpDelta(Epsilon::Proven(down), unit).upper * (1 + 4 * kU))};
}
Interval RemoveDelta(double q, double mu, double epsilon) {
  const double inner = epsilon < 30 ? std::log1p(std::expm1(epsilon) / q)
                                    : epsilon - std::log(q) + std::log1p(-(1 - q) * std::exp(-epsilon));
  return Widened(q, q, inner, mu);
}
Interval AddDelta(double q, double mu, double epsilon) {
  const double rest = q - (1 - q) * std::expm1(epsilon),
               slack = 8 * kU * (1 + std::expm1(std::min(epsilon, 700.0)));
  if (!(rest > -slack)) return {0, 0};
  if (!(rest > slack)) return {0, 2 * slack};
  const double inner = epsilon + std::log(q) - std::log(rest), tilt = 2 * slack / rest;
  Interval out = Widened(rest - slack, rest + slack, std::max(0.0, inner), mu);
  out.lower = Widened(rest - slack, rest + slack, std::max(0.0, inner) + tilt, mu).lower;
  out.upper = Widened(rest - slack, rest + slack, std::max(0.0, inner - tilt), mu).upper;
  return out;
}

class Builder {
 public:
  Builder(Adjacency adjacency, Side side, bool upper, bool alone)
      : adjacency_(adjacency), side_(side), upper_(upper), alone_(alone) {}
  void Add(const PrivacyEvent& event, std::uint64_t count) {
    count_ = static_cast<double>(count);
    std::visit([this](const auto& e) { Take(e); }, event);
  }
  Model Finish() {
    out_.mu_squared_lower = std::max(0.0, out_.smooth.mu_squared * (1 - (gaussians_ + 4) * 4 * kU));
    return std::move(out_);
  }

 private:
  void Mu2(double mu) {
    if (mu > 0) out_.most_loss = kInf;
    if (!(mu < 1e150)) out_.open = true;
    out_.total_variation = kInf;
    out_.smooth.mu_squared = AddUp(out_.smooth.mu_squared, MulUp(count_, MulUp(mu, mu)));
    ++gaussians_;
  }
  void Lattice(LatticeLoss lattice) {
    out_.total_variation = kInf;
    if (!(lattice.step > 0)) {           // ε = 0: only the infinite part matters
      lattice.step = 1, lattice.first = 0, lattice.mass = {1 - lattice.infinite};
    }
    out_.log_finite_upper += count_ * std::log1p(-lattice.infinite) * (1 + 4 * kU);
    out_.log_finite_lower += count_ * std::log1p(-lattice.infinite_lower) * (1 - 4 * kU);
    out_.most_loss +=
        count_ * lattice.step * (lattice.first + static_cast<double>(lattice.mass.size() - 1)) * (1 + 8 * kU);
    if (lattice.infinite > 0) out_.most_loss = kInf;
    out_.lattices.emplace_back(std::move(lattice), count_);
  }
  void Pure(double epsilon, double delta) {
    if (!(epsilon < 1e9)) {
      out_.open = true;
    } else if (epsilon > 0 || delta > 0) {
      Lattice(ApproximateLattice(epsilon, delta));
    }
  }
  void Response(double epsilon, double plus, double zero, double minus) {
    if (!(epsilon < 1e9)) {
      out_.open = true;
    } else if (epsilon > 0) {
      Lattice(ResponseLattice(epsilon, plus, zero, minus));
    }
  }
  void Categories(double epsilon, double k) {
    const double rest = std::exp(-epsilon), total = 1 + (k - 1) * rest;
    Response(epsilon, 1 / total, (k - 2) * rest / total, rest / total);
  }
  void Zcdp(double rho) {
    if (!upper_) {                       // a Gaussian has this ρ
      Mu2(std::sqrt(2 * rho) * (1 - 4 * kU));
      return;
    }
    if (!(rho < 1e100)) out_.open = true;
    if (rho > 0) out_.most_loss = out_.total_variation = kInf;
    out_.rho = AddUp(out_.rho, MulUp(count_, rho));
  }
  void Sampled(double q, double mu, bool substitution) {
    if (q == 0 || mu == 0) return;
    if (q == 1) return Mu2(mu);
    if (mu > kMu) {                      // whoever is sampled is seen: δ = q at every ε
      if (upper_ || mu == kInf) Pure(0, q);
      return;
    }
    const bool dominating = substitution && side_ == Side::kDominating;
    // A unit that is added: the loss is −log(1 − q + q e^{…}), whose supremum is −log(1 − q).
    out_.most_loss += !dominating && side_ == Side::kAdd ? -count_ * std::log1p(-q) * (1 + 8 * kU) : kInf;
    out_.total_variation += count_ * q * std::erf(mu / 2 * M_SQRT1_2) * (1 + 16 * kU);
    if (alone_) {
      // For ε ≥ 0 the dominating curve is that of the removal.
      const bool add = !dominating && side_ == Side::kAdd;
      out_.one = [=](double epsilon) { return add ? AddDelta(q, mu, epsilon) : RemoveDelta(q, mu, epsilon); };
      if (count_ == 1) out_.single = out_.one, out_.single_method = "closed form of the sampled Gaussian";
    }
    out_.smooth.terms.push_back({dominating            ? SubstitutionLoss(q, mu)
                                 : side_ == Side::kAdd ? PoissonAddLoss(q, mu)
                                                       : PoissonRemoveLoss(q, mu),
                                 count_});
  }

  void Take(const GaussianEvent& e) { Mu2(e.mu.value()); }
  void Take(const JointGaussianEvent& e) { Mu2(e.mu.value()); }
  void Take(const DiscreteGaussianEvent& e) {
    if (e.sensitivity == 0) return;
    const double s = e.sigma.value();
    // One coordinate is exact as long as its lattice fits; some vector moves one coordinate alone.
    if ((e.dimension == 1 || !upper_) && s <= 1e4) {
      Lattice(DiscreteGaussianLattice(s, e.sensitivity));
    } else if (upper_) {
      Zcdp(ZcdpCost(e).value());
    }
  }
  void Take(const DistributedDiscreteGaussianEvent& e) {
    if (!upper_) return;                 // no pair is known to attain the bound
    Zcdp(ZcdpCost(e).value());
  }
  void Take(const LaplaceEvent& e) {
    const double epsilon = e.epsilon.value();
    if (epsilon == 0) return;
    if (!(epsilon < 1e9)) {
      out_.open = true;
      return;
    }
    out_.most_loss += count_ * epsilon * (1 + 8 * kU);
    if (alone_ && count_ == 1) {
      out_.single = [=](double at) {
        const double value = -std::expm1(std::min(0.0, (at - epsilon) / 2));
        const double slack = 8 * kU * (value + epsilon * (at < epsilon));
        return Interval{std::max(0.0, value - slack), value + slack};
      };
      out_.single_method = "closed form of Laplace noise";
    }
    out_.sampled = false, out_.total_variation = kInf;
    out_.smooth.terms.push_back({LaplaceLoss(epsilon), count_});
  }
  void Take(const DiscreteLaplaceEvent& e) {
    const double a = e.epsilon_per_step.value();
    if (a == 0 || e.sensitivity == 0) return;
    // Long lattices are left to the bound that every ε-DP mechanism has.
    if (e.sensitivity > 100000 || !(a < 1e9)) return Pure(MulUp(a, e.sensitivity), 0);
    Lattice(DiscreteLaplaceLattice(a, e.sensitivity));
  }
  void Take(const RandomizedResponseEvent& e) {
    Categories(e.epsilon.value(), static_cast<double>(e.categories));
  }
  void Take(const PrivUnitEvent& e) {
    const double p = e.p.value(), q = e.q.value();
    if (q == 0.5) return Response(EpsilonOf(e), p, 0, 1 - p);
    Response(EpsilonOf(e), p, (1 - p) * (1 - 2 * q) / (1 - q), (1 - p) * q / (1 - q));
  }
  void Take(const ScalarDpEvent& e) {
    const double steps = ScalarDpSteps(e.epsilon);
    if (!(steps < 1e300)) {
      out_.open = true;
      return;
    }
    Categories(e.epsilon.value(), steps + 1);
  }
  void Take(const PureEvent& e) { Pure(e.epsilon.value(), 0); }
  void Take(const ApproximateEvent& e) { Pure(e.epsilon.value(), e.delta.value()); }
  void Take(const ZcdpEvent& e) { Zcdp(e.rho.value()); }
  void Take(const PoissonGaussianEvent& e) {
    Sampled(e.rate.value(), e.mu.value(), adjacency_ == Adjacency::kReplaceOne);
  }
  void Take(const FixedSizeGaussianEvent& e) { Sampled(e.rate.value(), e.mu.value(), true); }
  void Take(const NonPrivateEvent&) { out_.open = true; }
  void Take(const RenyiEvent& e) {
    if (!upper_) return;                 // a constant has any curve
    out_.most_loss = out_.total_variation = kInf;
    out_.smooth.imported.push_back({std::make_shared<const RenyiCurve>(e), count_});
  }

  Adjacency adjacency_;
  Side side_;
  bool upper_, alone_;
  double count_ = 0, gaussians_ = 0;
  Model out_;
};

// ---- Sums of lattice losses, exactly: all terms are positive, so every mass keeps its relative accuracy.

constexpr std::size_t kMostLattice = 1 << 14, kMostAtoms = 1 << 20;

std::optional<LatticeLoss> Power(const LatticeLoss& base, double count) {
  const double length = static_cast<double>(base.mass.size() - 1) * count + 1;
  if (!(length <= static_cast<double>(kMostLattice))) return std::nullopt;
  const auto multiply = [](const LatticeLoss& a, const LatticeLoss& b) {
    LatticeLoss out{.step = a.step, .first = a.first + b.first, .mass = {}};
    out.mass.assign(a.mass.size() + b.mass.size() - 1, 0.0);
    for (std::size_t i = 0; i < a.mass.size(); ++i)
      for (std::size_t j = 0; j < b.mass.size(); ++j) out.mass[i + j] += a.mass[i] * b.mass[j];
    const auto terms = static_cast<double>(std::min(a.mass.size(), b.mass.size()));
    out.mass_error = (a.mass_error + b.mass_error) * (1 + 1e-9) + (terms + 2) * kU;
    return out;
  };
  auto n = static_cast<std::uint64_t>(count);
  LatticeLoss out{.step = base.step, .first = 0, .mass = {1.0}, .mass_error = 0}, square = base;
  for (;; n /= 2) {
    if (n % 2 == 1) out = multiply(out, square);
    if (n < 2) break;
    square = multiply(square, square);
  }
  return out;
}

struct Atom {
  double loss, mass;
};
struct Atoms {
  std::vector<Atom> at;                  // by falling loss
  double error = 0;                      // of every mass, relatively; underflow adds 1e-290 to the sum
  Interval DeltaAt(double epsilon) const {
    double low = 0, high = 0;
    for (const Atom& a : at) {
      const double slack = 0x1p-48 * std::abs(a.loss);
      if (a.loss + slack <= epsilon) break;
      high += a.mass * -std::expm1(std::min(0.0, epsilon - a.loss - slack));
      low += a.mass * -std::expm1(std::min(0.0, epsilon - a.loss + slack));
    }
    const double relative = error + (static_cast<double>(at.size()) + 8) * kU;
    return {low * std::max(0.0, 1 - relative), std::min(1.0, high * (1 + relative) + 1e-290)};
  }
};
std::optional<Atoms> Enumerate(const Model& model) {
  Atoms out;
  out.at = {{0, 1}};
  for (const auto& [lattice, count] : model.lattices) {
    const std::optional<LatticeLoss> sum = Power(lattice, count);
    if (!sum || out.at.size() * sum->mass.size() > kMostAtoms) return std::nullopt;
    std::vector<Atom> next;
    for (const Atom& a : out.at)
      for (std::size_t k = 0; k < sum->mass.size(); ++k)
        if (sum->mass[k] > 0)
          next.push_back({a.loss + sum->step * (sum->first + static_cast<double>(k)), a.mass * sum->mass[k]});
    out.at = std::move(next);
    out.error += sum->mass_error + 2 * kU;
  }
  std::sort(out.at.begin(), out.at.end(), [](const Atom& a, const Atom& b) { return a.loss > b.loss; });
  return out;
}

// ---- One model's curve.

// Encloses δ(ε), the infinite losses included.
struct Curve {
  std::function<Interval(double)> at;
  std::string method;
  double near = 1;  // the ε that it was made for
};

double InfiniteUpper(const Model& m) { return std::min(1.0, -std::expm1(m.log_finite_upper) * (1 + 8 * kU)); }
double InfiniteLower(const Model& m) { return std::max(0.0, -std::expm1(m.log_finite_lower) * (1 - 8 * kU)); }

Composition Everything(const Model& m) {
  Composition all = m.smooth;
  for (const auto& [lattice, count] : m.lattices) all.terms.push_back({AtomsLoss(lattice), count});
  return all;
}

Curve WithInfinite(const Model& m, std::function<Interval(double)> finite, std::string method,
                   double near = 1) {
  const double up = InfiniteUpper(m), low = InfiniteLower(m);
  if (up == 0) return {std::move(finite), std::move(method), near};
  return {[=](double epsilon) {
            const Interval d = finite(epsilon);
            return Interval{std::max(0.0, (low + d.lower) * (1 - 2 * kU)),
                            std::min(1.0, (up + d.upper) * (1 + 2 * kU))};
          },
          std::move(method), near};
}

// Where large losses are rare the saddle point's ε is off: a short contour tells a better one.
Contour Rough(const Composition& all, Start& begin, double log_delta, std::size_t nodes) {
  for (int i = 0;; ++i) {
    Contour rough =
        Contour::Make(all, begin.tilt, begin.epsilon, std::min<std::size_t>(nodes, 2048), log_delta);
    const auto log_at = [&](double epsilon) {
      const Interval d = rough.DeltaAt(epsilon);
      return std::log(std::max(0.5 * (d.lower + d.upper), 1e-300)) - log_delta;
    };
    const double miss = log_at(begin.epsilon);
    if (!(std::abs(miss) > 0.3) || i == 3) return rough;
    // Bisection between the start and a factor of 8 in the direction of δ.
    double low = begin.epsilon, high = begin.epsilon;
    (miss > 0 ? high : low) *= miss > 0 ? 8 : 1.0 / 8;
    for (int k = 0; k < 20; ++k) {
      const double middle = std::sqrt(low * high);
      (log_at(middle) > 0 ? low : high) = middle;
    }
    const double better = std::sqrt(low * high);
    const Interval there = rough.DeltaAt(better);
    if (!(there.upper < 2 * there.lower)) return rough;
    begin = {TiltForEpsilon(all, better), better};
  }
}

// The zero of a falling g between low, where g > 0, and high, where g ≤ 0, to a few units in the last place:
// the ends keep their signs whatever g does between. Illinois' method with a bisection now and then.
template <class G>
void Narrow(G g, double& low, double g_low, double& high, double g_high) {
  for (int i = 0; i < 200; ++i) {
    const double width = high - low;
    if (width <= 4 * kU * high || width < 1e-300) break;
    double middle = 0.5 * (low + high);
    if (i % 4 != 3 && std::isfinite(g_low) && std::isfinite(g_high) && g_low > g_high) {
      const double least = std::min(std::max(width * 1e-3, 2 * kU * high), width / 2);
      middle = std::clamp(low + width * (g_low / (g_low - g_high)), low + least, high - least);
    }
    if (!(middle > low && middle < high)) break;
    const double value = g(middle);
    if (value > 0) {
      low = middle, g_low = value;
    } else {
      high = middle, g_high = value;
    }
    if (std::abs(value) < 1e-15) break;
  }
}

// An ε with upper(ε) ≤ δ, hardly above the smallest.
double EpsilonUpper(const std::function<double(double)>& upper, double delta, double guess) {
  const auto g = [&](double at) { return std::log(upper(at) / delta); };
  if (!(g(0) > 0)) return 0;
  double low = std::max(guess, 1e-12), g_low = g(low), high = low, g_high = g_low;
  if (g_low > 0) {
    for (int i = 0; g_high > 0; ++i) {
      if (i == 400 || high > 1e300) return kInf;
      low = high, g_low = g_high;
      high *= i < 8 ? 1 + 1e-3 * std::pow(4, i) : 8;
      g_high = g(high);
    }
  } else {
    for (int i = 0; !(g_low > 0); ++i) {
      high = low, g_high = g_low;
      low = i < 6 ? high * (1 - 1e-3 * std::pow(3, i)) : high / 8;
      if (i == 400 || low < 1e-300) return high;
      g_low = g(low);
    }
  }
  Narrow(g, low, g_low, high, g_high);
  return high;
}

// The composition for a grid, without the losses that have a small share of δ, and where to look at it. A
// wrong guess of δ makes the curve wide, nothing else.
std::pair<Composition, Start> WithoutRareLosses(const Composition& all, Start begin,
                                                std::optional<double> log_delta,
                                                std::optional<double> epsilon) {
  double rounds = 0;
  for (const auto& term : all.terms) rounds += term.count;
  // In many rounds the grid is not good to more digits.
  const double share = std::clamp(1e-8 * rounds, 1e-5, 1e-3) / rounds;
  const auto capped = [&](double log_guess) {
    std::pair<Composition, bool> out{all, false};
    for (auto& term : out.first.terms)
      if (auto loss = term.loss->Capped(share * std::exp(log_guess)))
        term.loss = std::move(loss), out.second = true;
    return out;
  };
  if (log_delta) {
    auto [composition, any] = capped(*log_delta);
    if (any) begin = StartForDelta(composition, *log_delta);
    return {std::move(composition), begin};
  }
  // δ is what is asked for. The smaller the guess, the more losses are kept and the larger is what Chernoff's
  // bound says of them: down to where the two meet.
  double guess = 0;
  for (;;) {
    auto [composition, any] = capped(guess);
    if (!any) return {std::move(composition), begin};
    begin = {TiltForEpsilon(composition, *epsilon), *epsilon};
    const double log_value =
        At(composition, begin.tilt).value - begin.tilt * *epsilon - std::log1p(begin.tilt) - 1;
    if (!(log_value < guess - 2) || guess < -600) return {std::move(composition), begin};
    guess = std::max(log_value, guess - 23);
  }
}

// A curve that is narrow near the ε where δ(ε) is e^{log_delta}, or near `epsilon` if that is given.
Curve CurveOf(const Model& m, const AccountOptions& options, std::optional<double> log_delta,
              std::optional<double> epsilon) {
  if (m.smooth.terms.empty() && m.lattices.empty()) {
    const Mu up = Mu::Proven(SqrtUp(m.smooth.mu_squared)),
             low = Mu::Proven(std::sqrt(m.mu_squared_lower) * (1 - 2 * kU));
    return {[=](double at) {
              const Epsilon e = Epsilon::Proven(at);
              return Interval{GdpDelta(e, low).lower, GdpDelta(e, up).upper};
            },
            "Gaussian differential privacy, exact"};
  }
  if (m.single) return {m.single, m.single_method};
  if (m.smooth.terms.empty() && m.smooth.mu_squared == 0)
    if (auto atoms = Enumerate(m)) {
      auto shared = std::make_shared<Atoms>(std::move(*atoms));
      return WithInfinite(
          m, [shared](double at) { return shared->DeltaAt(at); }, "sum over all losses, exact");
    }

  const Composition all = Everything(m);
  const bool decays = m.smooth.mu_squared > 0 || !m.smooth.terms.empty();
  Start begin = epsilon ? Start{TiltForEpsilon(all, *epsilon), *epsilon} : StartForDelta(all, *log_delta);
  auto contour = std::make_shared<Contour>();
  if (!epsilon && decays) *contour = Rough(all, begin, *log_delta, options.nodes);
  if (const Interval d = contour->DeltaAt(begin.epsilon); !epsilon && m.one && !(d.upper < 2 * d.lower)) {
    // One large loss in T rounds: δ(ε) is about T times that of one.
    const double each = std::exp(*log_delta) / m.smooth.terms.front().count;
    double low = 1e-9, high = 1e3;
    for (int i = 0; i < 30; ++i) {
      const double middle = std::sqrt(low * high);
      (m.one(middle).upper > each ? low : high) = middle;
    }
    // Where the losses sum up to more than that on average, it is not one that matters.
    if (high > At(all, 1e-9).first) begin = {TiltForEpsilon(all, high), high};
  }
  double tilt = begin.tilt, near = begin.epsilon;
  Interval tried = contour->DeltaAt(near);
  if (!contour->complete() || !(tried.upper < 2 * tried.lower)) {
    *contour = Contour::Make(all, tilt, near, decays ? options.nodes : 64, log_delta.value_or(kInf));
    tried = contour->DeltaAt(near);
  }
  // The grid seldom does better than 3e-5.
  const bool grid = m.lattices.empty() && m.sampled;
  const auto narrow = [&] {
    return tried.upper - tried.lower <= (grid ? 3e-5 : 1e-6) * tried.upper && tried.upper < 1;
  };
  // It must be so where δ is reached, which may be elsewhere.
  if (narrow() && grid && !epsilon && !(std::abs(std::log(tried.upper) - *log_delta) < 0.1))
    tried = contour->DeltaAt(
        EpsilonUpper([&](double e) { return contour->DeltaAt(e).upper; }, std::exp(*log_delta), near));
  if (narrow())
    return WithInfinite(
        m, [contour](double at) { return contour->DeltaAt(at); }, "contour integral through the saddle point",
        near);

  // Few rounds or rare large losses: a grid of losses bounds the curve from both sides.
  if (grid) {
    // Rare losses far above ε would make the window long: they count as ∞ above, and as nothing below.
    const auto [capped, start] = WithoutRareLosses(all, begin, log_delta, epsilon);
    tilt = start.tilt, near = start.epsilon;
    double rounds = 0;
    for (const auto& term : all.terms) rounds += term.count;
    // In many rounds each loss is small, and rounding it counts many times.
    const std::size_t cells = std::bit_floor(
        std::clamp<std::size_t>(rounds < 1e4 ? options.nodes / 2 : 2 * options.nodes, 1U << 10, 1U << 18));
    if (auto up = GridCurve::Make(capped, 0.6 * tilt, true, cells)) {
      auto above = std::make_shared<GridCurve>(std::move(*up));
      std::shared_ptr<GridCurve> below;
      if (auto low = GridCurve::Make(capped, 0.6 * tilt, false, cells))
        below = std::make_shared<GridCurve>(std::move(*low));
      return WithInfinite(
          m,
          [=](double at) {
            Interval out = contour->DeltaAt(at);
            out.upper = std::min(out.upper, above->DeltaAt(at));
            if (below) out.lower = std::max(out.lower, below->DeltaAt(at));
            return out;
          },
          "losses on a grid, by Fourier transform", near);
    }
  }

  // The transform decays slowly: as if one more release had been made, a Gaussian one with a tiny μ. That
  // costs more, never less; and what it adds is above a shift with a tiny probability only.
  const auto count = static_cast<double>(options.nodes);
  const double extra = contour->period() > 0 ? 9.5 * contour->period() / (2 * M_PI * count) : 1e-6;
  Composition padded = all;
  padded.mu_squared = AddUp(padded.mu_squared, MulUp(extra, extra));
  auto smooth = std::make_shared<Contour>(Contour::Make(padded, tilt, near, options.nodes));
  const double log_target = std::log(std::max(tried.upper, 1e-290)) - 14;
  const double reach = std::sqrt(-2 * std::min(log_target, -1.0)), shift = extra * reach + extra * extra;
  const double lost = std::exp(-reach * reach / 2);
  return WithInfinite(
      m,
      [=](double at) {
        const Interval plain = contour->DeltaAt(at), up = smooth->DeltaAt(at);
        Interval out{std::max(plain.lower, smooth->DeltaAt(at + shift).lower - lost),
                     std::min(plain.upper, up.upper)};
        return out;
      },
      "contour integral, smoothed", near);
}

// An ε with lower(ε) > δ, hardly below the largest; 0 if there is none within six digits of `top`.
double EpsilonLower(const std::function<double(double)>& lower, double delta, double top) {
  if (!(top > 0 && top < kInf)) return 0;
  const auto g = [&](double at) {
    const double value = lower(at) / delta;
    return value > 0 ? std::log(value) : -kInf;
  };
  double high = top, g_high = g(high), low = high, g_low = g_high;
  for (double step = 1e-12; !(g_low > 0); step *= 8) {
    high = low, g_high = g_low;
    if (low < 1e-6 * top) return 0;
    low = step < 0.5 ? top * (1 - step) : low / 4;
    g_low = g(low);
  }
  Narrow(g, low, g_low, high, g_high);
  return low;
}

std::vector<Model> Models(const Accountant& account, bool upper) {
  bool sampled = false, dominated = false;
  for (const auto& line : account.lines()) {
    const bool poisson = std::holds_alternative<PoissonGaussianEvent>(line.event);
    const bool fixed = std::holds_alternative<FixedSizeGaussianEvent>(line.event);
    sampled = sampled || poisson || fixed;
    dominated = dominated || fixed || (poisson && account.adjacency() == Adjacency::kReplaceOne);
  }
  std::vector<Side> sides{Side::kRemove};
  if (sampled) sides = {Side::kRemove, Side::kAdd};
  if (dominated && upper) sides = {Side::kDominating};
  const bool alone = account.lines().size() == 1;
  std::vector<Model> out;
  for (const Side side : sides) {
    Builder builder(account.adjacency(), side, upper, alone);
    for (const auto& line : account.lines()) builder.Add(line.event, line.count);
    out.push_back(builder.Finish());
  }
  return out;
}

bool Differ(const Accountant& account) {  // whether upper and lower bounds come from different models
  return std::any_of(account.lines().begin(), account.lines().end(), [&](const Accountant::Line& l) {
    return std::holds_alternative<FixedSizeGaussianEvent>(l.event) ||
           std::holds_alternative<ZcdpEvent>(l.event) || std::holds_alternative<RenyiEvent>(l.event) ||
           std::holds_alternative<DistributedDiscreteGaussianEvent>(l.event) ||
           std::holds_alternative<DiscreteGaussianEvent>(l.event) ||
           (std::holds_alternative<PoissonGaussianEvent>(l.event) &&
            account.adjacency() == Adjacency::kReplaceOne);
  });
}

Bracket EpsilonOfModel(const Model& m, const AccountOptions& options, double delta) {
  if (m.open) return {kInf, kInf, "a release promises nothing"};
  const bool renyi_only = m.rho > 0 || !m.smooth.imported.empty();
  if (m.smooth.terms.empty() && m.lattices.empty() && !renyi_only) {
    const Delta d = Delta::Proven(delta);
    const Mu up = Mu::Proven(SqrtUp(m.smooth.mu_squared));
    const Mu low = Mu::Proven(std::sqrt(m.mu_squared_lower) * (1 - 2 * kU));
    return {GdpEpsilon(low, d).lower, GdpEpsilon(up, d).upper, "Gaussian differential privacy, exact"};
  }
  const double infinite = InfiniteUpper(m), infinite_lower = InfiniteLower(m);
  Bracket out{0, kInf, "largest possible loss"};
  if (delta < infinite_lower) return {kInf, kInf, "the probability of an infinite loss is above delta"};
  if (renyi_only) {
    out.method = "Rényi divergences";
    if (delta > infinite) out.upper = RenyiEpsilon(Everything(m), (delta - infinite) * (1 - 2 * kU), m.rho);
    return out;
  }
  if (m.total_variation * (1 + 16 * kU) <= delta)
    return {0, 0, "the sum of total variations is within delta"};
  if (delta == 0) return {m.most_loss * (1 - 1e-12), m.most_loss, "largest possible loss"};
  const double finite = std::max(delta - infinite, 1e-300);
  const Curve curve = CurveOf(m, options, std::log(finite), std::nullopt);
  out.method = curve.method;
  const double guess = std::max(1e-9, std::min(curve.near, m.most_loss));
  out.upper = EpsilonUpper([&](double e) { return curve.at(e).upper; }, delta, guess);
  out.lower = EpsilonLower([&](double e) { return curve.at(e).lower; }, delta, std::min(out.upper, 1e300));
  if (out.upper > 1.02 * out.lower && !m.single && delta > infinite) {
    const double renyi = RenyiEpsilon(Everything(m), (delta - infinite) * (1 - 2 * kU));
    if (renyi < out.upper) out.upper = renyi, out.method = "Rényi divergences";
  }
  if (m.most_loss < out.upper) out.upper = m.most_loss, out.method = "largest possible loss";
  if (m.one && !m.single && out.upper > 1.001 * out.lower)  // several releases cost no less than one
    out.lower = std::max(out.lower, EpsilonLower([&](double e) { return m.one(e).lower; }, delta, out.upper));
  out.lower = std::min(out.lower, out.upper);
  return out;
}

Bracket DeltaOfModel(const Model& m, const AccountOptions& options, double epsilon) {
  if (m.open) return {1, 1, "a release promises nothing"};
  if (epsilon == kInf) return {InfiniteLower(m), InfiniteUpper(m), "probability of an infinite loss"};
  if (epsilon >= m.most_loss) return {0, 0, "largest possible loss"};
  if (m.rho > 0 || !m.smooth.imported.empty())
    return {0, std::min(1.0, RenyiDelta(Everything(m), epsilon, m.rho) + InfiniteUpper(m)),
            "Rényi divergences"};
  const Curve curve = CurveOf(m, options, std::nullopt, epsilon);
  const Interval d = curve.at(epsilon);
  Bracket out{d.lower, d.upper, curve.method};
  if (out.upper > 1.02 * out.lower && !m.single) {
    const double renyi = RenyiDelta(Everything(m), epsilon) + InfiniteUpper(m);
    if (renyi < out.upper) out.upper = renyi, out.method = "Rényi divergences";
  }
  return out;
}

// Whether Chernoff's bound says that δ(ε) ≤ δ: a direction that cannot be the worse one is found out cheaply.
bool Harmless(const Model& m, double epsilon, double delta) {
  const double finite = (delta - InfiniteUpper(m)) * (1 - 2 * kU);
  if (m.open || m.rho > 0 || !m.smooth.imported.empty() || !(finite > 0) || !std::isfinite(epsilon))
    return false;
  if (m.most_loss <= epsilon) return true;
  const Composition all = Everything(m);
  const double goal = std::log(finite) * (1 + 2 * kU);
  double least = kInf;
  for (double t = 1; t < 1e5; t *= 2) {  // convex in t: once it rises there is no more to gain
    const double bound = LogChernoff(all, t, epsilon);
    if (bound <= goal) return true;
    if (!(bound < least)) break;
    least = bound;
  }
  return false;
}

// `harmless(model, bracket so far)`: it changes nothing.
template <class OfModel, class Skip>
Bracket Worst(const Accountant& account, OfModel of_model, Skip harmless) {
  Bracket out{0, 0, "nothing was released"};
  bool first = true;
  for (const Model& m : Models(account, true)) {
    if (!first && harmless(m, out)) continue;
    const Bracket b = of_model(m);
    if (first || b.upper > out.upper) out.upper = b.upper, out.method = b.method;
    if (!Differ(account)) out.lower = std::max(out.lower, b.lower);
    first = false;
  }
  if (Differ(account))
    for (const Model& m : Models(account, false))
      if (!harmless(m, Bracket{out.lower, out.lower, ""})) out.lower = std::max(out.lower, of_model(m).lower);
  out.lower = std::min(out.lower, out.upper);
  return out;
}

}  // namespace

Status Accountant::Compose(const PrivacyEvent& event, std::uint64_t count) {
  TACIT_OK(Check(event, adjacency_));
  if (count == 0) return Ok{};
  Line line{event, count};
  const auto at = std::lower_bound(lines_.begin(), lines_.end(), line, Before);
  const bool known = at != lines_.end() && !Before(line, *at);
  if (count > kMostCount || (known && at->count > kMostCount - count))
    return Fail(Code::kUnsupported, "{} releases of one kind: at most 10^15 are composed; plan fewer",
                static_cast<double>(count) + (known ? static_cast<double>(at->count) : 0.0));
  if (known) {
    at->count += count;
  } else {
    lines_.insert(at, line);
  }
  return Ok{};
}

Status Accountant::Compose(const Accountant& other) {
  if (other.adjacency_ != adjacency_)
    return Fail(Code::kInvalidArgument,
                "{} and {} adjacency in one account: their ε do not add; account for them apart",
                Name(adjacency_), Name(other.adjacency_));
  Accountant sum = *this;
  for (const Line& line : other.lines_) TACIT_OK(sum.Compose(line.event, line.count));
  *this = std::move(sum);
  return Ok{};
}

Result<Bracket> Accountant::EpsilonAt(tacit::Delta delta) const {
  if (lines_.empty()) return Bracket{0, 0, "nothing was released"};
  bool wide = false;  // of the pairs' own brackets: then another way may be better
  Bracket out = Worst(
      *this,
      [&](const Model& m) {
        Bracket b = EpsilonOfModel(m, options_, delta.value());
        wide = wide || b.upper > 1.001 * b.lower;
        return b;
      },
      [&](const Model& m, const Bracket& sofar) { return Harmless(m, sofar.lower, delta.value()); });
  if (wide) TACIT_OK(Tighten(*this, delta, out));
  return out;
}

Result<Bracket> Accountant::DeltaAt(tacit::Epsilon epsilon) const {
  if (lines_.empty()) return Bracket{0, 0, "nothing was released"};
  return Worst(
      *this, [&](const Model& m) { return DeltaOfModel(m, options_, epsilon.value()); },
      [&](const Model& m, const Bracket& sofar) { return Harmless(m, epsilon.value(), sofar.lower); });
}

std::function<double(double)> Accountant::CurveNear(tacit::Delta delta) const {
  std::vector<std::function<double(double)>> all;
  double reached = 0;  // at most the ε of δ in the first direction
  for (Model& m : Models(*this, true)) {
    if (m.open) return [](double) { return 1.0; };
    const double infinite = InfiniteUpper(m), most = m.most_loss;
    if (m.rho > 0 || !m.smooth.imported.empty()) {
      all.emplace_back([whole = Everything(m), rho = m.rho, infinite](double epsilon) {
        return std::min(1.0, RenyiDelta(whole, epsilon, rho) + infinite);
      });
    } else {
      const double finite = std::max(delta.value() - infinite, 1e-300);
      // The other direction has the same δ(0), the total variation, and nothing at all above its largest
      // loss.
      if (!all.empty() && most <= reached) {
        all.emplace_back(
            [first = all.front(), most](double epsilon) { return epsilon >= most ? 0.0 : first(0); });
        continue;
      }
      const Curve curve = CurveOf(m, options_, std::log(finite), std::nullopt);
      all.emplace_back(
          [curve, most](double epsilon) { return epsilon >= most ? 0.0 : curve.at(epsilon).upper; });
      const double top = EpsilonUpper(all.back(), delta.value(), std::max(1e-9, std::min(curve.near, most)));
      reached = EpsilonLower([&](double e) { return curve.at(e).lower; }, delta.value(), top);
    }
  }
  return [all = std::move(all)](double epsilon) {
    double worst = 0;
    for (const auto& at : all) worst = std::max(worst, at(epsilon));
    return worst;
  };
}

bool SameEvent(const PrivacyEvent& a, const PrivacyEvent& b) {
  const Accountant::Line left{a, 1}, right{b, 1};
  return !Before(left, right) && !Before(right, left);
}

Result<double> RenyiEpsilon(const Accountant& account, Delta delta) {
  double worst = 0;
  for (const Model& m : Models(account, true)) {
    const double infinite = InfiniteUpper(m);
    double epsilon = kInf;
    // The largest loss is the divergence of order ∞.
    if (!m.open && delta.value() >= infinite) epsilon = m.most_loss;
    if (!m.open && delta.value() > infinite)
      epsilon =
          std::min(epsilon, RenyiEpsilon(Everything(m), (delta.value() - infinite) * (1 - 2 * kU), m.rho));
    worst = std::max(worst, epsilon);
  }
  return worst;
}

}  // namespace tacit
