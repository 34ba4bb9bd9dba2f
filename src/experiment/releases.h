#pragma once

// What was released, from public constants: the part of a certificate that its figures follow from.
#include <span>
#include <vector>

#include "experiment/plan.h"
#include "models/objective.h"
#include "privacy/ledger.h"
#include "privacy/mechanism.h"

namespace tacit {

// The releases of the clients that share one sequence of noise (one ε asked for). Each is a sum over at
// most `units` terms of length ≤ Plan::record_bound, so that a neighbour moves it by at most
//   sensitivity = f·bound + 2·γ_k·units·bound,   k = roundings,  γ_k = k·2⁻⁵³/(1 − k·2⁻⁵³),
// f = 2 for replace-one and 1 otherwise; under add-remove with one unit and one rounding more. For persons of
// whom n terms count (data.records_per_person, or 1 if their sum is clipped) f is n times that, and there are
// n units and roundings more under every adjacency.
struct Releases {
  std::size_t noise = 0;  // which sequence: of Plan::noise
  std::size_t clients = 0;
  std::size_t units = 0, roundings = 0;  // of the client with the most records
  double sensitivity = 0;  // before the lattice; ∞ where nothing bounds a term
  // Noise of the rounds that were made (of all planned ones, where the plan is paid for as a whole), runs of
  // equal values;
  std::vector<double> sigma;
  std::vector<std::size_t> rounds;  //   how many rounds each lasted. Both empty without noise
  std::size_t turns = 0;  // where clients are sampled in public: rounds of the client with the most
  std::size_t away = 0;  // without a server: rounds that these peers missed; they are not in `rounds`
  double beyond = 0;  // μ² charged on top: reserved by a process that ended unexpectedly
  double mu = 0, epsilon = 0;  // of any one of these clients, upper bounds; mu is ∞ with a plan
};

// Of the first `rounds` rounds of the schedule. mechanism: null where the plan has a randomizer instead. One
// per sequence of noise that some client has. records, attended: per client; the latter where they are
// sampled in public, empty for as many rounds as one may take part in. Where the number of records is itself
// hidden (add-remove, persons) the plan's public bound on it stands for all clients.
std::vector<Releases> MakeReleases(const Plan&, const Objective&, const Mechanism*, const LedgerBook&,
                                   std::span<const std::size_t> records, std::size_t rounds,
                                   std::span<const std::uint32_t> attended = {});

}  // namespace tacit
