#include "experiment/run.h"

#include <openssl/evp.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "algorithms/primal_dual.h"
#include "data/catalogue.h"
#include "data/npy.h"
#include "data/partition.h"
#include "experiment/build.h"
#include "experiment/json_number.h"
#include "experiment/oracle.h"
#include "experiment/sha256.h"
#include "runtime/threads.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Status WriteText(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out)
    return Fail(Code::kIo, "{}: cannot be written; check the disk and experiment.output", file.string());
  return Ok{};
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

// Everything a run needs alive while it trains.
struct Session {
  const Config& config;
  const TrainHooks& hooks;
  Plan plan;
  PublicFacts facts;
  Partition partition;
  std::optional<Dataset> test;
  std::unique_ptr<Objective> objective;
  std::unique_ptr<Regularizer> regularizer;
  std::unique_ptr<Mechanism> mechanism;
  std::unique_ptr<Oracle> oracle;
  std::unique_ptr<LedgerBook> book;
  std::unique_ptr<SqliteVault> vault;
  std::ofstream trace;
  Workspace work;
};

// Replayable noise is named by everything that shapes the run, the data included: the same run again draws
// the same noise, and no other run does, so that two runs never share noise that could be cancelled.
std::uint64_t ReplaySeed(const Session& s) {
  const Dataset& d = s.partition.data;
  const std::string config = ToToml(s.config);
  const std::string parts[] = {config.substr(0, config.find("[runtime]")),
                               fmt::format("seed = {}", s.config.experiment.seed)};
  EVP_MD_CTX* hash = EVP_MD_CTX_new();
  TACIT_CHECK(hash != nullptr && EVP_DigestInit_ex(hash, EVP_sha256(), nullptr) == 1);
  const auto add = [&](const void* data, std::size_t bytes) {
    TACIT_CHECK(EVP_DigestUpdate(hash, data, bytes) == 1);
  };
  for (const std::string& p : parts) add(p.data(), p.size());
  add(d.value.data(), d.value.size() * sizeof(double));
  const Shard all(d, 0, d.rows());
  for (std::size_t at = 0; d.mapped && at < d.rows(); at += all.block()) {
    const std::size_t n = std::min(all.block(), d.rows() - at);
    add(all.row(at).value, n * d.features * sizeof(double));
    all.Done(at, n);
  }
  add(d.column.data(), d.column.size() * sizeof(std::uint32_t));
  add(d.row_begin.data(), d.row_begin.size() * sizeof(std::uint64_t));
  add(d.label.data(), d.label.size() * sizeof(double));
  unsigned char digest[EVP_MAX_MD_SIZE];
  TACIT_CHECK(EVP_DigestFinal_ex(hash, digest, nullptr) == 1);
  EVP_MD_CTX_free(hash);
  std::uint64_t seed = 0;
  std::memcpy(&seed, digest, sizeof seed);
  return seed;
}

Metrics Measure(Session& s, View mean_model, double consensus) {
  Metrics m;
  if (s.test) {
    const Shard all(*s.test, 0, s.test->rows());
    m.loss = s.objective->Value(all, mean_model, s.work);
    m.accuracy = s.objective->Accuracy(all, mean_model);
    all.Done(0, all.size());
  }
  if (s.oracle) {
    s.oracle->Measure(mean_model, consensus, m);
    if (!m.loss) m.loss = m.train_loss;
    if (!s.test) m.accuracy = m.train_accuracy;
  }
  return m;
}

template <class Client>
double MeanIterate(const std::vector<Client>& clients, Vec& mean) {
  Fill(mean, 0.0);
  for (const Client& c : clients) Axpy(1.0, c.iterate(), mean);
  Scale(1.0 / static_cast<double>(clients.size()), mean);
  double consensus = 0;
  for (const Client& c : clients) consensus += DistanceSquared(c.iterate(), mean);
  return consensus / static_cast<double>(clients.size());
}

// μ² that the plan will charge in its k-th round, per distinct budget: what is reserved ahead.
std::vector<std::vector<MuSquared>> PlannedCharges(const Session& s) {
  std::vector<std::vector<MuSquared>> out;
  for (const auto& noise : s.plan.noise) {
    auto& costs = out.emplace_back();
    for (NoiseStd sigma : *noise)
      costs.push_back(
          std::isinf(s.plan.sensitivity)
              ? MuSquared::Proven(kInf)
              : Cost(s.mechanism->EventFor(L2Bound::Proven(s.plan.sensitivity), sigma, s.plan.dim)));
  }
  return out;
}

Status RunPrimalDual(Session& s, RunResult& r) {
  const Config& c = s.config;
  const Plan& plan = s.plan;
  Problem problem{.f = s.objective.get(),
                  .g = s.regularizer.get(),
                  .l2 = c.model.l2,
                  .dim = plan.dim,
                  .clients = static_cast<std::uint32_t>(plan.clients),
                  .start = {}};
  problem.start.resize(plan.dim);
  s.objective->Initialise(c.experiment.seed, s.facts.features, problem.start);
  PrimalDual::Options o;
  o.gamma = plan.gamma;
  o.scale = c.algorithm.scaling == "printed" ? 1.0 / static_cast<double>(plan.clients) : 1.0;
  o.l2 = c.model.l2;
  o.clip = L2Bound::Proven(c.privacy.clip);
  o.certified = c.algorithm.mode == "certified";
  o.claim = {plan.claim_source, Epsilon::Proven(plan.epsilon), Delta::Proven(plan.delta)};
  for (const PlannedRound& p : plan.schedule) o.rounds.push_back(p.round);

  std::vector<PrimalDual::Client> clients;
  clients.reserve(plan.clients);
  // What a client divides its sum by must not tell neighbours apart. Where a record may be there or not,
  // or a person has any number of them, that is a public number of the plan; otherwise neighbours have
  // equally many records.
  for (std::uint32_t i = 0; i < plan.clients; ++i) {
    clients.emplace_back(Holding{i, plan.divisor != 0 ? plan.divisor : s.partition.size(i),
                                 s.partition.shard(i), &s.book->account(i)},
                         problem, *s.mechanism, o, plan.noise[plan.noise_of[i]]);
  }
  PrimalDual::Server server(o);
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const unsigned threads = c.runtime.threads != 0 ? static_cast<unsigned>(c.runtime.threads) : cores;
  NoiseSource noise;
  if (c.privacy.noise == "replayable") noise.replay_seed = ReplaySeed(s);
  ThreadRuntime<PrimalDual> runtime(threads, noise);
  r.threads = runtime.threads();

  const auto charges = PlannedCharges(s);
  const std::size_t every = c.experiment.trace_every != 0
                                ? c.experiment.trace_every
                                : std::max<std::size_t>(1, plan.schedule.size() / 100);
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  double measuring = 0, epsilon = 0, shown = -1;
  Vec mean(plan.dim);
  std::vector<MuSquared> ahead(plan.clients, MuSquared{0.0});

  Watcher watcher;
  std::size_t reserved_until = 0;  // rounds whose budget is durable
  const auto interrupted = [&] { return s.hooks.interrupt != nullptr && s.hooks.interrupt->load(); };
  watcher.before = [&](std::uint32_t round) -> Status {
    if (interrupted())
      return Fail(Code::kInterrupted, "interrupted before round {} of {}", round, plan.rounds);
    if (!s.vault || r.rounds_done < reserved_until) return Ok{};
    // As many rounds again as were made: few writes, and a crash never costs more than was spent.
    const std::size_t block = std::max(c.experiment.reserve, r.rounds_done);
    reserved_until = r.rounds_done + block;
    std::vector<MuSquared> per_plan(charges.size(), MuSquared{0.0});
    for (std::size_t p = 0; p < charges.size(); ++p)
      for (std::size_t k = r.rounds_done; k < std::min(charges[p].size(), reserved_until); ++k)
        per_plan[p] = per_plan[p] + charges[p][k];
    for (std::size_t i = 0; i < plan.clients; ++i) ahead[i] = per_plan[plan.noise_of[i]];
    return s.book->Reserve(ahead);
  };
  watcher.after = [&](const RoundReport& report) -> Status {
    r.bytes_up += report.bytes_up;
    r.bytes_down += report.bytes_down;
    const std::size_t k = r.rounds_done++;
    const bool point = report.last || (k + 1) % every == 0;
    if (point || elapsed() - shown > 0.1) {
      shown = elapsed();
      epsilon = GdpEpsilon(Root(s.book->largest_spent()), Delta::Proven(plan.delta)).upper;
    }
    Metrics metrics;
    if (point) {
      const double before = elapsed();
      metrics = Measure(s, mean, MeanIterate(clients, mean));
      r.trace.emplace_back(report.round, metrics);
      if (s.trace.is_open()) {
        json line = {
            {"round", report.round},  {"epsilon", Number(epsilon)}, {"sigma", Number(plan.schedule[k].sigma)},
            {"bytes_up", r.bytes_up}, {"bytes_down", r.bytes_down}, {"metrics", ToJson(metrics)}};
        s.trace << line.dump() << '\n' << std::flush;
      }
      measuring += elapsed() - before;
    }
    if (s.hooks.progress)
      s.hooks.progress({report.round, plan.rounds, epsilon, elapsed(), point ? &metrics : nullptr});
    return Ok{};
  };
  if (Status done = runtime.Run(server, clients, watcher); !done.ok()) {
    if (done.error().code != Code::kInterrupted) return done;
    r.interrupted = true;
  }
  r.seconds = elapsed() - measuring;
  const double consensus = MeanIterate(clients, mean);
  r.metrics = Measure(s, mean, consensus);
  r.model = mean;
  return Ok{};
}

}  // namespace

Result<RunResult> Train(const Config& config, const TrainHooks& hooks) {
  Session s{.config = config,
            .hooks = hooks,
            .plan = {},
            .facts = {},
            .partition = {},
            .test = {},
            .objective = {},
            .regularizer = {},
            .mechanism = {},
            .oracle = {},
            .book = {},
            .vault = {},
            .trace = {},
            .work = {}};
  const auto planned = FactsWithoutData(config);
  std::error_code ec;  // a path that cannot be looked at is a path that is not there
  const bool is_file = !IsSynthetic(config.data.source) && FindSet(config.data.source) == nullptr;
  const bool shape_in_file = !planned.ok() && !config.data.source.empty() &&
                             (config.data.rows == 0 || config.data.features == 0) && is_file &&
                             fs::exists(config.data.source, ec);
  if (is_file && !config.data.test.empty() &&
      (config.data.test == config.data.source || fs::equivalent(config.data.test, config.data.source, ec)))
    return Fail(Code::kInvalidArgument,
                "data.test = \"{}\" is the training data: test data must be public; name another file, or "
                "set experiment.oracle = true "
                "for a simulation",
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
    TACIT_TRY(s.plan, MakePlan(config, s.facts));
    if (hooks.planned) hooks.planned(s.plan);
  }
  TACIT_TRY(s.partition, LoadPartition(config, s.facts));
  const PublicFacts real = FactsOf(s.partition, s.facts.classes);
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
  TACIT_TRY(s.objective, BuildObjective(config, s.facts));
  TACIT_TRY(s.regularizer, BuildRegularizer(config));
  TACIT_TRY(s.mechanism, MakeMechanism(config.privacy.mechanism));
  if (!config.data.test.empty()) {
    PublicFacts shape = s.facts;
    TACIT_TRY(s.test, LoadSource(config, config.data.test, Role::kTest, shape));
    if (s.test->features != s.facts.features)
      return Fail(Code::kInvalidArgument,
                  "data.test = \"{}\": has {} features and the training data {}; set data.features",
                  config.data.test, s.test->features, s.facts.features);
  }
  if (config.experiment.oracle) {
    s.oracle = std::make_unique<Oracle>(s.partition, *s.objective, *s.regularizer, config.model.l2,
                                        ProblemKey(config));
    TACIT_OK(s.oracle->Prepare());
  }

  RunResult r;
  s.book = std::make_unique<LedgerBook>(s.plan.budgets, s.plan.adjacency);
  if (hooks.write_folder) {
    TACIT_TRY(r.folder, MakeFolder(config));
    r.run = r.folder.filename().string();
    TACIT_OK(WriteText(r.folder / "config.toml", ToToml(config)));
    TACIT_TRY(s.vault, SqliteVault::Open(
                           r.folder / "ledger.db",
                           {.run = r.run,
                            .data = config.data.source,
                            .unit = UnitText(s.plan.unit, s.plan.person_bound, s.plan.records_per_person),
                            .mode = config.algorithm.mode,
                            .adjacency = s.plan.adjacency,
                            .delta = s.plan.delta},
                           s.plan.budgets));
    s.book->Attach(s.vault.get());
    s.trace.open(r.folder / "trace.jsonl");
    if (!s.trace) return Fail(Code::kIo, "{}: cannot be written", (r.folder / "trace.jsonl").string());
  } else {
    r.run = config.experiment.name.empty() ? config.algorithm.name : config.experiment.name;
  }

  TACIT_OK(RunPrimalDual(s, r));

  std::vector<std::size_t> records(s.plan.clients);
  for (std::uint32_t i = 0; i < records.size(); ++i) records[i] = s.partition.size(i);
  r.releases = MakeReleases(s.plan, *s.objective, *s.mechanism, *s.book, records, r.rounds_done);
  for (const Releases& one : r.releases) r.mu = std::max(r.mu, one.mu);
  const Interval epsilon = GdpEpsilon(Mu::Proven(r.mu), Delta::Proven(s.plan.delta));
  r.certified_epsilon = epsilon.upper;
  r.certified_epsilon_lower = epsilon.lower;
  r.claimed_epsilon = s.plan.claimed_epsilon;
  r.replayable = config.privacy.noise == "replayable";
  if (s.oracle) r.oracle_metrics = s.oracle->answered();
  r.plan = std::move(s.plan);
  const auto shape = ModelShape(config, r.model.size(), s.objective->outputs());
  r.model_sha256 = Sha256(NpyBytes(shape, r.model));
  if (!r.folder.empty()) {
    TACIT_OK(s.vault->Settle(*s.book));
    TACIT_OK(WriteNpy(r.folder / "model.npy", shape, r.model));
    const json certificate = Certificate(r, config);
    TACIT_OK(WriteText(r.folder / "certificate.json", CertificateJson(certificate)));
    TACIT_OK(WriteText(r.folder / "certificate.txt", CertificateText(certificate)));
    TACIT_OK(WriteText(r.folder / "result.json", ToJson(r, config).dump(2) + "\n"));
  }
  return r;
}

json ToJson(const Metrics& m) {
  json j = json::object();
  const auto put = [&](const char* key, const std::optional<double>& v) {
    if (v) j[key] = Number(*v);
  };
  put("optimality", m.optimality);
  put("consensus", m.consensus);
  put("loss", m.loss);
  put("accuracy", m.accuracy);
  put("train_loss", m.train_loss);
  put("train_accuracy", m.train_accuracy);
  return j;
}

json ToJson(const RunResult& r, const Config& c) {
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
            {"mechanism", r.plan.mechanism},
            {"noise", c.privacy.noise},
            {"oracle", r.oracle_metrics}}},
          {"bytes_up", r.bytes_up},
          {"bytes_down", r.bytes_down},
          {"seconds", r.seconds},
          {"threads", r.threads},
          {"model_sha256", r.model_sha256}};
}

json ToJson(const Plan& p) {
  json rounds = json::array();
  for (const PlannedRound& r : p.schedule)
    rounds.push_back({{"round", r.round},
                      {"share", r.share},
                      {"mu", Number(r.mu)},
                      {"sigma", r.sigma},
                      {"noise_on_mean", r.noise_on_mean}});
  return {{"algorithm", p.algorithm},
          {"paper", p.paper},
          {"mode", p.mode},
          {"mechanism", p.mechanism},
          {"unit", p.unit},
          {"person_bound", p.person_bound.empty() ? json(nullptr) : json(p.person_bound)},
          {"records_per_person", p.records_per_person == 0 ? json(nullptr) : json(p.records_per_person)},
          {"adjacency", Name(p.adjacency)},
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
          {"static_over_dynamic", Number(p.static_over_dynamic)},
          {"warnings", p.warnings},
          {"schedule", rounds}};
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
  if (known.ok()) facts = *known;
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
