#pragma once

// The discrete Gaussian on the integers: k with probability e^{−k²/2σ²} / Σ_j e^{−j²/2σ²}, exactly, as if
// arithmetic had infinitely many digits.
//
// It is ½·(Δ/σ)²-zCDP for integer queries of ℓ2 sensitivity Δ (Canonne, Kamath and Steinke, NeurIPS
// 2020), though its (ε, δ) curve is not the Gaussian's; unlike a rounded Gaussian, sums of independent
// ones are nearly of the same kind (Kairouz, Liu and Steinke, ICML 2021), which is what a sum of
// clients' noise needs. A single party's release is served better by lattice_sampler.h.
//
// σ ≤ 16: a table of P(|K| ≥ j)·2^63, rounded down exactly; a draw that ties with an entry is decided by
// further bits. σ > 16: a correctly rounded normal deviate, accepted with probability
// e^{−k²/2σ²}/P(rounded = k)·constant, which is 1 − O(1/σ²); see the source for the proof.
#include <cstdint>
#include <memory>
#include <span>

#include "core/rng.h"

namespace tacit {

namespace internal {
struct TailTable;
}

// Decisions taken by 64 bits, by MPFR, and those of the latter that rejected, so that fast + exact −
// rejected values were returned; for tests and benchmarks.
struct DiscreteCounters {
  std::uint64_t fast = 0, exact = 0, rejected = 0;
};

// Immutable, so thread-safe; copies share the table.
class DiscreteGaussian {
 public:
  // 2^-6 ≤ σ ≤ 2^40; anything else is a programmer's error. Takes about a millisecond for σ ≤ 16.
  explicit DiscreteGaussian(double sigma);
  double sigma() const { return sigma_; }

  // Independent draws; a function of the generator's state, σ and out.size(), the same on every
  // processor. Some take longer, depending on their value: draw before the data is touched.
  void Fill(NoiseRng&, std::span<std::int64_t> out, DiscreteCounters* = nullptr) const;

 private:
  double sigma_;
  std::shared_ptr<const internal::TailTable> table_;  // σ ≤ 16 only
};

}  // namespace tacit
