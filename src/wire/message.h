#pragma once

// What may travel. A message lists its fields, and every field is Public, Released or Masked, or Entrusted to
// a server whom the clients trust: a bare vector or number does not compile. A frame of what is entrusted
// needs a ServerTrust; it stays in the process otherwise. What is Masked has a form on the wire once masks
// cover it.
#include <array>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <vector>

#include "compress/encoded.h"
#include "core/lanes.h"
#include "core/private.h"
#include "core/vec.h"
#include "privacy/bounded.h"
#include "privacy/secure_sum.h"

namespace tacit {

// A number, a vector of numbers or a compressed one: what has a form on the wire, and cannot hide a Private
// or a pointer.
template <class T> inline constexpr bool kIsPayload = std::is_arithmetic_v<T>;
template <class T> inline constexpr bool kIsPayload<std::vector<T>> = std::is_arithmetic_v<T>;
template <> inline constexpr bool kIsPayload<Encoded> = true;  // a compressed vector: bytes

template <class T> inline constexpr bool kMayTravel = false;  // a bare double may not
template <class T> inline constexpr bool kMayTravel<Public<T>> = kIsPayload<T>;
template <class T> inline constexpr bool kMayTravel<Released<T>> = kIsPayload<T>;
template <> inline constexpr bool kMayTravel<Entrusted> = true;
template <> inline constexpr bool kMayTravel<Masked> = true;

namespace internal {
template <class Tuple> inline constexpr bool kAllMayTravel = false;
template <class... F>
inline constexpr bool kAllMayTravel<std::tuple<F&...>> = (kMayTravel<std::remove_const_t<F>> && ...);
}  // namespace internal

template <class M>
concept Message =
    requires(M m) { m.Fields(); } && internal::kAllMayTravel<decltype(std::declval<M&>().Fields())>;

// What can leave the process by itself: all but what is entrusted.
namespace internal {
template <class Tuple> inline constexpr bool kAllFramed = false;
template <class... F>
inline constexpr bool kAllFramed<std::tuple<F&...>> =
    (!std::is_same_v<std::remove_const_t<F>, Entrusted> && ...);
}  // namespace internal
template <class M>
concept Framed = Message<M> && internal::kAllFramed<decltype(std::declval<M&>().Fields())>;

// A message that is one entrusted vector.
template <class M>
concept IsEntrusted =
    Message<M> && std::is_same_v<decltype(std::declval<M&>().Fields()), std::tuple<Entrusted&>>;
// A message that is one masked vector: it leaves by rounds of several steps (runtime/mask_round.h).
template <class M>
concept IsMasked = Message<M> && std::is_same_v<decltype(std::declval<M&>().Fields()), std::tuple<Masked&>>;

// Bytes of a payload on the wire: numbers as they are, vectors as a 64-bit length and their elements.
template <class T>
requires std::is_arithmetic_v<T> std::size_t PayloadSize(const T&) {
  return sizeof(T);
}
template <class T>
std::size_t PayloadSize(const std::vector<T>& v) {
  return sizeof(std::uint64_t) + v.size() * sizeof(T);
}

inline std::size_t PayloadSize(const Encoded& e) { return sizeof(std::uint64_t) + e.bytes(); }

template <class T> std::size_t FieldSize(const Public<T>& f) { return PayloadSize(*f); }
template <class T> std::size_t FieldSize(const Released<T>& f) { return PayloadSize(*f); }
inline std::size_t FieldSize(const Entrusted& f) { return sizeof(std::uint64_t) + f.dim() * sizeof(double); }
inline std::size_t FieldSize(const Masked& f) {  // b, how many, and b/8 bytes each
  return sizeof(std::uint32_t) + sizeof(std::uint64_t) + f.dim() * (f.bits() / 8);
}

// How long the vectors of a message must be, in the order of its fields; for a number the entry says nothing.
template <Message M>
using Lengths = std::array<std::size_t, std::tuple_size_v<decltype(std::declval<M&>().Fields())>>;

// Why a message is not taken. An honest client's message never has a fault, whatever its data: what it sends
// is clipped, so it is finite, and its length is public. So a fault tells nothing of anyone's data.
enum class Fault { kNone, kAbsent, kLength, kNotFinite };

bool AllFiniteLong(View);  // for any length
inline bool AllFinite(View v) {
  if (v.size() > 8 * kLanes || v.size() % kLanes != 0) return AllFiniteLong(v);
  Lanes zero = {};  // x − x is 0, or NaN where x is not finite; NaN stays in a sum
  for (std::size_t i = 0; i < v.size(); i += kLanes) zero += Load(v.data() + i) - Load(v.data() + i);
  return Everywhere(LaneMask(zero == Lanes{}));
}
template <class T>
requires std::is_arithmetic_v<T> Fault PayloadFault(const T& v, std::size_t) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(v)) return Fault::kNotFinite;
  }
  return Fault::kNone;
}
template <class T>
Fault PayloadFault(const std::vector<T>& v, std::size_t length) {
  if (v.size() != length) return v.empty() ? Fault::kAbsent : Fault::kLength;
  if constexpr (std::is_floating_point_v<T>) {
    if (!AllFinite(v)) return Fault::kNotFinite;
  }
  return Fault::kNone;
}
// Of a compressed vector the length is that of the vector; numbers that can be read are finite.
inline Fault PayloadFault(const Encoded& e, std::size_t length) {
  if (e.data.empty()) return Fault::kAbsent;
  return CheckEncoded(e, length).ok() ? Fault::kNone : Fault::kLength;
}
template <class T> Fault FieldFault(const Public<T>& f, std::size_t length) {
  return PayloadFault(*f, length);
}
template <class T> Fault FieldFault(const Released<T>& f, std::size_t length) {
  return PayloadFault(*f, length);
}
inline Fault FieldFault(const Entrusted& f, std::size_t length) {  // finite by its type
  return f.dim() == length ? Fault::kNone : f.dim() == 0 ? Fault::kAbsent : Fault::kLength;
}
inline Fault FieldFault(const Masked& f, std::size_t length) {
  return f.dim() == length ? Fault::kNone : f.dim() == 0 ? Fault::kAbsent : Fault::kLength;
}

// The first fault of a message.
template <Message M>
Fault FaultOf(M& m, const Lengths<M>& lengths) {
  Fault found = Fault::kNone;
  std::size_t k = 0;
  std::apply(
      [&](const auto&... f) {
        ((found = found == Fault::kNone ? FieldFault(f, lengths[k]) : found, ++k), ...);
      },
      m.Fields());
  return found;
}

// Empties the vectors of a message and keeps their memory, so that whoever writes nothing sends nothing.
template <class T> void ClearField(Public<T>&) {}
template <class T> void ClearField(Released<T>&) {}
template <class T> void ClearField(Public<std::vector<T>>& f) { f.Mutable().clear(); }
template <class T> void ClearField(Released<std::vector<T>>& f) {
  f.template Into<[](const std::vector<T>&, std::vector<T>& out) { out.clear(); }>(f);
}
inline void ClearField(Public<Encoded>& f) { f.Mutable().data.clear(); }
inline void ClearField(Released<Encoded>& f) {
  f.Into<[](const Encoded&, Encoded& out) { out.data.clear(); }>(f);
}
inline void ClearField(Entrusted& f) { f.Clear(); }
inline void ClearField(Masked& f) { f.Clear(); }
template <Message M>
void Clear(M& m) {
  std::apply([](auto&... f) { (ClearField(f), ...); }, m.Fields());
}

template <class T> void SwapField(T& a, T& b) {
  if constexpr (requires { a.Swap(b); })
    a.Swap(b);
  else
    std::swap(a, b);
}
template <Message M>
void Swap(M& a, M& b) {  // of the fields alone: what a message has beside Fields() stays
  std::apply(
      [&](auto&... of_a) { std::apply([&](auto&... of_b) { (SwapField(of_a, of_b), ...); }, b.Fields()); },
      a.Fields());
}

// The numbers of the Released fields of a message, one after the other; of a compressed vector its bytes.
// What is Public, Entrusted or Masked is left out.
template <class T> void AppendReleased(const Public<T>&, Vec&) {}
inline void AppendReleased(const Entrusted&, Vec&) {}
inline void AppendReleased(const Masked&, Vec&) {}
template <class T> void AppendReleased(const Released<T>& f, Vec& out) {
  if constexpr (std::is_arithmetic_v<T>) {
    out.push_back(static_cast<double>(*f));
  } else if constexpr (std::is_same_v<T, Encoded>) {
    for (const auto byte : f->data) out.push_back(static_cast<double>(byte));
  } else {
    for (const auto v : *f) out.push_back(static_cast<double>(v));
  }
}
template <Message M>
void ReleasedNumbers(M& m, Vec& out) {
  out.clear();
  std::apply([&](const auto&... f) { (AppendReleased(f, out), ...); }, m.Fields());
}

inline constexpr std::size_t kFrameHeader = 16;  // see frame.h

// What a message takes on the wire, header included; in-process runs count it without encoding.
template <Message M>
std::size_t WireSize(M& m) {
  return std::apply([](const auto&... f) { return (kFrameHeader + ... + FieldSize(f)); }, m.Fields());
}

}  // namespace tacit
