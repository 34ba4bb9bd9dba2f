#include <cstddef>
#include <cstdint>
#include <string>

#include "data/load.h"

// Records are longer than what a fuzzer likes to make: the input is repeated to a length its first two bytes
// choose, around the ends of one and of two records.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::size_t length = std::size_t{data[0]} * 24 + data[1];
  std::string bytes;
  while (bytes.size() < length) bytes.append(reinterpret_cast<const char*>(data) + 2, size - 2);
  bytes.resize(length);
  const auto set = tacit::ParseCifar(bytes);
  TACIT_CHECK(set.ok() == (length > 0 && length % 3073 == 0));
  return 0;
}
