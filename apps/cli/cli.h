#pragma once

// What the verbs of the program share. A verb is one file: it adds its subcommand and, when that is
// the one on the command line, leaves the action to run.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "experiment/config.h"
#include "experiment/json_number.h"
#include "experiment/plan.h"
#include "terminal.h"

namespace tacit {
class Ranks;
}

namespace tacit::cli {

// The flags that every verb knows.
struct Common {
  bool json = false;                   // one JSON document on stdout, errors too
  bool quiet = false;                  // nothing on stderr but errors
  std::vector<std::string> sets;       // --set table.key=value
  std::optional<std::string> threads, seed;      // as written: checked with the keys they set

  // --set in order, then --threads and --seed.
  Result<std::vector<Assignment>> Assignments() const;
  // Of verbs that make many runs of one thread each: --jobs or, if that is 0, --threads.
  unsigned Jobs(unsigned asked) const;
  // For verbs without an experiment: a --set there is checked and said to change nothing.
  Status ExpectNoSets(const char* verb) const;
};

using Action = std::function<Result<int>()>;     // the exit code, or an error

struct Invocation {
  Common common;
  Action action;
  // The processes of this call, where there are several and the verb divides its work between them.
  std::shared_ptr<Ranks> ranks = {};
  bool aside() const;  // this is not the one that reads, writes and talks
};

// Who started this process together with others: mpirun, srun, mpiexec. size 0 or 1: there are no others.
struct Launched {
  const char* by = "";
  std::uint32_t rank = 0, size = 0;
};
Launched HowLaunched();
// Finds them. stop: what a signal to rank 0 calls that asks for an end after this round.
Result<std::unique_ptr<Ranks>> StartRanks(const Launched&, void (*stop)());

// A subcommand with the common flags. `examples`: lines of commands for its help.
CLI::App* AddVerb(CLI::App& parent, Invocation&, const char* name, const char* summary, const char* examples);

void AddTrain(CLI::App&, Invocation&);
void AddResume(CLI::App&, Invocation&);
void AddPlan(CLI::App&, Invocation&);
void AddAccount(CLI::App&, Invocation&);
void AddAccountEvents(CLI::App* account, Invocation&);
void AddAccountClaims(CLI::App* account, Invocation&);
void AddCalibrate(CLI::App&, Invocation&);
void AddSweep(CLI::App&, Invocation&);
void AddTune(CLI::App&, Invocation&);
void AddPredict(CLI::App&, Invocation&);
void AddEvaluate(CLI::App&, Invocation&);
void AddReproduce(CLI::App&, Invocation&);
void AddRuns(CLI::App&, Invocation&);
void AddLedger(CLI::App&, Invocation&);
void AddVerify(CLI::App&, Invocation&);
void AddAudit(CLI::App&, Invocation&);
void AddSign(CLI::App&, Invocation&);
void AddKeys(CLI::App&, Invocation&);
void AddServe(CLI::App&, Invocation&);
void AddJoin(CLI::App&, Invocation&);
void AddPeer(CLI::App&, Invocation&);
void AddStatus(CLI::App&, Invocation&);
void AddData(CLI::App&, Invocation&);
void AddBoard(CLI::App&, Invocation&);
void AddOptions(CLI::App&, Invocation&);
void AddCompletion(CLI::App&, Invocation&);
void AddVersion(CLI::App&, Invocation&);
void AddHelp(CLI::App&, Invocation&);

// What is planned, in a dozen lines with `rounds` lines of the schedule (0: all).
void PrintPlan(const Plan&, const Config&, std::size_t rounds);
// A run folder by its path, or by its name below runs/.
Result<std::filesystem::path> FindRun(const std::string& run);

// The certificate.json that a path or the name of a run means.
Result<std::filesystem::path> FindCertificate(const std::string& where);
// Where the passphrase of a key comes from: a file, the file that TACIT_PASSPHRASE_FILE names, or a prompt.
// Never from the command line, which every user of the machine can read.
struct PassphraseOptions {
  std::string file;
  void Add(CLI::App* verb);  // --passphrase-file
  Result<std::string> Ask(const std::string& key) const;
};

std::vector<const CLI::App*> VerbsOf(const CLI::App&);
const CLI::App* FindVerb(const CLI::App&, std::string_view name);      // nullptr: none

int PrintJson(const nlohmann::json&);            // to stdout; returns 0
void Warn(const std::string& sentence);          // to stderr, marked as a warning
std::string MainHelp(const CLI::App&);
// tacit.1 and tacit-VERB.1, to be read with man; the names of the files.
Result<std::vector<std::string>> WriteManual(const CLI::App&, const std::string& folder);
extern const char* const kExitCodes;

// The first Ctrl-C sets the flag, the second ends the process.
const std::atomic<bool>& InterruptFlag();
// The same, for services: SIGTERM sets it, too.
const std::atomic<bool>& ServiceFlag();

}  // namespace tacit::cli
