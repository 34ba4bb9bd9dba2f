#include "view/figure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "view/markup_test.h"

namespace tacit {
namespace {

Value Whole(std::int64_t v) { return v; }
Value Text(const char* v) { return std::string(v); }

FigureRecord Record(std::vector<Axis> axes, std::vector<GridPoint> points, std::vector<std::string> metrics) {
  FigureRecord r;
  r.figure = {
      .name = "paper/fig<1>", .file = {}, .title = "A \"title\" & more", .paper = "Somebody", .claims = {}};
  r.metrics = std::move(metrics);
  r.result.axes = std::move(axes);
  r.result.points = std::move(points);
  r.result.cells = 4;
  return r;
}

GridPoint Point(std::vector<Value> at, std::map<std::string, Summary> metrics) {
  return {.at = std::move(at), .seeds = 2, .metrics = std::move(metrics)};
}

TEST(FigureSvg, PutsNumbersToTheRightAndOtherAxesIntoTheLegend) {
  const FigureRecord r =
      Record({{"algorithm.name", {Text("<b>"), Text("b")}}, {"algorithm.rounds", {Whole(10), Whole(20)}}},
             {Point({Text("<b>"), Whole(10)}, {{"loss", {1, 0.1, 2}}}),
              Point({Text("<b>"), Whole(20)}, {{"loss", {0.5, 0.1, 2}}}),
              Point({Text("b"), Whole(10)}, {{"loss", {2, 0.1, 2}}})},
             {"loss"});
  const std::string svg = FigureSvg(r);
  EXPECT_EQ(MarkupProblem(svg), "");
  EXPECT_NE(svg.find(">rounds<"), std::string::npos);
  EXPECT_NE(svg.find("&lt;b&gt;"), std::string::npos);
  EXPECT_NE(svg.find("class=\"band"), std::string::npos);
}

TEST(FigureSvg, TakesTunedAxesAtTheirBest) {
  FigureRecord r =
      Record({{"case", {Text("fast, 1"), Text("fast, 2")}}, {"algorithm.rounds", {Whole(10), Whole(20)}}},
             {Point({Text("fast, 1"), Whole(10)}, {{"loss", {1, 0, 1}}}),
              Point({Text("fast, 1"), Whole(20)}, {{"loss", {0.5, 0, 1}}}),
              Point({Text("fast, 2"), Whole(10)}, {{"loss", {0.75, 0, 1}}}),
              Point({Text("fast, 2"), Whole(20)}, {{"loss", {3, 0, 1}}})},
             {"loss"});
  PublishedClaim claim;
  claim.metric = "loss";
  claim.tuned = {"case"};
  claim.at = {{"case", Text("fast*")}};
  r.figure.claims.push_back(claim);
  r.verdicts.push_back({Verdict::Kind::kHolds, "1 | 2"});
  const std::string svg = FigureSvg(r);
  EXPECT_NE(svg.find("fast, best: 0.75 to 0.5"), std::string::npos) << svg;
  EXPECT_NE(VerdictMarkdown(r).find("1 \\| 2"), std::string::npos);
}

TEST(FigureSvg, DrawsAMetricAgainstAnother) {
  const auto point = [](const char* name, const char* compressor, double bytes, double accuracy) {
    return Point({Text(name), Text(compressor)},
                 {{"accuracy", {accuracy, 0.01, 2}}, {"bytes_up", {bytes, 0, 2}}});
  };
  FigureRecord r = Record(
      {{"case", {Text("a"), Text("b")}},
       {"algorithm.compressor", {Text("top:0.1+round:2"), Text("top:0.4+round:2"), Text("top:0.1/8")}}},
      {point("a", "top:0.4+round:2", 4e6, 0.75), point("a", "top:0.1+round:2", 1e6, 0.5),
       point("a", "top:0.1/8", 2e6, 0.625), point("b", "top:0.1/8", 9e9, 0.1)},
      {"accuracy", "bytes_up"});
  r.figure.against = "bytes_up";
  r.figure.drawn = "a";
  const std::string svg = FigureSvg(r);
  EXPECT_EQ(MarkupProblem(svg), "");
  EXPECT_NE(svg.find(">MB sent by the clients<"), std::string::npos) << svg;
  EXPECT_NE(svg.find("top+round: 0.5 to 0.75; top/8: 0.625"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("0.1\""), std::string::npos);
  r.figure.drawn = "";
  EXPECT_NE(FigureSvg(r).find("b, top/8: 0.1"), std::string::npos);
}

TEST(FigureSvg, DrawsLinesOfDotsAndSeries) {
  const FigureRecord dots =
      Record({{"case", {Text("a"), Text("b")}}},
             {Point({Text("a")}, {{"claimed_epsilon", {1, 0, 1}}, {"certified_epsilon", {8, 0, 1}}}),
              Point({Text("b")}, {{"claimed_epsilon", {2, 0, 1}}, {"certified_epsilon", {INFINITY, 0, 1}}})},
             {"claimed_epsilon", "certified_epsilon"});
  const std::string svg = FigureSvg(dots);
  EXPECT_EQ(MarkupProblem(svg), "");
  EXPECT_NE(svg.find("a, certified"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  const FigureRecord series = Record(
      {{"case", {Text("a")}}}, {Point({Text("a")}, {{"error@10", {1, 0, 1}}, {"error@20", {0.1, 0, 1}}})},
      {"error@10", "error@20"});
  EXPECT_NE(FigureSvg(series).find(">rounds<"), std::string::npos);
}

TEST(FigureRecord, SaysWhatIsCertifiedAndNeverLess) {
  FigureRecord r = Record({}, {Point({}, {{"certified_epsilon", {1.99999999, 0, 1}}})}, {"loss"});
  EXPECT_EQ(CertifiedText(r), "ε ≤ 2");
  r.result.points.push_back(
      Point({}, {{"certified_epsilon", {INFINITY, INFINITY, 1}}}));  // as sweeps have it
  EXPECT_EQ(CertifiedText(r), "ε ≤ 2 to ∞");
  EXPECT_EQ(ToJson(r)["certified_epsilon"]["largest"], "inf");
  r.result.points.erase(r.result.points.begin());
  EXPECT_EQ(CertifiedText(r), "∞: nothing is certified");
  r.result.points = {Point({}, {{"certified_epsilon", {2, 1, 4}}})};  // 0.5, 2, 2, 3.5 may be its seeds
  EXPECT_EQ(CertifiedText(r), "ε ≤ 3.5");
  r.result.points.clear();
  EXPECT_EQ(CertifiedText(r), "unknown");
  EXPECT_EQ(MarkupProblem(FigureSvg(r)), "");
}

TEST(FigureRecord, ATableOfVerdictsHasErrorAndCertifiedRowByRow) {
  FigureRecord r = Record({}, {Point({}, {{"certified_epsilon", {2, 0, 1}}})}, {"loss"});
  using Kind = Verdict::Kind;
  for (const auto& [v, row] : std::vector<std::pair<Verdict, std::string>>{
           {{Kind::kHolds, "1 ± 0.1", 0.7, {2}}, "| 1 ± 0.1 | ✓ holds | yes, 0.7 s.e. | ε ≤ 2 |"},
           {{Kind::kFails, "x", 612.3, {0.5, 8}}, "| x | ✗ does not hold | no, 612 s.e. | ε ≤ 0.5 / 8 |"},
           {{Kind::kHolds, "x", {}, {HUGE_VAL}}, "| x | ✓ holds | not known | ∞ |"},
           {{Kind::kHolds, "x", HUGE_VAL, {8, 1, HUGE_VAL}},
            "| x | ✓ holds | no, nothing varies | ε ≤ 1 to ∞ |"},
           {{Kind::kUntested, "no run"}, "| no run | not tested | – | – |"},
           {{Kind::kHolds, "x", {}, {NAN, 1}}, "| x | ✓ holds | not known | unknown |"}}) {
    r.figure.claims.assign(1, {});
    r.verdicts = {v};
    EXPECT_NE(VerdictMarkdown(r).find(row), std::string::npos) << VerdictMarkdown(r);
  }
  r.verdicts = {{Kind::kHolds, "x", 0.5, {2, HUGE_VAL}}};
  const auto claim = ToJson(r)["claims"][0];
  EXPECT_EQ(claim["standard_errors_from_limit"], 0.5);
  EXPECT_EQ(claim["certified_epsilon"][1], "inf");
}

TEST(Gallery, SaysWhatIsMissingAndWhatIsOlder) {
  FigureRecord r = Record({}, {Point({}, {{"loss", {1, 0, 1}}})}, {"loss"});
  r.figure.name = "p/a";
  r.figure.claims.assign(1, {});
  r.verdicts = {{Verdict::Kind::kUntested, "no run"}};
  std::vector<GalleryEntry> entries = {MakeEntry(r, "gallery")};
  std::string page = GalleryMarkdown(entries, {{"p", "Fig. <9>", "its data | are not public"}});
  EXPECT_NE(page.find("its data \\| are not public |"), std::string::npos) << page;
  EXPECT_EQ(page.find("<9>"), std::string::npos);
  EXPECT_EQ(page.find("Tables of four columns"), std::string::npos);
  // What is missing belongs to no figure: it is not read back with the last.
  EXPECT_EQ(GalleryMarkdown(GalleryEntries(page)), GalleryMarkdown(entries));

  std::string& old = entries[0].section;
  const std::string columns = " | within error | certified |";
  old.replace(old.find(columns), columns.size(), " |");
  page = GalleryMarkdown(entries);
  EXPECT_NE(page.find("are not kept here: [p-a](#p-a)."), std::string::npos) << page;
}

TEST(Gallery, IsMarkdownWithEscapedNames) {
  const FigureRecord r =
      Record({}, {Point({}, {{"loss", {1, 0, 1}}, {"certified_epsilon", {1, 0, 1}}})}, {"loss"});
  const std::string page = GalleryMarkdown({MakeEntry(r, "gallery")});
  EXPECT_EQ(page.find("<1>"), std::string::npos) << page;
  EXPECT_NE(page.find("A &quot;title&quot; &amp; more"), std::string::npos);
}

TEST(Gallery, FiguresThatWereRunElsewhereKeepTheirPlace) {
  const FigureRecord one =
      Record({}, {Point({}, {{"loss", {1, 0, 1}}, {"certified_epsilon", {1, 0, 1}}})}, {"loss"});
  FigureRecord b = one, a = one, d = one;
  a.figure.name = "p/a";
  b.figure.name = "p/b";
  d.figure.name = "p/d";
  std::vector<GalleryEntry> entries;
  for (const FigureRecord* r : {&d, &a, &b}) Put(entries, MakeEntry(*r, "gallery"));
  const std::string page = GalleryMarkdown(entries);
  const std::vector<GalleryEntry> read = GalleryEntries(page);
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].anchor, "p-a");
  EXPECT_EQ(GalleryMarkdown(read), page) << "what is read back is what was written";

  std::vector<GalleryEntry> changed = read;
  b.quick = true;
  Put(changed, MakeEntry(b, "gallery"));
  ASSERT_EQ(changed.size(), 3u);
  EXPECT_NE(changed[1].line, read[1].line);
  EXPECT_EQ(changed[0].section, read[0].section);
  EXPECT_EQ(changed[2].section, read[2].section);
  EXPECT_TRUE(GalleryEntries("# Something else\n\n<a id=\"x\"></a>\n").empty());
}

}  // namespace
}  // namespace tacit
