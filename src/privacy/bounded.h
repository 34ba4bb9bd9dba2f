#pragma once

// Bounded: a private vector whose dependence on one unit of privacy is bounded by construction.
#include <optional>

#include "core/private.h"
#include "core/units.h"
#include "data/dataset.h"
#include "models/objective.h"

namespace tacit {

// One thread's scratch for clipping. It holds private intermediate values and has no door: only
// Bounded, Unbounded and Mechanism see inside.
class ClipSpace {
 private:
  friend class Bounded;
  friend class Unbounded;
  friend class Mechanism;
  Workspace work_;
  Vec norm_, weight_, sum_, term_;
};

// What one unit of privacy is in a sum.
struct SumUnit {
  std::size_t terms = 1;        // at most so many terms of the sums of all clients belong to one unit
  bool person = false;          // neighbours may differ in how many terms a client has
};

// v = Σ over units of a term with ‖term‖₂ ≤ C. Refers to the ClipSpace (or vector) it was made in
// and is valid until that is used again.
//
// Why the sensitivity holds in floating point. Each term is scaled by a weight w ≤ C/norm, rounded
// down, where norm is at least the term's real length; so in real arithmetic the terms are in the
// ball. A coordinate of the computed sum differs from the real one by at most γ_k Σ|terms|,
// γ_k = k·u/(1 − k·u), u = 2⁻⁵³, k the number of roundings on a term's way, for any order of
// summation. In ℓ₂ that is at most γ_k·m·C on either of two neighbouring inputs, hence
//   Δ_float ≤ Δ + 2·γ_k·m·C.
//
// Persons. If at most n terms, over all clients, belong to a person, then N = 2n terms change when a person
// is replaced (N = n if they come or go), n_i of them at client i. What all clients together release in a
// round moves by at most √(Σ n_i²)·C + √A·e, where A clients are touched and e is what one client pays for
// floating point and lattice. With e ≤ C that is at most N·C + e, however the terms are spread (proof:
// docs/privacy.md, Persons). So each client charges N·C + e, and the largest account bounds any person.
class Bounded {
 public:
  // One vector (a client's whole contribution), projected on the ball in place: v·min(1, C/‖v‖).
  // A vector whose norm is not finite becomes 0.
  static Bounded Clip(Private<Vec>& v, L2Bound c);

  // Σ_l clip_C(∇f_l(x)) over the records of a client. A record whose gradient is longer than 2⁵⁰⁰, or
  // cannot be measured, contributes 0. Where the data set bounds persons by their sum, the terms are
  // clip_C(Σ_{l of p} ∇f_l(x)) over the persons p of the client.
  static Bounded ClippedSum(const Private<Shard>& data, const Objective& f, View x, L2Bound c, ClipSpace&);

  // Upper bound on ‖v(D) − v(D′)‖₂ over neighbours, floating-point errors included.
  L2Bound Sensitivity(Adjacency) const;
  L2Bound bound() const { return bound_; }
  std::size_t dim() const { return value_.size(); }

  // The same number without data: for planning.
  static L2Bound Sensitivity(Adjacency, L2Bound c, std::size_t terms, std::size_t roundings,
                             SumUnit unit = {});

 private:
  friend class Mechanism;
  friend class LocalRandomizer;
  friend class Unbounded;
  Bounded(Span value, L2Bound bound, std::size_t terms, std::size_t roundings, SumUnit unit = {})
      : value_(value), bound_(bound), terms_(terms), roundings_(roundings), unit_(unit) {}
  static Bounded SumByPerson(const Shard&, const Objective& f, View x, L2Bound c, ClipSpace&);
  Span value_;
  L2Bound bound_;
  std::size_t terms_, roundings_;
  SumUnit unit_;
};

// Σ_l ∇f_l(x) as a paper forms it: nothing is clipped. It leaves only through the paper's door. If
// the objective has a public bound on every record's gradient (from the row bound that preprocessing
// enforced), the value is in fact bounded and the ledger charges by that bound; otherwise it charges ∞.
class Unbounded {
 public:
  static Unbounded Sum(const Private<Shard>& data, const Objective& f, View x, ClipSpace&);
  std::size_t dim() const { return value_.size(); }
  std::optional<L2Bound> Sensitivity(Adjacency) const;

 private:
  friend class Mechanism;
  Unbounded(Span value, std::optional<L2Bound> bound, std::size_t units, std::size_t roundings)
      : value_(value), bound_(bound), units_(units), roundings_(roundings) {}
  Span value_;
  std::optional<L2Bound> bound_;
  std::size_t units_, roundings_;
};

}  // namespace tacit
