#pragma once

// round(N(0, 1)·c) for c = σ/g, correctly rounded: every integer k is drawn with exactly
// Φ((k + ½)/c) − Φ((k − ½)/c), as if the deviate had infinitely many digits.
#include <cstdint>
#include <span>

#include "core/rng.h"

namespace tacit {

// σ/g for the largest power of two g = 2^grid_exponent ≤ σ·2^-30; in [2^30, 2^31), exact.
struct LatticeScale {
  double c;
  int grid_exponent;
  static LatticeScale For(double sigma);
};

struct LatticeCounters {       // how often each tier decided; for tests and benchmarks
  std::uint64_t fast = 0, second = 0, exact = 0;
};

// |out[i]| < 2^36. Uses the generator only.
void LatticeNormals(double c, NoiseRng&, std::span<std::int64_t> out, LatticeCounters* = nullptr);

}  // namespace tacit
