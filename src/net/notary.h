#pragma once

// Clients of a masked round know each other by the certificates they have for TLS (P-256 keys, ca.h): what
// one signs, the others check against the authority and against its name in the job. So a server cannot make
// up clients, unless it is the authority as well.
#include <string>
#include <vector>

#include "net/ca.h"
#include "runtime/mask_round.h"

namespace tacit {

class CertificateRoster final : public Roster {
 public:
  // clients: certificate names by client id; job: id of the run.
  CertificateRoster(std::string authority_pem, std::vector<std::string> clients, std::string job)
      : authority_(std::move(authority_pem)), clients_(std::move(clients)), job_(std::move(job)) {}
  std::string job() const override { return job_; }
  Status Verify(std::uint32_t client, std::span<const std::byte> certificate,
                std::span<const std::byte> message, std::span<const std::byte> signature) const override;

 private:
  std::string authority_;
  std::vector<std::string> clients_;
  std::string job_;
};

class CertificateNotary final : public Notary {
 public:
  // revocations: crl.pem, read anew at every check; empty: none.
  CertificateNotary(const Identity& own, std::vector<std::string> clients, std::string job,
                    std::filesystem::path revocations = {})
      : own_(own),
        others_(own.authority, std::move(clients), std::move(job)),
        revoked_(std::move(revocations), own.authority) {}
  std::string job() const override { return others_.job(); }
  Status Verify(std::uint32_t client, std::span<const std::byte> certificate,
                std::span<const std::byte> message, std::span<const std::byte> signature) const override {
    TACIT_OK(revoked_.Check({reinterpret_cast<const char*>(certificate.data()), certificate.size()}));
    return others_.Verify(client, certificate, message, signature);
  }
  Bytes certificate() const override;
  Result<Bytes> Sign(std::span<const std::byte> message) const override;

 private:
  Identity own_;
  CertificateRoster others_;
  Revocations revoked_;
};

}  // namespace tacit
