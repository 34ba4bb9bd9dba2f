#include <cstddef>
#include <cstdint>

#include "data/npy.h"

// What can be read must be written back to something that reads the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto array = tacit::ParseNpy({reinterpret_cast<const char*>(data), size}, "fuzz.npy");
  if (!array.ok()) return 0;
  const auto again = tacit::ParseNpy(tacit::NpyBytes(array->shape, array->values), "again.npy");
  TACIT_CHECK(again.ok() && again->shape == array->shape && again->values.size() == array->values.size());
  return 0;
}
