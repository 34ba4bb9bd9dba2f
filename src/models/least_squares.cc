#include "models/linear_model.h"
#include "models/losses.h"

namespace tacit {
namespace {

struct LeastSquaresLink {
  static constexpr bool kConvex = true;
  static constexpr bool kHasCurvature = true;
  static constexpr bool kHasAccuracy = false;
  static std::optional<double> Smoothness() { return 1.0; }
  static std::optional<double> SlopeBound() { return std::nullopt; }   // grows with x
  static double Loss(double margin, double label) {
    const double r = margin - label;
    return 0.5 * r * r;
  }
  __attribute__((always_inline)) static double Slope(double margin, double label) { return margin - label; }
  static Lanes Slopes(Lanes margin, Lanes label) { return margin - label; }
  static double Curvature(double, double) { return 1.0; }
  static double CurvatureSlope() { return 0.0; }
  static bool Right(double, double) { return false; }
};

}  // namespace

std::unique_ptr<Objective> MakeLeastSquares() { return std::make_unique<LinearModel<LeastSquaresLink>>(); }

}  // namespace tacit
