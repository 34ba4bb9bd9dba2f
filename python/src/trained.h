#pragma once

#include <string>
#include <utility>
#include <vector>

#include "experiment/run.h"

namespace tacit::python {

// A run that ended in this process, or was read back from its folder.
struct Trained {
  SavedRun saved;
  std::string result, certificate, plan;  // JSON
  bool interrupted = false;
  std::vector<std::pair<std::uint32_t, Metrics>> trace;
};
Trained Keep(RunResult, const Config&);

}  // namespace tacit::python
