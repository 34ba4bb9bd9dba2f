#include "models/reference.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/kinked.h"
#include "models/rows.h"

namespace tacit {
namespace {

constexpr std::size_t kNewtonDim = 2000;   // a Hessian of 32 MB, a Cholesky of a second
constexpr double kNever = std::numeric_limits<double>::infinity();

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
Eigen::Index At(std::size_t i) { return static_cast<Eigen::Index>(i); }

struct Problem {
  const Objective& f;
  std::span<const Shard> clients;
  double l2;
  const Regularizer& g;
  std::size_t dim;
  Workspace ws;
  Vec norm, weight, part;

  double RecordWeight(const Shard& s) const {
    return 1.0 / (static_cast<double>(clients.size()) * static_cast<double>(s.size()));
  }

  double Value(View x) {
    double sum = 0;
    for (const Shard& s : clients) sum += f.Value(s, x, ws);
    return sum / static_cast<double>(clients.size()) + 0.5 * l2 * NormSquared(x) + g.Value(x);
  }

  // Of the smooth part. Each client is summed on its own first: short sums keep the rounding well below
  // the tolerance.
  void Gradient(View x, Span out) {
    for (std::size_t j = 0; j < dim; ++j) out[j] = l2 * x[j];
    for (const Shard& s : clients) {
      if (s.size() == 0) continue;
      norm.resize(s.size());
      weight.assign(s.size(), RecordWeight(s));
      f.RecordNorms(s, x, ws, norm);
      part.assign(dim, 0.0);
      f.WeightedSum(s, x, ws, weight, part);
      Axpy(1.0, part, out);
    }
  }

  // h, both triangles. False if the model has none.
  bool Hessian(View x, Matrix& h) {
    h.setZero(At(dim), At(dim));
    for (const Shard& s : clients) {
      if (s.size() == 0) continue;
      if (!f.AddHessian(s, x, ws, RecordWeight(s), Span(h.data(), dim * dim))) return false;
    }
    h.diagonal().array() += l2;
    h.triangularView<Eigen::StrictlyUpper>() = h.transpose();
    return true;
  }

  // Largest eigenvalue of the weighted Gram matrix of the rows, from below, by power iteration.
  double Gram() {
    const std::size_t features = clients[0].features();
    Vec v(features), next(features);
    // Not constant, lest it be orthogonal to the leading eigenvector of centred data.
    for (std::size_t j = 0; j < features; ++j) v[j] = 1.0 + 0.37 * std::sin(static_cast<double>(j + 1));
    double lambda = 0;
    for (int k = 0; k < 100; ++k) {
      const double length = Norm(v);
      if (!(length > 0) || !std::isfinite(length)) return length;
      Scale(1.0 / length, v);
      Fill(next, 0.0);
      for (const Shard& s : clients) {
        if (s.size() == 0) continue;
        norm.resize(s.size());
        weight.assign(s.size(), RecordWeight(s));
        Margins(s, v, 1, 0, s.size(), norm);
        AddRows(s, norm, 1, weight, next);
      }
      const double previous = lambda;
      lambda = Norm(next);
      std::swap(v, next);
      if (lambda - previous <= 1e-4 * lambda && k > 4) break;
    }
    return lambda;
  }
};

double SoftThreshold(double v, double t) { return v > t ? v - t : v < -t ? v + t : 0.0; }

// argmin_u vᵀ(u − x) + ½(u − x)ᵀh(u − x) + g(u), starting at u = x; v is overwritten by the model's
// gradient at u. Coordinate descent finds which coordinates are at 0 or on a face; with those held, the
// rest is a linear system. A step of the system that would cross a kink stops there, so the model never
// rises and the next sweep continues.
void SolveModel(const Matrix& h, const Regularizer& g, const SeparableForm& form, double tolerance, Span u,
                Span v) {
  const std::size_t d = u.size();
  Eigen::Map<Eigen::VectorXd> gradient(v.data(), At(d));
  const auto state = [&](std::size_t j) {   // −1, 0, 1: the sign; ±2: a face
    if (u[j] == 0) return 0;
    const int sign = u[j] > 0 ? 1 : -1;
    return std::abs(u[j]) == form.radius ? 2 * sign : sign;
  };
  std::vector<int> pattern(d, 3);
  double best = kNever;
  for (int loop = 0; loop < 200; ++loop) {
    for (int sweep = 0; sweep < 25; ++sweep) {
      bool same = true;
      for (std::size_t j = 0; j < d; ++j) {
        const double curvature = h(At(j), At(j));
        const double moved = SoftThreshold(u[j] - v[j] / curvature, form.omega(j) / curvature);
        const double next = std::clamp(moved, -form.radius, form.radius);
        const double delta = next - u[j];
        if (delta != 0) {
          u[j] = next;
          gradient += delta * h.row(At(j)).transpose();
        }
        const int now = state(j);
        same = same && now == pattern[j];
        pattern[j] = now;
      }
      if (same) break;
    }
    std::vector<std::size_t> free;
    for (std::size_t j = 0; j < d; ++j)
      if (std::abs(pattern[j]) == 1 || (pattern[j] == 0 && form.omega(j) == 0)) free.push_back(j);
    if (!free.empty()) {
      const Eigen::Index n = At(free.size());
      Eigen::MatrixXd sub(n, n);
      Eigen::VectorXd rhs(n);
      for (Eigen::Index a = 0; a < n; ++a) {
        const std::size_t j = free[static_cast<std::size_t>(a)];
        for (Eigen::Index b = 0; b <= a; ++b) sub(a, b) = h(At(j), At(free[static_cast<std::size_t>(b)]));
        rhs(a) = -(v[j] + form.omega(j) * (u[j] > 0 ? 1.0 : u[j] < 0 ? -1.0 : 0.0));
      }
      const Eigen::LLT<Eigen::MatrixXd> cholesky(sub);
      if (cholesky.info() == Eigen::Success) {
        const Eigen::VectorXd step = cholesky.solve(rhs);
        double t = 1.0;
        Eigen::Index hit = -1;
        double wall = 0;
        for (Eigen::Index a = 0; a < n; ++a) {
          const std::size_t j = free[static_cast<std::size_t>(a)];
          const double to = u[j] + step(a);
          const double kink = form.omega(j) > 0 && to * u[j] < 0 ? 0.0
                              : to > form.radius                 ? form.radius
                              : to < -form.radius                ? -form.radius
                                                                 : to;
          if (kink == to) continue;
          const double reach = (kink - u[j]) / step(a);
          if (reach < t) {
            t = reach;
            hit = a;
            wall = kink;
          }
        }
        for (Eigen::Index a = 0; a < n; ++a) {
          const std::size_t j = free[static_cast<std::size_t>(a)];
          const double next = a == hit ? wall : u[j] + t * step(a);
          gradient += (next - u[j]) * h.row(At(j)).transpose();
          u[j] = next;
        }
      }
    }
    const double residual = g.Residual(u, v);
    if (residual <= tolerance) return;
    if (loop > 20 && residual >= best) return;   // rounding has the last word
    best = std::min(best, residual);
  }
}

// Leaves the best point found in s; true if the tolerance was met.
bool Newton(Problem& p, const SeparableForm& form, const SolveOptions& options, Solution& s) {
  const std::size_t d = p.dim;
  Vec gradient(d), trial_gradient(d), u(d), v(d), trial(d);
  Matrix h;
  p.Gradient(s.x, gradient);
  s.value = p.Value(s.x);
  s.residual = p.g.Residual(s.x, gradient);
  for (int k = 0; k < 100 && s.iterations < options.max_iterations; ++k) {
    if (s.residual <= options.tolerance) return true;
    if (!std::isfinite(s.residual)) return false;
    if (!p.Hessian(s.x, h)) return false;
    ++s.iterations;
    u = s.x;
    v = gradient;
    SolveModel(h, p.g, form, 0.01 * options.tolerance, u, v);
    // Decrease F; where F is flat to rounding, decrease the residual.
    bool moved = false;
    for (double t = 1.0; t > 1e-10; t *= 0.5) {
      for (std::size_t j = 0; j < d; ++j) trial[j] = t == 1.0 ? u[j] : s.x[j] + t * (u[j] - s.x[j]);
      const double value = p.Value(trial);
      p.Gradient(trial, trial_gradient);
      const double residual = p.g.Residual(trial, trial_gradient);
      if (residual <= 0.5 * s.residual || value < s.value - 1e-13 * std::abs(s.value)) {
        s.x = trial;
        gradient = trial_gradient;
        s.value = value;
        s.residual = residual;
        moved = true;
        break;
      }
    }
    if (!moved) return false;
  }
  return s.residual <= options.tolerance;
}

Result<Solution> Kinked(Problem& p, const SeparableForm& form, const SolveOptions& options) {
  KinkedProblem k{.dim = p.dim, .rows = {}, .at = {}, .low = {}, .high = {}, .l2 = p.l2};
  Vec row(p.dim);
  for (const Shard& s : p.clients)
    for (std::size_t l = 0; l < s.size(); ++l) {
      const Row r = s.row(l);
      Fill(row, 0.0);
      for (std::size_t j = 0; j < r.size; ++j) row[r.index == nullptr ? j : r.index[j]] = r.value[j];
      const Kink at = *p.f.KinkOf(s.label(l));
      const double weight = p.RecordWeight(s);
      k.Add(row, at.at, weight * at.below, weight * at.above);
    }
  for (std::size_t j = 0; j < p.dim; ++j) {
    Fill(row, 0.0);
    row[j] = 1;
    k.Add(row, 0.0, -form.omega(j), form.omega(j));
  }
  TACIT_TRY(KinkedSolution found, SolveKinked(k));
  if (!(found.residual <= options.tolerance))
    return Fail(
        Code::kInternal,
        "the reference solver stopped at residual {:.3g}, above its tolerance {:.3g}: raise l2 or the "
        "tolerance",
        found.residual, options.tolerance);
  const double value = p.Value(found.x);
  return Solution{std::move(found.x), value, found.residual, found.iterations};
}

bool Accelerated(Problem& p, const SolveOptions& options, Solution& s) {
  const std::size_t d = p.dim;
  // ∇²f ≼ (smoothness at rows of length 1)·Gram; the 5 % cover the power iteration, the guard the rest.
  const std::optional<double> unit = p.f.Smoothness(1.0);
  const double gram = p.Gram();
  if (!unit || !std::isfinite(gram)) return false;
  double smoothness = 1.05 * *unit * gram + p.l2;
  Vec x = s.x, y = s.x, next(d), gradient(d);
  double momentum = 1.0;
  p.Gradient(x, gradient);
  s.residual = p.g.Residual(x, gradient);
  double start = s.residual;
  if (!std::isfinite(start)) {       // the start may lie outside the domain, or the data be unusable
    p.g.Prox(0.0, x);
    p.Gradient(x, gradient);
    start = p.g.Residual(x, gradient);
    if (!std::isfinite(start)) return false;
    y = x;
    s.x = x;
    s.residual = start;
  }
  int stalled = 0;
  for (; s.iterations < options.max_iterations; ++s.iterations) {
    if (s.residual <= options.tolerance) return true;
    p.Gradient(y, gradient);
    for (std::size_t j = 0; j < d; ++j) next[j] = y[j] - gradient[j] / smoothness;
    p.g.Prox(1.0 / smoothness, next);
    double mapping = 0, ahead = 0;
    for (std::size_t j = 0; j < d; ++j) {
      mapping = std::max(mapping, smoothness * std::abs(y[j] - next[j]));
      ahead += (y[j] - next[j]) * (next[j] - x[j]);
    }
    const bool check = mapping <= 2 * options.tolerance || s.iterations % 64 == 63;
    const double t = ahead > 0 ? 1.0 : 0.5 * (1.0 + std::sqrt(1.0 + 4.0 * momentum * momentum));
    const double beta = ahead > 0 ? 0.0 : (momentum - 1.0) / t;
    momentum = t;
    for (std::size_t j = 0; j < d; ++j) y[j] = next[j] + beta * (next[j] - x[j]);
    std::swap(x, next);
    if (!check) continue;
    p.Gradient(x, gradient);
    const double residual = p.g.Residual(x, gradient);
    if (!(residual <= 1e3 * start)) {        // too long a step after all
      smoothness *= 2;
      x = y = s.x;
      momentum = 1.0;
      continue;
    }
    if (residual < s.residual) {
      stalled = residual < 0.999 * s.residual ? 0 : stalled + 1;
      s.x = x;
      s.residual = residual;
    } else {
      ++stalled;
    }
    if (stalled > 200) break;                // 200 checks without progress: rounding
  }
  return s.residual <= options.tolerance;
}

}  // namespace

Result<Solution> SolveReference(const Objective& f, std::span<const Shard> clients, double l2,
                                const Regularizer& g, const SolveOptions& options) {
  if (clients.empty()) return Fail(Code::kInvalidArgument, "the reference solver got no client");
  const bool kinked = f.KinkOf(1.0).has_value();
  if (!(kinked ? l2 >= 0 : l2 > 0) || !std::isfinite(l2))
    return Fail(Code::kInvalidArgument, "l2 = {}: the reference solver needs a finite l2 {} 0", l2,
                kinked ? "of at least" : "above");
  if (!(options.tolerance > 0))
    return Fail(Code::kInvalidArgument, "reference tolerance = {}: must be positive", options.tolerance);
  std::size_t rows = 0;
  for (const Shard& s : clients) {
    if (s.features() != clients[0].features())
      return Fail(Code::kInvalidArgument, "clients have {} and {} features: load them with the same width",
                  clients[0].features(), s.features());
    rows += s.size();
  }
  if (rows == 0)
    return Fail(Code::kInvalidArgument, "the reference solver got {} clients without rows", clients.size());

  Problem p{f, clients, l2, g, f.dim(clients[0].features()), {}, {}, {}, {}};
  Solution s;
  s.x.assign(p.dim, 0.0);
  const std::optional<SeparableForm> form = g.Separable();
  if (kinked) {
    if (!form || !std::isinf(form->radius))
      return Fail(Code::kUnsupported,
                  "the reference solver takes a loss with kinks with penalty none or l1 alone; choose one of "
                  "them");
    return Kinked(p, *form, options);
  }
  bool done = form && p.dim <= kNewtonDim && Newton(p, *form, options, s);
  if (!done) done = Accelerated(p, options, s);
  if (!done)
    return Fail(
        Code::kInternal,
        "the reference solver stopped at residual {:.3g} after {} iterations, above its tolerance {:.3g}: "
        "scale the features, raise l2 or raise the tolerance",
        s.residual, s.iterations, options.tolerance);
  s.value = p.Value(s.x);
  return s;
}

}  // namespace tacit
