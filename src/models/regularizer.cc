#include "models/regularizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/round.h"

namespace tacit {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// Σ_j ω_j |x_j| on a box; none, l1 and box are its special cases.
class WeightedL1Box final : public Regularizer {
 public:
  WeightedL1Box(double weight, Vec weights, double radius)
      : weight_(weight), weights_(std::move(weights)), radius_(radius) {}

  double Value(View x) const override {
    CheckSize(x);
    for (const double v : x)
      if (!(std::abs(v) <= radius_)) return kUnbounded;
    return SumOf(x.size(), [&](std::size_t j) { return Omega(j) * std::abs(x[j]); });
  }

  void Prox(double step, Span x) const override {
    CheckSize(x);
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double threshold = step * Omega(j);
      const double v = x[j];
      const double kept = std::isnan(v) ? v : 0.0;
      const double shrunk = v > threshold ? v - threshold : v < -threshold ? v + threshold : kept;
      x[j] = shrunk > radius_ ? radius_ : shrunk < -radius_ ? -radius_ : shrunk;
    }
  }

  double DomainRadius(std::size_t dim) const override {
    if (dim == 0) return 0;
    return std::isinf(radius_) ? kUnbounded : MulUp(radius_, SqrtUp(static_cast<double>(dim)));
  }

  double Residual(View x, View gradient) const override {
    CheckSize(x);
    TACIT_CHECK(x.size() == gradient.size());
    double worst = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (!(std::abs(x[j]) <= radius_)) return kUnbounded;
      const double distance = DistanceAt(x[j], gradient[j], Omega(j));
      if (!(distance <= worst)) worst = distance;   // NaN wins
      if (std::isnan(worst)) return kUnbounded;
    }
    return worst;
  }

  std::optional<SeparableForm> Separable() const override {
    return SeparableForm{weight_, weights_, radius_};
  }

 private:
  double Omega(std::size_t j) const { return weights_.empty() ? weight_ : weights_[j]; }
  void CheckSize(View x) const { TACIT_CHECK(weights_.empty() || weights_.size() == x.size()); }

  // dist(−g, ∂(ω|·| + indicator)(x)): {ω sign x} inside, [−ω, ω] at 0, and on a face that plus the
  // outward half-line, which absorbs only a −g that points out of the box.
  double DistanceAt(double x, double g, double omega) const {
    if (x == 0) return std::isnan(g) ? g : std::max(0.0, std::abs(g) - omega);
    const double toward = x > 0 ? g + omega : -g + omega;   // derivative along sign x
    if (std::abs(x) == radius_) return std::isnan(g) ? g : std::max(0.0, toward);
    return std::abs(toward);
  }

  double weight_;
  Vec weights_;
  double radius_;
};

class L2Ball final : public Regularizer {
 public:
  explicit L2Ball(double radius) : radius_(radius) {}

  double Value(View x) const override { return SafeNorm(x) <= radius_ * (1 + kSlack) ? 0.0 : kUnbounded; }

  void Prox(double, Span x) const override {
    const double norm = SafeNorm(x);
    if (!(norm > radius_)) return;
    // Twice: the first factor may underflow where ‖x‖ is huge, and 2⁻⁵⁰⁰ is exact.
    if (norm > 0x1p500) {
      Scale(0x1p-500, x);
      Scale(radius_ / SafeNorm(x), x);
    } else {
      Scale(radius_ / norm, x);
    }
  }

  double DomainRadius(std::size_t) const override { return radius_; }

  double Residual(View x, View gradient) const override {
    TACIT_CHECK(x.size() == gradient.size());
    const double norm = SafeNorm(x);
    if (!(norm <= radius_ * (1 + kSlack))) return kUnbounded;
    // On the sphere the normal cone is {t x : t ≥ 0}.
    double t = 0;
    if (norm >= radius_ * (1 - kSlack)) t = std::max(0.0, -Dot(gradient, x) / NormSquared(x));
    double worst = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double distance = std::abs(gradient[j] + t * x[j]);
      if (std::isnan(distance)) return kUnbounded;
      worst = std::max(worst, distance);
    }
    return worst;
  }

 private:
  // Projection lands on the sphere up to a few roundings; far below any tolerance asked for.
  static constexpr double kSlack = 1e-13;

  // ‖x‖ without overflow or underflow on the way.
  static double SafeNorm(View x) {
    double top = 0;
    for (const double v : x) {
      if (std::isnan(v)) return v;
      top = std::max(top, std::abs(v));
    }
    if (top == 0 || std::isinf(top)) return top;
    int exponent = 0;
    std::frexp(top, &exponent);
    const double s = SumOf(x.size(), [&](std::size_t j) {
      const double v = std::ldexp(x[j], -exponent);
      return v * v;
    });
    return std::ldexp(std::sqrt(s), exponent);
  }

  double radius_;
};

}  // namespace

Result<std::unique_ptr<Regularizer>> MakeRegularizer(const PenaltyOptions& o) {
  if (!(o.weight >= 0) || !std::isfinite(o.weight))
    return Fail(Code::kInvalidArgument, "penalty weight = {}: must be finite and at least 0", o.weight);
  for (std::size_t j = 0; j < o.weights.size(); ++j)
    if (!(o.weights[j] >= 0) || !std::isfinite(o.weights[j]))
      return Fail(Code::kInvalidArgument, "penalty weights[{}] = {}: must be finite and at least 0", j,
                  o.weights[j]);
  if (!(o.radius > 0) || !std::isfinite(o.radius))
    return Fail(Code::kInvalidArgument, "penalty radius = {}: must be positive and finite", o.radius);
  switch (o.name) {
    case Penalty::kNone: return {std::make_unique<WeightedL1Box>(0.0, Vec{}, kUnbounded)};
    case Penalty::kL1: return {std::make_unique<WeightedL1Box>(o.weight, o.weights, kUnbounded)};
    case Penalty::kL1Box: return {std::make_unique<WeightedL1Box>(o.weight, o.weights, o.radius)};
    case Penalty::kBox: return {std::make_unique<WeightedL1Box>(0.0, Vec{}, o.radius)};
    case Penalty::kL2Ball: return {std::make_unique<L2Ball>(o.radius)};
  }
  return Fail(Code::kInvalidArgument, "penalty {}: unknown; use none, l1, l1_box, box or l2_ball",
              static_cast<int>(o.name));
}

}  // namespace tacit
