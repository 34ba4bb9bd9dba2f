// tacit tune: a search over a grid that is paid for.
#include "experiment/tune.h"

#include <memory>

#include "cli.h"

namespace tacit::cli {
namespace {

std::string PlainText(const Value& v) {
  if (const auto* s = std::get_if<std::string>(&v)) return *s;
  if (const auto* d = std::get_if<double>(&v)) return fmt::format("{}", *d);
  return ToText(v);
}

void Print(const TuneResult& r) {
  std::vector<std::string> header;
  for (const Axis& a : r.axes) header.push_back(a.key.substr(a.key.find('.') + 1));
  header.push_back(r.metric);
  header.emplace_back("ε");
  header.emplace_back("run");
  Table table(header);
  table.Left(header.size() - 1);
  for (std::size_t k = 0; k < r.candidates.size(); ++k) {
    const Candidate& c = r.candidates[k];
    std::vector<std::string> row;
    for (const Value& v : c.at) row.push_back(PlainText(v));
    row.push_back(Digits(c.score));
    row.push_back(DigitsUp(c.epsilon));
    row.push_back(c.run + (k == r.chosen && !r.interrupted ? "  chosen" : ""));
    table.Add(std::move(row));
  }
  table.Print(stdout, 0);
  fmt::print(
      "{}\n",
      Wrapped(fmt::format("all {} runs and the choice together: ε = {} of {} at δ = {}, certified",
                          r.candidates.size(), DigitsUp(r.epsilon), DigitsUp(r.asked), DigitsUp(r.delta)),
              0));
  if (r.interrupted)
    fmt::print("interrupted after {} of {} runs: nothing was chosen, and what was spent is spent\n",
               r.candidates.size(), r.planned);
  else
    fmt::print("the model: {}\n", r.candidates[r.chosen].folder.string());
}

Result<int> Run(const Common& common, const std::string& file, const std::string& metric) {
  TACIT_TRY(const auto sets, common.Assignments());
  TACIT_TRY(const Sweep sweep, LoadSweep(file, sets));
  ProgressBar bar(common.quiet ? ProgressBar::Kind::kNone : ProgressBar::Kind::kFull);
  TuneHooks hooks;
  hooks.interrupt = &InterruptFlag();
  hooks.threads = static_cast<unsigned>(sweep.base.runtime.threads);
  double seconds = 0, before = 0;      // of the runs that are done
  hooks.progress = [&](const Candidate*, std::size_t done, std::size_t all, const Progress* p) {
    if (p == nullptr) {
      before = seconds;
      return;
    }
    seconds = before + p->seconds;
    if (!bar.due()) return;
    const double within = static_cast<double>(p->round) / static_cast<double>(p->rounds);
    bar.Update((static_cast<double>(done) + within) / static_cast<double>(all), seconds,
               fmt::format("run {} of {}", done + 1, all));
  };
  const auto found = Tune(sweep, metric, hooks);
  bar.Clear();
  if (!found.ok()) return found.error();
  if (common.json)
    PrintJson(ToJson(*found));
  else
    Print(*found);
  return found->interrupted ? static_cast<int>(Code::kInterrupted) : 0;
}

}  // namespace

void AddTune(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "tune", "choose among the values of a grid, at the file's ε for the whole search",
      "  tacit tune mine.toml\n"
      "  tacit tune mine.toml --metric accuracy --set privacy.epsilon=4\n"
      "\nThe file's [sweep.grid] says what to choose from (algorithm.*, model.*, privacy.clip). Every point\n"
      "is a run with its own folder, ledger and certificate at a part of ε; the best on data.test,\n"
      "which is public, is chosen. `tacit sweep` is the same without accounting, for simulations.\n");
  struct Arguments {
    std::string file, metric = "loss";
  };
  auto a = std::make_shared<Arguments>();
  verb->add_option("file", a->file, "experiment file with a [sweep.grid] table")
      ->required()
      ->type_name("FILE.toml");
  verb->add_option("--metric", a->metric, "loss or accuracy on data.test; loss unless given")->type_name("M");
  verb->callback([a, &run] { run.action = [a, &run] { return Run(run.common, a->file, a->metric); }; });
}

}  // namespace tacit::cli
