#pragma once

// Releases written down as JSON, what `tacit account events` reads:
//
//   {"adjacency": "add-remove", "delta": 1e-5,
//    "events": [{"type": "poisson-gaussian", "noise_multiplier": 1, "rate": 0.01, "count": 1000},
//               {"type": "laplace", "epsilon": 0.1}]}
//
// The types and their keys are in docs/events.md. A key that a type does not have is an error: a misspelt
// count that was passed over would be an ε that is too small.
#include <optional>
#include <string>
#include <string_view>

#include "privacy/accountant.h"

namespace tacit {

struct EventFile {
  Accountant account;
  std::optional<Delta> delta;  // if the file names one
};

// `name` is that of the file, for messages. `adjacency`: what the caller asks for, which must be the file's
// if that names one. With neither, files of Poisson samples alone are add-remove, files without them
// replace-one; of a mixture the adjacency must be said.
Result<EventFile> ParseEvents(std::string_view text, const std::string& name,
                              std::optional<Adjacency> adjacency = std::nullopt);

// The account as such a file. ParseEvents reads an equal account from it, bit for bit, if its whole numbers
// are within what a file may hold.
std::string WriteEvents(const Accountant&, std::optional<Delta> delta = std::nullopt);

Result<Adjacency> ParseAdjacency(std::string_view name);
// A number of releases: whole, from 1 to 10¹⁵; above, not every whole number is a double.
Result<std::uint64_t> ParseCount(double count, const char* name);

}  // namespace tacit
