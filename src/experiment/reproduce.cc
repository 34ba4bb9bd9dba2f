#include "experiment/reproduce.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "experiment/toml_values.h"

namespace tacit {
namespace {

using Kind = PublishedClaim::Kind;

constexpr std::array<std::pair<const char*, Kind>, 5> kKinds = {{{"below", Kind::kBelow},
                                                                 {"above", Kind::kAbove},
                                                                 {"ratio_at_most", Kind::kRatioAtMost},
                                                                 {"ratio_at_least", Kind::kRatioAtLeast},
                                                                 {"grows_like", Kind::kGrowsLike}}};

std::string TextOf(const toml::table& table, const char* key) {
  const toml::node* node = table.get(key);
  return node != nullptr && node->is_string() ? node->as_string()->get() : std::string();
}

Status ReadSelection(const toml::node& node, const std::string& file, Selection& out) {
  const toml::table* table = node.as_table();
  if (table == nullptr)
    return internal::At(
        file, node,
        Fail(Code::kInvalidArgument, "a selection must be a table, e.g. {{ algorithm.rounds = 3000 }}"));
  std::vector<std::pair<std::string, const toml::node*>> leaves;
  internal::Leaves(*table, "", leaves);
  for (const auto& [key, leaf] : leaves) {
    auto value = internal::ValueOf(*leaf, key);
    if (!value.ok()) return internal::At(file, *leaf, value.error());
    Config probe;
    if (key != "case")
      if (Status s = SetKey(probe, key, *value); !s.ok()) return internal::At(file, *leaf, s.error());
    out.emplace_back(key, *std::move(value));
  }
  return Ok{};
}

Status ReadCheck(const toml::table& check, const std::string& file, PublishedClaim& claim) {
  const auto bad = [&](const toml::node& node, std::string message) {
    return internal::At(file, node, Error{Code::kInvalidArgument, std::move(message)});
  };
  bool has_kind = false, has_limit = false;
  for (const auto& [key, node] : check) {
    if (key.str() == "kind") {
      const std::string kind = TextOf(check, "kind");
      for (const auto& [name, value] : kKinds)
        if (kind == name) claim.kind = value, has_kind = true;
      if (!has_kind)
        return bad(
            node,
            fmt::format(
                "check.kind = \"{}\": must be below, above, ratio_at_most, ratio_at_least or grows_like",
                kind));
    } else if (key.str() == "metric") {
      claim.metric = TextOf(check, "metric");
    } else if (key.str() == "over") {
      claim.over = TextOf(check, "over");
    } else if (key.str() == "tuned") {
      TACIT_TRY(const Value value, internal::ValueOf(node, "check.tuned"));
      const auto* axes = std::get_if<std::vector<std::string>>(&value);
      if (axes == nullptr) return bad(node, "check.tuned: must be a list of axes, e.g. [\"privacy.clip\"]");
      claim.tuned = *axes;
    } else if (key.str() == "limit" || key.str() == "exponent" || key.str() == "tolerance") {
      const auto number = node.value<double>();
      if (!number || !std::isfinite(*number))
        return bad(node, fmt::format("check.{}: must be a finite number", key.str()));
      (key.str() == "limit"      ? claim.limit
       : key.str() == "exponent" ? claim.exponent
                                 : claim.tolerance) = *number;
      has_limit |= key.str() == "limit";
    } else if (key.str() == "at") {
      TACIT_OK(ReadSelection(node, file, claim.at));
    } else if (key.str() == "numerator") {
      TACIT_OK(ReadSelection(node, file, claim.numerator));
    } else if (key.str() == "denominator") {
      TACIT_OK(ReadSelection(node, file, claim.denominator));
    } else {
      const std::string near = Nearest(key.str(), {"kind", "metric", "over", "limit", "exponent", "tolerance",
                                                   "at", "numerator", "denominator", "tuned"});
      return bad(node, fmt::format("check.{}: unknown key{}", key.str(),
                                   near.empty() ? "" : "; did you mean " + near + "?"));
    }
  }
  if (!has_kind || claim.metric.empty()) return bad(check, "check: needs a kind and a metric");
  if (claim.kind == Kind::kGrowsLike ? claim.over.empty() : !has_limit)
    return bad(check, claim.kind == Kind::kGrowsLike ? "check: grows_like needs over = the key of an axis"
                                                     : "check: needs a limit");
  if ((claim.kind == Kind::kRatioAtMost || claim.kind == Kind::kRatioAtLeast) &&
      (claim.numerator.empty() || claim.denominator.empty()))
    return bad(check,
               "check: a ratio needs a numerator and a denominator, each a selection of one grid point");
  return Ok{};
}

// "dp-fedavg*" stands for all cases whose names begin so.
bool Fits(const Value& has, const Value& wanted) {
  const auto *name = std::get_if<std::string>(&has), *pattern = std::get_if<std::string>(&wanted);
  if (name != nullptr && pattern != nullptr && pattern->ends_with('*'))
    return name->starts_with(std::string_view(*pattern).substr(0, pattern->size() - 1));
  return SameValue(has, wanted);
}

// The points of the sweep that agree with the selection; a key that is no axis is settled by the base config.
std::vector<const GridPoint*> Select(const SweepResult& sweep, const Selection& selection) {
  std::vector<const GridPoint*> found;
  for (const GridPoint& point : sweep.points) {
    bool agrees = true;
    for (const auto& [key, value] : selection)
      for (std::size_t a = 0; a < sweep.axes.size(); ++a)
        if (sweep.axes[a].key == key) agrees &= Fits(point.at[a], value);
    if (agrees) found.push_back(&point);
  }
  return found;
}

std::string Describe(const Selection& selection) {
  std::string out;
  for (const auto& [key, value] : selection)
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", key.substr(key.find('.') + 1), ToText(value));
  return out;
}

struct Mean {
  double value = NAN, std = 0;
  std::size_t seeds = 0;
  double certified = NAN;
  std::string why;  // empty: there is a value
};
Mean MeanOf(const GridPoint& p, const Summary& of) { return {of.mean, of.std, of.count, CertifiedAt(p), ""}; }
// Of figures that follow from public constants there is none.
std::optional<double> StandardError(const PublishedClaim& c, const Mean& m) {
  if (c.metric == "claimed_epsilon" || c.metric == "certified_epsilon") return 0;
  if (m.seeds < 2 || !std::isfinite(m.value) || !std::isfinite(m.std)) return std::nullopt;
  return m.std / std::sqrt(static_cast<double>(m.seeds));
}
std::string Spread(const Mean& m) {
  return m.seeds > 1 && m.std > 0 && std::isfinite(m.std) ? fmt::format(" ± {:.2g}", m.std) : "";
}
// With as many digits as it takes to be on its side of the limit.
std::string Beside(double value, double limit) {
  std::string text;
  for (int digits = 4; digits <= 17; ++digits) {
    text = fmt::format("{:.{}g}", value, digits);
    const double shown = std::strtod(text.c_str(), nullptr);
    if (!std::isfinite(value) || ((shown < limit) == (value < limit) && (shown > limit) == (value > limit)))
      break;
  }
  return text;
}
std::optional<double> Away(double value, double limit, std::optional<double> error) {
  if (!error || (*error > 0 && !std::isfinite(value))) return std::nullopt;
  const double distance = std::abs(value - limit);
  return distance == 0 ? 0 : distance / *error;
}
// Whether two points differ at most in tuned axes.
bool SameButTuned(const PublishedClaim& c, const SweepResult& sweep, const GridPoint& a, const GridPoint& b) {
  for (std::size_t k = 0; k < sweep.axes.size(); ++k)
    if (!SameValue(a.at[k], b.at[k]) &&
        std::find(c.tuned.begin(), c.tuned.end(), sweep.axes[k].key) == c.tuned.end())
      return false;
  return true;
}

Mean MeanAt(const PublishedClaim& c, const SweepResult& sweep, const Selection& selection) {
  const auto points = Select(sweep, selection);
  const auto none = [](std::string why) {
    Mean m;
    m.why = std::move(why);
    return m;
  };
  if (points.empty()) return none(fmt::format("no run at {}", Describe(selection)));
  const bool high = c.metric.find("accuracy") != std::string::npos;
  Mean best;
  for (const GridPoint* p : points) {
    if (!SameButTuned(c, sweep, *p, *points[0]))
      return none(
          fmt::format("{} fits {} points of the grid; name more axes", Describe(selection), points.size()));
    const auto m = p->metrics.find(c.metric);
    if (m == p->metrics.end()) return none(fmt::format("the runs have no {}", c.metric));
    const double value = m->second.mean;
    if (std::isnan(best.value) || (high ? value > best.value : value < best.value))
      best = MeanOf(*p, m->second);
  }
  return best;
}

Verdict Decided(bool holds, std::string numbers, std::optional<double> errors,
                std::vector<double> certified) {
  return {holds ? Verdict::Kind::kHolds : Verdict::Kind::kFails, std::move(numbers), errors,
          std::move(certified)};
}
Verdict Untested(std::string why) { return {Verdict::Kind::kUntested, std::move(why)}; }

Verdict CheckLimit(const PublishedClaim& c, const SweepResult& sweep) {
  const bool below = c.kind == Kind::kBelow;
  Mean worst;
  std::vector<double> certified;
  std::string which;
  if (!c.tuned.empty()) {
    worst = MeanAt(c, sweep, c.at);
    if (!worst.why.empty()) return Untested(worst.why);
    which = "best ";
    certified = {worst.certified};
  } else {
    const auto points = Select(sweep, c.at);
    if (points.empty()) return Untested(fmt::format("no run at {}", Describe(c.at)));
    for (const GridPoint* p : points) {
      const auto m = p->metrics.find(c.metric);
      if (m == p->metrics.end()) return Untested(fmt::format("the runs have no {}", c.metric));
      certified.push_back(CertifiedAt(*p));
      const double value = m->second.mean;
      // What is no number has not kept a limit.
      if (worst.seeds == 0 || std::isnan(value) || (below ? value > worst.value : value < worst.value))
        worst = MeanOf(*p, m->second);
    }
    if (points.size() > 1) which = below ? "largest " : "smallest ";
  }
  return Decided(below ? worst.value < c.limit : worst.value > c.limit,
                 fmt::format("{}{} is {}{}, limit {:.6g}", which, c.metric, Beside(worst.value, c.limit),
                             Spread(worst), c.limit),
                 Away(worst.value, c.limit, StandardError(c, worst)), certified);
}

Verdict CheckRatio(const PublishedClaim& c, const SweepResult& sweep) {
  const Mean a = MeanAt(c, sweep, c.numerator), b = MeanAt(c, sweep, c.denominator);
  if (!a.why.empty()) return Untested(a.why);
  if (!b.why.empty()) return Untested(b.why);
  const double ratio = a.value / b.value;
  std::optional<double> error;
  if (const auto ea = StandardError(c, a), eb = StandardError(c, b); ea && eb)
    error = std::hypot(*ea / b.value, ratio * *eb / b.value);
  return Decided(c.kind == Kind::kRatioAtMost ? ratio <= c.limit : ratio >= c.limit,
                 fmt::format("{:.4g}{} / {:.4g}{} = {:.3g}, limit {:.4g}", a.value, Spread(a), b.value,
                             Spread(b), ratio, c.limit),
                 Away(ratio, c.limit, error), {a.certified, b.certified});
}

Verdict CheckGrowth(const PublishedClaim& c, const SweepResult& sweep) {
  const auto axis =
      std::find_if(sweep.axes.begin(), sweep.axes.end(), [&](const Axis& a) { return a.key == c.over; });
  if (axis == sweep.axes.end()) return Untested(fmt::format("{} is no axis of the grid", c.over));
  const auto a = static_cast<std::size_t>(axis - sweep.axes.begin());
  std::vector<std::pair<double, double>> line;
  std::vector<std::optional<double>> errors;  // of the logarithms
  std::vector<double> certified;
  for (const GridPoint* p : Select(sweep, c.at)) {
    const Value& v = p->at[a];
    const double x = std::holds_alternative<std::int64_t>(v) ? static_cast<double>(std::get<std::int64_t>(v))
                     : std::holds_alternative<double>(v)     ? std::get<double>(v)
                                                             : NAN;
    const auto m = p->metrics.find(c.metric);
    if (m == p->metrics.end()) return Untested(fmt::format("the runs have no {}", c.metric));
    if (!(x > 0)) return Untested(fmt::format("{} is no axis of positive numbers", c.over));
    for (const auto& other : line)
      if (other.first == std::log(x))
        return Untested(fmt::format("{} fits several lines of points; name more axes", Describe(c.at)));
    line.emplace_back(std::log(x), std::log(m->second.mean));
    const auto error = StandardError(c, MeanOf(*p, m->second));
    errors.push_back(error ? std::optional(*error / m->second.mean) : std::nullopt);
    certified.push_back(CertifiedAt(*p));
  }
  if (line.size() < 2) return Untested(fmt::format("growth needs two values of {}", c.over));
  double mx = 0, my = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(line.size());
  for (const auto& [x, y] : line) mx += x / n, my += y / n;
  for (const auto& [x, y] : line) xx += (x - mx) * (x - mx), xy += (x - mx) * (y - my);
  const double slope = xy / xx;
  std::optional<double> error = 0.0;
  for (std::size_t k = 0; k < line.size(); ++k)
    error = error && errors[k] ? std::optional(std::hypot(*error, (line[k].first - mx) / xx * *errors[k]))
                               : std::nullopt;
  const double limit = slope > c.exponent ? c.exponent + c.tolerance : c.exponent - c.tolerance;
  return Decided(std::abs(slope - c.exponent) <= c.tolerance,
                 fmt::format("{} grows like {} to the power {:.2f}, expected {:.2g} ± {:.2g}", c.metric,
                             c.over.substr(c.over.find('.') + 1), slope, c.exponent, c.tolerance),
                 Away(slope, limit, error), std::move(certified));
}

Result<toml::table> ParseFile(const std::filesystem::path& file) {
  try {
    return toml::parse_file(file.string());
  } catch (const toml::parse_error& e) {
    return Fail(Code::kMalformed, "{}:{}: not valid TOML: {}", file.string(), e.source().begin.line,
                e.description());
  }
}

}  // namespace

double CertifiedAt(const GridPoint& p) {
  const auto at = p.metrics.find("certified_epsilon");
  if (at == p.metrics.end()) return NAN;
  // No seed of n is further from the mean than (n − 1)/√n standard deviations.
  const Summary& of = at->second;
  const auto n = static_cast<double>(std::max<std::size_t>(1, of.count));
  return std::isfinite(of.mean) && of.std > 0 ? of.mean + of.std * (n - 1) / std::sqrt(n) : of.mean;
}

Result<std::vector<NotReproduced>> ReadNotReproduced(const std::filesystem::path& file) {
  std::vector<NotReproduced> all;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return all;
  TACIT_TRY(const toml::table root, ParseFile(file));
  const toml::node* missing = root.get("missing");
  if (missing == nullptr || !missing->is_array_of_tables())
    return Fail(Code::kInvalidArgument, "{}: is a list of [[missing]], each with paper, what and because",
                file.string());
  for (const toml::node& node : *missing->as_array()) {
    const toml::table& table = *node.as_table();
    NotReproduced one{TextOf(table, "paper"), TextOf(table, "what"), TextOf(table, "because")};
    if (one.paper.empty() || one.what.empty() || one.because.empty())
      return internal::At(file.string(), node,
                          Fail(Code::kInvalidArgument, "missing: needs paper, what and because"));
    all.push_back(std::move(one));
  }
  return all;
}

Result<Figure> LoadFigure(const std::filesystem::path& file, std::string name) {
  Figure figure{.name = std::move(name), .file = file, .title = "", .paper = "", .claims = {}};
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    return Fail(Code::kNotFound, "{}: cannot be read; `tacit reproduce --list` names the figures",
                file.string());
  TACIT_TRY(const toml::table root, ParseFile(file));
  if (const toml::node* about = root.get("about"); about != nullptr && about->is_table()) {
    figure.title = TextOf(*about->as_table(), "title");
    figure.paper = TextOf(*about->as_table(), "paper");
    figure.against = TextOf(*about->as_table(), "against");
    figure.drawn = TextOf(*about->as_table(), "case");
  }
  if (const toml::node* claims = root.get("claim")) {
    if (!claims->is_array_of_tables())
      return internal::At(file.string(), *claims,
                          Fail(Code::kInvalidArgument, "claim: is written as [[claim]], once for each"));
    for (const toml::node& node : *claims->as_array()) {
      const toml::table& table = *node.as_table();
      PublishedClaim claim;
      claim.text = TextOf(table, "text");
      claim.published = TextOf(table, "published");
      const toml::node* check = table.get("check");
      if (claim.text.empty() || check == nullptr || !check->is_table())
        return internal::At(file.string(), node,
                            Fail(Code::kInvalidArgument, "claim: needs a text and a table check"));
      TACIT_OK(ReadCheck(*check->as_table(), file.string(), claim));
      figure.claims.push_back(std::move(claim));
    }
  }
  return figure;
}

Result<std::filesystem::path> ExperimentsFolder() {
  std::error_code error, absent;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (auto at = program.parent_path(); at.has_relative_path(); at = at.parent_path())
    for (const char* below : {"experiments", "share/tacit/experiments"})
      if (std::filesystem::is_regular_file(at / below / "demo.toml", absent)) return at / below;
  if (std::filesystem::is_directory("experiments", absent)) return std::filesystem::path("experiments");
  return Fail(Code::kNotFound,
              "experiments: the folder is neither near the program ({}) nor here; run tacit in its clone",
              program.string());
}

Result<std::vector<Figure>> Figures(const std::filesystem::path& folder) {
  std::vector<Figure> figures;
  std::error_code error;
  for (const auto& paper : std::filesystem::directory_iterator(folder, error)) {
    if (!paper.is_directory()) continue;
    for (const auto& file : std::filesystem::directory_iterator(paper.path(), error)) {
      if (file.path().extension() != ".toml") continue;
      TACIT_TRY(Figure figure,
                LoadFigure(file.path(), (paper.path().filename() / file.path().stem()).string()));
      figures.push_back(std::move(figure));
    }
  }
  if (error) return Fail(Code::kIo, "{}: cannot be listed: {}", folder.string(), error.message());
  std::sort(figures.begin(), figures.end(), [](const Figure& a, const Figure& b) { return a.name < b.name; });
  return figures;
}

const char* Name(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::kHolds: return "holds";
    case Verdict::Kind::kFails: return "does not hold";
    case Verdict::Kind::kUntested: return "not tested";
  }
  return "?";
}

Verdict Check(const PublishedClaim& claim, const SweepResult& sweep) {
  switch (claim.kind) {
    case Kind::kBelow:
    case Kind::kAbove: return CheckLimit(claim, sweep);
    case Kind::kRatioAtMost:
    case Kind::kRatioAtLeast: return CheckRatio(claim, sweep);
    case Kind::kGrowsLike: return CheckGrowth(claim, sweep);
  }
  return Untested("unknown kind");
}

}  // namespace tacit
