#include "privacy/transform.h"

#include <bit>

// One thread, and few plans kept: one of a million points takes 16 MB. There are no vectors of long doubles,
// and memory for them would be asked for in a way that ISO C leaves open (aligned_alloc of an odd size).
#define POCKETFFT_NO_MULTITHREADING
#define POCKETFFT_NO_VECTORS
#define POCKETFFT_CACHE_SIZE 4
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"      // g++ 12 loses track of a work array in there
#endif
#include <gemmi/third_party/pocketfft_hdronly.h>

namespace tacit {
namespace {

constexpr auto kReal = static_cast<std::ptrdiff_t>(sizeof(Wide));
constexpr auto kComplex = static_cast<std::ptrdiff_t>(sizeof(Complex));

// clang-tidy would walk into the library and lose track of the same array.
#ifdef __clang_analyzer__
constexpr bool kCall = false;
#else
constexpr bool kCall = true;
#endif

}  // namespace

Wide Transform::error() const { return 12 * kEps * static_cast<Wide>(std::bit_width(size_ - 1)); }

std::vector<Complex> Transform::Forward(const std::vector<Wide>& x) const {
  std::vector<Complex> out(size_ / 2 + 1);
  if constexpr (kCall)
    pocketfft::r2c<Wide>({size_}, {kReal}, {kComplex}, 0, pocketfft::FORWARD, x.data(), out.data(), 1);
  return out;
}

std::vector<Wide> Transform::Backward(const std::vector<Complex>& x) const {
  std::vector<Wide> out(size_);
  if constexpr (kCall)
    pocketfft::c2r<Wide>({size_}, {kComplex}, {kReal}, 0, pocketfft::BACKWARD, x.data(), out.data(), 1);
  return out;
}

}  // namespace tacit
