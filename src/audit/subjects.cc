// What is audited: a config made small, and a list of all algorithms.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "audit/audit.h"
#include "experiment/second_order_plan.h"

namespace tacit {
namespace {

// A sample of so many among so many, in small whole numbers: at the same rate where there are such, and at
// no lower one than the given elsewhere, unless that is below 1 in kMost.
struct Few {
  std::size_t sample, among;
};
constexpr std::size_t kMost = 1000;
Few AtTheRateOf(std::size_t sample, std::size_t among) {
  if (sample == 0 || sample >= among) return {1, 1};
  const std::size_t by = std::gcd(sample, among);
  if (among / by <= 50) return {sample / by, among / by};
  return among < 2 * sample ? Few{1, 2} : Few{1, std::min(kMost, among / sample)};
}
std::string RateOf(std::size_t sample, double among) {
  return fmt::format("{:.3g}", std::min(1.0, static_cast<double>(sample) / among));
}

}  // namespace

std::size_t RecordsOfUnit(const Config& c) {
  if (c.privacy.unit != "person") return 1;
  return c.data.records_per_person != 0 ? c.data.records_per_person : 2;
}

Result<Config> ForAudit(const Config& given, std::size_t rounds, std::vector<std::string>& changes) {
  Config c = given;
  const auto data = c.data;
  c.data = Config{}.data;
  c.data.source = "synthetic-linear";
  c.data.row_norm = data.row_norm;
  c.data.row_bound = data.row_bound;
  c.data.positive = data.positive;
  const auto say = [&](const char* key, auto from, auto to) {
    if (from != to) changes.push_back(fmt::format("{} {} instead of {}", key, to, from));
  };
  auto& a = c.algorithm;
  const bool network =
      a.name == "zcdp-nfl" || a.name == "dp-nfl" || a.name == "zcdp-grad-nfl" || a.name == "p-admm";

  std::size_t clients = network ? 3 : 2, records = c.privacy.unit == "client" ? 1 : 2;
  const auto facts = FactsWithoutData(given);
  if (a.sampling == "fixed" && a.sample_clients != 0) {
    const Few few = AtTheRateOf(a.sample_clients, facts.ok() ? facts->clients : data.clients);
    if (facts.ok())
      say("rate of sampled clients", RateOf(a.sample_clients, static_cast<double>(facts->clients)),
          RateOf(few.sample, static_cast<double>(few.among)));
    clients = few.among;
    a.sample_clients = few.sample;
  }
  if (c.privacy.trust == "masked") {
    // Two who are honest, if there are, and one who is not, if there may be. Nobody beyond the fewest.
    const std::size_t minimum = c.privacy.survivors != 0 ? c.privacy.survivors
                                : facts.ok()             ? facts->clients
                                                         : data.clients;
    const std::size_t colluding = std::min<std::size_t>(1, c.privacy.colluding);
    say("clients that collude", c.privacy.colluding, colluding);
    clients = colluding + (minimum - std::min(minimum, c.privacy.colluding) == 1 ? 1 : 2);
    if (c.privacy.survivors != 0) changes.emplace_back("the fewest clients that a sum may have, and no more");
    c.privacy.survivors = 0;
    c.privacy.colluding = colluding;
  }
  const bool on_samples = (a.name == "fcrn" || a.name == "dp-fed-sgd") && a.record_sampling != "full";
  const bool batches = a.name == "dpd-ef21-2" && a.batch != 0 && c.privacy.unit != "client";
  if (on_samples || batches) {
    // Of how many records a client's sample is, where the config tells.
    const std::size_t sample = on_samples ? a.sample_records : a.batch;
    const double each = facts.ok() ? facts->mean_records() : 100.0;
    records = std::clamp<std::size_t>(static_cast<std::size_t>(each / static_cast<double>(sample)), 1, kMost);
    say("records of a sample", sample, std::size_t{1});
    say("rate of sampled records", RateOf(sample, each), RateOf(1, static_cast<double>(records)));
    (on_samples ? a.sample_records : a.batch) = 1;
  }
  if (c.privacy.adjacency == "add-remove") records = std::max<std::size_t>(records, 2);
  if (c.privacy.unit == "person") {  // two at every client, with as many records as they may have
    c.data.person_column = "person";
    c.data.records_per_person =
        data.records_per_person == 0 ? 0 : std::min<std::size_t>(data.records_per_person, 4);
    say("data.records_per_person", data.records_per_person, c.data.records_per_person);
    records = 2 * RecordsOfUnit(c);
  }
  c.data.clients = clients;
  c.data.rows = clients * records;
  c.data.features = 4;
  changes.push_back(fmt::format("{} clients with {} record{} of {} numbers, made up by the auditor", clients,
                                records, records == 1 ? "" : "s", c.data.features));
  if (c.model.name == "cnn" || c.model.name == "mlp") {
    say("model", c.model.name, std::string("mlp"));
    c.model.name = "mlp";
    c.model.hidden = {4};
  }
  if (c.model.classes > 3 || (c.model.classes == 0 && !given.data.source.empty())) c.model.classes = 3;
  if (c.model.name == "logistic" || c.model.name == "hinge" || c.model.name == "smoothed-hinge")
    c.model.classes = 0;
  c.model.weights.clear();
  c.model.group = 1;
  c.model.weight_rule = "given";
  if (!c.privacy.budgets.empty()) {
    c.privacy.epsilon = *std::max_element(c.privacy.budgets.begin(), c.privacy.budgets.end());
    c.privacy.budgets.clear();
    changes.push_back(fmt::format("ε = {} for all, the largest of the clients' budgets", c.privacy.epsilon));
  }
  if (a.name == "fcrn" && a.solver_steps == 0 && facts.ok()) {
    // (9) of the small problem would be hundreds of steps, where that of the given one is a few.
    TACIT_TRY(const Plan plan, MakePlan(given, *facts));
    a.solver_steps = std::max<std::size_t>(2, plan.second_order ? plan.second_order->options.steps : 0);
    changes.push_back(fmt::format(
        "{} steps of the solver, as many as the given problem has by (9) but at least 2", a.solver_steps));
  }
  c.privacy.noise = "replayable";
  say("rounds", a.rounds, std::min(a.rounds, rounds));
  a.rounds = std::min(a.rounds, rounds);
  a.coordinates = std::min<std::size_t>(a.coordinates, c.data.features);
  a.participations = std::min(a.participations, a.rounds);
  if (network && c.network.topology != "ring") say("topology", c.network.topology, std::string("ring"));
  if (!c.network.away.empty() || !c.network.leave.empty())
    changes.emplace_back("peers that are never away and never leave");
  c.network = {};
  c.runtime.threads = 1;
  c.experiment = {};
  c.experiment.seed = given.experiment.seed;
  c.experiment.trace_every = 1 << 30;
  c.file.clear();
  return c;
}

const std::vector<Subject>& Subjects() {
  // What a subject says of a key is said once: the usual value is left out then.
  const auto section = [](const char* name, std::vector<std::pair<const char*, const char*>> usual,
                          const std::string& own) {
    std::string text = fmt::format("[{}]\n{}\n", name, own);
    for (const auto& [key, value] : usual)
      if (("\n" + own).find(fmt::format("\n{} =", key)) == std::string::npos)
        text += fmt::format("{} = {}\n", key, value);
    return text;
  };
  const auto make = [&](const char* name, const char* data, const char* model, const char* privacy,
                        const char* algorithm) {
    return Subject{
        name,
        section("data",
                {{"source", "\"synthetic-linear\""}, {"rows", "12"}, {"features", "4"}, {"clients", "2"}},
                data) +
            section("model", {}, model) +
            section("privacy", {{"epsilon", "2.0"}, {"delta", "1e-5"}}, privacy) +
            section("algorithm", {{"rounds", "3"}}, algorithm)};
  };
  static const char* const kSquares = "name = \"least-squares\"\npenalty = \"box\"\nradius = 10.0\nl2 = 0.1";
  static const char* const kPlain = "name = \"least-squares\"\nl2 = 0.1";
  static const char* const kBounded = "row_norm = \"clip\"\nrow_bound = 1.0";
  // Samples of one of two records, so that few runs show much.
  static const char* const kPairs = "rows = 4\nrow_norm = \"clip\"\nrow_bound = 1.0";
  static const char* const kPersons = "person_column = \"person\"\nrecords_per_person = 3";
  static const char* const kClient = "unit = \"client\"";
  static const char* const kCentral = "unit = \"client\"\ntrust = \"central\"";
  // Of four clients three answer at least, and one of these may tell the server its noise.
  static const char* const kMasked =
      "unit = \"client\"\ntrust = \"masked\"\nmechanism = \"discrete_gaussian\"\nsurvivors = 3\ncolluding = "
      "1";
  static const char* const kUnit = "unit = \"client\"\nmechanism = \"priv-unit\"\nepsilon = 6.0";
  static const char* const kSplit = "unit = \"client\"\nmechanism = \"priv-unit\"\nsplit = [0.5, 0.5, 0.5]";
  static const std::vector<Subject> all = {
      make("primal-dual", "", kSquares, "", ""),
      make("primal-dual, zero-out", "", kSquares, "adjacency = \"zero-out\"", ""),
      make("primal-dual, add-remove", "", kSquares, "adjacency = \"add-remove\"", ""),
      make("primal-dual, float noise", "", kSquares, "mechanism = \"gaussian\"", ""),
      make("primal-dual, logistic", "", "penalty = \"box\"\nl2 = 0.1", "", ""),
      make("primal-dual, paper", kBounded, "name = \"huber\"\npenalty = \"box\"\nl2 = 0.1", "",
           "mode = \"paper\""),
      make("primal-dual, paper, logistic", kBounded, "penalty = \"box\"\nl2 = 0.1", "", "mode = \"paper\""),
      make("primal-dual, paper, squares", kBounded, kSquares, "", "mode = \"paper\""),
      make("primal-dual, persons", kPersons, kSquares, "unit = \"person\"\nperson_bound = \"records\"", ""),
      make("primal-dual, sums of persons", kPersons, kSquares, "unit = \"person\"\nperson_bound = \"sum\"",
           ""),
      make("isrl-dp", "", kSquares, "", "name = \"isrl-dp\""),
      make("isrl-dp, paper", kBounded, kSquares, "", "name = \"isrl-dp\"\nmode = \"paper\""),
      make("dp-fedavg, record", "", kPlain, "", "name = \"dp-fedavg\"\nlocal_steps = 2"),
      make("dp-fedavg, record, paper", "", kPlain, "",
           "name = \"dp-fedavg\"\nlocal_steps = 2\nmode = \"paper\""),
      make("dp-fedavg, local", "", kPlain, kClient, "name = \"dp-fedavg\""),
      make("dp-fedavg, local, paper", "", kPlain, kClient,
           "name = \"dp-fedavg\"\nnoise_multiplier = 4.0\nrounds = 20\nmode = \"paper\""),
      make("dp-fedavg, central", "", kPlain, kCentral, "name = \"dp-fedavg\""),
      make("dp-fedavg, central, paper", "", kPlain, kCentral,
           "name = \"dp-fedavg\"\nmode = \"paper\"\nnoise_multiplier = 5.0"),
      make("dp-fedavg, masked", "clients = 4", kPlain, kMasked,
           "name = \"dp-fedavg\"\nallocation = \"static\""),
      make("dp-fedavg, PrivUnit", "", kPlain, kUnit,
           "name = \"dp-fedavg\"\nrounds = 2\nallocation = \"static\""),
      make("dp-fedavg, PrivUnit, paper", "", kPlain, kSplit,
           "name = \"dp-fedavg\"\nmode = \"paper\"\nrounds = 6"),
      make("dp-fedavg, moving clip", "", kPlain, kCentral, "name = \"dp-fedavg\"\nclip_quantile = 0.5"),
      make("dp-fedavg, secret sample", "", kPlain, kCentral,
           "name = \"dp-fedavg\"\nallocation = \"static\"\nsampling = \"fixed\"\nsample_clients = 1"),
      make("dp-fedavg, secret coins", "", kPlain, kCentral,
           "name = \"dp-fedavg\"\nallocation = \"static\"\nsampling = \"poisson\"\nsample_rate = 0.5"),
      make("dp-scaffold, record", "", kPlain, "", "name = \"dp-scaffold\"\nlocal_steps = 2"),
      make("dp-scaffold, record, paper", "", kPlain, "",
           "name = \"dp-scaffold\"\nlocal_steps = 2\nmode = \"paper\""),
      make("dp-scaffold, local", "", kPlain, kClient, "name = \"dp-scaffold\""),
      make("dp-scaffold, local, paper", "", kPlain, kClient,
           "name = \"dp-scaffold\"\nnoise_multiplier = 4.0\nrounds = 20\nmode = \"paper\""),
      make("dp-scaffold, central", "", kPlain, kCentral, "name = \"dp-scaffold\""),
      make("dp-scaffold, central, paper", "", kPlain, kCentral,
           "name = \"dp-scaffold\"\nmode = \"paper\"\nnoise_multiplier = 5.0"),
      make("dp-scaffold, masked", "clients = 4", kPlain, kMasked,
           "name = \"dp-scaffold\"\nallocation = \"static\""),
      make("dp-scaffold, PrivUnit", "", kPlain, kUnit,
           "name = \"dp-scaffold\"\nrounds = 2\nallocation = \"static\""),
      make("dp-scaffold, PrivUnit, paper", "", kPlain, kSplit,
           "name = \"dp-scaffold\"\nmode = \"paper\"\nrounds = 6"),
      make("fedexp, local", "", kPlain, kClient, "name = \"fedexp\""),
      make("fedexp, naive step", "", kPlain, kClient, "name = \"fedexp\"\nstep = \"naive\""),
      make("fedexp, central", "", kPlain, kCentral, "name = \"fedexp\""),
      make("fedexp, masked", "clients = 4", kPlain, kMasked, "name = \"fedexp\"\nallocation = \"static\""),
      make("fedexp, PrivUnit", "", kPlain, kUnit, "name = \"fedexp\"\nrounds = 2\nallocation = \"static\""),
      make("fedexp, local, paper", "", kPlain, kClient,
           "name = \"fedexp\"\nmode = \"paper\"\nnoise_multiplier = 4.0\nrounds = 20"),
      make("fedexp, central, paper", "", kPlain, kCentral,
           "name = \"fedexp\"\nmode = \"paper\"\nnoise_multiplier = 5.0"),
      make("fedexp, PrivUnit, paper", "", kPlain, kSplit, "name = \"fedexp\"\nmode = \"paper\"\nrounds = 6"),
      make("dpd-ef21-2 (design P)", kBounded, kSquares, "", "name = \"dpd-ef21-2\""),
      make("dpd-ef21-2, client", kBounded, kSquares, kClient, "name = \"dpd-ef21-2\""),
      make("dpd-ef21-2, batches", kPairs, kSquares, "",
           "name = \"dpd-ef21-2\"\nbatch = 1\nallocation = \"static\""),
      make("dpd-ef21 (design Q)", kBounded, kSquares, kClient, "name = \"dpd-ef21\""),
      make("dpd-ef21, radii that follow", kBounded, kSquares, kClient,
           "name = \"dpd-ef21\"\nradius_rule = \"trajectory\""),
      make("dpd-ef21, paper", kBounded, kSquares, "", "name = \"dpd-ef21\"\nmode = \"paper\""),
      make("dpd-ef21-2, paper", kBounded, kSquares, "", "name = \"dpd-ef21-2\"\nmode = \"paper\""),
      make("dpd-ef21, paper, by V", kBounded, kSquares, "",
           "name = \"dpd-ef21\"\nmode = \"paper\"\nschedule = \"lyapunov\""),
      make("dp-clip21", kBounded, kSquares, kClient, "name = \"dp-clip21\""),
      make("dp-clip21, paper", kBounded, kSquares, kClient, "name = \"dp-clip21\"\nmode = \"paper\""),
      make("dp-clip21, mirrored", kBounded, kSquares, kClient, "name = \"dp-clip21\"\nstate = \"mirrored\""),
      make("clip21-sgd2m", kBounded, kSquares, kClient, "name = \"clip21-sgd2m\""),
      make("clip21-sgd2m, paper", kBounded, kSquares, kClient, "name = \"clip21-sgd2m\"\nmode = \"paper\""),
      make("fcrn, subspace (option 2)", kPairs, kSquares, "", "name = \"fcrn\"\nsolver_steps = 3"),
      make("fcrn, full (option 1)", kPairs, kSquares, "",
           "name = \"fcrn\"\ndesign = \"full\"\nsolver_steps = 3"),
      make("fcrn, once (option 3)", kPairs, kSquares, "", "name = \"fcrn\"\ndesign = \"once\"\ncubic = 1.0"),
      make("fcrn, paper", "rows = 1600\nrow_norm = \"clip\"\nrow_bound = 1.0", kSquares,
           "epsilon = 0.8\nclip_hessian = 0.0",
           "name = \"fcrn\"\nmode = \"paper\"\ndesign = \"full\"\nrounds = 16\nsolver_steps = 2"),
      make("fcrn, paper, cycle", "rows = 400\nrow_norm = \"clip\"\nrow_bound = 1.0", kSquares,
           "epsilon = 0.8\nclip_hessian = 0.0",
           "name = \"fcrn\"\nmode = \"paper\"\ndesign = \"full\"\nrecord_sampling = \"cycle\"\n"
           "rounds = 16\nsolver_steps = 2"),
      make("dp-fed-sgd", kPairs, kSquares, "", "name = \"dp-fed-sgd\""),
      make("dp-fed-sgd, secret coins", kPairs, kSquares, "",
           "name = \"dp-fed-sgd\"\nrecord_sampling = \"poisson\""),
      make("zcdp-nfl", "clients = 3", kPlain, "", "name = \"zcdp-nfl\""),
      make("zcdp-nfl, paper", "clients = 3", kPlain, "", "name = \"zcdp-nfl\"\nmode = \"paper\""),
      make("dp-nfl", "clients = 3", kPlain, "epsilon = 12.0", "name = \"dp-nfl\""),
      make("dp-nfl, paper", "clients = 3", kPlain, "", "name = \"dp-nfl\"\nmode = \"paper\""),
      make("zcdp-grad-nfl", "clients = 3", kPlain, "", "name = \"zcdp-grad-nfl\""),
      make("zcdp-grad-nfl, paper", "clients = 3", kPlain, "", "name = \"zcdp-grad-nfl\"\nmode = \"paper\""),
      make("p-admm", "clients = 3\nrow_norm = \"clip\"\nrow_bound = 1.0", kPlain, "", "name = \"p-admm\""),
      make("p-admm, paper", "clients = 3\nrow_norm = \"clip\"\nrow_bound = 1.0", kPlain, "",
           "name = \"p-admm\"\nmode = \"paper\""),
  };
  return all;
}

}  // namespace tacit
