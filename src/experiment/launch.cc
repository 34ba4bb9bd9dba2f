#include "algorithms/adaptive_clip.h"
#include "algorithms/clip21.h"
#include "algorithms/ef21.h"
#include "algorithms/fcrn.h"
#include "algorithms/fed_exp.h"
#include "algorithms/isrl_dp.h"
#include "algorithms/primal_dual.h"
#include "algorithms/record_fed_avg.h"
#include "algorithms/scaffold.h"
#include "experiment/drive.h"
#include "experiment/feedback_plan.h"
#include "experiment/second_order_plan.h"
#include "experiment/site.h"
#include "runtime/mask_round.h"

namespace tacit {
namespace {

ServerOptimizer OptimizerOf(const Config& c) {
  const std::string& name = c.algorithm.server_optimizer;
  using Kind = ServerOptimizer::Kind;
  return {.kind = name == "adam"       ? Kind::kAdam
                  : name == "momentum" ? Kind::kMomentum
                                       : Kind::kPlain,
          .momentum = c.algorithm.server_momentum,
          .second = c.algorithm.server_second,
          .floor = c.algorithm.server_floor};
}

std::unique_ptr<Participants> WhoTakesPart(Session& s) {
  if (s.sampler != nullptr) return std::make_unique<SecretParticipants>(*s.sampler);
  if (s.plan.turns != 0) {
    std::vector<std::uint32_t> rounds;
    for (const PlannedRound& p : s.plan.schedule) rounds.push_back(p.round);
    s.attended.assign(s.plan.clients, 0);
    return std::make_unique<PublicParticipants>(s.plan.sampling, s.config.experiment.seed, std::move(rounds),
                                                static_cast<std::uint32_t>(s.plan.turns), s.attended);
  }
  return std::make_unique<Everyone>(s.plan.clients);
}

// One process is the server or one of the clients, which `make` makes.
template <class A, class Make>
Status DriveApart(Session& s, RunResult& r, typename A::Server& server, Make make) {
  if (s.at_site) {
    typename A::Client client = make(s.site);
    SiteOf<A> site(s, client);
    TACIT_OK(site.Begin());
    return s.at_site(site);
  } else if constexpr (IsMasked<typename A::Up>) {
    if (s.link->roster() == nullptr)
      return Fail(
          Code::kUnsupported,
          "privacy.trust = \"masked\": clients must know each other by certificates, which this runtime has "
          "not; use `tacit serve` and `tacit join`");
    const std::unique_ptr<Participants> who = WhoTakesPart(s);
    const std::filesystem::path file = r.folder / "masks";
    MaskedLink link(*s.link, s.plan.secure->quorum(), s.plan.secure->bits(),
                    [&](const Bytes& bytes) { return KeepSecret(file, bytes); });
    std::error_code ec;
    if (s.resuming && std::filesystem::exists(file, ec)) {
      TACIT_TRY(const std::string kept, ReadWhole(file));
      TACIT_OK(link.Restore(std::as_bytes(std::span(kept))));
    }
    FarCohort far{.link = link, .count = static_cast<std::uint32_t>(s.plan.clients)};
    const Status done = Drive<A, FarCohort>(s, r, server, far, *who).Run();
    if (done.ok() && !r.interrupted) std::filesystem::remove(file, ec);
    return done;
  } else {
    const std::unique_ptr<Participants> who = WhoTakesPart(s);
    FarCohort far{
        .link = *s.link, .count = static_cast<std::uint32_t>(s.plan.clients), .weights = s.plan.weights};
    if constexpr (!HasModel<typename A::Server>)
      far.clients.assign(s.plan.clients, {MakeProblem(s).start});
    else if constexpr (GoesBack<typename A::Client>)
      far.clients.resize(s.plan.clients);
    return Drive<A, FarCohort>(s, r, server, far, *who).Run();
  }
}

// Clients as `make` makes them: kept for the run, or made when it is their turn.
template <class A, class Make>
Status DriveAll(Session& s, RunResult& r, typename A::Server& server, Make make) {
  if (s.at_site || s.link != nullptr) return DriveApart<A>(s, r, server, make);
  if (s.aside()) return Assist<A>(s, make);
  const std::unique_ptr<Participants> who = WhoTakesPart(s);
  if constexpr (Stateless<A>) {
    TheseClients source(*who, make);
    return Drive<A, decltype(source)>(s, r, server, source, *who).Run();
  } else {
    std::vector<typename A::Client> clients;
    clients.reserve(s.plan.clients);
    for (std::uint32_t i = 0; i < s.plan.clients; ++i) clients.push_back(make(i));
    return Drive<A, decltype(clients)>(s, r, server, clients, *who).Run();
  }
}

Status LaunchPrimalDual(Session& s, RunResult& r) {
  const Config& c = s.config;
  const Plan& plan = s.plan;
  const Problem problem = MakeProblem(s);
  PrimalDual::Options o;
  o.gamma = plan.gamma;
  o.scale = c.algorithm.scaling == "printed" ? 1.0 / static_cast<double>(plan.clients) : 1.0;
  o.l2 = c.model.l2;
  o.clip = L2Bound::Proven(c.privacy.clip);
  o.certified = c.algorithm.mode == "certified";
  o.claim = ClaimOf(plan);
  for (const PlannedRound& p : plan.schedule) o.rounds.push_back(p.round);

  PrimalDual::Server server(problem, o);
  return DriveAll<PrimalDual>(s, r, server, [&](std::uint32_t i) {
    return PrimalDual::Client(HoldingOf(s, i), problem, *s.mechanism, o, plan.noise[plan.noise_of[i]]);
  });
}

template <class A>
Status LaunchByRecord(Session& s, RunResult& r, typename A::Options o) {
  const Problem problem = MakeProblem(s);
  o.clip = L2Bound::Proven(s.config.privacy.clip);
  o.certified = s.config.algorithm.mode == "certified";
  o.claim = ClaimOf(s.plan);
  for (const PlannedRound& p : s.plan.schedule) o.rounds.push_back(p.round);
  typename A::Server server(problem, o);
  return DriveAll<A>(s, r, server, [&](std::uint32_t i) {
    return typename A::Client(HoldingOf(s, i), problem, *s.mechanism, o, s.plan.noise[s.plan.noise_of[i]]);
  });
}

Status LaunchRecordFedAvg(Session& s, RunResult& r) {
  const Config& c = s.config;
  RecordFedAvg::Options o;
  o.local.rate = c.algorithm.local_rate;
  o.local.steps = static_cast<std::uint32_t>(c.algorithm.local_steps);
  o.local.l2 = c.model.l2;
  o.rate = c.algorithm.server_rate;
  o.server = OptimizerOf(c);
  o.control = c.algorithm.name == "dp-scaffold";
  o.last = s.plan.last;
  return LaunchByRecord<RecordFedAvg>(s, r, std::move(o));
}

Status LaunchIsrlDp(Session& s, RunResult& r) {
  IsrlDp::Options o;
  o.rate = s.config.algorithm.local_rate;
  o.strong_convexity = s.plan.mu_f;
  o.l2 = s.config.model.l2;
  return LaunchByRecord<IsrlDp>(s, r, std::move(o));
}

// more: what a client's constructor takes beyond what all of them do.
template <class A, class... More>
Status LaunchFeedback(Session& s, RunResult& r, More... more) {
  const Problem problem = MakeProblem(s);
  const FeedbackPlan& plan = *s.plan.feedback;
  FeedbackOptions o;
  o.gamma = plan.gamma;
  o.radius = plan.radius;
  o.l2 = s.config.model.l2;
  o.clip = L2Bound::Proven(s.config.privacy.clip);
  o.momentum = plan.momentum;
  o.mixing = plan.mixing;
  o.batch = plan.batch;
  if (s.plan.sampled_records != 0) {
    o.records = {.sample = {.kind = SampleKind::kFixed,
                            .rate = Probability::Proven(s.plan.record_rate),
                            .size = static_cast<std::uint32_t>(s.plan.sampled_records)},
                 .size = static_cast<std::uint32_t>(s.plan.sampled_records)};
    if (s.plan.account) o.mu = Mu::Proven(s.plan.schedule.front().mu);
  }
  o.seed = s.config.experiment.seed;
  o.compressor = plan.compressor;
  o.wire = plan.wire;
  o.follow = plan.follow;
  o.alpha = plan.alpha;
  o.certified = s.config.algorithm.mode == "certified";
  o.claim = ClaimOf(s.plan);
  for (const PlannedRound& p : s.plan.schedule) o.rounds.push_back(p.round);
  FeedbackServer server(problem, o);
  return DriveAll<A>(s, r, server, [&](std::uint32_t i) {
    return typename A::Client(HoldingOf(s, i), problem, *s.mechanism, o, s.plan.noise[s.plan.noise_of[i]],
                              more...);
  });
}

Status LaunchFeedback(Session& s, RunResult& r) {
  const FeedbackPlan& plan = *s.plan.feedback;
  switch (plan.design) {
    case FeedbackDesign::kMirrored: return LaunchFeedback<MirroredEf21>(s, r, s.plan.by_client());
    case FeedbackDesign::kPrivate: return LaunchFeedback<PrivateEf21>(s, r);
    case FeedbackDesign::kPrinted:
      return LaunchFeedback<PrintedEf21>(s, r, plan.noise_first, plan.schedule == "lyapunov");
    case FeedbackDesign::kClip21: break;
  }
  return LaunchFeedback<Clip21>(s, r, plan.state == "mirrored");
}

Status LaunchOnRecordSamples(Session& s, RunResult& r) {
  const Plan& plan = s.plan;
  const Problem problem = MakeProblem(s);
  DpFcrn::Options o = plan.second_order->options;
  if (plan.claimed_epsilon) o.claim = ClaimOf(plan);
  for (const PlannedRound& p : plan.schedule) {
    o.rounds.push_back(p.round);
    o.round_mu.push_back(plan.account ? std::optional(Mu::Proven(p.mu)) : std::nullopt);
  }
  DpFcrn::Server server(problem, o);
  return DriveAll<DpFcrn>(s, r, server, [&](std::uint32_t i) {
    return DpFcrn::Client(HoldingOf(s, i), problem, *s.mechanism, o, plan.noise.front());
  });
}

// The options that federated averages share. With local trust clients may have different noise: one set each.
template <class A>
std::vector<typename A::Options> FederatedOptions(const Session& s, const Claim& claim) {
  const Config& c = s.config;
  Vec variance(s.plan.schedule.size());
  std::vector<double> holders(s.plan.noise.size());  // the weights of those with each noise
  for (std::size_t i = 0; i < s.plan.clients; ++i)
    holders[s.plan.noise_of[i]] += s.plan.weights.empty() ? 1.0 : s.plan.weights[i];
  for (std::size_t at = 0; at < holders.size(); ++at)
    for (std::size_t t = 0; t < variance.size(); ++t) {
      const double sigma = (*s.plan.noise[at])[t].value();
      variance[t] += holders[at] / s.plan.everyone * sigma * sigma;
    }
  const auto shared = std::make_shared<const Vec>(std::move(variance));
  std::vector<typename A::Options> all(s.plan.noise.size());
  for (std::size_t at = 0; at < all.size(); ++at) {
    typename A::Options& o = all[at];
    o.local = {.rate = c.algorithm.local_rate,
               .steps = static_cast<std::uint32_t>(c.algorithm.local_steps),
               .batch = c.algorithm.batch,
               .l2 = c.model.l2,
               .proximal = c.algorithm.proximal,
               .seed = c.experiment.seed};
    o.noise = {.clip = L2Bound::Proven(c.privacy.clip),
               .square = s.plan.square,
               .indicator = s.plan.indicator,
               .sigma = s.plan.noise[at],
               .variance = shared,
               .mechanism = s.mechanism.get(),
               .randomizer = s.plan.randomizer.get(),
               .secure = s.plan.secure.get(),
               .expected = s.plan.secret() ? s.plan.expected_weight() : 0,
               .most = static_cast<std::uint32_t>(s.plan.clients),
               .everyone = s.plan.everyone,
               .sampled = s.plan.sampling.kind != SampleKind::kFull,
               .dim = s.plan.dim,
               .claim = c.algorithm.mode == "certified" ? nullptr : &claim};
    if (s.at_site && s.plan.trust == "central") o.noise.moves = L2Bound::Proven(s.plan.sensitivity);
    o.last = s.plan.last;
    o.server = OptimizerOf(c);
    if constexpr (requires { o.clip.quantile; })
      o.clip = {.quantile = c.algorithm.clip_quantile, .rate = c.algorithm.clip_rate};
    for (const PlannedRound& p : s.plan.schedule) o.rounds.push_back(p.round);
    if constexpr (requires { o.step.naive; }) o.step.naive = c.algorithm.step == "naive";
    if constexpr (requires { o.step.rate; }) o.step.rate = c.algorithm.server_rate;
    if constexpr (requires { o.rate; }) o.rate = c.algorithm.server_rate;
  }
  return all;
}

template <class A>
Status LaunchFederated(Session& s, RunResult& r) {
  const Problem problem = MakeProblem(s);
  const Claim claim = ClaimOf(s.plan);
  const auto options = FederatedOptions<A>(s, claim);
  typename A::Server server(problem, options[s.plan.noise_of.front()], *s.book);
  return DriveAll<A>(s, r, server, [&](std::uint32_t i) {
    return typename A::Client(HoldingOf(s, i), problem, options[s.plan.noise_of[i]]);
  });
}

template <class Trust>
Status LaunchUnder(Session& s, RunResult& r) {
  const std::string& name = s.config.algorithm.name;
  if (name == "fedexp") return LaunchFederated<FedExp<Trust>>(s, r);
  if (name == "dp-scaffold") return LaunchFederated<Scaffold<Trust>>(s, r);
  if constexpr (!std::is_same_v<Trust, LocalUnit>)
    if (s.plan.indicator > 0) return LaunchFederated<AdaptiveFedAvg<Trust>>(s, r);
  return LaunchFederated<FedAvg<Trust>>(s, r);
}

}  // namespace

Status Launch(Session& s, RunResult& r) {
  const std::string& name = s.config.algorithm.name;
  if (s.plan.network) return LaunchNetwork(s, r);
  if (s.plan.feedback) return LaunchFeedback(s, r);
  if (s.plan.second_order) return LaunchOnRecordSamples(s, r);
  if (name == "primal-dual") return LaunchPrimalDual(s, r);
  if (name == "isrl-dp") return LaunchIsrlDp(s, r);
  if (!s.plan.by_client()) return LaunchRecordFedAvg(s, r);
  if (s.plan.randomizer) return LaunchUnder<LocalUnit>(s, r);
  if (s.plan.secure) return LaunchUnder<MaskedSums>(s, r);
  if (s.config.privacy.trust == "central") return LaunchUnder<TrustedServer>(s, r);
  return s.plan.by_records ? LaunchUnder<WeightedNoise>(s, r) : LaunchUnder<LocalNoise>(s, r);
}

}  // namespace tacit
