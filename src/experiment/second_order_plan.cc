#include "experiment/second_order_plan.h"

#include <algorithm>
#include <cmath>

#include "algorithms/fcrn_theory.h"
#include "experiment/build.h"
#include "privacy/calibrate.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

using Design = DpFcrn::Design;

// What these methods have no use for, or no proof.
Status CheckFcrn(const Config& c) {
  TACIT_OK(CheckData(c));
  const auto& a = c.algorithm;
  const auto refuse = [&](const char* key, const std::string& value, const char* why) {
    return Fail(Code::kUnsupported, "{} = \"{}\": {} with {}", key, value, why, a.name);
  };
  if (c.privacy.unit != "record")
    return refuse("privacy.unit", c.privacy.unit, "what is sampled and hidden are records; set record");
  if (c.privacy.trust != "local")
    return refuse("privacy.trust", c.privacy.trust, "noise is at the clients; set local");
  if (c.privacy.adjacency != Name(Adjacency::kReplaceOne))
    return refuse(
        "privacy.adjacency", c.privacy.adjacency,
        "a record in a sample is also told apart from the others, so neighbours differ by replacing one; "
        "set replace-one");
  if (c.privacy.mechanism == "priv-unit")
    return refuse("privacy.mechanism", c.privacy.mechanism, "rounds are Gaussian; use lattice_gaussian");
  if (!c.privacy.budgets.empty())
    return Fail(Code::kUnsupported, "privacy.budgets: {} has one plan for all clients; leave it out", a.name);
  if (a.sampling != "full")
    return refuse(
        "algorithm.sampling", a.sampling,
        "all clients take part and sample their own records (algorithm.record_sampling); leave it out");
  if (a.weights != "uniform")
    return refuse("algorithm.weights", a.weights, "all clients count alike; leave it out");
  if (a.server_optimizer != "plain" || a.clip_quantile != 0)
    return Fail(Code::kUnsupported,
                "algorithm.server_optimizer, algorithm.clip_quantile: {} has its own step and a fixed clip; "
                "leave them "
                "out",
                a.name);
  if (c.model.penalty != "none" && c.model.penalty != "box")
    return refuse("model.penalty", c.model.penalty, "the server projects on a box; use box, or none");
  if (std::isfinite(a.variance_cap) || a.noise_multiplier != 0 || a.participations != 0)
    return Fail(
        Code::kInvalidArgument,
        "algorithm.variance_cap, noise_multiplier, participations: {} has its noise by privacy.epsilon "
        "alone, and every client in every round; leave them out",
        a.name);
  if (a.server_rate > 1 && a.name == "fcrn")
    return Fail(Code::kInvalidArgument,
                "algorithm.server_rate = {:g}: the factor alpha of a Newton step is at most 1; lower it",
                a.server_rate);
  if (a.allocation == "late" && a.name != "fcrn")
    return refuse("algorithm.allocation", a.allocation,
                  "is about Newton's two phases; use static or geometric");
  if (a.mode == "paper") {
    if (a.name != "fcrn" || a.design == "once")
      return refuse(
          "algorithm.mode", a.mode,
          "the printed calibration is for the paper's own solver; set algorithm.design = \"full\", or "
          "certified mode,");
    if (a.sample_records != 1 || (a.record_sampling != "fixed" && a.record_sampling != "cycle"))
      return Fail(Code::kInvalidArgument,
                  "algorithm.sample_records = {}: the paper's rounds are on one record each; set 1, with "
                  "algorithm.record_sampling = \"fixed\" or \"cycle\"",
                  a.sample_records);
  } else if (a.record_sampling == "cycle") {
    return refuse("algorithm.record_sampling", a.record_sampling,
                  "an order that everybody knows is no sample; use fixed, or paper mode");
  }
  return Ok{};
}

Result<RecordSampling> SamplingOfRecords(const Config& c, std::size_t least) {
  const auto& a = c.algorithm;
  if (a.sample_records > std::size_t{1} << 30)
    return Fail(Code::kInvalidArgument, "algorithm.sample_records = {}: lower it to at most 2^30",
                a.sample_records);
  RecordSampling s;
  s.size = static_cast<std::uint32_t>(a.sample_records);
  const double b = static_cast<double>(s.size), m = static_cast<double>(std::max<std::size_t>(1, least));
  const Probability rate = Probability::Proven(b < m ? DivUp(b, m) : 1.0);
  if (a.record_sampling == "fixed")
    s.sample = {.kind = SampleKind::kFixed, .rate = rate, .size = s.size};
  else if (a.record_sampling == "poisson")
    s.sample = {.kind = SampleKind::kPoisson, .rate = rate, .size = 0};
  else if (a.record_sampling == "cycle")
    s.cycle = true;
  return s;
}

// μ of every round up to a common factor; 0: it is skipped.
Result<Vec> NominalMu(const Config& c, Plan& p) {
  const auto& a = c.algorithm;
  Shares shares = UniformShares(p.rounds);
  if (a.allocation == "late" && p.mode == "certified")
    shares = WaterFillingShares(FcrnLogWeights(p.rounds, a.initial_error > 0 ? a.initial_error : 1.0, 0.01),
                                Vec(p.rounds));
  else if (a.allocation == "geometric" && p.mode == "certified")
    shares = GeometricShares(p.rounds, a.ratio);
  Vec mu(p.rounds);
  const bool equal = a.allocation != "late" && a.allocation != "geometric";
  for (std::size_t t = 0; t < p.rounds; ++t) {
    if (shares.skipped(t)) continue;
    const double root = 0.5 * (shares.log_share[t] + std::log(static_cast<double>(p.rounds)));
    // Few different rounds are few lines of the account: to the next sixteenth of an octave.
    mu[t] = equal ? 1.0 : std::exp2(std::floor(16 * root / std::log(2.0)) / 16);
  }
  std::vector<double> different = mu;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  if (different.size() > 400)
    return Fail(Code::kUnsupported,
                "algorithm.ratio = {:g}: makes {} different rounds, more than an account of samples can "
                "compose; move "
                "it towards 1, or lower algorithm.rounds",
                a.ratio, different.size());
  return mu;
}

void CountTraffic(Plan& p) {
  const std::size_t rounds = p.schedule.size(), length = sizeof(std::uint64_t);
  const std::size_t up = kFrameHeader + sizeof(std::uint64_t) + sizeof(std::uint32_t) + length +
                         p.second_order->options.MessageLength(p.dim) * sizeof(double);
  const std::size_t empty = kFrameHeader + sizeof(std::uint32_t) + length,
                    next = empty + p.second_order->options.BroadcastLength(p.dim) * sizeof(double);
  p.bytes_up = up * rounds * p.clients;
  p.bytes_down = rounds == 0 ? 0 : (empty + next * rounds) * p.clients;  // the last model is sent, too
}

}  // namespace

bool OnRecordSamples(std::string_view algorithm) { return algorithm == "fcrn" || algorithm == "dp-fed-sgd"; }

Mu SecondOrderPlan::RoundMu(double sensitivity, NoiseStd sigma, const Mechanism& mechanism) const {
  const bool once = options.design == Design::kOnce;
  const std::size_t dim = coordinates;
  const double first = AddUp(DivUp(MulUp(sensitivity, growth), sigma.value()), mechanism.OverheadMu(dim));
  double squared = MulUp(static_cast<double>(options.Releases()), MulUp(first, first));
  if (once) {
    const double second =
        AddUp(DivUp(hessian_sensitivity, sigma.value() * options.noise_hessian * (1 - 0x1p-50)),
              mechanism.OverheadMu(PackedSize(dim)));
    squared = AddUp(squared, MulUp(second, second));
  }
  return Mu::Proven(MulUp(SqrtUp(squared), 1 + kRoundingReserve));
}

Result<Plan> PlanOnRecordSamples(const Config& c, const PublicFacts& facts) {
  TACIT_OK(CheckFcrn(c));
  const auto& a = c.algorithm;
  TACIT_TRY(Plan p, BeginPlan(c, facts));
  const bool certified = a.mode == "certified", exposed = c.privacy.mechanism == "expose";
  TACIT_TRY(const auto objective, BuildObjective(c, facts));
  p.dim = objective->dim(facts.features);
  if (!objective->has_curvatures())
    return Fail(
        Code::kUnsupported,
        "model.name = \"{}\": {} needs one margin a record and a loss with second derivatives; use logistic, "
        "least-squares, huber or smoothed-hinge",
        c.model.name, a.name);
  if (facts.records.empty())
    return Fail(
        Code::kUnsupported,
        "data.split = \"{}\": how likely a record is sampled depends on how many its client has, which this "
        "split does not say in advance; use blocks, iid, label or mixed",
        c.data.split);

  auto plan = std::make_shared<SecondOrderPlan>();
  SecondOrderPlan& s = *plan;
  DpFcrn::Options& o = s.options;
  s.design = a.name == "dp-fed-sgd" ? "gradient" : certified ? a.design : "full";
  o.design = s.design == "full"       ? Design::kFull
             : s.design == "subspace" ? Design::kSubspace
             : s.design == "once"     ? Design::kOnce
                                      : Design::kGradient;
  const bool solver = o.design == Design::kFull || o.design == Design::kSubspace;
  o.at_server = a.solve_at == "server";
  o.coordinates = a.coordinates;
  s.coordinates = o.design == Design::kFull ? p.dim : o.Coordinates(p.dim);
  const auto [least, most] = std::minmax_element(facts.records.begin(), facts.records.end());
  s.least_records = *least;
  s.most_records = *most;
  TACIT_TRY(o.sampling, SamplingOfRecords(c, s.least_records));
  o.clip = L2Bound::Proven(c.privacy.clip);
  o.clip_hessian = o.design == Design::kGradient || (certified && o.design == Design::kFull)
                       ? 0.0
                       : c.privacy.clip_hessian;
  if (o.design == Design::kOnce && !(o.clip_hessian > 0))
    return Fail(Code::kInvalidArgument,
                "privacy.clip_hessian = {:g}: Hessians are released, so their norm needs a positive bound; "
                "0.25 times "
                "the square of data.row_bound suits logistic regression",
                c.privacy.clip_hessian);
  o.scaled = certified;
  o.rate = o.design == Design::kGradient ? a.local_rate : a.server_rate;
  o.l2 = o.solver.l2 = c.model.l2;
  o.seed = c.experiment.seed;
  o.last = p.last = a.last == 0 ? 1 : a.last;
  const bool box = c.model.penalty == "box";
  o.solver.box = box ? c.model.radius : kInf;
  s.diameter = box ? 2 * c.model.radius * std::sqrt(static_cast<double>(s.coordinates)) : kInf;
  if (solver && !box)
    return Fail(
        Code::kInvalidArgument,
        "model.penalty = \"none\": the noisy solver needs a public box that bounds its steps; set penalty = "
        "\"box\" and model.radius, or algorithm.design = \"once\"");
  p.mu_f = a.strong_convexity >= 0 ? a.strong_convexity : c.model.l2;
  o.solver.curvature = p.mu_f;
  if (solver && !(p.mu_f > 0))
    return Fail(
        Code::kInvalidArgument,
        "algorithm.strong_convexity = {:g}: the solver's steps are 2/(mu(s + 2)); set it, or model.l2, to a "
        "positive number",
        p.mu_f);
  if (const auto known = objective->HessianSmoothness(facts.row_bound); a.cubic >= 0)
    o.solver.cubic = a.cubic;
  else if (known)
    o.solver.cubic = *known;
  else if (o.design != Design::kGradient)
    return Fail(Code::kInvalidArgument,
                "algorithm.cubic is not set: no public constant bounds how fast Hessians change; set "
                "data.row_norm, or "
                "algorithm.cubic itself");
  if (o.design == Design::kOnce && !(o.solver.cubic > 0))
    return Fail(Code::kInvalidArgument,
                "algorithm.cubic = {:g}: a noisy Hessian may be indefinite, so the cubic term must be "
                "positive; raise "
                "it",
                o.solver.cubic);
  if (o.design == Design::kOnce && s.coordinates > 2000)
    return Fail(Code::kUnsupported,
                "algorithm.coordinates = {}: Hessians of more than 2000 coordinates are too large to "
                "release; lower it",
                s.coordinates);

  FcrnTheory theory{.g1 = c.privacy.clip,
                    .g2 = c.privacy.clip_hessian,
                    .l0 = c.privacy.clip,
                    .l1 = c.privacy.clip_hessian,
                    .l2 = o.solver.cubic,
                    .diameter = s.diameter,
                    .delta0 = a.delta0,
                    .records = static_cast<double>(s.least_records),
                    .rounds = static_cast<double>(p.rounds),
                    .dim = static_cast<double>(p.dim),
                    .coordinates = static_cast<double>(o.Coordinates(p.dim))};
  o.steps = static_cast<std::uint32_t>(a.solver_steps);
  if (!certified) {
    s.delta0 = a.delta0;
    s.printed_steps = theory.Steps(p.epsilon);
    s.printed_sensitivity = theory.PrintedSensitivity();
    s.true_sensitivity = theory.TrueSensitivity();
    s.growth = 1 + MulUp(o.clip_hessian / o.clip.value(), s.diameter) * (1 + 1e-12);
    if (a.solver_steps == 0)
      o.steps = static_cast<std::uint32_t>(std::clamp(std::floor(s.printed_steps), 1.0, 1e6));
    p.warnings.push_back(
        fmt::format("Assumption 4 with G1 = {:g}, G2 = {:g}, D = {:.6g} and Hessians that change by at most "
                    "{:.4g}: (9) gives tau = "
                    "{:.4g}{}; {} steps are made",
                    theory.g1, theory.g2, theory.diameter, theory.l2, s.printed_steps,
                    s.printed_steps < 1 ? ", less than one step: the model never moves" : "", o.steps - 1));
  } else if (solver && o.steps < 2) {
    return Fail(
        Code::kInvalidArgument,
        "algorithm.solver_steps = {}: the answer of the solver is the mean of as many points, of which the "
        "first is where it starts; set at least 2",
        a.solver_steps);
  }
  p.each = o.design == Design::kOnce ? 2 : std::max(1u, o.Releases());
  p.units = o.sampling.Most(s.most_records);
  p.roundings = Quadratics::Roundings(p.units);
  if (p.units > std::size_t{1} << 30)
    return Fail(Code::kInvalidArgument, "data.rows = {}: too many records in one sum; raise data.clients",
                p.rows);
  const L2Bound charged = Bounded::Sensitivity(p.adjacency, o.clip, p.units, p.roundings);
  p.sensitivity = charged.value();
  p.record_bound = o.clip.value();
  TACIT_TRY(const auto mechanism, MakeMechanism(c.privacy.mechanism));
  const double overhead = mechanism->OverheadMu(s.coordinates);
  const double b = o.sampling.Divisor(s.least_records);
  const bool released = o.design == Design::kOnce || o.Releases() > 0;
  double gradient_part = 1;  // of μ² of a round
  double hessian_overhead = 0;
  if (o.design == Design::kOnce) {
    s.hessian_sensitivity =
        Bounded::Sensitivity(p.adjacency, L2Bound::Proven(o.clip_hessian), p.units, p.roundings).value();
    gradient_part = 1 - a.hessian_share;
    o.noise_hessian = s.hessian_sensitivity / p.sensitivity * std::sqrt(gradient_part / a.hessian_share);
    hessian_overhead = mechanism->OverheadMu(PackedSize(s.coordinates));
  }

  // Noise of the first release of every round.
  TACIT_TRY(const Vec nominal, NominalMu(c, p));
  std::vector<std::uint32_t> active;
  for (std::size_t t = 0; t < p.rounds; ++t)
    if (nominal[t] > 0 || exposed) active.push_back(static_cast<std::uint32_t>(t + 1));
  p.skipped = p.rounds - active.size();
  const Delta delta = Delta::Proven(p.delta);
  s.counted = static_cast<std::size_t>(o.sampling.RoundsOfOne(active.size(), s.least_records));
  const auto account_of = [&](const NoisePlan& noise) -> Result<Accountant> {
    Accountant account(p.adjacency);
    std::size_t left = s.counted;
    for (const NoiseStd sigma : noise) {
      if (left-- == 0) break;
      TACIT_OK(account.Compose(
          RoundEvent(o.sampling, released ? s.RoundMu(p.sensitivity, sigma, *mechanism) : Mu{0.0})));
    }
    return account;
  };
  NoisePlan noise(active.size(), NoiseStd{1.0});
  if (exposed) {
    p.certified_epsilon = p.certified_epsilon_lower = kInf;
    p.warnings.push_back(
        "privacy.mechanism = \"expose\": nothing is noised, so the run is not private, whatever "
        "privacy.epsilon says");
  } else if (!certified) {
    const double variance = theory.Variance(p.epsilon, o.steps);
    const auto sigma = NoiseStd::Of(std::sqrt(variance));
    if (!sigma.ok())
      return Fail(Code::kInvalidArgument, "privacy.epsilon = {:g}: (7) has no noise for it", p.epsilon);
    noise.assign(active.size(), *sigma);
    p.claimed_epsilon = p.epsilon;
    p.claim_source = "DP-FCRN, Theorem 1 with the noise of (7), at a delta that is not small";
  } else {
    // The common factor of all μ that the budget allows.
    Accountant shape(p.adjacency);
    for (const std::uint32_t t : active)
      TACIT_OK(shape.Compose(RoundEvent(o.sampling, Mu::Proven(nominal[t - 1]))));
    TACIT_TRY(const Calibration found, CalibrateScale(shape, Epsilon::Proven(p.epsilon), delta));
    bool kept = false;
    for (double room = 0; !kept && room < 0.5; room = 4 * room + 1e-9) {
      bool all = true;
      for (std::size_t i = 0; i < active.size() && all; ++i) {
        const double mu = nominal[active[i] - 1] / found.value * (1 - room);
        double one =
            mu * std::sqrt(gradient_part / static_cast<double>(o.Releases())) * (1 - 2 * kRoundingReserve) -
            overhead;
        if (o.design == Design::kOnce)
          one = std::min(one,
                         (mu * std::sqrt(a.hessian_share) * (1 - 2 * kRoundingReserve) - hessian_overhead) *
                             std::sqrt(gradient_part / a.hessian_share));
        const auto sigma = NoiseStd::Of(one > 0 ? DivUp(p.sensitivity, one) : 0.0);
        all = sigma.ok();
        if (all) noise[i] = *sigma;
      }
      if (!all) break;
      TACIT_TRY(const Accountant account, account_of(noise));
      TACIT_TRY(const Bracket reached, account.EpsilonAt(delta));
      kept = reached.upper <= p.epsilon;
    }
    if (!kept)
      return Fail(Code::kBudget,
                  "privacy.epsilon = {:g}: no noise in reach keeps it over {} rounds; raise it, or lower "
                  "algorithm.rounds",
                  p.epsilon, p.rounds);
  }
  if (!exposed) {
    for (const NoiseStd sigma : noise) {
      TACIT_OK(mechanism->CheckRange(static_cast<double>(p.units) * o.clip.value() * s.growth, sigma));
      // A radius grows with the noise on it, and never beyond what the box allows.
      const double largest = certified && solver ? 1 + o.clip_hessian / o.clip.value() * s.diameter : 1.0;
      TACIT_OK(mechanism->CheckRange(0, NoiseStd::Proven(std::min(sigma.value() * largest, 0x1p1023))));
      if (o.design == Design::kOnce)
        TACIT_OK(mechanism->CheckRange(static_cast<double>(p.units) * o.clip_hessian,
                                       NoiseStd::Proven(sigma.value() * o.noise_hessian)));
    }
    TACIT_TRY(Accountant account, account_of(noise));
    double rho = 0;
    for (const Accountant::Line& line : account.lines())
      rho += static_cast<double>(line.count) * ZcdpCost(line.event).value();
    p.zcdp_epsilon = std::isfinite(rho) ? ZcdpEpsilon(Rho::Proven(rho * (1 + 1e-12)), delta) : kInf;
    p.account.emplace(std::move(account));
    TACIT_OK(StateAccount(p));
    if (!certified) {
      const double mu =
          s.printed_sensitivity / noise.front().value() * std::sqrt(static_cast<double>(o.steps));
      Accountant granted(p.adjacency);
      TACIT_OK(granted.Compose(RoundEvent(o.sampling, Mu::Proven(mu)), s.counted));
      TACIT_TRY(const Bracket value, granted.EpsilonAt(delta));
      s.granted_epsilon = value.upper;
      p.warnings.push_back(fmt::format(
          "with the sensitivity of (6), {:.4g}, the noise of (7) would have a certified epsilon of {:.5g}; "
          "what is enforced is 2(G1 + G2 D) = {:.4g}",
          s.printed_sensitivity, s.granted_epsilon, p.sensitivity * s.growth));
    }
  } else {
    p.zcdp_epsilon = kInf;
  }
  p.mu_budget = kInf;
  p.budgets.assign(p.clients, MuSquared::Proven(kInf));
  p.noise_of.assign(p.clients, 0);
  double total = 0;
  for (const std::uint32_t t : active) total += nominal[t - 1] * nominal[t - 1];
  for (std::size_t i = 0; i < active.size(); ++i) {
    PlannedRound r{.round = active[i],
                   .share = total > 0 ? nominal[active[i] - 1] * nominal[active[i] - 1] / total : 0};
    r.sigma = exposed ? 0 : noise[i].value();
    r.noise_on_mean = r.sigma / b;
    r.mu = exposed ? kInf : released ? s.RoundMu(p.sensitivity, noise[i], *mechanism).value() : 0;
    p.schedule.push_back(r);
  }
  p.noise.push_back(std::make_shared<const NoisePlan>(std::move(noise)));
  p.factor = 1;
  p.second_order = std::move(plan);
  CountTraffic(p);
  return p;
}

}  // namespace tacit
