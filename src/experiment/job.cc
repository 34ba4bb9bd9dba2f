#include "experiment/job.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiment/files.h"
#include "experiment/network_plan.h"
#include "experiment/peer_site.h"
#include "experiment/session.h"
#include "experiment/site.h"
#include "experiment/toml_values.h"
#include "privacy/gdp.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;

// What a run over several machines cannot have, before anything is made for it.
Status CheckApart(const Job& job, const Plan& plan) {
  const Config& c = job.config;
  if (plan.network && job.addresses.empty())
    return Fail(Code::kInvalidArgument,
                "algorithm.name = \"{}\": has no server; name every peer's host:port in serve.addresses and "
                "run `tacit peer` at each, or use `tacit train` for a simulation",
                c.algorithm.name);
  if (!plan.network && !job.addresses.empty())
    return Fail(Code::kInvalidArgument,
                "serve.addresses: algorithm.name = \"{}\" has a server, which clients call; leave it out",
                c.algorithm.name);
  if (plan.secret())
    return Fail(Code::kUnsupported,
                "algorithm.sampling = \"{}\" with privacy.trust = \"central\": its price rests on nobody "
                "knowing who takes part, and whoever sees the network would; use algorithm.sampling = "
                "\"full\", or `tacit train` for a simulation",
                c.algorithm.sampling);
  if (c.experiment.oracle)
    return Fail(Code::kInvalidArgument,
                "experiment.oracle = true: reads the private rows of all clients; leave it to simulations");
  if (c.model.weight_rule == "data")
    return Fail(Code::kInvalidArgument,
                "model.weight_rule = \"data\": reads the private rows of all clients; give model.weight");
  if ((c.privacy.noise == "replayable") != (job.noise_seed != 0))
    return Fail(
        Code::kInvalidArgument,
        "serve.noise_seed = {} with privacy.noise = \"{}\": replayable noise needs a seed that is not "
        "0, which everybody knows, and noise from entropy has none",
        job.noise_seed, c.privacy.noise);
  return Ok{};
}

// own: from a file of this machine, which may name others of its files.
Status CheckJob(Job& job, bool own) {
  std::set<std::string> seen;
  for (const std::string& name : job.clients) {
    if (!IsPartyName(name))
      return Fail(
          Code::kInvalidArgument,
          "serve.clients holds \"{}\": a name has up to 64 letters, digits, -, _ and dots, and begins "
          "with a letter or digit",
          name);
    if (!seen.insert(name).second)
      return Fail(Code::kInvalidArgument, "serve.clients holds \"{}\" twice; a client has one place", name);
  }
  if (job.clients.empty())
    return Fail(Code::kInvalidArgument,
                "serve.clients is not set: list the certificate names of all clients, e.g. [\"north\", "
                "\"south\"]");
  Config& c = job.config;
  c.data.clients = job.clients.size();
  if (!job.records.empty()) {
    double sum = 0;
    for (const double n : job.records) {
      if (n != std::floor(n))
        return Fail(Code::kInvalidArgument, "serve.records holds {}: no whole number", n);
      sum += n;
    }
    if (job.records.size() != job.clients.size())
      return Fail(Code::kInvalidArgument, "serve.records has {} numbers and serve.clients {} names; one each",
                  job.records.size(), job.clients.size());
    if (sum >= 0x1p53)
      return Fail(Code::kInvalidArgument, "serve.records adds up to {}: more than 2^53 cannot be counted",
                  sum);
    if (c.data.rows != 0 && static_cast<double>(c.data.rows) != sum)
      return Fail(Code::kInvalidArgument,
                  "data.rows = {}: serve.records adds up to {}; make them agree, or leave data.rows out",
                  c.data.rows, sum);
    c.data.rows = static_cast<std::size_t>(sum);
  }
  if (!job.addresses.empty() && job.addresses.size() != job.clients.size())
    return Fail(Code::kInvalidArgument, "serve.addresses has {} entries and serve.clients {}; one each",
                job.addresses.size(), job.clients.size());
  for (const std::string& at : job.addresses)
    if (const std::size_t colon = at.rfind(':'); colon == std::string::npos || colon == 0 ||
                                                 at.find_first_not_of("0123456789", colon + 1) != at.npos ||
                                                 colon + 1 == at.size())
      return Fail(Code::kInvalidArgument,
                  "serve.addresses holds \"{}\": write host:port, e.g. north.example.org:7443", at);
  if (!c.network.file.empty() && (!own || job.addresses.empty()))
    return Fail(Code::kInvalidArgument,
                "network.file = \"{}\": a job names no files of its clients; leave it out", c.network.file);
  // Of masked sums the fewest clients are charged for, so that the plan knows them.
  if (c.privacy.trust == "masked") {
    if (job.minimum != 0 && c.privacy.survivors != 0 && job.minimum != c.privacy.survivors)
      return Fail(Code::kInvalidArgument,
                  "serve.minimum = {} with privacy.survivors = {}: both are the fewest clients of a masked "
                  "sum; leave "
                  "one out",
                  job.minimum, c.privacy.survivors);
    if (c.privacy.survivors == 0) c.privacy.survivors = job.minimum;
  }
  if (job.minimum > job.clients.size())
    return Fail(Code::kInvalidArgument, "serve.minimum = {}: there are {} clients; lower it", job.minimum,
                job.clients.size());
  return Ok{};
}

}  // namespace

bool IsPartyName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                  c == '_' || c == '.';
         });
}

Section DescribeServe(Job& job) {
  Section s("serve", "A run over several machines; `tacit train` passes over it.");
  s.Texts("clients", &job.clients, "certificate names of the clients, in order");
  s.Numbers("records", &job.records, {.lower = 1, .upper = 0x1p53},
            "how many records each client has, public; empty: data.rows, split evenly");
  s.Texts("addresses", &job.addresses, "host:port of each of them, for methods without a server");
  s.Number("deadline", &job.deadline, {.lower = 0.1, .upper = 1e7}, "seconds a round waits for answers");
  s.Count("minimum", &job.minimum, {.lower = 0, .upper = 1e6},
          "answers without which a round waits beyond its deadline; 0: all");
  s.Count("noise_seed", &job.noise_seed, {.lower = 0, .upper = 0x1p53 - 1},
          "seed of replayable noise, which is for tests: whoever knows it can take the noise off; 0: none");
  return s;
}

namespace {

// Texts of a job are shown to those who decide on it: no terminal is told what to show by one.
bool HasControls(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7f) return true;
    if (c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) return true;
  }
  return false;
}
Status CheckTexts(const std::vector<Section>& sections) {
  for (const Section& s : sections)
    for (const Option& o : s.options()) {
      const Value v = o.get();
      bool bad = false;
      if (const auto* one = std::get_if<std::string>(&v)) bad = HasControls(*one);
      if (const auto* many = std::get_if<std::vector<std::string>>(&v))
        bad = std::any_of(many->begin(), many->end(), [](const std::string& t) { return HasControls(t); });
      // separator = "\t" is one character, and shown as TOML writes it
      if (bad && o.key != "separator")
        return Fail(Code::kInvalidArgument, "{}.{}: holds a control character; leave it out", s.name(),
                    o.key);
    }
  return Ok{};
}

Result<Job> Parse(std::string_view text, const std::string& name, const std::vector<Assignment>& sets,
                  bool own) {
  Job job;
  std::vector<Assignment> others;
  for (const Assignment& a : sets)
    if (!a.key.starts_with("serve.")) others.push_back(a);
  TACIT_TRY(job.config, ParseConfig(text, name, others));
  Section serve = DescribeServe(job);
  const toml::table root = toml::parse(text, name);      // ParseConfig has found it to be TOML
  if (const toml::node* node = root.get("serve")) {
    const toml::table* keys = node->as_table();
    if (keys == nullptr)
      return internal::At(name, *node, Fail(Code::kInvalidArgument, "serve: must be a table of keys"));
    for (const auto& [key, value] : *keys) {
      auto v = internal::ValueOf(value, "serve." + std::string(key.str()));
      if (!v.ok()) return internal::At(name, value, v.error());
      if (Status s = serve.Set(key.str(), *v); !s.ok()) return internal::At(name, value, s.error());
    }
  }
  for (const Assignment& a : sets)
    if (a.key.starts_with("serve."))
      if (Status s = serve.Set(a.key.substr(6), ParseValue(a.value)); !s.ok())
        return Error{s.error().code, "--set " + s.error().message};
  if (Status s = CheckTexts(Describe(job.config)); !s.ok())
    return Error{s.error().code, name + ": " + s.error().message};
  if (Status s = CheckTexts({serve}); !s.ok()) return Error{s.error().code, name + ": " + s.error().message};
  if (Status s = CheckJob(job, own); !s.ok()) return Error{s.error().code, name + ": " + s.error().message};
  return job;
}

}  // namespace

Result<Job> ParseJob(std::string_view text, const std::string& name, const std::vector<Assignment>& sets) {
  return Parse(text, name, sets, /*own=*/false);
}

Result<Job> LoadJob(const fs::path& file, const std::vector<Assignment>& sets) {
  TACIT_TRY(const std::string text, ReadWhole(file, std::uintmax_t{1} << 24));
  TACIT_TRY(Job job, Parse(text, file.string(), sets, /*own=*/true));
  job.config.file = file;
  return job;
}

std::string ToToml(const Job& job) {
  Job copy = job;
  std::string out = ToToml(job.config) + "\n[serve]\n";
  const Section serve = DescribeServe(copy);
  for (const Option& o : serve.options()) out += fmt::format("{} = {}\n", o.key, ToText(o.get()));
  return out;
}

Result<PublicFacts> FactsOf(const Job& job) {
  TACIT_TRY(PublicFacts facts, FactsWithoutData(job.config));
  const bool counted = job.config.privacy.unit != "person";      // of persons nobody says how many records
  if (!job.records.empty() && counted) facts.records.assign(job.records.begin(), job.records.end());
  return facts;
}

Result<Plan> PlanOf(const Job& job) {
  TACIT_TRY(const PublicFacts facts, FactsOf(job));
  TACIT_TRY(Plan plan, MakePlan(job.config, facts));
  TACIT_OK(CheckApart(job, plan));
  return plan;
}

Result<std::uint32_t> ClientOf(const Job& job, const std::string& name) {
  for (std::uint32_t i = 0; i < job.clients.size(); ++i)
    if (job.clients[i] == name) return i;
  return Fail(Code::kNotFound, "{}: is not among the clients of this job; ask its server to list it", name);
}

namespace {
Error NoServer(const Job& job) {
  return Fail(Code::kInvalidArgument, "algorithm.name = \"{}\": has no server; use `tacit peer`",
              job.config.algorithm.name);
}
Error NotTrusted() {
  return Fail(
      Code::kUnsupported,
      "privacy.trust = \"central\": clipped updates without noise leave a client's machine only for a "
      "server that it knows by a certificate and its operator trusts; use `tacit serve` and `tacit "
      "join --trust-server NAME`, or privacy.trust = \"masked\" or \"local\"");
}
}  // namespace

Result<RunResult> Coordinate(const Job& job, Link& link, const fs::path& folder, const TrainHooks& hooks) {
  Config config = job.config;
  config.experiment.checkpoint = 0;  // clients keep their last answer only: no round is asked for anew
  Apart apart{.link = &link, .facts = {}, .plan = {}, .folder = folder};
  TACIT_TRY(apart.facts, FactsOf(job));
  TACIT_TRY(apart.plan, PlanOf(job));
  if (apart.plan.network) return NoServer(job);
  if (apart.plan.trust == "central" && link.server().empty()) return NotTrusted();
  TrainHooks here = hooks;
  if (job.noise_seed != 0) here.noise_seed = job.noise_seed;
  return Execute(config, here, apart);
}

namespace {

// Everything before the first round of one party: its rows, and its own ledgers.
Status Open(Session& s, FolderLock& lock, const Job& job, Plan plan, const Enrolment& own) {
  Config config = job.config;      // what the server says of files is not followed
  config.data.source = own.data;
  config.data.test = config.data.labels_file = config.data.scratch = config.data.id = "";
  config.data.store = "memory";
  Config reading = config;
  reading.data.rows = reading.data.skip = reading.data.rows_per_client = 0;
  reading.data.clients = 1;
  reading.data.split = "blocks";

  s.notary = own.notary;
  s.server_trust = own.server_trust;
  TACIT_TRY(s.site, ClientOf(job, own.name));
  TACIT_TRY(s.facts, FactsOf(job));
  s.plan = std::move(plan);
  TACIT_TRY(s.partition, LoadPartition(reading, s.facts));
  const std::size_t rows = s.partition.size(0);
  config.data.rows = rows;  // rows in memory go by their shape in the ledger: their own, not what a job says
  if (s.partition.data.features != s.facts.features)
    return Fail(Code::kInvalidArgument,
                "{}: has {} features and the job {}; bring the file into the job's form", own.data,
                s.partition.data.features, s.facts.features);
  // Where the number of records is public it is stated; where it is hidden there is a public bound.
  const bool stated = s.plan.by_records || (!s.plan.by_client() && !s.plan.charges_units());
  if (stated && !s.facts.records.empty() && rows != s.facts.records[s.site])
    return Fail(Code::kInvalidArgument,
                "{}: has {} records and the job states {} for {}; ask its server to correct serve.records",
                own.data, rows, s.facts.records[s.site], own.name);
  if (s.plan.charges_units() && rows > s.plan.units)
    return Fail(Code::kInvalidArgument,
                "{}: has {} records, and the job plans with {} at most; ask its server to raise data.rows",
                own.data, rows, s.plan.units);
  if (s.plan.charges_units()) s.partition.data.charged_terms = s.plan.units;
  if (s.plan.by_records) SetWeights(s.plan, s.facts.records);
  TACIT_TRY(s.objective, BuildObjective(job.config, s.facts));
  TACIT_TRY(s.regularizer, BuildRegularizer(job.config));
  if (!s.plan.randomizer && !s.plan.secure) {
    TACIT_TRY(s.mechanism, MakeMechanism(job.config.privacy.mechanism));
  }
  if (job.noise_seed != 0) s.replay_seed = job.noise_seed;

  std::error_code ec;
  TACIT_OK(MakeOwnFolder(own.folder));
  TACIT_OK(lock.Take(own.folder));
  s.folder = own.folder;
  const MuSquared budget[] = {s.plan.budgets[s.site]};
  s.book = s.plan.account ? std::make_unique<LedgerBook>(1, *s.plan.account)
                          : std::make_unique<LedgerBook>(budget, s.plan.adjacency);
  const std::string unit = s.plan.by_client()
                               ? ClientUnitText(job.config)
                               : UnitText(s.plan.unit, s.plan.person_bound, s.plan.records_per_person);
  TACIT_TRY(s.run_vault, SqliteVault::Open(own.folder / "ledger.db",
                                           {.run = own.folder.filename().string(),
                                            .data = own.data,
                                            .unit = unit,
                                            .mode = job.config.algorithm.mode,
                                            .adjacency = s.plan.adjacency,
                                            .delta = s.plan.delta,
                                            .plan = PlanEvents(s.plan),
                                            .plan_epsilon = s.plan.account ? s.plan.certified_epsilon : 0},
                                           budget));
  TACIT_TRY(s.data_ledger,
            DataLedger::Open(
                own.ledger, IdOf(config),
                {.run = fs::absolute(own.folder, ec).lexically_normal().string(),
                 .unit = s.plan.by_client() ? unit : s.plan.unit,
                 .mode = job.config.algorithm.mode,
                 .adjacency = s.plan.adjacency,
                 .delta = s.plan.delta,
                 .plan_epsilon = s.plan.account ? std::optional(s.plan.certified_epsilon) : std::nullopt},
                PlannedCost(s)));
  s.vault = std::make_unique<CumulativeVault>(*s.run_vault, *s.data_ledger);
  return Ok{};
}

double SpentOf(const Session& s) {
  return s.plan.account ? s.plan.certified_epsilon
                        : GdpEpsilon(Root(s.book->largest_spent()), Delta::Proven(s.plan.delta)).upper;
}

}  // namespace

Result<SiteResult> TakePart(const Job& job, Plan plan, const Enrolment& own,
                            const std::function<Status(Site&)>& serve) {
  if (plan.network) return NoServer(job);
  if (plan.trust == "central" && !own.server_trust) return NotTrusted();
  const TrainHooks hooks;
  Session s{.config = job.config, .hooks = hooks};
  FolderLock lock;
  TACIT_OK(Open(s, lock, job, std::move(plan), own));
  SiteResult result{.delta = s.plan.delta};
  bool over = false;
  s.at_site = [&](Site& site) -> Status {
    Status done = serve(site);
    result.rounds = site.rounds();
    over = done.ok();
    if (!done.ok() && done.error().code == Code::kInterrupted) return Ok{};
    return done;
  };
  RunResult none;
  TACIT_OK(Launch(s, none));
  if (over) {
    TACIT_OK(s.run_vault->Settle(*s.book));
    TACIT_OK(s.data_ledger->Settle(s.book->largest_spent()));
  }
  result.epsilon = SpentOf(s);
  return result;
}

std::string NameOf(const Job& job, const Plan& plan) {
  Job plain = job;
  Config& c = plain.config;
  c.data.source = c.data.test = c.data.labels_file = c.data.scratch = c.data.id = c.network.file = "";
  c.experiment = decltype(c.experiment)();
  c.experiment.seed = job.config.experiment.seed;
  c.runtime = {};
  plain.addresses.clear();  // a peer may reach another by a name of its own
  plain.deadline = Job().deadline;
  Sha256 hash;
  hash.Add("tacit " TACIT_VERSION "\n");
  hash.Add(ToToml(plain));
  if (plan.network) hash.Add(EdgeList(plan.network->graph));
  return Hex(hash.Finish());
}

Result<SiteResult> TakePlace(const Job& job, Plan plan, const Enrolment& own,
                             const std::function<Result<bool>(PeerSite&)>& attend) {
  const TrainHooks hooks;
  Session s{.config = job.config, .hooks = hooks};
  FolderLock lock;
  TACIT_OK(Open(s, lock, job, std::move(plan), own));
  TACIT_OK(KeepGraph(s.plan.network->graph, own.folder));
  SiteResult result{.delta = s.plan.delta};
  RunResult r;
  r.run = own.folder.filename().string();
  r.folder = own.folder;
  r.peer.emplace(own.name, s.site);
  bool over = false, free = false;
  s.at_peer = [&](PeerSite& site) -> Status {
    const Result<bool> done = attend(site);
    result.rounds = r.rounds_done = site.rounds();
    over = done.ok();
    if (!done.ok()) return done.error().code == Code::kInterrupted ? Status(Ok{}) : Status(done.error());
    free = *done;
    r.model.assign(site.model().begin(), site.model().end());
    r.bytes_up = static_cast<std::size_t>(site.bytes_up());
    r.bytes_down = static_cast<std::size_t>(site.bytes_down());
    return Ok{};
  };
  TACIT_OK(Launch(s, r));
  result.epsilon = SpentOf(s);
  if (!over) return result;
  // The others have paid by the plan, each from its own ledger; this one as its ledger says.
  LedgerBook all(s.plan.budgets, s.plan.adjacency);
  all.account(s.site).Restore(s.book->account(0).spent());
  r.rounds_done = s.plan.schedule.size();
  Certify(s, r, s.facts.records, all);
  TACIT_OK(WriteWhole(own.folder / "config.toml", ToToml(job.config)));
  TACIT_OK(WriteResult(s, r, s.facts.records));
  std::error_code ec;
  if (free) fs::remove(own.folder / "checkpoint", ec);
  return result;
}

}  // namespace tacit
