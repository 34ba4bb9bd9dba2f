#pragma once

// NumPy's .npy. A model is stored as version 1.0, float64, C order; data are read in any version and order,
// from little-endian numbers of 8 to 64 bits.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/vec.h"
#include "data/bytes.h"

namespace tacit {

struct NpyArray {
  std::vector<std::size_t> shape;
  Vec values;
};
std::string NpyBytes(const std::vector<std::size_t>& shape, View values);  // the file as it is written
Status WriteNpy(const std::filesystem::path&, const std::vector<std::size_t>& shape, View values);  // atomic
Result<NpyArray> ReadNpy(const std::filesystem::path&);
Result<NpyArray> ParseNpy(std::string_view bytes, const std::string& name);

// What the head of an array says.
struct NpyHeader {
  char kind = 'f';  // f: floating point, i: signed, u: unsigned, b: true or false
  std::size_t size = 8;  // bytes of a number: 1, 2, 4 or 8
  bool fortran = false;  // the first index runs fastest
  std::vector<std::size_t> shape = {};
  std::size_t rows() const { return shape.empty() ? 1 : shape[0]; }
  std::size_t each() const;  // numbers in a row: the product of the other sides
};
// Versions 1 to 3. Afterwards `in` stands at the first number. Sizes are checked against overflow, not
// against what follows.
Result<NpyHeader> ReadNpyHeader(Input& in);
// The numbers in `bytes`, which holds out.size() of them, as doubles. 64-bit integers are rounded.
void DecodeNpy(const NpyHeader&, std::string_view bytes, Span out);

}  // namespace tacit
