#include "privacy/discrete_gaussian.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <deque>

#include "core/check.h"
#include "privacy/discrete_gaussian_internal.h"
#include "privacy/lattice_sampler.h"
#include "privacy/multiprecision.h"

// σ > 16. The proposal is k = round(σ·N(0, 1)), exact (lattice_sampler.h):
//   q(k) = ∫_{−½}^{½} φ((k + t)/σ)/σ dt = φ(k/σ)/σ · G(k),   G(k) = 2∫_0^½ w(t)·cosh(κt) dt,
// with w(t) = e^{−t²/2σ²} and κ = k/σ². G grows with |k|, so a(k) = G(0)/G(k) ∈ (0, 1], and
// q(k)·a(k) ∝ e^{−k²/2σ²}: the rejection is exact for every k. Its cost is 1 − Σ q·a ≈ 1/(24σ²).
//
// Nearly every coin accepts without knowing a(k): w falls and cosh grows with t, so by Chebyshev's
// inequality on sums of monotone functions
//   1/a(k) = G(k)/G(0) ≤ 2∫_0^½ cosh(κt) dt = sinh(κ/2)/(κ/2) ≤ e^{κ²/24},
// the last term by term ((2n + 1)! ≥ 6ⁿ·n!), hence 1 − a(k) ≤ k²/(24σ⁴). The double that stands for it
// is enlarged by 2^-40, more than its ten roundings of 2^-53; |k| < 2^53 is exact. Coins below it go to
// MPFR, once in 24σ² draws.
//
// σ ≤ 16. Integers only; the table's entries are certified by directed rounding when it is made.
namespace tacit {
namespace internal {
namespace {

// A uniform number on (0, 1), revealed as far as a comparison needs.
class LazyUniform {
 public:
  LazyUniform(std::uint64_t first, int bits, MoreBits& more) : words_{first}, bits_(bits), more_(more) {}

  mpfr_prec_t drawn() const { return bits_ + 64 * static_cast<mpfr_prec_t>(words_.size() - 1); }
  void Reveal() { words_.push_back(more_.Next()); }
  // The interval it lies in; both need more precision than there are drawn bits.
  void Enclose(Mp& low, Mp& high) const {
    mpfr_set_ui(low, 0, MPFR_RNDN);
    for (std::uint64_t w : words_) {
      mpfr_mul_2ui(low, low, 64, MPFR_RNDN);
      mpfr_add_ui(low, low, w, MPFR_RNDN);  // exact
    }
    mpfr_add_ui(high, low, 1, MPFR_RNDN);
    mpfr_mul_2si(low, low, -drawn(), MPFR_RNDN);
    mpfr_mul_2si(high, high, -drawn(), MPFR_RNDN);
  }

 private:
  std::vector<std::uint64_t> words_;
  int bits_;
  MoreBits& more_;
};

// e^{−i²/2σ²} from below (MPFR_RNDD) or above (MPFR_RNDU).
void Weight(double sigma, std::int64_t i, mpfr_rnd_t direction, Mp& out) {
  const mpfr_rnd_t other = direction == MPFR_RNDU ? MPFR_RNDD : MPFR_RNDU;
  Mp twice(128);  // 2σ², exact: 107 bits
  mpfr_set_d(twice, sigma, MPFR_RNDN);
  mpfr_sqr(twice, twice, MPFR_RNDN);
  mpfr_mul_2ui(twice, twice, 1, MPFR_RNDN);
  mpfr_set_si(out, i, MPFR_RNDN);
  mpfr_sqr(out, out, MPFR_RNDN);  // exact: |i| < 2^53 and the precision exceeds 106
  mpfr_div(out, out, twice, other);
  mpfr_neg(out, out, MPFR_RNDN);
  mpfr_exp(out, out, direction);
}

// P(|K| ≥ j) for j = 1..count, enclosed; in units of the last bit of 1 the enclosures are narrow.
struct Tails {
  std::deque<Mp> low, high;  // [j − 1]

  Tails(double sigma, std::int64_t count, mpfr_prec_t precision) {
    // Sum from the smallest term. From i ≥ σ² on, a term is below e^-1 of the one before it, so all
    // beyond the last are together less than it; it is made negligible.
    const double bits = static_cast<double>(precision);
    const auto last = std::max({count, static_cast<std::int64_t>(std::ceil(sigma * sigma)),
                                static_cast<std::int64_t>(std::ceil(sigma * std::sqrt(1.4 * bits)))}) +
                      1;
    Mp below(precision), above(precision), term(precision);
    Weight(sigma, last, MPFR_RNDU, above);  // what is beyond last; 0 from below
    mpfr_set_ui(below, 0, MPFR_RNDN);
    for (std::int64_t i = last; i >= 1; --i) {
      Weight(sigma, i, MPFR_RNDD, term);
      mpfr_add(below, below, term, MPFR_RNDD);
      Weight(sigma, i, MPFR_RNDU, term);
      mpfr_add(above, above, term, MPFR_RNDU);
      if (i <= count) {
        mpfr_mul_2ui(low.emplace_front(precision), below, 1, MPFR_RNDN);
        mpfr_mul_2ui(high.emplace_front(precision), above, 1, MPFR_RNDN);
      }
    }
    // Now low[0] and high[0] enclose Σ_{k≠0}; divide by 1 + that.
    Mp least(precision), most(precision);
    mpfr_add_ui(least, low[0], 1, MPFR_RNDD);
    mpfr_add_ui(most, high[0], 1, MPFR_RNDU);
    for (Mp& v : low) mpfr_div(v, v, most, MPFR_RNDD);
    for (Mp& v : high) mpfr_div(v, v, least, MPFR_RNDU);
  }
};

// U < P(|K| ≥ j). A tie has probability 0.
bool Below(LazyUniform& u, double sigma, std::int64_t j) {
  for (;;) {
    const mpfr_prec_t precision = u.drawn() + 128;
    Mp low(precision), high(precision);
    u.Enclose(low, high);
    Tails tails(sigma, j, precision);
    if (mpfr_lessequal_p(high, tails.low.back())) return true;
    if (mpfr_greaterequal_p(low, tails.high.back())) return false;
    u.Reveal();
  }
}

constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;
constexpr int kFirstShift = 55;  // leaves 8 of 63 bits

}  // namespace

TailTable::TailTable(double s) : sigma(s) {
  FreeMpfrCacheAtThreadExit();
  // P(|K| ≥ 12σ + 2) < 2^-63, by far.
  const auto count = static_cast<std::int64_t>(std::ceil(12 * sigma)) + 2;
  for (mpfr_prec_t precision = 192; at.empty(); precision *= 2) {
    Tails tails(sigma, count, precision);
    for (std::size_t j = 0; j < tails.low.size(); ++j) {
      mpfr_mul_2ui(tails.low[j], tails.low[j], 63, MPFR_RNDN);
      mpfr_mul_2ui(tails.high[j], tails.high[j], 63, MPFR_RNDN);
      at.push_back(mpfr_get_ui(tails.low[j], MPFR_RNDD));
      if (mpfr_get_ui(tails.high[j], MPFR_RNDD) != at.back()) {
        at.clear();  // an integer within the enclosure: look closer
        break;
      }
      if (at.back() == 0) break;
    }
  }
  TACIT_CHECK(at.back() == 0);
  for (std::uint64_t top = 0; top < kSignBit >> kFirstShift; ++top) {
    const std::uint64_t largest = ((top + 1) << kFirstShift) - 1;
    std::size_t n = 0;
    while (at[n] > largest) ++n;
    first.push_back(static_cast<std::uint16_t>(n));
  }
}

DiscreteDraw TailTable::Draw(std::uint64_t word, MoreBits& more) const {
  const std::uint64_t m = word & ~kSignBit;
  std::size_t n = first[m >> kFirstShift];
  while (m < at[n]) ++n;  // ends: the last entry is 0
  auto k = static_cast<std::int64_t>(n);
  const bool tie = m == at[n];
  if (tie) [[unlikely]] {
    FreeMpfrCacheAtThreadExit();
    LazyUniform u(m, 63, more);
    while (Below(u, sigma, k + 1)) ++k;
  }
  return {word & kSignBit ? -k : k, tie};
}

Acceptance::Acceptance(double sigma, double factor) : sigma_(sigma) {
  const double variance = sigma * sigma;
  scale_ = factor * (0x1p53 * (1 + 0x1p-40)) / (24 * variance * variance);
}

bool Acceptance::Exact(std::int64_t k, std::uint64_t coin, MoreBits& more) const {
  if (k == 0) return true;  // a(0) = 1
  FreeMpfrCacheAtThreadExit();
  k = std::abs(k);
  LazyUniform v(coin, 64, more);
  for (;;) {
    // P(rounded = k) is a difference of tails that agree in log2 σ ≤ 40 bits and a few.
    const mpfr_prec_t precision = v.drawn() + 128;
    Mp low(precision), high(precision), x(precision), tail(precision), a(precision);
    v.Enclose(low, high);
    // 1 − a(k) from below for MPFR_RNDU (a from above) and from above for MPFR_RNDD.
    const auto refusal = [&](mpfr_rnd_t up) {
      const mpfr_rnd_t down = up == MPFR_RNDU ? MPFR_RNDD : MPFR_RNDU;
      const auto argument = [&](std::int64_t odd, mpfr_rnd_t direction) {  // odd/(σ·√8)
        mpfr_sqrt_ui(x, 8, direction == MPFR_RNDU ? MPFR_RNDD : MPFR_RNDU);
        mpfr_mul_d(x, x, sigma_, direction == MPFR_RNDU ? MPFR_RNDD : MPFR_RNDU);
        mpfr_si_div(x, odd, x, direction);
      };
      Mp cell(precision);  // 2·P(rounded = k), towards down
      argument(2 * k - 1, up);
      mpfr_erfc(cell, x, down);
      argument(2 * k + 1, down);
      mpfr_erfc(tail, x, up);
      mpfr_sub(cell, cell, tail, down);
      argument(1, up);  // 2·P(rounded = 0) = 2·erf(1/(σ·√8))
      mpfr_erf(a, x, up);
      mpfr_mul_2ui(a, a, 1, MPFR_RNDN);
      Weight(sigma_, k, up, tail);
      mpfr_mul(a, a, tail, up);
      mpfr_div(a, a, cell, up);
      mpfr_ui_sub(a, 1, a, down);
    };
    refusal(MPFR_RNDU);
    if (mpfr_lessequal_p(high, a)) return false;
    refusal(MPFR_RNDD);
    if (mpfr_greaterequal_p(low, a)) return true;
    v.Reveal();
  }
}

}  // namespace internal

DiscreteGaussian::DiscreteGaussian(double sigma) : sigma_(sigma) {
  TACIT_CHECK(sigma >= 0x1p-6 && sigma <= 0x1p40);
  if (sigma <= internal::kLargestTableSigma) table_ = std::make_shared<const internal::TailTable>(sigma);
}

void DiscreteGaussian::Fill(NoiseRng& rng, std::span<std::int64_t> out, DiscreteCounters* counters) const {
  internal::RequireRoundingToNearest();
  internal::FromGenerator more(rng);
  const internal::Acceptance acceptance(sigma_);
  DiscreteCounters count;
  while (!out.empty()) {
    const std::span<std::int64_t> block = out.first(std::min(out.size(), internal::kKernelBlock));
    std::uint64_t words[internal::kKernelBlock];
    if (table_ != nullptr) {
      rng.Fill({words, block.size()});
      for (std::size_t i = 0; i < block.size(); ++i) {
        const internal::DiscreteDraw draw = table_->Draw(words[i], more);
        block[i] = draw.k;
        count.exact += draw.exact;
      }
      count.fast += block.size();
    } else {
      LatticeNormals(sigma_, rng, block);
      rng.Fill({words, block.size()});
      // What the fast test leaves waits until the block is through.
      std::uint32_t undecided[internal::kKernelBlock];
      std::size_t n = 0;
      for (std::size_t i = 0; i < block.size(); ++i) {
        undecided[n] = static_cast<std::uint32_t>(i);
        n += !acceptance.Fast(block[i], words[i]);
      }
      for (std::size_t j = 0; j < n; ++j) {
        std::int64_t& k = block[undecided[j]];
        std::uint64_t coin = words[undecided[j]];
        while (!acceptance.Fast(k, coin)) {
          ++count.exact;
          if (acceptance.Exact(k, coin, more)) break;
          ++count.rejected;
          LatticeNormals(sigma_, rng, {&k, 1});
          coin = rng.Bits();
        }
      }
      count.fast += block.size();
    }
    out = out.subspan(block.size());
  }
  if (counters != nullptr) {
    counters->fast += count.fast - (count.exact - count.rejected);
    counters->exact += count.exact;
    counters->rejected += count.rejected;
  }
}

}  // namespace tacit
