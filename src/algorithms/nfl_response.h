#pragma once

// How much of the noise of every round is in the last notes of a method without a server, on its graph.
//
// Where every f_k has the second derivative h, notes are linear in the noise ξ_t on them: with L = L₋ = D − A
// and the Metropolis matrix W (topology.h), up to terms without noise,
//   zcdp-nfl, dp-nfl   w_t = [ (1/η_t − h) w̃_{t−1} + ρ(2D − L) w̃_{t−1} − γ_{t−1} ] / (2ρD + 1/η_t)
//   p-admm             w_t = [ ρ(2D − L) w̃_{t−1} − γ_{t−1} ] / (2ρD + h)
//   both               w̃_t = w_t + ξ_t,  γ_t = γ_{t−1} + ρLw̃_t
//   zcdp-grad-nfl      w_t = (W − η_t h) w̃_{t−1},  w̃_t = w_t + ξ_t
// Absences are left out. Public constants only.
#include "algorithms/network.h"
#include "core/vec.h"

namespace tacit {

struct NoteDynamics {
  enum class Kind { kLinearised, kExact, kSubgradient };  // zcdp-nfl and dp-nfl, p-admm, zcdp-grad-nfl
  Kind kind = Kind::kLinearised;
  double rho = 1;  // ρ
  double curvature = 0;  // h ≥ 0, l2 included
  StepSize step = {};  // η_t; nothing to kExact
};

// Vectors whose response is to be worked out: all of the graph's where that takes a tenth of a second, else
// the constant one and 2 to 16 at random; 0: even those would take seconds.
std::size_t ResponseProbes(const Graph&, std::size_t rounds);

// log q_t, t = 1 … rounds: q_t = Σ_jk (∂w̃_j(T)/∂ξ_k(t))² s_k²(t), how much the noise of round t counts in all
// last notes together. s_k(t) is noise[k] divided by 2ρ|N_k| + 1/η_t (kLinearised), 1/η_t (kSubgradient) or 1
// (kExact): noise[k] is what a peer's noise on what it releases is relative to others', the same in all
// rounds. Finite, where some noise[k] > 0.
//
// Exact with probes ≥ vertices. Otherwise the constant vector counts exactly, and what is orthogonal to it as
// the mean over `probes` random vectors of ±1, from a fixed seed. O(probes · rounds · edges), memory for a
// few numbers a vertex. probes > 0; a connected graph with at least two vertices.
Vec LogResponse(const Graph&, const NoteDynamics&, std::size_t rounds, View noise, std::size_t probes);

}  // namespace tacit
