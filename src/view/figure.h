#pragma once

// Pictures and verdicts of published figures that were run again (experiment/reproduce.h).
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiment/reproduce.h"
#include "view/chart.h"

namespace tacit {

// One published figure, and what came of it.
struct FigureRecord {
  Figure figure;
  std::vector<std::string> metrics;  // of the sweep; the first one is drawn
  SweepResult result;
  std::vector<Verdict> verdicts;  // as figure.claims
  bool quick = false;
};

// Finished runs only; never runs anything. Nothing (an error with kNotFound) if no run is finished.
Result<FigureRecord> StoredFigure(const Figure&, const Sweep&, bool quick);
FigureRecord MakeRecord(const Figure&, const Sweep&, SweepResult, bool quick);

// An axis of numbers goes to the right (rounds before ε before any other), every other axis names the curves;
// an axis that a claim calls tuned is taken at its best, as the claim does, and so are cases that a claim
// names together ("fedexp*"). Metrics after several rounds ("error@10", "error@50") go over the rounds.
// Without an axis of numbers, a point per line. Where a figure names a metric to be drawn against, that goes
// to the right, and values of an axis of words that differ in their numbers alone ("top:0.1+round:2") are a
// curve. Bars and bands are ± one standard deviation over the seeds.
std::string FigureSvg(const FigureRecord&, ChartSize = {640, 340});

// The smallest and the largest certified ε of the runs; ∞ is possible. NaN: none is known.
std::pair<double, double> CertifiedRange(const FigureRecord&);
std::string CertifiedText(const FigureRecord&);  // "ε ≤ 2", "ε ≤ 0.5 to 8", "∞: nothing is certified"
std::string CertifiedText(const Verdict&);  // "ε ≤ 2", "ε ≤ 2 / 4" of a ratio, "∞"; "–" where nothing was run
std::string ErrorText(const Verdict&);  // whether it is within error, and by how many standard errors

// The claims with published and own figures, as Markdown, and as JSON.
std::string VerdictMarkdown(const FigureRecord&);
nlohmann::json ToJson(const FigureRecord&);
// One page of many figures: a line of a table, and a section with the picture at
// `pictures`/<paper>-<figure>.svg relative to the page. Entries are read back from a page, so that figures
// run elsewhere keep theirs.
struct GalleryEntry {
  std::string anchor;  // "primal-dual-fig2"
  std::string line, section;
};
GalleryEntry MakeEntry(const FigureRecord&, const std::string& pictures);
void Put(std::vector<GalleryEntry>&, GalleryEntry);  // in the order of anchors; replaces its like
std::vector<GalleryEntry> GalleryEntries(
    std::string_view page);  // of GalleryMarkdown; what it cannot read is left out
std::string GalleryMarkdown(const std::vector<GalleryEntry>&, const std::vector<NotReproduced>& = {});
std::string FlatName(const Figure&);  // "primal-dual-fig2"

}  // namespace tacit
