#include "privacy/lattice_sampler.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>
#include <vector>

#include "core/check.h"
#include "privacy/lattice_sampler_internal.h"
#include "privacy/lattice_sampler_kernels.h"
#include "privacy/multiprecision.h"

// One deviate is a random sign and |Z| = z(p), z = Q⁻¹, with p = (m + f)/2^64 uniform on (0, ½): m
// is 63 drawn bits, f ∈ [0, 1) those not yet drawn. Wanted is the integer nearest to c·z. Each tier
// knows z to within a proven E and accepts if the whole interval c·(z ± E) rounds to one integer;
// otherwise the next tier looks closer at the same p. U is never redrawn: that would change the law.
//
// Tier 1 (lattice_sampler_kernels.cc), a cubic. Its table (lattice_tables.cc) has 256 segments per
// octave of x = (double)m.
//   table: approximation, rounding of the coefficients,
//     of (double)m, and f − ½                            kFastTableError < 2^-42.25
//   Horner by fma: the last step rounds z < 8            2^-51
//     the inner steps round |t·a1| ≤ 2^-9·1.26·(1 + ..)  2^-60
//   y = c·z < 2^43 rounds at most                        z·2^-53 ≤ 2^-50
//   y − nearest is exact, ½ − c·E is within 2^-54 of it, in units of z below 2^-53 for c ≥ 1
// The sum exceeds the table by less than 2^-49; kFastError allows 2^-48.
//
// Tier 2, degree 10 with 64 further bits, 16 segments per octave. The constant term has two parts
// and its product with c is split exactly, so only r = z − a0, |r| ≤ S = 2^-5.3, carries rounding:
//   table                                                kSecondTableError < 2^-58.9
//   t = (double)(w − centre) 1, Horner's inner steps < 1.2, last product and sum 1, c·r + e 1,
//     v = (p − k0) + s 1, each in units of S·2^-53       5.2·S·2^-53 < 2^-55.9
//   (p − k0) in that last sum                            ½/c·2^-53 ≤ 2^-54
//   ½ − c·E                                              2^-54/c
// Together below 2^-52.7; kSecondError = 2^-52 is 1.6 times that. For c ≥ 2^31 the last two vanish
// and the sum is below 2^-55.7; there kSecondErrorFar = 2^-55 is again 1.6 times that.
//
// Tier 3 compares p's interval with the cell boundary Q((k ± ½)/c), both enclosed by directed
// rounding, and draws bits until they are apart. It decides by comparison, so it is exact.
//
// All this needs true fused multiply-add and rounding to nearest; the latter is checked.
namespace tacit {
namespace {

#include "lattice_tables.inc"

constexpr double kFastError = kFastTableError + 0x1p-48;
constexpr double kSecondError = 0x1p-52, kSecondErrorFar = 0x1p-55, kFar = 0x1p31;
static_assert(kFastError < 0x1p-42, "tier 1 would fall through more often than promised");
static_assert(kSecondTableError < 0x1p-58 && 5.2 * kSecondSlope < 0x1p-2, "tier 2's budget is exceeded");
static_assert(kSecondTableError + 5.2 * kSecondSlope * 0x1p-53 + 0x1p-84 < 0.65 * kSecondErrorFar);
static_assert(std::size(kFastRows) == 256 * (63 - kFastLowest) + 2);
static_assert(std::size(kSecondRows) == 63 * 16);

constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;

inline std::int64_t WithSign(std::uint64_t word, std::int64_t k) {
  const std::int64_t s = -static_cast<std::int64_t>(word >> 63);
  return (k ^ s) - s;
}

// Accept if |y − nearest| ≤ ½ − c·E; E = ∞ accepts nothing.
inline double Limit(double c, double error) { return 0.5 - c * error; }

// z = high + r; m > 0.
struct SecondParts {
  double high, r;
};
SecondParts SecondQuantile(std::uint64_t m, std::uint64_t next) {
  const int lz = std::countl_zero(m);  // ≥ 1
  const std::uint64_t w = m << lz | next >> (64 - lz);
  const std::uint64_t segment = w >> 59;  // 16..31
  const double* const a = kSecondRows[static_cast<std::size_t>(lz - 1) * 16 + (segment - 16)];
  const auto offset = static_cast<std::int64_t>(w - (segment << 59 | std::uint64_t{1} << 58));
  const double t = static_cast<double>(offset) * 0x1p-58;
  double q = a[11];
  for (int i = 10; i >= 2; --i) q = std::fma(q, t, a[i]);
  return {a[0], std::fma(q, t, a[1])};
}

bool Second(double c, double limit, std::uint64_t m, std::uint64_t next, std::int64_t& k) {
  const SecondParts z = SecondQuantile(m, next);
  const double p = c * z.high, e = std::fma(c, z.high, -p);  // c·high = p + e
  const double s = std::fma(c, z.r, e), k0 = std::rint(p);
  const double v = (p - k0) + s, k1 = std::rint(v);
  k = static_cast<std::int64_t>(k0) + static_cast<std::int64_t>(k1);
  return std::abs(v - k1) <= limit;
}

using internal::Mp;

class Exact {
 public:
  Exact(double c, std::uint64_t m, internal::MoreBits& more) : c_(c), words_{m}, more_(more) {}
  void Add(std::uint64_t word) { words_.push_back(word); }

  // |k|, searched outward from a guess.
  std::int64_t Search(std::int64_t guess) {
    std::int64_t low = 0, high;  // Beyond(low), not Beyond(high)
    if (Beyond(guess)) {
      low = guess;
      std::int64_t step = 1;
      while (Beyond(low + step)) {
        low += step;
        step *= 2;
      }
      high = low + step;
    } else {
      high = guess;
      std::int64_t step = 1;
      while (high - step > 0 && !Beyond(high - step)) {
        high -= step;
        step *= 2;
      }
      low = std::max<std::int64_t>(high - step, 0);
    }
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (Beyond(middle) ? low : high) = middle;
    }
    return low;
  }

 private:
  // c·z > k − ½, that is p < Q((k − ½)/c). A tie has probability 0.
  bool Beyond(std::int64_t k) {
    if (k <= 0) return true;
    for (;;) {
      const auto drawn = static_cast<mpfr_prec_t>(64 * words_.size());
      const mpfr_prec_t precision = drawn + 64;
      Mp p_low(precision), p_high(precision), q_low(precision), q_high(precision), half(precision);
      mpfr_set_ui(p_low, 0, MPFR_RNDN);
      for (std::uint64_t w : words_) {
        mpfr_mul_2ui(p_low, p_low, 64, MPFR_RNDN);
        mpfr_add_ui(p_low, p_low, w, MPFR_RNDN);  // exact: the precision exceeds the bits drawn
      }
      mpfr_add_ui(p_high, p_low, 1, MPFR_RNDN);
      mpfr_mul_2si(p_low, p_low, -drawn, MPFR_RNDN);
      mpfr_mul_2si(p_high, p_high, -drawn, MPFR_RNDN);
      mpfr_set_si(half, 2 * k - 1, MPFR_RNDN);
      Tail(half, MPFR_RNDU, q_low);
      if (mpfr_lessequal_p(p_high, q_low)) return true;
      Tail(half, MPFR_RNDD, q_high);
      if (mpfr_greaterequal_p(p_low, q_high)) return false;
      words_.push_back(more_.Next());
    }
  }

  // Q(odd/(2c)) = ½·erfc(odd/(c·√8)), from below if the argument is rounded up and vice versa.
  void Tail(Mp& odd, mpfr_rnd_t argument, Mp& out) {
    const mpfr_rnd_t other = argument == MPFR_RNDU ? MPFR_RNDD : MPFR_RNDU;
    Mp x(mpfr_get_prec(out));
    mpfr_sqrt_ui(x, 8, other);
    mpfr_mul_d(x, x, c_, other);
    mpfr_div(x, odd, x, argument);
    mpfr_erfc(out, x, other);
    mpfr_div_2ui(out, out, 1, MPFR_RNDN);
  }

  double c_;
  std::vector<std::uint64_t> words_;
  internal::MoreBits& more_;
};

// About z for p = next·2^-128, by Newton's method on log Q.
double TailGuess(std::uint64_t next) {
  const double p = std::max(static_cast<double>(next), 1.0) * 0x1p-128;
  double z = std::sqrt(-2 * std::log(p));
  for (int i = 0; i < 6; ++i) {
    const double q = 0.5 * std::erfc(z * std::numbers::sqrt2 / 2);
    const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
    z += (std::log(q) - std::log(p)) * q / density;
  }
  return z;
}

// Everything after tier 1 refused.
internal::LatticeDraw Closer(double c, double second_error, std::uint64_t word, internal::MoreBits& more) {
  const std::uint64_t m = word & ~kSignBit, next = more.Next();
  std::int64_t k = 0;
  if (m != 0 && Second(c, Limit(c, second_error), m, next, k)) return {WithSign(word, k), 2};
  internal::FreeMpfrCacheAtThreadExit();
  Exact exact(c, m, more);
  exact.Add(next);
  // Tier 2 is off by one at most; a guess only shortens the search.
  k = exact.Search(m != 0 ? k : static_cast<std::int64_t>(c * TailGuess(next)));
  return {WithSign(word, k), 3};
}

// By arithmetic, since the C library may look at another unit's mode.
bool RoundsToNearest() {
  volatile double one = 1, quarter = 0x1p-54, most = 0x1.8p-53;
  return one + quarter == 1 && -one - quarter == -1 && one + most > 1;
}

}  // namespace

namespace internal {

LatticeBounds LatticeBounds::Certified(double c) {
  return {kFastError, c >= kFar ? kSecondErrorFar : kSecondError};
}

LatticeDraw DrawLattice(double c, LatticeBounds bounds, std::uint64_t word, MoreBits& more) {
  auto k = static_cast<std::int64_t>(word);
  std::uint32_t undecided;
  if (RoundedNormals(Simd::kScalar, c, Limit(c, bounds.fast), {&k, 1}, &undecided) == 0) return {k, 1};
  return Closer(c, bounds.second, word, more);
}

double TailNormal(std::uint64_t word, std::uint64_t next) {
  const std::uint64_t m = word & ~kSignBit;
  const SecondParts z = m != 0 ? SecondQuantile(m, next) : SecondParts{TailGuess(next), 0};
  return word & kSignBit ? -(z.high + z.r) : z.high + z.r;
}

void RequireRoundingToNearest() { TACIT_CHECK(RoundsToNearest()); }

void LatticeNormalsBy(Simd simd, double c, NoiseRng& rng, std::span<std::int64_t> out,
                      LatticeCounters* counters) {
  TACIT_CHECK(c >= 1 && c <= 0x1p40);
  RequireRoundingToNearest();
  const LatticeBounds bounds = LatticeBounds::Certified(c);
  const double limit = Limit(c, bounds.fast);
  FromGenerator more(rng);
  LatticeCounters count;
  while (!out.empty()) {
    // The words are drawn in place; those that tier 1 cannot decide stay until the block is through,
    // so that the order of draws does not depend on the kernel.
    const std::span<std::int64_t> block = out.first(std::min(out.size(), kKernelBlock));
    rng.Fill({reinterpret_cast<std::uint64_t*>(block.data()), block.size()});
    std::uint32_t undecided[kKernelBlock];
    const std::size_t n = RoundedNormals(simd, c, limit, block, undecided);
    for (std::size_t j = 0; j < n; ++j) {
      std::int64_t& value = block[undecided[j]];
      const LatticeDraw draw = Closer(c, bounds.second, static_cast<std::uint64_t>(value), more);
      value = draw.k;
      ++(draw.tier == 2 ? count.second : count.exact);
    }
    count.fast += block.size() - n;
    out = out.subspan(block.size());
  }
  if (counters != nullptr) {
    counters->fast += count.fast;
    counters->second += count.second;
    counters->exact += count.exact;
  }
}

}  // namespace internal

void LatticeNormals(double c, NoiseRng& rng, std::span<std::int64_t> out, LatticeCounters* counters) {
  internal::LatticeNormalsBy(internal::SimdInUse(), c, rng, out, counters);
}

void LatticeStock::Begin(double c) {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { internal::lattice_forks.fetch_add(1); });
  TACIT_CHECK(registered == 0);
  Drop();
  ahead_ = 0;
  c_ = c;
  forks_ = internal::lattice_forks.load(std::memory_order_relaxed);
}

std::span<std::int64_t> LatticeStock::Refill(NoiseRng& rng, std::span<std::int64_t> out) {
  const std::size_t left = end_ - next_;
  std::copy_n(value_.begin() + static_cast<std::ptrdiff_t>(next_), left, out.begin());
  Drop();
  out = out.subspan(left);
  ahead_ = std::min(kMost, std::max(out.size(), 2 * ahead_));
  LatticeNormals(c_, rng, std::span(value_).first(ahead_));
  end_ = ahead_;
  return out;
}

void LatticeStock::Drop() {
  volatile std::int64_t* const value = value_.data();  // so that no compiler leaves it out
  for (std::size_t i = next_; i < end_; ++i) value[i] = 0;
  next_ = end_ = 0;
}

std::string_view SamplerKernel() { return internal::Name(internal::SimdInUse()); }

}  // namespace tacit
