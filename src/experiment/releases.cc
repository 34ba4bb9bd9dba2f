#include "experiment/releases.h"

#include <algorithm>
#include <cmath>

#include "privacy/bounded.h"

namespace tacit {

std::vector<Releases> MakeReleases(const Plan& plan, const Objective& objective, const Mechanism* mechanism,
                                   const LedgerBook& book, std::span<const std::size_t> records,
                                   std::size_t rounds, std::span<const std::uint32_t> attended) {
  TACIT_CHECK(records.size() == plan.clients && book.size() == plan.clients);
  std::vector<Releases> all(plan.noise.size());
  std::vector<double> charged(plan.noise.size());  // the ledger's largest figure
  for (std::uint32_t i = 0; i < plan.clients; ++i) {
    Releases& r = all[plan.noise_of[i]];
    ++r.clients;
    const bool stated =
        plan.charges_units() || plan.by_client() || plan.sampled_records != 0 || plan.second_order;
    r.units = std::max(r.units, stated ? plan.units : records[i]);
    if (plan.turns != 0)
      r.turns = std::max<std::size_t>(r.turns, attended.empty() ? plan.turns : attended[i]);
    charged[plan.noise_of[i]] = std::max(charged[plan.noise_of[i]], book.account(i).spent().value());
  }
  for (std::size_t at = 0; at < all.size(); ++at) {
    Releases& r = all[at];
    if (r.clients == 0) continue;
    r.noise = at;
    r.roundings = plan.by_client() || plan.second_order ? plan.roundings
                  : plan.person_bound == "sum"          ? r.units + 1
                                                        : objective.Roundings(r.units);
    const bool bounded = std::isfinite(plan.record_bound);
    const bool noised = plan.mechanism != "expose";
    r.sensitivity = bounded ? Bounded::Sensitivity(plan.adjacency, L2Bound::Proven(plan.record_bound),
                                                   r.units, r.roundings, plan.sum_unit)
                                  .value()
                            : kInf;
    MuSquared spent{0.0};
    for (std::size_t k = 0; k < rounds; ++k) {
      if (!noised || !bounded) spent = MuSquared::Proven(kInf);
      if (!noised) continue;
      const NoiseStd sigma = (*plan.noise[at])[k];
      if (r.sigma.empty() || r.sigma.back() != sigma.value()) {
        r.sigma.push_back(sigma.value());
        r.rounds.push_back(0);
      }
      ++r.rounds.back();
      if (!bounded || plan.account || (plan.turns != 0 && k >= r.turns)) continue;
      const MuSquared cost =
          Cost(mechanism->EventFor(L2Bound::Proven(r.sensitivity), sigma, plan.released()));
      for (std::size_t j = 0; j < plan.each; ++j) spent = spent + cost;      // as the ledger adds them
    }
    if (plan.account) {
      r.mu = kInf;
      r.epsilon = plan.certified_epsilon;
      continue;
    }
    if (charged[at] > spent.value()) {
      r.beyond = NextUp(charged[at] - spent.value());
      spent = spent + MuSquared::Proven(r.beyond);
    }
    r.mu = Root(spent).value();
    r.epsilon = GdpEpsilon(Root(spent), Delta::Proven(plan.delta)).upper;
  }
  std::erase_if(all, [](const Releases& r) { return r.clients == 0; });
  return all;
}

}  // namespace tacit
