#pragma once

// Convolution and pooling for four records at a time, one record to a lane: an image is channels × height
// × width elements of four doubles each, and every lane is computed alike, so a record's values do not
// depend on the records beside it. The gradient of one record's weights is one lane of the sum.
#include <cstddef>

#include "models/lanes.h"

namespace tacit {

struct Plane {
  std::size_t channels = 0, height = 0, width = 0;
  std::size_t size() const { return channels * height * width; }
};

// out[f][y][x] = bias[f] + Σ_{c,i,j} w[f][c][i][j] in[c][y + i][x + j] ("valid"; c, i, j ascending), fused.
// bias == nullptr: 0. out is filters × (height − kernel + 1) × (width − kernel + 1).
void Convolve(const Lanes* in, Plane shape, const double* w, const double* bias, std::size_t filters,
              std::size_t kernel, Lanes* out);

// g_w[f][c][i][j] = Σ_{y,x} d[f][y][x] in[c][y + i][x + j], g_b[f] = Σ_{y,x} d[f][y][x]; y, x ascending.
void ConvolutionGradient(const Lanes* in, Plane shape, const Lanes* d, std::size_t filters,
                         std::size_t kernel, Lanes* g_w, Lanes* g_b);

// d_in[c][y][x] = Σ d[f][y − i][x − j] w[f][c][i][j]: the transpose of Convolve. `flipped` holds the
// filters as FlipFilters leaves them, `padded` has room for PaddedSize elements.
void FlipFilters(const double* w, std::size_t filters, std::size_t channels, std::size_t kernel,
                 double* flipped);
std::size_t PaddedSize(Plane shape, std::size_t filters, std::size_t kernel);
void ConvolveBack(const Lanes* d, Plane shape, const double* flipped, std::size_t filters, std::size_t kernel,
                  Lanes* padded, Lanes* d_in);

// 2 × 2 windows, stride 2; an odd last row or column is left out. Of equal maxima the first (in reading
// order) gets the gradient. NaN wins. Max backward needs the input; d_in is overwritten.
void MaxPool(const Lanes* in, Plane shape, Lanes* out);
void MaxPoolBack(const Lanes* in, Plane shape, const Lanes* d, Lanes* d_in);
void MeanPool(const Lanes* in, Plane shape, Lanes* out);
void MeanPoolBack(Plane shape, const Lanes* d, Lanes* d_in);

}  // namespace tacit
