#pragma once

// The verbs that show runs.
#include "cli.h"
#include "view/plot.h"

namespace tacit::cli {

void AddPlot(CLI::App&, Invocation&);
void AddReport(CLI::App&, Invocation&);
void AddWatch(CLI::App&, Invocation&);

// The runs that arguments name: run folders, their names below runs/, or folders that hold runs.
Result<std::vector<RunGroup>> GroupsNamed(const std::vector<std::string>& runs,
                                          const std::vector<std::string>& legend);

}  // namespace tacit::cli
