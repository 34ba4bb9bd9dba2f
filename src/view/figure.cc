#include "view/figure.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "experiment/json_number.h"
#include "view/text.h"

namespace tacit {
namespace {

std::optional<double> NumberIn(const Value& v) {
  if (const auto* whole = std::get_if<std::int64_t>(&v)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&v)) return *real;
  return std::nullopt;
}
std::string PlainText(const Value& v) {
  if (const auto* text = std::get_if<std::string>(&v)) return *text;
  if (const auto number = NumberIn(v)) return fmt::format("{}", *number);
  return ToText(v);
}
std::string ShortKey(const std::string& key) { return key.substr(key.rfind('.') + 1); }
bool HighIsGood(std::string_view metric) { return metric.find("accuracy") != std::string_view::npos; }
bool Falls(std::string_view metric) {
  for (const char* name : {"optimality", "error", "consensus", "step_size"})
    if (metric.starts_with(name)) return true;
  return false;
}

// The beginnings by which claims name cases together; the longest that fits a case is its name in a picture.
std::vector<std::string> Prefixes(const Figure& figure) {
  std::set<std::string> found;
  for (const PublishedClaim& c : figure.claims)
    for (const Selection* s : {&c.at, &c.numerator, &c.denominator})
      for (const auto& [key, value] : *s)
        if (const auto* text = std::get_if<std::string>(&value); text != nullptr && text->ends_with('*'))
          found.insert(text->substr(0, text->size() - 1));
  return {found.begin(), found.end()};
}

struct Point {
  double x = 0;
  Summary y;
};

struct Drawn {
  std::string x_label;                                   // empty: no axis of numbers
  std::vector<std::string> order;                        // labels, as they come
  std::map<std::string, std::map<double, Point>> lines;  // by label and x
  std::set<std::string> infinite;                        // labels with points that cannot be drawn
};

void Put(Drawn& drawn, const std::string& label, double x, const Summary& y, bool high) {
  if (std::isinf(y.mean)) drawn.infinite.insert(label);
  if (!std::isfinite(y.mean)) return;
  if (!drawn.lines.contains(label)) drawn.order.push_back(label);
  const auto [at, fresh] = drawn.lines[label].try_emplace(x, Point{x, y});
  if (!fresh && (high ? y.mean > at->second.y.mean : y.mean < at->second.y.mean)) at->second = {x, y};
}

// Metrics "name@50": base and round.
std::optional<std::pair<std::string, double>> AtRound(const std::string& metric) {
  const auto at = metric.find('@');
  if (at == std::string::npos) return std::nullopt;
  return std::pair(metric.substr(0, at), std::strtod(metric.c_str() + at + 1, nullptr));
}

// "top:0.1+round:2" is "top+round".
std::string Family(std::string_view text) {
  std::string out;
  for (bool number = false; const char c : text) {
    number = c == ':' || (number && c != '+' && c != '/');
    if (!number) out += c;
  }
  return out;
}
// Of a figure that is drawn against a metric. Bytes are shown as megabytes.
Drawn DrawAgainst(const FigureRecord& r, const std::string& metric) {
  Drawn drawn;
  const std::string& across = r.figure.against;
  const bool bytes = across.starts_with("bytes");
  drawn.x_label = bytes ? fmt::format("MB {}", across == "bytes_up" ? "sent by the clients" : "received")
                        : AxisLabel(across);
  for (const GridPoint& p : r.result.points) {
    std::string label;
    bool here = true;
    for (std::size_t a = 0; a < r.result.axes.size(); ++a) {
      const std::string text = PlainText(p.at[a]);
      const bool named = r.result.axes[a].key == "case";
      if (named && !r.figure.drawn.empty())
        here = text == r.figure.drawn;
      else
        label += (label.empty() ? "" : ", ") + (named ? text : Family(text));
    }
    const auto x = p.metrics.find(across), y = p.metrics.find(metric);
    if (here && x != p.metrics.end() && y != p.metrics.end() && std::isfinite(x->second.mean))
      Put(drawn, label, x->second.mean * (bytes ? 1e-6 : 1), y->second, HighIsGood(metric));
  }
  return drawn;
}

Drawn Draw(const FigureRecord& r, std::string& metric) {
  Drawn drawn;
  const SweepResult& s = r.result;
  metric = "loss";
  for (const std::string& m : r.metrics)
    if (m != "certified_epsilon") {
      metric = m;
      break;
    }
  if (r.metrics.empty() && !s.points.empty() && !s.points[0].metrics.empty())
    metric = s.points[0].metrics.begin()->first;
  if (!r.figure.against.empty()) return DrawAgainst(r, metric);
  const bool high = HighIsGood(metric);
  const auto series = AtRound(metric);
  std::set<std::string> tuned;
  for (const PublishedClaim& c : r.figure.claims) tuned.insert(c.tuned.begin(), c.tuned.end());
  std::size_t across = s.axes.size();
  int best = 0;
  for (std::size_t a = 0; a < s.axes.size() && !series; ++a) {
    std::set<double> values;
    for (const GridPoint& p : s.points)
      if (const auto v = NumberIn(p.at[a])) values.insert(*v);
    if (values.size() < 2 || tuned.contains(s.axes[a].key)) continue;
    const int worth = s.axes[a].key == "algorithm.rounds" ? 3 : s.axes[a].key == "privacy.epsilon" ? 2 : 1;
    if (worth >= best) best = worth, across = a;
  }
  if (across < s.axes.size())
    drawn.x_label = ShortKey(s.axes[across].key) == "epsilon" ? "ε asked for" : ShortKey(s.axes[across].key);
  if (series) drawn.x_label = "rounds";
  const std::vector<std::string> prefixes = Prefixes(r.figure);
  for (const GridPoint& p : s.points) {
    std::string label;
    for (std::size_t a = 0; a < s.axes.size(); ++a) {
      const std::string& key = s.axes[a].key;
      if (a == across || (tuned.contains(key) && key != "case")) continue;
      std::set<std::string> values;
      for (const GridPoint& other : s.points) values.insert(PlainText(other.at[a]));
      if (values.size() < 2) continue;
      std::string text = PlainText(p.at[a]), group;
      if (key == "case" && tuned.contains(key))
        for (const std::string& prefix : prefixes)
          if (text.starts_with(prefix) && prefix.size() > group.size()) group = prefix;
      while (group.ends_with(',') || group.ends_with(' ')) group.pop_back();
      if (!group.empty()) text = group + ", best";
      label += (label.empty() ? "" : ", ") + (NumberIn(p.at[a]) ? ShortKey(key) + " = " + text : text);
    }
    if (series) {
      for (const std::string& m : r.metrics)
        if (const auto one = AtRound(m); one && one->first == series->first)
          if (const auto y = p.metrics.find(m); y != p.metrics.end())
            Put(drawn, label, one->second, y->second, high);
      continue;
    }
    const auto y = p.metrics.find(metric);
    if (y == p.metrics.end()) continue;
    const double x = across < s.axes.size() ? NumberIn(p.at[across]).value_or(NAN) : 0;
    if (!std::isfinite(x)) continue;
    const auto certified = p.metrics.find("certified_epsilon");
    if (metric != "claimed_epsilon" || certified == p.metrics.end()) {
      Put(drawn, label, x, y->second, high);
    } else {  // side by side
      Put(drawn, label + ", claimed", x, y->second, high);
      Put(drawn, label + ", certified", x, certified->second, high);
    }
  }
  if (series) metric = series->first;
  if (metric == "claimed_epsilon") metric = "ε";
  return drawn;
}

const char* Mark(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::kHolds: return "✓ holds";
    case Verdict::Kind::kFails: return "✗ does not hold";
    case Verdict::Kind::kUntested: return "not tested";
  }
  return "";
}

constexpr std::string_view kVerdictHeader =
    "| what is claimed | published | ours | verdict | within error | certified |\n";
constexpr std::string_view kMissing = "\n## Not reproduced here\n";

std::string RunsText(const FigureRecord& r) {
  std::size_t runs = 0;
  for (const GridPoint& p : r.result.points) runs += p.seeds;
  return fmt::format("{} of {} runs{}", runs, r.result.cells,
                     r.quick ? ", the quick version with fewer seeds or rounds" : "");
}

}  // namespace

std::string FlatName(const Figure& figure) {
  std::string flat = figure.name;  // of a file, and of a place on a page
  for (char& c : flat)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.') c = '-';
  return flat;
}

FigureRecord MakeRecord(const Figure& figure, const Sweep& sweep, SweepResult result, bool quick) {
  FigureRecord r{.figure = figure,
                 .metrics = sweep.metrics,
                 .result = std::move(result),
                 .verdicts = {},
                 .quick = quick};
  for (const PublishedClaim& claim : figure.claims) r.verdicts.push_back(Check(claim, r.result));
  return r;
}

Result<FigureRecord> StoredFigure(const Figure& figure, const Sweep& sweep, bool quick) {
  std::error_code ec;
  if (!std::filesystem::exists(sweep.folder / "results.jsonl", ec))
    return Fail(Code::kNotFound, "{}: has not been run; `tacit reproduce {}` does", figure.name, figure.name);
  static const std::atomic<bool> kStopped = true;  // before the first cell: only what is there is read
  SweepHooks hooks;
  hooks.interrupt = &kStopped;
  hooks.jobs = 1;
  TACIT_TRY(SweepResult result, RunSweep(sweep, hooks));
  if (result.points.empty())
    return Fail(
        Code::kNotFound,
        "{}: its results are of another version of the experiment; `tacit reproduce {}` runs it again",
        figure.name, figure.name);
  return MakeRecord(figure, sweep, std::move(result), quick);
}

std::pair<double, double> CertifiedRange(const FigureRecord& r) {
  double low = NAN, high = NAN;
  for (const GridPoint& p : r.result.points)
    if (const double v = CertifiedAt(p); !std::isnan(v)) {
      low = std::isnan(low) ? v : std::min(low, v);
      high = std::isnan(high) ? v : std::max(high, v);
    }
  return {low, high};
}

std::string CertifiedText(const FigureRecord& r) {
  const auto [low, high] = CertifiedRange(r);
  if (std::isnan(low)) return "unknown";
  if (std::isinf(low)) return "∞: nothing is certified";
  if (EpsilonShown(low) == EpsilonShown(high)) return "ε ≤ " + EpsilonShown(high);
  return fmt::format("ε ≤ {} to {}", EpsilonShown(low), EpsilonShown(high));
}

std::string CertifiedText(const Verdict& v) {
  if (v.certified.empty()) return "–";
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const double e : v.certified) {
    if (std::isnan(e)) return "unknown";
    low = std::min(low, e), high = std::max(high, e);
  }
  const std::string first = EpsilonShown(v.certified[0]), last = EpsilonShown(v.certified.back());
  if (EpsilonShown(low) == EpsilonShown(high)) return std::isinf(high) ? "∞" : "ε ≤ " + first;
  return v.certified.size() == 2 ? fmt::format("ε ≤ {} / {}", first, last)
                                 : fmt::format("ε ≤ {} to {}", EpsilonShown(low), EpsilonShown(high));
}

std::string ErrorText(const Verdict& v) {
  if (v.kind == Verdict::Kind::kUntested) return "–";
  if (!v.errors) return "not known";
  if (std::isinf(*v.errors)) return "no, nothing varies";
  const std::string by = *v.errors < 10 ? fmt::format("{:.2g}", *v.errors) : fmt::format("{:.0f}", *v.errors);
  return fmt::format("{}, {} s.e.", v.within_error() ? "yes" : "no", by);
}

std::string FigureSvg(const FigureRecord& r, ChartSize size) {
  std::string metric;
  const Drawn drawn = Draw(r, metric);
  Chart chart;
  chart.title = r.figure.title.empty() ? r.figure.name : r.figure.title;
  chart.y_label = AxisLabel(metric);
  chart.x_label = drawn.x_label;
  chart.description = fmt::format("{} ({}): {}", chart.title, r.figure.paper, chart.y_label);
  bool seeds = false, positive = true;
  double low = HUGE_VAL, high = 0, left = HUGE_VAL, right = 0;
  for (const std::string& label : drawn.order) {
    Curve c;
    c.label = label.empty() ? r.figure.name : label;
    for (const auto& [x, p] : drawn.lines.at(label)) {
      c.x.push_back(x);
      c.y.push_back(p.y.mean);
      c.low.push_back(p.y.mean - p.y.std);
      c.high.push_back(p.y.mean + p.y.std);
      seeds |= p.y.count > 1;
      positive &= p.y.mean > 0;
      low = std::min(low, p.y.mean);
      high = std::max(high, p.y.mean);
      left = std::min(left, x);
      right = std::max(right, x);
    }
    const auto text = [&](double v) {
      return metric.ends_with("_epsilon") ? EpsilonShown(v) : fmt::format("{:.4g}", v);
    };
    chart.description += fmt::format("; {}: {}{}", c.label, text(c.y.front()),
                                     c.y.size() > 1 ? " to " + text(c.y.back()) : "");
    chart.curves.push_back(std::move(c));
  }
  chart.log_y = positive && (Falls(metric) || high > 100 * low);
  if (seeds) chart.note = "mean over the seeds, ± one standard deviation";
  chart.epsilon_y = metric.ends_with("_epsilon");
  for (const std::string& label : drawn.infinite)
    chart.note += fmt::format("{}{}: ∞, not drawn", chart.note.empty() ? "" : "; ", label);
  if (drawn.x_label.empty()) return DotsSvg(chart, size.width);
  if (!seeds)
    for (Curve& c : chart.curves) c.low.clear(), c.high.clear();
  chart.log_x = left > 0 && right >= 30 * left;
  chart.markers = true;
  return ChartSvg(chart, size);
}

std::string VerdictMarkdown(const FigureRecord& r) {
  std::string out = fmt::format("Certified: {}. Runs: {}.\n\n", CertifiedText(r), RunsText(r));
  if (r.figure.claims.empty()) return out;
  out += kVerdictHeader;
  out += "|---|---|---|---|---|---|\n";
  for (std::size_t k = 0; k < r.figure.claims.size(); ++k) {
    const PublishedClaim& c = r.figure.claims[k];
    const Verdict& v = r.verdicts[k];
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", MarkdownEscaped(c.text),
                       c.published.empty() ? "says nothing" : MarkdownEscaped(c.published),
                       MarkdownEscaped(v.numbers), Mark(v.kind), ErrorText(v), CertifiedText(v));
  }
  return out;
}

nlohmann::json ToJson(const FigureRecord& r) {
  nlohmann::json claims = nlohmann::json::array();
  const auto figure = [](double v) { return std::isnan(v) ? nlohmann::json(nullptr) : Number(v); };
  for (std::size_t k = 0; k < r.figure.claims.size(); ++k) {
    const Verdict& v = r.verdicts[k];
    nlohmann::json certified = nlohmann::json::array();
    for (const double e : v.certified) certified.push_back(figure(e));
    claims.push_back({{"text", r.figure.claims[k].text},
                      {"published", r.figure.claims[k].published},
                      {"verdict", Name(v.kind)},
                      {"numbers", v.numbers},
                      {"standard_errors_from_limit", figure(v.errors.value_or(NAN))},
                      {"certified_epsilon", certified}});
  }
  const auto [low, high] = CertifiedRange(r);
  return {{"name", r.figure.name},
          {"quick", r.quick},
          {"sweep", ToJson(r.result)},
          {"certified_epsilon", {{"smallest", figure(low)}, {"largest", figure(high)}}},
          {"claims", claims}};
}

GalleryEntry MakeEntry(const FigureRecord& r, const std::string& pictures) {
  std::map<Verdict::Kind, std::size_t> count;
  for (const Verdict& v : r.verdicts) ++count[v.kind];
  GalleryEntry e;
  e.anchor = FlatName(r.figure);
  e.line = fmt::format("| [{}](#{}) | {} | {} | {} | {} | {} |\n", MarkdownEscaped(r.figure.name), e.anchor,
                       count[Verdict::Kind::kHolds], count[Verdict::Kind::kFails],
                       count[Verdict::Kind::kUntested], CertifiedText(r), RunsText(r));
  e.section = fmt::format("\n<a id=\"{}\"></a>\n## {}\n\n", e.anchor, MarkdownEscaped(r.figure.name));
  if (!r.figure.title.empty()) e.section += MarkdownEscaped(r.figure.title) + "\n";
  if (!r.figure.paper.empty()) e.section += fmt::format("({})\n", MarkdownEscaped(r.figure.paper));
  e.section += fmt::format("\n<img src=\"{0}/{1}.svg\" width=\"640\" alt=\"{2}\">\n\n", pictures, e.anchor,
                           HtmlEscaped(r.figure.title));
  e.section += VerdictMarkdown(r);
  return e;
}

void Put(std::vector<GalleryEntry>& entries, GalleryEntry entry) {
  const auto at = std::lower_bound(entries.begin(), entries.end(), entry.anchor,
                                   [](const GalleryEntry& e, const std::string& a) { return e.anchor < a; });
  if (at != entries.end() && at->anchor == entry.anchor)
    *at = std::move(entry);
  else
    entries.insert(at, std::move(entry));
}

std::vector<GalleryEntry> GalleryEntries(std::string_view page) {
  constexpr std::string_view kSection = "\n<a id=\"";
  std::vector<GalleryEntry> entries;
  for (std::size_t at = page.find(kSection); at != std::string_view::npos;) {
    const std::size_t name = at + kSection.size(), quote = page.find('"', name),
                      end = page.find(kSection, name);
    if (quote == std::string_view::npos) break;
    std::string_view section = page.substr(at, end - at);
    section = section.substr(0, section.find(kMissing));
    GalleryEntry e{std::string(page.substr(name, quote - name)), {}, std::string(section)};
    const std::string link = fmt::format("](#{}) |", e.anchor);
    if (const std::size_t row = page.find(link); row < at) {
      const std::size_t begin = page.rfind('\n', row) + 1;  // after npos: 0
      e.line = std::string(page.substr(begin, page.find('\n', row) + 1 - begin));
      Put(entries, std::move(e));
    }
    at = end;
  }
  return entries;
}

std::string GalleryMarkdown(const std::vector<GalleryEntry>& entries,
                            const std::vector<NotReproduced>& missing) {
  std::string out =
      "# Gallery\n\n"
      "Published figures, run again by `tacit reproduce`, with what was said of them and what came of it. A\n"
      "claim that does not hold is a finding. Certified is what can be proved for the noise that was added,\n"
      "whatever was claimed: of one run alone, not of all runs of a figure together.\n"
      "This page and its pictures are written by `tacit reproduce --gallery`.\n\n"
      "Ours is a mean over seeds ± one standard deviation. *Within error*: the limit is at most two "
      "standard\n"
      "errors (s.e.) of our means away, so that other seeds may decide otherwise; not known with one seed. "
      "What\n"
      "choosing the best of a tuned method by its own figure adds is not in it. Certified is of the runs "
      "that a\n"
      "row compares; a / b where they differ. Not tested: the points were not run, which most quick "
      "versions\n"
      "leave out; `tacit reproduce FIGURE` runs them all.\n\n";
  std::string older;
  for (const GalleryEntry& e : entries)
    if (e.section.find("| what is claimed |") != std::string::npos &&
        e.section.find(kVerdictHeader) == std::string::npos)
      older += fmt::format("{}[{}](#{})", older.empty() ? "" : ", ", MarkdownEscaped(e.anchor), e.anchor);
  if (!older.empty())
    out +=
        "Tables of four columns were made by a version that printed neither spreads nor what is certified "
        "row\n"
        "by row, and the results behind them are not kept here: " +
        older + ".\n\n";
  out +=
      "| figure | claims that hold | do not | not tested | certified | runs "
      "|\n|---|---:|---:|---:|---|---|\n";
  for (const GalleryEntry& e : entries) out += e.line;
  if (!missing.empty()) out += "\nWhat is missing: [not reproduced here](#not-reproduced-here).\n";
  for (const GalleryEntry& e : entries) out += e.section;
  if (missing.empty()) return out;
  out += kMissing;
  out += "\n| paper | what | because |\n|---|---|---|\n";
  for (const NotReproduced& m : missing)
    out += fmt::format("| {} | {} | {} |\n", MarkdownEscaped(m.paper), MarkdownEscaped(m.what),
                       MarkdownEscaped(m.because));
  return out;
}

}  // namespace tacit
