#pragma once

// What a C library hands out, given back when it is no longer needed: Handle<BIO, &BIO_free>.
#include <memory>

namespace tacit {

template <auto F>
struct FreeWith {
  template <class T> void operator()(T* p) const { F(p); }
};
template <class T, auto F> using Handle = std::unique_ptr<T, FreeWith<F>>;

}  // namespace tacit
