// For algorithms that are written in Python: the engine clips, adds up, charges, noises; Python gets what was
// paid for.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>

#include "experiment/program_session.h"
#include "rows.h"

namespace tacit::python {
namespace {

using Sum = nb::ndarray<nb::numpy, const double, nb::ndim<1>>;

// A digest of the rows, by which ledgers know them again whatever they are called.
std::string DigestOf(const Rows* rows) {
  if (rows == nullptr) return "";
  const OfferedRows offer = Value(OfferedRows::Offer("memory:digest", rows->view()));
  return MemoryDigest("memory:digest");
}

class Releases {
 public:
  Releases(SessionOptions o, const Rows* rows) {
    const nb::gil_scoped_release free;  // rows are digested, noise is searched for, files are written
    o.digest = DigestOf(rows);
    session_ = Value(ProgramSession::Open(std::move(o)));
  }

  Sum Release(std::uint32_t client, const Matrix& gradients, std::optional<double> sigma) {
    auto out = std::make_unique<Vec>();
    {
      const nb::gil_scoped_release free;
      *out =
          Value(session_->Release(client, {gradients.data(), gradients.size()}, gradients.shape(0), sigma));
    }
    const double* data = out->data();
    const std::size_t size = out->size();
    const nb::capsule owner(out.release(), [](void* p) noexcept { delete static_cast<Vec*>(p); });
    return {data, {size}, owner};
  }
  void Close() const {
    const nb::gil_scoped_release free;
    Check(session_->Close());
  }
  ProgramSession& session() const { return *session_; }

 private:
  std::unique_ptr<ProgramSession> session_;
};

}  // namespace

void AddReleases(nb::module_& m) {
  nb::class_<Releases>(m, "Releases", "Clipped sums with noise, paid for before they are handed out.")
      .def(
          "__init__",
          [](Releases* self, std::vector<std::size_t> records, std::size_t dimension, double clip,
             double epsilon, double delta, std::size_t rounds, std::string mechanism, std::string folder,
             std::string ledger, std::string data, const Rows* rows) {
            new (self) Releases({.records = std::move(records),
                                 .dim = dimension,
                                 .clip = clip,
                                 .epsilon = epsilon,
                                 .delta = delta,
                                 .rounds = rounds,
                                 .mechanism = std::move(mechanism),
                                 .folder = std::move(folder),
                                 .ledger = std::move(ledger),
                                 .data = std::move(data)},
                                rows);
          },
          nb::arg("records"), nb::arg("dimension"), nb::arg("clip"), nb::arg("epsilon"), nb::arg("delta"),
          nb::arg("rounds"), nb::arg("mechanism"), nb::arg("folder"), nb::arg("ledger"), nb::arg("data"),
          nb::arg("rows").none())
      .def_prop_ro("sigma", [](const Releases& r) { return r.session().sigma(); })
      .def("release", &Releases::Release, nb::arg("client"), nb::arg("gradients"), nb::arg("sigma").none())
      .def_prop_ro("epsilon", [](const Releases& r) { return r.session().Epsilon(); })
      .def_prop_ro("used", [](const Releases& r) { return r.session().Used(); })
      .def_prop_ro("certificate", [](const Releases& r) { return r.session().Certificate().dump(2); })
      .def("close", &Releases::Close);
}

}  // namespace tacit::python
