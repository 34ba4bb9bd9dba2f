#include "privacy/compare.h"

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

}  // namespace

Result<std::vector<Comparison>> Compare(const Accountant& account, Delta delta, const Bracket& exact) {
  struct Part {
    double count, pure;  // ε at δ = 0, or ∞
    Accountant one;
  };
  std::vector<Part> parts;
  double shared = 0;  // releases that need a share of δ
  double rho = 0;
  for (const Accountant::Line& line : account.lines()) {
    Part part{static_cast<double>(line.count), kInf, Accountant(account.adjacency(), account.options())};
    TACIT_OK(part.one.Compose(line.event));
    TACIT_TRY(const Bracket alone, part.one.EpsilonAt(Delta(0.0)));
    part.pure = alone.upper;
    if (!std::isfinite(part.pure)) shared += part.count;
    rho = AddUp(rho, MulUp(part.count, RhoOf(line.event)));
    parts.push_back(std::move(part));
  }
  // Sums of what single releases cost when `delta_share` is divided among those that need some of it.
  struct Sums {
    double epsilon = 0, square = 0, drift = 0;
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
      if (!compose) continue;
      TACIT_OK(generic.Compose(ApproximateEvent{Epsilon::Proven(each), each_delta},
                               static_cast<std::uint64_t>(part.count)));
    }
    return out;
  };
  const double d = delta.value(), rest = shared > 0 ? d / 2 : d;
  TACIT_TRY(const Sums all, sums(d, false));
  TACIT_TRY(const Sums half, sums(d / 2, true));
  const double advanced =
      rest > 0 ? AddUp(std::sqrt(2 * std::log(1 / rest) * half.square) * (1 + 0x1p-48), half.drift) : kInf;
  TACIT_TRY(const Bracket optimal, generic.EpsilonAt(delta));
  TACIT_TRY(const double renyi, RenyiEpsilon(account, delta));
  const bool concentrated = std::isfinite(rho);
  return std::vector<Comparison>{
      {"basic", "basic composition", all.epsilon, true},
      {"advanced", "advanced composition", advanced, true},
      {"optimal", "optimal composition of (ε, δ)", optimal.upper, true},
      {"zcdp", "zCDP", concentrated && d > 0 ? ZcdpEpsilon(Rho::Proven(rho), delta) : kInf, concentrated},
      {"rdp", "Rényi divergences", renyi, true},
      {"exact", exact.method, exact.upper, true}};
}

}  // namespace tacit
