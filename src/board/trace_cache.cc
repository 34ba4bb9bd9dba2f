#include "board/trace_cache.h"

namespace tacit {

std::shared_ptr<TraceCache::Entry> TraceCache::Find(const std::filesystem::path& folder) {
  const std::lock_guard lock(mutex_);
  auto at = entries_.begin();
  while (at != entries_.end() && at->first != folder) ++at;
  if (at == entries_.end()) {
    entries_.emplace_front(folder, std::make_shared<Entry>());
    if (entries_.size() > traces_) entries_.pop_back();
  } else {
    entries_.splice(entries_.begin(), entries_, at);
  }
  return entries_.front().second;
}

Result<std::shared_ptr<const Trace>> TraceCache::Get(const std::filesystem::path& folder) {
  const std::shared_ptr<Entry> found = Find(folder);
  Entry& entry = *found;
  const std::lock_guard lock(entry.mutex);
  TACIT_TRY(Trace more, ReadTrace(folder, *entry.trace));
  if (more.from_start) {
    entry.trace = std::make_shared<const Trace>(std::move(more));
  } else if (more.rows() > 0) {
    auto grown = std::make_shared<Trace>(*entry.trace);  // others may be reading the old one
    Append(*grown, more);
    entry.trace = std::move(grown);
  }
  return entry.trace;
}

}  // namespace tacit
