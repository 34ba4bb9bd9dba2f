#pragma once

// From a config to a trained model with a certificate.
#include <atomic>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/vec.h"
#include "experiment/config.h"
#include "experiment/plan.h"
#include "experiment/releases.h"
#include "runtime/answers.h"

namespace tacit {

class Ranks;

// Metrics that apply to a run; each is absent where it does not.
struct Metrics {
  std::optional<double> loss, accuracy;                  // on the test set, or through the oracle
  std::optional<double> optimality, consensus;  // oracle only; consensus without a server: of notes
  std::optional<double> error;  // without a server: normalised error, oracle only
  std::optional<double> primal_residual, dual_residual;  // without a server: of notes (network.h)
  std::optional<double> train_loss, train_accuracy;  // oracle only
  std::optional<double> step_size;  // η_g of the last round, where it is adaptive
  std::optional<double> mean_square;  // and the estimate of (1/M) Σ‖Δ_i‖² it comes from
  std::optional<double> tail_accuracy, tail_loss;  // means over the last experiment.tail rounds
};

struct Progress {
  std::uint32_t round = 0;
  std::size_t rounds = 0;
  double epsilon = 0;  // spent so far (largest over clients), upper bound; ∞ if not private
  double seconds = 0;
  const Metrics* metrics = nullptr;  // set when this round was traced
  bool planned = false;  // epsilon is that of the whole plan, paid for in advance
};

struct TrainHooks {
  std::function<void(const Plan&)> planned;  // before any data is touched
  std::function<void(const Progress&)> progress;  // after every round; must be cheap
  const std::atomic<bool>* interrupt = nullptr;  // set: stop after this round, with a valid certificate
  unsigned threads = 0;  // 0: as the config says; changes nothing in the result
  bool write_folder = true;  // false: results only (sweeps keep no folders)
  bool measure = true;  // false: neither metrics nor ε along the way, for whoever makes many short runs
  std::optional<std::uint64_t> noise_seed;  // of replayable noise; none: named by the run and its data
  // The released numbers of every message that a client sends, in the order of its fields; by several threads
  // at once, where there are several.
  std::function<void(std::uint32_t client, View released)> saw;
  // The processes of a run that is divided between several (runtime/ranks.h); all call Train or Resume with
  // the same config. Rank 0 gets the result, the others an empty one; folder, progress and metrics are rank
  // 0's.
  Ranks* ranks = nullptr;
};

struct RunResult {
  std::string run;  // name of the folder and of the ledger entry
  std::filesystem::path folder;  // empty if none was written
  // Of a network whose peers are elsewhere: the name and place of the one whose model and ledger these are.
  std::optional<std::pair<std::string, std::uint32_t>> peer;
  std::string trusted_server;  // of clients elsewhere who trust it: the name in its certificate
  Plan plan;
  std::size_t rounds_done = 0;
  bool interrupted = false;
  Metrics metrics;
  double mu = 0, certified_epsilon = 0, certified_epsilon_lower = 0;
  std::vector<Releases> releases;  // what the figures above follow from
  std::optional<double> claimed_epsilon;
  bool replayable = false;
  std::vector<std::string> oracle_metrics;
  std::size_t bytes_up = 0, bytes_down = 0;
  Answers answers;  // of all rounds
  double seconds = 0;  // training alone
  unsigned threads = 1;  // of each rank
  unsigned ranks = 1;
  Vec model;
  std::string model_sha256;
  std::vector<std::pair<std::uint32_t, Metrics>> trace;
};

Result<RunResult> Train(const Config&, const TrainHooks& = {});

// Goes on with a run that was stopped or killed, from its last checkpoint, bit for bit as if it had not been;
// from the first round where it has none, since nothing had left. `sets` may change runtime.* only.
Result<RunResult> Resume(const std::filesystem::path& folder, const std::vector<Assignment>& sets = {},
                         const TrainHooks& = {});
// The config Resume goes on with, or why it cannot: no run, or a finished one.
Result<Config> ConfigToResume(const std::filesystem::path& folder, const std::vector<Assignment>& sets);

// The cumulative ledger of runs whose config names none: $TACIT_LEDGER, or ledger.db among the run folders.
std::filesystem::path DefaultLedger(const std::filesystem::path& output);

// {"algorithm": …, "mode": …, "rounds": …, "metrics": {…}, "privacy": {…}, …}: what `train --json` prints.
nlohmann::json ToJson(const RunResult&, const Config&);
nlohmann::json ToJson(const Plan&);
nlohmann::json ToJson(const Metrics&);
Metrics MetricsOf(const nlohmann::json&);  // of a line of the trace
// How many messages a round or a run went without, and why: absent, wrong_length, not_finite. Empty: none.
nlohmann::json Missed(const Answers&);
// Who takes part, and what a run pays for as a whole; null where everyone does, or accounts are filters.
nlohmann::json SamplingJson(const Plan&);
nlohmann::json AccountJson(const Plan&);
nlohmann::json WeightsJson(const Plan&);  // null: all the same; its figures are null before they are known
nlohmann::json MaskedJson(const Plan&);  // null: sums are not masked
nlohmann::json NetworkJson(const Plan&);  // null: there is a server
nlohmann::json FeedbackJson(const Plan&);  // null: no error feedback; without the theory's figures
nlohmann::json SecondOrderJson(const Plan&);  // null where rounds are not on samples of records
std::string PlanEvents(const Plan&);  // the events as a file (event_json.h); empty without an account

// The certificate, as JSON and as text for people who sign.
nlohmann::json Certificate(const RunResult&, const Config&);
std::string CertificateJson(const nlohmann::json& certificate);  // the bytes of certificate.json
std::string CertificateText(const nlohmann::json& certificate);

// A finished run, read back from its folder.
struct SavedRun {
  std::filesystem::path folder;
  Config config;
  Vec model;
};
Result<SavedRun> OpenRun(const std::filesystem::path& folder);

// Predictions of a saved model on new data, row-major with `outputs` columns, and its metrics where
// labels allow them. `source` as in data.source; preprocessing is the run's own.
struct Evaluation {
  std::size_t rows = 0, outputs = 0;
  Vec scores;
  Metrics metrics;
};
Result<Evaluation> Evaluate(const SavedRun&, const std::string& source,
                            const std::vector<Assignment>& data_sets);

}  // namespace tacit
