#include "algorithms/topology.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace tacit {
namespace {

constexpr double kPi = std::numbers::pi;

// Symmetric, simple, ascending.
void ExpectSimple(const Graph& g) {
  std::size_t total = 0;
  for (std::size_t k = 0; k < g.size(); ++k) {
    const auto of = g.of(k);
    total += of.size();
    for (std::size_t i = 0; i < of.size(); ++i) {
      EXPECT_NE(of[i], k);
      if (i > 0) {
        EXPECT_LT(of[i - 1], of[i]);
      }
      const auto back = g.of(of[i]);
      EXPECT_TRUE(std::binary_search(back.begin(), back.end(), static_cast<std::uint32_t>(k)));
    }
  }
  EXPECT_EQ(total, 2 * g.edges());
}

std::size_t Parts(const Graph& g) {
  const auto c = Components(g);
  return c.empty() ? 0 : 1 + *std::max_element(c.begin(), c.end());
}

double MeanDegree(const Graph& g) {
  return 2 * static_cast<double>(g.edges()) / static_cast<double>(g.size());
}

TEST(Topology, NamedGraphsHaveTheirEdges) {
  EXPECT_EQ(Ring(7).edges(), 7u);
  EXPECT_EQ(Ring(2).edges(), 1u);
  EXPECT_EQ(Complete(6).edges(), 15u);
  EXPECT_EQ(Star(6).edges(), 5u);
  EXPECT_EQ(Star(6).degree(0), 5u);
  EXPECT_EQ(Torus(3, 4).edges(), 24u);
  EXPECT_EQ(Torus(2, 3).edges(), 9u);      // the two rows are joined once
  EXPECT_EQ(Torus(1, 5).edges(), 5u);
  for (const Graph& g : {Ring(7), Complete(6), Star(6), Torus(3, 4), Torus(2, 3)}) {
    ExpectSimple(g);
    EXPECT_EQ(Parts(g), 1u);
  }
}

TEST(Topology, EdgesCountOnceAndLoopsNot) {
  const std::vector<Edge> edges = {{0, 1}, {1, 0}, {2, 2}, {1, 2}, {1, 2}};
  const Graph g = GraphOf(4, edges);
  EXPECT_EQ(g.edges(), 2u);
  ExpectSimple(g);
  EXPECT_EQ(Components(g), (std::vector<std::uint32_t>{0, 0, 0, 1}));
}

TEST(Topology, RandomGraphsAreFunctionsOfTheirSeed) {
  const auto all = [](std::uint64_t seed, std::uint32_t attempt) {
    return std::vector<Graph>{ErdosRenyi(200, 5, seed, attempt), GeometricByDegree(200, 6, seed, attempt),
                              GeometricByRadius(200, 0.1, seed, attempt), Regular(200, 3, seed, attempt)};
  };
  const auto one = all(1, 0), same = all(1, 0), other = all(2, 0), again = all(1, 1);
  for (std::size_t i = 0; i < one.size(); ++i) {
    ExpectSimple(one[i]);
    EXPECT_EQ(one[i].neighbour, same[i].neighbour);
    EXPECT_NE(one[i].neighbour, other[i].neighbour);
    EXPECT_NE(one[i].neighbour, again[i].neighbour);
  }
}

TEST(Topology, MeanDegreesAreMet) {
  EXPECT_NEAR(MeanDegree(GeometricByDegree(1000, 8, 3)), 8, 1e-12);
  // Binomial with mean 10,000 and std 100: eight of these.
  EXPECT_NEAR(MeanDegree(ErdosRenyi(5000, 4, 3)), 4, 4 * 8.0 / 100);
  EXPECT_EQ(ErdosRenyi(20, 19, 3).edges(), 190u);
  EXPECT_EQ(ErdosRenyi(20, 0, 3).edges(), 0u);
  EXPECT_EQ(GeometricByDegree(10, 9, 3).edges(), 45u);
  EXPECT_EQ(GeometricByRadius(10, 1.5, 3).edges(), 45u);
}

TEST(Topology, ErdosRenyiTreatsAllPairsAlike) {
  // Each of the 45 pairs of 10 vertices, over 4000 draws with p = 1/3: six std cover all at a rate of 1e-7.
  std::vector<int> seen(100, 0);
  for (std::uint32_t a = 0; a < 4000; ++a) {
    const Graph g = ErdosRenyi(10, 3, 7, a);
    for (std::size_t k = 0; k < 10; ++k)
      for (const std::uint32_t l : g.of(k)) ++seen[k * 10 + l];
  }
  const double mean = 4000.0 / 3, std = std::sqrt(4000.0 * 2 / 9);
  for (std::size_t k = 0; k < 10; ++k)
    for (std::size_t l = 0; l < 10; ++l)
      if (k != l) {
        EXPECT_NEAR(seen[k * 10 + l], mean, 6 * std);
      }
}

RC_GTEST_PROP(Topology, RegularGraphsAreRegular, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(2, 60);
  auto d = *rc::gen::inRange<std::size_t>(0, n);
  if (n * d % 2 == 1) --d;
  const Graph g = Regular(n, d, *rc::gen::inRange<std::uint64_t>(0, 1000));
  for (std::size_t k = 0; k < n; ++k) RC_ASSERT(g.degree(k) == d);
  ExpectSimple(g);
}

TEST(Topology, RegularGraphsAreMixed) {
  // Of the circulant start's 3·1000/2 edges next to nothing is left.
  const Graph g = Regular(1000, 3, 5);
  std::size_t near = 0;
  for (std::size_t k = 0; k < 1000; ++k)
    for (const std::uint32_t l : g.of(k)) near += l == (k + 1) % 1000 || l == (k + 500) % 1000;
  EXPECT_LT(near, 30u);
  EXPECT_EQ(Parts(g), 1u);
}

TEST(Topology, ListsOfEdges) {
  const auto g = ParseEdges("# a path\n0 1\n1,2 # its end\r\n\n  2\t1\n", "path.txt", 3);
  ASSERT_TRUE(g.ok());
  EXPECT_EQ(g->edges(), 2u);
  const struct {
    const char* why;
    const char* text;
    const char* says;
  } kCases[] = {
      {"one vertex", "0 1\n2\n", "path.txt:2: is not an edge; write two vertices, as in 0 1"},
      {"three vertices", "0 1 2\n", "path.txt:1: is not an edge; write two vertices, as in 0 1"},
      {"no number", "0 a\n", "path.txt:1: is not an edge; write two vertices, as in 0 1"},
      {"negative", "0 -1\n", "path.txt:1: is not an edge; write two vertices, as in 0 1"},
      {"a fraction", "0 1.5\n", "path.txt:1: is not an edge; write two vertices, as in 0 1"},
      {"beyond 64 bits", "0 99999999999999999999\n",
       "path.txt:1: is not an edge; write two vertices, as in 0 1"},
      {"too large", "# x\n0 3\n", "path.txt:2: there is no vertex 3; the 3 clients are numbered from 0"},
      {"a loop", "1 1\n", "path.txt:1: joins vertex 1 to itself; remove the line"},
  };
  for (const auto& c : kCases) {
    const auto bad = ParseEdges(c.text, "path.txt", 3);
    ASSERT_FALSE(bad.ok()) << c.why;
    EXPECT_EQ(bad.error().message, c.says) << c.why;
    EXPECT_EQ(bad.error().code, Code::kMalformed) << c.why;
  }
}

TEST(Topology, AnUnconnectedGraphNamesItsComponents) {
  const auto g = MakeTopology({.name = Topology::kEdges, .edges = "0 1\n2 3\n3 4\n", .file = "net.txt"}, 6);
  ASSERT_FALSE(g.ok());
  EXPECT_EQ(g.error().message,
            "net.txt: the graph falls into 3 components, {0, 1}, {2, 3, 4}, {5}; add edges between them");
  const auto long_list = CheckConnected(GraphOf(20, {}), "x", "y");
  EXPECT_EQ(long_list.error().message,
            "x: the graph falls into 20 components, {0}, {1}, {2}, {3}, {4}, {5}, …; y");
  const auto large = CheckConnected(Without(Ring(20), std::vector<std::uint32_t>{3}), "x", "y");
  EXPECT_EQ(large.error().message,
            "x: the graph falls into 2 components, {0, 1, 2, 4, 5, 6, … 19 in all}, {3}; y");
}

TEST(Topology, MoreAttemptsFindAConnectedGraph) {
  // 50 vertices of mean degree 3 are connected about once in twenty draws.
  TopologySpec spec{.name = Topology::kErdosRenyi, .degree = 3, .seed = 1, .attempts = 2000};
  const auto g = MakeTopology(spec, 50);
  ASSERT_TRUE(g.ok());
  EXPECT_EQ(Parts(*g), 1u);
  spec.attempts = 1;
  spec.degree = 0.5;
  const auto apart = MakeTopology(spec, 50);
  ASSERT_FALSE(apart.ok());
  EXPECT_NE(apart.error().message.find("take another seed, a larger degree or more attempts"),
            std::string::npos);
}

TEST(Topology, SpecsThatCannotBe) {
  EXPECT_FALSE(MakeTopology({}, 1).ok());
  EXPECT_FALSE(MakeTopology({.name = Topology::kRegular, .degree = 3}, 5).ok());
  EXPECT_FALSE(MakeTopology({.name = Topology::kRegular, .degree = 2.5}, 6).ok());
  EXPECT_FALSE(MakeTopology({.name = Topology::kRegular, .degree = 6}, 6).ok());
  EXPECT_FALSE(MakeTopology({.name = Topology::kErdosRenyi, .degree = 0}, 6).ok());
  EXPECT_FALSE(MakeTopology({.name = Topology::kErdosRenyi, .degree = std::nan("")}, 6).ok());
  EXPECT_FALSE(MakeTopology({.name = Topology::kGeometric, .radius = -1}, 6).ok());
  EXPECT_FALSE(MakeTopology({.name = Topology::kTorus, .rows = 4}, 6).ok());
  EXPECT_EQ(MakeTopology({.name = Topology::kTorus}, 12)->edges(), 24u);  // 3 × 4
  EXPECT_EQ(MakeTopology({.name = Topology::kTorus}, 7)->edges(), 7u);  // a prime: a ring
}

// L₋ = D − A = ½H₋H₋ᵀ, L₊ = D + A = ½H₊H₊ᵀ with a column e_k ∓ e_l for each direction of each edge.
TEST(Spectrum, TheLaplaciansAreThePapers) {
  const Graph g = Regular(12, 3, 2);
  for (const double sign : {-1.0, 1.0})
    for (std::size_t a = 0; a < 12; ++a)
      for (std::size_t b = 0; b < 12; ++b) {
        double sum = 0;
        for (std::size_t k = 0; k < 12; ++k)
          for (const std::uint32_t l : g.of(k)) {
            const auto entry = [&](std::size_t v) {
              return (v == k ? 1.0 : 0.0) + sign * (v == l ? 1.0 : 0.0);
            };
            sum += 0.5 * entry(a) * entry(b);
          }
        const auto of = g.of(a);
        const bool joined = std::binary_search(of.begin(), of.end(), static_cast<std::uint32_t>(b));
        EXPECT_EQ(sum, a == b ? static_cast<double>(g.degree(a)) : joined ? sign : 0.0);
      }
}

void ExpectSpectrum(const Graph& g, double least, double largest, double signless, double gap,
                    double digits) {
  const Spectrum s = SpectrumOf(g);
  EXPECT_NEAR(s.phi_min / least, 1, digits);
  EXPECT_NEAR(s.phi_max / largest, 1, digits);
  EXPECT_NEAR(s.signless_max / signless, 1, digits);
  if (gap > 0)
    EXPECT_NEAR(s.gap / gap, 1, digits);
  else
    EXPECT_NEAR(s.gap, 0, digits);
}

TEST(Spectrum, ClosedForms) {
  // Metropolis weights on a regular graph: W = I − L₋/(1 + d).
  const auto ring = [](std::size_t n, double digits) {
    const double least = 2 - 2 * std::cos(2 * kPi / static_cast<double>(n));
    const double largest = n % 2 == 0 ? 4 : 2 + 2 * std::cos(kPi / static_cast<double>(n));
    ExpectSpectrum(Ring(n), least, largest, 4, std::min(least / 3, 2 - largest / 3), digits);
  };
  const auto torus = [](std::size_t n, double digits) {  // n × n, n even
    const double least = 2 - 2 * std::cos(2 * kPi / static_cast<double>(n));
    ExpectSpectrum(Torus(n, n), least, 8, 8, std::min(least / 5, 2 - 8.0 / 5), digits);
  };
  ring(10, 1e-12);
  ring(11, 1e-12);
  ring(600, 1e-9);
  torus(10, 1e-12);
  for (const std::size_t n : {5u, 20u}) {
    const double k = static_cast<double>(n);
    ExpectSpectrum(Complete(n), k, k, 2 * (k - 1), 1, 1e-12);
    // A star: 1 and K, signless K; Metropolis weights 1/K on every edge: eigenvalues 1 − 1/K and 0.
    ExpectSpectrum(Star(n), 1, k, k, 1 / k, 1e-12);
  }
}

// The least eigenvalue of L₊: 0 where two colours are enough, and what is known of others; dense and
// iterated.
TEST(Spectrum, TheSignlessLaplacianHasALeastEigenvalueToo) {
  for (const std::size_t n : {10u, 600u, 602u, 10000u}) {
    EXPECT_EQ(SpectrumOf(Ring(n)).signless_min, 0) << n;
    EXPECT_EQ(SpectrumOf(Star(n)).signless_min, 0) << n;
  }
  EXPECT_EQ(SpectrumOf(Torus(30, 30)).signless_min, 0);
  // An odd ring: 2 + 2 cos((n − 1)π/n). A complete graph: K − 2.
  for (const std::size_t n : {5u, 599u, 601u, 1001u}) {
    const double least = 2 - 2 * std::cos(kPi / static_cast<double>(n));
    EXPECT_NEAR(SpectrumOf(Ring(n)).signless_min / least, 1, n > 600 ? 1e-7 : 1e-6) << n;
  }
  for (const std::size_t n : {5u, 20u, 700u}) {
    const double k = static_cast<double>(n);
    EXPECT_NEAR(SpectrumOf(Complete(n)).signless_min / (k - 2), 1, 1e-10) << n;
  }
  // A regular graph: 2d − Φ_max of L₋.
  for (const std::size_t n : {60u, 2000u}) {
    const Spectrum s = SpectrumOf(Regular(n, 5, 3));
    EXPECT_NEAR(s.signless_min / (10 - s.phi_max), 1, 1e-7) << n;
  }
}

TEST(Spectrum, TenThousandVertices) {
  const double least = 2 - 2 * std::cos(2 * kPi / 10000);
  ExpectSpectrum(Ring(10000), least, 4, 4, least / 3, 1e-7);
  const double sheet = 2 - 2 * std::cos(2 * kPi / 100);
  ExpectSpectrum(Torus(100, 100), sheet, 8, 8, sheet / 5, 1e-7);
  ExpectSpectrum(Star(10000), 1, 10000, 10000, 1e-4, 1e-7);
  // A random 10-regular graph is nearly as good as can be: eigenvalues of A but 10 within 2√9 = 6.
  const Spectrum s = SpectrumOf(Regular(10000, 10, 1));
  EXPECT_GT(s.phi_min, 3.9);
  EXPECT_LT(s.phi_max, 16.1);
  EXPECT_NEAR(s.signless_max, 20, 1e-7);
  EXPECT_NEAR(s.gap, s.phi_min / 11, 1e-7);
}

TEST(Spectrum, IterativeValuesAreTrueWhereDenseOnesEnd) {
  for (const std::size_t n : {600u, 601u, 1000u}) {
    const double least = 2 - 2 * std::cos(2 * kPi / static_cast<double>(n));
    EXPECT_NEAR(SpectrumOf(Ring(n)).phi_min / least, 1, 1e-8) << n;
    const std::uint32_t last = static_cast<std::uint32_t>(n - 1);
    std::vector<Edge> edges;
    for (std::uint32_t a = 1; a < n; ++a) edges.emplace_back(0u, a);
    edges.emplace_back(1u, last);
    // A star with one more edge: 0, 1 (n − 3 times), 3 and n.
    const Spectrum s = SpectrumOf(GraphOf(n, edges));
    EXPECT_NEAR(s.phi_min, 1, 1e-8) << n;
    EXPECT_NEAR(s.phi_max / static_cast<double>(n), 1, 1e-8) << n;
  }
}

}  // namespace
}  // namespace tacit
