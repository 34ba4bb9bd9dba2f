#pragma once

// The door for a client's whole vector by pure ε: its direction by PrivUnit, its length by ScalarDP (fedexp,
// appendix D). Pays first, like mechanism.h. What leaves is (Ĵ, v): a level and a vector of integers; anybody
// can compute the estimate c = r̂·V/m from them, with E[c] = the clipped vector.
//
// The guarantee holds for any two data sets of the client, so for each adjacency alike: no factor 2, and none
// to save. Both events are charged at once.
//
// Unbiased up to rounding: the grid and the lattice move E[V] by at most about 2⁻³⁰ per coordinate, and the
// clip's own effect is that of the clip.
#include <cstdint>
#include <vector>

#include "core/private.h"
#include "core/vec.h"
#include "privacy/bounded.h"
#include "privacy/ledger.h"
#include "privacy/priv_unit.h"
#include "privacy/scalar_dp.h"

namespace tacit {

using GridVec = std::vector<std::int32_t>;  // V·2^PrivUnit::kGridBits

// Thread-safe: keeps no state.
class LocalRandomizer {
 public:
  LocalRandomizer(PrivUnit direction, ScalarDp length) : direction_(direction), length_(length) {}

  // Pay, draw, open. On refusal nothing is drawn, opened or changed.
  Status Release(const Bounded&, Ledger&, NoiseRng&, PrivUnitSpace&, Released<std::uint32_t>& level,
                 Released<GridVec>& v) const;

  // c = r̂·V/m, free of charge.
  void Estimate(const Released<std::uint32_t>& level, const Released<GridVec>& v, Released<Vec>& c) const;
  // ŝ, an estimate of the squared length that is not too large in the mean.
  double SquareEstimate(const Released<std::uint32_t>& level) const { return length_.SquareEstimate(*level); }

  const PrivUnit& direction() const { return direction_; }
  const ScalarDp& length() const { return length_; }
  std::string_view caveat() const { return direction_.caveat(); }
  // E‖c‖² for a vector of length r: (r² + Var r̂)/m².
  double SecondMoment(double r) const;
  // Information sent: 32 bits a coordinate and ⌈log₂(k + 1)⌉ for the level. A frame takes whole numbers.
  std::uint64_t bits() const { return direction_.bits() + length_.bits(); }

 private:
  PrivUnit direction_;
  ScalarDp length_;
};

}  // namespace tacit
