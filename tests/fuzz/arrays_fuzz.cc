#include <cstddef>
#include <cstdint>
#include <string_view>

#include "data/load.h"

// The first byte says where the features end and the labels begin.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = all.size() * data[0] / 255;
  const auto set = tacit::ParseNpyRows(all.substr(0, cut), all.substr(cut));
  if (set.ok()) TACIT_CHECK(set->value.size() == set->rows() * set->features);
  return 0;
}
