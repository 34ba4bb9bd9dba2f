#pragma once

// Message ↔ bytes. Little-endian:
//   magic "TCT1" | u32 CRC-32 of the payload | u64 payload length | payload: the fields in order
// A field is its number, or a u64 count and that many numbers (of a compressed vector: bytes); a masked one
// is u32 b, a u64 count and b/8 bytes for each number. Decoding refuses whatever is not exactly that. A
// decoded Released is the sender's claim; nobody can check it here. What is entrusted to a server is a vector
// like any other on the wire, and gets there only by a client's word that the server is trusted.
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "core/result.h"
#include "wire/message.h"

namespace tacit {

static_assert(std::endian::native == std::endian::little, "the frame is written as it lies in memory");

std::uint32_t Crc32(std::span<const std::byte>);

class Codec {
 public:
  template <Message M>
  static std::vector<std::byte> Encode(M& m) {
    std::vector<std::byte> out(kFrameHeader);
    out.reserve(WireSize(m));
    std::apply([&](const auto&... f) { (Put(out, Sent(f)), ...); }, m.Fields());
    Seal(out);
    return out;
  }

  template <Message M>
  static Result<M> Decode(std::span<const std::byte> frame) {
    TACIT_TRY(std::span<const std::byte> rest, Open(frame));
    M m;
    bool ok = true;
    std::apply([&](auto&... f) { ((ok = ok && Get(rest, Slot(f))), ...); }, m.Fields());
    if (!ok || !rest.empty())
      return Fail(Code::kMalformed,
                  "frame: the payload does not have the fields of this message; sender and receiver must run "
                  "the same version");
    return m;
  }

  // For a server that the client's operator trusts, over a channel that only this server can read.
  static std::vector<std::byte> Encode(const Entrusted&, const ServerTrust&);
  // At that server: private, and to be judged by Bounded::Accept.
  static Result<Private<Vec>> DecodeEntrusted(std::span<const std::byte> frame);

 private:
  template <class T> static T& Slot(Public<T>& f) { return f.Mutable(); }
  template <class T> static T& Slot(Released<T>& f) { return f.value_; }
  static Masked& Slot(Masked& f) { return f; }
  template <class F> static const auto& Sent(const F& f) { return *f; }
  static const Masked& Sent(const Masked& f) { return f; }

  static void Append(std::vector<std::byte>& out, const void* data, std::size_t size) {
    const std::size_t at = out.size();
    out.resize(at + size);
    if (size != 0) std::memcpy(out.data() + at, data, size);
  }
  template <class T>
  requires std::is_arithmetic_v<T> static void Put(std::vector<std::byte>& out, const T& v) {
    Append(out, &v, sizeof v);
  }
  template <class T>
  static void Put(std::vector<std::byte>& out, const std::vector<T>& v) {
    Put(out, static_cast<std::uint64_t>(v.size()));
    Append(out, v.data(), v.size() * sizeof(T));
  }
  static void Put(std::vector<std::byte>& out, const Encoded& e) { Put(out, e.data); }
  template <class T>
  requires std::is_arithmetic_v<T> static bool Get(std::span<const std::byte>& in, T& v) {
    if (in.size() < sizeof v) return false;
    std::memcpy(&v, in.data(), sizeof v);
    in = in.subspan(sizeof v);
    return true;
  }
  template <class T>
  static bool Get(std::span<const std::byte>& in, std::vector<T>& v) {
    std::uint64_t n = 0;
    if (!Get(in, n) || n > in.size() / sizeof(T)) return false;  // never allocates beyond the input
    v.resize(static_cast<std::size_t>(n));
    if (n != 0) std::memcpy(v.data(), in.data(), v.size() * sizeof(T));
    in = in.subspan(v.size() * sizeof(T));
    return true;
  }

  static bool Get(std::span<const std::byte>& in, Encoded& e) { return Get(in, e.data); }
  static void Put(std::vector<std::byte>& out, const Masked& m);  // without its masks: a bug, which stops
  static bool Get(std::span<const std::byte>& in, Masked& m);

  static void Seal(std::vector<std::byte>& out);  // writes the header
  static Result<std::span<const std::byte>> Open(std::span<const std::byte> frame);  // checks it
};

}  // namespace tacit
