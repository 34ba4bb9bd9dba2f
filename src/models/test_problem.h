#pragma once

// The problem of reference.h spelt out once more, independently, for its tests.
#include <gtest/gtest.h>

#include <memory>
#include <span>

#include "models/objective.h"
#include "models/regularizer.h"

namespace tacit::test {

inline std::unique_ptr<Regularizer> Make(const PenaltyOptions& o) {
  auto made = MakeRegularizer(o);
  EXPECT_TRUE(made.ok());
  return *std::move(made);
}

// Gradient of (1/n) Σ_i f_i + (l2/2)‖x‖², with weights spelt out.
inline Vec SmoothGradient(const Objective& f, std::span<const Shard> clients, double l2, View x) {
  Vec g(x.begin(), x.end());
  Scale(l2, g);
  Workspace ws;
  for (const Shard& s : clients) {
    Vec norm(s.size()), part(x.size());
    f.RecordNorms(s, x, ws, norm);
    f.WeightedSum(s, x, ws, Vec(s.size(), 1.0), part);
    Axpy(1.0 / static_cast<double>(s.size() * clients.size()), part, g);
  }
  return g;
}

// Plain proximal gradient, the method one cannot get wrong.
inline Vec ProximalGradient(const Objective& f, std::span<const Shard> clients, double l2,
                            const Regularizer& g, double step, int iterations) {
  Vec x(f.dim(clients[0].features()), 0.0);
  for (int k = 0; k < iterations; ++k) {
    Axpy(-step, SmoothGradient(f, clients, l2, x), x);
    g.Prox(step, x);
  }
  return x;
}

}  // namespace tacit::test
