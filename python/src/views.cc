// What is stored of runs, as src/view shows it.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>

#include "experiment/run.h"
#include "module.h"
#include "privacy/gdp.h"
#include "view/plot.h"
#include "view/report.h"
#include "view/run_file.h"
#include "view/runs.h"
#include "view/trace.h"

namespace tacit::python {
namespace {

using nlohmann::json;
using Paths = std::vector<std::string>;

std::vector<RunGroup> Groups(const Paths& folders, const Paths& legend) {
  std::vector<std::filesystem::path> found;
  for (const std::string& folder : folders) {
    std::vector<RunSummary> here = Value(ListRuns({folder}));
    if (here.empty())
      throw EngineError(
          Fail(Code::kNotFound, "{}: there is no run in this folder; give one that training wrote", folder));
    for (auto at = here.rbegin(); at != here.rend(); ++at)      // the oldest first
      if (at->state != RunState::kBroken || here.size() == 1) found.push_back(at->folder);
  }
  return Value(GroupRuns(found, legend));
}

Plot Draw(const Paths& runs, const std::string& x, const std::string& y, bool log_x, bool log_y,
          const std::string& band, const std::string& title, const Paths& legend) {
  const nb::gil_scoped_release free;
  const PlotOptions o{.x = x,
                      .y = y,
                      .title = title,
                      .band = Value(BandNamed(band)),
                      .log_x = log_x,
                      .log_y = log_y,
                      .x_flag = "x =",
                      .y_flag = "y =",
                      .log_y_flag = "log_y"};
  return Value(PlotRuns(Groups(runs, legend), o));
}

nb::bytes PictureOf(const Plot& p, const std::string& kind, int width, int height) {
  if (kind != "png" && kind != "pdf")
    throw EngineError(Fail(Code::kInvalidArgument, "{}: a picture is svg, png or pdf", kind));
  std::string bytes;
  {
    const nb::gil_scoped_release free;
    bytes = Value(ChartByGnuplot(p.chart, kind == "png" ? Picture::kPng : Picture::kPdf, {width, height}));
  }
  return nb::bytes(bytes.data(), bytes.size());
}

std::string RunsJson(const Paths& roots) {
  json out = json::array();
  std::vector<std::filesystem::path> paths(roots.begin(), roots.end());
  for (const RunSummary& s : Value(ListRuns(paths))) out.push_back(ToJson(s));
  return out.dump();
}

nb::object Column(nb::handle self, const std::string& name) {
  const auto& trace = nb::cast<const Trace&>(self);
  const std::vector<double>* column = trace.column(name);
  if (column == nullptr) throw nb::key_error(name.c_str());
  return nb::cast(nb::ndarray<nb::numpy, const double, nb::ndim<1>>(column->data(), {column->size()}, self));
}

// Of a run without a folder: its metrics, round by round.
Trace FromJson(const std::string& text) {
  Trace t;
  const json lines = json::parse(text);
  for (const json& line : lines)
    for (const auto& [key, value] : line.items())
      if (t.column(key) == nullptr) {
        t.names.push_back(key);
        t.columns.emplace_back();
      }
  for (const json& line : lines)
    for (std::size_t i = 0; i < t.names.size(); ++i)
      t.columns[i].push_back(line.contains(t.names[i]) && line[t.names[i]].is_number()
                                 ? line[t.names[i]].get<double>()
                                 : std::nan(""));
  return t;
}

std::string RunLedger(const std::string& folder) {
  json out = json::array();
  for (const LedgerRecord& r : Value(SqliteVault::Read(std::filesystem::path(folder) / "ledger.db"))) {
    json spent = json::array();
    for (const double m : r.spent)
      spent.push_back(r.plan.empty() ? GdpEpsilon(Root(MuSquared::Proven(m)), Delta::Proven(r.delta)).upper
                                     : r.plan_epsilon);
    out.push_back({{"run", r.run},
                   {"data", r.data},
                   {"unit", r.unit},
                   {"adjacency", r.adjacency},
                   {"mode", r.mode},
                   {"state", r.state},
                   {"delta", r.delta},
                   {"epsilon", spent},
                   {"rounds_released", r.rounds_released}});
  }
  return out.dump();
}

}  // namespace

void AddViews(nb::module_& m) {
  nb::class_<Trace>(m, "Trace", "The trace of a run as columns.")
      .def_static(
          "read", [](const std::string& folder) { return Value(ReadTrace(folder)); }, nb::arg("folder"))
      .def_static("of_metrics", &FromJson, nb::arg("lines"))
      .def_ro("names", &Trace::names)
      .def("column", &Column, nb::arg("name"), "One column: the engine's own memory, read-only.")
      .def("__len__", &Trace::rows);
  nb::class_<Plot>(m, "Plot", "A picture of runs.")
      .def(
          "svg", [](const Plot& p, int width, int height) { return ChartSvg(p.chart, {width, height}); },
          nb::arg("width"), nb::arg("height"))
      .def("picture", &PictureOf, nb::arg("kind"), nb::arg("width"), nb::arg("height"))
      .def_prop_ro("description", [](const Plot& p) { return p.chart.description; })
      .def_prop_ro("labels",
                   [](const Plot& p) {
                     Paths out;
                     for (const Curve& c : p.chart.curves) out.push_back(c.label);
                     return out;
                   })
      .def_ro("left_out", &Plot::left_out);
  m.def("plot", &Draw, nb::arg("runs"), nb::arg("x"), nb::arg("y"), nb::arg("log_x"), nb::arg("log_y"),
        nb::arg("band"), nb::arg("title"), nb::arg("legend"));
  m.def(
      "report",
      [](const Paths& runs, const std::string& band) {
        const nb::gil_scoped_release free;
        return ReportHtml(Groups(runs, {}), {.version = TACIT_VERSION, .band = Value(BandNamed(band))});
      },
      nb::arg("runs"), nb::arg("band"));
  m.def("runs", &RunsJson, nb::arg("roots"), "The runs in these folders, newest first, as JSON.");
  m.def(
      "summary", [](const std::string& folder) { return ToJson(Value(SummaryOf(folder))).dump(); },
      nb::arg("folder"));
  m.def("run_ledger", &RunLedger, nb::arg("folder"));
  m.def(
      "run_file",
      [](const std::string& folder, const std::string& name) {
        return Value(ReadRunFile(ResolvedFolder(folder), name.c_str(), std::size_t{1} << 28));
      },
      nb::arg("folder"), nb::arg("name"), "A text file of a run.");
}

}  // namespace tacit::python
