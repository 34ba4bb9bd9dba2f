#pragma once

// Columns of runs against each other, as a chart.
#include <string>
#include <vector>

#include "view/chart.h"
#include "view/curves.h"

namespace tacit {

struct PlotOptions {
  std::string x = "rounds", y = "loss";  // as ColumnName reads them
  std::string title = {};                // empty: of the axes
  Band band = Band::kRange;
  bool log_x = false, log_y = false;
  std::string x_flag = "--x", y_flag = "--y", log_y_flag = "--log-y";  // what messages call them
};
struct Plot {
  Chart chart;
  std::vector<std::string> left_out;  // labels of groups without a point that can be drawn
};
// An error if no run has a column that is asked for, or none a point that can be drawn.
Result<Plot> PlotRuns(const std::vector<RunGroup>&, const PlotOptions&);

Result<Band> BandNamed(const std::string&);  // range, std, none

}  // namespace tacit
