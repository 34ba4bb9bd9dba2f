// tacit: train, plan and account private federated learning from the command line.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <exception>

#include "cli.h"
#include "runtime/ranks.h"
#include "seeing.h"
#include "view/text.h"

namespace tacit::cli {

const char* const kExitCodes =
    "  0    done\n"
    "  1    a bug in tacit\n"
    "  2    a command line, an option or an experiment file is wrong\n"
    "  3    a file, data set or run is missing\n"
    "  4    a file is there and cannot be understood\n"
    "  5    the privacy budget refuses\n"
    "  6    disk, network or database failed\n"
    "  7    a valid request that this build or this combination cannot serve\n"
    "  8    a certificate or a signature does not hold\n"
    "  130  interrupted by Ctrl-C (serve, join and peer: or by SIGTERM); what was done is kept and "
    "certified\n";

namespace {

std::atomic<bool> interrupted = false, service = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

void OnInterrupt(int) {
  interrupted.store(true);
  std::signal(SIGINT, SIG_DFL);  // the next one ends the process
  if (service.load()) std::signal(SIGTERM, SIG_DFL);
}

// An error may quote what others said, a file or a server: its lines stay, and nothing that a terminal obeys.
std::string Shown(std::string_view message) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t end = message.find('\n', at);
    out += Printable(message.substr(at, end == message.npos ? end : end - at));
    if (end == message.npos) return out;
    out += '\n';
    at = end + 1;
  }
}

int Report(const Error& error, bool as_json) {
  const int code = static_cast<int>(error.code);
  if (as_json)
    PrintJson({{"error", {{"code", code}, {"message", error.message}}}});
  else
    // Not by fmt, which throws where it cannot write: a process ends with its own code, heard or not.
    std::fputs(fmt::format("{} {}\n", Styled(stderr, Style::kRed, "error:"), Shown(error.message)).c_str(),
               stderr);
  return code;
}

std::vector<std::string> FlagsOf(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::vector<std::string> NamesOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : VerbsOf(app)) names.push_back(verb->get_name());
  return names;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

std::string FullName(const CLI::App* app) {
  std::string name = app->get_name();
  for (app = app->get_parent(); app != nullptr; app = app->get_parent()) name = app->get_name() + " " + name;
  return name;
}

// The innermost subcommand that was named.
CLI::App* Innermost(CLI::App& app) {
  CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return at;
}

// A verb that does not exist, told before anything is parsed: the parser would blame the flags.
std::optional<Error> UnknownVerb(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* at = &app;
  for (const std::string& word : arguments) {
    const std::vector<std::string> verbs = NamesOf(*at);
    if (verbs.empty() || word.starts_with("-")) return std::nullopt;
    const CLI::App* next = FindVerb(*at, word);
    if (next == nullptr) {
      const auto options = at->get_options([](const CLI::Option* o) { return o->get_positional(); });
      if (!options.empty()) return std::nullopt;  // a verb of its own, and here its argument
      const std::string near = Nearest(word, verbs);
      return Fail(Code::kInvalidArgument, "{}: no such verb{}; {}", word,
                  at == &app ? "" : " of " + FullName(at),
                  near.empty() ? "there are " + Joined(verbs) : fmt::format("did you mean {}?", near));
    }
    at = next;
  }
  return std::nullopt;
}

// The arguments with common flags that stand before the verb moved to the end, where the verb knows them.
std::vector<std::string> VerbFirst(int argc, char** argv) {
  std::vector<std::string> all(argv + 1, argv + argc), moved;
  std::size_t at = 0;
  while (at < all.size()) {
    const std::string& word = all[at];
    const bool valued = word == "--set" || word == "--threads" || word == "--seed";
    if (!valued && word != "--json" && word != "--quiet" && word != "-q") break;
    for (std::size_t take = valued ? 2 : 1; take > 0 && at < all.size(); --take) moved.push_back(all[at++]);
  }
  if (at == all.size()) return all;
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(at));
  all.insert(all.end(), moved.begin(), moved.end());
  return all;
}

Error Explain(CLI::App& app, const CLI::ParseError& e) {
  const CLI::App* verb = Innermost(app);
  const std::string full = FullName(verb), help = fmt::format("; see {} --help", full);
  if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr) {
    const std::vector<std::string> extra = app.remaining(true);
    const std::string first = extra.empty() ? "" : extra.front();
    if (first.starts_with("-")) {
      const std::string near = Nearest(first.substr(0, first.find('=')), FlagsOf(*verb));
      return Fail(Code::kInvalidArgument, "{}: no such flag of {}{}", first, full,
                  near.empty() ? help : fmt::format("; did you mean {}?", near));
    }
    return Fail(Code::kInvalidArgument, "{}: one argument too many for {}{}", first, full, help);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&e) != nullptr) {
    if (!NamesOf(*verb).empty())
      return Fail(Code::kInvalidArgument, "{}: needs one of {}{}", full, Joined(NamesOf(*verb)), help);
    for (const CLI::Option* option : verb->get_options())
      if (option->get_required() && option->count() == 0)
        return Fail(Code::kInvalidArgument, "{}: needs {}, {}{}", full,
                    option->get_positional() ? option->get_type_name() : option->get_name(),
                    option->get_description(), help);
  }
  if (dynamic_cast<const CLI::ConversionError*>(&e) != nullptr) {  // "Could not convert: --jobs = abc"
    const std::string what = e.what();
    const std::size_t at = what.find("--");
    return Fail(Code::kInvalidArgument, "{}: {}: a number is expected{}", full,
                at == std::string::npos ? what : what.substr(at), help);
  }
  return Fail(Code::kInvalidArgument, "{}: {}{}", full, e.what(), help);
}

int Finish(const Result<int>& done, bool as_json) {
  if (!done.ok()) return Report(done.error(), as_json);
  if (std::fflush(stdout) != 0)
    return Report(Fail(Code::kIo, "standard output: cannot be written: {}", std::strerror(errno)), false);
  return *done;
}

// One of several processes. Verbs that train divide their work between them; of the others the first acts,
// and the rest have nothing to do.
int Together(Invocation& run, const Launched& launched, const CLI::App& verb, bool as_json) {
  const std::string& name = verb.get_name();
  if (name != "train" && name != "resume" && name != "sweep")
    return launched.rank == 0 ? Finish(run.action(), as_json) : 0;
  auto started = StartRanks(launched, [] { interrupted.store(true); });
  if (!started.ok()) return launched.rank == 0 ? Report(started.error(), as_json) : 0;
  run.ranks = *std::move(started);
  Ranks& ranks = *run.ranks;
  try {
    const Result<int> done = run.action();
    const int code = ranks.first() ? Finish(done, as_json) : 0;
    ranks.Leave(done.ok() ? Status(Ok{}) : Status(done.error()));
    return code;
  } catch (const std::exception& e) {  // the others would wait for this one
    fmt::print(stderr, "tacit: rank {} of {}: {}\n", ranks.rank(), ranks.size(),
               dynamic_cast<const std::bad_alloc*>(&e) != nullptr ? "out of memory" : e.what());
    ranks.Abort(static_cast<int>(Code::kIo));
  }
}

bool WantsJson(const std::vector<std::string>& arguments) {
  return std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
}

}  // namespace

bool Invocation::aside() const { return ranks != nullptr && !ranks->first(); }

const std::atomic<bool>& InterruptFlag() {
  std::signal(SIGINT, OnInterrupt);
  return interrupted;
}
const std::atomic<bool>& ServiceFlag() {
  service.store(true);
  std::signal(SIGTERM, OnInterrupt);
  return InterruptFlag();
}

std::vector<const CLI::App*> VerbsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* FindVerb(const CLI::App& app, std::string_view name) {
  for (const CLI::App* verb : VerbsOf(app))
    if (verb->get_name() == name) return verb;
  return nullptr;
}

int PrintJson(const nlohmann::json& document) {
  // Bytes that are no UTF-8 (a strange file name in a message) are replaced, never thrown at.
  fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  return 0;
}

void Warn(const std::string& sentence) {
  fmt::print(stderr, "{} {}\n", Styled(stderr, Style::kYellow, "warning:"), sentence);
}

Result<std::vector<Assignment>> Common::Assignments() const {
  std::vector<Assignment> all;
  for (const std::string& text : sets) {
    TACIT_TRY(Assignment a, ParseAssignment(text));
    all.push_back(std::move(a));
  }
  if (threads) all.push_back({"runtime.threads", *threads});
  if (seed) all.push_back({"experiment.seed", *seed});
  return all;
}

unsigned Common::Jobs(unsigned asked) const {
  if (asked != 0 || !threads) return asked;
  return static_cast<unsigned>(std::min(std::strtod(threads->c_str(), nullptr), 4096.0));
}

Status Common::ExpectNoSets(const char* verb) const {
  TACIT_TRY(const std::vector<Assignment> all, Assignments());
  Config probe;
  for (const Assignment& a : all)
    if (Status s = SetKey(probe, a.key, ParseValue(a.value)); !s.ok())
      return Error{s.error().code, "--set " + s.error().message};
  if (!sets.empty() && !quiet)
    Warn(fmt::format("--set {} changes nothing: {} reads no experiment", sets.front(), verb));
  return Ok{};
}

CLI::App* AddVerb(CLI::App& parent, Invocation& run, const char* name, const char* summary,
                  const char* examples) {
  const CLI::Validator whole(
      [](const std::string& text) {
        const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        return digits ? std::string() : fmt::format("{} is not a whole number from 0 upwards", text);
      },
      "");
  CLI::App* verb = parent.add_subcommand(name, summary);
  verb->add_flag("--json", run.common.json, "print one JSON document on stdout, errors included");
  verb->add_flag("--quiet,-q", run.common.quiet, "no progress and no notes on stderr");
  verb->add_option("--set", run.common.sets,
                   "set a key of the experiment, e.g. privacy.epsilon=2; may be repeated")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->expected(1);
  verb->add_option("--threads", run.common.threads, "number of threads; changes nothing in the result")
      ->type_name("N")
      ->check(whole);
  verb->add_option("--seed", run.common.seed, "short for --set experiment.seed=N")
      ->type_name("N")
      ->check(whole);
  if (examples[0] != '\0') verb->footer(fmt::format("Examples:\n{}", examples));
  return verb;
}

std::string MainHelp(const CLI::App& app) {
  std::string out = fmt::format(
      "{}: private federated learning, from a data file to a certified model\n\nUsage: tacit VERB "
      "[arguments]\n\n",
      Styled(stdout, Style::kBold, "tacit"));
  for (const CLI::App* verb : VerbsOf(app))
    out += fmt::format("  {:<11} {}\n", verb->get_name(), verb->get_description());
  return out +
         "\nOn every verb: --help, --json, --quiet, --set table.key=value, --threads N, --seed N\n"
         "\nA first look:\n"
         "  tacit plan experiments/demo.toml        what a run will cost, before any data is touched\n"
         "  tacit train experiments/demo.toml       train, with a certificate at the end\n"
         "  tacit options                           every key an experiment file may hold\n"
         "\nExit codes:\n" +
         std::string(kExitCodes);
}

int Main(int argc, char** argv) {
  Invocation run;
  CLI::App app("private federated learning", "tacit");
  app.set_help_flag("");
  app.get_formatter()->column_width(36);
  bool help = false, version = false;
  app.add_flag("--help,-h", help);
  app.add_flag("--version", version);
  app.require_subcommand(0, 1);
  AddTrain(app, run);
  AddResume(app, run);
  AddPlan(app, run);
  AddAccount(app, run);
  AddCalibrate(app, run);
  AddSweep(app, run);
  AddTune(app, run);
  AddPredict(app, run);
  AddEvaluate(app, run);
  AddReproduce(app, run);
  AddRuns(app, run);
  AddWatch(app, run);
  AddPlot(app, run);
  AddReport(app, run);
  AddLedger(app, run);
  AddVerify(app, run);
  AddAudit(app, run);
  AddSign(app, run);
  AddKeys(app, run);
  AddServe(app, run);
  AddJoin(app, run);
  AddPeer(app, run);
  AddStatus(app, run);
  AddData(app, run);
  AddBoard(app, run);
  AddOptions(app, run);
  AddCompletion(app, run);
  AddVersion(app, run);
  AddHelp(app, run);
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) {
    verb->set_help_flag("--help,-h", "this text");
    for (CLI::App* inner : verb->get_subcommands([](CLI::App*) { return true; }))
      inner->set_help_flag("--help,-h", "this text");
  }

  std::vector<std::string> arguments = VerbFirst(argc, argv);
  const bool as_json = WantsJson(arguments);
  if (const auto unknown = UnknownVerb(app, arguments)) return Report(*unknown, as_json);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", Innermost(app)->help(FullName(Innermost(app)->get_parent())));
    return 0;
  } catch (const CLI::ParseError& e) {
    return Report(Explain(app, e), as_json);
  }
  if (version) {
    fmt::print("tacit {}\n", TACIT_VERSION);
    return 0;
  }
  if (help) {
    fmt::print("{}", MainHelp(app));
    return 0;
  }
  if (!run.action) {
    if (as_json)
      return Report(Fail(Code::kInvalidArgument, "no verb; there are {}", Joined(NamesOf(app))), true);
    fmt::print(stderr, "{}", MainHelp(app));
    return static_cast<int>(Code::kInvalidArgument);
  }
  const Launched launched = HowLaunched();
  if (launched.size > 1) return Together(run, launched, *Innermost(app), as_json);
  return Finish(run.action(), as_json);
}

}  // namespace tacit::cli

int main(int argc, char** argv) {
  try {
    return tacit::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("tacit: out of memory; use fewer rows, features or clients\n", stderr);
    return static_cast<int>(tacit::Code::kIo);
  } catch (const std::system_error& e) {  // fmt::print, on a full disk or a closed pipe
    std::fputs(fmt::format("tacit: the output cannot be written: {}\n", e.code().message()).c_str(), stderr);
    return static_cast<int>(tacit::Code::kIo);
  } catch (const std::exception& e) {
    std::fputs(fmt::format("tacit: internal error: {}\n", e.what()).c_str(), stderr);
    return static_cast<int>(tacit::Code::kInternal);
  }
}
