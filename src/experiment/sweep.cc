#include "experiment/sweep.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <thread>
#include <unordered_map>

#include "core/sha256.h"
#include "experiment/toml_values.h"
#include "runtime/ranks.h"

namespace tacit {
namespace {

using nlohmann::json;

constexpr const char* kCase = "case";

// More cells than anybody waits for are a slip of the pen.
constexpr std::size_t kMostCells = 1'000'000;

Error Bad(const std::string& file, const toml::node& node, std::string message) {
  return internal::At(file, node, Error{Code::kInvalidArgument, std::move(message)});
}

Status ReadSeeds(const toml::node& node, const std::string& file, std::size_t first,
                 std::vector<std::size_t>& seeds) {
  seeds.clear();
  if (const auto* n = node.as_integer()) {
    if (n->get() < 1 || n->get() > 1'000'000)
      return Bad(file, node,
                 fmt::format("seeds = {}: must be in [1, 1000000], or a list of seeds", n->get()));
    for (std::size_t k = 0; k < static_cast<std::size_t>(n->get()); ++k) seeds.push_back(first + k);
    return Ok{};
  }
  const toml::array* list = node.as_array();
  if (list == nullptr || list->empty())
    return Bad(file, node, "seeds: must be a number of seeds or a list of them, e.g. seeds = 20");
  for (const toml::node& item : *list) {
    const auto* n = item.as_integer();
    if (n == nullptr || n->get() < 0)
      return Bad(file, item, "seeds: each must be a whole number, at least 0");
    if (std::find(seeds.begin(), seeds.end(), static_cast<std::size_t>(n->get())) != seeds.end())
      return Bad(file, item, fmt::format("seeds: {} is there twice; a seed counts once", n->get()));
    seeds.push_back(static_cast<std::size_t>(n->get()));
  }
  return Ok{};
}

// Replaces axes of the same key, keeping their place, and adds new ones.
Status ReadGrid(const toml::node& node, const std::string& file, std::vector<Axis>& axes) {
  const toml::table* grid = node.as_table();
  if (grid == nullptr)
    return Bad(file, node, "grid: must be a table of lists, e.g. algorithm.rounds = [100, 200]");
  std::vector<std::pair<std::string, const toml::node*>> leaves;
  internal::Leaves(*grid, "", leaves);
  // toml++ sorts keys; people expect the order they wrote.
  std::sort(leaves.begin(), leaves.end(), [](const auto& a, const auto& b) {
    const auto &x = a.second->source().begin, &y = b.second->source().begin;
    return x.line != y.line ? x.line < y.line : x.column < y.column;
  });
  for (const auto& [key, leaf] : leaves) {
    Axis axis{key, {}};
    if (key == "experiment.seed")
      return Bad(file, *leaf, "grid: experiment.seed is no axis; list the seeds in sweep.seeds");
    const toml::array* list = leaf->as_array();
    if (list == nullptr || list->empty())
      return Bad(file, *leaf, fmt::format("grid: {} must be a list of values, e.g. [1, 2]", key));
    for (const toml::node& item : *list) {
      auto value = internal::ValueOf(item, key);
      if (!value.ok()) return internal::At(file, item, value.error());
      Config probe;
      if (Status s = SetKey(probe, key, *value); !s.ok()) return internal::At(file, item, s.error());
      for (const Value& other : axis.values)
        if (SameValue(other, *value))
          return Bad(file, item, fmt::format("grid: {} holds {} twice", key, ToText(*value)));
      axis.values.push_back(*std::move(value));
    }
    auto same = std::find_if(axes.begin(), axes.end(), [&](const Axis& a) { return a.key == axis.key; });
    if (same != axes.end())
      *same = std::move(axis);
    else
      axes.push_back(std::move(axis));
  }
  return Ok{};
}

Status ReadCases(const toml::node& node, const std::string& file, std::vector<Case>& cases) {
  if (!node.is_array_of_tables())
    return Bad(file, node, "sweep.case: is written as [[sweep.case]], once for each");
  for (const toml::node& item : *node.as_array()) {
    Case one;
    std::vector<std::pair<std::string, const toml::node*>> leaves;
    internal::Leaves(*item.as_table(), "", leaves);
    for (const auto& [key, leaf] : leaves) {
      if (key == "name") {
        one.name = leaf->value_or(std::string());
        continue;
      }
      if (key == "seeds") {
        const auto* n = leaf->as_integer();
        if (n == nullptr || n->get() < 1)
          return Bad(file, *leaf, "sweep.case: seeds is how many of the sweep's seeds it has, at least 1");
        one.seeds = static_cast<std::size_t>(n->get());
        continue;
      }
      if (key == "experiment.seed")
        return Bad(file, *leaf, "sweep.case: experiment.seed is no axis; list the seeds in sweep.seeds");
      auto value = internal::ValueOf(*leaf, key);
      if (!value.ok()) return internal::At(file, *leaf, value.error());
      Config probe;
      if (Status s = SetKey(probe, key, *value); !s.ok()) return internal::At(file, *leaf, s.error());
      one.sets.emplace_back(key, *std::move(value));
    }
    if (one.name.empty()) return Bad(file, item, "sweep.case: needs a name, e.g. name = \"small steps\"");
    for (const Case& other : cases)
      if (other.name == one.name)
        return Bad(file, item, fmt::format("sweep.case: \"{}\" is there twice", one.name));
    cases.push_back(std::move(one));
  }
  return Ok{};
}

const Case* FindCase(const std::vector<Case>& cases, const Value& name) {
  for (const Case& c : cases)
    if (SameValue(Value(c.name), name)) return &c;
  return nullptr;
}

// results.jsonl, held by this process alone.
class ResultsFile {
 public:
  ResultsFile() = default;
  ~ResultsFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;

  Status Open(const std::filesystem::path& file, bool fresh) {
    name_ = file.string();
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);
    fd_ = ::open(name_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd_ < 0)
      return Fail(Code::kIo, "{}: cannot be opened: {}; choose another folder with --set experiment.output=…",
                  name_, std::strerror(errno));
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0)
      return Fail(Code::kIo,
                  "{}: another sweep is writing to it; wait for it, or choose another experiment.output",
                  name_);
    if (fresh && ::ftruncate(fd_, 0) != 0)
      return Fail(Code::kIo, "{}: cannot be emptied: {}", name_, std::strerror(errno));
    return Ok{};
  }

  // All whole lines, by cell id. What follows the last line end was torn by a crash and is cut off.
  Status Read(std::unordered_map<std::string, json>& lines) {
    std::string text;
    std::array<char, 1 << 16> block;
    for (off_t at = 0;;) {
      const ssize_t n = ::pread(fd_, block.data(), block.size(), at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Fail(Code::kIo, "{}: cannot be read: {}", name_, std::strerror(errno));
      if (n == 0) break;
      text.append(block.data(), static_cast<std::size_t>(n));
      at += n;
    }
    const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    if (whole < text.size() && ::ftruncate(fd_, static_cast<off_t>(whole)) != 0)
      return Fail(Code::kIo, "{}: cannot be repaired: {}", name_, std::strerror(errno));
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < whole;) {
      const std::size_t end = text.find('\n', begin);
      ++number;
      json line = json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                              text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
      if (!line.is_object() || !line.contains("id") || !line["id"].is_string() || !line.contains("result") ||
          !line["result"].is_object())
        return Fail(Code::kMalformed,
                    "{}:{}: not a result of a sweep; remove the line, or start afresh with --fresh", name_,
                    number);
      lines[line["id"].get<std::string>()] = std::move(line["result"]);
      begin = end + 1;
    }
    return Ok{};
  }

  Status Append(const json& line) {
    // a file's name need not be UTF-8
    const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0)
        return Fail(
            Code::kIo,
            "{}: cannot be written: {}; free some space and run the sweep again, it goes on from here", name_,
            std::strerror(errno));
      done += static_cast<std::size_t>(n);
    }
    if (::fdatasync(fd_) != 0)
      return Fail(Code::kIo, "{}: cannot be written: {}", name_, std::strerror(errno));
    return Ok{};
  }

 private:
  int fd_ = -1;
  std::string name_;
};

// Whether a result has all that was asked of the trace ("error@50"), which is no part of a cell's id.
bool HasTraced(const std::vector<std::string>& asked, const json& result) {
  const auto metrics = result.find("metrics");
  return std::all_of(asked.begin(), asked.end(), [&](const std::string& name) {
    return name.find('@') == name.npos || (metrics != result.end() && metrics->contains(name));
  });
}

// A number of a result; JSON has no infinity, and a text stands for it. What is null does not apply.
void Collect(const json& object, const char* key, const std::string& as,
             std::map<std::string, std::vector<double>>& out) {
  if (!object.is_object() || !object.contains(key)) return;
  const json& v = object[key];
  if (v.is_number())
    out[as].push_back(v.get<double>());
  else if (v.is_string())
    out[as].push_back(INFINITY);
}

json Number(double v) { return std::isfinite(v) ? json(v) : json("inf"); }

Summary Summarise(const std::vector<double>& values) {
  Summary s{.mean = 0, .std = 0, .count = values.size()};
  for (double v : values) s.mean += v / static_cast<double>(values.size());
  if (!std::isfinite(s.mean)) return s.mean = INFINITY, s.std = INFINITY, s;
  // Rounding is no spread, and a certified ε that all seeds share is not raised by it.
  if (std::all_of(values.begin(), values.end(), [&](double v) { return v == values.front(); }))
    return s.mean = values.front(), s;
  for (double v : values) s.std += (v - s.mean) * (v - s.mean);
  s.std = values.size() > 1 ? std::sqrt(s.std / static_cast<double>(values.size() - 1)) : 0;
  return s;
}

}  // namespace

bool SameValue(const Value& a, const Value& b) {
  const auto number = [](const Value& v, double& out) {
    if (const auto* i = std::get_if<std::int64_t>(&v)) return out = static_cast<double>(*i), true;
    if (const auto* d = std::get_if<double>(&v)) return out = *d, true;
    return false;
  };
  double x = 0, y = 0;
  if (number(a, x) && number(b, y)) return x == y;
  return a == b;
}

json ToJson(const Value& value) {
  return std::visit([](const auto& v) { return json(v); }, value);
}

Result<Sweep> LoadSweep(const std::filesystem::path& file, const std::vector<Assignment>& given, bool quick) {
  std::vector<Assignment> sets, pinned;            // keys of the config; "case"
  for (const Assignment& a : given) (a.key == kCase ? pinned : sets).push_back(a);
  // First as a plain experiment: its errors are the clearest, and the file is known to parse after it.
  TACIT_TRY(Config plain, LoadConfig(file, sets));
  toml::table root;
  try {
    root = toml::parse_file(file.string());
  } catch (const toml::parse_error& e) {
    return Fail(Code::kMalformed, "{}:{}: not valid TOML: {}", file.string(), e.source().begin.line,
                e.description());
  }
  const std::string name = file.string();

  Sweep sweep;
  const toml::node* seeds = nullptr;
  if (const toml::node* table = root.get("sweep")) {
    if (!table->is_table()) return Bad(name, *table, "sweep: must be a table with grid and seeds");
    for (const auto& [key, node] : *table->as_table()) {
      if (key.str() == "seeds") {
        seeds = &node;
      } else if (key.str() == "grid") {
        TACIT_OK(ReadGrid(node, name, sweep.axes));
      } else if (key.str() == "case") {
        TACIT_OK(ReadCases(node, name, sweep.cases));
      } else if (key.str() == "metrics") {
        auto value = internal::ValueOf(node, "sweep.metrics");
        if (!value.ok()) return internal::At(name, node, value.error());
        const auto* texts = std::get_if<std::vector<std::string>>(&*value);
        if (texts == nullptr)
          return Bad(name, node, "sweep.metrics: must be a list of texts, e.g. [\"accuracy\"]");
        sweep.metrics = *texts;
      } else {
        const std::string near = Nearest(key.str(), {"seeds", "grid", "case", "metrics"});
        return Bad(name, node,
                   fmt::format("sweep.{}: unknown key; {}", key.str(),
                               near.empty() ? "[sweep] knows seeds, grid, case, metrics"
                                            : "did you mean sweep." + near + "?"));
      }
    }
  }
  Axis named{kCase, {}};
  for (const Case& c : sweep.cases) named.values.emplace_back(c.name);
  std::vector<Assignment> overrides;
  if (const toml::node* table = root.get("quick"); table != nullptr) {
    if (!table->is_table()) return Bad(name, *table, "quick: must be a table");
    for (const auto& [key, node] : *table->as_table()) {
      if (key.str() == "seeds") {
        if (quick) seeds = &node;
      } else if (key.str() == kCase) {
        TACIT_TRY(const Value names, internal::ValueOf(node, "quick.case"));
        const auto* list = std::get_if<std::vector<std::string>>(&names);
        if (list == nullptr || list->empty())
          return Bad(name, node, "quick.case: must be a list of names of cases");
        for (const std::string& n : *list)
          if (FindCase(sweep.cases, Value(n)) == nullptr)
            return Bad(name, node, fmt::format("quick.case: there is no case \"{}\"", n));
        if (quick) named.values.assign(list->begin(), list->end());
      } else if (key.str() == "grid") {
        std::vector<Axis> unused;
        TACIT_OK(ReadGrid(node, name, quick ? sweep.axes : unused));
      } else {
        std::vector<std::pair<std::string, const toml::node*>> leaves;
        if (const toml::table* inner = node.as_table())
          internal::Leaves(*inner, std::string(key.str()), leaves);
        else
          leaves.emplace_back(std::string(key.str()), &node);
        for (const auto& [full, leaf] : leaves) {
          auto value = internal::ValueOf(*leaf, full);
          if (!value.ok()) return internal::At(name, *leaf, value.error());
          Config probe;
          if (Status s = SetKey(probe, full, *value); !s.ok()) return internal::At(name, *leaf, s.error());
          if (quick) overrides.push_back({full, ToText(*value)});
        }
      }
    }
  }
  for (const Assignment& a : pinned) {
    if (FindCase(sweep.cases, Value(a.value)) == nullptr)
      return Fail(Code::kInvalidArgument,
                  "{}: there is no case \"{}\"; its cases are named in [[sweep.case]]", name, a.value);
    named.values = {Value(a.value)};
  }
  if (!sweep.cases.empty()) sweep.axes.insert(sweep.axes.begin(), named);
  overrides.insert(overrides.end(), sets.begin(), sets.end());
  TACIT_TRY(sweep.base, LoadConfig(file, overrides));
  for (const Assignment& a : sets) {
    for (Axis& axis : sweep.axes)
      if (axis.key == a.key) axis.values = {ParseValue(a.value)};
    for (Case& c : sweep.cases) std::erase_if(c.sets, [&](const auto& set) { return set.first == a.key; });
  }

  sweep.seeds = {sweep.base.experiment.seed};
  if (seeds != nullptr) TACIT_OK(ReadSeeds(*seeds, name, sweep.base.experiment.seed, sweep.seeds));
  if (sweep.axes.empty() && sweep.seeds.size() == 1)
    return Fail(Code::kInvalidArgument,
                "{}: nothing to sweep over; add a table [sweep] with seeds = 5 and grid = {{ "
                "\"privacy.epsilon\" = [1, 2] }}",
                name);
  sweep.name = sweep.base.experiment.name.empty() ? file.stem().string() : sweep.base.experiment.name;
  sweep.folder =
      std::filesystem::path(sweep.base.experiment.output) / (quick ? sweep.name + "-quick" : sweep.name);
  return sweep;
}

std::string CellId(Config config) {
  std::string text = "tacit " TACIT_VERSION "\n";
  for (Section& s : Describe(config)) {
    if (s.name() == "runtime") continue;
    for (const Option& o : s.options()) {
      if (s.name() == "experiment" && (o.key == "name" || o.key == "output" || o.key == "reserve" ||
                                       o.key == "checkpoint" || o.key == "ledger"))
        continue;
      text += fmt::format("{}.{} = {}\n", s.name(), o.key, ToText(o.get()));
    }
  }
  return Sha256::Hex(text).substr(0, 32);
}

Result<std::vector<Cell>> Cells(const Sweep& sweep) {
  std::size_t points = 1;
  for (const Axis& axis : sweep.axes) {
    if (points > kMostCells / axis.values.size())
      points = kMostCells + 1;
    else
      points *= axis.values.size();
  }
  if (points > kMostCells / sweep.seeds.size())
    return Fail(Code::kInvalidArgument, "sweep.grid: more than {} runs; leave out some values or seeds",
                kMostCells);
  std::vector<Cell> cells;
  cells.reserve(points * sweep.seeds.size());
  for (std::size_t p = 0; p < points; ++p) {
    Cell cell{.config = sweep.base, .at = std::vector<Value>(sweep.axes.size()), .seed = 0, .id = ""};
    for (std::size_t k = sweep.axes.size(), rest = p; k-- > 0;) {
      const Axis& axis = sweep.axes[k];
      cell.at[k] = axis.values[rest % axis.values.size()];
      rest /= axis.values.size();
    }
    std::size_t seeds = sweep.seeds.size();
    for (std::size_t k = 0; k < sweep.axes.size(); ++k) {
      if (sweep.axes[k].key == kCase) {
        const Case& one = *FindCase(sweep.cases, cell.at[k]);
        if (one.seeds > 0) seeds = std::min(seeds, one.seeds);
        for (const auto& [key, value] : one.sets)
          if (Status s = SetKey(cell.config, key, value); !s.ok())
            return Error{s.error().code, "sweep.case: " + s.error().message};
      } else if (Status s = SetKey(cell.config, sweep.axes[k].key, cell.at[k]); !s.ok()) {
        return Error{s.error().code, "sweep.grid: " + s.error().message};
      }
    }
    cell.config.runtime.threads = 1;
    for (const std::size_t seed : std::span(sweep.seeds).first(seeds)) {
      cell.seed = cell.config.experiment.seed = seed;
      cell.id = CellId(cell.config);
      cells.push_back(cell);
    }
  }
  return cells;
}

// "error@50": the error in the trace after round 50, where that was traced.
static void AddTraced(const std::vector<std::string>& asked, const RunResult& run, json& metrics) {
  for (const std::string& name : asked) {
    const std::size_t at = name.find('@');
    if (at == name.npos) continue;
    for (const auto& [round, measured] : run.trace)
      if (name.substr(at + 1) == std::to_string(round))
        if (const json all = ToJson(measured); all.contains(name.substr(0, at)))
          metrics[name] = all[name.substr(0, at)];
  }
}

static json LineOf(const Sweep& sweep, const Cell& cell, json result) {
  json at = json::object();
  for (std::size_t a = 0; a < sweep.axes.size(); ++a) at[sweep.axes[a].key] = ToJson(cell.at[a]);
  return json{{"id", cell.id}, {"at", at}, {"seed", cell.seed}, {"result", std::move(result)}};
}

// The line of a cell in results.jsonl, or nothing where it was interrupted.
static Result<json> RunCell(const Sweep& sweep, const Cell& cell, const Runner& run,
                            const TrainHooks& hooks) {
  auto ran = run(cell.config, hooks);
  if (!ran.ok()) {
    std::string where;
    for (std::size_t a = 0; a < sweep.axes.size(); ++a)
      where += fmt::format("{} = {}, ", sweep.axes[a].key, ToText(cell.at[a]));
    return Error{ran.error().code, fmt::format("at {}seed {}: {}", where, cell.seed, ran.error().message)};
  }
  if (ran->interrupted) return json();
  json outcome = ToJson(*ran, cell.config);
  AddTraced(sweep.metrics, *ran, outcome["metrics"]);
  return LineOf(sweep, cell, std::move(outcome));
}

static unsigned Jobs(const SweepHooks& hooks, std::size_t most) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  unsigned jobs = hooks.jobs;
  if (jobs == 0) jobs = hooks.ranks == nullptr ? cores : std::max(1u, cores / hooks.ranks->neighbours());
  return static_cast<unsigned>(std::min<std::size_t>(jobs, most));
}

// A rank other than 0: asks for a cell whenever one of its workers is free, and sends what comes of it.
static Status AssistSweep(const Sweep& sweep, const std::vector<Cell>& cells, const SweepHooks& hooks) {
  Ranks& ranks = *hooks.ranks;
  std::mutex mutex;
  std::condition_variable ready;
  std::vector<Result<json>> done;
  std::vector<std::jthread> workers;
  const unsigned jobs = Jobs(hooks, cells.size());
  TrainHooks train;
  train.write_folder = false;
  bool over = false;
  for (unsigned running = 0; !over || running > 0;) {
    while (!over && running < jobs) {
      Parcel want;
      TACIT_OK(ranks.Send(0, Ranks::About::kStatus, want));
      TACIT_TRY(Parcel given, ranks.Receive(0, Ranks::About::kCommand));
      std::uint64_t k = 0;
      if (!given.Get(k)) return LostThread();
      over = k >= cells.size();
      if (over) break;
      ++running;
      workers.emplace_back([&, k] {
        auto line = RunCell(sweep, cells[k], hooks.run, train);
        const std::lock_guard lock(mutex);
        done.push_back(std::move(line));
        ready.notify_one();
      });
    }
    if (running == 0) break;
    std::vector<Result<json>> now;
    {
      std::unique_lock lock(mutex);
      ready.wait(lock, [&] { return !done.empty(); });
      now.swap(done);
    }
    for (const Result<json>& line : now) {
      --running;
      Parcel say;
      PutStatus(say, line.ok() ? Status(Ok{}) : Status(line.error()));
      say.Put(line.ok() ? line->dump() : std::string());
      TACIT_OK(ranks.Send(0, Ranks::About::kReply, say));
    }
  }
  Parcel bye;
  TACIT_OK(ranks.Send(0, Ranks::About::kVerdict, bye));
  TACIT_TRY([[maybe_unused]] const Parcel all,
            ranks.Receive(0, Ranks::About::kVerdict));  // nobody leaves before
  return Ok{};
}

Result<SweepResult> RunSweep(const Sweep& sweep, const SweepHooks& hooks) {
  TACIT_TRY(const std::vector<Cell> cells, Cells(sweep));
  if (hooks.ranks != nullptr) {
    Sha256 all;
    for (const Cell& cell : cells) all.Add(cell.id);
    TACIT_OK(hooks.ranks->Agree(Ok{}, all.Finish(), "is of another version, or has another sweep"));
    if (!hooks.ranks->first()) {
      TACIT_OK(AssistSweep(sweep, cells, hooks));
      return SweepResult{};
    }
  }
  SweepResult result;
  result.axes = sweep.axes;
  result.cells = cells.size();
  result.file = sweep.folder / "results.jsonl";
  ResultsFile file;
  TACIT_OK(file.Open(result.file, hooks.fresh));
  std::unordered_map<std::string, json> lines;
  TACIT_OK(file.Read(lines));

  for (const Cell& cell : cells) {
    if (hooks.made == nullptr || lines.contains(cell.id)) continue;
    const auto there = hooks.made->find(cell.id);
    if (there == hooks.made->end()) continue;
    json line = LineOf(sweep, cell, json::parse(there->second.result));
    if (!HasTraced(sweep.metrics, line["result"])) continue;
    line["from"] = there->second.file;
    TACIT_OK(file.Append(line));
    lines[cell.id] = std::move(line["result"]);
  }

  std::vector<const Cell*> todo;
  std::set<std::string> seen;
  std::size_t total_rounds = 0;
  for (const Cell& cell : cells) {
    if (lines.contains(cell.id) || !seen.insert(cell.id).second) continue;
    todo.push_back(&cell);
    total_rounds += cell.config.algorithm.rounds;
  }
  result.resumed = cells.size() - todo.size();

  const auto begin = std::chrono::steady_clock::now();
  std::mutex mutex;
  std::atomic<std::size_t> next = 0, rounds = 0;
  std::atomic<bool> stop = false;
  std::optional<Error> error;
  const auto interrupted = [&] {
    return hooks.interrupt != nullptr && hooks.interrupt->load(std::memory_order_relaxed);
  };
  const auto tell = [&] {                          // under the mutex
    if (!hooks.progress) return;
    hooks.progress(
        {.cells = cells.size(),
         .done = result.resumed + result.ran,
         .resumed = result.resumed,
         .fraction =
             total_rounds == 0 ? 1 : static_cast<double>(rounds.load()) / static_cast<double>(total_rounds),
         .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()});
  };
  // A cell's line, once it is there; false: no more cells.
  const auto keep = [&](Result<json> line) {
    const std::lock_guard lock(mutex);
    Status s = line.ok() ? Status(Ok{}) : Status(line.error());
    if (line.ok() && line->is_null()) return false;
    if (s.ok()) s = file.Append(*line);
    if (!s.ok()) {
      if (!error) error = s.error();
      stop = true;
      return false;
    }
    const std::string id = (*line)["id"];
    if (hooks.made != nullptr)
      hooks.made->insert_or_assign(id, MadeResult{(*line)["result"].dump(), result.file.string()});
    lines[id] = std::move((*line)["result"]);
    ++result.ran;
    tell();
    return true;
  };
  const auto work = [&] {
    while (!stop && !interrupted()) {
      const std::size_t k = next.fetch_add(1);
      if (k >= todo.size()) return;
      const Cell& cell = *todo[k];
      TrainHooks train;
      train.write_folder = false;
      train.interrupt = hooks.interrupt;
      std::size_t told = 0;
      train.progress = [&](const Progress& p) {
        rounds.fetch_add(p.round - told, std::memory_order_relaxed);
        told = p.round;
        if (std::unique_lock lock(mutex, std::try_to_lock); lock) tell();
      };
      auto line = RunCell(sweep, cell, hooks.run, train);
      if (line.ok() && !line->is_null())
        rounds.fetch_add(cell.config.algorithm.rounds - std::min(told, cell.config.algorithm.rounds));
      if (!keep(std::move(line))) return;
    }
  };
  // Rank 0: hands cells to the others until none is left, and keeps what they send.
  const auto share = [&]() -> Status {
    for (std::uint32_t left = hooks.ranks->size() - 1; left > 0;) {
      TACIT_TRY(Ranks::Message m, hooks.ranks->ReceiveAny());
      if (m.about == Ranks::About::kVerdict) {
        --left;
      } else if (m.about == Ranks::About::kStatus) {
        const std::size_t k = stop || interrupted() ? todo.size() : next.fetch_add(1);
        Parcel give;
        const std::size_t cell =
            k < todo.size() ? static_cast<std::size_t>(todo[k] - cells.data()) : cells.size();
        give.Put(static_cast<std::uint64_t>(cell));
        TACIT_OK(hooks.ranks->Send(m.from, Ranks::About::kCommand, give));
      } else {
        Status theirs = Ok{};
        std::string text;
        if (!GetStatus(m.parcel, theirs) || !m.parcel.Get(text)) return LostThread();
        json line = json::parse(text, nullptr, false);
        if (theirs.ok() && line.is_object())
          for (const Cell* cell : todo)
            if (line.value("id", "") == cell->id) rounds.fetch_add(cell->config.algorithm.rounds);
        keep(theirs.ok() ? Result<json>(std::move(line)) : Result<json>(theirs.error()));
      }
    }
    Parcel bye;
    for (std::uint32_t r = 1; r < hooks.ranks->size(); ++r)
      TACIT_OK(hooks.ranks->Send(r, Ranks::About::kVerdict, bye));
    return Ok{};
  };
  Status shared = Ok{};
  {
    const bool alone = hooks.ranks == nullptr;
    std::vector<std::thread> workers;
    for (unsigned j = alone ? 1 : 0; j < Jobs(hooks, todo.size()); ++j) workers.emplace_back(work);
    if (alone)
      work();
    else
      shared = share();
    if (!shared.ok()) stop = true;
    for (std::thread& w : workers) w.join();
  }
  if (!shared.ok()) return shared.error();
  if (error) return *error;
  result.interrupted = interrupted();

  for (std::size_t c = 0; c < cells.size();) {
    GridPoint point{.at = cells[c].at, .seeds = 0, .metrics = {}};
    std::map<std::string, std::vector<double>> values;
    const std::size_t first = c;  // seeds follow each other, the first first
    for (; c == first || (c < cells.size() && cells[c].seed != sweep.seeds.front()); ++c) {
      const auto line = lines.find(cells[c].id);
      if (line == lines.end()) continue;
      ++point.seeds;
      const json& r = line->second;
      if (r.contains("metrics") && r["metrics"].is_object())
        for (const auto& [key, unused] : r["metrics"].items())
          Collect(r["metrics"], key.c_str(), key, values);
      if (r.contains("privacy"))
        for (const char* key : {"certified_epsilon", "claimed_epsilon"})
          Collect(r["privacy"], key, key, values);
      for (const char* key : {"seconds", "bytes_up", "bytes_down"}) Collect(r, key, key, values);
    }
    for (const auto& [key, list] : values) point.metrics[key] = Summarise(list);
    if (point.seeds > 0) result.points.push_back(std::move(point));
  }
  return result;
}

json ToJson(const SweepResult& r) {
  json points = json::array();
  for (const GridPoint& p : r.points) {
    json at = json::object(), metrics = json::object();
    for (std::size_t a = 0; a < r.axes.size(); ++a) at[r.axes[a].key] = ToJson(p.at[a]);
    for (const auto& [key, s] : p.metrics)
      metrics[key] = {{"mean", Number(s.mean)}, {"std", Number(s.std)}, {"count", s.count}};
    points.push_back({{"at", at}, {"seeds", p.seeds}, {"metrics", metrics}});
  }
  return {{"cells", r.cells},           {"ran", r.ran},
          {"resumed", r.resumed},       {"interrupted", r.interrupted},
          {"results", r.file.string()}, {"points", points}};
}

}  // namespace tacit
