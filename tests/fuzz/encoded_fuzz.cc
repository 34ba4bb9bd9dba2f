#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress/compressor.h"

// The first byte says how long the vector should be; the rest is a message, and a name of a compressor. What
// is taken is finite, the same by every way to read it, and survives being sent again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static tacit::CompressSpace space;
  static tacit::Encoded again;
  const std::size_t dim = data[0];
  const tacit::Encoded e{{data + 1, data + size}};
  tacit::Vec x(dim), y(dim), z(dim);
  const bool good = tacit::CheckEncoded(e, dim).ok();
  TACIT_CHECK(good == tacit::Decode(e, x, space.decode).ok());
  TACIT_CHECK(good == tacit::AddDecoded(1.0, e, y, space.decode).ok());
  for (std::size_t i = 0; i < dim; ++i) TACIT_CHECK(std::isfinite(x[i]) && x[i] == y[i]);
  if (good) {
    static const tacit::Compressor identity;
    identity.Compress(x, 0, again, space);
    TACIT_CHECK(tacit::Decode(again, z, space.decode).ok());
    for (std::size_t i = 0; i < dim; ++i) TACIT_CHECK(x[i] == z[i]);
  }
  const auto c = tacit::ParseCompressor({reinterpret_cast<const char*>(data) + 1, size - 1});
  if (c.ok()) TACIT_CHECK(tacit::ParseCompressor(c->text())->text() == c->text());
  return 0;
}
