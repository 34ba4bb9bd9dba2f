// Runs as they are listed, drawn, reported and watched: every case starts the built binary.
#include <pty.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <thread>

#include "program_test.h"
#include "view/markup_test.h"

namespace tacit {
namespace {

constexpr int kWrong = static_cast<int>(Code::kInvalidArgument);

class SeeingTest : public CliTest {
 protected:
  // A run of a blink, with the name of its folder.
  std::string Train(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"train", Small(), "--quiet", "--set", "experiment.oracle=true"};
    words.insert(words.end(), more.begin(), more.end());
    const json r = RunJson(words);
    return fs::path(r["folder"].get<std::string>()).filename().string();
  }
};

TEST_F(SeeingTest, RunsAreListedFilteredAndTagged) {
  EXPECT_EQ(RunJson({"runs"})["stored"], 0);
  const std::string a = Train({"--set", "experiment.name=one"});
  Train({"--set", "experiment.name=two"});
  json list = RunJson({"runs"});
  ASSERT_EQ(list["runs"].size(), 2u);
  EXPECT_EQ(list["runs"][0]["state"], "finished");
  EXPECT_LE(list["runs"][0]["certified_epsilon"].get<double>(), 4.0);
  EXPECT_EQ(RunJson({"runs", "--name", "one-*"})["runs"][0]["name"], a);
  EXPECT_EQ(RunJson({"runs", "--algorithm", "fedexp"})["fit"], 0);
  EXPECT_EQ(RunJson({"runs", "--state", "finished", "--mode", "certified"})["fit"], 2);
  EXPECT_EQ(RunJson({"runs", "runs/" + a})["fit"], 1);
  EXPECT_EQ(RunJson({"runs", "tag", a, "best", "paper"})["tags"].size(), 2u);
  EXPECT_EQ(RunJson({"runs", "--tag", "best"})["runs"][0]["name"], a);
  EXPECT_EQ(RunJson({"runs", "tag", a, "best", "--remove"})["tags"], json({"paper"}));
  EXPECT_EQ(Run({"runs", "tag", a, "two words"}).code, kWrong);
  const Outcome text = Run({"runs"});
  EXPECT_NE(text.out.find(a), std::string::npos);
  EXPECT_NE(text.out.find("paper"), std::string::npos);
  EXPECT_EQ(Run({"runs", "nowhere"}).code, static_cast<int>(Code::kNotFound));
  // A tag changes nothing that a certificate covers.
  EXPECT_EQ(Run({"verify", "runs/" + a, "--quiet"}).code, 0);
}

TEST_F(SeeingTest, RunsAreComparedAndExported) {
  const std::string a = Train({"--set", "experiment.name=a"});
  const std::string b = Train({"--set", "experiment.name=b", "--set", "privacy.epsilon=2"});
  const json c = RunJson({"runs", "compare", a, b});
  EXPECT_EQ(c["differences"].size(), 1u) << c["differences"].dump();
  EXPECT_TRUE(c["differences"].contains("privacy.epsilon"));
  EXPECT_NE(Run({"runs", "compare", a, b}).out.find("privacy.epsilon"), std::string::npos);
  EXPECT_EQ(Run({"runs", "compare", a}).code, kWrong);
  const Outcome csv = Run({"runs", "export", a});
  EXPECT_EQ(csv.code, 0) << csv.err;
  EXPECT_NE(csv.out.find("epsilon"), std::string::npos);
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 31);
  const Outcome lines = Run({"runs", "export", a, "--format", "jsonl"});
  const json first = json::parse(lines.out.substr(0, lines.out.find('\n')), nullptr, false);
  EXPECT_EQ(first["round"], 1);
  EXPECT_TRUE(first.contains("loss"));
  EXPECT_EQ(RunJson({"runs", "export", a, "-o", "x.csv"})["rows"], 30);
  EXPECT_EQ(Slurp(home_ / "x.csv"), csv.out);
}

TEST_F(SeeingTest, TheGallerySaysWhatCameOfFiguresAndWhatIsMissing) {
  const json ran = RunJson({"reproduce", "fedexp/naive", "--quick", "--seed", "3"});
  const json& claim = ran["figures"][0]["claims"][0];
  EXPECT_TRUE(claim["standard_errors_from_limit"].is_null()) << "one seed";
  EXPECT_GT(claim["certified_epsilon"][0].get<double>(), 200);
  const Outcome made = Run({"reproduce", "--gallery", "page", "--quiet", "--seed", "3"});
  EXPECT_EQ(made.code, 0) << made.err;
  const std::string page = Slurp(home_ / "page/gallery.md");
  for (const char* part : {"| within error | certified |", "| not known | ε ≤ 289.4 |",
                           "## Not reproduced here", "| fcrn | Figs. 1 and 2 on the data set epsilon |"})
    EXPECT_NE(page.find(part), std::string::npos) << part << page;
  EXPECT_EQ(page.find("Tables of four columns"), std::string::npos);
  EXPECT_TRUE(fs::exists(home_ / "page/gallery/fedexp-naive.svg"));
}

TEST_F(SeeingTest, DeletingLeavesWhatWasSpent) {
  const std::string a = Train();
  const json before = RunJson({"ledger"});
  EXPECT_EQ(Run({"runs", "delete", a}).code, kWrong);                      // nobody to ask
  EXPECT_TRUE(fs::exists(home_ / "runs" / a / "certificate.json"));
  Write("runs/" + a + "/audit.json", "{}");         // as `tacit audit` leaves it
  const Outcome gone = Run({"runs", "delete", a, "--yes"});
  EXPECT_EQ(gone.code, 0) << gone.err;
  EXPECT_NE(gone.err.find("stays spent"), std::string::npos);
  EXPECT_FALSE(fs::exists(home_ / "runs" / a));
  EXPECT_EQ(RunJson({"ledger"}), before);
  EXPECT_EQ(Run({"runs", "delete", "runs", "--yes"}).code, static_cast<int>(Code::kNotFound));  // no run
  fs::create_directories(home_ / "site");
  std::ofstream(home_ / "site/config.toml") << "title = \"site\"\n";
  EXPECT_EQ(Run({"runs", "delete", "site", "--yes"}).code, kWrong) << "a config.toml alone makes no run";
  EXPECT_TRUE(fs::exists(home_ / "site/config.toml"));
  EXPECT_TRUE(fs::exists(home_ / "runs" / "ledger.db"));
}

TEST_F(SeeingTest, ALedgerInARunIsNotDeletedWithIt) {
  const std::string a = Train();
  fs::create_directories(home_ / "runs" / a / "more");
  EXPECT_EQ(Run({"runs", "delete", a, "--yes"}).code, kWrong);
  fs::remove(home_ / "runs" / a / "more");
  std::string config = Slurp(home_ / "runs" / a / "config.toml");
  const std::string key = "ledger = \"\"";
  ASSERT_NE(config.find(key), std::string::npos);
  config.replace(config.find(key), key.size(), "ledger = \"runs/" + a + "/all.db\"");
  Write("runs/" + a + "/config.toml", config);
  EXPECT_EQ(Run({"runs", "delete", a, "--yes"}).code, kWrong);
  EXPECT_TRUE(fs::exists(home_ / "runs" / a));
}

TEST_F(SeeingTest, PlotsAndTables) {
  Train({"--seed", "1"});
  Train({"--seed", "2"});
  Train({"--seed", "1", "--set", "privacy.epsilon=2"});
  const json p = RunJson({"plot", "runs", "--y", "optimality", "--log-y", "--x", "bytes", "-o", "f.svg"});
  ASSERT_EQ(p["curves"].size(), 2u);
  const std::string svg = Slurp(home_ / "f.svg");
  EXPECT_EQ(MarkupProblem(svg), "");
  EXPECT_NE(svg.find("epsilon = 4"), std::string::npos);
  EXPECT_NE(svg.find("(2 seeds)"), std::string::npos);
  EXPECT_NE(svg.find("smallest to largest"), std::string::npos);
  EXPECT_EQ(Run({"plot", "runs", "-o", "t.md"}).code, 0);
  EXPECT_NE(Slurp(home_ / "t.md").find("| epsilon = 4 | 2 |"), std::string::npos) << Slurp(home_ / "t.md");
  EXPECT_EQ(Run({"plot", "runs", "-o", "t.tex"}).code, 0);
  EXPECT_NE(Slurp(home_ / "t.tex").find("\\begin{tabular}"), std::string::npos);
  const Outcome none = Run({"plot", "runs", "--y", "beauty", "-o", "x.svg"});
  EXPECT_EQ(none.code, kWrong);
  EXPECT_NE(none.err.find("optimality"), std::string::npos);
  EXPECT_EQ(Run({"plot", "runs", "-o", "x.gif"}).code, kWrong);
  EXPECT_FALSE(fs::exists(home_ / "x.svg"));
  // Without gnuplot, the error names the package.
  fs::create_directories(home_ / "empty");
  const char* path = std::getenv("PATH");
  const std::string kept = path == nullptr ? "" : path;
  ::setenv("PATH", (home_ / "empty").c_str(), 1);
  const Outcome missing = Run({"plot", "runs", "-o", "x.pdf"});
  ::setenv("PATH", kept.c_str(), 1);
  EXPECT_EQ(missing.code, static_cast<int>(Code::kUnsupported));
  EXPECT_NE(missing.err.find("gnuplot-nox"), std::string::npos);
}

TEST_F(SeeingTest, AReportIsHarmlessWhateverRunsAreCalled) {
  const std::string evil = "<script>alert(1)&lt;'\"; system(\"touch hacked\") $(touch hacked)";
  Train({"--set", "experiment.name=" + evil, "--set", "data.id=<img src=x onerror=alert(1)>"});
  Train();
  const Outcome o = Run({"report", "runs", "-o", "r.html"});
  EXPECT_EQ(o.code, 0) << o.err;
  const std::string page = Slurp(home_ / "r.html");
  EXPECT_EQ(MarkupProblem(page), "");
  EXPECT_EQ(ExternalReference(page), "");
  EXPECT_NE(page.find("&lt;script&gt;"), std::string::npos);
  EXPECT_EQ(Run({"plot", "runs", "-o", "p.svg"}).code, 0);
  EXPECT_EQ(MarkupProblem(Slurp(home_ / "p.svg")), "");
  EXPECT_FALSE(fs::exists(home_ / "hacked"));
}

// Columns of text that has no letters wider than one.
std::size_t ColumnsIn(const std::string& line) {
  std::size_t n = 0;
  for (std::size_t k = 0; k < line.size(); ++k) {
    if (line[k] == '\033') {
      while (k < line.size() && std::isalpha(static_cast<unsigned char>(line[k])) == 0) ++k;
    } else if (line[k] != '\r' && (static_cast<unsigned char>(line[k]) & 0xc0) != 0x80) {
      ++n;
    }
  }
  return n;
}

TEST_F(SeeingTest, WatchFitsIntoTheTerminal) {
  const std::string run = Train({"--set", "experiment.name=" + std::string(90, 'n')});
  for (const std::size_t columns : {200u, 80u, 40u, 10u}) {
    for (const bool once : {false, true}) {
      winsize size{};
      size.ws_col = static_cast<unsigned short>(columns);
      size.ws_row = 24;
      int terminal = -1;
      const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
      if (child == 0) {
        ::setenv("TERM", "xterm", 1);
        ::unsetenv("NO_COLOR");
        ::setenv("LC_ALL", "C.UTF-8", 1);
        if (::chdir(home_.c_str()) != 0) ::_exit(127);
        ::execl(program_.c_str(), program_.c_str(), "watch", run.c_str(), once ? "--once" : "--every=0.1",
                static_cast<char*>(nullptr));
        ::_exit(127);
      }
      ASSERT_GT(child, 0);
      std::string out;
      char block[4096];
      for (ssize_t n = 0; (n = ::read(terminal, block, sizeof block)) > 0;)
        out.append(block, static_cast<std::size_t>(n));
      ::close(terminal);
      int status = 1;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0) << out;
      std::istringstream lines(out);
      std::size_t count = 0, widest = 0;
      for (std::string line; std::getline(lines, line); ++count) widest = std::max(widest, ColumnsIn(line));
      EXPECT_GE(count, 4u) << out;
      EXPECT_LT(widest, columns) << out;
      if (columns == 80) {
        EXPECT_NE(out.find("30 of 30, finished"), std::string::npos) << out;
        EXPECT_NE(out.find("█"), std::string::npos) << out;
      }
    }
  }
}

TEST_F(SeeingTest, WatchFollowsARunToItsEnd) {
  Small();
  const pid_t training = ::fork();
  if (training == 0) {
    if (::chdir(home_.c_str()) != 0 || std::freopen("train.txt", "w", stdout) == nullptr ||
        std::freopen("train_err.txt", "w", stderr) == nullptr)
      ::_exit(127);
    ::execl(program_.c_str(), program_.c_str(), "train", "small.toml", "--quiet", "--set",
            "algorithm.rounds=20000", "--set", "experiment.checkpoint=0.1", "--set",
            "algorithm.allocation=static", "--set", "experiment.name=live", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  fs::path folder;
  for (int i = 0; i < 3000 && folder.empty(); ++i) {
    std::error_code ec;
    for (const auto& entry : fs::directory_iterator(home_ / "runs", ec))
      if (entry.is_directory() && fs::exists(entry.path() / "config.toml")) folder = entry.path();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_FALSE(folder.empty());
  const Outcome o = Run({"watch", folder.string(), "--json", "--every", "0.05"});
  int status = 0;
  ::waitpid(training, &status, 0);
  EXPECT_EQ(o.code, 0) << o.err;
  // A line per traced round, in order, and the run at the end.
  std::istringstream lines(o.out);
  double last = 0;
  json end;
  for (std::string line; std::getline(lines, line);) {
    const json j = json::parse(line, nullptr, false);
    ASSERT_TRUE(j.is_object()) << line;
    if (j.contains("run")) {
      end = j["run"];
      continue;
    }
    EXPECT_GT(j["round"].get<double>(), last);
    last = j["round"].get<double>();
  }
  EXPECT_EQ(last, 20000);
  EXPECT_EQ(end["state"], "finished");
  const Outcome once = Run({"watch", folder.string(), "--once"});
  EXPECT_NE(once.out.find("20,000 of 20,000"), std::string::npos) << once.out;
  EXPECT_NE(once.out.find("ε spent"), std::string::npos);
  EXPECT_EQ(Run({"watch", folder.string()}).code, 0);  // no terminal, and it is over
  EXPECT_EQ(Run({"watch", "nowhere"}).code, static_cast<int>(Code::kNotFound));
}

}  // namespace
}  // namespace tacit
