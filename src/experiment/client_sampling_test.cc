// Samples of clients from a config to a certificate: what is drawn in secret is credited and shown to nobody,
// the plan is paid for as a whole, and certificates that claim too much are found out.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "experiment/client_runs.h"
#include "experiment/kill_runs.h"
#include "privacy/calibrate.h"
#include "privacy/data_ledger.h"
#include "privacy/event_json.h"

namespace tacit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Sets = std::vector<Assignment>;

class ClientSampling : public ClientRuns {
 protected:
  ClientSampling()
      : ClientRuns({{"data.clients", "40"}, {"privacy.trust", "central"}, {"algorithm.rounds", "20"}}) {}
  RunResult Good(const Sets& sets, const TrainHooks& hooks = {}, const char* where = "runs") const {
    return ClientRuns::Good(Make(sets, where), hooks);
  }
};

Sets With(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}
const Sets kPoisson = {{"algorithm.sampling", "poisson"}, {"algorithm.sample_rate", "0.2"}};
const Sets kFixed = {{"algorithm.sampling", "fixed"}, {"algorithm.sample_clients", "8"}};

struct Case {
  const char* name;
  const Sets* sampling;
  const char* adjacency;
};
const Case kCases[] = {
    {"fedexp", &kPoisson, "add-remove"},       {"fedexp", &kPoisson, "zero-out"},
    {"fedexp", &kPoisson, "replace-one"},      {"fedexp", &kFixed, "replace-one"},
    {"dp-fedavg", &kPoisson, "add-remove"},    {"dp-fedavg", &kFixed, "replace-one"},
    {"dp-scaffold", &kPoisson, "replace-one"}, {"dp-scaffold", &kPoisson, "add-remove"},
};

TEST_F(ClientSampling, AClipThatMovesIsOneReleaseOfTheSample) {
  for (const auto& [sampling, adjacency] :
       {std::pair(&kPoisson, "add-remove"), std::pair(&kFixed, "replace-one")}) {
    const RunResult r = Good(With(*sampling, {{"algorithm.name", "dp-fedavg"},
                                              {"privacy.adjacency", adjacency},
                                              {"algorithm.clip_quantile", "0.5"}}));
    EXPECT_LE(r.certified_epsilon, 2.0);
    Holds(r.folder);
  }
}

TEST_F(ClientSampling, ThePlanKeepsTheBudgetAndTheCertificateHolds) {
  for (const Case& c : kCases)
    for (const char* mechanism : {"lattice_gaussian", "gaussian"}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", c.name, (*c.sampling)[0].value, c.adjacency, mechanism));
      const RunResult r = Good(With(*c.sampling, {{"algorithm.name", c.name},
                                                  {"privacy.adjacency", c.adjacency},
                                                  {"privacy.mechanism", mechanism}}));
      EXPECT_LE(r.certified_epsilon, 2.0);
      EXPECT_GT(r.certified_epsilon, 2 * (1 - 1e-5));
      EXPECT_LE(r.certified_epsilon_lower, r.certified_epsilon);
      EXPECT_EQ(r.rounds_done, 20u);
      EXPECT_EQ(r.bytes_up, r.plan.bytes_up);
      EXPECT_EQ(r.bytes_down, r.plan.bytes_down);
      EXPECT_GT(Norm(r.model), 0);
      Holds(r.folder);
    }
}

// q = 0.01, σ = Δ, a thousand rounds: what `tacit account subsampled-gaussian` says is what the certificate
// says.
TEST_F(ClientSampling, TheAccountOfARunIsThatOfTheAccountant) {
  const ReleasePlan plain{.adjacency = Adjacency::kAddOrRemove, .noise = 1, .rounds = 1000, .rate = 0.01};
  const auto account = AccountOf(plain);
  ASSERT_TRUE(account.ok());
  const auto epsilon = account->EpsilonAt(Delta{1e-5});
  ASSERT_TRUE(epsilon.ok());
  EXPECT_NEAR(epsilon->upper, 1.8283, 1e-3);
  const RunResult r = Good({{"algorithm.name", "dp-fedavg"},
                            {"algorithm.sampling", "poisson"},
                            {"algorithm.sample_rate", "0.01"},
                            {"algorithm.rounds", "1000"},
                            {"privacy.adjacency", "add-remove"},
                            {"privacy.mechanism", "gaussian"},
                            {"privacy.delta", "1e-5"},
                            {"privacy.epsilon", fmt::format("{}", epsilon->upper)}});
  EXPECT_NEAR(r.releases[0].sigma[0] / r.releases[0].sensitivity, 1, 1e-8);
  EXPECT_NEAR(r.certified_epsilon, epsilon->upper, 1e-8);
  EXPECT_LE(r.certified_epsilon, epsilon->upper);
  const json certificate = json::parse(ReadFile(r.folder / "certificate.json"));
  const json& event = certificate["account"]["events"][0];
  EXPECT_EQ(event["type"], "poisson-gaussian");
  EXPECT_EQ(event["count"], 1000);
  EXPECT_EQ(event["rate"], 0.01);
  Holds(r.folder);
  // Without credit for the sample the same noise would cost twenty-five times as much.
  Accountant unsampled(Adjacency::kAddOrRemove);
  ASSERT_TRUE(unsampled.Compose(JointGaussianEvent{Mu{1.0}}, 1000).ok());
  EXPECT_GT(unsampled.EpsilonAt(Delta{1e-5})->lower, 25 * r.certified_epsilon);
}

// Noise apart, a sample of everyone is everyone, bit for bit.
TEST_F(ClientSampling, ASampleOfEveryoneIsAFullRound) {
  for (const char* name : {"fedexp", "dp-fedavg", "dp-scaffold"}) {
    const Sets plain = {{"algorithm.name", name}, {"privacy.mechanism", "expose"}};
    const Vec full = Good(plain).model;
    EXPECT_EQ(Good(With(plain, {{"algorithm.sampling", "poisson"}, {"algorithm.sample_rate", "1"}})).model,
              full);
    if (name == std::string("dp-scaffold")) continue;
    EXPECT_EQ(Good(With(plain, {{"algorithm.sampling", "fixed"}, {"algorithm.sample_clients", "40"}})).model,
              full);
  }
}

TEST_F(ClientSampling, ModelsAreTheSameForAnyNumberOfThreads) {
  for (const Case& c : kCases) {
    const Sets sets = With(*c.sampling, {{"algorithm.name", c.name}, {"privacy.adjacency", c.adjacency}});
    Vec first;
    for (const unsigned threads : {1u, 2u, 3u, 8u}) {
      TrainHooks hooks;
      hooks.threads = threads;
      hooks.write_folder = false;
      const Vec model = Good(sets, hooks).model;
      if (first.empty()) first = model;
      EXPECT_EQ(model, first) << c.name << " " << threads;
    }
  }
}

TEST_F(ClientSampling, AnInterruptedRunPaysForItsWholePlanAndGoesOnBitForBit) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("{} {} {}", c.name, (*c.sampling)[0].value, c.adjacency));
    const Sets sets = With(*c.sampling, {{"algorithm.name", c.name}, {"privacy.adjacency", c.adjacency}});
    const RunResult whole = Good(sets, {}, "whole");
    std::atomic<bool> interrupt{false};
    TrainHooks hooks;
    hooks.interrupt = &interrupt;
    hooks.progress = [&](const Progress& p) {
      EXPECT_TRUE(p.planned);
      interrupt = p.round >= 7;
    };
    const RunResult part = Good(sets, hooks, "part");
    EXPECT_EQ(part.rounds_done, 7u);
    EXPECT_EQ(part.certified_epsilon, whole.certified_epsilon);
    EXPECT_EQ(part.certified_epsilon_lower, 0);
    Holds(part.folder);
    const json certificate = json::parse(ReadFile(part.folder / "certificate.json"));
    EXPECT_NE(certificate["caveats"].dump().find("those of its whole plan"), std::string::npos);
    const auto rest = Resume(part.folder, {{"runtime.threads", "2"}});
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    EXPECT_EQ(rest->model, whole.model);
    EXPECT_EQ(rest->certified_epsilon, whole.certified_epsilon);
    EXPECT_EQ(ReadFile(part.folder / "trace.jsonl"), ReadFile(whole.folder / "trace.jsonl"));
    Holds(part.folder);
  }
}

TEST_F(ClientSampling, KilledRunsEndAsIfTheyHadLived) {
  KillRuns(home_ / "kills", 6,
           With(kPoisson, {{"algorithm.name", "dp-scaffold"},
                           {"privacy.unit", "client"},
                           {"privacy.trust", "central"},
                           {"privacy.adjacency", "zero-out"},
                           {"algorithm.allocation", "static"}}));
}

// Of two runs with other samples the folders differ in what was released, and in nothing else.
TEST_F(ClientSampling, TheFolderTellsNobodyWhoTookPartOrHowMany) {
  for (const Sets* sampling : {&kPoisson, &kFixed}) {
    const Sets sets = With(*sampling, {{"privacy.noise", "entropy"}, {"data.split", "dirichlet"}});
    const RunResult a = Good(sets), b = Good(sets);
    EXPECT_NE(a.model, b.model);
    const auto released = [](const fs::path& file) {
      json j = json::parse(ReadFile(file));
      for (const char* key : {"run", "folder", "model_sha256", "model", "metrics"}) j.erase(key);
      return j;
    };
    for (const char* name : {"certificate.json", "result.json"})
      EXPECT_EQ(released(a.folder / name), released(b.folder / name)) << name;
    EXPECT_TRUE(json::parse(ReadFile(a.folder / "result.json"))["seconds"].is_null());
    std::istringstream left(ReadFile(a.folder / "trace.jsonl")), right(ReadFile(b.folder / "trace.jsonl"));
    for (std::string x, y; std::getline(left, x) && std::getline(right, y);) {
      json p = json::parse(x), q = json::parse(y);
      EXPECT_FALSE(p.contains("answered"));
      for (const char* key : {"step_size", "metrics"}) p.erase(key), q.erase(key);  // functions of releases
      EXPECT_EQ(p, q);
    }
    const auto ledgers = {SqliteVault::Read(a.folder / "ledger.db"),
                          SqliteVault::Read(b.folder / "ledger.db")};
    for (const auto& ledger : ledgers) {
      ASSERT_TRUE(ledger.ok());
      for (const double spent : ledger->front().spent) EXPECT_TRUE(std::isinf(spent));
    }
    std::set<std::string> files;
    for (const auto& file : fs::directory_iterator(a.folder)) files.insert(file.path().filename().string());
    for (const char* name : {"config.toml", "ledger.db", "ledger.db-wal", "ledger.db-shm", "trace.jsonl",
                             "model.npy", "certificate.json", "certificate.txt", "result.json"})
      files.erase(name);
    EXPECT_TRUE(files.empty()) << *files.begin() << ": a file that this test does not look at";
  }
}

// With three clients at a rate of 2 % nearly every round is empty, and looks like every other round.
TEST_F(ClientSampling, ARoundWithoutAnybodyReleasesNoiseAllTheSame) {
  const RunResult r = Good({{"algorithm.name", "dp-fedavg"},
                            {"algorithm.sampling", "poisson"},
                            {"algorithm.sample_rate", "0.02"},
                            {"algorithm.rounds", "5"},
                            {"data.clients", "3"},
                            {"privacy.adjacency", "add-remove"}});
  EXPECT_GT(Norm(r.model), 0);
  Holds(r.folder);
  std::istringstream lines(ReadFile(r.folder / "trace.jsonl"));
  std::size_t rounds = 0;
  for (std::string line; std::getline(lines, line); ++rounds) EXPECT_EQ(json::parse(line)["step_size"], 1.0);
  EXPECT_EQ(rounds, 5u);
}

TEST_F(ClientSampling, ForgedCertificatesAreFound) {
  const RunResult r = Good(With(kPoisson, {{"privacy.adjacency", "add-remove"}}));
  const json honest = json::parse(ReadFile(r.folder / "certificate.json"));
  ASSERT_TRUE(Verify(honest, "honest")->findings.empty());
  const auto found = [&](const std::string& figure, auto forge) {
    json forged = honest;
    forge(forged);
    const auto v = Verify(forged, "forged");
    if (!v.ok()) return false;
    for (const Finding& f : v->findings)
      if (f.figure == figure) return true;
    return false;
  };
  // All that follows from forged events, so that nothing but the events themselves can be wrong.
  const auto settle = [](json& c) {
    const auto file = ParseEvents(
        json{{"adjacency", c["privacy"]["adjacency"]}, {"events", c["account"]["events"]}}.dump(), "forged");
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto epsilon = file->account.EpsilonAt(Delta::Proven(c["privacy"]["delta"].get<double>()));
    ASSERT_TRUE(epsilon.ok());
    c["account"]["epsilon"] = c["privacy"]["certified_epsilon"] = c["releases"][0]["epsilon"] =
        epsilon->upper;
    c["account"]["epsilon_lower"] = c["privacy"]["certified_epsilon_lower"] = 0;
  };
  EXPECT_TRUE(found("account.events", [&](json& c) {  // a rate understated in the events alone
    c["account"]["events"][0]["rate"] = 0.1;
    settle(c);
  }));
  EXPECT_TRUE(found("account.events", [&](json& c) {  // one round missing
    c["account"]["events"][0]["count"] = 19;
    settle(c);
  }));
  EXPECT_TRUE(found("account.events", [&](json& c) {  // a smaller sensitivity
    c["account"]["events"][0]["mu"] = c["account"]["events"][0]["mu"].get<double>() / 2;
    settle(c);
  }));
  EXPECT_TRUE(found("releases[0].rounds", [&](json& c) {  // one round missing everywhere below
    c["account"]["events"][0]["count"] = 19;
    c["releases"][0]["rounds"][0] = 19;
    settle(c);
  }));
  EXPECT_TRUE(found("account.epsilon", [](json& c) {
    c["account"]["epsilon"] = c["privacy"]["certified_epsilon"] = c["releases"][0]["epsilon"] = 1.9;
  }));
  EXPECT_TRUE(found("privacy.sampling.secret", [](json& c) { c["privacy"]["trust"] = "local"; }));
  EXPECT_TRUE(found("account", [](json& c) {
    c["privacy"]["sampling"]["secret"] = false;
    c["privacy"]["sampling"]["participations"] = c["releases"][0]["turns"] = 20;
  }));
  EXPECT_TRUE(found("account", [](json& c) { c["privacy"]["sampling"] = nullptr; }));
  EXPECT_TRUE(found("account", [](json& c) { c["account"] = nullptr; }));
  EXPECT_TRUE(found("releases[0].units", [](json& c) { c["clients"] = 80; }));
  EXPECT_TRUE(found("privacy.certified_epsilon", [](json& c) { c["privacy"]["certified_epsilon"] = 1.0; }));

  EXPECT_TRUE(found("rounds.skipped", [&](json& c) {  // rounds that the plan would not have to pay for
    c["rounds"]["skipped"] = 5, c["rounds"]["done"] = c["rounds"]["done"].get<int>() - 5;
    c["account"]["events"][0]["count"] = c["account"]["events"][0]["count"].get<int>() - 5;
    c["releases"][0]["rounds"][0] = c["releases"][0]["rounds"][0].get<int>() - 5;
    settle(c);
  }));
  // Without noise, whatever an account says.
  for (const char* figure : {"account", "privacy.certified_epsilon"})
    EXPECT_TRUE(found(figure, [](json& c) {
      c["mechanism"]["name"] = "expose", c["mechanism"]["noise"] = "none";
      c["releases"][0]["sigma"] = c["releases"][0]["rounds"] = json::array();
    })) << figure;
  Holds(Good(With(kPoisson, {{"privacy.mechanism", "expose"}})).folder);
  // How many did not answer tells how many were asked.
  const std::string trace = ReadFile(r.folder / "trace.jsonl");
  for (const std::string key : {"answered", "missed"}) {
    json line = json::parse(trace.substr(0, trace.find('\n')));
    line[key] = 3;
    std::ofstream(r.folder / "trace.jsonl", std::ios::binary)
        << line.dump() << trace.substr(trace.find('\n'));
    const auto v = VerifyFolder(r.folder);
    ASSERT_TRUE(v.ok());
    ASSERT_EQ(v->findings.size(), 1u);
    EXPECT_EQ(v->findings[0].figure, "trace.jsonl line 1: " + key);
  }
  std::ofstream(r.folder / "trace.jsonl", std::ios::binary) << trace;

  // Changed consistently, it is found out by the rest of the folder.
  json forged = honest;
  forged["privacy"]["sampling"]["rate"] = forged["account"]["events"][0]["rate"] = 0.1;
  settle(forged);
  EXPECT_TRUE(Verify(forged, "forged")->findings.empty());
  std::ofstream(r.folder / "certificate.json", std::ios::binary) << CertificateJson(forged);
  std::ofstream(r.folder / "certificate.txt", std::ios::binary) << CertificateText(forged);
  const auto v = VerifyFolder(r.folder);
  ASSERT_TRUE(v.ok());
  std::string figures;
  for (const Finding& f : v->findings) figures += f.figure + ";";
  EXPECT_NE(figures.find("privacy.sampling.rate"), std::string::npos) << figures;  // config.toml
  EXPECT_NE(figures.find("account;"), std::string::npos) << figures;  // ledger.db
}

TEST_F(ClientSampling, ARateOfAFixedSampleCountsWhoMightBeInIt) {
  const RunResult r = Good(kFixed);
  EXPECT_GE(r.plan.sampling.rate.value(), 8.0 / 39);  // seen from one of the other clients
  EXPECT_LT(r.plan.sampling.rate.value(), 8.0 / 39 * (1 + 1e-15));
  json forged = json::parse(ReadFile(r.folder / "certificate.json"));
  forged["privacy"]["sampling"]["rate"] = 8.0 / 40;
  const auto v = Verify(forged, "forged");
  ASSERT_TRUE(v.ok());
  EXPECT_FALSE(v->holds());
}

TEST_F(ClientSampling, PlansAddUpInTheCumulativeLedgerByEpsilonAndDelta) {
  const Sets sets =
      With(kPoisson, {{"experiment.ledger", (home_ / "together.db").string()}, {"data.id", "d"}});
  const RunResult a = Good(sets), b = Good(sets);
  Good({{"experiment.ledger", (home_ / "together.db").string()}, {"data.id", "d"}});
  const auto ledger = DataLedger::Read(home_ / "together.db");
  ASSERT_TRUE(ledger.ok());
  const auto totals = Totals(ledger->front());
  ASSERT_EQ(totals.size(), 1u);
  EXPECT_EQ(totals[0].runs, 3u);
  EXPECT_EQ(totals[0].plans, 2u);
  EXPECT_NEAR(totals[0].plan_epsilon, a.certified_epsilon + b.certified_epsilon, 1e-12);
  EXPECT_NEAR(totals[0].plan_delta, 2e-4, 1e-15);
  EXPECT_NEAR(totals[0].EpsilonAt(1e-4), 6.0, 1e-4);
}

// With local trust who answers is seen: nothing is credited, and a client pays for its own rounds.
TEST_F(ClientSampling, WithLocalTrustAClientPaysForTheRoundsItTakesPartIn) {
  for (const char* name : {"fedexp", "dp-fedavg", "dp-scaffold"})
    for (const Sets* sampling : {&kPoisson, &kFixed})
      for (const char* limit : {"0", "3"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name, (*sampling)[0].value, limit));
        const Sets sets =
            With(*sampling,
                 {{"algorithm.name", name}, {"privacy.trust", "local"}, {"algorithm.participations", limit}});
        const RunResult r = Good(sets, {}, "whole");
        Holds(r.folder);
        EXPECT_FALSE(r.plan.account.has_value());
        // The noise is that of a run of so many rounds with everyone in them.
        const Sets plain = {{"algorithm.name", name},
                            {"privacy.trust", "local"},
                            {"algorithm.rounds", limit[0] == '0' ? "20" : limit}};
        const double expected = (*Good(plain).plan.noise[0])[0].value();
        EXPECT_NEAR((*r.plan.noise[0])[0].value() / expected, 1, 1e-12);
        std::istringstream lines(ReadFile(r.folder / "participation.csv"));
        std::string line;
        std::getline(lines, line);
        EXPECT_EQ(line, "client,rounds,epsilon");
        std::size_t clients = 0, most = 0, all = 0;
        double largest = 0;
        while (std::getline(lines, line)) {
          std::istringstream fields(line);
          std::size_t client = 0, rounds = 0;
          double epsilon = 0;
          char comma = 0;
          fields >> client >> comma >> rounds >> comma >> epsilon;
          EXPECT_EQ(client, clients++);
          EXPECT_EQ(rounds == 0, epsilon == 0);
          most = std::max(most, rounds), all += rounds, largest = std::max(largest, epsilon);
        }
        EXPECT_EQ(clients, 40u);
        EXPECT_EQ(most, r.releases[0].turns);
        EXPECT_EQ(largest, r.certified_epsilon);
        if (limit[0] == '3') {
          EXPECT_EQ(most, 3u);
          EXPECT_GT(r.certified_epsilon, 2 * (1 - 1e-5));
          EXPECT_LE(all, 120u);
        } else {
          EXPECT_LT(r.certified_epsilon, 2);  // nobody was in all twenty rounds
          EXPECT_TRUE(sampling != &kFixed || all == 160);
        }
        EXPECT_LE(r.certified_epsilon, 2.0);

        std::atomic<bool> interrupt{false};
        TrainHooks hooks;
        hooks.interrupt = &interrupt;
        hooks.threads = 3;
        hooks.progress = [&](const Progress& p) { interrupt = p.round >= 7; };
        const RunResult part = Good(sets, hooks, "part");
        Holds(part.folder);
        // When it stopped may depend on what it released: whoever took part, all turns count.
        EXPECT_GT(part.certified_epsilon, 2 * (1 - 1e-5));
        std::istringstream stopped(ReadFile(part.folder / "participation.csv"));
        std::getline(stopped, line);
        while (std::getline(stopped, line))
          EXPECT_TRUE(line.ends_with(fmt::format(",{}", part.certified_epsilon))) << line;
        const auto rest = Resume(part.folder, {{"runtime.threads", "2"}});
        ASSERT_TRUE(rest.ok()) << rest.error().message;
        Holds(part.folder);
        EXPECT_EQ(rest->model, r.model);
        EXPECT_EQ(rest->mu, r.mu);
        for (const char* file : {"participation.csv", "trace.jsonl"})
          EXPECT_EQ(ReadFile(part.folder / file), ReadFile(r.folder / file));
      }
}

TEST_F(ClientSampling, TurnsUnderstatedAreFound) {
  const RunResult r = Good(With(kPoisson, {{"privacy.trust", "local"}, {"algorithm.participations", "4"}}));
  const json honest = json::parse(ReadFile(r.folder / "certificate.json"));
  json forged = honest;
  forged["releases"][0]["turns"] = 3;
  EXPECT_FALSE(Verify(forged, "mu no longer follows")->holds());
  forged = honest;
  forged["privacy"]["sampling"]["participations"] = 3;
  EXPECT_FALSE(Verify(forged, "more turns than allowed")->holds());
  forged = honest;
  forged["privacy"]["sampling"]["secret"] = true;
  EXPECT_FALSE(Verify(forged, "secret with local trust")->holds());
  forged["privacy"]["trust"] = "central";
  EXPECT_FALSE(Verify(forged, "secret without events")->holds());

  // A run that was stopped, as one that had skipped the rest.
  forged = honest;
  forged["rounds"]["done"] = forged["releases"][0]["rounds"][0] = 5;
  forged["rounds"]["skipped"] = 15;
  const auto skips = Verify(forged, "rounds that nothing skips");
  ASSERT_TRUE(skips.ok()) << skips.error().message;
  const auto names = [](const Verification& v, const std::string& figure) {
    return std::any_of(v.findings.begin(), v.findings.end(),
                       [&](const Finding& f) { return f.figure == figure; });
  };
  EXPECT_TRUE(names(*skips, "rounds.skipped"));

  // Fewer turns than the draws can be spread over.
  const RunResult fixed = Good(With(kFixed, {{"privacy.trust", "local"}}));
  forged = json::parse(ReadFile(fixed.folder / "certificate.json"));
  forged["releases"][0]["turns"] = 3;  // 20 rounds of 8 of 40 clients: one has had four
  EXPECT_TRUE(names(*Verify(forged, "draws"), "releases[0].turns"));

  // Rounds of records that would count for those who took part alone.
  const auto by_record =
      Train(Make({{"algorithm.name", "dp-fedavg"}, {"privacy.unit", "record"}, {"privacy.trust", "local"}}));
  ASSERT_TRUE(by_record.ok()) << by_record.error().message;
  forged = json::parse(ReadFile(by_record->folder / "certificate.json"));
  forged["privacy"]["sampling"] = honest["privacy"]["sampling"];
  forged["releases"][0]["turns"] = 4;
  const auto records = Verify(forged, "records");
  ASSERT_TRUE(records.ok()) << records.error().message;
  EXPECT_TRUE(names(*records, "privacy.unit"));

  // A client whose rounds, or whose cost, are said to be fewer.
  Holds(r.folder);
  const fs::path file = r.folder / "participation.csv";
  const std::string text = ReadFile(file);
  const auto holds = [&](const std::string& changed) {
    std::ofstream(file, std::ios::binary) << changed;
    return VerifyFolder(r.folder)->holds();
  };
  const std::size_t first = text.find('\n') + 1, comma = text.find(',', first) + 1;
  std::string fewer = text;
  fewer[comma] = text[comma] == '0' ? '1' : '0';
  EXPECT_FALSE(holds(fewer));
  const std::size_t cost = text.find(',', comma) + 1;
  EXPECT_FALSE(holds(text.substr(0, cost) + "0.125" + text.substr(text.find('\n', cost))));
  EXPECT_FALSE(holds(text.substr(0, text.rfind('\n', text.size() - 2) + 1)));
  EXPECT_TRUE(holds(text));

  Holds(Good(With(kPoisson, {{"privacy.trust", "local"}, {"privacy.mechanism", "expose"}})).folder);

  // Of a secret sample there is no such file.
  const RunResult secret = Good(kPoisson);
  std::ofstream(secret.folder / "participation.csv") << text;
  EXPECT_FALSE(VerifyFolder(secret.folder)->holds());
}

TEST_F(ClientSampling, MistakesAreSentencesThatNameThingValueAndRemedy) {
  const struct {
    Sets sets;
    const char* part;
  } kMistakes[] = {
      {With(kPoisson, {{"algorithm.participations", "3"}}), "algorithm.participations = 3"},
      {{{"privacy.trust", "local"}, {"algorithm.participations", "3"}}, "algorithm.participations = 3"},
      {With(kPoisson, {{"privacy.trust", "local"}, {"privacy.adjacency", "add-remove"}}),
       "who takes part is public"},
      {{{"algorithm.sampling", "poisson"}}, "algorithm.sample_rate is not set"},
      {{{"algorithm.sample_rate", "0.1"}}, "is for algorithm.sampling = \"poisson\""},
      {{{"algorithm.sample_clients", "3"}}, "is for algorithm.sampling = \"fixed\""},
      {{{"algorithm.sampling", "fixed"}}, "how many of the 40 clients"},
      {{{"algorithm.sampling", "fixed"}, {"algorithm.sample_clients", "41"}}, "how many of the 40 clients"},
      {With(kFixed, {{"privacy.adjacency", "zero-out"}}), "set privacy.adjacency = \"replace-one\""},
      {With(kFixed, {{"privacy.adjacency", "add-remove"}}), "algorithm.sampling = \"poisson\""},
      {With(kFixed, {{"algorithm.name", "dp-scaffold"}}), "remember their turns"},
      {{{"privacy.adjacency", "add-remove"}}, "who takes part is public"},
      {With(kPoisson, {{"algorithm.mode", "paper"}, {"algorithm.noise_multiplier", "5"}}), "certified mode"},
      {With(kPoisson,
            {{"privacy.unit", "record"}, {"privacy.trust", "local"}, {"algorithm.name", "dp-fedavg"}}),
       "where they are what is hidden"},
      {With(kPoisson, {{"model.l2", "0.1"}}), "the same in every round"},
      {With(kPoisson, {{"algorithm.variance_cap", "1e-3"}}), "this sampling needs variance"},
  };
  for (const auto& m : kMistakes) {
    const std::string why = Why(m.sets);
    EXPECT_NE(why.find(m.part), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace tacit
