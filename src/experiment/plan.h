#pragma once

// What a run will do and cost, computed from public constants before any data is touched.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "algorithms/topology.h"
#include "experiment/config.h"
#include "privacy/accountant.h"
#include "privacy/gdp.h"
#include "privacy/local_randomizer.h"
#include "privacy/sampling.h"
#include "privacy/schedule.h"

namespace tacit {

// What everybody may know of the data: shapes and enforced bounds.
struct PublicFacts {
  std::size_t rows = 0, features = 0, clients = 0;   // rows: of all clients together
  std::vector<std::size_t> records;                  // per client; empty if only the total is known
  std::size_t classes = 0;
  double row_bound = kInf;                           // as preprocessing enforces it
  double mean_records() const { return static_cast<double>(rows) / static_cast<double>(clients); }
};
// From the config and the catalogue alone. A file of unknown shape needs data.rows and data.features.
Result<PublicFacts> FactsWithoutData(const Config&);

struct PlannedRound {
  std::uint32_t round = 0;             // from 1
  double share = 0;                    // of μ²
  double mu = 0;  // charged, rounding and lattice included; of the clients with the largest budget
  double sigma = 0;  // noise std on the released sum
  double noise_on_mean = 0;  // σ divided by the records of a client (mean): std on its gradient
};

// A run without a server: who talks to whom, and when. All of it is public.
struct NetworkPlan {
  std::string topology;
  Graph graph;
  Spectrum spectrum;
  double rho = 0, eta = 0;  // 0 where the method has none
  bool falling = false;  // η_n = eta/√n
  std::string output, composition;  // composition: dp-nfl; otherwise empty
  std::vector<std::string> away, leave;  // as the config has them
  bool argmin = false;  // p-admm: peers release minimisers, not sums of subgradients
  // Peers with one sequence of noise: groups[i] has Plan::noise[i].
  struct Group {
    // p-admm: of each of these peers, and κ = 2ρ·degree + l2 of its subproblem. Otherwise 0.
    std::size_t records = 0, degree = 0;
    double curvature = 0;
    double bound = kInf;  // half of how far a replaced record can move what they release; p-admm only
    std::vector<bool> away;  // by place in Plan::schedule; empty: never
    bool here(std::size_t k) const { return away.empty() || !away[k]; }
  };
  std::vector<Group> groups;
  double least_noise = 0, most_noise = 0;  // std on w̃ in the last round, over the peers
  bool by_factor = false;  // noise in the last notes is by the factor of the mean degree, not by the graph
  // Of Theorem II, for the noise of this plan; of (22)–(24), where it falls by a constant factor. Of the
  // linearised method alone.
  std::optional<double> noise_term, bound22, bound23, bound24;
};

struct FeedbackPlan;  // feedback_plan.h
struct SecondOrderPlan;  // second_order_plan.h

struct Plan {
  std::string algorithm, paper, mode, mechanism, unit;
  bool clipped = true;  // the clip is enforced; false: a paper assumes it
  // central: a trusted server noises the sum over all clients; masked: they do it together, and the server
  // learns that sum alone
  std::string trust = "local";
  Adjacency adjacency = Adjacency::kReplaceOne;
  std::size_t rounds = 0, clients = 0, rows = 0, dim = 0;
  double epsilon = 0, delta = 0;  // asked for (paper mode: claimed)
  double mu_budget = 0;  // what calibration aimed at
  double certified_epsilon = 0;  // what the planned charges come to (largest over clients); ∞ if unbounded
  double certified_epsilon_lower = 0;
  std::optional<double> claimed_epsilon;
  std::string claim_source;
  double zcdp_epsilon = 0;  // the same charges through ρ + 2√(ρ ln 1/δ)
  double clip = 0, sensitivity = 0;
  double record_bound = kInf;  // on the term of one record: the clip, or what holds in paper mode; ∞: nothing
  std::size_t units = 0;  // terms in a client's sum, at most
  std::string person_bound;  // unit = person: records or sum; otherwise empty
  std::size_t records_per_person = 0;  // that count, where they are limited; 0: no limit
  SumUnit sum_unit;  // what one unit is in a client's sum
  bool by_client() const { return unit == "client"; }
  // Sums are charged as if of `units` terms: where it may not be told how many records a client has, and
  // where who took part most often need not be who has most records.
  bool charges_units() const {
    return !by_client() && (adjacency == Adjacency::kAddOrRemove || sum_unit.person || turns != 0);
  }
  Sampling sampling;  // of clients, anew in every round
  // Nobody but the trusted server knows who takes part; nothing that is kept or shown tells.
  bool secret() const { return sampling.kind != SampleKind::kFull && trust == "central"; }
  // With a sample that can be seen nothing is credited for it, and a client pays for the rounds it takes part
  // in: so many at most. 0: everyone is in every round, or the sample is secret.
  std::size_t turns = 0;
  double expected() const;  // clients of a round: in the mean, or exactly; public
  // Clients' weights in a mean, m_i / max_j m_j of their public numbers of records m_i: in [0, 1]. Empty: all
  // are 1, or (by_records) not known before the data are. No cost depends on them: see SetWeights.
  bool by_records = false;
  std::vector<double> weights;
  std::size_t most_records = 0;  // max_j m_j; 0 without weights
  double everyone = 0;  // Σ of all weights: the number of clients, if all are 1
  double expected_weight() const;  // what a mean over a round's clients is divided by, in the mean
  // Every release of one client, where all are fixed in advance and not Gaussian-DP; the run pays for them as
  // a whole (PlannedReleases). nullopt: accounts are Gaussian-DP filters.
  std::optional<Accountant> account;
  // What every client sends its updates through, where it is not Gaussian noise, and the ε of the run at δ =
  // 0.
  std::shared_ptr<const LocalRandomizer> randomizer;
  double pure_epsilon = kInf;
  std::vector<double> split;  // paper mode: ε0, ε1, ε2 of a message as stated
  std::shared_ptr<const SecureSum> secure;  // masked sums: σ of the schedule is that of one client's share
  std::string method;  // how certified_epsilon was found, where there is an account
  std::size_t roundings = 0;  // unit = client: of a term's way into the sum
  double square = 0;  // weight of the squared length that travels with an update; 0: none does
  double indicator = 0;  // height of the step that says whether an update was clipped; 0: none does
  // numbers in one release
  std::size_t released() const { return dim + (square > 0 ? 1 : 0) + (indicator > 0 ? 1 : 0); }
  // What every client divides its sum by, where its own number of records tells neighbours apart; 0: that.
  std::size_t divisor = 0;
  std::vector<PlannedRound> schedule;  // the rounds that run
  std::size_t skipped = 0;
  std::size_t each = 1;  // releases of a client in a round, with the same noise
  std::size_t last = 1;  // iterates that the model is the mean of
  std::size_t bytes_up = 0, bytes_down = 0;  // whole run, all clients
  // ε after schedule[0..k], upper bound; with an account, of the whole plan: no part of it has one.
  double EpsilonAfter(std::size_t k) const;

  // Theory, where the algorithm has it.
  double gamma = 0, gamma_max = 0, mu_f = 0, l_f = 0, factor = 0;
  std::optional<double> bound_printed;  // noise term of (12)
  std::optional<double> bound_sharp;  // the same with this plan's own schedule and factor
  std::optional<double> rounds_needed;  // for algorithm.initial_error
  // Ways to spread the same budget over the rounds, against equal noise in all of them: what is left of the
  // noise after the last round (weights as the factor above makes them), and its variance in the mean over
  // the rounds. Smaller is better; none without noise.
  struct Allocation {
    std::string name;
    double last = 1, mean = 1;
  };
  std::vector<Allocation> allocations;
  std::shared_ptr<const NetworkPlan> network;  // null: there is a server
  // Records of a client that a release is over, a secret sample drawn anew; 0: all. The account is of such
  // samples at record_rate, that of the client with the fewest records.
  std::size_t sampled_records = 0, least_records = 0;
  double record_rate = 1;
  std::shared_ptr<const FeedbackPlan> feedback;  // null: a method without error feedback
  std::shared_ptr<const SecondOrderPlan> second_order;  // rounds on samples of records; null: others
  double static_over_dynamic = 1;  // Σqσ² of a uniform split over this schedule's
  std::vector<std::string> warnings;
  std::vector<std::string> ignored;  // IgnoredKeys

  // One σ-sequence per distinct budget; client i uses noise[noise_of[i]]. Empty for expose.
  std::vector<std::shared_ptr<const NoisePlan>> noise;
  std::vector<std::size_t> noise_of;
  std::vector<MuSquared> budgets;  // per client; ∞ in paper mode and for expose
};

// "record", "person (at most 3 records)", "person (sum clipped)": as the ledger names it. most = 0: no limit.
std::string UnitText(const std::string& unit, const std::string& person_bound, std::size_t most);

// "client (central; blocks into 10)": with clients as the unit it must be said which ones, and whom they
// trust. Costs of runs that split the data in another way are about other clients and do not add up.
std::string ClientUnitText(const Config&);

Result<Plan> MakePlan(const Config&, const PublicFacts&);

// Weighs clients by their numbers of records, at least one of which is not 0. What a client sends with local
// trust is as without weights, which are post-processing. With a trusted server its clipped update is
// multiplied by its weight, at most 1, before it is entrusted: the sum keeps the sensitivity and the noise it
// has without weights (every client is charged as the one with the most records), and its mean, Σ w_i Δ_i / Σ
// w_i, has noise of σ/Σ w_i instead of σ/M.
void SetWeights(Plan&, const std::vector<std::size_t>& records);
// Parts of it that plans of every kind share.
// What each begins with: names, public numbers, budgets that fit the clients, a word on a large δ.
Result<Plan> BeginPlan(const Config&, const PublicFacts&);
Status CheckPenalty(const Config&, std::size_t dim);  // weights of a penalty, one for every parameter
Status StateAccount(Plan&);  // the figures of a plan that is paid for as a whole, from its account
Status CheckData(const Config&);  // public constants of [data] that fit each other
Result<Sampling> SamplingOf(const Config&, std::size_t clients);  // who takes part in a round
// The noise with which so many sums over secret samples keep (ε, δ) of the plan: the inverse of the account,
// with room for what the mechanism adds to the sensitivity.
Result<NoiseStd> SampledNoise(const Plan&, const Sampling&, L2Bound sensitivity, const Mechanism&,
                              std::size_t rounds);
Result<Adjacency> ParseAdjacency(const std::string& name);
// How algorithm.allocation spreads a budget over as many rounds as log_q has, at one sensitivity for all.
Result<Shares> Allocate(const Config&, const Vec& log_q, double sensitivity, Mu budget);
// σ = sensitivity/μ of the rounds that run, mu being of all.
Result<NoisePlan> NoiseOf(const std::vector<std::uint32_t>& rounds, const Vec& mu, double sensitivity);
MuSquared BudgetOf(Mu);  // rounded down, where charges are rounded up; Calibrate leaves room for both

// Short name, paper, one line: the table of everything `algorithm.name` accepts.
// A sentence for every key of [algorithm] that is not at its default and that the method does not read. No
// error: a sweep over methods sets keys for all of them.
std::vector<std::string> IgnoredKeys(const Config&);

struct AlgorithmEntry {
  const char* name;
  const char* paper;
  const char* summary;
};
const std::vector<AlgorithmEntry>& Algorithms();

}  // namespace tacit
