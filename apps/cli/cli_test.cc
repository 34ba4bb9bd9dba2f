// The program as a person or a script meets it: every case starts the built binary.
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "program_test.h"

namespace tacit {
namespace {

// What is wrong, and how it is said, is the table tests/bad_input/cases.toml.
constexpr int kWrong = static_cast<int>(Code::kInvalidArgument);

TEST_F(CliTest, TrainPrintsTheDocumentThatIsPromised) {
  const json r = RunJson({"train", Small(), "--threads", "2"});
  for (const char* key : {"algorithm", "mode", "rounds", "metrics", "privacy", "bytes_up", "bytes_down",
                          "seconds", "threads", "model_sha256"})
    EXPECT_TRUE(r.contains(key)) << key;
  for (const char* key : {"unit", "adjacency", "delta", "certified_epsilon", "claimed_epsilon", "mu"})
    EXPECT_TRUE(r["privacy"].contains(key)) << key;
  EXPECT_EQ(r["algorithm"], "primal-dual");
  EXPECT_EQ(r["mode"], "certified");
  EXPECT_EQ(r["rounds"], 30);
  EXPECT_EQ(r["threads"], 2);
  EXPECT_TRUE(r["privacy"]["claimed_epsilon"].is_null());
  EXPECT_LE(r["privacy"]["certified_epsilon"].get<double>(), 4.0);
  EXPECT_GT(r["privacy"]["certified_epsilon"].get<double>(), 3.99);
  EXPECT_EQ(r["model_sha256"].get<std::string>().size(), 64u);
}

TEST_F(CliTest, ThreadsChangeNothingAndSeedsDo) {
  const std::string file = Small();
  const json one = RunJson({"train", file, "--threads", "1"});
  for (const char* threads : {"2", "3", "8"})
    EXPECT_EQ(RunJson({"train", file, "--threads", threads})["model_sha256"], one["model_sha256"]);
  const json seven = RunJson({"train", file, "--seed", "7"});
  EXPECT_NE(seven["model_sha256"], one["model_sha256"]);
  EXPECT_EQ(RunJson({"train", file, "--set", "experiment.seed=7"})["model_sha256"], seven["model_sha256"]);
  EXPECT_EQ(RunJson({"--seed", "7", "train", file})["model_sha256"], seven["model_sha256"]);
}

TEST_F(CliTest, ARunIsKeptReadAndUsed) {
  const Outcome o = Run({"train", Small(), "--set", "experiment.name=mine"});
  ASSERT_EQ(o.code, 0) << o.err;
  for (const char* part :
       {"Plan (from public constants", "ε so far", "Result", "PRIVACY CERTIFICATE", "Kept in runs/mine-"})
    EXPECT_NE(o.out.find(part), std::string::npos) << part << " is not in\n" << o.out;
  EXPECT_LT(o.out.find("Plan"), o.out.find("Result"));
  EXPECT_EQ(o.out.find("\033["), std::string::npos);           // no colours in a file
  fs::path run;
  for (const auto& entry : fs::directory_iterator(home_ / "runs"))
    if (entry.is_directory()) run = entry.path();      // beside them is the ledger of all runs
  for (const char* file :
       {"config.toml", "trace.jsonl", "model.npy", "certificate.json", "certificate.txt", "ledger.db"})
    EXPECT_TRUE(fs::exists(run / file)) << file;
  EXPECT_TRUE(json::parse(Slurp(run / "certificate.json"), nullptr, false).is_object());

  // The resolved config is an experiment itself, and gives the same model.
  const json again = RunJson({"train", (run / "config.toml").string()});
  EXPECT_EQ(again["model_sha256"], json::parse(Slurp(run / "result.json"))["model_sha256"]);

  const json ledger = RunJson({"account", "ledger", run.filename().string()});
  ASSERT_EQ(ledger["runs"].size(), 1u);
  EXPECT_EQ(ledger["runs"][0]["state"], "settled");
  EXPECT_LE(ledger["runs"][0]["epsilon"].get<double>(), 4.0);

  std::string rows;
  for (int i = 0; i < 20; ++i) rows += fmt::format("{} 1:{} 12:0.5\n", i % 2 == 0 ? "+1" : "-1", 0.1 * i);
  Write("new.libsvm", rows);
  const std::string name = run.string();
  const json metrics = RunJson({"evaluate", name, "--data", "new.libsvm"});
  EXPECT_EQ(metrics["rows"], 20);
  EXPECT_TRUE(metrics["metrics"]["loss"].is_number());
  const Outcome csv = Run({"predict", name, "--data", "new.libsvm", "-o", "out.csv"});
  ASSERT_EQ(csv.code, 0) << csv.err;
  const std::string predictions = Slurp(home_ / "out.csv");
  EXPECT_EQ(predictions.substr(0, predictions.find('\n')), "row,prediction,score");
  EXPECT_EQ(std::count(predictions.begin(), predictions.end(), '\n'), 21);
  EXPECT_EQ(RunJson({"predict", name, "--data", "new.libsvm"})["predictions"].size(), 20u);
}

TEST_F(CliTest, APlanTouchesNoData) {
  Write(
      "elsewhere.toml",
      "data = { source = \"not/here.csv\", rows = 1000, features = 20, clients = 10, row_norm = \"clip\" }\n"
      "model = { l2 = 0.1, penalty = \"box\" }\nprivacy = { epsilon = 1, delta = 1e-4 }\nalgorithm = { "
      "rounds = 50, initial_error = 10 }\n");
  const json plan = RunJson({"plan", "elsewhere.toml"});
  EXPECT_EQ(plan["schedule"].size(), 50u);
  EXPECT_LE(plan["certified_epsilon"].get<double>(), 1.0);
  EXPECT_LE(plan["schedule"][0]["epsilon"].get<double>(), plan["schedule"][49]["epsilon"].get<double>());
  EXPECT_TRUE(plan["rounds_needed"].is_number());
  const Outcome text = Run({"plan", "elsewhere.toml", "--all"});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* part : {"noise on gradient", "min{1/4, 1/L_f}", "(12)", "traffic"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part;
  EXPECT_EQ(RunJson({"plan", "elsewhere.toml", "--set", "privacy.mechanism=expose"})["certified_epsilon"],
            "inf");
}

TEST_F(CliTest, ALongPlanIsThinnedUnlessAllIsAskedFor) {
  const std::vector<std::string> call = {
      "plan", Small(), "--set", "algorithm.rounds=3000", "--set", "algorithm.allocation=static"};
  const json plan = RunJson(call);
  ASSERT_EQ(plan["schedule"].size(), 1000u);
  EXPECT_EQ(plan["schedule_complete"], false);
  EXPECT_EQ(plan["rounds"], 3000);
  EXPECT_NEAR(plan["schedule"][999]["epsilon"].get<double>() / plan["certified_epsilon"].get<double>(), 1,
              1e-12);
  std::vector<std::string> whole = call;
  whole.emplace_back("--all");
  const json all = RunJson(whole);
  ASSERT_EQ(all["schedule"].size(), 3000u);
  EXPECT_EQ(all["schedule_complete"], true);
  EXPECT_EQ(all["schedule"][2999], plan["schedule"][999]);
}

TEST_F(CliTest, AFullDiskIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  fs::create_symlink("/dev/full", home_ / "stdout.txt");
  for (const char* form : {"--json", "--quiet"}) {
    const pid_t child = Start({"options", form});
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(Code::kIo)) << form;
    EXPECT_EQ(Slurp(home_ / "stderr.txt").find("internal"), std::string::npos) << form;
  }
}

TEST_F(CliTest, TheMultiplierShownKeepsItsEpsilon) {
  for (const char* epsilon : {"0.1", "1", "3", "7.7"}) {
    const Outcome o = Run({"account", "gaussian", "--epsilon", epsilon, "--delta", "1e-5"});
    ASSERT_EQ(o.code, 0) << o.err;
    const std::string label = "noise multiplier  ";
    const std::size_t at = o.out.find(label) + label.size();
    const std::string shown = o.out.substr(at, o.out.find(',', at) - at);
    const json back = RunJson({"account", "gaussian", "--noise-multiplier", shown, "--delta", "1e-5"});
    EXPECT_LE(back["epsilon"].get<double>(), std::stod(epsilon)) << shown;
    EXPECT_GT(back["epsilon"].get<double>(), std::stod(epsilon) * (1 - 1e-9)) << shown;
  }
}

TEST_F(CliTest, PaperModeShowsClaimAndProof) {
  // (1, 1e-4) calibrated by the zCDP conversion is (0.6937, 1e-4) in truth.
  const json r = RunJson({"train", Small(), "--set", "algorithm.mode=paper", "--set", "privacy.epsilon=1",
                          "--set", "privacy.delta=1e-4"});
  EXPECT_EQ(r["privacy"]["claimed_epsilon"], 1.0);
  EXPECT_NEAR(r["privacy"]["certified_epsilon"].get<double>(), 0.693681, 1e-5);
}

TEST_F(CliTest, AccountsAreExact) {
  // μ = √100 / 10 = 1.
  const json r =
      RunJson({"account", "gaussian", "--noise-multiplier", "10", "--rounds", "100", "--delta", "1e-5"});
  EXPECT_NEAR(r["epsilon"].get<double>(), 4.377178095681, 1e-11);
  EXPECT_LE(r["epsilon_lower"].get<double>(), r["epsilon"].get<double>());
  EXPECT_EQ(r["mu"], 1.0);
  for (const char* key : {"delta", "method", "adjacency", "noise_multiplier", "rounds", "zcdp_epsilon"})
    EXPECT_TRUE(r.contains(key)) << key;
  const json sigma = RunJson(
      {"account", "gaussian", "--sigma", "40", "--sensitivity", "4", "--rounds", "100", "--delta", "1e-5"});
  EXPECT_EQ(sigma["epsilon"], r["epsilon"]);
  const json clip =
      RunJson({"account", "gaussian", "--sigma", "40", "--clip", "2", "--rounds", "100", "--delta", "1e-5"});
  EXPECT_EQ(clip["epsilon"], r["epsilon"]);
  const json half = RunJson({"account", "gaussian", "--sigma", "40", "--clip", "2", "--rounds", "100",
                             "--delta", "1e-5", "--adjacency", "zero-out"});
  EXPECT_EQ(half["noise_multiplier"], 20.0);
  // The inverse keeps what was asked for, and no more than a hair better.
  const json inverse =
      RunJson({"account", "gaussian", "--epsilon", "1", "--rounds", "100", "--delta", "1e-4"});
  EXPECT_LE(inverse["epsilon"].get<double>(), 1.0);
  EXPECT_GT(inverse["epsilon"].get<double>(), 1 - 1e-12);
}

TEST_F(CliTest, SweepsResume) {
  const std::string file = Small(
      "sweep = { seeds = 2, grid = { algorithm.rounds = [5, 10], privacy.epsilon = [1, 4] } }\n"
      "experiment = { oracle = true }\n");
  const json first = RunJson({"sweep", file, "--jobs", "2"});
  EXPECT_EQ(first["ran"], 8);
  EXPECT_EQ(first["points"].size(), 4u);
  EXPECT_EQ(first["points"][0]["metrics"]["optimality"]["count"], 2);
  const json second = RunJson({"sweep", file, "--set", "runtime.threads=7"});
  EXPECT_EQ(second["ran"], 0);
  EXPECT_EQ(second["resumed"], 8);
  EXPECT_EQ(second["points"], first["points"]);
  const Outcome table = Run({"sweep", file, "--set", "algorithm.rounds=5"});
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("±"), std::string::npos) << table.out;
}

TEST_F(CliTest, CtrlCEndsWithACertificate) {
  const pid_t child = Start({"train", Small(), "--set", "algorithm.rounds=10000000", "--set",
                             "experiment.trace_every=10", "--set", "experiment.checkpoint=0", "--json"});
  // Interrupted once it trains: the first lines of the trace are there.
  for (int i = 0; i < 6000; ++i) {
    fs::path trace;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(home_ / "runs", ignored))
      if (entry.is_directory()) trace = entry.path() / "trace.jsonl";
    if (!trace.empty() && fs::exists(trace) && fs::file_size(trace, ignored) > 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(::kill(child, SIGINT), 0);
  const Outcome o = Wait(child);
  EXPECT_EQ(o.code, 130) << o.err;
  const json r = json::parse(o.out, nullptr, false);
  ASSERT_TRUE(r.is_object()) << o.out << o.err;
  EXPECT_EQ(r["interrupted"], true);
  EXPECT_LT(r["privacy"]["certified_epsilon"].get<double>(), 4.0);
  const fs::path folder = home_ / r["folder"].get<std::string>();
  EXPECT_TRUE(fs::exists(folder / "certificate.json"));
  EXPECT_TRUE(fs::exists(folder / "model.npy"));
}

TEST_F(CliTest, SaysWhatAnAccountMeans) {
  for (std::vector<std::string> command : std::vector<std::vector<std::string>>{
           {"account", "gaussian", "--noise-multiplier", "2", "--delta", "1e-5"},
           {"account", "subsampled-gaussian", "--noise-multiplier", "1", "--rate", "0.01", "--rounds", "1000",
            "--delta", "1e-5"},
           {"account", "pure", "--epsilon", "0.1", "--delta", "1e-5"},
           {"account", "priv-unit", "--epsilon-direction", "1", "--epsilon-scalar", "1", "--dimension", "10",
            "--delta", "1e-5"},
           {"account", "compare", "--noise-multiplier", "1", "--rounds", "10", "--delta", "1e-5"},
           {"calibrate", "--epsilon", "1", "--delta", "1e-5", "--rounds", "10"}}) {
    SCOPED_TRACE(command[0] + " " + command[1]);
    EXPECT_FALSE(RunJson(command).contains("group"));
    command.insert(command.end(), {"--group", "2", "--belief", "0.25", "--trade-off"});
    const json out = RunJson(command);
    EXPECT_EQ(out["group"]["size"], 2);
    EXPECT_GT(out["group"]["epsilon"].get<double>(), out["epsilon"].get<double>());
    EXPECT_GE(out["belief"]["posterior"].get<double>(), 0.25);
    EXPECT_GE(out["belief"]["success"].get<double>(), 0.75);
    ASSERT_EQ(out["trade_off"].size(), 12u);
    for (const json& p : out["trade_off"]) EXPECT_LE(p["beta"].get<double>(), 1 - p["alpha"].get<double>());
  }
}

TEST_F(CliTest, AccountsForSampledAndOtherReleases) {
  const json poisson = RunJson({"account", "subsampled-gaussian", "--noise-multiplier", "1", "--rate", "0.01",
                                "--rounds", "1000", "--delta", "1e-5"});
  EXPECT_NEAR(poisson["epsilon"].get<double>(), 1.8282366665, 1e-8);
  EXPECT_EQ(poisson["adjacency"], "add-remove");
  EXPECT_LE(poisson["epsilon_lower"].get<double>(), poisson["epsilon"].get<double>());
  const json fixed = RunJson({"account", "subsampled-gaussian", "--noise-multiplier", "1", "--rate", "0.01",
                              "--rounds", "1000", "--delta", "1e-5", "--sampling", "fixed"});
  EXPECT_NEAR(fixed["epsilon"].get<double>(), 2.1989, 2e-4);
  EXPECT_EQ(fixed["adjacency"], "replace-one");
  const json pure =
      RunJson({"account", "pure", "--epsilon", "1", "--rounds", "10", "--delta", "1e-5", "--curve"});
  EXPECT_NEAR(pure["epsilon"].get<double>(), 9.9997706345349417, 1e-9);
  EXPECT_EQ(pure["curve"].size(), 16u);
  const json found = RunJson(
      {"calibrate", "--epsilon", "1.8282366666", "--delta", "1e-5", "--rate", "0.01", "--rounds", "1000"});
  EXPECT_NEAR(found["noise_multiplier"].get<double>(), 1, 1e-8);
  EXPECT_LE(found["epsilon"].get<double>(), 1.8282366666);
  const json rounds = RunJson({"calibrate", "--epsilon", "1.8282366666", "--delta", "1e-5", "--rate", "0.01",
                               "--noise-multiplier", "1"});
  EXPECT_EQ(rounds["rounds"].get<double>(), 1000);
  std::ofstream(home_ / "mixed.json") << R"({"adjacency": "add-remove", "events": [
    {"type": "pure", "epsilon": 0.1, "adjacency": "replace-one"}]})";
  EXPECT_EQ(Run({"account", "events", "mixed.json", "--delta", "1e-5"}).code,
            static_cast<int>(Code::kMalformed));
}

TEST_F(CliTest, EveryAccountHasTheSameFields) {
  Write("releases.json", R"({"adjacency": "add-remove", "delta": 1e-6, "events": [
    {"type": "gaussian", "noise_multiplier": 5, "count": 10}, {"type": "pure", "epsilon": 0.1}]})");
  const json trained = RunJson({"train", Small()});
  const std::vector<std::vector<std::string>> kCommands = {
      {"account", "gaussian", "--noise-multiplier", "2.5", "--rounds", "50", "--delta", "1e-5"},
      {"account", "gaussian", "--epsilon", "1", "--rounds", "50", "--delta", "1e-5"},
      {"account", "subsampled-gaussian", "--noise-multiplier", "1", "--rate", "0.01", "--sampling", "poisson",
       "--rounds", "1000", "--delta", "1e-5"},
      {"account", "pure", "--epsilon", "0.1", "--rounds", "100", "--delta", "1e-6"},
      {"account", "priv-unit", "--epsilon-direction", "4", "--epsilon-scalar", "2", "--dimension", "100",
       "--rounds", "50", "--delta", "1e-5"},
      {"account", "events", "releases.json"},
      {"account", "ledger", trained["folder"].get<std::string>()},
      {"account", "compare", "--noise-multiplier", "1", "--rate", "0.01", "--rounds", "1000", "--delta",
       "1e-5"},
      {"account", "compare", "--mechanism", "pure", "--epsilon", "0.1", "--rounds", "10", "--delta", "1e-5"},
      {"account", "compare", "--events", "releases.json"},
      {"calibrate", "--epsilon", "1", "--delta", "1e-5", "--rounds", "100"},
      {"calibrate", "--epsilon", "1", "--delta", "1e-5", "--noise-multiplier", "10"},
      {"calibrate", "--epsilon", "1", "--delta", "1e-5", "--noise-multiplier", "1", "--rounds", "100"},
      {"calibrate", "--epsilon", "2", "--delta", "1e-5", "--mechanism", "priv-unit", "--dimension", "10",
       "--rounds", "2"},
      {"calibrate", "--epsilon", "1", "--events", "releases.json"},
      {"calibrate", "--epsilon", "30", "--solve", "rounds", "--events", "releases.json"},
      {"calibrate", "--epsilon", "1", "--solve", "delta", "--events", "releases.json"},
      {"calibrate", "--solve", "epsilon", "--mechanism", "laplace", "--epsilon-per-release", "0.1",
       "--rounds", "1", "--delta", "1e-5"}};
  for (std::vector<std::string> command : kCommands) {
    SCOPED_TRACE(fmt::format("{} {} {}", command[0], command[1], command[2]));
    const json plain = RunJson(command);
    for (const char* key : {"epsilon", "epsilon_lower", "delta", "seconds"})
      EXPECT_TRUE(plain.contains(key) && plain[key].is_number()) << key;
    for (const char* key : {"method", "adjacency"}) EXPECT_TRUE(plain[key].is_string()) << key;
    EXPECT_LE(plain["epsilon_lower"].get<double>(), plain["epsilon"].get<double>());
    // As text: the adjacency is there, it may be given, and a curve asked for.
    command.insert(command.end(), {"--adjacency", plain["adjacency"].get<std::string>(), "--plot"});
    const Outcome o = Run(command);
    EXPECT_EQ(o.code, 0) << o.err;
    for (const char* part : {"adjacency ", "method ", "δ at most", "the truth lies in", "█"})
      EXPECT_NE(o.out.find(part), std::string::npos) << part << " is not in\n" << o.out;
    command.back() = "--curve";
    EXPECT_EQ(RunJson(command)["curve"].size(), 16u);
  }
}

TEST_F(CliTest, TextNeverContradictsJson) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"account", "subsampled-gaussian", "--noise-multiplier", "1", "--rate", "0.01", "--rounds", "1000",
            "--delta", "1e-5", "--sampling", "fixed"},
           {"account", "subsampled-gaussian", "--noise-multiplier", "1", "--rate", "0.001", "--rounds", "7",
            "--delta", "1e-6"},
           {"account", "pure", "--epsilon", "0.1", "--rounds", "100", "--delta", "1e-6"},
           {"calibrate", "--epsilon", "2", "--noise-multiplier", "1", "--rate", "0.01", "--rounds", "1000",
            "--solve", "delta"}}) {
    SCOPED_TRACE(command[1]);
    const json exact = RunJson(command);
    const std::string text = Run(command).out;
    const auto bracket = [&](std::size_t from, double lower, double upper) {
      const std::size_t at = text.find("the truth lies in [", from);
      ASSERT_NE(at, std::string::npos) << text;
      double low = 0, high = 0;
      ASSERT_EQ(std::sscanf(text.c_str() + at, "the truth lies in [%lf, %lf]", &low, &high), 2) << text;
      EXPECT_LE(low, lower);
      EXPECT_GE(high, upper);
      EXPECT_NEAR(low, lower, 1e-10 * lower);
      EXPECT_NEAR(high, upper, 1e-10 * upper);
    };
    bracket(0, exact["epsilon_lower"].get<double>(), exact["epsilon"].get<double>());
    if (exact.contains("delta_lower"))
      bracket(text.find("found for this ε"), exact["delta_lower"].get<double>(),
              exact["delta"].get<double>());
  }
}

TEST_F(CliTest, SaysWhatSamplesAssumeUnderReplaceOne) {
  const std::vector<std::string> command = {"account",
                                            "subsampled-gaussian",
                                            "--noise-multiplier",
                                            "1",
                                            "--rate",
                                            "0.01",
                                            "--rounds",
                                            "10",
                                            "--delta",
                                            "1e-5"};
  EXPECT_FALSE(RunJson(command).contains("assumes"));
  std::vector<std::string> replace = command;
  replace.insert(replace.end(), {"--adjacency", "replace-one", "--group", "2"});
  EXPECT_NE(RunJson(replace)["assumes"].get<std::string>().find("both the norm"), std::string::npos);
  const std::string text = Run(replace).out;
  EXPECT_NE(text.find("both the norm of a unit's value and the distance of two"), std::string::npos) << text;
  // The bracket of one unit, and that of the group.
  const std::size_t first = text.find("the truth lies in [");
  EXPECT_NE(text.find("the truth lies in [", first + 1), std::string::npos) << text;
  EXPECT_NE(Run({"account", "subsampled-gaussian", "--help"}).out.find("clipped at C"), std::string::npos);
  replace.insert(replace.end(), {"--sampling", "fixed"});
  EXPECT_FALSE(RunJson(replace).contains("assumes"));
}

TEST_F(CliTest, NoDeltaIsAnswered) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"account", "gaussian", "--noise-multiplier", "1", "--delta", "0"},
           {"account", "subsampled-gaussian", "--noise-multiplier", "1", "--rate", "0.1", "--rounds", "10",
            "--delta", "0"}})
    EXPECT_EQ(RunJson(command)["epsilon"], "inf") << command[1];
}

TEST_F(CliTest, ComparesCompositions) {
  const json r = RunJson({"account", "compare", "--mechanism", "pure", "--epsilon", "0.1", "--rounds", "100",
                          "--delta", "1e-6"});
  EXPECT_NEAR(r["basic"].get<double>(), 10, 1e-9);
  EXPECT_NEAR(r["advanced"].get<double>(), std::sqrt(200 * std::log(1e6)) * 0.1 + 10 * std::expm1(0.1), 1e-9);
  EXPECT_EQ(r["exact"], r["epsilon"]);
  for (const char* key : {"optimal", "zcdp", "rdp"})
    EXPECT_GE(r[key].get<double>(), r["epsilon"].get<double>()) << key;
  const json sampled = RunJson({"account", "compare", "--noise-multiplier", "1", "--rate", "0.01", "--rounds",
                                "1000", "--delta", "1e-5"});
  EXPECT_TRUE(sampled["zcdp"].is_null());
  EXPECT_NEAR(sampled["rdp"].get<double>(), 2.1018, 1e-3);
}

TEST_F(CliTest, EveryVerbHasHelpWithExamplesAndJson) {
  const std::vector<std::vector<std::string>> kVerbs = {{"train"},
                                                        {"plan"},
                                                        {"account"},
                                                        {"account", "claims"},
                                                        {"account", "gaussian"},
                                                        {"account", "ledger"},
                                                        {"account", "subsampled-gaussian"},
                                                        {"account", "pure"},
                                                        {"account", "priv-unit"},
                                                        {"account", "events"},
                                                        {"account", "compare"},
                                                        {"calibrate"},
                                                        {"sweep"},
                                                        {"predict"},
                                                        {"evaluate"},
                                                        {"reproduce"},
                                                        {"data", "list"},
                                                        {"data", "info"},
                                                        {"data", "fetch"},
                                                        {"verify"},
                                                        {"audit"},
                                                        {"sign"},
                                                        {"keys", "new"},
                                                        {"keys", "show"},
                                                        {"keys", "ca"},
                                                        {"keys", "issue"},
                                                        {"keys", "revoke"},
                                                        {"serve"},
                                                        {"join"},
                                                        {"options"},
                                                        {"completion"},
                                                        {"version"},
                                                        {"help"}};
  for (std::vector<std::string> verb : kVerbs) {
    SCOPED_TRACE(verb.front());
    std::vector<std::string> topic = {"help"};
    topic.insert(topic.end(), verb.begin(), verb.end());
    verb.emplace_back("--help");
    const Outcome o = Run(verb);
    EXPECT_EQ(o.code, 0);
    for (const char* part : {"Usage: tacit", "Examples:", "--json", "--set", "--threads"})
      EXPECT_NE(o.out.find(part), std::string::npos) << part << " is not in\n" << o.out;
    EXPECT_EQ(Run(topic).out, o.out);
  }
  EXPECT_TRUE(RunJson({"data", "list"})["sets"].is_array());
  EXPECT_EQ(RunJson({"data", "info", "a6a"})["features"], 122);
  EXPECT_GT(RunJson({"options"})["options"].size(), 40u);
  EXPECT_TRUE(RunJson({"reproduce", "--list"})["figures"].is_array());
  EXPECT_TRUE(RunJson({"version"}).contains("version"));
  EXPECT_TRUE(RunJson({"completion", "bash"}).contains("script"));
  EXPECT_NE(Run({"help", "exit-codes"}).out.find("130"), std::string::npos);
  EXPECT_NE(Run({"options", "--markdown"}).out.find("| `epsilon` |"), std::string::npos);
}

TEST_F(CliTest, AnAuditThatWasKilledEndsWithTheSameFigures) {
  const std::vector<std::string> verb = {"audit", Small(),   "--rounds", "2",     "--runs",
                                         "20000", "--state", "a.json",   "--json"};
  const pid_t child = Start(verb);
  for (int i = 0; i < 6000 && !fs::exists(home_ / "a.json"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(fs::exists(home_ / "a.json"));
  ::kill(child, SIGKILL);
  Wait(child);
  const Outcome rest = Run(verb);
  ASSERT_EQ(rest.code, 0) << rest.err;
  fs::remove(home_ / "a.json");
  const json one = json::parse(rest.out, nullptr, false), whole = json::parse(Run(verb).out, nullptr, false);
  for (const char* figure : {"counts", "measured_epsilon", "most_reach", "noise", "shared_noise"})
    EXPECT_EQ(one[figure], whole[figure]) << figure;
  EXPECT_EQ(whole["certificate_broken"], false);
}

TEST_F(CliTest, ManualPagesOfEveryVerbAreWellFormed) {
  const json made = RunJson({"help", "--man", "man"});
  const std::string main = Slurp(home_ / "man/tacit.1");
  for (const char* part : {".TH \"TACIT\" 1", ".SH ENVIRONMENT", "TACIT_DATA", ".BR tacit\\-train (1)"})
    EXPECT_NE(main.find(part), std::string::npos) << part;
  const bool groff = std::system("command -v groff >/dev/null") == 0;  // NOLINT(concurrency-mt-unsafe)
  for (const json& page : made["pages"]) {
    SCOPED_TRACE(page.get<std::string>());
    const fs::path file = home_ / "man" / page.get<std::string>();
    EXPECT_NE(Slurp(file).find(".SH SYNOPSIS"), std::string::npos);
    if (!groff) continue;  // its warnings are about macros and requests it does not know
    const std::string to = (home_ / "groff.txt").string();
    EXPECT_EQ(
        std::system(fmt::format("groff -K utf8 -man -Tutf8 -wall -z {} 2>{}", file.string(), to)  // NOLINT
                        .c_str()),
        0);
    EXPECT_EQ(Slurp(to), "");
  }
  EXPECT_EQ(Run({"help", "train", "--man", "man"}).code, 2);
}

TEST_F(CliTest, CompletionScriptsParse) {
  const Outcome script = Run({"completion", "bash"});
  ASSERT_EQ(script.code, 0);
  Write("complete.bash",
        script.out +
            "COMP_WORDS=(tacit tr); COMP_CWORD=1; _tacit; echo \"${COMPREPLY[*]}\"\n"
            "COMP_WORDS=(tacit train --thr); COMP_CWORD=2; _tacit; echo \"${COMPREPLY[*]}\"\n");
  const std::string out = (home_ / "complete.out").string();
  ASSERT_EQ(std::system(fmt::format("bash {} > {} 2>&1", (home_ / "complete.bash").string(), out).c_str()), 0)
      << Slurp(out);
  EXPECT_EQ(Slurp(out), "train\n--threads\n");
}

TEST_F(CliTest, AnAuthorityMayBeLocked) {
  Write("phrase", "open sesame\n");
  Write("wrong", "shut sesame\n");
  const json made = RunJson({"keys", "ca", "ca", "--encrypt", "--passphrase-file", "phrase"});
  EXPECT_EQ(made["encrypted"], true);
  EXPECT_NE(Slurp(home_ / "ca/ca.key").find("ENCRYPTED"), std::string::npos);
  EXPECT_EQ(Run({"keys", "issue", "north", "--ca", "ca", "--passphrase-file", "wrong"}).code, kWrong);
  EXPECT_FALSE(fs::exists(home_ / "north.key"));
  EXPECT_EQ(RunJson({"keys", "issue", "north", "--ca", "ca", "--passphrase-file", "phrase"})["name"],
            "north");
  EXPECT_EQ(RunJson({"keys", "revoke", "north", "--ca", "ca", "--passphrase-file", "phrase"})["revoked"], 1);
  const Outcome open = Run({"keys", "ca", "open"});
  EXPECT_NE(open.out.find("crl.pem  (for everyone who takes part)"), std::string::npos) << open.out;
  EXPECT_EQ(RunJson({"keys", "issue", "north", "--ca", "open", "--out", "keys"})["name"], "north");
}

// A terminal that was asked for a passphrase shows what is typed again, also where the answer is Ctrl-C.
TEST_F(CliTest, AQuestionThatIsNotAnsweredGivesTheTerminalBack) {
  int master = -1, terminal = -1;
  ASSERT_EQ(::openpty(&master, &terminal, nullptr, nullptr, nullptr), 0);
  const auto echoes = [&] {
    termios now{};
    EXPECT_EQ(::tcgetattr(terminal, &now), 0);
    return (now.c_lflag & ECHO) != 0;
  };
  ASSERT_TRUE(echoes());
  const std::string key = (home_ / "mine").string();
  const pid_t child = ::fork();
  if (child == 0) {
    ::unsetenv("TACIT_PASSPHRASE_FILE");
    if (::setsid() < 0 || ::ioctl(terminal, TIOCSCTTY, 0) != 0) ::_exit(127);
    ::execl(program_.c_str(), program_.c_str(), "keys", "new", key.c_str(), "--encrypt", nullptr);
    ::_exit(127);
  }
  int state = 0;
  bool ended = false;
  while (echoes() && !ended) {
    ended = ::waitpid(child, &state, WNOHANG) == child;
    ::usleep(1000);
  }
  ASSERT_FALSE(ended) << "nothing was asked";
  ASSERT_EQ(::write(master, "half\x03", 5), 5);
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFSIGNALED(state) && WTERMSIG(state) == SIGINT) << state;
  EXPECT_TRUE(echoes());
  EXPECT_FALSE(fs::exists(key + ".pem"));
  ::close(master);
  ::close(terminal);
}

// A file is known by its canonical path, from wherever it is named; a limit that no run would meet is none.
TEST_F(CliTest, ALimitIsOnADataSetThatRunsGoBy) {
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += fmt::format("0.{},0.{},{}\n", i % 7, i % 5, i % 2 == 0 ? 1 : -1);
  fs::create_directories(home_ / "data");
  Write("data/patients.csv", rows);
  const std::string config = Write(
      "rows.toml",
      "data = { source = \"data/patients.csv\", rows = 20, features = 2, clients = 2, row_norm = \"clip\" }\n"
      "model = { l2 = 0.1 }\nprivacy = { epsilon = 2, noise = \"replayable\" }\nalgorithm = { rounds = 3 "
      "}\n");
  const std::string path = fs::canonical(home_ / "data/patients.csv").string();
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train", config, "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return Run(all).code;
  };
  // Nothing is known yet.
  const Outcome none = Run({"ledger", "limit", "patients.csv", "--epsilon", "1"});
  EXPECT_EQ(none.code, 3) << none.out << none.err;
  EXPECT_NE(none.err.find("--new"), std::string::npos) << none.err;
  EXPECT_FALSE(fs::exists(home_ / "runs"));
  for (const char* name : {"data/patients.csv", "./data/../data/patients.csv"})
    EXPECT_EQ(RunJson({"ledger", "limit", name, "--epsilon", "1"})["data"], path);
  EXPECT_EQ(train({}), 5);
  EXPECT_EQ(RunJson({"ledger", "limit", "data/patients.csv", "--none"})["data"], path);
  EXPECT_EQ(train({}), 0);
  EXPECT_EQ(RunJson({"ledger", "show", "data/patients.csv"})["data_sets"][0]["data"], path);
  // The ledger's own name needs no file, and a wrong one is told the right ones.
  fs::rename(home_ / "data", home_ / "moved");
  EXPECT_EQ(RunJson({"ledger", "limit", path, "--epsilon", "9"})["data"], path);
  const Outcome wrong = Run({"ledger", "limit", "patients.csv", "--epsilon", "1"});
  EXPECT_EQ(wrong.code, 3);
  EXPECT_NE(wrong.err.find(path), std::string::npos) << wrong.err;
  fs::rename(home_ / "moved", home_ / "data");
  // Names of one's own, and of the catalogue.
  EXPECT_EQ(Run({"ledger", "limit", "mine", "--epsilon", "1"}).code, 3);
  EXPECT_EQ(RunJson({"ledger", "limit", "mine", "--epsilon", "1", "--new"})["data"], "mine");
  EXPECT_EQ(RunJson({"ledger", "limit", "mine", "--epsilon", "1"})["data"], "mine");
  EXPECT_EQ(RunJson({"ledger", "limit", "a9a", "--epsilon", "1"})["data"], "a9a");
}

}  // namespace
}  // namespace tacit
