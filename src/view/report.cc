#include "view/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiment/json_number.h"
#include "view/run_file.h"
#include "view/text.h"

namespace tacit {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 24;
constexpr std::size_t kTableRows = 40;

// Distances that fall by powers of ten are read on a log axis.
bool Falls(std::string_view metric) {
  for (const char* name : {"optimality", "error", "consensus", "primal_residual", "dual_residual"})
    if (metric == name) return true;
  return false;
}

bool AllPositive(const std::vector<Curve>& curves) {
  return std::all_of(curves.begin(), curves.end(), [](const Curve& c) {
    return std::all_of(c.y.begin(), c.y.end(), [](double v) { return v > 0; });
  });
}

std::string Value(double v) { return fmt::format("{:.4g}", v); }

// What a chart shows, in words.
std::string Told(const Chart& chart) {
  std::string out = fmt::format("{} against {}.", chart.y_label, chart.x_label);
  const auto up = [&](double v) { return chart.epsilon_y ? EpsilonShown(v) : Value(v); };
  for (const Curve& c : chart.curves)
    if (!c.y.empty())
      out += fmt::format(" {}: from {} at {} to {} at {}, smallest {}, largest {}.", c.label, up(c.y.front()),
                         Value(c.x.front()), up(c.y.back()), Value(c.x.back()),
                         up(*std::min_element(c.y.begin(), c.y.end())),
                         up(*std::max_element(c.y.begin(), c.y.end())));
  for (const Rule& r : chart.rules) out += fmt::format(" {}: {}.", r.label, up(r.y));
  return out;
}

// HtmlEscaped makes one line of a text; a file keeps its lines.
std::string Lines(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += HtmlEscaped(std::string_view(text).substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return out;
}
std::string Folded(const std::string& summary, const std::string& inside) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", HtmlEscaped(summary), inside);
}
// The same, which paper has unfolded: browsers do not print what is folded.
std::string Paper(const std::string& summary, const std::string& inside) {
  return fmt::format(
      "<details class=\"screen\"><summary>{0}</summary>\n{1}</details>\n"
      "<div class=\"paper\"><h3>{0}</h3>\n{1}</div>\n",
      HtmlEscaped(summary), inside);
}
// What may be wider than the page scrolls, by keyboard too.
std::string Listing(const std::string& text) {
  return "<pre tabindex=\"0\"><code>" + Lines(text) + "</code></pre>\n";
}
std::string Wide(const std::string& table, const char* what) {
  return fmt::format("<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">{}</div>\n", what,
                     table);
}

// A word for a shell: nothing in it is expanded.
std::string ShellQuoted(const std::string& text) {
  std::string shown = Printable(text);
  if (!shown.empty() &&
      shown.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") ==
          std::string::npos)
    return shown;
  std::string out = "'";
  for (const char c : shown) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string Privacy(const std::vector<RunGroup>& groups) {
  TextTable t;
  t.header = {"run", "ε claimed", "ε certified", "δ", "budget asked for", "unit", "state"};
  std::string certificates;
  for (const RunGroup& g : groups)
    for (const RunSummary& r : g.runs) {
      t.rows.push_back({r.name, r.claimed ? EpsilonShown(*r.claimed) : "no claim",
                        r.certified ? EpsilonShown(*r.certified) : "not yet", fmt::format("{:.3g}", r.delta),
                        EpsilonShown(r.budget), r.unit, Name(r.state)});
      if (const auto text = ReadRunFile(r.folder, "certificate.txt", kLargest); text.ok())
        certificates += Paper("Certificate of " + r.name, Listing(*text));
    }
  return "<p>Claimed is what the method's authors state for such a run; certified is what was proved for the "
         "noise that "
         "was really added, rounded up. ∞ means that nothing is promised.</p>\n" +
         Wide(ToHtml(t, "Claimed and certified"), "Claimed and certified") + certificates;
}

// A picture of gray levels 0 … 15, side × side; empty if that is not what it is.
std::string Picture(const nlohmann::json& levels, std::size_t side, const std::string& what) {
  if (!levels.is_array() || side == 0 || side > 64 || levels.size() != side * side) return "";
  std::string out = fmt::format(
      "<figure><svg role=\"img\" aria-label=\"{}\" width=\"140\" height=\"140\" viewBox=\"0 0 {} {}\" "
      "shape-rendering=\"crispEdges\">\n",
      HtmlEscaped(what), side, side);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const int level = levels[i].is_number_integer() ? std::clamp(levels[i].get<int>(), 0, 15) : 0;
    out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"1\" height=\"1\" fill=\"#{:x}{:x}{:x}\"/>", i % side,
                       i / side, level, level, level);
  }
  return out + fmt::format("</svg><figcaption>{}</figcaption></figure>\n", HtmlEscaped(what));
}

std::string Percent(const nlohmann::json& of, const char* key) {
  const auto number = [&](const char* name) {
    return of.contains(name) && of[name].is_number() ? of[name].get<double>() : 0.0;
  };
  const double all = number("guesses"), right = number(key);
  return all > 0 ? fmt::format("{:.1f} %", 100 * right / all) : "not known";
}

// What `tacit audit RUN` found and left in the folder; nothing where it was not run.
std::string Attacked(const std::vector<RunGroup>& groups) {
  TextTable t;
  t.header = {"run",     "ε certified",         "ε measured, at least", "runs of the attack",
              "verdict", "right without noise", "right with noise"};
  std::string pictures;
  for (const RunGroup& g : groups)
    for (const RunSummary& r : g.runs) {
      const auto text = ReadRunFile(r.folder, "audit.json", kLargest);
      if (!text.ok()) continue;
      const auto j = nlohmann::json::parse(*text, nullptr, false);
      if (!j.is_object()) continue;
      const auto number = [&](const char* key) {
        return j.contains(key) ? NumberOf(j[key]) : std::optional<double>();
      };
      const auto measured = number("measured_epsilon"), certified = number("certified_epsilon");
      if (!measured || !certified || !j.contains("recovery") || !j["recovery"].is_object()) continue;
      const nlohmann::json& recovery = j["recovery"];
      if (!recovery.value("guesses", nlohmann::json(0)).is_number()) continue;
      t.rows.push_back({r.name, EpsilonShown(*certified), fmt::format("{:.3g}", *measured),
                        fmt::format("{:.0f}", number("runs").value_or(0)),
                        j.value("certificate_broken", nlohmann::json()) == true ? "broken" : "holds",
                        Percent(recovery, "right_without_noise"), Percent(recovery, "right_with_noise")});
      const nlohmann::json& p = recovery.contains("picture") ? recovery["picture"] : nlohmann::json();
      if (!p.is_object() || !p.value("side", nlohmann::json()).is_number_unsigned()) continue;
      const auto side = p["side"].get<std::size_t>();
      const auto like = [&](const char* key) {
        return p.contains(key) && p[key].is_number() ? p[key].get<double>() : 0.0;
      };
      pictures += "<div class=\"plots\">\n" +
                  Picture(p.value("levels", nlohmann::json()), side, "a client's only record") +
                  Picture(p.value("without_noise", nlohmann::json()), side,
                          fmt::format("recovered without noise, correlation {:.2f}",
                                      like("likeness_without_noise"))) +
                  Picture(p.value("with_noise", nlohmann::json()), side,
                          fmt::format("recovered from this run's noise, correlation {:.2f}",
                                      like("likeness_with_noise"))) +
                  "</div>\n";
    }
  if (t.rows.empty()) return "";
  return "<section aria-labelledby=\"attack\">\n<h2 id=\"attack\">What an attacker recovers</h2>\n"
         "<p>The run's config was attacked on made-up data by <code>tacit audit</code>. Certified is what no "
         "attacker can exceed, measured what this one proved. The last columns say how often he tells "
         "whether "
         "one unit's data are the one or the other of two, if he sees every release: a coin is right in 50 "
         "%.</p>\n" +
         Wide(ToHtml(t, "Attacks"), "Attacks") +
         (pictures.empty()
              ? ""
              : "<p>A made-up picture as the only record of a client, and what all releases of a run "
                "show of it.</p>\n" +
                    pictures) +
         "</section>\n";
}

// Of steps inside a round, from public constants; the trace has the step of the round.
std::string InnerSteps(const Settings& s) {
  const auto value = [&](const char* key) { return PlainValue(s, key); };
  const std::string name = value("algorithm.name");
  if (name == "dp-fedavg" || name == "fedexp" || name == "dp-scaffold")
    return fmt::format("{} at each client, {} {}", value("algorithm.local_rate"),
                       value("algorithm.local_steps"),
                       value("algorithm.batch") == "0" ? "of them" : "passes over its records");
  if (name == "fcrn" && value("algorithm.design") == "once")
    return "none: the cubic model is minimised exactly";
  if (name == "fcrn") {
    const std::string mu = value("algorithm.strong_convexity"), steps = value("algorithm.solver_steps");
    return fmt::format("2/(μ(s + 2)) in step s of the solver, μ = {}, τ = {}",
                       mu.starts_with('-') ? value("model.l2") : mu, steps == "0" ? "that of (9)" : steps);
  }
  if (name == "p-admm") return "peers minimise, by a public number of steps";
  return "none";
}

// The step sizes in words: most are public constants, whose curves say little.
std::string Steps(const std::vector<RunGroup>& groups) {
  TextTable t;
  t.header = {"run", "step size of a round", "of steps inside a round"};
  for (const RunGroup& g : groups) {
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (const Trace& trace : g.traces)
      for (const double v : ColumnOf(trace, "step_size"))
        if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
    std::string step = PlainValue(g.settings, "algorithm.name") == "p-admm" ? "none" : "not traced";
    if (low == high)
      step = Value(low) + " in every round";
    else if (low < high)
      step = fmt::format("{} to {}", Value(low), Value(high));
    t.rows.push_back({g.label, step, InnerSteps(g.settings)});
  }
  return Wide(ToHtml(t, "Step sizes"), "Step sizes");
}

std::string Configs(const std::vector<RunGroup>& groups) {
  std::string out;
  if (groups.size() > 1) {
    std::vector<Settings> all;
    TextTable t;
    t.header = {"key"};
    for (const RunGroup& g : groups) {
      all.push_back(g.settings);
      t.header.push_back(g.label);
    }
    for (const std::string& key : DifferingKeys(all)) {
      std::vector<std::string> row = {key};
      for (const RunGroup& g : groups) row.push_back(PlainValue(g.settings, key));
      t.rows.push_back(std::move(row));
    }
    if (t.rows.empty())
      out += "<p>The configs do not differ in anything that shapes a run.</p>\n";
    else
      out += Wide(ToHtml(t, "What differs"), "What differs");
  }
  for (const RunGroup& g : groups)
    if (const auto text = ReadRunFile(g.runs.front().folder, "config.toml", kLargest); text.ok())
      out += Paper("Resolved config of " + g.label + ": every key with its value", Listing(*text));
  return out;
}

// That made the run, as its certificate says; before there is one: this program.
std::string VersionOf(const RunSummary& r, const std::string& here) {
  const auto text = ReadRunFile(r.folder, "certificate.json", kLargest);
  if (!text.ok()) return here;
  const auto document = nlohmann::json::parse(*text, nullptr, false);
  const auto version = document.is_object() ? document.find("tacit") : document.end();
  return version != document.end() && version->is_string() ? Printable(version->get<std::string>()) : here;
}

std::string Again(const std::vector<RunGroup>& groups, const std::string& here) {
  std::string commands;
  bool entropy = false;
  for (const RunGroup& g : groups) {
    entropy |= PlainValue(g.settings, "privacy.noise") != "replayable";
    for (const RunSummary& r : g.runs)
      commands += fmt::format("tacit train {}  # seed {}, by tacit {}\n",
                              ShellQuoted((r.folder / "config.toml").string()), r.seed, VersionOf(r, here));
  }
  std::string checks;
  for (const RunGroup& g : groups)
    for (const RunSummary& r : g.runs)
      checks += fmt::format("tacit verify {}\n", ShellQuoted(r.folder.string()));
  return "<p>With the version that is named, where the data are:</p>\n" + Listing(commands) +
         (entropy ? "<p>The noise came from the operating system's entropy, so that another run differs in "
                    "its last "
                    "digits; with <code>privacy.noise = \"replayable\"</code> it would be the same bit for "
                    "bit.</p>\n"
                  : "<p>The noise is replayable: the same model comes out bit for bit, with any number of "
                    "threads.</p>\n") +
         "<p>To check the certificates by other code than the runs':</p>\n" + Listing(checks) +
         "<p>Every run on the same data is charged to the cumulative ledger; running it again costs "
         "again.</p>\n";
}

std::string Pictured(const Chart& chart, const std::string& id) {
  return "<figure>\n" + ChartInPage(chart, id) +
         Folded("The figures of this picture",
                Wide(ChartTable(chart, kTableRows), "The figures of the curves")) +
         "</figure>\n";
}

constexpr const char* kStyle =
    "*{box-sizing:border-box}html{color-scheme:light dark}"
    "body{margin:0 auto;max-width:62rem;padding:1.5rem 1rem 4rem;font:16px/1.5 "
    "system-ui,sans-serif;color:var(--ink);"
    "background:var(--paper)}h1{font-size:1.6rem;line-height:1.25;overflow-wrap:anywhere}"
    "h2{margin-top:2.5rem;font-size:1.2rem;border-bottom:1px solid var(--rule)}"
    "figure{margin:1.5rem 0}.chart{width:100%;height:auto;display:block}"
    "table{border-collapse:collapse;margin:.75rem 0;font-size:.875rem;font-variant-numeric:tabular-nums}"
    "caption{text-align:left;color:var(--soft);padding:.25rem 0}"
    "th,td{padding:.3rem .7rem;border-bottom:1px solid var(--rule);text-align:right}"
    "th,td{white-space:nowrap}th:first-child{text-align:left}.wide{overflow-x:auto}"
    "pre{overflow-x:auto;padding:.75rem;border:1px solid "
    "var(--rule);border-radius:6px;font-size:.8125rem;line-height:1.45}"
    "code{font-family:ui-monospace,monospace}summary{cursor:pointer;color:var(--soft);padding:.25rem 0}"
    "summary:focus-visible{outline:2px solid var(--c0)}.soft{color:var(--soft)}"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 1.5rem}"
    "@media "
    "print{body{max-width:none;padding:0;font-size:10pt}:root{--ink:#000;--soft:#444;--paper:#fff;--rule:#"
    "bbb}"
    "figure,table{break-inside:avoid}details:not([open]),details.screen{display:none}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere}.wide,pre{overflow:visible}th,td{white-space:normal}}"
    "@media not print{.paper{display:none}}";

}  // namespace

std::vector<Chart> ReportCharts(const std::vector<RunGroup>& groups, Band band) {
  std::vector<Chart> charts;
  const bool banded =
      std::any_of(groups.begin(), groups.end(), [](const RunGroup& g) { return g.runs.size() > 1; });
  const auto add = [&](const std::string& title, const std::vector<std::string>& columns,
                       const std::string& y_label, bool log) {
    Chart chart;
    chart.title = title;
    chart.x_label = AxisLabel("round");
    chart.y_label = y_label;
    std::string left_out;
    for (const RunGroup& g : groups)
      for (const std::string& column : columns) {
        Curve c = CurveOf(g, "round", column, band);
        if (!c.note.empty()) left_out += fmt::format("; {}: {}", c.label, c.note);
        if (c.x.empty()) continue;
        if (columns.size() > 1)
          c.label = groups.size() > 1 ? c.label + ": " + AxisLabel(column) : AxisLabel(column);
        chart.curves.push_back(std::move(c));
      }
    if (chart.curves.empty() && left_out.empty()) return;
    chart.log_y = log && AllPositive(chart.curves);
    chart.epsilon_y = columns.front() == "epsilon";
    if (banded) chart.note = Describe(band);
    if (!left_out.empty()) chart.note += left_out.substr(chart.note.empty() ? 2 : 0);
    charts.push_back(std::move(chart));
  };
  static const std::vector<std::string> kOther = {"round",       "epsilon",  "sigma", "bytes_up",
                                                  "bytes_down",  "answered", "clip",  "step_size",
                                                  "mean_square", "bytes"};
  for (const std::string& name : ColumnsOf(groups)) {
    if (std::find(kOther.begin(), kOther.end(), name) != kOther.end() || name.find('.') != std::string::npos)
      continue;
    std::string label = AxisLabel(name, groups);
    std::string title = label;
    if (!title.empty() && title[0] >= 'a' && title[0] <= 'z')
      title[0] = static_cast<char>(title[0] - 'a' + 'A');
    add(title, {name}, label, Falls(name));
  }
  const std::size_t privacy = charts.size();
  add("Privacy spent", {"epsilon"}, AxisLabel("epsilon"), false);
  if (charts.size() > privacy) {
    std::vector<double> budgets;
    for (const RunGroup& g : groups)
      if (const double b = g.runs.front().budget;
          !std::isinf(g.runs.front().epsilon) &&
          std::find(budgets.begin(), budgets.end(), b) == budgets.end())
        budgets.push_back(b);
    if (budgets.size() <= 4)
      for (const double b : budgets) charts.back().rules.push_back({b, "budget ε = " + EpsilonShown(b)});
  }
  add("Noise schedule", {"sigma"}, AxisLabel("sigma"), false);
  add("Step size", {"step_size"}, AxisLabel("step_size"), false);
  add("Clip", {"clip"}, "clip", false);
  add("Traffic", {"bytes_up", "bytes_down"}, "bytes so far", false);
  add("Participation", {"answered"}, AxisLabel("answered"), false);
  for (Chart& chart : charts) chart.description = Told(chart);
  return charts;
}

std::string HtmlPage(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"/>\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      HtmlEscaped(title), ChartStyle(":root"), kStyle, body);
}

std::string ReportHtml(const std::vector<RunGroup>& groups, const ReportOptions& options) {
  std::size_t runs = 0;
  for (const RunGroup& g : groups) runs += g.runs.size();
  const std::string title = runs == 1 ? groups.front().runs.front().name
                                      : fmt::format("{} runs of {} experiment{}", runs, groups.size(),
                                                    groups.size() == 1 ? "" : "s");
  std::string body = "<main>\n<h1>" + HtmlEscaped(title) + "</h1>\n";
  const RunSummary& first = groups.front().runs.front();
  if (groups.size() == 1)
    body +=
        fmt::format("<p class=\"soft\">{}, {} mode, on {}; started {}</p>\n", HtmlEscaped(first.algorithm),
                    HtmlEscaped(first.mode), HtmlEscaped(first.data), HtmlEscaped(first.started));
  body += "<section aria-labelledby=\"final\">\n<h2 id=\"final\">Final figures</h2>\n" +
          Wide(ToHtml(FinalTable(groups, {}), ""), "Final figures") + "</section>\n";
  const std::vector<Chart> charts = ReportCharts(groups, options.band);
  body += "<section aria-labelledby=\"curves\">\n<h2 id=\"curves\">Curves</h2>\n";
  if (charts.empty()) body += "<p>No round was traced.</p>\n";
  body += "<div class=\"plots\">\n";
  for (std::size_t k = 0; k < charts.size(); ++k) body += Pictured(charts[k], fmt::format("p{}-", k));
  body += "</div>\n" + Steps(groups) + "</section>\n";
  body += "<section aria-labelledby=\"privacy\">\n<h2 id=\"privacy\">Privacy</h2>\n" + Privacy(groups) +
          "</section>\n";
  body += Attacked(groups);
  body += "<section aria-labelledby=\"config\">\n<h2 id=\"config\">Config</h2>\n" + Configs(groups) +
          "</section>\n";
  body += "<section aria-labelledby=\"again\">\n<h2 id=\"again\">Run it again</h2>\n" +
          Again(groups, options.version) + "</section>\n</main>\n";
  return HtmlPage(title, body);
}

}  // namespace tacit
