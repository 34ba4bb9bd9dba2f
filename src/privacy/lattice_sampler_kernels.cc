#include "privacy/lattice_sampler_kernels.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 of its own intrinsics (bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "core/check.h"

// A target attribute per function instead of flags per file: no inline function of a header can be
// compiled for AVX-512 here and then be chosen by the linker for everybody.
//
// The intrinsics of mul and add are plain operators to the compiler; that it may not fuse them is
// -ffp-contract=off (and the test that all kernels agree). GCC 12 leaves the upper halves of the registers
// dirty in such functions, which slows all SSE code after them, the generator's above all: hence zeroupper.
#define TACIT_AVX2 __attribute__((target("avx2,fma")))
#define TACIT_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl")))

namespace tacit::internal {
namespace {

#include "lattice_tables.inc"

constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;
// A segment of the table is named by the exponent and the top 8 bits of the mantissa.
constexpr std::uint64_t kWithin = (std::uint64_t{1} << 44) - 1, kMiddle = std::uint64_t{1} << 43;
constexpr std::int64_t kFirst = (std::int64_t{1023 + kFastLowest} << 8) - 1;  // row 0: below the table
// Adding 3·2^51 rounds to the nearest integer of either sign and leaves it in the low bits.
constexpr double kShift = 0x1.8p52;

// z, or NaN for m < 2^44. x may round up to the next segment or to 2^63; both have a row, and t is
// then the row's lower end.
inline double Quantile(std::uint64_t word) {
  const double x = static_cast<double>(static_cast<std::int64_t>(word & ~kSignBit));
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const std::int64_t row = std::max<std::int64_t>(static_cast<std::int64_t>(bits >> 44) - kFirst, 0);
  const double centre = std::bit_cast<double>((bits & ~kWithin) | kMiddle);
  const double t = x - centre;  // exact
  const double* const a = kFastRows[row];
  return std::fma(std::fma(std::fma(a[3], t, a[2]), t, a[1]), t, a[0]);
}

inline double WithSign(double z, std::uint64_t word) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(z) ^ (word & kSignBit));
}

std::size_t RoundedScalar(double c, double limit, std::int64_t* block, std::size_t begin, std::size_t end,
                          std::uint32_t* undecided) {
  std::size_t n = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const auto word = static_cast<std::uint64_t>(block[i]);
    const double y = WithSign(Quantile(word), word) * c, shifted = y + kShift;
    const auto k = static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(shifted) -
                                             std::bit_cast<std::uint64_t>(kShift));
    const bool certain = std::abs(y - (shifted - kShift)) <= limit;
    block[i] = certain ? k : block[i];
    undecided[n] = static_cast<std::uint32_t>(i);
    n += !certain;
  }
  return n;
}

std::size_t RealScalar(const std::uint64_t* words, double* out, std::size_t begin, std::size_t end,
                       std::uint32_t* undecided) {
  std::size_t n = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const double z = Quantile(words[i]);
    out[i] = WithSign(z, words[i]);
    undecided[n] = static_cast<std::uint32_t>(i);
    n += std::isnan(z);
  }
  return n;
}

// A row by its distance in bytes, which a vector computes cheaper than four or eight addresses.
TACIT_AVX2 inline __m256d Row(std::int64_t bytes) {
  return _mm256_load_pd(reinterpret_cast<const double*>(reinterpret_cast<const char*>(kFastRows) + bytes));
}
constexpr int kRowBits = 5;
static_assert(sizeof(kFastRows[0]) == 1 << kRowBits);

// The positions of the zeros among the low bits of certain.
inline std::size_t List(unsigned certain, unsigned lanes, std::size_t at, std::uint32_t* undecided) {
  std::size_t n = 0;
  for (unsigned rest = ~certain & ((1u << lanes) - 1); rest != 0; rest &= rest - 1)
    undecided[n++] = static_cast<std::uint32_t>(at + static_cast<unsigned>(std::countr_zero(rest)));
  return n;
}

TACIT_AVX2 inline __m256i Words4(std::uint64_t v) { return _mm256_set1_epi64x(static_cast<std::int64_t>(v)); }

TACIT_AVX2 inline __m256d Quantile4(__m256i word) {
  // (double)m for m < 2^63: the high half as 2^84 + high·2^32, the low half as 2^52 + low; taking
  // 2^84 + 2^52 away is exact and the last addition is the only rounding.
  const __m256i m = _mm256_andnot_si256(Words4(kSignBit), word);
  const __m256i high = _mm256_or_si256(_mm256_srli_epi64(m, 32), _mm256_castpd_si256(_mm256_set1_pd(0x1p84)));
  const __m256i low = _mm256_blend_epi32(m, _mm256_castpd_si256(_mm256_set1_pd(0x1p52)), 0xaa);
  const __m256d x = _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(0x1p84 + 0x1p52)),
                                  _mm256_castsi256_pd(low));
  const __m256i bits = _mm256_castpd_si256(x);
  // Row numbers fit 32 bits; the upper halves are 0 or −1, so the 32-bit maximum serves.
  const __m256i row = _mm256_max_epi32(
      _mm256_sub_epi64(_mm256_srli_epi64(bits, 44), _mm256_set1_epi64x(kFirst)), _mm256_setzero_si256());
  const __m256d centre =
      _mm256_castsi256_pd(_mm256_or_si256(_mm256_andnot_si256(Words4(kWithin), bits), Words4(kMiddle)));
  const __m256d t = _mm256_sub_pd(x, centre);
  // Whole rows and a transposition: faster than gathers.
  alignas(32) std::int64_t at[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(at), _mm256_slli_epi64(row, kRowBits));
  const __m256d r0 = Row(at[0]), r1 = Row(at[1]), r2 = Row(at[2]), r3 = Row(at[3]);
  const __m256d even01 = _mm256_unpacklo_pd(r0, r1), odd01 = _mm256_unpackhi_pd(r0, r1),
                even23 = _mm256_unpacklo_pd(r2, r3), odd23 = _mm256_unpackhi_pd(r2, r3);
  const __m256d a0 = _mm256_permute2f128_pd(even01, even23, 0x20),
                a1 = _mm256_permute2f128_pd(odd01, odd23, 0x20),
                a2 = _mm256_permute2f128_pd(even01, even23, 0x31),
                a3 = _mm256_permute2f128_pd(odd01, odd23, 0x31);
  return _mm256_fmadd_pd(_mm256_fmadd_pd(_mm256_fmadd_pd(a3, t, a2), t, a1), t, a0);
}

TACIT_AVX2 std::size_t RoundedAvx2(double c, double limit, std::int64_t* block, std::size_t size,
                                   std::uint32_t* undecided) {
  const __m256d scale = _mm256_set1_pd(c), most = _mm256_set1_pd(limit), shift = _mm256_set1_pd(kShift),
                sign = _mm256_set1_pd(-0.0);
  std::size_t n = 0, i = 0;
  for (; i + 4 <= size; i += 4) {
    auto* const at = reinterpret_cast<__m256i*>(block + i);
    const __m256i word = _mm256_loadu_si256(at);
    const __m256d z = _mm256_xor_pd(Quantile4(word), _mm256_and_pd(_mm256_castsi256_pd(word), sign));
    const __m256d y = _mm256_mul_pd(z, scale), shifted = _mm256_add_pd(y, shift);
    const __m256i k = _mm256_sub_epi64(_mm256_castpd_si256(shifted), _mm256_castpd_si256(shift));
    const __m256d off = _mm256_andnot_pd(sign, _mm256_sub_pd(y, _mm256_sub_pd(shifted, shift)));
    const __m256d certain = _mm256_cmp_pd(off, most, _CMP_LE_OQ);
    _mm256_storeu_si256(at, _mm256_blendv_epi8(word, k, _mm256_castpd_si256(certain)));
    const auto mask = static_cast<unsigned>(_mm256_movemask_pd(certain));
    if (mask != 0xf) [[unlikely]]
      n += List(mask, 4, i, undecided + n);
  }
  _mm256_zeroupper();
  return n + RoundedScalar(c, limit, block, i, size, undecided + n);
}

TACIT_AVX2 std::size_t RealAvx2(const std::uint64_t* words, double* out, std::size_t size,
                                std::uint32_t* undecided) {
  const __m256d sign = _mm256_set1_pd(-0.0);
  std::size_t n = 0, i = 0;
  for (; i + 4 <= size; i += 4) {
    const __m256i word = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + i));
    const __m256d z = Quantile4(word);
    _mm256_storeu_pd(out + i, _mm256_xor_pd(z, _mm256_and_pd(_mm256_castsi256_pd(word), sign)));
    const auto mask = static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(z, z, _CMP_ORD_Q)));
    if (mask != 0xf) [[unlikely]]
      n += List(mask, 4, i, undecided + n);
  }
  _mm256_zeroupper();
  return n + RealScalar(words, out, i, size, undecided + n);
}

TACIT_AVX512 inline __m512i Words8(std::uint64_t v) {
  return _mm512_set1_epi64(static_cast<std::int64_t>(v));
}

TACIT_AVX512 inline __m512d Rows(std::int64_t low, std::int64_t high) {
  return _mm512_insertf64x4(_mm512_castpd256_pd512(Row(low)), Row(high), 1);
}

TACIT_AVX512 inline __m512d Quantile8(__m512i word) {
  const __m512d x = _mm512_cvtepi64_pd(_mm512_andnot_si512(Words8(kSignBit), word));
  const __m512i bits = _mm512_castpd_si512(x);
  const __m512i row = _mm512_max_epi64(
      _mm512_sub_epi64(_mm512_srli_epi64(bits, 44), _mm512_set1_epi64(kFirst)), _mm512_setzero_si512());
  const __m512d centre =
      _mm512_castsi512_pd(_mm512_or_si512(_mm512_andnot_si512(Words8(kWithin), bits), Words8(kMiddle)));
  const __m512d t = _mm512_sub_pd(x, centre);
  alignas(64) std::int64_t at[8];
  _mm512_store_si512(at, _mm512_slli_epi64(row, kRowBits));
  const __m512d r02 = Rows(at[0], at[2]), r13 = Rows(at[1], at[3]), r46 = Rows(at[4], at[6]),
                r57 = Rows(at[5], at[7]);
  const __m512d even0123 = _mm512_unpacklo_pd(r02, r13), odd0123 = _mm512_unpackhi_pd(r02, r13),
                even4567 = _mm512_unpacklo_pd(r46, r57), odd4567 = _mm512_unpackhi_pd(r46, r57);
  const __m512d a0 = _mm512_shuffle_f64x2(even0123, even4567, 0x88),
                a1 = _mm512_shuffle_f64x2(odd0123, odd4567, 0x88),
                a2 = _mm512_shuffle_f64x2(even0123, even4567, 0xdd),
                a3 = _mm512_shuffle_f64x2(odd0123, odd4567, 0xdd);
  return _mm512_fmadd_pd(_mm512_fmadd_pd(_mm512_fmadd_pd(a3, t, a2), t, a1), t, a0);
}

TACIT_AVX512 std::size_t RoundedAvx512(double c, double limit, std::int64_t* block, std::size_t size,
                                       std::uint32_t* undecided) {
  const __m512d scale = _mm512_set1_pd(c), most = _mm512_set1_pd(limit), shift = _mm512_set1_pd(kShift),
                sign = _mm512_set1_pd(-0.0);
  std::size_t n = 0, i = 0;
  for (; i + 8 <= size; i += 8) {
    const __m512i word = _mm512_loadu_si512(block + i);
    const __m512d z = _mm512_xor_pd(Quantile8(word), _mm512_and_pd(_mm512_castsi512_pd(word), sign));
    const __m512d y = _mm512_mul_pd(z, scale), shifted = _mm512_add_pd(y, shift);
    const __m512i k = _mm512_sub_epi64(_mm512_castpd_si512(shifted), _mm512_castpd_si512(shift));
    const __m512d off = _mm512_abs_pd(_mm512_sub_pd(y, _mm512_sub_pd(shifted, shift)));
    const __mmask8 certain = _mm512_cmp_pd_mask(off, most, _CMP_LE_OQ);
    _mm512_mask_storeu_epi64(block + i, certain, k);
    if (certain != 0xff) [[unlikely]]
      n += List(certain, 8, i, undecided + n);
  }
  _mm256_zeroupper();
  return n + RoundedScalar(c, limit, block, i, size, undecided + n);
}

TACIT_AVX512 std::size_t RealAvx512(const std::uint64_t* words, double* out, std::size_t size,
                                    std::uint32_t* undecided) {
  const __m512d sign = _mm512_set1_pd(-0.0);
  std::size_t n = 0, i = 0;
  for (; i + 8 <= size; i += 8) {
    const __m512i word = _mm512_loadu_si512(words + i);
    const __m512d z = Quantile8(word);
    _mm512_storeu_pd(out + i, _mm512_xor_pd(z, _mm512_and_pd(_mm512_castsi512_pd(word), sign)));
    const __mmask8 known = _mm512_cmp_pd_mask(z, z, _CMP_ORD_Q);
    if (known != 0xff) [[unlikely]]
      n += List(known, 8, i, undecided + n);
  }
  _mm256_zeroupper();
  return n + RealScalar(words, out, i, size, undecided + n);
}

}  // namespace

std::size_t RoundedNormals(Simd simd, double c, double limit, std::span<std::int64_t> block,
                           std::uint32_t* undecided) {
  TACIT_CHECK(block.size() <= kKernelBlock);
  switch (simd) {
    case Simd::kScalar: return RoundedScalar(c, limit, block.data(), 0, block.size(), undecided);
    case Simd::kAvx2: return RoundedAvx2(c, limit, block.data(), block.size(), undecided);
    case Simd::kAvx512: return RoundedAvx512(c, limit, block.data(), block.size(), undecided);
  }
  TACIT_CHECK(false);
}

std::size_t RealNormals(Simd simd, std::span<const std::uint64_t> words, double* out,
                        std::uint32_t* undecided) {
  TACIT_CHECK(words.size() <= kKernelBlock);
  switch (simd) {
    case Simd::kScalar: return RealScalar(words.data(), out, 0, words.size(), undecided);
    case Simd::kAvx2: return RealAvx2(words.data(), out, words.size(), undecided);
    case Simd::kAvx512: return RealAvx512(words.data(), out, words.size(), undecided);
  }
  TACIT_CHECK(false);
}

}  // namespace tacit::internal
