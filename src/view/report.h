#pragma once

// A report on runs: one HTML file that needs nothing else, neither network nor scripts.
#include <filesystem>
#include <string>
#include <vector>

#include "view/chart.h"
#include "view/curves.h"

namespace tacit {

struct ReportOptions {
  std::string version;            // of the program that writes it
  Band band = Band::kRange;
};

// Learning curves, ε against the budget, noise, step sizes, traffic and participation where they were traced;
// step sizes in words too; final figures; claimed and certified ε side by side with the certificates; the
// resolved configs; and how to run it again. Several experiments are compared. Everything that comes from
// files is escaped.
std::string ReportHtml(const std::vector<RunGroup>&, const ReportOptions&);

// The charts of such a report, in its order.
std::vector<Chart> ReportCharts(const std::vector<RunGroup>&, Band);

// The frame of a page in the report's style, around a body that is HTML already. `title` is text.
std::string HtmlPage(const std::string& title, const std::string& body);

}  // namespace tacit
