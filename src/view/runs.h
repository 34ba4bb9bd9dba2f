#pragma once

// What is stored of runs. Reads only what may be released (config, trace, result, certificate), never data,
// models or checkpoints, and takes no lock, so that looking at a run cannot disturb it.
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/result.h"

namespace tacit {

enum class RunState {
  kRunning,   // a process works on it
  kFinished,  // all rounds, with a certificate
  kStopped,   // interrupted, killed or out of budget; `tacit resume` goes on with it
  kBroken,    // its files cannot be understood
};
const char* Name(RunState);  // "running", "finished", "stopped", "broken"

struct RunSummary {
  std::filesystem::path folder;
  std::string name;  // of the folder
  std::string algorithm, mode, data, unit;
  RunState state = RunState::kBroken;
  std::string problem;  // of a broken one, in a sentence
  std::uint64_t rounds = 0,
                planned = 0;  // made and to be made; without those a plan skips, once it has ended
  // Of a run that has ended: what was spent, never below it. Of one that was killed: its whole budget, which
  // is what it may have spent; NaN (unknown) where the config has none. While it runs: up to the last traced
  // round, NaN before there is one. ∞: not private.
  double epsilon = 0;
  std::optional<double> certified, claimed;  // of the result; none before the run has ended
  double budget = 0, delta = 0;  // as the config asks
  std::uint64_t bytes_up = 0, bytes_down = 0;
  std::map<std::string, double> metrics;  // the final ones, or of the last traced round
  std::set<std::string> oracle;  // metrics that were read off private data in a simulation: no ε covers them
  std::string started;  // 2026-01-02T03:04:05Z
  std::optional<double> seconds;  // of training; none where it may not be told, or not ended
  std::vector<std::string> tags;  // sorted
  std::uint64_t seed = 0;
};

// The runs in the given folders, newest first. A folder is a run (it has a config.toml) or has runs directly
// in it; anything else in it is passed over, links too: what one leads to is shown if it is named itself, and
// no file of a run is read through a link. A run that cannot be understood is listed as broken. An error only
// if a given folder is not there. Costs a small file or two per run: 1,000 runs take well under 200 ms.
Result<std::vector<RunSummary>> ListRuns(const std::vector<std::filesystem::path>& roots);
Result<RunSummary> SummaryOf(const std::filesystem::path& folder);

// "optimality (oracle)" where a run has it from an oracle, else the metric's name.
std::string MetricLabel(const std::string& metric, const std::vector<RunSummary>&);

// Infinities are the text "inf", what is unknown null.
nlohmann::json ToJson(const RunSummary&);

// Tags are words of letters, digits and . _ - :, kept in the file tags beside the run, which no certificate
// covers: at most 1,000. Gives those there are then. Processes that change them at once take turns.
Result<std::vector<std::string>> ChangeTags(const std::filesystem::path& folder,
                                            const std::vector<std::string>& add,
                                            const std::vector<std::string>& remove);
Result<std::string> CheckedTag(const std::string&);

}  // namespace tacit
