#include "experiment/build.h"

#include "data/catalogue.h"
#include "data/load.h"
#include "data/synthetic.h"

namespace tacit {

bool IsSynthetic(std::string_view source) {
  return source == "synthetic-logistic" || source == "synthetic-linear";
}

Result<std::unique_ptr<Objective>> BuildObjective(const Config& c, const PublicFacts& facts) {
  if (c.model.name == "logistic") return MakeObjective(Loss::kLogistic, 0);
  if (c.model.name == "least-squares") return MakeObjective(Loss::kLeastSquares, 0);
  const std::size_t classes = c.model.classes != 0 ? c.model.classes : facts.classes;
  if (classes < 2)
    return Fail(Code::kInvalidArgument,
                "model.classes = {}: softmax needs the number of classes, at least 2, as a public constant",
                classes);
  return MakeObjective(Loss::kSoftmax, classes);
}

Result<std::unique_ptr<Regularizer>> BuildRegularizer(const Config& c) {
  PenaltyOptions o;
  o.weight = c.model.weight;
  o.radius = c.model.radius;
  if (c.model.penalty == "l1") o.name = Penalty::kL1;
  if (c.model.penalty == "l1box") o.name = Penalty::kL1Box;
  if (c.model.penalty == "box") o.name = Penalty::kBox;
  if (c.model.penalty == "l2ball") o.name = Penalty::kL2Ball;
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
      load.labels = o.labels_file;
      load.csv.header = o.header;
      load.csv.label = o.label_column;
      load.csv.group = o.group_column;
      load.csv.drop = o.drop;
      load.csv.missing = o.missing;
      if (o.separator.size() != 1)
        return Fail(Code::kInvalidArgument, "data.separator = \"{}\": must be one character", o.separator);
      load.csv.separator = o.separator[0];
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
  pre.scale *= o.scale;
  pre.intercept = o.intercept;
  pre.row_norm = o.row_norm == "clip"   ? RowNorm::kClip
                 : o.row_norm == "unit" ? RowNorm::kUnit
                                        : RowNorm::kNone;
  pre.row_bound = o.row_bound;
  pre.label_bound = o.label_bound;
  pre.labels = c.model.name == "logistic"  ? LabelKind::kBinary
               : c.model.name == "softmax" ? LabelKind::kClass
                                           : LabelKind::kReal;
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
