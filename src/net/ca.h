#pragma once

// Who is who between machines: X.509 certificates from one authority per federation (OpenSSL; P-256). A
// certificate's common name is the client's id. The authority is a folder:
//
//   ca.pem      its certificate: for everyone      issued.txt  serial, name, role and end of each certificate
//   ca.key      for its owner alone (mode 0600)    crl.pem     revoked certificates: for everyone
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "experiment/signature.h"

namespace tacit {

// A peer on a graph calls its neighbours and is called by them.
enum class Party { kClient, kServer, kPeer };
const char* Name(Party);
// What a peer's certificate is for: a name that is no host's, so that a peer never passes as a server.
std::string PeerHost(const std::string& name);
// What a server's certificate is for, beside its hosts: by it a client knows which server it is.
std::string ServerHost(const std::string& name);

struct NewAuthority {
  std::filesystem::path folder;
  std::string name = "tacit";
  int days = 3650;
  std::optional<std::string> passphrase = {};  // what ca.key is encrypted with (PKCS #8, AES-256)
};
Status MakeAuthority(const NewAuthority&);  // never over another

// A private key and a request for a certificate, made where the key is to stay: NAME.key and NAME.csr.
struct NewRequest {
  std::filesystem::path folder;
  std::string name;
};
struct RequestFiles {
  std::filesystem::path request, key;
};
Result<RequestFiles> MakeRequest(const NewRequest&);  // never over files that are there
// Who asks, by a request that is signed with the key it is about; the name is not checked. file: for errors.
Result<std::string> NameInRequest(const std::string& pem, const std::string& file);

struct NewCertificate {
  std::filesystem::path authority, folder;  // the files NAME.pem and NAME.key go to `folder`
  std::string name;  // with a request: as it says there, or empty
  std::filesystem::path request = {};  // whose key it is for; empty: a new key, to be handed over
  Party party = Party::kClient;
  std::vector<std::string> hosts;  // a server's names and addresses
  int days = 365;  // negative: it has expired already
};
struct IssuedFiles {
  std::filesystem::path certificate, key;  // key: empty with a request
  std::string name, serial;
};
// Never over files that are there. ask: for the passphrase of ca.key, if it has one.
Result<IssuedFiles> Issue(const NewCertificate&, const AskPassphrase& ask = {});

// All certificates of this name that were issued so far; how many. One issued later is valid.
Result<std::size_t> Revoke(const std::filesystem::path& authority, const std::string& name,
                           const AskPassphrase& ask = {});

// What a machine proves itself with, and whom it believes.
struct Identity {
  std::string authority, certificate, key;  // PEM
  std::string name;  // of the certificate
};
// A private key that others may read is refused.
Result<Identity> ReadIdentity(const std::filesystem::path& authority,
                              const std::filesystem::path& certificate, const std::filesystem::path& key);

// The common name of a certificate (PEM); empty: it has none, or several, of which others may read another.
std::string NameIn(const std::string& certificate);

// The list of revoked certificates of an authority, read anew at every check. Thread-safe.
class Revocations {
 public:
  // file: empty for none.
  Revocations(std::filesystem::path file, std::string authority_pem);
  // Why a certificate (PEM) may not be used. kIo: the list cannot be read or trusted now, which says nothing
  // of the certificate; anything else: it is revoked, or not valid now.
  Status Check(const std::string& certificate) const;
  Status Readable() const;  // kIo: as above
  // Whether there was to be a newer list by now; of the list as it was read last.
  bool Outdated() const;
  // The same of the list alone, where this text (PEM) is what the file holds.
  Status CheckBy(const std::string& list, const std::string& certificate) const;

 private:
  Status Read() const;  // with the mutex of Known, as what follows
  Status Hold(const std::string& text) const;
  Status Listed(const std::string& certificate) const;  // by the list that is held
  struct Known;  // the list as it was read last: its signature is checked when it changes
  std::filesystem::path file_;
  std::string authority_;
  std::shared_ptr<Known> known_;
};

}  // namespace tacit
