#pragma once

// For tests of algorithms without a runtime: clients with equal numbers of random records.
#include <memory>
#include <vector>

#include "algorithms/algorithm.h"
#include "models/test_data.h"

namespace tacit::test {

inline std::vector<std::uint32_t> Rounds(std::uint32_t n) {
  std::vector<std::uint32_t> r(n);
  for (std::uint32_t t = 0; t < n; ++t) r[t] = t + 1;
  return r;
}

struct World {
  World(Dataset rows, std::size_t n, Loss loss, const PenaltyOptions& penalty)
      : data(std::move(rows)), f(MakeObjective(loss, 2)), g(*MakeRegularizer(penalty)) {
    FillNorms(data);
    const std::size_t m = data.rows() / n;
    for (std::size_t i = 0; i < n; ++i) shards.emplace_back(data, i * m, m);
    problem = {
        .f = f.get(), .g = g.get(), .l2 = 0, .dim = data.features, .clients = static_cast<std::uint32_t>(n)};
    problem.start.assign(data.features, 0.0);
    Budget(kInf);
  }
  void Budget(double mu_squared) {
    ledgers.assign(shards.size(), Ledger(MuSquared::Proven(mu_squared), Adjacency::kReplaceOne));
  }
  Holding Own(std::uint32_t i) { return {i, shards[i].size(), Private<Shard>(shards[i]), &ledgers[i]}; }
  Vec Gradient(View x, double l2 = 0) const {  // of (1/n) Σ f_i + (l2/2)‖x‖²
    Vec total(x.begin(), x.end());
    Scale(l2, total);
    for (const Shard& s : shards) {
      Workspace ws;
      Vec norm(s.size()), part(x.size());
      f->RecordNorms(s, x, ws, norm);
      f->WeightedSum(s, x, ws, Vec(s.size(), 1.0), part);
      Axpy(1.0 / static_cast<double>(s.size() * shards.size()), part, total);
    }
    return total;
  }

  Dataset data;
  std::unique_ptr<Objective> f;
  std::unique_ptr<Regularizer> g;
  std::vector<Shard> shards;
  Problem problem;
  std::vector<Ledger> ledgers;
};

}  // namespace tacit::test
