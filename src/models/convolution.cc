#include "models/convolution.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/simd.h"
#include "models/convolution_wide.h"

namespace tacit {
namespace {

// ---- forward

// What a tile needs beside its sums: strides are in doubles.
struct Taps {
  std::size_t channels, kernel, width, plane;   // of the input, as stored (twice as wide in pairs)
  const double* weight;                         // [c][i][j][4]
  const BitWord* nonzero;                 // of the input, as given
  std::size_t in_width, in_plane;
};

// T vectors of sums, from the place `first` on. K: the kernel, if it is known here; 0: it is not.
template <std::size_t D, std::size_t K, std::size_t T>
void Tile(const Taps& t, const double* in, std::size_t first, const double* start, double* z) {
  constexpr std::size_t kPlaces = kLanes / D;      // in a vector
  const std::size_t kernel = K > 0 ? K : t.kernel, reach = T * kPlaces + kernel - 1;
  Lanes sum[T];
#pragma GCC unroll 16
  for (std::size_t v = 0; v < T; ++v) sum[v] = Load(start);
  const double* weight = t.weight;
  for (std::size_t c = 0; c < t.channels; ++c) {
    const double* line = in + c * t.plane;
    for (std::size_t i = 0; i < kernel; ++i, line += t.width, weight += kernel * kLanes) {
      if (t.nonzero != nullptr && !AnyBit(t.nonzero, c * t.in_plane + i * t.in_width + first, reach))
        continue;
      const auto values = [line](std::size_t q) __attribute__((always_inline)) {
        return D == kLanes ? All(line[q]) : Load(line + q * D);
      };
      if constexpr (K > 0) {      // a vector is loaded once and meets every weight of the row
        Lanes w[K];
#pragma GCC unroll 8
        for (std::size_t j = 0; j < K; ++j) w[j] = Load(weight + kLanes * j);
#pragma GCC unroll 64
        for (std::size_t q = 0; q < (T - 1) * kPlaces + K; ++q) {
          const Lanes v = values(q);
#pragma GCC unroll 8
          for (std::size_t j = 0; j < K; ++j)
            if (j <= q && (q - j) % kPlaces == 0 && (q - j) / kPlaces < T)
              sum[(q - j) / kPlaces] = MulAdd(w[j], v, sum[(q - j) / kPlaces]);
        }
      } else {
        for (std::size_t j = 0; j < kernel; ++j) {
          const Lanes w = Load(weight + kLanes * j);
#pragma GCC unroll 16
          for (std::size_t v = 0; v < T; ++v) sum[v] = MulAdd(w, values(j + v * kPlaces), sum[v]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < T; ++v) Store(z + kLanes * v, sum[v]);
}

constexpr std::size_t kTile = 10;  // sums that fit the registers beside their operands
using TileFunction = void (*)(const Taps&, const double*, std::size_t, const double*, double*);
template <std::size_t D, std::size_t K, std::size_t... T>
constexpr std::array<TileFunction, sizeof...(T)> Tiles(std::index_sequence<T...>) {
  return {&Tile<D, K, T + 1>...};
}

// `vectors` of sums from the place `first` on, in tiles of nearly equal size: short ones wait for themselves.
template <std::size_t D>
void Run(const Taps& t, const double* in, std::size_t first, std::size_t vectors, std::size_t most,
         const double* start, double* z) {
  using Sizes = std::make_index_sequence<kTile>;
  static constexpr auto kAny = Tiles<D, 0>(Sizes{}), kThree = Tiles<D, 3>(Sizes{}),
                        kFour = Tiles<D, 4>(Sizes{}), kFive = Tiles<D, 5>(Sizes{});
  const auto& tile_of = t.kernel == 4 ? kFour : t.kernel == 3 ? kThree : t.kernel == 5 ? kFive : kAny;
  const std::size_t tiles = (vectors + most - 1) / most;
  const std::size_t size = vectors / tiles, larger = vectors % tiles;
  for (std::size_t k = 0, v = 0; k < tiles; ++k) {
    const std::size_t count = size + (k < larger ? 1 : 0);
    tile_of[count - 1](t, in + (first * D + v * kLanes) / (D == kLanes ? kLanes : 1), first + v * kLanes / D,
                       start, z + v * kLanes);
    v += count;
  }
}

template <std::size_t D>
void ConvolveGroups(const Stage& s, Taps t, const double* in, const double* packed, double* z) {
  for (std::size_t g = 0; g < s.groups(); ++g, z += s.group()) {
    t.weight = packed;
    packed += s.weights() / s.filters * kLanes;
    const double* start = packed;
    packed += kLanes;
    if constexpr (D == kLanes) {
      for (std::size_t y = 0; y < s.convolved.height; ++y)
        Run<D>(t, in, y * s.in.width, s.convolved.width, kTile, start, z + y * s.row() * D);
    } else {
      // Whole rows per tile, or whole tiles per row, where that can be: then rows of zeros are passed over.
      const std::size_t row = s.in.width * D / kLanes;
      std::size_t most = kTile - 2;
      for (std::size_t n = kTile - 3; n <= kTile; ++n)
        if (row > 0 && (n % row == 0 || row % n == 0)) most = n;
      Run<D>(t, in, 0, s.group() / kLanes, most, start, z);
    }
  }
}

// z from `in`; `pairs`: room.
void Convolve(const Stage& s, const double* in, const double* packed, const BitWord* nonzero, double* pairs,
              double* z) {
  const std::size_t plane = s.in.height * s.in.width;
  Taps t{s.in.channels, s.kernel, s.in.width, plane, nullptr, nonzero, s.in.width, plane};
  if (kTile * kLanes + s.kernel > 64) t.nonzero = nullptr;
  switch (s.side()) {
    case 1: return ConvolveGroups<1>(s, t, in, packed, z);
    case 2:
      for (std::size_t k = 0; k < s.ImageSize(); ++k) pairs[2 * k] = pairs[2 * k + 1] = in[k];
      t.width *= 2, t.plane *= 2;
      return ConvolveGroups<2>(s, t, pairs, packed, z);
    default: return ConvolveGroups<kLanes>(s, t, in, packed, z);
  }
}

// ---- pooling

template <std::size_t D> struct Pack;
template <> struct Pack<1> {
  using Values = double;
  using Places = Place;
};
template <> struct Pack<2> {
  using Values = double __attribute__((vector_size(16), aligned(8), may_alias));
  using Places = long long __attribute__((vector_size(16), aligned(8), may_alias));
};
template <> struct Pack<4> {
  using Values = Lanes;
  using Places = long long __attribute__((vector_size(32), aligned(8), may_alias));
};

template <std::size_t D>
inline double Part(const typename Pack<D>::Values& v, std::size_t f) {
  if constexpr (D == 1)
    return v;
  else
    return v[f];
}

template <std::size_t D>
void PoolMax(const Stage& s, const double* z, double* out, Place* place) {
  using Values = typename Pack<D>::Values;
  using Places = typename Pack<D>::Places;
  // Copies: what is stored below may be anything, so members would be read again and again.
  const std::size_t rows = s.out.height, columns = s.out.width, size = s.places(), row = s.row() * D;
  const auto width = static_cast<long long>(s.in.width);
  const bool relu = s.relu;
  for (std::size_t g = 0; g < s.groups(); ++g) {
    const std::size_t filters = std::min(D, s.filters - g * D);
    double* plane = out + g * D * size;
    for (std::size_t y = 0; y < rows; ++y) {
      const double* window = z + g * s.group() + 2 * y * row;
      Places corner = Places{} + 2 * static_cast<long long>(y) * width;
      for (std::size_t x = 0; x < columns; ++x, window += 2 * D, corner += 2, place += D, ++plane) {
        Values best = *reinterpret_cast<const Values*>(window);
        Places at = corner;
        const auto next = [&](const double* from, long long by) __attribute__((always_inline)) {
          const Values v = *reinterpret_cast<const Values*>(from);
          const auto take = (v > best) | (v != v);
          best = take ? v : best;
          at = take ? corner + by : at;
        };
        next(window + D, 1);
        next(window + row, width);
        next(window + row + D, width + 1);
        if (relu) at = best > 0 ? at : Places{} - 1;
        *reinterpret_cast<Places*>(place) = at;
        if (filters == D) {
#pragma GCC unroll 4
          for (std::size_t f = 0; f < D; ++f) plane[f * size] = Part<D>(best, f);
        } else {
          for (std::size_t f = 0; f < filters; ++f) plane[f * size] = Part<D>(best, f);
        }
      }
    }
  }
}

// Mean: bit q of the place says whether the q-th of the window's four passes a slope on. None: bit 0.
void PoolOther(const Stage& s, const double* z, double* out, Place* place) {
  const std::size_t half = s.pool == Pooling::kNone ? 1 : 2, side = s.side();
  for (std::size_t f = 0; f < s.filters; ++f)
    for (std::size_t y = 0; y < s.out.height; ++y)
      for (std::size_t x = 0; x < s.out.width; ++x) {
        const std::size_t g = f / side, at = y * s.out.width + x;
        const auto value = [&](std::size_t dy, std::size_t dx) {
          return z[g * s.group() + ((half * y + dy) * s.row() + half * x + dx) * side + f % side];
        };
        const auto open = [&](double v) -> Place { return !s.relu || v > 0; };
        Place& passed = place[(g * s.places() + at) * side + f % side];
        double& to = out[f * s.places() + at];
        if (s.pool == Pooling::kNone) {
          to = value(0, 0);
          passed = open(to);
          continue;
        }
        to = ((value(0, 0) + value(0, 1)) + (value(1, 0) + value(1, 1))) * 0.25;
        passed = open(value(0, 0)) | open(value(0, 1)) << 1 | open(value(1, 0)) << 2 | open(value(1, 1)) << 3;
      }
}

// out and `place` from z.
void Pool(const Stage& s, double* z, double* out, Place* place) {
  if (s.relu)
    for (std::size_t k = 0; k < s.ConvolvedSize(); ++k) z[k] = z[k] < 0 ? 0.0 : z[k];
  if (s.pool != Pooling::kMax) return PoolOther(s, z, out, place);
  switch (s.side()) {
    case 1: return PoolMax<1>(s, z, out, place);
    case 2: return PoolMax<2>(s, z, out, place);
    default: return PoolMax<kLanes>(s, z, out, place);
  }
}

// ---- backward

// The places of one filter's z that have a slope.
struct List {
  const double* value;
  const Place* place;
  std::size_t size, value_step, place_step;
};

// After a mere maximum they are what Pool kept (−1: none); else they are written out into `room`.
List ListOf(const Stage& s, const Place* place, const OutSlopes& d, std::size_t f, double* room) {
  const std::size_t side = s.place_step(), n = s.places();
  const double* value = d.at + f * d.filter;
  const Place* at = place + s.PlacesOf(f);
  if (s.pool == Pooling::kMax && !s.relu) return {value, at, n, d.step, side};
  Place* offsets = reinterpret_cast<Place*>(room + s.ListSize() / 2);
  if (s.pool == Pooling::kMax) {
    std::size_t size = 0;
    for (std::size_t p = 0; p < n; ++p) {
      if (at[p * side] < 0) continue;
      room[size] = value[p * d.step];
      offsets[size++] = at[p * side];
    }
    return {room, offsets, size, 1, 1};
  }
  const std::size_t half = s.pool == Pooling::kNone ? 1 : 2;
  const double share = s.pool == Pooling::kNone ? 1.0 : 0.25;
  std::size_t size = 0;
  for (std::size_t y = 0; y < s.out.height; ++y)
    for (std::size_t x = 0; x < s.out.width; ++x) {
      const std::size_t p = y * s.out.width + x;
      for (std::size_t q = 0; q < half * half; ++q) {
        if ((at[p * side] >> q & 1) == 0) continue;
        room[size] = share * value[p * d.step];
        offsets[size++] = static_cast<Place>((half * y + q / 2) * s.in.width + half * x + q % 2);
      }
    }
  return {room, offsets, size, 1, 1};
}

// sum[n] = Σ value · (four doubles at line(n) + place) over the list, by `Chains` sums each; `total` likewise
// of the values. line(n, place) points to them.
template <std::size_t N, std::size_t Chains, class Line>
__attribute__((always_inline)) inline void Correlate(const List& list, Line line, Lanes (&sum)[N],
                                                     Lanes& total) {
  Lanes part[Chains][N] = {}, values[Chains] = {};
  const double* value = list.value;
  const Place* place = list.place;
  const auto add = [&](std::size_t chain) __attribute__((always_inline)) {
    const Lanes v = All(*value);
    const Place at = *place;
#pragma GCC unroll 8
    for (std::size_t n = 0; n < N; ++n) part[chain][n] = MulAdd(v, Load(line(n, at)), part[chain][n]);
    values[chain] += v;
    value += list.value_step, place += list.place_step;
  };
  std::size_t k = 0;
  for (; k + Chains <= list.size; k += Chains) {
#pragma GCC unroll 2
    for (std::size_t chain = 0; chain < Chains; ++chain) add(chain);
  }
  for (; k < list.size; ++k) add(0);
#pragma GCC unroll 8
  for (std::size_t n = 0; n < N; ++n) sum[n] = Chains == 2 ? part[0][n] + part[Chains - 1][n] : part[0][n];
  total = Chains == 2 ? values[0] + values[Chains - 1] : values[0];
}

// The gradient of one filter of 4 × 4, two channels at a time as the general one below does it.
void FourByFour(const Stage& s, const double* in, const List& list, double* g, double& bias) {
  const std::size_t width = s.in.width, plane = s.in.height * width, channels = s.in.channels;
  Lanes total = {};
  std::size_t c = 0;
  for (; c + 2 <= channels; c += 2, g += 8 * kLanes) {
    const double *first = in + c * plane, *second = first + plane;
    Lanes sum[8];
    Correlate<8, 1>(
        list,
        [=](std::size_t n, Place at)
            __attribute__((always_inline)) { return (n < 4 ? first : second) + at + n % 4 * width; },
        sum, total);
#pragma GCC unroll 8
    for (std::size_t n = 0; n < 8; ++n) Store(g + n * kLanes, sum[n]);
  }
  if (c < channels) {
    const double* first = in + c * plane;
    Lanes sum[4];
    Correlate<4, 2>(
        list, [=](std::size_t n, Place at) __attribute__((always_inline)) { return first + at + n * width; },
        sum, total);
#pragma GCC unroll 4
    for (std::size_t n = 0; n < 4; ++n) Store(g + n * kLanes, sum[n]);
  }
  bias = total[0];
}

// Windows of places, ascending, whose patches are not all zero: first those with an even number, then those
// with an odd one.
using Number = std::uint32_t __attribute__((may_alias));  // kept in memory of doubles
struct Windows {
  const Number* at;
  std::size_t even, odd;
};
Windows NonZeroWindows(const Stage& s, const BitWord* nonzero, double* room) {
  const std::size_t rows = s.out.height, columns = s.out.width, width = s.in.width;
  auto *list = reinterpret_cast<Number*>(room), *second = list + s.places(), *even = list, *odd = second;
  for (std::size_t y = 0; y < rows; ++y) {
    std::uint64_t any = 0;
    for (std::size_t i = 0; i <= s.kernel; ++i) any |= BitsFrom(nonzero, (2 * y + i) * width);
    any &= (std::uint64_t{1} << width) - 1;
    std::uint64_t windows = any;
    for (std::size_t j = 1; j <= s.kernel; ++j) windows |= any >> j;
    std::size_t p = y * columns;
    const auto take = [&](Number*& to) __attribute__((always_inline)) {
      *to = static_cast<std::uint32_t>(p++);
      to += windows & 1;
      windows >>= 2;
    };
    if (p % 2 != 0) take(odd);
    while (p + 2 <= (y + 1) * columns) {
      take(even);
      take(odd);
    }
    if (p < (y + 1) * columns) take(even);
  }
  const auto evens = static_cast<std::size_t>(even - list), odds = static_cast<std::size_t>(odd - second);
  std::copy_n(second, odds, even);
  return {list, evens, odds};
}

// The gradients of filters of 4 × 4 over one channel, by these windows alone: the other terms are zeros. The
// slopes of neighbouring filters lie side by side.
void FourByFour(const Stage& s, const double* in, const Windows& windows, const Place* place,
                const OutSlopes& d, double* g) {
  const std::size_t width = s.in.width, step = d.step, size = s.places();
  for (std::size_t f = 0; f < s.filters; ++f) {
    const double* value = d.at + f;
    const Place* at = place + s.PlacesOf(f);
    const std::size_t place_step = s.place_step();
    Lanes part[2][4] = {};
    const auto add = [&](std::size_t chain, std::size_t p) __attribute__((always_inline)) {
      const Lanes v = All(value[p * step]);
      const double* patch = in + at[p * place_step];
#pragma GCC unroll 4
      for (std::size_t n = 0; n < 4; ++n) part[chain][n] = MulAdd(v, Load(patch + n * width), part[chain][n]);
    };
    const std::size_t both = std::min(windows.even, windows.odd);
    const Number *even = windows.at, *odd = even + windows.even;
    for (std::size_t k = 0; k < both; ++k) {
      add(0, even[k]);
      add(1, odd[k]);
    }
    for (std::size_t k = both; k < windows.even; ++k) add(0, even[k]);
    for (std::size_t k = both; k < windows.odd; ++k) add(1, odd[k]);
#pragma GCC unroll 4
    for (std::size_t n = 0; n < 4; ++n) Store(g + (4 * f + n) * kLanes, part[0][n] + part[1][n]);
  }
  double* bias = g + s.weights();
  for (std::size_t f = 0; f < s.filters; f += kLanes) {
    Lanes sum[2] = {};
    std::size_t p = 0;
    for (; p + 2 <= size; p += 2) {
      sum[0] += Load(d.at + f + p * step);
      sum[1] += Load(d.at + f + (p + 1) * step);
    }
    if (p < size) sum[0] += Load(d.at + f + p * step);
    sum[0] += sum[1];
    for (std::size_t k = 0; k < std::min(kLanes, s.filters - f); ++k) bias[f + k] = sum[0][k];
  }
}

// d_in at every place of the list += value · the filter, a row of V vectors after the other. K, V: the size
// of the filter, if it is known here.
template <std::size_t K, std::size_t V>
inline void Spread(const List list, const double* turned, const Stage& s, double* d_in) {
  const std::size_t channels = V > 0 ? V / K * kLanes : s.padded_channels();
  const std::size_t kernel = K > 0 ? K : s.kernel, span = kernel * channels, line = s.in.width * channels;
  for (std::size_t k = 0; k < list.size; ++k) {
    const Lanes v = All(list.value[k * list.value_step]);
    double* patch = d_in + static_cast<std::size_t>(list.place[k * list.place_step]) * channels;
    const double* weight = turned;
    const auto add = [&](std::size_t n) __attribute__((always_inline)) {
      Store(patch + n, MulAdd(v, Load(weight + n), Load(patch + n)));
    };
    if constexpr (K > 0) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < K; ++i, patch += line, weight += span) {
#pragma GCC unroll 8
        for (std::size_t n = 0; n < V; ++n) add(n * kLanes);
      }
    } else {
      for (std::size_t i = 0; i < kernel; ++i, patch += line, weight += span)
        for (std::size_t n = 0; n < span; n += kLanes) add(n);
    }
  }
}

}  // namespace

void PackFilters(const Stage& s, const double* w, double* packed) {
  const std::size_t side = s.side(), taps = s.weights() / s.filters;
  const double* bias = w + s.weights();
  for (std::size_t g = 0; g < s.groups(); ++g) {
    const auto filter = [&](std::size_t lane) { return g * side + lane % side; };
    for (std::size_t k = 0; k < taps; ++k, packed += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        packed[lane] = filter(lane) < s.filters ? w[filter(lane) * taps + k] : 0.0;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      packed[lane] = filter(lane) < s.filters ? bias[filter(lane)] : 0.0;
    packed += kLanes;
  }
}

void TurnFilters(const Stage& s, const double* w, double* turned) {
  const std::size_t size = s.kernel * s.kernel, channels = s.padded_channels();
  for (std::size_t f = 0; f < s.filters; ++f)
    for (std::size_t k = 0; k < size; ++k, turned += channels)
      for (std::size_t c = 0; c < channels; ++c)
        turned[c] = c < s.in.channels ? w[(f * s.in.channels + c) * size + k] : 0.0;
}

std::size_t NonZeroBits(const double* in, std::size_t size, BitWord* nonzero) {
  if (internal::SimdInUse() == internal::Simd::kAvx512) return internal::WideNonZeroBits(in, size, nonzero);
  std::size_t count = 0;
  for (std::size_t k = 0; k < size; k += 64) {
    std::uint64_t word = 0;
    std::size_t b = 0;
    const std::size_t end = std::min<std::size_t>(64, size - k);
    for (; b + kLanes <= end; b += kLanes) word |= NonZeros(Load(in + k + b)) << b;
    for (; b < end; ++b) word |= static_cast<std::uint64_t>(in[k + b] != 0) << b;
    nonzero[k / 64] = word;
    count += static_cast<std::size_t>(__builtin_popcountll(word));
  }
  nonzero[(size + 63) / 64] = 0;
  return count;
}

void ConvolveAndPool(const Stage& s, const double* in, const double* packed, const BitWord* nonzero,
                     double* room, double* out, Place* place) {
  if (s.wide) return internal::WideConvolveAndPool(s, in, packed, nonzero, out, place);
  double* z = room + s.PairsSize();
  Convolve(s, in, packed, nonzero, room, z);
  Pool(s, z, out, place);
}

void ConvolutionGradient(const Stage& s, const double* in, const BitWord* nonzero, const Place* place,
                         OutSlopes d, double* list, double* g) {
  if (s.kernel == 4 && s.in.channels == 1 && nonzero != nullptr && s.pool == Pooling::kMax && !s.relu &&
      d.filter == 1 && s.in.width < 64)
    return FourByFour(s, in, NonZeroWindows(s, nonzero, list), place, d, g);
  const std::size_t plane = s.in.height * s.in.width, parts = (s.kernel + kLanes - 1) / kLanes;
  const std::size_t lines = s.in.channels * s.kernel * parts;  // one row of a filter, four at a time
  for (std::size_t f = 0; f < s.filters; ++f) {
    const List found = ListOf(s, place, d, f, list);
    double* into = g + f * s.in.channels * s.kernel * s.kernel;
    if (s.kernel == 4) {
      FourByFour(s, in, found, into, g[s.weights() + f]);
      continue;
    }
    Lanes total = {};
    const auto take = [&]<std::size_t N, std::size_t Chains>(std::size_t first) {
      const double* from[N];
      Lanes sum[N];
      for (std::size_t n = 0; n < N; ++n) {
        const std::size_t row = (first + n) / parts;
        from[n] = in + row / s.kernel * plane + row % s.kernel * s.in.width + (first + n) % parts * kLanes;
      }
      Correlate<N, Chains>(
          found, [&](std::size_t n, Place at) __attribute__((always_inline)) { return from[n] + at; }, sum,
          total);
      for (std::size_t n = 0; n < N; ++n) {
        const std::size_t row = (first + n) / parts, part = (first + n) % parts * kLanes;
        for (std::size_t j = part; j < std::min(part + kLanes, s.kernel); ++j)
          into[row * s.kernel + j] = sum[n][j - part];
      }
    };
    std::size_t n = 0;
    for (; n + 8 <= lines; n += 8) take.operator()<8, 1>(n);
    for (; n + 4 <= lines; n += 4) take.operator()<4, 2>(n);
    for (; n < lines; ++n) take.operator()<1, 2>(n);
    g[s.weights() + f] = total[0];
  }
}

void ConvolveBack(const Stage& s, const double* turned, const Place* place, OutSlopes d, double* list,
                  double* d_in) {
  const std::size_t channels = s.padded_channels(), span = s.kernel * channels;  // one row of a patch
  std::fill_n(d_in, s.SlopesSize(), 0.0);
  for (std::size_t f = 0; f < s.filters; ++f, turned += s.kernel * span) {
    const List found = ListOf(s, place, d, f, list);
    if (s.kernel == 4 && channels == kLanes)
      Spread<4, 4>(found, turned, s, d_in);
    else
      Spread<0, 0>(found, turned, s, d_in);
  }
}

}  // namespace tacit
