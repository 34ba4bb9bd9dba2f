#include "privacy/ledger.h"

#include <cmath>

namespace tacit {

Status Ledger::Charge(std::span<const PrivacyEvent> events) {
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

void LedgerBook::Attach(Vault* vault) {
  vault_ = vault;
  const std::vector<MuSquared> durable = vault->reserved();
  TACIT_CHECK(durable.size() == accounts_.size());
  for (std::uint32_t i = 0; i < accounts_.size(); ++i) {
    accounts_[i].Attach(vault, i);
    accounts_[i].Restore(durable[i]);
    accounts_[i].Reserved(durable[i]);
  }
}

Status LedgerBook::Resume(Vault* vault, std::span<const MuSquared> spent) {
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
  if (vault_ == nullptr) return Ok{};
  targets_.assign(accounts_.size(), MuSquared{0.0});
  for (std::size_t i = 0; i < accounts_.size(); ++i) {
    targets_[i] = accounts_[i].spent() + ahead[i];
    if (targets_[i] > accounts_[i].budget()) targets_[i] = accounts_[i].budget();
  }
  TACIT_OK(vault_->Reserve(0, targets_));
  for (std::size_t i = 0; i < accounts_.size(); ++i) accounts_[i].Reserved(targets_[i]);
  return Ok{};
}

Status LedgerBook::Charge(const PrivacyEvent& event) {
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
