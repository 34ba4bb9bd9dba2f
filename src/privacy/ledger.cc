#include "privacy/ledger.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tacit {

Ledger::Ledger(PlannedReleases& plan, std::uint32_t account)
    : budget_(MuSquared::Proven(kInf)),
      spent_(MuSquared::Proven(kInf)),
      plan_(&plan),
      account_(account),
      adjacency_(plan.plan().adjacency()) {}

Status Ledger::ChargeSlowly(const GaussianEvent& event) {
  const PrivacyEvent one = event;
  return Charge(std::span<const PrivacyEvent>(&one, 1));
}

Status Ledger::Charge(std::span<const PrivacyEvent> events) {
  if (plan_ != nullptr) {
    TACIT_OK(plan_->Charge(account_, events));
    charges_ += static_cast<std::uint32_t>(events.size());
    return Ok{};
  }
  MuSquared total = spent_;
  for (const PrivacyEvent& event : events) total = total + Cost(event);
  if (!(total <= budget_)) {
    return Fail(Code::kBudget,
                "privacy budget: a release would bring mu to {:.6g}, past the budget of {:.6g}; raise "
                "privacy.epsilon, or lower algorithm.rounds",
                std::sqrt(total.value()), std::sqrt(budget_.value()));
  }
  if (vault_ != nullptr && total > reserved_) {
    TACIT_OK(vault_->Reserve(account_, std::span<const MuSquared>(&total, 1)));   // durable first
    reserved_ = total;
  }
  spent_ = total;
  charges_ += static_cast<std::uint32_t>(events.size());
  return Ok{};
}

LedgerBook::LedgerBook(std::span<const MuSquared> budgets, Adjacency adjacency) : adjacency_(adjacency) {
  accounts_.reserve(budgets.size());
  for (MuSquared b : budgets) accounts_.emplace_back(b, adjacency);
}

LedgerBook::LedgerBook(std::size_t accounts, Accountant plan, SecretSampler* sampler)
    : adjacency_(plan.adjacency()),
      plan_(std::make_unique<PlannedReleases>(std::move(plan), accounts, sampler)) {
  accounts_.reserve(accounts);
  for (std::uint32_t i = 0; i < accounts; ++i) accounts_.emplace_back(*plan_, i);
}

PlannedReleases::PlannedReleases(Accountant plan, std::size_t accounts, SecretSampler* sampler)
    : plan_(std::move(plan)), rows_(sampler != nullptr ? 1 : accounts), sampler_(sampler) {
  for (const Accountant::Line& line : plan_.lines()) left_.insert(left_.end(), rows_, line.count);
}

Status PlannedReleases::Take(std::size_t row, const PrivacyEvent& event) {
  const auto line =
      PlannedAccount::LineFor(plan_, event, [&](std::size_t i) { return left_[i * rows_ + row]; });
  if (!line)
    return Fail(
        Code::kBudget,
        "privacy budget: the plan of this run has no such release left; plan every release before the "
        "first, with its noise");
  --left_[*line * rows_ + row];
  return Ok{};
}

Status PlannedReleases::Charge(std::uint32_t account, std::span<const PrivacyEvent> events) {
  if (sampler_ != nullptr)
    return Fail(Code::kBudget,
                "privacy budget: this run pays for sums over a secret sample; what one client releases by "
                "itself shows that it takes part");
  std::vector<std::uint64_t> before;
  for (std::size_t i = 0; i < plan_.lines().size(); ++i) before.push_back(left_[i * rows_ + account]);
  for (const PrivacyEvent& event : events)
    if (Status s = Take(account, event); !s.ok()) {
      for (std::size_t i = 0; i < before.size(); ++i) left_[i * rows_ + account] = before[i];
      return s;
    }
  return Ok{};
}

Status PlannedReleases::ChargeAll(const PrivacyEvent& event) {
  if (sampler_ != nullptr) {
    if (!sampler_->Use())
      return Fail(Code::kBudget,
                  "privacy budget: a second release from one sample of clients; draw another sample first");
    return Take(0, OnSecretSample(sampler_->sampling(), event));
  }
  const std::vector<std::uint64_t> before = left_;
  for (std::size_t row = 0; row < rows_; ++row)
    if (Status s = Take(row, event); !s.ok()) {
      left_ = before;
      return s;
    }
  return Ok{};
}

Status PlannedReleases::Restore(std::span<const std::uint64_t> left) {
  bool fits = left.size() == left_.size();
  for (std::size_t i = 0; fits && i < left.size(); ++i) fits = left[i] <= plan_.lines()[i / rows_].count;
  if (!fits)
    return Fail(Code::kMalformed,
                "the checkpoint counts other releases than this run plans; one of the two files is not this "
                "run's");
  left_.assign(left.begin(), left.end());
  return Ok{};
}

Status PlannedReleases::Follow(std::uint32_t account, std::span<const std::uint64_t> left) {
  if (sampler_ != nullptr || account >= rows_ || left.size() != plan_.lines().size())
    return Fail(Code::kMalformed, "what another process has charged is not of this run's plan");
  for (std::size_t i = 0; i < left.size(); ++i)
    left_[i * rows_ + account] = std::min(left_[i * rows_ + account], left[i]);
  return Ok{};
}

void LedgerBook::Attach(Vault* vault) {
  ++reservations_;
  vault_ = vault;
  if (plan_ != nullptr) return;      // durable as a whole already
  const std::vector<MuSquared> durable = vault->reserved();
  TACIT_CHECK(durable.size() == accounts_.size());
  for (std::uint32_t i = 0; i < accounts_.size(); ++i) {
    accounts_[i].Attach(vault, i);
    accounts_[i].Restore(durable[i]);
    accounts_[i].Reserved(durable[i]);
  }
}

Status LedgerBook::Resume(Vault* vault, std::span<const MuSquared> spent,
                          std::span<const std::uint64_t> left) {
  ++reservations_;
  if (plan_ != nullptr) {
    vault_ = vault;
    return left.empty() ? Status(Ok{}) : plan_->Restore(left);      // none: nothing had left
  }
  const std::vector<MuSquared> durable = vault->reserved();
  TACIT_CHECK(durable.size() == accounts_.size() && spent.size() == accounts_.size());
  for (std::size_t i = 0; i < accounts_.size(); ++i)
    if (spent[i] > durable[i])
      return Fail(Code::kMalformed,
                  "the checkpoint has spent mu = {:.6g} for client {} and its ledger knows of {:.6g}; one of "
                  "the two files is not this run's",
                  std::sqrt(spent[i].value()), i, std::sqrt(durable[i].value()));
  vault_ = vault;
  for (std::uint32_t i = 0; i < accounts_.size(); ++i) {
    accounts_[i].Attach(vault, i);
    accounts_[i].Restore(spent[i]);
    accounts_[i].Reserved(durable[i]);
  }
  return Ok{};
}

Status LedgerBook::Reserve(std::span<const MuSquared> ahead) {
  TACIT_CHECK(ahead.size() == accounts_.size());
  if (vault_ == nullptr || plan_ != nullptr) return Ok{};
  targets_.assign(accounts_.size(), MuSquared{0.0});
  for (std::size_t i = 0; i < accounts_.size(); ++i) {
    targets_[i] = accounts_[i].spent() + ahead[i];
    if (targets_[i] > accounts_[i].budget()) targets_[i] = accounts_[i].budget();
  }
  TACIT_OK(vault_->Reserve(0, targets_));
  for (std::size_t i = 0; i < accounts_.size(); ++i) accounts_[i].Reserved(targets_[i]);
  ++reservations_;
  return Ok{};
}

Status LedgerBook::Charge(const PrivacyEvent& event) {
  if (plan_ != nullptr) return plan_->ChargeAll(event);
  const MuSquared cost = Cost(event);
  bool durable = true;
  for (Ledger& a : accounts_) {
    const MuSquared total = a.spent() + cost;
    if (!(total <= a.budget())) return a.Charge(event);      // which refuses, in words
    durable = durable && total <= a.reserved();
  }
  if (vault_ != nullptr && !durable) TACIT_OK(Reserve(std::vector<MuSquared>(accounts_.size(), cost)));
  for (Ledger& a : accounts_) TACIT_OK(a.Charge(event));
  return Ok{};
}

void LedgerBook::Record(const Claim& claim) {
  for (Ledger& a : accounts_) a.Record(claim);
}

MuSquared LedgerBook::largest_spent() const {
  MuSquared most{0.0};
  for (const Ledger& a : accounts_)
    if (a.spent() > most) most = a.spent();
  return most;
}

}  // namespace tacit
