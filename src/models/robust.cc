#include <cmath>

#include "models/linear_model.h"
#include "models/losses.h"

namespace tacit {
namespace {

struct AbsoluteDeviationLink {
  static constexpr bool kConvex = true;
  static constexpr bool kHasCurvature = false;
  static constexpr bool kHasAccuracy = false;
  static std::optional<double> Smoothness() { return std::nullopt; }
  static std::optional<double> SlopeBound() { return 1.0; }
  static double Loss(double margin, double label) { return std::abs(margin - label); }
  __attribute__((always_inline)) static double Slope(double margin, double label) {   // sign, 0 at 0
    const double r = margin - label;
    const double sign = r > 0 ? 1.0 : r < 0 ? -1.0 : 0.0;
    return r == r ? sign : r;
  }
  static Lanes Slopes(Lanes margin, Lanes label) {
    const Lanes r = margin - label, one = All(1.0);
    const Lanes sign = r > Lanes{} ? one : r < Lanes{} ? -one : Lanes{};
    return r == r ? sign : r;
  }
  static double Curvature(double, double) { return 0.0; }
  static bool Right(double, double) { return false; }
  static Kink KinkOf(double label) { return {label, -1.0, 1.0}; }
};

struct HuberLink {
  static constexpr bool kConvex = true;
  static constexpr bool kHasCurvature = true;
  static constexpr bool kHasAccuracy = false;
  static std::optional<double> Smoothness() { return 1.0; }
  std::optional<double> SlopeBound() const { return threshold; }
  double Loss(double margin, double label) const {
    const double r = std::abs(margin - label);
    return r <= threshold ? 0.5 * r * r : threshold * (r - 0.5 * threshold);
  }
  __attribute__((always_inline)) double Slope(double margin, double label) const {   // clamp: NaN stays
    const double r = margin - label;
    const double below = r > threshold ? threshold : r;
    return below < -threshold ? -threshold : below;
  }
  Lanes Slopes(Lanes margin, Lanes label) const {
    const Lanes r = margin - label, top = All(threshold);
    const Lanes below = r > top ? top : r;
    return below < -top ? -top : below;
  }
  double Curvature(double margin, double label) const {
    return std::abs(margin - label) <= threshold ? 1.0 : 0.0;
  }
  static bool Right(double, double) { return false; }
  double threshold = 1.0;
};

}  // namespace

std::unique_ptr<Objective> MakeAbsoluteDeviation() {
  return std::make_unique<LinearModel<AbsoluteDeviationLink>>();
}

std::unique_ptr<Objective> MakeHuber(double threshold) {
  TACIT_CHECK(threshold > 0 && std::isfinite(threshold));
  return std::make_unique<LinearModel<HuberLink>>(HuberLink{threshold});
}

}  // namespace tacit
