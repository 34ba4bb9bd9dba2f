#pragma once

// Traces as they were read, so that a live run costs what it has written since.
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "core/result.h"
#include "view/trace.h"

namespace tacit {

// The rows of `more` after those of `trace`; columns that one of them lacks are NaN there.
void Append(Trace& trace, const Trace& more);

class TraceCache {
 public:
  explicit TraceCache(std::size_t traces) : traces_(traces) {}
  Result<std::shared_ptr<const Trace>> Get(const std::filesystem::path& folder);

 private:
  struct Entry {
    std::filesystem::path folder;
    std::shared_ptr<const Trace> trace;
  };
  std::size_t traces_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the one asked for last in front
};

}  // namespace tacit
