#include "core/private.h"

#include <gtest/gtest.h>

#include <string>

#include "core/vec.h"

namespace tacit {

// The simulation's named reader, here only what the test needs of it: core has no other door.
class Oracle {
 public:
  template <class T>
  static const T& Read(const Private<T>& p) {
    return p.value_;
  }
};

namespace {

double Twice(const double& v) { return 2 * v; }
void AddTo(const double& v, double& out, const double& a) { out += a * v; }
void DoubleInPlace(const double& v, double& out) { out = 2 * v; }
double Sum(const Vec& v, const Vec& w, const double& a) { return v[0] + w[0] + a; }

TEST(Private, MapAppliesTheFunctionAndStaysPrivate) {
  const Private<double> p(3.0);
  static_assert(std::is_same_v<decltype(p.Map<&Twice>()), Private<double>>);
  EXPECT_EQ(Oracle::Read(p.Map<&Twice>()), 6.0);
  EXPECT_EQ(Oracle::Read(p), 3.0);                     // untouched
  EXPECT_EQ(Oracle::Read(p.Map<[](const double& v) { return v + 1; }>()), 4.0);
}

TEST(Private, MapOpensPrivateArgumentsAndPassesPublicOnes) {
  const Private<Vec> a(Vec{1.0}), b(Vec{10.0});
  EXPECT_EQ(Oracle::Read(a.Map<&Sum>(b, 100.0)), 111.0);
  EXPECT_EQ(Oracle::Read(a.Map<&Sum>(Vec{20.0}, Private<double>(0.5))), 21.5);
}

TEST(Private, MapChangesTheTypeAndMayReadAView) {
  const Private<Vec> p(Vec{3.0, 4.0});
  const auto text = p.Map<[](const Vec& v) { return std::to_string(v.size()); }>();
  EXPECT_EQ(Oracle::Read(text), "2");
  const Vec w = {1.0, 2.0};
  EXPECT_EQ(Oracle::Read(p.Map<[](const Vec& v, const View& u) { return Dot(v, u); }>(View(w))), 11.0);
}

TEST(Private, IntoReusesItsResult) {
  const Private<double> p(3.0);
  Private<double> out(1.0);
  p.Into<&AddTo>(out, 2.0);
  EXPECT_EQ(Oracle::Read(out), 7.0);
  p.Into<&AddTo>(out, Private<double>(10.0));
  EXPECT_EQ(Oracle::Read(out), 37.0);
  out.Into<&DoubleInPlace>(out);                       // the result may be the value itself
  EXPECT_EQ(Oracle::Read(out), 74.0);
}

TEST(Private, MapCannotBeLeftByAnException) {
  const Private<double> p(3.0);
  static_assert(noexcept(p.Map<&Twice>()));
  EXPECT_DEATH(static_cast<void>(p.Map<[](const double& v) -> double { throw v; }>()), "");
}

TEST(Private, IsMovedAndCopiedButNeverReadOrCompared) {
  static_assert(!std::is_convertible_v<Private<double>, double>);
  static_assert(!std::is_constructible_v<bool, Private<bool>>);
  static_assert(!std::is_constructible_v<Public<double>, Private<double>>);
  static_assert(!std::is_convertible_v<double, Private<double>>);      // entering is free but explicit
  Private<Vec> a(Vec{1.0, 2.0});
  const Private<Vec> b = a;
  const Private<Vec> c = std::move(a);
  EXPECT_EQ(Oracle::Read(b), Oracle::Read(c));
}

TEST(Released, StartsEmptyAndIsMadeByMechanismsOnly) {
  static_assert(!std::is_constructible_v<Released<double>, double>);
  static_assert(!std::is_assignable_v<decltype(*std::declval<Released<double>&>()), double>);
  const Released<Vec> r;
  EXPECT_TRUE(r->empty());
  EXPECT_EQ(*r.Map<[](const Vec& v) { return v.size(); }>(), 0u);
}

TEST(Released, IntoIsPostProcessing) {
  const Released<double> r;
  Released<double> out;
  r.Into<[](const double& v, double& o, const double& a) { o = v + a; }>(out, 5.0);
  EXPECT_EQ(*out, 5.0);
  r.Into<[](const double&, double& o, const Released<double>& a) { o = 2 * *a; }>(out, out);
  EXPECT_EQ(*out, 10.0);
}

TEST(Public, HoldsWhatNeverTouchedData) {
  Public<int> p(3);
  p.Mutable() = 4;
  EXPECT_EQ(*p, 4);
}

}  // namespace
}  // namespace tacit
