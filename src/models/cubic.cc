#include "models/cubic.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "core/round.h"
#include "models/rows.h"

namespace tacit {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Index Length(std::size_t n) { return static_cast<Eigen::Index>(n); }

// ‖(S + tI)⁻¹ĝ‖² and ‖(S + tI)^{−3/2}ĝ‖², without the terms whose ĝ is 0.
struct Lengths {
  double square = 0, slope = 0;
};
Lengths At(const Eigen::VectorXd& shifted, const Eigen::VectorXd& g, double t) {
  Lengths out;
  for (Eigen::Index j = 0; j < g.size(); ++j) {
    if (g[j] == 0) continue;
    const double w = g[j] / (shifted[j] + t);
    out.square += w * w;
    out.slope += w * w / (shifted[j] + t);
  }
  return out;
}

// t > 0 with ‖(S + tI)⁻¹ĝ‖ = 2λ/M, λ = floor + t and S = Λ + floor·I ⪰ 0: t has its digits even where λ is
// close to −λ_min. ψ(t) = 1/‖·‖ − M/(2λ) is increasing and nearly linear; Newton's steps on it, kept in a
// bracket that is halved where they leave it.
double Secular(const Eigen::VectorXd& shifted, const Eigen::VectorXd& g, double m, double floor) {
  // Above: ‖(S + tI)⁻¹ĝ‖ ≤ ‖ĝ‖/t, which is 2λ/M at the latest where t(floor + t) = ‖ĝ‖M/2.
  const double half = floor / 2, product = g.norm() * m / 2;
  double low = 0, high = product / (half + std::sqrt(half * half + product)) * (1 + 0x1p-40);
  double t = high;
  for (int i = 0; i < 300 && t > 0; ++i) {
    const Lengths at = At(shifted, g, t);
    const double length = std::sqrt(at.square), lambda = floor + t, wanted = 2 * lambda / m;
    if (length > wanted)
      low = t;
    else
      high = t;
    if (length == wanted || !(NextUp(low) < high)) break;
    const double psi = 1 / length - m / (2 * lambda);
    const double slope = at.slope / (length * at.square) + m / (2 * lambda * lambda);
    const double next = t - psi / slope;
    // Halved by its exponent while it spans more than a factor: t may be far smaller than its bound.
    const double middle =
        high > 4 * low ? (low > 0 ? std::sqrt(low) * std::sqrt(high) : high / 1024) : low + (high - low) / 2;
    const double to = next > low && next < high ? next : middle;
    if (to == t) break;
    t = to;
  }
  return t;
}

}  // namespace

CubicMinimum SolveCubic(View g, View h, double m) {
  const std::size_t k = g.size();
  TACIT_CHECK(h.size() == k * k && m > 0 && std::isfinite(m));
  CubicMinimum out;
  out.v.assign(k, 0.0);
  if (k == 0) return out;
  const Eigen::Map<const RowMajor> matrix(h.data(), Length(k), Length(k));
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> parts(matrix);
  const Eigen::VectorXd& eigen = parts.eigenvalues();  // ascending
  Eigen::VectorXd hat =
      parts.eigenvectors().transpose() * Eigen::Map<const Eigen::VectorXd>(g.data(), Length(k));
  const double least = eigen[0], floor = std::max(0.0, -least);
  const double scale = std::max(std::abs(least), std::abs(eigen[eigen.size() - 1]));
  const double near = 0x1p-44 * scale;  // eigenvalues that cannot be told apart from the least
  const Eigen::VectorXd shifted = (eigen.array() + floor).matrix();
  Eigen::VectorXd w = Eigen::VectorXd::Zero(hat.size());
  if (floor > 0) {
    // Whether g has a part along the least eigenvectors, beyond what rounding leaves of one that is 0.
    double along = 0;
    for (Eigen::Index j = 0; j < hat.size() && eigen[j] <= least + near; ++j) along += hat[j] * hat[j];
    if (std::sqrt(along) <= 0x1p-44 * hat.norm()) {
      Eigen::VectorXd rest = hat;
      for (Eigen::Index j = 0; j < hat.size() && eigen[j] <= least + near; ++j) rest[j] = 0;
      const double square = At(shifted, rest, 0.0).square, wanted = 2 * floor / m;
      if (square <= wanted * wanted) {
        for (Eigen::Index j = 0; j < hat.size(); ++j)
          if (rest[j] != 0) w[j] = -rest[j] / shifted[j];
        const Eigen::VectorXd inside = parts.eigenvectors() * w, along_least = parts.eigenvectors().col(0);
        const double rest_of_it = std::sqrt(wanted * wanted - square);
        Eigen::VectorXd one = inside + rest_of_it * along_least, other = inside - rest_of_it * along_least;
        Eigen::Map<Eigen::VectorXd>(out.v.data(), Length(k)) = one[0] >= other[0] ? one : other;
        out.lambda = floor;
        out.hard = true;
        return out;
      }
      hat = rest;  // the root is where these parts alone put it
    }
  }
  if (hat.norm() == 0) return out;
  const double t = Secular(shifted, hat, m, floor);
  out.lambda = floor + t;
  for (Eigen::Index j = 0; j < hat.size(); ++j)
    if (hat[j] != 0) w[j] = -hat[j] / (shifted[j] + t);
  Eigen::Map<Eigen::VectorXd>(out.v.data(), Length(k)) = parts.eigenvectors() * w;
  return out;
}

double CubicValue(View g, View h, double m, View v) {
  const std::size_t k = g.size();
  double value = Dot(g, v), length = Norm(v);
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t j = 0; j < k; ++j) value += 0.5 * v[i] * v[j] * h[std::max(i, j) * k + std::min(i, j)];
  return value + m / 6 * length * length * length;
}

void CubicGradient(View g, View h, double m, View v, Span out) {
  const std::size_t k = g.size();
  const double pull = m / 2 * Norm(v);
  for (std::size_t i = 0; i < k; ++i) {
    out[i] = g[i] + pull * v[i];
    for (std::size_t j = 0; j < k; ++j) out[i] += h[std::max(i, j) * k + std::min(i, j)] * v[j];
  }
}

void GmStep(View r, View x, const GmOptions& o, GmState& state) {
  const std::size_t k = state.v.size();
  TACIT_CHECK(r.size() == k && x.size() == k);
  const double rate = 2 / (o.curvature * (state.s + 2.0));
  const double pull = o.cubic / 2 * Norm(state.v);
  const double rho = 2 / (++state.s + 2.0);
  for (std::size_t j = 0; j < k; ++j) {
    const double v = state.v[j], to = v - rate * (r[j] + o.l2 * (x[j] + v) + pull * v);
    const double inside = std::min(std::max(to, -o.box - x[j]), o.box - x[j]);
    state.v[j] = inside;
    state.mean[j] += rho * (inside - state.mean[j]);
  }
}

void Quadratics::Gradients(View v, Span coefficient, Span norm_out) const {
  TACIT_CHECK(v.size() == k && coefficient.size() == size() && norm_out.size() == size());
  for (std::size_t l = 0; l < size(); ++l) {
    const double along = Dot(View(row).subspan(l * k, k), v);
    coefficient[l] = slope[l] + curvature[l] * along;
    norm_out[l] = NormBound(std::abs(coefficient[l]), norm[l]);
  }
}

void Quadratics::AddGradients(View weight, View coefficient, Span g) const {
  TACIT_CHECK(g.size() == k);
  for (std::size_t l = 0; l < size(); ++l)
    if (weight[l] != 0) Axpy(weight[l] * coefficient[l], View(row).subspan(l * k, k), g);
}

void Quadratics::HessianNorms(Span norm_out) const {
  for (std::size_t l = 0; l < size(); ++l)
    norm_out[l] = NormBound(std::abs(curvature[l]), NormBound(norm[l], norm[l]));
}

void Quadratics::AddHessians(View weight, Span h) const {
  TACIT_CHECK(h.size() == PackedSize(k));
  if (k == 0) return;
  constexpr std::size_t kRows = 256;
  RowMajor sum = RowMajor::Zero(Length(k), Length(k));
  RowMajor a(Length(std::min(kRows, size())), Length(k)), scaled = a;
  // Rows with few entries go by their pairs, the others together by a product of matrices, which makes some
  // eight times as many products a second.
  const std::size_t few = k / 3;
  std::vector<std::uint32_t> entry(k);
  std::size_t count = 0;
  const auto flush = [&] {
    sum.triangularView<Eigen::Lower>() +=
        scaled.topRows(Length(count)).transpose() * a.topRows(Length(count));
    count = 0;
  };
  for (std::size_t l = 0; l < size(); ++l) {
    const double c = weight[l] == 0 ? 0.0 : weight[l] * curvature[l];
    const double* from = row.data() + l * k;
    std::size_t entries = 0;
    for (std::size_t j = 0; j < k; ++j) {
      entry[entries] = static_cast<std::uint32_t>(j);
      entries += from[j] != 0 ? 1 : 0;
    }
    if (entries <= few) {
      for (std::size_t p = 0; p < entries; ++p) {
        const double times = c * from[entry[p]];
        double* to = sum.data() + entry[p] * k;
        for (std::size_t q = 0; q <= p; ++q) to[entry[q]] += times * from[entry[q]];
      }
      continue;
    }
    a.row(Length(count)) = Eigen::Map<const Eigen::RowVectorXd>(from, Length(k));
    scaled.row(Length(count)) = c * a.row(Length(count));
    if (++count == kRows) flush();
  }
  if (count > 0) flush();
  std::size_t at = 0;
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t j = 0; j <= i; ++j, ++at)
      h[at] += (i == j ? 1.0 : std::sqrt(2.0)) * sum(Length(i), Length(j));
}

void Unpack(View packed, std::size_t k, double scale, Span h) {
  TACIT_CHECK(packed.size() == PackedSize(k) && h.size() == k * k);
  std::size_t at = 0;
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t j = 0; j <= i; ++j, ++at)
      h[i * k + j] = h[j * k + i] = packed[at] * (i == j ? scale : scale / std::sqrt(2.0));
}

void MakeQuadratics(const Shard& all, Quadratics& out, const std::vector<std::uint32_t>& sample,
                    const Objective& f, const View& x, const std::vector<std::uint32_t>& mask) {
  constexpr double kLongest = 0x1p400;
  const Shard shard = all.Pick(sample);
  const std::size_t n = sample.size(), d = shard.features(), k = mask.empty() ? d : mask.size();
  out.k = k;
  out.row.assign(n * k, 0.0);
  out.norm.assign(n, 0.0);
  out.slope.assign(n, 0.0);
  out.curvature.assign(n, 0.0);
  const bool known = f.Curvatures(shard, x, out.work, out.slope, out.curvature);
  TACIT_CHECK(known);  // a run with another model is not planned
  for (std::size_t l = 0; l < n; ++l) {
    const Row row = shard.row(l);
    const Span to = Span(out.row).subspan(l * k, k);
    if (row.index == nullptr) {
      for (std::size_t j = 0; j < k; ++j) to[j] = row.value[mask.empty() ? j : mask[j]];
    } else if (mask.empty()) {
      for (std::size_t i = 0; i < row.size; ++i) to[row.index[i]] = row.value[i];
    } else {
      std::size_t j = 0;
      for (std::size_t i = 0; i < row.size && j < k; ++i) {  // both ascend
        while (j < k && mask[j] < row.index[i]) ++j;
        if (j < k && mask[j] == row.index[i]) to[j] = row.value[i];
      }
    }
    // A computed sum of k squares is at least (1 − γ_{k+1}) times the real one, but for underflow.
    const double square = NormSquared(to);
    const double up = SqrtUp(square * (1 + (static_cast<double>(k) + 8) * 0x1p-52) +
                             static_cast<double>(k) * std::numeric_limits<double>::min());
    if (up < kLongest && std::isfinite(out.slope[l]) && std::isfinite(out.curvature[l])) {
      out.norm[l] = up;
    } else {
      Fill(to, 0.0);
      out.norm[l] = out.slope[l] = out.curvature[l] = 0;
    }
  }
  all.Done(0, all.size());
}

void GmSolveRecord(View a, double slope, double curvature, View x, const GmOptions& o, std::uint32_t tau,
                   GmState& state) {
  const std::size_t k = a.size();
  TACIT_CHECK(x.size() == k);
  state.Start(k);
  if (tau <= 1) return;
  const double aa = NormSquared(a), ax = Dot(a, x), xx = NormSquared(x);
  double far_a = 0, far_x = 0;
  for (std::size_t j = 0; j < k; ++j) {
    far_a = std::max(far_a, std::abs(a[j]));
    far_x = std::max(far_x, std::abs(x[j]));
  }
  // v_s = p·a + q·x, and the mean likewise.
  double p = 0, q = 0, mean_p = 0, mean_q = 0;
  bool inside = true;
  for (std::uint32_t s = 0; s + 1 < tau && inside; ++s) {
    const double along = p * aa + q * ax;
    const double length = std::sqrt(std::max(0.0, p * p * aa + 2 * p * q * ax + q * q * xx));
    const double rate = 2 / (o.curvature * (s + 2.0)), pull = o.cubic / 2 * length + o.l2;
    p -= rate * (slope + curvature * along + pull * p);
    q -= rate * (o.l2 + pull * q);
    const double rho = 2 / (s + 3.0);
    mean_p += rho * (p - mean_p);
    mean_q += rho * (q - mean_q);
    inside = std::abs(p) * far_a + std::abs(1 + q) * far_x <= o.box * (1 - 0x1p-40);
  }
  if (inside) {
    state.s = tau - 1;
    for (std::size_t j = 0; j < k; ++j) {
      state.v[j] = p * a[j] + q * x[j];
      state.mean[j] = mean_p * a[j] + mean_q * x[j];
    }
    return;
  }
  Vec r(k);
  for (std::uint32_t s = 0; s + 1 < tau; ++s) {
    const double c = slope + curvature * Dot(a, state.v);
    for (std::size_t j = 0; j < k; ++j) r[j] = c * a[j];
    GmStep(r, x, o, state);
  }
}

}  // namespace tacit
