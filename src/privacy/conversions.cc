#include "privacy/conversions.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <type_traits>
#include <utility>

#include "privacy/gdp.h"
#include "privacy/multiprecision.h"

namespace tacit {
namespace {

constexpr double kU = 0x1p-53;
using internal::Mp;

// ---- The normal distribution, with directed rounding.

// Φ(−x) = erfc(x/√2)/2.
double Tail(double x, bool up) {
  internal::FreeMpfrCacheAtThreadExit();
  Mp v(128), root(128);
  mpfr_sqrt_ui(root, 2, up == (x > 0) ? MPFR_RNDU : MPFR_RNDD);
  mpfr_d_div(v, x, root, up ? MPFR_RNDD : MPFR_RNDU);        // the smaller x/√2, the larger the tail
  mpfr_erfc(v, v, up ? MPFR_RNDU : MPFR_RNDD);
  mpfr_div_2ui(v, v, 1, MPFR_RNDN);
  return mpfr_get_d(v, up ? MPFR_RNDU : MPFR_RNDD);
}

// An x at or hardly beyond the one with Φ(−x) = tail, on the side asked for; 0 < tail < 1.
double Quantile(double tail, bool up) {
  using Quiet = boost::math::policies::policy<
      boost::math::policies::overflow_error<boost::math::policies::ignore_error>,
      boost::math::policies::domain_error<boost::math::policies::ignore_error>,
      boost::math::policies::evaluation_error<boost::math::policies::ignore_error>>;
  const double guess = M_SQRT2 * boost::math::erfc_inv(2 * tail, Quiet());
  if (!std::isfinite(guess)) return up ? kInf : -kInf;
  for (double step = 0; step < 1; step = step == 0 ? 0x1p-52 : 2 * step) {
    const double x = up ? guess + step * (1 + std::abs(guess)) : guess - step * (1 + std::abs(guess));
    if (up ? Tail(x, true) <= tail : Tail(x, false) >= tail) return x;
  }
  return up ? kInf : -kInf;
}

double GaussianTradeOff(double mu, double alpha) {
  if (alpha <= 0) return mu < kInf ? 1 : 0;
  if (alpha >= 1 || mu == kInf) return 0;
  const double at = Quantile(alpha, false);
  if (at == -kInf) return 0;
  return std::max(0.0, Tail(AddUp(mu, -at), false));
}

// ---- Groups.

// log of (e^{gx} − 1)/(e^x − 1) = (g − 1)x + log(1 − e^{−gx}) − log(1 − e^{−x}), rounded up. The number
// itself leaves the doubles already for moderate x.
double LogSteps(double size, double x) {
  if (size == 1) return 0;
  if (size * x < 1e-9) return (std::log(size) + size * x) * (1 + 8 * kU);  // a term is at most e^{(g − 1)x}
  const double grown = (size - 1) * x, far = std::log(-std::expm1(-size * x)),
               near = std::log(-std::expm1(-x));
  return grown + far - near + 32 * kU * (1 + grown - far - near);
}
double Steps(double size, double x) {  // ∞ where it is too large
  return std::exp(LogSteps(size, x)) * (1 + 16 * kU);
}

// δ of a group at size·each, at most, where that of one unit at `each` is at most `delta`. Curves are not
// followed below 1e-290: what has underflowed there is no bound that may be multiplied.
double WholeCurve(double size, double delta, double each) {
  delta = std::max(delta, 1e-290);
  const double log = std::log(delta) + LogSteps(size, each) + 1e-12;  // all rounding there is below 0
  return log >= 0 ? 1 : std::min(1.0, std::exp(log));
}

struct Grouped {
  std::optional<PrivacyEvent> event;
  bool exact = true;
};

// What the event costs a group. Sampled events: without regard to sampling, which holds but is not all.
Grouped ForGroup(const PrivacyEvent& event, std::uint32_t size) {
  const double g = size;
  const auto pure = [](double epsilon) { return Grouped{PureEvent{Epsilon::Proven(epsilon)}}; };
  const auto whole = [&](std::uint32_t sensitivity) -> std::optional<std::uint32_t> {
    const std::uint64_t product = std::uint64_t{sensitivity} * size;
    if (product > 0xffffffffU) return std::nullopt;
    return static_cast<std::uint32_t>(product);
  };
  return std::visit(
      [&](const auto& e) -> Grouped {
        using E = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<E, GaussianEvent> || std::is_same_v<E, JointGaussianEvent>) {
          return {JointGaussianEvent{Mu::Proven(MulUp(g, e.mu.value()))}};
        } else if constexpr (std::is_same_v<E, PoissonGaussianEvent> ||
                             std::is_same_v<E, FixedSizeGaussianEvent>) {
          const double mu = e.rate.value() > 0 ? MulUp(g, e.mu.value()) : 0;
          return {JointGaussianEvent{Mu::Proven(mu)}, false};
        } else if constexpr (std::is_same_v<E, DiscreteGaussianEvent>) {
          if (const auto s = whole(e.sensitivity))
            return {DiscreteGaussianEvent{.sigma = e.sigma, .sensitivity = *s, .dimension = e.dimension}};
          return {ZcdpEvent{Rho::Proven(MulUp(MulUp(g, g), ZcdpCost(e).value()))}};
        } else if constexpr (std::is_same_v<E, DistributedDiscreteGaussianEvent>) {
          DistributedDiscreteGaussianEvent out = e;
          const Result<L2Bound> bound = L2Bound::Of(MulUp(g, e.sensitivity.value()));
          if (!bound.ok()) return {NonPrivateEvent{}};
          out.sensitivity = *bound;
          return {out};
        } else if constexpr (std::is_same_v<E, LaplaceEvent>) {
          return {LaplaceEvent{Epsilon::Proven(MulUp(g, e.epsilon.value()))}};
        } else if constexpr (std::is_same_v<E, DiscreteLaplaceEvent>) {
          if (const auto s = whole(e.sensitivity))
            return {DiscreteLaplaceEvent{.epsilon_per_step = e.epsilon_per_step, .sensitivity = *s}};
          return pure(MulUp(g, PureCost(e).value()));
        } else if constexpr (std::is_same_v<E, ApproximateEvent>) {
          const double delta = e.delta.value() > 0 ? MulUp(e.delta.value(), Steps(g, e.epsilon.value())) : 0;
          if (!(delta < 1)) return {NonPrivateEvent{}};
          return {ApproximateEvent{Epsilon::Proven(MulUp(g, e.epsilon.value())), Delta::Proven(delta)}};
        } else if constexpr (std::is_same_v<E, ZcdpEvent>) {
          return {ZcdpEvent{Rho::Proven(MulUp(MulUp(g, g), e.rho.value()))}};
        } else if constexpr (std::is_same_v<E, RenyiEvent>) {
          return {std::nullopt, false};
        } else if constexpr (std::is_same_v<E, NonPrivateEvent>) {
          return {e};
        } else {
          return pure(MulUp(g, PureCost(e).value()));
        }
      },
      event);
}

}  // namespace

Result<PrivacyCurve> PrivacyCurve::Of(const Accountant& single, std::uint32_t size) {
  if (size < 1 || size > 1000000)
    return Fail(Code::kInvalidArgument, "a group of {}: its size must be from 1 to 10^6", size);
  PrivacyCurve out(single);
  out.size_ = size;
  double mu_squared = 0;
  bool gaussian = true;
  Accountant grouped(single.adjacency(), single.options());
  out.exact_ = true;
  bool all = true;
  for (const Accountant::Line& line : single.lines()) {
    if (std::holds_alternative<GaussianEvent>(line.event) ||
        std::holds_alternative<JointGaussianEvent>(line.event)) {
      const MuSquared each = Cost(line.event);
      mu_squared = AddUp(mu_squared, MulUp(static_cast<double>(line.count), each.value()));
    } else {
      gaussian = false;
    }
    const Grouped group = ForGroup(line.event, size);
    out.exact_ = out.exact_ && group.exact;
    all = all && group.event;
    if (group.event) TACIT_OK(grouped.Compose(*group.event, line.count));
  }
  if (size == 1) {
    grouped = single, all = true, out.exact_ = true;
  }
  if (all) out.grouped_ = std::move(grouped);
  if (gaussian) out.gaussian_ = Mu::Proven(MulUp(static_cast<double>(size), SqrtUp(mu_squared)));
  return out;
}

std::function<double(double)> PrivacyCurve::OneUnitNear(double delta) const {
  // Twice, since the number that δ is divided by depends on the ε.
  double level = delta / size_;
  for (int i = 0; i < 2; ++i) {
    const Result<Bracket> e = single_.EpsilonAt(Delta::Proven(level));
    if (!e.ok() || !std::isfinite(e->upper)) break;
    level = std::exp(std::max(std::log(delta) - LogSteps(size_, e->upper), std::log(1e-250)));
  }
  return single_.CurveNear(Delta::Proven(level));
}

std::function<double(double)> PrivacyCurve::CurveNear(Delta delta) const {
  std::function<double(double)> direct;
  if (grouped_) direct = grouped_->CurveNear(delta);
  if (exact_) return direct;
  return [size = size_, direct, one = OneUnitNear(delta.value())](double epsilon) {
    const double each = std::max(0.0, NextDown(epsilon / size)), whole = WholeCurve(size, one(each), each);
    return direct ? std::min(direct(epsilon), whole) : whole;
  };
}

Result<Bracket> PrivacyCurve::DeltaAt(Epsilon epsilon) const {
  Bracket out{0, 1, "the whole curve, for a group"};
  if (grouped_) {
    TACIT_TRY(out, grouped_->DeltaAt(epsilon));
    if (size_ > 1 && !gaussian_) out.lower = 0;
    if (!exact_) out.method = "the account without sampling";
  }
  if (size_ == 1 || gaussian_) return out;
  TACIT_TRY(const Bracket one, single_.DeltaAt(epsilon));
  out.lower = std::min(one.lower, out.upper);
  if (!exact_) {
    const double each = std::max(0.0, NextDown(epsilon.value() / size_));
    TACIT_TRY(const Bracket at, single_.DeltaAt(Epsilon::Proven(each)));
    const double whole = WholeCurve(size_, at.upper, each);
    if (whole < out.upper) {
      out.upper = whole, out.method = "the whole curve, for a group";
      out.lower = std::min(out.lower, out.upper);
    }
  }
  return out;
}

Result<Bracket> PrivacyCurve::EpsilonAt(Delta delta) const {
  Bracket out{0, kInf, "the whole curve, for a group"};
  if (grouped_) {
    TACIT_TRY(out, grouped_->EpsilonAt(delta));
    if (size_ > 1 && !gaussian_) out.lower = 0;
    if (!exact_) out.method = "the account without sampling";
  }
  if (size_ == 1 || gaussian_) return out;
  TACIT_TRY(const Bracket one, single_.EpsilonAt(delta));
  out.lower = std::min(one.lower, out.upper);
  if (exact_ || delta.value() == 0) return out;

  // Some ε of one unit at which the rule gives δ; a larger one than what is known already is of no use.
  // `high` holds and `low` does not: regula falsi with a bisection now and then.
  const double g = size_;
  const auto near = OneUnitNear(delta.value());
  const auto over = [&](double each) { return std::log(WholeCurve(g, near(each), each) / delta.value()); };
  TACIT_TRY(const Bracket least, single_.EpsilonAt(Delta::Proven(delta.value() / g)));
  double low = 0, high = std::max(least.upper, 1e-12), at_low = over(low), at_high = over(high);
  while (!(at_high <= 0)) {
    if (!(g * high < out.upper) || high > 1e12) return out;
    low = high, at_low = at_high;
    high *= 1.25, at_high = over(high);
  }
  for (int i = 0; i < 60 && at_low > 0 && high - low > 1e-9 * high; ++i) {
    double middle = 0.5 * (low + high);
    if (i % 3 != 2 && std::isfinite(at_low) && std::isfinite(at_high)) {
      const double width = high - low;
      middle =
          std::clamp(low + width * (at_low / (at_low - at_high)), low + 1e-3 * width, high - 1e-3 * width);
    }
    const double value = over(middle);
    if (value <= 0) {
      high = middle, at_high = value;
    } else {
      low = middle, at_low = value;
    }
  }
  if (!(at_low > 0)) high = low;
  if (const double epsilon = MulUp(g, high); epsilon < out.upper)
    out.upper = epsilon, out.method = "the whole curve, for a group",
    out.lower = std::min(out.lower, epsilon);
  return out;
}

// ---- Tests.

namespace {

double BetaFrom(double epsilon, double delta, double alpha) {
  const double grown = alpha == 0 ? 0 : std::exp(epsilon) * alpha;  // 0 times ∞ where e^ε overflows
  const double first = (1 - delta) - grown - 8 * kU * (1 + grown);
  const double second = std::exp(-epsilon) * ((1 - delta) - alpha - 4 * kU) * (1 - 8 * kU);
  return std::max({0.0, first, second});
}

// Pieces of the curve that follow one another: each is narrow near its ε.
struct Piece {
  double epsilon;
  std::function<double(double)> delta;
};
Result<std::vector<Piece>> Pieces(const PrivacyCurve& curve) {
  std::vector<Piece> out;
  TACIT_TRY(const Bracket zero, curve.DeltaAt(Epsilon{0.0}));
  out.push_back({0, [zero](double) { return zero.upper; }});
  for (const double delta : {0.9, 0.7, 0.4, 0.2, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6, 1e-9, 1e-13}) {
    if (delta >= zero.upper) continue;
    TACIT_TRY(const Bracket e, curve.EpsilonAt(Delta::Proven(delta)));
    if (std::isfinite(e.upper)) out.push_back({e.upper, curve.CurveNear(Delta::Proven(delta))});
  }
  TACIT_TRY(const Bracket pure, curve.EpsilonAt(Delta{0.0}));
  if (std::isfinite(pure.upper))
    out.push_back({pure.upper, [pure](double at) { return at >= pure.upper ? 0.0 : 1.0; }});
  return out;
}

// The largest f(x) on [low, high], for a concave f; every value is valid.
template <class F>
double Largest(double low, double high, F f) {
  constexpr double kGolden = 0.6180339887498949;
  double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
  double at_left = f(left), at_right = f(right), best = std::max({f(low), f(high), at_left, at_right});
  for (int i = 0; i < 30 && high - low > 1e-6 * (1 + high); ++i) {
    if (at_left > at_right) {
      high = std::exchange(right, left), at_right = at_left;
      at_left = f(left = high - kGolden * (high - low));
    } else {
      low = std::exchange(left, right), at_left = at_right;
      at_right = f(right = low + kGolden * (high - low));
    }
    best = std::max({best, at_left, at_right});
  }
  return best;
}

}  // namespace

Result<std::vector<double>> TradeOff(const PrivacyCurve& curve, std::span<const double> alphas) {
  for (const double alpha : alphas)
    if (!(alpha >= 0 && alpha <= 1))
      return Fail(Code::kInvalidArgument, "alpha = {}: a test's level must be in [0, 1]", alpha);
  std::vector<double> out;
  if (const std::optional<Mu> mu = curve.gaussian()) {
    for (const double alpha : alphas) out.push_back(GaussianTradeOff(mu->value(), alpha));
    return out;
  }
  TACIT_TRY(const std::vector<Piece> pieces, Pieces(curve));
  for (const double alpha : alphas) {
    const auto beta = [&](const Piece& p, double epsilon) {
      return BetaFrom(epsilon, p.delta(epsilon), alpha);
    };
    std::size_t at = 0;
    double best = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (const double value = beta(pieces[i], pieces[i].epsilon); value > best) best = value, at = i;
    // Both bounds are concave, in e^ε and e^{−ε}: the best ε is between the neighbours of the best piece. The
    // first piece is a point, and so may the last one be; those beside them reach there.
    if (best > 0) {
      const std::size_t from = at > 0 ? at - 1 : at, to = std::min(at + 1, pieces.size() - 1);
      for (std::size_t i = from; i < to; ++i)
        for (const Piece& p : {pieces[i], pieces[i + 1]})
          if (p.epsilon > 0)
            best = std::max(best, Largest(pieces[i].epsilon, pieces[i + 1].epsilon,
                                          [&](double epsilon) { return beta(p, epsilon); }));
    }
    out.push_back(std::min(best, std::max(0.0, NextDown(1 - alpha))));
  }
  return out;
}

// ---- Beliefs.

namespace {

// An ε ≥ 0 that the loss passes with probability δ at most. For x < ε, δ(x) ≥ (1 − e^{x − ε}) P(L > ε), so
// ε = x − log(1 − δ(x)/δ) will do for every x with δ(x) < δ.
Result<double> LossBound(const PrivacyCurve& curve, double delta) {
  if (const std::optional<Mu> mu = curve.gaussian()) {  // L ~ N(μ²/2, μ²)
    const double m = mu->value();
    if (m == 0) return 0.0;
    if (delta == 0 || !(m < 1e150)) return kInf;
    return std::max(0.0, AddUp(MulUp(0.5, MulUp(m, m)), MulUp(m, Quantile(delta, true))));
  }
  TACIT_TRY(const Bracket pure, curve.EpsilonAt(Delta{0.0}));
  double best = pure.upper;
  if (delta == 0) return best;
  const auto near = curve.CurveNear(Delta::Proven(0.05 * delta));
  TACIT_TRY(const Bracket start, curve.EpsilonAt(Delta::Proven(delta)));
  if (!std::isfinite(start.upper)) return best;
  // From where the curve is δ to where it is a thousandth of that; the best x is between.
  double reach = 1e-6 * (1 + start.upper);
  while (near(start.upper + reach) > 1e-3 * delta && reach < 1e3 * (1 + start.upper)) reach *= 2;
  for (int i = 0; i <= 200; ++i) {
    const double x = start.upper + reach * i / 200;
    const double share = near(x) / delta * (1 + 4 * kU);
    if (share < 0.999) best = std::min(best, AddUp(x, -std::log1p(-share) * (1 + 4 * kU)));
  }
  return best;
}

}  // namespace

Result<Belief> BeliefAfter(const PrivacyCurve& curve, Probability prior, Delta delta) {
  const double pi = prior.value(), floor = std::max(pi, 1e-300);  // a larger prior is on the safe side
  Belief out;
  TACIT_TRY(const Bracket zero, curve.DeltaAt(Epsilon{0.0}));
  out.advantage = zero.upper;
  if (pi == 0 || pi == 1) {  // nothing can change the mind
    out.posterior = pi, out.success = 1;
    return out;
  }
  TACIT_TRY(const double loss, LossBound(curve, delta.value()));
  const double against =
      std::exp(-loss) * ((1 - floor) / floor) * (1 - 8 * kU) * (1 - 4 * kU * std::min(loss, 1e9));
  out.posterior = std::min(1.0, 1 / (1 + std::max(0.0, against)) * (1 + 4 * kU));
  // Guess D where the odds favour it: π P(S) + (1 − π)(1 − Q(S)), whose largest value is (1 − π) + π δ(ε)
  // with e^ε = (1 − π)/π; the same with the two exchanged where that is negative.
  const double less = std::min(pi, 1 - pi);
  const double odds = std::max(0.0, std::abs(std::log((1 - pi) / pi)) * (1 - 8 * kU) - 8 * kU);
  TACIT_TRY(const Bracket d, curve.DeltaAt(Epsilon::Proven(odds)));
  out.success = std::min(1.0, ((1 - less) + less * d.upper) * (1 + 4 * kU));
  return out;
}

}  // namespace tacit
