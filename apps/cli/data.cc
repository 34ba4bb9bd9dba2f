// tacit data: the data sets that are known by name.
#include <cstdlib>
#include <memory>

#include "cli.h"
#include "data/catalogue.h"

namespace tacit::cli {
namespace {

const char* Name(Task task) {
  switch (task) {
    case Task::kBinary: return "binary";
    case Task::kMulticlass: return "classes";
    case Task::kRegression: return "regression";
  }
  return "?";
}

const char* Name(Format format) {
  switch (format) {
    case Format::kAuto: return "auto";
    case Format::kLibsvm: return "LIBSVM";
    case Format::kCsv: return "CSV";
    case Format::kIdx: return "IDX";
    case Format::kCifar: return "CIFAR";
    case Format::kNpy:
    case Format::kNpz: return "NumPy";
  }
  return "?";
}

bool Here(const KnownSet& set) {
  return LoadOptionsFor(set, Part::kTrain).ok() &&
         (set.test_rows == 0 || LoadOptionsFor(set, Part::kTest).ok());
}

Result<const KnownSet*> Find(const std::string& name) {
  if (const KnownSet* set = FindSet(name)) return set;
  std::vector<std::string> names;
  for (const KnownSet& set : Catalogue()) names.push_back(set.name);
  const std::string near = Nearest(name, names);
  return Fail(Code::kNotFound, "{}: no such data set; {}", name,
              near.empty() ? "`tacit data list` names them, and a file of your own needs no name"
                           : fmt::format("did you mean {}?", near));
}

nlohmann::json Json(const KnownSet& s) {
  nlohmann::json files = nlohmann::json::array();
  for (const auto* part : {&s.train, &s.test})
    for (const KnownFile& f : *part)
      files.push_back({{"path", f.path}, {"bytes", f.bytes}, {"sha256", f.sha256}, {"urls", f.urls}});
  return {{"name", s.name},           {"task", Name(s.task)},   {"format", Name(s.format)}, {"rows", s.rows},
          {"test_rows", s.test_rows}, {"features", s.features}, {"classes", s.classes},     {"here", Here(s)},
          {"citation", s.citation},   {"licence", s.licence},   {"note", s.note},           {"files", files}};
}

Result<int> List(const Common& common) {
  TACIT_OK(common.ExpectNoSets("data"));
  if (common.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const KnownSet& s : Catalogue()) all.push_back(Json(s));
    return PrintJson({{"sets", all}});
  }
  Table table({"name", "rows", "test rows", "features", "task", "here"});
  table.Left(0);
  table.Left(4);
  table.Left(5);
  for (const KnownSet& s : Catalogue())
    table.Add({s.name, Grouped(s.rows), s.test_rows == 0 ? "-" : Grouped(s.test_rows), Grouped(s.features),
               s.task == Task::kMulticlass ? fmt::format("{} classes", s.classes) : Name(s.task),
               Here(s) ? "yes" : "no"});
  table.Print(stdout, 0);
  if (!common.quiet) {
    const char* dir = std::getenv("TACIT_DATA");
    if (dir == nullptr)
      fmt::print(stderr,
                 "TACIT_DATA is not set: it names the folder that holds data sets; `tacit data fetch NAME` "
                 "fills it\n");
    else
      fmt::print(stderr, "looked in TACIT_DATA = {}\n", dir);
  }
  return 0;
}

Result<int> Info(const Common& common, const std::string& name) {
  TACIT_OK(common.ExpectNoSets("data"));
  TACIT_TRY(const KnownSet* const s, Find(name));
  if (common.json) return PrintJson(Json(*s));
  const auto line = [](const char* key, const std::string& text) {
    if (!text.empty()) fmt::print("  {:<10} {}\n", key, Wrapped(text, 13));
  };
  fmt::print("{}\n", Styled(stdout, Style::kBold, s->name));
  line("rows", s->test_rows == 0
                   ? Grouped(s->rows)
                   : fmt::format("{}, and {} to test on", Grouped(s->rows), Grouped(s->test_rows)));
  line("features", Grouped(s->features));
  line("task", s->task == Task::kMulticlass ? fmt::format("{} classes", s->classes) : Name(s->task));
  line("format", Name(s->format));
  line("citation", s->citation);
  line("licence", s->licence);
  line("note", s->note);
  for (const auto* part : {&s->train, &s->test})
    for (const KnownFile& f : *part) {
      const auto at = FindData(f.path);
      line("file", fmt::format("{} ({} unpacked): {}", f.path, Bytes(f.bytes),
                               at.ok() ? "here, " + at->string() : "not in TACIT_DATA"));
    }
  const auto found = LoadOptionsFor(*s, Part::kTrain);
  line("found", found.ok() ? found->file.string() : found.error().message);
  return 0;
}

Result<int> FetchSet(const Common& common, const std::string& name) {
  TACIT_OK(common.ExpectNoSets("data"));
  TACIT_TRY(const KnownSet* const s, Find(name));
  const char* dir = std::getenv("TACIT_DATA");
  if (dir == nullptr || *dir == '\0')
    return Fail(
        Code::kInvalidArgument,
        "TACIT_DATA is not set: name the folder for data sets, e.g. export TACIT_DATA=$HOME/tacit-data");
  ProgressBar bar(common.quiet ? ProgressBar::Kind::kNone : ProgressBar::Kind::kFull);
  const std::atomic<bool>& interrupt = InterruptFlag();
  const auto begin = std::chrono::steady_clock::now();
  auto done = Fetch(*s, dir, [&](std::string_view file, std::uint64_t got, std::uint64_t expected) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (bar.due() && expected > 0)
      bar.Update(static_cast<double>(got) / static_cast<double>(expected), seconds,
                 fmt::format("{}, {}", file, Bytes(got)));
    return !interrupt.load();
  });
  bar.Clear();
  if (interrupt.load()) return Fail(Code::kInterrupted, "{}: interrupted; nothing unfinished was kept", name);
  if (!done.ok()) return done.error();
  if (common.json) return PrintJson({{"name", s->name}, {"folder", dir}, {"message", *done}});
  fmt::print("{}\n", *done);
  return 0;
}

}  // namespace

void AddData(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(app, run, "data", "list, describe or fetch the data sets known by name", "");
  verb->require_subcommand(1);
  CLI::App* list =
      AddVerb(*verb, run, "list", "the data sets, and which of them are here", "  tacit data list\n");
  list->callback([&run] { run.action = [&run] { return List(run.common); }; });
  CLI::App* info = AddVerb(*verb, run, "info", "what is known of one data set", "  tacit data info a6a\n");
  CLI::App* fetch = AddVerb(*verb, run, "fetch", "download a data set into TACIT_DATA and check it",
                            "  TACIT_DATA=~/data tacit data fetch a9a\n");
  auto name = std::make_shared<std::string>();
  for (CLI::App* sub : {info, fetch})
    sub->add_option("name", *name, "data set")->required()->type_name("NAME");
  info->callback([name, &run] { run.action = [name, &run] { return Info(run.common, *name); }; });
  fetch->callback([name, &run] { run.action = [name, &run] { return FetchSet(run.common, *name); }; });
}

}  // namespace tacit::cli
