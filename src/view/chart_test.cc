#include "view/chart.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <tuple>

#include "view/markup_test.h"
#include "view/plot.h"
#include "view/report.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHostile =
    "</title><script>alert(1)</script>\"; system(\"touch hacked\") `touch hacked` ' %s \n\033[2J";

class ChartTest : public testing::Test {
 protected:
  void SetUp() override {
    home_ = fs::temp_directory_path() / fmt::format("tacit_chart_{}", ::getpid());
    fs::remove_all(home_);
    fs::create_directories(home_);
  }
  void TearDown() override { fs::remove_all(home_); }
  fs::path Run(const std::string& name, int seed, double epsilon, double shift,
               const std::string& algorithm = "fedexp") {
    const fs::path folder = home_ / name;
    fs::create_directories(folder);
    std::ofstream(folder / "config.toml") << fmt::format(
        "[data]\nsource = \"a9a\"\n[privacy]\nepsilon = {}\ndelta = 1e-05\nunit = "
        "\"client\"\n[algorithm]\nname = "
        "\"{}\"\nmode = \"certified\"\nrounds = 4\n[experiment]\nseed = {}\n",
        epsilon, algorithm, seed);
    std::ofstream trace(folder / "trace.jsonl");
    for (int t = 1; t <= 4; ++t)
      trace << fmt::format(
          "{{\"round\":{},\"epsilon\":{},\"sigma\":2,\"bytes_up\":{},\"bytes_down\":{},\"answered\":5,"
          "\"metrics\":{{\"loss\":{}}}}}\n",
          t, epsilon * t / 4, 10 * t, 20 * t, 1.0 / t + shift);
    std::ofstream(folder / "result.json") << fmt::format(
        "{{\"rounds\":4,\"rounds_planned\":4,\"interrupted\":false,\"metrics\":{{\"loss\":{}}},\"privacy\":"
        "{{\"certified_epsilon\":{},\"claimed_epsilon\":0.5,\"delta\":1e-5}}}}",
        0.25 + shift, epsilon);
    std::ofstream(folder / "certificate.txt") << "PRIVACY CERTIFICATE\n  run <b>x</b>\n";
    return folder;
  }
  fs::path home_;
};

TEST_F(ChartTest, RunsThatDifferInTheSeedAreOneCurve) {
  const auto groups = GroupRuns({Run("a", 1, 2, 0), Run("b", 2, 2, 1), Run("c", 1, 4, 0), home_ / "a"});
  ASSERT_TRUE(groups.ok());
  ASSERT_EQ(groups->size(), 2u);
  EXPECT_EQ((*groups)[0].runs.size(), 2u);
  EXPECT_EQ((*groups)[0].label, "epsilon = 2");
  EXPECT_EQ((*groups)[1].label, "epsilon = 4");
  const auto named = GroupRuns({home_ / "a", home_ / "c"}, {"privacy.epsilon", "experiment.seed"});
  EXPECT_EQ((*named)[1].label, "epsilon = 4, seed = 1") << "the keys that were asked for";
  const Curve c = CurveOf((*groups)[0], "bytes", "loss", Band::kRange);
  EXPECT_EQ(c.x, (std::vector<double>{30, 60, 90, 120}));
  EXPECT_EQ(c.y[0], 1.5);
  EXPECT_EQ(c.low[0], 1);
  EXPECT_EQ(c.high[0], 2);
  const Curve s = CurveOf((*groups)[0], "round", "loss", Band::kStd);
  EXPECT_NEAR(s.high[0] - s.y[0], std::sqrt(0.5), 1e-12);
  EXPECT_TRUE(CurveOf((*groups)[1], "round", "loss", Band::kRange).low.empty());
  EXPECT_TRUE(CurveOf((*groups)[1], "round", "nothing", Band::kRange).x.empty());
  const TextTable t = FinalTable(*groups, {});
  EXPECT_EQ(t.header,
            (std::vector<std::string>{"run", "seeds", "rounds", "ε claimed", "ε certified", "δ", "loss"}));
  EXPECT_EQ(t.rows[0],
            (std::vector<std::string>{"epsilon = 2", "2", "4", "0.5", "2", "1e-05", "0.75 ± 0.71"}));
  EXPECT_NE(ToTex(t).find("$\\varepsilon$ certified"), std::string::npos);
  EXPECT_NE(ToMarkdown(t).find("|---|---:|"), std::string::npos);
}

TEST_F(ChartTest, SeedsThatAreBehindAreToldAndInfiniteEpsilonsToo) {
  Run("a", 1, 2, 0);
  Run("b", 2, 2, 1);
  std::ofstream(home_ / "b" / "trace.jsonl") << "";
  auto groups = GroupRuns({home_ / "a", home_ / "b"});
  Curve c = CurveOf((*groups)[0], "round", "loss", Band::kRange);
  EXPECT_EQ(c.x.size(), 4u);
  EXPECT_EQ(c.seeds, 1u);
  EXPECT_EQ(c.note, "1 of 2 seeds have no points yet");
  std::ofstream(home_ / "b" / "trace.jsonl")
      << "{\"round\":1,\"epsilon\":\"inf\",\"metrics\":{\"loss\":3}}\n";
  groups = GroupRuns({home_ / "a", home_ / "b"});
  c = CurveOf((*groups)[0], "round", "loss", Band::kRange);
  EXPECT_EQ(c.x.size(), 1u);
  EXPECT_NE(c.note.find("up to round 1, where one of 2 seeds ends"), std::string::npos) << c.note;
  const Curve e = CurveOf((*groups)[0], "round", "epsilon", Band::kRange);
  EXPECT_NE(e.note.find("∞ is not drawn"), std::string::npos) << e.note;
}

TEST(ChartText, EpsilonsAreRoundedUpWhereTheyArePrinted) {
  Chart chart;
  chart.title = chart.y_label = "ε";
  chart.epsilon_y = true;
  chart.curves = {{.label = "certified", .x = {0}, .y = {289.34101}, .low = {}, .high = {}}};
  EXPECT_NE(DotsSvg(chart, 400).find("289.4"), std::string::npos);
  EXPECT_NE(ChartTable(chart, 4).find("289.4"), std::string::npos);
}

TEST_F(ChartTest, TheSameSeedTwiceIsNoSecondSeed) {
  const auto groups = GroupRuns({Run("a", 1, 2, 0), Run("b", 1, 2, 1)});
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ(groups->size(), 2u);
  EXPECT_NE((*groups)[0].label, (*groups)[1].label);
}

TEST_F(ChartTest, LabelsNameWhatTellsCurvesApartHoweverMuchElseDiffers) {
  // Six keys that come before epsilon differ, in a run of its own; two runs differ in epsilon alone.
  const auto more = [&](const char* name, int value) {
    std::ofstream config(home_ / name / "config.toml", std::ios::app);
    config << "[algorithm]\n";
    for (const char* key : {"a", "b", "c", "d", "e", "f"}) config << key << " = " << value << "\n";
  };
  for (const auto& [name, epsilon, value] :
       {std::tuple("a", 2.0, 1), std::tuple("b", 4.0, 1), std::tuple("c", 2.0, 2)}) {
    Run(name, 1, epsilon, 0);
    more(name, value);
  }
  auto groups = GroupRuns({home_ / "a", home_ / "b", home_ / "c"});
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ((*groups)[0].label, "epsilon = 2, a = 1, b = 1, c = 1");
  EXPECT_EQ((*groups)[1].label, "epsilon = 4, a = 1, b = 1, c = 1");
  EXPECT_EQ((*groups)[2].label, "epsilon = 2, a = 2, b = 2, c = 2");

  // The third has nothing to draw: the others are told apart by what they differ in.
  std::ofstream(home_ / "c" / "trace.jsonl") << "{\"round\":1,\"metrics\":{\"accuracy\":1}}\n";
  groups = GroupRuns({home_ / "a", home_ / "b", home_ / "c"});
  const auto plot = PlotRuns(*groups, {});
  ASSERT_TRUE(plot.ok());
  ASSERT_EQ(plot->chart.curves.size(), 2u);
  EXPECT_EQ(plot->chart.curves[0].label, "epsilon = 2");
  EXPECT_EQ(plot->chart.curves[1].label, "epsilon = 4");
  EXPECT_EQ(plot->left_out, std::vector<std::string>{"epsilon = 2, a = 2, b = 2, c = 2"});
  groups = GroupRuns({home_ / "a", home_ / "b", home_ / "c"}, {"algorithm.a", "privacy.epsilon"});
  EXPECT_EQ(PlotRuns(*groups, {})->chart.curves[0].label, "a = 1, epsilon = 2") << "as it was asked for";
}

TEST_F(ChartTest, LabelsHaveMoreThanFourKeysWhereItTakesMore) {
  std::vector<fs::path> folders;
  for (int k = 0; k < 7; ++k) {  // run k differs from the first in one key of its own
    const std::string name = fmt::format("r{}", k);
    folders.push_back(Run(name, 1, 2, 0));
    std::ofstream config(folders.back() / "config.toml", std::ios::app);
    config << "[algorithm]\n";
    for (int j = 1; j < 7; ++j) config << "k" << j << " = " << (j == k ? 1 : 0) << "\n";
  }
  const auto groups = GroupRuns(folders);
  ASSERT_TRUE(groups.ok());
  std::set<std::string> labels;
  for (const RunGroup& g : *groups) {
    labels.insert(g.label);
    EXPECT_EQ(g.label.find('('), std::string::npos) << g.label << ": the settings tell it, not its name";
  }
  EXPECT_EQ(labels.size(), 7u);
}

TEST(Chart, LongLegendsAreBrokenAndNotCut) {
  Chart chart;
  const std::string same =
      "one key = 1, another key = 2, a third key = 3, a fourth key = 4, a fifth key = 5, ";
  for (const char* last : {"last = 1", "last = 2"})
    chart.curves.push_back({same + last, {1, 2}, {1, 2}, {}, {}, 1});
  const std::string svg = ChartSvg(chart);
  EXPECT_EQ(MarkupProblem(svg), "");
  for (const char* last : {"last = 1<title>", "last = 2<title>"})
    EXPECT_NE(svg.find(last), std::string::npos) << svg;
  EXPECT_EQ(svg.find("…"), std::string::npos);
}

TEST_F(ChartTest, OnlyRoundsThatAllSeedsHaveAreAveraged) {
  Run("a", 1, 2, 0);
  std::ofstream(home_ / "a" / "trace.jsonl")
      << "{\"round\":2,\"metrics\":{\"loss\":1}}\n{\"round\":3,\"metrics\":{\"loss\":1}}\n";
  const auto groups = GroupRuns({home_ / "a", Run("b", 2, 2, 0)});
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ(CurveOf((*groups)[0], "round", "loss", Band::kRange).x, (std::vector<double>{2, 3}));
}

Chart Sample(const std::string& text) {
  Chart chart;
  chart.title = chart.description = chart.x_label = chart.y_label = chart.note = text;
  chart.curves.push_back({text, {1, 10, 100}, {0.5, 0.25, -1}, {0.4, 0.2, -2}, {0.6, 0.3, 0}, 3});
  chart.curves.push_back({"two", {5}, {0.1}, {}, {}, 1});
  chart.rules.push_back({0.3, text});
  return chart;
}

TEST(Chart, IsWellFormedOnAnyAxes) {
  for (const bool log_x : {false, true})
    for (const bool log_y : {false, true}) {
      Chart chart = Sample("plain");
      chart.log_x = log_x;
      chart.log_y = log_y;
      const std::string svg = ChartSvg(chart);
      EXPECT_EQ(MarkupProblem(svg), "");
      EXPECT_EQ(svg.find("nan"), std::string::npos);
      EXPECT_EQ(svg.find("inf"), std::string::npos);
      EXPECT_NE(svg.find("<title"), std::string::npos);
    }
  EXPECT_EQ(MarkupProblem(ChartSvg(Chart{})), "");      // nothing to draw
}

TEST(Chart, HostileTextIsText) {
  const Chart chart = Sample(kHostile);
  for (const std::string& out : {ChartSvg(chart), ChartInPage(chart, "x"), ChartTable(chart, 5)}) {
    EXPECT_EQ(MarkupProblem(out), "");
    EXPECT_EQ(out.find("<script"), std::string::npos);
    EXPECT_EQ(out.find('\033'), std::string::npos);
  }
  // In gnuplot's script every text is within single quotes, on one line.
  const std::string script = GnuplotScript(chart, Picture::kPng, {});
  EXPECT_EQ(script.find('\033'), std::string::npos);
  EXPECT_EQ(script.find("' %s"), std::string::npos);
  EXPECT_NE(script.find("’ %s"), std::string::npos);
}

TEST(Chart, GnuplotDrawsWhatItIsGivenAndRunsNothing) {
  if (std::system("command -v gnuplot >/dev/null") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const fs::path mark = fs::current_path() / "hacked";
  fs::remove(mark);
  for (const char* text : {"plain", kHostile, "'; system('touch hacked'); '", "\\", "'", "@x {/Bold y} $0"}) {
    const auto png = ChartByGnuplot(Sample(text), Picture::kPng, {});
    ASSERT_TRUE(png.ok()) << png.error().message << " " << text;
    EXPECT_EQ(png->substr(1, 3), "PNG");
    const auto pdf = ChartByGnuplot(Sample(text), Picture::kPdf, {});
    ASSERT_TRUE(pdf.ok());
    EXPECT_EQ(pdf->substr(0, 4), "%PDF");
  }
  EXPECT_FALSE(fs::exists(mark));
  EXPECT_FALSE(ChartByGnuplot(Chart{}, Picture::kPng).ok());
}

TEST(Chart, DrawsFewPointsOfManyAndKeepsTheExtremes) {
  Chart chart;
  Curve c;
  for (int i = 0; i < 1000000; ++i) c.x.push_back(i), c.y.push_back(i == 777777 ? 9 : 0.001 * (i % 7));
  chart.curves.push_back(std::move(c));
  const std::string svg = ChartSvg(chart);
  EXPECT_LT(svg.size(), 40000u);
}

TEST(Ticks, AreRound) {
  EXPECT_EQ(LinearTicks(0, 10), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(TickText(0.3, 0.1), "0.3");
  EXPECT_EQ(TickText(0.25, 0.25), "0.25");
  EXPECT_EQ(TickText(2500000, 500000), "2.5M");
  EXPECT_EQ(TickText(1e-16, 0.1), "0");
  EXPECT_EQ(TickText(2000, 1000), "2000");
}

TEST(EpsilonShown, IsNeverBelow) {
  for (const double v : {1.9999991, 0.123456, 2.0, 1e-9, 12345.678, 0.99999}) {
    EXPECT_GE(std::strtod(EpsilonShown(v).c_str(), nullptr), v);
    EXPECT_NEAR(std::strtod(EpsilonShown(v).c_str(), nullptr), v, 2e-3 * v);
  }
  EXPECT_EQ(EpsilonShown(HUGE_VAL), "∞");
}

TEST_F(ChartTest, AReportIsOneFileThatNeedsNothing) {
  const auto groups = GroupRuns({Run("a", 1, 2, 0), Run("b", 2, 2, 1), Run("c", 1, 4, 0, "dp-fedavg")});
  ASSERT_TRUE(groups.ok());
  const std::string page = ReportHtml(*groups, {.version = "1.2.3", .band = Band::kRange});
  EXPECT_EQ(MarkupProblem(page), "");
  EXPECT_EQ(ExternalReference(page), "");
  for (const char* part :
       {"Final figures", "Privacy spent", "Noise schedule", "Traffic", "Participation", "ε claimed",
        "ε certified", "What differs", "tacit train", "tacit verify", "1.2.3", "prefers-color-scheme",
        "@media print", "PRIVACY CERTIFICATE", "budget ε = 4", "smallest to largest", "&lt;b&gt;x&lt;/b&gt;"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST_F(ChartTest, AReportStatesStepSizes) {
  const auto step = [&](const char* name, const char* algorithm, const char* more, const std::string& trace) {
    Run(name, 1, 2, 0, algorithm);
    std::ofstream(home_ / name / "config.toml", std::ios::app) << "[algorithm]\n" << more;
    if (!trace.empty()) std::ofstream(home_ / name / "trace.jsonl") << trace;
    return home_ / name;
  };
  const auto groups = GroupRuns(
      {step("a", "primal-dual", "", "{\"round\":1,\"step_size\":0.25}\n{\"round\":2,\"step_size\":0.25}\n"),
       step("b", "zcdp-nfl", "", "{\"round\":1,\"step_size\":0.5}\n{\"round\":4,\"step_size\":0.125}\n"),
       step("c", "dp-scaffold", "local_rate = 0.0625\nlocal_steps = 3\nbatch = 0\n", ""),
       step("d", "fcrn", "strong_convexity = 0.75\nsolver_steps = 10\ndesign = \"full\"\n", ""),
       step("e", "p-admm", "", "")});
  ASSERT_TRUE(groups.ok());
  const std::string page = ReportHtml(*groups, {.version = "1", .band = Band::kRange});
  EXPECT_EQ(MarkupProblem(page), "");
  for (const char* part :
       {"Step sizes", ">0.25 in every round<", ">0.125 to 0.5<", ">0.0625 at each client, 3 of them<",
        "μ = 0.75, τ = 10<", ">not traced<", ">peers minimise"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST_F(ChartTest, PaperHasCertificatesAndConfigs) {
  const auto groups = GroupRuns({Run("a", 1, 2, 0)});
  ASSERT_TRUE(groups.ok());
  const std::string page = ReportHtml(*groups, {.version = "1", .band = Band::kRange});
  std::string paper;  // what is not folded
  for (std::size_t at = page.find("<div class=\"paper\">"); at != std::string::npos;
       at = page.find("<div class=\"paper\">", at + 1))
    paper += page.substr(at, page.find("</div>", at) - at);
  EXPECT_EQ(paper.find("<details"), std::string::npos);
  for (const char* part : {"Certificate of a", "PRIVACY CERTIFICATE", "Resolved config of a", "epsilon = 2"})
    EXPECT_NE(paper.find(part), std::string::npos) << part;
}

TEST_F(ChartTest, AReportOfHostileRunsIsHarmless) {
  const std::string name = "<script>alert(1)<\\script>\"; system(\"x\") '$(touch hacked)` && #";
  Run(name, 1, 2, 0, "<img src=x onerror=alert(1)>");
  std::ofstream(home_ / name / "config.toml", std::ios::app) << "evil = \"</pre><script src=http://x>\"\n";
  const auto groups = GroupRuns({home_ / name});
  ASSERT_TRUE(groups.ok());
  const std::string page = ReportHtml(*groups, {.version = "1", .band = Band::kRange});
  EXPECT_EQ(MarkupProblem(page), "");
  EXPECT_EQ(ExternalReference(page), "");
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
}

TEST_F(ChartTest, AReportOfAnAuditedRunShowsWhatAnAttackerRecovers) {
  Run("a", 1, 2, 0);
  const std::string picture = "[0, 15, 7, 99]";
  std::ofstream(home_ / "a" / "audit.json")
      << R"({"certified_epsilon": 2.0, "measured_epsilon": 1.5, "runs": 20000, "certificate_broken": false,
             "recovery": {"guesses": 1000, "right_without_noise": 1000, "right_with_noise": 561,
                          "picture": {"side": 2, "levels": )"
      << picture << R"(, "without_noise": )" << picture << R"(, "with_noise": ")" << picture
      << R"(", "likeness_without_noise": 1.0, "likeness_with_noise": "<b>"}}})";
  const auto groups = GroupRuns({home_ / "a"});
  ASSERT_TRUE(groups.ok());
  const std::string page = ReportHtml(*groups, {.version = "1", .band = Band::kNone});
  EXPECT_EQ(MarkupProblem(page), "");
  for (const char* part :
       {"What an attacker recovers", "100.0 %", "56.1 %", "1.5", "correlation 1.00", "#777"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST_F(ChartTest, AnAuditThatIsNoneIsLeftOut) {
  Run("a", 1, 2, 0);
  for (const char* text :
       {"", "[]", "{", "{\"measured_epsilon\": 1}", "{\"recovery\": 3}",
        "{\"measured_epsilon\": 1, \"certified_epsilon\": 2, \"recovery\": {\"guesses\": \"x\"}}"}) {
    std::ofstream(home_ / "a" / "audit.json") << text;
    const auto groups = GroupRuns({home_ / "a"});
    ASSERT_TRUE(groups.ok());
    const std::string page = ReportHtml(*groups, {.version = "1", .band = Band::kNone});
    EXPECT_EQ(MarkupProblem(page), "");
    EXPECT_EQ(page.find("What an attacker recovers"), std::string::npos) << text;
  }
}

TEST_F(ChartTest, ARunWithoutATraceHasAReportToo) {
  Run("a", 1, 2, 0);
  fs::remove(home_ / "a" / "trace.jsonl");
  const auto groups = GroupRuns({home_ / "a"});
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ(MarkupProblem(ReportHtml(*groups, {.version = "1", .band = Band::kNone})), "");
}

}  // namespace
}  // namespace tacit
