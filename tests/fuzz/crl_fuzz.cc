#include <unistd.h>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/check.h"
#include "experiment/files.h"
#include "net/ca.h"
#include "net/pem.h"

// The list of revoked certificates, as a file that somebody else may have written. Whatever it is, nobody is
// let in by a list whose signed part is not that of the authority, and one certificate that is revoked is let
// in by none. The first byte: 't' the text of the file; 'd' the same as DER; otherwise changes of three bytes
// each to the true list, to that of another authority, or to the text of the true one.
namespace {

using namespace tacit;
using Crl = Handle<X509_CRL, &X509_CRL_free>;
using Octets = std::string;

Octets DerOf(const std::string& list) {
  const Crl crl(PEM_read_bio_X509_CRL(pem::Over(list).get(), nullptr, &pem::NoPassphrase, nullptr));
  unsigned char* raw = nullptr;
  const int size = crl ? i2d_X509_CRL(crl.get(), &raw) : 0;
  const Octets out(reinterpret_cast<char*>(raw), static_cast<std::size_t>(std::max(size, 0)));
  OPENSSL_free(raw);
  return out;
}
std::string TextOf(const Octets& der) {
  std::string body(4 * ((der.size() + 2) / 3) + 1, '\0');
  body.resize(static_cast<std::size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(body.data()),
                                                       reinterpret_cast<const unsigned char*>(der.data()),
                                                       static_cast<int>(der.size()))));
  std::string out = "-----BEGIN X509 CRL-----\n";
  for (std::size_t at = 0; at < body.size(); at += 64) out += body.substr(at, 64) + "\n";
  return out + "-----END X509 CRL-----\n";
}

struct World {
  std::string authority, revoked, valid, list, der, other;
  World() {
    const std::filesystem::path at =
        std::filesystem::temp_directory_path() / fmt::format("tacit_crl_fuzz_{}", ::getpid());
    for (const char* ca : {"ca", "other"}) {
      TACIT_CHECK(MakeAuthority({.folder = at / ca}).ok());
      for (const char* name : {"c0", "c1"})
        TACIT_CHECK(Issue({.authority = at / ca, .folder = at / ca, .name = name, .hosts = {}}).ok());
    }
    TACIT_CHECK(Revoke(at / "ca", "c0").ok() && Revoke(at / "other", "c1").ok());
    authority = *ReadWhole(at / "ca/ca.pem", 1 << 20);
    revoked = *ReadWhole(at / "ca/c0.pem", 1 << 20);
    valid = *ReadWhole(at / "ca/c1.pem", 1 << 20);
    list = *ReadWhole(at / "ca/crl.pem", 1 << 20);
    der = DerOf(list);
    other = DerOf(*ReadWhole(at / "other/crl.pem", 1 << 20));
    std::filesystem::remove_all(at);
    const Revocations all("crl.pem", authority);
    TACIT_CHECK(all.CheckBy(list, valid).ok() && TextOf(der) == list);
    TACIT_CHECK(all.CheckBy(list, revoked).error().code == Code::kInvalidArgument);
    TACIT_CHECK(all.CheckBy(TextOf(other), valid).error().code == Code::kIo);
  }
};

// What the authority has signed; empty: it is no list.
Octets SignedPart(const std::string& list) {
  const Crl crl(PEM_read_bio_X509_CRL(pem::Over(list).get(), nullptr, &pem::NoPassphrase, nullptr));
  unsigned char* raw = nullptr;
  const int size = crl ? i2d_re_X509_CRL_tbs(crl.get(), &raw) : 0;
  const Octets out(reinterpret_cast<char*>(raw), static_cast<std::size_t>(std::max(size, 0)));
  OPENSSL_free(raw);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const World world;
  static const Revocations all("crl.pem", world.authority);
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto changed = [&](std::string text) {
    for (std::size_t i = 0; i + 3 <= rest.size(); i += 3) {
      const auto at = static_cast<std::uint8_t>(rest[i]) + 256u * static_cast<std::uint8_t>(rest[i + 1]);
      text[at % text.size()] ^= rest[i + 2];
    }
    return text;
  };
  std::string list;
  switch (data[0]) {
    case 't': list = rest; break;
    case 'd': list = TextOf(rest); break;
    default:
      list = data[0] % 4 == 0   ? changed(world.list)
             : data[0] % 4 == 1 ? TextOf(changed(world.other))
                                : TextOf(changed(world.der));
  }
  const Status valid = all.CheckBy(list, world.valid), revoked = all.CheckBy(list, world.revoked);
  TACIT_CHECK(!revoked.ok() && !revoked.error().message.empty());
  if (valid.ok()) {
    TACIT_CHECK(revoked.error().code == Code::kInvalidArgument);
    TACIT_CHECK(SignedPart(list) == SignedPart(world.list));
  } else {  // nothing is said of the certificates
    TACIT_CHECK(valid.error().code == Code::kIo && revoked.error().code == Code::kIo);
  }
  return 0;
}
