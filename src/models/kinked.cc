#include "models/kinked.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace tacit {
namespace {

using Eigen::ArrayXd;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Rows = Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

Eigen::Index At(std::size_t i) { return static_cast<Eigen::Index>(i); }

// The optimality conditions are Aᵀd + l2 x = 0, Ax − b = u − v and, with s = high − d and q = d − low,
// u∘s = v∘q = 0, all four of them ≥ 0.
struct Point {
  VectorXd x;
  ArrayXd d, u, v;
};

// The longest step up to 1 that keeps value + t·move ≥ 0.
double Reach(const ArrayXd& value, const ArrayXd& move) {
  double t = 1;
  for (Eigen::Index i = 0; i < value.size(); ++i)
    if (move(i) < 0) t = std::min(t, -value(i) / move(i));
  return t;
}

}  // namespace

void KinkedProblem::Add(View a, double b, double low_slope, double high_slope) {
  TACIT_CHECK(a.size() == dim && low_slope <= high_slope);
  if (low_slope == high_slope) return;      // no kink; only slopes of 0 occur
  rows.insert(rows.end(), a.begin(), a.end());
  at.push_back(b);
  low.push_back(low_slope);
  high.push_back(high_slope);
}

Result<KinkedSolution> SolveKinked(const KinkedProblem& p) {
  const Eigen::Index m = At(p.at.size()), n = At(p.dim);
  const Error lost =
      Fail(Code::kInternal,
           "the solver for losses with kinks found no unique minimiser; raise l2, or check that "
           "the rows are finite and span all features");
  if (m == 0) return lost;
  const Rows a(p.rows.data(), m, n);
  const Eigen::Map<const ArrayXd> b(p.at.data(), m), low(p.low.data(), m), high(p.high.data(), m);
  if (!a.allFinite() || !b.allFinite() || !low.allFinite() || !high.allFinite()) return lost;
  const ArrayXd width = high - low;
  const double scale = b.abs().mean() + 1e-3;
  Point z{VectorXd::Zero(n), (low + high) / 2, (-b).max(0.0) + scale, b.max(0.0) + scale};
  KinkedSolution out;
  ArrayXd du(m), dv(m), dd(m);
  VectorXd dx(n);
  for (; out.iterations < 200; ++out.iterations) {
    const ArrayXd s = high - z.d, q = z.d - low;
    const double gap = (z.u * s + z.v * q).sum(), mu = gap / static_cast<double>(2 * m);
    const VectorXd dual = -(a.transpose() * z.d.matrix() + p.l2 * z.x);
    const ArrayXd primal = b + z.u - z.v - (a * z.x).array();
    const double off = primal.abs().maxCoeff() / scale + dual.cwiseAbs().maxCoeff() / width.sum();
    if (!std::isfinite(gap) || !std::isfinite(off)) return lost;
    if (gap <= 1e-13 * scale * width.sum() && off <= 1e-9) break;
    const ArrayXd diagonal = z.u / s + z.v / q;
    MatrixXd normal = a.transpose() * diagonal.inverse().matrix().asDiagonal() * a;
    normal.diagonal().array() += p.l2;
    const Eigen::LDLT<MatrixXd> factor(normal);
    if (factor.info() != Eigen::Success) break;
    const auto direction = [&](const ArrayXd& ru, const ArrayXd& rv) {
      const ArrayXd rhs = primal + ru / s - rv / q;
      dx = factor.solve(dual + a.transpose() * (rhs / diagonal).matrix());
      dd = ((a * dx).array() - rhs) / diagonal;
      du = (ru + z.u * dd) / s;
      dv = (rv - z.v * dd) / q;
    };
    const auto reach = [&] {
      return std::min({Reach(z.u, du), Reach(z.v, dv), Reach(s, -dd), Reach(q, dd)});
    };
    direction(-z.u * s, -z.v * q);      // predictor
    const double ahead = reach();
    const double after =
        ((z.u + ahead * du) * (s - ahead * dd) + (z.v + ahead * dv) * (q + ahead * dd)).sum();
    const double centre = mu * std::pow(std::max(0.0, after) / gap, 3);
    const ArrayXd ru = centre - z.u * s + du * dd, rv = centre - z.v * q - dv * dd;
    direction(ru, rv);                  // corrector
    const double t = std::min(1.0, 0.9995 * reach());
    if (!dx.allFinite() || t < 1e-12) break;
    z.x += t * dx;
    z.d += t * dd;
    z.u += t * du;
    z.v += t * dv;
  }
  // On which kinks: where the slope is inside its range and the distance from the kink is not.
  std::vector<Eigen::Index> on;
  ArrayXd d(m);
  for (Eigen::Index i = 0; i < m; ++i) {
    const bool above = z.u(i) / scale > (high(i) - z.d(i)) / width(i);
    const bool below = z.v(i) / scale > (z.d(i) - low(i)) / width(i);
    d(i) = above ? high(i) : below ? low(i) : 0.0;
    if (!above && !below) on.push_back(i);
  }
  const Eigen::Index k = At(on.size());
  if (k > 3000) return lost;
  // [ l2 I  A_onᵀ ; A_on  0 ] [ x ; d_on ] = [ −Σ_off d_i a_i ; b_on ].
  MatrixXd kkt = MatrixXd::Zero(n + k, n + k);
  VectorXd rhs(n + k);
  kkt.diagonal().head(n).setConstant(p.l2);
  rhs.head(n) = -(a.transpose() * d.matrix());
  for (Eigen::Index i = 0; i < k; ++i) {
    kkt.row(n + i).head(n) = a.row(on[static_cast<std::size_t>(i)]);
    kkt.col(n + i).head(n) = a.row(on[static_cast<std::size_t>(i)]).transpose();
    rhs(n + i) = b(on[static_cast<std::size_t>(i)]);
  }
  const Eigen::FullPivLU<MatrixXd> lu(kkt);
  if (!lu.isInvertible()) return lost;
  VectorXd solution = lu.solve(rhs);
  solution += lu.solve(rhs - kkt * solution);
  z.x = solution.head(n);
  // Slopes that x allows: within their range on the kink, at an end of it elsewhere.
  const ArrayXd margin = (a * z.x).array() - b;
  for (Eigen::Index i = 0; i < m; ++i) d(i) = margin(i) > 0 ? high(i) : low(i);
  for (Eigen::Index i = 0; i < k; ++i) {
    const Eigen::Index at = on[static_cast<std::size_t>(i)];
    d(at) = std::clamp(solution(n + i), low(at), high(at));
  }
  out.residual = (a.transpose() * d.matrix() + p.l2 * z.x).cwiseAbs().maxCoeff();
  if (!std::isfinite(out.residual)) return lost;
  out.x.assign(z.x.data(), z.x.data() + n);
  return out;
}

}  // namespace tacit
