#pragma once

#include <cstddef>
#include <vector>

namespace tacit {

// At most max(n, 4) points of the curve (x, y), in their order, to draw it with: all of them if there are no
// more; else the first and the last, and of every bucket of neighbours the smallest and the largest y. So no
// extreme is lost, and no point is drawn that is not there. Points whose x or y is not finite are left out.
void Downsample(const std::vector<double>& x, const std::vector<double>& y, std::size_t n,
                std::vector<double>& out_x, std::vector<double>& out_y);

}  // namespace tacit
