#pragma once

// Who talks to whom where there is no server: undirected graphs without loops or double edges, and the
// eigenvalues that rule how fast their vertices agree. Everything here is public.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace tacit {

// The neighbours of vertex k, ascending, are neighbour[offset[k]] … neighbour[offset[k + 1] − 1].
struct Graph {
  std::vector<std::uint32_t> offset;        // vertices + 1 entries
  std::vector<std::uint32_t> neighbour;     // every edge twice
  std::size_t size() const { return offset.empty() ? 0 : offset.size() - 1; }
  std::size_t edges() const { return neighbour.size() / 2; }
  std::size_t degree(std::size_t k) const { return offset[k + 1] - offset[k]; }
  std::span<const std::uint32_t> of(std::size_t k) const {
    return std::span(neighbour).subspan(offset[k], degree(k));
  }
};

using Edge = std::pair<std::uint32_t, std::uint32_t>;
// An edge that is listed twice, in either direction, counts once; loops are left out.
Graph GraphOf(std::size_t vertices, std::span<const Edge> edges);

Graph Ring(std::size_t vertices);
Graph Torus(std::size_t rows, std::size_t columns);      // vertex r·columns + c; wraps around
Graph Complete(std::size_t vertices);
Graph Star(std::size_t vertices);                        // vertex 0 is the hub

// Random graphs are functions of a public seed. `attempt` names independent draws from one seed.
//   Erdős–Rényi    every pair is an edge with probability degree/(vertices − 1)
//   geometric      points uniform in the unit square, joined up to a radius; by mean degree, the shortest
//                  vertices·degree/2 pairs are joined, so that the mean is met
//   regular        every vertex has `degree` neighbours: a circulant graph after 20 random switches an edge
Graph ErdosRenyi(std::size_t vertices, double degree, std::uint64_t seed, std::uint32_t attempt = 0);
Graph GeometricByRadius(std::size_t vertices, double radius, std::uint64_t seed, std::uint32_t attempt = 0);
Graph GeometricByDegree(std::size_t vertices, double degree, std::uint64_t seed, std::uint32_t attempt = 0);
// vertices·degree is even and degree < vertices.
Graph Regular(std::size_t vertices, std::size_t degree, std::uint64_t seed, std::uint32_t attempt = 0);

// Lines of two vertices, from 0, apart by blanks or a comma; what follows # is a comment. `file` names the
// text in errors.
Result<Graph> ParseEdges(std::string_view text, std::string_view file, std::size_t vertices);

// The component of every vertex; components are numbered in the order of their least vertices.
std::vector<std::uint32_t> Components(const Graph&);
// An error names the components and their vertices; `remedy` ends its sentence.
Status CheckConnected(const Graph&, std::string_view what, std::string_view remedy);
// The same vertices; those that are gone have no edges any more.
Graph Without(const Graph&, std::span<const std::uint32_t> gone);

// A graph by name, connected.
enum class Topology { kRing, kTorus, kComplete, kStar, kErdosRenyi, kGeometric, kRegular, kEdges };
struct TopologySpec {
  Topology name = Topology::kRing;
  double degree = 3;                 // Erdős–Rényi, geometric: the mean; regular: of every vertex
  double radius = 0;                 // geometric: instead of the degree, where it is above 0
  std::size_t rows = 0;              // torus; 0: as near to a square as the number of vertices allows
  std::uint64_t seed = 0;            // random graphs
  std::uint32_t attempts = 1;        // random graphs: the first connected one of so many draws
  std::string edges = {}, file = {};      // edges: the text of the list, and its name
};
Result<Graph> MakeTopology(const TopologySpec&, std::size_t vertices);

// Eigenvalues of the signed Laplacian L₋ = D − A and of the signless one L₊ = D + A. With every edge in both
// directions as a column of H₋ = A₁ᵀ − A₂ᵀ and H₊ = A₁ᵀ + A₂ᵀ these are ½H₋H₋ᵀ and ½H₊H₊ᵀ.
//
// The Metropolis matrix has 1/(1 + max(d_k, d_l)) for every edge and makes its rows sum to 1: symmetric,
// with eigenvalue 1 of the constant vector and all others within (−1, 1).
struct Spectrum {
  double phi_min = 0;          // the least eigenvalue of L₋ above 0
  double phi_max = 0;          // the largest of L₋
  double signless_min = 0;     // the least of L₊: 0 where the graph is bipartite, and above it elsewhere
  double signless_max = 0;     // the largest of L₊
  double gap = 0;              // 1 − the largest |λ| of the Metropolis matrix but for the constant vector
};
// Of a connected graph with at least two vertices. Up to 600 vertices by a dense solver; beyond by Lanczos
// iteration, on the inverse where the ends of the spectrum are crowded (rings, grids), to 8 digits or more.
Spectrum SpectrumOf(const Graph&);

}  // namespace tacit
