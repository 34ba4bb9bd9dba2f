#pragma once

// Dense and convolutional networks with a softmax cross-entropy loss; objective.h has the contract and
// the layout of x.
#include <memory>

#include "models/convolution.h"
#include "models/objective.h"

namespace tacit {

Result<std::unique_ptr<Objective>> MakeNetwork(const ModelSpec&);   // loss kMlp or kCnn

}  // namespace tacit
