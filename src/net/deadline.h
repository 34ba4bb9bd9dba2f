#pragma once

// How long calls may take, and how long to wait between them. Deadlines by the steady clock: one by the time
// of day moves when somebody sets that.
#include <grpc/support/time.h>
#include <grpcpp/support/time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tacit {

inline gpr_timespec In(std::chrono::milliseconds wait) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(wait.count(), GPR_TIMESPAN));
}

// From half of a pause to the whole of it, by 64 random bits: callers that a server has lost at once do not
// come back at once.
inline std::chrono::milliseconds Spread(std::chrono::milliseconds pause, std::uint64_t bits) {
  const auto half = static_cast<std::uint64_t>(pause.count()) / 2;
  return pause - std::chrono::milliseconds(static_cast<long>(bits % (half + 1)));
}

// What so many bytes may take: `least` seconds, and what a link of so many bytes a second needs for them.
inline std::chrono::milliseconds TimeFor(double least, std::uint64_t bytes, double rate) {
  constexpr double kMost = 1e12;  // milliseconds: for ever, and a long holds it
  return std::chrono::milliseconds(
      static_cast<long>(std::min(1000 * (least + static_cast<double>(bytes) / rate), kMost)));
}

}  // namespace tacit
