#include "privacy/filter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "privacy/gdp.h"
#include "privacy/saddle_point.h"

namespace tacit {
namespace {

// Whether what the planned event promises is no more than what `event` promises.
bool Covers(const PrivacyEvent& planned, const PrivacyEvent& event) {
  const auto mu_of = [](const PrivacyEvent& e) {
    if (const auto* g = std::get_if<GaussianEvent>(&e)) return g->mu.value();
    if (const auto* g = std::get_if<JointGaussianEvent>(&e)) return g->mu.value();
    return std::nan("");
  };
  if (const double mu = mu_of(planned); !std::isnan(mu)) {
    if (const double other = mu_of(event); !std::isnan(other)) return other <= mu;
    return Cost(event).value() <= NextDown(mu * mu);         // the square is rounded by half a step
  }
  if (const auto* e = std::get_if<PoissonGaussianEvent>(&planned)) {
    const auto* other = std::get_if<PoissonGaussianEvent>(&event);
    return other != nullptr && other->rate == e->rate && other->mu <= e->mu;
  }
  if (const auto* e = std::get_if<FixedSizeGaussianEvent>(&planned)) {
    const auto* other = std::get_if<FixedSizeGaussianEvent>(&event);
    return other != nullptr && other->rate == e->rate && other->mu <= e->mu;
  }
  if (const auto* e = std::get_if<PureEvent>(&planned)) return PureCost(event) <= e->epsilon;
  if (const auto* e = std::get_if<ZcdpEvent>(&planned)) return ZcdpCost(event) <= e->rho;
  return false;
}

// Whether the event has a meaning under the adjacency.
Status CheckEvent(const PrivacyEvent& event, Adjacency adjacency) {
  return Accountant(adjacency).Compose(event);
}

}  // namespace

PlannedAccount::PlannedAccount(Accountant plan) : plan_(std::move(plan)) {
  for (const Accountant::Line& line : plan_.lines()) left_.push_back(line.count);
}

std::optional<std::size_t> PlannedAccount::LineFor(const Accountant& plan, const PrivacyEvent& event,
                                                   const std::function<std::uint64_t(std::size_t)>& left) {
  const auto& lines = plan.lines();
  const auto find = [&](auto fits) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (left(i) > 0 && fits(lines[i].event)) return i;
    return std::nullopt;
  };
  auto at = find([&](const PrivacyEvent& planned) { return SameEvent(planned, event); });
  if (at || !CheckEvent(event, plan.adjacency()).ok()) return at;  // what is planned has a meaning
  at = find([&](const PrivacyEvent& planned) {
    return planned.index() == event.index() && Covers(planned, event);
  });
  return at ? at : find([&](const PrivacyEvent& planned) { return Covers(planned, event); });
}

Status PlannedAccount::Charge(const PrivacyEvent& event) {
  TACIT_OK(CheckEvent(event, plan_.adjacency()));
  if (const auto line = LineFor(plan_, event, [this](std::size_t i) { return left_[i]; })) {
    --left_[*line];
    ++charges_;
    return Ok{};
  }
  std::uint64_t left = 0;
  for (const std::uint64_t n : left_) left += n;
  return Fail(Code::kBudget,
              "the plan has no such release left, after {} of {}: plan every release before the first, or "
              "use a filter for those that depend on what was released",
              charges_, charges_ + left);
}

double GdpRule::EpsilonOf(Unit spent, Delta delta) { return GdpEpsilon(Root(spent), delta).upper; }
double ZcdpRule::EpsilonOf(Unit spent, Delta delta) {
  if (spent.value() == 0) return 0;
  if (delta.value() == 0 || !(spent.value() < 1e100)) return kInf;
  return RenyiEpsilon(Composition{}, delta.value(), spent.value());
}

template <class Rule>
Status Filter<Rule>::Charge(const PrivacyEvent& event) {
  TACIT_OK(CheckEvent(event, adjacency_));
  const Unit total = spent_ + Rule::CostOf(event);
  if (!(total <= budget_))
    return Fail(Code::kBudget,
                "privacy budget: a release would bring {} to {:.6g}, past the budget of {:.6g}; add noise or "
                "stop here",
                Rule::kName, total.value(), budget_.value());
  spent_ = total;
  ++charges_;
  return Ok{};
}

template <class Rule>
Result<Odometer<Rule>> Odometer<Rule>::Make(Unit first, double ratio, Delta delta, Adjacency adjacency) {
  if (!(first.value() > 0 && first.value() < kInf))
    return Fail(Code::kInvalidArgument, "first level of the odometer = {}: must be positive and finite",
                first.value());
  if (!(ratio >= 1.01 && ratio <= 1000))
    return Fail(Code::kInvalidArgument, "ratio of the odometer's levels = {}: must be in [1.01, 1000]",
                ratio);
  return Odometer(first, ratio, delta, adjacency);
}

template <class Rule>
Status Odometer<Rule>::Charge(const PrivacyEvent& event) {
  TACIT_OK(CheckEvent(event, adjacency_));
  spent_ = spent_ + Rule::CostOf(event);
  ++charges_;
  if (spent_.value() == 0) return Ok{};                      // nothing is known of the data yet
  const bool begun = epsilon_ > 0;
  const double before = level_;
  while (spent_.value() > level_) level_ *= ratio_, ++j_;    // ends at ∞ at the latest
  if (begun && level_ == before) return Ok{};
  // 6/π² from below; twice the half step that the quotient may be off.
  const double share = delta_.value() * 0.6079271 / ((j_ + 1) * (j_ + 1)) * (1 - 0x1p-50);
  epsilon_ = level_ < kInf ? Rule::EpsilonOf(Unit::Proven(level_), Delta::Proven(share)) : kInf;
  return Ok{};
}

template class Filter<GdpRule>;
template class Filter<ZcdpRule>;
template class Odometer<GdpRule>;
template class Odometer<ZcdpRule>;

Result<IndividualAccounts> IndividualEpsilons(Adjacency adjacency, std::uint32_t clients,
                                              std::span<const Attendance> rounds, Delta delta) {
  std::vector<PrivacyEvent> kinds;
  using History = std::map<std::size_t, std::uint64_t>;      // kind -> how often
  std::vector<History> of(clients);
  std::vector<std::size_t> last(clients, 0);
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    TACIT_OK(CheckEvent(rounds[round].event, adjacency));
    const auto known = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const PrivacyEvent& e) { return SameEvent(e, rounds[round].event); });
    const auto kind = static_cast<std::size_t>(known - kinds.begin());
    if (known == kinds.end()) kinds.push_back(rounds[round].event);
    for (const std::uint32_t client : rounds[round].clients) {
      if (client >= clients)
        return Fail(Code::kInvalidArgument, "client {} in round {}: there are {} clients, counted from 0",
                    client, round, clients);
      if (last[client] == round + 1)
        return Fail(Code::kInvalidArgument,
                    "client {} twice in round {}: a client takes part in a round once; list two rounds",
                    client, round);
      last[client] = round + 1;
      ++of[client][kind];
    }
  }
  IndividualAccounts out;
  std::map<History, std::uint32_t> index;
  for (const History& history : of) {
    const auto [at, fresh] = index.try_emplace(history, static_cast<std::uint32_t>(out.epsilon.size()));
    if (fresh) {
      Accountant account(adjacency);
      for (const auto& [kind, count] : history) TACIT_OK(account.Compose(kinds[kind], count));
      TACIT_TRY(Bracket epsilon, account.EpsilonAt(delta));
      out.epsilon.push_back(std::move(epsilon));
    }
    out.history.push_back(at->second);
  }
  return out;
}

}  // namespace tacit
