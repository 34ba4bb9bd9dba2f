#pragma once

// For tests: a list of revoked certificates that its authority meant to replace by now.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "experiment/files.h"
#include "net/pem.h"

namespace tacit {

// Of the authority in this folder, without certificates; PEM.
inline std::string OutdatedList(const std::filesystem::path& authority) {
  const auto certificate = ReadWhole(authority / "ca.pem"), secret = ReadWhole(authority / "ca.key");
  EXPECT_TRUE(certificate.ok() && secret.ok());
  const pem::Certificate509 x = pem::ParseCertificate(*certificate);
  const pem::Key key = pem::ParseKey(*secret);
  const Handle<X509_CRL, &X509_CRL_free> list(X509_CRL_new());
  const Handle<ASN1_TIME, &ASN1_TIME_free> before(X509_gmtime_adj(nullptr, -2L * 86400)),
      after(X509_gmtime_adj(nullptr, -86400));
  X509_CRL_set_version(list.get(), 1);
  X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(x.get()));
  X509_CRL_set1_lastUpdate(list.get(), before.get());
  X509_CRL_set1_nextUpdate(list.get(), after.get());
  EXPECT_GT(X509_CRL_sign(list.get(), key.get(), EVP_sha256()), 0);
  const pem::Memory out(BIO_new(BIO_s_mem()));
  EXPECT_EQ(PEM_write_bio_X509_CRL(out.get(), list.get()), 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace tacit
