// tacit audit: attacks a configured run, or all algorithms.
#include "audit/audit.h"

#include <cmath>
#include <memory>

#include "audit/recovery.h"
#include "cli.h"
#include "experiment/run.h"
#include "view/run_file.h"

namespace tacit::cli {
namespace {

struct Arguments {
  std::string where, only, state;
  bool all = false, quick = false, thorough = false, one = false;
  std::size_t runs = 0, rounds = 0;
};

std::string MeasuredText(const AuditReport& r) {
  return r.measured() > 0 ? "≥ " + DigitsDown(r.measured(), 3) : "nothing found";
}

std::string Verdict(const AuditReport& r) {
  if (r.overdrawn()) return "BROKEN: a run gave away more than its ledger was charged for";
  if (r.noise_short()) return "BROKEN: the noise is smaller than stated, or shared between releases";
  if (r.drawn_too_often()) return "BROKEN: secret samples have the unit more often than at their rate";
  if (r.broken()) return "BROKEN";
  if (r.claim_broken()) return r.certain() ? "claim disproved, with certainty" : "claim disproved";
  if (r.claim_broken_if_gaussian()) return "claim disproved, if the trade-off is Gaussian";
  if (std::isinf(r.certified)) return "nothing is certified";
  return "holds";
}

Status Show(const AuditReport& r, const std::vector<std::string>& changes, const Arguments& a) {
  Table table({fmt::format("{} ({} mode), attacked {} times", r.algorithm, r.mode, Grouped(r.runs)), ""});
  table.Left(0);
  table.Left(1);
  table.Add({"ε certified", fmt::format("{} at δ = {}, {} unit, {}", EpsilonText(r.certified),
                                        DigitsUp(r.delta), r.unit, r.adjacency)});
  if (r.claimed) table.Add({"ε claimed", fmt::format("{} by {}", EpsilonText(*r.claimed), r.claim_source)});
  const bool shaped = r.gaussian() && r.gaussian_epsilon > r.epsilon;
  table.Add({"ε measured", MeasuredText(r) + (r.measured() > 0 ? " with 95 % confidence" : "") +
                               (!shaped               ? ""
                                : r.trust == "masked" ? ", as the trade-off of such integer noise is Gaussian"
                                                      : ", if the trade-off is Gaussian as certified")});
  table.Add({"whatever the trade-off", r.epsilon > 0 ? "≥ " + DigitsDown(r.epsilon, 3) : "nothing found"});
  if (r.gaussian())
    table.Add(
        {"μ", fmt::format("{} certified, ≥ {} measured", DigitsUp(r.certified_mu), DigitsDown(r.mu, 3))});
  table.Add(
      {"errors", fmt::format("{} of {} runs without the canary taken for one with it, {} of {} the other way",
                             Grouped(r.middle.above0), Grouped(r.middle.runs0),
                             Grouped(r.middle.runs1 - r.middle.above1), Grouped(r.middle.runs1))});
  table.Add({"canary", r.canary + (r.reach > 0 ? fmt::format(", which moves {:.0f} % of what is charged, and "
                                                             "{:.0f} % in the run with the most",
                                                             100 * r.reach, 100 * r.most_reach)
                                               : "")});
  table.Add({"attack", r.attack + (a.thorough ? "" : " (--quick)")});
  table.Add({"verdict", Verdict(r)});
  table.Print(stdout, 0);
  for (const std::string& c : changes) fmt::print("  attacked with {}\n", c);
  return Ok{};
}

Result<int> RunAll(const Common& common, const Arguments& a, AuditOptions o) {
  if (!a.where.empty())
    return Fail(Code::kInvalidArgument,
                "{}: --all audits the list of all algorithms and takes no config; leave one out", a.where);
  std::vector<const Subject*> subjects;
  for (const Subject& s : Subjects())
    if (s.name.find(a.only) != std::string::npos) subjects.push_back(&s);
  if (subjects.empty())
    return Fail(Code::kInvalidArgument,
                "--only {}: no name in the list contains it; leave it out to see them all", a.only);
  // All bounds of the whole table hold together with the stated confidence; a part of it has its figures.
  const double confidence = 1 - o.alpha;
  o.alpha /= static_cast<double>(Subjects().size());
  TACIT_TRY(const std::vector<Assignment> sets, common.Assignments());
  ProgressBar bar(common.quiet || common.json ? ProgressBar::Kind::kNone : ProgressBar::Kind::kFull);
  Table table({"audited", "ε certified", "claimed", "measured", "of certified", "any trade-off", "verdict"});
  table.Left(0);
  table.Left(6);
  nlohmann::json rows = nlohmann::json::array();
  bool broken = false;
  double seconds = 0;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    TACIT_TRY(const Config config, ParseConfig(subjects[i]->text, subjects[i]->name, sets));
    std::vector<std::string> changes;
    TACIT_TRY(const Config small, ForAudit(config, a.rounds != 0 ? a.rounds : 64, changes));
    bar.Update(static_cast<double>(i) / static_cast<double>(subjects.size()), seconds, subjects[i]->name);
    TACIT_TRY(const AuditReport r, Audit(small, o));
    seconds += r.seconds;
    broken |= r.broken();
    nlohmann::json row = ToJson(r);
    row["name"] = subjects[i]->name;
    rows.push_back(std::move(row));
    const double part = std::isfinite(r.certified) && r.certified > 0 ? r.measured() / r.certified : 0;
    table.Add({subjects[i]->name, EpsilonText(r.certified), r.claimed ? EpsilonText(*r.claimed) : "",
               r.measured() > 0 ? DigitsDown(r.measured(), 3) : "0",
               part > 0 ? fmt::format("{:.0f} %", 100 * part) : "",
               r.epsilon > 0 ? DigitsDown(r.epsilon, 3) : "0", Verdict(r)});
  }
  bar.Clear();
  const int code = broken ? static_cast<int>(Code::kMismatch) : 0;
  if (common.json) {
    PrintJson({{"audits", rows}, {"confidence", confidence}, {"seconds", seconds}});
    return code;
  }
  table.Print(stdout, 0);
  if (!common.quiet)
    fmt::print(
        "{} runs in {}; all measured figures are lower bounds that hold together with 95 % confidence.\n",
        Grouped(2 * (static_cast<std::size_t>(o.explore) + o.measure) * subjects.size()), Duration(seconds));
  return code;
}

Result<int> Run(const Common& common, const Arguments& a) {
  AuditOptions o;
  if (a.thorough) o.explore = 20000, o.measure = 500000;
  if (a.runs != 0) o.measure = static_cast<std::uint32_t>(a.runs);
  o.interrupt = &InterruptFlag();
  if (a.all) return RunAll(common, a, o);
  if (a.where.empty())
    return Fail(Code::kInvalidArgument, "audit: needs an experiment file or a run, or --all");
  TACIT_TRY(const std::vector<Assignment> sets, common.Assignments());
  std::error_code ignored;
  std::filesystem::path file = a.where, folder;
  if (!std::filesystem::is_regular_file(file, ignored) && file.extension() != ".toml") {
    TACIT_TRY(folder, FindRun(a.where));
    file = folder / "config.toml";
  }
  TACIT_TRY(const Config config, LoadConfig(file, sets));
  std::vector<std::string> changes;
  TACIT_TRY(const Config small, ForAudit(config,
                                         a.rounds != 0 ? a.rounds
                                         : a.thorough  ? config.algorithm.rounds
                                                       : 64,
                                         changes));
  o.seed = config.experiment.seed;
  if (a.one) {
    const auto clients = static_cast<std::uint32_t>(a.runs != 0 ? a.runs : a.thorough ? 100000 : 2000);
    TACIT_TRY(const OneRunReport r, AuditInOneRun(small, clients, o));
    if (common.json) {
      PrintJson(ToJson(r));
    } else if (!common.quiet) {
      fmt::print(
          "one run of {} clients with a canary each: {} of {} guesses are right, so that ε ≥ {} at δ = {} "
          "with 95 % confidence; {} is certified{}\n",
          Grouped(r.clients), Grouped(r.right), Grouped(r.guesses), DigitsDown(r.epsilon, 3),
          DigitsUp(r.delta), EpsilonText(r.certified), r.broken() ? ": BROKEN" : "");
    }
    return r.broken() ? static_cast<int>(Code::kMismatch) : 0;
  }
  o.state = a.state;
  if (a.thorough && a.state.empty())  // a run's file is called config.toml, as every other run's
    o.state = (folder.empty() ? file.stem() : ResolvedFolder(folder).filename()).string() + ".audit.json";
  ProgressBar bar(common.quiet || common.json ? ProgressBar::Kind::kNone : ProgressBar::Kind::kFull);
  o.progress = [&](const AuditProgress& p) {
    if (bar.due())
      bar.Update(static_cast<double>(p.done) / static_cast<double>(p.all), p.seconds,
                 fmt::format("{} of {} runs", Grouped(p.done), Grouped(p.all)));
  };
  TACIT_TRY(const AuditReport r, Audit(small, o));
  bar.Clear();
  if (!folder.empty()) {  // for `tacit report`
    TACIT_TRY(const Recovery recovery, Recover(small, o.seed));
    nlohmann::json kept = ToJson(r);
    kept["attacked_with"] = changes;
    kept["recovery"] = ToJson(recovery);
    TACIT_OK(WriteRunFile(ResolvedFolder(folder), "audit.json", kept.dump(2) + "\n"));
  }
  const int code = r.broken() ? static_cast<int>(Code::kMismatch) : 0;
  if (common.json) {
    nlohmann::json document = ToJson(r);
    document["attacked_with"] = changes;
    if (code != 0)
      document["error"] = {
          {"code", code}, {"message", fmt::format("{}: the measured ε is above the certified one", a.where)}};
    PrintJson(document);
    return code;
  }
  if (!common.quiet) TACIT_OK(Show(r, changes, a));
  return code;
}

}  // namespace

void AddAudit(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "audit", "attack a run's guarantee: measured ε beside the certified one",
      "  tacit audit experiments/demo.toml\n"
      "  tacit audit runs/demo-20260101T120000 --thorough\n"
      "  tacit audit --all                                every algorithm in every mode, about a minute\n"
      "\nRuns the config thousands of times on two data sets that differ in one unit, made up by the "
      "auditor,\n"
      "and lets an attacker who sees every release tell them apart. What he gets right proves a lower bound\n"
      "on ε. No data of anybody is read. If the bound is above what is certified, the exit code is 8.\n");
  auto a = std::make_shared<Arguments>();
  verb->add_option("config", a->where, "an experiment file, or a run folder")->type_name("CONFIG|RUN");
  CLI::Option* all = verb->add_flag("--all", a->all, "audit every algorithm in every mode instead");
  verb->add_option("--only", a->only, "with --all: those whose name contains this, with the same figures")
      ->type_name("TEXT")
      ->needs(all);
  verb->add_flag("--quick", a->quick, "20,000 runs of at most 64 rounds (the default)");
  verb->add_flag("--thorough", a->thorough, "a million runs of all rounds; goes on where it was stopped")
      ->excludes("--quick");
  CLI::Option* one =
      verb->add_flag("--one-run", a->one, "one run instead, in which all of 2,000 clients have a canary")
          ->excludes(all);
  verb->add_option("--runs", a->runs, "runs in each world that judge, instead; with --one-run: clients")
      ->type_name("N")
      ->check(CLI::Range(100, 100000000));
  verb->add_option("--rounds", a->rounds, "at most so many rounds, instead")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  verb->add_option(
          "--state", a->state,
          "file that keeps where the audit stands; with --thorough NAME.audit.json, of the config or run")
      ->type_name("FILE")
      ->excludes(all)
      ->excludes(one);
  verb->callback([a, &run] { run.action = [a, &run] { return Run(run.common, *a); }; });
}

}  // namespace tacit::cli
