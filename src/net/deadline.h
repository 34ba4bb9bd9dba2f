#pragma once

// Deadlines of calls by the steady clock: one by the time of day moves when somebody sets that.
#include <grpc/support/time.h>
#include <grpcpp/support/time.h>

#include <chrono>

namespace tacit {

inline gpr_timespec In(std::chrono::milliseconds wait) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(wait.count(), GPR_TIMESPAN));
}

}  // namespace tacit
