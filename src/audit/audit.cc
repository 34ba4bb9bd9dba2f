#include "audit/audit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "experiment/files.h"

namespace tacit {
namespace {

using nlohmann::json;

// A score and the thresholds that judge by it.
struct Judge {
  bool learned = false;
  std::vector<double> weights;  // of the features, where it is learned
  double tail = 0, middle = 0;

  double Score(const Sighting& s) const {
    if (!learned || s.features.size() != weights.size()) return s.likelihood;
    return Dot(s.features, weights);
  }
};

// Fisher's discriminant: (pooled covariance)⁻¹ (difference of means). Where noise is shared the covariance is
// (nearly) singular, and the weights take the shared part out.
std::vector<double> Fit(const std::vector<Sighting>& zero, const std::vector<Sighting>& one) {
  const std::size_t d = zero.front().features.size();
  if (d == 0) return {};
  const auto n = static_cast<Eigen::Index>(d);
  Eigen::MatrixXd covariance = Eigen::MatrixXd::Zero(n, n);
  Eigen::VectorXd mean[2];
  double count = 0;
  for (const int world : {0, 1}) {
    const auto& all = world == 0 ? zero : one;
    mean[world] = Eigen::VectorXd::Zero(n);
    for (const Sighting& s : all) {
      if (s.features.size() != d) return {};
      mean[world] += Eigen::Map<const Eigen::VectorXd>(s.features.data(), n);
    }
    mean[world] /= static_cast<double>(all.size());
    for (const Sighting& s : all) {
      const Eigen::VectorXd x = Eigen::Map<const Eigen::VectorXd>(s.features.data(), n) - mean[world];
      covariance += x * x.transpose();
    }
    count += static_cast<double>(all.size());
  }
  covariance /= count;
  const double trace = covariance.trace() / static_cast<double>(d);
  if (!std::isfinite(trace)) return {};
  covariance.diagonal().array() += 1e-10 * trace + 1e-300;
  const Eigen::VectorXd w = covariance.ldlt().solve(mean[1] - mean[0]);
  if (!w.allFinite()) return {};
  return {w.data(), w.data() + n};
}

// The thresholds with the best bounds by these runs themselves, at a confidence that keeps away from rates
// that are known badly: a threshold must not be chosen for its luck.
struct Thresholds {
  double tail = 0, middle = 0, epsilon = -1, mu = -1;
};
Thresholds ChooseThresholds(std::vector<double> zero, std::vector<double> one, Delta delta) {
  std::sort(zero.begin(), zero.end());
  std::sort(one.begin(), one.end());
  std::vector<double> all(zero);
  all.insert(all.end(), one.begin(), one.end());
  std::sort(all.begin(), all.end());
  Thresholds best;
  constexpr std::size_t kTried = 400;
  const std::size_t step = std::max<std::size_t>(1, all.size() / kTried);
  std::vector<std::size_t> tried = {zero.size()};  // between the worlds, where they do not overlap
  for (std::size_t i = 1; i < all.size(); i += step) tried.push_back(i);
  for (const std::size_t i : tried) {
    const double at = all[i - 1] / 2 + all[i] / 2;
    const auto above = [&](const std::vector<double>& of) {
      return static_cast<std::uint64_t>(of.end() - std::upper_bound(of.begin(), of.end(), at));
    };
    const Counts c{zero.size(), above(zero), one.size(), above(one)};
    const LowerBounds b = BoundsOf(c, delta, kBeyondDoubt);
    if (b.epsilon > best.epsilon) best.epsilon = b.epsilon, best.tail = at;
    if (b.mu > best.mu) best.mu = b.mu, best.middle = at;
  }
  return best;
}

Judge Appoint(const std::vector<Sighting>& zero, const std::vector<Sighting>& one, Delta delta) {
  // Weights from the first half, and what they are good for from the second.
  const auto half = static_cast<std::ptrdiff_t>(zero.size() / 2);
  const std::vector<double> weights =
      Fit({zero.begin(), zero.begin() + half}, {one.begin(), one.begin() + half});
  Judge best;
  Thresholds found;
  for (const bool learned : {false, true}) {
    Judge judge{.learned = learned, .weights = weights};
    if (learned && weights.empty()) break;
    std::vector<double> s0, s1;
    for (std::size_t i = learned ? static_cast<std::size_t>(half) : 0; i < zero.size(); ++i)
      s0.push_back(judge.Score(zero[i])), s1.push_back(judge.Score(one[i]));
    const Thresholds t = ChooseThresholds(std::move(s0), std::move(s1), delta);
    // What is learned must be clearly better than what is known.
    if (learned && !(t.mu > 1.1 * found.mu + 0.1)) break;
    judge.tail = t.tail, judge.middle = t.middle;
    best = judge;
    found = t;
  }
  return best;
}

// first: what this program makes of the first runs. Another that makes other runs of the same config does
// not go on with its state, and does not show its result.
std::string Identity(const Config& config, const AuditOptions& o, const std::array<Sighting, 2>& first) {
  Sha256 hash;
  for (const Sighting& s : first) {
    const double figures[] = {s.likelihood, s.strength, s.charged};
    hash.Add(std::span<const double>(figures));
  }
  for (const std::byte b : ConfigDigest(config)) hash.Add(fmt::format("{} ", static_cast<unsigned>(b)));
  hash.Add(fmt::format("{} {} {} {}", o.seed, o.explore, o.measure, o.alpha));
  std::string text;
  for (const std::byte b : hash.Finish()) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

json CountsJson(const Counts& c) { return json::array({c.runs0, c.above0, c.runs1, c.above1}); }
Counts CountsOf(const json& j) {
  return {j.at(0).get<std::uint64_t>(), j.at(1).get<std::uint64_t>(), j.at(2).get<std::uint64_t>(),
          j.at(3).get<std::uint64_t>()};
}

struct Standings {
  Judge judge;
  Counts tail, middle;
  double most_reach = 0;
  NoiseSums noise;
  std::uint64_t rounds = 0, drawn = 0;
  std::uint32_t done = 0;  // runs in each world that were judged
  double seconds = 0;
};

Status Keep(const Standings& s, const std::string& identity, const std::filesystem::path& file) {
  const json j = {{"tacit_audit", 1},
                  {"identity", identity},
                  {"learned", s.judge.learned},
                  {"weights", s.judge.weights},
                  {"thresholds", {s.judge.tail, s.judge.middle}},
                  {"tail", CountsJson(s.tail)},
                  {"middle", CountsJson(s.middle)},
                  {"most_reach", s.most_reach},
                  {"noise", {s.noise.squares, s.noise.numbers, s.noise.products, s.noise.pairs}},
                  {"drawn", {s.drawn, s.rounds}},
                  {"done", s.done},
                  {"seconds", s.seconds}};
  return WriteWhole(file, j.dump() + "\n");
}

// nullopt: there is none, and the audit begins.
Result<std::optional<Standings>> Return(const std::string& identity, std::uint32_t most,
                                        const std::filesystem::path& file) {
  std::error_code ec;
  if (file.empty() || !std::filesystem::exists(file, ec)) return std::optional<Standings>();
  TACIT_TRY(const std::string text, ReadWhole(file));
  const json j = json::parse(text, nullptr, false);
  try {
    if (j.at("identity").get<std::string>() != identity)
      return Fail(
          Code::kInvalidArgument,
          "{}: is the state of another audit (other config, seed, number of runs or program); name another "
          "file with --state, or remove it",
          file.string());
    Standings s;
    s.judge = {.learned = j.at("learned").get<bool>(),
               .weights = j.at("weights").get<std::vector<double>>(),
               .tail = j.at("thresholds").at(0).get<double>(),
               .middle = j.at("thresholds").at(1).get<double>()};
    s.tail = CountsOf(j.at("tail"));
    s.middle = CountsOf(j.at("middle"));
    s.most_reach = j.at("most_reach").get<double>();
    s.drawn = j.at("drawn").at(0).get<std::uint64_t>();
    s.rounds = j.at("drawn").at(1).get<std::uint64_t>();
    const json& n = j.at("noise");
    s.noise = {n.at(0).get<double>(), n.at(1).get<double>(), n.at(2).get<double>(), n.at(3).get<double>()};
    s.done = j.at("done").get<std::uint32_t>();
    s.seconds = j.at("seconds").get<double>();
    const auto possible = [&](const Counts& c) {
      return c.runs0 == s.done && c.runs1 == s.done && c.above0 <= s.done && c.above1 <= s.done;
    };
    if (!possible(s.tail) || !possible(s.middle) || s.done > most || s.drawn > s.rounds)
      return Fail(Code::kMalformed, "{}: counts runs that were not made; name another file with --state",
                  file.string());
    return std::optional<Standings>(s);
  } catch (const json::exception&) {
    return Fail(Code::kMalformed, "{}: is no state of an audit; name another file with --state",
                file.string());
  }
}

}  // namespace

bool AuditReport::claim_broken_if_gaussian() const {
  return claim_broken() ||
         (claimed && gaussian() && EpsilonIfGaussian(doubtless_mu, Delta::Proven(delta)) > *claimed);
}

namespace {
// Other configs draw other noise: what one audit finds by chance another does not find again.
std::uint64_t SeedOf(const Config& config, std::uint64_t seed) {
  for (const std::byte b : ConfigDigest(config)) seed = seed * 0x100000001b3u + static_cast<std::uint64_t>(b);
  return seed;
}
}  // namespace

Result<AuditReport> Audit(const Config& config, const AuditOptions& o, Variation variation) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  TACIT_TRY(const std::unique_ptr<Arena> arena,
            Arena::Make(config, SeedOf(config, o.seed), std::move(variation)));
  const Plan& p = arena->plan();
  const Delta delta = Delta::Proven(p.delta);
  const std::uint64_t all = 2 * (static_cast<std::uint64_t>(o.explore) + o.measure);
  TACIT_TRY(const Sighting first0, arena->Run(0, 0));
  TACIT_TRY(const Sighting first1, arena->Run(1, 0));
  const std::string identity = Identity(config, o, {first0, first1});
  Standings at;
  TACIT_TRY(const std::optional<Standings> kept, Return(identity, o.measure, o.state));
  // done: runs of which the result is known. fresh: those that this process made.
  const auto tell = [&](std::uint64_t done, std::uint64_t fresh) {
    const double each = fresh > 0 ? elapsed() / static_cast<double>(fresh) : 0.0;
    if (o.progress && fresh > 0)
      o.progress({done, all, at.seconds + elapsed(), each * static_cast<double>(all - done)});
  };
  const auto stopped = [&] { return o.interrupt != nullptr && o.interrupt->load(); };
  const auto interrupted = [&](std::uint64_t done) {
    return Fail(Code::kInterrupted, "the audit was interrupted after {} of {} runs{}", done, all,
                o.state.empty() ? "" : "; the same command goes on with it");
  };
  const auto note = [&](const Sighting& s) {
    at.noise.Add(s.noise);
    at.rounds += s.rounds, at.drawn += s.drawn;
    if (s.strength > 0 && s.charged < kInf)
      at.most_reach = std::max(at.most_reach, std::min(1e6, std::sqrt(s.strength / s.charged)));
  };
  constexpr std::uint32_t kChunk = 250;
  if (!kept && !o.state.empty()) TACIT_OK(AtomicFile::Create(o.state));  // now rather than after an hour
  if (kept) {
    at = *kept;
  } else {
    std::array<std::vector<Sighting>, 2> seen;
    for (std::uint32_t i = 0; i < o.explore; ++i) {
      for (const int world : {0, 1}) {
        TACIT_TRY(Sighting one, arena->Run(world, i));
        note(one);
        seen[static_cast<std::size_t>(world)].push_back(std::move(one));
      }
      const std::uint64_t done = 2 * (static_cast<std::uint64_t>(i) + 1);
      if (i % kChunk == 0) tell(done, done);
      if (stopped()) return interrupted(done);
    }
    at.judge = Appoint(seen[0], seen[1], delta);
    if (!o.state.empty()) TACIT_OK(Keep(at, identity, o.state));
  }
  const std::uint32_t before = at.done;
  double saved = elapsed();
  while (at.done < o.measure) {
    const std::uint32_t until = std::min(o.measure, at.done + kChunk);
    Counts tail{until - at.done, 0, until - at.done, 0}, middle = tail;
    for (std::uint32_t i = at.done; i < until; ++i)
      for (const int world : {0, 1}) {
        TACIT_TRY(const Sighting one, arena->Run(world, o.explore + i));
        note(one);
        const double score = at.judge.Score(one);
        (world == 0 ? tail.above0 : tail.above1) += score > at.judge.tail;
        (world == 0 ? middle.above0 : middle.above1) += score > at.judge.middle;
      }
    at.tail.Add(tail);
    at.middle.Add(middle);
    at.done = until;
    const std::uint64_t done = 2 * (static_cast<std::uint64_t>(o.explore) + at.done);
    tell(done, 2 * (at.done - before) + (kept ? 0 : 2 * o.explore));
    if (!o.state.empty() && (stopped() || at.done == o.measure || elapsed() - saved > 1)) {
      Standings now = at;
      now.seconds += elapsed();
      TACIT_OK(Keep(now, identity, o.state));
      saved = elapsed();
    }
    if (stopped() && at.done < o.measure) return interrupted(done);
  }

  AuditReport r;
  r.algorithm = p.algorithm;
  r.mode = p.mode;
  r.unit = p.unit;
  r.adjacency = Name(p.adjacency);
  r.mechanism = p.mechanism;
  r.trust = p.trust;
  r.canary = arena->canary().text;
  r.attack = arena->by_messages() ? "likelihood of messages"
             : at.judge.learned   ? "learned score"
                                  : "likelihood ratio";
  r.rounds = p.rounds, r.clients = p.clients, r.dim = p.dim;
  r.delta = p.delta;
  r.certified = p.certified_epsilon;
  r.certified_mu = arena->mu();
  r.claimed = p.claimed_epsilon;
  r.claim_source = p.claim_source;
  if (r.gaussian() && r.certified_mu > 0) r.reach = std::sqrt(arena->strength()) / r.certified_mu;
  r.most_reach = at.most_reach;
  if (at.noise.numbers > 0) r.noise = std::sqrt(at.noise.squares / at.noise.numbers);
  r.chance_of_so_little = ChanceOfSoLittle(at.noise);
  r.shared_noise = SharedNoise(at.noise);
  r.rate = arena->rate();
  r.sampled_rounds = at.rounds, r.drawn = at.drawn;
  r.tail = at.tail, r.middle = at.middle;
  // Two bounds, of which the better one counts: each has half of what both may err.
  r.epsilon = BoundsOf(at.tail, delta, o.alpha / 2).epsilon;
  r.mu = BoundsOf(at.middle, delta, o.alpha / 2).mu;
  r.gaussian_epsilon = EpsilonIfGaussian(r.mu, delta);
  r.doubtless_epsilon = BoundsOf(at.tail, delta, kBeyondDoubt / 4).epsilon;
  r.doubtless_mu = BoundsOf(at.middle, delta, kBeyondDoubt / 4).mu;
  r.seconds = at.seconds + elapsed();
  r.runs = all;
  r.alpha = o.alpha;
  return r;
}

Result<OneRunReport> AuditInOneRun(const Config& config, std::uint32_t clients, const AuditOptions& o,
                                   Variation variation) {
  const auto begin = std::chrono::steady_clock::now();
  TACIT_TRY(const std::unique_ptr<Arena> arena,
            Arena::Make(config, SeedOf(config, o.seed), std::move(variation)));
  TACIT_TRY(const Arena::Crowd crowd, arena->RunCrowd(clients));
  std::vector<std::size_t> order(clients);
  for (std::size_t i = 0; i < clients; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(crowd.likelihood[a]) > std::abs(crowd.likelihood[b]);
  });
  OneRunReport r{.clients = clients, .certified = crowd.certified, .delta = crowd.delta};
  // Guesses of those that the attacker is surest of. How many is fixed in advance, and three numbers are
  // tried.
  constexpr std::size_t kParts[] = {1, 4, 16};
  for (const std::size_t part : kParts) {
    const std::size_t guesses = std::max<std::size_t>(1, clients / part);
    std::uint64_t right = 0;
    for (std::size_t k = 0; k < guesses; ++k)
      right += (crowd.likelihood[order[k]] > 0) == crowd.coin[order[k]];
    const auto bound = [&](double alpha) {
      return OneRunEpsilon(clients, guesses, right, Delta::Proven(r.delta), alpha / std::size(kParts));
    };
    const double epsilon = bound(o.alpha);
    if (epsilon > r.epsilon || r.guesses == 0) r.guesses = guesses, r.right = right, r.epsilon = epsilon;
    r.doubtless_epsilon = std::max(r.doubtless_epsilon, bound(kBeyondDoubtInOneRun));
  }
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return r;
}

json ToJson(const OneRunReport& r) {
  return {{"method", "one run"},
          {"clients", r.clients},
          {"guesses", r.guesses},
          {"right", r.right},
          {"delta", r.delta},
          {"certified_epsilon", Number(r.certified)},
          {"measured_epsilon", r.epsilon},
          {"confidence", 0.95},
          {"certificate_broken", r.broken()},
          {"seconds", r.seconds}};
}

json ToJson(const AuditReport& r) {
  const auto counts = [](const Counts& c) {
    return json{{"runs0", c.runs0}, {"above0", c.above0}, {"runs1", c.runs1}, {"above1", c.above1}};
  };
  return {{"algorithm", r.algorithm},
          {"mode", r.mode},
          {"unit", r.unit},
          {"adjacency", r.adjacency},
          {"mechanism", r.mechanism},
          {"trust", r.trust},
          {"rounds", r.rounds},
          {"clients", r.clients},
          {"dimension", r.dim},
          {"delta", r.delta},
          {"certified_epsilon", Number(r.certified)},
          {"claimed_epsilon", Number(r.claimed)},
          {"claim_source", r.claimed ? json(r.claim_source) : json(nullptr)},
          {"measured_epsilon", r.measured()},
          {"measured_epsilon_any", r.epsilon},
          {"measured_epsilon_gaussian", r.gaussian_epsilon},
          {"measured_mu", r.mu},
          {"certified_mu", Number(r.certified_mu)},
          {"confidence", 1 - r.alpha},
          {"canary", r.canary},
          {"attack", r.attack},
          {"reach", r.reach > 0 ? json(r.reach) : json(nullptr)},
          {"most_reach", r.most_reach > 0 ? json(r.most_reach) : json(nullptr)},
          {"overdrawn", r.overdrawn()},
          {"noise", r.noise},
          {"shared_noise", r.shared_noise},
          {"noise_short", r.noise_short()},
          {"drawn", {{"rate", r.rate}, {"rounds", r.sampled_rounds}, {"drawn", r.drawn}}},
          {"counts", {{"tail", counts(r.tail)}, {"middle", counts(r.middle)}}},
          {"certificate_broken", r.broken()},
          {"claim_broken", r.claimed ? json(r.claim_broken()) : json(nullptr)},
          {"claim_broken_if_gaussian", r.claimed ? json(r.claim_broken_if_gaussian()) : json(nullptr)},
          {"runs", r.runs},
          {"seconds", r.seconds}};
}

}  // namespace tacit
