#pragma once

// What is minimised: f(x) = (1/m) Σ_l f_l(x) over one client's records — the part that depends on
// data. Regularisers are public and live in regularizer.h.
//
//   logistic       f_l(x) = log(1 + exp(−y aᵀx)),  y = ±1 (a label > 0 counts as +1, any other as −1)
//   softmax        f_l(x) = log Σ_c exp(aᵀx_c) − aᵀx_y,  y in 0 … K−1 (any other label counts as 0);
//                  x is K × features, row-major: x_c = x[c·features … (c + 1)·features)
//   least squares  f_l(x) = ½ (aᵀx − y)²
//   absolute       f_l(x) = |aᵀx − y|, with the subgradient sign(aᵀx − y)·a, sign(0) = 0
//   huber          f_l(x) = ½ r² for |r| ≤ τ, τ(|r| − ½τ) beyond, r = aᵀx − y
//   hinge          f_l(x) = max(0, 1 − t), t = y aᵀx, with the subgradient 0 at t = 1
//   smoothed hinge f_l(x) = 0 for t ≥ 1, (1 − t)²/(2τ) for 1 − τ ≤ t ≤ 1, 1 − t − τ/2 below
//   mlp            dense layers a ← φ(Wᵀa + b), the last without φ, then the softmax loss of its outputs
//   cnn            valid convolutions, each with ReLU if asked and 2 × 2 pooling, then an mlp
//
// A network's x holds, layer after layer, w and then b, as PyTorch's parameters() lists them:
//   convolution  w filters × channels × kernel × kernel (as in PyTorch), b filters; images are channels ×
//                height × width
//   dense        w in × out, row-major: the transpose of PyTorch's, so that a sparse row touches whole
//                rows of w; b out. After convolutions the inputs are channels × height × width.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/vec.h"
#include "data/dataset.h"
#include "models/entries.h"

namespace tacit {

// Scratch of one thread: grows to its largest use and is then reused, so rounds do not allocate.
struct Workspace {
  Vec a, b, c, d;
  Entries entries;
  // Of StepsByFactors; with the entries they are what UpdateByFactors makes the update of. FactorsOfUpdate
  // hands the factors and columns on, and leaves other memory for the next.
  Vec factors, kept;
  std::vector<std::uint32_t> order;
};

// Steps of gradient descent on blocks of neighbouring records, pass after pass: step k is on the records from
// block[k]·batch on, `batch` of them or as many as there are. Every pass has every block once.
struct BatchSteps {
  double rate = 0;
  std::size_t batch = 1;
  std::span<const std::uint32_t> block = {};
};

// loss = below·(margin − at) up to margin = at, above·(margin − at) beyond; below ≤ above.
struct Kink {
  double at = 0, below = 0, above = 0;
};

// Contracts. Thread-safe: all methods are const and keep nothing. No method may depend on anything
// but its arguments, write anywhere else, or branch to an error on data: non-finite input yields
// some value, and the clipper turns a record whose norm is not finite into the zero vector.
// The same arguments give the same bits, on any thread.
class Objective {
 public:
  virtual ~Objective() = default;

  virtual std::size_t dim(std::size_t features) const = 0;  // length of x
  // Its parts, in order: what a network's layers hold, weights and biases; a linear model is one part.
  virtual std::vector<std::size_t> layers(std::size_t features) const { return {dim(features)}; }

  // Where training starts: 0 for a linear model; a network draws weights and biases uniformly from
  // ±1/√(inputs of the unit), since 0 is a saddle. Public: a function of the seed alone.
  virtual void Initialise(std::uint64_t /*seed*/, std::size_t features, Span x) const {
    TACIT_CHECK(x.size() == dim(features));
    Fill(x, 0.0);
  }

  // (1/m) Σ f_l(x); 0 for an empty shard.
  virtual double Value(const Shard&, View x, Workspace&) const = 0;

  // Per-record gradients in two passes, so that clipping costs O(1) a record (or O(layers)) and no
  // gradient of a single record is ever formed:
  //   RecordNorms   fills norm[l] ≥ ‖∇f_l(x)‖₂ in real arithmetic (rounding included), and keeps in
  //                 the workspace what the second pass needs;
  //   WeightedSum   g ← g + Σ_l weight[l] ∇f_l(x), same shard, x and workspace.
  // Here ∇f_l is the vector that WeightedSum adds: (computed derivative of the loss) · row. The bound
  // holds for that vector, whose sensitivity is what counts, and not merely for the mathematical
  // gradient that it approximates. norm[l] is not finite if the derivative or the row's norm is not.
  // A weight of 0 contributes exactly nothing, even if the record is not finite. Of x the second pass uses
  // the length alone, so g may be x itself: a step of gradient descent in place.
  virtual void RecordNorms(const Shard&, View x, Workspace&, Span norm) const = 0;
  virtual void WeightedSum(const Shard&, View x, Workspace&, View weight, Span g) const = 0;
  // g ← the sum alone, the same bits as added to zeros, which a model with a long g need not write first.
  virtual void FormWeightedSum(const Shard& shard, View x, Workspace& ws, View weight, Vec& g) const {
    g.assign(x.size(), 0.0);
    WeightedSum(shard, x, ws, weight, g);
  }

  // g ← Σ_l clip_c(∇f_l(x)) where there is a shorter way than RecordNorms, weights and WeightedSum: a model
  // with one margin clips the slope itself (clip_weight.h). A record's term is in the ball in real
  // arithmetic, and 0 if it cannot be measured; a term sees no more roundings than Roundings says. The bits
  // are those of the records alone, however they are stored. False, with g untouched: there is no such way.
  virtual bool ClippedSum(const Shard&, View /*x*/, double /*c*/, Workspace&, Vec& /*g*/) const {
    return false;
  }

  // y after `steps` steps y ← y − rate·∇f_l(y) on one record, where there is a shorter way than to make them
  // (false: there is none, and y is untouched). A step whose gradient cannot be measured is not made.
  virtual bool StepsOnRecord(const Shard&, std::size_t /*l*/, double /*rate*/, std::uint32_t /*steps*/,
                             Span /*y*/) const {
    return false;
  }

  // y − w, where y is w after the steps y ← y − rate·(mean of ∇f_l(y) over the records l of the step),
  // without a y: where a layer's gradient is a sum of products x_l δ_lᵀ with rows x_l that do not change,
  // what the steps have added to it is known by its factors. StepsByFactors makes the steps and keeps in the
  // workspace what UpdateByFactors, same shard and w, writes the difference from. False: there is no such
  // way, or by public sizes it would be the slower one, or a row is too long for it. A record that cannot be
  // measured contributes nothing. Up to rounding the result is that of the steps made one by one.
  virtual bool StepsByFactors(const Shard&, const BatchSteps&, View /*w*/, Workspace&) const { return false; }
  virtual void UpdateByFactors(const Shard&, View /*w*/, const Workspace&, Vec& /*update*/) const {}
  // The same, by its factors where that is shorter: for whoever only adds it to a sum. The workspace has them
  // no more then.
  virtual void FactorsOfUpdate(const Shard& own, View w, Workspace& ws, FactoredVec& update) const {
    update.columns = 0;
    UpdateByFactors(own, w, ws, update.tail);
  }

  // Whether the entries of so many dense rows, mostly zeros, are of use where they are kept (KeepEntries).
  virtual bool KeepsEntries(std::size_t /*records*/, std::size_t /*features*/) const { return false; }
  // The same of their fours (KeepFours).
  virtual bool KeepsFours(std::size_t /*records*/, std::size_t /*features*/) const { return false; }

  // How many roundings lie on a term's way into a coordinate of WeightedSum, for m records: the k of
  // γ_k = k·u/(1 − k·u). Default: one product, one weight, m additions, and a margin.
  virtual std::size_t Roundings(std::size_t records) const { return records + 8; }

  // sup over all records with ‖row‖ ≤ row_bound (and labels as preprocessed) and all x of ‖∇f_l(x)‖:
  // what holds without clipping, for the computed derivatives too. nullopt: no such bound.
  virtual std::optional<double> RecordBound(double row_bound) const = 0;
  // Smoothness constant of f under the same bound, if there is one.
  virtual std::optional<double> Smoothness(double row_bound) const = 0;

  // Whether clipping every record's gradient leaves the gradient of a smooth convex function: one margin a
  // record and a convex loss without a kink, whose slope is then cut off (Huber's way).
  virtual bool clips_to_smooth() const { return false; }
  // For a loss that is linear in the margin on both sides of one kink: the kink and the slopes of a record.
  virtual std::optional<Kink> KinkOf(double /*label*/) const { return std::nullopt; }

  // h ← h + weight Σ_l ∇²f_l(x), lower triangle of a dim × dim row-major matrix. False, with h
  // untouched: the model has no second derivatives to offer.
  virtual bool AddHessian(const Shard&, View /*x*/, Workspace&, double /*weight*/, Span /*h*/) const {
    return false;
  }

  // For a model with one margin a record and a loss with a second derivative: both derivatives of the loss at
  // every margin, so that ∇f_l = slope[l]·row and ∇²f_l = curvature[l]·row rowᵀ. False: there are none.
  virtual bool Curvatures(const Shard&, View /*x*/, Workspace&, Span /*slope*/, Span /*curvature*/) const {
    return false;
  }
  // Whether Curvatures has them.
  virtual bool has_curvatures() const { return false; }
  // Lipschitz constant of the Hessian under a bound on rows, for what has curvatures; nullopt: none is known.
  virtual std::optional<double> HessianSmoothness(double /*row_bound*/) const { return std::nullopt; }

  // Predicted score per row: the margin for a binary model, one per class for a classifier, the value
  // for a regression. out has rows × outputs() entries, row-major.
  virtual std::size_t outputs() const = 0;
  virtual void Predict(const Shard&, View x, Span out) const = 0;
  // Fraction of rows predicted right (a margin of 0 means +1; among equal scores the lowest class
  // wins); nullopt where accuracy does not apply, and for an empty shard.
  virtual std::optional<double> Accuracy(const Shard&, View x) const = 0;
};

enum class Loss {
  kLogistic,
  kSoftmax,
  kLeastSquares,
  kAbsoluteDeviation,
  kHuber,
  kHinge,
  kSmoothedHinge,
  kMlp,
  kCnn,
};
enum class Activation { kSigmoid, kRelu };
enum class Pooling { kNone, kMax, kMean };  // of 2 × 2; an odd last row or column is left out
struct Convolution {
  std::size_t filters = 1, kernel = 3;
  bool relu = false;
  Pooling pool = Pooling::kMax;
};
struct ModelSpec {
  Loss loss = Loss::kLogistic;
  std::size_t classes = 0;  // softmax, mlp, cnn: at least 2
  double threshold = 1.0;  // τ of huber and smoothed hinge
  std::vector<std::size_t> hidden = {};  // mlp, cnn: widths of the hidden dense layers
  Activation activation = Activation::kRelu;  // after each of them
  std::size_t channels = 1, height = 28, width = 28;  // cnn: the image a row holds
  std::vector<Convolution> convolutions = {};  // cnn: at least one
};
Result<std::unique_ptr<Objective>> MakeObjective(const ModelSpec&);
// The same for specs that are right by construction.
std::unique_ptr<Objective> MakeObjective(Loss, std::size_t classes);  // classes: softmax only, at least 2

// The networks for 28 × 28 digits of DP-FedEXP (Takakura, Liew & Hasegawa), Table 3: two convolutions 4 × 4
// and dense layers, ReLU between the dense layers only. The printed 128 and 16 inputs of the dense part need
// 2 × 2 pooling after each convolution (28 → 25 → 12 → 9 → 4); its kind is not printed: maximum here.
ModelSpec FedExpCentralCnn();  // 4 and 8 filters, 128 → 32 → 10: 5,046 parameters
ModelSpec FedExpLocalCnn();  // 2 and 1 filters, 16 → 10: 237 parameters

// Keeps the entries and fours of those clients' rows for which the model has a use: of either up to 512 MiB
// and no more than the rows take, or none. They change the time, and with fours signs of zeros.
struct Partition;
void KeepEntriesFor(const Objective&, Partition&);

}  // namespace tacit
