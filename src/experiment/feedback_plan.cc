#include "experiment/feedback_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiment/build.h"
#include "privacy/claims.h"
#include "privacy/gdp.h"

namespace tacit {

bool WithFeedback(std::string_view a) {
  return a == "dpd-ef21" || a == "dpd-ef21-2" || a == "dp-clip21" || a == "clip21-sgd2m";
}

const char* Name(FeedbackDesign d) {
  switch (d) {
    case FeedbackDesign::kMirrored: return "mirrored";
    case FeedbackDesign::kPrivate: return "private";
    case FeedbackDesign::kPrinted: return "printed";
    case FeedbackDesign::kClip21: return "clip21";
  }
  return "?";
}

namespace {

FeedbackDesign DesignOf(const Config& c) {
  const auto& a = c.algorithm;
  if (a.name == "dp-clip21" || a.name == "clip21-sgd2m") return FeedbackDesign::kClip21;
  if (a.mode == "paper") return FeedbackDesign::kPrinted;
  return a.name == "dpd-ef21" ? FeedbackDesign::kPrivate : FeedbackDesign::kMirrored;
}

Status CheckKeys(const Config& c, FeedbackDesign design) {
  const auto& a = c.algorithm;
  const std::string& unit = c.privacy.unit;
  if (c.privacy.trust != "local")
    return Fail(
        Code::kUnsupported,
        "privacy.trust = \"{}\": with {} every client adds its own noise; set it to local, or use dp-fedavg",
        c.privacy.trust, a.name);
  if (c.privacy.mechanism == "priv-unit")
    return Fail(Code::kUnsupported,
                "privacy.mechanism = \"priv-unit\": is for clients' updates in fedexp, dp-fedavg and "
                "dp-scaffold; use "
                "lattice_gaussian with {}",
                a.name);
  if (design == FeedbackDesign::kPrinted && unit != "record")
    return Fail(
        Code::kUnsupported,
        "privacy.unit = \"{}\": the paper's claim is for one record; set privacy.unit = \"record\" in paper "
        "mode, or use certified mode",
        unit);
  if ((design == FeedbackDesign::kPrivate || design == FeedbackDesign::kClip21) && unit != "client")
    return Fail(
        Code::kUnsupported,
        "privacy.unit = \"{}\": {} clips a client's whole difference of gradients and protects all its "
        "records; set privacy.unit = \"client\", or use dpd-ef21-2",
        unit, a.name);
  if (unit == "person")
    return Fail(
        Code::kUnsupported,
        "privacy.unit = \"person\": is proved for primal-dual and not for {}; use the unit record or client",
        a.name);
  const bool zero_out = c.privacy.adjacency == Name(Adjacency::kZeroOut);
  if (c.privacy.adjacency != Name(Adjacency::kReplaceOne) &&
      !(zero_out && design == FeedbackDesign::kMirrored && unit == "record"))
    return Fail(Code::kUnsupported,
                "privacy.adjacency = \"{}\": {} with this unit is proved for replace-one; set that",
                c.privacy.adjacency, a.name);
  if (design != FeedbackDesign::kClip21 && a.state != "noiseless")
    return Fail(
        Code::kInvalidArgument,
        "algorithm.state = \"{}\": is for dp-clip21 and clip21-sgd2m; leave it out, or use dpd-ef21-2, whose "
        "state is mirrored",
        a.state);
  if (a.name != "clip21-sgd2m" && (a.beta != 0.5 || a.beta_hat != 0.5))
    return Fail(Code::kInvalidArgument,
                "algorithm.beta, beta_hat: are for clip21-sgd2m; leave them out with {}", a.name);
  if (design != FeedbackDesign::kPrinted && (a.schedule != "geometric" || a.level_ratio != 0))
    return Fail(
        Code::kInvalidArgument,
        "algorithm.schedule, level_ratio: are for dpd-ef21 and dpd-ef21-2 in paper mode; certified mode has "
        "algorithm.allocation");
  if (design != FeedbackDesign::kPrivate && a.radius_rule != "planned")
    return Fail(Code::kInvalidArgument,
                "algorithm.radius_rule = \"{}\": is for dpd-ef21 in certified mode; leave it out",
                a.radius_rule);
  const bool sampled = design == FeedbackDesign::kMirrored && unit == "record" && a.batch != 0;
  if (sampled && (c.privacy.adjacency != Name(Adjacency::kReplaceOne) || a.sampling != "full" ||
                  !c.privacy.budgets.empty()))
    return Fail(
        Code::kUnsupported,
        "algorithm.batch = {}: secret samples of records are for replace-one, all clients in every round and "
        "one budget; set algorithm.sampling = \"full\" and leave privacy.budgets out",
        a.batch);
  if (a.mode == "paper" && !c.privacy.budgets.empty())
    return Fail(Code::kUnsupported,
                "privacy.budgets: the papers have one noise for all; leave it out, or use certified mode");
  if (a.noise_multiplier != 0)
    return Fail(
        Code::kInvalidArgument,
        "algorithm.noise_multiplier = {:g}: is for federated averages in paper mode; leave it out with {}",
        a.noise_multiplier, a.name);
  if (a.server_optimizer != "plain" || a.clip_quantile != 0 || a.proximal != 0 || a.local_steps != 1 ||
      a.weights != "uniform" || a.last != 0)
    return Fail(
        Code::kUnsupported,
        "algorithm.server_optimizer, clip_quantile, proximal, local_steps, weights, last: are for federated "
        "averages; leave them out with {}",
        a.name);
  if (a.allocation == "geometric" && design != FeedbackDesign::kMirrored)
    return Fail(
        Code::kUnsupported,
        "algorithm.allocation = \"geometric\": is for dpd-ef21-2 in certified mode; with {} use dynamic or "
        "static, and algorithm.radius_ratio",
        a.name);
  return Ok{};
}

Result<Compressor> CompressorOf(const Config& c, const Objective& f, std::size_t features) {
  auto parsed = ParseCompressor(c.algorithm.compressor);
  if (!parsed.ok()) return Error{parsed.error().code, "algorithm.compressor: " + parsed.error().message};
  if (parsed->wants_layers())
    if (Status s = parsed->SetLayers(f.layers(features)); !s.ok())
      return Error{s.error().code, "algorithm.compressor: " + s.error().message};
  return *std::move(parsed);
}

// Bytes of a message: of one whose values are as good as any.
std::size_t MessageBytes(const Compressor& compressor, std::size_t dim) {
  Stream coins({.seed = 1, .purpose = Purpose::kCompressor});
  Vec x(dim);
  for (double& v : x) v = coins.Normal();
  CompressSpace space;
  Encoded out;
  compressor.Compress(x, 1, out, space);
  return PayloadSize(out);
}

Ef21Noise NoiseNamed(const std::string& name) {
  return name == "theorem"    ? Ef21Noise::kTheorem
         : name == "levels"   ? Ef21Noise::kLevels
         : name == "lyapunov" ? Ef21Noise::kLyapunov
                              : Ef21Noise::kGeometric;
}

// Steps, and the theory's constants for this problem.
Result<Ef21Theory> TheoryOf(const Config& c, const PublicFacts& facts, const Objective& f, double alpha,
                            Plan& p) {
  const auto& a = c.algorithm;
  Ef21Theory t{.alpha = alpha, .smoothness = 0, .mu = 0, .growth = a.growth};
  const std::optional<double> smooth = f.Smoothness(facts.row_bound);
  if (a.smoothness > 0)
    t.smoothness = a.smoothness;
  else if (smooth && std::isfinite(*smooth))
    t.smoothness = *smooth + c.model.l2;
  t.mu = a.strong_convexity >= 0 ? a.strong_convexity : c.model.l2;
  if (!(a.growth < t.LargestGrowth()) && a.growth != 1)
    return Fail(Code::kInvalidArgument,
                "algorithm.growth = {:g}: must be below (4 - alpha)/(4 - 2 alpha) = {:.6g} for this "
                "compressor, where "
                "no step is left; lower it",
                a.growth, t.LargestGrowth());
  p.l_f = t.smoothness;
  p.mu_f = t.mu;
  p.gamma_max = t.smoothness > 0 ? t.LargestStep() : 0;
  p.gamma = a.gamma > 0 ? a.gamma : p.gamma_max;
  if (!(p.gamma > 0))
    return Fail(Code::kInvalidArgument,
                "algorithm.gamma is not set and there is no public smoothness constant to find it from; set "
                "algorithm.gamma, algorithm.smoothness or data.row_norm");
  if (p.gamma_max > 0 && p.gamma > p.gamma_max * (1 + 1e-12))
    p.warnings.push_back(
        fmt::format("algorithm.gamma = {:g} is above gamma_EF = {:.6g}: the theory does not cover it",
                    p.gamma, p.gamma_max));
  if (a.first_gamma > p.gamma)
    return Fail(Code::kInvalidArgument,
                "algorithm.first_gamma = {:g}: is above algorithm.gamma = {:g}; lower it", a.first_gamma,
                p.gamma);
  if (a.first_gamma > 0 && a.first_gamma < p.gamma && a.growth == 1)
    return Fail(
        Code::kInvalidArgument,
        "algorithm.first_gamma = {:g}: steps that grow need algorithm.growth above 1; set it, or leave "
        "first_gamma out",
        a.first_gamma);
  if (p.gamma * t.mu >= 1)
    return Fail(
        Code::kInvalidArgument,
        "algorithm.gamma = {:g}: with strong convexity {:g} a step overshoots; lower it to below {:g}",
        p.gamma, t.mu, 1 / t.mu);
  p.factor = 1 - p.gamma * t.mu;
  return t;
}

void AddTheory(const Config& c, const Ef21Theory& t, Plan& p, FeedbackPlan& f) {
  const auto& a = c.algorithm;
  const double first = a.first_gamma > 0 ? a.first_gamma : p.gamma;
  f.theta = t.Theta();
  if (!(t.mu > 0)) return;
  if (f.design == FeedbackDesign::kClip21) return;  // neither Corollary 1 nor Theorem 1 is about it
  if (a.initial_error > 0 && a.target_error > 0)
    p.rounds_needed = std::ceil(t.Rounds(first, p.gamma, a.initial_error, a.target_error));
  const Ef21Theory::Privacy privacy{.epsilon = c.privacy.epsilon,
                                    .delta = c.privacy.delta,
                                    .dim = static_cast<double>(p.dim),
                                    .clients = static_cast<double>(p.clients)};
  if (!(t.smoothness > 0)) return;
  const double q = a.level_ratio > 0 ? a.level_ratio : 1 / std::sqrt(Ef21Theory::H(p.gamma * t.mu));
  const double warm = t.WarmUp(first, p.gamma);
  if (warm < 1e6)  // so that a plan takes no time
    f.rounds_printed =
        std::ceil(t.PrintedRounds(t.Steps(static_cast<std::size_t>(warm) + 1, first, p.gamma), privacy));
  f.rounds_by_levels = std::ceil(t.PrintedRoundsByLevels(p.gamma, q, privacy));
  f.least_epsilon = t.LeastEpsilon(p.gamma, privacy);
}

void CountTraffic(Plan& p, FeedbackPlan& f) {
  const bool dense = f.design == FeedbackDesign::kPrivate || f.design == FeedbackDesign::kClip21 ||
                     (f.design == FeedbackDesign::kPrinted && !f.noise_first);
  f.message = MessageBytes(dense ? f.wire : f.compressor, p.dim);
  const double up = static_cast<double>((kFrameHeader + f.message) * p.schedule.size());
  const std::size_t empty = kFrameHeader + sizeof(std::uint32_t) + sizeof(std::uint64_t) + sizeof(double);
  const std::size_t full = empty + p.dim * sizeof(double);
  p.bytes_up = static_cast<std::size_t>(p.expected() * up);
  p.bytes_down =
      static_cast<std::size_t>(p.expected() * static_cast<double>(empty + full * (p.schedule.size() - 1))) +
      full * p.clients;
}

const char* ClaimSource(const std::string& algorithm) {
  if (algorithm == "dpd-ef21")
    return "DPd-EF21, Theorem 1 with Lemma 4: rho = epsilon^2/(4 ln 1/delta) for all rounds";
  if (algorithm == "dpd-ef21-2")
    return "DPd-EF21-2, Corollary 2 with Lemma 4: rho = epsilon^2/(4 ln 1/delta) for all rounds";
  return "DPd-EF21, of its baselines: zCDP over all rounds, rho = epsilon^2/(4 ln 1/delta)";
}

}  // namespace

Result<Plan> PlanFeedback(const Config& c, const PublicFacts& facts) {
  const auto& a = c.algorithm;
  const FeedbackDesign design = DesignOf(c);
  TACIT_OK(CheckData(c));
  TACIT_OK(CheckKeys(c, design));
  const bool certified = a.mode == "certified", exposed = c.privacy.mechanism == "expose";
  const bool by_client = c.privacy.unit == "client";
  TACIT_TRY(Plan p, BeginPlan(c, facts));
  auto made = std::make_shared<FeedbackPlan>();
  FeedbackPlan& f = *made;
  f.design = design;
  p.clipped = design != FeedbackDesign::kPrinted;
  TACIT_TRY(p.sampling, SamplingOf(c, p.clients));
  if (p.sampling.kind != SampleKind::kFull)
    p.turns = a.participations == 0 ? p.rounds : std::min(p.rounds, a.participations);
  TACIT_TRY(const auto objective, BuildObjective(c, facts));
  TACIT_TRY(const auto regularizer, BuildRegularizer(c));
  TACIT_TRY(const auto mechanism, MakeMechanism(c.privacy.mechanism));
  p.dim = objective->dim(facts.features);
  TACIT_OK(CheckPenalty(c, p.dim));

  // The method.
  TACIT_TRY(f.compressor, CompressorOf(c, *objective, facts.features));
  f.wire = Compressor(All{}, Floats{32});
  f.noise_first = a.name == "dpd-ef21-2";
  f.batch = a.batch;
  if (design == FeedbackDesign::kClip21) {
    f.compressor = f.wire;
    f.state = a.state;
    if (a.name == "clip21-sgd2m") f.momentum = a.beta, f.mixing = a.beta_hat;
  } else {
    f.state = design == FeedbackDesign::kMirrored ? "mirrored" : "noiseless";
  }
  f.alpha = f.compressor.alpha(p.dim);
  if (!(f.alpha > 0))
    return Fail(
        Code::kInvalidArgument,
        "algorithm.compressor = \"{}\": is no contraction, which error feedback needs; use rand instead of "
        "unbiased-rand, or keep more",
        a.compressor);
  TACIT_TRY(const Ef21Theory theory, TheoryOf(c, facts, *objective, f.alpha, p));
  const double first = a.first_gamma > 0 ? a.first_gamma : p.gamma;
  const Vec gamma = theory.Steps(p.rounds, first, p.gamma);
  Vec radius(p.rounds, 1.0);
  if (design == FeedbackDesign::kPrivate) {
    f.radius_ratio = a.radius_ratio;
    radius = Radii(1, a.radius_ratio, p.rounds);
    if (!(radius.back() > 0x1p-200))
      return Fail(
          Code::kInvalidArgument,
          "algorithm.radius_ratio = {:g}: after {} rounds nothing is left of the radius; raise it, or lower "
          "algorithm.rounds",
          a.radius_ratio, p.rounds);
    if (a.radius_rule == "trajectory") {
      if (!(theory.smoothness > 0))
        return Fail(Code::kInvalidArgument,
                    "algorithm.radius_rule = \"trajectory\": needs a public smoothness constant; set "
                    "algorithm.smoothness or data.row_norm");
      f.follow = theory.smoothness;
    }
  }
  if (design == FeedbackDesign::kPrinted) {
    f.schedule = a.schedule;
    if (a.schedule != "lyapunov") radius = PrintedRadii(gamma, theory.mu);
    if (!(theory.mu > 0))
      p.warnings.push_back(
          "algorithm.strong_convexity is 0 (and model.l2): the printed schedules then have the same noise in "
          "every "
          "round");
    const double h = Ef21Theory::H(p.gamma * theory.mu);
    if (a.schedule == "levels" && a.level_ratio != 0 && !(a.level_ratio * h > 1 && a.level_ratio < 1))
      return Fail(Code::kInvalidArgument, "algorithm.level_ratio = {:g}: must be between 1/h = {:.8g} and 1",
                  a.level_ratio, 1 / h);
  }

  // How the budget is spread over the rounds.
  const L2Bound clip = L2Bound::Proven(c.privacy.clip);
  const Delta delta = Delta::Proven(c.privacy.delta);
  const auto budget_of = [&](double e) {
    if (certified) return GdpMu(Epsilon::Proven(e), delta);
    return Mu::Proven(std::sqrt(2 * e * e / (4 * std::log(1 / delta.value()))));  // Lemma 4, as printed
  };
  const Mu budget = budget_of(c.privacy.epsilon);
  p.mu_budget = budget.value();
  const double delta_sum = p.adjacency == Adjacency::kReplaceOne ? 2 * clip.value() : clip.value();
  const Vec alike(p.rounds), log_delta(p.rounds, std::log(delta_sum));
  Vec log_q(p.rounds), log_radius(p.rounds);
  // What is left of round t's noise at the end, γ_t Π_{s>t}(1 − γ_s μ), over γ_{T−1}.
  double later = 0;
  for (std::size_t t = p.rounds; t-- > 0;) {
    log_radius[t] = std::log(radius[t]);
    if (f.state != "mirrored") continue;
    log_q[t] = 2 * (std::log(gamma[t] / gamma.back()) + later);
    later += std::log1p(-gamma[t] * theory.mu);
  }
  Shares shares = UniformShares(p.rounds);
  const bool falls = f.state == "mirrored" && theory.mu > 0;
  if (exposed) {
    // nothing to spread
  } else if (design == FeedbackDesign::kPrinted) {
    const double q = a.level_ratio > 0 ? a.level_ratio : 1 / std::sqrt(Ef21Theory::H(p.gamma * theory.mu));
    shares = WaterFillingShares(alike, PrintedLogLevels(NoiseNamed(a.schedule), gamma, theory.mu, q), 0.0);
  } else if (!certified) {
    // the same noise in every round, as these papers have it
  } else if (p.turns != 0) {
    if (a.allocation != "static" && (falls || (design == FeedbackDesign::kPrivate && radius.back() != 1) ||
                                     (a.allocation == "geometric" && a.ratio != 1)))
      return Fail(Code::kUnsupported,
                  "algorithm.allocation = \"{}\": with samples of clients a client's rounds cost the same; "
                  "set static",
                  a.allocation);
  } else if (design == FeedbackDesign::kPrivate) {
    if (a.allocation == "dynamic") shares = WaterFillingShares(alike, log_radius, kSkipShare);
  } else {
    TACIT_TRY(shares, Allocate(c, log_q, delta_sum, budget));
    if (a.allocation == "dynamic" && std::isinf(regularizer->DomainRadius(p.dim)) &&
        log_q.front() < std::log(1e-4))
      p.warnings.push_back(
          "dynamic allocation puts large noise on early rounds, and model.penalty leaves the domain "
          "unbounded: clipped "
          "gradients may not walk back; use l1box, box or l2ball, or allocation = \"static\"");
    if (a.allocation != "static")
      p.static_over_dynamic = NoiseCost(UniformShares(p.rounds), log_q, log_delta, budget) /
                              NoiseCost(shares, log_q, log_delta, budget);
  }
  if (design == FeedbackDesign::kPrivate && !exposed && p.turns == 0) {
    f.radii = NoiseOfRadii(clip.value(), a.radius_ratio, p.rounds, budget);
    if (a.allocation == "dynamic") p.static_over_dynamic = f.radii->equal_split / f.radii->total;
  }

  // Sensitivity of what is released, and the noise of every round and every distinct budget.
  // With records as the unit a batch is a secret sample, drawn by the client, and costs as such.
  if (design == FeedbackDesign::kMirrored && !by_client && a.batch != 0) {
    if (facts.records.empty())
      return Fail(
          Code::kInvalidArgument,
          "data.split = \"{}\": what a sample of records costs depends on how many the smallest client has, "
          "which must be public; use blocks or iid, or algorithm.batch = 0",
          c.data.split);
    p.least_records = *std::min_element(facts.records.begin(), facts.records.end());
    if (a.batch >= p.least_records)
      return Fail(Code::kInvalidArgument,
                  "algorithm.batch = {}: is not below the {} records of the smallest client; lower it, or "
                  "set it to 0",
                  a.batch, p.least_records);
    if ((falls && a.allocation != "static") || (a.allocation == "geometric" && a.ratio != 1))
      return Fail(
          Code::kUnsupported,
          "algorithm.allocation = \"{}\": with samples of records the noise is the same in every round; set "
          "static",
          a.allocation);
    p.sampled_records = a.batch;
    p.record_rate = DivUp(static_cast<double>(a.batch), static_cast<double>(p.least_records));
  }
  const Sampling of_records{.kind = p.sampled_records != 0 ? SampleKind::kFixed : SampleKind::kFull,
                            .rate = Probability::Proven(p.record_rate),
                            .size = static_cast<std::uint32_t>(p.sampled_records)};
  const std::size_t most = by_client                ? 1
                           : p.sampled_records != 0 ? p.sampled_records
                           : facts.records.empty()
                               ? facts.rows
                               : *std::max_element(facts.records.begin(), facts.records.end());
  const Error too_many = Fail(
      Code::kInvalidArgument,
      "data.rows = {}: a sum over {} records of one client has too few digits left to bound what one of them "
      "changes; lower it, or raise data.clients",
      facts.rows, most);
  if (most > std::size_t{1} << 30) return too_many;
  const L2Bound charged =
      Bounded::Sensitivity(p.adjacency, clip, most, by_client ? 0 : objective->Roundings(most));
  const double relative = charged.value() / delta_sum - 1 + 1e-15, absolute = mechanism->OverheadMu(p.dim);
  if (!(relative < 0.5)) return too_many;
  std::vector<std::uint32_t> active;
  for (std::size_t t = 0; t < p.rounds; ++t)
    if (!shares.skipped(t)) active.push_back(static_cast<std::uint32_t>(t + 1));
  p.skipped = p.rounds - active.size();
  std::optional<NoiseStd> sampled;
  if (p.sampled_records != 0 && !exposed) {
    TACIT_TRY(sampled, SampledNoise(p, of_records, charged, *mechanism, p.rounds));
  }
  const auto sigmas = [&](Mu mu) -> Result<NoisePlan> {
    if (sampled) return NoisePlan(active.size(), *sampled);
    if (p.turns != 0 && !exposed) {  // any so many rounds keep the budget
      TACIT_TRY(const Vec one, Calibrate(UniformShares(p.turns), mu, relative, absolute));
      TACIT_TRY(const NoiseStd sigma, NoiseStd::Of(DivUp(delta_sum, one.front())));
      return NoisePlan(active.size(), sigma);
    }
    Vec nominal(p.rounds);
    if (certified) {
      TACIT_TRY(nominal, Calibrate(shares, mu, relative, absolute));
    } else {
      for (std::size_t t = 0; t < p.rounds; ++t)
        nominal[t] = mu.value() * std::exp(0.5 * shares.log_share[t]);
    }
    return NoiseOf(active, nominal, delta_sum);
  };
  p.noise_of.assign(p.clients, 0);
  const bool unlimited = exposed || !certified || sampled.has_value();
  p.budgets.assign(p.clients, unlimited ? MuSquared::Proven(kInf) : BudgetOf(budget));
  TACIT_TRY(NoisePlan everyone, sigmas(budget));
  p.noise.push_back(std::make_shared<const NoisePlan>(std::move(everyone)));
  std::vector<double> seen = {c.privacy.epsilon};
  for (std::size_t i = 0; i < c.privacy.budgets.size(); ++i) {
    const double e = c.privacy.budgets[i];
    const auto at = static_cast<std::size_t>(std::find(seen.begin(), seen.end(), e) - seen.begin());
    if (at == seen.size()) {
      seen.push_back(e);
      TACIT_TRY(NoisePlan own, sigmas(budget_of(e)));
      p.noise.push_back(std::make_shared<const NoisePlan>(std::move(own)));
    }
    p.noise_of[i] = at;
    if (!unlimited) p.budgets[i] = BudgetOf(budget_of(e));
  }
  p.sensitivity = p.clipped ? charged.value() : kInf;
  p.record_bound = p.clipped ? clip.value() : kInf;
  p.units = most;
  for (const auto& noise : p.noise) {
    if (exposed) break;
    const auto [least, highest] = std::minmax_element(noise->begin(), noise->end());
    TACIT_OK(mechanism->CheckRange(static_cast<double>(most) * clip.value(), *least));
    TACIT_OK(mechanism->CheckRange(0, *highest));
    if (highest->value() * highest->value() > a.variance_cap)
      return Fail(Code::kBudget,
                  "algorithm.variance_cap = {:g}: this plan needs variance {:.6g}; raise it or "
                  "privacy.epsilon, or lower "
                  "algorithm.rounds",
                  a.variance_cap, highest->value() * highest->value());
  }

  // What it comes to.
  std::size_t lead = p.noise_of.front();  // the largest budget that someone has
  for (const std::size_t at : p.noise_of)
    if (seen[at] > seen[lead]) lead = at;
  p.epsilon = seen[lead];
  p.mu_budget = budget_of(p.epsilon).value();
  const double divisor = by_client || design == FeedbackDesign::kPrinted ? 1.0
                         : p.sampled_records != 0
                             ? static_cast<double>(p.sampled_records)
                             : static_cast<double>(facts.rows) / static_cast<double>(p.clients);
  MuSquared spent{0.0};
  double variances = 0;  // Σ σ_t² of a client's messages
  for (std::size_t k = 0; k < active.size(); ++k) {
    const NoiseStd sigma = (*p.noise[lead])[k];
    const std::size_t t = active[k] - 1;
    PlannedRound r{.round = active[k], .share = shares.share(t)};
    r.sigma = exposed ? 0 : sigma.value();
    r.noise_on_mean = r.sigma * radius[t] / divisor;
    r.mu = kInf;
    if (p.clipped && !exposed) {
      const PrivacyEvent event = mechanism->EventFor(charged, sigma, p.dim);
      if (const auto* g = std::get_if<GaussianEvent>(&event)) r.mu = g->mu.value();
    }
    if (p.turns == 0 || k < p.turns) spent = spent + MuSquared::Proven(MulUp(r.mu, r.mu));
    variances += r.noise_on_mean * r.noise_on_mean;
    p.schedule.push_back(r);
    f.gamma.push_back(gamma[t]);
    f.radius.push_back(radius[t]);
  }
  const Interval reached = GdpEpsilon(Root(spent), delta);
  p.certified_epsilon = reached.upper;
  p.certified_epsilon_lower = reached.lower;
  if (sampled) {
    p.account.emplace(p.adjacency);
    const PrivacyEvent one = mechanism->EventFor(charged, *sampled, p.dim);
    TACIT_OK(p.account->Compose(OnSecretSample(of_records, one), active.size()));
    TACIT_OK(StateAccount(p));
  }
  p.zcdp_epsilon = std::isinf(spent.value()) ? kInf : ZcdpEpsilon(Rho::Proven(spent.value() / 2), delta);
  if (exposed)
    p.warnings.push_back(
        "privacy.mechanism = \"expose\": nothing is noised, so the run is not private, whatever "
        "privacy.epsilon says");
  if (!certified && !exposed) {
    p.claimed_epsilon = p.epsilon;
    p.claim_source = ClaimSource(a.name);
    if (design == FeedbackDesign::kPrinted)
      p.warnings.push_back(fmt::format(
          "nothing bounds a message, so the certified epsilon is infinite; the printed noise is for first "
          "messages up "
          "to privacy.clip = {:g}{}",
          c.privacy.clip,
          a.schedule == "lyapunov"
              ? ", and follows the private objective: the noise planned is that of the first round"
              : ""));
  }
  AddTheory(c, theory, p, f);
  if (theory.mu > 0 && !exposed) {
    const auto d = static_cast<double>(p.dim), n = static_cast<double>(p.clients);
    // Of a noiseless state's noise the server keeps what was sent, times β̂: all of it where it comes after
    // the compressor, and before one that keeps every coordinate. What Top-K keeps of it depends on the
    // differences; what has the variance κV_t, or a radius that follows the iterates, on the run. A mirrored
    // state forgets noise where every client sends every coordinate in every round; otherwise it stays for
    // longer, and how long is not known in advance.
    const double rate = p.expected() / n;
    const bool keeps_all = std::holds_alternative<All>(f.compressor.selection()) &&
                           std::holds_alternative<Floats>(f.compressor.values());
    const bool printed_first = design == FeedbackDesign::kPrinted && f.noise_first;
    const bool by_the_run = f.schedule == "lyapunov" || f.follow > 0;
    if (f.state == "noiseless" && !by_the_run && (keeps_all || !printed_first))
      f.floor = AccumulatedFloor(rate * f.mixing * f.mixing * variances, d, n, theory.mu);
    else if (f.state == "mirrored" && certified && rate == 1 &&
             keeps_all)  // for the optimal split MirroredFloor
      f.floor =
          gamma.back() * gamma.back() * d / n *
          std::accumulate(p.schedule.begin(), p.schedule.end(), 0.0, [&](double sum, const PlannedRound& r) {
            return sum + std::exp(log_q[r.round - 1]) * r.noise_on_mean * r.noise_on_mean;
          });
  }
  CountTraffic(p, f);
  p.feedback = std::move(made);
  return p;
}

}  // namespace tacit
