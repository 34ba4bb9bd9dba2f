// tacit account: what noise costs (gaussian), and what runs have spent (ledger).
#include <algorithm>
#include <cmath>
#include <memory>

#include "account.h"
#include "cli.h"
#include "privacy/event_json.h"
#include "privacy/gdp.h"
#include "privacy/ledger.h"

namespace tacit::cli {
namespace {

constexpr const char* kMethod = "Gaussian differential privacy, exact";

struct GaussianArguments {
  std::optional<double> multiplier, sigma, sensitivity, clip, epsilon;
  double rounds = 1;
  Asked asked;
};

// σ over the sensitivity, from whichever pair was given. Rounded down, so that μ is rounded up.
Result<double> Multiplier(const GaussianArguments& a, Adjacency adjacency) {
  const int given = (a.multiplier ? 1 : 0) + (a.sigma ? 1 : 0);
  if (given != 1)
    return Fail(Code::kInvalidArgument,
                "account gaussian: give one of --noise-multiplier Z, --sigma S (with --sensitivity or "
                "--clip), or --epsilon E");
  if (a.multiplier) {
    if (a.sensitivity || a.clip)
      return Fail(Code::kInvalidArgument,
                  "--sensitivity and --clip go with --sigma: a noise multiplier is σ already divided by the "
                  "sensitivity");
    TACIT_TRY(const NoiseMultiplier z, NoiseMultiplier::Of(*a.multiplier));
    return z.value();
  }
  TACIT_TRY(const NoiseStd sigma, NoiseStd::Of(*a.sigma));
  if (a.sensitivity.has_value() == a.clip.has_value())
    return Fail(Code::kInvalidArgument,
                "--sigma {}: give with it either --sensitivity, or --clip, the bound of one contribution",
                *a.sigma);
  TACIT_TRY(const L2Bound bound, L2Bound::Of(a.sensitivity ? *a.sensitivity : *a.clip));
  // Replacing one contribution of norm ≤ C moves a sum by 2C, adding, removing or nulling it by C.
  const double sensitivity = bound.value() * (a.clip && adjacency == Adjacency::kReplaceOne ? 2 : 1);
  const double z = sigma.value() / sensitivity;
  return std::fma(z, sensitivity, -sigma.value()) > 0 ? NextDown(z) : z;
}

Result<int> Gaussian(const Common& common, const GaussianArguments& a) {
  TACIT_OK(common.ExpectNoSets("account"));
  TACIT_TRY(const std::uint64_t count, ParseCount(a.rounds, "--rounds"));
  TACIT_TRY(const Delta delta, a.asked.DeltaOr());
  TACIT_TRY(const Adjacency adjacency, a.asked.AdjacencyOr(Adjacency::kReplaceOne));
  const Stopwatch watch;
  const double rounds = a.rounds;
  double multiplier = 0;
  if (a.epsilon) {
    if (a.multiplier || a.sigma)
      return Fail(Code::kInvalidArgument,
                  "--epsilon asks for the noise: leave out --noise-multiplier and --sigma");
    if (!(*a.epsilon > 0 && *a.epsilon <= 1e100))
      return Fail(Code::kInvalidArgument, "--epsilon = {}: must be in (0, 1e100]", *a.epsilon);
    TACIT_TRY(const Epsilon epsilon, Epsilon::Of(*a.epsilon));
    const Mu mu = GdpMu(epsilon, delta);
    if (!(mu.value() > 0))
      return Fail(Code::kBudget,
                  "--epsilon = {}, --delta = {}: no noise is enough for this budget; raise one of them",
                  *a.epsilon, delta.value());
    // One step up if rounding μ up again would cost more than was asked for.
    multiplier = DivUp(SqrtUp(rounds), mu.value());
    if (DivUp(SqrtUp(rounds), multiplier) > mu.value()) multiplier = NextUp(multiplier);
  } else {
    TACIT_TRY(multiplier, Multiplier(a, adjacency));
  }
  // μ = √T / z rounded up, so at most 3 ulp above the truth: the lower end starts from below that.
  const Mu mu = Mu::Proven(DivUp(SqrtUp(rounds), multiplier));
  const Mu below = Mu::Proven(std::max(0.0, NextDown(NextDown(NextDown(mu.value())))));
  const Interval epsilon{.lower = GdpEpsilon(below, delta).lower, .upper = GdpEpsilon(mu, delta).upper};
  const double zcdp = ZcdpEpsilon(Rho::Proven(MulUp(MulUp(mu.value(), mu.value()), 0.5)), delta);
  Accountant account(adjacency);
  TACIT_OK(account.Compose(JointGaussianEvent{mu}));
  return Print(
      common, account, delta, a.asked,
      {.title = fmt::format("{} Gaussian release{}", Grouped(count), count == 1 ? "" : "s"),
       .more = {{"mu", Number(mu.value())},
                {"noise_multiplier", Number(multiplier)},
                {"rounds", count},
                {"zcdp_epsilon", Number(zcdp)}},
       .lines = {{"μ", DigitsUp(mu.value(), 12)},
                 {"noise multiplier",
                  fmt::format("{}  (σ divided by the sensitivity)",
                              a.epsilon ? DigitsUp(multiplier, 12) + ", the smallest that keeps ε"
                                        : Digits(multiplier, 12))},
                 {"ε by zCDP",
                  fmt::format("{}  (the looser conversion ρ + 2√(ρ ln 1/δ) of the papers)", DigitsUp(zcdp))}},
       .epsilon = Bracket{epsilon.lower, epsilon.upper, kMethod},
       .seconds = watch.seconds()});
}

Result<int> OfLedger(const Common& common, const std::string& where, const Asked& asked) {
  TACIT_OK(common.ExpectNoSets("account"));
  const Stopwatch watch;
  std::filesystem::path file = where;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    TACIT_TRY(const std::filesystem::path folder, FindRun(where));
    file = folder / "ledger.db";
  }
  TACIT_TRY(const std::vector<LedgerRecord> records, SqliteVault::Read(file));
  nlohmann::json runs = nlohmann::json::array();
  Table table({"run", "data", "mode", "unit", "adjacency", "clients", "largest μ", "ε spent", "ε budget", "δ",
               "state"});
  for (std::size_t left : {0u, 1u, 2u, 3u, 4u, 10u}) table.Left(left);
  struct Worst {
    std::string run;
    Mu mu{0.0};
    Delta delta{0.0};
    Adjacency adjacency = Adjacency::kReplaceOne;
    Bracket epsilon{0, -1, ""};
    std::optional<Accountant> plan;
  } worst;
  for (const LedgerRecord& r : records) {
    TACIT_TRY(const Adjacency adjacency, ParseAdjacency(r.adjacency));
    if (!asked.adjacency.empty() && asked.adjacency != r.adjacency)
      return Fail(
          Code::kInvalidArgument,
          "--adjacency {}: the run {} was charged under {}, and no other ε follows from that; leave it out",
          asked.adjacency, r.run, r.adjacency);
    const auto largest = [](const std::vector<double>& v) {
      return v.empty() ? 0.0 : *std::max_element(v.begin(), v.end());
    };
    TACIT_TRY(const Delta recorded, Delta::Of(r.delta));
    TACIT_TRY(const Delta delta, asked.DeltaOr(recorded));
    TACIT_TRY(const MuSquared spent, MuSquared::Of(largest(r.spent)));
    TACIT_TRY(const MuSquared budget, MuSquared::Of(largest(r.budget)));
    std::optional<Accountant> plan;
    Bracket of_plan;
    if (!r.plan.empty()) {      // paid for as a whole
      TACIT_TRY(EventFile events, ParseEvents(r.plan, file.string(), adjacency));
      TACIT_TRY(of_plan, events.account.EpsilonAt(delta));
      plan = std::move(events.account);
    }
    const Interval gdp = GdpEpsilon(Root(spent), delta);
    const Interval epsilon = plan ? Interval{of_plan.lower, of_plan.upper} : gdp;
    const double allowed = plan ? epsilon.upper : GdpEpsilon(Root(budget), delta).upper;
    const std::string method = plan ? of_plan.method : kMethod;
    table.Add({r.run, r.data, r.mode, r.unit, r.adjacency, Grouped(r.spent.size()),
               plan ? "planned" : DigitsUp(Root(spent).value()), EpsilonText(epsilon.upper),
               std::isinf(allowed) ? "none" : DigitsUp(allowed), DigitsUp(delta.value()), r.state});
    if (epsilon.upper > worst.epsilon.upper)
      worst = {r.run, Root(spent), delta, adjacency, {epsilon.lower, epsilon.upper, method}, plan};
    runs.push_back({{"run", r.run},
                    {"data", r.data},
                    {"mode", r.mode},
                    {"unit", r.unit},
                    {"adjacency", r.adjacency},
                    {"state", r.state},
                    {"clients", r.spent.size()},
                    {"mu", Number(Root(spent).value())},
                    {"epsilon", Number(epsilon.upper)},
                    {"epsilon_lower", Number(epsilon.lower)},
                    {"epsilon_budget", Number(allowed)},
                    {"delta", delta.value()},
                    {"planned", plan.has_value()},
                    {"method", method}});
  }
  if (records.empty())
    return Fail(Code::kNotFound, "{}: holds no run; give the ledger of a run that was started",
                file.string());
  if (!common.json) table.Print(stdout, 0);
  Accountant account(worst.adjacency);
  if (worst.plan)
    TACIT_OK(account.Compose(*worst.plan));
  else
    TACIT_OK(account.Compose(JointGaussianEvent{worst.mu}));
  TACIT_TRY(
      const int code,
      Print(common, account, worst.delta, asked,
            {.title = records.size() == 1 ? "Spent" : "Most was spent by " + worst.run,
             .more = {{"ledger", file.string()},
                      {"run", worst.run},
                      {"mu", Number(worst.mu.value())},
                      {"runs", runs}},
             .lines = {{"μ", worst.plan ? "none: the plan as a whole" : DigitsUp(worst.mu.value(), 12)}},
             .epsilon = worst.epsilon,
             .seconds = watch.seconds()}));
  if (std::any_of(records.begin(), records.end(), [](const LedgerRecord& r) { return r.state == "open"; }) &&
      !common.quiet && !common.json)
    fmt::print(stderr, "open: the run has not ended, or was killed; what it had reserved counts as spent\n");
  return code;
}

}  // namespace

void AddAccount(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "account", "what noise costs, and what runs have spent",
              "  tacit account gaussian --noise-multiplier 10 --rounds 100 --delta 1e-5\n"
              "  tacit account subsampled-gaussian --noise-multiplier 1 --rate 0.01 --rounds 1000 "
              "--delta 1e-5\n"
              "  tacit account events releases.json --delta 1e-5 --json\n"
              "  tacit account ledger runs/demo-20260101T120000\n"
              "  tacit account gaussian --help                     the flags of one of them\n");
  verb->require_subcommand(1);
  {
    CLI::App* sub = AddVerb(
        *verb, run, "gaussian", "exact ε of T Gaussian releases, or the noise that an ε needs",
        "  tacit account gaussian --noise-multiplier 10 --rounds 100 --delta 1e-5\n"
        "  tacit account gaussian --sigma 40 --clip 1 --rounds 100 --delta 1e-5\n"
        "  tacit account gaussian --epsilon 1 --rounds 100 --delta 1e-5      the multiplier it needs\n"
        "  tacit account gaussian --noise-multiplier 10 --rounds 100 --delta 1e-5 --plot\n");
    auto a = std::make_shared<GaussianArguments>();
    sub->add_option("--noise-multiplier", a->multiplier, "σ divided by the sensitivity")
        ->type_name("Z")
        ->check(IsNumber());
    sub->add_option("--sigma", a->sigma, "standard deviation of the noise; with --sensitivity or --clip")
        ->type_name("S")
        ->check(IsNumber());
    sub->add_option("--sensitivity", a->sensitivity,
                    "largest distance between the values of neighbouring data sets")
        ->type_name("C")
        ->check(IsNumber());
    sub->add_option("--clip", a->clip,
                    "bound of one contribution to a sum; the sensitivity is twice that for replace-one")
        ->type_name("C")
        ->check(IsNumber());
    sub->add_option("--epsilon", a->epsilon, "asks for the multiplier that keeps this ε")
        ->type_name("E")
        ->check(IsNumber());
    sub->add_option("--rounds", a->rounds, "number of releases")
        ->type_name("T")
        ->check(IsNumber())
        ->capture_default_str();
    AddAsked(sub, a->asked, true, "which data sets are neighbours; replace-one unless given");
    sub->callback([a, &run] { run.action = [a, &run] { return Gaussian(run.common, *a); }; });
  }
  AddAccountEvents(verb, run);
  AddAccountClaims(verb, run);
  {
    CLI::App* sub = AddVerb(*verb, run, "ledger", "what the runs in a ledger have spent",
                            "  tacit account ledger runs/demo-20260101T120000\n"
                            "  tacit account ledger runs/demo-20260101T120000/ledger.db --json\n"
                            "  tacit account ledger runs/demo-20260101T120000 --delta 1e-6 --curve\n");
    auto where = std::make_shared<std::string>();
    auto a = std::make_shared<Asked>();
    sub->add_option("where", *where, "ledger file, or run folder")->required()->type_name("FILE|RUN");
    AddAsked(sub, *a, false, "must be that of the runs");
    sub->callback([where, a, &run] { run.action = [=, &run] { return OfLedger(run.common, *where, *a); }; });
  }
}

}  // namespace tacit::cli
