#pragma once

// tacit audit: attacks a configured run and says what was found, beside what is certified.
//
// The certified ε bounds every attacker from above; an attack that succeeds bounds ε from below. The attack
// is made on the run itself (arena.h), on data sets that the auditor made up, by likelihood ratios, or by a
// linear score that is learned from runs and knows nothing of how the noise was made: it finds noise that is
// shared between releases. Which score and which thresholds is decided by the first runs; the others are
// judged by them, so that Clopper–Pearson bounds hold as they are (statistics.h).
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "audit/arena.h"
#include "audit/statistics.h"

namespace tacit {

struct AuditProgress {
  std::uint64_t done = 0, all = 0;  // runs
  double seconds = 0, left = 0;  // left: at the speed so far
};

struct AuditOptions {
  std::uint32_t explore = 2000, measure = 8000;  // runs in each world: to choose by, and to judge
  double alpha = 0.05;  // one of the bounds, of ε and of μ, is wrong with at most this probability
  std::uint64_t seed = 42;
  // Where an audit stands between two runs, so that one that was killed goes on; it is never half written.
  // Empty: nowhere.
  std::filesystem::path state;
  std::function<void(const AuditProgress&)> progress;
  const std::atomic<bool>* interrupt = nullptr;
};

// How sure one must be to say that a promise is broken: a bound that is exceeded at alpha is no news among
// twenty audits.
inline constexpr double kBeyondDoubt = 1e-4;
// The same in one run, whose bound is never surer than a few δ.
inline constexpr double kBeyondDoubtInOneRun = 1e-3;

struct AuditReport {
  std::string algorithm, mode, unit, adjacency, mechanism, trust, canary, attack;
  std::size_t rounds = 0, clients = 0, dim = 0;
  double delta = 0;
  double certified = kInf;  // ε
  double certified_mu = kInf;  // ∞: the certificate is of no Gaussian-DP
  std::optional<double> claimed;  // ε that the paper claims
  std::string claim_source;
  double reach = 0;  // how far the canary moves what is released, over what is charged; 0: not known
  double most_reach = 0;  // the same by the run in which it went furthest; more than 1: too little is charged
  double noise = 1;  // std of what was added over what is stated; 1 also where that is not known
  double chance_of_so_little = 1, shared_noise = 0;  // as in statistics.h
  double rate = 1;  // of secret samples; 1: there are none
  std::uint64_t sampled_rounds = 0, drawn = 0;  // rounds and drawn of all sightings (arena.h)
  Counts tail, middle;  // at the thresholds that promised the best bounds of ε and of μ
  double epsilon = 0;  // measured: at least, whatever the mechanism is
  double mu = 0;  // measured: at least
  double gaussian_epsilon = 0;  // ε of that μ, if the trade-off is Gaussian as the certificate has it
  double doubtless_epsilon = 0, doubtless_mu = 0;  // the same at kBeyondDoubt
  double alpha = 0.05;  // of the measured figures together
  double seconds = 0;
  std::uint64_t runs = 0;

  bool gaussian() const { return certified_mu < kInf; }
  // The measured ε that stands beside the certified one.
  double measured() const { return gaussian() ? std::max(epsilon, gaussian_epsilon) : epsilon; }
  // Whether a run's releases were further apart in the two worlds than its ledger was charged for. That is no
  // matter of chance.
  bool overdrawn() const { return certified < kInf && most_reach > 1 + 1e-9; }
  // Whether the unit was in secret samples more often than at their rate, beyond doubt.
  bool drawn_too_often() const {
    return certified < kInf && ClopperPearsonLower(drawn, sampled_rounds, kBeyondDoubt / 8) > rate;
  }
  // Whether less noise was added than is stated, or the same noise to several releases, beyond doubt.
  bool noise_short() const {
    return certified < kInf && (chance_of_so_little < kBeyondDoubt / 4 || std::abs(shared_noise) > 5);
  }
  // Whether what is certified, or claimed, was disproved beyond doubt.
  bool broken() const {
    return overdrawn() || noise_short() || drawn_too_often() || doubtless_epsilon > certified ||
           (gaussian() && doubtless_mu > certified_mu);
  }
  bool claim_broken() const { return claimed && doubtless_epsilon > *claimed; }
  // The same if the trade-off is Gaussian, as it is certified to be at most.
  bool claim_broken_if_gaussian() const;
  bool certain() const {  // no error in any run
    return middle.above0 == 0 && middle.above1 == middle.runs1 && middle.runs1 > 0;
  }
};

// config: as ForAudit makes it. An error with Code::kInterrupted if it was interrupted; the state is kept.
Result<AuditReport> Audit(const Config& config, const AuditOptions&, Variation = {});
nlohmann::json ToJson(const AuditReport&);

// The same from one run (Steinke, Nasr, Jagielski 2023): m clients, each with a canary of its own.
struct OneRunReport {
  std::uint64_t clients = 0, guesses = 0, right = 0;  // m, r and v of the best of a few r
  double certified = kInf, delta = 0;
  double epsilon = 0;  // at least, at alpha
  double doubtless_epsilon = 0;  // at kBeyondDoubtInOneRun
  double seconds = 0;
  bool broken() const { return doubtless_epsilon > certified; }
};
Result<OneRunReport> AuditInOneRun(const Config& config, std::uint32_t clients, const AuditOptions&,
                                   Variation = {});
nlohmann::json ToJson(const OneRunReport&);

// A config with everything that matters to its guarantee, and little else: few clients, short rows made up by
// the auditor, at most `rounds` rounds, replayable noise. `changes` says what is not as it was.
Result<Config> ForAudit(const Config&, std::size_t rounds, std::vector<std::string>& changes);

// Every algorithm in every mode, as small configs.
struct Subject {
  std::string name, text;
};
const std::vector<Subject>& Subjects();

}  // namespace tacit
