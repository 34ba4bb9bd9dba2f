#include <toml++/toml.h>

#include <cmath>
#include <set>

#include "core/sha256.h"
#include "experiment/files.h"
#include "experiment/toml_values.h"
#include "net/join.h"

namespace tacit {

Section DescribePolicy(Policy& p) {
  Section s("policy", "What a client agrees to, whatever a job says.");
  s.Number("max_epsilon", &p.max_epsilon, AtLeast(0), "the most a job may cost");
  s.Number("max_delta", &p.max_delta, Between(0, 1), "the largest delta a job may state");
  s.Flag("replayable", &p.replayable, "join jobs whose noise everybody knows: for tests, without privacy");
  s.Flag("float_noise", &p.float_noise,
         "join jobs whose noise is added in floating point, whose last bits may tell what it was added to");
  s.Flag("paper", &p.paper, "join algorithms as printed, if what they certify is within the above");
  s.Flag("masked", &p.masked, "join jobs with masked sums, where this machine adds a share of the noise");
  s.Count("colluding", &p.colluding, {.lower = 0, .upper = 1e6},
          "join jobs with masked sums only if they assume that so many clients collude with the server");
  s.Texts("trusted_servers", &p.trusted_servers,
          "names in the certificates of servers that may see this machine's updates without noise");
  s.Text("unit", &p.unit, "what ε must be about: record, person or client; empty: whatever the job says");
  s.Text("adjacency", &p.adjacency, "replace-one, zero-out or add-remove; empty: whatever the job says");
  s.Texts(
      "layout", &p.layout,
      "\"key=value\" of the job's [data] that say how rows are read: with these, and defaults for all other "
      "keys, the job must agree; empty: whatever the job says");
  return s;
}

namespace {

// [data] of a job that all of this names: files, numbers of rows and how they are divided are each machine's
// own.
bool SaysHowRowsAreRead(const std::string& key) {
  static const std::set<std::string> kOthers = {
      "id",    "source", "test",  "labels_file", "rows",        "skip",         "clients", "rows_per_client",
      "split", "alpha",  "store", "scratch",     "label_noise", "heterogeneity"};
  return !kOthers.contains(key);
}

Result<Config> LayoutOf(const Policy& p) {
  Config c;
  for (const std::string& one : p.layout) {
    const std::size_t at = one.find('=');
    if (at == one.npos || !SaysHowRowsAreRead(one.substr(0, at)))
      return Fail(
          Code::kInvalidArgument,
          "layout holds \"{}\": write key=value, with a key of [data] that says how rows are read, e.g. "
          "\"label_column=outcome\"",
          one);
    TACIT_OK(SetKey(c, "data." + one.substr(0, at), ParseValue(one.substr(at + 1))));
  }
  return c;
}

Status CheckLayout(const Policy& p, const Job& job) {
  if (p.layout.empty()) return Ok{};
  TACIT_TRY(Config agreed, LayoutOf(p));
  Config asked = job.config;
  const std::vector<Section> wanted = Describe(agreed), given = Describe(asked);
  for (std::size_t s = 0; s < wanted.size(); ++s)
    for (std::size_t k = 0; wanted[s].name() == "data" && k < wanted[s].options().size(); ++k) {
      const Option &want = wanted[s].options()[k], &have = given[s].options()[k];
      if (!SaysHowRowsAreRead(want.key) || want.get() == have.get()) continue;
      return Fail(
          Code::kBudget,
          "data.{} = {}: this client's policy wants rows to be read with {} (layout); whether they can "
          "be read otherwise would tell the server something of them; refused",
          want.key, ToText(have.get()), ToText(want.get()));
    }
  return Ok{};
}

}  // namespace

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
  if (const auto layout = LayoutOf(policy); !layout.ok())
    return Error{layout.error().code, name + ": " + layout.error().message};
  return policy;
}

std::string DigestOf(const std::string& toml) { return Sha256::Hex(toml); }

Status CheckPin(const std::string& pinned) {
  constexpr std::size_t kDigits = 2 * sizeof(Sha256::Digest);
  if (pinned.empty() || (pinned.size() >= kLeastPin && pinned.size() <= kDigits &&
                         pinned.find_first_not_of("0123456789abcdef") == pinned.npos))
    return Ok{};
  return Fail(Code::kInvalidArgument,
              "--job {}: is not the SHA-256 of a job, nor how one begins: {} to {} digits of 0–9 and a–f, as "
              "`tacit join --review` prints them",
              pinned, kLeastPin, kDigits);
}

Status CheckPinned(const std::string& pinned, const std::string& toml) {
  TACIT_OK(CheckPin(pinned));
  const std::string digest = DigestOf(toml);
  if (digest.starts_with(pinned)) return Ok{};
  return Fail(Code::kBudget,
              "the job of the server is {}, and the one that was agreed to {} (--job); refused: review it "
              "with `tacit join --review`, and name it if it is agreed to",
              digest, pinned);
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
  // Which values a sum in floating point can have depends on what the noise was added to (Mironov 2012): its
  // certificate holds for real numbers alone, and the server would choose it.
  if (privacy.mechanism == "gaussian" && !p.float_noise)
    return Fail(Code::kBudget,
                "privacy.mechanism = \"gaussian\": noise in floating point, whose last bits may tell what it "
                "was added to; refused by this client's policy (float_noise = false); ask for "
                "\"lattice_gaussian\"");
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
  constexpr std::size_t kMostRounds = 100000, kMostClients = 100000, kMostBoth = 100'000'000;
  const std::size_t rounds = job.config.algorithm.rounds, clients = job.clients.size();
  if (rounds > kMostRounds || clients > kMostClients || rounds * clients > kMostBoth)
    return Fail(Code::kBudget,
                "the job has {} rounds and {} clients, and a client joins at most {} and {}, {} multiplied; "
                "refused",
                rounds, clients, kMostRounds, kMostClients, kMostBoth);
  return CheckLayout(p, job);
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
