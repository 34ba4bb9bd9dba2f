// tacit predict: a saved model's predictions on new data, as CSV.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "cli.h"
#include "experiment/run.h"

namespace tacit::cli {
namespace {

// The class of the largest score, the sign of a single one, or the value of a regression.
double Prediction(const std::string& model, View scores) {
  if (scores.size() > 1)
    return static_cast<double>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  if (model == "logistic" || model == "hinge" || model == "smoothed-hinge") return scores[0] > 0 ? 1 : -1;
  return scores[0];
}

Result<int> Run(const Common& common, const std::string& name, const std::string& source,
                const std::string& out) {
  TACIT_TRY(const auto sets, common.Assignments());
  TACIT_TRY(const std::filesystem::path folder, FindRun(name));
  TACIT_TRY(const SavedRun run, OpenRun(folder));
  TACIT_TRY(const Evaluation e, Evaluate(run, source, sets));
  const std::string& model = run.config.model.name;
  const auto scores = [&](std::size_t i) { return View(e.scores).subspan(i * e.outputs, e.outputs); };
  if (common.json && out.empty()) {
    nlohmann::json predictions = nlohmann::json::array();
    for (std::size_t i = 0; i < e.rows; ++i) predictions.push_back(Number(Prediction(model, scores(i))));
    return PrintJson({{"run", folder.string()},
                      {"data", source},
                      {"model", model},
                      {"rows", e.rows},
                      {"predictions", predictions}});
  }
  std::FILE* file = stdout;
  if (!out.empty() && out != "-") {
    file = std::fopen(out.c_str(), "we");
    if (file == nullptr)
      return Fail(Code::kIo, "{}: cannot be written: {}; choose another file with --output", out,
                  std::strerror(errno));
  }
  std::string header = "row,prediction";
  if (e.outputs == 1)
    header += ",score";
  else
    for (std::size_t k = 0; k < e.outputs; ++k) header += fmt::format(",score_{}", k);
  fmt::print(file, "{}\n", header);
  for (std::size_t i = 0; i < e.rows; ++i) {
    fmt::print(file, "{},{:g}", i, Prediction(model, scores(i)));
    for (double s : scores(i)) fmt::print(file, ",{}", s);
    fmt::print(file, "\n");
  }
  const bool written = std::fflush(file) == 0;
  if (file != stdout && std::fclose(file) != 0)
    return Fail(Code::kIo, "{}: cannot be written: {}", out, std::strerror(errno));
  if (!written)
    return Fail(Code::kIo, "{}: cannot be written: {}", out.empty() ? "standard output" : out,
                std::strerror(errno));
  if (common.json)
    return PrintJson(
        {{"run", folder.string()}, {"data", source}, {"model", model}, {"rows", e.rows}, {"output", out}});
  if (file != stdout && !common.quiet) fmt::print(stderr, "{} predictions in {}\n", Grouped(e.rows), out);
  return 0;
}

}  // namespace

Result<std::filesystem::path> FindRun(const std::string& run) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const fs::path& folder : {fs::path(run), fs::path("runs") / run})
    if (fs::is_directory(folder, ignored)) return folder;
  std::vector<std::string> runs;
  for (const auto& entry : fs::directory_iterator("runs", ignored))
    if (entry.is_directory()) runs.push_back(entry.path().filename().string());
  const std::string near = Nearest(run, runs);
  return Fail(Code::kNotFound,
              "{}: no such run; give the folder that `tacit train` said it kept the run in{}", run,
              near.empty() ? "" : fmt::format(" (did you mean runs/{}?)", near));
}

void AddPredict(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "predict", "a trained model's predictions on new data",
      "  tacit predict runs/demo-20260101T120000 --data new.csv -o predictions.csv\n"
      "  tacit predict runs/demo-20260101T120000 --data fashion_mnist --json | jq '.predictions[:5]'\n"
      "\nRows are prepared as the run's own were; --set data.… changes how a file is read.\n");
  struct Arguments {
    std::string name, source, out;
  };
  auto a = std::make_shared<Arguments>();
  verb->add_option("run", a->name, "run folder, or its name below runs/")->required()->type_name("RUN");
  verb->add_option("--data", a->source, "a name `tacit data list` knows, or a file")
      ->required()
      ->type_name("SOURCE");
  verb->add_option("--output,-o", a->out, "CSV file; default: stdout")->type_name("FILE");
  verb->callback(
      [a, &run] { run.action = [a, &run] { return Run(run.common, a->name, a->source, a->out); }; });
}

}  // namespace tacit::cli
