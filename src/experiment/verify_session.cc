#include "experiment/verify_session.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/round.h"
#include "experiment/verify_checks.h"
#include "privacy/ledger.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace verification;      // NOLINT: this file is about it

constexpr const char* kFile = "a releases.json that a closed session left";

struct StatedClient {
  std::size_t records, releases;
  std::vector<double> sigma;
  std::vector<std::size_t> count;
  double mu;
};
struct StatedSession {
  std::string session, data, unit, adjacency, mechanism, noise;
  double epsilon, delta, budget_epsilon, budget_mu, clip, sensitivity;
  std::size_t dim, most, roundings;
  std::vector<StatedClient> clients;
};

Result<StatedSession> ReadSession(const json& document, const std::string& name) {
  if (document["format"] == "tacit-releases-1")
    return Fail(
        Code::kUnsupported,
        "{}: was written by a version that did not keep the noise of single releases, so that its figures "
        "cannot be recomputed; what holds of it is its budget_epsilon, not its certified_epsilon",
        name);
  if (document["format"] != "tacit-releases-2")
    return Fail(
        Code::kUnsupported,
        "{}: format = {}: this version reads tacit-releases-2; verify it with the version that wrote it",
        name, Shown(document["format"]));
  Fields f(document, name, kFile);
  StatedSession s{};
  s.session = f.String("session");
  s.data = f.String("data");
  s.unit = f.OneOf("privacy.unit", {"record"});
  s.adjacency = f.OneOf("privacy.adjacency", {"replace-one"});
  s.epsilon = f.Figure("privacy.certified_epsilon", 0, false);
  s.delta = f.Figure("privacy.delta", 0, false);
  if (!f.error() && !(s.delta > 0 && s.delta < 1)) f.Wrong("privacy.delta", s.delta, "in (0, 1)");
  s.budget_epsilon = f.Figure("privacy.budget_epsilon", 0, false);
  s.budget_mu = f.Figure("privacy.budget_mu", 0, false);
  s.mechanism = f.OneOf("mechanism.name", {"lattice_gaussian", "gaussian"});
  s.noise = f.OneOf("mechanism.noise", {"entropy"});
  s.clip = f.Figure("enforced.clip", 1e-300, false);
  s.dim = f.Count("enforced.dimension", 1);
  s.most = f.Count("enforced.most_records");
  s.roundings = f.Count("enforced.roundings");
  s.sensitivity = f.Figure("enforced.sensitivity", 0, false);
  const json* clients = f.List("clients");
  for (std::size_t i = 0; clients != nullptr && i < clients->size() && !f.error(); ++i) {
    const std::string at = fmt::format("clients[{}].", i);
    StatedClient one{.records = f.Count(at + "records"),
                     .releases = f.Count(at + "releases"),
                     .sigma = f.Figures(at + "sigma", 1e-300, false),
                     .count = f.Counts(at + "count", 1),
                     .mu = f.Figure(at + "mu_used", 0, false)};
    if (!f.error() && one.sigma.size() != one.count.size())
      f.Wrong(at + "count", (*clients)[i]["count"], "as long as sigma: how many releases had each");
    s.clients.push_back(std::move(one));
  }
  if (!f.error() && s.clients.empty()) f.Wrong("clients", json::array(), "a list that is not empty");
  if (f.error()) return *f.error();
  return s;
}

Verification Recompute(const StatedSession& s, const std::string& name) {
  Verification v{.run = s.session.empty() ? name : s.session,
                 .mode = "certified",
                 .unit = s.unit,
                 .adjacency = s.adjacency,
                 .mechanism = s.mechanism,
                 .delta = s.delta,
                 .claimed = {},
                 .session = {},
                 .compared = {"every figure of " + name},
                 .findings = {}};
  Checks check(v);
  std::size_t most = 0;
  for (const StatedClient& c : s.clients) most = std::max(most, c.records);
  check.Same("enforced.most_records", s.most, most, "and the client with the most has");
  // A product with the weight, and one addition for each record (linear_model.h).
  check.Same("enforced.roundings", s.roundings, most + 2, "and a sum over them has");
  const Enclosed sensitivity = most == 0 ? Enclosed{s.clip, 0}
                                         : SumSensitivity(s.clip, 2, static_cast<long double>(most),
                                                          static_cast<long double>(most + 2));
  check.Within("enforced.sensitivity", s.sensitivity, sensitivity.exact, 0x1p-60L, sensitivity.above,
               fmt::format("and a clip of {} with {} records makes it", Text(s.clip), most));
  double used = 0;
  for (std::size_t i = 0; i < s.clients.size(); ++i) {
    const StatedClient& c = s.clients[i];
    const std::string at = fmt::format("clients[{}].", i);
    LongSum squared;
    long double releases = 0;
    for (std::size_t k = 0; k < c.sigma.size(); ++k) {
      const long double mu = MuOf(s.mechanism, s.dim, c.sigma[k], sensitivity.exact);
      squared.Add(mu * mu * static_cast<long double>(c.count[k]));
      releases += static_cast<long double>(c.count[k]);
    }
    check.Same(at + "releases", static_cast<double>(c.releases), static_cast<double>(releases),
               "and the counts beside its noise make");
    const auto mu = std::sqrt(squared.value());
    check.Within(at + "mu_used", c.mu, mu, (releases + 8) * 0x1p-60L,
                 (releases + 8) * kUlp + 2 * sensitivity.above, "and its noise makes it");
    if (mu > static_cast<long double>(s.budget_mu))
      check.Differ(at + "mu_used", s.budget_mu, static_cast<double>(mu),
                   "as the most there may be (privacy.budget_mu), and its noise makes it");
    used = std::max(used, static_cast<double>(mu));
    v.rounds = std::max(v.rounds, static_cast<std::size_t>(std::min<long double>(releases, kWhole)));
  }
  v.mu = v.rounds == 0 ? 0 : s.budget_mu;
  v.epsilon = v.rounds == 0 ? 0 : ExactEpsilon(s.budget_mu, s.delta);
  check.Same("privacy.certified_epsilon", s.epsilon, v.epsilon,
             v.rounds == 0
                 ? "and where nothing was released it is"
                 : fmt::format("and the budget, mu = {} at delta = {}, is", Text(s.budget_mu), s.delta));
  if (!(ExactEpsilon(s.budget_mu, s.delta) <= s.budget_epsilon))
    check.Differ("privacy.budget_mu", s.budget_epsilon, ExactEpsilon(s.budget_mu, s.delta),
                 "as budget_epsilon, and budget_mu makes it");
  v.session = fmt::format("at most {} releases a client, which used {:.1f} % of the budget", v.rounds,
                          100 * used * used / (s.budget_mu * s.budget_mu));
  return v;
}

void CompareLedger(const StatedSession& s, const std::vector<LedgerRecord>& records, Checks& check) {
  const auto at =
      std::find_if(records.begin(), records.end(), [&](const auto& r) { return r.run == s.session; });
  if (at == records.end()) return check.Add("session", Text(s.session), "none", "and in ledger.db there is");
  const char* why = "and ledger.db says";
  check.Same("data", s.data, at->data, why);
  check.Same("privacy.unit", s.unit, at->unit, why);
  check.Same("privacy.adjacency", s.adjacency, at->adjacency, why);
  check.Same("privacy.delta", s.delta, at->delta, why);
  check.Same("clients", s.clients.size(), at->spent.size(), why);
  if (at->state != "settled")
    check.Add("session", Text(s.session), Text(at->state),
              "but it leaves releases.json when it is settled; in ledger.db it is");
  for (std::size_t i = 0; i < std::min(s.clients.size(), at->spent.size()); ++i) {
    const double charged = SqrtUp(std::max(0.0, at->spent[i]));
    check.Within(fmt::format("clients[{}].mu_used", i), s.clients[i].mu, charged, 1e-12L, 1e-12L,
                 "and ledger.db was charged");
    if (i < at->budget.size())
      check.Within("privacy.budget_mu", s.budget_mu, SqrtUp(std::max(0.0, at->budget[i])), 1e-12L, 1e-12L,
                   why);
  }
}

}  // namespace

bool IsSession(const json& document) {
  if (!document.is_object() || !document.contains("format") || !document["format"].is_string()) return false;
  return document["format"].get<std::string>().starts_with("tacit-releases-");
}

Result<Verification> VerifySession(const json& document, const std::string& name) {
  TACIT_TRY(const StatedSession s, ReadSession(document, name));
  return Recompute(s, name);
}

bool IsSessionFolder(const fs::path& folder) {
  std::error_code ec;
  return fs::exists(folder / "releases.json", ec) ||
         (fs::exists(folder / "ledger.db", ec) && !fs::exists(folder / "config.toml", ec));
}

Result<Verification> VerifySessionFolder(const fs::path& folder) {
  const fs::path file = folder / "releases.json";
  std::error_code ec;
  if (!fs::exists(file, ec))
    return Fail(
        Code::kNotFound,
        "{}: no such file: the session still runs, or ended without being closed, and has no list of what it "
        "released; its whole budget is what it may have cost (`tacit ledger` has what was charged)",
        file.string());
  TACIT_TRY(const std::string bytes, ReadWhole(file, kFile));
  TACIT_TRY(const json document, ParseCertificate(bytes, file.string()));
  if (!IsSession(document))
    return Fail(Code::kMalformed, "{}: is not what a session leaves; give {}", file.string(), kFile);
  TACIT_TRY(const StatedSession s, ReadSession(document, file.string()));
  Verification v = Recompute(s, file.string());
  Checks check(v);
  v.compared.emplace_back("ledger.db");
  const auto records = SqliteVault::Read(folder / "ledger.db");
  if (!records.ok())
    check.Add("ledger.db", "a ledger", "none", records.error().message + "; it is");
  else
    CompareLedger(s, *records, check);
  return v;
}

}  // namespace tacit
