#include "models/convolution.h"

#include <algorithm>
#include <type_traits>

namespace tacit {
namespace {

template <std::size_t N>
using Const = std::integral_constant<std::size_t, N>;

// Splits 0 … count into runs of A, B, … (constants), the widest first: f(first, constant).
template <std::size_t A, std::size_t... Rest, class F>
inline void Runs(std::size_t first, std::size_t count, F f) {
  for (; first + A <= count; first += A) f(first, Const<A>{});
  if constexpr (sizeof...(Rest) > 0) {
    if (first < count) Runs<Rest...>(first, count, f);
  }
}

}  // namespace

void Convolve(const Lanes* in, Plane shape, const double* w, const double* bias, std::size_t filters,
              std::size_t kernel, Lanes* out) {
  const std::size_t rows = shape.height - kernel + 1, columns = shape.width - kernel + 1;
  const std::size_t stride = shape.channels * kernel * kernel;   // of a filter
  Runs<4, 2, 1>(0, filters, [&](std::size_t f, auto wide) {
    constexpr std::size_t kF = decltype(wide)::value;
    for (std::size_t y = 0; y < rows; ++y)
      Runs<3, 1>(0, columns, [&](std::size_t x, auto positions) {
        constexpr std::size_t kX = decltype(positions)::value;
        Lanes sum[kF][kX];
        for (std::size_t a = 0; a < kF; ++a)
          for (std::size_t p = 0; p < kX; ++p) sum[a][p] = All(bias ? bias[f + a] : 0.0);
        const double* weight = w + f * stride;
        for (std::size_t c = 0; c < shape.channels; ++c)
          for (std::size_t i = 0; i < kernel; ++i) {
            const Lanes* line = in + (c * shape.height + y + i) * shape.width + x;
            for (std::size_t j = 0; j < kernel; ++j, ++weight) {
              Lanes v[kX];
              for (std::size_t p = 0; p < kX; ++p) v[p] = line[j + p];
              for (std::size_t a = 0; a < kF; ++a) {
                const Lanes s = All(weight[a * stride]);
                for (std::size_t p = 0; p < kX; ++p) sum[a][p] = MulAdd(s, v[p], sum[a][p]);
              }
            }
          }
        for (std::size_t a = 0; a < kF; ++a)
          for (std::size_t p = 0; p < kX; ++p) out[((f + a) * rows + y) * columns + x + p] = sum[a][p];
      });
  });
}

void ConvolutionGradient(const Lanes* in, Plane shape, const Lanes* d, std::size_t filters,
                         std::size_t kernel, Lanes* g_w, Lanes* g_b) {
  const std::size_t rows = shape.height - kernel + 1, columns = shape.width - kernel + 1;
  const std::size_t stride = shape.channels * kernel * kernel;
  for (std::size_t f = 0; f < filters; ++f) {
    Lanes sum = {};
    for (std::size_t p = 0; p < rows * columns; ++p) sum += d[f * rows * columns + p];
    g_b[f] = sum;
  }
  Runs<3, 2, 1>(0, filters, [&](std::size_t f, auto wide) {
    constexpr std::size_t kF = decltype(wide)::value;
    for (std::size_t c = 0; c < shape.channels; ++c)
      for (std::size_t i = 0; i < kernel; ++i)
        Runs<4, 2, 1>(0, kernel, [&](std::size_t j, auto positions) {
          constexpr std::size_t kJ = decltype(positions)::value;
          Lanes sum[kF][kJ] = {};
          for (std::size_t y = 0; y < rows; ++y) {
            const Lanes* line = in + (c * shape.height + y + i) * shape.width + j;
            const Lanes* slope = d + (f * rows + y) * columns;
            for (std::size_t x = 0; x < columns; ++x) {
              Lanes v[kJ];
              for (std::size_t p = 0; p < kJ; ++p) v[p] = line[x + p];
              for (std::size_t a = 0; a < kF; ++a) {
                const Lanes s = slope[a * rows * columns + x];
                for (std::size_t p = 0; p < kJ; ++p) sum[a][p] = MulAdd(s, v[p], sum[a][p]);
              }
            }
          }
          for (std::size_t a = 0; a < kF; ++a)
            for (std::size_t p = 0; p < kJ; ++p)
              g_w[(f + a) * stride + (c * kernel + i) * kernel + j + p] = sum[a][p];
        });
  });
}

void FlipFilters(const double* w, std::size_t filters, std::size_t channels, std::size_t kernel,
                 double* flipped) {
  const std::size_t size = kernel * kernel;
  for (std::size_t f = 0; f < filters; ++f)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t k = 0; k < size; ++k)
        flipped[(c * filters + f) * size + k] = w[(f * channels + c) * size + size - 1 - k];
}

std::size_t PaddedSize(Plane shape, std::size_t filters, std::size_t kernel) {
  return filters * (shape.height + kernel - 1) * (shape.width + kernel - 1);
}

void ConvolveBack(const Lanes* d, Plane shape, const double* flipped, std::size_t filters, std::size_t kernel,
                  Lanes* padded, Lanes* d_in) {
  const std::size_t rows = shape.height - kernel + 1, columns = shape.width - kernel + 1;
  const Plane wide{filters, shape.height + kernel - 1, shape.width + kernel - 1};
  std::fill_n(padded, wide.size(), Lanes{});
  for (std::size_t f = 0; f < filters; ++f)
    for (std::size_t y = 0; y < rows; ++y)
      std::copy_n(d + (f * rows + y) * columns, columns,
                  padded + (f * wide.height + y + kernel - 1) * wide.width + kernel - 1);
  Convolve(padded, wide, flipped, nullptr, shape.channels, kernel, d_in);
}

namespace {

// f(window's top left, index of the output) for every window.
template <class F>
inline void ForWindows(Plane shape, F f) {
  std::size_t at = 0;
  for (std::size_t c = 0; c < shape.channels; ++c)
    for (std::size_t y = 0; y + 2 <= shape.height; y += 2)
      for (std::size_t x = 0; x + 2 <= shape.width; x += 2) f((c * shape.height + y) * shape.width + x, at++);
}

}  // namespace

void MaxPool(const Lanes* in, Plane shape, Lanes* out) {
  ForWindows(shape, [&](std::size_t k, std::size_t at) {
    Lanes best = in[k];
    for (const std::size_t next : {k + 1, k + shape.width, k + shape.width + 1})
      best = in[next] > best || in[next] != in[next] ? in[next] : best;
    out[at] = best;
  });
}

void MaxPoolBack(const Lanes* in, Plane shape, const Lanes* d, Lanes* d_in) {
  std::fill_n(d_in, shape.size(), Lanes{});
  ForWindows(shape, [&](std::size_t k, std::size_t at) {
    const std::size_t place[4] = {k, k + 1, k + shape.width, k + shape.width + 1};
    Lanes best = in[k];
    for (std::size_t q = 1; q < 4; ++q) best = in[place[q]] > best ? in[place[q]] : best;
    Lanes left = d[at];   // what no place has taken yet
    for (const std::size_t p : place) {
      d_in[p] = in[p] == best ? left : Lanes{};
      left = in[p] == best ? Lanes{} : left;
    }
  });
}

void MeanPool(const Lanes* in, Plane shape, Lanes* out) {
  ForWindows(shape, [&](std::size_t k, std::size_t at) {
    out[at] = ((in[k] + in[k + 1]) + (in[k + shape.width] + in[k + shape.width + 1])) * 0.25;
  });
}

void MeanPoolBack(Plane shape, const Lanes* d, Lanes* d_in) {
  std::fill_n(d_in, shape.size(), Lanes{});
  ForWindows(shape, [&](std::size_t k, std::size_t at) {
    const Lanes part = d[at] * 0.25;
    for (const std::size_t p : {k, k + 1, k + shape.width, k + shape.width + 1}) d_in[p] = part;
  });
}

}  // namespace tacit
