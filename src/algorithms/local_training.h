#pragma once

// What federated averaging and its relatives do at a client: a few gradient steps on its own records.
//
//   y = w;  K times  y ← y − η_l (∇f_B(y) + θy + drift);  the update is y − w
//
// Nothing here is noised or clipped: the update is private, and whoever sends it clips it first.
#include <algorithm>
#include <cstdint>

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

// All local steps of a round; s.y is y afterwards. Batches are blocks of neighbouring records, in an order
// drawn anew in every pass.
inline void LocalSteps(const Shard& own, LocalSpace& s, const Objective& f, const View& w, const View& drift,
                       const LocalTraining& o, const std::uint32_t& client, const std::uint32_t& round) {
  s.y.assign(w.begin(), w.end());
  const bool short_way = own.size() == 1 && Plain(drift, o) && f.StepsOnRecord(own, 0, o.rate, o.steps, s.y);
  if (short_way) return own.Done(0, 1);
  if (o.batch == 0 || o.batch >= own.size()) {
    for (std::uint32_t k = 0; k < o.steps; ++k) LocalStep(own, s, f, w, drift, o);
  } else {
    Stream order({o.seed, Purpose::kMinibatch, client, round});
    s.blocks.resize((own.size() + o.batch - 1) / o.batch);
    for (std::uint32_t k = 0; k < o.steps; ++k) {
      for (std::uint32_t i = 0; i < s.blocks.size(); ++i) s.blocks[i] = i;
      for (std::size_t i = s.blocks.size(); i > 1; --i) std::swap(s.blocks[i - 1], s.blocks[order.Below(i)]);
      for (const std::uint32_t b : s.blocks) {
        const std::size_t first = b * o.batch;
        LocalStep(own.Slice(first, std::min(o.batch, own.size() - first)), s, f, w, drift, o);
      }
    }
  }
  own.Done(0, own.size());
}

inline void TakeUpdate(const LocalSpace& s, Vec& update, const View& w) {      // y − w
  update.resize(w.size());
  for (std::size_t j = 0; j < w.size(); ++j) update[j] = s.y[j] - w[j];
}

// The private update of one client, into s.update. `drift` may be private (a control variate).
template <class Drift>
void TrainLocally(const Holding& own, const Problem& problem, View w, const Drift& drift,
                  const LocalTraining& o, std::uint32_t round, Scratch& s) {
  own.data.Into<&LocalSteps>(s.local, *problem.f, w, drift, o, own.id, round);
  s.local.Into<&TakeUpdate>(s.update, w);
}

}  // namespace tacit
