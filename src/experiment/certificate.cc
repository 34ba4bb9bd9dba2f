#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/sha256.h"
#include "experiment/json_number.h"
#include "experiment/run.h"
#include "experiment/second_order_plan.h"
#include "privacy/gdp.h"
#include "privacy/mechanism.h"

namespace tacit {
namespace {

using nlohmann::json;

// Rounded up at the last digit shown: a printed ε must not be smaller than the proven one.
std::string UpText(const json& v, int digits = 4) {
  if (v.is_null()) return "none";
  if (v.is_string()) return "inf (not private)";
  const double scale = std::pow(10.0, digits), x = v.get<double>();
  const double up = std::ceil(x * scale) / scale;
  return fmt::format("{:.{}f}", up, digits);
}

std::string Wrapped(const std::string& text, const std::string& indent) {
  std::string out, line = indent;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (line.size() + word.size() + 1 > 92 && line != indent) {
      out += line + "\n";
      line = indent;
    }
    line += (line == indent ? "" : " ") + word;
    at = end + 1;
  }
  return out + line + "\n";
}

// Two spaces a level, but a list of plain values on one line: thousands of σ are not thousands of lines.
void Print(const json& j, const std::string& indent, std::string& out) {
  const bool flat = std::none_of(j.begin(), j.end(), [](const json& v) { return v.is_structured(); });
  if (j.empty() || !j.is_structured() || (j.is_array() && flat)) {
    out += j.dump();
    return;
  }
  out += j.is_object() ? "{\n" : "[\n";
  std::size_t left = j.size();
  for (auto at = j.begin(); at != j.end(); ++at) {
    out += indent + "  ";
    if (j.is_object()) out += json(at.key()).dump() + ": ";
    Print(*at, indent + "  ", out);
    out += --left == 0 ? "\n" : ",\n";
  }
  out += indent + (j.is_object() ? "}" : "]");
}

}  // namespace

json Certificate(const RunResult& r, const Config& c) {
  const Plan& p = r.plan;
  const bool certified = p.mode == "certified";
  json caveats = json::array();
  const auto mechanism = MakeMechanism(p.mechanism);
  if (mechanism.ok() && !(*mechanism)->caveat().empty())
    caveats.push_back(std::string((*mechanism)->caveat()));
  if (p.randomizer && !p.randomizer->caveat().empty()) caveats.push_back(std::string(p.randomizer->caveat()));
  if (r.replayable)
    caveats.push_back(
        fmt::format("the noise is replayable: whoever holds seed {} (it is printed here) and the config can "
                    "test guesses of the data "
                    "against it. The guarantee does not hold against them; for experiments.",
                    c.experiment.seed));
  if (!r.oracle_metrics.empty()) {
    std::string names;
    for (const auto& n : r.oracle_metrics) names += (names.empty() ? "" : ", ") + n;
    caveats.push_back("simulation: an oracle read the private data to report " + names +
                      "; these figures are not covered by epsilon and must not be published with it.");
  }
  if (!certified)
    caveats.push_back(
        p.feedback && !p.clipped ? "paper mode: calibration as printed, nothing is clipped, and what a "
                                   "client keeps is private. No bound "
                                   "holds for its messages, so nothing is proved."
        : p.by_client() || p.clipped
            ? "paper mode: the noise as printed. The claim is the paper's; the certified value is "
              "that of the whole run."
            : "paper mode: calibration as printed, nothing is clipped. The certified value is what the "
              "enforced public bounds prove; it is infinite where there are none.");
  if (r.interrupted)
    caveats.push_back(
        "the run was interrupted and the figures are those of its whole plan all the same, because when it "
        "stopped may depend on what it released. The file checkpoint holds clients' private state: it is not "
        "covered and must not be published.");
  for (const auto& w : p.warnings) caveats.push_back("plan: " + w);

  const bool exposed = p.mechanism == "expose";
  json releases = json::array();
  std::vector<double> epsilon_of(p.noise.size());
  double sensitivity = 0;
  for (const Releases& one : r.releases) {
    releases.push_back({{"clients", one.clients},
                        {"units", one.units},
                        {"roundings", one.roundings},
                        {"sensitivity", Number(one.sensitivity)},
                        {"sigma", one.sigma},
                        {"rounds", one.rounds},
                        {"turns", p.turns != 0 ? json(one.turns) : json(nullptr)},
                        {"mu_squared_beyond", Number(one.beyond)},
                        {"mu", Number(one.mu)},
                        {"epsilon", Number(one.epsilon)}});
    if (p.network) {
      const NetworkPlan::Group& g = p.network->groups[one.noise];
      releases.back()["rounds_away"] = one.away;
      if (p.network->argmin) {      // of each of these peers: records, neighbours and κ make the bound
        releases.back()["records"] = g.records;
        releases.back()["degree"] = g.degree;
        releases.back()["curvature"] = g.curvature;
        releases.back()["bound"] = g.bound;
      }
    }
    epsilon_of[one.noise] = one.epsilon;
    sensitivity = std::max(sensitivity, one.sensitivity);
  }
  json per_client = nullptr;
  if (!c.privacy.budgets.empty()) {
    per_client = json::array();
    for (const std::size_t noise : p.noise_of) per_client.push_back(Number(epsilon_of[noise]));
  }
  // In a sum only models show what one client does.
  const bool person = p.unit == "person", central = p.trust == "central" || p.secure;
  const char* protects =
      exposed ? "nothing: values are released as they are"
      : p.by_client()
          ? (p.adjacency == Adjacency::kReplaceOne
                 ? (central
                        ? "all records of one client, whatever they are and whatever they are replaced by, "
                          "in every model of the whole run"
                        : "all records of one client, whatever they are and whatever they are replaced by, "
                          "in everything that client sends during the whole run")
             : p.adjacency == Adjacency::kAddOrRemove
                 ? "whether one client is there at all, in every model of the whole run"
             : central
                 ? "whether the term of one client counts or is left out, in every model of the whole run"
                 : "whether the term of one client counts or is left out, in everything that client sends "
                   "during the whole run")
      : person
          ? (p.adjacency == Adjacency::kReplaceOne
                 ? "all records of one person, whatever they are and whatever they are replaced by, in "
                   "everything all clients send during the whole run"
             : p.adjacency == Adjacency::kZeroOut
                 ? "whether the records of one person count or contribute nothing, in everything all clients "
                   "send during the whole run"
                 : "whether the records of one person are there, in everything all clients send during the "
                   "whole run")
      : p.adjacency == Adjacency::kReplaceOne ? "one record of one client, whatever it is and whatever it is "
                                                "replaced by, in everything that client "
                                                "sends during the whole run"
      : p.adjacency == Adjacency::kZeroOut
          ? "whether one record of one client counts or is replaced by one that contributes nothing, in "
            "everything "
            "that client sends during the whole run"
          : "whether one record of one client is there, in everything that client sends during the whole run";
  // Every client knows its own turns. In samples of a fixed size they say something about the others'.
  const bool fixed = p.sampling.kind == SampleKind::kFixed;
  const std::string own_noise =
      p.secure && p.secure->quorum().colluding > 0
          ? fmt::format(", together with up to {} clients, who know their own noise",
                        p.secure->quorum().colluding)
          : std::string(", but not together with clients, who know their own noise (privacy.colluding = 0)");
  const std::string against =
      exposed    ? "nobody"
      : p.secure ? "the server, which learns sums of all clients' updates with the noise they added and no "
                   "update, and "
                   "anyone who sees the models" +
                       own_noise +
                       ": no trusted party; the authority that certifies the clients must not be the server's"
      : p.secret() && fixed
          ? "every client by itself, and anyone who sees the models, but not clients who tell "
            "each other when they took part, not anyone who sees which clients the server "
            "hears from, and not the server: it is trusted with who takes part, with every "
            "client's clipped update, and with the noise"
      : p.secret() ? "every client, and anyone who sees the models, but not anyone who sees which clients "
                     "the server hears from, and not the server: it is trusted with who takes part, with "
                     "every client's clipped update, and with the noise"
      : central
          ? fmt::format(
                "every client, and anyone who sees the models, but not the server{}: it is "
                "trusted with every client's clipped update, and with the noise",
                r.trusted_server.empty() ? ""
                                         : " (" + r.trusted_server + ", named by every client's operator)")
      : p.sampled_records != 0 ||
              (p.second_order && p.second_order->options.sampling.sample.kind != SampleKind::kFull)
          ? "the server, every other client, and anyone who sees all messages, but not anyone who sees which "
            "of its records a client samples: local differential privacy, no trusted party"
      : p.network ? "every other client, its neighbours among them, all of them together, and anyone who "
                    "sees all notes: local differential privacy, no server and no trusted party"
                  : "the server, every other client, and anyone who sees all messages: local "
                    "differential privacy, no "
                    "trusted party";
  const double rho = MulUp(r.mu, r.mu) / 2;
  json network = NetworkJson(p);
  for (const char* figure : {"noise_on_notes_least", "noise_on_notes_most", "last_notes_by", "noise_term",
                             "bound22", "bound23", "bound24"})      // those are of the plan
    if (p.network) network.erase(figure);
  json certificate = {
      {"format", "tacit-certificate-1"},
      {"tacit", TACIT_VERSION},
      {"run", r.run},
      {"algorithm", p.algorithm},
      {"paper", p.paper},
      {"mode", p.mode},
      {"privacy",
       {{"certified_epsilon", Number(r.certified_epsilon)},
        {"certified_epsilon_lower", Number(r.certified_epsilon_lower)},
        {"claimed_epsilon", r.claimed_epsilon ? json(*r.claimed_epsilon) : json(nullptr)},
        {"claim_source", r.claimed_epsilon ? json(p.claim_source) : json(nullptr)},
        {"claim_bound", r.claimed_epsilon ? json(p.clip) : json(nullptr)},
        {"delta", p.delta},
        {"mu", Number(r.mu)},
        {"zcdp_epsilon",
         Number(std::isfinite(rho) ? ZcdpEpsilon(Rho::Proven(rho), Delta::Proven(p.delta)) : kInf)},
        {"unit", p.unit},
        {"trust", p.trust},
        {"person_bound", person ? json(p.person_bound) : json(nullptr)},
        {"records_per_person", p.records_per_person == 0 ? json(nullptr) : json(p.records_per_person)},
        {"adjacency", Name(p.adjacency)},
        {"sampling", SamplingJson(p)},
        {"weights", WeightsJson(p)},
        {"masked", MaskedJson(p)},
        {"per_client_epsilon", per_client},
        {"protects", p.by_records && !exposed ? fmt::format("{}; not how many records it has", protects)
                                              : std::string(protects)},
        {"against", against},
        {"not_covered",
         std::string(person          ? ""
                     : p.by_client() ? "several clients with the same person's records together; "
                                     : "several records of one person together; ") +
             (p.secret()
                  ? "how many clients there are and how the rows are split among them, which are taken as "
                    "given; the public "
                  : "who takes part and how the rows are split among clients, which are taken as given; the "
                    "public ") +
             "constants of the config; " +
             (p.by_records ? "how many records each client has, which the weights make public; " : "") +
             "and other runs on the same data, whose costs add up"}}},
      {"enforced",
       {{"clip", p.clipped ? json(p.clip) : json(nullptr)},
        {"square", p.square > 0 ? json(p.square) : json(nullptr)},
        {"indicator", p.indicator > 0 ? json(p.indicator) : json(nullptr)},
        {"row_bound", c.data.row_norm == "none" ? json(nullptr) : json(c.data.row_bound)},
        {"record_bound", std::isfinite(p.record_bound) ? json(p.record_bound) : json(nullptr)},
        {"sensitivity", Number(sensitivity)},
        {"sensitivity_includes",
         p.secure ? "floating-point error of squared lengths; integers are added exactly"
                  : "floating-point error of the sums; the lattice adds its own rounding in each release"},
        {"composition", p.account ? "of all planned releases, fixed before the first: " + p.method
                                  : "exact Gaussian differential privacy, rounded up"},
        {"charged_before_release", true}}},
      {"mechanism",
       {{"name", p.mechanism},
        {"split", p.split.empty() ? json(nullptr) : json(p.split)},
        {"noise", exposed ? "none" : c.privacy.noise},
        {"generator", exposed ? "none" : "AES-256-CTR"}}},
      {"rounds",
       {{"done", r.rounds_done},
        {"planned", p.rounds},
        {"releases_each", p.each},
        {"skipped", p.skipped},
        {"interrupted", r.interrupted}}},
      {"releases", releases},
      {"account", AccountJson(p)},
      {"clients", p.clients},
      {"network", network},
      {"feedback", FeedbackJson(p)},
      {"second_order", SecondOrderJson(p)},
      {"data",
       {{"source", c.data.source},
        {"rows", p.rows},
        {"split", c.data.split},
        {"test", c.data.test.empty() ? json(nullptr) : json(c.data.test)},
        {"test_declared_public", !c.data.test.empty()}}},
      {"model", {{"name", c.model.name}, {"dimension", p.dim}, {"sha256", r.model_sha256}}},
      {"config", {{"sha256", Sha256::Hex(ToToml(c))}}},
      {"caveats", caveats},
  };
  if (!r.trusted_server.empty()) certificate["privacy"]["trusted_server"] = r.trusted_server;
  if (r.peer) certificate["peer"] = {{"name", r.peer->first}, {"place", r.peer->second}};
  return certificate;
}

std::string CertificateJson(const json& certificate) {
  std::string out;
  Print(certificate, "", out);
  return out + "\n";
}

std::string CertificateText(const json& j) {
  const json& p = j.at("privacy");
  std::string out = "PRIVACY CERTIFICATE\n";
  const auto line = [&](const char* key, const std::string& value) {
    out += fmt::format("  {:<18}{}\n", key, value);
  };
  line("run", j.at("run"));
  line("algorithm",
       fmt::format("{} ({} mode)", j.at("algorithm").get<std::string>(), j.at("mode").get<std::string>()));
  line("certified", fmt::format("epsilon = {}  at delta = {}", UpText(p.at("certified_epsilon")),
                                p.at("delta").get<double>()));
  if (!p.at("claimed_epsilon").is_null())
    line("claimed", fmt::format("epsilon = {:g}  by the paper", p.at("claimed_epsilon").get<double>()));
  // Certificates of earlier versions know no plans and no samples.
  if (const json account = j.value("account", json(nullptr)); !account.is_null()) {
    std::size_t releases = 0;
    for (const json& e : account.at("events")) releases += e.at("count").get<std::size_t>();
    line("account", fmt::format("{} releases, all planned before the first", releases));
  } else {
    line("Gaussian DP", p.at("mu").is_string() ? "mu = inf" : fmt::format("mu = {}", UpText(p.at("mu"), 6)));
  }
  if (const json sampling = p.value("sampling", json(nullptr)); !sampling.is_null())
    line("sampling",
         fmt::format("{}, {}",
                     sampling.at("kind") == "poisson"
                         ? fmt::format("every client with probability {:g} in a round",
                                       sampling.at("rate").get<double>())
                         : fmt::format("{} clients in a round", sampling.at("clients").get<std::size_t>()),
                     sampling.at("secret").get<bool>()
                         ? "secret"
                         : fmt::format("seen by everybody; at most {} for one client",
                                       sampling.at("participations").get<std::size_t>())));
  if (const json weights = p.value("weights", json(nullptr)); !weights.is_null())
    line("weights", fmt::format("by numbers of records, at most {}: those of {} clients with so many",
                                weights.at("most_records").get<std::size_t>(),
                                fmt::format("{:.6g}", weights.at("total").get<double>())));
  const json samples = j.value("second_order", json(nullptr));
  if (!samples.is_null()) {
    const std::string kind = samples.at("record_sampling"), design = samples.at("design");
    const auto b = samples.at("sample_records").get<std::size_t>();
    line("records",
         kind == "full" ? "all of a client's in every round"
         : kind == "cycle"
             ? "in an order that is no secret"
             : fmt::format("{}{} of a client's in a round, a secret sample: rate {:.6g}", b,
                           kind == "poisson" ? " in the mean" : "", samples.at("rate").get<double>()));
    line("design", fmt::format("{}, {} releases of {} coordinates in a round", design,
                               j.at("rounds").at("releases_each").get<std::size_t>(),
                               samples.at("coordinates").get<std::size_t>()));
  }
  if (const json masked = p.value("masked", json(nullptr)); !masked.is_null())
    line("aggregate",
         fmt::format(
             "masked: the server learns the sum only; noise by clients, of std {:.6g} each; survivors at "
             "least {}, assumed colluding {}; {} of {} open a sum",
             masked.at("noise_of_a_client").get<double>(), masked.at("survivors").get<std::size_t>(),
             masked.at("colluding").get<std::size_t>(), masked.at("threshold").get<std::size_t>(),
             j.at("clients").get<std::size_t>()));
  // Certificates of earlier versions know no persons.
  const json most = p.value("records_per_person", json(nullptr)),
             bound = p.value("person_bound", json(nullptr));
  line("unit, adjacency",
       fmt::format("{}{}, {}", p.at("unit").get<std::string>(),
                   most.is_null() ? "" : fmt::format(" (at most {} records)", most.get<std::size_t>()),
                   p.at("adjacency").get<std::string>()));
  const std::string noise = j.at("mechanism").at("noise");
  line("mechanism", fmt::format("{}, {}", j.at("mechanism").at("name").get<std::string>(),
                                noise == "none"      ? "no noise"
                                : noise == "entropy" ? "noise from the operating system's entropy"
                                                     : "noise from a replayable seed"));
  line("rounds", fmt::format("{} of {}{}", j.at("rounds").at("done").get<std::size_t>(),
                             j.at("rounds").at("planned").get<std::size_t>(),
                             j.at("rounds").at("skipped").get<std::size_t>() == 0
                                 ? ""
                                 : fmt::format(" ({} skipped: no data touched)",
                                               j.at("rounds").at("skipped").get<std::size_t>())));
  line("enforced",
       j.at("enforced").at("clip").is_null()
           ? "nothing is clipped"
           : fmt::format("{} is clipped to {:g}{}",
                         !j.value("feedback", json(nullptr)).is_null() && p.at("unit") == "client"
                             ? "every client's gradient, or difference of gradients,"
                         : p.at("unit") == "client" ? "every client's update"
                         : bound == "sum"           ? "the sum of a person's gradients"
                                                    : "every record's gradient",
                         j.at("enforced").at("clip").get<double>(),
                         !samples.is_null() && samples.at("clip_hessian").get<double>() > 0
                             ? fmt::format(", its Hessian to {:g}", samples.at("clip_hessian").get<double>())
                         : j.at("enforced").value("indicator", json(nullptr)).is_null()
                             ? std::string()
                             : " times a factor that follows from what was released"));
  if (const json network = j.value("network", json(nullptr)); !network.is_null()) {
    const std::size_t gone = network.at("away").size() + network.at("leave").size();
    line("network",
         fmt::format("{}, {} peers, {} edges{}", network.at("topology").get<std::string>(),
                     network.at("peers").get<std::size_t>(), network.at("edges").get<std::size_t>(),
                     gone == 0 ? "" : fmt::format("; {} absences by the config", gone)));
    const bool mean = network.at("output") == "mean";
    if (j.contains("peer")) {
      line("peer", j.at("peer").at("name").get<std::string>() + "; its neighbours have ledgers of their own");
      line("model", mean ? "the mean of all noised notes of this peer" : "this peer's last noised note");
    } else {
      line("model",
           mean ? "the mean of all noised notes of the peers" : "the mean of the peers' last noised notes");
    }
  }
  if (const json feedback = j.value("feedback", json(nullptr)); !feedback.is_null()) {
    const auto text = [&](const char* key) {
      return feedback.at(key).is_null() ? std::string() : feedback.at(key).get<std::string>();
    };
    if (const json sample = feedback.value("sampled_records", json(nullptr)); !sample.is_null())
      line("records", fmt::format("{} of a client's in a round, a secret sample: rate {:.6g}",
                                  sample.get<std::size_t>(), feedback.at("record_rate").get<double>()));
    line("error feedback",
         fmt::format("{} state{}, noise {}{}", text("state"),
                     feedback.at("compressor").is_null() ? "" : ", " + text("compressor"), text("noise"),
                     feedback.at("radius_ratio").is_null()
                         ? ""
                         : fmt::format("; radii by {:g} a round, {}",
                                       feedback.at("radius_ratio").get<double>(), text("radius_rule"))));
  }
  line("model sha256", j.at("model").at("sha256"));
  if (!j.at("data").at("test").is_null())
    line("test data",
         fmt::format("{}, declared public by the operator", j.at("data").at("test").get<std::string>()));
  out += "  protects\n" + Wrapped(p.at("protects"), "    ");
  out += "  against\n" + Wrapped(p.at("against"), "    ");
  out += "  not covered\n" + Wrapped(p.at("not_covered"), "    ");
  if (!j.at("caveats").empty()) {
    out += "  caveats\n";
    for (const auto& c : j.at("caveats")) out += Wrapped("- " + c.get<std::string>(), "    ");
  }
  return out;
}

}  // namespace tacit
