#include <cmath>
#include <nlohmann/json.hpp>

#include "experiment/run.h"
#include "privacy/mechanism.h"

namespace tacit {
namespace {

using nlohmann::json;

json Number(double v) { return std::isfinite(v) ? json(v) : json(v > 0 ? "inf" : "nan"); }

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

}  // namespace

json Certificate(const RunResult& r, const Config& c) {
  const Plan& p = r.plan;
  const bool certified = p.mode == "certified";
  json caveats = json::array();
  const auto mechanism = MakeMechanism(p.mechanism);
  if (mechanism.ok() && !(*mechanism)->caveat().empty())
    caveats.push_back(std::string((*mechanism)->caveat()));
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
        "paper mode: calibration as printed, nothing is clipped. The certified value is what the enforced "
        "public bounds prove; it is infinite where there are none.");
  if (r.interrupted)
    caveats.push_back("the run was interrupted; the certificate covers the rounds that were made.");
  for (const auto& w : p.warnings) caveats.push_back("plan: " + w);

  const bool exposed = p.mechanism == "expose";
  json per_client = nullptr;
  if (!r.client_epsilon.empty()) {
    per_client = json::array();
    for (const double e : r.client_epsilon) per_client.push_back(Number(e));
  }
  const char* protects =
      exposed                                 ? "nothing: values are released as they are"
      : p.adjacency == Adjacency::kReplaceOne ? "one record of one client, whatever it is and whatever it is "
                                                "replaced by, in everything that client "
                                                "sends during the whole run"
      : p.adjacency == Adjacency::kZeroOut
          ? "whether one record of one client counts or is replaced by one that contributes nothing, in "
            "everything "
            "that client sends during the whole run"
          : "whether one record of one client is there, in everything that client sends during the whole run";
  const char* against = exposed ? "nobody"
                                : "the server, every other client, and anyone who sees all messages: local "
                                  "differential privacy, no "
                                  "trusted party";
  const double rho = r.mu * r.mu / 2;
  return {
      {"format", "tacit-certificate-1"},
      {"run", r.run},
      {"algorithm", p.algorithm},
      {"paper", p.paper},
      {"mode", p.mode},
      {"privacy",
       {{"certified_epsilon", Number(r.certified_epsilon)},
        {"certified_epsilon_lower", Number(r.certified_epsilon_lower)},
        {"claimed_epsilon", r.claimed_epsilon ? json(*r.claimed_epsilon) : json(nullptr)},
        {"claim_source", r.claimed_epsilon ? json(p.claim_source) : json(nullptr)},
        {"delta", p.delta},
        {"mu", Number(r.mu)},
        {"zcdp_epsilon",
         Number(std::isfinite(rho) ? ZcdpEpsilon(Rho::Proven(NextUp(rho)), Delta::Proven(p.delta)) : kInf)},
        {"unit", p.unit},
        {"adjacency", Name(p.adjacency)},
        {"per_client_epsilon", per_client},
        {"protects", protects},
        {"against", against},
        {"not_covered",
         "several records of one person together; who takes part and how the rows are split among clients, "
         "which are taken as "
         "given; the public constants of the config; and other runs on the same data, whose costs add up"}}},
      {"enforced",
       {{"clip", certified ? json(p.clip) : json(nullptr)},
        {"row_bound", c.data.row_norm == "none" ? json(nullptr) : json(c.data.row_bound)},
        {"sensitivity", Number(p.sensitivity)},
        {"sensitivity_includes",
         "floating-point error of the sums; the lattice adds its own rounding in each release"},
        {"composition", "exact Gaussian differential privacy, rounded up"},
        {"charged_before_release", true}}},
      {"mechanism",
       {{"name", p.mechanism},
        {"noise", exposed ? "none" : c.privacy.noise},
        {"generator", exposed ? "none" : "AES-256-CTR"}}},
      {"rounds", {{"done", r.rounds_done}, {"planned", p.rounds}, {"skipped", p.skipped}}},
      {"clients", p.clients},
      {"data",
       {{"source", c.data.source},
        {"rows", p.rows},
        {"split", c.data.split},
        {"test", c.data.test.empty() ? json(nullptr) : json(c.data.test)},
        {"test_declared_public", !c.data.test.empty()}}},
      {"model", {{"name", c.model.name}, {"dimension", p.dim}, {"sha256", r.model_sha256}}},
      {"caveats", caveats},
  };
}

std::string CertificateText(const json& j) {
  const json& p = j["privacy"];
  std::string out = "PRIVACY CERTIFICATE\n";
  const auto line = [&](const char* key, const std::string& value) {
    out += fmt::format("  {:<18}{}\n", key, value);
  };
  line("run", j["run"]);
  line("algorithm",
       fmt::format("{} ({} mode)", j["algorithm"].get<std::string>(), j["mode"].get<std::string>()));
  line("certified",
       fmt::format("epsilon = {}  at delta = {}", UpText(p["certified_epsilon"]), p["delta"].get<double>()));
  if (!p["claimed_epsilon"].is_null())
    line("claimed", fmt::format("epsilon = {:g}  by the paper", p["claimed_epsilon"].get<double>()));
  line("Gaussian DP", p["mu"].is_string() ? "mu = inf" : fmt::format("mu = {}", UpText(p["mu"], 6)));
  line("unit, adjacency",
       fmt::format("{}, {}", p["unit"].get<std::string>(), p["adjacency"].get<std::string>()));
  const std::string noise = j["mechanism"]["noise"];
  line("mechanism", fmt::format("{}, {}", j["mechanism"]["name"].get<std::string>(),
                                noise == "none"      ? "no noise"
                                : noise == "entropy" ? "noise from the operating system's entropy"
                                                     : "noise from a replayable seed"));
  line("rounds",
       fmt::format(
           "{} of {}{}", j["rounds"]["done"].get<std::size_t>(), j["rounds"]["planned"].get<std::size_t>(),
           j["rounds"]["skipped"].get<std::size_t>() == 0
               ? ""
               : fmt::format(" ({} skipped: no data touched)", j["rounds"]["skipped"].get<std::size_t>())));
  line("enforced", j["enforced"]["clip"].is_null() ? "nothing is clipped"
                                                   : fmt::format("every record's gradient is clipped to {:g}",
                                                                 j["enforced"]["clip"].get<double>()));
  line("model sha256", j["model"]["sha256"]);
  if (!j["data"]["test"].is_null())
    line("test data",
         fmt::format("{}, declared public by the operator", j["data"]["test"].get<std::string>()));
  out += "  protects\n" + Wrapped(p["protects"], "    ");
  out += "  against\n" + Wrapped(p["against"], "    ");
  out += "  not covered\n" + Wrapped(p["not_covered"], "    ");
  if (!j["caveats"].empty()) {
    out += "  caveats\n";
    for (const auto& c : j["caveats"]) out += Wrapped("- " + c.get<std::string>(), "    ");
  }
  return out;
}

}  // namespace tacit
