#include "view/settings.h"

#include <algorithm>
#include <set>

#include "view/run_file.h"

namespace tacit {
namespace {

std::string_view Trimmed(std::string_view s) {
  const auto from = s.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return {};
  return s.substr(from, s.find_last_not_of(" \t\r") - from + 1);
}

bool Shapes(std::string_view key) {
  static constexpr std::string_view kNot[] = {
      "experiment.name",   "experiment.output",     "experiment.seed", "experiment.reserve",
      "experiment.ledger", "experiment.checkpoint", "data.scratch",    "experiment.trace_every"};
  return !key.starts_with("runtime.") && std::find(std::begin(kNot), std::end(kNot), key) == std::end(kNot);
}

}  // namespace

Settings ParseSettings(std::string_view toml) {
  Settings all;
  std::string table;
  while (!toml.empty()) {
    const auto end = toml.find('\n');
    const std::string_view line = Trimmed(toml.substr(0, end));
    toml = end == std::string_view::npos ? std::string_view() : toml.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[') {
      if (line.back() == ']') table = std::string(Trimmed(line.substr(1, line.size() - 2))) + ".";
      continue;
    }
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    all.insert_or_assign(table + std::string(Trimmed(line.substr(0, equals))),
                         std::string(Trimmed(line.substr(equals + 1))));
  }
  return all;
}

Result<Settings> ReadSettings(const std::filesystem::path& folder) {
  constexpr std::size_t kLargest = std::size_t{1} << 24;
  TACIT_TRY(const std::string text, ReadRunFile(folder, "config.toml", kLargest));
  return ParseSettings(text);
}

std::string PlainValue(const Settings& settings, std::string_view key) {
  const auto at = settings.find(key);
  if (at == settings.end()) return "";
  const std::string& value = at->second;
  if (value.size() < 2 || (value.front() != '"' && value.front() != '\'') || value.back() != value.front())
    return value;
  std::string out;
  for (std::size_t i = 1; i + 1 < value.size(); ++i) {
    if (value[i] == '\\' && value.front() == '"' && i + 2 < value.size()) ++i;
    out += value[i];
  }
  return out;
}

std::vector<std::string> DifferingKeys(const std::vector<Settings>& runs) {
  std::set<std::string> keys;
  for (const Settings& one : runs)
    for (const auto& [key, value] : one) keys.insert(key);
  std::vector<std::string> out;
  const auto value = [](const Settings& of, const std::string& key) -> std::string_view {
    const auto at = of.find(key);
    return at == of.end() ? std::string_view() : std::string_view(at->second);
  };
  for (const std::string& key : keys)
    if (Shapes(key) && std::any_of(runs.begin(), runs.end(), [&](const Settings& one) {
          return value(one, key) != value(runs.front(), key);
        }))
      out.push_back(key);
  return out;
}

bool SameButSeed(const Settings& a, const Settings& b) { return DifferingKeys({a, b}).empty(); }

}  // namespace tacit
