// Builds peers and their options from a plan without a server.
#include "algorithms/grad_nfl.h"
#include "algorithms/nfl.h"
#include "algorithms/p_admm.h"
#include "experiment/drive_network.h"
#include "experiment/network_plan.h"
#include "experiment/peer_site.h"

namespace tacit {
namespace {

// What all methods without a server have.
template <class A>
typename A::Options OptionsOf(const Session& s) {
  typename A::Options o;
  o.clip = L2Bound::Proven(s.config.privacy.clip);
  o.certified = s.config.algorithm.mode == "certified";
  o.claim = ClaimOf(s.plan);
  o.output = s.config.algorithm.output == "mean" ? PeerOutput::kMean : PeerOutput::kLast;
  for (const PlannedRound& p : s.plan.schedule) o.rounds.push_back(p.round);
  return o;
}

template <class A>
Status Go(Session& s, RunResult& r, const typename A::Options& o) {
  const Problem problem = MakeProblem(s);
  TACIT_TRY(const Absences who, Absences::Of(s.config, s.plan.clients, s.plan.rounds));
  const auto make = [&](std::uint32_t k) {
    Holding own = HoldingOf(s, k);
    const auto& noise = s.plan.noise[s.plan.noise_of[k]];
    if constexpr (std::is_same_v<A, GradNfl>)
      return typename A::Peer(std::move(own), problem, *s.mechanism, o, noise);
    else
      return
          typename A::Peer(std::move(own), s.plan.network->graph.degree(k), problem, *s.mechanism, o, noise);
  };
  if (s.at_peer) {
    typename A::Peer own = make(s.site);
    PeerSiteOf<A> site(s, own, o.rounds, who);
    return s.at_peer(site);
  }
  if (s.aside()) return AssistNetwork<A>(s, make, o.rounds, who);
  std::vector<typename A::Peer> peers;
  peers.reserve(s.plan.clients);
  for (std::uint32_t k = 0; k < s.plan.clients; ++k) peers.push_back(make(k));
  return DriveNetwork<A>(s, r, peers, o.rounds, who).Run();
}

}  // namespace

Status LaunchNetwork(Session& s, RunResult& r) {
  const auto& a = s.config.algorithm;
  const StepSize step{a.eta, a.eta_rule == "sqrt"};
  if (a.name == "zcdp-grad-nfl") {
    auto o = OptionsOf<GradNfl>(s);
    o.alpha = step;
    return Go<GradNfl>(s, r, o);
  }
  if (a.name == "p-admm") {
    auto o = OptionsOf<PAdmm>(s);
    o.rho = a.rho;
    o.row_bound = s.facts.row_bound;
    return Go<PAdmm>(s, r, o);
  }
  auto o = OptionsOf<Nfl>(s);
  o.rho = a.rho;
  o.eta = step;
  return Go<Nfl>(s, r, o);
}

}  // namespace tacit
