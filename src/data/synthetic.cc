#include "data/synthetic.h"

#include <cmath>

#include "core/rng.h"

namespace tacit {
namespace {

// Streams: rows use the round for the upper half of the row number, plus kRows; what is common to
// all rows or to a client's rows lies below.
enum : std::uint32_t { kModel = 0, kClientModel = 1, kClientMean = 2, kRows = 16 };
constexpr double kMargin =
    3.0;      // spread of the log-odds: the best classifier is right on about 85 % of the rows
constexpr SyntheticKind kKinds[] = {SyntheticKind::kLogistic, SyntheticKind::kLinear, SyntheticKind::kFedexp};

Stream StreamFor(const SyntheticOptions& o, std::uint32_t who, std::uint32_t round) {
  return Stream({.seed = o.seed, .purpose = Purpose::kData, .who = who, .round = round});
}

Vec Normals(std::size_t n, Stream stream) {
  Vec v(n);
  for (double& a : v) a = stream.Normal();
  return v;
}

Status Check(const SyntheticOptions& o, std::size_t first) {
  constexpr std::size_t kMost = std::size_t{1} << 56;
  if (o.rows == 0 || o.rows > kMost || first > kMost)
    return Fail(Code::kInvalidArgument, "data.rows = {}: must be between 1 and 2^56", o.rows);
  if (o.features == 0 || o.features > std::size_t{1} << 30)
    return Fail(Code::kInvalidArgument, "data.features = {}: must be between 1 and 2^30", o.features);
  if (!(o.density > 0 && o.density <= 1))
    return Fail(Code::kInvalidArgument, "data.density = {}: must be above 0 and at most 1", o.density);
  if (o.kind == SyntheticKind::kLogistic && !(o.label_noise >= 0 && o.label_noise <= 0.5))
    return Fail(Code::kInvalidArgument, "data.label_noise = {}: a flip probability in [0, 0.5]",
                o.label_noise);
  if (!(o.label_noise >= 0 && std::isfinite(o.label_noise)))
    return Fail(Code::kInvalidArgument, "data.label_noise = {}: must be finite and at least 0",
                o.label_noise);
  if (o.clients == 0 || o.clients > std::size_t{1} << 24)
    return Fail(Code::kInvalidArgument, "data.clients = {}: must be between 1 and 2^24", o.clients);
  if (!(o.heterogeneity >= 0 && o.heterogeneity <= 1e6))
    return Fail(Code::kInvalidArgument, "data.heterogeneity = {}: must be in [0, 1e6]", o.heterogeneity);
  return Ok{};
}

}  // namespace

std::string_view Name(SyntheticKind kind) {
  switch (kind) {
    case SyntheticKind::kLogistic: return "synthetic-logistic";
    case SyntheticKind::kLinear: return "synthetic-linear";
    case SyntheticKind::kFedexp: return "synthetic-fedexp";
  }
  return "?";
}

std::optional<SyntheticKind> SyntheticKindOf(std::string_view name) {
  for (const SyntheticKind kind : kKinds)
    if (name == Name(kind)) return kind;
  return std::nullopt;
}

SyntheticRows::SyntheticRows(const SyntheticOptions& o)
    : o_(o), w_(Normals(o.features, StreamFor(o, 0, kModel))), model_(o.clients), mean_(o.clients) {}

Result<SyntheticRows> SyntheticRows::Of(const SyntheticOptions& o, std::size_t first) {
  TACIT_OK(Check(o, first));
  return SyntheticRows(o);
}

Dataset SyntheticRows::Nothing(bool names) const {
  Dataset data;
  data.name = std::string(Name(o_.kind));
  data.features = o_.features;
  if (sparse()) data.row_begin.push_back(0);
  for (std::size_t c = 0; names && c < o_.clients; ++c)
    data.group_name.push_back(fmt::format("client-{}", c));
  return data;
}

void SyntheticRows::Meet(std::size_t i) {
  const std::size_t c = i % o_.clients, d = o_.features;
  const auto who = static_cast<std::uint32_t>(c);
  const double h = o_.heterogeneity, spread = std::sqrt(1 + h * h);
  if (!mean_[c].empty()) return;
  if (o_.kind == SyntheticKind::kFedexp) {
    const double center = std::sqrt(0.1) * StreamFor(o_, who, kClientModel).Normal();
    mean_[c] = Normals(d, StreamFor(o_, who, kClientMean));
    for (double& m : mean_[c]) m += center;
  } else if (h > 0) {
    model_[c] = Normals(d, StreamFor(o_, who, kClientModel));
    for (std::size_t j = 0; j < d; ++j) model_[c][j] = (w_[j] + h * model_[c][j]) / spread;
    mean_[c] = Normals(d, StreamFor(o_, who, kClientMean));
  }
}

void SyntheticRows::Append(std::size_t i, Dataset& data) const {
  const std::size_t d = o_.features, c = i % o_.clients;
  const double h = o_.heterogeneity, spread = std::sqrt(1 + h * h);
  const double unit = 1 / (std::sqrt(o_.density * static_cast<double>(d)) * spread);
  Stream stream =
      StreamFor(o_, static_cast<std::uint32_t>(i & 0xffffffffu), kRows + static_cast<std::uint32_t>(i >> 32));
  data.group.push_back(static_cast<std::uint32_t>(c));
  if (o_.kind == SyntheticKind::kFedexp) {
    const std::size_t at = data.value.size();
    for (std::size_t j = 0; j < d; ++j) data.value.push_back(mean_[c][j] + stream.Normal());
    data.label.push_back(Dot(w_, View(data.value).subspan(at)));
    return;
  }
  const Vec& truth = h > 0 ? model_[c] : w_;
  double score = 0;
  for (std::size_t j = 0; j < d; ++j) {
    if (sparse() && stream.Uniform() >= o_.density) continue;
    const double x = (stream.Normal() + (h > 0 ? h * mean_[c][j] : 0)) * unit;
    score += truth[j] * x;
    data.value.push_back(x);
    if (sparse()) data.column.push_back(static_cast<std::uint32_t>(j));
  }
  if (sparse()) data.row_begin.push_back(data.value.size());
  double y;
  if (o_.kind == SyntheticKind::kLogistic) {
    y = stream.Uniform() < 1 / (1 + std::exp(-kMargin * score)) ? 1.0 : -1.0;
    if (stream.Uniform() < o_.label_noise) y = -y;
  } else {
    y = score + o_.label_noise * stream.Normal();
  }
  data.label.push_back(y);
}

Result<Dataset> MakeSynthetic(const SyntheticOptions& o, std::size_t first, LineVec space) {
  TACIT_TRY(SyntheticRows rows, SyntheticRows::Of(o, first));
  Dataset data = rows.Nothing();
  space.clear();
  data.value = std::move(space);
  if (!data.sparse()) data.value.reserve(o.rows * o.features);
  for (std::size_t i = first; i < first + o.rows; ++i) {
    rows.Meet(i);
    rows.Append(i, data);
  }
  return data;
}

}  // namespace tacit
