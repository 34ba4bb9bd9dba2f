#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/check.h"
#include "experiment/files.h"
#include "net/notary.h"
#include "net/pem.h"
#include "now_and_then.h"

// What another client shows in a masked round, and a caller in TLS: a certificate (PEM), and a signature.
// What somebody asks an authority with: a request for one. The first byte: 'e' changes to a true certificate,
// 'r' to a true request, 'n' a certificate whose subject has the names that follow; otherwise bytes as they
// are. The name is read of every input, as the request and the dates are; chains and signatures, which
// OpenSSL checks, of one in 64. None is vouched for.
namespace {

using namespace tacit;

struct Member {
  Identity own;
  std::string request;
  pem::Certificate509 form;
  Member() {
    const std::filesystem::path at =
        std::filesystem::temp_directory_path() / fmt::format("tacit_roster_fuzz_{}", ::getpid());
    TACIT_CHECK(MakeAuthority({.folder = at / "ca"}).ok());
    TACIT_CHECK(Issue({.authority = at / "ca", .folder = at, .name = "c0", .hosts = {}}).ok());
    own = *ReadIdentity(at / "ca/ca.pem", at / "c0.pem", at / "c0.key");
    TACIT_CHECK(MakeRequest({.folder = at, .name = "asks"}).ok());
    request = *ReadWhole(at / "asks.csr", 1 << 20);
    form = pem::ParseCertificate(own.certificate);
    std::filesystem::remove_all(at);
  }
};

// Of two bytes each: which kind of name, and how long it is; then the name.
void Names(X509* form, std::span<const std::uint8_t> in) {
  static constexpr int kKinds[] = {NID_commonName, NID_commonName, NID_organizationName, NID_countryName};
  const Handle<X509_NAME, &X509_NAME_free> subject(X509_NAME_new());
  std::string only;
  int common = 0;
  for (int k = 0; k < 4 && in.size() > 2; ++k) {
    const int kind = kKinds[in[0] % 4];
    const std::size_t size = std::min<std::size_t>(in[1], in.size() - 2);
    if (X509_NAME_add_entry_by_NID(subject.get(), kind, V_ASN1_UTF8STRING, in.data() + 2,
                                   static_cast<int>(size), -1, 0) == 1 &&
        kind == NID_commonName) {
      only.assign(reinterpret_cast<const char*>(in.data()) + 2, size);
      ++common;
    }
    in = in.subspan(2 + size);
  }
  if (X509_set_subject_name(form, subject.get()) != 1 || i2d_re_X509_tbs(form, nullptr) <= 0) return;
  const pem::Memory out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(out.get(), form) != 1) return;
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  const std::string name = NameIn(std::string(text, static_cast<std::size_t>(size)));
  TACIT_CHECK(name == (common == 1 ? only : ""));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Member member;
  static const CertificateRoster roster(member.own.authority, {"c0"}, "job");
  static const Revocations revoked({}, member.own.authority);
  if (size > 2 && data[0] == 'n') {
    Names(member.form.get(), {data + 1, size - 1});
    return 0;
  }
  std::string shown(reinterpret_cast<const char*>(data), size);
  if (size > 2 && (data[0] == 'e' || data[0] == 'r')) {  // changes to the true one
    shown = data[0] == 'e' ? member.own.certificate : member.request;
    for (std::size_t i = 1; i + 2 < size; i += 3)
      shown[(data[i] + 256u * data[i + 1]) % shown.size()] ^= static_cast<char>(data[i + 2]);
  }
  const bool asks = shown.find("REQUEST") != shown.npos;
  if (!asks) {
    (void)NameIn(shown);
    if (const Status s = revoked.Check(shown); !s.ok()) TACIT_CHECK(!s.error().message.empty());
  } else if (const auto name = NameInRequest(shown, "fuzz.csr"); !name.ok()) {
    TACIT_CHECK(!name.error().message.empty());
  }
  if (!NowAndThen(data, size)) return 0;
  const auto raw = std::as_bytes(std::span(data, size));
  TACIT_CHECK(!roster.Verify(0, std::as_bytes(std::span(shown)), raw, raw).ok());
  return 0;
}
