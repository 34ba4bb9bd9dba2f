#include "view/runs.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "experiment/json_number.h"
#include "view/run_file.h"
#include "view/settings.h"
#include "view/trace.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kLargestResult = std::size_t{1} << 24;
constexpr std::size_t kLargestTags = std::size_t{1} << 16, kMostTags = 1000;
constexpr double kTagsWait = 10;  // seconds

// Who trains holds an exclusive flock on the run's folder. It is looked up in the kernel's list rather than
// tried: a lock taken to see whether it is free could make `tacit resume` fail in that instant. Devices are
// not compared: some file systems report another one there than to stat.
class Locks {
 public:
  Locks() {
    std::ifstream in("/proc/locks");
    known_ = in.good();
    // 1: FLOCK  ADVISORY  WRITE 4242 00:2f:131090 0 EOF
    for (std::string line; std::getline(in, line);) {
      if (line.find("FLOCK") == std::string::npos || line.find("WRITE") == std::string::npos) continue;
      const auto last = line.rfind(':');
      if (last != std::string::npos) inodes_.insert(std::strtoull(line.c_str() + last + 1, nullptr, 10));
    }
  }
  bool Held(const fs::path& folder) const {
    struct stat s{};
    if (known_) return ::stat(folder.c_str(), &s) == 0 && inodes_.count(s.st_ino) > 0;
    // Elsewhere: a trace that has just grown is being written.
    std::error_code ec;
    const auto written = fs::last_write_time(folder / "trace.jsonl", ec);
    return !ec && fs::file_time_type::clock::now() - written < std::chrono::seconds(30);
  }

 private:
  bool known_ = false;
  std::set<unsigned long long> inodes_;
};

bool Digits(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// From the name, which ends in -20260102T030405 or -20260102T030405-2; else the age of the config.
std::string Started(const fs::path& folder, const std::string& name) {
  for (auto at = name.rfind('T'); at != std::string::npos && at > 0; at = name.rfind('T', at - 1)) {
    if (at < 8 || at + 7 > name.size()) continue;
    const std::string_view day(name.data() + at - 8, 8), time(name.data() + at + 1, 6);
    if (!Digits(day) || !Digits(time)) continue;
    return fmt::format("{}-{}-{}T{}:{}:{}Z", day.substr(0, 4), day.substr(4, 2), day.substr(6, 2),
                       time.substr(0, 2), time.substr(2, 2), time.substr(4, 2));
  }
  struct stat s{};
  if (::lstat((folder / "config.toml").c_str(), &s) != 0) return "";
  std::tm utc{};
  gmtime_r(&s.st_mtime, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::uint64_t Whole(const json& j, const char* key) {
  const auto at = j.find(key);
  return at != j.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}
std::string Text(const json& j, const char* key, std::string otherwise) {
  const auto at = j.find(key);
  return at != j.end() && at->is_string() ? at->get<std::string>() : std::move(otherwise);
}
std::optional<double> Figure(const json& j, const char* key) {
  const auto at = j.find(key);
  return at != j.end() ? NumberOf(*at) : std::nullopt;
}

void FromResult(const json& result, RunSummary& s) {
  s.algorithm = Text(result, "algorithm", s.algorithm);
  s.mode = Text(result, "mode", s.mode);
  s.rounds = Whole(result, "rounds");
  const std::uint64_t planned = Whole(result, "rounds_planned"), skipped = Whole(result, "rounds_skipped");
  s.planned = std::max(planned - std::min(planned, skipped), s.rounds);
  s.bytes_up = Whole(result, "bytes_up");
  s.bytes_down = Whole(result, "bytes_down");
  s.seconds = Figure(result, "seconds");
  if (const auto metrics = result.find("metrics"); metrics != result.end() && metrics->is_object())
    for (const auto& [key, value] : metrics->items())
      if (const auto number = NumberOf(value)) s.metrics[key] = *number;
  if (const auto privacy = result.find("privacy"); privacy != result.end() && privacy->is_object()) {
    s.unit = Text(*privacy, "unit", s.unit);
    s.certified = Figure(*privacy, "certified_epsilon");
    s.claimed = Figure(*privacy, "claimed_epsilon");
    if (const auto named = privacy->find("oracle"); named != privacy->end() && named->is_array())
      for (const json& metric : *named)
        if (metric.is_string()) s.oracle.insert(metric.get<std::string>());
    if (const auto delta = Figure(*privacy, "delta")) s.delta = *delta;
  }
  // A result that does not say is not taken for a private one.
  s.epsilon = s.certified.value_or(HUGE_VAL);
}

void FromTrace(const Trace& last, RunSummary& s) {
  static const std::set<std::string> kOther = {"round",      "epsilon",  "sigma", "bytes_up",
                                               "bytes_down", "answered", "clip"};
  const auto of = [&](const char* name) {
    const auto* column = last.column(name);
    return column == nullptr ? NAN : column->back();
  };
  const auto whole = [&](const char* name) {
    const double v = of(name);
    return v >= 0 && v < 1.8e19 ? static_cast<std::uint64_t>(v) : 0;
  };
  s.metrics.clear();
  s.rounds = whole("round");
  s.bytes_up = whole("bytes_up");
  s.bytes_down = whole("bytes_down");
  s.epsilon = std::isnan(of("epsilon")) ? HUGE_VAL : of("epsilon");
  for (std::size_t c = 0; c < last.names.size(); ++c)
    if (kOther.count(last.names[c]) == 0 && last.names[c].find('.') == std::string::npos &&
        !std::isnan(last.columns[c].back()))
      s.metrics[last.names[c]] = last.columns[c].back();
}

// Before a result names them: what an oracle may have measured, if the config has one.
std::set<std::string> OracleMetrics(const Settings& settings) {
  if (PlainValue(settings, "experiment.oracle") != "true") return {};
  std::set<std::string> names = {"train_loss", "train_accuracy", "optimality", "consensus", "error"};
  if (PlainValue(settings, "data.test").empty()) names.insert({"loss", "accuracy"});
  return names;
}

RunSummary Broken(RunSummary s, std::string problem) {
  s.state = RunState::kBroken;
  s.problem = std::move(problem);
  return s;
}

Result<std::set<std::string>> ReadTags(const fs::path& folder) {
  std::set<std::string> tags;
  auto text = ReadRunFile(folder, "tags", kLargestTags);
  if (!text.ok() && text.error().code == Code::kNotFound) return tags;
  if (!text.ok()) return text.error();
  std::istringstream in(*std::move(text));
  for (std::string line; tags.size() < kMostTags && std::getline(in, line);)
    if (auto tag = CheckedTag(line); tag.ok()) tags.insert(*std::move(tag));
  return tags;
}

RunSummary Summarise(const fs::path& folder, const Locks& locks) {
  RunSummary s;
  s.folder = folder;
  s.name = folder.filename().string();
  s.started = Started(folder, s.name);
  if (const auto tags = ReadTags(folder); tags.ok()) s.tags.assign(tags->begin(), tags->end());
  const auto settings = ReadSettings(folder);
  if (!settings.ok()) return Broken(std::move(s), settings.error().message);
  s.algorithm = PlainValue(*settings, "algorithm.name");
  s.mode = PlainValue(*settings, "algorithm.mode");
  s.unit = PlainValue(*settings, "privacy.unit");
  s.data = PlainValue(*settings, "data.id");
  if (s.data.empty()) s.data = PlainValue(*settings, "data.source");
  const auto number = [&](const char* key) {
    return std::strtod(PlainValue(*settings, key).c_str(), nullptr);
  };
  s.budget = number("privacy.epsilon");
  s.delta = number("privacy.delta");
  s.seed = std::strtoull(PlainValue(*settings, "experiment.seed").c_str(), nullptr, 10);
  s.planned = std::strtoull(PlainValue(*settings, "algorithm.rounds").c_str(), nullptr, 10);
  if (s.algorithm.empty()) return Broken(std::move(s), "config.toml names no algorithm");

  bool whole = false;
  const auto text = ReadRunFile(folder, "result.json", kLargestResult);
  if (!text.ok() && text.error().code != Code::kNotFound) return Broken(std::move(s), text.error().message);
  if (text.ok()) {
    const json result = json::parse(*text, nullptr, false);
    if (!result.is_object()) return Broken(std::move(s), "result.json is not valid JSON");
    FromResult(result, s);
    const auto interrupted = result.find("interrupted");
    whole = interrupted != result.end() && interrupted->is_boolean() && !interrupted->get<bool>();
  }
  if (whole) {
    s.state = RunState::kFinished;
    return s;
  }
  s.state = locks.Held(folder) ? RunState::kRunning : RunState::kStopped;
  const auto last = ReadLastOfTrace(folder);
  if (!last.ok()) return Broken(std::move(s), last.error().message);
  const auto* round = last->column("round");
  // A result is of the last orderly stop; the run may have gone on since.
  const bool beyond = round != nullptr && !round->empty() && round->back() > static_cast<double>(s.rounds);
  if (s.certified && s.state == RunState::kStopped && !beyond) return s;
  s.certified = s.claimed = s.seconds = std::nullopt;
  s.epsilon = NAN;
  if (beyond || s.state == RunState::kRunning) {
    if (round != nullptr && !round->empty()) FromTrace(*last, s);
  }
  for (const std::string& metric : OracleMetrics(*settings)) s.oracle.insert(metric);
  if (s.state == RunState::kStopped) {  // killed: rounds may have left after the last traced one
    if (PlainValue(*settings, "privacy.mechanism") == "expose")
      s.epsilon = HUGE_VAL;
    else if (s.mode == "certified" && s.budget > 0)
      s.epsilon = std::isnan(s.epsilon) ? s.budget : std::max(s.budget, s.epsilon);
    else if (!std::isinf(s.epsilon))
      s.epsilon = NAN;
  }
  return s;
}

bool IsRun(const fs::path& folder) {
  return HasRunFile(folder, "config.toml") || HasRunFile(folder, "result.json");
}

}  // namespace

const char* Name(RunState state) {
  switch (state) {
    case RunState::kRunning: return "running";
    case RunState::kFinished: return "finished";
    case RunState::kStopped: return "stopped";
    case RunState::kBroken: return "broken";
  }
  return "?";
}

Result<std::vector<RunSummary>> ListRuns(const std::vector<fs::path>& roots) {
  const Locks locks;
  std::vector<RunSummary> runs;
  for (const fs::path& root : roots) {
    std::error_code ec;
    if (!fs::is_directory(root, ec))
      return Fail(Code::kNotFound, "{}: no such folder; give one that holds runs", root.string());
    if (const fs::path folder = ResolvedFolder(root); IsRun(folder)) {
      runs.push_back(Summarise(folder, locks));
      continue;
    }
    for (fs::directory_iterator at(root, ec), end; !ec && at != end; at.increment(ec)) {
      std::error_code ignored;
      if (!at->is_symlink(ignored) && at->is_directory(ignored) && IsRun(at->path()))
        runs.push_back(Summarise(at->path(), locks));
    }
    if (ec) return Fail(Code::kIo, "{}: cannot be listed ({})", root.string(), ec.message());
  }
  std::sort(runs.begin(), runs.end(), [](const RunSummary& a, const RunSummary& b) {
    return a.started != b.started ? a.started > b.started : a.folder > b.folder;
  });
  return runs;
}

Result<RunSummary> SummaryOf(const fs::path& named) {
  const fs::path folder = ResolvedFolder(named);
  if (!IsRun(folder))
    return Fail(Code::kNotFound, "{}: no run is in this folder; give one that `tacit train` wrote",
                named.string());
  return Summarise(folder, Locks());
}

json ToJson(const RunSummary& s) {
  json metrics = json::object();
  for (const auto& [name, value] : s.metrics) metrics[name] = Number(value);
  return {{"folder", s.folder.string()},
          {"name", s.name},
          {"algorithm", s.algorithm},
          {"mode", s.mode},
          {"data", s.data},
          {"unit", s.unit},
          {"state", Name(s.state)},
          {"problem", s.problem.empty() ? json(nullptr) : json(s.problem)},
          {"rounds", s.rounds},
          {"rounds_planned", s.planned},
          {"epsilon", std::isnan(s.epsilon) ? json(nullptr) : Number(s.epsilon)},
          {"certified_epsilon", Number(s.certified)},
          {"claimed_epsilon", Number(s.claimed)},
          {"budget_epsilon", Number(s.budget)},
          {"delta", Number(s.delta)},
          {"bytes_up", s.bytes_up},
          {"bytes_down", s.bytes_down},
          {"metrics", metrics},
          {"oracle", s.oracle},
          {"started", s.started},
          {"seconds", Number(s.seconds)},
          {"tags", s.tags},
          {"seed", s.seed}};
}

std::string MetricLabel(const std::string& metric, const std::vector<RunSummary>& runs) {
  const bool oracle =
      std::any_of(runs.begin(), runs.end(), [&](const RunSummary& s) { return s.oracle.contains(metric); });
  return oracle ? metric + " (oracle)" : metric;
}

Result<std::string> CheckedTag(const std::string& tag) {
  const bool good = !tag.empty() && tag.size() <= 64 && std::all_of(tag.begin(), tag.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("._-:").find(c) != std::string_view::npos;
  });
  if (good) return tag;
  return Fail(Code::kInvalidArgument,
              "a tag has 1 to 64 letters, digits and . _ - : only; this one has {} characters", tag.size());
}

Result<std::vector<std::string>> ChangeTags(const fs::path& named, const std::vector<std::string>& add,
                                            const std::vector<std::string>& remove) {
  for (const auto& given : {add, remove})
    for (const std::string& tag : given) TACIT_OK(CheckedTag(tag));
  const fs::path folder = ResolvedFolder(named);
  // Of its own, as who trains holds the folder's. It stays there: whoever waits for it holds it open.
  TACIT_TRY(const RunLock lock, RunLock::Take(folder, "tags.lock", kTagsWait));
  TACIT_TRY(std::set<std::string> tags, ReadTags(folder));
  tags.insert(add.begin(), add.end());
  for (const std::string& tag : remove) tags.erase(tag);
  if (tags.size() > kMostTags)
    return Fail(Code::kInvalidArgument, "{}: would have {} tags; a run has at most {}", folder.string(),
                tags.size(), kMostTags);
  std::string text;
  for (const std::string& tag : tags) text += tag + "\n";
  TACIT_OK(WriteRunFile(folder, "tags", text));
  return std::vector<std::string>(tags.begin(), tags.end());
}

}  // namespace tacit
