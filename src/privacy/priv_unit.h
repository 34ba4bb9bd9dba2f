#pragma once

// PrivUnit (Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018): a private unit vector. Near the direction u of
// the input, in the cap {v : ⟨v, u⟩ ≥ γ}, all V are equally likely, elsewhere too, and the two densities have
// the ratio e^ε. So any two inputs whatever are ε-indistinguishable, and Z = V/m has the mean u:
//   m = E⟨V, u⟩ = K (p − q)/(q(1 − q)),   p = P(V in the cap), q = the cap's measure, K as in cap_law.h.
//
// What is released is a vector of integers v, V = v·2⁻³⁰: a public grid.
//
// CapSampler::kLattice, the default. Draw w ∈ gℤᵈ, each coordinate a correctly rounded N(0, 1)
// (lattice_sampler.h); accept it if it lies in the cap, and otherwise with probability b; else draw again.
// Release w/‖w‖ on the grid, a function of w alone.
//
// Theorem. For the bits that are released, the direction is ε°-DP with ε° = ln(1/b) + ω, where ω bounds
// ln(Z_u/Z_u′) for Z_u = q_u + b(1 − q_u), and q_u is the probability that a draw w counts as in the cap of
// u. Proof. w comes from a law R that knows nothing of the data, and whether it counts as in the cap is some
// function of w and the input, whatever floating point makes of it. So given the input, w has the
// probability R(w)·a/Z_u with a = 1 or b. For two inputs the ratio is at most (1/b)·Z_u′/Z_u. Rounding w/‖w‖
// is post-processing. ∎  No support, no low bit and no error of a special function enters: only q_u does,
// through ω.
//
// ω. Let w = x + e, x ~ N(0, I), |e_j| ≤ g/2, h = g√d/2, and φ = 3γ_k the relative error of the computed ⟨w,
// Δ⟩, ‖w‖ and ‖Δ‖ (k roundings each; Δ is scaled by a power of two, so nothing underflows). If w counts as in
// the cap, then ⟨x, u⟩ ≥ (γ − φ)‖w‖ − h, hence t = ⟨x, u⟩/‖x‖ ≥ γ − y with y = φ + 2h(1 + φ)/‖x‖; if not, t <
// γ + y. As t and ‖x‖ are independent, t has a density of at most c_d (d ≥ 3) and E[1/‖x‖] = 1/(√(2π) c_d),
//   |q_u − q| ≤ c_d φ + 2h(1 + φ)/√(2π) =: η,
// about 1e-9 for d = 1000. (For d = 2 the density is not bounded: see the source.) Z is linear in q_u, so
// ω = ln(1 + 2η(1 − b)/(b + (1 − b)(q − η))).
//
// The event. For x ≥ 0 the excess P_u − eˣP_u′ of any set is at most p₊(1 − e^{x−ε°}) from the cap of u, with
// p₊ the largest P(V in the cap), plus (1 − e^{x−ω})₊ from where both densities are alike. With p° = p₊ + (1
// − e^{−ω})/(1 − e^{−ε°}) that is at most p°(1 − e^{x−ε°}), the curve of PrivUnitEvent{p°, q°} for the q°
// that gives ε°. That event is charged, rounded up.
//
// Time. The number of draws is geometric with the mean 1/Z, independent of the w that is accepted, and its
// law is the same for all inputs up to ω: how long it took says nothing. (How long a rejected draw took to
// sample may.)
//
// CapSampler::kInverse. t by inversion of its law inside or outside of the cap, and a uniform direction
// orthogonal to u: one draw whatever ε, in floating point, then rounded to the grid. The numbers that t·u +
// √(1 − t²)·r can reach depend on u in their last bits, and rounding to the grid hides that only from most,
// not all, outputs: an explicit choice whose caveat the certificate prints. Its event is that of real
// arithmetic.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/rng.h"
#include "core/vec.h"
#include "privacy/cap_law.h"
#include "privacy/event.h"

namespace tacit {

enum class CapSampler { kLattice, kInverse };

// One thread's scratch. It holds the input's direction and has no door.
class PrivUnitSpace {
 private:
  friend class PrivUnit;
  Vec u_, w_;
  std::vector<std::int64_t> lattice_;
};

// Public numbers and a sampler; immutable, so thread-safe.
class PrivUnit {
 public:
  static constexpr int kGridBits = 30;

  // The cap that estimates best among those with this ε: γ = m(γ). An error unless 1e-6 ≤ ε ≤ 40 and
  // 2 ≤ d ≤ 2³⁰, or if kLattice would need more than 2²⁰ draws a vector (ε from about 17).
  static Result<PrivUnit> Optimal(Epsilon direction, std::size_t dimension,
                                  CapSampler = CapSampler::kLattice);

  // As printed for fedexp (Takakura, Liew, Hasegawa 2025): p = e^{ε₀}/(1 + e^{ε₀}) and the largest γ with
  //   γ ≤ tanh(ε₁/2) √(π/(2(d − 1))),   or   γ ≥ √(2/d) and ε₁ ≥ ½ ln d + ln 6 − ½(d − 1) ln(1 − γ²) + ln γ.
  // These rules suffice for ε₀ + ε₁ but waste: the event has the exact ε = ε₀ + ln((1 − q)/q). The printed
  // algorithm takes the cap with probability γ instead of p; then E⟨Z, u⟩ = (γ − q)/(p − q), which is −0.104
  // for d = 100 and ε₀ = ε₁ = 2: it points the wrong way. Here it is p.
  static Result<PrivUnit> Paper(Epsilon epsilon0, Epsilon epsilon1, std::size_t dimension,
                                CapSampler = CapSampler::kLattice);

  // V·2^30 for the direction of x. Zero, and what has no direction (NaN, ∞), count as the first unit vector.
  void Sample(View x, NoiseRng&, PrivUnitSpace&, std::span<std::int32_t> v) const;

  std::size_t dimension() const { return dimension_; }
  double gamma() const { return cap_.gamma(); }
  double q() const { return cap_.measure(); }
  double p() const { return p_; }
  double m() const { return m_; }  // Z = V/m; E‖Z‖² = 1/m²
  CapSampler sampler() const { return sampler_; }
  double expected_draws() const;  // of vectors, for one release
  std::uint64_t bits() const { return 32 * static_cast<std::uint64_t>(dimension_); }
  const PrivUnitEvent& event() const { return event_; }
  std::string_view caveat() const;  // what the certificate must say; empty if nothing

 private:
  PrivUnit(std::size_t dimension, const CapLaw& cap, CapSampler sampler)
      : dimension_(dimension), cap_(cap), sampler_(sampler) {}
  // ln(1/b) = log_ratio, and ω = overhead.
  static Result<PrivUnit> Make(const CapLaw&, std::size_t dimension, double log_ratio, double overhead,
                               CapSampler);
  void SampleByLattice(NoiseRng&, PrivUnitSpace&) const;
  void SampleByInversion(NoiseRng&, PrivUnitSpace&) const;

  std::size_t dimension_;
  CapLaw cap_;
  CapSampler sampler_;
  double p_ = 0, m_ = 0;
  std::uint64_t outside_ = 0;  // b·2^64: how often a draw outside of the cap is accepted
  std::uint64_t inside_ = 0;  // p·2^64
  PrivUnitEvent event_{Probability{0.5}, Probability{0.5}};
};

}  // namespace tacit
