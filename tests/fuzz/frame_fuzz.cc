#include <cstddef>
#include <cstdint>
#include <cstring>

#include "algorithms/primal_dual.h"
#include "wire/frame.h"

// The bytes as they are, and the bytes as a payload under a valid header.
template <class M>
void Try(std::span<const std::byte> bytes) {
  if (auto m = tacit::Codec::Decode<M>(bytes); m.ok()) {
    const auto again = tacit::Codec::Encode(*m);
    TACIT_CHECK(again.size() == bytes.size() && std::memcmp(again.data(), bytes.data(), bytes.size()) == 0);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span raw(reinterpret_cast<const std::byte*>(data), size);
  Try<tacit::PrimalDual::Up>(raw);
  std::vector<std::byte> sealed(tacit::kFrameHeader + size);
  const std::uint32_t crc = tacit::Crc32(raw);
  const std::uint64_t length = size;
  std::memcpy(sealed.data(), "TCT1", 4);
  std::memcpy(sealed.data() + 4, &crc, 4);
  std::memcpy(sealed.data() + 8, &length, 8);
  if (size != 0) std::memcpy(sealed.data() + tacit::kFrameHeader, data, size);
  Try<tacit::PrimalDual::Up>(sealed);
  Try<tacit::PrimalDual::Down>(sealed);
  return 0;
}
