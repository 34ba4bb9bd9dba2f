#include <unistd.h>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/check.h"
#include "experiment/files.h"
#include "net/notary.h"
#include "now_and_then.h"

// What another client shows in a masked round, and a caller in TLS: a certificate (PEM), and a signature.
// What somebody asks an authority with: a request for one. Bytes as they are, and bytes in the place of a
// true certificate's. None of it is vouched for. A certificate is read by OpenSSL, which takes a millisecond
// here.
namespace {

using namespace tacit;

struct Member {
  Identity own;
  Member() {
    const std::filesystem::path at =
        std::filesystem::temp_directory_path() / fmt::format("tacit_roster_fuzz_{}", ::getpid());
    TACIT_CHECK(MakeAuthority({.folder = at / "ca"}).ok());
    TACIT_CHECK(Issue({.authority = at / "ca", .folder = at, .name = "c0", .hosts = {}}).ok());
    own = *ReadIdentity(at / "ca/ca.pem", at / "c0.pem", at / "c0.key");
    std::filesystem::remove_all(at);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (!NowAndThen(data, size)) return 0;
  static const Member member;
  static const CertificateRoster roster(member.own.authority, {"c0"}, "job");
  static const Revocations revoked({}, member.own.authority);
  std::string shown(reinterpret_cast<const char*>(data), size);
  if (size > 2 && data[0] == 'e') {  // changes to the true one
    shown = member.own.certificate;
    for (std::size_t i = 1; i + 2 < size; i += 3)
      shown[(data[i] + 256u * data[i + 1]) % shown.size()] ^= static_cast<char>(data[i + 2]);
  }
  (void)NameIn(shown);
  if (const auto name = NameInRequest(shown, "fuzz.csr"); !name.ok())
    TACIT_CHECK(!name.error().message.empty());
  if (const Status s = revoked.Check(shown); !s.ok()) TACIT_CHECK(!s.error().message.empty());
  const auto raw = std::as_bytes(std::span(data, size));
  TACIT_CHECK(!roster.Verify(0, std::as_bytes(std::span(shown)), raw, raw).ok());
  return 0;
}
