// The bytes of ordinary rounds, by the example of primal-dual: what clients of another build read and send.
#include "runtime/link.h"

#include <gtest/gtest.h>

#include "algorithms/primal_dual.h"
#include "core/sha256.h"

namespace tacit {
namespace {

Bytes FromHex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<std::byte>(16 * digit(text[i]) + digit(text[i + 1])));
  return out;
}
// Reads what the constant says, and writes the same again.
template <class M>
M ReadAgain(const char* hex) {
  auto m = Codec::Decode<M>(FromHex(hex));
  EXPECT_TRUE(m.ok()) << hex;
  if (!m.ok()) return {};
  EXPECT_EQ(Hex(Codec::Encode(*m)), hex);
  return *std::move(m);
}

// Constants by Python: b"TCT1" + struct.pack("<IQ", zlib.crc32(payload), len(payload)) + payload, and a
// vector as struct.pack("<Q2d", 2, a, b).
TEST(LinkFrames, OfPrimalDualAreTheseBytes) {
  const auto first = ReadAgain<PrimalDual::Down>("544354316fc6d57b0c00000000000000000000000000000000000000");
  EXPECT_EQ(*first.t, 0u);
  EXPECT_TRUE(first.x_bar->empty());
  const auto down = ReadAgain<PrimalDual::Down>(
      "54435431ad1460731c00000000000000"
      "03000000"
      "0200000000000000000000000000f83f000000000000d0bf");
  EXPECT_EQ(*down.t, 3u);
  EXPECT_EQ(*down.x_bar, (Vec{1.5, -0.25}));
  // The answer, and after it the client's model, which only clients have.
  const auto reply = ReadAgain<Reply<PrimalDual>>(
      "54435431614f28163000000000000000"
      "02000000000000009a9999999999b93f00000000000000c0"
      "0200000000000000000000000000f03f0100000000000000");
  EXPECT_EQ(*reply.up.x_tilde, (Vec{0.1, -2.0}));
  EXPECT_EQ(*reply.iterate, (Vec{1.0, 5e-324}));
  const auto last = ReadAgain<Farewell<PrimalDual>>(
      "54435431950686761800000000000000"
      "0200000000000000000000000000f03f0000000000000080");
  EXPECT_EQ(*last.iterate, (Vec{1.0, -0.0}));
}

}  // namespace
}  // namespace tacit
