#include "privacy/mask_keys.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <cstring>

#include "core/check.h"
#include "core/handle.h"

namespace tacit {
namespace {

using Key = Handle<EVP_PKEY, &EVP_PKEY_free>;
using KeyContext = Handle<EVP_PKEY_CTX, &EVP_PKEY_CTX_free>;
using Cipher = Handle<EVP_CIPHER_CTX, &EVP_CIPHER_CTX_free>;
using Kdf = Handle<EVP_KDF, &EVP_KDF_free>;
using KdfContext = Handle<EVP_KDF_CTX, &EVP_KDF_CTX_free>;

const unsigned char* In(std::span<const std::byte> b) {
  return reinterpret_cast<const unsigned char*>(b.data());
}
unsigned char* Out(std::span<std::byte> b) { return reinterpret_cast<unsigned char*>(b.data()); }

Key PrivateKey(const Secret& s) {
  Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, In(s.at), Secret::kSize));
  TACIT_CHECK(key != nullptr);
  return key;
}

constexpr unsigned char kZero[16] = {};

}  // namespace

void RandomBytes(std::span<std::byte> out) {
  TACIT_CHECK(RAND_priv_bytes(Out(out), static_cast<int>(out.size())) == 1);
}

void Wipe(std::span<std::byte> bytes) { OPENSSL_cleanse(bytes.data(), bytes.size()); }

Secret::~Secret() { Wipe(at); }

Secret Secret::Random() {
  Secret s;
  RandomBytes(s.at);
  return s;
}

bool Secret::operator==(const Secret& other) const {
  return CRYPTO_memcmp(at.data(), other.at.data(), kSize) == 0;
}

OpenKey PublicOf(const Secret& s) {
  const Key key = PrivateKey(s);
  OpenKey out{};
  std::size_t size = out.size();
  TACIT_CHECK(EVP_PKEY_get_raw_public_key(key.get(), Out(out), &size) == 1 && size == out.size());
  return out;
}

KeyPair KeyPair::Make() {
  KeyPair pair;
  pair.secret = Secret::Random();
  pair.open = PublicOf(pair.secret);
  return pair;
}

Result<Secret> Agree(const Secret& own, const OpenKey& other) {
  const Key mine = PrivateKey(own);
  const Key theirs(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, In(other), other.size()));
  const KeyContext context(EVP_PKEY_CTX_new(mine.get(), nullptr));
  TACIT_CHECK(theirs != nullptr && context != nullptr && EVP_PKEY_derive_init(context.get()) == 1);
  Secret shared;
  std::size_t size = Secret::kSize;
  // OpenSSL refuses the secret 0, which a key of small order makes.
  if (EVP_PKEY_derive_set_peer(context.get(), theirs.get()) != 1 ||
      EVP_PKEY_derive(context.get(), Out(shared.at), &size) != 1 || size != Secret::kSize)
    return Fail(Code::kMalformed, "a key of another client is none that a secret can be agreed with");
  return shared;
}

std::vector<std::byte> Hkdf(std::span<const std::byte> key, std::span<const std::byte> salt,
                            std::span<const std::byte> info, std::size_t size) {
  const Kdf kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  TACIT_CHECK(kdf != nullptr);
  const KdfContext context(EVP_KDF_CTX_new(kdf.get()));
  TACIT_CHECK(context != nullptr);
  char digest[] = "SHA256";
  const auto text = [](const char* name, std::span<const std::byte> b) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<std::byte*>(b.data()), b.size());
  };
  OSSL_PARAM parameters[5];
  std::size_t n = 0;
  parameters[n++] = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0);
  parameters[n++] = text(OSSL_KDF_PARAM_KEY, key);
  if (!salt.empty()) parameters[n++] = text(OSSL_KDF_PARAM_SALT, salt);
  if (!info.empty()) parameters[n++] = text(OSSL_KDF_PARAM_INFO, info);
  parameters[n] = OSSL_PARAM_construct_end();
  std::vector<std::byte> out(size);
  TACIT_CHECK(EVP_KDF_derive(context.get(), Out(out), size, parameters) == 1);
  return out;
}

Secret Derive(const Secret& key, std::string_view purpose, std::span<const std::byte> context) {
  std::vector<std::byte> info(purpose.size() + 1 + context.size());  // a 0 ends the purpose
  std::memcpy(info.data(), purpose.data(), purpose.size());
  if (!context.empty()) std::memcpy(info.data() + purpose.size() + 1, context.data(), context.size());
  std::vector<std::byte> made = Hkdf(key.at, {}, info, Secret::kSize);
  Secret out{std::span<const std::byte, Secret::kSize>(made)};
  OPENSSL_cleanse(made.data(), made.size());
  return out;
}

std::vector<std::byte> Encrypt(const Secret& key, std::span<const std::byte> plain,
                               std::span<const std::byte> context) {
  const Cipher c(EVP_CIPHER_CTX_new());
  std::vector<std::byte> out(plain.size() + kSealBytes);
  int size = 0;
  TACIT_CHECK(
      c != nullptr && EVP_EncryptInit_ex(c.get(), EVP_aes_256_gcm(), nullptr, In(key.at), kZero) == 1 &&
      EVP_EncryptUpdate(c.get(), nullptr, &size, In(context), static_cast<int>(context.size())) == 1 &&
      EVP_EncryptUpdate(c.get(), Out(out), &size, In(plain), static_cast<int>(plain.size())) == 1 &&
      static_cast<std::size_t>(size) == plain.size() &&
      EVP_EncryptFinal_ex(c.get(), Out(out) + plain.size(), &size) == 1 && size == 0 &&
      EVP_CIPHER_CTX_ctrl(c.get(), EVP_CTRL_AEAD_GET_TAG, kSealBytes, Out(out) + plain.size()) == 1);
  return out;
}

Result<std::vector<std::byte>> Decrypt(const Secret& key, std::span<const std::byte> sealed,
                                       std::span<const std::byte> context) {
  const Error broken = Fail(Code::kMalformed, "the cipher text is not as it was written");
  if (sealed.size() < kSealBytes) return broken;
  const Cipher c(EVP_CIPHER_CTX_new());
  std::vector<std::byte> out(sealed.size() - kSealBytes), tag(sealed.end() - kSealBytes, sealed.end());
  int size = 0;
  TACIT_CHECK(
      c != nullptr && EVP_DecryptInit_ex(c.get(), EVP_aes_256_gcm(), nullptr, In(key.at), kZero) == 1 &&
      EVP_DecryptUpdate(c.get(), nullptr, &size, In(context), static_cast<int>(context.size())) == 1 &&
      EVP_DecryptUpdate(c.get(), Out(out), &size, In(sealed), static_cast<int>(out.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(c.get(), EVP_CTRL_AEAD_SET_TAG, kSealBytes, tag.data()) == 1);
  if (EVP_DecryptFinal_ex(c.get(), Out(out) + out.size(), &size) != 1) {
    OPENSSL_cleanse(out.data(), out.size());
    return broken;
  }
  return out;
}

KeyStream::KeyStream(const Secret& key) : context_(EVP_CIPHER_CTX_new()) {
  TACIT_CHECK(context_ != nullptr && EVP_EncryptInit_ex(static_cast<EVP_CIPHER_CTX*>(context_),
                                                        EVP_aes_256_ctr(), nullptr, In(key.at), kZero) == 1);
}

KeyStream::~KeyStream() { EVP_CIPHER_CTX_free(static_cast<EVP_CIPHER_CTX*>(context_)); }

void KeyStream::Next(std::span<std::byte> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  int size = 0;
  TACIT_CHECK(out.size() < std::size_t{1} << 30 &&
              EVP_EncryptUpdate(static_cast<EVP_CIPHER_CTX*>(context_), Out(out), &size, In(out),
                                static_cast<int>(out.size())) == 1 &&
              static_cast<std::size_t>(size) == out.size());
}

}  // namespace tacit
