#pragma once

// What goes from one process of a simulation to another: the state of clients, sums that are under way, and
// whatever a round is made of. The processes of a simulation are one trust domain, as its threads are: each
// has the rows of all clients, and what passes between them has left nobody's hands. So private state and
// unreleased sums may be in a parcel, where no frame can be made of them (wire/frame.h).
//
// A parcel is not a way out. Its bytes are seen by Ranks alone, which hands them to the message-passing
// library; what was put in as Private (or as an EntrustedSum or a MaskedTotal) comes out as that and as
// nothing else, for every field carries its kind; and outside of a simulation nobody has a Ranks.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/private.h"
#include "core/units.h"
#include "privacy/bounded.h"
#include "privacy/secure_sum.h"
#include "wire/message.h"

namespace tacit {

namespace internal {
template <class T> inline constexpr bool kInParcel = kIsPayload<T>;
template <class T> inline constexpr bool kInParcel<Public<T>> = kIsPayload<T>;
template <class T> inline constexpr bool kInParcel<Released<T>> = kIsPayload<T>;
template <class T> inline constexpr bool kInParcel<Private<T>> = kIsPayload<T>;
template <class T> inline constexpr bool kInParcel<std::vector<Released<T>>> = kIsPayload<T>;
template <> inline constexpr bool kInParcel<EntrustedSum> = true;
template <> inline constexpr bool kInParcel<MaskedTotal> = true;
template <class Tuple> inline constexpr bool kAllInParcel = false;
template <class... F> inline constexpr bool kAllInParcel<std::tuple<F&...>> = (kInParcel<F> && ...);
}  // namespace internal

// A sum (or a client) all of which is in its State().
template <class T>
concept Portable =
    requires(T t) { t.State(); } && internal::kAllInParcel<decltype(std::declval<T&>().State())>;

class Parcel {
 public:
  std::size_t size() const { return bytes_.size() - 1; }

  template <class T>
  requires internal::kInParcel<T> void Put(const T& v) {
    Add(v);
  }
  void Put(const std::string& text) { Add(std::vector<char>(text.begin(), text.end())); }
  template <class... T>
  void PutAll(const std::tuple<T&...>& fields) {
    static_assert((internal::kInParcel<std::remove_const_t<T>> && ...));
    std::apply([&](const T&... v) { (Add(v), ...); }, fields);
  }

  // In the order in which they were put in; false where something else is next, and from then on.
  template <class T>
  requires internal::kInParcel<T> bool Get(T& v) {
    return ok_ = ok_ && Take(v);
  }
  bool Get(std::string& text) {
    std::vector<char> all;
    if (!Get(all)) return false;
    text.assign(all.begin(), all.end());
    return true;
  }
  template <class... T>
  bool GetAll(const std::tuple<T&...>& fields) {
    static_assert((internal::kInParcel<T> && ...));
    return std::apply([&](T&... v) { return (Get(v) && ...); }, fields);
  }
  bool done() const { return ok_ && at_ == bytes_.size(); }

 private:
  friend class Ranks;
  enum class Kind : std::uint8_t { kPlain = 1, kPublic, kReleased, kPrivate, kEntrusted, kList, kMasked };

  void Append(const void* data, std::size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }
  void Mark(Kind kind) { bytes_.push_back(static_cast<std::byte>(kind)); }
  template <class T>
  requires std::is_arithmetic_v<T> void Raw(const T& v) {
    Append(&v, sizeof v);
  }
  template <class T>
  void Raw(const std::vector<T>& v) {
    Raw(static_cast<std::uint64_t>(v.size()));
    Append(v.data(), v.size() * sizeof(T));
  }
  void Raw(const Encoded& e) { Raw(e.data); }
  template <class T> void Add(const T& v) { Mark(Kind::kPlain), Raw(v); }
  template <class T> void Add(const Public<T>& v) { Mark(Kind::kPublic), Raw(*v); }
  template <class T> void Add(const Released<T>& v) { Mark(Kind::kReleased), Raw(*v); }
  template <class T> void Add(const Private<T>& v) { Mark(Kind::kPrivate), Raw(v.value_); }
  template <class T> void Add(const std::vector<Released<T>>& v) {
    Mark(Kind::kList);
    Raw(static_cast<std::uint64_t>(v.size()));
    for (const Released<T>& one : v) Add(one);
  }
  void Add(const EntrustedSum& s) {
    Mark(Kind::kEntrusted);
    Raw(s.count_), Raw(s.weight_), Raw(s.bound_.value()), Raw(s.length_.value());
    if (s.count_ > 0) Raw(s.total_);
  }
  void Add(const MaskedTotal& s) {
    Mark(Kind::kMasked);
    Raw(s.count_), Raw(s.bits_);
    if (s.count_ > 0) Raw(s.value_);
  }

  bool Is(Kind kind) {
    if (at_ >= bytes_.size() || bytes_[at_] != static_cast<std::byte>(kind)) return false;
    ++at_;
    return true;
  }
  bool Copy(void* to, std::size_t size) {
    if (size > bytes_.size() - at_) return false;
    if (size != 0) std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
    return true;
  }
  template <class T>
  requires std::is_arithmetic_v<T> bool Read(T& v) {
    return Copy(&v, sizeof v);
  }
  template <class T>
  bool Read(std::vector<T>& v) {
    std::uint64_t n = 0;
    if (!Read(n) || n > (bytes_.size() - at_) / sizeof(T)) return false;
    v.resize(static_cast<std::size_t>(n));
    return Copy(v.data(), v.size() * sizeof(T));
  }
  bool Read(Encoded& e) { return Read(e.data); }
  template <class T> bool Take(T& v) { return Is(Kind::kPlain) && Read(v); }
  template <class T> bool Take(Public<T>& v) { return Is(Kind::kPublic) && Read(v.Mutable()); }
  template <class T> bool Take(Released<T>& v) { return Is(Kind::kReleased) && Read(v.value_); }
  template <class T> bool Take(Private<T>& v) { return Is(Kind::kPrivate) && Read(v.value_); }
  template <class T> bool Take(std::vector<Released<T>>& v) {
    std::uint64_t n = 0;
    if (!Is(Kind::kList) || !Read(n) || n > bytes_.size() - at_) return false;
    v.resize(static_cast<std::size_t>(n));
    for (Released<T>& one : v)
      if (!Take(one)) return false;
    return true;
  }
  bool Take(EntrustedSum& s) {
    double bound = 0, length = 0;
    if (!Is(Kind::kEntrusted) || !Read(s.count_) || !Read(s.weight_) || !Read(bound) || !Read(length))
      return false;
    const auto bounded = L2Bound::Of(bound), long_as = L2Bound::Of(length);
    if (!bounded.ok() || !long_as.ok()) return false;
    s.bound_ = *bounded, s.length_ = *long_as;
    return s.count_ == 0 || Read(s.total_);
  }
  bool Take(MaskedTotal& s) {
    return Is(Kind::kMasked) && Read(s.count_) && Read(s.bits_) && (s.count_ == 0 || Read(s.value_));
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(1);  // the first is the sender's: what it is about
  std::size_t at_ = 1;  // of what is read
  bool ok_ = true;
};

}  // namespace tacit
