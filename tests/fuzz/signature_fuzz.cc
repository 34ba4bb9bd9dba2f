#include <cstddef>
#include <cstdint>

#include "experiment/signature.h"
#include "now_and_then.h"

// Signature files; and both kinds of key files, which OpenSSL reads, of one input in 64. Encrypted keys stop
// at the question for a passphrase: how long one takes to open is written in the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto s = tacit::ParseSignature(bytes, "fuzz.sig"); s.ok()) TACIT_CHECK(s->bytes.size() == 64);
  if (!tacit::NowAndThen(data, size)) return 0;
  if (const auto key = tacit::PublicKey::Parse(bytes, "fuzz.pub.pem"); key.ok()) {
    const auto again = tacit::PublicKey::Parse(key->Pem(), "again.pub.pem");
    TACIT_CHECK(again.ok() && again->fingerprint() == key->fingerprint());
  }
  const auto refuse = [](const std::string&) -> tacit::Result<std::string> {
    return tacit::Fail(tacit::Code::kInvalidArgument, "no passphrase");
  };
  if (const auto key = tacit::PrivateKey::Parse(bytes, "fuzz.pem", refuse); key.ok())
    TACIT_CHECK(key->public_key().Signed("bytes", key->Sign("bytes")));
  return 0;
}
