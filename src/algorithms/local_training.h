#pragma once

// What federated averaging and its relatives do at a client: a few gradient steps on its own records.
//
//   y = w;  K times  y ← y − η_l (∇f_B(y) + θy + drift);  the update is y − w
//
// Nothing here is noised or clipped: the update is private, and whoever sends it clips it first.
#include <algorithm>
#include <cstdint>
#include <span>

#include "algorithms/algorithm.h"

namespace tacit {

struct LocalTraining {
  double rate = 0.1;              // η_l
  std::uint32_t steps = 1;        // K gradient steps (batch = 0), or passes over all records
  std::size_t batch = 0;          // records of a step; 0: all
  double l2 = 0;                  // θ
  double proximal = 0;            // FedProx: + (p/2)‖y − w‖² (Li et al., MLSys 2020); 0: none
  std::uint64_t seed = 0;         // of the order of the batches
};

inline bool Plain(View drift, const LocalTraining& o) {
  return drift.empty() && o.l2 == 0 && o.proximal == 0;
}

// One step on the mean loss of the given records.
inline void LocalStep(const Shard& records, LocalSpace& s, const Objective& f, View w, View drift,
                      const LocalTraining& o) {
  const std::size_t m = records.size();
  if (m == 0) return;
  s.norm.resize(m);
  s.weight.resize(m);
  f.RecordNorms(records, s.y, s.work, s.norm);
  // A record that cannot be measured contributes nothing, or it would spoil the client's whole update.
  const bool plain = Plain(drift, o);
  const double each = (plain ? -o.rate : 1.0) / static_cast<double>(m);
  for (std::size_t l = 0; l < m; ++l) s.weight[l] = s.norm[l] < kInf ? each : 0.0;
  // In place: a sparse gradient then touches few of the parameters, and none is written twice.
  if (plain) return f.WeightedSum(records, s.y, s.work, s.weight, s.y);
  s.gradient.assign(w.size(), 0.0);
  f.WeightedSum(records, s.y, s.work, s.weight, s.gradient);
  for (std::size_t j = 0; j < w.size(); ++j) {
    const double more = o.l2 * s.y[j] + o.proximal * (s.y[j] - w[j]) + (drift.empty() ? 0.0 : drift[j]);
    s.y[j] -= o.rate * (s.gradient[j] + more);
  }
}

// The batches of all passes: blocks of neighbouring records, in an order drawn anew in every pass.
inline void DrawBlocks(std::size_t records, std::size_t batch, const LocalTraining& o, std::uint32_t client,
                       std::uint32_t round, std::vector<std::uint32_t>& blocks) {
  const std::size_t n = (records + batch - 1) / batch;
  blocks.resize(n * o.steps);
  if (n == 1) return std::fill(blocks.begin(), blocks.end(), 0);
  Stream order({o.seed, Purpose::kMinibatch, client, round});
  for (std::size_t k = 0; k < o.steps; ++k) {
    const std::span pass = std::span(blocks).subspan(k * n, n);
    for (std::uint32_t i = 0; i < n; ++i) pass[i] = i;
    for (std::size_t i = n; i > 1; --i) std::swap(pass[i - 1], pass[order.Below(i)]);
  }
}

// All local steps of a round; afterwards s.y is y, or the workspace holds what y − w is made of.
inline void LocalSteps(const Shard& own, LocalSpace& s, const Objective& f, const View& w, const View& drift,
                       const LocalTraining& o, const std::uint32_t& client, const std::uint32_t& round) {
  const std::size_t m = own.size(), batch = o.batch == 0 || o.batch >= m ? m : o.batch;
  const bool plain = Plain(drift, o);
  s.factored = false;
  if (m <= 1) s.y.assign(w.begin(), w.end());
  if (m == 0) return;
  if (m == 1 && plain && f.StepsOnRecord(own, 0, o.rate, o.steps, s.y)) return own.Done(0, m);
  DrawBlocks(m, batch, o, client, round, s.blocks);
  s.factored = plain && f.StepsByFactors(own, {o.rate, batch, s.blocks}, w, s.work);
  if (s.factored) return own.Done(0, m);
  s.y.assign(w.begin(), w.end());
  for (const std::uint32_t b : s.blocks) {
    const std::size_t first = b * batch;
    LocalStep(batch == m ? own : own.Slice(first, std::min(batch, m - first)), s, f, w, drift, o);
  }
  own.Done(0, m);
}

inline void TakeUpdate(const LocalSpace& s, Vec& update, const View& w, const Objective& f,
                       const Shard& own) {
  if (s.factored) return f.UpdateByFactors(own, w, s.work, update);
  update.resize(w.size());
  for (std::size_t j = 0; j < w.size(); ++j) update[j] = s.y[j] - w[j];
}

inline void TakeFactored(LocalSpace& s, FactoredVec& update, const View& w, const Objective& f,
                         const Shard& own) {
  if (s.factored) return f.FactorsOfUpdate(own, w, s.work, update);
  update.columns = 0;
  TakeUpdate(s, update.tail, w, f, own);
}

// The private update of one client, into s.update. `drift` may be private (a control variate).
template <class Drift>
void TrainLocally(const Holding& own, const Problem& problem, View w, const Drift& drift,
                  const LocalTraining& o, std::uint32_t round, Scratch& s) {
  own.data.Into<&LocalSteps>(s.local, *problem.f, w, drift, o, own.id, round);
  s.local.Into<&TakeUpdate>(s.update, w, *problem.f, own.data);
}
// The same into s.factored.
inline void TrainFactored(const Holding& own, const Problem& problem, View w, const LocalTraining& o,
                          std::uint32_t round, Scratch& s) {
  own.data.Into<&LocalSteps>(s.local, *problem.f, w, View(), o, own.id, round);
  s.local.MoveInto<&TakeFactored>(s.factored, w, *problem.f, own.data);
}

}  // namespace tacit
