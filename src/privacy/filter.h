#pragma once

// Who may choose the parameters of a release, and when.
//
//   PlannedAccount   all events are fixed before the first release: the tight account of the accountant.
//   GdpFilter,       events are chosen one by one, with everything released before in view: the budget is
//   ZcdpFilter       fixed, and an event that would pass it is refused.
//   GdpOdometer,     the same without a budget: a running ε that holds whenever one stops.
//   ZcdpOdometer
//
// They are different types with nothing to turn one into another, because what holds for the first is wrong
// for the others: a sum of losses that is tight for fixed parameters may be passed with a probability near 1
// by an analyst who picks the next release, or the moment to stop, by the outputs. Proofs and a
// counterexample: docs/accounting.md. None of them can be copied: a copy would spend the same budget twice.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/result.h"
#include "privacy/accountant.h"
#include "privacy/event.h"

namespace tacit {

// Releases that are made from a plan. The order may be chosen as one goes, releases may be left out, and
// one may stop at any time: the account of the whole plan holds throughout. No account of a part is offered,
// since that of what was charged so far does not hold at a moment that was chosen by the outputs; if fewer
// releases were meant from the start, plan fewer.
class PlannedAccount {
 public:
  explicit PlannedAccount(Accountant plan);
  // The line of the plan that pays for the event: the event itself, else one of its kind, else any that
  // covers it; nullopt: none is left. left(i): how many releases of line i are.
  static std::optional<std::size_t> LineFor(const Accountant& plan, const PrivacyEvent&,
                                            const std::function<std::uint64_t(std::size_t)>& left);
  PlannedAccount(PlannedAccount&&) = default;
  PlannedAccount& operator=(PlannedAccount&&) = default;

  // Takes the event out of the plan, or one that is at least as costly for certain: a Gaussian one for what
  // is μ-GDP with no larger μ, a ρ-zCDP or ε-DP one likewise, a sampled Gaussian one for one with the same
  // rate and no larger μ. Refuses, and changes nothing, if none is left.
  Status Charge(const PrivacyEvent&);

  // Of the whole plan, whatever was charged.
  Result<Bracket> EpsilonAt(Delta delta) const { return plan_.EpsilonAt(delta); }
  Result<Bracket> DeltaAt(Epsilon epsilon) const { return plan_.DeltaAt(epsilon); }

  const Accountant& plan() const { return plan_; }
  std::uint64_t charges() const { return charges_; }

 private:
  Accountant plan_;
  std::vector<std::uint64_t> left_;  // of each line of the plan
  std::uint64_t charges_ = 0;
};

// What adds up under a filter, and what a sum of it means.
struct GdpRule {  // μ², see Cost
  using Unit = MuSquared;
  static Unit CostOf(const PrivacyEvent& event) { return Cost(event); }
  static double EpsilonOf(Unit, Delta);  // rounded up
  static constexpr const char* kName = "mu squared";
};
struct ZcdpRule {  // ρ, see ZcdpCost
  using Unit = Rho;
  static Unit CostOf(const PrivacyEvent& event) { return ZcdpCost(event); }
  static double EpsilonOf(Unit, Delta);
  static constexpr const char* kName = "rho";
};

// Everything that passes is together within the budget, whoever chooses the events and how: √budget-GDP
// (Smith, Thakurta 2022; Koskela, Tobaben, Honkela 2023) or budget-zCDP (Rogers, Roth, Ullman, Vadhan 2016;
// Feldman, Zrnic 2021; Whitehouse, Ramdas, Rogers, Wu 2023).
template <class Rule>
class Filter {
 public:
  using Unit = typename Rule::Unit;
  Filter(Unit budget, Adjacency adjacency) : budget_(budget), adjacency_(adjacency) {}
  Filter(Filter&&) = default;
  Filter& operator=(Filter&&) = default;

  // Pays for one release, or refuses and leaves the filter as it was.
  Status Charge(const PrivacyEvent&);

  // Of everything that ever passes. What was spent so far has no ε of its own: see Odometer.
  double EpsilonOfBudget(Delta delta) const { return Rule::EpsilonOf(budget_, delta); }

  Unit budget() const { return budget_; }
  Unit spent() const { return spent_; }
  Adjacency adjacency() const { return adjacency_; }
  std::uint64_t charges() const { return charges_; }

 private:
  Unit budget_;
  Unit spent_{0.0};
  std::uint64_t charges_ = 0;
  Adjacency adjacency_;
};
using GdpFilter = Filter<GdpRule>;
using ZcdpFilter = Filter<ZcdpRule>;

// A running ε. The levels b_j = first·ratio^j are the budgets of filters that are all charged at once, the
// j-th at δ_j = 6δ/(π²(j + 1)²), which sum to δ. J is the first level that was not passed, ε_J its ε at δ_J.
// Then, for every rule T of when to stop and every set S of transcripts,
//   P(transcript until T in S) ≤ E_Q[e^{ε_J(T)}; transcript until T in S] + δ,
// P and Q being any two neighbours. A larger ratio has fewer levels and coarser ones.
template <class Rule>
class Odometer {
 public:
  using Unit = typename Rule::Unit;
  // 0 < first < ∞, 1.01 ≤ ratio ≤ 1000.
  static Result<Odometer> Make(Unit first, double ratio, Delta delta, Adjacency adjacency);
  Odometer(Odometer&&) = default;
  Odometer& operator=(Odometer&&) = default;

  // Counts a release; an error, and no change, only if the event has no meaning under the adjacency.
  Status Charge(const PrivacyEvent&);

  double epsilon() const { return epsilon_; }  // now; ∞ once something without a bound was counted
  Delta delta() const { return delta_; }
  Unit spent() const { return spent_; }
  std::uint64_t charges() const { return charges_; }

 private:
  Odometer(Unit first, double ratio, Delta delta, Adjacency adjacency)
      : level_(first.value()), ratio_(ratio), delta_(delta), adjacency_(adjacency) {}
  double level_;  // b_j
  double ratio_;
  double j_ = 0;
  Delta delta_;
  Unit spent_{0.0};
  double epsilon_ = 0;
  std::uint64_t charges_ = 0;
  Adjacency adjacency_;
};
using GdpOdometer = Odometer<GdpRule>;
using ZcdpOdometer = Odometer<ZcdpRule>;

// One account per client, from the rounds that it took part in. Neighbours differ in one client's data and
// not in who takes part: the record must be public and made without looking at the data (a schedule, an open
// rota, devices that happened to be on), and the events fixed in advance. A secret random sample is no such
// record: it is a PoissonGaussianEvent or FixedSizeGaussianEvent of everybody. Clients picked by what was
// released before need a filter each, as a LedgerBook has.
struct Attendance {
  PrivacyEvent event;  // of one client's data in this round
  std::vector<std::uint32_t> clients;
};
struct IndividualAccounts {
  std::vector<Bracket> epsilon;  // of each different history
  std::vector<std::uint32_t> history;  // of each client: an index of `epsilon`
  const Bracket& of(std::uint32_t client) const { return epsilon[history[client]]; }
};
Result<IndividualAccounts> IndividualEpsilons(Adjacency, std::uint32_t clients, std::span<const Attendance>,
                                              Delta);

}  // namespace tacit
