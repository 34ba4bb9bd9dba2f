#include "data/made_rows.h"

#include <algorithm>
#include <atomic>

namespace tacit {
namespace {

// The rows that a thread read last: kernels look at several at once, and at some twice.
struct Kept {
  std::uint64_t whose = 0, now = 0;
  std::vector<std::size_t> number;
  std::vector<std::uint64_t> read;  // when, last
  Vec values;
};

class SyntheticMaker final : public RowMaker {
 public:
  SyntheticMaker(std::shared_ptr<const SyntheticRows> rows, std::size_t first, PreprocessOptions pre,
                 std::size_t features, std::vector<std::size_t> order = {})
      : rows_(std::move(rows)),
        first_(first),
        pre_(std::move(pre)),
        features_(features),
        order_(std::move(order)) {}

  const double* Values(std::size_t i) const override {
    thread_local Kept kept;
    constexpr std::size_t kNone = ~std::size_t{0};
    const std::size_t number = order_.empty() ? i : order_[i];
    if (kept.whose != id_) {
      kept.whose = id_;
      kept.number.assign(kKept, kNone);
      kept.read.assign(kKept, 0);
      kept.values.assign(kKept * features_, 0.0);
    }
    const auto found = std::find(kept.number.begin(), kept.number.end(), number);
    const bool there = found != kept.number.end();
    const auto slot = static_cast<std::size_t>(there ? found - kept.number.begin()
                                                     : std::min_element(kept.read.begin(), kept.read.end()) -
                                                           kept.read.begin());
    kept.read[slot] = ++kept.now;
    double* to = kept.values.data() + slot * features_;
    if (there) return to;
    kept.number[slot] = number;
    Dataset one = rows_->Nothing(/*names=*/false);
    rows_->Append(first_ + number, one);
    const Status done = Preprocess(pre_, one);
    TACIT_CHECK(done.ok());  // as it did for all rows before
    const Row row = one.row(0);
    std::fill_n(to, features_, 0.0);
    for (std::size_t j = 0; j < row.size; ++j) to[row.index == nullptr ? j : row.index[j]] = row.value[j];
    return to;
  }

  std::shared_ptr<const RowMaker> Reordered(const std::vector<std::size_t>& order) const override {
    std::vector<std::size_t> both = order;
    if (!order_.empty())
      for (std::size_t& i : both) i = order_[i];
    return std::make_shared<const SyntheticMaker>(rows_, first_, pre_, features_, std::move(both));
  }

 private:
  static std::uint64_t NextId() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }
  std::shared_ptr<const SyntheticRows> rows_;
  std::size_t first_;
  PreprocessOptions pre_;
  std::size_t features_;
  std::vector<std::size_t> order_;  // empty: as they come
  std::uint64_t id_ = NextId();  // an address may be another maker's later
};

}  // namespace

Result<Dataset> MakeOnDemand(const SyntheticOptions& o, std::size_t first, const PreprocessOptions& pre) {
  constexpr std::size_t kNumbers = std::size_t{1} << 20;  // in a batch
  TACIT_TRY(SyntheticRows rows, SyntheticRows::Of(o, first));
  Dataset all = rows.Nothing();
  all.row_begin.clear();
  all.label.reserve(o.rows);
  all.norm.reserve(o.rows);
  all.group.reserve(o.rows);
  const std::size_t each = std::max<std::size_t>(1, kNumbers / o.features);
  for (std::size_t at = 0; at < o.rows; at += each) {
    Dataset batch = rows.Nothing(/*names=*/false);
    for (std::size_t i = at; i < std::min(o.rows, at + each); ++i) {
      rows.Meet(first + i);
      rows.Append(first + i, batch);
    }
    TACIT_OK(Preprocess(pre, batch));
    all.label.insert(all.label.end(), batch.label.begin(), batch.label.end());
    all.norm.Append(batch.norm);
    all.group.insert(all.group.end(), batch.group.begin(), batch.group.end());
    all.features = batch.features;
    all.row_bound = batch.row_bound;
  }
  all.maker = std::make_shared<const SyntheticMaker>(std::make_shared<const SyntheticRows>(std::move(rows)),
                                                     first, pre, all.features);
  return all;
}

}  // namespace tacit
