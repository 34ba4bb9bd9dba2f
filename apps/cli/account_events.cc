// tacit account subsampled-gaussian | pure | priv-unit | events | compare, and tacit calibrate: what
// compositions cost, and the noise, rounds or rate that a budget allows.
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "account.h"
#include "cli.h"
#include "experiment/files.h"
#include "privacy/accountant.h"
#include "privacy/calibrate.h"
#include "privacy/compare.h"
#include "privacy/event_json.h"

namespace tacit::cli {

using nlohmann::json;

Result<Delta> Asked::DeltaOr(std::optional<Delta> otherwise) const {
  if (delta) return Delta::Of(*delta);
  if (otherwise) return *otherwise;
  return Fail(Code::kInvalidArgument,
              "--delta is missing; give the δ that ε is asked for, e.g. --delta 1e-6");
}

Result<Adjacency> Asked::AdjacencyOr(Adjacency usual) const {
  if (adjacency.empty()) return usual;
  return ParseAdjacency(adjacency);
}

CLI::Validator IsNumber() {
  return {[](const std::string& text) -> std::string {
            char* end = nullptr;
            std::strtod(text.c_str(), &end);
            const bool number = !text.empty() && !std::isspace(static_cast<unsigned char>(text[0])) &&
                                end == text.c_str() + text.size();
            return number ? "" : fmt::format("\"{}\" is not a number; give one like 10 or 1e-6", text);
          },
          ""};
}

void AddAsked(CLI::App* sub, Asked& a, bool delta_required, const char* adjacency_help) {
  auto* delta = sub->add_option("--delta", a.delta, "δ, in [0, 1)")->type_name("D")->check(IsNumber());
  if (delta_required) delta->required();
  sub->add_option("--adjacency", a.adjacency, adjacency_help)
      ->check(CLI::IsMember({"replace-one", "add-remove", "zero-out"}))
      ->type_name("A");
  sub->add_flag("--curve", a.curve, "also prints δ along ε");
  sub->add_flag("--plot", a.plot, "also draws δ along ε");
  AddMeaning(sub, a);
}

namespace {

// Under replace-one the curve of a Poisson sample needs more than the distance of two values.
const char* const kNorms =
    "the sensitivity bounds both the norm of a unit's value and the distance of two (2C for a sum clipped at "
    "C)";
bool NeedsNorms(const Accountant& account) {
  return account.adjacency() == Adjacency::kReplaceOne &&
         std::any_of(account.lines().begin(), account.lines().end(), [](const Accountant::Line& l) {
           return std::holds_alternative<PoissonGaussianEvent>(l.event);
         });
}

// δ(ε) from 0 to half as much again as the ε in question.
constexpr int kCurve = 15;
struct CurvePoint {
  double epsilon;
  Bracket delta;
};
Result<std::vector<CurvePoint>> CurveOf(const Accountant& account, double epsilon) {
  const double top = std::isfinite(epsilon) && epsilon > 0 ? 1.5 * epsilon : 10;
  std::vector<CurvePoint> out;
  for (int i = 0; i <= kCurve; ++i) {
    // With as many digits as are printed, so that what is printed beside it holds there.
    TACIT_TRY(const Epsilon at, Epsilon::Of(std::strtod(Digits(top * i / kCurve).c_str(), nullptr)));
    TACIT_TRY(Bracket d, account.DeltaAt(at));
    out.push_back({at.value(), std::move(d)});
  }
  return out;
}

void PrintCurve(const std::vector<CurvePoint>& curve, bool bars) {
  std::vector<std::string> header = {"ε", "δ at most", "δ at least"};
  if (bars) header.emplace_back("log δ");
  Table table(header);
  table.Left(3);
  double least = 0.1;                    // where the bars end
  for (const CurvePoint& p : curve)
    if (p.delta.upper > 1e-30) least = std::min(least, p.delta.upper / 10);
  for (const CurvePoint& p : curve) {
    std::vector<std::string> row = {Digits(p.epsilon), DigitsUp(p.delta.upper), DigitsDown(p.delta.lower)};
    if (bars) {
      const double part = p.delta.upper > least ? 1 - std::log(p.delta.upper) / std::log(least) : 0;
      std::string bar;
      for (int i = 0; i < std::lround(40 * part); ++i) bar += "█";
      row.push_back(bar);
    }
    table.Add(std::move(row));
  }
  table.Print(stdout, 2);
}

}  // namespace

std::string Between(const Bracket& b) {
  const int digits = b.upper - b.lower <= 1e-11 * b.upper ? 17 : 12;
  return fmt::format("the truth lies in [{}, {}]", DigitsDown(b.lower, digits), DigitsUp(b.upper, digits));
}

Result<int> Print(const Common& common, const Accountant& account, Delta delta, const Asked& a,
                  Answer answer) {
  TACIT_OK(common.ExpectNoSets("account"));
  const Stopwatch watch;
  if (!answer.epsilon) {
    TACIT_TRY(answer.epsilon, account.EpsilonAt(delta));
  }
  const Bracket& e = *answer.epsilon;
  const double seconds = answer.seconds + watch.seconds();
  std::vector<CurvePoint> curve;
  if (a.curve || a.plot) {
    TACIT_TRY(curve, CurveOf(account, e.upper));
  }
  TACIT_TRY(const Meaning meaning, MeaningOf(account, delta, a));
  const bool needs_norms = NeedsNorms(account);
  if (common.json) {
    json out = {{"epsilon", Number(e.upper)}, {"epsilon_lower", Number(e.lower)},
                {"delta", delta.value()},     {"method", e.method},
                {"seconds", seconds},         {"adjacency", Name(account.adjacency())}};
    for (const CurvePoint& p : curve)
      out["curve"].push_back(
          {{"epsilon", p.epsilon}, {"delta", p.delta.upper}, {"delta_lower", p.delta.lower}});
    if (needs_norms) out["assumes"] = kNorms;
    out.update(answer.more);
    out.update(meaning.more);
    return PrintJson(out);
  }
  const auto line = [](const std::string& name, const std::string& text) {
    fmt::print("  {:<17} {}\n", name, text);
  };
  fmt::print("{}\n", Styled(stdout, Style::kBold,
                            fmt::format("{} at δ = {}", answer.title, DigitsUp(delta.value()))));
  line("ε", EpsilonText(e.upper, 12));
  if (std::isfinite(e.upper)) line("", Between(e));
  for (const auto& [name, text] : answer.lines) line(name, text);
  line("adjacency", Name(account.adjacency()));
  if (needs_norms) line("assumes", kNorms);
  line("method", e.method);
  for (const auto& [name, text] : meaning.lines) line(name, text);
  if (!curve.empty()) PrintCurve(curve, a.plot);
  PrintTradeOff(meaning);
  return 0;
}

namespace {

// ---- Sampled Gaussian rounds, ε-DP releases, PrivUnit.

const char* const kSampledAdjacency = "add-remove for poisson, replace-one for fixed, unless given";
const char* const kSampledNoise =
    "σ divided by the sensitivity under the adjacency; with poisson samples and replace-one that must bound "
    "both the "
    "norm of a unit's value and the distance of two: 2C for a sum clipped at C";
const char* const kUsualAdjacency = "which data sets are neighbours; replace-one unless given";

struct SampledArguments {
  double multiplier = 0, rate = 0, rounds = 0;
  std::string sampling = "poisson";
  Asked asked;
};

Result<int> Sampled(const Common& common, const SampledArguments& a) {
  TACIT_TRY(const Delta delta, a.asked.DeltaOr());
  ReleasePlan r{
      .noise = a.multiplier, .rounds = a.rounds, .rate = a.rate, .fixed_size = a.sampling == "fixed"};
  TACIT_TRY(r.adjacency,
            a.asked.AdjacencyOr(r.fixed_size ? Adjacency::kReplaceOne : Adjacency::kAddOrRemove));
  TACIT_TRY(const Accountant account, AccountOf(r));
  return Print(
      common, account, delta, a.asked,
      {.title = fmt::format("{} Gaussian round{}, {} sampling", Grouped(static_cast<std::uint64_t>(a.rounds)),
                            a.rounds == 1 ? "" : "s", a.sampling),
       .more = {{"noise_multiplier", a.multiplier},
                {"rate", a.rate},
                {"rounds", static_cast<std::uint64_t>(a.rounds)},
                {"sampling", a.sampling}}});
}

void AddSampling(CLI::App* sub, std::string& sampling) {
  sub->add_option("--sampling", sampling, "poisson, or fixed: a sample of fixed size without replacement")
      ->check(CLI::IsMember({"poisson", "fixed"}))
      ->type_name("S")
      ->capture_default_str();
}

struct PureArguments {
  double epsilon = 0, rounds = 1;
  Asked asked;
};
Result<int> PureReleases(const Common& common, const PureArguments& a) {
  TACIT_TRY(const Delta delta, a.asked.DeltaOr());
  TACIT_TRY(const Adjacency adjacency, a.asked.AdjacencyOr(Adjacency::kReplaceOne));
  TACIT_TRY(const Epsilon epsilon, Epsilon::Of(a.epsilon));
  TACIT_TRY(const std::uint64_t count, ParseCount(a.rounds, "rounds"));
  Accountant account(adjacency);
  TACIT_OK(account.Compose(PureEvent{epsilon}, count));
  return Print(
      common, account, delta, a.asked,
      {.title = fmt::format("{} release{} of {}-DP", Grouped(count), count == 1 ? "" : "s", a.epsilon),
       .more = {{"rounds", count}, {"epsilon_per_round", Number(a.epsilon)}}});
}

struct PrivUnitArguments {
  double direction = 0, scalar = 0, dimension = 2, rounds = 1;
  Asked asked;
};
Result<int> PrivUnitReleases(const Common& common, const PrivUnitArguments& a) {
  TACIT_TRY(const Delta delta, a.asked.DeltaOr());
  TACIT_TRY(const Adjacency adjacency, a.asked.AdjacencyOr(Adjacency::kReplaceOne));
  TACIT_TRY(const Epsilon direction, Epsilon::Of(a.direction));
  TACIT_TRY(const Epsilon scalar, Epsilon::Of(a.scalar));
  TACIT_TRY(const std::uint64_t count, ParseCount(a.rounds, "rounds"));
  TACIT_TRY(const std::uint64_t dimension, ParseCount(a.dimension, "dimension"));
  TACIT_TRY(const PrivUnitEvent unit, OptimalPrivUnit(direction, dimension));
  Accountant account(adjacency);
  TACIT_OK(account.Compose(unit, count));
  TACIT_OK(account.Compose(ScalarDpEvent{scalar}, count));
  return Print(
      common, account, delta, a.asked,
      {.title = fmt::format("{} vector{} by PrivUnit and ScalarDP", Grouped(count), count == 1 ? "" : "s"),
       .more = {{"rounds", count},
                {"dimension", dimension},
                {"epsilon_direction", a.direction},
                {"epsilon_scalar", Number(a.scalar)}}});
}

// ---- Events from a file.

Result<EventFile> ReadEvents(const std::string& where, const Asked& a) {
  std::error_code ignored;
  if (!std::filesystem::exists(where, ignored))
    return Fail(Code::kNotFound, "{}: no such file; give a list of events, see docs/events.md", where);
  if (std::filesystem::is_directory(where, ignored))
    return Fail(Code::kMalformed, "{}: is a folder; give a file with a list of events", where);
  TACIT_TRY(const std::string text, ReadWhole(where, std::uintmax_t{65} << 20));
  std::optional<Adjacency> adjacency;
  if (!a.adjacency.empty()) {
    TACIT_TRY(adjacency, ParseAdjacency(a.adjacency));
  }
  return ParseEvents(text, where, adjacency);
}

std::string Kinds(const Accountant& account) {
  const std::size_t n = account.lines().size();
  return fmt::format("{} kind{} of release", Grouped(n), n == 1 ? "" : "s");
}

Result<int> OfEvents(const Common& common, const std::string& where, const Asked& a) {
  TACIT_TRY(const EventFile file, ReadEvents(where, a));
  TACIT_TRY(const Delta delta, a.DeltaOr(file.delta));
  return Print(common, file.account, delta, a,
               {.title = Kinds(file.account), .more = {{"kinds", file.account.lines().size()}}});
}

// ---- Releases of one kind by flags, or of any kinds by a file: for compare and calibrate.

struct ReleaseArguments {
  std::string mechanism = "gaussian", sampling = "poisson", events;
  std::optional<double> multiplier, sigma, each, rate, rounds;
  std::optional<double> dimension;
  double sensitivity = 1, categories = 2, share = 1.0 / 3;
  Asked asked;
};

void AddReleaseOptions(CLI::App* sub, ReleaseArguments& a, const char* each) {
  sub->add_option("--mechanism", a.mechanism,
                  "what is released, one of " + fmt::format("{}", fmt::join(ReleaseKindNames(), ", ")))
      ->check(CLI::IsMember(ReleaseKindNames()))
      ->type_name("M")
      ->capture_default_str();
  sub->add_option("--events", a.events, "instead: a list of releases, see docs/events.md")->type_name("FILE");
  const auto number = [&](const char* name, std::optional<double>& to, const std::string& help,
                          const char* type) {
    sub->add_option(name, to, help)->type_name(type)->check(IsNumber());
  };
  number("--noise-multiplier", a.multiplier, fmt::format("gaussian: {}", kSampledNoise), "Z");
  number("--sigma", a.sigma, "discrete-gaussian: its parameter, in lattice steps", "S");
  number(each, a.each, "ε of one release, for all other mechanisms", "E");
  number("--rate", a.rate, "gaussian: share of the units that is sampled in a round", "Q");
  number("--rounds", a.rounds, "number of rounds", "T");
  AddSampling(sub, a.sampling);
  sub->add_option("--sensitivity", a.sensitivity, "discrete mechanisms: in lattice steps")
      ->type_name("N")
      ->check(IsNumber())
      ->capture_default_str();
  sub->add_option("--dimension", a.dimension,
                  "of the vector: of priv-unit, which needs it, and of discrete-gaussian, 1 unless given")
      ->type_name("N")
      ->check(IsNumber());
  sub->add_option("--categories", a.categories, "randomised-response: number of values")
      ->type_name("K")
      ->check(IsNumber())
      ->capture_default_str();
  sub->add_option("--scalar-share", a.share, "priv-unit: part of the ε of one release that is for the length")
      ->type_name("P")
      ->check(IsNumber())
      ->capture_default_str();
}

const char* NoiseName(ReleaseKind m) {
  return m == ReleaseKind::kGaussian           ? "noise_multiplier"
         : m == ReleaseKind::kDiscreteGaussian ? "sigma"
                                               : "epsilon_per_release";
}
std::string FlagOf(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}
const std::optional<double>& NoiseOf(const ReleaseArguments& a, ReleaseKind m) {
  return m == ReleaseKind::kGaussian ? a.multiplier : m == ReleaseKind::kDiscreteGaussian ? a.sigma : a.each;
}

// What the flags say; `sampled`: whether there is a rate, given or to be found.
Result<ReleasePlan> ReleasesOf(const ReleaseArguments& a, bool sampled) {
  TACIT_TRY(const ReleaseKind m, ParseReleaseKind(a.mechanism));
  for (const auto& [given, flag] :
       {std::pair(&a.multiplier, "--noise-multiplier"), std::pair(&a.sigma, "--sigma"),
        std::pair(&a.each, "--epsilon-per-release")})
    if (given->has_value() && given != &NoiseOf(a, m))
      return Fail(Code::kInvalidArgument, "{} {}: is not for {}, whose noise is {}", flag, **given,
                  a.mechanism, FlagOf(NoiseName(m)));
  if (sampled && m != ReleaseKind::kGaussian)
    return Fail(Code::kInvalidArgument,
                "--rate: of sampled releases only Gaussian ones are accounted for; leave "
                "it out for {}",
                a.mechanism);
  if (a.rounds) TACIT_OK(ParseCount(*a.rounds, "--rounds"));
  TACIT_TRY(const std::uint64_t sensitivity, ParseCount(a.sensitivity, "--sensitivity"));
  TACIT_TRY(const std::uint64_t dimension, ParseCount(a.dimension.value_or(1), "--dimension"));
  if (m == ReleaseKind::kPrivUnit && !a.dimension)
    return Fail(Code::kInvalidArgument,
                "--mechanism priv-unit: needs --dimension, that of the vector, e.g. --dimension 100");
  TACIT_TRY(const std::uint64_t categories, ParseCount(a.categories, "--categories"));
  if (sensitivity > 0xffffffffU)
    return Fail(Code::kInvalidArgument, "--sensitivity = {}: must be below 2^32 lattice steps", sensitivity);
  ReleasePlan r{.mechanism = m,
                .noise = NoiseOf(a, m).value_or(1),
                .rounds = a.rounds.value_or(1),
                .rate = a.rate,
                .fixed_size = sampled && a.sampling == "fixed",
                .sensitivity = static_cast<std::uint32_t>(sensitivity),
                .dimension = dimension,
                .categories = categories,
                .scalar_share = a.share};
  TACIT_TRY(r.adjacency,
            a.asked.AdjacencyOr(sampled && !r.fixed_size ? Adjacency::kAddOrRemove : Adjacency::kReplaceOne));
  return r;
}

std::string Describe(const ReleaseArguments& a, bool sampled) {
  return (sampled ? a.sampling + "-sampled " : "") + a.mechanism;
}
std::string Rounds(double n) {
  return fmt::format("{} round{}", Grouped(static_cast<std::uint64_t>(n)), n == 1 ? "" : "s");
}

Status NoReleaseFlags(const ReleaseArguments& a) {
  if (a.multiplier || a.sigma || a.each || a.rate || a.rounds)
    return Fail(Code::kInvalidArgument,
                "--events {}: the file says what is released; leave out the flags of a mechanism", a.events);
  return Ok{};
}

// ---- Side by side.

Result<int> CompareReleases(const Common& common, const ReleaseArguments& a) {
  std::optional<Accountant> account;
  std::optional<Delta> usual;
  std::string title;
  if (!a.events.empty()) {
    TACIT_OK(NoReleaseFlags(a));
    TACIT_TRY(EventFile file, ReadEvents(a.events, a.asked));
    account = std::move(file.account), usual = file.delta, title = Kinds(*account);
  } else {
    TACIT_TRY(const ReleasePlan r, ReleasesOf(a, a.rate.has_value()));
    if (!NoiseOf(a, r.mechanism) || !a.rounds)
      return Fail(Code::kInvalidArgument, "compare: needs {} and --rounds, or --events FILE",
                  r.mechanism == ReleaseKind::kGaussian || r.mechanism == ReleaseKind::kDiscreteGaussian
                      ? FlagOf(NoiseName(r.mechanism))
                      : "--epsilon");
    TACIT_TRY(account, AccountOf(r));
    title = Rounds(r.rounds) + ", " + Describe(a, a.rate.has_value());
  }
  TACIT_TRY(const Delta delta, a.asked.DeltaOr(usual));
  const Stopwatch watch;
  TACIT_TRY(Bracket exact, account->EpsilonAt(delta));
  TACIT_TRY(const std::vector<Comparison> all, Compare(*account, delta, exact));
  exact = {std::min(exact.lower, all.back().epsilon), all.back().epsilon, all.back().title};
  Answer answer{.title = title, .epsilon = exact, .seconds = watch.seconds()};
  for (const Comparison& c : all) answer.more[c.name] = c.applies ? Number(c.epsilon) : json(nullptr);
  TACIT_TRY(const int code, Print(common, *account, delta, a.asked, std::move(answer)));
  if (common.json) return code;
  Table table({"composition", "ε"});
  table.Left(0);
  for (const Comparison& c : all)
    table.Add({c.name == "exact" ? "this accountant" : c.title, !c.applies ? "says nothing"
                                                                : std::isinf(c.epsilon)
                                                                    ? "inf"
                                                                    : DigitsUp(c.epsilon)});
  table.Print(stdout, 2);
  return code;
}

// ---- The inverses.

struct CalibrateArguments {
  ReleaseArguments releases;
  std::optional<double> epsilon;
  std::string solve;
};

// What is to be found: as asked for, or what was left out.
Result<std::string> Unknown(const CalibrateArguments& a, bool noise_given) {
  const ReleaseArguments& r = a.releases;
  if (!a.solve.empty()) return a.solve;
  if (!r.events.empty()) return std::string("noise");
  if (noise_given && r.rounds && (r.mechanism != "gaussian" || r.rate))
    return Fail(Code::kInvalidArgument,
                "calibrate: leave out one of the noise, --rounds and --rate, which is then found; or say "
                "--solve delta");
  if (noise_given && r.rounds) return std::string("rate");
  if (noise_given) return std::string("rounds");
  if (r.rounds) return std::string("noise");
  return Fail(
      Code::kInvalidArgument,
      "calibrate: give two of the noise, --rounds and --rate (a Gaussian without --rate is not sampled); "
      "the third is found");
}

// The releases with ε or δ as the unknown: an account, nothing to search.
Result<int> Forward(const Common& common, const CalibrateArguments& a, const Accountant& account,
                    const std::string& title, std::optional<Delta> usual) {
  if (a.solve == "epsilon") {
    if (a.epsilon)
      return Fail(Code::kInvalidArgument, "--solve epsilon: leave out --epsilon {}, which is found",
                  *a.epsilon);
    TACIT_TRY(const Delta delta, a.releases.asked.DeltaOr(usual));
    return Print(common, account, delta, a.releases.asked, {.title = title, .more = {{"solve", "epsilon"}}});
  }
  if (!a.epsilon)
    return Fail(Code::kInvalidArgument, "--solve delta: needs --epsilon, the ε that δ is asked for");
  if (a.releases.asked.delta)
    return Fail(Code::kInvalidArgument, "--solve delta: leave out --delta {}, which is found",
                *a.releases.asked.delta);
  TACIT_TRY(const Epsilon epsilon, Epsilon::Of(*a.epsilon));
  const Stopwatch watch;
  TACIT_TRY(const Bracket d, account.DeltaAt(epsilon));
  const double seconds = watch.seconds();
  if (!(d.upper < 1))
    return Fail(Code::kBudget, "epsilon = {}: no δ below 1 goes with it; raise it, or add noise",
                epsilon.value());
  // At that δ: ε as asked for, which the upper end of δ keeps, and what it is at least.
  TACIT_TRY(const Bracket e, account.EpsilonAt(Delta::Proven(d.upper)));
  return Print(
      common, account, Delta::Proven(d.upper), a.releases.asked,
      {.title = title,
       .more = {{"solve", "delta"}, {"delta_lower", d.lower}},
       .lines = {{"δ", fmt::format("{}, found for this ε", DigitsUp(d.upper, 12))}, {"", Between(d)}},
       .epsilon = Bracket{std::min(e.lower, epsilon.value()), epsilon.value(), d.method},
       .seconds = seconds});
}

Result<int> CalibrateReleases(const Common& common, const CalibrateArguments& a) {
  const ReleaseArguments& r = a.releases;
  std::optional<Accountant> file;
  std::optional<Delta> usual;
  ReleasePlan one;
  const bool forward = a.solve == "epsilon" || a.solve == "delta";
  std::string unknown = a.solve, title;
  if (!r.events.empty()) {
    TACIT_OK(NoReleaseFlags(r));
    TACIT_TRY(EventFile read, ReadEvents(r.events, r.asked));
    file = std::move(read.account), usual = read.delta, title = Kinds(*file);
    TACIT_TRY(unknown, Unknown(a, true));
    if (unknown == "rate")
      return Fail(Code::kInvalidArgument,
                  "--solve rate: is for one mechanism; of --events the noise or the rounds "
                  "are found");
  } else {
    TACIT_TRY(const ReleaseKind m, ParseReleaseKind(r.mechanism));
    TACIT_TRY(unknown, Unknown(a, NoiseOf(r, m).has_value()));
    TACIT_TRY(one, ReleasesOf(r, r.rate.has_value() || unknown == "rate"));
    const auto needs = [&](const char* what, bool given, const std::string& flag) -> Status {
      if (unknown == what && given)
        return Fail(Code::kInvalidArgument, "--solve {}: leave out {}, which is found", what, flag);
      if (unknown != what && !given)
        return Fail(Code::kInvalidArgument, "calibrate: to find {} it needs {}", unknown, flag);
      return Ok{};
    };
    TACIT_OK(needs("noise", NoiseOf(r, m).has_value(), FlagOf(NoiseName(m))));
    TACIT_OK(needs("rounds", r.rounds.has_value(), "--rounds"));
    if (unknown == "rate") TACIT_OK(needs("rate", r.rate.has_value(), "--rate"));
    title = Describe(r, r.rate.has_value() || unknown == "rate");
    if (unknown != "rounds") title = Rounds(one.rounds) + ", " + title;
  }
  if (forward) {
    TACIT_TRY(const Accountant account, file ? Result<Accountant>(*file) : AccountOf(one));
    return Forward(common, a, account, title, usual);
  }
  if (!a.epsilon) return Fail(Code::kInvalidArgument, "calibrate: needs --epsilon, the budget");
  TACIT_TRY(const Epsilon epsilon, Epsilon::Of(*a.epsilon));
  TACIT_TRY(const Delta delta, r.asked.DeltaOr(usual));
  const Stopwatch watch;
  const bool noise = unknown == "noise", rounds = unknown == "rounds";
  TACIT_TRY(const Calibration c,
            file     ? noise ? CalibrateScale(*file, epsilon, delta) : CalibrateRepeats(*file, epsilon, delta)
                : noise ? CalibrateNoise(one, epsilon, delta)
            : rounds ? CalibrateRounds(one, epsilon, delta)
                     : CalibrateRate(one, epsilon, delta));
  const double seconds = watch.seconds();
  std::string name = file ? (noise ? "scale" : "repeats") : noise ? NoiseName(one.mechanism) : unknown;
  if (!file) (noise ? one.noise : rounds ? one.rounds : one.rate.emplace()) = c.value;
  TACIT_TRY(const Accountant account, !file   ? AccountOf(one)
                                      : noise ? WithNoiseScaled(*file, c.value)
                                              : Repeated(*file, c.value));
  json found = {{"solve", unknown}, {"target_epsilon", epsilon.value()}, {"evaluations", c.evaluations}};
  found[name] = rounds ? json(static_cast<std::uint64_t>(c.value)) : json(c.value);
  const bool falls = noise && (file || NoiseFalls(one.mechanism));
  std::string text = rounds  ? Grouped(static_cast<std::uint64_t>(c.value))
                     : falls ? DigitsUp(c.value, 12)
                             : fmt::format("{:.17g}", c.value);
  text += fmt::format(", the {} {} ε", falls ? "smallest" : "largest",
                      c.at_end ? "there is; it keeps" : "that keeps");
  std::replace(name.begin(), name.end(), '_', ' ');
  if (name == "epsilon per release") name = "ε per release";
  Answer answer{
      .title = title, .more = found, .lines = {{name, text}}, .epsilon = c.epsilon, .seconds = seconds};
  if (const std::size_t kept = file && noise ? UnscaledKinds(*file) : 0; kept > 0)
    answer.lines.emplace_back("kept as is",
                              fmt::format("{} kind{} without noise to scale", kept, kept == 1 ? "" : "s"));
  return Print(common, account, delta, r.asked, std::move(answer));
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
    sub->add_option("--noise-multiplier", a->multiplier, kSampledNoise)
        ->type_name("Z")
        ->check(IsNumber())
        ->required();
    sub->add_option("--rate", a->rate, "share of the units that is sampled in a round")
        ->type_name("Q")
        ->check(IsNumber())
        ->required();
    sub->add_option("--rounds", a->rounds, "number of rounds")->type_name("T")->check(IsNumber())->required();
    AddSampling(sub, a->sampling);
    AddAsked(sub, a->asked, true, kSampledAdjacency);
    sub->callback([a, &run] { run.action = [a, &run] { return Sampled(run.common, *a); }; });
  }
  {
    CLI::App* sub = AddVerb(*verb, run, "pure", "ε of T releases that are each ε-DP, at a δ",
                            "  tacit account pure --epsilon 0.1 --rounds 100 --delta 1e-6\n"
                            "  tacit account pure --epsilon 0.1 --rounds 100 --delta 1e-6 --plot\n");
    auto a = std::make_shared<PureArguments>();
    sub->add_option("--epsilon", a->epsilon, "of one release")->type_name("E")->check(IsNumber())->required();
    sub->add_option("--rounds", a->rounds, "number of releases")
        ->type_name("T")
        ->check(IsNumber())
        ->capture_default_str();
    AddAsked(sub, a->asked, true, kUsualAdjacency);
    sub->callback([a, &run] { run.action = [a, &run] { return PureReleases(run.common, *a); }; });
  }
  {
    CLI::App* sub =
        AddVerb(*verb, run, "priv-unit", "ε of T vectors sent by PrivUnit and ScalarDP",
                "  tacit account priv-unit --epsilon-direction 4 --epsilon-scalar 2 --dimension 100 "
                "--rounds 50 --delta 1e-5\n"
                "  tacit account priv-unit --epsilon-direction 0.5 --epsilon-scalar 0.2 --dimension 100 "
                "--delta 1e-5 --group 2 --belief 0.1 --trade-off --json\n");
    auto a = std::make_shared<PrivUnitArguments>();
    sub->add_option("--epsilon-direction", a->direction, "of the direction")
        ->type_name("E")
        ->check(IsNumber())
        ->required();
    sub->add_option("--epsilon-scalar", a->scalar, "of the length")
        ->type_name("E")
        ->check(IsNumber())
        ->required();
    sub->add_option("--dimension", a->dimension, "of the vector")
        ->type_name("N")
        ->check(IsNumber())
        ->required();
    sub->add_option("--rounds", a->rounds, "number of vectors")
        ->type_name("T")
        ->check(IsNumber())
        ->capture_default_str();
    AddAsked(sub, a->asked, true, kUsualAdjacency);
    sub->callback([a, &run] { run.action = [a, &run] { return PrivUnitReleases(run.common, *a); }; });
  }
  {
    CLI::App* sub =
        AddVerb(*verb, run, "events", "ε of any releases, listed in a JSON file",
                "  tacit account events releases.json --delta 1e-5\n"
                "  tacit account events releases.json --json       the file may name a delta itself\n"
                "  tacit account events releases.json --group 2 --belief 0.1 --trade-off\n");
    auto where = std::make_shared<std::string>();
    auto a = std::make_shared<Asked>();
    sub->add_option("file", *where, "JSON: {\"adjacency\": …, \"events\": [{\"type\": …, \"count\": …}]}")
        ->type_name("FILE")
        ->required();
    AddAsked(sub, *a, false, "must be the file's, if that names one");
    sub->callback([where, a, &run] { run.action = [=, &run] { return OfEvents(run.common, *where, *a); }; });
  }
  {
    CLI::App* sub = AddVerb(
        *verb, run, "compare", "the same releases by basic, advanced, zCDP, Rényi and tight composition",
        "  tacit account compare --noise-multiplier 1 --rate 0.01 --rounds 1000 --delta 1e-5\n"
        "  tacit account compare --mechanism pure --epsilon 0.1 --rounds 100 --delta 1e-6\n"
        "  tacit account compare --events releases.json --delta 1e-5\n");
    auto a = std::make_shared<ReleaseArguments>();
    AddReleaseOptions(sub, *a, "--epsilon,--epsilon-per-release");
    AddAsked(sub, a->asked, false, "add-remove for poisson samples, else replace-one, unless given");
    sub->callback([a, &run] { run.action = [a, &run] { return CompareReleases(run.common, *a); }; });
  }
}

void AddCalibrate(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "calibrate", "the noise, rounds or rate that an (ε, δ) allows",
      "  tacit calibrate --epsilon 2 --delta 1e-5 --rate 0.01 --rounds 1000             the noise\n"
      "  tacit calibrate --epsilon 2 --delta 1e-5 --rate 0.01 --noise-multiplier 1      the rounds\n"
      "  tacit calibrate --epsilon 2 --delta 1e-5 --noise-multiplier 1 --rounds 1000    the rate\n"
      "  tacit calibrate --epsilon 2 --delta 1e-5 --rounds 100                          without sampling\n"
      "  tacit calibrate --epsilon 2 --delta 1e-5 --mechanism laplace --rounds 100      ε of one release\n"
      "  tacit calibrate --epsilon 2 --delta 1e-5 --events releases.json                scales all noise\n"
      "  tacit calibrate --epsilon 2 --noise-multiplier 1 --rate 0.01 --rounds 1000 --solve delta\n");
  auto a = std::make_shared<CalibrateArguments>();
  verb->add_option("--epsilon", a->epsilon, "the budget")->type_name("E")->check(IsNumber());
  AddAsked(verb, a->releases.asked, false, "add-remove for poisson samples, else replace-one, unless given");
  AddReleaseOptions(verb, a->releases, "--epsilon-per-release");
  verb->add_option("--solve", a->solve,
                   "what is found, if not what was left out: noise, rounds, rate, delta, epsilon")
      ->check(CLI::IsMember({"noise", "rounds", "rate", "delta", "epsilon"}))
      ->type_name("WHAT");
  verb->callback([a, &run] { run.action = [a, &run] { return CalibrateReleases(run.common, *a); }; });
}

}  // namespace tacit::cli
