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

// ask(round, last, who, counted, frame) → one answer for each of who, bytes or None. What it raises ends the
// run. Answers that a round cannot do without are asked for `attempts` times; a client sends the same bytes
// again.
class CallingLink final : public Link {
 public:
  CallingLink(nb::object ask, std::size_t minimum, std::size_t attempts)
      : ask_(std::move(ask)), minimum_(minimum), attempts_(attempts) {}
  Status Ask(const Question& q, std::vector<Bytes>& answers) override {
    answers.assign(q.who.size(), {});
    // As of `tacit serve`: nobody is needed for a farewell.
    const std::size_t needed = q.last || !q.patient ? 0
                               : q.least != 0       ? std::min(q.who.size(), q.least)
                               : minimum_ != 0      ? std::min(q.who.size(), minimum_)
                                                    : q.who.size();
    std::size_t came = 0;
    for (std::size_t k = 0; k < attempts_ && (k == 0 || came < needed); ++k) {
      TACIT_TRY(const std::size_t more, AskOnce(q, answers));
      came += more;
    }
    if (came >= needed) return Ok{};
    return Fail(Code::kIo,
                "round {}: {} of {} clients gave an answer that counts, asked up to {} times, and {} must "
                "(serve.minimum; 0: all); see their logs; the same job in the same folder goes on",
                q.round, came, q.who.size(), attempts_, needed);
  }
  void Raise() {
    if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
  }

 private:
  // Asks whoever has not answered; how many have now.
  Result<std::size_t> AskOnce(const Question& q, std::vector<Bytes>& answers) {
    const nb::gil_scoped_acquire lock;
    try {
      nb::list who, counted;  // counted: of each of who, or nothing
      std::vector<std::size_t> place;
      for (std::size_t i = 0; i < q.who.size(); ++i) {
        if (!answers[i].empty()) continue;
        who.append(q.who[i]);
        if (!q.counted.empty()) counted.append(q.counted[i]);
        place.push_back(i);
      }
      const nb::object given = ask_(q.round, q.last, who, counted, ToPython(q.frame));
      const auto list = nb::cast<std::vector<std::optional<nb::bytes>>>(given);
      std::size_t came = 0;
      for (std::size_t k = 0; k < std::min(list.size(), place.size()); ++k) {
        if (!list[k] || list[k]->size() == 0 || list[k]->size() > q.most_bytes) continue;
        const auto bytes = FromPython(*list[k]);
        if (q.check && !q.check(bytes).ok()) continue;
        answers[place[k]].assign(bytes.begin(), bytes.end());
        ++came;
      }
      return came;
    } catch (...) {
      raised_ = std::current_exception();
    }
    return Fail(Code::kInterrupted, "the program that moves the messages gave up");
  }

  nb::object ask_;
  std::size_t minimum_, attempts_;
  std::exception_ptr raised_;
};

Trained CoordinateRun(const std::string& job_text, const std::string& folder, nb::object ask,
                      std::size_t attempts) {
  const Job job = Value(ParseJob(job_text, "job", {}));
  CallingLink link(std::move(ask), job.minimum, std::max<std::size_t>(1, attempts));
  std::optional<Result<RunResult>> result;
  {
    const nb::gil_scoped_release free;
    result.emplace(Coordinate(job, link, folder));
  }
  link.Raise();
  return Keep(Value(std::move(*result)), job.config);
}

// One answer of one client. Its folder holds all that it needs to go on, so that every call may be in another
// process; the same question gets the same bytes. total: the most that all jobs on these rows may cost
// together.
nb::bytes AnswerOnce(const std::string& job_text, const std::string& name, const std::string& source,
                     const Rows* rows, const std::string& folder, const std::string& ledger,
                     std::uint32_t round, bool last, const nb::bytes& frame, std::uint32_t counted,
                     std::optional<double> total, double total_delta) {
  const Job job = Value(ParseJob(job_text, "job", {}));
  std::optional<OfferedRows> offer;
  if (rows != nullptr) offer.emplace(Value(OfferedRows::Offer(source, rows->view())));
  const Bytes down(FromPython(frame).begin(), FromPython(frame).end());
  Bytes answer;
  {
    const nb::gil_scoped_release free;
    if (total) {
      Config own = job.config;  // the data set as TakePart knows it
      own.data.source = source;
      own.data.id = "";
      Check(DataLedger::HoldTo(ledger, IdOf(own), Value(Epsilon::Of(*total)), Value(Delta::Of(total_delta))));
    }
    Value(TakePart(job, Value(PlanOf(job)),
                   {.name = name, .data = source, .folder = folder, .ledger = ledger},
                   [&](Site& site) -> Status {
                     if (last) {
                       TACIT_TRY(answer, site.Leave(down));
                       return Ok{};
                     }
                     TACIT_TRY(answer, site.Answer(round, down, counted));
                     return Fail(Code::kInterrupted, "until the next question");
                   }));
  }
  return ToPython(answer);
}

}  // namespace

void AddFederation(nb::module_& m) {
  m.def("coordinate", &CoordinateRun, nb::arg("job"), nb::arg("folder"), nb::arg("ask"),
        nb::arg("attempts") = 1, "The server's part of a run; ask() moves the frames.");
  m.def("answer", &AnswerOnce, nb::arg("job"), nb::arg("name"), nb::arg("source"), nb::arg("rows").none(),
        nb::arg("folder"), nb::arg("ledger"), nb::arg("round"), nb::arg("last"), nb::arg("frame"),
        nb::arg("counted"), nb::arg("total") = nb::none(), nb::arg("total_delta") = 1e-5,
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
