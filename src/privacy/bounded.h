#pragma once

// Bounded: a private vector whose dependence on one unit of privacy is bounded by construction.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/private.h"
#include "core/units.h"
#include "data/dataset.h"
#include "models/cubic.h"
#include "models/objective.h"

namespace tacit {

// One thread's scratch for clipping. It holds private intermediate values and has no door: only
// Bounded, Unbounded and Mechanism see inside.
class ClipSpace {
 private:
  friend class Bounded;
  friend class Unbounded;
  friend class Mechanism;
  // sum_ ← Σ_l clip_c(∇f_l(x)), by norms and weights.
  void SumByNorms(const Shard&, const Objective&, View x, L2Bound c);
  Workspace work_;
  Vec norm_, weight_, sum_, term_;
};

// What one unit of privacy is in a sum.
struct SumUnit {
  std::size_t terms = 1;        // at most so many terms of the sums of all clients belong to one unit
  bool person = false;          // neighbours may differ in how many terms a client has
  bool operator==(const SumUnit&) const = default;
};

class Entrusted;
class EntrustedSum;

// F(w) = (1/M) Σ_l H_l(w) + (κ/2)‖w‖² − ⟨b, w⟩ over the at most M records of a client, where
// ∇H_l = clip_C(∇f_l). For an objective that clips_to_smooth() this is κ-strongly convex, with a gradient
// that changes by at most L = κ + c R² per unit of length: c = Smoothness(1) of the objective, R = row_bound.
// All of it is public, the number of records too: neighbours have equally many.
struct StrongProblem {
  double records = 1;  // M
  double curvature = 1;  // κ > 0
  View linear;  // b
  View start;  // where the minimisation begins
  double row_bound = 1;  // R: a longer row counts as absent
  std::size_t steps = 100;  // of gradient descent, always as many
  // Steps that bring the minimiser to 2⁻⁵⁰ of the distance of `start` from it.
  static std::size_t StepsFor(double curvature, double smoothness);
  double Smoothness(const Objective&) const;  // L
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

  // The same with one coordinate more, λ‖v‖²: the vector and its squared length, to be released together with
  // the same noise on every coordinate. Two such terms differ by at most 2C·SquareFactor(λC) in all
  // (joint_release.h).
  static Bounded ClipWithSquare(Private<Vec>& v, L2Bound c, double lambda);

  // The same with the coordinate 0 if ‖v‖ ≤ C and −κ if it was clipped (or has no length). Two such terms
  // differ by at most √(4C² + κ²), and one is at most √(C² + κ²) long. v = 0 becomes the null vector: a
  // client that has nothing to say and one that is not there are the same, so the length is also how far a
  // term can be from that of a client without records.
  static Bounded ClipWithIndicator(Private<Vec>& v, L2Bound c, double kappa);

  // What goes to an aggregator whom the clients trust with it: the vector times a public weight, 1 or at most
  // 1 − 2⁻⁵⁰. The bounds stay those of weight 1, and hold for the computed products: each coordinate rounds
  // to no more than it was, so a term is no longer; and two terms, at most 2b apart and 2b long, are then at
  // most w(2b + u·4b) = 2bw(1 + 2u) ≤ 2b apart, u = 2⁻⁵³.
  void Entrust(Entrusted& out, double weight = 1) const;

  // Clip and Entrust at once, with weight 1: nothing is copied or scaled. The vector changes hands, with a
  // factor t ≤ C/‖v‖ that it is multiplied by where it is added; v is left with what `out` held.
  static void ClipAndEntrust(Private<Vec>& v, L2Bound c, Entrusted& out);
  // The same for a vector by its factors (models/entries.h), rows among them: `out` stays in the process.
  // The length is the bound that came with it; t·v is in the ball for the coordinates that are then added.
  static void ClipAndEntrust(Private<FactoredVec>& v, L2Bound c, Entrusted& out);
  // What a client elsewhere sent (wire/frame.h) in place of this, the vector of a client without an update:
  // into `out`, with the bounds of this one. False, and nothing is taken, if it is not of this length, not
  // finite, or longer than a term times its weight can be, roundings included. A client that sends more than
  // it should can harm the model, not others' privacy.
  bool Accept(Private<Vec>& value, double weight, Entrusted& out) const;
  // For the client that needs what it sent: the clipped v again, if the vector changed hands. (After Entrust,
  // v is what it was.)
  static void Recall(const Entrusted& sent, Private<Vec>& v);

  // Σ_l clip_C(∇f_l(x)) over the records of a client. A record that cannot be measured, or whose gradient (of
  // a linear model: row) is longer than 2⁵⁰⁰, contributes 0. Where the data set bounds persons by their sum,
  // the terms are clip_C(Σ_{l of p} ∇f_l(x)) over the persons p of the client.
  static Bounded ClippedSum(const Private<Shard>& data, const Objective& f, View x, L2Bound c, ClipSpace&);

  // Σ_l clip_C(∇q_l(v)) over the second-order models of some records (cubic.h), at most `most` of them, which
  // is public where their number is not; and Σ_l clip_C(∇²q_l), in Frobenius norm, as a packed vector. What
  // cannot be measured, or is longer than 2⁵⁰⁰, contributes 0.
  static Bounded ClippedGradients(const Private<Quadratics>&, std::size_t most, View v, L2Bound c,
                                  ClipSpace&);
  static Bounded ClippedHessians(const Private<Quadratics>&, std::size_t most, L2Bound c, ClipSpace&);

  // A minimiser: the last of `steps` points w ← w − s∇F(w), s = 2/(L + κ), rounded down. A step brings two
  // points together by 1 − sκ, and is moved by at most 2sC/M when a record is replaced; so the last points
  // for two neighbours are at most (2C/M)·s·Σ_i (1 − sκ)^i ≤ 2C/(Mκ) apart, for any number of steps, as the
  // minimisers are. Floating-point errors of a step add 2e/κ, with a public bound e on them; 2⁻²² of the
  // above and what sums of M terms need are charged for them, and where the public values are so large that
  // this would not do (not ArgminHolds), the value is `start`. Rows that are longer than R, and labels beyond
  // 2⁴⁰⁰, contribute 0. For replace-one and zero-out: records that come or go would change M.
  static Bounded Argmin(const Private<Shard>& data, const Objective& f, const StrongProblem&, L2Bound c,
                        ClipSpace&);
  // Whether it is a minimiser: a function of public values.
  static bool ArgminHolds(const Objective& f, const StrongProblem&, L2Bound c);
  // Half of that distance, which its Sensitivity is made of; without data, for planning.
  static L2Bound ArgminBound(L2Bound c, double records, double curvature);

  // Upper bound on ‖v(D) − v(D′)‖₂ over neighbours, floating-point errors included.
  L2Bound Sensitivity(Adjacency) const;
  L2Bound bound() const { return limits_.bound; }
  std::size_t dim() const { return value_.size(); }

  // The same number without data: for planning.
  static L2Bound Sensitivity(Adjacency, L2Bound c, std::size_t terms, std::size_t roundings,
                             SumUnit unit = {});

 private:
  friend class Mechanism;
  friend class LocalRandomizer;
  friend class SecureSum;
  friend class Unbounded;
  friend class EntrustedSum;
  // All that Sensitivity is a function of, beside the adjacency: public.
  struct Limits {
    L2Bound bound;  // half of how far two terms can be apart
    L2Bound length;  // of one term, at most; the same, but for vectors with one coordinate more
    std::size_t terms, roundings;
    SumUnit unit;
    bool minimiser = false;  // no sum of terms: how far neighbours are apart is all that is known
    bool operator==(const Limits&) const = default;
  };
  Bounded(Span value, L2Bound bound, std::size_t terms, std::size_t roundings, SumUnit unit = {})
      : Bounded(value, bound, bound, terms, roundings, unit) {}
  Bounded(Span value, L2Bound bound, L2Bound length, std::size_t terms, std::size_t roundings, SumUnit unit)
      : value_(value), limits_{bound, length, terms, roundings, unit} {}
  static Bounded SumByPerson(const Shard&, const Objective& f, View x, L2Bound c, ClipSpace&);
  Span value_;
  Limits limits_;
  Vec* whole_ = nullptr;  // the vector, where it is a ClipSpace's: a release may take it instead of a copy
};

// The word of a client's operator that a server may see its updates without noise, by the name in the
// server's certificate. Only whoever has it can send what is entrusted to another machine.
class ServerTrust {
 public:
  static ServerTrust Declared(std::string server) { return ServerTrust(std::move(server)); }
  const std::string& server() const { return server_; }

 private:
  explicit ServerTrust(std::string server) : server_(std::move(server)) {}
  std::string server_;
};

// A client's contribution, clipped and not noised, on its way to an aggregator whom the clients trust with
// it. It can be added to others and nothing else; the sum leaves through a Mechanism.
class Entrusted {
 public:
  std::size_t dim() const { return given_ ? value_.size() : 0; }
  void Clear() { given_ = false; }

 private:
  friend class Bounded;
  friend class EntrustedSum;
  friend class Codec;
  FactoredVec value_;
  double factor_ = 1.0;  // the term is factor_·value_, in the ball in real arithmetic
  bool given_ = false;  // false: value_ is only memory to be used again
  bool moved_ = false;  // the client has it no more
  L2Bound bound_{1.0}, length_{1.0};
  double weight_ = 1;  // public, in [0, 1]; in the value already
};

// Σ_i v_i over clients, one term each. The order in which they are added is the runtime's, and fixed.
class EntrustedSum {
 public:
  void Reset() { count_ = 0; }
  void Add(const Entrusted& v);
  void Merge(const EntrustedSum& other) {
    Take(other.total_, 1.0, other.bound_, other.length_, other.count_, other.weight_);
  }
  std::uint32_t count() const { return count_; }
  double weight() const {
    return count_ == 0 ? 0.0 : weight_;
  }  // Σ of the terms' weights: count(), if all are 1
  // A private vector of which every client is one term. Valid until the sum changes; not of nobody.
  Bounded Total();
  // The same where how many took part is secret: at most `most` of them, a public number, and possibly
  // nobody. nothing: what a client without an update would send, which says how long the terms are.
  Bounded Total(std::uint32_t most, const Entrusted& nothing);
  // What the computed sum and squared lengths err by, as roundings of a term's way in Bounded's formula.
  // Terms are at most twice as long as bound(); a squared length errs by γ_{d+3} of at most 2·bound() on
  // either of two neighbours, and a sum over M clients by γ_{M+1} of the terms' lengths: a term is rounded
  // once where it is multiplied by its factor and then in at most M − 1 additions. k = 2(M + 1) + ⌈2(d +
  // 3)/M⌉ pays for both.
  static std::size_t Roundings(std::size_t clients, std::size_t dim);

 private:
  friend class Parcel;
  void Take(const Vec& v, double factor, L2Bound bound, L2Bound length, std::uint32_t count, double weight);
  void Count(L2Bound bound, L2Bound length, std::uint32_t count, double weight);
  Vec total_;
  L2Bound bound_{1.0}, length_{1.0};  // the largest; count from the first term on
  double weight_ = 0;  // so does this
  std::uint32_t count_ = 0;
};

// Σ_l ∇f_l(x) as a paper forms it: nothing is clipped. It leaves only through the paper's door. If
// the objective has a public bound on every record's gradient (from the row bound that preprocessing
// enforced), the value is in fact bounded and the ledger charges by that bound; otherwise it charges ∞.
class Unbounded {
 public:
  static Unbounded Sum(const Private<Shard>& data, const Objective& f, View x, ClipSpace&);
  // The minimiser of StrongProblem with f_l in place of H_l.
  static Unbounded Argmin(const Private<Shard>& data, const Objective& f, const StrongProblem&, ClipSpace&);
  // Any private vector, of which nothing is known; what is not finite becomes 0, in place. The std of the
  // noise on it is multiplied by a private number, as papers have it whose noise follows the objective: then
  // not even how much noise there is may be known. Costs ∞.
  static Unbounded Of(Private<Vec>& v, const Private<double>& spread);
  std::size_t dim() const { return value_.size(); }
  std::optional<L2Bound> Sensitivity(Adjacency) const;

 private:
  friend class Mechanism;
  Unbounded(Span value, std::optional<L2Bound> bound, std::size_t units, std::size_t roundings)
      : value_(value), bound_(bound), units_(units), roundings_(roundings) {}
  Span value_;
  std::optional<L2Bound> bound_;
  std::size_t units_, roundings_;
  double spread_ = 1;  // private; 1 wherever there is a bound
};

}  // namespace tacit
