#pragma once

// A non-private solver for the optimum that experiments compare with:
//   minimise F(x) = (1/n) Σ_i f_i(x) + (l2/2)‖x‖² + g(x),   f_i the mean over client i's records,
// so a record of client i weighs 1/(n m_i), however unequal the clients are.
// It reads all clients' rows in the clear, so it takes plain shards; only the Oracle (simulations)
// and tests have those.
//
// A loss with one kink a record (absolute deviation, hinge) is a linear or quadratic program: kinked.h, exact
// to rounding. For smooth losses there are two methods. If g splits by coordinates and x is short, proximal
// Newton (Lee, Sun & Saunders, 2014) with the exact Hessian, each quadratic model solved by coordinate
// descent and Cholesky on the free coordinates. Otherwise, or if that stalls, accelerated proximal gradient
// (Beck & Teboulle, 2009) with adaptive restart (O'Donoghue & Candès, 2015).
#include <span>

#include "models/objective.h"
#include "models/regularizer.h"

namespace tacit {

struct Solution {
  Vec x;
  double value = 0;
  double residual = 0;  // optimality residual in the max norm
  int iterations = 0;
};
struct SolveOptions {
  double tolerance = 1e-12;  // on the residual
  int max_iterations = 100000;
};
// Strongly convex problems (l2 > 0); for a loss with kinks l2 may be 0, g is finite and splits by
// coordinates, and the minimiser is unique. Fails with kInternal when the tolerance is out of reach, and with
// kInvalidArgument for no client, no row, or clients of different width.
Result<Solution> SolveReference(const Objective&, std::span<const Shard> clients, double l2,
                                const Regularizer&, const SolveOptions& = {});

}  // namespace tacit
