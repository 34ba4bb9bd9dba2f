#pragma once

// The trace of a run as columns.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tacit {

// Columns are named by the keys of trace.jsonl: round, epsilon, sigma, bytes_up, bytes_down, answered,
// step_size, clip; every metric by its own name; other nested keys as "missed.absent". All columns are
// equally long, in the order of the rounds; NaN where a line has no such number.
struct Trace {
  std::vector<std::string> names;
  std::vector<std::vector<double>> columns;
  std::uint64_t next_offset = 0;  // bytes read: where to go on when a run has written more
  std::string last_line = {};     // of those that were read, the end of line included
  bool from_start = true;         // these rows begin with the run's first one
  std::size_t rows() const { return columns.empty() ? 0 : columns.front().size(); }
  const std::vector<double>* column(std::string_view name) const;  // nullptr: none
};

// Of these lines, each with its end; one that cannot be understood, or has no figure, is passed over.
Trace ParseTrace(std::string_view lines);
// Reads whole lines; a line that is still being written is left for the next call, one that cannot be
// understood is passed over. After `before`, what it holds is left out; but a file that no longer has its
// last line where it was, because its run went on from an earlier checkpoint, is read from the beginning. No
// file yet: no rows.
Result<Trace> ReadTrace(const std::filesystem::path& folder, const Trace& before = {});
// The rows of `more` after those of `trace`; columns that one of them lacks are NaN there.
void Append(Trace& trace, const Trace& more);
// The last whole line only, however long the trace is; no rows if there is none.
Result<Trace> ReadLastOfTrace(const std::filesystem::path& folder);

}  // namespace tacit
