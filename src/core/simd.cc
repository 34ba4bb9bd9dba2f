#include "core/simd.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/check.h"

namespace tacit::internal {

std::string_view Name(Simd simd) {
  switch (simd) {
    case Simd::kScalar: return "scalar";
    case Simd::kAvx2: return "avx2";
    case Simd::kAvx512: return "avx512";
  }
  TACIT_CHECK(false);
}

Simd BestSimd() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  return avx2 && avx512 ? Simd::kAvx512 : avx2 ? Simd::kAvx2 : Simd::kScalar;
}

Simd ChooseSimd(const char* wish, Simd best) {
  if (wish == nullptr || *wish == '\0') return best;
  for (Simd simd : kEverySimd)
    if (Name(simd) == wish) return std::min(simd, best);
  std::fprintf(stderr, "TACIT_SIMD = \"%s\": unknown, so ignored; choose scalar, avx2 or avx512\n", wish);
  return best;
}

Simd SimdOfEnvironment() { return ChooseSimd(std::getenv("TACIT_SIMD"), BestSimd()); }

}  // namespace tacit::internal
