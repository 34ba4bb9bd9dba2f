#pragma once

// MPFR numbers that free themselves, for comparisons that must be exact.
#include <mpfr.h>

namespace tacit::internal {

class Mp {
 public:
  explicit Mp(mpfr_prec_t bits) { mpfr_init2(v_, bits); }
  ~Mp() { mpfr_clear(v_); }
  Mp(const Mp&) = delete;
  Mp& operator=(const Mp&) = delete;
  operator mpfr_ptr() { return v_; }

 private:
  mpfr_t v_;
};

// MPFR keeps constants per thread and would leak them when the thread ends: call this before its use.
inline void FreeMpfrCacheAtThreadExit() {
  struct Cache {
    ~Cache() { mpfr_free_cache2(MPFR_FREE_LOCAL_CACHE); }
  };
  thread_local Cache cache;
}

}  // namespace tacit::internal
