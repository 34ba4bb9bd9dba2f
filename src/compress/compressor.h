#pragma once

// Compressors, with the constants their theory needs. A Compressor is a value: a selection of coordinates,
// then a coding of the values that are kept. What the receiver reads is THE value of C(x) (encoded.h), so the
// coding is part of C and of its constants.
//
// C is an α-contraction if E‖C(x) − x‖² ≤ (1 − α)‖x‖² for every x, 0 < α ≤ 1; an expectation for rand alone.
// Then ‖C(x)‖ ≤ (1 + √(1−α))‖x‖: C may lengthen x (powers of two: 1.5 becomes 2), so who needs a bounded
// message clips after C. C(0) = 0. A coordinate that is not finite counts as 0. Ties go to the lowest index.
//
// Selections T, with T(x)_j ∈ {x_j, 0}, so ‖T(x) − x‖² = ‖x‖² − ‖T(x)‖²:
//   all       everything; α = 1
//   top       the k largest magnitudes; α = k/d. The mean square of the k largest is at least that of all
//             d: ‖T(x)‖² ≥ (k/d)‖x‖², with equality where all magnitudes are equal.
//   layers    the k_l largest of every layer of d_l coordinates; α = min_l k_l/d_l, the sum over layers of
//             (1 − k_l/d_l)‖x_l‖².
//   rand      k coordinates drawn from a public stream, so that they need not be sent; α = k/d with equality
//             in expectation, since each is drawn with probability k/d. The contraction form.
//   unbiased-rand  the same times d/k: E C(x) = x and E‖C(x) − x‖² = ω‖x‖², ω = d/k − 1. The unbiased form;
//             as a contraction α = 1 − ω, which is useful for k > d/2 only.
// Codings V of the n values kept, contractions with a constant β of their own:
//   64 bits   exact, β = 1
//   32, 16, 8 bits   numbers of p = 24, 11, 4 significant bits times a power of two shared by the message,
//             that of the largest. A value is off by at most 2^−p of itself or by 2^−t of the largest, where
//             t = 150, 41, 18 (below the smallest normal number): β = 1 − 2^(−2p) − n·2^(−2t).
//   round     the nearest number of an increasing sequence …, a_k, a_{k+1}, … (ties away from 0), with
//             1 − β = sup_k ((a_{k+1} − a_k)/(a_{k+1} + a_k))². Proof: between a and b the error relative to
//             |x| rises up to the midpoint (a+b)/2, where it is (b−a)/(b+a), and falls after it. So
//             β = inf_k 4 a_k a_{k+1}/(a_k + a_{k+1})²: 8/9 for powers of two, 0.96 for powers of 1.5.
//             A code of levels is exact: only those that occur travel. (Beznosikov, Horváth, Richtárik,
//             Safaryan: On biased compression for distributed learning, JMLR 2023.)
// Together α = α_T·β. Proof: V(T(x)) − x is orthogonal in its two parts, what was left out and what was
// coded, so its square is ‖x‖² − ‖T(x)‖² + ‖V(T(x)) − T(x)‖² ≤ ‖x‖² − β‖T(x)‖² ≤ (1 − α_T β)‖x‖². This needs
// the selection to come first; the other order is not offered, its constant can be nothing.
// In all but 64 bits, magnitudes below 2^−1000 count as 0, and those above 2^1000 are rounded to the last
// level of a sequence: the constants are for vectors between.
//
// Privacy: C is post-processing of what was released, at no cost. Applied to a private value it bounds
// nothing: top is discontinuous, so a small change of x can move C(x) by √2‖x‖.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "compress/encoded.h"
#include "compress/select.h"
#include "core/result.h"
#include "core/vec.h"

namespace tacit {

// A part of d coordinates: a fraction of them, rounded, or a number; at least one, at most all.
struct Portion {
  double fraction = 1;  // in (0, 1]; used where count = 0
  std::size_t count = 0;
  std::size_t Of(std::size_t d) const;
};

struct All {};
struct TopK {
  Portion k;
};
struct LayerTopK {
  std::vector<Portion> k;  // one for every layer, or one for all of them
  std::vector<std::size_t> sizes = {};  // of the layers; from Compressor::SetLayers
};
struct RandK {
  Portion k;
  bool unbiased = false;
};
using CoordinateChoice = std::variant<All, TopK, LayerTopK, RandK>;

struct Floats {
  int bits = 64;  // 64, 32, 16 or 8
};
// An increasing sequence of positive numbers that repeats in scale: a_0 < … < a_m are given, and
// a_{k+m} = a_k·(a_m/a_0). {1, b} are the powers of b; {1, 1.5, 2} have one binary digit after the point.
class Rounding {
 public:
  static Result<Rounding> Of(const std::vector<double>& period);
  double beta() const { return table_->beta; }
  const std::vector<double>& period() const { return table_->period; }
  // All levels, ascending, within 2^−1000 … 2^1000.
  const std::vector<double>& levels() const { return table_->level; }
  // The nearest level of a finite y > 0; −1: zero, for y below half the first one.
  int LevelOf(double y) const;
  bool powers_of_two() const { return table_->powers_of_two; }

 private:
  struct Table {
    std::vector<double> period, level, middle;  // middle[k] is the first y that goes to level k, not k − 1
    std::vector<int> first;  // by the exponent of y: where to look
    double beta = 1;
    bool powers_of_two = false;
    int first_exponent = 0;  // of the first level, biased as in a double
  };
  std::shared_ptr<const Table> table_;
};
using Values = std::variant<Floats, Rounding>;

// One thread's space; reused, so that nothing is allocated once it has grown.
struct CompressSpace {
  SelectSpace select;
  std::vector<std::uint32_t> index;
  std::vector<std::uint32_t> layered;
  std::vector<std::uint64_t> code;
  Vec value;
  Vec formed;
  DecodeSpace decode;
  Encoded encoded;
};

class Compressor {
 public:
  Compressor() = default;  // identity: all coordinates, 64 bits
  Compressor(CoordinateChoice selection, Values values)
      : selection_(std::move(selection)), values_(std::move(values)) {}

  // out ← C(x), ready to travel; Decode and AddDecoded read it. stream: public, and a new one every time
  // (CompressStream); rand alone uses it. x.size() < 2^32.
  void Compress(View x, std::uint64_t stream, Encoded& out, CompressSpace&) const;
  // The same of a difference, which `top` does not need to have in memory. guess: the smallest magnitude that
  // `top` took, of a similar vector before and, then, of this one; 0: not known. It saves time and changes
  // nothing else.
  void Compress(const Difference& x, std::uint64_t stream, double& guess, Encoded& out, CompressSpace&) const;
  // out ← C(x) for who does not send it: the same bits as Decode of Compress. x and out may be one vector.
  void Apply(View x, std::uint64_t stream, Span out, CompressSpace&) const;

  // The constant α of contraction in dimension d, at least 0; 0: none.
  double alpha(std::size_t d) const;
  // ω, if E C(x) = x.
  std::optional<double> omega(std::size_t d) const;
  // Coordinates kept of d.
  std::size_t kept(std::size_t d) const;
  bool random() const { return std::holds_alternative<RandK>(selection_); }
  bool identity() const;  // C(x) = x for every finite x, to the bit

  // Whether there are layers to be told of; their sizes, in the order of x, sum to its length.
  bool wants_layers() const { return std::holds_alternative<LayerTopK>(selection_); }
  Status SetLayers(const std::vector<std::size_t>& sizes);

  // As ParseCompressor reads it.
  std::string text() const;

  const CoordinateChoice& selection() const { return selection_; }
  const Values& values() const { return values_; }

 private:
  void Select(View x, std::uint64_t stream, CompressSpace&) const;
  void Encode(std::size_t d, std::uint64_t stream, Encoded& out, CompressSpace&) const;  // what was selected
  CoordinateChoice selection_ = All{};
  Values values_ = Floats{64};
};

// A compressor by its name:
//   selection   identity | top:PART | layers:PART[,PART…] | rand:PART | unbiased-rand:PART
//   PART        a fraction such as 0.1, or k=500
//   values      /64, /32, /16 or /8 bits; 32 by default, and 64 for identity and unbiased-rand
//   rounding    +round:b for powers of b, +round:1,1.5,2 for a sequence that repeats in scale, instead of a
//               width; round:b alone keeps every coordinate
// e.g. top:0.1, top:k=500/16, rand:0.05, round:2, top:0.1+round:2, identity/32.
Result<Compressor> ParseCompressor(std::string_view text);

// The public stream of a client's compressor in a round; the same client number for all shares one set of
// coordinates among them.
std::uint64_t CompressStream(std::uint64_t seed, std::uint32_t who, std::uint32_t round);

}  // namespace tacit
