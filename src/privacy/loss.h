#pragma once

// The privacy loss L = log(P/Q) of one release under P, as a contour integral needs it: its moment
// generating function on vertical lines, with bounds for everything that is not exact.
//
//   M(z) = E_P[e^{zL}; L < ∞],  K = log M.
//
// Composition adds K; see saddle_point.h. Proofs: docs/accounting.md, "Bounds of the contour integral".
#include <complex>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/units.h"

namespace tacit {

// K(t) with |K(t) − value| ≤ error; K′ and K″ to a few digits, for steering only.
struct Cumulants {
  double value = 0, error = 0, first = 0, second = 0;
};

// L under the measure proportional to e^{cL} P, finite losses only.
class TiltedLoss {
 public:
  virtual ~TiltedLoss() = default;
  // ψ(s) − 1 at s = (first + k)·h for all k, ψ(s) = E e^{is(L − centre)}, each off by at most the bound
  // returned; ∞ where the line is too long to be resolved. The difference, because ψ is near 1 where there
  // are many rounds, and its error there is relative to |ψ − 1|.
  virtual double Characteristic(double h, std::size_t first, std::span<std::complex<double>> psi_less_1) = 0;
  // A bound of |ψ| on [s, ∞); `aim` is a value worth reaching, nothing is lost by a wrong one.
  virtual double Beyond(double s, double aim) = 0;
  virtual std::size_t size() const { return 1; }  // terms of a value of ψ now
  // |ψ| ≤ floor + Smooth(s) on [s, ∞), s > 0; variation/s at most. If the floor is due to L = 0 alone, `atom`
  // is the probability of that with its relative error, else 0, and Smooth bounds |ψ − atom|.
  virtual double Smooth(double s) { return variation / s; }
  double floor = 1, variation = 0, atom = 0, atom_error = 0;
  double centre = 0;
  Cumulants cumulants;  // at c
};

// Losses rounded to a grid: step·(first + j) − shift with probability mass[j]; see grid.h.
struct GridMass {
  std::ptrdiff_t first = 0;
  std::vector<double> mass;
  double shift = 0;
  double infinite = 0;  // probability left out above
  double error = 0;  // of every mass, relatively
};

class Loss {
 public:
  virtual ~Loss() = default;
  virtual Cumulants At(double t) const = 0;  // for t ≥ 0
  virtual std::unique_ptr<TiltedLoss> Tilt(double c) const = 0;
  // A bound of the loss on the grid, from above or below; nullopt where there is none.
  virtual std::optional<GridMass> OnGrid(double /*step*/, bool /*upper*/) const { return std::nullopt; }
  // This loss with all values above some `top` counted as ∞ by OnGrid (as nothing when the bound is from
  // below), so chosen that they have about this probability; At is then to a few digits, and there is no
  // contour. nullptr where nothing would be gained.
  virtual std::shared_ptr<const Loss> Capped(double /*probability*/) const { return nullptr; }
};

// P = (1 − q) N(0, 1) + q N(μ, 1) against Q = N(0, 1): one unit removed from a Poisson sample; 0 < q < 1, μ >
// 0.
std::unique_ptr<Loss> PoissonRemoveLoss(double q, double mu);
// The same pair the other way round: one unit added.
std::unique_ptr<Loss> PoissonAddLoss(double q, double mu);
// The pair with δ(ε) = q δ_μ(log(1 + (e^ε − 1)/q)) for ε ≥ 0 and symmetric losses, which dominates sampling
// with substitution: L = ±ℓ(x) with densities as above for x > μ/2, and an atom at 0.
std::unique_ptr<Loss> SubstitutionLoss(double q, double mu);
// Laplace noise, ε = sensitivity/scale: atoms at ±ε, a density e^{(L − ε)/2}/4 between.
std::unique_ptr<Loss> LaplaceLoss(double epsilon);

// Losses on a lattice: step·(first + k) with probability mass[k]. The step is good to a relative 2⁻⁵¹.
struct LatticeLoss {
  double step = 0;
  double first = 0;  // a multiple of ½
  std::vector<double> mass;
  double infinite = 0;  // probability of L = ∞, at most
  double infinite_lower = 0;  // and at least
  double mass_error = 0x1p-48;  // of every mass, relatively
};
std::unique_ptr<Loss> AtomsLoss(LatticeLoss);

LatticeLoss ResponseLattice(double epsilon, double plus, double zero, double minus);  // ±ε and 0
LatticeLoss ApproximateLattice(double epsilon, double delta);  // (ε, δ)-DP (Kairouz, Oh, Viswanath 2015)
LatticeLoss DiscreteLaplaceLattice(double epsilon_per_step, std::uint32_t sensitivity);
LatticeLoss DiscreteGaussianLattice(double sigma, std::uint32_t sensitivity);

}  // namespace tacit
