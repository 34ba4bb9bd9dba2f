#pragma once

// What an attacker recovers from a run, with its noise and without: shown to people in the report of an
// audited run. The rows are the auditor's own, as everywhere in audit/.
#include <nlohmann/json_fwd.hpp>

#include "audit/audit.h"

namespace tacit {

struct Recovery {
  // Was the canary the one or the other? Guesses by likelihood, and how many are right. Of 0 guesses nothing
  // is known: PrivUnit has no run without noise.
  std::uint64_t guesses = 0, right_without = 0, right_with = 0;
  // A picture as the only record of a client, and what can be seen of it in all releases together: the
  // gradient of one record in the weights of a first layer is a multiple of the record. Each side² numbers,
  // from 0 (dark) to 1; empty where a row has no picture's place.
  std::size_t side = 0;
  Vec picture, without, with;
  double likeness_without = 0, likeness_with = 0;  // correlation with the picture
};

// config: as ForAudit makes it.
Result<Recovery> Recover(const Config& config, std::uint64_t seed);
nlohmann::json ToJson(const Recovery&);

}  // namespace tacit
