#include "privacy/gdp.h"

#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace tacit {
namespace {

constexpr double kTiny = std::numeric_limits<double>::denorm_min();

// MPFR keeps π and log 2 per thread; a thread that leaves takes them along.
struct ConstantCache {
  ~ConstantCache() { mpfr_free_cache2(MPFR_FREE_LOCAL_CACHE); }
};

class Real {
 public:
  explicit Real(mpfr_prec_t bits) { mpfr_init2(v_, bits); }
  ~Real() { mpfr_clear(v_); }
  Real(const Real&) = delete;
  Real& operator=(const Real&) = delete;
  operator mpfr_ptr() { return v_; }            // NOLINT: a Real is an mpfr_t
  int Sign() const { return mpfr_sgn(v_); }
  double Down() { return mpfr_get_d(v_, MPFR_RNDD); }
  double Up() { return mpfr_get_d(v_, MPFR_RNDU); }

 private:
  mpfr_t v_;
};

// An enclosure of δ at a working precision, and nearest values of log δ and of its derivatives for
// Newton's method, which need no bound.
struct Enclosure {
  explicit Enclosure(mpfr_prec_t bits) : lower(bits), upper(bits) {}
  Real lower, upper;
  double log_delta = 0;
  double d_epsilon = 0;        // ∂ log δ/∂ε = −e^ε Φ(−t₂)/δ
  double d_mu = 0;             // ∂ log δ/∂μ = φ(t₁)/δ
};

double Log(mpfr_ptr v) {
  long exponent = 0;
  const double m = mpfr_get_d_2exp(&exponent, v, MPFR_RNDN);
  return m > 0 ? std::log(m) + static_cast<double>(exponent) * std::log(2.0) : -kInf;
}

mpfr_rnd_t Opposite(mpfr_rnd_t side) { return side == MPFR_RNDD ? MPFR_RNDU : MPFR_RNDD; }

// Below it erfc is fast; above, MPFR's needs t²/2 more bits and Laplace's continued fraction is faster.
constexpr double kFractionFrom = 2;

// A bound, on the side asked for, of Mills' ratio M(t) = Φ(−t)/φ(t) for t > 0:
//   M(t) = 1/F₀,  F_k = t + (k + 1)/F_{k+1}     (Laplace 1805).
// All terms are positive, so t < F_n < t + (n + 1)/t whatever n is, and a bound of F_{k+1} from one side
// bounds F_k from the other. n is chosen for an error near 2^−bits, e^{−2t√(2n)} asymptotically; the
// enclosure does not depend on it.
void Mills(Real& t, mpfr_rnd_t side, Real& to) {
  const double depth = static_cast<double>(mpfr_get_prec(to)) * std::log(2.0) / (2 * t.Down());
  const auto n = static_cast<unsigned long>(std::min(depth * depth / 2, 1e5)) + 8;
  side = n % 2 == 0 ? Opposite(side) : side;                      // of F_n; M and F₀ are on opposite sides
  if (side == MPFR_RNDD) {
    mpfr_set(to, t, MPFR_RNDD);
  } else {
    mpfr_ui_div(to, n + 1, t, MPFR_RNDU);
    mpfr_add(to, to, t, MPFR_RNDU);
  }
  for (unsigned long k = n; k > 0; --k) {
    side = Opposite(side);
    mpfr_ui_div(to, k, to, side);
    mpfr_add(to, to, t, side);
  }
  mpfr_ui_div(to, 1, to, Opposite(side));
}

// A bound of φ(t) = exp(−t²/2)/√(2π); t is overwritten.
void Density(Real& t, mpfr_rnd_t side, Real& to) {
  mpfr_sqr(t, t, Opposite(side));
  mpfr_div_2ui(t, t, 1, MPFR_RNDN);
  mpfr_neg(t, t, MPFR_RNDN);
  mpfr_exp(to, t, side);
  mpfr_const_pi(t, Opposite(side));
  mpfr_mul_2ui(t, t, 1, MPFR_RNDN);
  mpfr_sqrt(t, t, Opposite(side));
  mpfr_div(to, to, t, side);
}

// A bound of Φ(−t) = erfc(t/√2)/2; t is overwritten.
void Tail(Real& t, mpfr_rnd_t side, Real& to, Real& scratch) {
  if (t.Down() >= kFractionFrom) {
    Mills(t, side, to);
    Density(t, side, scratch);
    mpfr_mul(to, to, scratch, side);
    return;
  }
  // erfc decreases: t/√2 on the opposite side, with √2 smaller where that is further from 0.
  const mpfr_rnd_t other = Opposite(side);
  mpfr_sqrt_ui(scratch, 2, (other == MPFR_RNDU) == (t.Sign() >= 0) ? MPFR_RNDD : MPFR_RNDU);
  mpfr_div(t, t, scratch, other);
  mpfr_erfc(to, t, side);
  mpfr_div_2ui(to, to, 1, MPFR_RNDN);
}

// δ = A − B with A = Φ(−t₁), B = e^ε Φ(−t₂) = φ(t₁) M(t₂), t₁ = (ε − μ²/2)/μ, t₂ = (ε + μ²/2)/μ, for finite ε
// and 0 < μ < 1e150. Every MPFR function is correctly rounded in the direction asked for, Φ(−t) and M(t)
// decrease and φ(t) decreases in |t|, so each line keeps its side whatever the precision.
void Evaluate(double epsilon, double mu, mpfr_prec_t bits, Enclosure& out) {
  static thread_local ConstantCache cache;
  Real half_square(bits), t(bits), a(bits), b(bits), c(bits), d(bits);
  const auto argument = [&](Real& to, double sign, mpfr_rnd_t side) {  // (ε ± μ²/2)/μ
    mpfr_set_d(half_square, mu, MPFR_RNDN);
    mpfr_sqr(half_square, half_square, sign > 0 ? side : Opposite(side));
    mpfr_div_2ui(half_square, half_square, 1, MPFR_RNDN);
    mpfr_set_d(to, epsilon, MPFR_RNDN);
    if (sign > 0) {
      mpfr_add(to, to, half_square, side);
    } else {
      mpfr_sub(to, to, half_square, side);
    }
    mpfr_div_d(to, to, mu, side);
  };
  const auto first = [&](mpfr_rnd_t side) {  // a ← A
    argument(t, -1, Opposite(side));
    Tail(t, side, a, c);
  };
  const auto second = [&](mpfr_rnd_t side) {  // b ← B
    argument(t, +1, Opposite(side));
    if (t.Down() < kFractionFrom) {  // then ε ≤ t₂²/2 is small
      Tail(t, side, b, c);
      mpfr_set_d(c, epsilon, MPFR_RNDN);
      mpfr_exp(c, c, side);
      mpfr_mul(b, b, c, side);
      return;
    }
    Mills(t, side, b);
    // φ(t₁) is largest at the |t₁| nearest to 0 and smallest at the furthest.
    argument(t, -1, MPFR_RNDD);
    argument(c, -1, MPFR_RNDU);
    const bool straddles = t.Sign() < 0 && c.Sign() > 0;
    if ((side == MPFR_RNDU) == (mpfr_cmpabs(c, t) < 0)) mpfr_swap(c, t);
    if (side == MPFR_RNDU && straddles) mpfr_set_zero(t, 1);
    Density(t, side, d);
    mpfr_mul(b, b, d, side);
  };
  first(MPFR_RNDU);
  second(MPFR_RNDD);
  mpfr_sub(out.upper, a, b, MPFR_RNDU);
  first(MPFR_RNDD);
  second(MPFR_RNDU);
  mpfr_sub(out.lower, a, b, MPFR_RNDD);
  if (!mpfr_number_p(out.lower) || out.lower.Sign() < 0) mpfr_set_zero(out.lower, 1);

  out.log_delta = Log(out.upper);
  const double t1 = epsilon / mu - mu / 2;
  out.d_epsilon = -std::exp(Log(b) - out.log_delta);
  out.d_mu = std::exp(-t1 * t1 / 2 - 0.5 * std::log(2 * M_PI) - out.log_delta);
}

// A cancels B to about μ, hence the digits of 1/μ come on top.
mpfr_prec_t StartBits(double mu) { return 128 + (mu < 1 ? static_cast<mpfr_prec_t>(-std::ilogb(mu)) : 0); }
constexpr mpfr_prec_t kMostBits = 1 << 13;

// δ in double with a bound on its error, from libm's exp and erfc. Documented to 1 and 5 ulp (glibc manual,
// "Known Maximum Errors"); 4 and 12 are charged. u = 2⁻⁵³, an ulp is at most 2u relative.
//  * t₁, t₂ and x = t/√2 are double-doubles, off by at most a few u² relative to ε/μ + μ < 2¹², and the
//    low part of x enters Φ by its derivative: what is neglected is below 2⁻⁷⁰ of Φ.
//  * A = erfc(x₁)/2 and, for t₂ < 14, B = e^ε erfc(x₂)/2 with ε ≤ t₂²/2: 24u, and 8u for e^ε, plus 8u for the
//    remaining operations: 32u A and 40u B hold.
//  * For t₂ ≥ 14, B = φ(t₁) M(t₂): t₁² is a double-double (exp's argument is exact, the rest linear and below
//    2⁻⁴⁰), and twelve terms of M's enveloping series leave 25!!/14²⁶ < u/8. Horner adds 4u, as its brackets
//    are within 1/8 of 1 and all but the outermost are scaled by at most 1/8: 8u + 16u < 40u.
struct Estimate {
  double delta = 0, error = kInf;  // |δ − delta| ≤ error
  double b = 0, phi = 0;  // e^ε Φ(−t₂) and φ(t₁), to a few digits
};
Estimate Estimated(double epsilon, double mu) {
  Estimate out;
  const double ratio = epsilon / mu;
  if (!(mu > 1e-9 && mu < 1e3 && ratio < 1e3)) return out;
  const double ratio_low = std::fma(-ratio, mu, epsilon) / mu;
  struct Pair {
    double high, low;
  };
  const auto plus = [&](double half) {  // ε/μ + half, by TwoSum
    const double s = ratio + half, bb = s - ratio;
    return Pair{s, (ratio - (s - bb)) + (half - bb) + ratio_low};
  };
  const Pair t1 = plus(-mu / 2), t2 = plus(mu / 2);
  if (!(t1.high > -9 && t1.high < 36)) return out;  // elsewhere a term nears underflow, or δ is 1
  const auto tail = [](Pair t) {  // Φ(−t)
    constexpr double kHigh = 0x1.6a09e667f3bcdp-1, kLow = -0x1.bdd3413b26456p-55;  // 1/√2
    const double x = t.high * kHigh, low = std::fma(t.high, kHigh, -x) + t.high * kLow + t.low * kHigh;
    return std::erfc(x) / 2 - low * std::exp(-x * x) / std::sqrt(M_PI);
  };
  const double a = tail(t1);
  const double square = t1.high * t1.high;
  const double square_low = std::fma(t1.high, t1.high, -square) + 2 * t1.high * t1.low;
  out.phi = std::exp(-square / 2) * (1 - square_low / 2) * 0x1.9884533d43651p-2;  // 1/√(2π)
  if (t2.high < 14) {
    out.b = std::exp(epsilon) * tail(t2);
  } else {
    const double y = 1 / (t2.high * t2.high);
    double series = 1;
    for (int n = 12; n > 0; --n) series = 1 - (2 * n - 1) * y * series;
    out.b = out.phi * series / t2.high;
  }
  out.delta = a - out.b;
  out.error = 0x1p-53 * (33 * a + 41 * out.b);
  return out;
}

// Whether δ(ε; μ) > δ, and Newton's next points for ε and μ. The curve is transcendental and δ rational,
// so precision decides; a tie at the last precision counts as exceeding, the safe side for both inverses.
struct Comparison {
  bool exceeds;
  double newton_epsilon, newton_mu;
};
Comparison Compare(double epsilon, double mu, double delta) {
  Comparison out{true, epsilon, mu};
  const mpfr_prec_t start = StartBits(mu);
  for (mpfr_prec_t bits = start; bits <= kMostBits; bits *= 2) {
    Enclosure at(bits);
    Evaluate(epsilon, mu, bits, at);
    if (bits == start) {
      // log(δ/δ_at), without cancellation near the root.
      Real ratio(bits);
      mpfr_d_sub(ratio, delta, at.upper, MPFR_RNDN);
      mpfr_div(ratio, ratio, at.upper, MPFR_RNDN);
      const double small = mpfr_get_d(ratio, MPFR_RNDN);
      const double gap = std::abs(small) < 0.5 ? std::log1p(small) : std::log(delta) - at.log_delta;
      out.newton_epsilon = epsilon + gap / at.d_epsilon;
      out.newton_mu = mu * std::exp(gap / (at.d_mu * mu));  // in log μ: δ behaves like a power there
    }
    if (mpfr_cmp_d(at.upper, delta) <= 0) {
      out.exceeds = false;
      break;
    }
    if (mpfr_cmp_d(at.lower, delta) > 0) break;
  }
  return out;
}

// The neighbouring doubles lo, hi with high(lo) = false and high(hi) = true, for a predicate on x ≥ 0 that
// switches once. probe(x, next) returns high(x) and sets next to a better guess. Newton's points steer, then
// the switch is pinched from both sides and bisected over the doubles' own order: a poor guess costs time
// only.
template <class Probe>
Interval Switch(double lo, double hi, double guess, Probe probe) {
  const auto index = [](double x) { return std::bit_cast<std::uint64_t>(x); };  // monotone for x ≥ 0
  const auto at = [](std::uint64_t i) { return std::bit_cast<double>(i); };
  std::uint64_t low = index(lo), high = index(hi), i = low;
  double next = guess;
  const auto look = [&](std::uint64_t where) {
    i = where;
    const bool is_high = probe(at(i), next);
    (is_high ? high : low) = i;
  };
  for (double last_step = kInf; high - low > 1 && next > at(low) && next < at(high);) {
    look(index(next));
    const double step = std::abs(next - at(i));
    if (!(step > 4e-16 * next && step < 0.9 * last_step)) break;
    last_step = step;
  }
  if (high - low > 1 && next > at(low) && next < at(high)) look(index(next));
  for (std::uint64_t reach = 1; high - low > 1 && reach < high - low; reach *= 4) {
    const bool from_high = i == high;
    look(from_high ? high - reach : low + reach);
    if (from_high != (i == high)) break;
  }
  while (high - low > 1) look(low + (high - low) / 2);
  return {at(low), at(high)};
}

// A guess for the root in ε or in μ, by Newton's method on log δ in double; nothing depends on its quality.
template <class Next>
double Steer(double x, Next next) {
  for (int i = 0; i < 30; ++i) {
    const double y = next(x);
    if (!(y > 0 && y < kInf)) return x;
    const double step = std::abs(y - x);
    x = y;
    if (step <= 1e-14 * y) return x;
  }
  return x;
}

// ln 1/δ, rounded as asked, for 0 < δ < 1.
void LogInverse(Real& to, double delta, mpfr_rnd_t round) {
  mpfr_set_d(to, delta, MPFR_RNDN);
  mpfr_log(to, to, round == MPFR_RNDU ? MPFR_RNDD : MPFR_RNDU);
  mpfr_neg(to, to, MPFR_RNDN);
}

// |t₁| beyond which δ is 0 or 1 to every double: Φ(−40) < 1e-349, and δ(t₁ = −10) > 1 − 2φ(10) > 1 − 2⁻⁵³
// because M(t₂) < M(10) < 1 there.
constexpr double kVanishes = 40, kSaturates = 10;
constexpr double kHuge = 1e150;  // μ² is finite below it

// From here on μ²/2 is ε but for rounding: with −10 < t₁ < 40 at the root, |ε − μ²/2| < 40 μ < 2⁻⁵⁸ ε, which
// is less than a step of the doubles takes. Multiple precision would search for t₁ in digits that do not
// exist.
constexpr double kSteepMu = 1.5e20, kSteepEpsilon = 1e40;  // √(2 · 1e40) < 1.5e20: what is exact stays so

}  // namespace

Interval GdpDelta(Epsilon epsilon_unit, Mu mu_unit) {
  const double epsilon = epsilon_unit.value(), mu = mu_unit.value();
  if (mu == 0) return {0, 0};
  if (epsilon == kInf) return mu == kInf ? Interval{0, 1} : Interval{0, 0};
  if (mu == kInf) return {1, 1};
  if (mu >= kHuge) return {0, 1};
  if (epsilon / mu - mu / 2 > kVanishes + 1e-12 * mu)
    return {0, kTiny};  // the slack covers the rounding of t₁
  if (const Estimate e = Estimated(epsilon, mu); e.error < 4e-14 * e.delta)
    return {std::max(NextDown(e.delta - e.error), 0.0), std::min(NextUp(e.delta + e.error), 1.0)};
  Interval out{0, 1};
  for (mpfr_prec_t bits = StartBits(mu); bits <= kMostBits; bits *= 2) {
    Enclosure at(bits);
    Evaluate(epsilon, mu, bits, at);
    out = {std::min(at.lower.Down(), 1.0), std::clamp(at.upper.Up(), 0.0, 1.0)};
    if (out.upper <= NextUp(NextUp(out.lower))) break;
  }
  return out;
}

Interval GdpEpsilon(Mu mu_unit, Delta delta_unit) {
  const double mu = mu_unit.value(), delta = delta_unit.value();
  if (mu == 0) return {0, 0};
  if (delta == 0 || mu == kInf) return {kInf, kInf};
  // t₁ = −10 saturates, so ε > μ²/2 − 10 μ.
  if (mu >= kHuge) return {1e299, kInf};
  if (mu >= kSteepMu) {
    const double square = mu * mu / 2;
    return {NextDown(NextDown(square)), NextUp(NextUp(square))};
  }
  if (!Compare(0, mu, delta).exceeds) return {0, 0};
  // zCDP's bound holds in real arithmetic; the factor pays for its evaluation.
  const double hi = (mu * mu / 2 + mu * std::sqrt(-2 * std::log(delta))) * (1 + 1e-9) + kTiny;
  const double guess = Steer(hi * (1 - 1e-9), [&](double epsilon) {
    const Estimate e = Estimated(epsilon, mu);
    return epsilon - (std::log(delta) - std::log(e.delta)) * e.delta / e.b;
  });
  return Switch(0, hi, guess, [&](double epsilon, double& next) {
    const Comparison c = Compare(epsilon, mu, delta);
    next = c.newton_epsilon;
    return !c.exceeds;
  });
}

Mu GdpMu(Epsilon epsilon_unit, Delta delta_unit) {
  const double epsilon = epsilon_unit.value(), delta = delta_unit.value();
  if (epsilon == kInf) return Mu::Proven(kInf);
  if (delta == 0) return Mu::Proven(0);
  // So far below √(2ε) that GdpEpsilon of it, rounded up, is at most ε.
  if (epsilon >= kSteepEpsilon)
    return Mu::Proven(std::min(2 * std::sqrt(epsilon / 2) * (1 - 0x1p-50), kHuge));
  // t₁ < −10 at the right end. On the left, zCDP's μ and the tangent δ(0; μ) ≤ μ/√(2π) start.
  const double hi =
      std::min((kSaturates + std::sqrt(kSaturates * kSaturates + 2 * epsilon)) * (1 + 1e-9), kHuge);
  const double start = std::max(std::sqrt(2 * ZcdpRho(epsilon_unit, delta_unit).value()), 2.5 * delta);
  const double guess = Steer(start, [&](double mu) {
    const Estimate e = Estimated(epsilon, mu);
    return mu * std::exp((std::log(delta) - std::log(e.delta)) * e.delta / (e.phi * mu));
  });
  return Mu::Proven(Switch(0, hi, guess, [&](double mu, double& next) {
                      const Comparison c = Compare(epsilon, mu, delta);
                      next = c.newton_mu;
                      return c.exceeds;
                    }).lower);
}

double ZcdpEpsilon(Rho rho, Delta delta) {
  if (rho.value() == 0) return 0;
  if (delta.value() == 0 || rho.value() == kInf) return kInf;
  Real x(128);
  LogInverse(x, delta.value(), MPFR_RNDU);
  mpfr_mul_d(x, x, rho.value(), MPFR_RNDU);
  mpfr_sqrt(x, x, MPFR_RNDU);
  mpfr_mul_2ui(x, x, 1, MPFR_RNDN);
  mpfr_add_d(x, x, rho.value(), MPFR_RNDU);
  return x.Up();
}

Rho ZcdpRho(Epsilon epsilon, Delta delta) {
  if (epsilon.value() == kInf) return Rho::Proven(kInf);
  if (delta.value() == 0) return Rho::Proven(0);
  Real log_inverse(128), x(128);
  LogInverse(log_inverse, delta.value(), MPFR_RNDU);
  mpfr_add_d(x, log_inverse, epsilon.value(), MPFR_RNDU);
  mpfr_sqrt(x, x, MPFR_RNDU);
  mpfr_sqrt(log_inverse, log_inverse, MPFR_RNDU);
  mpfr_add(x, x, log_inverse, MPFR_RNDU);
  mpfr_d_div(x, epsilon.value(), x, MPFR_RNDD);  // ε/(√(ε + L) + √L): no difference is taken
  mpfr_sqr(x, x, MPFR_RNDD);
  return Rho::Proven(x.Down());
}

}  // namespace tacit
