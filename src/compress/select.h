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
  // A threshold of last time that somebody else remembers, 0 where nobody does; in slot 0.
  void Guess(std::size_t size, std::size_t k, double guess) { last.assign(1, {size, k, guess}); }
};

// a/divisor − b, coordinate by coordinate: formed as it is read and kept nowhere. a and b are equally long,
// divisor > 0. The bits of a division, which by a power of two is a product.
struct Difference {
  std::span<const double> a, b;
  double divisor = 1;
  std::size_t size() const { return a.size(); }
  bool empty() const { return a.empty(); }
  double operator[](std::size_t j) const { return a[j] / divisor - b[j]; }
};
// out[j] ← x[from + j], for all of out.
void FormPart(const Difference& x, std::size_t from, std::span<double> out);

// Writes to `index`, ascending, the positions of the k largest |x_j|; of equal ones the lowest positions.
// What is zero or not finite is never taken, so there are fewer than k where fewer are left.
// x.size() < 2^32.
void SelectLargest(std::span<const double> x, std::size_t k, SelectSpace&, std::vector<std::uint32_t>& index,
                   std::size_t slot = 0);
void SelectLargest(std::span<const float> x, std::size_t k, SelectSpace&, std::vector<std::uint32_t>& index,
                   std::size_t slot = 0);
void SelectLargest(const Difference& x, std::size_t k, SelectSpace&, std::vector<std::uint32_t>& index,
                   std::size_t slot = 0);

}  // namespace tacit
