#include "experiment/build.h"

#include <charconv>
#include <cmath>

#include "data/catalogue.h"
#include "data/load.h"
#include "data/made_rows.h"
#include "data/memory.h"
#include "data/row_store.h"
#include "data/synthetic.h"

namespace tacit {

bool IsSynthetic(std::string_view source) { return SyntheticKindOf(source).has_value(); }

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

std::string Trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return std::string(s);
}

// "column: rest"; the column may be quoted by nothing, so the first colon decides.
bool SplitColumn(const std::string& text, std::string& column, std::string& rest) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return false;
  column = Trimmed(std::string_view(text).substr(0, colon));
  rest = Trimmed(std::string_view(text).substr(colon + 1));
  return !column.empty() && !rest.empty();
}

bool Number(std::string_view text, double& out) {
  const std::string t = Trimmed(text);
  const auto [stop, error] = std::from_chars(t.data(), t.data() + t.size(), out);
  return error == std::errc() && stop == t.data() + t.size() && std::isfinite(out);
}

}  // namespace

Result<CsvLayout> LayoutOf(const Config& c) {
  const auto& o = c.data;
  const auto bad = [](const char* key, const std::string& text, const char* how) {
    return Fail(Code::kInvalidArgument, "{} = \"{}\": must look like \"{}\"", key, text, how);
  };
  CsvLayout l;
  l.header = o.header;
  l.names = o.columns;
  l.label = o.label_column;
  l.group = o.group_column;
  l.person = o.person_column;
  l.drop = o.drop;
  l.separator = o.separator.empty() ? ',' : o.separator[0];
  l.missing = o.missing;
  l.indicator = o.missing_indicator;
  std::string rest;
  for (const std::string& text : o.one_hot) {
    OneHot h;
    const char* kHow = "column: a | b | c";
    if (!SplitColumn(text, h.column, rest)) return bad("data.one_hot", text, kHow);
    for (std::size_t at = 0; at <= rest.size();) {
      const std::size_t stop = std::min(rest.find('|', at), rest.size());
      h.categories.push_back(Trimmed(std::string_view(rest).substr(at, stop - at)));
      if (h.categories.back().empty()) return bad("data.one_hot", text, kHow);
      at = stop + 1;
    }
    h.other = h.categories.back() == "*";
    if (h.other) h.categories.pop_back();
    if (h.categories.empty()) return bad("data.one_hot", text, kHow);
    l.one_hot.push_back(std::move(h));
  }
  for (const std::string& text : o.fill) {
    ColumnFill f;
    if (!SplitColumn(text, f.column, rest) || !Number(rest, f.value))
      return bad("data.fill", text, "column: 3.5");
    l.fill.push_back(f);
  }
  for (const std::string& text : o.bounds) {
    ColumnRange r;
    const bool split = SplitColumn(text, r.column, rest);
    const std::size_t to = split ? rest.find(" to ") : std::string::npos;
    if (to == std::string::npos || !Number(rest.substr(0, to), r.lower) ||
        !Number(rest.substr(to + 4), r.upper) || !(r.lower < r.upper) || !std::isfinite(r.upper - r.lower))
      return bad("data.bounds", text, "column: 20 to 80");
    l.range.push_back(r);
  }
  return l;
}

SumUnit UnitOf(const Config& c) {
  if (c.privacy.unit != "person") return {};
  return {.terms = c.privacy.person_bound == "records" ? c.data.records_per_person : 1, .person = true};
}

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

namespace {

// Rows on their way from a source to where they are kept: persons limited, then preprocessed, batch by batch.
class Intake {
 public:
  Intake(const Config& c, const std::string& source, Role role, PreprocessOptions pre)
      : source_(source), pre_(std::move(pre)), limit_(c.data.records_per_person) {
    if (role != Role::kTrain || c.privacy.unit != "person") return;
    bound_ = c.privacy.person_bound == "sum" ? PersonBound::kSum : PersonBound::kRecords;
    most_ = c.data.records_per_person;
  }
  Status Take(Dataset& d) {
    if (bound_ != PersonBound::kNone) {
      if (d.person.empty())
        return Fail(Code::kInvalidArgument,
                    "privacy.unit = \"person\": {} does not say whose record a row is; name the column with "
                    "data.person_column",
                    source_);
      if (most_ != 0) limit_.Apply(d);
      d.person_bound = bound_;
      d.records_per_person = bound_ == PersonBound::kRecords ? most_ : 1;
    }
    return Preprocess(pre_, d);
  }

 private:
  const std::string& source_;
  PreprocessOptions pre_;
  PersonLimit limit_;
  PersonBound bound_ = PersonBound::kNone;
  std::size_t most_ = 0;
};

void Apply(const Config& c, const PublicFacts& facts, PreprocessOptions& pre) {
  const auto& o = c.data;
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
}

// As many rows as fit in a few megabytes.
std::size_t BatchRows(std::size_t features) {
  constexpr std::size_t kNumbers = std::size_t{1} << 21;
  return std::max<std::size_t>(1, kNumbers / std::max<std::size_t>(1, features));
}

SyntheticOptions SyntheticOf(const Config& c, const std::string& source) {
  const auto& o = c.data;
  SyntheticOptions s;
  s.kind = SyntheticKindOf(source).value_or(SyntheticKind::kLogistic);
  s.rows = o.rows != 0 ? o.rows : kSyntheticRows;
  s.features = o.features != 0 ? o.features : kSyntheticFeatures;
  s.density = o.density;
  s.label_noise = o.label_noise;
  s.clients = o.clients;
  s.heterogeneity = o.heterogeneity;
  s.seed = c.experiment.seed;
  return s;
}

// A file, or a known set of files, and how its rows are to be treated.
Status DescribeFile(const Config& c, const std::string& source, Role role, const PublicFacts& facts,
                    LoadOptions& load, PreprocessOptions& pre) {
  const auto& o = c.data;
  TACIT_TRY(CsvLayout layout, LayoutOf(c));
  if (const KnownSet* known = FindSet(source)) {
    TACIT_TRY(load, LoadOptionsFor(*known, role == Role::kTest ? Part::kTest : Part::kTrain));
    pre = PreprocessOptionsFor(*known);
    if (layout.names.empty()) layout.names = known->columns;
    if (known->format == Format::kCsv)
      load.features = layout.Features(known->features - std::min(known->features, layout.drop.size()));
  } else {
    load.file = source;
    if (o.format == "libsvm") load.format = Format::kLibsvm;
    if (o.format == "csv") load.format = Format::kCsv;
    if (o.format == "idx") load.format = Format::kIdx;
    if (o.format == "cifar") load.format = Format::kCifar;
    if (o.format == "npy") load.format = Format::kNpy;
    if (o.format == "npz") load.format = Format::kNpz;
    load.labels = o.labels_file;
    load.array = {.features = o.array,
                  .label = o.label_column,
                  .group = o.group_column,
                  .person = o.person_column,
                  .missing = o.missing};
    pre.positive = o.positive;
  }
  if (facts.features != 0) load.features = facts.features - (o.intercept ? 1 : 0);
  if (o.features != 0) load.features = layout.Features(o.features);
  load.csv = std::move(layout);
  if (role == Role::kTrain) {
    load.rows = o.rows;
    load.skip = o.skip;
  }
  return Ok{};
}

}  // namespace

Result<Dataset> LoadSource(const Config& c, const std::string& source, Role role, const PublicFacts& facts) {
  const bool synthetic = IsSynthetic(source);
  PreprocessOptions pre;
  LoadOptions load;
  SyntheticOptions made = SyntheticOf(c, source);
  // Test rows come after the training rows of the same generator.
  const std::size_t first = role == Role::kTest ? made.rows : 0;
  const bool memory = IsMemory(source);
  if (memory) pre.positive = c.data.positive;
  if (!synthetic && !memory) TACIT_OK(DescribeFile(c, source, role, facts, load, pre));
  Apply(c, facts, pre);
  if (c.data.store == "nowhere") {
    if (!synthetic)
      return Fail(Code::kUnsupported,
                  "data.store = \"nowhere\": {} is no generator that could make a row again; use disk",
                  source);
    if (c.privacy.unit == "person" || c.model.name == "mlp" || c.model.name == "cnn")
      return Fail(
          Code::kUnsupported,
          "data.store = \"nowhere\": is for records of linear models; use disk, or another model.name "
          "and privacy.unit than {} and {}",
          c.model.name, c.privacy.unit);
    return MakeOnDemand(made, first, pre);
  }
  if (memory && c.data.store == "disk")
    return Fail(Code::kUnsupported, "data.store = \"disk\": {} is in memory already; use memory", source);
  Intake intake(c, source, role, std::move(pre));
  if (c.data.store != "disk") {
    Dataset data;
    if (synthetic) {
      TACIT_TRY(data, MakeSynthetic(made, first));
    } else if (memory) {
      const bool train = role == Role::kTrain;
      TACIT_TRY(data, LoadMemory(source, {.rows = train ? c.data.rows : 0,
                                          .skip = train ? c.data.skip : 0,
                                          .missing = c.data.missing}));
    } else {
      TACIT_TRY(data, Load(load));
    }
    TACIT_OK(intake.Take(data));
    return data;
  }
  TACIT_TRY(
      RowWriter writer,
      RowWriter::Open(c.data.scratch.empty() ? DefaultScratch() : std::filesystem::path(c.data.scratch)));
  const auto take = [&](Dataset& batch) -> Status {
    TACIT_OK(intake.Take(batch));
    return writer.Append(batch);
  };
  if (synthetic) {
    const std::size_t rows = made.rows, each = BatchRows(made.features);
    LineVec space;  // of all batches: a new one each would leave holes that the next does not fit
    for (std::size_t at = 0; at < rows; at += each) {
      made.rows = std::min(each, rows - at);
      TACIT_TRY(Dataset batch, MakeSynthetic(made, first + at, std::move(space)));
      TACIT_OK(take(batch));
      space = std::move(batch.value);
    }
  } else {
    load.sink = [&](Dataset&& batch) { return take(batch); };
    load.batch = BatchRows(load.features == 0 ? 1024 : load.features);
    TACIT_TRY([[maybe_unused]] const Dataset none, Load(load));
  }
  return writer.Finish();
}

namespace {
Result<Partition> Divide(const Config& c, Dataset data) {
  PartitionOptions p;
  p.split = c.data.split == "iid"         ? Split::kIid
            : c.data.split == "label"     ? Split::kByLabel
            : c.data.split == "dirichlet" ? Split::kDirichlet
            : c.data.split == "mixed"     ? Split::kMixed
            : c.data.split == "column"    ? Split::kColumn
                                          : Split::kBlocks;
  p.clients = c.data.clients;
  p.rows_per_client = c.data.rows_per_client;
  p.uniform = c.data.uniform;
  p.alpha = c.data.alpha;
  p.seed = c.experiment.seed;
  return MakePartition(p, std::move(data));
}
}  // namespace

Result<Partition> LoadPartition(const Config& c, const PublicFacts& facts) {
  TACIT_TRY(Dataset data, LoadSource(c, c.data.source, Role::kTrain, facts));
  return Divide(c, std::move(data));
}

Result<Partition> PartitionRows(const Config& c, const PublicFacts& facts, Dataset rows) {
  PreprocessOptions pre;
  Apply(c, facts, pre);
  const std::string made = "rows in memory";
  TACIT_OK(Intake(c, made, Role::kTrain, std::move(pre)).Take(rows));
  return Divide(c, std::move(rows));
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
