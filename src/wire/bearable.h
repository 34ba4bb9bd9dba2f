#pragma once

// How large the numbers of a message from elsewhere may be. Finite is not enough: a method adds, squares and
// multiplies what it is sent, and one message whose numbers overflow a model would spoil it for good. What an
// honest client sends is clipped and noised, far below these limits.
#include <cmath>
#include <tuple>

#include "wire/message.h"

namespace tacit {

inline constexpr double kLargestSent = 0x1p100;  // by a client or a peer
inline constexpr double kLargestBroadcast = 0x1p250;  // by a server: what it makes of the above stays below

inline bool Within(double limit, View v) {
  bool all = true;
  for (const double x : v) all &= std::abs(x) <= limit;  // NaN is not
  return all;
}

namespace internal {
template <class T>
requires std::is_arithmetic_v<T> bool PayloadWithin(double limit, const T& v) {
  return std::abs(static_cast<double>(v)) <= limit;
}
inline bool PayloadWithin(double limit, const Vec& v) { return Within(limit, v); }
template <class T>
requires std::is_integral_v<T> bool PayloadWithin(double, const std::vector<T>&) {
  return true;
}
inline bool PayloadWithin(double limit, const Encoded& e) {
  if (e.data.empty()) return true;
  Vec v(EncodedLength(e));
  DecodeSpace space;
  return Decode(e, v, space).ok() && Within(limit, v);
}
template <class T> bool FieldWithin(double limit, const Public<T>& f) { return PayloadWithin(limit, *f); }
template <class T> bool FieldWithin(double limit, const Released<T>& f) { return PayloadWithin(limit, *f); }
inline bool FieldWithin(double, const Entrusted&) { return true; }  // within its clip, by its type
inline bool FieldWithin(double, const Masked&) { return true; }  // integers
}  // namespace internal

// Whether no number of the message is larger, or none. Of a message whose lengths have been checked: a
// compressed vector takes as much memory as its length.
template <Message M>
bool Within(double limit, M& m) {
  return std::apply([&](const auto&... f) { return (internal::FieldWithin(limit, f) && ...); }, m.Fields());
}

}  // namespace tacit
