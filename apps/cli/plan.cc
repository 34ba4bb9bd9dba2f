// tacit plan: what a run will do and cost, without touching data.
#include <cmath>
#include <memory>

#include "cli.h"
#include "experiment/feedback_plan.h"
#include "experiment/network_plan.h"
#include "experiment/run.h"
#include "experiment/second_order_plan.h"
#include "privacy/gdp.h"

namespace tacit::cli {
namespace {

void Line(const char* name, const std::string& text) { fmt::print("  {:<12} {}\n", name, Wrapped(text, 15)); }

constexpr std::size_t kMostJsonRounds = 1000;      // unless --all: ten million would be gigabytes

// About `wanted` indices of 0 … n − 1, evenly spread, with both ends.
std::vector<std::size_t> Spread(std::size_t n, std::size_t wanted) {
  std::vector<std::size_t> picked;
  if (wanted == 0 || n <= wanted) wanted = n;
  for (std::size_t k = 0; k < wanted; ++k) picked.push_back(wanted == 1 ? 0 : k * (n - 1) / (wanted - 1));
  return picked;
}

// ε after each of the rounds picked, ascending: one pass over the schedule.
std::vector<double> EpsilonAfter(const Plan& p, const std::vector<std::size_t>& picked) {
  // A plan is paid for as a whole.
  if (std::isinf(p.certified_epsilon) || p.account)
    return std::vector<double>(picked.size(), p.certified_epsilon);
  std::vector<double> out;
  MuSquared spent{0.0};
  std::size_t next = 0;
  for (const std::size_t k : picked) {
    for (; next <= k && (p.turns == 0 || next < p.turns); ++next)
      spent = spent + Squared(Mu::Proven(p.schedule[next].mu));
    out.push_back(GdpEpsilon(Root(spent), Delta::Proven(p.delta)).upper);
  }
  return out;
}

// The graph, the noise on it, and which allocation suits the output.
void PrintNetwork(const Plan& p) {
  const NetworkPlan& n = *p.network;
  Line("graph",
       fmt::format("Φ_min = {}, Φ_max = {} of L₋, Φ_min = {}, Φ_max = {} of L₊; spectral gap {} of the "
                   "Metropolis matrix",
                   Digits(n.spectrum.phi_min), Digits(n.spectrum.phi_max), Digits(n.spectrum.signless_min),
                   Digits(n.spectrum.signless_max), Digits(n.spectrum.gap)));
  const bool exposed = p.mechanism == "expose";
  Line("factor", fmt::format("{:.8g} a round for a graph whose peers all have the mean degree, and strong "
                             "convexity {}: a guide",
                             p.factor, Digits(p.mu_f)));
  if (n.noise_term)
    Line("Theorem II", fmt::format("noise term {} for this schedule", Digits(*n.noise_term)));
  else if (!exposed)
    Line("Theorem II", "and (22) to (24) are for the linearised method, zcdp-nfl");
  if (n.bound22)
    Line("", fmt::format("(22) {}, (23) {}, (24) {}: the sum over rounds to infinity, misprints corrected",
                         Digits(*n.bound22), Digits(*n.bound23), Digits(*n.bound24)));
  else if (n.noise_term)
    Line("", "(22) to (24) are for noise that falls by a constant factor, and here it does not");
  if (!n.composition.empty()) {
    if (!exposed)
      Line("allocation", "equal rounds: the composition theorems of dp-nfl are for rounds of equal noise");
    return;
  }
  const bool last = n.output == "last";
  const Plan::Allocation* best = nullptr;
  for (const Plan::Allocation& a : p.allocations) {
    Line(&a == p.allocations.data() ? "allocation" : "",
         fmt::format("{}: {} of the noise of equal rounds in the last notes{}, {} in their mean", a.name,
                     Digits(a.last), n.by_factor ? " by the factor of the mean degree" : "", Digits(a.mean)));
    if (best == nullptr || (last ? a.last < best->last : a.mean < best->mean)) best = &a;
  }
  if (best != nullptr)
    Line("best",
         fmt::format("{} for algorithm.output = \"{}\": {} of the noise of equal rounds; this plan has {}",
                     best->name, n.output, Digits(last ? best->last : best->mean),
                     Digits(1 / p.static_over_dynamic)));
}

// Steps, radii and the paper's conditions, with error feedback.
void PrintFeedback(const Plan& p) {
  const FeedbackPlan& f = *p.feedback;
  const bool ef21 = f.design != FeedbackDesign::kClip21;
  const std::string most = p.gamma_max > 0 ? Digits(p.gamma_max) : std::string("unknown");
  Line("step",
       fmt::format("γ = {}{}, γ_EF = {}  (L = {}, μ = {}, α = {}, θ = {})", Digits(f.gamma.back()),
                   f.gamma.front() < f.gamma.back() ? fmt::format(", from {}", Digits(f.gamma.front())) : "",
                   most, p.l_f > 0 ? Digits(p.l_f) : "unknown", Digits(p.mu_f), Digits(f.alpha),
                   Digits(f.theta)));
  if (f.design == FeedbackDesign::kPrivate)
    Line("radii", fmt::format("{} to {}, by {} a round{}", Digits(p.clip * f.radius.front()),
                              Digits(p.clip * f.radius.back()), Digits(f.radius_ratio),
                              f.follow > 0 ? ", less where the iterates move little" : ""));
  if (f.radii)
    Line("split",
         fmt::format("Σσ² = {} on the server where variances fall with the radii, {} for an equal split",
                     Digits(f.radii->total), Digits(f.radii->equal_split)));
  if (f.floor)
    Line("floor",
         fmt::format("{} of E‖x − x*‖² is left by the noise of this plan, on a quadratic of curvature {}",
                     Digits(*f.floor), Digits(p.mu_f)));
  if (p.rounds_needed)
    Line("rounds", fmt::format("{} by Corollary 1 at this initial and target error; {} planned",
                               Digits(*p.rounds_needed, 6), p.rounds));
  if (f.rounds_printed)
    Line(p.rounds_needed ? "" : "rounds",
         fmt::format("at least {} as printed in Theorem 1, {} as printed in Appendix D",
                     Digits(*f.rounds_printed, 6), Digits(*f.rounds_by_levels, 6)));
  if (f.least_epsilon && ef21)
    Line("", fmt::format("with the proof's constants put right, neither is enough below ε = {}",
                         Digits(*f.least_epsilon)));
}

// The constants of DP-FCRN, and in paper mode what its calibration rests on.
void PrintSecondOrder(const Plan& p) {
  const SecondOrderPlan& s = *p.second_order;
  const DpFcrn::Options& o = s.options;
  if (o.design != DpFcrn::Design::kGradient)
    Line("cubic term", fmt::format("M = {}, how fast Hessians change at most", Digits(o.solver.cubic)));
  if (o.design == DpFcrn::Design::kFull || o.design == DpFcrn::Design::kSubspace)
    Line("solver",
         fmt::format("τ = {}: {} noisy steps of size 2/(μ(s + 2)), μ = {}; no longer than {} in all", o.steps,
                     o.Releases(), Digits(o.solver.curvature), Digits(s.diameter)));
  if (p.mode != "paper") return;
  Line("(9)", fmt::format("τ = {} local iterations{}", Digits(s.printed_steps),
                          s.printed_steps < 1 ? ": less than one, so the model never moves" : ""));
  Line("(6)",
       fmt::format("two records' selected gradients are {} apart by the paper and up to {} in truth, since "
                   "the cubic term does not cancel",
                   Digits(s.printed_sensitivity), Digits(s.true_sensitivity)));
  if (p.account)
    Line("if (6) held",
         fmt::format("the noise of (7) would have a certified ε of {}", EpsilonText(s.granted_epsilon)));
}

void PrintTheory(const Plan& p) {
  fmt::print("\n{}\n", Styled(stdout, Style::kBold, "Theory"));
  if (p.network) return PrintNetwork(p);
  if (p.feedback) return PrintFeedback(p);
  if (p.second_order) return PrintSecondOrder(p);
  if (p.gamma > 0)
    Line("step", fmt::format("γ = {} of at most min{{1/4, 1/L_f}} = {}  (L_f = {}, μ_f = {})",
                             Digits(p.gamma), Digits(p.gamma_max), Digits(p.l_f), Digits(p.mu_f)));
  Line("factor", fmt::format("{:.8g} a round", p.factor));
  if (p.bound_printed)
    Line("noise bound", fmt::format("{} as printed in (12), {} sharpened for this schedule",
                                    Digits(*p.bound_printed), Digits(p.bound_sharp.value_or(kInf))));
  if (p.rounds_needed)
    Line("rounds", fmt::format("{} asked for by the theory at this initial error; {} planned",
                               Digits(*p.rounds_needed, 6), p.rounds));
  for (const Plan::Allocation& a : p.allocations)
    Line(&a == p.allocations.data() ? "allocation" : "",
         fmt::format(
             "{}: {} of the noise of equal rounds is left at the end; its variance over all rounds is {} "
             "times theirs",
             a.name, Digits(a.last), Digits(a.mean)));
}

// What a round on a sample of records releases.
void PrintRounds(const Plan& p, bool exposed, const char* noise) {
  const SecondOrderPlan& s = *p.second_order;
  const DpFcrn::Options& o = s.options;
  const bool sampled = o.sampling.sample.kind != SampleKind::kFull;
  Line("records",
       o.sampling.cycle
           ? fmt::format("the next {} of a client in a round, in an order that is no secret", o.sampling.size)
       : !sampled ? std::string("all of a client's in every round")
                  : fmt::format("{}{} of a client's {} in a round, a secret sample drawn anew: rate {}",
                                Grouped(o.sampling.size),
                                o.sampling.sample.kind == SampleKind::kPoisson ? " in the mean" : "",
                                s.least_records == s.most_records
                                    ? Grouped(s.most_records)
                                    : Grouped(s.least_records) + " to " + Grouped(s.most_records),
                                Digits(o.sampling.sample.rate.value())));
  const std::string where =
      s.coordinates == p.dim
          ? fmt::format("all {} coordinates", p.dim)
          : fmt::format("{} of {} coordinates, the same for all clients", s.coordinates, p.dim);
  const std::string what =
      o.design == DpFcrn::Design::kGradient
          ? fmt::format("the sum of a sample's gradients on {}, clipped to {} each", where, Digits(p.clip))
      : o.design == DpFcrn::Design::kOnce
          ? fmt::format(
                "the sums of a sample's gradients and Hessians on {}, clipped to {} and {} each, once", where,
                Digits(p.clip), Digits(o.clip_hessian))
          : fmt::format(
                "{} gradients of a sample's cubic model on {}, terms clipped to {}{} each", o.Releases(),
                where, Digits(p.clip),
                o.clip_hessian > 0 ? fmt::format(" + {} times the step", Digits(o.clip_hessian)) : "");
  Line("release",
       exposed ? what + ", without noise"
               : fmt::format("{}; sensitivity {} at first, {} noise", what, Digits(p.sensitivity), noise));
}

Result<int> Run(const Common& common, const std::string& file, bool all) {
  TACIT_TRY(const auto sets, common.Assignments());
  TACIT_TRY(const Config config, LoadConfig(file, sets));
  TACIT_TRY(const PublicFacts facts, FactsWithoutData(config));
  TACIT_TRY(const Plan plan, MakePlan(config, facts));
  if (common.json) {
    const std::vector<std::size_t> picked = Spread(plan.schedule.size(), all ? 0 : kMostJsonRounds);
    const std::vector<double> epsilon = EpsilonAfter(plan, picked);
    Plan shown = plan;
    shown.schedule.clear();
    for (const std::size_t k : picked) shown.schedule.push_back(plan.schedule[k]);
    nlohmann::json document = ToJson(shown);
    for (std::size_t i = 0; i < picked.size(); ++i) document["schedule"][i]["epsilon"] = Number(epsilon[i]);
    document["schedule_complete"] = picked.size() == plan.schedule.size();
    return PrintJson(document);
  }
  PrintPlan(plan, config, all ? 0 : 12);
  PrintTheory(plan);
  return 0;
}

}  // namespace

void PrintPlan(const Plan& p, const Config& c, std::size_t rounds) {
  const bool exposed = p.mechanism == "expose";
  fmt::print("{}\n", Styled(stdout, Style::kBold, "Plan (from public constants; no data has been touched)"));
  Line("method", fmt::format("{}, {} mode ({})", p.algorithm, p.mode, p.paper));
  Line("problem", fmt::format("{} on {}: {} rows at {} clients, {} parameters", c.model.name, c.data.source,
                              Grouped(p.rows), Grouped(p.clients), Grouped(p.dim)));
  if (exposed) {
    Line("promise", "none: mechanism = expose releases the values as they are");
  } else if (p.mode == "paper") {
    Line("claim", fmt::format("ε = {}, δ = {} for one {}: {}", Digits(p.epsilon), DigitsUp(p.delta), p.unit,
                              p.claim_source));
    Line("certified", fmt::format("ε = {} at δ = {}: what can be proved of the same noise",
                                  EpsilonText(p.certified_epsilon), DigitsUp(p.delta)));
  } else {
    Line("promise",
         fmt::format(
             "(ε, δ) = ({}, {}) for one {}, {} adjacency, against everybody who sees all {} of the run{}",
             DigitsUp(p.epsilon), DigitsUp(p.delta), UnitText(p.unit, p.person_bound, p.records_per_person),
             Name(p.adjacency), p.trust != "local" ? "models" : "messages",
             p.trust == "central" ? "; the server is trusted"
             : p.secure           ? "; the server learns masked sums only"
                                  : ""));
    if (!c.privacy.budgets.empty())
      Line("",
           "clients have their own budgets (privacy.budgets); this and the schedule below are of the least "
           "protected client");
  }
  if (p.sampling.kind != SampleKind::kFull)
    Line("sampling",
         fmt::format(
             "{}, {}",
             p.sampling.kind == SampleKind::kPoisson
                 ? fmt::format("each of {} clients with probability {} in a round", Grouped(p.clients),
                               Digits(p.sampling.rate.value()))
                 : fmt::format("{} of {} clients in a round", Grouped(p.sampling.size), Grouped(p.clients)),
             p.secret()
                 ? "known to the server alone"
                 : fmt::format("seen by everybody; a client takes part in at most {}", Grouped(p.turns))));
  if (p.by_records)
    Line(
        "weights",
        "by numbers of records, which are public: " +
            (p.weights.empty() ? std::string("they are not known before the data are")
                               : fmt::format("those of {} of {} clients with {} records", Digits(p.everyone),
                                             Grouped(p.clients), Grouped(p.most_records))) +
            (p.trust != "central" ? ""
             : p.weights.empty()  ? ", and the noise on the mean is more than this if they differ"
                                 : fmt::format(", so the noise on the mean is {} times that of equal weights",
                                               Digits(static_cast<double>(p.clients) / p.everyone))));
  if (p.secure) {
    const Quorum& q = p.secure->quorum();
    Line("aggregate",
         fmt::format("masked, modulo 2^{}: {} of {} clients in a sum at least, {} of them assumed to "
                     "collude; the noise "
                     "of {} is charged for, and {} open a sum",
                     p.secure->bits(), q.minimum, q.clients, q.colluding, q.honest(), q.threshold()));
  }
  const char* noise = p.mechanism == "lattice_gaussian"    ? "lattice Gaussian"
                      : p.mechanism == "discrete_gaussian" ? "discrete Gaussian"
                                                           : "floating-point Gaussian";
  if (p.randomizer)
    Line("release",
         fmt::format(
             "a client's update, clipped to norm {}: its direction by PrivUnit with ε = {} (cap at {}), its "
             "length by ScalarDP with ε = {} ({} levels) a message",
             Digits(p.clip), DigitsUp(PureCost(p.randomizer->direction().event()).value()),
             Digits(p.randomizer->direction().gamma()),
             DigitsUp(PureCost(p.randomizer->length().event()).value()), p.randomizer->length().k() + 1));
  else if (p.second_order)
    PrintRounds(p, exposed, noise);
  else if (p.network && p.network->argmin)
    Line("release", exposed ? std::string("every peer's minimiser, without noise")
                            : fmt::format("every peer's minimiser, records' gradients {} norm {} each; "
                                          "sensitivity up to {}, {} noise",
                                          p.clipped ? "clipped to" : "assumed of", Digits(p.clip),
                                          Digits(p.sensitivity), noise));
  else if (p.feedback && !exposed && (!p.clipped || p.by_client()))
    Line(
        "release",
        !p.clipped
            ? fmt::format(
                  "a client's difference of gradients, {} {}, not clipped; first messages assumed up to {}, "
                  "{} noise",
                  p.feedback->compressor.text(),
                  p.feedback->noise_first ? "after the noise" : "before the noise", Digits(p.clip), noise)
        : p.feedback->design == FeedbackDesign::kMirrored
            ? fmt::format(
                  "a client's gradient, clipped to norm {}; sensitivity {}, {} noise; sent is its difference "
                  "from what was sent before, {}",
                  Digits(p.clip), Digits(p.sensitivity), noise, p.feedback->compressor.text())
            : fmt::format(
                  "a client's difference of gradients{}, clipped to norm {}{}; sensitivity {}, {} noise",
                  p.feedback->design == FeedbackDesign::kPrivate ? ", " + p.feedback->compressor.text()
                                                                 : std::string(),
                  Digits(p.clip),
                  p.feedback->design == FeedbackDesign::kPrivate ? " times the radius of the round" : "",
                  Digits(p.sensitivity), noise));
  else if (p.by_client())
    Line("release",
         exposed ? std::string("clients' updates, without noise")
                 : fmt::format("{}, clipped to norm {} each{}; sensitivity {}, {} noise",
                               p.secret()           ? "the sum of the sampled clients' updates"
                               : p.trust != "local" ? "the sum of all clients' updates"
                                                    : "a client's update",
                               Digits(p.clip), p.indicator > 0 ? " at first, then by private counts" : "",
                               Digits(p.sensitivity), noise));
  else
    Line("release",
         exposed ? std::string("the sum of a client's gradients, without noise")
                 : fmt::format("the sum of a client's gradients{}, {} norm {} {}; sensitivity {}, {} noise",
                               p.feedback && p.sampled_records != 0
                                   ? fmt::format(" over a secret sample of {} records", p.sampled_records)
                                   : std::string(),
                               p.clipped ? "clipped to" : "assumed of", Digits(p.clip),
                               p.person_bound == "sum" ? "for each person" : "each", Digits(p.sensitivity),
                               noise));
  if (p.network) {
    const NetworkPlan& n = *p.network;
    const auto [least, most] = DegreesOf(n.graph);
    Line("network", fmt::format("{} of {} peers with {} edges and {} neighbours; no server{}", n.topology,
                                Grouped(n.graph.size()), Grouped(n.graph.edges()),
                                least == most ? Grouped(least) : fmt::format("{} to {}", least, most),
                                n.away.empty() && n.leave.empty()
                                    ? ""
                                    : fmt::format("; {} absences", n.away.size() + n.leave.size())));
    if (!exposed)
      Line("", fmt::format("noise on a note in the last round: std {} to {}, less for peers with more "
                           "neighbours and records",
                           Digits(n.least_noise), Digits(n.most_noise)));
  }
  if (p.feedback && p.feedback->design == FeedbackDesign::kMirrored && !p.by_client())
    Line("", fmt::format("sent is its mean's difference from what was sent before, {}",
                         p.feedback->compressor.text()));
  Line("traffic", fmt::format("{} up, {} down in all", Bytes(p.bytes_up), Bytes(p.bytes_down)));
  Line("rounds",
       p.skipped == 0
           ? fmt::format("{}", Grouped(p.rounds))
           : fmt::format("{}, of which the first {} carry so little of the budget that they are skipped",
                         Grouped(p.rounds), Grouped(p.skipped)));
  fmt::print("\n");
  Table table({"round", "share of μ²", "μ",
               p.secure                                                                    ? "σ of a client"
               : (p.by_client() && p.trust == "local") || (p.network && p.network->argmin) ? "σ"
                                                                                           : "σ of the sum",
               p.feedback                       ? "noise on message"
               : p.by_client()                  ? "noise on mean"
               : p.network && p.network->argmin ? "noise on note"
                                                : "noise on gradient",
               p.account ? "ε of the plan" : "ε so far"});
  const std::vector<std::size_t> picked = Spread(p.schedule.size(), rounds);
  const std::vector<double> epsilon = EpsilonAfter(p, picked);
  for (std::size_t i = 0; i < picked.size(); ++i) {
    const PlannedRound& r = p.schedule[picked[i]];
    table.Add({Grouped(r.round), Digits(r.share), DigitsUp(r.mu), Digits(r.sigma), Digits(r.noise_on_mean),
               EpsilonText(epsilon[i])});
  }
  table.Print(stdout);
  if (p.randomizer)
    fmt::print(
        "  σ: of Gaussian noise that would be as large, for updates as long as the clip; ε at δ = 0: {}\n",
        DigitsUp(p.pure_epsilon));
  if (p.account)
    fmt::print("  ε of all rounds together, paid for before the first: {}\n", p.method);
  else if (!exposed)
    fmt::print("  ε by the exact Gaussian curve; the same noise by the zCDP conversion: {}\n",
               DigitsUp(p.zcdp_epsilon));
  for (const std::string& w : p.warnings) Warn(w);
  for (const std::string& w : p.ignored) Warn(w);
}

void AddPlan(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "plan", "print the noise, ε and bytes of a run round by round, without touching data",
              "  tacit plan experiments/demo.toml\n"
              "  tacit plan experiments/demo.toml --all --set privacy.epsilon=1\n"
              "  tacit plan experiments/demo.toml --json | jq .certified_epsilon\n");
  struct Arguments {
    std::string file;
    bool all = false;
  };
  auto a = std::make_shared<Arguments>();
  verb->add_option("file", a->file, "experiment file")->required()->type_name("FILE.toml");
  verb->add_flag("--all", a->all, "every round of the schedule, not a selection (of 12, in JSON of 1000)");
  verb->callback([a, &run] { run.action = [a, &run] { return Run(run.common, a->file, a->all); }; });
}

}  // namespace tacit::cli
