#pragma once

// Result<T>: a T, or an Error. The one way to say that the world (a file, a config, a budget)
// refused. Bugs use TACIT_CHECK; a client's own bad data is neither: it becomes a defined value.
#include <fmt/core.h>

#include <string>
#include <utility>
#include <variant>

#include "core/check.h"

namespace tacit {

// Also the process exit codes; see docs/cli.md.
enum class Code {
  kInternal = 1,
  kInvalidArgument = 2,   // a config, an option or a command line is wrong
  kNotFound = 3,          // a file, data set or run is missing
  kMalformed = 4,         // a file is there and cannot be understood
  kBudget = 5,            // the privacy budget refuses
  kIo = 6,                // disk, network, database
  kUnsupported = 7,       // a valid request this build or this combination cannot serve
  kMismatch = 8,          // a certificate or a signature does not hold
  kInterrupted = 130,
};

// The message is one sentence that names the thing, the value and the remedy, and never contains
// a private value.
struct Error {
  Code code;
  std::string message;
};

template <class... Args>
Error Fail(Code code, fmt::format_string<Args...> form, Args&&... args) {
  return Error{code, fmt::format(form, std::forward<Args>(args)...)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}        // NOLINT: implicit on purpose
  Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}    // NOLINT
  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & {
    TACIT_CHECK(ok());
    return std::get<0>(v_);
  }
  const T& operator*() const& {
    TACIT_CHECK(ok());
    return std::get<0>(v_);
  }
  T&& operator*() && {
    TACIT_CHECK(ok());
    return std::get<0>(std::move(v_));
  }
  T* operator->() {
    TACIT_CHECK(ok());
    return &std::get<0>(v_);
  }
  const T* operator->() const {
    TACIT_CHECK(ok());
    return &std::get<0>(v_);
  }
  const Error& error() const {
    TACIT_CHECK(!ok());
    return std::get<1>(v_);
  }

 private:
  std::variant<T, Error> v_;
};

struct Ok {};
using Status = Result<Ok>;

}  // namespace tacit

#define TACIT_CONCAT_(a, b) a##b
#define TACIT_CONCAT(a, b) TACIT_CONCAT_(a, b)

// TACIT_TRY(auto rows, Load(path));  — declares rows, or returns the error.
#define TACIT_TRY(declaration, ...) TACIT_TRY_(TACIT_CONCAT(tacit_try_, __LINE__), declaration, __VA_ARGS__)
#define TACIT_TRY_(tmp, declaration, ...) \
  auto tmp = (__VA_ARGS__);               \
  if (!tmp.ok()) return tmp.error();      \
  declaration = *std::move(tmp)

// TACIT_OK(Save(path));  — goes on, or returns the error.
#define TACIT_OK(...)                                                              \
  do {                                                                             \
    if (auto tacit_ok_ = (__VA_ARGS__); !tacit_ok_.ok()) return tacit_ok_.error(); \
  } while (false)
