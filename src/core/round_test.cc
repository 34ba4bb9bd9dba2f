#include "core/round.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <random>

namespace tacit {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();
constexpr double kLargest = std::numeric_limits<double>::max();

// The exact result, as 4,400 bits hold every sum, product and bracketed quotient of two doubles.
class Exact {
 public:
  Exact() { mpfr_init2(v, 4400); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  ~Exact() { mpfr_clear(v); }
  mpfr_t v;
};

// got is no less than the real value and at most `slack` doubles above the smallest such double.
void ExpectUp(double got, mpfr_t real, int slack) {
  if (got == -kInfinity) return;  // losses are not negative: overflow downwards is not rounded
  EXPECT_GE(-mpfr_cmp_d(real, got), 0);
  double best = mpfr_get_d(real, MPFR_RNDU);
  for (int i = 0; i < slack; ++i) best = NextUp(best);
  EXPECT_LE(got, best);
}

double AnyDouble(std::mt19937_64& rng, int exponent_range) {
  std::uniform_int_distribution<int> exponent(-exponent_range, exponent_range);
  std::uniform_real_distribution<double> mantissa(1, 2);
  return std::ldexp(mantissa(rng), exponent(rng));
}

TEST(Round, UpIsNeverBelowTheRealValue) {
  std::mt19937_64 rng(11);
  Exact x;
  for (const int range : {3, 60, 500, 1060}) {
    for (int i = 0; i < 4000; ++i) {
      const double a = AnyDouble(rng, std::min(range, 1020)), b = AnyDouble(rng, std::min(range, 1020));
      for (const double sign : {1.0, -1.0}) {
        SCOPED_TRACE(testing::Message() << std::hexfloat << a << " " << sign * b);
        mpfr_set_d(x.v, a, MPFR_RNDN);
        mpfr_add_d(x.v, x.v, sign * b, MPFR_RNDN);
        ExpectUp(AddUp(a, sign * b), x.v, 0);
        mpfr_set_d(x.v, a, MPFR_RNDN);
        mpfr_mul_d(x.v, x.v, sign * b, MPFR_RNDN);
        ExpectUp(MulUp(a, sign * b), x.v, 1);
        mpfr_set_d(x.v, sign * a, MPFR_RNDN);
        mpfr_div_d(x.v, x.v, b, MPFR_RNDU);
        ExpectUp(DivUp(sign * a, b), x.v, 1);
      }
      mpfr_set_d(x.v, a, MPFR_RNDN);
      mpfr_sqrt(x.v, x.v, MPFR_RNDU);
      ExpectUp(SqrtUp(a), x.v, 1);
    }
  }
}

TEST(Round, ExactResultsStayExact) {
  EXPECT_EQ(AddUp(1, 2), 3);
  EXPECT_EQ(AddUp(0.1, 0), 0.1);
  EXPECT_EQ(MulUp(3, 0.5), 1.5);
  EXPECT_EQ(MulUp(0, 5), 0);
  EXPECT_EQ(DivUp(1, 4), 0.25);
  EXPECT_EQ(DivUp(0, 3), 0);
  EXPECT_EQ(SqrtUp(2.25), 1.5);
  EXPECT_EQ(SqrtUp(0), 0);
}

TEST(Round, EdgesOfTheRange) {
  EXPECT_GT(AddUp(1, 1e-300), 1);
  EXPECT_EQ(AddUp(1, -1e-300), 1);
  EXPECT_EQ(AddUp(kSmallest, kSmallest), 2 * kSmallest);
  EXPECT_EQ(AddUp(kInfinity, 1), kInfinity);
  EXPECT_EQ(AddUp(kLargest, kLargest), kInfinity);
  EXPECT_EQ(AddUp(kLargest, kSmallest), kInfinity);  // the next value upwards
  EXPECT_GT(MulUp(kSmallest, kSmallest), 0);  // underflow is upwards
  EXPECT_GT(MulUp(1e-200, 1e-200), 0);
  EXPECT_EQ(MulUp(1e200, 1e200), kInfinity);
  EXPECT_GT(DivUp(kSmallest, 1e10), 0);
  EXPECT_EQ(DivUp(1, 0), kInfinity);
  EXPECT_GE(DivUp(1, kInfinity), 0);
  EXPECT_GE(SqrtUp(kSmallest), std::sqrt(kSmallest));
  EXPECT_EQ(SqrtUp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(AddUp(kInfinity, -kInfinity)));
  EXPECT_TRUE(std::isnan(SqrtUp(-1)));
}

TEST(Next, IsNextafter) {
  constexpr double kMost = std::numeric_limits<double>::max(),
                   kInfinite = std::numeric_limits<double>::infinity();
  const auto check = [&](double x) {
    const auto same = [](double a, double b) {
      return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
             (std::isnan(a) && std::isnan(b));
    };
    EXPECT_TRUE(same(NextUp(x), std::nextafter(x, kInfinite))) << x;
    EXPECT_TRUE(same(NextDown(x), std::nextafter(x, -kInfinite))) << x;
  };
  for (const double x : {0.0, 5e-324, 0x1p-1022, 1.0, 1.5, 0x1p52, kMost, kInfinite, std::nan("")})
    check(x), check(-x);
  std::uint64_t bits = 1;
  for (int i = 0; i < 100000; ++i) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    check(std::bit_cast<double>(bits));
  }
}

}  // namespace
}  // namespace tacit
