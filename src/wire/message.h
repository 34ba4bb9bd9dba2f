#pragma once

// What may travel. A message lists its fields, and every field is Public or Released, or Entrusted to a
// server whom the clients trust: a bare vector or number does not compile. A frame cannot be made of what is
// entrusted; it stays in the process.
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/private.h"
#include "core/vec.h"
#include "privacy/bounded.h"

namespace tacit {

// A number or a vector of numbers: what has a form on the wire, and cannot hide a Private or a pointer.
template <class T> inline constexpr bool kIsPayload = std::is_arithmetic_v<T>;
template <class T> inline constexpr bool kIsPayload<std::vector<T>> = std::is_arithmetic_v<T>;

template <class T> inline constexpr bool kMayTravel = false;             // a bare double may not
template <class T> inline constexpr bool kMayTravel<Public<T>> = kIsPayload<T>;
template <class T> inline constexpr bool kMayTravel<Released<T>> = kIsPayload<T>;
template <> inline constexpr bool kMayTravel<Entrusted> = true;

namespace internal {
template <class Tuple> inline constexpr bool kAllMayTravel = false;
template <class... F>
inline constexpr bool kAllMayTravel<std::tuple<F&...>> = (kMayTravel<std::remove_const_t<F>> && ...);
}  // namespace internal

template <class M>
concept Message =
    requires(M m) { m.Fields(); } && internal::kAllMayTravel<decltype(std::declval<M&>().Fields())>;

// Bytes of a payload on the wire: numbers as they are, vectors as a 64-bit length and their elements.
template <class T>
requires std::is_arithmetic_v<T> std::size_t PayloadSize(const T&) {
  return sizeof(T);
}
template <class T>
std::size_t PayloadSize(const std::vector<T>& v) {
  return sizeof(std::uint64_t) + v.size() * sizeof(T);
}

template <class T> std::size_t FieldSize(const Public<T>& f) { return PayloadSize(*f); }
template <class T> std::size_t FieldSize(const Released<T>& f) { return PayloadSize(*f); }
inline std::size_t FieldSize(const Entrusted& f) { return sizeof(std::uint64_t) + f.dim() * sizeof(double); }

inline constexpr std::size_t kFrameHeader = 16;       // see frame.h

// What a message takes on the wire, header included; in-process runs count it without encoding.
template <Message M>
std::size_t WireSize(M& m) {
  return std::apply([](const auto&... f) { return (kFrameHeader + ... + FieldSize(f)); }, m.Fields());
}

}  // namespace tacit
