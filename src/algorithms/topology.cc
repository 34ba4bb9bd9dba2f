#include "algorithms/topology.h"

#include <Eigen/Dense>
#include <Eigen/Sparse>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numbers>

#include "core/check.h"
#include "core/rng.h"

namespace tacit {
namespace {

Stream StreamOf(std::uint64_t seed, std::uint32_t attempt) {
  return Stream({.seed = seed, .purpose = Purpose::kTopology, .who = 0, .round = attempt});
}

std::uint32_t Id(std::size_t k) { return static_cast<std::uint32_t>(k); }

struct Point {
  double x, y;
};
struct Pair {
  double square;      // of the distance
  Edge edge;
};

std::vector<Point> Points(std::size_t vertices, std::uint64_t seed, std::uint32_t attempt) {
  Stream rng = StreamOf(seed, attempt);
  std::vector<Point> at(vertices);
  for (Point& p : at) {
    p.x = rng.Uniform();
    p.y = rng.Uniform();
  }
  return at;
}

// All pairs up to a distance, by cells of that width.
std::vector<Pair> PairsWithin(const std::vector<Point>& at, double radius) {
  const std::size_t cells =
      std::clamp<std::size_t>(static_cast<std::size_t>(1 / std::max(radius, 1e-6)), 1,
                              static_cast<std::size_t>(std::sqrt(static_cast<double>(at.size()))) + 1);
  const auto cell = [&](double x) {
    return std::min(cells - 1, static_cast<std::size_t>(x * static_cast<double>(cells)));
  };
  std::vector<std::vector<std::uint32_t>> in(cells * cells);
  for (std::size_t k = 0; k < at.size(); ++k) in[cell(at[k].x) * cells + cell(at[k].y)].push_back(Id(k));
  std::vector<Pair> out;
  for (std::size_t k = 0; k < at.size(); ++k) {
    const std::size_t cx = cell(at[k].x), cy = cell(at[k].y);
    for (std::size_t i = cx == 0 ? 0 : cx - 1; i <= std::min(cells - 1, cx + 1); ++i)
      for (std::size_t j = cy == 0 ? 0 : cy - 1; j <= std::min(cells - 1, cy + 1); ++j)
        for (const std::uint32_t l : in[i * cells + j]) {
          if (l <= k) continue;
          const double dx = at[k].x - at[l].x, dy = at[k].y - at[l].y, square = dx * dx + dy * dy;
          if (square <= radius * radius) out.push_back({square, {Id(k), l}});
        }
  }
  return out;
}

Graph OfPairs(std::size_t vertices, const std::vector<Pair>& pairs) {
  std::vector<Edge> edges;
  edges.reserve(pairs.size());
  for (const Pair& p : pairs) edges.push_back(p.edge);
  return GraphOf(vertices, edges);
}

Graph Complement(const Graph& g) {
  std::vector<Edge> edges;
  for (std::size_t k = 0; k < g.size(); ++k) {
    const auto of = g.of(k);
    for (std::size_t l = k + 1; l < g.size(); ++l)
      if (!std::binary_search(of.begin(), of.end(), Id(l))) edges.emplace_back(Id(k), Id(l));
  }
  return GraphOf(g.size(), edges);
}

}  // namespace

Graph GraphOf(std::size_t vertices, std::span<const Edge> edges) {
  TACIT_CHECK(vertices < 0xffffffff);
  std::vector<Edge> both;
  both.reserve(2 * edges.size());
  for (const auto& [a, b] : edges) {
    TACIT_CHECK(a < vertices && b < vertices);
    if (a == b) continue;
    both.emplace_back(a, b);
    both.emplace_back(b, a);
  }
  std::sort(both.begin(), both.end());
  both.erase(std::unique(both.begin(), both.end()), both.end());
  TACIT_CHECK(both.size() < 0xffffffff);
  Graph g;
  g.offset.assign(vertices + 1, 0);
  g.neighbour.reserve(both.size());
  for (const auto& [a, b] : both) {
    ++g.offset[a + 1];
    g.neighbour.push_back(b);
  }
  for (std::size_t k = 0; k < vertices; ++k) g.offset[k + 1] += g.offset[k];
  return g;
}

Graph Ring(std::size_t vertices) {
  std::vector<Edge> edges;
  for (std::size_t k = 0; k < vertices; ++k) edges.emplace_back(Id(k), Id((k + 1) % vertices));
  return GraphOf(vertices, edges);
}

Graph Torus(std::size_t rows, std::size_t columns) {
  std::vector<Edge> edges;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) {
      const std::uint32_t k = Id(r * columns + c);
      edges.emplace_back(k, Id(r * columns + (c + 1) % columns));
      edges.emplace_back(k, Id((r + 1) % rows * columns + c));
    }
  return GraphOf(rows * columns, edges);
}

Graph Complete(std::size_t vertices) {
  std::vector<Edge> edges;
  for (std::size_t k = 0; k < vertices; ++k)
    for (std::size_t l = k + 1; l < vertices; ++l) edges.emplace_back(Id(k), Id(l));
  return GraphOf(vertices, edges);
}

Graph Star(std::size_t vertices) {
  std::vector<Edge> edges;
  for (std::size_t k = 1; k < vertices; ++k) edges.emplace_back(0u, Id(k));
  return GraphOf(vertices, edges);
}

// Runs of pairs that are no edges have geometric lengths (Batagelj & Brandes, 2005): work in the edges alone.
Graph ErdosRenyi(std::size_t vertices, double degree, std::uint64_t seed, std::uint32_t attempt) {
  if (vertices < 2 || !(degree > 0)) return GraphOf(vertices, {});
  const double p = degree / static_cast<double>(vertices - 1);
  if (p >= 1) return Complete(vertices);
  Stream rng = StreamOf(seed, attempt);
  const double scale = 1 / std::log1p(-p);
  std::vector<Edge> edges;
  // Pair (k, l), l < k, is number k(k − 1)/2 + l.
  for (std::size_t k = 1, l = 0;;) {
    const double skip = std::floor(std::log1p(-rng.Uniform()) * scale);
    if (!(skip < static_cast<double>(vertices) * static_cast<double>(vertices))) break;
    l += static_cast<std::size_t>(skip);
    while (k < vertices && l >= k) l -= k++;
    if (k >= vertices) break;
    edges.emplace_back(Id(k), Id(l));
    ++l;
  }
  return GraphOf(vertices, edges);
}

Graph GeometricByRadius(std::size_t vertices, double radius, std::uint64_t seed, std::uint32_t attempt) {
  return OfPairs(vertices, PairsWithin(Points(vertices, seed, attempt), radius));
}

Graph GeometricByDegree(std::size_t vertices, double degree, std::uint64_t seed, std::uint32_t attempt) {
  const double n = static_cast<double>(vertices);
  const std::size_t most = vertices < 2 ? 0 : vertices * (vertices - 1) / 2;
  const std::size_t wanted =
      std::min(most, static_cast<std::size_t>(std::llround(std::max(0.0, n * degree / 2))));
  if (wanted == 0) return GraphOf(vertices, {});
  const std::vector<Point> at = Points(vertices, seed, attempt);
  // A disc of this radius holds `degree` others on average; near the border it holds fewer.
  for (double radius = 1.2 * std::sqrt(degree / (std::numbers::pi * n));; radius *= 1.5) {
    std::vector<Pair> pairs = PairsWithin(at, std::min(radius, 2.0));
    if (pairs.size() < wanted) continue;
    std::nth_element(pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(wanted - 1), pairs.end(),
                     [](const Pair& a, const Pair& b) {
                       return a.square != b.square ? a.square < b.square : a.edge < b.edge;
                     });
    pairs.resize(wanted);
    return OfPairs(vertices, pairs);
  }
}

Graph Regular(std::size_t vertices, std::size_t degree, std::uint64_t seed, std::uint32_t attempt) {
  TACIT_CHECK(degree < vertices && vertices * degree % 2 == 0);
  if (2 * degree > vertices - 1) return Complement(Regular(vertices, vertices - 1 - degree, seed, attempt));
  if (degree == 0) return GraphOf(vertices, {});
  std::vector<Edge> edges;
  for (std::size_t k = 0; k < vertices; ++k) {
    for (std::size_t step = 1; step <= degree / 2; ++step)
      edges.emplace_back(Id(k), Id((k + step) % vertices));
    if (degree % 2 == 1 && k < vertices / 2) edges.emplace_back(Id(k), Id(k + vertices / 2));
  }
  std::vector<std::uint32_t> near(vertices * degree);  // unordered lists of neighbours
  std::vector<std::size_t> filled(vertices, 0);
  for (const auto& [a, b] : edges) {
    near[a * degree + filled[a]++] = b;
    near[b * degree + filled[b]++] = a;
  }
  const auto find = [&](std::uint32_t a, std::uint32_t b) {
    const auto begin = near.begin() + static_cast<std::ptrdiff_t>(a * degree);
    return std::find(begin, begin + static_cast<std::ptrdiff_t>(degree), b);
  };
  const auto joined = [&](std::uint32_t a, std::uint32_t b) {
    return find(a, b) != near.begin() + static_cast<std::ptrdiff_t>((a + std::size_t{1}) * degree);
  };
  // (a, b), (c, d) → (a, d), (c, b) keeps every degree; it is made where the graph stays simple.
  Stream rng = StreamOf(seed, attempt);
  for (std::size_t i = 0; i < 20 * edges.size(); ++i) {
    Edge& one = edges[rng.Below(edges.size())];
    Edge& two = edges[rng.Below(edges.size())];
    if (rng.Below(2) == 1) std::swap(two.first, two.second);
    const auto [a, b] = one;
    const auto [c, d] = two;
    if (&one == &two || a == d || c == b || a == c || b == d || joined(a, d) || joined(c, b)) continue;
    *find(a, b) = d;
    *find(b, a) = c;
    *find(c, d) = b;
    *find(d, c) = a;
    one = {a, d};
    two = {c, b};
  }
  return GraphOf(vertices, edges);
}

Result<Graph> ParseEdges(std::string_view text, std::string_view file, std::size_t vertices) {
  std::vector<Edge> edges;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    line = line.substr(0, line.find('#'));
    std::uint64_t ends[2] = {0, 0};
    std::size_t found = 0;
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == ','; };
    while (true) {
      while (!line.empty() && blank(line.front())) line.remove_prefix(1);
      if (line.empty()) break;
      std::uint64_t value = 0;
      const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), value);
      const std::size_t used = static_cast<std::size_t>(rest - line.data());
      if (error != std::errc{} || found == 2 || (used < line.size() && !blank(line[used])))
        return Fail(Code::kMalformed, "{}:{}: is not an edge; write two vertices, as in 0 1", file, number);
      if (value >= vertices)
        return Fail(Code::kMalformed, "{}:{}: there is no vertex {}; the {} clients are numbered from 0",
                    file, number, value, vertices);
      ends[found++] = value;
      line.remove_prefix(used);
    }
    if (found == 0) continue;
    if (found == 1)
      return Fail(Code::kMalformed, "{}:{}: is not an edge; write two vertices, as in 0 1", file, number);
    if (ends[0] == ends[1])
      return Fail(Code::kMalformed, "{}:{}: joins vertex {} to itself; remove the line", file, number,
                  ends[0]);
    edges.emplace_back(Id(ends[0]), Id(ends[1]));
  }
  return GraphOf(vertices, edges);
}

std::vector<std::uint32_t> Components(const Graph& g) {
  constexpr std::uint32_t kNone = 0xffffffff;
  std::vector<std::uint32_t> component(g.size(), kNone), stack;
  std::uint32_t count = 0;
  for (std::size_t k = 0; k < g.size(); ++k) {
    if (component[k] != kNone) continue;
    component[k] = count;
    stack.push_back(Id(k));
    while (!stack.empty()) {
      const std::uint32_t at = stack.back();
      stack.pop_back();
      for (const std::uint32_t l : g.of(at))
        if (component[l] == kNone) {
          component[l] = count;
          stack.push_back(l);
        }
    }
    ++count;
  }
  return component;
}

Status CheckConnected(const Graph& g, std::string_view what, std::string_view remedy) {
  const std::vector<std::uint32_t> component = Components(g);
  const std::size_t count = component.empty() ? 0 : 1 + *std::max_element(component.begin(), component.end());
  if (count <= 1) return Ok{};
  constexpr std::size_t kParts = 6, kVertices = 6;
  std::string parts;
  for (std::uint32_t c = 0; c < std::min(count, kParts); ++c) {
    parts += c == 0 ? "{" : ", {";
    std::size_t in = 0;
    for (std::size_t k = 0; k < g.size(); ++k) {
      if (component[k] != c) continue;
      if (++in <= kVertices) parts += fmt::format("{}{}", in == 1 ? "" : ", ", k);
    }
    parts += in > kVertices ? fmt::format(", … {} in all}}", in) : "}";
  }
  if (count > kParts) parts += ", …";
  return Fail(Code::kInvalidArgument, "{}: the graph falls into {} components, {}; {}", what, count, parts,
              remedy);
}

Graph Without(const Graph& g, std::span<const std::uint32_t> gone) {
  std::vector<bool> out(g.size());
  for (const std::uint32_t k : gone) out[k] = true;
  std::vector<Edge> edges;
  for (std::size_t k = 0; k < g.size(); ++k)
    for (const std::uint32_t l : g.of(k))
      if (k < l && !out[k] && !out[l]) edges.emplace_back(Id(k), l);
  return GraphOf(g.size(), edges);
}

Result<Graph> MakeTopology(const TopologySpec& spec, std::size_t vertices) {
  if (vertices < 2 || vertices > 0x7fffffff)
    return Fail(Code::kInvalidArgument,
                "a network of {} peers: it takes at least 2, and at most 2^31; set data.clients", vertices);
  const double most = static_cast<double>(vertices - 1);
  const bool by_degree = spec.name == Topology::kErdosRenyi || spec.name == Topology::kRegular ||
                         (spec.name == Topology::kGeometric && spec.radius == 0);
  if (by_degree && (!(spec.degree > 0) || spec.degree > most))
    return Fail(Code::kInvalidArgument, "degree = {}: must be above 0 and at most {}, for {} clients",
                spec.degree, most, vertices);
  const auto connected = [&](const char* what, auto draw) -> Result<Graph> {
    for (std::uint32_t attempt = 0;; ++attempt) {
      Graph g = draw(attempt);
      const Status whole = CheckConnected(g, what, "take another seed, a larger degree or more attempts");
      if (whole.ok()) return g;
      if (attempt + 1 >= spec.attempts) return whole.error();
    }
  };
  switch (spec.name) {
    case Topology::kRing: return Ring(vertices);
    case Topology::kComplete: return Complete(vertices);
    case Topology::kStar: return Star(vertices);
    case Topology::kTorus: {
      std::size_t rows = spec.rows;
      if (rows == 0)
        for (std::size_t r = 1; r * r <= vertices; ++r)
          if (vertices % r == 0) rows = r;
      if (vertices % rows != 0)
        return Fail(
            Code::kInvalidArgument,
            "rows = {}: {} peers do not fill a torus of so many rows; give a divisor of data.clients, or 0",
            rows, vertices);
      return Torus(rows, vertices / rows);
    }
    case Topology::kErdosRenyi:
      return connected("erdos-renyi", [&](std::uint32_t attempt) {
        return ErdosRenyi(vertices, spec.degree, spec.seed, attempt);
      });
    case Topology::kGeometric:
      if (!(spec.radius >= 0) || spec.radius > 2)
        return Fail(Code::kInvalidArgument, "radius = {}: must be in [0, 2]; 0 leaves it to the degree",
                    spec.radius);
      return connected("geometric", [&](std::uint32_t attempt) {
        return spec.radius > 0 ? GeometricByRadius(vertices, spec.radius, spec.seed, attempt)
                               : GeometricByDegree(vertices, spec.degree, spec.seed, attempt);
      });
    case Topology::kRegular: {
      const auto degree = static_cast<std::size_t>(spec.degree);
      if (static_cast<double>(degree) != spec.degree || vertices * degree % 2 != 0)
        return Fail(
            Code::kInvalidArgument,
            "degree = {}: a regular graph of {} clients needs a whole degree, even if their number is "
            "odd",
            spec.degree, vertices);
      return connected("regular",
                       [&](std::uint32_t attempt) { return Regular(vertices, degree, spec.seed, attempt); });
    }
    case Topology::kEdges: {
      TACIT_TRY(Graph g, ParseEdges(spec.edges, spec.file, vertices));
      TACIT_OK(CheckConnected(g, spec.file, "add edges between them"));
      return g;
    }
  }
  return Fail(Code::kInvalidArgument, "topology {}: unknown; choose a name of the enumeration",
              static_cast<int>(spec.name));
}

// Eigenvalues.
namespace {

using Sparse = Eigen::SparseMatrix<double>;
Eigen::Index At(std::size_t i) { return static_cast<Eigen::Index>(i); }

// diagonal_k = Σ_l weight(k, l), off-diagonals sign·weight(k, l).
template <class Weight>
Sparse LaplacianOf(const Graph& g, double sign, Weight weight) {
  const Eigen::Index n = At(g.size());
  std::vector<Eigen::Triplet<double>> entries;
  entries.reserve(g.neighbour.size() + g.size());
  for (std::size_t k = 0; k < g.size(); ++k) {
    double sum = 0;
    for (const std::uint32_t l : g.of(k)) {
      const double w = weight(k, l);
      sum += w;
      entries.emplace_back(static_cast<int>(k), static_cast<int>(l), sign * w);
    }
    entries.emplace_back(static_cast<int>(k), static_cast<int>(k), sum);
  }
  TACIT_CHECK(n > 0 && !entries.empty());
  Sparse m(n, n);
  m.setFromTriplets(entries.begin(), entries.end());
  return m;
}

// The least and the largest eigenvalue; `deflate`: on the complement of the constant vector.
struct Ends {
  double least = 0, largest = 0;
};

Ends DenseEnds(const Sparse& m, bool deflate) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(Eigen::MatrixXd(m), Eigen::EigenvaluesOnly);
  const auto& values = solver.eigenvalues();
  return {values(deflate ? 1 : 0), values(values.size() - 1)};
}

struct Ritz {
  double value = 0;
  bool found = false;
};

// Lanczos without orthogonalisation: Ritz values may come twice, but the ends of the spectrum are true
// (Paige, 1980). An end is found when half as many steps again no longer move it by 1e-10 of it.
class Lanczos {
 public:
  using Apply = std::function<void(const Eigen::VectorXd&, Eigen::VectorXd&)>;
  Lanczos(Eigen::Index n, Apply apply, bool deflate)
      : apply_(std::move(apply)), deflate_(deflate), before_(Eigen::VectorXd::Zero(n)), v_(n), next_(n) {
    Stream rng({.seed = 1, .purpose = Purpose::kTopology, .who = 1});
    for (Eigen::Index k = 0; k < n; ++k) v_(k) = rng.Uniform() - 0.5;
    Centre(v_);
    v_.normalize();
  }

  // Up to so many steps in all; stops when the ends that are asked for are found.
  void Run(std::size_t steps, bool need_least) {
    std::size_t check = std::max<std::size_t>(10, alpha_.size() + alpha_.size() / 2);
    while (!ended_ && alpha_.size() < steps) {
      Step();
      if (!ended_ && alpha_.size() < std::min(check, steps)) continue;
      check += check / 2;
      const Eigen::Index m = At(alpha_.size());
      Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> ritz;
      ritz.computeFromTridiagonal(Eigen::Map<const Eigen::VectorXd>(alpha_.data(), m),
                                  Eigen::Map<const Eigen::VectorXd>(beta_.data(), m - 1),
                                  Eigen::EigenvaluesOnly);
      Move(least_, ritz.eigenvalues()(0));
      Move(largest_, ritz.eigenvalues()(m - 1));
      if (largest_.found && (least_.found || !need_least)) return;
    }
  }
  const Ritz& least() const { return least_; }
  const Ritz& largest() const { return largest_; }

 private:
  void Centre(Eigen::VectorXd& x) const {
    if (deflate_) x.array() -= x.mean();
  }
  void Step() {
    apply_(v_, next_);
    alpha_.push_back(v_.dot(next_));
    next_ -= alpha_.back() * v_;
    if (!beta_.empty()) next_ -= beta_.back() * before_;
    Centre(next_);
    beta_.push_back(next_.norm());
    ended_ = beta_.back() <= 1e-14 * std::abs(alpha_.front());  // the space is exhausted
    if (ended_) return;
    before_.swap(v_);
    v_ = next_ / beta_.back();
  }
  void Move(Ritz& end, double to) const {
    end = {to, ended_ || std::abs(to - end.value) <= 1e-10 * std::abs(to)};
  }

  Apply apply_;
  bool deflate_, ended_ = false;
  Eigen::VectorXd before_, v_, next_;
  std::vector<double> alpha_, beta_;
  Ritz least_, largest_;
};

// A factorisation that can be priced before it is made.
class Factor : public Eigen::SimplicialLDLT<Sparse> {
 public:
  double Operations() const { return m_nonZerosPerCol.cast<double>().squaredNorm(); }
};

// 1/(the eigenvalue of sign·(m − shift) nearest 0), by Lanczos on the inverse, where that is cheap.
Ritz InverseLanczos(const Sparse& m, double shift, double sign, bool deflate) {
  Sparse shifted = sign * m;
  for (Eigen::Index k = 0; k < m.rows(); ++k) shifted.coeffRef(k, k) -= sign * shift;
  Factor factor;
  factor.analyzePattern(shifted);
  if (factor.Operations() > 1e9) return {};
  factor.factorize(shifted);
  if (factor.info() != Eigen::Success) return {};
  Lanczos inverse(
      m.rows(), [&](const Eigen::VectorXd& x, Eigen::VectorXd& y) { y = factor.solve(x); }, deflate);
  inverse.Run(300, false);
  return inverse.largest();
}

// `bound`: no eigenvalue is larger.
Ends EndsOf(const Sparse& m, bool deflate, bool need_least, double bound) {
  if (m.rows() <= 600) return DenseEnds(m, deflate);
  Lanczos lanczos(m.rows(), [&](const Eigen::VectorXd& x, Eigen::VectorXd& y) { y = m * x; }, deflate);
  lanczos.Run(400, need_least);
  Ritz least = lanczos.least(), largest = lanczos.largest();
  // What is crowded at an end belongs to a graph that is nearly a line or a sheet, whose factors stay sparse.
  if (need_least && !least.found) {
    const double shift = -1e-10 * bound;
    if (const Ritz r = InverseLanczos(m, shift, 1, deflate); r.found) least = {1 / r.value + shift, true};
  }
  if (!largest.found) {
    const double shift = bound * (1 + 1e-8);
    if (const Ritz r = InverseLanczos(m, shift, -1, deflate); r.found) largest = {shift - 1 / r.value, true};
  }
  if ((need_least && !least.found) || !largest.found) {
    lanczos.Run(3000, need_least);
    if (!least.found) least = lanczos.least();
    if (!largest.found) largest = lanczos.largest();
  }
  return {least.value, largest.value};
}

// Whether two colours are enough for a connected graph: then 0 is an eigenvalue of L₊, which an iteration
// would be long in finding.
bool Bipartite(const Graph& g) {
  std::vector<signed char> colour(g.size(), 0);
  std::vector<std::uint32_t> next = {0};
  colour[0] = 1;
  while (!next.empty()) {
    const std::uint32_t k = next.back();
    next.pop_back();
    for (const std::uint32_t l : g.of(k)) {
      if (colour[l] == colour[k]) return false;
      if (colour[l] == 0) colour[l] = static_cast<signed char>(-colour[k]), next.push_back(l);
    }
  }
  return true;
}

}  // namespace

Spectrum SpectrumOf(const Graph& g) {
  TACIT_CHECK(g.size() >= 2);
  std::size_t most = 0;
  for (std::size_t k = 0; k < g.size(); ++k) most = std::max(most, g.degree(k));
  const auto one = [](std::size_t, std::size_t) { return 1.0; };
  const auto metropolis = [&](std::size_t k, std::size_t l) {
    return 1.0 / static_cast<double>(1 + std::max(g.degree(k), g.degree(l)));
  };
  const double bound = 2 * static_cast<double>(most);
  const Ends laplacian = EndsOf(LaplacianOf(g, -1, one), true, true, bound);
  const bool two = Bipartite(g);
  const Ends signless = EndsOf(LaplacianOf(g, 1, one), false, !two, bound);
  // W = I − the Laplacian with Metropolis weights, so λ(W) = 1 − λ.
  const Ends weighted = EndsOf(LaplacianOf(g, -1, metropolis), true, true, 2);
  return {laplacian.least, laplacian.largest, two ? 0 : signless.least, signless.largest,
          std::min(weighted.least, 2 - weighted.largest)};
}

}  // namespace tacit
