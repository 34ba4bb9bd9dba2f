#pragma once

// For tests: short runs with clients as the unit of privacy.
#include "experiment/test_runs.h"

namespace tacit {

class ClientRuns : public TestRuns {
 protected:
  explicit ClientRuns(Sets base = {})
      : TestRuns(R"(
[data]
source = "synthetic-logistic"
rows = 400
features = 6
clients = 20
density = 1.0
[privacy]
epsilon = 2
delta = 1e-4
unit = "client"
clip = 0.5
noise = "replayable"
[algorithm]
name = "fedexp"
rounds = 30
local_steps = 4
local_rate = 0.5
)",
                 std::move(base)) {}
};

}  // namespace tacit
