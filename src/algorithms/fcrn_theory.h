#pragma once

// Constants of DP-FCRN (Huo, Liu, Ding, Johansson, Shi): the printed calibration, what its sensitivity comes
// to, and how noise may be spread over the rounds. Public numbers only. What the printed calibration is worth
// is in privacy/claims.h (FcrnClaim).
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/vec.h"

namespace tacit {

struct FcrnTheory {
  double g1 = 1, g2 = 0.25;  // Assumption 4: |∇l|_h ≤ G₁/√d, ‖row h of ∇²l‖ ≤ G₂/√d
  double l0 = 1, l1 = 0.25, l2 = 0.1;  // Assumption 1: Lipschitz constants of l, ∇l and ∇²l
  double diameter = 1;  // D of the box: its width times √d
  double delta0 = 0.01;
  double records = 1, rounds = 1;  // m and T
  double dim = 1, coordinates = 1;  // d and k

  // (7): the variance of the noise in each of τ steps, for a claimed ε.
  double Variance(double epsilon, double tau) const {
    const double g = g1 + g2 * diameter;
    return 80 * tau * rounds * coordinates * std::log(1.25 / delta0) * g * g /
           (epsilon * epsilon * records * records * dim);
  }
  // The ε that (7) claims of a variance.
  double Claimed(double variance, double tau) const { return std::sqrt(Variance(1, tau) / variance); }
  // (9): the local iterations, as a real number; below 1 the method makes no step at all.
  double Steps(double epsilon) const {
    const double g = g1 + g2 * diameter, l = l0 + l1 * diameter + l2 * diameter * diameter / 2;
    return l * l * epsilon * epsilon * records * records /
           (coordinates * rounds * std::log(1 / delta0) * g * g);
  }
  // (6): what the paper takes for the distance of two records' selected gradients.
  double PrintedSensitivity() const { return 2 * std::sqrt(coordinates / dim) * (g1 + g2 * diameter); }
  // What holds under Assumption 4 for a solver of all d coordinates of which k are sent: the cubic term does
  // not cancel, since ‖θ − x‖ depends on coordinates that are not sent. For a box of width w = D/√d,
  //   min{ (6) + (L₂/2) w² √k(√d − √k),  2(G₁ + G₂D) }.
  double TrueSensitivity() const {
    const double w = diameter / std::sqrt(dim), k = std::sqrt(coordinates);
    const double cubic = l2 / 2 * w * w * k * (std::sqrt(dim) - k);
    return std::min(PrintedSensitivity() + cubic, 2 * (g1 + g2 * diameter));
  }
};

// How much the noise of a round counts after the last one, as logarithms, for Newton's method: with u_t the
// suboptimality over its scale, u_{t+1} ≤ a_t + u_t^{3/2}/2, so what a round adds is multiplied by
// (3/4)√u_j in every later one: q_t = Π_{j>t} (3/4)√u_j. u falls by its own recursion from `start` and not
// below `floor`, where noise keeps it. Nearly all of a budget then goes to the last rounds.
inline Vec FcrnLogWeights(std::size_t rounds, double start, double floor) {
  Vec u(rounds), log_q(rounds);
  double now = std::min(start, 1.0);
  for (double& v : u) {
    v = std::max(now, floor);
    now = 0.5 * std::pow(v, 1.5);
  }
  for (std::size_t t = rounds; t-- > 1;) log_q[t - 1] = log_q[t] + std::log(0.75 * std::sqrt(u[t]));
  return log_q;
}

}  // namespace tacit
