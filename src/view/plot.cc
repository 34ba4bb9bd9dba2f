#include "view/plot.h"

#include <algorithm>

#include "view/text.h"

namespace tacit {
namespace {

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + Printable(w);
  return out;
}

Status CheckColumn(const std::vector<RunGroup>& groups, const std::string& column, const std::string& flag) {
  const std::vector<std::string> known = ColumnsOf(groups);
  if (known.empty())
    return Fail(Code::kNotFound, "no round of these runs was traced, so there is nothing to draw");
  if (std::find(known.begin(), known.end(), column) != known.end()) return Ok{};
  return Fail(Code::kInvalidArgument, "{} {}: no run has it; they have {}", flag, Printable(column),
              Joined(known));
}

}  // namespace

Result<Plot> PlotRuns(const std::vector<RunGroup>& groups, const PlotOptions& o) {
  const std::string x = ColumnName(o.x), y = ColumnName(o.y);
  TACIT_OK(CheckColumn(groups, x, o.x_flag));
  TACIT_OK(CheckColumn(groups, y, o.y_flag));
  Plot plot;
  Chart& chart = plot.chart;
  chart.x_label = AxisLabel(x, groups);
  chart.y_label = AxisLabel(y, groups);
  chart.epsilon_x = x == "epsilon";
  chart.epsilon_y = y == "epsilon";
  chart.title = o.title.empty() ? chart.y_label + " against " + chart.x_label : o.title;
  chart.description = chart.title;
  chart.log_x = o.log_x;
  chart.log_y = o.log_y;
  bool banded = false;
  std::vector<std::string> notes;
  std::vector<const RunGroup*> drawn;
  for (const RunGroup& g : groups) {
    Curve c = CurveOf(g, x, y, o.band);
    if (std::any_of(c.y.begin(), c.y.end(), [&](double v) { return !o.log_y || v > 0; })) {
      drawn.push_back(&g);
      chart.curves.push_back(std::move(c));
      continue;
    }
    plot.left_out.push_back(g.label);
    if (!c.note.empty()) notes.push_back(fmt::format("{}: {}", c.label, c.note));
  }
  // What is left out has no part in what the others differ in.
  const std::vector<std::string> labels = LabelsOf(drawn, groups.front().legend);
  for (std::size_t k = 0; k < drawn.size(); ++k) {
    Curve& c = chart.curves[k];
    c.label = labels[k];
    banded |= c.seeds > 1;
    if (!c.note.empty()) notes.push_back(fmt::format("{}: {}", c.label, c.note));
    chart.description +=
        fmt::format("; {}: {} at the end", c.label,
                    chart.epsilon_y ? EpsilonShown(c.y.back()) : fmt::format("{:.4g}", c.y.back()));
  }
  if (chart.curves.empty())
    return Fail(Code::kInvalidArgument, "{} {}: no run has a point of it that can be drawn{}", o.y_flag,
                Printable(o.y),
                o.log_y ? fmt::format("; without {} values at or below 0 can", o.log_y_flag) : "");
  if (banded) chart.note = Describe(o.band);
  for (const std::string& note : notes) chart.note += (chart.note.empty() ? "" : "; ") + note;
  return plot;
}

Result<Band> BandNamed(const std::string& name) {
  if (name == "range") return Band::kRange;
  if (name == "std") return Band::kStd;
  if (name == "none") return Band::kNone;
  return Fail(Code::kInvalidArgument, "--band {}: must be range, std or none", name);
}

}  // namespace tacit
