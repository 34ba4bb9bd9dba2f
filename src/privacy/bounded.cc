#include "privacy/bounded.h"

#include <cmath>
#include <utility>

#include "data/preprocess.h"
#include "models/clip_weight.h"
#include "models/lanes.h"
#include "privacy/joint_release.h"

namespace tacit {
namespace {

constexpr double kUnitRoundoff = 0x1p-53;

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

double MulDown(double a, double b) {
  const double p = a * b;
  return std::fma(a, b, -p) < 0 || p < 1e-290 ? NextDown(p) : p;
}

// weight = min(1, c/norm), rounded down; a record that cannot be measured, or whose weight would lose its
// digits, is the zero vector.
void ClipWeights(View norm, double c, Span weight) {
  if (!(c >= kLeastLaneClip)) {
    for (std::size_t l = 0; l < norm.size(); ++l)
      weight[l] = !(norm[l] < kLongestNorm) ? 0.0 : norm[l] <= c ? 1.0 : DivDown(c, norm[l]);
    return;
  }
  std::size_t l = 0;
  for (; l + kLanes <= norm.size(); l += kLanes)
    Store(weight.data() + l, ClipFour(Load(norm.data() + l), All(c)).weight);
  if (const std::size_t rest = norm.size() - l; rest != 0)
    StorePart(weight.data() + l, ClipFour(LoadPart(norm.data() + l, rest), All(c)).weight, rest);
}

// Norm(x), the same bits: eight partial sums in the same order, as two vectors. Updates are long, and
// compilers take the sums of core/vec.h apart.
double LengthOf(View x) {
  Lanes low{}, high{};
  std::size_t i = 0;
  for (; i + 2 * kLanes <= x.size(); i += 2 * kLanes) {
    const Lanes a = Load(x.data() + i), b = Load(x.data() + i + kLanes);
    low += a * a;
    high += b * b;
  }
  double s[2 * kLanes];
  Store(s, low);
  Store(s + kLanes, high);
  for (std::size_t k = 0; i < x.size(); ++i, ++k) s[k] += x[i] * x[i];
  return std::sqrt(((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])));
}

// The t with t·v = v·min(1, C/‖v‖), rounded so that ‖t·v‖ ≤ C in real arithmetic, even if the products are
// rounded; 1 for what is inside. A v whose norm is not finite becomes 0, and t = 1.
double ProjectBy(Vec& x, L2Bound c) {
  const std::size_t d = x.size();
  // The computed norm is at least (1 − γ_{d+4}) times the real one; the scaled coordinates round
  // once more. Both are paid by a slightly smaller radius, so that no slack is left to charge.
  double norm = LengthOf(x);
  if (!std::isfinite(norm)) {
    Fill(x, 0.0);
    return 1.0;
  }
  const double radius = c.value() * (1 - Gamma(d + 8));
  if (radius < 0x1p-480) norm = NormUp(x);      // squares of such lengths underflow
  return norm > radius ? DivDown(radius, norm) : 1.0;
}

// The same for a vector that came with a bound on its length, which holds in real arithmetic. The radius pays
// for the products' rounding.
double ProjectBy(FactoredVec& v, L2Bound c) {
  if (v.columns == 0) return ProjectBy(v.tail, c);
  if (!(v.length < kLongestNorm)) {
    v.tail.assign(v.size(), 0.0);
    v.columns = 0;
    return 1.0;
  }
  const double radius = c.value() * (1 - Gamma(v.size() + 8));
  return v.length > radius ? DivDown(radius, v.length) : 1.0;
}

// The same in place.
void Project(Vec& x, L2Bound c) {
  const double t = ProjectBy(x, c);
  if (t != 1.0) Scale(t, x);
}

SumUnit UnitOf(const Dataset& d) {
  switch (d.person_bound) {
    case PersonBound::kNone: break;
    case PersonBound::kRecords: return {.terms = d.records_per_person, .person = true};
    case PersonBound::kSum: return {.terms = 1, .person = true};
  }
  return {};
}

// What all of M terms of length C/M and a relative error of 2⁻⁴⁷ each may err by, in units of C/M.
double ArgminSlack(double records) {
  const auto terms = static_cast<std::size_t>(records) + 1;
  return 0x1p-22 + 8 * static_cast<double>(terms) * (Gamma(terms + 2) + 0x1p-46);
}

}  // namespace

std::size_t StrongProblem::StepsFor(double curvature, double smoothness) {
  // (1 − sκ)ᵏ = ((L − κ)/(L + κ))ᵏ ≤ 2⁻⁵⁰.
  const double ratio = (smoothness - curvature) / (smoothness + curvature);
  if (!(ratio > 0)) return 2;
  return 2 + static_cast<std::size_t>(std::ceil(std::min(1e9, -50 * std::log(2.0) / std::log(ratio))));
}

double StrongProblem::Smoothness(const Objective& f) const {
  const std::optional<double> c = f.Smoothness(1.0);
  TACIT_CHECK(c && f.clips_to_smooth());
  return AddUp(curvature, MulUp(*c, MulUp(row_bound, row_bound)));
}

Bounded Bounded::Clip(Private<Vec>& v, L2Bound c) {
  Project(v.value_, c);
  return Bounded(v.value_, c, 1, 0);
}

Bounded Bounded::ClipWithSquare(Private<Vec>& v, L2Bound c, double lambda) {
  TACIT_CHECK(lambda > 0 && std::isfinite(lambda));
  Vec& x = v.value_;
  Project(x, c);
  x.push_back(lambda * NormSquared(x));
  const double ratio = MulUp(lambda, c.value());
  const double length = MulUp(c.value(), SqrtUp(AddUp(1.0, MulUp(ratio, ratio))));
  return Bounded(x, L2Bound::Proven(MulUp(c.value(), SquareFactor(ratio))), L2Bound::Proven(length), 1,
                 EntrustedSum::Roundings(1, x.size()), {});
}

Bounded Bounded::ClipWithIndicator(Private<Vec>& v, L2Bound c, double kappa) {
  TACIT_CHECK(kappa > 0 && std::isfinite(kappa));
  Vec& x = v.value_;
  const bool inside = Norm(x) <= c.value();  // false for what has no length
  Project(x, c);
  x.push_back(inside ? 0.0 : -kappa);
  const double half = kappa / 2, square = MulUp(c.value(), c.value());
  const double bound = SqrtUp(AddUp(square, MulUp(half, half)));
  const double length = SqrtUp(AddUp(square, MulUp(kappa, kappa)));
  return Bounded(x, L2Bound::Proven(bound), L2Bound::Proven(length), 1, 0, {});
}

void Bounded::Entrust(Entrusted& out, double weight) const {
  TACIT_CHECK(limits_.terms == 1 && !limits_.unit.person &&
              !limits_.minimiser);  // a minimiser may be far from 0
  TACIT_CHECK(weight == 1 || (weight >= 0 && weight <= 1 - 0x1p-50));  // false for NaN
  out.value_.columns = 0;
  out.value_.tail.assign(value_.begin(), value_.end());
  if (weight != 1) Scale(weight, out.value_.tail);
  out.weight_ = weight;
  out.factor_ = 1.0;
  out.given_ = true;
  out.moved_ = false;
  out.bound_ = limits_.bound;
  out.length_ = limits_.length;
}

void Bounded::ClipAndEntrust(Private<Vec>& v, L2Bound c, Entrusted& out) {
  out.factor_ = ProjectBy(v.value_, c);
  out.value_.columns = 0;
  out.value_.tail.swap(v.value_);
  out.given_ = out.moved_ = true;
  out.weight_ = 1.0;
  out.bound_ = out.length_ = c;
}

void Bounded::ClipAndEntrust(Private<FactoredVec>& v, L2Bound c, Entrusted& out) {
  out.factor_ = ProjectBy(v.value_, c);
  std::swap(out.value_, v.value_);
  out.given_ = out.moved_ = true;
  out.weight_ = 1.0;
  out.bound_ = out.length_ = c;
}

void Bounded::Recall(const Entrusted& sent, Private<Vec>& v) {
  TACIT_CHECK(sent.given_);
  if (!sent.moved_) return;
  Form(sent.value_, v.value_);
  Scale(sent.factor_, v.value_);
}

bool Bounded::Accept(Private<Vec>& value, double weight, Entrusted& out) const {
  Vec& v = value.value_;
  // A factor, a weight and the coordinates are rounded on their way: a few units in the last place.
  constexpr double kSlack = 1 + 0x1p-40;
  if (v.size() != value_.size() || !(Norm(v) <= weight * limits_.length.value() * kSlack)) return false;
  Entrust(out, weight);
  out.value_.tail.swap(v);
  return true;
}

void EntrustedSum::Add(const Entrusted& v) {
  TACIT_CHECK(v.given_);
  if (v.value_.columns == 0) return Take(v.value_.tail, v.factor_, v.bound_, v.length_, 1, v.weight_);
  if (count_ == 0) total_.assign(v.value_.size(), 0.0);
  AddTimes(v.factor_, v.value_, total_);
  Count(v.bound_, v.length_, 1, v.weight_);
}

void EntrustedSum::Take(const Vec& v, double factor, L2Bound bound, L2Bound length, std::uint32_t count,
                        double weight) {
  if (count == 0) return;
  if (count_ == 0) {
    total_.resize(v.size());
    for (std::size_t j = 0; j < v.size(); ++j) total_[j] = factor * v[j];
  } else {
    TACIT_CHECK(v.size() == total_.size());
    Axpy(factor, v, total_);
  }
  Count(bound, length, count, weight);
}

void EntrustedSum::Count(L2Bound bound, L2Bound length, std::uint32_t count, double weight) {
  if (count_ == 0 || bound > bound_) bound_ = bound;
  if (count_ == 0 || length > length_) length_ = length;
  weight_ = count_ == 0 ? weight : weight_ + weight;
  count_ += count;
}

std::size_t EntrustedSum::Roundings(std::size_t clients, std::size_t dim) {
  const std::size_t m = std::max<std::size_t>(1, clients);
  return 2 * (m + 1) + (2 * (dim + 3) + m - 1) / m;
}

Bounded EntrustedSum::Total() {
  TACIT_CHECK(count_ > 0);
  return Bounded(total_, bound_, length_, count_, Roundings(count_, total_.size()), {});
}

Bounded EntrustedSum::Total(std::uint32_t most, const Entrusted& nothing) {
  TACIT_CHECK(count_ <= most);
  if (count_ == 0) total_.assign(nothing.value_.size(), 0.0);
  const bool more = count_ > 0;
  return Bounded(total_, more && bound_ > nothing.bound_ ? bound_ : nothing.bound_,
                 more && length_ > nothing.length_ ? length_ : nothing.length_, most,
                 Roundings(most, total_.size()), {});
}

void ClipSpace::SumByNorms(const Shard& shard, const Objective& f, View x, L2Bound c) {
  norm_.resize(shard.size());
  weight_.resize(shard.size());
  f.RecordNorms(shard, x, work_, norm_);
  ClipWeights(norm_, c.value(), weight_);
  f.FormWeightedSum(shard, x, work_, weight_, sum_);
}

Bounded Bounded::ClippedSum(const Private<Shard>& data, const Objective& f, View x, L2Bound c, ClipSpace& s) {
  const Shard& shard = data.value_;
  if (shard.dataset().person_bound == PersonBound::kSum) return SumByPerson(shard, f, x, c, s);
  const std::size_t m = shard.size();
  if (!f.ClippedSum(shard, x, c.value(), s.work_, s.sum_)) s.SumByNorms(shard, f, x, c);
  shard.Done(0, m);
  const std::size_t terms = std::max(m, shard.dataset().charged_terms);
  Bounded out(s.sum_, c, terms, f.Roundings(terms), UnitOf(shard.dataset()));
  out.whole_ = &s.sum_;
  return out;
}

Bounded Bounded::ClippedGradients(const Private<Quadratics>& models, std::size_t most, View v, L2Bound c,
                                  ClipSpace& s) {
  const Quadratics& q = models.value_;
  TACIT_CHECK(q.size() <= most);
  s.norm_.resize(q.size());
  s.weight_.resize(q.size());
  s.term_.resize(q.size());
  s.sum_.assign(q.k, 0.0);
  q.Gradients(v, s.term_, s.norm_);
  ClipWeights(s.norm_, c.value(), s.weight_);
  q.AddGradients(s.weight_, s.term_, s.sum_);
  return Bounded(s.sum_, c, most, Quadratics::Roundings(most));
}

Bounded Bounded::ClippedHessians(const Private<Quadratics>& models, std::size_t most, L2Bound c,
                                 ClipSpace& s) {
  const Quadratics& q = models.value_;
  TACIT_CHECK(q.size() <= most);
  s.norm_.resize(q.size());
  s.weight_.resize(q.size());
  s.sum_.assign(PackedSize(q.k), 0.0);
  q.HessianNorms(s.norm_);
  ClipWeights(s.norm_, c.value(), s.weight_);
  q.AddHessians(s.weight_, s.sum_);
  return Bounded(s.sum_, c, most, Quadratics::Roundings(most));
}

L2Bound Bounded::ArgminBound(L2Bound c, double records, double curvature) {
  TACIT_CHECK(records >= 1 && curvature > 0);
  return L2Bound::Proven(
      MulUp(DivUp(c.value(), MulDown(records, curvature)), AddUp(1.0, ArgminSlack(records))));
}

namespace {
double StepOf(const Objective& f, const StrongProblem& p) {
  return 2 / (p.Smoothness(f) + p.curvature) * (1 - 0x1p-40);
}
}  // namespace

// What a computed step errs by, divided by s, with W a bound on ‖w‖ and B = C on the mean:
//   margins      aᵀw errs by γ_{d+2} R W, and the slope by c times that: c R² γ_{d+2} W in the mean
//   slopes       64 roundings, generously; after clipping that is 64 u C a record
//   weights      the norms are inflated by up to 2⁻⁴⁸, so a clipped record is shorter than C by 2⁻⁴⁷ C
//   the sum      γ_{M+2} B
//   the rest     w, b and the mean are added: 6 u (B + κW + ‖b‖), and w − s·g rounds: u W/s
bool Bounded::ArgminHolds(const Objective& f, const StrongProblem& p, L2Bound c) {
  const double kappa = p.curvature, smooth = p.Smoothness(f), step = StepOf(f, p);
  const double most = c.value();  // B
  const double pull = Norm(p.linear), from = Norm(p.start);
  // ‖w − w*‖ never grows, and ‖start − w*‖ ≤ ‖∇F(start)‖/κ ≤ (B + κ‖start‖ + ‖b‖)/κ.
  const double reach = 1.01 * (from + 2 * (most + kappa * from + pull) / kappa);  // W
  const double error =
      most * (64 * kUnitRoundoff + 0x1p-47 + Gamma(static_cast<std::size_t>(p.records) + 2)) +
      (smooth - kappa) * Gamma(p.start.size() + 2) * reach +
      6 * kUnitRoundoff * (most + kappa * reach + pull) + kUnitRoundoff * reach / step;
  return 2 * error <= c.value() / p.records * ArgminSlack(p.records) && reach < 0x1p90 &&
         p.row_bound < 0x1p90;
}

Bounded Bounded::Argmin(const Private<Shard>& data, const Objective& f, const StrongProblem& p, L2Bound c,
                        ClipSpace& s) {
  const Shard& shard = data.value_;
  const std::size_t m = shard.size(), d = p.start.size();
  // How many records there are is public here, and the same for neighbours: nothing below may depend on it
  // where it is not.
  TACIT_CHECK(shard.dataset().person_bound == PersonBound::kNone && static_cast<double>(m) <= p.records);
  TACIT_CHECK(p.linear.size() == d && p.curvature > 0 && p.row_bound > 0 && std::isfinite(p.row_bound));
  const double kappa = p.curvature, step = StepOf(f, p);
  const bool exact = ArgminHolds(f, p, c);
  s.term_.assign(p.start.begin(), p.start.end());
  s.norm_.resize(m);
  s.weight_.resize(m);
  for (std::size_t k = 0; exact && k < p.steps; ++k) {
    s.sum_.assign(d, 0.0);
    f.RecordNorms(shard, s.term_, s.work_, s.norm_);
    for (std::size_t l = 0; l < m; ++l)
      if (!(shard.norm(l) <= p.row_bound) || !(std::abs(shard.label(l)) <= 0x1p400)) s.norm_[l] = kInf;
    ClipWeights(s.norm_, c.value(), s.weight_);
    f.WeightedSum(shard, s.term_, s.work_, s.weight_, s.sum_);
    for (std::size_t j = 0; j < d; ++j)
      s.term_[j] -= step * (s.sum_[j] / p.records + (kappa * s.term_[j] - p.linear[j]));
  }
  shard.Done(0, m);
  const L2Bound bound = ArgminBound(c, p.records, kappa);
  Bounded out(s.term_, bound, bound, 1, 0, {});
  out.limits_.minimiser = true;
  return out;
}

// The computed sum of a person's gradients depends on that person's rows and x alone, and Project puts it in
// the ball whatever it is: its own roundings cost nothing. What is left are those of the sum over persons.
Bounded Bounded::SumByPerson(const Shard& shard, const Objective& f, View x, L2Bound c, ClipSpace& s) {
  TACIT_CHECK(shard.contiguous());  // a selection of rows could cut a person in two
  const std::size_t m = shard.size();
  std::size_t persons = 0;
  s.sum_.assign(x.size(), 0.0);
  for (std::size_t first = 0; first < m; ++persons) {
    std::size_t last = first + 1;
    while (last < m && shard.person(last) == shard.person(first)) ++last;
    const std::size_t n = last - first;
    const Shard own = shard.Slice(first, n);
    s.norm_.resize(n);
    s.weight_.resize(n);
    s.term_.assign(x.size(), 0.0);
    f.RecordNorms(own, x, s.work_, s.norm_);
    for (std::size_t l = 0; l < n; ++l) s.weight_[l] = s.norm_[l] < kLongestNorm ? 1.0 : 0.0;
    f.WeightedSum(own, x, s.work_, s.weight_, s.term_);
    Project(s.term_, c);
    Axpy(1.0, s.term_, s.sum_);
    first = last;
  }
  shard.Done(0, m);
  const std::size_t terms = std::max(persons, shard.dataset().charged_terms);
  return Bounded(s.sum_, c, terms, terms + 1, UnitOf(shard.dataset()));
}

L2Bound Bounded::Sensitivity(Adjacency adjacency, L2Bound c, std::size_t terms, std::size_t roundings,
                             SumUnit unit) {
  // A function of its arguments, and those of a run's releases are the same round after round.
  struct Known {
    Adjacency adjacency = Adjacency::kReplaceOne;
    double c = 0;
    std::size_t terms = 0, roundings = 0;
    std::size_t unit = 0;
    bool person = false;
    bool operator==(const Known&) const = default;
  };
  thread_local Known known;
  thread_local L2Bound answer{1.0};
  const Known asked{adjacency, c.value(), terms, roundings, unit.terms, unit.person};
  if (asked == known) return answer;
  const double factor = (adjacency == Adjacency::kReplaceOne ? 2.0 : 1.0) * static_cast<double>(unit.terms);
  if (adjacency == Adjacency::kAddOrRemove || unit.person) {  // the neighbour may have more
    terms += unit.terms;
    if (roundings != 0) roundings += unit.terms;
  }
  if (terms == 0) return c;  // an empty client has nothing to move; any positive bound is true
  const double slack =
      roundings == 0 ? 0.0 : MulUp(MulUp(2 * Gamma(roundings), static_cast<double>(terms)), c.value());
  answer = L2Bound::Proven(AddUp(MulUp(factor, c.value()), slack));
  known = asked;
  return answer;
}

L2Bound Bounded::Sensitivity(Adjacency adjacency) const {
  TACIT_CHECK(!limits_.minimiser ||
              adjacency != Adjacency::kAddOrRemove);  // proven for neighbours of one size
  return Sensitivity(adjacency, adjacency == Adjacency::kReplaceOne ? limits_.bound : limits_.length,
                     limits_.terms, limits_.roundings, limits_.unit);
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
  shard.Done(0, m);
  for (double& v : s.sum_)
    if (!std::isfinite(v)) v = 0.0;  // a defined value; unreachable where a bound holds
  std::optional<L2Bound> bound;
  const std::size_t terms = std::max(m, shard.dataset().charged_terms);
  // A record's bound says nothing of a person.
  if (const auto b = f.RecordBound(shard.row_bound());
      b && std::isfinite(*b) && shard.dataset().person_bound == PersonBound::kNone)
    bound = L2Bound::Proven(*b);
  return Unbounded(s.sum_, bound, terms, f.Roundings(terms));
}

Unbounded Unbounded::Argmin(const Private<Shard>& data, const Objective& f, const StrongProblem& p,
                            ClipSpace& s) {
  const Shard& shard = data.value_;
  const std::size_t m = shard.size(), d = p.start.size();
  StrongProblem own = p;
  own.row_bound = 0;
  const auto counts = [&](std::size_t l) {
    return shard.norm(l) < 0x1p250 && std::abs(shard.label(l)) <= 0x1p400;
  };
  for (std::size_t l = 0; l < m; ++l)
    if (counts(l)) own.row_bound = std::max(own.row_bound, shard.norm(l));
  const double smooth = own.Smoothness(f), step = 2 / (smooth + p.curvature) * (1 - 0x1p-40);
  const std::size_t steps = std::max(p.steps, StrongProblem::StepsFor(p.curvature, smooth));
  s.term_.assign(p.start.begin(), p.start.end());
  s.norm_.resize(m);
  s.weight_.resize(m);
  for (std::size_t k = 0; k < std::min<std::size_t>(steps, 100000); ++k) {
    s.sum_.assign(d, 0.0);
    f.RecordNorms(shard, s.term_, s.work_, s.norm_);
    for (std::size_t l = 0; l < m; ++l) s.weight_[l] = counts(l) && s.norm_[l] < kInf ? 1.0 : 0.0;
    f.WeightedSum(shard, s.term_, s.work_, s.weight_, s.sum_);
    for (std::size_t j = 0; j < d; ++j)
      s.term_[j] -= step * (s.sum_[j] / p.records + (p.curvature * s.term_[j] - p.linear[j]));
  }
  shard.Done(0, m);
  for (double& v : s.term_)
    if (!std::isfinite(v)) v = 0.0;
  // What would bound it is what bounds Bounded::Argmin, and its steps are not so many: charged as unbounded.
  return Unbounded(s.term_, std::nullopt, m, 0);
}

Unbounded Unbounded::Of(Private<Vec>& v, const Private<double>& spread) {
  for (double& x : v.value_)
    if (!std::isfinite(x)) x = 0.0;
  Unbounded out(v.value_, std::nullopt, 1, 0);
  out.spread_ = spread.value_ >= 0x1p-400 && spread.value_ <= 0x1p400 ? spread.value_ : 0x1p-400;
  return out;
}

std::optional<L2Bound> Unbounded::Sensitivity(Adjacency adjacency) const {
  if (!bound_) return std::nullopt;
  return Bounded::Sensitivity(adjacency, *bound_, units_, roundings_);
}

}  // namespace tacit
