#include "experiment/network_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>

#include "algorithms/nfl_response.h"
#include "algorithms/nfl_theory.h"
#include "algorithms/p_admm.h"
#include "experiment/build.h"
#include "experiment/files.h"
#include "privacy/bounded.h"
#include "privacy/schedule.h"

namespace tacit {
namespace {

enum class Method { kNfl, kDpNfl, kGradient, kPAdmm };
constexpr std::size_t kMostSteps = 100000;  // of gradient descent, in a round of p-admm
constexpr std::pair<std::string_view, Method> kMethods[] = {{"zcdp-nfl", Method::kNfl},
                                                            {"dp-nfl", Method::kDpNfl},
                                                            {"zcdp-grad-nfl", Method::kGradient},
                                                            {"p-admm", Method::kPAdmm}};
constexpr std::pair<std::string_view, Topology> kTopologies[] = {{"ring", Topology::kRing},
                                                                 {"torus", Topology::kTorus},
                                                                 {"complete", Topology::kComplete},
                                                                 {"star", Topology::kStar},
                                                                 {"erdos-renyi", Topology::kErdosRenyi},
                                                                 {"geometric", Topology::kGeometric},
                                                                 {"regular", Topology::kRegular},
                                                                 {"file", Topology::kEdges}};

Method MethodOf(std::string_view name) {
  for (const auto& [key, method] : kMethods)
    if (key == name) return method;
  return Method::kNfl;
}

// "12" of "12 ", as a number of at most `most`.
bool Whole(std::string_view text, std::size_t most, std::uint32_t& out) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && stop == text.data() + text.size() && out <= most;
}

}  // namespace

bool WithoutServer(std::string_view algorithm) {
  return std::any_of(std::begin(kMethods), std::end(kMethods),
                     [&](const auto& m) { return m.first == algorithm; });
}

Result<Graph> NetworkGraph(const Config& c, std::size_t peers) {
  constexpr std::size_t kMostEdges = std::size_t{1} << 28, kMostBytes = std::size_t{1} << 32;
  const auto& n = c.network;
  TopologySpec spec{.degree = n.degree,
                    .radius = n.radius,
                    .rows = n.rows,
                    .seed = n.seed,
                    .attempts = static_cast<std::uint32_t>(n.attempts),
                    .edges = {},
                    .file = n.file};
  for (const auto& [key, topology] : kTopologies)
    if (key == n.topology) spec.name = topology;
  const double pairs = 0.5 * static_cast<double>(peers) * static_cast<double>(peers);
  const double expected =
      n.topology == "complete" ? pairs
      : n.topology == "erdos-renyi" || n.topology == "regular" || (n.topology == "geometric" && n.radius == 0)
          ? 0.5 * static_cast<double>(peers) * n.degree
      : n.topology == "geometric" ? pairs * std::min(1.0, 3.15 * n.radius * n.radius)
                                  : 0;
  if (expected > static_cast<double>(kMostEdges))
    return Fail(
        Code::kInvalidArgument,
        "network.topology = \"{}\": {} peers would have more than 2^28 edges; lower network.degree or "
        "data.clients",
        n.topology, peers);
  if ((n.topology == "file") != !n.file.empty())
    return Fail(Code::kInvalidArgument, "network.file = \"{}\": {}", n.file,
                n.file.empty() ? "topology = \"file\" needs a list of edges; name it"
                               : "is for network.topology = \"file\"; set that, or leave it out");
  if (!n.file.empty()) {
    auto text = ReadWhole(n.file, kMostBytes);
    if (!text.ok())
      return Fail(Code::kNotFound, "network.file = \"{}\": cannot be read; give a file with a list of edges",
                  n.file);
    spec.edges = *std::move(text);
  }
  auto made = MakeTopology(spec, peers);
  if (!made.ok()) return Error{made.error().code, "[network] " + made.error().message};
  return made;
}

std::pair<std::size_t, std::size_t> DegreesOf(const Graph& g) {
  std::size_t least = g.size(), most = 0;
  for (std::size_t k = 0; k < g.size(); ++k)
    least = std::min(least, g.degree(k)), most = std::max(most, g.degree(k));
  return {least, most};
}

std::string EdgeList(const Graph& g) {
  std::string text;
  for (std::size_t k = 0; k < g.size(); ++k)
    for (const std::uint32_t l : g.of(k))
      if (k < l) text += fmt::format("{} {}\n", k, l);
  return text;
}

Result<Absences> Absences::Of(const Config& c, std::size_t peers, std::size_t rounds) {
  Absences all;
  const std::size_t last = peers - 1;
  for (const std::string& text : c.network.away) {
    const std::string_view item = text;
    const std::size_t colon = item.find(':'), dash = item.find('-', colon == item.npos ? 0 : colon);
    std::uint32_t peer = 0, from = 0, to = 0;
    if (colon == item.npos || dash == item.npos || !Whole(item.substr(0, colon), last, peer) ||
        !Whole(item.substr(colon + 1, dash - colon - 1), rounds, from) ||
        !Whole(item.substr(dash + 1), rounds, to) || from < 1 || to < from)
      return Fail(Code::kInvalidArgument,
                  "network.away holds \"{}\": must look like \"3: 10-20\", a peer from 0 to {} and rounds "
                  "from 1 to {}",
                  text, last, rounds);
    all.of_[peer].away.emplace_back(from, to);
  }
  for (const std::string& text : c.network.leave) {
    const std::string_view item = text;
    const std::size_t colon = item.find(':');
    std::uint32_t peer = 0, round = 0;
    if (colon == item.npos || !Whole(item.substr(0, colon), last, peer) ||
        !Whole(item.substr(colon + 1), rounds, round) || round < 1)
      return Fail(Code::kInvalidArgument,
                  "network.leave holds \"{}\": must look like \"3: 50\", a peer from 0 to {} and a round "
                  "from 1 to {}",
                  text, last, rounds);
    std::uint32_t& leaves = all.of_[peer].leaves;
    leaves = leaves == 0 ? round : std::min(leaves, round);
  }
  return all;
}

Presence Absences::At(std::uint32_t round, std::uint32_t peer) const {
  if (of_.empty()) return Presence::kHere;
  const auto at = of_.find(peer);
  if (at == of_.end()) return Presence::kHere;
  if (at->second.leaves != 0 && round >= at->second.leaves) return Presence::kGone;
  for (const auto& [from, to] : at->second.away)
    if (round >= from && round <= to) return Presence::kAway;
  return Presence::kHere;
}

std::vector<std::uint32_t> Absences::concerned() const {
  std::vector<std::uint32_t> out;
  for (const auto& [peer, times] : of_) out.push_back(peer);
  return out;
}

std::vector<std::uint32_t> Absences::leaving() const {
  std::vector<std::uint32_t> out;
  for (const auto& [peer, times] : of_)
    if (times.leaves != 0) out.push_back(peer);
  return out;
}

namespace {

// What stays when some have left must still be one network.
Status CheckLeaving(const Graph& g, const Absences& who) {
  const std::vector<std::uint32_t> gone = who.leaving();
  if (gone.empty()) return Ok{};
  std::vector<bool> left(g.size());
  for (const std::uint32_t k : gone) left[k] = true;
  const std::vector<std::uint32_t> part = Components(Without(g, gone));
  std::vector<std::uint32_t> parts;
  for (std::size_t k = 0; k < g.size(); ++k)
    if (!left[k] && std::find(parts.begin(), parts.end(), part[k]) == parts.end()) parts.push_back(part[k]);
  if (parts.size() == 1 && g.size() > gone.size() + 1) return Ok{};
  if (parts.size() > 1) {
    std::string some;
    for (std::size_t k = 0; k < g.size() && some.size() < 40; ++k)
      if (!left[k] && part[k] == parts[1]) some += fmt::format("{}{}", some.empty() ? "" : ", ", k);
    return Fail(Code::kInvalidArgument,
                "network.leave: those who stay fall into {} components, one of them with the peers {}; let "
                "others leave, "
                "or add edges",
                parts.size(), some);
  }
  return Fail(Code::kInvalidArgument, "network.leave: {} of {} peers leave; at least two must stay",
              gone.size(), g.size());
}

Status CheckKeys(const Config& c, Method method) {
  const std::string& name = c.algorithm.name;
  if (c.privacy.unit != "record")
    return Fail(Code::kUnsupported,
                "privacy.unit = \"{}\": {} releases what follows from sums of records' subgradients and "
                "protects one record; "
                "set privacy.unit = \"record\"",
                c.privacy.unit, name);
  if (c.privacy.trust != "local")
    return Fail(Code::kUnsupported,
                "privacy.trust = \"{}\": {} has no server that could be trusted, and every peer adds its own "
                "noise; set "
                "privacy.trust = \"local\"",
                c.privacy.trust, name);
  if (c.privacy.mechanism == "priv-unit")
    return Fail(Code::kUnsupported,
                "privacy.mechanism = \"priv-unit\": {} has Gaussian noise; use lattice_gaussian", name);
  if (c.algorithm.sampling != "full")
    return Fail(
        Code::kUnsupported,
        "algorithm.sampling = \"{}\": {} has every peer in every round; set full, and say who is away with "
        "network.away",
        c.algorithm.sampling, name);
  if (c.algorithm.weights != "uniform")
    return Fail(Code::kUnsupported,
                "algorithm.weights = \"{}\": peers of {} agree with their neighbours, and there is no mean "
                "to weigh them in; "
                "leave it out",
                c.algorithm.weights, name);
  if (c.algorithm.clip_quantile > 0)
    return Fail(
        Code::kUnsupported,
        "algorithm.clip_quantile = {:g}: nobody counts for {} how many records were clipped; leave it "
        "out, and set privacy.clip",
        c.algorithm.clip_quantile, name);
  if (c.algorithm.noise_multiplier != 0)
    return Fail(
        Code::kUnsupported,
        "algorithm.noise_multiplier = {:g}: the noise of {} follows from privacy.epsilon; leave it out",
        c.algorithm.noise_multiplier, name);
  if (c.algorithm.participations != 0)
    return Fail(Code::kUnsupported,
                "algorithm.participations = {}: {} has every peer in every round; say who is away with "
                "network.away",
                c.algorithm.participations, name);
  if (c.model.weight_rule == "data" && c.algorithm.mode != "paper")
    return Fail(Code::kUnsupported,
                "model.weight_rule = \"data\": a penalty that is computed from private data has no finite "
                "epsilon; give "
                "model.weight as a public constant, or set algorithm.mode = \"paper\"");
  if (c.model.weight_rule == "data" && c.model.penalty != "l1" && c.model.penalty != "elastic-net")
    return Fail(Code::kInvalidArgument,
                "model.weight_rule = \"data\": is a weight of the l1 norm; set model.penalty to l1 or "
                "elastic-net, not "
                "\"{}\"",
                c.model.penalty);
  if (method == Method::kDpNfl && c.algorithm.allocation == "geometric" && c.algorithm.ratio != 1)
    return Fail(Code::kUnsupported,
                "algorithm.allocation = \"geometric\": the composition theorems of dp-nfl are for rounds of "
                "equal noise; "
                "set static");
  if (method == Method::kPAdmm) {
    if (!c.network.leave.empty())
      return Fail(Code::kUnsupported,
                  "network.leave: with fewer neighbours the minimisers of p-admm move further, and its noise "
                  "is planned for "
                  "all of them; leave it out, or use zcdp-nfl");
    if (c.privacy.adjacency == Name(Adjacency::kAddOrRemove))
      return Fail(Code::kUnsupported,
                  "privacy.adjacency = \"add-remove\": the subproblems of p-admm are divided by how many "
                  "records there are; "
                  "use replace-one or zero-out, or zcdp-nfl");
    if (c.algorithm.rho > 1e6)
      return Fail(Code::kInvalidArgument, "algorithm.rho = {:g}: p-admm takes at most 1e6; lower it",
                  c.algorithm.rho);
  }
  return Ok{};
}

// The method's own verdict, with the values that it is about.
Status CheckModel(const Config& c, Method method, const Problem& problem, double row_bound) {
  Status fits = method == Method::kPAdmm ? PAdmm::Fits(problem, row_bound)
                                         : CheckSubgradients(problem, c.algorithm.name);
  if (fits.ok()) return fits;
  return Error{fits.error().code,
               fmt::format("model.name = \"{}\", model.penalty = \"{}\", data.row_norm = \"{}\": {}",
                           c.model.name, c.model.penalty, c.data.row_norm, fits.error().message)};
}

// What the noise on a sum of subgradients is divided by on its way into w̃, apart from the records.
double DivisorOf(Method method, const NflTheory& t, double curvature, double degree, double eta) {
  return method == Method::kGradient ? 1 / eta
         : method == Method::kPAdmm  ? 2 * t.rho * degree + curvature
                                     : NflTheory::Denominator(t.rho, degree, eta);
}
// The factor by which errors shrink in a round.
double FactorOf(Method method, const NflTheory& t, double curvature, double degree, double eta) {
  return method == Method::kGradient ? std::max(std::abs(1 - eta * curvature), 1 - t.graph.gap)
         // An exact step is the linearised one with 1/η = the curvature.
         : method == Method::kPAdmm ? t.Factor(curvature, degree, 1 / curvature)
                                    : t.Factor(curvature, degree, eta);
}

// log q_t of the last notes, on the graph as it is (nfl_response.h); empty where that takes too long. How
// much a peer's noise is, relative to others: by its budget and records, where those are public, and of what
// it releases. mu: of a budget, as the plan has it.
template <class MuOf>
Vec ResponseOf(const Config& c, const PublicFacts& facts, Method method, const Plan& p,
               const NetworkPlan& net, MuOf mu) {
  const std::size_t probes = ResponseProbes(net.graph, p.rounds);
  if (probes == 0) return {};
  Vec noise(p.clients, 1.0);
  std::map<double, double> known;
  PAdmm::Options options;
  options.rho = net.rho;
  for (std::uint32_t k = 0; k < p.clients; ++k) {
    if (!c.privacy.budgets.empty()) {
      const auto [at, fresh] = known.try_emplace(c.privacy.budgets[k]);
      if (fresh) at->second = 1 / mu(Epsilon::Proven(at->first)).value();
      noise[k] = at->second;
    }
    if (p.divisor == 0 && !facts.records.empty())
      noise[k] *= facts.mean_records() / static_cast<double>(std::max<std::size_t>(1, facts.records[k]));
    if (method == Method::kPAdmm)
      noise[k] /= PAdmm::Curvature(options, c.model.l2, static_cast<double>(net.graph.degree(k)));
  }
  using Kind = NoteDynamics::Kind;
  return LogResponse(net.graph,
                     {.kind = method == Method::kGradient ? Kind::kSubgradient
                              : method == Method::kPAdmm  ? Kind::kExact
                                                          : Kind::kLinearised,
                      .rho = net.rho,
                      .curvature = p.mu_f,
                      .step = {net.eta, net.falling}},
                     p.rounds, noise, probes);
}

// Noise on the notes, Theorem II and (22)–(24): sums over the peers. delta: nominal sensitivity of a sum.
void PlanNotes(const Config& c, const PublicFacts& facts, Method method, const NflTheory& theory,
               double delta, const Plan& p, NetworkPlan& net) {
  const bool admm = method == Method::kPAdmm, one_size = p.divisor != 0 || facts.records.empty();
  const double size = p.divisor != 0 ? static_cast<double>(p.divisor) : facts.mean_records();
  const StepSize step{net.eta, net.falling};
  struct OfPeer {
    double sum = 0, first = 0, last = 0, moved = 0;      // Σ σ_k²(n), σ_k(1), σ_k(T), Δ_k(1)
  };
  std::map<std::tuple<std::size_t, std::size_t, std::size_t>, OfPeer> known;  // by noise, degree and records
  double sum = 0;
  Vec first, moved, phi;
  net.least_noise = kInf;
  for (std::uint32_t k = 0; k < p.clients; ++k) {
    const std::size_t at = p.noise_of[k], degree = net.graph.degree(k), own = one_size ? 0 : facts.records[k];
    const auto [found, fresh] = known.try_emplace({at, degree, own});
    OfPeer& of = found->second;
    const NetworkPlan::Group& g = net.groups[at];
    const double records = one_size ? size : static_cast<double>(own);
    for (std::size_t t = 0; fresh && t < p.schedule.size(); ++t) {
      const double divisor = admm ? 1
                                  : records * DivisorOf(method, theory, p.mu_f, static_cast<double>(degree),
                                                        step.At(p.schedule[t].round));
      of.last = (*p.noise[at])[t].value() / divisor;
      if (g.here(t)) of.sum += of.last * of.last;
      if (t == 0) of.first = of.last, of.moved = admm ? delta / (records * g.curvature) : delta / divisor;
    }
    sum += of.sum;
    first.push_back(of.first * of.first);
    moved.push_back(of.moved);
    phi.push_back(of.moved * of.moved / (2 * of.first * of.first));
    net.least_noise = std::min(net.least_noise, of.last);
    net.most_noise = std::max(net.most_noise, of.last);
  }
  if (method == Method::kGradient || admm) return;  // they are for the linearised method
  const auto rounds = static_cast<double>(p.rounds);
  net.noise_term = theory.NoiseTerm(sum, rounds);
  const double tau = c.algorithm.ratio;
  if (c.algorithm.allocation != "geometric" || tau >= 1 || method == Method::kDpNfl) return;
  net.bound22 = theory.Bound22(first, tau, rounds);
  net.bound23 = theory.Bound23(moved, phi, tau, rounds);
  net.bound24 = theory.Bound24(moved, *std::min_element(phi.begin(), phi.end()), tau, rounds);
}

// A note is one frame to all neighbours: it leaves once and arrives at each.
void CountTraffic(const Absences& who, Plan& p) {
  const Graph& graph = p.network->graph;
  const std::size_t note = kFrameHeader + sizeof(std::uint64_t) + p.dim * sizeof(double);
  std::size_t left = 0, arrived = 0;
  for (const PlannedRound& r : p.schedule) {
    if (who.none()) {
      left += graph.size(), arrived += 2 * graph.edges();
      continue;
    }
    for (std::uint32_t k = 0; k < graph.size(); ++k) {
      if (who.At(r.round, k) != Presence::kHere) continue;
      ++left;
      for (const std::uint32_t l : graph.of(k)) arrived += who.At(r.round, l) != Presence::kGone;
    }
  }
  p.bytes_up = left * note;
  p.bytes_down = arrived * note;
}

}  // namespace

Result<Plan> PlanNetwork(const Config& c, const PublicFacts& facts) {
  const Method method = MethodOf(c.algorithm.name);
  TACIT_OK(CheckData(c));
  TACIT_OK(CheckKeys(c, method));
  const bool certified = c.algorithm.mode == "certified", exposed = c.privacy.mechanism == "expose";
  const bool admm = method == Method::kPAdmm;
  TACIT_TRY(Plan p, BeginPlan(c, facts));
  p.clipped = certified;
  TACIT_TRY(const auto objective, BuildObjective(c, facts));
  TACIT_TRY(const auto regularizer, BuildRegularizer(c));
  TACIT_TRY(const auto mechanism, MakeMechanism(c.privacy.mechanism));
  p.dim = objective->dim(facts.features);
  TACIT_OK(CheckPenalty(c, p.dim));
  const Problem problem{.f = objective.get(), .g = regularizer.get(), .l2 = c.model.l2, .dim = p.dim};
  TACIT_OK(CheckModel(c, method, problem, facts.row_bound));
  if (admm && facts.records.empty())
    return Fail(Code::kInvalidArgument,
                "data.split = \"{}\": the noise of p-admm depends on every peer's number of records, which "
                "must be public; "
                "use blocks or iid, or zcdp-nfl",
                c.data.split);

  // The graph, and who is on it when.
  auto network = std::make_shared<NetworkPlan>();
  NetworkPlan& net = *network;
  TACIT_TRY(net.graph, NetworkGraph(c, p.clients));
  net.spectrum = SpectrumOf(net.graph);
  net.topology = c.network.topology;
  net.argmin = admm;
  net.output = c.algorithm.output;
  net.away = c.network.away;
  net.leave = c.network.leave;
  if (method != Method::kGradient) net.rho = c.algorithm.rho;
  if (!admm) net.eta = c.algorithm.eta, net.falling = c.algorithm.eta_rule == "sqrt";
  if (method == Method::kDpNfl) net.composition = c.algorithm.composition;
  TACIT_TRY(const Absences who, Absences::Of(c, p.clients, p.rounds));
  TACIT_OK(CheckLeaving(net.graph, who));

  // Theory: how much the noise of a round counts in the last notes, and in their mean over the rounds.
  const auto n = static_cast<double>(p.clients), rounds = static_cast<double>(p.rounds);
  if (p.adjacency == Adjacency::kAddOrRemove)
    p.divisor = std::max<std::size_t>(1, facts.rows / facts.clients);
  const double mean_records = p.divisor != 0 ? static_cast<double>(p.divisor) : facts.mean_records();
  const double mean_degree = 2 * static_cast<double>(net.graph.edges()) / n;
  const StepSize step{net.eta, net.falling};
  const NflTheory theory{net.rho, net.spectrum, static_cast<double>(p.dim)};
  p.mu_f = c.algorithm.strong_convexity >= 0
               ? c.algorithm.strong_convexity
               : c.model.l2 + (c.model.penalty == "elastic-net" ? c.model.ridge : 0.0);
  Vec in_last(p.rounds), in_mean(p.rounds);  // by the mean degree; in_last to be bettered below
  double after = 0;  // Σ log c of the rounds that follow
  for (std::size_t t = p.rounds; t-- > 0;) {
    const double eta = step.At(static_cast<std::uint32_t>(t + 1));
    const double factor = std::clamp(FactorOf(method, theory, p.mu_f, mean_degree, eta),
                                     std::numeric_limits<double>::min(), 1.0);
    if (t + 1 == p.rounds) p.factor = factor;
    in_mean[t] = -2 * std::log(DivisorOf(method, theory, p.mu_f, mean_degree, eta));
    in_last[t] = 2 * after + in_mean[t];
    after += std::log(factor);
  }
  const bool last = c.algorithm.output == "last";

  // How the budget is spread over the rounds.
  const L2Bound clip = L2Bound::Proven(c.privacy.clip);
  const Epsilon epsilon = Epsilon::Proven(c.privacy.epsilon);
  const Delta delta = Delta::Proven(c.privacy.delta);
  const auto budget_of = [&](Epsilon e) {
    if (method == Method::kDpNfl) {
      const double z = c.algorithm.composition == "basic" ? BasicMultiplier(e, delta, rounds)
                                                          : AdvancedMultiplier(e, delta, rounds);
      const double mu = std::sqrt(rounds) / z;
      // The classic Gaussian is proved for ε₀ ≤ 1 alone: beyond it what is certified must still hold.
      return Mu::Proven(certified ? std::min(mu, GdpMu(e, delta).value()) : mu);
    }
    return certified ? GdpMu(e, delta) : Mu::Proven(std::sqrt(2 * ZcdpRho(e, delta).value()));
  };
  const Mu budget = budget_of(epsilon);
  p.mu_budget = budget.value();
  const double times = p.adjacency == Adjacency::kReplaceOne || !certified ? 2 : 1;
  const double delta_sum = times * clip.value();  // nominal: what the noise on a sum is calibrated to
  const Vec log_delta(p.rounds, std::log(delta_sum));
  Shares shares = UniformShares(p.rounds);
  if (!exposed && method != Method::kDpNfl) {
    Vec exact = ResponseOf(c, facts, method, p, net, budget_of);
    net.by_factor = exact.empty();
    if (!exact.empty()) in_last = std::move(exact);
  }
  const Vec& weight = last ? in_last : in_mean;
  if (exposed || method == Method::kDpNfl) {
    // the same in every round: nothing to spread, or theorems for equal rounds
  } else {
    TACIT_TRY(shares, Allocate(c, weight, delta_sum, budget));
  }
  if (!exposed && method != Method::kDpNfl && c.algorithm.allocation != "static") {
    double least = 0, most = -kInf;  // log shares of the rounds that run
    for (const double s : shares.log_share)
      if (s > -kInf) least = std::min(least, s), most = std::max(most, s);
    if (most - least > std::log(1e4))
      p.warnings.push_back(
          std::string("this allocation puts large noise on some rounds, and nothing bounds the notes: "
                      "clipped subgradients may not walk back; ") +
          (c.algorithm.allocation == "geometric"
               ? "set algorithm.ratio nearer to 1, or allocation = \"static\""
           : c.algorithm.variance_cap < kInf ? "lower algorithm.variance_cap, or set allocation = \"static\""
                                             : "set algorithm.variance_cap, or allocation = \"static\""));
  }
  if (!exposed) {
    const Shares equal = UniformShares(p.rounds);
    const auto compare = [&](std::string name, const Shares& s) {
      p.allocations.push_back(
          {std::move(name),
           NoiseCost(s, in_last, log_delta, budget) / NoiseCost(equal, in_last, log_delta, budget),
           NoiseCost(s, in_mean, log_delta, budget) / NoiseCost(equal, in_mean, log_delta, budget)});
    };
    compare("static", equal);
    const bool others = method != Method::kDpNfl;  // whose theorems are for rounds of equal noise
    if (others) compare("dynamic for the last notes", WaterFillingShares(in_last, log_delta, 0.0));
    if (others && net.falling) compare("dynamic for their mean", WaterFillingShares(in_mean, log_delta, 0.0));
    if (others && (c.algorithm.allocation == "geometric" || c.algorithm.variance_cap < kInf))
      compare(c.algorithm.allocation == "geometric" ? fmt::format("geometric, {:g}", c.algorithm.ratio)
                                                    : "this plan",
              shares);
    p.static_over_dynamic =
        NoiseCost(equal, weight, log_delta, budget) / NoiseCost(shares, weight, log_delta, budget);
  }

  // Sensitivity of what is released, and the noise of every group of peers.
  const std::size_t most =
      facts.records.empty() ? facts.rows : *std::max_element(facts.records.begin(), facts.records.end());
  const Error too_many =
      Fail(Code::kInvalidArgument,
           "data.rows = {}: a sum over {} records of one client has too few digits left to bound what one "
           "of them changes; lower it, or raise data.clients",
           facts.rows, most);
  if (most > std::size_t{1} << 30) return too_many;
  const L2Bound charged = Bounded::Sensitivity(p.adjacency, clip, most, objective->Roundings(most));
  const double absolute = mechanism->OverheadMu(p.dim);
  const double relative = admm ? 1e-15 : charged.value() / (times * clip.value()) - 1 + 1e-15;
  if (!(relative < 0.5)) return too_many;
  std::vector<std::uint32_t> active;
  for (std::size_t t = 0; t < p.rounds; ++t)
    if (!shares.skipped(t)) active.push_back(static_cast<std::uint32_t>(t + 1));
  p.skipped = p.rounds - active.size();
  // What bounds a record in fact, if anything does: paper mode is charged by that.
  std::optional<L2Bound> record = certified ? std::optional(clip) : std::nullopt;
  if (!certified && !admm && c.model.weight_rule == "given")
    if (const auto b = objective->RecordBound(facts.row_bound); b && std::isfinite(*b))
      record = L2Bound::Proven(*b);
  const auto sensitivity_of = [&](const NetworkPlan::Group& g) {
    if (!record) return kInf;
    if (admm) return Bounded::Sensitivity(p.adjacency, L2Bound::Proven(g.bound), 1, 0).value();
    return Bounded::Sensitivity(p.adjacency, *record, most, objective->Roundings(most)).value();
  };
  const auto sigmas = [&](Mu mu, double nominal_delta) -> Result<NoisePlan> {
    Vec nominal(p.rounds);
    if (certified && !exposed) {
      TACIT_TRY(nominal, Calibrate(shares, mu, relative, absolute));
    } else {
      for (std::size_t t = 0; t < p.rounds; ++t)
        nominal[t] = mu.value() * std::exp(0.5 * shares.log_share[t]);
    }
    return NoiseOf(active, nominal, nominal_delta);
  };
  PAdmm::Options admm_options;
  admm_options.rho = net.rho;
  admm_options.clip = clip;
  const bool unlimited = exposed || !certified;
  using Key = std::tuple<double, std::size_t, std::size_t, std::vector<bool>>;
  std::map<Key, std::size_t> seen;
  p.noise_of.assign(p.clients, 0);
  p.budgets.assign(p.clients, unlimited ? MuSquared::Proven(kInf) : BudgetOf(budget));
  for (std::uint32_t k = 0; k < p.clients; ++k) {
    const double e = c.privacy.budgets.empty() ? c.privacy.epsilon : c.privacy.budgets[k];
    NetworkPlan::Group g;
    if (admm) {
      g.records = facts.records[k];
      g.degree = net.graph.degree(k);
      g.curvature = PAdmm::Curvature(admm_options, c.model.l2, static_cast<double>(g.degree));
      if (g.records == 0)
        return Fail(Code::kInvalidArgument, "data.clients = {}: peer {} would have no record; lower it",
                    p.clients, k);
      g.bound = Bounded::ArgminBound(clip, static_cast<double>(g.records), g.curvature).value();
      const StrongProblem subproblem{
          .curvature = g.curvature, .linear = {}, .start = {}, .row_bound = facts.row_bound};
      const std::size_t steps = StrongProblem::StepsFor(g.curvature, subproblem.Smoothness(*objective));
      if (steps > kMostSteps)
        return Fail(Code::kInvalidArgument,
                    "algorithm.rho = {:g}, model.l2 = {:g}: the minimisers of p-admm would take {} gradient "
                    "steps a round, and {} are allowed; raise one of them, or lower data.row_bound",
                    c.algorithm.rho, c.model.l2, steps, kMostSteps);
    }
    if (who.concerns(k)) {
      g.away.resize(active.size());
      for (std::size_t t = 0; t < active.size(); ++t) g.away[t] = who.At(active[t], k) != Presence::kHere;
      if (std::none_of(g.away.begin(), g.away.end(), [](bool a) { return a; })) g.away.clear();
    }
    const Mu mu = budget_of(Epsilon::Proven(e));
    if (!unlimited && !c.privacy.budgets.empty()) p.budgets[k] = BudgetOf(mu);
    const auto [at, fresh] = seen.try_emplace(Key{e, g.records, g.degree, g.away}, p.noise.size());
    p.noise_of[k] = at->second;
    if (!fresh) continue;
    // The printed noise of p-admm knows nothing of a solver's error.
    const double nominal = !admm ? delta_sum
                           : certified
                               ? Bounded::Sensitivity(p.adjacency, L2Bound::Proven(g.bound), 1, 0).value()
                               : delta_sum / (static_cast<double>(g.records) * g.curvature);
    TACIT_TRY(NoisePlan own, sigmas(mu, nominal));
    p.noise.push_back(std::make_shared<const NoisePlan>(std::move(own)));
    net.groups.push_back(std::move(g));
  }
  p.units = most;
  p.record_bound = record ? record->value() : kInf;
  for (std::size_t at = 0; at < p.noise.size() && !exposed; ++at) {
    const auto [least, highest] = std::minmax_element(p.noise[at]->begin(), p.noise[at]->end());
    TACIT_OK(
        mechanism->CheckRange(admm || !record ? 0.0 : static_cast<double>(most) * record->value(), *least));
    TACIT_OK(mechanism->CheckRange(0, *highest));
  }

  // What it comes to: of the group that pays most.
  p.network = network;
  std::size_t lead = 0;
  double largest = -1;
  p.sensitivity = 0;
  for (std::size_t at = 0; at < p.noise.size(); ++at) {
    p.sensitivity = std::max(p.sensitivity, sensitivity_of(net.groups[at]));
    MuSquared spent{0.0};
    for (std::size_t k = 0; k < active.size(); ++k) {
      if (!net.groups[at].here(k)) continue;
      if (exposed || !record)
        spent = MuSquared::Proven(kInf);
      else
        spent = spent + Cost(mechanism->EventFor(L2Bound::Proven(sensitivity_of(net.groups[at])),
                                                 (*p.noise[at])[k], p.dim));
    }
    if (const double mu = Root(spent).value(); mu > largest) largest = mu, lead = at;
  }
  const Interval certified_epsilon = GdpEpsilon(Mu::Proven(largest), delta);
  p.certified_epsilon = certified_epsilon.upper;
  p.certified_epsilon_lower = certified_epsilon.lower;
  const double rho_spent = largest * largest / 2;
  p.zcdp_epsilon = std::isinf(rho_spent) ? kInf : ZcdpEpsilon(Rho::Proven(rho_spent), delta);
  if (!c.privacy.budgets.empty())
    p.epsilon = *std::max_element(c.privacy.budgets.begin(), c.privacy.budgets.end());
  p.mu_budget = budget_of(Epsilon::Proven(p.epsilon)).value();
  for (std::size_t k = 0; k < active.size(); ++k) {
    const NoiseStd sigma = (*p.noise[lead])[k];
    PlannedRound r{.round = active[k], .share = shares.share(active[k] - 1)};
    r.sigma = exposed ? 0 : sigma.value();
    r.noise_on_mean = admm ? r.sigma : r.sigma / mean_records;
    r.mu = exposed || !record
               ? kInf
               : std::get<GaussianEvent>(
                     mechanism->EventFor(L2Bound::Proven(sensitivity_of(net.groups[lead])), sigma, p.dim))
                     .mu.value();
    p.schedule.push_back(r);
  }

  if (!exposed && !active.empty()) PlanNotes(c, facts, method, theory, delta_sum, p, net);
  CountTraffic(who, p);

  if (exposed)
    p.warnings.push_back(
        "privacy.mechanism = \"expose\": nothing is noised, so the run is not private, whatever "
        "privacy.epsilon says");
  if (!certified && !exposed) {
    p.claimed_epsilon = p.epsilon;
    p.claim_source = method == Method::kDpNfl
                         ? (c.algorithm.composition == "basic"
                                ? "the classic Gaussian mechanism in every round, and basic composition"
                                : "the classic Gaussian mechanism in every round, and advanced composition")
                         : "Gauthier, Gratton, Venkategowda, Werner, Corollary: zCDP of all rounds, "
                           "converted to (epsilon, "
                           "delta)";
    if (c.model.weight_rule == "data")
      p.warnings.push_back(
          "model.weight_rule = \"data\": the weight of the penalty is computed from private records and "
          "shapes every note, so "
          "the certified epsilon is infinite");
    else if (admm)
      p.warnings.push_back(
          "nothing bounds a record's gradient in the subproblems of p-admm as printed: the certified epsilon "
          "is infinite");
    else if (!record)
      p.warnings.push_back(
          "nothing bounds a record's gradient (model.name or data.row_norm): the certified epsilon is "
          "infinite");
    else if (p.sensitivity > delta_sum * (1 + 1e-6))
      p.warnings.push_back(
          fmt::format("privacy.clip = {:g} is assumed by the paper's calibration, but a record's subgradient "
                      "may reach {:g}",
                      c.privacy.clip, record->value()));
  }
  return p;
}

std::vector<std::vector<MuSquared>> NetworkCharges(const Plan& p, const Mechanism& mechanism) {
  std::vector<std::vector<MuSquared>> out;
  for (std::size_t at = 0; at < p.noise.size(); ++at) {
    const NetworkPlan::Group& g = p.network->groups[at];
    const double sensitivity = std::isinf(p.sensitivity) ? kInf
                               : p.network->argmin
                                   ? Bounded::Sensitivity(p.adjacency, L2Bound::Proven(g.bound), 1, 0).value()
                                   : p.sensitivity;
    auto& costs = out.emplace_back();
    for (std::size_t k = 0; k < p.noise[at]->size(); ++k)
      costs.push_back(!g.here(k) ? MuSquared{0.0}
                      : std::isinf(sensitivity)
                          ? MuSquared::Proven(kInf)
                          : Cost(mechanism.EventFor(L2Bound::Proven(sensitivity), (*p.noise[at])[k], p.dim)));
  }
  return out;
}

std::vector<Releases> NetworkReleases(const Plan& p, const Objective& objective, const Mechanism& mechanism,
                                      const LedgerBook& book, std::span<const std::size_t> records,
                                      std::size_t rounds) {
  const NetworkPlan& net = *p.network;
  std::vector<Releases> all(p.noise.size());
  std::vector<double> charged(p.noise.size());  // the ledger's largest figure
  for (std::uint32_t k = 0; k < p.clients; ++k) {
    const std::size_t at = p.noise_of[k];
    ++all[at].clients;
    all[at].units = std::max(all[at].units, p.charges_units() ? p.units : records[k]);
    charged[at] = std::max(charged[at], book.account(k).spent().value());
  }
  const bool bounded = std::isfinite(p.record_bound), noised = p.mechanism != "expose";
  for (std::size_t at = 0; at < all.size(); ++at) {
    Releases& r = all[at];
    const NetworkPlan::Group& g = net.groups[at];
    r.noise = at;
    r.roundings = net.argmin ? 0 : objective.Roundings(r.units);
    const double bound = net.argmin ? g.bound : p.record_bound;
    r.sensitivity =
        bounded ? Bounded::Sensitivity(p.adjacency, L2Bound::Proven(bound), r.units, r.roundings).value()
                : kInf;
    MuSquared spent{0.0};
    for (std::size_t k = 0; k < rounds; ++k) {
      if (!g.here(k)) {
        ++r.away;
        continue;
      }
      if (!noised || !bounded) spent = MuSquared::Proven(kInf);
      if (!noised) continue;
      const NoiseStd sigma = (*p.noise[at])[k];
      if (r.sigma.empty() || r.sigma.back() != sigma.value()) {
        r.sigma.push_back(sigma.value());
        r.rounds.push_back(0);
      }
      ++r.rounds.back();
      if (bounded) spent = spent + Cost(mechanism.EventFor(L2Bound::Proven(r.sensitivity), sigma, p.dim));
    }
    if (charged[at] > spent.value()) {
      r.beyond = NextUp(charged[at] - spent.value());
      spent = spent + MuSquared::Proven(r.beyond);
    }
    r.mu = Root(spent).value();
    r.epsilon = GdpEpsilon(Root(spent), Delta::Proven(p.delta)).upper;
  }
  return all;
}

}  // namespace tacit
