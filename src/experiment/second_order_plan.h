#pragma once

// Plans of rounds on samples of records: fcrn and dp-fed-sgd. Everything here comes from public constants.
#include <string_view>

#include "algorithms/fcrn.h"
#include "experiment/config.h"
#include "experiment/plan.h"

namespace tacit {

bool OnRecordSamples(std::string_view algorithm);  // fcrn, dp-fed-sgd

// What such a plan fixes beside its noise.
struct SecondOrderPlan {
  std::string design;  // full, subspace, once; gradient: dp-fed-sgd
  DpFcrn::Options options;  // without rounds, their μ and a claim
  std::size_t coordinates = 0;  // k
  std::size_t least_records = 0, most_records = 0;  // of a client
  std::size_t counted = 0;  // rounds that one record pays for
  // A step's radius over R₁ at most, where noise does not grow with it: 1 in certified mode.
  double growth = 1;
  double diameter = kInf;  // of the box: no step of the solver is longer
  double hessian_sensitivity = 0;  // once: of the Hessians' sum
  double delta0 = 0;  // paper mode: of (7)
  // Paper mode: (9), what (6) and the truth say of two records' distance, and the ε if (6) held.
  double printed_steps = 0, printed_sensitivity = 0, true_sensitivity = 0, granted_epsilon = 0;

  // μ of a round whose first release has this noise, rounded up, with the room that adding up needs.
  Mu RoundMu(double sensitivity, NoiseStd sigma, const Mechanism&) const;
};

Result<Plan> PlanOnRecordSamples(const Config&, const PublicFacts&);

}  // namespace tacit
