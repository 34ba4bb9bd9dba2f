#pragma once

// For the sampler's tests: an independent exact answer, and values of p placed on both sides of cell
// boundaries, where a wrong error bound shows. Random draws would meet one in 2^40.
#include <boost/math/special_functions/erf.hpp>
#include <boost/multiprecision/mpfr.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "privacy/lattice_sampler_internal.h"

namespace tacit {

using Real = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<120>,
                                           boost::multiprecision::et_off>;  // 400 bits

inline Real UpperTail(const Real& z) {
  const Real x = z / sqrt(Real(2));
  Real r;
  mpfr_erfc(r.backend().data(), x.backend().data(), MPFR_RNDN);
  return r / 2;
}

inline Real Density(const Real& z) {
  Real pi;
  mpfr_const_pi(pi.backend().data(), MPFR_RNDN);
  return exp(-z * z / 2) / sqrt(2 * pi);
}

// A first word and its followers; after the last come zeros.
class Script final : public internal::MoreBits {
 public:
  explicit Script(const std::vector<std::uint64_t>& words) : words_(words) {}
  std::uint64_t Next() override { return at_ < words_.size() ? words_[at_++] : 0; }

 private:
  const std::vector<std::uint64_t>& words_;
  std::size_t at_ = 1;
};

// The first eight words of p·2^64 < 2^63, as the sampler would draw them (positive sign).
inline std::vector<std::uint64_t> Words(Real scaled) {
  std::vector<std::uint64_t> words;
  for (int i = 0; i < 8; ++i) {
    const Real whole = floor(scaled);
    words.push_back(mpfr_get_ui(whole.backend().data(), MPFR_RNDN));
    scaled = ldexp(Real(scaled - whole), 64);
  }
  return words;
}

// |Z| by definition, by Newton's method with 400 bits. words give p to as many bits.
inline Real ReferenceQuantile(const std::vector<std::uint64_t>& words) {
  Real p = 0;
  for (std::size_t i = words.size(); i-- > 1;) p = ldexp(Real(p + words[i]), -64);
  p = ldexp(Real(p + (words[0] & ~(std::uint64_t{1} << 63))), -64);
  Real z = boost::math::erfc_inv(2 * p.convert_to<double>()) * std::sqrt(2.0);
  for (int i = 0; i < 5; ++i) z += (UpperTail(z) - p) / Density(z);
  return z;
}

// What the sampler must return; the words are far more than decides.
inline std::int64_t ReferenceCell(double c, const std::vector<std::uint64_t>& words) {
  const Real k = floor(Real(ReferenceQuantile(words) * c + Real(0.5)));
  const auto magnitude = static_cast<std::int64_t>(mpfr_get_si(k.backend().data(), MPFR_RNDN));
  return words[0] >> 63 ? -magnitude : magnitude;
}

struct AttackReport {
  std::uint64_t tried = 0, wrong = 0, boundaries = 0;
  std::uint64_t by_tier[4] = {};
};

struct Attack {
  double c;
  internal::LatticeBounds bounds = internal::LatticeBounds::Certified(c);
  int lowest_octave = -30, highest_octave = 62;  // of m; below 0 the first word is 0
  std::uint64_t deep_one_in = 8;                  // share of the slow cases, those inside all bounds
  bool check_reference = false;                   // also compute each answer from the definition
  std::vector<std::uint64_t>* record = nullptr;   // takes the first words

  // Boundaries near the places of a segment where a cubic errs most, and at random places; on each
  // side of each, distances from just outside the bounds to far inside all of them.
  void Run(std::uint64_t boundaries, Stream& stream, AttackReport& report) const {
    const internal::LatticeBounds proven = internal::LatticeBounds::Certified(c);
    const double f = proven.fast, e = proven.second;
    const double distances[] = {1.05 * f, 1.01 * f, 0.99 * f, 0.95 * f, 0.9 * f, 0.8 * f,
                                0.6 * f,  0.4 * f,  0.2 * f,  0.05 * f, 8 * e,   2 * e,
                                1.05 * e, 0.5 * e,  e / 32,   e / 512,  0x1p-90, 0x1p-180};
    for (std::uint64_t i = 0; i < boundaries; ++i) {
      const auto octaves = static_cast<std::uint64_t>(highest_octave - lowest_octave + 1);
      const int octave = lowest_octave + static_cast<int>(stream.Below(octaves));
      static constexpr double kExtremes[] = {-0.999, -0.7071, 0, 0.7071, 0.999};
      const std::uint64_t place = stream.Below(8);
      const double t = place < 5 ? kExtremes[place] : 2 * stream.Uniform() - 1;
      const double segment = static_cast<double>(stream.Below(256));
      const double m = std::ldexp(1 + (segment + 0.5 + 0.5 * t) / 256, octave);
      const double near = boost::math::erfc_inv(std::ldexp(m, -63)) * std::sqrt(2.0);
      const auto k = static_cast<std::int64_t>(near * c);
      const Real z = (Real(k) + Real(0.5)) / c, boundary = ldexp(UpperTail(z), 64),
                 unit = ldexp(Density(z), 64);
      ++report.boundaries;
      for (double distance : distances) {
        for (int side : {-1, 1}) {
          if (distance < e && stream.Below(deep_one_in) != 0) continue;
          const Real at = boundary + side * distance * unit;
          if (at >= ldexp(Real(1), 63) || at <= 0) continue;
          std::vector<std::uint64_t> words = Words(at);
          const bool negative = stream() >> 63;
          if (negative) words[0] |= std::uint64_t{1} << 63;
          const std::int64_t magnitude = side < 0 ? k + 1 : k;  // a smaller p lies further out
          const std::int64_t want = negative ? -magnitude : magnitude;
          if (record != nullptr) record->push_back(words[0]);
          Script more(words);
          const internal::LatticeDraw draw = internal::DrawLattice(c, bounds, words[0], more);
          ++report.tried;
          ++report.by_tier[draw.tier];
          report.wrong += draw.k != want;
          if (check_reference) report.wrong += ReferenceCell(c, words) != want;
        }
      }
    }
  }
};

}  // namespace tacit
