#include <toml++/toml.h>

#include <cmath>

#include "experiment/files.h"
#include "experiment/toml_values.h"
#include "net/join.h"

namespace tacit {

Section DescribePolicy(Policy& p) {
  Section s("policy", "What a client agrees to, whatever a job says.");
  s.Number("max_epsilon", &p.max_epsilon, AtLeast(0), "the most a job may cost");
  s.Number("max_delta", &p.max_delta, Between(0, 1), "the largest delta a job may state");
  s.Flag("replayable", &p.replayable, "join jobs whose noise everybody knows: for tests, without privacy");
  s.Flag("paper", &p.paper, "join algorithms as printed, if what they certify is within the above");
  s.Flag("masked", &p.masked, "join jobs with masked sums, where this machine adds a share of the noise");
  s.Count("colluding", &p.colluding, {.lower = 0, .upper = 1e6},
          "join jobs with masked sums only if they assume that so many clients collude with the server");
  s.Texts("trusted_servers", &p.trusted_servers,
          "names in the certificates of servers that may see this machine's updates without noise");
  s.Text("unit", &p.unit, "what ε must be about: record, person or client; empty: whatever the job says");
  s.Text("adjacency", &p.adjacency, "replace-one, zero-out or add-remove; empty: whatever the job says");
  return s;
}

Result<Policy> ReadPolicy(const std::filesystem::path& file) {
  TACIT_TRY(const std::string text, ReadWhole(file, 1 << 20));
  return ParsePolicy(text, file.string());
}

Result<Policy> ParsePolicy(std::string_view text, const std::string& name) {
  Policy policy;
  Section keys = DescribePolicy(policy);
  toml::table root;
  try {
    root = toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    return Fail(Code::kMalformed, "{}:{}: not valid TOML: {}", name, e.source().begin.line, e.description());
  }
  for (const auto& [key, node] : root) {
    auto value = internal::ValueOf(node, std::string(key.str()));
    if (!value.ok()) return internal::At(name, node, value.error());
    if (Status s = keys.Set(key.str(), *value); !s.ok()) return internal::At(name, node, s.error());
  }
  return policy;
}

Status CheckOffer(const Policy& p, const Job& job) {
  if (job.config.algorithm.mode != "certified" && !p.paper)
    return Fail(Code::kBudget,
                "algorithm.mode = \"{}\": the job runs an algorithm as printed, without clipping that its "
                "certificate could rest on; refused by this client's policy (paper = false)",
                job.config.algorithm.mode);
  if (job.config.privacy.noise != "entropy" && !p.replayable)
    return Fail(
        Code::kBudget,
        "privacy.noise = \"{}\": whoever knows the job's seed can take the noise off; refused by this "
        "client's policy (replayable = false)",
        job.config.privacy.noise);
  const auto& privacy = job.config.privacy;
  if (privacy.trust == "masked" && !p.masked)
    return Fail(
        Code::kBudget,
        "privacy.trust = \"masked\": this client would add a share of the noise, which is enough only "
        "while others add theirs; refused by this client's policy (masked = false)");
  if (privacy.trust == "central" && p.trusted_servers.empty())
    return Fail(
        Code::kBudget,
        "privacy.trust = \"central\": the server would see this client's updates without noise, and add the "
        "noise itself; refused by this client's policy (trusted_servers = [])");
  // More than any sensible job has; what a plan of it would cost to make.
  constexpr std::size_t kMostRounds = 100000, kMostClients = 100000;
  if (job.config.algorithm.rounds > kMostRounds || job.clients.size() > kMostClients)
    return Fail(Code::kBudget,
                "the job has {} rounds and {} clients, and a client joins at most {} and {}; refused",
                job.config.algorithm.rounds, job.clients.size(), kMostRounds, kMostClients);
  return Ok{};
}

Status CheckPolicy(const Policy& p, const Job& job, const Plan& plan) {
  TACIT_OK(CheckOffer(p, job));
  const std::string unit = plan.by_client() ? "client" : plan.unit, adjacency(Name(plan.adjacency));
  if (!p.unit.empty() && p.unit != unit)
    return Fail(Code::kBudget,
                "the job's ε is about one {}, and this client's policy wants it to be about one {} (unit); "
                "refused",
                unit, p.unit);
  if (!p.adjacency.empty() && p.adjacency != adjacency)
    return Fail(Code::kBudget,
                "the job's neighbours are \"{}\", and this client's policy wants \"{}\" (adjacency); refused",
                adjacency, p.adjacency);
  if (plan.secure && plan.secure->quorum().colluding < p.colluding)
    return Fail(
        Code::kBudget,
        "privacy.colluding = {}: the job's noise is enough if so many clients tell the server theirs; this "
        "client wants it to be for {} (colluding); ask for more, or lower that",
        plan.secure->quorum().colluding, p.colluding);
  if (!(plan.certified_epsilon <= p.max_epsilon))
    return Fail(Code::kBudget,
                "the job costs ε = {}, and this client agrees to {} at most; ask for a smaller "
                "privacy.epsilon, or raise --max-epsilon",
                std::isfinite(plan.certified_epsilon) ? fmt::format("{:.4g}", plan.certified_epsilon) : "∞",
                p.max_epsilon);
  if (!(plan.delta <= p.max_delta))
    return Fail(
        Code::kBudget,
        "the job states δ = {}, and this client agrees to {} at most; ask for a smaller privacy.delta, "
        "or raise max_delta",
        plan.delta, p.max_delta);
  return Ok{};
}

}  // namespace tacit
