// Build-time program: prints the tables of lattice_sampler.cc and the error bounds they keep.
//
// z(p) = Q⁻¹(p), Q(z) = P(N(0, 1) > z), has z⁽ⁿ⁾ = P_n(z)·(−1/φ(z))ⁿ with P₁ = 1 and
// P_{n+1} = P_n' + n·z·P_n. All coefficients of P_n are non-negative, so on p ≤ ½ (z ≥ 0) every
// |z⁽ⁿ⁾| grows with z: on a segment its maximum is at the tail end. The polynomial of degree d that
// agrees with z at the d + 1 Chebyshev nodes of a segment of half width h is off by at most
// max|z⁽ᵈ⁺¹⁾|·h^{d+1} / ((d+1)!·2ᵈ).
//
// Values of z at the nodes come from a long Taylor polynomial about the centre, whose own remainder
// (same bound on the derivative) times the Lebesgue constant of the nodes, below 3, is added. All of
// it is computed with 70 digits; every bound is enlarged by 2⁻²⁰ of itself, which covers that.
#include <mpfr.h>

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <boost/multiprecision/mpfr.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

namespace mp = boost::multiprecision;
using Real = mp::number<mp::mpfr_float_backend<70, mp::allocate_stack>, mp::et_off>;
using Poly = std::vector<Real>;

constexpr int kFastLowest = 44;  // tier 1 knows m ≥ 2^44; below, the undrawn bits weigh too much
constexpr int kFastDegree = 3, kFastTaylor = 9;
constexpr int kSecondDegree = 10, kSecondTaylor = 22;

const Real kPi = [] {
  Real r;
  mpfr_const_pi(r.backend().data(), MPFR_RNDN);
  return r;
}();

Real Density(const Real& z) { return exp(-z * z / 2) / sqrt(2 * kPi); }

Real UpperTail(const Real& z) {
  const Real x = z / sqrt(Real(2));
  Real r;
  mpfr_erfc(r.backend().data(), x.backend().data(), MPFR_RNDN);
  return r / 2;
}

Real Eval(const Poly& a, const Real& x) {
  Real v = 0;
  for (std::size_t i = a.size(); i-- > 0;) v = v * x + a[i];
  return v;
}

// P_0 is unused.
std::vector<Poly> DerivativePolynomials(int count) {
  std::vector<Poly> p{{}, {Real(1)}};
  for (int n = 1; n < count; ++n) {
    const Poly& a = p.back();
    Poly b(a.size() + 1, Real(0));
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (i > 0) b[i - 1] += a[i] * static_cast<unsigned>(i);
      b[i + 1] += a[i] * n;
    }
    p.push_back(b);
  }
  return p;
}
const std::vector<Poly> kP = DerivativePolynomials(24);

// Three terms of the inverse series from a double, then a check of the residual.
Real Inverse(const Real& p) {
  Real z = boost::math::erfc_inv(2 * p.convert_to<double>()) * 1.4142135623730951;
  for (int pass = 0;; ++pass) {
    const Real e = (UpperTail(z) - p) / Density(z);
    if (abs(e) < Real(std::ldexp(1.0, -120))) return z;
    if (pass == 3) std::abort();
    z += e + z * e * e / 2 + (1 + 2 * z * z) * e * e * e / 6;
  }
}

struct Fit {
  Poly a;             // in t = (p − centre)/h, |t| ≤ 1
  Real error;         // of the polynomial with exact coefficients
  Real slope_at_tail; // |z'|·h, the largest on the segment
};

Fit FitSegment(const Real& centre, const Real& h, int degree, int taylor) {
  const Real z = Inverse(centre), z_tail = Inverse(centre - h);
  const Real u = -h / Density(z), u_tail = h / Density(z_tail);
  // |z⁽ⁿ⁾|·hⁿ/n! at the tail end.
  const auto largest = [&](int n) {
    Real v = Eval(kP[static_cast<std::size_t>(n)], z_tail);
    for (int i = 1; i <= n; ++i) v *= u_tail / i;
    return v;
  };
  Poly series{z};
  Real scale = 1;
  for (int n = 1; n <= taylor; ++n) {
    scale *= u / n;
    series.push_back(Eval(kP[static_cast<std::size_t>(n)], z) * scale);
  }

  // Chebyshev interpolation, then to powers of t.
  const int nodes = degree + 1;
  Poly c(static_cast<std::size_t>(nodes), Real(0));
  static std::vector<std::vector<Real>> cosines(32);  // cos(k(2i+1)π/(2·nodes)) by nodes
  auto& table = cosines[static_cast<std::size_t>(nodes)];
  if (table.empty())
    for (int j = 0; j < 4 * nodes; ++j) table.push_back(cos(kPi * j / (2 * nodes)));
  for (int i = 0; i < nodes; ++i) {
    const Real f = Eval(series, table[static_cast<std::size_t>(2 * i + 1)]);
    for (int k = 0; k < nodes; ++k)
      c[static_cast<std::size_t>(k)] +=
          f * table[static_cast<std::size_t>(k * (2 * i + 1) % (4 * nodes))] * (k == 0 ? 1 : 2) / nodes;
  }
  Poly a(c.size(), Real(0)), before, t{Real(1)};  // before, t: T_{k−1}, T_k
  for (std::size_t k = 0; k < c.size(); ++k) {
    for (std::size_t i = 0; i < t.size(); ++i) a[i] += c[k] * t[i];
    Poly next(t.size() + 1, Real(0));
    for (std::size_t i = 0; i < t.size(); ++i) next[i + 1] += (k == 0 ? 1 : 2) * t[i];
    for (std::size_t i = 0; i < before.size(); ++i) next[i] -= before[i];
    before = t;
    t = next;
  }
  return {a, largest(degree + 1) / std::ldexp(1.0, degree) + 3 * largest(taylor + 1), u_tail};
}

double Nearest(const Real& x) { return mpfr_get_d(x.backend().data(), MPFR_RNDN); }
double Above(const Real& x) {
  const Real wide = x * (1 + std::ldexp(1.0, -20));
  return mpfr_get_d(wide.backend().data(), MPFR_RNDU);
}

// Tier 1: 256 segments per octave of x = (double)m, p = (x + ½)/2^64, coefficients of powers of
// t = x − centre.
void FastTable() {
  Real worst = 0;
  std::puts("alignas(64) constexpr double kFastRows[][4] = {");
  std::puts("    // Row 0: m < 2^44. NaN fails every comparison and so falls through.");
  std::puts("    {kNaN, kNaN, kNaN, kNaN},");
  for (int e = kFastLowest; e <= 62; ++e) {
    for (int j = 0; j < 256; ++j) {
      const Real unit = mp::ldexp(Real(1), e), h = unit / 512, x = unit * (513 + 2 * j) / 512;
      const Fit fit =
          FitSegment(mp::ldexp(Real(x + Real(0.5)), -64), mp::ldexp(h, -64), kFastDegree, kFastTaylor);
      // The argument: half a unit for the undrawn bits, half an ulp (at most 2^{e−53}) for (double)m.
      Real error = fit.error + fit.slope_at_tail * (Real(0.5) + unit * std::ldexp(1.0, -53)) / h;
      std::printf("    {");
      Real power = 1;
      for (std::size_t i = 0; i <= kFastDegree; ++i) {
        const double a = Nearest(fit.a[i] / power);
        error += abs(fit.a[i] - a * power);
        power *= h;
        std::printf("%a%s", a, i < kFastDegree ? ", " : "},\n");
      }
      worst = std::max(worst, error);
    }
  }
  std::puts("    // Last row: (double)m rounded up to 2^63, where z < 2^-53.\n    {0, 0, 0, 0}};");
  std::printf("constexpr int kFastLowest = %d;\nconstexpr double kFastTableError = %a;\n\n", kFastLowest,
              Above(worst));
}

// Tier 2: 16 segments per octave of the leading 64 bits w of m and the next word, p = w·2^-(64+lz);
// t = (w − centre)·2^-58, |t| ≤ 1; the constant term as the sum of two doubles.
void SecondTable() {
  Real worst = 0, slope = 0;
  std::puts("alignas(64) constexpr double kSecondRows[][12] = {");
  for (int lz = 1; lz <= 63; ++lz) {
    for (int j = 0; j < 16; ++j) {
      const Real centre = mp::ldexp(Real(33 + 2 * j), 58 - 64 - lz), h = mp::ldexp(Real(1), 58 - 64 - lz);
      const Fit fit = FitSegment(centre, h, kSecondDegree, kSecondTaylor);
      const double high = Nearest(fit.a[0]), low = Nearest(fit.a[0] - high);
      // The bits below w are worth at most 2^-58 of t.
      Real error = fit.error + fit.slope_at_tail * std::ldexp(1.0, -58) + abs(fit.a[0] - high - low);
      std::printf("    {%a, %a, ", high, low);
      for (std::size_t i = 1; i <= kSecondDegree; ++i) {
        const double a = Nearest(fit.a[i]);
        error += abs(fit.a[i] - a);
        std::printf("%a%s", a, i < kSecondDegree ? ", " : "},\n");
      }
      worst = std::max(worst, error);
      slope = std::max(slope, fit.slope_at_tail);
    }
  }
  std::printf("};\nconstexpr double kSecondTableError = %a;\n", Above(worst));
  std::printf("constexpr double kSecondSlope = %a;  // max |dz/dt|, hence |z − a0| at most\n", Above(slope));
}

}  // namespace

int main() {
  std::puts("// Made by lattice_tables.cc at build time.\nconstexpr double kNaN = __builtin_nan(\"\");\n");
  FastTable();
  SecondTable();
  mpfr_free_cache();
}
