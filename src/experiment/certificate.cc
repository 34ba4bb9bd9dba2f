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
  double up = std::ceil(x * scale) / scale;
  if (std::ceil(x * scale) - x * scale > 1 - 1e-9) up = std::round(x * scale) / scale;  // 0.30000000000000004
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
        fmt::format("the noise is replayable from seed {}: whoever knows the seed can subtract it, so the "
                    "guarantee holds "
                    "only against those who do not. For experiments.",
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

  json budgets = nullptr;
  if (!c.privacy.budgets.empty()) budgets = c.privacy.budgets;
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
        {"zcdp_epsilon", Number(p.zcdp_epsilon)},
        {"unit", p.unit},
        {"adjacency", Name(p.adjacency)},
        {"per_client_epsilon", budgets},
        {"protects",
         "one record of one client, whatever it is, in everything that client sends during the whole run"},
        {"against",
         "the server, every other client, and anyone who sees all messages: local differential privacy, no "
         "trusted party"},
        {"not_covered",
         "several records of one person together, who takes part, how many records a client has, and the "
         "public constants of the config"}}},
      {"enforced",
       {{"clip", certified ? json(p.clip) : json(nullptr)},
        {"row_bound", c.data.row_norm == "none" ? json(nullptr) : json(c.data.row_bound)},
        {"sensitivity", Number(p.sensitivity)},
        {"sensitivity_includes",
         "floating-point error of the sums; the lattice adds its own rounding in each release"},
        {"composition", "exact Gaussian differential privacy, rounded up"},
        {"charged_before_release", true}}},
      {"mechanism", {{"name", p.mechanism}, {"noise", c.privacy.noise}, {"generator", "AES-256-CTR"}}},
      {"rounds", {{"done", r.rounds_done}, {"planned", p.rounds}, {"skipped", p.skipped}}},
      {"clients", p.clients},
      {"data", {{"source", c.data.source}, {"rows", p.rows}, {"split", c.data.split}}},
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
  line("certified", fmt::format("epsilon = {}  at delta = {:g}", UpText(p["certified_epsilon"]),
                                p["delta"].get<double>()));
  if (!p["claimed_epsilon"].is_null())
    line("claimed", fmt::format("epsilon = {:g}  by the paper", p["claimed_epsilon"].get<double>()));
  line("Gaussian DP", p["mu"].is_string() ? "mu = inf" : fmt::format("mu = {}", UpText(p["mu"], 6)));
  line("unit, adjacency",
       fmt::format("{}, {}", p["unit"].get<std::string>(), p["adjacency"].get<std::string>()));
  line("mechanism", fmt::format("{}, noise from {}", j["mechanism"]["name"].get<std::string>(),
                                j["mechanism"]["noise"] == "entropy" ? "the operating system's entropy"
                                                                     : "a replayable seed"));
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
