#include "experiment/signature.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/sha256.h"
#include "experiment/verify.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kSignatureBytes = 64, kBase64 = 88, kLargestPem = 1 << 16;
constexpr const char* kHowToMake = "`tacit keys new NAME` makes a pair";

std::shared_ptr<EVP_PKEY> Own(EVP_PKEY* key) { return {key, &EVP_PKEY_free}; }
using Bio = std::unique_ptr<BIO, int (*)(BIO*)>;
using MdContext = std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)>;

Bio Reading(std::string_view text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free};
}

std::string Written(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Status ExpectEd25519(const EVP_PKEY* key, const std::string& name) {
  if (EVP_PKEY_get_id(key) == EVP_PKEY_ED25519) return Ok{};
  const char* type = EVP_PKEY_get0_type_name(key);
  return Fail(Code::kUnsupported, "{}: is a key of type {}, and certificates are signed with Ed25519; {}",
              name, type == nullptr ? "unknown" : type, kHowToMake);
}

struct Asked {
  const AskPassphrase* ask;
  const std::string* name;
  std::optional<Error> error;
};

// OpenSSL's callback for a passphrase.
int Answer(char* buffer, int size, int, void* context) {
  auto* asked = static_cast<Asked*>(context);
  auto answer = (*asked->ask)(*asked->name);
  if (!answer.ok()) {
    asked->error = answer.error();
    return -1;
  }
  std::string& text = *answer;
  int used = -1;
  if (text.size() <= static_cast<std::size_t>(size)) {
    std::copy(text.begin(), text.end(), buffer);
    used = static_cast<int>(text.size());
  } else {
    asked->error = Fail(Code::kInvalidArgument, "the passphrase of {}: has {} bytes, at most {}",
                        *asked->name, text.size(), size);
  }
  OPENSSL_cleanse(text.data(), text.size());
  return used;
}

Status WriteFile(const fs::path& file, std::string_view bytes, int flags, unsigned mode) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, mode);
  if (fd < 0 && errno == EEXIST)
    return Fail(Code::kInvalidArgument, "{}: is there already and is not overwritten; choose another name",
                file.string());
  if (fd < 0)
    return Fail(Code::kIo, "{}: cannot be created: {}; choose another folder", file.string(),
                std::strerror(errno));
  bool good = true;
  while (good && !bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    good = n > 0;
    if (good) bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  good = ::fsync(fd) == 0 && good;
  const int error = errno;
  ::close(fd);
  if (good) return Ok{};
  ::unlink(file.c_str());
  return Fail(Code::kIo, "{}: cannot be written: {}", file.string(), std::strerror(error));
}

std::string Base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int n =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(n));
  return out;
}

}  // namespace

Result<PublicKey> PublicKey::Parse(std::string_view pem, const std::string& name) {
  if (pem.find("PRIVATE KEY-----") != std::string_view::npos)
    return Fail(
        Code::kInvalidArgument,
        "{}: is a private key; give the public one, the .pub.pem beside it, and keep this to yourself", name);
  EVP_PKEY* key = nullptr;
  // Nobody is asked for a passphrase, as OpenSSL would do at the terminal.
  const auto none = [](char*, int, int, void*) { return -1; };
  if (pem.size() <= kLargestPem) key = PEM_read_bio_PUBKEY(Reading(pem).get(), nullptr, none, nullptr);
  ERR_clear_error();
  if (key == nullptr)
    return Fail(Code::kMalformed, "{}: is not a public key in PEM form; {}", name, kHowToMake);
  PublicKey out(Own(key));
  TACIT_OK(ExpectEd25519(key, name));
  return out;
}

std::string PublicKey::Pem() const {
  const Bio bio(BIO_new(BIO_s_mem()), &BIO_free);
  TACIT_CHECK(bio && PEM_write_bio_PUBKEY(bio.get(), key_.get()) == 1);
  return Written(bio.get());
}

std::string PublicKey::fingerprint() const {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key_.get(), &der);
  TACIT_CHECK(size > 0);
  std::string hash =
      "SHA256:" + Sha256::Hex({reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)});
  OPENSSL_free(der);
  return hash;
}

bool PublicKey::Signed(std::string_view bytes, std::string_view signature) const {
  const MdContext context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  TACIT_CHECK(context && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1);
  const int good =
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  ERR_clear_error();
  return good == 1;
}

Result<PrivateKey> PrivateKey::New() {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  if (key == nullptr) return Fail(Code::kInternal, "OpenSSL cannot make an Ed25519 key on this system");
  return PrivateKey(Own(key));
}

Result<PrivateKey> PrivateKey::Parse(std::string_view pem, const std::string& name,
                                     const AskPassphrase& ask) {
  Asked asked{&ask, &name, std::nullopt};
  EVP_PKEY* key = nullptr;
  if (pem.size() <= kLargestPem) key = PEM_read_bio_PrivateKey(Reading(pem).get(), nullptr, &Answer, &asked);
  ERR_clear_error();
  if (key == nullptr && asked.error) return *asked.error;
  if (key == nullptr && pem.find("ENCRYPTED PRIVATE KEY-----") != std::string_view::npos)
    return Fail(Code::kInvalidArgument, "{}: the passphrase does not open it; give the one it was made with",
                name);
  if (key == nullptr && pem.find("PUBLIC KEY-----") != std::string_view::npos)
    return Fail(Code::kInvalidArgument, "{}: is a public key; give the private one, the .pem without .pub",
                name);
  if (key == nullptr)
    return Fail(Code::kMalformed, "{}: is not a private key in PEM form; {}", name, kHowToMake);
  PrivateKey out(Own(key));
  TACIT_OK(ExpectEd25519(key, name));
  return out;
}

Result<PrivateKey> PrivateKey::Read(const fs::path& file, const AskPassphrase& ask) {
  TACIT_TRY(std::string pem, ReadWhole(file, "a private key; `tacit keys new NAME` makes one"));
  struct stat about = {};
  if (::stat(file.c_str(), &about) == 0 && (about.st_mode & 077) != 0 &&
      pem.find("PUBLIC KEY-----") == std::string::npos)
    return Fail(Code::kInvalidArgument, "{}: others may read it (mode {:03o}); a private key needs chmod 600",
                file.string(), about.st_mode & 0777);
  auto key = Parse(pem, file.string(), ask);
  OPENSSL_cleanse(pem.data(), pem.size());
  return key;
}

std::string PrivateKey::Pem(const std::optional<std::string>& passphrase) const {
  const Bio bio(BIO_new(BIO_s_secmem()), &BIO_free);
  const char* secret = passphrase ? passphrase->data() : nullptr;
  TACIT_CHECK(bio && PEM_write_bio_PKCS8PrivateKey(
                         bio.get(), key_.get(), passphrase ? EVP_aes_256_cbc() : nullptr, secret,
                         passphrase ? static_cast<int>(passphrase->size()) : 0, nullptr, nullptr) == 1);
  return Written(bio.get());
}

std::string PrivateKey::Sign(std::string_view bytes) const {
  const MdContext context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  std::array<unsigned char, kSignatureBytes> out{};
  std::size_t size = out.size();
  TACIT_CHECK(context && EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1);
  TACIT_CHECK(EVP_DigestSign(context.get(), out.data(), &size,
                             reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) == 1);
  TACIT_CHECK(size == kSignatureBytes);
  return {reinterpret_cast<const char*>(out.data()), size};
}

Result<KeyFiles> WriteKeys(const fs::path& name, const PrivateKey& key,
                           const std::optional<std::string>& passphrase) {
  const KeyFiles files{name.string() + ".pem", name.string() + ".pub.pem"};
  std::string pem = key.Pem(passphrase);
  const Status written = WriteFile(files.secret, pem, O_EXCL, 0600);
  OPENSSL_cleanse(pem.data(), pem.size());
  if (!written.ok()) return written.error();
  if (Status shared = WriteFile(files.shared, key.public_key().Pem(), O_EXCL, 0644); !shared.ok()) {
    ::unlink(files.secret.c_str());  // half a pair is none
    return shared.error();
  }
  return files;
}

fs::path SignatureBeside(const fs::path& certificate) { return certificate.string() + ".sig"; }

std::string SignatureJson(std::string_view signed_bytes, const std::string& file, const PrivateKey& key) {
  const nlohmann::ordered_json document = {{"format", "tacit-signature-1"},
                                           {"algorithm", "Ed25519"},
                                           {"file", file},
                                           {"sha256", Sha256::Hex(signed_bytes)},
                                           {"key", key.public_key().fingerprint()},
                                           {"signature", Base64(key.Sign(signed_bytes))}};
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Signature> ParseSignature(std::string_view bytes, const std::string& name) {
  const auto bad = [&](const std::string& why) {
    return Fail(Code::kMalformed, "{}: {}; give the file that `tacit sign` wrote, or sign again", name, why);
  };
  if (bytes.size() > kLargestPem)
    return bad(fmt::format("holds {} bytes, more than any signature", bytes.size()));
  const json j = json::parse(bytes, nullptr, false);
  if (j.is_discarded()) return bad("is not JSON");
  if (!j.is_object() || j.value("format", json()) != "tacit-signature-1")
    return bad("is not a signature of the format tacit-signature-1");
  Signature s;
  std::string text, algorithm;
  const std::pair<const char*, std::string*> kFields[] = {{"algorithm", &algorithm},
                                                          {"file", &s.file},
                                                          {"sha256", &s.sha256},
                                                          {"key", &s.key},
                                                          {"signature", &text}};
  for (const auto& [key, into] : kFields) {
    if (!j.contains(key)) return bad(fmt::format("{} is missing", key));
    if (!j[key].is_string()) return bad(fmt::format("{} must be text", key));
    *into = j[key].get<std::string>();
  }
  if (algorithm != "Ed25519")
    return bad(fmt::format("algorithm = \"{}\": must be Ed25519", algorithm.substr(0, 40)));
  if (text.size() != kBase64)
    return bad(fmt::format("signature has {} characters, not {}", text.size(), kBase64));
  std::array<unsigned char, kBase64 / 4 * 3> raw{};
  const int n = EVP_DecodeBlock(raw.data(), reinterpret_cast<const unsigned char*>(text.data()),
                                static_cast<int>(text.size()));
  ERR_clear_error();
  if (n == static_cast<int>(raw.size()))
    s.bytes.assign(reinterpret_cast<const char*>(raw.data()), kSignatureBytes);
  if (s.bytes.empty() || Base64(s.bytes) != text) return bad("signature is not base64 of 64 bytes");
  return s;
}

Status SignFile(const fs::path& certificate, const PrivateKey& key) {
  TACIT_TRY(const std::string bytes, ReadWhole(certificate, "a certificate.json that `tacit train` wrote"));
  // Beside its place and renamed: a reader sees the old signature or the new one.
  const fs::path file = SignatureBeside(certificate), part = file.string() + ".part";
  TACIT_OK(WriteFile(part, SignatureJson(bytes, certificate.filename().string(), key), O_TRUNC, 0644));
  if (::rename(part.c_str(), file.c_str()) == 0) return Ok{};
  const int error = errno;
  ::unlink(part.c_str());
  return Fail(Code::kIo, "{}: cannot be put in place: {}", file.string(), std::strerror(error));
}

std::optional<std::string> SignatureFault(const fs::path& certificate, std::string_view bytes,
                                          const PublicKey& key, const std::string& key_name) {
  const fs::path file = SignatureBeside(certificate);
  std::error_code ec;
  if (!fs::exists(file, ec) && !ec)
    return fmt::format("{}: is not signed, there is no {} beside it; sign it with `tacit sign`",
                       certificate.string(), file.filename().string());
  const auto text = ReadWhole(file, "the signature that `tacit sign` wrote");
  if (!text.ok()) return text.error().message;
  const auto signature = ParseSignature(*text, file.string());
  if (!signature.ok()) return signature.error().message;
  if (key.Signed(bytes, signature->bytes)) return std::nullopt;
  if (signature->key != key.fingerprint())
    return fmt::format("{}: is signed by {}, not by {} ({}); give the key of who signed",
                       certificate.string(), signature->key.substr(0, 71), key_name, key.fingerprint());
  return fmt::format("{}: was changed after {} ({}) signed it: its SHA-256 is {}, and {} was signed",
                     certificate.string(), key_name, key.fingerprint(), Sha256::Hex(bytes),
                     signature->sha256.substr(0, 64));
}

}  // namespace tacit
