#include "experiment/tune.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/sha256.h"
#include "experiment/files.h"
#include "experiment/json_number.h"
#include "experiment/verify.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

using nlohmann::json;

Status CheckSearch(const Sweep& sweep, const std::string& metric) {
  const Config& c = sweep.base;
  if (metric != "loss" && metric != "accuracy")
    return Fail(Code::kInvalidArgument, "--metric {}: must be loss or accuracy", metric);
  if (sweep.axes.empty())
    return Fail(
        Code::kInvalidArgument,
        "the file has no [sweep.grid]: list the values to choose from there, e.g. algorithm.local_rate = "
        "[0.1, 0.3]");
  const auto check = [](const std::string& key) -> Status {
    const bool method =
        key.starts_with("algorithm.") && key != "algorithm.mode" && key != "algorithm.weights";
    if (method || key.starts_with("model.") || key == "privacy.clip") return Ok{};
    return Fail(Code::kUnsupported,
                "sweep: {} changes the data or what is promised of them; a search may choose algorithm.*, "
                "model.* and privacy.clip",
                key);
  };
  for (const Axis& axis : sweep.axes)
    if (axis.key != "case") TACIT_OK(check(axis.key));
  for (const Case& one : sweep.cases)
    for (const auto& [key, value] : one.sets) TACIT_OK(check(key));
  if (c.data.test.empty())
    return Fail(
        Code::kInvalidArgument,
        "data.test is not set: the choice is by public test data, since training data would have to be "
        "paid for once more; set it");
  if (c.algorithm.mode != "certified" || c.privacy.mechanism == "expose")
    return Fail(Code::kUnsupported,
                "algorithm.mode = \"{}\", privacy.mechanism = \"{}\": a search adds up certified costs; use "
                "certified mode with noise, or `tacit sweep` for a simulation",
                c.algorithm.mode, c.privacy.mechanism);
  if (c.experiment.oracle)
    return Fail(
        Code::kUnsupported,
        "experiment.oracle = true: its figures are not covered by epsilon and must not guide a choice; set "
        "it to false");
  if (!c.privacy.budgets.empty())
    return Fail(Code::kUnsupported, "privacy.budgets: a search divides one epsilon; leave it out");
  return Ok{};
}

// The largest ε whose μ is at most μ(ε, δ)/√K, rounded down.
double EpsilonOfOne(const Config& c, std::size_t candidates) {
  const Delta delta = Delta::Proven(c.privacy.delta);
  const double mu = GdpMu(Epsilon::Proven(c.privacy.epsilon), delta).value();
  const double one = mu / std::sqrt(static_cast<double>(candidates)) * (1 - 1e-12);
  return GdpEpsilon(Mu::Proven(one), delta).lower;
}

// What adds up here is μ².
Status CheckPlan(const Plan& plan) {
  if (plan.account)
    return Fail(
        Code::kUnsupported,
        "privacy.mechanism = \"{}\", algorithm.sampling: this run pays for a plan and not in mu, which a "
        "search divides; use Gaussian noise and every client",
        plan.mechanism);
  if (std::isfinite(plan.certified_epsilon) && plan.mechanism != "expose") return Ok{};
  return Fail(
      Code::kUnsupported,
      "algorithm.name = \"{}\": the releases of this run have no finite cost to add up; bound them, or "
      "use `tacit sweep` for a simulation",
      plan.algorithm);
}

}  // namespace

Result<TuneResult> Tune(const Sweep& given, const std::string& metric, const TuneHooks& hooks) {
  TACIT_OK(CheckSearch(given, metric));
  Sweep sweep = given;
  sweep.seeds = {given.base.experiment.seed};
  TACIT_TRY(const std::vector<Cell> cells, Cells(sweep));
  TuneResult r;
  r.axes = sweep.axes;
  r.planned = cells.size();
  r.metric = metric;
  r.asked = given.base.privacy.epsilon;
  r.delta = given.base.privacy.delta;
  const double each = EpsilonOfOne(given.base, cells.size());
  // All plans before the first run: a candidate that cannot run must not cost the others' budget.
  std::vector<Config> configs;
  for (const Cell& cell : cells) {
    Config& c = configs.emplace_back(cell.config);
    if (Status s = SetKey(c, "privacy.epsilon", Value(each)); !s.ok()) return s.error();
    c.experiment.name = fmt::format("{}-{}", sweep.name, configs.size());
    const auto facts = FactsWithoutData(c);
    if (!facts.ok()) continue;      // the shape is in the file; the run says what is wrong
    TACIT_TRY(const Plan plan, MakePlan(c, *facts));
    TACIT_OK(CheckPlan(plan));
  }
  MuSquared spent{0.0};
  for (std::size_t k = 0; k < cells.size(); ++k) {
    TrainHooks here;
    here.interrupt = hooks.interrupt;
    here.threads = hooks.threads;
    if (hooks.progress)
      here.progress = [&](const Progress& p) { hooks.progress(nullptr, k, cells.size(), &p); };
    TACIT_TRY(const RunResult run, Train(configs[k], here));
    TACIT_OK(CheckPlan(run.plan));
    Candidate one;
    one.at = cells[k].at;
    one.run = run.run;
    one.folder = run.folder;
    one.mu = run.mu;
    one.epsilon = run.certified_epsilon;
    const auto score = metric == "loss" ? run.metrics.loss : run.metrics.accuracy;
    if (!score)
      return Fail(Code::kUnsupported, "--metric {}: model.name = \"{}\" has none; use the other", metric,
                  configs[k].model.name);
    one.score = *score;
    TACIT_TRY(const std::string bytes, ReadWhole(run.folder / "certificate.json", "the certificate"));
    one.certificate_sha256 = Sha256::Hex(bytes);
    spent = spent + Squared(Mu::Proven(run.mu));
    r.candidates.push_back(std::move(one));
    r.mu = Root(spent).value();
    r.epsilon = GdpEpsilon(Root(spent), Delta::Proven(r.delta)).upper;
    if (hooks.progress) hooks.progress(&r.candidates.back(), k + 1, cells.size(), nullptr);
    if (run.interrupted) {
      r.interrupted = true;
      r.epsilon = r.asked;      // where it stopped may depend on the scores: the whole search counts
      return r;
    }
  }
  // NaN is never better.
  const auto better = [&](double a, double b) { return metric == "loss" ? a < b : a > b; };
  for (std::size_t k = 1; k < r.candidates.size(); ++k) {
    const double best = r.candidates[r.chosen].score, now = r.candidates[k].score;
    if (better(now, best) || (std::isnan(best) && !std::isnan(now))) r.chosen = k;
  }
  TACIT_OK(WriteWhole(r.candidates[r.chosen].folder / "search.json", ToJson(r).dump(2) + "\n"));
  return r;
}

json ToJson(const TuneResult& r) {
  json axes = json::array(), candidates = json::array();
  for (const Axis& a : r.axes) axes.push_back(a.key);
  for (const Candidate& c : r.candidates) {
    json at = json::array();
    for (const Value& v : c.at) at.push_back(ToJson(v));
    candidates.push_back({{"at", at},
                          {"run", c.run},
                          {"mu", Number(c.mu)},
                          {"epsilon", Number(c.epsilon)},
                          {r.metric, Number(c.score)},
                          {"certificate_sha256", c.certificate_sha256}});
  }
  return {
      {"format", "tacit-search-1"},
      {"axes", axes},
      {"metric", r.metric},
      {"candidates", candidates},
      {"planned", r.planned},
      {"chosen", r.interrupted || r.candidates.empty() ? json(nullptr) : json(r.candidates[r.chosen].run)},
      {"interrupted", r.interrupted},
      {"privacy",
       {{"asked_epsilon", r.asked},
        {"certified_epsilon", Number(r.epsilon)},
        {"delta", r.delta},
        {"mu", Number(r.mu)},
        {"covers", "all models of the search and the choice among them, by public test data"}}}};
}

}  // namespace tacit
