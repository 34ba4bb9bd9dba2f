#pragma once

// Units of privacy. A privacy parameter is not a number: ε cannot be added to δ, a bound cannot be
// passed where a multiplier is meant, and nothing unchecked becomes either.
#include <compare>
#include <limits>

#include "core/result.h"
#include "core/round.h"

#if defined(__clang__) && __clang_major__ < 15
#define TACIT_CONSTEVAL constexpr
#else
#define TACIT_CONSTEVAL consteval
#endif

namespace tacit {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

// Not constexpr on purpose: reaching it during constant evaluation is the compile error.
[[noreturn]] inline void OutOfRange(const char* unit) {
  std::fprintf(stderr, "a literal is out of range for %s\n", unit);
  std::abort();
}

// A literal is checked by the compiler, an input by Of(); there is no other way in.
// Every Holds() is written so that NaN fails.
template <class Tag>
class Unit {
 public:
  TACIT_CONSTEVAL explicit Unit(double v) : v_(v) {
    if (!Tag::Holds(v)) OutOfRange(Tag::kName);
  }
  static Result<Unit> Of(double v) {
    if (!Tag::Holds(v))
      return Fail(Code::kInvalidArgument, "{} = {}: must be {}", Tag::kName, v, Tag::kRange);
    return Unit(v, Unchecked{});
  }
  // For values that are in range by construction; aborts if they are not.
  static Unit Proven(double v) {
    TACIT_CHECK(Tag::Holds(v));
    return Unit(v, Unchecked{});
  }
  constexpr double value() const { return v_; }
  friend constexpr auto operator<=>(Unit, Unit) = default;
  // Composition, for the units that compose by adding; rounds up, never down.
  friend Unit operator+(Unit a, Unit b) requires(Tag::kComposes) {
    return Unit(AddUp(a.v_, b.v_), Unchecked{});
  }

 private:
  struct Unchecked {};
  constexpr Unit(double v, Unchecked) : v_(v) {}
  double v_;
};

#define TACIT_UNIT(Name, label, composes, condition, range)     \
  struct Name##Tag {                                            \
    static constexpr const char* kName = label;                 \
    static constexpr const char* kRange = range;                \
    static constexpr bool kComposes = composes;                 \
    static constexpr bool Holds(double v) { return condition; } \
  };                                                            \
  using Name = Unit<Name##Tag>

TACIT_UNIT(Epsilon, "epsilon", true, v >= 0, "at least 0");                        // ∞ means not private
TACIT_UNIT(Delta, "delta", true, v >= 0 && v < 1, "in [0, 1)");
TACIT_UNIT(Rho, "rho", true, v >= 0, "at least 0");                                // zCDP
TACIT_UNIT(Mu, "mu", false, v >= 0, "at least 0");                                 // Gaussian DP
TACIT_UNIT(MuSquared, "mu squared", true, v >= 0, "at least 0");                   // what Gaussian DP adds
TACIT_UNIT(L2Bound, "bound", false, v > 0 && v < kInf, "positive and finite");
TACIT_UNIT(NoiseStd, "noise std", false, v > 0 && v < kInf, "positive and finite");
TACIT_UNIT(NoiseMultiplier, "noise multiplier", false, v > 0 && v <= kInf, "positive");  // σ / sensitivity
TACIT_UNIT(Probability, "probability", false, v >= 0 && v <= 1, "in [0, 1]");

#undef TACIT_UNIT

inline MuSquared Squared(Mu mu) { return MuSquared::Proven(MulUp(mu.value(), mu.value())); }
inline Mu Root(MuSquared m) { return Mu::Proven(SqrtUp(m.value())); }

// Which data sets count as neighbours. Never mixed within one ledger.
enum class Adjacency {
  kReplaceOne,     // one unit (record or client) takes any other value: the default
  kAddOrRemove,    // one unit is present or absent
  kZeroOut,        // one unit is replaced by the null unit, whose contribution is 0
};
inline const char* Name(Adjacency a) {
  switch (a) {
    case Adjacency::kReplaceOne: return "replace-one";
    case Adjacency::kAddOrRemove: return "add-remove";
    case Adjacency::kZeroOut: return "zero-out";
  }
  return "?";
}

}  // namespace tacit
