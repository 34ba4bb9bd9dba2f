#include <cmath>

#include "models/linear_model.h"
#include "models/losses.h"

namespace tacit {
namespace {

double Sign(double label) { return label > 0 ? 1.0 : -1.0; }

struct HingeLink {
  static constexpr bool kConvex = true;
  static constexpr bool kHasCurvature = false;
  static constexpr bool kHasAccuracy = true;
  static std::optional<double> Smoothness() { return std::nullopt; }
  static std::optional<double> SlopeBound() { return 1.0; }
  static double Loss(double margin, double label) {
    const double gap = 1.0 - Sign(label) * margin;
    return gap > 0 ? gap : gap == gap ? 0.0 : gap;
  }
  __attribute__((always_inline)) static double Slope(double margin, double label) {   // 0 at the kink
    const double y = label > 0 ? 1.0 : -1.0;
    const double slope = y * margin < 1.0 ? -y : 0.0;
    return margin == margin ? slope : margin;
  }
  static Lanes Slopes(Lanes margin, Lanes label) {
    const Lanes one = All(1.0), y = label > Lanes{} ? one : -one;
    const Lanes slope = y * margin < one ? -y : Lanes{};
    return margin == margin ? slope : margin;
  }
  static double Curvature(double, double) { return 0.0; }
  static bool Right(double margin, double label) { return (margin >= 0) == (label > 0); }
  static Kink KinkOf(double label) { return label > 0 ? Kink{1.0, -1.0, 0.0} : Kink{-1.0, 0.0, 1.0}; }
};

struct SmoothedHingeLink {
  static constexpr bool kConvex = true;
  static constexpr bool kHasCurvature = true;
  static constexpr bool kHasAccuracy = true;
  std::optional<double> Smoothness() const { return DivUp(1.0, width); }
  static std::optional<double> SlopeBound() { return 1.0; }  // the quotient is clamped after it is rounded
  double Loss(double margin, double label) const {
    const double gap = 1.0 - Sign(label) * margin;
    return gap <= 0 ? 0.0 : gap < width ? 0.5 * gap * (gap / width) : gap - 0.5 * width;
  }
  __attribute__((always_inline)) double Slope(double margin, double label) const {
    const double y = label > 0 ? 1.0 : -1.0;
    const double part = (1.0 - y * margin) / width;
    const double below = part > 1.0 ? 1.0 : part;
    return -y * (below < 0.0 ? 0.0 : below);
  }
  Lanes Slopes(Lanes margin, Lanes label) const {
    const Lanes one = All(1.0), y = label > Lanes{} ? one : -one;
    const Lanes part = (one - y * margin) / All(width);
    const Lanes below = part > one ? one : part;
    return -y * (below < Lanes{} ? Lanes{} : below);
  }
  double Curvature(double margin, double label) const {
    const double gap = 1.0 - Sign(label) * margin;
    return gap > 0 && gap < width ? 1.0 / width : 0.0;
  }
  static bool Right(double margin, double label) { return (margin >= 0) == (label > 0); }
  double width = 1.0;
};

}  // namespace

std::unique_ptr<Objective> MakeHinge() { return std::make_unique<LinearModel<HingeLink>>(); }

std::unique_ptr<Objective> MakeSmoothedHinge(double width) {
  TACIT_CHECK(width > 0 && std::isfinite(width));
  return std::make_unique<LinearModel<SmoothedHingeLink>>(SmoothedHingeLink{width});
}

}  // namespace tacit
