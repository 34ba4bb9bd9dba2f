// Training, and what is kept of it.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>

#include "experiment/json_number.h"
#include "experiment/program_session.h"
#include "experiment/run.h"
#include "experiment/verify.h"
#include "experiment/verify_session.h"
#include "rows.h"
#include "trained.h"

namespace tacit::python {
namespace {

using nlohmann::json;

// Calls back into Python from a training loop that runs without the interpreter's lock. An exception raised
// there, and Ctrl-C is one, ends the run after the round, with its certificate; `Raise` raises it then.
class Watcher {
 public:
  Watcher(nb::object progress, nb::object planned, bool every)
      : progress_(std::move(progress)), planned_(std::move(planned)), every_(every) {}

  TrainHooks Hooks() {
    TrainHooks hooks;
    hooks.interrupt = &stop_;
    hooks.planned = [this](const Plan& plan) {
      Guarded([&] {
        if (!planned_.is_none()) planned_(ToJson(plan).dump());
      });
    };
    hooks.progress = [this](const Progress& p) { Round(p); };
    return hooks;
  }
  void Raise() {
    if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
  }
  bool interrupted() const { return interrupted_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPause{100};

  template <class F> void Guarded(F f) {
    const nb::gil_scoped_acquire lock;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      f();
    } catch (nb::python_error& e) {
      interrupted_ = e.matches(PyExc_KeyboardInterrupt);
      if (!raised_) raised_ = std::current_exception();
      stop_ = true;
    }
  }
  void Round(const Progress& p) {
    const auto now = Clock::now();
    if (!every_ && p.round != p.rounds && now - last_ < kPause) return;
    last_ = now;
    Guarded([&] {
      if (progress_.is_none()) return;
      progress_(p.round, p.rounds, p.epsilon, p.seconds,
                p.metrics != nullptr ? ToJson(*p.metrics).dump() : "");
    });
  }

  nb::object progress_, planned_;
  bool every_;
  std::atomic<bool> stop_ = false;
  bool interrupted_ = false;
  std::exception_ptr raised_;
  Clock::time_point last_;
};

class Offers {
 public:
  void Add(const std::string& source, const Rows* rows) {
    if (rows != nullptr) offers_.push_back(Value(OfferedRows::Offer(source, rows->view())));
  }

 private:
  std::vector<OfferedRows> offers_;
};

// The result and, if Python raised something on the way, whether it was Ctrl-C; anything else is raised here.
using Outcome = std::tuple<Trained, bool>;
template <class F> Outcome Guard(Watcher& watcher, const Config& config, F go) {
  std::optional<Result<RunResult>> result;
  {
    const nb::gil_scoped_release free;
    result.emplace(go(watcher.Hooks()));
  }
  if (!watcher.interrupted()) watcher.Raise();
  return {Keep(Value(std::move(*result)), config), watcher.interrupted()};
}

Outcome TrainRun(const Config& config, const Rows* data, const Rows* test, bool keep, nb::object progress,
                 nb::object planned, bool every, std::optional<std::uint64_t> noise_seed) {
  if (noise_seed && config.privacy.noise != "replayable")
    throw EngineError(
        Fail(Code::kInvalidArgument,
             "noise_seed = {} with privacy.noise = \"{}\": only replayable noise has a seed; set "
             "noise=\"replayable\", for experiments, or leave the seed out",
             *noise_seed, config.privacy.noise));
  Offers offers;
  offers.Add(config.data.source, data);
  offers.Add(config.data.test, test);
  Watcher watcher(std::move(progress), std::move(planned), every);
  return Guard(watcher, config, [&](TrainHooks hooks) {
    hooks.write_folder = keep;
    hooks.noise_seed = noise_seed;
    return Train(config, hooks);
  });
}

Outcome ResumeRun(const std::string& folder, const Rows* data, const Rows* test, nb::object progress,
                  nb::object planned, bool every) {
  const Config config = Value(ConfigToResume(folder, {}));
  Offers offers;
  offers.Add(config.data.source, data);
  offers.Add(config.data.test, test);
  Watcher watcher(std::move(progress), std::move(planned), every);
  return Guard(watcher, config, [&](const TrainHooks& hooks) { return Resume(folder, {}, hooks); });
}

using Array = nb::ndarray<nb::numpy, const double, nb::c_contig>;

// A vector handed to Python without a copy: the array owns it.
Array Owned(Vec values, std::size_t rows, std::size_t columns) {
  auto held = std::make_unique<Vec>(std::move(values));
  const double* data = held->data();
  const nb::capsule owner(held.release(), [](void* p) noexcept { delete static_cast<Vec*>(p); });
  return {data, {rows, columns}, owner};
}

// Scores of rows in memory, offered as the source, or of a source that has a name already.
std::tuple<Array, std::string> Score(const Trained& t, const std::string& source, const Rows* rows) {
  Offers offers;
  offers.Add(source, rows);
  Evaluation e;
  {
    const nb::gil_scoped_release free;
    e = Value(Evaluate(t.saved, source, {}));
  }
  const std::string metrics = ToJson(e.metrics).dump();
  return {Owned(std::move(e.scores), e.rows, e.outputs), metrics};
}

std::string ToText(const Verification& v) {
  json findings = json::array();
  for (const Finding& f : v.findings)
    findings.push_back(
        {{"figure", f.figure}, {"stated", f.stated}, {"recomputed", f.recomputed}, {"sentence", f.sentence}});
  return json{{"holds", v.holds()},
              {"epsilon", Number(v.epsilon)},
              {"delta", v.delta},
              {"compared", v.compared},
              {"findings", findings}}
      .dump();
}

}  // namespace

Trained Keep(RunResult r, const Config& config) {
  Trained t;
  t.result = ToJson(r, config).dump();
  t.certificate = CertificateJson(Certificate(r, config));
  t.plan = ToJson(r.plan).dump();
  t.interrupted = r.interrupted;
  t.trace = std::move(r.trace);
  t.saved = {.folder = std::move(r.folder), .config = config, .model = std::move(r.model)};
  return t;
}

void AddRuns(nb::module_& m) {
  nb::class_<Rows>(m, "Rows", "Arrays that a run may read; kept alive and never copied.")
      .def(nb::init<>())
      .def("dense", &Rows::SetDense, nb::arg("x"))
      .def("sparse", &Rows::SetSparse, nb::arg("value"), nb::arg("column"), nb::arg("begin"),
           nb::arg("features"))
      .def("labels", &Rows::SetLabels, nb::arg("y"))
      .def("clients", &Rows::SetClients, nb::arg("group"), nb::arg("names"))
      .def("persons", &Rows::SetPersons, nb::arg("person"))
      .def_prop_ro(
          "address", [](const Rows& r) { return reinterpret_cast<std::uintptr_t>(r.view().value.data()); },
          "Where the values are that a run will read.");
  nb::class_<Trained>(m, "Trained", "A run with its model.")
      .def_static(
          "open",
          [](const std::string& folder) {
            Trained t;
            t.saved = Value(OpenRun(folder));
            return t;
          },
          nb::arg("folder"))
      .def_static(
          "of",
          [](const Config& config, const List<double>& model) {
            Trained t;
            t.saved = {
                .folder = {}, .config = config, .model = Vec(model.data(), model.data() + model.size())};
            return t;
          },
          nb::arg("config"), nb::arg("model"), "A model with the config it was trained by.")
      .def_prop_ro(
          "model",
          [](nb::handle self) {
            const Vec& v = nb::cast<const Trained&>(self).saved.model;
            return nb::ndarray<nb::numpy, const double, nb::ndim<1>>(v.data(), {v.size()}, self);
          },
          "The parameters: the engine's own memory, read-only.")
      .def_prop_ro("folder", [](const Trained& t) { return t.saved.folder.string(); })
      .def_prop_ro("config", [](const Trained& t) { return Config(t.saved.config); })
      .def_ro("result", &Trained::result)
      .def_ro("certificate", &Trained::certificate)
      .def_ro("plan", &Trained::plan)
      .def_ro("interrupted", &Trained::interrupted)
      .def_prop_ro("trace",
                   [](const Trained& t) {
                     json out = json::array();
                     for (const auto& [round, metrics] : t.trace) {
                       json line = ToJson(metrics);
                       line["round"] = round;
                       out.push_back(std::move(line));
                     }
                     return out.dump();
                   })
      .def("score", &Score, nb::arg("source"), nb::arg("rows").none(),
           "Scores of rows, and metrics as JSON.");
  m.def("train", &TrainRun, nb::arg("config"), nb::arg("data").none(), nb::arg("test").none(),
        nb::arg("keep"), nb::arg("progress").none(), nb::arg("planned").none(), nb::arg("every_round"),
        nb::arg("noise_seed").none(), "Trains; the result, and whether Ctrl-C ended it early.");
  m.def("resume", &ResumeRun, nb::arg("folder"), nb::arg("data").none(), nb::arg("test").none(),
        nb::arg("progress").none(), nb::arg("planned").none(), nb::arg("every_round"),
        "Goes on with a run that was stopped or killed.");
  m.def(
      "certificate_text",
      [](const std::string& c) {
        const json document = Value(ParseCertificate(c, "certificate"));
        return IsSession(document) ? SessionText(document) : CertificateText(document);
      },
      nb::arg("certificate"));
  m.def(
      "verify_folder",
      [](const std::string& f) {
        const nb::gil_scoped_release free;
        return ToText(Value(VerifyFolder(f)));
      },
      nb::arg("folder"));
  m.def(
      "verify_certificate",
      [](const std::string& c) {
        const nb::gil_scoped_release free;
        return ToText(Value(Verify(Value(ParseCertificate(c, "certificate")), "certificate")));
      },
      nb::arg("certificate"));
}

}  // namespace tacit::python
