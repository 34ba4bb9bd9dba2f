#pragma once

// Signatures of certificates: Ed25519 (RFC 8032) over the bytes of the certificate file, exactly as they lie
// on the disk, in a file beside it:
//
//   certificate.json.sig   {"format": "tacit-signature-1", "algorithm": "Ed25519", "file":
//   "certificate.json",
//                           "sha256": of the file, "key": fingerprint, "signature": 64 bytes in base64}
//
// Keys are PEM files: PKCS #8 (private, encrypted or not) and SubjectPublicKeyInfo, so other tools read them.
// A fingerprint is "SHA256:" and the hash of the public key's DER form in hexadecimal digits.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

struct evp_pkey_st;

namespace tacit {

class PublicKey {
 public:
  static Result<PublicKey> Parse(std::string_view pem, const std::string& name);
  std::string Pem() const;
  std::string fingerprint() const;
  // Whether the 64 bytes are a signature of these bytes by this key.
  bool Signed(std::string_view bytes, std::string_view signature) const;

 private:
  friend class PrivateKey;
  explicit PublicKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}
  std::shared_ptr<evp_pkey_st> key_;
};

// Asked only if the key is encrypted.
using AskPassphrase = std::function<Result<std::string>(const std::string& name)>;

class PrivateKey {
 public:
  static Result<PrivateKey> New();
  static Result<PrivateKey> Parse(std::string_view pem, const std::string& name, const AskPassphrase&);
  // A file that others may read is refused.
  static Result<PrivateKey> Read(const std::filesystem::path&, const AskPassphrase&);
  std::string Pem(const std::optional<std::string>& passphrase) const;  // AES-256 if there is one
  PublicKey public_key() const { return PublicKey(key_); }
  std::string Sign(std::string_view bytes) const;  // 64 bytes

 private:
  explicit PrivateKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}
  std::shared_ptr<evp_pkey_st> key_;
};

// Writes NAME.pem (mode 0600) and NAME.pub.pem; what is there already is never overwritten.
struct KeyFiles {
  std::filesystem::path secret, shared;
};
Result<KeyFiles> WriteKeys(const std::filesystem::path& name, const PrivateKey&,
                           const std::optional<std::string>& passphrase);

struct Signature {
  std::string file, sha256, key;  // what was signed, and by whom: claims until checked
  std::string bytes;  // 64
};
std::filesystem::path SignatureBeside(const std::filesystem::path& certificate);
std::string SignatureJson(std::string_view signed_bytes, const std::string& file, const PrivateKey&);
Result<Signature> ParseSignature(std::string_view bytes, const std::string& name);  // total on any bytes
Status SignFile(const std::filesystem::path& certificate, const PrivateKey&);

// Why the certificate is not one that this key signed, as a sentence; nothing if it is.
std::optional<std::string> SignatureFault(const std::filesystem::path& certificate, std::string_view bytes,
                                          const PublicKey&, const std::string& key_name);

}  // namespace tacit
