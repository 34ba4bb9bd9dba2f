#include "board/trace_cache.h"

#include <limits>

namespace tacit {

void Append(Trace& trace, const Trace& more) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::size_t before = trace.rows(), rows = before + more.rows();
  for (const std::string& name : more.names)
    if (trace.column(name) == nullptr) {
      trace.names.push_back(name);
      trace.columns.emplace_back(before, none);
    }
  for (std::size_t k = 0; k < trace.names.size(); ++k) {
    const std::vector<double>* from = more.column(trace.names[k]);
    if (from != nullptr)
      trace.columns[k].insert(trace.columns[k].end(), from->begin(), from->end());
    else
      trace.columns[k].resize(rows, none);
  }
  trace.next_offset = more.next_offset;
}

Result<std::shared_ptr<const Trace>> TraceCache::Get(const std::filesystem::path& folder) {
  const std::lock_guard lock(mutex_);
  auto at = entries_.begin();
  while (at != entries_.end() && at->folder != folder) ++at;
  if (at == entries_.end()) {
    entries_.push_front({folder, std::make_shared<const Trace>()});
    if (entries_.size() > traces_) entries_.pop_back();
  } else {
    entries_.splice(entries_.begin(), entries_, at);
  }
  Entry& entry = entries_.front();
  TACIT_TRY(Trace more, ReadTrace(folder, entry.trace->next_offset));
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
