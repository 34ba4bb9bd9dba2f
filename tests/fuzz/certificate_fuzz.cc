#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "experiment/verify.h"

// Whatever parses is verified or refused in words.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto certificate = tacit::ParseCertificate({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!certificate.ok()) {
    TACIT_CHECK(!certificate.error().message.empty());
    return 0;
  }
  const auto v = tacit::Verify(*certificate, "fuzz.json");
  if (!v.ok()) {
    TACIT_CHECK(!v.error().message.empty());
    return 0;
  }
  TACIT_CHECK(v->mu >= 0 && v->epsilon >= 0);
  for (const tacit::Finding& f : v->findings) TACIT_CHECK(!f.sentence.empty());
  return 0;
}
