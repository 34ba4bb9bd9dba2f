#pragma once

// δ(ε) of a composition on a grid of losses, for the few rounds and the slowly decaying transforms that a
// contour integral is not made for. Losses are rounded to the grid so that both curves bound the true one:
//  * above: the mass of a cell goes to its two ends, with P and Q kept (connect the dots, Doroshenko et al.
//  2022);
//  * below: the mass of a cell goes to one point that keeps P and Q, and from there down to the grid less a
//  shift; or to the cell's two ends by shares that leave every point at least its loss.
// Sums are formed by a Fourier transform of the tilted masses, so that round-off is relative to the tail that
// is asked for. Proofs: docs/accounting.md, "Rounding losses to a grid".
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "privacy/gdp.h"
#include "privacy/saddle_point.h"

namespace tacit {

class GridCurve {
 public:
  // nullopt if a term cannot be put on a grid, or the window is hopeless. `cells` is a power of two.
  static std::optional<GridCurve> Make(const Composition&, double tilt, bool upper, std::size_t cells);
  // A bound of the part of δ(ε) from finite losses and, when `upper`, of what the grid left out: from above
  // or from below as made, for every ε ≥ 0.
  double DeltaAt(double epsilon) const;

 private:
  bool upper_ = true;
  double step_ = 0, offset_ = 0;  // the loss of cell j is step·j + offset
  double first_ = 0;  // of the window
  std::vector<double> mass_;  // tilted, of the window's cells
  double tilt_ = 0, log_scale_ = 0;
  double entry_error_ = 0;  // of a mass
  double relative_ = 0;  // of all masses together
  double lost_ = 0;  // probability that is not in the window, or infinite
  double outside_ = 0;  // tilted mass that may have been wrapped into the window
};

}  // namespace tacit
