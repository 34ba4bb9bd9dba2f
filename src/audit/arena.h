#pragma once

// Where a configured run meets its attacker: two neighbouring data sets, made up by the auditor to differ as
// much as the config allows, and the run itself on either, thousands of times with fresh noise. Plan,
// session, launcher, loop, runtime, algorithm, ledger and mechanism are those of `tacit train`.
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "audit/statistics.h"
#include "audit/tap.h"
#include "experiment/session.h"

namespace tacit {

// Something that is not as the certificate has it; for tests of the auditor. Empty: nothing.
struct Variation {
  std::function<std::unique_ptr<Mechanism>(std::unique_ptr<Mechanism>)> mechanism;
  std::function<std::unique_ptr<Objective>(std::unique_ptr<Objective>)> objective;
  bool sample_seen = false;  // secret samples are none: the attacker knows them
  std::optional<Adjacency> adjacency;  // neighbours that the data sets are, in place of the config's
  // Masked sums: noise over what is stated, and clients that collude beyond those who are said to.
  double masked_noise = 1;
  std::uint32_t colluding = 0;
};

// One unit's data in either world: all its records are alike. Everybody else's records are null: rows of
// zeros, whose gradients are 0.
struct Canary {
  struct Record {
    Vec row;
    double label = 0;
    bool there = true;
  };
  std::array<Record, 2> world;
  std::string text;
};

// How many records the unit of privacy has at a client, where clients are not the unit.
std::size_t RecordsOfUnit(const Config&);

// What an attacker makes of one run. Large: world 1.
struct Sighting {
  double likelihood = 0;  // ln of the likelihood ratio of all that was released
  // Every release along the line between its two means, in units of its noise; those that are the same in
  // both worlds along the line of the nearest that is not. At most kFeatures of them.
  Vec features;
  double strength = 0;  // Σ_k ‖m₁ − m₀‖²/σ²: μ² of what the canary did to this run
  // What the target's account was charged for it, by the ledger of this run; in a run with secret samples,
  // what the plan charges if the unit is in every one of them. The strength of no run may be above it.
  double charged = kInf;
  NoiseSums noise;
  // Secret samples: rounds that show beyond doubt, without their noise, whether the unit was drawn, and those
  // in which it was. At most the rate of the sample is drawn, in the mean.
  std::uint64_t rounds = 0, drawn = 0;
};

class Arena {
 public:
  static constexpr std::size_t kFeatures = 64;

  // config: small, as ForAudit makes it. seed: of everything random; the same seed, the same sightings.
  static Result<std::unique_ptr<Arena>> Make(const Config& config, std::uint64_t seed, Variation = {});
  ~Arena();

  // What is released of one run in which one client has this record, and all others null ones.
  static Result<Transcript> Watch(const Config& config, const Canary::Record&, std::uint64_t seed,
                                  Variation = {});

  // The run with this number in a world, and what is seen of it. Runs are independent of each other.
  Result<Sighting> Run(int world, std::uint32_t number);

  // One run in which every client has a canary of its own, whose value a fair coin decides, and what an
  // attacker thinks of each: large means world 1. With local trust and without secret samples: there every
  // release is of one client.
  struct Crowd {
    std::vector<bool> coin;
    std::vector<double> likelihood;
    double certified = kInf, delta = 0;  // ε of the run with so many clients
  };
  Result<Crowd> RunCrowd(std::uint32_t clients) const;

  const Plan& plan() const;
  const Canary& canary() const { return canary_; }
  double strength() const { return strength_; }  // mean over a few runs: why this canary was chosen
  // Certified, where it is Gaussian-DP; ∞ elsewhere. Of masked sums √(2ρ) of what is certified: integer noise
  // of 2²⁰ steps and more has the tails, and so the trade-off, of a Gaussian to within a part in 10¹².
  double mu() const { return mu_; }
  bool gaussian() const { return std::isfinite(mu_); }
  double rate() const { return rate_; }  // at which the unit is in a secret sample; 1: there is none
  bool by_messages() const;  // scored by messages (PrivUnit and ScalarDP), not by releases

 private:
  struct Stage;
  Arena(Config config, std::uint64_t seed, Variation variation);
  Status Choose();
  Status Set(const Canary&);
  std::vector<Canary> Candidates() const;
  Result<std::unique_ptr<Stage>> MakeStage(const std::vector<Canary::Record>& canaries, bool everywhere,
                                           const Stage* like) const;
  void Compare(const Transcript& seen, const Transcript& zero, const Transcript& one, bool parted, int world,
               Sighting& out) const;
  void ByMessages(const Stage& real, Sighting& out) const;
  double Charged(const Stage& real) const;
  void CountDrawn(const Transcript& real, Sighting& out) const;

  Config config_;
  const std::uint64_t seed_;
  const Variation variation_;
  Adjacency adjacency_ = Adjacency::kReplaceOne;
  PublicFacts facts_;
  std::unique_ptr<Plan> plan_;
  bool sampled_ = false;  // the attacker does not know who is in a round
  double rate_ = 1;
  Canary canary_;
  double strength_ = 0, mu_ = kInf;
  std::array<std::unique_ptr<Stage>, 2> real_, echo_;
  std::unique_ptr<Stage> rest_;
};

}  // namespace tacit
