#include "compress/select.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/check.h"
#include "core/simd.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 of its own intrinsics (bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <array>

// As in entries.cc: an attribute per function, and the upper halves of the registers are cleaned at the end.
#define TACIT_AVX512 __attribute__((target("avx2,fma,popcnt,bmi,avx512f,avx512dq,avx512vl")))

namespace tacit {
namespace {

// Magnitudes are compared as integers: the bits of a float without its sign are in the order of its value.
template <class T> struct Of;
template <> struct Of<float> {
  using Bits = std::uint32_t;
  static std::vector<Bits>& Magnitudes(SelectSpace& s) { return s.bits32; }
  static std::vector<Bits>& Middle(SelectSpace& s) { return s.middle32; }
};
template <> struct Of<double> {
  using Bits = std::uint64_t;
  static std::vector<Bits>& Magnitudes(SelectSpace& s) { return s.bits64; }
  static std::vector<Bits>& Middle(SelectSpace& s) { return s.middle64; }
};
template <class T> using BitsOf = typename Of<T>::Bits;
template <class T> constexpr BitsOf<T> kLargestFinite =
    std::bit_cast<BitsOf<T>>(std::numeric_limits<T>::max());

template <class T> BitsOf<T> Magnitude(T x) { return std::bit_cast<BitsOf<T>>(x) & (~BitsOf<T>{0} >> 1); }

// The r-th largest (r from 1) of v, whose elements lie in [lo, hi]; v is used up. Eleven bits a round. A
// round with few elements counts them in fewer buckets, so that clearing and summing cost no more than they.
template <class B> B RankedFromTop(std::vector<B>& v, std::size_t r, B lo, B hi,
                                   std::vector<std::uint32_t>& count) {
  while (lo < hi) {
    const int digit = std::clamp(static_cast<int>(std::bit_width(v.size())), 4, 11);
    const int shift = std::max(0, static_cast<int>(std::bit_width(static_cast<B>(hi - lo))) - digit);
    count.assign((static_cast<std::size_t>((hi - lo) >> shift)) + 1, 0);
    for (const B b : v) ++count[static_cast<std::size_t>((b - lo) >> shift)];
    std::size_t bucket = count.size() - 1;
    for (; count[bucket] < r; --bucket) r -= count[bucket];
    lo += static_cast<B>(bucket) << shift;
    hi = std::min<B>(hi, lo + static_cast<B>((B{1} << shift) - 1));
    std::size_t kept = 0;
    for (const B b : v) {
      v[kept] = b;
      kept += b >= lo && b <= hi ? 1 : 0;
    }
    v.resize(kept);
  }
  return lo;
}

// Positions and magnitudes, in order, of what is finite and at least lo > 0; room for eight more than x has.
template <class T>
std::size_t CollectPlain(std::span<const T> x, std::size_t from, std::size_t to, BitsOf<T> lo,
                         std::uint32_t* index, BitsOf<T>* bits, std::size_t found) {
  for (std::size_t i = from; i < to; ++i) {
    const BitsOf<T> b = Magnitude(x[i]);
    index[found] = static_cast<std::uint32_t>(i);
    bits[found] = b;
    found += b >= lo && b <= kLargestFinite<T> ? 1 : 0;
  }
  return found;
}

#ifdef __AVX2__
// For every set of lanes, which lanes they are, packed to the front.
struct alignas(32) Lanes {
  std::array<std::array<std::uint32_t, 8>, 256> eight{};
  std::array<std::array<std::uint32_t, 8>, 16> four{};  // of four lanes of 64 bits, as pairs of 32
};
constexpr Lanes MakeLanes() {
  Lanes t;
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned k = 0;
    for (unsigned lane = 0; lane < 8; ++lane)
      if (mask >> lane & 1) t.eight[mask][k++] = lane;
  }
  for (unsigned mask = 0; mask < 16; ++mask) {
    unsigned k = 0;
    for (unsigned lane = 0; lane < 4; ++lane)
      if (mask >> lane & 1) t.four[mask][k++] = 2 * lane, t.four[mask][k++] = 2 * lane + 1;
  }
  return t;
}
constexpr Lanes kLanes = MakeLanes();

const __m256i* LanesAt(const std::array<std::uint32_t, 8>& a) {
  return reinterpret_cast<const __m256i*>(a.data());
}

// Comparison with lo is false for NaN; infinities pass it and are put out in the rare branch.
std::size_t Collect(std::span<const float> x, std::uint32_t lo, std::uint32_t* index, std::uint32_t* bits) {
  const __m256 unsign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  const __m256 least = _mm256_set1_ps(std::bit_cast<float>(lo));
  const __m256 most = _mm256_set1_ps(std::numeric_limits<float>::max());
  const __m256i step = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  std::size_t found = 0, i = 0;
  const auto take = [&](__m256 m, unsigned mask, std::size_t at) {
    mask &= static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(m, most, _CMP_LE_OQ)));
    const __m256i lanes = _mm256_load_si256(LanesAt(kLanes.eight[mask]));
    const __m256i where =
        _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(at))), step);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(index + found), _mm256_permutevar8x32_epi32(where, lanes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bits + found),
                        _mm256_permutevar8x32_epi32(_mm256_castps_si256(m), lanes));
    found += static_cast<std::size_t>(std::popcount(mask));
  };
  for (; i + 16 <= x.size(); i += 16) {
    const __m256 a = _mm256_and_ps(_mm256_loadu_ps(x.data() + i), unsign);
    const __m256 b = _mm256_and_ps(_mm256_loadu_ps(x.data() + i + 8), unsign);
    const auto mask_a = static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, least, _CMP_GE_OQ)));
    const auto mask_b = static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(b, least, _CMP_GE_OQ)));
    if ((mask_a | mask_b) == 0) continue;
    take(a, mask_a, i);
    take(b, mask_b, i + 8);
  }
  return CollectPlain(x, i, x.size(), lo, index, bits, found);
}

std::size_t Collect(std::span<const double> x, std::uint64_t lo, std::uint32_t* index, std::uint64_t* bits) {
  const __m256d unsign = _mm256_castsi256_pd(_mm256_set1_epi64x(0x7fffffffffffffff));
  const __m256d least = _mm256_set1_pd(std::bit_cast<double>(lo));
  const __m256d most = _mm256_set1_pd(std::numeric_limits<double>::max());
  const __m128i step = _mm_setr_epi32(0, 1, 2, 3);
  std::size_t found = 0, i = 0;
  const auto take = [&](__m256d m, unsigned mask, std::size_t at) {
    mask &= static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(m, most, _CMP_LE_OQ)));
    const __m256i lanes = _mm256_load_si256(LanesAt(kLanes.four[mask]));
    const __m128i where =
        _mm_add_epi32(_mm_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(at))), step);
    const __m256i packed = _mm256_permutevar8x32_epi32(_mm256_cvtepi32_epi64(where), lanes);
    const __m128i narrow = _mm256_castsi256_si128(
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(index + found), narrow);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bits + found),
                        _mm256_permutevar8x32_epi32(_mm256_castpd_si256(m), lanes));
    found += static_cast<std::size_t>(std::popcount(mask));
  };
  for (; i + 8 <= x.size(); i += 8) {
    const __m256d a = _mm256_and_pd(_mm256_loadu_pd(x.data() + i), unsign);
    const __m256d b = _mm256_and_pd(_mm256_loadu_pd(x.data() + i + 4), unsign);
    const auto mask_a = static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(a, least, _CMP_GE_OQ)));
    const auto mask_b = static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(b, least, _CMP_GE_OQ)));
    if ((mask_a | mask_b) == 0) continue;
    take(a, mask_a, i);
    take(b, mask_b, i + 4);
  }
  return CollectPlain(x, i, x.size(), lo, index, bits, found);
}
#else
template <class T>
std::size_t Collect(std::span<const T> x, BitsOf<T> lo, std::uint32_t* index, BitsOf<T>* bits) {
  return CollectPlain(x, 0, x.size(), lo, index, bits, 0);
}
#endif

// 1/divisor where that is exact, for a power of two; otherwise 0.
double Inverse(const Difference& x) {
  return std::bit_cast<std::uint64_t>(x.divisor) << 12 == 0 ? 1 / x.divisor : 0;
}

// Positions from `from` on, of 64 times `words` coordinates, of magnitudes that are at least `lo`, infinite
// ones too; returns how many, having written up to 64 more. What is compared is masks, and a mask's positions
// are written four at a time, so that almost no branch depends on the numbers.
template <bool kOver>
TACIT_AVX512 std::size_t FindAtLeast(const double* a, const double* b, double by, std::size_t from,
                                     std::size_t words, double lo, std::uint32_t* index) {
  const __m512d least = _mm512_set1_pd(lo), m = _mm512_set1_pd(by);
  std::size_t found = 0;
  for (std::size_t w = 0; w < words; ++w) {
    const double *p = a + from + 64 * w, *q = b + from + 64 * w;
    std::uint64_t mask = 0;
#pragma GCC unroll 8
    for (unsigned i = 0; i < 8; ++i) {
      const __m512d u = _mm512_loadu_pd(p + 8 * i);
      const __m512d v =
          _mm512_sub_pd(kOver ? _mm512_div_pd(u, m) : _mm512_mul_pd(u, m), _mm512_loadu_pd(q + 8 * i));
      mask |= static_cast<std::uint64_t>(_mm512_cmp_pd_mask(_mm512_abs_pd(v), least, _CMP_GE_OQ)) << (8 * i);
    }
    const auto base = static_cast<std::uint32_t>(from + 64 * w);
    const std::size_t end = found + static_cast<std::size_t>(std::popcount(mask));
    do {
#pragma GCC unroll 4
      for (unsigned i = 0; i < 4; ++i) {
        index[found + i] = base + static_cast<std::uint32_t>(std::countr_zero(mask));
        mask &= mask - 1;
      }
      found += 4;
    } while (mask != 0);
    found = end;
  }
  _mm256_zeroupper();
  return found;
}

std::size_t Collect(const Difference& x, std::uint64_t lo, std::uint32_t* index, std::uint64_t* bits) {
  const double by = Inverse(x);
  std::size_t found = 0, from = 0;
  // Magnitudes of a part while it is in the first-level cache.
  const auto keep = [&](std::size_t count) {
    const std::uint32_t* at = index + found;
    for (std::size_t k = 0; k < count; ++k) {
      const std::uint32_t j = at[k];
      const std::uint64_t b = Magnitude(by != 0 ? x.a[j] * by - x.b[j] : x[j]);
      index[found] = j;
      bits[found] = b;
      found += b <= kLargestFinite<double> ? 1 : 0;
    }
  };
  if (internal::SimdInUse() == internal::Simd::kAvx512) {
    constexpr std::size_t kWords = 16;
    while (x.size() - from >= 64) {
      const std::size_t words = std::min(kWords, (x.size() - from) / 64);
      const auto find = by != 0 ? FindAtLeast<false> : FindAtLeast<true>;
      keep(find(x.a.data(), x.b.data(), by != 0 ? by : x.divisor, from, words, std::bit_cast<double>(lo),
                index + found));
      from += 64 * words;
    }
  }
  constexpr std::size_t kBlock = 512;  // formed in the first-level cache
  double block[kBlock];
  for (; from < x.size(); from += kBlock) {
    const std::span<double> here(block, std::min(kBlock, x.size() - from));
    FormPart(x, from, here);
    const std::size_t end = found + Collect(std::span<const double>(here), lo, index + found, bits + found);
    for (; found < end; ++found) index[found] += static_cast<std::uint32_t>(from);
  }
  return found;
}

template <class B> struct Bracket {
  B lo = 1, hi = 0;  // hi = 0: not known
};

// Where the k-th largest should lie: four standard deviations of a sample's rank either way. Runs of four
// neighbours, spread evenly.
constexpr std::size_t kSample = 16384;
template <class T, class X> Bracket<BitsOf<T>> Sampled(const X& x, std::size_t k, SelectSpace& space) {
  using B = BitsOf<T>;
  Bracket<B> out;
  if (x.size() < 2 * kSample) return out;
  auto& v = Of<T>::Middle(space);
  const auto fill = [&] {
    v.clear();
    const std::size_t stride = x.size() / (kSample / 4);
    for (std::size_t i = 0; i + 4 <= x.size() && v.size() < kSample; i += stride)
      for (std::size_t j = i; j < i + 4; ++j) {
        const B b = Magnitude<T>(x[j]);
        v.push_back(b <= kLargestFinite<T> ? b : B{0});
      }
  };
  fill();
  const double size = static_cast<double>(v.size());
  const double rank = static_cast<double>(k) * size / static_cast<double>(x.size());
  const double spread = 4 * std::sqrt(rank) + 8;
  if (rank + spread >= size) return out;
  const auto low = static_cast<std::size_t>(rank + spread);
  out.lo = std::max<B>(1, RankedFromTop<B>(v, low, B{0}, kLargestFinite<T>, space.count));
  if (rank > spread) {
    fill();
    out.hi =
        RankedFromTop<B>(v, static_cast<std::size_t>(rank - spread), B{0}, kLargestFinite<T>, space.count);
  }
  return out;
}

template <class T, class X>
void Largest(const X& x, std::size_t k, SelectSpace& space, std::vector<std::uint32_t>& index,
             std::size_t slot) {
  using B = BitsOf<T>;
  TACIT_CHECK(x.size() <= std::numeric_limits<std::uint32_t>::max());
  index.clear();
  space.threshold = 0;
  if (k == 0 || x.empty()) return;
  if (space.last.size() <= slot) space.last.resize(slot + 1);
  SelectSpace::Last& last = space.last[slot];
  auto& candidate = space.candidate;
  auto& bits = Of<T>::Magnitudes(space);
  constexpr std::size_t kSlack = 64;  // what kernels write beyond what they found
  if (candidate.size() < x.size() + kSlack) candidate.resize(x.size() + kSlack);
  if (bits.size() < x.size() + kSlack) bits.resize(x.size() + kSlack);

  Bracket<B> bracket;
  std::size_t found = 0;
  bool warm = last.size == x.size() && last.k == k && last.threshold > 0;
  if (warm) {
    const double most = std::numeric_limits<T>::max();
    bracket = {std::max<B>(1, std::bit_cast<B>(static_cast<T>(0.875 * last.threshold))),
               std::bit_cast<B>(static_cast<T>(std::min(most, 1.125 * last.threshold)))};
    found = Collect(x, bracket.lo, candidate.data(), bits.data());
    warm = found >= k || bracket.lo == 1;
  }
  if (!warm) {
    bracket = Sampled<T>(x, k, space);
    found = Collect(x, bracket.lo, candidate.data(), bits.data());
    if (found < k && bracket.lo > 1) {
      bracket = {};
      found = Collect(x, bracket.lo, candidate.data(), bits.data());
    }
  }
  last = {x.size(), k, 0};
  if (found <= k) {  // fewer are not zero, or just enough
    index.assign(candidate.begin(), candidate.begin() + static_cast<std::ptrdiff_t>(found));
    if (found == k) {
      const B least = *std::min_element(bits.begin(), bits.begin() + static_cast<std::ptrdiff_t>(found));
      space.threshold = last.threshold = static_cast<double>(std::bit_cast<T>(least));
    }
    return;
  }

  // The k-th largest of the candidates, looked for on the right side of hi.
  auto& middle = Of<T>::Middle(space);
  middle.resize(found);
  const B hi = bracket.hi;
  std::size_t above = 0;
  B most = 0;
  for (std::size_t i = 0; i < found; ++i) {
    above += bits[i] > hi ? 1 : 0;
    most = std::max(most, bits[i]);
  }
  const bool upper = above >= k;  // the whole of it, if hi is not known
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found; ++i) {
    middle[kept] = bits[i];
    kept += (bits[i] > hi) == upper ? 1 : 0;
  }
  middle.resize(kept);
  const B from = upper ? std::max<B>(bracket.lo, hi + 1) : bracket.lo;
  const B threshold =
      RankedFromTop<B>(middle, upper ? k : k - above, from, upper ? most : std::min(hi, most), space.count);

  // Everything above it, and of those equal to it the first ones: up to some place "at least", after it
  // "above".
  std::size_t greater = 0;
  for (std::size_t i = 0; i < found; ++i) greater += bits[i] > threshold ? 1 : 0;
  std::size_t turn = 0;
  for (std::size_t ties = k - greater; ties > 0; ++turn) ties -= bits[turn] == threshold ? 1 : 0;
  index.resize(found);
  std::size_t out = 0;
  for (std::size_t i = 0; i < turn; ++i) {
    index[out] = candidate[i];
    out += bits[i] >= threshold ? 1 : 0;
  }
  for (std::size_t i = turn; i < found; ++i) {
    index[out] = candidate[i];
    out += bits[i] > threshold ? 1 : 0;
  }
  index.resize(out);
  space.threshold = last.threshold = static_cast<double>(std::bit_cast<T>(threshold));
}

}  // namespace

void FormPart(const Difference& x, std::size_t from, std::span<double> out) {
  const double *a = x.a.data() + from, *b = x.b.data() + from;
  if (const double by = Inverse(x); by != 0) {
    for (std::size_t j = 0; j < out.size(); ++j) out[j] = a[j] * by - b[j];
  } else {
    for (std::size_t j = 0; j < out.size(); ++j) out[j] = a[j] / x.divisor - b[j];
  }
}

void SelectLargest(std::span<const double> x, std::size_t k, SelectSpace& space,
                   std::vector<std::uint32_t>& index, std::size_t slot) {
  Largest<double>(x, k, space, index, slot);
}

void SelectLargest(std::span<const float> x, std::size_t k, SelectSpace& space,
                   std::vector<std::uint32_t>& index, std::size_t slot) {
  Largest<float>(x, k, space, index, slot);
}

void SelectLargest(const Difference& x, std::size_t k, SelectSpace& space, std::vector<std::uint32_t>& index,
                   std::size_t slot) {
  TACIT_CHECK(x.a.size() == x.b.size() && x.divisor > 0);
  Largest<double>(x, k, space, index, slot);
}

}  // namespace tacit
