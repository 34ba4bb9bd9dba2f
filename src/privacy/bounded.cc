#include "privacy/bounded.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "data/preprocess.h"

namespace tacit {
namespace {

constexpr double kUnitRoundoff = 0x1p-53;
// Norms from here on count as not finite: C/norm stays far above the subnormals, where a product has no
// relative error bound.
constexpr double kLongest = 0x1p500;

// γ_k, rounded up. k·u < 1 for any k below 2^53.
double Gamma(std::size_t k) {
  const double ku = static_cast<double>(k) * kUnitRoundoff;
  TACIT_CHECK(ku < 0.5);
  return DivUp(ku, 1.0 - ku) * (1 + 4 * kUnitRoundoff);
}

// The largest double ≤ c/n.
double DivDown(double c, double n) {
  const double q = c / n;
  if (q == 0) return 0;
  return std::fma(q, n, -c) > 0 || q < 1e-290 ? NextDown(q) : q;
}

// weight = min(1, c/norm), rounded down; a record that cannot be measured, or whose weight would lose its
// digits, is the zero vector.
void ClipWeights(View norm, double c, Span weight) {
  if (!(c >= 0x1p-400)) {
    for (std::size_t l = 0; l < norm.size(); ++l)
      weight[l] = !(norm[l] < kLongest) ? 0.0 : norm[l] <= c ? 1.0 : DivDown(c, norm[l]);
    return;
  }
  // The same without branches or calls, for half the records are clipped or not as if by chance: for
  // c < n < 2⁵⁰⁰ the quotient is normal, its residual exact, and the double below it one unit of its bits.
  for (std::size_t l = 0; l < norm.size(); ++l) {
    const double n = norm[l], q = c / n;
    const std::uint64_t above = std::fma(q, n, -c) > 0 ? 1 : 0;
    const double down = std::bit_cast<double>(std::bit_cast<std::uint64_t>(q) - above);
    const double w = n <= c ? 1.0 : down;
    weight[l] = n < kLongest ? w : 0.0;
  }
}

}  // namespace

Bounded Bounded::Clip(Private<Vec>& v, L2Bound c) {
  Vec& x = v.value_;
  const std::size_t d = x.size();
  // The computed norm is at least (1 − γ_{d+4}) times the real one; the scaled coordinates round
  // once more. Both are paid by a slightly smaller radius, so that no slack is left to charge.
  double norm = Norm(x);
  if (!std::isfinite(norm)) {
    Fill(x, 0.0);
  } else {
    const double radius = c.value() * (1 - Gamma(d + 8));
    if (radius < 0x1p-480) norm = NormUp(x);      // squares of such lengths underflow
    if (norm > radius) Scale(DivDown(radius, norm), x);
  }
  return Bounded(x, c, 1, 0);
}

Bounded Bounded::ClippedSum(const Private<Shard>& data, const Objective& f, View x, L2Bound c, ClipSpace& s) {
  const Shard& shard = data.value_;
  const std::size_t m = shard.size();
  s.norm_.resize(m);
  s.weight_.resize(m);
  s.sum_.assign(x.size(), 0.0);
  f.RecordNorms(shard, x, s.work_, s.norm_);
  ClipWeights(s.norm_, c.value(), s.weight_);
  f.WeightedSum(shard, x, s.work_, s.weight_, s.sum_);
  return Bounded(s.sum_, c, m, f.Roundings(m));
}

L2Bound Bounded::Sensitivity(Adjacency adjacency, L2Bound c, std::size_t units, std::size_t roundings) {
  const double factor = adjacency == Adjacency::kReplaceOne ? 2.0 : 1.0;
  if (adjacency == Adjacency::kAddOrRemove) {      // the neighbour may have one more
    ++units;
    if (roundings != 0) ++roundings;
  }
  if (units == 0) return c;     // an empty client has nothing to move; any positive bound is true
  const double slack =
      roundings == 0 ? 0.0 : MulUp(MulUp(2 * Gamma(roundings), static_cast<double>(units)), c.value());
  return L2Bound::Proven(AddUp(factor * c.value(), slack));
}

L2Bound Bounded::Sensitivity(Adjacency adjacency) const {
  return Sensitivity(adjacency, bound_, units_, roundings_);
}

Unbounded Unbounded::Sum(const Private<Shard>& data, const Objective& f, View x, ClipSpace& s) {
  const Shard& shard = data.value_;
  const std::size_t m = shard.size();
  s.norm_.resize(m);
  s.weight_.resize(m);
  s.sum_.assign(x.size(), 0.0);
  f.RecordNorms(shard, x, s.work_, s.norm_);
  // A record that cannot be measured (∞ − ∞ in its margin) is zero, or it would spoil the whole sum.
  for (std::size_t l = 0; l < m; ++l) s.weight_[l] = s.norm_[l] < kInf ? 1.0 : 0.0;
  f.WeightedSum(shard, x, s.work_, s.weight_, s.sum_);
  for (double& v : s.sum_)
    if (!std::isfinite(v)) v = 0.0;      // a defined value; unreachable where a bound holds
  std::optional<L2Bound> bound;
  if (const auto b = f.RecordBound(shard.row_bound()); b && std::isfinite(*b)) bound = L2Bound::Proven(*b);
  return Unbounded(s.sum_, bound, m, f.Roundings(m));
}

std::optional<L2Bound> Unbounded::Sensitivity(Adjacency adjacency) const {
  if (!bound_) return std::nullopt;
  return Bounded::Sensitivity(adjacency, *bound_, units_, roundings_);
}

}  // namespace tacit
