#include "core/sha256.h"

#include <openssl/evp.h>

#include <utility>

#include "core/check.h"
#include "core/handle.h"

namespace tacit {

struct Sha256::State {
  Handle<EVP_MD_CTX, &EVP_MD_CTX_free> context{EVP_MD_CTX_new()};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  TACIT_CHECK(state_->context != nullptr &&
              EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1);
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::Add(std::string_view bytes) {
  TACIT_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

Sha256::Digest Sha256::Finish() {
  Digest digest{};
  TACIT_CHECK(EVP_DigestFinal_ex(state_->context.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                 nullptr) == 1);
  return digest;
}

std::string Sha256::Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Add(bytes);
  return tacit::Hex(hash.Finish());
}

std::string Hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out += kDigits[std::to_integer<unsigned>(b) >> 4];
    out += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

}  // namespace tacit
