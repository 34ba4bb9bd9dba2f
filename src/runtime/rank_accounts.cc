#include "runtime/rank_accounts.h"

namespace tacit {
namespace {

// Runs of equal figures: a million equal accounts are one pair.
template <class T, class Figure>
void PutRuns(std::size_t count, Figure figure, Parcel& p) {
  std::vector<std::uint64_t> counts;
  std::vector<T> figures;
  for (std::size_t i = 0; i < count; ++i) {
    const T value = figure(i);
    if (figures.empty() || value != figures.back()) figures.push_back(value), counts.push_back(0);
    ++counts.back();
  }
  p.Put(counts);
  p.Put(figures);
}

template <class T>
bool GetRuns(std::size_t count, std::vector<T>& all, Parcel& p) {
  std::vector<std::uint64_t> counts;
  std::vector<T> figures;
  if (!p.Get(counts) || !p.Get(figures) || counts.size() != figures.size()) return false;
  all.clear();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > count - all.size()) return false;
    all.insert(all.end(), static_cast<std::size_t>(counts[i]), figures[i]);
  }
  return all.size() == count;
}

}  // namespace

RankAccounts::RankAccounts(LedgerBook& book, const Ranks& ranks, bool durable)
    : book_(book), durable_(durable), lent_(book.size(), ranks.rank()) {
  if (!ranks.first() && durable) book_.Attach(&lent_);
}

Status RankAccounts::Lent::Reserve(std::uint32_t first, std::span<const MuSquared>) {
  return Fail(Code::kBudget,
              "client {} at rank {} would release more than rank 0 has made durable; this is a bug: the plan "
              "of the run does not cover its charges",
              first, rank_);
}

void RankAccounts::PutDurable(Parcel& p) {
  const bool tell = durable_ && book_.plan() == nullptr && told_ != book_.reservations();
  p.Put(tell);
  if (!tell) return;
  told_ = book_.reservations();
  PutRuns<double>(
      book_.size(),
      [&](std::size_t i) { return book_.account(static_cast<std::uint32_t>(i)).reserved().value(); }, p);
}

Status RankAccounts::TakeDurable(Parcel& p) {
  bool told = false;
  if (!p.Get(told)) return LostThread();
  if (!told) return Ok{};
  std::vector<double> up_to;
  if (!GetRuns(book_.size(), up_to, p)) return LostThread();
  for (std::uint32_t i = 0; i < book_.size(); ++i) book_.account(i).Reserved(MuSquared::Proven(up_to[i]));
  return Ok{};
}

template <class Id>
void RankAccounts::Put(std::size_t count, Id id, Parcel& p) const {
  PutRuns<double>(count, [&](std::size_t i) { return book_.account(id(i)).spent().value(); }, p);
  const PlannedReleases* plan = std::as_const(book_).plan();
  if (plan == nullptr || plan->sampled()) return;
  const std::size_t lines = plan->plan().lines().size();
  for (std::size_t line = 0; line < lines; ++line)
    PutRuns<std::uint64_t>(
        count, [&](std::size_t i) { return plan->left()[line * book_.size() + id(i)]; }, p);
}

template <class Id>
Status RankAccounts::Take(std::size_t count, Id id, Parcel& p) {
  std::vector<double> spent;
  if (!GetRuns(count, spent, p)) return LostThread();
  for (std::size_t i = 0; i < count; ++i) book_.account(id(i)).Restore(MuSquared::Proven(spent[i]));
  PlannedReleases* plan = book_.plan();
  if (plan == nullptr || plan->sampled()) return Ok{};
  std::vector<std::vector<std::uint64_t>> left(plan->plan().lines().size());
  for (auto& line : left)
    if (!GetRuns(count, line, p)) return LostThread();
  std::vector<std::uint64_t> of(left.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t line = 0; line < left.size(); ++line) of[line] = left[line][i];
    TACIT_OK(plan->Follow(id(i), of));
  }
  return Ok{};
}

void RankAccounts::PutCharged(std::span<const std::uint32_t> who, Parcel& p) const {
  Put(who.size(), [&](std::size_t i) { return who[i]; }, p);
}
Status RankAccounts::TakeCharged(std::span<const std::uint32_t> who, Parcel& p) {
  return Take(who.size(), [&](std::size_t i) { return who[i]; }, p);
}
void RankAccounts::PutCharged(std::uint32_t first, std::uint32_t last, Parcel& p) const {
  Put(last - first, [&](std::size_t i) { return first + static_cast<std::uint32_t>(i); }, p);
}
Status RankAccounts::TakeCharged(std::uint32_t first, std::uint32_t last, Parcel& p) {
  return Take(last - first, [&](std::size_t i) { return first + static_cast<std::uint32_t>(i); }, p);
}

}  // namespace tacit
