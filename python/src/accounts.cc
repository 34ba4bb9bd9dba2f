// The accountant, its inverses, and ledgers.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <nlohmann/json.hpp>

#include "experiment/json_number.h"
#include "experiment/run.h"
#include "module.h"
#include "privacy/accountant.h"
#include "privacy/calibrate.h"
#include "privacy/data_ledger.h"
#include "privacy/event_json.h"
#include "privacy/gdp.h"

namespace tacit::python {
namespace {

using nlohmann::json;
using Ends = std::tuple<double, double, std::string>;      // lower, upper, method

Ends Of(Bracket b) { return {b.lower, b.upper, std::move(b.method)}; }

std::tuple<Accountant, std::optional<double>> Parse(const std::string& text, const std::string& name,
                                                    const std::optional<std::string>& adjacency) {
  std::optional<Adjacency> asked;
  if (adjacency) asked = Value(ParseAdjacency(*adjacency));
  EventFile file = Value(ParseEvents(text, name, asked));
  return {std::move(file.account), file.delta ? std::optional(file.delta->value()) : std::nullopt};
}

std::string ToText(const Calibration& c) {
  return json{{"value", Number(c.value)},
              {"epsilon", Number(c.epsilon.upper)},
              {"epsilon_lower", Number(c.epsilon.lower)},
              {"method", c.epsilon.method},
              {"at_end", c.at_end}}
      .dump();
}

std::string CalibrateReleases(const std::string& find, double epsilon, double delta,
                              const std::string& mechanism, const std::string& adjacency,
                              std::optional<double> noise, std::optional<double> rounds,
                              std::optional<double> rate, bool fixed_size, std::uint32_t sensitivity,
                              std::uint64_t dimension, std::uint64_t categories) {
  const Epsilon e = Value(Epsilon::Of(epsilon));
  const Delta d = Value(Delta::Of(delta));
  ReleasePlan plan{.mechanism = Value(ParseReleaseKind(mechanism)),
                   .adjacency = Value(ParseAdjacency(std::string_view(adjacency))),
                   .rate = rate,
                   .fixed_size = fixed_size,
                   .sensitivity = sensitivity,
                   .dimension = dimension,
                   .categories = categories};
  if (noise) plan.noise = *noise;
  if (rounds) plan.rounds = *rounds;
  const nb::gil_scoped_release free;
  if (find == "noise") return ToText(Value(CalibrateNoise(plan, e, d)));
  if (find == "rounds") return ToText(Value(CalibrateRounds(plan, e, d)));
  if (find == "rate") return ToText(Value(CalibrateRate(plan, e, d)));
  throw EngineError(Fail(Code::kInvalidArgument, "find = \"{}\": must be noise, rounds or rate", find));
}

std::string CalibrateEvents(const Accountant& account, const std::string& find, double epsilon,
                            double delta) {
  const Epsilon e = Value(Epsilon::Of(epsilon));
  const Delta d = Value(Delta::Of(delta));
  const nb::gil_scoped_release free;
  if (find == "scale") return ToText(Value(CalibrateScale(account, e, d)));
  if (find == "repeats") return ToText(Value(CalibrateRepeats(account, e, d)));
  throw EngineError(Fail(Code::kInvalidArgument, "find = \"{}\": must be scale or repeats", find));
}

double EpsilonOf(const DataRun& r) {
  if (r.plan_epsilon) return *r.plan_epsilon;
  return GdpEpsilon(Root(MuSquared::Proven(r.mu_squared)), Delta::Proven(r.delta)).upper;
}

// What all runs on every data set of the file have cost together.
std::string LedgerJson(const std::string& file) {
  json out = json::array();
  for (const DataSetRecord& set : Value(DataLedger::Read(file))) {
    json runs = json::array(), totals = json::array();
    for (const DataRun& r : set.runs)
      runs.push_back({{"run", r.run},
                      {"unit", r.unit},
                      {"adjacency", r.adjacency},
                      {"mode", r.mode},
                      {"state", r.state},
                      {"epsilon", Number(EpsilonOf(r))},
                      {"delta", r.delta}});
    for (const DataTotal& t : Totals(set))
      totals.push_back({{"unit", t.unit},
                        {"adjacency", t.adjacency},
                        {"runs", t.runs},
                        {"epsilon", Number(t.EpsilonAt(t.delta))},
                        {"delta", t.plans == 0 ? t.delta : AddUp(t.delta, t.plan_delta)}});
    out.push_back({{"data", set.id.name},
                   {"limit_epsilon", set.limit_epsilon ? Number(*set.limit_epsilon) : json(nullptr)},
                   {"limit_delta", set.limit_delta ? Number(*set.limit_delta) : json(nullptr)},
                   {"totals", totals},
                   {"runs", runs}});
  }
  return out.dump();
}

void SetLimit(const std::string& file, const std::string& data, std::optional<double> epsilon, double delta) {
  const std::optional<Epsilon> most =
      epsilon ? std::optional(Value(Epsilon::Of(*epsilon))) : std::optional<Epsilon>();
  Check(DataLedger::SetLimit(file, data, most, Value(Delta::Of(delta))));
}

}  // namespace

void AddAccounts(nb::module_& m) {
  nb::class_<Accountant>(m, "Accountant", "Composes events and says what they cost together.")
      .def_static("parse", &Parse, nb::arg("text"), nb::arg("name"), nb::arg("adjacency").none(),
                  "A list of events as JSON: the account, and the delta that the list names.")
      .def(
          "epsilon",
          [](const Accountant& a, double delta) {
            const Delta d = Value(Delta::Of(delta));
            const nb::gil_scoped_release free;
            return Of(Value(a.EpsilonAt(d)));
          },
          nb::arg("delta"))
      .def(
          "delta",
          [](const Accountant& a, double epsilon) {
            const Epsilon e = Value(Epsilon::Of(epsilon));
            const nb::gil_scoped_release free;
            return Of(Value(a.DeltaAt(e)));
          },
          nb::arg("epsilon"))
      .def(
          "renyi_epsilon",
          [](const Accountant& a, double delta) { return Value(RenyiEpsilon(a, Value(Delta::Of(delta)))); },
          nb::arg("delta"))
      .def(
          "compose", [](Accountant& a, const Accountant& more) { Check(a.Compose(more)); }, nb::arg("other"))
      .def_prop_ro("adjacency", [](const Accountant& a) { return std::string(Name(a.adjacency())); })
      .def("events", [](const Accountant& a) { return WriteEvents(a); });
  m.def("calibrate", &CalibrateReleases, nb::arg("find"), nb::arg("epsilon"), nb::arg("delta"),
        nb::arg("mechanism"), nb::arg("adjacency"), nb::arg("noise").none(), nb::arg("rounds").none(),
        nb::arg("rate").none(), nb::arg("fixed_size"), nb::arg("sensitivity"), nb::arg("dimension"),
        nb::arg("categories"));
  m.def("calibrate_events", &CalibrateEvents, nb::arg("account"), nb::arg("find"), nb::arg("epsilon"),
        nb::arg("delta"));
  m.def("ledger", &LedgerJson, nb::arg("file"));
  m.def("set_limit", &SetLimit, nb::arg("file"), nb::arg("data"), nb::arg("epsilon").none(),
        nb::arg("delta"));
  m.def(
      "default_ledger", [](const std::string& output) { return DefaultLedger(output).string(); },
      nb::arg("output"));
}

}  // namespace tacit::python
