#include "privacy/mechanism.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 of its own intrinsics (bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/simd.h"
#include "models/lanes.h"
#include "privacy/float_gaussian.h"
#include "privacy/lattice_sampler.h"

// As in lattice_sampler_kernels.cc: an attribute per function.
#define TACIT_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl")))
#define TACIT_AVX512_INLINE __attribute__((always_inline, target("avx2,fma,avx512f,avx512dq,avx512vl")))

namespace tacit {
namespace {

GaussianEvent Gaussian(double sensitivity, NoiseStd sigma) {
  return {Mu::Proven(DivUp(sensitivity, sigma.value())), L2Bound::Proven(sensitivity), sigma};
}

// 2^e, for exponents of normal doubles.
double PowerOfTwo(int e) {
  TACIT_CHECK(e >= -1022 && e <= 1023);
  return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
}

// Four 64-bit integers as doubles, each rounded to nearest once.
Lanes FromIntegers(const std::int64_t* k) {
#ifdef TACIT_LANES_AVX2
  // The high half, its sign bit turned, as 2⁸⁴ + high·2³², the low half as 2⁵² + low; taking 2⁸⁴ + 2⁶³ + 2⁵²
  // away is exact, so that the last addition is the only rounding.
  const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(k));
  const __m256i high =
      _mm256_xor_si256(_mm256_srli_epi64(v, 32), _mm256_castpd_si256(_mm256_set1_pd(0x1p84 + 0x1p63)));
  const __m256i low = _mm256_blend_epi32(_mm256_castpd_si256(_mm256_set1_pd(0x1p52)), v, 0x55);
  return _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(0x1p84 + 0x1p63 + 0x1p52)),
                       _mm256_castsi256_pd(low));
#else
  return Lanes{static_cast<double>(k[0]), static_cast<double>(k[1]), static_cast<double>(k[2]),
               static_cast<double>(k[3])};
#endif
}

// Here g and 1/g are normal doubles, so that a value is quantised and not lost.
constexpr double kLeastSigma = 0x1p-990, kMostSigma = 0x1p1000;
constexpr double kGridRatio = 0x1p-30;  // g ≤ σ·2⁻³⁰
constexpr double kLargest = 0x1p61;  // integers beyond it are projected back; CheckRange keeps them away

// AddLattice4, eight at a time: the same operations, and so the same bits.
TACIT_AVX512 void AddLattice8(const double* value, const std::int64_t* noise, std::size_t size,
                              double to_grid, double from_grid, double* out) {
  const __m512d most = _mm512_set1_pd(kLargest), least = _mm512_set1_pd(-kLargest);
  const __m512d to = _mm512_set1_pd(to_grid), from = _mm512_set1_pd(from_grid);
  // The noise in two halves: it may have been written so just now, and a wider load would wait for that.
  const auto eight = [=](__m512d v, __m256i low, __m256i high) TACIT_AVX512_INLINE {
    const __m512d q = _mm512_min_pd(_mm512_max_pd(_mm512_mul_pd(v, to), least), most);  // NaN: −kLargest
    const __m512d whole = _mm512_roundscale_pd(q, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512i k = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    return _mm512_mul_pd(_mm512_add_pd(whole, _mm512_cvtepi64_pd(k)), from);
  };
  std::size_t j = 0;
  for (; j + 8 <= size; j += 8) {
    const auto* k = reinterpret_cast<const __m256i*>(noise + j);
    _mm512_storeu_pd(out + j,
                     eight(_mm512_loadu_pd(value + j), _mm256_loadu_si256(k), _mm256_loadu_si256(k + 1)));
  }
  if (j < size) {
    const unsigned here = (1u << (size - j)) - 1;
    const auto all = static_cast<__mmask8>(here), low = static_cast<__mmask8>(here & 15),
               high = static_cast<__mmask8>(here >> 4);
    _mm512_mask_storeu_pd(
        out + j, all,
        eight(_mm512_maskz_loadu_pd(all, value + j), _mm256_maskz_loadu_epi64(low, noise + j),
              _mm256_maskz_loadu_epi64(high, noise + j + 4)));
  }
  _mm256_zeroupper();
}

__attribute__((noinline)) void AddLattice4(const double* value, const std::int64_t* drawn, std::size_t d,
                                           double to_grid, double from_grid, double* out) {
  const auto four = [&](Lanes v, const std::int64_t* k) {
    const Lanes q = Min(Max(v * All(to_grid), All(-kLargest)), All(kLargest));  // NaN becomes −kLargest
    return (Nearest(q) + FromIntegers(k)) * All(from_grid);
  };
  std::size_t j = 0;
  for (; j + kLanes <= d; j += kLanes) Store(out + j, four(Load(value + j), drawn + j));
  if (const std::size_t rest = d - j; rest != 0) {
    std::int64_t k[kLanes] = {};
    std::copy_n(drawn + j, rest, k);
    StorePart(out + j, four(LoadPart(value + j, rest), k), rest);
  }
}

// Integers in doubles: the sum of value and noise is rounded to a double once, as the conversion of an exact
// integer would, and so a function of that integer alone: post-processing.
inline void AddLattice(const std::int64_t* drawn, double to_grid, double from_grid, View value, Span out) {
  if (internal::SimdInUse() == internal::Simd::kAvx512)
    AddLattice8(value.data(), drawn, value.size(), to_grid, from_grid, out.data());
  else
    AddLattice4(value.data(), drawn, value.size(), to_grid, from_grid, out.data());
}

// One thread's stock of deviates. Nothing in it belongs to a release before it is taken out, which is after
// the payment.
LatticeStock& StockOfThread() {
  thread_local LatticeStock stock;
  return stock;
}

// A function of its arguments, and those of the releases of a round are often the same. Valid until this
// thread asks again.
const GaussianEvent& LatticeEvent(L2Bound sensitivity, NoiseStd sigma, std::size_t dim) {
  thread_local double known_sensitivity = 0, known_sigma = 0;
  thread_local std::size_t known_dim = 0;
  thread_local GaussianEvent answer{Mu{1.0}, L2Bound{1.0}, NoiseStd{1.0}};
  if (sensitivity.value() != known_sensitivity || sigma.value() != known_sigma || dim != known_dim)
      [[unlikely]] {
    const double grid = PowerOfTwo(LatticeScale::For(sigma.value()).grid_exponent);
    // Quantising moves each coordinate by at most g/2 on either input: g√d in all.
    answer = Gaussian(AddUp(sensitivity.value(), MulUp(grid, SqrtUp(static_cast<double>(dim)))), sigma);
    known_sensitivity = sensitivity.value(), known_sigma = sigma.value(), known_dim = dim;
  }
  return answer;
}

}  // namespace

template <class Payer>
Status Mechanism::PayDrawOpen(const Bounded& v, NoiseStd sigma, Payer& ledger, NoiseRng& rng,
                              NoiseBuffer& noise, Released<Vec>& out, bool once) const {
  Vec* const taken = once ? v.whole_ : nullptr;
  TACIT_CHECK(taken == nullptr || (taken->data() == v.value_.data() && taken->size() == v.value_.size()));
  TACIT_OK(ledger.Charge(EventFor(v.Sensitivity(ledger.adjacency()), sigma, v.dim())));  // pay,
  Draw(sigma, v.dim(), rng, noise);  // draw,
  if (taken != nullptr) {
    Add(sigma, noise, *taken, *taken);  // open
    out.value_.swap(*taken);
    return Ok{};
  }
  out.value_.resize(v.dim());
  Add(sigma, noise, v.value_, out.value_);  // open
  return Ok{};
}

Status Mechanism::Release(const Bounded& v, NoiseStd sigma, Ledger& ledger, NoiseRng& rng, NoiseBuffer& noise,
                          Released<Vec>& out) const {
  return PayDrawOpen(v, sigma, ledger, rng, noise, out);
}

namespace {

// What a release on the lattice costs and how its noise is scaled, by public numbers alone.
struct LatticePrice {
  PricedGaussian priced;
  double c, to_grid, from_grid;
};
__attribute__((noinline)) LatticePrice PriceOnLattice(L2Bound sensitivity, NoiseStd sigma, std::size_t dim) {
  const LatticeScale scale = LatticeScale::For(sigma.value());
  return {PricedGaussian(LatticeEvent(sensitivity, sigma, dim)), scale.c, PowerOfTwo(-scale.grid_exponent),
          PowerOfTwo(scale.grid_exponent)};
}

}  // namespace

Status Mechanism::ReleaseOnLattice(Vec& sum, const Bounded& v, NoiseStd sigma, Ledger& ledger, NoiseRng& rng,
                                   NoiseBuffer& noise, Released<Vec>& out) {
  // Those of the releases of a round are often the same.
  struct Asked {
    Adjacency adjacency;
    Bounded::Limits limits;
    double sigma;
    std::size_t dim;
    bool operator==(const Asked&) const = default;
  };
  thread_local Asked known{{}, {L2Bound{1.0}, L2Bound{1.0}, 0, 0, {}}, 0, 0};  // of none: no σ is 0
  thread_local LatticePrice price{PricedGaussian({Mu{1.0}, L2Bound{1.0}, NoiseStd{1.0}}), 1, 1, 1};
  TACIT_CHECK(sum.data() == v.value_.data() && sum.size() == v.dim());
  const Asked asked{ledger.adjacency(), v.limits_, sigma.value(), sum.size()};
  if (asked != known) [[unlikely]] {
    price = PriceOnLattice(v.Sensitivity(ledger.adjacency()), sigma, sum.size());
    known = asked;
  }
  TACIT_OK(ledger.Charge(price.priced));  // pay,
  noise.lattice.resize(sum.size());
  StockOfThread().Lend(price.c, rng, noise.lattice, [&](const std::int64_t* drawn) {  // draw,
    AddLattice(drawn, price.to_grid, price.from_grid, sum, sum);  // open
  });
  out.value_.swap(sum);
  return Ok{};
}

Status Mechanism::ReleaseOnce(const Bounded& v, NoiseStd sigma, Ledger& ledger, NoiseRng& rng,
                              NoiseBuffer& noise, Released<Vec>& out) const {
  return PayDrawOpen(v, sigma, ledger, rng, noise, out, true);
}

Status Mechanism::ReleaseForAll(const Bounded& v, NoiseStd sigma, LedgerBook& everyone, NoiseRng& rng,
                                NoiseBuffer& noise, Released<Vec>& out) const {
  return PayDrawOpen(v, sigma, everyone, rng, noise, out);
}

Status Mechanism::ReleaseAsClaimed(const Unbounded& v, NoiseStd sigma, const Claim& claim, Ledger& ledger,
                                   NoiseRng& rng, NoiseBuffer& noise, Released<Vec>& out) const {
  const auto sensitivity = v.Sensitivity(ledger.adjacency());
  const PrivacyEvent event =
      sensitivity ? EventFor(*sensitivity, sigma, v.dim()) : PrivacyEvent(NonPrivateEvent{});
  TACIT_OK(ledger.Charge(event));
  ledger.Record(claim);
  // A private factor of the noise is within 2^±400 and was charged ∞.
  const NoiseStd used =
      v.spread_ == 1 ? sigma : NoiseStd::Proven(std::clamp(sigma.value() * v.spread_, 0x1p-900, 0x1p900));
  Draw(used, v.dim(), rng, noise);
  out.value_.resize(v.dim());
  Add(used, noise, v.value_, out.value_);
  return Ok{};
}

PrivacyEvent LatticeGaussian::EventFor(L2Bound sensitivity, NoiseStd sigma, std::size_t dim) const {
  return LatticeEvent(sensitivity, sigma, dim);
}

double LatticeGaussian::OverheadMu(std::size_t dim) const {
  return MulUp(kGridRatio, SqrtUp(static_cast<double>(dim)));
}

Status LatticeGaussian::CheckRange(double max_abs, NoiseStd sigma) const {
  if (sigma.value() < kLeastSigma || sigma.value() > kMostSigma)
    return Fail(Code::kInvalidArgument,
                "lattice_gaussian: noise of std {:.3g} is outside [1e-298, 1e301]; change privacy.clip or "
                "privacy.epsilon, or lower algorithm.rounds",
                sigma.value());
  const double grid = PowerOfTwo(LatticeScale::For(sigma.value()).grid_exponent);
  if (max_abs / grid + 0x1p40 < kLargest) return Ok{};
  return Fail(
      Code::kInvalidArgument,
      "lattice_gaussian: a sum of up to {:.3g} beside noise of std {:.3g} does not fit 62-bit integers; "
      "lower privacy.clip or privacy.epsilon",
      max_abs, sigma.value());
}

void LatticeGaussian::Draw(NoiseStd sigma, std::size_t dim, NoiseRng& rng, NoiseBuffer& noise) const {
  noise.lattice.resize(dim);
  StockOfThread().Take(LatticeScale::For(sigma.value()).c, rng, noise.lattice);
}

void LatticeGaussian::Add(NoiseStd sigma, const NoiseBuffer& noise, View value, Span out) const {
  const std::int64_t* const drawn = noise.lattice.data();
  const int e = LatticeScale::For(sigma.value()).grid_exponent;
  const double to_grid = PowerOfTwo(-e), from_grid = PowerOfTwo(e);  // exact
  AddLattice(drawn, to_grid, from_grid, value, out);
}

std::string_view FloatGaussian::caveat() const {
  return "double-precision Gaussian noise: the guarantee is that of real arithmetic; the low-order bits of "
         "floating-point noise are known to leak (Mironov 2012). Use lattice_gaussian for a guarantee that "
         "holds for the bits released.";
}

PrivacyEvent FloatGaussian::EventFor(L2Bound sensitivity, NoiseStd sigma, std::size_t) const {
  return Gaussian(sensitivity.value(), sigma);
}

void FloatGaussian::Draw(NoiseStd, std::size_t dim, NoiseRng& rng, NoiseBuffer& noise) const {
  noise.real.resize(dim);
  FloatNormals(rng, noise.real);
}

void FloatGaussian::Add(NoiseStd sigma, const NoiseBuffer& noise, View value, Span out) const {
  for (std::size_t j = 0; j < value.size(); ++j) out[j] = value[j] + sigma.value() * noise.real[j];
}

std::string_view Expose::caveat() const { return "no noise at all: a non-private baseline."; }

void Expose::Add(NoiseStd, const NoiseBuffer&, View value, Span out) const {
  if (value.data() != out.data()) Copy(value, out);
}

Result<std::unique_ptr<Mechanism>> MakeMechanism(std::string_view name) {
  if (name == "lattice_gaussian") return std::unique_ptr<Mechanism>(std::make_unique<LatticeGaussian>());
  if (name == "gaussian") return std::unique_ptr<Mechanism>(std::make_unique<FloatGaussian>());
  if (name == "expose") return std::unique_ptr<Mechanism>(std::make_unique<Expose>());
  return Fail(Code::kInvalidArgument,
              "privacy.mechanism = \"{}\": unknown; choose lattice_gaussian, gaussian or expose", name);
}

}  // namespace tacit
