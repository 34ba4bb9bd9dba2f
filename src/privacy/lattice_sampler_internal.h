#pragma once

// The parts of the lattice sampler that its tests attack one by one.
#include <cstdint>
#include <span>

#include "core/rng.h"
#include "privacy/lattice_sampler.h"
#include "privacy/lattice_sampler_kernels.h"

namespace tacit::internal {

// Bounds on |computed z − true z| of tiers 1 and 2. Larger ones are safe and slower (∞: never
// accept); smaller ones than Certified() make the sampler wrong, which the tests must notice.
struct LatticeBounds {
  double fast, second;
  static LatticeBounds Certified(double c = 1);
};

// Where bits beyond the first 64 come from.
class MoreBits {
 public:
  virtual ~MoreBits() = default;
  virtual std::uint64_t Next() = 0;
};

class FromGenerator final : public MoreBits {
 public:
  explicit FromGenerator(NoiseRng& rng) : rng_(rng) {}
  std::uint64_t Next() override { return rng_.Bits(); }

 private:
  NoiseRng& rng_;
};

struct LatticeDraw {
  std::int64_t k;
  int tier;  // 1, 2 or 3
};

// One deviate from its first word (sign, then the 63 leading bits of 2p) and what follows it.
LatticeDraw DrawLattice(double c, LatticeBounds, std::uint64_t word, MoreBits&);

// LatticeNormals by a kernel of choice, which the processor must have.
void LatticeNormalsBy(Simd, double c, NoiseRng&, std::span<std::int64_t> out, LatticeCounters* = nullptr);

// The deviate of a first word and the next, in double precision: where tier 1 knows nothing.
double TailNormal(std::uint64_t word, std::uint64_t next);

// Stops the process in any other rounding mode: every bound here assumes this one.
void RequireRoundingToNearest();

}  // namespace tacit::internal
