#pragma once

// Runs as curves: those that differ in nothing but the seed are one curve, with a band.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "view/runs.h"
#include "view/settings.h"
#include "view/trace.h"

namespace tacit {

// Runs of one experiment, with one seed each.
struct RunGroup {
  std::string label;  // what tells it from the other groups, e.g. "fedexp, epsilon = 2"; else its name
  std::vector<RunSummary> runs;
  std::vector<Trace> traces;
  Settings settings;  // of the first run
  std::vector<std::string> legend = {};  // the keys that were asked for
};
// In the order of the folders; a folder that is named twice counts once. `legend`: the keys that labels name;
// none: as LabelsOf chooses.
Result<std::vector<RunGroup>> GroupRuns(const std::vector<std::filesystem::path>& folders,
                                        const std::vector<std::string>& legend = {});

// A label for each, no two alike unless their names are. They name `legend`, or what differs among these
// groups: as many keys as tell apart all that differ, and four where there are so many. So where two differ
// in one key alone, both name it.
std::vector<std::string> LabelsOf(const std::vector<const RunGroup*>&,
                                  const std::vector<std::string>& legend = {});

// What a word on the command line means: rounds → round, bytes → both directions, anything else as it is.
std::string ColumnName(std::string_view word);
std::string AxisLabel(std::string_view column);  // "bytes sent and received"
// The same, with a word about oracles where a run has the column from one.
std::string AxisLabel(std::string_view column, const std::vector<RunGroup>&);
// Of a trace; "bytes" is the sum of both directions. nullptr-like empty: the trace has no such column.
std::vector<double> ColumnOf(const Trace&, std::string_view column);
// Names of columns that some trace of the groups has, "bytes" included; in the order of the traces.
std::vector<std::string> ColumnsOf(const std::vector<RunGroup>&);

enum class Band { kNone, kRange, kStd };  // smallest to largest; mean ± the standard deviation of the sample
const char* Describe(Band);

// Points in their order; low and high are empty, or as long as y.
struct Curve {
  std::string label;
  std::vector<double> x, y, low, high;
  std::size_t seeds = 1;  // that have such points
  std::string note = {};  // of what is not drawn: seeds that end early or have none, an ε that is infinite
};
// The mean of column y over the group's seeds against that of column x, at the rounds that all have traced
// which have traced any. Empty if none has both columns.
Curve CurveOf(const RunGroup&, std::string_view x, std::string_view y, Band);

// A table for people: cells are text as it is, not escaped.
struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};
// One line per group: what differs, seeds, rounds, ε claimed and certified (rounded up), δ, and the final
// metrics, mean ± standard deviation over the seeds. Metrics: those named, or, if none is, all there are.
TextTable FinalTable(const std::vector<RunGroup>&, const std::vector<std::string>& metrics);
std::string ToMarkdown(const TextTable&);
std::string ToTex(const TextTable&);  // a tabular
std::string ToHtml(const TextTable&, const std::string& caption);

// ε as text, never below it; "∞" where nothing is promised.
std::string EpsilonShown(double);

}  // namespace tacit
