#include "models/regularizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/round.h"
#include "models/lanes.h"

namespace tacit {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// ‖x‖ without overflow or underflow on the way; at(k) is x_k.
template <class At>
double SafeNormOf(std::size_t size, At at) {
  double top = 0;
  for (std::size_t k = 0; k < size; ++k) {
    const double v = at(k);
    if (std::isnan(v)) return v;
    top = std::max(top, std::abs(v));
  }
  if (top == 0 || std::isinf(top)) return top;
  int exponent = 0;
  std::frexp(top, &exponent);
  const double s = SumOf(size, [&](std::size_t k) {
    const double v = std::ldexp(at(k), -exponent);
    return v * v;
  });
  return std::ldexp(std::sqrt(s), exponent);
}

double SafeNorm(View x) {
  return SafeNormOf(x.size(), [x](std::size_t k) { return x[k]; });
}

double Shrink(double v, double threshold) {
  const double kept = std::isnan(v) ? v : 0.0;
  return v > threshold ? v - threshold : v < -threshold ? v + threshold : kept;
}

double SignOf(double v) { return v > 0 ? 1.0 : v < 0 ? -1.0 : 0.0; }

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
    if (weights_.empty() && weight_ == 0 && std::isinf(radius_)) return;  // no penalty: x is where it belongs
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double shrunk = Shrink(x[j], step * Omega(j));
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
      if (!(distance <= worst)) worst = distance;  // NaN wins
      if (std::isnan(worst)) return kUnbounded;
    }
    return worst;
  }

  std::optional<SeparableForm> Separable() const override {
    return SeparableForm{weight_, weights_, radius_};
  }

  bool AddSubgradient(double a, View x, Span out) const override {
    if (!std::isinf(radius_)) return false;
    CheckSize(x);
    if (weights_.empty() && weight_ == 0) return true;
    if (weights_.empty()) {
      const Lanes up = All(a * weight_);
      std::size_t j = 0;
      for (; j + kLanes <= x.size(); j += kLanes) {
        const Lanes v = Load(x.data() + j);
        Store(out.data() + j, Load(out.data() + j) + (v > Lanes{} ? up : v < Lanes{} ? -up : Lanes{}));
      }
      for (; j < x.size(); ++j) out[j] += a * weight_ * SignOf(x[j]);
    } else {
      for (std::size_t j = 0; j < x.size(); ++j) out[j] += a * weights_[j] * SignOf(x[j]);
    }
    return true;
  }

  std::optional<double> Ridge() const override {
    const bool none =
        weights_.empty() ? weight_ == 0 : *std::max_element(weights_.begin(), weights_.end()) == 0;
    if (!none || !std::isinf(radius_)) return std::nullopt;
    return 0.0;
  }

 private:
  double Omega(std::size_t j) const { return weights_.empty() ? weight_ : weights_[j]; }
  void CheckSize(View x) const { TACIT_CHECK(weights_.empty() || weights_.size() == x.size()); }

  // dist(−g, ∂(ω|·| + indicator)(x)): {ω sign x} inside, [−ω, ω] at 0, and on a face that plus the
  // outward half-line, which absorbs only a −g that points out of the box.
  double DistanceAt(double x, double g, double omega) const {
    if (x == 0) return std::isnan(g) ? g : std::max(0.0, std::abs(g) - omega);
    const double toward = x > 0 ? g + omega : -g + omega;  // derivative along sign x
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

  double radius_;
};

class ElasticNet final : public Regularizer {
 public:
  ElasticNet(double weight, Vec weights, double ridge)
      : weight_(weight), weights_(std::move(weights)), ridge_(ridge) {}

  double Value(View x) const override {
    CheckSize(x);
    const double l1 = SumOf(x.size(), [&](std::size_t j) { return Omega(j) * std::abs(x[j]); });
    const double value = l1 + 0.5 * ridge_ * NormSquared(x);
    return std::isnan(value) ? kUnbounded : value;
  }

  // Coordinate by coordinate, u (1 + step λ) + step ω ∂|u| ∋ x.
  void Prox(double step, Span x) const override {
    CheckSize(x);
    const double divisor = 1.0 + step * ridge_;
    for (std::size_t j = 0; j < x.size(); ++j) x[j] = Shrink(x[j], step * Omega(j)) / divisor;
  }

  double DomainRadius(std::size_t dim) const override { return dim == 0 ? 0.0 : kUnbounded; }

  double Residual(View x, View gradient) const override {
    CheckSize(x);
    TACIT_CHECK(x.size() == gradient.size());
    double worst = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double g = gradient[j] + ridge_ * x[j];
      const double distance =
          x[j] == 0 ? std::max(std::abs(g) - Omega(j), 0.0) : std::abs(g + std::copysign(Omega(j), x[j]));
      if (std::isnan(distance) || std::isnan(g)) return kUnbounded;
      worst = std::max(worst, distance);
    }
    return worst;
  }

  bool AddSubgradient(double a, View x, Span out) const override {
    CheckSize(x);
    for (std::size_t j = 0; j < x.size(); ++j) out[j] += a * (Omega(j) * SignOf(x[j]) + ridge_ * x[j]);
    return true;
  }

  std::optional<double> Ridge() const override {
    const bool none =
        weights_.empty() ? weight_ == 0 : *std::max_element(weights_.begin(), weights_.end()) == 0;
    return none ? std::optional<double>(ridge_) : std::nullopt;
  }

 private:
  double Omega(std::size_t j) const { return weights_.empty() ? weight_ : weights_[j]; }
  void CheckSize(View x) const { TACIT_CHECK(weights_.empty() || weights_.size() == x.size()); }

  double weight_;
  Vec weights_;
  double ridge_;
};

// How far sums may lie from α after a projection, relative to it: rounding, far below any tolerance.
constexpr double kSumSlack = 1e-12;

// u_j ← max(at(j) − τ, 0) with the τ that makes Σ u_j = α: the projection on the simplex. Newton's method
// on the convex, piecewise linear Σ max(at(j) − τ, 0) − α from the left, which ends at the root (Michelot,
// 1986). Relative to the largest entry, whose distance from τ is at most α, so nothing overflows or
// cancels; infinite entries share α.
template <class At, class Set>
void ProjectOnSimplex(std::size_t size, double alpha, At at, Set set) {
  double top = -kUnbounded;
  for (std::size_t j = 0; j < size; ++j) top = std::max(top, at(j));
  const auto below = [&](std::size_t j) { return at(j) == top ? 0.0 : at(j) - top; };
  double threshold = -alpha;
  for (std::size_t count = 0;;) {
    double sum = 0;
    std::size_t above = 0;
    for (std::size_t j = 0; j < size; ++j) {
      const double b = below(j);
      if (!(b > threshold)) continue;
      sum += b;
      ++above;
    }
    if (above == 0 || above == count) break;  // the set of positive entries stands: so does τ
    count = above;
    threshold = std::max(threshold, (sum - alpha) / static_cast<double>(above));
  }
  for (std::size_t j = 0; j < size; ++j) set(j, std::max(below(j) - threshold, 0.0));
}

double L1Norm(View x) {
  return SumOf(x.size(), [&](std::size_t j) { return std::abs(x[j]); });
}

bool HasNan(View x) {
  return std::any_of(x.begin(), x.end(), [](double v) { return std::isnan(v); });
}

class L1Ball final : public Regularizer {
 public:
  explicit L1Ball(double radius) : radius_(radius) {}

  double Value(View x) const override { return L1Norm(x) <= radius_ * (1 + kSumSlack) ? 0.0 : kUnbounded; }

  void Prox(double, Span x) const override {  // the simplex for |x|, the signs kept
    if (HasNan(x) || L1Norm(x) <= radius_) return;
    ProjectOnSimplex(
        x.size(), radius_, [&](std::size_t j) { return std::abs(x[j]); },
        [&](std::size_t j, double u) { x[j] = std::copysign(u, x[j]); });
  }

  double DomainRadius(std::size_t dim) const override { return dim == 0 ? 0.0 : radius_; }

  double Residual(View x, View gradient) const override {
    TACIT_CHECK(x.size() == gradient.size());
    const double length = L1Norm(x);
    if (!(length <= radius_ * (1 + kSumSlack)) || HasNan(gradient)) return kUnbounded;
    double worst = 0;
    for (const double g : gradient) worst = std::max(worst, std::abs(g));
    if (length < radius_ * (1 - kSumSlack)) return worst;
    // On the boundary the normal cone is {t s : t ≥ 0, s ∈ ∂‖x‖₁}: −g_j sign x_j must equal t where x_j is
    // not 0, and |g_j| be at most t elsewhere; the best t lies half-way between the extremes.
    double high = 0, low = kUnbounded;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double c = x[j] == 0 ? std::abs(gradient[j]) : x[j] > 0 ? -gradient[j] : gradient[j];
      high = std::max(high, c);
      if (x[j] != 0) low = std::min(low, c);
    }
    if (std::isinf(high) || std::isinf(low)) return kUnbounded;
    const double t = std::max(0.0, high / 2 + low / 2);
    return std::max({high - t, t - low, 0.0});
  }

 private:
  double radius_;
};

class Simplex final : public Regularizer {
 public:
  explicit Simplex(double radius) : radius_(radius) {}

  double Value(View x) const override { return Contains(x) ? 0.0 : kUnbounded; }

  void Prox(double, Span x) const override {
    if (x.empty() || HasNan(x)) return;
    ProjectOnSimplex(
        x.size(), radius_, [&](std::size_t j) { return x[j]; }, [&](std::size_t j, double u) { x[j] = u; });
  }

  double DomainRadius(std::size_t dim) const override { return dim == 0 ? 0.0 : radius_; }

  double Residual(View x, View gradient) const override {
    TACIT_CHECK(x.size() == gradient.size());
    if (!Contains(x) || HasNan(gradient)) return kUnbounded;
    // −g_j must equal one ν where x_j > 0, and be at most ν elsewhere.
    double high = -kUnbounded, low = kUnbounded;
    for (std::size_t j = 0; j < x.size(); ++j) {
      high = std::max(high, -gradient[j]);
      if (x[j] > 0) low = std::min(low, -gradient[j]);
    }
    if (std::isinf(high) || std::isinf(low)) return kUnbounded;
    return high / 2 - low / 2;
  }

 private:
  bool Contains(View x) const {
    for (const double v : x)
      if (!(v >= 0)) return false;
    return std::abs(L1Norm(x) - radius_) <= kSumSlack * radius_;
  }
  double radius_;
};

class GroupLasso final : public Regularizer {
 public:
  // groups empty: `size` neighbours each.
  GroupLasso(double weight, Vec weights, std::size_t size, const std::vector<std::uint32_t>& groups)
      : weight_(weight), weights_(std::move(weights)), size_(size), members_(groups.size()) {
    if (groups.empty()) return;
    begin_.assign(*std::max_element(groups.begin(), groups.end()) + 2, 0);
    for (const std::uint32_t g : groups) ++begin_[g + 1];
    for (std::size_t k = 1; k < begin_.size(); ++k) begin_[k] += begin_[k - 1];
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (std::size_t j = 0; j < groups.size(); ++j) members_[next[groups[j]]++] = j;
  }

  double Value(View x) const override {
    double sum = 0;
    ForGroups(x, [&](double omega, std::size_t size, auto at) {
      sum += omega * SafeNormOf(size, [&](std::size_t k) { return x[at(k)]; });
    });
    return std::isnan(sum) ? kUnbounded : sum;
  }

  void Prox(double step, Span x) const override {
    ForGroups(x, [&](double omega, std::size_t size, auto at) {
      const double length = SafeNormOf(size, [&](std::size_t k) { return x[at(k)]; });
      if (std::isnan(length)) return;
      const double threshold = step * omega;
      const double factor = length <= threshold ? 0.0 : 1.0 - threshold / length;
      for (std::size_t k = 0; k < size; ++k) x[at(k)] *= factor;
    });
  }

  double DomainRadius(std::size_t dim) const override { return dim == 0 ? 0.0 : kUnbounded; }

  double Residual(View x, View gradient) const override {
    TACIT_CHECK(x.size() == gradient.size());
    double worst = 0;
    ForGroups(x, [&](double omega, std::size_t size, auto at) {
      const double length = SafeNormOf(size, [&](std::size_t k) { return x[at(k)]; });
      const double pull = SafeNormOf(size, [&](std::size_t k) { return gradient[at(k)]; });
      // At 0 the subdifferential is the ball of radius ω.
      const double outside = pull <= omega ? 0.0 : 1.0 - omega / pull;
      for (std::size_t k = 0; k < size; ++k) {
        const double g = gradient[at(k)];
        const double distance =
            length == 0 ? std::abs(g) * outside : std::abs(g + omega * (x[at(k)] / length));
        if (!(distance <= worst)) worst = std::isnan(distance) ? kUnbounded : distance;
      }
    });
    return worst;
  }

  bool AddSubgradient(double a, View x, Span out) const override {
    ForGroups(x, [&](double omega, std::size_t size, auto at) {
      const double length = SafeNormOf(size, [&](std::size_t k) { return x[at(k)]; });
      if (!(length > 0)) return;
      for (std::size_t k = 0; k < size; ++k) out[at(k)] += a * omega * (x[at(k)] / length);
    });
    return true;
  }

 private:
  // f(ω_G, |G|, at) for every group; at(k) is the place of its k-th member.
  template <class F>
  void ForGroups(View x, F f) const {
    const std::size_t d = x.size();
    TACIT_CHECK(begin_.empty() || members_.size() == d);
    const std::size_t count = begin_.empty() ? d / size_ + (d % size_ != 0) : begin_.size() - 1;
    TACIT_CHECK(weights_.empty() || weights_.size() == count);
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t first = begin_.empty() ? k * size_ : begin_[k];
      const std::size_t size = (begin_.empty() ? std::min(d, first + size_) : begin_[k + 1]) - first;
      const double omega = weights_.empty() ? weight_ * std::sqrt(static_cast<double>(size)) : weights_[k];
      f(omega, size, [&](std::size_t i) { return begin_.empty() ? first + i : members_[first + i]; });
    }
  }

  double weight_;
  Vec weights_;
  std::size_t size_;
  std::vector<std::size_t> begin_, members_;
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
  if (!(o.ridge >= 0) || !std::isfinite(o.ridge))
    return Fail(Code::kInvalidArgument, "penalty ridge = {}: must be finite and at least 0", o.ridge);
  if (o.group_size < 1)
    return Fail(Code::kInvalidArgument, "penalty group_size = {}: must be at least 1", o.group_size);
  if (!o.groups.empty()) {
    std::vector<bool> seen(o.groups.size());
    std::size_t distinct = 0, last = 0;
    for (const std::uint32_t g : o.groups) {
      if (g >= o.groups.size())
        return Fail(Code::kInvalidArgument, "penalty group {}: must be below the {} coordinates", g,
                    o.groups.size());
      distinct += !seen[g];
      seen[g] = true;
      last = std::max<std::size_t>(last, g);
    }
    if (distinct != last + 1)
      return Fail(Code::kInvalidArgument,
                  "penalty groups are numbered to {} but only {} have members; number them "
                  "without gaps",
                  last, distinct);
  }
  switch (o.name) {
    case Penalty::kNone: return {std::make_unique<WeightedL1Box>(0.0, Vec{}, kUnbounded)};
    case Penalty::kL1: return {std::make_unique<WeightedL1Box>(o.weight, o.weights, kUnbounded)};
    case Penalty::kL1Box: return {std::make_unique<WeightedL1Box>(o.weight, o.weights, o.radius)};
    case Penalty::kBox: return {std::make_unique<WeightedL1Box>(0.0, Vec{}, o.radius)};
    case Penalty::kL2Ball: return {std::make_unique<L2Ball>(o.radius)};
    case Penalty::kElasticNet: return {std::make_unique<ElasticNet>(o.weight, o.weights, o.ridge)};
    case Penalty::kL1Ball: return {std::make_unique<L1Ball>(o.radius)};
    case Penalty::kSimplex: return {std::make_unique<Simplex>(o.radius)};
    case Penalty::kGroupLasso:
      return {std::make_unique<GroupLasso>(o.weight, o.weights, o.group_size, o.groups)};
  }
  return Fail(Code::kInvalidArgument, "penalty {}: unknown; choose a name of the enumeration",
              static_cast<int>(o.name));
}

}  // namespace tacit
