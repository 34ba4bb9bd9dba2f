#include "algorithms/edge_kernels.h"

#include "models/lanes.h"

namespace tacit {

void AddEdges(double rho, std::span<const EdgeEnd> edges, View w, Span pull) {
  const std::size_t d = w.size();
  TACIT_CHECK(pull.size() == d);
  const auto add = [rho](double step, auto w_k, auto w_l, auto& multiplier, auto& sum) {
    multiplier += step * (w_k - w_l);
    sum += rho * (w_k + w_l) - multiplier;
  };
  std::size_t j = 0;
  for (; j + kLanes <= d; j += kLanes) {
    const Lanes own = Load(w.data() + j);
    Lanes sum = Load(pull.data() + j);
    for (const EdgeEnd& e : edges) {
      Lanes multiplier = Load(e.lambda + j);
      add(e.step, own, Load(e.other + j), multiplier, sum);
      Store(e.lambda + j, multiplier);
    }
    Store(pull.data() + j, sum);
  }
  for (; j < d; ++j)
    for (const EdgeEnd& e : edges) add(e.step, w[j], e.other[j], e.lambda[j], pull[j]);
}

void Combine(double a, View w, View pull, double b, View sum, Span out) {
  const std::size_t d = out.size();
  TACIT_CHECK(w.size() == d && pull.size() == d && sum.size() == d);
  std::size_t j = 0;
  for (; j + kLanes <= d; j += kLanes)
    Store(out.data() + j,
          All(a) * Load(w.data() + j) + Load(pull.data() + j) - All(b) * Load(sum.data() + j));
  for (; j < d; ++j) out[j] = a * w[j] + pull[j] - b * sum[j];
}

void Times(double a, Span x) {
  std::size_t j = 0;
  for (; j + kLanes <= x.size(); j += kLanes) Store(x.data() + j, All(a) * Load(x.data() + j));
  for (; j < x.size(); ++j) x[j] *= a;
}

}  // namespace tacit
