// tacit watch: a run in the terminal while it goes on.
#include <langinfo.h>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cmath>
#include <functional>
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

constexpr std::size_t kCells = 48, kFewestCells = 8;
constexpr std::size_t kLabel = 16;
constexpr std::size_t kUnbounded = 10000;
constexpr std::size_t kAround = 5;  // the blanks of a row

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
        for (const std::string& line : Shown(s, IsTerminal(stdout) ? SizeOf(stdout).columns - 1 : kUnbounded))
          fmt::print("{}\n", line);
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

  // The lines of a picture, none wider than `columns`.
  std::vector<std::string> Shown(const RunSummary& s, std::size_t columns) const {
    std::vector<std::string> lines = {
        Head(fmt::format("{}  {}, {} mode, on {}", Styled(stdout, Style::kBold, Printable(s.name)),
                         Printable(s.algorithm), Printable(s.mode),
                         Printable(fs::path(s.data).filename().string())),
             columns)};
    struct Row {
      std::string name;
      std::function<std::string(std::size_t cells)> picture;
      std::string figure;
    };
    std::vector<Row> rows;
    const auto gauge = [this](double part) {
      return [this, part](std::size_t cells) { return Gauge(part, cells, utf8_); };
    };
    const double part = s.planned == 0 ? 0 : static_cast<double>(s.rounds) / static_cast<double>(s.planned);
    rows.push_back(
        {"rounds", gauge(part),
         fmt::format(
             "{} of {}, {}{}", Grouped(s.rounds), Grouped(s.planned), Name(s.state),
             std::isnan(left_) || s.state != RunState::kRunning ? "" : ", " + Duration(left_) + " left")});
    if (std::isinf(s.epsilon))
      rows.push_back({"ε spent", gauge(1), "inf (not private)"});
    else
      rows.push_back({"ε spent", gauge(s.budget > 0 ? s.epsilon / s.budget : 0),
                      fmt::format("{} of {}", DigitsUp(s.epsilon), Digits(s.budget))});
    for (const auto& [name, value] : s.metrics)
      if (const auto* column = all_.column(name))
        rows.push_back({Printable(name),
                        [this, column](std::size_t cells) { return Sparkline(*column, cells, utf8_); },
                        Digits(value)});
    rows.push_back({"traffic", [](std::size_t) { return std::string(); },
                    Bytes(s.bytes_up) + " up, " + Bytes(s.bytes_down) + " down"});
    // The pictures give way to the figures.
    std::size_t figures = 0;
    for (const Row& r : rows) figures = std::max(figures, Width(r.figure));
    const std::size_t taken = kLabel + kAround + figures;
    const std::size_t cells = std::clamp(columns > taken ? columns - taken : 0, kFewestCells, kCells);
    const auto padded = [](std::string text, std::size_t width) {
      const std::size_t wide = Width(text);
      return text + std::string(width > wide ? width - wide : 0, ' ');
    };
    for (const Row& r : rows)
      lines.push_back(Head(fmt::format("  {} {}  {}", padded(Head(r.name, kLabel), kLabel),
                                       padded(r.picture(cells), cells), r.figure),
                           columns));
    return lines;
  }

  void Screen(const RunSummary& s) {
    // The last column and the last line stay free: a line that is full, or below the last, moves the others.
    const WindowSize window = SizeOf(stdout);
    std::vector<std::string> lines = Shown(s, window.columns - 1);
    if (lines.size() + 1 > window.rows) lines.resize(std::max<std::size_t>(window.rows, 2) - 1);
    // Over what was there. In a window that is narrower now, its lines take more than one.
    std::size_t up = 0;
    for (const std::size_t wide : drawn_)
      up += std::max<std::size_t>(1, (wide + window.columns - 1) / window.columns);
    if (up > 0) fmt::print("\033[{}A\033[J", up);
    drawn_.clear();
    for (const std::string& line : lines) {
      fmt::print("{}\n", line);
      drawn_.push_back(Width(line));
    }
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
  std::vector<std::size_t> drawn_;  // the widths of the lines on the screen
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
