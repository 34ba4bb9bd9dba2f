#pragma once

// A sweep: one experiment file run at every point of a grid and with several seeds, in parallel,
// resumable, with mean and spread over the seeds at each point.
//
//   [sweep]
//   seeds = 20                       # counts up from experiment.seed; or a list
//   metrics = ["optimality"]         # the columns of the table; default: all that apply. "loss@50": after
//                                    # round 50, if experiment.trace_every has it traced
//   [sweep.grid]                     # axes: any key of an experiment file, with a list of values
//   algorithm.allocation = ["dynamic", "static"]
//   algorithm.rounds = [1000, 2000]
//   [[sweep.case]]                   # or keys that change together: the first axis, named "case"
//   name = "small steps"
//   algorithm.local_rate = 0.01
//   privacy.clip = 3
//   seeds = 1                        # the first so many of the sweep's seeds; default: all
//   [quick]                          # what --quick changes: seeds, grid, or any key of the file
//   seeds = 3
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/option.h"
#include "core/result.h"
#include "experiment/config.h"
#include "experiment/run.h"

namespace tacit {

struct Axis {
  std::string key;                     // "algorithm.rounds"
  std::vector<Value> values;
};

// Values that belong together; the values of the axis "case" are their names.
struct Case {
  std::string name;
  std::vector<std::pair<std::string, Value>> sets;
  std::size_t seeds = 0;               // so many of the sweep's; 0: all
};

struct Sweep {
  Config base;
  std::vector<Case> cases;
  std::string name;
  std::filesystem::path folder;        // <experiment.output>/<name>; holds results.jsonl
  std::vector<Axis> axes;
  std::vector<std::size_t> seeds;
  std::vector<std::string> metrics;    // empty: all that apply
};

// A key in `sets` that is an axis pins the axis to that value.
Result<Sweep> LoadSweep(const std::filesystem::path& file, const std::vector<Assignment>& sets,
                        bool quick = false);

// One run of a sweep.
struct Cell {
  Config config;                       // resolved, seed included
  std::vector<Value> at;               // one value per axis
  std::size_t seed = 0;
  std::string id;                      // CellId(config)
};
// The product of the axes (the last one runs fastest) with the seeds. Every value is checked.
Result<std::vector<Cell>> Cells(const Sweep&);
// A hash of this version and all that decides a run's result: every key but those of [runtime] and
// experiment.name, output, reserve, checkpoint and ledger; neither the build nor what is in files.
std::string CellId(Config);

struct SweepProgress {
  std::size_t cells = 0, done = 0, resumed = 0;    // resumed: found, here or elsewhere; done: and those
  double fraction = 0;                 // of the rounds this call has to run
  double seconds = 0;                  // since it began
};

// What sweeps have run, by cell: the result as JSON, and the file that it was written to.
struct MadeResult {
  std::string result, file;
};
using MadeResults = std::unordered_map<std::string, MadeResult>;

using Runner = std::function<Result<RunResult>(const Config&, const TrainHooks&)>;

struct SweepHooks {
  unsigned jobs = 0;                   // cells at a time, one thread each; 0: one per core
  bool fresh = false;                  // forget results of earlier calls
  std::function<void(const SweepProgress&)> progress;    // from any worker, one at a time
  const std::atomic<bool>* interrupt = nullptr;          // set: stop; finished cells stay
  Runner run = &Train;
  // Of sweeps of this process. A cell of this one that is there is copied, and what this one runs is added:
  // not what it finds in its file, which may be of another build, or of other data.
  MadeResults* made = nullptr;
  // The processes that share the cells; all call RunSweep with the same sweep. Rank 0 has the results, and
  // the others get none.
  Ranks* ranks = nullptr;
};

struct Summary {  // over the seeds
  double mean = 0, std = 0;  // std: of the sample, n − 1; 0 for one seed
  std::size_t count = 0;
};
struct GridPoint {
  std::vector<Value> at;
  std::size_t seeds = 0;  // finished
  std::map<std::string, Summary>
      metrics;  // those of `train --json`, and certified_epsilon, seconds, bytes_up, bytes_down
};
struct SweepResult {
  std::vector<Axis> axes;
  std::vector<GridPoint> points;  // in grid order; a point without a finished seed is left out
  std::size_t cells = 0, ran = 0, resumed = 0;
  bool interrupted = false;
  std::filesystem::path file;  // results.jsonl
};

// Runs the cells that neither results.jsonl nor hooks.made holds yet. Each finished cell is one line
// there, durable before the next begins on that worker; a line torn by a crash is dropped and run again. Two
// sweeps cannot write one file at once.
Result<SweepResult> RunSweep(const Sweep&, const SweepHooks& = {});

bool SameValue(const Value&, const Value&);  // 1 and 1.0 are the same
nlohmann::json ToJson(const Value&);
nlohmann::json ToJson(const SweepResult&);

}  // namespace tacit
