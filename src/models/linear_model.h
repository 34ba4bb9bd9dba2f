#pragma once

// Models with one margin per record, f_l(x) = loss(aᵀx, y), hence ∇f_l = slope·a. A Link gives the loss,
// by static or const members:
//
//   std::optional<double> Smoothness();                   sup of the second derivative; nullopt: a kink
//   std::optional<double> SlopeBound();                   sup |slope|, as computed
//   double Loss(double margin, double label);
//   double Slope(double margin, double label);            without branches: called in blocks; at a kink
//                                                         some subgradient; NaN if the margin is
//   Lanes Slopes(Lanes margin, Lanes label);              Slope of four, the same bits; where it is cheap
//   double Curvature(double margin, double label);        used if kHasCurvature
//   double CurvatureSlope();                              where it is Lipschitz: how fast, at most
//   bool Right(double margin, double label);              used if kHasAccuracy
//   Kink KinkOf(double label);                            where the loss is linear but for one kink
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/round.h"
#include "core/simd.h"
#include "models/objective.h"
#include "models/rows.h"
#include "models/second_order.h"

// For one function, so that nothing of a header is compiled for AVX-512 and then chosen for everybody.
#ifdef __clang__
#define TACIT_WIDE __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl")))
#else
#define TACIT_WIDE __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl,prefer-vector-width=512")))
#endif

namespace tacit {

template <class Link>
class LinearModel final : public Objective {
 public:
  explicit LinearModel(Link link = {}) : link_(link) {}

  std::size_t dim(std::size_t features) const override { return features; }

  double Value(const Shard& shard, View x, Workspace& ws) const override {
    const std::size_t m = shard.size();
    if (m == 0) return 0;
    Grow(ws.a, m);
    Margins(shard, x, 1, 0, m, ws.a);
    const double sum = SumOf(m, [&](std::size_t l) { return link_.Loss(ws.a[l], shard.label(l)); });
    return sum / static_cast<double>(m);
  }

  // Keeps the slopes in ws.a.
  void RecordNorms(const Shard& shard, View x, Workspace& ws, Span norm) const override {
    const std::size_t m = shard.size();
    TACIT_CHECK(norm.size() == m);
    Grow(ws.a, m);
    Margins(shard, x, ws.b, ws.a);
    ForBlocks(shard, shard.dataset().norm.data(), ws.a.data(), norm.data(),
              [this](const double* label, const double* length, double* margin, double* bound)
                  __attribute__((always_inline)) { SlopeBlock(label, length, margin, bound); });
  }

  void WeightedSum(const Shard& shard, View, Workspace& ws, View weight, Span g) const override {
    TACIT_CHECK(weight.size() == shard.size());
    AddRows(shard, ws.a, weight, ws.b, g);
  }

  bool ClippedSum(const Shard& shard, View x, double c, Workspace& ws, Vec& g) const override {
    if (!(c >= kLeastLaneClip)) return false;
    if constexpr (requires(Lanes v) { link_.Slopes(v, v); }) {
      if (shard.tiles() != nullptr) [[likely]] {
        FormClipped(
            shard, x, c, [this](Lanes margin, Lanes label) { return link_.Slopes(margin, label); }, g);
        return true;
      }
    }
    return ClippedSumByRows(shard, x, c, ws, g);
  }

  // y stays on a line: y_k = y − c_k a, whose margin is aᵀy − c_k‖a‖². So the steps are made on c alone, and
  // the row is read three times however many there are.
  bool StepsOnRecord(const Shard& shard, std::size_t l, double rate, std::uint32_t steps,
                     Span y) const override {
    TACIT_CHECK(y.size() == shard.features());
    const Row row = shard.row(l);
    const View a(row.value, row.size);
    const double square = NormSquared(a);
    const double start = row.index == nullptr
                             ? Dot(a, y)
                             : SumOf(row.size, [&](std::size_t k) { return a[k] * y[row.index[k]]; });
    double c = 0;
    for (std::uint32_t k = 0; k < steps; ++k) {
      const double slope = link_.Slope(start - c * square, shard.label(l));
      if (!(NormBound(std::abs(slope), shard.norm(l)) < std::numeric_limits<double>::infinity()))
        break;  // nor would later ones
      c += rate * slope;
    }
    if (c == 0) return true;  // not even a row that is not finite
    if (row.index == nullptr)
      Axpy(-c, a, y);
    else
      for (std::size_t k = 0; k < row.size; ++k) y[row.index[k]] -= c * a[k];
    return true;
  }

  // weight·slope is one; the rest is m fused additions, or a product and m additions (AddRows).
  std::size_t Roundings(std::size_t records) const override { return records + 2; }

  std::optional<double> RecordBound(double row_bound) const override {
    const std::optional<double> slope = link_.SlopeBound();
    if (!slope || !(row_bound >= 0) || !std::isfinite(row_bound)) return std::nullopt;
    return MulUp(*slope, row_bound);
  }
  std::optional<double> Smoothness(double row_bound) const override {
    const std::optional<double> curvature = link_.Smoothness();
    if (!curvature || !(row_bound >= 0) || !std::isfinite(row_bound)) return std::nullopt;
    return MulUp(*curvature, MulUp(row_bound, row_bound));
  }

  bool clips_to_smooth() const override { return Link::kConvex && link_.Smoothness().has_value(); }
  std::optional<Kink> KinkOf(double label) const override {
    if constexpr (requires { Link::KinkOf(label); })
      return Link::KinkOf(label);
    else
      return std::nullopt;
  }

  bool AddHessian(const Shard& shard, View x, Workspace& ws, double weight, Span h) const override {
    if (!Link::kHasCurvature) return false;
    const std::size_t m = shard.size();
    Grow(ws.a, m);
    Margins(shard, x, 1, 0, m, ws.a);
    for (std::size_t l = 0; l < m; ++l) ws.a[l] = weight * link_.Curvature(ws.a[l], shard.label(l));
    AddOuterProducts(shard, ws.a, h, shard.features());
    return true;
  }

  bool has_curvatures() const override { return Link::kHasCurvature; }
  bool Curvatures(const Shard& shard, View x, Workspace& ws, Span slope, Span curvature) const override {
    if (!Link::kHasCurvature) return false;
    const std::size_t m = shard.size();
    TACIT_CHECK(slope.size() == m && curvature.size() == m);
    Grow(ws.a, m);
    Margins(shard, x, 1, 0, m, ws.a);
    for (std::size_t l = 0; l < m; ++l) {
      slope[l] = link_.Slope(ws.a[l], shard.label(l));
      curvature[l] = link_.Curvature(ws.a[l], shard.label(l));
    }
    return true;
  }
  std::optional<double> HessianSmoothness(double row_bound) const override {
    if constexpr (requires { Link::CurvatureSlope(); }) {
      if (row_bound >= 0 && std::isfinite(row_bound))
        return MulUp(Link::CurvatureSlope(), MulUp(row_bound, MulUp(row_bound, row_bound)));
    }
    return std::nullopt;
  }

  std::size_t outputs() const override { return 1; }
  void Predict(const Shard& shard, View x, Span out) const override {
    TACIT_CHECK(out.size() == shard.size());
    Margins(shard, x, 1, 0, shard.size(), out);
  }

  std::optional<double> Accuracy(const Shard& shard, View x) const override {
    const std::size_t m = shard.size();
    if (!Link::kHasAccuracy || m == 0) return std::nullopt;
    double margin[256];
    std::size_t right = 0;
    for (std::size_t first = 0; first < m; first += std::size(margin)) {
      const std::size_t count = std::min(m - first, std::size(margin));
      Margins(shard, x, 1, first, count, margin);
      for (std::size_t l = 0; l < count; ++l) right += link_.Right(margin[l], shard.label(first + l));
    }
    return static_cast<double>(right) / static_cast<double>(m);
  }

 private:
  // ClippedSum without tiles. On its own: what small clients come by stays short.
  __attribute__((noinline)) bool ClippedSumByRows(const Shard& shard, View x, double c, Workspace& ws,
                                                  Vec& g) const {
    if constexpr (requires(Lanes v) { link_.Slopes(v, v); }) {
      const auto slopes = [this](Lanes margin, Lanes label) { return link_.Slopes(margin, label); };
      if (const std::optional<NarrowRows> rows = NarrowRowsOf(shard)) {
        g.assign(x.size(), 0.0);
        AddClipped(*rows, x, c, slopes, g);
        return true;
      }
    }
    g.assign(x.size(), 0.0);
    const std::size_t m = shard.size();
    Grow(ws.a, m);
    Grow(ws.c, m);
    Margins(shard, x, ws.b, ws.a);
    const bool wide = internal::SimdInUse() == internal::Simd::kAvx512;
    ForBlocks(shard, shard.dataset().norm.reach(), ws.a.data(), ws.c.data(),
              [this, c, wide](const double* label, const double* reach, double* margin, double* weight)
                  __attribute__((always_inline)) {
                    if (wide)
                      WideClipBlock(c, label, reach, margin, weight);
                    else
                      ClipBlock(c, label, reach, margin, weight);
                  });
    AddRows(shard, ws.a, View(ws.c).first(m), ws.b, g);
    return true;
  }

  static constexpr std::size_t kBlock = 32;

  // f(labels, their rows' figures, margins in place, results) for kBlock records at a time; the last come in
  // buffers that are filled up. of: a figure for every row of the data set.
  template <class F>
  static void ForBlocks(const Shard& shard, const double* of, double* margins, double* results, F f) {
    const std::size_t m = shard.size();
    const double* labels = shard.dataset().label.data();
    std::size_t l = 0;
    if (shard.contiguous())
      for (; l + kBlock <= m; l += kBlock)
        f(labels + shard.begin() + l, of + shard.begin() + l, margins + l, results + l);
    double label[kBlock] = {}, figure[kBlock] = {}, margin[kBlock] = {}, result[kBlock];
    for (; l < m; l += kBlock) {
      const std::size_t count = std::min(m - l, kBlock);
      for (std::size_t k = 0; k < count; ++k) {
        const std::size_t at = shard.At(l + k);
        label[k] = labels[at];
        figure[k] = of[at];
      }
      std::copy_n(margins + l, count, margin);
      f(label, figure, margin, result);
      std::copy_n(margin, count, margins + l);
      std::copy_n(result, count, results + l);
    }
  }

  // kBlock margins → slopes in place, and the bounds of the norms. On its own, and longer than what a
  // compiler unrolls whole, so that it becomes one vector loop.
  __attribute__((noinline)) void SlopeBlock(const double* __restrict label, const double* __restrict length,
                                            double* __restrict margin, double* __restrict norm) const {
    for (std::size_t k = 0; k < kBlock; ++k) {
      const double slope = link_.Slope(margin[k], label[k]);
      margin[k] = slope;
      norm[k] = NormBound(std::abs(slope), length[k]);
    }
  }

  // The same with clipped slopes, and 1 for a record that counts, else 0: ClipSlope, four at a time.
  __attribute__((always_inline)) void ClipEach(double c, const double* __restrict label,
                                               const double* __restrict reach, double* __restrict margin,
                                               double* __restrict weight) const {
    for (std::size_t k = 0; k < kBlock; ++k) margin[k] = link_.Slope(margin[k], label[k]);
    for (std::size_t k = 0; k < kBlock; k += kLanes) {
      const Lanes r = Load(reach + k), within = WithinReach(Load(margin + k), r, All(c));
      const LaneMask counts = LaneMask(r > Lanes{}) & LaneMask(within - within == Lanes{});
      Store(margin + k, Lanes(LaneMask(within) & counts));
      Store(weight + k, Lanes(LaneMask(All(1.0)) & counts));
    }
  }
  __attribute__((noinline)) void ClipBlock(double c, const double* label, const double* reach, double* margin,
                                           double* weight) const {
    ClipEach(c, label, reach, margin, weight);
  }
  // With AVX-512 eight slopes at a time: the same operations in each lane, and so the same bits.
  TACIT_WIDE __attribute__((noinline)) void WideClipBlock(double c, const double* label, const double* reach,
                                                          double* margin, double* weight) const {
    ClipEach(c, label, reach, margin, weight);
  }

  Link link_;
};

}  // namespace tacit
