#pragma once

// The accounts of a run whose clients are at several ranks (ranks.h).
//
// Rank 0's book has the vault, and is the one that counts. Before a round, it tells the others what is
// durable; their books charge within that and refuse beyond, so that no rank releases what is not on disk at
// rank 0. After the round they tell it what was charged. A plan that is paid for as a whole (PlannedReleases)
// is durable before the first round; then the ranks tell what is left of it.
#include <cstdint>
#include <span>
#include <vector>

#include "privacy/ledger.h"
#include "runtime/ranks.h"

namespace tacit {

class RankAccounts {
 public:
  // durable: rank 0 has a vault. The book is that of this rank, and at ranks other than 0 has none of its
  // own.
  RankAccounts(LedgerBook& book, const Ranks& ranks, bool durable);

  // What is durable, where that has changed.
  void PutDurable(Parcel&);
  Status TakeDurable(Parcel&);
  // What was charged to these accounts.
  void PutCharged(std::span<const std::uint32_t> who, Parcel&) const;
  Status TakeCharged(std::span<const std::uint32_t> who, Parcel&);
  // The same of accounts first … last − 1.
  void PutCharged(std::uint32_t first, std::uint32_t last, Parcel&) const;
  Status TakeCharged(std::uint32_t first, std::uint32_t last, Parcel&);
  void PutAllCharged(Parcel& p) const { PutCharged(0, static_cast<std::uint32_t>(book_.size()), p); }
  Status TakeAllCharged(Parcel& p) { return TakeCharged(0, static_cast<std::uint32_t>(book_.size()), p); }

 private:
  // At a rank that has no vault: whoever asks for more than rank 0 has lent is refused.
  class Lent final : public Vault {
   public:
    Lent(std::size_t accounts, std::uint32_t rank) : accounts_(accounts), rank_(rank) {}
    Status Reserve(std::uint32_t first, std::span<const MuSquared> up_to) override;
    std::vector<MuSquared> reserved() const override {
      return std::vector<MuSquared>(accounts_, MuSquared{0.0});
    }

   private:
    std::size_t accounts_;
    std::uint32_t rank_;
  };
  template <class Id> void Put(std::size_t count, Id id, Parcel&) const;
  template <class Id> Status Take(std::size_t count, Id id, Parcel&);

  LedgerBook& book_;
  bool durable_;
  std::uint64_t told_ = 0;  // LedgerBook::reservations() when it was told last
  Lent lent_;
};

}  // namespace tacit
