#include "privacy/renyi.h"

#include <algorithm>
#include <cmath>

namespace tacit {

Status Check(const RenyiEvent& event) {
  if (event.curve.empty())
    return Fail(Code::kInvalidArgument, "a Rényi curve without points: give at least one order");
  double last = 1;
  for (const RenyiEvent::Point& p : event.curve) {
    if (!(p.order > last && p.order <= 1e9))
      return Fail(Code::kInvalidArgument,
                  "a Rényi curve with order {} after {}: orders are above 1, at most 1e9, and rise", p.order,
                  last);
    last = p.order;
  }
  return Ok{};
}

RenyiCurve::RenyiCurve(const RenyiEvent& event) : t_{0}, k_{0} {
  for (const RenyiEvent::Point& p : event.curve) {
    const double t = p.order - 1, k = MulUp(t, p.epsilon.value());     // the difference is exact
    if (!(k < kInf)) continue;
    // The lower hull: a corner above the chord of its neighbours goes.
    while (t_.size() > 1) {
      const std::size_t n = t_.size() - 1;
      const double chord = k_[n - 1] + (k - k_[n - 1]) * ((t_[n] - t_[n - 1]) / (t - t_[n - 1]));
      if (k_[n] < chord) break;
      t_.pop_back(), k_.pop_back();
    }
    t_.push_back(t), k_.push_back(k);
  }
}

double RenyiCurve::At(double t) const {
  if (!(t <= t_.back())) return kInf;
  const auto above = std::lower_bound(t_.begin(), t_.end(), t);
  const auto n = static_cast<std::size_t>(above - t_.begin());
  if (n == 0) return 0;
  const double part = (t - t_[n - 1]) / (t_[n] - t_[n - 1]);
  const double k = k_[n - 1] * (1 - part) + k_[n] * part;
  return k + 0x1p-49 * (k_[n - 1] + k_[n]);   // pays for the rounding of `part` and 1 − part
}

}  // namespace tacit
