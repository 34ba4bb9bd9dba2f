#pragma once

// Dense and convolutional networks with a softmax cross-entropy loss; objective.h has the contract and
// the layout of x.
#include <memory>

#include "models/convolution.h"
#include "models/objective.h"

namespace tacit {

// One convolution with what follows it.
struct Stage {
  Plane in, convolved, out;
  std::size_t filters, kernel;
  bool relu;
  Pooling pool;
  std::size_t weights() const { return filters * in.channels * kernel * kernel; }
  std::size_t parameters() const { return weights() + filters; }
};

Result<std::unique_ptr<Objective>> MakeNetwork(const ModelSpec&);   // loss kMlp or kCnn

}  // namespace tacit
