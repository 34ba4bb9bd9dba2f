#pragma once

// An exact solver for losses that are linear but for one kink, as a linear or quadratic program:
//   minimise Σ_i φ_i(a_iᵀx) + (l2/2)‖x‖²,   φ_i(t) = max over d in [low_i, high_i] of d (t − b_i).
// Least absolute deviations, hinge losses and ω|x_j| (a row e_j) are of this form.
#include "core/result.h"
#include "core/vec.h"

namespace tacit {

struct KinkedProblem {
  std::size_t dim = 0;
  Vec rows = {};               // one a_i after the other
  Vec at = {}, low = {}, high = {};      // b_i and the slopes on both sides
  double l2 = 0;
  void Add(View a, double b, double low_slope, double high_slope);
};
struct KinkedSolution {
  Vec x;
  double residual = 0;         // ‖Σ_i d_i a_i + l2 x‖∞ for slopes d_i that x allows; 0 iff x is optimal
  int iterations = 0;
};
// A primal-dual interior-point method with predictor and corrector (Mehrotra, 1992) finds which kinks the
// solution sits on; one linear system with those held then gives it to rounding. Fails with kInternal where
// that does not succeed, as for minimisers that are not unique.
Result<KinkedSolution> SolveKinked(const KinkedProblem&);

}  // namespace tacit
