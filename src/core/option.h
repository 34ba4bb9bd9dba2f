#pragma once

// An option is declared once: name, field, range, help. Parser, range check, --help, the reference
// page and the resolved config of a run are all derived from that declaration.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/result.h"

namespace tacit {

using Value =
    std::variant<bool, std::int64_t, double, std::string, std::vector<double>, std::vector<std::string>>;
std::string ToText(const Value&);                            // as TOML writes it
// Reads what a person types after --set key=: true, 3, 1e-5, inf, [1, 2], "text", bare text.
Value ParseValue(std::string_view text);

// What a number may be. Written so that NaN never passes.
struct Range {
  double lower = -1.7976931348623157e308, upper = 1.7976931348623157e308;
  bool lower_open = false, upper_open = false;
  bool Holds(double v) const;
  std::string ToText() const;                                // "in (0, 1)", "at least 1"
};
inline constexpr Range Above(double v) { return {.lower = v, .lower_open = true}; }
inline constexpr Range AtLeast(double v) { return {.lower = v}; }
inline constexpr Range Between(double a, double b) { return {.lower = a, .upper = b}; }

struct Option {
  std::string key, type, range, help, fallback;              // fallback: the default, as text
  std::function<Status(const Value&, const std::string& full_key)> set;
  std::function<Value()> get;
  bool given = false;                                        // set by the user, not the default
};

// The options of one table of an experiment file, bound to the live fields they set.
class Section {
 public:
  Section(std::string name, std::string help) : name_(std::move(name)), help_(std::move(help)) {}
  void Number(const char* key, double* field, Range, const char* help);
  void Count(const char* key, std::size_t* field, Range, const char* help);      // whole numbers ≥ 0
  void Flag(const char* key, bool* field, const char* help);
  // number_too: a whole number is taken for its digits (columns have names or numbers).
  void Text(const char* key, std::string* field, const char* help, bool number_too = false);
  void Numbers(const char* key, std::vector<double>* field, Range, const char* help);
  void Texts(const char* key, std::vector<std::string>* field, const char* help);
  void Choice(const char* key, std::string* field, std::vector<std::string> choices, const char* help);

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::vector<Option>& options() const { return options_; }
  Option* Find(std::string_view key);
  Status Set(std::string_view key, const Value&);            // unknown key: an error with the nearest one
  bool given(std::string_view key) const;

 private:
  Option& Add(const char* key, const char* type, std::string range, const char* help);
  std::string name_, help_;
  std::vector<Option> options_;
};

// The candidate closest to word by edit distance, or "" if none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tacit
