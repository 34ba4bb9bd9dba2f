#include "experiment/program_session.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/round.h"
#include "data/preprocess.h"
#include "experiment/files.h"
#include "experiment/json_number.h"
#include "experiment/plan.h"
#include "models/objective.h"
#include "privacy/bounded.h"
#include "privacy/data_ledger.h"
#include "privacy/gdp.h"
#include "privacy/ledger.h"
#include "privacy/mechanism.h"

namespace tacit {
namespace {

using nlohmann::json;
constexpr Adjacency kAdjacency = Adjacency::kReplaceOne;
constexpr std::size_t kMostRounds = 10'000'000;  // as of an experiment (algorithm.rounds)

// Releases of one client with the same noise, one after the other.
struct Stretch {
  double sigma;
  std::uint64_t count;
};

}  // namespace

struct ProgramSession::State {
  SessionOptions o;
  L2Bound clip{1.0}, sensitivity{1.0};
  std::size_t most = 0, roundings = 0;  // records of the largest client, as which every client is charged
  MuSquared budget{0.0};
  double sigma = 0;
  std::unique_ptr<Mechanism> mechanism = nullptr;
  std::unique_ptr<Objective> gradient = nullptr;
  std::unique_ptr<SqliteVault> run = nullptr;
  std::unique_ptr<DataLedger> data = nullptr;
  std::unique_ptr<Vault> vault = nullptr;
  std::unique_ptr<LedgerBook> book = nullptr;
  std::vector<std::vector<Stretch>> released = {};  // of every client
  ClipSpace space = {};
  NoiseBuffer noise = {};
  NoiseRng rng = NoiseRng::FromEntropy();
  mutable std::mutex mutex = {};
  bool closed = false, written = false;  // nothing is released any more; and Close has done all it has to
  const pid_t process = ::getpid();

  // A fork has the same generator and the same account: two processes would release with the same noise, and
  // pay once.
  Status CheckProcess() const {
    if (::getpid() == process) return Ok{};
    return Fail(
        Code::kUnsupported,
        "the session was opened by another process, of which this is a fork; release and close where it "
        "was opened, or open one here");
  }

  // The smallest σ, nearly, with which so many releases keep the budget, every charge rounded up.
  Result<double> Noise() const {
    const double each = std::sqrt(budget.value() / static_cast<double>(o.rounds));
    double s = sensitivity.value() / each, step = 0x1p-40;
    for (;; s *= 1 + step, step *= 2) {
      TACIT_TRY(const NoiseStd std, NoiseStd::Of(s));
      const MuSquared cost = Cost(mechanism->EventFor(sensitivity, std, o.dim));
      MuSquared sum{0.0};
      for (std::size_t k = 0; k < o.rounds && sum <= budget; ++k) sum = sum + cost;
      if (sum <= budget) return s;
    }
  }

  Status OpenLedgers() {
    const std::vector<MuSquared> budgets(o.records.size(), budget);
    book = std::make_unique<LedgerBook>(budgets, kAdjacency);
    if (o.folder.empty()) return Ok{};
    const std::filesystem::path folder = o.folder;
    TACIT_TRY(run, SqliteVault::Open(folder / "ledger.db",
                                     {.run = Name(),
                                      .data = o.data,
                                      .unit = "record",
                                      .mode = "certified",
                                      .adjacency = kAdjacency,
                                      .delta = o.delta},
                                     budgets));
    TACIT_TRY(data, DataLedger::Open(o.ledger, {.name = o.data, .digest = o.digest},
                                     {.run = std::filesystem::absolute(folder).lexically_normal().string(),
                                      .unit = "record",
                                      .mode = "certified",
                                      .adjacency = kAdjacency,
                                      .delta = o.delta},
                                     budget));
    vault = std::make_unique<CumulativeVault>(*run, *data);
    book->Attach(vault.get());
    return Ok{};
  }
  std::string Name() const { return std::filesystem::path(o.folder).filename().string(); }
  bool any() const {
    return std::any_of(released.begin(), released.end(), [](const auto& one) { return !one.empty(); });
  }
  double Epsilon() const { return any() ? GdpEpsilon(Root(budget), Delta::Proven(o.delta)).upper : 0.0; }
  json Certificate() const;
};

Result<std::unique_ptr<ProgramSession>> ProgramSession::Open(SessionOptions options) {
  auto s = std::make_unique<State>();
  s->o = std::move(options);
  const SessionOptions& o = s->o;
  if (!(o.clip > 0) || !(o.epsilon > 0) || o.rounds == 0 || o.dim == 0 || o.records.empty())
    return Fail(
        Code::kInvalidArgument,
        "clip = {}, epsilon = {}, rounds = {}, dimension = {}: all must be above 0, and there must be a "
        "client",
        o.clip, o.epsilon, o.rounds, o.dim);
  if (o.rounds > kMostRounds)
    return Fail(Code::kInvalidArgument, "rounds = {}: must be at most {}", o.rounds, kMostRounds);
  TACIT_TRY(s->clip, L2Bound::Of(o.clip));
  TACIT_TRY(const Delta delta, Delta::Of(o.delta));
  TACIT_TRY(const tacit::Epsilon epsilon, tacit::Epsilon::Of(o.epsilon));
  const Mu mu = GdpMu(epsilon, delta);
  if (!(mu.value() > 0) || !std::isfinite(mu.value()))
    return Fail(
        Code::kInvalidArgument,
        "epsilon = {} at delta = {}: a session needs a budget that is neither nothing nor everything; "
        "choose a finite epsilon, and a delta above 0",
        o.epsilon, o.delta);
  TACIT_TRY(s->mechanism, MakeMechanism(o.mechanism));
  if (o.mechanism == "expose")
    return Fail(
        Code::kInvalidArgument,
        "mechanism = \"expose\": no budget allows a release without noise; choose lattice_gaussian or "
        "gaussian");
  TACIT_TRY(s->gradient, MakeObjective(ModelSpec{.loss = Loss::kLeastSquares}));
  for (const std::size_t n : o.records) s->most = std::max(s->most, n);
  s->roundings = s->gradient->Roundings(s->most);
  s->sensitivity = Bounded::Sensitivity(kAdjacency, s->clip, s->most, s->roundings);
  s->budget = BudgetOf(mu);
  TACIT_TRY(s->sigma, s->Noise());
  TACIT_OK(s->mechanism->CheckRange(static_cast<double>(s->most) * o.clip, NoiseStd::Proven(s->sigma)));
  s->released.resize(o.records.size());
  TACIT_OK(s->OpenLedgers());
  return std::unique_ptr<ProgramSession>(new ProgramSession(std::move(s)));
}

ProgramSession::ProgramSession(std::unique_ptr<State> s) : s_(std::move(s)) {}
ProgramSession::~ProgramSession() {
  if (!s_->CheckProcess().ok()) s_.release();  // SQLite's connections must not be closed by a fork
}

double ProgramSession::sigma() const { return s_->sigma; }

Result<Vec> ProgramSession::Release(std::uint32_t client, std::span<const double> gradients, std::size_t rows,
                                    std::optional<double> sigma) {
  State& s = *s_;
  TACIT_OK(s.CheckProcess());
  if (client >= s.o.records.size())
    return Fail(Code::kInvalidArgument, "client {}: there are {}, counted from 0", client,
                s.o.records.size());
  if (gradients.size() != rows * s.o.dim || rows > s.o.records[client])
    return Fail(
        Code::kInvalidArgument,
        "gradients of client {}: are {} x {}, and must have {} columns and at most {} rows, one a record",
        client, rows, rows == 0 ? 0 : gradients.size() / rows, s.o.dim, s.o.records[client]);
  NoiseStd std = NoiseStd::Proven(s.sigma);
  if (sigma) {
    TACIT_TRY(std, NoiseStd::Of(*sigma));
    TACIT_OK(s.mechanism->CheckRange(static_cast<double>(s.most) * s.o.clip, std));
  }
  const std::lock_guard lock(s.mutex);
  if (s.closed) return Fail(Code::kBudget, "the session is closed; open another one");
  Dataset data;
  data.features = s.o.dim;
  data.value.assign(gradients.begin(), gradients.end());
  data.label.assign(rows, -1.0);
  data.charged_terms = s.most;
  PreprocessOptions as_they_are;
  as_they_are.labels = LabelKind::kReal;
  TACIT_OK(Preprocess(as_they_are, data));
  const Vec zero(s.o.dim, 0.0);
  Released<Vec> released;
  const Private<Shard> own(Shard(data, 0, data.rows()));
  TACIT_OK(s.mechanism->Release(Bounded::ClippedSum(own, *s.gradient, zero, s.clip, s.space), std,
                                s.book->account(client), s.rng, s.noise, released));
  std::vector<Stretch>& past = s.released[client];
  if (past.empty() || past.back().sigma != std.value()) past.push_back({std.value(), 0});
  ++past.back().count;
  return *released;
}

double ProgramSession::Epsilon() const {
  const std::lock_guard lock(s_->mutex);
  return s_->Epsilon();
}

double ProgramSession::Used() const {
  const std::lock_guard lock(s_->mutex);
  return s_->book->largest_spent().value() / s_->budget.value();
}

json ProgramSession::Certificate() const {
  const std::lock_guard lock(s_->mutex);
  return s_->Certificate();
}

json ProgramSession::State::Certificate() const {
  json clients = json::array();
  for (std::uint32_t i = 0; i < o.records.size(); ++i) {
    json sigmas = json::array(), counts = json::array();
    for (const Stretch& one : released[i]) {
      sigmas.push_back(one.sigma);
      counts.push_back(one.count);
    }
    clients.push_back({{"records", o.records[i]},
                       {"releases", book->account(i).charges()},
                       {"sigma", sigmas},
                       {"count", counts},
                       {"mu_used", Root(book->account(i).spent()).value()}});
  }
  json caveats = json::array();
  if (!mechanism->caveat().empty()) caveats.push_back(std::string(mechanism->caveat()));
  return {
      {"format", "tacit-releases-2"},
      {"tacit", TACIT_VERSION},
      {"session", Name()},
      {"data", o.data},
      {"privacy",
       {{"certified_epsilon", Number(Epsilon())},
        {"delta", o.delta},
        {"budget_epsilon", o.epsilon},
        {"budget_mu", Root(budget).value()},
        {"unit", "record"},
        {"adjacency", tacit::Name(kAdjacency)},
        {"protects", "one record of one client, in everything that was released for that client"},
        {"assumes",
         "every row handed over for a client is the gradient of one record of that client, no record has two "
         "in one release, and a row depends on no other record but through what was released; what the "
         "program shows of its rows by other ways is not covered"},
        {"composition",
         "exact Gaussian differential privacy of the whole budget, which counts from the first release on: "
         "what is released next, and when it ends, may depend on what was released"}}},
      {"enforced",
       {{"clip", o.clip},
        {"dimension", o.dim},
        {"most_records", most},
        {"roundings", roundings},
        {"sensitivity", sensitivity.value()},
        {"charged_before_release", true}}},
      {"mechanism", {{"name", mechanism->name()}, {"noise", "entropy"}, {"sigma_planned", sigma}}},
      {"clients", clients},
      {"caveats", caveats}};
}

Status ProgramSession::Close() {
  State& s = *s_;
  TACIT_OK(s.CheckProcess());
  const std::lock_guard lock(s.mutex);
  if (s.written) return Ok{};
  s.closed = true;
  if (s.vault) {
    TACIT_OK(s.run->Settle(*s.book));
    TACIT_OK(s.data->Settle(s.book->largest_spent()));
    TACIT_OK(WriteWhole(std::filesystem::path(s.o.folder) / "releases.json", s.Certificate().dump(2) + "\n"));
  }
  s.written = true;
  return Ok{};
}

std::string SessionText(const json& c) {
  const json &privacy = c.at("privacy"), &enforced = c.at("enforced");
  std::uint64_t releases = 0;
  double used = 0;
  for (const json& one : c.at("clients")) {
    releases += one.at("releases").get<std::uint64_t>();
    used = std::max(used, one.at("mu_used").get<double>());
  }
  const double budget = privacy.at("budget_mu").get<double>();
  const double epsilon = privacy.at("certified_epsilon").get<double>();
  std::string out = "PRIVACY CERTIFICATE OF A SESSION\n";
  const auto row = [&](const char* name, const std::string& value) {
    out += fmt::format("  {:<17} {}\n", name, value);
  };
  if (const std::string name = c.at("session").get<std::string>(); !name.empty()) row("session", name);
  row("data", c.at("data").get<std::string>());
  row("certified", fmt::format("epsilon = {:.4f}  at delta = {:g}", std::ceil(epsilon * 1e4) / 1e4,
                               privacy.at("delta").get<double>()));
  row("unit, adjacency", fmt::format("{}, {}", privacy.at("unit").get<std::string>(),
                                     privacy.at("adjacency").get<std::string>()));
  row("mechanism", fmt::format("{}, noise from the operating system's entropy",
                               c.at("mechanism").at("name").get<std::string>()));
  row("enforced", fmt::format("every gradient is clipped to {}", enforced.at("clip").get<double>()));
  row("released", fmt::format("{} sums for {} clients, {:.0f} % of the budget of the one with the most",
                              releases, c.at("clients").size(), 100 * used * used / (budget * budget)));
  row("protects", privacy.at("protects").get<std::string>());
  row("assumes", privacy.at("assumes").get<std::string>());
  for (const json& one : c.at("caveats")) row("caveat", one.get<std::string>());
  return out;
}

}  // namespace tacit
