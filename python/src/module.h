#pragma once

// The engine as a Python module. Only what may be released crosses: Private has no Python type, and rows go
// in and never come out.
#include <nanobind/nanobind.h>

#include <exception>
#include <string>

#include "core/result.h"

namespace tacit::python {

namespace nb = nanobind;

// An Error on its way to Python, where it becomes the exception of its code (tacit/errors.py).
class EngineError final : public std::exception {
 public:
  explicit EngineError(Error error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  const Error& error() const { return error_; }

 private:
  Error error_;
};

template <class T> T Value(Result<T> result) {
  if (!result.ok()) throw EngineError(result.error());
  return *std::move(result);
}
inline void Check(const Status& status) {
  if (!status.ok()) throw EngineError(status.error());
}

void AddConfig(nb::module_&);
void AddRuns(nb::module_&);
void AddAccounts(nb::module_&);
void AddViews(nb::module_&);
void AddReleases(nb::module_&);
void AddFederation(nb::module_&);

}  // namespace tacit::python
