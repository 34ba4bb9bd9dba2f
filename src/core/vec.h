#pragma once

// Vectors and the few operations on them. Sums run in one fixed order that depends on the length
// alone, so results never depend on threads or alignment.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "core/check.h"

namespace tacit {

using Vec = std::vector<double>;         // owns
using View = std::span<const double>;    // reads
using Span = std::span<double>;          // writes

// Memory that begins with a cache line, for numbers that kernels read again and again.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) noexcept {}  // NOLINT: as allocators are
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, std::size_t) noexcept { ::operator delete(p, kLine); }
  friend bool operator==(const LineAllocator&, const LineAllocator&) { return true; }
};
using LineVec = std::vector<double, LineAllocator<double>>;

inline void Fill(Span y, double a) {
  for (double& v : y) v = a;
}

inline void Copy(View x, Span y) {
  TACIT_CHECK(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i];
}

inline void Axpy(double a, View x, Span y) {                      // y ← y + a x
  TACIT_CHECK(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] += a * x[i];
}

inline void Scale(double a, Span x) {
  for (double& v : x) v *= a;
}

// Eight interleaved partial sums, then a fixed tree: vectorises without reassociation.
template <class Term>
inline double SumOf(std::size_t n, Term term) {
  double s[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t k = 0; k < 8; ++k) s[k] += term(i + k);
  for (std::size_t k = 0; i < n; ++i, ++k) s[k] += term(i);
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

inline double Dot(View x, View y) {
  TACIT_CHECK(x.size() == y.size());
  return SumOf(x.size(), [&](std::size_t i) { return x[i] * y[i]; });
}

inline double NormSquared(View x) {
  return SumOf(x.size(), [&](std::size_t i) { return x[i] * x[i]; });
}
inline double Norm(View x) { return std::sqrt(NormSquared(x)); }

inline double DistanceSquared(View x, View y) {
  TACIT_CHECK(x.size() == y.size());
  return SumOf(x.size(), [&](std::size_t i) {
    const double d = x[i] - y[i];
    return d * d;
  });
}

}  // namespace tacit
