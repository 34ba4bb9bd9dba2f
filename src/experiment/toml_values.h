#pragma once

// Shared by the readers of an experiment and of the tables beside it ([sweep], [quick], [[claim]]); not
// an interface of this folder.
#include <toml++/toml.h>

#include <string>
#include <utility>
#include <vector>

#include "core/option.h"

namespace tacit::internal {

// A boolean, number, text, or a list of numbers or of texts.
inline Result<Value> ValueOf(const toml::node& node, const std::string& key) {
  if (const auto* b = node.as_boolean()) return Value(b->get());
  if (const auto* i = node.as_integer()) return Value(i->get());
  if (const auto* d = node.as_floating_point()) return Value(d->get());
  if (const auto* s = node.as_string()) return Value(s->get());
  const toml::array* list = node.as_array();
  if (list == nullptr)
    return Fail(Code::kInvalidArgument, "{}: dates, times and nested tables are not values here", key);
  std::vector<double> numbers;
  std::vector<std::string> texts;
  for (const toml::node& item : *list) {
    if (const auto* i = item.as_integer())
      numbers.push_back(static_cast<double>(i->get()));
    else if (const auto* d = item.as_floating_point())
      numbers.push_back(d->get());
    else if (const auto* s = item.as_string())
      texts.push_back(s->get());
    else
      return Fail(Code::kInvalidArgument, "{}: a list may hold numbers or texts, nothing else", key);
  }
  if (!numbers.empty() && !texts.empty())
    return Fail(Code::kInvalidArgument, "{}: a list may not mix numbers and texts", key);
  if (!texts.empty()) return Value(texts);
  return Value(numbers);
}

// The leaves of a table by dotted key, in the order of the file: "algorithm.rounds" however it was nested.
inline void Leaves(const toml::table& table, const std::string& prefix,
                   std::vector<std::pair<std::string, const toml::node*>>& out) {
  for (const auto& [key, node] : table) {
    const std::string full = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    if (const toml::table* inner = node.as_table())
      Leaves(*inner, full, out);
    else
      out.emplace_back(full, &node);
  }
}

inline Error At(const std::string& file, const toml::node& node, const Error& e) {
  return Error{e.code, fmt::format("{}:{}: {}", file, node.source().begin.line, e.message)};
}

}  // namespace tacit::internal
