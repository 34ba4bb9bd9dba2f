#pragma once

// Privacy of T Gaussian rounds, each on a fresh secret sample of fixed size. For sampled releases; no
// algorithm makes one yet, and the ledger does not charge one.
//
// One round draws b of m records uniformly without replacement and runs a mechanism on the sample that is
// μ-GDP when one sampled record is substituted; q = b/m. With neighbours that differ in one record's value
// (replace-one), for ε ≥ 0 (Balle, Barthe, Gaboardi 2018)
//   δ_round(ε) ≤ q·δ(log(1 + (e^ε − 1)/q); μ),   δ_round(−ε) = 1 − e^{−ε} + e^{−ε} δ_round(ε),
// where δ(ε; μ) is the Gaussian curve of gdp.h. T rounds are the T-fold convolution of the privacy loss of a
// discrete pair that dominates this curve (connect the dots: Doroshenko et al. 2022).
//
// Assumes, and cannot check: the sample is drawn anew each round and never revealed; its size, μ and T are
// constants fixed in advance; neighbours are replace-one, not add-remove or zero-out; μ is the sampled
// mechanism's for substitution, e.g. 2C/(bσ) for the mean of b clipped terms. Sampling by Poisson coins or in
// shuffled passes is another mechanism. For q = 1 GdpEpsilon(√T μ) is exact and should be preferred.
#include <cstddef>

#include "core/units.h"

namespace tacit {

// An upper bound of δ_round(ε), for any real ε. Its own rounding is charged: for ε ≥ 0 the excess is below
// 2e-14·(1 + t + μ)³(1 + 1/μ), relatively, where t = log(1 + (e^ε − 1)/q)/μ ≤ 30.
double SubsampledDelta(double epsilon, Probability q, Mu mu);

struct PldOptions {
  // Of the loss axis: a power of two from 2¹⁰ to 2²²; more is tighter.
  std::size_t cells = std::size_t{1} << 18;
};

// An ε ≥ 0 for which T rounds are (ε, δ)-DP: never below the smallest one of the bound above, whatever the
// number of cells. Losses outside the grid count as infinite, and the round-off of the transform is added
// to δ. ∞ where no finite ε was found: δ = 0 or near 1e-280, μ = ∞ unless T q ≤ δ, losses beyond 1e30. An
// error where δ cannot be told from round-off, the grid is too coarse or T is above 2³⁰. A fraction of a
// second at the default.
Result<double> SubsampledEpsilon(Probability q, Mu mu, std::size_t rounds, Delta delta, PldOptions = {});

}  // namespace tacit
