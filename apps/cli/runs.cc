// tacit runs: what is stored of runs; listed, tagged, compared, exported and deleted.
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>

#include "cli.h"
#include "experiment/files.h"
#include "experiment/run.h"
#include "view/runs.h"
#include "view/settings.h"
#include "view/text.h"
#include "view/trace.h"

namespace tacit::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Arguments {
  std::vector<std::string> where;                          // folders, or runs
  std::string algorithm, mode, tag, state, name;           // filters; empty: all
  std::size_t limit = 0;                                   // 0: all
  std::vector<std::string> tags;
  bool remove = false, yes = false;
  std::string run, format = "csv", out;
};

constexpr const char* kStaysSpent =
    "what it spent stays spent: the cumulative ledger (`tacit ledger`) keeps the run and is not touched";

std::string Epsilon(const RunSummary& s) {
  if (s.state == RunState::kBroken) return "-";
  if (std::isnan(s.epsilon)) return "?";
  return (s.state == RunState::kRunning ? "≥ " : "") + (std::isinf(s.epsilon) ? "inf" : DigitsUp(s.epsilon));
}
std::string Metric(const RunSummary& s, const std::string& name) {
  const auto at = s.metrics.find(name);
  return at == s.metrics.end() ? "-" : Digits(at->second);
}
std::string Joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : between) + w;
  return out;
}

bool Fits(const RunSummary& s, const Arguments& a) {
  return (a.algorithm.empty() || s.algorithm == a.algorithm) && (a.mode.empty() || s.mode == a.mode) &&
         (a.state.empty() || Name(s.state) == a.state) &&
         (a.tag.empty() || std::find(s.tags.begin(), s.tags.end(), a.tag) != s.tags.end()) &&
         (a.name.empty() || ::fnmatch(a.name.c_str(), s.name.c_str(), 0) == 0);
}

Result<int> List(const Common& common, const Arguments& a) {
  TACIT_OK(common.ExpectNoSets("runs"));
  std::vector<fs::path> roots(a.where.begin(), a.where.end());
  std::error_code ec;
  if (roots.empty() && fs::is_directory("runs", ec)) roots.emplace_back("runs");
  TACIT_TRY(std::vector<RunSummary> runs, ListRuns(roots));
  const std::size_t all = runs.size();
  runs.erase(std::remove_if(runs.begin(), runs.end(), [&](const RunSummary& s) { return !Fits(s, a); }),
             runs.end());
  const std::size_t fit = runs.size();
  if (a.limit > 0 && runs.size() > a.limit) runs.resize(a.limit);
  if (common.json) {
    json list = json::array();
    for (const RunSummary& s : runs) list.push_back(ToJson(s));
    return PrintJson({{"runs", list}, {"stored", all}, {"fit", fit}});
  }
  if (all == 0) {
    fmt::print("no runs {}; `tacit train` makes one\n", roots.empty() ? "below runs/" : "there");
    return 0;
  }
  std::set<std::string> metrics;
  for (const char* m : {"accuracy", "loss", "optimality", "error"})
    for (const RunSummary& s : runs)
      if (s.metrics.contains(m)) metrics.insert(m);
  const bool tagged =
      std::any_of(runs.begin(), runs.end(), [](const RunSummary& s) { return !s.tags.empty(); });
  std::vector<std::string> header = {"run", "state", "algorithm", "mode", "data", "rounds", "ε"};
  for (const std::string& m : metrics) header.push_back(MetricLabel(m, runs));
  if (tagged) header.emplace_back("tags");
  Table table(header);
  for (std::size_t c = 0; c < 5; ++c) table.Left(c);
  if (tagged) table.Left(header.size() - 1);
  for (const RunSummary& s : runs) {
    std::vector<std::string> row = {
        Printable(s.name),
        Name(s.state),
        Printable(s.algorithm),
        Printable(s.mode),
        Printable(fs::path(s.data).filename().string()),
        s.rounds == s.planned ? Grouped(s.rounds) : Grouped(s.rounds) + "/" + Grouped(s.planned),
        Epsilon(s)};
    for (const std::string& m : metrics) row.push_back(Metric(s, m));
    if (tagged) row.push_back(Joined(s.tags, " "));
    table.Add(std::move(row));
  }
  table.Print(stdout, 0);
  if (!common.quiet)
    for (const RunSummary& s : runs)
      if (s.state == RunState::kBroken) Warn(fmt::format("{}: {}", Printable(s.name), Printable(s.problem)));
  if (fit < all || runs.size() < fit)
    fmt::print(stderr, "{} of {} runs\n", Grouped(runs.size()), Grouped(all));
  return 0;
}

Result<int> Tag(const Common& common, const Arguments& a) {
  TACIT_OK(common.ExpectNoSets("runs tag"));
  TACIT_TRY(const fs::path folder, FindRun(a.run));
  TACIT_TRY(const RunSummary s, SummaryOf(folder));
  const std::vector<std::string> none;
  TACIT_TRY(const std::vector<std::string> tags,
            ChangeTags(s.folder, a.remove ? none : a.tags, a.remove ? a.tags : none));
  if (common.json) return PrintJson({{"run", folder.string()}, {"tags", tags}});
  fmt::print("{}: {}\n", Printable(s.name), tags.empty() ? "no tags" : Joined(tags, " "));
  return 0;
}

// Whether `file` lies in the folder.
bool Within(const fs::path& file, const fs::path& folder) {
  std::error_code ec;
  const fs::path inner = fs::weakly_canonical(file, ec), outer = fs::weakly_canonical(folder, ec);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// What training, tagging, signing and auditing write into a run's folder, drafts included.
bool OfRuns(std::string name) {
  for (const char* end : {".draft", "-wal", "-shm", "-journal"})
    if (name.ends_with(end)) name.resize(name.size() - std::string_view(end).size());
  static const std::set<std::string> kNames = {"config.toml",
                                               "trace.jsonl",
                                               "result.json",
                                               "model.npy",
                                               "certificate.json",
                                               "certificate.txt",
                                               "ledger.db",
                                               "checkpoint",
                                               "tags",
                                               "tags.lock",
                                               "participation.csv",
                                               "weights.csv",
                                               "graph.txt",
                                               "certificate.json.sig",
                                               "search.json",
                                               "report.html",
                                               "audit.json"};
  return kNames.contains(name);
}

// Whoever trains in a folder holds this lock.
class HeldFolder {
 public:
  explicit HeldFolder(const fs::path& folder)
      : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)) {}
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;
  ~HeldFolder() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool Take() { return fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0; }

 private:
  int fd_;
};

// Nothing but a run that no process works on may go: no folder with other things in it, and no ledger that
// adds up the runs on a data set.
Status CheckMayGo(const fs::path& folder, const RunSummary& s) {
  if (s.state == RunState::kRunning)
    return Fail(Code::kInvalidArgument, "{}: is running; stop it first", folder.string());
  std::error_code ec;
  if (fs::is_symlink(folder, ec))
    return Fail(Code::kInvalidArgument,
                "{}: is a link to a folder; delete what it points to, or the link by hand", folder.string());
  if (s.algorithm.empty())
    return Fail(Code::kInvalidArgument, "{}: {}, so it may be no run; delete it by hand", folder.string(),
                s.problem);
  for (const auto& entry : fs::directory_iterator(folder, ec))
    if (!OfRuns(entry.path().filename().string()) || entry.is_directory(ec))
      return Fail(Code::kInvalidArgument, "{}: {} is in it, which no run writes; delete it by hand",
                  folder.string(), Printable(entry.path().filename().string()));
  if (ec) return Fail(Code::kIo, "{}: cannot be listed ({})", folder.string(), ec.message());
  const auto settings = ReadSettings(folder);
  const std::string named = settings.ok() ? PlainValue(*settings, "experiment.ledger") : "";
  for (const fs::path& ledger : {DefaultLedger(folder.parent_path()), fs::path(named)})
    if (!ledger.empty() && Within(ledger, folder))
      return Fail(Code::kInvalidArgument,
                  "{}: the cumulative ledger {} is in it; move that first, and say where with TACIT_LEDGER",
                  folder.string(), ledger.string());
  return Ok{};
}

Result<int> Delete(const Common& common, const Arguments& a) {
  TACIT_OK(common.ExpectNoSets("runs delete"));
  std::vector<fs::path> folders;
  for (const std::string& run : a.where) {
    TACIT_TRY(const fs::path folder, FindRun(run));
    TACIT_TRY(const RunSummary s, SummaryOf(folder));
    TACIT_OK(CheckMayGo(s.folder, s));
    folders.push_back(s.folder);
  }
  if (!a.yes) {
    if (common.json || !IsTerminal(stdin) || !IsTerminal(stderr))
      return Fail(Code::kInvalidArgument,
                  "{} would be deleted with its certificate; nobody can be asked here, so give --yes",
                  folders.size() == 1 ? "the run" : fmt::format("{} runs", folders.size()));
    for (const fs::path& folder : folders) fmt::print(stderr, "  {}\n", Printable(folder.string()));
    fmt::print(stderr, "Delete {} with trace, model and certificate? {}. [y/N] ",
               folders.size() == 1 ? "this run" : fmt::format("these {} runs", folders.size()), kStaysSpent);
    char answer[16] = "";
    if (std::fgets(answer, sizeof answer, stdin) == nullptr || (answer[0] != 'y' && answer[0] != 'Y')) {
      fmt::print(stderr, "nothing was deleted\n");
      return 0;
    }
  }
  json gone = json::array();
  for (const fs::path& folder : folders) {
    // Somebody may have gone on with it while we asked.
    HeldFolder held(folder);
    if (!held.Take()) return Fail(Code::kInvalidArgument, "{}: is running; stop it first", folder.string());
    TACIT_TRY(RunSummary s, SummaryOf(folder));
    s.state = RunState::kStopped;                    // the lock is ours
    TACIT_OK(CheckMayGo(folder, s));
    std::error_code ec;
    fs::remove_all(folder, ec);
    if (ec) return Fail(Code::kIo, "{}: cannot be deleted ({})", folder.string(), ec.message());
    gone.push_back(folder.string());
    if (!common.json) fmt::print("deleted {}\n", Printable(folder.string()));
  }
  if (common.json) return PrintJson({{"deleted", gone}, {"note", kStaysSpent}});
  if (!common.quiet && a.yes) fmt::print(stderr, "{}\n", kStaysSpent);
  return 0;
}

Result<int> Compare(const Common& common, const Arguments& a) {
  TACIT_OK(common.ExpectNoSets("runs compare"));
  std::vector<RunSummary> runs;
  std::vector<Settings> settings;
  for (const std::string& run : a.where) {
    TACIT_TRY(const fs::path folder, FindRun(run));
    TACIT_TRY(RunSummary s, SummaryOf(folder));
    TACIT_TRY(Settings of, ReadSettings(s.folder));
    runs.push_back(std::move(s));
    settings.push_back(std::move(of));
  }
  std::vector<std::string> keys = DifferingKeys(settings);
  if (std::any_of(runs.begin(), runs.end(), [&](const RunSummary& s) { return s.seed != runs[0].seed; }))
    keys.emplace_back("experiment.seed");
  const auto value = [&](std::size_t r, const std::string& key) {
    const auto at = settings[r].find(key);
    return at == settings[r].end() ? std::string("-") : at->second;
  };
  std::set<std::string> metrics;
  for (const RunSummary& s : runs)
    for (const auto& [name, v] : s.metrics) metrics.insert(name);
  if (common.json) {
    json list = json::array(), different = json::object();
    for (const RunSummary& s : runs) list.push_back(ToJson(s));
    for (const std::string& key : keys)
      for (std::size_t r = 0; r < runs.size(); ++r) different[key].push_back(value(r, key));
    return PrintJson({{"runs", list}, {"differences", different}});
  }
  std::vector<std::string> header = {""};
  for (const RunSummary& s : runs) header.push_back(Printable(s.name));
  Table table(header);
  table.Left(0);
  const auto row = [&](const std::string& name, const auto& cell) {
    std::vector<std::string> cells = {name};
    for (std::size_t r = 0; r < runs.size(); ++r) cells.push_back(cell(r));
    table.Add(std::move(cells));
  };
  for (const std::string& key : keys) row(key, [&](std::size_t r) { return Printable(value(r, key)); });
  row("state", [&](std::size_t r) { return std::string(Name(runs[r].state)); });
  row("rounds", [&](std::size_t r) { return Grouped(runs[r].rounds); });
  row("ε certified", [&](std::size_t r) {
    return !runs[r].certified ? "-" : std::isinf(*runs[r].certified) ? "inf" : DigitsUp(*runs[r].certified);
  });
  if (std::any_of(runs.begin(), runs.end(), [](const RunSummary& s) { return s.claimed.has_value(); }))
    row("ε claimed", [&](std::size_t r) { return runs[r].claimed ? DigitsUp(*runs[r].claimed) : "-"; });
  row("δ", [&](std::size_t r) { return Digits(runs[r].delta); });
  for (const std::string& m : metrics)
    row(Printable(MetricLabel(m, runs)), [&](std::size_t r) { return Metric(runs[r], m); });
  row("traffic", [&](std::size_t r) { return Bytes(runs[r].bytes_up + runs[r].bytes_down); });
  table.Print(stdout, 0);
  if (keys.empty() && !common.quiet) fmt::print(stderr, "the configs do not differ in what shapes a run\n");
  return 0;
}

std::string Csv(const Trace& t) {
  std::string out;
  for (std::size_t c = 0; c < t.names.size(); ++c) out += (c > 0 ? "," : "") + CsvEscaped(t.names[c]);
  out += '\n';
  for (std::size_t r = 0; r < t.rows(); ++r) {
    for (std::size_t c = 0; c < t.names.size(); ++c) {
      if (c > 0) out += ',';
      if (!std::isnan(t.columns[c][r])) fmt::format_to(std::back_inserter(out), "{}", t.columns[c][r]);
    }
    out += '\n';
  }
  return out;
}

std::string JsonLines(const Trace& t) {
  std::string out;
  for (std::size_t r = 0; r < t.rows(); ++r) {
    json line = json::object();
    for (std::size_t c = 0; c < t.names.size(); ++c)
      if (!std::isnan(t.columns[c][r])) line[t.names[c]] = Number(t.columns[c][r]);
    out += line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  }
  return out;
}

Result<int> Export(const Common& common, const Arguments& a) {
  TACIT_OK(common.ExpectNoSets("runs export"));
  TACIT_TRY(const fs::path folder, FindRun(a.run));
  TACIT_TRY(const RunSummary s, SummaryOf(folder));
  TACIT_TRY(const Trace trace, ReadTrace(s.folder));
  if (trace.rows() == 0)
    return Fail(Code::kNotFound, "{}: has no trace; only traced rounds can be exported", folder.string());
  const std::string text = a.format == "csv" ? Csv(trace) : JsonLines(trace);
  if (!a.out.empty()) TACIT_OK(WriteWhole(a.out, text));
  if (common.json) {
    json document = {{"run", ToJson(s)}, {"rows", trace.rows()}, {"columns", trace.names}};
    if (a.out.empty()) {
      json values = json::object();
      for (std::size_t c = 0; c < trace.names.size(); ++c)
        for (const double v : trace.columns[c])
          values[trace.names[c]].push_back(std::isnan(v) ? json(nullptr) : Number(v));
      document["values"] = std::move(values);
    } else {
      document["output"] = a.out;
    }
    return PrintJson(document);
  }
  if (a.out.empty())
    fmt::print("{}", text);
  else if (!common.quiet)
    fmt::print(stderr, "{} rows in {}\n", Grouped(trace.rows()), a.out);
  return 0;
}

}  // namespace

void AddRuns(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "runs", "list, tag, compare, export and delete the runs that are stored",
              "  tacit runs                                    those below runs/, the newest first\n"
              "  tacit runs --algorithm primal-dual --state stopped\n"
              "  tacit runs tag runs/demo-20260101T120000 paper best\n"
              "  tacit runs compare demo-20260101T120000 demo-20260102T120000\n"
              "  tacit runs export demo-20260101T120000 --format csv -o demo.csv\n"
              "  tacit runs delete demo-20260101T120000\n"
              "\nA run is named by its folder, or by its name below runs/.\n");
  const auto a = std::make_shared<Arguments>();
  verb->add_option("folder", a->where, "folders that hold runs; default: runs")->type_name("DIR");
  verb->add_option("--algorithm", a->algorithm, "only runs of this algorithm")->type_name("NAME");
  verb->add_option("--mode", a->mode, "only certified, or only paper")
      ->type_name("MODE")
      ->check(CLI::IsMember({"certified", "paper"}));
  verb->add_option("--tag", a->tag, "only runs with this tag")->type_name("TAG");
  verb->add_option("--state", a->state, "only running, finished, stopped or broken ones")
      ->type_name("STATE")
      ->check(CLI::IsMember({"running", "finished", "stopped", "broken"}));
  verb->add_option("--name", a->name, "only runs whose name fits, e.g. 'demo-*'")->type_name("PATTERN");
  verb->add_option("--limit", a->limit, "at most so many; default: all")->type_name("N");
  verb->require_subcommand(0, 1);

  const auto one = [a](CLI::App* to) {
    to->add_option("run", a->run, "run folder, or its name below runs/")->required()->type_name("RUN");
  };
  CLI::App* tag = AddVerb(*verb, run, "tag", "give a run words to find it by",
                          "  tacit runs tag demo-20260101T120000 paper best\n"
                          "  tacit runs tag demo-20260101T120000 best --remove\n");
  one(tag);
  tag->add_option("tag", a->tags, "letters, digits and . _ - :")->required()->type_name("TAG");
  tag->add_flag("--remove", a->remove, "take them away");

  CLI::App* compare = AddVerb(*verb, run, "compare", "what differs between runs, and what came of it",
                              "  tacit runs compare demo-20260101T120000 demo-20260102T120000\n");
  compare->add_option("run", a->where, "two runs or more")->required()->type_name("RUN")->expected(2, 1000);

  CLI::App* exported = AddVerb(*verb, run, "export", "the trace of a run as a table",
                               "  tacit runs export demo-20260101T120000 --format jsonl\n");
  one(exported);
  exported->add_option("--format", a->format, "csv or jsonl")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"csv", "jsonl"}));
  exported->add_option("--output,-o", a->out, "file; default: stdout")->type_name("FILE");

  CLI::App* gone =
      AddVerb(*verb, run, "delete", "delete runs; what they spent stays spent",
              "  tacit runs delete demo-20260101T120000\n"
              "\nThe cumulative ledger (`tacit ledger`) keeps what the run cost: what was released\n"
              "does not come back by deleting our copy of it.\n");
  gone->add_option("run", a->where, "run folders, or their names below runs/")->required()->type_name("RUN");
  gone->add_flag("--yes", a->yes, "do not ask");

  tag->callback([a, &run] { run.action = [a, &run] { return Tag(run.common, *a); }; });
  compare->callback([a, &run] { run.action = [a, &run] { return Compare(run.common, *a); }; });
  exported->callback([a, &run] { run.action = [a, &run] { return Export(run.common, *a); }; });
  gone->callback([a, &run] { run.action = [a, &run] { return Delete(run.common, *a); }; });
  verb->callback([a, &run, tag, compare, exported, gone] {
    for (const CLI::App* inner : {tag, compare, exported, gone})
      if (inner->parsed()) return;
    run.action = [a, &run] { return List(run.common, *a); };
  });
}

}  // namespace tacit::cli
