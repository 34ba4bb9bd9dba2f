#pragma once

// round(N(0, 1)·c) for c = σ/g, correctly rounded: every integer k is drawn with exactly
// Φ((k + ½)/c) − Φ((k − ½)/c), as if the deviate had infinitely many digits.
//
// Added to a vector of multiples of g, it equals rounding (vector + N(0, σ²I)) to the grid: a
// post-processing of the Gaussian mechanism, so no low bits leak (Mironov, CCS 2012; Jin et al.,
// S&P 2022; Haney et al., 2022).
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/check.h"
#include "core/rng.h"

namespace tacit {

// σ/g for the largest power of two g = 2^grid_exponent ≤ σ·2^-30; in [2^30, 2^31), exact.
struct LatticeScale {
  double c;
  int grid_exponent;
  // 2^-1000 ≤ σ ≤ 2^1000 (about 1e-301 to 1e301), so that g and every k·g is a double without
  // overflow; anything else is a programmer's error.
  static LatticeScale For(double sigma) {
    TACIT_CHECK(sigma >= 0x1p-1000 && sigma <= 0x1p1000);
    // σ = 1.f·2^e, a normal double: c = 1.f·2^30, g = 2^(e − 30).
    const auto bits = std::bit_cast<std::uint64_t>(sigma);
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
    return {std::bit_cast<double>(fraction | std::uint64_t{1023 + 30} << 52),
            static_cast<int>(bits >> 52) - 1023 - 30};
  }
};

struct LatticeCounters {       // how often each tier decided; for tests and benchmarks
  std::uint64_t fast = 0, second = 0, exact = 0;
};

// Fills out with independent deviates; 1 ≤ c ≤ 2^40. |out[i]| < 32·c but for a probability of 2^-740.
// Uses the generator only; the result is a function of its state, c and out.size(), the same on every
// processor. For c < 2^31 one value in about 2000 takes longer (from 2^36 on every tenth, at 2^40
// almost every second), and which ones depends on the noise: draw it before the data is touched, so
// that the time says nothing about the sum.
void LatticeNormals(double c, NoiseRng&, std::span<std::int64_t> out, LatticeCounters* = nullptr);

namespace internal {
// Forks that this process descends from, counted from the first stock on; raw clone(2) is not seen.
inline std::atomic<std::uint64_t> lattice_forks{0};
}  // namespace internal

// Deviates drawn ahead, for releases of few coordinates: many at once take less time each. A deviate is
// handed out once and erased then; one that is not asked for before c changes is erased and never seen. From
// a generator with entropy only: of a replayable one every release has the stream that its id names, and gets
// exactly the deviates of LatticeNormals. What was drawn before a fork() is dropped by the child. Not
// thread-safe.
class LatticeStock {
 public:
  LatticeStock() = default;
  LatticeStock(const LatticeStock&) noexcept {}  // a copy is empty: no deviate is had twice
  LatticeStock& operator=(const LatticeStock&) noexcept {
    Drop();
    return *this;
  }
  ~LatticeStock() { Drop(); }

  // Fills out with independent deviates, as LatticeNormals does.
  void Take(double c, NoiseRng& rng, std::span<std::int64_t> out) {
    if (out.size() <= kLongest && !rng.replayable()) {
      if (c != c_ || forks_ != internal::lattice_forks.load(std::memory_order_relaxed)) [[unlikely]]
        Begin(c);
      if (end_ - next_ < out.size()) [[unlikely]]
        out = Refill(rng, out);
      return Hand(out);
    }
    LatticeNormals(c, rng, out);
  }
  // The same without a copy: use(deviates) where they lie in the stock, which has them no more after; in
  // `room`, which is as long, where the stock cannot give so many.
  template <class Use>
  void Lend(double c, NoiseRng& rng, std::span<std::int64_t> room, Use use) {
    if (room.size() <= kLongest && c == c_ && end_ - next_ >= room.size() && !rng.replayable() &&
        forks_ == internal::lattice_forks.load(std::memory_order_relaxed)) [[likely]] {
      std::int64_t* const from = value_.data() + next_;
      next_ += room.size();
      use(from);
      Erase(from, room.size());
      return;
    }
    Take(c, rng, room);
    use(room.data());
  }

 private:
  static constexpr std::size_t kMost = 1024, kLongest = 64;  // releases of more have no use for a stock
  void Begin(double c);
  // What is left goes first; draws more than is asked for, and returns what is to be filled yet.
  std::span<std::int64_t> Refill(NoiseRng&, std::span<std::int64_t> out);
  static void Erase(std::int64_t* from, std::size_t n) {
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) std::memset(from + i, 0, 32);  // of one size: no calls
    for (; i < n; ++i) from[i] = 0;
  }
  void Hand(std::span<std::int64_t> out) {
    std::int64_t* const from = value_.data() + next_;
    next_ += out.size();
    std::size_t i = 0;
    for (; i + 4 <= out.size(); i += 4) std::memcpy(&out[i], from + i, 32);
    for (; i < out.size(); ++i) out[i] = from[i];
    Erase(from, out.size());
  }
  void Drop();
  std::array<std::int64_t, kMost> value_{};  // those from next_ to end_ are not handed out yet
  std::size_t next_ = 0, end_ = 0;
  std::size_t ahead_ = 0;  // how many to draw next time: twice as many each time, from none on
  double c_ = 0;
  std::uint64_t forks_ = 0;
};

// The kernel that this and FloatNormals run: "scalar", "avx2" or "avx512", the best the processor has
// unless the environment variable TACIT_SIMD names a lesser one. All give the same values.
std::string_view SamplerKernel();

}  // namespace tacit
