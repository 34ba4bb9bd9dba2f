#include "view/downsample.h"

#include <algorithm>
#include <cmath>

namespace tacit {

void Downsample(const std::vector<double>& x, const std::vector<double>& y, std::size_t n,
                std::vector<double>& out_x, std::vector<double>& out_y) {
  out_x.clear();
  out_y.clear();
  std::vector<std::size_t> good;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (std::isfinite(x[i]) && std::isfinite(y[i])) good.push_back(i);
  const auto keep = [&](std::size_t i) {
    out_x.push_back(x[i]);
    out_y.push_back(y[i]);
  };
  n = std::max<std::size_t>(n, 4);
  if (good.size() <= n) {
    for (const std::size_t i : good) keep(i);
    return;
  }
  const std::size_t inner = good.size() - 2, buckets = (n - 2) / 2;
  keep(good.front());
  for (std::size_t b = 0; b < buckets; ++b) {
    const std::size_t from = 1 + inner * b / buckets, to = 1 + inner * (b + 1) / buckets;
    std::size_t low = good[from], high = good[from];
    for (std::size_t k = from; k < to; ++k) {
      if (y[good[k]] < y[low]) low = good[k];
      if (y[good[k]] > y[high]) high = good[k];
    }
    keep(std::min(low, high));
    if (low != high) keep(std::max(low, high));
  }
  keep(good.back());
}

}  // namespace tacit
