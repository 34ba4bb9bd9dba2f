#include "privacy/compare.h"

#include <algorithm>
#include <cmath>

#include "privacy/gdp.h"

namespace tacit {
namespace {

// ρ of an event; ∞ for those without one, and for samples, which zCDP does not see.
double RhoOf(const PrivacyEvent& event) {
  const auto* poisson = std::get_if<PoissonGaussianEvent>(&event);
  const auto* fixed = std::get_if<FixedSizeGaussianEvent>(&event);
  if ((poisson != nullptr && poisson->rate.value() < 1) || (fixed != nullptr && fixed->rate.value() < 1))
    return kInf;
  return ZcdpCost(event).value();
}

// What a part of δ is, rounded down.
Delta Share(double delta, double parts) { return Delta::Proven(delta / parts * (1 - 0x1p-50)); }

// What follows from the (ε_i, δ_i) of the single releases.
struct Generic {
  double basic = 0, advanced = 0, optimal = kInf;
};
// `useful`: an optimal composition that is certainly above that is left out.
Result<Generic> Generically(const Accountant& account, Delta delta, double useful) {
  struct Part {
    double count, pure;  // ε at δ = 0, or ∞
    Accountant one;
  };
  std::vector<Part> parts;
  double shared = 0;  // releases that need a share of δ
  for (const Accountant::Line& line : account.lines()) {
    Part part{static_cast<double>(line.count), kInf, Accountant(account.adjacency(), account.options())};
    TACIT_OK(part.one.Compose(line.event));
    TACIT_TRY(const Bracket alone, part.one.EpsilonAt(Delta(0.0)));
    part.pure = alone.upper;
    if (!std::isfinite(part.pure)) shared += part.count;
    parts.push_back(std::move(part));
  }
  // Sums of what single releases cost when `delta_share` is divided among those that need some of it.
  struct Sums {
    double epsilon = 0, square = 0, drift = 0, mean = 0;
  };
  Accountant generic(account.adjacency(), account.options());
  const auto sums = [&](double share, bool compose) -> Result<Sums> {
    Sums out;
    for (const Part& part : parts) {
      double each = part.pure;
      Delta each_delta(0.0);
      if (!std::isfinite(each)) {
        each_delta = Share(share, shared);
        TACIT_TRY(const Bracket alone, part.one.EpsilonAt(each_delta));
        each = alone.upper;
      }
      out.epsilon = AddUp(out.epsilon, MulUp(part.count, each));
      out.square = AddUp(out.square, MulUp(part.count, MulUp(each, each)));
      out.drift = AddUp(out.drift, MulUp(part.count, MulUp(each, std::expm1(each) * (1 + 0x1p-50))));
      out.mean += part.count * each * std::tanh(each / 2);
      if (!compose) continue;
      TACIT_OK(generic.Compose(ApproximateEvent{Epsilon::Proven(each), each_delta},
                               static_cast<std::uint64_t>(part.count)));
    }
    return out;
  };
  const double d = delta.value(), rest = shared > 0 ? d / 2 : d;
  TACIT_TRY(const Sums all, sums(d, false));
  TACIT_TRY(const Sums half, sums(d / 2, true));
  Generic out;
  out.basic = all.epsilon;
  out.advanced =
      rest > 0 ? AddUp(std::sqrt(2 * std::log(1 / rest) * half.square) * (1 + 0x1p-48), half.drift) : kInf;
  // The mean of the loss is passed with a probability that is hardly below one half.
  if (!(d < 0.1 && half.mean > useful)) {
    TACIT_TRY(const Bracket optimal, generic.EpsilonAt(delta));
    out.optimal = optimal.upper;
  }
  return out;
}

}  // namespace

bool KnownByRenyi(const PrivacyEvent& event) {
  if (const auto* e = std::get_if<DiscreteGaussianEvent>(&event))
    return e->dimension > 1 || e->sigma.value() > 1e4;
  return std::holds_alternative<ZcdpEvent>(event) || std::holds_alternative<RenyiEvent>(event) ||
         std::holds_alternative<DistributedDiscreteGaussianEvent>(event);
}

Status Tighten(const Accountant& account, Delta delta, Bracket& epsilon) {
  bool several = account.lines().size() > 1, generic = true, renyi = false, other = false;
  for (const Accountant::Line& line : account.lines()) {
    several = several || line.count > 1;
    generic = generic && (std::holds_alternative<PureEvent>(line.event) ||
                          std::holds_alternative<ApproximateEvent>(line.event));
    (KnownByRenyi(line.event) ? renyi : other) = true;
  }
  if (!several || generic || delta.value() == 0)
    return Ok{};  // there is nothing to compose, or to take apart
  const auto take = [&](double upper, const char* method) {
    if (upper < epsilon.upper) epsilon.upper = upper, epsilon.method = method;
  };
  TACIT_TRY(const Generic rows, Generically(account, delta, epsilon.upper));
  take(rows.basic, "basic composition");
  take(rows.advanced, "advanced composition");
  take(rows.optimal, "optimal composition of (ε, δ)");
  if (renyi && other) {
    Accountant block(account.adjacency(), account.options()), rest = block;
    for (const Accountant::Line& line : account.lines())
      TACIT_OK((KnownByRenyi(line.event) ? block : rest).Compose(line.event, line.count));
    for (const double share : {0.5, 0.1, 0.01}) {
      const Delta part = Delta::Proven(delta.value() * share);
      TACIT_TRY(const Bracket alone, block.EpsilonAt(part));
      if (!(alone.upper < epsilon.upper)) continue;
      Accountant whole = rest;
      TACIT_OK(whole.Compose(ApproximateEvent{Epsilon::Proven(alone.upper), part}));
      TACIT_TRY(const Bracket together, whole.EpsilonAt(delta));
      take(together.upper, "losses, with Rényi divergences for a share of delta");
    }
  }
  epsilon.lower = std::min(epsilon.lower, epsilon.upper);
  return Ok{};
}

Result<std::vector<Comparison>> Compare(const Accountant& account, Delta delta, const Bracket& exact) {
  double rho = 0;
  for (const Accountant::Line& line : account.lines())
    rho = AddUp(rho, MulUp(static_cast<double>(line.count), RhoOf(line.event)));
  TACIT_TRY(const Generic rows, Generically(account, delta, kInf));
  TACIT_TRY(const double renyi, RenyiEpsilon(account, delta));
  const bool concentrated = std::isfinite(rho);
  std::vector<Comparison> out = {
      {"basic", "basic composition", rows.basic, true},
      {"advanced", "advanced composition", rows.advanced, true},
      {"optimal", "optimal composition of (ε, δ)", rows.optimal, true},
      {"zcdp", "zCDP", concentrated && delta.value() > 0 ? ZcdpEpsilon(Rho::Proven(rho), delta) : kInf,
       concentrated},
      {"rdp", "Rényi divergences", renyi, true}};
  Comparison best{"exact", exact.method, exact.upper, true};
  for (const Comparison& c : out)
    if (c.applies && c.epsilon < best.epsilon) best.epsilon = c.epsilon, best.title = c.title;
  out.push_back(std::move(best));
  return out;
}

}  // namespace tacit
