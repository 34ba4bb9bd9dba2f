#include "module.h"

namespace tacit::python {
namespace {

void Translate(const std::exception_ptr& caught, void* /*payload*/) {
  try {
    std::rethrow_exception(caught);
  } catch (const EngineError& e) {
    const nb::object raised =
        nb::module_::import_("tacit.errors")
            .attr("of_code")(static_cast<int>(e.error().code), e.error().message.c_str());
    PyErr_SetObject(raised.type().ptr(), raised.ptr());
  }
}

}  // namespace
}  // namespace tacit::python

NB_MODULE(_tacit, m) {  // NOLINT: as nanobind has it
  namespace py = tacit::python;
  m.doc() = "The engine; what people use is in the package tacit around it.";
  m.attr("version") = TACIT_VERSION;
  nanobind::set_leak_warnings(false);      // tracebacks that an interpreter keeps to its end are no leaks
  nanobind::register_exception_translator(py::Translate);
  py::AddConfig(m);
  py::AddRuns(m);
  py::AddAccounts(m);
  py::AddViews(m);
  py::AddReleases(m);
  py::AddFederation(m);
}
