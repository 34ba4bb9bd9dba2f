#include "privacy/priv_unit.h"

#include <algorithm>
#include <cmath>

#include "privacy/lattice_sampler.h"

namespace tacit {
namespace {

constexpr double kLatticeScale = 0x1p34;  // 1/g
constexpr double kGrid = 1 / kLatticeScale;
constexpr double kMostDraws = 0x1p20;
constexpr double kBoost = 0x1p-36;  // relative error granted to the incomplete beta function

// η ≥ |q_u − q| of the header, over all inputs u.
double MeasureError(const CapLaw& cap, std::size_t dimension) {
  const auto d = static_cast<double>(dimension);
  // SumOf in core/vec.h adds a term to one of eight sums, which has an eighth of the terms, and those in a
  // tree of three; products, roots and the comparison's factors take the rest.
  const double roundings = d / 8 + 16, phi = 3 * roundings * 0x1p-53 * (1 + 0x1p-20);
  const double h = kGrid * std::sqrt(d) / 2 * (1 + 0x1p-20);      // 2h(1 + φ)/‖x‖ in y
  const double c = cap.density_constant(), inverse = 1 / (std::sqrt(2 * M_PI) * c);
  double eta = 0;
  if (dimension >= 3) {
    eta = c * (phi + 2 * h * inverse);
  } else {
    // The density c/√(1 − t²) is largest at the ends. While y ≤ (1 − γ)/2, |t| stays below (1 + γ)/2; a ‖x‖
    // small enough for more has P(‖x‖ < ρ) ≤ ρ²/2.
    const double reach = (1 - cap.gamma()) / 2, far = (1 + cap.gamma()) / 2;
    if (!(reach > 2 * phi)) return 1;
    const double rho = 2 * h / (reach - phi);
    eta = c / std::sqrt((1 - far) * (1 + far)) * (phi + 2 * h * inverse) + rho * rho / 2;
  }
  return (eta + cap.measure() * kBoost) * (1 + 0x1p-20);
}

// ω of the header for b ≥ e^{−ε}; ∞ if the cap is too small to say.
double Overhead(const CapLaw& cap, std::size_t dimension, double epsilon) {
  const double eta = MeasureError(cap, dimension), b = std::exp(-epsilon);
  const double least = b + (1 - b) * (cap.measure() - eta);
  if (!(cap.measure() > eta && least > 0)) return kInf;
  return std::log1p(2 * eta * (1 - b) / least) * (1 + 0x1p-20) + 0x1p-52;
}

// The second rule as printed: the largest γ ≥ √(2/d) that it allows, or 0.
double SecondRule(double epsilon1, double d) {
  const auto needs = [d](double gamma) {
    return 0.5 * std::log(d) + std::log(6) - (d - 1) / 2 * std::log1p(-gamma * gamma) + std::log(gamma);
  };
  double low = std::sqrt(2 / d), high = 1;  // what is needed grows with γ
  if (!(low < 1 && needs(low) <= epsilon1)) return 0;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    (needs(middle) <= epsilon1 ? low : high) = middle;
  }
  return low;
}

Status CheckDimension(std::size_t d) {
  if (d >= 2 && d <= std::size_t{1} << 30) return Ok{};
  return Fail(Code::kInvalidArgument, "PrivUnit: dimension = {}: a direction needs 2 to 2^30 of them", d);
}

// x·2^e with its largest entry in [½, 1); the first unit vector if x has no direction. Without branches, and
// by two powers of two, whose product may be no double, rather than ldexp, which is faster for a 0: all x of
// one length take as long.
void Orient(View x, Vec& u) {
  u.resize(x.size());
  double most = 0;
  int finite = 1;
  for (const double v : x) {
    finite &= static_cast<int>(std::isfinite(v));
    most = std::max(most, std::abs(v));
  }
  const bool some = finite != 0 && most > 0;
  int exponent = 0;
  std::frexp(some ? most : 1.0, &exponent);
  const int half = exponent / 2;
  const double first = std::ldexp(1.0, -half), second = std::ldexp(1.0, half - exponent);
  for (std::size_t j = 0; j < x.size(); ++j) {
    const double scaled = x[j] * first * second;
    u[j] = some ? scaled : 0.0;
  }
  u[0] = some ? u[0] : 1.0;
}

double OpenUniform(NoiseRng& rng) { return (static_cast<double>(rng.Bits() >> 11) + 0.5) * 0x1p-53; }

}  // namespace

Result<PrivUnit> PrivUnit::Make(const CapLaw& cap, std::size_t dimension, double log_ratio, double overhead,
                                CapSampler sampler) {
  const double q = cap.measure();
  // b is rounded up to a multiple of 2⁻⁶⁴, by more than the exponential may be wrong: the ratio falls.
  const double scaled = std::ceil(std::ldexp(std::exp(-log_ratio) * (1 + 0x1p-42), 64));
  if (!(q > 0 && q <= 0.5 && scaled >= 1 && scaled < 0x1p64 && overhead < 1))
    return Fail(
        Code::kUnsupported,
        "PrivUnit: a ratio of e^{:.4g} with a cap of measure {:.3g} in dimension {} is not possible in "
        "double precision; use another epsilon",
        log_ratio, q, dimension);
  PrivUnit unit(dimension, cap, sampler);
  unit.outside_ = static_cast<std::uint64_t>(scaled);
  const double b = std::ldexp(scaled, -64), z = q + b * (1 - q);
  unit.p_ = q / z;
  unit.m_ = cap.moment() * (1 - b) / z;
  unit.inside_ = static_cast<std::uint64_t>(std::ldexp(unit.p_ * (1 - 0x1p-48), 64));

  const double epsilon = -std::log(b) * (1 + 0x1p-50) + overhead;  // ε°
  double p = unit.p_;
  if (sampler == CapSampler::kLattice) {
    if (unit.expected_draws() > kMostDraws)
      return Fail(Code::kInvalidArgument,
                  "PrivUnit: {:.3g} draws for one vector at epsilon = {:.4g}; use a smaller epsilon, or the "
                  "sampler by inversion",
                  unit.expected_draws(), epsilon);
    const double most = q + MeasureError(cap, dimension);
    p = most / (most + b * (1 - most)) - std::expm1(-overhead) / -std::expm1(-epsilon);
  }
  p *= 1 + 0x1p-50;
  const double charged_q = p / (p + (1 - p) * std::exp(epsilon)) * (1 - 0x1p-46);
  if (!(p < 1 && charged_q > 0 && charged_q <= 0.5 && unit.m_ > 0))
    return Fail(Code::kUnsupported,
                "PrivUnit: epsilon = {:.4g} in dimension {} leaves no cap in double precision; use another "
                "epsilon",
                epsilon, dimension);
  unit.event_ = {.p = Probability::Proven(p), .q = Probability::Proven(charged_q)};
  return unit;
}

Result<PrivUnit> PrivUnit::Optimal(Epsilon direction, std::size_t dimension, CapSampler sampler) {
  TACIT_OK(CheckDimension(dimension));
  const double epsilon = direction.value();
  if (!(epsilon >= 1e-6 && epsilon <= 40))
    return Fail(Code::kInvalidArgument, "PrivUnit: epsilon of the direction = {}: must be in [1e-6, 40]",
                epsilon);
  TACIT_TRY(const double gamma, OptimalGamma(epsilon, dimension));
  const CapLaw cap(dimension, gamma);
  const double overhead = sampler == CapSampler::kLattice ? Overhead(cap, dimension, epsilon) : 0;
  if (!(overhead < epsilon))
    return Fail(
        Code::kUnsupported,
        "PrivUnit: the lattice cannot tell the cap for epsilon = {} in dimension {}; use a smaller epsilon, "
        "or the sampler by inversion",
        epsilon, dimension);
  return Make(cap, dimension, epsilon - overhead, overhead, sampler);
}

Result<PrivUnit> PrivUnit::Paper(Epsilon epsilon0, Epsilon epsilon1, std::size_t dimension,
                                 CapSampler sampler) {
  TACIT_OK(CheckDimension(dimension));
  const double e0 = epsilon0.value(), e1 = epsilon1.value(), d = static_cast<double>(dimension);
  if (!(e0 >= 1e-6 && e0 <= 40 && e1 >= 0 && e1 <= 40))
    return Fail(Code::kInvalidArgument,
                "PrivUnit: epsilon_0 = {}, epsilon_1 = {}: must be in [1e-6, 40] and [0, 40]", e0, e1);
  const double first = std::tanh(e1 / 2) * std::sqrt(M_PI / (2 * (d - 1)));
  const double gamma = std::max(first, SecondRule(e1, d));
  if (!(gamma < 1))
    return Fail(Code::kInvalidArgument,
                "PrivUnit: epsilon_1 = {} in dimension {}: the printed rule asks for gamma = {:.4g}, and a "
                "cosine is below 1; lower epsilon_1",
                e1, dimension, gamma);
  const CapLaw cap(dimension, gamma);
  const double q = cap.measure(), log_ratio = e0 + std::log((1 - q) / q);
  return Make(cap, dimension, log_ratio,
              sampler == CapSampler::kLattice ? Overhead(cap, dimension, log_ratio) : 0, sampler);
}

double PrivUnit::expected_draws() const {
  if (sampler_ == CapSampler::kInverse) return 1;
  const double b = std::ldexp(static_cast<double>(outside_), -64);
  return 1 / (q() + b * (1 - q()));
}

std::string_view PrivUnit::caveat() const {
  if (sampler_ == CapSampler::kLattice) return "";
  return "PrivUnit by inversion in double precision: the guarantee is that of real arithmetic; which vectors "
         "can "
         "be reached depends on the input in the last bits, which rounding to a grid does not hide in every "
         "case. Use the lattice sampler for a guarantee that holds for the bits released.";
}

void PrivUnit::SampleByLattice(NoiseRng& rng, PrivUnitSpace& s) const {
  const double length = Norm(s.u_);
  for (bool accepted = false; !accepted;) {
    LatticeNormals(kLatticeScale, rng, s.lattice_);
    const bool anyway = rng.Bits() < outside_;
    for (std::size_t j = 0; j < dimension_; ++j)
      s.w_[j] = static_cast<double>(s.lattice_[j]) * kGrid;  // exact
    const bool inside = Dot(s.w_, s.u_) >= gamma() * Norm(s.w_) * length;
    accepted = static_cast<int>(inside) + static_cast<int>(anyway) > 0;
  }
}

void PrivUnit::SampleByInversion(NoiseRng& rng, PrivUnitSpace& s) const {
  Scale(1 / Norm(s.u_), s.u_);
  const bool inside = rng.Bits() < inside_;
  const double uniform = OpenUniform(rng);
  const double t = inside ? cap_.Inside(uniform) : cap_.Outside(uniform);
  double norm = 0;
  do {
    LatticeNormals(kLatticeScale, rng, s.lattice_);
    for (std::size_t j = 0; j < dimension_; ++j) s.w_[j] = static_cast<double>(s.lattice_[j]) * kGrid;
    Axpy(-Dot(s.w_, s.u_), s.u_, s.w_);
    Axpy(-Dot(s.w_, s.u_), s.u_, s.w_);  // once more: the first left what it had rounded
    norm = Norm(s.w_);
  } while (!(norm > 0));
  Scale(std::sqrt((1 - t) * (1 + t)) / norm, s.w_);
  Axpy(t, s.u_, s.w_);
}

void PrivUnit::Sample(View x, NoiseRng& rng, PrivUnitSpace& s, std::span<std::int32_t> v) const {
  TACIT_CHECK(x.size() == dimension_ && v.size() == dimension_);
  s.lattice_.resize(dimension_);
  s.w_.resize(dimension_);
  Orient(x, s.u_);
  sampler_ == CapSampler::kLattice ? SampleByLattice(rng, s) : SampleByInversion(rng, s);
  const double norm = Norm(s.w_);
  if (!(norm > 0)) {  // all d deviates round to 0
    std::fill(v.begin(), v.end(), 0);
    v[0] = std::int32_t{1} << kGridBits;
    return;
  }
  for (std::size_t j = 0; j < dimension_; ++j)
    v[j] = static_cast<std::int32_t>(std::nearbyint(std::ldexp(s.w_[j] / norm, kGridBits)));
}

}  // namespace tacit
