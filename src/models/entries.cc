#include "models/entries.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 of its own intrinsics (bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#include "core/simd.h"
#include "models/lanes.h"

// As in lattice_sampler_kernels.cc: an attribute per function, so that nothing of a header is compiled for
// AVX-512 and then chosen for everybody; and the upper halves of the registers are cleaned at the end.
#define TACIT_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl")))

namespace tacit {
namespace {

// y[0 … 4L) = start + Σ_k a(k) b(k)[0 … 4L), k ascending, in registers. With Part the last lanes hold `part`
// of four outputs.
struct AsItIs {
  __attribute__((always_inline)) Lanes operator()(Lanes, Lanes sum) const { return sum; }
};
// What is stored is store(what was there, the sum), which may leave either alone.
template <std::size_t L, bool Part, class A, class B, class S = AsItIs>
__attribute__((always_inline)) inline void Strip(std::size_t count, const double* start, std::size_t part,
                                                 A a, B b, double* y, S store = {}) {
  const auto load = [part](const double* p, std::size_t i) __attribute__((always_inline)) {
    return Part && i + 1 == L ? LoadPart(p + kLanes * i, part) : Load(p + kLanes * i);
  };
  Lanes sum[L];
  for (std::size_t i = 0; i < L; ++i) sum[i] = start ? load(start, i) : Lanes{};
  for (std::size_t k = 0; k < count; ++k) {
    const Lanes c = All(a(k));
    const double* row = b(k);
    for (std::size_t i = 0; i < L; ++i) sum[i] = MulAdd(c, load(row, i), sum[i]);
  }
  for (std::size_t i = 0; i < L; ++i) {
    if constexpr (!std::is_same_v<S, AsItIs>) sum[i] = store(load(y, i), sum[i]);
    if (Part && i + 1 == L)
      StorePart(y + kLanes * i, sum[i], part);
    else
      Store(y + kLanes * i, sum[i]);
  }
}

constexpr std::size_t kWidest =
    10;  // lanes of a strip: their sums, a coefficient and a mask fit 16 registers

// Calls f(first output, lanes constant, partial constant, part) over 0 … out, in strips of nearly equal
// width.
template <std::size_t L = kWidest, class F>
inline void WithLanes(std::size_t lanes, F f) {
  if constexpr (L == 1) {
    f(std::integral_constant<std::size_t, 1>{});
  } else {
    if (lanes == L) return f(std::integral_constant<std::size_t, L>{});
    WithLanes<L - 1>(lanes, f);
  }
}
template <class F>
inline void ForStrips(std::size_t out, F f) {
  if (out == 0) return;
  const std::size_t lanes = (out + kLanes - 1) / kLanes, strips = (lanes + kWidest - 1) / kWidest;
  const std::size_t width = (lanes + strips - 1) / strips;
  for (std::size_t at = 0; at < lanes; at += width) {
    const std::size_t here = std::min(width, lanes - at);
    const std::size_t part = at + here == lanes ? out % kLanes : 0;
    WithLanes(here, [&](auto l) {
      if (part == 0)
        f(at * kLanes, l, std::false_type{}, part);
      else
        f(at * kLanes, l, std::true_type{}, part);
    });
  }
}

template <class V>
void Lengthen(V& v, std::size_t size) {
  if (v.size() < size) v.resize(size);
}

}  // namespace

namespace {

// The non-zeros of x[0 … size) and their places, one after the other; returns how many. There is room for
// eight more.
TACIT_AVX512 std::size_t PackNonZeros8(const double* x, std::size_t size, std::uint32_t* at, double* value) {
  const __m256i step = _mm256_set1_epi32(8);
  __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  constexpr std::size_t kAhead = 1024;
  std::size_t found = 0;
  for (std::size_t j = 0; j < size; j += 8) {
    const auto here = static_cast<__mmask8>(size - j >= 8 ? 0xff : (1u << (size - j)) - 1);
    const __m512d v = _mm512_maskz_loadu_pd(here, x + j);
    _mm_prefetch(reinterpret_cast<const char*>(x + j + kAhead), _MM_HINT_T0);  // rows lie one after the other
    const __mmask8 mask = _mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_NEQ_UQ);  // NaN is not 0
    _mm512_storeu_pd(value + found, _mm512_maskz_compress_pd(mask, v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + found), _mm256_maskz_compress_epi32(mask, place));
    found += static_cast<std::size_t>(__builtin_popcount(mask));
    place = _mm256_add_epi32(place, step);
  }
  _mm256_zeroupper();
  return found;
}

// The same strips eight outputs at a time, with twice as many sums in registers; `last` masks the last eight.
// Rows of b are b + (at[k] − from)·stride. What is stored is the sum, or with kTimes what was there plus
// times·sum.
struct WideTerms {
  const double* value;
  const std::uint32_t* at;
  std::size_t count;
};
template <std::size_t L, bool kTimes = false>
TACIT_AVX512 __attribute__((always_inline)) inline void WideStrip(const WideTerms& terms, const double* start,
                                                                  const double* b, std::size_t stride,
                                                                  std::size_t from, __mmask8 last, double* y,
                                                                  double times = 1) {
  __m512d sum[L];
  for (std::size_t i = 0; i + 1 < L; ++i)
    sum[i] = start != nullptr ? _mm512_loadu_pd(start + 8 * i) : _mm512_setzero_pd();
  sum[L - 1] = start != nullptr ? _mm512_maskz_loadu_pd(last, start + 8 * (L - 1)) : _mm512_setzero_pd();
  for (std::size_t k = 0; k < terms.count; ++k) {
    const __m512d c = _mm512_set1_pd(terms.value[k]);
    const double* row = b + (terms.at[k] - from) * stride;
    for (std::size_t i = 0; i + 1 < L; ++i) sum[i] = _mm512_fmadd_pd(c, _mm512_loadu_pd(row + 8 * i), sum[i]);
    sum[L - 1] = _mm512_fmadd_pd(c, _mm512_maskz_loadu_pd(last, row + 8 * (L - 1)), sum[L - 1]);
  }
  const __m512d t = _mm512_set1_pd(times);
  for (std::size_t i = 0; i < L; ++i) {
    const __mmask8 mask = i + 1 < L ? 0xff : last;
    if (kTimes) sum[i] = _mm512_add_pd(_mm512_maskz_loadu_pd(mask, y + 8 * i), _mm512_mul_pd(t, sum[i]));
    _mm512_mask_storeu_pd(y + 8 * i, mask, sum[i]);
  }
}

// A strip of SparseProduct: outputs from o on.
constexpr std::size_t kWideColumns = 64;  // used columns whose strip stays in the first-level cache
template <std::size_t L>
TACIT_AVX512 void WideProduct(Entries& x, const double* w, const double* start, std::size_t out, double* z,
                              std::size_t o, __mmask8 last, double* room) {
  constexpr std::size_t kAhead = 8, kStride = 8 * L;
  const std::size_t used = x.used.size(),
                    blocks = std::max<std::size_t>(1, (used + kWideColumns - 1) / kWideColumns);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t from = b * kWideColumns, to = std::min(from + kWideColumns, used);
    for (std::size_t i = from; i < to; ++i) {
      const double* ahead = w + x.used[std::min(i + kAhead, used - 1)] * out + o;
      const double* row = w + x.used[i] * out + o;
      double* copy = room + (i - from) * kStride;
      for (std::size_t k = 0; k < L; ++k) {
        __builtin_prefetch(ahead + 8 * k);
        _mm512_storeu_pd(copy + 8 * k, _mm512_maskz_loadu_pd(k + 1 < L ? 0xff : last, row + 8 * k));
      }
    }
    for (std::size_t r = 0; r < x.rows; ++r) {
      const std::size_t first = x.cut[b * x.rows + r], count = x.cut[(b + 1) * x.rows + r] - first;
      double* y = z + r * out + o;
      if (count == 0 && b > 0) continue;
      WideStrip<L>({x.value.data() + first, x.rank.data() + first, count},
                   b > 0   ? y
                   : start ? start + o
                           : nullptr,
                   room, kStride, from, last, y);
    }
  }
  _mm256_zeroupper();
}

// A strip of UsedProduct.
template <std::size_t L>
TACIT_AVX512 void WideUsed(const Entries& x, std::size_t first, std::size_t count, const double* w,
                           const double* start, std::size_t stride, double* z, std::size_t o, __mmask8 last) {
  for (std::size_t r = 0; r < count; ++r) {
    const std::size_t from = x.row_begin[first + r], to = x.row_begin[first + r + 1];
    WideStrip<L>({x.value.data() + from, x.rank.data() + from, to - from}, start ? start + o : nullptr, w + o,
                 stride, 0, last, z + r * stride + o);
  }
  _mm256_zeroupper();
}

// A strip of OuterOf, of the columns from `block` to `end`.
template <std::size_t L, bool kTimes>
TACIT_AVX512 void WideOuter(const std::uint32_t* begin, const std::uint32_t* row, const double* value,
                            std::size_t columns, std::size_t block, std::size_t end, const double* d,
                            std::size_t out, double* g, std::size_t o, __mmask8 last, bool add, bool skip,
                            double times) {
  for (std::size_t j = block; j < end; ++j) {
    const std::size_t from = begin[j], to = begin[j + 1];
    if (skip && from == to) continue;
    double* y = g + j * out + o;
    if (kTimes)  // g is longer than the caches, and read once
      for (std::size_t k = 0; k < L; ++k)
        __builtin_prefetch(g + std::min(j + 4, columns - 1) * out + o + 8 * k, 1);
    WideStrip<L, kTimes>({value + from, row + from, to - from}, add ? y : nullptr, d + o, out, 0, last, y,
                         times);
  }
  _mm256_zeroupper();
}

// f(first output, lanes constant, mask of the last) over 0 … out, in strips of nearly equal width.
constexpr std::size_t kWidestWide = 10;
template <class F>
inline void ForWideStrips(std::size_t out, F f) {
  const std::size_t lanes = (out + 7) / 8, strips = (lanes + kWidestWide - 1) / kWidestWide;
  if (out == 0) return;
  const std::size_t width = (lanes + strips - 1) / strips;
  for (std::size_t at = 0; at < lanes; at += width) {
    const std::size_t here = std::min(width, lanes - at), part = at + here == lanes ? out % 8 : 0;
    const auto last = static_cast<__mmask8>(part == 0 ? 0xff : (1u << part) - 1);
    WithLanes<kWidestWide>(here, [&](auto l) { f(at * 8, l, last); });
  }
}
bool Wide() { return internal::SimdInUse() == internal::Simd::kAvx512; }

}  // namespace

bool GatherEntries(const Row* row, std::size_t rows, std::size_t columns, Entries& out) {
  const bool wide = Wide();
  out.rows = 0;
  out.columns = columns;
  out.row_begin.assign(1, 0);
  std::size_t found = 0;
  const std::size_t most = rows * columns / 3;
  for (std::size_t r = 0; r < rows; ++r) {
    Lengthen(out.column, found + columns + 8);
    Lengthen(out.value, found + columns + 8);
    std::uint32_t* at = out.column.data();
    double* value = out.value.data();
    const auto take = [&](std::size_t j, double v) __attribute__((always_inline)) {
      at[found] = static_cast<std::uint32_t>(j);
      value[found] = v;
      found += v != 0;
    };
    const Row& x = row[r];
    if (x.index != nullptr || x.size == 0) {  // a sparse set without entries has no indices either
      for (std::size_t k = 0; k < x.size; ++k) take(x.index[k], x.value[k]);
    } else if (wide) {
      found += PackNonZeros8(x.value, columns, at + found, value + found);
      if (found > most) return false;
    } else {
      constexpr std::size_t kGroup = 2 * kLanes;  // zeros come in runs: pass over those
      std::size_t j = 0;
      for (; j + kGroup <= columns; j += kGroup) {
        if ((NonZeros(Load(x.value + j)) | NonZeros(Load(x.value + j + kLanes))) == 0) continue;
        for (std::size_t k = j; k < j + kGroup; ++k) take(k, x.value[k]);
      }
      for (; j < columns; ++j) take(j, x.value[j]);
      if (found > most) return false;
    }
    out.row_begin.push_back(static_cast<std::uint32_t>(found));
  }
  out.rows = rows;
  // Counts, then where each column begins, then the entries; each column's place moves on as it is filled.
  out.column_begin.assign(columns + 1, 0);
  Lengthen(out.row, found);
  Lengthen(out.column_value, found);
  std::uint32_t* begin = out.column_begin.data();
  for (std::size_t k = 0; k < found; ++k) ++begin[out.column[k]];
  for (std::size_t j = 0, sum = 0; j <= columns; ++j)
    sum += std::exchange(begin[j], static_cast<std::uint32_t>(sum));
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t k = out.row_begin[r]; k < out.row_begin[r + 1]; ++k) {
      const std::uint32_t place = begin[out.column[k]]++;
      out.row[place] = static_cast<std::uint32_t>(r);
      out.column_value[place] = out.value[k];
    }
  // Now begin[j] is where column j + 1 begins.
  std::copy_backward(begin, begin + columns, begin + columns + 1);
  begin[0] = 0;
  out.used.clear();
  Lengthen(out.column_rank, columns);
  for (std::size_t j = 0; j < columns; ++j) {
    out.column_rank[j] = static_cast<std::uint32_t>(out.used.size());
    if (begin[j] != begin[j + 1]) out.used.push_back(static_cast<std::uint32_t>(j));
  }
  Lengthen(out.rank, found);
  for (std::size_t k = 0; k < found; ++k) out.rank[k] = out.column_rank[out.column[k]];
  return true;
}

void TurnEntries(const Entries& x, Vec& t) {
  Lengthen(t, x.used.size() * x.rows);
  double* row = t.data();
  for (const std::uint32_t j : x.used) {
    std::fill_n(row, x.rows, 0.0);
    for (std::size_t k = x.column_begin[j]; k < x.column_begin[j + 1]; ++k) row[x.row[k]] = x.column_value[k];
    row += x.rows;
  }
}

void SparseProduct(Entries& x, const double* w, const double* start, std::size_t out, double* z) {
  // Strip by strip, and a few used columns at a time: what these need of w is copied together, at the
  // beginning of a cache line. So most of it stays in the first-level cache while all rows pass; w itself may
  // be larger than any. A row's sum waits in z meanwhile.
  constexpr std::size_t kLine = 64 / sizeof(double), kAhead = 8, kNarrowColumns = 128;
  const unsigned shift = static_cast<unsigned>(std::countr_zero(Wide() ? kWideColumns : kNarrowColumns));
  const std::size_t kColumns = std::size_t{1} << shift;
  const std::size_t used = x.used.size(), blocks = std::max<std::size_t>(1, (used + kColumns - 1) / kColumns);
  Lengthen(x.room, std::max(kNarrowColumns * kWidest * kLanes, kWideColumns * kWidestWide * 8) + kLine);
  double* room = x.room.data() + ToLine(x.room.data());
  // cut[b·rows + r]: the first entry of row r that is beyond the blocks before b.
  Lengthen(x.cut, (blocks + 1) * x.rows);
  for (std::size_t r = 0; r < x.rows; ++r) {
    std::size_t b = 0, k = x.row_begin[r];
    for (; k < x.row_begin[r + 1]; ++k)
      for (; b <= x.rank[k] >> shift; ++b) x.cut[b * x.rows + r] = static_cast<std::uint32_t>(k);
    for (; b <= blocks; ++b) x.cut[b * x.rows + r] = static_cast<std::uint32_t>(k);
  }
  if (Wide())
    return ForWideStrips(out, [&](std::size_t o, auto lanes, __mmask8 last) {
      WideProduct<lanes()>(x, w, start, out, z, o, last, room);
    });
  ForStrips(out, [&](std::size_t o, auto lanes, auto partial, std::size_t part) {
    constexpr std::size_t kStride = kLanes * lanes();
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t from_rank = b * kColumns, to_rank = std::min(from_rank + kColumns, used);
      for (std::size_t i = from_rank; i < to_rank; ++i) {
        const double* ahead = w + x.used[std::min(i + kAhead, used - 1)] * out + o;
        for (std::size_t k = 0; k < kStride; k += kLine) __builtin_prefetch(ahead + k);
        const double* from = w + x.used[i] * out + o;
        for (std::size_t k = 0; k < lanes(); ++k)
          Store(room + (i - from_rank) * kStride + k * kLanes,
                partial() && k + 1 == lanes() ? LoadPart(from + k * kLanes, part) : Load(from + k * kLanes));
      }
      for (std::size_t r = 0; r < x.rows; ++r) {
        const std::size_t first = x.cut[b * x.rows + r], count = x.cut[(b + 1) * x.rows + r] - first;
        double* y = z + r * out + o;
        const double* begin = b > 0 ? y : start ? start + o : nullptr;
        if (count == 0 && b > 0) continue;
        const double* value = x.value.data() + first;
        const std::uint32_t* at = x.rank.data() + first;
        Strip<lanes(), partial()>(
            count, begin, part, [=](std::size_t k) { return value[k]; },
            [=](std::size_t k) { return room + (at[k] - from_rank) * kStride; }, y);
      }
    }
  });
}

void UsedProduct(const Entries& x, std::size_t first, std::size_t count, const double* w, const double* start,
                 std::size_t out, std::size_t stride, double* z) {
  TACIT_CHECK(first + count <= x.rows && out <= stride);
  if (Wide())
    return ForWideStrips(out, [&](std::size_t o, auto lanes, __mmask8 last) {
      WideUsed<lanes()>(x, first, count, w, start, stride, z, o, last);
    });
  ForStrips(out, [&](std::size_t o, auto lanes, auto partial, std::size_t part) {
    for (std::size_t r = 0; r < count; ++r) {
      const std::size_t from = x.row_begin[first + r], to = x.row_begin[first + r + 1];
      const double* value = x.value.data() + from;
      const std::uint32_t* at = x.rank.data() + from;
      Strip<lanes(), partial()>(
          to - from, start ? start + o : nullptr, part, [=](std::size_t k) { return value[k]; },
          [=](std::size_t k) { return w + at[k] * stride + o; }, z + r * stride + o);
    }
  });
}

namespace {

// What OuterOf stores.
struct PlusTimes {
  double times;
  __attribute__((always_inline)) Lanes operator()(Lanes there, Lanes sum) const {
    return there + All(times) * sum;
  }
};

// x: Entries or FactoredVec. kAdd: sums start from what is there; kSkip: and columns without entries are
// left alone. store: AsItIs or PlusTimes.
template <bool kAdd, bool kSkip, class X, class S = AsItIs>
void OuterOf(const X& x, const double* d, std::size_t out, double* g, S store = {}) {
  constexpr bool kTimes = std::is_same_v<S, PlusTimes>;
  constexpr std::size_t kBlock = 128;  // columns whose part of g stays in the second-level cache
  for (std::size_t block = 0; block < x.columns; block += kBlock) {
    const std::size_t end = std::min(block + kBlock, x.columns);
    if (Wide()) {
      double times = 1;
      if constexpr (kTimes) times = store.times;
      ForWideStrips(out, [&](std::size_t o, auto lanes, __mmask8 last) {
        WideOuter<lanes(), kTimes>(x.column_begin.data(), x.row.data(), x.column_value.data(), x.columns,
                                   block, end, d, out, g, o, last, kAdd, kSkip, times);
      });
      continue;
    }
    ForStrips(out, [&](std::size_t o, auto lanes, auto partial, std::size_t part) {
      for (std::size_t j = block; j < end; ++j) {
        const std::size_t from = x.column_begin[j], to = x.column_begin[j + 1];
        if (kSkip && from == to) continue;
        const double* value = x.column_value.data() + from;
        const std::uint32_t* row = x.row.data() + from;
        double* y = g + j * out + o;
        if constexpr (kTimes)  // g is longer than the caches, and read once
          for (std::size_t k = 0; k < kLanes * lanes(); k += 8)
            __builtin_prefetch(g + std::min(j + 4, x.columns - 1) * out + o + k, 1);
        Strip<lanes(), partial()>(
            to - from, kAdd ? y : nullptr, part, [=](std::size_t k) { return value[k]; },
            [=](std::size_t k) { return d + row[k] * out + o; }, y, store);
      }
    });
  }
}

}  // namespace

void SparseOuter(const Entries& x, const double* d, std::size_t out, double* g) {
  OuterOf<false, false>(x, d, out, g);
}
void AddSparseOuter(const Entries& x, const double* d, std::size_t out, double* g) {
  OuterOf<true, true>(x, d, out, g);
}

void KeepFactors(const Entries& x, const double* d, std::size_t out, FactoredVec& v) {
  const std::size_t entries = x.row_begin[x.rows], size = x.rows * out;
  v.columns = x.columns;
  v.out = out;
  v.column_begin.assign(x.column_begin.begin(),
                        x.column_begin.begin() + static_cast<std::ptrdiff_t>(x.columns) + 1);
  Lengthen(v.row, entries);
  Lengthen(v.column_value, entries);
  Lengthen(v.factors, size + 8);
  std::copy_n(x.row.data(), entries, v.row.data());
  std::copy_n(x.column_value.data(), entries, v.column_value.data());
  std::copy_n(d, size, v.factors.data() + ToLine(v.factors.data()));
}

void AddTimes(double t, const FactoredVec& v, Span total) {
  TACIT_CHECK(total.size() == v.size());
  OuterOf<false, true>(v, v.factors.data() + ToLine(v.factors.data()), v.out, total.data(), PlusTimes{t});
  Axpy(t, v.tail, total.subspan(v.columns * v.out));
}

void Form(const FactoredVec& v, Vec& out) {
  out.resize(v.size());
  OuterOf<false, false>(v, v.factors.data() + ToLine(v.factors.data()), v.out, out.data());
  Copy(v.tail, Span(out).subspan(v.columns * v.out));
}

}  // namespace tacit
