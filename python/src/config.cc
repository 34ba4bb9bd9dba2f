// Experiment files, options and plans.
#include "experiment/config.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>

#include "data/catalogue.h"
#include "experiment/plan.h"
#include "experiment/run.h"
#include "module.h"

namespace tacit::python {
namespace {

tacit::Value Get(Config& c, const std::string& full) {
  for (Section& s : Describe(c))
    for (const Option& o : s.options())
      if (s.name() + "." + o.key == full) return o.get();
  Config copy = c;      // the engine has the better complaint
  Check(SetKey(copy, full, tacit::Value(false)));
  throw EngineError(Fail(Code::kInvalidArgument, "{}: unknown key", full));
}

std::string OptionsJson() {
  Config c;
  nlohmann::json out = nlohmann::json::array();
  for (const Section& s : Describe(c))
    for (const Option& o : s.options())
      out.push_back({{"key", s.name() + "." + o.key},
                     {"type", o.type},
                     {"range", o.range},
                     {"default", o.fallback},
                     {"help", o.help}});
  return out.dump();
}

std::string AlgorithmsJson() {
  nlohmann::json out = nlohmann::json::array();
  for (const AlgorithmEntry& a : Algorithms())
    out.push_back({{"name", a.name}, {"paper", a.paper}, {"summary", a.summary}});
  return out.dump();
}

}  // namespace

void AddConfig(nb::module_& m) {
  nb::class_<Config>(m, "Config", "An experiment file, parsed and checked.")
      .def(nb::init<>())
      .def_static(
          "load", [](const std::string& path) { return Value(LoadConfig(path, {})); }, nb::arg("path"),
          "Reads a TOML file.")
      .def_static(
          "parse",
          [](const std::string& text, const std::string& name) { return Value(ParseConfig(text, name, {})); },
          nb::arg("text"), nb::arg("name") = "text", "Reads TOML; name stands for the file in messages.")
      .def(
          "set",
          [](Config& c, const std::string& key, const tacit::Value& value) { Check(SetKey(c, key, value)); },
          nb::arg("key"), nb::arg("value"), "Sets table.key, checked.")
      .def("get", &Get, nb::arg("key"), "The value of table.key.")
      .def(
          "toml", [](const Config& c) { return ToToml(c); }, "Every key with its value.")
      .def("__str__", [](const Config& c) { return ToToml(c); })
      .def("__repr__",
           [](const Config& c) {
             return fmt::format("Config({} on {}; toml() has every key)", c.algorithm.name,
                                c.data.source.empty() ? "no data" : c.data.source);
           })
      .def("copy", [](const Config& c) { return Config(c); });
  m.def("options", &OptionsJson, "Every key of an experiment file, as JSON.");
  m.def("algorithms", &AlgorithmsJson, "What algorithm.name may be, as JSON.");
  m.def(
      "known_set", [](const std::string& name) { return FindSet(name) != nullptr; }, nb::arg("name"),
      "Whether the catalogue has a data set of this name.");
  m.def(
      "plan",
      [](const Config& c) {
        const nb::gil_scoped_release free;
        const PublicFacts facts = Value(FactsWithoutData(c));
        return ToJson(Value(MakePlan(c, facts))).dump();
      },
      nb::arg("config"), "What a run would do and cost, as JSON; no data is touched.");
}

}  // namespace tacit::python
