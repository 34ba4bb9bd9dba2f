// tacit sweep: a grid of values and several seeds from one file.
#include <cmath>
#include <memory>

#include "sweep_table.h"

namespace tacit::cli {
namespace {

constexpr const char* kCaveat =
    "for simulations: an ε here is of one run alone, without ledger or certificate, and metrics without "
    "data.test read the training data";

Result<int> Run(const Invocation& call, const std::string& file, unsigned jobs, bool fresh, bool quick) {
  const Common& common = call.common;
  TACIT_TRY(const auto sets, common.Assignments());
  TACIT_TRY(const Sweep sweep, LoadSweep(file, sets, quick));
  if (call.aside()) {
    SweepHooks hooks;
    hooks.jobs = common.Jobs(jobs);
    hooks.ranks = call.ranks.get();
    TACIT_TRY([[maybe_unused]] const SweepResult none, RunSweep(sweep, hooks));
    return 0;
  }
  TACIT_TRY(const SweepResult result,
            RunWithProgress(common, sweep, common.Jobs(jobs), fresh, call.ranks.get()));
  if (common.json) {
    nlohmann::json document = ToJson(result);
    document["caveats"] = {kCaveat};
    PrintJson(document);
  } else {
    PrintSweep(sweep, result);
  }
  return result.interrupted ? static_cast<int>(Code::kInterrupted) : 0;
}

std::string PlainText(const Value& v) {
  if (const auto* s = std::get_if<std::string>(&v)) return *s;
  if (const auto* d = std::get_if<double>(&v)) return fmt::format("{}", *d);
  return ToText(v);
}

}  // namespace

Result<SweepResult> RunWithProgress(const Common& common, const Sweep& sweep, unsigned jobs, bool fresh,
                                    Ranks* ranks, MadeResults* made) {
  ProgressBar bar(common.quiet ? ProgressBar::Kind::kNone : ProgressBar::Kind::kFull);
  SweepHooks hooks;
  hooks.jobs = jobs;
  hooks.fresh = fresh;
  hooks.ranks = ranks;
  hooks.made = made;
  hooks.interrupt = &InterruptFlag();
  bool told = false;
  hooks.progress = [&](const SweepProgress& p) {
    if (!told && p.resumed > 0 && !common.quiet)
      fmt::print(stderr, "{} of {} runs are there already; --fresh would start over\n", p.resumed, p.cells);
    told = true;
    if (bar.due()) bar.Update(p.fraction, p.seconds, fmt::format("{} of {} runs", p.done, p.cells));
  };
  return RunSweep(sweep, hooks);
}

void PrintSweep(const Sweep& sweep, const SweepResult& result) {
  std::vector<std::string> metrics = sweep.metrics;
  if (metrics.empty())
    for (const char* name : {"accuracy", "loss", "optimality", "certified_epsilon"})
      for (const GridPoint& p : result.points)
        if (p.metrics.contains(name) && std::find(metrics.begin(), metrics.end(), name) == metrics.end())
          metrics.emplace_back(name);
  std::vector<std::string> header;
  for (const Axis& a : result.axes) header.push_back(a.key.substr(a.key.find('.') + 1));
  header.emplace_back("seeds");
  header.insert(header.end(), metrics.begin(), metrics.end());
  Table table(header);
  for (std::size_t a = 0; a < result.axes.size(); ++a)
    if (std::holds_alternative<std::string>(result.axes[a].values.front())) table.Left(a);
  for (const GridPoint& p : result.points) {
    std::vector<std::string> row;
    for (const Value& v : p.at) row.push_back(PlainText(v));
    row.push_back(fmt::format("{}", p.seeds));
    for (const std::string& m : metrics) {
      const auto show = [&](double v) { return m.ends_with("epsilon") ? DigitsUp(v) : Digits(v); };
      const auto s = p.metrics.find(m);
      if (s == p.metrics.end())
        row.emplace_back("-");
      else if (std::isinf(s->second.mean))
        row.emplace_back("inf");
      else if (s->second.count == 1 || s->second.std == 0)
        row.push_back(show(s->second.mean));
      else
        row.push_back(fmt::format("{} ± {}", show(s->second.mean), Digits(s->second.std, 2)));
    }
    table.Add(std::move(row));
  }
  table.Print(stdout, 0);
  if (result.interrupted)
    fmt::print("interrupted: {} of {} runs are done; the same command goes on from here\n",
               result.resumed + result.ran, result.cells);
  fmt::print("mean ± standard deviation over the seeds; every run: {}\n", result.file.string());
  fmt::print("{}\n", Wrapped(kCaveat, 0));
}

void AddSweep(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "sweep", "run an experiment over a grid of values and seeds",
              "  tacit sweep experiments/primal-dual/fig2.toml\n"
              "  tacit sweep mine.toml --jobs 4 --set data.clients=50\n"
              "\nThe file's [sweep] table says what varies:\n"
              "  [sweep]\n"
              "  seeds = 5\n"
              "  grid = { privacy.epsilon = [0.5, 1, 2], algorithm.allocation = [\"dynamic\", \"static\"] }\n"
              "\nCtrl-C stops it; the same command goes on where it stopped. A --set of a key of the grid\n"
              "pins it to that value.\n");
  struct Arguments {
    std::string file;
    unsigned jobs = 0;
    bool fresh = false, quick = false;
  };
  auto a = std::make_shared<Arguments>();
  verb->add_option("file", a->file, "experiment file with a [sweep] table")
      ->required()
      ->type_name("FILE.toml");
  verb->add_option("--jobs", a->jobs, "runs at a time, one thread each; default: one per core")
      ->type_name("N");
  verb->add_flag("--fresh", a->fresh, "forget the results of earlier calls");
  verb->add_flag("--quick", a->quick, "with the changes of the file's [quick] table");
  verb->callback(
      [a, &run] { run.action = [a, &run] { return Run(run, a->file, a->jobs, a->fresh, a->quick); }; });
}

}  // namespace tacit::cli
