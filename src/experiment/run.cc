#include "experiment/run.h"

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/sha256.h"
#include "data/catalogue.h"
#include "data/memory.h"
#include "data/npy.h"
#include "experiment/feedback_plan.h"
#include "experiment/files.h"
#include "experiment/finished.h"
#include "experiment/json_number.h"
#include "experiment/network_plan.h"
#include "experiment/second_order_plan.h"
#include "experiment/session.h"
#include "privacy/event_json.h"
#include "privacy/gdp.h"
#include "runtime/link.h"
#include "runtime/ranks.h"

namespace tacit {

namespace fs = std::filesystem;
using nlohmann::json;

DataSetId IdOf(const Config& c) {
  constexpr std::uintmax_t kLargest = std::uintmax_t{1} << 30;      // larger files go by their path
  DataSetId id{.name = c.data.id, .digest = {}};
  const std::string& source = c.data.source;
  if (IsSynthetic(source)) {
    if (id.name.empty())
      id.name = fmt::format("{} {}x{} seed {}", source, c.data.rows, c.data.features, c.experiment.seed);
    return id;
  }
  if (FindSet(source) != nullptr) {
    if (id.name.empty()) id.name = source;
    return id;
  }
  if (IsMemory(source)) {
    // Of rows without a name of their own all that is known is their public shape: sets of one shape count as
    // one.
    if (id.name.empty()) id.name = fmt::format("{} {}x{}", source, c.data.rows, c.data.features);
    id.digest = MemoryDigest(source);
    return id;
  }
  std::error_code ec;
  if (id.name.empty()) {
    const fs::path full = fs::canonical(source, ec);
    id.name = ec ? source : full.string();
  }
  if (fs::is_regular_file(source, ec))
    if (const auto bytes = ReadWhole(source, kLargest); bytes.ok()) id.digest = Sha256::Hex(*bytes);
  return id;
}

namespace {

// Whether both name the same content: one file, copies of a file, or equal rows in memory.
bool SameContent(const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (IsOffered(a) || IsOffered(b)) return IsOffered(a) && IsOffered(b) && MemoryDigest(a) == MemoryDigest(b);
  std::error_code ec;
  if (fs::equivalent(a, b, ec)) return true;
  const std::uintmax_t size = fs::file_size(a, ec);
  if (ec || fs::file_size(b, ec) != size || ec) return false;
  constexpr std::size_t kPart = std::size_t{1} << 20;
  std::ifstream first(a, std::ios::binary), second(b, std::ios::binary);
  std::vector<char> x(kPart), y(kPart);
  do {
    first.read(x.data(), kPart);
    second.read(y.data(), kPart);
    if (first.gcount() != second.gcount() || !std::equal(x.begin(), x.begin() + first.gcount(), y.begin()))
      return false;
  } while (first && second);
  return first.eof() && second.eof();
}

// output/name-20260102T030405[-2], made so that two runs never share one.
Result<fs::path> MakeFolder(const Config& c) {
  std::string name = c.experiment.name;
  if (name.empty()) name = c.file.empty() ? c.algorithm.name : c.file.stem().string();
  if (name.find('/') != std::string::npos || name.front() == '.')
    return Fail(
        Code::kInvalidArgument,
        "experiment.name = \"{}\": names a folder within experiment.output; use no / and no leading dot",
        name);
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%S", &utc);
  std::error_code ec;
  fs::create_directories(c.experiment.output, ec);
  for (int k = 1; k < 1000; ++k) {
    const fs::path folder =
        fs::path(c.experiment.output) / (name + "-" + stamp + (k == 1 ? "" : fmt::format("-{}", k)));
    if (fs::create_directory(folder, ec)) return folder;
    if (ec) break;
  }
  return Fail(
      Code::kIo,
      "{}: no run folder can be made there ({}); set experiment.output to a folder that can be written",
      c.experiment.output, ec ? ec.message() : "too many runs this second");
}

std::vector<std::size_t> ModelShape(const Config& c, std::size_t dim, std::size_t outputs) {
  if (c.model.name == "softmax") return {outputs, dim / outputs};
  return {dim};
}

// What the data-dependent parts of a config are: the key under which an optimum is shared.
std::string ProblemKey(const Config& c) {
  const std::string all = ToToml(c);
  const auto from = all.find("[data]"), to = all.find("[privacy]");
  return all.substr(from, to - from) +
         fmt::format("seed = {}",
                     c.experiment.seed * (c.data.split == "blocks" && !IsSynthetic(c.data.source) ? 0 : 1));
}

// The shape that was planned with must be the shape that is there.
Status CheckFacts(const PublicFacts& planned, const PublicFacts& real, const Config& c) {
  const auto differ = [&](const char* what, std::size_t a, std::size_t b, const char* key) {
    return Fail(Code::kInvalidArgument, "{}: planned with {} {} and found {}; set {} = {}", c.data.source, a,
                what, b, key, b);
  };
  if (planned.clients != real.clients)
    return differ("clients", planned.clients, real.clients, "data.clients");
  if (planned.features != real.features)
    return differ("features", planned.features, real.features, "data.features");
  if (c.privacy.unit == "person") return Ok{};  // rows beyond a person's limit are dropped without a word
  if (planned.rows != real.rows) return differ("rows", planned.rows, real.rows, "data.rows");
  return Ok{};
}

// Where the runs on a data set add up.
fs::path LedgerFile(const Config& c) {
  if (!c.experiment.ledger.empty()) return c.experiment.ledger;
  return DefaultLedger(c.experiment.output);
}

// Who took part how often, and the ε that follows: of a sample that everybody may see. Where the run was
// stopped the ε is that of all turns, as in the certificate: when it stopped may depend on what it released.
std::string Participation(const Session& s, const RunResult& r) {
  const bool whole = r.interrupted && r.rounds_done > 0;
  std::vector<double> of_plan(r.plan.noise.size());
  for (const Releases& one : r.releases) of_plan[one.noise] = one.epsilon;
  std::string text = "client,rounds,epsilon\n";
  std::map<double, double> known;  // ε by μ²
  for (std::uint32_t i = 0; i < s.attended.size(); ++i) {
    const MuSquared spent = s.book->account(i).spent();
    const auto [at, fresh] = known.try_emplace(spent.value(), 0.0);
    if (fresh) at->second = GdpEpsilon(Root(spent), Delta::Proven(r.plan.delta)).upper;
    text += fmt::format("{},{},{}\n", i, s.attended[i], whole ? of_plan[r.plan.noise_of[i]] : at->second);
  }
  return text;
}

// Clients' weights, runs of equal ones; ascending.
std::string Weights(const Plan& p, std::span<const std::size_t> records) {
  std::string text = "clients,records,weight\n";
  for (std::size_t i = 0; i < records.size();) {
    std::size_t j = i + 1;
    while (j < records.size() && records[j] == records[i]) ++j;
    text += fmt::format("{},{},{}\n", j - i, records[i], p.weights[i]);
    i = j;
  }
  return text;
}

// λ₁ = 0.001‖Xᵀy‖∞ of all records, as every peer's part of it: private, and charged as such.
double WeightFromData(const Dataset& d, std::size_t peers) {
  Vec sum(d.features);
  const Shard all(d, 0, d.rows());
  for (std::size_t l = 0; l < d.rows(); ++l) {
    const Row row = all.row(l);
    for (std::size_t j = 0; j < row.size; ++j)
      sum[row.index == nullptr ? j : row.index[j]] += row.value[j] * all.label(l);
  }
  double most = 0;
  for (const double v : sum) most = std::max(most, std::abs(v));
  return std::isfinite(most) ? 0.001 * most / static_cast<double>(peers) : 0.0;
}

// What clients elsewhere have paid, by the plan: their own ledgers know it exactly.
void NoteCharges(Session& s, std::size_t rounds) {
  if (s.plan.account) return;  // paid as a whole
  const auto charges = PlannedCharges(s);
  for (std::uint32_t i = 0; i < s.plan.clients; ++i) {
    MuSquared sum{0.0};
    const std::size_t paid = s.plan.turns != 0 ? std::min<std::size_t>(s.attended[i], rounds) : rounds;
    for (std::size_t k = 0; k < paid; ++k) sum = sum + charges[s.plan.noise_of[i]][k];
    s.book->account(i).Restore(sum);
  }
}

// Everything before the first round. real: the shape of the data that were found.
Status Prepare(Session& s, RunResult& r, FolderLock& lock, PublicFacts& real, const fs::path& resume,
               const Apart* apart) {
  const Config& config = s.config;
  const TrainHooks& hooks = s.hooks;
  s.replay_seed = hooks.noise_seed;
  auto planned = FactsWithoutData(config);
  if (apart != nullptr) {
    planned = apart->facts;
    s.link = apart->link;
  }
  std::error_code ec;  // a path that cannot be looked at is a path that is not there
  const bool is_file = !IsSynthetic(config.data.source) && FindSet(config.data.source) == nullptr;
  const bool shape_in_file = !planned.ok() && !config.data.source.empty() &&
                             (config.data.rows == 0 || config.data.features == 0) && is_file &&
                             (IsOffered(config.data.source) || fs::exists(config.data.source, ec));
  if (is_file && !config.data.test.empty() && SameContent(config.data.test, config.data.source))
    return Fail(Code::kInvalidArgument,
                "data.test = \"{}\" is the training data: test data must be public; name other data, or set "
                "experiment.oracle = true for a simulation",
                config.data.test);
  if (!planned.ok() && !shape_in_file) {
    // A file that is not there is a better complaint than a shape that is not known.
    if (!config.data.source.empty() && (config.data.rows == 0 || config.data.features == 0)) {
      TACIT_TRY([[maybe_unused]] Dataset data, LoadSource(config, config.data.source, Role::kTrain, {}));
    }
    return planned.error();
  }
  if (!planned.ok() && config.privacy.unit == "person")
    return Fail(Code::kInvalidArgument,
                "privacy.unit = \"person\": hides how many records a person has, so the shape must not come "
                "from the file; set data.rows and data.features as public constants");
  if (!planned.ok() && config.privacy.adjacency == Name(Adjacency::kAddOrRemove))
    return Fail(Code::kInvalidArgument,
                "privacy.adjacency = \"add-remove\": hides how many records there are, so that number must "
                "not come from "
                "the file; set data.rows and data.features as public constants, or use replace-one");
  if (planned.ok()) {
    s.facts = *planned;
    if (apart != nullptr) {
      s.plan = apart->plan;
    } else {
      TACIT_TRY(s.plan, MakePlan(config, s.facts));
    }
    if (hooks.planned) hooks.planned(s.plan);
  }
  real = s.facts;
  if (apart == nullptr) {
    TACIT_TRY(s.partition, LoadPartition(config, s.facts));
    real = FactsOf(s.partition, s.facts.classes);
  }
  if (planned.ok()) {
    TACIT_OK(CheckFacts(s.facts, real, config));
  } else {
    if (s.partition.data.sparse() && config.data.features == 0)
      return Fail(Code::kInvalidArgument,
                  "data.features is not set: {} is sparse, and the largest index in it would be read off "
                  "private rows; give the number "
                  "of features as a public constant",
                  config.data.source);
    s.facts = real;  // the shape of the file, and nothing else of it
    TACIT_TRY(s.plan, MakePlan(config, s.facts));
    if (hooks.planned) hooks.planned(s.plan);
  }
  if (s.plan.charges_units()) s.partition.data.charged_terms = s.plan.units;
  if (s.plan.by_records) SetWeights(s.plan, real.records);  // public, as the config declares
  TACIT_TRY(s.objective, BuildObjective(config, s.facts));
  if (apart == nullptr) KeepEntriesFor(*s.objective, s.partition);
  Config weighted = config;  // paper mode may take the weight of its penalty from the data
  if (config.model.weight_rule == "data")
    weighted.model.weight = WeightFromData(s.partition.data, s.plan.clients);
  TACIT_TRY(s.regularizer, BuildRegularizer(weighted));
  if (!s.plan.randomizer && !s.plan.secure) {
    TACIT_TRY(s.mechanism, MakeMechanism(config.privacy.mechanism));
  }
  if (!config.data.test.empty() && !s.aside()) {
    PublicFacts shape = s.facts;
    TACIT_TRY(s.test, LoadSource(config, config.data.test, Role::kTest, shape));
    if (s.test->features != s.facts.features)
      return Fail(Code::kInvalidArgument,
                  "data.test = \"{}\": has {} features and the training data {}; set data.features",
                  config.data.test, s.test->features, s.facts.features);
  }
  if (config.experiment.oracle && !s.aside()) {
    s.oracle = std::make_unique<Oracle>(s.partition, *s.objective, *s.regularizer, config.model.l2,
                                        ProblemKey(config));
    TACIT_OK(s.oracle->Prepare());
  }

  if (s.plan.secret())
    s.sampler = std::make_unique<SecretSampler>(
        s.plan.sampling, static_cast<std::uint32_t>(s.plan.clients),
        config.privacy.noise == "replayable" ? std::optional(ReplaySeed(s)) : std::nullopt);
  s.book = s.plan.account ? std::make_unique<LedgerBook>(s.plan.clients, *s.plan.account, s.sampler.get())
                          : std::make_unique<LedgerBook>(s.plan.budgets, s.plan.adjacency);
  if (hooks.write_folder && !s.aside()) {
    if (s.resuming) {
      r.folder = resume;
    } else if (apart != nullptr) {
      r.folder = apart->folder;
    } else {
      TACIT_TRY(r.folder, MakeFolder(config));
    }
    TACIT_OK(lock.Take(r.folder));
    r.run = r.folder.filename().string();
    if (!s.resuming) TACIT_OK(WriteWhole(r.folder / "config.toml", ToToml(config)));
    if (s.plan.network) TACIT_OK(KeepGraph(s.plan.network->graph, r.folder));
    const std::string unit = s.plan.by_client()
                                 ? ClientUnitText(config)
                                 : UnitText(s.plan.unit, s.plan.person_bound, s.plan.records_per_person);
    TACIT_TRY(s.run_vault, SqliteVault::Open(r.folder / "ledger.db",
                                             {.run = r.run,
                                              .data = config.data.source,
                                              .unit = unit,
                                              .mode = config.algorithm.mode,
                                              .adjacency = s.plan.adjacency,
                                              .delta = s.plan.delta,
                                              .plan = PlanEvents(s.plan),
                                              .plan_epsilon = s.plan.account ? s.plan.certified_epsilon : 0},
                                             s.plan.budgets));
    TACIT_TRY(s.data_ledger,
              DataLedger::Open(
                  LedgerFile(config), IdOf(config),
                  {.run = fs::absolute(r.folder, ec).lexically_normal().string(),
                   .unit = s.plan.by_client() ? unit : s.plan.unit,
                   .mode = config.algorithm.mode,
                   .adjacency = s.plan.adjacency,
                   .delta = s.plan.delta,
                   .plan_epsilon = s.plan.account ? std::optional(s.plan.certified_epsilon) : std::nullopt},
                  PlannedCost(s)));
    s.vault = std::make_unique<CumulativeVault>(*s.run_vault, *s.data_ledger);
  } else {
    r.run = config.experiment.name.empty() ? config.algorithm.name : config.experiment.name;
  }
  return Ok{};
}

// What all ranks of a run must have found alike: rows and, where noise is replayable, what they hold.
Sha256::Digest FoundDigest(Session& s, const PublicFacts& real) {
  Sha256 hash;
  hash.Add(fmt::format("{} rows, {} features, {} clients", real.rows, real.features, real.clients));
  for (const std::size_t n : real.records) hash.Add(fmt::format(",{}", n));
  if (s.config.privacy.noise == "replayable") {
    s.replay_seed = ReplaySeed(s);  // all rows are read for it, once
    hash.Add(fmt::format(" seed {}", *s.replay_seed));
  }
  return hash.Finish();
}

// resume: a folder to go on with, or empty. apart: this is the server of clients elsewhere, or null.
Result<RunResult> Execute(const Config& config, const TrainHooks& hooks, const fs::path& resume,
                          const Apart* apart) {
  Session s{.config = config, .hooks = hooks, .resuming = !resume.empty()};
  RunResult r;
  FolderLock lock;
  PublicFacts real;
  std::error_code ec;
  if (s.ranks() == nullptr) {
    TACIT_OK(Prepare(s, r, lock, real, resume, apart));
  } else {
    TACIT_OK(
        s.ranks()->Agree(Ok{}, ConfigDigest(config), "is of another version, or has another experiment"));
    const Status ready = Prepare(s, r, lock, real, resume, apart);
    TACIT_OK(s.ranks()->Agree(ready, ready.ok() ? FoundDigest(s, real) : Sha256::Digest{},
                              "has found other data"));
  }

  TACIT_OK(Launch(s, r));
  if (s.aside()) return r;

  Certify(s, r, real.records, *s.book);
  if (apart != nullptr && s.plan.trust == "central") r.trusted_server = apart->link->server();
  if (apart != nullptr && s.plan.trust != "central") NoteCharges(s, r.rounds_done);
  TACIT_OK(WriteResult(s, r, real.records));
  if (!r.folder.empty() && !r.interrupted) fs::remove(r.folder / "checkpoint", ec);  // none: it is done
  return r;
}

}  // namespace

namespace {

// A run without a checkpoint begins anew, which is right only if nothing had left: whatever left, left after
// a checkpoint, and a second first round would be a release that nobody pays for.
Status CheckNothingLeft(const fs::path& folder) {
  std::error_code ec;
  if (fs::exists(folder / "checkpoint", ec)) return Ok{};
  bool left = fs::exists(folder / "trace.jsonl", ec) && fs::file_size(folder / "trace.jsonl", ec) > 0;
  // A ledger that was not yet whole when the process died has nothing in it; a damaged one is refused later.
  if (const auto records = SqliteVault::Read(folder / "ledger.db"); records.ok())
    for (const LedgerRecord& one : *records) left |= one.state == "settled" || one.rounds_released > 0;
  if (!left) return Ok{};
  return Fail(
      Code::kInvalidArgument,
      "{}: the run has released values and its checkpoint is gone, so it cannot go on without releasing them "
      "again; put the file checkpoint back, or start a new run with `tacit train`",
      folder.string());
}

}  // namespace

Status KeepGraph(const Graph& graph, const fs::path& folder) {
  const std::string edges = EdgeList(graph);
  std::error_code ec;
  if (!fs::exists(folder / "graph.txt", ec)) return WriteWhole(folder / "graph.txt", edges);
  TACIT_TRY(const std::string kept, ReadWhole(folder / "graph.txt"));
  if (kept == edges) return Ok{};
  return Fail(Code::kInvalidArgument,
              "{}: the network has changed since the run began; put network.file back as it was, or start "
              "again with `tacit train`",
              folder.string());
}

void Certify(const Session& s, RunResult& r, std::vector<std::size_t> records, const LedgerBook& book) {
  records.resize(s.plan.clients);
  // When a run stops early may depend on what it released, so then the whole plan counts; but a run that
  // released nothing tells nothing.
  const bool whole = s.plan.account || (r.interrupted && r.rounds_done > 0);
  r.releases = s.plan.network ? NetworkReleases(s.plan, *s.objective, *s.mechanism, book, records,
                                                whole ? s.plan.schedule.size() : r.rounds_done)
                              : MakeReleases(s.plan, *s.objective, s.mechanism.get(), book, records,
                                             whole ? s.plan.schedule.size() : r.rounds_done,
                                             whole ? std::span<const std::uint32_t>() : s.attended);
  for (const Releases& one : r.releases) r.mu = std::max(r.mu, one.mu);
  const Interval epsilon = GdpEpsilon(Mu::Proven(r.mu), Delta::Proven(s.plan.delta));
  r.certified_epsilon = epsilon.upper;
  r.certified_epsilon_lower = epsilon.lower;
  if (s.plan.account) {
    r.certified_epsilon = s.plan.certified_epsilon;
    r.certified_epsilon_lower = s.plan.certified_epsilon_lower;
  }
  if (r.interrupted) r.certified_epsilon_lower = 0;
  r.claimed_epsilon = s.plan.claimed_epsilon;
  r.replayable = s.config.privacy.noise == "replayable";
  if (s.oracle) r.oracle_metrics = s.oracle->answered();
}

Status WriteResult(Session& s, RunResult& r, std::vector<std::size_t> records) {
  records.resize(s.plan.clients);
  r.plan = std::move(s.plan);
  const auto shape = ModelShape(s.config, r.model.size(), s.objective->outputs());
  r.model_sha256 = Sha256::Hex(NpyBytes(shape, r.model));
  if (!r.folder.empty()) {
    TACIT_OK(s.run_vault->Settle(*s.book));
    TACIT_OK(s.data_ledger->Settle(s.book->largest_spent()));
    TACIT_OK(WriteNpy(r.folder / "model.npy", shape, r.model));
    if (!s.attended.empty()) TACIT_OK(WriteWhole(r.folder / "participation.csv", Participation(s, r)));
    if (r.plan.by_records) TACIT_OK(WriteWhole(r.folder / "weights.csv", Weights(r.plan, records)));
    const json certificate = Certificate(r, s.config);
    TACIT_OK(WriteWhole(r.folder / "certificate.json", CertificateJson(certificate)));
    TACIT_OK(WriteWhole(r.folder / "certificate.txt", CertificateText(certificate)));
    TACIT_OK(WriteWhole(r.folder / "result.json", ToJson(r, s.config).dump(2) + "\n"));
  }
  return Ok{};
}

Result<RunResult> Train(const Config& config, const TrainHooks& hooks) {
  return Execute(config, hooks, {}, nullptr);
}

Result<RunResult> Execute(const Config& config, const TrainHooks& hooks, const Apart& apart) {
  std::error_code ec;
  if (!fs::exists(apart.folder / "config.toml", ec)) {
    fs::create_directories(apart.folder, ec);
    return Execute(config, hooks, {}, &apart);
  }
  TACIT_TRY(const Config kept, ConfigToResume(apart.folder, {}));
  if (ConfigDigest(kept) != ConfigDigest(config))
    return Fail(Code::kInvalidArgument,
                "{}: holds a run of another job; put the job back as it was, or name another folder",
                apart.folder.string());
  TACIT_OK(CheckNothingLeft(apart.folder));
  return Execute(config, hooks, apart.folder, &apart);
}

Result<RunResult> Resume(const fs::path& given, const std::vector<Assignment>& sets,
                         const TrainHooks& hooks) {
  // "runs/name/" and "runs/./name" are the run "runs/name": its name is what the ledgers know it by.
  fs::path folder = given.lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  TACIT_TRY(const Config asked, ConfigToResume(folder, sets));
  TACIT_OK(CheckNothingLeft(folder));
  TACIT_TRY(const Config config, ConfigToResume(folder, {}));  // the certificate names the run's own
  TrainHooks here = hooks;
  here.write_folder = true;
  here.threads = static_cast<unsigned>(asked.runtime.threads);
  return Execute(config, here, folder, nullptr);
}

Result<Config> ConfigToResume(const fs::path& folder, const std::vector<Assignment>& sets) {
  std::error_code ec;
  if (!fs::is_directory(folder, ec))
    return Fail(Code::kNotFound, "{}: no such run folder; give the folder that `tacit train` wrote",
                folder.string());
  if (!fs::exists(folder / "config.toml", ec))
    return Fail(
        Code::kNotFound,
        "{}: has no config.toml: the run ended before it began, and nothing was released; start again "
        "with `tacit train`",
        folder.string());
  TACIT_TRY(const bool finished, IsFinished(folder));
  if (finished)
    return Fail(Code::kInvalidArgument, "{}: the run is finished; its result is in {}", folder.string(),
                (folder / "result.json").string());
  if (!fs::exists(folder / "checkpoint", ec) && fs::exists(folder / "result.json", ec))
    return Fail(Code::kInvalidArgument,
                "{}: the run was stopped, and its checkpoint is gone; put the newest back, or begin another "
                "run",
                folder.string());
  for (const Assignment& a : sets)
    if (!a.key.starts_with("runtime."))
      return Fail(Code::kInvalidArgument,
                  "{} = {}: a run goes on as it began; only runtime.* may change when it is resumed", a.key,
                  a.value);
  return LoadConfig(folder / "config.toml", sets);
}

fs::path DefaultLedger(const fs::path& output) {
  const char* given = std::getenv("TACIT_LEDGER");  // NOLINT(concurrency-mt-unsafe)
  return given != nullptr && *given != '\0' ? fs::path(given) : output / "ledger.db";
}

json SamplingJson(const Plan& p) {
  if (p.sampling.kind == SampleKind::kFull) return nullptr;
  return {{"kind", Name(p.sampling.kind)},
          {"rate", p.sampling.rate.value()},
          {"clients", p.sampling.kind == SampleKind::kFixed ? json(p.sampling.size) : json(nullptr)},
          {"participations", p.turns != 0 ? json(p.turns) : json(nullptr)},
          {"secret", p.secret()}};
}

json WeightsJson(const Plan& p) {
  if (!p.by_records) return nullptr;
  return {{"by", "records"},
          {"most_records", p.weights.empty() ? json(nullptr) : json(p.most_records)},
          {"total", p.weights.empty() ? json(nullptr) : json(p.everyone)}};
}

json MaskedJson(const Plan& p) {
  if (!p.secure) return nullptr;
  const Quorum& q = p.secure->quorum();
  return {{"survivors", q.minimum},     {"colluding", q.colluding},
          {"threshold", q.threshold()}, {"grid_exponent", p.secure->grid_exponent()},
          {"bits", p.secure->bits()},   {"noise_of_a_client", p.secure->share().value()}};
}

std::string PlanEvents(const Plan& p) {
  return p.account ? WriteEvents(*p.account, Delta::Proven(p.delta)) : "";
}

json AccountJson(const Plan& p) {
  if (!p.account) return nullptr;
  return {{"events", json::parse(PlanEvents(p)).at("events")},
          {"epsilon", Number(p.certified_epsilon)},
          {"epsilon_lower", Number(p.certified_epsilon_lower)},
          {"method", p.method}};
}

namespace {
constexpr std::pair<const char*, std::optional<double> Metrics::*> kMetrics[] = {
    {"optimality", &Metrics::optimality},
    {"consensus", &Metrics::consensus},
    {"error", &Metrics::error},
    {"primal_residual", &Metrics::primal_residual},
    {"dual_residual", &Metrics::dual_residual},
    {"loss", &Metrics::loss},
    {"accuracy", &Metrics::accuracy},
    {"train_loss", &Metrics::train_loss},
    {"train_accuracy", &Metrics::train_accuracy},
    {"step_size", &Metrics::step_size},
    {"mean_square", &Metrics::mean_square},
    {"tail_accuracy", &Metrics::tail_accuracy},
    {"tail_loss", &Metrics::tail_loss},
};
}  // namespace

json ToJson(const Metrics& m) {
  json j = json::object();
  for (const auto& [key, of] : kMetrics)
    if (m.*of) j[key] = Number(*(m.*of));
  return j;
}

Metrics MetricsOf(const json& j) {
  Metrics m;
  for (const auto& [key, of] : kMetrics)
    if (j.is_object() && j.contains(key)) m.*of = NumberOf(j[key]);
  return m;
}

json Missed(const Answers& a) {
  json j = json::object();
  if (a.absent > 0) j["absent"] = a.absent;
  if (a.wrong_length > 0) j["wrong_length"] = a.wrong_length;
  if (a.not_finite > 0) j["not_finite"] = a.not_finite;
  return j;
}

json ToJson(const RunResult& r, const Config& c) {
  const bool poisson =
      r.plan.second_order && r.plan.second_order->options.sampling.sample.kind == SampleKind::kPoisson;
  return {{"run", r.run},
          {"folder", r.folder.empty() ? json(nullptr) : json(r.folder.string())},
          {"algorithm", r.plan.algorithm},
          {"mode", r.plan.mode},
          {"rounds", r.rounds_done},
          {"rounds_planned", r.plan.rounds},
          {"rounds_skipped", r.plan.skipped},
          {"interrupted", r.interrupted},
          {"clients", r.plan.clients},
          {"dimension", r.plan.dim},
          {"seed", c.experiment.seed},
          {"metrics", ToJson(r.metrics)},
          {"privacy",
           {{"unit", r.plan.unit},
            {"adjacency", Name(r.plan.adjacency)},
            {"delta", r.plan.delta},
            {"certified_epsilon", Number(r.certified_epsilon)},
            {"certified_epsilon_lower", Number(r.certified_epsilon_lower)},
            {"claimed_epsilon", Number(r.claimed_epsilon)},
            {"mu", Number(r.mu)},
            {"sampling", SamplingJson(r.plan)},
            {"weights", WeightsJson(r.plan)},
            {"mechanism", r.plan.mechanism},
            {"noise", c.privacy.noise},
            {"oracle", r.oracle_metrics}}},
          {"bytes_up", r.bytes_up},
          {"bytes_down", r.bytes_down},
          {"missed", Missed(r.answers)},
          // How long a run took tells how many took part, or how many records a sample had.
          {"seconds", r.plan.secret() || poisson ? json(nullptr) : json(r.seconds)},
          {"threads", r.threads},
          {"ranks", r.ranks},
          {"model_sha256", r.model_sha256}};
}

json FeedbackJson(const Plan& p) {
  if (!p.feedback) return nullptr;
  const FeedbackPlan& f = *p.feedback;
  const bool clip21 = f.design == FeedbackDesign::kClip21, radii = f.design == FeedbackDesign::kPrivate;
  return {{"design", Name(f.design)},
          {"state", f.state},
          {"compressor", clip21 ? json(nullptr) : json(f.compressor.text())},
          {"noise", clip21          ? "after the clip"
                    : f.noise_first ? "before the compressor"
                                    : "after the compressor"},
          {"sampled_records", p.sampled_records != 0 ? json(p.sampled_records) : json(nullptr)},
          {"least_records", p.sampled_records != 0 ? json(p.least_records) : json(nullptr)},
          {"record_rate", p.sampled_records != 0 ? json(p.record_rate) : json(nullptr)},
          {"schedule", f.schedule.empty() ? json(nullptr) : json(f.schedule)},
          {"radius_ratio", radii ? json(f.radius_ratio) : json(nullptr)},
          {"radius_rule", radii ? json(f.follow > 0 ? "trajectory" : "planned") : json(nullptr)}};
}

namespace {
json FeedbackWithTheory(const Plan& p) {
  json j = FeedbackJson(p);
  if (j.is_null()) return j;
  const FeedbackPlan& f = *p.feedback;
  j["alpha"] = f.alpha;
  j["theta"] = Number(f.theta);
  j["rounds_printed"] = Number(f.rounds_printed);
  j["rounds_by_levels"] = Number(f.rounds_by_levels);
  j["least_epsilon"] = Number(f.least_epsilon);
  j["floor"] = Number(f.floor);
  j["message_bytes"] = f.message;
  if (f.radii)
    j["noise_of_radii"] = {
        {"sum", f.radii->sum}, {"total", f.radii->total}, {"equal_split", f.radii->equal_split}};
  for (const char* key : {"gamma", "radius"}) {
    const Vec& of = std::string_view(key) == "gamma" ? f.gamma : f.radius;
    j[key] = {{"first", of.front()}, {"last", of.back()}};
  }
  return j;
}
}  // namespace

json ToJson(const Plan& p) {
  json rounds = json::array();
  for (const PlannedRound& r : p.schedule)
    rounds.push_back({{"round", r.round},
                      {"share", r.share},
                      {"mu", Number(r.mu)},
                      {"sigma", r.sigma},
                      {"noise_on_mean", r.noise_on_mean}});
  json allocations = json::array();
  for (const Plan::Allocation& a : p.allocations)
    allocations.push_back(
        {{"name", a.name}, {"noise_at_end", Number(a.last)}, {"mean_noise", Number(a.mean)}});
  return {{"algorithm", p.algorithm},
          {"paper", p.paper},
          {"mode", p.mode},
          {"mechanism", p.mechanism},
          {"unit", p.unit},
          {"person_bound", p.person_bound.empty() ? json(nullptr) : json(p.person_bound)},
          {"records_per_person", p.records_per_person == 0 ? json(nullptr) : json(p.records_per_person)},
          {"adjacency", Name(p.adjacency)},
          {"sampling", SamplingJson(p)},
          {"weights", WeightsJson(p)},
          {"masked", MaskedJson(p)},
          {"network", NetworkJson(p)},
          {"feedback", FeedbackWithTheory(p)},
          {"second_order", SecondOrderJson(p)},
          {"account", AccountJson(p)},
          {"rounds", p.rounds},
          {"rounds_skipped", p.skipped},
          {"clients", p.clients},
          {"rows", p.rows},
          {"dimension", p.dim},
          {"epsilon", p.epsilon},
          {"delta", p.delta},
          {"mu", Number(p.mu_budget)},
          {"certified_epsilon", Number(p.certified_epsilon)},
          {"certified_epsilon_lower", Number(p.certified_epsilon_lower)},
          {"claimed_epsilon", Number(p.claimed_epsilon)},
          {"claim_source", p.claimed_epsilon ? json(p.claim_source) : json(nullptr)},
          {"zcdp_epsilon", Number(p.zcdp_epsilon)},
          {"pure_epsilon", std::isfinite(p.pure_epsilon) ? json(p.pure_epsilon) : json(nullptr)},
          {"clip", p.clip},
          {"sensitivity", Number(p.sensitivity)},
          {"bytes_up", p.bytes_up},
          {"bytes_down", p.bytes_down},
          {"gamma", p.gamma},
          {"gamma_max", p.gamma_max},
          {"strong_convexity", p.mu_f},
          {"smoothness", p.l_f},
          {"factor", p.factor},
          {"bound_printed", Number(p.bound_printed)},
          {"bound_sharp", Number(p.bound_sharp)},
          {"rounds_needed", Number(p.rounds_needed)},
          {"allocations", allocations},
          {"static_over_dynamic", Number(p.static_over_dynamic)},
          {"warnings", p.warnings},
          {"ignored", p.ignored},
          {"schedule", rounds}};
}

json NetworkJson(const Plan& p) {
  if (!p.network) return nullptr;
  const NetworkPlan& n = *p.network;
  const auto [least, most] = DegreesOf(n.graph);
  const auto maybe = [](double v, bool given) { return given ? json(v) : json(nullptr); };
  return {{"topology", n.topology},
          {"peers", n.graph.size()},
          {"edges", n.graph.edges()},
          {"degree_least", least},
          {"degree_most", most},
          {"graph_sha256", Sha256::Hex(EdgeList(n.graph))},
          {"phi_min", n.spectrum.phi_min},
          {"phi_max", n.spectrum.phi_max},
          {"signless_phi_min", n.spectrum.signless_min},
          {"signless_phi_max", n.spectrum.signless_max},
          {"spectral_gap", n.spectrum.gap},
          {"rho", maybe(n.rho, n.rho > 0)},
          {"eta", maybe(n.eta, n.eta > 0)},
          {"eta_rule", n.falling ? "sqrt" : "fixed"},
          {"output", n.output},
          {"composition", n.composition.empty() ? json(nullptr) : json(n.composition)},
          {"away", n.away},
          {"leave", n.leave},
          {"noise_on_notes_least", Number(n.least_noise)},
          {"noise_on_notes_most", Number(n.most_noise)},
          {"last_notes_by", n.by_factor ? "factor" : "graph"},
          {"noise_term", Number(n.noise_term)},
          {"bound22", Number(n.bound22)},
          {"bound23", Number(n.bound23)},
          {"bound24", Number(n.bound24)}};
}

json SecondOrderJson(const Plan& p) {
  if (!p.second_order) return nullptr;
  const SecondOrderPlan& s = *p.second_order;
  const DpFcrn::Options& o = s.options;
  const bool once = o.design == DpFcrn::Design::kOnce, paper = p.mode == "paper";
  const bool solver = o.design == DpFcrn::Design::kFull || o.design == DpFcrn::Design::kSubspace;
  return {{"design", s.design},
          {"solve_at", once ? json(o.at_server ? "server" : "client") : json(nullptr)},
          {"coordinates", s.coordinates},  // of a release
          {"sent", o.Coordinates(p.dim)},
          {"solver_steps", solver ? json(o.steps) : json(nullptr)},
          {"cubic", o.solver.cubic},
          {"record_sampling", o.sampling.cycle ? "cycle" : Name(o.sampling.sample.kind)},
          {"sample_records", o.sampling.size},
          {"rate", o.sampling.sample.rate.value()},
          {"least_records", s.least_records},
          {"rounds_of_a_record", s.counted},
          {"clip_hessian", o.clip_hessian},
          {"noise_hessian", once ? json(o.noise_hessian) : json(nullptr)},
          {"diameter", std::isfinite(s.diameter) ? json(s.diameter) : json(nullptr)},
          {"growth", s.growth},
          {"delta0", paper ? json(s.delta0) : json(nullptr)},
          {"printed_steps", paper ? json(s.printed_steps) : json(nullptr)},
          {"printed_sensitivity", paper ? json(s.printed_sensitivity) : json(nullptr)},
          {"true_sensitivity", paper ? json(s.true_sensitivity) : json(nullptr)},
          {"granted_epsilon", paper ? Number(s.granted_epsilon) : json(nullptr)}};
}

Result<SavedRun> OpenRun(const std::filesystem::path& folder) {
  std::error_code ec;
  if (!std::filesystem::is_directory(folder, ec))
    return Fail(Code::kNotFound, "{}: no such run folder; give the folder that `tacit train` wrote",
                folder.string());
  SavedRun run;
  run.folder = folder;
  TACIT_TRY(run.config, LoadConfig(folder / "config.toml", {}));
  TACIT_TRY(NpyArray model, ReadNpy(folder / "model.npy"));
  run.model = std::move(model.values);
  return run;
}

Result<Evaluation> Evaluate(const SavedRun& run, const std::string& source,
                            const std::vector<Assignment>& sets) {
  Config c = run.config;
  for (const Assignment& a : sets) TACIT_OK(SetKey(c, a.key, ParseValue(a.value)));
  PublicFacts facts;
  const auto known = FactsWithoutData(run.config);
  if (known.ok()) {
    facts = *known;
    TACIT_TRY(const auto planned, BuildObjective(run.config, facts));
    if (planned->dim(facts.features) != run.model.size())
      return Fail(
          Code::kMalformed,
          "{}: holds {} numbers, and the config beside it makes a model of {}; give the run folder as "
          "`tacit train` wrote it",
          (run.folder / "model.npy").string(), run.model.size(), planned->dim(facts.features));
  }
  // Without public facts the model itself says how wide a row is.
  TACIT_TRY(facts.features, FeaturesOf(c, facts, run.model.size()));
  TACIT_TRY(const auto objective, BuildObjective(c, facts));
  if (objective->dim(facts.features) != run.model.size())
    return Fail(Code::kMalformed, "{}: the model has {} numbers, which is not a whole number per class",
                (run.folder / "model.npy").string(), run.model.size());
  TACIT_TRY(const Dataset data, LoadSource(c, source, Role::kTest, facts));
  if (data.features != facts.features)
    return Fail(Code::kInvalidArgument, "{}: has {} features and the model {}; set data.features = {}",
                source, data.features, facts.features, facts.features);
  Evaluation e;
  const Shard all(data, 0, data.rows());
  e.rows = data.rows();
  e.outputs = objective->outputs();
  e.scores.resize(e.rows * e.outputs);
  objective->Predict(all, run.model, e.scores);
  Workspace work;
  e.metrics.loss = objective->Value(all, run.model, work);
  e.metrics.accuracy = objective->Accuracy(all, run.model);
  return e;
}

}  // namespace tacit
