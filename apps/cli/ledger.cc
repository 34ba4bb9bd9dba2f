// tacit ledger: what all runs on a data set have cost together.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli.h"
#include "data/catalogue.h"
#include "data/memory.h"
#include "experiment/run.h"
#include "privacy/data_ledger.h"
#include "privacy/gdp.h"

namespace tacit::cli {
namespace {

struct Arguments {
  std::string data, file;
  std::optional<double> epsilon, delta, plan_epsilon, plan_delta;
  bool none = false, fresh = false;
};

std::filesystem::path File(const Arguments& a) {
  return a.file.empty() ? DefaultLedger(Config{}.experiment.output) : std::filesystem::path(a.file);
}

// What runs on it go by, as experiment/run.h IdOf has it, where `text` is the path of a file; empty: it is
// none.
std::string NameOfFile(const std::string& text) {
  std::error_code ec;
  const std::filesystem::path full = std::filesystem::canonical(text, ec);
  return ec ? "" : full.string();
}

// The name of the data set that a limit is for. One that no run goes by would limit nothing.
Result<std::string> Meant(const Arguments& a) {
  std::error_code ec;
  std::vector<DataSetRecord> sets;
  if (std::filesystem::exists(File(a), ec)) {
    TACIT_TRY(sets, DataLedger::Read(File(a)));
  }
  const auto known =
      std::find_if(sets.begin(), sets.end(), [&](const DataSetRecord& s) { return s.id.name == a.data; });
  // A file by the name of a set without runs was not meant when that was made.
  const bool has_runs = known != sets.end() && !known->runs.empty();
  if (has_runs || a.fresh || FindSet(a.data) != nullptr || IsMemory(a.data)) return a.data;
  if (const std::string file = NameOfFile(a.data); !file.empty()) return file;
  if (known != sets.end()) return a.data;
  std::vector<std::string> names;
  for (const DataSetRecord& s : sets) names.push_back(s.id.name);
  return Fail(
      Code::kNotFound,
      "{}: is no data set of {} ({}), none of the catalogue and no file, and a limit on it would limit "
      "nothing; name one of these, or give --new if runs are to come with data.id = \"{}\"",
      a.data, File(a).string(),
      names.empty() ? "which holds none" : fmt::format("which holds {}", fmt::join(names, ", ")), a.data);
}

double EpsilonOf(double mu_squared, double delta) {
  return GdpEpsilon(Root(MuSquared::Proven(mu_squared)), Delta::Proven(delta)).upper;
}

Result<int> Limit(const Common& common, const Arguments& a) {
  TACIT_OK(common.ExpectNoSets("ledger limit"));
  if (a.none == a.epsilon.has_value())
    return Fail(Code::kInvalidArgument,
                "tacit ledger limit: give either --epsilon E, or --none to lift the limit");
  TACIT_TRY(const Delta delta, Delta::Of(a.delta.value_or(1e-5)));
  std::optional<Epsilon> epsilon;
  if (a.epsilon) {
    TACIT_TRY(epsilon, Epsilon::Of(*a.epsilon));
  }
  std::optional<DataLedger::PlanLimit> plans;
  if (a.plan_delta && !a.plan_epsilon)
    return Fail(Code::kInvalidArgument, "tacit ledger limit: --plan-delta needs --plan-epsilon beside it");
  if (a.plan_epsilon) {
    if (!epsilon)
      return Fail(
          Code::kInvalidArgument,
          "tacit ledger limit: --plan-epsilon is on top of --epsilon; give that too, 0 for no other runs");
    TACIT_TRY(const Epsilon most, Epsilon::Of(*a.plan_epsilon));
    TACIT_TRY(const Delta most_delta, Delta::Of(a.plan_delta.value_or(1e-5)));
    plans = DataLedger::PlanLimit{most, most_delta};
  }
  TACIT_TRY(const std::string data, Meant(a));
  TACIT_OK(DataLedger::SetLimit(File(a), data, epsilon, delta, plans));
  if (common.json)
    return PrintJson(
        {{"data", data},
         {"file", File(a).string()},
         {"limit_epsilon", epsilon ? Number(epsilon->value()) : nlohmann::json(nullptr)},
         {"limit_delta", epsilon ? Number(delta.value()) : nlohmann::json(nullptr)},
         {"plan_limit_epsilon", plans ? Number(plans->epsilon.value()) : nlohmann::json(nullptr)},
         {"plan_limit_delta", plans ? Number(plans->delta.value()) : nlohmann::json(nullptr)}});
  if (epsilon)
    fmt::print("Runs on {} may cost ε = {} at δ = {} together{}.\n", data, Digits(epsilon->value()),
               Digits(delta.value()),
               plans ? fmt::format(", and those that pay by a plan ε = {} at δ = {} on top",
                                   Digits(plans->epsilon.value()), Digits(plans->delta.value()))
                     : "");
  else
    fmt::print("{} has no limit now.\n", data);
  return 0;
}

// Of a plan ε is known at its own δ alone.
double EpsilonOf(const DataRun& r, const std::optional<double>& delta) {
  return r.plan_epsilon ? *r.plan_epsilon : EpsilonOf(r.mu_squared, delta.value_or(r.delta));
}
double DeltaOf(const DataRun& r, const std::optional<double>& delta) {
  return r.plan_epsilon ? r.delta : delta.value_or(r.delta);
}
// At this δ the sum is.
double DeltaOf(const DataTotal& t, const std::optional<double>& delta) {
  const double others = t.runs == t.plans ? 0.0 : delta.value_or(t.delta);
  return t.plans == 0 ? others : AddUp(others, t.plan_delta);
}

nlohmann::json ToJson(const DataSetRecord& set, const std::optional<double>& delta) {
  nlohmann::json runs = nlohmann::json::array(), totals = nlohmann::json::array();
  for (const DataRun& r : set.runs)
    runs.push_back({{"run", r.run},
                    {"unit", r.unit},
                    {"adjacency", r.adjacency},
                    {"mode", r.mode},
                    {"state", r.state},
                    {"mu", Number(Root(MuSquared::Proven(r.mu_squared)).value())},
                    {"planned", r.plan_epsilon.has_value()},
                    {"epsilon", Number(EpsilonOf(r, delta))},
                    {"delta", DeltaOf(r, delta)}});
  for (const DataTotal& t : Totals(set))
    totals.push_back({{"unit", t.unit},
                      {"adjacency", t.adjacency},
                      {"runs", t.runs},
                      {"mu", t.runs == t.plans ? nlohmann::json(nullptr)      // plans have none
                                               : Number(Root(MuSquared::Proven(t.mu_squared)).value())},
                      {"plans", t.plans},
                      {"plan_epsilon", Number(t.plan_epsilon)},
                      {"plan_delta", t.plan_delta},
                      {"epsilon", Number(t.EpsilonAt(delta.value_or(t.delta)))},
                      {"delta", DeltaOf(t, delta)}});
  return {
      {"data", set.id.name},
      {"limit_epsilon", set.limit_epsilon ? Number(*set.limit_epsilon) : nlohmann::json(nullptr)},
      {"limit_delta", set.limit_delta ? Number(*set.limit_delta) : nlohmann::json(nullptr)},
      {"plan_limit_epsilon",
       set.plan_limit_epsilon ? Number(*set.plan_limit_epsilon) : nlohmann::json(nullptr)},
      {"plan_limit_delta", set.plan_limit_delta ? Number(*set.plan_limit_delta) : nlohmann::json(nullptr)},
      {"totals", totals},
      {"runs", runs}};
}

void Print(const DataSetRecord& set, const std::optional<double>& delta) {
  fmt::print("{}", Styled(stdout, Style::kBold, set.id.name));
  if (set.limit_epsilon)
    fmt::print("  limit ε = {} at δ = {}", Digits(*set.limit_epsilon), Digits(*set.limit_delta));
  if (set.plan_limit_epsilon)
    fmt::print(", for plans ε = {} at δ = {} on top", Digits(*set.plan_limit_epsilon),
               Digits(*set.plan_limit_delta));
  fmt::print("\n");
  if (set.runs.empty()) {
    fmt::print("  no runs yet\n\n");
    return;
  }
  Table table({"run", "unit", "adjacency", "mode", "state", "ε", "δ"});
  for (const std::size_t column : {0, 1, 2, 3, 4}) table.Left(column);
  for (const DataRun& r : set.runs)
    table.Add({std::filesystem::path(r.run).filename().string(), r.unit, r.adjacency, r.mode, r.state,
               EpsilonText(EpsilonOf(r, delta)), DigitsUp(DeltaOf(r, delta))});
  for (const DataTotal& t : Totals(set))
    table.Add({fmt::format("together ({} run{})", t.runs, t.runs == 1 ? "" : "s"), t.unit, t.adjacency, "",
               "", EpsilonText(t.EpsilonAt(delta.value_or(t.delta))), DigitsUp(DeltaOf(t, delta))});
  table.Print(stdout);
  fmt::print("\n");
}

Result<int> Show(const Common& common, const Arguments& a) {
  TACIT_OK(common.ExpectNoSets("ledger"));
  if (a.delta) {
    TACIT_TRY([[maybe_unused]] const Delta checked, Delta::Of(*a.delta));
  }
  TACIT_TRY(std::vector<DataSetRecord> sets, DataLedger::Read(File(a)));
  if (!a.data.empty()) {
    std::string known;
    for (const DataSetRecord& s : sets) known += (known.empty() ? "" : ", ") + s.id.name;
    const std::string file = NameOfFile(a.data);
    std::erase_if(sets, [&](const DataSetRecord& s) { return s.id.name != a.data && s.id.name != file; });
    if (sets.empty())
      return Fail(Code::kNotFound, "{}: no run on it is in {}; there {}", a.data, File(a).string(),
                  known.empty() ? std::string("are none at all") : "are " + known);
  }
  if (common.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const DataSetRecord& s : sets) all.push_back(ToJson(s, a.delta));
    return PrintJson({{"file", File(a).string()}, {"data_sets", all}});
  }
  for (const DataSetRecord& s : sets) Print(s, a.delta);
  fmt::print("in {}\n", File(a).string());
  return 0;
}

}  // namespace

void AddLedger(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "ledger", "what all runs on a data set have cost together",
      "  tacit ledger                                       every data set\n"
      "  tacit ledger show heart.csv --delta 1e-6           one of them, at another delta\n"
      "  tacit ledger limit a9a --epsilon 3 --delta 1e-5    refuse runs that would bring it past 3\n"
      "  tacit ledger limit patients.csv --epsilon 3        a file, wherever it is named from\n"
      "  tacit ledger limit a9a --none                      no limit\n"
      "\nA run counts with its largest client, an unfinished one with what is reserved. Costs under\n"
      "different units or adjacencies are not added. The file is $TACIT_LEDGER, or runs/ledger.db.\n");
  const auto a = std::make_shared<Arguments>();
  const auto file = [a](CLI::App* to) {
    to->add_option("--file", a->file, "the ledger file")->type_name("FILE");
  };
  file(verb);
  verb->add_option("--delta", a->delta, "delta at which epsilon is shown; default: the smallest of the runs'")
      ->type_name("D");
  verb->require_subcommand(0, 1);

  CLI::App* show = AddVerb(*verb, run, "show", "one data set", "  tacit ledger show a9a\n");
  show->add_option("data", a->data, "name of the data set, or its file")->required()->type_name("DATA");
  show->add_option("--delta", a->delta, "delta at which epsilon is shown")->type_name("D");
  file(show);

  CLI::App* limit =
      AddVerb(*verb, run, "limit", "the most that runs on a data set may cost together",
              "  tacit ledger limit a9a --epsilon 3 --delta 1e-5\n"
              "  tacit ledger limit patients.csv --epsilon 3 --file tacit-site/ledger.db\n"
              "  tacit ledger limit survey --epsilon 3 --new      before the first run on it\n");
  limit->add_option("data", a->data, "the data set: its data.id, a set of the catalogue, or a file")
      ->required()
      ->type_name("DATA");
  limit->add_option("--epsilon", a->epsilon, "the limit")->type_name("E");
  limit->add_option("--delta", a->delta, "its delta; default 1e-5")->type_name("D");
  limit
      ->add_option(
          "--plan-epsilon", a->plan_epsilon,
          "on top, for runs that pay by a plan (samples of clients, priv-unit); default: none of them")
      ->type_name("E");
  limit->add_option("--plan-delta", a->plan_delta, "its delta, which these runs share; default 1e-5")
      ->type_name("D");
  limit->add_flag("--new", a->fresh, "the name is a data.id that no run has had yet");
  limit->add_flag("--none", a->none, "lift the limit");
  file(limit);
  limit->callback([a, &run] { run.action = [a, &run] { return Limit(run.common, *a); }; });
  show->callback([a, &run] { run.action = [a, &run] { return Show(run.common, *a); }; });
  verb->callback([a, &run, limit, show] {
    if (limit->parsed() || show->parsed()) return;
    run.action = [a, &run] { return Show(run.common, *a); };
  });
}

}  // namespace tacit::cli
