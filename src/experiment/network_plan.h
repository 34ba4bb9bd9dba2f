#pragma once

// Plans of runs without a server: the graph, who is away and when, noise, charges and theory. Everything here
// comes from public constants.
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/network.h"
#include "experiment/config.h"
#include "experiment/plan.h"
#include "experiment/releases.h"

namespace tacit {

bool WithoutServer(std::string_view algorithm);  // zcdp-nfl, dp-nfl, zcdp-grad-nfl, p-admm

// The graph of [network], connected. An error names the key, or the components.
Result<Graph> NetworkGraph(const Config&, std::size_t peers);
std::pair<std::size_t, std::size_t> DegreesOf(const Graph&);  // least, most
std::string EdgeList(const Graph&);  // "k l" with k < l, a line each: the file graph.txt of a run

// Who is away and who has left, as network.away and network.leave say.
class Absences final : public RollCall {
 public:
  static Result<Absences> Of(const Config&, std::size_t peers, std::size_t rounds);
  Presence At(std::uint32_t round, std::uint32_t peer) const override;
  bool none() const { return of_.empty(); }
  bool concerns(std::uint32_t peer) const { return of_.contains(peer); }
  std::vector<std::uint32_t> concerned() const;  // ascending; everyone else is always there
  std::vector<std::uint32_t> leaving() const;  // ascending

 private:
  struct Times {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> away;  // from, to: both included
    std::uint32_t leaves = 0;  // before this round; 0: never
  };
  std::map<std::uint32_t, Times> of_;
};

Result<Plan> PlanNetwork(const Config&, const PublicFacts&);

// μ² of every round for every sequence of noise, 0 where its peers are away.
std::vector<std::vector<MuSquared>> NetworkCharges(const Plan&, const Mechanism&);
// MakeReleases for such plans.
std::vector<Releases> NetworkReleases(const Plan&, const Objective&, const Mechanism&, const LedgerBook&,
                                      std::span<const std::size_t> records, std::size_t rounds);

}  // namespace tacit
