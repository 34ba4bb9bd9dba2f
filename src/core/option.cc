#include "core/option.h"

#include <algorithm>
#include <charconv>
#include <cmath>

// No parser: a fuzzer that follows its branches learns nothing of use and takes a quarter more time.
#ifdef __clang__
#define TACIT_NOT_FOLLOWED __attribute__((no_sanitize("coverage")))
#else
#define TACIT_NOT_FOLLOWED
#endif

namespace tacit {
namespace {

// Shortest text that reads back as the same double, always recognisable as a float.
std::string NumberText(double v) {
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  if (std::isnan(v)) return "nan";
  std::string s = fmt::format("{}", v);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string_view Trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

bool ParseNumber(std::string_view s, double& out) {
  if (s == "inf" || s == "+inf") return out = INFINITY, true;
  if (s == "-inf") return out = -INFINITY, true;
  if (s == "nan") return out = NAN, true;
  if (s.size() > 1 && s.front() == '+' && s[1] != '-') s.remove_prefix(1);
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), out);
  return ec == std::errc() && end == s.data() + s.size();
}

const char* TypeName(const Value& v) {
  static constexpr const char* kNames[] = {"a boolean", "a whole number",    "a number",
                                           "text",      "a list of numbers", "a list of texts"};
  return kNames[v.index()];
}

Error WrongType(const std::string& key, const Value& v, const char* wanted) {
  return Fail(Code::kInvalidArgument, "{} = {}: is {}, must be {}", key, ToText(v), TypeName(v), wanted);
}

bool AsNumber(const Value& v, double& out) {
  if (const auto* d = std::get_if<double>(&v)) return out = *d, true;
  if (const auto* i = std::get_if<std::int64_t>(&v)) return out = static_cast<double>(*i), true;
  return false;
}

}  // namespace

std::string ToText(const Value& value) {
  struct {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return NumberText(v); }
    std::string operator()(const std::string& v) const { return Quoted(v); }
    std::string operator()(const std::vector<double>& v) const {
      std::string s = "[";
      for (std::size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + NumberText(v[i]);
      return s + "]";
    }
    std::string operator()(const std::vector<std::string>& v) const {
      std::string s = "[";
      for (std::size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + Quoted(v[i]);
      return s + "]";
    }
  } print;
  return std::visit(print, value);
}

Value ParseValue(std::string_view text) {
  text = Trim(text);
  if (text == "true") return true;
  if (text == "false") return false;
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    std::vector<double> numbers;
    std::vector<std::string> texts;
    bool all_numbers = true;
    std::string_view rest = Trim(text.substr(1, text.size() - 2));
    while (!rest.empty()) {
      const std::size_t quoted = rest.front() == '"' ? rest.find('"', 1) : 0;
      const std::size_t comma = rest.find(',', quoted);        // one inside quotes does not separate
      std::string_view item = Trim(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? "" : Trim(rest.substr(comma + 1));
      double number = 0;
      if (ParseNumber(item, number))
        numbers.push_back(number);
      else
        all_numbers = false;
      if (item.size() >= 2 && item.front() == '"' && item.back() == '"')
        item = item.substr(1, item.size() - 2);
      texts.emplace_back(item);
    }
    if (all_numbers) return numbers;
    return texts;
  }
  std::int64_t whole = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (ec == std::errc() && end == text.data() + text.size() && !text.empty()) return whole;
  double number = 0;
  if (ParseNumber(text, number)) return number;
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return std::string(text);
}

bool Range::Holds(double v) const {
  return (lower_open ? v > lower : v >= lower) && (upper_open ? v < upper : v <= upper);
}

std::string Range::ToText() const {
  const bool has_lower = lower > -1.7e308, has_upper = upper < 1.7e308 && !std::isinf(upper);
  if (has_lower && has_upper)
    return fmt::format("in {}{}, {}{}", lower_open ? '(' : '[', lower, upper, upper_open ? ')' : ']');
  if (has_lower) return fmt::format("{} {}", lower_open ? "above" : "at least", lower);
  if (has_upper) return fmt::format("{} {}", upper_open ? "below" : "at most", upper);
  return std::isinf(upper) ? "a number" : "finite";
}

Option& Section::Add(const char* key, const char* type, std::string range, const char* help) {
  options_.push_back({.key = key,
                      .type = type,
                      .range = std::move(range),
                      .help = help,
                      .fallback = "",
                      .set = {},
                      .get = {}});
  return options_.back();
}

void Section::Number(const char* key, double* field, Range range, const char* help) {
  Option& o = Add(key, "number", range.ToText(), help);
  o.set = [field, range](const Value& v, const std::string& full) -> Status {
    double x = 0;
    if (!AsNumber(v, x)) return WrongType(full, v, "a number");
    if (!range.Holds(x))
      return Fail(Code::kInvalidArgument, "{} = {}: must be {}", full, NumberText(x), range.ToText());
    *field = x;
    return Ok{};
  };
  o.get = [field]() -> Value { return *field; };
  o.fallback = ToText(o.get());
}

void Section::Count(const char* key, std::size_t* field, Range range, const char* help) {
  Option& o = Add(key, "whole number", range.ToText(), help);
  o.set = [field, range](const Value& v, const std::string& full) -> Status {
    double x = 0;
    if (!AsNumber(v, x)) return WrongType(full, v, "a whole number");
    if (!(x == std::floor(x)) || !(x >= 0) || !(x < 0x1p53))
      return Fail(Code::kInvalidArgument, "{} = {}: must be a whole number, {}", full, ToText(v),
                  range.ToText());
    if (!range.Holds(x))
      return Fail(Code::kInvalidArgument, "{} = {}: must be {}", full, ToText(v), range.ToText());
    *field = static_cast<std::size_t>(x);
    return Ok{};
  };
  o.get = [field]() -> Value { return static_cast<std::int64_t>(*field); };
  o.fallback = ToText(o.get());
}

void Section::Flag(const char* key, bool* field, const char* help) {
  Option& o = Add(key, "boolean", "true or false", help);
  o.set = [field](const Value& v, const std::string& full) -> Status {
    if (!std::holds_alternative<bool>(v)) return WrongType(full, v, "true or false");
    *field = std::get<bool>(v);
    return Ok{};
  };
  o.get = [field]() -> Value { return *field; };
  o.fallback = ToText(o.get());
}

void Section::Text(const char* key, std::string* field, const char* help, bool number_too) {
  Option& o = Add(key, "text", "", help);
  o.set = [field, number_too](const Value& v, const std::string& full) -> Status {
    if (const auto* s = std::get_if<std::string>(&v)) return *field = *s, Ok{};
    if (const auto* i = std::get_if<std::int64_t>(&v); i && number_too)
      return *field = fmt::format("{}", *i), Ok{};
    return WrongType(full, v, "text, in quotes where it looks like something else");
  };
  o.get = [field]() -> Value { return *field; };
  o.fallback = ToText(o.get());
}

void Section::Numbers(const char* key, std::vector<double>* field, Range range, const char* help) {
  Option& o = Add(key, "list of numbers", "each " + range.ToText(), help);
  o.set = [field, range](const Value& v, const std::string& full) -> Status {
    const auto* list = std::get_if<std::vector<double>>(&v);
    if (list == nullptr) return WrongType(full, v, "a list of numbers");
    for (double x : *list)
      if (!range.Holds(x))
        return Fail(Code::kInvalidArgument, "{} contains {}: each must be {}", full, NumberText(x),
                    range.ToText());
    *field = *list;
    return Ok{};
  };
  o.get = [field]() -> Value { return *field; };
  o.fallback = ToText(o.get());
}

void Section::Texts(const char* key, std::vector<std::string>* field, const char* help) {
  Option& o = Add(key, "list of texts", "", help);
  o.set = [field](const Value& v, const std::string& full) -> Status {
    if (const auto* list = std::get_if<std::vector<std::string>>(&v)) return *field = *list, Ok{};
    if (const auto* empty = std::get_if<std::vector<double>>(&v); empty && empty->empty())
      return field->clear(), Ok{};
    return WrongType(full, v, "a list of texts");
  };
  o.get = [field]() -> Value { return *field; };
  o.fallback = ToText(o.get());
}

void Section::Choice(const char* key, std::string* field, std::vector<std::string> choices,
                     const char* help) {
  std::string all;
  for (const auto& c : choices) all += (all.empty() ? "" : ", ") + c;
  Option& o = Add(key, "choice", "one of " + all, help);
  o.set = [field, choices, all](const Value& v, const std::string& full) -> Status {
    const auto* s = std::get_if<std::string>(&v);
    if (s == nullptr) return WrongType(full, v, ("one of " + all).c_str());
    if (std::find(choices.begin(), choices.end(), *s) == choices.end()) {
      const std::string near = Nearest(*s, choices);
      return Fail(Code::kInvalidArgument, "{} = {}: must be one of {}{}", full, Quoted(*s), all,
                  near.empty() ? "" : fmt::format("; did you mean {}?", near));
    }
    *field = *s;
    return Ok{};
  };
  o.get = [field]() -> Value { return *field; };
  o.fallback = ToText(o.get());
}

Option* Section::Find(std::string_view key) {
  for (Option& o : options_)
    if (o.key == key) return &o;
  return nullptr;
}

Status Section::Set(std::string_view key, const Value& value) {
  const std::string full = name_ + "." + std::string(key);
  Option* option = Find(key);
  if (option == nullptr) {
    std::vector<std::string> keys;
    for (const Option& o : options_) keys.push_back(o.key);
    const std::string near = Nearest(key, keys);
    std::string all;
    for (const auto& k : keys) all += (all.empty() ? "" : ", ") + k;
    return Fail(Code::kInvalidArgument, "{}: unknown key; {}", full,
                near.empty() ? fmt::format("[{}] knows {}", name_, all)
                             : fmt::format("did you mean {}.{}?", name_, near));
  }
  TACIT_OK(option->set(value, full));
  option->given = true;
  return Ok{};
}

bool Section::given(std::string_view key) const {
  for (const Option& o : options_)
    if (o.key == key) return o.given;
  return false;
}

TACIT_NOT_FOLLOWED std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = word.size() / 3 + 2;           // further away is no help
  std::vector<std::size_t> row;
  for (const std::string& c : candidates) {
    // As many letters must be added or left out as the lengths differ by.
    const std::size_t longer = c.size() > word.size() ? c.size() - word.size() : word.size() - c.size();
    if (longer >= best_distance) continue;
    row.resize(c.size() + 1);
    for (std::size_t j = 0; j <= c.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0], least = i;
      row[0] = i;
      for (std::size_t j = 1; j <= c.size(); ++j) {
        const std::size_t up = row[j], left = row[j - 1];
        const std::size_t changed = diagonal + (word[i - 1] == c[j - 1] ? 0 : 1);
        const std::size_t missing = (up < left ? up : left) + 1;
        row[j] = changed < missing ? changed : missing;
        least = row[j] < least ? row[j] : least;
        diagonal = up;
      }
      if (least >= best_distance) break;  // it only grows
    }
    if (row[c.size()] < best_distance) best_distance = row[c.size()], best = c;
  }
  return best;
}

}  // namespace tacit
