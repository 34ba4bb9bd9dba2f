#include "net/notary.h"

#include "net/pem.h"

namespace tacit {
namespace {

using pem::Certificate509;
using Store = Handle<X509_STORE, &X509_STORE_free>;
using StoreContext = Handle<X509_STORE_CTX, &X509_STORE_CTX_free>;
using Digest = Handle<EVP_MD_CTX, &EVP_MD_CTX_free>;

Certificate509 Parse(std::span<const std::byte> text) {
  return pem::ParseCertificate({reinterpret_cast<const char*>(text.data()), text.size()});
}
const unsigned char* In(std::span<const std::byte> b) {
  return reinterpret_cast<const unsigned char*>(b.data());
}

// Vouched for by the authority, for clients, and valid now.
bool Vouched(X509* x, X509* authority) {
  const Store store(X509_STORE_new());
  const StoreContext context(X509_STORE_CTX_new());
  return store && context && X509_STORE_add_cert(store.get(), authority) == 1 &&
         X509_STORE_CTX_init(context.get(), store.get(), x, nullptr) == 1 &&
         X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_CLIENT) == 1 &&
         X509_verify_cert(context.get()) == 1;
}

}  // namespace

Status CertificateRoster::Verify(std::uint32_t client, std::span<const std::byte> certificate,
                                 std::span<const std::byte> message,
                                 std::span<const std::byte> signature) const {
  const Certificate509 x = Parse(certificate), authority = pem::ParseCertificate(authority_);
  if (!x || !authority || client >= clients_.size())
    return Fail(Code::kMalformed, "the certificate cannot be read");
  if (!Vouched(x.get(), authority.get()))
    return Fail(Code::kInvalidArgument, "the authority does not vouch for its certificate");
  if (pem::CommonName(X509_get_subject_name(x.get())) != clients_[client])
    return Fail(Code::kInvalidArgument, "the certificate is not that of {}", clients_[client]);
  const Digest digest(EVP_MD_CTX_new());
  if (digest &&
      EVP_DigestVerifyInit(digest.get(), nullptr, EVP_sha256(), nullptr, X509_get0_pubkey(x.get())) == 1 &&
      EVP_DigestVerify(digest.get(), In(signature), signature.size(), In(message), message.size()) == 1)
    return Ok{};
  return Fail(Code::kInvalidArgument, "the signature is not that of {}", clients_[client]);
}

Bytes CertificateNotary::certificate() const {
  const auto raw = std::as_bytes(std::span(own_.certificate));
  return {raw.begin(), raw.end()};
}

Result<Bytes> CertificateNotary::Sign(std::span<const std::byte> message) const {
  const pem::Key key = pem::ParseKey(own_.key);
  const Digest digest(EVP_MD_CTX_new());
  std::size_t size = 0;
  Bytes out;
  if (key && digest && EVP_DigestSignInit(digest.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1 &&
      EVP_DigestSign(digest.get(), nullptr, &size, In(message), message.size()) == 1) {
    out.resize(size);
    if (EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(out.data()), &size, In(message),
                       message.size()) == 1) {
      out.resize(size);
      return out;
    }
  }
  return Fail(Code::kInternal, "signing with the certificate's key failed in OpenSSL");
}

}  // namespace tacit
