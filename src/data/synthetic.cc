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

// The rows of kFedexp.
void MakeShared(const SyntheticOptions& o, std::size_t first, Dataset& data) {
  const std::size_t d = o.features;
  const Vec w = Normals(d, StreamFor(o, 0, kModel));
  std::vector<Vec> mean(o.clients);  // each client's is made when first met
  data.value.resize(o.rows * d);
  for (std::size_t k = 0; k < o.rows; ++k) {
    const std::size_t i = first + k, c = i % o.clients;
    const auto who = static_cast<std::uint32_t>(c);
    if (mean[c].empty()) {
      const double center = std::sqrt(0.1) * StreamFor(o, who, kClientModel).Normal();
      mean[c] = Normals(d, StreamFor(o, who, kClientMean));
      for (double& m : mean[c]) m += center;
    }
    Stream stream = StreamFor(o, static_cast<std::uint32_t>(i & 0xffffffffu),
                              kRows + static_cast<std::uint32_t>(i >> 32));
    const Span x(data.value.data() + k * d, d);
    for (std::size_t j = 0; j < d; ++j) x[j] = mean[c][j] + stream.Normal();
    data.label[k] = Dot(w, x);
    data.group[k] = who;
  }
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

Result<Dataset> MakeSynthetic(const SyntheticOptions& o, std::size_t first) {
  TACIT_OK(Check(o, first));
  const std::size_t d = o.features;
  const bool logistic = o.kind == SyntheticKind::kLogistic;
  const double h = o.heterogeneity, spread = std::sqrt(1 + h * h);
  const double unit = 1 / (std::sqrt(o.density * static_cast<double>(d)) * spread);
  const Vec w = Normals(d, StreamFor(o, 0, kModel));

  Dataset data;
  data.name = Name(o.kind);
  data.features = d;
  const bool sparse = o.density < 1 && o.kind != SyntheticKind::kFedexp;
  if (sparse) data.row_begin.push_back(0);
  for (std::size_t c = 0; c < o.clients; ++c) data.group_name.push_back(fmt::format("client-{}", c));
  data.label.resize(o.rows);
  data.group.resize(o.rows);
  if (o.kind == SyntheticKind::kFedexp) {
    MakeShared(o, first, data);
    return data;
  }
  // Client by client needs one client's vectors at a time, but rows come in order: with h = 0 there is
  // nothing to keep, otherwise each client's pair is made when first met.
  std::vector<Vec> model(o.clients), mean(o.clients);
  for (std::size_t k = 0; k < o.rows; ++k) {
    const std::size_t i = first + k, c = i % o.clients;
    const auto who = static_cast<std::uint32_t>(c);
    if (h > 0 && model[c].empty()) {
      model[c] = Normals(d, StreamFor(o, who, kClientModel));
      for (std::size_t j = 0; j < d; ++j) model[c][j] = (w[j] + h * model[c][j]) / spread;
      mean[c] = Normals(d, StreamFor(o, who, kClientMean));
    }
    const Vec& truth = h > 0 ? model[c] : w;
    Stream stream = StreamFor(o, static_cast<std::uint32_t>(i & 0xffffffffu),
                              kRows + static_cast<std::uint32_t>(i >> 32));
    double score = 0;
    for (std::size_t j = 0; j < d; ++j) {
      if (sparse && stream.Uniform() >= o.density) continue;
      const double x = (stream.Normal() + (h > 0 ? h * mean[c][j] : 0)) * unit;
      score += truth[j] * x;
      data.value.push_back(x);
      if (sparse) data.column.push_back(static_cast<std::uint32_t>(j));
    }
    if (sparse) data.row_begin.push_back(data.value.size());
    double y;
    if (logistic) {
      y = stream.Uniform() < 1 / (1 + std::exp(-kMargin * score)) ? 1.0 : -1.0;
      if (stream.Uniform() < o.label_noise) y = -y;
    } else {
      y = score + o.label_noise * stream.Normal();
    }
    data.label[k] = y;
    data.group[k] = who;
  }
  return data;
}

}  // namespace tacit
