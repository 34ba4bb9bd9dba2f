#include "models/network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/rng.h"
#include "core/round.h"
#include "core/simd.h"
#include "models/convolution.h"
#include "models/dense.h"
#include "models/entries.h"
#include "models/exp.h"
#include "models/lanes.h"
#include "models/rows.h"

namespace tacit {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// σ or max(0, ·) in place. NaN stays NaN, lest a record that cannot be measured look measurable.
void Activate(Activation f, double* z, std::size_t size) {
  constexpr std::size_t kBlock = 16;   // a fixed length vectorises at any optimisation level
  const auto block = [f](double* v) __attribute__((always_inline)) {
    if (f == Activation::kRelu) {
      for (std::size_t k = 0; k < kBlock; ++k) v[k] = v[k] < 0 ? 0.0 : v[k];
    } else {
      for (std::size_t k = 0; k < kBlock; ++k) {
        const double e = ExpNonPositive(-std::abs(v[k]));
        v[k] = (v[k] >= 0 ? 1.0 : e) / (1.0 + e);
      }
    }
  };
  std::size_t i = 0;
  for (; i + kBlock <= size; i += kBlock) block(z + i);
  if (i == size) return;
  double rest[kBlock] = {};
  std::copy(z + i, z + size, rest);
  block(rest);
  std::copy_n(rest, size - i, z + i);
}

// d ← d ⊙ f′, f′ by the value a = f(z).
void Deactivate(Activation f, const double* a, double* d, std::size_t size) {
  if (f == Activation::kRelu) {
    for (std::size_t i = 0; i < size; ++i) d[i] = a[i] > 0 ? d[i] : 0.0;
  } else {
    for (std::size_t i = 0; i < size; ++i) d[i] *= a[i] * (1.0 - a[i]);
  }
}

// At least ‖v‖ in real arithmetic, by 2⁻⁴⁹ or more; 0 only for v = 0. The squares, their sum and the root
// are off by less than (n + 8)·2⁻⁵³; twice that is safe. Entries below 2⁻⁵¹¹ may vanish from the sum:
// together they hide less than 2⁻⁵⁰⁰ (n < 2²²).
double LengthUp(View v) {
  const double square = NormSquared(v);
  if (square == 0 && std::all_of(v.begin(), v.end(), [](double t) { return t == 0; })) return 0;
  return std::sqrt(square) * (1.0 + static_cast<double>(v.size() + 16) * 0x1p-52) + 0x1p-500;
}

// The convolutional part of a network: one record at a time, up to `block` of them in memory between the way
// there and the way back.
class Front {
 public:
  static constexpr std::size_t kBlock = 4;      // images whose traces stay in the first-level caches

  explicit Front(std::vector<Stage> stages) : stages_(std::move(stages)) {
    for (const Stage& s : stages_) {
      parameters_ += s.parameters();
      packed_ += s.PackedSize();
      turned_ += s.TurnedSize();
      images_ += s.ImageSize() + s.PlaceSize();
      room_ = std::max(room_, s.RoomSize());
      slopes_ = std::max(slopes_, s.SlopesSize());
      list_ = std::max(list_, s.ListSize());
    }
    // Everything begins with a cache line.
    for (std::size_t* size : {&packed_, &turned_, &images_, &room_, &slopes_, &list_})
      *size = (*size + kLine - 1) / kLine * kLine;
    bits_ = stages_.empty() ? 0 : (stages_.front().in.size() / 64 + 2 + kLine) / kLine * kLine;
  }
  bool empty() const { return stages_.empty(); }
  std::size_t parameters() const { return parameters_; }
  const Stage& first() const { return stages_.front(); }
  std::size_t out() const { return stages_.empty() ? 0 : stages_.back().out.size(); }

  template <class Fill>      // fill(place in x, parameters, inputs of a unit)
  void Initialise(Fill fill) const {
    std::size_t at = 0;
    for (const Stage& s : stages_) {
      fill(at, s.parameters(), s.weights() / s.filters);
      at += s.parameters();
    }
  }

  // All methods below share `room`: as many doubles as this.
  std::size_t Room() const {
    return 2 * kLine + packed_ + turned_ + room_ + 2 * slopes_ + list_ + kBlock * (images_ + bits_);
  }
  void Prepare(View x, double* room) const {
    const Parts p = In(room);
    double *packed = p.packed, *turned = p.turned;
    const double* w = x.data();
    for (const Stage& s : stages_) {
      PackFilters(s, w, packed);
      TurnFilters(s, w, turned);
      packed += s.PackedSize(), turned += s.TurnedSize(), w += s.parameters();
    }
    double zero = 0;  // NaN if a filter is not finite
    for (std::size_t j = 0; j < first().parameters(); ++j) zero += 0.0 * x[j];
    *p.zero = zero;
  }
  // The record's trace is kept in place r < kBlock; its result goes to `flat`.
  void Forward(const Row& row, double* room, std::size_t r, double* flat) const {
    const Parts p = In(room);
    const double* packed = p.packed;
    double* in = Images(p, r);
    BitWord* bits = Bits(p, r);
    const std::size_t size = first().in.size();
    if (row.index != nullptr || row.size < size) {
      std::fill_n(in, size, 0.0);
      for (std::size_t k = 0; k < row.size; ++k) in[row.index[k]] = row.value[k];
    } else {
      std::copy_n(row.value, size, in);
    }
    std::fill_n(in + size, kImageSlack, 0.0);
    // By what this record holds alone, and the filters, which all records share.
    bits[bits_ - 1] = 4 * NonZeroBits(in, size, bits) < 3 * size && *p.zero == 0;
    for (const Stage& s : stages_) {
      const bool last = &s == &stages_.back(), sparse = &s == &first() && bits[bits_ - 1] != 0;
      double* next = in + s.ImageSize() + s.PlaceSize();
      ConvolveAndPool(s, in, packed, sparse ? bits : nullptr, p.room, last ? flat : next,
                      reinterpret_cast<Place*>(in + s.ImageSize()));
      packed += s.PackedSize();
      in = next;
    }
  }
  // From the slopes of the result in place r to the gradient of the filters.
  void Backward(const double* slopes, double* room, std::size_t r, double* gradient) const {
    const Parts p = In(room);
    const double *turned = p.turned, *in = Images(p, r);
    for (const Stage& s : stages_) turned += s.TurnedSize(), in += s.ImageSize() + s.PlaceSize();
    double *d = p.slopes, *e = d + slopes_;
    OutSlopes of{slopes, stages_.back().places(), 1};
    gradient += parameters_;
    for (std::size_t i = stages_.size(); i-- > 0;) {
      const Stage& s = stages_[i];
      in -= s.ImageSize() + s.PlaceSize();
      turned -= s.TurnedSize();
      gradient -= s.parameters();
      const auto* place = reinterpret_cast<const Place*>(in + s.ImageSize());
      const BitWord* bits = Bits(p, r);
      ConvolutionGradient(s, in, i == 0 && bits[bits_ - 1] != 0 ? bits : nullptr, place, of, p.list,
                          gradient);
      if (i == 0) return;
      ConvolveBack(s, turned, place, of, p.list, d);
      of = {d, 1, s.padded_channels()};
      std::swap(d, e);
    }
  }

 private:
  static constexpr std::size_t kLine = 64 / sizeof(double);
  // zero: 0, or NaN if a filter of the first stage is not finite.
  struct Parts {
    double *zero, *packed, *turned, *room, *slopes, *list, *traces;
  };
  Parts In(double* room) const {
    Parts p{};
    p.zero = room + ToLine(room);
    p.packed = p.zero + kLine;
    p.turned = p.packed + packed_;
    p.room = p.turned + turned_;
    p.slopes = p.room + room_;
    p.list = p.slopes + 2 * slopes_;
    p.traces = p.list + list_;
    return p;
  }
  // The images that enter the stages, each with the places of its stage's maxima; and which entries of the
  // first are not 0, with a last word that says whether that may be used.
  double* Images(const Parts& p, std::size_t r) const { return p.traces + r * (images_ + bits_); }
  BitWord* Bits(const Parts& p, std::size_t r) const {
    return reinterpret_cast<BitWord*>(Images(p, r) + images_);
  }
  std::vector<Stage> stages_;
  std::size_t parameters_ = 0, packed_ = 0, turned_ = 0, images_ = 0;
  std::size_t room_ = 0, slopes_ = 0, list_ = 0, bits_ = 0;
};

// Convolutions with pooling, then dense layers, then softmax cross-entropy.
//
// What WeightedSum adds for one record. A dense layer: δ aᵀ and δ, with the input a and the slope δ of the
// layer's sums as computed, kept as doubles; its length is ‖δ‖ √(‖a‖² + 1), so it is never formed. A
// convolution: the record's gradient is formed, kept, and measured. All sums over records are fused
// multiply-adds of doubles in the order of the records, after one rounding of weight·δ.
class Network final : public Objective {
 public:
  Network(const ModelSpec& spec, std::vector<Stage> stages)
      : front_(std::move(stages)), out_(spec.hidden), activation_(spec.activation), classes_(spec.classes) {
    out_.push_back(spec.classes);
    filters_ = front_.parameters();
    for (const std::size_t n : out_) sum_out_ += n;
    block_ = front_.empty() ? kRecordBlock : Front::kBlock;
  }

  std::size_t dim(std::size_t features) const override {
    const Layer last = At(out_.size() - 1, features);
    return last.bias + last.out;
  }

  std::vector<std::size_t> layers(std::size_t features) const override {
    std::vector<std::size_t> out;
    front_.Initialise([&](std::size_t, std::size_t count, std::size_t) { out.push_back(count); });
    for (std::size_t k = 0; k < out_.size(); ++k) {
      const Layer layer = At(k, features);
      out.push_back(layer.bias + layer.out - layer.weight);
    }
    return out;
  }

  void Initialise(std::uint64_t seed, std::size_t features, Span x) const override {
    TACIT_CHECK(x.size() == dim(features));
    Stream stream(StreamId{.seed = seed, .purpose = Purpose::kModel});
    const auto fill = [&](std::size_t at, std::size_t count, std::size_t fan_in) {
      const double bound = fan_in == 0 ? 0.0 : 1.0 / std::sqrt(static_cast<double>(fan_in));
      for (std::size_t i = 0; i < count; ++i) x[at + i] = bound * (2.0 * stream.Uniform() - 1.0);
    };
    front_.Initialise(fill);
    for (std::size_t k = 0; k < out_.size(); ++k) {
      const Layer layer = At(k, features);
      fill(layer.weight, layer.in * layer.out + layer.out, layer.in);
    }
  }

  double Value(const Shard& shard, View x, Workspace& ws) const override {
    if (shard.size() == 0) return 0;
    double sum = 0;
    ForScores(shard, x, ws, [&](std::size_t l, View z) {
      const double top = *std::max_element(z.begin(), z.end());
      double total = 0;
      for (const double v : z) total += std::exp(v - top);
      sum += std::log(total) + (top - z[Class(shard.label(l))]);
    });
    return sum / static_cast<double>(shard.size());
  }

  void RecordNorms(const Shard& shard, View x, Workspace& ws, Span norm) const override {
    const std::size_t m = shard.size(), features = shard.features();
    TACIT_CHECK(norm.size() == m);
    Prepare(x, features, m, ws);
    Turn(x, features, ws, 0);
    // The first layer of all records at once, where most of their entries are zeros: its weights are read
    // once.
    const RowEntries rows = WholeEntries(shard, ws);
    const bool whole = rows.rows > 0;
    const std::size_t from = whole ? 1 : 0;
    const View rest = x.subspan(Skipped(from, features));
    if (whole) {
      const Layer layer = At(0, features);
      double* z = Inputs(ws, 1, m, 0);
      SparseProduct(rows, ws.entries, x.data(), x.data() + layer.bias, layer.out, z, rows.behind, rows.ahead);
      Activate(activation_, z, m * layer.out);
    }
    for (std::size_t first = 0; first < m; first += block_) {
      const std::size_t count = std::min(block_, m - first);
      Forward(shard, rest, ws, first, count, m, first, from);
      Backward(shard, features, ws, first, count, m);
      for (std::size_t l = first; l < first + count; ++l) norm[l] = NormOf(shard, ws, l, m);
    }
  }

  void WeightedSum(const Shard& shard, View x, Workspace& ws, View weight, Span g) const override {
    SumInto(shard, x, ws, weight, false, g);
  }
  void FormWeightedSum(const Shard& shard, View x, Workspace& ws, View weight, Vec& g) const override {
    g.resize(x.size());
    SumInto(shard, x, ws, weight, true, g);
  }

  // Of a dense network the first layer is nearly all of the parameters, and the rows are its inputs. With x_s
  // the row of record s (and a 1 for the bias) and d_s the sum of −rate/b·δ_s over the steps that s was in,
  //   W_now = W + Σ_s x_s d_sᵀ,   W_nowᵀ x_r = Wᵀ x_r + Σ_s (x_s·x_r) d_s.
  // So W is read once for all steps and not written, and the update is written once. The other layers are
  // small: they make their steps.
  bool StepsByFactors(const Shard& own, const BatchSteps& steps, View w, Workspace& ws) const override {
    const std::size_t m = own.size(), features = own.features();
    if (!front_.empty() || out_.size() < 2 || !FewRecords(m, features) || !own.laid_out()) return false;
    for (std::size_t l = 0; l < m; ++l)
      if (!(own.norm(l) < 0x1p500)) return false;  // x_s·x_r might not be finite
    const std::size_t h = out_[0], head = (features + 1) * h, blocks = (m + steps.batch - 1) / steps.batch;
    TACIT_CHECK(w.size() == dim(features));
    // Records take their places in the order of the first pass, so that those that had no step come last.
    SetPlaces(steps, m, ws.order);
    const Kept kept = KeptIn(ws, m, features);
    const Span rest(kept.rest, w.size() - head);
    Copy(w.subspan(head), rest);
    StartSums(own, steps, w, kept, ws);
    Reserve(features, std::min(m, steps.batch), ws);
    Vec& weight = ws.c;  // without convolutions it is free
    for (std::size_t k = 0; k < steps.block.size(); ++k) {
      const std::size_t first = steps.block[k] * steps.batch, count = std::min(steps.batch, m - first);
      const std::size_t place = ws.order[m + steps.block[k]], known = k < blocks ? place : m;  // d = 0 after
      const double each = -steps.rate / static_cast<double>(count);
      const Shard batch = own.Slice(first, count);
      Turn(rest, features, ws, 1);
      weight.resize(count);
      for (std::size_t at = 0; at < count; at += kRecordBlock) {
        const std::size_t n = std::min(kRecordBlock, count - at);
        double *z = Inputs(ws, 1, count, at), *moved = kept.moved + (place + at) * h;
        const double *sum = kept.sum + (first + at) * h, *row[kRecordBlock];
        for (std::size_t r = 0; r < n; ++r) row[r] = kept.gram + (place + at + r) * m;
        DenseForward(row, n, known, kept.d, nullptr, h, moved);
        for (std::size_t i = 0; i < n * h; ++i) z[i] = sum[i] + moved[i];
        Activate(activation_, z, n * h);
        Forward(batch, rest, ws, at, n, count, at, 1);
        Backward(batch, features, ws, at, n, count);
        for (std::size_t l = at; l < at + n; ++l)
          weight[l] = NormOf(batch, ws, l, count) < kInfinite ? each : 0.0;
      }
      for (std::size_t l = 0; l < count; ++l) {
        const double* slope = Slopes(ws, 0, count, l);
        double* d = kept.d + (place + l) * h;
        if (k < blocks) std::fill_n(d, h, 0.0);
        if (weight[l] == 0)
          std::fill_n(kept.moved + (place + l) * h, h, 0.0);  // it may not be finite
        else
          for (std::size_t o = 0; o < h; ++o) d[o] += weight[l] * slope[o];
        std::copy_n(d, h, kept.factors + (first + l) * h);
      }
      AddRecords(batch, ws, weight, 1, rest);
    }
    return true;
  }

  void UpdateByFactors(const Shard& own, View w, const Workspace& ws, Vec& update) const override {
    const std::size_t m = own.size(), features = own.features();
    const Layer layer = At(0, features);
    const std::size_t h = layer.out, tail = layer.bias + h;
    const double *d = ws.factors.data() + ToLine(ws.factors.data()), *rest = ws.kept.data();
    update.resize(w.size());
    if (const RowEntries rows = EntriesOf(own, ws); rows.rows > 0) {
      SparseOuter(rows, d, h, update.data());
    } else {
      std::fill_n(update.data(), layer.bias, 0.0);
      const double *row[kRecordBlock], *of[kRecordBlock];
      for (std::size_t at = 0; at < m; at += kRecordBlock) {
        const std::size_t n = std::min(kRecordBlock, m - at);
        for (std::size_t r = 0; r < n; ++r) row[r] = own.row(at + r).value, of[r] = d + (at + r) * h;
        AddOuter(row, of, n, features, h, update.data());
      }
    }
    SumOfFactors(d, m, h, update.data() + layer.bias);
    for (std::size_t j = tail; j < w.size(); ++j) update[j] = rest[j - tail] - w[j];
  }

  void FactorsOfUpdate(const Shard& own, View w, Workspace& ws, FactoredVec& update) const override {
    const std::size_t m = own.size(), features = own.features();
    const Layer layer = At(0, features);
    const std::size_t h = layer.out, head = layer.bias + h;
    const bool kept = own.entries() != nullptr;
    if (!kept && ws.entries.rows != m) {
      update.columns = 0;
      return UpdateByFactors(own, w, ws, update.tail);
    }
    const double *d = ws.factors.data() + ToLine(ws.factors.data()), *rest = ws.kept.data();
    update.tail.resize(w.size() - layer.bias);
    SumOfFactors(d, m, h, update.tail.data());
    for (std::size_t j = head; j < w.size(); ++j) update.tail[j - layer.bias] = rest[j - head] - w[j];
    update.length = LengthOfFactors(own, ws, View(update.tail).subspan(h));
    update.columns = features;
    update.out = h;
    update.kept = kept ? own.entries()->by_column : ColumnEntries{};
    if (!kept) std::swap(update.x, ws.entries.by_column);
    std::swap(update.factors, ws.factors);
    ws.entries.rows = 0;
  }

  // Few records make their steps by factors, and many are taken together by RecordNorms.
  bool KeepsEntries(std::size_t records, std::size_t features) const override {
    return front_.empty() && out_.size() > 1 && records <= kMostFactors &&
           (records > kRecordBlock || FewRecords(records, features));
  }

  // weight·δ is one, the fused additions are m; one to spare.
  std::size_t Roundings(std::size_t records) const override { return records + 2; }

  std::optional<double> RecordBound(double) const override { return std::nullopt; }
  std::optional<double> Smoothness(double) const override { return std::nullopt; }

  std::size_t outputs() const override { return classes_; }
  void Predict(const Shard& shard, View x, Span out) const override {
    TACIT_CHECK(out.size() == shard.size() * classes_);
    Workspace ws;
    ForScores(shard, x, ws, [&](std::size_t l, View z) { Copy(z, out.subspan(l * classes_, classes_)); });
  }
  std::optional<double> Accuracy(const Shard& shard, View x) const override {
    if (shard.size() == 0) return std::nullopt;
    Workspace ws;
    std::size_t right = 0;
    ForScores(shard, x, ws, [&](std::size_t l, View z) {
      right +=
          static_cast<std::size_t>(std::max_element(z.begin(), z.end()) - z.begin()) == Class(shard.label(l));
    });
    return static_cast<double>(right) / static_cast<double>(shard.size());
  }

 private:
  // WeightedSum; fresh: what was in g does not count.
  void SumInto(const Shard& shard, View x, Workspace& ws, View weight, bool fresh, Span g) const {
    TACIT_CHECK(weight.size() == shard.size() && g.size() == x.size() && x.size() == dim(shard.features()));
    const std::size_t m = shard.size(), features = shard.features();
    // They are kept, or RecordNorms has gathered them all; no block of AddRecords is that long.
    const bool kept = shard.entries() != nullptr && MayBeWhole(m);
    if (m <= kRecordBlock || !(kept || ws.entries.rows == m) ||
        std::find(weight.begin(), weight.end(), 0.0) != weight.end()) {
      if (fresh) Fill(g, 0.0);
      return AddRecords(shard, ws, weight, 0, g);
    }
    const Layer layer = At(0, features);
    if (!kept) {
      Row row[kMostFactors];
      for (std::size_t l = 0; l < m; ++l) row[l] = shard.row(l);
      TurnEntries(row, ws.entries);
    }
    const RowEntries rows = EntriesOf(shard, ws);
    Grow(ws.factors, m * layer.out + 8);
    double *d = ws.factors.data() + ToLine(ws.factors.data()), *bias = g.data() + layer.bias;
    for (std::size_t l = 0; l < m; ++l) {
      const double* slope = Slopes(ws, 0, m, l);
      for (std::size_t o = 0; o < layer.out; ++o) d[l * layer.out + o] = weight[l] * slope[o];
    }
    if (fresh) {
      SparseOuter(rows, d, layer.out, g.data());
      Fill(g.subspan(layer.bias), 0.0);
    } else {
      AddSparseOuter(rows, d, layer.out, g.data());
    }
    for (std::size_t l = 0; l < m; ++l)
      for (std::size_t o = 0; o < layer.out; ++o) bias[o] += d[l * layer.out + o];
    AddRecords(shard, ws, weight, 1, g.subspan(layer.bias + layer.out));
  }

  struct Layer {
    std::size_t in, out, weight, bias;  // the places in x of w (in × out) and b
  };
  std::size_t Flat(std::size_t features) const {
    if (front_.empty()) return features;
    TACIT_CHECK(features == front_.first().in.size());
    return front_.out();
  }
  Layer At(std::size_t k, std::size_t features) const {
    Layer layer{Flat(features), out_[0], filters_, 0};
    for (std::size_t i = 0;; ++i) {
      layer.bias = layer.weight + layer.in * layer.out;
      if (i == k) return layer;
      layer = {layer.out, out_[i + 1], layer.bias + layer.out, 0};
    }
  }
  std::size_t FirstPassed() const { return front_.empty() ? 1 : 0; }  // first layer that passes slopes on

  // Workspace. a: inputs of the dense layers that are computed, layer by layer, m records each; b: their
  // slopes likewise, the last ones first serving as scores; c: gradients of the filters, record by record;
  // d: scratch: one block's weight·δ, then from TurnedAt() the transposed weights, then from FrontAt() the
  // slopes of a block of images and what the convolutions need.
  double* Inputs(Workspace& ws, std::size_t k, std::size_t m, std::size_t l) const {
    std::size_t at = 0, width = front_.out();
    for (std::size_t i = 0; i < k; ++i) {
      at += width;
      width = out_[i];
    }
    return ws.a.data() + at * m + l * width;
  }
  double* Slopes(Workspace& ws, std::size_t k, std::size_t m, std::size_t l) const {
    std::size_t at = 0;
    for (std::size_t i = 0; i < k; ++i) at += out_[i];
    return ws.b.data() + at * m + l * out_[k];
  }
  std::size_t TurnedAt() const { return kRecordBlock * *std::max_element(out_.begin(), out_.end()); }
  std::size_t FrontAt(std::size_t features) const {
    std::size_t at = TurnedAt();
    for (std::size_t k = FirstPassed(); k < out_.size(); ++k) {
      const Layer layer = At(k, features);
      at += layer.in * layer.out;
    }
    return at;
  }
  // Parameters before layer k.
  std::size_t Skipped(std::size_t k, std::size_t features) const {
    return k == 0 ? 0 : At(k, features).weight;
  }
  // Wᵀ of every layer that passes slopes on; x begins with layer `from`, at most the first of them.
  void Turn(View x, std::size_t features, Workspace& ws, std::size_t from) const {
    const std::size_t skip = Skipped(from, features);
    double* turned = ws.d.data() + TurnedAt();
    for (std::size_t k = FirstPassed(); k < out_.size(); ++k) {
      const Layer layer = At(k, features);
      Transpose(x.data() + (layer.weight - skip), layer.in, layer.out, turned);
      turned += layer.in * layer.out;
    }
  }
  void Prepare(View x, std::size_t features, std::size_t m, Workspace& ws) const {
    TACIT_CHECK(x.size() == dim(features));
    Reserve(features, m, ws);
    if (!front_.empty()) front_.Prepare(x, FrontRoom(ws, features));
  }
  void Reserve(std::size_t features, std::size_t m, Workspace& ws) const {
    Grow(ws.a, (front_.out() + sum_out_ - classes_) * m);
    Grow(ws.b, sum_out_ * m);
    Grow(ws.c, filters_ * m);
    Grow(ws.d, FrontAt(features) + block_ * front_.out() + front_.Room());
  }
  double* ImageSlopes(Workspace& ws, std::size_t features) const { return ws.d.data() + FrontAt(features); }
  double* FrontRoom(Workspace& ws, std::size_t features) const {
    return ImageSlopes(ws, features) + block_ * front_.out();
  }

  // Whether these dense rows are mostly zeros; if so, ws.entries has the rest of them. Of a few rows
  // that would take longer than it saves.
  bool Gathered(const double* const* row, std::size_t count, std::size_t in, Workspace& ws,
                bool columns) const {
    if (count < 16 || !front_.empty()) return false;
    Row rows[kRecordBlock];
    for (std::size_t r = 0; r < count; ++r) rows[r] = {row[r], nullptr, in};
    if (!GatherEntries(rows, count, in, ws.entries)) return false;
    if (columns) TurnEntries(rows, ws.entries);
    return true;
  }

  // The entries that are kept with a shard, or else those that the workspace has of it, if it has any.
  static RowEntries EntriesOf(const Shard& shard, const Workspace& ws) {
    if (shard.entries() != nullptr) return *shard.entries();
    return ws.entries.rows == shard.size() ? ws.entries.view() : RowEntries{};
  }
  // Those of all records of a shard that are more than a block, of a network with a hidden layer, if they are
  // mostly zeros.
  bool MayBeWhole(std::size_t m) const {
    return front_.empty() && out_.size() > 1 && m > kRecordBlock && m <= kMostFactors;
  }
  RowEntries WholeEntries(const Shard& shard, Workspace& ws) const {
    ws.entries.rows = 0;
    const std::size_t m = shard.size();
    if (!MayBeWhole(m) || shard.sparse() ||
        shard.dataset().maker != nullptr)  // rows that are made when they are read do not stay that long
      return {};
    if (shard.entries() == nullptr) {
      Row rows[kMostFactors];
      for (std::size_t l = 0; l < m; ++l) rows[l] = shard.row(l);
      if (!GatherEntries(rows, m, shard.features(), ws.entries)) return {};
    }
    return EntriesOf(shard, ws);
  }

  // g ← g + Σ_l weight[l] ∇f_l for the parameters from layer `from` on, with which g begins.
  void AddRecords(const Shard& shard, Workspace& ws, View weight, std::size_t from, Span g) const {
    const std::size_t m = shard.size(), features = shard.features();
    const std::size_t skip = Skipped(from, features);
    std::size_t record[kRecordBlock];
    double w[kRecordBlock], one[kRecordBlock];
    std::fill_n(one, kRecordBlock, 1.0);
    const double *row[kRecordBlock], *scaled[kRecordBlock];
    for (std::size_t l = 0; l < m;) {
      std::size_t count = 0;
      for (; l < m && count < kRecordBlock; ++l) {
        if (weight[l] == 0) continue;
        record[count] = l;
        w[count++] = weight[l];
      }
      if (filters_ > 0 && from == 0) {
        for (std::size_t r = 0; r < count; ++r) row[r] = ws.c.data() + record[r] * filters_;
        AddWeighted(w, row, count, filters_, g.data());
      }
      for (std::size_t k = from; k < out_.size(); ++k) {
        const Layer layer = At(k, features);
        double* d = ws.d.data();
        for (std::size_t r = 0; r < count; ++r, d += layer.out) {
          const double* slope = Slopes(ws, k, m, record[r]);
          for (std::size_t o = 0; o < layer.out; ++o) d[o] = w[r] * slope[o];
          scaled[r] = d;
        }
        double* into = g.data() + (layer.weight - skip);
        if (k == 0 && front_.empty() && shard.sparse()) {
          Row sparse[kRecordBlock];
          for (std::size_t r = 0; r < count; ++r) sparse[r] = shard.row(record[r]);
          AddSparseOuter(sparse, scaled, count, layer.in, layer.out, into);
        } else {
          for (std::size_t r = 0; r < count; ++r)
            row[r] = k == 0 && front_.empty() ? shard.row(record[r]).value : Inputs(ws, k, m, record[r]);
          if (k == 0 && Gathered(row, count, layer.in, ws, true))
            AddSparseOuter(ws.entries, ws.d.data(), layer.out, into);
          else
            AddOuter(row, scaled, count, layer.in, layer.out, into);
        }
        AddWeighted(one, scaled, count, layer.out, g.data() + (layer.bias - skip));
      }
    }
  }

  // By public sizes: a sum over factors has m terms where one over a row has as many as it has non-zeros, and
  // the products x_s·x_r cost what m/2 more outputs of the layer would.
  static constexpr std::size_t kMostFactors = 128;
  bool FewRecords(std::size_t m, std::size_t features) const {
    return m > 0 && m <= kMostFactors && 8 * m <= features && m <= 2 * out_[0];
  }
  // ws.factors of m records: d (m × h), from the first cache line on. ws.kept: the parameters after the first
  // layer, which the update is made of with d; then the sums of the first layer at w (m × h). After them
  // records are in the order of their places: d again, from a cache line on, the products x_s·x_r + 1
  // (m × m), and by how much the steps before had moved the sums of a record when its last step began
  // (m × h). Then m × m of scratch.
  struct Kept {
    double *factors, *rest, *sum, *d, *gram, *moved, *room;
  };
  Kept KeptIn(Workspace& ws, std::size_t m, std::size_t features) const {
    const std::size_t h = out_[0], rest = dim(features) - (features + 1) * h;
    Grow(ws.factors, m * h + 8);
    Grow(ws.kept, rest + 3 * m * h + 2 * m * m + 8);
    Kept k{};
    k.factors = ws.factors.data() + ToLine(ws.factors.data());
    k.rest = ws.kept.data();
    k.sum = k.rest + rest;
    k.d = k.sum + m * h;
    k.d += ToLine(k.d);
    k.gram = k.d + m * h;
    k.moved = k.gram + m * m;
    k.room = k.moved + m * h;
    return k;
  }
  // b[o] = Σ_s d[s·h + o], s ascending.
  static void SumOfFactors(const double* d, std::size_t m, std::size_t h, double* b) {
    const double* row[kMostFactors];
    double ones[kMostFactors];
    for (std::size_t s = 0; s < m; ++s) row[s] = d + s * h, ones[s] = 1.0;
    std::fill_n(b, h, 0.0);
    AddWeighted(ones, row, m, h, b);
  }
  // order[p] is the record in place p < m; order[m + b] the first place of block b; order[m + blocks + p] the
  // first place of the block of place p, or 0 if there is more than one pass.
  static void SetPlaces(const BatchSteps& steps, std::size_t m, std::vector<std::uint32_t>& order) {
    const std::size_t blocks = (m + steps.batch - 1) / steps.batch;
    TACIT_CHECK(steps.block.size() >= blocks);
    order.resize(2 * m + blocks);
    std::uint32_t place = 0;
    for (std::size_t k = 0; k < blocks; ++k) {
      const std::size_t first = steps.block[k] * steps.batch;
      const std::uint32_t begin = order[m + steps.block[k]] = place;
      for (std::size_t l = first; l < std::min(first + steps.batch, m); ++l) {
        order[m + blocks + place] = steps.block.size() > blocks ? 0 : begin;
        order[place++] = static_cast<std::uint32_t>(l);
      }
    }
    TACIT_CHECK(place == m);
  }
  // At least the length of the update, from the products of rows: with x_s the row and a 1 for the bias,
  //   ‖Σ_s x_s d_sᵀ‖² = Σ_rs (x_r·x_s)(d_r·d_s) = G.
  // In one pass a record's d is final once its step is made, and the steps have summed what a record has with
  // those of earlier steps: Σ_s (x_r·x_s) d_s = V_r. Then the terms of both orders are 2 d_r·V_r, and the
  // products of factors are needed within a step only.
  // Let S = Σ_s ‖x_s‖‖d_s‖. A computed product of rows errs by γ_{features+2}‖x_r‖‖x_s‖, one of factors, or
  // of d_r with V_r, by γ_{h+4} of the lengths, V_r by γ_{m+1}, and the sum has fewer than m² + 2 further
  // roundings on a term's way: the computed G is off by at most γ_k S², k = features + h + m² + m + 16. The
  // coordinates that are formed of the factors are sums of m fused products, so they are off by a vector no
  // longer than γ_{m+1} S. `rest` is there as it is.
  double LengthOfFactors(const Shard& own, Workspace& ws, View rest) const {
    const std::size_t m = own.size(), features = own.features(), h = out_[0];
    const Kept kept = KeptIn(ws, m, features);
    const double *d = kept.d, *gram = kept.gram, *moved = kept.moved;
    const std::uint32_t* begin = ws.order.data() + (ws.order.size() - m);
    double sum = 0, spread = 0;
    for (std::size_t r = 0; r < m; r += 2) {
      const std::size_t next = std::min(r + 1, m - 1);
      for (std::size_t k = r; k < std::min(r + 2, m); ++k)
        if (begin[k] > 0) sum += 2.0 * Dot(View(d + k * h, h), View(moved + k * h, h));
      for (std::size_t s = begin[r]; s <= next; s += 4) {
        const double* e[4];
        for (std::size_t i = 0; i < 4; ++i) e[i] = d + std::min(s + i, m - 1) * h;
        double of[2][4];
        ProductsOfRows(d + r * h, d + next * h, e, h, of);
        for (std::size_t k = 0; k < 2 && r + k < m; ++k)
          for (std::size_t i = 0; i < 4 && s + i <= r + k; ++i)
            if (s + i >= begin[r + k])
              sum += (s + i < r + k ? 2.0 : 1.0) * gram[(r + k) * m + s + i] * of[k][i];
      }
    }
    for (std::size_t s = 0; s < m; ++s) {
      const double norm = own.norm(ws.order[s]);
      spread += std::sqrt(norm * norm + 1.0) * LengthUp(View(d + s * h, h));
    }
    constexpr double kUnit = 0x1p-52;  // twice the unit roundoff: pays for 1/(1 − k·u), and these lines
    const double k = static_cast<double>(features + h + m * m + m + 16) * kUnit;
    spread *= 1.0 + static_cast<double>(m + 8) * kUnit;
    const double head = std::sqrt((sum > 0 ? sum : 0.0) + k * spread * spread) * (1.0 + 8 * kUnit) +
                        static_cast<double>(m + 2) * kUnit * spread;
    const double tail = std::sqrt(NormSquared(rest)) * (1.0 + static_cast<double>(rest.size() + 16) * kUnit);
    // 2⁻⁴⁸⁰ is for what underflows in squares. NaN stays NaN.
    return std::sqrt(head * head + tail * tail) * (1.0 + 16 * kUnit) + 0x1p-480 + (sum - sum);
  }

  // The sums of the first layer at w, and the products of rows; if every record is in one step only, those
  // with the records of its own and earlier steps alone.
  void StartSums(const Shard& own, const BatchSteps& steps, View w, const Kept& kept, Workspace& ws) const {
    const std::size_t m = own.size(), features = own.features(), h = out_[0];
    const std::size_t blocks = (m + steps.batch - 1) / steps.batch;
    const double* bias = w.data() + At(0, features).bias;
    const double* products[kMostFactors];  // of record r with those up to r
    for (std::size_t r = 0; r < m; ++r) products[r] = kept.room + r * m;
    if (const RowEntries* x = own.entries(); x != nullptr) {
      SparseProduct(*x, ws.entries, w.data(), bias, h, kept.sum, x->behind, x->ahead);
      for (std::size_t r = 0; r < m; ++r) products[r] = x->products + r * (r + 1) / 2;
    } else {
      Row row[kMostFactors] = {};
      for (std::size_t l = 0; l < m; ++l) row[l] = own.row(l);
      if (GatherEntries(row, m, features, ws.entries)) {
        // What lies behind the rows is likely the next client's.
        const bool dense = !own.sparse();
        const double* behind = dense ? own.dataset().dense() + (own.begin() + m) * features : nullptr;
        const std::size_t left = dense ? own.dataset().rows() - own.begin() - m : 0;
        SparseProduct(ws.entries.view(), ws.entries, w.data(), bias, h, kept.sum, behind,
                      std::min(left, m) * features);
        TurnEntries(row, ws.entries);
        std::uint32_t end[kMostFactors];
        for (std::size_t r = 0; r < m; ++r) end[r] = static_cast<std::uint32_t>(r + 1);
        ProductsWithin(ws.entries, end, kept.room);
      } else {
        DenseSums(row, m, features, w.data(), bias, kept, ws);
      }
    }
    const std::uint32_t *order = ws.order.data(), *place = order + m;
    for (std::size_t k = 0, p = 0; k < blocks; ++k) {
      const std::size_t next =
          place[steps.block[k]] + std::min(steps.batch, m - steps.block[k] * steps.batch);
      const std::size_t end = steps.block.size() > blocks ? m : next;
      for (; p < next; ++p)
        for (std::size_t q = 0; q < end; ++q) {
          const std::size_t r = std::max(order[p], order[q]), s = std::min(order[p], order[q]);
          kept.gram[p * m + q] = products[r][s];
        }
    }
  }
  // The same sums and products of rows that are not mostly zeros.
  void DenseSums(const Row* row, std::size_t m, std::size_t features, const double* w, const double* bias,
                 const Kept& kept, Workspace& ws) const {
    const std::size_t h = out_[0];
    Vec& turned = ws.entries.turned;  // free
    Grow(turned, features * m + m);
    for (std::size_t l = 0; l < m; ++l)
      for (std::size_t j = 0; j < features; ++j) turned[j * m + l] = row[l].value[j];
    double* ones = turned.data() + features * m;
    std::fill_n(ones, m, 1.0);
    for (std::size_t at = 0; at < m; at += kRecordBlock) {
      const std::size_t n = std::min(kRecordBlock, m - at);
      const double* x[kRecordBlock];
      for (std::size_t r = 0; r < n; ++r) x[r] = row[at + r].value;
      DenseForward(x, n, features, w, bias, h, kept.sum + at * h);
      DenseForward(x, n, features, turned.data(), ones, m, kept.room + at * m);
    }
  }

  // Scores of all records in blocks: f(record, scores).
  template <class F>
  void ForScores(const Shard& shard, View x, Workspace& ws, F f) const {
    Prepare(x, shard.features(), block_, ws);
    for (std::size_t first = 0; first < shard.size(); first += block_) {
      const std::size_t count = std::min(block_, shard.size() - first);
      Forward(shard, x, ws, first, count, block_, 0);
      for (std::size_t r = 0; r < count; ++r)
        f(first + r, View(Slopes(ws, out_.size() - 1, block_, r), classes_));
    }
  }

  // Records first … first + count of the shard, to the places `at` … of a workspace for m records: inputs
  // of all layers, and scores. With `from` > 0 the inputs of layer `from` are there already, and x begins
  // with its parameters.
  void Forward(const Shard& shard, View x, Workspace& ws, std::size_t first, std::size_t count, std::size_t m,
               std::size_t at, std::size_t from = 0) const {
    const std::size_t layers = out_.size(), features = shard.features(), skip = Skipped(from, features);
    if (!front_.empty())
      for (std::size_t r = 0; r < count; ++r)
        front_.Forward(shard.row(first + r), FrontRoom(ws, features), r, Inputs(ws, 0, m, at + r));
    for (std::size_t k = from; k < layers; ++k) {
      const Layer layer = At(k, features);
      const bool last = k + 1 == layers;
      double* z = last ? Slopes(ws, k, m, at) : Inputs(ws, k + 1, m, at);
      const double *w = x.data() + (layer.weight - skip), *b = x.data() + (layer.bias - skip);
      if (k == 0 && front_.empty() && shard.sparse()) {
        for (std::size_t r = 0; r < count; ++r)
          SparseForward(shard.row(first + r), w, b, layer.out, z + r * layer.out);
      } else {
        const double* row[kRecordBlock];
        for (std::size_t r = 0; r < count; ++r)
          row[r] = k == 0 && front_.empty() ? shard.row(first + r).value : Inputs(ws, k, m, at + r);
        if (k == 0 && Gathered(row, count, layer.in, ws, false))
          SparseProduct(ws.entries, w, b, layer.out, z);
        else
          DenseForward(row, count, layer.in, w, b, layer.out, z);
      }
      if (!last) Activate(activation_, z, count * layer.out);
    }
  }

  // Scores → slopes of all layers, and the gradients of the filters.
  void Backward(const Shard& shard, std::size_t features, Workspace& ws, std::size_t first, std::size_t count,
                std::size_t m) const {
    const std::size_t layers = out_.size();
    for (std::size_t l = first; l < first + count; ++l)
      Residual(Span(Slopes(ws, layers - 1, m, l), classes_), Class(shard.label(l)));
    const double* turned = ws.d.data() + TurnedAt();
    for (std::size_t k = FirstPassed(); k < layers; ++k) {
      const Layer layer = At(k, features);
      turned += layer.in * layer.out;
    }
    for (std::size_t k = layers; k-- > FirstPassed();) {
      const Layer layer = At(k, features);
      turned -= layer.in * layer.out;
      const double* row[kRecordBlock];
      for (std::size_t r = 0; r < count; ++r) row[r] = Slopes(ws, k, m, first + r);
      double* d = k > 0 ? Slopes(ws, k - 1, m, first) : ImageSlopes(ws, features);
      DenseForward(row, count, layer.out, turned, nullptr, layer.in, d);
      if (k > 0) Deactivate(activation_, Inputs(ws, k, m, first), d, count * layer.in);
    }
    if (!front_.empty())
      for (std::size_t r = 0; r < count; ++r)
        front_.Backward(ImageSlopes(ws, features) + r * front_.out(), FrontRoom(ws, features), r,
                        ws.c.data() + (first + r) * filters_);
  }

  // z ← p − e_y, p = softmax(z); NaN if a score is NaN or +∞.
  static void Residual(Span z, std::size_t y) {
    double top = z[0];
    for (const double v : z) top = v > top ? v : top;
    for (double& v : z) v = ExpNonPositive(v - top);
    double rest = 0;
    for (std::size_t c = 0; c < z.size(); ++c) rest += c == y ? 0.0 : z[c];
    const double total = rest + z[y];
    for (std::size_t c = 0; c < z.size(); ++c) z[c] = (c == y ? -rest : z[c]) / total;
  }

  double NormOf(const Shard& shard, Workspace& ws, std::size_t l, std::size_t m) const {
    // ‖∇‖² is the sum of the squares of the parts' lengths, each at least the real one.
    double square = 0;
    const auto add = [&square](double part) { square += part * part; };
    if (filters_ > 0) add(LengthUp(View(ws.c.data() + l * filters_, filters_)));
    for (std::size_t k = 0; k < out_.size(); ++k) {
      const double slope = LengthUp(View(Slopes(ws, k, m, l), out_[k]));
      double input = shard.norm(l);
      if (k > 0 || !front_.empty())
        input = LengthUp(View(Inputs(ws, k, m, l), k > 0 ? out_[k - 1] : front_.out()));
      add(NormBound(slope, std::sqrt(input * input + 1.0) * (1.0 + 0x1p-51)));
    }
    // The parts are 0 or at least 2⁻⁵⁰⁰, so no square vanishes; a row whose norm is not finite spreads.
    return std::sqrt(square) * (1.0 + static_cast<double>(out_.size() + 16) * 0x1p-52) +
           (shard.norm(l) - shard.norm(l));
  }

  std::size_t Class(double label) const {
    return label >= 0 && label < static_cast<double>(classes_) ? static_cast<std::size_t>(label) : 0;
  }

  Front front_;
  std::vector<std::size_t> out_;  // widths of the dense layers; the last is the number of classes
  Activation activation_;
  std::size_t classes_, filters_ = 0, sum_out_ = 0, block_ = 0;
};

}  // namespace

Result<std::unique_ptr<Objective>> MakeNetwork(const ModelSpec& spec) {
  constexpr std::size_t kWidest = 1u << 20;  // LengthUp counts on less than 2²²
  if (spec.classes < 2 || spec.classes > kWidest)
    return Fail(Code::kInvalidArgument, "classes = {}: must be in [2, {}]", spec.classes, kWidest);
  for (const std::size_t width : spec.hidden)
    if (width < 1 || width > kWidest)
      return Fail(Code::kInvalidArgument, "hidden width = {}: must be in [1, {}]", width, kWidest);
  std::vector<Stage> stages;
  if (spec.loss == Loss::kCnn) {
    if (spec.convolutions.empty())
      return Fail(Code::kInvalidArgument, "a cnn without a convolution: give at least one, or use mlp");
    Plane in{spec.channels, spec.height, spec.width};
    if (in.channels < 1 || in.height < 1 || in.width < 1 || in.channels > kWidest ||
        in.height > kWidest / in.channels || in.width > kWidest / (in.channels * in.height))
      return Fail(Code::kInvalidArgument,
                  "image of {} x {} with {} channels: needs at least 1 and at most {} values", in.height,
                  in.width, in.channels, kWidest);
    std::size_t parameters = 0;
    for (const Convolution& c : spec.convolutions) {
      if (c.kernel < 1 || c.kernel > in.height || c.kernel > in.width)
        return Fail(Code::kInvalidArgument, "kernel = {}: must be in [1, {}], the image that reaches it",
                    c.kernel, std::min(in.height, in.width));
      const std::size_t rows = in.height - c.kernel + 1, columns = in.width - c.kernel + 1;
      if (c.filters < 1 || c.filters > kWidest / (rows * columns) ||
          c.filters > kWidest / (in.channels * c.kernel * c.kernel + 1))
        return Fail(Code::kInvalidArgument, "filters = {}: must be at least 1, with at most {} values in all",
                    c.filters, kWidest);
      const std::size_t half = c.pool == Pooling::kNone ? 1 : 2;
      if (rows < half || columns < half)
        return Fail(Code::kInvalidArgument, "pooling of {} x {}: the image is too small", rows, columns);
      Stage s{in,
              {c.filters, rows / half * half, columns / half * half},
              {c.filters, rows / half, columns / half},
              c.filters,
              c.kernel,
              c.relu,
              c.pool,
              c.pool == Pooling::kMax && internal::SimdInUse() == internal::Simd::kAvx512};
      parameters += s.parameters();
      in = s.out;
      stages.push_back(s);
    }
    if (parameters > kWidest)
      return Fail(Code::kInvalidArgument, "{} parameters in convolutions: must be at most {}", parameters,
                  kWidest);
  }
  return {std::make_unique<Network>(spec, std::move(stages))};
}

}  // namespace tacit
