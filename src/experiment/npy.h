#pragma once

// NumPy's .npy, version 1.0, float64, C order: what a model is stored as.
#include <filesystem>
#include <vector>

#include "core/result.h"
#include "core/vec.h"

namespace tacit {

struct NpyArray {
  std::vector<std::size_t> shape;
  Vec values;
};
std::string NpyBytes(const std::vector<std::size_t>& shape, View values);  // the file as it is written
Status WriteNpy(const std::filesystem::path&, const std::vector<std::size_t>& shape, View values);  // atomic
Result<NpyArray> ReadNpy(const std::filesystem::path&);
Result<NpyArray> ParseNpy(std::string_view bytes, const std::string& name);

}  // namespace tacit
