// tacit train: from an experiment file to a model with a certificate.
#include <cmath>
#include <functional>
#include <memory>

#include "cli.h"
#include "experiment/run.h"
#include "experiment/second_order_plan.h"
#include "experiment/signature.h"

namespace tacit::cli {
namespace {

// The metric worth watching: how good the model is, or how far from the optimum.
std::string Headline(const Metrics& m) {
  if (m.accuracy) return fmt::format("accuracy {:.2f} %", 100 * *m.accuracy);
  if (m.error) return fmt::format("error {}", Digits(*m.error, 3));
  if (m.optimality) return fmt::format("optimality {}", Digits(*m.optimality, 3));
  if (m.loss) return fmt::format("loss {}", Digits(*m.loss));
  return "";
}

void PrintResult(const RunResult& r, const Config& c) {
  const std::string where =
      c.data.test.empty() ? "on the training data, by the oracle" : "on the public test set " + c.data.test;
  Table table({r.interrupted ? "Result (interrupted)" : "Result", ""});
  table.Left(0);
  table.Left(1);
  const auto row = [&](const char* name, const std::optional<double>& v, const std::string& note) {
    if (v) table.Add({name, Digits(*v, 6) + (note.empty() ? "" : "  " + note)});
  };
  if (r.metrics.accuracy)
    table.Add({"accuracy", fmt::format("{:.2f} %  {}", 100 * *r.metrics.accuracy, where)});
  row("loss", r.metrics.loss, where);
  row("optimality", r.metrics.optimality, "by the oracle");
  row("error", r.metrics.error, "of the peers, normalised, by the oracle");
  row("consensus", r.metrics.consensus, r.plan.network ? "of the peers' models" : "by the oracle");
  row("primal residual", r.metrics.primal_residual, "of the last notes");
  row("dual residual", r.metrics.dual_residual, "of the last notes");
  if (!c.data.test.empty()) {
    row("training loss", r.metrics.train_loss, "by the oracle");
    row("training accuracy", r.metrics.train_accuracy, "by the oracle");
  }
  table.Add(
      {"ε certified", fmt::format("{} at δ = {}", EpsilonText(r.certified_epsilon), DigitsUp(r.plan.delta))});
  if (r.claimed_epsilon)
    table.Add({"ε claimed", fmt::format("{} by the paper", DigitsUp(*r.claimed_epsilon))});
  table.Add(
      {"rounds", r.rounds_done == r.plan.schedule.size()
                     ? Grouped(r.rounds_done)
                     : fmt::format("{} of {}", Grouped(r.rounds_done), Grouped(r.plan.schedule.size()))});
  const Answers& a = r.answers;
  if (const auto missed = a.absent + a.wrong_length + a.not_finite; missed > 0)
    table.Add({"not counted", fmt::format("{} messages: {} never came, {} of the wrong length, {} not finite",
                                          Grouped(missed), a.absent, a.wrong_length, a.not_finite)});
  table.Add({"traffic", fmt::format("{} up, {} down", Bytes(r.bytes_up), Bytes(r.bytes_down))});
  // How long it took says how many were in the samples; where that is secret, it is not shown.
  const bool poisson =
      r.plan.second_order && r.plan.second_order->options.sampling.sample.kind == SampleKind::kPoisson;
  if (!r.plan.secret() && !poisson)
    table.Add(
        {"time", fmt::format("{} on {} thread{}{}", Duration(r.seconds), r.threads, r.threads == 1 ? "" : "s",
                             r.ranks == 1 ? "" : fmt::format(" at each of {} ranks", r.ranks))});
  table.Print(stdout, 0);
}

struct Arguments {
  std::string what, sign;      // an experiment file or a run; a private key
  PassphraseOptions passphrase;

  void Add(CLI::App* verb) {
    verb->add_option("--sign", sign, "sign the certificate with this private key")->type_name("KEY.pem");
    passphrase.Add(verb);
  }
};

// Trains with plan, progress bar, result and certificate on the terminal. `go` does the training.
Result<int> Show(const Invocation& call, const Arguments& a, const Config& config,
                 const std::function<Result<RunResult>(const TrainHooks&)>& go) {
  const Common& common = call.common;
  TrainHooks hooks;
  hooks.ranks = call.ranks.get();
  if (call.aside()) {
    TACIT_TRY([[maybe_unused]] const RunResult none, go(hooks));
    return 0;
  }
  std::optional<PrivateKey> key;  // read before the work: a wrong passphrase must not cost a run
  if (!a.sign.empty()) {
    TACIT_TRY(key, PrivateKey::Read(a.sign, [&](const std::string& name) { return a.passphrase.Ask(name); }));
  }
  ProgressBar bar(common.quiet ? ProgressBar::Kind::kNone : ProgressBar::Kind::kFull);
  std::string headline;
  double budget = kInf;
  hooks.interrupt = &InterruptFlag();
  hooks.planned = [&](const Plan& plan) {
    budget = plan.epsilon;
    if (!common.json && !common.quiet) {
      PrintPlan(plan, config, 5);
      fmt::print("\n");
      std::fflush(stdout);
    }
    bar.Say(fmt::format("reading {} …", config.data.source));
  };
  hooks.progress = [&](const Progress& p) {
    if (p.metrics != nullptr) headline = Headline(*p.metrics);
    if (!bar.due()) return;
    const std::string spent = std::isinf(p.epsilon) ? "not private"
                              : p.planned           ? fmt::format("ε {} planned", DigitsUp(p.epsilon))
                                          : fmt::format("ε {} of {}", DigitsUp(p.epsilon), DigitsUp(budget));
    bar.Update(static_cast<double>(p.round) / static_cast<double>(p.rounds), p.seconds,
               fmt::format("round {} of {}, {}{}{}", p.round, p.rounds, spent, headline.empty() ? "" : ", ",
                           headline));
  };
  auto run = go(hooks);
  bar.Clear();
  if (!run.ok()) return run.error();
  if (key) TACIT_OK(SignFile(run->folder / "certificate.json", *key));
  const int code = run->interrupted ? static_cast<int>(Code::kInterrupted) : 0;
  if (common.json) {
    nlohmann::json document = ToJson(*run, config);
    if (key) document["signed_by"] = key->public_key().fingerprint();
    PrintJson(document);
    return code;
  }
  PrintResult(*run, config);
  fmt::print("\n{}", CertificateText(Certificate(*run, config)));
  fmt::print("\n{} {}\n", Styled(stdout, Style::kBold, "Kept in"), run->folder.string());
  fmt::print("  config.toml, trace.jsonl, model.npy, certificate.txt, certificate.json, ledger.db\n");
  if (key) fmt::print("  certificate.json.sig, signed by {}\n", key->public_key().fingerprint());
  if (run->interrupted) fmt::print("Go on with: tacit resume {}\n", run->folder.string());
  return code;
}

Result<int> Run(const Invocation& call, const Arguments& a) {
  TACIT_TRY(const auto sets, call.common.Assignments());
  TACIT_TRY(const Config config, LoadConfig(a.what, sets));
  return Show(call, a, config, [&](const TrainHooks& hooks) { return Train(config, hooks); });
}

// The run folder below runs/ that was begun last and can go on.
Result<std::filesystem::path> Unfinished() {
  namespace fs = std::filesystem;
  std::error_code ec;
  fs::path newest;
  fs::file_time_type when{};
  for (const fs::directory_entry& e : fs::directory_iterator("runs", ec)) {
    const fs::path config = e.path() / "config.toml";
    if (!ConfigToResume(e.path(), {}).ok()) continue;
    const auto time = fs::last_write_time(config, ec);
    if (newest.empty() || time > when) newest = e.path(), when = time;
  }
  if (newest.empty())
    return Fail(Code::kNotFound,
                "runs: holds no unfinished run; name a run folder, e.g. tacit resume runs/NAME");
  return newest;
}

Result<int> GoOn(const Invocation& call, const Arguments& a) {
  TACIT_TRY(const auto sets, call.common.Assignments());
  std::filesystem::path folder;
  if (a.what.empty()) {
    TACIT_TRY(folder, Unfinished());
  } else {
    TACIT_TRY(folder, FindRun(a.what));
  }
  TACIT_TRY(const Config config, ConfigToResume(folder, sets));
  return Show(call, a, config, [&](const TrainHooks& hooks) { return Resume(folder, sets, hooks); });
}

}  // namespace

void AddTrain(CLI::App& app, Invocation& run) {
  CLI::App* verb = AddVerb(
      app, run, "train", "train a model and certify what it cost",
      "  tacit train experiments/demo.toml\n"
      "  tacit train experiments/demo.toml --set privacy.epsilon=1 --seed 7\n"
      "  tacit train experiments/demo.toml --json | jq .privacy\n"
      "  tacit train experiments/demo.toml --sign me.pem      and sign the certificate\n"
      "  mpirun -n 4 tacit train experiments/demo.toml        on four processes, with the same model\n"
      "\nCtrl-C stops after the round that is running, with a certificate of what was spent; a\n"
      "second Ctrl-C ends the program at once (the ledger already shows what was released). Either way\n"
      "`tacit resume` goes on from the last checkpoint.\n");
  auto a = std::make_shared<Arguments>();
  verb->add_option("file", a->what, "experiment file")->required()->type_name("FILE.toml");
  a->Add(verb);
  verb->callback([a, &run] { run.action = [a, &run] { return Run(run, *a); }; });
}

void AddResume(CLI::App& app, Invocation& run) {
  CLI::App* verb =
      AddVerb(app, run, "resume", "go on with a run that was stopped or killed",
              "  tacit resume                             the last unfinished run below runs/\n"
              "  tacit resume runs/demo-20260102T030405   this one\n"
              "\nThe run ends as if it had not been interrupted: with replayable noise bit for bit. It goes\n"
              "on from the last checkpoint (experiment.checkpoint); what was computed after that was\n"
              "seen by nobody and costs nothing twice. Only runtime.* keys may be --set.\n");
  auto a = std::make_shared<Arguments>();
  verb->add_option("run", a->what, "run folder, or its name below runs/")->type_name("RUN");
  a->Add(verb);
  verb->callback([a, &run] { run.action = [a, &run] { return GoOn(run, *a); }; });
}

}  // namespace tacit::cli
