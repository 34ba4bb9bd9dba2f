// tacit serve and tacit join, and tacit peer where there is no server: a run over several machines.
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>

#include "cli.h"
#include "experiment/files.h"
#include "experiment/finished.h"
#include "net/join.h"
#include "net/peers.h"
#include "net/server.h"
#include "net/wire_log.h"
#include "view/text.h"

namespace tacit::cli {
namespace {

namespace fs = std::filesystem;

nlohmann::ordered_json Json(const LogField& field) {
  return std::visit([](const auto& value) { return nlohmann::ordered_json(value); }, field.value);
}

// One line per event on stderr: its sentence, without control characters, for a part of it may be another
// machine's words; or with --json an object each, with its fields.
class Log {
 public:
  explicit Log(const Common& common) : common_(common) {}
  void operator()(const LogEvent& event) {
    if (common_.quiet) return;
    char stamp[32];
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    std::string line =
        common_.json ? Object(stamp, event) : fmt::format("{}  {}", stamp, Printable(event.text));
    line += '\n';
    // A line that cannot be written is lost: a full disk is no reason to end a run, in the midst of a round.
    const std::lock_guard lock(mutex_);
    static_cast<void>(std::fwrite(line.data(), 1, line.size(), stderr));
    std::fflush(stderr);
  }

 private:
  static std::string Object(const char* stamp, const LogEvent& event) {
    const EventKind& kind = KindOf(event.event);
    nlohmann::ordered_json line = {{"time", stamp}, {"level", Name(kind.level)}, {"event", kind.name}};
    for (const LogField& field : event.fields) line[field.name] = Json(field);
    line["message"] = event.text;
    return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  const Common& common_;
  std::mutex mutex_;
};

// A verb whose log goes on to its end: on a terminal the program says itself why it fails, and elsewhere the
// log says so, too.
template <class Verb>
Result<int> WithLog(const Common& common, Verb verb) {
  std::signal(SIGPIPE, SIG_IGN);  // whoever reads the log may go
  Log log(common);
  Result<int> done = verb(log);
  if (!done.ok() && common.json) {
    const Error& error = done.error();
    log({Event::kFailed, error.message, {{"code", static_cast<std::uint64_t>(error.code)}}});
  }
  return done;
}

struct IdentityArguments {
  std::string authority, certificate, key;
  void Add(CLI::App* verb) {
    verb->add_option("--ca", authority, "certificate of the authority, as `tacit keys ca` writes it")
        ->required()
        ->type_name("ca.pem");
    verb->add_option("--cert", certificate, "this machine's certificate, as `tacit keys issue` writes it")
        ->required()
        ->type_name("NAME.pem");
    verb->add_option("--key", key, "its private key")->required()->type_name("NAME.key");
  }
  Result<Identity> Read() const { return ReadIdentity(authority, certificate, key); }
};

// A time to wait: a number, and no other one that floating point knows.
void AddSeconds(CLI::App* verb, const char* flag, double& value, const char* what) {
  const CLI::Validator finite(
      [](const std::string& text) {
        const double seconds = std::strtod(text.c_str(), nullptr);
        return seconds >= 0 && seconds <= 1e9 ? std::string()
                                              : fmt::format("{} is not a number of seconds, 0 to 1e9", text);
      },
      "");
  verb->add_option(flag, value, what)->check(finite)->capture_default_str()->type_name("SECONDS");
}

struct ServeArguments {
  std::string job, listen, folder, revocations, metrics;
  double drain = 10;
  IdentityArguments identity;
};

// Connections are files: as many as the system allows.
void RaiseFileLimit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// A list that cannot be read lets nobody in, so that a wrong --crl is better said at once.
Status CheckList(const std::string& file, const Identity& identity) {
  if (file.empty()) return Ok{};
  const Status own = Revocations(file, identity.authority).Check(identity.certificate);
  if (own.ok() || own.error().code != Code::kIo) return Ok{};
  return Fail(Code::kIo, "--crl {}", own.error().message);
}
void SayWithoutList(const std::string& file, Log& log) {
  if (file.empty())
    log({Event::kNoRevocations, "no --crl: certificates that were revoked are believed until they expire"});
}

// The id of the run in this folder, made when it begins. Its job stays what it was: clients hold to it. With
// the folder to itself, for a server that is started beside another one would give the run another id than
// that which is served.
Result<std::string> IdIn(const fs::path& folder, const Job& job) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  FolderLock lock;
  TACIT_OK(lock.Take(folder));
  if (fs::exists(folder / "job.toml", ec)) {
    TACIT_TRY(const std::string kept, ReadWhole(folder / "job.toml"));
    if (kept != ToToml(job))
      return Fail(Code::kInvalidArgument,
                  "{}: holds a run of another job; put the job back as it was, or name another --folder",
                  folder.string());
  } else {
    TACIT_OK(WriteWhole(folder / "job.toml", ToToml(job)));
  }
  if (!fs::exists(folder / "job.id", ec)) TACIT_OK(WriteWhole(folder / "job.id", NewName() + "\n"));
  TACIT_TRY(const std::string id, ReadWhole(folder / "job.id", 64));
  return id.substr(0, id.find('\n'));
}

Result<int> Serve(const Common& common, const ServeArguments& a, Log& log) {
  TACIT_TRY(const auto sets, common.Assignments());
  TACIT_TRY(const Job job, LoadJob(a.job, sets));
  TACIT_TRY(const Plan plan, PlanOf(job));
  TACIT_TRY(const Identity identity, a.identity.Read());
  const Config& c = job.config;
  const fs::path folder = !a.folder.empty()
                              ? fs::path(a.folder)
                              : fs::path(c.experiment.output) /
                                    (c.experiment.name.empty() ? c.file.stem().string() : c.experiment.name);
  TACIT_TRY(const bool finished, IsFinished(folder));
  TACIT_TRY(const std::string id, IdIn(folder, job));
  const WireLog wire([&](const std::string& line) { log({Event::kGrpc, line}); });
  TACIT_OK(CheckList(a.revocations, identity));
  SayWithoutList(a.revocations, log);
  RaiseFileLimit();
  const std::string host = a.listen.substr(0, a.listen.rfind(':'));
  int port = 0;
  // Where clients find the server: written by whoever has the folder, and not by another that is about to be
  // told so.
  const auto say_where = [&] { return WriteWhole(folder / "address", fmt::format("{}:{}\n", host, port)); };
  TACIT_TRY(const auto server, FederationServer::Start(job, id,
                                                       {.address = a.listen,
                                                        .identity = identity,
                                                        .revocations = a.revocations,
                                                        .stop = &ServiceFlag(),
                                                        .drain = a.drain,
                                                        .answered = folder / "answered",
                                                        .before = say_where,
                                                        .log = [&](const LogEvent& e) { log(e); }}));
  port = server->port();
  std::unique_ptr<MetricsPage> page;
  if (!a.metrics.empty()) {
    TACIT_TRY(page, MetricsPage::Start(a.metrics, server->counts(), [&] { server->Look(); }));
    log({Event::kMetricsPage,
         fmt::format("health and metrics at port {}", page->port()),
         {{"port", static_cast<std::uint64_t>(page->port())}}});
  }
  if (!common.json && !common.quiet) {
    PrintPlan(plan, c, 5);
    fmt::print("\n");
    std::fflush(stdout);
  }
  const std::string address = fmt::format("{}:{}", host, port);
  log({Event::kListening,
       fmt::format("job {} for {} clients, listening at {}", id, job.clients.size(), address),
       {{"job", id},
        {"sha256", DigestOf(ToToml(job))},
        {"clients", job.clients.size()},
        {"address", address}}});
  if (finished) {
    FolderLock lock;
    TACIT_OK(lock.Take(folder));
    TACIT_OK(say_where());
    log({Event::kRunFinished, "the run is finished; waiting for clients that have not heard of it"});
    server->Over(job.deadline, /*everybody=*/true);
    if (common.json) {
      TACIT_TRY(const std::string result, ReadWhole(folder / "result.json"));
      fmt::print("{}", result);
    } else {
      fmt::print("The run is finished; its result is in {}\n", (folder / "result.json").string());
    }
    return 0;
  }
  TrainHooks hooks;
  hooks.interrupt = &ServiceFlag();
  hooks.progress = [&](const Progress& p) {
    if (p.metrics != nullptr)
      log({Event::kRoundDone,
           fmt::format("round {} of {} done", p.round, p.rounds),
           {{"round", std::uint64_t{p.round}}, {"rounds", std::uint64_t{p.rounds}}}});
  };
  TACIT_TRY(const RunResult run, Coordinate(job, *server, folder, hooks));
  if (!run.interrupted) server->Over();
  const int code = run.interrupted ? static_cast<int>(Code::kInterrupted) : 0;
  if (common.json) {
    PrintJson(ToJson(run, c));
    return code;
  }
  fmt::print("{}", CertificateText(Certificate(run, c)));
  fmt::print("\n{} {}\n", Styled(stdout, Style::kBold, "Kept in"), folder.string());
  if (run.interrupted) fmt::print("Go on with the same command.\n");
  return code;
}

// A client's or peer's own terms.
struct Terms {
  std::string data, state = "tacit-site", ledger, policy;
  std::vector<std::string> servers;
  double max_epsilon = -1;
  bool review = false, replayable = false, float_noise = false, masked = false;
  void Add(CLI::App* verb, bool server) {  // server: there is one
    verb->add_option("--data", data, "file with the rows of this machine")->type_name("FILE");
    verb->add_flag("--review", review, "show the job, its cost and what the policy says of it; join nothing");
    verb->add_option("--max-epsilon", max_epsilon, "the most a job may cost")->type_name("E");
    verb->add_option("--policy", policy,
                     "file with max_epsilon, max_delta, replayable, float_noise, paper, masked, colluding, "
                     "trusted_servers, unit, adjacency, layout")
        ->type_name("FILE.toml");
    verb->add_flag("--allow-replayable", replayable,
                   "join jobs whose noise everybody knows: for tests, without privacy");
    verb->add_flag("--allow-float-noise", float_noise,
                   "join jobs whose noise is added in floating point, whose last bits may tell what it was "
                   "added to");
    verb->add_flag("--allow-masked", masked,
                   "join jobs with masked sums, where this machine adds a share of the noise");
    if (server)
      verb->add_option("--trust-server", servers,
                       "let the server with this name in its certificate see updates without noise")
          ->type_name("NAME")
          ->allow_extra_args(false);
    verb->add_option("--state", state, "folder of what must survive: answers and ledgers")
        ->capture_default_str()
        ->type_name("DIR");
    verb->add_option("--ledger", ledger, "cumulative ledger of the data; default: ledger.db in --state")
        ->type_name("FILE");
  }
  Result<Policy> Agreed() const {
    Policy p;
    if (!policy.empty()) {
      TACIT_TRY(p, ReadPolicy(policy));
    }
    if (max_epsilon >= 0) p.max_epsilon = max_epsilon;
    if (replayable) p.replayable = true;
    if (float_noise) p.float_noise = true;
    if (masked) p.masked = true;
    p.trusted_servers.insert(p.trusted_servers.end(), servers.begin(), servers.end());
    if (review) return p;
    if (data.empty())
      return Fail(Code::kInvalidArgument, "--data: name the file with this machine's rows, or use --review");
    if (!(p.max_epsilon > 0))
      return Fail(Code::kInvalidArgument,
                  "--max-epsilon: state the most a job may cost, e.g. --max-epsilon 2, or in --policy FILE; "
                  "without it nothing is agreed to");
    return p;
  }
};

constexpr double kReviewPatience = 10;  // seconds: somebody looks on

struct JoinArguments {
  std::string server, job, revocations;
  double patience = 600;
  Terms terms;
  IdentityArguments identity;
};

// from: who offers the job. pinned: the one that was agreed to, as JoinOptions; nullopt: it is a file of this
// machine.
Result<int> Review(const Common& common, const Offer& offer, const std::string& from, const Policy& policy,
                   const std::string& own, const std::optional<std::string>& pinned) {
  if (const Status allowed = CheckOffer(policy, offer.job); !allowed.ok()) return allowed.error();
  TACIT_TRY(const Plan plan, PlanOf(offer.job));
  TACIT_TRY(const std::uint32_t place, ClientOf(offer.job, own));
  const Status same = pinned ? CheckPinned(*pinned, offer.toml) : Status(Ok{});
  const Status agreed = same.ok() ? CheckPolicy(policy, offer.job, plan) : same;
  const std::string digest = pinned ? DigestOf(offer.toml) : "";
  if (common.json) {
    PrintJson({{"job", offer.id},
               {"sha256", pinned ? nlohmann::json(digest) : nlohmann::json(nullptr)},
               {"client", own},
               {"place", place},
               {"clients", offer.job.clients},
               {"plan", ToJson(plan)},
               {"accepted", agreed.ok()},
               {"reason", agreed.ok() ? nlohmann::json(nullptr) : nlohmann::json(agreed.error().message)},
               {"toml", offer.toml}});
  } else {
    fmt::print("Job {} of {}, for {} as one of {}: {}\n\n", offer.id, from, own, offer.job.clients.size(),
               fmt::join(offer.job.clients, ", "));
    PrintPlan(plan, offer.job.config, 5);
    fmt::print(
        "\nComputed here, from the job's public constants; no data was read and nothing was joined.\n");
    if (pinned) fmt::print("To join this job and no other: --job {}\n", digest);
    fmt::print("This client's policy: {}\n",
               agreed.ok() ? "within it" : "refused: " + agreed.error().message);
  }
  return agreed.ok() ? 0 : static_cast<int>(agreed.error().code);
}

int Tell(const Common& common, const Joined& joined, const std::string& own) {
  const int code = joined.over ? 0 : static_cast<int>(Code::kInterrupted);
  if (common.json) {
    PrintJson({{"job", joined.job},
               {"client", own},
               {"rounds", joined.result.rounds},
               {"epsilon", Number(joined.result.epsilon)},
               {"delta", joined.result.delta},
               {"over", joined.over},
               {"folder", joined.folder.string()}});
    return code;
  }
  fmt::print("{}: {} rounds answered, ε {} spent at δ = {}\n", joined.over ? "The job is over" : "Stopped",
             joined.result.rounds, EpsilonText(joined.result.epsilon), DigitsUp(joined.result.delta));
  fmt::print("{} {}\n", Styled(stdout, Style::kBold, "Kept in"), joined.folder.string());
  return code;
}

Result<int> GoJoin(const Common& common, const JoinArguments& a, Log& log) {
  TACIT_OK(common.ExpectNoSets("join"));
  JoinOptions o;
  o.server = a.server;
  o.revocations = a.revocations;
  o.data = a.terms.data;
  o.state = a.terms.state;
  o.ledger = a.terms.ledger;
  o.job = a.job;
  o.patience = a.patience;
  o.stop = &ServiceFlag();
  TACIT_OK(CheckPin(a.job));
  TACIT_TRY(o.policy, a.terms.Agreed());
  TACIT_TRY(o.identity, a.identity.Read());
  const WireLog wire([&](const std::string& line) { log({Event::kGrpc, line}); });
  o.log = [&](const LogEvent& e) { log(e); };
  TACIT_OK(CheckList(a.revocations, o.identity));
  if (a.terms.review) {
    o.patience = std::min(o.patience, kReviewPatience);
    TACIT_TRY(const Offer offer, ReadOffer(o));
    return Review(common, offer, o.server, o.policy, o.identity.name, o.job);
  }
  SayWithoutList(a.revocations, log);
  TACIT_TRY(const Joined joined, Join(o));
  return Tell(common, joined, o.identity.name);
}

struct PeerArguments {
  std::string job, listen, revocations, metrics;
  double patience = 3600, linger = 60;
  Terms terms;
  IdentityArguments identity;
};

Result<int> GoPeer(const Common& common, const PeerArguments& a, Log& log) {
  TACIT_TRY(const auto sets, common.Assignments());
  PeerSettings o;
  TACIT_TRY(o.job, LoadJob(a.job, sets));
  o.listen = a.listen;
  o.revocations = a.revocations;
  o.data = a.terms.data;
  o.state = a.terms.state;
  o.ledger = a.terms.ledger;
  o.patience = a.patience;
  o.linger = a.linger;
  o.stop = &ServiceFlag();
  TACIT_TRY(o.policy, a.terms.Agreed());
  TACIT_TRY(o.identity, a.identity.Read());
  TACIT_TRY(const Plan plan, PlanOf(o.job));
  const std::string id = NameOf(o.job, plan).substr(0, 32);
  if (a.terms.review)
    return Review(common, {id, ToToml(o.job), o.job, 0}, a.job, o.policy, o.identity.name, std::nullopt);
  const fs::path folder = o.state / id;
  TACIT_TRY(const bool finished, IsFinished(folder));
  if (finished) {
    if (common.json) {
      TACIT_TRY(const std::string result, ReadWhole(folder / "result.json"));
      fmt::print("{}", result);
    } else {
      fmt::print("The run is finished; its result is in {}\n", (folder / "result.json").string());
    }
    return 0;
  }
  const WireLog wire([&](const std::string& line) { log({Event::kGrpc, line}); });
  o.log = [&](const std::string& line) { log({Event::kPeer, line}); };
  TACIT_OK(CheckList(a.revocations, o.identity));
  SayWithoutList(a.revocations, log);
  if (const Revocations list(a.revocations, o.identity.authority); list.Readable().ok() && list.Outdated())
    log(ListIsOutdated(a.revocations));
  RaiseFileLimit();
  PeerCounts counts;
  std::unique_ptr<MetricsPage> page;
  if (!a.metrics.empty()) {
    o.counts = &counts;
    TACIT_TRY(page, MetricsPage::Start(a.metrics, counts));
    o.log(fmt::format("health and metrics at port {}", page->port()));
  }
  TACIT_TRY(const Joined joined, TakePeersPart(o));
  return Tell(common, joined, o.identity.name);
}

}  // namespace

void AddServe(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "serve", "coordinate a run whose clients are on other machines",
      "  tacit serve job.toml --listen 0.0.0.0:7443 --ca ca/ca.pem --cert server.pem --key server.key\n"
      "  tacit serve job.toml … --crl ca/crl.pem      turns revoked certificates away\n"
      "\nThe job is an experiment file with a table [serve] that names the clients. A server that was\n"
      "stopped or killed goes on when the same command is given again.\n");
  auto a = std::make_shared<ServeArguments>();
  verb->add_option("job", a->job, "experiment file with a table [serve]")->required()->type_name("JOB.toml");
  verb->add_option("--listen", a->listen, "address and port; port 0: any that is free")
      ->default_val("127.0.0.1:7443")
      ->type_name("HOST:PORT");
  a->identity.Add(verb);
  verb->add_option("--crl", a->revocations, "list of revoked certificates; read anew at every call")
      ->type_name("crl.pem");
  verb->add_option("--metrics", a->metrics,
                   "serve /health and /metrics (Prometheus) at this port of the machine")
      ->type_name("HOST:PORT");
  AddSeconds(
      verb, "--drain", a->drain,
      "seconds that clients have to end the round after Ctrl-C or SIGTERM; the next one ends it at once");
  verb->add_option("--folder", a->folder, "folder of the run; default: the job's name in experiment.output")
      ->type_name("DIR");
  verb->callback([a, &run] {
    run.action = [a, &run] {
      return WithLog(run.common, [&](Log& log) { return Serve(run.common, *a, log); });
    };
  });
}

void AddJoin(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "join", "take part in a run on another machine with one's own rows",
      "  tacit join --server train.example.org:7443 --review --ca ca.pem --cert north.pem --key north.key\n"
      "  tacit join --server train.example.org:7443 --data rows.csv --max-epsilon 2 --ca ca.pem \\\n"
      "    --cert north.pem --key north.key\n"
      "  tacit join … --job 6b1d…                     the job that was reviewed, and no other\n"
      "\nThe plan is computed here from the job's public constants, and a job beyond the policy is refused\n"
      "before a row is read. Rows stay here; what leaves is noised here and paid from this machine's own\n"
      "ledger. A client that was stopped or killed goes on when the same command is given again.\n");
  auto a = std::make_shared<JoinArguments>();
  verb->add_option("--server", a->server, "where `tacit serve` listens")->required()->type_name("HOST:PORT");
  verb->add_option("--job", a->job,
                   "join this job and no other: its SHA-256 as --review prints it, or 16 digits of it or "
                   "more from the beginning")
      ->type_name("SHA256");
  a->terms.Add(verb, true);
  a->identity.Add(verb);
  verb->add_option(
          "--crl", a->revocations,
          "list of revoked certificates, of the server and of clients whose masks are used; read anew "
          "at every call")
      ->type_name("crl.pem");
  AddSeconds(verb, "--patience", a->patience, "seconds without the server after which to give up");
  verb->callback([a, &run] {
    run.action = [a, &run] {
      return WithLog(run.common, [&](Log& log) { return GoJoin(run.common, *a, log); });
    };
  });
}

void AddPeer(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "peer", "take part in a run without a server, with neighbours on other machines",
      "  tacit peer job.toml --review --ca ca.pem --cert north.pem --key north.key\n"
      "  tacit peer job.toml --data rows.csv --max-epsilon 2 --ca ca.pem --cert north.pem --key north.key\n"
      "\nEvery peer has the job as a file, with the names and addresses of all in its table [serve], and a\n"
      "certificate of `tacit keys issue NAME --peer`. It listens at its own address for its neighbours, and\n"
      "what leaves is noised here and paid from this machine's own ledger. A peer that was stopped or "
      "killed\n"
      "goes on when the same command is given again; its neighbours wait for it.\n");
  auto a = std::make_shared<PeerArguments>();
  verb->add_option("job", a->job, "experiment file with a table [serve]")->required()->type_name("JOB.toml");
  verb->add_option("--listen", a->listen, "where to listen, if not at this peer's own address in the job")
      ->type_name("HOST:PORT");
  a->terms.Add(verb, false);
  a->identity.Add(verb);
  verb->add_option("--crl", a->revocations, "list of revoked certificates; read anew at every call")
      ->type_name("crl.pem");
  verb->add_option("--metrics", a->metrics,
                   "serve /health and /metrics (Prometheus) at this port of the machine")
      ->type_name("HOST:PORT");
  AddSeconds(verb, "--patience", a->patience, "seconds to wait for a neighbour's note before giving up");
  AddSeconds(verb, "--linger", a->linger, "seconds to wait at the end for neighbours that are behind");
  verb->callback([a, &run] {
    run.action = [a, &run] {
      return WithLog(run.common, [&](Log& log) { return GoPeer(run.common, *a, log); });
    };
  });
}

}  // namespace tacit::cli
