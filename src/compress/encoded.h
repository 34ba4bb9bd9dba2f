#pragma once

// What a compressed vector is on the wire, and the one way to read it. A message describes itself, so the
// receiver needs its length alone; the vector that is read is THE value of C(x), the same bits at whoever
// reads it, the sender included. Little-endian:
//
//   u8       where + 16·how
//   varint   d, the length of the vector
//   where    0  nowhere: the vector is 0 and nothing follows
//            1  everywhere: n = d values
//            2  varint n, then a bitmap of ⌈d/8⌉ bytes
//            3  varint n, u8 b, then the gaps between positions in Rice's code: ⌊gap/2^b⌋ ones, a zero,
//               b low bits, from bit 0 of the first byte on; zeros fill the last byte
//            4  varint n, u64 stream: the positions DrawPositions(stream, d, n) gives
//   how      0  n doubles
//            1  i16 s, n floats below 2 in magnitude: times 2^s
//            2  i16 s, n codes of 16 bits (sign, 5 bits of exponent, 10 of mantissa): times 2^s
//            3  i16 s, n codes of 8 bits (sign, 4 bits of exponent, 3 of mantissa): times 2^s
//            4  i16 e, u16 m: the levels 2^e, …, 2^(e+m−1), then n codes
//            5  u16 m, m doubles a_0 < … < a_{m−1}: the levels, then n codes
//   A code of 16 or 8 bits with E bits of exponent e and M of mantissa f is (1 + f/2^M)·2^(e−2^E+1), and
//   f/2^M·2^(2−2^E) for e = 0: there is no code for infinity, the largest is just below 2.
//   A code of levels is 2l + sign; where a value may be zero (where = 1, 4) it is 1 + 2l + sign, and 0 is
//   zero. All have the width of the largest that is possible, from bit 0 on; zeros fill the last byte.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "core/vec.h"

namespace tacit {

struct Encoded {
  std::vector<std::uint8_t> data;
  std::size_t bytes() const { return data.size(); }  // what travels
  friend bool operator==(const Encoded&, const Encoded&) = default;
};

// One thread's space for reading; reused, so that nothing is allocated once it has grown.
struct DecodeSpace {
  std::vector<std::uint32_t> index;
  std::vector<std::uint64_t> drawn;
  Vec value, level;
};

// The length the message says it has; 0 where it says none.
std::size_t EncodedLength(const Encoded&);

// Ok, if the bytes are a vector of this length, whose numbers then are all finite. Allocates nothing.
Status CheckEncoded(const Encoded&, std::size_t dim);

// out ← the vector; y ← y + a · the vector. Malformed bytes are an error and change nothing.
Status Decode(const Encoded&, Span out, DecodeSpace&);
Status AddDecoded(double a, const Encoded&, Span y, DecodeSpace&);

// n distinct positions below d, ascending, uniform over all such sets: a function of (stream, d, n) alone and
// made of integers, so everyone who knows the stream has the same. Floyd's algorithm (Bentley and Floyd,
// Communications of the ACM 30, 1987).
void DrawPositions(std::uint64_t stream, std::size_t d, std::size_t n, std::vector<std::uint64_t>& bits,
                   std::vector<std::uint32_t>& out);

namespace internal {

enum class Where : std::uint8_t { kNowhere, kEverywhere, kBitmap, kGaps, kDrawn };
enum class How : std::uint8_t { kDouble, kFloat, kSixteen, kEight, kPowers, kLevels };

// Numbers below 2 with one sign bit, E bits of exponent and M of mantissa, as above.
template <int E, int M>
struct Mini {
  static constexpr int kTop = (1 << E) - 1;
  static std::uint32_t Code(double y);  // 0 ≤ y < 2: the nearest, ties to even, at most the largest
  static double Value(std::uint32_t code);
};
using Mini16 = Mini<5, 10>;
using Mini8 = Mini<4, 3>;

// Bits of a code of m levels.
int LevelBits(std::size_t levels, bool zero);

// Bits to a byte vector, lowest first.
class BitWriter {
 public:
  explicit BitWriter(std::vector<std::uint8_t>& out) : out_(out) {}
  void Put(std::uint64_t bits, int count);  // count ≤ 32; bits above count are zero
  void Ones(std::uint64_t count);
  void Flush();

 private:
  std::vector<std::uint8_t>& out_;
  std::uint64_t held_ = 0;
  int count_ = 0;
};

}  // namespace internal
}  // namespace tacit
