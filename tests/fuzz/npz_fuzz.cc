#include <cstddef>
#include <cstdint>

#include "data/load.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  tacit::LoadOptions options;
  if ((data[0] & 1) != 0) options.array.person = "p";
  if ((data[0] & 2) != 0) options.array.group = "g";
  (void)tacit::ParseNpz({reinterpret_cast<const char*>(data) + 1, size - 1}, options).ok();
  return 0;
}
