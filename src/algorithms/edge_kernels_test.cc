#include "algorithms/edge_kernels.h"

#include <gtest/gtest.h>

#include <array>

#include "core/rng.h"

namespace tacit {
namespace {

// Coordinate by coordinate, as edge_kernels.h says it: the kernel in use has the same bits for every length,
// any number of edges, at the beginning of a sum and further on, and where own is w itself.
TEST(AddEdges, IsTheFormulaToTheBit) {
  Stream rng({.seed = 5, .purpose = Purpose::kTest});
  const auto some = [&](std::size_t n) {
    Vec v(n);
    for (double& x : v) x = rng.Below(9) == 0 ? 0.0 : rng.Normal();
    return v;
  };
  constexpr double kRho = 0.7;
  for (std::size_t d = 0; d <= 20; ++d)
    for (const std::size_t n : {0u, 1u, 3u, 8u})
      for (const bool begin : {false, true})
        for (const bool moved : {false, true}) {
          Vec w = some(d), pull = some(d);
          const Vec note = some(d), own = moved ? note : w;
          std::vector<Vec> other, lambda;
          std::vector<double> step;
          for (std::size_t i = 0; i < n; ++i) {
            other.push_back(some(d));
            lambda.push_back(some(d));
            step.push_back(i % 3 == 2 ? 0.0 : kRho);
          }
          Vec want_pull = begin ? Vec(d) : pull;
          std::vector<Vec> want = lambda;
          for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < d; ++j) {
              want[i][j] += step[i] * (own[j] - other[i][j]);
              want_pull[j] += kRho * (own[j] + other[i][j]) - want[i][j];
            }
          std::vector<EdgeEnd> ends;
          for (std::size_t i = 0; i < n; ++i) ends.push_back({other[i].data(), lambda[i].data(), step[i]});
          AddEdges(kRho, ends, begin, d, moved ? note.data() : w.data(), w.data(), pull.data());
          EXPECT_EQ(w, own);
          EXPECT_EQ(pull, want_pull);
          EXPECT_EQ(lambda, want);
        }
}

// In place too, as a peer combines.
TEST(Combine, IsTheFormulaToTheBit) {
  Stream rng({.seed = 6, .purpose = Purpose::kTest});
  for (std::size_t d = 0; d <= 20; ++d) {
    Vec w(d), pull(d), sum(d), want(d), out(d);
    for (std::size_t j = 0; j < d; ++j) w[j] = rng.Normal(), pull[j] = rng.Normal(), sum[j] = rng.Normal();
    for (std::size_t j = 0; j < d; ++j) want[j] = 0.3 * w[j] + pull[j] - 0.02 * sum[j];
    Combine(0.3, w, pull, 0.02, sum, out);
    EXPECT_EQ(out, want);
    Combine(0.3, w, pull, 0.02, sum, sum);
    EXPECT_EQ(sum, want);
    for (double& x : want) x *= 0.7;
    Scale(0.7, out);
    EXPECT_EQ(out, want);
  }
}

}  // namespace
}  // namespace tacit
