#include "experiment/verify.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "algorithms/topology.h"
#include "core/rng.h"
#include "core/sha256.h"
#include "data/npy.h"
#include "experiment/config.h"
#include "experiment/feedback_plan.h"
#include "experiment/json_number.h"
#include "experiment/network_plan.h"
#include "experiment/plan.h"
#include "experiment/run.h"
#include "experiment/second_order_plan.h"
#include "experiment/verify_checks.h"
#include "experiment/verify_session.h"
#include "privacy/accountant.h"
#include "privacy/event_json.h"
#include "privacy/gdp.h"
#include "privacy/joint_release.h"
#include "privacy/ledger.h"
#include "privacy/randomizer_plan.h"
#include "privacy/sampling.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using verification::Checks;
using verification::Enclosed;
using verification::ExactEpsilon;
using verification::Fields;
using verification::kUlp;
using verification::kWhole;
using verification::LongSum;
using verification::MuOf;
using verification::Shown;
using verification::SumSensitivity;
using verification::Text;

constexpr std::size_t kLargestFile = std::size_t{1} << 28;  // of a certificate

struct StatedReleases {
  std::size_t clients, units, roundings;
  double sensitivity, beyond, mu, epsilon;
  std::vector<double> sigma;
  std::vector<std::size_t> rounds;
  std::size_t turns;  // rounds of the client with the most, where clients are sampled in public
  std::size_t away;                      // without a server: rounds that these peers missed
  std::size_t records, degree;           // of minimisers: of each of these peers
  double curvature;
  std::optional<double> bound;
};

// A run without a server.
struct StatedNetwork {
  std::string topology, sha256, output, composition;
  std::size_t peers, edges, degree_least, degree_most;
  double rho;      // 0: none
  std::vector<std::string> away, leave;
};

// A run with error feedback.
struct StatedFeedback {
  std::string design, state, compressor, noise, schedule, radius_rule;  // empty: none
  std::optional<double> radius_ratio;
  std::size_t sampled = 0, least = 0;  // records of a release and of the smallest client; 0: all count
  double rate = 1;
};

// Rounds on samples of records.
struct StatedSamples {
  std::string design, sampling;
  std::size_t coordinates, sent, steps, sample, least, counted;
  double rate, clip_hessian, noise_hessian, growth, delta0;
  std::optional<double> diameter;
  bool solver() const { return design == "full" || design == "subspace"; }
  std::size_t releases() const {
    return design == "once" ? 2 : solver() ? std::max<std::size_t>(1, steps) - 1 : 1;
  }
};

// Sums that open only as a whole.
struct StatedMasks {
  std::size_t survivors, colluding, threshold, bits;
  double exponent, noise;
};

// What a certificate says, as far as it can be recomputed.
struct Stated {
  std::string run, algorithm, mode, unit, trust, person_bound, adjacency, mechanism, noise, model_sha256,
      config_sha256;
  double epsilon, epsilon_lower, delta, mu, zcdp, sensitivity;
  std::optional<double> claimed, claim_bound, clip, record_bound, square, indicator;
  std::optional<std::vector<double>> per_client;
  std::optional<std::size_t> peer;  // of this one alone, with its model and ledger: it keeps no trace
  std::size_t done, each, planned, skipped, clients, rows, dim, records_per_person;
  bool interrupted;
  bool person() const { return unit == "person"; }
  bool by_client() const { return unit == "client"; }
  // Whether the clip is enforced; otherwise a paper assumes it of the data.
  bool clipped() const {
    if (feedback) return feedback->design != "printed";
    return mode == "certified" || (algorithm != "primal-dual" && algorithm != "isrl-dp" && !network);
  }
  std::size_t released() const {  // numbers in one release
    return dim + (square ? 1 : 0) + (indicator ? 1 : 0);
  }
  std::size_t terms() const { return person() && person_bound == "records" ? records_per_person : 1; }
  // How many records there are is hidden, so that a public bound on it is stated.
  bool hidden() const { return adjacency == "add-remove" || person(); }
  std::vector<StatedReleases> releases;
  std::optional<StatedNetwork> network;
  std::optional<StatedFeedback> feedback;
  std::optional<StatedSamples> samples;
  std::optional<StatedMasks> masks;
  bool argmin() const { return algorithm == "p-admm"; }      // what is released are minimisers
  // Who takes part, where not everyone does, and the plan that was paid for as a whole.
  std::string sampling = "full";
  double rate = 1;
  std::size_t sample = 0, turns = 0;
  bool secret = false;
  bool by_unit() const { return mechanism == "priv-unit"; }
  std::vector<double> split;  // by_unit, paper mode: what was stated of one message
  bool in_public() const { return sampling != "full" && !secret; }
  std::size_t most_records = 0;  // of a client, where they are weighed by records; 0: all count alike
  double weight = 0;             // of all together
  std::optional<Accountant> account;
  double account_epsilon = 0, account_lower = 0;
  // Rounds that count: all planned ones where the run was stopped, since when may depend on what it released.
  std::size_t charged() const {
    return account || (interrupted && done > 0) ? planned - std::min(planned, skipped) : done;
  }
};

Result<Stated> ReadStated(const json& certificate, const std::string& name) {
  if (!certificate.is_object() || certificate.value("format", json()) != "tacit-certificate-1")
    return Fail(Code::kMalformed,
                "{}: is not a certificate of the format tacit-certificate-1; give a certificate.json that "
                "`tacit train` wrote",
                name);
  Fields f(certificate, name);
  Stated s{};
  s.run = f.String("run");
  s.algorithm = f.String("algorithm");
  s.mode = f.OneOf("mode", {"certified", "paper"});
  s.unit = f.OneOf("privacy.unit", {"record", "person", "client"});
  if (s.by_client()) {
    s.trust = f.OneOf("privacy.trust", {"local", "central", "masked"});
    if (s.trust == "masked") {
      StatedMasks m{};
      m.survivors = f.Count("privacy.masked.survivors", 1);
      m.colluding = f.Count("privacy.masked.colluding");
      m.threshold = f.Count("privacy.masked.threshold", 1);
      m.bits = f.Count("privacy.masked.bits", 8);
      m.exponent = f.Figure("privacy.masked.grid_exponent", -2000, false);
      m.noise = f.Figure("privacy.masked.noise_of_a_client", 0, false);
      s.masks = m;
    }
    s.square = f.Maybe("enforced.square", 0, false);
    // Certificates of earlier versions know no clip that moves.
    if (const json* e = f.Find("enforced"); e != nullptr && e->is_object() && e->contains("indicator"))
      s.indicator = f.Maybe("enforced.indicator", 0, false);
  }
  if (s.person()) {
    s.person_bound = f.OneOf("privacy.person_bound", {"records", "sum"});
    if (const json* most = f.Find("privacy.records_per_person"); most != nullptr && !most->is_null())
      s.records_per_person = f.Count("privacy.records_per_person", 1);
    if (!f.error() && s.person_bound == "records" && s.records_per_person == 0)
      f.Wrong("privacy.records_per_person", 0, "at least 1");
  }
  s.adjacency = f.OneOf("privacy.adjacency", {"replace-one", "add-remove", "zero-out"});
  // Certificates of earlier versions have neither samples nor plans.
  const auto given = [](const json& in, const char* key) {
    return in.is_object() && in.contains(key) && !in[key].is_null();
  };
  if (certificate.contains("privacy") && given(certificate["privacy"], "sampling")) {
    s.sampling = f.OneOf("privacy.sampling.kind", {"fixed", "poisson"});
    s.rate = f.Figure("privacy.sampling.rate", 0, false);
    if (!f.error() && s.rate > 1) f.Wrong("privacy.sampling.rate", s.rate, "in [0, 1]");
    if (s.sampling == "fixed") s.sample = f.Count("privacy.sampling.clients", 1);
    s.secret = f.Flag("privacy.sampling.secret");
    if (!s.secret) s.turns = f.Count("privacy.sampling.participations", 1);
  }
  if (certificate.contains("privacy") && given(certificate["privacy"], "weights")) {
    f.OneOf("privacy.weights.by", {"records"});
    s.most_records = f.Count("privacy.weights.most_records", 1);
    s.weight = f.Figure("privacy.weights.total", 0, false);
  }
  s.mechanism =
      f.OneOf("mechanism.name", {"lattice_gaussian", "gaussian", "discrete_gaussian", "priv-unit", "expose"});
  if (s.by_unit() && s.mode == "paper") s.split = f.Figures("mechanism.split", 0, false);
  s.noise = f.OneOf("mechanism.noise", {"entropy", "replayable", "none"});
  s.epsilon = f.Figure("privacy.certified_epsilon", 0, true);
  s.epsilon_lower = f.Figure("privacy.certified_epsilon_lower", 0, true);
  s.claimed = f.Maybe("privacy.claimed_epsilon", 0, false);
  s.claim_bound = f.Maybe("privacy.claim_bound", 0, false);
  s.delta = f.Figure("privacy.delta", 0, false);
  if (!f.error() && !(s.delta > 0 && s.delta < 1)) f.Wrong("privacy.delta", s.delta, "in (0, 1)");
  s.mu = f.Figure("privacy.mu", 0, true);
  s.zcdp = f.Figure("privacy.zcdp_epsilon", 0, true);
  if (const json* list = f.Find("privacy.per_client_epsilon"); list != nullptr && !list->is_null())
    s.per_client = f.Figures("privacy.per_client_epsilon", 0, true);
  s.clip = f.Maybe("enforced.clip", 0, false);
  s.record_bound = f.Maybe("enforced.record_bound", 0, false);
  s.sensitivity = f.Figure("enforced.sensitivity", 0, true);
  s.done = f.Count("rounds.done");
  s.each = 1;  // certificates of earlier versions do not say it
  if (const json* rounds = f.Find("rounds");
      rounds != nullptr && rounds->is_object() && rounds->contains("releases_each"))
    s.each = f.Count("rounds.releases_each", 1);
  s.planned = f.Count("rounds.planned");
  s.skipped = f.Count("rounds.skipped");
  s.interrupted = f.Flag("rounds.interrupted");
  s.clients = f.Count("clients", 1);
  if (given(certificate, "peer")) {
    s.peer = f.Count("peer.place");
    if (!given(certificate, "network") || *s.peer >= s.clients)
      f.Wrong("peer", certificate["peer"], "a peer of the run's network");
  }
  if (given(certificate, "privacy") && certificate["privacy"].is_object() &&
      given(certificate["privacy"], "trusted_server") && f.String("privacy.trust") != "central")
    f.Wrong("privacy.trusted_server", certificate["privacy"]["trusted_server"],
            "left out where nobody trusts a server");
  s.rows = f.Count("data.rows");
  s.dim = f.Count("model.dimension", 1);
  s.model_sha256 = f.String("model.sha256");
  s.config_sha256 = f.String("config.sha256");
  if (given(certificate, "account")) {
    const json* events = f.List("account.events");
    s.account_epsilon = f.Figure("account.epsilon", 0, true);
    s.account_lower = f.Figure("account.epsilon_lower", 0, true);
    if (f.error()) return *f.error();
    auto parsed = ParseEvents(json{{"adjacency", s.adjacency}, {"events", *events}}.dump(), name);
    if (!parsed.ok()) return parsed.error();
    s.account = std::move(parsed->account);
  }
  if (given(certificate, "second_order")) {
    StatedSamples n{};
    n.design = f.OneOf("second_order.design", {"full", "subspace", "once", "gradient"});
    n.sampling = f.OneOf("second_order.record_sampling", {"fixed", "poisson", "full", "cycle"});
    n.coordinates = f.Count("second_order.coordinates", 1);
    n.sent = f.Count("second_order.sent", 1);
    n.sample = f.Count("second_order.sample_records", 1);
    n.least = f.Count("second_order.least_records");
    n.counted = f.Count("second_order.rounds_of_a_record");
    n.rate = f.Figure("second_order.rate", 0, false);
    n.clip_hessian = f.Figure("second_order.clip_hessian", 0, false);
    n.growth = f.Figure("second_order.growth", 1, true);
    n.diameter = f.Maybe("second_order.diameter", 0, false);
    if (!f.error() && n.solver()) n.steps = f.Count("second_order.solver_steps", 1);
    if (!f.error() && n.design == "once") n.noise_hessian = f.Figure("second_order.noise_hessian", 0, false);
    if (s.mode == "paper") n.delta0 = f.Figure("second_order.delta0", 0, false);
    if (!f.error() && !(n.rate <= 1)) f.Wrong("second_order.rate", n.rate, "in [0, 1]");
    if (f.error()) return *f.error();
    s.samples = std::move(n);
  }
  if (given(certificate, "network")) {
    StatedNetwork n{};
    n.topology = f.String("network.topology");
    n.sha256 = f.String("network.graph_sha256");
    n.output = f.OneOf("network.output", {"last", "mean"});
    if (given(certificate["network"], "composition"))
      n.composition = f.OneOf("network.composition", {"basic", "advanced"});
    n.peers = f.Count("network.peers", 2);
    n.edges = f.Count("network.edges", 1);
    n.degree_least = f.Count("network.degree_least", 1);
    n.degree_most = f.Count("network.degree_most", 1);
    n.rho = f.Maybe("network.rho", 0, false).value_or(0.0);
    n.away = f.Strings("network.away");
    n.leave = f.Strings("network.leave");
    s.network = std::move(n);
  }
  if (!f.error() && s.network.has_value() != WithoutServer(s.algorithm))
    return Fail(
        Code::kMalformed,
        "{}: algorithm = \"{}\" {} a network, which is {}; give a certificate.json that `tacit train` wrote",
        name, s.algorithm, s.network ? "has no" : "has", s.network ? "stated" : "missing");
  if (!f.error() && s.samples.has_value() != OnRecordSamples(s.algorithm))
    return Fail(Code::kMalformed,
                "{}: algorithm = \"{}\" {} samples of records, which are {}; give a certificate.json that "
                "`tacit train` "
                "wrote",
                name, s.algorithm, s.samples ? "has no" : "has", s.samples ? "stated" : "missing");
  if (given(certificate, "feedback")) {
    StatedFeedback b{};
    const auto maybe = [&](const char* key, const std::vector<std::string>& choices) {
      if (!given(certificate["feedback"], key)) return std::string();
      const std::string path = fmt::format("feedback.{}", key);
      return choices.empty() ? f.String(path) : f.OneOf(path, choices);
    };
    b.design = f.OneOf("feedback.design", {"mirrored", "private", "printed", "clip21"});
    b.state = f.OneOf("feedback.state", {"mirrored", "noiseless"});
    b.noise = f.OneOf("feedback.noise", {"before the compressor", "after the compressor", "after the clip"});
    b.compressor = maybe("compressor", {});
    b.schedule = maybe("schedule", {"geometric", "theorem", "levels", "lyapunov"});
    b.radius_rule = maybe("radius_rule", {"planned", "trajectory"});
    if (given(certificate["feedback"], "radius_ratio"))
      b.radius_ratio = f.Figure("feedback.radius_ratio", 0, false);
    if (given(certificate["feedback"], "sampled_records")) {
      b.sampled = f.Count("feedback.sampled_records", 1);
      b.least = f.Count("feedback.least_records", 1);
      b.rate = f.Figure("feedback.record_rate", 0, false);
      if (!f.error() && !(b.rate <= 1)) f.Wrong("feedback.record_rate", b.rate, "in [0, 1]");
    }
    s.feedback = std::move(b);
  }
  if (!f.error() && s.feedback.has_value() != WithFeedback(s.algorithm))
    return Fail(
        Code::kMalformed,
        "{}: algorithm = \"{}\" {} error feedback, which is {}; give a certificate.json that `tacit train` "
        "wrote",
        name, s.algorithm, s.feedback ? "has no" : "has", s.feedback ? "stated" : "missing");
  const json* releases = f.List("releases");
  for (std::size_t i = 0; releases != nullptr && i < releases->size() && !f.error(); ++i) {
    const std::string at = fmt::format("releases[{}].", i);
    StatedReleases r{};
    r.clients = f.Count(at + "clients", 1);
    r.units = f.Count(at + "units");
    r.roundings = f.Count(at + "roundings");
    r.sensitivity = f.Figure(at + "sensitivity", 0, true);
    r.sigma = f.Figures(at + "sigma", 0, false);
    r.rounds = f.Counts(at + "rounds", 1);
    if (s.in_public()) r.turns = f.Count(at + "turns");
    if (s.network) r.away = f.Count(at + "rounds_away");
    if (s.argmin()) {
      r.records = f.Count(at + "records", 1);
      r.degree = f.Count(at + "degree", 1);
      r.curvature = f.Figure(at + "curvature", 0, false);
      r.bound = f.Figure(at + "bound", 0, false);
    }
    r.beyond = f.Figure(at + "mu_squared_beyond", 0, true);
    r.mu = f.Figure(at + "mu", 0, true);
    r.epsilon = f.Figure(at + "epsilon", 0, true);
    for (std::size_t k = 0; k < r.sigma.size() && !f.error(); ++k)
      if (!(r.sigma[k] >= 0x1p-1000 && r.sigma[k] <= 0x1p1000))
        f.Wrong(fmt::format("{}sigma[{}]", at, k), r.sigma[k], "in [1e-301, 1e301]");
    if (!f.error() && r.sigma.size() != r.rounds.size())
      f.Wrong(at + "rounds", (*releases)[i]["rounds"], "as long as sigma: how many rounds each lasted");
    s.releases.push_back(std::move(r));
  }
  if (!f.error() && s.releases.empty()) f.Wrong("releases", json::array(), "a list that is not empty");
  if (f.error()) return *f.error();
  return s;
}

Enclosed SensitivityOf(const Stated& s, const StatedReleases& r) {
  if (!s.record_bound) return {std::numeric_limits<long double>::infinity(), 0};
  const long double c = r.bound ? *r.bound : *s.record_bound;
  long double units = static_cast<long double>(r.units), k = static_cast<long double>(r.roundings);
  const auto terms = static_cast<long double>(s.terms());
  if (s.hidden()) {
    units += terms;
    if (k != 0) k += terms;
  }
  if (units == 0 && s.rows == 0) return {c, 0};
  return SumSensitivity(c, (s.adjacency == "replace-one" ? 2 : 1) * terms, units, k);
}

// Σ over rounds of MuOf²; the rounds after the first `until` are left out.
long double MuSquaredOf(const Stated& s, const StatedReleases& r, long double sensitivity,
                        std::size_t until) {
  LongSum sum;
  std::size_t left = until;
  for (std::size_t i = 0; i < r.sigma.size() && left > 0; ++i) {
    const std::size_t n = std::min(left, r.rounds[i]);
    left -= n;
    const long double mu = MuOf(s.mechanism, s.released(), r.sigma[i], sensitivity);
    sum.Add(mu * mu * static_cast<long double>(n) * static_cast<long double>(s.each));
  }
  return sum.value();
}

std::size_t RoundsOf(const StatedReleases& r) {
  long double total = 0;
  for (const std::size_t n : r.rounds) total += static_cast<long double>(n);
  return static_cast<std::size_t>(std::min<long double>(total, kWhole));
}

void CheckReleases(const Stated& s, Checks& check) {
  const bool noised = s.mechanism != "expose";
  std::map<double, double> known;  // ε by μ
  for (std::size_t i = 0; i < s.releases.size(); ++i) {
    const StatedReleases& r = s.releases[i];
    const std::string at = fmt::format("releases[{}].", i);
    if (s.by_client()) {  // one term a client; roundings as bounded.h derives them
      const std::size_t terms = s.trust == "central" ? s.clients : 1;
      check.Same(at + "units", r.units, terms, "and what a release adds up are clients' updates, here");
      const bool rounded = s.trust == "central" || (s.trust == "masked" && s.square);
      check.Same(at + "roundings", r.roundings,
                 rounded ? 2 * (terms + 1) + (2 * (s.released() + 3) + terms - 1) / terms : 0,
                 "and a sum over them has");
    }
    const Enclosed sensitivity = SensitivityOf(s, r);
    check.Within(at + "sensitivity", r.sensitivity, sensitivity.exact, 0x1p-60L, sensitivity.above,
                 fmt::format("and {} adjacency with a bound of {} and {} units makes it", s.adjacency,
                             Text(s.record_bound), r.units));
    if (noised)
      check.Same(at + "rounds", RoundsOf(r), s.charged() - std::min(s.charged(), r.away),
                 s.account || s.interrupted ? "and the rounds of the plan are" : "and rounds.done is");
    if (s.account) {
      check.Same(at + "mu", r.mu, kInf, "and releases that are not Gaussian-DP have");
      check.Same(at + "epsilon", r.epsilon, s.account_epsilon, "and the account says");
      continue;
    }
    const std::size_t paid = s.in_public() ? std::min(r.turns, s.charged()) : s.charged();  // rounds
    if (s.in_public()) {
      const std::size_t most = std::min(s.charged(), s.turns);
      if (r.turns > most || (s.interrupted && r.turns < most))
        check.Differ(at + "turns", r.turns, most,
                     s.interrupted ? "and a run that was stopped counts all that a client may take part in,"
                                   : "and a client takes part in at most");
      // So many draws cannot be spread over the clients more evenly than this.
      const std::size_t draws = s.charged() * (s.sampling == "fixed" ? s.sample
                                               : s.rate == 1         ? s.clients
                                                                     : 0);
      const std::size_t least = std::min(most, (draws + s.clients - 1) / std::max<std::size_t>(1, s.clients));
      if (r.turns < least && s.releases.size() == 1)
        check.Differ(at + "turns", r.turns, least, "and so many clients a round leave one with at least");
      if (r.sigma.size() > 1)
        check.Differ(at + "sigma", r.sigma.size(), std::size_t{1},
                     "values, and where clients choose among rounds there must be");
    }
    long double squared = noised && !std::isinf(r.sensitivity) ? MuSquaredOf(s, r, r.sensitivity, paid)
                                                               : static_cast<long double>(kInf);
    if (s.done == 0 || (s.network && r.away >= s.charged())) squared = 0;
    squared += r.beyond;
    const auto rounds = static_cast<long double>(s.charged()) * static_cast<long double>(s.each);
    check.Within(at + "mu", r.mu, std::sqrt(squared), (rounds + 8) * 0x1p-62L, (rounds + 8) * kUlp,
                 "and its noise makes it");
    const auto [of, added] = known.try_emplace(r.mu, 0.0);
    if (added) of->second = ExactEpsilon(r.mu, s.delta);
    check.Same(at + "epsilon", r.epsilon, of->second,
               fmt::format("and mu = {} at delta = {} is", Text(r.mu), s.delta));
  }
}

// Weights are m_i over the largest m, so that none is above 1 and together they are rows over the largest.
// Only such weights leave the sensitivity as it is.
void CheckWeights(const Stated& s, Checks& check) {
  if (s.most_records == 0) return;
  const auto rows = static_cast<long double>(s.rows), most = static_cast<long double>(s.most_records),
             clients = static_cast<long double>(s.clients), room = (clients + 8) * kUlp;
  check.Within("privacy.weights.total", s.weight, rows / most, room, room,
               "and data.rows and the records of the largest client make it");
  if (s.most_records > s.rows || most * clients < rows)
    check.Differ("privacy.weights.most_records", s.most_records, s.rows,
                 "which cannot be the largest share of a client where the rows are");
  check.Same("privacy.unit", s.unit, std::string("client"), "and what is weighed are clients:");
  if (s.by_unit() || s.adjacency == "add-remove")
    check.Add("privacy.weights", "records", "none", "and with this mechanism or adjacency there can be");
}

// The peers by how many rounds they missed, of n: round(i) for i < n.
template <class Round>
void CheckMissed(const Stated& s, const Absences& who, std::size_t n, Round round, Checks& check) {
  std::map<std::size_t, std::size_t> expected, stated;
  std::size_t others = s.clients;
  for (const std::uint32_t peer : who.concerned()) {
    std::size_t missed = 0;
    for (std::size_t i = 0; i < n; ++i)
      missed += who.At(static_cast<std::uint32_t>(round(i)), peer) != Presence::kHere;
    ++expected[missed];
    --others;
  }
  expected[0] += others;
  for (const StatedReleases& r : s.releases) stated[r.away] += r.clients;
  for (const auto& [missed, peers] : stated)
    if (expected[missed] != peers)
      check.Add("releases: rounds_away", fmt::format("{} for {} peers", missed, peers),
                Text(expected[missed]), "and by network.away and network.leave the peers with so many are");
}

// A run without a server: minimisers are bounded by c₁/(Mκ), with room for a solver's errors (bounded.h),
// and who missed how many rounds follows from what is said of absences.
void CheckNetwork(const Stated& s, Checks& check) {
  if (!s.network) return;
  const StatedNetwork& n = *s.network;
  check.Same("network.peers", n.peers, s.clients, "and the clients are");
  check.Same("privacy.unit", s.unit, std::string("record"), "and what peers release protects a");
  check.Same("network.composition", std::string(n.composition.empty() ? "none" : "stated"),
             std::string(s.algorithm == "dp-nfl" ? "stated" : "none"), "and for this algorithm it is");
  if (s.argmin() && s.adjacency == "add-remove")
    check.Add("privacy.adjacency", "add-remove", "replace-one or zero-out", "and for minimisers it must be");
  std::size_t behind = 0;  // records behind minimisers
  for (std::size_t i = 0; s.argmin() && i < s.releases.size(); ++i) {
    const StatedReleases& r = s.releases[i];
    behind += r.clients * r.records;
    const std::string at = fmt::format("releases[{}].", i);
    if (r.degree < n.degree_least || r.degree > n.degree_most)
      check.Differ(at + "degree", r.degree, n.degree_most, "and peers have neighbours up to");
    if (!s.record_bound) continue;
    const auto m = static_cast<long double>(r.records), k = (m + 3) * 0x1p-53L;
    const long double slack = 0x1p-22L + 8 * (m + 1) * (k / (1 - k) + 0x1p-46L);
    check.Within(at + "bound", *r.bound, *s.record_bound / (m * r.curvature) * (1 + slack), 1e-15L, 1e-12L,
                 "and the clip, its records and its curvature make it");
    check.Same(at + "roundings", r.roundings, std::size_t{0}, "and for a minimiser there are");
  }
  if (s.argmin()) check.Same("releases: records", behind, s.rows, "in all, and the rows are");
  Config of;
  of.network.away = n.away;
  of.network.leave = n.leave;
  const auto who = Absences::Of(of, n.peers, s.planned);
  if (!who.ok()) return check.Add("network.away", "absences", "none", who.error().message + "; they are");
  if (s.skipped == 0) return CheckMissed(s, *who, s.charged(), [](std::size_t i) { return i + 1; }, check);
  // Which rounds were skipped is not stated: then no more can be missed than all. (With config.toml there is
  // a plan, which knows.)
  std::size_t most = 0;
  for (const std::uint32_t peer : who->concerned()) {
    std::size_t missed = 0;
    for (std::size_t t = 1; t <= s.planned; ++t)
      missed += who->At(static_cast<std::uint32_t>(t), peer) != Presence::kHere;
    most = std::max(most, missed);
  }
  for (const StatedReleases& r : s.releases)
    if (r.away > most)
      check.Add("releases: rounds_away", Text(r.away), Text(most),
                "and by network.away and network.leave it is at most");
}

// A run with error feedback: what is noised, and what that protects, follow from algorithm and mode. Sums of
// records are clipped record by record; a difference of gradients is clipped whole, which protects the
// client.
void CheckFeedback(const Stated& s, Checks& check) {
  if (!s.feedback) return;
  const StatedFeedback& f = *s.feedback;
  if (s.by_client())
    check.Same("privacy.trust", s.trust, std::string("local"),
               "and with error feedback clients add the noise:");
  const bool clip21 = s.algorithm == "dp-clip21" || s.algorithm == "clip21-sgd2m", paper = s.mode == "paper";
  const bool first = s.algorithm == "dpd-ef21-2";
  const std::string design = clip21 ? "clip21" : paper ? "printed" : first ? "mirrored" : "private";
  const char* why = "and algorithm and mode make it";
  check.Same("feedback.design", f.design, design, why);
  if (!clip21)
    check.Same("feedback.state", f.state, std::string(design == "mirrored" ? "mirrored" : "noiseless"), why);
  check.Same("feedback.noise", f.noise,
             std::string(clip21  ? "after the clip"
                         : first ? "before the compressor"
                                 : "after the compressor"),
             why);
  check.Same("feedback.compressor", std::string(f.compressor.empty() ? "none" : "stated"),
             std::string(clip21 ? "none" : "stated"), why);
  check.Same("feedback.schedule", std::string(f.schedule.empty() ? "none" : "stated"),
             std::string(design == "printed" ? "stated" : "none"), why);
  check.Same("feedback.radius_ratio", std::string(f.radius_ratio ? "stated" : "none"),
             std::string(design == "private" ? "stated" : "none"), why);
  if (design == "private" || design == "clip21")
    check.Same("privacy.unit", s.unit, std::string("client"),
               "and a difference that is clipped whole protects a");
  if (s.adjacency != "replace-one" &&
      !(s.adjacency == "zero-out" && design == "mirrored" && s.unit == "record"))
    check.Same("privacy.adjacency", s.adjacency, std::string("replace-one"),
               "and with this unit it is proved for");
  if (f.sampled != 0) {
    check.Same("privacy.unit", s.unit, std::string("record"), "and what is sampled are records:");
    check.Same("privacy.adjacency", s.adjacency, std::string("replace-one"),
               "and samples of a fixed size need");
    check.Same("feedback.design", f.design, std::string("mirrored"), "and samples of records are for");
    check.Within("feedback.record_rate", f.rate,
                 static_cast<long double>(f.sampled) / static_cast<long double>(f.least), 0, kUlp,
                 "and the records of a round make it");
    if (static_cast<long double>(f.least) * static_cast<long double>(s.clients) >
        static_cast<long double>(s.rows))
      check.Differ("feedback.least_records", f.least, s.rows / s.clients, "and some client has at most");
    for (const StatedReleases& r : s.releases)
      check.Same("releases: units", r.units, f.sampled, "and a release is over");
  }
  if (design == "printed") {
    check.Same("enforced.record_bound", s.record_bound, std::optional<double>(),
               "and for what is printed there is");
    if (s.done > 0) check.Same("privacy.certified_epsilon", s.epsilon, kInf, "and what nothing bounds has");
  }
}

// The graph itself, as the run kept it.
void CheckGraph(const Stated& s, const std::string& text, Checks& check) {
  const StatedNetwork& n = *s.network;
  check.Same("network.graph_sha256", n.sha256, Sha256::Hex(text), "and graph.txt has");
  const auto graph = ParseEdges(text, "graph.txt", std::min(s.clients, std::size_t{1} << 28));
  if (!graph.ok()) return check.Add("graph.txt", "a graph", "none", graph.error().message + "; it is");
  const auto [least, most] = DegreesOf(*graph);
  check.Same("network.edges", n.edges, graph->edges(), "and graph.txt has");
  check.Same("network.degree_least", n.degree_least, least, "and graph.txt makes it");
  check.Same("network.degree_most", n.degree_most, most, "and graph.txt makes it");
  if (!s.argmin()) return;
  std::map<std::size_t, std::size_t> expected, stated;  // peers by neighbours
  for (std::size_t k = 0; k < graph->size(); ++k) ++expected[graph->degree(k)];
  for (const StatedReleases& r : s.releases) stated[r.degree] += r.clients;
  for (const auto& [degree, peers] : expected)
    if (stated[degree] != peers)
      check.Add("releases: degree", fmt::format("{} for {} peers", degree, stated[degree]), Text(peers),
                "and in graph.txt the peers with so many neighbours are");
}

// Where a paper states a message's split: the account that it makes, by either rule for the cap.
std::optional<std::string> StatedEvents(const Stated& s, bool printed_cap) {
  if (s.split.size() != 3 || !s.clip || s.planned == 0) return std::nullopt;
  for (const double e : s.split)
    if (!Epsilon::Of(e).ok()) return std::nullopt;
  const auto clip = L2Bound::Of(*s.clip);
  if (!clip.ok()) return std::nullopt;
  const RandomizerSplit split{Epsilon::Proven(s.split[0]), Epsilon::Proven(s.split[1]),
                              Epsilon::Proven(s.split[2])};
  const auto made = StatedRandomizer(split, printed_cap, s.dim, *clip);
  if (!made.ok()) return std::nullopt;
  const auto account = AccountOf(*made, s.account->adjacency(), s.planned);
  if (!account.ok()) return std::nullopt;
  return WriteEvents(*account, Delta::Proven(s.delta));
}

// A direction and a length a message, one message a round of the plan. As stated by a paper they are the
// split's, by one of the two rules for the cap. In certified mode the cap is the best one for the
// direction's ε and the dimension: of the pairs (p, q) with one ε, which cost differently, only that one
// was drawn from.
void CheckUnits(const Stated& s, std::vector<Accountant::Line>& left, Checks& check) {
  std::uint64_t directions = 0, lengths = 0;
  for (Accountant::Line& line : left) {
    const auto* direction = std::get_if<PrivUnitEvent>(&line.event);
    const auto* length = std::get_if<ScalarDpEvent>(&line.event);
    if (direction == nullptr && length == nullptr) continue;
    (direction != nullptr ? directions : lengths) += line.count;
    line.count = 0;
    if (direction == nullptr || s.mode == "paper") continue;
    const auto epsilon = Epsilon::Of(EpsilonOf(*direction));
    const auto best = epsilon.ok() ? PrivUnit::Optimal(*epsilon, s.dim) : Result<PrivUnit>(epsilon.error());
    if (!best.ok()) {
      check.Add("account.events: p, q", fmt::format("{}, {}", direction->p.value(), direction->q.value()),
                "none", best.error().message + "; for this dimension there is");
      continue;
    }
    // The event's ε is the calibrated one up to what the lattice costs, about 1e-9.
    check.Within("account.events: p", direction->p.value(), best->event().p.value(), 1e-5L, 1e-5L,
                 "and the best cap for its epsilon and the dimension makes it");
    check.Within("account.events: q", direction->q.value(), best->event().q.value(), 1e-5L, 1e-5L,
                 "and the best cap for its epsilon and the dimension makes it");
  }
  if (s.mode == "paper") {
    const std::string stated = WriteEvents(*s.account, Delta::Proven(s.delta));
    const auto best = StatedEvents(s, false), printed = StatedEvents(s, true);
    if (best != stated && printed != stated)
      check.Add("account.events", Text(Sha256::Hex(stated)), best ? Text(Sha256::Hex(*best)) : "none",
                "as their hash, and mechanism.split, the dimension and the rounds of the plan make");
  }
  check.Same("account.events: directions", static_cast<std::size_t>(directions), s.charged(),
             "and the rounds of the plan are");
  check.Same("account.events: lengths", static_cast<std::size_t>(lengths), s.charged(),
             "and the rounds of the plan are");
  check.Same("privacy.unit", s.unit + " " + s.trust, std::string("client local"),
             "and what leaves by priv-unit is of the kind");
}

// Rounds on samples of records: a round is one event, of all its releases together, on a sample whose rate is
// that of the client with the fewest records.
void CheckSamples(const Stated& s, std::vector<Accountant::Line>& left, Checks& check) {
  const StatedSamples& n = *s.samples;
  const auto wide = [](std::size_t v) { return static_cast<long double>(v); };
  if ((n.design == "gradient") != (s.algorithm == "dp-fed-sgd"))
    check.Add("second_order.design", n.design, s.algorithm == "dp-fed-sgd" ? "gradient" : "another",
              "and for this algorithm it is");
  if (s.mode == "paper")
    check.Same("second_order.design", n.design, std::string("full"), "and the paper's is");
  const bool sampled = n.sampling == "fixed" || n.sampling == "poisson";
  check.Same("privacy.unit", s.unit, std::string("record"), "and what is sampled are records:");
  check.Same("privacy.adjacency", s.adjacency, std::string("replace-one"), "and samples of records need");
  check.Same("rounds.releases_each", s.each, std::max<std::size_t>(1, n.releases()), "and the design has");
  check.Same("second_order.coordinates", n.coordinates, n.design == "full" ? s.dim : n.sent,
             "and the design releases as many as");
  if (s.mode == "certified" && n.sampling == "cycle")
    check.Add("second_order.record_sampling", n.sampling, "fixed",
              "and certified mode needs a sample, such as");
  if (wide(n.least) * wide(s.clients) > wide(s.rows))
    check.Differ("second_order.least_records", n.least, s.rows / std::max<std::size_t>(1, s.clients),
                 "and some client has at most");
  const long double share = wide(n.sample) / std::max(1.0L, wide(n.least));
  check.Within("second_order.rate", n.rate, sampled && share < 1 ? share : 1.0L, 0, kUlp,
               "and the records of a round make it");
  const std::size_t pass = std::max<std::size_t>(1, n.least / n.sample);
  check.Same("second_order.rounds_of_a_record", n.counted,
             n.sampling == "cycle" ? (s.charged() + pass - 1) / pass : s.charged(), "and the rounds make it");
  const long double clip = s.clip.value_or(0);
  check.Within("second_order.growth", n.growth,
               s.mode == "paper" ? 1 + n.clip_hessian / clip * n.diameter.value_or(kInf) : 1.0L, 1e-9L, 1e-9L,
               "and noise that does not grow with the radius makes it");
  const auto lattice = [&](std::size_t dim) {
    return s.mechanism == "lattice_gaussian" ? 0x1p-30L * std::sqrt(wide(dim)) : 0.0L;
  };
  std::size_t counted = n.counted;
  for (const StatedReleases& r : s.releases) {
    check.Same("releases: roundings", r.roundings, r.units + 6, "and a sum of so many terms has");
    if (n.sampling == "fixed" || n.sampling == "cycle") {
      if (r.units > n.sample) check.Differ("releases: units", r.units, n.sample, "and a round has at most");
    } else if (r.units < n.least) {
      check.Differ("releases: units", r.units, n.least, "and a round may have");
    }
    const long double moved = SensitivityOf(s, r).exact;
    for (std::size_t i = 0; i < r.sigma.size(); ++i) {
      const long double sigma = r.sigma[i];
      const long double first = moved * n.growth / sigma + lattice(n.coordinates);
      long double squared = first * first * (n.design == "once" ? 1 : wide(n.releases()));
      if (n.design == "once") {
        const long double second = moved / clip * n.clip_hessian / (sigma * n.noise_hessian) +
                                   lattice(n.coordinates * (n.coordinates + 1) / 2);
        squared += second * second;
      }
      const long double mu = std::sqrt(squared);
      std::size_t wanted = std::min(counted, r.rounds[i]);
      counted -= wanted;
      for (Accountant::Line& line : left) {
        double rate = 1, stated = -1;
        if (const auto* e = std::get_if<PoissonGaussianEvent>(&line.event);
            e != nullptr && n.sampling == "poisson")
          rate = e->rate.value(), stated = e->mu.value();
        if (const auto* e = std::get_if<FixedSizeGaussianEvent>(&line.event);
            e != nullptr && n.sampling == "fixed")
          rate = e->rate.value(), stated = e->mu.value();
        if (const auto* e = std::get_if<GaussianEvent>(&line.event); e != nullptr && !sampled)
          stated = e->mu.value();
        if (const auto* e = std::get_if<PureEvent>(&line.event);
            e != nullptr && mu == 0 && e->epsilon.value() == 0)
          rate = n.rate, stated = 0;
        if (rate != n.rate || !(stated >= mu) || !(stated <= mu * (1 + 0x1p-38L))) continue;
        const std::uint64_t taken = std::min<std::uint64_t>(line.count, wanted);
        line.count -= taken;
        wanted -= static_cast<std::size_t>(taken);
      }
      if (wanted != 0)
        check.Add("account.events", fmt::format("too few rounds with mu = {}", Text(static_cast<double>(mu))),
                  Text(r.rounds[i]), "and the noise, the sensitivity and the design make them");
    }
  }
}

// Masked sums: the noise is that of the fewest clients a sum may have, less those who collude, and each is
// one event on a grid that the noise makes.
void CheckMasks(const Stated& s, std::vector<Accountant::Line>& left, Checks& check) {
  const StatedMasks& m = *s.masks;
  if (m.survivors > s.clients || m.colluding >= m.survivors || m.threshold > m.survivors)
    check.Differ(
        "privacy.masked.survivors", m.survivors, s.clients,
        "which leaves no clients whose noise counts, or more than there are, or fewer than open a sum; "
        "clients are");
  check.Same("privacy.masked.threshold", m.threshold, (s.clients + m.colluding) / 2 + 1,
             "and so that two sums of a round cannot be opened it is");
  const std::size_t honest = m.survivors - std::min(m.survivors, m.colluding);
  for (const StatedReleases& r : s.releases) {
    const Enclosed sensitivity = SensitivityOf(s, r);
    check.Same("releases: sigma", r.sigma.size(), std::size_t{1}, "values, and of masked sums there must be");
    for (std::size_t i = 0; i < r.sigma.size(); ++i) {
      int exponent = 0;
      static_cast<void>(std::frexp(r.sigma[i], &exponent));
      exponent -= 21;
      check.Same("privacy.masked.noise_of_a_client", m.noise, r.sigma[i], "and the releases have");
      check.Same("privacy.masked.grid_exponent", m.exponent, static_cast<double>(exponent),
                 "and the noise makes it");
      const long double grid = std::ldexp(1.0L, exponent), dim = static_cast<long double>(s.released());
      const bool plain = !s.square && !s.indicator;
      const long double moved = (sensitivity.exact + (plain ? 0 : grid * std::sqrt(dim))) / grid;
      const long double n = static_cast<long double>(s.clients), clip = s.clip.value_or(0);
      const long double longest =
          clip + std::max<long double>(s.square.value_or(0) * clip * clip, s.indicator.value_or(0));
      const long double most =
          (n * (longest / grid + 1) + 14 * std::sqrt(n) * r.sigma[i] / grid) * (1 + 1e-9L);
      std::size_t bits = 8;
      while (bits < 72 && !(most < std::ldexp(1.0L, static_cast<int>(bits) - 1))) bits += 8;
      check.Same("privacy.masked.bits", m.bits, bits, "and so that sums do not wrap it is");
      std::size_t wanted = r.rounds[i];
      for (Accountant::Line& line : left) {
        const auto* e = std::get_if<DistributedDiscreteGaussianEvent>(&line.event);
        if (e == nullptr || e->clients != honest || e->dimension != s.released() ||
            e->sigma.value() != std::ldexp(r.sigma[i], -exponent) ||
            !(e->sensitivity.value() >= moved * (1 - 0x1p-60L)) ||
            !(e->sensitivity.value() <= moved * (1 + sensitivity.above + 8 * kUlp)))
          continue;
        const std::uint64_t taken = std::min<std::uint64_t>(line.count, wanted);
        line.count -= taken;
        wanted -= static_cast<std::size_t>(taken);
      }
      if (wanted != 0)
        check.Add("account.events", fmt::format("too few sums of {} clients' noise", honest),
                  Text(r.rounds[i]), "and the noise, the sensitivity and the survivors make them");
    }
  }
}

// The plan: its events follow from noise, sensitivity and sampling, and its ε from the events. What a
// sample is credited with needs a server that is trusted with it.
void CheckAccount(const Stated& s, const Bracket& epsilon, Checks& check) {
  const bool planned =
      (s.secret || s.by_unit() || s.samples || s.masks || (s.feedback && s.feedback->sampled != 0)) &&
      s.mechanism != "expose";
  check.Same("mechanism.name",
             std::string(s.mechanism == "discrete_gaussian" ? "discrete_gaussian" : "another"),
             std::string(s.masks ? "discrete_gaussian" : "another"), "and privacy.trust makes it");
  // Without noise there is nothing to account for, and with rounds no ε.
  if (s.mechanism == "expose" && s.done > 0) {
    check.Same("privacy.certified_epsilon", s.epsilon, kInf, "and what is released without noise has");
    check.Same("privacy.mu", s.mu, kInf, "and what is released without noise has");
  }
  if ((s.account && !s.samples) || s.in_public())
    check.Same("rounds.skipped", s.skipped, std::size_t{0},
               "and with samples, or a plan paid as a whole, no round is skipped:");
  if (planned != s.account.has_value())
    return check.Add("account", s.account ? "events" : "none", planned ? "events" : "none",
                     "and mechanism.name and privacy.sampling make it");
  if (s.sampling != "full" && !s.feedback)
    check.Same("privacy.unit", s.unit, std::string("client"), "and what is sampled are clients:");
  if (s.sampling != "full" && s.secret != (s.by_client() && s.trust == "central"))
    check.Add("privacy.sampling.secret", s.secret ? "true" : "false", s.secret ? "false" : "true",
              "and who sees the answers makes it");
  if (s.sampling == "fixed") {  // seen from one client the others are sampled from one fewer
    const long double others = static_cast<long double>(s.clients) - 1,
                      sample = static_cast<long double>(s.sample);
    check.Within("privacy.sampling.rate", s.rate, sample < others ? sample / others : 1.0L, 0, kUlp,
                 "and the clients of a round make it");
    if (s.secret)
      check.Same("privacy.adjacency", s.adjacency, std::string("replace-one"),
                 "and samples of a fixed size need");
  }
  if (!s.account) return;
  std::vector<Accountant::Line> left = s.account->lines();
  if (s.by_unit()) CheckUnits(s, left, check);
  if (s.samples) CheckSamples(s, left, check);
  if (s.masks) CheckMasks(s, left, check);
  for (const StatedReleases& r : s.releases) {
    if (s.by_unit() || s.samples || s.masks) break;
    const Enclosed sensitivity = SensitivityOf(s, r);
    for (std::size_t i = 0; i < r.sigma.size(); ++i) {
      const long double mu = MuOf(s.mechanism, s.released(), r.sigma[i], sensitivity.exact);
      std::size_t wanted = r.rounds[i] * s.each;
      for (Accountant::Line& line : left) {
        double rate = -1, stated = 0;
        if (const auto* e = std::get_if<PoissonGaussianEvent>(&line.event);
            e != nullptr && s.sampling == "poisson")
          rate = e->rate.value(), stated = e->mu.value();
        const bool of_records = s.feedback && s.feedback->sampled != 0;
        if (const auto* e = std::get_if<FixedSizeGaussianEvent>(&line.event);
            e != nullptr && (s.sampling == "fixed" || of_records))
          rate = e->rate.value(), stated = e->mu.value();
        if (rate != (of_records ? s.feedback->rate : s.rate) || !(stated >= mu * (1 - 0x1p-60L)) ||
            !(stated <= mu * (1 + sensitivity.above + 8 * kUlp)))
          continue;
        const std::uint64_t n = std::min<std::uint64_t>(line.count, wanted);
        line.count -= n;
        wanted -= static_cast<std::size_t>(n);
      }
      if (wanted != 0)
        check.Add("account.events",
                  fmt::format("too few releases with mu = {}", Text(static_cast<double>(mu))),
                  Text(r.rounds[i] * s.each), "and the noise, the sensitivity and the sampling make them");
    }
  }
  for (const Accountant::Line& line : left)
    if (line.count != 0)
      check.Add("account.events", Text(static_cast<std::size_t>(line.count)), "0",
                "releases that no noise of this certificate makes, which must be");
  check.Within("account.epsilon", s.account_epsilon, epsilon.upper, 1e-12L, 1e-12L, "and its events make it");
  if (s.account_lower > s.account_epsilon)
    check.Differ("account.epsilon_lower", s.account_lower, s.account_epsilon,
                 "above account.epsilon, which is");
}

// The ε of papers that state the noise: of one message, where every client adds its own; with a trusted
// server of all rounds, the sum (2C/σ) and the squared lengths (λC²/σ) accounted apart.
void CheckNoiseClaim(const Stated& s, Checks& check) {
  if (s.by_unit()) {
    if (s.split.size() != 3)
      return check.Differ("mechanism.split", s.split.size(), std::size_t{3}, "numbers, and a message has");
    return check.Within("privacy.claimed_epsilon", *s.claimed, s.split[0] + s.split[1] + s.split[2], 1e-12L,
                        1e-12L, "and mechanism.split makes it");
  }
  long double squared = 0;
  for (const StatedReleases& r : s.releases) {
    if (r.sigma.empty()) continue;
    const long double c = *s.claim_bound, sigma = r.sigma.front();
    const long double extra = s.square ? *s.square * c * c / sigma : 0;
    const long double each = 4 * c * c / (sigma * sigma) + extra * extra;
    squared = std::max(squared, s.trust == "central" ? each * static_cast<long double>(s.planned) : each);
  }
  if (squared == 0) return;  // a run without a round
  check.Within("privacy.claimed_epsilon", *s.claimed,
               ExactEpsilon(static_cast<double>(std::sqrt(squared)), s.delta), 1e-9L, 1e-9L,
               "and the paper's noise makes it");
}

// Lowy and Razaviyayn: σ = (16B/m)√(R ln(2.5R/δ) ln(2/δ))/ε on the mean of m gradients, R rounds.
void CheckIsrlClaim(const Stated& s, Checks& check) {
  long double claim = 0;
  const auto rounds = static_cast<long double>(s.planned), delta = static_cast<long double>(s.delta);
  for (const StatedReleases& r : s.releases)
    for (const double sigma : r.sigma)
      claim = std::max(claim, 16 * static_cast<long double>(*s.claim_bound) / sigma *
                                  std::sqrt(rounds * std::log(2.5L * rounds / delta) * std::log(2 / delta)));
  if (claim == 0) return;  // a run without a round
  check.Within("privacy.claimed_epsilon", *s.claimed, claim, 1e-9L, 1e-9L,
               "and the paper's calibration makes it");
}

// Half of how far apart two clients' terms can be, or how long one is; with squared lengths, by a search
// over both lengths. Whether an update was clipped is 0 or −κ.
long double TermBound(const Stated& s) {
  const long double c = s.clip.value_or(0);
  const long double step = s.indicator.value_or(0) / (s.adjacency == "replace-one" ? 2.0L : 1.0L);
  if (s.indicator) return std::sqrt(c * c + step * step);
  if (!s.square) return c;
  const long double x = *s.square * c;
  if (s.adjacency != "replace-one") return c * std::sqrt(1 + x * x);
  // The longer one is as long as can be: both terms grow with it. The other's length by a search, and at
  // the zero of the derivative.
  long double most = 1;
  const auto at = [&](long double b) {
    most = std::max(most, (1 + b) / 2 * std::sqrt(1 + x * x * (1 - b) * (1 - b)));
  };
  for (int i = 0; i <= 4096; ++i) at(i / 4096.0L);
  if (x * x > 2) at((1 - std::sqrt(1 - 2 / (x * x))) / 2);
  return c * most;
}

// Without a server: zCDP over all rounds, with 2c₁ for a sum of subgradients and 2c₁/(Mκ) for a minimiser;
// for dp-nfl the classic Gaussian mechanism and a composition theorem.
void CheckNetworkClaim(const Stated& s, Checks& check) {
  const auto rounds = static_cast<long double>(s.planned), delta = static_cast<long double>(s.delta);
  long double claim = 0;
  bool missed = false;
  for (std::size_t i = 0; i < s.releases.size(); ++i) {
    const StatedReleases& r = s.releases[i];
    missed = missed || r.away > 0;
    const long double moved = 2 * static_cast<long double>(*s.claim_bound) /
                              (s.argmin() ? static_cast<long double>(r.records) * r.curvature : 1.0L);
    if (s.algorithm != "dp-nfl") {
      Stated plain = s;
      plain.mechanism = "gaussian";
      plain.releases.clear();
      const long double rho = MuSquaredOf(plain, r, moved, s.charged()) / 2;
      claim = std::max(claim, rho + 2 * std::sqrt(rho * -std::log(delta)));
      continue;
    }
    if (r.sigma.empty()) continue;
    check.Same(fmt::format("releases[{}].sigma", i), r.sigma.size(), std::size_t{1},
               "values, and the composition theorems are for");
    const long double z = r.sigma.front() / moved;
    if (s.network->composition == "basic") {
      claim = std::max(claim, rounds * std::sqrt(2 * std::log(1.25L * rounds / delta)) / z);
    } else {
      const long double each = std::sqrt(2 * std::log(2.5L * rounds / delta)) / z;
      claim = std::max(claim,
                       each * std::sqrt(2 * rounds * std::log(2 / delta)) + rounds * each * std::expm1(each));
    }
  }
  if (claim == 0) return;  // a run without a round
  // Who missed rounds has spent less than is claimed.
  check.Within("privacy.claimed_epsilon", *s.claimed,
               missed ? std::max<long double>(claim, *s.claimed) : claim, 1e-9L, 1e-9L,
               "and the paper's calibration makes it");
}

// Lemma 4 of DPd-EF21: ρ = ε²/(4 ln 1/δ), with ρ = Σ (2B)²/(2σ_t²) of what was noised, so ε = 2√(ρ ln 1/δ).
void CheckFeedbackClaim(const Stated& s, Checks& check) {
  long double most = 0;
  for (const StatedReleases& r : s.releases) {
    Stated plain = s;
    plain.mechanism = "gaussian";
    plain.releases.clear();
    most = std::max(most, MuSquaredOf(plain, r, 2 * static_cast<long double>(*s.claim_bound), s.planned) / 2);
  }
  const long double claim = 2 * std::sqrt(most * -std::log(static_cast<long double>(s.delta)));
  // Of a run that was not made to its end not all noise is stated.
  if (s.charged() < s.planned - std::min(s.planned, s.skipped)) return;
  check.Within("privacy.claimed_epsilon", *s.claimed, claim, 1e-9L, 1e-9L,
               "and the paper's calibration makes it");
}

// (7) of DP-FCRN, solved for ε.
void CheckFcrnClaim(const Stated& s, Checks& check) {
  const StatedSamples& n = *s.samples;
  const auto wide = [](std::size_t v) { return static_cast<long double>(v); };
  for (const StatedReleases& r : s.releases) {
    if (r.sigma.size() != 1) {
      check.Differ("releases: sigma", r.sigma.size(), std::size_t{1}, "values, and (7) has");
      continue;
    }
    const long double g = static_cast<long double>(*s.claim_bound) + n.clip_hessian * n.diameter.value_or(0);
    const long double over =
        80 * wide(n.steps) * wide(s.charged()) * wide(n.sent) * std::log(1.25L / n.delta0) * g * g;
    const long double under =
        static_cast<long double>(r.sigma[0]) * r.sigma[0] * wide(n.least) * wide(n.least) * wide(s.dim);
    check.Within("privacy.claimed_epsilon", *s.claimed, std::sqrt(over / under), 1e-9L, 1e-9L,
                 "and the paper's calibration makes it");
  }
}

// The paper's ε: ρ + 2√(ρ ln 1/δ) with ρ = Σ (2B)²/(2σ_t²), which is what paper mode calibrates to.
void CheckClaim(const Stated& s, Checks& check) {
  if (!s.claimed || !s.claim_bound) {
    if (s.claimed.has_value() != s.claim_bound.has_value())
      check.Differ("privacy.claim_bound", s.claim_bound, s.claimed, "and privacy.claimed_epsilon is");
    if (s.claimed || (s.mode == "paper" && s.mechanism != "expose"))
      check.Differ("privacy.claimed_epsilon", s.claimed, s.claim_bound,
                   "and paper mode states a claim; its bound is");
    return;
  }
  if (s.mode == "certified") {
    check.Differ("privacy.claimed_epsilon", s.claimed, std::optional<double>(),
                 "and certified mode claims nothing beside what it proves:");
    return;
  }
  if (s.feedback) return CheckFeedbackClaim(s, check);
  if (s.by_client()) return CheckNoiseClaim(s, check);
  if (s.algorithm == "isrl-dp") return CheckIsrlClaim(s, check);
  if (s.network) return CheckNetworkClaim(s, check);
  if (s.samples) return CheckFcrnClaim(s, check);
  long double most = 0;
  for (const StatedReleases& r : s.releases) {
    Stated plain = s;
    plain.mechanism = "gaussian";
    plain.releases.clear();
    most =
        std::max(most, MuSquaredOf(plain, r, 2 * static_cast<long double>(*s.claim_bound), s.charged()) / 2);
  }
  const long double claim = most + 2 * std::sqrt(most * -std::log(static_cast<long double>(s.delta)));
  // A run that released nothing states no noise.
  const long double exact = s.charged() == 0 ? std::max<long double>(claim, *s.claimed) : claim;
  check.Within("privacy.claimed_epsilon", *s.claimed, exact, 1e-9L, 1e-9L,
               "and the paper's calibration makes it");
}

void CheckFigures(const Stated& s, Checks& check) {
  double mu = 0, epsilon = 0, sensitivity = 0;
  std::size_t clients = 0;
  for (const StatedReleases& r : s.releases) {
    mu = std::max(mu, r.mu);
    epsilon = std::max(epsilon, r.epsilon);
    sensitivity = std::max(sensitivity, r.sensitivity);
    clients += r.clients;
  }
  check.Same("privacy.mu", s.mu, mu, "and the largest of its releases is");
  check.Same("privacy.certified_epsilon", s.epsilon, epsilon, "and the largest of its releases is");
  const double exact = s.account ? epsilon : ExactEpsilon(s.mu, s.delta);
  if (epsilon != exact)
    check.Same("privacy.certified_epsilon", s.epsilon, exact,
               fmt::format("and mu = {} at delta = {} is", Text(s.mu), s.delta));
  if (s.epsilon_lower > s.epsilon)
    check.Differ("privacy.certified_epsilon_lower", s.epsilon_lower, s.epsilon,
                 "above certified_epsilon, which is");
  check.Same("enforced.sensitivity", s.sensitivity, sensitivity, "and the largest of its releases is");
  check.Same("clients", s.clients, clients, "and its releases are of");
  const long double rho = static_cast<long double>(s.mu) * s.mu / 2;
  check.Within("privacy.zcdp_epsilon", s.zcdp,
               rho + 2 * std::sqrt(rho * -std::log(static_cast<long double>(s.delta))), 1e-15L, 1e-12L,
               "and mu makes it");
  if (s.square && s.indicator)
    check.Differ("enforced.indicator", s.indicator, std::optional<double>(),
                 "and beside enforced.square there can be");
  if (s.by_client()) {
    if (!s.clip || !s.record_bound)
      check.Differ("enforced.record_bound", s.record_bound, s.clip, "and a client's update is clipped to");
    else
      check.Within("enforced.record_bound", *s.record_bound, TermBound(s), 0x1p-60L, 1e-12L,
                   "and the clip and the squared length make it");
  } else if (s.clipped()) {
    check.Same("enforced.record_bound", s.record_bound, s.clip, "and a record's gradient is clipped to");
  } else if (s.clip) {
    check.Differ("enforced.clip", s.clip, std::optional<double>(), "and paper mode clips to");
  }
  if (s.done + s.skipped > s.planned || (!s.interrupted && s.done + s.skipped != s.planned))
    check.Add("rounds.planned", Text(s.planned), Text(s.done + s.skipped),
              s.interrupted ? "and was interrupted, but the rounds done and skipped are"
                            : "and was not interrupted, but the rounds done and skipped are");
  check.Same("mechanism.noise", std::string(s.noise == "none" ? "none" : "some"),
             std::string(s.mechanism == "expose" ? "none" : "some"), "and mechanism.name means");
  if (!s.per_client) return;
  check.Same("privacy.per_client_epsilon", s.per_client->size(), s.clients,
             "figures, and the number of clients is");
  std::map<double, std::size_t> stated, expected;
  for (const double e : *s.per_client) ++stated[e];
  for (const StatedReleases& r : s.releases) expected[r.epsilon] += r.clients;
  for (const auto& [e, n] : expected)
    if (stated[e] != n)
      check.Add("privacy.per_client_epsilon", fmt::format("{} times {}", Text(e), stated[e]), Text(n),
                "and the clients with these releases are");
}

// The randomizer that the config and the dimension make, and its events, to the bit.
void CheckUnitsByConfig(const Stated& s, const Config& c, Checks& check) {
  std::optional<std::string> made;
  if (s.mode == "paper") {
    made = StatedEvents(s, c.privacy.cap == "printed");
  } else {
    const auto randomizer = CalibrateRandomizer(
        Epsilon::Proven(c.privacy.epsilon), Delta::Proven(c.privacy.delta), s.account->adjacency(), s.planned,
        s.dim, L2Bound::Proven(c.privacy.clip), c.privacy.length_share);
    if (randomizer.ok())
      if (const auto account = AccountOf(*randomizer, s.account->adjacency(), s.planned); account.ok())
        made = WriteEvents(*account, Delta::Proven(s.delta));
  }
  const std::string stated = WriteEvents(*s.account, Delta::Proven(s.delta));
  if (made != stated)
    check.Add("account.events", Text(Sha256::Hex(stated)), made ? Text(Sha256::Hex(*made)) : "none",
              "as their hash, and what config.toml makes has");
}

// Whether the other files of the folder say the same.
// False: which rounds its plan skips could not be found out.
bool CheckConfig(const Stated& s, const std::string& text, const fs::path& folder, Checks& check) {
  const auto config = ParseConfig(text, "config.toml", {});
  if (!config.ok()) {
    check.Add("config.toml", "a config", "none", config.error().message + "; it is");
    return true;
  }
  const Config& c = *config;
  const char* why = "and config.toml says";
  check.Same("config.sha256", s.config_sha256, Sha256::Hex(text), "and config.toml has");
  check.Same("algorithm", s.algorithm, c.algorithm.name, why);
  check.Same("mode", s.mode, c.algorithm.mode, why);
  // Skipped rounds are those that a plan has no noise for, not those that a run was stopped before.
  bool planned = true;
  if (c.algorithm.allocation != "dynamic" && c.algorithm.allocation != "late") {
    check.Same("rounds.skipped", s.skipped, std::size_t{0}, "and with this allocation none is:");
  } else {
    Config here = c;  // the graph as the run kept it, wherever its file is now
    if (s.network && c.network.topology == "file") here.network.file = (folder / "graph.txt").string();
    const auto facts = FactsWithoutData(here);
    const auto plan = facts.ok() ? MakePlan(here, *facts) : Result<Plan>(facts.error());
    planned = plan.ok() || s.skipped == 0;
    if (plan.ok()) {
      check.Same("rounds.skipped", s.skipped, plan->skipped, "and the plan of config.toml has");
      const auto who = Absences::Of(here, s.clients, s.planned);
      if (s.network && s.skipped != 0 && s.skipped == plan->skipped && who.ok())
        CheckMissed(
            s, *who, plan->schedule.size(), [&](std::size_t i) { return plan->schedule[i].round; }, check);
    }
  }
  check.Same("privacy.unit", s.unit, c.privacy.unit, why);
  if (s.person()) {
    check.Same("privacy.person_bound", s.person_bound, c.privacy.person_bound, why);
    check.Same("privacy.records_per_person", s.records_per_person, c.data.records_per_person, why);
  }
  check.Same("privacy.adjacency", s.adjacency, c.privacy.adjacency, why);
  check.Same("privacy.delta", s.delta, c.privacy.delta, why);
  check.Same("mechanism.name", s.mechanism, c.privacy.mechanism, why);
  if (s.mechanism != "expose") check.Same("mechanism.noise", s.noise, c.privacy.noise, why);
  check.Same("rounds.planned", s.planned, c.algorithm.rounds, why);
  check.Same("privacy.sampling.kind", s.sampling, c.algorithm.sampling, why);
  check.Same("privacy.weights", std::string(s.most_records != 0 ? "records" : "uniform"), c.algorithm.weights,
             why);
  if (s.in_public())
    check.Same("privacy.sampling.participations", s.turns,
               c.algorithm.participations == 0 ? s.planned : std::min(s.planned, c.algorithm.participations),
               why);
  if (s.sampling == "poisson") check.Same("privacy.sampling.rate", s.rate, c.algorithm.sample_rate, why);
  if (s.sampling == "fixed")
    check.Same("privacy.sampling.clients", s.sample, c.algorithm.sample_clients, why);
  if (s.clipped()) check.Same("enforced.clip", s.clip, std::optional<double>(c.privacy.clip), why);
  if (s.mode != "certified" && s.claimed)
    check.Same("privacy.claim_bound", s.claim_bound, std::optional<double>(c.privacy.clip), why);
  if (s.network) {
    const StatedNetwork& n = *s.network;
    check.Same("network.topology", n.topology, c.network.topology, why);
    check.Same("network.output", n.output, c.algorithm.output, why);
    if (s.algorithm == "dp-nfl")
      check.Same("network.composition", n.composition, c.algorithm.composition, why);
    if (n.away != c.network.away || n.leave != c.network.leave)
      check.Add("network.away, network.leave", fmt::format("{} absences", n.away.size() + n.leave.size()),
                fmt::format("{} or others", c.network.away.size() + c.network.leave.size()), why);
    if (s.algorithm != "zcdp-grad-nfl") check.Same("network.rho", n.rho, c.algorithm.rho, why);
    for (std::size_t i = 0; s.argmin() && i < s.releases.size(); ++i)
      check.Within(
          fmt::format("releases[{}].curvature", i), s.releases[i].curvature,
          2 * static_cast<long double>(c.algorithm.rho) * static_cast<long double>(s.releases[i].degree) +
              c.model.l2,
          4 * kUlp, 4 * kUlp, "and config.toml makes it");
    if (c.network.topology != "file" && s.clients <= std::size_t{1} << 22) {
      const auto graph = NetworkGraph(c, s.clients);
      check.Same("network.graph_sha256", n.sha256, graph.ok() ? Sha256::Hex(EdgeList(*graph)) : "none",
                 "and config.toml makes it");
    }
  }
  if (s.feedback) {
    const StatedFeedback& f = *s.feedback;
    if (f.design == "clip21") check.Same("feedback.state", f.state, c.algorithm.state, why);
    if (!f.schedule.empty()) check.Same("feedback.schedule", f.schedule, c.algorithm.schedule, why);
    if (f.radius_ratio) {
      check.Same("feedback.radius_ratio", *f.radius_ratio, c.algorithm.radius_ratio, why);
      check.Same("feedback.radius_rule", f.radius_rule, c.algorithm.radius_rule, why);
    }
    check.Same("feedback.sampled_records", f.sampled,
               f.design == "mirrored" && s.unit == "record" ? c.algorithm.batch : 0, why);
    if (const auto compressor = ParseCompressor(c.algorithm.compressor); !f.compressor.empty())
      check.Same("feedback.compressor", f.compressor, compressor.ok() ? compressor->text() : "none", why);
  }
  check.Same("second_order", std::string(s.samples ? "given" : "none"),
             std::string(OnRecordSamples(c.algorithm.name) ? "given" : "none"), why);
  if (s.samples && OnRecordSamples(c.algorithm.name)) {
    const StatedSamples& n = *s.samples;
    const bool paper = c.algorithm.mode == "paper";
    check.Same("second_order.design", n.design,
               c.algorithm.name == "dp-fed-sgd" ? "gradient"
               : paper                          ? "full"
                                                : c.algorithm.design,
               why);
    check.Same("second_order.record_sampling", n.sampling, c.algorithm.record_sampling, why);
    check.Same("second_order.sample_records", n.sample, c.algorithm.sample_records, why);
    check.Same("second_order.sent", n.sent,
               c.algorithm.coordinates == 0 ? s.dim : std::min(s.dim, c.algorithm.coordinates), why);
    if (n.solver() && (!paper || c.algorithm.solver_steps != 0))
      check.Same("second_order.solver_steps", n.steps, c.algorithm.solver_steps, why);
    check.Same("second_order.clip_hessian", n.clip_hessian,
               n.design == "gradient" || (n.design == "full" && !paper) ? 0.0 : c.privacy.clip_hessian, why);
    if (paper) check.Same("second_order.delta0", n.delta0, c.algorithm.delta0, why);
    if (c.model.penalty == "box" && n.diameter)
      check.Within(
          "second_order.diameter", *n.diameter,
          2 * static_cast<long double>(c.model.radius) * std::sqrt(static_cast<long double>(n.coordinates)),
          1e-12L, 1e-12L, "and config.toml makes it");
    else if (paper)
      check.Add("second_order.diameter", "none", "a number", "and the box of config.toml makes it");
  }
  if (c.model.weight_rule == "data" && s.done > 0)
    check.Same("privacy.certified_epsilon", s.epsilon, kInf, "and a penalty from private data has");
  double asked = c.privacy.epsilon;
  if (!c.privacy.budgets.empty())
    asked = *std::max_element(c.privacy.budgets.begin(), c.privacy.budgets.end());
  check.Same("privacy.trust", s.by_client() ? s.trust : "local", c.privacy.trust, why);
  if (s.masks) {
    check.Same("privacy.masked.survivors", s.masks->survivors,
               c.privacy.survivors != 0 ? c.privacy.survivors : s.clients, why);
    check.Same("privacy.masked.colluding", s.masks->colluding, c.privacy.colluding, why);
  }
  std::optional<double> indicator;
  if (c.algorithm.clip_quantile > 0)
    indicator = (c.privacy.adjacency == "replace-one" ? 2 : 1) * c.privacy.clip *
                std::sqrt(c.algorithm.clip_share / (1 - c.algorithm.clip_share));
  check.Same("enforced.indicator", s.indicator, indicator, why);
  std::optional<double> square;
  if (s.by_client() && c.algorithm.name == "fedexp" && c.privacy.trust != "local" && !s.by_unit()) {
    const bool stated = c.algorithm.mode != "certified" && c.privacy.mechanism != "expose";
    square = stated ? static_cast<double>(s.clients) /
                          (static_cast<double>(s.dim) * c.algorithm.noise_multiplier * c.privacy.clip)
                    : FreeSquare(L2Bound::Proven(c.privacy.clip));
  }
  if (square.has_value() != s.square.has_value())
    check.Differ("enforced.square", s.square, square, why);
  else if (square)
    check.Within("enforced.square", *s.square, *square, 1e-12L, 1e-12L, "and config.toml makes it");
  if (s.by_unit() && s.account) CheckUnitsByConfig(s, c, check);
  // With clients as the unit papers state the noise, and the claim follows from it.
  if (s.by_unit() && s.split != c.privacy.split)
    check.Add("mechanism.split", fmt::format("{} numbers", s.split.size()),
              fmt::format("{} or others", c.privacy.split.size()), why);
  if (s.by_client() && s.mode != "certified" && s.mechanism != "expose" && !s.by_unit() && !s.feedback)
    for (std::size_t i = 0; i < s.releases.size(); ++i)
      for (const double sigma : s.releases[i].sigma)
        check.Within(fmt::format("releases[{}].sigma", i), sigma,
                     static_cast<long double>(c.algorithm.noise_multiplier) * c.privacy.clip, 1e-12L, 1e-12L,
                     "and the noise multiplier of config.toml makes it");
  if (s.claimed && (!s.by_client() || s.feedback))
    check.Same("privacy.claimed_epsilon", s.claimed, std::optional<double>(asked), why);
  if (s.mode != "certified" || s.mechanism == "expose") return planned;
  if (s.epsilon > asked)
    check.Differ("privacy.certified_epsilon", s.epsilon, asked, "and config.toml allows no more than");
  check.Same("privacy.per_client_epsilon", s.per_client ? s.per_client->size() : 0, c.privacy.budgets.size(),
             "figures, and the number of budgets in config.toml is");
  for (std::size_t i = 0; s.per_client && i < std::min(s.per_client->size(), c.privacy.budgets.size()); ++i)
    if ((*s.per_client)[i] > c.privacy.budgets[i])
      check.Differ(fmt::format("privacy.per_client_epsilon[{}]", i), (*s.per_client)[i], c.privacy.budgets[i],
                   "and config.toml allows that client no more than");
  return planned;
}

void CheckModel(const Stated& s, const std::string& bytes, Checks& check) {
  check.Same("model.sha256", s.model_sha256, Sha256::Hex(bytes), "and model.npy has");
  const auto model = ParseNpy(bytes, "model.npy");
  if (!model.ok()) return check.Add("model.npy", "a model", "none", model.error().message + "; it is");
  check.Same("model.dimension", s.dim, model->values.size(), "and model.npy holds");
}

void CheckLedger(const Stated& s, const std::vector<LedgerRecord>& records, Checks& check) {
  const auto at = std::find_if(records.begin(), records.end(), [&](const auto& r) { return r.run == s.run; });
  if (at == records.end()) return check.Add("run", Text(s.run), "none", "and in ledger.db there is");
  const char* why = "and ledger.db says";
  if (s.by_client()) {
    if (!at->unit.starts_with(fmt::format("client ({}; ", s.trust)))
      check.Add("privacy.unit", fmt::format("client ({})", s.trust), Text(at->unit), why);
  } else {
    check.Same("privacy.unit", UnitText(s.unit, s.person_bound, s.records_per_person), at->unit, why);
  }
  check.Same("privacy.adjacency", s.adjacency, at->adjacency, why);
  check.Same("mode", s.mode, at->mode, why);
  check.Same("privacy.delta", s.delta, at->delta, why);
  check.Same(s.peer ? "clients that pay from this ledger" : "clients", s.peer ? 1 : s.clients,
             at->spent.size(), why);
  if (at->state != "settled")
    check.Add("run", Text(s.run), Text(at->state),
              "but a certificate is written when it is settled; in ledger.db it is");
  const std::string plan = s.account ? WriteEvents(*s.account, Delta::Proven(s.delta)) : "";
  check.Same("account", Sha256::Hex(plan), Sha256::Hex(at->plan),
             "as the hash of its events, and ledger.db holds");
  if (s.account) check.Same("account.epsilon", s.account_epsilon, at->plan_epsilon, why);
  double spent = 0;
  for (const double x : at->spent) spent = std::max(spent, x);
  // What was charged is at most what is stated, and, where nothing was left over, what was stated was
  // charged.
  const double charged = SqrtUp(spent);
  if (!(charged <= s.mu)) check.Differ("privacy.mu", s.mu, charged, "and ledger.db was charged");
  for (std::size_t i = 0; s.per_client && i < at->spent.size(); ++i) {
    const std::size_t who = s.peer.value_or(i);
    if (who >= s.per_client->size()) break;
    const double exact = ExactEpsilon(SqrtUp(std::max(0.0, at->spent[i])), s.delta);
    if (!(exact <= (*s.per_client)[who]))
      check.Differ(fmt::format("privacy.per_client_epsilon[{}]", who), (*s.per_client)[who], exact,
                   "and ledger.db was charged for");
  }
  // The certificate of a run that was stopped states more.
  const bool less = s.peer && s.releases.size() > 1;  // another peer may have spent the most
  if (!s.interrupted && !less && charged < s.mu * (1 - 1e-12))
    check.Differ("privacy.mu", s.mu, charged, "more than rounding explains, and ledger.db was charged");
}

// "3,17,0.25": numbers and nothing else.
template <class... T>
bool ParseLine(std::string_view line, T&... fields) {
  const char *at = line.data(), *end = at + line.size();
  bool ok = true, first = true;
  const auto one = [&](auto& field) {
    ok = ok && (first || (at != end && *at == ','));
    if (!ok) return;
    if (!std::exchange(first, false)) ++at;
    const auto [next, error] = std::from_chars(at, end, field);
    ok = error == std::errc{};
    at = next;
  };
  (one(fields), ...);
  return ok && at == end;
}

constexpr std::size_t kMostClients = std::size_t{1} << 28;  // more were not written here

// Whether the clients' weights are those of their numbers of records, and these add up.
void CheckWeightsFile(const Stated& s, const std::string& text, Checks& check) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  std::size_t clients = 0, rows = 0, largest = 0;
  double total = 0;
  for (std::size_t number = 2; std::getline(lines, line); ++number) {
    const std::string at = fmt::format("weights.csv line {}", number);
    std::size_t n = 0, records = 0;
    double weight = 0;
    if (!ParseLine(line, n, records, weight) || n == 0 || n > s.clients - clients ||
        records > s.most_records || s.clients > kMostClients)
      return check.Add(at, "no clients", "clients", "which must be");
    check.Same(at + ": weight", weight, static_cast<double>(records) / static_cast<double>(s.most_records),
               "and its records make it");
    clients += n, rows += n * records, largest = std::max(largest, records);
    for (std::size_t i = 0; i < n; ++i) total += weight;
  }
  check.Same("weights.csv: clients", clients, s.clients, "and the certificate is of");
  check.Same("weights.csv: records", rows, s.rows, "and data.rows is");
  check.Same("privacy.weights.most_records", s.most_records, largest, "and weights.csv says");
  check.Same("privacy.weights.total", s.weight, total, "and weights.csv makes it");
}

// Samples that everybody may see: who took part how often, drawn again from the config's seed, and what
// each has paid. False: so many draws that they were not made again.
bool CheckParticipation(const Stated& s, const std::string& config_text, const fs::path& ledger,
                        const std::string& text, Checks& check) {
  constexpr double kMostDraws = 1e9;
  const auto config = ParseConfig(config_text, "config.toml", {});
  const auto records = SqliteVault::Read(ledger);
  if (!config.ok() || !records.ok()) return false;  // said elsewhere
  const auto at =
      std::find_if(records->begin(), records->end(), [&](const auto& r) { return r.run == s.run; });
  if (at == records->end() || at->spent.size() != s.clients) return false;
  const bool again = static_cast<double>(s.clients) * static_cast<double>(s.done) <= kMostDraws &&
                     s.clients < std::size_t{1} << 32;
  std::vector<std::size_t> drawn(s.clients);
  if (again) {
    const Sampling sampling{.kind = s.sampling == "poisson" ? SampleKind::kPoisson : SampleKind::kFixed,
                            .rate = Probability::Proven(s.rate),
                            .size = static_cast<std::uint32_t>(std::min(s.sample, s.clients))};
    std::vector<std::uint32_t> sample;
    for (std::uint32_t t = 1; t <= s.done; ++t) {
      DrawSample(sampling, static_cast<std::uint32_t>(s.clients),
                 Stream({config->experiment.seed, Purpose::kCohort, 0, t}), sample);
      for (const std::uint32_t i : sample)
        if (drawn[i] < s.turns) ++drawn[i];
    }
  }
  std::set<double> of_plan;  // ε of all turns, which a run that was stopped states
  std::size_t turns = 0, most = 0;
  for (const StatedReleases& r : s.releases) of_plan.insert(r.epsilon), turns = std::max(turns, r.turns);
  std::map<double, double> known;  // ε by μ²
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  std::size_t i = 0;
  for (; std::getline(lines, line); ++i) {
    std::size_t client = 0, rounds = 0;
    double epsilon = 0;
    if (i >= s.clients || !ParseLine(line, client, rounds, epsilon) || client != i || rounds > s.turns) {
      check.Add(fmt::format("participation.csv line {}", i + 2), "no client", "a client", "which must be");
      return again;
    }
    most = std::max(most, rounds);
    if (again)
      check.Same(fmt::format("participation.csv: rounds of client {}", i), rounds, drawn[i],
                 "and the seed and the sampling make it");
    const auto [of, fresh] = known.try_emplace(at->spent[i], 0.0);
    if (fresh) of->second = ExactEpsilon(SqrtUp(std::max(0.0, at->spent[i])), s.delta);
    const bool whole = s.interrupted && s.done > 0;
    if (whole ? !of_plan.contains(epsilon) || epsilon < of->second : epsilon != of->second)
      check.Differ(fmt::format("participation.csv: epsilon of client {}", i), epsilon,
                   whole ? *of_plan.rbegin() : of->second,
                   whole ? "and a run that was stopped counts all turns:" : "and ledger.db was charged");
  }
  check.Same("participation.csv: clients", i, s.clients, "and the certificate is of");
  if (!s.interrupted) check.Same("participation.csv: most rounds", most, turns, "and the certificate says");
  return again;
}

// Traced rounds: ε never falls, never passes the certificate's and is never below what the noise made it.
void CheckTrace(const Stated& s, const std::string& text, Checks& check) {
  const StatedReleases* lead = &s.releases.front();
  for (const StatedReleases& r : s.releases)
    if (lead->away > 0 ? r.away == 0 || r.mu > lead->mu : r.away == 0 && r.mu > lead->mu) lead = &r;
  std::vector<std::size_t> ends;  // of the runs of equal σ
  std::size_t total = 0;
  for (const std::size_t n : lead->rounds) ends.push_back(total += std::min<std::size_t>(n, s.done));
  std::istringstream lines(text);
  std::vector<std::pair<std::size_t, double>> points;
  std::set<std::string> said;  // the first line of a kind is enough
  const auto once = [&](const char* kind) { return said.insert(kind).second; };
  double last = 0;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string at = fmt::format("trace.jsonl line {}", ++number);
    const json j = json::parse(line, nullptr, false);
    const auto figure = [&](const char* key) {
      return j.is_object() && j.contains(key) ? NumberOf(j[key]) : std::nullopt;
    };
    const auto round = figure("round"), epsilon = figure("epsilon"), sigma = figure("sigma");
    if (!round || !epsilon || !sigma || !(*round >= 1 && *round <= kWhole))
      return check.Add(at, "no round", "a round", "which must be");
    for (const char* key : {"answered", "missed"})
      if (s.secret && j.contains(key) && once(key))
        check.Add(fmt::format("{}: {}", at, key), Shown(j[key]), "nothing",
                  "but how many took part is secret; it must say");
    if (*epsilon < last && once("falls"))
      check.Differ(at + ": epsilon", *epsilon, last, "below the line before, which is");
    last = *epsilon;
    if (*epsilon > s.epsilon && once("above"))
      check.Differ(at + ": epsilon", *epsilon, s.epsilon, "and the certificate only");
    // Where rounds were skipped, the number of a round does not say how many were made before it.
    const auto k = static_cast<std::size_t>(*round);
    if (s.skipped != 0 || s.mechanism == "expose" || lead->away > 0) continue;
    if (k > s.done) {
      if (once("round")) check.Differ(at + ": round", k, s.done, "and the certificate covers");
      continue;
    }
    const auto run = static_cast<std::size_t>(std::lower_bound(ends.begin(), ends.end(), k) - ends.begin());
    const bool of_another =  // several groups of peers have a noise each
        s.network && std::any_of(s.releases.begin(), s.releases.end(), [&](const StatedReleases& r) {
          return std::find(r.sigma.begin(), r.sigma.end(), *sigma) != r.sigma.end();
        });
    if (run < lead->sigma.size() && *sigma != lead->sigma[run] && !of_another && once("sigma"))
      check.Differ(at + ": sigma", *sigma, lead->sigma[run], "and the certificate");
    points.emplace_back(k, *epsilon);
  }
  if (s.record_bound && s.mechanism != "expose" && !s.account && !s.in_public()) {
    const std::size_t step = points.size() / 200 + 1;  // each costs an inversion of the curve
    const long double least = (s.adjacency == "replace-one" ? 2 : 1) * static_cast<long double>(s.terms()) *
                              lead->bound.value_or(*s.record_bound);
    for (std::size_t i = 0; i < points.size(); i += step) {
      const auto mu =
          static_cast<double>(std::sqrt(MuSquaredOf(s, *lead, least, points[i].first)) * (1 - 1e-12L));
      const double exact = GdpEpsilon(Mu::Proven(mu), Delta::Proven(s.delta)).lower;
      if (points[i].second < exact && once("below"))
        check.Differ(fmt::format("trace.jsonl: epsilon after round {}", points[i].first), points[i].second,
                     exact, "and the noise until then makes it");
    }
  }
  if (!s.interrupted && s.done > 0)
    check.Same("privacy.certified_epsilon", s.epsilon, last, "and the last line of trace.jsonl is");
}

// The certificate of another run of a search, in its folder beside this one. False: it is not there.
bool CheckSibling(const Stated& s, const fs::path& parent, const std::string& run, double mu,
                  const std::string& sha256, const std::string& at, Checks& check) {
  const fs::path name(run);
  if (run.empty() || name.filename() != name || run == "." || run == "..") {  // stays beside this one
    check.Add(at + "run", Text(run), "a name", "and it must be the folder of a run:");
    return true;
  }
  std::error_code ec;
  const fs::path file = parent / name / "certificate.json";
  if (!fs::exists(file, ec)) return false;
  const auto bytes = ReadWhole(file, "the certificate of a run of the search");
  if (!bytes.ok()) return false;
  check.Same(at + "certificate_sha256", sha256, Sha256::Hex(*bytes), "and " + run + "/certificate.json has");
  const auto parsed = ParseCertificate(*bytes, run);
  const auto other = parsed.ok() ? ReadStated(*parsed, run) : Result<Stated>(parsed.error());
  const auto recomputed = parsed.ok() ? Verify(*parsed, run) : Result<Verification>(parsed.error());
  if (!other.ok() || !recomputed.ok()) {
    check.Add(at + "run", Text(run), "none",
              (other.ok() ? recomputed.error() : other.error()).message + "; certificates there:");
    return true;
  }
  const std::string why = "and " + run + "/certificate.json says";
  check.Same(at + "run", run, other->run, why);
  check.Same(at + "mu", mu, other->mu, why);
  check.Same(at + "unit", s.unit + " " + s.adjacency, other->unit + " " + other->adjacency, why);
  check.Same(at + "delta", s.delta, other->delta, why);
  if (!recomputed->holds())
    check.Add(at + "run", Text(run), "none",
              recomputed->findings.front().sentence + "; certificates that hold:");
  return true;
}

// A search whose choice this run is: what all its runs cost together. How many of the other runs'
// certificates are not beside it.
std::size_t CheckSearch(const Stated& s, const std::string& text, const std::string& certificate_sha256,
                        const fs::path& parent, Checks& check) {
  const json j = json::parse(text, nullptr, false);
  Fields f(j, "search.json");
  if (!j.is_object() || j.value("format", json()) != "tacit-search-1")
    return check.Add("search.json", "a search", "none", "and it must be of the format tacit-search-1; it is"),
           0;
  const std::string chosen = f.String("chosen");
  const std::size_t planned = f.Count("planned", 1);
  const double mu = f.Figure("privacy.mu", 0, false), delta = f.Figure("privacy.delta", 0, false),
               epsilon = f.Figure("privacy.certified_epsilon", 0, false),
               asked = f.Figure("privacy.asked_epsilon", 0, false);
  const json* list = f.List("candidates");
  long double squared = 0;
  bool listed = false;
  std::set<std::string> runs_seen;
  std::size_t unchecked = 0;
  for (std::size_t k = 0; list != nullptr && k < list->size() && !f.error(); ++k) {
    const std::string at = fmt::format("candidates[{}].", k);
    const double one = f.Figure(at + "mu", 0, false);
    squared += static_cast<long double>(one) * one;
    const std::string run = f.String(at + "run"), sha256 = f.String(at + "certificate_sha256");
    if (f.error()) break;
    if (!runs_seen.insert(run).second)
      check.Add("search.json: " + at + "run", Text(run), "one", "and of each run there is");
    if (run != s.run) {
      if (!CheckSibling(s, parent, run, one, sha256, "search.json: " + at, check)) ++unchecked;
      continue;
    }
    listed = true;
    check.Same("search.json: " + at + "mu", one, s.mu, "and the certificate of that run says");
    check.Same("search.json: " + at + "certificate_sha256", sha256, certificate_sha256,
               "and certificate.json has");
  }
  if (f.error()) return check.Add("search.json", "complete", "incomplete", f.error()->message + "; it is"), 0;
  const auto runs = static_cast<long double>(list->size());
  check.Same("search.json: candidates", list->size(), planned, "and the search had");
  check.Same("search.json: chosen", chosen, s.run, "and this is the run");
  if (!listed) check.Add("search.json: candidates", "others", Text(s.run), "and this run is");
  check.Same("search.json: privacy.delta", delta, s.delta, "and the certificate says");
  check.Within("search.json: privacy.mu", mu, std::sqrt(squared), 0x1p-60L, (runs + 8) * kUlp,
               "and its runs make it");
  check.Same("search.json: privacy.certified_epsilon", epsilon, ExactEpsilon(mu, s.delta),
             "and its mu makes it");
  if (!(epsilon <= asked))
    check.Differ("search.json: privacy.certified_epsilon", epsilon, asked, "and what was asked for is");
  return unchecked;
}

Verification Begin(const Stated& s) {
  Verification v{.run = s.run,
                 .mode = s.mode,
                 .unit = s.unit,
                 .adjacency = s.adjacency,
                 .mechanism = s.mechanism,
                 .delta = s.delta,
                 .claimed = s.claimed ? Text(s.claimed) : "",
                 .rounds = s.done,
                 .session = {},
                 .compared = {},
                 .findings = {}};
  for (const StatedReleases& r : s.releases) {
    const auto sensitivity = SensitivityOf(s, r).exact;
    const std::size_t paid = s.in_public() ? std::min(r.turns, s.charged()) : s.charged();
    const long double squared =
        s.done == 0 || (s.network && r.away >= s.charged())
            ? 0.0L
            : (s.mechanism == "expose" || std::isinf(sensitivity) ? static_cast<long double>(kInf)
                                                                  : MuSquaredOf(s, r, sensitivity, paid));
    v.mu = std::max(v.mu, static_cast<double>(std::sqrt(squared + r.beyond)));
  }
  v.epsilon = ExactEpsilon(v.mu, s.delta);
  if (s.account) v.mu = kInf;
  return v;
}

}  // namespace

Result<std::string> ReadWhole(const fs::path& file, const char* what) {
  std::error_code ec;
  if (fs::is_directory(file, ec))
    return Fail(Code::kNotFound, "{}: is a folder, not {}", file.string(), what);
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    if (fs::exists(file, ec))
      return Fail(Code::kIo, "{}: cannot be read; check its permissions", file.string());
    return Fail(Code::kNotFound, "{}: no such file; give {}", file.string(), what);
  }
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Result<json> ParseCertificate(std::string_view bytes, const std::string& name) {
  if (bytes.size() > kLargestFile)
    return Fail(Code::kMalformed, "{}: holds {} bytes, more than any certificate; give a certificate.json",
                name, bytes.size());
  // Of two fields with one name a reader may see the one and a program the other.
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto seen = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  try {
    json document = json::parse(bytes, seen);
    if (!twice.empty())
      return Fail(Code::kMalformed,
                  "{}: has the field \"{}\" twice in one object; give the file as it was written", name,
                  twice);
    return document;
  } catch (const json::exception& e) {
    std::string_view why = e.what();
    if (const auto end = why.find("] "); end != std::string_view::npos) why.remove_prefix(end + 2);
    return Fail(Code::kMalformed, "{}: is not JSON ({}); give a certificate.json that `tacit train` wrote",
                name, why);
  }
}

Result<Verification> Verify(const json& certificate, const std::string& name) {
  if (IsSession(certificate)) return VerifySession(certificate, name);
  TACIT_TRY(const Stated s, ReadStated(certificate, name));
  Verification v = Begin(s);
  Checks check(v);
  Bracket of_plan;
  if (s.account) {
    TACIT_TRY(of_plan, s.account->EpsilonAt(Delta::Proven(s.delta)));
    v.epsilon = of_plan.upper;
  }
  CheckAccount(s, of_plan, check);
  CheckWeights(s, check);
  CheckReleases(s, check);
  CheckNetwork(s, check);
  CheckFeedback(s, check);
  CheckFigures(s, check);
  CheckClaim(s, check);
  v.compared = {"every figure of " + name};
  return v;
}

Result<Verification> VerifyFolder(const fs::path& folder) {
  const fs::path file = folder / "certificate.json";
  if (std::error_code none; !fs::exists(file, none) && IsSessionFolder(folder))
    return VerifySessionFolder(folder);
  TACIT_TRY(const std::string bytes, ReadWhole(file, "a certificate.json that `tacit train` wrote"));
  TACIT_TRY(const json certificate, ParseCertificate(bytes, file.string()));
  TACIT_TRY(Verification v, Verify(certificate, file.string()));
  TACIT_TRY(const Stated s, ReadStated(certificate, file.string()));
  Checks check(v);
  const auto with = [&](const char* name, auto&& compare) {
    const auto text = ReadWhole(folder / name, "the run folder with all its files");
    if (!text.ok()) return check.Add(name, "part of the run", "missing", text.error().message + "; it is");
    v.compared.emplace_back(name);
    compare(*text);
  };
  with("config.toml", [&](const std::string& text) {
    if (!CheckConfig(s, text, folder, check))
      v.compared.back() +=
          " (unchecked: which rounds were skipped; config.toml lacks data.rows or data.features)";
  });
  with("model.npy", [&](const std::string& text) { CheckModel(s, text, check); });
  if (!s.peer) with("trace.jsonl", [&](const std::string& text) { CheckTrace(s, text, check); });
  with("certificate.txt", [&](const std::string& text) {
    // The sentences are strings wherever the figures above could be read; a stranger's file may lack one.
    std::string expected;
    try {
      expected = CertificateText(certificate);
    } catch (const json::exception&) {
      return check.Add("certificate.json", "incomplete", "complete", "and to be shown as text it must be");
    }
    check.Same("certificate.txt", Sha256::Hex(text), Sha256::Hex(expected),
               "and the text of certificate.json has the hash");
  });
  std::error_code ec;
  // A run that ends takes it away; a peer may keep it for neighbours that are behind.
  if (!s.interrupted && !s.peer && fs::exists(folder / "checkpoint", ec))
    check.Add("interrupted", "false", "true", "and there is a checkpoint, so it is");
  if (fs::exists(folder / "search.json", ec))
    with("search.json", [&](const std::string& text) {
      const fs::path here = fs::weakly_canonical(folder, ec);
      const std::size_t unchecked = CheckSearch(s, text, Sha256::Hex(bytes), here.parent_path(), check);
      if (unchecked > 0)
        v.compared.back() += fmt::format(
            " (unchecked: {} of its other runs, whose certificates are not in the folders beside this one)",
            unchecked);
    });
  if (s.most_records != 0)
    with("weights.csv", [&](const std::string& text) { CheckWeightsFile(s, text, check); });
  if (s.in_public()) {
    const auto config = ReadWhole(folder / "config.toml", "the config of the run");
    with("participation.csv", [&](const std::string& text) {
      if (!CheckParticipation(s, config.ok() ? *config : "", folder / "ledger.db", text, check))
        v.compared.back() += " (unchecked: who was drawn, over so many rounds)";
    });
  } else if (s.sampling != "full" && fs::exists(folder / "participation.csv", ec)) {
    check.Add("participation.csv", "who took part", "nothing", "but that is secret; it must say");
  }
  if (s.network) with("graph.txt", [&](const std::string& text) { CheckGraph(s, text, check); });
  with("ledger.db", [&](const std::string&) {
    const auto records = SqliteVault::Read(folder / "ledger.db");
    if (!records.ok()) return check.Add("ledger.db", "a ledger", "none", records.error().message + "; it is");
    CheckLedger(s, *records, check);
  });
  return v;
}

}  // namespace tacit
