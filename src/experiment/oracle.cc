#include "experiment/oracle.h"

#include <map>
#include <mutex>

namespace tacit {
namespace {

// x* of the problems solved so far: a sweep over seeds asks for the same one again and again.
struct Cache {
  std::mutex mutex;
  std::map<std::string, Solution> solved;
};
Cache& Solutions() {
  static Cache cache;
  return cache;
}

}  // namespace

Oracle::Oracle(const Partition& p, const Objective& f, const Regularizer& g, double l2, std::string key)
    : f_(&f), g_(&g), l2_(l2), key_(std::move(key)) {
  for (std::size_t i = 0; i < p.clients(); ++i) shards_.push_back(p.shard(i).value_);
}

Status Oracle::Prepare() {
  // Rows that are made again in every pass: an optimum takes hundreds of passes, and is not looked for.
  if (!shards_.empty() && shards_[0].dataset().maker) return Ok{};
  // Not strongly convex: no unique optimum to compare with, but where a loss has kinks there may be one.
  if (!(l2_ > 0) && !f_->KinkOf(1.0)) return Ok{};
  Cache& cache = Solutions();
  const std::lock_guard lock(cache.mutex);
  auto at = cache.solved.find(key_);
  if (at == cache.solved.end()) {
    auto s = SolveReference(*f_, shards_, l2_, *g_);
    if (!s.ok() && !(l2_ > 0)) return Ok{};
    if (!s.ok()) return s.error();
    at = cache.solved.emplace(key_, *std::move(s)).first;
  }
  optimum_ = at->second;
  has_optimum_ = true;
  return Ok{};
}

void Oracle::Measure(View x, std::optional<double> consensus, Metrics& m) {
  measured_ = true;
  double loss = 0, right = 0, rows = 0;
  for (const Shard& s : shards_) {
    loss += f_->Value(s, x, work_) / static_cast<double>(shards_.size());
    if (const auto a = f_->Accuracy(s, x)) {
      accuracy_ = true;
      right += *a * static_cast<double>(s.size());
      rows += static_cast<double>(s.size());
    }
    s.Done(0, s.size());
  }
  m.train_loss = loss + 0.5 * l2_ * NormSquared(x) + g_->Value(x);
  if (accuracy_) m.train_accuracy = right / rows;
  m.consensus = consensus;
  consensus_ = consensus_ || consensus.has_value();
  if (has_optimum_) {
    const double scale = NormSquared(optimum_.x);
    m.optimality = consensus.value_or(0.0) + DistanceSquared(x, optimum_.x) / (scale > 0 ? scale : 1);
  }
}

void Oracle::MeasurePeers(double consensus, Metrics& m) {
  if (!has_optimum_ || !m.optimality) return;
  peers_ = true;
  const double scale = NormSquared(optimum_.x);
  m.error = *m.optimality + consensus / (scale > 0 ? scale : 1);
}

std::vector<std::string> Oracle::answered() const {
  if (!measured_) return {};
  std::vector<std::string> names = {"train_loss"};
  if (consensus_) names.push_back("consensus");
  if (accuracy_) names.push_back("train_accuracy");
  if (has_optimum_) names.push_back("optimality");
  if (peers_) names.push_back("error");
  return names;
}

}  // namespace tacit
