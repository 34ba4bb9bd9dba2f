#pragma once

// A search that is paid for: every point of a grid is a certified run of its own on the same data, and the
// promise of the file holds for all of them together.
//
// K candidates have the μ of (ε, δ) divided by √K each; runs compose to √(Σ μ_k²) whatever was seen of the
// earlier ones, exactly (Dong, Roth, Su 2022). The choice reads released models and the test data, which the
// operator declares public, so it is free: all models of the search and the choice are (ε, δ)-DP together.
// The certificate of each run is of that run; `search.json` beside the chosen model states the whole.
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiment/run.h"
#include "experiment/sweep.h"

namespace tacit {

struct Candidate {
  std::vector<Value> at;           // one value per axis
  std::string run;                 // its folder's name
  std::filesystem::path folder;
  double mu = 0, epsilon = 0;      // as certified
  double score = 0;                // the metric
  std::string certificate_sha256;
};

struct TuneResult {
  std::vector<Axis> axes;
  std::vector<Candidate> candidates;  // those that ran, in grid order
  std::size_t planned = 0;            // candidates of the grid
  std::string metric;                 // loss or accuracy
  std::size_t chosen = 0;  // the first of the best; of a search that was interrupted: of no meaning
  double asked = 0;  // ε of the file
  double delta = 0, mu = 0, epsilon = 0;  // of all of them together, upper bounds
  bool interrupted = false;
};

struct TuneHooks {
  std::function<void(const Candidate*, std::size_t done, std::size_t all, const Progress*)> progress;
  const std::atomic<bool>* interrupt = nullptr;
  unsigned threads = 0;
};

// One run after the other, by the file's [sweep.grid]; its seeds are not used. metric: "loss" (smallest) or
// "accuracy" (largest), on data.test. Refuses what the argument above does not cover: a grid that changes the
// data or the promise, no public test data, paper mode, runs without noise, and releases that are not
// Gaussian-DP.
Result<TuneResult> Tune(const Sweep&, const std::string& metric, const TuneHooks& = {});

nlohmann::json ToJson(const TuneResult&);  // search.json

}  // namespace tacit
