#pragma once

// Second-order models with a cubic term, and two ways to minimise them:
//   φ(v) = ⟨g, v⟩ + ½⟨v, Hv⟩ + (M/6)‖v‖³
//   Nesterov, Polyak: Cubic regularization of Newton method and its global performance (Math. Prog. 2006).
// SolveCubic finds the minimiser itself. GmStep is one step of the solver of DP-FCRN (Huo, Liu, Ding,
// Johansson, Shi: Federated cubic regularized Newton learning with sparsification-amplified differential
// privacy), which needs gradients of φ alone and so can make do with noisy ones.
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/vec.h"
#include "data/dataset.h"
#include "models/objective.h"

namespace tacit {

// The global minimiser of φ for a symmetric H (k × k, row-major; the lower triangle is read), which may be
// indefinite, and M > 0. With λ = (M/2)‖v‖ it is characterised by (H + λI) v = −g and H + λI ⪰ 0, so λ is the
// root of the secular equation ‖(H + λI)⁻¹g‖ = 2λ/M to the right of max(0, −λ_min(H)). In the hard case,
// where g has no part along the eigenvectors of λ_min(H) < 0 and there is no such root, λ = −λ_min(H) and v
// is completed along one of them; either sign is a minimiser, and the one with a first entry ≥ 0 is returned.
// All entries must be finite.
struct CubicMinimum {
  Vec v;
  double lambda = 0;  // (M/2)‖v‖
  bool hard = false;
};
CubicMinimum SolveCubic(View g, View h, double m);

// φ(v) and ∇φ(v), for tests and to see how far a solver got.
double CubicValue(View g, View h, double m, View v);
void CubicGradient(View g, View h, double m, View v, Span out);

// Public constants of the solver. Its variable v = θ − x lives on some coordinates of the model x.
struct GmOptions {
  double curvature = 1;  // μ: step sizes η_s = 2/(μ(s + 2))
  double cubic = 0;  // M
  double l2 = 0;  // θ of the regulariser (θ/2)‖x + v‖², which is public and so is added without noise
  double box = std::numeric_limits<double>::infinity();  // x + v stays in [−box, box]^k
};

// Where the solver stands: a function of public constants and the gradients it was given.
struct GmState {
  Vec v;  // θ_s − x
  Vec mean;  // Σ_{j≤s} 2(j + 1)/((s + 1)(s + 2)) v_j
  std::uint32_t s = 0;  // steps made
  void Start(std::size_t k) {
    v.assign(k, 0.0);
    mean.assign(k, 0.0);
    s = 0;
  }
};

// One step: v ← Π(v − η_s(r + θ(x + v) + (M/2)‖v‖v)), r the data's part of the gradient of φ at v, with noise
// or without. The weighted mean of the paper is kept online, z_s = ρ_s v_s + (1 − ρ_s) z_{s−1} with
// ρ_s = 2/(s + 2), from z_0 = v_0 = 0 on. (Remark 1 of the paper prints ρ_s = 2/(s + 1), which is another
// mean.) Of τ steps the last one does not enter the mean that is returned, so whoever wants the mean over
// θ_0 … θ_{τ−1} makes τ − 1 steps; with τ = 1 the answer is x itself.
void GmStep(View r, View x, const GmOptions&, GmState&);

// The second-order models of some records of a model with one margin a record, at a public point, on k
// public coordinates:  q_l(v) = s_l aᵀv + ½ c_l (aᵀv)²,  with gradient (s_l + c_l aᵀv)·a and Hessian c_l aaᵀ,
// where a is the row on those coordinates. A product with a Hessian costs O(k). A row that is not finite, or
// longer than 2⁴⁰⁰, has q_l = 0.
struct Quadratics {
  std::size_t k = 0;
  Vec row;  // records × k
  Vec norm;  // ≥ ‖a_l‖₂ in real arithmetic
  Vec slope, curvature;
  Workspace work;
  std::size_t size() const { return norm.size(); }

  // coefficient[l] = s_l + c_l a_lᵀv, and norm_out[l] ≥ |coefficient[l]|·‖a_l‖; not finite if a factor is
  // not.
  void Gradients(View v, Span coefficient, Span norm_out) const;
  // g ← g + Σ weight[l]·coefficient[l]·a_l; what has weight 0 contributes nothing.
  void AddGradients(View weight, View coefficient, Span g) const;
  // ‖c_l a_l a_lᵀ‖_F, bounded from above.
  void HessianNorms(Span norm_out) const;
  // h ← h + Σ weight[l] c_l·Packed(a_l a_lᵀ); likewise.
  void AddHessians(View weight, Span h) const;
  // Roundings on a term's way into a sum over so many records: the coefficient, the row's product, which may
  // be of three factors, and the additions in any order.
  static std::size_t Roundings(std::size_t records) { return records + 6; }
};

// A symmetric matrix as a vector whose length is its Frobenius norm: the lower triangle by rows, with what is
// off the diagonal times √2.
inline std::size_t PackedSize(std::size_t k) { return k * (k + 1) / 2; }
void Unpack(View packed, std::size_t k, double scale, Span h);  // all of h, k × k

// The models of the records `sample` of a shard at x, on the coordinates `mask` (ascending; empty: all). For
// objectives that have curvatures (Objective::Curvatures).
void MakeQuadratics(const Shard& all, Quadratics& out, const std::vector<std::uint32_t>& sample,
                    const Objective& f, const View& x, const std::vector<std::uint32_t>& mask);

// The solver's mean after τ − 1 steps without noise on the model of one record, ⟨s a, v⟩ + ½c(aᵀv)². All v_s
// lie in the plane of a and x, so their two coordinates are iterated instead: O(k + τ). Where an iterate
// might leave the box the steps are made one by one: O(kτ).
void GmSolveRecord(View a, double slope, double curvature, View x, const GmOptions&, std::uint32_t tau,
                   GmState&);

}  // namespace tacit
