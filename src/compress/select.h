#pragma once

// The k coordinates of largest magnitude, in linear time.
//
// A bracket around the threshold comes from the last call (or, the first time, from a sample); one pass of
// vector instructions collects the candidates above its lower end; a radix search among those inside finds
// the threshold to the bit. A bracket that fails costs a pass, never the answer: the last resort takes every
// coordinate as a candidate, and a round of the search settles eleven of at most 64 bits (fewer where fewer
// candidates are left than buckets). So no input, however it was made, takes more than linear time, and the
// answer depends on x and k alone.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tacit {

// One thread's space; reused, so that nothing is allocated once it has grown. It remembers where the
// threshold was, by slot (a layer, say): that saves time and changes nothing else.
struct SelectSpace {
  struct Last {
    std::size_t size = 0, k = 0;
    double threshold = 0;  // the smallest magnitude that was taken; 0: not known
  };
  std::vector<Last> last;
  std::vector<std::uint32_t> candidate;
  std::vector<std::uint32_t> bits32, middle32;
  std::vector<std::uint64_t> bits64, middle64;
  std::vector<std::uint32_t> count;
  double threshold = 0;  // of the last call
};

// Writes to `index`, ascending, the positions of the k largest |x_j|; of equal ones the lowest positions.
// What is zero or not finite is never taken, so there are fewer than k where fewer are left.
// x.size() < 2^32.
void SelectLargest(std::span<const double> x, std::size_t k, SelectSpace&, std::vector<std::uint32_t>& index,
                   std::size_t slot = 0);
void SelectLargest(std::span<const float> x, std::size_t k, SelectSpace&, std::vector<std::uint32_t>& index,
                   std::size_t slot = 0);

}  // namespace tacit
