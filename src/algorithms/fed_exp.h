#pragma once

// DP-FedEXP: federated averaging with an adaptive global step size.
//   Takakura, Liew, Hasegawa: Accelerating differentially private federated learning via adaptive
//   extrapolation, Algorithms 1 and 2.
//
//   η_g = max{ 1, S/‖c̄‖² },  S an estimate of (1/M) Σ‖Δ_i‖²
//     corrected   eq. (6), (7): S = mean ‖c_i‖² − dσ² with local noise; the released mean of squared lengths
//                 with a trusted server; eq. (8): mean ŝ_i of the released lengths with PrivUnit and ScalarDP
//     naive       S = mean ‖c_i‖², noise and all: what FedEXP does without the correction, too large by dσ²
// S is a function of what is released, so the step costs nothing more.
#include "algorithms/fed_avg.h"

namespace tacit {

struct ExtrapolatedStep {
  bool naive = false;
  double Square(const MeanUpdate& mean) const { return naive ? mean.noisy_square : mean.square; }  // S
  double operator()(const MeanUpdate& mean) const {
    const double ratio = Square(mean) / NormSquared(*mean.value);
    return ratio > 1 && std::isfinite(ratio) ? ratio : 1.0;  // ‖c̄‖ = 0: 1
  }
};

template <class Trust>
using FedExp = FedAvg<Trust, ExtrapolatedStep>;

}  // namespace tacit
