#pragma once

// Shared by sweep and reproduce.
#include "cli.h"
#include "experiment/sweep.h"

namespace tacit::cli {

// Runs a sweep with a progress bar. made: SweepHooks.
Result<SweepResult> RunWithProgress(const Common&, const Sweep&, unsigned jobs, bool fresh,
                                    Ranks* ranks = nullptr, MadeResults* made = nullptr);
// One line per grid point: the axes, the seeds, mean ± std of the metrics.
void PrintSweep(const Sweep&, const SweepResult&);

}  // namespace tacit::cli
