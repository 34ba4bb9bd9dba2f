#include "data/preprocess.h"

#include <algorithm>
#include <cmath>

#include "core/round.h"

namespace tacit {
namespace {

// A double ≥ Σ xᵢ², for max |xᵢ| in [2⁻⁴⁰⁰, 2⁴⁰⁰].
// Up to 2²⁴ terms: compensated summation (Ogita, Rump & Oishi 2005, Prop. 5.5) gives
// |result − S| ≤ u S + γₙ² S with u = 2⁻⁵³ and γₙ² < 2⁻⁵⁷; each NextUp adds more than u S, so two
// cover that, and the products that underflow (each off by at most 2⁻¹⁰⁷⁴, with S ≥ 2⁻⁸⁰⁰).
double SumOfSquaresUp(View x) {
  if (x.size() > std::size_t{1} << 24) {
    double sum = 0;
    for (const double v : x) sum = AddUp(sum, MulUp(v, v));
    return sum;
  }
  double sum = 0, rest = 0;
  for (const double v : x) {
    const double square = v * v;
    const double lost = std::fma(v, v, -square);
    const double next = sum + square;
    const double back = next - sum;
    rest += ((sum - (next - back)) + (square - back)) + lost;
    sum = next;
  }
  return NextUp(NextUp(sum + rest));
}

double LargestMagnitude(View x) {
  double m = 0;
  for (const double v : x) m = std::max(m, std::abs(v));
  return m;
}

// Multiplies by a power of two so that the largest magnitude lies in [1, 2); tiny entries may round.
void Normalise(Span x, double largest) {
  const int e = std::ilogb(largest);
  for (double& v : x) v = std::scalbn(v, -e);
}

constexpr double kSmall = 0x1p-400, kLarge = 0x1p400;

// Brings ‖x‖ to at most bound, and within a few ulp of it. Returns the norm, rounded up.
double ScaleTo(double bound, Span x) {
  double largest = LargestMagnitude(x);
  if (largest == 0) return 0;
  if (!(largest > kSmall && largest < kLarge)) Normalise(x, largest);
  const double norm = NormUp(x);
  // norm is at most a few ulp too large, and the product rounds by half an ulp: 1 − 2⁻⁵¹ is enough
  // except for rounding of subnormals; the loop makes it certain.
  Scale(bound / norm * (1 - 0x1p-51), x);
  double now = NormUp(x);
  while (now > bound) {
    Scale(1 - 0x1p-48, x);
    now = NormUp(x);
  }
  return now;
}

Status Check(const PreprocessOptions& o, const Dataset& d) {
  if (!std::isfinite(o.scale) || o.scale == 0)
    return Fail(Code::kInvalidArgument, "data.scale = {}: must be finite and not 0", o.scale);
  if (o.row_norm != RowNorm::kNone && !(o.row_bound >= 1e-100 && o.row_bound <= 1e100))
    return Fail(Code::kInvalidArgument, "data.row_bound = {}: must be between 1e-100 and 1e100", o.row_bound);
  if (o.labels == LabelKind::kBinary && !std::isfinite(o.positive))
    return Fail(Code::kInvalidArgument, "data.positive = {}: must be a finite label", o.positive);
  if (o.labels == LabelKind::kClass && o.classes < 2)
    return Fail(Code::kInvalidArgument, "model.classes = {}: class labels need at least 2", o.classes);
  if (o.labels == LabelKind::kReal && !(o.label_bound > 0))
    return Fail(Code::kInvalidArgument, "data.label_bound = {}: must be positive", o.label_bound);
  if (o.lower.size() != o.upper.size() ||
      (!o.lower.empty() && o.lower.size() != 1 && o.lower.size() != d.features))
    return Fail(Code::kInvalidArgument,
                "data.lower has {} and data.upper {} entries; give both, with 1 entry or one for each of the "
                "{} features",
                o.lower.size(), o.upper.size(), d.features);
  if (!o.lower.empty() && !d.lower.empty())
    return Fail(Code::kInvalidArgument,
                "data.bounds and data.lower are both given; give the ranges in one of them");
  TACIT_CHECK(d.lower.size() == d.upper.size() && (d.lower.empty() || d.lower.size() == d.features));
  for (std::size_t j = 0; j < o.lower.size(); ++j)
    if (!(std::isfinite(o.lower[j]) && std::isfinite(o.upper[j] - o.lower[j]) && o.lower[j] < o.upper[j]))
      return Fail(Code::kInvalidArgument,
                  "data.lower = {}, data.upper = {} (feature {}): must be finite and lower below upper",
                  o.lower[j], o.upper[j], j);
  return Ok{};
}

// The clamped, affine map of one feature.
class Ranges {
 public:
  Ranges(const PreprocessOptions& o, const Dataset& d)
      : lower_(d.lower.empty() ? o.lower : d.lower),
        upper_(d.lower.empty() ? o.upper : d.upper),
        one_for_all_(d.lower.empty() && o.lower.size() == 1),
        from_(o.target == RangeTarget::kZeroToOne ? 0.0 : -1.0) {}
  bool used() const { return !lower_.empty(); }
  double operator()(std::size_t feature, double v) const {
    const std::size_t j = one_for_all_ ? 0 : feature;
    const double low = lower_[j], high = upper_[j];
    if (std::isinf(low)) return v;       // a feature without a range
    const double t = (std::clamp(v, low, high) - low) / (high - low);
    return std::clamp(from_ + (1 - from_) * t, from_, 1.0);
  }
  bool MapsZeroToZero(std::size_t features) const {
    for (std::size_t j = 0; j < (one_for_all_ ? 1 : features); ++j)
      if ((*this)(j, 0.0) != 0) return false;
    return true;
  }

 private:
  std::vector<double> lower_, upper_;
  bool one_for_all_;
  double from_;
};

void MakeDense(Dataset& d) {
  LineVec dense(d.rows() * d.features, 0.0);
  for (std::size_t i = 0; i < d.rows(); ++i) {
    const Row r = d.row(i);
    for (std::size_t k = 0; k < r.size; ++k) dense[i * d.features + r.index[k]] = r.value[k];
  }
  d.value = std::move(dense);
  d.column.clear();
  d.row_begin.clear();
}

void AddIntercept(Dataset& d) {
  const std::size_t n = d.rows();
  LineVec value;
  value.reserve(d.value.size() + n);
  std::vector<std::uint32_t> column;
  if (d.sparse()) column.reserve(d.column.size() + n);
  for (std::size_t i = 0; i < n; ++i) {
    const Row r = d.row(i);
    value.insert(value.end(), r.value, r.value + r.size);
    value.push_back(1.0);
    if (!d.sparse()) continue;
    column.insert(column.end(), r.index, r.index + r.size);
    column.push_back(static_cast<std::uint32_t>(d.features));
  }
  if (d.sparse())
    for (std::size_t i = 0; i <= n; ++i) d.row_begin[i] += i;
  d.value = std::move(value);
  d.column = std::move(column);
  ++d.features;
}

double Finite(double v) { return std::isfinite(v) ? v : 0.0; }

double MapLabel(const PreprocessOptions& o, double y) {
  switch (o.labels) {
    case LabelKind::kBinary: return y == o.positive ? 1.0 : -1.0;
    case LabelKind::kClass:
      return y >= 0 && y < static_cast<double>(o.classes) && std::trunc(y) == y ? y : 0.0;
    case LabelKind::kReal: break;
  }
  if (std::isnan(y)) return 0;
  return Finite(std::clamp(y, -o.label_bound, o.label_bound));
}

}  // namespace

double NormUp(View x) {
  const double largest = LargestMagnitude(x);
  if (largest == 0) {                                   // NaN compares false and hides from the maximum
    for (const double v : x)
      if (std::isnan(v)) return std::numeric_limits<double>::infinity();
    return 0;
  }
  if (std::isinf(largest)) return largest;
  if (largest > kSmall && largest < kLarge) {
    const double s = SumOfSquaresUp(x);
    return std::isnan(s) ? std::numeric_limits<double>::infinity() : SqrtUp(s);
  }
  // The squares would leave the range: take the norm of x / 2ᵉ, each entry rounded up.
  const int e = std::ilogb(largest);
  Vec scaled(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double t = std::scalbn(std::abs(x[i]), -e);
    scaled[i] = t > 0 && t < 1e-290 ? NextUp(t)
                                    : (t == 0 && x[i] != 0 ? std::numeric_limits<double>::denorm_min() : t);
  }
  const double norm = SqrtUp(SumOfSquaresUp(scaled));
  if (std::isnan(norm)) return std::numeric_limits<double>::infinity();
  const double back = std::scalbn(norm, e);
  return back < 1e-290 ? NextUp(back) : back;
}

Status Preprocess(const PreprocessOptions& o, Dataset& d) {
  TACIT_OK(Check(o, d));
  const Ranges ranges(o, d);
  if (ranges.used() && d.sparse() && !ranges.MapsZeroToZero(d.features)) {
    constexpr std::size_t kMost = std::size_t{1} << 31;
    if (d.features != 0 && d.rows() > kMost / d.features)
      return Fail(
          Code::kUnsupported,
          "the ranges map 0 to another value, which makes {} × {} values dense; choose ranges around 0",
          d.rows(), d.features);
    MakeDense(d);
  }
  const std::size_t n = d.rows();
  for (std::size_t i = 0; i < n; ++i) {
    const Row r = d.row(i);
    double* v = d.value.data() + (r.value - d.value.data());
    for (std::size_t k = 0; k < r.size; ++k) {
      double a = Finite(v[k]);
      if (ranges.used()) a = ranges(r.index ? r.index[k] : k, a);
      v[k] = Finite(a * o.scale);
    }
  }
  d.lower.clear();
  d.upper.clear();
  if (o.intercept) AddIntercept(d);
  d.norm.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Row r = d.row(i);
    const Span row(d.value.data() + (r.value - d.value.data()), r.size);
    double norm = o.row_norm == RowNorm::kUnit ? ScaleTo(o.row_bound, row) : NormUp(row);
    if (o.row_norm == RowNorm::kClip && norm > o.row_bound) norm = ScaleTo(o.row_bound, row);
    d.norm.Set(i, norm);
  }
  d.row_bound = o.row_norm == RowNorm::kNone ? std::numeric_limits<double>::infinity() : o.row_bound;
  for (double& y : d.label) y = MapLabel(o, y);
  return Ok{};
}

}  // namespace tacit
