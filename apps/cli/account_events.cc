// tacit account subsampled-gaussian | pure | priv-unit | events | compare, and tacit calibrate: what
// compositions cost, and the noise, rounds or rate that a budget allows.
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>

#include "cli.h"
#include "privacy/accountant.h"
#include "privacy/gdp.h"

namespace tacit::cli {
namespace {

using nlohmann::json;

Result<Adjacency> ParseAdjacency(const std::string& name) {
  for (const Adjacency a : {Adjacency::kReplaceOne, Adjacency::kAddOrRemove, Adjacency::kZeroOut})
    if (name == Name(a)) return a;
  return Fail(Code::kInvalidArgument, "adjacency = {}: must be replace-one, add-remove or zero-out", name);
}

Result<std::uint64_t> Count(double rounds) {
  if (!(rounds >= 1 && rounds <= 1e15 && rounds == std::floor(rounds)))
    return Fail(Code::kInvalidArgument, "rounds = {}: must be a whole number in [1, 1e15]", rounds);
  return static_cast<std::uint64_t>(rounds);
}

Result<Mu> MuOf(double multiplier) {
  TACIT_TRY(const NoiseMultiplier z, NoiseMultiplier::Of(multiplier));
  return Mu::Of(DivUp(1, z.value()));
}

struct Asked {
  double delta = 0;
  bool curve = false;
};

void AddAsked(CLI::App* sub, Asked& a) {
  sub->add_option("--delta", a.delta, "δ, in [0, 1)")->type_name("D")->required();
  sub->add_flag("--curve", a.curve, "also prints δ along ε");
}

// ε, its bracket, the method and, if asked, the curve.
Result<int> Print(const Common& common, const std::string& title, const Accountant& account, const Asked& a,
                  json more = json::object()) {
  TACIT_OK(common.ExpectNoSets("account"));
  TACIT_TRY(const Delta delta, Delta::Of(a.delta));
  const auto begin = std::chrono::steady_clock::now();
  TACIT_TRY(const Bracket e, account.EpsilonAt(delta));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  json curve = json::array();
  Table table({"ε", "δ at most", "δ at least"});
  if (a.curve) {
    const double top = std::isfinite(e.upper) && e.upper > 0 ? 1.5 * e.upper : 10;
    for (int i = 0; i <= 15; ++i) {
      const double at = top * i / 15;
      TACIT_TRY(const Epsilon epsilon, Epsilon::Of(at));
      TACIT_TRY(const Bracket d, account.DeltaAt(epsilon));
      curve.push_back({{"epsilon", at}, {"delta", d.upper}, {"delta_lower", d.lower}});
      table.Add({Digits(at), DigitsUp(d.upper), Digits(d.lower)});
    }
  }
  if (common.json) {
    json out = {{"epsilon", Number(e.upper)}, {"epsilon_lower", Number(e.lower)},
                {"delta", delta.value()},     {"method", e.method},
                {"seconds", seconds},         {"adjacency", Name(account.adjacency())}};
    if (a.curve) out["curve"] = curve;
    out.update(more);
    return PrintJson(out);
  }
  const auto line = [](const char* name, const std::string& text) {
    fmt::print("  {:<17} {}\n", name, text);
  };
  fmt::print("{}\n", Styled(stdout, Style::kBold, fmt::format("{} at δ = {}", title, DigitsUp(a.delta))));
  line("ε", EpsilonText(e.upper, 12));
  line("", fmt::format("the truth lies in [{:.12g}, {:.12g}]", e.lower, e.upper));
  line("adjacency", Name(account.adjacency()));
  line("method", e.method);
  if (a.curve) table.Print(stdout, 2);
  return 0;
}

// ---- Sampled Gaussian rounds.

struct SampledArguments {
  std::optional<double> multiplier, rate, rounds, epsilon;
  std::string sampling = "poisson", adjacency;
  Asked asked;
};

Result<Accountant> SampledAccount(const SampledArguments& a, double multiplier, double rate, double rounds) {
  const bool poisson = a.sampling == "poisson";
  TACIT_TRY(const Adjacency adjacency, ParseAdjacency(!a.adjacency.empty() ? a.adjacency
                                                      : poisson            ? "add-remove"
                                                                           : "replace-one"));
  TACIT_TRY(const Mu mu, MuOf(multiplier));
  TACIT_TRY(const Probability q, Probability::Of(rate));
  TACIT_TRY(const std::uint64_t count, Count(rounds));
  Accountant out(adjacency);
  const PrivacyEvent event = poisson ? PrivacyEvent(PoissonGaussianEvent{.rate = q, .mu = mu})
                                     : PrivacyEvent(FixedSizeGaussianEvent{.rate = q, .mu = mu});
  TACIT_OK(out.Compose(event, count));
  return out;
}

Result<int> Sampled(const Common& common, const SampledArguments& a) {
  TACIT_TRY(const Accountant account, SampledAccount(a, *a.multiplier, *a.rate, *a.rounds));
  return Print(common,
               fmt::format("{} Gaussian rounds, {} sampling", Grouped(static_cast<std::uint64_t>(*a.rounds)),
                           a.sampling),
               account, a.asked,
               {{"noise_multiplier", *a.multiplier},
                {"rate", *a.rate},
                {"rounds", *a.rounds},
                {"sampling", a.sampling}});
}

void AddSampledOptions(CLI::App* sub, SampledArguments& a, bool required) {
  const auto number = [&](const char* name, std::optional<double>& to, const char* help, const char* type) {
    auto* option = sub->add_option(name, to, help)->type_name(type);
    if (required) option->required();
  };
  number("--noise-multiplier", a.multiplier, "σ divided by the sensitivity under the adjacency", "Z");
  number("--rate", a.rate, "share of the units that is sampled in a round", "Q");
  number("--rounds", a.rounds, "number of rounds", "T");
  sub->add_option("--sampling", a.sampling, "poisson, or fixed: a sample of fixed size without replacement")
      ->check(CLI::IsMember({"poisson", "fixed"}))
      ->type_name("S")
      ->capture_default_str();
  sub->add_option("--adjacency", a.adjacency, "add-remove for poisson, replace-one for fixed, unless given")
      ->check(CLI::IsMember({"replace-one", "add-remove", "zero-out"}))
      ->type_name("A");
}

// Largest or smallest x in [low, high] that keeps the budget, `good` being true at one end: the end that
// holds.
template <class Holds>
Result<double> Search(double holds, double fails, double tolerance, bool whole, Holds keeps) {
  for (int i = 0; i < 200; ++i) {
    if (std::abs(holds - fails) <= (whole ? 1.0 : tolerance * std::abs(holds))) break;
    double middle = std::sqrt(holds) * std::sqrt(fails);
    if (std::abs(holds / fails - 1) < 1e-3) middle = 0.5 * (holds + fails);
    if (whole) middle = std::floor(middle);
    if (middle == holds || middle == fails) middle = std::floor((holds + fails) / 2);
    if (middle == holds || middle == fails) break;
    TACIT_TRY(const bool good, keeps(middle));
    (good ? holds : fails) = middle;
  }
  return holds;
}

Result<int> Calibrate(const Common& common, const SampledArguments& a) {
  TACIT_OK(common.ExpectNoSets("calibrate"));
  const int missing = (a.multiplier ? 0 : 1) + (a.rate ? 0 : 1) + (a.rounds ? 0 : 1);
  if (missing != 1)
    return Fail(Code::kInvalidArgument,
                "calibrate: leave out one of --noise-multiplier, --rate and --rounds; that one is found");
  TACIT_TRY(const Epsilon target, Epsilon::Of(*a.epsilon));
  TACIT_TRY(const Delta delta, Delta::Of(a.asked.delta));
  const auto begin = std::chrono::steady_clock::now();
  const auto keeps = [&](double x) -> Result<bool> {
    TACIT_TRY(const Accountant account,
              SampledAccount(a, a.multiplier.value_or(x), a.rate.value_or(x), a.rounds.value_or(x)));
    TACIT_TRY(const Bracket e, account.EpsilonAt(delta));
    return e.upper <= target.value();
  };
  // From a first guess outwards to a pair of which one keeps the budget.
  double holds = a.multiplier ? (a.rate ? 1 : 0.5) : 1, fails = holds;
  const bool whole = !a.rounds;
  const double better = a.multiplier ? 0.5 : 2;
  TACIT_TRY(const bool good, keeps(holds));
  const double step = good ? 1 / better : better;
  for (int i = 0;; ++i) {
    const double next = a.multiplier && !a.rate ? std::min(1.0, fails * step) : fails * step;
    if (next < (whole ? 1 : 1e-12) || next > (whole ? 1e12 : 1e9) || next == fails) {
      if (good) {
        holds = fails;
        break;
      }
      return Fail(Code::kBudget,
                  "epsilon = {}, delta = {}: nothing in reach keeps this budget; raise one of them",
                  target.value(), delta.value());
    }
    TACIT_TRY(const bool next_good, keeps(next));
    holds = good ? fails : next;
    const double other = good ? next : fails;
    fails = next;
    if (next_good != good) {
      fails = other;
      TACIT_TRY(holds, Search(holds, fails, 1e-10, whole, keeps));
      break;
    }
  }
  const char* name = !a.multiplier ? "noise_multiplier" : !a.rate ? "rate" : "rounds";
  TACIT_TRY(const Accountant account, SampledAccount(a, a.multiplier.value_or(holds), a.rate.value_or(holds),
                                                     a.rounds.value_or(holds)));
  TACIT_TRY(const Bracket e, account.EpsilonAt(delta));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (common.json)
    return PrintJson({{name, holds},
                      {"epsilon", Number(e.upper)},
                      {"epsilon_lower", Number(e.lower)},
                      {"delta", delta.value()},
                      {"method", e.method},
                      {"seconds", seconds},
                      {"adjacency", Name(account.adjacency())}});
  fmt::print("{:<17} {}\n", !a.multiplier ? "noise multiplier" : name,
             !a.multiplier ? DigitsUp(holds, 12) : fmt::format("{:.12g}", holds));
  fmt::print("{:<17} {}\n{:<17} {}\n{:<17} {}\n", "ε", DigitsUp(e.upper, 12), "adjacency",
             Name(account.adjacency()), "method", e.method);
  return 0;
}

// ---- Events from a file.

Result<double> Field(const json& e, const char* key) {
  if (!e.contains(key) || !e[key].is_number())
    return Fail(Code::kMalformed, "an event of type {} needs the number \"{}\"", e.value("type", "?"), key);
  return e[key].get<double>();
}
Result<std::uint32_t> Small(const json& e, const char* key) {
  if (!e.contains(key)) return std::uint32_t{1};
  TACIT_TRY(const double v, Field(e, key));
  if (!(v >= 1 && v <= 4e9 && v == std::floor(v)))
    return Fail(Code::kMalformed, "\"{}\" = {}: must be a whole number of at least 1", key, v);
  return static_cast<std::uint32_t>(v);
}
Result<PrivacyEvent> ParseEvent(const json& e) {
  const std::string type = e.value("type", "");
  const auto epsilon = [&]() -> Result<Epsilon> {
    TACIT_TRY(const double v, Field(e, "epsilon"));
    return Epsilon::Of(v);
  };
  const auto mu = [&]() -> Result<Mu> {
    TACIT_TRY(const double z, Field(e, "noise_multiplier"));
    return MuOf(z);
  };
  if (type == "gaussian") {
    TACIT_TRY(const Mu m, mu());
    return PrivacyEvent(JointGaussianEvent{m});
  }
  if (type == "poisson-gaussian" || type == "fixed-size-gaussian") {
    TACIT_TRY(const Mu m, mu());
    TACIT_TRY(const double rate, Field(e, "rate"));
    TACIT_TRY(const Probability q, Probability::Of(rate));
    if (type == "poisson-gaussian") return PrivacyEvent(PoissonGaussianEvent{q, m});
    return PrivacyEvent(FixedSizeGaussianEvent{q, m});
  }
  if (type == "discrete-gaussian") {
    TACIT_TRY(const double s, Field(e, "sigma"));
    TACIT_TRY(const NoiseStd sigma, NoiseStd::Of(s));
    TACIT_TRY(const std::uint32_t sensitivity, Small(e, "sensitivity"));
    TACIT_TRY(const std::uint32_t dimension, Small(e, "dimension"));
    return PrivacyEvent(DiscreteGaussianEvent{sigma, sensitivity, dimension});
  }
  if (type == "zcdp") {
    TACIT_TRY(const double v, Field(e, "rho"));
    TACIT_TRY(const Rho rho, Rho::Of(v));
    return PrivacyEvent(ZcdpEvent{rho});
  }
  if (type == "priv-unit") {
    TACIT_TRY(const Epsilon x, epsilon());
    TACIT_TRY(const std::uint32_t dimension, Small(e, "dimension"));
    TACIT_TRY(const PrivUnitEvent unit, OptimalPrivUnit(x, dimension));
    return PrivacyEvent(unit);
  }
  if (type == "approximate") {
    TACIT_TRY(const Epsilon x, epsilon());
    TACIT_TRY(const double d, Field(e, "delta"));
    TACIT_TRY(const Delta delta, Delta::Of(d));
    return PrivacyEvent(ApproximateEvent{x, delta});
  }
  if (type == "randomised-response") {
    TACIT_TRY(const Epsilon x, epsilon());
    TACIT_TRY(const std::uint32_t categories, Small(e, "categories"));
    return PrivacyEvent(RandomizedResponseEvent{x, std::max<std::uint64_t>(categories, 2)});
  }
  if (type == "laplace" || type == "pure" || type == "scalar-dp") {
    TACIT_TRY(const Epsilon x, epsilon());
    if (type == "laplace") return PrivacyEvent(LaplaceEvent{x});
    if (type == "pure") return PrivacyEvent(PureEvent{x});
    return PrivacyEvent(ScalarDpEvent{x});
  }
  return Fail(
      Code::kMalformed,
      "event of type \"{}\": known are gaussian, poisson-gaussian, fixed-size-gaussian, discrete-gaussian, "
      "laplace, pure, approximate, zcdp, randomised-response, priv-unit, scalar-dp",
      type);
}

Result<int> OfEvents(const Common& common, const std::string& where, const Asked& a) {
  std::ifstream file(where);
  if (!file) return Fail(Code::kNotFound, "{}: no such file, or it cannot be read", where);
  const json all = json::parse(file, nullptr, false);
  if (!all.is_object() || !all.contains("events") || !all["events"].is_array())
    return Fail(Code::kMalformed, "{}: must be a JSON object with \"adjacency\" and the list \"events\"",
                where);
  TACIT_TRY(const Adjacency adjacency,
            ParseAdjacency(all.contains("adjacency") && all["adjacency"].is_string()
                               ? all["adjacency"].get<std::string>()
                               : "replace-one"));
  Accountant account(adjacency);
  for (const json& e : all["events"]) {
    if (!e.is_object() || !e.contains("type") || !e["type"].is_string())
      return Fail(Code::kMalformed, "{}: every event is an object with a \"type\"", where);
    if (e.contains("adjacency") && e["adjacency"] != Name(adjacency))
      return Fail(Code::kInvalidArgument,
                  "{}: an event has another adjacency than the file's {}; account for them apart", where,
                  Name(adjacency));
    TACIT_TRY(const PrivacyEvent event, ParseEvent(e));
    double rounds = 1;
    if (e.contains("count")) {
      TACIT_TRY(rounds, Field(e, "count"));
    }
    TACIT_TRY(const std::uint64_t count, Count(rounds));
    TACIT_OK(account.Compose(event, count));
  }
  return Print(common, fmt::format("{} kinds of release", account.lines().size()), account, a);
}

// ---- Side by side.

Result<int> Compare(const Common& common, const SampledArguments& a) {
  TACIT_OK(common.ExpectNoSets("account"));
  TACIT_TRY(const Accountant account, SampledAccount(a, *a.multiplier, *a.rate, *a.rounds));
  TACIT_TRY(const Accountant one, SampledAccount(a, *a.multiplier, *a.rate, 1));
  TACIT_TRY(const Delta delta, Delta::Of(a.asked.delta));
  TACIT_TRY(const Bracket exact, account.EpsilonAt(delta));
  const double t = *a.rounds, d = delta.value();
  TACIT_TRY(const Delta each, Delta::Of(d / t));
  TACIT_TRY(const Delta half, Delta::Of(d / (2 * t)));
  TACIT_TRY(const Bracket basic, one.EpsilonAt(each));
  TACIT_TRY(const Bracket part, one.EpsilonAt(half));
  // Dwork, Rothblum, Vadhan 2010, with half of δ for the composition.
  const double advanced =
      std::sqrt(2 * t * std::log(2 / d)) * part.upper + t * part.upper * std::expm1(part.upper);
  TACIT_TRY(const Mu mu, MuOf(*a.multiplier));
  const double rho = t * mu.value() * mu.value() / 2;
  const double zcdp = *a.rate == 1 ? ZcdpEpsilon(Rho::Proven(rho), delta) : kInf;
  if (common.json)
    return PrintJson({{"epsilon", Number(exact.upper)},
                      {"epsilon_lower", Number(exact.lower)},
                      {"basic", Number(t * basic.upper)},
                      {"advanced", Number(advanced)},
                      {"zcdp", *a.rate == 1 ? Number(zcdp) : json(nullptr)},
                      {"delta", d},
                      {"method", exact.method},
                      {"adjacency", Name(account.adjacency())}});
  Table table({"composition", "ε"});
  table.Left(0);
  table.Add({"basic", DigitsUp(t * basic.upper)});
  table.Add({"advanced", DigitsUp(advanced)});
  if (*a.rate == 1) table.Add({"zCDP", DigitsUp(zcdp)});
  table.Add({exact.method, DigitsUp(exact.upper)});
  table.Print(stdout, 0);
  fmt::print("adjacency: {}\n", Name(account.adjacency()));
  return 0;
}

}  // namespace

void AddAccountEvents(CLI::App* verb, Invocation& run) {
  {
    CLI::App* sub =
        AddVerb(*verb, run, "subsampled-gaussian", "ε of Gaussian rounds, each on a secret sample",
                "  tacit account subsampled-gaussian --noise-multiplier 1 --rate 0.01 --rounds 1000 "
                "--delta 1e-5\n"
                "  tacit account subsampled-gaussian --noise-multiplier 1 --rate 0.01 --sampling fixed "
                "--rounds 1000 --delta 1e-5 --curve\n");
    auto a = std::make_shared<SampledArguments>();
    AddSampledOptions(sub, *a, true);
    AddAsked(sub, a->asked);
    sub->callback([a, &run] { run.action = [a, &run] { return Sampled(run.common, *a); }; });
  }
  {
    struct Arguments {
      double epsilon = 0, rounds = 1;
      Asked asked;
    };
    CLI::App* sub = AddVerb(*verb, run, "pure", "ε of T releases that are each ε-DP, at a δ",
                            "  tacit account pure --epsilon 0.1 --rounds 100 --delta 1e-6\n");
    auto a = std::make_shared<Arguments>();
    sub->add_option("--epsilon", a->epsilon, "of one release")->type_name("E")->required();
    sub->add_option("--rounds", a->rounds, "number of releases")->type_name("T")->capture_default_str();
    AddAsked(sub, a->asked);
    sub->callback([a, &run] {
      run.action = [a, &run]() -> Result<int> {
        TACIT_TRY(const Epsilon epsilon, Epsilon::Of(a->epsilon));
        TACIT_TRY(const std::uint64_t count, Count(a->rounds));
        Accountant account(Adjacency::kReplaceOne);
        TACIT_OK(account.Compose(PureEvent{epsilon}, count));
        return Print(run.common, fmt::format("{} releases of {}-DP", Grouped(count), a->epsilon), account,
                     a->asked, {{"rounds", a->rounds}, {"epsilon_per_round", a->epsilon}});
      };
    });
  }
  {
    struct Arguments {
      double direction = 0, scalar = 0, dimension = 2, rounds = 1;
      Asked asked;
    };
    CLI::App* sub =
        AddVerb(*verb, run, "priv-unit", "ε of T vectors sent by PrivUnit and ScalarDP",
                "  tacit account priv-unit --epsilon-direction 4 --epsilon-scalar 2 --dimension 100 "
                "--rounds 50 --delta 1e-5\n");
    auto a = std::make_shared<Arguments>();
    sub->add_option("--epsilon-direction", a->direction, "of the direction")->type_name("E")->required();
    sub->add_option("--epsilon-scalar", a->scalar, "of the length")->type_name("E")->required();
    sub->add_option("--dimension", a->dimension, "of the vector")->type_name("N")->required();
    sub->add_option("--rounds", a->rounds, "number of vectors")->type_name("T")->capture_default_str();
    AddAsked(sub, a->asked);
    sub->callback([a, &run] {
      run.action = [a, &run]() -> Result<int> {
        TACIT_TRY(const Epsilon direction, Epsilon::Of(a->direction));
        TACIT_TRY(const Epsilon scalar, Epsilon::Of(a->scalar));
        TACIT_TRY(const std::uint64_t count, Count(a->rounds));
        TACIT_TRY(const std::uint64_t dimension, Count(a->dimension));
        TACIT_TRY(const PrivUnitEvent unit, OptimalPrivUnit(direction, dimension));
        Accountant account(Adjacency::kReplaceOne);
        TACIT_OK(account.Compose(unit, count));
        TACIT_OK(account.Compose(ScalarDpEvent{scalar}, count));
        return Print(run.common, fmt::format("{} vectors by PrivUnit and ScalarDP", Grouped(count)), account,
                     a->asked, {{"rounds", a->rounds}, {"dimension", a->dimension}});
      };
    });
  }
  {
    CLI::App* sub = AddVerb(*verb, run, "events", "ε of any releases, listed in a JSON file",
                            "  tacit account events releases.json --delta 1e-5\n");
    auto where = std::make_shared<std::string>();
    auto a = std::make_shared<Asked>();
    sub->add_option("file", *where, "JSON: {\"adjacency\": …, \"events\": [{\"type\": …, \"count\": …}]}")
        ->type_name("FILE")
        ->required();
    AddAsked(sub, *a);
    sub->callback([where, a, &run] { run.action = [=, &run] { return OfEvents(run.common, *where, *a); }; });
  }
  {
    CLI::App* sub =
        AddVerb(*verb, run, "compare", "the same rounds by basic, advanced and tight composition",
                "  tacit account compare --noise-multiplier 1 --rate 0.01 --rounds 1000 --delta 1e-5\n");
    auto a = std::make_shared<SampledArguments>();
    AddSampledOptions(sub, *a, true);
    AddAsked(sub, a->asked);
    sub->callback([a, &run] { run.action = [a, &run] { return Compare(run.common, *a); }; });
  }
}

void AddCalibrate(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "calibrate", "the noise, rounds or rate that an (ε, δ) allows",
              "  tacit calibrate --epsilon 2 --delta 1e-5 --rate 0.01 --rounds 1000\n"
              "  tacit calibrate --epsilon 2 --delta 1e-5 --rate 0.01 --noise-multiplier 1\n"
              "  tacit calibrate --epsilon 2 --delta 1e-5 --rate 1 --rounds 100 --adjacency replace-one\n");
  auto a = std::make_shared<SampledArguments>();
  AddSampledOptions(verb, *a, false);
  verb->add_option("--epsilon", a->epsilon, "the budget")->type_name("E")->required();
  AddAsked(verb, a->asked);
  verb->callback([a, &run] { run.action = [a, &run] { return Calibrate(run.common, *a); }; });
}

}  // namespace tacit::cli
