#include "view/curves.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "view/text.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

std::string ShortKey(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// What to name a group by: the values of the keys in which the groups differ, the telling ones first.
// A name stands for itself, a figure with its key.
std::string Named(const Settings& settings, const std::string& key, const std::vector<std::string>& keys) {
  std::string value = PlainValue(settings, key);
  for (const char* name : {"algorithm.name", "data.source", "model.name", "experiment.name"})
    if (key == name) return fs::path(value).filename().string();
  if (key == "algorithm.mode") return value + " mode";
  const auto alike = std::count_if(
      keys.begin(), keys.end(), [&](const std::string& other) { return ShortKey(other) == ShortKey(key); });
  if (value.ends_with(".0")) value.resize(value.size() - 2);
  return fmt::format("{} = {}", alike > 1 ? key : ShortKey(key), value);
}

// How many labels there are if these keys are named.
std::size_t DistinctBy(const std::vector<const RunGroup*>& groups, const std::vector<std::string>& keys) {
  std::set<std::vector<std::string>> seen;
  for (const RunGroup* g : groups) {
    std::vector<std::string> values;
    for (const std::string& key : keys) values.push_back(Named(g->settings, key, keys));
    seen.insert(std::move(values));
  }
  return seen.size();
}

// The keys that labels name: every name that differs, then whichever figure tells most groups apart until all
// that can be told apart are, then others up to four in all. Of equals ε comes first, then rounds.
std::vector<std::string> LabelKeys(const std::vector<const RunGroup*>& groups) {
  constexpr std::size_t kUsual = 4;
  std::vector<Settings> settings;
  for (const RunGroup* g : groups) settings.push_back(g->settings);
  std::vector<std::string> chosen, left = DifferingKeys(settings);
  const std::size_t most = DistinctBy(groups, left);
  for (const char* first : {"algorithm.name", "data.source", "model.name", "algorithm.mode"})
    if (std::erase(left, first) > 0) chosen.emplace_back(first);
  for (const char* first : {"algorithm.rounds", "privacy.epsilon"})
    if (std::erase(left, first) > 0) left.insert(left.begin(), first);
  while (DistinctBy(groups, chosen) < most) {
    std::size_t best = 0, tells = 0;
    for (std::size_t k = 0; k < left.size(); ++k) {
      chosen.push_back(left[k]);
      if (const std::size_t now = DistinctBy(groups, chosen); now > tells) best = k, tells = now;
      chosen.pop_back();
    }
    chosen.push_back(left[best]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
  }
  for (const std::string& key : left)
    if (chosen.size() < kUsual) chosen.push_back(key);
  return chosen;
}

std::string Number4(double v) { return fmt::format("{:.4g}", v); }

struct Spread {
  double mean = 0, std = 0, low = 0, high = 0;
};
Spread SpreadOf(const std::vector<double>& values) {
  Spread s{.mean = 0, .std = 0, .low = values.front(), .high = values.front()};
  for (const double v : values) {
    s.mean += v / static_cast<double>(values.size());
    s.low = std::min(s.low, v);
    s.high = std::max(s.high, v);
  }
  for (const double v : values) s.std += (v - s.mean) * (v - s.mean);
  s.std = values.size() > 1 ? std::sqrt(s.std / static_cast<double>(values.size() - 1)) : 0;
  return s;
}

}  // namespace

std::vector<std::string> LabelsOf(const std::vector<const RunGroup*>& groups,
                                  const std::vector<std::string>& legend) {
  const std::vector<std::string> keys = legend.empty() ? LabelKeys(groups) : legend;
  std::vector<std::string> labels;
  std::map<std::string, std::size_t> count;
  for (const RunGroup* g : groups) {
    std::string label;
    for (const std::string& key : keys) label += (label.empty() ? "" : ", ") + Named(g->settings, key, keys);
    if (label.empty()) label = g->runs.front().name;
    ++count[label];
    labels.push_back(std::move(label));
  }
  // Of one label still (a run repeated with the same seed, keys that were asked for): by name.
  for (std::size_t k = 0; k < groups.size(); ++k)
    if (const std::string& name = groups[k]->runs.front().name; count[labels[k]] > 1 && labels[k] != name)
      labels[k] += " (" + name + ")";
  return labels;
}

Result<std::vector<RunGroup>> GroupRuns(const std::vector<fs::path>& folders,
                                        const std::vector<std::string>& legend) {
  std::vector<RunGroup> groups;
  std::set<fs::path> seen;
  for (const fs::path& folder : folders) {
    std::error_code ec;
    if (!seen.insert(fs::weakly_canonical(folder, ec)).second) continue;
    TACIT_TRY(RunSummary run, SummaryOf(folder));
    if (run.state == RunState::kBroken)
      return Fail(Code::kMalformed, "{}: the run cannot be shown: {}", folder.string(), run.problem);
    TACIT_TRY(Settings settings, ReadSettings(run.folder));
    TACIT_TRY(Trace trace, ReadTrace(run.folder));
    auto group = std::find_if(groups.begin(), groups.end(), [&](const RunGroup& g) {
      return SameButSeed(g.settings, settings) &&
             std::none_of(g.runs.begin(), g.runs.end(),
                          [&](const RunSummary& r) { return r.seed == run.seed; });
    });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), RunGroup{});
      group->settings = std::move(settings);
    }
    group->runs.push_back(std::move(run));
    group->traces.push_back(std::move(trace));
  }
  std::vector<const RunGroup*> all;
  for (const RunGroup& g : groups) all.push_back(&g);
  const std::vector<std::string> labels = LabelsOf(all, legend);
  for (std::size_t k = 0; k < groups.size(); ++k) groups[k].label = labels[k], groups[k].legend = legend;
  return groups;
}

std::string ColumnName(std::string_view word) {
  if (word == "rounds") return "round";
  return std::string(word);
}

std::string AxisLabel(std::string_view column) {
  static const std::map<std::string, std::string, std::less<>> kLabels = {
      {"round", "rounds"},
      {"epsilon", "ε spent"},
      {"sigma", "σ of the noise"},
      {"bytes", "bytes, both directions"},
      {"bytes_up", "bytes from clients"},
      {"bytes_down", "bytes to clients"},
      {"answered", "messages that counted in a round"},
      {"step_size", "step size"},
      {"optimality", "distance from the optimum"},
      {"train_loss", "training loss"},
      {"train_accuracy", "training accuracy"},
      {"primal_residual", "primal residual"},
      {"dual_residual", "dual residual"}};
  const auto at = kLabels.find(column);
  return at == kLabels.end() ? Printable(column) : at->second;
}

std::vector<double> ColumnOf(const Trace& trace, std::string_view column) {
  if (column == "bytes") {
    const auto *up = trace.column("bytes_up"), *down = trace.column("bytes_down");
    if (up == nullptr || down == nullptr) return {};
    std::vector<double> sum = *up;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += (*down)[i];
    return sum;
  }
  const auto* found = trace.column(column);
  return found == nullptr ? std::vector<double>() : *found;
}

std::vector<std::string> ColumnsOf(const std::vector<RunGroup>& groups) {
  std::vector<std::string> names;
  for (const RunGroup& g : groups)
    for (const Trace& t : g.traces)
      for (const std::string& name : t.names)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  if (std::find(names.begin(), names.end(), "bytes_up") != names.end()) names.emplace_back("bytes");
  return names;
}

const char* Describe(Band band) {
  switch (band) {
    case Band::kNone: return "mean over the seeds";
    case Band::kRange: return "mean over the seeds; band: smallest to largest";
    case Band::kStd: return "mean over the seeds; band: ± one standard deviation";
  }
  return "";
}

std::string AxisLabel(std::string_view column, const std::vector<RunGroup>& groups) {
  const bool oracle = std::any_of(groups.begin(), groups.end(), [&](const RunGroup& g) {
    return std::any_of(g.runs.begin(), g.runs.end(),
                       [&](const RunSummary& r) { return r.oracle.contains(std::string(column)); });
  });
  return AxisLabel(column) + (oracle ? " (oracle, not private)" : "");
}

Curve CurveOf(const RunGroup& group, std::string_view x, std::string_view y, Band band) {
  Curve curve;
  curve.label = group.label;
  struct Run {
    std::vector<double> round, x, y;
  };
  std::vector<Run> runs;
  for (const Trace& t : group.traces) {
    Run r{ColumnOf(t, "round"), ColumnOf(t, x), ColumnOf(t, y)};
    if (!r.x.empty() && !r.y.empty() && !r.round.empty()) runs.push_back(std::move(r));
  }
  curve.seeds = runs.size();
  if (runs.empty()) return curve;
  const bool banded = runs.size() > 1 && band != Band::kNone;
  bool infinite = false;
  std::vector<std::size_t> at(runs.size(), 0);  // the row of each run that is at or after the round
  for (std::size_t i = 0; i < runs.front().round.size(); ++i) {
    const double round = runs.front().round[i];
    std::vector<double> xs, ys;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const Run& run = runs[r];
      while (at[r] < run.round.size() && run.round[at[r]] < round) ++at[r];
      if (at[r] == run.round.size() || run.round[at[r]] != round) break;
      const double here = run.x[at[r]], up = run.y[at[r]];
      infinite |= std::isinf(here) || std::isinf(up);
      if (!std::isfinite(here) || !std::isfinite(up)) break;
      xs.push_back(here);
      ys.push_back(up);
    }
    if (ys.size() != runs.size()) continue;
    const Spread s = SpreadOf(ys);
    curve.x.push_back(SpreadOf(xs).mean);
    curve.y.push_back(s.mean);
    if (!banded) continue;
    curve.low.push_back(band == Band::kRange ? s.low : s.mean - s.std);
    curve.high.push_back(band == Band::kRange ? s.high : s.mean + s.std);
  }
  const auto say = [&](const std::string& what) { curve.note += (curve.note.empty() ? "" : ", ") + what; };
  if (infinite) say("∞ is not drawn");
  if (runs.size() < group.runs.size())
    say(fmt::format("{} of {} seeds have no points yet", group.runs.size() - runs.size(), group.runs.size()));
  const auto [first, last] = std::minmax_element(
      runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.round.back() < b.round.back(); });
  if (first->round.back() < last->round.back())
    say(fmt::format("up to round {:g}, where one of {} seeds ends", first->round.back(), runs.size()));
  return curve;
}

std::string EpsilonShown(double v) {
  if (std::isnan(v)) return "?";
  if (std::isinf(v)) return "∞";
  // Up to the next figure of four digits.
  for (int digits = 4; digits <= 17; ++digits) {
    std::string text = fmt::format("{:.{}g}", v, digits);
    if (std::strtod(text.c_str(), nullptr) >= v) return text;
    const double unit = std::pow(10.0, std::floor(std::log10(std::abs(v))) - (digits - 1));
    std::string up = fmt::format("{:.{}g}", v + unit, digits);
    if (std::strtod(up.c_str(), nullptr) >= v) return up;
  }
  return fmt::format("{}", v);
}

TextTable FinalTable(const std::vector<RunGroup>& groups, const std::vector<std::string>& asked) {
  std::vector<std::string> metrics = asked;
  if (metrics.empty())
    for (const RunGroup& g : groups)
      for (const auto& [name, value] : g.runs.front().metrics)
        if (std::find(metrics.begin(), metrics.end(), name) == metrics.end()) metrics.push_back(name);
  const auto any = [&](const auto& has) {
    return std::any_of(groups.begin(), groups.end(),
                       [&](const RunGroup& g) { return std::any_of(g.runs.begin(), g.runs.end(), has); });
  };
  const bool claims = any([](const RunSummary& r) { return r.claimed.has_value(); });
  const bool seeds =
      std::any_of(groups.begin(), groups.end(), [](const RunGroup& g) { return g.runs.size() > 1; });
  TextTable t;
  t.header = {"run"};
  if (seeds) t.header.emplace_back("seeds");
  t.header.emplace_back("rounds");
  if (claims) t.header.emplace_back("ε claimed");
  for (const char* name : {"ε certified", "δ"}) t.header.emplace_back(name);
  for (const std::string& m : metrics) {
    std::vector<RunSummary> all;
    for (const RunGroup& g : groups) all.insert(all.end(), g.runs.begin(), g.runs.end());
    t.header.push_back(MetricLabel(m, all));
  }
  for (const RunGroup& g : groups) {
    const RunSummary& first = g.runs.front();
    std::vector<std::string> row = {g.label};
    if (seeds) row.push_back(fmt::format("{}", g.runs.size()));
    row.push_back(fmt::format("{}", first.rounds));
    if (claims) row.push_back(first.claimed ? EpsilonShown(*first.claimed) : "none");
    double certified = 0;  // the largest, and none if a run has none
    bool all = true;
    for (const RunSummary& r : g.runs) {
      all &= r.certified.has_value();
      certified = std::max(certified, r.certified.value_or(0));
    }
    row.push_back(all ? EpsilonShown(certified) : "not yet");
    row.push_back(fmt::format("{:.3g}", first.delta));
    for (const std::string& m : metrics) {
      std::vector<double> values;
      for (const RunSummary& r : g.runs)
        if (const auto at = r.metrics.find(m); at != r.metrics.end()) values.push_back(at->second);
      if (values.size() != g.runs.size()) {
        row.emplace_back("none");
        continue;
      }
      const Spread s = SpreadOf(values);
      row.push_back(values.size() > 1 ? fmt::format("{} ± {:.2g}", Number4(s.mean), s.std) : Number4(s.mean));
    }
    t.rows.push_back(std::move(row));
  }
  return t;
}

std::string ToMarkdown(const TextTable& t) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string out = "|";
    for (const std::string& c : cells) out += " " + MarkdownEscaped(c) + " |";
    return out + "\n";
  };
  std::string out = line(t.header) + "|";
  for (std::size_t c = 0; c < t.header.size(); ++c) out += c == 0 ? "---|" : "---:|";
  out += "\n";
  for (const auto& row : t.rows) out += line(row);
  return out;
}

std::string ToTex(const TextTable& t) {
  const auto cell = [](const std::string& text) {
    // Letters that a plain LaTeX document would not have in its fonts.
    static const std::pair<const char*, const char*> kMaths[] = {
        {"ε", "$\\varepsilon$"}, {"δ", "$\\delta$"}, {"σ", "$\\sigma$"}, {"∞", "$\\infty$"}, {"±", "$\\pm$"}};
    std::string out = TexEscaped(text);
    for (const auto& [from, to] : kMaths)
      for (std::size_t at = 0; (at = out.find(from, at)) != std::string::npos;
           at += std::string_view(to).size())
        out.replace(at, std::string_view(from).size(), to);
    return out;
  };
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t c = 0; c < cells.size(); ++c) out += (c > 0 ? " & " : "  ") + cell(cells[c]);
    return out + " \\\\\n";
  };
  std::string out = "\\begin{tabular}{l" + std::string(t.header.size() - 1, 'r') + "}\n  \\hline\n";
  out += line(t.header) + "  \\hline\n";
  for (const auto& row : t.rows) out += line(row);
  return out + "  \\hline\n\\end{tabular}\n";
}

std::string ToHtml(const TextTable& t, const std::string& caption) {
  std::string out = "<table>\n";
  if (!caption.empty()) out += fmt::format("<caption>{}</caption>\n", HtmlEscaped(caption));
  out += "<thead><tr>";
  for (const std::string& h : t.header) out += fmt::format("<th scope=\"col\">{}</th>", HtmlEscaped(h));
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : t.rows) {
    out += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c)
      out += c == 0 ? fmt::format("<th scope=\"row\">{}</th>", HtmlEscaped(row[c]))
                    : fmt::format("<td>{}</td>", HtmlEscaped(row[c]));
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

}  // namespace tacit
