// What an account means to groups, to a test and to someone with beliefs: --group, --trade-off, --belief.
#include <algorithm>
#include <cmath>

#include "account.h"
#include "privacy/conversions.h"

namespace tacit::cli {

void AddMeaning(CLI::App* sub, Asked& a) {
  sub->add_option("--group", a.group, "also the ε of any G units together")
      ->type_name("G")
      ->check(IsNumber());
  sub->add_flag("--trade-off", a.trade_off, "also prints the errors that no test of membership can beat");
  sub->add_option("--belief", a.belief, "also what an attacker with this prior belief can come to believe")
      ->type_name("PRIOR")
      ->check(IsNumber());
}

Result<Meaning> MeaningOf(const Accountant& account, Delta delta, const Asked& a) {
  Meaning out;
  if (!a.group && !a.trade_off && !a.belief) return out;
  const double size = a.group.value_or(1);
  if (!(size >= 1 && size <= 1e6 && size == std::floor(size)))
    return Fail(Code::kInvalidArgument, "--group = {}: must be a whole number from 1 to 10^6", size);
  TACIT_TRY(const PrivacyCurve curve, PrivacyCurve::Of(account, static_cast<std::uint32_t>(size)));
  if (a.group) {
    TACIT_TRY(const Bracket e, curve.EpsilonAt(delta));
    out.more["group"] = {{"size", static_cast<std::uint64_t>(size)},
                         {"epsilon", Number(e.upper)},
                         {"epsilon_lower", Number(e.lower)},
                         {"method", e.method}};
    out.lines.emplace_back(fmt::format("ε of {} unit{}", size, size == 1 ? "" : "s"),
                           EpsilonText(e.upper, 12));
    if (std::isfinite(e.upper)) out.lines.emplace_back("", Between(e));
    out.lines.emplace_back("", "by " + e.method);
  }
  if (a.belief) {
    if (!(*a.belief >= 0 && *a.belief <= 1))
      return Fail(Code::kInvalidArgument, "--belief = {}: a prior is a probability, in [0, 1]", *a.belief);
    const Probability prior = Probability::Proven(*a.belief);
    TACIT_TRY(const Belief b, BeliefAfter(curve, prior, delta));
    out.more["belief"] = {{"prior", prior.value()},
                          {"posterior", b.posterior},
                          {"success", b.success},
                          {"advantage", b.advantage}};
    out.lines.emplace_back(
        "belief", fmt::format("from {} to at most {}, except with probability {}", Digits(prior.value()),
                              DigitsUp(b.posterior), DigitsUp(delta.value())));
    out.lines.emplace_back("best guess",
                           fmt::format("right with probability {} at most", DigitsUp(b.success)));
    out.lines.emplace_back("advantage", fmt::format("{} at most", DigitsUp(b.advantage)));
  }
  if (a.trade_off) {
    const std::vector<double> alphas{1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9};
    TACIT_TRY(const std::vector<double> betas, TradeOff(curve, alphas));
    for (std::size_t i = 0; i < alphas.size(); ++i) out.trade_off.emplace_back(alphas[i], betas[i]);
    for (const auto& [alpha, beta] : out.trade_off)
      out.more["trade_off"].push_back({{"alpha", alpha}, {"beta", beta}});
  }
  return out;
}

void PrintTradeOff(const Meaning& meaning) {
  if (meaning.trade_off.empty()) return;
  Table table({"α: false positives", "β: misses, at least", "true positives, at most"});
  for (const auto& [alpha, beta] : meaning.trade_off)
    table.Add({Digits(alpha), DigitsDown(beta), DigitsUp(std::min(1.0, NextUp(1 - beta)))});
  table.Print(stdout, 2);
}

}  // namespace tacit::cli
