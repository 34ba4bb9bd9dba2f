// tacit watch: a run in the terminal while it goes on.
#include <langinfo.h>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cmath>
#include <memory>
#include <thread>

#include "seeing.h"
#include "view/run_file.h"
#include "view/runs.h"
#include "view/text.h"
#include "view/trace.h"

namespace tacit::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string run;
  bool once = false;
  double every = 0.5;
};

constexpr std::size_t kCells = 48;
constexpr std::size_t kLabel = 16;

bool Utf8() {
  // The locale's encoding, without changing the program's locale for good.
  const char* before = std::setlocale(LC_CTYPE, nullptr);
  const std::string kept = before == nullptr ? "C" : before;
  std::setlocale(LC_CTYPE, "");
  const bool utf8 = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
  std::setlocale(LC_CTYPE, kept.c_str());
  return utf8;
}

// A curve as a row of blocks: each is the mean of its part of the rounds, between the smallest and the
// largest.
std::string Sparkline(const std::vector<double>& values, std::size_t cells, bool utf8) {
  static const char* const kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static const char* const kAscii[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
  std::vector<double> good;
  for (const double v : values)
    if (std::isfinite(v)) good.push_back(v);
  if (good.empty()) return "";
  const auto [low, high] = std::minmax_element(good.begin(), good.end());
  std::string out;
  const std::size_t n = std::min(cells, good.size());
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t from = good.size() * k / n, to = good.size() * (k + 1) / n;
    double mean = 0;
    for (std::size_t i = from; i < to; ++i) mean += good[i] / static_cast<double>(to - from);
    const double part = *high > *low ? (mean - *low) / (*high - *low) : 0.5;
    const int level = static_cast<int>(part * 8);
    out += (utf8 ? kBlocks : kAscii)[level > 7 ? 7 : level];
  }
  return out;
}

std::string Gauge(double part, std::size_t cells, bool utf8) {
  const auto full = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(cells));
  std::string out;
  for (std::size_t i = 0; i < cells; ++i) out += i < full ? (utf8 ? "█" : "#") : (utf8 ? "░" : ".");
  return out;
}

class Watcher {
 public:
  Watcher(const Common& common, const Arguments& a, fs::path folder)
      : common_(common), a_(a), folder_(std::move(folder)), utf8_(Utf8()) {}

  Result<int> Go() {
    const std::atomic<bool>& stop = InterruptFlag();
    const bool live = !common_.json && !a_.once && IsTerminal(stdout);
    for (;;) {
      // The state first: what the trace then lacks of a finished run was never written.
      TACIT_TRY(const RunSummary s, SummaryOf(folder_));
      if (s.state == RunState::kBroken)
        return Fail(Code::kMalformed, "{}: the run cannot be shown: {}", folder_.string(), s.problem);
      TACIT_OK(More());
      Pace(s);
      const bool over = s.state != RunState::kRunning;
      if (common_.json)
        Lines(s, over);
      else if (live)
        Screen(s);
      else if (a_.once)
        fmt::print("{}", Shown(s));
      else
        Plain(s, over);
      std::fflush(stdout);
      if (over || a_.once) return 0;
      const auto until = Clock::now() + std::chrono::duration<double>(a_.every);
      while (Clock::now() < until && !stop.load()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (stop.load()) return static_cast<int>(Code::kInterrupted);
    }
  }

 private:
  Status More() {
    TACIT_TRY(const Trace next, ReadTrace(folder_, all_));
    if (next.from_start) all_ = Trace{};
    fresh_from_ = all_.rows();
    Append(all_, next);
    return Ok{};
  }

  // Rounds a second since we began to look.
  void Pace(const RunSummary& s) {
    if (!began_) began_ = Clock::now(), first_ = s.rounds;
    const double seconds = std::chrono::duration<double>(Clock::now() - *began_).count();
    left_ = s.rounds > first_ && s.planned > s.rounds
                ? seconds * static_cast<double>(s.planned - s.rounds) / static_cast<double>(s.rounds - first_)
                : NAN;
  }

  std::string Line(const RunSummary& s) const {
    std::string out = fmt::format("round {} of {}", Grouped(s.rounds), Grouped(s.planned));
    out += fmt::format("  ε {}", std::isinf(s.epsilon) ? "inf" : DigitsUp(s.epsilon));
    for (const auto& [name, value] : s.metrics) out += fmt::format("  {} {}", Printable(name), Digits(value));
    if (!std::isnan(left_)) out += "  " + Duration(left_) + " left";
    return out;
  }

  std::string Shown(const RunSummary& s) const {
    std::string out = fmt::format("{}  {}, {} mode, on {}\n", Styled(stdout, Style::kBold, Printable(s.name)),
                                  Printable(s.algorithm), Printable(s.mode),
                                  Printable(fs::path(s.data).filename().string()));
    const auto row = [&](const std::string& name, const std::string& picture, const std::string& figure) {
      const std::size_t wide = Width(name), drawn = Width(picture);
      out += fmt::format("  {}{} {}{}  {}\n", name, std::string(kLabel > wide ? kLabel - wide : 0, ' '),
                         picture, std::string(kCells > drawn ? kCells - drawn : 0, ' '), figure);
    };
    const double part = s.planned == 0 ? 0 : static_cast<double>(s.rounds) / static_cast<double>(s.planned);
    row("rounds", Gauge(part, kCells, utf8_),
        fmt::format(
            "{} of {}, {}{}", Grouped(s.rounds), Grouped(s.planned), Name(s.state),
            std::isnan(left_) || s.state != RunState::kRunning ? "" : ", " + Duration(left_) + " left"));
    if (std::isinf(s.epsilon))
      row("ε spent", Gauge(1, kCells, utf8_), "inf (not private)");
    else
      row("ε spent", Gauge(s.budget > 0 ? s.epsilon / s.budget : 0, kCells, utf8_),
          fmt::format("{} of {}", DigitsUp(s.epsilon), Digits(s.budget)));
    for (const auto& [name, value] : s.metrics)
      if (const auto* column = all_.column(name))
        row(Printable(name), Sparkline(*column, kCells, utf8_), Digits(value));
    row("traffic", "", Bytes(s.bytes_up) + " up, " + Bytes(s.bytes_down) + " down");
    return out;
  }

  void Screen(const RunSummary& s) {
    const std::string text = Shown(s);
    if (drawn_ > 0) fmt::print("\033[{}A\033[J", drawn_);  // over what was there
    fmt::print("{}", text);
    drawn_ = std::count(text.begin(), text.end(), '\n');
  }

  void Plain(const RunSummary& s, bool over) {
    const std::string line = Line(s);
    if (line != last_ || over) fmt::print("{}{}\n", line, over ? fmt::format("  {}", Name(s.state)) : "");
    last_ = line;
  }

  void Lines(const RunSummary& s, bool over) const {
    const auto print = [](const json& j) {
      fmt::print("{}\n", j.dump(-1, ' ', false, json::error_handler_t::replace));
    };
    for (std::size_t r = fresh_from_; r < all_.rows(); ++r) {
      json line = json::object();
      for (std::size_t c = 0; c < all_.names.size(); ++c)
        if (!std::isnan(all_.columns[c][r])) line[all_.names[c]] = Number(all_.columns[c][r]);
      print(line);
    }
    if (over || a_.once) print({{"run", ToJson(s)}});
  }

  const Common& common_;
  const Arguments& a_;
  fs::path folder_;
  bool utf8_;
  Trace all_;
  std::size_t fresh_from_ = 0;
  std::optional<Clock::time_point> began_;
  std::uint64_t first_ = 0;
  double left_ = NAN;
  std::string last_;
  std::ptrdiff_t drawn_ = 0;
};

}  // namespace

void AddWatch(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "watch", "follow a run in the terminal",
      "  tacit watch runs/demo-20260101T120000\n"
      "  tacit watch demo-20260101T120000 --once\n"
      "  tacit watch demo-20260101T120000 --json     a JSON line per traced round, the run at the end\n"
      "\nUntil the run ends, or Ctrl-C, which ends the watching and not the run. Where the output is no\n"
      "terminal, a line per change is printed.\n");
  const auto a = std::make_shared<Arguments>();
  verb->add_option("run", a->run, "run folder, or its name below runs/")->required()->type_name("RUN");
  verb->add_flag("--once", a->once, "show how it stands, and stop");
  verb->add_option("--every", a->every, "seconds between looks; default: 0.5")
      ->type_name("S")
      ->check(CLI::Range(0.05, 3600.0));
  verb->callback([a, &run] {
    run.action = [a, &run]() -> Result<int> {
      TACIT_OK(run.common.ExpectNoSets("watch"));
      TACIT_TRY(const fs::path folder, FindRun(a->run));
      return Watcher(run.common, *a, ResolvedFolder(folder)).Go();
    };
  });
}

}  // namespace tacit::cli
