#include "models/entries.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 of its own intrinsics (bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/simd.h"
#include "models/lanes.h"

// As in lattice_sampler_kernels.cc: an attribute per function, so that nothing of a header is compiled for
// AVX-512 and then chosen for everybody; and the upper halves of the registers are cleaned at the end.
#define TACIT_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl")))

namespace tacit {
namespace {

bool Wide() { return internal::SimdInUse() == internal::Simd::kAvx512; }

template <class V>
void Lengthen(V& v, std::size_t size) {
  if (v.size() < size) v.resize(size);
}

// The terms of two sums that share their vectors: Σ_k first[k] b_k and Σ_k second[k] b_k, k ascending, where
// b_k begins at b + at[k]·stride.
struct Terms {
  const std::uint32_t* at;
  const double *first, *second;
  std::size_t count;
  const double* b;
  std::size_t stride;
};
// Where the two go: y ← start + sum, or y ← y + times·sum with a rounding for each operation. start ==
// nullptr: 0.
enum class Into { kStore, kAddTimes };
struct Ends {
  const double *start0, *start1;
  double *y0, *y1;
  double times;
};

// 4·L outputs of both sums, in registers; of the last four `part`, if it is not 0.
template <std::size_t L, bool kPart, Into kInto>
__attribute__((always_inline)) inline void Strip(const Terms& t, const Ends& e, std::size_t part) {
  const auto load = [part](const double* p, std::size_t i) __attribute__((always_inline)) {
    return kPart && i + 1 == L ? LoadPart(p + kLanes * i, part) : Load(p + kLanes * i);
  };
  Lanes sum0[L], sum1[L];
  for (std::size_t i = 0; i < L; ++i) {
    sum0[i] = e.start0 ? load(e.start0, i) : Lanes{};
    sum1[i] = e.start1 ? load(e.start1, i) : Lanes{};
  }
  for (std::size_t k = 0; k < t.count; ++k) {
    const Lanes c0 = All(t.first[k]), c1 = All(t.second[k]);
    const double* row = t.b + t.at[k] * t.stride;
    for (std::size_t i = 0; i < L; ++i) {
      const Lanes v = load(row, i);
      sum0[i] = MulAdd(c0, v, sum0[i]);
      sum1[i] = MulAdd(c1, v, sum1[i]);
    }
  }
  const auto store = [&](double* y, std::size_t i, Lanes sum) __attribute__((always_inline)) {
    if (kInto == Into::kAddTimes) sum = load(y, i) + All(e.times) * sum;
    if (kPart && i + 1 == L)
      StorePart(y + kLanes * i, sum, part);
    else
      Store(y + kLanes * i, sum);
  };
  for (std::size_t i = 0; i < L; ++i) store(e.y0, i, sum0[i]);
  for (std::size_t i = 0; i < L; ++i) store(e.y1, i, sum1[i]);
}

// The same eight at a time; `last` masks the last eight, unless they are full.
template <std::size_t L, bool kFull, Into kInto>
TACIT_AVX512 __attribute__((always_inline)) inline void WideStrip(const Terms& t, const Ends& e,
                                                                  __mmask8 last) {
  const auto load = [last](const double* p, std::size_t i) TACIT_AVX512 __attribute__((always_inline)) {
    return kFull || i + 1 < L ? _mm512_loadu_pd(p + 8 * i) : _mm512_maskz_loadu_pd(last, p + 8 * i);
  };
  __m512d sum0[L], sum1[L];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < L; ++i) {
    sum0[i] = e.start0 != nullptr ? load(e.start0, i) : _mm512_setzero_pd();
    sum1[i] = e.start1 != nullptr ? load(e.start1, i) : _mm512_setzero_pd();
  }
  for (std::size_t k = 0; k < t.count; ++k) {
    const __m512d c0 = _mm512_set1_pd(t.first[k]), c1 = _mm512_set1_pd(t.second[k]);
    const double* row = t.b + t.at[k] * t.stride;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < L; ++i) {
      __m512d v = load(row, i);
      __asm__("" : "+v"(v));  // loaded once: loads are what limits it, and GCC would load twice
      sum0[i] = _mm512_fmadd_pd(c0, v, sum0[i]);
      sum1[i] = _mm512_fmadd_pd(c1, v, sum1[i]);
    }
  }
  const __m512d times = _mm512_set1_pd(e.times);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < L; ++i) {
    if (kInto == Into::kAddTimes) {
      sum0[i] = _mm512_add_pd(load(e.y0, i), _mm512_mul_pd(times, sum0[i]));
      sum1[i] = _mm512_add_pd(load(e.y1, i), _mm512_mul_pd(times, sum1[i]));
    }
    if (kFull || i + 1 < L) {
      _mm512_storeu_pd(e.y0 + 8 * i, sum0[i]);
      _mm512_storeu_pd(e.y1 + 8 * i, sum1[i]);
    } else {
      _mm512_mask_storeu_pd(e.y0 + 8 * i, last, sum0[i]);
      _mm512_mask_storeu_pd(e.y1 + 8 * i, last, sum1[i]);
    }
  }
}

// Lanes of a strip, two sums of each, two coefficients and a vector: of 16 registers, and of 32.
constexpr std::size_t kWidest = 6, kWidestWide = 9;
constexpr std::size_t kWidestOutputs = std::max(kWidest * kLanes, kWidestWide * 8);

// Calls f with `lanes` ≤ L as a constant.
template <std::size_t L, class F>
inline void WithLanes(std::size_t lanes, F f) {
  if constexpr (L == 1) {
    f(std::integral_constant<std::size_t, 1>{});
  } else {
    if (lanes == L) return f(std::integral_constant<std::size_t, L>{});
    WithLanes<L - 1>(lanes, f);
  }
}
// Calls f(first output, lanes constant, outputs of the last lanes if they are not full) over 0 … out, in
// strips of nearly equal width, each of `of` outputs a lane.
template <std::size_t kOf, std::size_t kMost, class F>
inline void ForStrips(std::size_t out, F f) {
  if (out == 0) return;
  const std::size_t lanes = (out + kOf - 1) / kOf, strips = (lanes + kMost - 1) / kMost;
  const std::size_t width = (lanes + strips - 1) / strips;
  for (std::size_t at = 0; at < lanes; at += width) {
    const std::size_t here = std::min(width, lanes - at);
    const std::size_t part = at + here == lanes ? out % kOf : 0;
    WithLanes<kMost>(here, [&](auto l) { f(at * kOf, l, part); });
  }
}
__mmask8 MaskOf(std::size_t part) { return static_cast<__mmask8>(part == 0 ? 0xff : (1u << part) - 1); }
template <std::size_t L, Into kInto>
inline void AnyStrip(const Terms& t, const Ends& e, std::size_t part) {
  if (part == 0)
    Strip<L, false, kInto>(t, e, part);
  else
    Strip<L, true, kInto>(t, e, part);
}

constexpr std::size_t kWordBits = 64;

// Which entries of a dense row are not 0 (NaN is not): a bit each, in words of 64. Returns how many.
TACIT_AVX512 std::size_t WideBits(const double* x, std::size_t size, std::uint64_t* words) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(words);
  constexpr std::size_t kAhead = 1024;
  std::size_t found = 0;
  for (std::size_t j = 0; j < size; j += 8) {
    _mm_prefetch(reinterpret_cast<const char*>(x + j + kAhead), _MM_HINT_T0);  // rows lie one after the other
    const __m512d v = _mm512_maskz_loadu_pd(MaskOf(size - j >= 8 ? 0 : size - j), x + j);
    const __mmask8 mask = _mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_NEQ_UQ);
    bytes[j / 8] = mask;
    found += static_cast<std::size_t>(__builtin_popcount(mask));
  }
  _mm256_zeroupper();
  return found;
}
std::size_t Bits(const double* x, std::size_t size, std::uint64_t* words) {
  std::size_t found = 0, j = 0;
  for (; j + kLanes <= size; j += kLanes) {
    const std::uint64_t four = NonZeros(Load(x + j));
    words[j / kWordBits] |= four << j % kWordBits;
    found += static_cast<std::size_t>(std::popcount(four));
  }
  for (; j < size; ++j) {
    const std::uint64_t one = x[j] != 0;
    words[j / kWordBits] |= one << j % kWordBits;
    found += one;
  }
  return found;
}

// Pairs rows: each with the one of those left that differs from it in the fewest columns. Of many rows, or
// of long ones, neighbours.
void PairRows(Entries& x, std::size_t words) {
  constexpr std::size_t kMostRows = 128, kMostWords = 64;
  const auto n = static_cast<std::uint32_t>(x.rows);
  x.pair.clear();
  if (x.rows > kMostRows || words > kMostWords) {
    for (std::uint32_t r = 0; r < n + n % 2; ++r) x.pair.push_back(r);
    return;
  }
  std::uint32_t left[kMostRows];
  std::size_t many = x.rows;
  for (std::uint32_t r = 0; r < n; ++r) left[r] = r;
  while (many > 1) {
    const std::uint32_t a = left[--many];
    const std::uint64_t* bits = x.bits.data() + a * words;
    std::size_t best = 0, least = ~std::size_t{0};
    for (std::size_t i = 0; i < many; ++i) {
      const std::uint64_t* other = x.bits.data() + left[i] * words;
      std::size_t apart = 0;
      for (std::size_t k = 0; k < words; ++k)
        apart += static_cast<std::size_t>(std::popcount(bits[k] ^ other[k]));
      if (apart < least) best = i, least = apart;
    }
    x.pair.push_back(a);
    x.pair.push_back(left[best]);
    left[best] = left[--many];
  }
  if (many == 1) {
    x.pair.push_back(left[0]);
    x.pair.push_back(n);
  }
}

// The entries of two rows side by side, in every column where one of them has one. Returns how many. There is
// room for eight more. b == nullptr: a row of zeros.
TACIT_AVX512 std::size_t WidePack(const double* a, const double* b, const std::uint64_t* bits_a,
                                  const std::uint64_t* bits_b, std::size_t size,
                                  const std::uint32_t* column_rank, std::uint32_t* rank, double* first,
                                  double* second) {
  const auto *bytes_a = reinterpret_cast<const std::uint8_t*>(bits_a),
             *bytes_b = reinterpret_cast<const std::uint8_t*>(bits_b);
  std::size_t found = 0;
  for (std::size_t j = 0; j < size; j += 8) {
    const auto mask = static_cast<__mmask8>(bytes_a[j / 8] | bytes_b[j / 8]);
    if (mask == 0) continue;
    const __mmask8 here = MaskOf(size - j >= 8 ? 0 : size - j);
    const __m512d v = _mm512_maskz_loadu_pd(here, a + j), w = _mm512_maskz_loadu_pd(here, b + j);
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(column_rank + j));
    _mm512_storeu_pd(first + found, _mm512_maskz_compress_pd(mask, v));
    _mm512_storeu_pd(second + found, _mm512_maskz_compress_pd(mask, w));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(rank + found), _mm256_maskz_compress_epi32(mask, at));
    found += static_cast<std::size_t>(__builtin_popcount(mask));
  }
  _mm256_zeroupper();
  return found;
}

// Reads a row's entries in ascending order.
struct Reader {
  const Row& row;
  std::size_t at = 0;
  double operator()(std::size_t j) {
    if (row.index == nullptr) return row.size == 0 ? 0.0 : row.value[j];
    while (at < row.size && row.index[at] < j) ++at;
    return at < row.size && row.index[at] == j ? row.value[at] : 0.0;
  }
};
std::size_t Pack(const Row& a, const Row& b, const std::uint64_t* bits_a, const std::uint64_t* bits_b,
                 std::size_t words, const std::uint32_t* column_rank, std::uint32_t* rank, double* first,
                 double* second) {
  Reader left{a}, right{b};
  std::size_t found = 0;
  for (std::size_t k = 0; k < words; ++k)
    for (std::uint64_t bits = bits_a[k] | bits_b[k]; bits != 0; bits &= bits - 1, ++found) {
      const std::size_t j = k * kWordBits + static_cast<std::size_t>(std::countr_zero(bits));
      first[found] = left(j);
      second[found] = right(j);
      rank[found] = column_rank[j];
    }
  return found;
}

// The used columns among the eight from j on, of eight rows, to the places `to`.
TACIT_AVX512 __attribute__((always_inline)) inline void TurnEight(const double* const* row, std::size_t j,
                                                                  __mmask8 here, double* const* to,
                                                                  std::size_t at) {
  __m512d v[8], t[8];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i) v[i] = _mm512_maskz_loadu_pd(here, row[i] + j);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 8; i += 2) {
    t[i] = _mm512_maskz_unpacklo_pd(0xff, v[i], v[i + 1]);
    t[i + 1] = _mm512_maskz_unpackhi_pd(0xff, v[i], v[i + 1]);
  }
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 8; i += 4) {
    v[i] = _mm512_maskz_shuffle_f64x2(0xff, t[i], t[i + 2], 0x88);
    v[i + 1] = _mm512_maskz_shuffle_f64x2(0xff, t[i + 1], t[i + 3], 0x88);
    v[i + 2] = _mm512_maskz_shuffle_f64x2(0xff, t[i], t[i + 2], 0xdd);
    v[i + 3] = _mm512_maskz_shuffle_f64x2(0xff, t[i + 1], t[i + 3], 0xdd);
  }
  // v[i]: of rows 0 to 3 (v[0 … 3]) and 4 to 7, the columns i and i + 4, i = 0, 1, 2, 3.
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    _mm512_storeu_pd(to[i] + at, _mm512_maskz_shuffle_f64x2(0xff, v[i], v[i + 4], 0x88));
    _mm512_storeu_pd(to[i + 4] + at, _mm512_maskz_shuffle_f64x2(0xff, v[i], v[i + 4], 0xdd));
  }
}

TACIT_AVX512 void WideTurn(const Row* row, const Entries& x, double* turned, double* nowhere) {
  const double* zeros = nowhere + 8 * ((x.rows + 7) / 8);  // a row of zeros
  const auto* taken = reinterpret_cast<const std::uint8_t*>(x.taken.data());
  for (std::size_t j = 0; j < x.columns; j += 8) {
    const unsigned used = taken[j / 8];
    if (used == 0) continue;
    double* to[8];
    for (std::size_t i = 0; i < 8; ++i)
      to[i] = (used >> i & 1) != 0 ? turned + x.column_rank[j + i] * x.Stride() : nowhere;
    const __mmask8 here = MaskOf(x.columns - j >= 8 ? 0 : x.columns - j);
    for (std::size_t r = 0; r < x.rows; r += 8) {
      const double* from[8];
      for (std::size_t i = 0; i < 8; ++i) from[i] = r + i < x.rows ? row[r + i].value : zeros;
      TurnEight(from, j, here, to, r);
    }
  }
  _mm256_zeroupper();
}

// The entries of two turned columns.
TACIT_AVX512 std::size_t WideColumns(const double* a, const double* b, std::size_t stride, std::uint32_t* row,
                                     double* first, double* second) {
  __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  std::size_t found = 0;
  for (std::size_t r = 0; r < stride; r += 8) {
    const __m512d v = _mm512_loadu_pd(a + r), w = _mm512_loadu_pd(b + r);
    const __mmask8 mask = static_cast<__mmask8>(_mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_NEQ_UQ) |
                                                _mm512_cmp_pd_mask(w, _mm512_setzero_pd(), _CMP_NEQ_UQ));
    _mm512_storeu_pd(first + found, _mm512_maskz_compress_pd(mask, v));
    _mm512_storeu_pd(second + found, _mm512_maskz_compress_pd(mask, w));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + found), _mm256_maskz_compress_epi32(mask, place));
    found += static_cast<std::size_t>(__builtin_popcount(mask));
    place = _mm256_add_epi32(place, _mm256_set1_epi32(8));
  }
  return found;
}

}  // namespace

RowEntries Entries::view() const {
  return {.rows = rows,
          .columns = columns,
          .pairs = begin.empty() ? 0 : begin.size() - 1,
          .pair = pair.data(),
          .begin = begin.data(),
          .rank = rank.data(),
          .first = first.data(),
          .second = second.data(),
          .by_column = by_column.view()};
}

bool GatherEntries(const Row* row, std::size_t rows, std::size_t columns, Entries& out) {
  const bool wide = Wide();
  const std::size_t words = columns / kWordBits + 1, most = rows * columns / 3;
  out.rows = 0;
  out.columns = columns;
  out.bits.assign((rows + 1) * words, 0);
  bool dense = true;
  std::size_t count = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const Row& x = row[r];
    std::uint64_t* bits = out.bits.data() + r * words;
    if (x.index != nullptr || x.size == 0) {  // a sparse set without entries has no indices either
      dense = false;
      for (std::size_t k = 0; k < x.size; ++k) {
        const std::uint64_t one = x.value[k] != 0;
        bits[x.index[k] / kWordBits] |= one << x.index[k] % kWordBits;
        count += one;
      }
    } else {
      count += wide ? WideBits(x.value, columns, bits) : Bits(x.value, columns, bits);
      if (count > most) return false;
    }
  }
  out.rows = rows;
  out.count = count;
  out.taken.assign(words, 0);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t k = 0; k < words; ++k) out.taken[k] |= out.bits[r * words + k];
  std::vector<std::uint32_t>& used = out.by_column.used;
  used.clear();
  Lengthen(out.column_rank, columns + 8);
  for (std::size_t k = 0; k < words; ++k)
    for (std::uint64_t bits = out.taken[k]; bits != 0; bits &= bits - 1) {
      const std::size_t j = k * kWordBits + static_cast<std::size_t>(std::countr_zero(bits));
      out.column_rank[j] = static_cast<std::uint32_t>(used.size());
      used.push_back(static_cast<std::uint32_t>(j));
    }
  PairRows(out, words);
  out.begin.assign(1, 0);
  Lengthen(out.rank, count + 8);
  Lengthen(out.first, count + 8);
  Lengthen(out.second, count + 8);
  std::size_t found = 0;
  static constexpr Row kNobody{nullptr, nullptr, 0};
  for (std::size_t q = 0; q < out.pair.size(); q += 2) {
    const std::size_t a = out.pair[q], b = out.pair[q + 1];
    const std::uint64_t *bits_a = out.bits.data() + a * words, *bits_b = out.bits.data() + b * words;
    std::uint32_t* rank = out.rank.data() + found;
    double *first = out.first.data() + found, *second = out.second.data() + found;
    if (wide && dense && b < rows)
      found += WidePack(row[a].value, row[b].value, bits_a, bits_b, columns, out.column_rank.data(), rank,
                        first, second);
    else
      found += Pack(row[a], b < rows ? row[b] : kNobody, bits_a, bits_b, words, out.column_rank.data(), rank,
                    first, second);
    out.begin.push_back(static_cast<std::uint32_t>(found));
  }
  return true;
}

void TurnEntries(const Row* row, Entries& x) {
  ColumnPairs& to = x.by_column;
  const std::size_t used = to.used.size(), pairs = (used + 1) / 2, stride = x.Stride();
  Lengthen(x.turned, 2 * pairs * stride + 8);
  double* turned = x.turned.data() + ToLine(x.turned.data());
  const bool wide = Wide(), dense = x.rows > 0 && row[0].index == nullptr && row[0].size != 0;
  if (wide && dense) {
    Lengthen(x.room, stride + x.columns + 8);
    std::fill_n(x.room.data() + stride, x.columns, 0.0);
    WideTurn(row, x, turned, x.room.data());
    if (used % 2 != 0) std::fill_n(turned + used * stride, stride, 0.0);
  } else {
    std::fill_n(turned, 2 * pairs * stride, 0.0);
    for (std::size_t q = 0; q + 1 < x.begin.size(); ++q) {
      const std::size_t a = x.pair[2 * q], b = x.pair[2 * q + 1];
      for (std::size_t k = x.begin[q]; k < x.begin[q + 1]; ++k) {
        turned[x.rank[k] * stride + a] = x.first[k];
        if (b < x.rows) turned[x.rank[k] * stride + b] = x.second[k];
      }
    }
  }
  to.begin.assign(1, 0);
  Lengthen(to.row, x.count + 8);
  Lengthen(to.first, x.count + 8);
  Lengthen(to.second, x.count + 8);
  std::size_t found = 0;
  for (std::size_t p = 0; p < pairs; ++p) {
    const double *a = turned + 2 * p * stride, *b = a + stride;
    if (wide) {
      found +=
          WideColumns(a, b, stride, to.row.data() + found, to.first.data() + found, to.second.data() + found);
    } else {
      for (std::size_t r = 0; r < x.rows; ++r) {
        to.row[found] = static_cast<std::uint32_t>(r);
        to.first[found] = a[r];
        to.second[found] = b[r];
        found += a[r] != 0 || b[r] != 0;
      }
    }
    to.begin.push_back(static_cast<std::uint32_t>(found));
  }
}

namespace {

constexpr std::size_t kRanks = 128;  // used columns whose strip stays in the caches

// A strip of SparseProduct: outputs from o on, and used columns from `from` to `to`.
struct Block {
  const double* w;
  const double* start;
  std::size_t out;
  double* z;
  std::size_t o, from, to;
  double *room, *nobody;
  const std::uint32_t* cut;  // the first entry of a pair in this block, then those of the next
};
// Ends of pair q.
inline Ends EndsOf(const RowEntries& x, const Block& b, std::size_t q) {
  const std::size_t r0 = x.pair[2 * q], r1 = x.pair[2 * q + 1];
  Ends e{};
  e.y0 = b.z + r0 * b.out + b.o;
  e.y1 = r1 < x.rows ? b.z + r1 * b.out + b.o : b.nobody;
  const double* start = b.start != nullptr ? b.start + b.o : nullptr;
  e.start0 = b.from > 0 ? e.y0 : start;
  e.start1 = b.from > 0 ? e.y1 : start;
  return e;
}
inline Terms TermsOf(const RowEntries& x, const Block& b, std::size_t q, std::size_t stride) {
  const std::size_t pairs = x.pairs, first = b.cut[q];
  return {x.rank + first,           x.first + first,          x.second + first,
          b.cut[pairs + q] - first, b.room - b.from * stride, stride};
}

// While the pairs pass, some of what is said to be read next is fetched.
struct Ahead {
  const double* next;
  std::size_t lines;  // for each pair
};
template <std::size_t L>
TACIT_AVX512 void WideBlock(const RowEntries& x, const Block& b, __mmask8 last, Ahead& then) {
  constexpr std::size_t kAhead = 8, kStride = 8 * L;
  const std::uint32_t* used = x.by_column.used;
  const std::size_t most = x.by_column.size;
  for (std::size_t i = b.from; i < b.to; ++i) {
    const double* ahead = b.w + used[std::min(i + kAhead, most - 1)] * b.out + b.o;
    const double* row = b.w + used[i] * b.out + b.o;
    double* copy = b.room + (i - b.from) * kStride;
#pragma GCC unroll 16
    for (std::size_t k = 0; k < L; ++k) {
      __builtin_prefetch(ahead + 8 * k);
      _mm512_storeu_pd(copy + 8 * k, _mm512_maskz_loadu_pd(k + 1 < L ? 0xff : last, row + 8 * k));
    }
  }
  for (std::size_t q = 0; q < x.pairs; ++q) {
    for (std::size_t k = 0; k < then.lines; ++k, then.next += 8) __builtin_prefetch(then.next, 0, 2);
    if (last == 0xff)
      WideStrip<L, true, Into::kStore>(TermsOf(x, b, q, kStride), EndsOf(x, b, q), 0xff);
    else
      WideStrip<L, false, Into::kStore>(TermsOf(x, b, q, kStride), EndsOf(x, b, q), last);
  }
  _mm256_zeroupper();
}
template <std::size_t L>
void NarrowBlock(const RowEntries& x, const Block& b, std::size_t part) {
  constexpr std::size_t kAhead = 8, kStride = kLanes * L, kLine = 8;
  const std::uint32_t* used = x.by_column.used;
  const std::size_t most = x.by_column.size;
  for (std::size_t i = b.from; i < b.to; ++i) {
    const double* ahead = b.w + used[std::min(i + kAhead, most - 1)] * b.out + b.o;
    for (std::size_t k = 0; k < kStride; k += kLine) __builtin_prefetch(ahead + k);
    const double* row = b.w + used[i] * b.out + b.o;
    for (std::size_t k = 0; k < L; ++k)
      Store(b.room + (i - b.from) * kStride + k * kLanes,
            part != 0 && k + 1 == L ? LoadPart(row + k * kLanes, part) : Load(row + k * kLanes));
  }
  for (std::size_t q = 0; q < x.pairs; ++q)
    AnyStrip<L, Into::kStore>(TermsOf(x, b, q, kStride), EndsOf(x, b, q), part);
}

// SparseProduct without the terms of zeros: where w is not finite they would count.
void ProductOfNonZeros(const RowEntries& x, const double* w, const double* start, std::size_t out,
                       double* z) {
  for (std::size_t i = 0; i < 2 * x.pairs; ++i) {
    if (x.pair[i] >= x.rows) continue;
    const double* value = i % 2 == 0 ? x.first : x.second;
    for (std::size_t o = 0; o < out; ++o) {
      double sum = start != nullptr ? start[o] : 0.0;
      for (std::size_t k = x.begin[i / 2]; k < x.begin[i / 2 + 1]; ++k)
        if (value[k] != 0) sum = std::fma(value[k], w[x.by_column.used[x.rank[k]] * out + o], sum);
      z[x.pair[i] * out + o] = sum;
    }
  }
}

}  // namespace

void SparseProduct(const RowEntries& x, Entries& scratch, const double* w, const double* start,
                   std::size_t out, double* z, const double* ahead, std::size_t size) {
  // Strip by strip, and some used columns at a time: what these need of w is copied together, at the
  // beginning of a cache line. So it stays in the caches while all rows pass; w itself may be larger than
  // any. The rows' sums wait in z meanwhile.
  const std::size_t used = x.by_column.size, pairs = x.pairs,
                    blocks = std::max<std::size_t>(1, (used + kRanks - 1) / kRanks);
  Lengthen(scratch.room, kRanks * kWidestOutputs + 2 * kWidestOutputs + 8);
  double* room = scratch.room.data() + ToLine(scratch.room.data());
  double* nobody = room + kRanks * kWidestOutputs;
  // cut[b·pairs + q]: the first entry of pair q that is beyond the blocks before b.
  std::vector<std::uint32_t>& cut = scratch.cut;
  Lengthen(cut, (blocks + 1) * pairs);
  for (std::size_t q = 0; q < pairs; ++q) {
    const std::uint32_t *from = x.rank + x.begin[q], *end = x.rank + x.begin[q + 1];
    for (std::size_t b = 0; b <= blocks; ++b) {
      from = b < blocks ? std::lower_bound(from, end, static_cast<std::uint32_t>(b * kRanks)) : end;
      cut[b * pairs + q] = static_cast<std::uint32_t>(from - x.rank);
    }
  }
  const auto block = [&](std::size_t b, std::size_t o) {
    return Block{w,
                 start,
                 out,
                 z,
                 o,
                 b * kRanks,
                 std::min((b + 1) * kRanks, used),
                 room,
                 nobody,
                 cut.data() + b * pairs};
  };
  if (Wide()) {
    const std::size_t strips = ((out + 7) / 8 + kWidestWide - 1) / kWidestWide;
    Ahead then{ahead, size / 8 / std::max<std::size_t>(1, strips * blocks * pairs)};
    ForStrips<8, kWidestWide>(out, [&](std::size_t o, auto lanes, std::size_t part) {
      for (std::size_t b = 0; b < blocks; ++b) WideBlock<lanes()>(x, block(b, o), MaskOf(part), then);
    });
  } else {
    ForStrips<kLanes, kWidest>(out, [&](std::size_t o, auto lanes, std::size_t part) {
      for (std::size_t b = 0; b < blocks; ++b) NarrowBlock<lanes()>(x, block(b, o), part);
    });
  }
  bool finite = true;
  std::size_t i = 0;
  Lanes all = {};
  for (; i + kLanes <= x.rows * out; i += kLanes)
    all += Lanes(Load(z + i) != Load(z + i) ? All(1.0) : Lanes{});
  for (; i < x.rows * out; ++i) finite = finite && z[i] == z[i];
  if (!finite || all[0] + all[1] + all[2] + all[3] != 0) ProductOfNonZeros(x, w, start, out, z);
}

namespace {

template <std::size_t L>
TACIT_AVX512 void WideWithin(const Terms& t, const Ends& e, __mmask8 last) {
  if (last == 0xff)
    WideStrip<L, true, Into::kStore>(t, e, last);
  else
    WideStrip<L, false, Into::kStore>(t, e, last);
  _mm256_zeroupper();
}

}  // namespace

void ProductsWithin(const Entries& x, const std::uint32_t* end, double* z) {
  const double* turned = x.turned.data() + ToLine(x.turned.data());
  double ones[kWidestOutputs], nobody[kWidestOutputs];
  std::fill_n(ones, kWidestOutputs, 1.0);
  for (std::size_t q = 0; q + 1 < x.begin.size(); ++q) {
    const std::size_t r0 = x.pair[2 * q], r1 = x.pair[2 * q + 1], from = x.begin[q];
    const std::size_t out = std::max(end[r0], r1 < x.rows ? end[r1] : 0);
    const auto ends = [&](std::size_t o) {
      return Ends{ones, ones, z + r0 * x.rows + o, r1 < x.rows ? z + r1 * x.rows + o : nobody, 1.0};
    };
    const auto terms = [&](std::size_t o) {
      return Terms{x.rank.data() + from,
                   x.first.data() + from,
                   x.second.data() + from,
                   x.begin[q + 1] - from,
                   turned + o,
                   x.Stride()};
    };
    if (Wide())
      ForStrips<8, kWidestWide>(out, [&](std::size_t o, auto lanes, std::size_t part) {
        WideWithin<lanes()>(terms(o), ends(o), MaskOf(part));
      });
    else
      ForStrips<kLanes, kWidest>(out, [&](std::size_t o, auto lanes, std::size_t part) {
        AnyStrip<lanes(), Into::kStore>(terms(o), ends(o), part);
      });
  }
}

namespace {

// Pairs of columns from p to `end` of an outer product, outputs from o on.
struct OuterBlock {
  const ColumnEntries& x;
  std::size_t p, end;
  const double* d;
  std::size_t out;
  double* g;
  std::size_t o;
  bool add;  // sums start from what is there
  double times;
};
template <bool kTimes>
__attribute__((always_inline)) inline Ends EndsOf(const OuterBlock& b, std::size_t p, double* nobody,
                                                  std::size_t size) {
  const std::uint32_t* used = b.x.used;
  Ends e{};
  e.y0 = b.g + used[2 * p] * b.out + b.o;
  e.y1 = 2 * p + 1 < b.x.size ? b.g + used[2 * p + 1] * b.out + b.o : nobody;
  if (b.add) e.start0 = e.y0, e.start1 = e.y1;
  e.times = b.times;
  if (kTimes) {  // g is longer than the caches, and read once
    constexpr std::size_t kAhead = 4;
    const std::size_t next = std::min(2 * p + kAhead, b.x.size - 1),
                      after = std::min(2 * p + kAhead + 1, b.x.size - 1);
    for (std::size_t k = 0; k < size; k += 8) {
      __builtin_prefetch(b.g + used[next] * b.out + b.o + k, 1);
      __builtin_prefetch(b.g + used[after] * b.out + b.o + k, 1);
    }
  }
  return e;
}
__attribute__((always_inline)) inline Terms TermsOf(const OuterBlock& b, std::size_t p) {
  const std::size_t from = b.x.begin[p];
  return {b.x.row + from, b.x.first + from, b.x.second + from, b.x.begin[p + 1] - from, b.d + b.o, b.out};
}
template <std::size_t L, bool kFull, Into kInto>
TACIT_AVX512 void WideOuter(const OuterBlock& b, __mmask8 last) {
  double nobody[8 * L] = {};
  for (std::size_t p = b.p; p < b.end; ++p)
    WideStrip<L, kFull, kInto>(TermsOf(b, p), EndsOf < kInto == Into::kAddTimes > (b, p, nobody, 8 * L),
                               last);
  _mm256_zeroupper();
}
template <std::size_t L, Into kInto>
void NarrowOuter(const OuterBlock& b, std::size_t part) {
  double nobody[kLanes * L] = {};
  for (std::size_t p = b.p; p < b.end; ++p)
    AnyStrip<L, kInto>(TermsOf(b, p), EndsOf < kInto == Into::kAddTimes > (b, p, nobody, kLanes * L), part);
}

template <Into kInto>
void OuterOf(const ColumnEntries& x, const double* d, std::size_t out, double* g, bool add, double times) {
  constexpr std::size_t kPairs = 64;  // whose part of g stays in the second-level cache
  const std::size_t pairs = (x.size + 1) / 2;
  for (std::size_t p = 0; p < pairs; p += kPairs) {
    const auto block = [&](std::size_t o) {
      return OuterBlock{x, p, std::min(p + kPairs, pairs), d, out, g, o, add, times};
    };
    if (Wide())
      ForStrips<8, kWidestWide>(out, [&](std::size_t o, auto lanes, std::size_t part) {
        if (part == 0)
          WideOuter<lanes(), true, kInto>(block(o), 0xff);
        else
          WideOuter<lanes(), false, kInto>(block(o), MaskOf(part));
      });
    else
      ForStrips<kLanes, kWidest>(out, [&](std::size_t o, auto lanes, std::size_t part) {
        NarrowOuter<lanes(), kInto>(block(o), part);
      });
  }
}

// The columns without entries are 0.
void FormOuter(const ColumnEntries& x, std::size_t columns, const double* d, std::size_t out, double* g) {
  std::size_t j = 0;
  for (std::size_t i = 0; i < x.size; ++i) {
    const std::size_t next = x.used[i];
    std::fill(g + j * out, g + next * out, 0.0);
    j = next + 1;
  }
  std::fill(g + j * out, g + columns * out, 0.0);
  OuterOf<Into::kStore>(x, d, out, g, false, 1.0);
}

}  // namespace

void SparseOuter(const RowEntries& x, const double* d, std::size_t out, double* g) {
  FormOuter(x.by_column, x.columns, d, out, g);
}
void AddSparseOuter(const RowEntries& x, const double* d, std::size_t out, double* g) {
  OuterOf<Into::kStore>(x.by_column, d, out, g, true, 1.0);
}

std::shared_ptr<const KeptEntries> KeepEntries(const Dataset& data, const std::vector<std::size_t>& begin,
                                               const std::vector<std::uint8_t>& keep, std::size_t most) {
  if (data.sparse() || data.maker || data.mapped) return nullptr;
  // Places are counted in numbers until the memory stays where it is.
  struct Places {
    std::size_t pair, begin, rank, first, second, used, column_begin, row, column_first, column_second,
        products, end;
  };
  const auto kept = std::make_shared<KeptEntries>();
  LineVec& memory = kept->memory;
  std::vector<Places> places(keep.size(), Places{});
  Entries x;
  std::vector<Row> row;
  std::vector<std::uint32_t> end;
  Vec products;
  most = std::min(most / sizeof(double), data.rows() * data.features);
  for (std::size_t c = 0; c < keep.size(); ++c) {
    RowEntries& to = kept->shard.emplace_back();
    if (keep[c] == 0) continue;
    const std::size_t m = begin[c + 1] - begin[c];
    row.clear();
    end.clear();
    for (std::size_t r = 0; r < m; ++r) {
      row.push_back(data.row(begin[c] + r));
      end.push_back(static_cast<std::uint32_t>(r + 1));
    }
    if (m == 0 || !GatherEntries(row.data(), m, data.features, x)) continue;
    TurnEntries(row.data(), x);
    products.resize(m * m);
    ProductsWithin(x, end.data(), products.data());
    to = x.view();
    const std::size_t n = x.begin.back(), columns = x.by_column.begin.back();
    std::size_t at = memory.size();
    const auto place = [&at](std::size_t size, std::size_t of) {
      constexpr std::size_t kLine = 64 / sizeof(double);
      const std::size_t here = at;
      at += ((size * of + sizeof(double) - 1) / sizeof(double) + kLine - 1) / kLine * kLine;
      return here;
    };
    constexpr std::size_t kInt = sizeof(std::uint32_t), kReal = sizeof(double);
    Places& p = places[c];
    p = {place(x.pair.size(), kInt),
         place(x.begin.size(), kInt),
         place(n, kInt),
         place(n, kReal),
         place(n, kReal),
         place(to.by_column.size, kInt),
         place(x.by_column.begin.size(), kInt),
         place(columns, kInt),
         place(columns, kReal),
         place(columns, kReal),
         place(m * (m + 1) / 2, kReal),
         0};
    p.end = at;
    if (at > most) return nullptr;
    memory.reserve(most);  // once: pages that are not written cost nothing
    memory.resize(at);
    const auto put = [&memory](std::size_t to_place, const auto* from, std::size_t size) {
      std::copy_n(reinterpret_cast<const char*>(from), size * sizeof(*from),
                  reinterpret_cast<char*>(memory.data() + to_place));
    };
    put(p.pair, x.pair.data(), x.pair.size());
    put(p.begin, x.begin.data(), x.begin.size());
    put(p.rank, x.rank.data(), n);
    put(p.first, x.first.data(), n);
    put(p.second, x.second.data(), n);
    put(p.used, x.by_column.used.data(), to.by_column.size);
    put(p.column_begin, x.by_column.begin.data(), x.by_column.begin.size());
    put(p.row, x.by_column.row.data(), columns);
    put(p.column_first, x.by_column.first.data(), columns);
    put(p.column_second, x.by_column.second.data(), columns);
    for (std::size_t r = 0; r < m; ++r) put(p.products + r * (r + 1) / 2, products.data() + r * m, r + 1);
  }
  if (memory.empty()) return nullptr;
  const double* base = memory.data();
  const auto ints = [base](std::size_t at) { return reinterpret_cast<const std::uint32_t*>(base + at); };
  for (std::size_t c = 0; c < keep.size(); ++c) {
    RowEntries& to = kept->shard[c];
    if (to.rows == 0) continue;
    const Places& p = places[c];
    to.pair = ints(p.pair), to.begin = ints(p.begin), to.rank = ints(p.rank);
    to.first = base + p.first, to.second = base + p.second;
    to.by_column = {to.by_column.size, ints(p.used),          ints(p.column_begin),
                    ints(p.row),       base + p.column_first, base + p.column_second};
    to.products = base + p.products;
    to.behind = base + p.end;
    to.ahead = std::min(p.end - p.pair, memory.size() - p.end);
  }
  return kept;
}

void AddTimes(double t, const FactoredVec& v, Span total) {
  TACIT_CHECK(total.size() == v.size());
  if (v.columns > 0)
    OuterOf<Into::kAddTimes>(v.entries(), v.factors.data() + ToLine(v.factors.data()), v.out, total.data(),
                             false, t);
  Axpy(t, v.tail, total.subspan(v.columns * v.out));
}

void Form(const FactoredVec& v, Vec& out) {
  out.resize(v.size());
  if (v.columns > 0)
    FormOuter(v.entries(), v.columns, v.factors.data() + ToLine(v.factors.data()), v.out, out.data());
  Copy(v.tail, Span(out).subspan(v.columns * v.out));
}

}  // namespace tacit
