#include "compress/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "core/rng.h"

namespace tacit {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kLong = 40000;  // above the size from which a sample is taken

// By the definition: magnitudes in falling order, equal ones by position.
template <class T> std::vector<std::uint32_t> Plain(const std::vector<T>& x, std::size_t k) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < x.size(); ++i)
    if (x[i] != 0 && std::isfinite(x[i])) all.push_back(i);
  const auto before = [&](std::uint32_t i, std::uint32_t j) {
    const T a = std::abs(x[i]), b = std::abs(x[j]);
    return a != b ? a > b : i < j;
  };
  if (k < all.size()) {
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k), all.end(), before);
    all.resize(k);
  }
  std::sort(all.begin(), all.end());
  return all;
}

template <class T> std::vector<T> Normals(std::size_t n, std::uint32_t who) {
  Stream s({1, Purpose::kTest, who, 0});
  std::vector<T> x(n);
  for (T& v : x) v = static_cast<T>(s.Normal());
  return x;
}

template <class T> class Select : public testing::Test {};
using Types = testing::Types<float, double>;
class TypeNames {
 public:
  template <class T> static std::string GetName(int) { return sizeof(T) == 4 ? "float" : "double"; }
};
TYPED_TEST_SUITE(Select, Types, TypeNames);

TYPED_TEST(Select, TakesTheLargestOfAnyInputWarmOrCold) {
  using T = TypeParam;
  const struct {
    const char* why;
    std::vector<T> x;
  } cases[] = {
      {"one", {T(3)}},
      {"nothing but zeros", std::vector<T>(100)},
      {"normal", Normals<T>(kLong, 1)},
      {"short", Normals<T>(37, 2)},
      {"all equal", std::vector<T>(kLong, T(-2))},
      {"two magnitudes",
       [] {
         std::vector<T> x(kLong, T(1));
         for (std::size_t i = 0; i < x.size(); i += 10) x[i] = T(-1.5);
         return x;
       }()},
      {"ascending",
       [] {
         std::vector<T> x(kLong);
         std::iota(x.begin(), x.end(), T(1));
         return x;
       }()},
      {"descending",
       [] {
         std::vector<T> x(kLong);
         std::iota(x.rbegin(), x.rend(), T(1));
         return x;
       }()},
      {"the sample sees none of the large ones",
       [] {
         std::vector<T> x(kLong, T(1e-3));
         for (std::size_t i = 0; i < x.size(); ++i)
           if (i % 9 >= 5) x[i] = T(1) + static_cast<T>(i % 97);
         return x;
       }()},
      {"the sample sees nothing but large ones",
       [] {
         std::vector<T> x(kLong);
         for (std::size_t i = 0; i < x.size(); ++i)
           x[i] = i % 9 < 4 ? T(100) + static_cast<T>(i % 31) : T(1e-3);
         return x;
       }()},
      {"every scale",
       [] {
         std::vector<T> x = Normals<T>(kLong, 3);
         for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i % 240) - 120);
         return x;
       }()},
      {"the smallest numbers",
       [] {
         std::vector<T> x(kLong);
         for (std::size_t i = 0; i < x.size(); ++i)
           x[i] = std::numeric_limits<T>::denorm_min() * static_cast<T>(i % 5);
         return x;
       }()},
      {"the largest numbers",
       [] {
         std::vector<T> x(kLong, std::numeric_limits<T>::max());
         for (std::size_t i = 0; i < x.size(); i += 3) x[i] = std::nextafter(x[i], T(0));
         return x;
       }()},
      {"neighbours in the last bit",
       [] {
         std::vector<T> x(kLong, T(1));
         for (std::size_t i = 0; i < x.size(); ++i)
           if (i * 7919 % 5 == 0) x[i] = std::nextafter(T(1), T(2));
         return x;
       }()},
      {"mostly zeros",
       [] {
         std::vector<T> x(kLong);
         for (std::size_t i = 0; i < x.size(); i += 101) x[i] = static_cast<T>(i) - T(3000);
         return x;
       }()},
      {"not all finite",
       [] {
         std::vector<T> x = Normals<T>(kLong, 4);
         for (std::size_t i = 0; i < x.size(); i += 7) x[i] = i % 2 == 0 ? T(kInf) : T(kNan);
         for (std::size_t i = 3; i < x.size(); i += 70) x[i] = T(-kInf);
         return x;
       }()},
      {"nothing finite", std::vector<T>(kLong, T(kNan))},
  };
  SelectSpace space;  // one for all: what it remembers may change nothing
  std::vector<std::uint32_t> index;
  for (const auto& c : cases) {
    SCOPED_TRACE(c.why);
    for (const std::size_t k :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, c.x.size() / 100, c.x.size() / 10, c.x.size() / 2,
          c.x.size() - 1, c.x.size(), c.x.size() + 5}) {
      SCOPED_TRACE(k);
      const std::vector<std::uint32_t> expected = Plain(c.x, k);
      for (int turn = 0; turn < 3; ++turn) {
        SelectLargest(std::span<const T>(c.x), k, space, index);
        ASSERT_EQ(index, expected) << "turn " << turn;
      }
      if (k > 0 && expected.size() == k) {
        T least = std::numeric_limits<T>::max();
        for (const std::uint32_t i : expected) least = std::min(least, std::abs(c.x[i]));
        EXPECT_EQ(space.threshold, static_cast<double>(least));
      }
    }
  }
}

TYPED_TEST(Select, ARememberedThresholdThatNoLongerFitsChangesNothing) {
  using T = TypeParam;
  SelectSpace space;
  std::vector<std::uint32_t> index;
  const std::vector<T> base = Normals<T>(40000, 5);
  for (const double scale :
       {1.0, 1e-6, 1e6, 0.95, 1.05, 3e37, 1e-37}) {  // up and down by far more than a bracket
    std::vector<T> x = base;
    for (T& v : x) v = static_cast<T>(static_cast<double>(v) * scale / 8);
    SelectLargest(std::span<const T>(x), 400, space, index);
    EXPECT_EQ(index, Plain(x, 400)) << scale;
  }
}

TYPED_TEST(Select, SmallInputsOfFewValuesInEveryLength) {
  using T = TypeParam;
  Stream s({2, Purpose::kTest, 0, 0});
  SelectSpace space;
  std::vector<std::uint32_t> index;
  for (std::size_t n = 1; n < 70; ++n) {
    std::vector<T> x(n);
    for (T& v : x) v = static_cast<T>(static_cast<double>(s.Below(7)) - 3);
    for (std::size_t k = 0; k <= n; ++k) {
      SelectLargest(std::span<const T>(x), k, space, index);
      ASSERT_EQ(index, Plain(x, k)) << n << " " << k;
    }
  }
}

// Divisors with an exact inverse and without; guesses that are none, right, too high and too low; lengths
// with and without a rest; what is not finite, on either side.
TEST(SelectDifference, HasTheBitsAndTheOrderOfTheVectorThatIsNotFormed) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64},
                              std::size_t{700}, std::size_t{1024}, kLong + 37})
    for (const double divisor : {1.0, 64.0, 561.0, 0.3})
      for (const int kind : {0, 1, 2}) {  // normal, of few values, not all finite
        std::vector<double> a = Normals<double>(n, 6), b = Normals<double>(n, 7);
        for (std::size_t j = 0; j < n; ++j) {
          if (kind == 1) a[j] = divisor * std::round(a[j]), b[j] = std::round(b[j]);
          if (kind == 2 && j % 11 == 0) a[j] = j % 2 == 0 ? kInf : kNan;
          if (kind == 2 && j % 13 == 0) b[j] = j % 2 == 0 ? -kInf : kNan;
        }
        const Difference x{a, b, divisor};
        std::vector<double> formed(n), part(n / 2);
        for (std::size_t j = 0; j < n; ++j) formed[j] = a[j] / divisor - b[j];
        FormPart(x, n - n / 2, part);
        for (std::size_t j = 0; j < part.size(); ++j) {
          const double expected = formed[n - n / 2 + j];
          ASSERT_TRUE(part[j] == expected || (std::isnan(part[j]) && std::isnan(expected)));
        }
        for (const std::size_t k : {std::size_t{1}, n / 100, n / 3, n + 1}) {
          const std::vector<std::uint32_t> expected = Plain(formed, k);
          SelectSpace space;
          std::vector<std::uint32_t> index;
          double threshold = 0;
          for (const double guess : {0.0, 1.0, 0.9, 1.6, 100.0, 0.01}) {
            space.Guess(n, k, guess * threshold);
            SelectLargest(x, k, space, index);
            ASSERT_EQ(index, expected) << n << " " << divisor << " " << kind << " " << k << " " << guess;
            threshold = space.threshold;
          }
        }
      }
}

}  // namespace
}  // namespace tacit
