#include "privacy/claims.h"

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>

#include "privacy/gdp.h"
#include "privacy/joint_release.h"

namespace tacit {
namespace {

const Bracket kNothing{.lower = kInf, .upper = kInf, .method = "no finite value holds"};

Status CheckRounds(std::uint64_t rounds) {
  if (rounds < 1 || rounds > 1000000000000)
    return Fail(Code::kInvalidArgument, "rounds = {}: must be in [1, 10^12]", rounds);
  return Ok{};
}

Result<Bracket> OfGaussians(Mu mu, std::uint64_t rounds, Delta delta) {
  Accountant account(Adjacency::kReplaceOne);
  TACIT_OK(account.Compose(JointGaussianEvent{mu}, rounds));
  return account.EpsilonAt(delta);
}

}  // namespace

const char* const kPrimalDualClaimSource =
    "Lemma 4.3 and Theorem 4.5: epsilon = rho + 2 sqrt(rho ln(1/delta)), assuming every record's "
    "gradient is bounded "
    "by B";

Result<PaperClaim> PrimalDualClaim(Epsilon epsilon, Delta delta, bool gradients_bounded) {
  const Rho rho = ZcdpRho(epsilon, delta);
  PaperClaim c{
      .paper = "primal-dual",
      .setting = gradients_bounded ? "gradients bounded by B" : "nothing bounds a gradient",
      .source = kPrimalDualClaimSource,
      .formula = "ε = ρ + 2√(ρ ln 1/δ)",
      .claimed = epsilon.value(),
      .published = {},
      .claimed_delta = delta.value(),
      .scope = "the run",
      .certified = kNothing,
      .delta = delta.value(),
      .why = "B is assumed of the data and enforced nowhere, so a record may move a message by any amount.",
      .reference = "Assumption 4.2 of the paper; its network experiment (A.4) has no B"};
  if (!gradients_bounded) return c;
  TACIT_TRY(c.certified, OfGaussians(Mu::Proven(SqrtUp(MulUp(2, rho.value()))), 1, delta));
  c.why =
      "the conversion holds for every ρ-zCDP mechanism and is loose for Gaussian noise, whose exact curve is "
      "lower.";
  c.reference = "Dong, Roth, Su 2022; Balle, Wang 2018";
  return c;
}

const char* const kIsrlDpClaimSource =
    "Lowy, Razaviyayn: sigma^2 = 256 L^2 R ln(2.5R/delta) ln(2/delta)/(m^2 epsilon^2), assuming every "
    "record's "
    "gradient is bounded by L";

Mu IsrlDpMu(Epsilon epsilon, Delta delta, std::uint64_t rounds) {
  const double r = static_cast<double>(rounds), d = delta.value();
  return Mu::Proven(epsilon.value() / (8 * std::sqrt(std::log(2.5 * r / d) * std::log(2 / d))));
}

Result<PaperClaim> IsrlDpClaim(Epsilon epsilon, Delta delta, std::uint64_t rounds, bool gradients_bounded) {
  TACIT_OK(CheckRounds(rounds));
  if (!(delta.value() > 0))
    return Fail(Code::kInvalidArgument, "delta = 0: advanced composition needs a positive one");
  PaperClaim c{
      .paper = "isrl-dp",
      .setting = fmt::format("{} rounds, {}", rounds,
                             gradients_bounded ? "gradients bounded by L" : "nothing bounds a gradient"),
      .source = kIsrlDpClaimSource,
      .formula = "σ² = 256 L²R ln(2.5R/δ) ln(2/δ)/(m²ε²)",
      .claimed = epsilon.value(),
      .published = {},
      .claimed_delta = delta.value(),
      .scope = "the run",
      .certified = kNothing,
      .delta = delta.value(),
      .why = "L is assumed of the data and enforced nowhere, so a record may move a message by any amount.",
      .reference = "the paper's assumption of Lipschitz losses"};
  if (!gradients_bounded) return c;
  const double mu = IsrlDpMu(epsilon, delta, rounds).value() * (1 + 1e-12);
  TACIT_TRY(c.certified, OfGaussians(Mu::Proven(mu), 1, delta));
  c.why =
      "the classic Gaussian bound, advanced composition and a factor for sampling are each far above what "
      "Gaussian noise costs.";
  c.reference = "Dong, Roth, Su 2022; Balle, Wang 2018";
  return c;
}

double LeastFailureOfConvergence(Epsilon epsilon, Delta delta) {
  return (1 - delta.value()) / (1 + std::exp(epsilon.value()));
}

Result<PaperClaim> Ef21Claim(Epsilon epsilon, Delta delta, Ef21Schedule schedule) {
  if (!(delta.value() > 0))
    return Fail(Code::kInvalidArgument, "delta = 0: the conversion of Lemma 4 needs a positive one");
  const double rho = epsilon.value() * epsilon.value() / (4 * std::log(1 / delta.value()));
  const bool geometric = schedule == Ef21Schedule::kGeometric;
  return PaperClaim{
      .paper = "ef21",
      .setting = geometric ? "schedule (i), geometric" : "schedule (ii), σ² ∝ V_t",
      .source = "Theorem 1 with Lemma 4: ρ = ε²/(4 ln 1/δ) suffices",
      .formula = "ε = ρ + 2√(ρ ln 1/δ) at ρ = ε²/(4 ln 1/δ)",
      .claimed = ZcdpEpsilon(Rho::Proven(rho), delta),
      .published = {},
      .claimed_delta = delta.value(),
      .scope = "the run",
      .certified = kNothing,
      .delta = delta.value(),
      .why = geometric
                 ? "nothing is clipped, so the sensitivity of a message has no bound and no noise covers it; "
                   "and "
                   "exact convergence excludes privacy: two neighbours with distinct minimisers are told "
                   "apart by "
                   "where the run ends."
                 : "the variance is computed from the private objective: where V_t = 0 for one data set and "
                   "not for "
                   "its neighbour, the first sends exact zeros and the second does not, so δ = 1 at every ε.",
      .reference = geometric ? "1 − p ≤ e^ε p + δ for a test that errs with probability p; docs/claims.md"
                             : "counterexample in docs/claims.md"};
}

double NflRho(Rho first_round, double tau, std::uint64_t rounds) {
  const auto t = static_cast<double>(rounds);
  // τ^{−(T−1)} (1 − τ^T)/(1 − τ) by logarithms; a dozen roundings and those of the exponent are added.
  const double log_tau = std::log(tau);
  const double exponent = -(t - 1) * log_tau;
  const double sum = tau == 1 ? t : std::exp(exponent) * std::expm1(t * log_tau) / std::expm1(log_tau);
  return MulUp(MulUp(first_round.value(), sum), 1 + 0x1p-48 + std::abs(exponent) * 0x1p-50);
}

Result<PaperClaim> NflClaim(Rho first_round, double tau, std::uint64_t rounds, Delta delta, NflData data) {
  TACIT_OK(CheckRounds(rounds));
  if (!(tau > 0 && tau <= 1))
    return Fail(Code::kInvalidArgument, "tau = {}: the variance's factor must be in (0, 1]", tau);
  const Rho rho = Rho::Proven(NflRho(first_round, tau, rounds));
  PaperClaim c{.paper = "nfl",
               .setting = "subgradients clipped at c₁",
               .source = "Corollary of Theorem I",
               .formula = "ε = ρ + 2√(ρ ln 1/δ), ρ = φ₁(1 − τ^T)/(τ^{T−1} − τ^T)",
               .claimed = ZcdpEpsilon(rho, delta),
               .published = {},
               .claimed_delta = delta.value(),
               .scope = "the run",
               .certified = kNothing,
               .delta = delta.value(),
               .why =
                   "the conversion is loose for Gaussian noise; the sum over rounds is right (it has T "
                   "terms, the proof's "
                   "0 < n < T has T − 1).",
               .reference = "Dong, Roth, Su 2022"};
  switch (data) {
    case NflData::kClipped: {
      TACIT_TRY(c.certified, OfGaussians(Mu::Proven(SqrtUp(MulUp(2, rho.value()))), 1, delta));
      break;
    }
    case NflData::kUnboundedLoss:
      c.setting = "squared loss as run, not clipped";
      c.why =
          "the gradient of a squared loss grows with the residual, so Assumption 1 fails and one record "
          "moves a "
          "message by any amount.";
      c.reference = "the paper's elastic net and ridge experiments";
      break;
    case NflData::kPenaltyFromData:
      c.setting = "λ₁ = 0.001‖Xᵀy‖∞ as run";
      c.why =
          "λ₁ is computed from the records and used without noise, so the messages depend on them in a way "
          "that no "
          "release pays for.";
      c.reference = "the paper's elastic net experiment";
      break;
  }
  return c;
}

Result<PaperClaim> FedExpLocalClaim(double sigma_over_clip, std::uint64_t rounds, Delta delta) {
  TACIT_OK(CheckRounds(rounds));
  TACIT_TRY(const NoiseStd sigma, NoiseStd::Of(sigma_over_clip));
  const Mu mu = Mu::Proven(DivUp(2, sigma.value()));
  TACIT_TRY(const Bracket one, OfGaussians(mu, 1, delta));
  TACIT_TRY(const Bracket run, OfGaussians(mu, rounds, delta));
  return PaperClaim{
      .paper = "fedexp",
      .setting = "LDP, Gaussian, FedEXP and FedAvg",
      .source = "Proposition 4.1, Table 1",
      .formula = "ε of one release with σ = 0.7 C, by numerical composition",
      .claimed = one.upper,
      .published = {},
      .claimed_delta = delta.value(),
      .scope = "one round",
      .certified = run,
      .delta = delta.value(),
      .why =
          "the figure is that of one round, and a client answers in every one; the rows with central noise "
          "count the run, so the two are not to be compared.",
      .reference = "Dong, Roth, Su 2022: μ of the run is √T times that of a round"};
}

Result<PaperClaim> FedExpPrivUnitClaim(PrivUnitSplit split, std::uint64_t rounds, Delta delta,
                                       std::optional<std::uint64_t> dimension) {
  TACIT_OK(CheckRounds(rounds));
  for (const Epsilon e : {split.probability, split.cap, split.scalar})
    if (!(e.value() > 0 && e.value() <= 30))
      return Fail(Code::kInvalidArgument, "epsilon = {}: each part must be in (0, 30]", e.value());
  const double p = 1 / (1 + std::exp(-split.probability.value()));
  double q = 1 / (1 + std::exp(split.cap.value()));
  if (dimension) {
    if (*dimension < 2 || *dimension > 1000000000)
      return Fail(Code::kInvalidArgument, "dimension = {}: a direction needs 2 to 10^9 of them", *dimension);
    const auto d = static_cast<double>(*dimension);
    const double gamma = std::tanh(split.cap.value() / 2) * std::sqrt(M_PI / (2 * (d - 1)));
    const double a = (d - 1) / 2;
    // γ may reach 1 for d = 2; the arguments are in range otherwise.
    if (!(gamma < 1))
      return Fail(Code::kInvalidArgument, "dimension = {}: the paper's rule gives no cap for it", *dimension);
    q = boost::math::ibeta(a, a, (1 - gamma) / 2);
  }
  TACIT_TRY(const Probability up, Probability::Of(p));
  TACIT_TRY(const Probability uq, Probability::Of(q));
  Accountant account(Adjacency::kReplaceOne);
  TACIT_OK(account.Compose(PrivUnitEvent{.p = up, .q = uq}, rounds));
  TACIT_OK(account.Compose(ScalarDpEvent{split.scalar}, rounds));
  TACIT_TRY(const Bracket run, account.EpsilonAt(delta));
  return PaperClaim{.paper = "fedexp",
                    .setting = dimension ? fmt::format("LDP, PrivUnit, the paper's cap, d = {}", *dimension)
                                         : std::string("LDP, PrivUnit, cap of measure 1/(1 + e^ε₁)"),
                    .source = "Lemma D.1, Table 1",
                    .formula = "ε = ε₀ + ε₁ + ε₂",
                    .claimed = split.probability.value() + split.cap.value() + split.scalar.value(),
                    .published = {},
                    .claimed_delta = 0,
                    .scope = "one round",
                    .certified = run,
                    .delta = delta.value(),
                    .why = dimension ? "one round against the run; the paper's rule for γ is only "
                                       "sufficient, so a round costs less than "
                                       "ε₀ + ε₁ + ε₂."
                           : delta.value() > 0
                               ? "one round against the run; a δ > 0 lets the losses, of which most rounds "
                                 "have the largest, average "
                                 "a little."
                               : "the figure is that of one round, and pure ε adds up over rounds.",
                    .reference = "Bhowmick et al. 2018; Kairouz, Oh, Viswanath 2015 for the composition"};
}

Result<PaperClaim> FedExpCentralClaim(const FedExpCentral& f, Delta delta) {
  TACIT_OK(CheckRounds(f.rounds));
  TACIT_OK(CheckRounds(f.counted));
  if (f.clients < 1 || f.clients > 1000000000)
    return Fail(Code::kInvalidArgument, "clients = {}: must be in [1, 10^9]", f.clients);
  if (f.dimension && (*f.dimension < 1 || *f.dimension > 1000000000000))
    return Fail(Code::kInvalidArgument, "dimension = {}: must be in [1, 10^12]", *f.dimension);
  const auto m = static_cast<double>(f.clients);
  // C = 1: s₁ = σ/√M = r/M. Stds are a few roundings off, less than the figures show; μ is raised by more.
  TACIT_TRY(const NoiseStd mean, NoiseStd::Of(f.noise_ratio / m));
  const double alone = DivUp(2, f.noise_ratio);
  double apart = MulUp(alone, alone), joint = alone;
  if (f.dimension) {
    const double sigma_xi = static_cast<double>(*f.dimension) * f.noise_ratio * f.noise_ratio / (m * m);
    TACIT_TRY(const NoiseStd squares, NoiseStd::Of(sigma_xi));
    const double step = 1 / (m * sigma_xi);
    apart += step * step;
    joint = MulUp(MeanAndSquaresMu(L2Bound(1.0), mean, squares, f.clients).value(), 1 + 0x1p-48);
  }
  TACIT_TRY(const Bracket claimed, OfGaussians(Mu::Proven(SqrtUp(apart)), f.counted, delta));
  TACIT_TRY(const Bracket certified, OfGaussians(Mu::Proven(joint), f.rounds, delta));
  return PaperClaim{
      .paper = "fedexp",
      .setting = f.dimension ? fmt::format("CDP, FedEXP, d = {}", *f.dimension) : std::string("CDP, FedAvg"),
      .source = "Proposition 4.2, Table 1",
      .formula = f.dimension ? "μ² = T(4/r² + M²/(d² r⁴)), by numerical composition"
                             : "μ² = 4T/r², by numerical composition",
      .claimed = claimed.upper,
      .published = {},
      .claimed_delta = delta.value(),
      .scope = fmt::format("{} of {} rounds", f.counted, f.rounds),
      .certified = certified,
      .delta = delta.value(),
      .why =
          f.dimension
              ? fmt::format(
                    "the figure counts {} of {} rounds; and released together with the mean, the step size "
                    "costs {}, since updates that are worst for the mean have equal norms.",
                    f.counted, f.rounds, joint > alone * (1 + 1e-9) ? "less than apart" : "nothing")
              : fmt::format("the figure counts {} rounds and the run has {}.", f.counted, f.rounds),
      .reference = f.dimension ? "the joint sensitivity in src/privacy/joint_release.h"
                               : "Appendix G.1 of the paper: T = 50"};
}

Mu FcrnRoundMu(Epsilon epsilon, const Fcrn& f) {
  const auto m = static_cast<double>(f.records), t = static_cast<double>(f.rounds);
  const double e = epsilon.value();
  const double squared = e * e * m * m / (20 * t * std::log(1.25 / f.delta0));
  return Mu::Proven(MulUp(SqrtUp(squared), 1 + 0x1p-49));
}

double FcrnDelta(Epsilon epsilon, const Fcrn& f) {
  const double n = static_cast<double>(f.steps) * static_cast<double>(f.rounds);
  const double kept = n * std::log1p(-f.delta0 / static_cast<double>(f.records));
  return 1 - std::max(0.0, 1 - epsilon.value() / std::sqrt(5.0)) * std::exp(kept);
}

Result<PaperClaim> FcrnClaim(Epsilon epsilon, const Fcrn& f, Delta delta) {
  TACIT_OK(CheckRounds(f.rounds));
  TACIT_OK(CheckRounds(f.steps));
  if (f.records < 1 || f.records > 1000000000000)
    return Fail(Code::kInvalidArgument, "records = {}: must be in [1, 10^12]", f.records);
  if (!(f.delta0 > 0 && f.delta0 <= 1))
    return Fail(Code::kInvalidArgument, "delta0 = {}: must be in (0, 1]", f.delta0);
  Accountant account(Adjacency::kReplaceOne);
  TACIT_TRY(const Probability rate, Probability::Of(DivUp(1, static_cast<double>(f.records))));
  TACIT_OK(account.Compose(FixedSizeGaussianEvent{.rate = rate, .mu = FcrnRoundMu(epsilon, f)}, f.rounds));
  TACIT_TRY(const Bracket run, account.EpsilonAt(delta));
  return PaperClaim{
      .paper = "fcrn",
      .setting = fmt::format("noise of (7) for ε = {:g}, its sensitivity granted", epsilon.value()),
      .source = "Theorem 1, (7)",
      .formula = "σ² = 80 τTk ln(1.25/δ₀)(G₁ + G₂D)²/(ε²m²d), δ = 1 − (1 − ε/√5)(1 − δ₀/m)^{τT}",
      .claimed = epsilon.value(),
      .published = {},
      .claimed_delta = FcrnDelta(epsilon, f),
      .scope = "the run",
      .certified = run,
      .delta = delta.value(),
      .why =
          "the theorem's “certain δ” is no small number, see the table; one sample serves all τ steps of a "
          "round and "
          "is amplified once, not per step; and (7) lacks a factor √2. Without clipping and a projection of "
          "x the "
          "value is ∞.",
      .reference = "Balle, Barthe, Gaboardi 2018; Zhu, Dong, Wang 2022"};
}

const std::vector<std::string>& PaperNames() {
  static const std::vector<std::string> names = {"primal-dual", "ef21", "nfl", "fedexp", "fcrn", "isrl-dp"};
  return names;
}

Result<std::vector<PaperClaim>> ClaimsOf(std::string_view paper) {
  const auto& names = PaperNames();
  if (!paper.empty() && std::find(names.begin(), names.end(), paper) == names.end())
    return Fail(Code::kInvalidArgument,
                "paper = {}: must be one of primal-dual, ef21, nfl, fedexp, fcrn, isrl-dp", paper);
  const auto wanted = [&](std::string_view name) { return paper.empty() || paper == name; };
  std::vector<PaperClaim> out;
  const auto add = [&](Result<PaperClaim> c, std::optional<double> published = {}) -> Status {
    if (!c.ok()) return c.error();
    c->published = published;
    out.push_back(*std::move(c));
    return Ok{};
  };
  constexpr Delta kFive{1e-5}, kFour{1e-4};
  if (wanted("primal-dual")) {
    TACIT_OK(add(PrimalDualClaim(Epsilon(1.0), kFour, true)));
    TACIT_OK(add(PrimalDualClaim(Epsilon(1.0), kFour, false)));
  }
  if (wanted("ef21")) {            // the paper names no (ε, δ): a usual one
    TACIT_OK(add(Ef21Claim(Epsilon(1.0), kFive, Ef21Schedule::kGeometric)));
    TACIT_OK(add(Ef21Claim(Epsilon(1.0), kFive, Ef21Schedule::kLyapunov)));
  }
  if (wanted("nfl")) {             // nor does this one name its φ₁ and τ
    for (const NflData data : {NflData::kClipped, NflData::kUnboundedLoss, NflData::kPenaltyFromData})
      TACIT_OK(add(NflClaim(Rho(1e-4), 0.99, 200, kFive, data)));
  }
  if (wanted("fedexp")) {
    const PrivUnitSplit two{Epsilon(2.0), Epsilon(2.0), Epsilon(2.0)};
    TACIT_OK(add(FedExpLocalClaim(0.7, 50, kFive), 15.659));
    TACIT_OK(add(FedExpPrivUnitClaim(two, 50, Delta(0.0), {}), 6));
    TACIT_OK(add(FedExpPrivUnitClaim(two, 50, kFive, {}), 6));
    TACIT_OK(add(FedExpPrivUnitClaim(two, 50, kFive, 100), 6));
    TACIT_OK(add(FedExpCentralClaim({.dimension = 500}, kFive), 15.647));
    TACIT_OK(add(FedExpCentralClaim({.dimension = 5046}, kFive), 15.261));
    TACIT_OK(add(FedExpCentralClaim({.dimension = {}}, kFive), 15.258));
  }
  if (wanted("fcrn"))
    for (const double epsilon : {0.4, 0.6, 0.8, 1.0})
      TACIT_OK(add(FcrnClaim(Epsilon::Proven(epsilon), {}, kFive)));
  if (wanted("isrl-dp")) {
    TACIT_OK(add(IsrlDpClaim(Epsilon(1.0), kFive, 100, true)));
    TACIT_OK(add(IsrlDpClaim(Epsilon(1.0), kFive, 100, false)));
  }
  return out;
}

}  // namespace tacit
