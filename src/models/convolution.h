#pragma once

// One stage of a convolutional network, for one record at a time, so a record's values cannot depend on the
// records beside it:
//
//   z[f][y][x] = b[f] + Σ_{c,i,j} w[f][c][i][j] in[c][y + i][x + j]     ("valid"; c, i, j ascending, fused)
//   out        = pooled max(0, z), or pooled z
//
// Images are channels × height × width doubles with kImageSlack more that may be read, not used. Inside, a
// vector holds the same place of four filters, two places of two filters, or four places of one (`side`);
// with `wide`, eight places of one (convolution_wide.h). The bits are the same.
//
// Pooling by maximum passes a slope to one place of four, so the way back visits the places that have one and
// none else: it costs a quarter of the way there.
#include <cstddef>
#include <cstdint>

#include "models/lanes.h"
#include "models/objective.h"

namespace tacit {

inline constexpr std::size_t kImageSlack = 8;

struct Plane {
  std::size_t channels = 0, height = 0, width = 0;
  std::size_t size() const { return channels * height * width; }
};

// Where a maximum was: the offset of its patch in a channel of the input. Kept in memory of doubles.
using Place = long long __attribute__((may_alias));
using BitWord = std::uint64_t __attribute__((may_alias));

// Bits first … first + 63 of a row of words, and whether any of the bits first … first + count − 1 is set, 1
// ≤ count ≤ 64. The word after the one that holds the last bit may be read.
inline std::uint64_t BitsFrom(const BitWord* bits, std::size_t first) {
  const std::size_t shift = first % 64;  // by two shifts, since one by 64 has no meaning
  return bits[first / 64] >> shift | bits[first / 64 + 1] << 1 << (63 - shift);
}
inline bool AnyBit(const BitWord* bits, std::size_t first, std::size_t count) {
  return BitsFrom(bits, first) << (64 - count) != 0;
}

// One convolution with what follows it. The sizes are those of the buffers below, in doubles.
struct Stage {
  Plane in, convolved, out;  // z without the odd last row or column that pooling leaves out
  std::size_t filters, kernel;
  bool relu;
  Pooling pool;
  bool wide = false;  // by AVX-512, which this processor has; only with a maximum

  std::size_t weights() const { return filters * in.channels * kernel * kernel; }
  std::size_t parameters() const { return weights() + filters; }
  std::size_t side() const { return filters <= 1 ? 1 : filters == 2 ? 2 : kLanes; }  // filters in a vector
  std::size_t groups() const { return (filters + side() - 1) / side(); }
  std::size_t places() const { return out.height * out.width; }
  // Places from one row of z to the next: rows of one or two filters are computed through to the next row.
  std::size_t row() const { return side() == kLanes ? convolved.width : in.width; }
  std::size_t group() const {
    const std::size_t size = ((convolved.height - 1) * row() + convolved.width) * side();
    return (size + kLanes - 1) / kLanes * kLanes;
  }
  std::size_t padded_channels() const { return (in.channels + kLanes - 1) / kLanes * kLanes; }

  std::size_t ImageSize() const { return in.size() + kImageSlack; }
  std::size_t PackedSize() const { return groups() * (weights() / filters + 1) * kLanes; }
  std::size_t TurnedSize() const { return filters * kernel * kernel * padded_channels(); }
  std::size_t PairsSize() const { return side() == 2 ? 2 * ImageSize() : 0; }
  std::size_t ConvolvedSize() const { return groups() * group(); }
  std::size_t RoomSize() const { return wide ? 0 : PairsSize() + ConvolvedSize(); }
  std::size_t PlaceSize() const { return places() * groups() * side(); }
  // Where `place` has those of filter f, and from one to the next.
  std::size_t PlacesOf(std::size_t f) const {
    return wide ? f * places() : f / side() * places() * side() + f % side();
  }
  std::size_t place_step() const { return wide ? 1 : side(); }
  std::size_t SlopesSize() const { return in.height * in.width * padded_channels(); }
  std::size_t ListSize() const { return 2 * convolved.height * convolved.width; }
};

// Filters and biases (w, then b) as Convolve reads them, and as ConvolveBack does.
void PackFilters(const Stage&, const double* w, double* packed);
void TurnFilters(const Stage&, const double* w, double* turned);

// out and `place` from `in`. `nonzero`: bit k says whether in[k] ≠ 0; terms with a zero input are then left
// out where that saves time, by what this record holds alone, so all filters must be finite. nullptr: nothing
// is left out. `room`: RoomSize().
//
// Windows of 2 × 2, stride 2; an odd last row or column is left out. Of equal maxima the first (in reading
// order) gets the gradient. NaN wins.
void ConvolveAndPool(const Stage&, const double* in, const double* packed, const BitWord* nonzero,
                     double* room, double* out, Place* place);

// in[0 … size) → bits; returns how many are not 0. `nonzero` has room for size/64 + 2 words.
std::size_t NonZeroBits(const double* in, std::size_t size, BitWord* nonzero);

// The slopes of `out`: that of place p of filter f is at [f · filter + p · step].
struct OutSlopes {
  const double* at;
  std::size_t filter, step;
};

// g_w[f][c][i][j] = Σ d[f][y][x] in[c][y + i][x + j], g_b[f] = Σ d[f][y][x], d the slopes of z: those of the
// stage's result, at the places that Pool kept. Sums run over the places in the order of `out`, in two halves
// (even, odd) where one is too short to fill the machine. `nonzero` as above: places whose patch is zero may
// be passed over, as long as all slopes are finite; g_b is not finite otherwise. `list`: room.
void ConvolutionGradient(const Stage&, const double* in, const BitWord* nonzero, const Place* place,
                         OutSlopes, double* list, double* g);

// d_in: the slopes of the input, at [c + p · padded_channels()] for place p of channel c.
void ConvolveBack(const Stage&, const double* turned, const Place* place, OutSlopes, double* list,
                  double* d_in);

}  // namespace tacit
