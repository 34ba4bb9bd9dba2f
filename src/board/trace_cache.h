#pragma once

// Traces as they were read, so that a live run costs what it has written since.
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/result.h"
#include "view/trace.h"

namespace tacit {

class TraceCache {
 public:
  explicit TraceCache(std::size_t traces) : traces_(traces) {}
  Result<std::shared_ptr<const Trace>> Get(const std::filesystem::path& folder);

 private:
  struct Entry {
    std::mutex mutex;  // held while its file is read; others are served meanwhile
    std::shared_ptr<const Trace> trace = std::make_shared<const Trace>();
  };
  std::shared_ptr<Entry> Find(const std::filesystem::path& folder);

  std::size_t traces_;
  std::mutex mutex_;
  std::list<std::pair<std::filesystem::path, std::shared_ptr<Entry>>>
      entries_;  // the one asked for last in front
};

}  // namespace tacit
