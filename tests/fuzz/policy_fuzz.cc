#include <cstddef>
#include <cstdint>

#include "net/join.h"

// What a client agrees to, as a file: read, or refused in words.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto policy = tacit::ParsePolicy({reinterpret_cast<const char*>(data), size}, "policy.toml");
  if (!policy.ok()) TACIT_CHECK(!policy.error().message.empty());
  return 0;
}
