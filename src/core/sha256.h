#pragma once

// SHA-256 (OpenSSL), all at once or piece by piece.
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tacit {

class Sha256 {
 public:
  using Digest = std::array<std::byte, 32>;
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();
  void Add(std::string_view bytes);
  template <class T> void Add(std::span<const T> values) {
    Add(std::string_view(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
  }
  Digest Finish();                                   // once; the object is then spent

  static std::string Hex(std::string_view bytes);    // of the whole, 64 lower-case digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Hex(std::span<const std::byte>);

}  // namespace tacit
