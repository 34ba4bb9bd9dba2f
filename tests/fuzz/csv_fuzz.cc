#include <cstddef>
#include <cstdint>
#include <string_view>

#include "data/load.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  tacit::LoadOptions options;
  options.csv.header = (data[0] & 1) != 0;
  options.csv.label = (data[0] & 2) != 0 ? "1" : "";
  options.csv.group = (data[0] & 4) != 0 ? "0" : "";
  (void)tacit::ParseCsv({reinterpret_cast<const char*>(data) + 1, size - 1}, options).ok();
  return 0;
}
