#pragma once

// Keys and certificates as OpenSSL has them, read from PEM. Null: it is none.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <string>
#include <string_view>

#include "core/handle.h"

namespace tacit::pem {

using Key = Handle<EVP_PKEY, &EVP_PKEY_free>;
using Certificate509 = Handle<X509, &X509_free>;
using Memory = Handle<BIO, &BIO_free>;

inline Memory Over(std::string_view text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}
// For all that is read: nobody is asked for a passphrase. OpenSSL's own answer where there is none is to ask
// at the terminal, and whoever sends a certificate may say that it is encrypted.
inline int NoPassphrase(char*, int, int, void*) { return -1; }
inline Certificate509 ParseCertificate(std::string_view text) {
  return Certificate509(PEM_read_bio_X509(Over(text).get(), nullptr, &NoPassphrase, nullptr));
}
inline Key ParseKey(std::string_view text) {
  return Key(PEM_read_bio_PrivateKey(Over(text).get(), nullptr, &NoPassphrase, nullptr));
}

// Empty unless there is exactly one.
inline std::string CommonName(const X509_NAME* subject) {
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) return "";
  const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

}  // namespace tacit::pem
