// tacit plot and tacit report: pictures and pages of runs.
#include <algorithm>
#include <memory>

#include "experiment/files.h"
#include "seeing.h"
#include "view/plot.h"
#include "view/report.h"
#include "view/text.h"

namespace tacit::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Arguments {
  std::vector<std::string> runs, legend;
  std::string x = "rounds", y = "loss", out, band = "range", title;
  bool log_x = false, log_y = false;
  int width = 720, height = 400;
};

Result<int> Draw(const Common& common, const Arguments& a) {
  TACIT_OK(common.ExpectNoSets("plot"));
  const std::string kind = fs::path(a.out).extension().string();
  static const std::vector<std::string> kKinds = {".svg", ".png", ".pdf", ".md", ".tex"};
  if (std::find(kKinds.begin(), kKinds.end(), kind) == kKinds.end())
    return Fail(Code::kInvalidArgument,
                "-o {}: the name must end in .svg, .png or .pdf, or for a table in .md or .tex", a.out);
  TACIT_TRY(const std::vector<RunGroup> groups, GroupsNamed(a.runs, a.legend));
  std::string bytes;
  std::vector<std::string> left_out;
  std::size_t shown = groups.size();
  if (kind == ".md" || kind == ".tex") {
    const TextTable table = FinalTable(groups, {});
    bytes = kind == ".md" ? ToMarkdown(table) : ToTex(table);
  } else {
    TACIT_TRY(const Band band, BandNamed(a.band));
    TACIT_TRY(
        const Plot plot,
        PlotRuns(groups,
                 {.x = a.x, .y = a.y, .title = a.title, .band = band, .log_x = a.log_x, .log_y = a.log_y}));
    const Chart& chart = plot.chart;
    left_out = plot.left_out;
    shown = chart.curves.size();
    const ChartSize size{a.width, a.height};
    if (kind == ".svg") {
      bytes = ChartSvg(chart, size);
    } else {
      TACIT_TRY(bytes, ChartByGnuplot(chart, kind == ".png" ? Picture::kPng : Picture::kPdf, size));
    }
  }
  TACIT_OK(WriteWhole(a.out, bytes));
  for (const std::string& label : left_out)
    if (!common.quiet)
      Warn(fmt::format("{}: has no {} that can be drawn, and is left out", Printable(label), Printable(a.y)));
  if (common.json) {
    json curves = json::array();
    for (const RunGroup& g : groups) {
      json names = json::array();
      for (const RunSummary& r : g.runs) names.push_back(r.name);
      curves.push_back({{"label", g.label}, {"runs", names}});
    }
    return PrintJson({{"output", a.out}, {"curves", curves}, {"left_out", left_out}});
  }
  if (!common.quiet)
    fmt::print(stderr, "{} {} in {}\n", shown, kind == ".md" || kind == ".tex" ? "rows" : "curves", a.out);
  return 0;
}

Result<int> Report(const Common& common, const Arguments& a) {
  TACIT_OK(common.ExpectNoSets("report"));
  TACIT_TRY(const std::vector<RunGroup> groups, GroupsNamed(a.runs, a.legend));
  TACIT_TRY(const Band band, BandNamed(a.band));
  const std::string out = a.out.empty() ? "report.html" : a.out;
  const std::string page = ReportHtml(groups, {.version = TACIT_VERSION, .band = band});
  TACIT_OK(WriteWhole(out, page));
  std::size_t runs = 0;
  for (const RunGroup& g : groups) runs += g.runs.size();
  if (common.json)
    return PrintJson(
        {{"output", out}, {"runs", runs}, {"experiments", groups.size()}, {"bytes", page.size()}});
  if (!common.quiet) fmt::print(stderr, "{} {} in {}\n", runs, runs == 1 ? "run" : "runs", out);
  return 0;
}

// The flags of whatever draws curves.
void AddCurves(CLI::App* verb, Arguments& a) {
  verb->add_option("--legend", a.legend,
                   "keys that name the curves, e.g. experiment.name; default: what differs")
      ->type_name("KEY,...")
      ->delimiter(',')
      ->take_all()
      ->expected(1);
  verb->add_option("--band", a.band,
                   "over the seeds: range (smallest to largest), std (± one deviation) or none")
      ->type_name("BAND")
      ->check(CLI::IsMember({"range", "std", "none"}));
}

}  // namespace

Result<std::vector<RunGroup>> GroupsNamed(const std::vector<std::string>& runs,
                                          const std::vector<std::string>& legend) {
  Config known;
  for (const std::string& key : legend) {
    std::vector<std::string> keys;
    bool found = false;
    for (const Section& s : Describe(known))
      for (const Option& o : s.options()) {
        keys.push_back(fmt::format("{}.{}", s.name(), o.key));
        found |= keys.back() == key;
      }
    const std::string near = found ? "" : Nearest(key, keys);
    if (!found)
      return Fail(Code::kInvalidArgument, "--legend {}: no such key; {}", key,
                  near.empty() ? "`tacit options` lists them" : fmt::format("did you mean {}?", near));
  }
  std::vector<fs::path> folders;
  for (const std::string& name : runs) {
    TACIT_TRY(const fs::path folder, FindRun(name));
    TACIT_TRY(std::vector<RunSummary> found, ListRuns({folder}));
    if (found.empty())
      return Fail(Code::kNotFound, "{}: there is no run in this folder; give one that `tacit train` wrote",
                  folder.string());
    std::reverse(found.begin(), found.end());  // the oldest first
    const bool alone = found.size() == 1;        // then it was asked for by name
    for (const RunSummary& s : found)
      if (s.state == RunState::kBroken && !alone)
        Warn(fmt::format("{} is left out: {}", Printable(s.name), Printable(s.problem)));
      else
        folders.push_back(s.folder);
  }
  return GroupRuns(folders, legend);
}

void AddPlot(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "plot", "a picture of runs, or a table of them, for a paper",
      "  tacit plot runs/demo-20260101T120000 --y accuracy -o accuracy.svg\n"
      "  tacit plot runs --x bytes --y optimality --log-y -o figure.pdf\n"
      "  tacit plot runs -o table.tex\n"
      "\nRuns that differ in nothing but the seed are one curve: their mean, with a band. PNG and PDF are\n"
      "drawn by gnuplot. --x and --y take rounds, epsilon, sigma, bytes, bytes_up, bytes_down, answered and\n"
      "every metric that was traced.\n");
  const auto a = std::make_shared<Arguments>();
  verb->add_option("run", a->runs, "runs, or folders that hold runs")->required()->type_name("RUN");
  verb->add_option("--x", a->x, "what goes to the right; default: rounds")->type_name("COLUMN");
  verb->add_option("--y", a->y, "what goes up; default: loss")->type_name("COLUMN");
  verb->add_flag("--log-x", a->log_x, "powers of ten to the right");
  verb->add_flag("--log-y", a->log_y, "powers of ten upwards");
  AddCurves(verb, *a);
  verb->add_option("--title", a->title, "above the picture; default: its axes")->type_name("TEXT");
  verb->add_option("--width", a->width, "in points; default: 720")
      ->type_name("N")
      ->check(CLI::Range(200, 4000));
  verb->add_option("--height", a->height, "of the picture without its legend; default: 400")
      ->type_name("N")
      ->check(CLI::Range(150, 4000));
  verb->add_option("--output,-o", a->out, "fig.svg, .png or .pdf; .md or .tex for a table")
      ->required()
      ->type_name("FILE");
  verb->callback([a, &run] { run.action = [a, &run] { return Draw(run.common, *a); }; });
}

void AddReport(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "report", "one page about runs: curves, privacy, config, how to run it again",
      "  tacit report runs/demo-20260101T120000\n"
      "  tacit report runs -o all.html        everything below runs/, compared\n"
      "\nThe file needs no network and no scripts; it is light or dark as the reader's system is, and\n"
      "prints.\n");
  const auto a = std::make_shared<Arguments>();
  verb->add_option("run", a->runs, "runs, or folders that hold runs")->required()->type_name("RUN");
  AddCurves(verb, *a);
  verb->add_option("--output,-o", a->out, "HTML file; default: report.html")->type_name("FILE");
  verb->callback([a, &run] { run.action = [a, &run] { return Report(run.common, *a); }; });
}

}  // namespace tacit::cli
