// A run whose server and clients are in processes of somebody else's, as Flower's are: frames come and go as
// bytes, and whoever calls moves them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>

#include "experiment/job.h"
#include "experiment/site.h"
#include "rows.h"
#include "runtime/link.h"
#include "trained.h"

namespace tacit::python {
namespace {

nb::bytes ToPython(std::span<const std::byte> bytes) { return nb::bytes(bytes.data(), bytes.size()); }
std::span<const std::byte> FromPython(const nb::bytes& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size()};
}

// ask(round, last, who, frame) → one answer for each of who, bytes or None. What it raises ends the run.
class CallingLink final : public Link {
 public:
  explicit CallingLink(nb::object ask) : ask_(std::move(ask)) {}
  Status Ask(const Question& q, std::vector<Bytes>& answers) override {
    const nb::gil_scoped_acquire lock;
    try {
      nb::list who;
      for (const std::uint32_t i : q.who) who.append(i);
      const nb::object given = ask_(q.round, q.last, who, ToPython(q.frame));
      const auto list = nb::cast<std::vector<std::optional<nb::bytes>>>(given);
      answers.assign(q.who.size(), {});
      for (std::size_t i = 0; i < std::min(list.size(), answers.size()); ++i) {
        if (!list[i] || list[i]->size() > q.most_bytes) continue;
        const auto bytes = FromPython(*list[i]);
        if (!q.check || q.check(bytes).ok()) answers[i].assign(bytes.begin(), bytes.end());
      }
      return Ok{};
    } catch (...) {
      raised_ = std::current_exception();
    }
    return Fail(Code::kInterrupted, "the program that moves the messages gave up");
  }
  void Raise() {
    if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
  }

 private:
  nb::object ask_;
  std::exception_ptr raised_;
};

Trained CoordinateRun(const std::string& job_text, const std::string& folder, nb::object ask) {
  const Job job = Value(ParseJob(job_text, "job", {}));
  CallingLink link(std::move(ask));
  std::optional<Result<RunResult>> result;
  {
    const nb::gil_scoped_release free;
    result.emplace(Coordinate(job, link, folder));
  }
  link.Raise();
  return Keep(Value(std::move(*result)), job.config);
}

// One answer of one client. Its folder holds all that it needs to go on, so that every call may be in another
// process; the same question gets the same bytes.
nb::bytes AnswerOnce(const std::string& job_text, const std::string& name, const std::string& source,
                     const Rows* rows, const std::string& folder, const std::string& ledger,
                     std::uint32_t round, bool last, const nb::bytes& frame) {
  const Job job = Value(ParseJob(job_text, "job", {}));
  std::optional<OfferedRows> offer;
  if (rows != nullptr) offer.emplace(Value(OfferedRows::Offer(source, rows->view())));
  const Bytes down(FromPython(frame).begin(), FromPython(frame).end());
  Bytes answer;
  {
    const nb::gil_scoped_release free;
    Value(TakePart(job, Value(PlanOf(job)),
                   {.name = name, .data = source, .folder = folder, .ledger = ledger},
                   [&](Site& site) -> Status {
                     if (last) {
                       TACIT_TRY(answer, site.Leave(down));
                       return Ok{};
                     }
                     TACIT_TRY(answer, site.Answer(round, down));
                     return Fail(Code::kInterrupted, "until the next question");
                   }));
  }
  return ToPython(answer);
}

}  // namespace

void AddFederation(nb::module_& m) {
  m.def("coordinate", &CoordinateRun, nb::arg("job"), nb::arg("folder"), nb::arg("ask"),
        "The server's part of a run; ask() moves the frames.");
  m.def("answer", &AnswerOnce, nb::arg("job"), nb::arg("name"), nb::arg("source"), nb::arg("rows").none(),
        nb::arg("folder"), nb::arg("ledger"), nb::arg("round"), nb::arg("last"), nb::arg("frame"),
        "A client's answer to one frame.");
  m.def(
      "job_plan",
      [](const std::string& text) {
        const Job job = Value(ParseJob(text, "job", {}));
        nlohmann::json plan = ToJson(Value(PlanOf(job)));
        plan["noise"] = job.config.privacy.noise;
        return plan.dump();
      },
      nb::arg("job"), "What a job would do and cost, as JSON, and where its noise is from.");
}

}  // namespace tacit::python
