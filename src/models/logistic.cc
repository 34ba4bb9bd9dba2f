#include <cmath>

#include "models/exp.h"
#include "models/linear_model.h"
#include "models/losses.h"

namespace tacit {
namespace {

// log(1 + exp(−t)), t = y·margin, from e = exp(−|t|) ≤ 1, which cannot overflow.
struct LogisticLink {
  static constexpr bool kConvex = true;
  static constexpr bool kHasCurvature = true;
  static constexpr bool kHasAccuracy = true;
  static std::optional<double> Smoothness() { return 0.25; }
  // Holds for the computed slope: 0 ≤ e ≤ 1, and neither e/(1 + e) nor 1/(1 + e) rounds above 1.
  static std::optional<double> SlopeBound() { return 1.0; }

  static double Sign(double label) { return label > 0 ? 1.0 : -1.0; }
  static double Loss(double margin, double label) {
    const double t = Sign(label) * margin;
    return std::log1p(std::exp(-std::abs(t))) + (t < 0 ? -t : 0.0);
  }
  __attribute__((always_inline)) static double Slope(double margin, double label) {   // −y σ(−t)
    const double y = Sign(label);
    const double t = y * margin;
    const double e = ExpNonPositive(-std::abs(t));
    return -y * ((t >= 0 ? e : 1.0) / (1.0 + e));
  }
  static double Curvature(double margin, double) {
    const double e = ExpNonPositive(-std::abs(margin));
    return e / ((1.0 + e) * (1.0 + e));
  }
  static double CurvatureSlope() { return 0.096225044864937628; }  // 1/(6√3), where σ(t) = ½ ± 1/(2√3)
  static bool Right(double margin, double label) { return (margin >= 0) == (label > 0); }
};

}  // namespace

std::unique_ptr<Objective> MakeLogistic() { return std::make_unique<LinearModel<LogisticLink>>(); }

}  // namespace tacit
