#pragma once

// Shorthand of the accountant's tests.
#include <gtest/gtest.h>

#include <cmath>

#include "privacy/accountant.h"

namespace tacit {

template <class Unit>
Unit Of(double v) {
  return Unit::Proven(v);
}
inline PoissonGaussianEvent Poisson(double q, double mu) { return {Of<Probability>(q), Of<Mu>(mu)}; }
inline FixedSizeGaussianEvent Fixed(double q, double mu) { return {Of<Probability>(q), Of<Mu>(mu)}; }
inline JointGaussianEvent Gaussian(double mu) { return {Of<Mu>(mu)}; }
inline PureEvent Pure(double epsilon) { return {Of<Epsilon>(epsilon)}; }

inline Accountant Account(Adjacency adjacency, const PrivacyEvent& event, std::uint64_t count = 1) {
  Accountant out(adjacency);
  EXPECT_TRUE(out.Compose(event, count).ok());
  return out;
}
inline Bracket EpsilonOf(const Accountant& a, double delta) {
  const Result<Bracket> r = a.EpsilonAt(Of<Delta>(delta));
  EXPECT_TRUE(r.ok());
  EXPECT_LE(r->lower, r->upper);
  return *r;
}
inline Bracket DeltaOf(const Accountant& a, double epsilon) {
  const Result<Bracket> r = a.DeltaAt(Of<Epsilon>(epsilon));
  EXPECT_TRUE(r.ok());
  EXPECT_LE(r->lower, r->upper);
  return *r;
}

}  // namespace tacit
