// The versions of a stage against plain loops, bit for bit.
#include "models/convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/simd.h"
#include "models/test_data.h"

namespace tacit {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Stage Make(std::size_t channels, std::size_t height, std::size_t width, std::size_t filters,
           std::size_t kernel, bool relu, Pooling pool, bool wide) {
  const std::size_t half = pool == Pooling::kNone ? 1 : 2;
  const std::size_t rows = (height - kernel + 1) / half, columns = (width - kernel + 1) / half;
  return {{channels, height, width},
          {filters, rows * half, columns * half},
          {filters, rows, columns},
          filters,
          kernel,
          relu,
          pool,
          wide};
}

struct Passed {
  Vec out;
  std::vector<long long> place;      // filter by filter
  Vec gradient;
};

// There and back; `nonzero`: with the bits of the image.
Passed Pass(const Stage& s, View image, const Vec& w, const Vec& slopes, std::size_t step, bool nonzero) {
  Vec in(image.begin(), image.end()), packed(s.PackedSize()), room(s.RoomSize()),
      out(s.out.size() + kImageSlack, kNan);
  Vec kept(s.PlaceSize()), list(s.ListSize()), g(s.parameters()), bits(s.in.size() / 64 + 2);
  in.resize(s.ImageSize(), kNan);      // may be read, not used
  auto* place = reinterpret_cast<Place*>(kept.data());
  auto* set = reinterpret_cast<BitWord*>(bits.data());
  std::size_t count = 0;
  for (const double v : image) count += v != 0;
  EXPECT_EQ(NonZeroBits(in.data(), s.in.size(), set), count);
  PackFilters(s, w.data(), packed.data());
  const BitWord* use = nonzero ? set : nullptr;
  ConvolveAndPool(s, in.data(), packed.data(), use, room.data(), out.data(), place);
  for (std::size_t k = 0; k < kImageSlack; ++k) EXPECT_TRUE(std::isnan(out[s.out.size() + k]));
  out.resize(s.out.size());
  Passed result{out, {}, {}};
  for (std::size_t f = 0; f < s.filters; ++f)
    for (std::size_t p = 0; p < s.places(); ++p)
      result.place.push_back(place[s.PlacesOf(f) + p * s.place_step()]);
  const OutSlopes d = step == 1 ? OutSlopes{slopes.data(), s.places(), 1} : OutSlopes{slopes.data(), 1, step};
  ConvolutionGradient(s, in.data(), use, place, d, list.data(), g.data());
  result.gradient = g;
  return result;
}

// Of a stage with a maximum, by the definition.
Passed Plain(const Stage& s, View in, const Vec& w) {
  Passed result{Vec(s.out.size()), std::vector<long long>(s.out.size()), {}};
  for (std::size_t f = 0; f < s.filters; ++f)
    for (std::size_t p = 0; p < s.places(); ++p) {
      double best = 0;
      Place at = 0;
      for (std::size_t q = 0; q < 4; ++q) {
        const std::size_t y = p / s.out.width * 2 + q / 2, x = p % s.out.width * 2 + q % 2;
        double z = w[s.weights() + f];
        for (std::size_t c = 0; c < s.in.channels; ++c)
          for (std::size_t i = 0; i < s.kernel; ++i)
            for (std::size_t j = 0; j < s.kernel; ++j)
              z = std::fma(w[((f * s.in.channels + c) * s.kernel + i) * s.kernel + j],
                           in[(c * s.in.height + y + i) * s.in.width + x + j], z);
        if (s.relu && z < 0) z = 0;
        if (q == 0 || z > best || std::isnan(z)) best = z, at = static_cast<Place>(y * s.in.width + x);
      }
      if (s.relu && !(best > 0)) at = -1;
      result.out[f * s.places() + p] = best;
      result.place[f * s.places() + p] = at;
    }
  return result;
}

// Around the sizes of tiles: one to three vectors of places in a row and more, two to eight rows, groups that
// are not full; images of which all, some and few entries are not zero.
TEST(Convolution, EveryVersionHasTheBitsOfThePlainLoops) {
  const bool wide_here = internal::BestSimd() == internal::Simd::kAvx512;
  struct Size {
    std::size_t channels, height, width, filters, kernel;
  };
  for (const Size& n :
       {Size{1, 28, 28, 4, 4}, Size{1, 28, 28, 2, 4}, Size{4, 12, 12, 8, 4}, Size{2, 12, 12, 1, 4},
        Size{1, 9, 8, 2, 3}, Size{3, 14, 21, 5, 5}, Size{1, 5, 40, 3, 4}, Size{2, 23, 64, 1, 2},
        Size{1, 4, 70, 4, 3}, Size{5, 11, 12, 1, 5}, Size{1, 8, 9, 7, 1}, Size{1, 2, 2, 1, 1}})
    for (const bool relu : {false, true})
      for (const double density : {1.0, 0.3, 0.02}) {
        SCOPED_TRACE(testing::Message()
                     << n.channels << " x " << n.height << " x " << n.width << ", " << n.filters << " of "
                     << n.kernel << ", " << relu << ", " << density);
        const Stage narrow =
            Make(n.channels, n.height, n.width, n.filters, n.kernel, relu, Pooling::kMax, false);
        Stage wide = narrow;
        wide.wide = true;
        const Vec w = test::RandomVec(narrow.parameters(), 1.0, n.width);
        const Dataset data = test::RandomData(Loss::kMlp, 2, 1, narrow.in.size(), density, n.height);
        const std::size_t step = (n.filters + 3) / 4 * 4;
        const Vec slopes = test::RandomVec(narrow.places() * step, 1.0, 5);
        const Passed plain = Plain(narrow, data.value, w);
        for (const std::size_t by : {std::size_t{1}, step}) {
          const Passed first = Pass(narrow, data.value, w, slopes, by, false);
          for (const Stage& s : {narrow, wide}) {
            if (s.wide && !wide_here) continue;
            for (const bool nonzero : {false, true}) {
              const Passed found = Pass(s, data.value, w, slopes, by, nonzero);
              ASSERT_EQ(found.out, plain.out);
              ASSERT_EQ(found.place, plain.place);
              ASSERT_EQ(found.gradient, first.gradient);
            }
          }
        }
      }
}

// NaN at any place of a window is its maximum, in every version.
TEST(Convolution, NanWins) {
  for (const bool wide : {false, true}) {
    if (wide && internal::BestSimd() != internal::Simd::kAvx512) continue;
    for (const bool relu : {false, true})
      for (std::size_t k = 0; k < 4 * 18; ++k) {
        const Stage s = Make(1, 4, 18, 2, 1, relu, Pooling::kMax, wide);
        Vec image = test::RandomVec(4 * 18, 1.0, 3);
        image[k] = kNan;
        const Vec out = Pass(s, image, {1, -1, 0, 0}, Vec(4 * s.places(), 1.0), 4, false).out;
        for (std::size_t p = 0; p < out.size(); ++p) {
          const std::size_t window = k / 18 / 2 * 9 + k % 18 / 2;
          EXPECT_EQ(std::isnan(out[p]), p % s.places() == window) << k << ", " << p;
        }
      }
  }
}

}  // namespace
}  // namespace tacit
