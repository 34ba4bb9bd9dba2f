#pragma once

// Seconds, of this process's processor time or of a clock on the wall.
#include <ctime>

namespace tacit {

inline double Now(bool processor) {
  timespec t;
  clock_gettime(processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace tacit
