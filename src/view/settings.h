#pragma once

// The resolved config of a run as a flat list, and what differs between runs.
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tacit {

// "privacy.epsilon" → "2.0", the value as TOML writes it.
using Settings = std::map<std::string, std::string, std::less<>>;

// Of config.toml as `tacit train` writes it: a table or a key per line. Lines of another form are passed
// over: this is for looking at runs, not for running them.
Settings ParseSettings(std::string_view toml);
Result<Settings> ReadSettings(const std::filesystem::path& folder);
// The value without the quotes of a text; empty if the key is not there.
std::string PlainValue(const Settings&, std::string_view key);

// Keys whose values are not the same in all, sorted; a key that one of them lacks counts as empty. What
// changes no result (runtime.*, where and under which name a run is kept) and the seed are left out.
std::vector<std::string> DifferingKeys(const std::vector<Settings>&);
// Whether two runs are the same experiment with, perhaps, another seed.
bool SameButSeed(const Settings&, const Settings&);

}  // namespace tacit
