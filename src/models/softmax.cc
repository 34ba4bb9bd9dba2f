#include <algorithm>
#include <cmath>

#include "core/round.h"
#include "models/exp.h"
#include "models/fours.h"
#include "models/losses.h"
#include "models/rows.h"
#include "models/second_order.h"

namespace tacit {
namespace {

// Multinomial logistic regression without bias: ∇_{x_c} f_l = (p_c − [c = y]) a, p = softmax(X a).
class Softmax final : public Objective {
 public:
  explicit Softmax(std::size_t classes) : classes_(classes) { TACIT_CHECK(classes >= 2); }

  std::size_t dim(std::size_t features) const override { return classes_ * features; }

  double Value(const Shard& shard, View x, Workspace& ws) const override {
    const std::size_t m = shard.size();
    if (m == 0) return 0;
    Grow(ws.a, m * classes_);
    Scores(shard, x, 0, m, ws.c, ws.a);
    const double sum = SumOf(m, [&](std::size_t l) {
      const View z = RowOf(ws.a, l);
      const double top = *std::max_element(z.begin(), z.end());
      double total = 0;
      for (const double v : z) total += std::exp(v - top);
      return std::log(total) + (top - z[Class(shard.label(l))]);
    });
    return sum / static_cast<double>(m);
  }

  // Keeps the residuals p − e_y in ws.a.
  void RecordNorms(const Shard& shard, View x, Workspace& ws, Span norm) const override {
    const std::size_t m = shard.size();
    TACIT_CHECK(norm.size() == m);
    Exponentials(shard, x, ws);
    // ‖r‖ = √Σ r_c²: K products, K additions and a root, each off by at most 2⁻⁵³; twice that is safe.
    const double inflate = 1.0 + static_cast<double>(classes_ + 8) * 0x1p-52;
    for (std::size_t l = 0; l < m; ++l) {
      const Span e = RowOf(Span(ws.a), l);
      const std::size_t y = Class(shard.label(l));
      double rest = 0;
      for (std::size_t c = 0; c < classes_; ++c) rest += c == y ? 0.0 : e[c];
      const double total = rest + e[y];
      double square = 0;
      for (std::size_t c = 0; c < classes_; ++c) {
        e[c] = (c == y ? -rest : e[c]) / total;   // 1 − p_y without cancellation
        square += e[c] * e[c];
      }
      // Squares below 2⁻¹⁰²² may vanish: together they hide less than 2⁻⁵⁰⁰ of the length.
      const double hidden = rest == 0 ? 0.0 : 0x1p-500;
      norm[l] = NormBound(std::sqrt(square) * inflate + hidden, shard.norm(l));
    }
  }

  void WeightedSum(const Shard& shard, View, Workspace& ws, View weight, Span g) const override {
    TACIT_CHECK(weight.size() == shard.size());
    if (!AddRowsByFours(shard, ws.a, classes_, weight, false, ws.c, g))
      AddRows(shard, ws.a, classes_, weight, g);
  }
  void FormWeightedSum(const Shard& shard, View x, Workspace& ws, View weight, Vec& g) const override {
    TACIT_CHECK(weight.size() == shard.size());
    g.resize(x.size());
    if (AddRowsByFours(shard, ws.a, classes_, weight, true, ws.c, g)) return;
    Fill(g, 0.0);
    AddRows(shard, ws.a, classes_, weight, g);
  }

  bool KeepsFours(std::size_t records, std::size_t features) const override {
    return records >= 8 && features >= 32;
  }

  // weight·residual is one, the fused additions are m (AddRows, and with fours the same but for terms of 0);
  // one to spare.
  std::size_t Roundings(std::size_t records) const override { return records + 2; }

  // ‖p − e_y‖² ≤ (1 − p_y)² + (Σ_{c≠y} p_c)² ≤ 2. As computed, |r_y| = fl(rest/total) ≤ 1 and the other
  // residuals add up to at most rest/total·(1 + (K + 2)·2⁻⁵³), whence the last factor.
  std::optional<double> RecordBound(double row_bound) const override {
    if (!(row_bound >= 0) || !std::isfinite(row_bound)) return std::nullopt;
    const double rounding = 1.0 + static_cast<double>(classes_ + 8) * 0x1p-52;
    return MulUp(MulUp(SqrtUp(2.0), rounding), row_bound);
  }
  // diag(p) − ppᵀ ≼ ½ I (Böhning 1992).
  std::optional<double> Smoothness(double row_bound) const override {
    if (!(row_bound >= 0) || !std::isfinite(row_bound)) return std::nullopt;
    return MulUp(0.5, MulUp(row_bound, row_bound));
  }

  bool AddHessian(const Shard& shard, View x, Workspace& ws, double weight, Span h) const override {
    const std::size_t m = shard.size(), d = shard.features(), n = classes_ * d;
    TACIT_CHECK(h.size() == n * n);
    Exponentials(shard, x, ws);
    for (std::size_t l = 0; l < m; ++l) {
      const Span p = RowOf(Span(ws.a), l);
      double total = 0;
      for (const double v : p) total += v;
      for (double& v : p) v /= total;
    }
    Grow(ws.b, m);
    for (std::size_t b = 0; b < classes_; ++b) {
      for (std::size_t c = 0; c <= b; ++c) {
        for (std::size_t l = 0; l < m; ++l) {
          const Span p = RowOf(Span(ws.a), l);
          ws.b[l] = weight * p[b] * ((b == c ? 1.0 : 0.0) - p[c]);
        }
        const Span block = h.subspan(b * d * n + c * d);
        if (b == c)
          AddOuterProducts(shard, ws.b, block, n);
        else
          AddFullOuterProducts(shard, ws.b, block, n);
      }
    }
    return true;
  }

  std::size_t outputs() const override { return classes_; }
  void Predict(const Shard& shard, View x, Span out) const override {
    TACIT_CHECK(out.size() == shard.size() * classes_);
    Margins(shard, x, classes_, 0, shard.size(), out);
  }

  std::optional<double> Accuracy(const Shard& shard, View x) const override {
    const std::size_t m = shard.size();
    if (m == 0) return std::nullopt;
    constexpr std::size_t kRows = 256;
    Vec margin(kRows * classes_), scratch;
    std::size_t right = 0;
    for (std::size_t first = 0; first < m; first += kRows) {
      const std::size_t count = std::min(m - first, kRows);
      Scores(shard, x, first, count, scratch, margin);
      for (std::size_t l = 0; l < count; ++l) {
        const View z = RowOf(margin, l);
        const auto best = static_cast<std::size_t>(std::max_element(z.begin(), z.end()) - z.begin());
        right += best == Class(shard.label(first + l));
      }
    }
    return static_cast<double>(right) / static_cast<double>(m);
  }

 private:
  // Margins, by fours where there are any: the same bits but for signs of zeros.
  void Scores(const Shard& shard, View x, std::size_t first, std::size_t count, Vec& scratch,
              Span out) const {
    if (!MarginsByFours(shard, x, classes_, first, count, scratch, out))
      Margins(shard, x, classes_, first, count, out);
  }

  View RowOf(const Vec& v, std::size_t l) const { return View(v).subspan(l * classes_, classes_); }
  Span RowOf(Span v, std::size_t l) const { return v.subspan(l * classes_, classes_); }

  // A label outside the range counts as class 0, so that no label can point outside x.
  std::size_t Class(double label) const {
    return label >= 0 && label < static_cast<double>(classes_) ? static_cast<std::size_t>(label) : 0;
  }

  // ws.a[l·K + c] = exp(z_c − max z), all records; NaN if a margin is NaN or +∞.
  void Exponentials(const Shard& shard, View x, Workspace& ws) const {
    const std::size_t m = shard.size(), size = m * classes_;
    Grow(ws.a, size);
    Scores(shard, x, 0, m, ws.c, ws.a);
    for (std::size_t l = 0; l < m; ++l) {
      const Span z = RowOf(Span(ws.a), l);
      double top = z[0];
      for (std::size_t c = 1; c < classes_; ++c) top = z[c] > top ? z[c] : top;
      for (double& v : z) v -= top;
    }
    constexpr std::size_t kBlock = 16;  // a fixed length vectorises at any optimisation level
    double* z = ws.a.data();
    std::size_t i = 0;
    for (; i + kBlock <= size; i += kBlock)
      for (std::size_t k = 0; k < kBlock; ++k) z[i + k] = ExpNonPositive(z[i + k]);
    for (; i < size; ++i) z[i] = ExpNonPositive(z[i]);
  }

  std::size_t classes_;
};

}  // namespace

std::unique_ptr<Objective> MakeSoftmax(std::size_t classes) { return std::make_unique<Softmax>(classes); }

}  // namespace tacit
