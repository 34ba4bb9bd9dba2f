#pragma once

// The one-way street: Private → Bounded → Released.
//
//   Private<T>   computed from someone's data: compute with it freely, see nothing
//   Released<T>  paid for at a Mechanism: anyone may see it; post-processing is free
//   Public<T>    never touched anyone's data
//
// Bounded and Mechanism live in privacy/. What these types prove, and what they do not, is in
// docs/privacy.md.
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace tacit {

template <class T> class Private;
template <class T> class Released;
class Bounded;        // privacy/bounded.h
class Unbounded;      // the same header: what only the paper's door accepts
class Entrusted;      // the same header: what only a trusted aggregator may add up
class Mechanism;      // privacy/mechanism.h
class LocalRandomizer;  // privacy/local_randomizer.h: a door for whole vectors, by pure ε
class SecureSum;      // privacy/secure_sum.h: a door for sums that open only as a whole
class Oracle;         // experiment/oracle.h: simulations only, named in the certificate
class Codec;          // wire/frame.h: decoding is a claim by the sender
class Checkpoint;     // experiment/checkpoint.h: state to a file of the same machine, and back
class Parcel;         // runtime/parcel.h: from one process of a simulation to another, and never opened

namespace internal {

template <class T> inline constexpr bool kIsPrivate = false;
template <class T> inline constexpr bool kIsPrivate<Private<T>> = true;

// A way out of Map: whether something outside could be written through a const T. Pointers and what
// dereferences or iterates to an element that is not const (spans, smart pointers, iterators), functions
// with state, classes that hold a reference (they cannot be assigned), and whatever consists of these. A
// class that hides a pointer behind its own members is not seen.
template <class T> consteval bool Writable();
template <class Element, class Of> consteval bool WritableElement() {
  using E = std::remove_reference_t<Element>;
  if constexpr (std::is_same_v<std::remove_cv_t<E>, Of>)
    return false;       // a path iterates to paths
  else
    return (std::is_lvalue_reference_v<Element> && !std::is_const_v<E>) || Writable<std::remove_cv_t<E>>();
}
template <class T> inline constexpr bool kWritableParts = false;
template <class T> inline constexpr bool kWritableParts<std::reference_wrapper<T>> = true;
template <class A, class B>
inline constexpr bool kWritableParts<std::pair<A, B>> = Writable<A>() || Writable<B>();
template <class... A> inline constexpr bool kWritableParts<std::tuple<A...>> = (Writable<A>() || ...);
template <class... A> inline constexpr bool kWritableParts<std::variant<A...>> = (Writable<A>() || ...);
template <class U> inline constexpr bool kWritableParts<Private<U>> = Writable<U>();

template <class T> consteval bool Writable() {
  if constexpr (std::is_reference_v<T> || std::is_pointer_v<T> || std::is_member_pointer_v<T>) {
    return true;
  } else if constexpr (std::is_array_v<T>) {
    return Writable<std::remove_extent_t<T>>();
  } else if constexpr (!std::is_class_v<T> || std::is_empty_v<T>) {
    return false;
  } else if constexpr (kWritableParts<T> || !std::is_move_assignable_v<T> || requires { &T::operator(); }) {
    return true;
  } else {
    bool found = false;
    if constexpr (requires(const T& t) { *t; })
      found = found || WritableElement<decltype(*std::declval<const T&>()), T>();
    if constexpr (requires(const T& t) { *t.begin(); })
      found = found || WritableElement<decltype(*std::declval<const T&>().begin()), T>();
    return found;
  }
}

// Captureless lambdas and plain functions only: a constant has nowhere to put what it sees.
template <auto F>
inline constexpr bool kStateless = std::is_pointer_v<decltype(F)> || std::is_empty_v<decltype(F)>;

}  // namespace internal

// A value computed from someone's data. It can be moved, computed with, and clipped; it cannot be
// read, printed, compared or sent.
template <class T>
class Private {
 public:
  static_assert(!internal::Writable<T>(), "a Private value owns what it holds: no pointer or writable view");
  Private() = default;
  explicit Private(T value) : value_(std::move(value)) {}      // entering is free

  // F(value, args...) → Private of its result. F is a constant, so it has nowhere to put what it
  // sees but its result, and Map is noexcept, so it cannot be thrown out. Private arguments are
  // opened for F; arguments through which F could write are refused.
  template <auto F, class... Args>
  auto Map(const Args&... args) const noexcept {
    static_assert(internal::kStateless<F>, "Map: the function must be a constant without state");
    static_assert(!(internal::Writable<Args>() || ...), "Map: pass inputs by value or const&");
    return Private<decltype(F(value_, Open(args)...))>(F(value_, Open(args)...));
  }

  // The same with a private result that is reused: F(value, out, args...).
  template <auto F, class R, class... Args>
  void Into(Private<R>& out, const Args&... args) const noexcept {
    static_assert(internal::kStateless<F>, "Map: the function must be a constant without state");
    static_assert(!(internal::Writable<Args>() || ...), "Map: pass inputs by value or const&");
    F(value_, out.value_, Open(args)...);
  }

  // The same where F may take from this value what it puts into the result.
  template <auto F, class R, class... Args>
  void MoveInto(Private<R>& out, const Args&... args) noexcept {
    static_assert(internal::kStateless<F>, "Map: the function must be a constant without state");
    static_assert(!(internal::Writable<Args>() || ...), "Map: pass inputs by value or const&");
    F(value_, out.value_, Open(args)...);
  }

 private:
  template <class A> static const A& Open(const A& a) { return a; }
  template <class U> static const U& Open(const Private<U>& p) { return p.value_; }

  T value_{};
  template <class U> friend class Private;
  friend class Bounded;
  friend class Unbounded;
  friend class Oracle;
  friend class Checkpoint;
  friend class Parcel;
};

// A value that never depended on anyone's data: constants, schedules, counters, seeds.
template <class T>
class Public {
 public:
  static_assert(!internal::kIsPrivate<T>, "a Private value cannot be relabelled Public");
  Public() = default;
  explicit Public(T value) : value_(std::move(value)) {}
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }
  T& Mutable() { return value_; }

 private:
  T value_{};
};

// A value that was paid for. Made by a Mechanism (or by decoding a frame, which is the sender's
// claim); anything computed from released values alone is released too.
template <class T>
class Released {
 public:
  Released() = default;        // empty; holds nothing of anyone's
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }
  void Swap(Released& other) noexcept {
    using std::swap;
    swap(value_, other.value_);
  }

  template <auto F, class... Args>
  auto Map(const Args&... args) const {
    static_assert(internal::kStateless<F>, "Map: the function must be a constant without state");
    static_assert(!(internal::kIsPrivate<Args> || ...), "Map: post-processing may not read a Private value");
    using R = decltype(F(value_, args...));
    Released<R> out;
    out.value_ = F(value_, args...);
    return out;
  }

  // Post-processing into a reused result: F(value, out, args...).
  template <auto F, class R, class... Args>
  void Into(Released<R>& out, const Args&... args) const {
    static_assert(internal::kStateless<F>, "Map: the function must be a constant without state");
    static_assert(!(internal::kIsPrivate<Args> || ...), "Map: post-processing may not read a Private value");
    F(value_, out.value_, args...);
  }

 private:
  T value_{};
  template <class U> friend class Released;
  friend class Mechanism;
  friend class LocalRandomizer;
  friend class SecureSum;
  friend class Codec;
  friend class Checkpoint;
  friend class Parcel;
};

}  // namespace tacit
