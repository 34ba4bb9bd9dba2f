#include "privacy/local_randomizer.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tacit {
namespace {

void Multiply(const GridVec& v, Vec& c, double factor) {
  c.resize(v.size());
  for (std::size_t j = 0; j < v.size(); ++j) c[j] = factor * static_cast<double>(v[j]);
}

}  // namespace

Status LocalRandomizer::Release(const Bounded& x, Ledger& ledger, NoiseRng& rng, PrivUnitSpace& space,
                                Released<std::uint32_t>& level, Released<GridVec>& v) const {
  TACIT_CHECK(x.dim() == direction_.dimension());
  const std::array<PrivacyEvent, 2> events = {direction_.event(), length_.event()};
  TACIT_OK(ledger.Charge(events));      // pay,
  level.value_ = length_.Sample(Norm(x.value_), rng);  // draw and open
  v.value_.resize(x.dim());
  direction_.Sample(x.value_, rng, space, v.value_);
  return Ok{};
}

void LocalRandomizer::Estimate(const Released<std::uint32_t>& level, const Released<GridVec>& v,
                               Released<Vec>& c) const {
  v.Into<&Multiply>(c, std::ldexp(length_.Estimate(*level) / direction_.m(), -PrivUnit::kGridBits));
}

double LocalRandomizer::SecondMoment(double r) const {
  const double m = direction_.m(), held = std::min(r, length_.largest().value());
  return (held * held + length_.Variance(held)) / (m * m);
}

}  // namespace tacit
