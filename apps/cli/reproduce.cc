// tacit reproduce: published figures, re-run and compared with what was said of them.
#include <algorithm>
#include <memory>

#include "experiment/files.h"
#include "experiment/reproduce.h"
#include "sweep_table.h"
#include "view/figure.h"

namespace tacit::cli {
namespace {

struct Arguments {
  std::string figure, gallery;
  bool quick = false, list = false, fresh = false;
  unsigned jobs = 0;
};

Style StyleOf(Verdict::Kind kind) {
  return kind == Verdict::Kind::kHolds   ? Style::kGreen
         : kind == Verdict::Kind::kFails ? Style::kRed
                                         : Style::kYellow;
}

int List(const Common& common, const std::vector<Figure>& figures) {
  if (common.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const Figure& f : figures)
      all.push_back({{"name", f.name},
                     {"file", f.file.string()},
                     {"title", f.title},
                     {"paper", f.paper},
                     {"claims", f.claims.size()}});
    return PrintJson({{"figures", all}});
  }
  Table table({"figure", "claims", "what"});
  table.Left(0);
  table.Left(2);
  for (const Figure& f : figures) table.Add({f.name, fmt::format("{}", f.claims.size()), f.title});
  table.Print(stdout, 0);
  return 0;
}

// Where a figure's results are kept. Figures of different papers share names.
Result<Sweep> SweepOf(const Common& common, const Figure& figure, bool quick) {
  TACIT_TRY(const auto sets, common.Assignments());
  TACIT_TRY(Sweep sweep, LoadSweep(figure.file, sets, quick));
  sweep.folder =
      std::filesystem::path(sweep.base.experiment.output) / (FlatName(figure) + (quick ? "-quick" : ""));
  return sweep;
}

// Runs one figure; appends its JSON, prints it otherwise. False: interrupted.
Result<bool> RunFigure(const Common& common, const Arguments& a, const Figure& figure, MadeResults& made,
                       nlohmann::json& documents, std::size_t& failed) {
  TACIT_TRY(const Sweep sweep, SweepOf(common, figure, a.quick));
  if (!common.json) {
    fmt::print("{}{}\n", Styled(stdout, Style::kBold, figure.name),
               figure.title.empty() ? "" : ": " + figure.title);
    if (!figure.paper.empty()) fmt::print("{}\n", figure.paper);
    fmt::print("\n");
    std::fflush(stdout);
  }
  const unsigned jobs = common.Jobs(a.jobs);
  TACIT_TRY(SweepResult result, RunWithProgress(common, sweep, jobs, a.fresh, nullptr, &made));
  if (!common.json) {
    PrintSweep(sweep, result);
    fmt::print("\n");
  }
  const FigureRecord record = MakeRecord(figure, sweep, std::move(result), a.quick);
  for (std::size_t k = 0; k < figure.claims.size(); ++k) {
    const PublishedClaim& claim = figure.claims[k];
    const Verdict& verdict = record.verdicts[k];
    failed += verdict.kind == Verdict::Kind::kFails;
    if (common.json) continue;
    fmt::print("  {} {}\n", Styled(stdout, StyleOf(verdict.kind), fmt::format("{:<13}", Name(verdict.kind))),
               Wrapped(claim.text, 16));
    if (!claim.published.empty()) fmt::print("                published: {}\n", Wrapped(claim.published, 27));
    fmt::print("                ours: {}\n", verdict.numbers);
    if (verdict.kind != Verdict::Kind::kUntested)
      fmt::print("                within error: {}; certified: {}\n", ErrorText(verdict),
                 CertifiedText(verdict));
  }
  if (!common.json && !record.result.points.empty())
    fmt::print("  certified     {}\n", CertifiedText(record));
  documents.push_back(ToJson(record));
  if (!record.result.points.empty()) {
    TACIT_OK(WriteWhole(sweep.folder / "figure.svg", FigureSvg(record)));
    TACIT_OK(WriteWhole(sweep.folder / "verdict.md",
                        fmt::format("# {}\n\n{}", figure.name, VerdictMarkdown(record))));
    documents.back()["picture"] = (sweep.folder / "figure.svg").string();
    if (!common.json) fmt::print("  picture       {}\n", (sweep.folder / "figure.svg").string());
  }
  return !record.result.interrupted;
}

// A page of what has been run so far; runs nothing.
Result<int> Gallery(const Common& common, const Arguments& a, const std::vector<const Figure*>& figures,
                    const std::vector<Figure>& all) {
  std::vector<FigureRecord> records;
  std::vector<std::string> missing;
  for (const Figure* figure : figures) {
    std::optional<FigureRecord> record;
    std::string why;
    for (const bool quick : {false, true}) {
      if (record) break;
      TACIT_TRY(const Sweep sweep, SweepOf(common, *figure, quick));
      auto stored = StoredFigure(*figure, sweep, quick);
      if (stored.ok())
        record = *std::move(stored);
      else  // not run, of another version, or being run just now
        why = stored.error().message;
    }
    if (record)
      records.push_back(*std::move(record));
    else
      missing.push_back(why);
  }
  if (records.empty())
    return Fail(Code::kNotFound,
                "no figure has been run here; `tacit reproduce FIGURE` runs one, --quick in minutes");
  const std::filesystem::path folder = a.gallery;
  std::error_code ec;
  std::filesystem::create_directories(folder / "gallery", ec);
  for (const FigureRecord& r : records)
    TACIT_OK(WriteWhole(folder / "gallery" / (FlatName(r.figure) + ".svg"), FigureSvg(r)));
  // What was run elsewhere, or is being run again, stays on the page.
  std::vector<GalleryEntry> entries;
  if (auto page = ReadWhole(folder / "gallery.md"); page.ok()) entries = GalleryEntries(*page);
  for (const FigureRecord& r : records) Put(entries, MakeEntry(r, "gallery"));
  std::erase_if(entries, [&](const GalleryEntry& e) {  // figures that are no more
    return std::none_of(all.begin(), all.end(), [&](const Figure& f) { return FlatName(f) == e.anchor; });
  });
  TACIT_TRY(const auto experiments, ExperimentsFolder());
  TACIT_TRY(const auto absent, ReadNotReproduced(experiments / "not_reproduced.toml"));
  TACIT_OK(WriteWhole(folder / "gallery.md", GalleryMarkdown(entries, absent)));
  if (common.json) {
    nlohmann::json names = nlohmann::json::array();
    for (const FigureRecord& r : records) names.push_back(r.figure.name);
    return PrintJson({{"page", (folder / "gallery.md").string()}, {"figures", names}, {"left_out", missing}});
  }
  fmt::print("{} figures in {}\n", records.size(), (folder / "gallery.md").string());
  if (!common.quiet)
    for (const std::string& name : missing) fmt::print(stderr, "as it was: {}\n", name);
  return 0;
}

Result<int> Run(const Common& common, const Arguments& a) {
  TACIT_TRY(const std::filesystem::path folder, ExperimentsFolder());
  TACIT_TRY(const std::vector<Figure> figures, Figures(folder));
  if (a.list) return List(common, figures);
  std::vector<const Figure*> chosen;
  for (const Figure& f : figures)
    if (a.figure.empty() || f.name == a.figure || f.name.starts_with(a.figure + "/")) chosen.push_back(&f);
  if (chosen.empty()) {
    std::vector<std::string> names;
    for (const Figure& f : figures) names.push_back(f.name);
    const std::string near = Nearest(a.figure, names);
    return Fail(Code::kNotFound, "{}: no such figure; {}", a.figure,
                near.empty() ? "`tacit reproduce --list` names them" : fmt::format("did you mean {}?", near));
  }
  if (!a.gallery.empty()) return Gallery(common, a, chosen, figures);
  nlohmann::json documents = nlohmann::json::array();
  std::size_t failed = 0;
  bool interrupted = false;
  MadeResults made;
  for (std::size_t k = 0; k < chosen.size() && !interrupted; ++k) {
    if (k > 0 && !common.json) fmt::print("\n");
    TACIT_TRY(const bool finished, RunFigure(common, a, *chosen[k], made, documents, failed));
    interrupted = !finished;
  }
  if (common.json)
    PrintJson({{"figures", documents}, {"claims_that_do_not_hold", failed}, {"interrupted", interrupted}});
  return interrupted ? static_cast<int>(Code::kInterrupted) : 0;
}

}  // namespace

void AddReproduce(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "reproduce", "re-run published figures and check what was said of them",
      "  tacit reproduce --list\n"
      "  tacit reproduce primal-dual/fig2 --quick     fewer seeds and rounds, minutes\n"
      "  tacit reproduce primal-dual                  everything of that paper\n"
      "  tacit reproduce --gallery docs               a page of all that has been run\n"
      "\nResults are kept below runs/, one folder a figure, with a picture (figure.svg) and the verdicts\n"
      "(verdict.md); a call that was stopped goes on where it was, and a run that is in several of the\n"
      "figures that one call is asked for is made once.\n"
      "\nA claim that does not hold is a finding, not an error: the exit code stays 0.\n");
  auto a = std::make_shared<Arguments>();
  verb->add_option("figure", a->figure, "paper/figure, or a paper; default: all")->type_name("FIGURE");
  verb->add_flag("--quick", a->quick, "with the changes of the file's [quick] table");
  verb->add_flag("--list", a->list, "name the figures and stop");
  verb->add_option("--gallery", a->gallery, "write DIR/gallery.md with a picture per figure; runs nothing")
      ->type_name("DIR");
  verb->add_flag("--fresh", a->fresh, "forget the results of earlier calls");
  verb->add_option("--jobs", a->jobs, "runs at a time, one thread each; default: one per core")
      ->type_name("N");
  verb->callback([a, &run] { run.action = [a, &run] { return Run(run.common, *a); }; });
}

}  // namespace tacit::cli
