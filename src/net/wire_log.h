#pragma once

// What gRPC has to say of itself, in the program's own log instead of among its lines on stderr.
#include <functional>
#include <string>

namespace tacit {

// From here on gRPC's errors go to `log`, one a second at most; afterwards nowhere. One at a time. Whoever is
// told may be on any thread.
class WireLog {
 public:
  explicit WireLog(std::function<void(const std::string&)> log);
  ~WireLog();
  WireLog(const WireLog&) = delete;
  WireLog& operator=(const WireLog&) = delete;
};

}  // namespace tacit
