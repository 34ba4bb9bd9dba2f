#pragma once

// Which vector instructions kernels run that exist for more than one instruction set. All of a kernel's
// versions give the same bits; which one runs is a question of speed only.
#include <string_view>

namespace tacit::internal {

enum class Simd { kScalar, kAvx2, kAvx512 };
inline constexpr Simd kEverySimd[] = {Simd::kScalar, Simd::kAvx2, Simd::kAvx512};

std::string_view Name(Simd);  // "scalar", "avx2", "avx512"
Simd BestSimd();              // what the processor and the operating system offer

// The one named, or the best one up to it that the processor has; best for null, "" and unknown names.
Simd ChooseSimd(const char* wish, Simd best);
Simd SimdOfEnvironment();  // ChooseSimd of the environment variable TACIT_SIMD
// The same, fixed at the first call; here, since every kernel asks.
inline Simd SimdInUse() {
  static const Simd simd = SimdOfEnvironment();
  return simd;
}

}  // namespace tacit::internal
