#pragma once

// Sums that open only as a whole. Every client clips, rounds to a public grid, adds its share of the noise
// and masks that cancel in the sum of all (Bonawitz et al., CCS 2017; runtime/mask_round.h agrees on them),
// so that whoever adds them up learns the noised sum and nothing else.
//
//   client i   q_i = trunc(v_i/g) + N_Z(0, σ²/g²)^d,  y_i = q_i + masks  (mod 2^b)
//   server     Σ y_i − masks = Σ q_i  (mod 2^b),  times g
//
// Cost. With noise of at least n clients that no attacker knows, Σ q_i is a DistributedDiscreteGaussianEvent
// of n clients (Kairouz, Liu, Steinke, ICML 2021); what further clients add to it is independent of a
// neighbour's data, and sums modulo 2^b are functions of sums: both are post-processing. n is a public
// constant: the fewest clients a sum may have, less those who may tell the server their own noise. It is
// charged whoever answers, before anything is sealed.
//
// Rounding. trunc shortens every coordinate, so that a clipped vector stays in its ball: terms are at most 2C
// apart and C long, as before, and nothing is added for the grid. Where two terms are closer than their
// lengths say (a squared length goes along), a coordinate of their difference grows by less than g: g√d is
// charged.
//
// Wrapping costs no privacy. It would spoil the sum, and is kept away: a discrete Gaussian is sub-Gaussian
// with σ, so all N clients' noise exceeds 14σ√N with probability below 2e⁻⁹⁸ < 2⁻¹⁴⁰ a coordinate, and b is
// the least multiple of 8 with N·(length of a term)/g + 14√N·σ/g < 2^(b−1).
#include <cstdint>
#include <vector>

#include "core/private.h"
#include "core/rng.h"
#include "core/units.h"
#include "core/vec.h"
#include "privacy/bounded.h"
#include "privacy/discrete_gaussian.h"
#include "privacy/ledger.h"
#include "privacy/mask_keys.h"

namespace tacit {

struct NoiseBuffer;  // mechanism.h

// One summand of all that hide a message.
struct Mask {
  Secret key;
  bool minus = false;
};

// A client's share of a sum, clipped, rounded and noised, of which it has a share of the noise only. By
// itself nobody may see it: in the process it can be added to others, and it leaves under masks, which hide
// it perfectly from whoever lacks one of their keys.
class Masked {
 public:
  std::size_t dim() const { return value_.size(); }
  unsigned bits() const { return bits_; }  // b; a multiple of 8
  bool covered() const { return covered_; }
  void Clear() { value_.clear(), covered_ = false; }
  // Adds the masks, modulo 2^b.
  void Cover(std::span<const Mask>);
  // Takes masks off, which others added; what is left is of use in a sum alone.
  void Uncover(std::span<const Mask>);

 private:
  friend class SecureSum;
  friend class MaskedTotal;
  friend class Codec;
  friend class Checkpoint;
  void Apply(std::span<const Mask>, bool flipped);
  std::vector<std::uint64_t> value_;
  unsigned bits_ = 64;
  bool covered_ = false;
};

// Σ over clients, modulo 2^b: associative, so the same in any order.
class MaskedTotal {
 public:
  void Reset() { count_ = 0; }
  void Add(const Masked& v) { Take(v.value_, v.bits_, 1); }
  void Merge(const MaskedTotal& other) { Take(other.value_, other.bits_, other.count_); }
  std::uint32_t count() const { return count_; }

 private:
  friend class SecureSum;
  friend class Parcel;  // runtime/parcel.h: between the processes of a simulation
  void Take(const std::vector<std::uint64_t>& v, unsigned bits, std::uint32_t count);
  std::vector<std::uint64_t> value_;
  unsigned bits_ = 64;
  std::uint32_t count_ = 0;
};

// Who must be there, and who may be on the server's side: public constants, held to by every client itself.
struct Quorum {
  std::uint32_t clients = 0;  // N
  std::uint32_t minimum = 0;  // m: the fewest whose noise a sum has
  std::uint32_t colluding = 0;  // c: of them, those who tell the server what they know
  std::uint32_t honest() const { return minimum - colluding; }
  // t: shares that open a mask. Two sets of t clients have more than c in common, so that no two different
  // sums of one round can both be agreed to.
  std::uint32_t threshold() const { return (clients + colluding) / 2 + 1; }
  Status Check() const;  // t ≤ m ≤ N, and a client that is honest
};

// Sees what sums are made of, and may say what they are: an auditor's, on rows that it made up itself.
class SumWitness {
 public:
  virtual ~SumWitness() = default;
  virtual void Sealed(View term, View noise) = 0;  // of the next client, on the grid
  virtual void Opened(Span sum) = 0;
};

// The third door (the others: mechanism.h). Immutable, so thread-safe.
class SecureSum {
 public:
  // share: σ of one client's noise. longest: of a term, whose coordinates are no longer.
  static Result<SecureSum> Make(const Quorum&, NoiseStd share, L2Bound longest);

  const Quorum& quorum() const { return quorum_; }
  NoiseStd share() const { return share_; }
  int grid_exponent() const { return exponent_; }
  double grid() const;  // g, a power of two: σ/g is in [2²⁰, 2²¹)
  unsigned bits() const { return bits_; }  // b
  // What one sum costs whoever is in it. plain: a client's term is a clipped vector and nothing more.
  PrivacyEvent EventFor(L2Bound sensitivity, bool plain, std::size_t dim) const;

  // Pay, draw, seal; on refusal nothing is drawn or changed.
  Status Seal(const Bounded&, Ledger&, NoiseRng&, NoiseBuffer&, Masked& out) const;
  // The sum. Refused for fewer clients than were charged for.
  Status Open(const MaskedTotal&, Released<Vec>& out) const;

 private:
  SecureSum(const Quorum& q, NoiseStd share, int exponent, unsigned bits)
      : quorum_(q), share_(share), exponent_(exponent), bits_(bits), noise_(Steps(share, exponent)) {}
  friend class WatchedSum;  // audit/tap.h: nobody else can have a witness
  static double Steps(NoiseStd share, int exponent);  // σ/g
  Quorum quorum_;
  NoiseStd share_;
  int exponent_;
  unsigned bits_;
  DiscreteGaussian noise_;
  SumWitness* witness_ = nullptr;  // null: every sum outside of an audit
};

}  // namespace tacit
