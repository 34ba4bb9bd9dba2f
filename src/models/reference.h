#pragma once

// A non-private solver for the optimum that experiments compare with:
//   minimise (1/n) Σ_i f_i(x) + (l2/2)‖x‖² + g(x).
// It reads all clients' rows in the clear, so it takes plain shards; only the Oracle (simulations)
// and tests have those.
#include <span>

#include "models/objective.h"
#include "models/regularizer.h"

namespace tacit {

struct Solution {
  Vec x;
  double value = 0;
  double residual = 0;         // optimality residual in the max norm
  int iterations = 0;
};
struct SolveOptions {
  double tolerance = 1e-12;    // on the residual
  int max_iterations = 100000;
};
// Strongly convex problems (l2 > 0). Fails with kInternal when the tolerance is out of reach.
Result<Solution> SolveReference(const Objective&, std::span<const Shard> clients, double l2,
                                const Regularizer&, const SolveOptions& = {});

}  // namespace tacit
