#include "experiment/build.h"

#include <cmath>

#include "data/catalogue.h"
#include "data/load.h"
#include "data/synthetic.h"

namespace tacit {

bool IsSynthetic(std::string_view source) {
  return source == "synthetic-logistic" || source == "synthetic-linear";
}

namespace {

constexpr struct {
  const char* name;
  Loss loss;
  LabelKind labels;
} kLosses[] = {
    {"logistic", Loss::kLogistic, LabelKind::kBinary},
    {"softmax", Loss::kSoftmax, LabelKind::kClass},
    {"least-squares", Loss::kLeastSquares, LabelKind::kReal},
    {"absolute-deviation", Loss::kAbsoluteDeviation, LabelKind::kReal},
    {"huber", Loss::kHuber, LabelKind::kReal},
    {"hinge", Loss::kHinge, LabelKind::kBinary},
    {"smoothed-hinge", Loss::kSmoothedHinge, LabelKind::kBinary},
    {"mlp", Loss::kMlp, LabelKind::kClass},
    {"cnn", Loss::kCnn, LabelKind::kClass},
};
constexpr struct {
  const char* name;
  Penalty penalty;
} kPenalties[] = {
    {"none", Penalty::kNone},     {"l1", Penalty::kL1},           {"l1box", Penalty::kL1Box},
    {"box", Penalty::kBox},       {"l2ball", Penalty::kL2Ball},   {"elastic-net", Penalty::kElasticNet},
    {"l1ball", Penalty::kL1Ball}, {"simplex", Penalty::kSimplex}, {"group-lasso", Penalty::kGroupLasso},
};

Result<std::vector<std::size_t>> Whole(const char* key, const std::vector<double>& values) {
  std::vector<std::size_t> out;
  for (const double v : values) {
    if (!(v >= 1 && v <= 0x1p32) || v != std::floor(v))
      return Fail(Code::kInvalidArgument, "{} holds {}: must be whole numbers, at least 1", key, v);
    out.push_back(static_cast<std::size_t>(v));
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Objective>> BuildObjective(const Config& c, const PublicFacts& facts) {
  ModelSpec spec;
  LabelKind labels = LabelKind::kBinary;
  for (const auto& l : kLosses)
    if (c.model.name == l.name) spec.loss = l.loss, labels = l.labels;
  spec.threshold = c.model.threshold;
  if (labels == LabelKind::kClass) {
    spec.classes = c.model.classes != 0 ? c.model.classes : facts.classes;
    if (spec.classes < 2)
      return Fail(Code::kInvalidArgument,
                  "model.classes = {}: {} needs the number of classes, at least 2, as a public constant",
                  spec.classes, c.model.name);
  }
  TACIT_TRY(spec.hidden, Whole("model.hidden", c.model.hidden));
  spec.activation = c.model.activation == "sigmoid" ? Activation::kSigmoid : Activation::kRelu;
  if (spec.loss == Loss::kCnn) {
    TACIT_TRY(const auto image, Whole("model.image", c.model.image));
    TACIT_TRY(const auto filters, Whole("model.filters", c.model.filters));
    if (image.size() != 3)
      return Fail(Code::kInvalidArgument,
                  "model.image has {} numbers; give channels, height and width, e.g. [1, 28, 28]",
                  image.size());
    spec.channels = image[0], spec.height = image[1], spec.width = image[2];
    const Pooling pool = c.model.pooling == "max"    ? Pooling::kMax
                         : c.model.pooling == "mean" ? Pooling::kMean
                                                     : Pooling::kNone;
    for (const std::size_t n : filters)
      spec.convolutions.push_back({n, c.model.kernel, c.model.convolution_relu, pool});
  }
  auto made = MakeObjective(spec);
  if (!made.ok()) return Error{made.error().code, "model." + made.error().message};
  if (spec.loss == Loss::kCnn && facts.features != 0 &&
      facts.features != spec.channels * spec.height * spec.width)
    return Fail(Code::kInvalidArgument,
                "model.image = [{}, {}, {}]: holds {} values, but a row has {} features; set model.image to "
                "the images' shape, and data.intercept = false",
                spec.channels, spec.height, spec.width, spec.channels * spec.height * spec.width,
                facts.features);
  return made;
}

Result<std::size_t> FeaturesOf(const Config& c, const PublicFacts& facts, std::size_t size) {
  if (c.model.name == "cnn") {
    std::size_t features = 1;
    TACIT_TRY(const auto image, Whole("model.image", c.model.image));
    for (const std::size_t n : image) features *= n;
    return features;
  }
  TACIT_TRY(const auto f, BuildObjective(c, facts));
  const std::size_t none = f->dim(0), each = f->dim(1) - none;      // any other model grows by so many
  return size < none ? 0 : (size - none) / each;
}

Result<std::unique_ptr<Regularizer>> BuildRegularizer(const Config& c) {
  PenaltyOptions o;
  o.weight = c.model.weight;
  o.radius = c.model.radius;
  o.weights = c.model.weights;
  o.ridge = c.model.ridge;
  o.group_size = c.model.group;
  for (const auto& p : kPenalties)
    if (c.model.penalty == p.name) o.name = p.penalty;
  return MakeRegularizer(o);
}

Result<Dataset> LoadSource(const Config& c, const std::string& source, Role role, const PublicFacts& facts) {
  const auto& o = c.data;
  Dataset data;
  PreprocessOptions pre;
  if (IsSynthetic(source)) {
    SyntheticOptions s;
    s.kind = source == "synthetic-linear" ? SyntheticKind::kLinear : SyntheticKind::kLogistic;
    s.rows = o.rows != 0 ? o.rows : kSyntheticRows;
    s.features = o.features != 0 ? o.features : kSyntheticFeatures;
    s.density = o.density;
    s.label_noise = o.label_noise;
    s.clients = o.clients;
    s.heterogeneity = o.heterogeneity;
    s.seed = c.experiment.seed;
    // Test rows come after the training rows of the same generator.
    TACIT_TRY(data, MakeSynthetic(s, role == Role::kTest ? s.rows : 0));
  } else {
    LoadOptions load;
    if (const KnownSet* known = FindSet(source)) {
      TACIT_TRY(load, LoadOptionsFor(*known, role == Role::kTest ? Part::kTest : Part::kTrain));
      pre = PreprocessOptionsFor(*known);
    } else {
      load.file = source;
      if (o.format == "libsvm") load.format = Format::kLibsvm;
      if (o.format == "csv") load.format = Format::kCsv;
      if (o.format == "idx") load.format = Format::kIdx;
      if (o.format == "cifar") load.format = Format::kCifar;
      if (o.format == "npy") load.format = Format::kNpy;
      if (o.format == "npz") load.format = Format::kNpz;
      load.labels = o.labels_file;
      load.csv.header = o.header;
      load.csv.label = o.label_column;
      load.csv.group = o.group_column;
      load.csv.drop = o.drop;
      load.csv.missing = o.missing;
      load.array = {.features = o.array,
                    .label = o.label_column,
                    .group = o.group_column,
                    .person = {},
                    .missing = o.missing};
      load.csv.separator = o.separator.empty() ? ',' : o.separator[0];
      pre.positive = o.positive;
    }
    if (facts.features != 0) load.features = facts.features - (o.intercept ? 1 : 0);
    if (o.features != 0) load.features = o.features;
    if (role == Role::kTrain) {
      load.rows = o.rows;
      load.skip = o.skip;
    }
    TACIT_TRY(data, Load(load));
  }
  if (o.positive != 1.0) pre.positive = o.positive;
  pre.lower = o.lower;
  pre.upper = o.upper;
  pre.target = o.range == "positive" ? RangeTarget::kZeroToOne : RangeTarget::kMinusOneToOne;
  pre.scale *= o.scale;
  pre.intercept = o.intercept;
  pre.row_norm = o.row_norm == "clip"   ? RowNorm::kClip
                 : o.row_norm == "unit" ? RowNorm::kUnit
                                        : RowNorm::kNone;
  pre.row_bound = o.row_bound;
  pre.label_bound = o.label_bound;
  for (const auto& l : kLosses)
    if (c.model.name == l.name) pre.labels = l.labels;
  if (c.model.classes != 0 || facts.classes != 0)
    pre.classes = c.model.classes != 0 ? c.model.classes : facts.classes;
  TACIT_OK(Preprocess(pre, data));
  return data;
}

Result<Partition> LoadPartition(const Config& c, const PublicFacts& facts) {
  TACIT_TRY(Dataset data, LoadSource(c, c.data.source, Role::kTrain, facts));
  PartitionOptions p;
  p.split = c.data.split == "iid"         ? Split::kIid
            : c.data.split == "label"     ? Split::kByLabel
            : c.data.split == "dirichlet" ? Split::kDirichlet
            : c.data.split == "column"    ? Split::kColumn
                                          : Split::kBlocks;
  p.clients = c.data.clients;
  p.rows_per_client = c.data.rows_per_client;
  p.alpha = c.data.alpha;
  p.seed = c.experiment.seed;
  return MakePartition(p, std::move(data));
}

PublicFacts FactsOf(const Partition& p, std::size_t classes) {
  PublicFacts f;
  f.features = p.data.features;
  f.clients = p.clients();
  f.classes = classes;
  f.row_bound = p.data.row_bound;
  for (std::size_t i = 0; i < p.clients(); ++i) {
    f.records.push_back(p.size(i));
    f.rows += p.size(i);
  }
  return f;
}

}  // namespace tacit
