// tacit evaluate: a saved model's loss and accuracy on new data.
#include <memory>

#include "cli.h"
#include "experiment/run.h"

namespace tacit::cli {
namespace {

Result<int> Run(const Common& common, const std::string& name, const std::string& source) {
  TACIT_TRY(const auto sets, common.Assignments());
  TACIT_TRY(const std::filesystem::path folder, FindRun(name));
  TACIT_TRY(const SavedRun run, OpenRun(folder));
  TACIT_TRY(const Evaluation e, Evaluate(run, source, sets));
  if (common.json)
    return PrintJson(
        {{"run", folder.string()}, {"data", source}, {"rows", e.rows}, {"metrics", ToJson(e.metrics)}});
  Table table({fmt::format("{} on {} ({} rows)", folder.filename().string(), source, Grouped(e.rows)), ""});
  table.Left(0);
  if (e.metrics.accuracy) table.Add({"accuracy", fmt::format("{:.2f} %", 100 * *e.metrics.accuracy)});
  if (e.metrics.loss) table.Add({"loss", Digits(*e.metrics.loss, 6)});
  table.Print(stdout, 0);
  return 0;
}

}  // namespace

void AddEvaluate(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "evaluate", "a trained model's loss and accuracy on new data",
              "  tacit evaluate runs/demo-20260101T120000 --data fashion_mnist\n"
              "  tacit evaluate runs/demo-20260101T120000 --data new.csv --set data.header=true\n"
              "\nOf a set with a test part, that part is used. What is printed is a function of the data\n"
              "given here: on private data it is not covered by the run's certificate.\n");
  struct Arguments {
    std::string name, source;
  };
  auto a = std::make_shared<Arguments>();
  verb->add_option("run", a->name, "run folder, or its name below runs/")->required()->type_name("RUN");
  verb->add_option("--data", a->source, "a name `tacit data list` knows, or a file")
      ->required()
      ->type_name("SOURCE");
  verb->callback([a, &run] { run.action = [a, &run] { return Run(run.common, a->name, a->source); }; });
}

}  // namespace tacit::cli
