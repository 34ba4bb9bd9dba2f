#pragma once

// δ(ε) of a composition, by an integral through the saddle point (Alghamdi, Asoodeh, Calmon, Gomez, Kosut,
// Sankar 2023): with K the sum of the K of all releases and any c > 0,
//
//   δ(ε) = (1/2πi) ∫_{c−i∞}^{c+i∞} e^{K(z) − zε}/(z(z + 1)) dz.
//
// The trapezoid rule with step h gives Σ_n δ(ε + 2πn/h) e^{2πnc/h}, n = 0 being what is asked for and all
// others positive; Chernoff's bound limits them. What is cut off is limited by the decay of the transform,
// and round-off is followed through. The work does not grow with the number of rounds.
//
// Proofs: docs/accounting.md.
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "core/result.h"
#include "privacy/gdp.h"
#include "privacy/loss.h"

namespace tacit {

class RenyiCurve;

// Independent releases with parameters fixed in advance.
struct Composition {
  struct Term {
    std::shared_ptr<const Loss> loss;
    double count;  // a whole number
  };
  std::vector<Term> terms;
  double mu_squared = 0;  // of all Gaussian releases together
  // What is known of by Rényi curves alone; only RenyiDelta and RenyiEpsilon see it.
  struct Imported {
    std::shared_ptr<const RenyiCurve> curve;
    double count;
  };
  std::vector<Imported> imported;
};

// K of the whole composition.
Cumulants At(const Composition&, double t);

// Where to integrate: a tilt, and roughly the ε that it is for.
struct Start {
  double tilt, epsilon;
};
Start StartForDelta(const Composition&, double log_delta);
double TiltForEpsilon(const Composition&, double epsilon);

// The curve near one tilt: after 10⁵ operations or more a value costs a few for every node. Encloses the part
// of δ(ε) that comes from finite losses, for every ε ≥ 0; the interval is narrow for ε near the tilt's.
class Contour {
 public:
  // `nodes` at most. Where the transform decays too slowly for them the intervals are wide. log_delta is log
  // δ(ε) where that is known roughly: what is left out is made small compared with it.
  static Contour Make(const Composition&, double tilt, double epsilon, std::size_t nodes,
                      double log_delta = std::numeric_limits<double>::infinity());
  Interval DeltaAt(double epsilon) const;
  // What was cut off, in units of e^{K(c) − cε}.
  double truncation() const { return truncation_; }
  bool complete() const { return complete_; }  // more nodes would not help
  std::size_t size() const { return node_.size(); }
  double period() const { return h_ > 0 ? 6.283185307179586 / h_ : 0; }

 private:
  std::vector<std::complex<double>> node_;  // the integrand over e^{K(c) − cε} at epsilon_, both halves
  double epsilon_ = 0;
  double error_ = 0, size_ = 0, moment_ = 0;  // Σ of the nodes' errors, moduli and moduli·s
  double c_ = 0, h_ = 0;
  double log_scale_ = 0, log_scale_error_ = 0;  // K(c)
  double atom_ = 0;  // what is subtracted from every value: losses that are 0 for certain
  bool complete_ = false;
  double truncation_ = 0;  // absolute, in units of e^{K(c) − cε}
  struct Chernoff {
    double t, log_bound;  // K(t) + log κ(t), rounded up
  };
  Chernoff above_{}, below_{};
};

// min over t of e^{K(t) − tε} κ(t), κ(t) = t^t/(1 + t)^{1+t}: at least the part of δ(ε) from finite losses
// (Canonne, Kamath, Steinke 2020, from Rényi divergences), and the ε at which it reaches δ.
double LogChernoff(const Composition&, double t, double epsilon);  // log of the value at one t
double RenyiDelta(const Composition&, double epsilon, double rho = 0);
double RenyiEpsilon(const Composition&, double delta, double rho = 0);

}  // namespace tacit
