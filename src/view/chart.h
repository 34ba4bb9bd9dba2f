#pragma once

// Charts: as SVG, written here, and as PNG or PDF, which gnuplot draws.
#include <optional>
#include <string>
#include <vector>

#include "view/curves.h"

namespace tacit {

struct Rule {  // a horizontal line, e.g. the budget
  double y = 0;
  std::string label;
};
struct Chart {
  std::string title, description;  // for people who hear it, and for whoever meets the file alone
  std::string x_label, y_label;
  bool log_x = false, log_y = false;  // points at or below 0 are not drawn then
  std::vector<Curve> curves;
  std::vector<Rule> rules;
  std::string note;  // below the legend: what the bands are
  bool markers = false;  // a dot at every point, for curves of few
  bool epsilon_x = false,
       epsilon_y = false;  // what goes that way is an ε, and is rounded up where it is printed
};

struct ChartSize {
  int width = 720, height = 400;
};

// Curves are told apart by colours that colour-blind people can tell apart and by dashes. Alone, the file has
// its own style, for light and dark; within a page it takes the page's (ChartStyle), and `id` must be unique
// there. At most 1,000 points a curve are drawn, extremes kept. All text is escaped.
std::string ChartSvg(const Chart&, ChartSize = {});
std::string ChartInPage(const Chart&, const std::string& id, ChartSize = {});
// Curves of one point each as lines of a list: the label, and a dot at y with a bar from low to high. The x
// of points do not matter; log_y is the axis, which goes to the right here.
std::string DotsSvg(const Chart&, int width);
std::string ChartStyle(const std::string& root);  // CSS; root: the selector that gets the colours

// The bytes of a PNG or PDF. An error names the Debian package where there is no gnuplot.
enum class Picture { kPng, kPdf };
Result<std::string> ChartByGnuplot(const Chart&, Picture, ChartSize = {});
// What gnuplot is told: numbers, and texts as its single-quoted strings, in which nothing is expanded.
std::string GnuplotScript(const Chart&, Picture, ChartSize);

// The points as a table, at most `rows` per curve, evenly thinned.
std::string ChartTable(const Chart&, std::size_t rows);

// Ticks of an axis from low to high, some six of them (for tests).
std::vector<double> LinearTicks(double low, double high, int about = 6);
std::string TickText(double value, double step);

}  // namespace tacit
