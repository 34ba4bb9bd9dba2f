#include "privacy/randomizer_plan.h"

#include <algorithm>
#include <cmath>

#include "privacy/calibrate.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

Result<LocalRandomizer> Split(double epsilon, double length_share, std::size_t dimension, L2Bound clip) {
  TACIT_TRY(const Epsilon direction, Epsilon::Of(epsilon * (1 - length_share)));
  TACIT_TRY(const Epsilon length, Epsilon::Of(epsilon * length_share));
  TACIT_TRY(const PrivUnit unit, PrivUnit::Optimal(direction, dimension));
  TACIT_TRY(const ScalarDp scalar, ScalarDp::Make(length, clip));
  return LocalRandomizer(unit, scalar);
}

// The ε of a vector that one of two bounds allows: a Tth of ε, or Gaussian-DP costs that sum to μ².
double SimpleEpsilon(Epsilon epsilon, Mu mu, double vectors, double length_share) {
  const double each = mu.value() * mu.value() / vectors;
  const auto cost = [&](double x) {
    return Cost(PureEvent{Epsilon::Proven(x * (1 - length_share))}).value() +
           Cost(PureEvent{Epsilon::Proven(x * length_share)}).value();
  };
  double low = 0, high = 60;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (cost(middle) <= each ? low : high) = middle;
  }
  return std::max(low, epsilon.value() / vectors);
}

}  // namespace

Result<Accountant> AccountOf(const LocalRandomizer& r, Adjacency adjacency, std::uint64_t vectors) {
  Accountant account(adjacency);
  TACIT_OK(account.Compose(r.direction().event(), vectors));
  TACIT_OK(account.Compose(r.length().event(), vectors));
  return account;
}

Result<LocalRandomizer> CalibrateRandomizer(Epsilon epsilon, Delta delta, Adjacency adjacency,
                                            std::uint64_t vectors, std::size_t dimension, L2Bound clip,
                                            double length_share) {
  const double rounds = static_cast<double>(vectors);
  const Mu mu = GdpMu(epsilon, delta);
  if (length_share == 0) {
    double least = kInf;
    for (int k = 1; k < 16; ++k) {
      const double share = k / 16.0;
      const auto made = Split(SimpleEpsilon(epsilon, mu, rounds, share), share, dimension, clip);
      if (!made.ok()) continue;
      const double moment = made->SecondMoment(clip.value());
      if (moment < least) least = moment, length_share = share;
    }
    if (length_share == 0) length_share = 0.5;      // the search below says what is wrong
  }
  const double guess = std::clamp(SimpleEpsilon(epsilon, mu, rounds, length_share), 1e-5, 16.0);
  const Family family{.account = [&](double x) -> Result<Accountant> {
                        TACIT_TRY(const LocalRandomizer r, Split(x, length_share, dimension, clip));
                        return AccountOf(r, adjacency, vectors);
                      },
                      .falls = false,
                      .low = 1e-4,
                      .high = 16.0 / (1 - length_share),
                      .guess = guess};
  TACIT_TRY(const Calibration found, Calibrate(family, epsilon, delta));
  return Split(found.value, length_share, dimension, clip);
}

Result<LocalRandomizer> StatedRandomizer(const RandomizerSplit& split, bool printed_cap,
                                         std::size_t dimension, L2Bound clip) {
  TACIT_TRY(const ScalarDp scalar, ScalarDp::Make(split.length, clip));
  if (printed_cap) {
    TACIT_TRY(const PrivUnit unit, PrivUnit::Paper(split.probability, split.cap, dimension));
    return LocalRandomizer(unit, scalar);
  }
  TACIT_TRY(const Epsilon direction, Epsilon::Of(split.probability.value() + split.cap.value()));
  TACIT_TRY(const PrivUnit unit, PrivUnit::Optimal(direction, dimension));
  return LocalRandomizer(unit, scalar);
}

}  // namespace tacit
