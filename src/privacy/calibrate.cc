#include "privacy/calibrate.h"

#include <algorithm>
#include <array>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <type_traits>
#include <utility>

#include "privacy/event_json.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

constexpr double kTolerance = 1e-9;

// Boost must not throw; its iterations are bounded, and what it returns is checked.
using Quiet = boost::math::policies::policy<
    boost::math::policies::domain_error<boost::math::policies::ignore_error>,
    boost::math::policies::evaluation_error<boost::math::policies::ignore_error>>;

// One evaluation: x with its account's bracket; upper = ∞ where the mechanism does not reach.
struct Point {
  double x = 0;
  Bracket epsilon;
};

// Searches in u = log x, along which log ε is nearly a line: ε is close to a power of the noise, of the rate
// and of the rounds.
class Search {
 public:
  Search(const Family& family, Epsilon target, Delta delta)
      : family_(family), target_(target.value()), delta_(delta) {}

  Result<Calibration> Run() {
    const double guess = std::isfinite(family_.guess) ? family_.guess : family_.high;
    double at = Snapped(std::clamp(guess, family_.low, family_.high)), value = 0;
    TACIT_TRY(value, First(at));
    // From the guess towards the edge of the budget, by steps that aim a little beyond it.
    const bool towards_more = (value > 0) == family_.falls;
    double before = 0, value_before = 0, step = family_.first_step;
    for (;;) {
      const double end = towards_more ? family_.high : family_.low;
      if (at == end) {
        if (value > 0) return Refused();
        return Done(at, true);
      }
      const double aimed = std::clamp(1.5 * std::abs(value), step, std::max(step, 4.0));
      const double next = Snapped(std::exp(std::log(at) + (towards_more ? aimed : -aimed)));
      before = at, value_before = value;
      at = towards_more ? std::min(end, family_.whole ? std::max(next, at + 1) : next)
                        : std::max(end, family_.whole ? std::min(next, at - 1) : next);
      value = At(at);
      if ((value > 0) != (value_before > 0)) break;
      step = std::max(2 * step, 1e-3);
    }
    return Between(before, value_before, at, value);
  }

 private:
  double Snapped(double x) const { return family_.whole ? std::floor(x) : x; }

  // log(ε/target) within ±40, above 0 where the budget is passed and below where it is kept: never 0.
  double Value(const Bracket& epsilon) const {
    const double ratio = target_ > 0 ? std::log(epsilon.upper / target_) : epsilon.upper > 0 ? 1.0 : -1.0;
    if (epsilon.upper <= target_) return std::min(std::max(ratio, -40.0), -1e-300);
    return std::max(std::min(ratio, 40.0), 1e-300);
  }
  Result<double> First(double x) {
    TACIT_TRY(const Accountant account, family_.account(x));
    TACIT_TRY(Bracket epsilon, account.EpsilonAt(delta_));
    points_.push_back({x, std::move(epsilon)});
    return Value(points_.back().epsilon);
  }
  double At(double x) {
    for (const Point& p : points_)
      if (p.x == x) return Value(p.epsilon);
    if (const Result<double> value = First(x); value.ok()) return *value;
    points_.push_back({x, {0, kInf, "out of the mechanism's range"}});
    return 40;
  }

  Result<Calibration> Between(double a, double value_a, double b, double value_b) {
    if (a > b) std::swap(a, b), std::swap(value_a, value_b);
    const auto x = [this](double u) { return Snapped(std::exp(u)); };
    const auto near = [&](double from, double to) {
      return family_.whole ? to - from <= 1 : to - from <= kTolerance * from;
    };
    if (!near(a, b)) {
      boost::uintmax_t iterations = 60;
      const auto ends = boost::math::tools::toms748_solve(
          [&](double u) { return At(std::clamp(x(u), a, b)); }, std::log(a), std::log(b), value_a, value_b,
          [&](double from, double to) { return near(x(from), x(to)) || !(to - from > 1e-15); }, iterations,
          Quiet());
      (void)ends;  // what was evaluated is kept, which is what counts
      Closest(a, b);
    }
    while (!near(a, b)) {  // where the iterations ran out, or log x is too coarse
      const double middle = Snapped(a + 0.5 * (b - a));
      if (!(middle > a && middle < b)) break;
      At(middle);
      Closest(a, b);
    }
    return Done((Kept(a)) ? a : b, false);
  }
  bool Kept(double x) { return At(x) < 0; }
  // The neighbouring pair of evaluated points, one kept and one not, that lies in [a, b] and is narrowest.
  void Closest(double& a, double& b) {
    std::sort(points_.begin(), points_.end(), [](const Point& l, const Point& r) { return l.x < r.x; });
    double best = kInf;
    const double low = a, high = b;
    for (std::size_t i = 0; i + 1 < points_.size(); ++i) {
      const Point &l = points_[i], &r = points_[i + 1];
      if (l.x < low || r.x > high || (Value(l.epsilon) > 0) == (Value(r.epsilon) > 0)) continue;
      // The kept one must be on the private side.
      if ((Value(r.epsilon) < 0) != family_.falls) continue;
      if (r.x / l.x < best) best = r.x / l.x, a = l.x, b = r.x;
    }
  }
  Result<Calibration> Done(double x, bool at_end) {
    Calibration out{
        .value = x, .epsilon = {}, .at_end = at_end, .evaluations = static_cast<int>(points_.size())};
    for (Point& p : points_)
      if (p.x == x) out.epsilon = p.epsilon;
    TACIT_CHECK(out.epsilon.upper <= target_);
    return out;
  }
  Result<Calibration> Refused() const {
    return Fail(Code::kBudget, "epsilon = {}, delta = {}: {} keeps this budget; raise one of them{}", target_,
                delta_.value(), family_.whole ? "not even one round" : "nothing in reach",
                family_.falls ? "" : ", or add noise");
  }

  const Family& family_;
  double target_;
  Delta delta_;
  std::vector<Point> points_;
};

// μ that the budget allows; tiny rather than 0, so that guesses stay finite.
double MuOf(Epsilon epsilon, Delta delta) {
  if (delta.value() == 0 || epsilon.value() > 1e100) return epsilon.value() > 1e100 ? 1e50 : 1e-12;
  return std::max(GdpMu(epsilon, delta).value(), 1e-12);
}
// μ of one round, as the central limit has it for Poisson samples (Bu, Dong, Long, Su 2020): for guesses.
double RoundMu(double rate, double multiplier) {
  if (rate == 1) return 1 / multiplier;
  return rate * std::sqrt(std::expm1(std::min(1 / (multiplier * multiplier), 600.0)));
}

}  // namespace

Result<Calibration> Calibrate(const Family& family, Epsilon epsilon, Delta delta) {
  if (!(epsilon.value() < kInf))
    return Fail(Code::kInvalidArgument, "epsilon = {}: a budget is a finite number", epsilon.value());
  return Search(family, epsilon, delta).Run();
}

const std::vector<std::string>& ReleaseKindNames() {
  static const std::vector<std::string> names = {
      "gaussian", "discrete-gaussian",   "laplace",   "discrete-laplace",
      "pure",     "randomised-response", "priv-unit", "scalar-dp"};
  return names;
}
const char* Name(ReleaseKind m) { return ReleaseKindNames()[static_cast<std::size_t>(m)].c_str(); }
Result<ReleaseKind> ParseReleaseKind(std::string_view name) {
  std::string all;
  for (std::size_t i = 0; i < ReleaseKindNames().size(); ++i) {
    if (name == ReleaseKindNames()[i]) return static_cast<ReleaseKind>(i);
    all += (i == 0 ? "" : ", ") + ReleaseKindNames()[i];
  }
  return Fail(Code::kInvalidArgument, "mechanism = {}: must be one of {}", name, all);
}

bool NoiseFalls(ReleaseKind m) { return m == ReleaseKind::kGaussian || m == ReleaseKind::kDiscreteGaussian; }

Result<Accountant> AccountOf(const ReleasePlan& r) {
  TACIT_TRY(const std::uint64_t count, ParseCount(r.rounds, "rounds"));
  if (r.rate && r.mechanism != ReleaseKind::kGaussian)
    return Fail(Code::kUnsupported, "rate = {}: of sampled releases, only Gaussian ones are accounted for",
                *r.rate);
  Accountant out(r.adjacency);
  const auto add = [&](const PrivacyEvent& event) { return out.Compose(event, count); };
  if (r.mechanism == ReleaseKind::kGaussian) {
    TACIT_TRY(const NoiseMultiplier z, NoiseMultiplier::Of(r.noise));
    TACIT_TRY(const Mu mu, Mu::Of(DivUp(1, z.value())));
    if (!r.rate) {
      TACIT_OK(add(JointGaussianEvent{mu}));
      return out;
    }
    if (!(*r.rate > 0 && *r.rate <= 1))
      return Fail(Code::kInvalidArgument, "rate = {}: the share that is sampled must be in (0, 1]", *r.rate);
    TACIT_TRY(const Probability q, Probability::Of(*r.rate));
    TACIT_OK(r.fixed_size ? add(FixedSizeGaussianEvent{q, mu}) : add(PoissonGaussianEvent{q, mu}));
    return out;
  }
  if (r.mechanism == ReleaseKind::kDiscreteGaussian) {
    TACIT_TRY(const NoiseStd sigma, NoiseStd::Of(r.noise));
    if (r.sensitivity < 1 || r.dimension < 1 || r.dimension > 0xffffffffU)
      return Fail(Code::kInvalidArgument,
                  "sensitivity = {}, dimension = {}: must be whole numbers in [1, 2^32)", r.sensitivity,
                  r.dimension);
    TACIT_OK(add(DiscreteGaussianEvent{sigma, r.sensitivity, static_cast<std::uint32_t>(r.dimension)}));
    return out;
  }
  if (!(r.noise > 0 && r.noise < kInf))
    return Fail(Code::kInvalidArgument, "epsilon of one release = {}: must be positive and finite", r.noise);
  const Epsilon epsilon = Epsilon::Proven(r.noise);
  switch (r.mechanism) {
    case ReleaseKind::kLaplace: TACIT_OK(add(LaplaceEvent{epsilon})); break;
    case ReleaseKind::kDiscreteLaplace: {
      if (r.sensitivity < 1)
        return Fail(Code::kInvalidArgument, "sensitivity = 0: must be a whole number of lattice steps");
      TACIT_TRY(const Epsilon step, Epsilon::Of(DivUp(r.noise, r.sensitivity)));
      TACIT_OK(add(DiscreteLaplaceEvent{step, r.sensitivity}));
      break;
    }
    case ReleaseKind::kRandomizedResponse:
      TACIT_OK(add(RandomizedResponseEvent{epsilon, r.categories}));
      break;
    case ReleaseKind::kScalarDp: TACIT_OK(add(ScalarDpEvent{epsilon})); break;
    case ReleaseKind::kPrivUnit: {
      if (!(r.scalar_share >= 0 && r.scalar_share < 1))
        return Fail(Code::kInvalidArgument, "share of the length = {}: must be in [0, 1)", r.scalar_share);
      TACIT_TRY(const Epsilon direction, Epsilon::Of(r.noise * (1 - r.scalar_share)));
      TACIT_TRY(const PrivUnitEvent unit, OptimalPrivUnit(direction, r.dimension));
      TACIT_OK(add(unit));
      if (r.scalar_share > 0) {
        TACIT_TRY(const Epsilon scalar, Epsilon::Of(r.noise * r.scalar_share));
        TACIT_OK(add(ScalarDpEvent{scalar}));
      }
      break;
    }
    default: TACIT_OK(add(PureEvent{epsilon}));
  }
  return out;
}

Result<Calibration> CalibrateNoise(const ReleasePlan& releases, Epsilon epsilon, Delta delta) {
  ReleasePlan r = releases;
  TACIT_TRY(const std::uint64_t count, ParseCount(r.rounds, "rounds"));
  const double mu = MuOf(epsilon, delta), root = std::sqrt(static_cast<double>(count)), t = r.rounds;
  Family family;
  family.account = [r](double x) mutable {
    r.noise = x;
    return AccountOf(r);
  };
  family.falls = NoiseFalls(r.mechanism);
  switch (r.mechanism) {
    case ReleaseKind::kGaussian: {
      const double q = r.rate.value_or(1), ratio = mu / (q * root);
      family.guess = q == 1 ? root / mu * (1 + 1e-15) : 1 / std::sqrt(std::log1p(ratio * ratio));
      family.first_step = q == 1 ? kTolerance / 4 : 0.05;
      break;
    }
    case ReleaseKind::kDiscreteGaussian:
      family.low = 0.05, family.high = 1e12;
      family.guess = r.sensitivity * root / mu;
      break;
    default:
      family.low = 1e-15, family.high = 1e6;
      if (r.mechanism == ReleaseKind::kPrivUnit)  // OptimalPrivUnit takes directions up to 100
        family.low = 1e-6, family.high = 100 / (1 - std::clamp(r.scalar_share, 0.0, 0.99));
      family.guess = std::max(epsilon.value() / t, delta.value() > 0 ? mu / root : 0.0);
      if (delta.value() == 0 || count == 1) family.first_step = kTolerance / 4;
  }
  r.noise = std::clamp(family.guess, family.low, family.high);
  TACIT_TRY(const Accountant probe, AccountOf(r));  // what is wrong with the other numbers is said before
  return Calibrate(family, epsilon, delta);
}

Result<Calibration> CalibrateRounds(const ReleasePlan& releases, Epsilon epsilon, Delta delta) {
  ReleasePlan r = releases;
  r.rounds = 1;
  TACIT_TRY(const Accountant one, AccountOf(r));
  const double mu = MuOf(epsilon, delta);
  Family family;
  family.account = [r](double x) mutable {
    r.rounds = x;
    return AccountOf(r);
  };
  family.falls = false, family.whole = true, family.low = 1, family.high = 1e15;
  double each = r.noise, least = epsilon.value() / r.noise;
  if (r.mechanism == ReleaseKind::kGaussian) each = RoundMu(r.rate.value_or(1), r.noise), least = 1;
  if (r.mechanism == ReleaseKind::kDiscreteGaussian) each = r.sensitivity / r.noise, least = 1;
  family.guess = std::max(least, delta.value() > 0 ? mu / each * (mu / each) : 1.0);
  family.first_step = 0.02;
  return Calibrate(family, epsilon, delta);
}

Result<Calibration> CalibrateRate(const ReleasePlan& releases, Epsilon epsilon, Delta delta) {
  ReleasePlan r = releases;
  r.rate = 1;
  TACIT_TRY(const Accountant whole, AccountOf(r));
  Family family;
  family.account = [r](double x) mutable {
    r.rate = x;
    return AccountOf(r);
  };
  family.falls = false, family.low = 1e-12, family.high = 1;
  // At the rate 1 the account is another one, and cheap; the guess stays below it.
  TACIT_TRY(Bracket all, whole.EpsilonAt(delta));
  if (all.upper <= epsilon.value())
    return Calibration{.value = 1, .epsilon = std::move(all), .at_end = true, .evaluations = 1};
  family.guess = std::min(0.9, MuOf(epsilon, delta) / (std::sqrt(r.rounds) * RoundMu(0.5, r.noise) / 0.5));
  return Calibrate(family, epsilon, delta);
}

Result<Accountant> WithNoiseScaled(const Accountant& account, double factor) {
  if (!(factor > 0 && factor < kInf))
    return Fail(Code::kInvalidArgument, "factor = {}: noise is scaled by a positive number", factor);
  Accountant out(account.adjacency(), account.options());
  const auto mu = [&](Mu m) { return Mu::Proven(DivUp(m.value(), factor)); };
  const auto epsilon = [&](Epsilon e) { return Epsilon::Proven(DivUp(e.value(), factor)); };
  const auto sigma = [&](NoiseStd s) {  // rounded down
    const double scaled = s.value() * factor;
    return NoiseStd::Of(std::fma(s.value(), factor, -scaled) < 0 ? NextDown(scaled) : scaled);
  };
  for (const Accountant::Line& line : account.lines()) {
    TACIT_TRY(const PrivacyEvent event,
              std::visit(
                  [&](auto e) -> Result<PrivacyEvent> {
                    using E = std::decay_t<decltype(e)>;
                    if constexpr (std::is_same_v<E, GaussianEvent>) {
                      TACIT_TRY(const NoiseStd s, sigma(e.sigma));
                      e.mu = mu(e.mu), e.sigma = s;
                    } else if constexpr (std::is_same_v<E, JointGaussianEvent> ||
                                         std::is_same_v<E, PoissonGaussianEvent> ||
                                         std::is_same_v<E, FixedSizeGaussianEvent>) {
                      e.mu = mu(e.mu);
                    } else if constexpr (std::is_same_v<E, DiscreteGaussianEvent> ||
                                         std::is_same_v<E, DistributedDiscreteGaussianEvent>) {
                      TACIT_TRY(const NoiseStd s, sigma(e.sigma));
                      e.sigma = s;
                    } else if constexpr (std::is_same_v<E, LaplaceEvent>) {
                      e.epsilon = epsilon(e.epsilon);
                    } else if constexpr (std::is_same_v<E, DiscreteLaplaceEvent>) {
                      e.epsilon_per_step = epsilon(e.epsilon_per_step);
                    }
                    return PrivacyEvent(e);
                  },
                  line.event));
    TACIT_OK(out.Compose(event, line.count));
  }
  return out;
}

std::size_t UnscaledKinds(const Accountant& account) {
  return static_cast<std::size_t>(
      std::count_if(account.lines().begin(), account.lines().end(), [](const Accountant::Line& line) {
        return std::visit(
            [](const auto& e) {
              using E = std::decay_t<decltype(e)>;
              return !(std::is_same_v<E, GaussianEvent> || std::is_same_v<E, JointGaussianEvent> ||
                       std::is_same_v<E, PoissonGaussianEvent> || std::is_same_v<E, FixedSizeGaussianEvent> ||
                       std::is_same_v<E, DiscreteGaussianEvent> ||
                       std::is_same_v<E, DistributedDiscreteGaussianEvent> ||
                       std::is_same_v<E, LaplaceEvent> || std::is_same_v<E, DiscreteLaplaceEvent>);
            },
            line.event);
      }));
}

Result<Accountant> Repeated(const Accountant& account, double times) {
  TACIT_TRY(const std::uint64_t n, ParseCount(times, "times"));
  Accountant out(account.adjacency(), account.options());
  for (const Accountant::Line& line : account.lines()) {
    if (line.count > 1000000000000000 / n)
      return Fail(Code::kUnsupported, "{} times {} releases: at most 10^15 of a kind are composed", n,
                  line.count);
    TACIT_OK(out.Compose(line.event, line.count * n));
  }
  return out;
}

Result<Calibration> CalibrateScale(const Accountant& account, Epsilon epsilon, Delta delta) {
  if (UnscaledKinds(account) == account.lines().size())
    return Fail(Code::kInvalidArgument,
                "none of the events has noise to scale; those that have are Gaussian, sampled, discrete and "
                "Laplace ones");
  Family family;
  family.account = [&account](double x) { return WithNoiseScaled(account, x); };
  family.low = 1e-12, family.high = 1e12;
  TACIT_TRY(const Bracket now, account.EpsilonAt(delta));
  if (std::isfinite(now.upper) && now.upper > 0 && epsilon.value() > 0)
    family.guess = std::clamp(now.upper / epsilon.value(), 1e-2, 1e6);
  Result<Calibration> found = Calibrate(family, epsilon, delta);
  if (!found.ok() && found.error().code == Code::kBudget && UnscaledKinds(account) > 0)
    return Fail(
        Code::kBudget,
        "epsilon = {}, delta = {}: what has no noise to scale costs more than that alone; raise one of "
        "them, or change those events",
        epsilon.value(), delta.value());
  return found;
}

Result<Calibration> CalibrateRepeats(const Accountant& account, Epsilon epsilon, Delta delta) {
  std::uint64_t most = 1;
  for (const Accountant::Line& line : account.lines()) most = std::max(most, line.count);
  Family family;
  family.account = [&account](double x) { return Repeated(account, x); };
  family.falls = false, family.whole = true, family.low = 1;
  family.high = std::floor(1e15 / static_cast<double>(most));
  return Calibrate(family, epsilon, delta);
}

}  // namespace tacit
