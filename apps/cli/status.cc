// tacit status: how far a run over several machines is, by what its server says or by what a site has kept.
#include <algorithm>
#include <memory>

#include "cli.h"
#include "experiment/job.h"
#include "net/metrics.h"
#include "privacy/gdp.h"
#include "privacy/ledger.h"

namespace tacit::cli {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string server, state = "tacit-site";
};

Result<int> OfServer(const Common& common, const std::string& address) {
  TACIT_TRY(const auto counts, ReadMetrics(address));
  const auto of = [&](const char* name) {
    const auto found = counts.find(name);
    return found == counts.end() ? std::uint64_t{0} : found->second;
  };
  if (common.json)
    return PrintJson({{"round", of("round")},
                      {"rounds", of("rounds_planned")},
                      {"clients", of("clients")},
                      {"clients_seen", of("clients_seen")},
                      {"answers", of("answers_total")},
                      {"refused", of("answers_refused_total")},
                      {"missing", of("answers_missing_total")},
                      {"turned_away", of("calls_turned_away_total")},
                      {"bytes_received", of("bytes_received_total")},
                      {"bytes_sent", of("bytes_sent_total")},
                      {"over", of("job_over") != 0},
                      {"draining", of("draining") != 0},
                      {"overdue", of("round_overdue") != 0},
                      {"deadline_seconds_left", of("round_deadline_seconds_left")},
                      {"revocations_unreadable", of("revocations_unreadable") != 0},
                      {"answers_not_kept", of("answers_not_kept") != 0}});
  fmt::print("round        {} of {}{}{}\n", of("round"), of("rounds_planned"),
             of("job_over") != 0        ? "; the job is over"
             : of("round_overdue") != 0 ? "; its deadline has passed, and it waits for more answers"
                                        : "",
             of("draining") != 0 && of("job_over") == 0 ? "; the server is about to stop" : "");
  if (of("revocations_unreadable") != 0)
    fmt::print("nobody is let in: the list of revoked certificates cannot be read\n");
  if (of("answers_not_kept") != 0)
    fmt::print("no answers are taken: whose they are cannot be written down\n");
  fmt::print("clients      {} of {} have called\n", of("clients_seen"), of("clients"));
  fmt::print("answers      {} taken, {} refused, {} missing when their round ended\n", of("answers_total"),
             of("answers_refused_total"), of("answers_missing_total"));
  fmt::print("turned away  {} calls\n", of("calls_turned_away_total"));
  fmt::print("traffic      {} received, {} sent\n", Bytes(of("bytes_received_total")),
             Bytes(of("bytes_sent_total")));
  return 0;
}

// The jobs that a site has taken part in, each in a folder of its own.
Result<int> OfSite(const Common& common, const fs::path& state) {
  std::error_code ec;
  if (!fs::is_directory(state, ec))
    return Fail(Code::kNotFound,
                "{}: no such folder; name the --state of `tacit join` or `tacit peer`, or a --server",
                state.string());
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(state, ec))
    if (fs::exists(entry.path() / "ledger.db", ec)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  nlohmann::json all = nlohmann::json::array();
  for (const fs::path& folder : folders) {
    TACIT_TRY(const auto records, SqliteVault::Read(folder / "ledger.db"));
    for (const LedgerRecord& one : records) {
      double spent = 0;
      for (const double x : one.spent) spent = std::max(spent, x);
      const double epsilon = !one.plan.empty()
                                 ? one.plan_epsilon
                                 : GdpEpsilon(Root(MuSquared::Proven(spent)), Delta::Proven(one.delta)).upper;
      all.push_back({{"job", one.run},
                     {"data", one.data},
                     {"unit", one.unit},
                     {"mode", one.mode},
                     {"rounds", one.rounds_released},
                     {"epsilon", Number(epsilon)},
                     {"delta", one.delta},
                     {"over", one.state == "settled"}});
      if (common.json) continue;
      fmt::print("{}  {}\n", one.run, one.state == "settled" ? "over" : "goes on, or was stopped");
      fmt::print("  rounds     {} have left this machine\n", one.rounds_released);
      fmt::print("  ε          {} at δ = {}, reserved rounds included; about one {}\n", EpsilonText(epsilon),
                 DigitsUp(one.delta), one.unit);
      fmt::print("  data       {}\n", one.data);
    }
  }
  if (common.json) return PrintJson(all);
  if (all.empty()) fmt::print("{}: no job has been joined from here\n", state.string());
  return 0;
}

}  // namespace

void AddStatus(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "status", "how far a run over several machines is",
      "  tacit status --server 127.0.0.1:9090     what `tacit serve --metrics 127.0.0.1:9090` counts\n"
      "  tacit status --state tacit-site          the jobs of this site, and what each has cost\n");
  auto a = std::make_shared<Arguments>();
  verb->add_option("--server", a->server, "where a server on this machine has its --metrics")
      ->type_name("HOST:PORT");
  verb->add_option("--state", a->state, "folder of `tacit join` or `tacit peer`")
      ->capture_default_str()
      ->type_name("DIR");
  verb->callback([a, &run] {
    run.action = [a, &run]() -> Result<int> {
      TACIT_OK(run.common.ExpectNoSets("status"));
      return a->server.empty() ? OfSite(run.common, a->state) : OfServer(run.common, a->server);
    };
  });
}

}  // namespace tacit::cli
